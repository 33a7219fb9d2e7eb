"""Equalities around what changes: the same rows, and everything that is equal to one of its columns is tied to it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import Call, Field, For, Num, Pred, Rel, Term, Times, Var, variables
from headwater.calculus.types import BIGINT, INT, RecordType, bag
from headwater.rules.equalities import equality, starred

ROW = RecordType((("a", BIGINT), ("b", BIGINT)))
NAMES = "wxyz"
VARS = [Var(n, ROW) for n in NAMES]
COLUMNS = [Field(v, n) for v in VARS for n in "ab"]
PAIRS = list(itertools.combinations(COLUMNS, 2))
CELLS = st.sampled_from([None, 1, 2])


def rows_of(conditions: list[Term], tables: list[list[dict[str, int | None]]]) -> object:
    """How many combinations of rows pass all conditions."""
    term: Term = Times((Num(1, INT), *(Pred(c) for c in conditions)))
    for v in reversed(VARS):
        term = For(v, Rel(v.name, bag(ROW)), term)
    data = {n: from_python(bag(ROW), t) for n, t in zip(NAMES, tables, strict=True)}
    return interpret(term, data)


@pytest.mark.property
@given(
    st.lists(st.tuples(st.sampled_from(PAIRS), st.booleans()), min_size=1, max_size=5),
    st.lists(
        st.lists(st.fixed_dictionaries({"a": CELLS, "b": CELLS}), max_size=3),
        min_size=4,
        max_size=4,
    ),
)
def test_the_same_rows_pass(
    pairs: list[tuple[tuple[Term, Term], bool]], tables: list[list[dict[str, int | None]]]
) -> None:
    conditions: list[Term] = [Call("<=>" if safe else "=", sides) for sides, safe in pairs]
    made = starred(conditions, VARS[0])
    assert rows_of(made, tables) == rows_of(conditions, tables)


def test_what_is_equal_to_a_column_is_tied_to_it() -> None:
    w, x, y, z = (Field(v, "a") for v in VARS)
    chain = [Call("<=>", (y, z)), Call("=", (x, y)), Call("<=>", (x, w))]
    made = starred(chain, VARS[0])
    tied = [found.ties(VARS) for c in made if (found := equality(c)) is not None]
    assert {frozenset(t) for t in tied} == {frozenset({VARS[0], v}) for v in VARS[1:]}


def test_other_conditions_stay() -> None:
    w, x = Field(VARS[0], "a"), Field(VARS[1], "a")
    less, far = Call("<", (w, x)), Call("=", (Field(VARS[2], "a"), Field(VARS[3], "b")))
    assert starred([less, far], VARS[0]) == [less, far]
    assert all(VARS[0] not in variables(c) for c in starred([far], VARS[0]))
