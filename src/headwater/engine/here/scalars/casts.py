"""CAST between numbers, text, booleans, dates and local times, in ANSI mode.

One function for each pair of kinds, in `CASTS`. Text is read in the forms that all agree on: digits, ISO dates and
times; what is written otherwise, and what would be an error, is Spark's.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.casts import double_text
from headwater.calculus.scalars import EXACT
from headwater.engine.here.scalars.base import (
    Array,
    ArrowCannot,
    Column,
    columnar,
    floats,
    ints,
    made,
    matches,
    require,
)
from headwater.engine.here.scalars.numbers import told
from headwater.engine.here.scalars.zones import DAY, LEAST, MOST, SECOND

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
CLOCK = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
BOOLEAN = "t|true|y|yes|1|f|false|n|no|0"
TRUE = ("t", "true", "y", "yes", "1")
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


def kind(t: pa.DataType) -> str:
    """What a type is for casts."""
    if pa.types.is_large_string(t) or pa.types.is_string(t):
        return "text"
    tests = {
        "boolean": pa.types.is_boolean,
        "whole": pa.types.is_integer,
        "float": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "date": pa.types.is_date32,
        "time": lambda x: pa.types.is_timestamp(x) and x.tz is None,
    }
    return next((n for n, test in tests.items() if test(t)), "other")


def cast(t: pa.DataType, a: Column) -> Column:
    """CAST(a AS t)."""
    if a.type == t:
        return a
    made_by = CASTS.get((kind(a.type), kind(t)))
    if made_by is None:
        raise ArrowCannot(f"{a.type} as {t}")
    return columnar(made_by)(t, a)


NO_DIGITS = r"\A[\x00-/:-\x7f]*\z"
NOT_THAT = {
    "whole": r"[!-*,./:-~]|\A[\x00-/:-\x7f]*\z",
    "float": NO_DIGITS,
    "decimal": rf"[A-DF-Za-df-z]|{NO_DIGITS}",
    "date": rf"\A *[A-Za-z]|{NO_DIGITS}",
    "time": rf"\A *[A-SU-Za-su-z]|{NO_DIGITS}",
    "boolean": r"\A[ -~]*\z",
}
"""What text has that is surely of another type. Java's doubles have names too, and booleans are known."""
NAMED = {"float": r"(?i)inf|nan", "boolean": rf"(?i)\A *(?:{BOOLEAN}) *\z"}


def try_cast(t: pa.DataType, a: Column) -> Column:
    """TRY_CAST(a AS t) of text: NULL where it is surely nothing of that type."""

    def node(t: pa.DataType, a: pa.Array) -> pa.Array:
        other = pc.match_substring_regex(a, NOT_THAT[kind(t)])
        if kind(t) in NAMED:
            other = pc.and_not(other, pc.match_substring_regex(a, NAMED[kind(t)]))
        return cast(t, pc.if_else(other, pa.scalar(None, a.type), a))

    return columnar(node)(t, a)


def each(t: pa.DataType, a: pa.Array, f: Callable[[Any], Any]) -> pa.Array:
    """A function of Python for every different value."""
    some = a.dictionary_encode()
    out = pa.array([f(v) for v in some.dictionary.to_pylist()], t)
    return out.take(some.indices)


# --- numbers --------------------------------------------------------------------------------------------------


def roomy(a: Column) -> Column:
    """A decimal with one digit more, for what rounding carries."""
    return a.cast(pa.decimal256(min(76, a.type.precision + 1), a.type.scale))


def fitted(t: pa.DataType, a: Column) -> Column:
    """A decimal rounded to the places of its type; an error where it has not room."""
    if a.type.scale > t.scale:
        a = pc.round(roomy(a), t.scale, "half_towards_infinity")
    return a.cast(t)


def _whole_to_whole(t: pa.DataType, a: pa.Array) -> pa.Array:
    return a.cast(t)


def _whole_to_float(t: pa.DataType, a: pa.Array) -> pa.Array:
    return made(ints(a).astype(t.to_pandas_dtype()), a, t)


def _whole_to_decimal(t: pa.DataType, a: pa.Array) -> pa.Array:
    return fitted(t, a.cast(pa.decimal256(20, 0)))


def _float_to_float(t: pa.DataType, a: pa.Array) -> pa.Array:
    with np.errstate(over="ignore"):
        values = np.asarray(a.fill_null(0.0)).astype(t.to_pandas_dtype())
    return made(values, a, t)


