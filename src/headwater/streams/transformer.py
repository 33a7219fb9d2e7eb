"""Transformers: what a pipeline means.

A transformer reads a stream and tells a stream. It is given a value to begin with and has one at the end, so that one can
stand inside of another. Its type is (X, S, X', S'): a first value, the schema it reads (`input`), a final value, and the
schema it tells (`output`). It has two meanings:

    open(x, t)   -> t'         what can be told of t while more may come
    closed(x, t) -> (x', t')   what is told of t when t is over, and the final value

with two laws, on which everything rests: what was told is never taken back, and the end only adds to it:

    t ≤ u  implies  open(x, t) ≤ open(x, u)            (Theorem 25)
    open(x, t)  ≤  the stream that closed(x, t) tells

There is a shape for each shape of schema, and a transformer is put together as its schema is:

    Relational     Bag(H..)             functions over a bag of rows
    Parallel       Par(S, S)            two transformers side by side; `fin` makes one value of theirs
    Hierarchical   Sync(H.., S)         `sub` between two marks, from `call` to `ret`; at a mark `update` tells and goes on
    Partitioned    PartitionBy(K.., S)  `sub` for each key; `agg` makes one value of theirs
    Relaxed        any                  the same, told with less order, or reading what is given with more
    Composed       any                  one after the other: `first >> second`

Functions are given rows as `Event`s, tell lists of them, and are *pure*: what they answer depends on what they are given,
and on nothing else. What they tell is read by the output's schema, so it may be of any of its headers, in any order that
is right for it. This module says what is meant, over whole streams; `stepper` computes the same row by row.

What the rides of each hour cost, told when the hour is over:

>>> from headwater.calculus.types import INTEGER as INT
>>> from headwater.streams.schema import Header
>>> rides, hour, cost = Header.of("rides", km=INT, cost=INT), Header.of("hour", n=INT), Header.of("cost", n=INT, sum=INT)
>>> total = Relational({"rides": rides}, {}, answer=lambda x, rows: (sum(r.row.cost for r in rows), ()))
>>> told = lambda y, mark: (y, [cost.event(mark.row.n, y)])
>>> hourly = Hierarchical({"hour": hour}, {"cost": cost}, update=told, sub=total, ret=lambda y, sum: sum)
>>> print(hourly.input, "to", hourly.output)
hour[bag rides] to seq cost
>>> day = [rides.event(4, 9), rides.event(1, 3), hour.event(1), hour.event(2), rides.event(2, 5)]
>>> print(hourly.open(None, parse(hourly.input, hourly.headers_in, day)))
[cost(1, 12) cost(2, 0)]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from headwater.errors import IllFormedSchema, NotInSchema
from headwater.streams.fitting import check_fits, check_free, check_same, taken_back
from headwater.streams.schema import (
    Bag,
    Event,
    Headers,
    Par,
    PartitionBy,
    Schema,
    Sync,
    check,
    headers_of,
    parts_of,
    side_by_side,
    without,
)
from headwater.streams.stream import (
    Beside,
    Key,
    Keyed,
    KeyReader,
    Ordered,
    Stream,
    Unordered,
    empty,
    flatten,
    key_reader,
    parse,
    prefix,
    unlike,
)

Value: TypeAlias = Any
"""A first value, a final value or a state: plain data."""
Told: TypeAlias = Iterable[Event]
"""What a function tells: rows in an order that is right for the output."""


class Transformer(ABC):
    """From streams of `input` to streams of `output`, which are schemas over `headers_in` and `headers_out`."""

    input: Schema
    output: Schema
    headers_in: Headers
    headers_out: Headers

    @abstractmethod
    def open(self, x: Value, t: Stream) -> Stream:
        """What can be told of t while more may come: t ≤ u implies open(x, t) ≤ open(x, u)."""

    @abstractmethod
    def closed(self, x: Value, t: Stream) -> tuple[Value, Stream]:
        """The final value and what is told when t is over: open(x, t) ≤ what is told."""

    def __rshift__(self, then: Transformer) -> Composed:
        """One after the other."""
        return Composed(self, then)

    def _typed(
        self, reads: Schema, headers_in: Headers, tells: Schema, headers_out: Headers
    ) -> None:
        """Set what is read and what is told, which are well-formed."""
        check(reads, headers_in)
        check(tells, headers_out)
        vars(self).update(input=reads, headers_in=headers_in, output=tells, headers_out=headers_out)

    def _said(self, told: Told) -> Stream:
        """Rows that are told, as a stream of the output."""
        return parse(self.output, self.headers_out, told)


# --- bags -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Relational(Transformer):
    """A bag of rows: `answer` at the end, `early` or `each` before it.

    `answer(x, rows)` gives the final value and all that is told of a bag that is over. What can be told of it before is
    given by `early(x, rows)`, which must only grow when rows are added; or by `each(x, row)`, as the sum over all rows,
    which always does; else it is nothing. None of them may depend on the order of the rows. Of an empty bag nothing is
    told before its end. Without `answer` the final value is the first one, and what is told is what was told before.
    """

    reads: Headers
    gives: Headers
    answer: Callable[[Value, Sequence[Event]], tuple[Value, Told]] | None = None
    early: Callable[[Value, Sequence[Event]], Told] | None = None
    each: Callable[[Value, Event], Told] | None = None

    def __post_init__(self) -> None:
        if self.early is not None and self.each is not None:
            raise IllFormedSchema(
                "a relational transformer with both `early` and `each`",
                hint="`each` is a way to give `early` row by row; leave one of them out",
            )
        self._typed(Bag(self.reads), self.reads, Bag(self.gives), self.gives)

    def open(self, x: Value, t: Stream) -> Stream:
        """early(x, t); or the sum of each(x, d) over the rows d of t; or nothing."""
        rows = _bag(t)
        if self.early is not None and rows:
            return self._said(self.early(x, rows))
        if self.each is not None:
            return self._said(told for row in rows for told in self.each(x, row))
        return empty(self.output)

    def closed(self, x: Value, t: Stream) -> tuple[Value, Stream]:
        """answer(x, t), which has in it what was told before."""
        before = self.open(x, t)
        if self.answer is None:
            return x, before
        final, told = self.answer(x, _bag(t))
        after = self._said(told)
        if not prefix(before, after):
            raise taken_back(flatten(before), flatten(after))
        return final, after


NOTHING = Relational({}, {})
"""Reads nothing and tells nothing: what stands between two rows of a sequence."""


# --- side by side -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Parallel(Transformer):
    """Two transformers side by side, neither of which sees the other.

    `init(x)` gives both their first values, `fin(x1, x2)` makes one of their final ones. Headers that both tell are
    told together in one bag, so they must be free of order in both.
    """

    left: Transformer
    right: Transformer
    init: Callable[[Value], tuple[Value, Value]] = lambda x: (x, x)
    fin: Callable[[Value, Value], Value] = lambda x1, x2: (x1, x2)

    def __post_init__(self) -> None:
        left, right = self.left, self.right
        shared = [h for h in headers_of(left.output) if h in headers_of(right.output)]
        for side in (left, right):
            check_free(shared, side.output, "is told by both sides")
        for name in shared:
            check_same(step_name(right), right.headers_out, left.headers_out, name)
        alone = [without(side.output, shared) for side in (left, right)]
        self._typed(
            Par(left.input, right.input),
            {**left.headers_in, **right.headers_in},
            side_by_side(*alone, Bag(shared)),
            {**left.headers_out, **right.headers_out},
        )

    def open(self, x: Value, t: Stream) -> Stream:
        """⟨open of left | open of right | what both tell in common⟩."""
        x1, x2 = self.init(x)
        t1, t2 = self._split(t)
        return self._both(self.left.open(x1, t1), self.right.open(x2, t2))

    def closed(self, x: Value, t: Stream) -> tuple[Value, Stream]:
        """The same of both closed meanings, and fin of the final values."""
        x1, x2 = self.init(x)
        t1, t2 = self._split(t)
        final1, told1 = self.left.closed(x1, t1)
        final2, told2 = self.right.closed(x2, t2)
        return self.fin(final1, final2), self._both(told1, told2)

    def _split(self, t: Stream) -> tuple[Stream, Stream]:
        """The stream of each side; a side that is a Par itself has several parts of t."""
        match t:
            case Beside(parts) if len(parts) == len(parts_of(self.input)):
                cut = len(parts_of(self.left.input))
                left, right = parts[:cut], parts[cut:]
                return (
                    left[0] if len(left) == 1 else Beside(left),
                    right[0] if len(right) == 1 else Beside(right),
                )
            case _:
                raise unlike(t, empty(self.input))

    def _both(self, left: Stream, right: Stream) -> Stream:
        """Rows of the two sides do not depend on each other, so that any interleaving is right."""
        return self._said([*flatten(left), *flatten(right)])


# --- marks ------------------------------------------------------------------------------------------------


def NO_CALL(y: Value) -> Value:
    """What sub begins with where it is told nothing, so that frames do not depend on each other."""
    return None


def LEFT_ALONE(y: Value, final: Value) -> Value:
    """The state where sub's final value is not asked for."""
    return y


