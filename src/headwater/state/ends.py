"""The first or last entries of groups, in order, without reading the groups.

In an ordered map each run has the entries of a group in order. So the first k of the group are among the
first few of each run: `first_k` takes a few entries from the front of each run, adds them up, and keeps what lies
before the end of every part that was cut off; nothing unseen can come before that. Groups that have too
few entries left, because deletions cancelled them, are read further in the next round. The work is that of
the prefix, not of the group. `last_k` is the same from the other end: *near* is the end that is asked for.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.state.arrangement import INDEX, Arrangement
from headwater.state.entries import combine, put_together
from headwater.state.keys import (
    Bools,
    Ints,
    all_parts,
    canonical,
    equal,
    expand,
)
from headwater.state.run import MapSpec, Run, cast, column, hashes
from headwater.state.search import Hashes

FURTHER = 8
"""Entries of a group that a second round takes from each run at least; the first takes k."""


def first_k(arrangement: Arrangement, keys: pa.Table, k: int, reach: int = 1) -> pa.Table:
    """The first k rows of each group, repeated rows counted, as `_i`, the key and the ring.

    The last entry of a group may have more rows than are needed; entries come in order. `reach` is how many entries of each
    run are read first, where it is known that the nearest ones are gone.
    """
    return _nearest(arrangement, keys, k, False, reach)


def last_k(arrangement: Arrangement, keys: pa.Table, k: int, reach: int = 1) -> pa.Table:
    """The last k rows of each group, like `first_k`; entries come in reverse order, from the end."""
    return _nearest(arrangement, keys, k, True, reach)


def _nearest(
    arrangement: Arrangement, keys: pa.Table, k: int, backwards: bool, reach: int
) -> pa.Table:
    """The k rows of each group that are nearest to one end."""
    spec = arrangement.spec
    assert spec.order, "the entries of a group have an end in a map that is kept in order"
    h = hashes(keys)
    by_hash = np.argsort(h, kind="stable")
    h = h[by_hash]
    columns = [cast(canonical(column(keys, n)), spec.schema.field(n).type) for n in spec.lookup]
    wanted = [p.take(pa.array(by_hash)) for p in all_parts(columns)]
    open_groups = np.arange(len(h), dtype=np.int64)
    done: list[pa.Table] = []
    reach = max(k, reach)
    while len(open_groups):
        table, settled, more = _part(arrangement, h, wanted, reach, backwards)
        table, enough = _first(spec, table, settled, k, more)
        at = np.asarray(column(table, INDEX))
        kept = table if enough.all() else table.filter(pa.array(enough[at]))
        places = by_hash[open_groups[np.asarray(column(kept, INDEX))]]
        done.append(kept.set_column(0, INDEX, pa.array(places)))
        rest = np.flatnonzero(~enough)
        open_groups, h = open_groups[rest], h[rest]
        wanted = [p.take(pa.array(rest)) for p in wanted] if len(rest) else wanted
        reach = max(2 * reach, FURTHER)
    whole = pa.concat_tables(done) if done else arrangement.lookup(keys.slice(0, 0))
    order = np.argsort(np.asarray(column(whole, INDEX)), kind="stable")
    return arrangement.watched(whole.take(pa.array(order)), "ends")


def _part(
    arrangement: Arrangement, h: Ints, wanted: list[pa.Array], reach: int, backwards: bool
) -> tuple[pa.Table, Bools, Bools]:
    """Entries from the near end of each run by `_i`, consolidated, the nearest first.

    With each whether it is settled, which it is when no run was cut off before it, and for each group
    whether there is more of it. Groups are in the order of their hashes, as they are in the runs.
    """
    spec = arrangement.spec
    found = []
    for ref in arrangement.refs:
        if ref.low > h[-1] or ref.high < h[0]:
            arrangement.runs.look(ref)
            continue
        found.append(_near(arrangement.open(ref), spec, h, wanted, reach, backwards))
    found = [f for f in found if len(f[0])]
    more = np.zeros(len(h), np.bool_)
    if not found:
        empty = spec.schema.empty_table().add_column(0, INDEX, pa.array([], pa.int64()))
        return empty, np.zeros(0, np.bool_), more
    at, cut = np.concatenate([f[0] for f in found]), np.concatenate([f[2] for f in found])
    table = pa.concat_tables([f[1] for f in found])
    runs = np.repeat(np.arange(len(found)), [len(f[0]) for f in found])
    # From the end, groups go down here, and all is turned round below.
    keys = table.select(spec.keys)
    places, starts = put_together(
        spec, lambda rows: keys.take(pa.array(rows)), -at if backwards else at, runs
    )
    at, cut = at[places], cut[places]
    more[at[cut]] = True
    settled = _settled(at, cut, starts, len(h), backwards)
    merged = combine(spec, table, places, starts)
    merged = merged.add_column(0, INDEX, pa.array(at[starts]))
    if not backwards:
        return merged, settled, more
    return merged.take(pa.array(np.arange(len(starts))[::-1])), settled[::-1], more


def _settled(at: Ints, cut: Bools, starts: Ints, groups: int, backwards: bool) -> Bools:
    """Which entries nothing unseen comes before: those up to the first row at which a run was cut off."""
    cuts = np.flatnonzero(cut)
    if backwards:
        last = np.append(starts[1:], len(at)) - 1
        ends = np.full(groups, -1, np.int64)
        np.maximum.at(ends, at[cuts], cuts)
        return np.asarray(last >= ends[at[starts]])
    ends = np.full(groups, len(at), np.int64)
    np.minimum.at(ends, at[cuts], cuts)
    return np.asarray(starts <= ends[at[starts]])


def _near(
    run: Run, spec: MapSpec, h: Ints, wanted: list[pa.Array], reach: int, backwards: bool
) -> tuple[Ints, pa.Table, Bools]:
    """The nearest entries of each group in a run: which group, the entry, and whether it was cut there."""
    which, near, counts = _within(run.hashes, h, reach, backwards)
    over = counts > reach
    counts = np.minimum(counts, reach)
    at = np.repeat(which, counts)
    cut = np.zeros(len(at), np.bool_)
    ends = np.cumsum(counts)
    cut[((ends - counts) if backwards else (ends - 1))[over]] = True
    table = run.take(expand(near - counts + 1 if backwards else near, counts))
    same = _same_key(spec, table, wanted, at)
    if same.all():
        return at, table, cut
    # Another key has the same hash: this group's rows are somewhere between, so all are looked at.
    mixed = np.unique(at[~same])
    kept = ~np.isin(at, mixed)
    first, lengths = run.hashes.ranges(h[mixed])
    others = np.repeat(mixed, lengths)
    rows = run.take(expand(first, lengths))
    mine = _same_key(spec, rows, wanted, others)
    table = pa.concat_tables([table.filter(pa.array(kept)), rows.filter(pa.array(mine))])
    cut = np.concatenate((cut[kept], np.zeros(int(mine.sum()), np.bool_)))
    return np.concatenate((at[kept], others[mine])), table, cut


def _within(hashes: Hashes, h: Ints, reach: int, backwards: bool) -> tuple[Ints, Ints, Ints]:
    """Which hashes a run has, the row at the near end of each, and how many rows, counted to reach + 1.

    The far end is not searched for: it is bisected among the rows within reach.
    """
    step = -1 if backwards else 1
    near = _after(hashes, h) - 1 if backwards else hashes.first(h)
    which = np.flatnonzero((near >= 0) & (near < hashes.rows))
    which = which[hashes.at(near[which]) == h[which]]
    near, own = near[which], h[which]
    low, high = np.ones(len(which), np.int64), np.full(len(which), reach + 1, np.int64)
    for _ in range(reach.bit_length()):
        middle = (
            low + high + 1
        ) >> 1  # low itself when the bounds have met, and that row is inside
        row = near + step * (middle - 1)
        inside = (row >= 0) & (row < hashes.rows)
        inside &= hashes.at(np.where(inside, row, near)) == own
        low = np.where(inside, middle, low)
        high = np.where(inside, high, middle - 1)
    return which, near, low


def _after(hashes: Hashes, h: Ints) -> Ints:
    """For ascending hashes, the row behind the last of each."""
    out = np.full(len(h), hashes.rows, np.int64)
    less = h < np.iinfo(np.int64).max
    out[less] = hashes.first(h[less] + 1)
    return out


def _same_key(spec: MapSpec, table: pa.Table, wanted: list[pa.Array], at: Ints) -> Bools:
    """Whether entries have the look-up keys that are wanted."""
    if not wanted:
        return np.ones(len(at), np.bool_)
    held = all_parts([column(table, n) for n in spec.lookup])
    return equal(held, [p.take(pa.array(at)) for p in wanted])


def _first(
    spec: MapSpec, table: pa.Table, settled: Bools, k: int, more: Bools
) -> tuple[pa.Table, Bools]:
    """The entries that hold the first k rows of each group, and which groups are answered."""
    at = np.asarray(column(table, INDEX))
    counts = np.asarray(column(table, spec.count))
    live = settled & (counts != 0)
    rows = np.where(live, np.maximum(counts, 0), 0)
    total = np.cumsum(rows)
    upto = np.append(0, total)[np.searchsorted(at, np.arange(len(more) + 1), "left")]
    have = np.diff(upto)
    needed = live & (total - upto[at] - rows < k)
    kept = table if needed.all() else table.filter(pa.array(needed))
    return kept, (have >= k) | ~more
