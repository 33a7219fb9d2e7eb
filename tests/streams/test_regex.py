"""Patterns: the position automaton against derivatives, row by row, over columns, and cut anywhere."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from headwater.errors import HeadwaterError, ParseError
from headwater.streams.regex import (
    EMPTY,
    NEVER,
    Automaton,
    Predicate,
    Regex,
    automaton,
    bits_of,
    derivative,
    empty_too,
    parse,
    predicates,
    show,
    when,
)

LETTERS = (when("a > 1"), when(header="day"), when("x['k]'] = 1", header="day"), when("b"))


def letters() -> Any:
    return some.builds(
        lambda p, negated: ~p if negated else p, some.sampled_from(LETTERS), some.booleans()
    )


def patterns() -> Any:
    return some.recursive(
        letters() | some.sampled_from([EMPTY, NEVER]),
        lambda sub: some.one_of(
            some.builds(lambda r, s: r + s, sub, sub),
            some.builds(lambda r, s: r | s, sub, sub),
            sub.map(lambda r: r.many()),
            some.builds(lambda r, n: r.times(n), sub, some.integers(1, 3)),
        ),
        max_leaves=6,
    )


def rows(most: int = 8) -> Any:
    """Rows as sets of predicates that hold."""
    return some.lists(some.integers(0, 2 ** len(LETTERS) - 1), max_size=most)


def bits_for(r: Regex, row: int) -> int:
    """The bits of the pattern's own predicates."""
    return sum(1 << i for i, p in enumerate(predicates(r)) if row >> LETTERS.index(p) & 1)


def matches(r: Regex, stretch: list[int]) -> bool:
    """What a pattern means: take its rows away, one by one."""
    for row in stretch:
        r = derivative(r, lambda p, row=row: bool(row >> LETTERS.index(p) & 1))  # type: ignore[misc]
    return empty_too(r)


@settings(max_examples=300, deadline=None)
@given(patterns(), rows())
def test_a_stretch_matches_as_its_derivatives_say(r: Regex, stretch: list[int]) -> None:
    a = automaton(r)
    state = a.START
    for row in stretch:
        state = a.step(state, bits_for(r, row))
    if stretch:
        assert a.matches(state) == matches(r, stretch)


@settings(max_examples=300, deadline=None)
@given(patterns(), rows(), some.lists(some.integers(0, 8), max_size=3))
def test_a_search_ends_where_some_stretch_matches(r: Regex, seq: list[int], at: list[int]) -> None:
    a = automaton(r)
    expected = [any(matches(r, seq[i : j + 1]) for i in range(j + 1)) for j in range(len(seq))]
    bits = [bits_for(r, row) for row in seq]
    state, found = a.START, []
    for b in bits:
        state = a.search(state, b)
        found.append(a.matches(state))
    assert found == expected
    # The same over columns, cut anywhere.
    state_of_column, told = a.START, []
    for begin, end in zip([0, *sorted(at)], [*sorted(at), len(bits)], strict=True):
        matched, state_of_column = a.scan.run(bits[begin:end], state_of_column)
        told += matched.tolist()
    assert told == expected
    assert state_of_column == (state if bits else a.START)


@settings(max_examples=200, deadline=None)
@given(patterns(), rows())
def test_what_is_carried_belongs_to_the_shortest_stretch(r: Regex, seq: list[int]) -> None:
    a = automaton(r)
    held: dict[int, int] = {}
    for j, row in enumerate(seq):
        held = a.carried(held, j, bits_for(r, row), lambda start: start)
        assert len(held) <= len(a)
        starts = [i for i in range(j + 1) if matches(r, seq[i : j + 1])]
        assert a.matched(held, lambda start: start) == (max(starts) if starts else None)


@settings(max_examples=300, deadline=None)
@given(patterns())
def test_text_both_ways(r: Regex) -> None:
    assert parse(show(r)) == r


def test_text_and_size() -> None:
    top = when("lmax", header="day")
    r = top + (~top).many() + top
    assert show(r) == "day[lmax] !day[lmax]* day[lmax]"
    assert len(automaton(r)) == 3
    assert automaton(r).predicates == (top,)
    week = when(header="day").times(8)
    assert show(week) == "day^8"
    assert (len(automaton(week)), len(automaton(week).predicates)) == (8, 1)
    assert show(parse("(a | b[x > 1])* c")) == "(a | b[x > 1])* c"
    assert show(when(len) | when("a")) == "([@len] | [a])"


def test_groups_are_scanned_one_after_another() -> None:
    r = when("a") + when("b")
    a = automaton(r)
    matched, states = a.scan.run_groups([1, 2, 2, 1, 2], [0, 2, 2, 4, 5], [1, 1, 1, 3])
    assert matched.tolist() == [False, True, False, False, True]
    assert states == [5, 1, 3, 5]


def test_bits_of_columns() -> None:
    assert bits_of([[True, None, False], np.array([False, True, True])]).tolist() == [1, 2, 2]


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(HeadwaterError, match="is no predicate"):
        ~(when("a") + when("b"))
    with pytest.raises(HeadwaterError, match="is no pattern"):
        when("a") + "b"  # type: ignore[operator]
    with pytest.raises(HeadwaterError, match="at least once"):
        when("a").times(0)
    with pytest.raises(HeadwaterError, match="wants a condition"):
        when()
    for text in ("a )", "( a", "a ]", "* a"):
        with pytest.raises(ParseError):
            parse(text)


@pytest.mark.slow  # it measures, which other work beside it disturbs
def test_two_million_rows_a_second() -> None:
    p = [when(f"p{i}") for i in range(6)]
    r = p[0] + p[1].many() + (p[2] | p[3] + ~p[4]) + p[5].times(1)
    a = automaton(r)
    bits = np.random.default_rng(0).integers(0, 64, 500_000)
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        a.scan.run(bits)
        best = min(best, time.perf_counter() - began)
    assert best < 0.25, f"{len(bits) / best:,.0f} rows a second"


def test_a_table_of_steps_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.streams.regex.MOST_ENTRIES", 3)
    r = when("a") + when("b").many() + when("a")
    a, whole = automaton(r), automaton(r)
    bits = np.random.default_rng(1).integers(0, 4, 200)
    expected, _ = whole.scan.run(bits)
    state, told = Automaton.START, []
    for i in range(0, 200, 7):
        matched, state = a.scan.run(bits[i : i + 7], state)
        told += matched.tolist()
    assert told == expected.tolist()


def test_negation_of_a_predicate_is_its_own_inverse() -> None:
    p = Predicate("a", "day")
    assert ~~p == p
