"""Rows of few keys are added up before they are hashed and sorted, in a fraction of the time that this takes.

A change that a join makes many rows of, or that goes into a hundred groups, has each key many times. Whole numbers that lie close to
each other, as ids do, are places in an array. Others Arrow groups, where they are few: how many keys there are is told
from pairs of equal ones in a sample, as of s rows with K keys about s² / 2K pairs are equal. What comes out is in no order that counts,
and is merged as any other change: keys may still be there several times, one for each stretch that a thread took.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.engine.here.threads import each, stretches, times
from headwater.state.adding import decimals, small
from headwater.state.hashing import hash_keys
from headwater.state.keys import INTEGER, Ints
from headwater.state.run import MapSpec, column

ENOUGH = 30_000
"""Rows that are worth a sample."""
SEVERAL = 4
"""Rows of a key from which on grouping them first is faster: with one or two of each it takes twice the time."""
CLOSE = 2
"""Whole numbers of which so many times as many as there are rows lie between the least and the greatest, at most, are places."""
PAIRS = 10
"""Pairs of equal rows in a sample, from which on it says something; it is as large as has twice of them where it matters."""
KEYS = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date,
    pa.types.is_timestamp,
)
"""The types of key columns that Arrow groups fast, and by equality."""
Columns = dict[str, pa.Array]
Grouping = Callable[[list[str], Columns], Columns]
"""How rows are grouped: each key once, with the sums of its numbers."""


def added_up(spec: MapSpec, table: pa.Table, threads: int = 1) -> pa.Table:
    """Rows for a map with those of the same key added up, where they have few keys and whole numbers; else the rows as they are."""
    if table.num_rows < ENOUGH or {*table.column_names} != {*spec.keys, *spec.rings}:
        return table
    keys, rings = ([table.schema.field(n).type for n in names] for names in (spec.keys, spec.rings))
    if not keys or not all(any(known(t) for known in KEYS) for t in keys):
        return table
    if not all(t == INTEGER or pa.types.is_decimal128(t) for t in rings):
        return table
    places = _places(spec, table)
    if places is not None:
        made = _grouped(spec, table, partial(_by_place, places))
        return table if made is None else made
    count = times(table.num_rows, threads)
    if table.num_rows / count < SEVERAL * _number_of_keys(spec, table):
        return table
    parts = each(lambda t: _grouped(spec, t, partial(_by_arrow, t)), stretches(table, count))
    known = [p for p in parts if p is not None]
    return pa.concat_tables(known) if len(known) == len(parts) else table


class Places(NamedTuple):
    """Whole numbers as places in an array: the least of them, the length of the array, and where each row is."""

    least: int
    length: int
    at: Ints


def _places(spec: MapSpec, table: pa.Table) -> Places | None:
    """The places of rows by their key, which is one column of whole numbers that lie close to each other; else None."""
    key = column(table, spec.keys[0])
    if len(spec.keys) > 1 or key.type != INTEGER or key.null_count:
        return None
    keys = np.asarray(key)
    least, greatest = int(keys.min()), int(keys.max())
    if greatest - least >= CLOSE * len(keys):
        return None
    return Places(least, greatest - least + 1, keys - least)


def _by_place(places: Places, keys: list[str], numbers: Columns) -> Columns:
    """Each key once, with its numbers added up in an array."""
    there = np.flatnonzero(np.bincount(places.at, minlength=places.length))
    out = {keys[0]: pa.array(there + places.least)}
    for n, values in numbers.items():
        sums = np.zeros(places.length, np.int64)
        np.add.at(sums, places.at, np.asarray(values))
        out[n] = pa.array(sums[there])
    return out


def _by_arrow(table: pa.Table, keys: list[str], numbers: Columns) -> Columns:
    """Each key once, with its numbers added up by Arrow."""
    cells = {n: column(table, n) for n in keys} | numbers
    made = pa.TableGroupBy(pa.table(cells), keys, use_threads=False)
    found = made.aggregate([(n, "sum") for n in numbers])
    return {n: column(found, f"{n}_sum" if n in numbers else n) for n in cells}


def _number_of_keys(spec: MapSpec, table: pa.Table) -> float:
    """About how many different keys rows have, of which some are drawn: so many that `SEVERAL` of a key would be seen."""
    count = isqrt(4 * PAIRS * table.num_rows // SEVERAL)
    rows = np.random.default_rng(table.num_rows).choice(table.num_rows, count, False, shuffle=False)
    some = table.select(spec.keys).take(pa.array(rows))
    h = np.sort(hash_keys([column(some, n) for n in spec.keys], some.num_rows))
    starts = np.flatnonzero(np.append(True, h[1:] != h[:-1]))
    sizes = np.diff(np.append(starts, len(h)))
    pairs = int((sizes * (sizes - 1)).sum()) // 2
    return len(h) * len(h) / (2 * pairs) if pairs >= PAIRS else float("inf")


def _grouped(spec: MapSpec, table: pa.Table, by: Grouping) -> pa.Table | None:
    """Rows grouped in some way; None if sums might not fit into 64 bits."""
    numbers = {n: _whole(column(table, n)) for n in spec.rings}
    if any(n is None for n in numbers.values()):
        return None
    out = by(spec.keys, numbers)
    try:
        for n in spec.rings:
            t = table.schema.field(n).type
            out[n] = out[n] if t == INTEGER else decimals(np.asarray(out[n]), t)
    except OverflowError:  # of a part, which the rest may take back
        return None
    return pa.table({n: out[n] for n in table.column_names})


def _whole(values: pa.Array) -> pa.Array | None:
    """Numbers, or decimals as unscaled ones, of which the sum of as many as there are surely fits into 64 bits."""
    if values.type == INTEGER and not values.null_count:
        found = np.asarray(values)
        most = max(int(found.max()), -int(found.min())) if len(found) else 0
        return values if most * len(found) < 1 << 63 else None
    if pa.types.is_decimal128(values.type):
        unscaled = small(values, len(values))
        return None if unscaled is None else pa.array(unscaled)
    return None
