"""Dates and times in a pattern: written, and read.

Of many moments few differ in what a pattern shows, so that each of those is written once:

    date_format(t, 'yyyy-MM')    one text for every day of which something happened
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa

from headwater.calculus.formats import CLOCK, parts, read, written
from headwater.calculus.times import EPOCH
from headwater.engine.here.scalars import zones
from headwater.engine.here.scalars.base import (
    Array,
    ArrowCannot,
    Column,
    columnar,
    constant,
    ints,
    made,
    require,
)
from headwater.engine.here.scalars.casts import each
from headwater.engine.here.scalars.zones import DAY, LEAST, MOST, SECOND


def _shown(values: Array, pattern: str) -> Array:
    """Local times as text."""
    letters = {p.letter for p in parts(pattern) or ()}
    unit = 1 if "S" in letters else SECOND if letters & set(CLOCK) else DAY
    different, places = np.unique(values // unit, return_inverse=True)
    moments = (EPOCH + timedelta(microseconds=int(n) * unit) for n in different)
    return np.array([written(t, pattern) for t in moments], object)[places]


def date_format(t: pa.DataType, a: Column, pattern: Column, zone: str) -> Column:
    """date_format(instant, pattern) in a zone."""

    def node(t: pa.DataType, a: pa.Array, pattern: Column) -> pa.Array:
        local = zones.local(pa.timestamp("us"), a, zone)
        values = ints(local)
        inside = (values >= LEAST) & (values < MOST)
        require(inside, local, "a year outside of 1 to 9999")
        return made(_shown(np.where(inside, values, 0), constant(pattern)), local, t)

    return columnar(node)(t, a, pattern)


def from_unixtime(t: pa.DataType, a: Column, pattern: Column, zone: str) -> Column:
    """from_unixtime(seconds, pattern) in a zone."""

    def node(t: pa.DataType, a: pa.Array, pattern: Column) -> pa.Array:
        seconds = ints(a)
        inside = (seconds >= LEAST // SECOND) & (seconds < MOST // SECOND)
        require(inside, a, "a year outside of 1 to 9999")
        instants = made(np.where(inside, seconds, 0) * SECOND, a, pa.timestamp("us"))
        return date_format(t, instants, pattern, zone)

    return columnar(node)(t, a, pattern)


def to_timestamp(t: pa.DataType, a: Column, pattern: Column, zone: str) -> Column:
    """to_timestamp(text, pattern) in a zone."""
    form = constant(pattern)

    def moment(text: str | None) -> object:
        try:
            return None if text is None else read(text, form)
        except ValueError as e:
            raise ArrowCannot(str(e)) from e

    def node(t: pa.DataType, a: pa.Array) -> pa.Array:
        return zones.instant(t, each(pa.timestamp("us"), a, moment), zone)

    return columnar(node)(t, a)
