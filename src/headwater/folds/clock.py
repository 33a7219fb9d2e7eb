"""Clocks: marks that come by themselves, at every hour, day or month of the order column.

A clock strikes at its boundaries: times at whole multiples of its interval since 1970 (numbers: since 0), and, of days and
longer, where the calendar of the session's zone says that one begins. The first strike is the first boundary behind the
first row. A mark at T stands before rows at T, so that a frame is [T, T').
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from headwater.calculus.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, Base
from headwater.errors import StreamError
from headwater.folds.scale import Numbers
from headwater.language.closes import interval

MOST = 1_000_000
"""Strikes of one run; of more, an interval is too short for the times of the rows, or a time is wrong."""
DAY = 86_400_000_000
_CALENDAR = re.compile(r"^\s*(?:interval\s+)?(\d+)\s*(day|week|month|quarter|year)s?\s*$", re.I)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


@dataclass(frozen=True)
class Clock:
    """When marks come: `step` numbers apart, or by the calendar so many days or months."""

    text: str
    type: Base
    step: int = 0
    days: int = 0
    months: int = 0
    zone: str = "UTC"

    def strikes(self, after: int, upto: int) -> Numbers:
        """The boundaries behind a number, up to another."""
        if upto <= after:
            return np.zeros(0, np.int64)
        if self.step:
            first = after // self.step + 1
            last = upto // self.step
            self._check(last - first + 1, after, upto)
            return np.arange(first, last + 1, dtype=np.int64) * self.step
        found = []
        for at in self._by_calendar(after):
            if at > upto:
                break
            found.append(at)
            self._check(len(found), after, upto)
        return np.array(found, np.int64)

    def next(self, after: int) -> int:
        """The first boundary behind a number."""
        if self.step:
            return (after // self.step + 1) * self.step
        return next(self._by_calendar(after))

    def _check(self, count: int, after: int, upto: int) -> None:
        if count > MOST:
            raise StreamError(
                f"the clock of {self.text} would strike more than {MOST:,} times, from {self._said(after)} to {self._said(upto)}",
                hint="see whether a row, or a punctuation, has a time that is wrong; or take a longer interval",
            )

    def _said(self, number: int) -> Any:
        if self.type == DATE:
            return date(1970, 1, 1) + timedelta(days=number)
        if self.type in (TIMESTAMP, TIMESTAMP_NTZ):
            return datetime(1970, 1, 1) + timedelta(microseconds=number)
        return number

    def _by_calendar(self, after: int) -> Iterator[int]:
        """Boundaries of the calendar behind a number."""
        day = self._day(after)
        if self.months:
            at = (day.year * 12 + day.month - 1) // self.months * self.months
            while True:
                number = self._number(date(at // 12, at % 12 + 1, 1))
                if number > after:
                    yield number
                at += self.months
        count = (day - date(1970, 1, 1)).days
        if self.days == 7:  # weeks begin on Mondays, and 1970 on a Thursday
            count = (count + 3) // 7 * 7 - 3
        else:
            count = count // self.days * self.days
        while True:
            number = self._number(date(1970, 1, 1) + timedelta(days=count))
            if number > after:
                yield number
            count += self.days

    def _day(self, number: int) -> date:
        """The day that a number is on."""
        if self.type == DATE:
            return date(1970, 1, 1) + timedelta(days=number)
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=number)
        if self.type == TIMESTAMP:
            at = at.astimezone(ZoneInfo(self.zone))
        return at.date()

    def _number(self, day: date) -> int:
        """The number at which a day begins."""
        if self.type == DATE:
            return (day - date(1970, 1, 1)).days
        zone: Any = ZoneInfo(self.zone) if self.type == TIMESTAMP else UTC
        at = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
        return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def clock_of(name: str, given: Any, t: Base, zone: str) -> Clock:
    """The clock that marks of a header come from, over an order column of a type."""
    timed = t in (TIMESTAMP, TIMESTAMP_NTZ)
    if isinstance(given, str) and (timed or t == DATE):
        found = _CALENDAR.match(given)
        if found is not None and int(found[1]) > 0:
            count, unit = int(found[1]), found[2].lower()
            if unit in _MONTHS:
                return Clock(given, t, months=count * _MONTHS[unit], zone=zone)
            return Clock(given, t, days=count * (7 if unit == "week" else 1), zone=zone)
    made: Any = None
    if timed:
        made = interval(given)
    elif t != DATE and isinstance(given, int) and not isinstance(given, bool):
        made = given
    if made is None or made <= 0:
        wanted = {True: "'1 hour'", False: "'1 day'" if t == DATE else "a whole number above 0"}
        raise StreamError(
            f"the clock `{name}` strikes every {given!r}",
            hint=f"an interval is {wanted[timed]}, as the order column is {t}",
        )
    return Clock(str(given), t, step=made)
