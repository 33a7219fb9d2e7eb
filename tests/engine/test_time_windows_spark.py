"""Windows of time as Spark answers them in a batch: through insertions and deletions, and on days on which clocks change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.calculus.terms import Call, Const, Var
from headwater.calculus.types import BIGINT, TIMESTAMP, TIMESTAMP_NTZ
from headwater.engine.here import arrow
from headwater.engine.spark.session import local_frame
from headwater.interop.arrow_types import arrow_type
from headwater.plan.scalar import scalar
from spark_session import session

pytestmark = pytest.mark.spark

SCHEMA = "k INT, ts TIMESTAMP, v INT, nt TIMESTAMP_NTZ, d DATE"
QUERIES = """
SELECT window.start, window.end, count(*) AS n FROM t GROUP BY window(ts, '10 minutes')
SELECT window, sum(v) AS s, min(v) AS a, max(v) AS b FROM t GROUP BY window(ts, '1 hour')
SELECT k, window.start, avg(v) AS a, count(DISTINCT v) AS n FROM t GROUP BY k, window(ts, '90 minutes')
SELECT k, window.end, count(v) AS n FROM t GROUP BY window(ts, '1 day'), k
SELECT window.start, count(*) AS n FROM t GROUP BY window(ts, '1 week')
SELECT window.start, count(*) AS n FROM t GROUP BY window(ts, '1 day', '1 day', '5 hours')
SELECT window.start, count(*) AS n FROM t GROUP BY window(ts, '1 hour', '1 hour', '-7 minutes')
SELECT window.start, count(*) AS n FROM t GROUP BY window(ts, 1000000007)
SELECT window.start, count(*) AS n FROM t GROUP BY window(ts, '1 hour 0.5 seconds')
SELECT window(ts, '1 hour').start AS s, count(*) AS n FROM t GROUP BY s
SELECT window(ts, '1 hour') AS w, w.end AS e, count(*) AS n FROM t GROUP BY w
SELECT window(ts, '1 hour') AS w, k, count(*) AS n FROM t GROUP BY ALL
SELECT window(ts, '1 hour').start, window(ts, '1 hour').end, max(v) FROM t GROUP BY window(ts, '1 hour')
SELECT window.start, count(*) AS n FROM t WHERE v > 0 GROUP BY window(ts, '1 hour') HAVING count(*) > 1
SELECT window.start FROM t GROUP BY window(ts, '1 hour') HAVING window.end > TIMESTAMP '2024-03-10 08:00:00' AND max(v) > 1
SELECT window.start, count(*) AS n FROM t GROUP BY window(ts, '1 hour') ORDER BY window.start DESC LIMIT 3
SELECT window.start, n, rank() OVER (ORDER BY n DESC) AS r FROM (SELECT window, count(*) AS n FROM t GROUP BY window(ts, '1 hour'))
SELECT k, window, count(*) AS n FROM t GROUP BY ROLLUP (k, window(ts, '3 hours'))
SELECT k, window.start, window.end, count(*) AS n FROM t GROUP BY k, window(ts, '3 hours') WITH CUBE
SELECT window.start, sum(n) AS n FROM (SELECT window AS w, count(*) AS n FROM t GROUP BY window(ts, '10 minutes')) GROUP BY window(w, '1 hour')
SELECT window.start, sum(n) AS n FROM (SELECT window AS w, count(*) AS n FROM t GROUP BY window(ts, '10 minutes')) GROUP BY window(window_time(w), '1 hour')
SELECT window_time(window) AS l, count(*) AS n FROM t GROUP BY window(ts, '1 hour'), window_time(window)
SELECT k, window(ts, '1 hour').start AS s, v FROM t
SELECT window.start, window.end, count(*) AS n FROM t GROUP BY window(nt, '1 hour')
SELECT window.start, count(*) AS n FROM t GROUP BY window(d, '1 day')
SELECT a.k, window.start, count(*) AS n FROM t a JOIN u b ON a.k = b.k GROUP BY a.k, window(a.ts, '1 hour')
SELECT window.start, count(*) AS n, count(b.name) AS m FROM t a LEFT JOIN u b ON a.k = b.k GROUP BY window(a.ts, '1 hour')
SELECT window.start, window.end, count(*) AS n, sum(v) AS s FROM t GROUP BY window(ts, '1 hour', '20 minutes')
SELECT k, window.start, max(v) AS m FROM t GROUP BY k, window(ts, '1 hour', '25 minutes')
SELECT window.start, count(*) AS n FROM t GROUP BY window(ts, '1 day', '6 hours', '1 hour')
SELECT w.start AS s, count(DISTINCT k) AS n FROM (SELECT window(nt, '1 hour', '7 minutes') AS w, k FROM t) GROUP BY w
SELECT count(DISTINCT window(ts, '1 hour', '30 minutes')) AS n FROM t
SELECT session_window.start, session_window.end, count(*) AS n FROM t GROUP BY session_window(ts, '5 minutes')
SELECT k, session_window, sum(v) AS s, max(v) AS m FROM t GROUP BY k, session_window(ts, '10 minutes')
SELECT k, session_window.start, count(DISTINCT v) AS n, avg(v) AS a FROM t GROUP BY session_window(ts, '30 minutes'), k
SELECT k, session_window.start, session_window.end, count(*) AS n FROM t GROUP BY k, session_window(nt, '24 hours')
SELECT k % 2 AS p, session_window.end, count(*) FILTER (WHERE v > 0) AS n FROM t GROUP BY k % 2, session_window(ts, '20 minutes')
SELECT k, session_window.start FROM t GROUP BY k, session_window(ts, '15 minutes') HAVING count(*) > 2
SELECT session_window.start, session_window.end, sum(n) AS n FROM (SELECT k, session_window AS w, count(*) AS n FROM t GROUP BY k, session_window(ts, '10 minutes')) GROUP BY session_window(w, '1 hour')
SELECT window.start, count(*) AS n, max(m) AS m FROM (SELECT k, session_window AS w, count(*) AS m FROM t GROUP BY k, session_window(ts, '10 minutes')) GROUP BY window(w.start, '1 hour')
SELECT window_time(w) AS l, n FROM (SELECT session_window AS w, count(*) AS n FROM t GROUP BY session_window(ts, '10 minutes'))
SELECT b.name, session_window.start, count(*) AS n FROM t a JOIN u b ON a.k = b.k GROUP BY b.name, session_window(a.ts, '10 minutes')
""".strip().splitlines()
CLOCKS = {
    "America/New_York": (datetime(2024, 3, 10, 7), datetime(2024, 11, 3, 6)),
    "Europe/Berlin": (datetime(2024, 3, 31, 1), datetime(2024, 10, 27, 1)),
    "Australia/Lord_Howe": (datetime(2024, 4, 6, 15), datetime(2024, 10, 5, 15, 30)),
}
"""When clocks change, in UTC."""
IN_A_ZONE = (0, 3, 5, 15, 17, 23, 24, 29, 33, 35)
"""The queries that are asked in each zone: days, local times, dates, constants that are read as instants."""

Row = tuple[Any, ...]


def drawn(pick: random.Random, around: tuple[datetime, ...], count: int) -> list[Row]:
    """Rows within some hours of some times, many of them close to each other."""
    out: list[Row] = []
    for _ in range(count):
        step = pick.choice((0, 60, 300, 301, 600, 3600)) * pick.randrange(-40, 40) / 2
        time = pick.choice(around) + timedelta(seconds=step, microseconds=pick.choice((0, 0, 1)))
        moment = None if pick.random() < 0.06 else time.replace(tzinfo=UTC)
        day = None if pick.random() < 0.06 else time.date()
        v = pick.choice((None, -1, 0, 1, 2, 3))
        out.append((pick.choice((1, 2, 3, None)), moment, v, time, day))
    return out


Change = dict[str, Any]
Contents = dict[str, list[Row]]


def story(around: tuple[datetime, ...], steps: int) -> Iterator[tuple[Change, Contents]]:
    """Changes, each with what the tables have after it."""
    pick = random.Random(11)
    there: Contents = {"t": [], "u": [(1, "a"), (2, "b"), (2, "c")]}
    yield {"u": there["u"]}, there
    for _ in range(steps):
        new = drawn(pick, around, 30)
        gone = pick.sample(there["t"], len(there["t"]) // 3)
        for row in gone:
            there["t"].remove(row)
        there["t"] += new
        yield {"t": hw.Delta(inserts=new, deletes=gone)}, there


def plain(value: Any) -> Any:
    """A value that is equal to others only if they are the same: instants in UTC, structs as what they hold."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return ("instant", value.astimezone(UTC).replace(tzinfo=None))
    if isinstance(value, dict):
        return tuple(plain(v) for v in value.values())
    return value


