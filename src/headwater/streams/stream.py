"""Streams: values of a schema, in which rows are ordered as far as the schema asks for it.

    Bag           Unordered   {d, d, ..}                  a bag of rows
    Sync          Ordered     [t d t d .. t]              marks d in order, and the streams between them
    PartitionBy   Keyed       {v: t, ..}                  a stream for each key; empty ones are left out
    Par           Beside      <t | t | ..>                a stream for each part

Streams of one schema are a monoid under `concat` (Proposition 9), t ≤ u (`prefix`) if something put behind t gives u, and
two streams are equal if they differ only in what has no order. A sequence of rows that respects a stream's order is a
*flattening* of it; every sequence is a flattening of just one stream (Proposition 14), which `parse` finds, so streams are
sequences up to order that does not matter: parse(a + b) = parse(a) ∘ parse(b).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import permutations
from typing import Any, TypeAlias, assert_never

from headwater.errors import NotInSchema
from headwater.streams.schema import (
    Bag,
    Event,
    Headers,
    Par,
    PartitionBy,
    Schema,
    Sync,
    headers_of,
)
from headwater.streams.schema import text as schema_text

Key: TypeAlias = tuple[Any, ...]
Events: TypeAlias = tuple[Event, ...]
KeyReader: TypeAlias = Callable[[tuple[Any, ...]], Key]
"""How the values of keys are read from a row."""


@dataclass(frozen=True, eq=False)
class Unordered:
    """{d, d, ..}: a bag of rows; equal if each row is there as often."""

    events: Events = ()

    @cached_property
    def counts(self) -> Counter[Event]:
        """How often each row is there."""
        return Counter(self.events)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Unordered):
            return False
        return self.events == other.events or self.counts == other.counts

    def __hash__(self) -> int:
        return hash(frozenset(self.counts.items()))

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True)
class Ordered:
    """[t d t d .. t]: the stream before all marks, and each mark with the stream behind it."""

    before: Stream
    frames: tuple[tuple[Event, Stream], ...] = ()

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True)
class Keyed:
    """{v: t, ..}: a stream for each key, none of them empty."""

    streams: Mapping[Key, Stream]

    def __hash__(self) -> int:
        return hash(frozenset(self.streams.items()))

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True)
class Beside:
    """<t | t | ..>: a stream for each part of a Par, in the order of the parts."""

    parts: tuple[Stream, ...]

    def __str__(self) -> str:
        return text(self)


Stream: TypeAlias = Unordered | Ordered | Keyed | Beside


# --- the monoid -------------------------------------------------------------------------------------------


def empty(schema: Schema) -> Stream:
    """⊥: the stream of a schema that has no rows."""
    match schema:
        case Bag():
            return Unordered()
        case Sync(_, sub):
            return Ordered(empty(sub))
        case PartitionBy():
            return Keyed({})
        case Par(parts):
            return Beside(tuple(empty(part) for part in parts))
        case _:
            assert_never(schema)


def is_empty(stream: Stream) -> bool:
    """Whether a stream has no rows."""
    match stream:
        case Unordered(events):
            return not events
        case Ordered(before, frames):
            return not frames and is_empty(before)
        case Keyed(streams):
            return not streams
        case Beside(parts):
            return all(map(is_empty, parts))
        case _:
            assert_never(stream)


def concat(t: Stream, u: Stream) -> Stream:
    """t ∘ u: the rows of u behind those of t that they depend on (Definition 8). Both are of one schema."""
    match t, u:
        case Unordered(a), Unordered(b):
            return Unordered(a + b)
        case Ordered(before, ()), Ordered(first, frames):
            return Ordered(concat(before, first), frames)
        case Ordered(before, (*closed, (mark, last))), Ordered(first, frames):
            return Ordered(before, (*closed, (mark, concat(last, first)), *frames))
        case Keyed(a), Keyed(b):
            both = {v: concat(a[v], b[v]) if v in b else a[v] for v in a}
            return Keyed(both | {v: b[v] for v in b if v not in a})
        case Beside(a), Beside(b) if len(a) == len(b):
            return Beside(tuple(map(concat, a, b)))
        case _:
            raise unlike(t, u)


def rest(t: Stream, u: Stream) -> Stream | None:
    """The stream r with t ∘ r = u, which is one if there is any; None where t is no prefix of u."""
    match t, u:
        case Unordered(), Unordered():
            if not t.counts <= u.counts:
                return None
            return Unordered(tuple((u.counts - t.counts).elements()))
        case Ordered(before, ()), Ordered(first, frames):
            left = rest(before, first)
            return None if left is None else Ordered(left, frames)
        case Ordered(before, (*closed, (mark, last))), Ordered(first, frames):
            place = len(closed)
            if before != first or len(frames) <= place or frames[:place] != tuple(closed):
                return None
            left = rest(last, frames[place][1]) if mark == frames[place][0] else None
            return None if left is None else Ordered(left, frames[place + 1 :])
        case Keyed(a), Keyed(b):
            if not a.keys() <= b.keys():
                return None
            kept = {v: rest(a[v], b[v]) if v in a else b[v] for v in b}
            if None in kept.values():
                return None
            return Keyed({v: r for v, r in kept.items() if r is not None and not is_empty(r)})
        case Beside(a), Beside(b) if len(a) == len(b):
            parts = tuple(r for r in map(rest, a, b) if r is not None)
            return Beside(parts) if len(parts) == len(a) else None
        case _:
            raise unlike(t, u)


def prefix(t: Stream, u: Stream) -> bool:
    """t ≤ u: some stream behind t gives u."""
    return rest(t, u) is not None


def unlike(t: Stream, u: Stream) -> NotInSchema:
    """Two streams that are put together and are of different schemas."""
    return NotInSchema(
        f"streams of different schemas: `{text(t)}` and `{text(u)}`",
        hint="streams are put together and compared within one schema; `parse` reads rows by another",
    )


# --- sequences --------------------------------------------------------------------------------------------


def flatten(stream: Stream) -> list[Event]:
    """One of the flattenings of a stream."""
    into: list[Event] = []
    _flatten(stream, into)
    return into


def _flatten(stream: Stream, into: list[Event]) -> None:
    match stream:
        case Unordered(events):
            into.extend(events)
        case Ordered(before, frames):
            _flatten(before, into)
            for mark, sub in frames:
                into.append(mark)
                _flatten(sub, into)
        case Keyed(streams):
            for sub in streams.values():
                _flatten(sub, into)
        case Beside(parts):
            for sub in parts:
                _flatten(sub, into)
        case _:
            assert_never(stream)


def flattenings(stream: Stream) -> set[Events]:
    """All flattenings of a stream (Definition 13): those of its parts one after another, or interleaved."""
    match stream:
        case Unordered(events):
            return set(permutations(events))
        case Ordered(before, frames):
            found = flattenings(before)
            for mark, sub in frames:
                found = {(*s, mark, *behind) for s in found for behind in flattenings(sub)}
            return found
        case Keyed(streams):
            return _interleaved(streams.values())
        case Beside(parts):
            return _interleaved(parts)
        case _:
            assert_never(stream)


def _interleaved(streams: Iterable[Stream]) -> set[Events]:
    """All interleavings of flattenings of the streams."""
    return reduce(
        lambda found, sub: {
            s for a in found for b in flattenings(sub) for s in interleavings(a, b)
        },
        streams,
        {()},
    )


def interleavings(a: Events, b: Events) -> Iterator[Events]:
    """The sequences that have a and b in their order, and nothing else."""
    if not a or not b:
        yield a + b
        return
    yield from ((a[0], *s) for s in interleavings(a[1:], b))
    yield from ((b[0], *s) for s in interleavings(a, b[1:]))


def parse(schema: Schema, headers: Headers, events: Iterable[Event]) -> Stream:
    """The one stream of the schema of which this sequence is a flattening (Proposition 14)."""
    widths = {h: len(headers[h].columns) for h in headers_of(schema)}
    place, built = _builder(schema, headers)()
    for event in events:
        if widths.get(event[0]) != len(event[1]):
            raise misplaced(event, schema, headers)
        place(event if isinstance(event, Event) else Event(*event))
    return built()


def misplaced(event: Event, schema: Schema, headers: Headers) -> NotInSchema:
    """A row whose header is not in the schema, or that has not as many values as its header has columns."""
    header, known = event[0], headers_of(schema)
    if header in known:
        return NotInSchema(
            f"a row of header `{header}` with {len(event[1])} values: {Event(*event)}",
            hint=f"the header has {len(headers[header].columns)} columns: {headers[header]}",
        )
    return NotInSchema(
        f"a row of header `{header}`, which is not in `{schema_text(schema)}`: {Event(*event)}",
        hint=f"headers of this schema: {', '.join(sorted(known)) or 'none'}",
    )


Builder: TypeAlias = tuple[Callable[[Event], None], Callable[[], Stream]]
"""How a row is put into a stream, and the stream that came of it."""


def _builder(schema: Schema, headers: Headers) -> Callable[[], Builder]:
    """What begins streams of a schema; the schema is walked once, however many begin."""
    match schema:
        case Bag(()):
            return lambda: _NOTHING
        case Bag():
            return _unordered_builder
        case Sync(marks, sub):
            return _ordered_builder(frozenset(marks), _builder(sub, headers))
        case PartitionBy(keys, sub):
            key_of = {h: key_reader(headers, h, keys) for h in headers_of(sub)}
            return _keyed_builder(key_of, _builder(sub, headers))
        case Par(parts):
            part_of = {h: n for n, part in enumerate(parts) for h in headers_of(part)}
            return _beside_builder(part_of, [_builder(part, headers) for part in parts])
        case _:
            assert_never(schema)


def _unordered_builder() -> Builder:
    """Rows are there as often as they come."""
    rows: list[Event] = []
    return rows.append, lambda: Unordered(tuple(rows))


_NO_ROWS = Unordered()
_NOTHING: Builder = (lambda event: None, lambda: _NO_ROWS)
"""A bag of no headers, into which no row is ever put: what stands between the rows of a sequence."""


def _ordered_builder(marks: frozenset[str], sub: Callable[[], Builder]) -> Callable[[], Builder]:
    """A mark closes the stream before it, with all that is below, and begins an empty one."""

    def begin() -> Builder:
        into, behind = sub()
        streams: list[Stream] = []
        seen: list[Event] = []

        def place(event: Event) -> None:
            nonlocal into, behind
            if event[0] in marks:
                streams.append(behind())
                seen.append(event)
                into, behind = sub()
            else:
                into(event)

        def built() -> Stream:
            streams.append(behind())
            return Ordered(streams[0], tuple(zip(seen, streams[1:], strict=True)))

        return place, built

    return begin


def _keyed_builder(
    key_of: Mapping[str, KeyReader], sub: Callable[[], Builder]
) -> Callable[[], Builder]:
    """A key has a stream once it has a row."""

    def begin() -> Builder:
        streams: dict[Key, Builder] = {}

        def place(event: Event) -> None:
            key = key_of[event[0]](event[1])
            found = streams.get(key)
            if found is None:
                found = streams[key] = sub()
            found[0](event)

        return place, lambda: Keyed({key: built() for key, (_, built) in streams.items()})

    return begin


def _beside_builder(
    part_of: Mapping[str, int], subs: Sequence[Callable[[], Builder]]
) -> Callable[[], Builder]:
    """A row goes to the part that has its header."""

    def begin() -> Builder:
        parts = [sub() for sub in subs]
        into = {h: parts[n][0] for h, n in part_of.items()}
        return lambda event: into[event[0]](event), lambda: Beside(
            tuple([built() for _, built in parts])
        )

    return begin


def key_reader(headers: Headers, header: str, keys: tuple[str, ...]) -> KeyReader:
    """How the values of keys are read from rows of a header."""
    places = headers[header].places(keys)
    if len(places) == 1:
        only = places[0]
        return lambda row: (row[only],)
    return lambda row: tuple([row[p] for p in places])


# --- text -------------------------------------------------------------------------------------------------


def text(stream: Stream) -> str:
    """A stream on one line: `[<{7: [gps(7, 0)]} | {ride(7, 3)}> hour(1)]`; what is empty is left out between marks."""
    match stream:
        case Unordered(events):
            return "{" + ", ".join(sorted(map(str, events))) + "}"
        case Ordered(before, frames):
            shown = [] if is_empty(before) else [text(before)]
            for mark, sub in frames:
                shown += [str(mark)] if is_empty(sub) else [str(mark), text(sub)]
            return "[" + " ".join(shown) + "]"
        case Keyed(streams):
            named = sorted(f"{_key_text(v)}: {text(sub)}" for v, sub in streams.items())
            return "{" + ", ".join(named) + "}"
        case Beside(parts):
            return "<" + " | ".join(map(text, parts)) + ">"
        case _:
            assert_never(stream)


def _key_text(key: Key) -> str:
    return str(key[0]) if len(key) == 1 else f"({', '.join(map(str, key))})"


def draw(stream: Stream) -> str:
    """A stream as lines from top to bottom: marks at the margin, and what stands between them indented.

    >>> gps = lambda *row: Event("gps", row)
    >>> taxis = Keyed({(7,): Ordered(Unordered(), ((gps(7, 0), Unordered()), (gps(7, 2), Unordered())))})
    >>> print(draw(Ordered(taxis, ((Event("hour", (1,)), Keyed({})),))))
      7:
        gps(7, 0)
        gps(7, 2)
    hour(1)
    """
    return "\n".join(_drawn(stream))


def _drawn(stream: Stream) -> Iterator[str]:
    match stream:
        case Unordered(events):
            if events:
                yield "{" + ", ".join(sorted(map(str, events))) + "}"
        case Ordered(before, frames):
            yield from _indented(before)
            for mark, sub in frames:
                yield str(mark)
                yield from _indented(sub)
        case Keyed(streams):
            for key in sorted(streams, key=_key_text):
                yield f"{_key_text(key)}:"
                yield from _indented(streams[key])
        case Beside(parts):
            for part in parts:
                yield from _drawn(part)
        case _:
            assert_never(stream)


def _indented(stream: Stream) -> Iterator[str]:
    yield from ("  " + line for line in _drawn(stream))
