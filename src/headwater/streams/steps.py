"""Steps of a pipeline, as data, and the ways in which they walk a schema.

A `Step` is a frozen dataclass that says what is to be done with rows, with SQL texts or functions in it. On a schema it
becomes a transformer; what that tells is the step's type. Steps that are put together by `>>` are a pipeline
(`pipeline.py`), which is a step as well.

Most steps change one place of a stream and let everything else pass. The walks for that are here:

    row_by_row    each row becomes rows, in its place (filter, map; `passing` is the identity)
    replaced      another transformer in the place of one sub-schema (lift)
    collecting    a stream as a value: its events, told as well or not (what waits for a later mark)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, assert_never

from headwater.calculus.types import Base
from headwater.errors import SchemaMismatch, UnknownName
from headwater.streams.columns import Fields, Row, listed, named, safely
from headwater.streams.evaluator import Evaluator, NoSQL
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
from headwater.streams.transformer import (
    LEFT_ALONE,
    NOTHING,
    Hierarchical,
    Parallel,
    Partitioned,
    Relational,
    Relaxed,
    Transformer,
)

if TYPE_CHECKING:
    from headwater.streams.pipeline import Query, Steps

Condition: TypeAlias = str | Callable[[Any], Any]
"""A condition or an expression over one row: SQL text, or a function of the row."""


@dataclass(frozen=True)
class Context:
    """What a step is not told by its schema: how SQL is evaluated, and the column that rows are ordered by."""

    evaluator: Evaluator = field(default_factory=NoSQL)
    order: str | Mapping[str, str] | None = None
    """One column for all headers, or one for each."""

    def order_of(self, header: str) -> str | None:
        """The order column of a header."""
        return self.order if isinstance(self.order, str | None) else self.order.get(header)


@dataclass(frozen=True)
class Facts:
    """What the optimiser knows of a step on a schema.

    Cells are (header, column); (header, ROWS) is which rows of the header there are. A step that `delays` holds rows
    back until later marks come; one that makes rows `fewer` never tells more rows than it reads.
    """

    reads: frozenset[tuple[str, str]]
    writes: frozenset[tuple[str, str]]
    fewer: bool = False
    delays: bool = False


ROWS = "*"


class Step(ABC):
    """One step of a pipeline, as data."""

    word: ClassVar[str]
    """What users call it."""

    @abstractmethod
    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        """The transformer that this step is on a schema. A schema that it does not fit is a `SchemaMismatch`."""

    def typed(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> tuple[Schema, Headers]:
        """The schema that this step tells, and its headers."""
        made = self.transformer(schema, headers, context)
        return made.output, {h: made.headers_out[h] for h in headers_of(made.output)}

    def facts(self, schema: Schema, headers: Headers, context: Context) -> Facts:
        """What it reads and writes; unless a step says otherwise, all that there is."""
        told, told_headers = self.typed(schema, headers, context)
        return Facts(cells(schema, headers), cells(schema, headers) | cells(told, told_headers))

    def cut(self, schema: Schema) -> tuple[Step, Step] | None:
        """The step as two, of which the first may be moved, if that can be."""
        return None

    def __rshift__(self, then: Step) -> Steps:
        """One step after the other."""
        from headwater.streams.pipeline import (  # a pipeline is a step, and is made of steps
            Steps,
            parts,
        )

        return Steps((*parts(self), *parts(then)))

    def on(
        self,
        schema: Schema,
        headers: Headers,
        evaluator: Evaluator | None = None,
        order: str | Mapping[str, str] | None = None,
        commute: bool = True,
    ) -> Query:
        """The query that this is on a schema; steps are commuted unless that is not wanted."""
        from headwater.streams.pipeline import on  # a query is made of steps, and knows them all

        return on(self, schema, headers, evaluator, order, commute)

    def __str__(self) -> str:
        """The step as it is written: `highest('price')`."""
        shown: list[str] = []
        for f in fields(self):  # type: ignore[arg-type]  # every step is a dataclass
            value = getattr(self, f.name)
            if value != f.default:
                shown.append(_shown(value) if not shown else f"{f.name}={_shown(value)}")
        return f"{self.word}({', '.join(shown)})"


def _shown(value: Any) -> str:
    """A field of a step as it is written: columns as they are declared, functions by their names."""
    match value:
        case ((str(), Base()), *_):
            return repr(listed(value))
        case ((str(), ((str(), Base()), *_)), *_):
            return "{" + ", ".join(f"{name!r}: {_shown(columns)}" for name, columns in value) + "}"
    if callable(value) and not isinstance(value, Step):
        return str(getattr(value, "__qualname__", value))
    return str(value) if isinstance(value, Step) else repr(value)


def cells(schema: Schema, headers: Headers) -> frozenset[tuple[str, str]]:
    """All columns and rows of a schema's headers."""
    return frozenset((h, c) for h in headers_of(schema) for c in (ROWS, *headers[h].columns))


