"""Commits that close, move rows to a ledger and purge, stopped at every step: the version before or after, no row told twice.

This file is also the program that is run and killed. What is there after so many increments is a function of their number,
computed in plain Python: the rows of the source that are open, the answer, the final rows, and the late ones.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import headwater as hw
from faulty_files import STOPS, MemoryFiles, Stopped
from headwater.api.ids import applied
from headwater.state import directory, purging
from headwater.state.store import StoreWriter

PAST = 2
"""How many hours are open."""
INCREMENTS = 6


def increment(i: int, rows: int = 6) -> tuple[list[tuple[int, int]], int]:
    """The rows of the i-th increment, of the last hours and one that is late; and the hour up to which it closes."""
    new = [(i - n % PAST, 10 * i + n) for n in range(rows)]
    return [*new, *([(0, -i)] if i > PAST else [])], i - PAST


def expected(done: int, rows: int = 6) -> dict[str, Counter[Any]]:
    """What there is after so many increments."""
    came: Counter[Any] = Counter()
    late: Counter[Any] = Counter()
    closed = -PAST - 1
    for i in range(done):
        for row in increment(i, rows)[0]:
            (late if row[0] <= closed else came)[row] += 1
        closed = max(closed, increment(i, rows)[1])
    sums: dict[int, tuple[int, int]] = {}
    for (h, n), times in came.items():
        c, t = sums.get(h, (0, 0))
        sums[h] = c + times, t + n * times
    answer = Counter((h, c, t) for h, (c, t) in sums.items())
    return {
        "open": Counter({r: c for r, c in came.items() if r[0] > closed}),
        "answer": answer,
        "final": Counter({r: c for r, c in answer.items() if r[0] <= closed}),
        "late": late,
    }


def define(db: hw.Database) -> None:
    db.source("s", "h INT, n INT", closes="h", late="aside", retain="open")
    db.view("v", "SELECT h, count(*) AS c, sum(n) AS t FROM s GROUP BY h")


def play(db: hw.Database, increments: int, rows: int = 6) -> None:
    """Applies increments, those that are there too."""
    define(db)
    for i in range(increments):
        new, over = increment(i, rows)
        db.apply({"s": new}, punctuate={"s": hw.closed(h=hw.upto(over))}, id=("story", i))


def found(db: hw.Database) -> tuple[int, dict[str, Counter[Any]]]:
    """How many increments are there, and what can be read."""
    facts = db.store.at().facts
    done = next(i for i in itertools.count() if applied(facts, ("story", i)) is None)

    def counted(table: Any, width: int) -> Counter[Any]:
        out: Counter[Any] = Counter()
        for r in table.to_pylist():
            weight = r.pop("_w")
            out[tuple(r.values())[:width]] += weight
        return out

    return done, {
        "open": counted(db.table("s"), 2),
        "answer": counted(db.table("v"), 3),
        "final": counted(db.final_table("v"), 3),
        "late": counted(db.late_table("s"), 2),
    }


def told_once(db: hw.Database) -> None:
    """No hour is in the ledger twice."""
    hours = db.final_table("v").column("h").to_pylist()
    assert len(hours) == len(set(hours)), hours


# --- every step -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kept_in(files: MemoryFiles, path: Path) -> Any:
    """A database whose files are in memory, and which purges all that is dead between two commits, in the same thread."""

    def tidy(writer: StoreWriter) -> None:
        writer.compact(whole=True)

    with (
        patch.object(directory, "check", lambda _: files),
        patch.object(StoreWriter, "tidy", tidy),
    ):
        yield hw.open(path)


def stopped_at(path: Path, steps: slice) -> None:
    base = MemoryFiles()
    with kept_in(base, path) as db, db:
        play(db, PAST + 2)
    whole = base.copy()
    with kept_in(whole, path) as db, db:
        play(db, INCREMENTS)
        assert found(db) == (INCREMENTS, expected(INCREMENTS))
        kept = {n: sum(r.rows for r in refs) for n, (_, refs) in db.store.at().version.maps.items()}
    assert min(kept.values()) > 0 and max(n for m, n in kept.items() if ":" not in m) < 30
    seen = set()
    for step in range(1, len(whole.trace) + 1)[steps]:
        files = base.copy()
        files.faults = {step: STOPS[step % len(STOPS)]}
        with contextlib.suppress(Stopped), kept_in(files, path) as db:
            play(db, INCREMENTS)
        killed, *powerless = files.crashed()
        for left in [killed, *powerless[:: max(1, len(powerless) // 2)]]:
            left.clock += 10_000  # the lease of who died is over
            with kept_in(left, path) as db, db:
                done, there = found(db)
                assert there == expected(done), f"step {step}, {whole.trace[step - 1]}"
                seen.add(done)
                play(db, INCREMENTS)
                assert found(db) == (INCREMENTS, expected(INCREMENTS))
                told_once(db)
    assert seen <= set(range(PAST + 2, INCREMENTS + 1)) and len(seen) > 1


def test_a_commit_that_closes_is_there_or_not(tmp_path: Path) -> None:
    stopped_at(tmp_path / "db", slice(5, None, 29))


@pytest.mark.slow
def test_a_commit_that_closes_is_stopped_at_every_step(tmp_path: Path) -> None:
    stopped_at(tmp_path / "db", slice(None))


# --- killed -------------------------------------------------------------------------------------------------------------

MANY = 400
"""Rows of an increment of a process that is killed: enough that maps are rewritten for what is dead."""


def child(path: str, increments: str) -> None:
    purging.FEW, purging.EVERY = 64, 1
    with hw.open(path, keep_versions=5) as db:
        print("ready", flush=True)
        play(db, int(increments), MANY)
        print("done", flush=True)


def killed(path: Path, kills: int, seed: int) -> None:
    chance, increments, seen = random.Random(seed), 12 + 3 * kills, 0
    for n in range(kills + 1):
        process = subprocess.Popen(
            [sys.executable, __file__, str(path), str(increments)],
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
        with hw.open(path) as db:
            if "v" in db.views:
                done, there = found(db)
                assert done >= seen and there == expected(done, MANY)
                told_once(db)
                seen = done
            assert not db.check().problems
    assert seen == increments


def test_a_process_that_closes_is_killed(tmp_path: Path) -> None:
    killed(tmp_path / "db", 2, 1)


@pytest.mark.slow
def test_a_process_that_closes_is_killed_many_times(tmp_path: Path) -> None:
    killed(tmp_path / "db", 20, 2)


if __name__ == "__main__":
    child(*sys.argv[1:])
