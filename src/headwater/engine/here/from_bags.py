"""Answers from bags in order: a value for each group, its first rows, or its rows with windows.

`from_bag` gives one value for each group: the least or greatest element without reading the group, or a function of all
of its elements. `ranked` gives rows: the first of each group, or all of them with what window functions say. `around` gives
only the rows that a change can matter for, with their windows: for lag(x, 1) and a changed row, that row and the next one.

All groups are read at once. `INDEX` is the column that says which of the keys a row belongs to; rows are in the order of
the groups, and inside of a group in the order of the map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.ring import EXACT
from headwater.calculus.windows import Total
from headwater.engine.here.bags import COUNT, answer
from headwater.engine.here.sessions import connected
from headwater.engine.here.windows import Carry, evaluate, exact
from headwater.engine.rings import exactly
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import COLLECT, ENDS, FromBag, Ranked
from headwater.state.adding import plus, replaced, sums
from headwater.state.arrangement import INDEX, Arrangement, TooMany
from headwater.state.ends import first_k, last_k
from headwater.state.keys import Ints
from headwater.state.positions import AT, from_position
from headwater.state.run import column

ALL = 1 << 40
"""More rows than a group has."""
GONE = 4
"""Entries of a run that are read at once where the nearest element is gone: it is there still, and what takes it away too."""
FEW = 32
"""Entries that groups have in the mean, up to which they are read whole where an end is gone: that says both ends at once."""


def from_bag(at: Arrangement, b: FromBag, keys: pa.Table, reach: int = 1) -> pa.Array:
    """The value of a function of each group's bag; `reach` is how much of it is read at once for the nearest element."""
    if b.function in ENDS:
        last, item = ENDS[b.function]
        found = (last_k if last else first_k)(at, keys, 1, reach)
        # If a group has several entries here they are nearest first: written backwards, the first of them stays. A
        # group without entries keeps -1, and gets NULL.
        index = np.asarray(column(found, INDEX))
        places = np.full(keys.num_rows, -1, np.int64)
        places[index[::-1]] = np.arange(len(index), dtype=np.int64)[::-1]
        return column(found, b.items[item]).take(pa.array(places, mask=places < 0))
    found = first_k(at, keys, ALL)
    names = {f"i{i}": column(found, n) for i, n in enumerate(b.items)}
    counts = column(found, at.spec.count)
    if b.distinct:
        counts = pc.min_element_wise(counts, 1)
    if b.function == COLLECT:
        return _collected(b, list(names.values()), np.asarray(counts), found, keys.num_rows)
    table = pa.table({**names, COUNT: counts})
    groups = np.asarray(column(found, INDEX))
    return answer(b.function, b.params, table, groups, keys.num_rows, arrow_type(b.type))


def next_ends(
    at: Arrangement, asked: Sequence[tuple[FromBag, Ints]], keys: pa.Table
) -> list[pa.Array]:
    """For each function of an end its values of some of the groups, those whose nearest element is gone."""
    groups = np.unique(np.concatenate([some for _, some in asked]))
    try:
        found = at.lookup(keys.take(pa.array(groups)), most=FEW * len(groups))
    except TooMany:
        return [from_bag(at, b, keys.take(pa.array(some)), GONE) for b, some in asked]
    index = np.asarray(column(found, INDEX))
    rows, out = np.arange(len(index)), list[pa.Array]()
    for b, some in asked:
        last, item = ENDS[b.function]
        places = np.full(len(groups), -1, np.int64)
        # The entries of a group are in order: of several that are written to one place the last one stays.
        turn = rows if last else rows[::-1]
        places[index[turn]] = turn
        ends = places[np.searchsorted(groups, some)]
        out.append(column(found, b.items[item]).take(pa.array(ends, mask=ends < 0)))
    return out


def _collected(
    b: FromBag, items: list[pa.Array], counts: Ints, found: pa.Table, groups: int
) -> pa.Array:
    """The elements of each group as an array, each as often as it is there."""
    t = arrow_type(b.type)
    each = pa.array(np.repeat(np.arange(len(counts)), np.maximum(counts, 0)))
    values = items[0]
    if pa.types.is_struct(t.value_type):
        fields = list(t.value_type)
        parts = [i.cast(f.type) for i, f in zip(items, fields, strict=True)]
        values = pa.StructArray.from_arrays(parts, fields=fields)
    at = np.asarray(column(found, INDEX))[np.asarray(each)]
    offsets = np.searchsorted(at, np.arange(groups + 1), "left")
    made = pa.LargeListArray.from_arrays(
        pa.array(offsets.astype(np.int64)), values.take(each).cast(t.value_type)
    )
    return made.cast(t)


