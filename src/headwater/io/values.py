"""Values as users give them, in the types of a source's columns: Python objects, pandas columns and Arrow arrays.

A value is taken as what it is, or not at all: no fraction for a whole number, no number for a time, no bytes for text,
no time of day for a date, no time with a zone for one that has none. A time without a zone is of the database's zone
where its column has instants, as Spark would take it. In a pandas column NaN, NaT and None are NULL.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.types import (
    BIGINT,
    BINARY,
    DATE,
    INTEGER,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Boxed,
    KeyType,
    ListType,
    MapType,
    RecordType,
)
from headwater.errors import BadChange
from headwater.interop.arrow_types import arrow_type
from headwater.interop.spark_text import spark_type
from headwater.io.casts import cast_array, cast_value
from headwater.plan.program import WEIGHT

INTEGERS = (TINYINT, SMALLINT, INTEGER, BIGINT)
NESTED = (Boxed, ListType, RecordType)
NOT_FITTING = (pa.ArrowException, TypeError, ValueError, OverflowError)
WEIGHTS = "a weight says how often the row is inserted, or deleted where it is negative"
RULES_END = 2037
"""The year from which on Arrow does not know when clocks change."""


def converted(
    name: str, row: RecordType, columns: Mapping[str, Any], zone: str, cast: bool
) -> pa.Table:
    """Columns of Python values in the types of the source; the first that does not fit is named."""
    types: dict[str, Any] = {n.lower(): t for n, t in row.fields}
    out = {}
    for n, values in columns.items():
        t = BIGINT if n == WEIGHT else types.get(n.lower())
        if t is None:
            out[n] = pa.array([None if v is None else str(v) for v in values], pa.string())
            continue
        out[n] = _fitted(name, n, values, t, zone, cast)
    return pa.table(out)


def _fitted(name: str, column: str, values: Any, t: KeyType, zone: str, cast: bool) -> pa.Array:
    """A column in its type: as it is, then with its values read as what they should be, then one by one."""
    with contextlib.suppress(KeyError, *NOT_FITTING):
        return _column(values, t, zone, cast)
    if cast and not isinstance(t, NESTED):
        with contextlib.suppress(KeyError, *NOT_FITTING):
            return _column(_read(values, t), t, zone, False)
    return _one_by_one(name, column, values, t, zone, cast)


def _read(values: Any, t: KeyType) -> list[Any]:
    """Text and fractions as values of a type; what else there is stays."""
    if isinstance(values, pd.Series):
        values = values.astype(object).where(values.notna(), None)
    kinds: tuple[type, ...] = (float, np.floating) if t == STRING else (str, float, np.floating)
    return [cast_value(v, t) if isinstance(v, kinds) else v for v in values]


def _column(values: Any, t: KeyType, zone: str, cast: bool) -> pa.Array:
    """A column in one go; raises what is in `NOT_FITTING`."""
    if isinstance(values, pd.Series):
        if values.dtype != object:
            return _typed(values, t, zone, cast)
        values = values.astype(object).where(values.notna(), None) if not _holds(t) else values
    values = list(values)
    if isinstance(t, NESTED):
        return pa.array([_inside(v, t, zone) for v in values], arrow_type(t))
    if t == TIMESTAMP:
        return _instants(values, zone)
    _refuse_others(values, t)
    numbers = t in INTEGERS or t in (DATE, TIMESTAMP_NTZ)
    return pa.array(values, arrow_type(t), from_pandas=numbers)


def _holds(t: KeyType) -> bool:
    return isinstance(t, NESTED)  # what is inside is looked at value by value


def _typed(values: pd.Series[Any], t: KeyType, zone: str, cast: bool) -> pa.Array:
    """A pandas column that has a type of its own."""
    given = pa.array(values, from_pandas=True)
    wanted = arrow_type(t)
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    if pa.types.is_floating(given.type) and pa.types.is_integer(wanted):
        if cast:
            return cast_array(given, t, zone)
        return given.cast(wanted)  # pandas keeps whole numbers with gaps so; a fraction is an error
    made = in_type(given, t, zone, cast)
    if made is None:
        raise TypeError
    return made


def in_type(values: Any, t: KeyType, zone: str, cast: bool) -> Any:
    """An Arrow column in another type; None where it is no such thing. Raises what is in `NOT_FITTING`."""
    wanted = arrow_type(t)
    if values.type == wanted:
        return values
    if t == TIMESTAMP and pa.types.is_timestamp(values.type) and values.type.tz is None:
        return of_zone(values.cast(pa.timestamp("us")), zone)
    if fits(values.type, wanted):
        return values.cast(wanted)
    return cast_array(values, t, zone) if cast else None


def one_value(value: Any, t: KeyType, zone: str) -> pa.Array:
    """One value in a type, as it would be staged; raises what is in `NOT_FITTING`."""
    if not isinstance(t, NESTED):
        _refuse_others([value], t)
    numbers = t in INTEGERS or t in (DATE, TIMESTAMP, TIMESTAMP_NTZ)
    return pa.array([_inside(value, t, zone)], arrow_type(t), from_pandas=numbers)


def _refuse_others(values: Sequence[Any], t: KeyType) -> None:
    """Raises for what Arrow would take for a value of a type and is none."""
    kinds = set(map(type, values))  # of many values there are few kinds, and most columns have one
    if t in INTEGERS:
        floats = any(issubclass(k, float) for k in kinds)
        wrong = floats and any(isinstance(v, float) and v == v for v in values)
    elif t == STRING:
        wrong = any(issubclass(k, (bytes, bytearray, memoryview)) for k in kinds)
    elif t == BINARY:
        wrong = any(issubclass(k, str) for k in kinds)
    elif t == DATE:
        wrong = any(_is_number(v) or (isinstance(v, datetime) and not _is_day(v)) for v in values)
    elif t == TIMESTAMP_NTZ:
        wrong = any(_is_number(v) or _zone_of(v) is not None for v in values)
    else:
        wrong = t == TIMESTAMP and any(_is_number(v) for v in values)
    if wrong:
        raise TypeError


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and value == value


def _is_day(value: datetime) -> bool:
    return value is pd.NaT or (value.time() == time() and value.tzinfo is None)


def _zone_of(value: Any) -> Any:
    return value.tzinfo if isinstance(value, datetime) and value is not pd.NaT else None


def _is_naive(value: Any) -> bool:
    return isinstance(value, datetime) and value is not pd.NaT and value.tzinfo is None


def _inside(value: Any, t: KeyType, zone: str) -> Any:
    """A value with what is inside of it checked as columns are: names without case, no number for another kind."""
    if value is None or (isinstance(value, float) and value != value):
        return value
    match t:
        case Boxed(MapType(element, _)) | ListType(element):
            if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
                raise TypeError
            return [_inside(v, element, zone) for v in value]
        case RecordType(fields):
            row = value.asDict() if hasattr(value, "asDict") else value
            if isinstance(row, Mapping):
                low = {str(k).lower(): v for k, v in row.items()}
                if set(low) != {n.lower() for n, _ in fields}:
                    raise TypeError
                row = [low[n.lower()] for n, _ in fields]
            if not isinstance(row, (tuple, list)):
                raise TypeError
            pairs = zip(fields, row, strict=True)
            return {n: _inside(v, f, zone) for (n, f), v in pairs}
    _refuse_others([value], t)
    if t == TIMESTAMP and zone != "UTC" and _is_naive(value):
        try:
            return value.replace(tzinfo=ZoneInfo(zone))
        except (KeyError, OSError) as e:
            raise ValueError from e  # a zone that has no name in Python: the value does not fit
    return value


# --- times ----------------------------------------------------------------------------------------------------------


def _instants(values: list[Any], zone: str) -> pa.Array:
    """Times as instants; those without a zone are of the one given."""
    _refuse_others(values, TIMESTAMP)
    if zone == "UTC" or not any(_is_naive(v) for v in values):
        return pa.array(values, arrow_type(TIMESTAMP), from_pandas=True)
    if all(v is None or _is_naive(v) for v in values):
        return of_zone(pa.array(values, pa.timestamp("us"), from_pandas=True), zone)
    here = ZoneInfo(zone)
    times = [v.to_pydatetime() if isinstance(v, pd.Timestamp) else v for v in values]
    times = [v.replace(tzinfo=here) if _is_naive(v) else v for v in times]
    return pa.array(times, arrow_type(TIMESTAMP), from_pandas=True)


def of_zone(times: Any, zone: str) -> Any:
    """Times of day of a zone as instants, in bulk; KeyError for a zone that has no name.

    As Spark takes them: the earlier one where there are two, and later by what clocks were put forward where there is
    none.
    """
    instants = arrow_type(TIMESTAMP)
    if zone == "UTC":
        return times.cast(instants)
    try:
        here = ZoneInfo(zone)
    except (ValueError, OSError) as e:
        raise KeyError(zone) from e
    if isinstance(times, pa.ChunkedArray):
        return pa.chunked_array([of_zone(c, zone) for c in times.chunks], instants)
    known = pc.less(times, pa.scalar(datetime(RULES_END, 1, 1), times.type))
    plain = pc.if_else(known, times, None)
    found = pc.assume_timezone(plain, zone, ambiguous="earliest", nonexistent="earliest")
    right = pc.fill_null(pc.equal(pc.local_timestamp(found), times), False)
    found = found.cast(instants)
    odd = np.flatnonzero(~np.asarray(right) & np.asarray(times.is_valid()))
    if not len(odd):
        return found
    exact = [times[i].as_py().replace(tzinfo=here) for i in odd]
    mask = np.zeros(len(times), bool)
    mask[odd] = True
    return pc.replace_with_mask(found, pa.array(mask), pa.array(exact, instants))


def _check_zone(name: str, column: str, row: int, value: Any, zone: str) -> None:
    """Raises for a time without a zone where the database's zone cannot be had."""
    if not _is_naive(value) or zone == "UTC":
        return
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as e:
        raise no_zone(f"row {row} of the change of `{name}`", column, zone) from e


