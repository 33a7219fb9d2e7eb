"""The rows of the sessions that a change can matter for, read outwards from the change until a step is too long.

A session is a stretch of a group in the order of its times, in which each row is the gap at most behind the one before.
Its start is what is told of its rows, so a change between two positions matters for

    the rows between the positions, and
    the rows behind that are connected with the second position: whose steps, from that position on, are the gap at most.

What is told of them depends on the rows before that are connected with the first position. All other rows have the same
start before and after the change: the step that parts them from it does not change. Rows behind are found by the
positions alone, so they are the same before and after.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from headwater.state.arrangement import INDEX, Arrangement
from headwater.state.keys import Bools, Ints
from headwater.state.positions import AT, from_position
from headwater.state.run import column

NEAR = 16
"""Rows on each side that are read first; four times as many again for groups whose sessions go on."""


def connected(
    at: Arrangement, keys: pa.Table, low: pa.Table, high: pa.Table, time: str, gap: int
) -> pa.Table:
    """For each row of the keys the entries between two positions and those connected with them, as `from_position` gives them."""
    open_groups = np.arange(keys.num_rows, dtype=np.int64)
    near, done = NEAR, list[pa.Table]()
    while len(open_groups) or not done:
        some = pa.array(open_groups)
        first, last = low.take(some), high.take(some)
        # More is found than is read: what lies beyond a step that is too long is cut off.
        group = keys.take(some)
        found = from_position(at, group, first, near, near, last, marked=True, how="near")
        ends = _micros(column(first, time)), _micros(column(last, time))
        kept, settled = _cut(found, at.spec.count, _micros(column(found, time)), ends, gap, near)
        index = np.asarray(column(found, INDEX))
        found = found.set_column(
            found.schema.get_field_index(INDEX), INDEX, pa.array(open_groups[index])
        )
        done.append(found.filter(pa.array(kept & settled[index])))
        open_groups, near = open_groups[~settled], 4 * near
    whole = pa.concat_tables(done)
    order = np.argsort(np.asarray(column(whole, INDEX)), kind="stable")
    return at.watched(whole.take(pa.array(order)), "range")


def _micros(times: pa.Array) -> Ints:
    return np.asarray(times.cast(pa.int64()))


def _cut(
    found: pa.Table, count: str, times: Ints, ends: tuple[Ints, Ints], gap: int, near: int
) -> tuple[Bools, Bools]:
    """Which entries are connected with the positions, and of which groups it is known where that ends.

    It is known where a step is too long, or where fewer rows were found than were asked for.
    """
    group, side = (np.asarray(column(found, n)) for n in (INDEX, AT))
    counts = np.maximum(np.asarray(column(found, count)), 0)
    kept = side == 0
    settled = np.ones(len(ends[0]), np.bool_)
    for which, edge in ((-1, ends[0]), (1, ends[1])):
        rows = np.flatnonzero(side == which)[::which]  # from the position on
        of = group[rows]
        begins = np.append(True, of[1:] != of[:-1])[: len(of)]
        nearer = np.where(begins, edge[of], np.append(0, times[rows][:-1])[: len(of)])
        broken = np.abs(times[rows] - nearer) > gap
        kept[rows] = ~_once(broken, begins)
        seen = np.bincount(of, counts[rows], len(settled))
        settled &= (np.bincount(of, broken, len(settled)) > 0) | (seen < near)
    return kept, settled


def _once(broken: Bools, begins: Bools) -> Any:
    """For each row whether it or a row before it, in its own stretch, is broken."""
    total = np.cumsum(broken)
    before: Ints = (total - broken)[begins]
    return total > np.repeat(before, np.diff(np.append(np.flatnonzero(begins), len(begins))))
