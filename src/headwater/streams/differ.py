"""The differ: whether two sequences of events are the same stream, and where they first cannot agree.

Two sequences are the same stream if one becomes the other by swapping neighbours that do not depend on each other. So an
event that stands *first* on both sides (nothing unmatched before it depends on it) cancels, and the streams are the same
exactly when everything cancels. What cancels against what is found by the shape of the schema, with no comparison of
pairs of events:

    Bag             counts of rows, left minus right
    Seq             a queue of the side that is ahead
    Sync            the frame that both are in, and a queue of the side that has left it
    PartitionBy     one of these for each key
    Par             one of these for each part

Kept is what is unmatched. A side is *closed* where it has gone on to a next mark, or is over: from then on, whatever the
other side has more can never be matched, and that is a `Difference`. It is told as soon as no continuation of the two
sequences could agree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, Protocol, TypeAlias

from headwater.errors import HeadwaterError
from headwater.streams.schema import (
    Bag,
    Event,
    Header,
    Headers,
    Par,
    PartitionBy,
    Schema,
    Sync,
    headers_of,
)
from headwater.streams.tables import events_of

Side: TypeAlias = Literal[0, 1]
LEFT: Side = 0
RIGHT: Side = 1
NAMES = ("left", "right")
PIECE = 4096
"""Events that are taken from one side before the other side is asked."""
NAN = float("nan")


@dataclass(frozen=True)
class Difference:
    """Where two streams first cannot agree: the frame (its last marks, outer first), the key, the header, and both rows.

    A side that has no row there has None: it lacks the row that the other one has.
    """

    header: str
    left: tuple[Any, ...] | None
    right: tuple[Any, ...] | None
    key: tuple[tuple[str, Any], ...] = ()
    frame: tuple[Event, ...] = ()
    other_header: str | None = None
    """The header of the right row, where it is another one: two marks of one sequence."""

    def __str__(self) -> str:
        where = (
            "from the start" if not self.frame else "after " + ", ".join(map(_event, self.frame))
        )
        key = ", ".join(f"{name} = {value!r}" for name, value in self.key)
        place = where + (f", at {key}" if key else "")
        right = (
            Event(self.other_header or self.header, self.right) if self.right is not None else None
        )
        left = Event(self.header, self.left) if self.left is not None else None
        told = (
            f"  left   {_event(left) if left else 'has no such row'}",
            f"  right  {_event(right) if right else 'has no such row'}",
        )
        return f"the streams differ in `{self.header}`, {place}:\n" + "\n".join(told)


def _event(event: Event) -> str:
    """An event as text: hour(1, 2), or with the names of its fields if its row has them."""
    row = event.row
    names = getattr(row, "_fields", None)
    inside = (f"{n}={v!r}" for n, v in zip(names, row, strict=True)) if names else map(repr, row)
    return f"{event.header}({', '.join(inside)})"


# --- the two ways to ask ----------------------------------------------------------------------------------


class Differ:
    """Two streams of one schema compared while they come: `left` and `right` take an event, or `lefts` and `rights` many.

    Each gives the first difference, if there is one by now. `end` says that both are over.
    """

    def __init__(self, schema: Schema, headers: Headers):
        self.schema, self.headers = schema, headers
        self.difference: Difference | None = None
        self._known = frozenset(headers_of(schema))
        self._keys = _keys(schema)
        self._plain = {name: _plain(headers[name]) for name in self._known}
        self._root = _node(schema, headers)

    def left(self, event: Event) -> Difference | None:
        """One more event of the left stream."""
        return self._take(LEFT, [event])

    def right(self, event: Event) -> Difference | None:
        """One more event of the right stream."""
        return self._take(RIGHT, [event])

    def lefts(self, events: Iterable[Event]) -> Difference | None:
        """More events of the left stream, in their order."""
        return self._take(LEFT, events)

    def rights(self, events: Iterable[Event]) -> Difference | None:
        """More events of the right stream, in their order."""
        return self._take(RIGHT, events)

    def end(self) -> Difference | None:
        """Both streams are over: what is unmatched now is a difference."""
        self.end_of(LEFT)
        return self.end_of(RIGHT)

    def end_of(self, side: Side) -> Difference | None:
        """One of the streams is over."""
        if self.difference is None:
            try:
                self._root.close(side)
            except _Found as found:
                self._tell(found)
        return self.difference

    def unmatched(self) -> int:
        """How many events are kept."""
        return self._root.unmatched()

    def _take(self, side: Side, events: Iterable[Event]) -> Difference | None:
        if self.difference is None:
            try:
                self._root.take(side, self._checked(events))
            except _Found as found:
                self._tell(found)
        return self.difference

    def _checked(self, events: Iterable[Event]) -> list[Event]:
        """The events as pairs that are equal if their rows are; rows with NaN have one NaN."""
        known, plain = self._known, self._plain
        checked = list(events)
        for i, event in enumerate(checked):
            if event[0] not in known:
                raise HeadwaterError(
                    f"header `{event[0]}` is not in the schema",
                    hint=f"headers of it: {', '.join(sorted(known))}",
                )
            floats = plain[event[0]]
            if floats and any(event[1][j] != event[1][j] for j in floats):
                row = tuple(NAN if x != x else x for x in event[1])
                names = type(event[1])
                named = names._make(row) if hasattr(names, "_make") else row
                checked[i] = Event(event[0], named)
        return checked

    def _tell(self, found: _Found) -> None:
        difference = found.difference
        row = difference.left if difference.left is not None else difference.right
        assert row is not None
        key = tuple(
            (name, row[self.headers[difference.header].columns.index(name)])
            for name in self._keys[difference.header]
        )
        self.difference = replace(difference, key=key, frame=tuple(reversed(found.marks)))


def differ(schema: Schema, headers: Headers, left: Any, right: Any) -> Difference | None:
    """Where two streams first differ, or None: they are the same stream.

    A stream is a sequence of events in one of its orders, or a mapping from each header to its rows where no order
    between headers is asked for. Both are read piece by piece, so that what is kept is what is unmatched: with a Sync
    at the top the rows of one frame.
    """
    both = Differ(schema, headers)
    sides = (events_of(schema, headers, left), events_of(schema, headers, right))
    open_sides: list[Side] = [LEFT, RIGHT]
    taken = [0, 0]
    while open_sides and both.difference is None:
        # The side that has told fewer frames goes on, so that neither runs ahead of the other.
        side = min(open_sides, key=lambda s: (both._root.ahead() == s, taken[s]))
        piece = list(islice(sides[side], PIECE))
        if piece:
            both._take(side, piece)
            taken[side] += len(piece)
        else:
            both.end_of(side)
            open_sides.remove(side)
    return both.difference


# --- what is unmatched, by the shape of the schema ---------------------------------------------------------


class _Found(Exception):
    """A difference on its way up, with the marks of the frames that it is in, inner first."""

    def __init__(self, difference: Difference):
        super().__init__()
        self.difference = difference
        self.marks: list[Event] = []


class _Node(Protocol):
    """The unmatched events of one sub-schema.

    - `take` has all events in the sub-schema's headers, in the order of their side;
    - `close` says that a side has no more; after it, that side takes nothing;
    - both raise `_Found` as soon as the two sides cannot agree any more.
    """

    def take(self, side: Side, events: list[Event]) -> None: ...

    def close(self, side: Side) -> None: ...

    def unmatched(self) -> int: ...

    def ahead(self) -> Side | None:
        """The side that has gone on to a later frame than the other one."""


def _node(schema: Schema, headers: Headers) -> _Node:
    """What keeps the unmatched events of a schema."""
    if not _ordered(schema):
        return _Counts()
    match schema:
        case Sync(marks, sub) if not headers_of(sub):
            return _Queue()
        case Sync(marks, sub):
            return _Frames(frozenset(marks), sub, headers)
        case PartitionBy(keys, sub):
            return _Keyed(keys, sub, headers)
        case Par(parts):
            return _Parts(parts, headers)
        case _:
            raise AssertionError(schema)


def _ordered(schema: Schema) -> bool:
    """Whether any two rows depend on each other; if not, a stream is a bag, whatever its schema looks like."""
    match schema:
        case Bag():
            return False
        case Sync(marks, sub):
            return bool(marks) or _ordered(sub)
        case PartitionBy(_, sub):
            return _ordered(sub)
        case Par(parts):
            return any(map(_ordered, parts))


class _Counts:
    """Bag: how often each row is on the left more than on the right."""

    def __init__(self) -> None:
        self.counts: dict[Event, int] = {}
        self.closed = [False, False]

    def take(self, side: Side, events: list[Event]) -> None:
        counts, more = self.counts, 1 if side == LEFT else -1
        get = counts.get
        for event in events:
            count = get(event, 0) + more
            if count:
                counts[event] = count
            else:
                del counts[event]
        if self.closed[1 - side]:
            for event in events:
                if get(event, 0) * more > 0:
                    self.differs(side, event)

    def close(self, side: Side) -> None:
        self.closed[side] = True
        fewer = 1 if side == RIGHT else -1
        for event, count in self.counts.items():
            if count * fewer > 0:
                self.differs(1 - side, event)  # type: ignore[arg-type]

    def differs(self, side: Side, event: Event) -> None:
        """A row that only one side has; beside it one that only the other has, of the same header, if there is one."""
        sign = 1 if side == LEFT else -1
        for other, count in self.counts.items():
            if count * sign < 0 and other[0] == event[0]:
                rows = (event[1], other[1]) if side == LEFT else (other[1], event[1])
                raise _Found(Difference(event[0], *rows))
        raise _missing(side, event)

    def unmatched(self) -> int:
        return sum(map(abs, self.counts.values()))

    def ahead(self) -> Side | None:
        return None


def _missing(side: Side, event: Event) -> _Found:
    """A row that one side has and the other has not."""
    rows = (event[1], None) if side == LEFT else (None, event[1])
    return _Found(Difference(event[0], *rows))


def _unequal(side: Side, event: Event, other: Event) -> _Found:
    """A row of a side where the other side has another one."""
    left, right = (event, other) if side == LEFT else (other, event)
    return _Found(
        Difference(
            left[0], left[1], right[1], other_header=right[0] if right[0] != left[0] else None
        )
    )


class _Queue:
    """Seq: the rows that the side in front has more."""

    def __init__(self) -> None:
        self.queue: deque[Event] = deque()
        self.front: Side = LEFT
        self.closed = [False, False]
        self.last: Event | None = None

    def take(self, side: Side, events: list[Event]) -> None:
        queue = self.queue
        if not queue:
            self.front = side
        if self.front == side:
            queue.extend(events)
        else:
            matched = 0
            for event, other in zip(events, queue, strict=False):
                if event != other:
                    if matched:
                        self.last = events[matched - 1]
                    raise self.framed(_unequal(side, event, other))
                matched += 1
            if matched:
                self.last = events[matched - 1]
            for _ in range(matched):
                queue.popleft()
            if matched < len(events):
                self.front = side
                queue.extend(islice(events, matched, None))
        if queue and self.closed[1 - self.front]:
            raise self.framed(_missing(self.front, queue[0]))

    def framed(self, found: _Found) -> _Found:
        if self.last is not None:
            found.marks.append(self.last)
        return found

    def close(self, side: Side) -> None:
        self.closed[side] = True
        if self.queue and self.front != side:
            raise self.framed(_missing(self.front, self.queue[0]))

    def unmatched(self) -> int:
        return len(self.queue)

    def ahead(self) -> Side | None:
        return self.front if self.queue else None


class _Frames:
    """Sync: the frame that both sides are in, and what the side in front has from its next mark on."""

    def __init__(self, marks: frozenset[str], sub: Schema, headers: Headers):
        self.marks, self.sub_schema, self.headers = marks, sub, headers
        self.sub = _node(sub, headers)
        self.front: Side | None = None
        self.queue: deque[Event] = deque()
        self.closed = [False, False]
        self.last: Event | None = None

    def take(self, side: Side, events: list[Event]) -> None:
        try:
            self._take(side, events)
        except _Found as found:
            if self.last is not None:
                found.marks.append(self.last)
            raise

    def _take(self, side: Side, events: list[Event]) -> None:
        marks, begin = self.marks, 0
        other: Side = RIGHT if side == LEFT else LEFT
        if self.front == side:
            self.queue.extend(events)
            return
        for i, event in enumerate(events):
            if event[0] not in marks:
                continue
            if begin < i:
                self.sub.take(side, events[begin:i])
            begin = i + 1
            self.sub.close(side)
            if self.front is None:
                if self.closed[other]:
                    raise _missing(side, event)
                self.front = side
                self.queue.extend(islice(events, i, None))
                return
            mark = self.queue.popleft()
            if mark != event:
                raise _unequal(side, event, mark)
            self.enter(event, other)
        if begin < len(events):
            self.sub.take(side, events[begin:] if begin else events)

    def enter(self, mark: Event, other: Side) -> None:
        """Both sides are in the next frame; the one that was in front has its rows of it, and maybe its end."""
        self.last, self.front = mark, None
        self.sub = _node(self.sub_schema, self.headers)
        queue, rows = self.queue, []
        while queue and queue[0][0] not in self.marks:
            rows.append(queue.popleft())
        if rows:
            self.sub.take(other, rows)
        if queue:
            self.front = other
        if queue or self.closed[other]:
            self.sub.close(other)

    def close(self, side: Side) -> None:
        self.closed[side] = True
        if self.front == side:
            return  # it has closed this frame already, and its next ones are in the queue
        try:
            self.sub.close(side)
            if self.front is not None:
                raise _missing(self.front, self.queue[0])
        except _Found as found:
            if self.last is not None:
                found.marks.append(self.last)
            raise

    def unmatched(self) -> int:
        return self.sub.unmatched() + len(self.queue)

    def ahead(self) -> Side | None:
        return self.front if self.front is not None else self.sub.ahead()


class _Keyed:
    """PartitionBy: the unmatched events of each key.

    A key without unmatched events is forgotten if its events are a sequence or a bag; with frames it is kept, for its
    last mark says where a difference is.
    """

    def __init__(self, keys: Iterable[str], sub: Schema, headers: Headers):
        self.sub_schema, self.headers = sub, headers
        self.at = {
            name: tuple(headers[name].columns.index(key) for key in keys)
            for name in headers_of(sub)
        }
        self.subs: dict[tuple[Any, ...], _Node] = {}
        self.closed = [False, False]
        self.forgets = isinstance(_node(sub, headers), _Queue | _Counts)

    def take(self, side: Side, events: list[Event]) -> None:
        at, groups = self.at, dict[tuple[Any, ...], list[Event]]()
        for event in events:
            row = event[1]
            key = tuple([row[i] for i in at[event[0]]])
            group = groups.get(key)
            if group is None:
                groups[key] = [event]
            else:
                group.append(event)
        subs = self.subs
        for key, group in groups.items():
            sub = subs.get(key)
            if sub is None:
                sub = subs[key] = _node(self.sub_schema, self.headers)
                for closed in (LEFT, RIGHT):
                    if self.closed[closed]:
                        sub.close(closed)
            sub.take(side, group)
            if self.forgets and not sub.unmatched():
                del subs[key]

    def close(self, side: Side) -> None:
        self.closed[side] = True
        for sub in self.subs.values():
            sub.close(side)

    def unmatched(self) -> int:
        return sum(sub.unmatched() for sub in self.subs.values())

    def ahead(self) -> Side | None:
        return None


class _Parts:
    """Par: the unmatched events of each part."""

    def __init__(self, parts: Iterable[Schema], headers: Headers):
        self.parts = [(frozenset(headers_of(part)), _node(part, headers)) for part in parts]
        self.of = {name: node for names, node in self.parts for name in names}

    def take(self, side: Side, events: list[Event]) -> None:
        for names, node in self.parts:
            own = [event for event in events if event[0] in names]
            if own:
                node.take(side, own)

    def close(self, side: Side) -> None:
        for _, node in self.parts:
            node.close(side)

    def unmatched(self) -> int:
        return sum(node.unmatched() for _, node in self.parts)

    def ahead(self) -> Side | None:
        return None


# --- facts of headers -------------------------------------------------------------------------------------


def _plain(header: Header) -> tuple[int, ...]:
    """The columns that may have NaN, which is not equal to itself."""
    return tuple(i for i, (_, kind) in enumerate(header.fields) if str(kind) in ("float", "double"))


def _keys(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The partition keys that each header is in the scope of, outer first."""
    match schema:
        case Bag(headers):
            return {name: () for name in headers}
        case Sync(headers, sub):
            return {name: () for name in headers} | _keys(sub)
        case PartitionBy(keys, sub):
            return {name: (*keys, *inner) for name, inner in _keys(sub).items()}
        case Par(parts):
            return {name: keys for part in parts for name, keys in _keys(part).items()}
