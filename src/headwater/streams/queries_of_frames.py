"""The library of steps: what is made of one frame, or of one bag.

aggregate    what a query says of each frame: as rows in order, or as columns of the mark that closes it
highest      the rows of a frame with the highest value, all that tie
frames       a query over each frame, for marks that satisfy a condition
map_reduce   rows mapped, then all rows of a key made rows of an answer
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from headwater.errors import SchemaMismatch, StepFailed
from headwater.streams.columns import Fields, Row, bag_given, in_order, rows_given, safely
from headwater.streams.pieces import Many, Query, asked, asked_of_all
from headwater.streams.queries import Lift, Map, Rewrite, read_by
from headwater.streams.schema import (
    Bag,
    Event,
    Header,
    Headers,
    Schema,
    Sync,
    headers_of,
)
from headwater.streams.shapes import RelationalStep
from headwater.streams.steps import (
    ROWS,
    Condition,
    Context,
    Facts,
    Step,
    cells,
    chosen,
    collected,
    collecting,
    condition,
    marks_of,
    new_header,
    the_column,
    the_header,
)
from headwater.streams.transformer import (
    TAKEN,
    Composed,
    Hierarchical,
    Partitioned,
    Relational,
    Relaxed,
    Transformer,
)

Frame: TypeAlias = tuple[Sequence[Event], Event]
"""The events of a frame, and the mark that closes it."""
Keep: TypeAlias = Literal["answer", "mark", "rows", "all"]


@dataclass(frozen=True)
class Aggregate(Step):
    """What a query says of each frame, at the mark that closes it.

    `keep` says what is told: "answer", the answer's rows of header `gives` in order; "mark", the mark with the columns of
    the answer (which is one row); "rows", the answer's rows in order and the frame's rows between them; "all", the mark
    with the columns, and the frame's rows. SQL reads the headers of the frame's rows, and `mark`.
    """

    word: ClassVar[str] = "aggregate"
    query: Query
    gives: str | None = None
    keep: Keep = "answer"
    columns: Fields | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        marked, context = marks_of(self, schema), context or Context()
        if self.keep not in ("answer", "mark", "rows", "all"):
            raise StepFailed(f"{self}: `keep` is answer, mark, rows or all")
        marks, below = chosen(headers, marked.headers), chosen(headers, headers_of(marked.sub))
        extends = self.keep in ("mark", "all")
        gives, make = (
            self._extended(marks, below, context) if extends else self._told(marks, below, context)
        )
        sub = collecting(marked.sub, headers, tell=self.keep in ("rows", "all"))
        return Hierarchical(
            marks,
            gives,
            update=Many(lambda given: [([], told) for told in make(given)]),
            sub=sub,
            init=lambda _x: [],
            ret=TAKEN,
            fin=lambda _y: (None, ()),
        )

    def _answers(
        self, mark: Header, below: Headers, context: Context
    ) -> tuple[Fields, Callable[[Sequence[Frame]], list[list[Row]]]]:
        """The columns of the answer, and the answers over frames, each the events and the mark."""
        if "mark" in below:
            raise SchemaMismatch(
                f"{self} does not fit: a header of the rows is called `mark`, as the mark is in its query",
                hint="give the rows another name, with map",
            )
        tables = {**below, "mark": Header("mark", mark.fields)}
        if isinstance(self.query, str):
            text = self.query

            def rows(frame: Frame) -> dict[str, tuple[Header, list[Row]]]:
                found: dict[str, tuple[Header, list[Row]]] = {h: (tables[h], []) for h in tables}
                for name, row in frame[0]:
                    found[name][1].append(row)
                found["mark"][1].append(frame[1][1])
                return found

            columns = context.evaluator.columns(text, tables)
            return columns, lambda frames: asked_of_all(context, text, [*map(rows, frames)])
        if self.columns is None:
            raise StepFailed(
                f"{self}: the columns of its answer are not declared",
                hint='aggregate(function, columns="total DOUBLE")',
            )
        columns, function, place = self.columns, safely(self.query, str(self)), str(self)
        header = Header("answer", columns)
        return columns, lambda frames: [
            [e.row for e in rows_given(function(bag_given(events, below)), header, place)]
            for events, _ in frames
        ]

    def _told(
        self, marks: Headers, below: Headers, context: Context
    ) -> tuple[dict[str, Header], Callable[[Sequence[Frame]], list[list[Event]]]]:
        """Rows of the answer in order, in the place of the marks."""
        if self.gives is None:
            raise StepFailed(
                f"{self}: the header of the answer's rows has no name",
                hint='aggregate(query, gives="totals"), or keep="mark" for columns of the mark',
            )
        columns, answers = self._answers(marks[the_header(self, marks)], below, context)
        header = Header(self.gives, columns)
        return {header.name: header}, lambda frames: [
            [Event(header.name, header.row(*row)) for row in rows] for rows in answers(frames)
        ]

    def _extended(
        self, marks: Headers, below: Headers, context: Context
    ) -> tuple[dict[str, Header], Callable[[Sequence[Frame]], list[list[Event]]]]:
        """The marks, with the columns of the answer behind their own."""
        gives, answers = {}, {}
        for name, mark in marks.items():
            columns, answers[name] = self._answers(mark, below, context)
            gives[name] = new_header(self, name, mark.fields + columns)

        def extended(mark: Event, rows: list[Row]) -> list[Event]:
            if len(rows) != 1:
                raise StepFailed(
                    f"{self}: the answer at {Event(*mark)} has {len(rows)} rows, and the mark is one",
                    hint="an aggregate without GROUP BY has one row",
                )
            return [Event(mark[0], gives[mark[0]].row(*mark[1], *rows[0]))]

        def make(frames: Sequence[Frame]) -> list[list[Event]]:
            told: list[list[Event]] = [[]] * len(frames)
            for name in gives:
                own = [i for i, (_, mark) in enumerate(frames) if mark[0] == name]
                found = answers[name]([frames[i] for i in own])
                for i, rows in zip(own, found, strict=True):
                    told[i] = extended(frames[i][1], rows)
            return told

        return gives, make


@dataclass(frozen=True)
class Highest(Step):
    """The rows of each frame with the highest value of a column, all that tie; an empty frame has none.

    They come in order in the place of the marks; with keep="mark" the marks stay, and the rows are a bag before them.
    NULL is never the highest, and NaN is greater than all numbers.
    """

    word: ClassVar[str] = "highest"
    column: str
    of: str | None = None
    keep: Literal["answer", "mark"] = "answer"

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        marked = marks_of(self, schema)
        name = the_header(self, headers_of(marked.sub), self.of)
        place, marks = the_column(self, headers[name], self.column), chosen(headers, marked.headers)
        below, own = chosen(headers, headers_of(marked.sub)), {name: headers[name]}

        def highest(events: Sequence[Event]) -> list[Event]:
            rated = [
                (_rank(e[1][place]), e) for e in events if e[0] == name and e[1][place] is not None
            ]
            most = max((rank for rank, _ in rated), default=None)
            return in_order(e for rank, e in rated if rank == most)

        if self.keep == "mark":
            tells: Transformer = Relational(below, own, answer=lambda _x, es: (None, highest(es)))
            made = Hierarchical(marks, marks, lambda y, mark: (y, (mark,)), tells)
        else:
            value = Relational(below, {}, answer=lambda _x, events: (highest(events), ()))
            made = Hierarchical(
                marks,
                own,
                update=Many(lambda given: [([], events) for events, _mark in given]),
                sub=value,
                init=lambda _x: [],
                ret=TAKEN,
                fin=lambda _y: (None, ()),
            )
        return made if isinstance(marked.sub, Bag) else Relaxed(made, input=schema)


def _rank(value: Any) -> tuple[int, Any]:
    """What values are compared by: NaN is the greatest."""
    return (1, 0) if value != value else (0, value)


@dataclass(frozen=True)
class Frames(Step):
    """A query over each frame's bag, kept only where the mark that closes the frame satisfies a condition.

    Without a query the frame's rows are kept as they are. What stands behind the last mark has no mark yet, and is not
    told. With both it is two steps, which `cut` gives: the query knows nothing of marks, so it may be moved.
    """

    word: ClassVar[str] = "frames"
    query: Query | None = None
    gives: str | None = None
    where: Condition | None = None
    columns: Fields | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        marked, context = marks_of(self, schema), context or Context()
        cut = self.cut(schema)
        if cut is not None:
            first = cut[0].transformer(schema, headers, context)
            return Composed(first, cut[1].transformer(first.output, first.headers_out, context))
        if self.query is not None:
            return self._lifted(marked).transformer(schema, headers, context)
        marks = chosen(headers, marked.headers)
        holds = {
            name: condition(self.where, header, context, str(self))
            if self.where is not None
            else None
            for name, header in marks.items()
        }

        def update(events: list[Event], mark: Event) -> tuple[list[Event], list[Event]]:
            test = holds[mark[0]]
            return [], [*events, mark] if test is None or test(mark[1]) else [mark]

        return Hierarchical(
            marks,
            marks,
            Many(lambda given: [update(*frame) for frame in given]),
            sub=collected(marked.sub, headers, marked.sub, headers),
            init=lambda _x: [],
            ret=TAKEN,
            fin=lambda _y: (None, ()),
        )

    def _lifted(self, schema: Sync) -> Step:
        assert self.query is not None
        if self.gives is None:
            raise StepFailed(
                f"{self}: the header of its rows has no name",
                hint='frames(query, gives="contributing")',
            )
        return Lift(schema.sub, RelationalStep(self.query, self.gives, self.columns))

    def cut(self, schema: Schema) -> tuple[Step, Step] | None:
        """The query for every frame, and then the frames that are kept."""
        if self.query is None or self.where is None:
            return None
        return self._lifted(marks_of(self, schema)), Frames(where=self.where)

    def facts(self, schema: Schema, headers: Headers, context: Context) -> Facts:
        marked = marks_of(self, schema)
        marks = frozenset((h, ROWS) for h in marked.headers)
        if self.where is not None:
            marks |= {
                (h, c) for h in marked.headers for c in read_by(self.where, headers[h], context)
            }
        below = cells(marked.sub, headers)
        told = frozenset(
            cell
            for cell in cells(*self.typed(schema, headers, context))
            if cell[0] not in marked.headers
        )
        if self.query is None:
            return Facts(marks, frozenset((h, ROWS) for h in headers_of(marked.sub)), fewer=True)
        fewer = isinstance(self.query, str) and context.evaluator.fewer(self.query)
        return Facts(marks | below, below | told, fewer=fewer)


# --- bags by key, and whole streams -----------------------------------------------------------------------


@dataclass(frozen=True)
class MapReduce(Step):
    """The rows of a bag mapped, then all rows of a key given to `reduce`, which makes the rows of header `gives`.

    `reduce` is SQL over the mapped rows, which it groups by the keys itself, or a function of the rows of one key.
    """

    word: ClassVar[str] = "map_reduce"
    map: Rewrite
    by: tuple[str, ...]
    reduce: Query
    gives: str
    columns: Fields | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        context = context or Context()
        name = the_header(self, headers_of(schema))
        mapped = Map(((name, self.map),)).transformer(Bag(name), headers, context)
        header = self.map.header(headers[name], context)
        for key in self.by:
            the_column(self, header, key)
        own = {header.name: header}
        if isinstance(self.reduce, str):
            reduced = self._by_sql(header, context)
        else:
            reduced = self._by_function(header)
        rows = Relational(own, {}, answer=lambda _x, events: (list(events), ()))
        gives, agg = reduced
        second = Relaxed(
            Partitioned(
                self.by, rows, {gives.name: gives}, agg=lambda _x, finals: (None, agg(finals))
            ),
            input=Bag(header.name),
        )
        made = Composed(mapped, second)
        return made if isinstance(schema, Bag) else Relaxed(made, input=schema)

    def _by_sql(
        self, header: Header, context: Context
    ) -> tuple[Header, Callable[[Any], list[Event]]]:
        assert isinstance(self.reduce, str)
        text = self.reduce
        gives = Header(self.gives, context.evaluator.columns(text, {header.name: header}))

        def agg(finals: Sequence[tuple[Row, list[Event]]]) -> list[Event]:
            rows = [row for _, events in finals for _, row in events]
            found = asked(context, text, {header.name: (header, rows)})
            return [Event(gives.name, gives.row(*row)) for row in found]

        return gives, agg

    def _by_function(self, header: Header) -> tuple[Header, Callable[[Any], list[Event]]]:
        assert not isinstance(self.reduce, str)
        if self.columns is None:
            raise StepFailed(
                f"{self}: the columns of `{self.gives}` are not declared",
                hint='map_reduce(map, by, reduce, gives="counts", columns="word STRING, n BIGINT")',
            )
        gives, function, place = (
            Header(self.gives, self.columns),
            safely(self.reduce, str(self)),
            str(self),
        )
        return gives, lambda finals: [
            event
            for _, events in finals
            for event in rows_given(
                function(bag_given(events, {header.name: header})), gives, place
            )
        ]
