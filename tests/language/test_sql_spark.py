"""The SQL front end against Spark itself, in ANSI mode: answers and result types.

The interpreter claims Spark's meaning for its scalars and Spark's result types for its aggregates. Here
Spark answers the corpus, and both must agree: rows as bags, numbers exactly (doubles to 1e-9 relative),
types as Spark names them. The files about scalars run in `make test`, the others in `make test-all`.
"""

from __future__ import annotations

from typing import Any

import pytest

from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.types import INTEGRAL, Base, RecordType, Type
from headwater.language.schema import sql_name
from headwater.language.sql import read_sql
from spark_session import session
from sql.corpus import Query, difference, plain, read, report
from sql.tables import ROWS, SCHEMAS

pytestmark = pytest.mark.spark
ORDINARY = {"scalars", "case", "nulls"}
QUERIES = read()
VALUES = {name: from_python(SCHEMAS[name], rows) for name, rows in ROWS.items()}


@pytest.fixture(scope="module")
def spark() -> Any:
    made = session()
    for name, t in SCHEMAS.items():
        columns = ", ".join(f"{n} {sql_name(f)}" for n, f in t.key.fields)  # type: ignore[union-attr]
        made.createDataFrame(ROWS[name], columns).createOrReplaceTempView(name)
    return made


def _slow(query: Query) -> Any:
    return pytest.param(
        query, id=query.id, marks=() if query.file in ORDINARY else (pytest.mark.slow,)
    )


@pytest.mark.parametrize("query", [_slow(q) for q in QUERIES])
def test_spark_agrees(spark: Any, query: Query) -> None:
    term = read_sql(query.spark, SCHEMAS)
    answer = spark.sql(query.spark)
    expected = [plain_row(row) for row in answer.collect()]
    found = plain(interpret(term, VALUES))
    missing, extra = difference(found, expected)
    assert not missing and not extra, report(query, "Spark", missing, extra)
    assert names(type_of(term).key) == names_of_spark(answer.schema)


def plain_row(value: Any) -> Any:
    """A row of Spark as tuples and lists."""
    if isinstance(value, tuple):
        return tuple(plain_row(v) for v in value)
    if isinstance(value, list):
        return [plain_row(v) for v in value]
    return value


def names(t: Type) -> list[str]:
    """The types of the columns; the width of integers and of literals is Spark's own business."""
    assert isinstance(t, RecordType)
    return [_loose(sql_name(f)) if isinstance(f, Base) else "nested" for _, f in t.fields]


def names_of_spark(schema: Any) -> list[str]:
    return [
        "nested"
        if f.dataType.typeName() in ("array", "struct")
        else _loose(f.dataType.simpleString())
        for f in schema.fields
    ]


def _loose(name: str) -> str:
    return "integer" if name in INTEGRAL else name
