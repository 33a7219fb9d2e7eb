"""Failures found at the edges of single functions and types: Spark's meaning, or refused by name with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.errors import HeadwaterError
from headwater.language.sql import read_sql
from sql.corpus import plain
from sql.tables import ROWS, SCHEMAS

VALUES = {name: from_python(SCHEMAS[name], rows) for name, rows in ROWS.items()}
UNITS = ("year", "YYYY", "yy", "quarter", "month", "Mon", "mm", "week")


@pytest.mark.parametrize("unit", ["q", "w", "y", "qtr", "m", "wk", "day", "dd", "d", "decade", ""])
def test_trunc_of_an_unknown_unit_is_null(unit: str) -> None:
    term = read_sql(f"SELECT trunc(day, '{unit}') AS x FROM t", SCHEMAS)
    assert {row[0] for row in plain(interpret(term, VALUES))} == {None}


@pytest.mark.parametrize("unit", UNITS)
def test_trunc_of_a_known_unit(unit: str) -> None:
    term = read_sql(f"SELECT trunc(day, '{unit}') AS x FROM t WHERE day IS NOT NULL", SCHEMAS)
    assert None not in {row[0] for row in plain(interpret(term, VALUES))}


REFUSED = {
    "SELECT CAST(s AS BINARY) = 'x' AS y FROM r": "UNSUPPORTED_EXPRESSION",
    "SELECT a FROM r WHERE CAST(s AS BINARY) IN ('x', 'y')": "UNSUPPORTED_EXPRESSION",
    "SELECT CAST(a AS DECIMAL(50,2)) AS y FROM r": "TYPE",
    "SELECT CAST(a AS DECIMAL(5,7)) AS y FROM r": "TYPE",
    "SELECT a FROM r ORDER BY a FETCH FIRST 2 ROWS ONLY": "UNSUPPORTED_CLAUSE",
    "SELECT max(struct(a, b)) AS y FROM r": "AGGREGATE",
    "SELECT a, max(struct(a, b)) OVER (PARTITION BY b) AS y FROM r": "WINDOW_FUNCTION",
    "SELECT count(DISTINCT (a, b)) AS y FROM r": "AGGREGATE",
    "SELECT a, sum(b) OVER (PARTITION BY (SELECT max(b) FROM s)) AS y FROM r": "WINDOW_FUNCTION",
    "SELECT a, sum(b) OVER (ORDER BY (SELECT max(b) FROM s)) AS y FROM r": "WINDOW_FUNCTION",
    "SELECT a, sum((SELECT max(b) FROM s)) OVER () AS y FROM r": "WINDOW_FUNCTION",
}


@pytest.mark.parametrize("query", REFUSED)
def test_refused_by_name_with_the_place(query: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        read_sql(query, SCHEMAS)
    assert getattr(caught.value, "reason", "") == REFUSED[query]
    assert caught.value.span is not None and caught.value.span.column > 1


@pytest.mark.parametrize("name", ["a``b", "a b", "a.b", "{0}", "a'b", 'a"b', "é", "select"])
def test_odd_names_of_columns(name: str, tmp_path: Path) -> None:
    """Work, or are refused by an error of ours; no error of Python."""
    db = hw.open(tmp_path / "db")
    db.source("t", "n BIGINT")
    try:
        db.view("v", f"SELECT n AS `{name}`, count(*) AS k FROM t GROUP BY n")
    except HeadwaterError:
        return
    db.apply({"t": [(1,), (1,)]})
    assert db.table("v").to_pylist() == [{name.replace("``", "`"): 1, "k": 2, "_w": 1}]
