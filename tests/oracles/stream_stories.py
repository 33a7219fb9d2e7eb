"""Stories of streams: sources with disorder, deletions of rows that wait, punctuations by time and by key; and what is meant.

`ready_by_definition` says row by row which rows are ready, from the definition: everything that a row depends on, and that
stands before it, is closed and ready. The stream that a database has told at any time is the open meaning of the pipeline
over these rows in order; when everything is over, the closed one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import headwater as hw
from headwater.streams.order import depends
from headwater.streams.schema import Bag, Event, Header, Par, PartitionBy, Schema, Sync, headers_of

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def at(minutes: int) -> datetime:
    """A time, by minutes since the first hour."""
    return BEGIN + timedelta(minutes=minutes)


def minute(t: datetime) -> int:
    """The minutes of a time."""
    return int((t - BEGIN).total_seconds() // 60)


@dataclass
class Closed:
    """What is closed of a header: up to a minute (not included), for all rows and for some keys."""

    upto: int = 0
    by_key: dict[int, int] = field(default_factory=dict)
    over: bool = False

    def covers(self, key: Any, before: int) -> bool:
        """Whether all rows of a key below a minute are closed; of no key, those of all."""
        if self.over or before <= self.upto:
            return True
        return key is not None and before <= self.by_key.get(key, 0)


def depth(schema: Schema, header: str) -> int:
    """How many marks are around a header."""
    match schema:
        case Bag():
            return 0
        case Sync(headers, sub):
            return 0 if header in headers else 1 + depth(sub, header)
        case PartitionBy(_, sub):
            return depth(sub, header)
        case Par(parts):
            return next(depth(p, header) for p in parts if header in headers_of(p))


def in_order(
    schema: Schema, clocks: Sequence[str], events: Sequence[Event]
) -> list[tuple[Any, Event]]:
    """Events with what they are ordered by: their time, outer marks first, clocks first, then by name and row."""

    def place(e: Event) -> Any:
        return (e.row.ts, depth(schema, e.header), e.header not in clocks, e.header, tuple(e.row))

    return sorted(((place(e), e) for e in events), key=lambda p: p[0])


def ready_by_definition(
    schema: Schema,
    headers: Mapping[str, Header],
    clocks: Sequence[str],
    events: Sequence[Event],
    closed: Mapping[str, Closed],
) -> list[Event]:
    """The events that are ready, in order."""
    ordered = in_order(schema, clocks, events)
    rank = {
        h: i
        for i, h in enumerate(
            sorted(headers_of(schema), key=lambda h: (depth(schema, h), h not in clocks, h))
        )
    }
    ready: list[Event] = []
    waits: list[tuple[Any, Event]] = []
    for where, x in ordered:
        own = x.header in clocks or closed[x.header].covers(
            getattr(x.row, "k", None), minute(x.row.ts) + 1
        )
        fine = own  # one that may still be deleted waits
        for g in headers_of(schema):
            keys = depends(schema, x.header, g)
            if keys is None or g in clocks:
                continue
            key = getattr(x.row, keys[0]) if keys else None
            before = minute(x.row.ts) + (1 if rank[g] <= rank[x.header] else 0)
            fine = fine and closed[g].covers(key, before)
        for place, y in waits:
            keys = depends(schema, x.header, y.header)
            if keys is None or any(getattr(x.row, k) != getattr(y.row, k) for k in keys):
                continue
            tied = place[0] == where[0] and rank[y.header] <= rank[x.header]
            if place[0] < where[0] or tied:
                fine = False
        if fine:
            ready.append(x)
        else:
            waits.append((where, x))
    return ready


@dataclass
class Story:
    """Rows that come, go and are closed, as a database and as lists."""

    pick: Random
    sources: Mapping[str, Header]
    db: Any
    rows: dict[str, list[Any]] = field(default_factory=dict)
    """The rows that are there."""
    closed: dict[str, Closed] = field(default_factory=dict)
    now: int = 0

    def __post_init__(self) -> None:
        for name in self.sources:
            self.rows[name], self.closed[name] = [], Closed()

    def random_row(self, name: str) -> Any:
        """A row that is not late: behind what is closed for it."""
        header = self.sources[name]
        key = self.pick.randrange(3)
        c = self.closed[name]
        low = max(c.upto, c.by_key.get(key, 0)) if "k" in header.columns else c.upto
        cells = {"k": key, "ts": at(low + self.pick.randrange(200)), "x": self.pick.randrange(6)}
        return header.row(*(cells[n] for n in header.columns))

    def step(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """One increment: rows that come, some that go, and what is closed then; given to nobody yet."""
        changes: dict[str, Any] = {}
        points: dict[str, Any] = {}
        for name in self.sources:
            inserts = [self.random_row(name) for _ in range(self.pick.randrange(6))]
            open_rows = [r for r in self.rows[name] if not self._is_closed(name, r)]
            deletes = self.pick.sample(open_rows, min(len(open_rows), self.pick.randrange(2)))
            for r in deletes:
                self.rows[name].remove(r)
            self.rows[name] += inserts
            if inserts or deletes:
                changes[name] = hw.Delta(
                    inserts=[tuple(r) for r in inserts], deletes=[tuple(r) for r in deletes]
                )
        for name, header in self.sources.items():
            what = self.pick.random()
            c = self.closed[name]
            if what < 0.5:
                c.upto += self.pick.randrange(90)
                points[name] = hw.closed(ts=hw.below(at(c.upto)))
            elif what < 0.75 and "k" in header.columns:
                key = self.pick.randrange(3)
                c.by_key[key] = max(c.by_key.get(key, 0), c.upto) + self.pick.randrange(120)
                points[name] = hw.closed(k=key, ts=hw.below(at(c.by_key[key])))
        return changes, points

    def end(self) -> dict[str, Any]:
        """Everything is over."""
        for c in self.closed.values():
            c.over = True
        return {name: hw.closed() for name in self.sources}

    def _is_closed(self, name: str, row: Any) -> bool:
        key = row.k if "k" in self.sources[name].columns else None
        return self.closed[name].covers(key, minute(row.ts) + 1)

    def events(self) -> list[Event]:
        """The rows that are there, as events."""
        return [Event(name, row) for name, rows in self.rows.items() for row in rows]

    def strikes(self, upto: int) -> list[datetime]:
        """The times at which a clock of an hour strikes, behind the first row and up to a minute."""
        times = [minute(e.row.ts) for e in self.events()]
        if not times:
            return []
        first = min(times) // 60 + 1
        return [at(60 * h) for h in range(first, upto // 60 + 1)]
