"""The tables that the SQL corpus runs on: small, and unkind.

Join keys are skewed, rows repeat, every column has a NULL (also those that queries join and group
by), arrays are NULL, empty, and have NULLs inside, and one table has no rows. Doubles are multiples
of 0.25, so that sums of them are exact in any order.

Three databases come out of the rows: all of them, every second one, and none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import duckdb

from headwater.calculus.types import Base, Boxed, MapType, RecordType, Type
from headwater.language.schema import schemas

Rows = Sequence[tuple[Any, ...]]

SCHEMA = """
r(a BIGINT, b BIGINT, s STRING);
s(b BIGINT, c BIGINT, d DECIMAL(8,2));
t(a BIGINT, x DOUBLE, day DATE, flag BOOLEAN);
empty(a BIGINT, b BIGINT);
orders(orderkey BIGINT, custkey BIGINT, day DATE, price DECIMAL(12,2), status STRING);
customer(custkey BIGINT, name STRING, nation BIGINT);
nested(id BIGINT, items ARRAY<STRUCT<part: BIGINT, qty: BIGINT>>, tags ARRAY<STRING>)
"""

SCHEMAS = schemas(SCHEMA)

ROWS: dict[str, Rows] = {
    "r": [
        (1, 1, "x"),
        (1, 1, "x"),
        (1, 2, "Apple"),
        (2, 1, None),
        (2, None, "x"),
        (None, 1, "apple pie"),
        (None, None, None),
        (3, 3, "  pad "),
        (1, 1, "x"),
        (4, 2, ""),
        (7, 5, "a%b_c"),
        (2, 1, "banana"),
        (None, 1, "x"),
    ],
    "s": [
        (1, 10, Decimal("1.50")),
        (1, 10, Decimal("1.50")),
        (1, 20, Decimal("-2.25")),
        (2, 10, None),
        (None, 30, Decimal("0.00")),
        (3, None, Decimal("100.00")),
        (None, None, None),
        (2, 2, Decimal("0.05")),
        (1, 1, Decimal("12.34")),
        (8, 5, Decimal("-0.50")),
        (1, 10, Decimal("1.50")),
    ],
    "t": [
        (1, 0.25, date(2024, 1, 31), True),
        (1, -1.5, date(2024, 2, 29), False),
        (1, 0.25, date(2024, 1, 31), True),
        (2, None, date(2023, 12, 31), None),
        (None, 2.75, None, True),
        (2, 2.5, date(2024, 3, 1), False),
        (3, 0.0, date(2024, 3, 17), None),
        (None, None, None, None),
        (9, 1000.5, date(2020, 2, 29), True),
        (1, -0.75, date(2024, 1, 31), False),
    ],
    "empty": [],
    "orders": [
        (1, 1, date(2024, 1, 5), Decimal("100.00"), "O"),
        (2, 1, date(2024, 1, 31), Decimal("250.50"), "F"),
        (2, 1, date(2024, 1, 31), Decimal("250.50"), "F"),
        (3, 2, date(2024, 2, 10), Decimal("0.99"), "O"),
        (4, 1, None, Decimal("75.25"), None),
        (5, None, date(2024, 3, 17), Decimal("10.00"), "P"),
        (6, 3, date(2023, 12, 31), None, "F"),
        (None, 2, date(2024, 2, 29), Decimal("33.33"), "O"),
        (8, 1, date(2024, 1, 5), Decimal("-5.00"), "O"),
        (9, 42, date(2024, 1, 31), Decimal("1000.00"), "P"),
        (10, 2, date(2024, 2, 10), Decimal("0.99"), "F"),
        (None, None, None, None, None),
    ],
    "customer": [
        (1, "Ann", 1),
        (2, "Bob", 2),
        (3, None, 1),
        (1, "Anna", 1),
        (None, "Nobody", None),
        (4, "Dee", 2),
        (2, "Bob", 2),
        (5, "Eve", None),
        (6, "bob", 3),
    ],
    "nested": [
        (1, [(10, 2), (10, 2), (20, 1)], ["x", "y", "x"]),
        (2, [], []),
        (3, None, None),
        (None, [(30, None)], ["x"]),
        (1, [(20, 5), (None, 3)], [None, "z"]),
        (4, [None, (10, 1)], None),
        (5, None, ["y", "y"]),
        (1, [(10, 2), (10, 2), (20, 1)], ["x", "y", "x"]),
        (2, [(40, 7)], [""]),
    ],
}

NONE: dict[str, Rows] = {name: [] for name in ROWS}
EVEN: dict[str, Rows] = {name: rows[::2] for name, rows in ROWS.items()}
ODD: dict[str, Rows] = {name: rows[1::2] for name, rows in ROWS.items()}

DATABASES: dict[str, Mapping[str, Rows]] = {"all": ROWS, "half": EVEN, "none": NONE}


def load(database: Mapping[str, Rows]) -> duckdb.DuckDBPyConnection:
    """A fresh in-memory DuckDB with the tables of a database."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    for name, rows in database.items():
        fields = _fields(SCHEMAS[name])
        connection.execute(
            f"CREATE TABLE {name} ({', '.join(f'{n} {_ddl(t)}' for n, t in fields)})"
        )
        for row in rows:
            marks = ", ".join(f"CAST(? AS {_ddl(t)})" for _, t in fields)
            values = [_parameter(t, v) for (_, t), v in zip(fields, row, strict=True)]
            connection.execute(f"INSERT INTO {name} VALUES ({marks})", values)
    return connection


def _fields(table: MapType) -> tuple[tuple[str, Type], ...]:
    assert isinstance(table.key, RecordType)
    return table.key.fields


def _ddl(t: Type) -> str:
    """A type of the calculus in DuckDB's words."""
    match t:
        case Base("string"):
            return "VARCHAR"
        case Boxed(MapType(element, _)):
            return f"{_ddl(element)}[]"
        case RecordType(fields):
            return f"STRUCT({', '.join(f'{n} {_ddl(f)}' for n, f in fields)})"
        case _:
            return str(t)


def _parameter(t: Type, value: Any) -> Any:
    """A row's value as DuckDB binds it: records become dicts."""
    match t:
        case Boxed(MapType(element, _)) if value is not None:
            return [_parameter(element, v) for v in value]
        case RecordType(fields) if value is not None:
            return {n: _parameter(f, v) for (n, f), v in zip(fields, value, strict=True)}
        case _:
            return value
