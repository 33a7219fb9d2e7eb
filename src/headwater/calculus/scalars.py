"""The scalar functions that the calculus knows, with Spark's ANSI meaning.

Each is one row of `SCALARS`: a rule that gives the result type from the argument types, and the
function on Python values. Unless a row says `strict=False`, a NULL argument gives NULL. A function
that is not listed is opaque: a call of it carries its type, and the interpreter has no meaning for
it unless one is registered with `register`.

The rows whose names start with `py_` are for comprehensions, which mean what Python means where
Python and Spark differ: equality of None, the sign of a remainder, floor division.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from headwater.calculus.ring import number
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTEGRAL,
    STRING,
    TIMESTAMP,
    VOID,
    Base,
    KeyType,
    decimal,
    is_numeric,
)
from headwater.errors import ScalarError

EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
QUOTIENT = Context(prec=39, rounding=ROUND_HALF_UP)
"""Spark divides decimals to 38 digits and one more before it rounds to the result's scale."""

TypeRule = Callable[[tuple[KeyType, ...]], KeyType | None]


@dataclass(frozen=True)
class Scalar:
    """A scalar function: its type rule, its meaning, and whether NULL in gives NULL out."""

    name: str
    types: TypeRule
    apply: Callable[..., Any]
    strict: bool = True


SCALARS: dict[str, Scalar] = {}


def scalar(
    name: str, types: TypeRule, strict: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a row to `SCALARS`; the function gets (result type, argument types, *values)."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        SCALARS[name] = Scalar(name, types, f, strict)
        return f

    return add


def register(name: str, returns: KeyType, f: Callable[..., Any]) -> None:
    """Gives an opaque function a meaning in the interpreter: a Python function of Python values."""
    SCALARS[name] = Scalar(name, lambda _: returns, lambda _r, _a, *values: f(*values), strict=False)


def evaluate(name: str, result: KeyType, arg_types: tuple[KeyType, ...], args: Sequence[Any]) -> Any:
    """The value of a listed function."""
    row = SCALARS[name]
    if row.strict and any(a is None for a in args):
        return None
    return number(row.apply(result, arg_types, *args))


# --- numeric types -----------------------------------------------------------------------------------

_AS_DECIMAL = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (20, 0)}


def as_decimal(t: Base) -> tuple[int, int]:
    """Precision and scale of a number type seen as a decimal."""
    return _AS_DECIMAL.get(t.name, (t.precision, t.scale))


def bounded(precision: int, scale: int) -> Base:
    """decimal(p, s) within 38 digits: digits before the point are kept, and at least 6 after it."""
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return decimal(precision, scale)


def common_type(a: KeyType, b: KeyType) -> KeyType | None:
    """The type that both can be cast to without loss, as Spark's ANSI coercion has it; None if none."""
    if a == b or b == VOID:
        return a
    if a == VOID:
        return b
    if not (isinstance(a, Base) and isinstance(b, Base)):
        return None
    if is_numeric(a) and is_numeric(b):
        names = {a.name, b.name}
        if names <= set(INTEGRAL):
            return max((a, b), key=lambda t: INTEGRAL[t.name])
        if names & {"double", "float"}:
            return a if names == {"float"} else DOUBLE
        (p1, s1), (p2, s2) = as_decimal(a), as_decimal(b)
        s = max(s1, s2)
        return bounded(max(p1 - s1, p2 - s2) + s, s)
    if {a.name, b.name} == {"date", "timestamp"}:
        return TIMESTAMP
    return None


def _all(types: tuple[KeyType, ...]) -> KeyType | None:
    out: KeyType | None = VOID
    for t in types:
        out = None if out is None else common_type(out, t)
    return out


def _arithmetic(op: str) -> TypeRule:
    def rule(types: tuple[KeyType, ...]) -> KeyType | None:
        a, b = types
        if a == VOID and b == VOID:
            return DOUBLE
        if a == VOID or b == VOID:
            a = b = b if a == VOID else a
        common = common_type(a, b)
        if common is None or not is_numeric(common):
            return None
        assert isinstance(a, Base) and isinstance(b, Base) and isinstance(common, Base)
        if common.name != "decimal":
            return DOUBLE if op == "/" and common.name in INTEGRAL else common
        (p1, s1), (p2, s2) = as_decimal(a), as_decimal(b)
        match op:
            case "+" | "-":
                s = max(s1, s2)
                return bounded(s + max(p1 - s1, p2 - s2) + 1, s)
            case "*":
                return bounded(p1 + p2 + 1, s1 + s2)
            case "/":
                s = max(6, s1 + p2 + 1)
                return bounded(p1 - s1 + s2 + s, s)
            case _:
                s = max(s1, s2)
                return bounded(min(p1 - s1, p2 - s2) + s, s)

    return rule


