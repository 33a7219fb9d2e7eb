"""Loads and large changes: a load beside Spark's own write, and a curve over the size of a change, to more than the state.

Rows of keys and values, with two views: sum and count by key, and a join with sum, count and max by group.

`load`: rows from Parquet into the first view, beside Spark writing the same rows sorted to Parquet and the aggregate beside them,
with the memory that is taken beside Java's. `bulk`: changes of growing size, each applied to a copy of the database that was loaded, where
the policy puts it, and here and on Spark as well; beside DuckDB (in memory) and Spark (from Parquet) recomputing both views, and beside
filling a new database with all rows, and filling both views anew once their source has taken the change, which is what an increment
saves. The last change takes most rows away. `curve`: the same with a smaller state, from 100 rows to ten
times the state, with the points where it turns. Answers are compared before a number counts.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headwater as hw
from benchmarks.duck import connected
from benchmarks.memory import anonymous
from benchmarks.report import Progress, Report, plain, short, timed
from benchmarks.views import folder, same, session
from headwater.engine import refill

VIEWS = {
    "by_key": "SELECT k, sum(v) AS s, count(*) AS n FROM r GROUP BY k",
    "by_grp": "SELECT grp, sum(v) AS s, count(*) AS n, max(v) AS m FROM r JOIN g ON r.k = g.k GROUP BY grp",
}
RATE, ANEW, WRITE, MEMORY = 1.5e6, 1.3, 1.5, 1.5e9
"""Asked: rows a second here, times as long as filling anew, times as long as Spark's write, and bytes beside Spark's heap."""


@dataclass(frozen=True)
class Size:
    """Rows of the state, and of the changes; those from `apart` on are also made here and on Spark."""

    state: int
    changes: tuple[int, ...]
    apart: int = 100_000


STEPS = (100, 1_000, 10_000, 100_000, 500_000, 900_000, 1_500_000, 3_000_000)
SIZES = {
    "small": Size(20_000, (100, 5_000), 5_000),
    "ordinary": Size(5_000_000, STEPS),
    "full": Size(5_000_000, (*STEPS, 10_000_000, 50_000_000)),
}
STATE = 300_000
CURVES = {
    "small": Size(2_000, (100, 20_000), 20_000),
    "ordinary": Size(STATE, (100, 1_000, 10_000, 100_000, STATE, 1_000_000, 10 * STATE)),
}
CURVES["full"] = CURVES["ordinary"]
LOADS = {"small": 20_000, "ordinary": 5_000_000, "full": 50_000_000}
"""Rows of a load."""
TURNS = 2
"""How often a change is made in each way; the better turn counts."""
MOST_HERE = 5_000_000
"""Rows of a change that are carried here at most: more would not fit into this process."""


def pairs(n: int, keys: int, rng: np.random.Generator) -> pa.Table:
    return pa.table({"k": rng.integers(0, keys, n), "v": rng.integers(0, 10_000, n)})


def run(report: Report, pieces: tuple[str, ...] = ()) -> None:
    """Some pieces, or all of them."""
    spark = session()
    for piece in pieces or tuple(PIECES):
        with folder() as home:
            PIECES[piece](report, spark, home)


def bulk(report: Report, spark: SparkSession, home: Path) -> None:
    """Large changes of a large state."""
    points = changed(report, spark, home, SIZES[report.scale], "bulk")
    for p in points:
        if p.where == "here" and p.rows >= 100_000 and report.scale != "small":
            report.at_least(f"{short(p.rows)} rows here: rows a second", p.rows / p.seconds, RATE)


def curve(report: Report, spark: SparkSession, home: Path) -> None:
    """Changes up to ten times the state."""
    changed(report, spark, home, CURVES[report.scale], "curve")


def changed(report: Report, spark: SparkSession, home: Path, size: Size, name: str) -> list[Point]:
    """Changes of growing size, told as a curve."""
    keys, rng = max(size.state // 5, 1), np.random.default_rng(19)
    rows = pairs(size.state, keys, rng)
    groups = pa.table({"k": np.arange(keys), "grp": rng.integers(0, 100, keys)})
    progress = Progress(2 + len(size.changes))
    progress.step("the state", 0)
    first = filled(home / "base", spark, groups, rows)
    filled(home / "bare", spark, groups, rows, {})
    trial = Trial(report, spark, home, groups, rows, size.apart, first)
    points = []
    for n in size.changes:
        progress.step(short(n))
        points.append(trial.point(n, hw.Delta(inserts=pairs(n, keys, rng))))
    progress.step("most rows go")
    gone = trial.point(0, hw.Delta(deletes=rows.slice(0, size.state * 9 // 10)))
    progress.end()
    tell(report, size, points, gone, name)
    return points


def load(report: Report, spark: SparkSession, home: Path) -> None:
    """Rows from Parquet into a group-by view, beside Spark writing them sorted and the aggregate beside them; the better of two turns each."""
    size = LOADS[report.scale]
    rows = pairs(size, max(size // 5, 1), np.random.default_rng(19))
    pq.write_table(rows, home / "given.parquet", row_group_size=max(size // 8, 1))
    del rows
    frame = spark.read.parquet(str(home / "given.parquet"))
    theirs, ours, used = [], [], 0
    for turn in ("0", "1"):  # the first one finds Spark cold
        written = partial(_written, frame, home, turn)
        theirs.append(timed(written)[0])
        with hw.open(home / f"loaded{turn}", spark=spark, execution="spark") as db:
            db.source("r", "k BIGINT, v BIGINT")
            db.view("by_key", VIEWS["by_key"])
            with beside_spark() as peak:
                seconds, _ = timed(partial(db.apply, {"r": frame}))
            ours.append(seconds)
            used = max(used, peak[0])
            found = db.table("by_key").drop_columns(["_w"])
        answer = spark.read.parquet(str(home / f"summed{turn}")).select("k", "s", "n").toArrow()
        same(found, answer, "Spark")
        report.sample("load", seconds, "s", rows=size, turn=turn, peak=peak[0])
        report.sample("Spark's write", theirs[-1], "s", rows=size, turn=turn)
        for name in ("sorted", "summed", "loaded"):
            shutil.rmtree(home / f"{name}{turn}")
    name = f"load of {short(size)} rows"
    report.say(
        f"A {name} into the view by key took {min(ours):.1f} s on Spark, Spark's own write {min(theirs):.1f} s "
        f"(better of two); memory beside Java's grew by {used / 1e9:.2f} GB."
    )
    if report.scale != "small":
        report.at_most(f"{name}: times as long as Spark's write", min(ours) / min(theirs), WRITE)
        report.at_most(f"{name}: GB beside Java's", used / 1e9, MEMORY / 1e9)


def _written(frame: DataFrame, home: Path, turn: str) -> None:
    """The rows sorted, and the aggregate beside them, as Spark writes them."""
    ordered = frame.repartitionByRange("k").sortWithinPartitions("k", "v")
    ordered.write.parquet(str(home / f"sorted{turn}"))
    summed = frame.groupBy("k").agg(F.sum("v").alias("s"), F.count("*").alias("n"))
    summed.sort("k").write.parquet(str(home / f"summed{turn}"))


def filled(
    path: Path,
    spark: SparkSession,
    groups: pa.Table,
    rows: pa.Table,
    views: Mapping[str, str] = VIEWS,
) -> float:
    """Seconds that a new database takes for all rows, views included."""
    with hw.open(path, spark=spark) as db:
        db.source("r", "k BIGINT, v BIGINT")
        db.source("g", "k BIGINT, grp BIGINT")
        for name, query in views.items():
            db.view(name, query)
        db.apply({"g": groups})
        return timed(lambda: db.apply({"r": rows}))[0]


@dataclass(frozen=True)
class Point:
    """A change of some rows: seconds where the policy puts it, in this process and on Spark, of recomputing, and of filling anew.

    `views` are those of the source's change without views, and of defining them over it.
    """

    rows: int
    seconds: float
    where: str
    here: float | None
    on_spark: float | None
    duck: float
    spark: float
    anew: float
    views: float | None


@dataclass(frozen=True)
class Trial:
    """Changes of one state, each made to a copy of it."""

    report: Report
    spark: SparkSession
    home: Path
    groups: pa.Table
    rows: pa.Table
    apart: int
    first: float
    """Seconds in which the state was filled: so long it takes with few rows more, too."""

    def point(self, n: int, change: hw.Delta) -> Point:
        """One change in all ways; the answers are those of DuckDB."""
        whole = self.rows
        if change.inserts is not None:
            whole = pa.concat_tables([whole, change.inserts])
        if change.deletes is not None:
            whole = whole.slice(change.deletes.num_rows)
        duck, answers = self.by_duck(whole)
        large = n == 0 or n >= self.apart
        ways = ["auto", *(["here"] if n <= MOST_HERE else []), "spark"] if large else ["auto"]
        took: dict[str, list[tuple[float, str]]] = {way: [] for way in ways}
        for turn in range(TURNS):
            # Whoever comes after Spark finds it still at work: the second turn is made the other way round.
            for way in ways if turn % 2 == 0 else reversed(ways):
                took[way].append(self.applied(change, way, answers))
        seconds, where = min(took["auto"])
        here, on_spark = (min(took[way])[0] if way in took else None for way in ("here", "spark"))
        anew, views = self.first, None
        if large:
            views = min(self.defined_after(change, answers) for _ in range(TURNS))
            anew = filled(self.home / "anew", self.spark, self.groups, whole)
            shutil.rmtree(self.home / "anew")
        recomputed = self.by_spark(whole)
        point = Point(n, seconds, where, here, on_spark, duck, recomputed, anew, views)
        for way, value in asdict(point).items():
            if isinstance(value, float):
                self.report.sample(f"change: {way}", value, "s", rows=n, where=where)
        return point

    def applied(
        self, change: hw.Delta, execution: Any, answers: dict[str, pa.Table]
    ) -> tuple[float, str]:
        """Seconds of a change to a copy of the state, and where it ran."""
        shutil.copytree(self.home / "base", self.home / "db")
        anew = [0]
        try:
            with hw.open(self.home / "db", spark=self.spark, execution=execution) as db:
                db.apply({"r": hw.Delta(inserts=[(0, 1)])})  # files are open
                db.apply({"r": hw.Delta(deletes=[(0, 1)])})
                with counted_refills() as anew:
                    seconds, commit = timed(lambda: db.apply({"r": change}))
                for name, answer in answers.items():
                    same(db.table(name).drop_columns(["_w"]), answer, "DuckDB")
        finally:
            shutil.rmtree(self.home / "db", ignore_errors=True)
        where = {"driver": "here"}.get(commit.where, commit.where)
        return seconds, f"{where}, {anew[0]} maps anew" if anew[0] else where

    def defined_after(self, change: hw.Delta, answers: dict[str, pa.Table]) -> float:
        """Seconds of a change to a copy of the state without views, and of filling both of them after it."""
        shutil.copytree(self.home / "bare", self.home / "db")
        try:
            with hw.open(self.home / "db", spark=self.spark) as db:
                db.apply({"r": hw.Delta(inserts=[(0, 1)])})  # files are open
                db.apply({"r": hw.Delta(deletes=[(0, 1)])})
                seconds, _ = timed(lambda: db.apply({"r": change}))
                for name, query in VIEWS.items():
                    seconds += timed(partial(db.view, name, query))[0]
                for name, answer in answers.items():
                    same(db.table(name).drop_columns(["_w"]), answer, "DuckDB")
        finally:
            shutil.rmtree(self.home / "db", ignore_errors=True)
        return seconds

    def by_duck(self, whole: pa.Table) -> tuple[float, dict[str, pa.Table]]:
        """Seconds in which DuckDB recomputes, and its answers."""
        with connected() as duck:
            duck.register("given", whole)
            duck.register("grouped", self.groups)
            duck.execute("CREATE TABLE r AS SELECT * FROM given")
            duck.execute("CREATE TABLE g AS SELECT * FROM grouped")
            return timed(lambda: {n: duck.sql(q).to_arrow_table() for n, q in VIEWS.items()})

    def by_spark(self, whole: pa.Table) -> float:
        """Seconds in which Spark recomputes, from Parquet."""
        for name, table in (("r", whole), ("g", self.groups)):
            pq.write_table(table, self.home / f"{name}.parquet")
            self.spark.read.parquet(str(self.home / f"{name}.parquet")).createOrReplaceTempView(
                name
            )

        def recomputed() -> None:
            for q in VIEWS.values():
                self.spark.sql(q).write.format("noop").mode("overwrite").save()

        return timed(recomputed)[0]


@contextmanager
def counted_refills() -> Iterator[list[int]]:
    """How many maps are filled anew."""
    out, before = [0], refill.difference

    def counted(*given: Any) -> pa.Table:
        out[0] += 1
        return before(*given)

    vars(refill)["difference"] = counted
    try:
        yield out
    finally:
        vars(refill)["difference"] = before


def tell(report: Report, size: Size, points: list[Point], gone: Point, plot: str) -> None:
    """The curve as a table, its targets, and where it turns."""
    report.say(f"A change of so many rows into {short(size.state)}, both views kept:")
    names = ("rows", "increment", "rows a second", "where", "here", "on Spark", "DuckDB recomputes", "Spark recomputes", "filled anew", "views anew")  # fmt: skip
    rows = []
    for p in [*points, gone]:
        label = short(p.rows) if p.rows else f"{short(size.state * 9 // 10)} go"
        times = [p.here, p.on_spark, p.duck, p.spark, p.anew, p.views]
        rate = short(int((p.rows or size.state * 9 // 10) / p.seconds))
        cells = [f"{t:.2f} s" if t is not None else "" for t in times]
        rows.append([label, f"{p.seconds:.3f} s", rate, p.where, *cells])
    report.table(names, rows)
    for who, slower in (
        ("DuckDB recomputes faster", [p.rows for p in points if p.seconds > p.duck]),
        ("Spark recomputes faster", [p.rows for p in points if p.seconds > p.spark]),
        ("a new database is filled faster", [p.rows for p in points if p.seconds > p.anew]),
        (
            "a change is carried through on Spark",
            [p.rows for p in points if p.where.startswith("spark")],
        ),
    ):
        turn = f"from {short(min(slower))} rows on" if slower else "nowhere on this curve"
        report.say(f"Where it turns: {who} {turn}.")
    if report.scale == "small":
        return
    for p in [*points, gone]:
        name = f"{short(p.rows)} rows" if p.rows else "nine tenths go"
        name += f" of {short(size.state)}" if not p.rows else f" into {short(size.state)}"
        report.at_most(f"{name}: times as long as filling anew", p.seconds / p.anew, ANEW)
        if p.views is not None:
            what = "the source's change and filling the views anew"
            report.at_most(f"{name}: times as long as {what}", p.seconds / p.views, ANEW)
        ways = [w for w in (p.here, p.on_spark) if w is not None]
        if ways:
            report.at_most(f"{name}: times as long as the better way", p.seconds / min(ways), ANEW)
    with report.plot(plot) as (axis,):
        for label, values in (
            ("increment", [p.seconds for p in points]),
            ("filled anew", [p.anew for p in points]),
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


PIECES = {"load": load, "bulk": bulk, "curve": curve}
