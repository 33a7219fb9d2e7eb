"""Equalities between rows: what joins are made by, and subqueries are looked up by.

    [a = b]      true where both are there and equal
    [a <=> b]    true where both are NULL, too

An equality that has one side over some variables and the other over others ties the two: it *matches* what is inside
with what is outside. Everything that asks whether a filter is an equality asks here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from headwater.calculus.check import type_of
from headwater.calculus.scalars import common_type
from headwater.calculus.terms import Call, Pred, Term, Var, variables


class Equality(NamedTuple):
    """The two sides of an equality; `null_safe` is `<=>`."""

    left: Term
    right: Term
    null_safe: bool

    @property
    def sides(self) -> tuple[Term, Term]:
        return self.left, self.right

    def ties(self, rows: Collection[Var]) -> frozenset[Var]:
        """The rows that the two sides read, if each reads some and none is read by both; none otherwise."""
        left, right = variables(self.left) & set(rows), variables(self.right) & set(rows)
        return left | right if left and right and not left & right else frozenset()


def equality(condition: Term) -> Equality | None:
    """A condition, or the filter of one, as an equality; None if it is none."""
    match condition:
        case Pred(inner):
            return equality(inner)
        case Call("=" | "<=>" as op, (a, b)):
            return Equality(a, b, op == "<=>")
    return None


class Match(NamedTuple):
    """An equality between what is inside and what is outside, both in one type."""

    inside: Term
    outside: Term
    null_safe: bool


def match_of(condition: Term, inner: Collection[Var], outer: Collection[Var]) -> Match | None:
    """f(y) and e(x) of f(y) = e(x), where y are inner variables and x outer ones; None if it does not tie them."""
    found = equality(condition)
    if found is None:
        return None
    for inside, outside in (found.sides, found.sides[::-1]):
        if _only(inside, inner) and _only(outside, outer):
            t = common_type(type_of(inside), type_of(outside))
            if t is None:
                return None
            return Match(_as_type(inside, t), _as_type(outside, t), found.null_safe)
    return None


def equated(
    factor: Term, bound: Collection[Var], outer: Collection[Var]
) -> tuple[Term, Term, list[Term]] | None:
    """(outside, inside, guards) of [f(y) = e(x)]: with the guards NULL is a key like others, and matches nothing."""
    found = match_of(factor, bound, outer) if isinstance(factor, Pred) else None
    if found is None:
        return None
    guards = () if found.null_safe else (Pred(Call("is_not_null", (found.inside,))),)
    return found.outside, found.inside, list[Term](guards)


def starred(conditions: Iterable[Term], center: Var) -> list[Term]:
    """[a = b] · [b = c] is [a = b] · [a = c]: whatever is equal to a column of `center` is tied to it, and not by way of others.

    It holds with `<=>` in either place, too. All columns have one type, so that nothing is compared in another one.
    """
    out, waiting = list[Term](), list(dict.fromkeys(conditions))
    known: dict[Term, Term] = {}
    while waiting:
        ready = next((c for c in waiting if _reaches(c, center, known)), None)
        if ready is None:
            return list(dict.fromkeys([*out, *waiting]))
        waiting.remove(ready)
        found = equality(ready)
        assert found is not None
        left, right = (known.get(s, s) for s in found.sides)
        out.append(Call("<=>" if found.null_safe else "=", (left, right)))
        for a, b in ((left, right), (right, left)):
            if variables(a) == {center} and center not in variables(b):
                known.setdefault(b, a)
    return list(dict.fromkeys(out))


def _reaches(condition: Term, center: Var, known: Mapping[Term, Term]) -> bool:
    """Whether a condition is an equality of terms of one type, one of which is over `center` or known to be equal to such a one."""
    found = equality(condition)
    if found is None or type_of(found.left) != type_of(found.right):
        return False
    return any(s in known or variables(s) == {center} for s in found.sides)


def _only(term: Term, some: Collection[Var]) -> bool:
    """Whether a term reads some variables and no others."""
    reads = variables(term)
    return bool(reads) and reads <= set(some)


def _as_type(term: Term, t: object) -> Term:
    return term if type_of(term) == t else Call("cast", (term,), t)  # type: ignore[arg-type]
