"""What of Spark reaches the terminal: that it starts, and nothing of a query that failed but our own sentence."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.logger import PySparkLogger

import headwater as hw
from headwater.engine.spark.session import LOGS, say_starting
from headwater.errors import EngineError, HeadwaterError
from spark_session import session


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_that_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, said in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        say_starting()
        assert ("Spark is starting" in stream.getvalue()) == said


class Kept(logging.Handler):
    """What a logger lets through."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.mark.spark
def test_a_failed_query_is_not_logged(tmp_path: Path) -> None:
    kept, spark = Kept(), session()
    for name in LOGS:
        PySparkLogger.getLogger(name).addHandler(kept)
    try:
        with hw.open(tmp_path / "db", spark=spark) as db:
            db.source("t", "id BIGINT, s STRING")
            db.view("v", "SELECT id, CAST(s AS INT) AS x FROM t")
            with pytest.raises(EngineError, match="Spark failed"):
                db.apply({"t": pa.table({"id": [1], "s": ["x"]})})
            with pytest.raises(HeadwaterError):
                db.view("w", "SELECT id, soundex(s, 3) AS y FROM t")
        assert not kept.records
        with pytest.raises(Exception, match="no_such_column"):  # the user's own are as they were
            spark.sql("SELECT no_such_column").collect()
        assert kept.records
    finally:
        for name in LOGS:
            PySparkLogger.getLogger(name).removeHandler(kept)


def test_can_and_explain_name_what_only_spark_has(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("t", "id BIGINT, p DECIMAL(5, 2), d DOUBLE")
        query = "SELECT id, CAST(p AS FLOAT) AS x, exp(d) AS y FROM t"
        db.view("v", query)
        for told in (db.can(query), db.explain("v")):
            (line,) = [x for x in told.splitlines() if "only Spark evaluates" in x]
            assert "CAST" in line and "a job for each increment" in line
