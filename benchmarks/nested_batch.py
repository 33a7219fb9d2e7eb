"""Nested views evaluated whole on Spark: shredded beside Spark's own nested plan, with more and more skew.

A share of all foreign keys is drawn from a Zipf distribution with exponent 2, so that some bags hold a large part of
all inner rows; or there are only ten rows at the top, each with large bags. Three ways to the same answer:

    nested     one plan that groups and collects bags; Q4 to Q7 read nested rows
    shredded   the flat parts that Headwater derives, each a plan; Q4 to Q7 read flat parts
    view       the view defined over sources that are there, with its state written

All have the same number of partitions. Tasks of one stage should take equally long, and under skew do not: the ratio is
the sum over stages of the longest task to that of the median one, as Spark's REST interface gives them. Answers are
compared before a number counts: shredded parts are nested by DuckDB.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.data.tpch.data import generated
from tests.data.tpch.nested import COLUMNS, NESTED, QUERIES, SCHEMAS, projected, tables_of

import headwater as hw
from benchmarks import derived
from benchmarks.derived import table_of
from benchmarks.nested_plans import SPARK, plan, unlike
from benchmarks.report import ROOT, Progress, Report, number, timed
from benchmarks.views import folder
from headwater.engine.view_rows import repeated
from headwater.errors import HeadwaterError

PERCENT = (0, 5, 10, 20)
"""How many of a hundred foreign keys are skewed."""
FEW = "10 rows"
SETTINGS = (*(f"{p} %" for p in PERCENT), FEW)
EXPONENT = 2.0
PARTITIONS = 16
DEFINED = ("q1", "q3")
DEFINED_AT = (SETTINGS[0], SETTINGS[3], FEW)
"""The queries that are also defined as views, and where."""
SCALE = {"small": 0.01, "ordinary": 0.1, "full": 1.0}
RUNS = {"small": 1, "ordinary": 3, "full": 1}
STEPS = len(SETTINGS) * len(QUERIES) + len(DEFINED_AT) * len(DEFINED)

Tables = dict[str, pa.Table]
KEYS = {
    "customer": ("custkey", ["orders"]),
    "part": ("partkey", ["lineitem"]),
    "supplier": ("suppkey", ["lineitem"]),
}
"""The tables at the top of Q1, Q3 and Q2: their key, and what refers to it."""


# --- data ------------------------------------------------------------------------------------------------------------


def skewed(tables: Tables, percent: float, rng: np.random.Generator) -> Tables:
    """The tables with a share of the foreign keys drawn from a Zipf distribution over all keys."""
    out = dict(tables)
    for top, (key, readers) in KEYS.items():
        keys = rng.permutation(np.asarray(tables[top].column(key)))
        for name in readers:
            old = np.asarray(out[name].column(key))
            ranks = (rng.zipf(EXPONENT, len(old)) - 1) % len(keys)
            some = rng.random(len(old)) < percent / 100
            out[name] = with_column(out[name], key, np.where(some, keys[ranks], old))
    return out


def few(tables: Tables, rows: int = 10) -> Tables:
    """The tables with so many customers, parts and suppliers, who have all orders and lines."""
    out = dict(tables)
    for top, (key, readers) in KEYS.items():
        out[top] = tables[top].slice(0, rows)
        keys = np.asarray(out[top].column(key))
        for name in readers:
            old = np.asarray(out[name].column(key))
            out[name] = with_column(out[name], key, keys[old % rows])
    parts, suppliers = (np.asarray(out[n].column(KEYS[n][0])) for n in ("part", "supplier"))
    supplied = tables["partsupp"]
    supplied = supplied.filter(pa.array(np.isin(np.asarray(supplied.column("partkey")), parts)))
    of = np.asarray(supplied.column("suppkey"))
    out["partsupp"] = with_column(supplied, "suppkey", suppliers[of % rows])
    return out


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values))


# --- shredded plans ----------------------------------------------------------------------------------------------

Plans = dict[str, str]
"""The flat parts of a query by path, each as SQL."""

SOLD = """lineitem l JOIN orders o ON o.orderkey = l.orderkey
          JOIN customer c ON c.custkey = o.custkey"""
RELATIONS: Plans = {
    "q1": "SELECT custkey, name FROM customer",
    "q1.orders": "SELECT custkey, orderkey, orderdate AS date FROM orders",
    "q1.orders.parts": """SELECT o.custkey, l.orderkey, p.name, l.quantity
        FROM lineitem l JOIN part p ON p.partkey = l.partkey JOIN orders o ON o.orderkey = l.orderkey""",
    "q2": "SELECT suppkey, name FROM supplier",
    "q2.customers": f"SELECT l.suppkey, c.name AS value FROM {SOLD}",
    "q3": "SELECT partkey, name FROM part",
    "q3.suppliers": """SELECT ps.partkey, s.name, s.nationkey
        FROM partsupp ps JOIN supplier s ON s.suppkey = ps.suppkey""",
    "q3.customers": f"SELECT l.partkey, c.name, c.nationkey FROM {SOLD}",
}
"""What Q4 to Q7 read, as the relations that a nested source is kept in."""


def shredded_plans() -> dict[str, Plans]:
    """The parts that Headwater derives for each query; Q4 to Q7 are over nested sources."""
    out = {}
    for name, q in QUERIES.items():
        with folder() as home, hw.open(home / "db") as db:
            for n in q.inputs:
                ddl, key = NESTED[n] if n in NESTED else (SCHEMAS[n], None)
                db.source(n, ddl, key=key)
            db.view(name, q)
            out[name] = derived.parts(db.program, name)
    return out


def nested_again(con: duckdb.DuckDBPyConnection, name: str, parts: Plans, folder: Path) -> str:
    """The parts in a folder nested, as a query of DuckDB."""

    def rows(path: str) -> str:
        prefix = f"{path}." if path else ""
        inner = [p for p in parts if p and p.rpartition(".")[0] == path]
        bags = [p.rpartition(".")[2] for p in inner]
        text = f"FROM read_parquet('{folder}/{part_of(name, path)}/*.parquet') t"
        for bag in bags:
            element = elements(f"{prefix}{bag}")
            text += f""" LEFT JOIN (SELECT _label, list({element}) AS bag
                FROM ({rows(f"{prefix}{bag}")}) GROUP BY _label) {bag}_ ON {bag}_._label = t.{bag}"""
        replaced = ", ".join(f"coalesce({bag}_.bag, []) AS {bag}" for bag in bags)
        return f"SELECT t.* {f'REPLACE ({replaced})' if bags else ''} {text}"

    def elements(path: str) -> str:
        at = f"{folder}/{part_of(name, path)}/*.parquet"
        names = [n for n in con.read_parquet(at).columns if n != "_label"]
        return "value" if names == ["value"] else f"{{{', '.join(f'{n}: {n}' for n in names)}}}"

    return rows("")


def part_of(name: str, path: str) -> str:
    """What a part is called as a table."""
    return table_of(f"{name}.{path}") if path else name


# --- tasks -----------------------------------------------------------------------------------------------------------


def session() -> SparkSession:
    """A local session with more partitions than cores, as many for all, that tells of its tasks."""
    made: SparkSession = (
        SparkSession.builder.master("local[*]")
        .appName("headwater benchmark")
        .config("spark.ui.enabled", "true")
        .config("spark.ui.port", "0")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    return made


class Tasks:
    """How long the tasks of stages took, from Spark's REST interface."""

    def __init__(self, spark: SparkSession):
        context = spark.sparkContext
        port = str(context.uiWebUrl).rpartition(":")[2]
        self.at = f"http://localhost:{port}/api/v1/applications/{context.applicationId}/stages"
        self.seen: set[tuple[int, int]] = set()

    def ask(self, path: str) -> Any:
        with urlopen(f"{self.at}{path}", timeout=30) as answer:
            return json.load(answer)

    def new(self) -> list[dict[str, Any]]:
        """The stages that ended since the last time; what Spark tells is a little behind what it did."""
        while self.ask("?status=active"):
            time.sleep(0.05)
        found = [
            s
            for s in self.ask("?status=complete")
            if (s["stageId"], s["attemptId"]) not in self.seen
        ]
        self.seen |= {(s["stageId"], s["attemptId"]) for s in found}
        return found

    def ratio(self) -> float | None:
        """The longest task to the median one, of the new stages with more than two tasks, if there are any."""
        longest = median = 0.0
        for stage in self.new():
            if stage["numCompleteTasks"] > 2:
                at = f"/{stage['stageId']}/{stage['attemptId']}/taskSummary?quantiles=0.5,1.0"
                middle, last = self.ask(at)["executorRunTime"]
                median, longest = median + middle, longest + last
        return longest / median if median else None


