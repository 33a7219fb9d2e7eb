"""Long lists of IN: one constant, which is read, shown, searched by Arrow and written for Spark as the same list."""

from __future__ import annotations

import time
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.calculus.notation.parse import parse
from headwater.calculus.notation.text import show
from headwater.calculus.terms import Call, subterms
from headwater.language.schema import schemas
from headwater.language.sql import read_sql

TABLE = "n INT, b BIGINT, s STRING, d DATE, p DECIMAL(10,2), x DOUBLE, t TIMESTAMP, f BOOLEAN"
SCHEMAS = schemas(f"x({TABLE})")
NAN = float("nan")
ROWS: list[tuple[Any, ...]] = [
    (1, 1, "a", date(2024, 1, 1), Decimal("1.50"), 0.0, None, True),
    (2, 2**40, "it's \\", date(2024, 1, 12), Decimal("2.00"), -0.0, None, False),
    (None, None, None, None, None, None, None, None),
    (99, 99, "zz", date(1999, 1, 1), Decimal("99.99"), NAN, None, True),
    (7, 2**53 + 1, "local", date(2024, 1, 3), Decimal("7.00"), 7.5, None, False),
]
DAYS = ", ".join(f"DATE '2024-01-{i:02}'" for i in range(1, 16))
TEXTS = "'a', 'local', 'it\\'s \\\\', " + ", ".join(f"'w{i}'" for i in range(12))
WHOLE = ", ".join(map(str, range(1, 13)))
LISTS = {
    "integers": f"n IN ({WHOLE})",
    "wider": f"n IN ({WHOLE}, {2**40})",
    "bigint": f"b IN ({WHOLE}, {2**40})",
    "null": f"n IN ({WHOLE}, NULL)",
    "not": f"n NOT IN ({WHOLE})",
    "not_null": f"n NOT IN ({WHOLE}, NULL)",
    "negative": f"n IN (-1, -2, {WHOLE})",
    "texts": f"s IN ({TEXTS})",
    "days": f"d IN ({DAYS})",
    "days_as_text": f"d IN ({DAYS.replace('DATE ', '')})",
    "decimals": f"p IN ({', '.join(f'{i}.50' for i in range(12))}, 7, 2.0)",
    "decimal_and_int": f"n IN (1.5, 2.0, {WHOLE})",
    "doubles": f"x IN ({', '.join(f'{i}.5D' for i in range(12))}, 0D, double('NaN'))",
    "double_beyond": f"b IN ({float(2**53)!r}D, 0.5D, {WHOLE})",
    "double_and_int": f"n IN (0.5D, {WHOLE})",
    "short_and_mixed": "b IN (9007199254740992, 0.5D)",
    "a_text_among_numbers": f"n IN ({WHOLE}, '99')",
    "computed": f"n + 1 IN ({WHOLE})",
    "columns": f"n IN ({WHOLE}, b)",
    "constant": f"3 IN ({WHOLE})",
    "none": f"NULL IN ({WHOLE})",
    "case": f"CASE WHEN n IN ({WHOLE}) THEN f ELSE s IN ({TEXTS}) END",
    "booleans": "f IN (" + ", ".join(["true"] * 12) + ")",
}
EXPECTED = {  # what Spark gives, by row; the test on Spark checks it
    "integers": [True, True, None, False, True],
    "wider": [True, True, None, False, True],
    "bigint": [True, True, None, False, False],
    "null": [True, True, None, None, True],
    "not": [False, False, None, True, False],
    "not_null": [False, False, None, None, False],
    "negative": [True, True, None, False, True],
    "texts": [True, True, None, False, True],
    "days": [True, True, None, False, True],
    "days_as_text": [True, True, None, False, True],
    "decimals": [True, True, None, False, True],
    "decimal_and_int": [True, True, None, False, True],
    "doubles": [True, True, None, True, True],
    "double_beyond": [True, False, None, False, True],
    "double_and_int": [True, True, None, False, True],
    "short_and_mixed": [False, False, None, False, True],
    "a_text_among_numbers": [True, True, None, True, True],
    "computed": [True, True, None, False, True],
    "columns": [True, True, None, True, True],
    "constant": [True] * 5,
    "none": [None] * 5,
    "case": [True, False, None, False, False],
    "booleans": [True, False, None, True, False],
}


