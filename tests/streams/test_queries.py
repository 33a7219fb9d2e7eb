"""The library of steps, each against a direct definition in plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some

import headwater.st as st
from duck_sql import DuckSQL
from headwater.calculus.types import BIGINT, DOUBLE, STRING
from headwater.errors import HeadwaterError, SchemaMismatch, StepFailed, UnknownName
from headwater.streams.pipeline import Steps
from headwater.streams.regex import automaton
from headwater.streams.schema import Event, Header
from headwater.streams.stepper import State
from headwater.streams.transformer import Hierarchical
from stream_checks import checked_run, plain, stream

SQL = DuckSQL()
HEADERS = {
    "day": Header.of("day", d=BIGINT),
    "cases": Header.of("cases", state=BIGINT, n=BIGINT),
    "note": Header.of("note", state=BIGINT, d=BIGINT),
}
DAYS = st.Sync("day", st.Bag("cases"))
KEYED = st.Sync("day", st.PartitionBy("state", st.Seq("cases")))
SEQUENCE = st.Seq("day", "cases", "note")

Frame = tuple[list[tuple[int, int]], int]


def frames(most: int = 7) -> Any:
    """Days with their cases, and cases behind the last day."""
    bag = some.lists(some.tuples(some.integers(0, 2), some.integers(0, 3)), max_size=3)
    return some.tuples(some.lists(some.tuples(bag, some.integers(0, 3)), max_size=most), bag)


def events_of(given: tuple[list[Frame], list[tuple[int, int]]]) -> list[Event]:
    days, last = given
    made = [
        e for bag, d in days for e in (*(Event("cases", row) for row in bag), Event("day", (d,)))
    ]
    return [*made, *(Event("cases", row) for row in last)]


def cases(rows: Any, name: str = "cases") -> list[tuple[str, tuple[Any, ...]]]:
    return [(name, tuple(row)) for row in rows]


few = settings(max_examples=40, deadline=None)


# --- rows in their place ----------------------------------------------------------------------------------


@few
@given(frames())
def test_filter(given_frames: Any) -> None:
    events = events_of(given_frames)
    query = st.filter("n > 1", of="cases").on(DAYS, HEADERS, SQL)
    kept = [e for e in events if e.header == "day" or e.row[1] > 1]
    assert checked_run(query, events) == stream(query, kept)
    by_function = st.filter(lambda row: row.n > 1, of="cases").on(KEYED, HEADERS)
    assert checked_run(by_function, events) == stream(by_function, kept)


@few
@given(frames())
def test_map_to_one_none_and_many(given_frames: Any) -> None:
    events = events_of(given_frames)
    doubled = st.map(cases={"state": "state", "twice": "n * 2"}).on(KEYED, HEADERS, SQL)
    expected = [
        e if e.header == "day" else Event("cases", (e.row[0], e.row[1] * 2)) for e in events
    ]
    assert checked_run(doubled, events) == stream(doubled, expected)
    assert doubled.headers_out["cases"].columns == ("state", "twice")

    repeated = st.map(cases=lambda row: [row] * row.n).on(KEYED, HEADERS)
    expected = [x for e in events for x in ([e] if e.header == "day" else [e] * e.row[1])]
    assert checked_run(repeated, events) == stream(repeated, expected)


def test_map_by_a_select_list_and_into_another_header() -> None:
    events = events_of(([([(1, 2), (0, 3)], 1)], []))
    query = st.map({"cases": "sick"}, cases="state, n + 1 AS m").on(DAYS, HEADERS, SQL)
    assert str(query.output) == "day[bag sick]"
    assert query.run(events) == stream(query, [("sick", (1, 3)), ("sick", (0, 4)), ("day", (1,))])
    many = st.map(cases="SELECT state, unnest([1, 2]) AS n FROM cases WHERE n > 2").on(
        DAYS, HEADERS, SQL
    )
    assert many.run(events) == stream(many, [("cases", (0, 1)), ("cases", (0, 2)), ("day", (1,))])
    typed = st.map(cases=(lambda r: (r.state, str(r.n)), "state BIGINT, n STRING")).on(
        DAYS, HEADERS
    )
    assert typed.headers_out["cases"].fields[1] == ("n", STRING)
    assert typed.run(events) == stream(
        typed, [("cases", (1, "2")), ("cases", (0, "3")), ("day", (1,))]
    )


@few
@given(frames())
def test_lift(given_frames: Any) -> None:
    days, last = given_frames
    counted = st.lift(
        "cases", st.relational("SELECT state, sum(n) AS n FROM cases GROUP BY state", gives="sums")
    )
    query = counted.on(DAYS, HEADERS, SQL)

    def sums(bag: list[tuple[int, int]]) -> list[tuple[str, tuple[int, int]]]:
        found: Counter[int] = Counter()
        for state, n in bag:
            found[state] += n
        return [("sums", (state, found[state])) for state in {s for s, _ in bag}]

    expected = [e for bag, d in days for e in (*sums(bag), ("day", (d,)))] + sums(last)
    assert checked_run(query, events_of(given_frames)) == stream(query, expected)


def test_lift_below_keys_and_beside_others() -> None:
    schema = st.Sync("day", st.Par(st.PartitionBy("state", st.Bag("cases")), st.Seq("note")))
    total = st.relational("SELECT state, sum(n) AS n FROM cases GROUP BY state", gives="sums")
    query = st.lift("bag cases", total).on(schema, HEADERS, SQL)
    assert str(query.output) == "day[state{bag sums} | seq note]"
    events = [
        Event("cases", (1, 2)), Event("note", (0, 0)), Event("cases", (1, 3)), Event("day", (1,)),
        Event("note", (5, 5)),
    ]  # fmt: skip
    expected = [("note", (0, 0)), ("sums", (1, 5)), ("day", (1,)), ("note", (5, 5))]
    assert checked_run(query, events) == stream(query, expected)


def test_window_and_collect() -> None:
    query = st.window("day").on(SEQUENCE, HEADERS)
    assert str(query.output) == "day[seq cases, note]"
    events = events_of(([([(1, 2)], 1), ([], 2)], [(0, 0)]))
    assert checked_run(query, events) == stream(query, events)
    alone = st.window("day").on(DAYS, HEADERS)
    assert alone.output == DAYS
    collected = st.collect().on(KEYED, HEADERS)
    value, told = collected.stepper().run(None, events)
    assert (sorted(map(str, value)), told) == (sorted(map(str, events)), [])


# --- frames -----------------------------------------------------------------------------------------------


@few
@given(frames())
def test_aggregate_keeps_what_is_wanted(given_frames: Any) -> None:
    days, last = given_frames
    events = events_of(given_frames)
    text = "SELECT coalesce(sum(n), 0)::BIGINT AS total FROM cases"
    total = [sum(n for _, n in bag) for bag, _ in days]

    query = st.aggregate(text).on(DAYS, HEADERS, SQL)
    assert str(query.output) == "seq day"
    assert checked_run(query, events) == stream(
        query, [("day", (d, t)) for (_, d), t in zip(days, total, strict=True)]
    )
    query = st.aggregate(text, keep="all").on(KEYED, HEADERS, SQL)
    expected = [
        e for (bag, d), t in zip(days, total, strict=True) for e in (*cases(bag), ("day", (d, t)))
    ]
    assert checked_run(query, events) == stream(query, expected + cases(last))

    text = "SELECT d, state, n FROM cases, mark WHERE n > 1"
    query = st.aggregate(text, gives="big").on(DAYS, HEADERS, SQL)
    assert str(query.output) == "seq big"
    expected = [("big", (d, *row)) for bag, d in days for row in sorted(bag) if row[1] > 1]
    assert checked_run(query, events) == stream(query, expected)
    query = st.aggregate(text, gives="big", keep="rows").on(DAYS, HEADERS, SQL)
    expected = [
        e
        for bag, d in days
        for e in (*cases(bag), *(("big", (d, *row)) for row in sorted(bag) if row[1] > 1))
    ]
    assert checked_run(query, events) == stream(query, expected + cases(last))

    def spread(rows: list[Any]) -> tuple[int | None]:
        return (max(r.n for r in rows) - min(r.n for r in rows) if rows else None,)

    query = st.aggregate(spread, columns="spread BIGINT").on(DAYS, HEADERS)
    spreads = [max(ns) - min(ns) if (ns := [n for _, n in bag]) else None for bag, _ in days]
    assert checked_run(query, events) == stream(
        query, [("day", (d, s)) for (_, d), s in zip(days, spreads, strict=True)]
    )


@few
@given(frames())
def test_highest_has_all_that_tie(given_frames: Any) -> None:
    days, _ = given_frames
    events = events_of(given_frames)
    tops = [[row for row in bag if row[1] == max(n for _, n in bag)] for bag, _ in days]
    query = st.highest("n").on(KEYED, HEADERS)
    assert str(query.output) == "seq cases"
    assert checked_run(query, events) == stream(
        query, [e for top in tops for e in cases(sorted(top))]
    )
    query = st.highest("n", keep="mark").on(DAYS, HEADERS)
    # Behind the last day the bag is over with the stream, and its highest rows are told.
    last = given_frames[1]
    top = [row for row in last if row[1] == max(n for _, n in last)]
    expected = [e for t, (_, d) in zip(tops, days, strict=True) for e in (*cases(t), ("day", (d,)))]
    assert checked_run(query, events) == stream(query, expected + cases(top))


def test_highest_of_null_and_nan() -> None:
    headers = {"m": Header.of("m", d=BIGINT), "x": Header.of("x", v=DOUBLE)}
    query = st.highest("v").on(st.Sync("m", st.Bag("x")), headers)
    nan = float("nan")
    rows = [Event("x", (v,)) for v in (None, 1.0, nan)]
    told = query.stepper().run(None, [*rows, Event("m", (1,)), rows[0], Event("m", (2,))])[1]
    assert told == [Event("x", (nan,))] or (str(told[0]) == "x(nan)" and len(told) == 1)


@few
@given(frames())
def test_frames_where_the_mark_says_so(given_frames: Any) -> None:
    days, _ = given_frames
    events = events_of(given_frames)
    expected = [e for bag, d in days for e in (*(cases(bag) if d > 1 else []), ("day", (d,)))]
    query = st.frames(where="d > 1").on(KEYED, HEADERS, SQL)
    assert checked_run(query, events) == stream(query, expected)
    both = st.frames("SELECT state FROM cases WHERE n > 1", gives="big", where="d > 1")
    query = both.on(DAYS, HEADERS, SQL)
    expected = [
        e
        for bag, d in days
        for e in (*((("big", (s,)) for s, n in bag if n > 1 and d > 1)), ("day", (d,)))
    ]
    assert checked_run(query, events) == stream(query, expected)


@few
@given(frames())
def test_map_reduce(given_frames: Any) -> None:
    _, bag = given_frames
    events = [Event("cases", row) for row in bag]
    expected = Counter(s for s, n in bag for _ in range(n))
    spread = (lambda row: [(row.state,)] * row.n, "word BIGINT")
    by_sql = st.map_reduce(
        spread, "word", "SELECT word, count(*) AS n FROM mapped GROUP BY word", gives="counts"
    )
    by_python = st.map_reduce(
        spread, "word", lambda rows: (rows[0].word, len(rows)), "counts", "word BIGINT, n BIGINT"
    )
    for step in (by_sql, by_python):
        query = step.on(st.Bag("cases"), HEADERS, SQL)
        assert checked_run(query, events) == stream(
            query, [("counts", row) for row in expected.items()]
        )
    lifted = st.lift("cases", by_python).on(DAYS, HEADERS)
    assert str(lifted.output) == "day[bag counts]"


# --- in time ----------------------------------------------------------------------------------------------


@few
@given(some.lists(some.integers(-10, 30), max_size=8).map(sorted), some.integers(1, 7))
def test_every_puts_marks_before_rows(times: list[int], interval: int) -> None:
    events = [Event("day", (t,)) for t in times]
    query = st.every(interval, "tick").on(st.Seq("day"), HEADERS, order="d")
    expected: list[tuple[str, tuple[int]]] = []
    for before, t in zip([None, *times], times, strict=False):
        if before is not None:
            expected += [("tick", (m,)) for m in range(before + 1, t + 1) if m % interval == 0]
        expected.append(("day", (t,)))
    if times:
        expected.append(("tick", (times[-1] // interval * interval + interval,)))
    assert checked_run(query, events) == stream(query, expected)


@few
@given(some.lists(some.integers(-10, 30), max_size=12).map(sorted), some.integers(0, 12))
def test_many_rows_at_once_are_rows_one_by_one(times: list[int], cut: int) -> None:
    """What an engine may call instead of the update row by row: `runs`, over any stretches of several sequences."""
    ticking = st.every(5, "tick").on(st.Seq("day"), HEADERS, order="d").transformer
    marking = st.mark(st.when("d > 1") + st.when("d > 3"), "hit", keep=True).on(
        st.Seq("day"), HEADERS, SQL
    )
    for transformer in (ticking, marking.transformer):
        assert isinstance(transformer, Hierarchical)
        update: Any = transformer.update
        y, expected = transformer.init(None), []
        for t in times:
            y, told = update(y, Event("day", (t,)))
            expected += told
        first = transformer.init(None)
        states, told_of_runs = [first, first, first], [list[Event](), list[Event]()]
        for part in (times[:cut], times[cut:]):
            rows, bounds = [(t,) for t in (*part, *part)], [0, len(part), len(part), 2 * len(part)]
            states, told = update.runs(states, rows, bounds)
            for n, e in told:
                told_of_runs[n >= len(part)].append(e)
            assert [n for n, _ in told] == sorted(n for n, _ in told)
        assert (states, told_of_runs) == ([y, first, y], [expected, expected])


def test_a_row_after_its_mark_or_without_a_time() -> None:
    query = st.every(5, "tick").on(st.Seq("day"), HEADERS, order="d")
    for times, says in (((7, 3), "comes after the mark at 5"), ((None,), "without a time")):
        with pytest.raises(StepFailed, match=says):
            query.run([Event("day", (t,)) for t in times])


PATTERNS = [
    st.when("d > 1"),
    ~st.when("d > 1") + st.when("d > 1") + st.when("d > 1"),
    st.when("d = 0") + st.when("d > 1").many() + st.when("d = 0"),
    st.when(header="day").times(3),
    (st.when("d = 1") | st.when("d = 2")).times(2),
]


def direct(pattern: Any, days: list[int]) -> list[int | None]:
    """For each day where the shortest stretch begins that ends there and matches, by trying all."""
    found: list[int | None] = []
    a = automaton(pattern)
    for j in range(len(days)):
        starts = []
        for i in range(j + 1):
            state = a.START
            for d in days[i : j + 1]:
                truth = [
                    eval(str(p.condition).replace(" = ", " == "), {"d": d}) if p.condition else True
                    for p in a.predicates
                ]
                state = a.step(state, sum(1 << k for k, true in enumerate(truth) if true))
            if a.matches(state):
                starts.append(i)
        found.append(max(starts) if starts else None)
    return found


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@few
@given(given_frames=frames())
def test_mark(pattern: Any, given_frames: Any) -> None:
    days, last = given_frames
    events = events_of(given_frames)
    starts = direct(pattern, [d for _, d in days])
    replaced, beside = [], []
    for (bag, d), start in zip(days, starts, strict=True):
        name = "day" if start is None else "hit"
        replaced += [*cases(bag), (name, (d,))]
        beside += [*cases(bag), ("day", (d,)), *([("hit", (d,))] if start is not None else [])]
    query = st.mark(pattern, "hit").on(DAYS, HEADERS, SQL)
    assert str(query.output) == "day, hit[bag cases]"
    assert checked_run(query, events) == stream(query, [*replaced, *cases(last)])
    query = st.mark(pattern, "hit", keep=True).on(DAYS, HEADERS, SQL)
    assert checked_run(query, events) == stream(query, [*beside, *cases(last)])


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@few
@given(given_frames=frames())
def test_join_and_union(pattern: Any, given_frames: Any) -> None:
    days, _ = given_frames
    events = events_of(given_frames)
    starts = direct(pattern, [d for _, d in days])
    joined, ends, whole, joined_all = [], [], [], []
    for j, ((bag, d), i) in enumerate(zip(days, starts, strict=True)):
        if i is not None:
            first, since = days[i][0], [row for b, _ in days[i : j + 1] for row in b]
            joined += [("cases", (s, n, m)) for s, n in bag for r, m in first if r == s]
            joined_all += [("cases", (s, n, m)) for s, n in bag for r, m in since if r == s]
            ends += cases(bag if i == j else [*first, *bag])
            whole += cases(since)
        for told in (joined, ends, whole, joined_all):
            told.append(("day", (d,)))
    for step, expected in (
        (st.join(pattern, "state"), joined),
        (st.join(pattern, "state", keep="all"), joined_all),
        (st.union(pattern), ends),
        (st.union(pattern, keep="all"), whole),
    ):
        query = step.on(KEYED, HEADERS, SQL)
        assert checked_run(query, events) == stream(query, expected)
        assert most_relations(query, events) <= len(automaton(pattern))
    assert st.join(pattern, "state").on(DAYS, HEADERS, SQL).headers_out["cases"].columns == (
        "state", "n", "earlier_n",
    )  # fmt: skip


def most_relations(query: Any, events: list[Event]) -> int:
    """How many relations a join keeps at most: state (number, {position: (start, rows)}, rows of the frame)."""
    stepper = query.stepper()
    state, most = stepper.start(None), 0
    for event in events:
        state, _ = stepper.step(state, event)
        most = max(most, len(runs_in(state)))
    return most


def runs_in(state: State) -> dict[int, Any]:
    (_, runs, _), _ = state
    assert plain(runs)
    return dict(runs)


def test_joins_a_week_earlier_and_over_consecutive_sessions() -> None:
    week = st.join(st.when(header="day").times(8), "state").on(DAYS, HEADERS, SQL)
    events = events_of(([([(0, d)], d) for d in range(20)], []))
    told = [e.row for e in week.stepper().run(None, events)[1] if e.header == "cases"]
    assert told == [(0, d, d - 7) for d in range(7, 20)]
    assert most_relations(week, events) == 8

    headers = {
        "begin": Header.of("begin", at=BIGINT),
        "end": Header.of("end", at=BIGINT),
        "x": Header.of("x", k=BIGINT, v=BIGINT),
    }
    begin, end = st.when(header="begin"), st.when(header="end")
    sessions = st.join(end + begin + end, "k").on(st.Sync("begin", "end", st.Bag("x")), headers)
    rows = []
    for at in range(4):  # what stands between sessions belongs to the begin, and is not joined
        rows += [
            Event("x", (0, 100 + at)),
            Event("begin", (at,)),
            Event("x", (0, at)),
            Event("end", (at,)),
        ]
    told = [e.row for e in sessions.stepper().run(None, rows)[1] if e.header == "x"]
    assert told == [(0, 1, 0), (0, 2, 1), (0, 3, 2)]
    assert most_relations(sessions, rows) <= 3


@few
@given(frames(), some.integers(1, 3))
def test_local_maxima_look_ahead_at_both_ends(given_frames: Any, around: int) -> None:
    days, last = given_frames
    values = [d for _, d in days]
    tops = [
        around <= i < len(values) - around
        and all(values[j] < v for j in range(i - around, i + around + 1) if j != i)
        for i, v in enumerate(values)
    ]
    query = st.local_maxima("d", around=around).on(KEYED, HEADERS)
    expected = [
        e
        for (bag, d), top in zip(days, tops, strict=True)
        for e in (*cases(bag), ("day", (d, top)))
    ]
    assert checked_run(query, events_of(given_frames)) == stream(query, expected + cases(last))


def test_a_local_maximum_is_told_with_the_next_frame() -> None:
    query = st.local_maxima("d").on(DAYS, HEADERS)
    stepper = query.stepper()
    state, told = stepper.start(None), []
    for event in events_of(([([(0, 1)], 1), ([(0, 2)], 5), ([(0, 3)], 2)], [])):
        state, now = stepper.step(state, event)
        told.append([str(e) for e in now])
    assert told == [
        [], ["cases(0, 1)"], [], ["day(1, False)", "cases(0, 2)"], [], ["day(5, True)", "cases(0, 3)"],
    ]  # fmt: skip
    assert [str(e) for e in stepper.end(state)[1]] == ["day(2, False)"]


def test_rows_that_stay_are_told_at_once() -> None:
    for schema in (DAYS, KEYED):
        stepper = (
            st.aggregate("SELECT count(*) AS n FROM cases", keep="all")
            .on(schema, HEADERS, SQL)
            .stepper()
        )
        _, told = stepper.step(stepper.start(None), Event("cases", (0, 1)))
        assert list(told) == [Event("cases", (0, 1))]


def extremes(values: list[int], around: int) -> list[str | None]:
    """Peaks and valleys by definition."""
    found: list[str | None] = []
    for i, v in enumerate(values):
        inside = around <= i < len(values) - around
        others = [
            values[j]
            for j in range(max(0, i - around), i + around + 1)
            if j != i and j < len(values)
        ]
        if inside and all(o < v for o in others):
            found.append("peak")
        elif inside and all(o > v for o in others):
            found.append("valley")
        else:
            found.append(None)
    return found


@few
@given(frames(), some.integers(1, 2))
def test_peaks_by_key_go_on_across_frames(given_frames: Any, around: int) -> None:
    events = events_of(given_frames)
    query = st.peaks("n", around=around).on(KEYED, HEADERS)
    assert str(query.output) == "day[state{peak, valley[seq cases]}]"
    by_state: dict[int, list[int]] = {}
    for e in events:
        if e.header == "cases":
            by_state.setdefault(e.row[0], []).append(e.row[1])
    kinds = {state: iter(extremes(values, around)) for state, values in by_state.items()}
    expected: list[Any] = []
    for e in events:
        expected.append(e)
        if e.header == "cases" and (kind := next(kinds[e.row[0]])) is not None:
            expected.append((kind, e.row))
    assert checked_run(query, events) == stream(query, expected)
    # Without frames around them, in each key.
    alone = [e for e in events if e.header == "cases"]
    query = st.peaks("n", around=around).on(st.PartitionBy("state", st.Seq("cases")), HEADERS)
    assert checked_run(query, alone) == stream(query, [e for e in expected if e[0] != "day"])


@few
@given(frames())
def test_carry_reports_every_key_at_every_mark(given_frames: Any) -> None:
    days, _ = given_frames
    total: Counter[int] = Counter()
    expected: list[Any] = []
    for bag, d in days:
        for state, n in bag:
            total[state] = total[state] * 2 + n  # depends on the order of a state's rows
        expected += [*(("status", row) for row in total.items()), ("day", (d,))]
    query = st.carry(
        "state", lambda at, row, header: ((at.total or 0) * 2 + row.n,), "total BIGINT", "status"
    ).on(KEYED, HEADERS)
    assert checked_run(query, events_of(given_frames)) == stream(query, expected)


# --- the four shapes --------------------------------------------------------------------------------------


def test_fold_tells_rows_and_has_a_value() -> None:
    def drive(at: Any, row: Any, emit: Any) -> Any:
        if at.last is not None and row.n < at.last:
            return emit("falls", row.state, row.n) or at
        return row.n, (at.total or 0) + row.n

    fold = st.fold(
        drive,
        state="last BIGINT, total BIGINT",
        result="total",
        gives={"falls": "state BIGINT, n BIGINT"},
    )
    query = fold.on(st.Seq("cases"), HEADERS)
    events = [Event("cases", (0, n)) for n in (1, 3, 2, 4)]
    value, told = query.stepper().run(None, events)
    assert (value, told) == ([(8,)], [Event("falls", (0, 2))])
    assert checked_run(query, events) == stream(query, told)


def test_values_are_put_together_by_sql_or_by_functions() -> None:
    schema = st.Sync("day", st.Par(st.PartitionBy("state", st.Seq("cases")), st.Bag("note")))
    total = st.fold(lambda at, row, emit: ((at.s or 0) + row.n,), state="s BIGINT", result="s")
    by_sql = st.hierarchical(
        st.parallel(
            st.partitioned(total, agg="SELECT max(s) AS most FROM results"),
            st.relational("SELECT count(*) AS notes FROM note"),
            fin="SELECT most, notes FROM lefts, rights",
        ),
        update="SELECT mark.d AS d, most, notes FROM mark, result",
        gives="report",
    )
    by_python = st.hierarchical(
        st.parallel(
            st.partitioned(total, agg=lambda results: max((r.s for r in results), default=None)),
            st.relational(len),
            fin=lambda most, notes: (most, notes),
        ),
        update=lambda y, mark, emit: emit("report", mark.d, *y),
        gives={"report": "d BIGINT, most BIGINT, notes BIGINT"},
    )
    events = [
        *(Event("cases", row) for row in [(0, 1), (1, 2), (0, 3)]),
        Event("note", (0, 0)), Event("day", (1,)), Event("day", (2,)), Event("cases", (0, 9)),
    ]  # fmt: skip
    for step in (by_sql, by_python):
        query = step.on(schema, HEADERS, SQL)
        assert str(query.output) == "seq report"
        told = stream(query, [("report", (1, 4, 1)), ("report", (2, None, 0))])
        assert checked_run(query, events) == told
    rows = st.partitioned(total, agg="SELECT state, s FROM results WHERE s > 2", gives="big")
    query = rows.on(st.PartitionBy("state", st.Seq("cases")), HEADERS, SQL)
    assert checked_run(query, events[:3]) == stream(query, [("big", (0, 4))])


def test_a_piece_begins_with_what_it_is_given() -> None:
    """The states of all keys carried across frames by hand, which is what `carry` does."""
    total = st.fold(lambda at, row, emit: ((at.s or 0) * 2 + row.n,), state="s BIGINT")

    def report(states: Any, mark: Any, emit: Any) -> Any:
        for (state,), (s,) in sorted(states.items()):
            emit("status", mark.d, state, s)
        return states

    step = st.hierarchical(
        st.partitioned(
            total, agg=lambda results: {(r.state,): (r.s,) for r in results}, init=dict.get
        ),
        update=report,
        gives={"status": "d BIGINT, state BIGINT, s BIGINT"},
        init=dict,
        call=lambda states: states,
        ret=lambda states, now: {**states, **now},
    )
    query = step.on(KEYED, HEADERS)
    events = events_of(([([(0, 1), (1, 2)], 1), ([(0, 3)], 2)], []))
    told = [
        ("status", (1, 0, 1)),
        ("status", (1, 1, 2)),
        ("status", (2, 0, 5)),
        ("status", (2, 1, 2)),
    ]
    assert checked_run(query, events) == stream(query, told)
    both = st.parallel(
        total, total, init=lambda x: ((10,), (20,)), fin=lambda left, right: (left, right)
    )
    query = both.on(st.Par(st.Seq("cases"), st.Seq("note")), {**HEADERS, "note": HEADERS["cases"]})
    assert query.stepper().run(None, [Event("cases", (0, 1))])[0] == ([(21,)], [(20,)])


# --- pipelines --------------------------------------------------------------------------------------------

POOL = [
    st.local_maxima("d"),
    st.local_maxima("d", around=2, name="top"),
    st.lift("day[bag cases]", st.local_maxima("d", name="lifted")),
    st.filter("n > 1", of="cases"),
    st.filter("d > 1", of="day"),
    st.filter("lmax", of="day"),
    st.frames(where="d > 1"),
    st.frames(where="lmax"),
    st.frames("SELECT state, n FROM cases WHERE n > 0", gives="big", where="lmax"),
    st.frames("SELECT state, max(n) AS n FROM cases GROUP BY state", gives="most", where="d > 0"),
    st.lift("cases", st.relational("SELECT state, n FROM cases LIMIT 0", gives="none")),
    st.lift("cases", st.filter("n > 1")),
    st.map(day={"d": "3 - d"}),
    st.map(cases={"state": "state", "n": "n + 1"}),
    st.union(st.when(header="day").times(2)),
    st.highest("n", keep="mark"),
    st.aggregate("SELECT count(*) AS rows FROM cases", keep="all"),
]


@settings(max_examples=80, deadline=None)
@given(
    some.sampled_from(POOL[:3]),
    some.lists(some.sampled_from(POOL), min_size=1, max_size=3),
    frames(5),
)
def test_commuted_pipelines_tell_the_same(delays: Any, steps: list[Any], given_frames: Any) -> None:
    pipeline = Steps((delays, *steps))
    try:
        written = pipeline.on(DAYS, HEADERS, SQL, commute=False)
    except HeadwaterError:
        assume(False)
    moved = pipeline.on(DAYS, HEADERS, SQL)
    events = events_of(given_frames)
    assert (moved.output, moved.headers_out) == (written.output, written.headers_out)
    assert moved.run(events) == written.run(events)
    told = stream(moved, moved.stepper().run(None, events)[1])
    assert told == moved.run(events)


# --- what does not fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "schema", "error", "says"),
    [
        (st.filter("m > 1", of="cases"), DAYS, UnknownName, "m"),
        (st.filter("n > 1", of="sick"), DAYS, UnknownName, "`sick` is not there"),
        (st.window("note"), DAYS, UnknownName, "`note` is not there"),
        (st.window("day"), st.Bag("day"), SchemaMismatch, "Sync"),
        (st.highest("price"), DAYS, UnknownName, "unknown column `price` of header `cases`"),
        (st.lift("note", st.collect()), DAYS, UnknownName, "`note` is no part"),
        (st.mark(st.when("e > 1"), "hit"), DAYS, UnknownName, "e"),
        (st.mark(st.when(header="note"), "hit"), DAYS, UnknownName, "none of the marks"),
        (st.mark(st.when("d > 1"), "cases"), DAYS, SchemaMismatch, "is in `day"),
        (st.every(-1, "tick"), DAYS, HeadwaterError, "interval of -1"),
        (st.every("1 day", "tick"), DAYS, HeadwaterError, "column of type bigint"),
        (st.every("3 apples", "tick"), DAYS, HeadwaterError, "is no interval"),
        (st.join(st.when("d > 1"), "region"), DAYS, UnknownName, "unknown column `region`"),
        (st.aggregate("SELECT 1 AS d FROM cases"), DAYS, SchemaMismatch, "column `d` twice"),
        (st.local_maxima("d", name="d"), DAYS, SchemaMismatch, "column `d` twice"),
        (st.every(5, "cases"), DAYS, SchemaMismatch, "is in `day"),
        (st.peaks("n", names=("day", "valley")), KEYED, SchemaMismatch, "is in `day"),
        (st.carry("state", len, "state BIGINT", "s"), KEYED, SchemaMismatch, "column `state` twice"),
        (st.aggregate(len), DAYS, StepFailed, "not declared"),
        (st.fold(len, "x BIGINT"), st.Bag("cases"), SchemaMismatch, "`cases`"),
        (st.carry("state", len, "x BIGINT", "s"), DAYS, SchemaMismatch, "`cases`"),
        (st.carry("region", len, "x BIGINT", "s"), KEYED, SchemaMismatch, "`state`"),
        (st.peaks("n"), DAYS, SchemaMismatch, "sequences by key"),
        (st.map(cases={"n": "n"}), KEYED, HeadwaterError, "`state`"),
        (st.map({"cases": "day"}, cases="n"), DAYS, SchemaMismatch, "become `day`"),
        (st.local_maxima("d", around=0), DAYS, StepFailed, "at least 1"),
        (st.map_reduce(lambda r: r, "word", len, "c", "n BIGINT"), st.Bag("cases"), UnknownName, "word"),
        (st.partitioned(st.collect()), DAYS, SchemaMismatch, "PartitionBy"),
        (st.parallel(st.collect(), st.collect()), DAYS, SchemaMismatch, "Par"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(step: Any, schema: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=None) as raised:
        step.on(schema, HEADERS, SQL, order="d")
    assert says in str(raised.value)
    # In a pipeline the message says which step it is.
    with pytest.raises(error) as raised:
        (st.filter("true") >> step).on(schema, HEADERS, SQL, order="d")
    assert str(raised.value).startswith("step 2 of 2") and says in str(raised.value)


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (lambda row: (1,), "no row of 2 columns"),
        (lambda row: (row.state, "x"), "for `n`, which is no bigint"),
        (lambda row: 1 / 0, "ZeroDivisionError"),
        (lambda row: (row.state + 1, row.n), "another"),
    ],
)
def test_functions_that_give_something_else(f: Any, says: str) -> None:
    query = st.map(cases=f).on(KEYED, HEADERS)
    for run in (query.run, lambda events: query.stepper().run(None, events)):
        with pytest.raises(HeadwaterError, match=r"map of|told by key") as raised:
            run([Event("cases", (0, 1))])
        assert says in str(raised.value)


def test_a_fold_whose_state_is_of_a_wrong_type() -> None:
    for after, says in (((1.5,), "no bigint"), ((1, 2), "no row of 1 column"), (None, "no row")):
        query = st.fold(lambda at, row, emit, after=after: after, "x BIGINT").on(
            st.Seq("cases"), HEADERS
        )
        with pytest.raises(StepFailed, match=says):
            query.run([Event("cases", (0, 1))])
    query = st.fold(lambda at, row, emit: emit("elsewhere", 1) or at, "x BIGINT").on(
        st.Seq("cases"), HEADERS
    )
    with pytest.raises(StepFailed, match="does not declare"):
        query.run([Event("cases", (0, 1))])


def test_sql_needs_an_evaluator() -> None:
    with pytest.raises(HeadwaterError, match="needs an evaluator"):
        st.filter("n > 1", of="cases").on(DAYS, HEADERS)
