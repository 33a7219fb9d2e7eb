"""Clauses that sqlglot parses: each is read, or refused by name; the table of arguments is complete."""

from __future__ import annotations

import pytest
from sqlglot import exp

from headwater.errors import HeadwaterError, NotIncremental
from headwater.language.sql import read_sql
from headwater.language.sql.arguments import IN_TEXT, READ, VALUES, Args
from sql.tables import SCHEMAS


@pytest.mark.parametrize("kind", READ, ids=lambda k: k.__name__)
def test_every_argument_is_decided(kind: type[exp.Expr]) -> None:
    """A new version of sqlglot may bring arguments: they are read, a mark, or refused, and nobody forgets them."""
    args: Args = READ[kind]
    lists = (args.read, args.marks, args.others)
    assert frozenset().union(*lists) == set(kind.arg_types)
    assert sum(map(len, lists)) == len(frozenset().union(*lists)), "an argument stands in two lists"


def test_values_are_of_arguments_that_are_read() -> None:
    assert all(name in READ[kind].read for kind, name in VALUES)


def test_every_clause_of_a_query_is_decided() -> None:
    """The modifiers of a query are all arguments of SELECT, and so in the table."""
    known = READ[exp.Select]
    assert set(exp.QUERY_MODIFIERS) <= known.read | known.marks | known.others


def test_clauses_are_no_text() -> None:
    """What Spark is given as text is an expression; a clause is never hidden in one."""
    clauses = (exp.Query, exp.From, exp.Join, exp.Where, exp.Limit, exp.Order, exp.With, exp.Lock)
    assert not any(issubclass(kind, IN_TEXT) for kind in clauses)


REFUSED = {
    "SELECT count(*) AS n FROM s VERSION AS OF 1": "AS OF",
    "SELECT count(*) AS n FROM s TIMESTAMP AS OF '2024-01-01'": "AS OF",
    "SELECT count(*) AS n FROM s@v1": "@",
    "SELECT a FROM r ORDER BY a LIMIT 1 WITH TIES": "WITH TIES",
    "SELECT a FROM r ORDER BY a LIMIT 10 PERCENT": "PERCENT",
    "SELECT a FROM r ORDER BY a LIMIT 1 BY b": "BY",
    "SELECT a FROM r ORDER BY a FETCH FIRST 2 ROWS ONLY": "FETCH",
    "SELECT a, b FROM r UNION ALL BY NAME SELECT b, a FROM empty": "BY NAME",
    "SELECT a, b FROM r UNION BY NAME SELECT b, a FROM empty": "BY NAME",
    "SELECT a, b FROM r INTERSECT BY NAME SELECT b, a FROM empty": "BY NAME",
    "SELECT r.a FROM r ASOF JOIN s ON r.a >= s.b": "ASOF",
    "SELECT a, sum(b) OVER (ORDER BY a ROWS 1 PRECEDING EXCLUDE CURRENT ROW) AS x FROM r": "EXCLUDE",
    "SELECT a, sum(b) OVER (ORDER BY a GROUPS 1 PRECEDING) AS x FROM r": "GROUPS",
    "SELECT a, count(*) AS n FROM r GROUP BY a WITH TOTALS": "WITH TOTALS",
    "SELECT a, count(*) AS n FROM r GROUP BY DISTINCT a": "DISTINCT",
    "SELECT count(*) AS n FROM r START WITH a = 1 CONNECT BY a = b": "CONNECT BY",
    "SELECT a INTO z FROM r": "INTO",
    "SELECT a FROM r FOR UPDATE": "FOR",
    "SELECT * REPLACE (a + 1 AS a) FROM r": "REPLACE",
    "SELECT * RENAME (a AS z) FROM r": "RENAME",
    "WITH x AS MATERIALIZED (SELECT a FROM r) SELECT a FROM x": "MATERIALIZED",
    "SELECT r.a FROM r CROSS APPLY (SELECT 1 AS z) l": "APPLY",
    "SELECT CAST(s AS STRING COLLATE UTF8_LCASE) AS x FROM r": "COLLATE",
}


@pytest.mark.parametrize("query", REFUSED)
def test_a_clause_that_nobody_reads_is_refused_by_name(query: str) -> None:
    with pytest.raises(NotIncremental) as caught:
        read_sql(query, SCHEMAS)
    error = caught.value
    assert error.reason == "UNSUPPORTED_CLAUSE"
    assert REFUSED[query] in error.what and error.hint
    assert error.span is not None
    start = error.span.column - 1
    assert query[start : start + error.span.length] == REFUSED[query]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM range(3)",
        "SELECT * FROM r(1)",
        "SELECT count(a, b) OVER () AS n FROM r",
        "SELECT s, max(a, 2) AS m FROM r GROUP BY s",
        "SELECT try_to_date(s) AS d FROM r",
        "SELECT a FROM r WHERE a BETWEEN SYMMETRIC 3 AND 1",
        "SELECT a FROM r SORT BY a LIMIT 1",
        "(SELECT a FROM r) CROSS JOIN s",
    ],
)
def test_arguments_that_would_be_dropped_are_refused(query: str) -> None:
    with pytest.raises(HeadwaterError):
        read_sql(query, SCHEMAS)


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("SELECT /*+ BROADCAST(r) */ a FROM r", "SELECT a FROM r"),
        ("SELECT a FROM r SORT BY b DESC", "SELECT a FROM r"),
        ("SELECT a FROM r DISTRIBUTE BY b", "SELECT a FROM r"),
        ("SELECT a FROM r CLUSTER BY a", "SELECT a FROM r"),
        ("SELECT ALL a FROM r", "SELECT a FROM r"),
    ],
)
def test_clauses_that_mean_nothing_to_a_bag(query: str, same: str) -> None:
    assert read_sql(query, SCHEMAS) == read_sql(same, SCHEMAS)


def test_rows_of_values_and_of_brackets_are_limited() -> None:
    for query in ("VALUES (1), (2) ORDER BY 1 LIMIT 1", "(SELECT a FROM r) ORDER BY a OFFSET 2"):
        assert "first" in str(read_sql(query, SCHEMAS))
