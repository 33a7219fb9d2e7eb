"""Windows of time: scalars and kernels against their meaning, views against plain Python as rows come, go and come late."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.scalars import evaluate
from headwater.calculus.terms import Call, Const, Var
from headwater.calculus.types import (
    BIGINT,
    INTEGER,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Base,
    Boxed,
    RecordType,
    bag,
)
from headwater.calculus.windows import Reach, Window, reach
from headwater.calculus.windows import evaluate as meaning
from headwater.engine.here import arrow, sessions
from headwater.engine.here import windows as kernel
from headwater.interop.arrow_types import arrow_type
from headwater.language.sql import read_sql
from headwater.language.sql.time_windows import durations
from headwater.plan.scalar import scalar

EPOCH = datetime(1970, 1, 1)
SECOND = 1_000_000


def at(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def micros(t: datetime) -> int:
    return (t.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)


# --- scalars --------------------------------------------------------------------------------------------------

TIMES = st.one_of(
    st.none(), st.integers(-50, 50), st.integers(-(10**15), 10**15), st.just(1_704_067_200 * SECOND)
)
WIDTHS = st.one_of(st.integers(1, 20), st.integers(1, 10**12), st.just(7 * 86_400 * SECOND))


def in_arrow(name: str, t: Base, times: list[int | None], *numbers: int) -> list[Any]:
    """The values of a call, from its tree."""
    column = Var("t", t)
    made = scalar(Call(name, (column, *(Const(n, BIGINT) for n in numbers))), {column: "t"})
    literals = [["literal", "bigint", n] for n in numbers]
    assert made.tree == [name, str(made.type), ["column", str(t), "t"], *literals]
    assert not arrow.in_zone(made.tree)
    values = pa.array(times, pa.int64()).view(arrow_type(t))
    return arrow.evaluate(made.tree, pa.table({"t": values})).to_pylist()


def by_meaning(name: str, t: Base, times: list[int | None], *numbers: int) -> list[Any]:
    many = Boxed(bag(t)) if name == "window_starts" else t
    types = (t, *(BIGINT for _ in numbers))
    return [evaluate(name, many, types, [None if n is None else at(n), *numbers]) for n in times]


@given(
    st.sampled_from((TIMESTAMP, TIMESTAMP_NTZ)), st.lists(TIMES, min_size=1), WIDTHS, st.integers()
)
def test_the_start_of_a_window(t: Base, times: list[int | None], width: int, offset: int) -> None:
    """The start is the greatest of offset + n · width that is not after the time, and never goes back as time goes on."""
    offset %= width
    found = [x and micros(x) for x in in_arrow("window_start", t, times, width, offset)]
    meant = [x and micros(x) for x in by_meaning("window_start", t, times, width, offset)]
    assert found == meant
    for time, start in zip(times, found, strict=True):
        assert (time is None) == (start is None)
        if time is not None:
            assert (start - offset) % width == 0 and start <= time < start + width
    pairs = sorted((n, s) for n, s in zip(times, found, strict=True) if n is not None)
    assert all(a[1] <= b[1] for a, b in pairwise(pairs))


@given(
    st.sampled_from((TIMESTAMP, TIMESTAMP_NTZ)),
    st.lists(TIMES, min_size=1),
    WIDTHS,
    st.integers(1, 40),
    st.integers(),
)
def test_the_starts_of_hopping_windows(
    t: Base, times: list[int | None], width: int, parts: int, offset: int
) -> None:
    """The starts are all of offset + n · slide from behind time - width up to the time; there are none of NULL."""
    slide = max(1, width // parts)
    offset %= slide
    found = in_arrow("window_starts", t, times, width, slide, offset)
    meant = by_meaning("window_starts", t, times, width, slide, offset)
    for time, starts, said in zip(times, found, meant, strict=True):
        if time is None:
            assert starts is None and said is None
            continue
        numbers = {micros(s) for s in starts}
        assert len(numbers) == len(starts) and {at(n): 1 for n in numbers} == dict(said)
        assert all(time - width < s <= time and (s - offset) % slide == 0 for s in numbers)
        assert len(numbers) == (time - offset) // slide - (time - width - offset) // slide


@given(st.sampled_from((TIMESTAMP, TIMESTAMP_NTZ)), st.lists(TIMES, min_size=1), st.integers(-9, 9))
def test_a_time_and_microseconds(t: Base, times: list[int | None], n: int) -> None:
    found = [x and micros(x) for x in in_arrow("add_micros", t, times, n)]
    assert found == [None if x is None else x + n for x in times]


def test_a_window_outside_of_the_calendar_is_left_to_spark() -> None:
    first, last = micros(datetime(1, 1, 1)), micros(datetime.max)
    with pytest.raises(arrow.ArrowCannot):
        in_arrow("window_start", TIMESTAMP, [first + 3], 7 * SECOND, 0)
    with pytest.raises(arrow.ArrowCannot):
        in_arrow("window_starts", TIMESTAMP, [first], 7 * SECOND, SECOND, 0)
    with pytest.raises(arrow.ArrowCannot):
        in_arrow("add_micros", TIMESTAMP, [last], 1)


READ = {
    "10 seconds": 10 * SECOND,
    "  10   SECONDS  ": 10 * SECOND,
    "interval 1 minute 30 second": 90 * SECOND,
    "1 week": 7 * 86_400 * SECOND,
    "1 day 2 hours": 26 * 3600 * SECOND,
    "1 minute -30 seconds": 30 * SECOND,
    "- 2 seconds": -2 * SECOND,
    "+10 seconds": 10 * SECOND,
    "1.5 seconds": 1_500_000,
    ".5 seconds": 500_000,
    "1. seconds": SECOND,
    "1.1234567 seconds": 1_123_456,
    "-1.5 seconds": -1_500_000,
    "1 second 1 second": 2 * SECOND,
    "7 milliseconds 3 microseconds": 7003,
    "": None,
    "10": None,
    "10seconds": None,
    "1.5 minutes": None,
    "1 minute, 30 seconds": None,
    "1 sec": None,
    "1 nanosecond": None,
    "interval": None,
    "nonsense": None,
}
"""Intervals as Spark 4 reads them."""


@pytest.mark.parametrize("text", READ)
def test_durations_as_spark_reads_them(text: str) -> None:
    found = durations(text)
    assert (None if found is None else sum(n for n, _ in found)) == READ[text]


# --- the kernel of sessions -------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(0, 60), max_size=12), min_size=1, max_size=4), st.integers(1, 9)
)
def test_the_kernel_of_sessions_is_their_meaning(partitions: list[list[int]], gap: int) -> None:
    window = Window("session_start", ("t",), offset=gap, returns=TIMESTAMP_NTZ)
    assert Window.parse(window.text()) == window
    assert reach([window], {"t": TIMESTAMP_NTZ}) == Reach("session", gap)
    wanted: list[Any] = []
    for times in partitions:
        rows = [((at(n),), {"t": at(n)}, 1) for n in times]
        wanted += [value for _, (value,) in meaning(rows, [(False, False)], [window])]
    times = [n for p in partitions for n in sorted(p)]
    groups = np.repeat(np.arange(len(partitions)), [len(p) for p in partitions])
    column = pa.array(times, pa.int64()).view(pa.timestamp("us"))
    (found,) = kernel.evaluate(pa.table({"t": column}), groups, ["t"], [(False, False)], [window])
    assert found.to_pylist() == wanted


# --- views ------------------------------------------------------------------------------------------------------

Row = tuple[int | None, datetime | None, int | None]
Rows = Mapping[Row, int]
Place = tuple[Any, ...]


def tumbling(width: int, offset: int = 0) -> Callable[[Rows], dict[Place, list[Row]]]:
    return hopping(width, width, offset)


def hopping(width: int, slide: int, offset: int = 0) -> Callable[[Rows], dict[Place, list[Row]]]:
    """The rows of each window, by trying all starts around a row."""

    def placed(rows: Rows) -> dict[Place, list[Row]]:
        out: dict[Place, list[Row]] = defaultdict(list)
        for row in Counter(rows).elements():
            if row[1] is None:
                continue
            time = micros(row[1])
            for start in range(time - width, time + 1):
                if start <= time < start + width and (start - offset) % slide == 0:
                    out[at(start), at(start + width)].append(row)
        return out

    return placed


def by_sessions(gap: int, keyed: bool) -> Callable[[Rows], dict[Place, list[Row]]]:
    """The rows of each session of each key: those that intervals which touch connect, joined two by two until nothing is left."""

    def placed(rows: Rows) -> dict[Place, list[Row]]:
        found: list[tuple[int, int, Any, list[Row]]] = []
        for row in Counter(rows).elements():
            if row[1] is None:
                continue
            low, high, key, own = (
                micros(row[1]),
                micros(row[1]) + gap,
                row[0] if keyed else "",
                [row],
            )
            while True:
                touching = [f for f in found if f[2] == key and f[0] <= high and low <= f[1]]
                if not touching:
                    break
                for f in touching:
                    found.remove(f)
                    low, high, own = min(low, f[0]), max(high, f[1]), own + f[3]
            found.append((low, high, key, own))
        return {(at(a), at(b), *([k] if keyed else [])): own for a, b, k, own in found}

    return placed


def summed(own: Iterable[Row]) -> int | None:
    values = [v for _, _, v in own if v is not None]
    return sum(values) if values else None


def totals(place: Place, own: list[Row]) -> tuple[Any, ...]:
    """Start, end, key if there is one, how many rows, their sum and their greatest."""
    values = [v for _, _, v in own if v is not None]
    return (*place, len(own), summed(own), max(values, default=None))


SHOWN = "count(*) AS n, sum(v) AS s, max(v) AS m"
VIEWS: dict[str, tuple[str, Callable[[Rows], dict[Place, list[Row]]]]] = {
    "tumble": (
        f"SELECT window.start, window.end, {SHOWN} FROM t GROUP BY window(ts, '10 microseconds')",
        tumbling(10),
    ),
    "shifted": (
        f"SELECT window.start, window.end, {SHOWN} FROM t GROUP BY window(ts, 10, 10, -3)",
        tumbling(10, -3),
    ),
    "hop": (
        f"SELECT window.start, window.end, {SHOWN} FROM t GROUP BY window(ts, '12 microseconds', '4 microseconds')",
        hopping(12, 4),
    ),
    "odd_hop": (
        f"SELECT w.start, w.end, {SHOWN} FROM (SELECT window(ts, 10, 3, 1) AS w, v FROM t) GROUP BY w",
        hopping(10, 3, 1),
    ),
    "sessions": (
        f"SELECT session_window.start, session_window.end, k, {SHOWN} FROM t GROUP BY k, session_window(ts, '5 microseconds')",
        by_sessions(5, True),
    ),
    "all_sessions": (
        f"SELECT session_window.start, session_window.end, {SHOWN} FROM t GROUP BY session_window(ts, '2 microseconds')",
        by_sessions(2, False),
    ),
}
ROWS = st.tuples(
    st.sampled_from((1, 2, None)),
    st.one_of(st.none(), st.integers(-30, 60).map(at)),
    st.one_of(st.none(), st.integers(-3, 3)),
)
STORIES = st.lists(
    st.tuples(st.lists(ROWS, max_size=8), st.lists(st.integers(0, 1000), max_size=6)),
    min_size=2,
    max_size=6,
)
places = count()


def shown(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Rows with how often they are there; instants as plain times."""
    plain = lambda v: v.replace(tzinfo=None) if isinstance(v, datetime) else v  # noqa: E731
    out: Counter[tuple[Any, ...]] = Counter()
    for row in table.to_pylist():
        *values, weight = row.values()
        out[tuple(map(plain, values))] += weight
    return Counter({k: n for k, n in out.items() if n})


