"""Merge monoids: how the state of a query on old data combines with its value on new data.

A term f is a homomorphism with merge ⊗ when f(S ⊎ S') = f(S) ⊗ f(S'). Each monoid has three
operations: `merge`; `diminish`, its inverse for deletions, so that (x ⊗ y) ⊖ y = x; and `diffuse`,
which keeps of x ⊗ y only what y touches, so that x ⊗ diffuse(x, y) = x ⊗ (x ⊗ y) for idempotent ⊗.

`infer` finds the monoid of a term from those of its parts, like a type. A join of two changing inputs is a
homomorphism only when its keys are in the output and one side is □: it has one row a key, and every batch that
touches the key brings that same row. `Inference.assumes` says where that was assumed; where it does not hold the
state is maintained by deltas, which assume nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.calculus import ring
from headwater.calculus.check import type_of
from headwater.calculus.ring import RingMap, Value
from headwater.calculus.scalars import order
from headwater.calculus.terms import (
    Add,
    Apply,
    Dict,
    Field,
    For,
    Let,
    Neg,
    Record,
    Rel,
    Sng,
    Sum,
    Term,
    Times,
    Var,
    free,
    variables,
)
from headwater.calculus.types import INT, FunType, MapType, ProductType, Type, is_key
from headwater.errors import NotDiminishable, NotHomomorphic
from headwater.rules.monomial import monomial


@dataclass(frozen=True)
class Plus:
    """(+): numbers add."""

    def __str__(self) -> str:
        return "+"


@dataclass(frozen=True)
class BagUnion:
    """⊎: multiplicities add."""

    def __str__(self) -> str:
        return "⊎"


@dataclass(frozen=True)
class Invariant:
    """□: both sides are the same, or it is an error."""

    def __str__(self) -> str:
        return "□"


@dataclass(frozen=True)
class Extreme:
    """min or max: what was taken over cannot be given back, so there is no diminisher."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Parts:
    """⊕ × ⊗: component by component."""

    of: tuple[Monoid, ...]

    def __str__(self) -> str:
        return "(" + " × ".join(map(str, self.of)) + ")"


@dataclass(frozen=True)
class OuterJoin:
    """↑⊕: the full outer join of two maps, combining values of the same key with ⊕."""

    values: Monoid

    def __str__(self) -> str:
        return f"↑{self.values}"


Monoid: TypeAlias = Plus | BagUnion | Invariant | Extreme | Parts | OuterJoin


def monoid_of(t: Type) -> Monoid:
    """The additive monoid of a ring type."""
    match t:
        case MapType(_, value):
            return BagUnion() if value == INT else OuterJoin(monoid_of(value))
        case ProductType(fields):
            return Parts(tuple(monoid_of(f) for _, f in fields))
        case FunType(_, result):
            return OuterJoin(monoid_of(result))
        case _:
            return Invariant() if is_key(t) else Plus()


def merge(m: Monoid, x: Value, y: Value) -> Value:
    """x ⊗ y."""
    match m:
        case Plus() | BagUnion():
            return ring.add(x, y)
        case Invariant():
            if x != y:
                raise NotHomomorphic(f"a value said to stay the same changed from {x!r} to {y!r}")
            return x
        case Extreme(name):
            present = [v for v in (x, y) if v is not None]
            return (min if name == "min" else max)(present, key=order, default=None)
        case Parts(of):
            return tuple(merge(p, a, b) for p, a, b in zip(of, x, y, strict=True))
        case OuterJoin(values):
            both = {k: merge(values, a, y[k]) if k in y else a for k, a in x.items()}
            return _kept(values, {**both, **{k: b for k, b in y.items() if k not in x}})


