"""Degree, size and cost: what it takes to evaluate a term, and why a delta takes less.

`degree` counts how many of the given inputs are multiplied together; a delta has one less. Costs
live in a domain per type, with a cardinality at each level of nesting:

    base° = 1     {a: K, ...}° = (K°, ...)     Bag(K)° = n{K°}     numbers° = n

so {⟨Comedy, {Carnage}⟩, ⟨Animation, {Up, Shrek, Cars}⟩} has the size 2{(1, 3{1})}. Estimates are
within constant factors: a sum costs as much as its largest part. `tcost` turns a cost into a number.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.calculus.check import type_of
from headwater.calculus.ring import Value
from headwater.calculus.terms import (
    Add,
    Apply,
    Box,
    Dict,
    DictUnion,
    Field,
    Fn,
    For,
    Label,
    Let,
    Neg,
    Pointwise,
    Record,
    Rel,
    Repeat,
    Sng,
    Sum,
    Term,
    Times,
    Unbox,
    Var,
    children,
    free,
)
from headwater.calculus.types import (
    Boxed,
    FunType,
    MapType,
    ProductType,
    RecordType,
    Type,
    is_key,
    is_scalar,
)

UNBOUNDED = math.inf
"""The degree of a term that changing inputs enter other than by sums and products: no chain of deltas ends."""


@dataclass(frozen=True)
class BagCost:
    """n{c}: at most n entries, each of cost at most c."""

    count: int
    element: Cost

    def __str__(self) -> str:
        return f"{'' if self.count == 1 else self.count}{{{show_cost(self.element)}}}"


Cost: TypeAlias = int | tuple["Cost", ...] | BagCost


def show_cost(c: Cost) -> str:
    """The text of a cost: 2{(1, 3{1})}."""
    return f"({', '.join(map(show_cost, c))})" if isinstance(c, tuple) else str(c)


# --- degree -----------------------------------------------------------------------------------------


def degree(term: Term, inputs: Collection[str], known: Mapping[Var, float] | None = None) -> float:
    """How many occurrences of the given inputs are multiplied in the term's largest product."""
    known = known or {}

    def reads(t: Term) -> bool:
        return any(x.name in inputs if isinstance(x, Rel) else known.get(x) for x in free(t))

    if not reads(term):
        return 0
    match term:
        case Rel():
            return 1
        case Var():
            return known[term]
        case Add() | Record() | DictUnion() | Neg() | Sum() | Field() | Dict() | Fn():
            return max(degree(c, inputs, known) for c in children(term))
        case Times() | Pointwise() | For():
            return sum(degree(c, inputs, known) for c in children(term))
        case Sng(key, value) | Apply(value, key) if not reads(key):
            return degree(value, inputs, known)
        case Let(var, bound) if is_key(var.type) and reads(bound):
            return UNBOUNDED  # a key that changes is known only by difference
        case Let(var, bound, body):
            return degree(body, inputs, {**known, var: degree(bound, inputs, known)})
        case _:
            return UNBOUNDED


# --- the cost domain ----------------------------------------------------------------------------------


def bottom(t: Type) -> Cost:
    """1 at every level: the least cost of the type."""
    match t:
        case RecordType(fields) | ProductType(fields):
            return tuple(bottom(f) for _, f in fields)
        case Boxed(content) | FunType(_, content):
            return bottom(content)
        case MapType(key, value):
            return BagCost(1, _entry(value, bottom(key), bottom(value)))
        case _:
            return 1


def _entry(value_type: Type, key: Cost, value: Cost) -> Cost:
    """The cost of an entry: of its key, and of its value too unless that is a number."""
    return key if is_scalar(value_type) else (key, value)


def sup(a: Cost, b: Cost) -> Cost:
    """The least upper bound."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(sup(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, BagCost) and isinstance(b, BagCost):
        return BagCost(max(a.count, b.count), sup(a.element, b.element))
    assert isinstance(a, int) and isinstance(b, int)
    return max(a, b)


def at_most(a: Cost, b: Cost) -> bool:
    """a ⪯ b: no level has more."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return all(at_most(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, BagCost) and isinstance(b, BagCost):
        return a.count <= b.count and at_most(a.element, b.element)
    assert isinstance(a, int) and isinstance(b, int)
    return a <= b


