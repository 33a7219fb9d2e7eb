"""Taxis: their fixes and rides, the pipeline that makes rates of them, its fold alone, and both as a plain program.

Taxis go along one axis at a time, by whole 64ths, and now and then a fix is far off; so distances and their sums are exact, and what
is told is compared value by value. A fix that is off is no step: the taxi stands still meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
import headwater.st as st
from benchmarks.streams_cases import Ints

Tables = dict[str, pa.Table]

GPS = "taxi BIGINT, ts TIMESTAMP, x DOUBLE, y DOUBLE"
RIDES = "taxi BIGINT, ts TIMESTAMP, cost DOUBLE"
OUTLIERS = "taxi BIGINT, ts TIMESTAMP, x DOUBLE, y DOUBLE, km DOUBLE"
STATE = "x DOUBLE, y DOUBLE, km DOUBLE"
INSTANT = pa.timestamp("us", "UTC")
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
HOUR = 3_600_000_000
"""Microseconds."""
OFF = 0.01
"""The share of fixes that are far off."""
BY_TAXI = st.PartitionBy("taxi", st.Seq("gps"))
TOLD = st.Sync("cost_per_mile", st.PartitionBy("taxi", st.Seq("outliers")))
"""The order of what the pipeline tells."""
TOLD_ALONE = st.PartitionBy("taxi", st.Seq("outliers"))


def drive(at: Any, fix: Any, emit: Callable[..., Any]) -> Any:
    """The Python step: where a taxi is, and how far it went; a fix that is far off is told, and is no step."""
    if at.x is None:
        return fix.x, fix.y, at.km or 0.0
    d = math.hypot(fix.x - at.x, fix.y - at.y)
    if d > 1:
        emit("outliers", fix.taxi, fix.ts, fix.x, fix.y, at.km)
        return at
    return fix.x, fix.y, at.km + d


FOLD = st.fold(drive, state=STATE, result="km", gives={"outliers": OUTLIERS})
PIPELINE = st.hierarchical(
    st.parallel(
        st.partitioned(FOLD, agg="SELECT sum(km) AS km FROM results"),
        st.relational("SELECT sum(cost) AS cost FROM rides"),
        fin="SELECT cost / nullif(km, 0) AS rate FROM lefts, rights",
    ),
    update="SELECT mark.ts AS hour, rate FROM mark, result",
    gives="cost_per_mile",
)


def rates(path: Path, closes: Any = "ts", **more: Any) -> hw.Database:
    """A database with the whole pipeline; sources keep no copies of their rows."""
    db = hw.open(path, **more)
    db.source("gps", GPS, closes=closes, append_only=True, retain=False)
    db.source("rides", RIDES, closes=closes, append_only=True, retain=False)
    schema = st.Sync("hour", st.Par(BY_TAXI, st.Bag("rides")))
    told = {"cost_per_mile": "hour"}
    db.stream("rates", schema, PIPELINE, order="ts", marks={"hour": "1 hour"}, closes=told)
    return db


def alone(path: Path, **more: Any) -> hw.Database:
    """A database with the fold alone, which has a state for each taxi and is never over."""
    db = hw.open(path, **more)
    db.source("gps", GPS, closes="ts", append_only=True, retain=False)
    db.stream("drives", BY_TAXI, st.partitioned(FOLD), order="ts")
    return db


# --- rows ----------------------------------------------------------------------------------------------------------


def instant(microseconds: int) -> datetime:
    """A time that is so long behind the first."""
    return BEGIN + timedelta(microseconds=microseconds)


def instants(microseconds: Ints) -> pa.Array:
    return pa.array(microseconds + round(BEGIN.timestamp() * 1e6)).cast(INSTANT)


def numbers(table: pa.Table) -> Ints:
    """The times of rows, in microseconds behind the first."""
    found: Ints = np.asarray(table.column("ts").cast(pa.int64()))
    return found - round(BEGIN.timestamp() * 1e6)


def fixes(taxi: Ints, span: int, seed: int = 17) -> pa.Table:
    """A fix of each of some taxis, in order of time, no two at once, over so many microseconds."""
    rng, n = np.random.default_rng(seed), len(taxi)
    each = span // n
    ts = np.arange(n) * each + rng.integers(0, each, n)
    order = np.lexsort((ts, taxi))
    hour = (ts // HOUR)[order]
    first = np.ones(n, np.bool_)
    first[1:] = (taxi[order][1:] != taxi[order][:-1]) | (hour[1:] != hour[:-1])
    off = (rng.random(n) < OFF) & ~first
    step = np.where(off, 0, rng.integers(-32, 33, n)) / 64
    along = rng.random(n) < 0.5
    x, y = np.empty(n), np.empty(n)
    x[order] = np.cumsum(np.where(along, step, 0)) + np.where(off, 50.0, 0)
    y[order] = np.cumsum(np.where(along, 0, step)) + np.where(off, 50.0, 0)
    return pa.table({"taxi": taxi, "ts": instants(ts), "x": x, "y": y})


def rides(count: int, taxis: int, span: int, seed: int = 18) -> pa.Table:
    """Rides in order of time, that cost whole quarters."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, span, count))
    cost = rng.integers(20, 200, count) / 4
    return pa.table({"taxi": rng.integers(0, taxis, count), "ts": instants(ts), "cost": cost})


