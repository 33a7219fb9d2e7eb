"""Changes of monomials: what a product of relations becomes when some of them change.

    all at once    Δ(a · b) = Δa · b + a · Δb + Δa · Δb      a term for every set of changed factors: 2ⁿ - 1
    one by one     Δ(a · b) = Δa · b + a′ · Δb               a′ = a + Δa; as many terms as changed factors: n

Both are `rules.delta` of a product. All at once reads old versions only, so that the other factors of a term stay
together, and one kept map can hold the join of them; one by one reads some in the new version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import NamedTuple

from headwater.calculus.terms import Rel, Var
from headwater.rules.monomial import Monomial

MOST_SETS = 3
"""So many factors change all at once: seven terms. A relation that is joined with itself more often goes one by one."""


class Changed(NamedTuple):
    """A monomial in which some atoms stand for their change, and some for their new version; the others are old."""

    monomial: Monomial
    change: frozenset[Var]
    new: frozenset[Var] = frozenset()


def changes_of(m: Monomial, names: Collection[str], one_by_one: bool) -> Iterator[Changed]:
    """The terms of a monomial's change when the relations of some names change."""
    moving = [v for v, s in m.atoms if isinstance(s, Rel) and s.name in names]
    if one_by_one:
        for i, v in enumerate(moving):
            yield Changed(m, frozenset({v}), frozenset(moving[:i]))
        return
    for count in range(1, len(moving) + 1):
        for chosen in combinations(moving, count):
            yield Changed(m, frozenset(chosen))
