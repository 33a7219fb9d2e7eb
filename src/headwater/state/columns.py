"""Columns of entries as they are worked on: numpy's where they are 64-bit numbers without NULL, and Arrow's where not.

Of a small table every call costs more than its rows, and numpy's calls cost a tenth of Arrow's. So what is found in several
runs and put together stays in columns of this kind, and becomes a table once, in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from headwater.state.keys import INTEGER, Ints, parts

Column: TypeAlias = Any
"""A numpy array of 64-bit numbers, or an Arrow array of anything else."""
NUMBER = np.dtype(np.int64)
NONE = np.zeros(0, NUMBER)
MANY = 1 << 17
"""Rows of which Arrow is the faster one to take them."""


def columns_of(table: pa.Table, names: Iterable[str]) -> list[Column]:
    """Columns of a table, to work on."""
    return [worked(column(table, n)) for n in names]


def as_table(columns: Sequence[Column], names: list[str]) -> pa.Table:
    """Columns as a table."""
    return pa.Table.from_arrays([arrow(c) for c in columns], names)


def column(table: pa.Table, name: str) -> pa.Array:
    """A column of a table as one array."""
    found = table.column(name)
    if type(found) is not pa.ChunkedArray:
        return found
    if found.num_chunks == 1:
        return found.chunk(0)
    return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)


def worked(values: pa.Array) -> Column:
    """A column to work on, not copied: it keeps the memory alive, and no other object."""
    if values.type == INTEGER and not values.null_count and len(values):
        return np.frombuffer(values.buffers()[1], NUMBER, len(values), values.offset * 8)
    return values if values.type != INTEGER or values.null_count else NONE


def arrow(c: Column) -> pa.Array:
    """A column as an Arrow array, not copied."""
    if type(c) is not np.ndarray:
        return c
    return pa.Array.from_buffers(INTEGER, len(c), [None, pa.py_buffer(np.ascontiguousarray(c))])


def taken(c: Column, rows: Ints) -> Column:
    """Some rows of a column."""
    if type(c) is np.ndarray and len(rows) < MANY:
        return c[rows]
    return worked(arrow(c).take(pa.array(rows)))


def all_taken(columns: Sequence[Column], rows: Ints) -> list[Column]:
    """Some rows of columns."""
    return [taken(c, rows) for c in columns]


def joined(columns: Sequence[Column]) -> Column:
    """Columns one after another."""
    if len(columns) == 1:
        return columns[0]
    if all(type(c) is np.ndarray for c in columns):
        return np.concatenate(columns)
    return pa.concat_arrays([arrow(c) for c in columns])


def parts_of(columns: Sequence[Column]) -> list[Column]:
    """Flat columns that compare and order as these do together."""
    return [p for c in columns for p in ([c] if type(c) is np.ndarray else parts(c))]
