"""The library of steps: what waits for later rows, and what is carried across frames.

local_maxima   marks that are higher than those around them; what comes after waits until that is known
peaks          the same for rows of a sequence, also by key across frames, and for lows
carry          a state for each key, carried from frame to frame, told at each mark
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from headwater.calculus.types import BOOLEAN
from headwater.errors import StepFailed
from headwater.streams.columns import Fields, Row, checked, named, safely, sort_key
from headwater.streams.order import first_misfit
from headwater.streams.schema import (
    Bag,
    Event,
    Header,
    Headers,
    PartitionBy,
    Schema,
    Seq,
    Sync,
    headers_of,
)
from headwater.streams.steps import (
    ROWS,
    Context,
    Facts,
    Step,
    chosen,
    collected,
    marks_of,
    misfit,
    new_header,
    new_name,
    the_column,
    the_header,
)
from headwater.streams.transformer import Hierarchical, Partitioned, Relaxed, Transformer

# --- what must look ahead ---------------------------------------------------------------------------------


def is_extreme(values: Sequence[Any], place: int, around: int, higher: bool) -> bool:
    """Whether a value is strictly higher (or lower) than those around it, of which there are enough on both sides."""
    if place < around or place + around >= len(values) or values[place] is None:
        return False
    others = [v for i, v in enumerate(values[place - around : place + around + 1]) if i != around]
    value = values[place]
    return all(v is not None and (v < value if higher else v > value) for v in others)


@dataclass(frozen=True)
class LocalMaxima(Step):
    """Marks with a boolean column that says whether they are higher than the `around` marks on both sides.

    A mark is told when the marks that decide about it are there, and the frame behind it with it; so rows wait for
    `around` marks. The first and the last marks are no maxima: they have too few neighbours.
    """

    word: ClassVar[str] = "local_maxima"
    column: str
    around: int = 1
    name: str = "lmax"

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        marked, around = marks_of(self, schema), self.around
        _check_around(self, around)
        marks = chosen(headers, marked.headers)
        places = {name: the_column(self, header, self.column) for name, header in marks.items()}
        gives = {
            name: new_header(self, name, (*header.fields, (self.name, BOOLEAN)))
            for name, header in marks.items()
        }

        def tell(mark: Event, highest: bool) -> Event:
            return gives[mark[0]].event(*mark[1], highest)

        # The state: values of the last marks that are decided, then the marks that wait, each with the rows behind it;
        # and the rows of the frame that has just been read.
        def update(y: Any, mark: Event) -> tuple[Any, list[Event]]:
            decided, waiting, rows = y
            told: list[Event] = []
            if waiting:
                waiting = [*waiting[:-1], (waiting[-1][0], rows)]
            else:
                told += rows
            waiting = [*waiting, (mark, [])]
            if len(waiting) > around:
                values = [*decided, *(m[1][places[m[0]]] for m, _ in waiting)]
                first, behind = waiting[0]
                told += [tell(first, is_extreme(values, len(decided), around, True)), *behind]
                decided = [*decided, values[len(decided)]][-around:]
                waiting = waiting[1:]
            return (decided, waiting, []), told

        def fin(y: Any) -> tuple[None, list[Event]]:
            _, waiting, rows = y
            told = [e for mark, behind in waiting for e in (tell(mark, False), *behind)]
            return None, [*told, *rows]

        return Hierarchical(
            marks,
            gives,
            update,
            sub=collected(marked.sub, headers, marked.sub, headers),
            init=lambda _x: ([], [], []),
            ret=lambda y, events: (y[0], y[1], events),
            fin=fin,
        )

    def facts(self, schema: Schema, headers: Headers, context: Context) -> Facts:
        marks = marks_of(self, schema).headers
        return Facts(
            frozenset((h, c) for h in marks for c in (ROWS, self.column)),
            frozenset((h, self.name) for h in marks),
            delays=True,
        )


def _check_around(step: Step, around: int) -> None:
    if around < 1:
        raise StepFailed(f"{step}: `around` is at least 1")


@dataclass(frozen=True)
class Peaks(Step):
    """Rows of a sequence that are higher, or lower, than the `around` rows on both sides, marked behind them.

    Seq(h) becomes peak, valley[seq h]. Sequences by key have their own peaks; in frames (`month[state{seq cases}]`) they
    go on across frames, so that a frame's mark waits until all rows before it are decided.
    """

    word: ClassVar[str] = "peaks"
    column: str
    around: int = 1
    names: tuple[str, str] = ("peak", "valley")

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        _check_around(self, self.around)
        for name in self.names:
            new_name(self, name, schema)
        match schema:
            case Sync(_, Bag(())):
                return self._sequence(schema, headers)
            case PartitionBy(keys, sub):
                return Partitioned(
                    keys, self.transformer(sub, headers, context), init=lambda _x, _key: None
                )
            case Sync(_, PartitionBy(keys, Sync(_, Bag(())))):
                return self._in_frames(schema, headers)
            case _:
                raise misfit(
                    self, schema, "a sequence, sequences by key, or frames of them: m[k{seq h}]"
                )

    def _told(
        self, headers: Headers, schema: Sync
    ) -> tuple[Header, int, dict[str, Header], Callable[[Event, Sequence[Any], int], list[Event]]]:
        """The header of the rows, the place of the column, the headers that are told, and a row with its marks."""
        header = headers[the_header(self, schema.headers)]
        peak, valley = (Header(new_name(self, name, schema), header.fields) for name in self.names)

        def told(event: Event, values: Sequence[Any], place: int) -> list[Event]:
            if is_extreme(values, place, self.around, higher=True):
                return [event, peak.event(*event[1])]
            if is_extreme(values, place, self.around, higher=False):
                return [event, valley.event(*event[1])]
            return [event]

        gives = {header.name: header, peak.name: peak, valley.name: valley}
        return header, the_column(self, header, self.column), gives, told

    def _sequence(self, schema: Sync, headers: Headers) -> Transformer:
        """The state: the last values that are told, and the rows that wait."""
        header, place, gives, told = self._told(headers, schema)
        around = self.around

        def update(y: Any, event: Event) -> tuple[Any, list[Event]]:
            before, waiting = y
            waiting = [*waiting, event]
            if len(waiting) <= around:
                return (before, waiting), []
            values = [*before, *(e[1][place] for e in waiting)]
            now = told(waiting[0], values, len(before))
            return (values[: len(before) + 1][-around:], waiting[1:]), now

        def fin(y: Any) -> tuple[None, list[Event]]:
            return None, y[1]  # the last rows have too few neighbours

        made = Hierarchical({header.name: header}, gives, update, init=lambda _x: ([], []), fin=fin)
        return Relaxed(made, output=Sync(self.names, Seq(header.name)))

    def _in_frames(self, schema: Sync, headers: Headers) -> Transformer:
        """The state: the last values of each key that are told, and the frames that wait: rows by key, and the mark."""
        assert isinstance(schema.sub, PartitionBy) and isinstance(schema.sub.sub, Sync)
        outer, keys, around = chosen(headers, schema.headers), schema.sub.keys, self.around
        header, place, gives, told = self._told(headers, schema.sub.sub)
        key_places = header.places(keys)

        def by_key(events: Iterable[Event]) -> dict[Row, list[Event]]:
            found: dict[Row, list[Event]] = {}
            for event in events:
                found.setdefault(tuple(event[1][k] for k in key_places), []).append(event)
            return found

        def settle(
            befores: dict[Row, list[Any]], frames: list[Any], last: bool
        ) -> tuple[Any, list[Event]]:
            """Tell what is decided, frame by frame; nothing passes a mark that waits for rows before it."""
            values: dict[Row, list[Any]] = {}
            for rows, _ in frames:
                for key, events in rows.items():
                    known = values.setdefault(key, list(befores.get(key, ())))
                    known += (e[1][place] for e in events)
            at = {key: len(befores.get(key, ())) for key in values}
            now: list[Event] = []
            frames = list(frames)
            while frames:
                rows, mark = frames.pop(0)
                left: dict[Row, list[Event]] = {}
                for key, events in rows.items():
                    free = len(events) if last else max(0, len(values[key]) - around - at[key])
                    for event in events[:free]:
                        now += told(event, values[key], at[key])
                        at[key] += 1
                    if events[free:]:
                        left[key] = events[free:]
                if left:
                    frames.insert(0, (left, mark))
                    break
                if mark is not None:
                    now.append(mark)
            for key, place_of_next in at.items():
                befores[key] = values[key][:place_of_next][-around:]
            return (befores, frames, []), now

        def update(y: Any, mark: Event) -> tuple[Any, list[Event]]:
            befores, frames, events = y
            return settle(befores, [*frames, (by_key(events), mark)], last=False)

        def fin(y: Any) -> tuple[None, list[Event]]:
            befores, frames, events = y
            return None, settle(befores, [*frames, (by_key(events), None)], last=True)[1]

        output = PartitionBy(keys, Sync(self.names, Seq(header.name)))
        return Hierarchical(
            outer,
            outer,
            update,
            sub=collected(schema.sub, headers, output, gives),
            init=lambda _x: ({}, [], []),
            ret=lambda y, events: (y[0], y[1], events),
            fin=fin,
        )

    def facts(self, schema: Schema, headers: Headers, context: Context) -> Facts:
        _, told_headers = self.typed(schema, headers, context)
        row = next(
            h
            for h in headers_of(schema)
            if self.column in headers[h].columns and h not in self.names
        )
        return Facts(
            frozenset((h, ROWS) for h in headers_of(schema))
            | {(row, c) for c in headers[row].columns},
            frozenset((h, c) for h in self.names for c in (ROWS, *told_headers[h].columns)),
            delays=True,
        )


# --- state by key, across frames --------------------------------------------------------------------------


@dataclass(frozen=True)
class Carry(Step):
    """A state for each key, carried over its rows from frame to frame: `f(state, row, header)` gives the next one.

    At each mark the states of all keys that ever had rows are told as a bag before it, in header `gives`: the keys, and
    the columns of the state. A state begins with `start`, or with all columns NULL.
    """

    word: ClassVar[str] = "carry"
    keys: tuple[str, ...]
    f: Callable[..., Any]
    state: Fields
    gives: str
    start: Row | None = None

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        marked = marks_of(self, schema)
        marks, below = chosen(headers, marked.headers), chosen(headers, headers_of(marked.sub))
        asked = Sync(marked.headers, PartitionBy(self.keys, Seq(below)))
        if (found := first_misfit(asked, schema)) is not None:
            raise misfit(
                self,
                schema,
                f"frames of sequences by `{', '.join(self.keys)}`, m[k{{seq h}}]",
                "order the rows of a key",
                found,
            )
        first = next(iter(below.values()))
        keys = tuple(first.fields[the_column(self, first, key)] for key in self.keys)
        made = new_header(self, self.gives, keys + self.state)
        begin = self.start if self.start is not None else (None,) * len(self.state)
        begin = checked(begin, self.state, str(self))
        advance = self._advance(below)
        by_key = Partitioned(
            self.keys,
            Hierarchical(below, {}, advance, init=lambda x: x, fin=lambda y: (y, ())),
            init=lambda states, key: states.get(key, begin),
            agg=lambda _x, finals: (dict(finals), ()),
        )

        def update(states: dict[Row, Row], mark: Event) -> tuple[dict[Row, Row], list[Event]]:
            rows = [made.event(*key, *states[key]) for key in sorted(states, key=sort_key)]
            return states, [*rows, mark]

        carried = Hierarchical(
            marks,
            marks,
            update,
            sub=Relaxed(by_key, output=Bag(made.name), headers={made.name: made}),
            init=lambda _x: {},
            call=lambda states: states,
            ret=lambda states, finals: {**states, **finals},
            fin=lambda _y: (None, ()),
        )
        return carried if schema == asked else Relaxed(carried, input=schema)

    def _advance(self, below: Headers) -> Callable[[Row, Event], tuple[Row, tuple[Event, ...]]]:
        make: Any = namedtuple  # its fields are known only now
        State: Any = make("State", [name for name, _ in self.state], rename=True)
        function, where = safely(self.f, str(self)), str(self)

        def advance(y: Row, event: Event) -> tuple[Row, tuple[Event, ...]]:
            after = function(State(*y), named(below[event[0]], event[1]), event[0])
            return checked(after, self.state, where), ()

        return advance
