"""What the scalars over Arrow columns share: columns, what cannot be told here, and values in numpy.

A node is a function of the result type and of its operands. An operand is an array, or an Arrow scalar for what is
the same in every row. Where a value is outside of what is exact here, `ArrowCannot` is raised, and Spark gives its
value or its own error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Column = Any
"""An Arrow array, or a scalar for what is the same in every row."""
Node = Callable[..., Column]
Array = np.ndarray[Any, Any]


class ArrowCannot(Exception):
    """Arrow has no value for some row; Spark has one, or its own error."""


def columnar(f: Callable[..., pa.Array]) -> Node:
    """A node whose first operand is always an array: of one element where all rows have the same."""

    def node(t: pa.DataType, first: Column, *rest: Column) -> Column:
        if isinstance(first, pa.Scalar):
            if all(isinstance(r, pa.Scalar) for r in rest):
                return f(t, pa.array([first.as_py()], first.type), *rest)[0]
            first = pa.repeat(first, next(len(r) for r in rest if not isinstance(r, pa.Scalar)))
        return f(t, first, *rest)

    return node


def ints(a: pa.Array) -> Array:
    """The values of integers, dates or times as int64; 0 in the place of NULL."""
    if pa.types.is_date32(a.type):
        a = a.view(pa.int32())
    elif pa.types.is_timestamp(a.type):
        a = a.view(pa.int64())
    return np.asarray(a.fill_null(0)).astype(np.int64)


def floats(a: pa.Array) -> Array:
    """The values of doubles; 0.0 in the place of NULL."""
    return np.asarray(a.fill_null(0.0)).astype(np.float64)


def made(values: Array, like: pa.Array, t: pa.DataType) -> pa.Array:
    """Values as an array that is NULL where another one is."""
    mask = np.asarray(like.is_null()) if like.null_count else None
    if pa.types.is_date32(t):
        return pa.array(values.astype(np.int32), pa.int32(), mask=mask).view(t)
    if pa.types.is_timestamp(t):
        return pa.array(values.astype(np.int64), pa.int64(), mask=mask).view(t)
    return pa.array(values, t, mask=mask)


def require(condition: Array, like: pa.Array, why: str) -> None:
    """`ArrowCannot` unless a condition holds wherever there is a value."""
    if bool(np.all(condition)):
        return
    valid = np.asarray(like.is_valid())
    if not bool(np.all(condition[valid])):
        raise ArrowCannot(why)


def matches(a: pa.Array, form: str, why: str) -> None:
    """`ArrowCannot` unless every text has a form, a regular expression of RE2."""
    if not pc.all(pc.match_substring_regex(a, rf"\A(?:{form})\z"), min_count=0).as_py():
        raise ArrowCannot(why)


def constant(a: Column) -> Any:
    """The value of an operand that is the same in every row."""
    if not isinstance(a, pa.Scalar):
        raise ArrowCannot("an operand that is not constant")
    return a.as_py()
