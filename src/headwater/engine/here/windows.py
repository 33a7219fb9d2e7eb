"""Window functions on Arrow tables: the meaning of `calculus/windows.py`, a column at a time.

The table has the rows of many partitions, one after another, each in order and repeated as often as it is
there. A frame is two arrays, where it begins and ends for each row; everything else follows from them:
counts and exact sums are differences of running totals, the first and last rows are taken, extremes come
from stretches of 1, 2, 4, ... rows, two of which cover any frame. Sums of floats are exact, too, and rounded
once; those of older views are added up one by one from the front of each frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.frames import powers_of, spread, welford
from headwater.calculus.scalars import EXACT, divide
from headwater.calculus.types import DOUBLE, INTEGRAL, Base
from headwater.calculus.windows import (
    DEFAULT,
    Direction,
    Frame,
    Interval,
    Total,
    Window,
)
from headwater.engine.rings import exactly, told
from headwater.errors import ScalarError
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import Told
from headwater.state.adding import plus
from headwater.state.exact import frame_sums
from headwater.state.keys import (
    Bools,
    Ints,
    all_parts,
    boundaries,
    canonical,
    grouped,
    parts,
)
from headwater.state.run import column

Array = np.ndarray[Any, Any]
Carry = Mapping[Total, Any]
"""For each total that is carried, its value by partition index; NULL is nothing. Sums of powers are tables."""

AT_ONCE = 1 << 22
"""Rows of frames that are added up at a time, which bounds the memory."""


def evaluate(
    table: pa.Table,
    groups: Ints,
    order: Sequence[str],
    directions: Sequence[Direction],
    windows: Sequence[Window],
    carry: Carry | None = None,
) -> list[pa.Array]:
    """A column for each window, with a row for each row of the table.

    `groups` has the partition's index of each row and does not descend; the rows of a partition are in the
    order of the `order` columns. With `carry` the table has the ends of partitions, and the totals are of
    the rows that come before: values are right from where a whole group of peers is in the table, and as
    many rows from its start as `reach` says.
    """
    rows = Rows(table, groups, order, directions, carry or {})
    return [_column(FUNCTIONS[w.function](rows, w), w) for w in windows]


def _column(out: pa.Array, w: Window) -> pa.Array:
    t = arrow_type(w.returns)
    if pa.types.is_floating(out.type):
        out = canonical(out)
    return out if out.type == t else out.cast(t)


class Rows:
    """The rows, where their partitions, peers and frames begin and end, and what comes before them."""

    def __init__(
        self,
        table: pa.Table,
        groups: Ints,
        order: Sequence[str],
        directions: Sequence[Direction],
        carry: Carry,
    ):
        self.table, self.directions, self.carry = table, directions, carry
        self.groups = np.asarray(groups, np.int64)
        self.order = [self.column(n) for n in order]
        self.count = table.num_rows
        self.at = np.arange(self.count, dtype=np.int64)
        self.first, self.end = _stretches(boundaries(self.groups, []), self.count)
        self.peers = boundaries(self.groups, all_parts(self.order))
        self.peer_first, self.peer_end = _stretches(self.peers, self.count)
        self._frames: dict[Frame, tuple[Ints, Ints]] = {}

    def column(self, name: str) -> pa.Array:
        """A column of the table, with one NaN and one zero."""
        column = self.table.column(name)
        return canonical(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))

    def before(self, total: Total) -> Ints | Array:
        """A total of the rows that come before the table, for each row's partition."""
        if total not in self.carry:
            return np.zeros(self.count, np.int64)
        carried = self.carry[total]
        return exact(carried)[self.groups]

    def frame(self, w: Window) -> tuple[Ints, Ints]:
        """For each row the place of the first row of its frame, and the place after the last."""
        frame = w.frame or DEFAULT
        if frame not in self._frames:
            low = self._bound(frame.unit, frame.start.offset, True)
            high = self._bound(frame.unit, frame.end.offset, False)
            self._frames[frame] = low, np.maximum(low, high)
        return self._frames[frame]

    def _bound(self, unit: str, offset: Any, start: bool) -> Ints:
        if offset is None:
            return self.first if start else self.end
        if unit == "rows":
            place = self.at + (offset + (not start))
            return np.asarray(np.clip(place, self.first, self.end))
        if not isinstance(offset, Interval) and offset == 0:
            return self.peer_first if start else self.peer_end
        return self._by_value(offset, start)

    def _by_value(self, offset: Any, start: bool) -> Ints:
        """Where the bound is that lies so far away in the order column; rows with NULL are by themselves."""
        (column,), ((descending, _),) = self.order, self.directions
        keys, bounds = _moved(column, offset, descending)
        low, high = self._valued
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            unsure = low < high
            here = keys[np.where(unsure, middle, 0)]
            if descending:
                earlier = (here > bounds) if start else (here >= bounds)
            else:
                earlier = (here < bounds) if start else (here <= bounds)
            low = np.where(unsure & earlier, middle + 1, low)
            high = np.where(unsure & ~earlier, middle, high)
        alone = np.asarray(column.is_null())
        return np.where(alone, self.peer_first if start else self.peer_end, low)

    @cached_property
    def _valued(self) -> tuple[Ints, Ints]:
        """The stretch of each partition that has no NULL in the order column, which is at one end."""
        absent = np.asarray(self.order[0].is_null())
        nulls = _running(absent.astype(np.int64))
        leading = np.where(absent[self.first], nulls[self.end] - nulls[self.first], 0)
        trailing = np.where(absent[self.first], 0, nulls[self.end] - nulls[self.first])
        low = self.first + leading
        return low, np.maximum(low, self.end - trailing)


