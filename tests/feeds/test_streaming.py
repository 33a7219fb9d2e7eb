"""Streaming DataFrames: every batch once, whatever is repeated or killed between Spark's commit and ours."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from dying_files import Dying
from faulty_files import Stopped
from headwater.errors import QueryError, StageFailed
from spark_session import session

COLUMNS = "id BIGINT, name STRING"


def ids(db: hw.Database) -> list[int]:
    return sorted(r["id"] for r in db.table("orders").to_pylist() for _ in range(r["_w"]))


@pytest.mark.spark
def test_a_streaming_frame_is_taken_once(tmp_path: Path) -> None:
    spark, folder, path = session(), tmp_path / "in", tmp_path / "db"
    folder.mkdir()

    def opened() -> hw.Database:
        db = hw.open(path, spark)
        frame: Any = spark.readStream.schema(COLUMNS).csv(str(folder))
        db.source("orders", COLUMNS, feed=frame)
        return db

    (folder / "a.csv").write_text("1,x\n2,y\n")
    with opened() as db:
        done = db.run()
        assert ids(db) == [1, 2] and done.rows == {"orders": 2} and done.on_spark == {"orders": 1}
        (folder / "b.csv").write_text("3,x\n")
        db.run()
        assert ids(db) == [1, 2, 3]
        assert "checkpoints" not in str(db.check())
    (folder / "c.csv").write_text("4,x\n")
    with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Stopped):
        db = opened()
        Dying(1, "before").over(patched)  # Spark has given the batch, and nothing of it is written
        db.run()
    db.close()
    with opened() as db:
        assert ids(db) == [1, 2, 3]
        db.run()
        assert ids(db) == [1, 2, 3, 4]
    shutil.rmtree(path / "checkpoints" / "orders" / "commits")  # Spark does not know it was done
    with opened() as db:
        db.run()
        assert ids(db) == [1, 2, 3, 4]
    shutil.rmtree(path / "checkpoints")
    with opened() as db:
        with pytest.raises(StageFailed, match="the checkpoint of `orders` is not there"):
            db.run()
        with pytest.raises(QueryError, match="is no streaming DataFrame"):
            db.source("others", "id BIGINT", feed=spark.range(3))
