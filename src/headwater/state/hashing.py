"""Hashes of keys: 64 bits that any two equal keys share, on any machine, for ever.

State on disk is sorted by these hashes, so they are written down here in full and depend on no library's
own hash. A column gives a *word* for each row: an integer, date, time or boolean itself, a float its bits (one NaN,
no negative zero), a decimal its unscaled integer, text and bytes the sum of their scrambled 8-byte words.
Equal values of any width have the same word. The words of a row's columns are folded from left to right,

    h = mix(h + word + GOLDEN),    beginning with 0,

where `mix` is the finaliser of splitmix64. There is no loop over rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from headwater.state.keys import (
    INTEGER,
    Ints,
    all_parts,
    canonical,
    expand,
    grouped,
    row_bytes,
)

Words = np.ndarray[Any, np.dtype[np.uint64]]

GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)
FIRST, SECOND = np.uint64(0xBF58_476D_1CE4_E5B9), np.uint64(0x94D0_49BB_1331_11EB)
NULL = np.uint64(0x6A09_E667_F3BC_C909)
"""The word of NULL."""
LENGTH = np.uint64(0xD6E8_FEB8_6659_FD93)
"""What a text adds for each of its bytes, so that zero bytes at its end count."""
NAN = np.uint64(0x7FF8 << 48)
MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
"""By the number of bytes of a word that belong to a text: which bits they are."""
PLACES = np.arange(1, 9, dtype=np.uint64) * GOLDEN
"""What the first words of a text are scrambled with: n times `GOLDEN` for the n-th."""
WORD = np.dtype(np.uint64)
MICROS = {"s": 1_000_000, "ms": 1000, "us": 1}


def hash_keys(columns: list[pa.Array], rows: int) -> Ints:
    """The hash of each row of a composite key; 0 for all if it has no columns."""
    h = np.zeros(rows, np.uint64)
    if rows:
        scratch = np.empty_like(h)
        for column in columns:
            assert len(column) == rows, f"{len(column)} values for {rows} keys"
            h += words(_whole(column))
            h += GOLDEN
            mix(h, scratch)
    return h.view(np.int64)


def mix(x: Words, scratch: Words) -> None:
    """The finaliser of splitmix64, in place: every bit of a word decides on every bit. mix(0) = 0."""
    for shift, factor in ((30, FIRST), (27, SECOND), (31, None)):
        np.right_shift(x, np.uint64(shift), out=scratch)
        np.bitwise_xor(x, scratch, out=x)
        if factor is not None:
            np.multiply(x, factor, out=x)


def words(column: pa.Array) -> Words:
    """A word for each value; not to be written to, for it may be the column's own memory."""
    found = _present(column)
    if column.null_count and not pa.types.is_struct(column.type):
        return np.where(np.asarray(column.is_null()), NULL, found)
    return found


def _present(column: pa.Array) -> Words:
    """The words of the values that are there; anything under a NULL."""
    t = column.type
    if t == INTEGER:
        return _buffer(column, 1, WORD)
    if pa.types.is_integer(t) or pa.types.is_date32(t):
        return _integers(column)
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return _texts(_buffer(column, 1, np.dtype(np.int32), 1), column.buffers()[2])
    if pa.types.is_large_string(t) or pa.types.is_large_binary(t):
        return _texts(_buffer(column, 1, np.dtype(np.int64), 1), column.buffers()[2])
    if pa.types.is_decimal(t):
        return _decimals(column)
    if pa.types.is_timestamp(t) or pa.types.is_time(t) or pa.types.is_duration(t):
        return _times(column)
    if pa.types.is_boolean(t):
        return _integers(column.cast(pa.int8()))
    if pa.types.is_floating(t):
        return _floats(column)
    if pa.types.is_struct(t):
        valid = column.is_valid()
        return hash_keys([valid, *column.flatten()], len(column)).view(np.uint64)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        offsets, data = row_bytes(canonical(column))
        return _texts(offsets, pa.py_buffer(data))
    if pa.types.is_dictionary(t):
        return words(column.dictionary_decode())
    if pa.types.is_null(t):
        return np.full(len(column), NULL, np.uint64)
    raise TypeError(f"no key has the type {t}")


# --- numbers ------------------------------------------------------------------------------------------------


def _integers(column: pa.Array) -> Words:
    """Integers of any width, as 64 bits."""
    width = column.type.bit_width // 8
    kind = "u" if str(column.type).startswith("u") else "i"
    values = _buffer(column, 1, np.dtype(f"{kind}{width}"))
    return values.astype(np.int64, copy=False).view(np.uint64)


def _times(column: pa.Array) -> Words:
    """Microseconds, whatever the unit; what is finer shares a hash."""
    values = _integers(column).view(np.int64)
    unit = column.type.unit
    micros = values // 1000 if unit == "ns" else values * np.int64(MICROS[unit])
    return micros.view(np.uint64)


def _floats(column: pa.Array) -> Words:
    """The bits as a double, with the one NaN and no negative zero."""
    narrow = _buffer(column, 1, np.dtype(f"f{column.type.bit_width // 8}"))
    values = narrow.astype(np.float64, copy=False) + 0.0
    bits = values.view(np.uint64)
    strange = np.isnan(values)
    if strange.any():
        bits[strange] = NAN
    return bits


