"""Failures that were found, each as a small case: captured names, keys that move, guards that matter."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.calculus import ring
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.notation.parse import parse, parse_key
from headwater.calculus.notation.text import show
from headwater.calculus.ring import LabelValue
from headwater.calculus.terms import Term, Var, relations, substitute
from headwater.calculus.types import BIGINT, Boxed, bag, record
from headwater.errors import NotHomomorphic, NotShreddable
from headwater.language.comprehension import query
from headwater.language.schema import schemas
from headwater.language.sql import read_sql
from headwater.plan.nested.shred import evaluate, nest, shred, shred_value
from headwater.rules.delta import chain, delta
from headwater.rules.normalize import normalize
from headwater.theory.degree_cost import degree
from headwater.theory.merge_monoids import Invariant, Parts, Plus, infer, merge
from headwater.theory.split import decorrelate, split, trace_lineage

ROWS = bag(record(a=BIGINT))
RS: dict[str, Any] = {"R": ROWS, "S": ROWS}
OLD = {"R": from_python(ROWS, [(1,), (2,)]), "S": from_python(ROWS, [(2,), (3,)])}
CHANGES = {"ΔR": from_python(ROWS, [(2,), (5,)]), "ΔS": ring.neg(from_python(ROWS, [(3,)]))}
NEW = {n: ring.add(v, CHANGES[f"Δ{n}"]) for n, v in OLD.items()}


def maintained(term: Term, old: Any = OLD, changes: Any = CHANGES) -> Any:
    names = {r.name for r in relations(term)}
    change = delta(term, names)
    inputs = {**old, **changes}
    value = interpret(change, inputs)
    assert interpret(normalize(change), inputs) == value
    return ring.add(interpret(term, old), value)


CAPTURING = [
    "let X := R in let ΔX := S in X + ΔX",
    "let X := R in for ΔX in S collect X",
    f"let X := R in (fn ΔX: {ROWS} => X · ΔX) @ S",
    "let Δv := S in each k ↦ v in (R + Δv) collect {k ↦ v · v}",
    "each Δx ↦ x in R collect {Δx ↦ x · x}",
    "for k in R collect each k1 ↦ v in (for y in S collect [y.a = k.a] · {y}) collect {k1}",
    "for k in R collect each v ↦ k1 in (for y in S collect [y.a = k.a] · {y}) collect {v}",
    f"(δ(fn X: {ROWS} => X · X) @ R) @ S",
    "{{n: box(sum(R))} ↦ sum(S)}",
    "unbox(box(for x in R collect {{n: box(sum(S))}}))",
]


@pytest.mark.parametrize("text", CAPTURING)
def test_delta_captures_nothing(text: str) -> None:
    term = parse(text, RS)
    assert maintained(term) == interpret(term, NEW)


def test_a_variable_of_a_comprehension_may_be_called_like_one_of_ours() -> None:
    @query
    def nested(R, S):
        return [
            y for k in set((x.a, x.b) for x in R) for y in set((x.b, x.a) for x in S if x.a == k[0])
        ]

    types = schemas("R(a BIGINT, b BIGINT); S(a BIGINT, b BIGINT)")
    term = nested.read(types)
    old = {"R": from_python(types["R"], [(1, 2)]), "S": from_python(types["S"], [(1, 5)])}
    changes = {"ΔR": ring.RingMap(), "ΔS": from_python(types["S"], [(1, 5)])}
    assert maintained(term, old, changes) == {(5, 1): 1}


def test_substitution_renames_what_would_capture() -> None:
    x, y = Var("x", BIGINT), Var("y", BIGINT)
    term = parse("for x in {1} collect {{p: x, q: y}}", {}, {"y": BIGINT})
    assert show(substitute(term, {y: x})) == "for x1 in {1} collect {{p: x1, q: x}}"


def test_a_state_has_a_name_of_its_own() -> None:
    term = parse("unbox(let X1 := {{a: 0}} in box(for y in S collect {y}))", RS)
    whole = split(term)
    states = {s.var.name: interpret(s.term, OLD) for s in whole.states}
    assert interpret(whole.answer, {}, states) == interpret(term, OLD)


def test_both_sides_of_a_label_union_change() -> None:
    term = parse(
        "(dict ℓ1(x: bigint) ↦ for y in R collect [y.a = x] · {y.a})"
        " ∪ (dict ℓ2(x: bigint) ↦ for y in S collect [y.a > x] · {y.a})",
        RS,
    )
    change = interpret(delta(term, {"R", "S"}), {**OLD, **CHANGES})
    before, after = interpret(term, OLD), interpret(term, NEW)
    for label in (LabelValue("ℓ1", (2,)), LabelValue("ℓ2", (0,)), LabelValue("ℓ2", (2,))):
        assert ring.add(before(label), change(label)) == after(label)
        assert change(label), "both dictionaries change here"


# --- look-ups instead of correlation ------------------------------------------------------------------------

PAIRS = schemas("r(a BIGINT, b BIGINT); s(b BIGINT, c BIGINT)")
WITH_NULLS = {
    "r": from_python(PAIRS["r"], [(1, 10), (2, None), (None, 11), (10, 10)]),
    "s": from_python(PAIRS["s"], [(10, 1), (10, 1), (None, 2), (11, None), (10, 10)]),
}


@pytest.mark.parametrize(
    "condition",
    [
        "s.b = r.b",
        "s.b = r.b AND s.c = r.a",
        "r.a = s.c AND s.b = r.b",
        "s.b <=> r.b",
        "s.b + 1 = r.b + 1",
    ],
)
def test_a_look_up_finds_what_the_correlation_does(condition: str) -> None:
    term = normalize(
        read_sql(f"SELECT a, b, (SELECT count(*) FROM s WHERE {condition}) AS n FROM r", PAIRS)
    )
    whole = split(term)
    assert "s" not in {r.name for r in relations(whole.answer)}
    assert any(" @ " in show(whole.answer) for _ in whole.states), "the count is looked up"
    states = {s.var.name: interpret(s.term, WITH_NULLS) for s in whole.states}
    assert interpret(whole.answer, {}, states) == interpret(term, WITH_NULLS)


def test_what_reads_more_than_the_key_is_not_looked_up() -> None:
    scope = {"x": record(a=BIGINT, b=BIGINT)}
    term = parse("for y in s collect [y.b = x.a] · [y.c < x.b] · {y.c}", PAIRS, scope)
    assert decorrelate(term) is None


# --- merges ---------------------------------------------------------------------------------------------------


def test_a_join_merges_only_if_every_batch_has_the_one_side() -> None:
    """One row a key is not enough: a batch that brings only the other side finds nothing to join with."""
    term = read_sql("SELECT x.a, sum(y.c) AS t FROM r x JOIN s y ON x.b = y.b GROUP BY x.a", PAIRS)
    (state,) = trace_lineage(split(normalize(term))).states
    found = state.merge({"r", "s"})
    assert found.assumes == ("one side of x.b = y.b has one row a key, in every batch",)
    one = from_python(PAIRS["r"], [(1, 10)])
    late = from_python(PAIRS["s"], [(10, 5)])
    nothing = ring.RingMap()
    h = state.term
    old = interpret(h, {"r": one, "s": nothing})
    true = interpret(h, {"r": one, "s": late})
    assert merge(found.monoid, old, interpret(h, {"r": nothing, "s": late})) != true
    assert merge(found.monoid, old, interpret(h, {"r": one, "s": late})) == true


def test_what_stays_the_same_is_not_added_again() -> None:
    assert infer(parse("-⟨n: sum(R), rows: sum(S)⟩", RS), {"R"}).monoid == Parts(
        (Plus(), Invariant())
    )
    assert infer(parse("-(let X := R in S)", RS), {"R"}).monoid == Invariant()
    with pytest.raises(NotHomomorphic):
        infer(parse("for x in S collect ⟨n: unbox(x.a), m: sum(R)⟩", RS), {"R"})
    with pytest.raises(NotHomomorphic):
        infer(parse("R + S", RS), {"R"})


def test_a_name_for_a_key_does_not_stop_the_chain() -> None:
    term = parse("for x in R collect let key t := x.a + 1 in [t > 1] · {t}", RS)
    assert [degree(d, {"R"}) for d in chain(term, {"R"})] == [1, 0]


# --- shredding --------------------------------------------------------------------------------------------------

SHADOWING = [
    "let X := R in let X := X + S in {{c: box(X)}}",
    "for x in R collect for x in S collect {{c: box(for y in R collect [y.a = x.a] · {x.a})}}",
    "for x in R collect let key x := x.a + 1 in {{c: box({x})}}",
]


@pytest.mark.parametrize("text", SHADOWING)
def test_shredding_keeps_variables_of_one_name_apart(text: str) -> None:
    term = parse(text, RS)
    flat, context = evaluate(shred(term), OLD)
    assert nest(flat, context, shred(term).type) == interpret(term, OLD)


@pytest.mark.parametrize(
    "text", ["(fn x: {a: bigint} => {x}) @ {a: 1}", "(dict ℓ1(x: bigint) ↦ {{a: x}}) @ ℓ1(1)"]
)
def test_functions_are_refused_by_name(text: str) -> None:
    with pytest.raises(NotShreddable, match="function or a dictionary"):
        shred(parse(text, RS))
    assert shred(normalize(parse(text, RS)))


def test_a_null_array_stays_null() -> None:
    t = bag(record(a=BIGINT, f=Boxed(bag(BIGINT))))
    rows = from_python(t, [(1, None), (2, [])])
    shredded = shred(parse("for x in R collect {{a: x.a, f: x.f}}", {"R": t}))
    flat, context = evaluate(shredded, shred_value("R", rows, t))
    assert nest(flat, context, t) == rows


def test_an_empty_nested_bag_has_dictionaries_that_define_nothing() -> None:
    t = bag(record(a=BIGINT, f=Boxed(bag(BIGINT))))
    term = parse(f"for x in (R + zero({t})) collect unbox(x.f)", {"R": t})
    rows = from_python(t, [(1, [1, 2]), (2, [2])])
    flat, context = evaluate(shred(term), shred_value("R", rows, t))
    assert nest(flat, context, bag(BIGINT)) == {1: 1, 2: 2}
    nothing = parse(f"let X := zero({t}) in for x in X collect unbox(x.f)", {})
    assert interpret(shred(nothing).flat, {}) == {}


def test_a_key_reads_like_a_ring_term() -> None:
    assert show(parse_key("{a: 1, b: box(sum(R))}", RS)) == "{a: 1, b: box(sum(R))}"
