"""The difference of two sums of monomials, in which what both have cancels.

    m′ - m, with equal monomials left out, and   [p] · s - [q] · s = [p and not q] · s - [q and not p] · s

where NULL is false. So the difference of a query and the same one with another filter reads the rows between both filters alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.calculus.terms import Call, Const, Pred, Term, Var, variables
from headwater.calculus.types import BOOLEAN
from headwater.rules.equalities import equality
from headwater.rules.monomial import Monomial, Signed


@dataclass(frozen=True)
class Difference:
    """A sum of monomials, each with the variables of the rows that its filters differ by; none where nothing is filtered."""

    terms: tuple[tuple[int, Monomial, frozenset[Var]], ...]

    @property
    def filtered(self) -> bool:
        """Whether all of it is between two filters."""
        return all(by for _, _, by in self.terms)


def difference(now: Signed, was: Signed) -> Difference:
    """now - was; monomials are in one form, so that equal ones are equal."""
    plus, minus = list(now), list(was)
    for term in now:
        if term in minus:
            plus.remove(term)
            minus.remove(term)
    out: list[tuple[int, Monomial, frozenset[Var]]] = []
    for sign, m in list(plus):
        other = next((x for x in minus if x[0] == sign and _differ_by_filters(m, x[1])), None)
        if other is not None:
            plus.remove((sign, m))
            minus.remove(other)
            out += _between(sign, m, other[1]) + _between(-sign, other[1], m)
    none: frozenset[Var] = frozenset()
    out += [(sign, m, none) for sign, m in plus] + [(-sign, m, none) for sign, m in minus]
    return Difference(tuple(out))


def _differ_by_filters(a: Monomial, b: Monomial) -> bool:
    """Whether two monomials are the same but for filters that join nothing."""
    if (a.atoms, a.output, _values(a)) != (b.atoms, b.output, _values(b)):
        return False
    bound = {v for v, _ in a.atoms}
    for f in (*_only(a, b), *_only(b, a)):
        found = equality(f)
        if found is not None and found.ties(bound):
            return False
    return True


def _between(sign: int, m: Monomial, other: Monomial) -> list[tuple[int, Monomial, frozenset[Var]]]:
    """The rows that pass the filters of one monomial and not those of another; none where the first say all that the others do."""
    mine, theirs = _only(m, other), _only(other, m)
    theirs = [f for f in theirs if not any(_implies(g, f) for g in mine)]
    if not theirs:
        return []
    conditions = [f.condition for f in theirs]
    both = Call("and", tuple(conditions)) if len(conditions) > 1 else conditions[0]
    passes = Call("coalesce", (both, Const(False, BOOLEAN)))
    outside = Pred(Call("not", (passes,)))
    by = frozenset(v for f in (*mine, outside) for v in variables(f))
    return [(sign, Monomial(m.atoms, (*m.factors, outside), m.output), by)]


def _implies(f: Pred, g: Pred) -> bool:
    """Whether what passes one filter passes another: both compare the same with constants, in the same direction."""
    match f.condition, g.condition:
        case (Call(op, (left, Const(a, t))), Call(other, (right, Const(b, u)))):
            comparable = (op, left, t) == (other, right, u) and None not in (a, b)
            if comparable and op in ("<", "<="):
                return bool(a <= b)
            if comparable and op in (">", ">="):
                return bool(a >= b)
    return False


def _only(m: Monomial, other: Monomial) -> list[Pred]:
    """The filters of one monomial that another has not."""
    return [f for f in m.factors if isinstance(f, Pred) and f not in other.factors]


def _values(m: Monomial) -> Sequence[Term]:
    return [f for f in m.factors if not isinstance(f, Pred)]