def counted(table: pa.Table, weighted: bool) -> Counter[Row]:
    out: Counter[Row] = Counter()
    for row in table.to_pylist():
        weight = row.pop("_w") if weighted else 1
        out[tuple(map(plain, row.values()))] += weight
    return out


def arrow_rows(rows: list[Row]) -> pa.Table:
    types = ("int32", pa.timestamp("us", "UTC"), "int32", pa.timestamp("us"), pa.date32())
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    return pa.table(dict(zip(("k", "ts", "v", "nt", "d"), arrays, strict=True)))


def opened(path: Path, zone: str, asked: list[str]) -> tuple[Any, hw.Database]:
    """A session in a zone, and a database with a view for each query."""
    spark = session().newSession()
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.codegen.wholeStage", "false")  # for so few rows, most of the time
    db = hw.open(path, spark)
    db.source("t", SCHEMA)
    db.source("u", "k INT, name STRING")
    for i, query in enumerate(asked):
        db.view(f"v{i}", query)
    return spark, db


def played(
    path: Path, zone: str, around: tuple[datetime, ...], asked: list[str], steps: int, first: int
) -> None:
    """From the first of some changes on each view is what Spark answers over what is there, with Spark's names."""
    spark, db = opened(path, zone, asked)
    with db:
        for step, (change, there) in enumerate(story(around, steps)):
            db.apply(change)
            if step < first:
                continue
            local_frame(spark, arrow_rows(there["t"])).createOrReplaceTempView("t")
            spark.createDataFrame(there["u"], "k INT, name STRING").createOrReplaceTempView("u")
            for i, query in enumerate(asked):
                wanted = spark.sql(query).toArrow()
                found = db.table(f"v{i}")
                assert found.column_names == [*wanted.column_names, "_w"], query
                assert counted(found, True) == counted(wanted, False), query


