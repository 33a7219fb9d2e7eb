"""Dates and times: their parts, the beginnings of their units, and sums with days and months.

A date is a number of days and a local time a number of microseconds, both from 1970 on; the calendar is the
proleptic Gregorian one, which is numpy's as well. What depends on a time zone goes through `zones`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.times import UNITS
from headwater.engine.here.scalars import zones
from headwater.engine.here.scalars.base import (
    Array,
    ArrowCannot,
    Column,
    Node,
    columnar,
    constant,
    ints,
    made,
    require,
)
from headwater.engine.here.scalars.zones import DAY, LEAST, MOST, SECOND

SMALL = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": SECOND,
    "minute": 60 * SECOND,
    "hour": 3600 * SECOND,
    "day": DAY,
}
LEAST_DAY, MOST_DAY = LEAST // DAY, MOST // DAY - 1


# --- parts -------------------------------------------------------------------------------------------------


def _clock(unit: int, of: int) -> Node:
    """A part of the time of day."""
    return columnar(lambda t, a: made((ints(a) // unit % of).astype(np.int32), a, t))


def _second_part(t: pa.DataType, a: pa.Array) -> pa.Array:
    """Seconds with six places, as `extract` has them."""
    micros = made(ints(a) % (60 * SECOND), a, pa.int64())
    return micros.cast(pa.decimal128(19, 0)).view(pa.decimal128(19, 6)).cast(t)


def day_numbers(days: Array) -> tuple[Array, Array, Array]:
    """The years, the months counted from 0, and the days counted from 0 of some dates."""
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    number = months.astype(np.int64)
    return number // 12 + 1970, number % 12, (dates - months).astype(np.int64)


def _weekday(t: pa.DataType, a: pa.Array) -> pa.Array:
    """Monday is 0."""
    return made(((ints(a) + 3) % 7).astype(np.int32), a, t)


def _week_year(t: pa.DataType, a: pa.Array) -> pa.Array:
    """The year that the week belongs to: that of its Thursday."""
    days = ints(a)
    return made(day_numbers(days - (days + 3) % 7 + 3)[0].astype(np.int32), a, t)


# --- the beginnings of units -----------------------------------------------------------------------------------


def truncated_days(days: Array, unit: str) -> Array:
    """The first days of the years, quarters, months or weeks of some dates."""
    if unit == "week":
        monday: Array = days - (days + 3) % 7
        return monday
    size = {"month": 1, "quarter": 3, "year": 12}[unit]
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    first: Array = (months // size * size).astype("datetime64[M]").astype("datetime64[D]")
    return first.astype(np.int64)


@columnar
def _trunc(t: pa.DataType, a: pa.Array, unit: Column) -> pa.Array:
    """trunc(date, unit); NULL for what is no unit of days."""
    found = UNITS.get((constant(unit) or "").upper())
    if found not in ("year", "quarter", "month", "week"):
        return pa.nulls(len(a), t)
    days = ints(a)
    require((days >= LEAST_DAY + 7) & (days <= MOST_DAY), a, "a year outside of 1 to 9999")
    return made(truncated_days(days, found), a, t)


def date_trunc(t: pa.DataType, unit: Column, a: Column, zone: str) -> Column:
    """date_trunc(unit, instant) in a zone; NULL for what is no unit."""
    if isinstance(a, pa.Scalar):
        return date_trunc(t, unit, pa.array([a.as_py()], a.type), zone)[0]
    found = UNITS.get((constant(unit) or "").upper())
    if found is None:
        return pa.nulls(len(a), t)
    values = ints(a)
    if found in ("microsecond", "millisecond", "second"):
        return made(values - values % SMALL[found], a, t)
    zones._inside(values, a, zones.zone(zone), 400 * DAY)
    rules = zones.zone(zone)
    offset = np.int64(0) if rules is None else rules.offset(values)
    here = values + offset
    if found not in SMALL:
        starts = truncated_days(here // DAY, found) * DAY
        return made(starts if rules is None else rules.starts(starts), a, t)
    starts = here - here % SMALL[found]
    if rules is None:
        return made(starts, a, t)
    same = starts - offset  # of two instants with one local time, the one with the same offset
    kept = same + rules.offset(same) == starts
    return made(np.where(kept, same, rules.instants(starts)), a, t)


# --- sums ---------------------------------------------------------------------------------------------------


def _dates(values: Array, like: pa.Array, t: pa.DataType) -> pa.Array:
    require((values >= LEAST_DAY) & (values <= MOST_DAY), like, "a date outside of 1 to 9999")
    return made(values, like, t)


@columnar
def _add_months(t: pa.DataType, a: pa.Array, n: Column) -> pa.Array:
    """The same day n months on, or the last day of that month."""
    both = a
    if isinstance(n, pa.Scalar):
        count: Array = np.int64(n.as_py() or 0)  # type: ignore[assignment]
        if not n.is_valid:
            return pa.nulls(len(a), t)
    else:
        both, count = pc.if_else(n.is_valid(), a, pa.scalar(None, a.type)), ints(n)
    year, month, day = day_numbers(ints(a))
    number = (year - 1970) * 12 + month + count
    require((number >= -1969 * 12) & (number < 8030 * 12), both, "a year outside of 1 to 9999")
    months = np.clip(number, -1969 * 12, 8030 * 12).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    length = (months + 1).astype("datetime64[D]").astype(np.int64) - first
    return _dates(first + np.minimum(day, length - 1), both, t)


@columnar
def _last_day(t: pa.DataType, a: pa.Array) -> pa.Array:
    months = ints(a).astype("datetime64[D]").astype("datetime64[M]")
    return _dates((months + 1).astype("datetime64[D]").astype(np.int64) - 1, a, t)


@columnar
def _next_day(t: pa.DataType, a: pa.Array, name: Column) -> pa.Array:
    """The first day after a date that is a given day of the week."""
    word = (constant(name) or "").upper()
    days = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
    found = [i for i, d in enumerate(days) if word in (d, d[:2], d[:3])]
    if not found:
        raise ArrowCannot(f"{word} is no day of the week")
    values = ints(a)
    return _dates(values + 1 + (found[0] - (values + 1 + 3)) % 7, a, t)


def _unix(unit: int) -> Node:
    """Whole units from 1970 on, rounded down."""
    return columnar(lambda t, a: made(ints(a) // unit, a, t))


def _cut_off(t: pa.DataType, a: pa.Array) -> pa.Array:
    """Whole seconds towards 1970, as Java divides."""
    values = ints(a)
    return made(np.sign(values) * (np.abs(values) // SECOND), a, t)


def _from_unix(unit: int) -> Node:
    def read(t: pa.DataType, a: pa.Array) -> pa.Array:
        values = ints(a)
        # Not by np.abs, of which that of the least bigint is negative.
        require((values > -MOST // unit) & (values < MOST // unit), a, "a time far away")
        return made(values * unit, a, t)

    return columnar(read)


# --- windows of time ------------------------------------------------------------------------------------------


def _inside(values: Array, a: pa.Array) -> None:
    require((values >= LEAST) & (values < MOST), a, "a time outside of the years 1 to 9999")


@columnar
def _window_start(t: pa.DataType, a: pa.Array, width: Column, offset: Column) -> pa.Array:
    """The greatest start that is not after a time."""
    values = ints(a)
    _inside(values, a)
    starts = values - (values - constant(offset)) % constant(width)
    _inside(starts, a)
    return made(starts, a, t)


@columnar
def _window_starts(
    t: pa.DataType, a: pa.Array, width: Column, slide: Column, offset: Column
) -> pa.Array:
    """The starts of all windows that hold a time, as an array."""
    length, step, shift = constant(width), constant(slide), constant(offset)
    values = ints(a)
    _inside(values, a)
    last = values - (values - shift) % step
    count = np.where(np.asarray(a.is_valid()), (last - values + length - 1) // step + 1, 0)
    ends = np.cumsum(count)
    back = np.arange(int(count.sum())) - np.repeat(ends - count, count)
    starts = np.repeat(last, count) - back * step
    require((starts >= LEAST) & (starts < MOST), pa.array(starts), "a window before the year 1")
    elements = pa.array(starts).view(t.value_type)
    mask = pa.array(np.asarray(a.is_null())) if a.null_count else None
    return pa.LargeListArray.from_arrays(np.append(0, ends), elements, mask=mask)


@columnar
def _add_micros(t: pa.DataType, a: pa.Array, n: Column) -> pa.Array:
    values = ints(a)
    _inside(values, a)
    later = values + constant(n)
    _inside(later, a)
    return made(later, a, t)


NODES: dict[str, Node] = {
    "window_start": _window_start,
    "window_starts": _window_starts,
    "add_micros": _add_micros,
    "hour": _clock(3600 * SECOND, 24),
    "minute": _clock(60 * SECOND, 60),
    "second": _clock(SECOND, 60),
    "second_part": columnar(_second_part),
    "weekday": columnar(_weekday),
    "yearofweek": columnar(_week_year),
    "trunc": _trunc,
    "add_months": _add_months,
    "last_day": _last_day,
    "next_day": _next_day,
    "unix_date": columnar(lambda t, a: made(ints(a).astype(np.int32), a, t)),
    "unix_seconds": _unix(SECOND),
    "unix_timestamp": columnar(_cut_off),
    "unix_millis": _unix(1000),
    "unix_micros": _unix(1),
    "timestamp_seconds": _from_unix(SECOND),
    "as_timestamp": _from_unix(SECOND),
    "timestamp_millis": _from_unix(1000),
    "timestamp_micros": _from_unix(1),
}
"""Of dates and local times; `date_trunc` needs a zone."""
