"""Large changes in this process, on all of its cores: rows and ranges of hashes divide the work.

The kernels of Arrow and numpy let other threads go on while they work, so that a thread for each core takes a stretch of
the rows through a statement, or merges a range of hashes into a map. What is put together again is, entry for entry, what
one thread would have made: sorted by hash, and equal keys in the order in which they came.

A change is first brought into the order of the key that most of its statements look up or write: what is in order
already is sorted at once, and found by going through a map once.

Nothing as large as the change is made on the way: a stretch at a time goes through everything that can be done with it, in
memory that was used for the one before. New memory costs more than the work, as each page of it is made when it is first touched.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from headwater.engine.here.statements import Maps, Scalars, hashed, in_arrow, run
from headwater.plan.program import Bind, Expand, Filter, Lookup, Statement
from headwater.state.arrangement import Arrangement, Touched
from headwater.state.entries import total
from headwater.state.hashing import parts_of
from headwater.state.ordering import order_of
from headwater.state.run import hashes, prepared

LEAST_ROWS = 50_000
"""Rows that are worth a thread of their own."""
LEAST_KEYS = 5_000
"""Keys whose look-up is worth a thread of its own: that begins at once, and nothing is put together again."""
AT_ONCE = 150_000
"""Rows that a thread takes at a time, about: what it makes of them stays near the processor, in memory that it has had before."""
HASH = "_h"
T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """The threads of a process; one that was forked has none of those before."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"headwater-{process}")


def each(f: Callable[[T], R], things: Sequence[T]) -> list[R]:
    """What a function gives for some things, in their order, worked out beside each other. The function must not call this."""
    if len(things) < 2:
        return [f(x) for x in things]
    return list(_pool(os.getpid(), cores()).map(f, things))


def beside(rows: int, *calls: Callable[[], R]) -> list[R]:
    """What calls give that have nothing to do with each other: beside each other, where each has rows enough."""
    return each(lambda f: f(), calls) if rows >= LEAST_KEYS else [f() for f in calls]


def times(rows: int, threads: int) -> int:
    """Into how many stretches rows are cut: as many for each thread."""
    if threads == 1 or rows < 2 * LEAST_ROWS:
        return 1
    return threads * max(1, round(rows / (threads * AT_ONCE)))


