"""The operators of punctuated streams, against operators of tables and every future that is left open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count, islice
from random import Random
from typing import Any

import pytest

from headwater.calculus.patterns import (
    Constant,
    Punctuation,
    Punctuations,
    Range,
    above,
    below,
    between,
    upto,
)
from headwater.calculus.scalars import order
from headwater.calculus.types import BIGINT, BOOLEAN, DOUBLE, INTEGER
from headwater.streams.framework import (
    END,
    Chain,
    Memory,
    Operator,
    Row,
    ended,
    grammatical,
    named,
    passes_nothing,
    punctuations_of,
    rows_of,
)
from headwater.streams.operators import (
    common,
    difference,
    distinct,
    group_by,
    intersection,
    join,
    map_rows,
    missing,
    project,
    rename,
    restrict,
    select,
    sort,
    union,
    union_all,
    window,
)
from random_streams import ONE, TWO, Case, Unfaithful, judged, random_input

closed = Punctuation.of
NUMBER = {"n": INTEGER}
NUMBERS = (0, 1, 2, 3)
RANGES = [*map(Constant, NUMBERS), below(2), upto(2), above(1), between(1, 2)]


# --- operators of tables ----------------------------------------------------------------------------------


def counted(rows: list[Row], key: Callable[[Row], Row]) -> list[Row]:
    return [(*k, n) for k, n in Counter(map(key, rows)).items()]


def greatest(rows: list[Row]) -> list[Row]:
    groups: dict[Any, list[Any]] = {}
    for a, b in rows:
        groups.setdefault(a, []).append(b)
    return [(a, max(bs, key=order)) for a, bs in groups.items()]


def joined(left: list[Row], right: list[Row]) -> list[Row]:
    return [(a, b, c) for a, b in left for a2, c in right if a is not None and a == a2]


def crossed(left: list[Row], right: list[Row]) -> list[Row]:
    return [(a, b) for (a,) in left for (b,) in right]


def turned(row: Row) -> Row:
    return tuple(None if v is None else not v for v in row)


def turned_over(known: Punctuations) -> list[Punctuation]:
    """What is over behind `not` of each column: told for constants only."""
    flat = [p for p in known if all(isinstance(q, Constant) for _, q in p.columns)]
    return [
        closed(dict(zip(p.shape, turned(tuple(q.value for _, q in p.columns)), strict=True)))
        for p in flat
    ]


def windows(rows: list[Row]) -> list[Row]:
    return [(n, n // 2 * 2) for (n,) in rows]


def length(rows: list[Row]) -> Row:
    return (len(rows),)


RIGHT = {"a": BOOLEAN, "c": BOOLEAN}
COUNT = {"n": BIGINT}
of_numbers: Any = partial(Case, values=NUMBERS, patterns=RANGES)
CASES: dict[str, Case] = {
    "select": Case(
        select(TWO, lambda row: row["a"] is True), lambda rows: [r for r in rows if r[0] is True]
    ),
    "restrict": Case(
        restrict(TWO, closed({"a": True, "b": Range(None, None, False, False)})),
        lambda rows: [r for r in rows if r[0] is True and r[1] is not None],
    ),
    "project": Case(project(TWO, ["b"]), lambda rows: [(b,) for _, b in rows]),
    "rename": Case(rename(TWO, {"a": "b", "b": "a"}), list),
    "map": Case(map_rows(TWO, TWO, turned, turned_over), lambda rows: list(map(turned, rows))),
    "window": of_numbers(window(NUMBER, "n", 2, "start"), windows),
    "distinct": Case(distinct(TWO), lambda rows: list(set(rows))),
    "union all": Case(union_all(ONE), lambda left, right: left + right),
    "union": Case(union(ONE), lambda left, right: list({*left, *right})),
    "intersection": Case(intersection(ONE), lambda left, right: list({*left} & {*right})),
    "difference": Case(difference(ONE), lambda left, right: list({*left} - {*right})),
    "count by key": Case(
        group_by(TWO, ["a"], COUNT, length), lambda rows: counted(rows, lambda r: r[:1])
    ),
    "count by all": Case(
        group_by(TWO, ["b", "a"], COUNT, length), lambda rows: counted(rows, lambda r: (r[1], r[0]))
    ),
    "greatest by key": Case(
        group_by(TWO, ["a"], {"b": BOOLEAN}, lambda rows: (max((b for _, b in rows), key=order),)),
        greatest,
        complete=False,  # nothing is greater than true, so that some groups are certain before they are over
    ),
    "count by window": of_numbers(
        Chain(
            window(NUMBER, "n", 2, "start"),
            group_by({**NUMBER, "start": INTEGER}, ["start"], COUNT, length),
        ),
        lambda rows: counted(rows, lambda r: (r[0] // 2 * 2,)),
    ),
    "join": Case(join(TWO, RIGHT), joined),
    "cross join": Case(join(ONE, {"b": BOOLEAN}), crossed),
    "sort": Case(sort(ONE, ["a"]), lambda rows: sorted(rows, key=order), ordered=True),
    "sort by second": Case(
        sort(TWO, ["b"]), lambda rows: sorted(rows, key=lambda r: order(r[::-1])), ordered=True
    ),
}
LARGE = {"join", "sort by second", "count by all", "distinct"}
"""Cases with many futures, of which the ordinary run tries fewer inputs."""


def inputs(case: Case, how_many: int, length_: int, seed: int = 0) -> Iterator[Any]:
    pick = Random(seed)
    return (random_input(case, pick, length_) for _ in range(how_many))


@pytest.mark.parametrize("name", CASES)
def test_operators_are_faithful_and_proper(name: str) -> None:
    """Safe, complete and proper after each slice of every slicing, against every future of up to three rows."""
    for elements in inputs(CASES[name], 3 if name in LARGE else 10, 5):
        judged(CASES[name], elements)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_operators_are_faithful_and_proper_for_long(name: str) -> None:
    for elements in inputs(CASES[name], 200, 5 if name in LARGE else 6, seed=1):
        judged(CASES[name], elements)


# --- rules that are wrong ---------------------------------------------------------------------------------


def broken_difference(**changed: Any) -> Case:
    """The difference with some of its functions replaced."""
    wrong = Chain(replace(missing(ONE), **changed), distinct(ONE))
    return Case(wrong, CASES["difference"].table)


def matched(known: Punctuations, row: Row) -> bool:
    return known.matches(named(ONE, row))


def printed_purge(state: Any, seen: Any) -> Any:
    """Right rows go by *right* punctuations: a left row that comes later is taken for one that the right has not."""
    left, right = missing(ONE).purge(state, seen)
    return left, tuple(row for row in right if not matched(seen[1], row))


def half_a_purge(state: Any, seen: Any) -> Any:
    """Right rows go by left punctuations, while left rows that they take away still wait."""
    left, right = state
    waiting = tuple(row for row in left if not matched(seen[1], row))
    return waiting, tuple(row for row in right if not matched(seen[0], row))


def copy_by_copy(state: Any, seen: Any) -> list[Row]:
    """A right row takes away one copy of a left row, and not all."""
    left, right = Counter(state[0]), Counter(state[1])
    return [row for row in (left - right).elements() if matched(seen[1], row)]


def all_of_left(_state: Any, seen: Any) -> list[Punctuation]:
    """What the left has closed, while rows of it wait for the right."""
    return list(seen[0])


def either_side(_state: Any, seen: Any) -> list[Punctuation]:
    """What one of two inputs has closed."""
    return [*seen[0], *seen[1]]


def over_in_part(held: Any, seen: Any) -> list[Any]:
    """Groups of which a row is closed."""
    return [row[0] for row in held if seen[0].matches(named(TWO, row))]


def groups_over_in_part() -> Operator:
    """A count by key that takes a group for closed when one of its rows is."""
    return replace(
        group_by(TWO, ["a"], COUNT, length),
        pass_on=lambda held, seen: counted(
            [row for row in held if row[0] in over_in_part(held, seen)], lambda row: row[:1]
        ),
        purge=lambda held, seen: tuple(
            row for row in held if row[0] not in over_in_part(held, seen)
        ),
    )


def own_side(state: Any, seen: Any) -> Any:
    """Rows of a join go by what is over in their own input."""
    return join(TWO, RIGHT).purge(
        state, (seen[1].rename({"a": "a", "c": "b"}), seen[0].rename({"a": "a", "b": "c"}))
    )


WRONG: dict[str, tuple[Case, str]] = {
    "the purge of the right as printed": (broken_difference(purge=printed_purge), "not safe"),
    "the purge of the right alone": (broken_difference(purge=half_a_purge), "not safe"),
    "one copy for one": (broken_difference(pass_on=copy_by_copy), "not safe"),
    "no pass": (broken_difference(pass_on=passes_nothing), "not complete"),
    "left punctuations as they come": (broken_difference(propagate=all_of_left), "not proper"),
    "a union that tells one side": (
        Case(replace(union_all(ONE), propagate=either_side), CASES["union all"].table),
        "not proper",
    ),
    "a group that is over in part": (
        Case(groups_over_in_part(), CASES["count by key"].table),
        "not safe",
    ),
    "a join that purges by its own side": (
        Case(replace(join(TWO, RIGHT), purge=own_side), CASES["join"].table),
        "not complete|not proper",
    ),
    "an intersection with duplicates": (Case(common(ONE), CASES["intersection"].table), "not safe"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_are_found(name: str) -> None:
    case, says = WRONG[name]
    with pytest.raises(Unfaithful, match=says):
        for elements in inputs(case, 2000, 5, seed=5):
            judged(case, elements)


# --- purging ----------------------------------------------------------------------------------------------


def held(op: Operator | Chain, memory: Any) -> int:
    """How many rows are remembered."""
    if isinstance(op, Chain):
        return held(op.first, memory[0]) + held(op.second, memory[1])
    state = memory.state
    return sum(map(len, state)) if len(op.steps) == 2 and state else len(state)


def unpurged(op: Operator) -> Operator:
    """The operator without its purge; it gives a row once that its state still has."""

    def pass_on(state: Any, seen: Any) -> list[Row]:
        return list((Counter(op.pass_on(state[0], seen)) - Counter(state[1])).elements())

    def purge(state: Any, seen: Any) -> Any:
        return state[0], op.pass_on(state[0], seen)

    def step(which: int) -> Any:
        def run(rows: list[Row], state: Any) -> Any:
            out, new = op.steps[which](rows, state[0])
            return out, (new, state[1])

        return run

    return replace(
        op,
        initial=(op.initial, []),
        steps=tuple(step(i) for i in range(len(op.steps))),
        pass_on=pass_on,
        purge=purge,
        propagate=lambda state, seen: op.propagate(op.purge(state[0], seen), seen),
    )


def without_purging(op: Operator | Chain) -> Operator | Chain:
    if isinstance(op, Chain):
        return Chain(without_purging(op.first), without_purging(op.second))
    return unpurged(op)


def play(op: Operator | Chain, elements: list[Any]) -> tuple[list[Any], Any]:
    """The output for one element after the other, rows in no order, and what is remembered at the end."""
    memory, out = op.start(), []
    for which, x in elements:
        got, memory = op.turn(which, [x], memory)
        out.append((Counter(rows_of(got)), Punctuations(punctuations_of(got), op.schema)))
    return out, memory


@pytest.mark.parametrize("name", CASES)
def test_purging_changes_no_later_output(name: str) -> None:
    case = CASES[name]
    for elements in inputs(case, 20, 10, seed=2):
        assert play(case.op, elements)[0] == play(without_purging(case.op), elements)[0]


@pytest.mark.parametrize("name", CASES)
def test_the_end_of_the_stream_gives_the_table_and_leaves_nothing(name: str) -> None:
    """`final` of operators without punctuation is what the end of the stream does."""
    case = CASES[name]
    for elements in inputs(case, 20, 8, seed=3):
        rows = [x for x in elements if not isinstance(x[1], Punctuation)]
        ends = [(which, END) for which in range(len(case.op.inputs))]
        out, memory = play(case.op, [*rows, *ends])
        tables = [[x for w, x in rows if w == which] for which in range(len(case.op.inputs))]
        assert sum((c for c, _ in out), Counter()) == Counter(case.table(*tables))
        told = Punctuations([p for _, known in out for p in known], case.op.schema)
        assert told.subsumes(END) and held(case.op, memory) == 0


# --- streams written out ----------------------------------------------------------------------------------


def rows(*values: int) -> list[Any]:
    return [(v,) for v in values]


def test_a_sort_that_gives_a_range_when_it_is_over() -> None:
    """Positive numbers: 1 to 10 are over after 3, 11 to 20 after 15; 11 came before and waited."""
    over = [closed({"n": None}), closed({"n": below(1)})]
    stream = [
        over,
        [*rows(8, 2, 6, 11, 3), closed({"n": between(1, 10)})],
        [*rows(12, 24, 15), closed({"n": between(11, 20)})],
        rows(28, 21),
    ]
    dense = {"n": DOUBLE}
    gaps = closed({"n": Range(10, 11, False, False)})  # so that 10 and 11 are neighbours
    out = list(sort(dense, ["n"])(stream))
    assert [rows_of(piece) for piece in out] == [[], rows(2, 3, 6, 8), [], []]
    stream[2].append(gaps)
    out = list(sort(dense, ["n"])(stream))
    assert [rows_of(piece) for piece in out] == [[], rows(2, 3, 6, 8), rows(11, 12, 15), []]
    assert grammatical(dense, stream) and grammatical(dense, out)
    told = Punctuations([p for piece in out for p in punctuations_of(piece)], dense)
    assert told.subsumes(closed({"n": upto(20)})) and not told.matches({"n": 24.0})


def test_a_sort_of_whole_numbers_gives_the_next_one_too() -> None:
    """Nothing comes before 11 when 1 to 10 are over: it is certain to be next, and 21 after 20."""
    stream = [
        [closed({"n": None}), closed({"n": below(1)})],
        [*rows(8, 2, 6, 11, 3), closed({"n": between(1, 10)})],
        [*rows(12, 24, 15), closed({"n": between(11, 20)})],
        rows(28, 21),
    ]
    out = list(sort(NUMBER, ["n"])(stream))
    assert [rows_of(piece) for piece in out] == [[], rows(2, 3, 6, 8, 11), rows(12, 15), rows(21)]
    assert grammatical(NUMBER, stream) and grammatical(NUMBER, out)


def test_a_sort_of_a_finite_stream() -> None:
    out = list(sort(NUMBER, ["n"])(ended([rows(8, 2, 6, 11, 3)])))
    assert out == [[], [*rows(2, 3, 6, 8, 11), END]]


def test_what_comes_after_its_punctuation_is_not_grammatical() -> None:
    over = closed({"n": between(1, 10)})
    assert grammatical(NUMBER, [[*rows(8, 11), over], rows(11, 12)])
    assert grammatical(NUMBER, [[*rows(8), over]]), "in a slice rows are before punctuations"
    assert not grammatical(NUMBER, [[over], rows(8)])
    assert not grammatical(NUMBER, [[END], rows(99)])


def test_output_depends_on_what_was_read_alone() -> None:
    """An operator reads no further than it must, so that a stream may have no end."""
    endless = ([(n, n % 3), closed({"n": upto(n)})] for n in count())
    counts = group_by({**NUMBER, "r": INTEGER}, ["n"], COUNT, length)
    got = [rows_of(piece) for piece in islice(counts(endless), 4)]
    assert got == [[(n, 1)] for n in range(4)]


def test_outages_that_nobody_reported() -> None:
    """Monitors that are silent in hour 3, but for zones somebody called about: told when the calls of the hour are over."""
    schema = {"zone": INTEGER, "hour": INTEGER}
    monitors = [[(1, 3), (2, 3), (6, 3)], [(1, 4)], []]
    calls = [[(2, 3)], [closed({"hour": 3})], [(1, 4), closed({"hour": 4})]]
    out = list(difference(schema)(monitors, calls))
    assert [rows_of(piece) for piece in out] == [[], [], [], [(1, 3), (6, 3)], [], []]
    monitors[2] = [closed({"hour": upto(4)})]
    told = [p for piece in difference(schema)(monitors, calls) for p in punctuations_of(piece)]
    assert Punctuations(told, schema).subsumes(closed({"hour": {3, 4}}))


def test_inputs_need_not_be_in_step() -> None:
    """One input may have all its slices before the other has any; an input that is at its end gives empty slices."""
    left, right = [rows(1, 2), rows(3)], [[], [], rows(2, 3), [END]]
    out = list(difference(NUMBER)(left, right))
    assert [row for piece in out for row in rows_of(piece)] == rows(1) and len(out) == 8


def test_select_that_punctuates_before_its_first_row() -> None:
    eight = restrict({"hour": INTEGER}, closed({"hour": 8}))
    (out,) = eight([[(7,), (8,)]])
    assert rows_of(out) == [(8,)]
    told = Punctuations(punctuations_of(out), {"hour": INTEGER})
    assert not told.matches({"hour": 8})
    assert all(told.matches({"hour": h}) for h in (None, 7, 9))


def test_windows_are_over_when_their_values_are() -> None:
    of = window(NUMBER, "n", 10, "start")
    (out,) = of([[(7,), (23,), (-1,), closed({"n": between(5, 34)})]])
    assert rows_of(out) == [(7, 0), (23, 20), (-1, -10)]
    assert closed({"start": between(10, 20)}) in punctuations_of(out)


def test_memory_is_a_value() -> None:
    """A turn changes nothing in place, so that a stream can be gone on with in two ways."""
    op = distinct(ONE)
    start = op.start()
    _, once = op.turn(0, [(True,)], start)
    assert start == op.start() and once == op.turn(0, [(True,)], start)[1]
    assert isinstance(once, Memory) and once.state == ((True,),)
