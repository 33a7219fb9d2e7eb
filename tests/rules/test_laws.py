"""The laws of the calculus, over random well-typed terms, databases and changes.

Each test is one law of the design, on the fragment that the law is for; multiplicities are negative as
often as not. `make fuzz` runs them for as long as wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, event, given

from headwater.calculus import ring
from headwater.calculus.check import check, type_of
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import FiniteDictionary, LabelValue, Value
from headwater.calculus.terms import (
    Apply,
    Dict,
    Label,
    Term,
    Var,
    binders,
    change_name,
    children,
    free,
    rebind,
    rebuild,
    relations,
    substitute,
    subterms,
    variables,
)
from headwater.calculus.types import Boxed, FunType, MapType, RecordType, Type
from headwater.errors import LabelConflict, NotDiminishable, NotHomomorphic, NotShreddable
from headwater.plan.nested.shred import (
    Labeller,
    consistent_inputs,
    context_of,
    evaluate,
    map_context,
    nest,
    shred,
    shred_value,
)
from headwater.rules.delta import chain, delta
from headwater.rules.normalize import NORMALIZE, normalize
from headwater.rules.rewrite import Step
from headwater.rules.simplify import SIMPLIFY, simplify
from headwater.theory import merge_monoids as monoid
from headwater.theory.degree_cost import UNBOUNDED, BagCost, Cost, cost, degree, less, size, tcost
from headwater.theory.split import split, trace_lineage
from strategies import (
    FULL,
    LABELS,
    POSITIVE,
    SHREDDABLE,
    Features,
    Pick,
    Types,
    change,
    database,
    drawn,
    query,
    updated,
    value,
)

pytestmark = pytest.mark.property


class Case(NamedTuple):
    """A query, a database for it, and a change to that database."""

    term: Term
    inputs: dict[str, MapType]
    old: dict[str, Value]
    changes: dict[str, Value]

    @property
    def new(self) -> dict[str, Value]:
        return updated(self.old, self.changes)


def cases(features: Features, size: int = 10) -> Any:
    def one(pick: Pick) -> Case:
        q = query(pick, features, size=size)
        return Case(q.term, q.inputs, database(q.inputs, pick), change(q.inputs, pick))

    def make(pick: Pick) -> Case:
        case = one(pick)
        for _ in range(3):  # an answer that a change does not touch says little
            if interpret(case.term, case.old) != interpret(case.term, case.new):
                break
            case = one(pick)
        return case

    return drawn(make)


POOL = ("x", "ΔX", "X", "k", "v", "Δv", "X1", "R", "Δx")
"""Names that the rules themselves make, and those of inputs."""


def renamed(term: Term, pick: Pick) -> Term:
    """The same term with its variables called by few names, shadowing each other where they may."""
    term = rebuild(term, tuple(renamed(c, pick) for c in children(term)))
    bound = binders(term)
    if not bound:
        return term
    *_, body = children(term)
    taken = {x.name for x in free(body) if x not in bound}
    new: dict[Any, Term] = {}
    for b in bound:
        name = POOL[pick(len(POOL))]
        new[b] = Var(b.name if name in taken else name, b.type)
        taken.add(new[b].name)  # type: ignore[union-attr]
    return rebind(term, tuple(new.values()), substitute(body, new))  # type: ignore[arg-type]


def reused(features: Features) -> Any:
    """Cases whose variables share names."""

    def make(pick: Pick) -> Case:
        q = query(pick, features)
        term = renamed(q.term, pick)
        return Case(term, q.inputs, database(q.inputs, pick), change(q.inputs, pick))

    return drawn(make)


def depends(term: Term) -> set[str]:
    return {r.name for r in relations(term)}


# --- deltas -----------------------------------------------------------------------------------------


@given(cases(FULL))
def test_delta_of_the_whole_language(case: Case) -> None:
    """q[R + ΔR] = q[R] + δq[R, ΔR], for changes to all inputs at once."""
    d = delta(case.term, case.inputs)
    check(d)
    assert type_of(d) == type_of(case.term)
    before, after = interpret(case.term, case.old), interpret(case.term, case.new)
    assert ring.add(before, interpret(d, {**case.old, **case.changes})) == after


@given(reused(FULL))
def test_no_rule_captures_a_name(case: Case) -> None:
    """Delta, normal form, split and shredding keep their laws when variables share names."""
    before, after = interpret(case.term, case.old), interpret(case.term, case.new)
    inputs = {**case.old, **case.changes}
    d = delta(case.term, case.inputs)
    check(d)
    assert ring.add(before, interpret(d, inputs)) == after
    assert interpret(normalize(d), inputs) == interpret(d, inputs)
    assert interpret(normalize(case.term), case.old) == before
    assert interpret(split(case.term).whole, case.old) == before
    second = delta(d, case.inputs, level=2)
    both = {**inputs, **{change_name(n, 2): case.changes[change_name(n)] for n in case.inputs}}
    moved = {**both, **case.new}
    assert ring.add(interpret(d, both), interpret(second, both)) == interpret(d, moved)


@given(reused(SHREDDABLE))
def test_shredding_captures_no_name(case: Case) -> None:
    """nest(shred q) = q when variables share names."""
    shredded = shred(case.term)
    flat, context = evaluate(shredded, shredded_inputs(case.inputs, case.old))
    assert nest(flat, context, shredded.type) == interpret(case.term, case.old)


@given(cases(FULL))
def test_shredding_is_right_or_refused(case: Case) -> None:
    """nest(shred q) = q for the whole language, or NotShreddable."""
    try:
        shredded = shred(normalize(case.term))
    except NotShreddable:
        event("refused")
        return
    flat, context = evaluate(shredded, shredded_inputs(case.inputs, case.old))
    assert nest(flat, context, shredded.type) == interpret(case.term, case.old)


@given(cases(FULL))
def test_cost_and_degree_of_the_whole_language(case: Case) -> None:
    """Every term has a cost and a degree; where the degree is finite, a delta's is smaller."""
    sizes = {
        n: size(v, case.inputs[n.lstrip("Δ")]) for n, v in {**case.old, **case.changes}.items()
    }
    names = set(case.inputs)
    d = delta(case.term, names)
    assert tcost(cost(case.term, sizes)) >= 1 and tcost(cost(d, sizes)) >= 1
    if 0 < degree(case.term, names) < UNBOUNDED:
        assert degree(d, names) < degree(case.term, names)


