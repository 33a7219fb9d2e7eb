"""The examples of streams beside plain Python: whatever the order and the cuts of the input, they tell the same."""

from __future__ import annotations

import math
import random
import runpy
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headwater as hw

EXAMPLES = Path(__file__).parent.parent / "examples"
Rows = list[tuple[Any, ...]]


def example(name: str) -> SimpleNamespace:
    """What an example defines."""
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))


def told(db: hw.Database, stream: str, header: str | None = None) -> Rows:
    """What a stream told of an output, in order."""
    table = db[stream].output_table(header)
    columns = [n for n in table.column_names if not n.startswith("_")]
    return [tuple(r.values()) for r in table.select(columns).to_pylist()]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as db:
        yield db


def cut(rows: Rows, chance: random.Random) -> Iterator[Rows]:
    """Rows in increments of any size."""
    rows = list(rows)
    while rows:
        size = chance.choice([1, 20, 200])
        yield rows[:size]
        del rows[:size]


# --- taxis -----------------------------------------------------------------------------------------------------------

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def rates_of(gps: Rows, rides: Rows) -> tuple[Rows, Rows]:
    """Rates of all hours and outliers, taxi by taxi and hour by hour."""
    hours = [int((r[1] - DAY).total_seconds()) // 3600 for r in (*gps, *rides)]
    rates, outliers = [], []
    for hour in range(min(hours), max(hours) + 1):
        begin, end = DAY + timedelta(hours=hour), DAY + timedelta(hours=hour + 1)
        cost = [r[2] for r in rides if begin <= r[1] < end]
        miles = []
        for taxi in {r[0] for r in gps}:
            way, last = 0.0, None
            for row in sorted(r for r in gps if r[0] == taxi and begin <= r[1] < end):
                if last is None:
                    last = row[2:]
                    continue
                step = math.hypot(row[2] - last[0], row[3] - last[1])
                if step > 1:
                    outliers.append(row)
                else:
                    way, last = way + step, row[2:]
            miles.append(way)
        rate = math.fsum(cost) / math.fsum(miles) if cost and math.fsum(miles) else None
        rates.append((end, rate))
    return rates, outliers


def test_taxis(db: hw.Database) -> None:
    taxi, chance = example("taxi"), random.Random(2)
    taxi.define(db)
    minutes = [m for m in range(6 * 60) if m // 60 != 3]  # an hour in which nobody drives
    gps: Rows = [
        (
            chance.randrange(4),
            DAY + timedelta(minutes=m),
            m / 64,
            chance.choice([0, 0, 0, 0, 9]) / 4,
        )
        for m in chance.choices(minutes, k=300)
    ]
    rides: Rows = [(1, DAY + timedelta(minutes=chance.randrange(360)), 2.5) for _ in range(60)]
    both = [("gps", r) for r in gps] + [("rides", r) for r in rides]
    chance.shuffle(both)
    for hour, some in enumerate(cut(both, chance)):
        change: dict[str, Rows] = {"gps": [], "rides": []}
        for name, row in some:
            change[name].append(row)
        db.apply(change)
        if hour == 2:  # nothing is over, so nothing can be told
            assert told(db, "taxis", "rates") == []
    for hour in (2, 3, 6):
        over = hw.closed(ts=hw.below(DAY + timedelta(hours=hour)))
        db.apply({}, punctuate={"gps": over, "rides": over})
        rates, outliers = rates_of(gps, rides)
        assert [r for r, _ in told(db, "taxis", "rates")] == [r for r, _ in rates[:hour]]
    for (_, rate), (_, expected) in zip(told(db, "taxis", "rates"), rates, strict=True):
        assert rate == expected or math.isclose(rate, expected)
    assert None in [r for _, r in rates] and len(outliers) > 10
    assert sorted(told(db, "taxis", "outliers")) == sorted(outliers)
    (worst,) = db.table("worst").to_pylist()
    assert worst["rate"] == max(r for _, r in told(db, "taxis", "rates") if r is not None)
    db["taxis"].verify()


# --- highest bids ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_highest_bids_with_ties(db: hw.Database, seed: int) -> None:
    highest, chance = example("highest_bids"), random.Random(seed)
    highest.define(db)
    bids = highest.generated(600, seed)
    for some in cut(bids, chance):
        db.apply({"bids": some})
    stream, view = highest.rows(db)
    assert stream == view  # the windows that are over
    db.punctuate("bids")
    windows: dict[int, Rows] = defaultdict(list)
    for row in bids:
        windows[int(row[2].timestamp()) // 600].append(row)
    expected = [r for w in windows.values() for r in w if r[1] == max(b[1] for b in w)]
    assert len(expected) > len(windows), "no ties"
    stream, view = highest.rows(db)
    assert stream == view == Counter(expected)
    times = [int(row[2].timestamp()) // 600 for row in told(db, "highest")]
    assert times == sorted(times)


# --- top states ------------------------------------------------------------------------------------------------------


def tops_of(days: dict[date, Counter[str]]) -> tuple[Rows, Rows]:
    """The days with their totals and whether they are highs, and the states on top of two highs in a row."""
    dates = list(days)
    weeks: list[dict[str, int]] = []
    for i in range(len(dates)):
        seven = dates[i - 6 : i + 1] if i >= 6 else []
        weeks.append({s: n for s in days[dates[i]] if (n := sum(days[d][s] for d in seven))})
    totals = [sum(week.values()) for week in weeks]
    ends, tops, before = [], [], None
    for i, day in enumerate(dates):
        high = 0 < i < len(dates) - 1 and totals[i - 1] < totals[i] > totals[i + 1]
        if high:
            mean = totals[i] / len(weeks[i])
            above = {s: n for s, n in weeks[i].items() if n > mean}
            if before is not None:
                tops += [(s, n, before[s]) for s, n in sorted(above.items()) if s in before]
            before = above
        ends.append((day + timedelta(days=1), totals[i], high))
    return ends, tops


def test_top_states(db: hw.Database) -> None:
    states = example("top_states")
    states.define(db)
    days, chance = states.generated(states=12, days=60, most=4), random.Random(1)
    rows = [r for day, counts in days.items() for r in states.rows_of(day, counts)]
    chance.shuffle(rows)
    db.apply({"cases": rows[:100]})
    db.apply({"cases": rows[100:]}, punctuate={"cases": hw.closed(day=hw.upto(date(2020, 3, 20)))})
    ends, tops = tops_of(days)
    early = told(db, "tops", "eod")
    assert early == ends[: len(early)] and len(early) == 19  # the last day waits for its neighbour
    db.punctuate("cases")
    assert told(db, "tops", "eod") == ends
    assert told(db, "tops", "top_states") == tops and len(tops) > 10
    assert "is cut in two" in str(db.explain("tops"))


@pytest.mark.slow
def test_top_states_of_two_years(db: hw.Database) -> None:
    states = example("top_states")
    states.define(db)
    days = states.generated(states=50, days=730, most=4)
    rows = [r for day, counts in days.items() for r in states.rows_of(day, counts)]
    db.apply({"cases": rows}, punctuate={"cases": hw.closed()})
    ends, tops = tops_of(days)
    assert told(db, "tops", "eod") == ends
    assert told(db, "tops", "top_states") == tops


# --- monthly status --------------------------------------------------------------------------------------------------


def status_of(values: list[int], until: int, around: int = 7) -> tuple[int, bool, int]:
    """The status of a state after its first rows; highs and lows by all of them."""
    surges, rising, total = 0, True, 0
    for i, v in enumerate(values[:until]):
        total += v
        if i < around or i + around >= len(values):
            continue
        others = values[i - around : i] + values[i + 1 : i + around + 1]
        if all(o < v for o in others):
            rising = False
        elif all(o > v for o in others):
            surges, rising, total = surges + 1, True, 0
    return surges, rising, total


def test_monthly_status(db: hw.Database) -> None:
    monthly, chance = example("monthly_status"), random.Random(3)
    monthly.define(db)
    rows = monthly.generated(states=6, days=300)
    mixed = chance.sample(rows, len(rows))
    for some in cut(mixed, chance):
        db.apply({"cases": some})
    db.punctuate("cases")
    months = [date(2020 + (m > 12), (m - 1) % 12 + 1, 1) for m in range(4, 14)]
    expected = []
    for end in months:
        for state in sorted({s for s, _, _ in rows}):
            mine = sorted((day, n) for s, day, n in rows if s == state)
            seen = sum(day < end for day, _ in mine)
            if seen:
                expected.append((state, *status_of([n for _, n in mine], seen)))
    assert told(db, "surges", "month") == [(m,) for m in months]
    assert told(db, "surges", "status") == expected
    assert max(surges for _, surges, _, _ in expected) >= 3


# --- rallies ---------------------------------------------------------------------------------------------------------


def test_rallies_over_final_rows_of_a_view(db: hw.Database) -> None:
    rallies, chance = example("rallies"), random.Random(4)
    rallies.define(db)
    trades = rallies.generated(40)
    trades = [t for t in trades if chance.random() < 0.7]
    chance.shuffle(trades)
    for some in cut(trades, chance):
        db.apply({"trades": some})
    assert told(db, "found", "rallies") == []
    for minutes in (10, 11, 40):
        until = rallies.START + timedelta(minutes=minutes)
        db.punctuate("trades", ts=hw.below(until))
        prices: dict[str, dict[datetime, int]] = defaultdict(dict)
        for item, ts, price in trades:
            if ts < until:
                at = ts.replace(second=0)
                prices[item][at] = max(price, prices[item].get(at, price))
        expected = []
        for item, of_item in prices.items():
            line = sorted(of_item.items())
            for i in range(3, len(line)):
                four = [p for _, p in line[i - 3 : i + 1]]
                if four == sorted(set(four)):
                    expected.append((item, *line[i], True))
        assert sorted(told(db, "found", "rallies")) == sorted(expected)
        counted = {r["item"]: r["rallies"] for r in db.table("counted").to_pylist()}
        assert counted == Counter(row[0] for row in expected)
    assert len(expected) > 2
    db["found"].verify()
