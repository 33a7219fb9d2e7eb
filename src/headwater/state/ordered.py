"""The first entries of groups, in order, without reading the groups.

In an ordered map each run has the entries of a group in order. So the first k of the group are among the
first few of each run: `first_k` takes so many from the front of each run, adds them up, and keeps what lies
before the end of every part that was cut off; nothing unseen can come before that. Groups that have too
few entries left, because deletions cancelled them, are read twice as far in the next round. The work is
that of the prefix, not of the group.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.state.arrangement import INDEX, Arrangement, combine
from headwater.state.keys import (
    Bools,
    Ints,
    all_parts,
    boundaries,
    canonical,
    equal,
    expand,
    sort_order,
)
from headwater.state.run import MapSpec, Run, column, hashes, sort_columns


def first_k(arrangement: Arrangement, keys: pa.Table, k: int) -> pa.Table:
    """The first k rows of each group, repeated rows counted, as `_i`, the key and the ring.

    The last entry of a group may have more rows than are needed; entries come in order.
    """
    assert arrangement.spec.order, "first_k needs a map that is kept in order"
    open_groups = np.arange(keys.num_rows, dtype=np.int64)
    done: list[pa.Table] = []
    reach = max(k, 4)
    while len(open_groups):
        some = keys.take(pa.array(open_groups))
        table, settled, more = _prefix(arrangement, some, reach)
        table, enough = _first(arrangement.spec, table, settled, k, more)
        at = np.asarray(column(table, INDEX))
        kept = table.filter(pa.array(enough[at]))
        places = open_groups[np.asarray(column(kept, INDEX))]
        done.append(kept.set_column(0, INDEX, pa.array(places)))
        open_groups = open_groups[~enough]
        reach *= 2
    whole = pa.concat_tables(done) if done else arrangement.lookup(keys.slice(0, 0))
    order = np.argsort(np.asarray(column(whole, INDEX)), kind="stable")
    return whole.take(pa.array(order))


def _prefix(
    arrangement: Arrangement, keys: pa.Table, reach: int
) -> tuple[pa.Table, pa.Array, Bools]:
    """Entries from the front of each run by `_i`, consolidated and in order, and which are settled.

    An entry is settled when no run was cut off before it.
    """
    spec = arrangement.spec
    h = hashes(keys)
    wanted = all_parts([canonical(column(keys, n)) for n in spec.lookup])
    order = np.argsort(h, kind="stable")
    indexes: list[Ints] = []
    tables: list[pa.Table] = []
    last: list[Bools] = []
    for ref in arrangement.refs:
        run = arrangement.runs.open(ref)
        at, rows, cut = _front(run, spec, h, order, wanted, reach)
        if len(at):
            indexes.append(at)
            tables.append(run.take(rows))
            last.append(cut)
    if not tables:
        empty = spec.schema.empty_table().add_column(0, INDEX, pa.array([], pa.int64()))
        return empty, pa.array([], pa.bool_()), np.zeros(keys.num_rows, np.bool_)
    at, table = np.concatenate(indexes), pa.concat_tables(tables)
    columns, down = sort_columns(spec, table)
    places = sort_order(at, columns, down)
    chosen = pa.array(places)
    at, table, cut = at[places], table.take(chosen), np.concatenate(last)[places]
    starts = boundaries(at, [c.take(chosen) for c in columns])
    # The first row at which some run was cut off ends what is settled in its group.
    ends = np.full(keys.num_rows, len(at), np.int64)
    cuts = np.flatnonzero(cut)
    np.minimum.at(ends, at[cuts], cuts)
    settled = starts <= ends[at[starts]]
    merged = combine(spec, table, starts).add_column(0, INDEX, pa.array(at[starts]))
    more = np.zeros(keys.num_rows, np.bool_)
    more[at[cuts]] = True
    return merged, pa.array(settled), more


def _front(
    run: Run, spec: MapSpec, h: Ints, order: Ints, wanted: list[pa.Array], reach: int
) -> tuple[Ints, Ints, Bools]:
    """The first rows of each group in a run: which group, which row, and whether it was cut there."""
    first, lengths = run.hashes.ranges(h[order])
    hit = lengths > 0
    which, start, length = order[hit], first[hit], lengths[hit]
    last = start + length - 1
    whole = _same_key(run, spec, wanted, which, start) & _same_key(run, spec, wanted, which, last)
    counts = np.minimum(length, reach)
    at, rows = np.repeat(which, counts), expand(start, counts)
    cut = np.zeros(len(rows), np.bool_)
    cut[(np.cumsum(counts) - 1)[counts < length]] = True
    if whole.all():
        return at, rows, cut
    # Another key has the same hash: this group's rows are somewhere between, so all are looked at.
    kept = np.repeat(whole, counts)
    others = np.repeat(which[~whole], length[~whole])
    places = expand(start[~whole], length[~whole])
    same = _same_key(run, spec, wanted, others, places)
    at = np.concatenate((at[kept], others[same]))
    rows = np.concatenate((rows[kept], places[same]))
    return at, rows, np.concatenate((cut[kept], np.zeros(int(same.sum()), np.bool_)))


def _same_key(run: Run, spec: MapSpec, wanted: list[pa.Array], which: Ints, rows: Ints) -> Bools:
    """Whether rows of a run have the look-up keys that are wanted."""
    table = run.take(rows, list(spec.lookup))
    held = all_parts([column(table, n) for n in spec.lookup])
    return equal(held, [p.take(pa.array(which)) for p in wanted])


def _first(
    spec: MapSpec, table: pa.Table, settled: pa.Array, k: int, more: Bools
) -> tuple[pa.Table, Bools]:
    """The entries that hold the first k rows of each group, and which groups are answered."""
    at = np.asarray(column(table, INDEX))
    sure = np.asarray(settled)
    counts = np.asarray(column(table, spec.count))
    live = sure & (counts != 0)
    rows = np.where(live, np.maximum(counts, 0), 0)
    total = np.cumsum(rows)
    starts = np.searchsorted(at, np.arange(len(more)), "left")
    before = np.where(starts > 0, np.append(0, total)[starts], 0)
    reached = total - before[at] if len(at) else total
    needed = live & (reached - rows < k)
    have = np.zeros(len(more), np.int64)
    np.add.at(have, at, rows)
    return table.filter(pa.array(needed)), (have >= k) | ~more