# --- running ---------------------------------------------------------------------------------------------------------


@dataclass
class Way:
    """What one way to an answer took."""

    seconds: float
    ratio: float | None


Found = dict[tuple[str, str], dict[str, Way]]
"""By setting and query, the ways."""


def run(report: Report) -> None:
    """All settings, queries and ways."""
    progress = Progress(STEPS)
    spark = session()
    tasks = Tasks(spark)
    tables = generated(SCALE[report.scale], ROOT / "build" / "tpch", COLUMNS)
    plain = {n: projected(n, t) for n, t in tables.items()}
    plans = shredded_plans()
    found: Found = {}
    failed: dict[tuple[str, str], str] = {}
    for setting in SETTINGS:
        rng = np.random.default_rng(11)
        percent = 0 if setting == FEW else float(setting.split()[0])
        given = few(plain) if setting == FEW else skewed(plain, percent, rng)
        with folder() as home:
            evaluate(spark, tasks, plans, given, home, setting, found, progress, RUNS[report.scale])
            if setting in DEFINED_AT:
                define(spark, tasks, given, home, setting, found, failed, progress)
    spark.stop()
    progress.end()
    for (setting, name), ways in found.items():
        for how, way in ways.items():
            facts = {"query": name, "setting": setting, "how": how}
            report.sample("evaluation", way.seconds, "s", **facts)
            if way.ratio is not None:
                report.sample("longest task to median task", way.ratio, "", **facts)
    tell(report, found, failed)


