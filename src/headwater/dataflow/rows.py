"""Rows as stages see them: tuples with names, and in which order and by which equality they count.

A row of an input that is read with `changes` has its weight as a last element, `_w`; one of a framed input has `_frame`.
Values are those of Python: whole numbers, floats, Decimal, text, bytes, dates, and datetimes, which for TIMESTAMP have the
zone UTC. NULL is None, and sorts first.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from headwater.plan.program import WEIGHT

NAN = float("nan")
"""The one NaN: rows that have it are equal, for a tuple compares what is the same object as equal."""


class Row(tuple[Any, ...]):
    """A row: a tuple whose elements have names, too."""

    _fields: tuple[str, ...] = ()

    def __repr__(self) -> str:
        cells = zip(self._fields, self, strict=False)
        return f"Row({', '.join(f'{n}={v!r}' for n, v in cells)})"

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=False))


@lru_cache(maxsize=1024)
def row_class(names: tuple[str, ...]) -> type[Row]:
    """The class of rows with these names; one for a set of names, so that rows are cheap to make."""
    # What gets an element of a named tuple is written in C, and gets one of any tuple.
    places = namedtuple("places", [f"c{i}" for i in range(len(names))])  # type: ignore[misc]
    cells: dict[str, Any] = {n: getattr(places, f"c{i}") for i, n in enumerate(names)}
    return type("Row", (Row,), {"_fields": names, **cells})


def sort_key(values: Iterable[Any]) -> list[Any]:
    """What rows are sorted by: NULL first, NaN last, and what is inside of arrays in turn."""
    return [_place(v) for v in values]


def _place(value: Any) -> Any:
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, (list, tuple)):
        return (1, sort_key(value))
    if isinstance(value, dict):
        return (1, sort_key(value.values()))
    return (1, value)


ALIKE = frozenset((str, int, bytes, bool, date, datetime, Decimal, type(None)))
"""Types whose values are equal where the engine takes them for equal."""


def frozen(value: Any) -> Any:
    """A value as something to compare and to find again: equal where the engine takes two for equal."""
    if type(value) in ALIKE:
        return value
    if type(value) is tuple and ALIKE.issuperset(map(type, value)):
        return value
    if isinstance(value, float):
        return NAN if value != value else value + 0.0
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return tuple(frozen(v) for v in value.values())
    return value


def frozen_rows(columns: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows of columns, each as something to find again; one by one only where there are values that are not found by themselves."""
    rows = list(zip(*columns, strict=True))
    plain = all(ALIKE.issuperset(map(type, c)) for c in columns)
    return rows if plain else list(map(frozen, rows))


def rows_of(table: pa.Table, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
    """The rows of a table as tuples, quickly."""
    columns = [values_of(table.column(n)) for n in (table.column_names if names is None else names)]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def values_of(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """The values of a column; numbers by way of numpy, which is several times faster."""
    t = column.type
    plain = pa.types.is_integer(t) or pa.types.is_floating(t)
    if plain and not column.null_count:
        numbers = np.asarray(column)
        if pa.types.is_floating(t) and not np.isnan(numbers).any():
            return (numbers + 0.0).tolist()  # type: ignore[no-any-return]
        found = numbers.tolist()
    elif pa.types.is_timestamp(t) and t.unit == "us" and t.tz in (None, "UTC"):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        instants = np.asarray(whole.cast(pa.timestamp("us")))
        if t.tz is not None and not column.null_count:
            # What `replace` would do for each, in half of the time.
            zoned: list[Any] = pd.DatetimeIndex(instants).tz_localize(UTC).to_pydatetime().tolist()
            return zoned
        found = instants.tolist()  # NULL becomes None
        if t.tz is not None:
            return [v if v is None else v.replace(tzinfo=UTC) for v in found]
    else:
        found = column.to_pylist()
    if pa.types.is_floating(t):
        return [v if v is None else (NAN if v != v else v + 0.0) for v in found]
    return list(found)


def weights_of(table: pa.Table) -> list[int]:
    """The weights of the rows of a change."""
    found: list[int] = np.asarray(table.column(WEIGHT)).tolist()
    return found


# --- values as plain data ------------------------------------------------------------------------------------------

_TAGS: dict[str, Any] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "decimal": Decimal,
    "bytes": bytes.fromhex,
}


def as_data(value: Any) -> Any:
    """A value as JSON has it: of a frame's key, or of a small state."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case datetime() | date():
            return {type(value).__name__: value.isoformat()}
        case Decimal():
            return {"decimal": str(value)}
        case bytes():
            return {"bytes": value.hex()}
        case tuple():
            return {"tuple": [as_data(v) for v in value]}
        case list():
            return [as_data(v) for v in value]
        case dict() if all(isinstance(k, str) for k in value):
            return {"dict": {k: as_data(v) for k, v in value.items()}}
    raise TypeError(f"{value!r} cannot be kept as a key or a small state")


def of_data(data: Any) -> Any:
    """A value from JSON."""
    if isinstance(data, list):
        return [of_data(v) for v in data]
    if not isinstance(data, dict):
        return data
    ((tag, held),) = data.items()
    if tag == "float":
        return float.fromhex(held)
    if tag == "tuple":
        return tuple(of_data(v) for v in held)
    if tag == "dict":
        return {k: of_data(v) for k, v in held.items()}
    return _TAGS[tag](held)