@given(cases(FULL))
def test_changes_at_once_are_changes_in_turn(case: Case) -> None:
    """δ for several inputs gives what δ for one input after another adds up to."""
    at_once = interpret(delta(case.term, case.inputs), {**case.old, **case.changes})
    now, total = dict(case.old), ring.zero(type_of(case.term))
    for name in case.inputs:
        step = delta(case.term, {name})
        total = ring.add(total, interpret(step, {**now, **case.changes}))
        now[name] = ring.add(now[name], case.changes[change_name(name)])
    assert total == at_once


@given(cases(POSITIVE), drawn(lambda pick: pick))
def test_higher_order_deltas_refresh_each_other(case: Case, pick: Pick) -> None:
    """δᵏq[R + Δ] = δᵏq[R] + δᵏ⁺¹q[R, Δ] for every k, and the chain ends."""
    terms = chain(case.term, case.inputs)
    assert degree(terms[-1], set(case.inputs)) == 0
    changes = dict(case.changes)
    for level in range(2, len(terms)):
        changes |= {change_name(n, level): value(t, pick, 3) for n, t in case.inputs.items()}
    for level, (lower, higher) in enumerate(pairwise(terms), start=1):
        moved = {n: ring.add(v, changes[change_name(n, level)]) for n, v in case.old.items()}
        refreshed = ring.add(
            interpret(lower, {**case.old, **changes}), interpret(higher, {**case.old, **changes})
        )
        assert interpret(lower, {**moved, **changes}) == refreshed


