"""Loops as terms: their meaning is the step again and again, and their type is that of the start."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given

from headwater.calculus import ring
from headwater.calculus.check import check, type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.notation.parse import parse
from headwater.calculus.terms import Field, Let, Rel, Repeat, Term, Var, Within
from headwater.calculus.types import BIGINT, DOUBLE, FunType, bag, record
from headwater.errors import IllTyped, NoFixpoint, NotHomomorphic
from headwater.theory import merge_monoids
from headwater.theory.degree_cost import UNBOUNDED, BagCost, cost, degree
from random_terms import At, Generator
from strategies import FULL, Pick, Types, database, drawn

ROWS = bag(record(a=BIGINT, b=BIGINT))
INPUTS = {"R": ROWS, "S": ROWS}
CLOSURE = """
    repeat[{}] X := R
    then each k ↦ n in (R + (for x in X collect for r in R collect [x.b = r.a] · {{{{a: x.a, b: r.b}}}}))
         collect [box(n) > 0] · {{k}}
"""


def loop(text: str, **inputs: Any) -> Any:
    """The value of a loop over rows (a, b)."""
    there = {name: from_python(ROWS, rows) for name, rows in inputs.items()}
    return interpret(parse(text, INPUTS), there)


def unrolled(term: Repeat, times: int) -> Term:
    """let X := (let X := start in step) in step: so many rounds, one after another."""
    return Let(term.var, unrolled(term, times - 1), term.step) if times else term.start


def loops(pick: Pick) -> Any:
    inputs = Types(pick).inputs()
    random, at = Generator(pick, inputs, FULL, 14), At((), 3)
    made = random.repeat(bag(random.row_type(at)), at)
    return made.term if isinstance(made, Field) else made, inputs, pick


@pytest.mark.property
@given(drawn(loops))
def test_a_loop_is_its_rounds_one_after_another(case: Any) -> None:
    """repeat[times n] x := r then s = let x := (... let x := r in s ...) in s."""
    term, inputs, pick = case
    event(f"{term.times} rounds")
    there = database(inputs, pick)
    assert interpret(term, there) == interpret(unrolled(term, term.times), there)


def test_a_loop_ends_when_nothing_changes() -> None:
    chain, ring_of = [(1, 2), (2, 3), (3, 4)], [(1, 2), (2, 3), (3, 1)]
    assert set(loop(CLOSURE.format("limit 100"), R=chain)) == {
        (i, j) for i in range(1, 5) for j in range(1, 5) if i < j
    }
    assert set(loop(CLOSURE.format("limit 100"), R=ring_of)) == {
        (i, j) for i in range(1, 4) for j in range(1, 4)
    }
    assert loop(CLOSURE.format("limit 100"), R=[]) == {}


@pytest.mark.parametrize(("times", "most"), [(0, 1), (1, 2), (2, 3), (3, 4), (50, 5)])
def test_times_says_how_many_rounds_there_are(times: int, most: int) -> None:
    chain = [(i, i + 1) for i in range(5)]
    found = loop(CLOSURE.format(f"times {times}"), R=chain)
    assert max(b - a for a, b in found) == most


def test_a_loop_that_does_not_end_has_no_value() -> None:
    for text in ("repeat[limit 9] X := R then X + R", "repeat[limit 9] X := R then -X"):
        with pytest.raises(NoFixpoint, match="after 9 rounds"):
            loop(text, R=[(1, 2)])
        assert loop(text, R=[]) == {}
    assert loop("repeat[times 9] X := R then -X", R=[(1, 2)]) == {(1, 2): -1}
    with pytest.raises(NoFixpoint, match="after 4 rounds"):  # the fifth says that nothing changes
        loop(CLOSURE.format("limit 4"), R=[(i, i + 1) for i in range(5)])
    assert len(loop(CLOSURE.format("limit 5"), R=[(i, i + 1) for i in range(5)])) == 15


RANKS = bag(record(k=BIGINT, v=DOUBLE))
HALVED = "repeat[{}] X := R then for x in X collect {{{{k: x.k, v: x.v / 2.0}}}}"


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("within 0.25 of v by k limit 100", 0.25),
        ("within 0.2 of v by k limit 100", 0.125),
        ("times 1 within 0.2 of v by k", 0.5),
        ("times 9 within 0.2 of v by k", 0.125),
    ],
)
def test_a_loop_ends_when_values_move_little(end: str, found: float) -> None:
    rows = from_python(RANKS, [(1, 1.0), (2, None), (3, 0.0)])
    value = interpret(parse(HALVED.format(end), {"R": RANKS}), {"R": rows})
    assert value == from_python(RANKS, [(1, found), (2, None), (3, 0.0)])


def test_a_key_that_comes_or_goes_has_moved() -> None:
    growing = (
        "repeat[within 9.0 of v by k limit 5] X := R then for x in X collect {{k: x.k + 1, v: x.v}}"
    )
    with pytest.raises(NoFixpoint):
        interpret(parse(growing, {"R": RANKS}), {"R": from_python(RANKS, [(1, 1.0)])})


def test_several_collections_go_through_the_rounds_together() -> None:
    """Each sees what the others were the round before, not what they have become."""
    text = "(repeat[times {}] X := ⟨m: R, n: S⟩ then ⟨m: X.n, n: X.m⟩).m"
    r, s = from_python(ROWS, [(1, 1)]), from_python(ROWS, [(2, 2)])
    for times, expected in ((0, r), (1, s), (2, r), (3, s)):
        term = parse(text.format(times), INPUTS)
        assert check(term, INPUTS) == ROWS
        assert interpret(term, {"R": r, "S": s}) == expected


def test_a_loop_in_a_loop_has_a_meaning() -> None:
    """The outer variable is read in the inner loop; who maintains loops may refuse it."""
    text = "repeat[times 2] X := R then repeat[times 3] Y := X then Y + X"
    assert loop(text, R=[(1, 1)]) == {(1, 1): 16}


@pytest.mark.parametrize(
    "text",
    [
        "repeat[times 1] X := R then for x in X collect {x.a}",
        "repeat[times 1] X := R then sum(X)",
        "repeat[times 1] X := ⟨m: R⟩ then ⟨n: X.m⟩",
        "repeat[times 1] X := fn x: bigint => R then X",
    ],
)
def test_a_step_has_the_type_of_its_start(text: str) -> None:
    with pytest.raises(IllTyped):
        check(parse(text, INPUTS))


def test_a_variable_has_the_type_of_the_start() -> None:
    other = Var("X", bag(record(a=BIGINT)))
    with pytest.raises(IllTyped, match="X of type"):
        type_of(Repeat(other, Rel("R", ROWS), Rel("R", ROWS)))
    functions = FunType(BIGINT, ROWS)
    with pytest.raises(IllTyped, match="a finite ring value"):
        type_of(Repeat(Var("F", functions), Var("G", functions), Var("F", functions)))


def test_loops_differ_by_their_ends() -> None:
    x = Var("X", ROWS)
    ends = [{}, {"times": 3}, {"limit": 3}, {"within": Within(0.1, "a", ("b",))}]
    made = {Repeat(x, Rel("R", ROWS), x, **end) for end in ends}  # type: ignore[arg-type]
    assert len(made) == len(ends)


def test_what_theory_says_of_a_loop() -> None:
    """A loop is no sum of products of what it reads, no homomorphism, and costs as much as its first round at least."""
    term = parse("repeat[times 3] X := R then for x in X collect for y in X collect {x}", INPUTS)
    assert degree(term, {"R"}) == UNBOUNDED
    assert degree(term, {"S"}) == 0
    with pytest.raises(NotHomomorphic, match="not linear in what changes"):
        merge_monoids.infer(term, {"R"})
    assert merge_monoids.infer(term, {"S"}).monoid == merge_monoids.Invariant()
    assert cost(term, {"R": BagCost(10, (1, 1))}) == BagCost(100, (1, 1))
    several = parse("(repeat[times 2] X := ⟨m: R, n: S⟩ then ⟨m: X.n, n: X.m⟩).m", INPUTS)
    assert isinstance(several, Field)
    assert cost(several, {"R": BagCost(3, (1, 1)), "S": BagCost(4, (1, 1))}) == BagCost(4, (1, 1))
    assert ring.zero(type_of(term)) == {}
