"""The differ over tables of any kind: frames, Arrow tables, rows and streams of databases, in the order of a column."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import headwater as hw
import headwater.st as st
from headwater.errors import HeadwaterError, QueryError, SchemaMismatch
from spark_session import session

MARKS = "hour[taxi{seq gps} | bag rides]"
COLUMNS = {
    "hour": "ts BIGINT",
    "gps": "taxi BIGINT, ts BIGINT, x DOUBLE",
    "rides": "ts BIGINT, cost DOUBLE",
}
TABLES: dict[str, list[tuple[Any, ...]]] = {
    "hour": [(10,), (20,)],
    "gps": [(1, 3, 0.5), (1, 3, 0.25), (2, 4, 1.0), (1, 10, 2.0), (2, 25, 3.0)],
    "rides": [(1, 5.0), (1, 5.0), (9, 1.0), (15, 2.0)],
}


def arrow(name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows as an Arrow table."""
    names = [c.split()[0] for c in COLUMNS[name].split(", ")]
    return pa.table({n: [r[i] for r in rows] for i, n in enumerate(names)})


def shuffled(seed: int = 1) -> dict[str, list[tuple[Any, ...]]]:
    """The tables with their rows in any order."""
    chance = random.Random(seed)
    return {n: chance.sample(rows, len(rows)) for n, rows in TABLES.items()}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


def test_tables_of_all_kinds_are_the_same_stream() -> None:
    kinds = [
        TABLES,
        shuffled(),
        {n: arrow(n, rows) for n, rows in shuffled(2).items()},
        {n: arrow(n, rows).to_pandas() for n, rows in shuffled(3).items()},
        {n: arrow(n, rows).to_pylist() for n, rows in TABLES.items()},
    ]
    for left in kinds:
        for right in kinds:
            assert st.differ(MARKS, left, right, order="ts", headers=COLUMNS) is None
    arrows = {n: arrow(n, rows) for n, rows in TABLES.items()}
    assert st.differ(MARKS, arrows, kinds[3], order="ts") is None  # columns are those of the tables


def test_the_first_difference_is_told_with_frame_and_key() -> None:
    other = {**shuffled(), "gps": [*TABLES["gps"][:3], (1, 10, 2.5), (2, 25, 9.0)]}
    found = st.differ(MARKS, TABLES, other, order="ts", headers=COLUMNS)
    assert found is not None
    assert (found.header, found.left, found.right) == ("gps", (1, 10, 2.0), (1, 10, 2.5))
    assert str(found) == (
        "the streams differ in `gps`, after hour(ts=10), at taxi = 1:\n"
        "  left   gps(taxi=1, ts=10, x=2.0)\n"
        "  right  gps(taxi=1, ts=10, x=2.5)"
    )


def test_one_table_and_its_own_order() -> None:
    rows = arrow("rides", [(1, 5.0), (2, 6.0), (1, 5.0)])
    turned = rows.take([2, 1, 0]).slice(0, 2)
    assert st.differ(st.Bag("rides"), rows, rows.take([1, 0, 2])) is None
    assert st.differ(st.Seq("rides"), rows, rows.to_pandas()) is None
    assert st.differ(st.Seq("rides"), rows, rows.take([1, 0, 2])) is not None
    found = st.differ(st.Seq("rides"), rows, turned)
    assert found is not None and found.left == (1, 5.0) and found.right is None
    assert st.differ(st.Bag("rides"), rows, [(2, 6.0), (1, 5.0), (1, 5)]) is None


def test_events_and_streams_of_databases(db: hw.Database) -> None:
    db.source("a", "k BIGINT, ts TIMESTAMP", closes="ts")
    db.stream("s", "k{seq a}", st.filter("k > 0"), order="ts")
    times = [datetime(2026, 3, 1, h, tzinfo=UTC) for h in range(6)]
    rows = [(h % 3, t) for h, t in enumerate(times)]
    db.apply({"a": rows}, punctuate={"a": hw.closed()})
    meant = [r for r in rows if r[0] > 0]
    plain = [(k, t.replace(tzinfo=None)) for k, t in meant]  # a time without a zone is UTC
    for given in (meant, plain, [("a", r) for r in meant], db["s"].value()):
        assert st.differ("k{seq a}", db["s"], given) is None
    assert st.differ("k{seq a}", db["s"], db.table("s"), order="ts") is None
    with pytest.raises(QueryError, match="does not say the order"):  # a relation has none
        st.differ("k{seq a}", db["s"], db.table("s"))
    found = st.differ("k{seq a}", db["s"], meant[::-1])
    assert found is not None and found.key in ((("k", 1),), (("k", 2),))


