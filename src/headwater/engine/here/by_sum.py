"""Sums inside of a loop: a group at a round is what it was at the round before, and its entries at the round.

    v@r = v@(r−1) + vᵣ        before the increment, and now

Rounds are visited in ascending order, and a group that has moved is visited at every later round at which it has entries.
So the sums of a group at the round that was visited last are those of all rounds up to the next one, and its entries
there are all that is looked up. Of groups that were not among those of the last visit all entries are looked up and
added. This is for strata that are answered from their group's map alone; `by_round` is for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.engine.here.by_round import SIDES, WEIGHTS, Entries, at_round, entries, round_of
from headwater.engine.rings import shown, spec_of
from headwater.engine.working import Working
from headwater.plan.program import Stratum
from headwater.state.adding import plus, replaced, sums, zeros
from headwater.state.arrangement import INDEX
from headwater.state.keys import Bools, Ints, all_parts, equal
from headwater.state.run import MapSpec, column, hashes

Values = Mapping[str, pa.Array]
"""The ring columns of groups, a row for each."""


class Sums(NamedTuple):
    """The values of groups at the round that was visited last, before the increment and now; the groups in the order of their hashes."""

    groups: pa.Table
    before: Values
    now: Values


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
    group, at = stratum.group, round_of(stratum)
    spec = spec_of(group)
    rounds = np.asarray(column(keys, at))
    known, places = _known(keys, group.columns[:-1], last)
    unknown = np.setdiff1d(np.arange(len(rounds)), known, assume_unique=True)
    moved = np.zeros(len(rounds), np.bool_)
    moved[known] = True
    ahead: list[Entries] = []
    lower, here = list[Values](), list[Values]()
    for read in (working.before, working.new):
        found = entries(read(group.name), keys.take(pa.array(unknown)), at, unknown)
        below, same = found.kept(found.round < rounds[0]), found.kept(found.round == rounds[0])
        exact = read(group.name).lookup(keys.take(pa.array(known)), whole_key=True, linear=True)
        probe = known[np.asarray(column(exact, INDEX))]
        lower.append(_totals(spec, [below], len(rounds)))
        here.append(_totals(spec, [same, Entries(exact, probe, probe)], len(rounds)))
        ahead.append(found.after(rounds))
        if read == working.new:
            moved[below.probe] = moved[same.probe] = True
    lower[1] = _plus(*lower)
    if last is not None:
        for i, side in enumerate((last.before, last.now)):
            lower[i] = {n: replaced(v, known, side[n].take(places)) for n, v in lower[i].items()}
    before, now = _plus(lower[0], here[0]), _plus(_plus(lower[1], here[0]), here[1])
    live = pa.array(np.flatnonzero(moved))
    kept = Sums(keys.take(live), *({n: v.take(live) for n, v in s.items()} for s in (before, now)))
    told = _told(stratum, keys, (before, lower[0], now, lower[1]))
    return Changed(told, _later(keys.select(group.columns), at, ahead, moved), kept)


def _known(keys: pa.Table, names: list[str], last: Sums | None) -> tuple[Ints, pa.Array]:
    """Which keys are of groups that the last visit found, and where these are there."""
    none = np.zeros(0, np.int64)
    if last is None or not last.groups.num_rows:
        return none, pa.array(none)
    held, wanted = hashes(last.groups), hashes(keys)
    places = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    some = np.flatnonzero(held[places] == wanted)
    found, asked = last.groups.take(pa.array(places[some])), keys.take(pa.array(some))
    if names:  # without any there is one group
        some = some[equal(*(all_parts([column(t, n) for n in names]) for t in (found, asked)))]
    return some, pa.array(places[some])


def _totals(spec: MapSpec, found: list[Entries], groups: int) -> Values:
    """The ring values of entries, added up for each of the keys that they were found for; zero for the others."""
    probe = np.concatenate([e.probe for e in found])
    if not len(probe):
        return {n: zeros(t, groups) for n, t in spec.ring}
    order = np.argsort(probe, kind="stable")
    probe = probe[order]
    starts = np.flatnonzero(np.append(True, probe[1:] != probe[:-1]))
    places = np.full(groups, len(starts), np.int64)
    places[probe[starts]] = np.arange(len(starts))
    out = {}
    for n, t in spec.ring:
        values = pa.concat_arrays([column(e.table, n) for e in found]).take(pa.array(order))
        total = sums(values, starts)
        if len(starts) < groups:
            total = pa.concat_arrays([total, zeros(t, 1)])
        out[n] = total.take(pa.array(places))
    return out


def _plus(a: Values, b: Values) -> Values:
    return {n: plus(v, b[n]) for n, v in a.items()}


def _told(stratum: Stratum, keys: pa.Table, sides: tuple[Values, ...]) -> tuple[pa.Table, pa.Array]:
    """The values of groups as components, each with its weight in the change; of groups without rows there are none."""
    assert len(sides) == SIDES
    count, tables, weights = spec_of(stratum.group).count, [], []
    names = stratum.group.columns
    for values, weight in zip(sides, WEIGHTS, strict=True):
        there = np.flatnonzero(np.asarray(values[count]))
        table = pa.table({**{n: column(keys, n) for n in names}, **values}).take(pa.array(there))
        shape = {n: column(table, n) for n in names} | shown(stratum, table)
        tables.append(pa.table(shape))
        weights.append(np.full(len(there), weight))
    return pa.concat_tables(tables), pa.array(np.concatenate(weights))


def _later(keys: pa.Table, at: str, ahead: list[Entries], moved: Bools) -> pa.Table:
    """The later rounds of groups that have moved."""
    tables = [keys.slice(0, 0)]
    for side in ahead:
        mine = np.flatnonzero(moved[side.probe])
        if len(mine):
            tables.append(at_round(keys.take(pa.array(side.probe[mine])), at, side.round[mine]))
    return pa.concat_tables(tables)
