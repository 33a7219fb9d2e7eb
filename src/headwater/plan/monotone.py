"""Monotone functions: scalars of one column that never fall, such as `hour div 2`, a date of a time, `x + 3`.

Where `b = f(a)` and f never falls, a bound of one says a bound of the other. Four numbers say which; each may be on the
safe side of the best one:

    low(w)    every a ≥ w has f(a) ≥ low(w)          under(w)   every a < under(w) has f(a) < w
    high(w)   every a ≤ w has f(a) ≤ high(w)         over(w)    every a ≥ over(w) has f(a) ≥ w

`monotone(tree)` finds the function at the root of a scalar's tree and the tree that it is applied to. NULL goes to NULL,
and nothing else does. In a time zone whose offset changes, local times may run back for a while: bounds are then taken a
day to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from headwater.calculus import types as ty
from headwater.calculus.notation.parse import parse_type
from headwater.calculus.types import Base
from headwater.plan.trees import Tree, integral, is_a

DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
FIXED = frozenset({"UTC", "Etc/UTC", "GMT", "Z"})
"""Names of the zone in which local times are instants."""
MISSING = object()

Bound = Callable[[Any], Any]


@dataclass(frozen=True)
class Monotone:
    """A function that never falls: its name with its constants, which is all that two are compared by, and its bounds.

    `one_to_one` says that different values stay different, and that the bounds are exact.
    """

    name: str
    low: Bound
    high: Bound
    under: Bound
    over: Bound
    one_to_one: bool = False
    source: Base = ty.BIGINT
    """The type of what it is applied to."""
    result: Base = ty.BIGINT

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Monotone) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


def type_at(tree: Tree) -> Base | None:
    """The type of a tree, if it is a scalar's."""
    found = parse_type(tree[1])
    return found if isinstance(found, Base) else None


def constant(tree: Tree) -> Any:
    """The value of a tree without columns, as the calculus has it; MISSING if it has columns or is no plain constant."""
    if tree is None:
        return MISSING
    if tree[0] == "cast":
        inner, t = constant(tree[2]), type_at(tree)
        if isinstance(inner, int) and not isinstance(inner, bool) and t is not None:
            if integral(t):
                return inner
            if t.name == "decimal":
                return Decimal(inner)
        return inner if inner is None else MISSING
    if tree[0] != "literal":
        return MISSING
    t, value = type_at(tree), tree[2]
    if value is None or t is None:
        return value if value is None else MISSING
    match t.name:
        case "decimal":
            return Decimal(value)
        case "float" | "double":
            return float(value)
        case "date":
            return date.fromisoformat(value)
        case "timestamp" | "timestamp_ntz":
            return datetime.fromisoformat(value).replace(tzinfo=None)
        case "binary":
            return bytes.fromhex(value)
    return value


def monotone(tree: Tree, zone: str) -> tuple[Monotone, Tree] | None:
    """The monotone function at the root of a tree, and what it is applied to; `zone` is that of the database."""
    if tree is None or tree[0] in ("column", "literal"):
        return None
    name, args = tree[0], tree[2:]
    values = [constant(a) for a in args]
    open_ = [i for i, v in enumerate(values) if v is MISSING]
    if len(open_) != 1 or any(v is None for v in values) or args[open_[0]] is None:
        return None
    inner, given = args[open_[0]], [v for v in values if v is not MISSING]
    source, result = type_at(inner), type_at(tree)
    if source is None or result is None:
        return None
    made = _made(name, open_[0], given, source, result, zone)
    if made is None:
        return None
    label = " ".join(
        [name, *map(str, given), str(source), str(result), zone if _zoned(made) else ""]
    )
    return Monotone(
        label.strip(), *made[0], one_to_one=made[1], source=source, result=result
    ), inner


Made = tuple[tuple[Bound, Bound, Bound, Bound], bool]


def _zoned(made: Made) -> bool:
    return getattr(made[0][0], "zoned", False)


def _exactly(f: Bound, back: Bound) -> Made:
    """A one-to-one function and its inverse."""
    return (f, f, back, back), True


def _steps(f: Bound, least: Bound) -> Made:
    """A function with steps, and the least value that it takes to w or above."""
    return (f, f, least, least), False


