"""Passes over terms with loops: what they keep, and what they refuse by name."""

from __future__ import annotations

import pytest

from headwater.calculus.check import type_of
from headwater.calculus.notation.parse import parse
from headwater.calculus.notation.text import show
from headwater.calculus.terms import Rel, Repeat, subterms
from headwater.calculus.types import BIGINT, Boxed, ListType, bag, record
from headwater.errors import NotIncremental, NotShreddable
from headwater.plan.equal_maps import canonical
from headwater.plan.failures import forgiving, raises
from headwater.plan.nested.opening import retyped
from headwater.plan.nested.shred import shred

ROWS = bag(record(a=BIGINT, b=BIGINT))
BAGS, LISTS = (bag(record(a=BIGINT, c=t)) for t in (Boxed(bag(BIGINT)), ListType(BIGINT)))
INPUTS = {"R": ROWS, "N": BAGS}


def test_variables_are_named_by_place() -> None:
    one = parse("repeat[times 2] X := R then for x in X collect {x}", INPUTS)
    other = parse("repeat[times 2] U := R then for u in U collect {u}", INPUTS)
    assert one != other
    assert canonical(one) == canonical(other)


def test_an_input_with_other_types_is_read_in_a_loop() -> None:
    """The variable has the type that the start has got."""
    term = parse("repeat[times 2] X := N then for x in X collect {x}", INPUTS)
    made = retyped(term, {Rel("N", BAGS): Rel("N", LISTS)})
    assert isinstance(made, Repeat)
    assert type_of(made) == made.var.type == LISTS
    assert show(made) == show(term)


def test_rows_with_arrays_of_two_kinds_are_refused() -> None:
    term = parse(f"repeat[times 2] X := N then zero({BAGS})", INPUTS)
    with pytest.raises(NotIncremental, match="RECURSION_NESTED"):
        retyped(term, {Rel("N", BAGS): Rel("N", LISTS)})


def test_flat_loops_are_shredded() -> None:
    """Inner bags are read inside of a loop and built around it."""
    text = """
        {{c: box(repeat[times 2] X := for n in N collect for x in unbox(n.c) collect {x}
                 then for n in N collect for x in X collect {x})}}
    """
    flat = shred(parse(text, INPUTS))
    (dictionary,) = flat.dictionaries().values()
    assert [t.times for t in subterms(dictionary) if isinstance(t, Repeat)] == [2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("repeat[times 2] X := N then X", "repeats rows with inner bags"),
        (
            "repeat[times 2] X := R then for x in X collect for y in {{c: box({x})}} collect unbox(y.c)",
            "builds inner bags in every round",
        ),
    ],
)
def test_loops_that_labels_cannot_follow_are_refused(text: str, why: str) -> None:
    with pytest.raises(NotShreddable, match=why):
        shred(parse(text, INPUTS))


def test_what_fails_in_a_loop_fails_there() -> None:
    """A loop counts its own failures; the rows around it know nothing of them."""
    text = "repeat[times 2] X := R then for x in X collect {{a: div(x.a, x.b), b: x.b}}"
    loop = parse(text, INPUTS)
    assert isinstance(loop, Repeat)
    assert not raises(loop)
    assert forgiving(loop) is loop
    assert raises(loop.step)
