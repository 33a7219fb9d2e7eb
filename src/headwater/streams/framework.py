"""Punctuated streams, and how an operator reads them slice by slice.

A stream is a sequence of *slices*, lists of rows and punctuations with the rows before the punctuations. It is
*grammatical* if no row matches a punctuation of an earlier slice. An operator never sees the end of its input, so it has,
beside a state and a `step` that takes new rows,

    pass_on     rows that are certain now, whatever comes
    purge       the state without what no later row can need
    propagate   what can be told to be over in the output

of which each has a trivial form. They run in this order at every slice, also at one without punctuations: a row may come
after the punctuation that makes it certain. Rows are told before punctuations, for the punctuation may match them. What
is told is told once.

An operator is *faithful* to an operator of tables if it has told, at any point, just the rows that are in the answer
whatever comes; it is *proper* if its output is grammatical wherever its input is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeAlias

from headwater.calculus.patterns import NONE, Punctuation, Punctuations
from headwater.calculus.types import Base

Row: TypeAlias = tuple[Any, ...]
Slice: TypeAlias = list[Row | Punctuation]
Stream: TypeAlias = Iterable[Slice]
Schema: TypeAlias = Mapping[str, Base]
"""The columns of rows, in their order."""
State: TypeAlias = Any
Seen: TypeAlias = tuple[Punctuations, ...]
"""The punctuations that have come so far, for each input."""
Step: TypeAlias = Callable[[list[Row], State], tuple[list[Row], State]]

END = Punctuation()
"""The end of a stream: nothing more of any kind."""


# --- slices -----------------------------------------------------------------------------------------------


def rows_of(piece: Slice) -> list[Row]:
    """The rows of a slice."""
    return [x for x in piece if not isinstance(x, Punctuation)]


def punctuations_of(piece: Slice) -> list[Punctuation]:
    """The punctuations of a slice."""
    return [x for x in piece if isinstance(x, Punctuation)]


def named(schema: Schema, row: Row) -> dict[str, Any]:
    """A row by the names of its columns."""
    return dict(zip(schema, row, strict=True))


def ended(stream: Stream) -> Iterator[Slice]:
    """A finite stream that says so."""
    yield from stream
    yield [END]


def grammatical(schema: Schema, stream: Stream) -> bool:
    """Whether no row matches a punctuation of an earlier slice."""
    closed = Punctuations((), schema)
    for piece in stream:
        if any(closed.matches(named(schema, row)) for row in rows_of(piece)):
            return False
        closed = closed.add(*punctuations_of(piece))
    return True


# --- operators --------------------------------------------------------------------------------------------


def passes_nothing(_state: State, _seen: Seen) -> list[Row]:
    """No row becomes certain by a punctuation."""
    return []


def propagates_nothing(_state: State, _seen: Seen) -> list[Punctuation]:
    """Nothing is told to be over."""
    return []


def purges_nothing(state: State, _seen: Seen) -> State:
    """All of the state is kept."""
    return state


@dataclass(frozen=True)
class Operator:
    """An operator of one or two inputs: a state, a step for each input, and what punctuations are for.

    `pass_on` may give a row again that it gave before, as long as `purge` has not removed what it was made from.
    """

    inputs: tuple[Schema, ...]
    schema: Schema
    initial: State
    steps: tuple[Step, ...]
    pass_on: Callable[[State, Seen], list[Row]] = passes_nothing
    purge: Callable[[State, Seen], State] = purges_nothing
    propagate: Callable[[State, Seen], list[Punctuation]] = propagates_nothing

    def start(self) -> Memory:
        """What is remembered before the first slice."""
        return Memory(self.initial, tuple(Punctuations((), s) for s in self.inputs), NONE)

    def turn(self, which: int, piece: Slice, memory: Memory) -> tuple[Slice, Memory]:
        """The output for a slice of one of the inputs, and what is remembered then."""
        rows, state = self.steps[which](rows_of(piece), memory.state)
        seen = tuple(
            known.add(*punctuations_of(piece)) if i == which else known
            for i, known in enumerate(memory.seen)
        )
        rows = rows + self.pass_on(state, seen)
        # After purging fewer rows wait, so that more can be told; what was seen is not part of what is purged.
        state = self.purge(state, seen)
        told, new = memory.told, []
        for p in self.propagate(state, seen):
            if not told.subsumes(p):
                told = told.add(p)
                new.append(p)
        return [*rows, *new], Memory(state, seen, told)

    def __call__(self, *streams: Stream) -> Iterator[Slice]:
        """The output, slice by slice."""
        return run(self, *streams)


@dataclass(frozen=True)
class Memory:
    """What an operator remembers from slice to slice: its state, what it has seen to be over, and what it has told."""

    state: State
    seen: Seen
    told: Punctuations


@dataclass(frozen=True)
class Chain:
    """An operator, and one that reads what it gives."""

    first: Operator | Chain
    second: Operator | Chain

    @property
    def inputs(self) -> tuple[Schema, ...]:
        """The columns of each input."""
        return self.first.inputs

    @property
    def schema(self) -> Schema:
        """The columns of the output."""
        return self.second.schema

    def start(self) -> Any:
        """What both remember before the first slice."""
        return self.first.start(), self.second.start()

    def turn(self, which: int, piece: Slice, memory: Any) -> tuple[Slice, Any]:
        """The output for a slice of one of the inputs, and what is remembered then."""
        between, first = self.first.turn(which, piece, memory[0])
        out, second = self.second.turn(0, between, memory[1])
        return out, (first, second)

    def __call__(self, *streams: Stream) -> Iterator[Slice]:
        """The output, slice by slice."""
        return run(self, *streams)


def run(op: Operator | Chain, *streams: Stream) -> Iterator[Slice]:
    """The output, lazily: for a slice of each input one of output for each of them, the left one's first."""
    memory = op.start()
    for pieces in zip_longest(*streams, fillvalue=[]):
        for which, piece in enumerate(pieces):
            out, memory = op.turn(which, piece, memory)
            yield out
