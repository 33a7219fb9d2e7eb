"""Streams that end window by window, views over them, and the same answers by DuckDB.

Rows of a window come in increments, each up to a second late in the order of time, and a watermark of two seconds follows
them; so no row is late, and a window is over soon after it. Every column is a whole number or an instant, so that answers
are compared as arrays of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import headwater as hw

Tables = dict[str, pa.Table]
Ints = np.ndarray[Any, np.dtype[np.int64]]

WIDTH = 10_000_000
"""Microseconds of a window."""
LATE = 1_000_000
"""Microseconds by which a row may come late in the order of time, which the watermark allows for twice."""
DELAY = "2 seconds"
BEGIN = 1_700_000_000_000_000
INSTANT = pa.timestamp("us", "UTC")
NULL = -1

BID = "auction BIGINT, bidder BIGINT, price BIGINT, ts TIMESTAMP"
AUCTION = "id BIGINT, seller BIGINT, category BIGINT, ts TIMESTAMP, expires TIMESTAMP"
PERSON = "id BIGINT, state BIGINT, ts TIMESTAMP"
TICK = "auction BIGINT, tick BIGINT, price BIGINT"


@dataclass(frozen=True)
class Case:
    """A view over streams: its query, the same for DuckDB, and rows of the streams by where they come."""

    name: str
    sources: dict[str, str]
    query: str
    peer: str
    rows: Callable[[Ints, float, np.random.Generator], Tables]
    """Rows of some places in the stream, of so many microseconds each."""
    grows: str = ""
    """Why the state grows, where that is known."""
    column: str = "ts"
    delay: Any = DELAY

    def open(self, path: Any, closing: bool, **more: Any) -> hw.Database:
        """A database with the view; its twin that is never closed has the same sources without schemes."""
        db = hw.open(path, **more)
        for name, ddl in self.sources.items():
            if closing:
                scheme = hw.watermark(self.column, self.delay)
                db.source(name, ddl, closes=scheme, append_only=True, retain=False)
            else:
                db.source(name, ddl, retain=False)
        db.view("v", self.query)
        return db

    def increments(self, windows: int, rows: int, size: int) -> Iterator[Tables]:
        """The rows of so many windows, increment by increment."""
        rng = np.random.default_rng(16)
        for first in range(0, windows * rows, size):
            places = np.arange(first, min(first + size, windows * rows))
            yield self.rows(places, WIDTH / rows, rng)


def instants(places: Ints, each: float, rng: np.random.Generator) -> Ints:
    """When rows happened, in microseconds: in order, but for some lateness."""
    late = rng.integers(0, LATE, len(places))
    return BEGIN + LATE + (places * each).astype(np.int64) - late


def as_instants(times: Ints) -> pa.Array:
    return pa.array(times, pa.int64()).cast(INSTANT)


def bids(places: Ints, each: float, rng: np.random.Generator) -> Tables:
    """Bids for a thousand auctions, of which the oldest leaves with every hundredth bid."""
    n = len(places)
    return {
        "bid": pa.table(
            {
                "auction": places // 100 + rng.integers(0, 1_000, n),
                "bidder": rng.integers(0, 10_000, n),
                "price": rng.integers(1, 10_000_000, n),
                "ts": as_instants(instants(places, each, rng)),
            }
        )
    }


def people(places: Ints, each: float, rng: np.random.Generator) -> Tables:
    """Persons, and as many auctions, of persons who came shortly before."""
    ids = places[::2] // 2
    n = len(ids)
    ago = rng.integers(0, 2_000, n)
    times = instants(places[::2], each, rng)
    return {
        "person": pa.table(
            {"id": ids, "state": ids % 50, "ts": as_instants(instants(places[::2], each, rng))}
        ),
        "auction": pa.table(
            {
                "id": ids,
                "seller": np.maximum(ids - ago, 0),
                "category": ids % 10,
                "ts": as_instants(times),
                "expires": as_instants(times + WIDTH),
            }
        ),
    }


def auctions(places: Ints, each: float, rng: np.random.Generator) -> Tables:
    """An auction for every nine bids, which go to the last thousand of them."""
    opened = places[places % 10 == 0]
    times = instants(opened, each, rng)
    made = {
        "auction": pa.table(
            {
                "id": opened // 10,
                "seller": rng.integers(0, 1_000, len(opened)),
                "category": opened % 7,
                "ts": as_instants(times),
                "expires": as_instants(times + rng.integers(WIDTH // 2, WIDTH, len(opened))),
            }
        )
    }
    given = places[places % 10 != 0]
    bid = bids(given, each, rng)["bid"]
    which = np.maximum(given // 10 - rng.integers(0, 1_000, len(given)), 0)
    return {**made, "bid": bid.set_column(0, "auction", pa.array(which))}


def ticks(places: Ints, each: float, rng: np.random.Generator) -> Tables:
    """Bids, and looks at half of the auctions within two seconds after them; times are whole seconds."""
    n = len(places)
    tick = (instants(places, each, rng) - BEGIN) // 1_000_000
    auction = places * 7919 % 1_000_003
    seen = rng.random(n) < 0.5
    return {
        "bid": pa.table({"auction": auction, "tick": tick, "price": rng.integers(1, 1_000, n)}),
        "look": pa.table({"auction": auction, "tick": tick, "price": rng.integers(1, 9, n)}).filter(
            pa.array(seen)
        ),
    }


START = f"ts // {WIDTH} * {WIDTH}"
CASES = [
    Case(
        "tumble max",
        {"bid": BID},
        "SELECT window.start AS starts, auction, count(*) AS n, max(price) AS top FROM bid "
        "GROUP BY window(ts, '10 seconds'), auction",
        f"SELECT {START} AS starts, auction, count(*), max(price) FROM bid GROUP BY 1, 2",
        bids,
    ),
    Case(
        "NEXMark 5",
        {"bid": BID},
        """WITH counts AS (SELECT auction, window.start AS starts, count(*) AS num FROM bid
                           GROUP BY auction, window(ts, '10 seconds', '5 seconds')),
                most AS (SELECT starts, max(num) AS maxn FROM counts GROUP BY starts)
           SELECT counts.auction, counts.num, counts.starts FROM counts
           JOIN most ON counts.starts = most.starts AND counts.num >= most.maxn""",
        f"""WITH hops AS (SELECT auction, {START} AS starts FROM bid UNION ALL
                          SELECT auction, (ts - 5000000) // {WIDTH} * {WIDTH} + 5000000 FROM bid),
                 counts AS (SELECT auction, starts, count(*) AS num FROM hops GROUP BY ALL),
                 most AS (SELECT starts, max(num) AS maxn FROM counts GROUP BY starts)
            SELECT c.auction, c.num, c.starts FROM counts c JOIN most m ON c.starts = m.starts AND c.num >= m.maxn""",
        bids,
    ),
    Case(
        "NEXMark 7",
        {"bid": BID},
        """WITH tops AS (SELECT window.start AS starts, window.end AS ends, max(price) AS maxprice FROM bid
                         GROUP BY window(ts, '10 seconds'))
           SELECT b.auction, b.price, b.bidder, b.ts FROM bid b JOIN tops ON b.price = tops.maxprice
           WHERE b.ts >= tops.starts AND b.ts < tops.ends""",
        f"""SELECT auction, price, bidder, ts FROM
            (SELECT *, max(price) OVER (PARTITION BY {START}) AS top FROM bid) WHERE price = top""",
        bids,
    ),
    Case(
        "NEXMark 8",
        {"person": PERSON, "auction": AUCTION},
        """SELECT p.id, p.state, p.starts
           FROM (SELECT id, state, window.start AS starts FROM person GROUP BY id, state, window(ts, '10 seconds')) p
           JOIN (SELECT seller, window.start AS starts FROM auction GROUP BY seller, window(ts, '10 seconds')) a
             ON p.id = a.seller AND p.starts = a.starts""",
        f"""SELECT DISTINCT p.id, p.state, p.starts FROM (SELECT *, {START} AS starts FROM person) p
            JOIN (SELECT *, {START} AS starts FROM auction) a ON p.id = a.seller AND p.starts = a.starts""",
        people,
    ),
    Case(
        "NEXMark 9",
        {"auction": AUCTION, "bid": BID},
        """SELECT id, seller, expires, bidder, price, ts
           FROM (SELECT a.id, a.seller, a.expires, b.bidder, b.price, b.ts,
                        row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts, b.bidder) AS place
                 FROM auction a JOIN bid b ON a.id = b.auction WHERE b.ts BETWEEN a.ts AND a.expires) w
           WHERE place <= 1""",
        """SELECT a.id, a.seller, a.expires, b.bidder, b.price, b.ts FROM auction a JOIN bid b ON a.id = b.auction
           WHERE b.ts BETWEEN a.ts AND a.expires
           QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts, b.bidder) <= 1""",
        auctions,
        grows="what ends an auction is `expires`, a column of its entry and no part of the groups' key: deadness through "
        "entries is not there yet",
    ),
    Case(
        "lag by key",
        {"bid": BID},
        "SELECT bidder, ts, price, lag(price) OVER (PARTITION BY bidder ORDER BY ts, price, auction) AS earlier FROM bid",
        "SELECT bidder, ts, price, lag(price) OVER (PARTITION BY bidder ORDER BY ts, price, auction) FROM bid",
        bids,
    ),
    Case(
        "count distinct",
        {"bid": BID},
        "SELECT window.start AS starts, count(DISTINCT bidder) AS n FROM bid GROUP BY window(ts, '10 seconds')",
        f"SELECT {START}, count(DISTINCT bidder) FROM bid GROUP BY 1",
        bids,
    ),
    Case(
        "outer join",
        {"bid": TICK, "look": TICK},
        "SELECT b.auction, b.tick, b.price, l.price AS looks FROM bid b "
        "LEFT JOIN look l ON b.auction = l.auction AND b.tick = l.tick",
        "SELECT b.auction, b.tick, b.price, l.price FROM bid b "
        "LEFT JOIN look l ON b.auction = l.auction AND b.tick = l.tick",
        ticks,
        column="tick",
        delay=2,
    ),
]
BY_NAME = {c.name: c for c in CASES}


# --- answers -------------------------------------------------------------------------------------------------------


def numbers(table: pa.Table) -> Ints:
    """The rows of a table as whole numbers, in order; a row that is there twice is so here."""
    columns = []
    for c in table.columns:
        if pa.types.is_timestamp(c.type):
            c = c.cast(pa.timestamp("us", c.type.tz)).cast(pa.int64())
        columns.append(np.asarray(pc.fill_null(c.cast(pa.int64()), NULL).combine_chunks()))
    made = np.column_stack(columns)
    return made[np.lexsort(made.T)] if len(made) else made


def shown(table: pa.Table) -> Ints:
    """The rows of a view, each as often as it is there."""
    counts = np.asarray(table.column("_w"))
    plain = table.drop_columns(["_w"])
    if (counts != 1).any():
        plain = plain.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
    return numbers(plain)


def answer(case: Case, given: list[Tables]) -> Ints:
    """What DuckDB makes of all rows that were given."""
    with duckdb.connect() as peer:
        peer.execute("SET memory_limit='3GB'")
        for name in case.sources:
            table = pa.concat_tables([g[name] for g in given])
            for i, field in enumerate(table.schema):
                if pa.types.is_timestamp(field.type):
                    whole = table.column(i).cast(pa.int64())
                    table = table.set_column(i, field.name, whole)
            peer.register(name, table)
        return numbers(peer.sql(case.peer).to_arrow_table())


def same(what: str, got: Ints, wanted: Ints) -> None:
    """Raises unless two answers are the same."""
    if not np.array_equal(got, wanted):
        raise AssertionError(f"{what}: {len(got)} rows, and {len(wanted)} are right")