def _stretches(starts: Ints, count: int) -> tuple[Ints, Ints]:
    """For each row, where its stretch begins and ends."""
    ends = np.append(starts[1:], count).astype(np.int64)
    lengths = ends - starts[: len(ends)] if count else np.zeros(0, np.int64)
    return np.repeat(starts, lengths), np.repeat(ends[: len(starts)], lengths)


def _running(values: Array) -> Array:
    """The totals of the first 0, 1, 2, ... values."""
    return np.concatenate((np.zeros(1, values.dtype), np.cumsum(values)))


# --- numbers ---------------------------------------------------------------------------------------------


def exact(column: pa.Array) -> Array:
    """Integers, or decimals times their power of ten, NULL as 0: int64, or Python's where they are longer."""
    t = column.type
    if not pa.types.is_decimal(t):
        filled = column.fill_null(0) if column.null_count else column
        return np.asarray(filled).astype(np.int64)
    if not len(column):
        return np.zeros(0, np.int64)
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    words = words[column.offset : column.offset + len(column)].copy()
    words[np.asarray(column.is_null())] = 0
    low, high = words[:, 0], words[:, 1]
    if (high == low >> 63).all():
        return low
    return np.asarray(low.view(np.uint64).astype(object) + (high.astype(object) << 64))


def _roomy(values: Array, count: int, factor: int = 1) -> Array:
    """The same numbers; as Python's integers if the sum of `count` of them, times the factor, may not fit into 64 bits."""
    if values.dtype == object or not len(values):
        return values
    largest = max(abs(int(values.max())), abs(int(values.min())))
    return values if largest * max(count, 1) * factor < 1 << 62 else values.astype(object)


def _numbers(values: Array, valid: Bools, t: Base) -> pa.Array:
    """A column of bigint or decimal from whole numbers; an error where one does not fit."""
    limit = 10**t.precision if t.name == "decimal" else 1 << (INTEGRAL[t.name] - 1)
    least = 1 - limit if t.name == "decimal" else -limit
    wrong = np.flatnonzero(valid & ((values < least) | (values >= limit)).astype(np.bool_))
    if len(wrong):
        value = Decimal(int(values[wrong[0]])).scaleb(-t.scale, context=EXACT)
        raise ScalarError(f"{value} does not fit into {t}", hint="cast to a wider type first")
    values = np.where(valid, values, 0)
    if t.name != "decimal":
        return pa.array(values.astype(np.int64), mask=~valid)
    words = np.empty((len(values), 2), np.int64)
    if values.dtype == object:
        low = (values & 0xFFFF_FFFF_FFFF_FFFF).astype(np.uint64)
        words[:, 0], words[:, 1] = low.view(np.int64), (values >> 64).astype(np.int64)
    else:
        words[:, 0], words[:, 1] = values, values >> 63
    bits = pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(arrow_type(t), len(values), [bits, pa.py_buffer(words)])


