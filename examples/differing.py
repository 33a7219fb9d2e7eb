"""A wrong Spark Streaming job, found by comparing what it tells with what is meant, as far as order matters.

Meters send readings, and the job tells by how much each one grew since the one before. It keeps the last reading of a meter
as state and takes rows as they come: right on the desk, and wrong as soon as a reading is late or a micro-batch is cut
elsewhere. The same as a stream of Headwater takes readings in the order of their time. `st.differ` says where the two first
cannot agree, for what matters is the order of one meter's rows and nothing else. Run it with `python examples/differing.py`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

import headwater as hw
import headwater.st as st

READINGS = "meter STRING, hour INT, value BIGINT"
ARRIVED = [  # in the order in which they come; b's reading of hour 2 is late
    [("a", 1, 10), ("b", 1, 7), ("a", 2, 14)],
    [("b", 3, 9), ("b", 2, 8), ("a", 3, 15)],
]


def told_by_spark(spark: SparkSession, folder: Path) -> DataFrame:
    """The job: a micro-batch for each file, and state by meter."""
    for number, rows in enumerate(ARRIVED):
        named = [dict(zip(("meter", "hour", "value"), r, strict=True)) for r in rows]
        (folder / f"{number}.json").write_text("\n".join(map(json.dumps, named)))
        os.utime(folder / f"{number}.json", (number, number))  # files are taken in this order

    def grown(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        last = state.get[0] if state.exists else None
        for frame in frames:
            out = []
            for row in frame.itertuples():
                out.append((key[0], row.hour, 0 if last is None else row.value - last))
                last = row.value
            yield pd.DataFrame(out, columns=["meter", "hour", "by"])
        state.update((int(last),))

    read = spark.readStream.schema(READINGS).option("maxFilesPerTrigger", 1).json(str(folder))
    by_meter = read.groupBy("meter").applyInPandasWithState(
        grown, "meter STRING, hour INT, by BIGINT", "last BIGINT", "append", "NoTimeout"
    )
    query = by_meter.writeStream.format("memory").queryName("growth").outputMode("append")
    query.trigger(availableNow=True).start().awaitTermination()
    return spark.table("growth")


def grow(at: Any, row: Any, emit: Any) -> Any:
    """The same for one meter, in the order of its readings."""
    emit("growth", row.meter, row.hour, 0 if at.last is None else row.value - at.last)
    return (row.value,)


def main(folder: str) -> None:
    """Both over the same rows, and where they differ."""
    spark = SparkSession.builder.getOrCreate().newSession()
    (Path(folder) / "in").mkdir()
    wrong = told_by_spark(spark, Path(folder) / "in")
    with hw.open(Path(folder) / "db", spark=spark) as db:
        db.source("readings", READINGS, append_only=True, closes="hour")
        gives = {"growth": "meter STRING, hour INT, by BIGINT"}
        steps = st.partitioned(st.fold(grow, state="last BIGINT", gives=gives))
        db.stream("right", st.PartitionBy("meter", st.Seq("readings")), steps, order="hour")
        for rows in ARRIVED:
            db.apply({"readings": rows})
        db.punctuate("readings")
        print(st.differ("meter{seq growth}", db["right"], wrong, order="hour"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
