"""Values of the calculus from plain Python data, and back.

A bag is a list (rows repeat by multiplicity), a record is a dict, a tuple or an object with the
fields as attributes, a boxed bag is a list too. `to_python` gives lists of dicts; the fields `_1`,
`_2`, ... make a tuple.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from headwater.calculus.ring import EXACT, collect, number
from headwater.calculus.types import (
    Base,
    Boxed,
    ListType,
    MapType,
    ProductType,
    RecordType,
    Type,
)
from headwater.errors import TypeMismatch


def from_python(t: Type, data: Any) -> Any:
    """A value of type t from plain Python data."""
    match t:
        case MapType(key, value):
            if isinstance(data, Mapping):
                return collect(
                    (from_python(key, k), from_python(value, v)) for k, v in data.items()
                )
            return collect((from_python(key, row), 1) for row in data)
        case Boxed(content):
            return None if data is None else from_python(content, data)
        case RecordType(fields) | ProductType(fields):
            return None if data is None else tuple(_fields(fields, data))
        case ListType(element):
            return None if data is None else tuple(from_python(element, x) for x in data)
        case Base("decimal") if data is not None:
            return Decimal(str(data)).quantize(Decimal(1).scaleb(-t.scale), context=EXACT)
        case Base("double" | "float") if data is not None:
            return number(float(data))
        case _:
            return data


def _fields(fields: tuple[tuple[str, Any], ...], data: Any) -> list[Any]:
    names = [n for n, _ in fields]
    if isinstance(data, Mapping):
        if set(data) != set(names):
            raise TypeMismatch(f"a row has the fields {sorted(data)}, expected {names}")
        parts = [data[n] for n in names]
    elif isinstance(data, tuple):
        if len(data) != len(names):
            raise TypeMismatch(f"a row has {len(data)} fields, expected {len(names)}: {names}")
        parts = list(data)
    else:
        parts = [getattr(data, n) for n in names]
    return [from_python(t, part) for (_, t), part in zip(fields, parts, strict=True)]


def to_python(t: Type, value: Any) -> Any:
    """Plain Python data from a value of type t; bags become lists in no particular order."""
    match t:
        case MapType(key, ring) if value is not None:
            rows = ((to_python(key, k), to_python(ring, v)) for k, v in value.items())
            if all(isinstance(v, int) for v in value.values()):
                return [row for row, n in rows for _ in range(n)]
            return list(rows)
        case Boxed(content) if value is not None:
            return to_python(content, value)
        case ListType(element) if value is not None:
            return [to_python(element, x) for x in value]
        case RecordType(fields) | ProductType(fields) if value is not None:
            parts = [to_python(f, v) for (_, f), v in zip(fields, value, strict=True)]
            if [n for n, _ in fields] == [f"_{i + 1}" for i in range(len(fields))] and fields:
                return tuple(parts)
            return {n: p for (n, _), p in zip(fields, parts, strict=True)}
        case _:
            return value
