"""Monomials: comprehensions taken apart, and sums of them.

    for x in R collect for y in S collect [f] · c · {k ↦ v}     atoms, factors, output

Every term in normal form is a sum of these, each with its sign; the plan of a query is made from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Add,
    For,
    Neg,
    Num,
    Pred,
    Rel,
    Sng,
    Term,
    Times,
    Var,
    Zero,
    fresh,
)
from headwater.calculus.types import INT, Type, is_key
from headwater.rules.equalities import Equality, equality


@dataclass(frozen=True)
class Monomial:
    """A comprehension taken apart: its atoms, its filters and factors, and its output."""

    atoms: tuple[tuple[Var, Term], ...]
    factors: tuple[Term, ...]
    output: Term

    def build(self, output: Term) -> Term:
        """The comprehension with another output."""
        body = Times((*self.factors, output)) if self.factors else output
        for var, source in reversed(self.atoms):
            body = For(var, source, body)
        return body

    def equalities(self) -> list[tuple[Term, Term]]:
        """The two sides of each filter that is an equality."""
        return [e.sides for e in self._equalities()]

    def joins(self) -> list[tuple[Term, Term]]:
        """The equalities between columns of different atoms."""
        bound = {v for v, _ in self.atoms}
        return [e.sides for e in self._equalities() if e.ties(bound)]

    def _equalities(self) -> Iterator[Equality]:
        for f in self.factors:
            if isinstance(f, Pred) and (found := equality(f)) is not None:
                yield found


Signed = list[tuple[int, Monomial]]


def monomial(term: Term) -> Monomial:
    """A chain of `for`s, then factors, then an output."""
    atoms = []
    while isinstance(term, For):
        atoms.append((term.var, term.source))
        term = term.body
    factors: list[Term] = list(term.factors) if isinstance(term, Times) else [term]
    values = [f for f in factors if not isinstance(f, Pred)]
    outputs: list[Term] = [f for f in values if isinstance(f, Sng)] or list(values[-1:])
    if not outputs:  # filters alone count the rows that pass
        return Monomial(tuple(atoms), tuple(factors), Num(1, INT))
    factors.remove(outputs[0])
    return Monomial(tuple(atoms), tuple(factors), outputs[0])


def summands(term: Term) -> list[tuple[int, Monomial]]:
    """The monomials of a term in normal form, each with its sign; a bare relation is one over its rows."""
    match term:
        case Add(terms):
            return [s for t in terms for s in summands(t)]
        case Neg(inner):
            return [(-sign, m) for sign, m in summands(inner)]
        case Zero():
            return []
    m = monomial(term)
    if isinstance(m.output, Rel):
        row = Var(fresh("r", {v.name for v, _ in m.atoms}), type_of(m.output).key)
        m = Monomial((*m.atoms, (row, m.output)), m.factors, Sng(row, Num(1, INT)))
    return [(1, m)]


def sum_of(found: Signed, t: Type | None = None) -> Term:
    """Monomials added up; without any, the zero of a type."""
    built = [m.build(m.output) if s > 0 else Neg(m.build(m.output)) for s, m in found]
    if not built:
        assert t is not None and not is_key(t)
        return Zero(t)  # type: ignore[arg-type]
    return built[0] if len(built) == 1 else Add(tuple(built))
