"""Random loops as views: after every change a view has the rows that iterating from nothing gives.

The loops are those of `random_loops`: linear and square, over one collection or two that read each other, with and without answers
inside, for so many rounds or until nothing changes. A view is there from the beginning, or is filled from what is there.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import headwater as hw
from headwater.calculus import ring
from headwater.calculus.interpret import interpret
from headwater.calculus.notation.parse import parse
from headwater.calculus.ring import RingMap
from headwater.calculus.terms import Field, Term
from headwater.errors import NoFixpoint
from random_loops import ROWS, Loop, distinct, rows, totals
from random_values import Pick

COLUMNS = "a BIGINT, b BIGINT"
CHANGES = 4
SEEDS = [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 150))]


def a_query(pick: Pick) -> Term:
    """One collection of a loop."""
    loop = Loop(pick, 1 + pick(2))
    answer = (None, distinct, totals)[pick(3)]
    times = None if answer is distinct and pick(2) else pick(4)
    made = loop.repeat(times, answer) if answer else loop.repeat(times)
    return Field(made, loop.names[pick(len(loop.names))])


def a_change(pick: Pick, there: RingMap) -> RingMap:
    """Rows that come, and rows that go."""
    new = {k: abs(n) for k, n in rows(pick, 2).items()}
    gone = {k: -1 - pick(n) for k, n in there.items() if pick(3) == 0}
    return ring.add(RingMap(new), RingMap(gone))


def delta(change: RingMap) -> hw.Delta:
    def some(sign: int) -> list[dict[str, object]]:
        rows = [(k, n) for k, n in change.items() if n * sign > 0]
        return [dict(zip("ab", k, strict=True)) for k, n in rows for _ in range(abs(n))]

    return hw.Delta(inserts=some(1), deletes=some(-1))


def read(db: hw.Database) -> RingMap:
    found = [tuple(row.values()) for row in db.table("v").to_pylist()]
    return ring.collect((row[:-1], row[-1]) for row in found)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loop_is_kept_as_iterating_from_nothing_gives_it(seed: int, tmp_path: Path) -> None:
    pick = random.Random(seed).randrange
    query, late = a_query(pick), pick(3) == 0
    now = {"S": RingMap(), "T": RingMap()}
    with hw.open(tmp_path / "db") as db:
        for name in now:
            db.source(name, COLUMNS)
        if not late:
            db.view("v", query)
        for i in range(CHANGES):
            changes = {n: a_change(pick, rows) for n, rows in now.items() if pick(3)}
            then = {n: ring.add(rows, changes.get(n, RingMap())) for n, rows in now.items()}
            try:
                wanted = interpret(query, then)
            except NoFixpoint:
                if not late:
                    with pytest.raises(NoFixpoint):
                        db.apply({n: delta(c) for n, c in changes.items()})
                    assert read(db) == interpret(query, now), "the version before is as it was"
                continue
            db.apply({n: delta(c) for n, c in changes.items()})
            now = then
            if late and i == 1:
                db.view("v", query)
                late = False
            if not late:
                assert read(db) == wanted, f"{query} over {now}"


@pytest.mark.parametrize("times", [0, 1, 2])
@pytest.mark.parametrize(
    "step", ["S", "-S", "{{a: 1, b: 2}}", "zero(Bag({a: bigint, b: bigint}))", "X"]
)
@pytest.mark.parametrize("start", ["S", "zero(Bag({a: bigint, b: bigint}))"])
def test_a_step_may_read_nothing_that_moves(
    start: str, step: str, times: int, tmp_path: Path
) -> None:
    query = parse(f"repeat[times {times}] X := {start} then {step}", {"S": ROWS})
    with hw.open(tmp_path / "db") as db:
        db.source("S", COLUMNS)
        db.view("v", query)
        there = RingMap()
        for change in (RingMap({(1, 2): 2, (3, None): 1}), RingMap({(1, 2): -1, (4, 4): 1})):
            db.apply({"S": delta(change)})
            there = ring.add(there, change)
            assert read(db) == interpret(query, {"S": there})