def test_rows_are_there_as_often_as_their_weight_says(db: hw.Database) -> None:
    db.source("a", "k BIGINT")
    db.apply({"a": [(1,), (1,), (2,)]})
    assert st.differ(st.Bag("a"), db.table("a"), [(1,), (2,), (1,)]) is None
    assert st.differ(st.Bag("a"), db.table("a"), [(1,), (2,)]) is not None


RIDES = arrow("rides", [(1, 5.0)])
BAD: dict[str, tuple[Any, Any, dict[str, Any], type[HeadwaterError], str, str]] = {
    "unknown header": (
        MARKS, ({"trips": []}, {}), {}, QueryError, "the left side has `trips`", "headers: hour, gps, rides",
    ),
    "one table of several": (MARKS, ({}, RIDES), {}, QueryError, "the right side is one table", "'gps': ..."),
    "rows of several": (MARKS, ({}, [(1, 2)]), {}, QueryError, "a list of rows", "('hour', row)"),
    "nothing known": ("bag rides", ([(1,)], []), {}, QueryError, "the columns of `rides`", "headers={'rides'"),
    "no side": ("bag rides", (5, RIDES), {}, QueryError, "the left side is of type int", "give a DataFrame"),
    "no order": (MARKS, (TABLES, TABLES), {"headers": COLUMNS}, QueryError, "does not say the order of", "order='ts'"),
    "no such order": (
        MARKS, (TABLES, TABLES), {"headers": COLUMNS, "order": "cost"}, QueryError, "no order column `cost`", "columns of",
    ),
    "order of some": (
        MARKS, (TABLES, TABLES), {"headers": COLUMNS, "order": {"hour": "ts"}}, QueryError, "has no order column", "order={",
    ),
    "NULL in the order": (
        "seq rides", (RIDES, [(None, 5.0)]), {"order": "ts"}, QueryError, "on the right has NULL in `ts`", "leave",
    ),
    "column missing": (
        "bag rides", (RIDES, pa.table({"ts": [1]})), {}, SchemaMismatch, "the right table of `rides` has no column `cost`", "ts",
    ),
    "column more": (
        "bag rides", (pa.table({"ts": [1]}), RIDES), {}, SchemaMismatch, "the right table of `rides` has a column `cost`", "select",
    ),
    "other type": (
        "bag rides", (RIDES, pa.table({"ts": ["x"], "cost": [1.0]})), {}, SchemaMismatch, "`ts` of `rides` is bigint, and string", "one type",
    ),
    "zone and none": (
        "bag t",
        (
            pa.table({"ts": pa.array([], pa.timestamp("us"))}),
            pa.table({"ts": pa.array([], pa.timestamp("us", "UTC"))}),
        ),
        {},
        SchemaMismatch,
        "is timestamp_ntz, and timestamp on the right",
        "one type",
    ),
    "nested": ("bag t", (pa.table({"x": [[1]]}), []), {}, QueryError, "which is not compared", "leave it out"),
    "short row": ("bag rides", (RIDES, [(1,)]), {}, QueryError, "has 1 values, not 2", "columns of `rides`"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_compared_is_said(what: str) -> None:
    schema, (left, right), more, kind, said, hint = BAD[what]
    with pytest.raises(kind) as caught:
        st.differ(schema, left, right, **more)
    assert said in str(caught.value) and hint in str(caught.value)


@pytest.mark.spark
def test_frames_of_spark() -> None:
    spark = session()
    frames = {n: spark.createDataFrame(rows, COLUMNS[n]) for n, rows in shuffled().items()}
    assert st.differ(MARKS, frames, TABLES, order="ts") is None
    assert st.differ("bag rides", frames["rides"], TABLES["rides"]) is None
    with pytest.raises(QueryError, match="does not say the order of the rows of `rides`"):
        st.differ("seq rides", frames["rides"], TABLES["rides"])
    found = st.differ("seq rides", frames["rides"].limit(3), frames["rides"], order="ts")
    assert found is not None and found.header == "rides"
    at = spark.sql("SELECT TIMESTAMP '2026-03-01 09:00:00 UTC' AS ts")
    assert st.differ("bag t", at, [(datetime(2026, 3, 1, 9, tzinfo=UTC),)]) is None
    assert (
        st.differ("bag t", at, pd.DataFrame({"ts": [pd.Timestamp("2026-03-01 09:00", tz="UTC")]}))
        is None
    )
