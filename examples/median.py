"""The median of every prefix of a stream of numbers, twice: straight on, and with a cycle that needs half the state.

A histogram keeps numbers by bucket. One stage knows the counts of all buckets and says in which the median is, and at
which place. Straight on, a third stage has the numbers once more, to look there; with the cycle, the place goes back to
the histogram, which takes numbers and places in turn. Run it with `python examples/median.py`.
"""

from __future__ import annotations

import random
import tempfile
from typing import Any

import headwater as hw
from headwater import flow

NUMBERS = "x INT"
PLACE = "bucket INT, place BIGINT, n BIGINT"
BY_BUCKET = flow.reads("numbers", by=flow.route(lambda r: r.x // 100, "bucket INT"))
COUNTS = flow.record("n BIGINT", key="bucket INT", order_by="bucket")


def located(counts, state):
    """The bucket of the median, its place there, and how many numbers there are."""
    for c in counts:
        state[c.bucket].n = c.n
    n = sum(s.n for s in state)
    place = (n - 1) // 2
    for s in state:
        if place < s.n:
            return s.bucket, place, n
        place -= s.n


# Straight on: counted → placed → medians, which reads the numbers as well.
@flow.stage(BY_BUCKET, state="n BIGINT", out="bucket INT, n BIGINT")
def counted(bucket, numbers, state):
    state.n = (state.n or 0) + len(numbers)
    return bucket, state.n


@flow.stage("counted", by=(), state=COUNTS, out=PLACE)
def placed(_, counted, state):
    return located(counted, state)


@flow.stage(
    BY_BUCKET,
    flow.reads("placed", by="bucket"),
    state=flow.bag(NUMBERS, order_by="x"),
    out="n BIGINT, x INT",
)
def medians(bucket, numbers, placed, state):
    state.add(numbers)
    return [(p.n, state.nth(p.place).x) for p in placed]


# With the cycle: histogram → turned → place → histogram. `place` is declared before the stage that writes it.
@flow.stage(
    BY_BUCKET,
    flow.reads("place", by="bucket"),
    state=flow.bag(NUMBERS, order_by="x"),
    runnable=flow.in_turn("numbers", "place"),
    out={"counts": "bucket INT, n BIGINT", "same_medians": "n BIGINT, x INT"},
)
def histogram(bucket, numbers, place, state):
    for p in place:
        yield "same_medians", (p.n, state.nth(p.place).x)
    if numbers:
        state.add(numbers)
        yield "counts", (bucket, len(state))


def define(db: hw.Database) -> tuple[list[Any], list[Any], Any]:
    """Both graphs over one source; gives the stages of each, and the flow of the cycle."""
    db.source("numbers", NUMBERS)
    straight = [db.stage(s) for s in (counted, placed, medians)]
    place = db.flow("place", PLACE)
    db.stage(histogram)

    @db.stage("counts", by=(), state=COUNTS, out=place)
    def turned(_, counts, state):
        return located(counts, state)

    return straight, [histogram, turned], place


def answers(db: hw.Database, name: str) -> list[tuple[int, int]]:
    """The medians, in the order of the prefixes."""
    return sorted((r["n"], r["x"]) for r in db.table(name).to_pylist())


def main(folder: str) -> None:
    """Six increments of three numbers each, given at once: every prefix has its median."""
    chance = random.Random(7)
    with hw.open(folder) as db:
        define(db)
        for _ in range(6):
            db.apply({"numbers": [(chance.randrange(1000),) for _ in range(3)]})
        db.run()
        print("straight on:   ", answers(db, "medians"))
        print("with the cycle:", answers(db, "same_medians"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
