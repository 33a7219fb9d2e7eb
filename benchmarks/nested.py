"""Nested: Q1 to Q7 of seed 001 on TPC-H data, each increment beside recomputing on Spark and DuckDB.

An increment inserts a thousand orders with their lines and deletes five hundred with theirs. Every query is kept in a
database of its own, with the tables and views that it reads, in a process of its own: as it is kept by itself, with
the other strategy, and Q4 to Q7 also over nested sources, which are given deep changes. After the last increment
every answer is compared with Spark's and DuckDB's on the same data, as bags to any depth; only then do its times count.
Spark recomputes from Parquet files and gives the answer to nobody; DuckDB from its own tables in memory into one.
Evaluation of a whole view, shredded and not, with skew, is in `nested_batch.py`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.data.tpch.data import Change, Stream, generated
from tests.data.tpch.nested import (
    COLUMNS,
    FROM_NESTED,
    NESTED,
    QUERIES,
    SCHEMAS,
    STATIC,
    deltas,
    projected,
    tables_of,
    views_of,
)

import headwater as hw
from benchmarks.apart import Failed, apart
from benchmarks.nested_plans import (
    DEEP,
    DUCK,
    SPARK,
    connected,
    from_tables,
    inner_rows,
    nested_table,
    plan,
    unlike,
)
from benchmarks.phases import PHASES, watching
from benchmarks.report import ROOT, Progress, Report, number, plain, timed
from benchmarks.views import folder, memory, session
from headwater.engine.here import statements as engine_rows
from headwater.engine.view_rows import repeated

SCALE = {"small": 0.01, "ordinary": 0.1, "full": 1.0}
ORDERS = {"small": 100, "ordinary": 1000, "full": 1000}
"""How many orders an increment inserts; it deletes half as many."""
INCREMENTS = 8
WARM = 2
"""The first increments, in which modules and statements are first used, are made and not counted."""
RECOMPUTED = 2
FASTER = 10
"""How many times faster than recomputing on Spark each query is asked to be, at full scale."""
PEER = 0.3
"""Seconds that Pathway took for an increment of Q1 at full scale, at best, on the machine that the targets are from."""
SECONDS = {"small": 120, "ordinary": 200, "full": 900}
"""What one database may take in all."""
OTHERS = ("recursive", "first-order")


@dataclass
class Kept:
    """What a database of one query measured, or why it could not."""

    failed: str = ""
    strategy: str = ""
    define: float = 0.0
    load: float = 0.0
    maps: int = 0
    seconds: list[float] = field(default_factory=list)
    phases: list[dict[str, float]] = field(default_factory=list)
    processed: list[int] = field(default_factory=list)
    statements: int = 0
    given: int = 0
    changed: int = 0
    bytes: int = 0
    peak: int = 0
    reading: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def rows(self) -> float:
        return statistics.median(self.processed)

    def phase(self, name: str) -> float:
        return statistics.median(p[name] for p in self.phases)


def stream(scale: str) -> Stream:
    """The same changes in every process."""
    tables = generated(SCALE[scale], ROOT / "build" / "tpch", COLUMNS)
    orders = ORDERS[scale]
    held, deleted = {"orders": orders * INCREMENTS}, {"orders": orders // 2}
    return Stream(tables, INCREMENTS, held, deleted, again=False)


# --- what is put into a database -------------------------------------------------------------------------------------


class Tables:
    """A query over tables, with the views that it reads."""

    def __init__(self, name: str, changes: Stream):
        self.changes, self.views = changes, views_of(name)
        self.tables = tables_of(name)

    def declare(self, db: hw.Database) -> None:
        for name in self.tables:
            db.source(name, SCHEMAS[name], static=name in STATIC)
        db.apply({n: projected(n, self.changes.full[n]) for n in self.tables if n in STATIC})

    def load(self) -> dict[str, Any]:
        there = self.changes.load
        return {n: projected(n, there[n]) for n in self.tables if n not in STATIC}

    def increment(self, change: Change) -> dict[str, Any]:
        return deltas(change, self.tables)


class Nested(Tables):
    """A query over nested sources in the place of the views that it reads."""

    def __init__(self, name: str, changes: Stream):
        super().__init__(name, changes)
        self.nested = [n for n in QUERIES[name].inputs if n in NESTED]
        self.views, self.tables = [name], [n for n in QUERIES[name].inputs if n in SCHEMAS]

    def declare(self, db: hw.Database) -> None:
        super().declare(db)
        for name in self.nested:
            ddl, key = NESTED[name]
            db.source(name, ddl, key=key)

    def load(self) -> dict[str, Any]:
        there = {n: projected(n, t) for n, t in self.changes.tables.items()}
        return {**super().load(), **{n: nested_table(n, there) for n in self.nested}}

    def increment(self, change: Change) -> dict[str, Any]:
        """What orders with their lines are inside of the nested rows."""
        out = super().increment(change)
        around = {n: projected(n, t) for n, t in self.changes.full.items() if n not in change}
        sides = [
            {n: projected(n, both[side]) for n, both in change.items()} | around for side in (0, 1)
        ]
        for name in self.nested:
            came, went = (inner_rows(name, tables) for tables in sides)
            out[DEEP[name][0]] = hw.Delta(inserts=came, deletes=went)
        return out


def keep(name: str, nested: bool, strategy: str, scale: str, home: Path, answer: Path) -> Kept:
    """Declares, loads, makes the increments, and writes the answer after the last."""
    made = Kept()
    changes = stream(scale)
    what = Nested(name, changes) if nested else Tables(name, changes)
    with hw.open(home, spark=session() if scale == "full" else None) as db:
        what.declare(db)
        for view in what.views:
            seconds, _ = timed(partial(db.view, view, QUERIES[view], strategy=strategy))
            made.define += seconds
        made.strategy = " and ".join(
            dict.fromkeys(db.catalog.views[v].kept or strategy for v in what.views)
        )
        made.maps = len(db.program.maps) - len(db.sources)
        load = what.load()
        made.load, _ = timed(lambda: db.apply(load))
        for turn, change in enumerate(changes.changes()):
            given = what.increment(change)
            if (
                turn == INCREMENTS - 1
            ):  # what is counted costs time, and the last increment has none
                with counting() as rows:
                    commit = db.apply(given)
                made.processed.append(rows[0])
                continue
            with memory() as used, watching() as clock:
                seconds, commit = timed(partial(db.apply, given))
            if turn >= WARM:
                made.seconds.append(seconds)
                made.phases.append(clock.phases(seconds))
                made.statements = clock.statements
                made.given, made.bytes = sum(commit.rows.values()), commit.bytes
                made.peak = max(made.peak, used[0])
        made.changed = db.changes_table(name, commit.version - 1, commit.version).num_rows
        db.table(name)  # the first time, Spark may have to be started
        made.reading, table = timed(partial(db.table, name))
        pq.write_table(repeated(table), answer)
    return made


COUNTED = ("start", "look_up", "expanded")
"""Steps of a statement that take rows from somewhere: a change, a map, an array."""


@contextmanager
def counting() -> Iterator[list[int]]:
    """The rows that statements process here: those of the changes that drive them, and all that look-ups find."""
    total = [0]
    before = {n: getattr(engine_rows, n) for n in COUNTED}

    def counted(f: Any, *given: Any, **named: Any) -> Any:
        made = f(*given, **named)
        total[0] += made.num_rows
        return made

    for n, f in before.items():
        setattr(engine_rows, n, partial(counted, f))
    try:
        yield total
    finally:
        for n, f in before.items():
            setattr(engine_rows, n, f)


def kept_apart(name: str, nested: bool, strategy: str, scale: str, answer: Path) -> Kept:
    """The same in a process of its own, which may run out of memory or time."""
    with folder() as home:
        try:
            where = home / "db"
            return apart(SECONDS[scale], keep, name, nested, strategy, scale, where, answer)
        except Failed as e:
            return Kept(failed=str(e))


# --- running ---------------------------------------------------------------------------------------------------------

Who = tuple[str, str]
"""A query, and how: `auto`, a strategy, or `nested` for nested sources."""


@dataclass
class Recomputed:
    """Seconds of recomputing, by engine, and the rows that are read."""

    seconds: dict[str, float]
    rows: int


def run(report: Report) -> None:
    """Increments of all queries, the same with the other strategy and over nested sources, and the others."""
    progress = Progress(2 * len(QUERIES) + 2 * len(FROM_NESTED) + len(QUERIES))
    with folder() as home:
        kept = increments(report.scale, home, progress)
        others, wrong = recompute(report, home, kept, progress)
    for (name, how), measured in kept.items():
        if (name, how) not in wrong:
            for seconds, phases in zip(measured.seconds, measured.phases, strict=True):
                report.sample("increment", seconds, "s", query=name, how=how, **phases)
    tell(report, kept, others, wrong)
    progress.end()
    if wrong:
        report.write()
        raise AssertionError("; ".join(f"{n} {how}: {why}" for (n, how), why in wrong.items()))


def increments(scale: str, home: Path, progress: Progress) -> dict[Who, Kept]:
    """Every query as it is kept by itself, with the other strategy, and over nested sources."""
    kept: dict[Who, Kept] = {}
    for name in QUERIES:
        progress.step(f"{name}", 0)
        made = kept_apart(name, False, "auto", scale, home / f"{name}-auto.parquet")
        kept[name, "auto"] = made
        progress.step(f"{name} with the other strategy")
        for how in OTHERS:
            if how == made.strategy:
                kept[name, how] = made
            else:
                at = home / f"{name}-{how}.parquet"
                kept[name, how] = kept_apart(name, False, how, scale, at)
        progress.step("")
    for name in FROM_NESTED:
        progress.step(f"{name} over nested sources", 0)
        at = home / f"{name}-nested.parquet"
        kept[name, "nested"] = kept_apart(name, True, "auto", scale, at)
        progress.step("")
    return kept


def recompute(
    report: Report, home: Path, kept: Mapping[Who, Kept], progress: Progress
) -> tuple[dict[Who, Recomputed], dict[Who, str]]:
    """What Spark and DuckDB take, and which answers are not theirs."""
    changes = stream(report.scale)
    for _ in changes.changes():
        pass
    flat = {n: projected(n, t) for n, t in changes.tables.items()}
    spark = session()
    made: dict[Who, Recomputed] = {}
    wrong: dict[Who, str] = {}
    for how, names in (("auto", tuple(QUERIES)), ("nested", FROM_NESTED)):
        tables = dict(flat)
        if how == "nested":
            tables |= {n: nested_table(n, flat) for n in NESTED}
        for n, table in tables.items():
            at = home / f"{n}.parquet"
            pq.write_table(table, at)
            spark.read.parquet(str(at)).createOrReplaceTempView(n)
        for name in names:
            progress.step(f"{name} on Spark and DuckDB", 0)
            text = from_tables if how == "auto" else plan
            seconds = {
                "Spark": by_spark(spark, text(name, SPARK), home / f"{name}-spark"),
                "DuckDB": by_duckdb(tables, text(name, DUCK), home / f"{name}-duckdb.parquet"),
            }
            for who, values in seconds.items():
                for value in values:
                    report.sample(who, value, "s", query=name, how=how)
            ways = [how] if how == "nested" else ["auto", *OTHERS]
            expected = home / f"{name}-duckdb.parquet"
            problem = unlike(home / f"{name}-spark" / "*.parquet", expected)
            for way in ways:
                if kept[name, way].seconds:
                    mine = home / f"{name}-{way}.parquet"
                    mine = mine if mine.exists() else home / f"{name}-auto.parquet"
                    found = problem or unlike(mine, expected)
                    if found:
                        wrong[name, way] = f"the answer differs from DuckDB's: {found}"
            read = tables_of(name) if how == "auto" else QUERIES[name].inputs
            medians = {who: statistics.median(values) for who, values in seconds.items()}
            made[name, how] = Recomputed(medians, sum(tables[n].num_rows for n in read))
            progress.step("")
        for n in tables:
            spark.catalog.dropTempView(n)
    spark.stop()
    return made, wrong


def by_spark(spark: SparkSession, text: str, answer: Path) -> list[float]:
    """Seconds of some runs, after one that writes the answer."""
    spark.sql(text).write.mode("overwrite").parquet(str(answer))

    def again() -> None:
        spark.sql(text).write.format("noop").mode("overwrite").save()

    return [timed(again)[0] for _ in range(RECOMPUTED)]


def by_duckdb(tables: Mapping[str, pa.Table], text: str, answer: Path) -> list[float]:
    """The same."""
    with connected(tables) as con:
        con.sql(text).write_parquet(str(answer))

        def again() -> None:
            con.execute(f"CREATE OR REPLACE TABLE answer AS {text}")

        return [timed(again)[0] for _ in range(RECOMPUTED)]


# --- telling ---------------------------------------------------------------------------------------------------------


def tell(
    report: Report,
    kept: Mapping[Who, Kept],
    others: Mapping[Who, Recomputed],
    wrong: Mapping[Who, str],
) -> None:
    """Tables, targets and plots."""
    good = {who: k for who, k in kept.items() if k.seconds and who not in wrong}
    if report.scale != "small":
        for name in QUERIES:
            if (name, "auto") in good:
                report.at_least(
                    f"{name}: times faster than Spark recomputing",
                    others[name, "auto"].seconds["Spark"] / good[name, "auto"].median,
                    FASTER,
                )
            else:
                report.at_least(f"{name}: times faster than Spark recomputing", 0, FASTER)
    if report.scale == "full" and ("q1", "auto") in good:
        ours = good["q1", "auto"].median
        duck = others["q1", "auto"].seconds["DuckDB"]
        report.at_least("q1: times faster than DuckDB recomputing in memory", duck / ours, 1)
        report.at_most("q1: seconds of an increment", ours, PEER)
    orders = ORDERS[report.scale]
    report.say(
        f"Scale factor {SCALE[report.scale]:g}; an increment inserts {orders:,} orders with their lines and deletes "
        f"{orders // 2:,} with theirs. Median of {INCREMENTS - WARM - 1} increments; `read` is the time to nest and read "
        f"the whole answer after it, which is not in it; `changed` the inner rows that an increment gives out. Spark "
        f"recomputes from Parquet, DuckDB from tables in memory: medians of {RECOMPUTED}."
        + ("" if report.scale == "full" else f" {FASTER} times faster is asked at full scale.")
    )
    header = ["query", "increment", "worst", "Spark", "DuckDB", "times faster", "than DuckDB"]
    header += ["read", "load", "maps", "written", "memory", "changed"]
    rows = [
        row(name, how, k, others[name, how], wrong)
        for (name, how), k in kept.items()
        if how in ("auto", "nested")
    ]
    report.table(header, [r + [""] * (len(header) - len(r)) for r in rows])
    tell_strategies(report, kept, others, wrong)
    report.say("## Where the time goes\n\nMilliseconds of an increment, medians.")
    shown = {who: k for who, k in good.items() if who[1] in ("auto", "nested")}
    report.table(
        ["query", *PHASES, "statements", "rows given"],
        [
            [
                called(*who),
                *(number(1000 * k.phase(p)) for p in PHASES),
                *(f"{x:,}" for x in (k.statements, k.given)),
            ]
            for who, k in shown.items()
        ],
    )
    if shown:
        plot(report, good, others)


def called(name: str, how: str) -> str:
    return name if how == "auto" else f"{name}, {how}"


def row(name: str, how: str, kept: Kept, others: Recomputed, wrong: Mapping[Who, str]) -> list[str]:
    """A query's line, with its times or with why it has none."""
    spark, duck = others.seconds["Spark"], others.seconds["DuckDB"]
    why = wrong.get((name, how)) or kept.failed
    if why:
        return [called(name, how), why.replace("|", "\\|"), "", f"{spark:.2f} s", f"{duck:.2f} s"]
    return [
        called(name, how),
        *(f"{1000 * x:.0f} ms" for x in (kept.median, max(kept.seconds))),
        *(f"{x:.2f} s" for x in (spark, duck)),
        *(number(x / kept.median) for x in (spark, duck)),
        *(f"{x:.1f} s" for x in (kept.reading, kept.load)),
        str(kept.maps),
        f"{kept.bytes / 1e6:.2f} MB",
        f"{kept.peak / 1e6:.0f} MB",
        f"{kept.changed:,}",
    ]


