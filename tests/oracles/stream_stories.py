"""Stories of streams: sources with disorder, deletions of rows that wait, punctuations by time and by key; and what is meant.

`ready_by_definition` says row by row which rows are ready, from the definition: everything that a row depends on, and that
stands before it, is closed and ready. The stream that a database has told at any time is the open meaning of the pipeline
over these rows in order; when everything is over, the closed one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import headwater as hw
from headwater.calculus.types import BIGINT, DATE, DOUBLE, TIMESTAMP, Base
from headwater.streams.order import depends
from headwater.streams.schema import Bag, Event, Header, Par, PartitionBy, Schema, Sync, headers_of

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
NEVER = 1 << 40
FRAME = 60
"""How many minutes, days or numbers apart a clock of a story strikes."""


@dataclass(frozen=True)
class Timeline:
    """What rows are ordered by: a type, its values by number, and the interval of a clock."""

    type: Base
    at: Callable[[int], Any]
    number: Callable[[Any], int]
    interval: Any


_DAY = date(1970, 1, 1) + timedelta(days=330 * FRAME)
TIMELINES = {
    "times": Timeline(
        TIMESTAMP,
        lambda n: BEGIN + timedelta(minutes=n),
        lambda t: int((t - BEGIN).total_seconds() // 60),
        "1 hour",
    ),
    "dates": Timeline(
        DATE, lambda n: _DAY + timedelta(days=n), lambda t: (t - _DAY).days, f"{FRAME} days"
    ),
    "numbers": Timeline(BIGINT, lambda n: n, lambda t: int(t), FRAME),
    "doubles": Timeline(DOUBLE, lambda n: n / 1.0, lambda t: int(t), FRAME),
}


@dataclass
class Closed:
    """What is closed of a header: up to a minute (not included), for all rows and for some keys."""

    upto: int = -NEVER
    by_key: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    """Keys of which all rows are closed."""
    over: bool = False
    static: bool = False
    """Whether it was over from the beginning."""

    def covers(self, key: Any, before: int) -> bool:
        """Whether all rows of a key below a minute are closed; of no key, those of all."""
        if self.over or before <= self.upto or key in self.ended:
            return True
        return key is not None and before <= self.by_key.get(key, -NEVER)


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
        cells = tuple((c is not None, c) for c in e.row)  # NULL comes first
        return (e.row.ts, depth(schema, e.header), e.header not in clocks, e.header, cells)

    return sorted(((place(e), e) for e in events), key=lambda p: p[0])


def ready_by_definition(
    schema: Schema,
    headers: Mapping[str, Header],
    clocks: Sequence[str],
    events: Sequence[Event],
    closed: Mapping[str, Closed],
    number: Callable[[Any], int],
    lasting: Collection[str] = (),
    held: Collection[str] = (),
) -> list[Event]:
    """The events that are ready, in order; those of lasting headers are never deleted, those that are held wait."""
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
        now = number(x.row.ts)
        fine = x.header in clocks or x.header in lasting
        fine = fine or closed[x.header].covers(getattr(x.row, "k", None), now + 1)
        fine = fine and x.header not in held  # one that may still be deleted waits, too
        for g in headers_of(schema):
            keys = depends(schema, x.header, g)
            if keys is None or g in clocks:
                continue
            key = x.row.k if "k" in keys else None
            before = now + (1 if rank[g] <= rank[x.header] else 0)
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


def _common(closed: Mapping[str, Closed], headers: Collection[str]) -> int:
    """Up to where headers are closed."""
    return min(NEVER if closed[h].over else closed[h].upto for h in headers)


def settled(
    events: Sequence[Event], closed: Mapping[str, Closed], line: Timeline, lasting: Any
) -> bool:
    """Whether it is known behind which row clocks begin: the first that stays, if nothing comes in a frame before its own."""
    stay = [
        number
        for e in events
        if e.header in lasting
        or closed[e.header].covers(getattr(e.row, "k", None), line.number(e.row.ts) + 1)
        for number in [line.number(e.row.ts)]
    ]
    common = _common(closed, closed)
    return bool(stay) and (common > min(stay) or (common // FRAME + 1) * FRAME > min(stay))


def meant(
    query: Any,
    events: Sequence[Event],
    closed: Mapping[str, Closed],
    clocks: Sequence[str],
    line: Timeline,
    lasting: Collection[str] = (),
) -> Any:
    """The stream that is to be told of the events that are there: the open meaning of those that are ready, or the closed one."""
    schema = query.input
    events = [e for e in events if e.header in headers_of(schema)]
    used = {h: closed[h] for h in headers_of(schema) if h not in clocks}
    over = all(c.over for c in used.values())
    held: list[str] = []
    marks: list[Event] = []
    cut_by_any = {h for h in used for c in clocks if depends(schema, c, h) is not None}
    framed = [e for e in events if e.header in cut_by_any]
    if clocks and settled(framed, {h: used[h] for h in cut_by_any}, line, lasting):
        times = [line.number(e.row.ts) for e in framed]
        last = (max(times) // FRAME + 1) * FRAME
        for clock in clocks:
            cut = [h for h in used if depends(schema, clock, h) is not None]
            common = _common(used, cut)
            common = _common(used, used) if common == NEVER else common
            # When all is over the last frame is that of the last row, unless later ones were struck before.
            there = [line.number(e.row.ts) for e in events if e.header in cut]
            moving = [h for h in cut if not used[h].static] or [
                h for h in used if not used[h].static
            ]
            struck = min(used[h].upto for h in moving)
            upto = max(last, struck) if over else max([common, *there])
            strikes = range(min(times) // FRAME + 1, upto // FRAME + 1)
            row = query.headers[clock].row
            marks += [Event(clock, row(line.at(FRAME * n))) for n in strikes]
    elif clocks:
        held = [h for h in used if any(depends(schema, h, c) is not None for c in clocks)]
    ready = ready_by_definition(
        schema, query.headers, list(clocks), [*events, *marks], used, line.number, lasting, held
    )
    return query.run(ready) if over else query.so_far(ready)


@dataclass
class Story:
    """Rows that come, go and are closed, as a database and as lists."""

    pick: Random
    sources: Mapping[str, Header]
    line: Timeline = TIMELINES["times"]
    keyed: bool = True
    """Whether sources are closed by key, too."""
    append_only: Collection[str] = ()
    """Sources of which no row goes."""
    static: Collection[str] = ()
    """Sources that are there from the beginning, and over."""
    grain: int = 1
    """How far times are apart; few times make many ties."""
    rows: dict[str, list[Any]] = field(default_factory=dict)
    """The rows that are there."""
    closed: dict[str, Closed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.sources:
            self.rows[name], self.closed[name] = (
                [],
                Closed(over=name in self.static, static=name in self.static),
            )

    def random_row(self, name: str) -> Any:
        """A row that is not late: behind what is closed for it; None where all keys have ended."""
        header = self.sources[name]
        c = self.closed[name]
        keys = [k for k in range(3) if k not in c.ended or "k" not in header.columns]
        if not keys:
            return None
        key: int | None = self.pick.choice(keys)
        if not self.keyed and self.pick.random() < 0.1:
            key = None  # which is a key like any other
        by_key = c.by_key.get(key, 0) if key is not None and "k" in header.columns else 0
        low = max(c.upto, by_key, 0)
        number = low + self.pick.randrange(200)
        number = max(low, number // self.grain * self.grain)
        cells = {"k": key, "l": self.pick.randrange(2), "x": self.pick.randrange(6)}
        cells["ts"] = self.line.at(number)
        return header.row(*(cells[n] for n in header.columns))

    def first_rows(self) -> dict[str, Any]:
        """The rows of static sources."""
        for name in self.static:
            self.rows[name] = [self.random_row(name) for _ in range(8)]
        return {name: [tuple(r) for r in self.rows[name]] for name in self.static}

    def step(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """One increment: rows that come, some that go, and what is closed then; given to nobody yet."""
        changes: dict[str, Any] = {}
        points: dict[str, Any] = {}
        moving = [name for name in self.sources if name not in self.static]
        for name in moving:
            made = [self.random_row(name) for _ in range(self.pick.randrange(6))]
            inserts = [r for r in made if r is not None]
            open_rows = [r for r in self.rows[name] if not self._is_closed(name, r)]
            if name in self.append_only:
                open_rows = []
            deletes = self.pick.sample(open_rows, min(len(open_rows), self.pick.randrange(2)))
            for r in deletes:
                self.rows[name].remove(r)
            self.rows[name] += inserts
            if inserts or deletes:
                changes[name] = hw.Delta(
                    inserts=[tuple(r) for r in inserts], deletes=[tuple(r) for r in deletes]
                )
        for name in moving:
            what = self.pick.random()
            c = self.closed[name]
            if what < 0.5:
                c.upto = max(c.upto, 0) + self.pick.randrange(90) * (
                    4 if self.pick.random() < 0.1 else 1
                )
                points[name] = hw.closed(ts=hw.below(self.line.at(c.upto)))
            elif what < 0.75 and self.keyed and "k" in self.sources[name].columns:
                key = self.pick.randrange(3)
                c.by_key[key] = max(c.by_key.get(key, 0), c.upto, 0) + self.pick.randrange(120)
                points[name] = hw.closed(k=key, ts=hw.below(self.line.at(c.by_key[key])))
            elif what < 0.8 and self.keyed and "k" in self.sources[name].columns:
                key = self.pick.randrange(3)
                c.ended.add(key)
                points[name] = hw.closed(k=key)
        return changes, points

    def end(self) -> dict[str, Any]:
        """Everything is over."""
        for c in self.closed.values():
            c.over = True
        return {name: hw.closed() for name in self.sources if name not in self.static}

    def _is_closed(self, name: str, row: Any) -> bool:
        key = row.k if "k" in self.sources[name].columns else None
        return self.closed[name].covers(key, self.line.number(row.ts) + 1)

    def events(self) -> list[Event]:
        """The rows that are there, as events."""
        return [Event(name, row) for name, rows in self.rows.items() for row in rows]
