"""Numbers: rounding, whole parts, and the form of a double as text.

Spark rounds a double by the digits of its text, half away from zero. Here a scaled double is rounded, and where it lies
so near to a half that its last bits decide, its digits are taken: Python's shortest ones, which are Java's between
10^-6 and 10^15. Elsewhere Java may show more digits, and Spark is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus import fdlibm
from headwater.calculus.scalars import EXACT
from headwater.engine.here.scalars.base import (
    Array,
    ArrowCannot,
    Column,
    Node,
    columnar,
    constant,
    floats,
    ints,
    made,
    require,
)

LEAST_TOLD, MOST_TOLD = 1e-6, 1e15
"""Between these Java 17 tells a double by its shortest digits, as was tried with millions of them."""


def told(value: float) -> bool:
    """Whether Java's digits of a double are Python's."""
    return value == 0 or not math.isfinite(value) or LEAST_TOLD <= abs(value) < MOST_TOLD


# --- rounding -----------------------------------------------------------------------------------------------


def _rounded_text(value: float, digits: int) -> float:
    """A double rounded by its digits."""
    if not told(value):
        raise ArrowCannot(f"Java's digits of {value} may be others")
    exact = Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), context=EXACT)
    return float(exact) + 0.0


def rounded_doubles(values: Array, digits: int) -> Array:
    """Doubles rounded half away from zero, with at most 15 places; 0.0 has no sign."""
    scale = 10.0**digits
    with np.errstate(all="ignore"):
        size = np.abs(values)
        scaled = size * scale
        whole = np.floor(scaled + 0.5)
        out = np.copysign(whole / scale, values) + 0.0
        near = np.abs(scaled - np.floor(scaled) - 0.5) <= scaled * 1e-15 + 1e-300
        plain = np.isfinite(values) & (scaled < 2.0**51)
    out = np.where(np.isfinite(values), out, values)
    for i in np.nonzero((near | ~plain) & np.isfinite(values))[0]:
        out[i] = _unscaled(float(values[i]), digits)
    return out


def _unscaled(value: float, digits: int) -> float:
    """Where the digits decide; what has no bits after the last place stays."""
    if abs(value) >= 2.0**52 and digits >= 0:
        # A whole number; its digits may be Java's longer ones, but all of them give the same double.
        return value
    return _rounded_text(value, digits)


@columnar
def _round(t: pa.DataType, a: pa.Array, digits: Column) -> pa.Array:
    """round(a, digits)."""
    n = constant(digits)
    if n is None:
        return pa.nulls(len(a), t)
    if pa.types.is_decimal(a.type):
        return _round_decimal(t, a, n)
    if pa.types.is_integer(a.type):
        return a if n >= 0 else _round_whole(t, a, n)
    if not 0 <= n <= 15:
        raise ArrowCannot("a double rounded to other places")
    return made(rounded_doubles(floats(a), n), a, t)


def _round_whole(t: pa.DataType, a: pa.Array, digits: int) -> pa.Array:
    if digits < -18:
        raise ArrowCannot("rounded to more digits than a bigint has")
    unit, values = 10**-digits, ints(a)
    require(np.abs(values // 2) < 2**62 - unit, a, "perhaps an overflow")
    size = np.abs(values)
    out = np.sign(values) * ((size + unit // 2) // unit * unit)
    return made(out, a, pa.int64()).cast(t)


def _round_decimal(t: pa.DataType, a: pa.Array, digits: int) -> pa.Array:
    wide = a.cast(pa.decimal256(min(76, a.type.precision + 2), a.type.scale))
    if digits < a.type.scale:
        wide = pc.round(wide, digits, "half_towards_infinity")
    return wide.cast(t)


# --- whole parts ----------------------------------------------------------------------------------------------


def _whole(name: str) -> Node:
    """floor or ceil; a double that is too large is an error."""
    numpy = {"floor": np.floor, "ceil": np.ceil}[name]

    def node(t: pa.DataType, a: pa.Array) -> pa.Array:
        if pa.types.is_integer(a.type):
            return a.cast(t)
        if pa.types.is_decimal(a.type):
            wide = a.cast(pa.decimal256(min(76, a.type.precision + 1), a.type.scale))
            return getattr(pc, name)(wide).cast(t)
        values = numpy(floats(a))
        inside = (values >= -(2.0**63)) & (values < 2.0**63)
        require(inside, a, "a number that does not fit")
        return made(np.where(inside, values, 0).astype(np.int64), a, t)

    return columnar(node)


@columnar
def _sign(t: pa.DataType, a: pa.Array) -> pa.Array:
    """1.0, -1.0, and a zero or NaN as it is."""
    values = floats(a)
    return made(np.where((values == 0) | np.isnan(values), values, np.sign(values)), a, t)


@columnar
def _sqrt(t: pa.DataType, a: pa.Array) -> pa.Array:
    with np.errstate(invalid="ignore"):
        return made(np.sqrt(floats(a)), a, t)


@columnar
def _rint(t: pa.DataType, a: pa.Array) -> pa.Array:
    return made(np.rint(floats(a)), a, t)


def _strict(f: Callable[..., Array], positive: bool = False) -> Node:
    """A function of doubles of Java's StrictMath; NULL where a logarithm has none."""

    def node(t: pa.DataType, a: pa.Array, *rest: Column) -> pa.Array:
        columns = [pa.repeat(r, len(a)) if isinstance(r, pa.Scalar) else r for r in (a, *rest)]
        values = [floats(c) for c in columns]
        out = f(*values)
        none = np.zeros(len(a), bool)
        for column, v in zip(columns, values, strict=True):
            none |= np.asarray(column.is_null())
            none |= positive & (v <= 0)
        return pa.array(out, t, mask=none)

    return columnar(node)