def diminish(m: Monoid, x: Value, y: Value) -> Value:
    """x ⊖ y, the inverse of merge: for a map a left outer join that drops what becomes nothing.

    What y has alone cannot come from a state that y is part of; it is owed, so that the law holds for
    values with negative multiplicities too.
    """
    match m:
        case Plus() | BagUnion():
            return ring.add(x, ring.neg(y))
        case Invariant():
            return merge(m, x, y)
        case Extreme():
            return inverse(m, y)
        case Parts(of):
            return tuple(diminish(p, a, b) for p, a, b in zip(of, x, y, strict=True))
        case OuterJoin(values):
            left = {k: diminish(values, a, y[k]) if k in y else a for k, a in x.items()}
            owed = {k: inverse(values, b) for k, b in y.items() if k not in x}
            return _kept(values, {**left, **owed})


def inverse(m: Monoid, x: Value) -> Value:
    """The value that merges with x to nothing."""
    match m:
        case Plus() | BagUnion():
            return ring.neg(x)
        case Parts(of):
            return tuple(inverse(p, a) for p, a in zip(of, x, strict=True))
        case OuterJoin(values):
            return RingMap({k: inverse(values, a) for k, a in x.items()})
        case Invariant():
            return x
        case Extreme(name):
            raise NotDiminishable(
                f"{name} has no inverse", hint="keep the group's contents and answer from them"
            )


def diffuse(m: Monoid, x: Value, y: Value) -> Value:
    """The part of x ⊗ y that y touches: for a map a right outer join."""
    match m:
        case Parts(of):
            return tuple(diffuse(p, a, b) for p, a, b in zip(of, x, y, strict=True))
        case OuterJoin(values):
            return _kept(values, {k: merge(values, x[k], b) if k in x else b for k, b in y.items()})
        case _:
            return merge(m, x, y)


def is_nothing(m: Monoid, value: Value) -> bool:
    """Whether a value is the monoid's zero, so that a map has no entry for it."""
    match m:
        case Extreme():
            return value is None
        case Invariant():
            return True  # it says nothing by itself: the parts beside it decide
        case Parts(of):
            return all(is_nothing(p, v) for p, v in zip(of, value, strict=True))
        case _:
            return ring.is_zero(value)


def _kept(values: Monoid, entries: dict[Any, Value]) -> RingMap:
    return RingMap({k: v for k, v in entries.items() if not is_nothing(values, v)})


# --- inference ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inference:
    """A merge monoid, and what was assumed of joins for it to hold."""

    monoid: Monoid
    assumes: tuple[str, ...] = ()


def infer(
    term: Term, changing: Collection[str], known: Mapping[Var, Monoid] | None = None
) -> Inference:
    """The merge of a term when the named inputs grow; `NotHomomorphic` where there is none."""
    known = known or {}
    if not _changes(term, changing, known):
        return Inference(Invariant())

    def of(t: Term) -> Inference:
        return infer(t, changing, known)

    match term:
        case Rel() | Var():
            found = known.get(term) if isinstance(term, Var) else None
            return Inference(found or monoid_of(term.type))
        case Neg(part):
            return of(part)
        case Field(part, name):
            inner = of(part)
            names = [n for n, _ in type_of(part).fields]
            component = _component(inner.monoid, names.index(name), type_of(term))
            return Inference(component, inner.assumes)
        case Sum(part):
            inner = of(part)
            return Inference(_values(inner.monoid, term), inner.assumes)
        case Apply(function, argument) if not _changes(argument, changing, known):
            inner = of(function)
            return Inference(_values(inner.monoid, term), inner.assumes)
        case Add(terms):
            parts = [of(t) for t in terms]
            for t, p in zip(terms, parts, strict=True):
                if _says_same(p.monoid):
                    raise NotHomomorphic(
                        f"`{t}` stays the same, and would be added again each time"
                    )
            return Inference(monoid_of(type_of(term)), _all_assumed(parts))
        case Record(fields):
            parts = [of(t) for _, t in fields]
            return Inference(Parts(tuple(p.monoid for p in parts)), _all_assumed(parts))
        case Sng(key, value) if not _changes(key, changing, known):
            inner = of(value)
            if inner.monoid == Invariant():
                return inner
            if inner.monoid == Plus() and type_of(value) == INT:
                return Inference(BagUnion(), inner.assumes)
            return Inference(OuterJoin(inner.monoid), inner.assumes)
        case Let(var, bound, body):
            b = of(bound)
            inner = infer(body, changing, {**known, var: b.monoid})
            return Inference(inner.monoid, b.assumes + inner.assumes)
        case Dict(_, _, body):
            inner = of(body)
            return Inference(OuterJoin(inner.monoid), inner.assumes)
        case Times() | For():
            return _comprehension(term, changing, known)
        case _:
            raise NotHomomorphic(
                f"`{term}` is not linear in what changes", hint="it belongs to the answer function"
            )


