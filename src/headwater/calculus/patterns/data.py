"""Patterns as plain JSON, for the log: the kind of pattern, the kind of its values, and the values.

["=", "", 5]     ["in", "date", ["2024-01-31", null]]     ["range", "decimal", "0.50", null, true, false]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, assert_never

from headwater.calculus.patterns.pattern import (
    ANYTHING,
    NOTHING,
    Anything,
    Constant,
    Nothing,
    OneOf,
    Pattern,
    Range,
)
from headwater.calculus.ring import number
from headwater.calculus.types import Base, decimal

_READ: dict[str, Callable[[Any], Any]] = {
    "": lambda v: v,
    "number": lambda v: number(float(v)),
    "decimal": Decimal,
    "date": date.fromisoformat,
    "time": datetime.fromisoformat,
    "bytes": bytes.fromhex,
}


def pattern_data(p: Pattern) -> list[Any]:
    """A pattern as plain JSON."""
    match p:
        case Anything():
            return ["*"]
        case Nothing():
            return ["none"]
        case Constant(v):
            return ["=", *_written([v])]
        case OneOf(values):
            kind, *found = _written(list(values))
            return ["in", kind, found]
        case Range():
            return ["range", *_written([p.low, p.high]), p.low_closed, p.high_closed]
        case _:
            assert_never(p)


def pattern_from(data: list[Any]) -> Pattern:
    """What `pattern_data` gave."""
    match data:
        case ["=", kind, v]:
            return Constant(_read(kind, v))
        case ["in", kind, values]:
            return OneOf(tuple(_read(kind, v) for v in values))
        case ["range", kind, low, high, low_closed, high_closed]:
            return Range(_read(kind, low), _read(kind, high), low_closed, high_closed)
        case ["none"]:
            return NOTHING
        case _:
            return ANYTHING


def _read(kind: str, value: Any) -> Any:
    return None if value is None else _READ[kind](value)


def _written(values: list[Any]) -> list[Any]:
    """The kind of some values and the values; all but NULL are of one kind."""
    match next((v for v in values if v is not None), None):
        case float():
            return ["number", *(v if v is None else repr(v) for v in values)]
        case Decimal():
            return ["decimal", *(v if v is None else f"{v:f}" for v in values)]
        case datetime():
            return ["time", *(v if v is None else v.isoformat() for v in values)]
        case date():
            return ["date", *(v if v is None else v.isoformat() for v in values)]
        case bytes():
            return ["bytes", *(v if v is None else v.hex() for v in values)]
        case _:
            return ["", *values]


def type_from(text: str) -> Base:
    """A base type from its text."""
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", text)
    return decimal(int(found[1]), int(found[2])) if found else Base(text)