def TAKEN(y: Value, final: Value) -> Value:
    """The state where it is sub's final value, and nothing is kept of the frames before."""
    return final


@dataclass(frozen=True, eq=False)
class Hierarchical(Transformer):
    """Marks in order, with a state y, and `sub` over the stream between two of them.

    It begins with y = init(x). Between two marks sub runs from call(y) on; when the next mark comes, ret(y, x') takes
    sub's final value x' into y. Then update(y, mark) gives the next y and tells rows: of `gives`, which are in order, or
    of what sub tells. At the end sub returns as at a mark, and fin(y) gives the final value and the last rows.
    """

    marks: Headers
    gives: Headers
    update: Callable[[Value, Event], tuple[Value, Told]]
    sub: Transformer = NOTHING
    init: Callable[[Value], Value] = lambda x: x
    call: Callable[[Value], Value] = NO_CALL
    ret: Callable[[Value, Value], Value] = LEFT_ALONE
    fin: Callable[[Value], tuple[Value, Told]] = lambda y: (y, ())

    def __post_init__(self) -> None:
        below = self.sub.output
        self._typed(
            Sync(self.marks, self.sub.input),
            {**self.sub.headers_in, **self.marks},
            Sync(self.gives, below) if self.gives else below,
            {**self.sub.headers_out, **self.gives},
        )

    def open(self, x: Value, t: Stream) -> Stream:
        """What is told up to the last mark, and behind it the open meaning of sub."""
        y, told, last = self._up_to_last_mark(x, t)
        return self._said([*told, *flatten(self.sub.open(self.call(y), last))])

    def closed(self, x: Value, t: Stream) -> tuple[Value, Stream]:
        """What is told up to the last mark, and behind it the closed meaning of sub, and fin."""
        y, told, last = self._up_to_last_mark(x, t)
        y, of_sub = self._returned(y, last)
        final, more = self.fin(y)
        return final, self._said([*told, *of_sub, *more])

    def _up_to_last_mark(self, x: Value, t: Stream) -> tuple[Value, list[Event], Stream]:
        """The state and what is told after the last mark, and the stream behind it, which sub has not read.

        This is the auxiliary meaning of Definition 23: of t ∘ [t1, d], what t gives, sub's closed meaning of t1, and
        update(y, d), one behind the other. Rows behind rows are a stream behind a stream, so they are kept as rows.
        """
        if not isinstance(t, Ordered):
            raise unlike(t, empty(self.input))
        y, told, last = self.init(x), list[Event](), t.before
        for mark, following in t.frames:
            y, of_sub = self._returned(y, last)
            y, more = self.update(y, mark)
            told += [*of_sub, *more]
            last = following
        return y, told, last

    def _returned(self, y: Value, t: Stream) -> tuple[Value, list[Event]]:
        """The state when sub has read t to its end, and what sub told."""
        final, told = self.sub.closed(self.call(y), t)
        return self.ret(y, final), flatten(told)


