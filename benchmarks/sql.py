"""SQL: TPC-H's 22 queries as views, each increment beside recomputing the query on Spark.

An increment inserts and deletes a thousandth of the orders, with their lines, and of partsupp. Every query is kept
alone in a database of its own, with the tables that it reads, and then all of them together in one; each database in a
process of its own, so that one that runs out of memory or time ends alone. After the last increment every answer is
compared with Spark's on the same tables, which are Parquet files; only then do its times count. A query that is refused
has no time, and the table says so.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from pyspark.sql import SparkSession
from sqlglot import exp
from tests.data.tpch.data import QUERIES, SCHEMAS, STATIC, Stream, generated, query, thousandths

import headwater as hw
from benchmarks.apart import Failed, apart
from benchmarks.phases import PHASES, watching
from benchmarks.report import ROOT, Progress, Report, number, plain, timed
from benchmarks.views import folder, session
from headwater.engine.verify.compare import differences
from headwater.errors import HeadwaterError

SCALE = {"small": 0.01, "ordinary": 0.1, "full": 1.0}
INCREMENTS = 7
WARM = 2
"""The first increments, in which modules and statements are first used, are made and not counted."""
RECOMPUTED = 3
FASTER, MOST = 5, 18
"""How many times faster than recomputing it is asked to be, and for how many queries."""
SECONDS = {"small": 60, "ordinary": 150, "full": 3600}
"""What one query's database may take in all; that of all queries four times as long."""
TOGETHER = "together"


@dataclass
class Kept:
    """What a database of some queries measured, or why it could not."""

    refused: dict[str, str] = field(default_factory=dict)
    failed: str = ""
    define: float = 0.0
    load: float = 0.0
    maps: int = 0
    seconds: list[float] = field(default_factory=list)
    phases: list[dict[str, float]] = field(default_factory=list)
    statements: int = 0
    rows: int = 0
    given: int = 0
    bytes: int = 0
    reading: dict[str, float] = field(default_factory=dict)
    answers: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def phase(self, name: str) -> float:
        return statistics.median(p[name] for p in self.phases)


def stream(scale: float) -> Stream:
    """The same changes in every process."""
    return thousandths(generated(scale, ROOT / "build" / "tpch"), INCREMENTS)


# --- a database in a process of its own --------------------------------------------------------------------------


def keep(names: Sequence[str], scale: float, home: Path) -> Kept:
    """Declares, loads, and makes the increments."""
    made = Kept()
    changes = stream(scale)
    texts = {n: query(n, scale) for n in names}
    used = {t.name for text in texts.values() for t in tables_of(text)} & set(SCHEMAS)
    spark = session() if scale >= 1 else None
    with hw.open(home, spark=spark) as db:
        for name in used:
            db.source(name, SCHEMAS[name], static=name in STATIC)
        db.apply({n: changes.full[n] for n in used if n in STATIC})
        for name, text in texts.items():
            try:
                seconds, _ = timed(partial(db.view, name, text))
                made.define += seconds
            except HeadwaterError as e:
                made.refused[name] = str(e).splitlines()[0]
        if not db.views:
            return made
        made.maps = len(db.program.maps) - len(used)
        load = {n: t for n, t in changes.load.items() if n in used}
        made.load, _ = timed(lambda: db.apply(load))
        for turn, change in enumerate(changes.changes()):
            given = {n: hw.Delta(inserts=i, deletes=d) for n, (i, d) in change.items() if n in used}
            with watching() as clock:
                seconds, commit = timed(partial(db.apply, given))
            if turn >= WARM:
                made.seconds.append(seconds)
                made.phases.append(clock.phases(seconds))
                made.statements, made.rows = clock.statements, clock.rows
                made.given, made.bytes = sum(commit.rows.values()), commit.bytes
        for name in db.views:
            made.answers[name] = db.table(name)  # the first time, Spark may have to be started
            made.reading[name], _ = timed(partial(db.table, name))
    return made


def tables_of(text: str) -> list[exp.Table]:
    return list(sqlglot.parse_one(text, read="spark").find_all(exp.Table))


def kept_apart(names: Sequence[str], scale: float, seconds: float) -> Kept:
    """The same in a process of its own."""
    with folder() as home:
        try:
            return apart(seconds, keep, names, scale, home / "db")
        except Failed as e:
            return Kept(failed=str(e))


