"""A process that applies increments, killed at random moments: what is committed is a prefix, whole, and goes on.

This file is also the program that is run. A child applies a fixed sequence of increments, in the driver and on Spark by
turns, and says when each begins; it is killed a random time later, so that kills fall into staging, jobs, writing and
committing. Each increment has an id, so how far it came can be seen, and what the views must say is computed in plain
Python. The next child applies the same increments from the first: nothing may be lost, and nothing be there twice.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

SMALL, LARGE = 12, 200
"""Rows of an increment."""
VIEWS = {
    "totals": "SELECT k, count(*) AS c, sum(n) AS t, min(n) AS low, max(n) AS high FROM s GROUP BY k",
    "joined": "SELECT r.name, count(*) AS c, sum(s.n) AS t FROM s JOIN r ON s.k = r.k GROUP BY r.name",
    "sizes": "SELECT c, count(*) AS groups, sum(t) AS t FROM totals GROUP BY c",
}
Row = tuple[Any, ...]


def increment(i: int) -> tuple[list[Row], list[Row], list[Row]]:
    """The rows of `s` and of `r` that come, and the rows of `s` that go, with the i-th increment."""
    chance = random.Random(i)
    count = LARGE if i % 7 == 0 else SMALL
    rows = [(chance.randrange(9), i, chance.randrange(100)) for _ in range(count)]
    gone = [] if i < 2 or i % 3 else rows_of(i - 2)[: SMALL // 2]
    return rows, [(i % 9, f"name {i % 4}")], gone


def rows_of(i: int) -> list[Row]:
    return increment(i)[0]


class Model:
    """The tables after so many increments, and what the views say of them."""

    def __init__(self) -> None:
        self.done = 0
        self.s: Counter[Row] = Counter()
        self.r: Counter[Row] = Counter()

    def at(self, done: int) -> dict[str, Counter[Row]]:
        assert done >= self.done, "increments that were there are gone"
        for i in range(self.done, done):
            rows, names, gone = increment(i)
            self.s.update(rows)
            self.s.subtract(gone)
            self.r.update(names)
        self.done = done
        groups: dict[int, list[int]] = defaultdict(list)
        for (k, _, n), c in self.s.items():
            groups[k] += [n] * c
        totals = {k: (len(ns), sum(ns), min(ns), max(ns)) for k, ns in groups.items() if ns}
        joined: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for (k, name), times in self.r.items():
            if k in totals:
                joined[name][0] += times * totals[k][0]
                joined[name][1] += times * totals[k][1]
        sizes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for c, t, _, _ in totals.values():
            sizes[c][0] += 1
            sizes[c][1] += t
        return {
            "s": +self.s,
            "r": +self.r,
            "totals": Counter((k, *rest) for k, rest in totals.items()),
            "joined": Counter((name, *rest) for name, rest in joined.items()),
            "sizes": Counter((c, *rest) for c, rest in sizes.items()),
        }


# --- the child ---------------------------------------------------------------------------------------------------


def child(path: str, seed: int) -> None:
    """Waits for a line, then applies increments until it is killed."""
    from pyspark.sql import SparkSession

    import headwater as hw

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    print("ready", flush=True)
    input()
    db = hw.open(path, spark=spark, keep_versions=5)
    db.source("s", "k BIGINT, i BIGINT, n BIGINT")
    db.source("r", "k BIGINT, name STRING")
    for name, query in VIEWS.items():
        db.view(name, query)
    places = itertools.cycle(("driver", "spark") if seed % 2 else ("spark", "driver"))
    for i in itertools.count():
        rows, names, gone = increment(i)
        if any(f"applied:{i}" == fact for fact in db.store.at().facts) and i % 5:
            continue  # every fifth is offered again, and must be taken for what it is
        db.policy.execution = next(places)
        given: Any = rows
        if i % 4 == 1:
            given = spark.createDataFrame(rows, "k BIGINT, i BIGINT, n BIGINT")
        print(f"applying {i} {db.policy.execution}", flush=True)
        db.apply({"s": hw.Delta(inserts=given, deletes=gone), "r": names}, id=str(i))
        print(f"applied {i}", flush=True)


class Child:
    """A child that is getting ready, and then runs until it is killed."""

    def __init__(self, path: Path, seed: int):
        self.errors = path.parent / f"errors-{seed}"
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(path), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors.open("wb"),
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            start_new_session=True,
        )
        self.chance = random.Random(seed)

    def run(self) -> tuple[int, str]:
        """Lets it go, and kills it while it applies: which increment it was at, and where."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        wanted = self.chance.randrange(1, 5)
        begun, at = 0, (0, "")
        for line in self.process.stdout:
            if line.startswith("applying"):
                _, i, where = line.split()
                begun, at = begun + 1, (int(i), where)
                if begun == wanted:
                    break
        said = self.errors.read_text()[-3000:]
        assert begun == wanted, f"the child ended by itself:\n{said}"
        # Increments take from 0.05 s in the driver to a second on Spark: short delays are as likely as long ones.
        time.sleep(self.chance.choice((0.0, 0.02, 0.1, 0.4)) * self.chance.random() * 2)
        self.kill()
        return at

    def kill(self) -> None:
        """All of it: Python, Java, and Spark's Python workers."""
        with_all = os.getpgid(self.process.pid) if self.process.poll() is None else None
        if with_all is not None:
            os.killpg(with_all, signal.SIGKILL)
        self.process.wait()


def run(path: Path, kills: int, seed: int) -> None:
    import headwater as hw
    from spark_session import session

    model, where = Model(), Counter[str]()
    last = 0
    children = [Child(path, seed)]
    try:
        for n in range(kills):
            if n + 1 < kills:  # the next one gets ready while this one runs and is checked
                children.append(Child(path, seed + n + 1))
            at, place = children[n].run()
            where[place] += 1
            with hw.open(path, spark=session()) as db:
                ids = sorted(int(f[8:]) for f in db.store.at().facts if f.startswith("applied:"))
                done = len(ids)
                assert ids == list(range(done)), "a later increment is there without an earlier one"
                assert done in (at, at + 1) or at < last, f"killed at {at}, and {done} are there"
                last = done
                for name, expected in model.at(done).items():
                    found = Counter(
                        {tuple(r.values())[:-1]: r["_w"] for r in db.table(name).to_pylist()}
                    )
                    assert found == expected, f"{name} is not as after {done} increments"
                if n % 5 == 4 or n + 1 == kills:
                    db.verify()
                    assert not db.store.check().problems
                # Writing works at once: the killed writer's lease is not waited for.
                begun = time.monotonic()
                rows, names, gone = increment(done)
                db.policy.execution = "driver"
                change = {"s": hw.Delta(inserts=rows, deletes=gone), "r": names}
                assert not db.apply(change, id=str(done)).repeated
                assert time.monotonic() - begun < 20
                assert db.apply(change, id=str(done)).repeated
                last = done + 1
                assert not list((path / "staging").glob("*")), "staged files are never cleaned up"
    finally:
        for c in children:
            c.kill()
    assert last > kills and len(where) == 2, f"the children hardly ran: {last} increments, {where}"


@pytest.mark.spark
def test_a_killed_process_leaves_a_whole_prefix(tmp_path: Path) -> None:
    run(tmp_path / "db", kills=5, seed=1)


@pytest.mark.spark
@pytest.mark.slow
def test_a_process_killed_many_times(tmp_path: Path) -> None:
    run(tmp_path / "db", kills=50, seed=100)


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]))