def ranked(
    at: Arrangement, r: Ranked, keys: pa.Table
) -> tuple[Ints, dict[str, pa.Array], pa.Array]:
    """The rows of groups: which group, their columns, and how often each is there."""
    found = first_k(at, keys, ALL if r.limit is None else r.limit + r.offset)
    group = np.asarray(column(found, INDEX))
    counts = np.maximum(np.asarray(column(found, at.spec.count)), 0)
    if r.windows:
        return _windowed(at, r, found, group, counts)
    if r.limit is not None or r.offset:
        counts = _between(group, counts, r.offset, r.limit)
    kept = np.flatnonzero(counts)
    found = found.take(pa.array(kept))
    return group[kept], {n: column(found, c) for c, n in r.row}, pa.array(counts[kept])


def _between(group: Ints, counts: Ints, offset: int, limit: int | None) -> Ints:
    """For each entry, which stands for `counts` equal rows: how many of these lie between an offset and a limit.

    With the counts 2 and 3, an offset of 1 and a limit of 2 it is 1 and 1.
    """
    if not len(group):
        return counts
    ends = np.cumsum(counts)
    starts = ends - counts
    # Positions run through all groups; less that of the group's first entry they are positions inside of the group.
    position = starts - starts[np.searchsorted(group, group, "left")]
    stop = position + counts if limit is None else np.minimum(position + counts, offset + limit)
    return np.asarray(np.maximum(stop - np.maximum(position, offset), 0))


def _windowed(
    at: Arrangement, r: Ranked, found: pa.Table, group: Ints, counts: Ints
) -> tuple[Ints, dict[str, pa.Array], pa.Array]:
    """The rows of groups with their windows' values, each as often as it is there."""
    if r.limit is not None:
        counts = _between(group, counts, 0, r.limit)
    each = np.repeat(np.arange(len(group)), counts)
    found, group = found.take(pa.array(each)), group[each]
    rows = _valued(at, r, found, group)
    return group, rows, pa.array(np.ones(len(group), np.int64))


def _valued(
    at: Arrangement, r: Ranked, found: pa.Table, group: Ints, carry: Carry | None = None
) -> dict[str, pa.Array]:
    """The columns of rows, and those of their windows; `carry` has the totals of what comes before the rows."""
    rows = {n: column(found, c) for c, n in r.row}
    order = {f"o{i}": column(found, c) for i, c in enumerate(r.order)}
    directions = [(o.descending, o.nulls_last) for o in at.spec.order][: len(order)]
    functions = [w for _, w in r.windows]
    table = pa.table({**rows, **order})
    values = evaluate(table, group, list(order), directions, functions, carry)
    return rows | {n: v for (n, _), v in zip(r.windows, values, strict=True)}


# --- the rows around a change -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """For each group the order columns of the first and of the last entry that changed."""

    low: pa.Table
    high: pa.Table

    def take(self, places: pa.Array) -> Span:
        """Those of some groups."""
        return Span(self.low.take(places), self.high.take(places))


def changed_part(new: Arrangement, keys: pa.Table) -> tuple[pa.Table, Span]:
    """The groups whose rows changed, and between which positions: `new` has only the entries that an increment added."""
    names = [o.column for o in new.spec.order]
    first, last = _nearest_of(first_k(new, keys, 1)), _nearest_of(last_k(new, keys, 1))
    changed = pa.array(np.asarray(column(first, INDEX)))
    return keys.take(changed), Span(first.select(names), last.select(names))


def _nearest_of(found: pa.Table) -> pa.Table:
    """The first entry of each group."""
    index = np.asarray(column(found, INDEX))
    return found.take(
        pa.array(np.flatnonzero(np.append(True, index[1:] != index[:-1])[: len(index)]))
    )


