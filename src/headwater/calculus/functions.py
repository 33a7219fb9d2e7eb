"""Scalar functions of strings and dates, casts, and those that mean what Python means.

More rows of `scalars.SCALARS`. Those whose names start with `py_` are for comprehensions, which mean
what Python means where Python and Spark differ: the sign of a remainder, floor division, an empty min.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from headwater.calculus.dyadic import Dyadic
from headwater.calculus.scalars import (
    EXACT,
    SCALARS,
    Scalar,
    TypeRule,
    arithmetic_type,
    bounded,
    division_by_zero,
    fit,
    operands,
    scalar,
)
from headwater.calculus.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    EXACTLY,
    INTEGER,
    INTEGRAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Base,
    KeyType,
    is_numeric,
)
from headwater.errors import ScalarError

# --- strings --------------------------------------------------------------------------------------------


def _strings(result: KeyType, *rest: KeyType) -> TypeRule:
    """The first arguments are strings and the others have the given types; VOID fits everywhere."""

    def rule(types: tuple[KeyType, ...]) -> KeyType | None:
        texts = len(types) - len(rest)
        wanted = (STRING,) * texts + rest
        ok = all(
            t in (w, VOID) or (w == INTEGER and isinstance(t, Base) and t.name in INTEGRAL)
            for t, w in zip(types, wanted, strict=True)
        )
        return result if ok else None

    return rule


def _string(
    name: str, result: KeyType, f: Callable[..., Any], *rest: KeyType, texts: int | None = 1
) -> None:
    """A function of so many strings (None: any number), then of the given types."""
    arity = (1, None) if texts is None else (texts + len(rest), texts + len(rest))
    apply = lambda _r, _t, *values: f(*values)  # noqa: E731
    SCALARS[name] = Scalar(name, _strings(result, *rest), apply, True, arity)


def substring(s: str, start: int, length: int | None = None) -> str:
    """1-based; a negative start counts from the end, and what lies outside is empty."""
    begin = start - 1 if start > 0 else len(s) + start if start < 0 else 0
    end = len(s) if length is None else begin + length
    return s[max(begin, 0) : max(end, 0)]


def like(s: str, pattern: str) -> bool:
    r"""SQL LIKE with `%`, `_` and the escape `\`."""
    out, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            i += 1
            out += re.escape(pattern[i])
        else:
            out += ".*" if c == "%" else "." if c == "_" else re.escape(c)
        i += 1
    return re.fullmatch(out, s, re.DOTALL) is not None


_string("upper", STRING, str.upper)
_string("lower", STRING, str.lower)
_string("length", INTEGER, len)
_string("trim", STRING, lambda s: s.strip(" "))
_string("ltrim", STRING, lambda s: s.lstrip(" "))
_string("rtrim", STRING, lambda s: s.rstrip(" "))
_string("concat", STRING, lambda *parts: "".join(parts), texts=None)
_string("replace", STRING, lambda s, a, b: s.replace(a, b) if a else s, texts=3)
_string("startswith", BOOLEAN, str.startswith, texts=2)
_string("endswith", BOOLEAN, str.endswith, texts=2)
_string("contains", BOOLEAN, lambda s, t: t in s, texts=2)
_string("instr", INTEGER, lambda s, t: s.find(t) + 1, texts=2)
_string("like", BOOLEAN, like, texts=2)
_string("reverse", STRING, lambda s: s[::-1])
_string("left", STRING, lambda s, n: s[: max(n, 0)], INTEGER)
_string("right", STRING, lambda s, n: s[-n:] if n > 0 else "", INTEGER)
_string("repeat", STRING, lambda s, n: s * max(n, 0), INTEGER)
_string("substring", STRING, substring, INTEGER, INTEGER)


# --- dates ----------------------------------------------------------------------------------------------


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


def _day(d: date) -> date:
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
_date("date_add", DATE, lambda d, n: _day(d) + timedelta(days=n), INTEGER)
_date("date_sub", DATE, lambda d, n: _day(d) - timedelta(days=n), INTEGER)
_date("datediff", INTEGER, lambda a, b: (_day(a) - _day(b)).days, DATE)
_date("add_months", DATE, lambda d, n: add_months(_day(d), n), INTEGER)
_date("last_day", DATE, lambda d: last_day(_day(d)))
_date("trunc", DATE, lambda d, unit: truncate(_day(d), unit), STRING)


# --- casts ------------------------------------------------------------------------------------------------


def cast(value: Any, source: KeyType, target: KeyType) -> Any:
    """CAST(value AS target) in ANSI mode: an error where the value has no form in the target."""
    if value is None or source == target or not isinstance(target, Base):
        return value
    try:
        return _cast(value, target)
    except (ValueError, ArithmeticError, OverflowError) as e:
        raise ScalarError(
            f"cannot cast {value!r} to {target}", hint="try_cast gives NULL instead of an error"
        ) from e


def _cast(value: Any, target: Base) -> Any:
    match target.name:
        case "string":
            return _as_text(value)
        case "boolean":
            if isinstance(value, str):
                word = value.strip().lower()
                if word in ("t", "true", "y", "yes", "1"):
                    return True
                if word in ("f", "false", "n", "no", "0"):
                    return False
                raise ValueError(value)
            return bool(value)
        case "date":
            return _read_date(value) if isinstance(value, str) else _day(_moment_only(value))
        case "timestamp" | "timestamp_ntz":
            if isinstance(value, str):
                return _read_timestamp(value)
            day = _moment_only(value)
            return day if isinstance(day, datetime) else datetime(day.year, day.month, day.day)
        case name if name in INTEGRAL:
            return fit(target, math.trunc(_read_number(value, r"[+-]?\d+", int)))
        case "decimal":
            return fit(target, _read_number(value, _DECIMAL, Decimal))
        case "double" | "float":
            return fit(
                target, _read_number(value, rf"({_DECIMAL})[df]?|[+-]?(inf(inity)?|nan)", _as_float)
            )
        case _:
            return value


_DECIMAL = r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"


def _as_float(text: str) -> float:
    """Java's form of a double, which may end in d or f."""
    return float(
        text if text[-1:].lower() not in "df" or text.lower().endswith("inf") else text[:-1]
    )


def _read_number(value: Any, form: str, read: Callable[[str], Any]) -> Any:
    """A number from text of the given form, spaces around it left out; other values as they are."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not re.fullmatch(form, text, re.IGNORECASE | re.ASCII):
        raise ValueError(value)
    return read(text)


def _moment_only(value: Any) -> Any:
    if not isinstance(value, date):
        raise ValueError(value)
    return value


def _read_date(text: str) -> date:
    """yyyy, yyyy-m or yyyy-m-d, and anything after a space or a T."""
    parts = re.fullmatch(
        r"(\d{4,})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", text.strip(), re.ASCII
    )
    if parts is None:
        raise ValueError(text)
    return date(int(parts[1]), int(parts[2] or 1), int(parts[3] or 1))


def _read_timestamp(text: str) -> datetime:
    """A date, and perhaps a time of day to the microsecond; no zone."""
    form = r"([\d-]+)(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d*)?)?)?"
    parts = re.fullmatch(form, text.strip(), re.ASCII)
    if parts is None:
        raise ValueError(text)
    day, micros = _read_date(parts[1]), (parts[5] or "").ljust(6, "0")
    hour, minute, second = (int(parts[i] or 0) for i in (2, 3, 4))
    return datetime(day.year, day.month, day.day, hour, minute, second, int(micros))


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ")
        return text.rstrip("0") if "." in text else text
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


def _double_text(value: float) -> str:
    """Java's shortest form: plain between 10^-3 and 10^7, else d.dE±n."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "e" not in text else f"{Decimal(text):f}"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{exponent + len(digits) - 1}"


SCALARS["cast"] = Scalar(
    "cast", lambda _: None, lambda r, ts, v: cast(v, ts[0], r), strict=True, arity=(1, 1)
)


@scalar("try_cast", lambda _: None)
def _(r: KeyType, types: tuple[KeyType, ...], value: Any) -> Any:
    try:
        return cast(value, types[0], r)
    except ScalarError:
        return None


@scalar("round", lambda ts: DOUBLE if ts[0] == VOID else ts[0] if is_numeric(ts[0]) else None)
def _(r: KeyType, types: tuple[KeyType, ...], value: Any, digits: int = 0) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return value
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return fit(r, exact.quantize(Decimal(1).scaleb(-digits), context=EXACT))


# --- Python's own ---------------------------------------------------------------------------------------


def _quotient_type(types: tuple[KeyType, ...]) -> KeyType | None:
    """Decimals divide into whole decimals with room for the quotient's digits; the rest is as for %."""
    whole = arithmetic_type("/")(types)
    if isinstance(whole, Base) and whole.name == "decimal":
        return bounded(whole.precision - whole.scale + 1, 0)
    return arithmetic_type("%")(types)


@scalar("py_floordiv", _quotient_type)
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    if b == 0:
        raise division_by_zero()
    a, b = operands(r, a, b)
    return fit(r, a // b)


@scalar("py_strip", lambda ts: STRING if ts == (STRING,) else None)
def _(_r: KeyType, _: Any, s: str) -> str:
    return s.strip()  # all white space of Unicode, where Spark's trim takes only spaces


@scalar("py_mod", arithmetic_type("%"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    if b == 0:
        raise division_by_zero()
    a, b = operands(r, a, b)
    return fit(r, a % b)


@scalar("_exact", lambda ts: EXACTLY if all(map(is_numeric, ts)) else None)
def _(_r: KeyType, types: tuple[Any, ...], *values: Any) -> Dyadic:
    """The product of numbers, as a summand that nothing rounds; decimals count in units of their last digit."""
    units = [int(v.scaleb(t.scale, EXACT)) if isinstance(v, Decimal) else v
             for v, t in zip(values, types, strict=True)]  # fmt: skip
    return Dyadic.of(*units)


@scalar("py_present", lambda ts: ts[0], strict=False)
def _(_r: KeyType, _: Any, value: Any, message: Any = None) -> Any:
    if value is None:
        raise ScalarError("min() or max() of an empty collection", hint="give default= a value")
    return value
