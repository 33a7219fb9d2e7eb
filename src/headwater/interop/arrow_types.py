"""Key types as the types of Arrow; their names in Spark's DDL are in `spark_text`."""

from __future__ import annotations

import pyarrow as pa

from headwater.calculus.types import Base, Boxed, KeyType, ListType, MapType, RecordType
from headwater.errors import NotIncremental
from headwater.interop.scalar_types import SCALAR_TYPES

_ARROW = {s.key.name: s.arrow for s in SCALAR_TYPES}


def arrow_type(t: KeyType) -> pa.DataType:
    """The Arrow type of a column of keys."""
    match t:
        case Base("decimal", precision, scale):
            return pa.decimal128(precision, scale)
        case Base(name):
            return _ARROW[name]
        case RecordType(fields):
            return pa.struct([(n, arrow_type(f)) for n, f in fields])
        case Boxed(MapType(key, _)):
            return pa.large_list(arrow_type(key))
        case ListType(element):
            return pa.large_list(arrow_type(element))
        case _:
            raise NotIncremental("EXPRESSION", f"Arrow has no type for {t}")


def with_small_offsets(t: pa.DataType) -> pa.DataType:
    """A type as Spark reads it, with offsets of 32 bits throughout."""
    if pa.types.is_large_list(t) or pa.types.is_list(t):
        return pa.list_(with_small_offsets(t.value_type))
    if pa.types.is_struct(t):
        return pa.struct([(f.name, with_small_offsets(f.type)) for f in t])
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(t, t)