def _moved(column: pa.Array, offset: Any, back: bool) -> tuple[Array, Array]:
    """An order column, and the same with an offset added or taken away, as numbers that compare."""
    t, sign = column.type, -1 if back else 1
    if pa.types.is_floating(t):
        shifted = canonical(
            pa.array(np.asarray(column.fill_null(0.0)).astype(np.float64) + sign * offset)
        )
        keys, bounds = (np.asarray(parts(c)[0].fill_null(0)) for c in (column, shifted))
        return keys, bounds
    if pa.types.is_date(t) or pa.types.is_timestamp(t):
        days = pa.types.is_date(t)
        plain = column.cast(pa.int32() if days else pa.int64()).fill_null(0)
        keys = np.asarray(plain).astype(np.int64)
        return keys, _later(keys, offset, sign, 1 if days else 86_400_000_000)
    keys, by = exact(column), Decimal(offset)
    scale = t.scale if pa.types.is_decimal(t) else 0
    finer = max(0, -int(by.as_tuple().exponent) - scale)
    keys = _roomy(keys, 1, 10**finer) * 10**finer
    step = sign * int(by.scaleb(scale + finer, context=EXACT))
    return keys, _roomy(np.append(keys, step), 2)[:-1] + step


def _later(ticks: Ints, offset: Any, sign: int, day: int) -> Ints:
    """Days or microseconds with an interval added: months first, within the month that is reached."""
    by = offset if isinstance(offset, Interval) else Interval(days=offset)
    if by.months:
        days, clock = ticks // day, ticks % day
        dates = days.astype("M8[D]")
        month = dates.astype("M8[M]")
        place = (dates - month.astype("M8[D]")).astype(np.int64)
        month = month + sign * by.months
        last = ((month + 1).astype("M8[D]") - month.astype("M8[D]")).astype(np.int64) - 1
        days = month.astype("M8[D]").astype(np.int64) + np.minimum(place, last)
        ticks = days * day + clock
    return ticks + sign * (by.days * day + (by.microseconds if day > 1 else 0))


# --- functions of the place ------------------------------------------------------------------------------


def _row_number(rows: Rows, _: Window) -> pa.Array:
    return pa.array(rows.at - rows.first + 1 + rows.before(Total("rows")))


def _rank(rows: Rows, _: Window) -> pa.Array:
    return pa.array(rows.peer_first - rows.first + 1 + rows.before(Total("rows")))


def _dense_rank(rows: Rows, _: Window) -> pa.Array:
    begins = np.zeros(rows.count, np.int64)
    begins[rows.peers] = 1
    seen = np.cumsum(begins)
    return pa.array(seen - seen[rows.first] + 1)


def _percent_rank(rows: Rows, _: Window) -> pa.Array:
    return pa.array((rows.peer_first - rows.first) / np.maximum(rows.end - rows.first - 1, 1))


def _cume_dist(rows: Rows, _: Window) -> pa.Array:
    return pa.array((rows.peer_end - rows.first) / (rows.end - rows.first))


