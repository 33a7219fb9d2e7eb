"""Worked examples: the split of a join with an average, a query that changes, inner bags, costs.

Small enough to check by hand; the laws are in test_laws.py.
"""

from __future__ import annotations

import pytest

from headwater.calculus import ring
from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.notation.parse import parse
from headwater.calculus.notation.text import show
from headwater.calculus.ring import Dictionary, LabelValue, RingMap
from headwater.calculus.terms import Term, change_name
from headwater.calculus.types import BIGINT, STRING, Boxed, FunType, MapType, bag, record
from headwater.errors import IllTyped, InconsistentShredding, LabelConflict, NotHomomorphic
from headwater.language.schema import schemas
from headwater.language.sql import read_sql
from headwater.plan.nested.shred import (
    consistent,
    consistent_change,
    consistent_inputs,
    evaluate,
    nest,
    shred,
    shred_value,
)
from headwater.rules.delta import chain, delta
from headwater.rules.normalize import normalize
from headwater.rules.simplify import simplify
from headwater.theory.degree_cost import BagCost, cost, degree, less, show_cost, size, tcost
from headwater.theory.merge_monoids import OuterJoin, Parts, Plus, diffuse, diminish, infer, merge
from headwater.theory.split import merges, split, trace_lineage

# --- a join, a group and an average ----------------------------------------------------------------------

JOINED = schemas("S1(A BIGINT, B BIGINT); S2(C BIGINT, D BIGINT)")
AVERAGES = """
    each k ↦ v in (for x in S1 collect for y in S2 collect
        [x.B = y.C] · {x.A ↦ ⟨s: unbox(y.D), c: 1⟩})
    collect {{A: k, mean: box(v.s) / box(v.c)}}"""


def averages() -> Term:
    return parse(AVERAGES, JOINED)


def test_join_groupby_avg_splits_into_sums_and_a_division() -> None:
    """h keeps the sum and the count per group and join key, a adds up the join keys and divides."""
    traced = trace_lineage(split(averages()))
    (state,) = traced.states
    assert show(state.term) == (
        "for x in S1 collect for y in S2 collect [x.B = y.C] · "
        "{{key: x.A, lineage: {j1: x.B}} ↦ ⟨s: unbox(y.D), c: 1⟩}"
    )
    assert show(traced.answer) == (
        "each k ↦ v in (for t in X1 collect {t.key}) collect {{A: k, mean: box(v.s) / box(v.c)}}"
    )
    (found,) = merges(traced, {"S1", "S2"})
    assert not isinstance(found, NotHomomorphic)
    assert found.monoid == OuterJoin(Parts((Plus(), Plus())))
    assert str(found.monoid) == "↑(+ × +)"
    assert found.assumes == ("one side of x.B = y.C has one row a key, in every batch",)


def test_without_lineage_the_join_is_no_homomorphism() -> None:
    (found,) = merges(split(averages()), {"S1", "S2"})
    assert isinstance(found, NotHomomorphic)
    assert "join keys" in str(found)


def test_from_sql_it_is_the_same_split() -> None:
    q = "SELECT x.A, avg(y.D) AS mean FROM S1 x JOIN S2 y ON x.B = y.C GROUP BY x.A"
    traced = trace_lineage(split(normalize(read_sql(q, JOINED))))
    (found,) = merges(traced, {"S1", "S2"})
    assert not isinstance(found, NotHomomorphic)
    assert str(found.monoid) == "↑(+ × + × +)"  # the row count, the sum, and the non-NULL count


def test_the_state_merges_and_diminishes() -> None:
    """state ⊗ h(ΔS) after an insertion, state ⊖ h(ΔS') after a deletion, with B unique in S1."""
    traced = trace_lineage(split(averages()))
    h, m = traced.states[0].term, OuterJoin(Parts((Plus(), Plus())))
    s1 = from_python(JOINED["S1"], [(1, 10), (1, 11), (2, 12)])
    y, dy = (
        from_python(JOINED["S2"], r) for r in ([(10, 5), (12, 7)], [(10, 6), (11, 1), (10, 6)])
    )
    old, added = interpret(h, {"S1": s1, "S2": y}), interpret(h, {"S1": s1, "S2": dy})
    new = interpret(h, {"S1": s1, "S2": ring.add(y, dy)})
    assert merge(m, old, added) == new
    assert diminish(m, new, added) == old
    assert interpret(traced.answer, {}, {"X1": new}) == interpret(
        averages(), {"S1": s1, "S2": ring.add(y, dy)}
    )
    assert set(diffuse(m, old, added)) == set(added)


def test_static_inputs_do_not_make_a_join_many_to_many() -> None:
    """With S1 invariant the join is linear, and its merge needs no assumption."""
    (state,) = split(averages()).states
    assert infer(state.term, {"S2"}).monoid == OuterJoin(Parts((Plus(), Plus())))
    assert infer(state.term, {"S2"}).assumes == ()