# --- what a step asks for ---------------------------------------------------------------------------------


def misfit(
    step: Step, schema: Schema, asked: str, hint: str = "", why: object = None
) -> SchemaMismatch:
    """A step that is given a schema of another shape; `why` is where they first differ."""
    more = "" if why is None else f": {why}"
    return SchemaMismatch(
        f"{step} does not fit: it asks for {asked}, and is given `{schema}`{more}",
        hint=hint or "`lift(at, step)` applies a step to a part of a schema",
    )


def marks_of(step: Step, schema: Schema) -> Sync:
    """A schema that has marks at its top."""
    if not isinstance(schema, Sync):
        raise misfit(step, schema, "marks in order, Sync(H, S)")
    return schema


def the_header(step: Step, names: Iterable[str], named: str | None = None) -> str:
    """The one header that a step is about: the one that it names, or the only one."""
    found = tuple(names)
    if named is not None:
        if named not in found:
            raise UnknownName(
                f"{step}: header `{named}` is not there",
                hint=f"headers: {', '.join(found) or 'none'}",
            )
        return named
    if len(found) != 1:
        raise SchemaMismatch(
            f"{step} does not fit: it asks for rows of one header, and is given "
            + (f"{len(found)}: {', '.join(found)}" if found else "none"),
            hint="name the header that it is about"
            if found
            else "rows stand below marks: h[bag rows]; `window` makes some marks the outer ones",
        )
    return found[0]


def the_column(step: Step, header: Header, column: str) -> int:
    """Where a column stands in the rows of a header."""
    if column not in header.columns:
        raise UnknownName(
            f"{step}: unknown column `{column}` of header `{header.name}`",
            hint=f"columns of `{header.name}`: {', '.join(header.columns)}",
        )
    return header.columns.index(column)


def new_header(step: Step, name: str, columns: Fields) -> Header:
    """A header that a step tells, each of whose columns is there once."""
    names = [column for column, _ in columns]
    twice = [column for i, column in enumerate(names) if column in names[:i]]
    if twice:
        raise SchemaMismatch(
            f"{step} does not fit: header `{name}` would have column `{twice[0]}` twice",
            hint="give one of them another name",
        )
    return Header(name, columns)


def new_name(step: Step, name: str, schema: Schema) -> str:
    """A name for marks that no header of the schema has."""
    if name in headers_of(schema):
        raise SchemaMismatch(
            f"{step} does not fit: header `{name}` is in `{schema}` already",
            hint="give the marks another name",
        )
    return name


def chosen(headers: Headers, names: Iterable[str]) -> dict[str, Header]:
    """Some of the headers."""
    return {name: headers[name] for name in names}


def condition(
    given: Condition, header: Header, context: Context, where: str
) -> Callable[[Row], bool]:
    """A condition over rows of a header; NULL is not true."""
    if isinstance(given, str):
        compiled = context.evaluator.condition(given, header)
        return lambda row: bool(compiled(row))
    guarded = safely(given, where)
    return lambda row: bool(guarded(named(header, row)))


# --- walks ------------------------------------------------------------------------------------------------

RowMaker: TypeAlias = Callable[[Event], Iterable[Event]]


