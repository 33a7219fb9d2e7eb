"""Answers of one row each that change together, as one change.

    Δ(c₀ · c₁ · … · r) = (c₀′ · c₁′ · … - c₀ · c₁ · …) · r      r does not change

The product rule has a term for every set of changed factors, and one factor after another needs all the others for
each. Where every factor is a relation of at most one row that no equality ties to the rest (an aggregate without
groups, as most scalar subqueries are) their product has one row before and one after: that is the change that a
statement starts from, with the columns of all of them, and it looks up what does not change.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from headwater.calculus.terms import (
    Field,
    Pred,
    Rel,
    Term,
    Var,
    fresh,
    replaced,
    variables,
)
from headwater.calculus.types import KeyType, RecordType, bag
from headwater.plan.flow import connected
from headwater.plan.program import Program
from headwater.rules.monomial import Monomial


class Multiplied(NamedTuple):
    """A monomial over a product of relations, which is its first atom; the relations, and the row of the product."""

    monomial: Monomial
    factors: tuple[str, ...]
    row: RecordType


def column_of(place: int, name: str) -> str:
    """What a column of a factor is called in the product."""
    return f"{place}.{name}"


def singles(program: Program) -> set[str]:
    """The relations that have at most one row, and that row once: answers of aggregates without groups."""
    return {
        s.name
        for s in program.strata.values()
        if not s.group.key and s.ranked is None and s.weight is None and not s.rounds
    }


def untied(monomials: Collection[Monomial]) -> set[str]:
    """The relations that no equality of any monomial ties to another of its atoms."""
    free: set[str] = set()
    tied: set[str] = set()
    for m in monomials:
        names = {v: s.name for v, s in m.atoms if isinstance(s, Rel)}
        tests = [f.condition for f in m.factors if isinstance(f, Pred)]
        for block in connected(list(names), tests):
            (free if len(block) == 1 else tied).update(names[v] for v in block)
    return free - tied


def multiplied(m: Monomial, changed: Collection[str]) -> Multiplied | None:
    """A monomial with the change of the product of some factors in their place; None if one is read as a whole row."""
    chosen = [(v, s) for v, s in m.atoms if isinstance(s, Rel) and s.name in changed]
    cells = [(i, n, t) for i, (v, _) in enumerate(chosen) for n, t in _fields(v)]
    row = RecordType(tuple((column_of(i, n), t) for i, n, t in cells))
    x = Var(fresh("x", {v.name for v, _ in m.atoms}), row)
    columns: dict[Term, Term] = {
        Field(chosen[i][0], n): Field(x, column_of(i, n)) for i, n, _ in cells
    }
    gone = {v for v, _ in chosen}
    names = tuple(s.name for _, s in chosen)
    of = Rel("".join(f"×{n}" for n in names), bag(row))
    rest = [(v, replaced(s, columns)) for v, s in m.atoms if v not in gone]
    factors = tuple(replaced(f, columns) for f in m.factors)
    made = Monomial(((x, of), *rest), factors, replaced(m.output, columns))
    if any(variables(t) & gone for t in (*(s for _, s in rest), *factors, made.output)):
        return None
    return Multiplied(made, names, row)


def _fields(row: Var) -> tuple[tuple[str, KeyType], ...]:
    return row.type.fields if isinstance(row.type, RecordType) else ()
