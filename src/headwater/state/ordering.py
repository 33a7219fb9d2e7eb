"""The order of many numbers: each is sorted together with its place, as one number.

numpy sorts numbers as they are several times faster than it finds the order that they have, as the processor then
compares many at a time. So a number is shifted to the left, as far as it goes, and its place put behind it: when these are sorted, the last
bits are the order. What does not fit of a number are its lowest bits, and those that differ in nothing else are put in order
afterwards; of hashes, which are spread evenly, there are hardly any. Rows in groups are sorted by one number for group and columns.

Equal numbers stay in the order in which they were given: every order that this gives is stable.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

INTEGER = pa.int64()
Ints = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]

FEW = 1000
"""So many numbers are sorted faster by comparing them."""
RUNS = 4
"""Sorted stretches, one after another, that are merged faster than sorted anew."""
BITS = 63
"""Bits of a number by which rows of several columns are sorted; the last one is its sign."""


def order_of(values: Ints) -> Ints:
    """The stable order of 64-bit numbers."""
    if len(values) < FEW or np.count_nonzero(values[1:] < values[:-1]) < RUNS:
        return np.argsort(values, kind="stable")  # it finds what is in order already
    low, width = int(values.min()), (len(values) - 1).bit_length()
    lost = max((int(values.max()) - low).bit_length() + width - 64, 0)
    # What is subtracted wraps around, and is the distance all the same.
    packed = (values - low).view(np.uint64)
    packed >>= np.uint64(lost)
    packed <<= np.uint64(width)
    packed |= np.arange(len(values), dtype=np.uint64)
    packed.sort()
    places = np.uint64((1 << width) - 1)
    order = (packed & places).view(np.int64)
    return _mended(values, order, packed[1:] ^ packed[:-1] <= places) if lost else order


def in_order(order: Ints) -> bool:
    """Whether an order moves nothing."""
    return bool((order[1:] > order[:-1]).all())


def _mended(values: Ints, order: Ints, same: np.ndarray[Any, np.dtype[np.bool_]]) -> Ints:
    """The order of numbers, from that of their first bits, which are the `same` for a row and the one behind it."""
    here = np.flatnonzero(same)
    if not (values[order[here + 1]] < values[order[here]]).any():
        return order
    tied = np.zeros(len(values), np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    places = np.flatnonzero(tied)
    some = order[places]
    order[places] = some[np.argsort(values[some], kind="stable")]
    return order


def by_columns(
    group: Ints, columns: Sequence[pa.Array | Ints], down: Collection[int] = ()
) -> Ints | None:
    """The stable order by group, which ascends from 0, and then by columns of whole numbers, those at `down` from the highest.

    None of other columns. Group and columns are put into one number, as much of them as fits.
    """
    numbers = [_numbers(c) for c in columns]
    used = int(group[-1]).bit_length() if len(group) else 0
    code, whole = group.copy(), True
    for i, c in enumerate(numbers):
        if c is None:
            return None
        if not whole or not len(c):
            continue
        low, high = int(c.min()), int(c.max())
        # What is subtracted wraps around, and is the distance all the same.
        distance = (high - c if i in down else c - low).view(np.uint64)
        width = (high - low).bit_length()
        room = min(width, BITS - used)
        if room:
            code = code << room | (distance >> np.uint64(width - room)).view(np.int64)
        used, whole = used + room, room == width
    order = order_of(code)
    return order if whole else _with_rest(code, numbers, order, down)


def _with_rest(code: Ints, numbers: Sequence[Any], order: Ints, down: Collection[int]) -> Ints:
    """An order by code, with rows of one code in the order of the numbers that it is the beginning of.

    Rows of one code are mostly equal, as an entry and what takes it away are: only where some differ they are sorted.
    """
    found = code[order]
    same = found[1:] == found[:-1]
    behind = np.flatnonzero(same) + 1
    here, before = order[behind], order[behind - 1]
    differ = np.zeros(len(behind), np.bool_)
    for c in numbers:
        differ |= c[here] != c[before]
    if not differ.any():
        return order
    stretch = np.cumsum(np.append(0, ~same))  # rows of one code
    mixed = np.zeros(int(stretch[-1]) + 1, np.bool_)
    mixed[stretch[behind[differ]]] = True
    places = np.flatnonzero(mixed[stretch])
    some = order[places]
    # What goes down is turned round by its bits, which no number is too small for.
    upwards = [~c[some] if i in down else c[some] for i, c in enumerate(numbers)]
    order[places] = some[np.lexsort([*reversed(upwards), found[places]])]
    return order


def _numbers(column: pa.Array | Ints) -> Ints | None:
    """A column of whole numbers, dates or times without NULLs as 64-bit numbers; None if it is another."""
    if isinstance(column, np.ndarray):
        return column
    if column.null_count:
        return None
    t = column.type
    if t == INTEGER:
        found: Ints = column.to_numpy()
        return found
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(t) or pa.types.is_time64(t) or pa.types.is_duration(t):
        column = column.cast(pa.int64())
    elif not pa.types.is_signed_integer(t):
        return None
    return np.asarray(column).astype(np.int64, copy=False)
