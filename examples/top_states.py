"""States with most cases on two days in a row that are highs: bags in SQL, days in order, and a pattern over days.

Cases of a day have no order, days have one. Q1 counts the cases of each state, Q2 adds up seven days, Q3 puts the total of
a day into its mark, Q4 says which days are local maxima, Q5 has the states above the mean on those, and Q6 those that were
above the mean on the maximum before as well. Q4 must wait for the next day; half of Q5 needs no maxima, so it is moved
before Q4 and less is kept. Run it with `python examples/top_states.py`.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections import Counter
from datetime import date, timedelta
from typing import Any

import headwater as hw
import headwater.st as st

Days = dict[date, Counter[str]]
MAXIMUM = st.when("lmax", header="eod")
COUNTS = "SELECT state, count(*) AS cases FROM cases GROUP BY state"
WEEKS = "SELECT state, sum(cases) AS week FROM counts GROUP BY state"
ABOVE = "SELECT state, week FROM weeks WHERE week > (SELECT avg(week) FROM weeks)"

Q1 = st.lift("cases", st.relational(COUNTS, gives="counts"))
Q2 = st.union(st.when(header="eod").times(7), keep="all") >> st.lift(
    "counts", st.relational(WEEKS, gives="weeks")
)
Q3 = st.aggregate("SELECT coalesce(sum(week), 0) AS total FROM weeks", keep="all")
Q4 = st.local_maxima("total")
Q5 = st.frames(ABOVE, gives="above", where="lmax")
Q6 = st.join(MAXIMUM + (~MAXIMUM).many() + MAXIMUM, "state", gives="top_states")


def define(db: hw.Database) -> None:
    """Cases, and the days as a clock: the mark of a day is the first instant of the next."""
    db.source("cases", "state STRING, day DATE, person BIGINT", closes="day", append_only=True)
    steps = Q1 >> Q2 >> Q3 >> Q4 >> Q5 >> Q6
    db.stream("tops", st.Sync("eod", st.Bag("cases")), steps, order="day", marks={"eod": "1 day"})


def generated(states: int, days: int, most: int, seed: int = 1) -> Days:
    """How many cases each state has on each day, in waves."""
    chance = random.Random(seed)
    phases = {f"s{i:02}": chance.random() * 40 for i in range(states)}
    return {
        date(2020, 3, 1) + timedelta(days=d): Counter(
            {
                s: round(most * (1 + math.sin((d + phase) / 4)) / 2 * chance.random())
                for s, phase in phases.items()
            }
        )
        for d in range(days)
    }


def rows_of(day: date, counts: Counter[str]) -> list[tuple[Any, ...]]:
    """A row for each case."""
    return [(state, day, i) for state, n in counts.items() for i in range(n)]


def main(folder: str, states: int = 50, days: int = 730) -> None:
    """Two years of cases, a quarter at a time."""
    made = generated(states, days, most=4)
    with hw.open(folder) as db:
        define(db)
        dates = list(made)
        for first in range(0, days, 90):
            some = dates[first : first + 90]
            over = hw.closed(day=hw.upto(some[-1]))
            rows = [r for day in some for r in rows_of(day, made[day])]
            db.apply({"cases": rows}, punctuate={"cases": over})
        db.punctuate("cases")  # no more cases come
        highs = [r for r in db["tops"].output_table("eod").to_pylist() if r["lmax"]]
        tops = db["tops"].output_table("top_states").to_pylist()
        print(f"{len(highs)} highs of {len(dates)} days, {len(tops)} times a state on top of two")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
