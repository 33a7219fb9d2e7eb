"""SQL texts of stream steps, evaluated by DuckDB over small tables: an `Evaluator` for tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP_NTZ,
    Base,
    decimal,
)
from headwater.errors import UnknownName
from headwater.streams.columns import Fields, Row
from headwater.streams.schema import Header

TO_DUCK = {
    "bigint": "BIGINT", "int": "INTEGER", "smallint": "SMALLINT", "tinyint": "TINYINT", "double": "DOUBLE",
    "float": "FLOAT", "string": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP", "binary": "BLOB",
}  # fmt: skip
FROM_DUCK = {
    "BIGINT": BIGINT, "HUGEINT": BIGINT, "INTEGER": INTEGER, "DOUBLE": DOUBLE, "VARCHAR": STRING, "BOOLEAN": BOOLEAN,
    "DATE": DATE, "TIMESTAMP": TIMESTAMP_NTZ,
}  # fmt: skip


class DuckSQL:
    """What was asked once of the same rows is not asked again."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.known: dict[Any, Any] = {}

    def condition(self, text: str, header: Header) -> Callable[[Row], bool | None]:
        return self.expression(text, header)

    def expression(self, text: str, header: Header) -> Callable[[Row], Any]:
        self.typed(text, header)

        def value(row: Row) -> Any:
            ((found,),) = self.relation(
                f"SELECT {text} FROM {header.name}", {header.name: (header, [row])}
            )
            return found

        return value

    def typed(self, text: str, header: Header) -> Base:
        ((_, kind),) = self.columns(f"SELECT {text} AS x FROM {header.name}", {header.name: header})
        return kind

    def relation(self, text: str, tables: Mapping[str, tuple[Header, Sequence[Row]]]) -> list[Row]:
        at = (text, tuple((n, h, tuple(map(tuple, rows))) for n, (h, rows) in tables.items()))
        if at not in self.known:
            self.known[at] = self._asked(text, tables)
        return list(self.known[at])

    def _asked(self, text: str, tables: Mapping[str, tuple[Header, Sequence[Row]]]) -> list[Row]:
        for name, (header, rows) in tables.items():
            self._table(name, header)
            if rows:
                marks = ", ".join("?" * len(header.columns))
                values = ", ".join([f"({marks})"] * len(rows))
                flat = [x for row in rows for x in row]
                self.connection.execute(f'INSERT INTO "{name}" VALUES {values}', flat)
        return [tuple(row) for row in self.connection.execute(text).fetchall()]

    def columns(self, text: str, tables: Mapping[str, Header]) -> Fields:
        at = (text, str(sorted(map(str, tables.values()))))
        if at not in self.known:
            for name, header in tables.items():
                self._table(name, header)
            try:
                described = self.connection.execute(f"DESCRIBE {text}").fetchall()
            except duckdb.BinderException as error:
                raise UnknownName(str(error).splitlines()[0]) from error
            self.known[at] = tuple((row[0], _type(row[1])) for row in described)
        return self.known[at]  # type: ignore[no-any-return]

    def reads(self, text: str, header: Header) -> frozenset[str]:
        return frozenset(c.name for c in sqlglot.parse_one(text).find_all(exp.Column))

    def fewer(self, text: str) -> bool:
        query = sqlglot.parse_one(text)
        widens = (exp.Join, exp.SetOperation, exp.Unnest, exp.Lateral, exp.Explode)
        return isinstance(query, exp.Select) and query.find(*widens) is None

    def _table(self, name: str, header: Header) -> None:
        kinds = ", ".join(f'"{column}" {_duck(kind)}' for column, kind in header.fields)
        self.connection.execute(f'CREATE OR REPLACE TEMP TABLE "{name}" ({kinds})')


def _duck(kind: Base) -> str:
    return (
        f"DECIMAL({kind.precision},{kind.scale})" if kind.name == "decimal" else TO_DUCK[kind.name]
    )


def _type(name: str) -> Base:
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name)
    return decimal(int(found[1]), int(found[2])) if found else FROM_DUCK[name]
