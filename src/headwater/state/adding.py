"""Columns of numbers that are added up: sums of stretches, sums of two columns, and other values at some places.

A column is numpy's or Arrow's (`state/columns`), and what is made of it is of the same kind.
A sum that does not fit into its column is an error, never a number that wrapped around. Decimals whose sum surely fits into 64
bits are added as integers, and others with more digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.state import exact
from headwater.state.columns import Column
from headwater.state.keys import Ints
from headwater.state.run import MOST, column


def sums(values: Column, starts: Ints) -> Column:
    """The sum of each group of consecutive values."""
    if type(values) is np.ndarray:
        return _totals(values, starts)
    if len(starts) == 0:
        return values.slice(0, 0)
    if values.type == exact.STORED:
        return exact.sums(values, starts)
    if pa.types.is_decimal(values.type):
        few = small(values, len(values))
        if few is not None:
            return decimals(np.add.reduceat(few, starts), values.type)
        counts = np.diff(np.append(starts, len(values)))
        group = pa.array(np.repeat(np.arange(len(starts)), counts))
        table = pa.table({"g": group, "v": wide(values)})
        total = table.group_by("g", use_threads=False).aggregate([("v", "sum")])
        return fitted(column(total, "v_sum"), values.type)
    try:
        return pa.array(_totals(np.asarray(values), starts), values.type)
    except pa.ArrowInvalid as e:
        raise OverflowError(f"a sum does not fit into {values.type}") from e


def _totals(array: np.ndarray[Any, Any], starts: Ints) -> np.ndarray[Any, Any]:
    """The same of numbers as numpy has them."""
    if len(starts) in (0, len(array)):
        return array[: len(starts)]
    total: np.ndarray[Any, Any] = np.add.reduceat(array, starts)
    if array.dtype.kind == "i" and len(array) * max(int(array.max()), -int(array.min())) >= MOST:
        rough = np.add.reduceat(array.astype(np.float64), starts)
        if (np.abs(rough - total) > 2.0**62).any():  # what wrapped is off by a multiple of 2**64
            raise OverflowError("a sum of integers does not fit into 64 bits")
    return total


def plus(a: Column, b: Column) -> Column:
    """The sum of two columns, in their own type."""
    if type(a) is np.ndarray:
        total = a + b
        if (((a ^ total) & (b ^ total)) < 0).any():  # its sign is that of neither
            raise OverflowError("a sum does not fit into int64")
        return total
    if a.type == exact.STORED:
        return exact.plus(a, b)
    if pa.types.is_decimal(a.type):
        x, y = small(a, 2), small(b, 2)
        if x is not None and y is not None:
            return decimals(x + y, a.type)
        return fitted(pc.add_checked(wide(a), wide(b)), a.type)
    try:
        return pc.add_checked(a, b)
    except pa.ArrowInvalid as e:
        raise OverflowError(f"a sum does not fit into {a.type}") from e


def halves(values: pa.Array) -> Ints | None:
    """Decimals as rows of two 64-bit words, low and high; None if they are kept in another way."""
    if values.null_count or not pa.types.is_decimal128(values.type):
        return None
    count, start = 2 * len(values), 16 * values.offset
    return np.frombuffer(values.buffers()[1], np.int64, count, start).reshape(-1, 2)


def small(values: pa.Array, terms: int) -> Ints | None:
    """Decimals as unscaled integers, if the sum of `terms` of them surely fits into 64 bits; adding these is cheap."""
    both = halves(values) if len(values) else None
    if both is None:
        return None
    low, high = both[:, 0], both[:, 1]
    if (high != low >> 63).any() or terms * max(int(low.max()), -int(low.min())) >= MOST:
        return None
    return low


def decimals(unscaled: Ints, t: pa.DataType) -> pa.Array:
    """Decimals of unscaled integers; an error where they do not fit."""
    most = max(int(unscaled.max()), -int(unscaled.min()))
    if most >= 10**t.precision:
        raise OverflowError(f"a sum does not fit into {t}")
    both = np.stack((unscaled, unscaled >> 63), axis=1)
    return pa.Array.from_buffers(t, len(unscaled), [None, pa.py_buffer(both)])


def wide(values: pa.Array) -> pa.Array:
    """Decimals with room for the digits that adding them takes."""
    return values.cast(pa.decimal256(60, values.type.scale))


def fitted(values: pa.Array, t: pa.DataType) -> pa.Array:
    """Decimals in a type again; an error where they do not fit."""
    try:
        return values.cast(t)
    except pa.ArrowInvalid as e:
        raise OverflowError(f"a sum does not fit into {t}") from e


def zeros(t: pa.DataType, n: int) -> pa.Array:
    """n zeros."""
    if t == pa.int64():
        return pa.array(np.zeros(n, np.int64))
    return exact.zeros(n) if t == exact.STORED else pa.repeat(pa.scalar(0, t), n)


def nothing(like: Column) -> Column:
    """Zeros, as many as a column has values and of its kind."""
    return np.zeros_like(like) if type(like) is np.ndarray else zeros(like.type, len(like))


def replaced(values: Column, at: Ints, new: Column) -> Column:
    """The column with other values at some places."""
    if len(at) == 0:
        return values
    if type(values) is np.ndarray:
        out: Column = values.copy()
        out[at] = new
        return out
    old, other = _plain(values), _plain(new)
    if old is None or other is None:
        places = np.arange(len(values), dtype=np.int64)
        places[at] = len(values) + np.arange(len(at), dtype=np.int64)
        return pa.concat_arrays([values, new]).take(pa.array(places))
    out = old.copy()
    out[at] = other
    if out.ndim == 2:
        return pa.Array.from_buffers(values.type, len(out), [None, pa.py_buffer(out)])
    return pa.array(out, values.type)


def _plain(values: pa.Array) -> np.ndarray[Any, Any] | None:
    """The values as a numpy array with a row for each, if they can be that."""
    if values.type == exact.STORED:
        return None
    return halves(values) if pa.types.is_decimal(values.type) else np.asarray(values)
