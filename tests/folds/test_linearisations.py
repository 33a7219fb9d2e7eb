"""One stream in many orders of arrival and many cuts: the differ finds nothing; of rows taken as they come, it does."""

from __future__ import annotations

import random
import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
import headwater.st as st

TAXI = runpy.run_path(str(Path(__file__).parent.parent.parent / "examples" / "taxi.py"))
DAY = datetime(2026, 3, 1, tzinfo=UTC)
TELLS = "rates[taxi{seq outliers}]"
Rows = list[tuple[str, tuple[Any, ...]]]


def all_rows(seed: int) -> Rows:
    """Fixes and rides of five hours, each with its source; times are often equal."""
    chance = random.Random(seed)
    made: Rows = []
    for _ in range(120):
        ts = DAY + timedelta(minutes=5 * chance.randrange(60))
        place = chance.choice([0.0, 0.0, 9.0]) + chance.randrange(8) / 8
        made.append(("gps", (chance.randrange(3), ts, place, chance.randrange(4) / 4)))
        made.append(("rides", (chance.randrange(3), ts, float(chance.randrange(9)))))
    return made


def played(path: Path, rows: Rows, seed: int, **more: Any) -> hw.Database:
    """A database that has had all rows in a random order and cut, each source closed as soon as its rows were there."""
    db, chance = hw.open(path), random.Random(seed)
    for name, ddl in (
        ("gps", "taxi BIGINT, ts TIMESTAMP, x DOUBLE, y DOUBLE"),
        ("rides", "taxi BIGINT, ts TIMESTAMP, cost DOUBLE"),
        ("hours", "ts TIMESTAMP"),
    ):
        db.source(name, ddl, closes="ts", append_only=True)
    schema = "hours[taxi{seq gps} | bag rides]"
    db.stream("taxis", schema, TAXI["P5"], **{"order": "ts", **more})
    ends = [("hours", (DAY + timedelta(hours=h),)) for h in range(1, 6)]
    left = chance.sample([*rows, *ends], len(rows) + len(ends))
    while left:
        size = chance.choice([1, 10, 80])
        changes: dict[str, list[Any]] = {}
        for name, row in left[:size]:
            changes.setdefault(name, []).append(row)
        del left[:size]
        over = {}
        for name in ("gps", "rides", "hours"):
            times = [r[0] if n == "hours" else r[1] for n, r in left if n == name]
            if chance.random() < 0.7:
                over[name] = hw.closed(ts=hw.below(min(times))) if times else hw.closed()
        db.apply(changes, punctuate=over)
    db.apply({}, punctuate=dict.fromkeys(("gps", "rides", "hours"), hw.closed()))
    return db


def compared(path: Path, count: int, seed: int, **more: Any) -> list[st.Difference]:
    """Where streams of other orders first differ from that of the first one."""
    rows = all_rows(seed)
    first = played(path / "first", rows, 0, **more)
    found = []
    for n in range(1, count):
        other = played(path / str(n), rows, n, **more)
        difference = st.differ(TELLS, first["taxis"], other["taxis"])
        found += [difference] if difference is not None else []
        other.close()
    assert first["taxis"].output_table("outliers").num_rows > 5
    assert first["taxis"].output_table("rates").num_rows == 5
    first.close()
    return found


def test_the_same_stream_in_every_order_and_cut(tmp_path: Path) -> None:
    assert compared(tmp_path, 5, seed=1) == []


def test_rows_as_they_come_tell_something_else(tmp_path: Path) -> None:
    found = compared(tmp_path, 4, seed=1, order="arrival")
    assert len(found) == 3
    assert {d.header for d in found} <= {"rates", "outliers"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_twenty_orders_and_cuts(tmp_path: Path, seed: int) -> None:
    assert compared(tmp_path, 20, seed) == []
