"""Least and greatest values inside of a loop: from what was answered and what is new, without reading the group.

    change at round r  =  end(v@r) − the answers that are kept, up to r
    end(v@r)           =  the nearer of end(before@r) and of the values that are new up to r, if that end has not gone

The answers of a group are kept by round, as all entries of a loop are, and new values are in memory. So a group of a
million values is read only when its least one goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.engine.here.by_round import Entries, at_round, entries, round_of
from headwater.engine.rings import spec_of
from headwater.engine.working import Working
from headwater.plan.program import FromBag, Stratum
from headwater.state.keys import Bools, Ints, canonical, grouped, parts
from headwater.state.run import cast, column

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
        """What groups are answered from now, less what they were answered before and in earlier rounds."""
        ends = {b.column: self._end(b) for b in self.stratum.from_bags}
        live = np.flatnonzero(self._live(list(ends.values())))
        said = [side.upto(self.rounds) for side in (self.before, self.told)]
        probe = np.concatenate([live, *(side.probe for side in said)])
        some, cells = pa.array(probe), dict[str, pa.Array]()
        for n in self.names:
            cells[n] = column(self.keys, n).take(some)
        for n, now in ends.items():
            answers = [cast(column(side.table, self.kept[n]), now.type) for side in said]
            cells[n] = pa.concat_arrays([now.take(pa.array(live)), *answers])
        for n, _ in self.stratum.group.ring:  # nothing but whether there are rows is asked of it
            cells[n] = pa.array(np.ones(len(probe), np.int64))
        gone = [-np.asarray(column(side.table, "r0")) for side in said]
        weights = np.concatenate([np.ones(len(live), np.int64), *gone])
        return (pa.table(cells), pa.array(weights)), self._later()

    def _end(self, b: FromBag) -> pa.Array:
        """The ends of the groups now, up to their rounds."""
        t, last, groups = spec_of(b.map).types[b.items[0]], b.function == "max", len(self.rounds)
        new = entries(self.working.new(b.map.name), self.keys, self.at)
        known = self._values(self.before, self.kept[b.column], t)
        came = self._values(new, b.items[0], t)
        both = _Values([known, came])
        some, gone = both.nearer(len(known.probe), groups, self.moved)
        ends = both.ends(some, groups, last)
        if gone.any():
            whole = _Values(self._whole(gone, b, new, t))
            there, _ = whole.summed(np.arange(len(whole.probe)), whole.weight, positive=True)
            both_ends = pa.concat_arrays([ends, whole.ends(there, groups, last)])
            ends = both_ends.take(pa.array(np.arange(groups) + groups * gone))
        return ends

    def _values(self, side: Entries, name: str, t: pa.DataType) -> _Side:
        """The values of entries up to the rounds of their keys; NULL is none."""
        some = side.upto(self.rounds)
        values, weight = cast(column(some.table, name), t), np.asarray(column(some.table, "r0"))
        if not values.null_count:
            return _Side(some.probe, values, weight)
        there = np.asarray(values.is_valid())
        return _Side(some.probe[there], values.drop_null(), weight[there])

    def _whole(self, gone: Bools, b: FromBag, new: Entries, t: pa.DataType) -> list[_Side]:
        """The values that there were, and those that are new, of groups whose end has gone."""
        where = np.flatnonzero(gone)
        lost = self.keys if len(where) == len(gone) else self.keys.take(pa.array(where))
        old = entries(self.working.before(b.map.name), lost, self.at, where)
        self.later.extend((old, new))
        return [self._values(side, b.items[0], t) for side in (old, new.kept(gone[new.probe]))]

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


class _Side(NamedTuple):
    """Values, for which of the keys each was found, and how often it comes or goes."""

    probe: Ints
    values: pa.Array
    weight: Ints


class _Values:
    """Values of several sides together; each has a code, a whole number that orders and equals as the value does."""

    def __init__(self, sides: Sequence[_Side]):
        self.probe = np.concatenate([s.probe for s in sides])
        self.weight = np.concatenate([s.weight for s in sides])
        self.values = pa.concat_arrays([s.values for s in sides])
        self.code = _codes(self.values)

    def summed(self, some: Ints, weight: Ints, positive: bool = False) -> tuple[Ints, Ints]:
        """Equal values of a key once, their weights added; of those that are not zero, or are positive."""
        if len(some) > 1:
            order = np.lexsort((self.code[some], self.probe[some]))
            some = some[order]
            probe, code = self.probe[some], self.code[some]
            first = np.append(True, (probe[1:] != probe[:-1]) | (code[1:] != code[:-1]))
            starts = np.flatnonzero(first)
            some, weight = some[starts], np.add.reduceat(weight[order], starts)
        kept = weight > 0 if positive else weight != 0
        return (some, weight) if kept.all() else (some[kept], weight[kept])

    def nearer(self, known: int, groups: int, moved: Bools) -> tuple[Ints, Bools]:
        """The ends that are `known`, which come first, and new values that are there; and the keys whose end may have gone.

        An end of which some are taken away may have gone: the group has to be read. Keys of which something is new have
        then moved.
        """
        gone, every = np.zeros(groups, np.bool_), np.arange(len(self.probe))
        if (self.weight > 0).all():  # nothing cancels
            moved[self.probe[known:]] = True
            return every, gone
        old, _ = self.summed(every[:known], self.weight[:known])
        new, came = self.summed(every[known:], self.weight[known:])
        moved[self.probe[new]] = True
        both = np.append(old, new)
        both, weight = self.summed(both, np.append(np.full(len(old), KNOWN), came))
        probe = self.probe[both]
        gone[probe[(weight > KNOWN // 2) & (weight < KNOWN)]] = True
        return both[(weight > 0) & ~gone[probe]], gone

    def ends(self, some: Ints, groups: int, last: bool) -> pa.Array:
        """Of some values the least or the greatest of each key; NULL where there is none."""
        limits = np.iinfo(np.int64)
        nearer, far = (np.maximum, limits.min) if last else (np.minimum, limits.max)
        ends, none = np.full(groups, far, np.int64), np.ones(groups, np.bool_)
        nearer.at(ends, self.probe[some], self.code[some])
        none[self.probe[some]] = False
        if self.values.type == pa.int64():
            return pa.array(ends, mask=none)
        place = np.zeros(len(self.code), np.int64)
        place[self.code] = np.arange(len(self.code))
        ends[none] = 0
        found = place[ends] if len(place) else ends
        return self.values.take(pa.array(found, mask=none))


def _codes(values: pa.Array) -> Ints:
    """Whole numbers that are equal and in order where the values are: themselves, or their ranks."""
    if values.type == pa.int64():
        return np.asarray(values)
    columns, ranks = parts(canonical(values)), np.zeros(len(values), np.int64)
    order, starts = grouped(ranks, columns)
    first = np.zeros(len(values), np.int64)
    first[starts[1:]] = 1
    out = np.empty(len(values), np.int64)
    out[order] = np.cumsum(first)
    return out
