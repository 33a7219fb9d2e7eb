"""NEXMark: an auction house as a stream of persons, auctions and bids, its 23 queries, and what DuckDB says of them.

The stream is made anew from a seed, in the proportion of the benchmark: of 50 events one is a person, three are auctions, the
others bids. An event comes up to 30 seconds after its time, so that times are out of order; one of a hundred comes later still,
behind a watermark of 30 seconds. Times run over midnight, so that a day ends within the stream.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlglot

import headwater as hw

Row = tuple[Any, ...]
Batch = dict[str, list[Row]]

SCHEMAS = {
    "person": "id BIGINT, name STRING, email STRING, city STRING, state STRING, ts TIMESTAMP",
    "auction": "id BIGINT, item STRING, initial BIGINT, ts TIMESTAMP, expires TIMESTAMP, seller BIGINT,"
    " category INT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP,"
    " arrived TIMESTAMP, extra STRING",
    "side": "key BIGINT, value STRING",
}
TIME = {"person": 5, "auction": 3, "bid": 5}
"""The place of the time of each source's rows."""
DELAY = timedelta(seconds=30)
BEGINS = datetime(2024, 1, 1, 23, 58)
SIDE = [(i, f"value {i}") for i in range(20)]
QUERIES: dict[str, str] = dict(
    re.findall(
        r"-- name: (q\d+): [^\n]*\n(.*?);\n",
        (Path(__file__).parent.parent / "data/nexmark/queries.sql").read_text(encoding="utf-8"),
        re.S,
    )
)

HOPS = """(SELECT *, unnest([time_bucket(INTERVAL 5 SECOND, ts), time_bucket(INTERVAL 5 SECOND, ts) - INTERVAL 5 SECOND]) AS starts
    FROM bid)"""
DUCKDB = {
    "q5": f"""WITH counts AS (SELECT auction, starts, count(*) AS num FROM {HOPS} GROUP BY auction, starts),
        most AS (SELECT starts, max(num) AS maxn FROM counts GROUP BY starts)
        SELECT counts.auction, counts.num, counts.starts FROM counts JOIN most USING (starts) WHERE num >= maxn""",
    "q7": """WITH tops AS (SELECT time_bucket(INTERVAL 10 SECOND, ts) AS starts, max(price) AS maxprice FROM bid GROUP BY 1)
        SELECT auction, price, bidder, ts, extra FROM bid JOIN tops
        ON price = maxprice AND time_bucket(INTERVAL 10 SECOND, ts) = starts""",
    "q8": """SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL 10 SECOND, p.ts) AS starts FROM person p JOIN auction a
        ON p.id = a.seller AND time_bucket(INTERVAL 10 SECOND, p.ts) = time_bucket(INTERVAL 10 SECOND, a.ts)""",
    "q11": """WITH marked AS (SELECT *, coalesce(ts - lag(ts) OVER w > INTERVAL 10 SECOND, true) AS first FROM bid
                WINDOW w AS (PARTITION BY bidder ORDER BY ts)),
        numbered AS (SELECT *, count_if(first) OVER (PARTITION BY bidder ORDER BY ts) AS n FROM marked)
        SELECT bidder, min(ts) AS starts, max(ts) + INTERVAL 10 SECOND AS ends, count(*) AS bids FROM numbered GROUP BY bidder, n""",
    "q12": """SELECT bidder, time_bucket(INTERVAL 10 SECOND, arrived) AS starts, count(*) AS bids FROM bid GROUP BY 1, 2""",
    "q21": """SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
            WHEN 'facebook' THEN '2' ELSE split_part(url, 'channel_id=', -1) END AS channel_id
        FROM bid WHERE lower(channel) IN ('apple', 'google', 'facebook') OR url LIKE '%channel_id=%'""",
}
"""Queries that are written otherwise in DuckDB; the others are translated."""


def in_duckdb(name: str) -> str:
    """A query as DuckDB reads it."""
    if name in DUCKDB:
        return DUCKDB[name]
    (text,) = sqlglot.transpile(QUERIES[name], read="spark", write="duckdb")
    return text