# --- a query that changes ----------------------------------------------------------------------------------

NUMBERS = {"R": bag(record(a=BIGINT))}


def test_a_filter_is_widened_by_a_functional_delta() -> None:
    """filter is a function F of the rows; ΔF adds the rows between 3 and 5, and only those are read.

    δ(F @ R) = δF @ R @ ΔR + ΔF @ (R + ΔR): what changes in the query is a change like any other.
    """
    rows = NUMBERS["R"]
    query = FunType(rows, rows)
    inputs = {**NUMBERS, "F": query}
    term = parse("F @ R", inputs)
    change = delta(term, {"F", "R"})
    assert show(change) == "((δ(F) @ R) @ ΔR) + (ΔF @ (R + ΔR))"

    def f(text: str) -> Term:
        return parse(f"fn X: {rows} => for x in X collect [{text}] · {{x}}", NUMBERS)

    old, new = f("x.a < 3"), f("x.a < 5")
    widened = f("(x.a >= 3) and (x.a < 5)")
    values = {
        "R": from_python(rows, [(n,) for n in range(8)]),
        "ΔR": from_python(rows, [(1,), (4,), (9,)]),
        "F": interpret(old, {}),
        "ΔF": interpret(widened, {}),
    }
    before = interpret(term, values)
    after = ring.add(before, interpret(change, values))
    everything = ring.add(values["R"], values["ΔR"])
    assert after == interpret(new, {})(everything)
    assert set(after) == {(0,), (1,), (2,), (3,), (4,)} and after[(4,)] == 2


def test_the_delta_of_a_function_is_worked_out_from_its_body() -> None:
    """δ(fn X => X × X) = fn X => fn ΔX => ΔX × X + X × ΔX + ΔX × ΔX."""
    rows = NUMBERS["R"]
    twice = parse(f"δ(fn X: {rows} => X · X)", NUMBERS)
    assert show(simplify(twice)) == (
        f"fn X: {rows} => fn ΔX: {rows} => (ΔX · X) + (X · ΔX) + (ΔX · ΔX)"
    )


def test_the_query_alone_may_change() -> None:
    rows = NUMBERS["R"]
    inputs = {**NUMBERS, "F": FunType(rows, rows)}
    assert show(delta(parse("F @ R", inputs), {"F"})) == "ΔF @ R"


# --- higher-order deltas ---------------------------------------------------------------------------------------


def test_flatten_times_flatten_has_two_deltas() -> None:
    """h = flatten(R) × flatten(R): δh reads R once, δ²h not at all."""
    inputs: dict[str, MapType] = {"R": bag(record(f=Boxed(bag(BIGINT))))}
    h = parse(
        "(for x in R collect unbox(x.f)) · (for x in R collect unbox(x.f))",
        inputs,
    )
    terms = chain(h, {"R"})
    assert [degree(t, {"R"}) for t in terms] == [2, 1, 0]
    old = from_python(inputs["R"], [([1, 2],), ([2],)])
    u = from_python(inputs["R"], [([3],)])
    both = {"R": old, "ΔR": u, change_name("R", 2): u}
    h0, h1, h2 = (interpret(t, both) for t in terms)
    moved = {**both, "R": ring.add(old, u)}
    assert interpret(terms[0], moved) == ring.add(h0, h1)
    assert interpret(terms[1], moved) == ring.add(h1, h2)


# --- key nesting and value nesting -----------------------------------------------------------------------------

PAIRS = {"X": bag(record(a=STRING, b=BIGINT))}
VALUE_NESTING = "for x in X collect [x.b > 2] · {x.a ↦ {x.b}}"
KEY_NESTING = """for x in X collect
    {{a: x.a, bs: box(for y in X collect [(x.a = y.a) and (y.b > 2)] · {y.b})}}"""


def test_key_nesting_keeps_empty_groups_and_multiplicities() -> None:
    x = RingMap({("a", 1): 4, ("b", 2): 3, ("b", 3): 2, ("b", 4): 1})
    by_value = interpret(parse(VALUE_NESTING, PAIRS), {"X": x})
    by_key = interpret(parse(KEY_NESTING, PAIRS), {"X": x})
    assert by_value == {"b": {3: 2, 4: 1}}
    assert by_key == {("a", RingMap()): 4, ("b", RingMap({3: 2, 4: 1})): 6}


def test_only_value_nesting_has_a_delta_without_the_old_input() -> None:
    assert show(delta(parse(VALUE_NESTING, PAIRS), {"X"})) == VALUE_NESTING.replace("in X", "in ΔX")
    nested = delta(parse(KEY_NESTING, PAIRS), {"X"})
    assert degree(nested, {"X"}) == float("inf")
    shredded = shred(parse(KEY_NESTING, PAIRS))
    for part in (shredded.flat, *shredded.dictionaries().values()):
        assert degree(part, {"X"}) == 1
        assert degree(delta(part, {"X"}), {"X"}) == 0


# --- labels ------------------------------------------------------------------------------------------------------


