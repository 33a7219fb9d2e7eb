"""Random schemas, their streams, and their order as it is defined: over tuples, one by one.

Every header has the column v, and some have k and l, which serve as keys. Values are few, so that keys meet and rows are
there twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from random import Random

from headwater.calculus.types import BIGINT
from headwater.streams.schema import (
    Bag,
    Event,
    Header,
    Headers,
    Par,
    PartitionBy,
    Schema,
    Seq,
    Sync,
    headers_of,
    side_by_side,
)
from headwater.streams.stream import Events, Stream, parse

KEYS = ("k", "l")


def header(name: str, *keys: str) -> Header:
    """A header with these keys and the column v."""
    return Header(name, tuple((column, BIGINT) for column in (*keys, "v")))


def random_headers(
    rng: Random, count: int, needed: Iterable[str] = (), prefix: str = ""
) -> Headers:
    """Headers a, b, c, .. with some of the keys, those that are needed among them."""
    needed = tuple(needed)
    names = [prefix + "abcdefgh"[n] for n in range(count)]
    return {n: header(n, *(k for k in KEYS if k in needed or rng.random() < 0.8)) for n in names}


def random_schema(
    rng: Random, headers: Headers, names: Iterable[str] | None = None, scope: tuple[str, ...] = ()
) -> Schema:
    """A well-formed schema that has just these headers."""
    left = list(headers if names is None else names)
    rng.shuffle(left)
    keys = [k for k in KEYS if k not in scope and all(k in headers[h].columns for h in left)]
    below = [Bag, Sync, Sync, Par, Par]
    kind = rng.choice([*below, *([PartitionBy, PartitionBy] if keys else [])])
    if not left:
        return rng.choice([Bag(), Bag(), Bag(), Seq(), Par(Bag(), Bag())])
    if kind is PartitionBy:
        some = rng.sample(keys, rng.randint(1, len(keys)))
        return PartitionBy(some, random_schema(rng, headers, left, (*scope, *some)))
    if kind is Sync:
        cut = rng.randint(0 if rng.random() < 0.1 else 1, len(left))
        return Sync(left[:cut], random_schema(rng, headers, left[cut:], scope))
    if kind is Par and len(left) > 1:
        cuts = [[], [], []]
        for name in left:
            rng.choice(cuts).append(name)
        return Par(*(random_schema(rng, headers, cut, scope) for cut in cuts))
    return Bag(left)


def random_relaxation(
    rng: Random, schema: Schema, headers: Headers, scope: tuple[str, ...] = ()
) -> Schema:
    """A schema that asks for the same order or less."""
    names = headers_of(schema)
    keys = [k for k in KEYS if k not in scope and all(k in headers[h].columns for h in names)]
    change = rng.random()
    if change < 0.15:
        return Bag(names)
    match schema:
        case Sync(marks, sub) if change < 0.4:
            return side_by_side(Seq(marks), random_relaxation(rng, sub, headers, scope))
        case Sync(marks, sub):
            return Sync(marks, random_relaxation(rng, sub, headers, scope))
        case PartitionBy(own, sub):
            return PartitionBy(own, random_relaxation(rng, sub, headers, (*scope, *own)))
        case Par(parts):
            return Par(*(random_relaxation(rng, part, headers, scope) for part in parts))
    return PartitionBy(keys[:1], schema) if keys and change < 0.6 else schema


def rows(header: Header, domain: Iterable[int] = (0, 1)) -> list[Event]:
    """All rows of a header over a domain."""
    return [header.event(*values) for values in product(domain, repeat=len(header.columns))]


def random_event(rng: Random, header: Header) -> Event:
    """A row of a header, of few values."""
    return header.event(*(rng.randrange(2 if c in KEYS else 3) for c in header.columns))


def random_events(rng: Random, schema: Schema, headers: Headers, most: int) -> Events:
    """A sequence of rows of a schema."""
    names = headers_of(schema)
    count = rng.randint(0, most) if names else 0
    return tuple(random_event(rng, headers[rng.choice(names)]) for _ in range(count))


def random_stream(rng: Random, schema: Schema, headers: Headers, most: int) -> Stream:
    """A stream of a schema."""
    return parse(schema, headers, random_events(rng, schema, headers, most))


# --- order, as it is defined ------------------------------------------------------------------------------


def dependent(schema: Schema, headers: Headers, x: Event, y: Event) -> bool:
    """x D y: Definition 10, for two rows."""
    names = headers_of(schema)
    if x.header not in names or y.header not in names:
        return False
    match schema:
        case Bag():
            return False
        case Sync(marks, sub):
            return x.header in marks or y.header in marks or dependent(sub, headers, x, y)
        case PartitionBy(keys, sub):
            return dependent(sub, headers, x, y) and all(
                x.row[headers[x.header].columns.index(k)]
                == y.row[headers[y.header].columns.index(k)]
                for k in keys
            )
        case Par(parts):
            return any(dependent(part, headers, x, y) for part in parts)


def relaxes_by_definition(weak: Schema, strong: Schema, headers: Headers) -> bool:
    """Definition 15, mended, over all rows of a small domain."""
    names = headers_of(strong)
    if not set(headers_of(weak)) >= set(names):
        return False
    every = [row for name in names for row in rows(headers[name])]
    return all(
        dependent(strong, headers, x, y)
        for x in every
        for y in every
        if dependent(weak, headers, x, y)
    )


def relaxes_as_printed(weak: Schema, strong: Schema, headers: Headers) -> bool:
    """Definition 15 with its implication as it is printed, the other way round."""
    names = headers_of(strong)
    if not set(headers_of(weak)) >= set(names):
        return False
    every = [row for name in names for row in rows(headers[name])]
    return all(
        dependent(weak, headers, x, y)
        for x in every
        for y in every
        if dependent(strong, headers, x, y)
    )


def equivalent_sequences(schema: Schema, headers: Headers, events: Events) -> set[Events]:
    """All sequences that come of swapping neighbours that do not depend on each other (Definition 11)."""
    found, waiting = {events}, [events]
    while waiting:
        s = waiting.pop()
        for n in range(len(s) - 1):
            if not dependent(schema, headers, s[n], s[n + 1]):
                swapped = (*s[:n], s[n + 1], s[n], *s[n + 2 :])
                if swapped not in found:
                    found.add(swapped)
                    waiting.append(swapped)
    return found


def shuffled(rng: Random, schema: Schema, headers: Headers, events: Events) -> Events:
    """An equivalent sequence: neighbours that do not depend on each other, swapped at random."""
    s = list(events)
    for _ in range(3 * len(s)):
        n = rng.randrange(max(1, len(s) - 1))
        if n + 1 < len(s) and not dependent(schema, headers, s[n], s[n + 1]):
            s[n], s[n + 1] = s[n + 1], s[n]
    return tuple(s)


# --- all schemas without keys -----------------------------------------------------------------------------


def keyless(names: tuple[str, ...]) -> Iterator[Schema]:
    """Schemas without keys over these headers that have, between them, every order that one can ask for.

    What is left out asks for the same as what is there: an empty Sync, a Bag of several headers (which is a Par of
    Bags), a Sync with several marks (one below the other).
    """
    if len(names) <= 1:
        yield from (Bag(names), Seq(names))
        return
    for mark in names:
        for sub in keyless(tuple(n for n in names if n != mark)):
            yield Sync(mark, sub)
    first, *others = names
    for chosen in product((False, True), repeat=len(others)):
        left = (first, *(n for n, c in zip(others, chosen, strict=True) if c))
        right = tuple(n for n, c in zip(others, chosen, strict=True) if not c)
        if right:
            yield from (Par(a, b) for a in keyless(left) for b in keyless(right))
