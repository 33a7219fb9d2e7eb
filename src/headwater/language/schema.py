"""Schemas: DDL text into types of the calculus.

A table is a bag of records; an array is a boxed bag, so `ARRAY<STRUCT<...>>` nests. sqlglot reads
the text; this file only maps its types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlglot
from sqlglot import exp

from headwater.calculus.types import (
    Boxed,
    KeyType,
    ListType,
    MapType,
    RecordType,
    Type,
    bag,
    decimal,
)
from headwater.errors import ParseError
from headwater.interop.scalar_types import SCALAR_TYPES

Schemas = Mapping[str, MapType]

EXAMPLE = "write columns with Spark's types: id BIGINT, item STRING"

MOST_DIGITS = 38
_KINDS = exp.DataType.Type
_SCALARS: dict[Any, KeyType] = {_KINDS[name]: s.key for s in SCALAR_TYPES for name in s.ddl}


def type_of_ddl(data_type: exp.DataType) -> KeyType:
    """A Spark SQL type as a key type."""
    kind = data_type.this
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind == _KINDS.DECIMAL:
        sizes = [int(p.name) for p in data_type.expressions]
        precision, scale = [*sizes, 0][:2] if sizes else (10, 0)
        if not (1 <= precision <= MOST_DIGITS and 0 <= scale <= precision):
            raise ParseError(
                f"there is no type DECIMAL({precision},{scale})",
                hint=f"a decimal has {MOST_DIGITS} digits at most, and not more of them behind the point",
            )
        return decimal(precision, scale)
    if kind == _KINDS.ARRAY and data_type.expressions:
        return Boxed(bag(type_of_ddl(data_type.expressions[0])))
    if kind == _KINDS.STRUCT:
        return RecordType(
            tuple((c.name, type_of_ddl(c.args["kind"])) for c in data_type.expressions)
        )
    raise ParseError(
        f"the type {data_type.sql(dialect='spark')} cannot be a column",
        hint="use a scalar type, ARRAY<...> or STRUCT<...>",
    )


def sql_name(t: Type) -> str:
    """A type as Spark SQL writes it."""
    match t:
        case Boxed(MapType(key, _)) | ListType(key):
            return f"array<{sql_name(key)}>"
        case RecordType(fields):
            return f"struct<{', '.join(f'{n}: {sql_name(f)}' for n, f in fields)}>"
        case _:
            return str(t)


def schema_tree(ddl: str) -> list[exp.Expression]:
    """Columns and constraints of a table as sqlglot reads them."""
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect="spark")
    except sqlglot.errors.SqlglotError as e:
        at = e.errors[0] if isinstance(e, sqlglot.errors.ParseError) and e.errors else {}
        near = f"near `{at['highlight']}`; " if at.get("highlight") else ""
        raise ParseError(f"cannot read the schema `{ddl}`", hint=near + EXAMPLE) from e
    if not isinstance(table.this, exp.Schema) and ddl.strip():
        raise ParseError(f"cannot read the schema `{ddl}`", hint=EXAMPLE)
    return list(table.this.expressions)


_CONSTRAINTS = (exp.PrimaryKey, exp.Constraint, exp.ForeignKey, exp.ColumnConstraintKind)


def columns(ddl: str) -> RecordType:
    """The columns of a table from DDL text: `a BIGINT, b ARRAY<STRUCT<c: STRING>>`."""
    fields = []
    for column in schema_tree(ddl):
        if isinstance(column, _CONSTRAINTS):
            continue  # what a schema says beside its columns is read by `declared`
        if not isinstance(column, exp.ColumnDef) or column.args.get("kind") is None:
            what = column.sql(dialect="spark")
            raise ParseError(f"`{what}` is no column with a type in `{ddl}`", hint=EXAMPLE)
        fields.append((column.name, type_of_ddl(column.args["kind"])))
    names = [n.lower() for n, _ in fields]
    repeated = {n for n in names if names.count(n) > 1}
    if repeated:
        raise ParseError(
            f"the schema `{ddl}` names {', '.join(sorted(repeated))} twice",
            hint="upper and lower case are the same in names; rename one",
        )
    return RecordType(tuple(fields))


def schemas(text: str) -> dict[str, MapType]:
    """Several tables: `r(a BIGINT, b BIGINT); s(b BIGINT)`."""
    out: dict[str, MapType] = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, bracket, rest = part.partition("(")
        if not bracket or not rest.endswith(")"):
            raise ParseError(f"cannot read the table `{part}`", hint="write name(column TYPE, ...)")
        out[name.strip()] = bag(columns(rest[:-1]))
    return out