def test_windows_are_spark_s(tmp_path: Path) -> None:
    """42 queries after insertions and deletions, around times on both sides of 1970."""
    around = (datetime(2024, 3, 10, 7, 50), datetime(1969, 12, 31, 23), datetime(2024, 3, 10, 11))
    played(tmp_path / "db", "UTC", around, QUERIES, steps=3, first=3)


@pytest.mark.parametrize("zone", CLOCKS)
def test_windows_where_clocks_change_are_spark_s(tmp_path: Path, zone: str) -> None:
    asked = [QUERIES[i] for i in IN_A_ZONE]
    played(tmp_path / "db", zone, CLOCKS[zone], asked, steps=2, first=2)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["UTC", *CLOCKS])
def test_all_windows_in_all_zones_are_spark_s(tmp_path: Path, zone: str) -> None:
    """After each of the changes."""
    around = CLOCKS.get(zone, (datetime(2024, 3, 10, 7, 50), datetime(1969, 12, 31, 23)))
    played(tmp_path / "db", zone, around, QUERIES, steps=4, first=1)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_what_is_left_to_spark_means_the_same_there(zone: str) -> None:
    """The text of each scalar, evaluated by Spark, and its tree, evaluated here."""
    spark = session().newSession()
    spark.conf.set("spark.sql.session.timeZone", zone)
    pick = random.Random(3)
    around = (*CLOCKS["America/New_York"], datetime(1969, 12, 31, 23), datetime(1883, 11, 18, 17))
    times = [t[3] for t in drawn(pick, around, 60)] + [None]
    for t in (TIMESTAMP, TIMESTAMP_NTZ):
        column = Var("t", t)
        numbers = ((90 * 60_000_000, 7_000_000), (86_400_000_000, 0), (7, -3))
        calls = [Call("window_start", (column, *map(_number, n))) for n in numbers]
        calls += [
            Call("window_starts", (column, *map(_number, n)))
            for n in ((3_600_000_000, 1_200_000_000, 0), (86_400_000_000, 25_000_000_007, -5))
        ]
        calls += [Call("add_micros", (column, _number(n))) for n in (-1, 86_400_000_000)]
        made = [scalar(c, {column: "t"}) for c in calls]
        given = pa.table(
            {"t": pa.array(times, pa.timestamp("us")).cast(pa.int64()).view(arrow_type(t))}
        )
        shown = [f"{s.sql} AS v{i}" for i, s in enumerate(made)]
        there = local_frame(spark, given).selectExpr(*shown).toArrow()
        for i, s in enumerate(made):
            here = [_listed(v) for v in arrow.evaluate(s.tree, given).to_pylist()]
            assert here == [_listed(v) for v in there.column(i).to_pylist()], s.sql


def _number(n: int) -> Const:
    return Const(n, BIGINT)


def _listed(value: Any) -> Any:
    return sorted(map(plain, value)) if isinstance(value, list) else plain(value)


@pytest.mark.slow
def test_windows_in_tasks_of_spark(tmp_path: Path) -> None:
    """The same where every increment runs on Spark."""
    asked = [QUERIES[i] for i in (1, 27, 33)]
    around = (datetime(2024, 3, 10, 7, 50), datetime(1969, 12, 31, 23))
    _, spark = opened(tmp_path / "spark", "UTC", asked)
    _, here = opened(tmp_path / "here", "UTC", asked)
    spark.policy.execution = "spark"
    with spark, here:
        for change, _ in story(around, 2):
            spark.apply(change)
            here.apply(change)
            for i in range(len(asked)):
                one, other = (counted(db.table(f"v{i}"), True) for db in (spark, here))
                assert one == other, asked[i]