def _ntile(rows: Rows, w: Window) -> pa.Array:
    size, longer = np.divmod(rows.end - rows.first, w.offset)
    place = rows.at - rows.first
    upto = longer * (size + 1)  # the first buckets have a row more
    later = longer + (place - upto) // np.maximum(size, 1)
    return pa.array(np.where(place < upto, place // (size + 1), later) + 1)


def _shift(rows: Rows, w: Window) -> pa.Array:
    by = w.offset if w.function == "lead" else -w.offset
    column = rows.column(w.arguments[0])
    places = rows.at + by
    if w.ignore_nulls and by:
        valid = np.asarray(column.is_valid())
        present, seen = np.flatnonzero(valid), _running(valid.astype(np.int64))
        nth = seen[1:] + by - 1 if by > 0 else seen[:-1] + by
        places = _at(present, nth, rows.count)
    inside = (places >= rows.first) & (places < rows.end)
    if w.default is None:
        return column.take(pa.array(places, mask=~inside))
    other = rows.column(w.default)
    other = other if other.type == column.type else other.cast(column.type)
    both = pa.concat_arrays([column, other])
    return both.take(pa.array(np.where(inside, places, rows.at + rows.count)))


def _at(present: Ints, nth: Ints, outside: int) -> Ints:
    """The n-th of some places; a place outside of the table where there is none."""
    there = (nth >= 0) & (nth < len(present))
    return np.append(present, outside)[np.where(there, nth, len(present))]


def _session_start(rows: Rows, w: Window) -> pa.Array:
    """The first time of each row's session: a row begins one where it is further than the gap behind the row before."""
    column = rows.column(w.arguments[0])
    steps = np.diff(np.asarray(column.cast(pa.int64())), prepend=0)
    begins = (rows.at == rows.first) | (steps > w.offset)
    return column.take(pa.array(np.maximum.accumulate(np.where(begins, rows.at, 0))))


# --- functions of the frame ------------------------------------------------------------------------------


def _nth_value(rows: Rows, w: Window) -> pa.Array:
    column = rows.column(w.arguments[0])
    low, high = rows.frame(w)
    if w.ignore_nulls:
        valid = np.asarray(column.is_valid())
        present, seen = np.flatnonzero(valid), _running(valid.astype(np.int64))
        nth = seen[high] - 1 if w.function == "last_value" else seen[low] + _skipped(w)
        places = _at(present, nth, rows.count)
    else:
        places = high - 1 if w.function == "last_value" else low + _skipped(w)
    return column.take(pa.array(places, mask=(places < low) | (places >= high)))


def _skipped(w: Window) -> int:
    return w.offset - 1 if w.function == "nth_value" else 0


def _counts(rows: Rows, w: Window) -> Array:
    """How many rows of each frame have no NULL in the arguments, with those before the table."""
    low, high = rows.frame(w)
    valid = np.ones(rows.count, np.bool_)
    for name in w.arguments:
        valid &= np.asarray(rows.table.column(name).is_valid())
    seen = _running(valid.astype(np.int64))
    total = Total("count", w.arguments) if w.arguments else Total("rows")
    return np.asarray(seen[high] - seen[low] + _carried(rows, w, total))


def _carried(rows: Rows, w: Window, total: Total) -> Any:
    """What comes before the table, where frames have all that does."""
    running = (w.frame or DEFAULT).start.offset is None
    return rows.before(total) if running and rows.carry else 0


def _count(rows: Rows, w: Window) -> pa.Array:
    return pa.array(_counts(rows, w))


def _exact_sums(rows: Rows, w: Window) -> Array:
    low, high = rows.frame(w)
    seen = _running(_roomy(exact(rows.column(w.arguments[0])), rows.count))
    sums, before = seen[high] - seen[low], _carried(rows, w, Total("sum", w.arguments))
    if isinstance(before, np.ndarray):
        sums, before = _roomy(sums, 2), _roomy(before, 2)
    return np.asarray(sums + before)


def _sum(rows: Rows, w: Window) -> pa.Array:
    valid = _counts(rows, w) > 0
    if w.exact:
        return pc.if_else(pa.array(valid), _exactly(rows, w), pa.scalar(None, pa.float64()))
    if w.returns == DOUBLE:
        return pa.array(_float_sums(rows, w), mask=~valid)
    assert isinstance(w.returns, Base)
    return _numbers(_exact_sums(rows, w), valid, w.returns)


def _exactly(rows: Rows, w: Window) -> pa.Array:
    """An answer over the sums of powers of each frame, rounded once."""
    values = rows.column(w.arguments[0])
    if pa.types.is_null(values.type):
        return pa.nulls(rows.count, pa.float64())
    values = values.fill_null(0)
    low, high = rows.frame(w)
    ones = pa.array(np.ones(rows.count, np.int64))
    columns: dict[str, pa.Array] = {"s0": pa.array(_counts(rows, w))}
    powers = powers_of(w)
    running = (w.frame or DEFAULT).start.offset is None
    for k in powers:
        for name, c in (exactly(f"s{k}", [values] * k, ones) if k else {}).items():
            if name == f"s{k}":
                columns[name] = frame_sums(c, low, high)
            else:
                seen = _running(np.asarray(c))
                columns[name] = pa.array(seen[high] - seen[low])
            before = rows.carry.get(Total("power", w.arguments, k)) if running else None
            if before is not None:
                carried = column(before, name.replace(f"s{k}", "s", 1)).take(pa.array(rows.groups))
                columns[name] = plus(columns[name], carried)
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    sums = tuple(f"s{k}" for k in powers)
    return told(Told("", f"_{w.function}", (scale,), sums), pa.table(columns))


def _avg(rows: Rows, w: Window) -> pa.Array:
    if w.exact:
        return _exactly(rows, w)
    counts = _counts(rows, w)
    valid, divisor = counts > 0, np.maximum(counts, 1)
    t, argument = w.returns, rows.table.schema.field(w.arguments[0]).type
    assert isinstance(t, Base)
    if pa.types.is_floating(argument) or pa.types.is_null(argument):
        with np.errstate(invalid="ignore"):
            return pa.array(_float_sums(rows, w) / divisor, mask=~valid)
    sums = _exact_sums(rows, w)
    if t == DOUBLE:
        return pa.array(sums.astype(np.float64) / divisor, mask=~valid)
    finer = t.scale - argument.scale
    roomy = _roomy(sums, 2, 10**finer)
    if roomy.dtype != object and int(divisor.max(initial=1)) < 1 << 30:
        twice = 2 * np.abs(roomy * 10**finer) + divisor  # rounded half up, away from zero
        return _numbers(np.sign(roomy) * (twice // (2 * divisor)), valid, t)
    exact_sums = [Decimal(int(s)).scaleb(-argument.scale, context=EXACT) for s in sums]
    pairs = zip(exact_sums, counts.tolist(), strict=True)
    return pa.array([divide(t, None, s, n) if n else None for s, n in pairs], arrow_type(t))


def _float_sums(rows: Rows, w: Window) -> Array:
    column = rows.column(w.arguments[0])
    if pa.types.is_null(column.type):
        return np.zeros(rows.count)
    return sequential(np.asarray(column.fill_null(0.0)).astype(np.float64), *rows.frame(w))


def sequential(values: Array, low: Ints, high: Ints, at_once: int = AT_ONCE) -> Array:
    """The sum of each stretch, from its front, one after another.

    Stretches that begin at the same row are prefixes of the longest of them: it is added up once.
    """
    out = np.zeros(len(low))
    if not len(low):
        return out
    starts = np.flatnonzero(np.append(True, low[1:] != low[:-1]))
    lengths = np.maximum.reduceat(high, starts) - low[starts]
    chain = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(low))))
    begin, upto = 0, np.cumsum(lengths)
    with np.errstate(invalid="ignore", over="ignore"):
        while begin < len(starts):
            done = upto[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(upto, done + at_once, "right")))
            sums, offsets = _prefixes(values, low[starts[begin:end]], lengths[begin:end])
            some = slice(starts[begin], starts[end] if end < len(starts) else len(low))
            length = high[some] - low[some]
            places = offsets[chain[some] - begin] + length - 1
            out[some] = np.where(length > 0, sums[np.where(length > 0, places, 0)], 0.0)
            begin = end
    return out


