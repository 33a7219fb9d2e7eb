"""Scales: the values of order columns as numbers, so that order is compared in whole columns.

Times, dates and whole numbers are what they are inside; doubles stay doubles. A *bound* is `(limit, closed)`: the values
below the limit, and the limit itself if it is closed. Of discrete types bounds are open, at the next value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.patterns import Pattern, Range
from headwater.calculus.types import Base
from headwater.interop.arrow_types import arrow_type
from headwater.state.keys import canonical

Numbers = np.ndarray[Any, Any]
Bound = tuple[Any, bool]
LEAST, MOST = -(1 << 62), (1 << 62)
"""Numbers beyond all values of order columns: rows with others are refused."""


def can_order(t: Base) -> bool:
    """Whether a column of a type can order a stream: times, dates and numbers that are such inside."""
    arrow = arrow_type(t)
    return bool(
        pa.types.is_timestamp(arrow)
        or pa.types.is_date(arrow)
        or pa.types.is_integer(arrow)
        or pa.types.is_floating(arrow)
    )


class Scale:
    """The numbers of one order type."""

    def __init__(self, type: Base):
        self.type, self.arrow = type, arrow_type(type)
        self.discrete = not pa.types.is_floating(self.arrow)

    @property
    def kind(self) -> type:
        """The type of the numbers."""
        return np.int64 if self.discrete else np.float64

    def numbers(self, column: pa.Array) -> Numbers:
        """The numbers of a column without NULLs."""
        column = canonical(column)
        if pa.types.is_floating(column.type):
            return np.asarray(column, np.float64)
        if pa.types.is_date32(column.type):
            column = column.view(pa.int32())
        elif not pa.types.is_integer(column.type):
            column = column.view(pa.int64())
        return np.asarray(column.cast(pa.int64()))

    def without_place(self, column: pa.Array) -> pa.Array:
        """Which values stand nowhere in the order: NULL, NaN, and numbers that are not between `LEAST` and `MOST`."""
        if not (pa.types.is_floating(column.type) or pa.types.is_int64(column.type)):
            return pc.is_null(column)
        least, most = (pa.scalar(self.kind(n), column.type) for n in (LEAST, MOST))
        inside = pc.and_(pc.greater(column, least), pc.less(column, most))
        return pc.invert(pc.fill_null(inside, False))

    def number(self, value: Any) -> Any:
        """The number of one value."""
        return self.numbers(pa.array([value], self.arrow))[0].item()

    def values(self, numbers: Numbers) -> pa.Array:
        """A column with some numbers."""
        whole = pa.array(numbers)
        if pa.types.is_date32(self.arrow):
            whole = whole.cast(pa.int32())
        return whole.cast(self.arrow)

    def bound(self, pattern: Pattern) -> Bound | None:
        """Up to where all values from the first one on match; None if the first ones do not."""
        if not isinstance(pattern, Range) or pattern.low is not None:
            return None
        if pattern.high is None:
            return MOST, True
        limit = self.number(pattern.high)
        if not limit < MOST:  # NaN, too: no row stands there
            return MOST, True
        if limit <= LEAST:
            return LEAST, False
        if not self.discrete:
            return limit, pattern.high_closed
        return (limit + 1 if pattern.high_closed else limit), False

    def limit(self, at: Any) -> Any:
        """The limit of a bound as a number; those beyond all values are infinite."""
        if not self.discrete and abs(at) >= MOST:
            return np.inf if at >= MOST else -np.inf
        return at


def latest(bounds: Sequence[Bound]) -> Bound:
    """The bound that covers most; nothing where there is none."""
    return max(bounds, default=(LEAST, False))
