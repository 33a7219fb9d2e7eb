"""The scalar functions that the calculus knows, with Spark's ANSI meaning.

Each is one row of `SCALARS`: a rule that gives the result type from the argument types, and the
function on Python values. Unless a row says `strict=False`, a NULL argument gives NULL. A function
that is not listed is opaque: a call of it carries its type, and the interpreter has no meaning for
it unless one is registered with `register`. An expression that only Spark knows is such a function,
whose name is its text.
"""

from __future__ import annotations

import inspect
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from headwater.calculus.ring import number
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGRAL,
    TIMESTAMP,
    VOID,
    Base,
    KeyType,
    ListType,
    decimal,
    is_numeric,
)
from headwater.errors import ScalarError

EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
"""Digits enough for each sum, product and quotient of decimals; a result is rounded once, to its own places."""

SPARK_TEXT = "spark:"
"""How the name of a function begins that is Spark's text with a hole `{0}`, `{1}`, ... for each argument."""
OR_EMPTY = f"{SPARK_TEXT}coalesce({{0}}, array())"
"""An array, or the empty one in the place of NULL."""
AS_BAG = f"{SPARK_TEXT}{{0}}"
"""An array whose elements become rows."""

TypeRule = Callable[[tuple[KeyType, ...]], KeyType | None]


@dataclass(frozen=True)
class Scalar:
    """A scalar function: its type rule, its meaning, and whether NULL in gives NULL out.

    `arity` is how many arguments it takes, from ... to; None for any number.
    """

    name: str
    types: TypeRule
    apply: Callable[..., Any]
    strict: bool = True
    arity: tuple[int, int | None] = (1, None)

    def takes(self, count: int) -> bool:
        """Whether it can be called with this number of arguments."""
        least, most = self.arity
        return least <= count and (most is None or count <= most)

    def counted(self) -> str:
        """The number of its arguments, in words."""
        least, most = self.arity
        if most is None:
            return f"at least {least} arguments"
        return f"{least} arguments" if least == most else f"{least} to {most} arguments"


def arity_of(f: Callable[..., Any], first: int = 0) -> tuple[int, int | None]:
    """How many positional arguments a function takes, without the first few."""
    kinds = list(inspect.signature(f).parameters.values())[first:]
    if any(p.kind is p.VAR_POSITIONAL for p in kinds):
        return sum(p.default is p.empty for p in kinds) - 1 or 1, None
    return sum(p.default is p.empty for p in kinds), len(kinds)


SCALARS: dict[str, Scalar] = {}


