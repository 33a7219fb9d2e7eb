"""Random transformers over a schema, with random functions in all of their fields.

A function is a hash of what it is given, so that it is pure and depends on all of it; one over a bag sorts the bag first.
Values are (number, scope), in which the scope has the keys around and their values: what is told by key must keep them.
Headers that are told in common are handed down, and are relaxed to a bag of their own wherever marks would order them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any
from zlib import crc32

from headwater.streams.order import relaxes
from headwater.streams.schema import (
    Bag,
    Event,
    Headers,
    Par,
    PartitionBy,
    Schema,
    Sync,
    headers_of,
    side_by_side,
    without,
)
from headwater.streams.transformer import (
    NOTHING,
    Hierarchical,
    Parallel,
    Partitioned,
    Relational,
    Relaxed,
    Transformer,
)
from random_schemas import KEYS, header, random_relaxation

Scope = tuple[tuple[str, int], ...]
Number = tuple[int, Scope]


def mix(*parts: Any) -> int:
    """A number that depends on all parts, the same in every run."""
    return crc32(repr(parts).encode())


class Drawn:
    """A random transformer being made: its randomness, and the names of headers that it has told so far."""

    def __init__(self, rng: Random, headers: Headers, prefix: str = "o"):
        self.rng, self.headers, self.prefix = rng, headers, prefix
        self.told, self.is_composed = 0, False

    def fresh(self, scope: Iterable[str], most: int) -> dict[str, Any]:
        """New headers, which have the keys around them as columns."""
        made = {}
        for _ in range(self.rng.randint(0, most)):
            name, self.told = f"{self.prefix}{self.told}", self.told + 1
            made[name] = header(
                name, *(k for k in KEYS if k in tuple(scope) or self.rng.random() < 0.5)
            )
        return made

    def seed(self) -> int:
        return self.rng.randrange(10**6)

    def number(self, *given: Any) -> Callable[..., int]:
        """A random function to numbers."""
        seed = self.seed()
        return lambda *args: mix(seed, args) % 1000

    def telling(self, headers: Headers) -> Callable[[Scope, Any], list[Event]]:
        """A random function from anything, and the keys around, to rows of headers."""
        seed, names = self.seed(), sorted(headers)

        def tell(scope: Scope, given: Any) -> list[Event]:
            known = dict(scope)
            rows = []
            for n in range(mix(seed, given) % 3 if names else 0):
                name = names[mix(seed, given, n, "name") % len(names)]
                columns = headers[name].columns
                values = [known.get(c, mix(seed, given, n, c) % 2) for c in columns]
                rows.append(headers[name].event(*values))
            return rows

        return tell

    # --- shapes -------------------------------------------------------------------------------------------

    def transformer(self, schema: Schema, scope: tuple[str, ...], common: Headers) -> Transformer:
        """A transformer that reads this schema; headers of `common` are free of order in what it tells."""
        match schema:
            case Bag(names):
                made = self.relational(names, scope, common)
            case Par(parts):
                made = self.parallel(parts, scope, common)
            case Sync(names, sub):
                made = self.hierarchical(names, sub, scope, common)
            case PartitionBy(keys, sub):
                made = self.partitioned(keys, sub, scope, common)
        assert made.input == schema
        made = self.relaxed(made, scope, common)
        if self.is_composed or self.rng.random() > 0.2:
            return made
        self.is_composed = True  # once, for the rows that are told multiply
        return self.composed(made, scope, common)

    def composed(self, made: Transformer, scope: tuple[str, ...], common: Headers) -> Transformer:
        """With another behind it, which reads what it tells with the same order or less."""
        self.headers = {**self.headers, **made.headers_out}
        read = random_relaxation(self.rng, made.output, made.headers_out, scope)
        return made >> self.transformer(read, scope, common)

    def relaxed(self, made: Transformer, scope: tuple[str, ...], common: Headers) -> Transformer:
        """With common headers in a bag of their own, and now and then with less order for the others too."""
        shared = [h for h in headers_of(made.output) if h in common]
        kept = without(made.output, shared)
        if self.rng.random() < 0.2:
            kept = random_relaxation(self.rng, kept, made.headers_out, scope)
        output = side_by_side(kept, Bag(shared)) if shared else kept
        if output == made.output:
            return made
        return Relaxed(made, output=output)

    def relational(
        self, names: tuple[str, ...], scope: tuple[str, ...], common: Headers
    ) -> Transformer:
        rng = self.rng
        if not names and rng.random() < 0.5:
            return NOTHING
        gives = {**self.fresh(scope, 2), **{h: common[h] for h in common if rng.random() < 0.7}}
        tell_each, tell_two, tell_all = (self.telling(gives) for _ in range(3))
        final = self.number()

        def each(x: Number, event: Event) -> list[Event]:
            return tell_each(x[1], (x[0], event))

        def early(x: Number, rows: Sequence[Event]) -> list[Event]:
            told = [e for row in rows for e in each(x, row)]
            return told + (tell_two(x[1], x[0]) if len(rows) > 1 else [])

        def of_each(x: Number, rows: Sequence[Event]) -> list[Event]:
            return [e for row in rows for e in each(x, row)]

        def answering(before: Callable[[Number, Sequence[Event]], list[Event]]) -> Any:
            return lambda x, rows: (
                (final(x[0], sorted(rows)), x[1]),
                (before(x, rows) if rows else []) + tell_all(x[1], (x[0], sorted(rows))),
            )

        reads = {n: self.headers[n] for n in names}
        return rng.choice(
            [
                lambda: Relational(reads, gives, answer=answering(lambda x, rows: [])),
                lambda: Relational(reads, gives, each=each),
                lambda: Relational(reads, gives, answer=answering(of_each), each=each),
                lambda: Relational(reads, gives, early=early),
                lambda: Relational(reads, gives, answer=answering(early), early=early),
            ]
        )()

    def parallel(
        self, parts: tuple[Schema, ...], scope: tuple[str, ...], common: Headers
    ) -> Transformer:
        cut = self.rng.randint(1, len(parts) - 1)
        inner = {**common, **self.fresh(scope, 1)}
        sides = [
            self.transformer(part[0] if len(part) == 1 else Par(*part), scope, inner)
            for part in (parts[:cut], parts[cut:])
        ]
        left, right, final = self.number(), self.number(), self.number()
        return Parallel(
            *sides,
            init=lambda x: ((left(x[0]), x[1]), (right(x[0]), x[1])),
            fin=lambda a, b: (final(a[0], b[0]), a[1]),
        )

    def hierarchical(
        self, names: tuple[str, ...], schema: Schema, scope: tuple[str, ...], common: Headers
    ) -> Transformer:
        sub = self.transformer(schema, scope, common)
        gives = self.fresh(scope, 2)
        every = {**{h: sub.headers_out[h] for h in headers_of(sub.output)}, **gives}
        init, call, ret, update, fin = (self.number() for _ in range(5))
        tell, tell_last = self.telling(every), self.telling(every)
        return Hierarchical(
            {n: self.headers[n] for n in names},
            gives,
            update=lambda y, mark: ((update(y[0], mark), y[1]), tell(y[1], (y[0], mark))),
            sub=sub,
            init=lambda x: (init(x[0]), x[1]),
            call=lambda y: (call(y[0]), y[1]),
            ret=lambda y, x: (ret(y[0], x[0]), y[1]),
            fin=lambda y: ((fin(y[0]), y[1]), tell_last(y[1], y[0])),
        )

    def partitioned(
        self, keys: tuple[str, ...], schema: Schema, scope: tuple[str, ...], common: Headers
    ) -> Transformer:
        inner = {**common, **self.fresh(scope, 1)}
        sub = self.transformer(schema, (*scope, *keys), inner)
        gives = {
            h: inner[h] for h in inner if h in headers_of(sub.output) or self.rng.random() < 0.5
        }
        first, final = self.number(), self.number()
        tell = self.telling(gives)
        return Partitioned(
            keys,
            sub,
            gives,
            init=lambda x, key: (first(x[0], key), (*x[1], *zip(keys, key, strict=True))),
            agg=lambda x, finals: (
                (final(x[0], sorted(finals)), x[1]),
                tell(x[1], (x[0], sorted(finals))),
            ),
        )


def random_transformer(
    rng: Random, schema: Schema, headers: Headers, prefix: str = "o"
) -> Transformer:
    """A transformer that reads streams of this schema."""
    return Drawn(rng, headers, prefix).transformer(schema, (), {})


def random_pipeline(rng: Random, schema: Schema, headers: Headers, steps: int) -> Transformer:
    """Several transformers, each of which reads what the one before tells, with the same order or less."""
    made = random_transformer(rng, schema, headers)
    for n in range(1, steps):
        read = random_relaxation(rng, made.output, made.headers_out)
        assert relaxes(read, made.output)
        made = made >> random_transformer(rng, read, made.headers_out, f"{'opqr'[n]}")
    return made


def first_value(rng: Random) -> Number:
    """A value to begin with, outside of all keys."""
    return rng.randrange(1000), ()


def shapes(transformer: Transformer) -> list[str]:
    """The shapes that a transformer is made of."""
    below = [
        getattr(transformer, n, None) for n in ("left", "right", "sub", "inner", "first", "second")
    ]
    own = type(transformer).__name__
    return [own, *(s for b in below if isinstance(b, Transformer) for s in shapes(b))]
