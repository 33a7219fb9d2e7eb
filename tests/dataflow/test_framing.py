"""Frames: cut from increments one after another they are those cut from all rows in order, whatever the framing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any

import pytest

from headwater import flow
from headwater.dataflow.framing import Cut, Frame, cut, in_order
from headwater.dataflow.rows import row_class, sort_key
from headwater.dataflow.words import Framing
from headwater.errors import StageError

ROW = row_class(("at", "x"))
START = datetime(2024, 3, 30, 22, 0, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def cut_all(
    framing: Framing,
    increments: Sequence[Sequence[Any]],
    punctuations: dict[int, Any] | None = None,
) -> tuple[Cut, list[list[Any]]]:
    """What increments are cut into one after another, and the rows of the complete frames."""
    made = Cut(small=framing.small)
    ordered = []
    for number, rows in enumerate(increments):
        ordered.append(in_order(framing, rows))
        point = (punctuations or {}).get(number)
        closing = None if point is None else flow.punctuate(point)
        made = cut(framing, made, number, ordered[-1], closing)
    return made, [rows_of(frame, ordered) for frame in made.frames]


def rows_of(frame: Frame, ordered: Sequence[Sequence[Any]]) -> list[Any]:
    return [r for number, a, b in frame.rows for r in ordered[number][a:b]]


def halves(row: Any, small: int) -> tuple[int, int]:
    """Frames of one's own: a new one whenever the sum of x, so far, passes another ten."""
    return small // 10, small + row.x


# --- expected keys in plain Python: what each framing says of rows that all come in order ---------------------------


def keys_daily(rows: Sequence[Any]) -> list[Any]:
    return [r.at.date() for r in rows]


def keys_hourly(rows: Sequence[Any]) -> list[Any]:
    return [r.at.replace(minute=0) for r in rows]


