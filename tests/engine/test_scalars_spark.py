"""Scalars at their edges against Spark: values, result types, and what is an error in ANSI mode."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.calculus.check import type_of
from headwater.calculus.interpret import interpret
from headwater.calculus.types import INTEGRAL
from headwater.errors import ScalarError, TypeMismatch
from headwater.language.schema import sql_name
from headwater.language.sql import read_sql
from spark_session import session
from sql.corpus import same

pytestmark = pytest.mark.spark

EXPRESSIONS = """
'it''s'; 'a' 'b'; 'a''''b'; 1 + 2; 2147483647 + 1; 9223372036854775807 + 1; 1 - 2L; -7 % 3; 7 % -3; 7.5 % 2; 7 div -2; 1 div 0; 1 / 0
1 / 3; 1.5 * 2; 2.0 / 3; cast(1 as decimal(10,2)) / 3; 0.1 + 0.2; 1.10 - 1.1; 99999.99 * 99999.99
cast(1 as decimal(38,10)) * cast(1 as decimal(38,10)); 10.5 / 0; 1e0 / 3; 1e308 * 10; 0.1 = 0.1D; -0.0D = 0.0D
abs(-2.5); abs(-9223372036854775808); sign(-2); floor(1.5); floor(-1.5); floor(1.5D); ceil(-0.5); ceil(1.2D)
floor(cast('NaN' as double)); sqrt(-1); sqrt(4); power(2, 10); power(10, 400); round(2.5); round(-2.5)
round(2.345, 2); round(25, -1); round(2.5D); round(1.005D, 2); greatest(1, null, 2); least(1.5, 2); greatest('a', 'b')
coalesce(null, 1, 2.5); nullif(1, 1.0); nullif(1, 2); if(1 > 2, 'a', 'b')
case 1 when 2 then 'x' end; nvl2(null, 1, 2); null + 1; null = null; null <=> null; 1 <=> null; not null
true and null; false and null; true or null; 'a' < 'B'; 'a' < 'aa'; date'2024-01-02' < timestamp'2024-01-02 00:00:01'
date'2024-01-02' = '2024-01-02'; 1 = '1'; 2 > '1.5'; 1 in (1, null); 2 in (1, null); 2 between 1 and null
upper('straße'); lower('ÀÉ'); length('héé'); trim('  a '); ltrim('  a '); rtrim(' a '); reverse('abc')
concat('a', null); concat('a', 1); 'a' || 'b'; replace('aaa', '', 'b'); replace('abab', 'ab', 'c'); instr('abc', 'c')
left('abc', 5); right('abc', 2); right('abc', 0); repeat('ab', 2); substring('hello', 0, 2); substring('hello', -3, 2)
substring('hello', 2); substring('hello', 9); substring('hello', -9, 6); startswith('abc', 'ab'); contains('abc', 'd')
'a_b' like 'a\\_b'; 'axb' like 'a_b'; 'abc' like '%'; 'a%c' like 'a\\%c'; 'ABC' ilike 'a%'; 'a!%' like 'a!!!%' escape '!'
year(date'2024-05-06'); quarter(date'2024-05-06'); month(date'2024-05-06'); day(date'2024-05-06')
dayofweek(date'2024-05-05'); dayofyear(date'2024-05-06'); weekofyear(date'2021-01-03'); hour(timestamp'2024-05-06 07:08:09')
minute(timestamp'2024-05-06 07:08:09'); second(timestamp'2024-05-06 07:08:09'); date_add(date'2024-02-28', 2)
date_sub(date'2024-03-01', 1); datediff(date'2024-01-01', date'2023-12-31'); add_months(date'2024-01-31', 1)
add_months(date'2024-02-29', 12); last_day(date'2024-02-03'); trunc(date'2024-05-16', 'week'); trunc(date'2024-05-16', 'quarter')
trunc(date'2024-05-16', 'nonsense'); date'2024-01-31' + interval 1 month; date'2024-03-01' - interval '1' day
cast('1.9' as int); cast(' 12 ' as int); cast('1e3' as double); cast('1_0' as double); cast('1.5d' as double)
cast('nan' as double); cast('inf' as double); cast('x' as int); cast('300' as tinyint); cast(300 as tinyint)
cast(1.9 as int); cast(-1.9 as int); cast(2.5D as int); cast(1e20 as bigint); cast(true as int); cast(0 as boolean)
cast('yes' as boolean); cast('maybe' as boolean); cast('2024-2-3' as date); cast('20240203' as date); cast('2024' as date)
cast('2024-01-02T03:04' as date); cast('2024-13-01' as date); cast(date'2024-01-02' as string); cast(1.50 as string)
cast(1e10 as string); cast(0.0001D as string); cast(1D as string); cast(123456789D as string); cast(1.0E-5 as string)
cast(true as string); cast(12.345 as decimal(4,2)); cast(123.45 as decimal(4,2)); cast('12.345' as decimal(5,2))
try_cast('x' as int); try_cast('5' as int); cast(timestamp'2024-01-02 03:04:05.600' as string); cast(null as int)
"""


def expressions() -> list[str]:
    return [
        e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split(";") if e.strip()
    ]


@pytest.fixture(scope="module")
def spark() -> Any:
    return session()


@pytest.mark.parametrize("expression", expressions())
def test_spark_agrees(spark: Any, expression: str) -> None:
    text = f"SELECT {expression} AS v"
    try:
        frame = spark.sql(text)
        expected: Any = (frame.collect()[0][0], frame.schema[0].dataType.simpleString())
    except Exception as e:  # Spark's own error, whatever its class
        assert "Exception" in type(e).__name__, e
        expected = None
    try:
        term = read_sql(text, {})
        ((row, _),) = interpret(term, {}).items()
        found: Any = (row[0], sql_name(type_of(term).key.fields[0][1]))
    except (ScalarError, TypeMismatch):
        found = None
    if expected is None or found is None:
        assert found == expected
        return
    assert same(found[0], expected[0]), (found, expected)
    widths = {expected[1], found[1]}
    assert found[1] == expected[1] or widths <= set(INTEGRAL), (found, expected)
