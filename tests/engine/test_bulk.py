"""Loads and large changes on Spark: what the driver receives does not grow with the rows, and the maps are those made here.

Every change is cut into many pieces and parts, and everything between tasks goes through files. `killed` is played by the
program of `test_rounds.py`, which has executors in processes of their own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

import headwater as hw
from corpus_edits import entries
from headwater.engine import policy
from headwater.engine.spark import exchange, rounds
from headwater.errors import EngineError
from spark_session import session

VIEWS = {
    "by_key": "SELECT k, sum(v) AS s, count(*) AS n FROM r GROUP BY k",
    "joined": "SELECT grp, sum(v) AS s, count(*) AS n, max(v) AS m FROM r JOIN g ON r.k = g.k GROUP BY grp",
}
SMALL = {"PER_PIECE": 700, "PER_PART": 4000, "LEAST_ROWS": 300, "HEAVY": 100, "INLINE": 500}
"""Numbers of the policy by which a few thousand rows are many."""
Kept = tuple[dict[str, list[str]], list[list[str]]]


def defined(db: hw.Database) -> hw.Database:
    db.source("r", "k BIGINT, v BIGINT")
    db.source("g", "k BIGINT, grp BIGINT")
    for name, query in VIEWS.items():
        db.view(name, query)
    db.apply({"g": pa.table({"k": np.arange(50), "grp": np.arange(50) % 3})})
    return db


def pairs(n: int, seed: int, skewed: bool = False) -> pa.Table:
    """Rows of fifty keys; if they are skewed, more than half are of one."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 50, n)
    keys = np.where(rng.random(n) < 0.5, 7, keys) if skewed else keys
    return pa.table({"k": keys, "v": rng.integers(0, 40, n)})


def changes(skewed: bool) -> list[dict[str, Any]]:
    """A load, a change with deletions, and one of two sources that is larger than all before."""
    first = pairs(4000, 1, skewed)
    return [
        {"r": first},
        {"r": hw.Delta(inserts=pairs(500, 3, skewed), deletes=first.slice(100, 2000))},
        {"r": pairs(9000, 2, skewed), "g": hw.Delta(deletes=[(7, 1)], inserts=[(7, 2)])},
    ]


def kept(db: hw.Database) -> Kept:
    """The entries of all maps, and all that views have told."""
    told = [sorted(map(str, db.changes_table(n, 0).to_pylist())) for n in VIEWS]
    return {n: sorted(map(str, e)) for n, e in entries(db).items()}, told


def made_here(path: Path, skewed: bool) -> Kept:
    with defined(hw.open(path, execution="here")) as db:
        for change in changes(skewed):
            assert db.apply(change).where == "driver"
        return kept(db)


def staged(path: Path) -> list[str]:
    return [p.name for p in (path / "staging").iterdir()]


@pytest.fixture
def spark() -> SparkSession:
    made: SparkSession = session()
    return made


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The bytes that the driver was given by each job that gives Arrow; no other gives rows."""
    found: list[int] = []
    to_arrow = ClassicFrame.toArrow

    def counted(self: DataFrame) -> pa.Table:
        table = to_arrow(self)
        found.append(table.nbytes)
        return table

    def refused(self: DataFrame) -> Any:
        raise AssertionError("rows are collected in another way")

    monkeypatch.setattr(ClassicFrame, "toArrow", counted)
    for way in ("collect", "toPandas", "toLocalIterator"):
        monkeypatch.setattr(ClassicFrame, way, refused)
    yield found


@pytest.mark.spark
def test_the_driver_receives_names_whatever_the_rows(
    tmp_path: Path, spark: SparkSession, received: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times the rows and groups, staged, carried through and answered for a view above: the same bytes, but for longer numbers."""
    monkeypatch.setattr("headwater.io.rows.INLINE", 1 << 16)  # so that few rows are many
    monkeypatch.setattr(policy, "INLINE", 1 << 12)
    with defined(hw.open(tmp_path, spark, execution="spark")) as db:
        db.view("sizes", "SELECT n, count(*) AS c FROM by_key GROUP BY n")
        totals = []
        for n in (20_000, 200_000, 20_000, 200_000):  # a load, and increments
            frame = spark.range(0, n, 1, 2).selectExpr(f"id % {n // 4} AS k", f"id % {n // 3} AS v")
            received.clear()
            assert db.apply({"r": frame}).where == "spark"
            totals.append(sum(received))
        assert max(totals) < 20_000
        assert max(totals) < 1.25 * min(totals), totals
        counted = db.table("sizes").to_pylist()
        assert sum(row["n"] * row["c"] for row in counted) == 440_000
        assert staged(tmp_path) == []


