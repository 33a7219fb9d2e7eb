"""What an epoch costs: a thousand rows on many groups, rows a second and core by form, and stages that are run together.

Times are those of `db.run`, which reads the queue, calls the function and commits; `apply`, which puts rows into the queue, is
not among them. Rows a second and core are by the time of the processor, whatever else runs beside.
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import headwater as hw
from headwater import flow
from headwater.dataflow.rows import row_class

ROWS = "k BIGINT, x BIGINT"
COUNTS = "k BIGINT, n BIGINT"
LOADED = 500_000
"""Rows that a load takes at once."""

Ints = np.ndarray[Any, np.dtype[np.int64]]


def spent(f: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock, and of the processor, that a call takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    f()
    return time.perf_counter() - wall, time.process_time() - cpu


def table(keys: Ints, rng: np.random.Generator) -> pa.Table:
    return pa.table({"k": keys, "x": rng.integers(0, 1 << 40, len(keys))})


# --- many groups -----------------------------------------------------------------------------------------------------


class Counting:
    """A stage that counts the rows of each of many groups, loaded; and how often each came."""

    def __init__(self, db: hw.Database, groups: int):
        self.db, self.groups = db, groups
        self.rng = np.random.default_rng(7)
        self.wanted = np.zeros(groups, np.int64)
        db.policy.execution = "driver"
        db.source("rows", ROWS, retain=False)

        @db.stage("rows", by="k", state="n BIGINT", out=COUNTS, retain=False)
        def counted(k: int, rows: Any, state: Any) -> Any:
            state.n = (state.n or 0) + len(rows)
            return k, state.n

        for low in range(0, groups, LOADED):
            self.take(np.arange(low, min(low + LOADED, groups)))

    def take(self, keys: Ints) -> tuple[float, float]:
        """An epoch over some rows, with its commit: seconds by the clock, and of the processor."""
        self.db.apply({"rows": table(keys, self.rng)})
        np.add.at(self.wanted, keys, 1)
        return spent(self.db.run)

    def some(self, rows: int) -> tuple[float, float]:
        return self.take(self.rng.integers(0, self.groups, rows))

    def check(self) -> None:
        """Raises unless the state is how often each key came."""
        found = np.zeros(self.groups, np.int64)
        for part in self.db.store.at(self.db.version).arrangement("s:counted.").scan():
            found[np.asarray(part.column("g0"))] = np.asarray(part.column("v0"))
        if not np.array_equal(found, self.wanted):
            raise AssertionError("the groups were not counted right")


@contextmanager
def counting(groups: int, home: Path) -> Iterator[Counting]:
    with hw.open(home) as db:
        yield Counting(db, groups)


def epochs_on(groups: int, rows: int, times: int, home: Path) -> list[tuple[float, float]]:
    """Epochs of so many rows on a number of groups; the first few do not count."""
    with counting(groups, home) as c:
        for _ in range(5):
            c.some(rows)
        out = [c.some(rows) for _ in range(times)]
        c.check()
    return out


# --- rows a second ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """A stage in some form, how many rows its groups have, and what its output is in all."""

    name: str
    define: Callable[[hw.Database, bool], None]
    a_group: int
    total: Callable[[Ints, Ints], int]
    """The sum of all numbers of the output, of keys and values of an increment."""


def row_wise(db: hw.Database, retain: bool) -> None:
    @db.stage("rows", out=ROWS, retain=retain)
    def out(r: Any) -> Any:
        return r.k, r.x + 1


def row_wise_arrow(db: hw.Database, retain: bool) -> None:
    @db.stage("rows", out=ROWS, form="arrow", retain=retain)
    def out(t: pa.Table) -> Any:
        return t.set_column(1, "x", pc.add(t.column("x"), 1))


def grouped(db: hw.Database, retain: bool) -> None:
    @db.stage("rows", by="k", state="n BIGINT", out=COUNTS, retain=retain)
    def out(k: int, rows: Any, state: Any) -> Any:
        state.n = (state.n or 0) + len(rows)
        return k, state.n


def grouped_arrow(db: hw.Database, retain: bool) -> None:
    @db.stage("rows", by="k", state="n BIGINT", out=COUNTS, form="arrow", retain=retain)
    def out(groups: pa.Table, rows: pa.Table, state: pa.Table) -> Any:
        n = np.bincount(np.asarray(rows.column("_g")), minlength=groups.num_rows)
        n[np.asarray(state.column("_g"))] += np.asarray(state.column("n"))
        new = pa.table({"_g": groups.column("_g"), "n": n})
        return flow.result(pa.table({"k": groups.column("k"), "n": n}), state=new)


FORMS = (
    Form("row by row", row_wise, 1, lambda k, x: int(k.sum() + x.sum() + len(x))),
    Form(
        "a call a group of 5 rows, with state", grouped, 5, lambda k, x: int(k.sum() // 5 + len(k))
    ),
    Form("arrow, row by row", row_wise_arrow, 1, lambda k, x: int(k.sum() + x.sum() + len(x))),
    Form(
        "arrow, groups of 5 rows, with state",
        grouped_arrow,
        5,
        lambda k, x: int(k.sum() // 5 + len(k)),
    ),
)


def rates(form: Form, rows: int, times: int, home: Path) -> list[float]:
    """Rows a second and core of some epochs, after the answer to one was compared."""
    keys = np.random.default_rng(3).permutation(
        np.repeat(np.arange(rows // form.a_group), form.a_group)
    )
    given = table(keys, np.random.default_rng(5))
    for retain in (True, False):
        with hw.open(home / str(retain)) as db:
            db.policy.execution = "driver"
            db.source("rows", ROWS, retain=False)
            form.define(db, retain)
            if retain:
                db.apply({"rows": given})
                db.run()
                found = sum(int(pc.sum(db.table("out").column(c)).as_py()) for c in (0, 1))
                if found != form.total(keys, np.asarray(given.column("x"))):
                    raise AssertionError(f"{form.name}: the sums differ from those of the input")
                continue
            out = []
            for _ in range(times):
                db.apply({"rows": given})
                out.append(rows / spent(db.run)[1])
    return out


# --- stages that are run together ------------------------------------------------------------------------------------


def chain(stages: int, rows: int, times: int, home: Path) -> tuple[list[float], int]:
    """Stages row by row behind each other: seconds of the processor of some epochs, and the commits of each."""
    out, commits = [], set()
    with hw.open(home) as db:
        db.policy.execution = "driver"
        db.source("s0", "x BIGINT", retain=False)
        for n in range(1, stages + 1):

            def more(r: Any) -> Any:
                return (r.x + 1,)

            more.__name__ = f"s{n}"
            db.stage(f"s{n - 1}", out="x BIGINT", retain=n == stages)(more)
        for _ in range(times):
            db.apply({"s0": pa.table({"x": np.arange(rows)})})
            before = db.version
            out.append(spent(db.run)[1])
            commits.add(db.version - before)
        found = db.table(f"s{stages}")
    if int(pc.sum(pc.multiply(found.column("x"), found.column("_w"))).as_py()) != times * (
        rows * (rows - 1) // 2 + rows * stages
    ):
        raise AssertionError(f"a chain of {stages} stages does not add {stages}")
    (count,) = commits
    return out, count


def calls(stages: int, rows: int, times: int) -> float:
    """Seconds of the processor that the calls of such a chain take by themselves, with the rows that they are given."""

    def more(r: Any) -> Any:
        return (r.x + 1,)

    def all_of_them() -> None:
        values: list[Any] = [(x,) for x in range(rows)]
        for _ in range(stages):
            values = [more(r) for r in map(row_class(("x",)), values)]

    return min(spent(all_of_them)[1] for _ in range(times))
