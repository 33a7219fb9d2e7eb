"""Subqueries that are asked for by outer rows: what stands for them between the cut and the join.

    q(x)       AskedRows @ e(x)      the rows that a subquery has for the outer columns e(x)
    f(q(x))    AskedScalar(e(x))     a scalar over its value

They are relations and calls like others to whatever only passes them on, and are gone when every subquery is joined: no
term that is kept has one.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.calculus.terms import Call, Not, Rel, Term, children, node, relations
from headwater.calculus.types import KeyType


@node
class AskedRows(Rel):
    """A subquery as a map from outer columns to its rows."""


@node
class AskedScalar(Call):
    """One of the scalars over a subquery's value, as a function of outer columns."""

    subquery: str = ""
    place: int = 0


def asked_scalar(subquery: str, place: int, args: tuple[Term, ...], t: KeyType) -> AskedScalar:
    """The scalar at a place of those that are shown of a subquery."""
    return AskedScalar(f"{subquery}.{place}", args, t, subquery, place)


def calls_of(term: Term) -> Iterator[AskedScalar]:
    """The scalar subqueries in a term that its own rows do not bind, those inside of ¬ left out."""
    if isinstance(term, AskedScalar):
        yield term
    elif not isinstance(term, Not):
        for c in children(term):
            yield from calls_of(c)


def asks(term: Term) -> bool:
    """Whether a term has subqueries that are yet to be joined."""
    return any(isinstance(r, AskedRows) for r in relations(term)) or any(calls_of(term))
