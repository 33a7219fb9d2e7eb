"""NEXMark 0 to 22 as views of one database: a stream out of order, with late rows set aside, right after every increment.

DuckDB says what is right, over the rows that were in time. Entries that are dead are taken away on the way, and rows that are
final are rows of the last answer.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.membership import matching
from headwater.errors import QueryError
from nexmark import QUERIES, SCHEMAS, SIDE, Accepted, Batch, batches, declare, in_duckdb

FINAL_AT_ONCE = {*(f"q{n}" for n in (0, 1, 2, 3, 8, 10, 13, 14, 20, 21, 22))}
FINAL_IN_TIME = {"q5", "q6", "q7", "q9", "q11", "q12", "q15", "q16", "q17"}
NEVER_FINAL = {"q4", "q18", "q19"}
"""Their rows do not say when they are over: a watermark does not close a category, nor a bidder."""

Rows = Counter[tuple[Any, ...]]


def value(v: Any) -> Any:
    """A value as both say it: instants as times of UTC, decimals and doubles as numbers of nine digits."""
    match v:
        case datetime():
            return v.replace(tzinfo=None)
        case float() | Decimal():
            return float(f"{v:.9g}")
    return v


def ours(table: pa.Table) -> Rows:
    out: Rows = Counter()
    for row in table.to_pylist():
        weight = row.pop("_w")
        row.pop("_version", None)
        out[tuple(map(value, row.values()))] += weight
    return out


class Duck:
    """What DuckDB answers over some rows."""

    def __init__(self, rows: Batch):
        self.con = duckdb.connect()
        self.con.execute("SET threads = 1")
        for name, ddl in SCHEMAS.items():
            self.con.execute(f"CREATE TABLE {name} ({ddl.replace('STRING', 'VARCHAR')})")
            given = SIDE if name == "side" else rows[name]
            if given:
                names = [c.split()[0] for c in ddl.split(", ")]
                arrow = pa.table([pa.array(c) for c in zip(*given, strict=True)], names)
                self.con.register("given", arrow)
                self.con.execute(f"INSERT INTO {name} SELECT * FROM given")
                self.con.unregister("given")

    def answer(self, name: str) -> Rows:
        return Counter(tuple(map(value, r)) for r in self.con.execute(in_duckdb(name)).fetchall())


def purge(db: hw.Database) -> None:
    """Takes every dead entry away at once."""
    dead = db.dead()
    db._writing()
    with db._commit("purge") as commit:
        for name, region in dead.items():
            commit.purge(name, lambda t, region=region: matching(region, t))


def play(tmp_path: Path, count: int, seconds: int, increments: int) -> None:
    """All queries over a stream, compared after every increment."""
    assert len(QUERIES) == 23
    assert {*QUERIES} == FINAL_AT_ONCE | FINAL_IN_TIME | NEVER_FINAL
    accepted, dead, late = Accepted(), dict[str, Any](), 0
    with hw.open(tmp_path) as db:
        declare(db)
        for name, query in QUERIES.items():
            db.view(name, query)
        for step, batch in enumerate(batches(count, seconds, increments)):
            commit = db.apply(batch)
            assert commit.late == accepted.take(batch)
            late += sum(commit.late.values())
            now = db.dead()
            for name, region in dead.items():
                assert now[name].subsumes(region), f"{name} is less dead than before"
            dead = now
            if step % 3 == 2:
                purge(db)
            duck = Duck(accepted.rows)
            for name in QUERIES:
                assert ours(db.table(name)) == duck.answer(name), f"{name} at increment {step}"
        assert count // 200 <= late <= count // 25
        assert late == sum(db.late_table(s).num_rows for s in accepted.rows)
        final_rows(db, accepted)


def test_all_queries(tmp_path: Path) -> None:
    play(tmp_path, 1500, 240, increments=11)


@pytest.mark.slow
def test_a_longer_stream(tmp_path: Path) -> None:
    play(tmp_path, 6000, 600, increments=40)


def final_rows(db: hw.Database, accepted: Accepted) -> None:
    """Final rows are rows of the answer: all of it, those of windows that are over, or none."""
    over = accepted.closed("bid")
    for name in QUERIES:
        answer = ours(db.table(name))
        if name in NEVER_FINAL:
            with pytest.raises(QueryError, match="is final before all that it reads is over"):
                db.final_table(name)
            continue
        final = ours(db.final_table(name))
        assert final <= answer and final, name
        if name in FINAL_AT_ONCE:
            assert final == answer
        match name:
            case "q5":
                ends = [(r, r[2] + timedelta(seconds=10)) for r in answer]
                assert {*final} == {r for r, end in ends if end <= over}
            case "q11":  # a few that began with, or after, one that is open wait for it
                ended = {r for r in answer if r[2] < over}
                assert {*final} <= ended and 2 * len(final) > len(ended)
            case "q9":  # of auctions that have expired
                assert {*final} == {r for r in answer if r[3] < over}
            case "q15" | "q17":
                place = 0 if name == "q15" else 1
                assert {*final} == {r for r in answer if r[place] == date(2024, 1, 1)}


def test_state_is_flat(tmp_path: Path) -> None:
    """What is left of the maps of windows, once dead entries are gone, does not grow with the stream."""
    flat = ("q4", "q5", "q7", "q8", "q9", "q11", "q12")
    sizes = []
    with hw.open(tmp_path) as db:
        declare(db)
        for name in flat:
            db.view(name, QUERIES[name])
        for step, batch in enumerate(batches(3000, 600, increments=10)):
            db.apply(batch)
            if step % 3 == 0:
                purge(db)
                sizes.append(db.sizes()["workspace"].entries)
    assert sizes[-1] <= 1.3 * sizes[1], sizes
