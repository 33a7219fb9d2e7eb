"""The order of many numbers, found digit by digit: sorting in time that grows with how many they are alone.

numpy sorts numbers of 16 bits by counting, in a few milliseconds a million, so that two passes, the lower digit first,
sort numbers of 32 bits. Hashes are spread evenly: their first 32 bits tell nearly all of them apart, and the few that
share those and differ behind them are sorted as they are. Several columns are sorted the last one first, each by as
many digits as it has.

Equal numbers stay in the order in which they were given: every order that this gives is stable.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

Ints = np.ndarray[Any, np.dtype[np.int64]]
Numbers = np.ndarray[Any, Any]

FEW = 4096
"""So many numbers are sorted faster by comparing them."""
RUNS = 64
"""Sorted stretches, one after another, that are merged faster than sorted anew."""
FIRST, SECOND = (3, 2) if sys.byteorder == "little" else (0, 1)
"""Where the digits of a 64-bit number that count most are among its four."""
MOST_DIGITS = 8
"""Columns of more digits are sorted faster by comparing rows."""


def order_of(values: Ints) -> Ints:
    """The stable order of 64-bit numbers."""
    if len(values) < FEW or np.count_nonzero(values[1:] < values[:-1]) <= RUNS:
        return np.argsort(values, kind="stable")  # it finds what is in order already
    low, high = int(values.min()), int(values.max())
    if high - low < 1 << 32:
        return _by_digits(values - low, high - low)
    quarters = np.ascontiguousarray(values).view(np.uint16).reshape(-1, 4)
    order = np.argsort(quarters[:, SECOND], kind="stable")
    first = quarters[:, FIRST].view(np.int16)  # which has the sign
    return _in_order(values, order[np.argsort(first[order], kind="stable")])


def in_order(order: Ints) -> bool:
    """Whether an order moves nothing."""
    return bool((order[1:] > order[:-1]).all())


def _by_digits(values: Numbers, most: int, order: Ints | None = None) -> Ints:
    """The order of numbers from 0 to `most`; where they are equal the given one."""
    for i in range(digits(most)):
        digit = ((values >> (16 * i)) & 0xFFFF).astype(np.uint16)
        if order is None:
            order = np.argsort(digit, kind="stable")
        else:
            order = order[np.argsort(digit[order], kind="stable")]
    return np.arange(len(values)) if order is None else order


def digits(most: int) -> int:
    """How many digits of 16 bits numbers up to `most` have."""
    return -(-most.bit_length() // 16)


def _in_order(values: Ints, order: Ints) -> Ints:
    """The order of numbers, from that of their first 32 bits."""
    found = values[order]
    if not (found[1:] < found[:-1]).any():
        return order
    known = found >> 32
    same = known[1:] == known[:-1]
    tied = np.zeros(len(values), np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    places = np.flatnonzero(tied)
    order[places] = order[places][np.argsort(found[places], kind="stable")]
    return order


def by_columns(columns: Sequence[pa.Array], down: Collection[int] = ()) -> Ints | None:
    """The stable order by columns of whole numbers, those at `down` from the highest; None of others, or where it is no gain."""
    if not columns or len(columns[0]) < FEW:
        return None
    ranges: list[tuple[Numbers, int]] = []
    for i, c in enumerate(columns):
        found = None if c.null_count else _numbers(c)
        if found is None:
            return None
        low, high = int(found.min()), int(found.max())
        if sum(digits(m) for _, m in ranges) + digits(high - low) > MOST_DIGITS:
            return None
        # What is subtracted wraps around, and is the distance all the same.
        distance = high - found if i in down else found - low
        ranges.append((distance.view(np.uint64), high - low))
    order: Ints | None = None
    for values, most in reversed(ranges):
        order = _by_digits(values, most, order)
    return order


def _numbers(column: pa.Array) -> Ints | None:
    """A column of whole numbers, dates or times as 64-bit numbers; None if it is another."""
    t = column.type
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(t) or pa.types.is_time64(t) or pa.types.is_duration(t):
        column = column.cast(pa.int64())
    elif not pa.types.is_signed_integer(t):
        return None
    return np.asarray(column).astype(np.int64)
