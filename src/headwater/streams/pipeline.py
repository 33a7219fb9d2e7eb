"""Pipelines: steps one after another, checked, put on a schema, and reordered where that keeps less.

`a >> b` is data. On a schema it is a `Query`: each step is typed by what the step before it tells, so that a step which
does not fit is named, with the header and the key. `run` is what it means, over a whole stream; `stepper` is the same
row by row.

A step that *delays* holds rows back until later marks decide something (`local_maxima`, `peaks`). What comes after it is
moved before it (`commuted`) if it makes rows fewer, and neither reads what the other writes:

    A >> B = B >> A     if reads(A) ∩ writes(B) = reads(B) ∩ writes(A) = ∅, and both orders have one type

A step that reads what A writes only in one half is cut in two, and the other half moves: "states that contribute most"
needs no maxima, "on days that are maxima" does. Each move, and each that cannot be, has its reason as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from headwater.errors import HeadwaterError
from headwater.streams.columns import named
from headwater.streams.evaluator import Evaluator, NoSQL
from headwater.streams.schema import Event, Headers, Schema, check, headers_of
from headwater.streams.stepper import Stepper, stepper
from headwater.streams.steps import ROWS, Context, Step
from headwater.streams.stream import Stream, flatten, parse
from headwater.streams.transformer import Composed, Transformer


@dataclass(frozen=True)
class Steps(Step):
    """Steps one after another."""

    word: ClassVar[str] = "steps"
    steps: tuple[Step, ...]

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        made: Transformer | None = None
        for number, step in enumerate(self.steps, 1):
            try:
                following = step.transformer(schema, headers, context)
            except HeadwaterError as error:
                _say_where(error, number, len(self.steps), step)
                raise
            made = following if made is None else Composed(made, following)
            schema = following.output
            headers = {h: following.headers_out[h] for h in headers_of(schema)}
        assert made is not None
        return made

    def __str__(self) -> str:
        return " >> ".join(map(str, self.steps))


def _say_where(error: HeadwaterError, number: int, of: int, step: Step) -> None:
    """An error says which step of the pipeline it is in; the innermost pipeline says it."""
    if error.what.startswith("step ") or (of == 1 and str(step) in error.what):
        return
    place = f"step {number} of {of}, {step}" if of > 1 else str(step)
    error.what = f"{place}: " + error.what.removeprefix(f"{step}").lstrip(": ")
    error.args = (error.what,)


def parts(step: Step) -> tuple[Step, ...]:
    """The steps that a step is made of, one after another."""
    return step.steps if isinstance(step, Steps) else (step,)


# --- on a schema ------------------------------------------------------------------------------------------


def on(
    step: Step,
    schema: Schema,
    headers: Headers,
    evaluator: Evaluator | None = None,
    order: str | Mapping[str, str] | None = None,
    commute: bool = True,
) -> Query:
    """The query that a step or a pipeline is on a schema; steps are commuted unless that is not wanted."""
    check(schema, headers)
    context = Context(evaluator or NoSQL(), order)
    given = Steps(parts(step))
    given.transformer(
        schema, headers, context
    )  # what does not fit is told of the steps as they were written
    moved, reasons = commuted(given, schema, headers, context) if commute else (given, ())
    return Query(given, moved, reasons, schema, headers, context)


@dataclass(frozen=True)
class Query:
    """A pipeline on a schema: what it reads, what it tells, and how it is run."""

    given: Steps
    steps: Steps
    """The steps as they run."""
    reasons: tuple[str, ...]
    """What was moved, what was not, and why."""
    input: Schema
    headers: Headers
    context: Context

    @cached_property
    def transformer(self) -> Transformer:
        """What it means."""
        return self.steps.transformer(self.input, self.headers, self.context)

    @property
    def output(self) -> Schema:
        """The schema of what is told."""
        return self.transformer.output

    @cached_property
    def headers_out(self) -> Headers:
        """The headers of what is told."""
        return {h: self.transformer.headers_out[h] for h in headers_of(self.output)}

    def run(self, stream: Stream | Iterable[Event]) -> Stream:
        """What is told of a whole stream, which is over: a stream, or a sequence of its events."""
        return self.transformer.closed(None, self._read(stream))[1]

    def so_far(self, stream: Stream | Iterable[Event]) -> Stream:
        """What can be told of a stream while more may come."""
        return self.transformer.open(None, self._read(stream))

    def stepper(self) -> Stepper:
        """The same row by row, over plain state."""
        return stepper(self.transformer)

    def _read(self, stream: Stream | Iterable[Event]) -> Stream:
        events = flatten(stream) if isinstance(stream, Stream) else [Event(*e) for e in stream]
        known = self.headers
        made = [
            Event(h, named(known[h], row)) if h in known else Event(h, row) for h, row in events
        ]
        return parse(self.input, self.headers, made)

    def explain(self) -> str:
        """The types between the steps, and what was moved."""
        lines, schema, headers = [f"{'input':8}{self.input}"], self.input, self.headers
        for number, step in enumerate(self.steps.steps, 1):
            schema, headers = step.typed(schema, headers, self.context)
            lines += [f"step {number:<3}{step}", f"{'':8}{schema}"]
        return "\n".join([*lines, *(f"moved   {reason}" for reason in self.reasons)])


# --- commuting --------------------------------------------------------------------------------------------


def commuted(
    steps: Steps, schema: Schema, headers: Headers, context: Context
) -> tuple[Steps, tuple[str, ...]]:
    """The steps with those moved forwards that make rows fewer, over steps that hold rows back; and the reasons."""
    now, reasons = list(steps.steps), dict[str, None]()
    # Second halves of steps that were cut: it is said already why they stay.
    halves: list[Step] = []
    place = 1
    while place < len(now):
        before, step = now[place - 1], now[place]
        at = _typed_before(now, place - 1, schema, headers, context)
        moved, why = _over(before, step, *at, context)
        if why and step not in halves:
            reasons[why] = None
        if moved is None:
            place += 1
        else:
            halves += moved[2:]
            now[place - 1 : place + 1] = moved
            place = max(1, place - 1)  # what was moved may move on
    return Steps(tuple(now)), tuple(reasons)


def _typed_before(
    steps: list[Step], place: int, schema: Schema, headers: Headers, context: Context
) -> tuple[Schema, Headers]:
    """What the step at a place is given."""
    for step in steps[:place]:
        schema, headers = step.typed(schema, headers, context)
    return schema, headers


def _over(
    before: Step, step: Step, schema: Schema, headers: Headers, context: Context
) -> tuple[list[Step] | None, str]:
    """The two steps, or more where one is cut, in the order that keeps less; None if it is the one that they have."""
    if not before.facts(schema, headers, context).delays:
        return None, ""
    blocked = _blocked(before, step, schema, headers, context)
    if blocked is None:
        return (
            [step, before],
            f"{step} moves before {before}: it makes rows fewer, and neither reads what the other writes",
        )
    told = before.typed(schema, headers, context)
    halves = step.cut(told[0])
    if halves is None:
        return None, f"{step} stays behind {before}: {blocked}"
    first, second = halves
    still = _blocked(before, first, schema, headers, context)
    if still is not None:
        return None, f"{step} stays behind {before}: {still}"
    return [first, before, second], (
        f"{step} is cut in two: {first} moves before {before}, for it makes rows fewer and neither reads what the "
        f"other writes; {second} stays: {blocked}"
    )


def _blocked(
    before: Step, step: Step, schema: Schema, headers: Headers, context: Context
) -> str | None:
    """Why a step cannot be moved before another one, or should not; None if it can."""
    told, told_headers = before.typed(schema, headers, context)
    first = before.facts(schema, headers, context)
    second = step.facts(told, told_headers, context)
    if clash := first.writes & second.reads:
        return f"it reads {_cell(min(clash))}, which {before.word} writes"
    if clash := first.reads & second.writes:
        return f"it writes {_cell(min(clash))}, which {before.word} reads"
    if not second.fewer:
        return "it does not make rows fewer"
    try:
        after, after_headers = step.typed(told, told_headers, context)
        moved, moved_headers = step.typed(schema, headers, context)
        other, other_headers = before.typed(moved, moved_headers, context)
    except HeadwaterError as error:
        return f"the other order does not fit ({error.what})"
    if (after, after_headers) != (other, other_headers):
        return "the other order has another type"
    return None


def _cell(cell: tuple[str, str]) -> str:
    header, column = cell
    return f"the rows of `{header}`" if column == ROWS else f"`{header}.{column}`"


def rows_kept(state: Any) -> int:
    """How many rows a stepper's state holds, for what is said of memory."""
    match state:
        case Event():
            return 1
        case dict():
            return sum(map(rows_kept, state.values()))
        case list() | tuple():
            return sum(map(rows_kept, state))
        case _:
            return 0
