"""The table of scalar types: each key type with its type in Arrow, its classes in PySpark and its names in DDL.

Decimals, structs and arrays have parameters, and are told case by case where they are needed. The names are those of
`pyspark.sql.types` and of sqlglot's `DataType.Type`, so that neither is imported here.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from headwater.calculus import types as ty
from headwater.calculus.types import Base


class ScalarType(NamedTuple):
    """A scalar type everywhere; text of a declared length is text, and a collation of its own is none of ours."""

    key: Base
    arrow: pa.DataType
    spark: tuple[str, ...]
    ddl: tuple[str, ...]


SCALAR_TYPES = (
    ScalarType(ty.BOOLEAN, pa.bool_(), ("BooleanType",), ("BOOLEAN",)),
    ScalarType(ty.TINYINT, pa.int8(), ("ByteType",), ("TINYINT",)),
    ScalarType(ty.SMALLINT, pa.int16(), ("ShortType",), ("SMALLINT",)),
    ScalarType(ty.INTEGER, pa.int32(), ("IntegerType",), ("INT",)),
    ScalarType(ty.BIGINT, pa.int64(), ("LongType",), ("BIGINT",)),
    ScalarType(ty.FLOAT, pa.float32(), ("FloatType",), ("FLOAT",)),
    ScalarType(ty.DOUBLE, pa.float64(), ("DoubleType",), ("DOUBLE",)),
    ScalarType(
        ty.STRING, pa.large_string(), ("CharType", "VarcharType"), ("TEXT", "VARCHAR", "CHAR")
    ),
    ScalarType(ty.BINARY, pa.large_binary(), ("BinaryType",), ("BINARY", "VARBINARY")),
    ScalarType(ty.DATE, pa.date32(), ("DateType",), ("DATE",)),
    ScalarType(
        ty.TIMESTAMP,
        pa.timestamp("us", tz="UTC"),
        ("TimestampType",),
        ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"),
    ),
    ScalarType(ty.TIMESTAMP_NTZ, pa.timestamp("us"), ("TimestampNTZType",), ("TIMESTAMPNTZ",)),
    ScalarType(ty.VOID, pa.null(), ("NullType",), ()),
)
