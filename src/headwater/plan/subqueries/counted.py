"""Outer rows that a condition is asked for and that are only counted.

    for x in R, y in S collect [f(y) = e(x)] · ¬q(f(y)) · s(x)
        = for p in A collect for x in R collect [p.key = e(x)] · p.n · s(x)

A has the keys f(y) at which q has nothing, with the number n of rows of S there: what asks for the keys has counted
those rows already, and a join with them would only count them again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Call,
    Field,
    Pred,
    Rel,
    Term,
    Var,
    relations,
    replaced,
    variables,
)
from headwater.calculus.types import DOUBLE, FLOAT, RecordType
from headwater.plan.failures import raises
from headwater.plan.subqueries.keyed import LIVE, MARK, ONE, calls_of
from headwater.rules.monomial import Monomial


@dataclass(frozen=True)
class Split:
    """Rows that are only counted, with their keys; and the other rows, with what of them is equal to which key."""

    counted: Monomial
    keys: list[Term]
    rest: Monomial
    equal: dict[Term, int]


def only_counted(m: Monomial, keys: Sequence[Term]) -> Split | None:
    """The monomial in two, if of a join nothing but the keys is read elsewhere."""
    plain = [f for f in m.factors if _is_plain(f)]
    classes = _classes(plain, keys)
    equal = {t: i for i, c in enumerate(classes) for t in c}
    fixed = [f for f in plain if _equality(f) and all(t in equal for t in _sides(f))]
    own = frozenset(v for v, _ in m.atoms)
    elsewhere = [m.output, *(f for f in m.factors if f not in plain)]
    read = {v for t in elsewhere for v in variables(replaced(t, dict.fromkeys(equal, LIVE)))}
    read |= {v for v, source in m.atoms if not _is_relation(source)}
    joined = [variables(t) for t in (*(f for f in plain if f not in fixed), *keys)]
    joined += [variables(source) | {v} for v, source in m.atoms]
    needed = _closure(read & own, joined)
    free = own - needed
    if not free:
        return None
    chosen: list[Term] = []
    guards: list[Term] = []
    for same in classes:
        inside = [t for t in same if variables(t) <= free]
        if not inside:
            return None
        first = inside[0]
        chosen.append(first)
        guards += [Pred(Call("<=>", (first, t))) for t in inside[1:]]
        if any(_equality(f) == "=" and _sides(f)[0] in same for f in fixed):
            guards.append(Pred(Call("is_not_null", (first,))))
    mine = [f for f in plain if f not in fixed and variables(f) and variables(f) <= free]
    failing = [t for t in (*mine, *chosen) if raises(t)]
    if needed and failing:  # rows that join with nothing do not fail
        return None
    left = tuple(f for f in m.factors if f not in fixed and f not in mine)
    counted = tuple(a for a in m.atoms if a[0] in free)
    others = tuple(a for a in m.atoms if a[0] not in free)
    rest = Monomial(others, left, m.output)
    return Split(Monomial(counted, (*mine, *guards), ONE), chosen, rest, equal)


def _is_plain(f: Term) -> bool:
    return isinstance(f, Pred) and not relations(f) and not any(calls_of(f))


def _is_relation(source: Term) -> bool:
    return isinstance(source, Rel) and not source.name.startswith(MARK)


def _equality(f: Term) -> str:
    """= or <=> between two columns of one type whose equal values are the same value."""
    match f:
        case Pred(Call("=" | "<=>" as op, (Field() as a, Field() as b))):
            t = type_of(a)
            if t == type_of(b) and t not in (DOUBLE, FLOAT) and not isinstance(t, RecordType):
                return op
    return ""


def _sides(f: Term) -> tuple[Term, Term]:
    assert isinstance(f, Pred) and isinstance(f.condition, Call)
    a, b = f.condition.args
    return a, b


def _classes(plain: Sequence[Term], keys: Sequence[Term]) -> list[list[Term]]:
    """Each key with all columns that are equal to it."""
    out: list[list[Term]] = []
    for key in keys:
        found = [key]
        for t in found:
            for f in plain:
                if _equality(f) and t in _sides(f):
                    found += [s for s in _sides(f) if s not in found]
        out.append(found)
    return out


def _closure(start: Collection[Var], linked: Sequence[frozenset[Var]]) -> set[Var]:
    out = set(start)
    while more := [s for s in linked if s & out and not s <= out]:
        out |= more[0]
    return out
