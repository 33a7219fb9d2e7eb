"""Values of the calculus, and the ring operations on them.

A key is a Python scalar, a tuple (a record), a `LabelValue`, or a `RingMap` (a boxed map). A ring
value is a number, a tuple of ring values (a product), a `RingMap` from keys to non-zero ring values,
or a `Function`. Maps add key by key, numbers scale maps, maps
pair their keys. A `Dictionary` is a function of labels that also knows which labels it defines, so
that a label of the empty bag and an undefined label stay different.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, NamedTuple, TypeAlias

from headwater.calculus.dyadic import Dyadic
from headwater.calculus.types import (
    DyadicType,
    Exact,
    FunType,
    IntType,
    MapType,
    ProductType,
    RealType,
    Type,
)
from headwater.errors import InconsistentShredding, LabelConflict, NotInterpretable

Value: TypeAlias = Any

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
"""Decimals of the calculus are exact: more digits than any sum of them has."""


class RingMap(dict[Any, Any]):
    """A map from keys to non-zero ring values; hashable, so that it can be boxed, and never mutated."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{k!r} ↦ {v!r}" for k, v in self.items()) + "}"


class LabelValue(NamedTuple):
    """A label: its static index and the values that determine the bag it names."""

    index: str  # type: ignore[assignment]  # hides tuple.index, which labels have no use for
    args: tuple[Any, ...]


class Function:
    """A function of keys or of ring values."""

    def __init__(self, apply: Callable[[Value], Value]):
        self.apply = apply

    def __call__(self, argument: Value) -> Value:
        return self.apply(argument)


class Dictionary(Function):
    """A function of labels with a support: outside it a label is undefined, and applying it gives zero."""

    def __init__(self, apply: Callable[[Value], Value], defines: Callable[[Value], bool]):
        super().__init__(apply)
        self.defines = defines

    @staticmethod
    def of(entries: Mapping[LabelValue, Value], zero: Value) -> Dictionary:
        """A materialised dictionary; an entry may be zero and still define its label."""
        return FiniteDictionary(dict(entries), zero)


class FiniteDictionary(Dictionary):
    """A dictionary given by its entries."""

    def __init__(self, entries: dict[LabelValue, Value], zero: Value):
        super().__init__(lambda label: entries.get(label, zero), lambda label: label in entries)
        self.entries, self.zero = entries, zero

    def __repr__(self) -> str:
        return f"[{', '.join(f'{k} ↦ {v}' for k, v in self.entries.items())}]"


def bag(rows: Iterable[Any]) -> RingMap:
    """The bag of the given rows."""
    return collect((row, 1) for row in rows)


def collect(entries: Iterable[tuple[Any, Value]]) -> RingMap:
    """The map with the given entries, added up where a key repeats."""
    out: dict[Any, Value] = {}
    for key, value in entries:
        out[key] = add(out[key], value) if key in out else value
    return RingMap({k: v for k, v in out.items() if not is_zero(v)})


def elements(value: RingMap) -> list[Any]:
    """The rows of a bag, repeated by multiplicity; negative multiplicities have no rows."""
    return [k for k, n in value.items() for _ in range(n)]


def number(value: Any) -> Any:
    """A float with the one NaN and no negative zero, so that equal keys are equal in Python too."""
    if isinstance(value, float):
        return math.nan if value != value else value + 0.0
    return value


def zero(t: Type) -> Value:
    """0 of a ring type."""
    match t:
        case IntType():
            return 0
        case RealType():
            return 0.0
        case DyadicType():
            return Dyadic()
        case Exact(scale):
            return Decimal(0).scaleb(-scale)
        case ProductType(fields):
            return tuple(zero(f) for _, f in fields)
        case MapType():
            return RingMap()
        case FunType(_, result):
            nothing = zero(result)
            return Dictionary(lambda _: nothing, lambda _: False)
        case _:
            raise NotInterpretable(f"{t} is not a ring type and has no zero")


def is_zero(value: Value) -> bool:
    """Whether a ring value is zero; a function is not known to be."""
    if isinstance(value, RingMap):
        return not value
    if isinstance(value, tuple):
        return all(is_zero(v) for v in value)
    if isinstance(value, Dyadic):
        return value == Dyadic()
    return not isinstance(value, Function) and bool(value == 0)


