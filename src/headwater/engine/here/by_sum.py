"""Sums inside of a loop: a group at a round is what it was at the round before, and its entries at the round.

    v@r = v@(r−1) + vᵣ        before the increment, and now

Rounds are visited in ascending order, and a group that has moved is visited at every later round at which it has entries.
So the sums of a group at the round that was visited last are those of all rounds up to the next one. Its entries of before
the increment were all found at its first visit, and wait for their rounds; what is looked up is new entries at the
round. Of groups that were not among those of the last visit all entries are looked up and added. This is for strata that are
answered from their group's map alone; `by_round` is for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.engine.here.by_round import WEIGHTS, Entries, at_round, entries, round_of
from headwater.engine.here.carried import Addend, Carried
from headwater.engine.rings import spec_of
from headwater.engine.working import Working
from headwater.plan.program import Stratum
from headwater.state.arrangement import INDEX
from headwater.state.keys import Bools, Ints, all_parts, equal
from headwater.state.run import column, hashes


class Shown(NamedTuple):
    """What groups that have rows are answered from, and which of the groups each row is of."""

    table: pa.Table
    at: Ints

    def placed(self, places: Ints) -> Shown:
        """The same among other groups, of which `places` says where each of these is; without those that are nowhere."""
        at = places[self.at]
        if (at >= 0).all():
            return Shown(self.table, at)
        return Shown(self.table.filter(pa.array(at >= 0)), at[at >= 0])


class Side(NamedTuple):
    """The sums of groups at a round, before the increment or now, and what is shown of them."""

    sums: Carried
    shown: Shown


class Sums(NamedTuple):
    """What a visit found, for the next one: groups that have moved in the order of their hashes, and their values on both sides."""

    groups: pa.Table
    before: Side
    now: Side
    ahead: Mapping[int, list[Entries]]
    """The entries of before at later rounds, and which of the groups each is of; -1 for others."""


class Changed(NamedTuple):
    """What groups are answered from at a round, with weights; the rounds that follow; and the sums for the next visit."""

    components: tuple[pa.Table, pa.Array]
    later: pa.Table
    sums: Sums


def is_answered_so(stratum: Stratum) -> bool:
    """Whether the entries of the group's map are all that a stratum is answered from, and it has no row without them."""
    return not stratum.bags and stratum.answers is None and not stratum.always


def changed(working: Working, stratum: Stratum, keys: pa.Table, last: Sums | None) -> Changed:
    """How what groups are answered from changes at a round, one for all keys; `last` is what the visit before found."""
    return _Visit(working, stratum, keys, last).changed()


