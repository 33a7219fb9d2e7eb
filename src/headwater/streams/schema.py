"""Synchronization schemas: types of streams, which say between which rows the order matters.

A *header* is a kind of row: a name, and columns with their types. A schema has each header in one place:

    Bag(H..)              rows without order
    Sync(H.., S)          marks in order, and between two of them a stream of S; `Seq(H..)` is `Sync(H.., Bag())`
    PartitionBy(K.., S)   a stream of S for each value of the keys, side by side
    Par(S, S, ..)         streams side by side; it is associative, so a Par has no Par as a part

It is well-formed (`check`) if no header is there twice, every header below a key has it as a column, and no key is given
twice on one path. Schemas hold names of headers; what these are is said beside them by a mapping, `Headers`.

The notation, which `text` writes and `parse` reads, is `hour[taxi{seq gps} | bag rides]`: marks before brackets, keys
before braces, bars between what stands side by side. `draw` shows the same as a tree.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from keyword import iskeyword
from typing import Any, NamedTuple, TypeAlias, assert_never

from headwater.calculus.types import Base, field_name
from headwater.errors import IllFormedSchema, ParseError, Span

# --- headers and events -----------------------------------------------------------------------------------


@cache
def row_class(name: str, columns: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """The class of rows of a header, one for each name and columns."""
    # A column whose name is no identifier of Python is reached by its place.
    plain = name if name.isidentifier() and not iskeyword(name) else "Row"
    make: Any = namedtuple
    made: Any = make(plain, columns, rename=True)
    made.__reduce__ = lambda self: (_row, (name, columns, tuple(self)))
    return made  # type: ignore[no-any-return]


def _row(name: str, columns: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row as it was before it was pickled."""
    return row_class(name, columns)(*values)


@dataclass(frozen=True)
class Header:
    """A kind of row: a name, and columns with their types in their order."""

    name: str
    fields: tuple[tuple[str, Base], ...]

    @classmethod
    def of(cls, name: str, **fields: Base) -> Header:
        """A header by the names of its columns: `Header.of("gps", taxi=BIGINT, x=DOUBLE)`."""
        return cls(name, tuple(fields.items()))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.fields)

    @cached_property
    def row(self) -> Callable[..., tuple[Any, ...]]:
        """The class of its rows, whose columns are attributes: `gps.row(7, 0.5).x`."""
        return row_class(self.name, self.columns)

    def event(self, *values: Any) -> Event:
        """A row of this header as an item of a stream."""
        return Event(self.name, self.row(*values))

    def places(self, columns: Iterable[str]) -> tuple[int, ...]:
        """Where columns stand in a row."""
        return tuple(self.columns.index(column) for column in columns)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{field_name(n)} {t}' for n, t in self.fields)})"


Headers: TypeAlias = Mapping[str, Header]
"""What the names in a schema stand for."""


class Event(NamedTuple):
    """One item of a stream: the name of its header, and a row of it (or any tuple of its columns' values).

    Rows are compared as tuples, so that NaN is given as one object, and zero without a sign.
    """

    header: str
    row: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.header}({', '.join(map(str, self.row))})"


# --- schemas ----------------------------------------------------------------------------------------------


def _names(given: Iterable[str | Iterable[str]]) -> tuple[str, ...]:
    """Names, given one by one or in lists."""
    flat: list[str] = []
    for item in given:
        flat.extend([item] if isinstance(item, str) else item)
    return tuple(flat)


def _names_and_sub(kind: str, given: tuple[Any, ...]) -> tuple[tuple[str, ...], Schema]:
    """Names and, at the end, the schema below them."""
    if not given or not isinstance(given[-1], Bag | Sync | PartitionBy | Par):
        raise IllFormedSchema(
            f"`{kind}` has no schema below it",
            hint=f'the last argument is a schema: {kind}("name", Bag("rows"))',
        )
    return _names(given[:-1]), given[-1]


@dataclass(frozen=True, init=False)
class Bag:
    """Rows without order: `Bag("rides")`."""

    headers: tuple[str, ...]

    def __init__(self, *headers: str | Iterable[str]):
        object.__setattr__(self, "headers", _names(headers))

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True, init=False)
class Sync:
    """Marks in order, and between two of them a stream of `sub`: `Sync("hour", Bag("rides"))`."""

    headers: tuple[str, ...]
    sub: Schema

    def __init__(self, *headers_and_sub: Any):
        headers, sub = _names_and_sub("Sync", headers_and_sub)
        object.__setattr__(self, "headers", headers)
        object.__setattr__(self, "sub", sub)

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True, init=False)
class PartitionBy:
    """A stream of `sub` for each value of the keys: `PartitionBy("taxi", Seq("gps"))`."""

    keys: tuple[str, ...]
    sub: Schema

    def __init__(self, *keys_and_sub: Any):
        keys, sub = _names_and_sub("PartitionBy", keys_and_sub)
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "sub", sub)

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True, init=False)
class Par:
    """Streams side by side: `Par(Seq("gps"), Bag("rides"))`. Par(Par(a, b), c) = Par(a, b, c) = Par(a, Par(b, c))."""

    parts: tuple[Schema, ...]

    def __init__(self, *parts: Schema):
        flat = [p for part in parts for p in parts_of(part)]
        if len(flat) < 2:
            raise IllFormedSchema(
                f"`Par` of {len(flat)} parts",
                hint="a part that stands alone needs no Par around it",
            )
        object.__setattr__(self, "parts", tuple(flat))

    def __str__(self) -> str:
        return text(self)


