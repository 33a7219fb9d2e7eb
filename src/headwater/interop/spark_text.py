"""Types, names and constants as Spark SQL writes them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from headwater.calculus import types as ty
from headwater.calculus.lists import show_list
from headwater.calculus.types import Base, KeyType, RecordType
from headwater.errors import NotIncremental

_SUFFIX = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}


def spark_type(t: KeyType) -> str:
    """A type as Spark's DDL text."""
    match t:
        case Base():
            return str(t)
        case RecordType(fields):
            inside = ", ".join(f"{column_name(n)}: {spark_type(f)}" for n, f in fields)
            return f"struct<{inside}>"
        case ty.Boxed(ty.MapType(key, _)) | ty.ListType(key):
            return f"array<{spark_type(key)}>"
        case _:
            raise NotIncremental("EXPRESSION", f"Spark has no type for {t}")


def column_name(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """A string constant, which neither the parser nor the substitution of `${...}` changes."""
    return "'" + "".join(map(_escaped, value)) + "'"


def _escaped(c: str) -> str:
    if c in "\\'":
        return "\\" + c
    return f"\\u{ord(c):04x}" if c == "$" or c < " " or "\x7f" <= c <= "\xa0" else c


def literal(value: Any, t: KeyType) -> str | None:
    """A constant of a type; None if it cannot be written."""
    if value is None:
        return "NULL" if str(t) == "void" else f"CAST(NULL AS {spark_type(t)})"
    match t:
        case RecordType(fields):
            parts = [literal(v, f) for v, (_, f) in zip(value, fields, strict=True)]
            if None in parts or not parts:
                return None
            named = zip(fields, parts, strict=True)
            return f"named_struct({', '.join(f'{text(n)}, {p}' for (n, _), p in named)})"
        case ty.ListType(element):
            return f"array({', '.join(str(literal(v, element)) for v in value)})"
        case Base("boolean"):
            return "TRUE" if value else "FALSE"
        case Base("string"):
            return text(value)
        case Base("binary"):
            return f"X'{value.hex()}'"
        case Base("date"):
            return f"DATE'{value.isoformat()}'"
        case Base("timestamp"):
            return f"TIMESTAMP'{tree_value(value)} UTC'"
        case Base("timestamp_ntz"):
            return f"TIMESTAMP_NTZ'{tree_value(value)}'"
        case Base(name) if name in _SUFFIX:
            return f"({value}{_SUFFIX[name]})" if value < 0 else f"{value}{_SUFFIX[name]}"
        case Base("float" | "double" | "decimal"):
            return f"CAST('{tree_value(value)}' AS {t})"
        case _:
            return None


def tree_value(value: Any) -> Any:
    """A constant as JSON: numbers that are not integers, dates and bytes as text."""
    match value:
        case float():
            if math.isfinite(value):
                return repr(value)
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            return f"{value:f}"
        case datetime():
            local = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return local.isoformat(sep=" ")
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case tuple():
            return show_list(value)
        case _:
            return value
