"""Structured Streaming on the same increments: RocksDB state with changelog checkpoints, update mode.

The stream reads a directory of Parquet files; the load is its first batch, every increment one more file. The time of
an increment is that of its micro-batch as Spark reports it, with the rows that it updates brought to the driver.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Streaming:
    """One streaming query over one table."""

    def __init__(self, spark: SparkSession, home: Path, query: str, tables: dict[str, pa.Table]):
        ((name, table),) = tables.items()
        self.spark, self.folder = spark, home / "stream"
        self.folder.mkdir()
        self.written = 0
        self.updated = 0
        self._put(table)
        for key, value in {
            "spark.sql.streaming.stateStore.providerClass": PROVIDER,
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        }.items():
            spark.conf.set(key, value)
        schema = spark.read.parquet(str(self.folder)).schema
        spark.readStream.schema(schema).parquet(str(self.folder)).createOrReplaceTempView(name)
        self.query: Any = (
            spark.sql(query)
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(home / "checkpoint"))
            .foreachBatch(self._keep)
            .start()
        )
        self.query.processAllAvailable()

    def _keep(self, batch: DataFrame, number: int) -> None:
        if number == 0:  # the load: a million rows that nobody asked for
            batch.write.format("noop").mode("overwrite").save()
        else:
            self.updated = batch.toArrow().num_rows

    def _put(self, table: pa.Table) -> None:
        hidden = self.folder / f".{self.written}.parquet"
        pq.write_table(table, hidden)
        hidden.rename(self.folder / f"{self.written}.parquet")
        self.written += 1

    def increment(self, table: pa.Table) -> float:
        """Seconds of the micro-batch that takes a table."""
        self.updated = 0
        self._put(table)
        self.query.processAllAvailable()
        if not self.updated:
            raise AssertionError("the stream took no rows")
        done = [p for p in self.query.recentProgress if p["numInputRows"]]
        return float(done[-1]["durationMs"]["triggerExecution"]) / 1000

    def close(self) -> None:
        self.query.stop()
