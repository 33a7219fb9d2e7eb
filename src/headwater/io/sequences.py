"""Sequences: which of two events of a key is the newer one, whatever the order in which they come.

    an event is *stale* if it is older than what is known of its key; what is known is that of the newest event

Of a row that is there its sequence is one of its columns, or remembered; of a key that was deleted it is remembered, until
that is forgotten. What is remembered is a map from keys to sequences, beside the maps of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.patterns import Punctuations
from headwater.calculus.types import (
    BIGINT,
    DATE,
    INT,
    INTEGER,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Base,
    KeyType,
    RecordType,
)
from headwater.engine.here.statements import changes_of
from headwater.engine.membership import matching
from headwater.engine.probing import entries_at
from headwater.engine.rings import spec_of
from headwater.engine.working import Working
from headwater.errors import BadChange
from headwater.io.events import ERROR, GONE, REPLACE, ByKey
from headwater.language.schema import columns
from headwater.plan.program import WEIGHT, Map
from headwater.state.arrangement import INDEX, Arrangement
from headwater.state.hashing import places
from headwater.state.run import column

SEQUENCES = "sequence:"
"""How the names of the maps of sequences begin."""
AT = "s"
"""The column of such a map that has the sequence."""
Ints = np.ndarray[Any, np.dtype[np.int64]]


def in_order(t: KeyType) -> bool:
    """Whether values of a type can be a sequence."""
    plain = TINYINT, SMALLINT, INTEGER, BIGINT, DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING
    return t in plain or (isinstance(t, Base) and t.name == "decimal")


def by_key(row: RecordType, key: tuple[str, ...], sequence_by: str, on_conflict: str) -> ByKey:
    """How a source takes rows by key, from what was said of it."""
    if not key:
        return ByKey()
    low = {n.lower(): n for n, _ in row.fields}
    name, beside = low.get(sequence_by.lower(), ""), None
    if sequence_by and not name:
        ((name, beside),) = columns(sequence_by).fields
    return ByKey(key, on_conflict or (REPLACE if name else ERROR), name, beside)


def sequence_map(source: str, row: RecordType, by: ByKey) -> Map:
    """The map of what is remembered of keys."""
    types = dict(by.given(row).fields)
    keys = tuple((f"k{i}", types[n]) for i, n in enumerate(by.key))
    names = tuple(n for n, _ in keys)
    note = f"the sequences of keys of {source}"
    cells = (*keys, (AT, types[by.sequence]))
    return Map(f"{SEQUENCES}{source}", note, cells, (("r0", INT),), names, names, note=note)


@dataclass(frozen=True)
class Sequences:
    """What is known of the keys of a change: what is remembered, and which event of each counts."""

    kept: Map
    by: ByKey
    keys: pa.Table
    remembered: pa.Table
    working: Working

    @staticmethod
    def at(
        kept: Map,
        by: ByKey,
        keys: pa.Table,
        working: Working,
        forgotten: Punctuations | None = None,
    ) -> Sequences:
        """What is remembered of some keys; what is forgotten may be there still, in part, until runs are rewritten."""
        working.know(spec_of(kept))
        found = entries_at(working.before(kept.name), keys)
        if forgotten:
            found = found.filter(pa.array(~matching(forgotten, found)))
        return Sequences(kept, by, keys, found, working)

    def stale(self, name: str, events: pa.Table, place: Ints, old: pa.Table) -> Ints:
        """Which events are older than what is known of their key, as it is in the old rows or remembered."""
        s = column(events, self.by.sequence)
        if s.null_count:
            (row,) = events.filter(s.is_null()).slice(0, 1).select(list(self.by.key)).to_pylist()
            shown = ", ".join(f"{n}={v!r}" for n, v in row.items())
            raise BadChange(
                f"a row of `{name}` has no `{self.by.sequence}`, which orders its events: {shown}",
                hint="give every row and every deletion its sequence",
            )
        at = np.full(self.keys.num_rows, -1, np.int64)
        found = np.asarray(column(self.remembered, INDEX))
        at[found] = np.arange(len(found))
        values = column(self.remembered, AT)
        if self.by.beside is None:
            names = list(self.by.key)
            mine = places([column(self.keys, n) for n in names], [column(old, n) for n in names])
            at[mine] = np.arange(len(found), len(found) + len(mine))
            values = pa.concat_arrays([values, column(old, self.by.sequence).cast(values.type)])
        known = values.take(pa.array(at, mask=at < 0)).take(pa.array(place))
        return np.asarray(pc.fill_null(pc.less(s.cast(values.type), known), False))

    def oldest_first(self, events: pa.Table) -> pa.Table:
        """Events in their order; where two have the same sequence, as they were given."""
        return events.take(pc.sort_indices(column(events, self.by.sequence)))

    def remember(self, last: pa.Table) -> None:
        """Writes down the sequences of the last events of keys: of those that are gone, or of all where rows do not say it."""
        names = list(self.by.key)
        touched = places(
            [column(last, n) for n in names],
            [column(self.remembered, n) for n in self.kept.lookup],
        )
        was = self.remembered.filter(pa.array(touched >= 0))
        if self.by.beside is None:
            last = last.filter(pc.equal(column(last, WEIGHT), GONE))
        write(
            self.working,
            self.kept,
            was.select([*self.kept.columns, "r0"]),
            last.select([*names, self.by.sequence]),
        )


def write(working: Working, kept: Map, was: pa.Table, now: pa.Table) -> None:
    """Takes entries of the map away, and adds others, among what the increment writes."""
    types = working.spec(kept.name).schema
    arrays = []
    for n, given in zip(kept.columns, now.column_names, strict=True):
        t = types.field(n).type
        arrays.append(pa.concat_arrays([column(was, n).cast(t), column(now, given).cast(t)]))
    counts = np.concatenate([-np.asarray(column(was, "r0")), np.ones(now.num_rows, np.int64)])
    table = pa.table([*arrays, pa.array(counts)], [*kept.columns, "r0"])
    if table.num_rows:
        entries = changes_of(kept, table)
        made = Arrangement(working.spec(kept.name), (), working.runs)
        working.add(kept.name, made.merge(entries, blind=True)[0])