def scalar(
    name: str, types: TypeRule, strict: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a row to `SCALARS`; the function gets (result type, argument types, *values)."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        SCALARS[name] = Scalar(name, types, f, strict, arity_of(f, 2))
        return f

    return add


def register(name: str, returns: KeyType, f: Callable[..., Any]) -> None:
    """Gives an opaque function a meaning in the interpreter: a Python function of Python values."""
    SCALARS[name] = Scalar(
        name, lambda _: returns, lambda _r, _a, *values: f(*values), False, arity_of(f)
    )


def evaluate(
    name: str, result: KeyType, arg_types: tuple[KeyType, ...], args: Sequence[Any]
) -> Any:
    """The value of a listed function."""
    row = SCALARS[name]
    if row.strict and any(a is None for a in args):
        return None
    try:
        return number(row.apply(result, arg_types, *args))
    except (ArithmeticError, ValueError) as e:
        shown = ", ".join(map(repr, args))
        raise ScalarError(f"{name}({shown}) has no value: {e}") from e


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


def arithmetic_type(op: str) -> TypeRule:
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
        if rounded.copy_abs() >= Decimal(10) ** (t.precision - t.scale):
            raise ScalarError(f"{value} does not fit into {t}", hint="cast to a wider type first")
        return rounded
    if t.name == "double":
        return float(value)
    if t.name == "float":
        return struct.unpack("f", struct.pack("f", float(value)))[0]
    return value


def operands(r: KeyType, *values: Any) -> tuple[Any, ...]:
    """Operands in the arithmetic of the result type."""
    if isinstance(r, Base) and r.name in ("double", "float"):
        return tuple(float(v) for v in values)
    if isinstance(r, Base) and r.name == "decimal":
        return tuple(Decimal(v) for v in values)
    return values


def division_by_zero() -> ScalarError:
    return ScalarError(
        "division by zero", hint="guard the divisor, for example with nullif(divisor, 0)"
    )


@scalar("+", arithmetic_type("+"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    a, b = operands(r, a, b)
    return fit(r, EXACT.add(a, b) if isinstance(a, Decimal) else a + b)


@scalar("-", arithmetic_type("-"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    a, b = operands(r, a, b)
    return fit(r, EXACT.subtract(a, b) if isinstance(a, Decimal) else a - b)


@scalar("*", arithmetic_type("*"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    a, b = operands(r, a, b)
    return fit(r, EXACT.multiply(a, b) if isinstance(a, Decimal) else a * b)


@scalar("/", arithmetic_type("/"))
def divide(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    if b == 0:
        raise division_by_zero()
    a, b = operands(r, a, b)
    return fit(r, EXACT.divide(a, b) if isinstance(a, Decimal) else a / b)


@scalar("%", arithmetic_type("%"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    if b == 0:
        raise division_by_zero()
    a, b = operands(r, a, b)
    if isinstance(a, Decimal):
        return fit(r, EXACT.remainder(a, b))
    if isinstance(a, float):
        return math.fmod(a, b) if math.isfinite(a) else math.nan
    return abs(a) % abs(b) * (1 if a >= 0 else -1)


def _integral(types: tuple[KeyType, ...]) -> KeyType | None:
    common = _all(types)
    return BIGINT if isinstance(common, Base) and common.name in INTEGRAL else None


@scalar("div", _integral)
def _(r: KeyType, _: Any, a: int, b: int) -> Any:
    if b == 0:
        raise division_by_zero()
    return fit(r, abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def _number(types: tuple[KeyType, ...]) -> KeyType | None:
    if types[0] == VOID:
        return DOUBLE
    return types[0] if is_numeric(types[0]) else None


@scalar("negate", _number)
def _(r: KeyType, _: Any, a: Any) -> Any:
    return fit(r, -a)


@scalar("abs", _number)
def _(r: KeyType, _: Any, a: Any) -> Any:
    return fit(r, abs(a))


@scalar("sign", lambda ts: DOUBLE if is_numeric(ts[0]) else None)
def _(_r: KeyType, _: Any, a: Any) -> float:
    return float((a > 0) - (a < 0)) if a == a else math.nan


def _whole(types: tuple[KeyType, ...]) -> KeyType | None:
    t = types[0]
    if not is_numeric(t) or not isinstance(t, Base):
        return None
    if t.name == "decimal":
        return bounded(t.precision - t.scale + (1 if t.scale else 0), 0)
    return BIGINT


def _to_long(a: Any, rounded: Callable[[Any], int]) -> int:
    """A double as a whole number: NaN is 0 as in the JVM, and what is too large is an error."""
    return 0 if isinstance(a, float) and a != a else rounded(a)


@scalar("floor", _whole)
def _(r: KeyType, _: Any, a: Any) -> Any:
    return fit(r, _to_long(a, math.floor))


@scalar("ceil", _whole)
def _(r: KeyType, _: Any, a: Any) -> Any:
    return fit(r, _to_long(a, math.ceil))


@scalar("sqrt", lambda ts: DOUBLE if is_numeric(ts[0]) else None)
def _(_r: KeyType, _: Any, a: Any) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


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


def promoted(value: Any, types: tuple[KeyType, ...]) -> Any:
    """A value in the common type of the operands: a decimal beside a double is a double."""
    common = _all(types)
    if value is None or not isinstance(common, Base):
        return value
    if common.name in ("double", "float"):
        return number(float(value))
    if common == TIMESTAMP and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value


def _compare(name: str, test: Callable[[Any, Any], bool]) -> None:
    @scalar(name, _comparable)
    def _(_r: KeyType, types: tuple[KeyType, ...], a: Any, b: Any) -> bool:
        return test(order(promoted(a, types)), order(promoted(b, types)))


_compare("=", lambda a, b: a == b)
_compare("<>", lambda a, b: a != b)
_compare("<", lambda a, b: a < b)
_compare("<=", lambda a, b: a <= b)
_compare(">", lambda a, b: a > b)
_compare(">=", lambda a, b: a >= b)


@scalar("<=>", _comparable, strict=False)
def _(_r: KeyType, types: tuple[KeyType, ...], a: Any, b: Any) -> bool:
    return order(promoted(a, types)) == order(promoted(b, types))


def _listed(types: tuple[KeyType, ...]) -> KeyType | None:
    value, values = types
    return BOOLEAN if isinstance(values, ListType) and values.element == value else None


@scalar("among", _listed)
def _(_r: KeyType, _: Any, value: Any, values: tuple[Any, ...]) -> bool | None:
    """x IN (a, b, ...) of constants of one type; NULL among them is unknown."""
    return True if number(value) in values else None if None in values else False


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
def _(_r: KeyType, types: tuple[KeyType, ...], a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a
    return None if order(promoted(a, types)) == order(promoted(b, types)) else a


@scalar("one_row", lambda ts: ts[1] if len(ts) == 2 else None, strict=False)
def _(_r: KeyType, _: Any, rows: Any, value: Any) -> Any:
    """A value that came from one row at most."""
    if rows is not None and rows > 1:
        raise ScalarError(
            "a scalar subquery gave more than one row", hint="aggregate it, for example with max()"
        )
    return value


def _case(types: tuple[KeyType, ...]) -> KeyType | None:
    if len(types) % 2 == 0:
        return None
    conditions, results = types[:-1:2], (*types[1::2], types[-1])
    return _all(results) if all(c in (BOOLEAN, VOID) for c in conditions) else None


# `case` and `if` are evaluated by the interpreter, branch by branch, so that a guard guards.
SCALARS["case"] = Scalar("case", _case, lambda *_: None, strict=False, arity=(3, None))