@contextmanager
def readable(spark: SparkSession, files: Mapping[str, Path]) -> Iterator[None]:
    """Parquet files as tables of Spark."""
    for name, at in files.items():
        spark.read.parquet(str(at)).createOrReplaceTempView(name)
    yield
    for name in files:
        spark.catalog.dropTempView(name)


def evaluate(
    spark: SparkSession,
    tasks: Tasks,
    plans: Mapping[str, Plans],
    given: Tables,
    home: Path,
    setting: str,
    found: Found,
    progress: Progress,
    runs: int,
) -> None:
    """Spark's nested plan and the flat parts, each query after those that it reads."""
    flat = {n: home / f"{n}.parquet" for n in SCHEMAS}
    for n, at in flat.items():
        pq.write_table(given[n], at)
    nested, shredded = home / "nested", home / "shredded"
    relations = {table_of(n): home / "relations" / n for n in RELATIONS}
    with readable(spark, flat):
        for n, text in RELATIONS.items():
            spark.sql(text).write.mode("overwrite").parquet(str(relations[table_of(n)]))
    for name, q in QUERIES.items():
        progress.step(f"{name} on Spark, {setting}", 0)
        before = [n for n in q.inputs if n in QUERIES]
        with readable(spark, {**flat, **{n: nested / n for n in before}}):
            one = measured(spark, tasks, {nested / name: plan(name, SPARK)}, runs)
        with readable(spark, {**flat, **(relations if before else {})}):
            texts = {shredded / part_of(name, p): text for p, text in plans[name].items()}
            other = measured(spark, tasks, texts, runs)
        again = home / "again.parquet"
        with duckdb.connect() as con:
            con.sql(nested_again(con, name, plans[name], shredded)).write_parquet(str(again))
        problem = unlike(again, nested / name / "*.parquet")
        if problem:
            raise AssertionError(f"{name}, {setting}: shredded and nested differ: {problem}")
        found[setting, name] = {"nested": one, "shredded": other}
        progress.step("")


