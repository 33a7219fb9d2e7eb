"""Work on Spark that takes long says on a terminal how far it is, and nothing elsewhere."""

from __future__ import annotations

import io
import sys
import time

import pytest
from pyspark.sql import SparkSession

from headwater.engine.spark import progress
from spark_session import session

pytestmark = pytest.mark.spark


@pytest.fixture
def spark() -> SparkSession:
    made: SparkSession = session()
    return made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def slow(spark: SparkSession) -> None:
    def waiting(batches):  # type: ignore[no-untyped-def]
        time.sleep(0.4)
        yield from batches

    with progress.showing(spark, "seven rows"):
        spark.range(0, 7, 1, 2).mapInArrow(waiting, "id long").collect()


def test_tasks_are_counted_on_a_terminal(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress, "EVERY", 0.05)
    monkeypatch.setattr(progress, "_shown_by_spark", lambda _: False)
    slow(spark)
    first, *lines = terminal.getvalue().split("\r\x1b[K")
    assert first == "" and lines[-1] == ""  # written over each other, and taken away
    assert lines[0].startswith("seven rows: 0 of 2 tasks, ")


def test_nothing_is_shown_where_spark_shows_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that PySpark starts by itself shows its stages; that of the tests is one."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    assert progress._shown_by_spark(spark)
    slow(spark)
    assert terminal.getvalue() == ""


def test_nothing_is_shown_elsewhere(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = io.StringIO()
    monkeypatch.setattr(sys, "stderr", elsewhere)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    slow(spark)
    assert elsewhere.getvalue() == ""
