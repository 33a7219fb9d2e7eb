"""Deltas: how a term changes when its inputs change.

    q[R + ΔR] = q[R] + delta(q)[R, ΔR]

for any set of inputs that change at once, everything on the right read at the old version. The rules
go by class of node, one function for each class, and 0 is symbolic: nothing is built for what stays the same.

    constant        what reads nothing that changes                      Δ = 0
    linear          + - sum field for (each way) sng dict fn δ           Δ f(a) = f(Δa)
    multilinear     · * for                                              the product rule
    functional      f @ a with a ring value for a                        δf @ a @ Δa + Δf @ (a + Δa)
    touched keys    each                                                 new minus old, where the map changed
    by difference   ¬ [e] box-dependent keys, answers, repeat            f(a + Δa) - f(a)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Add,
    Apply,
    Dict,
    DictUnion,
    Differential,
    Each,
    Field,
    Fn,
    For,
    Let,
    Neg,
    Not,
    Pointwise,
    Record,
    Rel,
    Sng,
    Sum,
    Term,
    Times,
    Var,
    Zero,
    apart,
    change_name,
    free,
    fresh,
    names_in,
    relations,
    substitute,
)
from headwater.calculus.types import is_key

Changes = dict[Var | Rel, Term]
"""The leaves of a term that change, each with the term of its change: {R: ΔR}."""


def delta(term: Term, changed: Iterable[str], level: int = 1) -> Term:
    """The change of a term when the named inputs change, reading `ΔR` (at level 2 `Δ′R`, and so on)."""
    names = set(changed)
    changes: Changes = {
        r: Rel(change_name(r.name, level), r.type) for r in relations(term) if r.name in names
    }
    return derive(term, changes, level) or Zero(type_of(term))


def chain(term: Term, changed: Iterable[str], limit: int = 8) -> list[Term]:
    """[q, δq, δ²q, ...]: each refreshes the one before; it ends when nothing that changes is read."""
    names = set(changed)
    out = [term]
    while len(out) <= limit and any(r.name in names for r in relations(out[-1])):
        out.append(delta(out[-1], names, level=len(out)))
    return out


def updated(term: Term, changes: Changes) -> Term:
    """The term with every changed leaf replaced by leaf + change."""
    return substitute(term, {leaf: Add((leaf, change)) for leaf, change in changes.items()})


def derive(term: Term, changes: Changes, level: int = 1) -> Term | None:
    """The change of a ring term, or None where it is 0."""
    changes = {leaf: change for leaf, change in changes.items() if leaf in free(term)}
    if not changes:
        return None
    # What is bound here must not capture what the changes read.
    term = apart(term, {x.name for change in changes.values() for x in free(change)})
    match term:
        case Var() | Rel():
            return changes[term]
        case (
            Neg()
            | Sum()
            | Field()
            | Add()
            | Record()
            | Fn()
            | Dict()
            | Differential()
            | DictUnion()
        ):
            return delta_linear(term, changes, level)
        case Sng():
            return delta_singleton(term, changes, level)
        case Times(factors):
            return delta_product(Times, factors, changes, level)
        case Pointwise(left, right):
            return delta_product(lambda pair: Pointwise(*pair), (left, right), changes, level)
        case For():
            return delta_for(term, changes, level)
        case Let() if not is_key(term.var.type) or not free(term.bound) & changes.keys():
            return delta_let(term, changes, level)
        case Apply():
            return delta_apply(term, changes, level)
        case Each() if not free(term.body) & changes.keys():
            return delta_each(term, changes, level)
        case _:
            return delta_difference(term, changes)


def delta_linear(term: Term, changes: Changes, level: int) -> Term | None:
    """Δ f(a) = f(Δa), and Δ⟨a, b⟩ = ⟨Δa, Δb⟩; a label union changes on either side."""
    match term:
        case Neg(a):
            return _within(derive(a, changes, level), Neg)
        case Sum(a):
            return _within(derive(a, changes, level), Sum)
        case Field(a, name):
            return _within(derive(a, changes, level), lambda d: Field(d, name))
        case Fn(var, body):
            return _within(derive(body, changes, level), lambda d: Fn(var, d))
        case Dict(index, params, body):
            return _within(derive(body, changes, level), lambda d: Dict(index, params, d))
        case Differential(f):
            return _within(derive(f, changes, level), Differential)
        case Add(terms):
            return _sum(derive(t, changes, level) for t in terms)
        case DictUnion(left, right):
            parts = [d for t in (left, right) if (d := derive(t, changes, level)) is not None]
            return DictUnion(*parts) if len(parts) == 2 else parts[0] if parts else None
        case Record(fields):
            deltas = [(n, t, derive(t, changes, level)) for n, t in fields]
            if all(d is None for _, _, d in deltas):
                return None
            return Record(tuple((n, Zero(type_of(t)) if d is None else d) for n, t, d in deltas))
        case _:
            raise AssertionError(f"{type(term).__name__} is not linear")


def delta_singleton(term: Sng, changes: Changes, level: int) -> Term | None:
    """Δ{e ↦ r} = {e ↦ Δr} while e stays; else {e' ↦ Δr} + {e' ↦ r} - {e ↦ r} with e' the new key."""
    change = derive(term.value, changes, level)
    key = updated(term.key, changes)
    if key is term.key:
        return _within(change, lambda d: Sng(key, d))
    moved = (Sng(key, term.value), Neg(term))
    return Add(moved if change is None else (Sng(key, change), *moved))


