"""Views: what an increment costs, beside recomputing, Structured Streaming and DuckDB on the same data.

Four experiments: a group-by, a many-to-many join with a group-by, revenue over three tables, and min and max with
deletions; the first of integers and of doubles, and with increments of two sizes. Each is loaded, and then takes increments one after another. At
every increment the same change is also made to the tables that DuckDB and Spark recompute from (not timed), and the
answers are compared before a number counts. Each experiment also runs at a tenth of its size, with as many rows of a key, so that
an increment touches as many entries: it must not notice the difference. Spark recomputes from Parquet files; DuckDB from its own tables in memory. Small changes, of many
views and of growing state, are in `views_small`, loads and large ones in `bulk`.
"""

from __future__ import annotations

import gc
import os
import shutil
import statistics
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import headwater as hw
from benchmarks import views_small
from benchmarks.duck import connected
from benchmarks.memory import anonymous
from benchmarks.report import ROOT, Progress, Report, number, plain, short, timed
from benchmarks.streaming import Streaming
from headwater.engine.verify.compare import differences

Tables = dict[str, pa.Table]
Change = dict[str, tuple[pa.Table, pa.Table]]
"""Inserted and deleted rows by table."""


@dataclass(frozen=True)
class Experiment:
    """A query, tables of a size, and increments."""

    name: str
    title: str
    sources: dict[str, str]
    query: str
    load: Callable[[int, np.random.Generator], Tables]
    change: Callable[[Tables, int, int, np.random.Generator], Change]
    size: int
    rows: int
    faster: float
    """How many times faster than recomputing on Spark it is asked to be."""
    streams: bool = False
    increments: int = 15


@dataclass
class Measured:
    """What one experiment measured."""

    load: float
    seconds: list[float]
    commits: list[hw.Commit]
    peak: int


# --- the experiments -----------------------------------------------------------------------------------------


def pairs(n: int, keys: int, values: int, rng: np.random.Generator) -> pa.Table:
    return pa.table({"k": rng.integers(0, keys, n), "v": rng.integers(0, values, n)})


