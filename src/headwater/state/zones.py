"""Zones: between which values a column lies in a run, so that a run in which nothing is wanted is known unread.

The reference of a run may say, for some key columns of its map, the least and the greatest value there and whether any
is NULL. Which columns have zones is no part of what a map is: whoever writes a run is told (`Zoned`), and it may be others
for the next run. A run that says nothing of a column may have any value in it.

In a record a zone is plain data: the column's name, two *places*, and whether there are NULLs. A place is a whole number, or
a text, that stands among the places of a column as its value does among the values, in the order of Spark: NaN is the
greatest, and texts are in the order of their bytes. Columns of other types have no zones.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.state.keys import parts

Place = int | str
Noted = tuple[str, Place | None, Place | None, bool]
"""A zone as a record has it: column, least and greatest place (None if all are NULL), whether any is NULL."""
Zoned = Mapping[str, Sequence[str]]
"""The columns of maps, by name, that new runs say zones of."""
LONGEST = 64
"""Characters of a text that is a place; a column with a longer one at an end has no zone."""
_EXACT = decimal.Context(prec=100)
_TIMES = {
    t.id
    for t in (
        pa.date32(),
        pa.date64(),
        pa.time32("s"),
        pa.time64("us"),
        pa.timestamp("us"),
        pa.duration("us"),
    )
}
_NUMBERS = {
    t.id
    for t in (
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
    )
}
_OTHERS = {
    t.id
    for t in (
        pa.bool_(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(1),
        pa.decimal256(1),
        pa.large_string(),
    )
}


@dataclass(frozen=True)
class Zone:
    """A column of a run lies from `least` to `greatest`, both there; `nulls`: it may have NULLs. No ends: it has nothing else."""

    type: pa.DataType
    ends: tuple[Place, Place] | None
    nulls: bool

    @property
    def least(self) -> pa.Scalar | None:
        """The least value, as the column is stored."""
        return None if self.ends is None else value(self.ends[0], self.type)

    @property
    def greatest(self) -> pa.Scalar | None:
        """The greatest value."""
        return None if self.ends is None else value(self.ends[1], self.type)


Zones = Mapping[str, Zone]
"""What is known of the columns of a run; one that is not named may have any value."""


def noted(entries: pa.RecordBatch, columns: Iterable[str]) -> tuple[Noted, ...]:
    """The zones of some columns, as a record has them; a column that cannot have one is left out."""
    found = list[Noted]()
    for name in columns:
        array = entries.column(name)
        if not orderable(array.type):
            continue
        ends = _ends(array)
        if ends is None:
            found.append((name, None, None, True))
        elif _short(ends[0]) and _short(ends[1]):
            found.append((name, *ends, array.null_count > 0))
    return tuple(found)


def together(many: Sequence[tuple[Noted, ...]]) -> tuple[Noted, ...]:
    """The zones of entries that are put together; a column that some of them say nothing of has none."""
    if len(many) == 1:
        return many[0]
    out = []
    for name in dict.fromkeys(n for zones in many for n, *_ in zones):
        found = [z for zones in many for z in zones if z[0] == name]
        if len(found) == len(many):
            lows: list[Any] = [z[1] for z in found if z[1] is not None]
            highs: list[Any] = [z[2] for z in found if z[2] is not None]
            nulls = any(z[3] for z in found)
            out.append((name, min(lows, default=None), max(highs, default=None), nulls))
    return tuple(out)


def known(zone: Iterable[Noted], schema: pa.Schema) -> Zones:
    """What the zones of a record mean in a map of these columns."""
    return {
        name: Zone(
            schema.field(name).type, None if low is None or high is None else (low, high), nulls
        )
        for name, low, high, nulls in zone
    }


def of_data(data: Any) -> tuple[Noted, ...]:
    """The zones of a record; `ValueError` where it has none that a writer writes."""
    zones = tuple(tuple(z) for z in data)
    for zone in zones:
        match zone:
            case (str(), None, None, bool()):
                pass
            case (str(), int() as low, int() as high, bool()) if low <= high:
                pass
            case (str(), str() as low, str() as high, bool()) if low <= high:
                pass
            case _:
                raise ValueError(f"{zone} is no zone of a column")
    if len({z[0] for z in zones}) < len(zones):
        raise ValueError("a column has two zones")
    return zones


def orderable(t: pa.DataType) -> bool:
    """Whether a column, as it is stored, can have a zone."""
    return t.id in _NUMBERS or t.id in _TIMES or t.id in _OTHERS


def value(place: Place, t: pa.DataType) -> pa.Scalar:
    """The value that a place stands for."""
    if pa.types.is_floating(t):
        number = np.int64(place)
        bits = number ^ ((number >> np.int64(63)) & np.int64(0x7FFF_FFFF_FFFF_FFFF))
        return pa.scalar(float(bits.view(np.float64)), t)
    if pa.types.is_decimal(t):
        return pa.scalar(_EXACT.scaleb(decimal.Decimal(place), -t.scale), t)
    return pa.scalar(bool(place) if pa.types.is_boolean(t) else place, t)


def _short(place: Place) -> bool:
    return isinstance(place, int) or len(place) <= LONGEST


def _ends(array: pa.Array) -> tuple[Any, Any] | None:
    """The least and the greatest place of a column; None if there is none."""
    if array.null_count == len(array):
        return None
    t = array.type
    if pa.types.is_decimal(t):
        both = pc.min_max(array)
        low, high = (int(_EXACT.scaleb(both[n].as_py(), t.scale)) for n in ("min", "max"))
        return low, high
    if t.id in _TIMES:
        array = array.view(pa.int64() if t.bit_width == 64 else pa.int32())
    elif t.id not in _NUMBERS:
        (array,) = parts(array)  # floats and booleans are numbers there
    if array.null_count or pa.types.is_large_string(t):
        both = pc.min_max(array)
        return both["min"].as_py(), both["max"].as_py()
    numbers = array.to_numpy()  # half the time of `min_max` for the few rows that most runs have
    return int(numbers.min()), int(numbers.max())