def stretches(table: pa.Table, count: int) -> list[pa.Table]:
    """A table in about `count` stretches, each in one piece: the pieces that it has, where these are of that size, or cut anew.

    What is in two pieces would be put together again by everyone who looks at a column of it.
    """
    step = max(1, -(-table.num_rows // count))
    pieces = table.to_batches()
    if len(pieces) > 1 and max(p.num_rows for p in pieces) <= 2 * step and len(pieces) <= 2 * count:
        return [pa.Table.from_batches([p]) for p in pieces]
    starts = range(0, table.num_rows, step)
    return each(lambda i: table.slice(i, step).combine_chunks(), starts)


def by_range(table: pa.Table, key: Sequence[str], count: int) -> list[pa.Table]:
    """Rows with the hash of a key, cut into ranges of it; inside of a range they stay in their order. None is empty but a first one."""
    pieces = each(lambda t: _divided(t, key, count), stretches(table, count) or [table])
    ranges = [pa.concat_tables([p[i] for p in pieces]) for i in range(count)]
    return [t for t in ranges if t.num_rows] or ranges[:1]


def _divided(table: pa.Table, key: Sequence[str], count: int) -> list[pa.Table]:
    """Rows with the hash of a key, in ranges of it."""
    table = table.add_column(0, HASH, hashed(table, key))
    if count == 1:
        return [table]
    place = parts_of(hashes(table), count).astype(np.uint16)
    if (place[1:] < place[:-1]).any():
        order = np.argsort(place, kind="stable")
        table, place = table.take(pa.array(order)), place[order]
    cuts = np.searchsorted(place, np.arange(count + 1))
    return [table.slice(a, b - a) for a, b in pairwise(cuts)]


# --- statements ---------------------------------------------------------------------------------------------


def emitted(
    statement: Statement,
    change: pa.Table,
    maps: Maps,
    scalars: Scalars = in_arrow,
    most: int | None = None,
    threads: int = 1,
) -> pa.Table:
    """The same as `run`, a stretch of the rows in each thread; what only Spark can evaluate is asked for once."""
    count = times(change.num_rows, threads) if _is_here(statement) else 1
    if count == 1:
        return run(statement, change, maps, scalars, most=most)
    parts = stretches(change, count)
    return pa.concat_tables(each(lambda t: run(statement, t, maps, scalars, most=most), parts))


def _is_here(statement: Statement) -> bool:
    scalars = [
        s.scalar if isinstance(s, Bind) else s.condition
        for s in statement.steps
        if isinstance(s, Bind | Filter)
    ]
    return all(s.tree is not None for s in scalars)


def in_order(change: pa.Table, statements: Iterable[Statement], threads: int = 1) -> pa.Table:
    """The rows of a change in the order of the hash that most of its statements sort by, if several do."""
    if change.num_rows < LEAST_ROWS:
        return change
    asked = Counter(key for s in statements for key in _sorted_by(s))
    if not asked:
        return change
    (key, count), *_ = asked.most_common(1)
    if count < 2:
        return change
    ranges = by_range(change, key, times(change.num_rows, threads))
    return pa.concat_tables(each(_sorted, ranges)).drop_columns([HASH])


def _sorted(table: pa.Table) -> pa.Table:
    """Rows with their hash, in its order."""
    table = table.combine_chunks()
    return table.take(pa.array(order_of(hashes(table))))


def _sorted_by(s: Statement) -> set[tuple[str, ...]]:
    """The columns of the change that a statement's rows are sorted by: to be looked up first, and to be merged."""
    names = {given: n for n, given in s.columns}
    first = next((x for x in s.steps if isinstance(x, Lookup | Expand)), None)
    by_place = dict(zip(s.target.columns, s.key, strict=True))
    keys = [tuple(by_place[n] for n in s.target.lookup)]
    if isinstance(first, Lookup):
        keys.append(tuple(first.keys))
    return {tuple(names[n] for n in key) for key in keys if key and all(n in names for n in key)}


# --- merging ------------------------------------------------------------------------------------------------


class Merged(NamedTuple):
    """What a merge gives: the entries of the new run, old and new values unless it was blind, and all keys that changes came for.

    Among the keys are those whose changes come to zero, which leave no entry and touch their group all the same.
    """

    entries: pa.Table
    touched: Touched | None
    keys: pa.Table


def merged(into: Arrangement, changes: pa.Table, blind: bool, threads: int = 1) -> Merged:
    """The same as `Arrangement.merge` of changes, which have no hash yet, a range of hashes in each thread."""
    count = times(changes.num_rows, threads)
    ranges = by_range(changes, into.spec.lookup, count)
    parts = each(lambda t: _merged(into, t, blind), ranges)
    if len(parts) == 1:
        return parts[0]
    entries = pa.concat_tables([p.entries for p in parts])
    keys = pa.concat_tables([p.keys for p in parts])
    touched = [p.touched for p in parts if p.touched is not None]
    if not touched:
        return Merged(entries, None, keys)
    tables = [pa.concat_tables([getattr(t, n) for t in touched]) for n in ("keys", "old", "new")]
    return Merged(entries, Touched(*tables), keys)


def _merged(into: Arrangement, changes: pa.Table, blind: bool) -> Merged:
    changes = changes.combine_chunks()  # once, and not at each look at a column
    return of_summed(into, total(into.spec, prepared(into.spec, changes)), blind)


def of_summed(into: Arrangement, summed: pa.Table, blind: bool) -> Merged:
    """The same for changes that are sorted and added up."""
    keys = summed.select(["_h", *into.spec.keys])
    return Merged(*into.merge_summed(summed, blind), keys)