def no_zone(what: str, column: str, zone: str) -> BadChange:
    """What is said of a time without a zone where the database's zone is one that only Java has."""
    return BadChange(
        f"{what} has a time without a zone in `{column}`",
        hint=f"give it with one: the time zone of this database, {zone}, has no name that Python knows",
    )


# --- one by one -----------------------------------------------------------------------------------------------------


def _one_by_one(name: str, column: str, values: Any, t: Any, zone: str, cast: bool) -> pa.Array:
    """The column again, value by value, to name the one that does not fit."""
    arrays = []
    gaps = isinstance(values, pd.Series)
    for i, v in enumerate(values):
        if gaps and not isinstance(t, NESTED) and pd.api.types.is_scalar(v) and pd.isna(v):
            v = None
        if t == TIMESTAMP:
            _check_zone(name, column, i + 1, v, zone)
        try:
            arrays.append(_value(v, t, zone, cast))
        except NOT_FITTING as e:
            raise BadChange(
                f"row {i + 1} of the change of `{name}`: {_said(v)} is no {spark_type(t)} for the column `{column}`",
                hint=WEIGHTS if column == WEIGHT else _hint(v, t),
            ) from e
    return pa.concat_arrays(arrays) if arrays else pa.array([], arrow_type(t))


def _value(value: Any, t: KeyType, zone: str, cast: bool) -> pa.Array:
    try:
        return one_value(value, t, zone)
    except NOT_FITTING:
        if not cast:
            raise
    made = cast_value(value, t)
    return one_value(made, t, zone)


