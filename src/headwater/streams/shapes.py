"""The four shapes as steps, and folds: transformers that have values, put together by SQL or by functions.

A piece of a computation may have a *value* at the end of the stream that it reads, which what stands around it takes:

    relational    a bag          its answer: rows, or a value
    fold          a sequence     one column of its last state
    partitioned   keys           what `agg` makes of `results`, a table with the keys and the values of all
    parallel      side by side   what `fin` makes of `lefts` and `rights`, the values of both
    hierarchical  marks          rows that `update` makes of `mark` and `result`, the value of the frame that it closes

What a value is, is said in `pieces`.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from headwater.errors import StepFailed
from headwater.streams.columns import (
    Fields,
    Row,
    bag_given,
    by_header,
    checked,
    named,
    safely,
    sort_key,
)
from headwater.streams.order import first_misfit
from headwater.streams.pieces import (
    Declared,
    Many,
    Piece,
    Query,
    as_rows,
    asked_of_all,
    emitter,
    table,
    value_of,
)
from headwater.streams.schema import (
    Bag,
    Event,
    Header,
    Headers,
    Par,
    PartitionBy,
    Schema,
    Seq,
    headers_of,
)
from headwater.streams.steps import Context, Facts, Step, cells, chosen, marks_of, misfit
from headwater.streams.transformer import (
    NO_CALL,
    TAKEN,
    Hierarchical,
    Parallel,
    Partitioned,
    Relational,
    Relaxed,
    Transformer,
)

# --- bags -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RelationalStep(Piece):
    """The answer of a query over a bag, when it is over: rows of the header `gives`, or else a value.

    SQL reads the headers as tables. A function is given the rows (of several headers, a dict of them) in the order of
    their values; `columns` declares what it gives.
    """

    word: ClassVar[str] = "relational"
    query: Query
    gives: str | None = None
    columns: Fields | None = None

    def answer_columns(self, headers: Headers, context: Context) -> Fields | None:
        """The columns of the answer."""
        if isinstance(self.query, str):
            return context.evaluator.columns(self.query, headers)
        return self.columns

    def answers(
        self, headers: Headers, context: Context
    ) -> Callable[[Sequence[Sequence[Event]]], Sequence[Any]]:
        """The answers over the events of bags: rows if the columns are known, else what the function gives."""
        query = self.query
        if isinstance(query, str):
            text = query
            return lambda bags: asked_of_all(
                context,
                text,
                [
                    {h: (headers[h], rows) for h, rows in by_header(events, headers).items()}
                    for events in bags
                ],
            )
        function, columns = safely(query, str(self)), self.columns
        if columns is None:
            return lambda bags: [function(bag_given(events, headers)) for events in bags]
        return lambda bags: [
            [
                checked(row, columns, str(self))
                for row in as_rows(function(bag_given(events, headers)))
            ]
            for events in bags
        ]

    def told(self, headers: Headers, context: Context) -> Header | None:
        """The header of the rows that are told."""
        if self.gives is None:
            return None
        columns = self.answer_columns(headers, context)
        if columns is None:
            raise StepFailed(
                f"{self}: the columns of `{self.gives}` are not declared",
                hint='relational(function, gives="name", columns="state STRING, cases BIGINT")',
            )
        return Header(self.gives, columns)

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        own, context = chosen(headers, headers_of(schema)), context or Context()
        answers, header = self.answers(own, context), self.told(own, context)

        def values(given: Sequence[tuple[Any, ...]]) -> list[Any]:
            return [(value, ()) for value in answers([events for _x, events in given])]

        def rows(given: Sequence[tuple[Any, ...]]) -> list[Any]:
            assert header is not None
            name, row = header.name, header.row
            found = answers([events for _x, events in given])
            return [(None, [Event(name, row(*cells)) for cells in rows]) for rows in found]

        if header is None:
            made = Relational(own, {}, answer=Many(values))
        else:
            made = Relational(own, {header.name: header}, answer=Many(rows))
        return made if isinstance(schema, Bag) else Relaxed(made, input=schema)

    def value(self, schema: Schema, headers: Headers, context: Context) -> Fields | None:
        own = chosen(headers, headers_of(schema))
        return self.answer_columns(own, context) if self.gives is None else None

    def facts(self, schema: Schema, headers: Headers, context: Context) -> Facts:
        told, told_headers = self.typed(schema, headers, context)
        fewer = isinstance(self.query, str) and context.evaluator.fewer(self.query)
        read = cells(schema, headers)
        return Facts(read, read | cells(told, told_headers), fewer=fewer)


# --- sequences --------------------------------------------------------------------------------------------


class Advance:
    """The update of a fold: of one row, or of many rows in order, of which no event is made."""

    def __init__(
        self, f: Callable[..., Any], state: Fields, headers: Headers, gives: Headers, where: str
    ):
        make: Any = namedtuple  # its fields are known only now
        self.named: Any = make("State", [name for name, _ in state], rename=True)
        self.f, self.safe, self.state = f, safely(f, where), state
        self.headers, self.gives, self.where = headers, gives, where
        self._telling = emitter(gives, where)
        self._fine: set[tuple[type, ...]] = set()
        """The types of the values of states that are kept as they are."""

    def __call__(self, y: Row, event: Event) -> tuple[Row, list[Event]]:
        emit, told = emitter(self.gives, self.where)
        after = self.safe(self.named(*y), named(self.headers[event[0]], event[1]), emit)
        return checked(after, self.state, self.where), told

    def runs(
        self, ys: Sequence[Row], rows: Sequence[Row], bounds: Sequence[int]
    ) -> tuple[list[Row], list[tuple[int, Event]]]:
        """The states of several sequences after rows in order, and what is told, with the number of the row that tells it.

        The rows of each sequence stand behind those of the one before, from a bound up to the next.
        """
        f, fine, new, cls = self.f, self._fine, tuple.__new__, self.named
        emit, told = self._telling
        told.clear()  # of a run that failed
        out: list[tuple[int, Event]] = []
        states = []
        for y, (a, b) in zip(ys, pairwise(bounds), strict=True):
            state = new(cls, y)
            for i in range(a, b):
                row = rows[i]
                try:
                    after = f(state, row, emit)
                except Exception:
                    told.clear()  # it is called again
                    after = self.safe(state, row, emit)  # says what was called with what
                if type(after) is tuple and tuple(map(type, after)) in fine:
                    state = new(cls, after)
                elif after is not state:
                    state = new(cls, self._checked(after))
                if told:
                    out += [(i, e) for e in told]
                    told.clear()
            states.append(tuple(state))
        return states, out

    def _checked(self, after: Any) -> Row:
        made = checked(after, self.state, self.where)
        if all(a is b for a, b in zip(made, after, strict=True)):
            self._fine.add(tuple(map(type, made)))
        return made


@dataclass(frozen=True)
class Fold(Piece):
    """A state carried over a sequence: `f(state, row, emit)` gives the next one, and may `emit("header", *values)`.

    It begins with the value that it is given by what stands around it, a state; else with `start`, or with all columns
    NULL. The value is the column `result` of the last state, or the state.
    """

    word: ClassVar[str] = "fold"
    f: Callable[..., Any]
    state: Fields
    result: str | None = None
    gives: Declared = ()
    start: Row | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        own = chosen(headers, headers_of(schema))
        sequence = Seq(own)
        if (found := first_misfit(sequence, schema)) is not None:
            raise misfit(
                self,
                schema,
                "a sequence, Seq(H)",
                "order the rows, or partition them by a key",
                found,
            )
        if self.result is not None:
            self._place()
        advance, begin = self.advance(own), self.begin()
        made = Hierarchical(
            own,
            {name: Header(name, columns) for name, columns in self.gives},
            update=advance,
            init=lambda x: begin if x is None else self._given(x),
            fin=lambda y: (self._result(y), ()),
        )
        return made if schema == sequence else Relaxed(made, input=schema)

    def begin(self) -> Row:
        """The first state."""
        if self.start is None:
            return (None,) * len(self.state)
        return checked(self.start, self.state, str(self))

    def _given(self, x: Any) -> Row:
        """A state that it is given, as such or as the value of a fold, a table of one row."""
        return checked(x[0] if isinstance(x, list) and len(x) == 1 else x, self.state, str(self))

    def advance(self, headers: Headers) -> Advance:
        """One row: the next state, and what is told."""
        gives = {name: Header(name, columns) for name, columns in self.gives}
        return Advance(self.f, self.state, headers, gives, str(self))

    def _result(self, y: Row) -> list[Row]:
        if self.result is None:
            return [y]
        return [(y[self._place()],)]

    def _place(self) -> int:
        names = [name for name, _ in self.state]
        if self.result not in names:
            raise StepFailed(
                f"{self}: `{self.result}` is no column of its state",
                hint=f"columns of its state: {', '.join(names)}",
            )
        return names.index(self.result)

    def value(self, schema: Schema, headers: Headers, context: Context) -> Fields | None:
        return self.state if self.result is None else (self.state[self._place()],)


# --- keys -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionedStep(Piece):
    """A piece for each key; `agg` makes one value of theirs, or rows of the header `gives`.

    SQL reads `results`, a table with the keys and the columns of the values. A function is given its rows, or pairs of
    key and value where the columns are not known. Without `agg` the value is the table itself. `init(x, key)` gives each
    piece what it begins with, of what this is given.
    """

    word: ClassVar[str] = "partitioned"
    sub: Step
    agg: Query | None = None
    gives: str | None = None
    columns: Fields | None = None
    init: Callable[[Any, Row], Any] | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        keyed, context = self._keyed(schema), context or Context()
        sub = self.sub.transformer(keyed.sub, headers, context)
        results = self._results(keyed, headers, context)
        answers = self._answers(results, self._kept(keyed, headers, context), context)

        def values(given: Sequence[tuple[Any, ...]]) -> list[Any]:
            return [(value, ()) for value in answers([finals for _x, finals in given])]

        init = safely(self.init, str(self)) if self.init else lambda x, _key: x
        if self.gives is None:
            return Partitioned(keyed.keys, sub, init=init, agg=Many(values))
        columns = self._answer_columns(results, context)
        if columns is None:
            raise StepFailed(
                f"{self}: the columns of `{self.gives}` are not declared",
                hint='partitioned(piece, agg=function, gives="name", columns="km DOUBLE")',
            )
        header = Header(self.gives, columns)

        def rows(given: Sequence[tuple[Any, ...]]) -> list[Any]:
            found = answers([finals for _x, finals in given])
            return [
                (None, [Event(header.name, header.row(*row)) for row in rows]) for rows in found
            ]

        return Partitioned(keyed.keys, sub, {header.name: header}, init=init, agg=Many(rows))

    def value(self, schema: Schema, headers: Headers, context: Context) -> Fields | None:
        if self.gives is not None:
            return None
        return self._answer_columns(self._results(self._keyed(schema), headers, context), context)

    def _keyed(self, schema: Schema) -> PartitionBy:
        if not isinstance(schema, PartitionBy):
            raise misfit(self, schema, "streams by key, PartitionBy(K, S)")
        return schema

    def _results(self, schema: PartitionBy, headers: Headers, context: Context) -> Header | None:
        """The table of all values, if their columns are known."""
        columns = value_of(self.sub, schema.sub, headers, context)
        if columns is None:
            return None
        first = headers[headers_of(schema)[0]]
        keys = tuple((key, dict(first.fields)[key]) for key in schema.keys)
        return Header("results", keys + tuple(c for c in columns if c[0] not in schema.keys))

    def _answer_columns(self, results: Header | None, context: Context) -> Fields | None:
        if self.agg is None:
            return results.fields if results else None
        if isinstance(self.agg, str):
            made = table(self, "results", results.fields if results else None)
            return context.evaluator.columns(self.agg, {"results": made})
        return self.columns

    def _kept(self, schema: PartitionBy, headers: Headers, context: Context) -> list[int]:
        """Which columns of a value are no keys, for those are in the table already."""
        columns = value_of(self.sub, schema.sub, headers, context) or ()
        return [i for i, (name, _) in enumerate(columns) if name not in schema.keys]

    def _answers(
        self, results: Header | None, kept: list[int], context: Context
    ) -> Callable[[Sequence[Sequence[tuple[Row, Any]]]], Sequence[Any]]:
        def rows(finals: Sequence[tuple[Row, Any]]) -> list[Row]:
            assert results is not None
            make = results.row
            made = [
                make(*key, *(row[i] for i in kept))
                for key, value in finals
                for row in as_rows(value)
            ]
            return sorted(made, key=sort_key)

        def pairs(finals: Sequence[tuple[Row, Any]]) -> list[tuple[Row, Any]]:
            return sorted(finals, key=lambda final: sort_key(final[0]))

        agg = self.agg
        given: Callable[[Any], Any] = rows if results else pairs
        if agg is None:
            return lambda many: [given(finals) for finals in many]
        if isinstance(agg, str):
            text, made = agg, table(self, "results", results.fields if results else None)
            return lambda many: asked_of_all(
                context, text, [{"results": (made, rows(finals))} for finals in many]
            )
        function, columns = safely(agg, str(self)), self.columns
        if columns is None:
            return lambda many: [function(given(finals)) for finals in many]
        return lambda many: [
            [checked(row, columns, str(self)) for row in as_rows(function(given(finals)))]
            for finals in many
        ]


# --- side by side -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParallelStep(Piece):
    """Two pieces side by side; `fin` makes one value of theirs. SQL reads them as `lefts` and `rights`.

    The left piece has the first part of the Par, the right one the others. `init(x)` gives both what they begin with.
    """

    word: ClassVar[str] = "parallel"
    left: Step
    right: Step
    fin: Query | None = None
    columns: Fields | None = None
    init: Callable[[Any], tuple[Any, Any]] | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        context = context or Context()
        first, second = self._sides(schema)
        return Parallel(
            self.left.transformer(first, headers, context),
            self.right.transformer(second, headers, context),
            init=safely(self.init, str(self)) if self.init else lambda x: (x, x),
            fin=self._fin(schema, headers, context),
        )

    def _sides(self, schema: Schema) -> tuple[Schema, Schema]:
        if not isinstance(schema, Par):
            raise misfit(self, schema, "streams side by side, Par(S, S)")
        rest = schema.parts[1:]
        return schema.parts[0], rest[0] if len(rest) == 1 else Par(*rest)

    def _tables(self, schema: Schema, headers: Headers, context: Context) -> tuple[Header, Header]:
        first, second = self._sides(schema)
        return (
            table(self, "lefts", value_of(self.left, first, headers, context)),
            table(self, "rights", value_of(self.right, second, headers, context)),
        )

    def _fin(self, schema: Schema, headers: Headers, context: Context) -> Callable[[Any, Any], Any]:
        if self.fin is None:
            return lambda left, right: (left, right)
        if not isinstance(self.fin, str):
            return safely(self.fin, str(self))
        text, (lefts, rights) = self.fin, self._tables(schema, headers, context)
        return Many(
            lambda given: asked_of_all(
                context,
                text,
                [
                    {"lefts": (lefts, as_rows(left)), "rights": (rights, as_rows(right))}
                    for left, right in given
                ],
            )
        )

    def value(self, schema: Schema, headers: Headers, context: Context) -> Fields | None:
        if not isinstance(self.fin, str):
            return self.columns
        lefts, rights = self._tables(schema, headers, context)
        return context.evaluator.columns(self.fin, {"lefts": lefts, "rights": rights})


# --- marks ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HierarchicalStep(Piece):
    """A piece over each frame; at the mark that closes it, `update` tells rows of `gives`, in order.

    SQL reads `mark`, a table of one row, and `result`, the value of the frame. A function is called as
    update(y, mark, emit) and gives the next y; `ret(y, value)` takes the value of a frame into y before that (without
    it, y is that value), `init` gives the first y, `call(y)` what the piece begins with, `fin(y)` the value at the end.
    """

    word: ClassVar[str] = "hierarchical"
    sub: Step
    update: Query
    gives: Declared | str = ()
    init: Callable[[], Any] | None = None
    call: Callable[[Any], Any] | None = None
    ret: Callable[[Any, Any], Any] | None = None
    fin: Callable[[Any], Any] | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        context, marked = context or Context(), marks_of(self, schema)
        marks = chosen(headers, marked.headers)
        sub = self.sub.transformer(marked.sub, headers, context)
        if isinstance(self.update, str):
            gives, update = self._by_sql(marks, marked.sub, headers, context)
        else:
            gives, update = self._by_function(marks)
        init, call, ret, fin = (
            safely(given, str(self)) if given else None
            for given in (self.init, self.call, self.ret, self.fin)
        )
        return Hierarchical(
            marks,
            gives,
            update,
            sub,
            init=lambda _x: init() if init else None,
            call=call or NO_CALL,
            ret=ret or TAKEN,
            fin=lambda y: (fin(y) if fin else None, ()),
        )

    def _by_sql(
        self, marks: Headers, sub: Schema, headers: Headers, context: Context
    ) -> tuple[dict[str, Header], Callable[[Any, Event], tuple[Any, list[Event]]]]:
        assert isinstance(self.update, str)
        if not isinstance(self.gives, str) or len(marks) != 1:
            raise StepFailed(
                f"{self}: SQL tells rows of one header, at marks of one header",
                hint='hierarchical(piece, update="SELECT ...", gives="rates")',
            )
        text = self.update
        mark = Header("mark", next(iter(marks.values())).fields)
        result = table(self, "result", value_of(self.sub, sub, headers, context))
        columns = context.evaluator.columns(text, {"mark": mark, "result": result})
        header = Header(self.gives, columns)

        def updates(given: Sequence[tuple[Any, ...]]) -> list[Any]:
            many = [
                {"mark": (mark, [event[1]]), "result": (result, as_rows(y))} for y, event in given
            ]
            name, row = header.name, header.row
            return [
                (None, [Event(name, row(*cells)) for cells in rows])
                for rows in asked_of_all(context, text, many)
            ]

        return {header.name: header}, Many(updates)

    def _by_function(
        self, marks: Headers
    ) -> tuple[dict[str, Header], Callable[[Any, Event], tuple[Any, list[Event]]]]:
        assert not isinstance(self.update, str)
        if isinstance(self.gives, str):
            raise StepFailed(
                f"{self}: the columns of `{self.gives}` are not declared",
                hint='hierarchical(piece, update=function, gives={"rates": "hour TIMESTAMP, rate DOUBLE"})',
            )
        gives = {name: Header(name, columns) for name, columns in self.gives}
        function, where = safely(self.update, str(self)), str(self)

        def update(y: Any, event: Event) -> tuple[Any, list[Event]]:
            emit, told = emitter(gives, where)
            return function(y, named(marks[event[0]], event[1]), emit), told

        return gives, update
