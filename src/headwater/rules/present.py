"""A row that is there is counted: no count of rows that it is one of is zero.

    for x in R collect c · [box(for y in R collect p(y)) = 0] · s  =  0        where c implies p(x)

Relations hold rows, none of them less than no times. What divides by such a count does not fail, so that nothing needs to be kept for
the case that it does: in PageRank a rank is divided by the number of links that leave a node, one of which it goes along.
What c implies is told by its filters as they are, and by equalities of one type, of which chains are followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.calculus.check import type_of
from headwater.calculus.terms import Box, Call, Const, Num, Pred, Rel, Term, Var, substitute
from headwater.rules.equalities import Equality, equality
from headwater.rules.monomial import Monomial, monomial


def impossible(m: Monomial) -> bool:
    """Whether a monomial asks that a count is zero which has one of its own rows in it."""
    return any(_counted(m, q) for f in m.factors for q in _zero_counts(f))


def _zero_counts(factor: Term) -> Iterator[Term]:
    """The queries whose rows a filter wants to be none."""
    match factor:
        case Pred(inner):
            yield from _zero_counts(inner)
        case Call("and", args):
            for a in args:
                yield from _zero_counts(a)
        case Call("=", (Box(query), Const(0))):
            yield query


def _counted(m: Monomial, query: Term) -> bool:
    """Whether a row of the monomial is among those that a query counts."""
    counts = monomial(query)
    if len(counts.atoms) != 1 or counts.output != Num(1, type_of(counts.output)):
        return False
    ((y, source),) = counts.atoms
    if not isinstance(source, Rel):
        return False
    rows = [x for x, s in m.atoms if s == source]
    return any(_passes(x, y, counts.factors, m.factors) for x in rows)


def _passes(x: Var, y: Var, filters: Iterable[Term], known: tuple[Term, ...]) -> bool:
    """Whether the filters of y hold for x, by what is known."""
    classes = list(_classes(known))
    for f in filters:
        asked = substitute(f, {y: x})
        same = equality(asked)
        if not isinstance(f, Pred) or not (
            asked in known or (same is not None and _follows(same, classes))
        ):
            return False
    return True


def _follows(asked: Equality, classes: list[tuple[set[Term], bool]]) -> bool:
    """Whether both sides are equal; where NULL is not equal to NULL, also whether they are there."""
    if asked.null_safe and asked.left == asked.right:
        return True
    return any({*asked.sides} <= terms and (asked.null_safe or there) for terms, there in classes)


def _classes(known: Iterable[Term]) -> Iterator[tuple[set[Term], bool]]:
    """The terms that filters say to be equal, and whether they are not NULL.

    Only those of one type: a whole number and a double may both be equal to a third that they are not equal to each other by.
    """
    left = [e for f in known if isinstance(f, Pred) and (e := equality(f)) is not None]
    left = [e for e in left if type_of(e.left) == type_of(e.right)]
    while left:
        first, *left = left
        terms, there = {*first.sides}, not first.null_safe
        while mine := [e for e in left if terms.intersection(e.sides)]:
            left = [e for e in left if e not in mine]
            for e in mine:
                terms.update(e.sides)
                there |= not e.null_safe
        yield terms, there
