"""Maps of a program as maps on disk: their columns in Arrow's types, and rings as columns that add up.

Int is a 64-bit column, Exact(s) a decimal of 38 digits. Real is four columns: the sum of the finite values and
the counts of NaN, ∞ and -∞, because what was added as a NaN must come out again when it is taken away. `encode`
makes the four from a column of doubles, `decode` the double from the four.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.types import Exact, IntType, RealType, RingType
from headwater.compiler.program import Map
from headwater.engine.types import arrow_type
from headwater.state.run import MapSpec, Order, column

ODD = ("nan", "pos", "neg")
"""What is counted beside the finite part of a Real."""


def spec_of(m: Map) -> MapSpec:
    """The map on disk."""
    return MapSpec(
        m.name,
        tuple((n, arrow_type(t)) for n, t in m.key),
        tuple((n, t) for name, ring in m.ring for n, t in ring_columns(name, ring)),
        m.lookup,
        m.kind,
        tuple(Order(*o) for o in m.order),
    )


def ring_columns(name: str, t: RingType) -> list[tuple[str, pa.DataType]]:
    """The columns of a ring value."""
    match t:
        case IntType():
            return [(name, pa.int64())]
        case Exact(scale):
            return [(name, pa.decimal128(38, scale))]
        case RealType():
            return [(name, pa.float64()), *((f"{name}.{odd}", pa.int64()) for odd in ODD)]
        case _:
            raise AssertionError(f"{t} is no ring of numbers")


def encode(name: str, values: pa.Array) -> dict[str, pa.Array]:
    """A column of doubles as the columns of a Real."""
    x = np.asarray(values.cast(pa.float64()))
    finite = np.isfinite(x)
    if finite.all():
        nothing = pa.array(np.zeros(len(x), np.int64))
        return {name: pa.array(x), **{f"{name}.{odd}": nothing for odd in ODD}}
    tests = {"nan": np.isnan(x), "pos": x == np.inf, "neg": x == -np.inf}
    counts = {f"{name}.{odd}": pa.array(tests[odd].astype(np.int64)) for odd in ODD}
    return {name: pa.array(np.where(finite, x, 0.0)), **counts}


def decode(table: pa.Table, name: str) -> pa.Array:
    """The doubles that the columns of a Real stand for."""
    x = np.asarray(column(table, name))
    nan, pos, neg = (np.asarray(column(table, f"{name}.{odd}")) for odd in ODD)
    if not (nan.any() or pos.any() or neg.any()):
        return pa.array(x)
    x = np.where(pos > 0, np.inf, np.where(neg > 0, -np.inf, x))
    return pa.array(np.where((nan > 0) | ((pos > 0) & (neg > 0)), np.nan, x))


def shown(m: Map, table: pa.Table) -> dict[str, pa.Array]:
    """The ring of entries as numbers, one column each."""
    return {n: decode(table, n) if isinstance(t, RealType) else column(table, n) for n, t in m.ring}


def product(
    t: RingType, name: str, table: pa.Table, factors: tuple[str, ...]
) -> dict[str, pa.Array]:
    """The columns of a ring value that is a product of columns, at most one of them not whole numbers."""
    whole: pa.Array | None = None
    number: str | None = None
    for f in factors:
        values = column(table, f)
        if not pa.types.is_integer(values.type):
            assert number is None, "a product of two columns that are not whole numbers"
            number = f
        elif whole is None:
            whole = values
        elif not _ones(values):
            whole = values if _ones(whole) else _checked(pc.multiply_checked, whole, values)
    assert whole is not None
    if number is None:
        columns = encode(name, whole) if isinstance(t, RealType) else {name: whole}
    elif isinstance(t, RealType):
        if f"{number}.nan" in table.column_names:
            columns = {name: column(table, number)}
            columns |= {f"{name}.{odd}": column(table, f"{number}.{odd}") for odd in ODD}
        else:
            columns = encode(name, column(table, number))
        if not _ones(whole):
            columns = {n: _scaled(c, whole) for n, c in columns.items()}
    else:
        columns = {name: _exact(column(table, number), whole)}
    return {n: c.cast(dict(ring_columns(name, t))[n]) for n, c in columns.items()}


def _ones(values: pa.Array) -> bool:
    return bool((np.asarray(values) == 1).all())


def _scaled(values: pa.Array, by: pa.Array) -> pa.Array:
    if pa.types.is_integer(values.type):
        return _checked(pc.multiply_checked, values, by)
    return pa.array(np.asarray(values) * np.asarray(by))


def _exact(values: pa.Array, by: pa.Array) -> pa.Array:
    """Decimals times whole numbers, exactly."""
    if _ones(by):
        return values
    t = pa.decimal128(38, values.type.scale)
    counts = np.asarray(by)
    if (np.abs(counts) == 1).all():
        return pc.if_else(pa.array(counts < 0), pc.negate(values), values)
    wide = pc.multiply(
        values.cast(pa.decimal256(50, values.type.scale)), by.cast(pa.decimal256(20, 0))
    )
    try:
        return wide.cast(t)
    except pa.ArrowInvalid as e:
        raise OverflowError(f"a sum does not fit into {t}") from e


def _checked(f: Any, a: pa.Array, b: pa.Array) -> pa.Array:
    try:
        return f(a, b)
    except pa.ArrowInvalid as e:
        raise OverflowError("a number of rows does not fit into 64 bits") from e
