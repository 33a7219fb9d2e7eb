"""A process that runs stages, killed at random moments: what it leaves is a version, and the next one goes on from there.

This file is also the program that is run. A child runs the crawl queue over a fixed series of increments of pages, with
the view on top; it is killed a random time after an increment began, or at one of its next calls of the file system,
before or after the call's effect. The next child does the same from the first increment. At the end state, outputs and
counters are those of a run that nobody disturbed, and in the log every reader removed every increment once, in order.
"""

from __future__ import annotations

import itertools
import os
import random
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
CALLS = ("write", "put_if_absent", "delete")
"""What a process does to its files."""


def crawl() -> SimpleNamespace:
    """The example."""
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / "crawl.py")))


def pages(i: int, page: Any) -> list[Any]:
    """The pages of the i-th increment: few sites, so that all stages have groups that they know."""
    chance = random.Random(i)
    urls = [f"{s}.org/{n}" for s in "abcd" for n in range(9)]
    return [page(chance.choice(urls), *chance.choices(urls, k=4)) for _ in range(3)]


# --- the child -------------------------------------------------------------------------------------------------------


def play(path: str, increments: int, how: str) -> None:
    """All increments, those that are there too; some are two at a time, so that queues are longer than one."""
    import headwater as hw

    made, options = crawl(), {}
    if how == "spark":
        options = {"spark": started(), "partitions": random.choice([1, 2, 3])}
    with hw.open(path, keep_versions=100_000, **options) as db:
        if how == "spark":
            db.policy.execution = "spark"
        made.define(db)
        for i in range(increments):
            new = f"applied:{i}" not in db.store.at().facts
            if new:
                print(f"applying {i}", flush=True)
            db.apply({"pages": pages(i, made.page)}, id=str(i))
            if i % 4:
                run(db)
        run(db)


def run(db: Any) -> None:
    """Runs; a stage in whose epoch three processes were killed is told to try again."""
    from headwater.errors import StageFailed

    try:
        db.run()
    except StageFailed as e:
        assert "the process died" in str(e)
        for name in db.stages:
            db[name].resume()
        db.run()


def started() -> Any:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )


def dies(at: int, after: bool) -> None:
    """This process is killed by its n-th call that changes a file."""
    from headwater.state.files import LocalFiles

    left = itertools.count(1 - at)

    def deadly(real: Any) -> Any:
        def call(files: Any, *args: Any) -> Any:
            now = next(left) == 0
            if now and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            out = real(files, *args)
            if now:
                os.kill(os.getpid(), signal.SIGKILL)
            return out

        return call

    for name in CALLS:
        setattr(LocalFiles, name, deadly(getattr(LocalFiles, name)))


def child(path: str, increments: str, how: str) -> None:
    """Waits for a line that says at which call to die, if at any, and plays."""
    if how == "spark":
        started()
    import headwater  # noqa: F401

    print("ready", flush=True)
    at, after = map(int, input().split())
    if at:
        dies(at, bool(after))
    play(path, int(increments), how)
    print("done", flush=True)


class Child:
    """A child that is getting ready, and then runs until it is killed or done."""

    def __init__(self, path: Path, increments: int, how: str, seed: int):
        self.how, self.chance = how, random.Random(seed)
        self.errors = path.parent / f"errors-{seed}"
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(path), str(increments), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors.open("wb"),
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            start_new_session=True,
        )

    def run(self, kill: bool) -> bool:
        """Lets it go, and kills it if that is wanted; whether it was done."""
        assert self.process.stdin is not None and self.process.stdout is not None
        by_itself = kill and self.chance.random() < 0.5
        at = self.chance.randrange(1, 60) if by_itself else 0
        self.process.stdin.write(f"{at} {self.chance.randrange(2)}\n")
        self.process.stdin.flush()
        wanted, seen = self.chance.randrange(1, 4), 0
        for line in self.process.stdout:
            if line.startswith("done"):
                self.process.wait()
                return True
            seen += line.startswith("applying")
            if kill and not by_itself and seen == wanted:
                time.sleep(self.chance.random() * (2.0 if self.how == "spark" else 0.1))
                self.kill()
        code = self.process.wait()
        assert code == -signal.SIGKILL, f"the child failed:\n{self.errors.read_text()[-3000:]}"
        return False

    def kill(self) -> None:
        """All of it: Python, Java, and Spark's Python workers."""
        if self.process.poll() is None:
            os.killpg(os.getpgid(self.process.pid), signal.SIGKILL)
        self.process.wait()


