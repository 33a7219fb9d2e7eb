"""Steppers: a transformer row by row, over plain state.

    start(x)           -> state
    step(state, event) -> (state, rows that are told now)
    end(state)         -> (final value, the last rows)

A stepper equals its transformer: after any sequence of events what it has told parses to `open` of the stream that the
events parse to, and with `end` to `closed`. It reads and writes nothing but the state, which is plain data:

    Relational     x, and the rows of the bag if `answer` asks for them, and what `early` told before
    Parallel       (state of left, state of right)
    Hierarchical   (y, state of sub)
    Partitioned    (x, {key: state of sub}); a step touches only the key of its row, so that an engine may put a dict
                   here that loads states from a store key by key
    Relaxed        the inner one's
    Composed       (state of first, state of second)

A state is handed over: lists and dicts in it are changed in place, and only the state that a step gave may be used again.
Schemas are walked once, when the stepper is made; a row then costs a few calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.errors import HeadwaterError
from headwater.streams.fitting import taken_back
from headwater.streams.schema import Event, headers_of
from headwater.streams.stream import key_reader, misplaced
from headwater.streams.transformer import (
    NOTHING,
    Composed,
    Hierarchical,
    Parallel,
    Partitioned,
    Relational,
    Relaxed,
    Transformer,
    Value,
)

State: TypeAlias = Any
"""None, scalars, tuples, lists and dicts."""
Rows: TypeAlias = Sequence[Event]


@dataclass(frozen=True)
class Stepper:
    """Three pure functions over plain state."""

    start: Callable[[Value], State]
    step: Callable[[State, Event], tuple[State, Rows]]
    end: Callable[[State], tuple[Value, Rows]]

    def run(self, x: Value, events: Iterable[Event]) -> tuple[Value, list[Event]]:
        """The final value and all that is told of a sequence of events."""
        state = self.start(x)
        told: list[Event] = []
        for event in events:
            state, now = self.step(state, event)
            told += now
        final, last = self.end(state)
        return final, [*told, *last]


def stepper(transformer: Transformer) -> Stepper:
    """The stepper of a transformer."""
    match transformer:
        case Relational():
            return _relational(transformer)
        case Parallel():
            return _parallel(transformer)
        case Hierarchical():
            return _hierarchical(transformer)
        case Partitioned():
            return _partitioned(transformer)
        case Relaxed(inner):
            return stepper(inner)  # a flattening of a stream is one of the relaxed stream
        case Composed():
            return _composed(transformer)
        case _:
            raise HeadwaterError(
                f"no stepper for a transformer of class `{type(transformer).__name__}`",
                hint="Relational, Parallel, Hierarchical, Partitioned, Relaxed and Composed have one",
            )


def _checked(transformer: Transformer) -> Callable[[Iterable[Event]], Rows]:
    """What functions tell, as rows that have a place in the output."""
    schema, headers = transformer.output, transformer.headers_out
    widths = {h: len(headers[h].columns) for h in headers_of(schema)}

    def checked(told: Iterable[Event]) -> Rows:
        if not told:
            return ()
        rows = told if isinstance(told, list | tuple) else list(told)
        for event in rows:
            if widths.get(event[0]) != len(event[1]):
                raise misplaced(event, schema, headers)
        return rows

    return checked


# --- bags -------------------------------------------------------------------------------------------------


def _relational(of: Relational) -> Stepper:
    """What is told now is what open or answer has more than was told before."""
    if of.each is not None:
        return _relational_each(of)
    if of.answer is None and of.early is None:
        return Stepper(lambda x: x, lambda x, event: (x, ()), lambda x: (x, ()))
    if of.early is None:
        return _relational_at_end(of)
    return _relational_early(of)


def _relational_each(of: Relational) -> Stepper:
    """Rows are told one by one; the bag is kept only if `answer` asks for it."""
    assert of.each is not None
    each, answer, checked = of.each, of.answer, _checked(of)
    if answer is None:
        return Stepper(
            lambda x: x, lambda x, event: (x, checked(each(x, event))), lambda x: (x, ())
        )

    def step(state: State, event: Event) -> tuple[State, Rows]:
        x, rows = state
        rows.append(event)
        return state, checked(each(x, event))

    def end(state: State) -> tuple[Value, Rows]:
        x, rows = state
        final, told = answer(x, rows)
        return final, _more([e for row in rows for e in each(x, row)], checked(told))

    return Stepper(lambda x: (x, []), step, end)


def _relational_at_end(of: Relational) -> Stepper:
    """Nothing is told before the end."""
    assert of.answer is not None
    answer, checked = of.answer, _checked(of)

    def step(state: State, event: Event) -> tuple[State, Rows]:
        state[1].append(event)
        return state, ()

    def end(state: State) -> tuple[Value, Rows]:
        final, told = answer(*state)
        return final, checked(told)

    return Stepper(lambda x: (x, []), step, end)


def _relational_early(of: Relational) -> Stepper:
    """The bag and what was told of it are kept; what `early` gives must have that in it."""
    assert of.early is not None
    early, answer, checked = of.early, of.answer, _checked(of)

    def step(state: State, event: Event) -> tuple[State, Rows]:
        x, rows, before = state
        rows.append(event)
        after = list(checked(early(x, rows)))
        return (x, rows, after), _more(before, after)

    def end(state: State) -> tuple[Value, Rows]:
        x, rows, before = state
        if answer is None:
            return x, ()
        final, told = answer(x, rows)
        return final, _more(before, checked(told))

    return Stepper(lambda x: (x, [], []), step, end)


def _more(before: Rows, after: Rows) -> Rows:
    """after - before as bags; an error if `before` is not in `after`."""
    if not before:
        return after
    left = Counter(before)
    more: list[Event] = []
    for event in after:
        if left[event]:
            left[event] -= 1
        else:
            more.append(event)
    if any(left.values()):
        raise taken_back(before, after)
    return more


# --- side by side, marks, keys ----------------------------------------------------------------------------


def _parallel(of: Parallel) -> Stepper:
    """A row goes to the side that has its header."""
    left, right = stepper(of.left), stepper(of.right)
    left_step, right_step = left.step, right.step
    of_left = frozenset(headers_of(of.left.input))

    def start(x: Value) -> State:
        x1, x2 = of.init(x)
        return left.start(x1), right.start(x2)

    def step(state: State, event: Event) -> tuple[State, Rows]:
        a, b = state
        if event[0] in of_left:
            a, told = left_step(a, event)
        else:
            b, told = right_step(b, event)
        return (a, b), told

    def end(state: State) -> tuple[Value, Rows]:
        x1, told1 = left.end(state[0])
        x2, told2 = right.end(state[1])
        return of.fin(x1, x2), [*told1, *told2]

    return Stepper(start, step, end)


def _hierarchical(of: Hierarchical) -> Stepper:
    """A mark ends sub and begins it anew; other rows go to sub."""
    sub = stepper(of.sub)
    sub_start, sub_step, sub_end = sub.start, sub.step, sub.end
    call, ret, update = of.call, of.ret, of.update
    marks = frozenset(of.marks)
    checked = _checked(of)

    def step(state: State, event: Event) -> tuple[State, Rows]:
        y, below = state
        if event[0] not in marks:
            below, told = sub_step(below, event)
            return (y, below), told
        final, told = sub_end(below)
        y, more = update(ret(y, final), event)
        below = sub_start(call(y))
        if more:
            more = checked(more)
            return (y, below), [*told, *more] if told else more
        return (y, below), told

    def step_in_sequence(state: State, event: Event) -> tuple[State, Rows]:
        """The same where nothing stands between marks: sub's final value is the one it was called with."""
        y, below = state
        y, more = update(ret(y, below), event)
        return (y, call(y)), checked(more) if more else ()

    def start(x: Value) -> State:
        y = of.init(x)
        return y, sub_start(call(y))

    def end(state: State) -> tuple[Value, Rows]:
        y, below = state
        final, told = sub_end(below)
        value, more = of.fin(ret(y, final))
        return value, [*told, *checked(more)]

    return Stepper(start, step_in_sequence if _is_nothing(of.sub) else step, end)