def _positive_modulo(t: pa.DataType, a: Column, b: Column) -> Column:
    """pmod of integers: the remainder with the divisor's sign where Spark adds it."""
    rest = pc.subtract(a, pc.multiply(pc.divide_checked(a, b), b))
    again = pc.add_checked(rest, b)
    again = pc.subtract(again, pc.multiply(pc.divide_checked(again, b), b))
    return pc.if_else(pc.less(rest, pa.scalar(0, rest.type)), again, rest)


def _opposed(rest: Column, b: Column) -> Column:
    """Where Python's quotient, which is rounded down, is one less than Java's, which is cut off."""
    none = pa.scalar(0, rest.type)
    apart = pc.xor(pc.less(rest, none), pc.less(b, pa.scalar(0, b.type)))
    return pc.and_(pc.not_equal(rest, none), apart)


def _floor_divide(t: pa.DataType, a: Column, b: Column) -> Column:
    """a // b of integers."""
    whole = pc.divide_checked(a, b)
    less = _opposed(pc.subtract(a, pc.multiply(whole, b)), b)
    return pc.subtract(whole, less.cast(pa.int8()).cast(t))


def _floor_modulo(t: pa.DataType, a: Column, b: Column) -> Column:
    """a % b of integers: the rest has the divisor's sign."""
    rest = pc.subtract(a, pc.multiply(pc.divide_checked(a, b), b))
    return pc.if_else(_opposed(rest, b), pc.add(rest, b), rest)


NODES: dict[str, Node] = {
    "round": _round,
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "sign": _sign,
    "sqrt": _sqrt,
    "rint": _rint,
    "exp": _strict(fdlibm.exp),
    "power": _strict(fdlibm.power),
    "ln": _strict(fdlibm.log, positive=True),
    "log": _strict(fdlibm.log_to, positive=True),
    "log2": _strict(lambda a: fdlibm.log_to(np.array([2.0]), a), positive=True),
    "log10": _strict(fdlibm.log10, positive=True),
    "pmod": _positive_modulo,
    "py_floordiv": _floor_divide,
    "py_mod": _floor_modulo,
    "isnan": lambda _, a: pc.fill_null(pc.is_nan(a), False),
    "nanvl": lambda _, a, b: pc.if_else(pc.fill_null(pc.is_nan(a), False), b, a),
}
