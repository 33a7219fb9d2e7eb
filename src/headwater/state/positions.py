"""The entries of groups from a position on, in order, without reading the rest of the groups.

In an ordered map each run has the entries of a group in order, so that a position in the order is found in
each run by bisection. What lies from there on (up to a second position) is read from every run and added
up. A few rows before it, or behind, are read as in `ends`: a few entries are taken from each run, and
twice as many again for groups in which deletions have left too few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.state.arrangement import INDEX, Arrangement
from headwater.state.ends import FURTHER, _settled, first_rows
from headwater.state.entries import combine
from headwater.state.keys import Bools, Ints, bisected, canonical, expand, grouped
from headwater.state.run import MapSpec, Run, column, hashes, sort_columns

AT = "_at"
"""On which side of the positions an entry is."""


@dataclass(frozen=True)
class Span:
    """Where the groups are in a run: their first rows, the positions, and the rows after the last ones."""

    run: Run
    first: Ints
    low: Ints
    high: Ints
    end: Ints


def from_position(
    arrangement: Arrangement,
    keys: pa.Table,
    positions: pa.Table,
    before: int = 0,
    after: int = 0,
    until: pa.Table | None = None,
    marked: bool = False,
    how: str = "range",
) -> pa.Table:
    """For each row of the keys the entries of its group from its position on: `_i`, the key, the ring.

    Keys have `_h` and the look-up columns, positions the order columns of the map; both have a row for each
    group that is asked for. There are all entries that are not before the position, and, if there is an
    `until`, not after that; and entries that hold `before` rows before them and `after` rows behind them,
    repeated rows counted. None is zero; they are in order. With `marked` the column `_at` says of each whether it is
    before (-1), between (0) or behind (1). `how` is what a watch is told.
    """
    spec = arrangement.spec
    assert spec.order, "the entries of a group have a position in a map that is kept in order"
    count = keys.num_rows
    spans = _spans(arrangement, keys, positions, until)
    entries = _Entries(spec, spans, [s.low for s in spans], [s.high for s in spans])
    middle, _ = entries.added(np.zeros(entries.count, np.bool_), count, backwards=False)
    middle = middle.filter(pa.array(np.asarray(column(middle, spec.count)) != 0))
    parts = [middle]
    if before:
        nearest = _near(spec, spans, count, before, backwards=True)
        parts.insert(0, nearest.take(pa.array(np.arange(nearest.num_rows)[::-1])))
    if after and until is not None:
        parts.append(_near(spec, spans, count, after, backwards=False))
    if marked:
        sides = [-1] * bool(before) + [0] + [1] * (len(parts) - bool(before) - 1)
        parts = [_marked(p, side) for p, side in zip(parts, sides, strict=True)]
    whole = pa.concat_tables(parts)
    order = np.argsort(np.asarray(column(whole, INDEX)), kind="stable")
    return arrangement.watched(whole.take(pa.array(order)), how)


def _marked(table: pa.Table, side: int) -> pa.Table:
    return table.append_column(AT, pa.array(np.full(table.num_rows, side, np.int64)))


# --- positions -------------------------------------------------------------------------------------------


def _spans(
    arrangement: Arrangement, keys: pa.Table, positions: pa.Table, until: pa.Table | None
) -> list[Span]:
    """Where the groups and positions are, in the runs that have any of the hashes."""
    spec, h = arrangement.spec, hashes(keys)
    by_hash = np.argsort(h, kind="stable")
    back = np.empty_like(by_hash)
    back[by_hash] = np.arange(len(h))
    columns = [o.column for o in spec.order if o.column not in spec.lookup]
    group = _typed(spec, keys, list(spec.lookup))
    low = _Place(spec, group, _typed(spec, positions, columns))
    own = _Place(spec, group, {})
    high = own if until is None else _Place(spec, group, _typed(spec, until, columns))
    spans = []
    for ref in arrangement.refs:
        if not len(h) or ref.low > h.max() or ref.high < h.min():
            arrangement.runs.look(ref)
            continue
        run = arrangement.open(ref)
        starts, counts = (a[back] for a in run.hashes.ranges(h[by_hash]))
        # Other keys may have the same hash: a group is found by its key, between them.
        first = own.bisect(run, starts, starts + counts, behind=False)
        end = own.bisect(run, first, starts + counts, behind=True)
        begin = low.bisect(run, first, end, behind=False)
        stop = end if until is None else high.bisect(run, begin, end, behind=True)
        spans.append(Span(run, first, begin, stop, end))
    return spans


def _typed(spec: MapSpec, table: pa.Table, names: list[str]) -> dict[str, pa.Array]:
    """Columns as they are stored."""
    return {n: canonical(column(table, n)).cast(spec.schema.field(n).type) for n in names}


class _Place:
    """A place in the order of the entries, for each row of the keys: a group, or a position in it."""

    def __init__(self, spec: MapSpec, group: dict[str, pa.Array], position: dict[str, pa.Array]):
        columns = {**group, **position}
        self.names = list(columns)
        self.spec = replace(
            spec,
            key=tuple(k for k in spec.key if k[0] in columns),
            order=tuple(o for o in spec.order if o.column in columns),
        )
        self.wanted, self.down = sort_columns(self.spec, pa.table(columns))

    def bisect(self, run: Run, low: Ints, high: Ints, behind: bool) -> Ints:
        """The first rows, within [low, high), that are not before the places; or that are behind them."""

        def held(rows: Ints) -> list[pa.Array]:
            return sort_columns(self.spec, run.take(rows, self.names))[0]

        return bisected(held, self.wanted, low, high, behind, self.down)


# --- entries ---------------------------------------------------------------------------------------------


class _Entries:
    """The entries of groups between two rows in each run."""

    def __init__(self, spec: MapSpec, spans: list[Span], low: list[Ints], high: list[Ints]):
        self.spec = spec
        counts = [b - a for a, b in zip(low, high, strict=True)]
        self.groups = [np.repeat(np.arange(len(c)), c) for c in counts]
        self.tables = [s.run.take(expand(a, c)) for s, a, c in zip(spans, low, counts, strict=True)]
        self.count = sum(map(len, self.groups))

    def added(self, cut: Bools, groups: int, backwards: bool) -> tuple[pa.Table, Bools]:
        """The entries with `_i`, added up, in order or in reverse, and which of them are settled.

        A run was cut off at the rows that `cut` says; an entry is settled if nothing unseen comes before.
        """
        empty = self.spec.schema.empty_table()
        at = np.concatenate([np.zeros(0, np.int64), *self.groups])
        table = pa.concat_tables([empty, *self.tables])
        # From the end, groups go down here, and all is turned round below.
        places, starts = self._together(table, -at if backwards else at)
        at = at[places]
        settled = _settled(at, cut[places], starts, groups, backwards)
        merged = combine(self.spec, table, places, starts)
        merged = merged.add_column(0, INDEX, pa.array(at[starts]))
        if not backwards:
            return merged, settled
        return merged.take(pa.array(np.arange(len(starts))[::-1])), settled[::-1]

    def _together(self, table: pa.Table, at: Ints) -> tuple[Ints, Ints]:
        """The order by group and entry, of equal ones the newest first, and where each entry starts."""
        if (
            sum(len(g) > 0 for g in self.groups) <= 1
        ):  # in a run they are in order, and each is once
            return np.argsort(at, kind="stable"), np.arange(len(at), dtype=np.int64)
        columns, down = sort_columns(self.spec, table)
        return grouped(at, columns, down)


def _near(spec: MapSpec, spans: list[Span], count: int, k: int, backwards: bool) -> pa.Table:
    """Entries that hold the k rows nearest to the positions, the nearest first."""
    open_groups = np.arange(count, dtype=np.int64)
    reach, done = k, [_indexed(spec)]
    while len(open_groups):
        table, settled, more = _part(spec, spans, open_groups, reach, backwards)
        at, counts = (np.asarray(column(table, n)) for n in (INDEX, spec.count))
        needed, enough = first_rows(at, counts, settled, k, more)
        kept = table.filter(pa.array(needed & enough[at]))
        places = open_groups[np.asarray(column(kept, INDEX))]
        done.append(kept.set_column(0, INDEX, pa.array(places)))
        open_groups = open_groups[~enough]
        reach = max(2 * reach, FURTHER)
    return pa.concat_tables(done)


def _indexed(spec: MapSpec) -> pa.Table:
    return spec.schema.empty_table().add_column(0, INDEX, pa.array([], pa.int64()))


def _part(
    spec: MapSpec, spans: list[Span], groups: Ints, reach: int, backwards: bool
) -> tuple[pa.Table, Bools, Bools]:
    """The `reach` entries of each run next to the positions; which are settled; which groups have more."""
    lows, highs = list[Ints](), list[Ints]()
    cuts = [np.zeros(0, np.bool_)]
    more = np.zeros(len(groups), np.bool_)
    for span in spans:
        low, high = (span.first, span.low) if backwards else (span.high, span.end)
        low, high = low[groups], high[groups]
        over = high - low > reach
        if backwards:
            low = np.where(over, high - reach, low)
        else:
            high = np.where(over, low + reach, high)
        ends = np.cumsum(high - low)
        cut = np.zeros(int((high - low).sum()), np.bool_)
        cut[(ends - (high - low) if backwards else ends - 1)[over]] = True
        more |= over
        lows.append(low)
        highs.append(high)
        cuts.append(cut)
    entries = _Entries(spec, spans, lows, highs)
    table, settled = entries.added(np.concatenate(cuts), len(groups), backwards)
    return table, settled, more
