"""Text and numbers read as another type, by the rules of Spark's CAST in ANSI mode; asked for with `cast=True`.

What is accepted here has Spark's value. A few forms that Spark takes beside the usual ones (a year alone for a date,
`1.5d`) are refused rather than guessed; a value that does not fit is an error and never NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Base,
    KeyType,
)
from headwater.interop.arrow_types import arrow_type

INTEGERS = (TINYINT, SMALLINT, INTEGER, BIGINT)
TRUE, FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
SPACE = " \t\n\r\f\v\0"
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_ODD = re.compile(r"[+-]?(inf|infinity)|nan", re.IGNORECASE)
_DAY = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,6}))?)?"
    r" ?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_MANY = Context(prec=100)


def cast_value(value: Any, t: KeyType) -> Any:
    """A value as one of a type; ValueError where Spark's cast would fail, or is not known here.

    A time without a zone stays without one.
    """
    if isinstance(value, str):
        return _of_text(value.strip(SPACE), t)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError(value)
    if t in INTEGERS:
        return int(value)  # towards zero; NaN and infinities raise
    if t in (DOUBLE, FLOAT):
        return float(value)
    if _is_decimal(t):
        return _decimal(Decimal(repr(value)) if isinstance(value, float) else Decimal(value), t)
    if t == STRING and isinstance(value, int):
        return str(value)
    if t == BOOLEAN:
        return value != 0
    raise ValueError(value)


def _is_decimal(t: KeyType) -> bool:
    return isinstance(t, Base) and t.name == "decimal"


def _of_text(text: str, t: KeyType) -> Any:
    if t in INTEGERS and _WHOLE.fullmatch(text):
        return int(text)
    if t in (DOUBLE, FLOAT) and (_NUMBER.fullmatch(text) or _ODD.fullmatch(text)):
        return float(text)
    if _is_decimal(t) and _NUMBER.fullmatch(text):
        return _decimal(Decimal(text), t)
    if t == BOOLEAN and text.lower() in (*TRUE, *FALSE):
        return text.lower() in TRUE
    if t == DATE:
        return _day(text)
    if t in (TIMESTAMP, TIMESTAMP_NTZ):
        return _time(text, zoned=t == TIMESTAMP)
    raise ValueError(text)


def _decimal(value: Decimal, t: KeyType) -> Decimal:
    """Rounded to the digits of a type, half away from zero."""
    assert isinstance(t, Base)
    if not value.is_finite():
        raise ValueError(value)
    try:
        made = value.quantize(Decimal(1).scaleb(-(t.scale or 0)), ROUND_HALF_UP, _MANY)
    except InvalidOperation as e:
        raise ValueError(value) from e
    if len(made.as_tuple().digits) > (t.precision or 0) and made != 0:
        raise ValueError(value)
    return made


def _day(text: str) -> date:
    found = _DAY.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return date(*map(int, found.groups()))


def _time(text: str, zoned: bool) -> datetime:
    if _DAY.fullmatch(text):
        day = _day(text)
        return datetime(day.year, day.month, day.day)
    found = _TIME.fullmatch(text)
    if found is None or (found[6] is not None and not zoned):
        raise ValueError(text)
    day, micro = _day(found[1]), (found[5] or "").ljust(6, "0")
    clock = (int(found[2]), int(found[3]), int(found[4] or 0), int(micro))
    made = datetime(day.year, day.month, day.day, *clock)
    if found[6] is None:
        return made
    zone = datetime.strptime("+00:00" if found[6] == "Z" else found[6], "%z").tzinfo
    return made.replace(tzinfo=zone)


# --- columns --------------------------------------------------------------------------------------------------------


def cast_array(values: Any, t: KeyType, zone: str) -> Any:
    """An Arrow column as one of a type where that can be done in one go; TypeError where values are read one by one."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    wanted, given = arrow_type(t), values.type
    if pa.types.is_floating(given) and t in INTEGERS:
        whole = pc.trunc(values)
        if pc.any(pc.is_nan(values)).as_py():
            raise ValueError
        return whole.cast(wanted)
    if not (pa.types.is_string(given) or pa.types.is_large_string(given)):
        raise TypeError
    text = pc.utf8_trim(values.cast(pa.large_string()), SPACE)
    for kinds, form, read in _BULK:
        if t in kinds and _all_like(text, form):
            return read(text).cast(wanted)
    raise TypeError


def _all_like(text: Any, form: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(text, form)).as_py() in (True, None))


_BULK: tuple[tuple[tuple[KeyType, ...], str, Callable[[Any], Any]], ...] = (
    (INTEGERS, r"^[+-]?[0-9]+$", lambda a: pc.utf8_ltrim(a, "+").cast(pa.int64())),
    (
        (DOUBLE,),
        r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
        lambda a: pc.utf8_ltrim(a, "+").cast(pa.float64()),
    ),
    ((DATE,), r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", lambda a: a.cast(pa.date32())),
)
"""The forms of text that Arrow reads as Spark does."""