def _is_nothing(of: Transformer) -> bool:
    """Whether this is NOTHING, perhaps with an output that update fills."""
    return of is NOTHING or (isinstance(of, Relaxed) and _is_nothing(of.inner))


def _partitioned(of: Partitioned) -> Stepper:
    """A row goes to the state of its key, which begins with the key's first row."""
    sub = stepper(of.sub)
    sub_start, sub_step, sub_end = sub.start, sub.step, sub.end
    init, own = of.init, of.own
    key_of = {h: key_reader(of.headers_in, h, of.keys) for h in headers_of(of.sub.input)}

    def step(state: State, event: Event) -> tuple[State, Rows]:
        x, states = state
        key = key_of[event[0]](event[1])
        below = states[key] if key in states else sub_start(init(x, key))
        states[key], told = sub_step(below, event)
        return state, own(key, told) if told else ()

    def end(state: State) -> tuple[Value, Rows]:
        x, states = state
        finals: list[tuple[Any, Value]] = []
        told: list[Event] = []
        for key, below in states.items():
            final, last = sub_end(below)
            finals.append((key, final))
            told += own(key, last)
        value, more = of.agg(x, finals)
        return value, [*told, *of.common(more)]

    return Stepper(lambda x: (x, {}), step, end)


# --- one after the other ----------------------------------------------------------------------------------


def _composed(of: Composed) -> Stepper:
    """What the first tells, the second reads at once."""
    first, second = stepper(of.first), stepper(of.second)
    first_step, second_step = first.step, second.step

    def read(state: State, events: Rows) -> tuple[State, Rows]:
        if not events:
            return state, ()
        told: list[Event] = []
        for event in events:
            state, now = second_step(state, event)
            told += now
        return state, told

    def step(state: State, event: Event) -> tuple[State, Rows]:
        a, b = state
        a, events = first_step(a, event)
        b, told = read(b, events)
        return (a, b), told

    def end(state: State) -> tuple[Value, Rows]:
        final1, events = first.end(state[0])
        b, told = read(state[1], events)
        final2, last = second.end(b)
        return (final1, final2), [*told, *last]

    return Stepper(lambda x: (first.start(x), second.start(x)), step, end)
