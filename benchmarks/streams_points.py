"""What punctuations cost that come without rows, what the late check costs, and `explain` with its bounds."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa
from tests.data.tpch.data import QUERIES, SCHEMAS, STATIC, query

import headwater as hw
from benchmarks.report import timed
from benchmarks.streams_cases import BY_NAME, Ints, answer, same, shown
from benchmarks.streams_played import clocks, place

OPEN = 100
"""Hours that are open; each has a hundredth of the groups."""
BEFORE = 1_000
"""Hours before the first one, which can be closed without closing a group."""


def opened(groups: int, mixed: bool, parts: int = 10) -> Iterator[pa.Table]:
    """A row of each group, in as many increments; hours one after another, or all of them in every increment."""
    hours, keys = np.divmod(np.arange(groups), groups // OPEN)
    order = np.random.default_rng(3).permutation(groups) if mixed else np.arange(groups)
    for part in np.array_split(order, parts):
        yield pa.table({"k": keys[part], "hour": BEFORE + hours[part], "x": keys[part] % 7})


@contextmanager
def many_open(groups: int, mixed: bool) -> Iterator[hw.Database]:
    """A database with so many open groups."""
    with place() as home, hw.open(home / "db") as db:
        db.source(
            "r",
            "k BIGINT, hour BIGINT, x BIGINT",
            closes="hour",
            append_only=True,
            retain=False,
        )
        db.view("v", "SELECT hour, k, count(*) AS n, sum(x) AS total FROM r GROUP BY hour, k")
        for rows in opened(groups, mixed):
            db.apply({"r": rows})
        assert db._writer is not None
        db._writer.wait()
        yield db


def punctuated(groups: int, mixed: bool, times: int) -> tuple[list[float], list[float]]:
    """Seconds of punctuations that close nothing, and of those that close a hundredth of the groups each."""
    nothing, some = list[float](), list[float]()
    with many_open(groups, mixed) as db:
        for i in range(2 * times):
            took, commit = timed(partial(db.punctuate, "r", hour=hw.below(i + 1)))
            if commit.closed:
                raise AssertionError(f"a punctuation before all rows closed {commit.closed}")
            nothing.append(took)
        for i in range(times):
            took, commit = timed(partial(db.punctuate, "r", hour=hw.below(BEFORE + i + 1)))
            if commit.closed != {"v": groups // OPEN}:
                raise AssertionError(
                    f"{groups // OPEN} groups are over, and {commit.closed} are final"
                )
            some.append(took)
        keys = np.arange(times * (groups // OPEN)) % (groups // OPEN)
        hours = BEFORE + np.arange(len(keys)) // (groups // OPEN)
        wanted = np.column_stack([hours, keys, np.ones_like(keys), keys % 7])
        told = db.final_table("v").drop_columns(["_version"])
        same("final rows", shown(told), wanted[np.lexsort(wanted.T)])
    return nothing, some


def late_check(rows: int, times: int) -> tuple[list[float], list[float]]:
    """Seconds of increments of so many rows, and of the late check in each."""
    case = BY_NAME["tumble max"]
    given = list(case.increments(times, 2 * rows, rows))[:times]
    took, checks, before = list[float](), list[float](), 0.0
    with place() as home, clocks() as watched, case.open(home / "db", True) as db:
        for change in given:
            seconds, _ = timed(partial(db.apply, change))
            took.append(seconds)
            checks.append(watched.seconds["in_time"] - before)
            before = watched.seconds["in_time"]
        same("late check", shown(db.table("v")), answer(case, given))
    return took[1:], checks[1:]  # nothing is closed before the first


def explained() -> dict[str, tuple[float, bool]]:
    """Seconds of `explain` of every view of TPC-H whose orders close by their dates, and whether it tells bounds."""
    took = dict[str, tuple[float, bool]]()
    with place() as home, hw.open(home / "db") as db:
        for name, ddl in SCHEMAS.items():
            closes = {"orders": "o_orderdate", "lineitem": "l_shipdate"}.get(name, ())
            db.source(name, ddl, static=name in STATIC, closes=closes)
        for name in QUERIES:
            db.view(name, query(name, 1.0))
        for name in QUERIES:
            seconds, text = timed(lambda name=name: str(db[name].explain()))  # type: ignore[misc]
            took[name] = seconds, "BOUNDS" in text
    return took


def median(values: list[float] | Ints) -> float:
    return float(statistics.median(values))