def tell_strategies(
    report: Report,
    kept: Mapping[Who, Kept],
    others: Mapping[Who, Recomputed],
    wrong: Mapping[Who, str],
) -> None:
    """The rows that each strategy processes for one increment."""
    report.say(
        "## Strategies\n\nRows that an increment processes: all that are read, to recompute; those of the change and "
        "those that look-ups find, of either strategy. `auto` is what is kept if nothing is asked for."
    )
    rows = []
    for name in QUERIES:
        ways = [kept[name, how] for how in OTHERS]
        bad = [how for how in OTHERS if (name, how) in wrong or not kept[name, how].seconds]
        cells = [
            "-" if how in bad else f"{1000 * k.median:.0f} ms"
            for how, k in zip(OTHERS, ways, strict=True)
        ]
        counts = [
            "-" if how in bad else f"{k.rows:,.0f}" for how, k in zip(OTHERS, ways, strict=True)
        ]
        faster = "-" if bad else number(ways[1].median / ways[0].median)
        if not bad:
            for how, k in zip(OTHERS, ways, strict=True):
                report.sample("rows processed", k.rows, "rows", query=name, how=how)
        read = others[name, "auto"].rows
        report.sample("rows processed", read, "rows", query=name, how="recompute")
        rows.append(
            [name, f"{read:,}", *counts, *cells, faster, kept[name, "auto"].strategy or "-"]
        )
    header = ["query", "recompute", *OTHERS, "recursive", "first-order", "speed-up", "auto"]
    report.table(header, rows)