@given(cases(POSITIVE))
def test_degree_falls_by_one(case: Case) -> None:
    """degree(δq) = degree(q) - 1 for q of IncNRC+ that reads what changes."""
    _degree_falls(case)


@given(cases(LABELS))
def test_degree_falls_by_one_with_labels(case: Case) -> None:
    """The same with labels and dictionaries."""
    _degree_falls(case)


def _degree_falls(case: Case) -> None:
    names = set(case.inputs)
    before = degree(case.term, names)
    assume(before > 0)
    assert before < UNBOUNDED
    event(f"degree {before}")
    assert degree(delta(case.term, names), names) == before - 1


@given(drawn(lambda pick: (query(pick, POSITIVE), pick)))
def test_delta_costs_less(drawn_case: Any) -> None:
    """tcost(δq) < tcost(q) for q of IncNRC+, inputs of at least two rows and incremental changes."""
    _costs_less(*drawn_case)


@given(drawn(lambda pick: (query(pick, LABELS), pick)))
def test_delta_costs_less_with_labels(drawn_case: Any) -> None:
    """The same with labels and dictionaries."""
    _costs_less(*drawn_case)


def _costs_less(q: Any, pick: Pick) -> None:
    term, names = q.term, set(q.inputs)
    assume(degree(term, names) > 0)  # `let X := R in S` reads R in vain
    sizes: dict[str, Cost] = {}
    for name, t in q.inputs.items():
        sizes[name], sizes[change_name(name)] = _sizes(t, pick)
        assert less(sizes[change_name(name)], sizes[name])
    assert tcost(cost(delta(term, names), sizes)) < tcost(cost(term, sizes))


def _sizes(t: Type, pick: Pick, outermost: bool = True) -> tuple[Cost, Cost]:
    """The size of an input and of an incremental change of it: fewer rows, and none larger inside."""
    match t:
        case MapType(key, _):
            count = 2 + pick(4)
            fewer = 1 + pick(count - 1 if outermost else count)
            element, smaller = _sizes(key, pick, False)
            return BagCost(count, element), BagCost(fewer, smaller)
        case RecordType(fields):
            pairs = [_sizes(f, pick, False) for _, f in fields]
            return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
        case Boxed(content):
            return _sizes(content, pick, False)
        case _:
            return 1, 1


@given(cases(FULL))
def test_a_term_that_reads_nothing_changed_has_no_delta(case: Case) -> None:
    """δq = 0 when q reads nothing that changes."""
    d = delta(case.term, {"Unrelated"})
    assert interpret(d, case.old) == ring.zero(type_of(case.term))


# --- simplification ------------------------------------------------------------------------------------


@given(cases(FULL))
def test_simplify_keeps_the_meaning(case: Case) -> None:
    """⟦simplify q⟧ = ⟦q⟧."""
    simple = simplify(case.term)
    check(simple)
    assert interpret(simple, case.old) == interpret(case.term, case.old)
    assert simplify(simple) is simple


@given(cases(FULL))
def test_normalize_keeps_the_meaning(case: Case) -> None:
    """⟦normalize q⟧ = ⟦q⟧, of queries and of their deltas."""
    for term in (case.term, delta(case.term, case.inputs)):
        normal = normalize(term)
        check(normal)
        inputs = {**case.old, **case.changes}
        assert interpret(normal, inputs) == interpret(term, inputs)


@given(cases(FULL, size=16))
def test_every_step_keeps_the_meaning(case: Case) -> None:
    """Each single application of a rule keeps the meaning of what it rewrote, where that is closed."""
    steps: list[Step] = []
    for term in (case.term, delta(case.term, case.inputs)):
        normalize(term, trace=steps)
    inputs = {**case.old, **case.changes}
    for step in steps:
        if not variables(step.before) and not isinstance(type_of(step.before), FunType):
            assert interpret(step.before, inputs) == interpret(step.after, inputs), step.rule


