"""Commits in which taxis run, stopped at every step and killed at any time: each row is told once, as if nothing had happened.

This file is also the program that is run and killed. After so many increments there is what an undisturbed run has told.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import headwater as hw
import headwater.st as st
from faulty_files import STOPS, MemoryFiles, Stopped
from headwater.api.ids import applied
from headwater.state import directory, purging
from headwater.state.store import StoreWriter

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
INCREMENTS = 6
TAXIS = 3


def drive(at: Any, fix: Any, emit: Any) -> Any:
    """One taxi, in order: the way that it goes, and fixes that are too far away."""
    if at.x is None:
        return fix.x, fix.y, at.km or 0.0
    d = math.hypot(fix.x - at.x, fix.y - at.y)
    if d > 1:
        emit("outliers", fix.taxi, fix.ts, d)
        return at
    return fix.x, fix.y, at.km + d


WAYS = st.fold(
    drive,
    state="x DOUBLE, y DOUBLE, km DOUBLE",
    result="km",
    gives={"outliers": "taxi BIGINT, ts TIMESTAMP, d DOUBLE"},
)
RATES = st.hierarchical(
    st.parallel(
        st.partitioned(WAYS, agg="SELECT sum(km) AS km FROM results"),
        st.relational("SELECT sum(cost) AS cost FROM rides"),
        fin="SELECT cost / nullif(km, 0) AS rate FROM lefts, rights",
    ),
    update="SELECT mark.ts AS hour, rate FROM mark, result",
    gives="rates",
)


def increment(i: int, taxis: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fixes and rides of half an hour, shuffled, and what is closed then."""
    chance, start = random.Random(i), BEGIN + timedelta(minutes=30 * i)
    gps, rides = [], []
    for taxi in range(taxis):
        for _ in range(4):
            ts = start + timedelta(seconds=chance.randrange(3600))
            far = 9.0 if chance.random() < 0.1 else 0.0
            gps.append((taxi, ts, chance.random() / 2 + far, chance.random() / 2))
        rides.append((taxi, start + timedelta(seconds=chance.randrange(3600)), float(taxi + 1)))
    chance.shuffle(gps)
    over = hw.closed(ts=hw.below(start))
    return {"gps": gps, "rides": rides}, {"gps": over, "rides": over}


def define(db: hw.Database) -> None:
    db.source("gps", "taxi BIGINT, ts TIMESTAMP, x DOUBLE, y DOUBLE", closes="ts")
    db.source("rides", "taxi BIGINT, ts TIMESTAMP, cost DOUBLE", closes="ts")
    db.stream(
        "s",
        "hour[taxi{seq gps} | bag rides]",
        RATES,
        order="ts",
        marks={"hour": "1 hour"},
        closes={"rates": "hour"},
    )
    db.view("worst", "SELECT date(hour) AS day, max(rate) AS rate FROM rates GROUP BY date(hour)")


def play(db: hw.Database, increments: int, taxis: int = TAXIS) -> None:
    """Applies increments, those that are there too."""
    define(db)
    for i in range(increments):
        changes, points = increment(i, taxis)
        db.apply(changes, punctuate=points, id=("taxis", i))


def found(db: hw.Database) -> tuple[int, Any]:
    """How many increments are there, and what was told, in order."""
    facts = db.store.at().facts
    done = next(i for i in itertools.count() if applied(facts, ("taxis", i)) is None)
    if "s" not in db.streams:
        return done, None
    names = ["rates", "outliers"]
    told = [db["s"].output_table(n).drop_columns(["_version"]).to_pylist() for n in names]
    return done, (told, [db.table(n).num_rows for n in names], db.table("worst").to_pylist())


def undisturbed(path: Path, increments: int, taxis: int = TAXIS) -> list[Any]:
    """What is there after each number of increments."""
    with hw.open(path) as db:
        define(db)
        out = [found(db)[1]]
        for i in range(increments):
            changes, points = increment(i, taxis)
            db.apply(changes, punctuate=points, id=("taxis", i))
            out.append(found(db)[1])
        db["s"].verify()
    told, counts, _ = out[-1]
    assert min(counts) > 1 and [len(t) for t in told] == counts
    return out


# --- every step -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kept_in(files: MemoryFiles, path: Path) -> Any:
    """A database whose files are in memory, compacted between two commits, in the same thread."""

    def tidy(writer: StoreWriter) -> None:
        writer.compact(whole=True)

    with (
        patch.object(directory, "check", lambda _: files),
        patch.object(StoreWriter, "tidy", tidy),
    ):
        yield hw.open(path)


def stopped_at(path: Path, steps: slice) -> None:
    should = undisturbed(path / "whole", INCREMENTS)
    base = MemoryFiles()
    with kept_in(base, path) as db, db:
        play(db, 2)
    whole = base.copy()
    with kept_in(whole, path) as db, db:
        play(db, INCREMENTS)
        assert found(db) == (INCREMENTS, should[INCREMENTS])
    seen = set()
    for step in range(1, len(whole.trace) + 1)[steps]:
        files = base.copy()
        files.faults = {step: STOPS[step % len(STOPS)]}
        with contextlib.suppress(Stopped), kept_in(files, path) as db:
            play(db, INCREMENTS)
        for left in itertools.islice(files.crashed(), 2):
            left.clock += 10_000  # the lease of who died is over
            with kept_in(left, path) as db, db:
                define(db)
                done, there = found(db)
                assert there == should[done], f"step {step}, {whole.trace[step - 1]}"
                seen.add(done)
                play(db, INCREMENTS)
                assert found(db) == (INCREMENTS, should[INCREMENTS])
                db["s"].verify()
    assert seen <= set(range(2, INCREMENTS + 1)) and len(seen) > 1


def test_a_commit_in_which_taxis_run_is_there_or_not(tmp_path: Path) -> None:
    stopped_at(tmp_path, slice(3, None, 211))


@pytest.mark.slow
def test_a_commit_in_which_taxis_run_is_stopped_at_every_step(tmp_path: Path) -> None:
    stopped_at(tmp_path, slice(None))


# --- killed -----------------------------------------------------------------------------------------------

MANY = 40
"""Taxis of a process that is killed."""


def child(path: str, increments: str) -> None:
    purging.FEW, purging.EVERY = 64, 1
    with hw.open(path, keep_versions=5) as db:
        print("ready", flush=True)
        play(db, int(increments), MANY)
        print("done", flush=True)


def killed(path: Path, kills: int, seed: int) -> None:
    chance, increments, seen = random.Random(seed), 12 + 3 * kills, 0
    should = undisturbed(path / "whole", increments, MANY)
    for n in range(kills + 1):
        process = subprocess.Popen(
            [sys.executable, __file__, str(path / "db"), str(increments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        assert process.stdout is not None and process.stderr is not None
        if n < kills:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.random() * 0.8)
            process.send_signal(signal.SIGKILL)
        out, errors = process.communicate()
        assert n < kills or out.endswith("done\n"), errors
        with hw.open(path / "db") as db:
            define(db)
            done, there = found(db)
            assert done >= seen and there == should[done]
            seen = done
            assert not db.check().problems
    assert seen == increments
    with hw.open(path / "db") as db:
        define(db)
        db["s"].verify()


def test_a_process_that_runs_taxis_is_killed(tmp_path: Path) -> None:
    killed(tmp_path, 2, 1)


@pytest.mark.slow
def test_a_process_that_runs_taxis_is_killed_many_times(tmp_path: Path) -> None:
    killed(tmp_path, 20, 2)


if __name__ == "__main__":
    child(*sys.argv[1:])