# --- running -----------------------------------------------------------------------------------------------------


def run(report: Report) -> None:
    """Each query alone, all together, and Spark."""
    scale, limit = SCALE[report.scale], SECONDS[report.scale]
    progress = Progress(2 * len(QUERIES) + 4)
    alone: dict[str, Kept] = {}
    for name in QUERIES:
        progress.step(f"{name} alone", 0)
        alone[name] = kept_apart([name], scale, limit)
        progress.step("")
    progress.step("all together", 0)
    able = [n for n in QUERIES if not alone[n].refused and not alone[n].failed]
    together = kept_apart(able, scale, 4 * limit)
    progress.step("", 4)
    found = {n: k.answers[n] for n, k in alone.items() if n in k.answers}
    spark, wrong = recompute(report, scale, found, together, progress)
    progress.end()
    for name, kept in {**alone, TOGETHER: together}.items():
        if name in wrong:
            continue
        for seconds, phases in zip(kept.seconds, kept.phases, strict=True):
            report.sample("increment", seconds, "s", query=name, rows=kept.given, **phases)
    tell(report, alone, together, spark, wrong)
    if wrong:
        report.write()
        raise AssertionError("; ".join(f"{n}: {why}" for n, why in wrong.items()))


def recompute(
    report: Report, scale: float, found: dict[str, pa.Table], together: Kept, progress: Progress
) -> tuple[dict[str, float], dict[str, str]]:
    """Spark's seconds for each query, and which answers are not Spark's."""
    changes = stream(scale)
    for _ in changes.changes():
        pass
    spark = session()
    medians: dict[str, float] = {}
    wrong: dict[str, str] = {}
    with folder() as home:
        for name, table in changes.tables.items():
            pq.write_table(table, home / f"{name}.parquet")
            spark.read.parquet(str(home / f"{name}.parquet")).createOrReplaceTempView(name)
        for name in QUERIES:
            progress.step(f"{name} on Spark", 0)
            answer = collected(spark, query(name, scale))
            for who, kept in ((name, found), (TOGETHER, together.answers)):
                if name in kept:
                    problem = unlike(kept[name], answer)
                    if problem:
                        wrong[who] = f"{name}: the answer differs from Spark's: {problem}"
            again = partial(collected, spark, query(name, scale))
            times = [timed(again)[0] for _ in range(RECOMPUTED)]
            for seconds in times:
                report.sample("Spark", seconds, "s", query=name)
            medians[name] = statistics.median(times)
            progress.step("")
    return medians, wrong


def collected(spark: SparkSession, text: str) -> pa.Table:
    return spark.sql(text).toArrow()


def unlike(found: pa.Table, answer: pa.Table) -> str:
    """What is wrong with a view's rows, whose weights are all 1 here, in words."""
    if set(found.column("_w").to_pylist()) - {1}:
        return "a row is there more than once, or less than once"
    return differences(found.drop_columns(["_w"]), answer, rounded=True)


# --- telling -----------------------------------------------------------------------------------------------------


