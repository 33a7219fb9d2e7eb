"""Answers inside of a loop: a group at a round is the sum of its entries up to that round.

    ans(v) = Σ tⁱ·(ans(v@i) − ans(v@(i−1)))        v@i the sum of the entries of v up to round i

The maps of such a stratum are searched without the round, so that one look-up brings all rounds of a group. Entries are
added up to the round in question and the round before it, before the increment and now; these four values of a group are
arranged in memory as four groups, and answered as all groups are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.here.different_values import passed_on
from headwater.engine.here.statements import hashed
from headwater.engine.rings import spec_of
from headwater.engine.working import Overlay, Working
from headwater.plan.program import Distinct, Map, Stratum
from headwater.state.adding import zeros
from headwater.state.arrangement import INDEX, Arrangement, Touched
from headwater.state.entries import total
from headwater.state.keys import Bools, Ints
from headwater.state.run import LEAST, MOST, column, prepared

SIDES = 4
"""The values of a group at a round: before the increment up to the round, and up to the one before it; and now."""
WEIGHTS = np.array([-1, 1, 1, -1])
"""How often the answer of each value counts in the change of the answer at the round."""

Maps = Callable[[str], Arrangement]


class Summed(NamedTuple):
    """The values of groups at rounds, as groups of a stratum: the round of each says which of the four it is, too."""

    stratum: Stratum
    maps: Maps
    keys: pa.Table
    later: pa.Table
    """The groups whose value has moved, with the later rounds at which they have entries."""


class Entries(NamedTuple):
    """Entries that were looked up by group: for which of the keys each was found, and its round."""

    table: pa.Table
    probe: Ints
    round: Ints

    def upto(self, rounds: Ints) -> Entries:
        """Those up to the rounds of their keys."""
        return self.kept(self.round <= rounds[self.probe])

    def after(self, rounds: Ints) -> Entries:
        """Those after the rounds of their keys."""
        return self.kept(self.round > rounds[self.probe])

    def kept(self, which: Bools) -> Entries:
        if which.all():
            return self
        if not which.any():
            return Entries(self.table.slice(0, 0), self.probe[:0], self.round[:0])
        return Entries(self.table.filter(pa.array(which)), self.probe[which], self.round[which])


def entries(of: Arrangement, keys: pa.Table, at: str, places: Ints | None = None) -> Entries:
    """The entries of groups in all rounds; `places` are those of the keys among others."""
    found = of.lookup(keys, linear=True)
    probe, rounds = np.asarray(column(found, INDEX)), np.asarray(column(found, at))
    return Entries(found, probe if places is None else places[probe], rounds)


def round_of(stratum: Stratum) -> str:
    """The column of the round in the group's key, and in those of its bags."""
    return stratum.group.columns[-1]


def summed(working: Working, stratum: Stratum, keys: pa.Table, before: bool = True) -> Summed:
    """The values of groups at their rounds; without `before`, as though there had been nothing."""
    at, names = round_of(stratum), stratum.group.columns
    rounds = np.asarray(column(keys, at))
    sides = (0, 2) if before else (2,)
    runs = Overlay(working.runs.below)
    made: dict[str, Arrangement] = {}
    moved = np.zeros(len(rounds), np.bool_)
    ahead: list[pa.Table] = []
    for m in dict.fromkeys((*stratum.bags, stratum.group)):
        every = [_different(d, stratum.group, made) for d in stratum.distinct if m == stratum.group]
        # What there was counts for both sides, what is new only for that of now: each is looked up once.
        for read, mine in ((working.before, sides), (working.new, (2,))):
            found, probe, entry = entries(read(m.name), keys, at)
            if not found.num_rows:
                continue
            now = rounds[probe]
            for upto, place in ((now, 0), (now - 1, 1)):
                held = np.flatnonzero(entry <= upto)
                if len(held):
                    some, codes = found.take(pa.array(held)), now[held] * SIDES + place
                    every.extend(at_round(some, at, codes + side) for side in mine)
            rest = np.flatnonzero(entry > now)
            if len(rest):
                ahead.append(found.select([INDEX, *names]).take(pa.array(rest)))
            if mine == (2,):
                moved[probe[entry <= now]] = True
        made[m.name] = arranged(m, names, every, runs)
    every_side = [side + i for side in sides for i in (0, 1)]
    coded = pa.concat_tables([at_round(keys, at, rounds * SIDES + c) for c in every_side])
    coded = coded.drop_columns(["_h"]).add_column(0, "_h", hashed(coded, names))
    by_all = {m.name: searched_by_all(m, tuple(names)) for m in (stratum.group, *stratum.bags)}
    later = _later(keys.select(names), ahead, moved if before else None)
    return Summed(_with_maps(stratum, by_all), made.__getitem__, coded, later)


