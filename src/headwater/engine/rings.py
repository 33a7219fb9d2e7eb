"""Maps of a program as maps on disk: their columns in Arrow's types, and rings as columns that add up.

Int is a 64-bit column, Exact(s) a decimal of 38 digits. Dyadic is four columns: the sum of what is finite, which is not
rounded (`state.exact`), and the counts of NaN, ∞ and -∞, because what was added as a NaN must come out again when it
is taken away. `exactly` makes the four from columns of numbers. Real is the same with a double for the sum: what
databases keep whose views are older than Dyadic. `encode` makes those four, `decode` the double from the four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.dyadic import Dyadic
from headwater.calculus.dyadic import shown as shown_of
from headwater.calculus.types import DyadicType, Exact, IntType, RealType, RingType
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import Map, Stratum, Told
from headwater.state import exact
from headwater.state.adding import halves
from headwater.state.exact import Limbs, Products
from headwater.state.keys import Ints
from headwater.state.run import MapSpec, Order, cast, column

ODD = ("nan", "pos", "neg")
"""What is counted beside the finite part of a Real."""
NO_LIMBS: Mapping[str, Limbs] = {}


@lru_cache(maxsize=1 << 14)
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


@lru_cache(maxsize=1 << 12)
def ring_columns(name: str, t: RingType) -> list[tuple[str, pa.DataType]]:
    """The columns of a ring value; not to be changed."""
    match t:
        case IntType():
            return [(name, pa.int64())]
        case Exact(scale):
            return [(name, pa.decimal128(38, scale))]
        case DyadicType():
            return [(name, exact.STORED), *((f"{name}.{odd}", pa.int64()) for odd in ODD)]
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
    counts = {f"{name}.{odd}": pa.array(c) for odd, c in counted(x).items()}
    return {name: pa.array(np.where(finite, x, 0.0)), **counts}


def decode(table: pa.Table, name: str) -> pa.Array:
    """The doubles that the columns of a Real stand for."""
    x = np.asarray(column(table, name))
    return with_odd(x, table, name)


def with_odd(x: np.ndarray[Any, Any], table: pa.Table, name: str) -> pa.Array:
    """The doubles, or what the counts beside them say."""
    nan, pos, neg = (np.asarray(column(table, f"{name}.{odd}")) for odd in ODD)
    if not (nan.any() or pos.any() or neg.any()):
        return pa.array(x)
    x = np.where(pos > 0, np.inf, np.where(neg > 0, -np.inf, x))
    return pa.array(np.where((nan > 0) | ((pos > 0) & (neg > 0)), np.nan, x))


def shown(
    stratum: Stratum, table: pa.Table, limbs: Mapping[str, Limbs] = NO_LIMBS
) -> dict[str, pa.Array]:
    """The ring of a group's entries as numbers, and what is told from sums that are not rounded: one column each.

    Sums that are in `limbs` are not in the table.
    """
    ring = {
        n: decode(table, n) if isinstance(t, RealType) else column(table, n)
        for n, t in stratum.group.ring
        if not isinstance(t, DyadicType)
    }
    return ring | {t.column: told(t, table, limbs) for t in stratum.told}


def told(t: Told, table: pa.Table, limbs: Mapping[str, Limbs] = NO_LIMBS) -> pa.Array:
    """An answer over exact sums: `_sum` and `_avg` a column at a time, moments a group at a time."""
    if t.function not in ("_sum", "_avg"):
        columns = [sums(table, n, limbs.get(n)) if f"{n}.nan" in table.column_names
                   else column(table, n).to_pylist() for n in t.sums]  # fmt: skip
        values = [shown_of(t.function, t.scales, s) for s in zip(*columns, strict=True)]
        return pa.array(values, pa.float64())
    name = t.sums[-1]
    total = limbs[name] if name in limbs else column(table, name)
    if t.function == "_sum":
        return with_odd(exact.doubles(total), table, name)
    counts = np.asarray(column(table, t.sums[0]))
    means = with_odd(exact.doubles(total, np.maximum(counts, 1)), table, name)
    return pc.if_else(pa.array(counts > 0), means, pa.scalar(None, pa.float64()))


def sums(table: pa.Table, name: str, limbs: Limbs | None = None) -> list[Dyadic]:
    """Exact sums, as the calculus has them."""
    odd = (column(table, f"{name}.{o}").to_pylist() for o in ODD)
    found = exact.limbs(column(table, name)) if limbs is None else limbs
    return [Dyadic(*s) for s in zip(exact.fractions(found), *odd, strict=True)]


def exactly(name: str, factors: Sequence[pa.Array], by: pa.Array) -> dict[str, pa.Array]:
    """The columns of a Dyadic: the product of columns of numbers, times whole numbers."""
    made, odd = _multiplied(name, factors, by)
    return {name: made.stored(), **odd}


def _multiplied(
    name: str, factors: Sequence[pa.Array], by: pa.Array
) -> tuple[Products, dict[str, pa.Array]]:
    """The same, with what is finite yet to be made."""
    values = [_units(f) for f in factors]
    finite = [np.isfinite(v) for v in values if v.dtype == np.float64]
    fine = np.logical_and.reduce(finite) if finite else np.ones(len(by), np.bool_)
    none = pa.array(np.zeros(len(by), np.int64))
    odd = {f"{name}.{o}": none for o in ODD}
    if not fine.all():
        signs = np.prod([_signs(v) for v in values], axis=0)
        odd = {f"{name}.{o}": _scaled(pa.array(c), by) for o, c in counted(signs).items()}
        values = [np.where(fine, v, 0.0) if v.dtype == np.float64 else v for v in values]
    parts = [exact.of_doubles(v) if v.dtype == np.float64 else exact.of_halves(v) for v in values]
    times = None if _ones(by) else np.asarray(by)
    return Products(reduce(exact.times, parts), None, times), odd


def _units(values: pa.Array) -> np.ndarray[Any, Any]:
    """Numbers as doubles; integers, and decimals in units of their last digit, as two words."""
    if pa.types.is_floating(values.type):
        return np.asarray(values.cast(pa.float64()))
    if pa.types.is_integer(values.type):
        x = np.asarray(values).astype(np.int64)
        return np.stack((x, x >> 63), axis=1)
    both = halves(values)
    assert both is not None, values.type
    return both


def _signs(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """-1, 0 or 1 in the place of numbers; NaN and the infinities as they are."""
    if values.dtype == np.float64:
        return np.where(np.isfinite(values), np.sign(values), values)
    return np.where(values[:, 1] < 0, -1.0, (values != 0).any(axis=1).astype(np.float64))


def counted(x: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Which doubles are NaN, ∞ and -∞, as counts."""
    tests = {"nan": np.isnan(x), "pos": x == np.inf, "neg": x == -np.inf}
    return {odd: test.astype(np.int64) for odd, test in tests.items()}


