"""Types of Spark as key types, where there is one."""

from __future__ import annotations

from pyspark.sql import types as st

from headwater.calculus import types as ty
from headwater.calculus.types import KeyType, ListType, RecordType
from headwater.interop.scalar_types import SCALAR_TYPES

_SCALARS: dict[type[st.DataType], KeyType] = {
    getattr(st, name): s.key for s in SCALAR_TYPES for name in s.spark
}


def key_type(t: st.DataType) -> KeyType | None:
    """A type of Spark as a key type; None where there is none."""
    if isinstance(t, st.DecimalType):
        return ty.decimal(t.precision, t.scale)
    if isinstance(t, st.StructType):
        fields = [(f.name, key_type(f.dataType)) for f in t.fields]
        known = tuple((n, f) for n, f in fields if f is not None)
        names = {n.lower() for n, _ in known}
        return RecordType(known) if known and len(names) == len(fields) else None
    if isinstance(t, st.ArrayType):
        element = key_type(t.elementType)
        return None if element is None else ListType(element)
    if type(t) is st.StringType:  # with its own collation, two strings that differ may be equal
        return ty.STRING if t.simpleString() == "string" else None
    return _SCALARS.get(type(t))