def _float_to_whole(t: pa.DataType, a: pa.Array) -> pa.Array:
    """Cut off; an error where it does not fit, and for NaN."""
    values, bits = floats(a), t.bit_width
    inside = (np.floor(values) < 2.0 ** (bits - 1)) & (np.ceil(values) >= -(2.0 ** (bits - 1)))
    require(inside, a, "a number that does not fit")
    return made(np.where(inside, values, 0).astype(np.int64), a, pa.int64()).cast(t)


def _float_to_decimal(t: pa.DataType, a: pa.Array) -> pa.Array:
    if a.type != pa.float64():
        raise ArrowCannot("the digits of a float")
    return each(t, a, lambda v: None if v is None else _rounded(_digits(v), t))


def _digits(value: float) -> Decimal:
    if not told(value) or not np.isfinite(value):
        raise ArrowCannot(f"Java's digits of {value} may be others")
    return Decimal(repr(value))


def _rounded(value: Decimal, t: pa.DataType) -> Decimal:
    out = value.quantize(Decimal(1).scaleb(-t.scale), context=EXACT)
    if out.copy_abs() >= Decimal(10) ** (t.precision - t.scale):
        raise ArrowCannot("a number that does not fit")
    return out


def _decimal_to_float(t: pa.DataType, a: pa.Array) -> pa.Array:
    """Rounded once: digits and powers of ten that doubles hold exactly are divided."""
    if t != pa.float64():
        raise ArrowCannot("a decimal as a float")
    if a.type.precision > 15:
        return each(t, a, lambda v: None if v is None else float(v))
    wide = a.cast(pa.decimal128(38, a.type.scale)).view(pa.decimal128(38, 0)).cast(pa.int64())
    return made(ints(wide) / 10.0**a.type.scale, a, t)


def _decimal_to_whole(t: pa.DataType, a: pa.Array) -> pa.Array:
    return pc.trunc(a).cast(pa.decimal128(38, 0)).cast(pa.int64()).cast(t)


def _to_boolean(t: pa.DataType, a: pa.Array) -> pa.Array:
    return pc.not_equal(a, pa.scalar(0, pa.int8()).cast(a.type))


def _boolean_to_number(t: pa.DataType, a: pa.Array) -> pa.Array:
    return a.cast(pa.int8()).cast(t)


# --- text ---------------------------------------------------------------------------------------------------


def _plain_text(t: pa.DataType, a: pa.Array) -> pa.Array:
    return a.cast(t)


def _float_to_text(t: pa.DataType, a: pa.Array) -> pa.Array:
    if a.type != pa.float64():
        raise ArrowCannot("the digits of a float")

    def shown(value: float | None) -> str | None:
        if value is None:
            return None
        if not told(value):
            raise ArrowCannot(f"Java's digits of {value} may be others")
        return double_text(value)

    mask = np.asarray(a.is_null()) if a.null_count else None
    values = [shown(v) for v in floats(a).tolist()]  # -0.0 is not 0.0, as keys of a dictionary are
    return pa.array(values, t, mask=mask)


def _decimal_to_text(t: pa.DataType, a: pa.Array) -> pa.Array:
    return each(t, a, lambda v: None if v is None else f"{v:f}")