Schema: TypeAlias = Bag | Sync | PartitionBy | Par


def Seq(*headers: str | Iterable[str]) -> Sync:
    """Rows in order: marks with nothing between them."""
    return Sync(*headers, Bag())


def parts_of(schema: Schema) -> tuple[Schema, ...]:
    """What stands side by side at the top: the parts of a Par, or the one schema."""
    return schema.parts if isinstance(schema, Par) else (schema,)


def side_by_side(*schemas: Schema) -> Schema:
    """Par(S..) without the parts that have no header; the one part if only one is left."""
    kept = [s for s in schemas if headers_of(s)]
    return Par(*kept) if len(kept) > 1 else kept[0] if kept else Bag()


def headers_of(schema: Schema) -> tuple[str, ...]:
    """The headers of a schema, from left to right; one that is there twice is given twice."""
    match schema:
        case Bag(headers):
            return headers
        case Sync(headers, sub):
            return headers + headers_of(sub)
        case PartitionBy(_, sub):
            return headers_of(sub)
        case Par(parts):
            return tuple(h for part in parts for h in headers_of(part))
        case _:
            assert_never(schema)


def without(schema: Schema, dropped: Iterable[str]) -> Schema:
    """The schema of what is left of a stream when the rows of some headers are dropped; what is empty then goes too."""
    drop = frozenset(dropped)
    if drop.isdisjoint(headers_of(schema)):
        return schema
    match schema:
        case Bag(headers):
            return Bag(h for h in headers if h not in drop)
        case Sync(headers, sub):
            marks = [h for h in headers if h not in drop]
            return Sync(marks, without(sub, drop)) if marks else without(sub, drop)
        case PartitionBy(keys, sub):
            below = without(sub, drop)
            return PartitionBy(keys, below) if headers_of(below) else Bag()
        case Par(parts):
            return side_by_side(*(without(part, drop) for part in parts))
        case _:
            assert_never(schema)


# --- well-formed schemas ----------------------------------------------------------------------------------


def check(schema: Schema, headers: Headers) -> None:
    """Definition 5: no header twice, a key is a column of every header in its scope, no key twice in a scope."""
    seen: set[str] = set()
    for header in headers_of(schema):
        if header in seen:
            raise IllFormedSchema(
                f"header `{header}` is twice in `{schema}`",
                hint="a row must have one place in a stream; give one of the two another name",
            )
        seen.add(header)
        if header not in headers:
            raise IllFormedSchema(
                f"unknown header `{header}` in `{schema}`",
                hint=f"headers: {', '.join(sorted(headers)) or 'none'}",
            )
    _check_keys(schema, headers, ())


def _check_keys(schema: Schema, headers: Headers, scope: tuple[str, ...]) -> None:
    """Keys are columns of what is below them, and are given once on a path."""
    match schema:
        case Bag(own):
            _check_scope(own, headers, scope)
        case Sync(own, sub):
            _check_scope(own, headers, scope)
            _check_keys(sub, headers, scope)
        case PartitionBy(keys, sub):
            for place, key in enumerate(keys):
                if key in scope or key in keys[:place]:
                    below = headers_of(schema)
                    of = f", around header `{below[0]}`" if below else ""
                    raise IllFormedSchema(
                        f"key `{key}` is given twice in `{schema}`{of}",
                        hint="rows with the same key are together already; leave the second one out",
                    )
            _check_keys(sub, headers, scope + keys)
        case Par(parts):
            for part in parts:
                _check_keys(part, headers, scope)
        case _:
            assert_never(schema)


def _check_scope(own: tuple[str, ...], headers: Headers, scope: tuple[str, ...]) -> None:
    """The headers of one node have every key in whose scope they are."""
    for header in own:
        for key in scope:
            if key not in headers[header].columns:
                raise IllFormedSchema(
                    f"key `{key}` is no column of header `{header}`",
                    hint=f"columns of `{header}`: {', '.join(headers[header].columns) or 'none'}",
                )


# --- notation ---------------------------------------------------------------------------------------------

WORDS = ("bag", "seq")


def _written(names: Iterable[str]) -> str:
    """Names as they are written: in backticks unless they are plain and no word of the notation."""
    return ", ".join(f"`{n}`" if n in WORDS else field_name(n) for n in names)


