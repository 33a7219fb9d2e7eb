"""Least and greatest values inside of a loop: from what was answered and what is new, without reading the group.

    change at round r  =  end(v@r) − the answers that are kept, up to r
    end(v@r)           =  the nearer of end(before@r) and of the values that are new up to r, if that end has not gone

The answers of a group are kept by round, as all entries of a loop are, and new values are in memory. So a group of a
million values is read only when its least one goes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.here.by_round import Entries, at_round, entries, round_of
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.rings import spec_of
from headwater.engine.working import Working
from headwater.plan.program import WEIGHT, FromBag, Stratum
from headwater.state.keys import Bools, Ints, boundaries, canonical, parts, sort_order
from headwater.state.run import column

PROBE, VALUE = "_p", "_v"
KNOWN = 1 << 40
"""The weight of an end that is known, among those of new values: more than any of these can be."""


def answered(stratum: Stratum) -> list[str]:
    """The components that are kept of an answer: its group and round, and its ends."""
    return [*stratum.group.columns, *(b.column for b in stratum.from_bags)]


def changed(
    working: Working, stratum: Stratum, keys: pa.Table
) -> tuple[tuple[pa.Table, pa.Array], pa.Table]:
    """How what groups are answered from changes at their rounds, with weights; and the rounds that follow."""
    return _Ends(working, stratum, keys).changed()


class _Ends:
    """The ends of some groups at some rounds."""

    def __init__(self, working: Working, stratum: Stratum, keys: pa.Table):
        assert stratum.answers is not None
        self.working, self.stratum, self.keys = working, stratum, keys
        self.at, self.names = round_of(stratum), stratum.group.columns
        self.rounds = np.asarray(column(keys, self.at))
        self.kept = dict(zip(answered(stratum), stratum.answers.columns, strict=True))
        """How the components are called among the answers that are kept."""
        at = self.kept[self.at]
        self.before = entries(working.before(stratum.answers.name), self.keys, at)
        self.told = entries(working.new(stratum.answers.name), self.keys, at)
        self.later = [self.before, self.told]
        self.moved = np.zeros(len(self.rounds), np.bool_)
        """The keys of which something is new up to their round: for others nothing changes later."""

    def changed(self) -> tuple[tuple[pa.Table, pa.Array], pa.Table]:
        ends = {b.column: self._end(b) for b in self.stratum.from_bags}
        live = self._live(list(ends.values()))
        now = pa.table({n: column(self.keys, n) for n in self.names} | ends)
        tables, weights = [now.filter(pa.array(live))], [np.ones(int(live.sum()), np.int64)]
        for side in (self.before, self.told):
            said = side.upto(self.rounds)
            cells = {n: column(said.table, c) for n, c in self.kept.items()}
            table = pa.table(cells | {self.at: pa.array(self.rounds[said.probe])})
            tables.append(table.select(now.column_names).cast(now.schema))
            weights.append(-np.asarray(column(said.table, "r0")))
        made = pa.concat_tables(tables)
        for name, _ in self.stratum.group.ring:  # nothing but whether there are rows is asked of it
            made = made.append_column(name, pa.array(np.ones(made.num_rows, np.int64)))
        return (made, pa.array(np.concatenate(weights))), self._later()

    def _end(self, b: FromBag) -> pa.Array:
        """The ends of the groups now, up to their rounds."""
        new = entries(self.working.new(b.map.name), self.keys, self.at)
        known = self._values(self.before, self.kept[b.column])
        found = _nearer(known, self._values(new, b.items[0]), len(self.rounds))
        self.moved |= found.moved
        probes, values = [found.probe], [found.values]
        if found.gone.any():
            whole = self._whole(found.gone, b, new)
            self.later.append(new)
            probes.append(np.asarray(column(whole, PROBE)))
            values.append(column(whole, VALUE))
        t = spec_of(b.map).types[b.items[0]]
        every = pa.concat_arrays([v.cast(t) for v in values])
        return _ends(np.concatenate(probes), every, len(self.rounds), b.function == "max")

    def _values(self, side: Entries, name: str) -> pa.Table:
        """The values of entries up to the rounds of their keys."""
        some = side.upto(self.rounds)
        cells = [pa.array(some.probe), column(some.table, name), column(some.table, "r0")]
        table = pa.table(cells, [PROBE, VALUE, WEIGHT])
        values = cells[1]
        return table.filter(values.is_valid()) if values.null_count else table

    def _whole(self, gone: Bools, b: FromBag, new: Entries) -> pa.Table:
        """The values that are there now, of groups whose end has gone."""
        where = np.flatnonzero(gone)
        lost = self.keys.take(pa.array(where))
        old = entries(self.working.before(b.map.name), lost, self.at, where)
        self.later.append(old)
        mine = new.kept(gone[new.probe])
        sides = [self._values(side, b.items[0]) for side in (old, mine)]
        every = consolidated(pa.concat_tables(sides))
        return every.filter(pc.greater(every.column(WEIGHT), 0))

    def _live(self, ends: list[pa.Array]) -> Bools:
        """Whether groups have rows: where there is a value; where there is none, their count says it.

        An answer without groups is there from round 1 on, whatever there is.
        """
        if self.stratum.always:
            there: Bools = self.rounds >= 1
            return there
        empty = np.zeros(len(self.rounds), np.bool_)
        for values in ends:
            empty |= ~np.asarray(values.is_valid())
        if not empty.any():
            return ~empty
        where = np.flatnonzero(empty)
        lost, count = self.keys.take(pa.array(where)), np.zeros(len(empty), np.int64)
        for side in (self.working.before, self.working.new):
            found = entries(side(self.stratum.group.name), lost, self.at, where)
            some = found.upto(self.rounds)
            np.add.at(count, some.probe, np.asarray(column(some.table, "r0")))
            self.later.append(found)
        self.moved |= empty
        live: Bools = ~empty | (count != 0)
        return live

    def _later(self) -> pa.Table:
        """The rounds that follow, of groups in which something is new: those of their answers, and of what was read."""
        tables = [self.keys.select(self.names).slice(0, 0)]
        for side in self.later:
            rest = side.after(self.rounds)
            mine = np.flatnonzero(self.moved[rest.probe])
            if not len(mine):
                continue
            keys = self.keys.select(self.names).take(pa.array(rest.probe[mine]))
            tables.append(at_round(keys, self.at, rest.round[mine]))
        return pa.concat_tables(tables)


class _Nearer(NamedTuple):
    """Values among which the ends of groups are, unless they have gone; and which groups have something new."""

    probe: Ints
    values: pa.Array
    gone: Bools
    moved: Bools


def _nearer(known: pa.Table, new: pa.Table, groups: int) -> _Nearer:
    """The ends that are known, and the new values that are there; an end of which some are taken away may have gone."""
    moved, gone = np.zeros(groups, np.bool_), np.zeros(groups, np.bool_)
    if (_weights(known) > 0).all() and (_weights(new) > 0).all():  # nothing cancels
        moved[np.asarray(column(new, PROBE))] = True
        both = pa.concat_tables([known, new.cast(known.schema)])
        return _Nearer(np.asarray(column(both, PROBE)), column(both, VALUE), gone, moved)
    known, new = consolidated(known), consolidated(new)
    moved[np.asarray(column(new, PROBE))] = True
    marked = known.set_column(
        known.schema.get_field_index(WEIGHT), WEIGHT, pa.array(np.full(known.num_rows, KNOWN))
    )
    both = consolidated(pa.concat_tables([marked, new.cast(marked.schema)]))
    probe, weight = np.asarray(column(both, PROBE)), _weights(both)
    gone[probe[(weight > KNOWN // 2) & (weight < KNOWN)]] = True
    there = np.flatnonzero((weight > 0) & ~gone[probe])
    return _Nearer(probe[there], column(both, VALUE).take(pa.array(there)), gone, moved)


def _weights(table: pa.Table) -> Ints:
    return np.asarray(column(table, WEIGHT))


def _ends(probe: Ints, values: pa.Array, groups: int, last: bool) -> pa.Array:
    """The least or the greatest of the values of each group; NULL where there are none."""
    if values.type == pa.int64():
        limits = np.iinfo(np.int64)
        nearer, far = (np.maximum, limits.min) if last else (np.minimum, limits.max)
        ends, there = np.full(groups, far, np.int64), np.zeros(groups, np.bool_)
        nearer.at(ends, probe, np.asarray(values))
        there[probe] = True
        return pa.array(ends, mask=~there)
    order = sort_order(probe, parts(canonical(values)))
    starts = boundaries(probe[order], [])
    chosen = np.append(starts[1:], len(order))[: len(starts)] - 1 if last else starts
    places = np.full(groups, -1, np.int64)
    places[probe[order[chosen]]] = order[chosen]
    return values.take(pa.array(places, mask=places < 0))
