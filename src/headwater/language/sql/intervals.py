"""Dates and times plus or minus an interval that is written out: `day + INTERVAL 3 DAYS`, `ts - INTERVAL '10' MINUTES`."""

from __future__ import annotations

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.terms import Call, Const, Term
from headwater.calculus.types import BIGINT, DATE, INTEGER, TIMESTAMP, TIMESTAMP_NTZ

DAYS = {"DAY": 1, "WEEK": 7}
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
A_DAY = 86_400_000_000
MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": A_DAY,
    "WEEK": 7 * A_DAY,
}


def shifted(op: str, interval: exp.Interval, start: Term) -> Term | None:
    """A date shifted by days, weeks, months or years, or a time shifted by a length of time; None if it is another.

    Spark adds whole days to an instant by the calendar of its zone, so that those are left to it.
    """
    unit = (interval.args["unit"].name if interval.args.get("unit") else "").upper().rstrip("S")
    try:
        n = int(interval.this.name) * (-1 if op == "-" else 1)
    except ValueError:
        return None
    t = type_of(start)
    if t == DATE and unit in DAYS:
        return Call("date_add", (start, Const(n * DAYS[unit], INTEGER)))
    if t == DATE and unit in MONTHS:
        return Call("add_months", (start, Const(n * MONTHS[unit], INTEGER)))
    micros = n * MICROSECONDS.get(unit, 0)
    if micros and (t == TIMESTAMP_NTZ or (t == TIMESTAMP and abs(micros) < A_DAY)):
        return Call("add_micros", (start, Const(micros, BIGINT)))
    return None
