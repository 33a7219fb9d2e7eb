"""Least and greatest values inside of a loop: from what was answered and what is new, without reading the group.

    change at round r  =  end(v@r) − the answers that are kept, up to r
    end(v@r)           =  the nearer of end(before@r) and of the values that are new up to r, if that end has not gone

The answers of a group are kept by round, as all entries of a loop are, and new values are in memory. So a group of a
million values is read only when its least one goes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.engine.here.by_round import (
    Entries,
    arranged,
    at_round,
    by_group,
    entries,
    round_of,
    searched_by_all,
)
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.here.from_bags import from_bag
from headwater.engine.here.statements import hashed
from headwater.engine.working import Overlay, Working
from headwater.plan.program import WEIGHT, FromBag, Stratum
from headwater.state.keys import Bools, Ints
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
        self.groups = by_group(stratum, keys)
        self.kept = dict(zip(answered(stratum), stratum.answers.columns, strict=True))
        """How the components are called among the answers that are kept."""
        at = self.kept[self.at]
        self.before = entries(working.before(stratum.answers.name), self.groups, at)
        self.told = entries(working.new(stratum.answers.name), self.groups, at)
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
        new = entries(self.working.new(b.map.name), self.groups, self.at)
        found = _nearer(
            self._values(self.before, self.kept[b.column]),
            self._values(new, b.items[0]),
            len(self.rounds),
        )
        self.moved |= found.moved
        elements = [self._elements(found, b)]
        if found.gone.any():
            self.later.append(new)
            elements += self._whole(found.gone, b, new)
        arrangement = arranged(b.map, self.names, elements, Overlay(self.working.runs.below))
        keys = self.keys.drop_columns(["_h"])
        keys = keys.add_column(0, "_h", hashed(keys, self.names))
        return from_bag(arrangement, replace(b, map=searched_by_all(b.map, self.names)), keys)

    def _values(self, side: Entries, name: str) -> pa.Table:
        """The values of entries up to the rounds of their keys."""
        some = side.upto(self.rounds)
        cells = [pa.array(some.probe), column(some.table, name), column(some.table, "r0")]
        table = pa.table(cells, [PROBE, VALUE, WEIGHT])
        return table.filter(column(table, VALUE).is_valid())

    def _elements(self, found: _Nearer, b: FromBag) -> pa.Table:
        """Ends that are known and values that are new, as elements of their groups' bags."""
        cells = {n: column(self.keys, n).take(pa.array(found.probe)) for n in self.names}
        ones = pa.array(np.ones(len(found.probe), np.int64))
        return pa.table(cells | {b.items[0]: found.values, "r0": ones})

    def _whole(self, gone: Bools, b: FromBag, new: Entries) -> list[pa.Table]:
        """All elements of groups whose end has gone."""
        where = np.flatnonzero(gone)
        lost = self.groups.take(pa.array(where))
        old = entries(self.working.before(b.map.name), lost, self.at, where)
        self.later.append(old)
        out = []
        for side in (old, new):
            some = side.upto(self.rounds)
            mine = np.flatnonzero(gone[some.probe])
            table = some.table.take(pa.array(mine)).select([*self.names, *b.items, "r0"])
            out.append(at_round(table, self.at, self.rounds[some.probe[mine]]))
        return out

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
        lost, count = self.groups.take(pa.array(where)), np.zeros(len(empty), np.int64)
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
    known, new = consolidated(known), consolidated(new)
    moved, gone = np.zeros(groups, np.bool_), np.zeros(groups, np.bool_)
    moved[np.asarray(column(new, PROBE))] = True
    marked = known.set_column(
        known.schema.get_field_index(WEIGHT), WEIGHT, pa.array(np.full(known.num_rows, KNOWN))
    )
    both = consolidated(pa.concat_tables([marked, new.cast(marked.schema)]))
    probe, weight = np.asarray(column(both, PROBE)), np.asarray(column(both, WEIGHT))
    gone[probe[(weight > KNOWN // 2) & (weight < KNOWN)]] = True
    there = np.flatnonzero((weight > 0) & ~gone[probe])
    return _Nearer(probe[there], column(both, VALUE).take(pa.array(there)), gone, moved)
