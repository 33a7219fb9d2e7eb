"""Key types as the types of Arrow; their names in Spark's DDL are in `spark_text`."""

from __future__ import annotations

import pyarrow as pa

from headwater.calculus.types import Base, Boxed, KeyType, ListType, MapType, RecordType
from headwater.errors import NotIncremental

_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.large_string(),
    "binary": pa.large_binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


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
