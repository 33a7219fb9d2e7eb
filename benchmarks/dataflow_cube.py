"""The data cube under three schedules: queries before updates or not, and who writes what is unread standing still or not.

Increments of 5,000 sales and of 1,000 range queries, spread over the cuboids, wait in any number. `cube` takes queries four
times for every increment of updates, or whatever there is. Counted are the updates that are computed for the cube (`changed`),
those that are written into it, and the queries that are answered, after every epoch.
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater import flow

SIZES = (30, 24, 20)
"""Days, hours, shops."""
WIDEST = 4
DIMENSIONS = ("day", "hour", "shop")
EVERY = -1
CELL = "cuboid INT, day INT, hour INT, shop INT"
COLUMNS = ("cuboid", *DIMENSIONS)
SALES = "day INT, hour INT, shop INT, amount BIGINT"
QUERIES = "query BIGINT, " + ", ".join(f"{d}_from INT, {d}_to INT" for d in DIMENSIONS)
ANSWERS = "query BIGINT, n BIGINT, amount BIGINT"
NO_END = 1_000_000
"""How far updates may fall behind: the experiment is about the four to one."""


@dataclass(frozen=True)
class Way:
    """A schedule."""

    name: str
    priority: bool
    detection: bool


WAYS = (
    Way("priority and detection", True, True),
    Way("priority", True, False),
    Way("no priority", False, False),
)


def define(db: hw.Database, way: Way) -> None:
    """Two sources, and the five stages."""
    db.source("sales", SALES, retain=False)
    db.source("queries", QUERIES, retain=False)

    @db.stage("sales", out=f"{CELL}, amount BIGINT")
    def split(sale: Any) -> Any:
        day, hour, shop, amount = sale
        every = EVERY
        return [
            (c, day if c & 1 else every, hour if c & 2 else every, shop if c & 4 else every, amount)
            for c in range(8)
        ]

    @db.stage("split", by=COLUMNS, out=f"{CELL}, n BIGINT, amount BIGINT")
    def changed(cell: Any, split: Any) -> Any:
        return (*cell, len(split), sum(s.amount for s in split))

    @db.stage("queries", out=f"query BIGINT, {CELL}")
    def points(q: Any) -> Any:
        ends = [(q[1], q[2]), (q[3], q[4]), (q[5], q[6])]
        cuboid = sum(1 << i for i, (first, _) in enumerate(ends) if first is not None)
        ranges = [(EVERY,) if a is None else range(a, b + 1) for a, b in ends]
        return [(q.query, cuboid, *cell) for cell in product(*ranges)]

    prefer = flow.prefer("points", to="changed", times=4, most=NO_END)

    @db.stage(
        flow.reads("changed", by=COLUMNS, combine=flow.sums("n", "amount")),
        flow.reads("points", by=COLUMNS),
        state="n BIGINT, amount BIGINT",
        runnable=prefer if way.priority else flow.any_input(),
        out=ANSWERS,
    )
    def cube(cell: Any, changed: Any, points: Any, state: Any) -> Any:
        for c in changed:
            state.n = (state.n or 0) + c.n
            state.amount = (state.amount or 0) + c.amount
        return [(p.query, state.n or 0, state.amount or 0) for p in points]

    @db.stage("cube", by="query", out=ANSWERS)
    def answers(query: int, cells: Any) -> Any:
        return query, sum(c.n for c in cells), sum(c.amount for c in cells)


# --- data ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """Increments of sales and of queries."""

    sales: list[pa.Table]
    queries: list[pa.Table]

    @staticmethod
    def drawn(increments: int, updates: int, queries: int, seed: int = 7) -> Given:
        rng = np.random.default_rng(seed)
        return Given(
            [_sales(updates, rng) for _ in range(increments)],
            [_queries(i * queries, queries, rng) for i in range(increments)],
        )


def _sales(count: int, rng: np.random.Generator) -> pa.Table:
    cells = {
        d: pa.array(rng.integers(0, n, count), pa.int32())
        for d, n in zip(DIMENSIONS, SIZES, strict=True)
    }
    return pa.table({**cells, "amount": rng.integers(1, 100, count)})


def _queries(first: int, count: int, rng: np.random.Generator) -> pa.Table:
    """A range of each dimension that the cuboid of a query has."""
    columns: dict[str, Any] = {"query": np.arange(first, first + count)}
    cuboids = rng.integers(0, 8, count)
    for i, (d, n) in enumerate(zip(DIMENSIONS, SIZES, strict=True)):
        absent = cuboids >> i & 1 == 0
        low = rng.integers(0, n, count)
        high = np.minimum(low + rng.integers(0, WIDEST, count), n - 1)
        columns[f"{d}_from"] = pa.array(low, pa.int32(), mask=absent)
        columns[f"{d}_to"] = pa.array(high, pa.int32(), mask=absent)
    return pa.table(columns)


# --- running ---------------------------------------------------------------------------------------------------------


@dataclass
class Counted:
    """After every epoch: seconds of the processor so far, increments of updates computed and written, and of queries answered."""

    seconds: list[float] = field(default_factory=list)
    computed: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    wall: float = 0.0

    def within(self, seconds: float) -> int:
        """How many epochs end in so many seconds."""
        return int(np.searchsorted(self.seconds, seconds, "right"))


def cubed(way: Way, given: Given, epochs: int, home: Path) -> Counted:
    """So many epochs of a schedule; what was answered is compared with plain sums."""
    out = Counted()
    with hw.open(home) as db:
        db.policy.execution = "driver"
        define(db, way)
        for sales, queries in zip(given.sales, given.queries, strict=True):
            db.apply({"sales": sales, "queries": queries})
        asked: list[int] = []
        started, wall = time.process_time(), time.perf_counter()
        for _ in range(epochs):
            db.run(epochs=1, bottlenecks=way.detection)
            out.seconds.append(time.process_time() - started)
            graph = db.graph
            out.computed.append(graph.nodes["changed"].epochs)
            out.written.append(graph.cursors["cube", "changed"].first)
            if graph.nodes["cube"].epochs > len(
                asked
            ):  # an epoch of updates alone sends an empty increment
                asked.append(graph.cursors["cube", "points"].first - sum(asked))
            out.answered.append(sum(asked[: graph.cursors["answers", "cube"].first]))
        out.wall = time.perf_counter() - wall
        if not (graph.cursors["points", "queries"].at and graph.cursors["split", "sales"].at):
            raise AssertionError("the input did not last")
        answers = db.table("answers")
        check(given, answers)
        if answers.num_rows != out.answered[-1] * given.queries[0].num_rows:
            raise AssertionError("as many queries were not answered as were counted")
    return out


def check(given: Given, answers: pa.Table) -> None:
    """Raises unless the queries of an increment are answered from what some first increments of updates make, later ones from more."""
    found = {r["query"]: (r["n"], r["amount"]) for r in answers.to_pylist()}
    sums, behind = np.zeros((*SIZES, 2), np.int64), iter(given.sales)
    for queries in given.queries:
        asked = [q for q in queries.to_pylist() if q["query"] in found]
        while asked and not all(found[q["query"]] == _summed(sums, q) for q in asked):
            table = next(behind, None)
            if table is None:
                raise AssertionError("queries are answered from no state that the cube had")
            places: Any = tuple(np.asarray(table.column(d)) for d in DIMENSIONS)
            np.add.at(sums, (*places, 0), 1)
            np.add.at(sums, (*places, 1), np.asarray(table.column("amount")))
    if len(found) != answers.num_rows:
        raise AssertionError("a query is answered twice")


def _summed(sums: np.ndarray[Any, Any], q: dict[str, Any]) -> tuple[int, int]:
    where: Sequence[slice] = [
        slice(None) if q[f"{d}_from"] is None else slice(q[f"{d}_from"], q[f"{d}_to"] + 1)
        for d in DIMENSIONS
    ]
    n, amount = sums[tuple(where)].reshape(-1, 2).sum(axis=0).tolist()
    return n, amount
