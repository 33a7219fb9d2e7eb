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

from headwater.state.arrangement import Arrangement, Found, are_same, nothing_found, together
from headwater.state.columns import Column, all_taken, column, parts_of, worked
from headwater.state.entries import combined, put_together
from headwater.state.keys import Bools, Ints, canonical, expand
from headwater.state.ordering import order_of
from headwater.state.run import MapSpec, Run, cast, hashes

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
    by_hash = order_of(h)
    h = h[by_hash]
    columns = [worked(cast(canonical(column(keys, n)), spec.types[n])) for n in spec.lookup]
    wanted = all_taken(parts_of(columns), by_hash)
    open_groups = np.arange(len(h), dtype=np.int64)
    done = [nothing_found(spec)]
    reach = max(k, reach)
    while len(open_groups):
        found, settled, more = _part(arrangement, h, wanted, reach, backwards)
        counts = np.asarray(found.columns[1 + len(spec.keys)])
        needed, enough = first_rows(found.at, counts, settled, k, more)
        kept = found.kept(needed & enough[found.at])
        done.append(Found(by_hash[open_groups[kept.at]], kept.columns))
        rest = np.flatnonzero(~enough)
        open_groups, h, wanted = open_groups[rest], h[rest], all_taken(wanted, rest)
        reach = max(2 * reach, FURTHER)
    whole = together(done)
    whole = whole.taken(np.argsort(whole.at, kind="stable"))
    return arrangement.watched(arrangement.indexed(whole), "ends")


def _part(
    arrangement: Arrangement, h: Ints, wanted: list[Column], reach: int, backwards: bool
) -> tuple[Found, Bools, Bools]:
    """Entries from the near end of each run by group, consolidated, the nearest first.

    With each whether it is settled, which it is when no run was cut off before it, and for each group
    whether there is more of it. Groups are in the order of their hashes, as they are in the runs.
    """
    spec = arrangement.spec
    runs = list[tuple[Found, Bools]]()
    for ref in arrangement.refs:
        if ref.low > h[-1] or ref.high < h[0]:
            arrangement.runs.look(ref)
            continue
        runs.append(_near(arrangement.open(ref), spec, h, wanted, reach, backwards))
    runs = [r for r in runs if len(r[1])]
    more = np.zeros(len(h), np.bool_)
    if not runs:
        return nothing_found(spec), np.zeros(0, np.bool_), more
    found, cut = together([f for f, _ in runs]), np.concatenate([c for _, c in runs])
    of = np.repeat(np.arange(len(runs)), [len(c) for _, c in runs])
    # From the end, groups go down here, and all is turned round below.
    by = -found.at if backwards else found.at
    places, starts = put_together(spec, found.rest(spec), by, of)
    at, cut = found.at[places], cut[places]
    more[at[cut]] = True
    settled = _settled(at, cut, starts, len(h), backwards)
    merged = Found(at[starts], combined(spec, found.columns, places, starts))
    if not backwards:
        return merged, settled, more
    return merged.taken(np.arange(len(starts))[::-1]), settled[::-1], more


def _settled(at: Ints, cut: Bools, starts: Ints, groups: int, backwards: bool) -> Bools:
    """Which entries nothing unseen comes before: those up to the first row at which a run was cut off."""
    cuts = np.flatnonzero(cut)  # of several that are written to one place the last one stays
    if backwards:
        last = np.append(starts[1:], len(at)) - 1
        ends = np.full(groups, -1, np.int64)
        ends[at[cuts]] = cuts
        return np.asarray(last >= ends[at[starts]])
    ends = np.full(groups, len(at), np.int64)
    ends[at[cuts[::-1]]] = cuts[::-1]
    return np.asarray(starts <= ends[at[starts]])


def _near(
    run: Run, spec: MapSpec, h: Ints, wanted: list[Column], reach: int, backwards: bool
) -> tuple[Found, Bools]:
    """The nearest entries of each group in a run, and at which of them it was cut."""
    first, counts = run.hashes.ranges(h)
    which = counts.nonzero()[0]
    first, counts = first[which], counts[which]
    over, few = counts > reach, np.minimum(counts, reach)
    found = _entries(run, which, first + (counts - few) if backwards else first, few)
    ends = np.cumsum(few)
    cut = np.zeros(len(found.at), np.bool_)
    cut[((ends - few) if backwards else (ends - 1))[over]] = True
    same = _of_group(spec, found, wanted)
    if same.all():
        return found, cut
    # Another key has the same hash: this group's rows are somewhere between, so all are looked at.
    mixed = np.isin(which, found.at[~same])
    others = _entries(run, which[mixed], first[mixed], counts[mixed])
    others = others.kept(_of_group(spec, others, wanted))
    kept = ~np.isin(found.at, which[mixed])
    cut = np.concatenate((cut[kept], np.zeros(len(others.at), np.bool_)))
    return together([found.kept(kept), others]), cut


def _entries(run: Run, groups: Ints, first: Ints, counts: Ints) -> Found:
    """So many entries of a run for each group, from a row on."""
    rows = expand(first, counts)
    return Found(np.repeat(groups, counts), run.entries(rows, run.hashes.at(rows)))


def _of_group(spec: MapSpec, found: Found, wanted: list[Column]) -> Bools:
    """Which entries have the look-up keys that are wanted."""
    return are_same(parts_of(found.columns[1 : 1 + len(spec.lookup)]), wanted, found.at)


def first_rows(at: Ints, counts: Ints, settled: Bools, k: int, more: Bools) -> tuple[Bools, Bools]:
    """Which entries hold the first k rows of each group, and which groups are answered."""
    live = settled & (counts != 0)
    rows = np.where(live, np.maximum(counts, 0), 0)
    total = np.cumsum(rows)
    upto = np.append(0, total)[np.searchsorted(at, np.arange(len(more) + 1), "left")]
    have = np.diff(upto)
    return live & (total - upto[at] - rows < k), (have >= k) | ~more