def keys_hops(rows: Sequence[Any]) -> list[Any]:
    return [r.at.replace(hour=r.at.hour // 6 * 6, minute=0) for r in rows]


def keys_count(rows: Sequence[Any]) -> list[Any]:
    return [i // 3 for i in range(len(rows))]


def keys_gap(rows: Sequence[Any]) -> list[Any]:
    out: list[Any] = []
    for i, r in enumerate(rows):
        new = i == 0 or r.at - rows[i - 1].at >= timedelta(minutes=45)
        out.append(r.at if new else out[-1])
    return out


def keys_own(rows: Sequence[Any]) -> list[Any]:
    return [sum(r.x for r in rows[:i]) // 10 for i in range(len(rows))]


FRAMINGS = {
    "daily": (flow.daily("at"), keys_daily),
    "hourly": (flow.hourly("at"), keys_hourly),
    "hops": (flow.hops("at", hours=6), keys_hops),
    "count": (flow.count(3), keys_count),
    "gap": (flow.gap("at", minutes=45), keys_gap),
    "own": (flow.frames(halves, ["at", "x"], 0), keys_own),
}


@pytest.mark.property
@pytest.mark.parametrize("name", FRAMINGS)
def test_frames_do_not_depend_on_how_rows_in_order_are_cut_into_increments(name: str) -> None:
    framing, keys = FRAMINGS[name]
    chance = random.Random(name)
    most = 0
    for _ in range(150):
        times = sorted(chance.sample(range(60 * 60), chance.randint(0, 12)))
        rows = [ROW((at(t), chance.randint(0, 6))) for t in times]
        increments: list[list[Any]] = [[]]
        for r in rows:
            while chance.random() < 0.4:
                increments.append([])
            increments[-1].append(r)
        for some in increments:
            chance.shuffle(some)
        made, frames = cut_all(framing, increments)
        expected = [
            (k, [r for _, r in some])
            for k, some in groupby(zip(keys(rows), rows, strict=True), key=lambda p: p[0])
        ]
        opened = [] if made.open is None else [made.open.key]
        assert [f.key for f in made.frames] + opened == [k for k, _ in expected]
        assert frames == [some for _, some in expected][:-1]
        assert made.late == 0
        most = max(most, len(frames))
    assert most > 2, "no case had several frames"


@pytest.mark.property
def test_any_rows_are_in_one_frame_each_and_late_ones_are_counted() -> None:
    """Whatever order rows come in: a frame is a day, no row is lost, and the frames on time have growing keys."""
    chance, late = random.Random(7), 0
    for _ in range(200):
        increments = [
            [ROW((at(chance.randrange(8000)), x)) for x in range(chance.randint(0, 4))]
            for _ in range(chance.randint(0, 6))
        ]
        points = {n: at(chance.randrange(8000)).date() for n in range(6) if chance.random() < 0.2}
        made, frames = cut_all(flow.daily("at"), increments, points)
        ordered = [in_order(flow.daily("at"), rows) for rows in increments]
        opened = [] if made.open is None else rows_of(made.open, ordered)
        every = [r for rows in (*frames, opened) for r in rows]
        assert sorted(every, key=sort_key) == sorted(
            (r for rows in increments for r in rows), key=sort_key
        )
        for frame, rows in zip(made.frames, frames, strict=True):
            assert {r.at.date() for r in rows} == {frame.key}
        on_time = []
        for frame in made.frames:
            if not on_time or frame.key > on_time[-1]:
                on_time.append(frame.key)
        assert len(made.frames) - len(on_time) <= made.late
        if made.open is not None and made.closed is not None:
            assert made.open.key > made.closed
        late += made.late
    assert late > 50


def test_a_frame_grows_until_a_greater_key_comes() -> None:
    days = [[ROW((at(0), 1))], [ROW((at(10), 2))], [], [ROW((at(60 * 24), 3))]]
    made, _ = cut_all(flow.daily("at"), days[:3])
    assert made.frames == () and made.open.rows == ((0, 0, 1), (1, 0, 1))
    made, frames = cut_all(flow.daily("at"), days)
    assert made.frames == (Frame(date(2024, 3, 30), ((0, 0, 1), (1, 0, 1))),)
    assert [r.x for r in frames[0]] == [1, 2]
    assert made.closed == date(2024, 3, 30) and made.open.key == date(2024, 3, 31)


def test_a_late_row_makes_a_frame_of_its_own() -> None:
    days = [[ROW((at(0), 1)), ROW((at(60 * 24), 2))], [ROW((at(5), 3))], [ROW((at(6), 4))]]
    made, frames = cut_all(flow.daily("at"), days)
    assert [[r.x for r in some] for some in frames] == [[1], [3], [4]]
    assert made.late == 2 and made.open.key == date(2024, 3, 31)


def test_a_punctuation_closes_frames_up_to_its_key_and_that_one_too() -> None:
    days = [
        [ROW((at(0), 1)), ROW((at(60 * 24), 2))],
        [ROW((at(60 * 24), 3))],
        [ROW((at(60 * 48), 4))],
    ]
    made, frames = cut_all(flow.daily("at"), days, {0: date(2024, 3, 31)})
    assert [[r.x for r in some] for some in frames] == [[1], [2], [3]]
    assert made.late == 1, "what comes to a frame that was closed is late"
    assert made.open.key == date(2024, 4, 1)


def test_a_punctuation_below_the_open_frame_closes_none() -> None:
    made, _ = cut_all(flow.daily("at"), [[ROW((at(60 * 24), 1))]], {0: date(2024, 3, 30)})
    assert made.frames == () and made.closed == date(2024, 3, 30)
    assert made.open.key == date(2024, 3, 31)


def test_a_punctuation_without_rows_is_known() -> None:
    made, _ = cut_all(flow.daily("at"), [[]], {0: date(2024, 3, 30)})
    assert made == Cut(closed=date(2024, 3, 30))
    back, _ = cut_all(flow.daily("at"), [[], []], {0: date(2024, 3, 30), 1: date(2024, 3, 1)})
    assert back.closed == date(2024, 3, 30), "it does not go back"


def test_days_are_those_of_the_time_as_it_is_given() -> None:
    row = row_class(("at",))
    naive = row((datetime(2024, 1, 1, 23, 59),))
    assert flow.daily("at").key(naive, None) == (date(2024, 1, 1), None)
    assert flow.daily("at").key(row((date(2024, 1, 1),)), None) == (date(2024, 1, 1), None)
    assert flow.hourly("at").key(naive, None) == (datetime(2024, 1, 1, 23), None)
    before = row((datetime(1969, 12, 31, 23, 30),))
    assert flow.hops("at", hours=6).key(before, None)[0] == datetime(1969, 12, 31, 18)
    assert flow.hourly("at").key(row((date(2024, 1, 1),)), None)[0] == datetime(2024, 1, 1)


@pytest.mark.parametrize("framing", [f for f, _ in FRAMINGS.values() if f.order == ("at",)])
def test_a_row_without_a_time_is_in_no_frame(framing: Framing) -> None:
    """Its key is None, which compares with nothing; it had the stage held for ever."""
    rows = [ROW((None, 1)), ROW((at(0), 2)), ROW((at(60 * 24), 3))]
    made, frames = cut_all(framing, [rows[:1], rows, [ROW((None, 4))]])
    assert [[r.x for r in some] for some in frames] == [[2]]
    assert made.late == 0 and made.open.rows == ((1, 2, 3),)


def test_keys_that_do_not_compare_are_refused() -> None:
    framing = flow.frames(lambda r, small: (r.x if r.x < 5 else str(r.x), small), "x")
    with pytest.raises(StageError, match=r"the keys of `frames.*` do not compare") as e:
        cut_all(framing, [[ROW((None, 1)), ROW((None, 7))]])
    assert "keys of one type" in e.value.hint
    with pytest.raises(StageError, match="do not compare"):
        cut_all(flow.daily("at"), [[ROW((at(0), 1))]], {0: "2024-03-30"})


@pytest.mark.parametrize("given", [None, 3, (1,), (1, 2, 3)])
def test_a_framing_that_gives_no_pair_is_refused(given: Any) -> None:
    with pytest.raises(StageError, match=r"gave .* for the row \(None, 1\)") as e:
        cut_all(flow.frames(lambda r, small: given, "x"), [[ROW((None, 1))]])
    assert e.value.hint == "a framing gives (key, small)"


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: flow.count(0), r"count\(0\)"),
        (lambda: flow.count(True), r"count\(True\)"),
        (lambda: flow.hops("at", hours=0), "do not end"),
        (lambda: flow.gap("at", minutes=-1), "is none"),
    ],
)
def test_framings_of_no_length_are_refused(make: Any, what: str) -> None:
    with pytest.raises(StageError, match=what):
        make()