class _Visit:
    """The groups of a stratum that are visited at a round."""

    def __init__(self, working: Working, stratum: Stratum, keys: pa.Table, last: Sums | None):
        self.working, self.stratum, self.keys = working, stratum, keys
        self.last = last = last if last is not None and last.groups.num_rows else None
        self.name, self.at, self.spec = (
            stratum.group.name,
            round_of(stratum),
            spec_of(stratum.group),
        )
        self.rounds = np.asarray(column(keys, self.at))
        self.places = _places(keys, stratum.group.columns[:-1], last)
        """Where the groups are among those of the last visit; -1 for those that are not there."""
        self.known, self.unknown = np.flatnonzero(self.places >= 0), np.flatnonzero(self.places < 0)
        groups = last.groups.num_rows if last is not None else 0
        self.of_last = np.full(groups + 1, -1, np.int64)
        """Where the groups of the last visit are among these; the last one is for what is nowhere."""
        self.of_last[self.places[self.known]] = self.known

    def changed(self) -> Changed:
        now_at, unknown = int(self.rounds[0]), self.keys.take(pa.array(self.unknown))
        old, new = (
            entries(read(self.name), unknown, self.at, self.unknown)
            for read in (self.working.before, self.working.new)
        )
        waiting = self._waiting()
        below = [side.kept(side.round < now_at) for side in (old, new)]
        here = [side.kept(side.round == now_at) for side in (old, new)]
        below_before, below_new = (self._added(found) for found in below)
        here_before = [self._added(found) for found in (here[0], *waiting.pop(now_at, ()))]
        here_new = [self._added(found) for found in (here[1], self._new())]
        lower = self._lower(0).plus(below_before)
        lower_now = self._lower(1).plus(below_before, below_new)
        before, now = lower.plus(*here_before), lower_now.plus(*here_before, *here_new)
        moved = self.places >= 0
        moved[below[1].probe] = moved[here[1].probe] = True
        every = np.arange(len(moved))
        sides = [Side(v, self._shown(v, every)) for v in (before, now)]
        told = [
            (sides[0].shown, WEIGHTS[0]),
            *((s, WEIGHTS[1]) for s in self._shown_below(0, lower)),
            (sides[1].shown, WEIGHTS[2]),
            *((s, WEIGHTS[3]) for s in self._shown_below(1, lower_now)),
        ]
        ahead = [side.after(self.rounds) for side in (old, new)]
        _wait(waiting, ahead[0].kept(moved[ahead[0].probe]))
        later = _later(self.keys.select(self.stratum.group.columns), self.at, ahead, moved)
        return Changed(self._told(told), later, self._kept(sides, waiting, moved))

    def _lower(self, side: int) -> Carried:
        """The sums up to the round before, of groups that are known."""
        if self.last is None:
            return Carried.zero(self.spec, len(self.places))
        return (self.last.before, self.last.now)[side].sums.at(self.places)

    def _waiting(self) -> dict[int, list[Entries]]:
        """The entries of before of groups that are known, by round."""
        if self.last is None:
            return {}
        return {
            at: [Entries(e.table, self.of_last[e.probe], e.round) for e in found]
            for at, found in self.last.ahead.items()
        }

    def _new(self) -> Entries:
        """The new entries of groups that are known at the round."""
        keys = self.keys.take(pa.array(self.known))
        found = self.working.new(self.name).lookup(keys, whole_key=True, linear=True)
        probe = self.known[np.asarray(column(found, INDEX))]
        return Entries(found, probe, self.rounds[probe])

    def _added(self, found: Entries) -> Addend:
        """Entries as what is added to their groups."""
        return Addend.of(self.spec, found.table, found.probe)

    def _shown(self, values: Carried, some: Ints) -> Shown:
        """What is shown of some groups, of those that have rows."""
        there = some[values.have_rows(self.spec.count)[some]]
        return Shown(values.at(there).shown(self.stratum), there)

    def _shown_below(self, side: int, lower: Carried) -> list[Shown]:
        """What is shown of all groups at the round before: of those that are known it was shown then."""
        found = []
        if self.last is not None:
            found.append((self.last.before, self.last.now)[side].shown.placed(self.of_last))
        if len(self.unknown):
            found.append(self._shown(lower, self.unknown))
        return found

    def _told(self, told: list[tuple[Shown, int]]) -> tuple[pa.Table, pa.Array]:
        """Values of groups as components, each with its weight in the change."""
        at = pa.array(np.concatenate([s.at for s, _ in told]))
        values = pa.concat_tables([s.table for s, _ in told])
        keys = {n: column(self.keys, n).take(at) for n in self.stratum.group.columns}
        weights = np.concatenate([np.full(len(s.at), w) for s, w in told])
        return pa.table({**keys, **{n: values.column(n) for n in values.column_names}}), pa.array(
            weights
        )

    def _kept(self, sides: list[Side], waiting: dict[int, list[Entries]], moved: Bools) -> Sums:
        """What the next visit is to know: of groups that have moved, which are visited where they have entries."""
        live = np.flatnonzero(moved)
        place = np.full(len(moved) + 1, -1, np.int64)
        place[live] = np.arange(len(live))
        groups, before, now = self.keys, *sides
        if len(live) < len(moved):
            groups = self.keys.take(pa.array(live))
            before, now = (Side(s.sums.at(live), s.shown.placed(place)) for s in sides)
        ahead = {
            at: [Entries(e.table, place[e.probe], e.round) for e in found]
            for at, found in waiting.items()
        }
        return Sums(groups, before, now, ahead)


def _places(keys: pa.Table, names: list[str], last: Sums | None) -> Ints:
    """Where groups are among those that the last visit found; -1 for those that are not there."""
    out = np.full(keys.num_rows, -1, np.int64)
    if last is None:
        return out
    held, wanted = hashes(last.groups), hashes(keys)
    places = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    some = np.flatnonzero(held[places] == wanted)
    found, asked = last.groups.take(pa.array(places[some])), keys.take(pa.array(some))
    if names:  # without any there is one group
        some = some[equal(*(all_parts([column(t, n) for n in names]) for t in (found, asked)))]
    out[some] = places[some]
    return out


def _wait(waiting: dict[int, list[Entries]], found: Entries) -> None:
    """Has entries wait for their rounds."""
    for at in np.unique(found.round):
        waiting.setdefault(int(at), []).append(found.kept(found.round == at))


def _later(keys: pa.Table, at: str, ahead: list[Entries], moved: Bools) -> pa.Table:
    """The later rounds of groups that have moved."""
    tables = [keys.slice(0, 0)]
    for side in ahead:
        mine = np.flatnonzero(moved[side.probe])
        if len(mine):
            tables.append(at_round(keys.take(pa.array(side.probe[mine])), at, side.round[mine]))
    return pa.concat_tables(tables)
