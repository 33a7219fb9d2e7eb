"""Numbers that are added up without rounding: whole numbers times powers of 2**32, a column at a time.

A double is a whole number times a power of two, so a sum of doubles is one, too. In memory a column is a matrix of
limbs: number i is the sum of words[j, i] · 2**(32 · (low[i] + j)), with words of 64 bits, so that billions of limbs
can be added before any of them is full; carrying makes them 32 bits wide again. On disk a number is the place of its
lowest limb and its limbs in two's complement, as few as say it; zero is nothing at all. So there is one form of each
number, deletion is subtraction, and what came and went leaves no trace. `rounded` and `means` are the nearest doubles,
ties to even, as `math.fsum` has it: the only places where anything is rounded. There is no loop over rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.state.keys import Bools, Ints

Array = np.ndarray[Any, Any]
STORED = pa.large_binary()
"""How such a column is kept."""
BITS = 32
LIMB = np.int64((1 << BITS) - 1)
ROOM = 1 << 30
"""Factors below it can be multiplied with limbs as they are."""
AT_ONCE = 1 << 13
"""Numbers that are worked on at a time: their limbs stay in the cache, and need little memory wherever they lie."""
FARTHEST = 1 << 10
"""Limbs are nowhere near this place, whatever doubles are multiplied."""


@dataclass(frozen=True)
class Limbs:
    """A column of numbers: the place of the lowest limb of each, and the limbs."""

    low: Ints
    words: Ints

    def __len__(self) -> int:
        return len(self.low)

    def take(self, rows: Any) -> Limbs:
        """Some of the numbers."""
        return Limbs(self.low[rows], self.words[:, rows])


class Products(NamedTuple):
    """Numbers that are yet to be made, of which a sum may be all that is wanted: those at some places, times whole numbers.

    Where many rows have the same number its limbs are there once.
    """

    of: Limbs
    at: Ints | None
    by: Ints | None

    def made(self, rows: Ints) -> Limbs:
        """Some of the numbers."""
        found = self.of.take(rows if self.at is None else self.at[rows])
        return found if self.by is None else scaled(found, self.by[rows])

    def stored(self) -> pa.Array:
        """The numbers, as they are kept."""
        n = len(self.of if self.at is None else self.at)
        parts = [_stored(self.made(np.arange(s.start, s.stop))) for s in pieces(n)]
        return pa.concat_arrays([pa.array([], STORED), *parts])

    def sums(self, order: Ints, starts: Ints) -> pa.Array:
        """The sum of each group of numbers that an order puts together, as it is kept."""
        return _summed(lambda a, b: self.made(order[a:b]), len(order), starts)


# --- numbers as limbs ---------------------------------------------------------------------------------------


def of_doubles(x: Array) -> Limbs:
    """Finite doubles, as they are: 53 bits at any place lie in three limbs."""
    bits = np.ascontiguousarray(x, np.float64).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & ((1 << 52) - 1)) | np.where(exponent > 0, np.int64(1 << 52), 0)
    place = np.maximum(exponent, 1) - 1075
    low, by = place >> 5, place & 31
    a, b = (mantissa & LIMB) << by, (mantissa >> BITS) << by
    words = np.stack((a & LIMB, (a >> BITS) + (b & LIMB), b >> BITS))
    return Limbs(low, np.where(bits < 0, -words, words))


def of_integers(x: Array) -> Limbs:
    """64-bit integers."""
    x = np.asarray(x, np.int64)
    return Limbs(np.zeros(len(x), np.int64), np.stack((x & LIMB, x >> BITS)))


def of_halves(both: Array) -> Limbs:
    """Integers of 128 bits, given as rows of a low and a high word: the digits of decimals."""
    low, high = both[:, 0], both[:, 1]
    words = np.stack((low & LIMB, low >> BITS & LIMB, high & LIMB, high >> BITS))
    return Limbs(np.zeros(len(both), np.int64), words)


def times(a: Limbs, b: Limbs) -> Limbs:
    """The products of the numbers in the same rows: a · 16 bits of b at a time."""
    a, b = carried(a), carried(b)
    width, n = a.words.shape
    out = np.zeros((width + len(b.words) + 1, n), np.int64)
    for j, digit in enumerate(b.words):
        out[j : j + width] += a.words * (digit & 0xFFFF)
        upper = a.words * (digit >> 16)
        out[j : j + width] += (upper & 0xFFFF) << 16
        out[j + 1 : j + 1 + width] += upper >> 16
        if j % 4 == 3:
            _carry(out)
    return Limbs(a.low + b.low, out)


def scaled(a: Limbs, by: Array) -> Limbs:
    """The numbers times whole numbers."""
    if len(by) and max(int(by.max()), -int(by.min())) >= ROOM:
        return times(a, of_integers(by))
    return Limbs(a.low, carried(a).words * np.asarray(by))


def carried(a: Limbs) -> Limbs:
    """The same numbers in limbs of 32 bits; the last limb is the sign, 0 or -1."""
    wide = np.zeros((len(a.words) + 2, len(a)), np.int64)
    wide[:-2] = a.words
    _carry(wide[:-1])
    if (wide[-2] == wide[-2] >> 1).all():  # 0 or -1: the limb beyond it is not needed
        return Limbs(a.low, wide[:-1])
    return Limbs(a.low, _carry(wide))


def _carry(words: Ints) -> Ints:
    """Limbs of 32 bits, in place; the last one takes what is left, with the sign."""
    for word, above in pairwise(words):
        above += word >> BITS
        word &= LIMB
    return words


def aligned(a: Limbs, base: int, width: int) -> Ints:
    """The limbs with all numbers at one place."""
    out = np.zeros((width, len(a)), np.int64)
    n = len(a.words)
    if len(a) and (a.low == a.low[0]).all():
        first = int(a.low[0]) - base
        out[first : first + n] = a.words
    elif len(a):
        flat, at = out.reshape(-1), np.arange(len(a)) + (a.low - base) * len(a)
        for j, word in enumerate(a.words):
            flat[at + j * len(a)] = word
    return out


def span(*columns: Limbs) -> tuple[int, int]:
    """The place of the lowest limb of all numbers, and how many limbs there are from there."""
    some = [c for c in columns if len(c)]
    base = min((int(c.low.min()) for c in some), default=0)
    return base, max((int(c.low.max()) + len(c.words) - base for c in some), default=1)


# --- as they are kept ---------------------------------------------------------------------------------------


def stored(a: Limbs) -> pa.Array:
    """The column as it is kept: of each number its place and its limbs, without those that say nothing."""
    parts = [_stored(a.take(s)) for s in pieces(len(a))]
    return parts[0] if len(parts) == 1 else pa.concat_arrays([pa.array([], STORED), *parts])


def pieces(n: int) -> list[slice]:
    """All rows, a piece at a time."""
    return [slice(i, min(i + AT_ONCE, n)) for i in range(0, n, AT_ONCE)]


def _stored(a: Limbs) -> pa.Array:
    words = carried(a).words
    width, n = words.shape
    fill = words[-1] & LIMB
    words &= LIMB
    # The limbs from the first that is not 0 to the last that is not the sign alone, whose top bit must be the sign.
    first, last = np.full(n, width, np.int16), np.full(n, -1, np.int16)
    for j in range(width):
        last[words[j] != fill] = j
        first[words[width - 1 - j] != 0] = width - 1 - j
    top = words[last, np.arange(n)]
    last += (last >= 0) & ((top >> (BITS - 1)) != (fill & 1))
    last = np.maximum(last, first)
    live = first < width
    # A row for each number, and of each row the place and the limbs that are kept.
    rows, kept = np.empty((n, width + 1), np.uint32), np.empty((n, width + 1), np.bool_)
    rows[:, 0], kept[:, 0] = (a.low + first).astype(np.int32).view(np.uint32), live
    rows[:, 1:] = words.T
    for j in range(width):
        kept[:, j + 1] = (first <= j) & (j <= last)
    flat = rows[kept]
    ends = np.zeros(n + 1, np.int64)
    np.cumsum(np.where(live, 4 * (last.astype(np.int64) - first + 2), 0), out=ends[1:])
    return pa.Array.from_buffers(STORED, n, [None, pa.py_buffer(ends), pa.py_buffer(flat)])


def limbs(column: pa.Array) -> Limbs:
    """The numbers of a column that is kept."""
    n = len(column)
    ends = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + n + 1]
    content = column.buffers()[2]
    if not n or content is None or ends[0] == ends[-1]:
        return Limbs(np.zeros(n, np.int64), np.zeros((1, n), np.int64))
    flat = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]].view(np.int32)
    counts = np.diff(ends) >> 2
    at = (ends[:-1] - ends[0]) >> 2
    width = int(counts.max()) - 1
    live = np.flatnonzero(counts)
    low = np.full(n, flat[at[live[0]]], np.int64)
    low[live] = flat[at[live]]
    words = np.zeros((width, n), np.int64)
    for j in range(width):
        some = np.flatnonzero(counts > j + 1)
        word = flat[at[some] + (j + 1)].astype(np.int64)
        words[j, some] = np.where(counts[some] == j + 2, word, word & LIMB)  # the last has the sign
    if np.abs(low).max() > FARTHEST:
        raise ValueError("a sum lies where no sum of doubles is")
    return Limbs(low, words)


def zeros(n: int) -> pa.Array:
    """n zeros."""
    return pa.repeat(pa.scalar(b"", STORED), n)


def nonzero(column: pa.Array) -> Bools:
    """Which numbers are not zero."""
    ends = np.frombuffer(column.buffers()[1], np.int64)
    return np.asarray(np.diff(ends[column.offset : column.offset + len(column) + 1]) > 0)


def plus(a: pa.Array, b: pa.Array) -> pa.Array:
    """The sums of the numbers in the same rows."""
    parts = [_plus(limbs(a[s]), limbs(b[s])) for s in pieces(len(a))]
    return pa.concat_arrays([pa.array([], STORED), *parts])


def _plus(a: Limbs, b: Limbs) -> pa.Array:
    base, width = span(a, b)
    both = aligned(a, base, width) + aligned(b, base, width)
    return _stored(Limbs(np.full(len(a), base, np.int64), both))


def no_limbs(n: int) -> Limbs:
    """n zeros."""
    return Limbs(np.zeros(n, np.int64), np.zeros((1, n), np.int64))


def plus_at(a: Limbs, places: Ints, b: Limbs) -> Limbs:
    """The numbers with others added at different places; nothing is carried, as billions of limbs can be added before."""
    base, width = span(*(x for x in (a, b) if x.words.any()))
    words = aligned(a, base, width) if a.words.any() else np.zeros((width, len(a)), np.int64)
    if b.words.any():
        words[:, places] += aligned(b, base, width)
    return Limbs(np.full(len(a), base, np.int64), words)


def sums(column: pa.Array, starts: Ints) -> pa.Array:
    """The sum of each group of consecutive numbers; those of one number are as they are."""
    counts = np.diff(np.append(starts, len(column)))
    several = np.flatnonzero(counts > 1)
    if 4 * len(several) > len(starts):
        return _sums(column, starts)
    if not len(several):
        return column.take(pa.array(starts))
    counts = counts[several]
    begin = np.cumsum(counts) - counts
    rows = np.repeat(starts[several] - begin, counts) + np.arange(int(counts.sum()))
    places = starts.copy()
    places[several] = len(column) + np.arange(len(several))
    whole = pa.concat_arrays([column, _sums(column.take(pa.array(rows)), begin)])
    return whole.take(pa.array(places))


def _sums(column: pa.Array, starts: Ints) -> pa.Array:
    return _summed(lambda a, b: limbs(column[a:b]), len(column), starts)


def _summed(some: Callable[[int, int], Limbs], count: int, starts: Ints) -> pa.Array:
    """The sum of each group of consecutive numbers, of which `some` gives a stretch."""
    ends = np.append(starts[1:], count)
    parts, first = [pa.array([], STORED)], 0
    while first < len(starts):
        begin = int(starts[first])
        last = max(first + 1, int(np.searchsorted(ends, begin + AT_ONCE, "right")))
        end = int(ends[last - 1])
        if last > first + 1 or end - begin <= AT_ONCE:
            parts.append(_stored(added(some(begin, end), starts[first:last] - begin)))
        else:  # a large group: its parts, and the sum of those
            one = np.zeros(1, np.int64)
            cuts = [(a, min(a + AT_ONCE, end)) for a in range(begin, end, AT_ONCE)]
            within = [_stored(added(some(*cut), one)) for cut in cuts]
            parts.append(_sums(pa.concat_arrays(within), one))
        first = last
    return pa.concat_arrays(parts)


def added(a: Limbs, starts: Ints) -> Limbs:
    """The sum of each group of consecutive numbers, of which there are less than 2**31."""
    base, width = span(a)
    total = np.add.reduceat(aligned(a, base, width), starts, axis=1)
    return Limbs(np.full(len(starts), base, np.int64), total)


def frame_sums(column: pa.Array, low: Ints, high: Ints) -> pa.Array:
    """The sum of each frame, which may overlap with others."""
    return stored(framed(limbs(column), low, high))


def framed(a: Limbs, low: Ints, high: Ints) -> Limbs:
    """The sum of the numbers from `low` to `high`, without the last, of each frame."""
    base, width = span(a)
    out = np.empty((width, len(low)), np.int64)
    for word, sum_ in zip(aligned(a, base, width), out, strict=True):
        running = np.append(0, np.cumsum(word))
        sum_[:] = running[high] - running[low]
    return Limbs(np.full(len(low), base, np.int64), out)


# --- as doubles ---------------------------------------------------------------------------------------------


def doubles(column: pa.Array | Limbs, by: Array | None = None) -> Array:
    """The nearest doubles to the numbers of a column, or to their quotients by whole numbers."""
    found = [np.zeros(0)]
    for s in pieces(len(column)):
        some = column.take(s) if isinstance(column, Limbs) else limbs(column[s])
        found.append(rounded(some) if by is None else means(some, by[s]))
    return np.concatenate(found)


def rounded(a: Limbs) -> Array:
    """The nearest doubles; infinite where they are beyond all doubles."""
    high, low, whole = _two_doubles(a)
    found, sure = _settled(high, low, np.where(whole, 0.0, np.abs(high) * SLACK), a.low)
    if not sure.all():
        unsure = np.flatnonzero(~sure)
        found[unsure] = _rounded(a.take(unsure))
    return found


def means(a: Limbs, by: Array) -> Array:
    """The nearest doubles to the quotients by whole numbers above 0; infinite where the dividends are.

    A quotient of doubles and the one of what it leaves over have twice the digits of a double. Where they leave it open
    what the nearest double is, or where doubles end, the fraction itself is divided.
    """
    high, low, whole = _two_doubles(a)
    n = np.asarray(by).astype(np.float64)
    first = high / n
    product, error = _product(first, n)
    left, lost = _sum((high - product) - error, low)
    second = left / n
    product, error = _product(second, n)
    whole &= (
        (lost == 0) & (product == left) & (error == 0)
    )  # halves of numbers, which are often just between doubles
    slack = np.abs(second) * 2.0**-48 + np.abs(first) * SLACK
    found, sure = _settled(first, second, np.where(whole, 0.0, slack), a.low)
    sure &= n < 2.0**BITS
    for i in np.flatnonzero(~sure):
        some = a.take([i])
        total = _rounded(some)[0]
        quotient = _nearest(abs(fractions(some)[0]) / int(by[i]))
        found[i] = total if np.isinf(total) else np.copysign(quotient, total)
    return found


WIDEST = 24
"""Limbs that two doubles are made of."""
SLACK = 2.0**-96
"""How far off the sum of two doubles may be that stands for a number: they have 106 bits."""


def _two_doubles(a: Limbs) -> tuple[Array, Array, Bools]:
    """Numbers in units of their lowest limb as a double and what it lacks, a small part of it, and whether that is all.

    From the highest limb on, of which only the highest has a sign: once the double has lost a bit, nothing that follows
    can make it small again. What does not fit into a double at all is NaN.
    """
    words = a.words
    if len(words) > WIDEST:
        return np.full(len(a), np.nan), np.full(len(a), np.nan), np.zeros(len(a), np.bool_)
    below = words[:-1]
    if (below >> BITS).any() or (words[-1] >> BITS != words[-1] >> 63).any():
        words = carried(a).words
    high, low, lost = np.zeros(len(a)), np.zeros(len(a)), np.zeros(len(a))
    for j in range(len(words) - 1, -1, -1):
        high, more = _sum(high, words[j] * 2.0 ** (BITS * j))
        low, less = _sum(low, more)
        lost += np.abs(less)
    return high, low, lost == 0


def _sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The sums of doubles, and what they lack of the exact ones (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _settled(high: Array, low: Array, slack: Array, place: Ints) -> tuple[Array, Bools]:
    """The sums of two doubles at a place, rounded once, and whether all numbers so near to them are rounded to the same."""
    found = high + (low - slack)
    sure = found == high + (low + slack)
    size = np.frexp(found)[1] + BITS * place
    sure &= (np.abs(size) < 1000) | (found == 0) & (high == 0) & (low == 0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.ldexp(found, (BITS * place).astype(np.int32)) + 0.0, sure


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """The products of doubles, and what they lack of the exact ones: both factors in halves (Dekker)."""
    product = a * b
    with np.errstate(over="ignore", invalid="ignore"):
        a1 = a * HALVES - (a * HALVES - a)
        b1 = b * HALVES - (b * HALVES - b)
    a2, b2 = a - a1, b - b1
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


HALVES = float((1 << 27) + 1)


def _rounded(a: Limbs) -> Array:
    """The nearest doubles, from the limbs."""
    sign, high, rest, place = _leading(a)
    out = _doubles(high, rest, place)
    for i in np.flatnonzero((place + 64 < -1000) & (high > 0)):
        # Doubles have fewer bits there, and nothing must be rounded twice.
        out[i] = _nearest(abs(fractions(a.take([i]))[0]))
    return sign * out


def fractions(a: Limbs) -> list[Fraction]:
    """The numbers themselves."""
    return [_fraction(n, low) for n, low in zip(_wholes(a), a.low.tolist(), strict=True)]


def _wholes(a: Limbs) -> list[int]:
    """The numbers as whole numbers of their lowest limbs."""
    words = carried(a).words
    step = 4 * len(words)
    content = (words & LIMB).T.astype("<u4").tobytes()
    return [
        int.from_bytes(content[i : i + step], "little", signed=True)
        for i in range(0, len(content), step)
    ]


def _fraction(n: int, low: int) -> Fraction:
    return Fraction(n << BITS * low) if low >= 0 else Fraction(n, 1 << -BITS * low)


def _leading(a: Limbs) -> tuple[Array, Array, Bools, Ints]:
    """Sign, first 64 bits from the highest that is set, whether anything is behind them, and their unit's power of 2."""
    words = carried(a).words
    negative = words[-1] < 0
    if negative.any():
        words = _carry(np.where(negative, -words, words))
    width, n = words.shape
    words = np.concatenate((np.zeros((2, n), np.int64), words))
    top, first = np.full(n, 2), np.full(n, width + 2)
    for j in range(2, width + 2):
        top = np.where(words[j] != 0, j, top)
        first = np.where(words[width + 3 - j] != 0, width + 3 - j, first)
    at = np.arange(n)
    h2, h1, h0 = (words[top - k, at].astype(np.uint64) for k in range(3))
    shift = (BITS - np.frexp(h2.astype(np.float64))[1]).astype(np.uint64)
    shift = np.where(h2 > 0, shift, 0).astype(np.uint64)
    back = np.uint64(BITS) - shift
    high = ((h2 << np.uint64(BITS) | h1) << shift) | (h0 >> back)
    rest = ((h0 & ((np.uint64(1) << back) - np.uint64(1))) != 0) | (first < top - 2)
    place = BITS * (a.low + top - 3) - shift.astype(np.int64)
    return np.where(negative, -1.0, 1.0), high, rest, place


def _doubles(high: Array, rest: Bools, place: Ints) -> Array:
    """high · 2**place: 64 bits, of which the last says that more follow, are rounded to 53 once."""
    odd = high | rest.astype(np.uint64)
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(odd.astype(np.float64), place.astype(np.int32))


def _nearest(x: Fraction) -> float:
    try:
        return x.numerator / x.denominator
    except OverflowError:
        return float("inf")
