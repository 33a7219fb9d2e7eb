"""The library of steps: rows changed in their place, and steps in parts of a schema.

    filter       rows for which a condition is true
    map          each row as one, none or many rows; the keys of its partition stay
    lift         a step applied to one part of a schema
    window       some marks made the outer ones: H[S] with h in H is h[H - h[S]], which is the same order
    collect      a stream as a value

Beside it `queries_of_frames` has what is made of one frame or bag, `queries_in_time` patterns over marks, and
`queries_ahead` what waits for later rows, or carries a state across frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from headwater.errors import SchemaMismatch, UnknownName
from headwater.streams.columns import Fields, named, rows_given, safely
from headwater.streams.pieces import Piece, asked
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
from headwater.streams.schema import parse as schema_of
from headwater.streams.steps import (
    ROWS,
    Condition,
    Context,
    Facts,
    Step,
    cells,
    collecting,
    condition,
    marks_of,
    passing,
    replaced,
    row_by_row,
    the_header,
)
from headwater.streams.transformer import (
    Relaxed,
    Transformer,
)

# --- rows in their place ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filter(Step):
    """The rows of a header for which a condition is true; rows of other headers pass. Without `of`, all headers."""

    word: ClassVar[str] = "filter"
    condition: Condition
    of: str | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        context = context or Context()
        return row_by_row(
            schema,
            headers,
            {
                name: (headers[name], self._passes(headers[name], context))
                for name in self._names(schema)
            },
        )

    def _names(self, schema: Schema) -> tuple[str, ...]:
        names = headers_of(schema)
        return names if self.of is None else (the_header(self, names, self.of),)

    def _passes(self, header: Header, context: Context) -> Callable[[Event], Iterable[Event]]:
        holds = condition(self.condition, header, context, str(self))
        return lambda event: (event,) if holds(event[1]) else ()

    def facts(self, schema: Schema, headers: Headers, context: Context) -> Facts:
        names = self._names(schema)
        return Facts(
            frozenset((h, c) for h in names for c in read_by(self.condition, headers[h], context)),
            frozenset((h, ROWS) for h in names),
            fewer=True,
        )


def read_by(given: Condition, header: Header, context: Context) -> Iterable[str]:
    """The columns that a condition reads; a function may read all."""
    if isinstance(given, str):
        return context.evaluator.reads(given, header)
    return header.columns


How: TypeAlias = str | Callable[[Any], Any] | tuple[tuple[str, str], ...]
"""How rows are mapped: a select list, a function of the row, or an expression for each column."""


@dataclass(frozen=True)
class Rewrite:
    """What becomes of the rows of a header: of which name they are then, and how they are made."""

    how: How
    into: str
    columns: Fields | None = None

    def header(self, header: Header, context: Context) -> Header:
        """The header of the new rows; a function keeps the columns unless others are declared."""
        if isinstance(self.how, tuple):
            typed = context.evaluator.typed
            return Header(self.into, tuple((name, typed(text, header)) for name, text in self.how))
        if isinstance(self.how, str):
            return Header(
                self.into, context.evaluator.columns(self._select(header), {header.name: header})
            )
        return Header(self.into, self.columns or header.fields)

    def _select(self, header: Header) -> str:
        """A select list as a query over the rows of the header; a whole query is one already."""
        text = str(self.how)
        whole = text.lstrip()[:6].upper() == "SELECT"
        return text if whole else f"SELECT {text} FROM {header.name}"

    def rows(
        self, header: Header, context: Context, where: str
    ) -> Callable[[Event], Iterable[Event]]:
        """The new rows of a row, in the order of their values where SQL makes several."""
        made = self.header(header, context)
        if isinstance(self.how, tuple):
            parts = [context.evaluator.expression(text, header) for _, text in self.how]
            return lambda e: (Event(made.name, made.row(*(part(e[1]) for part in parts))),)
        if isinstance(self.how, str):
            text = self._select(header)
            return lambda e: [
                Event(made.name, made.row(*row))
                for row in asked(context, text, {header.name: (header, [e[1]])})
            ]
        function = safely(self.how, where)
        return lambda e: rows_given(function(named(header, e[1])), made, where)


@dataclass(frozen=True)
class Map(Step):
    """The rows of some headers mapped, each to one, none or many rows in its place; the keys of a partition stay."""

    word: ClassVar[str] = "map"
    of: tuple[tuple[str, Rewrite], ...]

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        context, makes = context or Context(), {}
        for name, rewrite in self.of:
            header = headers[the_header(self, headers_of(schema), name)]
            makes[name] = (
                rewrite.header(header, context),
                rewrite.rows(header, context, f"map of `{name}`"),
            )
        self._check_names(schema, {name: made for name, (made, _) in makes.items()})
        return row_by_row(schema, headers, makes)

    def _check_names(self, schema: Schema, makes: Headers) -> None:
        """Rows of different places stay apart: two headers become one only if they stand together."""
        told = [makes[h].name if h in makes else h for h in headers_of(schema)]
        for name in told:
            if told.count(name) > 1:
                raise SchemaMismatch(
                    f"{self} does not fit: rows of two headers become `{name}`",
                    hint="give one of them another name with `into`",
                )

    def facts(self, schema: Schema, headers: Headers, context: Context) -> Facts:
        touched = {name for name, _ in self.of}
        read = frozenset(cell for cell in cells(schema, headers) if cell[0] in touched)
        into = {rewrite.into for _, rewrite in self.of}
        told = frozenset(
            cell for cell in cells(*self.typed(schema, headers, context)) if cell[0] in into
        )
        return Facts(read, read | told)

    def __str__(self) -> str:
        return f"map({', '.join(name for name, _ in self.of)})"


# --- parts of a schema ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lift(Step):
    """A step applied to one part of a schema: a schema, its notation, or the name of a header for where it stands."""

    word: ClassVar[str] = "lift"
    at: Schema | str
    step: Step

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        at = self.place(schema)
        made = replaced(
            schema, headers, at, lambda sub: self.step.transformer(sub, headers, context)
        )
        taken = set(headers_of(schema)) - set(headers_of(at))
        for name in headers_of(self.step.typed(at, headers, context)[0]):
            if name in taken:
                raise SchemaMismatch(
                    f"{self} does not fit: it tells rows of `{name}`, which has another place in `{schema}`",
                    hint="give the rows another name",
                )
        return made

    def place(self, schema: Schema) -> Schema:
        """The part of the schema that is meant."""
        if isinstance(self.at, str) and self.at.isidentifier():
            found = where(schema, self.at)
        else:
            at = schema_of(self.at) if isinstance(self.at, str) else self.at
            found = at if at in parts(schema) else None
        if found is None:
            raise UnknownName(
                f"{self}: `{self.at}` is no part of `{schema}`",
                hint=f"parts of it: {', '.join(f'`{part}`' for part in parts(schema))}",
            )
        return found

    def facts(self, schema: Schema, headers: Headers, context: Context) -> Facts:
        at = self.place(schema)
        inner = self.step.facts(at, headers, context)
        # Which frames there are is read as well: the step begins anew in each.
        frames = frozenset((h, ROWS) for h in marks_around(schema, at))
        return Facts(inner.reads | frames, inner.writes, inner.fewer, inner.delays)

    def __str__(self) -> str:
        return f"lift({self.at!s}, {self.step})"


def parts(schema: Schema) -> list[Schema]:
    """A schema and all schemas in it."""
    match schema:
        case Bag():
            return [schema]
        case Sync(_, sub) | PartitionBy(_, sub):
            return [schema, *parts(sub)]
        case Par(beside):
            return [schema, *(part for each in beside for part in parts(each))]


def where(schema: Schema, header: str) -> Schema | None:
    """The part of a schema in whose bag, or among whose marks, a header stands."""
    found = [p for p in parts(schema) if isinstance(p, Bag | Sync) and header in p.headers]
    return found[0] if found else None


def marks_around(schema: Schema, at: Schema) -> tuple[str, ...]:
    """The marks whose frames a part of a schema is in."""
    return tuple(
        h for p in parts(schema) if isinstance(p, Sync) and at in parts(p)[1:] for h in p.headers
    )


@dataclass(frozen=True)
class Window(Step):
    """One kind of marks made the outer ones, so that they delimit windows over the others."""

    word: ClassVar[str] = "window"
    mark: str

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        marked = marks_of(self, schema)
        the_header(self, marked.headers, self.mark)
        others = tuple(h for h in marked.headers if h != self.mark)
        inner = Sync(others, marked.sub) if others else marked.sub
        return Relaxed(passing(schema, headers), output=Sync(self.mark, inner))


# --- whole streams ---


@dataclass(frozen=True)
class Collect(Piece):
    """A stream as a value: the list of its events in one of its orders. Nothing is told."""

    word: ClassVar[str] = "collect"

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        return collecting(schema, headers, tell=False)
