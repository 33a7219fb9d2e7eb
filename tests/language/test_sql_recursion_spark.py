"""Recursive queries against Spark's own WITH RECURSIVE: answers, types, levels, and what Spark refuses, too."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import elements
from headwater.errors import NoFixpoint, NotIncremental
from headwater.language.schema import schemas, sql_name
from headwater.language.sql import read_sql
from headwater.language.sql.recursive_steps import steps
from spark_session import session

pytestmark = pytest.mark.spark
SCHEMAS = schemas("e(src BIGINT, dst BIGINT)")
EDGES = [(1, 2), (1, 2), (2, 3), (3, 4), (0, 3), (None, 1), (4, None)]


@pytest.fixture(scope="module")
def spark() -> Any:
    made = session()
    made.createDataFrame(EDGES, "src BIGINT, dst BIGINT").createOrReplaceTempView("e")
    return made


def answer(text: str) -> tuple[Counter[Any], list[str]]:
    term = read_sql(text, SCHEMAS)
    found = interpret(term, {"e": from_python(SCHEMAS["e"], EDGES)})
    return Counter(elements(found)), [sql_name(t) for _, t in type_of(term).key.fields]


TAKEN = {
    "paths": "t AS (SELECT src, dst FROM e UNION ALL SELECT t.src, e.dst FROM t JOIN e ON t.dst = e.src) SELECT * FROM t",
    "two steps": """t(n) AS (SELECT src FROM e UNION ALL
        (SELECT e.dst FROM t JOIN e ON e.src = n UNION ALL SELECT n + 2 FROM t WHERE n < 4)) SELECT * FROM t""",
    "starts of two types": """t(n) AS (SELECT 1 UNION ALL SELECT 2L UNION ALL SELECT CAST(n AS INT) + 1 FROM t WHERE n < 5)
        SELECT * FROM t""",
    "NULL in the step": "t(n, m) AS (SELECT 1, 1 UNION ALL SELECT NULL, m + 1 FROM t WHERE m < 3) SELECT * FROM t",
    "rows kept by a left join": """t(n) AS (SELECT src FROM e UNION ALL
        SELECT coalesce(e.dst, n + 1) FROM t LEFT JOIN e ON e.src = n AND e.dst > n WHERE n < 4) SELECT * FROM t""",
    "rows that match nothing": "t(n) AS (SELECT 9L UNION ALL SELECT n - 1 FROM t LEFT ANTI JOIN e ON e.src = n) SELECT * FROM t",
    "a loop in a step": """t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4),
        u(m) AS (SELECT src FROM e UNION ALL SELECT m + t.n FROM u JOIN t ON m = t.n) SELECT * FROM u""",
    "queries in the query": """t(n) AS (WITH u AS (SELECT 5L AS m) SELECT src FROM e UNION ALL
        (WITH v AS (SELECT n FROM t) SELECT n + 1 FROM v JOIN u ON n < m)) SELECT * FROM t""",
    "levels that are enough": "t(n) MAX RECURSION LEVEL 5 AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t",
}  # fmt: skip
FAILED = {
    "levels that are not": "t(n) MAX RECURSION LEVEL 4 AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t",
    "no level": "t(n) MAX RECURSION LEVEL 0 AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 0) SELECT * FROM t",
}  # fmt: skip
REFUSED = {
    "a wider step": "t(n) AS (SELECT 1 UNION ALL SELECT n + 1L FROM t WHERE n < 5) SELECT * FROM t",
    "a decimal that grows": "t(n) AS (SELECT 1.5 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t",
    "a start of NULL": "t(n, m) AS (SELECT NULL, 1 UNION ALL SELECT m, m + 1 FROM t WHERE m < 3) SELECT * FROM t",
    "an aggregate": "t(n) AS (SELECT 1 UNION ALL SELECT max(n) + 1 FROM t WHERE n < 5) SELECT * FROM t",
    "steps in a row": """t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5
        UNION ALL SELECT n + 2 FROM t WHERE n < 5) SELECT * FROM t""",
    "a step first": "t(n) AS (SELECT n + 1 FROM t WHERE n < 5 UNION ALL SELECT 1) SELECT * FROM t",
    "no start": "e AS (SELECT src + 1 AS src FROM e) SELECT * FROM e",
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_answers_are_those_of_spark(spark: Any, name: str) -> None:
    text = f"WITH RECURSIVE {TAKEN[name]}"
    frame = spark.sql(text)
    found, types = answer(text)
    assert found == Counter(map(tuple, frame.collect()))
    assert types == [f.dataType.simpleString() for f in frame.schema]


@pytest.mark.parametrize("name", FAILED)
def test_levels_end_where_those_of_spark_do(spark: Any, name: str) -> None:
    text = f"WITH RECURSIVE {FAILED[name]}"
    with pytest.raises(Exception, match="RECURSION_LEVEL_LIMIT_EXCEEDED"):
        spark.sql(text).collect()
    with pytest.raises(NoFixpoint):
        answer(text)


@pytest.mark.parametrize("name", REFUSED)
def test_what_spark_refuses_is_refused(spark: Any, name: str) -> None:
    text = f"WITH RECURSIVE {REFUSED[name]}"
    with pytest.raises(Exception):  # noqa: B017
        spark.sql(text).collect()
    with pytest.raises(NotIncremental) as refused:
        answer(text)
    assert refused.value.reason in ("RECURSION_SHAPE", "RECURSION_TYPES")


CLOSURE = """WITH MUTUALLY RECURSIVE t (a BIGINT, b BIGINT) AS (
    SELECT src, dst FROM e UNION SELECT x.a, y.b FROM t x JOIN t y ON x.b = y.a) SELECT a, count(*) AS n FROM t GROUP BY a"""


def test_rounds_on_spark(spark: Any) -> None:
    """What Spark does not take it computes round by round."""
    taken = steps(CLOSURE, SCHEMAS)
    assert taken is not None
    ((binding,),) = [part.bindings for part in taken.parts]
    columns = ", ".join(f"{n} {sql_name(t)}" for n, t in binding.columns)
    now: list[Any] = []
    for _ in range(6):
        spark.createDataFrame(now, columns).createOrReplaceTempView(binding.name)
        now = [tuple(row) for row in spark.sql(binding.text).collect()]
    found = Counter(map(tuple, spark.sql(taken.main).collect()))
    spark.catalog.dropTempView(binding.name)
    assert found == answer(CLOSURE)[0]