def _made(
    name: str, place: int, given: list[Any], source: Base, result: Base, zone: str
) -> Made | None:
    if (len(given) == 1 and place == 0) or name == "+":
        made = _arithmetic(name, place, given, source, result)
        if made is not None:
            return made
    match name, given:
        case "cast", []:
            return _cast(source, result)
        case "floor", [] if is_a(source, "decimal"):
            return _steps(lambda w: Decimal(math.floor(w)), lambda w: Decimal(math.ceil(w)))
        case "ceil", [] if is_a(source, "decimal"):
            # ceil(a) ≥ w for every a above w - 1, which no least value says.
            return (_ceil, _ceil, lambda w: _ceil(w) - 1, _ceil), False
        case "date_add", [int(n)] if place == 0 and source == ty.DATE:
            return _exactly(lambda w: w + n * DAY, lambda w: w - n * DAY)
        case "date_sub", [int(n)] if place == 0 and source == ty.DATE:
            return _exactly(lambda w: w - n * DAY, lambda w: w + n * DAY)
        case "year", [] if source == ty.DATE:
            return _steps(lambda w: w.year, lambda w: date(min(max(w, 1), 9999), 1, 1))
        case "unix_date", [] if source == ty.DATE:
            first = date(1970, 1, 1)
            return _exactly(lambda w: (w - first).days, lambda w: first + w * DAY)
        case "trunc", [str(unit)] if place == 0 and source == ty.DATE:
            return _truncated(unit.upper(), date_too=True)
        case "date_trunc", [str(unit)] if place == 1:
            return _date_trunc(unit.upper(), source, zone)
        case "window_start", [int(width), int(start)] if place == 0:
            return _window(width, start)
        case "add_micros", [int(n)] if place == 0:
            gap = timedelta(microseconds=n)
            return _exactly(lambda w: w + gap, lambda w: w - gap)
        case "local" | "instant" | "day_start", []:
            return _through_zone(name, source, zone)
    return None