def load_groups(n: int, rng: np.random.Generator) -> Tables:
    return {"r": pairs(n, n // 5, 10_000, rng)}


def more_groups(tables: Tables, rows: int, _: int, rng: np.random.Generator) -> Change:
    """Rows of different keys, so that as many groups are touched at a tenth of the size."""
    keys = max(tables["r"].num_rows // 5, rows)
    new = {"k": rng.choice(keys, rows, replace=False), "v": rng.integers(0, 10_000, rows)}
    return {"r": (pa.table(new), tables["r"].slice(0, 0))}


def as_doubles(t: pa.Table) -> pa.Table:
    """The values as amounts with two digits after the point, of which sums are not exact in doubles."""
    return t.set_column(1, "v", pa.array(np.asarray(t.column("v")) / 100))


def load_doubles(n: int, rng: np.random.Generator) -> Tables:
    return {"r": as_doubles(load_groups(n, rng)["r"])}


def more_doubles(tables: Tables, rows: int, at: int, rng: np.random.Generator) -> Change:
    new, gone = more_groups(tables, rows, at, rng)["r"]
    return {"r": (as_doubles(new), gone)}


VALUES = 100_001
"""Values of each column of the join, at its size."""


def sides(n: int, keys: int, rng: np.random.Generator) -> Tables:
    columns = {"a": VALUES, "b": keys, "c": VALUES}

    def side(*names: str) -> pa.Table:
        return pa.table({c: rng.integers(0, columns[c], n) for c in names})

    return {"r": side("a", "b"), "s": side("b", "c")}


def load_sides(n: int, rng: np.random.Generator) -> Tables:
    """Five rows of a key on each side and as many groups, at every size: a row finds and touches as much at a tenth of it."""
    return sides(n, n // 5 + 1, rng)


def more_sides(tables: Tables, rows: int, _: int, rng: np.random.Generator) -> Change:
    keys = tables["r"].num_rows // 5 + 1
    return {n: (t, t.slice(0, 0)) for n, t in sides(rows, keys, rng).items()}


def decimals(cents: np.ndarray[Any, Any], precision: int) -> pa.Array:
    """Hundredths as decimals with two digits."""
    words = np.zeros((len(cents), 2), np.int64)
    words[:, 0] = cents
    words[:, 1] = cents >> 63
    buffers = [None, pa.py_buffer(words.tobytes())]
    return pa.Array.from_buffers(pa.decimal128(precision, 2), len(cents), buffers)


def orders_with_lines(
    keys: np.ndarray[Any, Any], customers: int, rng: np.random.Generator
) -> Tables:
    """Orders and one to seven lines of each."""
    counts = rng.integers(1, 8, len(keys))
    lines = int(counts.sum())
    return {
        "orders": pa.table({"orderkey": keys, "custkey": rng.integers(0, customers, len(keys))}),
        "lineitem": pa.table(
            {
                "orderkey": np.repeat(keys, counts),
                "price": decimals(rng.integers(90_000, 10_000_000, lines), 12),
                "discount": decimals(rng.integers(0, 11, lines), 12),
            }
        ),
    }


SEGMENTS = np.array(["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"])


def load_sales(n: int, rng: np.random.Generator) -> Tables:
    """About n rows: for each customer ten orders, for each order four lines."""
    customers = n // 51
    customer = pa.table(
        {
            "custkey": np.arange(customers),
            "nation": rng.integers(0, 25, customers).astype(np.int32),
            "segment": SEGMENTS[rng.integers(0, 5, customers)],
        }
    )
    return {"customer": customer, **orders_with_lines(np.arange(customers * 10), customers, rng)}


def more_sales(tables: Tables, rows: int, turn: int, rng: np.random.Generator) -> Change:
    """So many new orders with their lines, and half as many old ones deleted with theirs."""
    orders, lines = tables["orders"], tables["lineitem"]
    customers = tables["customer"].num_rows
    first = 10_000_000_000 + turn * rows
    new = orders_with_lines(np.arange(first, first + rows), customers, rng)
    known = np.asarray(orders.column("orderkey"))
    gone = rng.choice(known, rows // 2, replace=False)
    return {
        "orders": (new["orders"], orders.filter(pa.array(np.isin(known, gone)))),
        "lineitem": (
            new["lineitem"],
            lines.filter(pa.array(np.isin(np.asarray(lines.column("orderkey")), gone))),
        ),
    }


def load_extremes(n: int, rng: np.random.Generator) -> Tables:
    return {"r": pairs(n, n // 10, 1_000_000_000, rng)}


def more_extremes(tables: Tables, rows: int, _: int, rng: np.random.Generator) -> Change:
    r = tables["r"]
    some = rng.choice(r.num_rows, rows // 2, replace=False)
    keys = max(r.num_rows // 10, 1)
    return {"r": (pairs(rows // 2, keys, 1_000_000_000, rng), r.take(pa.array(np.sort(some))))}


GROUPS = Experiment(
    "groups",
    "group by, avg and count",
    {"r": "k BIGINT, v BIGINT"},
    "SELECT k, avg(v) AS mean, count(*) AS n FROM r GROUP BY k",
    load_groups,
    more_groups,
    5_000_000,
    10_000,
    8,
    streams=True,
)
EXPERIMENTS = [
    GROUPS,
    replace(
        GROUPS,
        name="groups-doubles",
        title="group by, avg of doubles",
        sources={"r": "k BIGINT, v DOUBLE"},
        load=load_doubles,
        change=more_doubles,
        streams=False,
    ),
    replace(GROUPS, name="groups-100k", title="group by, larger increments", rows=100_000),
    Experiment(
        "join",
        "many-to-many join, group by avg",
        {"r": "a BIGINT, b BIGINT", "s": "b BIGINT, c BIGINT"},
        "SELECT r.a, avg(s.c) AS mean FROM r JOIN s ON r.b = s.b GROUP BY r.a",
        load_sides,
        more_sides,
        500_000,
        10_000,
        10,
    ),
    Experiment(
        "revenue",
        "revenue by nation and segment",
        {
            "customer": "custkey BIGINT, nation INT, segment STRING",
            "orders": "orderkey BIGINT, custkey BIGINT",
            "lineitem": "orderkey BIGINT, price DECIMAL(12,2), discount DECIMAL(12,2)",
        },
        """SELECT c.nation, c.segment, sum(l.price * (1 - l.discount)) AS revenue
           FROM customer c JOIN orders o ON c.custkey = o.custkey
                           JOIN lineitem l ON o.orderkey = l.orderkey
           GROUP BY c.nation, c.segment""",
        load_sales,
        more_sales,
        7_650_000,
        1_000,
        10,
    ),
    Experiment(
        "extremes",
        "min and max, half of the change deleted",
        {"r": "k BIGINT, v BIGINT"},
        "SELECT k, min(v) AS low, max(v) AS high FROM r GROUP BY k",
        load_extremes,
        more_extremes,
        10_000_000,
        10_000,
        8,
    ),
]
GROWTH = 1.25
"""How much longer an increment may take at ten times the state."""
RECOMPUTED = 3
"""At so many of the increments Spark and DuckDB recompute."""
STREAMED = 6
"""So many of the increments a stream takes."""


# --- running -----------------------------------------------------------------------------------------------------


def run(report: Report, pieces: tuple[str, ...] = ()) -> None:
    """All experiments, at their size and at a tenth of it, and small changes; or some pieces of these alone."""
    with folder() as home:
        views_small.run(report, home, pieces or tuple(views_small.PIECES))
    if pieces:
        return
    scale = {"small": 0.01, "ordinary": 1.0, "full": 1.0}[report.scale]
    spark = session()
    listed = [replace(e, size=int(e.size * scale)) for e in EXPERIMENTS]
    if report.scale == "small":
        listed = [replace(e, rows=max(e.rows // 10, 10), increments=5) for e in listed]
    if report.scale == "full":
        large = replace(GROUPS, name="groups-50m", title="group by, 50 million rows")
        listed.append(replace(large, size=50_000_000, faster=30, streams=False))
    progress = Progress(2 * len(listed))
    told: list[tuple[Experiment, Measured, Measured, dict[str, float]]] = []
    for e in listed:
        progress.step(f"{e.title}, a tenth", 0)
        small, _ = experiment(
            report, replace(e, size=e.size // 10, streams=False), spark, compare=False
        )
        progress.step(e.title)
        large_run, others = experiment(report, e, spark, compare=True)
        progress.step("")
        told.append((e, large_run, small, others))
    progress.end()
    tell(report, told)


def session() -> SparkSession:
    """A local session as a careful user would set it up: as many partitions as cores."""
    made: SparkSession = (
        SparkSession.builder.master("local[*]")
        .appName("headwater benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", str(os.cpu_count()))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    return made


def experiment(
    report: Report, e: Experiment, spark: SparkSession, compare: bool
) -> tuple[Measured, dict[str, float]]:
    """Loads, makes the increments, and compares the answers with those of the others."""
    rng = np.random.default_rng(7)
    tables = e.load(e.size, rng)
    others: dict[str, list[float]] = {}
    with folder() as home, hw.open(home / "db", spark=spark) as db:
        for name, ddl in e.sources.items():
            db.source(name, ddl)
        db.view("answer", e.query)
        load, _ = timed(lambda: db.apply(tables))
        db.compact()
        os.sync()  # what the load left to be done goes on beside nobody
        rivals = Rivals(e, spark, home) if compare else None
        loaded, changes = tables, list[Change]()
        gc.collect()
        seconds: list[float] = []
        commits: list[hw.Commit] = []
        peak = 0
        for turn in range(e.increments):
            change = e.change(tables, e.rows, turn, rng)
            given = {n: hw.Delta(inserts=i, deletes=d) for n, (i, d) in change.items()}
            with memory() as used:
                taken, commit = timed(partial(db.apply, given))
            seconds.append(taken)
            commits.append(commit)
            peak = max(peak, used[0])
            report.sample("increment", taken, "s", experiment=e.name, rows=e.size, jobs=commit.jobs)
            tables = changed(tables, change)
            changes.append(change)
            if rivals is not None and turn >= e.increments - RECOMPUTED:
                found = db.table("answer").drop_columns(["_w"])
                for who, s in rivals.recompute(tables, found).items():
                    others.setdefault(who, []).append(s)
        if compare and e.streams:
            others["Structured Streaming"] = streamed(e, spark, home, loaded, changes[:STREAMED])
    for who, values in others.items():
        for value in values:
            report.sample(who, value, "s", experiment=e.name, rows=e.size)
    medians = {who: statistics.median(values) for who, values in others.items()}
    return Measured(load, seconds, commits, peak), medians


def streamed(
    e: Experiment, spark: SparkSession, home: Path, loaded: Tables, changes: list[Change]
) -> list[float]:
    """Seconds that a stream takes for changes. It looks for files all the time, and so it does not run beside anyone else."""
    stream = Streaming(spark, home, e.query, loaded)
    try:
        return [stream.increment(change["r"][0]) for change in changes]
    finally:
        stream.close()


def changed(tables: Tables, change: Change) -> Tables:
    """The tables after a change."""
    out = dict(tables)
    for name, (inserts, deletes) in change.items():
        table = without(out[name], deletes) if deletes.num_rows else out[name]
        out[name] = pa.concat_tables([table, inserts.cast(table.schema)]).combine_chunks()
    return out


def without(table: pa.Table, gone: pa.Table) -> pa.Table:
    """The rows of a table without as many of each as are in another: of those whose first column some of these have, one by one."""
    some = np.flatnonzero(pc.is_in(table.column(0), value_set=gone.column(0).combine_chunks()))
    left, kept = Counter(rows_of(gone)), np.ones(table.num_rows, np.bool_)
    for place, row in zip(some, rows_of(table.take(pa.array(some))), strict=True):
        if left[row] > 0:
            left[row] -= 1
            kept[place] = False
    return table.filter(pa.array(kept))


def rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows of a table as tuples."""
    return zip(*(c.to_pylist() for c in table.columns), strict=True)


class Rivals:
    """DuckDB and Spark, which recompute."""

    def __init__(self, e: Experiment, spark: SparkSession, home: Path):
        self.query, self.spark, self.home, self.turn = e.query, spark, home, 0

    def recompute(self, tables: Tables, found: pa.Table) -> dict[str, float]:
        """Seconds of each, after its answer was compared with ours."""
        self.turn += 1
        con = connected()
        con.execute(f"SET threads TO {os.cpu_count()}")
        for name, table in tables.items():
            con.register("given", table)
            con.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            con.unregister("given")
        duck, answer = timed(lambda: con.sql(self.query).to_arrow_table())
        same(found, answer, "DuckDB")
        con.close()
        for name, table in tables.items():
            at = self.home / f"{name}-{self.turn}.parquet"
            pq.write_table(table, at)
            self.spark.read.parquet(str(at)).createOrReplaceTempView(name)
        spark, _ = timed(
            lambda: self.spark.sql(self.query).write.format("noop").mode("overwrite").save()
        )
        if self.turn == 1:
            same(found, self.spark.sql(self.query).toArrow(), "Spark")
        return {"DuckDB": duck, "Spark": spark}


def same(found: pa.Table, answer: pa.Table, who: str) -> None:
    """Raises unless two answers are the same up to types and the last digits of doubles."""
    problem = differences(found, answer.cast(found.schema), rounded=True)
    if problem:
        raise AssertionError(f"the answer differs from {who}'s: {problem}")


@contextmanager
def folder() -> Iterator[Path]:
    """A directory beside the project, so that it is on a disk and not in memory."""
    (ROOT / "build").mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=ROOT / "build", prefix="views-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def memory() -> Iterator[list[int]]:
    """How much anonymous memory this process took at most while something ran, above what it had."""
    before = anonymous(os.getpid())
    out = [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            out[0] = max(out[0], anonymous(os.getpid()) - before)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield out
    finally:
        done.set()
        thread.join()


# --- telling -----------------------------------------------------------------------------------------------------


def tell(
    report: Report, told: list[tuple[Experiment, Measured, Measured, dict[str, float]]]
) -> None:
    """Tables, targets and plots."""
    rows, costs = [], []
    for e, large, small, others in told:
        ours, worst = statistics.median(large.seconds), max(large.seconds)
        tenth = statistics.median(small.seconds)
        spark, duck = others["Spark"], others["DuckDB"]
        streaming = others.get("Structured Streaming")
        name = f"{e.title}, {short(e.size)} rows, {short(e.rows)} changed"
        if report.scale != "small":
            report.at_least(f"{name}: times faster than Spark recomputing", spark / ours, e.faster)
            report.at_least(f"{name}: times faster than DuckDB recomputing", duck / ours, 1)
            if streaming is not None:
                report.at_least(
                    f"{name}: times faster than Structured Streaming", streaming / ours, 1
                )
            report.at_most(
                f"{name}: times as long as at a tenth of the state", ours / tenth, GROWTH
            )
        rows.append(
            [
                name,
                *(f"{1000 * x:.0f} ms" for x in (ours, worst, tenth)),
                *(f"{x:.2f} s ({number(x / ours)}×)" for x in (spark, duck)),
                f"{streaming:.2f} s ({number(streaming / ours)}×)" if streaming else "cannot",
            ]
        )
        last = large.commits[-1]
        costs.append(
            [
                name,
                f"{large.load:.1f} s",
                str(max(c.jobs for c in large.commits)),
                str(max(c.exchanges for c in large.commits)),
                str(max(c.hops for c in large.commits)),
                f"{statistics.median(c.bytes for c in large.commits) / 1e6:.2f} MB",
                f"{large.peak / 1e6:.0f} MB",
                last.where,
            ]
        )
    report.say("Seconds of an increment; how many times faster it is than the others in brackets.")
    report.table(
        ["experiment", "median", "worst", "at a tenth", "Spark", "DuckDB", "Structured Streaming"],
        rows,
    )
    report.say(
        "Structured Streaming is given the group-by only: it takes no deletions, and in update mode no aggregate over a "
        "join of streams. What an increment took besides time:"
    )
    report.table(
        [
            "experiment",
            "load",
            "jobs",
            "exchanges",
            "Python hops",
            "written",
            "peak memory",
            "where",
        ],
        costs,
    )
    with report.plot("times", columns=2, rows=3) as axes:
        for axis, (e, large, _, others) in zip(axes, told, strict=False):
            names = ["Headwater", *others]
            values = [statistics.median(large.seconds), *others.values()]
            axis.barh(names[::-1], values[::-1], color=["#999"] * len(others) + ["#2a7"])
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(plain)
            axis.set_title(f"{e.title}, {short(e.rows)} changed")
            axis.set_xlabel("seconds an increment")
        for axis in axes[len(told) :]:
            axis.set_axis_off()
    with report.plot("increments") as (axis,):
        for e, large, _, _ in told:
            axis.plot(
                range(1, len(large.seconds) + 1), [1000 * s for s in large.seconds], label=e.name
            )
        axis.set_ylim(bottom=0)
        axis.set_xlabel("increment")
        axis.set_ylabel("milliseconds")
        axis.legend(fontsize=8)
