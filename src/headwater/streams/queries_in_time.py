"""The library of steps: marks between rows in order, and frames that a pattern of marks matches.

    every          marks of a clock, put between the rows
    mark           marks where a stretch of rows ends that matches a pattern
    join, union    the bags of frames that a pattern of their marks matches, joined or together

A join keeps for each position of its pattern one relation, that of the most recent stretch which leads there: the
shortest match is asked for. So it never keeps more relations than the pattern has predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeAlias

from headwater.errors import SchemaMismatch, StepFailed, UnknownName
from headwater.streams.clock import Clock, clock
from headwater.streams.columns import Row, in_order, sort_key
from headwater.streams.regex import Automaton, Regex, automaton
from headwater.streams.schema import (
    Bag,
    Event,
    Header,
    Headers,
    Schema,
    headers_of,
)
from headwater.streams.steps import (
    Context,
    Step,
    chosen,
    collected,
    condition,
    marks_of,
    new_header,
    new_name,
    passing,
    the_column,
    the_header,
)
from headwater.streams.transformer import Hierarchical, Relaxed, Transformer

# --- marks ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Every(Step):
    """Marks of a clock between rows in order, in a header of one column: the order column, with the mark's time.

    A mark at T stands before the rows at T. The first frame is that of the first row; a frame without rows has its mark
    too, and the end of the stream closes the frame of the last row.
    """

    word: ClassVar[str] = "every"
    interval: str | int | timedelta
    name: str
    column: str | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        marked, context = marks_of(self, schema), context or Context()
        marks = chosen(headers, marked.headers)
        if self.name in headers_of(schema):
            raise SchemaMismatch(
                f"{self} does not fit: header `{self.name}` is in `{schema}` already",
                hint="give the marks another name",
            )
        places = {name: self._place(marks[name], context) for name in marks}
        kinds = {marks[name].fields[place] for name, place in places.items()}
        if len(kinds) != 1:
            raise SchemaMismatch(
                f"{self} does not fit: the order columns differ: {', '.join(f'{n} {k}' for n, k in sorted(kinds, key=str))}",
                hint="one column, of one type, orders all marks",
            )
        ((column, kind),) = kinds
        ticks = clock(self.interval, kind)
        tick = Header(new_name(self, self.name, schema), ((column, kind),))

        return Hierarchical(
            marks,
            {**marks, self.name: tick},
            Ticking(str(self), ticks, tick, places),
            sub=passing(marked.sub, headers),
            init=lambda _x: None,
            fin=lambda last: (None, [tick.event(ticks.after(last))] if last is not None else []),
        )

    def _place(self, header: Header, context: Context) -> int:
        column = self.column or context.order_of(header.name)
        if column is None:
            raise UnknownName(
                f"{self}: header `{header.name}` has no order column",
                hint='name it: every("10 minutes", "tick", column="ts")',
            )
        return the_column(self, header, column)


@dataclass(frozen=True)
class Ticking:
    """The update of `every`, for one row or for many in order; the state is the mark whose frame the last row is in."""

    where: str
    ticks: Clock
    tick: Header
    places: dict[str, int]

    def __call__(self, last: Any, event: Event) -> tuple[Any, list[Event]]:
        last, marks = self._to(last, event[1][self.places[event[0]]], event)
        return last, [*marks, event]

    def runs(
        self, lasts: Sequence[Any], rows: Sequence[Row], bounds: Sequence[int]
    ) -> tuple[list[Any], list[tuple[int, Event]]]:
        """The same for several sequences of rows of the one header that there is, each from a bound up to the next.

        Each thing that is told has the number of its row.
        """
        ((name, place),) = self.places.items()
        told: list[tuple[int, Event]] = []
        after = []
        for last, (a, b) in zip(lasts, pairwise(bounds), strict=True):
            following = None if last is None else self.ticks.after(last)
            for i in range(a, b):
                event = Event(name, rows[i])
                at = event.row[place]
                if last is None or at is None or not last <= at < following:
                    last, marks = self._to(last, at, event)
                    following = self.ticks.after(last)
                    told += [(i, mark) for mark in marks]
                told.append((i, event))
            after.append(last)
        return after, told

    def _to(self, last: Any, at: Any, event: Event) -> tuple[Any, list[Event]]:
        """The mark whose frame a time is in, and the marks after the last one up to it; before the first row are none."""
        if at is None or (last is not None and at < last):
            late = "without a time" if at is None else f"that comes after the mark at {last}"
            raise StepFailed(
                f"{self.where}: a row {late}: {Event(*event)}",
                hint=f"rows are read in the order of `{self.tick.columns[0]}`, and none has NULL there",
            )
        now = self.ticks.floor(at)
        found, mark = [], now if last is None else self.ticks.after(last)
        while last is not None and mark <= now:
            found.append(self.tick.event(mark))
            mark = self.ticks.after(mark)
        return now, found


@dataclass(frozen=True)
class Mark(Step):
    """A row becomes a mark of header `name` where some stretch of rows that ends there matches a pattern.

    With `keep` the row stays, and the mark comes behind it. A mark has the columns that all rows have which it may mark.
    """

    word: ClassVar[str] = "mark"
    regex: Regex
    name: str
    keep: bool = False

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        marked, context = marks_of(self, schema), context or Context()
        marks, pattern = chosen(headers, marked.headers), automaton(self.regex)
        bits = bits_reader(self, pattern, marks, context)
        first = next(iter(marks.values()))
        common = tuple(f for f in first.fields if all(f in h.fields for h in marks.values()))
        made = Header(new_name(self, self.name, schema), common)
        places = {name: h.places(made.columns) for name, h in marks.items()}
        return Hierarchical(
            marks,
            {**marks, self.name: made},
            Marking(pattern, bits, made, places, self.keep),
            sub=passing(marked.sub, headers),
            init=lambda _x: Automaton.START,
            fin=lambda _y: (None, ()),
        )


@dataclass(frozen=True)
class Marking:
    """The update of `mark`, for one row or for many in order; the state is that of the automaton."""

    pattern: Automaton
    bits: Callable[[Event], int]
    made: Header
    places: dict[str, tuple[int, ...]]
    keep: bool

    def __call__(self, state: int, event: Event) -> tuple[int, list[Event]]:
        state = self.pattern.search(state, self.bits(event))
        return state, self._told(event) if self.pattern.matches(state) else [event]

    def runs(
        self, states: Sequence[int], rows: Sequence[Row], bounds: Sequence[int]
    ) -> tuple[list[int], list[tuple[int, Event]]]:
        """The same for several sequences of rows of the one header that there is, each from a bound up to the next.

        Each thing that is told has the number of its row.
        """
        (name,) = self.places
        events = [Event(name, row) for row in rows]
        matched, after = self.pattern.scan.run_groups([*map(self.bits, events)], bounds, states)
        return after, [
            (i, told)
            for i, (event, here) in enumerate(zip(events, matched.tolist(), strict=True))
            for told in (self._told(event) if here else (event,))
        ]

    def _told(self, event: Event) -> list[Event]:
        """A row that is marked: the mark, behind the row if that is kept."""
        mark = self.made.event(*(event[1][place] for place in self.places[event[0]]))
        return [event, mark] if self.keep else [mark]


def bits_reader(
    step: Step, pattern: Automaton, marks: Headers, context: Context
) -> Callable[[Event], int]:
    """Which predicates of a pattern hold of a mark, as bits."""
    tests: dict[str, list[Callable[[Row], bool] | bool]] = {name: [] for name in marks}
    for predicate in pattern.predicates:
        if predicate.header is not None and predicate.header not in marks:
            raise UnknownName(
                f"{step}: `{predicate}` speaks of header `{predicate.header}`, which is none of the marks",
                hint=f"marks: {', '.join(marks)}",
            )
        for name, header in marks.items():
            if predicate.header not in (None, name):
                tests[name].append(False)
            elif predicate.condition is None:
                tests[name].append(True)
            else:
                tests[name].append(condition(predicate.condition, header, context, str(step)))

    def bits(event: Event) -> int:
        row, found = event[1], 0
        for i, test in enumerate(tests[event[0]]):
            if test is True or (test is not False and test(row)):
                found |= 1 << i
        return found

    return bits


# --- frames that a pattern matches ------------------------------------------------------------------------

Run: TypeAlias = tuple[int, list[Event]]
"""When a stretch began, by the number of its frame, and the rows of it that are kept."""
Matched: TypeAlias = Callable[[list[Event], list[Event], bool], list[Event]]


def _over_matches(
    step: Join | Union,
    schema: Schema,
    headers: Headers,
    context: Context,
    gives: Header,
    told: Matched,
) -> Transformer:
    """Frames whose marks a pattern matches: `told` has the rows that are kept of the shortest stretch, those of the last
    frame, and whether the stretch is that frame alone; it tells rows before the mark."""
    marked = marks_of(step, schema)
    marks, pattern = chosen(headers, marked.headers), automaton(step.regex)
    if step.keep not in ("ends", "all"):
        raise StepFailed(f"{step}: `keep` is ends or all")
    bits, whole = bits_reader(step, pattern, marks, context), step.keep == "all"
    name = the_header(step, headers_of(marked.sub), step.of)

    def update(y: Any, mark: Event) -> tuple[Any, list[Event]]:
        number, runs, bag = y
        if whole:
            runs = {p: (start, kept + bag) for p, (start, kept) in runs.items()}
        runs = pattern.carried(runs, (number, bag), bits(mark), lambda run: run[0])
        found = pattern.matched(runs, lambda run: run[0])
        rows = told(found[1], bag, found[0] == number) if found is not None else []
        return (number + 1, runs, []), [*rows, mark]

    made = Hierarchical(
        marks,
        marks,
        update,
        sub=collected(Bag(headers_of(marked.sub)), headers, Bag(gives.name), {gives.name: gives}),
        init=lambda _x: (0, {}, []),
        ret=lambda y, events: (y[0], y[1], [e for e in events if e[0] == name]),
        fin=lambda _y: (None, ()),
    )
    return made if isinstance(marked.sub, Bag) else Relaxed(made, input=schema)


@dataclass(frozen=True)
class Join(Step):
    """The rows of a frame joined with those of the first frame of the shortest stretch of marks that matches.

    Told before each mark, in header `gives` (else the same name): the columns `by`, the other columns of the last frame,
    and those of the first one as `earlier_...`. With keep="all" the earlier side is all frames of the stretch. NULL
    joins nothing.
    """

    word: ClassVar[str] = "join"
    regex: Regex
    by: tuple[str, ...]
    keep: Literal["ends", "all"] = "ends"
    of: str | None = None
    gives: str | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        marked = marks_of(self, schema)
        name = the_header(self, headers_of(marked.sub), self.of)
        header = headers[name]
        keys = [the_column(self, header, column) for column in self.by]
        rest = [i for i in range(len(header.columns)) if i not in keys]
        made = new_header(
            self,
            self.gives or name,
            tuple(header.fields[i] for i in (*keys, *rest))
            + tuple((f"earlier_{header.fields[i][0]}", header.fields[i][1]) for i in rest),
        )

        def told(earlier: list[Event], later: list[Event], _alone: bool) -> list[Event]:
            by_key: dict[Row, list[Row]] = {}
            for _, row in earlier:
                by_key.setdefault(tuple(row[k] for k in keys), []).append(row)
            return [
                made.event(*key, *(row[i] for i in rest), *(other[i] for i in rest))
                for _, row in in_order(later)
                if None not in (key := tuple(row[k] for k in keys))
                for other in sorted(by_key.get(key, ()), key=sort_key)
            ]

        return _over_matches(self, schema, headers, context or Context(), made, told)


@dataclass(frozen=True)
class Union(Step):
    """The rows of the first and the last frame of the shortest stretch of marks that matches, or of all its frames."""

    word: ClassVar[str] = "union"
    regex: Regex
    keep: Literal["ends", "all"] = "ends"
    of: str | None = None
    gives: str | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        marked = marks_of(self, schema)
        name = the_header(self, headers_of(marked.sub), self.of)
        made = Header(self.gives or name, headers[name].fields)
        whole = self.keep == "all"

        def told(kept: list[Event], last: list[Event], alone: bool) -> list[Event]:
            rows = kept if whole or alone else kept + last
            return [made.event(*row) for _, row in in_order(rows)]

        return _over_matches(self, schema, headers, context or Context(), made, told)