def some(count: int, taxis: int, seed: int = 19) -> Ints:
    """Taxis by chance."""
    return np.random.default_rng(seed).integers(0, taxis, count)


# --- the same as a plain program -----------------------------------------------------------------------------------


def _columns(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(c.to_pylist() for c in table.columns), strict=True)


def driven(gps: pa.Table, by_hour: bool) -> tuple[pa.Table, dict[int, dict[int, Any]]]:
    """The outliers, and by hour where taxis were and how far they went; without hours all is one."""
    hours = (numbers(gps) // HOUR if by_hour else np.zeros(gps.num_rows, np.int64)).tolist()
    at: dict[int, dict[int, Any]] = {}
    told = []
    for hour, (taxi, ts, x, y) in zip(hours, _columns(gps), strict=True):
        states = at.setdefault(hour, {})
        if taxi not in states:
            states[taxi] = (x, y, 0.0)
            continue
        was_x, was_y, km = states[taxi]
        d = math.hypot(x - was_x, y - was_y)
        if d > 1:
            told.append((taxi, ts, x, y, km))
        else:
            states[taxi] = (x, y, km + d)
    return outliers_of(told), at


def outliers_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    types = [pa.int64(), INSTANT, pa.float64(), pa.float64(), pa.float64()]
    cells = list(zip(*rows, strict=True)) or [()] * len(types)
    arrays = [pa.array(c, t) for c, t in zip(cells, types, strict=True)]
    return pa.table(arrays, ["taxi", "ts", "x", "y", "km"])


def rated(gps: pa.Table, taken: pa.Table, upto: int) -> list[Any]:
    """What the pipeline tells of the hours before one, in order: outliers, and the rates of hours that are over."""
    outliers, at = driven(gps, by_hour=True)
    cost: dict[int, float] = {}
    for hour, paid in zip(
        (numbers(taken) // HOUR).tolist(), taken.column("cost").to_pylist(), strict=True
    ):
        cost[hour] = cost.get(hour, 0.0) + paid
    hours = list(range(upto))
    km = [sum(s[2] for s in at.get(h, {}).values()) for h in hours]
    rate = [cost[h] / k if k and h in cost else None for h, k in zip(hours, km, strict=True)]
    ends = instants(np.array([(h + 1) * HOUR for h in hours], np.int64))
    told = {
        "outliers": outliers,
        "cost_per_mile": pa.table({"hour": ends, "rate": pa.array(rate, pa.float64())}),
    }
    declared = {"outliers": OUTLIERS, "cost_per_mile": "hour TIMESTAMP, rate DOUBLE"}
    headers = {name: st.Header(name, st.fields(ddl)) for name, ddl in declared.items()}
    order = {"outliers": "ts", "cost_per_mile": "hour"}
    return st.merged(told, headers, order, marks=["cost_per_mile"])


def same(what: str, schema: Any, told: Any, wanted: Any, order: Any = None) -> None:
    """Raises where the differ finds a difference."""
    found = st.differ(schema, told, wanted, order=order)
    if found is not None:
        raise AssertionError(f"{what}: {found}")