def _prefixes(values: Array, low: Ints, lengths: Ints) -> tuple[Array, Ints]:
    """The running sums of stretches, one stretch behind another, and where each begins.

    The longest are added up one by one, the others together, a row of each at a time: a stretch in the one
    way costs about as much as a step in the other, and the sum of both is the least that it can be.
    """
    offsets = np.cumsum(lengths) - lengths
    sums = np.zeros(max(int(lengths.sum()), 1))
    longest = np.argsort(-lengths, kind="stable")
    steps = np.append(lengths[longest], 0)
    alone = int(np.argmin(np.arange(len(steps)) + steps))
    for i in longest[:alone]:
        stretch = slice(offsets[i], offsets[i] + lengths[i])
        np.cumsum(values[low[i] : low[i] + lengths[i]], out=sums[stretch])
    rest = longest[alone:]
    total, shorter = np.zeros(len(rest)), -lengths[rest]
    for step in range(int(steps[alone])):
        active = int(np.searchsorted(shorter, -step, "left"))
        some = rest[:active]
        total[:active] += values[low[some] + step]
        sums[offsets[some] + step] = total[:active]
    return sums, offsets


def _extreme(rows: Rows, w: Window) -> pa.Array:
    """The least or greatest value of each frame, by the places that the values have among all."""
    column = rows.column(w.arguments[0])
    low, high = rows.frame(w)
    present = np.flatnonzero(np.asarray(column.is_valid()))
    compact = column.take(pa.array(present)) if len(present) < rows.count else column
    h = np.zeros(len(present), np.int64)
    flat = parts(compact)
    order, starts = grouped(h, flat)
    ranks = np.zeros(len(present), np.int64)
    ranks[starts[1:]] = 1
    codes = np.empty(len(present), np.int64)
    codes[order] = np.cumsum(ranks)
    seen = _running(np.asarray(column.is_valid()).astype(np.int64))
    down = w.function in ("max", "bool_or")
    best = _least(-codes if down else codes, seen[low], seen[high])
    found = seen[high] > seen[low]
    code = np.where(found, -best if down else best, 0)
    places = order[starts[code]] if len(present) else code
    return compact.take(pa.array(places, mask=~found))


