"""The SQL corpus itself: DuckDB runs every query, and the answers are worth comparing with.

Nothing of Headwater is under test here but the schemas that the tables are made from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pytest
import sqlglot

from headwater.calculus.ring import bag
from sql.corpus import Query, blocks, difference, plain, read, report, same
from sql.tables import DATABASES, ROWS, load

QUERIES = read()
EMPTY_ON_PURPOSE = {
    "exists_in:exists_empty",
    "exists_in:not_in_with_nulls",
    "group_by:grouped_of_empty",
    "grouping_sets:of_empty",
    "having:global_fails",
    "joins:cross_empty",
    "order_limit:limit_zero",
    "scalar_subqueries:in_where_null",
    "select:constants_of_empty",
    "select:star_of_empty",
    "set_operations:except_all_self",
    "where:equal_to_null",
    "where:not_in_list_with_null",
    "where:nothing",
    "where:null_condition",
}

Connections = dict[str, duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def databases() -> Iterator[Connections]:
    """Each database, and one with the rows the other way round."""
    backwards = {name: list(reversed(rows)) for name, rows in ROWS.items()}
    made = {name: load(rows) for name, rows in {**DATABASES, "backwards": backwards}.items()}
    yield made
    for connection in made.values():
        connection.close()


def test_there_are_enough_queries() -> None:
    assert len(QUERIES) >= 150


def test_names_are_unique() -> None:
    assert [name for name, n in Counter(q.id for q in QUERIES).items() if n > 1] == []


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.id)
def test_spark_text_parses(query: Query) -> None:
    statements = sqlglot.parse(query.spark, dialect="spark")
    assert len(statements) == 1


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.id)
def test_duckdb_runs(query: Query, databases: Connections) -> None:
    """On every database; on the full one there is something to see."""
    answers = {name: c.execute(query.duckdb).fetchall() for name, c in databases.items()}
    assert (answers["all"] == []) == (query.id in EMPTY_ON_PURPOSE)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.id)
def test_answer_does_not_depend_on_the_order_of_rows(query: Query, databases: Connections) -> None:
    """So ties under LIMIT do not matter, and the answer is one bag."""
    forwards, backwards = (
        databases[n].execute(query.duckdb).fetchall() for n in ("all", "backwards")
    )
    missing, extra = difference(plain(backwards), plain(forwards))
    assert not missing and not extra, report(query, "the rows backwards", missing, extra)


def test_blocks() -> None:
    text = "-- one: shows\nSELECT 1;\n\n-- two: more\nSELECT\n  2;\n-- duckdb:\nSELECT 22;\n"
    assert list(blocks("f", text)) == [
        Query("f", "one", "shows", "SELECT 1", "SELECT 1"),
        Query("f", "two", "more", "SELECT\n  2", "SELECT 22"),
    ]


@pytest.mark.parametrize(
    ("actual", "expected", "equal"),
    [
        (1, 1.0, True),
        (1, Decimal("1.00"), True),
        (True, 1, False),
        (None, 0, False),
        (0.1 + 0.2, 0.3, True),
        (Decimal("0.333333"), 1 / 3, True),
        (Decimal("0.333334"), 1 / 3, False),
        (Decimal("0.33"), Decimal("0.333"), False),
        (bag(["x", "y", "x"]), ["y", "x", "x"], True),
        (bag(["x", "y"]), ["y", "x", "x"], False),
        (bag([(1, None)]), [{"a": 1, "b": None}], True),
        (bag([]), None, False),
        ("1", 1, False),
    ],
)
def test_same(actual: object, expected: object, equal: bool) -> None:
    assert same(plain(actual), plain(expected)) is equal
