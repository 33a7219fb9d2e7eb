"""SQL against DuckDB: what a query's term means is what another engine answers.

Every query of `sql/*.sql` is read into a term and interpreted, on all of the rows, on every second
one, and on none, and compared as a bag with DuckDB's answer to the same query. Then the delta law,
for the same queries: the answer on the new rows is the answer on the old ones plus the delta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import duckdb
import pytest

from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import RingMap, add, elements, neg
from headwater.calculus.terms import Term, change_name, relations
from headwater.calculus.types import INT, MapType, RecordType
from sql.corpus import Query, difference, plain, read, report
from sql.tables import DATABASES, EVEN, NONE, ODD, ROWS, SCHEMAS, Rows, load

sql = pytest.importorskip("headwater.language.sql")

QUERIES = read()
CHANGES = {"inserts": ROWS, "replacements": ODD, "deletes": NONE}
"""What the tables become, from every second row on."""


def values(database: Mapping[str, Rows]) -> dict[str, RingMap]:
    """A database as values of the calculus."""
    return {name: from_python(SCHEMAS[name], rows) for name, rows in database.items()}


OLD = values(EVEN)


@cache
def term_of(text: str) -> Term:
    """The term of a query, checked to be a bag of rows."""
    term: Term = sql.read_sql(text, SCHEMAS)
    t = type_of(term)
    assert isinstance(t, MapType) and t.value == INT and isinstance(t.key, RecordType), t
    return term


@pytest.fixture(scope="module")
def databases() -> Iterator[dict[str, duckdb.DuckDBPyConnection]]:
    made = {name: load(rows) for name, rows in DATABASES.items()}
    yield made
    for connection in made.values():
        connection.close()


def test_there_are_enough_queries() -> None:
    assert len(QUERIES) >= 150


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.id)
def test_answer(query: Query, databases: dict[str, duckdb.DuckDBPyConnection]) -> None:
    """interpret(read_sql(q)) = DuckDB's answer."""
    term = term_of(query.spark)
    for name, database in DATABASES.items():
        answer = interpret(term, values(database))
        negative = [row for row, n in answer.items() if n < 0]
        assert not negative, f"{query.id} on {name}: negative multiplicities of {negative}"
        expected = databases[name].execute(query.duckdb).fetchall()
        missing, extra = difference(plain(answer), plain(expected))
        assert not missing and not extra, report(query, f"{name} rows", missing, extra)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.id)
def test_delta(query: Query) -> None:
    """q[R + ΔR] = q[R] + delta(q)[R, ΔR], where all tables change, and where one does."""
    delta = pytest.importorskip("headwater.rules.delta").delta
    term = term_of(query.spark)
    before = interpret(term, OLD)
    for name, database in CHANGES.items():
        _obeys(delta, query, term, before, name, values(database))
    for table in sorted(r.name for r in relations(term)):
        new = {**OLD, table: from_python(SCHEMAS[table], ROWS[table])}
        _obeys(delta, query, term, before, f"inserts into {table}", new)


def _obeys(
    delta: Callable[..., Term],
    query: Query,
    term: Term,
    before: RingMap,
    what: str,
    new: dict[str, RingMap],
) -> None:
    changed = {
        name: add(value, neg(OLD[name])) for name, value in new.items() if value is not OLD[name]
    }
    changes = {change_name(name): change for name, change in changed.items()}
    predicted = add(before, interpret(delta(term, changed), {**OLD, **changes}))
    rest = add(interpret(term, new), neg(predicted))
    # What is left can only be rows that differ in the last digits of a double.
    surplus = RingMap({row: n for row, n in rest.items() if n > 0})
    deficit = RingMap({row: -n for row, n in rest.items() if n < 0})
    missing, extra = difference(plain(elements(deficit)), plain(elements(surplus)))
    assert not missing and not extra, report(query, what, missing, extra)
