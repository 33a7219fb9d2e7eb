"""States as texts: what is read is what was written, of the same types; what is no plain value is refused."""

from __future__ import annotations

import math
from collections import namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from headwater.calculus.types import BIGINT, STRING
from headwater.errors import StreamError
from headwater.folds.codec import as_text, of_texts
from headwater.streams.schema import Event, Header

HEADER = Header("gps", (("k", BIGINT), ("name", STRING)))
ZONES = [None, UTC, timezone(timedelta(hours=5, minutes=30))]
scalars = hs.one_of(
    hs.none(),
    hs.booleans(),
    hs.integers(),
    hs.text(),
    hs.floats(),
    hs.binary(max_size=8),
    hs.dates(),
    hs.datetimes(timezones=hs.sampled_from(ZONES)),
    hs.decimals(allow_nan=False, allow_infinity=False),
    hs.builds(HEADER.row, hs.integers(), hs.text()),
    hs.builds(HEADER.event, hs.integers(), hs.text()),
)
keys = hs.one_of(hs.integers(), hs.text(), hs.tuples(hs.integers(), hs.text()), hs.none())
states = hs.recursive(
    scalars,
    lambda below: hs.one_of(
        hs.lists(below, max_size=3),
        hs.lists(below, max_size=3).map(tuple),
        hs.dictionaries(keys, below, max_size=3),
    ),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(a) is not type(b) and not (
        isinstance(a, tuple) and type(a).__name__ == type(b).__name__
    ):
        return False
    match a:
        case float():
            return math.isnan(a) and math.isnan(b) if math.isnan(a) else a.hex() == b.hex()
        case dict():
            pairs = zip(a.items(), b.items(), strict=False)
            return len(a) == len(b) and all(same(list(x), list(y)) for x, y in pairs)
        case list() | tuple():
            return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
        case Decimal():
            return a.as_tuple() == b.as_tuple()
        case datetime():
            return a == b and a.utcoffset() == b.utcoffset()
    return bool(a == b)


@given(hs.lists(states, max_size=4))
def test_what_is_read_is_what_was_written(given: list[Any]) -> None:
    read = of_texts([as_text(s) for s in given])
    assert len(read) == len(given) and all(same(a, b) for a, b in zip(given, read, strict=True))


def test_rows_have_their_names_again() -> None:
    (row,) = of_texts([as_text(HEADER.row(1, "a"))])
    assert (row.k, row.name) == (1, "a")
    (event,) = of_texts([as_text(HEADER.event(1, "a"))])
    assert isinstance(event, Event) and event.row.name == "a" and event.header == "gps"


def test_numbers_of_numpy_are_numbers() -> None:
    given = (np.int64(3), np.float64(1.5), np.bool_(True))
    assert of_texts([as_text(given)]) == [(3, 1.5, True)]
    assert of_texts([as_text(frozenset({1, 2}))]) == [frozenset({1, 2})]


class Behaved:
    """An object with behaviour."""


Odd = namedtuple("Odd", ["class_", "_0"], rename=True)


@pytest.mark.parametrize("wrong", [Behaved(), lambda: 1, [Behaved()], {1: {2: object()}}, range(3)])
def test_what_is_no_plain_value_is_refused(wrong: Any) -> None:
    with pytest.raises(StreamError, match="no plain value"):
        as_text(wrong)


def test_a_date_is_no_datetime() -> None:
    assert of_texts([as_text([date(2024, 1, 1), datetime(2024, 1, 1)])]) == [
        [date(2024, 1, 1), datetime(2024, 1, 1)]
    ]
    assert of_texts([as_text(Odd(1, 2))])[0][0] == 1
