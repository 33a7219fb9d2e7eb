"""A database read by Spark's data source, and by `db.sql`: the rows and changes are those of the version that is asked for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.datasource import Asked, Changes, HeadwaterSource, Reader
from headwater.errors import QueryError, VersionGone
from sink_stories import Orders, bag, declared, rows_of
from spark_session import session


def read_by(reader: Any, parts: Any) -> list[dict[str, Any]]:
    """What tasks give, one after another."""
    return [row for p in parts for batch in reader.read(p) for row in batch.to_pylist()]


@pytest.mark.parametrize("view", ["totals", "items", "orders"])
def test_slices_have_the_rows_and_steps_the_changes(view: str, tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db:
        story = Orders(db, 5)
        story.change(30)
        first = db.version
        for _ in range(4):
            story.change(6)
        asked = Asked(str(tmp_path / "db"), view, None, 0, 5, False)
        parts = Reader(asked).partitions()
        assert len(parts) == 5
        assert bag(read_by(Reader(asked), parts)) == rows_of(db, view)
        earlier = Asked(str(tmp_path / "db"), view, first, 0, None, False)
        found = read_by(Reader(earlier), Reader(earlier).partitions())
        assert bag(found) == rows_of(db, view, first)
        stream = Changes(Asked(str(tmp_path / "db"), view, None, 0, 3, True))
        at, told = stream.initialOffset(), []
        for _ in range(3):
            end = stream.latestOffset(at)
            told += read_by(stream, stream.partitions(at, end))
            assert bag(told) == rows_of(db, view)
            at = end
            story.change(6)
            story.change(6)
        assert stream.partitions(at, at) == []


def test_options_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    with declared(tmp_path / "db", keep_versions=1) as db:
        path = str(tmp_path / "db")
        for wrong, told in (
            ({"path": path}, "which view"),
            ({"view": "items"}, "which database"),
            ({"path": path, "view": "items", "versoin": "3"}, "`versoin`"),
            ({"path": path, "view": "items", "version": "last"}, "'last'"),
            ({"path": path, "view": "items", "since": "3"}, "`changes`"),
        ):
            with pytest.raises(QueryError, match=told):
                Asked.of(wrong)
        with pytest.raises(QueryError, match="of its changes"):
            HeadwaterSource({"path": path, "view": "items"}).streamReader(None)  # type: ignore[arg-type]
        story = Orders(db, 1)
        for _ in range(12):
            story.change()
        db.keep(versions=2)
        gone = Asked(path, "items", None, 1, None, True)
        with pytest.raises(VersionGone):
            Reader(gone).partitions()


@pytest.mark.slow
@pytest.mark.spark
def test_spark_reads_tables_and_streams_of_a_database(tmp_path: Path) -> None:
    spark = session()
    hw.register(spark)
    with hw.open(tmp_path / "db", spark) as db:
        db.source("orders", "id BIGINT, item STRING, price DOUBLE")
        db.view(
            "totals", "SELECT item, sum(price) AS total, count(*) AS n FROM orders GROUP BY item"
        )
        story = Orders(db, 9)
        story.change(20)
        first = db.version
        path, reader = str(tmp_path / "db"), spark.read.format("headwater")
        then = Counter(reader.option("view", "totals").option("partitions", 3).load(path).collect())
        assert then == Counter(db["totals"].snapshot().collect())
        stream = (
            spark.readStream.format("headwater").option("view", "totals").option("changes", True)
        )
        told: list[Any] = []
        query = (
            stream.load(path)
            .writeStream.foreachBatch(lambda f, _: told.extend(r.asDict() for r in f.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
        )
        for _ in range(2):  # the second goes on from the offset of the first
            running = query.trigger(availableNow=True).start()
            running.awaitTermination(120)
            assert bag(told) == rows_of(db, "totals")
            story.change(9)
            story.change(9)
        at = spark.read.format("headwater").option("database", path).option("version", first)
        assert Counter(at.load("totals").collect()) == then

        asked = "SELECT t.item, count(*) AS c FROM totals t JOIN orders o ON t.item <=> o.item GROUP BY ALL"
        found = db.sql(asked)
        expected = Counter(r[1] for r in story.rows)
        story.change(9)
        assert {r.item: r.c for r in found.collect()} == expected, "it sees one version"
        assert db.sql("SELECT count(*) AS n FROM totals", version=first).first().n == len(then)
        db.policy.read_here = 0
        assert db.sql("SELECT sum(n) AS n FROM totals").first().n == len(story.rows)
        with pytest.raises(hw.HeadwaterError, match="no_such"):
            db.sql("SELECT * FROM no_such")
