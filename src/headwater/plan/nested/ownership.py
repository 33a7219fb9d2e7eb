"""Inner rows whose owner is read for its key alone.

    for x in R collect for y in R.a collect [x.k <=> y.k] · s(x.k, y)  =  for y in R.a collect s(y.k, y)

R.a has the rows of an array of R, and every one of them has one owner: no version has inner rows without it, or a key
twice. So a join with the owner finds one row, and where that says no more than its key it is not looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.calculus.terms import (
    Field,
    Pred,
    Rel,
    Term,
    Var,
    replaced,
    variables,
)
from headwater.rules.equalities import Equality, equality
from headwater.rules.monomial import Monomial


@dataclass(frozen=True)
class Owner:
    """The relation of the rows that hold an array, and which columns of inner rows are its key."""

    relation: str
    key: tuple[tuple[str, str], ...]
    """Columns of the inner row, each with the owner's column."""


Owned = Mapping[str, Owner]
"""Relations of inner rows."""


def without_owners(m: Monomial, owned: Owned) -> Monomial:
    """The monomial without the owners of which it reads nothing but their keys, which their inner rows have, too."""
    for y, inner in m.atoms:
        owner = owned.get(inner.name) if isinstance(inner, Rel) else None
        for x, outer in m.atoms:
            if owner is not None and isinstance(outer, Rel) and outer.name == owner.relation:
                less = _without(m, x, y, owner)
                if less is not None:
                    return without_owners(less, owned)
    return m


def _without(m: Monomial, x: Var, y: Var, owner: Owner) -> Monomial | None:
    """The monomial without the owner x of y; None if they are not joined by the whole key, or more of x is read."""
    same: dict[Term, Term] = {Field(x, k): Field(y, n) for n, k in owner.key}
    joined = {f: e for f in m.factors if (e := _equates(f, same)) is not None}
    if {a for e in joined.values() for a in e.sides if a in same} != set(same):
        return None
    atoms = tuple((v, replaced(s, same)) for v, s in m.atoms if v != x)
    factors = tuple(replaced(f, same) for f in m.factors if f not in joined)
    output = replaced(m.output, same)
    left = (*(s for _, s in atoms), *factors, output)
    return None if any(x in variables(t) for t in left) else Monomial(atoms, factors, output)


def _equates(factor: Term, same: Mapping[Term, Term]) -> Equality | None:
    """A filter that joins a column of the owner's key with that of the inner row; a key is never NULL."""
    found = equality(factor) if isinstance(factor, Pred) else None
    if found is None:
        return None
    a, b = found.sides
    return found if same.get(a) == b or same.get(b) == a else None