def row_by_row(
    schema: Schema, headers: Headers, makes: Mapping[str, tuple[Header, RowMaker]]
) -> Transformer:
    """Each row becomes the rows that `makes` gives for its header, in its place; rows of other headers pass."""

    def gives(names: Iterable[str]) -> dict[str, Header]:
        made = [makes[name][0] if name in makes else headers[name] for name in names]
        return {header.name: header for header in made}

    def one(event: Event) -> Iterable[Event]:
        found = makes.get(event[0])
        return found[1](event) if found else (event,)

    return _walk(
        schema,
        bag=lambda names: (
            Relational(chosen(headers, names), gives(names), each=lambda _x, event: one(event))
            if names
            else NOTHING
        ),
        sync=lambda names, sub: Hierarchical(
            chosen(headers, names), gives(names), lambda y, event: (y, one(event)), sub
        ),
    )


def passing(schema: Schema, headers: Headers) -> Transformer:
    """The identity: every row passes, in its place."""
    return row_by_row(schema, headers, {})


def replaced(
    schema: Schema, headers: Headers, at: Schema, make: Callable[[Schema], Transformer]
) -> Transformer:
    """Another transformer in the place of one sub-schema; everything around it passes."""
    if schema == at:
        return make(schema)
    match schema:
        case Bag():
            return passing(schema, headers)
        case Sync(names, sub):
            own = chosen(headers, names)
            below = replaced(sub, headers, at, make)
            return Hierarchical(own, own, lambda y, event: (y, (event,)), below)
        case PartitionBy(keys, sub):
            return Partitioned(keys, replaced(sub, headers, at, make), init=lambda _x, _key: None)
        case Par(parts):
            return beside([replaced(part, headers, at, make) for part in parts])
        case _:
            assert_never(schema)


def collecting(schema: Schema, headers: Headers, *, tell: bool) -> Transformer:
    """A stream whose final value is the list of its events, in one of its orders; told as well if `tell`."""

    def bag(names: tuple[str, ...]) -> Transformer:
        own = chosen(headers, names)
        if not own:
            return Relational({}, {}, answer=lambda _x, _events: ([], ()))
        if not tell:
            return Relational(own, {}, answer=lambda _x, events: (list(events), ()))
        return Relational(
            own, own, answer=lambda _x, events: (list(events), events), each=lambda _x, e: (e,)
        )

    def sync(names: tuple[str, ...], sub: Transformer) -> Transformer:
        own = chosen(headers, names)
        is_sequence = not headers_of(sub.input)
        return Hierarchical(
            own,
            own if tell else {},
            update=lambda y, event: (_extended(y, (event,)), (event,) if tell else ()),
            sub=NOTHING if is_sequence else sub,
            init=lambda _x: [],
            ret=LEFT_ALONE if is_sequence else _extended,
        )

    return _walk(
        schema,
        bag=bag,
        sync=sync,
        fin=lambda left, right: [*left, *right],
        agg=lambda _x, finals: ([event for _, events in finals for event in events], ()),
    )


def _extended(events: list[Event], more: Iterable[Event]) -> list[Event]:
    """A list that is handed over, with more events in it."""
    events.extend(more)
    return events


def _walk(
    schema: Schema,
    bag: Callable[[tuple[str, ...]], Transformer],
    sync: Callable[[tuple[str, ...], Transformer], Transformer],
    fin: Callable[[Any, Any], Any] = lambda _left, _right: None,
    agg: Callable[[Any, Any], Any] = lambda _x, _finals: (None, ()),
) -> Transformer:
    """A transformer of a schema's shape, by what stands for its bags and its marks."""

    def of(schema: Schema) -> Transformer:
        match schema:
            case Bag(names):
                return bag(names)
            case Sync(names, sub):
                return sync(names, of(sub))
            case PartitionBy(keys, sub):
                return Partitioned(keys, of(sub), init=lambda _x, _key: None, agg=agg)
            case Par(parts):
                return beside([of(part) for part in parts], fin)
            case _:
                assert_never(schema)

    return of(schema)


def beside(
    parts: list[Transformer], fin: Callable[[Any, Any], Any] = lambda _left, _right: None
) -> Transformer:
    """Transformers side by side, two by two."""
    *before, made = parts
    for part in reversed(before):
        made = Parallel(part, made, init=lambda _x: (None, None), fin=fin)
    return made


def collected(schema: Schema, headers: Headers, output: Schema, gives: Headers) -> Transformer:
    """The events of a stream as a value, where something else tells rows of `output` in their stead."""
    return Relaxed(collecting(schema, headers, tell=False), output=output, headers=gives)
