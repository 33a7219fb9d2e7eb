"""Comprehension normal form: a sum of monomials.

A monomial is a chain of `for`s over atoms (inputs, inner bags, look-ups), then filters and numbers,
then one singleton or a number, negated at the outside if at all:

    -(for x in R collect for y in S collect [x.b = y.b] · unbox(y.c) · {x.a})

This is the form in which deltas are compiled: every atom is an occurrence that may change.
"""

from __future__ import annotations

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Add,
    Apply,
    Call,
    Each,
    Field,
    For,
    Let,
    Neg,
    Num,
    Pointwise,
    Pred,
    Record,
    Sng,
    Sum,
    Term,
    Times,
    Var,
    free,
    fresh,
    substitute,
)
from headwater.calculus.types import INT, FunType, MapType, ProductType, is_scalar
from headwater.rules.rewrite import Rule, Step, rewrite
from headwater.rules.simplify import SIMPLIFY


def _apart(var: Var, body: Term, other: Term) -> tuple[Var, Term]:
    """A binder renamed so that it captures nothing of another term."""
    taken = frozenset(x.name for x in free(other))
    if var.name not in taken:
        return var, body
    new = Var(fresh(var.name, taken | {x.name for x in free(body)}), var.type)
    return new, substitute(body, {var: new})


def for_for(term: For) -> Term | None:
    """for x in (for y in a collect b) collect c = for y in a collect for x in b collect c."""
    match term:
        case For(x, For(y, a, b), c) if isinstance(type_of(b), MapType):
            y, b = _apart(y, b, c)
            return For(y, a, For(x, b, c))
    return None


def for_add(term: For) -> Term | None:
    """for x in a + b collect c = (for x in a collect c) + (for x in b collect c); so for a sum as the body."""
    match term:
        case For(x, Add(terms), c):
            return Add(tuple(For(x, t, c) for t in terms))
        case For(x, a, Add(terms)):
            return Add(tuple(For(x, a, t) for t in terms))
    return None


def for_neg(term: For) -> Term | None:
    """for x in -a collect b = for x in a collect -b = -(for x in a collect b)."""
    match term:
        case For(x, Neg(a), b) | For(x, a, Neg(b)):
            return Neg(For(x, a, b))
    return None


def for_times(term: For) -> Term | None:
    """for x in p · m collect c = p · (for x in m collect c) for numbers p and one map m."""
    match term:
        case For(x, Times(factors), c):
            maps = [f for f in factors if isinstance(type_of(f), MapType)]
            rest = tuple(f for f in factors if not isinstance(type_of(f), MapType))
            if len(maps) == 1 and all(is_scalar(type_of(f)) for f in rest):
                return Times((*rest, For(x, maps[0], c)))
    return None


def for_let(term: For) -> Term | None:
    """for x in (let X := a in b) collect c = let X := a in for x in b collect c."""
    match term:
        case For(x, Let(var, bound, body), c):
            var, body = _apart(var, body, c)
            return Let(var, bound, For(x, body, c))
    return None


def for_each(term: For) -> Term | None:
    """for x in (each k ↦ v in m collect b) collect c = each k ↦ v in m collect for x in b collect c."""
    match term:
        case For(x, Each(k, v, m, b), c):
            k, b = _apart(k, b, c)
            v, b = _apart(v, b, c)
            return Each(k, v, m, For(x, b, c))
    return None


def times_for(term: Times) -> Term | None:
    """p · (for x in a collect b) = for x in a collect p · b for numbers p."""
    match term:
        case Times(factors):
            for i, f in enumerate(factors):
                rest = (*factors[:i], *factors[i + 1 :])
                if isinstance(f, For) and rest and all(is_scalar(type_of(t)) for t in rest):
                    x, body = _apart(f.var, f.body, Times(rest))
                    return For(x, f.source, Times((*rest, body)))
    return None


def times_add(term: Times) -> Term | None:
    """a · (b + c) = a · b + a · c."""
    match term:
        case Times(factors):
            for i, f in enumerate(factors):
                if isinstance(f, Add):
                    return Add(tuple(Times((*factors[:i], t, *factors[i + 1 :])) for t in f.terms))
    return None