def measured(spark: SparkSession, tasks: Tasks, texts: Mapping[Path, str], runs: int) -> Way:
    """What some plans take together, after each wrote its answer once."""
    for at, text in texts.items():
        spark.sql(text).write.mode("overwrite").parquet(str(at))
    tasks.new()

    def again() -> None:
        for text in texts.values():
            spark.sql(text).write.format("noop").mode("overwrite").save()

    seconds, ratios = [], []
    for _ in range(runs):
        seconds.append(timed(again)[0])
        ratios.append(tasks.ratio())
    found = [r for r in ratios if r is not None]
    return Way(statistics.median(seconds), statistics.median(found) if found else None)


def define(
    spark: SparkSession,
    tasks: Tasks,
    given: Tables,
    home: Path,
    setting: str,
    found: Found,
    failed: dict[tuple[str, str], str],
    progress: Progress,
) -> None:
    """Views over sources that are there, defined on Spark."""
    with hw.open(home / "db", spark=spark, partitions=PARTITIONS) as db:
        used = {n for name in DEFINED for n in tables_of(name)}
        for n in used:
            db.source(n, SCHEMAS[n])
        db.apply({n: given[n] for n in used})
        db.policy.execution = "spark"
        tasks.new()
        for name in DEFINED:
            progress.step(f"{name} as a view, {setting}", 0)
            try:
                seconds, _ = timed(partial(db.view, name, QUERIES[name]))
                way = Way(seconds, tasks.ratio())
                at = home / "view.parquet"
                pq.write_table(repeated(db.table(name)), at)
                problem = unlike(at, home / "nested" / name / "*.parquet")
                if problem:
                    raise AssertionError(f"{name}, {setting}: the view differs: {problem}")
                found[setting, name]["view"] = way
            except HeadwaterError as e:
                failed[setting, name] = str(e).splitlines()[0]
            progress.step("")


# --- telling ---------------------------------------------------------------------------------------------------------


def tell(report: Report, found: Found, failed: Mapping[tuple[str, str], str]) -> None:
    """Tables, targets and a plot."""
    report.say(
        f"Scale factor {SCALE[report.scale]:g}. Seconds to evaluate a query on Spark with {PARTITIONS} partitions: Spark's own "
        "nested plan, the flat parts of the shredded query, and the definition of a view, which writes its state too. In "
        "brackets the longest task to the median one, of stages with more than two tasks. A share of the foreign keys is drawn from a Zipf distribution with "
        f"exponent {EXPONENT:g}; or there are ten rows at the top."
    )
    ways = ("nested", "shredded", "view")

    def cell(setting: str, name: str, how: str) -> str:
        way = found[setting, name].get(how)
        if way is None:
            return failed.get((setting, name), "")
        ratio = "-" if way.ratio is None else number(way.ratio)
        return f"{way.seconds:.2f} s ({ratio})"

    for name in QUERIES:
        shown = [w for w in ways if any(w in found[s, name] for s in SETTINGS) or name in DEFINED]
        report.table(
            [name, *SETTINGS],
            [[how, *(cell(s, name, how) for s in SETTINGS)] for how in shown],
        )
    with report.plot("skew", columns=2, rows=2) as axes:
        for axis, setting in zip(axes[:3], (SETTINGS[0], SETTINGS[3], FEW), strict=True):
            values = [
                found[setting, n]["shredded"].seconds / found[setting, n]["nested"].seconds
                for n in QUERIES
            ]
            axis.bar(list(QUERIES), values, color="#2a7")
            axis.axhline(1, color="#999")
            axis.set(title=f"shredded to nested, {setting}", ylabel="ratio of seconds")
        for i, how in enumerate(ways[:2]):
            places = [j + 0.4 * i for j in range(len(QUERIES))]
            ratios = [found[SETTINGS[3], n][how].ratio or 0 for n in QUERIES]
            axes[3].bar(places, ratios, width=0.38, label=how, color=f"C{i}")
        axes[3].set_xticks([j + 0.2 for j in range(len(QUERIES))], list(QUERIES))
        axes[3].set(title=f"longest task to median task, {SETTINGS[3]}", ylabel="ratio")
        axes[3].legend(fontsize=8)
