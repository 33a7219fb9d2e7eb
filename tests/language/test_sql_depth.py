"""Deep and long queries: read and kept as views, or refused by name; never an error of Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import HeadwaterError, NotIncremental
from headwater.language.schema import schemas
from headwater.language.sql import read_sql

SCHEMAS = schemas("t(a BIGINT, b STRING)")
T = "SELECT a FROM t"


def nested(n: int, before: str, middle: str, after: str) -> str:
    return before * n + middle + after * n


TAKEN = {
    "parentheses": f"SELECT {nested(400, '(', 'a', ')')} AS x FROM t",
    "parentheses_that_say_something": f"SELECT {nested(50, '(', 'a', ' + 1)')} AS x FROM t",
    "parentheses_of_a_tuple": f"SELECT a FROM t WHERE (a, a) IN {nested(60, '(', '1L, 2L', ')')}",
    "summands": f"SELECT {' + '.join(['a'] * 1000)} AS x FROM t",
    "differences": f"SELECT {' + a - '.join(['a'] * 250)} AS x FROM t",
    "text": f"SELECT {' || '.join(['b'] * 400)} AS x FROM t",
    "conditions": f"SELECT a FROM t WHERE {' AND '.join(f'a <> {i}' for i in range(1000))}",
    "alternatives": f"SELECT a FROM t WHERE {' OR '.join(f'a = {i}' for i in range(1000))}",
    "alternatives_of_two": f"SELECT a FROM t WHERE {' OR '.join(f'(a = {i} AND b = b)' for i in range(300))}",
    "branches": f"SELECT CASE {' '.join(f'WHEN a = {i} THEN {i}' for i in range(200))} END AS x FROM t",
    "union_all": " UNION ALL ".join([T] * 400),
    "union": " UNION ".join([T] * 100),
    "subqueries": nested(200, "SELECT a FROM (", T, ")"),
    "functions": f"SELECT {nested(60, 'abs(', 'a', ')')} AS x FROM t",
    "cases": f"SELECT {nested(60, 'CASE WHEN a = 1 THEN 2 ELSE ', 'a', ' END')} AS x FROM t",
    "negations": f"SELECT a FROM t WHERE {'NOT ' * 200} a = 1",
}
REFUSED = {
    "summands": f"SELECT {' + '.join(['a'] * 3000)} AS x FROM t",
    "subqueries": nested(500, "SELECT a FROM (", T, ")"),
    "functions": f"SELECT {nested(200, 'abs(', 'a', ')')} AS x FROM t",
    "cases": f"SELECT {nested(200, 'CASE WHEN a = 1 THEN 2 ELSE ', 'a', ' END')} AS x FROM t",
    "negations": f"SELECT a FROM t WHERE {'NOT ' * 1000} a = 1",
    "signs": f"SELECT {'- ' * 1000} a AS x FROM t",
    "exists": nested(200, "SELECT a FROM t WHERE EXISTS (", T, ")"),
    "intersect": " INTERSECT ".join([T] * 1000),
    "parentheses_of_queries": nested(300, "(", T, ") UNION ALL (SELECT a FROM t)"),
    "fields": "SELECT a" + ".b" * 2000 + " AS x FROM t",
    "brackets": f"SELECT {nested(500, 'a[', '1', ']')} AS x FROM t",
    "lambdas": f"SELECT {nested(200, 'transform(a, x -> ', 'x', ')')} AS x FROM t",
}


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str, tmp_path: Path) -> None:
    db = hw.open(tmp_path / "db")
    db.source("t", "a BIGINT, b STRING")
    db.view("v", TAKEN[name])
    db.apply({"t": [(1, "x"), (2, "y")]})
    assert db.table("v") is not None


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        read_sql(REFUSED[name], SCHEMAS)
    if name not in ("fields", "brackets"):
        assert isinstance(caught.value, NotIncremental) and caught.value.reason == "TOO_DEEP"


def test_the_place_is_underlined() -> None:
    with pytest.raises(NotIncremental) as caught:
        read_sql(REFUSED["functions"], {})
    assert caught.value.span is not None and caught.value.span.column > 8
