"""Clocks of a stream: the marks that come by themselves, as numbers of the order column (`streams/clock.py` says when).

The first strike is the first one behind the first row. A mark at T stands before rows at T, so that a frame is [T, T').
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from headwater.calculus.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, Base
from headwater.errors import HeadwaterError, StreamError
from headwater.folds.scale import MOST as BEYOND
from headwater.folds.scale import Numbers
from headwater.streams.clock import Clock, clock
from headwater.streams.columns import BITS

MOST = 1_000_000
"""Strikes of one run; of more, an interval is too short for the times of the rows, or a time is wrong."""
_DAY, _TIME = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


@dataclass(frozen=True)
class Strikes:
    """When marks come: `step` numbers apart, or as the calendar has its months."""

    text: str
    type: Base
    marks: Clock
    step: int

    def strikes(self, after: int, upto: int) -> Numbers:
        """The strikes behind a number, up to another."""
        if upto <= after:
            return np.zeros(0, np.int64)
        if self.step:
            first, last = after // self.step + 1, upto // self.step
            self._check(last - first + 1, after, upto)
            self._check_last(last * self.step, max(after, (last - 1) * self.step))
            return np.arange(first, last + 1, dtype=np.int64) * self.step
        found: list[int] = []
        at = self.next(after)
        while at <= upto:
            self._check_last(at, found[-1] if found else after)
            found.append(at)
            self._check(len(found), after, upto)
            at = self.next(at)
        return np.array(found, np.int64)

    def next(self, after: int) -> int:
        """The first strike behind a number."""
        if self.step:
            return (after // self.step + 1) * self.step
        try:
            return self._number(self.marks.after(self.marks.floor(self._value(after))))
        except (ValueError, OverflowError):  # behind the last year
            return last_number(self.type) + 1

    def _check_last(self, strike: int, after: int) -> None:
        if strike > last_number(self.type):
            raise StreamError(
                f"the clock of {self.text} has no strike behind {self._value(after)}: it would be no {self.type} any more",
                hint="see whether a row has a time that is wrong; or leave such rows out, in a view",
            )

    def _check(self, count: int, after: int, upto: int) -> None:
        if count > MOST:
            raise StreamError(
                f"the clock of {self.text} would strike more than {MOST:,} times, from {self._value(after)} to {self._value(upto)}",
                hint="see whether a row, or a punctuation, has a time that is wrong; or take a longer interval",
            )

    def _value(self, number: int) -> Any:
        if self.type == DATE:
            return _DAY + timedelta(days=number)
        return _TIME + number * _MICRO if self.type in (TIMESTAMP, TIMESTAMP_NTZ) else number

    def _number(self, value: Any) -> int:
        if self.type == DATE:
            return int((value - _DAY).days)
        return int((value - _TIME) // _MICRO)


def last_number(t: Base) -> int:
    """The number of the last value of a type."""
    if t == DATE:
        return (date.max - _DAY).days
    if t in (TIMESTAMP, TIMESTAMP_NTZ):
        return (datetime.max.replace(tzinfo=UTC) - _TIME) // _MICRO
    return min((1 << BITS[t.name]) - 1, BEYOND - 1)


def clock_of(name: str, given: Any, t: Base) -> Strikes:
    """The clock that marks of a header come from, over an order column of a type."""
    try:
        marks = clock(given, t)
    except HeadwaterError as e:
        e.what = f"the clock `{name}`: {e.what}"
        e.args = (e.what,)
        raise
    unit = timedelta(days=1) if t == DATE else _MICRO
    step = marks.number or (0 if marks.months else marks.time // unit)
    return Strikes(str(given), t, marks, step)