def _decimals(column: pa.Array) -> Words:
    """The unscaled integer: its low word, and its others where they are more than a sign."""
    count = column.type.bit_width // 64
    if not count:
        return _integers(column)
    held = _buffer(column, 1, np.dtype(np.int64), 0, count).reshape(-1, count)
    out = held[:, 0].astype(np.uint64)
    sign = held[:, 0] >> 63
    for i in range(1, count):
        more = (held[:, i] - sign).view(np.uint64)
        if more.any():
            more *= np.uint64(2 * i - 1)
            mix(more, np.empty_like(more))
            out ^= more
    return out


# --- texts --------------------------------------------------------------------------------------------------


def _texts(offsets: np.ndarray[Any, Any], data: pa.Buffer | None) -> Words:
    """For each text its length and the sum of its 8-byte words, each scrambled with its place.

    Words are little-endian, the last one filled up with zeros; the empty text has one. Most texts are short:
    the words at the same place are read together, and only the rest of long texts is numbered word by word.
    """
    start, end = int(offsets[0]), int(offsets[-1])
    at = offsets[:-1].astype(np.int64) - start
    left = np.diff(offsets).astype(np.int64, copy=False)
    out = left.view(np.uint64) * LENGTH
    held = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    view = _overlapping(held[start:end])
    out += _scrambled(view, at, left, PLACES[0])
    which = np.flatnonzero(left > 8)
    at, left = at[which] + 8, left[which] - 8
    for place in PLACES[1:]:
        if not len(which):
            return out
        out[which] += _scrambled(view, at, left, place)
        more = np.flatnonzero(left > 8)
        which, at, left = which[more], at[more] + 8, left[more] - 8
    if len(which):
        out[which] += _rest(view, at, left)
    return out


def _rest(view: Words, at: Ints, left: Ints) -> Words:
    """The sums over the words of long texts that no place is kept for."""
    counts = (left + 7) >> 3
    place = expand(np.zeros_like(counts), counts)
    byte = place << 3
    keyed = (place.view(np.uint64) + np.uint64(len(PLACES) + 1)) * GOLDEN
    terms = _scrambled(view, np.repeat(at, counts) + byte, np.repeat(left, counts) - byte, keyed)
    sums: Words = np.add.reduceat(terms, np.cumsum(counts) - counts)
    return sums


def _scrambled(view: Words, at: Ints, left: Ints, keyed: Any) -> Words:
    """mix(word + key) for the words at some places; `left` says how many of its bytes belong to the text, and only these count."""
    found = view[at]
    found &= MASKS.take(left, mode="clip")
    found += keyed
    mix(found, np.empty_like(found))
    return found


def _overlapping(data: np.ndarray[Any, Any]) -> Words:
    """The little-endian word that begins at each byte; zeros follow the end."""
    padded = np.zeros(len(data) + 8, np.uint8)
    padded[: len(data)] = data
    return np.ndarray((len(data) + 1,), "<u8", padded.data, 0, (1,))


# --- memory -------------------------------------------------------------------------------------------------


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _buffer(
    column: pa.Array, which: int, dtype: np.dtype[Any], extra: int = 0, per_value: int = 1
) -> np.ndarray[Any, Any]:
    """A buffer of a column from its first value to its last, not copied."""
    count = (len(column) + extra) * per_value
    buffer = column.buffers()[which]
    if buffer is None or buffer.size == 0:
        return np.zeros(count, dtype)
    return np.frombuffer(buffer, dtype, count, column.offset * per_value * dtype.itemsize)


def places(left: list[pa.Array], right: list[pa.Array]) -> Ints:
    """Where each key on the right is among the different keys on the left; -1 if it is not there."""
    n = len(left[0])
    columns = [
        canonical(pa.concat_arrays([a, b.cast(a.type)])) for a, b in zip(left, right, strict=True)
    ]
    total = len(columns[0])
    h, flat = np.asarray(hash_keys(columns, total)), all_parts(columns)
    order, starts = grouped(h, flat)
    group = np.zeros(total, np.int64)
    group[order] = np.searchsorted(starts, np.arange(total), side="right") - 1
    holder = np.full(len(starts), -1, np.int64)
    holder[group[:n]] = np.arange(n)
    return holder[group[n:]]


# --- parts ----------------------------------------------------------------------------------------------------


def part_bounds(part: int, parts: int) -> tuple[int, int]:
    """The hashes of a part, from the first up to one behind the last: equal ranges of all that there are."""
    step = (1 << 64) // parts
    high = 1 << 63 if part == parts - 1 else -(1 << 63) + (part + 1) * step
    return -(1 << 63) + part * step, high


def parts_of(h: Ints, parts: int) -> Ints:
    """The parts that hashes are in."""
    if parts == 1:
        return np.zeros(len(h), np.int64)
    step = np.uint64((1 << 64) // parts)
    places = (h.view(np.uint64) ^ np.uint64(1 << 63)) // step
    found: Ints = np.minimum(places, np.uint64(parts - 1)).astype(np.int64)
    return found
