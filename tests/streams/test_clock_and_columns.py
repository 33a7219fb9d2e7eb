"""Clocks over numbers, dates and times; columns as they are declared, and what is given for them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headwater.calculus.types import BIGINT, DATE, DOUBLE, STRING, TIMESTAMP, TIMESTAMP_NTZ
from headwater.errors import HeadwaterError, ParseError, StepFailed
from headwater.streams.clock import clock
from headwater.streams.columns import checked, fields, in_order, listed
from headwater.streams.schema import Event

CLOCKS = [
    (clock(7, BIGINT), some.integers(-100, 100)),
    (clock("10 minutes", TIMESTAMP), some.datetimes(datetime(1960, 1, 1), datetime(2040, 1, 1))),
    (clock("1 month", TIMESTAMP_NTZ), some.datetimes(datetime(1960, 1, 1), datetime(2040, 1, 1))),
    (clock("2 weeks", DATE), some.dates(date(1960, 1, 1), date(2040, 1, 1))),
    (clock("quarter", DATE), some.dates(date(1960, 1, 1), date(2040, 1, 1))),
    (clock("1 year", DATE), some.dates(date(1960, 1, 1), date(2040, 1, 1))),
    (clock(timedelta(hours=1), TIMESTAMP), some.datetimes(timezones=some.just(UTC))),
]


@given(some.sampled_from(CLOCKS).flatmap(lambda c: some.tuples(some.just(c[0]), c[1])))
def test_a_row_is_in_the_frame_of_its_mark(case: Any) -> None:
    ticks, at = case
    mark = ticks.floor(at)
    assert mark <= at < ticks.after(mark)
    assert ticks.floor(mark) == mark and ticks.floor(ticks.after(mark)) == ticks.after(mark)


def test_marks_of_the_calendar() -> None:
    assert clock("1 month", DATE).after(date(2020, 12, 1)) == date(2021, 1, 1)
    assert clock("10 minutes", TIMESTAMP).floor(datetime(2020, 1, 1, 8, 19, 59)) == datetime(
        2020, 1, 1, 8, 10
    )


@pytest.mark.parametrize(
    ("interval", "kind"),
    [(0, BIGINT), (-5, BIGINT), ("-1 hour", TIMESTAMP), ("soon", DATE), (5, DATE), ("1 hour", BIGINT),
     ("1 hour", DATE), (5, DOUBLE), ("1 day", STRING), (timedelta(0), DATE), (None, BIGINT), (True, BIGINT)],
)  # fmt: skip
def test_no_clock(interval: Any, kind: Any) -> None:
    with pytest.raises(HeadwaterError, match=r"interval|clock"):
        clock(interval, kind)


def test_columns_as_they_are_declared() -> None:
    declared = "id BIGINT, `a b` string, p DECIMAL(10, 2), d: date, x Double"
    found = fields(declared)
    assert listed(found) == "id bigint, `a b` string, p decimal(10,2), d date, x double"
    assert fields(found) == found
    for wrong in ("id", "id BIGINT,", "id NUMBER", "id BIGINT, id INT", "x BIGINT(3)", ""):
        with pytest.raises(ParseError):
            fields(wrong)


def test_values_are_checked_against_their_types() -> None:
    columns = fields(
        "a BIGINT, x DOUBLE, s STRING, b BOOLEAN, d DATE, t TIMESTAMP, p DECIMAL(3, 1)"
    )
    good = (1, 2, "s", True, date(2020, 1, 1), datetime(2020, 1, 1), Decimal("1.5"))
    row = checked(good, columns, "here")
    assert row == good and isinstance(row[1], float)
    assert checked([None] * 7, columns, "here") == (None,) * 7
    for place, wrong in enumerate((1.5, "2", 3, 1, datetime(2020, 1, 1), date(2020, 1, 1), 1.5)):
        bad = (*good[:place], wrong, *good[place + 1 :])
        with pytest.raises(StepFailed, match=f"for `{columns[place][0]}`"):
            checked(bad, columns, "here")
    with pytest.raises(StepFailed, match="for `a`"):
        checked((True, *good[1:]), columns, "here")


def test_bags_in_order() -> None:
    nan = float("nan")
    events = [Event("x", (v, 1)) for v in (2.0, nan, None, 1.0)] + [Event("a", (9.0, 1))]
    assert [e.row[0] for e in in_order(events)][:4] == [9.0, None, 1.0, 2.0]
