"""The same function in Spark's own stateful operators: RocksDB state with changelog checkpoints, update mode.

Two of them call Python with state: `applyInPandasWithState` and `transformWithStateInPandas`. The stream reads a directory of
Parquet files; the load is its first batch, every increment one more file, and its time that of its micro-batch as Spark
reports it. Ours has the same rows to take in and to commit: `apply` and `run` together. What is not there is skipped, and why is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.streaming import PROVIDER

STATE = "n bigint"
COUNTS = "k bigint, n bigint"


def count(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """The rows of a group so far, for `applyInPandasWithState`."""
    n = (state.get[0] if state.exists else 0) + sum(len(f) for f in frames)
    state.update((n,))
    yield pd.DataFrame({"k": [key[0]], "n": [n]})


class Counts(StatefulProcessor):
    """The same for `transformWithStateInPandas`."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("n", STATE)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        n = (self.state.get()[0] if self.state.exists() else 0) + sum(len(f) for f in rows)
        self.state.update((n,))
        yield pd.DataFrame({"k": [key[0]], "n": [n]})

    def close(self) -> None:
        pass


def apply_in_pandas(rows: DataFrame) -> DataFrame:
    grouped: Any = rows.groupBy("k")
    made: DataFrame = grouped.applyInPandasWithState(count, COUNTS, STATE, "update", "NoTimeout")
    return made


def transform_with_state(rows: DataFrame) -> DataFrame:
    grouped: Any = rows.groupBy("k")
    made: DataFrame = grouped.transformWithStateInPandas(
        statefulProcessor=Counts(), outputStructType=COUNTS, outputMode="update", timeMode="none"
    )
    return made


PEERS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "applyInPandasWithState": apply_in_pandas,
    "transformWithStateInPandas": transform_with_state,
}


def lacking(spark: SparkSession, name: str) -> str:
    """Why one of them cannot run here; nothing if it can."""
    try:
        jvm: Any = spark._jvm
        jvm.java.lang.Class.forName(PROVIDER)
        jvm.java.lang.Class.forName("org.rocksdb.RocksDB")
    except Exception as e:  # what Py4J raises depends on what is missing
        return f"Spark has no RocksDB state store: {str(e).splitlines()[0]}"
    if not hasattr(pd.DataFrame, "groupby") or not hasattr(spark.range(1).groupBy("id"), name):
        return f"this Spark has no {name}"
    if name == "transformWithStateInPandas":
        try:
            import pyspark.sql.streaming.proto.StateMessage_pb2  # noqa: F401
        except ImportError as e:
            return f"it needs a package that is not there: {e}"
    return ""


class Stateful:
    """A streaming query that counts the rows of groups."""

    def __init__(self, spark: SparkSession, name: str, groups: int, home: Path):
        self.folder, self.written, self.wanted = home / "given", 0, np.zeros(groups, np.int64)
        self.folder.mkdir(parents=True)
        self.updated: pa.Table | None = None
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
        changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
        spark.conf.set(changelog, "true")
        self._put(np.arange(groups))
        rows = spark.readStream.schema("k bigint, x bigint").parquet(str(self.folder))
        self.query: Any = (
            PEERS[name](rows)
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(home / "checkpoint"))
            .foreachBatch(self._keep)
            .start()
        )
        self.query.processAllAvailable()
        self._taken()

    def _keep(self, batch: DataFrame, number: int) -> None:
        self.updated = batch.toArrow()

    def _put(self, keys: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        np.add.at(self.wanted, keys, 1)
        hidden = self.folder / f".{self.written}.parquet"
        pq.write_table(pa.table({"k": keys, "x": keys}), hidden)
        hidden.rename(self.folder / f"{self.written}.parquet")
        self.written += 1
        self.updated = None

    def _taken(self) -> float:
        """Seconds of the last micro-batch, after what it gave was compared."""
        if self.updated is None:
            raise AssertionError("the stream took no rows")
        keys = np.asarray(self.updated.column("k"))
        if not np.array_equal(np.asarray(self.updated.column("n")), self.wanted[keys]):
            raise AssertionError("the stream counted wrong")
        done = [p for p in self.query.recentProgress if p["numInputRows"]]
        return float(done[-1]["durationMs"]["triggerExecution"]) / 1000

    def take(self, keys: np.ndarray[Any, np.dtype[np.int64]]) -> float:
        """Seconds of the micro-batch that takes some rows."""
        self._put(keys)
        self.query.processAllAvailable()
        return self._taken()

    def close(self) -> None:
        self.query.stop()