def applied(db: hw.Database, there: Counter[Row], new: list[Row], places: list[int]) -> None:
    """Inserts rows and deletes some of those that are there."""
    gone = Counter[Row]()
    for n in places:
        left = sorted((there - gone).elements(), key=repr)
        if left:
            gone[left[n % len(left)]] += 1
    db.apply({"t": hw.Delta(inserts=new, deletes=list(gone.elements()))})
    there.subtract(gone)
    there.update(new)
    for row in [r for r, n in there.items() if not n]:
        del there[row]


T = bag(RecordType((("k", INTEGER), ("ts", TIMESTAMP), ("v", INTEGER))))


@settings(max_examples=40)
@given(st.lists(ROWS, max_size=12), st.sampled_from(sorted(VIEWS)))
def test_the_terms_mean_it_too(rows: list[Row], name: str) -> None:
    """What the interpreter of the calculus says of a query, which is its definition."""
    query, placed = VIEWS[name]
    found = interpret(read_sql(query, {"t": T}), {"t": from_python(T, rows)})
    wanted = Counter(totals(p, own) for p, own in placed(Counter(rows)).items())
    assert dict(found) == dict(wanted)


Story = list[tuple[list[Row], list[int]]]


@settings(max_examples=8)
@given(STORIES, st.sampled_from((1, 2, 16)))
def test_views_are_what_python_says_of_the_rows(folder: Path, story: Story, near: int) -> None:
    """Through insertions, deletions, and late rows that join two sessions; however few rows are read at first."""
    told(folder, story, near)


