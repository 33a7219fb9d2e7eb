"""Which task merges an emitted row: light keys stay together, heavy ones are divided over all tasks.

The task of an entry is a part of the hash space, that of the hash of its map's `route` columns. A key with more rows
than others, a label with a large inner bag or a frequent join key, would make one task the longest; so the rows of a
key that is *heavy* are treated apart, in the hop that emits them:

    equal keys are added up first     a sum over a frequent group, or over everything, is one row for each piece
    the whole key says the part       where a map is a sum of its runs, so that nobody minds who writes an entry

Whoever merges an entry of a key that belongs to another part writes it into a run of its own, so that the ranges of
the other runs, by which look-ups choose what to open, stay as narrow as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.here import few_keys
from headwater.engine.here.statements import changes_of, hashed
from headwater.engine.rings import spec_of
from headwater.plan.program import Map, Statement, Stratum
from headwater.state.entries import total
from headwater.state.keys import Bools, Ints
from headwater.state.run import hashes, prepared

EVEN = 2
"""A key is heavy if it has more than one half of the rows that each part should have."""


@dataclass(frozen=True)
class Routing:
    """How the rows that tasks emit find the tasks that merge them.

    There are `parts` tasks that merge. In the maps that are `free`, several tasks may write one key. A key with more rows
    than `heavy` is treated apart.
    """

    parts: int
    free: frozenset[str]
    heavy: int
    mark: str = ""
    """How the files begin in which tasks leave what is large for those that merge it."""
    inline: int = 1 << 20
    """Bytes above which it is large."""

    def routed(self, target: Map, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Emitted rows by part; many of them added up, and so in order, which whoever merges them need not sort again."""
        if table.num_rows > self.heavy:
            table = added_up(target, table)
        h = _hashes(table, target.route)
        limit = max(self.heavy, len(h) // (EVEN * self.parts))
        heavy = _heavy(h, limit) if self.parts > 1 else None
        if heavy is None:
            yield from self._cut(table, h)
            return
        light = pa.array(~heavy)
        rows, by = table.filter(pa.array(heavy)), h[heavy]
        whole = _hashes(rows, target.columns)
        both = pa.concat_tables([table.filter(light), rows])
        chosen = whole if target.name in self.free else by
        yield from self._cut(both, np.concatenate((h[~heavy], chosen)))

    def _cut(self, table: pa.Table, h: Ints) -> Iterator[tuple[int, pa.Table]]:
        place = part_of(h, self.parts)
        if (place[1:] < place[:-1]).any():
            order = np.argsort(place, kind="stable")
            table, place = table.take(pa.array(order)), place[order]
        starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
        for start, end in zip(starts, [*starts[1:], len(place)], strict=True):
            yield int(place[start]), table.slice(start, end - start)

    def runs(self, part: int, name: str, entries: pa.Table) -> list[pa.Table]:
        """The runs that a part writes for a map: its own keys, and what it merged of others'."""
        if name not in self.free:
            return [entries]
        own = part_of(hashes(entries), self.parts) == part
        if own.all():
            return [entries]
        return [entries.filter(pa.array(own)), entries.filter(pa.array(~own))]


def free(statements: Iterable[Statement], strata: Iterable[Stratum]) -> frozenset[str]:
    """The maps whose runs are summands, so that a key may be written by any number of tasks.

    Not so those with values, which are read and written, and bags that tell their group what came and went. Bags that
    a group is answered from may: that they were touched is said by every task, and once is enough.
    """
    read = {d.map.name for s in strata for d in s.passed_on}
    targets = {s.target.name: s.target for s in statements}
    return frozenset(
        n
        for n, m in targets.items()
        if m.kind == "change" and n not in read and m.route == m.lookup
    )


def part_of(h: Ints, parts: int) -> Ints:
    """The part of the hash space that hashes are in, in the order of signed hashes."""
    place = ((h.view(np.uint64) >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32)
    return ((place + np.uint64(parts // 2)) % np.uint64(parts)).astype(np.int64)


def added_up(target: Map, table: pa.Table) -> pa.Table:
    """Emitted rows with equal keys once; those that come to zero stay, for they touch their group."""
    spec = spec_of(target)
    table = few_keys.added_up(spec, table)
    summed = total(spec, prepared(spec, changes_of(target, table)))
    return summed.select(table.column_names)


def _hashes(table: pa.Table, names: Iterable[str]) -> Ints:
    return np.asarray(hashed(table, names))


def _heavy(h: Ints, limit: int) -> Bools | None:
    """The rows whose hash more than `limit` rows have; None if there are none."""
    bucket = (h.view(np.uint64) >> np.uint64(48)).astype(np.int64)
    full = np.bincount(bucket, minlength=1 << 16) > limit
    if not full.any():  # mostly so, and then nothing was sorted
        return None
    some = np.flatnonzero(full[bucket])
    _, place, counts = np.unique(h[some], return_inverse=True, return_counts=True)
    out = np.zeros(len(h), np.bool_)
    out[some] = counts[place] > limit
    return out if out.any() else None