def declare(db: hw.Database, **more: dict[str, Any]) -> None:
    """Declares the sources: append-only, closed 30 seconds behind; `more` is said of a source beside this, or instead."""
    for name, ddl in SCHEMAS.items():
        said: dict[str, Any] = {"append_only": True, "closes": [hw.watermark("ts", DELAY)]}
        if name == "bid":
            said["closes"].append(hw.watermark("arrived", "0 seconds"))
        if name in ("person", "auction"):
            said["key"] = "id"
        if name == "side" or more.get(name, {}).get("static"):
            said = {"static": True}
        more_closes = more.get(name, {}).get("closes", [])
        if more_closes:
            said["closes"] = [*said["closes"], *more_closes]
        db.source(name, ddl, **said)
    db.apply({"side": SIDE})


@dataclass
class House:
    """What is known while events are made."""

    rng: random.Random
    persons: int = 0
    auctions: int = 0

    def event(self, number: int, ts: datetime, arrived: datetime) -> tuple[str, Row]:
        """The next event."""
        rng = self.rng
        if number % 50 == 0 or not self.persons:
            self.persons += 1
            n = self.persons
            place = rng.choice(
                [("Portland", "or"), ("Boise", "id"), ("Fresno", "ca"), ("Reno", "nv")]
            )
            return "person", (n, f"name {n}", f"{n}@example.org", *place, ts)
        if number % 50 in (1, 2, 3) or not self.auctions:
            self.auctions += 1
            seller = max(1, self.persons - rng.randint(0, 3))
            expires = ts + timedelta(seconds=rng.randint(5, 60))
            row = (
                self.auctions,
                f"item {self.auctions % 7}",
                rng.randint(1, 99),
                ts,
                expires,
                seller,
            )
            return "auction", (*row, rng.randint(9, 12))
        channel = rng.choice(
            ["apple", "Google", "facebook", "baidu", f"channel-{rng.randint(1, 9)}"]
        )
        url = f"https://example.org/{rng.choice('abc')}/{rng.choice('xy')}/item.htm?query=1"
        url += f"&channel_id={rng.randint(1, 9)}" if rng.random() < 0.5 else ""
        auction, bidder = max(1, self.auctions - rng.randint(0, 8)), rng.randint(1, self.persons)
        price = int(10 ** rng.uniform(1, 4))
        extra = "".join(rng.choice("abcd") for _ in range(5))
        return "bid", (auction, bidder, price, channel, url, ts, arrived, extra)


def events(count: int, seconds: int, seed: int = 1) -> list[tuple[str, Row]]:
    """A stream of events in the order in which they arrive."""
    rng = random.Random(seed)
    house, made = House(rng), []
    for number in range(count):
        ts = BEGINS + timedelta(milliseconds=number * seconds * 1000 // count)
        delay = timedelta(milliseconds=rng.randint(0, 30_000) if rng.random() < 0.5 else 0)
        if rng.random() < 0.01:
            delay = timedelta(seconds=rng.randint(60, 90))
        made.append((ts + delay, number, ts))
    out = [(number, house.event(number, ts, arrived)) for arrived, number, ts in made]
    order = sorted(range(count), key=lambda i: (made[i][0], i))
    return [out[i][1] for i in order]


def batches(count: int, seconds: int, increments: int, seed: int = 1) -> list[Batch]:
    """The stream in increments of the same number of events."""
    stream, out = events(count, seconds, seed), []
    size = -(-count // increments)
    for at in range(0, count, size):
        batch: Batch = {}
        for source, row in stream[at : at + size]:
            batch.setdefault(source, []).append(row)
        out.append(batch)
    return out


class Accepted:
    """Which rows are in time: of each source, those not below the greatest time that came before their increment, less 30 seconds."""

    def __init__(self) -> None:
        self.rows: Batch = {n: [] for n in TIME}
        self.greatest: dict[str, datetime] = {}

    def take(self, batch: Batch) -> dict[str, int]:
        """Takes an increment in; gives how many of its rows are late, by source."""
        late: dict[str, int] = {}
        for source, rows in batch.items():
            place, greatest = TIME[source], self.greatest.get(source)
            for row in rows:
                if greatest is not None and row[place] < greatest - DELAY:
                    late[source] = late.get(source, 0) + 1
                else:
                    self.rows[source].append(row)
                    self.greatest[source] = max(self.greatest.get(source, row[place]), row[place])
        return late

    def closed(self, source: str) -> datetime:
        """The time below which a source is over."""
        return self.greatest[source] - DELAY