def tell(
    report: Report,
    alone: dict[str, Kept],
    together: Kept,
    spark: dict[str, float],
    wrong: dict[str, str],
) -> None:
    """Tables, targets and plots."""
    counted = {n: k for n, k in alone.items() if k.seconds and n not in wrong}
    ratios = {n: spark[n] / k.median for n, k in counted.items()}
    recomputed = sum(spark[n] for n in counted)
    fast = sum(r >= FASTER for r in ratios.values())
    if report.scale != "small" and counted:
        report.at_least(
            f"queries of 22 that are {FASTER} times faster than Spark recomputing", fast, MOST
        )
        report.at_least(
            f"sum of {len(counted)} queries, each alone: times faster than Spark recomputing",
            recomputed / sum(k.median for k in counted.values()),
            FASTER,
        )
        if together.seconds and TOGETHER not in wrong:
            among = len(together.answers)
            report.at_least(
                f"{among} queries together in one database: times faster than Spark recomputing",
                sum(spark[n] for n in together.answers) / together.median,
                FASTER,
            )
    report.say(
        f"Scale factor {SCALE[report.scale]:g}; an increment inserts and deletes a thousandth of the orders, with their "
        f"lines, and of partsupp. Median of {INCREMENTS - WARM} increments; `read` is the time to read the whole "
        f"answer after it, which is not in it. Spark recomputes from Parquet and collects: median of {RECOMPUTED}."
    )
    header = ["query", "increment", "worst", "read", "Spark", "times faster", "load", "define"]
    rows = [row(n, k, spark, wrong) for n, k in alone.items()]
    if together.seconds and TOGETHER not in wrong:
        total = sum(spark[n] for n in together.answers)
        rows.append(cells(TOGETHER, together, sum(together.reading.values()), total))
    elif together.failed or TOGETHER in wrong:
        rows.append([TOGETHER, together.failed or wrong[TOGETHER], *[""] * 6])
    report.table([*header, "maps", "written"], [r + [""] * (10 - len(r)) for r in rows])
    slow = [n for n, r in ratios.items() if r < FASTER]
    if slow:
        report.say(
            f"## Less than {FASTER} times faster\n\n"
            + "\n".join(f"- {reason(n, counted[n], spark[n])}" for n in slow)
        )
    report.say("## Where the time goes\n\nMilliseconds of an increment, medians.")
    shown = {**counted, **({TOGETHER: together} if together.seconds else {})}
    report.table(
        ["query", *PHASES, "statements", "rows made", "rows given"],
        [
            [
                n,
                *(number(1000 * k.phase(p)) for p in PHASES),
                *(f"{x:,}" for x in (k.statements, k.rows, k.given)),
            ]
            for n, k in shown.items()
        ],
    )
    if counted:
        plot(report, counted, spark)


def row(name: str, kept: Kept, spark: dict[str, float], wrong: dict[str, str]) -> list[str]:
    """A query's line, with its times or with why it has none."""
    why = wrong.get(name) or kept.failed
    if name in kept.refused:
        why = f"refused: {kept.refused[name]}"
    if why:
        return [name, why.replace("|", "\\|"), "", "", f"{spark[name]:.2f} s"]
    return cells(name, kept, kept.reading[name], spark[name])


def cells(name: str, kept: Kept, reading: float, spark: float) -> list[str]:
    return [
        name,
        *(f"{1000 * x:.0f} ms" for x in (kept.median, max(kept.seconds), reading)),
        f"{spark:.2f} s",
        number(spark / kept.median),
        f"{kept.load:.1f} s",
        f"{kept.define:.1f} s",
        str(kept.maps),
        f"{kept.bytes / 1e6:.2f} MB",
    ]


def reason(name: str, kept: Kept, spark: float) -> str:
    """Why a query is not as fast as asked: where its time goes."""
    phases = sorted(((kept.phase(p), p) for p in PHASES), reverse=True)[:3]
    parts = ", ".join(f"{p} {1000 * s:.0f} ms" for s, p in phases)
    return (
        f"**{name}**, {number(spark / kept.median)} times: {1000 * kept.median:.0f} ms an increment, of which {parts}; "
        f"{kept.statements} statements in {kept.maps} maps made {kept.rows:,} rows from {kept.given:,}; "
        f"Spark takes {1000 * spark:.0f} ms"
    )


def plot(report: Report, counted: dict[str, Kept], spark: dict[str, float]) -> None:
    names = list(counted)
    with report.plot("times", rows=2) as (axis, below):
        places = range(len(names))
        ours = [1000 * counted[n].median for n in names]
        theirs = [1000 * spark[n] for n in names]
        axis.vlines(places, ours, theirs, color="#ccc")
        axis.plot(places, theirs, "o", color="#999", label="recomputing on Spark")
        axis.plot(places, ours, "o", color="#2a7", label="increment")
        axis.set(yscale="log", ylabel="milliseconds", title="each query alone")
        axis.yaxis.set_major_formatter(plain)
        axis.legend(fontsize=8)
        bottom = [0.0] * len(names)
        for i, phase in enumerate(PHASES):
            parts = [1000 * counted[n].phase(phase) for n in names]
            below.bar(places, parts, bottom=bottom, label=phase, color=f"C{i}")
            bottom = [b + p for b, p in zip(bottom, parts, strict=True)]
        below.set(ylabel="milliseconds", title="where the time of an increment goes")
        below.legend(fontsize=7, ncols=2)
        for each in (axis, below):
            each.set_xticks(places, names, rotation=90, fontsize=8)
