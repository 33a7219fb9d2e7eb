"""Keys as Arrow columns: comparing, sorting and grouping them without a loop over rows.

`parts` gives for a key column of any type a few flat columns that are equal, and ordered, as the keys
are: floats become integers in the same order (one NaN, above all; no negative zero), structs their
fields, arrays bytes. Everything else here works on parts. Groups are found by hash first and by parts
only among rows that share a hash, so keys that are all different are sorted as integers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.state.ordering import by_columns, order_of

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
INTEGER = pa.int64()


def canonical(column: pa.Array, compared: bool = True) -> pa.Array:
    """The column with the one NaN and no negative zero, as Spark compares floats; strings may be long.

    A column that is not `compared` keeps its floats as they are.
    """
    t = column.type
    if t == INTEGER:
        return column
    if pa.types.is_floating(t):
        if not compared:
            return column
        filled = column.fill_null(0.0) if column.null_count else column
        values = np.asarray(filled) + t.to_pandas_dtype()(0.0)
        strange = np.isnan(values)
        if strange.any():
            values[strange] = t.to_pandas_dtype()("nan")
        return pa.array(values, t, mask=absent_in(column) if column.null_count else None)
    if pa.types.is_struct(t) and t.num_fields:
        fields = [canonical(f, compared) for f in _struct_fields(column)]
        named = [pa.field(t.field(i).name, f.type) for i, f in enumerate(fields)]
        return pa.StructArray.from_arrays(fields, fields=named, mask=pa.array(absent_in(column)))
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        offsets, values = _list_parts(column)
        made = pa.LargeListArray.from_arrays(pa.array(offsets), canonical(values, compared))
        return pa.LargeListArray.from_buffers(
            made.type, len(column), [_validity(column), made.buffers()[1]], children=[made.values]
        )
    if pa.types.is_string(t):
        return column.cast(pa.large_string())
    if pa.types.is_binary(t):
        return column.cast(pa.large_binary())
    if pa.types.is_dictionary(t):
        return canonical(column.dictionary_decode(), compared)
    return column


@lru_cache(maxsize=1024)
def stored(t: pa.DataType) -> pa.DataType:
    """The type that a column is kept in."""
    return canonical(pa.array([], t)).type


def parts(column: pa.Array) -> list[pa.Array]:
    """Flat columns that compare and order like the (canonical) column."""
    t = column.type
    if t == INTEGER:
        return [column]
    if pa.types.is_floating(t):
        bits = np.asarray(column.fill_null(0.0).cast(pa.float64())).view(np.int64)
        ordered = bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))
        return [pa.array(ordered, mask=absent_in(column))]
    if pa.types.is_struct(t):
        valid = pa.array(~absent_in(column))
        return [valid, *(p for f in _struct_fields(column) for p in parts(f))]
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return [_binary(*row_bytes(column))]
    if pa.types.is_boolean(t):
        return [column.cast(pa.int8())]
    return [column]


def plain(column: pa.Array | Ints) -> Ints | None:
    """Integers without NULLs as they lie in memory, of which numpy does a few at a tenth of what Arrow takes; else None."""
    if isinstance(column, np.ndarray):
        return column
    if pa.types.is_integer(column.type) and not column.null_count:
        found: Ints = column.to_numpy()
        return found
    return None


def equal(left: list[pa.Array], right: list[pa.Array]) -> Bools:
    """Whether the keys in the same place are equal; NULL equals NULL."""
    out = np.ones(len(left[0]) if left else 0, np.bool_)
    for a, b in zip(left, right, strict=True):
        if pa.types.is_null(a.type):  # nothing but NULLs
            continue
        x, y = plain(a), plain(b)
        if x is not None and y is not None:
            out &= x == y
            continue
        same = np.asarray(pc.fill_null(pc.equal(a, b), False))
        if a.null_count or b.null_count:
            same = same | (absent_in(a) & absent_in(b))
        out &= same
    return out


def compared(
    held: Sequence[pa.Array | Ints], wanted: Sequence[pa.Array | Ints], down: Collection[int] = ()
) -> Ints:
    """Whether rows come before (-1), with (0) or after (1) others; NULL is the least."""
    out = np.zeros(len(held[0]), np.int64)
    for i, (a, b) in enumerate(zip(held, wanted, strict=True)):
        x, y = plain(a), plain(b)
        if x is not None and y is not None:
            sign = (x > y).astype(np.int64) - (x < y)
        else:
            sign = _compared(as_arrow(a), as_arrow(b))
        out = np.where(out == 0, -sign if i in down else sign, out)
    return out


def _compared(a: pa.Array, b: pa.Array) -> Ints:
    """The same of two columns as Arrow has them."""
    after, before = (_true(f, x, y) for f, x, y in ((pc.greater, a, b), (pc.greater, b, a)))
    sign: Ints = after.astype(np.int64) - before
    if a.null_count or b.null_count:
        sign += absent_in(b).astype(np.int64) - absent_in(a)
    return sign


def as_arrow(column: pa.Array | Ints) -> pa.Array:
    """A column as Arrow has it."""
    return pa.array(column) if isinstance(column, np.ndarray) else column


def _true(f: Callable[..., pa.Array], a: pa.Array, b: pa.Array) -> Bools:
    """Where two columns compare so; nowhere where one is NULL."""
    found = f(a, b)
    return np.asarray(found.fill_null(False) if found.null_count else found)


def bisected(
    held: Callable[[Ints], list[pa.Array]],
    wanted: list[pa.Array],
    low: Ints,
    high: Ints,
    behind: bool = False,
    down: Collection[int] = (),
) -> Ints:
    """The first rows, within [low, high), that are not before the keys wanted; or that are behind them.

    `held` gives the parts of some rows; rows are in their order there.
    """
    if not wanted:
        return high if behind else low
    low, high = low.copy(), high.copy()
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) >> 1
        these = pa.array(open_)
        there, asked = held(middle), [w.take(these) for w in wanted]
        if len(there) == 1 and not (behind or down or there[0].null_count or asked[0].null_count):
            earlier = np.asarray(pc.less(there[0], asked[0]))  # the same, in one comparison
        else:
            found = compared(there, asked, down)
            earlier = found <= 0 if behind else found < 0
        low[open_] = np.where(earlier, middle + 1, low[open_])
        high[open_] = np.where(earlier, high[open_], middle)
    return low


def same_at(columns: Sequence[pa.Array | Ints], here: Ints, there: Ints) -> Bools:
    """Whether the keys at some places equal those at others."""
    out = np.ones(len(here), np.bool_)
    for c in columns:
        values = plain(c)
        if values is not None:
            out &= values[here] == values[there]
        else:
            out &= equal([c.take(pa.array(here))], [c.take(pa.array(there))])
    return out


def all_parts(columns: list[pa.Array]) -> list[pa.Array]:
    """The parts of several columns."""
    return [p for c in columns for p in parts(c)]


def grouped(
    h: Ints, columns: Sequence[pa.Array | Ints], descending: set[int] | None = None
) -> tuple[Ints, Ints]:
    """The order by hash and then by the given parts, and where each group of equal rows starts in it.

    Parts at `descending` places go down. Equal rows stay as they were.
    """
    order = order_of(h)
    sorted_h = h[order]
    same = sorted_h[1:] == sorted_h[:-1]
    if columns and same.any():
        # Rows that share a hash mostly share their parts too, and are in order then.
        at = np.flatnonzero(same)
        equal_ones = same_at(columns, order[at + 1], order[at])
        if not equal_ones.all():
            _put_in_order(order, sorted_h, same, columns, descending or set())
            equal_ones = same_at(columns, order[at + 1], order[at])
        same[at] = equal_ones
    starts = np.concatenate(([0], np.flatnonzero(~same) + 1)) if len(h) else order
    return order, starts.astype(np.int64, copy=False)


def sort_order(
    h: Ints, columns: Sequence[pa.Array | Ints], descending: set[int] | None = None
) -> Ints:
    """The order of `grouped` alone."""
    return grouped(h, columns, descending)[0]


def _put_in_order(
    order: Ints, sorted_h: Ints, same: Bools, columns: Sequence[pa.Array | Ints], down: set[int]
) -> None:
    """Puts rows in the order of their parts where they have the hash of the row before, or of the one behind."""
    tied = np.zeros(len(order), np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    places = np.flatnonzero(tied)
    some = order[places]
    group = np.cumsum(np.append(0, sorted_h[places][1:] != sorted_h[places][:-1]))
    rows = pa.array(some)
    taken = [c[some] if type(c) is np.ndarray else c.take(rows) for c in columns]
    by_numbers = by_columns(group, taken, down)
    if by_numbers is not None:
        order[places] = some[by_numbers]
        return
    names = [f"p{i}" for i in range(len(columns))]
    table = pa.table([group, *taken], ["h", *names])
    keys = [("h", "ascending", "at_start")]
    keys += [
        (n, "descending", "at_end") if i in down else (n, "ascending", "at_start")
        for i, n in enumerate(names)
    ]
    by_key = np.asarray(pc.sort_indices(table, sort_keys=keys))
    order[places] = some[by_key]


def boundaries(h: Ints, columns: Sequence[pa.Array | Ints], order: Ints | None = None) -> Ints:
    """Where each group of equal rows starts, in rows that are sorted; with an order, of columns that are not yet in it."""
    if len(h) == 0:
        return np.zeros(0, np.int64)
    same = h[1:] == h[:-1]
    if columns and same.any():
        at = np.flatnonzero(same)
        here, before = (i if order is None else order[i] for i in (at + 1, at))
        same[at] = same_at(columns, here, before)
    return np.concatenate(([0], np.flatnonzero(~same) + 1)).astype(np.int64)


# --- arrays as bytes -----------------------------------------------------------------------------------


def row_bytes(column: pa.Array) -> tuple[Ints, np.ndarray[Any, Any]]:
    """Each row as bytes that compare and order like the rows: (offsets, data)."""
    t = column.type
    absent = absent_in(column)
    flag = (np.arange(len(column) + 1, dtype=np.int64), (~absent).astype(np.uint8))
    if pa.types.is_struct(t):
        return _joined([flag, *(row_bytes(f) for f in _struct_fields(column))])
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        offsets, values = _list_parts(column)
        inner, data = row_bytes(values)
        inner, data = _joined([_constant(b"\1", len(values)), (inner, data)])
        return _joined([flag, (inner[offsets], data), _constant(b"\0", len(column))])
    (flat,) = parts(column)
    if pa.types.is_large_string(flat.type) or pa.types.is_large_binary(flat.type):
        flat = flat.cast(pa.large_binary()).fill_null(b"")
        start = flat.offset
        offsets = np.frombuffer(flat.buffers()[1], np.int64)[start : start + len(flat) + 1]
        buffer = flat.buffers()[2]
        data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8)
        width = np.where(data == 0, 2, 1)  # a zero byte is followed by 1, and the end is two zeros
        ends = np.cumsum(width)
        data = np.repeat(data, width)
        data[(ends - 1)[width == 2]] = 1
        inner = np.concatenate(([0], ends)).astype(np.int64)[offsets]
        return _joined([flag, (inner, data), _constant(b"\0\0", len(column))])
    filled = flat.fill_null(pa.scalar(0, flat.type)) if flat.null_count else flat
    width = flat.type.bit_width // 8
    raw = np.frombuffer(filled.buffers()[1], np.uint8)
    raw = raw[filled.offset * width : (filled.offset + len(filled)) * width]
    big = raw.reshape(-1, width)[:, ::-1].copy()  # the highest byte first, its sign turned round
    big[:, 0] ^= 0x80
    return _joined([flag, (np.arange(len(column) + 1, dtype=np.int64) * width, big.reshape(-1))])


def _constant(content: bytes, n: int) -> tuple[Ints, np.ndarray[Any, Any]]:
    raw = np.tile(np.frombuffer(content, np.uint8), n)
    return np.arange(n + 1, dtype=np.int64) * len(content), raw


def _joined(columns: list[tuple[Ints, np.ndarray[Any, Any]]]) -> tuple[Ints, np.ndarray[Any, Any]]:
    """Columns of bytes put together row by row."""
    lengths = [np.diff(offsets) for offsets, _ in columns]
    offsets = np.concatenate(([0], np.cumsum(sum(lengths)))).astype(np.int64)
    out = np.zeros(int(offsets[-1]), np.uint8)
    start = offsets[:-1].copy()
    for (source, data), length in zip(columns, lengths, strict=True):
        out[expand(start, length)] = data[expand(source[:-1], length)]
        start += length
    return offsets, out


def expand(starts: Ints, counts: Ints) -> Ints:
    """The integers of the ranges [start, start + count), one after another."""
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(total, dtype=np.int64)


def _binary(offsets: Ints, data: np.ndarray[Any, Any]) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def absent_in(column: pa.Array) -> Bools:
    """Where a column is NULL."""
    if column.null_count == 0:
        return np.zeros(len(column), np.bool_)
    return np.asarray(column.is_null())


def _validity(column: pa.Array) -> pa.Buffer | None:
    return pa.array(~absent_in(column)).buffers()[1] if column.null_count else None


def _struct_fields(column: pa.StructArray) -> list[pa.Array]:
    """The fields, NULL where the struct is, so that equal structs have equal fields."""
    return list(column.flatten())


def _list_parts(column: pa.Array) -> tuple[Ints, pa.Array]:
    """Offsets from 0 and the values they point into; an absent list is empty."""
    values = column.flatten()
    lengths = np.asarray(column.value_lengths().fill_null(0)).astype(np.int64)
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64), values
