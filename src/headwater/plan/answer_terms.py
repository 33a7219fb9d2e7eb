"""Terms of an answer taken apart: the components of a group's value, the values of its bags, and sums of monomials."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.calculus.notation.text import show
from headwater.calculus.terms import (
    Add,
    Box,
    Call,
    Const,
    Field,
    Neg,
    Num,
    Pred,
    Record,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    Zero,
    children,
    rebuild,
)
from headwater.calculus.types import INT, KeyType, MapType, RecordType, Type, boxed, is_key
from headwater.plan.equal_maps import canonical, sorted_monomial
from headwater.plan.maps import ONE
from headwater.rules.monomial import Monomial
from headwater.rules.rows import cells


def number_of(weight: Term) -> Term:
    """How often a row counts, as a scalar."""
    match weight:
        case Unbox(inner):
            return inner
        case Num(value):
            return Const(value, boxed(INT))
    return Box(weight)


def once_each(d: Var, w: Var, body: Term) -> list[Term] | None:
    """What is added for each different value of a bag; None if something else is."""
    factors = [f for f in (body.factors if isinstance(body, Times) else (body,)) if f != ONE]
    live = [f for f in factors if f == Pred(Call(">", (Box(w), Const(0, boxed(INT)))))]
    return [f for f in factors if f not in live] if live else None


def power_of(rest: list[Term] | None, d: Var) -> int | None:
    """Which power of each different value is added; None if something else is."""
    match rest:
        case []:
            return 0
        case [Unbox(x)] if x == d:
            return 1
        case [Unbox(Call("_exact", args))] if all(a == d for a in args):
            return len(args)
    return None


def flat(t: Type) -> list[KeyType]:
    """The types of the columns of a key."""
    assert is_key(t)
    return [f for _, f in t.fields] if isinstance(t, RecordType) else [t]  # type: ignore[list-item]


def field_of(record: Term, name: str) -> Term:
    return dict(record.fields)[name] if isinstance(record, Record) else Field(record, name)


def component_of(output: Term, place: int) -> Term:
    """The component of a monomial's value at a place."""
    value = output.value if isinstance(output, Sng) else output
    return value.fields[place][1] if isinstance(value, Record) else value


def ringed(m: Monomial, ring: list[Term]) -> Monomial:
    """The monomial with another value, and its key as a record."""
    key = m.output.key if isinstance(m.output, Sng) else Record(())
    named = Record(tuple((f"k{i}", c) for i, c in enumerate(cells(key))))
    value = Record(tuple((f"r{i}", r) for i, r in enumerate(ring)))
    return Monomial(m.atoms, m.factors, Sng(named, value))


def hidden(term: Term, columns: Mapping[Term, str]) -> Term:
    """The term without what is a column already."""
    if term in columns:
        return Const(None, boxed(INT))
    return rebuild(term, tuple(hidden(c, columns) for c in children(term)))


def summed(monomials: list[tuple[int, Monomial]], t: Type) -> Term:
    """The sum of monomials in one form; without any, the zero of a type."""
    terms = []
    for sign, m in monomials:
        made = canonical(sorted_monomial(m))
        terms.append(Neg(made) if sign < 0 else made)
    terms.sort(key=show)
    if not terms:
        assert isinstance(t, MapType)
        return Zero(t)
    return terms[0] if len(terms) == 1 else Add(tuple(terms))
