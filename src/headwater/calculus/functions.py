"""Rounding, logarithms and powers, and functions that mean what Python means; all other rows of `SCALARS` join by being imported.

Those whose names start with `py_` are for comprehensions, which mean what Python means where Python and Spark
differ: the sign of a remainder, floor division, an empty min.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

import headwater.calculus.casts
import headwater.calculus.formats
import headwater.calculus.jsonpath
import headwater.calculus.texts
import headwater.calculus.times  # noqa: F401  (their rows join SCALARS)
from headwater.calculus import fdlibm
from headwater.calculus.dyadic import Dyadic
from headwater.calculus.scalars import (
    EXACT,
    arithmetic_type,
    bounded,
    division_by_zero,
    fit,
    operands,
    scalar,
)
from headwater.calculus.types import (
    BOOLEAN,
    DOUBLE,
    EXACTLY,
    STRING,
    VOID,
    Base,
    KeyType,
    is_numeric,
)
from headwater.errors import ScalarError


@scalar("round", lambda ts: DOUBLE if ts[0] == VOID else ts[0] if is_numeric(ts[0]) else None)
def _(r: KeyType, types: tuple[KeyType, ...], value: Any, digits: int = 0) -> Any:
    if isinstance(value, float) and (
        not math.isfinite(value) or (digits >= 0 and abs(value) >= 2**53)
    ):
        return value
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return fit(r, exact.quantize(Decimal(1).scaleb(-digits), context=EXACT))


@scalar("rint", lambda ts: DOUBLE if is_numeric(ts[0]) else None)
def _(_r: KeyType, _: Any, a: Any) -> float:
    """The nearest whole double, the even one of two."""
    a = float(a)
    return a if not math.isfinite(a) or abs(a) >= 2.0**52 else math.copysign(round(a), a)


@scalar("isnan", lambda ts: BOOLEAN if is_numeric(ts[0]) else None, strict=False)
def _(_r: KeyType, _: Any, a: Any) -> bool:
    return a is not None and a != a


@scalar("nanvl", lambda ts: DOUBLE if all(map(is_numeric, ts)) else None, strict=False)
def _(_r: KeyType, _: Any, a: Any, b: Any) -> Any:
    if a is None:
        return None
    return float(a) if a == a else None if b is None else float(b)


@scalar("pmod", arithmetic_type("%"))
def _(r: KeyType, _: Any, a: Any, b: Any) -> Any:
    """A remainder that is not negative where the divisor is not."""
    if b == 0:
        raise division_by_zero()
    a, b = operands(r, a, b)
    if isinstance(a, float):
        rest = math.fmod(a, b)
        return math.fmod(rest + b, b) if rest < 0 else rest
    rest = abs(a) % abs(b) * (1 if a >= 0 else -1)
    again = rest + b
    return fit(r, abs(again) % abs(b) * (1 if again >= 0 else -1) if rest < 0 else rest)


# --- logarithms and powers, to Java's last bit ---------------------------------------------------------------


def _doubles(types: tuple[KeyType, ...]) -> KeyType | None:
    return DOUBLE if all(map(is_numeric, types)) else None


def _strict(f: Callable[..., Any], *values: Any) -> float:
    return float(f(*(np.array([float(v)]) for v in values))[0])


@scalar("exp", _doubles)
def _(_r: KeyType, _: Any, a: Any) -> float:
    return _strict(fdlibm.exp, a)


@scalar("power", _doubles)
def _(_r: KeyType, _: Any, a: Any, b: Any) -> float:
    return _strict(fdlibm.power, a, b)


@scalar("ln", _doubles)
def _(_r: KeyType, _: Any, a: Any) -> float | None:
    return None if a <= 0 else _strict(fdlibm.log, a)


@scalar("log10", _doubles)
def _(_r: KeyType, _: Any, a: Any) -> float | None:
    return None if a <= 0 else _strict(fdlibm.log10, a)


@scalar("log", _doubles)
def _(_r: KeyType, _: Any, base: Any, a: Any) -> float | None:
    """The logarithm to a base; NULL where there is none, as for all logarithms."""
    return None if a <= 0 or base <= 0 else _strict(fdlibm.log_to, base, a)


@scalar("log2", _doubles)
def _(_r: KeyType, _: Any, a: Any) -> float | None:
    return None if a <= 0 else _strict(fdlibm.log_to, 2, a)


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
        raise ScalarError(
            "min(), max() or mode() of an empty collection", hint="give default= a value"
        )
    return value
