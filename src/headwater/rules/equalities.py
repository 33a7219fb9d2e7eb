"""Equalities between rows: which filter equates what is bound with what is outside of it."""

from __future__ import annotations

from collections.abc import Collection

from headwater.calculus.check import type_of
from headwater.calculus.scalars import common_type
from headwater.calculus.terms import Call, Pred, Term, Var, variables


def equated(
    factor: Term, bound: Collection[Var], outer: Collection[Var]
) -> tuple[Term, Term, list[Term]] | None:
    """(outside, inside, guards) of [f(y) = e(x)], both sides in one type: what NULL must not match is left out."""
    match factor:
        case Pred(Call("=" | "<=>" as op, (a, b))):
            for inside, outside in ((a, b), (b, a)):
                reads, others = variables(inside), variables(outside)
                if reads and reads <= set(bound) and others and others <= set(outer):
                    t = common_type(type_of(inside), type_of(outside))
                    if t is None:
                        return None
                    inside, outside = (
                        e if type_of(e) == t else Call("cast", (e,), t) for e in (inside, outside)
                    )
                    guards = [Pred(Call("is_not_null", (inside,)))] if op == "=" else []
                    return outside, inside, list[Term](guards)
    return None