def _date_to_text(t: pa.DataType, a: pa.Array) -> pa.Array:
    days = ints(a)
    require((days >= LEAST // DAY) & (days < MOST // DAY), a, "a year outside of 1 to 9999")
    return made(np.datetime_as_string(days.astype("datetime64[D]")).astype(object), a, t)


def _time_to_text(t: pa.DataType, a: pa.Array) -> pa.Array:
    """To the second, and the fraction without its last zeros."""
    values = ints(a)
    require((values >= LEAST) & (values < MOST), a, "a year outside of 1 to 9999")
    values = np.where((values >= LEAST) & (values < MOST), values, 0)
    seconds, rest = np.divmod(values, SECOND)
    texts = np.datetime_as_string(seconds.astype("datetime64[s]")).astype(object)
    out = np.array([s.replace("T", " ") for s in texts], object)
    for i in np.nonzero(rest)[0]:
        out[i] += f".{rest[i]:06}".rstrip("0")
    return made(out, a, t)


def _trimmed(a: pa.Array) -> pa.Array:
    return pc.ascii_trim(a, characters=" ")


def _text_to_whole(t: pa.DataType, a: pa.Array) -> pa.Array:
    a = _trimmed(a)
    matches(a, r"[+-]?[0-9]{1,18}", "text that is not just digits")
    return pc.replace_substring_regex(a, r"\A\+", "").cast(pa.int64()).cast(t)


def _text_to_float(t: pa.DataType, a: pa.Array) -> pa.Array:
    if t != pa.float64():
        raise ArrowCannot("text as a float")
    a = _trimmed(a)
    matches(a, rf"{NUMBER}(?:[eE][+-]?[0-9]{{1,3}})?", "text that is not just a number")
    return each(t, a, lambda v: None if v is None else float(v))


def _text_to_decimal(t: pa.DataType, a: pa.Array) -> pa.Array:
    a = _trimmed(a)
    matches(a, NUMBER, "text that is not just a number")
    require(np.asarray(pc.fill_null(pc.binary_length(a), 0)) < 60, a, "many digits")
    return each(t, a, lambda v: None if v is None else _rounded(Decimal(v), t))


def _text_to_boolean(t: pa.DataType, a: pa.Array) -> pa.Array:
    a = pc.ascii_lower(_trimmed(a))
    matches(a, BOOLEAN, "text that is neither true nor false")
    return pc.if_else(a.is_valid(), pc.is_in(a, pa.array(TRUE, a.type)), pa.scalar(None, t))


def _text_to_date(t: pa.DataType, a: pa.Array) -> pa.Array:
    """A date; of a time its date."""
    a = _trimmed(a)
    matches(a, rf"{DATE}(?:[ T]{CLOCK})?", "a date in another form")
    return _after_year_0(pc.utf8_slice_codeunits(a, 0, 10)).cast(t)


def _text_to_time(t: pa.DataType, a: pa.Array) -> pa.Array:
    a = _trimmed(a)
    matches(a, rf"{DATE}(?:[ T]{CLOCK})?", "a time in another form")
    days = _after_year_0(pc.utf8_slice_codeunits(a, 0, 10)).cast(pa.date32())
    hours, minutes, seconds = (_digits_at(a, i, i + 2) for i in (11, 14, 17))
    require((hours < 24) & (minutes < 60) & (seconds < 60), a, "no time of day")
    part = pc.utf8_rpad(pc.utf8_slice_codeunits(a, 20, 26), 6, "0")
    micros = ints(part.cast(pa.int64()))
    values = ints(days) * DAY + ((hours * 60 + minutes) * 60 + seconds) * SECOND + micros
    return made(values, a, t)


def _digits_at(a: pa.Array, start: int, end: int) -> Array:
    """The number between two places of text, 0 where it ends before."""
    part = pc.utf8_slice_codeunits(a, start, end)
    return ints(pc.if_else(pc.equal(part, ""), "0", part).cast(pa.int64()))


def _after_year_0(a: pa.Array) -> pa.Array:
    if pc.any(pc.starts_with(a, "0000")).as_py():
        raise ArrowCannot("the year 0")
    return a


# --- dates and times ---------------------------------------------------------------------------------------------


def _date_to_time(t: pa.DataType, a: pa.Array) -> pa.Array:
    days = ints(a)
    require((days >= LEAST // DAY) & (days < MOST // DAY), a, "a year outside of 1 to 9999")
    return made(days * DAY, a, t)


def _time_to_date(t: pa.DataType, a: pa.Array) -> pa.Array:
    return made(ints(a) // DAY, a, t)


CASTS: dict[tuple[str, str], Callable[[pa.DataType, pa.Array], pa.Array]] = {
    ("whole", "whole"): _whole_to_whole,
    ("whole", "float"): _whole_to_float,
    ("whole", "decimal"): _whole_to_decimal,
    ("whole", "boolean"): _to_boolean,
    ("whole", "text"): _plain_text,
    ("float", "float"): _float_to_float,
    ("float", "whole"): _float_to_whole,
    ("float", "decimal"): _float_to_decimal,
    ("float", "boolean"): lambda t, a: made(floats(a) != 0, a, t),
    ("float", "text"): _float_to_text,
    ("decimal", "decimal"): fitted,
    ("decimal", "float"): _decimal_to_float,
    ("decimal", "whole"): _decimal_to_whole,
    ("decimal", "boolean"): _to_boolean,
    ("decimal", "text"): _decimal_to_text,
    ("boolean", "whole"): _boolean_to_number,
    ("boolean", "float"): _boolean_to_number,
    ("boolean", "decimal"): lambda t, a: fitted(t, a.cast(pa.int8()).cast(pa.decimal256(3, 0))),
    ("boolean", "text"): _plain_text,
    ("text", "whole"): _text_to_whole,
    ("text", "float"): _text_to_float,
    ("text", "decimal"): _text_to_decimal,
    ("text", "boolean"): _text_to_boolean,
    ("text", "date"): _text_to_date,
    ("text", "time"): _text_to_time,
    ("text", "text"): _plain_text,
    ("date", "text"): _date_to_text,
    ("date", "time"): _date_to_time,
    ("time", "text"): _time_to_text,
    ("time", "date"): _time_to_date,
}
