"""A driver that is killed in the middle of a loop: what is committed is a prefix, whole, and goes on.

This file is also the program that is run. A child applies the changes of a story and ends itself, with Spark and all,
just before or behind the statements of a random round: what was merged, and files that were written, must never be seen.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.calculus.check import type_of
from headwater.calculus.data import from_python, to_python
from headwater.calculus.interpret import interpret
from loop_stories import Story, bag, told, weighted
from loops import BY_NAME, CLOSURE, DISTANCES, REACHED

VIEWS = {
    "shortest paths": DISTANCES,
    "reachability": REACHED,
    "closure": CLOSURE,
}
CHANGES = 30
NEAR = """
WITH MUTUALLY RECURSIVE near (node BIGINT, v DOUBLE) AS (
  SELECT n.node, 1D + 0.03D * coalesce(sum(x.v), 0D) AS v FROM (SELECT DISTINCT src AS node FROM edges WHERE src IS NOT NULL) n
  LEFT JOIN edges e ON e.dst = n.node LEFT JOIN near x ON x.node = e.src GROUP BY n.node)
SELECT node, v FROM near
"""


@hw.query
def until(edges):
    """The least cost that leads to a node, doubled at most, until no cost moves by more than two."""
    return hw.repeat(
        [{"node": e.dst, "far": 9} for e in edges],
        lambda far: [
            {
                "node": n,
                "far": min(
                    f.far + 1
                    for e in edges
                    if e.dst == n
                    for f in far
                    if f.node == e.src or f.node == n
                ),
            }
            for n in {e.dst for e in edges}
        ],
        until=hw.within(2.0, "far", by="node"),
        limit=40,
    )


def story(seed: int) -> Story:
    return told(BY_NAME["shortest paths"], seed, CHANGES)


# --- the child ---------------------------------------------------------------------------------------------------


def child(path: str, seed: int, place: str, calls: int) -> None:
    """Applies changes from where the database is, until so many rounds have begun; then this process is no more."""
    from headwater.engine.increment import Increment

    spark = None
    if place == "spark":
        from pyspark.sql import SparkSession

        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.driver.memory", "512m")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.log.level", "OFF")
            .getOrCreate()
        )
    db = hw.open(path, spark=spark)
    db.policy.execution = "spark" if place == "spark" else "driver"
    begun, execute = 0, Increment.execute

    def dying(self: Increment, *given: Any) -> None:
        nonlocal begun
        begun += 1
        if begun > calls and calls % 2:
            execute(self, *given)
        if begun > calls:
            os.killpg(os.getpgid(0), signal.SIGKILL)
        execute(self, *given)

    Increment.execute = dying  # type: ignore[method-assign]
    changes = [change for change, _ in story(seed).states()]
    for i in range(applied(db), len(changes)):
        db.apply({n: weighted(rows) for n, rows in changes[i].items()}, id=str(i))
    raise AssertionError("the child came to the end of its story")


def applied(db: hw.Database) -> int:
    """How many changes of the story are there."""
    ids = sorted(int(f[8:]) for f in db.store.at().facts if f.startswith("applied:"))
    assert ids == list(range(len(ids))), "a later change is there without an earlier one"
    return len(ids)


# --- the parent --------------------------------------------------------------------------------------------------


def run(
    path: Path,
    kills: int,
    seed: int,
    places: Sequence[str] = ("driver", "spark"),
    others: bool = False,
) -> None:
    """Kills a child so often, in the places in turn; with `others` there is a loop that is kept near, and one that ends by nearness."""
    chance, told_by = random.Random(seed), list(story(seed).states())
    with hw.open(path) as db:
        for name, ddl in BY_NAME["shortest paths"].sources.items():
            db.source(name, ddl)
        for name, query in VIEWS.items():
            db.view(name.replace(" ", "_"), query)
        if others:
            db.view("near", NEAR, mode="diffuse", cut=1e-3)
            db.view("until", until)
    for n in range(kills):
        place, calls = places[n % len(places)], chance.randrange(2, 25)
        done = subprocess.run(
            [sys.executable, __file__, str(path), str(seed), place, str(calls)],
            capture_output=True,
            text=True,
            start_new_session=True,
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            },
        )
        assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
        with hw.open(path) as db:
            db.policy.execution = "driver"
            compared(db, told_by)
            there = applied(db)
            change, _ = told_by[there]
            db.apply({n: weighted(rows) for n, rows in change.items()}, id=str(there))
            compared(db, told_by)
            assert not db.store.check().problems


def compared(db: hw.Database, told_by: list) -> None:  # type: ignore[type-arg]
    """Every view is what it is after the changes that are there."""
    if not (there := applied(db)):
        return
    _, tables = told_by[there - 1]
    for name in VIEWS:
        found = bag(db.table(name.replace(" ", "_")))
        assert found == Counter(BY_NAME[name].expected(tables)), f"{name} after {there} changes"
    if "near" in db.views:
        error = db.error("near")
        assert error.missing == error.extra == 0 and error.largest <= 0.01
        inputs = {"edges": from_python(db.catalog.schemas()["edges"], tables["edges"])}
        wanted = to_python(type_of(term := db.catalog.term("until")), interpret(term, inputs))
        assert bag(db.table("until")) == Counter(tuple(r.values()) for r in wanted)


@pytest.mark.spark
def test_a_driver_killed_at_a_random_round(tmp_path: Path) -> None:
    run(tmp_path / "db", kills=5, seed=1)


def test_a_process_killed_at_a_round_of_a_loop_kept_near(tmp_path: Path) -> None:
    run(tmp_path / "db", kills=4, seed=3, places=("driver",), others=True)


@pytest.mark.spark
@pytest.mark.slow
def test_a_driver_killed_at_many_rounds(tmp_path: Path) -> None:
    for seed in range(2, 7):
        run(tmp_path / f"db{seed}", kills=8, seed=seed)


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
