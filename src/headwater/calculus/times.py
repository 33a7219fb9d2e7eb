"""Scalar functions of dates and times, in the proleptic Gregorian calendar: more rows of `scalars.SCALARS`.

An instant is a value without a zone, which is the time in UTC; what a database in another zone answers is told by the
engine, from the zone's rules.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from headwater.calculus.ring import RingMap, collect
from headwater.calculus.scalars import SCALARS, Scalar, TypeRule
from headwater.calculus.types import (
    BIGINT,
    DATE,
    INTEGER,
    INTEGRAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Base,
    Boxed,
    KeyType,
    bag,
    decimal,
)


def _moment(result: KeyType, *rest: KeyType) -> TypeRule:
    def rule(types: tuple[KeyType, ...]) -> KeyType | None:
        ok = types[0] in (DATE, TIMESTAMP, TIMESTAMP_NTZ, VOID)
        ok = ok and all(
            t in (w, VOID) or (w == INTEGER and isinstance(t, Base) and t.name in INTEGRAL)
            for t, w in zip(types[1:], rest, strict=False)
        )
        return result if ok and len(types) == 1 + len(rest) else None

    return rule


def _date(name: str, result: KeyType, f: Callable[..., Any], *rest: KeyType) -> None:
    count = 1 + len(rest)
    apply = lambda _r, _t, *values: f(*values)  # noqa: E731
    SCALARS[name] = Scalar(name, _moment(result, *rest), apply, True, (count, count))


def day_of(d: date) -> date:
    """The day of a date or of a time."""
    return d.date() if isinstance(d, datetime) else d


def add_months(d: date, n: int) -> date:
    """The same day n months on, or the last day of that month."""
    month = d.year * 12 + d.month - 1 + n
    first = date(month // 12, month % 12 + 1, 1)
    return first.replace(day=min(d.day, last_day(first).day))


def last_day(d: date) -> date:
    """The last day of the month."""
    return (date(d.year, d.month, 28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)


def truncate(d: date, unit: str) -> date | None:
    """trunc(d, unit): the first day of the unit; NULL for an unknown unit."""
    match unit.lower():
        case "year" | "yyyy" | "yy":
            return date(d.year, 1, 1)
        case "quarter":
            return date(d.year, (d.month - 1) // 3 * 3 + 1, 1)
        case "month" | "mon" | "mm":
            return date(d.year, d.month, 1)
        case "week":
            return d - timedelta(days=d.weekday())
        case _:
            return None


_date("year", INTEGER, lambda d: d.year)
_date("quarter", INTEGER, lambda d: (d.month - 1) // 3 + 1)
_date("month", INTEGER, lambda d: d.month)
_date("day", INTEGER, lambda d: d.day)
_date("dayofweek", INTEGER, lambda d: d.isoweekday() % 7 + 1)
_date("dayofyear", INTEGER, lambda d: d.timetuple().tm_yday)
_date("weekofyear", INTEGER, lambda d: d.isocalendar().week)
_date("hour", INTEGER, lambda t: getattr(t, "hour", 0))
_date("minute", INTEGER, lambda t: getattr(t, "minute", 0))
_date("second", INTEGER, lambda t: getattr(t, "second", 0))
_date("date_add", DATE, lambda d, n: day_of(d) + timedelta(days=n), INTEGER)
_date("date_sub", DATE, lambda d, n: day_of(d) - timedelta(days=n), INTEGER)
_date("datediff", INTEGER, lambda a, b: (day_of(a) - day_of(b)).days, DATE)
_date("add_months", DATE, lambda d, n: add_months(day_of(d), n), INTEGER)
_date("last_day", DATE, lambda d: last_day(day_of(d)))
_date("trunc", DATE, lambda d, unit: truncate(day_of(d), unit), STRING)


# --- units of time ------------------------------------------------------------------------------------------

UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    "QUARTER": "quarter",
    **dict.fromkeys(("MONTH", "MON", "MM"), "month"),
    "WEEK": "week",
    **dict.fromkeys(("DAY", "DD"), "day"),
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
    "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
}
"""What a unit is called, in capitals."""
_CLOCK = ("microsecond", "millisecond", "second", "minute", "hour", "day")


def date_trunc(unit: str, t: datetime) -> datetime | None:
    """The beginning of the unit that a time is in; NULL for an unknown unit."""
    found = UNITS.get(unit.upper())
    if found is None:
        return None
    if found not in _CLOCK:
        day = truncate(t.date(), found)
        return None if day is None else datetime(day.year, day.month, day.day)
    place = _CLOCK.index(found)
    micros = t.microsecond // 1000 * 1000 if found == "millisecond" else 0
    t = t.replace(microsecond=t.microsecond if place == 0 else micros)
    zeros = {n: 0 for n in ("second", "minute", "hour")[: max(0, place - 2)]}
    return t.replace(**zeros)  # type: ignore[arg-type]


EPOCH = datetime(1970, 1, 1)


def _micros(t: datetime) -> int:
    return (t - EPOCH) // timedelta(microseconds=1)


_DAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")


def next_day(d: date, name: str) -> date:
    """The first day after a date that is a given day of the week, by its name or two or three letters of it."""
    found = [i for i, day in enumerate(_DAYS) if name.upper() in (day, day[:2], day[:3])]
    if not found:
        raise ValueError(f"{name} is no day of the week")
    return d + timedelta(days=1 + (found[0] - d.weekday() - 1) % 7)


def _typed(name: str, result: KeyType, f: Callable[..., Any], *takes: KeyType) -> None:
    """A function of arguments of just these types."""

    def rule(types: tuple[KeyType, ...]) -> KeyType | None:
        fits = len(types) == len(takes) and all(
            t in (w, VOID) or (isinstance(t, Base) and w == BIGINT and t.name in INTEGRAL)
            for t, w in zip(types, takes, strict=True)
        )
        return result if fits else None

    apply = lambda _r, _t, *values: f(*values)  # noqa: E731
    SCALARS[name] = Scalar(name, rule, apply, True, (len(takes), len(takes)))


_typed("date_trunc", TIMESTAMP, date_trunc, STRING, TIMESTAMP)
_date("weekday", INTEGER, lambda d: d.weekday())
_date("yearofweek", INTEGER, lambda d: d.isocalendar().year)
_date("next_day", DATE, lambda d, name: next_day(day_of(d), name), STRING)
_typed("unix_date", INTEGER, lambda d: (d - date(1970, 1, 1)).days, DATE)
_typed("unix_seconds", BIGINT, lambda t: _micros(t) // 1_000_000, TIMESTAMP)
_typed("unix_timestamp", BIGINT, lambda t: int(Decimal(_micros(t)) // 1_000_000), TIMESTAMP)
_typed("unix_millis", BIGINT, lambda t: _micros(t) // 1000, TIMESTAMP)
_typed("unix_micros", BIGINT, _micros, TIMESTAMP)
_typed("timestamp_seconds", TIMESTAMP, lambda n: EPOCH + timedelta(seconds=n), BIGINT)
_typed("as_timestamp", TIMESTAMP, lambda n: EPOCH + timedelta(seconds=n), BIGINT)
_typed("timestamp_millis", TIMESTAMP, lambda n: EPOCH + timedelta(milliseconds=n), BIGINT)
_typed("timestamp_micros", TIMESTAMP, lambda n: EPOCH + timedelta(microseconds=n), BIGINT)
_date(
    "second_part",
    decimal(8, 6),
    lambda t: Decimal(getattr(t, "second", 0) * 1_000_000 + getattr(t, "microsecond", 0)).scaleb(
        -6
    ),
)


# --- windows of time ------------------------------------------------------------------------------------------


def _shifted(t: datetime, micros: int) -> datetime:
    return t + timedelta(microseconds=micros)


def window_start(t: datetime, width: int, offset: int) -> datetime:
    """The greatest start that is not after a time, of the windows that begin at offset + n · width microseconds."""
    return _shifted(t, -((_micros(t) - offset) % width))


def window_starts(t: datetime, width: int, slide: int, offset: int) -> RingMap:
    """The starts s of all windows [s, s + width) that hold a time, where they begin at offset + n · slide."""
    last = window_start(t, slide, offset)
    starts = (_shifted(last, -n * slide) for n in range(-(-width // slide)))
    return collect((s, 1) for s in starts if t < _shifted(s, width))


def _of_time(name: str, f: Callable[..., Any], count: int, many: bool = False) -> None:
    """A function of a time and of whole numbers of microseconds, which gives such a time, or a bag of them."""

    def rule(types: tuple[KeyType, ...]) -> KeyType | None:
        whole = all(isinstance(t, Base) and t.name in INTEGRAL for t in types[1:])
        if types[0] not in (TIMESTAMP, TIMESTAMP_NTZ) or not whole or len(types) != 1 + count:
            return None
        return Boxed(bag(types[0])) if many else types[0]

    apply = lambda _r, _t, *values: f(*values)  # noqa: E731
    SCALARS[name] = Scalar(name, rule, apply, True, (1 + count, 1 + count))


_of_time("window_start", window_start, 2)
_of_time("window_starts", window_starts, 3, many=True)
_of_time("add_micros", _shifted, 1)
