"""The split of a query into what is kept and what is answered: q = a(h).

`h` is made of the largest parts that are sums and products of the inputs; they are the state, and are
maintained by deltas. What is left is the answer `a`, a term over state variables. A subquery that is
correlated by equality becomes a look-up in a map of its own (`decorrelate`). For a join, `trace_lineage`
adds the join keys to the state's keys, which makes the state a homomorphism whose merge `monoid.infer`
finds; the answer then sums them away again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Apply,
    Each,
    Field,
    For,
    Num,
    Record,
    Sng,
    Term,
    Times,
    Var,
    change_name,
    children,
    fresh,
    names_in,
    rebuild,
    relations,
    substitute,
    subterms,
    variables,
)
from headwater.calculus.types import INT, MapType, is_key
from headwater.errors import NotHomomorphic
from headwater.rules.equalities import equated
from headwater.rules.monomial import monomial
from headwater.rules.normalize import normalize
from headwater.theory.degree_cost import UNBOUNDED, degree
from headwater.theory.merge_monoids import Inference, infer


@dataclass(frozen=True)
class State:
    """One kept map: its variable in the answer, and the homomorphic term that it holds."""

    var: Var
    term: Term

    def merge(self, changing: Collection[str]) -> Inference:
        """The monoid that merges the state with its value on new data."""
        return infer(self.term, changing)


@dataclass(frozen=True)
class Split:
    """q = answer[states]: what is kept, and the function from it to the query's value."""

    states: tuple[State, ...]
    answer: Term

    @property
    def whole(self) -> Term:
        """The query again."""
        return substitute(self.answer, {s.var: s.term for s in self.states})


def split(term: Term, changing: Collection[str] | None = None) -> Split:
    """The largest homomorphic parts of a query as state, and the rest as the answer."""
    names = {r.name for r in relations(term)} if changing is None else set(changing)
    states: dict[Term, Var] = {}
    taken = names_in(term)

    def visit(t: Term) -> Term:
        if not any(r.name in names for r in relations(t)):
            return t
        if not is_key(type_of(t)) and degree(t, names) < UNBOUNDED:
            if not variables(t):
                if t not in states:
                    states[t] = Var(fresh(f"X{len(states) + 1}", taken), type_of(t))
                    taken.add(states[t].name)
                return states[t]
            looked_up = decorrelate(t)
            if looked_up is not None:
                return visit(looked_up)
        return rebuild(t, tuple(visit(c) for c in children(t)))

    answer = visit(term)
    return Split(tuple(State(v, t) for t, v in states.items()), answer)


def decorrelate(term: Term) -> Term | None:
    """for y in S collect [f(y) = e] · s = (for y in S collect {f(y) ↦ [f(y) is not null] · s}) @ e.

    It applies when everything that the comprehension reads from outside goes through such equalities.
    """
    if not isinstance(term, For):
        return None
    m = monomial(term)
    bound = {v for v, _ in m.atoms}
    outside = variables(term)
    keys: list[tuple[Term, Term]] = []
    rest: list[Term] = []
    for factor in m.factors:
        pair = equated(factor, bound, outside)
        if pair is None:
            rest.append(factor)
        else:
            outer, inner, guard = pair
            keys.append((inner, outer))
            rest.extend(guard)
    inside = (*(s for _, s in m.atoms), *rest, m.output)
    if not keys or any(variables(p) & outside for p in inside):
        return None
    key = _tupled([i for i, _ in keys])
    lookup = _tupled([o for _, o in keys])
    body: Term = Sng(key, Times((*rest, m.output)) if rest else m.output)
    for var, source in reversed(m.atoms):
        body = For(var, source, body)
    return Apply(normalize(body), lookup)


def _tupled(parts: list[Term]) -> Term:
    return (
        parts[0]
        if len(parts) == 1
        else Record(tuple((f"_{i + 1}", p) for i, p in enumerate(parts)))
    )


def trace_lineage(s: Split) -> Split:
    """Every state that is a join with its join keys in its key; the answer sums them away.

    {k ↦ v} becomes {{key: k, lineage: {j1: ...}} ↦ v}, and X becomes for t in X collect {t.key}.
    """
    states: list[State] = []
    replaced: dict[Var, Term] = {}
    for state in s.states:
        m = monomial(state.term)
        joins = [a for a, _ in m.joins()]
        if not joins or not isinstance(m.output, Sng):
            states.append(state)
            continue
        lineage = Record(tuple((f"j{i + 1}", a) for i, a in enumerate(joins)))
        key = Record((("key", m.output.key), ("lineage", lineage)))
        annotated = m.build(Sng(key, m.output.value))
        t = type_of(annotated)
        assert isinstance(t, MapType)
        var = Var(state.var.name, t)
        states.append(State(var, annotated))
        row = Var(fresh("t", {v.name for u in subterms(s.answer) for v in variables(u)}), t.key)
        if isinstance(
            t.value, MapType
        ):  # a map as the value stays one: it does not pair with the key
            value = Var(change_name(row.name), t.value)
            replaced[state.var] = Each(row, value, var, Sng(Field(row, "key"), value))
        else:
            replaced[state.var] = For(row, var, Sng(Field(row, "key"), Num(1, INT)))
    return Split(tuple(states), substitute(s.answer, replaced))


def merges(s: Split, changing: Collection[str]) -> list[Inference | NotHomomorphic]:
    """The merge of each state, or why it has none."""
    out: list[Inference | NotHomomorphic] = []
    for state in s.states:
        try:
            out.append(state.merge(changing))
        except NotHomomorphic as e:
            out.append(e)
    return out