# --- keys -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Partitioned(Transformer):
    """`sub` for each key that has rows, side by side.

    init(x, key) is the first value of a key; agg(x, [(key, x'), ..]) takes the final values of all keys, in no order,
    and gives one, with rows of `gives`. What sub tells stays by key, so it has the keys as columns and their values,
    except for headers in `gives`: these are told together in one bag, so that they must be free of order in sub.
    """

    keys: tuple[str, ...]
    sub: Transformer
    gives: Headers = field(default_factory=dict)
    init: Callable[[Value, Key], Value] = lambda x, key: x
    agg: Callable[[Value, Sequence[tuple[Key, Value]]], tuple[Value, Told]] = lambda x, _: (x, ())

    def __post_init__(self) -> None:
        read = PartitionBy(self.keys, self.sub.input)
        vars(self).update(keys=read.keys)  # one key may be given as it is
        shared = [h for h in headers_of(self.sub.output) if h in self.gives]
        check_free(shared, self.sub.output, "is told by all keys together")
        for name in shared:
            check_same(step_name(self.sub), self.gives, self.sub.headers_out, name)
        by_key = PartitionBy(self.keys, without(self.sub.output, self.gives))
        self._typed(
            read,
            self.sub.headers_in,
            side_by_side(by_key, Bag(self.gives)),
            {**self.sub.headers_out, **self.gives},
        )

    def open(self, x: Value, t: Stream) -> Stream:
        """{v: open of sub over t_v, ..}, and beside it what is told together; a key of which nothing is told is left out."""
        return self._said(
            told
            for key, sub in self._by_key(t).items()
            for told in self.own(key, flatten(self.sub.open(self.init(x, key), sub)))
        )

    def closed(self, x: Value, t: Stream) -> tuple[Value, Stream]:
        """The same of the closed meanings, and agg of their final values."""
        finals: list[tuple[Key, Value]] = []
        told: list[Event] = []
        for key, sub in self._by_key(t).items():
            final, of_key = self.sub.closed(self.init(x, key), sub)
            finals.append((key, final))
            told += self.own(key, flatten(of_key))
        value, more = self.agg(x, finals)
        return value, self._said([*told, *self.common(more)])

    def _by_key(self, t: Stream) -> Mapping[Key, Stream]:
        if not isinstance(t, Keyed):
            raise unlike(t, empty(self.input))
        return t.streams

    @cached_property
    def _key_of(self) -> dict[str, KeyReader]:
        """How the key is read from rows that are told by key."""
        kept = [h for h in headers_of(self.sub.output) if h not in self.gives]
        return {h: key_reader(self.headers_out, h, self.keys) for h in kept}

    def own(self, key: Key, told: Sequence[Event]) -> Sequence[Event]:
        """What sub tells of a key: of that key, or of what is told together."""
        for event in told:
            read = self._key_of.get(event[0])
            if read is not None and read(event[1]) != key:
                raise NotInSchema(
                    f"a row of `{event[0]}` that is told by key {key} has another: {Event(*event)}",
                    hint=f"rows that are told by `{', '.join(self.keys)}` keep its value, or are in `gives`",
                )
        return told

    def common(self, told: Told) -> list[Event]:
        """What agg tells: of no key, so only of headers that are told together."""
        rows = list(told)
        for event in rows:
            if event[0] not in self.gives:
                raise NotInSchema(
                    f"`agg` tells a row of `{event[0]}`, which is told by key: {Event(*event)}",
                    hint=f"it can tell: {', '.join(self.gives) or 'nothing; name its headers in gives'}",
                )
        return rows


