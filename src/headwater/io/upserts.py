"""Changes by key become rows with weights: what has the key now goes, and the last row given for it comes.

    after = the rows before and the rows with weights of the same change, at each key replaced by the last event of it

Old rows are looked up by key, so the cost is that of the change. An upsert of a row that is there as it is cancels out. A row
of a nested source goes with all rows of its arrays; one of an array that has a key is found among the rows of its owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.patterns import Punctuations
from headwater.engine.change import Change
from headwater.engine.here.equal_rows import consolidated, different_rows
from headwater.engine.here.statements import fields_of
from headwater.engine.ledgers import outside
from headwater.engine.membership import matching
from headwater.engine.probing import entries_at
from headwater.engine.slices import whole
from headwater.engine.working import Working
from headwater.errors import DeletesMissingRows, KeyConflict
from headwater.io.events import ERROR, GONE, NEW, REPLACE, ByKey
from headwater.io.owners import taken_apart
from headwater.io.sequences import Sequences
from headwater.plan.nested.sources import SourcePart
from headwater.plan.program import WEIGHT, Map
from headwater.state.hashing import places
from headwater.state.run import column

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Latest:
    """What events say of each key in the end: different keys, and the number of the last event of each."""

    keys: pa.Table
    place: Ints
    """The key of each event, by its number."""
    last: Ints

    @staticmethod
    def of(events: pa.Table, key: Sequence[str]) -> Latest:
        """The last of the events of each key."""
        given = events.select(list(key))
        keys = different_rows(given)
        place = places([column(keys, n) for n in key], [column(given, n) for n in key])
        last = np.zeros(keys.num_rows, np.int64)
        np.maximum.at(last, place, np.arange(events.num_rows))
        return Latest(keys, place, last)

    def there_before(self, events: pa.Table, there: Bools) -> Bools:
        """Whether the key of each event is there when it comes: after any but a deletion it is."""
        gone = np.asarray(column(events, WEIGHT)) == GONE
        order = np.argsort(self.place, kind="stable")
        first = np.ones(len(order), np.bool_)
        first[1:] = self.place[order[1:]] != self.place[order[:-1]]
        before = np.empty(len(order), np.bool_)
        before[1:] = ~gone[order[:-1]]
        before[first] = there[self.place[order[first]]]
        out = np.empty(len(order), np.bool_)
        out[order] = before
        return out


@dataclass(frozen=True)
class Replaced:
    """What became of changes by key: rows with weights by relation, what was left out as it had no effect, and what was stale."""

    changes: dict[str, Change]
    ignored: int = 0
    stale: int = 0


@dataclass(frozen=True)
class Upserting:
    """A source while changes by key become rows with weights: its relations, their maps, and what else the change has."""

    parts: Sequence[SourcePart]
    maps: Mapping[str, Map]
    staged: Mapping[str, Change]
    working: Working
    root: Path
    strict: bool
    by: ByKey
    sequences: Map | None = None
    """The map of sequences, where events have any."""
    late: Punctuations | None = None
    """What is over, where rows that come too late are left out."""
    forgotten: Punctuations | None = None
    """Which sequences are remembered no more, as nothing older can come."""

    def rows(self, number: int, by_key: Change) -> Replaced:
        """Events of a relation as changes of it and of the arrays inside."""
        part, events = self.parts[number], whole(by_key, self.root, self.working)
        for k in part.key:
            if column(events, k).null_count:
                raise KeyConflict(
                    f"a row of `{part.name}` has no `{k}`, which is part of its key",
                    hint="give every row its key",
                )
        latest = Latest.of(events, part.key)
        old = self._old(number, latest.keys)
        known, stale = None, 0
        if self.sequences is not None:
            known = Sequences.at(self.sequences, self.by, latest.keys, self.working, self.forgotten)
            behind = known.stale(part.name, events, latest.place, old[part.name])
            stale = int(behind.sum())
            events = known.oldest_first(events.filter(pa.array(~behind)))
            latest = Latest.of(events, part.key)
            if stale:
                old = self._old(number, latest.keys)
        in_vain = self._in_vain(part, events, latest, old[part.name])
        if in_vain.any():
            events = events.filter(pa.array(~in_vain))
            latest = Latest.of(events, part.key)
            old = self._old(number, latest.keys)
        last = events.take(pa.array(np.sort(latest.last)))
        if self.late is not None:
            last, old[part.name] = self._late(part, last, old[part.name])
        coming = last.filter(pc.not_equal(column(last, WEIGHT), GONE))
        coming = _weighed(coming, pa.array(np.ones(coming.num_rows, np.int64)))
        new = {part.name: coming}
        if len(self.parts) > 1:
            new = taken_apart(self.parts, number, coming)
        if known is not None:
            known.remember(last.filter(pa.array(~self._comes_late(last))))
        out = {n: Change.of(_changed(t, new[n])) for n, t in old.items()}
        return Replaced(out, int(in_vain.sum()), stale)

    def _in_vain(self, part: SourcePart, events: pa.Table, latest: Latest, old: pa.Table) -> Bools:
        """The events without effect: deletions of keys that are not there, and inserts of keys that are; refused unless they may be.

        Events with a sequence may come in any order, so that a deletion may come before the row.
        """
        there = np.zeros(latest.keys.num_rows, np.bool_)
        there[_places(latest.keys, old, part.key)] = True
        before = latest.there_before(events, there)
        codes = np.asarray(column(events, WEIGHT))
        missing = (codes == GONE) & ~before & (self.sequences is None)
        if self.strict and missing.any():
            raise _not_there(part, events.filter(pa.array(missing)))
        twice = (codes == NEW) & before & (self.by.conflict != REPLACE)
        if self.by.conflict == ERROR and twice.any():
            raise KeyConflict(
                f"`{part.name}` has a row with the key {_key(part, events.filter(pa.array(twice)))} already",
                hint="upsert it, or declare the source with on_conflict='replace' or 'ignore'",
            )
        without_effect: Bools = missing | twice
        return without_effect

    def _late(self, part: SourcePart, last: pa.Table, old: pa.Table) -> tuple[pa.Table, pa.Table]:
        """What is left of events of keys whose old or new row is over: that row alone, which is late, so that the key stays as it is."""
        assert self.late is not None
        comes, goes = self._comes_late(last), matching(self.late, old)
        if not comes.any() and not goes.any():
            return last, old
        mine = _places(last, old, part.key)
        stays = np.zeros(last.num_rows, np.bool_)
        stays[mine[goes]] = True
        return last.filter(pa.array(comes | ~stays)), old.filter(pa.array(goes | ~comes[mine]))

    def _comes_late(self, events: pa.Table) -> Bools:
        """Which events have a row that is over."""
        if self.late is None:
            return np.zeros(events.num_rows, np.bool_)
        late: Bools = matching(self.late, events) & (np.asarray(column(events, WEIGHT)) != GONE)
        return late

    def _old(self, number: int, keys: pa.Table) -> dict[str, pa.Table]:
        """The rows that there are at keys, and those of their arrays, by relation."""
        part = self.parts[number]
        if part.owner is None:
            found = self._at(part, keys)
        else:  # rows of arrays are kept by their owner
            among = self._at(part, different_rows(keys.select(list(part.label))))
            found = among.filter(pa.array(_places(keys, among, part.key) >= 0))
        out = {part.name: found}
        self._inside(number, keys, out)
        return out

    def _inside(self, number: int, keys: pa.Table, out: dict[str, pa.Table]) -> None:
        for child in self.parts[number].marks:
            part = self.parts[child]
            out[part.name] = self._at(part, keys.rename_columns(list(part.label)))
            if part.key:
                self._inside(child, out[part.name].select(list(part.key)), out)

    def _at(self, part: SourcePart, labels: pa.Table) -> pa.Table:
        """The rows of a relation at keys, or of owners, with what the change does to them by weights."""
        kept = self.maps[part.name]
        found = entries_at(self.working.before(kept.name), labels)
        found = outside(self.working.hidden.get(part.name), found)
        names = [*fields_of(kept), WEIGHT]
        rows = found.select([*kept.columns, "r0"]).rename_columns(names)
        beside = self.staged.get(part.name)
        if beside is not None and beside.rows:
            more = whole(beside, self.root, self.working)
            mine = more.filter(pa.array(_places(labels, more, labels.column_names) >= 0))
            rows = consolidated(pa.concat_tables([rows, mine.select(names).cast(rows.schema)]))
        return rows.filter(pc.greater(column(rows, WEIGHT), 0))


def _places(keys: pa.Table, rows: pa.Table, names: Sequence[str]) -> Ints:
    """Which of different keys rows have; -1 for none."""
    return places([column(keys, n) for n in names], [column(rows, n) for n in names])


def _weighed(rows: pa.Table, weights: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(WEIGHT), WEIGHT, weights)


def _changed(old: pa.Table, new: pa.Table) -> pa.Table:
    """Old rows with negative weights, and new ones."""
    gone = _weighed(old, pc.negate(column(old, WEIGHT)))
    return pa.concat_tables([gone, new.select(old.column_names)])


def _key(part: SourcePart, events: pa.Table) -> str:
    values = events.slice(0, 1).select(list(part.key)).to_pylist()[0]
    return ", ".join(f"{n}={v!r}" for n, v in values.items())


def _not_there(part: SourcePart, events: pa.Table) -> DeletesMissingRows:
    count = events.num_rows
    keys = "1 key to delete from" if count == 1 else f"{count} keys to delete from"
    there = "is not there:" if count == 1 else "are not there, such as"
    return DeletesMissingRows(
        f"{keys} `{part.name}` {there} {_key(part, events)}",
        hint="leave them out, or declare the source with strict=False",
    )
