"""The examples as pipelines, each equal to a plain program: taxis, NEXMark 7, top contributing states, monthly status."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from datetime import date, datetime, timedelta
from typing import Any

import pytest

import headwater.st as st
from duck_sql import DuckSQL
from headwater.calculus.types import BIGINT, DATE, DOUBLE, STRING, TIMESTAMP_NTZ
from headwater.streams.pipeline import Query, Steps, rows_kept
from headwater.streams.schema import Event, Header
from headwater.streams.stream import flatten
from stream_checks import checked_run, stream

SQL = DuckSQL()


# --- taxis ------------------------------------------------------------------------------------------------

TAXI_HEADERS = {
    "hour": Header.of("hour", ts=BIGINT),
    "gps": Header.of("gps", taxi=BIGINT, ts=BIGINT, x=DOUBLE, y=DOUBLE),
    "rides": Header.of("rides", taxi=BIGINT, cost=DOUBLE),
}
TAXIS = st.Sync("hour", st.Par(st.PartitionBy("taxi", st.Seq("gps")), st.Bag("rides")))


def drive(at: Any, fix: Any, emit: Any) -> Any:
    """One taxi, in order."""
    if at.x is None:
        return fix.x, fix.y, at.km or 0.0
    d = math.hypot(fix.x - at.x, fix.y - at.y)
    if d > 1:
        return emit("outliers", fix.taxi, fix.ts, fix.x, fix.y) or at
    return fix.x, fix.y, at.km + d


def test_taxis() -> None:
    p1 = st.relational("SELECT sum(cost) AS cost FROM rides")
    p2 = st.fold(
        drive,
        state="x DOUBLE, y DOUBLE, km DOUBLE",
        result="km",
        gives={"outliers": "taxi BIGINT, ts BIGINT, x DOUBLE, y DOUBLE"},
    )
    p3 = st.partitioned(p2, agg="SELECT sum(km) AS km FROM results")
    p4 = st.parallel(p3, p1, fin="SELECT cost / nullif(km, 0) AS rate FROM lefts, rights")
    p5 = st.hierarchical(
        p4, update="SELECT mark.ts AS hour, rate FROM mark, result", gives="cost_per_mile"
    )
    query = p5.on(TAXIS, TAXI_HEADERS, SQL)
    assert str(query.output) == "cost_per_mile[taxi{seq outliers}]"

    gps, rides, hour = (
        (lambda *row, name=name: Event(name, row)) for name in ("gps", "rides", "hour")
    )
    events = [
        gps(7, 1, 0.0, 0.0), rides(7, 3.0), gps(8, 1, 5.0, 5.0), gps(7, 2, 0.5, 0.0), gps(8, 2, 5.0, 5.25),
        gps(7, 3, 9.0, 9.0),  # an outlier: the taxi is still at (0.5, 0)
        gps(7, 4, 0.5, 0.5), rides(8, 2.0), hour(10),
        # An hour without distance, and a taxi over the hour's end, whose way between is in neither hour.
        gps(7, 11, 0.75, 0.5), rides(7, 1.0), hour(20), hour(30),
    ]  # fmt: skip
    expected = [
        ("outliers", (7, 3, 9.0, 9.0)), ("cost_per_mile", (10, 5.0 / 1.25)), ("cost_per_mile", (20, None)),
        ("cost_per_mile", (30, None)),
    ]  # fmt: skip
    assert checked_run(query, events) == stream(query, expected)


# --- NEXMark 7 --------------------------------------------------------------------------------------------


def test_nexmark_7() -> None:
    headers = {"bids": Header.of("bids", item=BIGINT, price=BIGINT, ts=TIMESTAMP_NTZ)}
    steps = st.every("10 minutes", "tick") >> st.window("tick") >> st.highest("price")
    query = steps.on(st.Seq("bids"), headers, order="ts")
    assert str(query.output) == "seq bids"
    chance, at, rows = random.Random(7), datetime(2026, 1, 1, 11, 57), []
    for _ in range(150):
        at += timedelta(seconds=chance.choice([0, 20, 90, 1500]))
        rows.append((chance.randrange(9), chance.randrange(6), at))
    windows: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        windows[int((row[2] - datetime(1970, 1, 1)).total_seconds()) // 600].append(row)
    expected = [
        row
        for w in sorted(windows)
        for row in sorted(r for r in windows[w] if r[1] == max(x[1] for x in windows[w]))
    ]
    events = [Event("bids", row) for row in rows]
    assert checked_run(query, events, every=10) == stream(query, [("bids", r) for r in expected])
    assert len(expected) > len(windows)  # there are ties
    # The same in SQL, over windows of ten minutes.
    asked = """
        SELECT item, price, ts FROM bids b WHERE price = (
            SELECT max(price) FROM bids c WHERE time_bucket(INTERVAL '10 minutes', c.ts) = time_bucket(INTERVAL '10 minutes', b.ts))
    """
    assert Counter(SQL.relation(asked, {"bids": (headers["bids"], rows)})) == Counter(expected)


# --- COVID: top contributing states -----------------------------------------------------------------------

CASE_HEADERS = {
    "eod": Header.of("eod", day=DATE),
    "cases": Header.of("cases", state=STRING, person=BIGINT),
}
DAYS = st.Sync("eod", st.Bag("cases"))
LM = st.when("lmax", header="eod")

Q1 = st.lift(
    "cases",
    st.relational("SELECT state, count(*) AS cases FROM cases GROUP BY state", gives="state_cases"),
)
Q2 = st.union(st.when(header="eod").times(7), keep="all") >> st.lift(
    "state_cases",
    st.relational(
        "SELECT state, sum(cases) AS week FROM state_cases GROUP BY state", gives="smooth"
    ),
)
Q3 = st.aggregate("SELECT coalesce(sum(week), 0)::BIGINT AS total FROM smooth", keep="all")
Q4 = st.local_maxima("total")
Q5 = st.frames(
    "SELECT state, week FROM smooth WHERE week > (SELECT avg(week) FROM smooth)",
    gives="contributing",
    where="lmax",
)
Q6 = st.join(LM + (~LM).many() + LM, "state", gives="consecutive")
TOP = Q1 >> Q2 >> Q3 >> Q4 >> Q5 >> Q6


def generated(states: int, days: int, most: int, seed: int) -> dict[date, Counter[str]]:
    """How many cases each state has on each day, in waves."""
    chance = random.Random(seed)
    phases = {f"s{i:02}": chance.random() * 40 for i in range(states)}
    made: dict[date, Counter[str]] = {}
    for d in range(days):
        made[date(2020, 3, 1) + timedelta(days=d)] = Counter(
            {
                s: round(most * (1 + math.sin((d + phase) / 4)) / 2 * chance.random())
                for s, phase in phases.items()
            }
        )
    return made


def case_events(days: dict[date, Counter[str]], seed: int = 0) -> list[Event]:
    """Every case a row, in any order within its day."""
    chance, events = random.Random(seed), []
    for day, counts in days.items():
        rows = [Event("cases", (s, i)) for s, n in counts.items() for i in range(n)]
        chance.shuffle(rows)
        events += [*rows, Event("eod", (day,))]
    return events


def plain_program(days: dict[date, Counter[str]]) -> list[tuple[str, tuple[Any, ...]]]:
    """What the six queries say, written down directly."""
    dates = list(days)
    weeks: list[dict[str, int]] = []
    for i in range(len(dates)):
        seven = dates[i - 6 : i + 1] if i >= 6 else []
        weeks.append(
            {s: n for s in days[dates[i]] if (n := sum(days[d][s] for d in seven))} if seven else {}
        )
    totals = [sum(week.values()) for week in weeks]
    told, previous = [], None
    for i, day in enumerate(dates):
        top = 0 < i < len(dates) - 1 and totals[i - 1] < totals[i] > totals[i + 1]
        if top:
            mean = totals[i] / len(weeks[i])
            contributing = {s: n for s, n in weeks[i].items() if n > mean}
            if previous is not None:
                told += [
                    ("consecutive", (s, n, previous[s]))
                    for s, n in contributing.items()
                    if s in previous
                ]
            previous = contributing
        told.append(("eod", (day, totals[i], top)))
    return told


def test_top_contributing_states() -> None:
    days = generated(states=8, days=60, most=6, seed=3)
    query = TOP.on(DAYS, CASE_HEADERS, SQL)
    assert str(query.output) == "eod[bag consecutive]"
    expected = plain_program(days)
    assert sum(name == "consecutive" for name, _ in expected) > 10
    assert checked_run(query, case_events(days), every=97) == stream(query, expected)
    # Any order within a day, and steps as they were written, tell the same.
    assert query.run(case_events(days, seed=1)) == stream(query, expected)
    written = TOP.on(DAYS, CASE_HEADERS, SQL, commute=False)
    assert written.run(case_events(days)) == stream(written, expected)


def after_q3(days: dict[date, Counter[str]]) -> tuple[Query, list[Event]]:
    """The stream that the fourth query reads."""
    query = (Q1 >> Q2 >> Q3).on(DAYS, CASE_HEADERS, SQL)
    return query, query.stepper().run(None, case_events(days))[1]


def most_kept(query: Query, events: list[Event]) -> int:
    stepper = query.stepper()
    state, most = stepper.start(None), 0
    for event in events:
        state, _ = stepper.step(state, event)
        most = max(most, rows_kept(state))
    return most


def test_the_fifth_query_is_cut_in_two_and_less_is_kept() -> None:
    before, events = after_q3(generated(states=20, days=40, most=3, seed=5))
    both = Q4 >> Q5
    written = both.on(before.output, before.headers_out, SQL, commute=False)
    moved = both.on(before.output, before.headers_out, SQL)
    assert [step.word for step in moved.steps.steps] == ["lift", "local_maxima", "frames"]
    assert moved.output == written.output and moved.headers_out == written.headers_out
    assert checked_run(moved, events, every=31) == checked_run(written, events, every=31)
    (reason,) = moved.reasons
    assert "is cut in two" in reason and "it reads `eod.lmax`, which local_maxima writes" in reason
    kept, less = most_kept(written, events), most_kept(moved, events)
    assert less < 0.8 * kept, (less, kept)
    assert "cut in two" in moved.explain()


@pytest.mark.parametrize(
    ("step", "moves", "says"),
    [
        (st.filter("week > 3", of="smooth"), True, "it makes rows fewer"),
        (
            st.lift("smooth", st.relational("SELECT state FROM smooth LIMIT 1", gives="one")),
            True,
            "fewer",
        ),
        (st.filter("lmax", of="eod"), False, "reads `eod.lmax`"),
        (
            st.filter("total > 30", of="eod"),
            False,
            "writes the rows of `eod`, which local_maxima reads",
        ),
        (st.map(smooth={"state": "state", "week": "week"}), False, "does not make rows fewer"),
        (
            st.lift("smooth", st.relational("SELECT a.* FROM smooth a, smooth b", gives="pairs")),
            False,
            "does not make rows fewer",
        ),
        (st.frames(where="lmax"), False, "reads `eod.lmax`"),
        (st.frames(where="total > 30"), True, "it makes rows fewer"),
        (st.highest("week"), False, "reads `eod.lmax`"),
    ],
)
def test_what_commutes(step: Any, moves: bool, says: str) -> None:
    before, events = after_q3(generated(states=5, days=25, most=4, seed=6))
    written = (Q4 >> step).on(before.output, before.headers_out, SQL, commute=False)
    query = (Q4 >> step).on(before.output, before.headers_out, SQL)
    assert (query.steps.steps[0].word != "local_maxima") == moves
    assert says in query.reasons[0]
    assert query.run(events) == written.run(events)
    if moves and step.word != "frames":  # a filter on marks behind the frame keeps the frame itself
        assert most_kept(query, events) <= most_kept(written, events)


def test_steps_move_over_several() -> None:
    before, events = after_q3(generated(states=5, days=25, most=4, seed=6))
    steps = Q4 >> st.local_maxima("week_total", name="top2")
    steps = st.map(eod={"day": "day", "total": "total", "week_total": "total * 2"}) >> steps
    few = st.filter("week > 3", of="smooth")
    query = (steps >> few).on(before.output, before.headers_out, SQL)
    assert [s.word for s in query.steps.steps] == ["map", "filter", "local_maxima", "local_maxima"]
    written = Steps((*steps.steps, few)).on(before.output, before.headers_out, SQL, commute=False)
    assert query.run(events) == written.run(events)


# --- COVID: monthly status --------------------------------------------------------------------------------

STATUS_HEADERS = {
    "month": Header.of("month", at=DATE),
    "cases": Header.of("cases", state=STRING, day=DATE, cases=BIGINT),
}
MONTHS = st.Sync("month", st.PartitionBy("state", st.Seq("cases")))


def surge(at: Any, row: Any, header: str) -> Any:
    """Surges that are over, whether this one rises, and its cases."""
    if header == "valley":
        return at.surges + 1, True, 0
    if header == "peak":
        return at.surges, False, at.cases
    return at.surges, at.rising, at.cases + row.cases


def status_of(rows: list[tuple[date, int]], until: int, around: int = 7) -> tuple[Any, ...]:
    """The status of a state after its first rows, directly: peaks and valleys by all of its rows."""
    values = [n for _, n in rows]
    surges, rising, total = 0, True, 0
    for i, v in enumerate(values[:until]):
        total += v
        others = [
            values[j] for j in range(i - around, i + around + 1) if j != i and 0 <= j < len(values)
        ]
        if len(others) == 2 * around and all(o < v for o in others):
            rising = False
        elif len(others) == 2 * around and all(o > v for o in others):
            surges, rising, total = surges + 1, True, 0
    return surges, rising, total


def test_monthly_status_of_each_state() -> None:
    chance = random.Random(11)
    days = [date(2020, 3, 1) + timedelta(days=d) for d in range(240)]
    rows: dict[str, list[tuple[date, int]]] = {}
    for s in ("s0", "s1", "s2", "s3"):
        phase, length = chance.random() * 50, chance.uniform(6, 12)
        rows[s] = [
            (d, round(500 * (1 + math.sin((i + phase) / length)) + chance.random() * 3))
            for i, d in enumerate(days)
        ]
    rows["s3"] = [r for r in rows["s3"] if r[0].month not in (6, 7)]  # no rows for two months
    events: list[Event] = []
    expected: list[tuple[str, tuple[Any, ...]]] = []
    seen: Counter[str] = Counter()
    for day in [*days, None]:
        if day is None or (day.day == 1 and events):
            at = day or date(2020, 10, 27)
            events.append(Event("month", (at,)))
            expected += [("status", (s, *status_of(rows[s], seen[s]))) for s in rows]
            expected.append(("month", (at,)))
        if day is not None:
            for s in chance.sample(sorted(rows), len(rows)):
                for d, n in rows[s]:
                    if d == day:
                        events.append(Event("cases", (s, d, n)))
                        seen[s] += 1
    steps = st.peaks("cases", around=7, names=("peak", "valley")) >> st.carry(
        "state",
        surge,
        state="surges INT, rising BOOLEAN, cases BIGINT",
        gives="status",
        start=(0, True, 0),
    )
    query = steps.on(MONTHS, STATUS_HEADERS)
    assert str(query.output) == "month[bag status]"
    assert checked_run(query, events, every=211) == stream(query, expected)
    assert max(row[1] for name, row in expected if name == "status") >= 3
    # The month in which a state has no rows waits for what comes after it, and is told then.
    told_at = {}
    stepper = query.stepper()
    state = stepper.start(None)
    for place, event in enumerate(events):
        state, now = stepper.step(state, event)
        told_at |= {e.row[0]: events[place] for e in now if e.header == "month"}
    assert told_at[date(2020, 4, 1)].row == (date(2020, 5, 1),)  # a month late
    assert told_at[date(2020, 6, 1)].row == (date(2020, 9, 1),)


def test_explain_shows_types_and_moves() -> None:
    query = TOP.on(DAYS, CASE_HEADERS, SQL)
    text = query.explain()
    assert text.splitlines()[0] == "input   eod[bag cases]"
    assert "eod[bag consecutive]" in text and "moved   frames(" in text
    assert flatten(query.run([])) == []


@pytest.mark.slow
def test_top_contributing_states_of_two_years() -> None:
    days = generated(states=50, days=730, most=4, seed=8)
    query = TOP.on(DAYS, CASE_HEADERS, SQL)
    told = query.stepper().run(None, case_events(days))[1]
    assert stream(query, told) == stream(query, plain_program(days))
