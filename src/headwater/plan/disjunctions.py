"""A disjunction of equalities as joins, each by a key, that no pair of rows is in twice.

[a or b] = [a] + [not a] · [b]
"""

from __future__ import annotations

from headwater.calculus.terms import Call, Const, Pred, Term, Var
from headwater.calculus.types import BOOLEAN
from headwater.rules.equalities import equality
from headwater.rules.monomial import Monomial, Signed

MOST = 4
"""More alternatives are left together, and read all of the other side: every one is a join of its own."""


def joins(found: Signed) -> Signed:
    """Monomials in which rows are joined by one of several equalities, one for each of those."""
    out: Signed = []
    for sign, m in found:
        out.extend((sign, part) for part in _split(m))
    return out


def _split(m: Monomial) -> list[Monomial]:
    bound = {v for v, _ in m.atoms}
    for i, f in enumerate(m.factors):
        match f:
            case Pred(Call("or", args)) if 2 <= len(args) <= MOST:
                pairs = [_tied(a, bound) for a in args]
                if not all(pairs) or _joined(m, pairs[0], bound):
                    continue
                rest = (*m.factors[:i], *m.factors[i + 1 :])
                return [
                    part
                    for case in _cases(args)
                    for part in _split(Monomial(m.atoms, (*rest, *case), m.output))
                ]
    return [m]


def _cases(args: tuple[Term, ...]) -> list[tuple[Term, ...]]:
    """Each alternative, and that those before it are not true."""
    out: list[tuple[Term, ...]] = []
    for i, a in enumerate(args):
        before = (Call("not", (Call("coalesce", (b, Const(False, BOOLEAN))),)) for b in args[:i])
        parts = a.args if isinstance(a, Call) and a.function == "and" else (a,)
        out.append((*(Pred(p) for p in parts), *(Pred(b) for b in before)))
    return out


def _tied(condition: Term, bound: set[Var]) -> frozenset[Var]:
    """The rows that a condition ties by an equality; none if it does not."""
    found = equality(condition)
    if found is not None:
        return found.ties(bound)
    match condition:
        case Call("and", args):
            return next((t for c in args if (t := _tied(c, bound))), frozenset())
    return frozenset()


def _joined(m: Monomial, rows: frozenset[Var], bound: set[Var]) -> bool:
    """Whether the same rows are joined by an equality already."""
    return any(isinstance(f, Pred) and rows <= _tied(f.condition, bound) for f in m.factors)
