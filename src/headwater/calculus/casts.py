"""CAST in ANSI mode: what a value is in another type, or an error."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from headwater.calculus.scalars import SCALARS, Scalar, fit, scalar
from headwater.calculus.times import day_of
from headwater.calculus.types import INTEGRAL, Base, KeyType
from headwater.errors import ScalarError


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
            return _read_date(value) if isinstance(value, str) else day_of(_moment_only(value))
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
        return double_text(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


def double_text(value: float) -> str:
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
