"""Bulk: a load beside Spark's own write, and a curve over the size of a change, from a hundred rows to more than the state.

Rows of keys and values, with two views: sum and count by key, and a join with sum, count and max by group. A load is timed
beside Spark writing the same rows sorted to Parquet and the aggregate of the first view beside them. Then changes of growing size are
applied, each to a copy of the database that was loaded, beside DuckDB (in memory) and Spark (from Parquet) recomputing both
views; and, where they are large, beside filling a new database with all rows. Answers are compared before a number counts.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import headwater as hw
from benchmarks.memory import anonymous
from benchmarks.report import Progress, Report, plain, short, timed
from benchmarks.views import folder, same, session

VIEWS = {
    "by_key": "SELECT k, sum(v) AS s, count(*) AS n FROM r GROUP BY k",
    "by_grp": "SELECT grp, sum(v) AS s, count(*) AS n, max(v) AS m FROM r JOIN g ON r.k = g.k GROUP BY grp",
}
RATE, ANEW, WRITE, MEMORY = 1.5e6, 1.3, 1.5, 1.5e9
"""Asked: rows a second here, times as long as filling anew, times as long as Spark's write, and bytes beside Spark's heap."""


@dataclass(frozen=True)
class Size:
    """Rows of the state, and of the changes."""

    state: int
    changes: tuple[int, ...]


SIZES = {
    "small": Size(20_000, (100, 5_000)),
    "ordinary": Size(5_000_000, (100, 10_000, 100_000, 500_000, 900_000, 1_500_000, 3_000_000)),
    "full": Size(
        5_000_000,
        (100, 1_000, 10_000, 100_000, 500_000, 900_000, 1_500_000, 3_000_000, 10_000_000, 50_000_000),
    ),
}  # fmt: skip


def pairs(n: int, keys: int, rng: np.random.Generator) -> pa.Table:
    return pa.table({"k": rng.integers(0, keys, n), "v": rng.integers(0, 10_000, n)})


def run(report: Report) -> None:
    """The load, and then the curve."""
    size, spark = SIZES[report.scale], session()
    keys, rng = max(size.state // 5, 1), np.random.default_rng(19)
    rows = pairs(size.state, keys, rng)
    groups = pa.table({"k": np.arange(keys), "grp": rng.integers(0, 100, keys)})
    progress = Progress(1 + len(size.changes))
    with folder() as home:
        progress.step("load", 0)
        load(report, spark, home, rows)
        filled(home / "base", spark, groups, rows)
        progress.step("the curve")
        points = []
        for n in size.changes:
            points.append(point(report, spark, home, groups, rows, pairs(n, keys, rng)))
            progress.step(short(n))
        progress.end()
    tell(report, size, points)


def load(report: Report, spark: SparkSession, home: Path, rows: pa.Table) -> None:
    """Rows from Parquet into a group-by view, beside Spark writing them sorted and the aggregate beside them."""
    pq.write_table(rows, home / "given.parquet")
    frame = spark.read.parquet(str(home / "given.parquet"))
    frame.limit(1).collect()  # Spark is warm

    def written() -> None:
        frame.repartitionByRange("k").sortWithinPartitions("k", "v").write.parquet(
            str(home / "sorted")
        )
        summed = frame.groupBy("k").agg({"v": "sum", "*": "count"})
        summed.toDF("k", "n", "s").sort("k").write.parquet(str(home / "summed"))

    theirs, _ = timed(written)
    with hw.open(home / "loaded", spark=spark) as db:
        db.source("r", "k BIGINT, v BIGINT")
        db.view("by_key", VIEWS["by_key"])
        with beside_spark() as used:
            ours, commit = timed(lambda: db.apply({"r": frame}))
        found = db.table("by_key").drop_columns(["_w"])
        answer = spark.read.parquet(str(home / "summed")).select("k", "s", "n").toArrow()
        same(found, answer, "Spark")
    name = f"load of {short(rows.num_rows)} rows"
    report.sample("load", ours, "s", where=commit.where)
    report.sample("Spark's write", theirs, "s")
    report.say(
        f"A {name} into the view by key took {ours:.1f} s ({commit.where}), Spark's write {theirs:.1f} s; "
        f"memory beside Spark's heap grew by {used[0] / 1e9:.2f} GB."
    )
    if report.scale != "small":
        report.at_most(f"{name}: times as long as Spark's write", ours / theirs, WRITE)
        report.at_most(f"{name}: GB beside Spark's heap", used[0] / 1e9, MEMORY / 1e9)
    for done in ("given.parquet", "sorted", "summed", "loaded"):
        path = home / done
        path.unlink() if path.is_file() else shutil.rmtree(path)


def filled(path: Path, spark: SparkSession, groups: pa.Table, rows: pa.Table) -> float:
    """Seconds that a new database takes for all rows, views included."""
    with hw.open(path, spark=spark) as db:
        db.source("r", "k BIGINT, v BIGINT")
        db.source("g", "k BIGINT, grp BIGINT")
        for name, query in VIEWS.items():
            db.view(name, query)
        db.apply({"g": groups})
        return timed(lambda: db.apply({"r": rows}))[0]


@dataclass(frozen=True)
class Point:
    """A change of some rows: seconds here, of recomputing, and of filling anew if that was tried."""

    rows: int
    seconds: float
    where: str
    duck: float
    spark: float
    anew: float | None


def point(
    report: Report, spark: SparkSession, home: Path, groups: pa.Table, rows: pa.Table, change: pa.Table
) -> Point:  # fmt: skip
    """One change, applied to a copy of what was loaded; the answers are those of DuckDB."""
    shutil.copytree(home / "base", home / "db")
    whole = pa.concat_tables([rows, change])
    try:
        with hw.open(home / "db", spark=spark) as db:
            first = pairs(100, groups.num_rows, np.random.default_rng(1))
            db.apply({"r": first})  # files are open
            seconds, commit = timed(lambda: db.apply({"r": change}))
            found = {n: db.table(n).drop_columns(["_w"]) for n in VIEWS}
    finally:
        shutil.rmtree(home / "db", ignore_errors=True)
    duck = duckdb.connect()
    everything = pa.concat_tables([whole, first])
    duck.execute("CREATE TABLE r AS SELECT * FROM everything")
    duck.execute("CREATE TABLE g AS SELECT * FROM groups")
    del everything
    by_duck, answers = timed(
        lambda: {n: duck.execute(q).to_arrow_table() for n, q in VIEWS.items()}
    )
    for n, answer in answers.items():
        same(found[n], answer, "DuckDB")
    duck.close()
    pq.write_table(whole, home / "r.parquet")
    pq.write_table(groups, home / "g.parquet")
    for name in ("r", "g"):
        spark.read.parquet(str(home / f"{name}.parquet")).createOrReplaceTempView(name)

    def recomputed() -> None:
        for q in VIEWS.values():
            spark.sql(q).write.format("noop").mode("overwrite").save()

    by_spark, _ = timed(recomputed)
    anew = None
    if 10 * change.num_rows >= rows.num_rows:
        anew = filled(home / "anew", spark, groups, whole)
        shutil.rmtree(home / "anew")
    report.sample("change", seconds, "s", rows=change.num_rows, where=commit.where)
    return Point(change.num_rows, seconds, commit.where, by_duck, by_spark, anew)


def tell(report: Report, size: Size, points: list[Point]) -> None:
    """The curve as a table, its targets, and where it turns."""
    report.say(f"A change of so many rows into {short(size.state)}, both views kept:")
    report.table(
        ["rows", "increment", "rows a second", "where", "DuckDB recomputes", "Spark recomputes", "filled anew"],
        [
            [short(p.rows), f"{p.seconds:.2f} s", short(int(p.rows / p.seconds)), p.where,
             f"{p.duck:.2f} s", f"{p.spark:.2f} s", f"{p.anew:.2f} s" if p.anew else ""]
            for p in points
        ],
    )  # fmt: skip
    for who in ("duck", "spark"):
        slower = [p.rows for p in points if p.seconds > getattr(p, who)]
        name = {"duck": "DuckDB", "spark": "Spark"}[who]
        turn = f"from {short(min(slower))} rows on" if slower else "nowhere on this curve"
        report.say(f"Recomputing is faster with {name} {turn}.")
    if report.scale == "small":
        return
    for p in points:
        if p.where == "driver" and p.rows >= 100_000:
            report.at_least(f"{short(p.rows)} rows here: rows a second", p.rows / p.seconds, RATE)
        if p.anew is not None:
            report.at_most(
                f"{short(p.rows)} rows: times as long as filling anew", p.seconds / p.anew, ANEW
            )
    with report.plot("curve") as (axis,):
        for label, values in (
            ("increment", [p.seconds for p in points]),
            ("DuckDB recomputes", [p.duck for p in points]),
            ("Spark recomputes", [p.spark for p in points]),
        ):
            axis.plot([p.rows for p in points], values, marker="o", label=label)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.xaxis.set_major_formatter(plain)
        axis.set_xlabel("rows of the change")
        axis.set_ylabel("seconds")
        axis.legend(fontsize=8)


@contextmanager
def beside_spark() -> Iterator[list[int]]:
    """How much anonymous memory this process and its Python workers took at most, above what they had; not that of Java."""
    out, done = [0], threading.Event()
    before = _python_memory()

    def watch() -> None:
        while not done.wait(0.05):
            out[0] = max(out[0], _python_memory() - before)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield out
    finally:
        done.set()
        thread.join()


def _python_memory() -> int:
    """The anonymous memory of this process and of all that it started, but for Java."""
    parents: dict[int, list[Any]] = {}
    names: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (path / "stat").read_text().rpartition(")")
        except OSError:
            continue
        pid = int(path.name)
        names[pid] = name.partition("(")[2]
        parents.setdefault(int(rest.split()[1]), []).append(pid)
    total, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        waiting += parents.get(pid, [])
        if names.get(pid) != "java":
            try:
                total += anonymous(pid)
            except OSError:
                continue
    return total