def weighed(stratum: Stratum, table: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Components with their real round, and the weight that each value has in the change."""
    at = round_of(stratum)
    codes = np.asarray(column(table, at))
    return at_round(table, at, codes // SIDES), pa.array(WEIGHTS[codes % SIDES])


def absent(keys: pa.Table, table: pa.Table, at: str, fresh: bool) -> Ints:
    """The rounds of an answer without groups at which there are no rows: it is there all the same, from round 1 on.

    Where the loop is new it was not there before.
    """
    codes = np.setdiff1d(np.asarray(column(keys, at)), np.asarray(column(table, at)))
    rounds = codes // SIDES - codes % 2
    there = rounds >= 1
    if fresh:
        there &= codes % SIDES >= 2
    found: Ints = codes[there]
    return found


def all_groups(working: Working, stratum: Stratum) -> Iterator[pa.Table]:
    """The groups with all rounds at which they have entries."""
    for m in dict.fromkeys((stratum.group, *stratum.bags)):
        for table in working.now(m.name).scan():
            yield table.select(stratum.group.columns)


def at_round(table: pa.Table, at: str, rounds: Ints) -> pa.Table:
    """The table with other rounds."""
    place = table.schema.get_field_index(at)
    return table.set_column(place, at, pa.array(rounds.astype(np.int64)))


@lru_cache(maxsize=1024)
def searched_by_all(m: Map, names: tuple[str, ...]) -> Map:
    """The map as it is searched here: by group and round."""
    return replace(m, lookup=names, kind="change")


def arranged(m: Map, names: list[str], tables: list[pa.Table], runs: Overlay) -> Arrangement:
    """Entries added up, as something to look up; what is there no times leaves its rounding error behind."""
    spec = spec_of(searched_by_all(m, tuple(names)))
    if not tables:
        return Arrangement(spec, (), runs)
    table = pa.concat_tables(
        [t.drop_columns([c for c in (INDEX, "_h") if c in t.column_names]) for t in tables]
    )
    table = table.add_column(0, "_h", hashed(table, names))
    entries = total(spec, prepared(spec, table))
    entries = entries.filter(pc.not_equal(entries.column(spec.count), 0))
    refs = [runs.keep(entries, (0, 0))] if entries.num_rows else []
    return Arrangement(spec, refs, runs)


def _different(d: Distinct, group: Map, made: Mapping[str, Arrangement]) -> pa.Table:
    """What the different values of bags say to their groups."""
    bag = made[d.map.name]
    found = bag.collected(bag.refs, LEAST, MOST)
    none = pa.table({"r0": zeros(pa.int64(), found.num_rows)})
    return passed_on(d, group, Touched(found.select(d.map.columns), none, found.select(["r0"])))


def _later(keys: pa.Table, ahead: list[pa.Table], moved: Any) -> pa.Table:
    """The later rounds of groups that have moved."""
    tables = [keys.slice(0, 0)]
    for t in ahead:
        if moved is not None:
            t = t.filter(pa.array(moved[np.asarray(column(t, INDEX))]))
        tables.append(t.drop_columns([INDEX]).cast(keys.schema))
    return pa.concat_tables(tables)


def _with_maps(stratum: Stratum, maps: dict[str, Map]) -> Stratum:
    """The stratum over maps that are searched by group and round, whose rows are told as those of any other."""
    return replace(
        stratum,
        group=maps[stratum.group.name],
        from_bags=tuple(replace(b, map=maps[b.map.name]) for b in stratum.from_bags),
        ranked=stratum.ranked and replace(stratum.ranked, map=maps[stratum.ranked.map.name]),
        always=False,
    )