@pytest.mark.slow
@settings(max_examples=150)
@given(STORIES, st.sampled_from((1, 2, 16)))
def test_more_views_are_what_python_says_of_the_rows(folder: Path, story: Story, near: int) -> None:
    told(folder, story, near)


def told(folder: Path, story: Story, near: int) -> None:
    """Plays a story and compares every view, and what is told of its changes, after each step."""
    before, sessions.NEAR = sessions.NEAR, near
    try:
        with hw.open(folder / str(next(places))) as db:
            db.source("t", "k INT, ts TIMESTAMP, v INT")
            for name, (query, _) in VIEWS.items():
                db.view(name, query)
            there: Counter[Row] = Counter()
            known = {name: Counter[tuple[Any, ...]]() for name in VIEWS}
            for new, gone in story:
                applied(db, there, new, gone)
                for name, (_, placed) in VIEWS.items():
                    wanted = Counter(totals(p, own) for p, own in placed(there).items())
                    assert shown(db.table(name)) == wanted, name
                    known[name].update(_changes(db, name))
                    assert Counter({r: n for r, n in known[name].items() if n}) == wanted, name
    finally:
        sessions.NEAR = before


def _changes(db: hw.Database, name: str) -> Counter[tuple[Any, ...]]:
    """What the last version changed of a view."""
    table = db.changes_table(name, db.version - 1)
    return shown(table.drop_columns([c for c in table.column_names if c == "_version"]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("windows")


def opened(path: Path, query: str) -> hw.Database:
    db = hw.open(path / "db")
    db.source("t", "k INT, ts TIMESTAMP, v INT")
    db.view("v", query)
    return db


def on(minute: int, second: int = 0) -> datetime:
    return datetime(2024, 3, 10, 12, minute, second)


def rows_of(db: hw.Database) -> list[tuple[Any, ...]]:
    rows = shown(db.table("v")).elements()
    return sorted(rows, key=lambda row: [(v is None, v) for v in row])


def test_a_late_row_joins_two_sessions(tmp_path: Path) -> None:
    """And parts them again when it goes; a row just as far as the gap is of the session, one further is not."""
    query = """SELECT k, session_window.start, session_window.end, count(*) AS n
               FROM t GROUP BY k, session_window(ts, '5 minutes')"""
    with opened(tmp_path, query) as db:
        db.apply({"t": [(1, on(0), 1), (1, on(5), 1), (1, on(14), 1), (2, on(9), 1)]})
        apart = [(1, on(0), on(10), 2), (1, on(14), on(19), 1), (2, on(9), on(14), 1)]
        assert rows_of(db) == apart
        db.apply({"t": [(1, on(9, 59), 1)]})
        assert rows_of(db) == [(1, on(0), on(19), 4), (2, on(9), on(14), 1)]
        db.apply({"t": hw.Delta(deletes=[(1, on(9, 59), 1)])})
        assert rows_of(db) == apart
        db.apply({"t": [(1, on(10, 1), 1)]})
        assert rows_of(db) == [(1, on(0), on(10), 2), (1, on(10, 1), on(19), 2), apart[2]]


def test_sessions_go_on_after_a_database_is_opened_again(tmp_path: Path) -> None:
    query = (
        "SELECT session_window.start, count(*) AS n FROM t GROUP BY session_window(ts, '5 minutes')"
    )
    with opened(tmp_path, query) as db:
        db.apply({"t": [(1, on(0), 1), (1, on(9), 1)]})
    with hw.open(tmp_path / "db") as db:
        assert rows_of(db) == [(on(0), 1), (on(9), 1)]
        db.apply({"t": [(1, on(5), 1)]})
        assert rows_of(db) == [(on(0), 3)]


def test_a_row_hops_through_all_windows_that_hold_it(tmp_path: Path) -> None:
    query = "SELECT window.start, sum(v) AS s FROM t GROUP BY window(ts, '10 minutes', '5 minutes')"
    with opened(tmp_path, query) as db:
        db.apply({"t": [(1, on(7), 1), (1, on(10), 10), (1, None, 100)]})
        assert rows_of(db) == [(on(0), 1), (on(5), 11), (on(10), 10)]
        db.apply({"t": hw.Delta(deletes=[(1, on(7), 1)])})
        assert rows_of(db) == [(on(5), 10), (on(10), 10)]


def test_a_window_is_a_struct_with_its_last_moment(tmp_path: Path) -> None:
    query = """SELECT window, window.start AS s, window_time(window) AS last, count(*) AS n
               FROM t GROUP BY window(ts, '1 minute'), window_time(window)"""
    with opened(tmp_path, query) as db:
        db.apply({"t": [(1, on(7, 12), 1)]})
        (row,) = db.table("v").to_pylist()
        utc = lambda t: t.replace(tzinfo=UTC)  # noqa: E731
        assert row["window"] == {"start": utc(on(7)), "end": utc(on(8))}
        assert row["s"] == utc(on(7)) and row["last"] == utc(on(8)) - timedelta(microseconds=1)


def test_windows_of_windows(tmp_path: Path) -> None:
    """A window is of the larger window that holds its last moment."""
    inner = "SELECT window AS w, count(*) AS n FROM t GROUP BY window(ts, '1 minute')"
    query = f"SELECT window.start, sum(n) AS n FROM ({inner}) GROUP BY window(w, '10 minutes')"
    with opened(tmp_path, query) as db:
        db.apply({"t": [(1, on(9, 59), 1), (1, on(10), 1), (2, on(11), 1)]})
        assert rows_of(db) == [(on(0), 1), (on(10), 2)]


def test_a_rollup_has_no_window_for_all(tmp_path: Path) -> None:
    query = "SELECT window.end, count(*) AS n FROM t GROUP BY ROLLUP (window(ts, '1 minute'))"
    with opened(tmp_path, query) as db:
        db.apply({"t": [(1, on(9, 59), 1), (1, on(10), 1), (2, None, 1)]})
        assert rows_of(db) == [(on(10), 1), (on(11), 1), (None, 2)]


def test_units_of_time_need_no_spark(tmp_path: Path) -> None:
    query = """SELECT date_trunc('hour', ts) AS h, date(ts) AS d, to_date(ts) AS e, CAST(ts AS DATE) AS f, count(*) AS n
               FROM t GROUP BY ALL"""
    with opened(tmp_path, query) as db:
        db.apply({"t": [(1, on(9, 59), 1), (1, on(10), 1)]})
        assert rows_of(db) == [(on(0), *[on(0).date()] * 3, 2)]


def test_a_change_reads_the_sessions_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the partition: here 20,000 rows in sessions of ten."""
    query = "SELECT session_window.start, session_window.end, count(*) AS n FROM t GROUP BY session_window(ts, '1 second')"
    seen: list[int] = []
    own = sessions.from_position

    def watched(*args: Any, **named: Any) -> pa.Table:
        table = own(*args, **named)
        seen.append(table.num_rows)
        return table

    monkeypatch.setattr(sessions, "from_position", watched)
    with opened(tmp_path, query) as db:
        assert "reads the sessions around a change" in db["v"].explain()
        numbers = [s * 60 * SECOND + i * SECOND for s in range(2000) for i in range(10)]
        db.apply({"t": [(1, at(n), 1) for n in numbers]})
        for late in (at(numbers[7000] - SECOND), at(numbers[7009] + SECOND), at(0)):
            seen.clear()
            db.apply({"t": [(1, late, 1)]})
            assert 0 < sum(seen) < 200
        assert shown(db.table("v"))[at(numbers[7000] - SECOND), at(numbers[7009] + 2 * SECOND), 12]