def text(schema: Schema) -> str:
    """A schema in its notation: `hour[taxi{seq gps} | bag rides]`."""
    match schema:
        case Bag(headers):
            return f"bag {_written(headers)}".rstrip()
        case Sync(headers, Bag(())):
            return f"seq {_written(headers)}".rstrip()
        case Sync(headers, sub):
            return f"{_written(headers)}[{text(sub)}]"
        case PartitionBy(keys, sub):
            return f"{_written(keys)}{{{text(sub)}}}"
        case Par(parts):
            return " | ".join(map(text, parts))
        case _:
            assert_never(schema)


TOKEN = re.compile(r"\s*(?:(?P<word>\w+)|`(?P<quoted>(?:[^`]|``)*)`|(?P<sign>[\[\]{}|,()]))")


class _Reader:
    """The tokens of a text in the notation, read from left to right."""

    def __init__(self, source: str):
        self.source, self.place = source, 0

    def peek(self) -> re.Match[str] | None:
        """The next token, or none at the end."""
        found = TOKEN.match(self.source, self.place)
        if found is None and self.source[self.place :].strip():
            self.place += len(self.source) - self.place - len(self.source[self.place :].lstrip())
            raise self.wrong("no part of the notation")
        return found

    def take(self, sign: str) -> bool:
        """Whether the next token is this sign, which is then read."""
        found = self.peek()
        if found is None or found["sign"] != sign:
            return False
        self.place = found.end()
        return True

    def name(self, *, unless: tuple[str, ...] = ()) -> str | None:
        """The next token if it is a name."""
        found = self.peek()
        if found is None or found["sign"] is not None or found["word"] in unless:
            return None
        self.place = found.end()
        return found["word"] or found["quoted"].replace("``", "`")

    def names(self) -> tuple[str, ...]:
        """Names with commas between them; there may be none."""
        first = self.name(unless=WORDS)
        found = [] if first is None else [first]
        while found and self.take(","):
            following = self.name(unless=WORDS)
            if following is None:
                raise self.wrong("expected a name")
            found.append(following)
        return tuple(found)

    def wrong(self, what: str) -> ParseError:
        """What is wrong at the next token."""
        found = TOKEN.match(self.source, self.place)
        start = self.place if found is None else found.end() - len(found[0].lstrip())
        return ParseError(
            f"this is no schema: {what}",
            text=self.source,
            span=Span(1, start + 1, 1 if found is None else found.end() - start),
            hint="for example: hour[taxi{seq gps} | bag rides]",
        )

    def schema(self) -> Schema:
        """Parts with bars between them."""
        parts = [self.part()]
        while self.take("|"):
            parts.append(self.part())
        return Par(*parts) if len(parts) > 1 else parts[0]

    def part(self) -> Schema:
        """A bag, a sequence, marks before brackets, keys before braces, or a schema in parentheses."""
        found = self.peek()
        word = None if found is None else found["word"]
        if found is not None and word in WORDS:
            self.place = found.end()
            return Bag(self.names()) if word == "bag" else Seq(self.names())
        if self.take("("):
            return self.closed(")")
        names = self.names()
        if self.take("["):
            return Sync(names, self.closed("]"))
        if self.take("{"):
            return PartitionBy(names, self.closed("}"))
        raise self.wrong("expected `[` or `{`" if names else "expected a part")

    def closed(self, sign: str) -> Schema:
        """A schema and the sign that closes it."""
        schema = self.schema()
        if not self.take(sign):
            raise self.wrong(f"expected `{sign}`")
        return schema


def parse(source: str) -> Schema:
    """The schema that a text in the notation stands for: parse(text(S)) = S."""
    reader = _Reader(source)
    schema = reader.schema()
    if reader.peek() is not None:
        raise reader.wrong("expected its end")
    return schema


def draw(schema: Schema) -> str:
    """A schema as a tree: what stands side by side are branches of one node.

    >>> print(draw(parse("hour[taxi{seq gps} | bag rides]")))
    sync hour
    ├─ by taxi
    │  └─ seq gps
    └─ bag rides
    """
    return "\n".join(line for part in parts_of(schema) for line in _drawn(part))


def _drawn(part: Schema) -> Iterator[str]:
    """The lines of one part: itself, and what is below it."""
    match part:
        case Sync(headers, sub) if sub != Bag():
            yield f"sync {_written(headers)}".rstrip()
        case PartitionBy(keys, sub):
            yield f"by {_written(keys)}".rstrip()
        case _:
            yield text(part)
            return
    below = parts_of(sub)
    for place, branch in enumerate(below, 1):
        last = place == len(below)
        first, *more = _drawn(branch)
        yield ("└─ " if last else "├─ ") + first
        yield from (("   " if last else "│  ") + line for line in more)