def _least(codes: Ints, low: Ints, high: Ints) -> Ints:
    """The least number of each stretch: the lesser of two stretches of 2^k that cover it; 0 of none."""
    out = np.zeros(len(low), np.int64)
    length = high - low
    level, size = codes, 1
    while True:
        fits = np.flatnonzero((length >= size) & (length < 2 * size))
        out[fits] = np.minimum(level[low[fits]], level[high[fits] - size])
        if not (length >= 2 * size).any():
            return out
        level, size = np.minimum(level[:-size], level[size:]), 2 * size


def _spread(rows: Rows, w: Window) -> pa.Array:
    """Variances; of older views a number at a time, and a frame that continues the last one goes on from it."""
    if w.exact:
        return _exactly(rows, w)
    low, high = (b.tolist() for b in rows.frame(w))
    values = [None if v is None else float(v) for v in rows.column(w.arguments[0]).to_pylist()]
    out, state, begin, end = [], (0, 0.0, 0.0), -1, -1
    for first, last in zip(low, high, strict=True):
        if first != begin or last < end:
            state, begin, end = (0, 0.0, 0.0), first, first
        for v in values[end:last]:
            state = state if v is None else welford(state, v)
        end = last
        out.append(spread(w.function, state))
    return pa.array(out, pa.float64())


FUNCTIONS: dict[str, Callable[[Rows, Window], pa.Array]] = {
    "row_number": _row_number,
    "rank": _rank,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
    "ntile": _ntile,
    "lag": _shift,
    "lead": _shift,
    "session_start": _session_start,
    "first_value": _nth_value,
    "last_value": _nth_value,
    "nth_value": _nth_value,
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme,
    "max": _extreme,
    "bool_and": _extreme,
    "bool_or": _extreme,
    "var_pop": _spread,
    "var_samp": _spread,
    "stddev_pop": _spread,
    "stddev_samp": _spread,
}
"""What each function is, given the rows."""
