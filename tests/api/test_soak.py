"""Long runs: a writer that commits for hours holds no more files, memory or time than one that has just begun.

The rows come and go so that the state stays as large as it is after the first hundred commits; whatever grows after
that grows with the number of commits, and would end the writer some day.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

import headwater as hw

SOURCE = "k BIGINT, g BIGINT, v BIGINT"


@dataclass
class Seen:
    """What was measured: seconds of each commit, and files mapped, bytes of memory, of disk and of what is named."""

    seconds: list[float] = field(default_factory=list)
    mapped: list[int] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    disk: list[tuple[int, int, int]] = field(default_factory=list)


def view(i: int) -> str:
    """One of many small views: most filter, some add up, some keep the greatest."""
    if i % 10 == 0:
        return f"SELECT g % {i + 2} AS b, count(*) AS n, sum(v) AS t FROM s GROUP BY g % {i + 2}"
    if i % 10 == 5:
        return f"SELECT g % {i + 2} AS b, max(v) AS m FROM s GROUP BY g % {i + 2}"
    return f"SELECT k, v + {i} AS w FROM s WHERE g > {50 + i % 50}"


def mapped(path: Path) -> int:
    """How many regions of memory are files of the database."""
    with open("/proc/self/maps") as f:
        return sum(str(path) in line for line in f)


def memory() -> float:
    gc.collect()
    with open("/proc/self/statm") as f:
        return float(f.read().split()[1]) * 4096


def increments(seed: int, size: int = 200) -> Iterator[hw.Delta]:
    """Five rows come, and once there are enough of them as many go."""
    chance, rows = random.Random(seed), []
    while True:
        new = [(chance.randrange(10_000), chance.randrange(100), 1) for _ in range(5)]
        old = [rows.pop(chance.randrange(len(rows))) for _ in range(5)] if len(rows) > size else []
        rows += new
        yield hw.Delta(inserts=new, deletes=old)


def soak(db: hw.Database, commits: int, look: int = 100) -> Seen:
    """So many commits; every so many of them what the process and the directory hold is looked at."""
    seen = Seen()
    for i, delta in zip(range(1, commits + 1), increments(7), strict=False):
        started = time.perf_counter()
        commit = db.apply({"s": delta}, id=("soak", i))
        seen.seconds.append(time.perf_counter() - started)
        assert commit.warnings == ()
        if i % look == 0:
            seen.mapped.append(mapped(db.path))
            seen.memory.append(memory())
            disk = db.on_disk()
            seen.disk.append((disk.total, disk.named, disk.files))
    return seen


def opened(path: Path, views: int, keep: int | None = None) -> hw.Database:
    db = hw.open(path, keep_versions=keep)
    db.source("s", SOURCE)
    for i in range(views):
        db.view(f"v{i}", view(i))
    return db


def right(db: hw.Database) -> bool:
    """Whether a view of each kind is what its rows say."""
    rows = [r for r in db.table("s").to_pylist() for _ in range(r["_w"])]
    wanted = sorted((r["k"], r["v"] + 1) for r in rows if r["g"] > 51)
    found = db.table("v1").to_pylist()
    total = sum(r["n"] for r in db.table("v0").to_pylist())
    return total == len(rows) and wanted == sorted(
        (r["k"], r["w"]) for r in found for _ in range(r["_w"])
    )


@pytest.mark.parametrize("keep", [None, 60])
def test_a_writer_grows_no_older(tmp_path: Path, keep: int | None) -> None:
    """Counts only, for this runs beside other tests: regions, files and bytes."""
    with opened(tmp_path / "db", 6, keep) as db:
        seen = soak(db, 100, look=20)
        assert right(db)
        assert max(seen.mapped) < 100
        for total, named, files in seen.disk[2:]:
            assert total <= 3 * named
            assert files <= 3 * (keep or 100) + 100


@pytest.mark.slow
@pytest.mark.parametrize("keep", [None, 2000])
def test_two_hundred_views_and_three_thousand_commits(tmp_path: Path, keep: int | None) -> None:
    with opened(tmp_path / "db", 200, keep) as db:
        seen = soak(db, 3000)
        assert right(db)
    told = [f"{median(seen.seconds[i : i + 100]) * 1000:.0f}" for i in range(0, 3000, 100)]
    print(f"ms a commit, by hundreds: {', '.join(told)}")
    print(f"slowest {max(seen.seconds[100:]):.2f} s, mapped {max(seen.mapped)}")
    print(f"memory {[round(m / 1e6) for m in seen.memory]} MB")
    print(f"disk, named, files {seen.disk[-1]}")
    assert max(seen.mapped) < 1000
    second = median(seen.seconds[100:200])
    assert all(median(seen.seconds[i : i + 100]) <= 1.2 * second for i in range(200, 3000, 100))
    assert max(seen.memory[2:]) <= 1.2 * seen.memory[1]
    assert max(seen.seconds[100:]) <= 5 * median(seen.seconds)
    assert all(total <= 3 * named for total, named, _ in seen.disk)


@pytest.mark.slow
def test_twenty_thousand_commits_of_one_view(tmp_path: Path) -> None:
    with opened(tmp_path / "db", 2) as db:
        seen = soak(db, 20_000, look=500)
        assert right(db)
    started = time.perf_counter()
    hw.open(tmp_path / "db").table("v1")
    took = time.perf_counter() - started
    print(
        f"ms a commit, at first and at last: {median(seen.seconds[100:200]) * 1000:.1f}, ", end=""
    )
    print(f"{median(seen.seconds[-100:]) * 1000:.1f}; opened in {took:.3f} s; {seen.disk[-1]}")
    assert took < 0.2
    assert max(seen.mapped) < 150
    assert median(seen.seconds[-1000:]) <= 1.2 * median(seen.seconds[100:1100])
    assert max(seen.memory[1:]) <= 1.2 * seen.memory[0]
    assert all(total <= 3 * named for total, named, _ in seen.disk[1:])