def add(a: Value, b: Value) -> Value:
    """a + b."""
    if isinstance(a, RingMap):
        small, large = (a, b) if len(a) <= len(b) else (b, a)
        out = dict(large)
        for key, value in small.items():
            total = add(out[key], value) if key in out else value
            if is_zero(total):
                out.pop(key, None)
            else:
                out[key] = total
        return RingMap(out)
    if isinstance(a, tuple):
        return tuple(add(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Dictionary) and isinstance(b, Dictionary):
        return Dictionary(lambda x: add(a(x), b(x)), lambda x: a.defines(x) or b.defines(x))
    if isinstance(a, Function):
        return Function(lambda x: add(a(x), b(x)))
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return EXACT.add(Decimal(a), Decimal(b))
    return number(a + b)


def neg(a: Value) -> Value:
    """-a."""
    if isinstance(a, RingMap):
        return RingMap({k: neg(v) for k, v in a.items()})
    if isinstance(a, tuple):
        return tuple(neg(v) for v in a)
    if isinstance(a, Dictionary):
        return Dictionary(lambda x: neg(a(x)), a.defines)
    if isinstance(a, Function):
        return Function(lambda x: neg(a(x)))
    return number(-a)


def scale(a: Value, b: Value) -> Value:
    """a · b where at most one of the two is a map; products multiply component-wise."""
    if isinstance(a, RingMap):
        return collect((k, scale(v, b)) for k, v in a.items())
    if isinstance(b, RingMap):
        return collect((k, scale(a, v)) for k, v in b.items())
    if isinstance(a, Dictionary):
        return Dictionary(lambda x: times((a(x), b)), a.defines)
    if isinstance(a, Function):
        return Function(lambda x: times((a(x), b)))
    if isinstance(b, Function):
        return scale(b, a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(times(pair) for pair in zip(a, b, strict=True))
    if isinstance(a, tuple):
        return tuple(scale(x, b) for x in a)
    if isinstance(b, tuple):
        return tuple(scale(a, y) for y in b)
    if isinstance(a, float) or isinstance(b, float):
        return number(float(a) * float(b))
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return EXACT.multiply(Decimal(a), Decimal(b))
    return a * b


def times(factors: tuple[Value, ...]) -> Value:
    """a · b · ...: several maps pair their keys into one tuple; everything else scales."""
    maps = [f for f in factors if isinstance(f, RingMap)]
    out: Value = maps[0] if len(maps) == 1 else None
    if len(maps) > 1:
        entries: list[tuple[tuple[Any, ...], Value]] = [((), 1)]
        for m in maps:
            entries = [((*k, k2), times((v, v2))) for k, v in entries for k2, v2 in m.items()]
        out = collect(entries)
    for f in factors:
        if not isinstance(f, RingMap):
            out = f if out is None else scale(f, out)
    return out


def pointwise(a: Value, b: Value) -> Value:
    """a * b: the product at each key; one side may be a function of keys."""
    if not isinstance(a, RingMap):
        return collect((k, times((apply(a, k), v))) for k, v in b.items())
    return collect((k, times((v, apply(b, k)))) for k, v in a.items() if not _absent(b, k))


def _absent(m: Value, key: Any) -> bool:
    return isinstance(m, RingMap) and key not in m


def apply(f: Value, argument: Any, otherwise: Value = 0) -> Value:
    """f at an argument; `otherwise` is the zero of a map that has no such key."""
    return f.get(argument, otherwise) if isinstance(f, RingMap) else f(argument)


def total(m: RingMap, nothing: Value) -> Value:
    """The sum of a map's values."""
    out = nothing
    for value in m.values():
        out = add(out, value)
    return out


def union(a: Dictionary, b: Dictionary) -> Dictionary:
    """d ∪ e: defined where either is, and the same where both are, else `LabelConflict`."""

    def lookup(label: Value) -> Value:
        if not defines(b, label):
            return a(label)
        right = b(label)
        if defines(a, label) and a(label) != right:
            raise LabelConflict(
                f"label {label} has two definitions: {a(label)!r} and {right!r}",
                hint="labels in both dictionaries must agree; use + to change a definition",
            )
        return right

    if isinstance(a, FiniteDictionary) and isinstance(b, FiniteDictionary):
        # Entries are at hand, so the conflict is reported now and not at some later look-up.
        return FiniteDictionary({x: lookup(x) for x in (*a.entries, *b.entries)}, a.zero)
    return Dictionary(lookup, lambda x: defines(a, x) or defines(b, x))


def defines(d: Value, label: Value) -> bool:
    """Whether a dictionary defines a label; a plain function of labels defines all of them."""
    return not isinstance(d, Dictionary) or d.defines(label)


def define(d: Value, label: Value) -> Value:
    """The definition of a label, which must be in the dictionary's support."""
    if not defines(d, label):
        raise InconsistentShredding(f"label {label} has no definition")
    return apply(d, label)
