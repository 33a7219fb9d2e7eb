"""The names of output columns without an alias: Spark's, or refused with the advice to give one."""

from __future__ import annotations

import pytest

from headwater.calculus.check import type_of
from headwater.errors import NotIncremental
from headwater.language.schema import schemas, sql_name
from headwater.language.sql import read_sql
from spark_session import session

SCHEMAS = schemas("x(n BIGINT, m BIGINT, s STRING, f BOOLEAN, d DATE, p STRUCT<q: BIGINT>)")
EXPRESSIONS = {
    "n": "n",
    "N": "N",
    "x.n": "n",
    "`n`": "n",
    "(n)": "n",
    "((n))": "n",
    "p.q": "q",
    "x.p.q": "q",
    "n + 1": "(n + 1)",
    "(n + 1)": "(n + 1)",
    "n - -1": "(n - -1)",
    "n + 1 + 2": "((n + 1) + 2)",
    "n + (m * 2)": "(n + (m * 2))",
    "n / m": "(n / m)",
    "n % 2": "(n % 2)",
    "n DIV 2": "(n div 2)",
    "-n": "(- n)",
    "- (n + 1)": "(- (n + 1))",
    "+n": "(+ n)",
    "n || s || 'x'": "concat(concat(n, s), x)",
    "1": "1",
    "-1": "-1",
    "1.50": "1.50",
    "'a b'": "a b",
    "true": "true",
    "NULL": "NULL",
    "n = 1": "(n = 1)",
    "n <> 1": "(NOT (n = 1))",
    "n != m": "(NOT (n = m))",
    "n <=> m": "(n <=> m)",
    "n >= m": "(n >= m)",
    "n = '1'": "(n = 1)",
    "NOT f": "(NOT f)",
    "f AND n = 1": "(f AND (n = 1))",
    "f OR f OR f": "((f OR f) OR f)",
    "f AND f AND f AND f": "((f AND f) AND (f AND f))",
    "f AND f AND f AND f AND f": "(((f AND f) AND f) AND (f AND f))",
    "n IS NULL": "(n IS NULL)",
    "n IS NOT NULL": "(n IS NOT NULL)",
    "n IN (1, 2)": "(n IN (1, 2))",
    "n NOT IN (1, 2)": "(NOT (n IN (1, 2)))",
    "n BETWEEN 1 AND m": "between(n, 1, m)",
    "n NOT BETWEEN 1 AND 2": "(NOT between(n, 1, 2))",
    "s LIKE 'a%'": "s LIKE a%",
    "s NOT LIKE 'a'": "(NOT s LIKE a)",
    "CAST(n AS STRING)": "n",
    "CAST(n + 1 AS INT)": "CAST((n + 1) AS INT)",
    "CAST(CAST(n AS STRING) AS DECIMAL(10,2))": "CAST(CAST(n AS STRING) AS DECIMAL(10,2))",
    "n::string": "n",
    "upper(s)": "upper(s)",
    "LOWER(s)": "lower(s)",
    "substring(s, 1, 2)": "substring(s, 1, 2)",
    "coalesce(n, 0)": "coalesce(n, 0)",
    "nvl(n, 0)": "nvl(n, 0)",
    "nullif(n, 1)": "nullif(n, 1)",
    "abs(n)": "abs(n)",
    "round(n)": "round(n, 0)",
    "round(n / 3, 1)": "round((n / 3), 1)",
    "floor(n)": "FLOOR(n)",
    "sqrt(n)": "SQRT(n)",
    "power(n, 2)": "POWER(n, 2)",
    "concat(s, 'x')": "concat(s, x)",
    "year(d)": "year(d)",
    "month(d)": "month(d)",
    "last_day(d)": "last_day(d)",
    "add_months(d, 1)": "add_months(d, 1)",
    "CASE WHEN n = 1 THEN 'x' ELSE s END": "CASE WHEN (n = 1) THEN x ELSE s END",
    "CASE n WHEN 1 THEN 2 END": "CASE WHEN (n = 1) THEN 2 END",
    "(SELECT max(n) FROM x)": "scalarsubquery()",
    "EXISTS (SELECT 1 FROM x)": "exists()",
    "n IN (SELECT m FROM x)": "(n IN (listquery()))",
}
AGGREGATES = {
    "count(*)": "count(1)",
    "COUNT(1)": "count(1)",
    "count(n)": "count(n)",
    "count(DISTINCT n)": "count(DISTINCT n)",
    "count(DISTINCT n, m)": "count(DISTINCT n, m)",
    "sum(n)": "sum(n)",
    "sum(n + 1)": "sum((n + 1))",
    "Sum(x.N)": "sum(N)",
    "avg(n)": "avg(n)",
    "max(n) - min(n)": "(max(n) - min(n))",
    "sum(n) / count(*)": "(sum(n) / count(1))",
    "round(avg(n), 2)": "round(avg(n), 2)",
    "sum(n) FILTER (WHERE m > 1)": "sum(n) FILTER (WHERE (m > 1))",
    "stddev(n)": "stddev(n)",
    "bool_and(n = 1)": "bool_and((n = 1))",
    "count_if(n > 1)": "count_if((n > 1))",
    "max_by(n, m)": "max_by(n, m)",
    "collect_list(n)": "collect_list(n)",
}
ALL = {**EXPRESSIONS, **AGGREGATES}


