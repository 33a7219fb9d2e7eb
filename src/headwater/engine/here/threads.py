"""Large changes in this process, on all of its cores: rows and ranges of hashes divide the work.

The kernels of Arrow and numpy let other threads go on while they work, so that a thread for each core takes a stretch of
the rows through a statement, or merges a range of hashes into a map. What is put together again is, entry for entry, what
one thread would have made: sorted by hash, and equal keys in the order in which they came.

A change is first brought into the order of the key that most of its statements look up or write: what is in order
already is sorted at once, and found by going through a map once.
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
from headwater.state.arrangement import Arrangement, Touched, total
from headwater.state.hashing import parts_of
from headwater.state.radix import order_of
from headwater.state.run import hashes, prepared

LEAST_ROWS = 50_000
"""Rows that are worth a thread of their own."""
AT_ONCE = 150_000
"""Rows that a thread takes at a time, about: what it makes of them stays near the processor, in memory that it has had before."""
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


def times(rows: int, threads: int) -> int:
    """Into how many stretches rows are cut: as many for each thread."""
    if threads == 1 or rows < 2 * LEAST_ROWS:
        return 1
    return threads * max(1, round(rows / (threads * AT_ONCE)))


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
    step = -(-change.num_rows // count)
    parts = [change.slice(i * step, step) for i in range(count)]
    return pa.concat_tables(each(lambda t: run(statement, t, maps, scalars, most=most), parts))


def _is_here(statement: Statement) -> bool:
    scalars = [
        s.scalar if isinstance(s, Bind) else s.condition
        for s in statement.steps
        if isinstance(s, Bind | Filter)
    ]
    return all(s.tree is not None for s in scalars)


def in_order(change: pa.Table, statements: Iterable[Statement]) -> pa.Table:
    """The rows of a change in the order of the hash that most of its statements sort by, if several do."""
    if change.num_rows < LEAST_ROWS:
        return change
    asked = Counter(key for s in statements for key in _sorted_by(s))
    if not asked:
        return change
    (key, count), *_ = asked.most_common(1)
    if count < 2:
        return change
    return change.take(pa.array(order_of(np.asarray(hashed(change, key)))))


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
    """The same as `Arrangement.merge`, a range of hashes in each thread."""
    count = times(changes.num_rows, threads)
    if count == 1:
        return _merged(into, changes, blind)
    h = hashes(changes)
    if (h[1:] < h[:-1]).any():
        order = np.argsort(parts_of(h, count).astype(np.uint16), kind="stable")
        changes, h = changes.take(pa.array(order)), h[order]
        place = parts_of(h, count)
        cuts = np.searchsorted(place, np.arange(count + 1))
    else:  # in order already, and then wherever a hash ends
        cuts = np.searchsorted(h, h[[len(h) * i // count for i in range(count)]], "left")
        cuts = np.append(cuts, len(h))
    parts = each(
        lambda cut: _merged(into, changes.slice(cut[0], cut[1] - cut[0]), blind),
        [(int(a), int(b)) for a, b in pairwise(cuts) if b > a],
    )
    entries = pa.concat_tables([p.entries for p in parts])
    keys = pa.concat_tables([p.keys for p in parts])
    touched = [p.touched for p in parts if p.touched is not None]
    if not touched:
        return Merged(entries, None, keys)
    tables = [pa.concat_tables([getattr(t, n) for t in touched]) for n in ("keys", "old", "new")]
    return Merged(entries, Touched(*tables), keys)


def _merged(into: Arrangement, changes: pa.Table, blind: bool) -> Merged:
    return of_summed(into, total(into.spec, prepared(into.spec, changes)), blind)


def of_summed(into: Arrangement, summed: pa.Table, blind: bool) -> Merged:
    """The same for changes that are sorted and added up."""
    keys = summed.select(["_h", *into.spec.keys])
    return Merged(*into.merge_summed(summed, blind), keys)
