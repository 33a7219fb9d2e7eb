"""The surges of each state, told every month: windows that open and close in each state at times of its own.

A surge ends at a valley, a day with fewer cases than the seven days before and after it, so that the windows of different
states are not aligned. `peaks` marks highs and lows of each state's sequence, also across months; `carry` keeps what is known
of a state from month to month and tells it of every state at each month's end, also of one that had no rows. Run it with
`python examples/monthly_status.py`.
"""

from __future__ import annotations

import math
import random
import tempfile
from datetime import date, timedelta
from typing import Any

import headwater as hw
import headwater.st as st

Rows = list[tuple[str, date, int]]


def surge(at: Any, row: Any, header: str) -> Any:
    """Surges that are over, whether the present one rises, and its cases so far."""
    if header == "valley":
        return at.surges + 1, True, 0
    if header == "peak":
        return at.surges, False, at.cases
    return at.surges, at.rising, at.cases + row.cases


SCHEMA = st.Sync("month", st.PartitionBy("state", st.Seq("cases")))
STEPS = st.peaks("cases", around=7, names=("peak", "valley")) >> st.carry(
    "state", surge, "surges INT, rising BOOLEAN, cases BIGINT", gives="status", start=(0, True, 0)
)


def define(db: hw.Database) -> None:
    """Daily cases by state, and the months as a clock."""
    db.source("cases", "state STRING, day DATE, cases BIGINT", closes="day", append_only=True)
    db.stream("surges", SCHEMA, STEPS, order="day", marks={"month": "1 month"})


def generated(states: int, days: int, seed: int = 11) -> Rows:
    """Cases of each state in waves of its own, state by state; one state reports nothing for two months."""
    chance, made = random.Random(seed), []
    for s in range(states):
        phase, length = chance.random() * 50, chance.uniform(6, 12)
        for i in range(days):
            day = date(2020, 3, 1) + timedelta(days=i)
            count = round(500 * (1 + math.sin((i + phase) / length)) + chance.random() * 3)
            if s or day.month not in (6, 7) or day.year > 2020:
                made.append((f"s{s:02}", day, count))
    return made


def main(folder: str, states: int = 50, days: int = 730) -> None:
    """Two years of cases, given state by state and told month by month."""
    rows = generated(states, days)
    with hw.open(folder) as db:
        define(db)
        for first in range(0, len(rows), 5000):  # rows of a state all at once: no day is over yet
            db.apply({"cases": rows[first : first + 5000]})
        print(f"{len(rows)} rows: {db['surges'].output_table('status').num_rows} are told")
        db.punctuate("cases")
        told = db["surges"].output_table("status").to_pylist()
        months = len(db["surges"].output_table("month"))
        print(f"no more rows: {len(told)} are told, of {months} months")
        last = [r for r in told if r["state"] == "s01"][-1]
        now = "rising" if last["rising"] else "falling"
        print(
            f"s01: {last['surges']} surges are over, the present one is {now}: {last['cases']} cases"
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
