"""Random types, and values of a type: databases and changes for the property tests.

A generator asks `pick(n)` for each choice and gets a number below n; Hypothesis answers it in
`strategies`, and `random.Random(seed).randrange` where a test wants the same few databases each time.
The simplest choice is always number 0, so that failures shrink. Values come from small pools, so that
joins hit; NULLs are among them, and multiplicities are negative as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from headwater.calculus import ring
from headwater.calculus.ring import LabelValue, RingMap, Value
from headwater.calculus.terms import change_name
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    REAL,
    STRING,
    UNIT,
    Base,
    Boxed,
    Exact,
    FunType,
    IntType,
    KeyType,
    LabelType,
    MapType,
    ProductType,
    RealType,
    RecordType,
    RingType,
    Type,
    bag,
    decimal,
)

Pick = Callable[[int], int]
Inputs = Mapping[str, RingType]
Database = dict[str, Value]


# --- types -----------------------------------------------------------------------------------------

BASES = (BIGINT, STRING, BOOLEAN, DOUBLE, decimal(10, 2))
NAMES = ("a", "b", "c")


class Types:
    """Draws types over a few base types; the fewer there are, the more often two rows can be compared."""

    def __init__(self, pick: Pick, bases: tuple[Base, ...] = BASES):
        self.pick, self.bases = pick, bases

    def base(self) -> Base:
        return self.bases[self.pick(len(self.bases))]

    def flat(self) -> RecordType:
        """A record of base types."""
        return RecordType(tuple((n, self.base()) for n in NAMES[: 1 + self.pick(3)]))

    def nested(self) -> RecordType:
        """A record with a bag in its last field."""
        return RecordType((*self.flat().fields[:2], ("c", Boxed(bag(self.flat())))))

    def row(self, nested: bool = True) -> KeyType:
        """The type of a bag's rows: mostly flat records, some with an inner bag, a few scalars."""
        match self.pick(16):
            case 10 | 11 | 12 | 13 if nested:
                return self.nested()
            case 14:
                return self.base()
            case 15:
                return UNIT
            case _:
                return self.flat()

    def number(self) -> RingType:
        return (INT, Exact(2), REAL)[self.pick(3)]

    def product(self) -> ProductType:
        """A product of rings of numbers."""
        return ProductType(tuple((n, self.number()) for n in ("n", "s")[: 1 + self.pick(2)]))

    def ring(self) -> RingType:
        """Any finite ring: bags first, then numbers, maps to them, products."""
        match self.pick(12):
            case 5 | 6:
                return (INT, INT, REAL, Exact(1), Exact(2))[self.pick(5)]
            case 7:
                return MapType(self.row(), (Exact(2), REAL)[self.pick(2)])
            case 8:
                return self.product()
            case 9:
                return MapType(self.row(False), self.product())
            case 10:
                return MapType(self.row(False), bag(self.flat()))
            case 11:
                return ProductType((("n", INT), ("rows", bag(self.flat()))))
            case _:
                return bag(self.row())

    def function(self) -> FunType:
        """A function of keys or of ring values."""
        return FunType(self.row() if self.pick(2) else self.ring(), self.ring())

    def inputs(self) -> dict[str, MapType]:
        """One to three inputs R, S, T; often with the same rows, so that they can be added."""
        first = bag(self.row())
        out = {"R": first}
        for name in ("S", "T")[: self.pick(3)]:
            out[name] = (first, bag(self.row()), bag(self.nested()))[self.pick(3)]
        return out


# --- values ----------------------------------------------------------------------------------------

VALUES: dict[str, tuple[Any, ...]] = {
    "bigint": (0, 1, 2, 0, 1, 2, -1, None),
    "string": ("x", "y", "x", "y", "x", "", None),
    "boolean": (False, True, False, True, False, True, None),
    "double": (0.0, 0.5, 1.0, 0.0, 0.5, 1.0, -1.5, None),
    "date": (date(2024, 2, 29), date(2024, 3, 1), date(2023, 12, 31), None),
    "timestamp": (datetime(2024, 2, 29), datetime(2024, 2, 29, 12, 30), None),
    "decimal": (*map(Decimal, ("0.00", "0.50", "1.25", "0.00", "0.50", "-1.00")), None),
}
VALUES |= {name: VALUES["bigint"] for name in ("tinyint", "smallint", "int")}
VALUES |= {"float": VALUES["double"], "timestamp_ntz": VALUES["timestamp"], "void": (None,)}
MULTIPLICITIES = (1, 2, -1, 3, -2)
NUMBERS: dict[type, tuple[Any, ...]] = {
    IntType: MULTIPLICITIES,
    RealType: (1.0, 0.5, -1.0, 2.0, -0.5),
    Exact: (Decimal(1), Decimal(2), Decimal(-1), Decimal("0.5"), Decimal("-1.5")),
}


def value(t: Type, pick: Pick, rows: int = 5) -> Value:
    """A value of a type: maps of at most so many rows, fewer inside boxes; no number is zero."""
    match t:
        case Base(name):
            pool = VALUES[name]
            return pool[pick(len(pool))]
        case RecordType(fields) | ProductType(fields):
            return tuple(value(f, pick, rows) for _, f in fields)
        case Boxed(content):
            return None if pick(8) == 7 else value(content, pick, min(rows, 3))
        case MapType(key, inner):
            entries = {value(key, pick, rows): value(inner, pick, 2) for _ in range(pick(rows + 1))}
            return ring.collect(entries.items())
        case LabelType():
            return LabelValue("ℓ1", (VALUES["bigint"][pick(3)],))
        case Exact(scale):
            return NUMBERS[Exact][pick(5)].quantize(Decimal(1).scaleb(-scale))
        case FunType():
            raise AssertionError("functions are not data")
        case _:
            return NUMBERS[type(t)][pick(5)]


def conforms(t: Type, v: Value) -> bool:
    """Whether a value is one of the type: what the interpreter promises for what `type_of` says."""
    match t:
        case Base("boolean"):
            return v is None or isinstance(v, bool)
        case Base(name):
            kinds: dict[str, Any] = {
                "string": str,
                "double": float,
                "decimal": Decimal,
                "date": date,
            }
            return v is None or (isinstance(v, kinds.get(name, int)) and not isinstance(v, bool))
        case RecordType(fields) | ProductType(fields):
            if not (isinstance(v, tuple) and len(v) == len(fields)):
                return False
            return all(conforms(f, x) for (_, f), x in zip(fields, v, strict=True))
        case Boxed(content):
            return v is None or conforms(content, v)
        case MapType(key, inner):
            if not isinstance(v, RingMap) or any(ring.is_zero(x) for x in v.values()):
                return False
            return all(conforms(key, k) and conforms(inner, x) for k, x in v.items())
        case FunType():
            return isinstance(v, ring.Function)
        case LabelType():
            return isinstance(v, LabelValue)
        case RealType():
            return isinstance(v, float)
        case Exact():
            return isinstance(v, (Decimal, int))
        case _:
            return isinstance(v, int) and not isinstance(v, bool)


def database(inputs: Inputs, pick: Pick) -> Database:
    """A value for each input."""
    return {name: value(t, pick) for name, t in inputs.items()}


def change(inputs: Inputs, pick: Pick) -> Database:
    """A value for the change of each input, by the name of the change; some do not change."""
    return {
        change_name(n): ring.zero(t) if pick(4) == 1 else value(t, pick, 3)
        for n, t in inputs.items()
    }


def updated(old: Database, changes: Database) -> Database:
    """The database after a change."""
    return {name: ring.add(v, changes[change_name(name)]) for name, v in old.items()}