def _said(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _hint(value: Any, t: KeyType) -> str:
    if t == TIMESTAMP_NTZ and _zone_of(value) is not None:
        return "the column has times without a zone: leave the zone out, or declare the column TIMESTAMP"
    if t == STRING and isinstance(value, (bytes, bytearray, memoryview)):
        return "decode it first, or declare the column BINARY"
    if isinstance(value, (str, float)) and not isinstance(t, NESTED) and t not in (STRING, BINARY):
        return "give a value of that type, or None; apply(..., cast=True) reads text and fractions as it"
    return "give a value of that type, or None"


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column may be taken as another type: the same kind of thing, and no guessing."""
    kinds = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_date,
        lambda t: (
            pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)
        ),
        lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t),
    )
    if pa.types.is_null(given) or given == wanted:
        return True
    if pa.types.is_dictionary(given):
        return fits(given.value_type, wanted)
    if any(k(given) and k(wanted) for k in kinds):
        return True
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if pa.types.is_large_list(wanted):
        return any(k(given) for k in lists) and fits(given.value_type, wanted.value_type)
    if pa.types.is_struct(wanted) and pa.types.is_struct(given):
        names = {f.name for f in given}
        return all(f.name in names and fits(given.field(f.name).type, f.type) for f in wanted)
    if pa.types.is_decimal(wanted):
        return bool(pa.types.is_integer(given) or pa.types.is_decimal(given))
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(given)) and (given.tz is None) == (wanted.tz is None)
    return bool(pa.types.is_floating(wanted) and pa.types.is_integer(given))