def delta_product(
    build: Callable[[tuple[Term, ...]], Term],
    factors: tuple[Term, ...],
    changes: Changes,
    level: int,
) -> Term | None:
    """Δ(a · b) = Δa · b + a · Δb + Δa · Δb: a term for every non-empty set of changed factors."""
    deltas = [derive(f, changes, level) for f in factors]
    moving = [i for i, d in enumerate(deltas) if d is not None]
    numbered = list(enumerate(zip(factors, deltas, strict=True)))
    terms = []
    for count in range(1, len(moving) + 1):
        for chosen in combinations(moving, count):
            picked = [d if d is not None and i in chosen else f for i, (f, d) in numbered]
            terms.append(build(tuple(picked)))
    return _sum(terms)


def delta_for(term: For, changes: Changes, level: int) -> Term | None:
    """Δ(for x in a collect b) = for x in Δa collect b + for x in a collect Δb + for x in Δa collect Δb."""

    def build(pair: tuple[Term, ...]) -> Term:
        return For(term.var, *pair)

    return delta_product(build, (term.source, term.body), changes, level)


def delta_let(term: Let, changes: Changes, level: int) -> Term | None:
    """Δ(let X := a in b) = let X := a in let ΔX := Δa in Δb, where in b both X and the inputs change."""
    change = derive(term.bound, changes, level)
    if change is None:
        return _within(derive(term.body, changes, level), lambda d: Let(term.var, term.bound, d))
    var = _change_of(term.var, level, term.bound, term.body, change)
    inner = derive(term.body, {**changes, term.var: var}, level)
    return _within(inner, lambda d: Let(term.var, term.bound, Let(var, change, d)))


def delta_apply(term: Apply, changes: Changes, level: int) -> Term | None:
    """Δ(m @ e) = Δm @ e for a key that stays; Δ(f @ a) = δf @ a @ Δa + Δf @ (a + Δa) for a ring value."""
    function, argument = term.function, term.argument
    if not free(argument) & changes.keys():
        return _within(derive(function, changes, level), lambda d: Apply(d, argument))
    if is_key(type_of(argument)):
        return delta_difference(term, changes)
    moved = derive(argument, changes, level)
    inner = moved and Apply(Apply(Differential(function), argument), moved)
    replaced = derive(function, changes, level)
    outer = replaced and Apply(replaced, Add((argument, moved)) if moved else argument)
    return _sum((inner, outer))


def delta_each(term: Each, changes: Changes, level: int) -> Term | None:
    """Δ(each k ↦ v in m collect f(v)) = each k ↦ Δv in Δm collect f(m@k + Δv) - f(m@k), with f(0) = 0.

    Only the keys that the change touches are visited: this is what re-answering touched groups means.
    """
    change = derive(term.source, changes, level)
    if change is None:
        return None
    renamed = apart(
        term, {x.name for x in free(term.source)}
    )  # the source is read under the binders
    assert isinstance(renamed, Each)
    term = renamed
    var = _change_of(term.value, level, term.source, term.body, term.key)
    before = Apply(term.source, term.key)
    answer = Times((Not(Not(term.value)), term.body))
    new = Let(term.value, Add((before, var)), answer)
    old = Let(term.value, before, answer)
    return Each(term.key, var, change, Add((new, Neg(old))))


def delta_difference(term: Term, changes: Changes) -> Term:
    """Δ f(a) = f(a + Δa) - f(a): always right, and what is left when a node has no better law."""
    return Add((updated(term, changes), Neg(term)))


def _change_of(var: Var, level: int, *near: Term) -> Var:
    """The variable for the change of a variable, apart from all names that stand near it."""
    taken = {var.name}.union(*(names_in(t) for t in near))
    return Var(fresh(change_name(var.name, level), taken), var.type)


def _within(change: Term | None, build: Callable[[Term], Term]) -> Term | None:
    return None if change is None else build(change)


def _sum(terms: Iterable[Term | None]) -> Term | None:
    present = tuple(t for t in terms if t is not None)
    return None if not present else present[0] if len(present) == 1 else Add(present)
