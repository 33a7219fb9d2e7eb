"""Clocks: at which times marks stand, for an interval and a type of order column.

A clock has a mark at every multiple of its interval, counted from the epoch (or from 0). A mark at T stands before the
rows at T, so the frame of a row at t is [T, T') with T ≤ t < T'. Months and years are those of the calendar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from headwater.calculus.types import INTEGRAL, Base
from headwater.errors import HeadwaterError

UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
INTERVAL = re.compile(r"\s*(-?\d+)?\s*([A-Za-z]+?)s?\s*")


@dataclass(frozen=True)
class Clock:
    """Marks at multiples of a number, of a stretch of time, or of calendar months; one of the three is set."""

    number: int = 0
    time: timedelta = timedelta(0)
    months: int = 0

    def floor(self, at: Any) -> Any:
        """The last mark at or before a time: T ≤ t."""
        if self.months:
            month = (at.year * 12 + at.month - 1) // self.months * self.months
            return _at_month(at, month)
        if self.time:
            epoch = _epoch(at)
            return epoch + (at - epoch) // self.time * self.time
        return at // self.number * self.number

    def after(self, mark: Any) -> Any:
        """The mark after a mark."""
        if self.months:
            return _at_month(mark, mark.year * 12 + mark.month - 1 + self.months)
        return mark + (self.time if self.time else self.number)


def _at_month(like: Any, month: int) -> Any:
    """The first moment of a month, counted from year 0, in the kind of time that is given."""
    year, place = divmod(month, 12)
    if isinstance(like, datetime):
        return datetime(year, place + 1, 1, tzinfo=like.tzinfo)
    return date(year, place + 1, 1)


def _epoch(like: Any) -> Any:
    if isinstance(like, datetime):
        return datetime(1970, 1, 1, tzinfo=like.tzinfo)
    return date(1970, 1, 1)


def clock(interval: str | int | timedelta, kind: Base) -> Clock:
    """The clock of an interval over an order column of some type: 10, "10 minutes", "1 month".

    >>> from headwater.calculus.types import DATE
    >>> clock("1 month", DATE).floor(date(2021, 3, 17))
    datetime.date(2021, 3, 1)
    """
    made = _clock(interval)
    timed = kind.name in ("date", "timestamp", "timestamp_ntz")
    if made.number < 0 or made.time < timedelta(0) or made.months < 0 or made == Clock():
        raise HeadwaterError(
            f"a clock cannot go by an interval of {interval!r}, which is not positive",
            hint='for example: "10 minutes"',
        )
    whole_days = made.months or made.time % timedelta(days=1) == timedelta(0)
    if bool(made.number) == timed or (kind.name == "date" and not whole_days):
        raise HeadwaterError(
            f"a clock cannot go by {interval!r} over a column of type {kind}",
            hint="numbers for numbers, days and more for dates, any time for timestamps",
        )
    if made.number and kind.name not in INTEGRAL:
        raise HeadwaterError(
            f"a clock cannot go by a column of type {kind}",
            hint="whole numbers, dates or timestamps",
        )
    return made


def _clock(interval: str | int | timedelta) -> Clock:
    if isinstance(interval, timedelta):
        return Clock(time=interval)
    if isinstance(interval, int) and not isinstance(interval, bool):
        return Clock(number=interval)
    found = INTERVAL.fullmatch(interval) if isinstance(interval, str) else None
    if found and found[2].lower() in MONTHS:
        return Clock(months=int(found[1] or 1) * MONTHS[found[2].lower()])
    if found and found[2].lower() in UNITS:
        return Clock(time=int(found[1] or 1) * UNITS[found[2].lower()])
    raise HeadwaterError(
        f"`{interval}` is no interval",
        hint=f"a number, or a number of: {', '.join([*UNITS, *MONTHS])}",
    )