def around(
    at: Arrangement, r: Ranked, keys: pa.Table, span: Span, totals: Mapping[Total, Any]
) -> tuple[Ints, dict[str, pa.Array], pa.Array]:
    """The rows that a change between two positions can matter for, with their windows' values.

    More rows are read than are given: those that the values of the given rows depend on. `totals` are those of the whole
    groups.
    """
    # A row reads `before` rows before it and `after` rows behind it. So a change matters for `after` rows before it and
    # for `before` rows behind it. The outermost of these read their own rows: before + after rows on both sides.
    before, after = r.reach.before, r.reach.after
    if r.reach.kind == "session":
        found = connected(at, keys, span.low, span.high, r.order[0], gap=before)
    elif r.reach.kind == "local":
        wide = before + after
        found = from_position(at, keys, span.low, wide, wide, span.high, marked=True)
    else:
        found = from_position(at, keys, span.low, before, marked=True)
    counts = np.maximum(np.asarray(column(found, at.spec.count)), 0)
    each = np.repeat(np.arange(len(counts)), counts)
    found = found.take(pa.array(each))
    group, side = (np.asarray(column(found, n)) for n in (INDEX, AT))
    carry = None
    if r.reach.kind == "suffix":
        # Everything from the change on was read. What comes before it is the whole group less that, so a running sum
        # can go on from there without reading it: totals are linear, and are kept with the group.
        carry = {
            t: _powers_before(t, whole, r, found, group)
            if t.kind == "power"
            else _less(whole, _total(t, r, found, group, keys.num_rows))
            for t, whole in totals.items()
        }
    rows = _valued(at, r, found, group, carry)
    given_rows = side >= 0 if r.reach.kind == "session" else _given(group, side, after, before)
    kept = np.flatnonzero(given_rows)
    given = {n: c.take(pa.array(kept)) for n, c in rows.items()}
    return group[kept], given, pa.array(np.ones(len(kept), np.int64))


def _given(group: Ints, side: Ints, before: int, behind: int) -> np.ndarray[Any, Any]:
    """Which rows are between the positions, at most `before` rows before these, or at most `behind` rows behind them.

    `side` is -1 for rows before the positions, 1 for those behind, and 0 between.
    """
    place = np.arange(len(group))
    low, high = (np.searchsorted(group, group, s) for s in ("left", "right"))
    earlier = np.append(0, np.cumsum(side < 0))
    later = np.append(0, np.cumsum(side > 0))
    # How many rows it is from here to those between, this one included, and from those to here.
    to_middle = earlier[high] - earlier[low] - (place - low)
    from_middle = place + 1 - (high - (later[high] - later[low]))
    near = ((side < 0) & (to_middle <= before)) | ((side > 0) & (from_middle <= behind))
    return np.asarray(near | (side == 0))


def _total(t: Total, r: Ranked, found: pa.Table, group: Ints, groups: int) -> Any:
    """A total of the rows that were read, by group, in whole numbers."""
    names = {n: c for c, n in r.row}
    columns = [column(found, names[c]) for c in t.columns]
    values: Any = np.ones(len(group), np.int64)
    if t.kind == "count":
        for c in columns:
            values = values * np.asarray(c.is_valid()).astype(np.int64)
    elif t.kind == "sum":
        values = exact(columns[0]).astype(object)
    out = np.zeros(groups, object)
    np.add.at(out, group, values)
    return out


def _powers_before(t: Total, whole: pa.Table, r: Ranked, found: pa.Table, group: Ints) -> pa.Table:
    """The sums of powers of groups without those of the rows that were read, which are together."""
    names = {n: c for c, n in r.row}
    values = column(found, names[t.columns[0]])
    if pa.types.is_null(values.type) or not len(group):
        return whole
    less = exactly("s", [values.fill_null(0)] * t.power, pa.array(np.full(len(group), -1)))
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    at = pa.array(group[starts])
    out = {}
    for name, part in less.items():
        before = column(whole, name)
        after = plus(before.take(at), sums(part, starts))
        out[name] = replaced(before, group[starts], after)
    return pa.table(out)


def _less(whole: pa.Array, part: Any) -> pa.Array:
    """A total of whole groups, less that of the rows that were read."""
    left = exact(whole).astype(object) - part
    if not pa.types.is_decimal(whole.type):
        return pa.array(left.tolist(), pa.int64())
    scale = whole.type.scale
    return pa.array([Decimal(int(n)).scaleb(-scale, EXACT) for n in left], pa.decimal128(38, scale))
