"""PostgreSQL's types beside those of Headwater: which column may be read as which, and texts as values.

A server prints every value as text in one way (`SESSION` fixes what depends on settings), in a copy of a table as in its
changes; `typed` reads a column of such texts. What PostgreSQL has and Spark has not (infinite dates, numbers that are none
in NUMERIC, years before 1) is a value that does not fit, and is told with its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus import types as ty
from headwater.calculus.types import Base, KeyType
from headwater.interop.arrow_types import arrow_type
from headwater.interop.scalar_types import SCALAR_TYPES

SESSION = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; "
    "SET extra_float_digits = 1; SET bytea_output = 'hex'; SET client_encoding = 'UTF8'"
)
"""What makes a server print values in the one way that is read here."""

_TEXTS = (ty.STRING,)
READ_AS: dict[str, tuple[KeyType, ...]] = {
    "int2": (ty.SMALLINT, ty.INTEGER, ty.BIGINT),
    "int4": (ty.INTEGER, ty.BIGINT),
    "int8": (ty.BIGINT,),
    "float4": (ty.FLOAT, ty.DOUBLE),
    "float8": (ty.DOUBLE,),
    "bool": (ty.BOOLEAN,),
    "text": _TEXTS,
    "varchar": _TEXTS,
    "bpchar": _TEXTS,
    "name": _TEXTS,
    "uuid": _TEXTS,
    "json": _TEXTS,
    "jsonb": _TEXTS,
    "date": (ty.DATE,),
    "timestamp": (ty.TIMESTAMP_NTZ,),
    "timestamptz": (ty.TIMESTAMP,),
    "bytea": (ty.BINARY,),
}
"""The types that a column of PostgreSQL may be declared as, nearest first; NUMERIC has digits and is beside them."""

WRITTEN_AS: dict[str, str] = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "boolean": "boolean",
    "string": "text",
    "date": "date",
    "timestamp_ntz": "timestamp",
    "timestamp": "timestamptz",
    "binary": "bytea",
}
"""The types of the columns of a table that is made for a view."""


def can_read(typename: str, modifier: int, t: KeyType) -> bool:
    """Whether every value of a column of PostgreSQL, or every one that can be told apart, is one of a type."""
    if typename == "numeric":
        if not (isinstance(t, Base) and t.name == "decimal"):
            return False
        if modifier < 4:  # of any size: what does not fit is told with its row
            return True
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        return scale <= t.scale and precision - scale <= t.precision - t.scale
    return t in READ_AS.get(typename, ())


def suggested(typename: str, modifier: int) -> str:
    """The type that a column of PostgreSQL would be declared as; "" where there is none."""
    if typename == "numeric":
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        return f"DECIMAL({precision}, {scale})" if modifier >= 4 else "DECIMAL(38, 10)"
    return str(READ_AS[typename][0]).upper() if typename in READ_AS else ""


def written_as(t: KeyType | None) -> str | None:
    """The type of a column that keeps values of a type; None where PostgreSQL has none for it."""
    if isinstance(t, Base) and t.name == "decimal":
        return f"numeric({t.precision}, {t.scale})"
    return WRITTEN_AS.get(str(t))


def of_arrow(t: pa.DataType) -> KeyType | None:
    """The type of a column of a view; None for nested ones."""
    if pa.types.is_decimal(t):
        return Base("decimal", t.precision, t.scale)
    return next((s.key for s in SCALAR_TYPES if s.arrow == t), None)


def typed(texts: Any, t: KeyType) -> pa.Array:
    """Texts of a server as values of a type; raises what Arrow raises where one does not fit."""
    wanted = arrow_type(t)
    column = (
        texts if isinstance(texts, pa.Array | pa.ChunkedArray) else pa.array(texts, pa.string())
    )
    if t == ty.STRING:
        return column.cast(wanted)
    if t == ty.BOOLEAN:
        return pc.equal(column, "t")
    if t == ty.BINARY:
        found = [None if v is None else bytes.fromhex(v[2:]) for v in column.to_pylist()]
        return pa.array(found, wanted)
    if t == ty.TIMESTAMP:  # the session is in UTC, and so ends every text
        plain = pc.replace_substring_regex(column, r"\+00(:00)?$", "")
        return plain.cast(pa.timestamp("us")).cast(wanted)
    return column.cast(wanted)


def unfitting(column: Sequence[str | None], t: KeyType) -> list[int]:
    """The places of the texts that are no values of a type."""
    out = []
    for i, text in enumerate(column):
        try:
            typed([text], t)
        except (pa.ArrowException, ValueError):
            out.append(i)
    return out