def fit(t: KeyType, value: Any) -> Any:
    """A number as a value of type t: rounded to its scale, and an error where it does not fit."""
    if value is None or not isinstance(t, Base):
        return value
    if t.name in INTEGRAL:
        bits = INTEGRAL[t.name]
        if not -(1 << (bits - 1)) <= value < (1 << (bits - 1)):
            raise ScalarError(f"{value} does not fit into {t}", hint="cast to a wider type first")
        return int(value)
    if t.name == "decimal":
        exact = Decimal(value) if not isinstance(value, float) else Decimal(repr(value))
        rounded = exact.quantize(Decimal(1).scaleb(-t.scale), context=EXACT)
        if abs(rounded) >= Decimal(10) ** (t.precision - t.scale):
            raise ScalarError(f"{value} does not fit into {t}", hint="cast to a wider type first")
        return rounded
    if t.name == "double":
        return float(value)
    if t.name == "float":
        return struct.unpack("f", struct.pack("f", float(value)))[0]
    return value


def _numbers(r: KeyType, *values: Any) -> tuple[Any, ...]:
    """Operands in the arithmetic of the result type."""
    if isinstance(r, Base) and r.name in ("double", "float"):
        return tuple(float(v) for v in values)
    if isinstance(r, Base) and r.name == "decimal":
        return tuple(Decimal(v) for v in values)
    return values


def _by_zero() -> ScalarError:
    return ScalarError("division by zero", hint="guard the divisor, for example with nullif(divisor, 0)")