def _arithmetic(name: str, place: int, given: list[Any], source: Base, result: Base) -> Made | None:
    (c,) = given
    whole = integral(source) and integral(result) and isinstance(c, int)
    decimals = is_a(source, "decimal") and is_a(result, "decimal") and isinstance(c, int | Decimal)
    match name:
        case "+" if whole or (decimals and _fits(source, c, result)):
            return _exactly(lambda w: w + c, lambda w: w - c)
        case "-" if place == 0 and (whole or (decimals and _fits(source, c, result))):
            return _exactly(lambda w: w - c, lambda w: w + c)
        case "*" if whole and c > 0:
            return (
                lambda w: w * c,
                lambda w: w * c,
                lambda w: -(-w // c),
                lambda w: -(-w // c),
            ), True
        case "div" if whole and c > 0:  # towards zero: the stretch around zero is twice as long
            return _steps(
                lambda w: abs(w) // c * (1 if w >= 0 else -1),
                lambda w: w * c if w > 0 else (w - 1) * c + 1,
            )
        case "py_floordiv" if whole and c > 0:
            return _steps(lambda w: w // c, lambda w: w * c)
    return None


def _fits(source: Base, c: Any, result: Base) -> bool:
    """Whether a sum of decimals has all its digits, so that nothing is rounded."""
    places = max(0, -int(Decimal(c).as_tuple().exponent))
    return result.scale >= max(source.scale, places) and result.precision < 38


def _cast(source: Base, result: Base) -> Made | None:
    """Casts that keep the order: among integers, to decimals that hold them, between days and local times."""
    if integral(source) and integral(result):
        return _exactly(lambda w: w, lambda w: w)
    if integral(source) and is_a(result, "decimal"):
        up = lambda w: math.ceil(w)  # noqa: E731
        return (Decimal, Decimal, up, up), True
    if source == ty.TIMESTAMP_NTZ and result == ty.DATE:
        return _steps(lambda w: w.date(), _midnight)
    if source == ty.DATE and result == ty.TIMESTAMP_NTZ:
        return (_midnight, _midnight, _next_day, _next_day), True
    return None


def _ceil(w: Any) -> Decimal:
    return Decimal(math.ceil(w))


def _midnight(d: date) -> datetime:
    return datetime.combine(d, time())


def _next_day(t: datetime) -> date:
    """The first day that begins at a time or after it."""
    return t.date() if t == _midnight(t.date()) else t.date() + DAY


def _window(width: int, start: int) -> Made:
    """The start of the window of a width that holds a time; windows are laid from `start` microseconds after 1970."""
    first = datetime(1970, 1, 1) + timedelta(microseconds=start)
    size = timedelta(microseconds=width)

    def low(w: datetime) -> datetime:
        return w - (w - first) % size

    def least(w: datetime) -> datetime:
        begins = low(w)
        return begins if begins == w else begins + size

    return _steps(low, least)


UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
NAMES = {"YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH", "DD": "DAY"}


def _floor(unit: str, t: Any) -> Any:
    """The first day or moment of the unit that a day or time is in."""
    day = t.date() if isinstance(t, datetime) else t
    clock = {"HOUR": 1, "MINUTE": 2, "SECOND": 3}
    if isinstance(t, datetime) and unit == "MILLISECOND":
        return t.replace(microsecond=t.microsecond // 1000 * 1000)
    if isinstance(t, datetime) and unit in clock:
        kept = clock[unit]
        minute, second = (t.minute if kept > 1 else 0), (t.second if kept > 2 else 0)
        return datetime.combine(day, time(t.hour, minute, second))
    match unit:
        case "YEAR":
            day = day.replace(month=1, day=1)
        case "QUARTER":
            day = day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "MONTH":
            day = day.replace(day=1)
        case "WEEK":
            day = day - day.weekday() * DAY
    return _midnight(day) if isinstance(t, datetime) else day


def _following(unit: str, t: Any) -> Any:
    """The first day or moment of the next unit."""
    lengths = {"YEAR": 366, "QUARTER": 92, "MONTH": 31, "WEEK": 7, "DAY": 1}
    if unit in lengths:
        return _floor(unit, t + lengths[unit] * DAY)
    small = {
        "HOUR": timedelta(hours=1),
        "MINUTE": timedelta(minutes=1),
        "SECOND": timedelta(seconds=1),
    }
    return t + small.get(unit, timedelta(milliseconds=1))


def _truncated(unit: str, date_too: bool = False) -> Made | None:
    unit = NAMES.get(unit, unit)
    if unit not in UNITS or (date_too and unit not in UNITS[:4]):
        return None

    def least(w: Any) -> Any:
        begins = _floor(unit, w)
        return begins if begins == w else _following(unit, begins)

    return _steps(lambda w: _floor(unit, w), least)


def _date_trunc(unit: str, source: Base, zone: str) -> Made | None:
    made = _truncated(unit)
    if made is None or source not in (ty.TIMESTAMP, ty.TIMESTAMP_NTZ):
        return None
    if source == ty.TIMESTAMP_NTZ or zone in FIXED:
        return made
    (low, high, under, over), _ = made
    return _loosely(
        lambda w: _instant(low(_local(w, zone)), zone),
        lambda w: _instant(high(_local(w, zone)), zone),
        lambda w: _instant(under(_local(w, zone)), zone),
        lambda w: _instant(over(_local(w, zone)), zone),
    )


def _through_zone(name: str, source: Base, zone: str) -> Made | None:
    """Local times of instants, and instants of local times and of days."""
    there, back = {
        "local": (lambda w: _local(w, zone), lambda w: _instant(w, zone)),
        "instant": (lambda w: _instant(w, zone), lambda w: _local(w, zone)),
        "day_start": (
            lambda w: _instant(_midnight(w), zone),
            lambda w: _next_day(_local(w, zone)),
        ),
    }[name]
    if zone in FIXED:
        return _exactly(there, back)
    return _loosely(there, there, back, back)


def _loosely(low: Bound, high: Bound, under: Bound, over: Bound) -> Made:
    """Bounds in a zone whose offset may change: a day to the safe side of those that hold between two changes."""
    earlier: Any = lambda w: low(w) - DAY  # noqa: E731
    earlier.zoned = True
    return (
        earlier,
        lambda w: high(w) + DAY,
        lambda w: under(w) - DAY,
        lambda w: over(w) + DAY,
    ), False


def _local(t: datetime, zone: str) -> datetime:
    return (
        t
        if zone in FIXED
        else t.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    )


def _instant(t: datetime, zone: str) -> datetime:
    return (
        t
        if zone in FIXED
        else t.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).replace(tzinfo=None)
    )
