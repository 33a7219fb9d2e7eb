"""Structured Streaming beside streams: the same fold in its two operators that call Python with state, and NEXMark 7.

Both read the increments as Parquet files: RocksDB state with changelog checkpoints, append mode, as many partitions as
cores. Spark's time of an increment is that of its micro-batch as it reports it, with what it tells brought to the driver; ours is
reading the file, and the commit. What each has told is compared by the differ before a number counts.

Spark's fold takes rows in the order of time within a batch alone; the rows here come in that order, so that it is right.
NEXMark 7 is there twice: as NEXMark writes it, a join that tells ties, and as one aggregate that tells one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import headwater as hw
import headwater.st as st
from benchmarks import streams_taxis as taxis
from benchmarks.dataflow_streaming import lacking
from benchmarks.report import timed
from benchmarks.streams_cases import BID, BY_NAME, DELAY, WIDTH, Case, Ints
from benchmarks.streams_peers import FAR, Appending, Compared, Frames, far, put
from benchmarks.streams_played import place
from benchmarks.streams_taxis import same

# --- the fold ------------------------------------------------------------------------------------------------------


def driven(key: int, frames: Iterator[pd.DataFrame], at: Any) -> tuple[Any, list[pd.DataFrame]]:
    """The rows of a taxi in the order of time: where it is then, and its fixes that are far off, if there are some."""
    rows = pd.concat(frames).sort_values("ts")
    told = []
    ts, xs, ys = rows["ts"], rows["x"].tolist(), rows["y"].tolist()
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if at is None:
            at = (x, y, 0.0)
            continue
        d = math.hypot(x - at[0], y - at[1])
        if d > 1:
            told.append((key, ts.iloc[i], x, y, at[2]))
        else:
            at = (x, y, at[2] + d)
    columns = ["taxi", "ts", "x", "y", "km"]
    return at, [pd.DataFrame(told, columns=columns)] if told else []


def drive(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """For `applyInPandasWithState`."""
    at, told = driven(key[0], frames, tuple(state.get) if state.exists else None)
    state.update(at)
    yield from told


class Drives(StatefulProcessor):
    """For `transformWithStateInPandas`."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("at", taxis.STATE)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        before = tuple(self.state.get()) if self.state.exists() else None
        at, told = driven(key[0], rows, before)
        self.state.update(at)
        yield from told

    def close(self) -> None:
        pass


def apply_in_pandas(frames: Frames) -> DataFrame:
    grouped: Any = frames["gps"].groupBy("taxi")
    made: DataFrame = grouped.applyInPandasWithState(
        drive, taxis.OUTLIERS, taxis.STATE, "append", "NoTimeout"
    )
    return made


def transform_with_state(frames: Frames) -> DataFrame:
    grouped: Any = frames["gps"].groupBy("taxi")
    made: DataFrame = grouped.transformWithStateInPandas(
        statefulProcessor=Drives(),
        outputStructType=taxis.OUTLIERS,
        outputMode="append",
        timeMode="none",
    )
    return made


FOLDS: dict[str, Callable[[Frames], DataFrame]] = {
    "applyInPandasWithState": apply_in_pandas,
    "transformWithStateInPandas": transform_with_state,
}
CASE = Case("taxis", {"gps": taxis.GPS}, "", "", lambda *_: {})


def folded(
    spark: SparkSession, count: int, rows: int, increments: int, skip: int
) -> dict[str, Compared | str]:
    """The fold over so many taxis, beside each of Spark's operators; or why one of them is not there."""
    many = (increments + skip) * rows
    gps = taxis.fixes(taxis.some(many, count), 4 * taxis.HOUR)
    given = [gps.slice(i * rows, rows) for i in range(increments + skip)]
    wanted, _ = taxis.driven(gps, by_hour=False)
    out: dict[str, Compared | str] = {}
    with place() as home:
        ours = _folded_here(spark, home, given, wanted)
        for name, query in FOLDS.items():
            why = lacking(spark, name)
            if why:
                out[name] = why
                continue
            stream = Appending(spark, home / name, CASE, query, {"gps": given[0]})
            try:
                theirs = [stream.increment({"gps": t}) for t in given]
            finally:
                stream.close()
            told = pa.concat_tables([t for t in stream.told if t.num_rows])
            told = told.set_column(1, "ts", told.column("ts").cast(taxis.INSTANT))
            same(f"{name}, {rows} rows", taxis.TOLD_ALONE, told, wanted, order="ts")
            out[name] = Compared(rows, ours[skip:], theirs[skip:])
    return out


def _folded_here(
    spark: SparkSession, home: Path, given: list[pa.Table], wanted: pa.Table
) -> list[float]:
    took = []
    with taxis.alone(home / "db", spark=spark) as db:
        for i, table in enumerate(given):
            put({"gps": table}, home / "ours", i)
            file = home / "ours" / "gps" / f"{i}.parquet"
            end = taxis.instant(int(taxis.numbers(table)[-1]) + 1)
            over = {"gps": hw.closed(ts=hw.below(end))}
            seconds, _ = timed(
                partial(lambda f, p: db.apply({"gps": pq.read_table(f)}, punctuate=p), file, over)
            )
            took.append(seconds)
        same("the fold", taxis.TOLD_ALONE, db["drives"], wanted)
    return took


# --- NEXMark 7 -----------------------------------------------------------------------------------------------------