# --- state and answer ----------------------------------------------------------------------------------


@given(cases(FULL))
def test_split_is_the_query(case: Case) -> None:
    """a(h) = q, with and without lineage; every state is a sum of products of the inputs."""
    term = normalize(case.term)
    whole = split(term)
    for state in whole.states:
        assert degree(state.term, set(case.inputs)) < UNBOUNDED
    assert not depends(whole.answer) & set(case.inputs)
    expected = interpret(term, case.old)
    states = {s.var.name: interpret(s.term, case.old) for s in whole.states}
    assert interpret(whole.answer, case.old, states) == expected
    traced = trace_lineage(whole)
    states = {s.var.name: interpret(s.term, case.old) for s in traced.states}
    assert interpret(traced.answer, case.old, states) == expected


@given(cases(FULL))
def test_inferred_merge_is_a_homomorphism(case: Case) -> None:
    """f(S ⊎ S') = f(S) ⊗ f(S') and f(S - S') = f(S) ⊖ f(S'), where no join had to be assumed."""
    for names in ({sorted(case.inputs)[0]}, set(case.inputs)):
        _merges(case, case.term, names)
        _merges(case, normalize(case.term), names)


def _merges(case: Case, term: Term, names: set[str]) -> None:
    try:
        found = monoid.infer(term, names)
    except NotHomomorphic:
        return
    if found.assumes or found.monoid == monoid.Invariant():
        return
    event(str(found.monoid))
    added = {**case.old, **{n: case.changes[change_name(n)] for n in names}}
    both = {**case.old, **{n: ring.add(case.old[n], added[n]) for n in names}}
    x, y, whole = (interpret(term, db) for db in (case.old, added, both))
    assert monoid.merge(found.monoid, x, y) == whole
    assert monoid.diminish(found.monoid, whole, y) == x


@given(drawn(lambda pick: (t := Types(pick).ring(), value(t, pick), value(t, pick))))
def test_merge_and_its_diminisher_cancel(case: Any) -> None:
    """(x ⊗ y) ⊖ y = x."""
    t, x, y = case
    m = monoid.monoid_of(t)
    event(str(m))
    assert monoid.diminish(m, monoid.merge(m, x, y), y) == x


@given(drawn(lambda pick: (t := Types(pick).ring(), *(value(t, pick) for _ in range(3)))))
def test_merge_is_a_commutative_monoid(case: Any) -> None:
    """x ⊗ y = y ⊗ x, (x ⊗ y) ⊗ z = x ⊗ (y ⊗ z), x ⊗ 0 = x."""
    t, x, y, z = case
    m = monoid.monoid_of(t)
    assert monoid.merge(m, x, y) == monoid.merge(m, y, x)
    assert monoid.merge(m, monoid.merge(m, x, y), z) == monoid.merge(m, x, monoid.merge(m, y, z))
    assert monoid.merge(m, x, ring.zero(t)) == x


@given(drawn(lambda pick: tuple({pick(5): pick(9) for _ in range(pick(4))} for _ in range(2))))
def test_diffusion_is_merged_back(case: Any) -> None:
    """t ⊗ diffuse(t, Δt) = t ⊗ (t ⊗ Δt) for idempotent values, and it has the keys of Δt only."""
    t, dt = map(ring.RingMap, case)
    m = monoid.OuterJoin(monoid.Extreme("min"))
    spread = monoid.diffuse(m, t, dt)
    assert set(spread) == set(dt)
    assert monoid.merge(m, t, spread) == monoid.merge(m, t, monoid.merge(m, t, dt))
    with pytest.raises(NotDiminishable):
        monoid.diminish(monoid.Extreme("min"), 1, 2)


# --- shredding --------------------------------------------------------------------------------------------


def shredded_inputs(inputs: Mapping[str, MapType], db: Mapping[str, Value]) -> dict[str, Value]:
    label, out = Labeller(), {}
    for name, t in inputs.items():
        out |= shred_value(name, db[name], t, label)
    return out


