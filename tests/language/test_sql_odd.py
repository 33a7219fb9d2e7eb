"""Odd clauses and rare syntax: each query is answered as Spark answers it, or refused; no error of Python.

The queries are the lines of `sql/odd.txt`. Many are no Spark SQL: sqlglot parses the clauses of other dialects, too.
What is read here and refused by Spark would be an extension in silence, and is listed.
"""

from __future__ import annotations

from typing import Any

import pytest

from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.errors import HeadwaterError, ScalarError
from headwater.language.schema import sql_name
from headwater.language.sql import read_sql
from spark_session import session
from sql.corpus import FOLDER, difference, plain
from sql.tables import ROWS, SCHEMAS

QUERIES = (FOLDER / "odd.txt").read_text().splitlines()
VALUES = {name: from_python(SCHEMAS[name], rows) for name, rows in ROWS.items()}
ANY_ROWS = {q for q in QUERIES if "LIMIT" in q and "ORDER BY" not in q}
"""Which rows these have is open; how many is not."""


def answer(query: str) -> tuple[list[str], list[Any]] | None:
    """The names of the columns and the rows; None where the query is refused."""
    try:
        term = read_sql(query, SCHEMAS)
        names = [n for n, _ in type_of(term).key.fields]
        return names, plain(interpret(term, VALUES))
    except ScalarError:
        raise
    except HeadwaterError:
        return None


def test_there_are_enough_queries() -> None:
    assert len(set(QUERIES)) == len(QUERIES) >= 250
    answered = [q for q in QUERIES if answer(q) is not None]
    assert 100 <= len(answered) <= len(QUERIES) - 100


@pytest.mark.parametrize("query", QUERIES)
def test_no_error_of_python(query: str) -> None:
    answer(query)


@pytest.mark.spark
def test_spark_agrees() -> None:
    """One session, tables without files: what is answered here is what Spark answers."""
    spark, wrong = session(), []
    for name, t in SCHEMAS.items():
        columns = ", ".join(f"{n} {sql_name(f)}" for n, f in t.key.fields)  # type: ignore[union-attr]
        spark.createDataFrame(ROWS[name], columns).createOrReplaceTempView(name)
    for query in QUERIES:
        found = answer(query)
        if found is None:
            continue
        try:
            frame = spark.sql(query)
            expected = [_plain(row) for row in frame.collect()]
        except Exception as error:
            wrong.append(f"{query}: read here, and Spark says {str(error).splitlines()[:2]}")
            continue
        if [n.lower() for n in found[0]] != [n.lower() for n in frame.columns]:
            wrong.append(f"{query}: the names {found[0]}, Spark's {frame.columns}")
        same = len(found[1]) == len(expected)
        if query not in ANY_ROWS:
            same = difference(found[1], expected) == ([], [])
        if not same:
            wrong.append(f"{query}: {found[1][:3]}, Spark {expected[:3]}")
    assert not wrong, "\n".join(wrong)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    return [_plain(v) for v in value] if isinstance(value, list) else value
