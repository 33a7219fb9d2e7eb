"""Structured Streaming on the same streams: append mode, the same watermark, RocksDB state with changelog checkpoints.

Both read the increments as Parquet files. Spark's time of an increment is that of its micro-batch as it reports it, with the
rows that are final brought to the driver; batches without rows, which it would run when a watermark moves, are turned off,
so that what is over is told by the next batch. Ours is reading the file, and the commit. At the end an increment far
in the future closes everything, and what both have told is compared with DuckDB's answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.report import timed
from benchmarks.streaming import PROVIDER
from benchmarks.streams_cases import (
    BEGIN,
    BID,
    BY_NAME,
    DELAY,
    WIDTH,
    Case,
    Ints,
    Tables,
    answer,
    bids,
    numbers,
    same,
    shown,
)
from benchmarks.streams_played import place
from headwater.errors import HeadwaterError

SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": PROVIDER,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
FAR = BEGIN + 10_000 * WIDTH
"""When the increments happen that close everything else."""
GAP = 2_000_000
"""Microseconds without a bid that end a session."""
Frames = dict[str, DataFrame]


def tumbling(frames: Frames) -> DataFrame:
    window = F.window("ts", "10 seconds")
    grouped = frames["bid"].groupBy(window, "auction")
    made = grouped.agg(F.count("*").alias("n"), F.max("price").alias("top"))
    return made.select(F.col("window.start").alias("starts"), "auction", "n", "top")


def newcomers(frames: Frames) -> DataFrame:
    """NEXMark 8: who came and sold in one window."""
    window = F.window("ts", "10 seconds")
    p = frames["person"].groupBy("id", "state", window.alias("w")).count()
    a = frames["auction"].groupBy("seller", window.alias("aw")).count()
    both = p.join(a, (p["id"] == a["seller"]) & (p["w"] == a["aw"]))
    return both.select("id", "state", F.col("w.start").alias("starts"))


def sessions(frames: Frames) -> DataFrame:
    window = F.session_window("ts", "2 seconds").alias("w")
    made = frames["bid"].groupBy("bidder", window).count()
    start, end = F.col("w.start").alias("starts"), F.col("w.end").alias("ends")
    return made.select("bidder", start, end, F.col("count").alias("n"))


def few_bidders(places: Ints, each: float, rng: np.random.Generator) -> Tables:
    """Bids by so many that a bidder is away for some seconds now and then, whatever the rate."""
    made = bids(places, each, rng)["bid"]
    bidder = rng.integers(0, max(int(3_000_000 / each), 1), len(places))
    return {"bid": made.set_column(1, "bidder", pa.array(bidder))}


SESSIONS = Case(
    "sessions",
    {"bid": BID},
    "SELECT bidder, session_window.start AS starts, session_window.end AS ends, count(*) AS n "
    "FROM bid GROUP BY bidder, session_window(ts, '2 seconds')",
    f"""SELECT bidder, min(ts), max(ts) + {GAP}, count(*) FROM
        (SELECT bidder, ts, sum(first) OVER (PARTITION BY bidder ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session FROM
         (SELECT bidder, ts, CASE WHEN ts - lag(ts) OVER (PARTITION BY bidder ORDER BY ts) <= {GAP}
                 THEN 0 ELSE 1 END AS first FROM bid))
        GROUP BY bidder, session""",
    few_bidders,
)
PEERS: dict[str, tuple[Case, Callable[[Frames], DataFrame]]] = {
    "tumbling count and max": (BY_NAME["tumble max"], tumbling),
    "NEXMark 8": (BY_NAME["NEXMark 8"], newcomers),
    "sessions": (SESSIONS, sessions),
}


@dataclass
class Compared:
    """Seconds of each increment, ours and Spark's."""

    rows: int
    ours: list[float]
    spark: list[float]


class Appending:
    """One streaming query in append mode over directories of Parquet files."""

    def __init__(
        self,
        spark: SparkSession,
        home: Path,
        case: Case,
        query: Callable[[Frames], DataFrame],
        first: Tables,
    ):
        self.home, self.number, self.told = home, 0, list[pa.Table]()
        for key, value in SETTINGS.items():
            spark.conf.set(key, value)
        frames = {}
        put(first, home, 0)
        for name in case.sources:
            file = home / name / "0.parquet"
            schema = spark.read.parquet(str(file)).schema
            file.unlink()
            stream = spark.readStream.schema(schema).parquet(str(home / name))
            frames[name] = stream.withWatermark("ts", DELAY)
        self.query: Any = (
            query(frames)
            .writeStream.outputMode("append")
            .option("checkpointLocation", str(home / "checkpoint"))
            .foreachBatch(self._keep)
            .start()
        )

    def _keep(self, batch: DataFrame, number: int) -> None:
        self.told.append(batch.toArrow())

    def increment(self, change: Tables) -> float:
        """Seconds of the micro-batches that take a change."""
        known = self.query.lastProgress
        last = known["batchId"] if known else -1
        put(change, self.home, self.number)
        self.number += 1
        self.query.processAllAvailable()
        done = [p for p in self.query.recentProgress if p["batchId"] > last and p["numInputRows"]]
        taken = {p["batchId"]: p["durationMs"]["triggerExecution"] for p in done}
        if not taken:
            raise AssertionError("the stream took no rows")
        return float(sum(taken.values())) / 1000

    def close(self) -> None:
        self.query.stop()


def put(change: Tables, home: Path, number: int) -> None:
    """Writes an increment as files, each of which appears at once."""
    for name, table in change.items():
        (home / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, home / name / f".{number}")
    for name in change:
        (home / name / f".{number}").rename(home / name / f"{number}.parquet")


def near(rows: Ints) -> Ints:
    """Rows without those that only close others."""
    return rows[(rows < FAR).all(axis=1)]


def far(case: Case, number: int) -> Tables:
    """A row of every source that is later than all others by far."""
    made = case.rows(np.arange(10), 1.0, np.random.default_rng(number))
    out = {}
    for name, table in made.items():
        place = table.schema.get_field_index("ts")
        when = pa.array([FAR + number * WIDTH] * table.num_rows, pa.int64()).cast(table["ts"].type)
        out[name] = table.set_column(place, "ts", when).slice(0, 1)
    return out


def compared(
    spark: SparkSession, name: str, rows: int, size: int, increments: int, skip: int
) -> Compared | str:
    """The same increments for both, so many of them counted; or why there is nothing to compare."""
    case, query = PEERS[name]
    windows = -(-(increments + skip) * size // rows)
    given = list(case.increments(windows, rows, size))[: increments + skip]
    wanted = answer(case, given)
    with place() as home:
        try:
            ours = _ours(case, home, given, wanted, spark)
        except HeadwaterError as e:
            return str(e)
        stream = Appending(spark, home / "spark", case, query, given[0])
        try:
            theirs = [stream.increment(change) for change in given]
            for i in range(3):  # what one closes, the next tells
                stream.increment(far(case, i))
        finally:
            stream.close()
        told = numbers(pa.concat_tables([t for t in stream.told if t.num_rows]))
    same(f"{name} on Spark", near(told), wanted)
    return Compared(size, ours[skip:], theirs[skip:])


def _ours(
    case: Case, home: Path, given: list[Tables], wanted: Ints, spark: SparkSession
) -> list[float]:
    took = []
    with case.open(home / "db", True, spark=spark) as db:
        for i, change in enumerate(given):
            put(change, home / "ours", i)
            files = {n: home / "ours" / n / f"{i}.parquet" for n in change}
            seconds, _ = timed(
                partial(lambda fs: db.apply({n: pq.read_table(f) for n, f in fs.items()}), files)
            )
            took.append(seconds)
        db.apply(far(case, 0))
        final = db.final_table("v").drop_columns(["_version"])
    same(f"{case.name}, final rows", near(shown(final)), wanted)
    return took
