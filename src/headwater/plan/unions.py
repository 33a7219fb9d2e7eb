"""Unions that are read as relations, where writing them out would make too many products.

    for x in (a + b) collect s  =  for x in a collect s + for x in b collect s        one product for each summand
                                =  for x in U collect s                               U has each row of a + b, and how often

An outer join is a union of the pairs and of the rows that match nothing, so n of them, one over the other, are 2ⁿ
products. A union in too many products is given a name instead: it is answered like a group, as the rows with their counts,
and what reads it has one product again. U keeps the columns that are read of it, and no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Add,
    Box,
    Each,
    Field,
    For,
    Let,
    Neg,
    Num,
    Record,
    Sng,
    Sum,
    Term,
    Times,
    Unbox,
    Var,
    children,
    free,
    fresh,
    names_in,
    rebuild,
    substitute,
    variables,
)
from headwater.calculus.types import INT, KeyType, MapType, RecordType, Type, has_box
from headwater.plan.subqueries.keyed import LIVE, Named
from headwater.rules.rows import tidy

MOST = 8
"""So many products are written out; a union that makes more of them is read as a relation."""
Path = tuple[str, ...]
"""The fields that lead to a column of a row of rows: the column `k` of the row `o` is ("o", "k")."""


def unions_named(term: Term, named: Named) -> Term:
    """The term with the large unions that it reads as relations of their own, the inner ones first."""
    known: dict[Term, Term] = {}

    def visit(t: Term) -> Term:
        if t not in known:
            known[t] = step(rebuild(t, tuple(visit(c) for c in children(t))))
        return known[t]

    def step(t: Term) -> Term:
        match t:
            case Let(var, bound, body) if _is_union(bound) and _multiplies(bound, t):
                return _let_named(var, bound, body, named)
            case For(var, source, body) if _is_union(source) and _multiplies(source, t):
                bag = Var(fresh("q", names_in(body) | {var.name}), type_of(source))
                return _let_named(bag, source, For(var, bag, body), named)
        return t

    return visit(term)


def summands_of(term: Term, of: Mapping[Var, int] = MappingProxyType({})) -> int:
    """How many products a term has at most when it is written out; `of` says it of bags that have a name."""
    match term:
        case Var():
            return of.get(term, 1)
        case Add(terms):
            return sum(summands_of(t, of) for t in terms)
        case For(_, source, body):
            return summands_of(source, of) * summands_of(body, of)
        case Times(factors):
            return prod(summands_of(f, of) for f in factors)
        case Neg(inner) | Sum(inner) | Field(inner, _) | Sng(_, inner):
            return summands_of(inner, of)
        case Let(var, bound, body):
            return summands_of(body, {**of, var: summands_of(bound, of)})
    return 1


def _is_union(bag: Term) -> bool:
    """Whether a bag is closed, and has plain rows."""
    t = type_of(bag)
    plain = isinstance(t, MapType) and t.value == INT and not has_box(t)
    return plain and not variables(bag)


def _multiplies(bag: Term, whole: Term) -> bool:
    """Whether what reads a union makes many more products of its summands."""
    return 1 < summands_of(bag) < summands_of(whole) and summands_of(whole) > MOST


def _let_named(var: Var, bag: Term, body: Term, named: Named) -> Term:
    """The body with a relation in the place of a bag: let q := U in body."""
    t = type_of(bag)
    assert isinstance(t, MapType)
    every = _leaves(t.key)
    read = _paths_of(var, body)
    kept = [p for p in every if read is None or any(p[: len(r)] == r for r in read)]
    x = Var(fresh("u", names_in(bag)), t.key)
    flat = Record(tuple((f"c{i}", _at(x, p)) for i, p in enumerate(kept)) or (("c0", LIVE),))
    k, n = Var("k", type_of(flat)), Var("n", INT)
    rows = For(x, bag, Sng(flat, Num(1, INT)))
    relation = named(Each(k, n, rows, Sng(_copied(k, len(flat.fields)), Unbox(Box(n)))))
    return tidy(_replaced(body, var, relation, kept))


def _replaced(body: Term, var: Var, relation: Term, kept: list[Path]) -> Term:
    """The body with the rows of a relation, whose columns are some of a bag's, in the place of the bag."""
    if var not in free(body):
        return body
    match body:
        case For(x, source, inner) if source == var:
            inner = _replaced(inner, var, relation, kept)
            p = Var(fresh("p", names_in(inner)), type_of(relation).key)
            row = _row(x.type, kept, p, ())
            return For(p, relation, substitute(inner, {x: row}) if row is not None else inner)
        case _ if body == var:
            p = Var("p", type_of(relation).key)
            t = type_of(var)
            assert isinstance(t, MapType)
            row = _row(t.key, kept, p, ())
            assert row is not None, "a bag that is read whole keeps all its columns"
            return For(p, relation, Sng(row, Num(1, INT)))
    return rebuild(body, tuple(_replaced(c, var, relation, kept) for c in children(body)))


def _copied(k: Var, columns: int) -> Term:
    return Record(tuple((f"c{i}", Field(k, f"c{i}")) for i in range(columns)))


def _leaves(t: KeyType, under: Path = ()) -> list[Path]:
    """The columns of a row whose fields may be rows."""
    if not isinstance(t, RecordType):
        return [under]
    return [p for n, f in t.fields for p in _leaves(f, (*under, n))]


def _at(row: Term, path: Path) -> Term:
    for name in path:
        row = Field(row, name)
    return row


def _row(t: Type, kept: list[Path], p: Var, under: Path) -> Term | None:
    """A row of a bag from the columns of its relation, with the fields that it has there; None if it has none."""
    if not isinstance(t, RecordType):
        return Field(p, f"c{kept.index(under)}") if under in kept else None
    fields = [(n, _row(f, kept, p, (*under, n))) for n, f in t.fields]
    some = tuple((n, f) for n, f in fields if f is not None)
    return Record(some) if some else None


def _paths_of(var: Var, body: Term) -> set[Path] | None:
    """What is read of the rows of a bag; None if all is."""
    out: set[Path] = set()
    for t in _uses(var, body):
        if not isinstance(t, For):
            return None
        out |= _read(t.var, t.body)
    return out


def _uses(var: Var, term: Term) -> list[Term]:
    """The loops over a bag, and the bag itself where it stands elsewhere."""
    if var not in free(term):
        return []
    match term:
        case For(_, source, body) if source == var:
            return [term, *_uses(var, body)]
    if term == var:
        return [term]
    return [u for c in children(term) for u in _uses(var, c)]


def _read(row: Var, term: Term) -> set[Path]:
    """The paths that are read of a row."""
    path: list[str] = []
    at = term
    while isinstance(at, Field):
        path.append(at.name)
        at = at.term
    if at == row:
        return {tuple(reversed(path))}
    if row not in free(term):
        return set()
    return {p for c in children(term) for p in _read(row, c)}
