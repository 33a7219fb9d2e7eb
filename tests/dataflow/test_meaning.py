"""What stages mean, in small cases that one can work out by hand, and laws over random graphs.

`flow.trial` gives the increments of a flow as lists of rows; a deletion is a tuple with its weight behind it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from graphs import Graph, bags, drawn, meaning_of, seen
from headwater import flow
from headwater.dataflow.define import Readable
from headwater.dataflow.meaning import Meaning
from headwater.dataflow.rows import sort_key
from headwater.dataflow.trial import defined
from headwater.dataflow.unread import added
from headwater.errors import CycleLimit, StageError, StageFailed, StateConflict
from headwater.language.schema import columns

X = {"a": "x INT"}
KX = {"a": "k STRING, x INT"}


def graph(
    stages: Sequence[Any], schemas: dict[str, str], kept: Sequence[str] = (), flows: Any = ()
):
    """A graph to give increments to by hand; sources are relations, and flows that are to be kept."""
    known = {n: Readable(columns(d)) for n, d in schemas.items()}
    known |= {f.name: Readable(f.row) for f in flows}
    made = []
    for f in stages:
        made.append(defined(f).checked(known))
        known |= {n: Readable(r) for n, r in made[-1].outputs.items()}
    there = {n: known[n].row for n in (*schemas, *kept)}
    return Meaning(made, there, [f.name for f in flows])


# --- row by row --------------------------------------------------------------------------------------------------------


def test_row_wise_is_linear() -> None:
    @flow.stage("a", out="x INT")
    def twice(r):
        return [(r.x,), (r.x + 10,)] if r.x > 0 else None

    seen = flow.trial([twice], {"a": [[(1,), (1,), (0,)], [(1, -1), (2,)], [(1, -1), (2, -1)]]}, X)
    assert seen.increments("twice") == [
        [(1,), (1,), (11,), (11,)],
        [(1, -1), (2,), (11, -1), (12,)],
        [(1, -1), (2, -1), (11, -1), (12, -1)],
    ]
    assert seen.rows("twice") == []


def test_a_row_and_its_deletion_in_one_epoch_are_nothing() -> None:
    called = []

    @flow.stage(flow.reads("a", take=2), out="x INT")
    def same(r):
        called.append(r.x)
        return r

    m = graph([same], X)
    m.give({"a": {(1,): 1, (2,): 1}})
    m.give({"a": {(1,): -1}})
    m.run()
    assert called == [2] and m.sent["same"] == [{(2,): 1}]


def test_several_outputs_dicts_and_weights() -> None:
    @flow.stage("a", out={"small": "x INT", "big": "x INT, half INT"})
    def split(r):
        if r.x < 10:
            yield "small", {"x": r.x, "_w": 2}
        else:
            yield "big", (r.x, r.x // 2)
            yield "small", None

    seen = flow.trial([split], {"a": [[(1,), (20,)], []]}, X)
    assert seen.increments("small") == [[(1,), (1,)]], (
        "an increment of a source that is empty is none"
    )
    assert seen.increments("big") == [[(20, 10)]]


def test_what_is_remembered_is_taken_back_though_the_look_up_changed() -> None:
    @flow.stage(
        "clicks",
        lookups={"who": flow.lookup("users", on={"user": "id"})},
        remember=True,
        out="user STRING, country STRING",
    )
    def enriched(click, who):
        return click.user, who[0].country if who else None

    m = graph([enriched], {"clicks": "user STRING", "users": "id STRING, country STRING"})
    m.give({"clicks": {("ann",): 1}, "users": {("ann", "fi"): 1}})
    m.run()
    m.give({"users": {("ann", "fi"): -1, ("ann", "se"): 1}})
    m.give({"clicks": {("ann",): 1, ("bob",): 1}})
    m.run()
    m.give({"clicks": {("ann",): -2, ("bob",): -1}})
    m.run()
    assert m.sent["enriched"] == [
        {("ann", "fi"): 1},
        {("ann", "fi"): 1, ("bob", None): 1},
        {("ann", "fi"): -2, ("bob", None): -1},
    ]
    assert m.nodes["enriched"].remembered == {}


def test_look_ups_are_as_of_the_start_of_the_epoch_and_null_equals_nothing() -> None:
    @flow.stage(
        "a",
        lookups={"same": flow.lookup("b", on="k"), "every": flow.lookup("b")},
        out="k STRING, n INT, m INT",
    )
    def counted(r, same, every):
        return r.k, len(same), len(every)

    m = graph([counted], {"a": "k STRING", "b": "k STRING, x INT"})
    m.give({"a": {("p",): 1, (None,): 1}, "b": {("p", 1): 2, (None, 2): 1}})
    m.run()
    assert m.sent["counted"] == [{("p", 2, 3): 1, (None, 0, 3): 1}]


# --- whole -----------------------------------------------------------------------------------------------------------


def test_whole_sends_old_answers_out_and_new_ones_in() -> None:
    @flow.stage("a", by="k", order_by="x", whole=True, out="k STRING, first INT, n INT")
    def told(k, rows):
        return k, rows[0].x, len(rows)

    given = [[("p", 3), ("q", 1)], [("p", 2)], [("q", 1, -1)], [("p", 2, -1)]]
    assert flow.trial([told], {"a": given}, KX).increments("told") == [
        [("p", 3, 1), ("q", 1, 1)],
        [("p", 2, 2), ("p", 3, 1, -1)],
        [("q", 1, 1, -1)],
        [("p", 2, 2, -1), ("p", 3, 1)],
    ]


def test_whole_over_two_inputs_is_called_with_what_there_is_of_each() -> None:
    @flow.stage("a", "b", by="x", whole=True, runnable=flow.any_input(), out="x INT, n INT, m INT")
    def both(x, a, b):
        return x, len(a), len(b)

    given = {"a": [[(1,)], []], "b": [[], [(1,), (2,)]]}
    seen = flow.trial([both], given, {"a": "x INT", "b": "x INT"})
    assert seen.increments("both") == [[(1, 1, 0)], [(1, 1, 0, -1), (1, 1, 1), (2, 0, 1)]]


def test_what_is_taken_back_and_was_not_given_fails() -> None:
    @flow.stage("a", out="k STRING, x INT")
    def turned(r):
        return r.k, r.x, -1

    @flow.stage("turned", by="k", whole=True, out="k STRING")
    def told(k, rows):
        return (k,)

    @flow.stage("turned", remember=True, out="k STRING")
    def remembered(r):
        return (r.k,)

    for stage in (told, remembered):
        with pytest.raises(StageFailed, match="is taken back, and was not given"):
            flow.trial([turned, stage], {"a": [[("p", 1)]]}, KX)


def test_a_route_of_a_whole_stage_gives_no_all() -> None:
    """The rows were lost: a group that a whole stage does not know yet could not have seen them."""

    @flow.stage("a", by=flow.route(lambda r: flow.ALL, "k STRING"), whole=True, out="k STRING")
    def told(k, rows):
        return (k,)

    with pytest.raises(StageFailed, match="gave ALL, and the stage is whole"):
        flow.trial([told], {"a": [[("p", 1)]]}, KX)


# --- groups and state --------------------------------------------------------------------------------------------------


def test_state_stays_until_it_is_changed() -> None:
    @flow.stage("a", by="k", state="n BIGINT", out="k STRING, n BIGINT")
    def counted(k, rows, state):
        state.n = (state.n or 0) + len(rows)
        return k, state.n

    given = {"a": [[("p", 1), ("p", 1)], [("q", 1)], [("p", 5), (None, 1)]]}
    seen = flow.trial([counted], given, KX)
    assert seen.increments("counted") == [[("p", 2)], [("q", 1)], [(None, 1), ("p", 3)]]
    assert seen.state("counted", "p") == {"": {(): (3,)}}
    assert flow.trial([counted], given, KX, state={"counted": {"p": (10,)}}).rows("counted")[
        -1
    ] == (
        "q",
        1,
    )


def test_deletions_are_seen_with_changes_and_refused_without() -> None:
    def f(k, rows):
        return [(k, r.x, r._w) for r in rows]

    with_changes = flow.stage(
        flow.reads("a", by="k", changes=True), name="f", out="k STRING, x INT"
    )(f)
    seen = flow.trial([with_changes], {"a": [[("p", 1), ("p", 1)], [("p", 1, -1)]]}, KX)
    assert seen.increments("f") == [[("p", 1), ("p", 1)], [("p", 1, -1)]]
    without = flow.stage("a", by="k", name="f", out="k STRING")(lambda k, rows: (k,))
    told = "a row of `a` is deleted, and the stage takes no deletions"
    with pytest.raises(StageFailed, match=told) as e:
        flow.trial([without], {"a": [[("p", 1)], [("p", 1, -1)]]}, KX)
    assert "group 'p', first row Row(k='p', x=1)" in e.value.hint


def test_all_groups_are_called_where_that_is_said() -> None:
    @flow.stage("a", by="k", state="n BIGINT", groups="all", out="k STRING, n BIGINT")
    def faded(k, rows, state):
        state.n = (state.n or 0) + sum(r.x for r in rows) - 1
        if state.n <= 0:
            state.clear()
        return k, state.n or 0

    seen = flow.trial([faded], {"a": [[("p", 3)], [("q", 2)], [("r", 1)], [("r", 9)]]}, KX)
    assert seen.increments("faded") == [
        [("p", 2)],
        [("p", 1), ("q", 1)],
        [("p", 0), ("q", 0), ("r", 0)],
        [("r", 8)],
    ]


def test_rows_for_all_groups_are_seen_by_those_of_the_epoch() -> None:
    @flow.stage(
        flow.reads("a", by="k"),
        flow.reads("limits", by=flow.ALL),
        state="n BIGINT",
        runnable=flow.any_input(),
        out="k STRING, n INT",
    )
    def over(k, rows, limits, state):
        state.n = max([state.n or 0, *(x.x for x in limits)])
        return k, sum(r.x for r in rows if r.x > state.n)

    m = graph([over], {"a": "k STRING, x INT", "limits": "x INT"})
    m.give({"a": {("p", 5): 1, ("q", 9): 1}, "limits": {(6,): 1}})
    m.run()
    m.give({"limits": {(1,): 1}})
    m.run()
    m.give({"a": {("r", 5): 1}})
    m.run()
    assert m.sent["over"] == [{("p", 0): 1, ("q", 9): 1}, {}, {("r", 5): 1}]


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (lambda r: r.x % 2, [(0, 2), (1, 1)]),
        (lambda r: [r.x % 2, 7, 7], [(0, 2), (1, 1), (7, 3)]),
        (lambda r: None if r.x == 2 else r.x, [(1, 1), (4, 1)]),
        (lambda r: [], []),
        (lambda r: flow.ALL, []),
        (lambda r: flow.ALL if r.x == 4 else r.x, [(1, 2), (2, 2)]),
        (lambda r: {r.x % 2, 0}, [(0, 3), (1, 1)]),
    ],
)
def test_a_route_gives_one_key_several_none_or_all(route, expected) -> None:
    @flow.stage("a", by=flow.route(route, "g INT"), out="g INT, n INT")
    def counted(g, rows):
        return g, len(rows)

    seen = flow.trial([counted], {"a": [[(1,), (2,), (4,)]]}, X)
    assert seen.increments("counted") == [expected]


def test_keys_of_several_columns_and_of_none() -> None:
    @flow.stage("a", by=["k", "x"], out="k STRING, x INT, n INT")
    def pairs(key, rows):
        return *key, len(rows)

    @flow.stage("a", by=(), out="n INT, key STRING")
    def one(key, rows):
        return len(rows), repr(key)

    @flow.stage("a", by=flow.route(lambda r: (), ""), out="n INT")
    def routed(key, rows):
        return (len(rows),)

    seen = flow.trial([pairs, one, routed], {"a": [[("p", 1), ("p", 1), ("p", 2)]]}, KX)
    assert seen.rows("pairs") == [("p", 1, 2), ("p", 2, 1)]
    assert seen.rows("one") == [(3, "()")]
    assert seen.rows("routed") == [(3,)], "a key without columns is a key: its rows were lost"


@pytest.mark.parametrize("bad", ["p", (1, 2), 1.5, [[1]]])
def test_a_route_that_gives_no_key(bad) -> None:
    f = flow.stage("a", by=flow.route(lambda r: bad, "g INT"), name="f", out="g INT")
    with pytest.raises(StageFailed, match="the stage `f` failed"):
        flow.trial([f(lambda g, rows: (g,))], {"a": [[(1,)]]}, X)


def test_rows_come_sorted_flow_by_flow() -> None:
    got = []

    @flow.stage(
        flow.reads("a", order_by=["x", "k"]), flow.reads("b", order_by="x"), by=(), out="n INT"
    )
    def kept(_, a, b):
        got.append(([tuple(r) for r in a], [r.x for r in b]))

    given = {"a": [[("q", 1), ("p", 1), (None, 1), ("z", None)]], "b": [[(3,), (None,), (1,)]]}
    flow.trial([kept], given, {**KX, "b": "x INT"})
    assert got == [([("z", None), (None, 1), ("p", 1), ("q", 1)], [None, 1, 3])]


@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        (flow.sums("x"), [("p", 6), ("q", 4)]),
        (flow.least("x"), [("p", 1), ("q", 4)]),
        (flow.greatest("x"), [("p", 3), ("q", 4)]),
        (lambda rows: [max(rows, key=sort_key)], [("p", 3), ("q", 4)]),
        (lambda rows: max(rows, key=sort_key), [("p", 3), ("q", 4)]),
    ],
)
def test_combine_makes_fewer_rows_before_the_call(combine, expected) -> None:
    @flow.stage(flow.reads("a", by="k", combine=combine), out="k STRING, x INT")
    def each(k, rows):
        return [tuple(r) for r in rows]

    given = {"a": [[("p", 1), ("p", 2), ("p", 3), ("q", 4), ("q", None)]]}
    assert flow.trial([each], given, KX).rows("each") == expected


def test_sums_of_changes_count_deletions() -> None:
    @flow.stage(
        flow.reads("a", by="k", changes=True, combine=flow.sums("x")), out="k STRING, x INT, n INT"
    )
    def summed(k, rows):
        return [(r.k, r.x, r._w) for r in rows for _ in [0]]

    seen = flow.trial([summed], {"a": [[("p", 5), ("p", 7)], [("p", 5, -1), ("p", 1)]]}, KX)
    assert seen.increments("summed") == [[("p", 12, 1)], [("p", -4, 1)]]


@pytest.mark.parametrize("bad", [lambda rows: [(1,)], lambda rows: None, lambda rows: 1 / 0])
def test_a_combiner_that_is_wrong_holds_its_stage(bad) -> None:
    """What it raised came out of `run`, and nothing else went on."""
    f = flow.stage(flow.reads("a", by="k", combine=bad), name="f", out="k STRING")(
        lambda k, r: (k,)
    )

    @flow.stage("a", out="x INT")
    def beside(r):
        return (r.x,)

    m = graph([f, beside], KX)
    m.give({"a": {("p", 1): 1}})
    m.run()
    assert m.nodes["f"].held.key == "p" and m.sent["beside"] == [{(1,): 1}]


def test_take_reads_several_increments_and_waits_for_them() -> None:
    @flow.stage(flow.reads("a", by=(), take=2), out="n INT")
    def pairs(_, rows):
        return (len(rows),)

    @flow.stage(flow.reads("a", by=(), take="all"), out="n INT")
    def every(_, rows):
        return (len(rows),)

    m = graph([pairs, every], X)
    for x in range(5):
        m.give({"a": {(x,): 1}})
    m.run()
    assert m.sent["pairs"] == [{(2,): 1}, {(2,): 1}] and m.sent["every"] == [{(5,): 1}]
    assert len(m.waiting("pairs")["a"]) == 1


# --- other groups, and time --------------------------------------------------------------------------------------------


def test_another_group_sees_what_was_written_for_it_in_the_next_epoch() -> None:
    @flow.stage("a", by="k", state="n INT", out="k STRING, n INT")
    def told(k, rows, state):
        if k == "p":
            state.at("q").n = rows[0].x
        return k, state.n

    seen = flow.trial([told], {"a": [[("p", 5), ("q", 0)], [("q", 0)]]}, KX)
    assert seen.increments("told") == [[("p", None), ("q", None)], [("q", 5)]]


def test_two_that_write_one_entry_differently_are_a_conflict() -> None:
    @flow.stage("a", by="k", state="n INT", out="k STRING")
    def told(k, rows, state):
        state.at("z").n = rows[0].x
        return (k,)

    assert flow.trial([told], {"a": [[("p", 5), ("q", 5)]]}, KX).state("told", "z") == {
        "": {(): (5,)}
    }
    with pytest.raises(StageFailed, match="the state at 'z' is written by two groups") as e:
        flow.trial([told], {"a": [[("p", 5), ("q", 6)]]}, KX)
    assert isinstance(e.value.__cause__, StateConflict)


def test_keys_of_other_groups_have_the_types_of_the_key() -> None:
    """`at("1")` of a stage with numbers as keys made a group that nobody could ever see."""

    @flow.stage("a", by="x", state="n INT", out="x INT")
    def told(x, rows, state):
        state.at("1").n = 5

    with pytest.raises(StageFailed, match="the stage `told` failed"):
        flow.trial([told], {"a": [[(1,)]]}, X)


def test_state_of_the_wrong_type_holds_its_stage() -> None:
    """It came out of `run` as it was."""

    @flow.stage("a", by="x", state="n INT", out="x INT")
    def told(x, rows, state):
        state.n = "many"

    m = graph([told], X)
    m.give({"a": {(1,): 1}})
    m.run()
    assert m.nodes["told"].held is not None and m.nodes["told"].held.key == 1


GAP = timedelta(minutes=30)
CLICKS = {"clicks": "user STRING, at TIMESTAMP"}


@flow.stage(
    "clicks",
    by="user",
    order_by="at",
    state="start TIMESTAMP, last TIMESTAMP, n INT",
    clock="at",
    out="user STRING, minute INT, n INT",
)
def sessions(user, clicks, state):
    for c in [*clicks, None]:
        if state.n and (c.at if c else state.clock) - state.last >= GAP:
            yield user, state.start.minute, state.n
            state.clear()
        if c:
            state.start, state.last, state.n = state.start or c.at, c.at, (state.n or 0) + 1
    if state.n:
        state.wake(state.last + GAP)


def minute(m: int) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=m)


def test_a_group_that_is_due_is_called_without_rows() -> None:
    given = [
        [("ann", minute(0)), ("ann", minute(10))],
        [("bob", minute(39))],
        [("bob", minute(40))],
    ]
    seen = flow.trial([sessions], {"clicks": given}, CLICKS)
    assert seen.increments("sessions") == [[], [], [("ann", 0, 2)]]
    assert seen.meaning.nodes["sessions"].wakes == {("bob",): minute(70)}


def test_sessions_do_not_depend_on_how_clicks_are_cut() -> None:
    clicks = [
        (u, minute(m)) for m, u in [(0, "a"), (5, "b"), (20, "a"), (50, "a"), (55, "b"), (99, "c")]
    ]
    found = {
        tuple(flow.trial([sessions], {"clicks": cut}, CLICKS).rows("sessions"))
        for cut in ([clicks], [[c] for c in clicks], [clicks[:2], clicks[2:5], clicks[5:]])
    }
    assert found == {(("a", 0, 2), ("a", 50, 1), ("b", 5, 1), ("b", 55, 1))}


@pytest.mark.parametrize("wrong", [5, "soon", minute])
def test_a_wake_at_what_is_no_time_holds_the_stage(wrong) -> None:
    """It was compared with the clock in the next epoch, and came out of `run`."""

    @flow.stage("clicks", by="user", state="n INT", clock="at", out="user STRING")
    def woken(user, clicks, state):
        state.wake(wrong)

    with pytest.raises(StageFailed, match=r"wake\(.*\) is no time of the clock `at`"):
        flow.trial([woken], {"clicks": [[("ann", minute(0))], [("ann", minute(1))]]}, CLICKS)


def test_a_wake_without_a_clock_is_refused() -> None:
    @flow.stage("a", by="x", state="n INT", out="x INT")
    def woken(x, rows, state):
        state.wake(5)

    with pytest.raises(StageFailed, match="is to wake, and the stage has no clock"):
        flow.trial([woken], {"a": [[(1,)]]}, X)


def test_entries_that_are_not_written_expire() -> None:
    @flow.stage(
        "clicks",
        by="user",
        state=flow.record("n INT", expires=GAP),
        groups="all",
        clock="at",
        out="user STRING, n INT",
    )
    def counted(user, clicks, state):
        if clicks:
            state.n = (state.n or 0) + 1
        return user, state.n

    given = [[("a", minute(0))], [("b", minute(20))], [("b", minute(30))], [("a", minute(40))]]
    seen = flow.trial([counted], {"clicks": given}, CLICKS)
    assert seen.increments("counted") == [
        [("a", 1)],
        [("a", 1), ("b", 1)],
        [("b", 2)],  # the group `a` is gone with its state
        [("a", 1), ("b", 2)],
    ]


def test_what_was_written_before_there_was_a_time_expires_from_then_on() -> None:
    """The clock was None then, and no time could be taken from it."""

    @flow.stage(
        "clicks",
        by="user",
        state=flow.record("n INT", expires=GAP),
        clock="at",
        out="user STRING, n INT",
    )
    def counted(user, clicks, state):
        state.n = (state.n or 0) + 1
        return user, state.n

    given = [[("a", None)], [("b", minute(0))], [("a", minute(29))], [("b", minute(60))]]
    seen = flow.trial([counted], {"clicks": given}, CLICKS)
    assert seen.increments("counted") == [[("a", 1)], [("b", 1)], [("a", 2)], [("b", 1)]]


def test_columns_that_are_called_like_methods_of_tuples() -> None:
    """An input without a column `count` seemed to have one: that of every tuple."""

    @flow.stage(
        flow.reads("a", by="k"),
        flow.reads("b", by="k"),
        state=flow.record("n INT", key="at INT", only="count"),
        clock="index",
        out="k STRING, n INT",
    )
    def counted(k, a, b, state):
        for r in a:
            state[r.count].n = (state[r.count].n or 0) + len(b)
            yield k, state[r.count].n

    schemas = {"a": "k STRING, count INT, index BIGINT", "b": "k STRING, x INT"}
    seen = flow.trial([counted], {"a": [[("p", 3, 1)]], "b": [[("p", 9), ("p", 8)]]}, schemas)
    assert seen.rows("counted") == [("p", 2)]
    assert seen.meaning.nodes["counted"].clock == 1


def test_chance_is_the_same_again_and_another_for_every_row() -> None:
    """All rows of an epoch had the same luck: a sample took all of them, or none."""

    @flow.stage("a", out="x INT")
    def sample(r, epoch):
        return r if epoch.random.random() < 0.5 else None

    given = {"a": [[(x,) for x in range(60)]]}
    once = flow.trial([sample], given, X).rows("sample")
    assert 10 < len(once) < 50 and once == flow.trial([sample], given, X).rows("sample")


# --- graphs ------------------------------------------------------------------------------------------------------------


def countdown(ends: bool):
    back = flow.declared_flow("back", "x INT")

    @flow.stage(
        flow.reads("a", by=()),
        flow.reads(back, by=()),
        runnable=flow.any_input(),
        out={"back": back, "done": "x INT"},
    )
    def down(_, fresh, again):
        for r in [*fresh, *again]:
            yield ("back", (r.x - 1,)) if r.x > 0 or not ends else ("done", (r.x,))

    return back, down


def test_a_cycle_comes_to_rest() -> None:
    back, down = countdown(True)
    seen = flow.trial([down], {"a": [[(3,), (1,)], [(2,)]]}, X, flows=[back])
    assert seen.rows("done") == [(0,), (0,), (0,)]
    assert seen.ran == ["down"] * 7
    assert [len(i) for i in seen.increments("back")] == [2, 1, 1, 1, 1], "it sends nothing empty"


def test_a_cycle_without_end_is_found() -> None:
    back, down = countdown(False)
    with pytest.raises(CycleLimit, match="`down` ran 50 times without input from outside") as e:
        m = graph([down], X, flows=[back])
        m.give({"a": {(3,): 1}})
        m.run(rounds=50)
    assert e.value.hint


def test_many_increments_are_no_cycle() -> None:
    """A stage with more than `rounds` increments to read was taken for a cycle without end."""
    back, down = countdown(True)

    @flow.stage("a", out="x INT")
    def same(r):
        return r

    @flow.stage(flow.reads("same", by=()), runnable=flow.landmark("same"), out="n INT")
    def since(_, rows):
        return (len(rows),)

    m = graph([down, same, since], X, flows=[back])
    for _ in range(30):
        m.give({"a": {(1,): 1}})
    ran = m.run(rounds=5, bottlenecks=False)
    assert ran.count("same") == 30 and ran.count("since") > 5 and ran.count("down") >= 30


def test_a_runnable_that_removes_nothing_and_never_waits_is_found() -> None:
    f = flow.stage("a", name="f", out="x INT", runnable=lambda w, s: flow.Run({"a": 1}, {"a": 0}))
    m = graph([f(lambda r: None)], X)
    m.give({"a": {(1,): 1}})
    with pytest.raises(CycleLimit, match="`f` ran 20 times"):
        m.run(rounds=20)


def test_a_diamond_stays_in_step_by_empty_increments() -> None:
    @flow.stage("a", out="x INT")
    def even(r):
        return r if r.x % 2 == 0 else None

    @flow.stage("a", out="x INT")
    def odd(r):
        return r if r.x % 2 else None

    @flow.stage("even", "odd", by=(), out="n INT, m INT")
    def both(_, even, odd):
        return len(even), len(odd)

    seen = flow.trial([even, odd, both], {"a": [[(1,), (3,)], [(2,)], [(4,), (5,)]]}, X)
    assert seen.increments("even") == [[], [(2,)], [(4,)]]
    assert seen.increments("both") == [[(0, 2)], [(1, 0)], [(1, 1)]]


def test_a_late_stage_begins_with_all_rows_that_are_there() -> None:
    @flow.stage("a", out="x INT")
    def early(r):
        return r

    def late(name, **more):
        f = flow.stage(flow.reads("a", by=(), **more), name=name, out="n INT")(
            lambda _, r: (len(r),)
        )
        return defined(f).checked({"a": Readable(columns("x INT"))})

    m = graph([early], X)
    m.give({"a": {(1,): 1, (2,): 1}})
    m.give({"a": {(1,): -1, (3,): 1}})
    m.run()
    m.define(late("all"))
    m.define(late("new", start="new"))
    m.give({"a": {(4,): 1}})
    m.run()
    assert m.sent["all"] == [{(2,): 1}, {(1,): 1}] and m.sent["new"] == [{(1,): 1}]


def test_views_are_carried_along_in_the_same_version() -> None:
    """source -> view -> stage -> source of the same view: a cycle through SQL that comes to rest."""

    @flow.stage(flow.reads("top", by=(), changes=True), out="x INT")
    def halved(_, rows):
        return [(r.x // 2,) for r in rows if r._w > 0 and r.x > 1]

    known = {"a": Readable(columns("x INT")), "top": Readable(columns("x INT"), view=True)}
    stage = defined(halved).checked(known)

    def top(relations):
        """The greatest x of a, or, while there are fewer than three halves, the least half."""
        halves = relations["halved"]
        if halves:
            return {min(halves): 1}
        return {max(relations["a"]): 1} if relations["a"] else {}

    there = {n: columns("x INT") for n in ("a", "halved", "top")}
    m = Meaning([stage], there, views={"top": top})
    m.give({"a": {(20,): 1}})
    assert m.relations["top"] == {(20,): 1}, "the version is whole"
    m.run()
    assert m.sent["halved"] == [{(10,): 1}, {(5,): 1}, {(2,): 1}, {(1,): 1}, {}]
    assert m.relations["top"] == {(1,): 1}


# --- stages that are held --------------------------------------------------------------------------------------------


def test_a_stage_that_fails_is_held_and_the_rest_goes_on() -> None:
    broken = [True]

    @flow.stage("a", by="x", state="n INT", out="x INT, n INT")
    def told(x, rows, state):
        state.n = (state.n or 0) + 1
        if x == 2 and broken:
            raise ValueError("no twos\nat all")
        return x, state.n

    @flow.stage("a", out="x INT")
    def beside(r):
        return r

    m = graph([told, beside], X)
    m.give({"a": {(1,): 1}})
    m.give({"a": {(1,): 1, (2,): 1}})
    m.give({"a": {(1,): 1}})
    m.run()
    held = m.nodes["told"].held
    assert (held.told, held.key, tuple(held.row)) == ("ValueError: no twos", 2, (2,))
    assert m.sent["told"] == [{(1, 1): 1}] and len(m.sent["beside"]) == 3
    assert m.nodes["told"].state == {"": {(1,): {(): (1,)}}}, "nothing of the epoch is kept"
    m.run()
    assert m.nodes["told"].held is not None
    broken.clear()
    m.run()
    assert m.nodes["told"].held is None
    assert m.sent["told"] == [{(1, 1): 1}, {(1, 2): 1, (2, 1): 1}, {(1, 3): 1}]


def test_a_framing_that_fails_holds_its_reader_only() -> None:
    """Whether its writer is full was asked of the reader, and what the framing raised came out of `run`."""

    @flow.stage("a", out="x INT")
    def same(r):
        return r

    def bad(r, small):
        raise ValueError("no frames")

    @flow.stage(flow.reads("same", framing=flow.frames(bad, "x")), out="x INT")
    def framed(r):
        return r

    m = graph([same, framed], X)
    for x in range(3):
        m.give({"a": {(x,): 1}})
    m.run()
    assert m.nodes["framed"].held.told == "ValueError: no frames" and len(m.sent["same"]) == 3


@pytest.mark.parametrize(
    ("gives", "what"),
    [
        ((1, 2, 3), "a row that `f` gave for `f` has 3 values"),
        ({"y": 1}, "has no `x`"),
        ({"x": 1, "y": 1}, "has a column `y` too many"),
        (5, "`f` gave 5, which is no row"),
        ("text", "`f` gave 'text', which is no row"),
        ([5], "is no row: 5"),
        ((1, 0.5), "gave a row of `f` the weight 0.5"),
        ((1, True), "the weight True"),
        (("one",), "the stage `f` failed"),
        ((2**40,), "the stage `f` failed"),
    ],
)
def test_what_a_function_may_not_give(gives, what) -> None:
    f = flow.stage("a", name="f", out="x INT")(lambda r: gives)
    with pytest.raises(StageFailed, match=what):
        flow.trial([f], {"a": [[(1,)]]}, X)


def test_what_one_with_several_outputs_may_not_give() -> None:
    f = flow.stage("a", name="f", out={"p": "x INT", "q": "x INT"})(lambda r: [("r", (1,))])
    with pytest.raises(StageFailed, match=r"`f` gave \('r', \(1,\)\), and it has several outputs"):
        flow.trial([f], {"a": [[(1,)]]}, X)


def test_what_a_kept_flow_never_had_fails_its_stage() -> None:
    f = flow.stage("a", name="f", out="x INT")(lambda r: (r.x, -1))
    m = graph([f], X, kept=["f"])
    m.give({"a": {(1,): 1}})
    m.run()
    assert m.nodes["f"].held.told == "`f` does not have (1,), which is taken back"
    assert m.relations["f"] == {} and len(m.waiting("f")["a"]) == 1


def test_rows_that_a_source_does_not_have_are_not_deleted() -> None:
    f = flow.stage("a", name="f", out="x INT")(lambda r: r)
    with pytest.raises(StageError, match=r"`a` does not have \(1,\)"):
        flow.trial([f], {"a": [[(1, -1)]]}, X)


def test_stages_may_be_given_in_any_order() -> None:
    """Also where one only looks another up."""

    @flow.stage("a", lookups={"found": "last"}, out="n INT")
    def first(r, found):
        return (len(found),)

    @flow.stage("a", out="x INT")
    def last(r):
        return r

    seen = flow.trial([first, last], {"a": [[(1,)], [(2,)]]}, X)
    assert seen.ran[:2] == ["first", "last"] and seen.increments("first") == [[(0,)], [(1,)]]


# --- laws over random graphs ------------------------------------------------------------------------------------------


def anyhow(m: Meaning, chance: random.Random) -> None:
    """Runs whoever can, in any order, until nobody can."""
    while True:
        ready = {n: r for n in m.nodes if (r := m.ready(n)) is not None}
        if not ready:
            return
        name = chance.choice(sorted(ready))
        m.epoch(name, ready[name])


def is_kahn(g: Graph) -> bool:
    """Whether all stages wait for given frames, and look at nothing that changes beside them.

    `take="all"` reads what happens to be there.
    """
    stages = [n.stage for n in meaning_of(g).nodes.values()]
    return all(
        s.runnable.kahn and not s.lookups and all(i.take != "all" for i in s.inputs) for s in stages
    )


@pytest.mark.property
@pytest.mark.parametrize(
    "seeds", [range(300), pytest.param(range(300, 6000), marks=pytest.mark.slow)]
)
def test_kahn_graphs_have_one_outcome_for_every_schedule(seeds) -> None:
    graphs = [g for seed in seeds if len((g := drawn(seed)).stages) > 1 and is_kahn(g)]
    assert len(graphs) > len(seeds) // 20
    for g in graphs:
        outcomes = []
        for n, way in enumerate([True, False, None, None]):
            m, chance = meaning_of(g), random.Random(n)
            for kind, what in g.story:
                if kind == "give":
                    m.give(bags(g, what))
                elif way is None:
                    anyhow(m, chance)
                else:
                    m.run(what, bottlenecks=way)
            if way is not None:
                m.run(bottlenecks=way)
            outcomes.append({k: v for k, v in seen(m).items() if k != "held"})
        assert all(o == outcomes[0] for o in outcomes), f"seed {g.seed}"


def test_graphs_that_are_not_kahn_have_several() -> None:
    """The law can fail: with any_input it does."""

    @flow.stage("a", out="x INT")
    def same(r):
        return r

    @flow.stage(
        flow.reads("a", by=()), flow.reads("same", by=()), runnable=flow.any_input(), out="n INT"
    )
    def met(_, a, b):
        return (len(a) * 10 + len(b),)

    def outcome(seed):
        m = graph([same, met], X)
        m.give({"a": {(1,): 1}})
        anyhow(m, random.Random(seed))
        return str(m.sent["met"])

    assert len({outcome(seed) for seed in range(10)}) > 1


def outcomes_of(stages: Sequence[Any], increments: Sequence[dict[str, Any]], ddl: str) -> set[str]:
    """What the last of some stages sends, for several schedules."""
    last = defined(stages[-1]).name

    def outcome(seed: int) -> str:
        m = graph(stages, {n: ddl for change in increments for n in change})
        for change in increments:
            m.give(change)
        anyhow(m, random.Random(seed))
        return str(m.sent.get(last))

    return {outcome(seed) for seed in range(30)}


@pytest.mark.parametrize(
    "given",
    [
        [{"a": {(5,): 1, (6,): 1}, "b": {(6,): 1}}, {"b": {(5,): 1}}],
        [{"b": {(5,): 1, (6,): 1}, "a": {(6,): 1}}, {"a": {(5,): 1}}, {"b": {(5,): 1}}],
        [
            {"a": {(9,): 1}, "b": {(4,): 1, (9,): 1}},
            {"a": {(4,): 1}, "b": {(4,): 1}},
            {"a": {(10,): 1}},
        ],
    ],
)
def test_frames_of_a_day_are_joined_alike_though_rows_are_late(given) -> None:
    @flow.stage("b", out="x INT")
    def same(r):
        return r

    day = flow.frames(lambda r, small: (r.x, small), "x")

    @flow.stage(
        flow.reads("a", by=(), framing=day),
        flow.reads("same", by=(), framing=day),
        runnable=flow.same_frame(),
        out="n INT, m INT",
    )
    def met(_, a, b):
        return len(a), len(b)

    assert len(outcomes_of([same, met], given, "x INT")) == 1


def test_all_that_waits_depends_on_the_schedule() -> None:
    """So that `explain` does not count such a stage among those whose outcome depends on none."""

    @flow.stage("a", out="x INT")
    def same(r):
        return r

    @flow.stage(flow.reads("same", by=(), take="all"), out="n INT")
    def counted(_, rows):
        return (len(rows),)

    assert len(outcomes_of([same, counted], [{"a": {(1,): 1}}, {"a": {(2,): 1}}], "x INT")) > 1


def linear(seed: int) -> Graph | None:
    """A graph of stages row by row and whole ones, without frames."""
    g = drawn(seed, ["row_wise", "outputs", "whole"])
    return None if "framing" in g.words else g


@pytest.mark.property
@pytest.mark.parametrize(
    "seeds", [range(50), pytest.param(range(50, 1000), marks=pytest.mark.slow)]
)
def test_row_wise_and_whole_have_one_outcome_for_every_cut(seeds) -> None:
    found = 0
    for seed in seeds:
        g = linear(seed)
        if g is None:
            continue
        found += 1
        given = [bags(g, what) for kind, what in g.story if kind == "give"]
        one = {n: added(*(b.get(n, {}) for b in given)) for n in g.sources}
        outcomes = []
        for cut in ([one], given, _one_by_one(given)):
            m = meaning_of(g)
            for change in cut:
                m.give(change)
                m.run()
            m.run()
            waits = {s: any(len(w) for w in m.waiting(s).values()) for s in m.nodes}
            sums = {n: b for n, sent in m.sent.items() if (b := added(*sent))}
            outcomes.append((waits, sums))
        if not any(any(waits.values()) for waits, _ in outcomes):
            assert all(o == outcomes[0] for o in outcomes), f"seed {seed}"
    assert found > len(seeds) // 3


def _one_by_one(given: Sequence[Any]) -> list[Any]:
    """Every row on its own, insertions of an increment before its deletions."""
    return [
        {n: {r: w}}
        for change in given
        for n, bag in change.items()
        for r, w in sorted(bag.items(), key=lambda x: -x[1])
    ]