def less(a: Cost, b: Cost) -> bool:
    """a ≺ b: fewer entries, and nothing inside has more."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return bool(a) and all(less(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, BagCost) and isinstance(b, BagCost):
        return a.count < b.count and at_most(a.element, b.element)
    assert isinstance(a, int) and isinstance(b, int)
    return a < b


def tcost(c: Cost) -> int:
    """The running time that a cost bounds."""
    if isinstance(c, tuple):
        return sum(map(tcost, c)) or 1
    return c.count * tcost(c.element) if isinstance(c, BagCost) else c


def size(value: Value, t: Type) -> Cost:
    """The cost of producing a value: its cardinality at each level of nesting."""
    match t:
        case RecordType(fields) | ProductType(fields) if value is not None:
            return tuple(size(v, f) for v, (_, f) in zip(value, fields, strict=True))
        case Boxed(content) if value is not None:
            return size(value, content)
        case MapType(key, ring):
            element = bottom(t).element  # type: ignore[union-attr]
            for k, v in value.items():
                element = sup(element, _entry(ring, size(k, key), size(v, ring)))
            return BagCost(max(1, sum(_weight(v) for v in value.values())), element)
        case _:
            return bottom(t)


def _weight(value: Value) -> int:
    """A row counts as often as it is repeated, inserted or deleted."""
    return abs(value) if isinstance(value, int) else 1


# --- the cost of a term ---------------------------------------------------------------------------------


def cost(term: Term, sizes: Mapping[str, Cost], known: Mapping[Var, Cost] | None = None) -> Cost:
    """An upper bound, within constant factors, on the cost of a term for inputs of the given sizes."""
    least = bottom(type_of(term))
    found = _cost(term, sizes, known or {})
    # Outside IncNRC+ a value may be made in ways that say nothing of its levels; its time is kept.
    return found if _alike(found, least) else _capped(least, tcost(found))


def _alike(a: Cost, b: Cost) -> bool:
    """Whether two costs belong to one domain."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, BagCost) and isinstance(b, BagCost):
        return _alike(a.element, b.element)
    return isinstance(a, int) and isinstance(b, int)


def _cost(term: Term, sizes: Mapping[str, Cost], known: Mapping[Var, Cost]) -> Cost:
    """The cost of each node from the costs of its parts."""

    def of(t: Term) -> Cost:
        return cost(t, sizes, known)

    match term:
        case Rel(name):
            return sizes[name]
        case Var():
            return known[term] if term in known else bottom(term.type)
        case Record(fields):
            return tuple(of(t) for _, t in fields)
        case Field(inner, name):
            c = of(inner)
            names = [n for n, _ in type_of(inner).fields]
            return c[names.index(name)] if isinstance(c, tuple) else bottom(type_of(term))
        case Sng(key, value):
            v = of(value)
            if is_scalar(type_of(value)):
                assert isinstance(v, int)
                return BagCost(v, of(key))
            return BagCost(1, (of(key), v))
        case Add(terms):
            out = of(terms[0])
            for t in terms[1:]:
                out = sup(out, of(t))
            return out
        case DictUnion(left, right):
            return sup(of(left), of(right))
        case Neg(inner):
            return of(inner)
        case Box(inner):
            return of(inner) if isinstance(type_of(term), Boxed) else 1
        case Unbox(key):
            return of(key) if isinstance(type_of(key), Boxed) else 1
        case Times(factors):
            return _product([(of(f), type_of(f)) for f in factors])
        case Pointwise(left, _):
            return of(left) if isinstance(type_of(left), MapType) else bottom(type_of(term))
        case Sum(inner):
            c = of(inner)
            assert isinstance(c, BagCost)
            return scaled(c.count, _values(c, type_of(inner)))
        case For(var, source, body):
            c = of(source)
            assert isinstance(c, BagCost)
            valued = not is_scalar(type_of(source).value)
            bound = c.element[0] if valued and isinstance(c.element, tuple) else c.element
            return scaled(c.count, cost(body, sizes, {**known, var: bound}))
        case Let(var, bound, body):
            return cost(body, sizes, {**known, var: of(bound)})
        case Repeat(var, start, step):  # of its first round; how many there are only the data say
            begun = of(start)
            return sup(begun, cost(step, sizes, {**known, var: begun}))
        case Label():
            return 1
        case Dict(_, _, body) | Fn(_, body):
            return of(body)
        case Apply(function, _):
            c = of(function)
            return _values(c, t) if isinstance(t := type_of(function), MapType) else c
        case _:
            # Answers, negation and scalars: at least all that they read is produced once.
            parts = [tcost(of(c)) for c in children(term)]
            return _capped(bottom(type_of(term)), max(parts, default=1))


def scaled(n: int, c: Cost) -> Cost:
    """n times a cost, at the outermost level."""
    if isinstance(c, BagCost):
        return BagCost(n * c.count, c.element)
    return tuple(scaled(n, x) for x in c) if isinstance(c, tuple) else n * c


def _capped(least: Cost, n: int) -> Cost:
    """The least cost of a type, with a time of n."""
    return scaled(n, least)


def _values(c: Cost, t: MapType) -> Cost:
    """The cost of the values of a map: entries are (key, value), or keys alone where values are numbers."""
    if is_scalar(t.value):
        return 1
    assert isinstance(c, BagCost) and isinstance(c.element, tuple)
    return c.element[1]


def _product(parts: list[tuple[Cost, Any]]) -> Cost:
    """Cardinalities multiply; several maps pair their keys."""
    maps = [c for c, t in parts if isinstance(t, MapType)]
    out: Cost = 1
    if len(maps) == 1:
        out = maps[0]
    elif maps:
        count = math.prod(m.count for m in maps if isinstance(m, BagCost))
        out = BagCost(count, tuple(m.element for m in maps if isinstance(m, BagCost)))
    for c, t in parts:
        if not isinstance(t, MapType):
            out = (
                scaled(c, out)
                if isinstance(c, int)
                else scaled(out, c)
                if isinstance(out, int)
                else out
            )
    return out
