"""Entries of a map in order, one for each key: the kernels of arrangements, over tables and over columns.

Entries that several runs or changes have are sorted by hash and key; those of one key are added up, or the newest of
them is taken, by the kind of the map. `total` adds up whatever the kind is: changes are changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.state import exact
from headwater.state.adding import sums
from headwater.state.columns import (
    Column,
    all_taken,
    as_table,
    columns_of,
    taken,
)
from headwater.state.keys import Bools, Ints, grouped
from headwater.state.ordering import in_order
from headwater.state.run import MapSpec, hashes, sort_columns


def consolidate(spec: MapSpec, table: pa.Table) -> pa.Table:
    """Entries sorted, one for each key: added up in a change map, the first (newest) in another."""
    columns, down = sort_columns(spec, table)
    h = hashes(table)
    order, starts = grouped(h, columns, down)
    if spec.newest:  # of most entries nothing else is needed, so that they are moved once
        return table.take(pa.array(order[starts]))
    return added(spec, table, order, starts)


def total(spec: MapSpec, table: pa.Table) -> pa.Table:
    """Changes sorted, one for each key, added up whatever the kind of the map."""
    if table.num_rows < 2:
        return table
    h = hashes(table)
    columns, down = sort_columns(spec, table)
    return added(spec, table, *grouped(h, columns, down))


def put_together(spec: MapSpec, keys: Sequence[Column], at: Ints, runs: Ints) -> tuple[Ints, Ints]:
    """The order by group and entry of what several runs have, and where each entry starts in it; `keys` are behind the look-up key.

    That is the same for all entries of a group. In a run the entries of a group are in order, and each is there once, so only groups that several runs
    have a part of are sorted.
    """
    places = np.argsort(at, kind="stable")
    group, run = at[places], runs[places]
    same = group[1:] == group[:-1]
    firsts = np.flatnonzero(np.append(True, ~same))
    sizes = np.diff(np.append(firsts, len(at)))
    shared = np.flatnonzero(np.repeat(run[firsts] != run[firsts + sizes - 1], sizes))
    if not len(shared):
        return places, np.arange(len(at), dtype=np.int64)
    some = places[shared]
    names = spec.keys[len(spec.lookup) :]
    columns, down = sort_columns(spec, as_table(all_taken(keys, some), names), names)
    order, starts = grouped(at[some], columns, down)
    places[shared] = some[order]
    begins = np.ones(len(at), np.bool_)
    begins[shared] = False
    begins[shared[starts]] = True
    return places, np.flatnonzero(begins)


def totals(spec: MapSpec, table: pa.Table, sizes: Sequence[int]) -> list[pa.Table]:
    """Changes of several maps of the same columns, one after another, and of each what `total` gives."""
    of, h = np.repeat(np.arange(len(sizes)), sizes), hashes(table)
    by_hash = np.lexsort((h, of))
    pairs = np.stack((of, h))[:, by_hash]
    place = np.zeros_like(h)  # numbers that are in order as maps and then hashes are
    place[by_hash[1:]] = np.cumsum((pairs[:, 1:] != pairs[:, :-1]).any(axis=0))
    columns, down = sort_columns(spec, table)
    order, starts = grouped(place, columns, down)
    entries = added(spec, table, order, starts)
    cuts = np.searchsorted(of[order[starts]], np.arange(len(sizes) + 1))
    return [entries.slice(a, b - a) for a, b in pairwise(cuts.tolist())]


def combine(spec: MapSpec, table: pa.Table, order: Ints, starts: Ints) -> pa.Table:
    """One entry for each group of equal keys, which some order puts together, by the kind of the map."""
    if spec.newest:
        return table.take(pa.array(order[starts]))
    return added(spec, table, order, starts)


def added(spec: MapSpec, table: pa.Table, order: Ints, starts: Ints) -> pa.Table:
    """One entry for each group of equal keys, which some order puts together, its ring values summed."""
    if len(starts) == table.num_rows:
        return table if in_order(order) else table.take(pa.array(order))
    columns = columns_of(table, spec.types)
    return as_table(added_columns(spec, columns, order, starts), list(spec.types))


def combined(spec: MapSpec, columns: list[Column], order: Ints, starts: Ints) -> list[Column]:
    """The same as `combine`."""
    if spec.newest:
        return all_taken(columns, order[starts])
    return added_columns(spec, columns, order, starts)


def added_columns(spec: MapSpec, columns: list[Column], order: Ints, starts: Ints) -> list[Column]:
    """The same as `added`."""
    keyed, firsts = 1 + len(spec.keys), order[starts]
    moved = not in_order(order)
    summed = (sums(taken(c, order) if moved else c, starts) for c in columns[keyed:])
    return [*all_taken(columns[:keyed], firsts), *summed]


def any_ring(spec: MapSpec, table: pa.Table) -> Bools:
    """The entries with anything in them."""
    return any_of(columns_of(table, spec.rings))


def any_of(rings: Sequence[Column]) -> Bools:
    return np.asarray(np.logical_or.reduce([_nonzero(c) for c in rings]))


def _nonzero(values: Column) -> Bools:
    if type(values) is np.ndarray:
        return np.asarray(values != 0)
    if values.type == exact.STORED:
        return exact.nonzero(values)
    return np.asarray(pc.not_equal(values, pa.scalar(0, values.type)))


def there(spec: MapSpec, table: pa.Table) -> Bools:
    """The entries that are not gone: in a loop a count may be 0 at a round where a sum is not. A rounding error is nothing."""
    return are_there(spec, columns_of(table, spec.types))


def are_there(spec: MapSpec, columns: list[Column]) -> Bools:
    rings = columns[1 + len(spec.keys) :]
    if spec.kind != "change" or any(t == pa.float64() for _, t in spec.ring):
        return _nonzero(rings[0])
    return any_of(rings)