@pytest.mark.parametrize("name", LISTS)
def test_a_view_has_what_the_list_says(name: str, tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("x", TABLE)
        db.view("v", f"SELECT n, {LISTS[name]} AS c FROM x")
        db.view("w", f"SELECT n FROM x WHERE {LISTS[name]}")
        db.apply({"x": ROWS})
        found = {r["n"]: r["c"] for r in db.table("v").to_pylist()}
        assert [found[r[0]] for r in ROWS] == EXPECTED[name]
        kept = {r["n"] for r in db.table("w").to_pylist()}
        assert kept == {r[0] for r, c in zip(ROWS, EXPECTED[name], strict=True) if c}
        assert db.session.counts.jobs == 0


@pytest.mark.parametrize("name", ["integers", "texts", "days", "decimals", "doubles", "null"])
def test_a_long_list_is_one_constant_and_reads_as_it_is_shown(name: str) -> None:
    term = read_sql(f"SELECT n FROM x WHERE {LISTS[name]}", SCHEMAS)
    assert any(isinstance(t, Call) and t.function == "among" for t in subterms(term))
    assert sum(1 for _ in subterms(term)) < 20
    assert parse(show(term), SCHEMAS) == term


def test_five_thousand_values(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("x", "a BIGINT, s STRING")
        start = time.process_time()
        db.view("v", f"SELECT a FROM x WHERE a IN ({', '.join(map(str, range(5000)))})")
        texts = ", ".join(f"'{i}'" for i in range(5000))
        db.view("w", f"SELECT a FROM x WHERE s NOT IN ({texts})")
        assert time.process_time() - start < 4  # half a second each where nothing else runs
        start = time.process_time()
        db.apply({"x": [(i, str(i)) for i in range(4000, 6000)]})
        assert time.process_time() - start < 2
        assert (db.table("v").num_rows, db.table("w").num_rows) == (1000, 1000)
    with hw.open(tmp_path / "db") as db:
        db.apply({"x": [(3, "x")]})
        assert (db.table("v").num_rows, db.table("w").num_rows) == (1001, 1001)


def test_many_tuples(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("x", "a BIGINT, s STRING")
        pairs = ", ".join(f"({i}L, '{i}')" for i in range(100))
        db.view("v", f"SELECT a FROM x WHERE (a, s) IN ({pairs})")
        db.apply({"x": [(1, "1"), (1, "2"), (100, "100"), (99, "99"), (None, "1")]})
        assert db.table("v").column("a").to_pylist() == [1, 99]


@pytest.mark.spark
def test_lists_on_spark(tmp_path: Path) -> None:
    from spark_session import session

    spark = session()
    spark.createDataFrame(ROWS, TABLE).createOrReplaceTempView("x")
    columns = ", ".join(f"{c} AS {n}" for n, c in LISTS.items())
    answers = {r["n"]: r for r in spark.sql(f"SELECT n, {columns} FROM x").collect()}
    found = {n: [answers[r[0]][n] for r in ROWS] for n in LISTS}
    assert {n: v for n, v in found.items() if v != EXPECTED[n]} == {}
    # The text that a statement has for Spark means the same.
    with hw.open(tmp_path / "db", spark) as db:
        db.policy.execution = "spark"
        db.source("x", TABLE)
        for n, c in LISTS.items():
            db.view(n, f"SELECT n, {c} AS c FROM x")
        db.apply({"x": ROWS})
        for n in LISTS:
            got = {r["n"]: r["c"] for r in db.table(n).to_pylist()}
            assert [got[r[0]] for r in ROWS] == EXPECTED[n], n