@pytest.mark.spark
@pytest.mark.parametrize("skewed", [False, True])
def test_maps_are_those_made_here(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, skewed: bool
) -> None:
    """Cut into many pieces and parts, with files between the tasks: entry for entry, and the same changes are told."""
    expected = made_here(tmp_path / "here", skewed)
    for name, number in SMALL.items():
        monkeypatch.setattr(policy, name, number)
    with defined(hw.open(tmp_path / "db", spark, execution="spark", partitions=3)) as db:
        for change in changes(skewed):
            assert db.apply(change).where == "spark"
        assert kept(db) == expected
        assert staged(tmp_path / "db") == []


@pytest.mark.spark
def test_a_load_whose_task_fails_leaves_the_version_before(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that ends while it writes for others: nothing is committed, nothing stays staged, and the same load goes through."""

    def failing(target: Any, table: Any, routing: Any, root: Path, files: Any) -> Any:
        (root / f"{routing.mark}-{'0' * 32}.arrow").write_bytes(b"half")
        raise MemoryError("no room")

    with defined(hw.open(tmp_path, spark, execution="spark")) as db:
        version = db.version
        with monkeypatch.context() as patch:  # what is no module's own travels with the task
            patch.setattr(rounds, "left", failing)
            with pytest.raises(EngineError, match="Spark failed while carrying a change"):
                db.apply({"r": pairs(3000, 4)})
        assert db.version == version
        assert staged(tmp_path) == []
        db.apply({"r": pairs(3000, 4)})
        assert sum(db.table("by_key").column("n").to_pylist()) == 3000


# --- played by `test_rounds.py` ------------------------------------------------------------------------------------


def leaving_and_dying(fuse: Path) -> Any:
    """`exchange.left`, but the task that leaves rows first says who it is when they are there, and waits to be killed."""
    place = str(fuse)

    def leaving(target: Any, table: Any, routing: Any, root: Path, files: Any) -> Any:
        rows = list(exchange.left(target, table, routing, root, files))
        try:
            handle = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            yield from rows
            return
        os.write(handle, f"{os.getpid()}.".encode())
        time.sleep(60)
        raise RuntimeError("it should have been killed")

    return leaving


def killed(home: Path, spark: SparkSession) -> None:
    """A worker that has just left rows for others, and an executor that has just written its runs: both are done again."""
    from test_rounds import Killer, dying

    expected = made_here(home / "here", skewed=True)
    load, large, last = changes(skewed=True)
    killers = [Killer(home / "fuse-left", whole=False), Killer(home / "fuse-written", whole=True)]
    with pytest.MonkeyPatch.context() as patch:
        for name, number in SMALL.items():
            patch.setattr(policy, name, number)
        with defined(hw.open(home / "bulk", spark, execution="spark", partitions=3)) as db:
            killers[0].start()
            with patch.context() as one:
                one.setattr(rounds, "left", leaving_and_dying(home / "fuse-left"))
                db.apply(load)
            db.apply(large)
            killers[1].start()
            patch.setattr(rounds, "LocalFiles", dying(home / "fuse-written"))
            db.apply(last)
            assert all(k.killed for k in killers), "nothing was killed"
            found = kept(db)
            assert found[0] == expected[0], "the maps differ"
            assert found[1] == expected[1], "other changes are told"
            assert staged(home / "bulk") == []