@pytest.mark.parametrize("expression", ALL)
def test_name(expression: str) -> None:
    term = read_sql(f"SELECT {expression} FROM x", SCHEMAS)
    assert [n for n, _ in type_of(term).key.fields] == [ALL[expression]]


@pytest.mark.parametrize(
    "expression",
    [
        *("sum(n) OVER (PARTITION BY m)", "1e3", "1L", "DATE '2020-01-01'", "if(f, 1, 2)"),
        *(
            "array_agg(n)",
            "extract(YEAR FROM d)",
            "d + INTERVAL 1 DAY",
            "try_cast(s || 'x' AS INT)",
        ),
        "row_number() OVER (ORDER BY n)",
    ],
)
def test_no_name_that_is_certain(expression: str) -> None:
    with pytest.raises(NotIncremental) as caught:
        read_sql(f"SELECT {expression} FROM x", SCHEMAS)
    assert caught.value.reason == "NO_NAME" and "AS name" in caught.value.hint
    read_sql(f"SELECT {expression} AS y FROM x", SCHEMAS)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT n FROM x WHERE n IN (SELECT if(f, 1, 2) FROM x)",
        "SELECT n FROM x UNION ALL SELECT if(f, 1, 2) FROM x",
        "SELECT n FROM x EXCEPT SELECT if(f, 1, 2) FROM x",
        "SELECT n FROM x WHERE EXISTS (SELECT 1L, 1L FROM x)",
    ],
)
def test_columns_that_nobody_names_need_no_name(query: str) -> None:
    read_sql(query, SCHEMAS)


@pytest.mark.parametrize(
    "query",
    ["SELECT DISTINCT(n) FROM x ORDER BY n LIMIT 3", "SELECT (n) FROM x ORDER BY n LIMIT 3"],
)
def test_brackets_are_no_part_of_a_name(query: str) -> None:
    assert read_sql(query, SCHEMAS) == read_sql(query.replace("(n)", " n"), SCHEMAS)


@pytest.mark.spark
def test_names_are_those_of_spark() -> None:
    columns = ", ".join(f"{n} {sql_name(t)}" for n, t in SCHEMAS["x"].key.fields)  # type: ignore[union-attr]
    spark = session()
    spark.createDataFrame([], columns).createOrReplaceTempView("x")
    for group in (EXPRESSIONS, AGGREGATES):
        found = spark.sql(f"SELECT {', '.join(group)} FROM x").columns
        assert dict(zip(group, found, strict=True)) == group
