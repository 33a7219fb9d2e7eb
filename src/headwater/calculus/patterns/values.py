"""Values in the order that Spark has them in, and places between them.

NULL is outside of the order of a column's values; NaN is the greatest and equals itself, -0.0 is 0.0, false is before
true, text is in the order of its code points (which is that of its bytes). A *cut* is a place just before or just after
a value: a range is what lies between two cuts, and two ranges touch where a cut of one is a cut of the other. In a
*discrete* type the place after a value is the place before the next one, so that 4 and 5 touch.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from types import NoneType
from typing import Any
from zoneinfo import ZoneInfo

from headwater.calculus.ring import EXACT, number
from headwater.calculus.scalars import order
from headwater.calculus.types import INTEGRAL, Base, KeyType
from headwater.errors import BadPattern

Cut = tuple[Any, ...]
"""(*order(value), 0 before or 1 after it): cuts compare as places do."""
FIRST: Cut = ()
LAST: Cut = (3,)
DAY = timedelta(days=1)


def is_discrete(t: Base | None) -> bool:
    """Whether a value has a next one."""
    return t is not None and (t.name in INTEGRAL or t.name in ("date", "boolean"))


def ends_of(t: Base | None) -> tuple[Any, Any]:
    """The least and the greatest value of a type, None where it has none that is of use."""
    match t:
        case Base(name) if name in INTEGRAL:
            half = 1 << INTEGRAL[name] - 1
            return -half, half - 1
        case Base("boolean"):
            return False, True
        case Base("float" | "double"):
            return -math.inf, math.nan
        case Base("decimal", precision, scale):
            greatest = Decimal(10**precision - 1).scaleb(-scale, EXACT)
            return greatest.copy_negate(), greatest
        case Base("string"):
            return "", None
        case Base("binary"):
            return b"", None
        case _:
            return None, None


# --- cuts -------------------------------------------------------------------------------------------------


def before(value: Any) -> Cut:
    """The place just before a value."""
    return (*order(value), 0)


def after(value: Any, t: Base | None = None) -> Cut:
    """The place just after a value: in a discrete type the one before the next."""
    if not is_discrete(t) or value is True or value == date.max:
        return (*order(value), 1)
    if value is False:
        return before(True)
    return before(value + (DAY if isinstance(value, date) else 1))


def previous(value: Any) -> Any:
    """The value before one of a discrete type; there must be one."""
    if value is True:
        return False
    return value - (DAY if isinstance(value, date) else 1)


def at(cut: Cut) -> Any:
    """The value that a cut is beside."""
    return cut[1] if cut[0] == 1 else math.nan


def count_between(low: Any, high: Any) -> int:
    """How many values of a discrete type are from one to another, both included."""
    return (high - low).days + 1 if isinstance(low, date) else int(high) - int(low) + 1


def values_between(low: Any, high: Any) -> list[Any]:
    """The values of a discrete type from one to another, both included."""
    if isinstance(low, bool):
        return [low] if low == high else [False, True]
    step: Any = DAY if isinstance(low, date) else 1
    return [low + step * i for i in range(count_between(low, high))]


def in_order(values: Iterable[Any]) -> list[Any]:
    """Values in order and without repeats: NULL first, NaN last."""
    found = list(values)
    kinds = set(map(type, found))
    first: list[Any] = [None] if NoneType in kinds else []
    last: list[Any] = []
    if first:
        found = [v for v in found if v is not None]
    if any(issubclass(kind, float) for kind in kinds):
        last = [math.nan] if any(v != v for v in found) else []
        found = [number(v) for v in found if v == v]
    try:
        found.sort()  # nearly linear where long lists are in order already
    except TypeError as e:
        raise BadPattern(
            f"values that cannot be compared with each other: {_said(found[:3])}",
            hint="give values of one type",
        ) from e
    return [*first, *found[:1], *(b for a, b in pairwise(found) if a != b), *last]


# --- values of a type -------------------------------------------------------------------------------------


def value_of(value: Any, t: KeyType, zone: str = "UTC", column: str = "") -> Any:
    """A value as the calculus has it in a type; what is none is refused.

    An instant is a time of UTC without a zone; one that is given without a zone is of `zone`. Times and dates may be
    text in ISO form.
    """
    if value is None:
        return None
    if not isinstance(t, Base):
        raise BadPattern(
            f"{_of(column)}a pattern is over values that have an order, and {t} has none",
            hint="name columns of numbers, text, dates or times",
        )
    if type(value).__module__ == "numpy":
        value = value.item()
    try:
        made = _typed(value, t, zone)
    except (ValueError, TypeError, OverflowError, ArithmeticError, KeyError, OSError):
        made = None
    if made is None:
        raise BadPattern(f"{_of(column)}{_said(value)} is no {t}", hint=_hint(value, t))
    return made


def _typed(value: Any, t: Base, zone: str) -> Any:
    """The value in the type, or None."""
    match t.name:
        case name if name in INTEGRAL:
            half = 1 << INTEGRAL[name] - 1
            return value if type(value) is int and -half <= value < half else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "string":
            if isinstance(value, str):
                value.encode()  # half of a pair of surrogates is no text, and fails
                return value
            return None
        case "binary":
            return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else None
        case "float" | "double":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return None
            made = float(value)
            if made != value and made == made:
                return None  # a whole number that a double does not hold
            return number(
                struct.unpack("f", struct.pack("f", made))[0] if t.name == "float" else made
            )
        case "decimal":
            return _decimal(value, t)
        case "date":
            return _day(value)
        case "timestamp" | "timestamp_ntz":
            return _moment(value, t.name == "timestamp", zone)
        case _:
            return None


def _decimal(value: Any, t: Base) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    made = Decimal(value)
    if not made.is_finite():
        return None
    exact = made.quantize(Decimal(1).scaleb(-t.scale), context=EXACT)
    fits = exact == made and len(exact.as_tuple().digits) <= max(t.precision, 1)
    return exact + 0 if fits and not exact else exact if fits else None  # no negative zero


def _day(value: Any) -> date | None:
    if isinstance(value, str):
        value = date.fromisoformat(value)
    if isinstance(value, datetime):
        return value.date() if value.time() == time() and value.tzinfo is None else None
    return value if isinstance(value, date) else None


def _moment(value: Any, instant: bool, zone: str) -> datetime | None:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, date):
        return None
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if getattr(value, "nanosecond", 0):
        return None  # pandas has finer times than a column
    plain = datetime.combine(value.date(), value.timetz()).replace(fold=value.fold)
    if plain.tzinfo is None:
        if not instant or zone == "UTC":
            return plain
        plain = plain.replace(tzinfo=ZoneInfo(zone))
    elif not instant:
        return None
    return plain.astimezone(UTC).replace(tzinfo=None)


def _of(column: str) -> str:
    return f"`{column}`: " if column else ""


def _said(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _hint(value: Any, t: Base) -> str:
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        return "a list is written one_of([...]), and cannot be the end of a range"
    match t.name:
        case "decimal":
            return "give a whole number or a Decimal that has no more digits than the type"
        case "date" | "timestamp" | "timestamp_ntz":
            shown = "2024-02-29" if t.name == "date" else "2024-02-29T12:30:00"
            zones = " without a zone" if t.name == "timestamp_ntz" else ""
            return f"give a {'date' if t.name == 'date' else 'datetime'}{zones}, or text such as '{shown}'"
        case _:
            return "give a value of that type, or None for NULL"
