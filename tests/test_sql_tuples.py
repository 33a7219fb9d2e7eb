"""Tuples in IN: a list compares them as structs, in which NULL is equal to NULL; a subquery compares part by part."""

from __future__ import annotations

import pytest

from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.errors import TypeMismatch
from headwater.language.schema import schemas
from headwater.language.sql import read_sql
from spark_session import session
from sql.corpus import difference, plain

SCHEMAS = schemas("x(n INT, s STRING)")
ROWS = [(1, "a"), (2, "b"), (2, None), (None, "b"), (None, None), (3, "c"), (1, None)]
CONDITIONS = {
    "(n, s) IN ((1, 'a'), (2, 'b'))": [(1, "a"), (2, "b")],
    "(n, s) NOT IN ((1, 'a'), (2, 'b'))": [
        (2, None),
        (None, "b"),
        (None, None),
        (3, "c"),
        (1, None),
    ],
    "(n, s) IN ((2, CAST(NULL AS STRING)))": [(2, None)],
    "NOT (n, s) IN ((1, 'a'))": [r for r in ROWS if r != (1, "a")],
    "(n, s) NOT IN (SELECT 1, 'a')": [(2, "b"), (2, None), (None, "b"), (3, "c")],
    "(n, s) NOT IN (SELECT n, s FROM x WHERE n = 3)": [
        *((1, "a"), (2, "b"), (2, None), (None, "b"), (1, None)),
    ],
    "(n, s) IN (SELECT n, s FROM x)": [(1, "a"), (2, "b"), (3, "c")],
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_tuples(condition: str) -> None:
    term = read_sql(f"SELECT n, s FROM x WHERE {condition}", SCHEMAS)
    found = plain(interpret(term, {"x": from_python(SCHEMAS["x"], ROWS)}))
    assert difference(found, CONDITIONS[condition]) == ([], [])


@pytest.mark.parametrize(
    "condition", ["(n, s) IN ((1, 'a', 2))", "(n, s) IN (1, 2)", "n IN ((1, 2))"]
)
def test_tuples_of_other_lengths_are_refused(condition: str) -> None:
    with pytest.raises(TypeMismatch, match="columns"):
        read_sql(f"SELECT n, s FROM x WHERE {condition}", SCHEMAS)


@pytest.mark.spark
def test_tuples_on_spark() -> None:
    spark = session()
    spark.createDataFrame(ROWS, "n INT, s STRING").createOrReplaceTempView("x")
    columns = ", ".join(
        f"({c}) IS TRUE AS c{i}" for i, c in enumerate(CONDITIONS) if "SELECT" not in c
    )
    answers = spark.sql(f"SELECT n, s, {columns} FROM x").collect()
    lists = [c for c in CONDITIONS if "SELECT" not in c]
    for i, condition in enumerate(lists):
        kept = [tuple(row[:2]) for row in answers if row[2 + i]]
        assert difference(kept, CONDITIONS[condition]) == ([], []), condition
    for i, condition in enumerate(c for c in CONDITIONS if "SELECT" in c):
        kept = [tuple(r) for r in spark.sql(f"SELECT n, s FROM x WHERE {condition}").collect()]
        assert difference(kept, CONDITIONS[condition]) == ([], []), (i, condition)
