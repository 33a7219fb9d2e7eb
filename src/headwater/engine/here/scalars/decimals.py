"""Products, quotients and remainders of decimals.

Where 256 bits hold all digits, they are Arrow's. A longer one is taken value by value and rounded once, half up, to the
places that the result has. Some versions of Spark round it to 39 digits before: where that makes another number, Spark
is asked.

    decimal(38, 10) * decimal(38, 10)    a decimal(38, 6), of a product with 20 places
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.scalars import EXACT
from headwater.engine.here.scalars.base import ArrowCannot, Column, columnar, floats
from headwater.engine.here.scalars.casts import fitted

WIDEST = 76
"""The digits of 256 bits."""
SHORT = Context(prec=39, rounding=ROUND_HALF_UP)


def wide(a: Column, more: int = 0) -> Column:
    """A decimal in 256 bits, with so many places more."""
    return a.cast(pa.decimal256(a.type.precision + more, a.type.scale + more))


def multiply(t: pa.DataType, a: Column, b: Column) -> Column:
    """a * b."""
    if a.type.scale + b.type.scale == t.scale and a.type.precision + b.type.precision < WIDEST:
        return fitted(t, pc.multiply(wide(a), wide(b)))
    return _by_value(t, a, b, EXACT.multiply, SHORT.multiply)


def divide(t: pa.DataType, a: Column, b: Column) -> Column:
    """a / b."""
    _check_divisor(a, b)
    x, y = a.type, b.type
    places = max(x.scale + y.precision - y.scale + 1, t.scale + 1, 4)
    once = y.precision + t.scale <= 39 and t.scale >= x.scale - y.scale
    if not once or x.precision - x.scale + y.scale + places > WIDEST:
        return _by_value(t, a, b, EXACT.divide, SHORT.divide)
    # Arrow cuts a quotient off; one digit more than the result's decides how it is rounded.
    more = max(0, t.scale + 1 - (x.scale + y.precision - y.scale + 1))
    return fitted(t, pc.divide(wide(a, more), wide(b)))


def _check_divisor(a: Column, b: Column) -> None:
    """Spark is asked for its error where a number is divided by zero; NULL / 0 is NULL."""
    zero = pc.equal(b, pa.scalar(Decimal(0), b.type))
    if pc.any(pc.and_(pc.is_valid(a), zero)).as_py():
        raise ArrowCannot("division by zero")


def remainder(t: pa.DataType, a: Column, b: Column) -> Column:
    """a % b, with the sign of a."""
    _check_divisor(a, b)
    if a.type.precision - a.type.scale + b.type.scale > 38:
        raise ArrowCannot("perhaps a quotient with more digits than Spark divides to")
    return _by_value(t, a, b, EXACT.remainder, EXACT.remainder)


def _by_value(
    t: pa.DataType,
    a: Column,
    b: Column,
    exact: Callable[[Decimal, Decimal], Decimal],
    short: Callable[[Decimal, Decimal], Decimal],
) -> Column:
    unit, bound = Decimal(1).scaleb(-t.scale), Decimal(10) ** (t.precision - t.scale)

    def value(x: Decimal | None, y: Decimal | None) -> Decimal | None:
        if x is None or y is None:
            return None
        out = exact(x, y).quantize(unit, context=EXACT)
        if out.copy_abs() >= bound or out != short(x, y).quantize(unit, context=EXACT):
            raise ArrowCannot("a number that does not fit, or that is rounded twice")
        return out

    return columnar(lambda t, a, b: pa.array(map(value, *_lists(a, b)), t))(t, a, b)


def _lists(a: pa.Array, b: Column) -> tuple[list[Any], list[Any]]:
    values = a.to_pylist()
    return values, [b.as_py()] * len(values) if isinstance(b, pa.Scalar) else b.to_pylist()


@columnar
def float_remainder(t: pa.DataType, a: pa.Array, b: Column) -> pa.Array:
    """a % b of doubles, with the sign of a."""
    if pc.any(pc.equal(b, pa.scalar(0.0, b.type))).as_py():
        raise ArrowCannot("division by zero")
    divisors = pa.repeat(b, len(a)) if isinstance(b, pa.Scalar) else b
    none = np.asarray(pc.or_(a.is_null(), divisors.is_null()))
    with np.errstate(invalid="ignore"):
        out = np.fmod(floats(a), np.where(none, 1.0, floats(divisors)))
    return pa.array(out, t, mask=none)