@scalar("+", _arithmetic("+"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    a, b = _numbers(r, a, b)
    return fit(r, EXACT.add(a, b) if isinstance(a, Decimal) else a + b)


@scalar("-", _arithmetic("-"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    a, b = _numbers(r, a, b)
    return fit(r, EXACT.subtract(a, b) if isinstance(a, Decimal) else a - b)


@scalar("*", _arithmetic("*"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    a, b = _numbers(r, a, b)
    return fit(r, EXACT.multiply(a, b) if isinstance(a, Decimal) else a * b)


@scalar("/", _arithmetic("/"))
def divide(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    if b == 0:
        raise _by_zero()
    a, b = _numbers(r, a, b)
    return fit(r, QUOTIENT.divide(a, b) if isinstance(a, Decimal) else a / b)


@scalar("%", _arithmetic("%"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    if b == 0:
        raise _by_zero()
    a, b = _numbers(r, a, b)
    if isinstance(a, Decimal):
        return fit(r, EXACT.remainder(a, b))
    return math.fmod(a, b) if isinstance(a, float) else int(math.copysign(abs(a) % abs(b), a))


def _integral(types: tuple[KeyType, ...]) -> KeyType | None:
    common = _all(types)
    return BIGINT if isinstance(common, Base) and common.name in INTEGRAL else None


@scalar("div", _integral)
def _(r: KeyType, _: Any, a: int, b: int) -> Any:
    if b == 0:
        raise _by_zero()
    return fit(r, abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def _number(types: tuple[KeyType, ...]) -> KeyType | None:
    return types[0] if is_numeric(types[0]) else None


@scalar("negate", _number)
def _(r: KeyType, _: Any, a: Any) -> Any:
    return fit(r, -a)


@scalar("abs", _number)
def _(r: KeyType, _: Any, a: Any) -> Any:
    return fit(r, abs(a))


@scalar("sign", lambda ts: DOUBLE if is_numeric(ts[0]) else None)
def _(_r: KeyType, _: Any, a: Any) -> float:
    return float((a > 0) - (a < 0))


def _whole(types: tuple[KeyType, ...]) -> KeyType | None:
    t = types[0]
    if not is_numeric(t) or not isinstance(t, Base):
        return None
    if t.name == "decimal":
        return bounded(t.precision - t.scale + (1 if t.scale else 0), 0)
    return BIGINT


@scalar("floor", _whole)
def _(r: KeyType, _: Any, a: Any) -> Any:
    return fit(r, math.floor(a))


@scalar("ceil", _whole)
def _(r: KeyType, _: Any, a: Any) -> Any:
    return fit(r, math.ceil(a))


@scalar("sqrt", lambda ts: DOUBLE if is_numeric(ts[0]) else None)
def _(_r: KeyType, _: Any, a: Any) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


@scalar("power", lambda ts: DOUBLE if all(map(is_numeric, ts)) else None)
def _(_r: KeyType, _: Any, a: Any, b: Any) -> float:
    return float(math.pow(a, b))


def extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    """Least and greatest skip NULLs."""

    def apply(r: KeyType, _: Any, *values: Any) -> Any:
        present = [v for v in values if v is not None]
        return fit(r, pick(present, key=order)) if present else None

    return apply


SCALARS["greatest"] = Scalar("greatest", _all, extreme(max), strict=False)
SCALARS["least"] = Scalar("least", _all, extreme(min), strict=False)


# --- comparison and logic -----------------------------------------------------------------------------


def order(value: Any) -> tuple[Any, ...]:
    """A sort key with Spark's total order: NULL first, NaN last, records field by field."""
    if value is None:
        return (0,)
    if isinstance(value, tuple):
        return (1, *(order(v) for v in value))
    if isinstance(value, float) and value != value:
        return (2,)
    if isinstance(value, dict):
        return (1, *sorted((order(k), order(v)) for k, v in value.items()))
    return (1, value)


def _comparable(types: tuple[KeyType, ...]) -> KeyType | None:
    return BOOLEAN if _all(types) is not None else None


def _compare(name: str, test: Callable[[Any, Any], bool]) -> None:
    @scalar(name, _comparable)
    def _(_r: KeyType, _t: Any, a: Any, b: Any) -> bool:
        return test(order(a), order(b))


_compare("=", lambda a, b: a == b)
_compare("<>", lambda a, b: a != b)
_compare("<", lambda a, b: a < b)
_compare("<=", lambda a, b: a <= b)
_compare(">", lambda a, b: a > b)
_compare(">=", lambda a, b: a >= b)


@scalar("<=>", _comparable, strict=False)
def _(_r: KeyType, _: Any, a: Any, b: Any) -> bool:
    return order(a) == order(b)


def _booleans(types: tuple[KeyType, ...]) -> KeyType | None:
    return BOOLEAN if all(t in (BOOLEAN, VOID) for t in types) else None


@scalar("and", _booleans, strict=False)
def _(_r: KeyType, _: Any, *values: Any) -> bool | None:
    return False if False in values else None if None in values else True


@scalar("or", _booleans, strict=False)
def _(_r: KeyType, _: Any, *values: Any) -> bool | None:
    return True if True in values else None if None in values else False


@scalar("not", _booleans)
def _(_r: KeyType, _: Any, a: bool) -> bool:
    return not a


@scalar("is_null", lambda _: BOOLEAN, strict=False)
def _(_r: KeyType, _: Any, a: Any) -> bool:
    return a is None


@scalar("is_not_null", lambda _: BOOLEAN, strict=False)
def _(_r: KeyType, _: Any, a: Any) -> bool:
    return a is not None


@scalar("coalesce", _all, strict=False)
def _(r: KeyType, _: Any, *values: Any) -> Any:
    return fit(r, next((v for v in values if v is not None), None))


@scalar("nullif", lambda ts: ts[0] if _all(ts) is not None else None, strict=False)
def _(_r: KeyType, _: Any, a: Any, b: Any) -> Any:
    return None if a is not None and b is not None and order(a) == order(b) else a


def _case(types: tuple[KeyType, ...]) -> KeyType | None:
    conditions, results = types[:-1:2], (*types[1::2], types[-1])
    return _all(results) if all(c in (BOOLEAN, VOID) for c in conditions) else None


# `case` and `if` are evaluated by the interpreter, branch by branch, so that a guard guards.
SCALARS["case"] = Scalar("case", _case, lambda *_: None, strict=False)


# --- strings --------------------------------------------------------------------------------------------


def _strings(result: KeyType, *rest: KeyType) -> TypeRule:
    """The first arguments are strings and the others have the given types; VOID fits everywhere."""

    def rule(types: tuple[KeyType, ...]) -> KeyType | None:
        wanted = (STRING,) * (len(types) - len(rest)) + rest
        ok = all(
            t in (w, VOID) or (w == INTEGER and isinstance(t, Base) and t.name in INTEGRAL)
            for t, w in zip(types, wanted, strict=True)
        )
        return result if ok else None

    return rule


def _string(name: str, result: KeyType, f: Callable[..., Any], *rest: KeyType) -> None:
    SCALARS[name] = Scalar(name, _strings(result, *rest), lambda _r, _t, *values: f(*values))


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
_string("concat", STRING, lambda *parts: "".join(parts))
_string("replace", STRING, lambda s, a, b: s.replace(a, b) if a else s)
_string("startswith", BOOLEAN, str.startswith)
_string("endswith", BOOLEAN, str.endswith)
_string("contains", BOOLEAN, lambda s, t: t in s)
_string("instr", INTEGER, lambda s, t: s.find(t) + 1)
_string("like", BOOLEAN, like)
_string("reverse", STRING, lambda s: s[::-1])
_string("left", STRING, lambda s, n: s[: max(n, 0)], INTEGER)
_string("right", STRING, lambda s, n: s[-n:] if n > 0 else "", INTEGER)
_string("repeat", STRING, lambda s, n: s * max(n, 0), INTEGER)
_string("substring", STRING, substring, INTEGER, INTEGER)


# --- dates ----------------------------------------------------------------------------------------------


def _moment(result: KeyType, *rest: KeyType) -> TypeRule:
    def rule(types: tuple[KeyType, ...]) -> KeyType | None:
        ok = types[0] in (DATE, TIMESTAMP, Base("timestamp_ntz"), VOID)
        ok = ok and all(
            t in (w, VOID) or (w == INTEGER and isinstance(t, Base) and t.name in INTEGRAL)
            for t, w in zip(types[1:], rest, strict=False)
        )
        return result if ok and len(types) == 1 + len(rest) else None

    return rule


def _date(name: str, result: KeyType, f: Callable[..., Any], *rest: KeyType) -> None:
    SCALARS[name] = Scalar(name, _moment(result, *rest), lambda _r, _t, *values: f(*values))


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
            return date.fromisoformat(value.strip()) if isinstance(value, str) else _day(value)
        case "timestamp" | "timestamp_ntz":
            if isinstance(value, str):
                return datetime.fromisoformat(value.strip())
            return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        case name if name in INTEGRAL:
            if isinstance(value, str):
                value = int(Decimal(value.strip())) if "." in value else int(value.strip())
            return fit(target, math.trunc(value))
        case "decimal":
            return fit(target, Decimal(value.strip()) if isinstance(value, str) else value)
        case "double" | "float":
            return fit(target, float(value.strip()) if isinstance(value, str) else value)
        case _:
            return value


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


SCALARS["cast"] = Scalar("cast", lambda _: None, lambda r, ts, v: cast(v, ts[0], r))


@scalar("try_cast", lambda _: None)
def _(r: KeyType, types: tuple[KeyType, ...], value: Any) -> Any:
    try:
        return cast(value, types[0], r)
    except ScalarError:
        return None


@scalar("round", lambda ts: ts[0] if is_numeric(ts[0]) else None)
def _(r: KeyType, types: tuple[KeyType, ...], value: Any, digits: int = 0) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return value
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return fit(r, exact.quantize(Decimal(1).scaleb(-digits), context=EXACT))


# --- Python's own ---------------------------------------------------------------------------------------


@scalar("py_floordiv", _arithmetic("%"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    if b == 0:
        raise _by_zero()
    a, b = _numbers(r, a, b)
    return fit(r, a // b)


@scalar("py_mod", _arithmetic("%"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    if b == 0:
        raise _by_zero()
    a, b = _numbers(r, a, b)
    return fit(r, a % b)


@scalar("py_present", lambda ts: ts[0], strict=False)
def _(_r: KeyType, _: Any, value: Any, message: Any = None) -> Any:
    if value is None:
        raise ScalarError("min() or max() of an empty collection", hint="give default= a value")
    return value
