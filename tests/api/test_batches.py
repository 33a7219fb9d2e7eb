"""Batches of streams: each is applied once, and a query whose checkpoint is new is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import BadChange, UnknownName
from spark_session import session

COLUMNS = "id BIGINT, name STRING"


def rows(db: hw.Database) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in db.table("orders").to_pylist())


def test_a_batch_that_was_taken_is_skipped(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("orders", COLUMNS)
        feed: Any = db.feed("Orders", "shop")
        first = feed([(1, "x")], 0)
        again = feed([(1, "x")], 0)
        assert (again.version, again.repeated) == (first.version, True)
        feed([(2, "y")], 1)
        other: Any = db.feed("orders", "another")
        other([(3, "z")], 0)
    with hw.open(tmp_path / "db") as db:
        feed = db.feed("orders", "shop")
        assert feed([(2, "y")], 1).repeated
        assert not feed([(4, "v")], 2).repeated
        assert rows(db) == [(1, "x", 1), (2, "y", 1), (3, "z", 1), (4, "v", 1)]


def test_batches_that_count_from_0_again_are_refused(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("orders", COLUMNS)
        feed: Any = db.feed("orders", "shop")
        feed([(1, "x")], 4)
        with pytest.raises(BadChange, match=r"new checkpoint.*up to 4") as caught:
            feed([(1, "x")], 0)
        assert 'db.feed("orders", "shop_2")' in str(caught.value)
        assert rows(db) == [(1, "x", 1)]


def test_what_cannot_be_fed(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("orders", COLUMNS)
        db.flow("later", "id BIGINT")
        for name in ("lines", "later"):
            with pytest.raises(UnknownName, match="sources: orders"):
                db.feed(name, "shop")
        with pytest.raises(BadChange, match="name of a query"):
            db.feed("orders", "")
        feed: Any = db.feed("orders", "shop")
        with pytest.raises(BadChange, match="batch"):
            feed([(1, "x")], -1)
        with pytest.raises(BadChange, match="id"):
            feed([("one", "x")], 0)
        feed([(1, "x")], 0)  # what failed was not taken
        assert rows(db) == [(1, "x", 1)]


@pytest.mark.spark
def test_a_stream_of_files(tmp_path: Path) -> None:
    """Stopped and started again it goes on; with a new checkpoint, which has batch 0 too, it is refused."""
    spark = session()
    folder, marks = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    with hw.open(tmp_path / "db", spark) as db:
        db.source("orders", COLUMNS)

        def run() -> None:
            stream = spark.readStream.schema(COLUMNS).csv(str(folder))
            writer = stream.writeStream.foreachBatch(db.feed("orders", "shop"))
            query = (
                writer.option("checkpointLocation", str(marks)).trigger(availableNow=True).start()
            )
            query.awaitTermination()

        (folder / "a.csv").write_text("1,x\n")
        run()
        assert rows(db) == [(1, "x", 1)]
        assert db.store.at(db.version).facts["from:orders:shop"]["checkpoint"]
        run()
        (folder / "b.csv").write_text("2,y\n")
        shutil.rmtree(marks / "commits")  # Spark does not know that its batch is done
        run()
        assert rows(db) == [(1, "x", 1), (2, "y", 1)]
        shutil.rmtree(marks)
        with pytest.raises(Exception, match="new checkpoint"):
            run()
        assert rows(db) == [(1, "x", 1), (2, "y", 1)]
