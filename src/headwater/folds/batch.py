"""Batches: rows that a transformer is given in one run, by header, each with its place and its instance.

A *place* is where a row stands in the stretch of the stream that is run: rows of one batch are in order by it. An
*instance* is one of the streams that a transformer is run over at once: a frame, a key, or both; the root has one. Rows are
a table or tuples, whichever they were made as, and become the other when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.types import RecordType
from headwater.dataflow.rows import values_of
from headwater.engine.change import schema_of
from headwater.io.values import converted
from headwater.plan.program import WEIGHT
from headwater.state.keys import Ints, canonical
from headwater.state.run import column
from headwater.streams.schema import Event, Header

Key = tuple[Any, ...]


class Rows:
    """Rows of one header with their places and instances."""

    def __init__(
        self,
        header: Header,
        place: Ints,
        of: Ints,
        *,
        table: pa.Table | None = None,
        rows: Sequence[tuple[Any, ...]] | None = None,
    ):
        self.header, self.place, self.of = header, place, of
        self._table, self._rows = table, rows

    def __len__(self) -> int:
        return len(self.place)

    @property
    def rows(self) -> Sequence[tuple[Any, ...]]:
        """Them as named tuples."""
        if self._rows is None:
            assert self._table is not None
            columns = [values_of(self._table.column(n)) for n in self.header.columns]
            made: Any = self.header.row
            # What a named tuple's own constructor does, without a call of Python for each row.
            self._rows = list(map(tuple.__new__, repeat(made), zip(*columns, strict=True)))
            if not columns:
                self._rows = [made()] * len(self)
        return self._rows

    @property
    def events(self) -> list[Event]:
        """Them as items of a stream."""
        pairs = zip(repeat(self.header.name), self.rows)
        return list(map(tuple.__new__, repeat(Event), pairs))

    def take(self, at: Ints, of: Ints) -> Rows:
        """Some of them, in another order perhaps, of other instances."""
        table = None if self._table is None else self._table.take(pa.array(at))
        rows = None if self._rows is None else [self._rows[i] for i in at.tolist()]
        return Rows(self.header, self.place[at], of, table=table, rows=rows)

    def with_instances(self, of: Ints) -> Rows:
        """The same rows of other instances."""
        return Rows(self.header, self.place, of, table=self._table, rows=self._rows)

    def placed(self, place: Ints) -> Rows:
        """The same rows at other places."""
        return Rows(self.header, place, self.of, table=self._table, rows=self._rows)

    @property
    def in_columns(self) -> bool:
        """Whether they are a table."""
        return self._table is not None

    @property
    def known(self) -> pa.Table:
        """The table that they are."""
        assert self._table is not None
        return self._table

    def table(self, zone: str) -> pa.Table:
        """Them as a table."""
        if self._table is None:
            self._table = table_of(self.header, self.rows, zone)
        return self._table

    def keys(self, names: Sequence[str]) -> tuple[Ints, list[Key]]:
        """The different keys of the rows, and which of them each row has."""
        if self._table is not None and self._rows is None:
            return _keys_of_table(self._table, names)
        places = self.header.places(names)
        numbers: dict[Key, int] = {}
        codes = np.empty(len(self), np.int64)
        for i, row in enumerate(self.rows):
            key = tuple(row[p] for p in places)
            codes[i] = numbers.setdefault(key, len(numbers))
        return codes, list(numbers)


def _keys_of_table(table: pa.Table, names: Sequence[str]) -> tuple[Ints, list[Key]]:
    codes = np.zeros(table.num_rows, np.int64)
    for n in names:
        encoded = pc.dictionary_encode(canonical(column(table, n)), null_encoding="encode")
        part = np.asarray(encoded.indices.cast(pa.int64()))
        codes = codes * (int(part.max(initial=0)) + 1) + part
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    chosen = table.select(list(names)).take(pa.array(first))
    cells = [values_of(chosen.column(n)) for n in names]
    return codes.astype(np.int64), list(zip(*cells, strict=True)) if cells else [()] * len(first)


Batch = Mapping[str, Rows]


def row_type(header: Header) -> RecordType:
    """The columns of a header as the engine has them."""
    return RecordType(tuple(header.fields))


def table_of(header: Header, rows: Sequence[tuple[Any, ...]], zone: str) -> pa.Table:
    """Tuples of a header as a table."""
    # Turning rows into columns at once is slower by far.
    given = {c: list(map(itemgetter(i), rows)) for i, c in enumerate(header.columns)}
    made = converted(header.name, row_type(header), given, zone, False)
    schema = schema_of(row_type(header))
    return made.cast(pa.schema([f for f in schema if f.name != WEIGHT]))


class Told:
    """What is told in a run: items with their places and instances, in the order in which they were told.

    Items with the same place stand by their *turn*: what is inside of a frame is told before its mark is, so that whoever
    takes over what was told below has a later turn than all of it; and those with one turn stand as they were told.
    """

    def __init__(self) -> None:
        self.place: list[int] = []
        self.of: list[int] = []
        self.turns: list[int] = []
        self.events: list[Event] = []
        self.rows: list[tuple[Rows, Ints]] = []
        """What is told in columns, with turns."""
        self.turn = 0

    def add(self, place: int, of: int, events: Iterable[Event]) -> None:
        """Items that are told at a place."""
        for e in events:
            self.place.append(place)
            self.of.append(of)
            self.turns.append(self.turn)
            self.events.append(e)

    def add_rows(self, rows: Rows) -> None:
        """Rows in columns; those of one call stand before those of the next at the same place."""
        if len(rows):
            self.rows.append((rows, np.full(len(rows), self.turn, np.int64)))
            self.turn += 1

    def take(self, other: Told, instances: Ints | None) -> None:
        """What was told below, of the instances that those below belong to."""
        self.place += other.place
        self.events += other.events
        self.turns += other.turns
        of = other.of
        if instances is not None and of:
            of = instances[np.array(of, np.int64)].tolist()
        self.of += of
        for r, turns in other.rows:
            mine = r if instances is None else r.with_instances(instances[r.of])
            self.rows.append((mine, turns))
        self.turn = max(self.turn, other.turn + 1)

    def take_after(self, other: Told, places: Ints, ends: Ints) -> None:
        """What a second step told of what the first one told: each at the place of the first, in the order of the second."""
        rank, _ = other._ranked()
        size = len(other.events)
        if size:
            was = np.array(other.place, np.int64)
            of = np.array(other.of, np.int64)
            self.place += _mapped(was, of, places, ends).tolist()
            self.of += other.of
            self.turns += (self.turn + rank[:size]).tolist()
            self.events += other.events
        start = size
        for r, _ in other.rows:
            turns = self.turn + rank[start : start + len(r)]
            self.rows.append((r.placed(_mapped(r.place, r.of, places, ends)), turns))
            start += len(r)
        self.turn += len(rank) + 1

    def _ranked(self) -> tuple[Ints, Ints]:
        """Where each item stands among all, those in columns last; and their places in order."""
        places = [np.array(self.place, np.int64), *(r.place for r, _ in self.rows)]
        turns = [np.array(self.turns, np.int64), *(t for _, t in self.rows)]
        place = np.concatenate(places)
        order = np.lexsort((np.concatenate(turns), place))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank, place[order]

    def in_order(self, headers: Mapping[str, Header]) -> tuple[dict[str, Rows], Ints]:
        """What was told as a batch, whose places are numbers from 0 on; and the places that these were."""
        rank, places = self._ranked()
        parts: dict[str, list[Rows]] = {}
        at: dict[str, list[int]] = {}
        for i, e in enumerate(self.events):
            at.setdefault(e[0], []).append(i)
        of = np.array(self.of, np.int64)
        for name, found in at.items():
            mine = np.array(found, np.int64)
            rows = [self.events[i][1] for i in found]
            parts.setdefault(name, []).append(Rows(headers[name], rank[mine], of[mine], rows=rows))
        start = len(self.events)
        for r, _ in self.rows:
            new = rank[start : start + len(r)]
            parts.setdefault(r.header.name, []).append(r.placed(new))
            start += len(r)
        return {name: joined(found) for name, found in parts.items()}, places


def _mapped(was: Ints, of: Ints, places: Ints, ends: Ints) -> Ints:
    """Places of a second step as those of the first; behind all of them an instance has ended."""
    out = ends[of]
    inside = was < len(places)
    out[inside] = places[was[inside]]
    return out


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of one header as one, by place."""
    if len(parts) == 1 and (np.diff(parts[0].place) > 0).all():
        return parts[0]
    header = parts[0].header
    place, of = np.concatenate([p.place for p in parts]), np.concatenate([p.of for p in parts])
    if all(p.in_columns for p in parts):
        made = Rows(header, place, of, table=pa.concat_tables([p.known for p in parts]))
    else:
        made = Rows(header, place, of, rows=[r for p in parts for r in p.rows])
    order = np.argsort(place, kind="stable")
    return made.take(order, of[order])


def batch_of(
    events: Sequence[Event], of: Sequence[int], headers: Mapping[str, Header]
) -> dict[str, Rows]:
    """Items in order as a batch, whose places are their numbers."""
    at: dict[str, list[int]] = {}
    for i, e in enumerate(events):
        at.setdefault(e[0], []).append(i)
    instances = np.array(of, np.int64)
    out = {}
    for name, found in at.items():
        place = np.array(found, np.int64)
        rows = [events[i][1] for i in found]
        out[name] = Rows(headers[name], place, instances[place], rows=rows)
    return out
