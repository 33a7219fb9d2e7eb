"""Operators of tables as operators of punctuated streams, each as its rule is said and no faster.

This is what the engine is compared with: what of an answer is certain, what can be forgotten, and what is over, by
operators that are small enough to be checked against every future that a punctuation leaves open. Columns have types,
so that a group is known to be closed when its punctuations together leave no value out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from headwater.calculus.patterns import (
    Pattern,
    Punctuation,
    Punctuations,
    Range,
    below,
    unmatched,
)
from headwater.calculus.scalars import order
from headwater.calculus.types import INTEGRAL
from headwater.streams.framework import (
    Chain,
    Operator,
    Row,
    Schema,
    Seen,
    State,
    Step,
    named,
)

Rows = tuple[Row, ...]
Two = tuple[Rows, Rows]


def _row_wise(
    schema: Schema,
    out: Schema,
    f: Callable[[Row], Iterable[Row]],
    tell: Callable[[Punctuations], Iterable[Punctuation]],
) -> Operator:
    """An operator without state: what each row gives, and what each set of punctuations tells."""

    def step(rows: list[Row], state: State) -> tuple[list[Row], State]:
        return [made for row in rows for made in f(row)], state

    return Operator((schema,), out, (), (step,), propagate=lambda _state, seen: list(tell(seen[0])))


def _hold(which: int) -> Step:
    """A step that only adds the rows to those that are held of one input."""

    def step(rows: list[Row], state: Two) -> tuple[list[Row], Two]:
        held = list(state)
        held[which] = (*held[which], *rows)
        return [], (held[0], held[1])

    return step


def _closed(known: Punctuations, schema: Schema, row: Row) -> bool:
    return known.matches(named(schema, row))


def _free(known: Punctuations, schema: Schema, held: Iterable[Row]) -> list[Punctuation]:
    """Punctuations that no row that is held matches."""
    return unmatched(known, [named(schema, row) for row in held])


# --- one row at a time ------------------------------------------------------------------------------------


def select(schema: Schema, predicate: Callable[[dict[str, Any]], bool]) -> Operator:
    """σ: rows that satisfy a predicate; what is over is over."""
    return _row_wise(
        schema,
        schema,
        lambda row: [row] if predicate(named(schema, row)) else [],
        lambda known: known,
    )


def restrict(schema: Schema, kept: Punctuation) -> Operator:
    """σ by a pattern for each column: what does not match is over before the first row."""
    never = Punctuation().without(kept, schema)
    return _row_wise(
        schema,
        schema,
        lambda row: [row] if kept.matches(named(schema, row)) else [],
        lambda known: [*never, *known],
    )


def project(schema: Schema, kept: Sequence[str]) -> Operator:
    """π without elimination of duplicates; punctuations over the columns that stay are told."""
    return _row_wise(
        schema,
        {n: schema[n] for n in kept},
        lambda row: [tuple(named(schema, row)[n] for n in kept)],
        lambda known: known.rename({n: n for n in kept}),
    )


def rename(schema: Schema, names: dict[str, str]) -> Operator:
    """ρ: the same rows under other names."""
    full = {n: names.get(n, n) for n in schema}
    return _row_wise(
        schema,
        {full[n]: t for n, t in schema.items()},
        lambda row: [row],
        lambda known: known.rename(full),
    )


def map_rows(
    schema: Schema,
    out: Schema,
    f: Callable[[Row], Row],
    tell: Callable[[Punctuations], Iterable[Punctuation]] = lambda known: (),
) -> Operator:
    """f of each row; `tell` says what of the output is over, which f alone does not say."""
    return _row_wise(schema, out, lambda row: [f(row)], tell)


def window(schema: Schema, column: str, width: int, name: str) -> Operator:
    """Each row with the start of its window, ⌊v / width⌋ · width of a whole number; a window is over when its values are."""
    place = list(schema).index(column)

    def start(row: Row) -> Row:
        value = row[place]
        return (*row, None if value is None else value // width * width)

    def tell(known: Punctuations) -> Iterator[Punctuation]:
        for p in known:
            yield p
            if p.shape == (column,):
                yield from _windows(p.at(column), width, name)

    assert schema[column].name in INTEGRAL
    return _row_wise(schema, {**schema, name: schema[column]}, lambda row: [start(row)], tell)


def _windows(p: Pattern, width: int, name: str) -> Iterator[Punctuation]:
    """The starts of windows that lie in a pattern, which is in its normal form: values without a gap are a range."""
    if not isinstance(p, Range):
        if width == 1:
            yield Punctuation.of({name: p})
        return
    first = None if p.low is None else -(-p.low // width) * width
    last = None if p.high is None else (p.high + 1) // width * width - width
    if first is None or last is None or first <= last:
        yield Punctuation.of({name: Range(first, last, True, True)})


# --- sets and bags ----------------------------------------------------------------------------------------


def distinct(schema: Schema) -> Operator:
    """δ: a row when it comes first; rows that cannot come again need not be known."""

    def step(rows: list[Row], known: Rows) -> tuple[list[Row], Rows]:
        new = [row for row in dict.fromkeys(rows) if row not in known]
        return new, (*known, *new)

    return Operator(
        (schema,),
        schema,
        (),
        (step,),
        purge=lambda known, seen: tuple(r for r in known if not _closed(seen[0], schema, r)),
        propagate=lambda _known, seen: list(seen[0]),
    )


def union_all(schema: Schema) -> Operator:
    """⊎: what is over in both inputs is over."""

    def step(rows: list[Row], state: State) -> tuple[list[Row], State]:
        return rows, state

    def propagate(_state: State, seen: Seen) -> list[Punctuation]:
        return list(seen[0] & seen[1])

    return Operator((schema, schema), schema, (), (step, step), propagate=propagate)


def union(schema: Schema) -> Chain:
    """∪ without duplicates."""
    return Chain(union_all(schema), distinct(schema))


def common(schema: Schema) -> Operator:
    """Rows of one input that the other has too, as often as one of them comes; `intersection` has each once.

    A row waits for the same row of the other input, and goes when it can come there no more. What both inputs have closed
    is over, and what one has closed and none of its rows waits for.
    """

    def step(which: int) -> Step:
        def run(rows: list[Row], state: Two) -> tuple[list[Row], Two]:
            other = state[1 - which]
            return [row for row in rows if row in other], _hold(which)(rows, state)[1]

        return run

    def purge(state: Two, seen: Seen) -> Two:
        left, right = (
            tuple(row for row in held if not _closed(closed, schema, row))
            for held, closed in zip(state, reversed(seen), strict=True)
        )
        return left, right

    def propagate(state: Two, seen: Seen) -> list[Punctuation]:
        free = [_free(known, schema, held) for known, held in zip(seen, state, strict=True)]
        return [*(seen[0] & seen[1]), *free[0], *free[1]]

    return Operator(
        (schema, schema), schema, ((), ()), (step(0), step(1)), purge=purge, propagate=propagate
    )


def intersection(schema: Schema) -> Chain:
    """∩: rows of both inputs, each once."""
    return Chain(common(schema), distinct(schema))


def missing(schema: Schema) -> Operator:
    """Rows of the left input that the right one has not and will not have; `difference` has each once.

    pass:   left rows that are not on the right, where the right is closed
    purge:  left rows that are on the right, or where it is closed; *then* right rows where the left is closed. The
            order matters: a right row may go only when the left rows that it takes away are gone.
    tell:   what both have closed, and what the left has closed and no left row waits for
    """

    def pass_on(state: Two, seen: Seen) -> list[Row]:
        left, right = state
        return [row for row in left if row not in right and _closed(seen[1], schema, row)]

    def purge(state: Two, seen: Seen) -> Two:
        left, right = state
        waiting = [row for row in left if row not in right and not _closed(seen[1], schema, row)]
        return tuple(waiting), tuple(row for row in right if not _closed(seen[0], schema, row))

    def propagate(state: Two, seen: Seen) -> list[Punctuation]:
        return [*(seen[0] & seen[1]), *_free(seen[0], schema, state[0])]

    return Operator(
        (schema, schema), schema, ((), ()), (_hold(0), _hold(1)), pass_on, purge, propagate
    )


def difference(schema: Schema) -> Chain:
    """−: rows of the left input that are not on the right, each once, as soon as that is certain."""
    return Chain(missing(schema), distinct(schema))


# --- groups, joins, order ---------------------------------------------------------------------------------


def group_by(
    schema: Schema, keys: Sequence[str], results: Schema, aggregate: Callable[[list[Row]], Row]
) -> Operator:
    """γ: one row for each group, when all of the group is over; then the group goes.

    Patterns over the keys alone are told. A count is certain just when its group is over; a greatest value may be certain
    before, because nothing exceeds it, and is told later than it might be.
    """

    def key_of(row: Row) -> Row:
        values = named(schema, row)
        return tuple(values[n] for n in keys)

    def is_over(key: Row, seen: Seen) -> bool:
        return seen[0].subsumes(Punctuation.of(dict(zip(keys, key, strict=True))))

    def step(rows: list[Row], held: Rows) -> tuple[list[Row], Rows]:
        return [], (*held, *rows)

    def pass_on(held: Rows, seen: Seen) -> list[Row]:
        groups: dict[Row, list[Row]] = {}
        for row in held:
            groups.setdefault(key_of(row), []).append(row)
        return [(*k, *aggregate(rows)) for k, rows in groups.items() if is_over(k, seen)]

    return Operator(
        (schema,),
        {**{n: schema[n] for n in keys}, **results},
        (),
        (step,),
        pass_on,
        purge=lambda held, seen: tuple(row for row in held if not is_over(key_of(row), seen)),
        propagate=lambda _held, seen: list(seen[0].rename({n: n for n in keys})),
    )


def join(left: Schema, right: Schema) -> Operator:
    """⋈ by the columns of the same name; NULL equals nothing.

    A row goes when no row of the other input that has its key can come: left rows by what is over on the *right*.
    """
    on = [n for n in left if n in right]
    sides = (left, right)
    out = {**left, **right}

    def key_of(which: int, row: Row) -> Row:
        values = named(sides[which], row)
        return tuple(values[n] for n in on)

    def step(which: int) -> Step:
        def run(rows: list[Row], state: Two) -> tuple[list[Row], Two]:
            made: list[Row] = []
            for row in rows:
                key = key_of(which, row)
                for other in state[1 - which]:
                    if key == key_of(1 - which, other) and None not in key:
                        values = named(sides[which], row) | named(sides[1 - which], other)
                        made.append(tuple(values[n] for n in out))
            return made, _hold(which)(rows, state)[1]

        return run

    def is_alone(which: int, row: Row, seen: Seen) -> bool:
        key = key_of(which, row)
        wanted = Punctuation.of(dict(zip(on, key, strict=True)))
        return None in key or seen[1 - which].subsumes(wanted)

    def purge(state: Two, seen: Seen) -> Two:
        kept = (
            tuple(row for row in held if not is_alone(which, row, seen))
            for which, held in enumerate(state)
        )
        return next(kept), next(kept)

    def propagate(state: Two, seen: Seen) -> list[Punctuation]:
        free = [_free(seen[which], sides[which], state[which]) for which in (0, 1)]
        return [*(seen[0] & seen[1]), *free[0], *free[1]]

    return Operator(
        (left, right), out, ((), ()), (step(0), step(1)), purge=purge, propagate=propagate
    )


def sort(schema: Schema, by: Sequence[str]) -> Operator:
    """Rows in order, NULL first, of the columns given and then the others: a row when nothing can come before it.

    So the output is at any point a beginning of the sorted table, the longest that is certain.
    """
    columns = [*by, *(n for n in schema if n not in by)]

    def place(row: Row) -> Any:
        values = named(schema, row)
        return order(tuple(values[n] for n in columns))

    def earlier(row: Row) -> Iterator[Punctuation]:
        """Everything that is before a row: equal up to some column, and less there."""
        values = named(schema, row)
        for i, name in enumerate(columns):
            same = {n: values[n] for n in columns[:i]}
            if values[name] is not None:
                yield Punctuation.of({**same, name: None})
                yield Punctuation.of({**same, name: below(values[name])})

    def certain(held: Rows, seen: Seen) -> int:
        count = 0
        while count < len(held) and all(seen[0].subsumes(p) for p in earlier(held[count])):
            count += 1
        return count

    def step(rows: list[Row], held: Rows) -> tuple[list[Row], Rows]:
        return [], tuple(sorted((*held, *rows), key=place))

    return Operator(
        (schema,),
        schema,
        (),
        (step,),
        pass_on=lambda held, seen: list(held[: certain(held, seen)]),
        purge=lambda held, seen: held[certain(held, seen) :],
        propagate=lambda held, seen: _free(seen[0], schema, held),
    )