@given(cases(SHREDDABLE))
def test_nest_of_shred_is_the_query(case: Case) -> None:
    """nest(shred q) = q: shredding the inputs, evaluating flat, and nesting gives the nested answer."""
    try:
        shredded = shred(case.term)
    except NotShreddable:
        assume(False)
        return
    check(shredded.flat)
    inputs = shredded_inputs(case.inputs, case.old)
    consistent_inputs(inputs)
    flat, context = evaluate(shredded, inputs)
    assert nest(flat, context, shredded.type) == interpret(case.term, case.old)


@given(cases(SHREDDABLE))
def test_shredded_values_nest_back(case: Case) -> None:
    """nest(shred v) = v, for values."""
    for name, t in case.inputs.items():
        parts = shred_value(name, case.old[name], t)
        context = context_of(t, name, lambda path, _, parts=parts: parts[path])
        assert nest(parts[name], context, t) == case.old[name]


@given(cases(SHREDDABLE))
def test_shredded_query_is_maintained_by_its_deltas(case: Case) -> None:
    """Flat parts and dictionaries change by their own deltas, and nest to the new nested answer.

    The change brings rows with labels of their own; none of the shredded parts needs a deep update.
    """
    try:
        shredded = shred(case.term)
    except NotShreddable:
        assume(False)
        return
    label = Labeller()
    old: dict[str, Value] = {}
    changes: dict[str, Value] = {}
    for name, t in case.inputs.items():
        old |= shred_value(name, case.old[name], t, label)
        moved = shred_value(name, case.changes[change_name(name)], t, label)
        changes |= {change_name(n): v for n, v in moved.items()}
    names = set(old)
    both = {**old, **changes}

    def maintained(term: Term) -> Value:
        return ring.add(interpret(term, old), interpret(delta(term, names), both))

    flat, context = maintained(shredded.flat), map_context(shredded.context, maintained)
    assert nest(flat, context, shredded.type) == interpret(case.term, case.new)


@given(cases(LABELS))
def test_delta_with_labels(case: Case) -> None:
    """h[R + ΔR] = h[R] + δh for the labelled fragment, at every label that its dictionaries define."""
    d = delta(case.term, case.inputs)
    inputs = {**case.old, **case.changes}
    after = interpret(case.term, case.new)
    assert ring.add(interpret(case.term, case.old), interpret(d, inputs)) == after
    for term in subterms(case.term):
        if isinstance(term, Dict) and not term.params and not variables(term):
            at = Label(term.index, ())
            looked_up = Apply(term, at)
            change_there = delta(looked_up, case.inputs)
            total = ring.add(interpret(looked_up, case.old), interpret(change_there, inputs))
            assert total == interpret(looked_up, case.new)


# --- dictionaries --------------------------------------------------------------------------------------------


def tables(pick: Pick) -> FiniteDictionary:
    entries = {
        LabelValue("ℓ", (pick(3),)): ring.collect([(pick(3), 1 + pick(2))] if pick(3) else [])
        for _ in range(pick(4))
    }
    return FiniteDictionary(entries, ring.RingMap())


@given(drawn(lambda pick: (tables(pick), tables(pick))))
def test_dictionary_union_reports_conflicts(case: Any) -> None:
    """d ∪ e is defined where either is, and an error exactly where both are and differ."""
    a, b = case
    conflict = any(a.entries[x] != b.entries[x] for x in a.entries.keys() & b.entries.keys())
    if conflict:
        with pytest.raises(LabelConflict):
            ring.union(a, b)
        return
    union = ring.union(a, b)
    assert isinstance(union, FiniteDictionary)
    assert union.entries == {**a.entries, **b.entries}
    added = ring.add(a, b)
    for x in union.entries:
        assert added(x) == ring.add(a(x), b(x)) and added.defines(x)


def test_every_rule_is_listed_once() -> None:
    rules = [*SIMPLIFY, *NORMALIZE]
    assert len({r.__name__ for r in rules}) == len(rules)