def label(n: int) -> LabelValue:
    return LabelValue("ℓ", (n,))


def table(**entries: list[str]) -> Dictionary:
    return Dictionary.of({label(int(k[1:])): ring.bag(v) for k, v in entries.items()}, RingMap())


def test_label_union_joins_definitions_and_addition_changes_them() -> None:
    d = table(l1=["b1"], l2=["b2", "b3"])
    same, other = table(l2=["b2", "b3"], l3=["b4"]), table(l2=["b5"], l3=["b4"])
    union = ring.union(d, same)
    assert [union(label(n)) for n in (1, 2, 3)] == [{"b1": 1}, {"b2": 1, "b3": 1}, {"b4": 1}]
    assert ring.add(d, same)(label(2)) == {"b2": 2, "b3": 2}
    assert ring.add(d, other)(label(2)) == {"b2": 1, "b3": 1, "b5": 1}
    with pytest.raises(LabelConflict, match="two definitions"):
        ring.union(d, other)


def test_an_empty_definition_is_not_no_definition() -> None:
    d = table(l1=[])
    assert d.defines(label(1)) and not d.defines(label(2))
    assert d(label(1)) == d(label(2)) == {}
    with pytest.raises(InconsistentShredding, match="no definition"):
        ring.define(d, label(2))


def test_a_shredded_change_must_fit_its_input() -> None:
    inputs = {"R.f": table(l1=["a"]), "S.f": table(l1=["a"])}
    consistent_inputs(inputs)
    consistent_change(inputs, {"R.f": table(l1=["b"]), "S.f": table(l1=["b"])})
    consistent_change(inputs, {"R.f": table(l2=["b"])})
    with pytest.raises(InconsistentShredding, match=r"stays in S\.f"):
        consistent_change(inputs, {"R.f": table(l1=["b"])})
    with pytest.raises(InconsistentShredding, match="brings"):
        consistent_change(
            {"R.f": table(l1=["a"]), "S.f": table(l2=["a"])}, {"R.f": table(l2=["b"])}
        )
    with pytest.raises(LabelConflict):
        consistent_inputs({"R.f": table(l1=["a"]), "S.f": table(l1=["b"])})


def test_an_undefined_label_is_inconsistent() -> None:
    t = bag(record(a=BIGINT, f=Boxed(bag(BIGINT))))
    rows = from_python(t, [(1, [1, 2]), (2, [1, 2])])
    parts = shred_value("R", rows, t)
    assert len(parts["R.f"].entries) == 2, "two equal inner bags are two bags"
    shredded = shred(parse("R", {"R": t}))
    flat, context = evaluate(shredded, parts)
    consistent(flat, context, t)
    assert nest(flat, context, t) == rows
    with pytest.raises(InconsistentShredding):
        consistent(RingMap({(1, label(99)): 1}), context, t)


# --- costs ------------------------------------------------------------------------------------------------------


def test_sizes_count_each_level() -> None:
    t = bag(record(gen=STRING, names=Boxed(bag(STRING))))
    films = from_python(t, [("Comedy", ["Carnage"]), ("Animation", ["Up", "Shrek", "Cars"])])
    assert show_cost(size(films, t)) == "2{(1, 3{1})}"
    assert tcost(size(films, t)) == 2 * (1 + 3)


def test_costs_of_filter_and_of_related() -> None:
    movies = schemas("M(name STRING, gen STRING, dir STRING)")
    sizes = {"M": BagCost(7, (1, 1, 1)), "ΔM": BagCost(2, (1, 1, 1))}
    kept = parse("for x in M collect [x.gen = 'Drama'] · {x}", movies)
    assert cost(kept, sizes) == sizes["M"]
    assert cost(delta(kept, {"M"}), sizes) == sizes["ΔM"]
    related = parse(
        """for m in M collect {{name: m.name, related: box(
             for n in M collect [(m.name <> n.name) and (m.gen = n.gen)] · {n.name})}}""",
        movies,
    )
    assert show_cost(cost(related, sizes)) == "7{(1, 7{1})}"
    assert tcost(cost(related, sizes)) == 7 * (1 + 7)


def test_the_order_on_costs() -> None:
    assert less(BagCost(1, 1), BagCost(2, 1))
    assert not less(BagCost(1, BagCost(5, 1)), BagCost(2, BagCost(1, 1)))
    assert not less((1, BagCost(1, 1)), (1, BagCost(2, 1))), "base types are never less"


# --- type errors ----------------------------------------------------------------------------------------------------


def test_a_type_error_names_the_sub_term() -> None:
    with pytest.raises(IllTyped) as e:
        type_of(parse("for x in R collect {x.a ↦ 1} + [x.a = 1]", {"R": bag(record(a=BIGINT))}))
    assert e.value.expected == "Bag(bigint) for `[x.a = 1]`"
    assert e.value.found == "Int"
    assert "{x.a} + [x.a = 1]" in str(e.value)
