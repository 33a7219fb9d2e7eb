"""What an epoch costs, counted: entries of state that are read and written, and bytes; whatever else the state has."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater import flow
from headwater.state.run import Run

FEW, MANY = 100_000, 1_000_000
"""Groups that have state."""
TOUCHED = 1000
STATE = ("s:", "a:", "b:")
"""How the names of maps begin that are state of a stage."""


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How many entries of each map are taken out of its runs, those that others have replaced included."""
    found: Counter[str] = Counter()

    def mine() -> bool:
        return threading.current_thread() is threading.main_thread()  # and not a compaction

    def take(run: Run, rows: Any, *more: Any) -> Any:
        if mine():
            found[run.of or ""] += len(rows)
        return real_take(run, rows, *more)

    def entries(run: Run, rows: Any, h: Any) -> Any:
        if mine():
            found[run.of or ""] += len(rows)
        return real_entries(run, rows, h)

    def tables(run: Run, *within: Any) -> Iterator[pa.Table]:
        for table in real_tables(run, *within):
            if mine():
                found[run.of or ""] += table.num_rows
            yield table

    real_take, real_tables, real_entries = Run.take, Run.tables, Run.entries
    monkeypatch.setattr(Run, "entries", entries)
    monkeypatch.setattr(Run, "take", take)
    monkeypatch.setattr(Run, "tables", tables)
    yield found


def written(db: hw.Database) -> Counter[str]:
    """How many entries of each map the newest version has written."""
    out: Counter[str] = Counter()
    for name, (_, refs) in db.store.at().version.maps.items():
        out[name] += sum(r.rows for r in refs if r.version == db.version)
    return +out


def one_record(db: hw.Database) -> None:
    @db.stage("s", by="k", state="n BIGINT", out="k BIGINT, n BIGINT")
    def f(k, rows, state):
        state.n = (state.n or 0) + len(rows)
        return k, state.n


def in_arrow(db: hw.Database) -> None:
    @db.stage("s", by="k", state="n BIGINT", form="arrow", out="k BIGINT, n BIGINT")
    def f(groups, rows, state):
        from headwater.dataflow.bulk import result

        old = dict(zip(state["_g"].to_pylist(), state["n"].to_pylist(), strict=True))
        n = pa.array([old.get(g, 0) + 1 for g in groups["_g"].to_pylist()], pa.int64())
        new = pa.table({"_g": groups["_g"], "n": n})
        return result(pa.table({"k": groups["k"], "n": n}), state=new)


def entries_of_one_group(db: hw.Database) -> None:
    """All entries are of one group, and rows name those that are seen."""
    kept = flow.record("n BIGINT", key="k BIGINT", only="k")

    @db.stage("s", by=(), state=kept, out="k BIGINT, n BIGINT")
    def f(_, rows, state):
        for r in rows:
            state[r.k].n = (state[r.k].n or 0) + 1
            yield r.k, state[r.k].n


def a_bag(db: hw.Database) -> None:
    @db.stage("s", by="k", state=flow.bag("x BIGINT"), out="k BIGINT, n BIGINT")
    def f(k, rows, state):
        state.add((r.x,) for r in rows)
        return k, len(state)


def the_whole_group(db: hw.Database) -> None:
    @db.stage("s", by="k", whole=True, out="k BIGINT, n BIGINT")
    def f(k, rows):
        return k, len(rows)


KINDS: dict[str, Callable[[hw.Database], None]] = {
    "a record": one_record,
    "a record in arrow": in_arrow,
    "entries of one group": entries_of_one_group,
    "a bag": a_bag,
    "whole": the_whole_group,
}


def proportion(path: Path, taken: Counter[str], groups: int, kind: str) -> None:
    """The first epoch makes all groups; then some of them, twice, and each time others but for a few."""
    db = hw.open(path)
    db.source("s", "k BIGINT, x BIGINT", retain=False)
    KINDS[kind](db)
    everyone = pa.array(range(groups), pa.int64())
    db.apply({"s": pa.table({"k": everyone, "x": everyone})})
    db.policy.execution = "driver"
    db.run()
    chance = random.Random(groups)
    for _ in range(3):
        some = chance.sample(range(groups), TOUCHED)
        db.apply({"s": [(k, 7) for k in some]})
        taken.clear()
        db.run()
        read = +Counter({n: c for n, c in taken.items() if n[:2] in STATE})
        wrote = +Counter({n: c for n, c in written(db).items() if n[:2] in STATE})
        assert 0 < sum(read.values()) <= 4 * TOUCHED, taken
        # Of a stage that is whole the row, the old answer and the new one.
        assert sum(wrote.values()) <= (3 if kind == "whole" else 1) * TOUCHED, wrote
        assert sum(taken.values()) <= 6 * TOUCHED, (
            taken
        )  # with the queue, and the map that outputs are kept in
    db.close()


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_reads_what_it_touches(tmp_path: Path, taken: Counter[str], kind: str) -> None:
    proportion(tmp_path / "db", taken, FEW, kind)


@pytest.mark.slow
def test_an_epoch_reads_what_it_touches_of_many(tmp_path: Path, taken: Counter[str]) -> None:
    proportion(tmp_path / "db", taken, MANY, "a record")


def size_of(path: Path) -> int:
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def test_a_late_stage_copies_nothing(tmp_path: Path, taken: Counter[str]) -> None:
    db = hw.open(tmp_path / "db")
    db.source("s", "k BIGINT, x BIGINT")
    for day in range(5):
        rows = pa.array(range(day * 10_000, (day + 1) * 10_000), pa.int64())
        db.apply({"s": pa.table({"k": rows, "x": rows})})
    assert db._writer is not None
    db._writer.wait()
    before = size_of(tmp_path / "db")
    taken.clear()

    @db.stage("s", by="k", state="n BIGINT", out="k BIGINT, n BIGINT")
    def late(k, rows, state):
        state.n = (state.n or 0) + len(rows)
        return k, state.n

    assert size_of(tmp_path / "db") - before < 10_000
    assert not taken  # nor is anything read
    db.run()
    assert db.table("late").num_rows == 50_000
    db.close()


def test_a_feed_of_a_source_costs_no_byte(tmp_path: Path) -> None:
    sizes: list[list[int]] = []
    for readers in (0, 1, 4):
        db = hw.open(tmp_path / str(readers))
        db.source("s", "k BIGINT, x BIGINT")
        db.view("v", "SELECT k, sum(x) AS x FROM s GROUP BY k")
        for n in range(readers):
            by = [None, "k", "x", ()][n]
            given = flow.reads("s", by=by, changes=True) if by is not None else flow.reads("s")

            def f(*args: Any) -> Any:
                return None

            db.stage(given, out="k BIGINT", name=f"f{n}")(f)
        chance = random.Random(1)
        found = []
        for _ in range(4):
            rows = [(chance.randrange(50), chance.randrange(50)) for _ in range(300)]
            found.append(db.apply({"s": rows}).bytes)
            found.append(db.apply({"s": hw.Delta(deletes=rows[:20])}).bytes)
        sizes.append(found)
        db.close()
    assert min(sizes[0]) > 0
    assert sizes[0] == sizes[1] == sizes[2]
