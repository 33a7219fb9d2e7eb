"""Views on Spark with executors in processes of their own, some of which are killed in the middle of an increment.

This file is also the program that is run: a second Spark context cannot live beside the one of the tests. Tasks write
through `Dying`, which stops after it has written a file and says who it is, so that the kill always falls between a
task's writing and its report: Spark runs the task again, and what the first attempt wrote must never be seen.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import test_bulk
from test_increment_killed import VIEWS, Model, increment

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java process that lives for a minute."""
FILTERED = "SELECT k, reverse(concat('x', i)) AS x, n FROM s WHERE n > 50"
"""A view with scalars that Spark evaluates between two hops."""


@pytest.mark.spark
def test_executors_that_are_killed(tmp_path: Path) -> None:
    judged(tmp_path, "short")


@pytest.mark.spark
@pytest.mark.slow
def test_executors_that_are_killed_many_times(tmp_path: Path) -> None:
    judged(tmp_path, "long")


def judged(tmp_path: Path, story: str) -> None:
    program = [sys.executable, __file__, str(tmp_path / "db"), story]
    path = os.pathsep.join(p for p in sys.path if p)  # modules of other folders of tests
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(tmp_path)}
    env["PYTHONPATH"] = path
    done = subprocess.run(
        program, capture_output=True, text=True, timeout=900, cwd=tmp_path, env=env
    )
    assert "verdict: exact" in done.stdout, done.stdout + done.stderr[-5000:]


# --- the program ---------------------------------------------------------------------------------------------------


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Killer(threading.Thread):
    """Waits for a task to say who it is, and kills its Python worker or the executor above it."""

    def __init__(self, fuse: Path, whole: bool):
        super().__init__(daemon=True)
        self.fuse, self.whole = fuse, whole
        self.killed = 0

    def run(self) -> None:
        while not (self.fuse.exists() and self.fuse.read_text().endswith(".")):
            time.sleep(0.02)
        pid = int(self.fuse.read_text().rstrip("."))
        if self.whole:
            pid = parent(parent(pid))  # worker, daemon, executor
            assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
        os.kill(pid, signal.SIGKILL)
        self.killed = pid


def dying(fuse: Path) -> type:
    """Files where the task that writes first stops when it has written; the class travels with the task."""
    from headwater.state.files import LocalFiles

    place, driver = str(fuse), os.getpid()

    class Dying(LocalFiles):
        def write(self, path: str, chunks: Iterable[Any]) -> int:
            size = super().write(path, chunks)
            if os.getpid() == driver:
                return size
            try:
                handle = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                return size
            os.write(handle, f"{os.getpid()}.".encode())
            time.sleep(60)
            raise RuntimeError("it should have been killed")

    return Dying


class Story:
    """A database on a cluster, and what it must say."""

    def __init__(self, path: Path):
        from pyspark.sql import SparkSession

        self.path, self.model, self.done = path, Model(), 0
        self.spark = (
            SparkSession.builder.master("local-cluster[2,1,1024]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.log.level", "OFF")
            .config("spark.executor.memory", "600m")
            .config("spark.driver.extraJavaOptions", QUICK)
            .config("spark.executor.extraJavaOptions", QUICK)
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.deploy.maxExecutorRetries", "-1")
            .getOrCreate()
        )
        self.db: Any = None

    def open(self, partitions: int) -> None:
        import headwater as hw

        if self.db is not None:
            self.db.close()
        self.db = hw.open(self.path, spark=self.spark, partitions=partitions)
        self.db.policy.execution = "spark"
        self.db.source("s", "k BIGINT, i BIGINT, n BIGINT")
        self.db.source("r", "k BIGINT, name STRING")
        for name, query in {**VIEWS, "filtered": FILTERED}.items():
            self.db.view(name, query)

    def apply(self) -> None:
        import headwater as hw

        rows, names, gone = increment(self.done)
        given: Any = rows
        if self.done % 2:
            given = self.spark.createDataFrame(rows, "k BIGINT, i BIGINT, n BIGINT")
        commit = self.db.apply(
            {"s": hw.Delta(inserts=given, deletes=gone), "r": names}, id=str(self.done)
        )
        assert commit.where == "spark"
        self.done += 1
        for name, expected in self.model.at(self.done).items():
            found = Counter(
                {tuple(r.values())[:-1]: r["_w"] for r in self.db.table(name).to_pylist()}
            )
            assert found == expected, f"{name} is not as after {self.done} increments"
        print(f"increment {self.done}: {commit.seconds:.1f} s", flush=True)

    def killed(self, whole: bool) -> None:
        """An increment during which a task that has just written is killed."""
        from headwater.engine.spark import rounds as cluster

        fuse = self.path.parent / f"fuse-{self.done}"
        killer = Killer(fuse, whole)
        killer.start()
        files, cluster.LocalFiles = cluster.LocalFiles, dying(fuse)  # type: ignore[misc, assignment]
        try:
            before = self.unseen()
            self.apply()
        finally:
            cluster.LocalFiles = files  # type: ignore[misc]
        assert killer.killed, "nothing was killed"
        assert self.unseen() > before, "the attempt that was killed had written nothing"

    def unseen(self) -> int:
        """Files that no version names."""
        store = self.db.store
        named = set().union(*(store.log.read(n).files for n in store.log.numbers()))
        runs = [e.name for e in store.files.list("data") if e.name.startswith("run")]
        return len(set(runs) - named)

    def end(self) -> None:
        self.db.verify("filtered")  # the others are compared with the model
        report = self.db.store.check()
        assert not report.problems, report.problems
        self.db.close()
        test_bulk.killed(self.path.parent, self.spark)
        print("verdict: exact", flush=True)


def short(story: Story) -> None:
    story.open(partitions=2)
    story.apply()
    story.killed(whole=False)
    story.open(partitions=5)
    story.killed(whole=True)
    story.open(partitions=1)
    story.apply()
    story.end()


def long(story: Story) -> None:
    chance = random.Random(0)
    for n in itertools.count():
        story.open(partitions=chance.choice((1, 2, 3, 7)))
        story.apply()
        story.killed(whole=n % 2 == 0)
        if n == 12:
            break
    story.end()


if __name__ == "__main__":
    {"short": short, "long": long}[sys.argv[2]](Story(Path(sys.argv[1])))
    sys.stdout.flush()
    os._exit(0)
