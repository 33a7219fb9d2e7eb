"""Purged = not purged: two databases with the same changes, one of which is closed part by part and purged at once.

Every snapshot and change feed is the same at every version, no dead entry is read, and rows that are final are rows of
every later answer.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from closings import Story, sessions_story, story, through_story
from headwater.engine.membership import matching
from headwater.state.arrangement import Arrangement
from headwater.state.run import RunRef
from headwater.state.store import DATA
from headwater.state.writing import Writer


def rows_of(table: Any, drop: tuple[str, ...] = ("_w",)) -> Counter[tuple[Any, ...]]:
    """Rows by how often they are there."""
    out: Counter[tuple[Any, ...]] = Counter()
    for row in table.to_pylist():
        weight = row.pop("_w")
        for n in drop:
            row.pop(n, None)
        out[tuple((n, str(v) if isinstance(v, dict) else v) for n, v in row.items())] += weight
    return (
        +out if all(v > 0 for v in out.values()) else Counter({k: v for k, v in out.items() if v})
    )


def open_story(path: Path, told: Story, closing: bool) -> hw.Database:
    db = hw.open(str(path))
    for name, ddl in told.sources.items():
        key = told.keys.get(name)
        if closing:
            only = name in told.append_only
            db.source(name, ddl, closes=told.closes[name], append_only=only, key=key)
        else:
            db.source(name, ddl, key=key)
    for name, query in told.views.items():
        db.view(name, query)
    return db


def purge(db: hw.Database) -> int:
    """Takes every dead entry away at once; gives how many maps had some."""
    dead = db.dead()
    db._writing()
    with db._commit("purge") as commit:
        for name, region in dead.items():
            commit.purge(name, lambda t, region=region: matching(region, t))
    return len(dead)


def purge_some(db: hw.Database, some: Callable[[RunRef], bool]) -> int:
    """Takes dead entries away from some runs only, so that sums of what is dead are wrong; gives how many maps had some."""
    dead = db.dead()
    db._writing()
    with db._commit("purge") as commit:
        for name, region in dead.items():
            at = commit.arrangement(name)
            for ref in at.refs:
                if not some(ref):
                    continue
                writer = Writer(commit.store.files, "purge", DATA, commit.zoned)
                tables = (t.filter(pa.array(~matching(region, t))) for t in at.open(ref).tables())
                writer.add(at.spec, tables, ref.generation)
                commit.replace(name, [ref], [made for _, made in writer.close()])
    return len(dead)


@contextlib.contextmanager
def unread(db: hw.Database) -> Iterator[None]:
    """Fails where an entry is merged with, or read from the end of a bag, that was dead at the version before.

    A look-up may find one that a filter behind it drops, as of a band join: that it says nothing is shown by purging it.
    """
    dead = db.dead()

    def look(at: Arrangement, table: pa.Table, how: str) -> None:
        region = dead.get(at.spec.name)
        if region is not None and how in ("merge", "ends", "range") and table.num_rows:
            assert not matching(region, table).any(), (at.spec.name, how)

    Arrangement.watch = staticmethod(look)
    try:
        yield
    finally:
        Arrangement.watch = None


def play(
    tmp_path: Path, seed: int, of: Callable[..., Story] = story, in_part: bool = False, **sizes: int
) -> int:
    told, chance = of(seed, **sizes), random.Random(seed)
    again = chance.choice([None, *told.pool, *told.views.values()])
    plain, closing = (open_story(tmp_path / n, told, n == "closing") for n in ("plain", "closing"))
    final: dict[str, Counter[tuple[Any, ...]]] = {v: Counter() for v in told.views}
    purged = 0
    with plain, closing:
        for step, (change, points) in enumerate(told.steps):
            before = closing.version
            wanted = plain.apply(change)
            with unread(closing):
                commit = closing.apply(change, punctuate=points)
            assert not commit.late, (seed, commit.late)
            for view in told.views:
                answer = rows_of(plain.table(view))
                assert rows_of(closing.table(view)) == answer, (seed, view, told.views[view])
                fed = rows_of(plain.changes_table(view, wanted.version - 1), ("_w", "_version"))
                got = rows_of(closing.changes_table(view, before), ("_w", "_version"))
                assert got == fed, (seed, view, "changes")
                ledger = final_rows(closing, view)
                assert final[view] <= ledger, (seed, view, "a ledger lost a row")
                assert ledger <= answer, (
                    seed,
                    view,
                    told.views[view],
                    "a final row was taken back",
                )
                final[view] = ledger
            if in_part:
                purged += purge_some(closing, lambda _: chance.random() < 0.5)
            else:
                purged += purge(closing)
            if (
                again and step == len(told.steps) // 2
            ):  # a view that comes when much is gone already
                for db in (plain, closing):
                    db.view("later", again)
                told.views["later"], final["later"] = again, Counter()
            for view in told.views:
                assert rows_of(closing.table(view)) == rows_of(plain.table(view)), (seed, view)
    return purged


def final_rows(db: hw.Database, view: str) -> Counter[tuple[Any, ...]]:
    try:
        return rows_of(db.final_table(view), ("_w", "_version"))
    except hw.HeadwaterError:
        return Counter()


@pytest.mark.parametrize("seed", range(28))
def test_purged_is_not_purged(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, steps=5, views=2)


@pytest.mark.parametrize("seed", range(8))
def test_sessions_purged_are_not_purged(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, sessions_story, in_part=seed % 2 == 1, steps=6, views=2)


@pytest.mark.parametrize("seed", range(8))
def test_keys_purged_through_entries_are_not_purged(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, through_story, in_part=seed % 2 == 1, steps=6, views=2)


@pytest.mark.slow
@pytest.mark.parametrize("in_part", [False, True])
@pytest.mark.parametrize("of", [story, sessions_story, through_story])
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_long_stories(tmp_path: Path, seed: int, of: Callable[..., Story], in_part: bool) -> None:
    play(tmp_path, seed, of, in_part)


def test_what_was_dead_of_a_plan_is_not_of_the_next(tmp_path: Path) -> None:
    """A plan that is made anew may read what nobody read before: nothing goes until the next commit has said what may."""
    with hw.open(str(tmp_path)) as db:
        db.source("r", "a INT, t INT", closes="t")
        db.view("v", "SELECT t, count(*) AS n FROM r GROUP BY t")
        db.apply({"r": [(1, 1), (2, 2)]}, punctuate={"r": hw.closed(t=1)})
        assert db._writer is not None and db._writer.dead
        db.rebuild()
        assert not db._writer.dead
        db.apply({"r": [(3, 3)]})
        assert db._writer.dead
        assert rows_of(db.table("v")) == Counter({(("t", t), ("n", 1)): 1 for t in (1, 2, 3)})