def times_maps(term: Times) -> Term | None:
    """a · b = for x in a collect for y in b collect {⟨x, y⟩}, for maps a and b."""
    match term:
        case Times(factors) if sum(isinstance(type_of(f), MapType) for f in factors) > 1 and all(
            is_scalar(t.value) for f in factors if isinstance(t := type_of(f), MapType)
        ):
            taken = frozenset(x.name for x in free(term))
            atoms: list[tuple[Var, Term]] = []
            for f in factors:
                if isinstance(t := type_of(f), MapType):
                    x = Var(fresh("x", taken), t.key)
                    taken |= {x.name}
                    atoms.append((x, f))
            pair = Record(tuple((f"_{i + 1}", x) for i, (x, _) in enumerate(atoms)))
            rest = tuple(f for f in factors if not isinstance(type_of(f), MapType))
            body: Term = Times((*rest, Sng(pair, Num(1, INT))))
            for x, f in reversed(atoms):
                body = For(x, f, body)
            return body
    return None


def pointwise_for(term: Pointwise) -> Term | None:
    """a * b = for x in a collect {x ↦ b @ x}, with a the finite side."""
    a, b = term.left, term.right
    if isinstance(type_of(a), FunType):
        a, b = b, a
    if isinstance(type_of(a).value, MapType):
        return None
    x = Var(fresh("x", frozenset(v.name for v in free(b))), type_of(a).key)
    return For(x, a, Sng(x, Apply(b, x)))


def neg_add(term: Neg) -> Term | None:
    """-(a + b) = -a + -b."""
    match term:
        case Neg(Add(terms)):
            return Add(tuple(Neg(t) for t in terms))
    return None


def sum_linear(term: Sum) -> Term | None:
    """sum distributes over +, -, numbers, for and each."""
    match term:
        case Sum(Add(terms)):
            return Add(tuple(Sum(t) for t in terms))
        case Sum(Neg(a)):
            return Neg(Sum(a))
        case Sum(For(x, a, b)) if isinstance(type_of(b), MapType):
            return For(x, a, Sum(b))
        case Sum(Each(k, v, m, b)):
            return Each(k, v, m, Sum(b))
        case Sum(Times(factors)):
            maps = [f for f in factors if isinstance(type_of(f), MapType)]
            rest = tuple(f for f in factors if not isinstance(type_of(f), MapType))
            if len(maps) == 1:
                return Times((*rest, Sum(maps[0])))
    return None


def field_linear(term: Field) -> Term | None:
    """r.a is linear in r: sums, signs, numbers, for and each come out of it."""
    match term:
        case Field(Add(terms), name):
            return Add(tuple(Field(t, name) for t in terms))
        case Field(Neg(r), name):
            return Neg(Field(r, name))
        case Field(For(x, a, b), name) if is_scalar(type_of(a).value):
            return For(x, a, Field(b, name))
        case Field(Each(k, v, m, b), name):
            return Each(k, v, m, Field(b, name))
        case Field(Times(factors), name):
            products = [f for f in factors if isinstance(type_of(f), ProductType)]
            rest = tuple(f for f in factors if not isinstance(type_of(f), ProductType))
            if len(products) == 1:
                return Times((*rest, Field(products[0], name)))
    return None


def sng_linear(term: Sng) -> Term | None:
    """{e ↦ r} is linear in r: sums, signs, filters and for come out of it."""
    match term:
        case Sng(key, Add(terms)):
            return Add(tuple(Sng(key, t) for t in terms))
        case Sng(key, Neg(r)):
            return Neg(Sng(key, r))
        case Sng(key, For(x, a, b)) if not isinstance(type_of(a).value, MapType):
            x, b = _apart(x, b, key)
            return For(x, a, Sng(key, b))
        case Sng(key, Times(factors)) if any(isinstance(f, Pred) for f in factors):
            filters = tuple(f for f in factors if isinstance(f, Pred))
            rest = tuple(f for f in factors if not isinstance(f, Pred)) or (Num(1, INT),)
            return Times((*filters, Sng(key, Times(rest))))
        case Sng(key, Pred() as p):
            return Times((p, Sng(key, Num(1, INT))))
    return None


def pred_and(term: Pred) -> Term | None:
    """[a and b] = [a] · [b]."""
    match term:
        case Pred(Call("and", args)):
            return Times(tuple(Pred(a) for a in args))
    return None


NORMALIZE: tuple[Rule, ...] = (
    for_add,
    for_neg,
    for_for,
    for_times,
    for_let,
    for_each,
    times_add,
    times_maps,
    times_for,
    pointwise_for,
    neg_add,
    sum_linear,
    field_linear,
    sng_linear,
    pred_and,
)
ALL: tuple[Rule, ...] = (*SIMPLIFY, *NORMALIZE)


def normalize(term: Term, trace: list[Step] | None = None) -> Term:
    """The term in comprehension normal form."""
    return rewrite(term, ALL, trace=trace)
