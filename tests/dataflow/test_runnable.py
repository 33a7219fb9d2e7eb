"""Runnables: what an epoch reads and removes, given what waits; and what runnables of one's own may not say."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest

from headwater import flow
from headwater.dataflow.runnable import decided, own
from headwater.dataflow.words import Runnable
from headwater.errors import StageError
from headwater.flow import Run, Waiting


def waits(*keys: Any, **more: Any) -> Waiting:
    return Waiting(keys, **more)


def some(n: int, take: Any = 1) -> Waiting:
    return Waiting((None,) * n, take=take)


def played(runnable: Runnable, a: int, b: int, most: int = 100) -> str:
    """Who is read, epoch by epoch, while two inputs have so many increments and get no more."""
    left, small, out = {"a": a, "b": b}, runnable.small, ""
    for _ in range(most):
        run = decided(runnable, {n: some(c) for n, c in left.items()}, small)
        if run is None:
            return out
        small = run.small
        out += "".join(sorted(n * c for n, c in run.reads.items()))
        for n, c in run.removes.items():
            left[n] -= c
    return out


@pytest.mark.parametrize(
    ("a", "b", "reads"),
    [
        (some(0), some(5), None),
        (some(1), some(5), {"a": 1, "b": 1}),
        (some(1, 2), some(5), None),
        (some(5, 2), some(5, "all"), {"a": 2, "b": 5}),
        (some(2), some(0, "all"), None),
    ],
)
def test_all_inputs_have_what_take_says(a: Waiting, b: Waiting, reads: Any) -> None:
    run = decided(flow.all_inputs(), {"a": a, "b": b}, None)
    assert (run and run.reads) == reads
    assert run is None or run.removes == run.reads


@pytest.mark.parametrize(
    ("a", "b", "reads"),
    [
        (some(0), some(0), None),
        (some(0), some(5), {"b": 1}),
        (some(1, 3), some(2), {"a": 1, "b": 1}),
        (some(4, 3), some(4, "all"), {"a": 3, "b": 4}),
    ],
)
def test_any_input_is_read_as_far_as_there_is_something(a: Waiting, b: Waiting, reads: Any) -> None:
    run = decided(flow.any_input(), {"a": a, "b": b}, None)
    assert (run and run.reads) == reads


def test_in_turn_goes_round() -> None:
    assert played(flow.in_turn("a", "b"), 3, 3) == "ababab"
    assert played(flow.in_turn("a", "b"), 5, 1) == "aba", "it waits for whose turn it is"
    assert played(flow.in_turn("a", "a", "b"), 4, 2) == "aabaab"


def test_prefer_takes_one_at_most_so_often_in_a_row() -> None:
    assert played(flow.prefer("a", to="b", times=4), 10, 3) == "aaaabaaaabaab"
    assert played(flow.prefer("a", to="b", times=1), 3, 3) == "ababab"
    assert played(flow.prefer("a", to="b"), 0, 2) == "bb"
    assert played(flow.prefer("a", to="b"), 3, 0) == "aaa"


def test_prefer_is_never_further_behind_than_most() -> None:
    assert played(flow.prefer("a", to="b", times=4, most=3), 6, 5) == "bbbaaaabaab"
    run = decided(flow.prefer("a", to="b", times=50, most=20), {"a": some(9), "b": some(20)}, 0)
    assert run.reads == {"b": 1}
    run = decided(flow.prefer("a", to="b", times=50, most=20), {"a": some(9), "b": some(19)}, 0)
    assert run.reads == {"a": 1} and run.small == 1


def test_sliding_reads_a_window_and_removes_a_frame() -> None:
    run = decided(flow.sliding("a", frames=3), {"a": some(4), "b": some(2)}, None)
    assert run.reads == {"a": 3, "b": 1} and run.removes == {"a": 1, "b": 1}
    assert decided(flow.sliding("a", frames=3), {"a": some(2), "b": some(2)}, None) is None
    assert decided(flow.sliding("a", frames=3), {"a": some(3), "b": some(0)}, None) is None


def test_landmark_reads_everything_again_when_there_is_more() -> None:
    first = decided(flow.landmark("a"), {"a": some(2)}, 0)
    assert first.reads == {"a": 2} and first.removes == {"a": 0} and first.small == 2
    assert decided(flow.landmark("a"), {"a": some(2)}, first.small) is None
    assert decided(flow.landmark("a"), {"a": some(3)}, first.small).reads == {"a": 3}


# --- a join of frames with the same key -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "reads"),
    [
        (waits(1), waits(1), {"a": 1, "b": 1}),
        (waits(1, 2), waits(2), {"a": 1}),
        (waits(2), waits(1, 2), {"b": 1}),
        (waits(), waits(), None),
        (waits(1), waits(), None),
        (waits(1), waits(open=1), None),
        (waits(1), waits(open=2), {"a": 1}),
        (waits(1), waits(closed=1), {"a": 1}),
        (waits(2), waits(closed=1), None),
        (waits(2), waits(closed=1, open=3), {"a": 1}),
        (waits(3, 2), waits(3), {"a": 1, "b": 1}),
        (waits(1, first=(3, 0)), waits(1), {"b": 1}),
        (waits(1, first=(3, 0)), waits(3), {"a": 1}),
        (waits(1, first=(3, 0)), waits(open=3), {"a": 1}),
        (waits(open=3), waits(1, first=(3, 0)), None),
        (waits(1, first=(3, 0)), waits(1, first=(3, 0)), {"a": 1}),
        (waits(1, first=(3, 2)), waits(3), {"b": 1}),
        (waits(1, first=(3, 2)), waits(open=3), None),
        (waits(1, first=(3, 2)), waits(closed=3), {"a": 1}),
        (waits(2), waits(3, open=4, closed=3), {"a": 1}),
    ],
)
def test_same_frame(a: Waiting, b: Waiting, reads: Any) -> None:
    run = decided(flow.same_frame(), {"a": a, "b": b}, None)
    assert (run and run.reads) == reads


def test_two_flows_are_joined_by_day_though_one_misses_days() -> None:
    """The second has nothing on the 2nd and the 4th; days come together, in order, and nothing is lost."""

    @flow.stage(
        flow.reads("sales", by=(), framing=flow.daily("day")),
        flow.reads("costs", by=(), framing=flow.daily("day")),
        runnable=flow.same_frame(),
        out="day DATE, sold INT, cost INT",
    )
    def result(_: Any, sales: Any, costs: Any) -> Any:
        day = [*sales, *costs][0]._frame
        return day, sum(s.n for s in sales), sum(c.n for c in costs)

    sales = [[(f"2024-01-0{d}", d)] for d in (1, 2, 3, 4, 5, 6)]
    costs = [[("2024-01-01", 10)], [("2024-01-03", 30), ("2024-01-05", 50)], [("2024-01-06", 1)]]
    ddl = "day DATE, n INT"
    as_dates = {
        n: [[(date.fromisoformat(d), x) for d, x in some] for some in rows]
        for n, rows in {"sales": sales, "costs": costs}.items()
    }
    seen = flow.trial([result], as_dates, {"sales": ddl, "costs": ddl})
    found = [(r.day.day, r.sold, r.cost) for some in seen.increments("result") for r in some]
    assert found == [(1, 1, 10), (2, 2, 0), (3, 3, 30), (4, 4, 0), (5, 5, 50)]
    assert seen.waiting == {"result": {"sales": 0, "costs": 0}}


# --- runnables of one's own -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "what", "hint"),
    [
        (Run({"a": 3}), "reads 3 frames of `a`, which has 2", "a number of frames that wait"),
        (Run({"a": -1}), "reads -1 frames of `a`", "a number of frames that wait"),
        (Run({"a": True}), "reads True frames of `a`", "a number of frames that wait"),
        (Run({"a": 1}, {"a": 3}), "removes 3 frames of `a`, which has 2", "frames that wait"),
        (Run({"c": 1}), "reads `c`, which is no input", "inputs: a, b"),
        (Run({"a": 1}, {"c": 0}), "removes `c`, which is no input", "inputs: a, b"),
        (Run({}), "reads nothing", "give None to wait"),
        (Run({"a": 0}), "reads nothing", "give None to wait"),
        ({"a": 1}, r"`mine` gave \{'a': 1\}", r"flow.Run\(reads"),
        (True, "`mine` gave True", r"flow.Run\(reads"),
    ],
)
def test_what_makes_no_sense_is_refused(said: Any, what: str, hint: str) -> None:
    def mine(waiting: Any, small: Any) -> Any:
        return said

    with pytest.raises(StageError, match=what) as e:
        decided(own(mine), {"a": some(2), "b": some(0)}, None)
    assert re.search(hint, e.value.hint)


def test_one_of_ones_own_sees_what_waits_and_its_small_state() -> None:
    seen = []

    def every_other(waiting: Any, small: Any) -> Run | None:
        seen.append((waiting["a"].keys, waiting["a"].open, small))
        return Run({"a": 2}, {"a": 1}, (small or 0) + 1) if len(waiting["a"]) > 1 else None

    waiting = {"a": waits(1, 2, open=3)}
    run = decided(own(every_other), waiting, None)
    assert (run.reads, run.removes, run.small) == ({"a": 2}, {"a": 1}, 1)
    assert decided(own(every_other), {"a": waits(2)}, run.small) is None
    assert seen == [((1, 2), 3, None), ((2,), None, 1)]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: flow.in_turn(), "names no inputs"),
        (lambda: flow.prefer("a", to="b", times=0), "times=0"),
        (lambda: flow.prefer("a", to="b", most=1.5), "most=1.5"),
        (lambda: flow.sliding("a", frames=0), "windows of 0 frames"),
        (lambda: flow.in_turn(3), "3 is no name"),
    ],
)
def test_runnables_of_nothing_are_refused(make: Any, what: str) -> None:
    with pytest.raises(StageError, match=what):
        make()


def test_which_make_a_kahn_network() -> None:
    made = [flow.all_inputs(), flow.same_frame(), flow.in_turn("a"), flow.sliding("a", frames=2)]
    assert all(r.kahn for r in made)
    others = [flow.any_input(), flow.prefer("a", to="b"), flow.landmark("a"), own(len)]
    assert not any(r.kahn for r in others)
