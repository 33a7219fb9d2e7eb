"""Loads and large changes on Spark: what the driver receives does not grow with the rows, and the maps are those made here."""

from __future__ import annotations

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
from headwater.engine.spark import rounds
from headwater.engine.spark.session import local_session
from headwater.errors import EngineError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return local_session()


VIEWS = {
    "by_key": "SELECT k, sum(v) AS s, count(*) AS n FROM r GROUP BY k",
    "joined": "SELECT grp, sum(v) AS s, count(*) AS n, max(v) AS m FROM r JOIN g ON r.k = g.k GROUP BY grp",
}


def defined(db: hw.Database) -> hw.Database:
    db.source("r", "k BIGINT, v BIGINT")
    db.source("g", "k BIGINT, grp BIGINT")
    for name, query in VIEWS.items():
        db.view(name, query)
    db.apply({"g": pa.table({"k": np.arange(50), "grp": np.arange(50) % 3})})
    return db


def pairs(n: int, seed: int, skewed: bool = False) -> pa.Table:
    """Rows of fifty keys; if they are skewed, most are of one."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 50, n)
    return pa.table({"k": np.where(rng.random(n) < 0.9, 7, keys) if skewed else keys,
                     "v": rng.integers(0, 40, n)})  # fmt: skip


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The bytes that the driver was given by each job that gives Arrow."""
    found: list[int] = []
    to_arrow = ClassicFrame.toArrow

    def counted(self: DataFrame) -> pa.Table:
        table = to_arrow(self)
        found.append(table.nbytes)
        return table

    monkeypatch.setattr(ClassicFrame, "toArrow", counted)
    yield found


def test_the_driver_receives_names_whatever_the_rows(
    tmp_path: Path, spark: SparkSession, received: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times the rows of a DataFrame, staged and carried through: the same number of bytes, but for longer numbers."""
    monkeypatch.setattr("headwater.io.rows.INLINE", 1 << 10)  # so that few rows are many
    monkeypatch.setattr(policy, "INLINE", 1 << 10)
    with defined(hw.open(tmp_path, spark, execution="spark")) as db:
        totals = []
        for n in (20_000, 200_000, 20_000, 200_000):  # a load, and increments
            frame = spark.createDataFrame(pairs(n, n)).repartition(2)
            received.clear()
            assert db.apply({"r": frame}).where == "spark"
            totals.append(sum(received))
        assert max(totals) < 30_000
        assert max(totals) < 1.3 * min(totals)


@pytest.mark.parametrize("skewed", [False, True])
def test_maps_are_those_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skewed: bool
) -> None:
    """A load, a change with deletions and a large one, cut into many pieces and parts, staged between tasks: entry for entry."""
    first, more = pairs(4000, 1, skewed), pairs(9000, 2, skewed)
    changes: list[dict[str, Any]] = [
        {"r": first},
        {"r": hw.Delta(inserts=pairs(500, 3), deletes=first.slice(100, 2000))},
        {"r": more, "g": hw.Delta(deletes=[(7, 1)], inserts=[(7, 2)])},
    ]
    with defined(hw.open(tmp_path / "here", execution="here")) as db:
        for change in changes:
            db.apply(change)
        kept = {n: sorted(map(str, e)) for n, e in entries(db).items()}
        told = [sorted(map(str, db.changes_table(n, 0).to_pylist())) for n in VIEWS]
    for name, number in {"PER_PIECE": 700, "PER_PART": 2000, "LEAST_ROWS": 300, "HEAVY": 100, "INLINE": 500}.items():  # fmt: skip
        monkeypatch.setattr(policy, name, number)
    with defined(hw.open(tmp_path / "spark", execution="spark", partitions=3)) as db:
        for change in changes:
            assert db.apply(change).where == "spark"
        assert {n: sorted(map(str, e)) for n, e in entries(db).items()} == kept
        assert [sorted(map(str, db.changes_table(n, 0).to_pylist())) for n in VIEWS] == told
        assert list((tmp_path / "spark" / "staging").iterdir()) == []


def test_a_load_whose_task_fails_leaves_the_version_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that ends while it writes for others: nothing is committed, nothing stays staged, and the same load goes through."""
    with defined(hw.open(tmp_path, execution="spark")) as db:
        version = db.version

        def blobs(target: Any, table: Any, routing: Any, root: Path) -> Any:
            (root / f"{routing.mark}-{'0' * 32}.arrow").write_bytes(b"half")
            raise MemoryError("no room")

        with monkeypatch.context() as patch:  # what is no module's own travels with the task
            patch.setattr(rounds, "blobs", blobs)
            with pytest.raises(EngineError, match="Spark failed while carrying a change"):
                db.apply({"r": pairs(3000, 4)})
        assert db.version == version
        assert list((tmp_path / "staging").iterdir()) == []
        db.apply({"r": pairs(3000, 4)})
        db.verify("joined")
