"""Aggregates of what moves in a loop, held against the interpreter after every change."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import bag
from headwater.engine import increment
from headwater.language.queries import read_query
from loop_aggregates import QUERIES


def rows(db: hw.Database) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row in db.table("v").to_pylist():
        weight = row.pop("_w", 1)
        found[tuple(row.values())] += weight
    return found


def play(path: Path, query: str, seed: int) -> None:
    chance, have = random.Random(seed), Counter[tuple[int, int]]()
    with hw.open(path / "db") as db:
        db.source("edges", "src BIGINT, dst BIGINT")
        term = read_query(query, db.catalog.schemas(), db.ask)[2]
        late = 2 if seed % 3 == 0 else 0
        for i in range(8):
            if i == late:
                db.view("v", query)
            come = [(chance.randrange(6), chance.randrange(6)) for _ in range(chance.randrange(6))]
            pool = list(have.elements())
            chance.shuffle(pool)
            gone = pool[: chance.randrange(3)] if i < 7 else pool
            db.apply({"edges": hw.Delta(come, gone)})
            have.update(come)
            have.subtract(gone)
            have = +have
            if i >= late:
                want = interpret(term, {"edges": bag(have.elements())})
                assert rows(db) == Counter(dict(want)), f"change {i}"


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_aggregates_in_a_loop(tmp_path: Path, query: str, seed: int) -> None:
    play(tmp_path, query, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 30))
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_many_aggregates_in_a_loop(tmp_path: Path, query: str, seed: int) -> None:
    play(tmp_path, query, seed)


def test_keys_that_are_touched_twice_are_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that share a heavy key all say that they touched it, in one table."""
    merge = increment.merge

    def told_twice(*given: Any, **more: Any) -> dict[str, pa.Table]:
        touched = merge(*given, **more)
        return {n: pa.concat_tables([t, t]) for n, t in touched.items()}

    monkeypatch.setattr(increment, "merge", told_twice)
    for i, query in enumerate(QUERIES.values()):
        play(tmp_path / str(i), query, 1)