HIGHEST = st.every("10 seconds", "tick") >> st.window("tick") >> st.highest("price")
WINDOW = "10 seconds"
FEW = 2
"""Increments of the join that count: each takes Spark the better part of a minute."""
PRICES = ("auction", "bidder", "price", "ts")


def joined(frames: Frames) -> DataFrame:
    """As NEXMark writes it: bids joined with the highest price of their window.

    Spark takes one column of event time on each side of a join: that is the window, and a bid's own time is a number.
    """
    plain = ("auction", "bidder", "price", F.unix_micros("ts").alias("t"))
    bid = frames["bid"].select(*plain, F.window("ts", WINDOW).alias("w"))
    tops = frames["bid"].groupBy(F.window("ts", WINDOW).alias("v")).agg(F.max("price").alias("top"))
    both = bid.join(tops, (F.col("w") == F.col("v")) & (F.col("price") == F.col("top")))
    return both.select("auction", "bidder", "price", F.timestamp_micros("t").alias("ts"))


def once(frames: Frames) -> DataFrame:
    """One of the highest bids of a window, by one aggregate."""
    whole = F.struct("price", "auction", "bidder", "ts")
    tops = frames["bid"].groupBy(F.window("ts", WINDOW)).agg(F.max(whole).alias("top"))
    return tops.select(*(F.col(f"top.{c}") for c in PRICES))


HIGHEST_OF: dict[str, Callable[[Frames], DataFrame]] = {
    "a join, as NEXMark has it": joined,
    "one aggregate, which tells no ties": once,
}


def highest(bids: pa.Table, ties: bool) -> pa.Table:
    """The highest bids of each window, by numpy: by window, and then by their columns; or the last of them by price and columns."""
    price, ts = np.asarray(bids.column("price")), np.asarray(bids.column("ts").cast(pa.int64()))
    window = ts // WIDTH
    others = [np.asarray(bids.column(c)) for c in ("bidder", "auction")]
    order = np.lexsort((ts, *others, price, window))
    last = np.append(window[order][1:] != window[order][:-1], True)
    wins = order[last]
    if ties:
        windows, tops = window[wins], price[wins]
        wins = np.flatnonzero(price == tops[np.searchsorted(windows, window)])
        wins = wins[np.lexsort((ts[wins], *(o[wins] for o in others), window[wins]))]
    return bids.select(list(PRICES)).take(pa.array(wins))


def bids_database(path: Path, **more: Any) -> hw.Database:
    """A database with NEXMark 7 as a stream."""
    db = hw.open(path, **more)
    scheme = hw.watermark("ts", DELAY)
    db.source("bid", BID, closes=scheme, append_only=True, retain=False)
    db.stream("q7", st.Seq("bid"), HIGHEST, order="ts")
    return db


def before(table: pa.Table) -> pa.Table:
    """Rows without those that only close others."""
    when: Ints = np.asarray(table.column("ts").cast(pa.int64()))
    return table.filter(pa.array(when < FAR))


def bids_here(
    home: Path, given: list[pa.Table], wanted: pa.Table, **more: Any
) -> tuple[list[float], list[float]]:
    """Seconds of each increment with reading its file, and of the commit alone."""
    took, committed = [], []
    with bids_database(home / "db", **more) as db:
        for i, table in enumerate(given):
            put({"bid": table}, home / "ours", i)
            file = home / "ours" / "bid" / f"{i}.parquet"
            read, rows = timed(partial(pq.read_table, file))
            seconds, commit = timed(partial(db.apply, {"bid": rows}))
            if commit.late:
                raise AssertionError(f"NEXMark 7: rows were late: {commit.late}")
            took.append(read + seconds)
            committed.append(seconds)
        db.apply(far(BY_NAME["NEXMark 7"], 0))
        told = before(db["q7"].output_table())
        same("NEXMark 7", st.Seq("bid"), told.select(list(PRICES)), wanted)
    return took, committed


def nexmark(
    spark: SparkSession | None, rows: int, windows: int, increments: int, skip: int
) -> tuple[list[float], dict[str, Compared]]:
    """Seconds of commits of so many bids, and the same beside Spark; increments have so many windows."""
    case = BY_NAME["NEXMark 7"]
    whole = case.increments(windows * (increments + skip), rows // windows, rows)
    given = [tables["bid"] for tables in whole]
    bids = pa.concat_tables(given)
    out: dict[str, Compared] = {}
    with place() as home:
        more = {} if spark is None else {"spark": spark}
        ours, committed = bids_here(home, given, highest(bids, ties=True), **more)
        for name, query in HIGHEST_OF.items() if spark is not None else ():
            assert spark is not None
            some = given[: skip + FEW] if query is joined else given
            stream = Appending(spark, home / query.__name__, case, query, {"bid": given[0]})
            try:
                theirs = [stream.increment({"bid": t}) for t in some]
                for i in range(3):  # what one closes, the next tells
                    stream.increment(far(case, i))
            finally:
                stream.close()
            told = pa.concat_tables([t for t in stream.told if t.num_rows])
            told = told.set_column(3, "ts", told.column("ts").cast(taxis.INSTANT))
            wanted = highest(pa.concat_tables(some), ties=query is joined)
            same(f"NEXMark 7, {name}", st.Bag("bid"), before(told), wanted)
            out[name] = Compared(rows, ours[skip:], theirs[skip:])
    return committed[skip:], out
