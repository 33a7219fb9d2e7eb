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

from headwater.engine.change import Change
from headwater.engine.here.equal_rows import consolidated, different_rows
from headwater.engine.here.statements import fields_of
from headwater.engine.ledgers import outside
from headwater.engine.probing import entries_at
from headwater.engine.slices import whole
from headwater.engine.working import Working
from headwater.errors import DeletesMissingRows, KeyConflict
from headwater.io.owners import taken_apart
from headwater.plan.nested.sources import SourcePart
from headwater.plan.program import WEIGHT, Map
from headwater.state.hashing import places
from headwater.state.run import column

Ints = np.ndarray[Any, np.dtype[np.int64]]


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

    def in_vain(self, events: pa.Table, there: np.ndarray[Any, Any]) -> Ints:
        """The events that delete a key that is not there: before them, or behind another deletion."""
        gone = np.asarray(column(events, WEIGHT)) < 0
        order = np.argsort(self.place, kind="stable")
        first = np.ones(len(order), np.bool_)
        first[1:] = self.place[order[1:]] != self.place[order[:-1]]
        before = np.empty(len(order), np.bool_)
        before[1:] = ~gone[order[:-1]]
        before[first] = there[self.place[order[first]]]
        return np.sort(order[gone[order] & ~before])


@dataclass(frozen=True)
class Upserting:
    """A source while changes by key become rows with weights: its relations, their maps, and what else the change has."""

    parts: Sequence[SourcePart]
    maps: Mapping[str, Map]
    staged: Mapping[str, Change]
    working: Working
    root: Path
    strict: bool

    def rows(self, number: int, by_key: Change) -> tuple[dict[str, Change], int]:
        """Events of a relation as changes of it and of the arrays inside; and how many deletions were in vain."""
        part, events = self.parts[number], whole(by_key, self.root, self.working)
        for k in part.key:
            if column(events, k).null_count:
                raise KeyConflict(
                    f"a row of `{part.name}` has no `{k}`, which is part of its key",
                    hint="give every row its key",
                )
        latest = Latest.of(events, part.key)
        old: dict[str, pa.Table] = {}
        self._old(number, latest.keys, old)
        there = np.zeros(latest.keys.num_rows, np.bool_)
        mine = old[part.name]
        there[_places(latest.keys, mine, part.key)] = True
        vain = latest.in_vain(events, there)
        if self.strict and len(vain):
            raise _not_there(part, events.slice(int(vain[0]), 1), len(vain))
        coming = events.take(pa.array(np.sort(latest.last)))
        coming = coming.filter(pc.greater(column(coming, WEIGHT), 0))
        new = taken_apart(self.parts, number, coming) if self._nested else {part.name: coming}
        out = {n: Change.of(pa.concat_tables([_negated(t), new[n]])) for n, t in old.items()}
        return out, len(vain)

    @property
    def _nested(self) -> bool:
        return len(self.parts) > 1

    def _old(self, number: int, keys: pa.Table, out: dict[str, pa.Table]) -> None:
        """The rows that there are at keys, and those of their arrays, by relation."""
        part = self.parts[number]
        if part.owner is None:
            found = self._at(part, keys)
        else:  # rows of arrays are kept by their owner
            among = self._at(part, different_rows(keys.select(list(part.label))))
            found = among.filter(pa.array(_places(keys, among, part.key) >= 0))
        out[part.name] = found
        self._inside(number, keys, out)

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


def _negated(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index(WEIGHT)
    return rows.set_column(at, WEIGHT, pc.negate(column(rows, WEIGHT)))


def _not_there(part: SourcePart, event: pa.Table, count: int) -> DeletesMissingRows:
    (values,) = event.select(list(part.key)).to_pylist()
    said = ", ".join(f"{n}={v!r}" for n, v in values.items())
    keys = "1 key to delete from" if count == 1 else f"{count} keys to delete from"
    there = "is not there:" if count == 1 else "are not there, such as"
    return DeletesMissingRows(
        f"{keys} `{part.name}` {there} {said}",
        hint="leave them out, or declare the source with strict=False",
    )