def product(
    t: RingType, name: str, table: pa.Table, factors: tuple[str, ...]
) -> dict[str, pa.Array]:
    """The columns of a ring value that is a product of columns, at most one of them not whole numbers."""
    if isinstance(t, DyadicType):
        return _exactly(name, table, factors)
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
    types = dict(ring_columns(name, t))
    return {n: cast(c, types[n]) for n, c in columns.items()}


def _exactly(name: str, table: pa.Table, factors: tuple[str, ...]) -> dict[str, pa.Array]:
    """The columns of a Dyadic that is a product: of whole numbers and a Dyadic, or numbers that make one."""
    summed, by = _summed(table, factors), _whole(table, factors)
    if summed is not None and _ones(by) and not is_shared(table, summed):
        total = column(table, summed).cast(exact.STORED)  # Spark gives it back as other bytes
        return {name: total, **{f"{name}.{o}": column(table, f"{summed}.{o}") for o in ODD}}
    made, odd = products(name, table, factors)
    return {name: made.stored(), **odd}


def products(
    name: str, table: pa.Table, factors: tuple[str, ...]
) -> tuple[Products, dict[str, pa.Array]]:
    """The same, with the sums yet to be made: who adds them up makes no more than what comes of it."""
    summed, by = _summed(table, factors), _whole(table, factors)
    if summed is None:
        columns = [column(table, f) for f in factors]
        numbers = [c for c in columns if not pa.types.is_integer(c.type)]
        if numbers:
            return _multiplied(name, numbers, by)
        # nothing: a sum of what is NULL
        return _multiplied(name, [by], pa.array(np.ones(len(by), np.int64)))
    odd = {f"{name}.{o}": column(table, f"{summed}.{o}") for o in ODD}
    total, times = column(table, summed), None
    if not _ones(by):
        times = np.asarray(by)
        odd = {o: _scaled(c, by) for o, c in odd.items()}
    if is_shared(table, summed):
        return Products(exact.limbs(total.dictionary), np.asarray(total.indices), times), odd
    return Products(exact.limbs(total.cast(exact.STORED)), None, times), odd


def shared(values: pa.Array, at: Ints) -> pa.Array:
    """Exact sums at some places, many of which may be the same, each of them kept once."""
    return pa.DictionaryArray.from_arrays(pa.array(at), values)


def is_shared(table: pa.Table, name: str) -> bool:
    """Whether a column has exact sums that are kept once where they are the same."""
    return f"{name}.nan" in table.column_names and pa.types.is_dictionary(
        table.schema.field(name).type
    )


def _summed(table: pa.Table, factors: tuple[str, ...]) -> str | None:
    """The factor that is a Dyadic, if one is."""
    return next((f for f in factors if f"{f}.nan" in table.column_names), None)


def _whole(table: pa.Table, factors: tuple[str, ...]) -> pa.Array:
    """The product of the factors that are whole numbers."""
    by: pa.Array | None = None
    for f in factors:
        c = column(table, f)
        if pa.types.is_integer(c.type):
            by = c if by is None or _ones(by) else _checked(pc.multiply_checked, by, c)
    assert by is not None
    return by


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
