"""A data cube: sales are added up along every combination of three dimensions, and range queries are answered meanwhile.

Five stages: `split` makes 2³ rows of a sale, one for each cuboid; `changed` adds up what an increment changes of each cell;
`cube` has the cells; `points` makes of a range query one question for each cell; `answers` adds up what the cells say.
`cube` takes queries before updates, 4 to 1, and is never more than 20 increments of updates behind.
Run it with `python examples/cube.py`.
"""

from __future__ import annotations

import random
import tempfile
from itertools import product

import headwater as hw
from headwater import flow

DIMENSIONS = ("day", "hour", "shop")
EVERY = -1  # a dimension that a cuboid does not have
CELL = "cuboid INT, day INT, hour INT, shop INT"
CELL_COLUMNS = ("cuboid", *DIMENSIONS)
SALES = "day INT, hour INT, shop INT, amount BIGINT"
RANGES = ", ".join(f"{d}_from INT, {d}_to INT" for d in DIMENSIONS)  # NULL: all of it
QUERIES = f"query BIGINT, {RANGES}"


@flow.stage("sales", out=f"{CELL}, amount BIGINT")
def split(sale):
    for cuboid in range(8):
        has = [cuboid >> i & 1 for i in range(3)]
        cell = [value if there else EVERY for value, there in zip(sale[:3], has, strict=True)]
        yield (cuboid, *cell, sale.amount)


@flow.stage("split", by=CELL_COLUMNS, out=f"{CELL}, n BIGINT, amount BIGINT")
def changed(cell, split):
    return (*cell, len(split), sum(s.amount for s in split))


@flow.stage("queries", out=f"query BIGINT, {CELL}")
def points(q):
    ends = [(q[1], q[2]), (q[3], q[4]), (q[5], q[6])]
    cuboid = sum(1 << i for i, (first, _) in enumerate(ends) if first is not None)
    ranges = [(EVERY,) if a is None else range(a, b + 1) for a, b in ends]
    return [(q.query, cuboid, *cell) for cell in product(*ranges)]


@flow.stage(
    flow.reads("changed", by=CELL_COLUMNS, combine=flow.sums("n", "amount")),
    flow.reads("points", by=CELL_COLUMNS),
    state="n BIGINT, amount BIGINT",
    runnable=flow.prefer("points", to="changed", times=4, most=20),
    out="query BIGINT, n BIGINT, amount BIGINT",
)
def cube(cell, changed, points, state):
    for c in changed:
        state.n = (state.n or 0) + c.n
        state.amount = (state.amount or 0) + c.amount
    return [(p.query, state.n or 0, state.amount or 0) for p in points]


@flow.stage("cube", by="query", out="query BIGINT, n BIGINT, amount BIGINT")
def answers(query, cells):
    return query, sum(c.n for c in cells), sum(c.amount for c in cells)


STAGES = [split, changed, points, cube, answers]


def define(db: hw.Database) -> None:
    """Two sources, and the five stages."""
    db.source("sales", SALES, retain=False)
    db.source("queries", QUERIES, retain=False)
    for stage in STAGES:
        db.stage(stage)


def main(folder: str) -> None:
    """Ten increments of sales wait, and ten queries for the sales of the first days: those asked later see more of them."""
    chance = random.Random(7)
    with hw.open(folder) as db:
        define(db)
        for n in range(10):
            sales = [(*(chance.randrange(4) for _ in DIMENSIONS), 10) for _ in range(20)]
            db.apply({"sales": sales, "queries": [(n, 0, 1, None, None, None, None)]})
        print(db.run())
        for r in sorted(db.table("answers").to_pylist(), key=lambda r: r["query"]):
            print(f"query {r['query']}: {r['n']} sales, {r['amount']} in all")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