def plot(report: Report, good: Mapping[Who, Kept], others: Mapping[Who, Recomputed]) -> None:
    shown = [who for who in good if who[1] in ("auto", "nested")]
    with report.plot("times", rows=2) as (axis, below):
        places = range(len(shown))
        for engine, colour in (("Spark", "#999"), ("DuckDB", "#d92")):
            values = [1000 * others[who].seconds[engine] for who in shown]
            axis.plot(places, values, "o", color=colour, label=f"recomputing on {engine}")
        ours = [1000 * good[who].median for who in shown]
        axis.plot(places, ours, "o", color="#2a7", label="increment")
        axis.set(yscale="log", ylabel="milliseconds", title="each query in a database of its own")
        axis.yaxis.set_major_formatter(plain)
        axis.legend(fontsize=8)
        bottom = [0.0] * len(shown)
        for i, phase in enumerate(PHASES):
            parts = [1000 * good[who].phase(phase) for who in shown]
            below.bar(places, parts, bottom=bottom, label=phase, color=f"C{i}")
            bottom = [b + p for b, p in zip(bottom, parts, strict=True)]
        below.set(ylabel="milliseconds", title="where the time of an increment goes")
        below.legend(fontsize=7, ncols=2)
        for each in (axis, below):
            each.set_xticks(places, [called(*who) for who in shown], rotation=90, fontsize=8)
    both = [n for n in QUERIES if all((n, how) in good for how in OTHERS)]
    with report.plot("strategies", columns=2) as (axis, beside):
        for i, how in enumerate(("recompute", *OTHERS)):
            shifted = [j + 0.27 * (i - 1) for j in range(len(both))]
            if how == "recompute":
                counts: list[float] = [others[n, "auto"].rows for n in both]
                seconds = [others[n, "auto"].seconds["Spark"] for n in both]
            else:
                counts = [good[n, how].rows for n in both]
                seconds = [good[n, how].median for n in both]
            axis.bar(shifted, counts, width=0.25, label=how, color=f"C{i}")
            beside.bar(shifted, seconds, width=0.25, label=how, color=f"C{i}")
        axis.set(yscale="log", ylabel="rows", title="rows processed for one increment")
        beside.set(yscale="log", ylabel="seconds", title="time of one increment")
        for each in (axis, beside):
            each.set_xticks(range(len(both)), both, fontsize=8)
            each.legend(fontsize=8)