def _says_same(m: Monoid) -> bool:
    """Whether some part of the values stays the same, so that they cannot be added up."""
    match m:
        case Invariant():
            return True
        case Parts(of):
            return any(_says_same(p) for p in of)
        case OuterJoin(values):
            return _says_same(values)
        case _:
            return False


def _component(m: Monoid, place: int, t: Type) -> Monoid:
    """The monoid of one component of a product."""
    return m.of[place] if isinstance(m, Parts) else m if m == Invariant() else monoid_of(t)


def _values(m: Monoid, term: Term) -> Monoid:
    """The monoid of a map's values, at a key or in all."""
    match m:
        case OuterJoin(values):
            return values
        case BagUnion():
            return Plus()
        case Invariant():
            return m
        case _:
            raise NotHomomorphic(f"`{term}` is not linear in what changes")


def _changes(term: Term, changing: Collection[str], known: Mapping[Var, Monoid]) -> bool:
    return any(
        x.name in changing if isinstance(x, Rel) else known.get(x, Invariant()) != Invariant()
        for x in free(term)
    )


def _all_assumed(parts: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(a for p in parts for a in p.assumes))


def _comprehension(term: Term, changing: Collection[str], known: Mapping[Var, Monoid]) -> Inference:
    """One changing part: its sum is the merge. Several: a join, which needs its keys in the output."""
    m = monomial(term)
    parts = [s for _, s in m.atoms] + [*m.factors, m.output]
    found = [(p, infer(p, changing, known)) for p in parts if _changes(p, changing, known)]
    found = [(p, i) for p, i in found if i.monoid != Invariant()]
    moving, inner = [p for p, _ in found], [i for _, i in found]
    if not moving:
        return Inference(Invariant())
    if any(_says_same(i.monoid) for i in inner):
        raise NotHomomorphic(f"`{term}` multiplies something that in part stays the same")
    if len(moving) == 1:
        if moving[0] is m.output and isinstance(m.output, Sng):
            return Inference(inner[0].monoid, inner[0].assumes)
        return Inference(monoid_of(type_of(term)), inner[0].assumes)
    keys = _parts(m.output.key) if isinstance(m.output, Sng) else set()
    joins = [(a, b) for a, b in m.joins() if a in keys or b in keys]
    linked = {v for a, b in joins for v in variables(a) | variables(b)}
    atoms = [v for v, s in m.atoms if _changes(s, changing, known)]
    if len(atoms) < len(moving) or not all(v in linked for v in atoms):
        raise NotHomomorphic(
            f"`{term}` joins changing inputs and does not keep the join keys",
            hint="trace the lineage: add the join keys to the output",
        )
    assumed = tuple(f"one side of {a} = {b} has one row a key, in every batch" for a, b in joins)
    return Inference(monoid_of(type_of(term)), (*_all_assumed(inner), *assumed))


def _parts(key: Term) -> set[Term]:
    """The key, and the fields of it to any depth."""
    if isinstance(key, Record):
        return {key}.union(*(_parts(t) for _, t in key.fields))
    return {key}
