"""Tuples in IN: a list compares them as structs, in which NULL is equal to NULL; a subquery compares part by part."""

from __future__ import annotations

import pytest

from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.errors import NotIncremental, TypeMismatch
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


REFUSED_TYPES = ("((1L, 'a'))", "(('1', 'a'))", "((1, 2))", "((2, NULL))", "((1, 'a'), (2.5, 'b'))")
CONDITIONS_OF_NULL = {
    "WHERE NULL": False,
    "WHERE (NULL)": False,
    "WHERE NOT NULL": True,
    "WHERE NULL AND n = 1": True,
    "WHERE NULL OR n = 1": True,
    "WHERE CASE WHEN NULL THEN true ELSE false END": False,
    "WHERE if(NULL, true, false)": True,
    "GROUP BY n, s HAVING NULL": True,
    "WHERE CAST(NULL AS BOOLEAN)": True,
}


@pytest.mark.parametrize("values", REFUSED_TYPES)
def test_tuples_of_other_types_are_refused(values: str) -> None:
    with pytest.raises(NotIncremental, match=r"TUPLE_TYPES.*inside of tuples"):
        read_sql(f"SELECT n, s FROM x WHERE (n, s) IN {values}", SCHEMAS)


@pytest.mark.parametrize("clause", CONDITIONS_OF_NULL)
def test_null_as_a_condition(clause: str) -> None:
    text = f"SELECT n, s FROM x {clause}"
    if not CONDITIONS_OF_NULL[clause]:
        with pytest.raises(TypeMismatch, match="not a boolean"):
            read_sql(text, SCHEMAS)
        return
    found = plain(interpret(read_sql(text, SCHEMAS), {"x": from_python(SCHEMAS["x"], ROWS)}))
    assert difference(found, [(1, "a"), (1, None)] if "OR" in clause else []) == ([], [])


@pytest.mark.spark
def test_types_that_spark_refuses() -> None:
    """What is refused here is refused there, and nothing else of it."""
    spark = session()
    spark.createDataFrame(ROWS, "n INT, s STRING").createOrReplaceTempView("x")
    for values in REFUSED_TYPES:
        with pytest.raises(Exception, match="DATA_DIFF_TYPES"):
            spark.sql(f"SELECT n, s FROM x WHERE (n, s) IN {values}")
    for clause, taken in CONDITIONS_OF_NULL.items():
        if taken:
            assert spark.sql(f"SELECT n, s FROM x {clause}").count() == 2 * ("OR" in clause)
        else:
            with pytest.raises(Exception, match="MISMATCH"):
                spark.sql(f"SELECT n, s FROM x {clause}")
