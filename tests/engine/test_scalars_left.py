"""Values that were wrong once, or could be: each has its answer here, or is left to Spark. No Spark is needed to tell."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

from headwater.calculus import fdlibm
from headwater.calculus.formats import reader
from headwater.plan.scalar import scalar
from random_scalars import ROW, table
from test_scalars_exact import LEFT, OF, read, told

LEAST = -(1 << 63)
NAMES = [n for n, _ in ROW.fields]


def value(expression: str, **given: Any) -> Any:
    """What an expression is for one row, `LEFT` where Spark is asked."""
    row = tuple(given.get(n) for n in NAMES)
    (found,) = told(scalar(read(expression), OF), table([row]), "UTC")
    return found


@pytest.mark.parametrize(
    "expression", ("timestamp_seconds(l)", "from_unixtime(l)", "cast(l as timestamp)")
)
def test_the_least_bigint_has_no_size(expression: str) -> None:
    """np.abs of it is negative, and passes for near."""
    assert value(expression, l=LEAST) is LEFT
    assert value(expression, l=0) is not LEFT


@pytest.mark.parametrize(
    ("text", "found"),
    (
        ('{"a": 1.50}', "1.5"),
        ('{"a": 12345678901234567890123}', "12345678901234567890123"),
        ('{"a": [null, "x"]}', '[null,"x"]'),
        ('{"a": null}', None),
        ('{"b": 1}', None),
        (r'{"a": "\ud83d\ude00"}', "\U0001f600"),
        (r'{"a": "\ud800"}', LEFT),  # half of a letter, which no text of Arrow holds
        ('{"a": -0}', LEFT),
        ('{"a": 1e300}', LEFT),
        ('{"a": 1, "a": 2}', LEFT),
        ('{"a": 1} x', LEFT),
        ("{'a': 1}", LEFT),
        ('{"a": NaN}', LEFT),
        ('{"a": ["\\u001f"]}', LEFT),
        ("[" * 5000, LEFT),
        ("7", LEFT),
    ),
)
def test_odd_documents(text: str, found: Any) -> None:
    assert value("get_json_object(s, '$.a')", s=text) == found


@pytest.mark.parametrize(
    ("expression", "text", "found"),
    (
        ("to_date(s, 'yyyy-MM-dd')", "2024-2-3", LEFT),
        ("to_date(s, 'yyyy-MM-dd')", "2023-02-29", LEFT),
        ("to_date(s, 'yyyy')", "2024", 19723),
        ("to_timestamp(s, 'hh a yyyy')", "13 PM 2024", LEFT),
        ("to_timestamp(s, 'hh a yyyy')", "12 AM 1970", 0),
        ("split(s, ',')", "", [""]),
        ("split(s, ',', 2)", "a,b,c", ["a", "b,c"]),
        ("split(s, '[ab]')", "xay\n", LEFT),
        ("split(s, ',')[1]", "a", LEFT),
        ("get(split(s, ','), 1)", "a", None),
        ("element_at(split(s, ','), -1)", "a,b", "b"),
        ("initcap(s)", "o'neil-smith X_y", "O'neil-smith X_y"),
        ("initcap(s)", "ǆ", LEFT),
        ("try_cast(s as int)", "12x", None),
        ("try_cast(s as int)", "", None),
        ("try_cast(s as int)", "12.", None),
        ("try_cast(s as date)", "unknown", None),
    ),
)
def test_text(expression: str, text: str, found: Any) -> None:
    assert value(expression, s=text) == found


def test_digits_in_a_row_have_no_fraction() -> None:
    """Spark gives NULL for '20240102030405006' in 'yyyyMMddHHmmssSSS'."""
    assert reader("yyyyMMddHHmmss") is not None
    assert reader("yyyyMMddHHmmssSSS") is None and reader("yyyyMMddHHmmss.SSS") is not None


def test_a_nan_that_signals() -> None:
    """Of some bits of NaN numpy warns, which is an error in tests; Spark is asked for the error, or has 0."""
    nan = struct.unpack("d", struct.pack("Q", 0x7FF0000000000001))[0]
    assert value("floor(d)", d=nan) is LEFT
    assert value("rint(d)", d=nan) == value("sign(d)", d=nan) == "nan"


def test_zeros_and_infinities() -> None:
    inf, nan = math.inf, math.nan
    cases = (
        *((0.0, -3.0, inf), (-0.0, -3.0, -inf), (-0.0, -2.0, inf), (-0.0, 3.0, -0.0)),
        *((1.0, inf, nan), (-1.0, inf, nan), (2.0, -inf, 0.0), (0.5, -inf, inf), (nan, 0.0, 1.0)),
        *((-8.0, 1 / 3, nan), (-inf, 3.0, -inf), (-inf, 0.5, inf), (-inf, -3.0, -0.0)),
        *((2.0, 1024.0, inf), (2.0, -1075.0, 0.0), (2.0, -1074.0, 5e-324), (-2.0, 3.0, -8.0)),
    )
    for x, y, z in cases:
        assert repr(float(fdlibm.power(np.array([x]), np.array([y]))[0])) == repr(z), (x, y)
    assert value("ln(d)", d=-1.0) == "None" and value("ln(d)", d=nan) == "nan"
    assert value("log(e, d)", d=8.0, e=1.0) == "inf" and value("d % 3", d=inf) == "nan"
