"""The types of the calculus: what may be a key, and what may be a ring value.

Everything kept is a map from keys to ring values, so types come in two modes. *Key types* can
only be compared; *ring types* have 0, +, - and a product. A bag is the map `K -> Int`; boxing
turns a ring value into a key, which is how one bag sits inside another. Function types are the
infinite maps: they can be applied and added but not iterated over.

    K ::= base | {a: K, ...} | Label | [R] | list(K)
    R ::= Int | Real | Dyadic | Exact(s) | ⟨a: R, ...⟩ | K -> R | K => R | R => R
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias


def field_name(name: str) -> str:
    """The name of a field as it is written: in backticks unless it is plain."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    return name if plain else "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Base:
    """A scalar type of Spark SQL; NULL is a value of each."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name


@dataclass(frozen=True)
class RecordType:
    """{a: K, ...}: named components; the empty record is the unit type."""

    fields: tuple[tuple[str, KeyType], ...] = ()

    def __str__(self) -> str:
        return "{" + ", ".join(f"{field_name(n)}: {t}" for n, t in self.fields) + "}"


@dataclass(frozen=True)
class LabelType:
    """The name of an inner bag: a static index and the values that determine the bag."""

    def __str__(self) -> str:
        return "Label"


@dataclass(frozen=True)
class Boxed:
    """[R]: a ring value seen as a key, such as the inner bag of a nested row."""

    content: RingType

    def __str__(self) -> str:
        return f"[{self.content}]"


@dataclass(frozen=True)
class ListType:
    """list(K): an array that is only a value; its elements have places, which those of a bag have not."""

    element: KeyType

    def __str__(self) -> str:
        return f"list({self.element})"


@dataclass(frozen=True)
class IntType:
    """The integers."""

    def __str__(self) -> str:
        return "Int"


@dataclass(frozen=True)
class RealType:
    """Double-precision reals."""

    def __str__(self) -> str:
        return "Real"


@dataclass(frozen=True)
class DyadicType:
    """Sums of numbers that are never rounded; only whole numbers multiply them."""

    def __str__(self) -> str:
        return "Dyadic"


@dataclass(frozen=True)
class Exact:
    """Exact decimals with a fixed scale."""

    scale: int

    def __str__(self) -> str:
        return f"Exact({self.scale})"


@dataclass(frozen=True)
class ProductType:
    """⟨a: R, ...⟩: a product of rings, component-wise."""

    fields: tuple[tuple[str, RingType], ...]

    def __str__(self) -> str:
        return "⟨" + ", ".join(f"{field_name(n)}: {t}" for n, t in self.fields) + "⟩"


@dataclass(frozen=True)
class MapType:
    """K -> R: a map that is zero at all but finitely many keys."""

    key: KeyType
    value: RingType

    def __str__(self) -> str:
        if self.value == INT:
            return f"Bag({self.key})"
        return f"{self.key} -> {self.value}"


@dataclass(frozen=True)
class FunType:
    """A => R: a function of a key or of a ring value; with keys, an infinite map."""

    argument: Type
    result: RingType

    def __str__(self) -> str:
        return f"({self.argument} => {self.result})"


KeyType: TypeAlias = Base | RecordType | LabelType | Boxed | ListType
RingType: TypeAlias = IntType | RealType | DyadicType | Exact | ProductType | MapType | FunType
Type: TypeAlias = KeyType | RingType

UNIT = RecordType()
LABEL = LabelType()
INT = IntType()
REAL = RealType()
DYADIC = DyadicType()

BOOLEAN, STRING, BINARY = Base("boolean"), Base("string"), Base("binary")
TINYINT, SMALLINT, INTEGER, BIGINT = (Base(n) for n in ("tinyint", "smallint", "int", "bigint"))
FLOAT, DOUBLE = Base("float"), Base("double")
DATE, TIMESTAMP, TIMESTAMP_NTZ = Base("date"), Base("timestamp"), Base("timestamp_ntz")
EXACTLY = Base("dyadic")
"""A number as a summand that is not rounded: the boxed Dyadic, which is in no column."""
VOID = Base("void")
"""The type of a bare NULL, which has every other base type as a common type."""

INTEGRAL = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Bits of each integer type."""


def decimal(precision: int, scale: int) -> Base:
    """decimal(p, s)."""
    return Base("decimal", precision, scale)


def bag(key: KeyType) -> MapType:
    """Bag(K) = K -> Int."""
    return MapType(key, INT)


def record(**fields: KeyType) -> RecordType:
    """A record type from keyword arguments."""
    return RecordType(tuple(fields.items()))


def is_key(t: Type) -> bool:
    """Whether values of the type can be keys."""
    return isinstance(t, (Base, RecordType, LabelType, Boxed, ListType))


def is_scalar(t: Type) -> bool:
    """Whether the type is a ring of numbers."""
    return isinstance(t, (IntType, RealType, DyadicType, Exact))


def is_numeric(t: Type) -> bool:
    """Whether the type is a base type of numbers."""
    return isinstance(t, Base) and (t.name in INTEGRAL or t.name in ("float", "double", "decimal"))


def has_box(t: Type) -> bool:
    """Whether a boxed ring value sits anywhere inside the type."""
    match t:
        case Boxed():
            return True
        case ListType(element):
            return has_box(element)
        case RecordType(fields) | ProductType(fields):
            return any(has_box(f) for _, f in fields)
        case MapType(key, value):
            return has_box(key) or has_box(value)
        case FunType(argument, result):
            return has_box(argument) or has_box(result)
        case _:
            return False


def field_names(t: Type) -> list[str]:
    """The names of the fields of a type, at all depths."""
    match t:
        case RecordType(fields):
            return [x for n, f in fields for x in (n, *field_names(f))]
        case Boxed(MapType(inner, _)) | ListType(inner) | MapType(inner, _):
            return field_names(inner)
        case _:
            return []


def is_finite(t: Type) -> bool:
    """Whether values of the type can be written out: no function is inside."""
    match t:
        case FunType():
            return False
        case RecordType(fields) | ProductType(fields):
            return all(is_finite(f) for _, f in fields)
        case MapType(key, value):
            return is_finite(key) and is_finite(value)
        case Boxed(content):
            return is_finite(content)
        case _:
            return True


def unboxed(t: KeyType) -> RingType | None:
    """The ring that a key of this type stands for: `bigint` is Int, `[R]` is R, a list the bag of its elements."""
    match t:
        case Boxed(content):
            return content
        case ListType(element):
            return bag(element)
        case Base(name) if name in INTEGRAL:
            return INT
        case Base("float" | "double"):
            return REAL
        case Base("dyadic"):
            return DYADIC
        case Base("decimal"):
            return Exact(t.scale)
        case _:
            return None


def boxed(t: RingType) -> KeyType:
    """The key type of a ring's values: a number boxed is that number."""
    match t:
        case IntType():
            return BIGINT
        case RealType():
            return DOUBLE
        case DyadicType():
            return EXACTLY
        case Exact(scale):
            return decimal(38, scale)
        case _:
            return Boxed(t)