# --- order, relaxed and put together ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Relaxed(Transformer):
    """The same transformer, whose rows are told with less order (`output`), or given with more (`input`).

    A stream is read by a schema that relaxes its own: a flattening of it is parsed, and any gives the same
    (Proposition 17). A schema with further headers needs them in `headers`.
    """

    inner: Transformer
    output: Schema = None  # type: ignore[assignment]  # the inner one's
    input: Schema = None  # type: ignore[assignment]
    headers: Headers = field(default_factory=dict)

    def __post_init__(self) -> None:
        inner, name = self.inner, step_name(self.inner)
        self._typed(
            inner.input if self.input is None else self.input,
            {**self.headers, **inner.headers_in},
            inner.output if self.output is None else self.output,
            {**self.headers, **inner.headers_out},
        )
        check_fits(name, inner.input, inner.headers_in, self.input, self.headers_in)
        relaxed = f"the relaxed output of {name}"
        check_fits(relaxed, self.output, self.headers_out, inner.output, inner.headers_out)

    def open(self, x: Value, t: Stream) -> Stream:
        """The inner meaning of t, read by the inner schema, with its answer read by this one."""
        return self._said(flatten(self.inner.open(x, self._read(t))))

    def closed(self, x: Value, t: Stream) -> tuple[Value, Stream]:
        """The same of the closed meaning."""
        final, told = self.inner.closed(x, self._read(t))
        return final, self._said(flatten(told))

    def _read(self, t: Stream) -> Stream:
        """t as the inner transformer reads it."""
        return parse(self.inner.input, self.inner.headers_in, flatten(t))


@dataclass(frozen=True, eq=False)
class Composed(Transformer):
    """One after the other: `second` reads what `first` tells, so its input relaxes the other's output.

    Both are given the first value; the final value is the pair of theirs.
    """

    first: Transformer
    second: Transformer

    def __post_init__(self) -> None:
        first, second = self.first, self.second
        name = f"step {len(steps(first)) + 1}, {step_name(steps(second)[0])},"
        check_fits(name, second.input, second.headers_in, first.output, first.headers_out)
        self._typed(first.input, first.headers_in, second.output, second.headers_out)

    def open(self, x: Value, t: Stream) -> Stream:
        """open of the second, over open of the first."""
        return self.second.open(x, self._read(self.first.open(x, t)))

    def closed(self, x: Value, t: Stream) -> tuple[Value, Stream]:
        """closed of the second, over closed of the first."""
        final1, told = self.first.closed(x, t)
        final2, more = self.second.closed(x, self._read(told))
        return (final1, final2), more

    def _read(self, told: Stream) -> Stream:
        """What the first tells, as the second reads it."""
        return parse(self.second.input, self.second.headers_in, flatten(told))


def steps(transformer: Transformer) -> tuple[Transformer, ...]:
    """The steps of a pipeline, first to last."""
    match transformer:
        case Composed(first, second):
            return steps(first) + steps(second)
        case _:
            return (transformer,)


def step_name(transformer: Transformer) -> str:
    """A transformer in a message: its shape, and what it reads."""
    return f"{type(transformer).__name__} over `{transformer.input}`"


def _bag(t: Stream) -> tuple[Event, ...]:
    """The rows of a bag."""
    if not isinstance(t, Unordered):
        raise unlike(t, Unordered())
    return t.events