# --- what is left ----------------------------------------------------------------------------------------------------


def left(path: Path) -> dict[str, Any]:
    """Everything that can be seen at the end: rows, state, counters, and where readers stand."""
    import headwater as hw

    out: dict[str, Any] = {}
    with hw.open(path) as db:
        for name in ("pages", "queue", "best"):
            out[name] = sorted(map(repr, db.table(name).to_pylist()))
        snapshot = db.store.at()
        for name in snapshot.version.maps:
            if name.startswith("s:"):
                rows = [r for t in snapshot.arrangement(name).scan() for r in t.to_pylist()]
                out[name] = sorted(map(repr, rows))
        for (stage, name), cursor in db.graph.cursors.items():
            out[f"{stage}.{name}"] = cursor.first, len(cursor.at)
        out |= {f"epochs {n}": node.epochs for n, node in db.graph.nodes.items()}
        assert not db.store.check().problems
        assert not list((path / "staging").glob("*")), "staged files are never cleaned up"
    return out


def assert_removed_once(path: Path) -> None:
    """In the log, version by version, cursors only go forward, an increment an epoch; nothing is sent twice."""
    from headwater.dataflow.graph import Graph
    from headwater.state.files import LocalFiles
    from headwater.state.store import Store

    store = Store(LocalFiles(path))
    before: Graph | None = None
    for number in store.log.numbers():
        graph = Graph.read(store.at(number).facts)
        for (stage, name), now in graph.cursors.items():
            was = None if before is None else before.cursors.get((stage, name))
            if before is None or was is None:
                assert now.first == 0 and set(now.at) <= {number}
                continue
            ran = graph.nodes[stage].epochs - before.nodes[stage].epochs
            assert ran in (0, 1)
            assert now.first - was.first == ran, f"{stage} of {name} at version {number}"
            sent = [v for v in now.at if v not in was.at]
            assert sent in ([], [number])
            assert now.at == (*was.at, *sent)[ran:] or (ran, now.at) == (1, was.at)
        before = graph
    assert before is not None and not any(c.at for c in before.cursors.values())


def killed(path: Path, kills: int, increments: int, hows: Iterator[str], seed: int) -> None:
    path.mkdir()
    play(str(path / "undisturbed"), increments, "here")
    expected, counted, n = left(path / "undisturbed"), 0, 0
    db, children = path / "db", [Child(path / "db", increments, next(hows), seed)]
    try:
        while True:
            # The next one gets ready while this one runs.
            children.append(Child(db, increments, next(hows), seed + n + 1))
            done = children[n].run(kill=counted < kills)
            n += 1
            counted += not done
            if done and counted >= kills:
                break
            assert not done, f"all increments are there after {counted} kills: give more"
    finally:
        for c in children:
            c.kill()
    assert_removed_once(db)
    assert left(db) == expected


def test_a_killed_process_leaves_a_version(tmp_path: Path) -> None:
    killed(tmp_path / "k", 3, 16, itertools.repeat("here"), 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 1000])
def test_a_process_killed_many_times(tmp_path: Path, seed: int) -> None:
    killed(tmp_path / "k", 25, 100, itertools.repeat("here"), seed)


@pytest.mark.slow
@pytest.mark.spark
def test_a_process_on_spark_killed_many_times(tmp_path: Path) -> None:
    killed(tmp_path / "k", 50, 150, itertools.cycle(["spark", "here"]), 10_000)


if __name__ == "__main__":
    child(*sys.argv[1:])
