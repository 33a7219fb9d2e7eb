"""What is bad at a run, or comes bad from outside: it is told with stage, epoch, increments, group and row, nothing is lost,
the rest of the graph goes on, and so does the stage when what was bad is mended.

What is bad at definition is in `test_define`, files and batches in `api/test_directories` and `api/test_batches`, the disk
in `test_attacked`, and Spark in `test_on_spark`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater import flow
from headwater.errors import (
    CycleLimit,
    FlowFull,
    StageFailed,
    StageMissing,
    Stuck,
)

Bag = Counter[tuple[Any, ...]]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as db:
        db.source("s", "k INT, n INT")
        yield db


def bag(db: hw.Database, name: str) -> Bag:
    return Counter({tuple(r.values())[:-1]: r["_w"] for r in db.table(name).to_pylist()})


# --- functions, and what they give -------------------------------------------------------------------------------------

ROWS = [(1, 10), (2, 20), (3, 30)]
Fails = list[bool]
"""Not empty while something is wrong."""


@dataclass(frozen=True)
class Bad:
    """A stage `st` that is wrong at the row or group 2 while it is told to be; what is said; what it gives in the end."""

    define: Callable[[hw.Database, Fails], Any]
    said: tuple[str, ...]
    gives: list[tuple[Any, ...]]


def rows(wrong: Callable[[Any], Any], right: Callable[[Any], Any] = lambda r: (r.k,), **words: Any):
    """A stage row by row."""

    def define(db: hw.Database, fails: Fails) -> None:
        @db.stage("s", name="st", **{"out": "k INT", **words})
        def st(row):
            return wrong(row) if fails and row.k == 2 else right(row)

    return define


def groups(wrong: Callable[..., Any], **words: Any):
    """A stage with groups and state."""

    def define(db: hw.Database, fails: Fails) -> None:
        @db.stage("s", name="st", **{"by": "k", "state": "n INT", "out": "k INT", **words})
        def st(key, rows, state):
            state.n = (state.n or 0) + 1
            return wrong(key, rows, state) if fails and key == 2 else (key,)

    return define


def raises(*args: Any) -> Any:
    raise ValueError("it was\nin two lines")


def later(*args: Any) -> Iterator[Any]:
    yield (1,)
    raise KeyError("late")


ROW, GROUP = ("first row", "k=2, n=20"), ("group 2", "first row", "k=2, n=20")
ONES = [(1,), (2,), (3,)]
HELD: list[Any] = []


def writes_afterwards(db: hw.Database, fails: Fails) -> None:
    HELD.clear()

    @db.stage("s", name="st", by="k", state="n INT", out="k INT")
    def st(key, rows, state):
        if HELD and fails:
            HELD[0].n = 7
        HELD.append(state)
        state.n = key
        return (key,)


def route(wrong: Callable[[Any], Any]) -> Callable[..., None]:
    def define(db: hw.Database, fails: Fails) -> None:
        by = flow.route(lambda r: wrong(r) if fails and r.k == 2 else r.k, "k INT")

        @db.stage(flow.reads("s", by=by), name="st", out="k INT")
        def st(key, rows):
            return (key,)

    return define


def combiner(wrong: Callable[[Any], Any]) -> Callable[..., None]:
    def define(db: hw.Database, fails: Fails) -> None:
        def combine(rows):
            return wrong(rows) if fails and rows[0].k == 2 else rows[:1]

        @db.stage(flow.reads("s", by="k", combine=combine), name="st", out="k INT")
        def st(key, rows):
            return (key,)

    return define


def framing(db: hw.Database, fails: Fails) -> None:
    def key(row, small):
        return ("two" if fails and row.k == 2 else row.k), small

    @db.stage(flow.reads("s", framing=flow.frames(key, ["k"])), name="st", out="k INT")
    def st(row):
        return (row.k,)


def runnable(wrong: Callable[[Any], Any]) -> Callable[..., None]:
    def define(db: hw.Database, fails: Fails) -> None:
        def when(waiting, small):
            if fails:
                return wrong(waiting)
            return flow.Run({"s": 1}) if len(waiting["s"]) else None

        @db.stage("s", name="st", runnable=when, out="k INT")
        def st(row):
            return (row.k,)

    return define


def conflict(db: hw.Database, fails: Fails) -> None:
    @db.stage("s", name="st", by="k", state="n INT", out="k INT")
    def st(key, rows, state):
        state.at(9).n = key if fails else 0
        return (key,)


def arrow(wrong: Callable[[pa.Table], Any]) -> Callable[..., None]:
    def define(db: hw.Database, fails: Fails) -> None:
        @db.stage("s", name="st", form="arrow", out="k INT")
        def st(table):
            return wrong(table) if fails else table.select(["k", "_w"])

    return define


def pairs(wrong: Any) -> Callable[..., None]:
    def define(db: hw.Database, fails: Fails) -> None:
        @db.stage("s", name="two", out={"st": "k INT", "more": "k INT"})
        def two(row):
            return wrong if fails and row.k == 2 else ("st", (row.k,))

    return define


BAD: dict[str, Bad] = {
    "it raises": Bad(rows(raises), ("ValueError: it was", *ROW), ONES),
    "it raises for a group": Bad(groups(raises), ("ValueError: it was", *GROUP), ONES),
    "it raises after its first row": Bad(groups(later), ("KeyError: 'late'", *GROUP), ONES),
    "it divides by zero on the way": Bad(
        rows(lambda r: (x for x in [1 // 0])), ("ZeroDivisionError", *ROW), ONES
    ),
    "no row": Bad(rows(lambda r: 5), ("`st` gave 5, which is no row", *ROW), ONES),
    "text": Bad(rows(lambda r: "ab"), ("`st` gave 'ab', which is no row", *ROW), ONES),
    "a list that is no row": Bad(
        groups(lambda *a: [7]), ("a row that `st` gave for `st` is no row: 7", *GROUP), ONES
    ),
    "too many columns": Bad(
        rows(lambda r: (1, 2, 3)),
        ("for `st` has 3 values: (1, 2, 3)", *ROW, "columns of `st`: k"),
        ONES,
    ),
    "too few columns": Bad(
        groups(lambda *a: ()), ("for `st` has 0 values: ()", *GROUP, "a weight may follow"), ONES
    ),
    "another column": Bad(rows(lambda r: {"q": 1}), ("for `st` has no `k`: {'q': 1}", *ROW), ONES),
    "a column too many": Bad(
        rows(lambda r: {"k": 1, "q": 1}), ("for `st` has a column `q` too many", *ROW), ONES
    ),
    "another type": Bad(
        rows(lambda r: ("two",)), ("`st` gave for `st`", "`k`", "'two'", *ROW), ONES
    ),
    "another type in a group": Bad(
        groups(lambda *a: ("two",)), ("`st` gave for `st`", "'two'", *GROUP), ONES
    ),
    "too large": Bad(rows(lambda r: (1 << 40,)), ("`st` gave for `st`", str(1 << 40), *ROW), ONES),
    "state of another type": Bad(
        groups(lambda k, rows, state: setattr(state, "n", "x")),
        ("`st` gave for `the state of st`", "'x'", "group 2"),
        ONES,
    ),
    "a column of state that is not there": Bad(
        groups(lambda k, rows, state: setattr(state, "z", 1)), ("'z'", *GROUP), ONES
    ),
    "a weight that is no whole number": Bad(
        rows(lambda r: (1, 0.5)), ("gave a row of `st` the weight 0.5", *ROW, "whole number"), ONES
    ),
    "a weight by name": Bad(
        groups(lambda *a: {"k": 1, "_w": "2"}), ("gave a row of `st` the weight '2'", *GROUP), ONES
    ),
    "a weight that is true": Bad(rows(lambda r: (1, True)), ("the weight True", *ROW), ONES),
    "no pair": Bad(pairs((7,)), ("`two` gave (7,), and it has several outputs", *ROW), ONES),
    "an unknown output": Bad(
        pairs(("else", (1,))), ("`two` gave ('else', (1,))", "outputs: st, more", *ROW), ONES
    ),
    "a column of another output": Bad(
        pairs(("more", (1, 2, 3))), ("that `two` gave for `more` has 3 values", *ROW), ONES
    ),
    "taking back what was not given": Bad(
        groups(lambda *a: (77, -1)), ("77", "takes back only what it gave"), ONES
    ),
    "state that is written afterwards": Bad(
        writes_afterwards, ("the stage `st` failed", "state", "group 2"), ONES
    ),
    "two groups that write one entry": Bad(
        conflict, ("the state at 9 is written by the groups 1 and 2, and differently",), ONES
    ),
    "a route that raises": Bad(route(raises), ("ValueError: it was", *ROW), ONES),
    "a route that gives no key": Bad(
        route(lambda r: "two"), ("the key of st", "'two'", *ROW), ONES
    ),
    "a route that gives several columns": Bad(route(lambda r: (1, 2)), ("(1, 2)", *ROW), ONES),
    "a route that gives a dict": Bad(route(lambda r: {"a": 1}), ("{'a': 1}", *ROW), ONES),
    "a combiner that raises": Bad(combiner(raises), ("ValueError: it was", "group 2"), ONES),
    "a combiner that changes columns": Bad(
        combiner(lambda rows: [(1,)]),
        ("the combiner of `s` in `st` gave (1,)", "rows must keep their columns: k, n", "group 2"),
        ONES,
    ),
    "frames that do not compare": Bad(
        framing, ("the keys of `frames(key)` do not compare", "give keys of one type"), [(1,), (2,)]
    ),
    "a runnable that raises": Bad(runnable(raises), ("ValueError: it was",), ONES),
    "a runnable that gives anything": Bad(
        runnable(lambda w: 5), ("gave 5", "flow.Run(reads={...}) or None"), ONES
    ),
    "a runnable that reads what is not there": Bad(
        runnable(lambda w: flow.Run({"z": 1})), ("reads `z`, which is no input", "inputs: s"), ONES
    ),
    "a runnable that reads more than there is": Bad(
        runnable(lambda w: flow.Run({"s": 9})), ("reads 9 frames of `s`, which has 1",), ONES
    ),
    "a runnable that looks at what is not there": Bad(
        runnable(lambda w: w["z"]), ("KeyError: 'z'",), ONES
    ),
    "no table": Bad(arrow(lambda t: [(1,)]), ("`st` gave list for `st`", *ROW[:1]), ONES),
    "a table without weights": Bad(
        arrow(lambda t: t.select(["k"])), ("gave a table without `_w` for `st`",), ONES
    ),
    "a table with other columns": Bad(
        arrow(lambda t: t.select(["n", "_w"])), ("the stage `st` failed", "`k`"), ONES
    ),
    "a table of another type": Bad(
        arrow(lambda t: pa.table({"k": ["x"], "_w": [1]})), ("the stage `st` failed", "`k`"), ONES
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_stage_is_told_and_goes_on_when_mended(db: hw.Database, what: str) -> None:
    case, fails = BAD[what], [True]
    case.define(db, fails)
    (name,) = db.stages

    @db.stage("s", out="k INT")
    def other(row):
        return (row.k,)

    db.apply({"s": ROWS})
    with pytest.raises(StageFailed) as caught:
        db.run()
    said = str(caught.value)
    for words in (
        f"the stage `{name}` failed: ",
        "epoch 0, reading `s` from increment 0",
        *case.said,
    ):
        assert words in said, f"{words!r} is not said in:\n{said}"
    assert "Traceback" not in said and len(said.splitlines()) > 2
    assert caught.value.__cause__ is not None
    assert db[name].held and db[name].held in said
    assert db[name].epochs == 0 and db[name].waiting == {"s": 1}
    assert bag(db, "other") == Counter(ONES), "the rest goes on"
    assert not bag(db, "st")
    if what.endswith("group") or "state" in what:
        assert db[name].state(1) is None, "nothing of it is committed"
    with pytest.raises(StageFailed):  # the next run tries again
        db.run()
    fails.clear()
    db.run()
    assert bag(db, "st") == Counter(case.gives)
    assert db[name].waiting == {"s": 1 if what.startswith("frames") else 0} and not db[name].held


def test_a_function_that_is_interrupted_is_no_bad_function(db: hw.Database) -> None:
    fails = [True]

    @db.stage("s", out="k INT")
    def st(row):
        if fails:
            raise KeyboardInterrupt
        return (row.k,)

    db.apply({"s": ROWS})
    with pytest.raises(KeyboardInterrupt):
        db.run()
    fails.clear()
    db.run()
    assert bag(db, "st") == Counter(ONES)


SET_ASIDE = {
    n: b
    for n, b in BAD.items()
    if n
    in {
        "it raises for a group",
        "it raises after its first row",
        "too few columns",
        "another type in a group",
        "a weight by name",
        "state of another type",
    }
}


@pytest.mark.parametrize("what", SET_ASIDE)
def test_a_bad_group_is_set_aside(db: hw.Database, what: str) -> None:
    wrong = {
        "it raises for a group": raises,
        "it raises after its first row": later,
        "too few columns": lambda *a: (),
        "another type in a group": lambda *a: ("two",),
        "a weight by name": lambda *a: {"k": 1, "_w": "2"},
        "state of another type": lambda k, rows, state: setattr(state, "n", "x"),
    }[what]
    groups(wrong, on_error="set aside")(db, [True])
    db.apply({"s": ROWS})
    db.run()
    assert bag(db, "st") == Counter([(1,), (3,)])
    ((given, key, row, _),) = bag(db, "st_failed")
    assert (given, key) == ("s", "2") and "k=2, n=20" in row
    assert db["st"].state(2) is None and db["st"].state(3).n == 1


# --- deletions ---------------------------------------------------------------------------------------------------------


def test_a_deletion_where_none_is_taken(db: hw.Database) -> None:
    def st(key, rows):
        return key, sum(r.n for r in rows)

    db.stage("s", by="k", out="k INT, n BIGINT")(st)
    db.apply({"s": ROWS})
    db.run()
    db.apply({"s": hw.Delta(inserts=[(1, 11)], deletes=[(2, 20)])})
    with pytest.raises(StageFailed) as caught:
        db.run()
    said = str(caught.value)
    for words in (
        "the stage `st` failed: a row of `s` is deleted, and the stage takes no deletions",
        "epoch 1, reading `s` from increment 1",
        "group 2",
        "k=2, n=20",
        "changes=True",
    ):
        assert words in said, said
    assert bag(db, "st") == Counter([(1, 10), (2, 20), (3, 30)])
    db.drop("st")
    db.stage(flow.reads("s", by="k", changes=True), name="st", out="k INT, n BIGINT")(
        lambda key, rows: (key, sum(r.n * r._w for r in rows))
    )
    db.run()
    assert bag(db, "st") == Counter([(1, 21), (3, 30)])


def test_taking_back_what_was_not_given_fails_the_stage_and_not_the_views(db: hw.Database) -> None:
    fails = [True]

    @db.stage("s", out="k INT")
    def st(row):
        return (row.k, -1 if fails and row.k == 2 else 1)

    db.view("v", "SELECT count(*) AS n FROM st")
    db.view("w", "SELECT k, n FROM s")
    db.apply({"s": ROWS})
    with pytest.raises(StageFailed) as caught:
        db.run()
    said = str(caught.value)
    assert "the stage `st` failed" in said and "takes back only what it gave" in said, said
    assert "`st`" in said and "2" in said
    db.apply({"s": [(4, 40)]})  # sources and views go on
    assert bag(db, "w") == Counter([*ROWS, (4, 40)]) and bag(db, "v") == Counter([(0,)])
    fails.clear()
    db.run()
    assert bag(db, "v") == Counter([(4,)])


def test_a_row_that_is_remembered_is_taken_back_once(db: hw.Database) -> None:
    db.source("u", "k INT", retain=False)

    @db.stage("u", out="k INT", remember=True)
    def st(row):
        return (row.k,)

    db.apply({"u": [(1,)]})
    db.run()
    db.apply({"u": hw.Delta(deletes=[(2,)])})
    with pytest.raises(StageFailed) as caught:
        db.run()
    said = str(caught.value)
    assert "k=2" in said and "is taken back, and was not given" in said
    assert bag(db, "st") == Counter([(1,)])


# --- what waits ----------------------------------------------------------------------------------------------------------


def test_a_runnable_that_never_says_yes(db: hw.Database) -> None:
    said = [None]

    @db.stage("s", out="k INT", runnable=lambda waiting, small: said[0])
    def st(row):
        return (row.k,)

    for _ in range(3):
        db.apply({"s": ROWS})
    ran = db.run()
    assert ran.epochs == [] and ran.waiting == {"st": {"s": 3}}
    assert "st waits with {'s': 3}" in str(ran)
    said[0] = flow.Run({"s": 3})
    with pytest.raises(StageFailed, match="reads 3 frames of `s`, which has 0"):
        db.run()  # it ran, and says yes again though nothing is there
    assert db["st"].waiting == {"s": 0}


def test_a_stage_that_is_not_bound(tmp_path: Path) -> None:
    def st(key, rows, state):
        state.n = (state.n or 0) + len(rows)
        return key, state.n

    def define(db: hw.Database) -> None:
        db.source("s", "k INT, n INT")
        db.stage("s", by="k", state="n INT", out="k INT, n INT")(st)

    with hw.open(tmp_path / "db") as db:
        define(db)
        db.apply({"s": ROWS})
        db.run()
    with hw.open(tmp_path / "db") as db:
        db.apply({"s": ROWS})
        with pytest.raises(StageMissing) as caught:
            db.run()
        said = str(caught.value)
        assert "the stage `st` has input to read, and no function in this process" in said
        assert "define it again with db.stage, by the same name" in said
        with pytest.raises(StageMissing, match="has no function in this process"):
            db["st"].state(1)
        define(db)
        db.run()
        assert db["st"].state(1).n == 2


def test_a_flow_that_nobody_writes(db: hw.Database) -> None:
    back = db.flow("back", "k INT")

    @db.stage("s", back, out="n INT", by="k")
    def st(key, rows, again):
        return (len(rows) + len(again),)

    db.apply({"s": ROWS})
    with pytest.raises(Stuck) as caught:
        db.run()
    said = str(caught.value)
    assert "the stage `st` waits for `back`, which no stage writes" in said
    assert "define a stage with `back` among its outputs" in said
    assert db["st"].waiting == {"s": 1, "back": 0}

    @db.stage("s", out=back, name="writes")
    def writes(row):
        return (row.k,)

    db.run()
    assert bag(db, "st") == Counter({(2,): 3})


def test_a_source_whose_reader_is_held_is_full_some_day(db: hw.Database) -> None:
    db.limit, fails = 3, [True]

    @db.stage("s", out="k INT")
    def st(row):
        if fails:
            raise ValueError("held")
        return (row.k,)

    for _ in range(3):
        db.apply({"s": [(1, 1)]})
    with pytest.raises(StageFailed):
        db.run()
    version = db.version
    with pytest.raises(FlowFull) as caught:
        db.apply({"s": [(1, 1)]})
    said = str(caught.value)
    assert "`s` has 3 increments that the stage `st` has not read" in said and "db.limit" in said
    assert db.version == version and bag(db, "s") == Counter({(1, 1): 3})
    fails.clear()
    db.run()
    db.apply({"s": [(1, 1)]})
    db.run()
    assert bag(db, "st") == Counter({(1,): 4})


def test_a_flow_whose_reader_is_held_is_full_and_the_rest_goes_on(db: hw.Database) -> None:
    fails = [True]

    @db.stage("s", out="k INT")
    def writes(row):
        return (row.k,)

    @db.stage("writes", by="k", out="k INT")
    def held(key, rows):
        if fails:
            raise ValueError("held")
        return (key,)

    @db.stage("s", out="k INT")
    def z_other(row):
        return (row.k,)

    db.policy.fuse = False
    for i in range(5):
        db.apply({"s": [(i, 1)]})
    db.limit = 5
    for i in range(3):
        with pytest.raises(StageFailed, match="`held` failed"):
            db.run()
        db.apply({"s": [(5 + i, 1)]})
    with pytest.raises(StageFailed, match="the stage `held` failed: ValueError: held"):
        db.run(bottlenecks=False)
    assert "has 5 increments that the stage `held` has not read" in db["writes"].held
    db["held"].pause()
    with pytest.raises(FlowFull, match="`writes` has 5 increments that the stage `held`"):
        db.run()
    db["held"].resume()
    assert bag(db, "z_other") == Counter([(i,) for i in range(8)]), "the rest goes on"
    assert db["held"].waiting == {"writes": 5} and db["writes"].waiting == {"s": 3}
    fails.clear()
    db.run()
    assert bag(db, "held") == Counter([(i,) for i in range(8)])


def test_a_cycle_without_end(db: hw.Database) -> None:
    back, ends = db.flow("back", "k INT, n INT"), [False]

    @db.stage("s", back, runnable=flow.any_input(), by="k", out={"back": back, "out": "k INT"})
    def st(key, fresh, again):
        for r in [*fresh, *again]:
            yield "out", (r.k,)
            if not ends[0]:
                yield "back", (r.k, r.n)

    db.apply({"s": [(1, 1)]})
    with pytest.raises(CycleLimit) as caught:
        db.run(rounds=10)
    said = str(caught.value)
    assert "the cycle st → st ran 10 epochs without input from outside" in said
    assert "run(rounds=...)" in said and "st.back: 1" in said
    assert db["st"].waiting == {"s": 0, "back": 1}
    ends[0] = True
    db.run()
    assert db["st"].waiting == {"s": 0, "back": 0}


# --- from outside ------------------------------------------------------------------------------------------------------


def test_a_frame_that_was_complete_and_is_added_to(db: hw.Database) -> None:
    db.source("visits", "at TIMESTAMP, n INT")

    @db.stage(
        flow.reads("visits", framing=flow.daily("at"), by=()), out="day DATE, n BIGINT", name="days"
    )
    def days(_, visits):
        return visits[0]._frame, len(visits)

    def at(day: int) -> datetime:
        return datetime(2024, 1, day, 12, tzinfo=UTC)

    db.apply({"visits": [(at(1), 1), (at(1), 2), (at(2), 3)]}, punctuate={"visits": at(2).date()})
    db.run()
    db.apply({"visits": [(at(1), 4), (at(3), 5)]}, punctuate={"visits": at(3).date()})
    db.run()
    found = sorted((r["day"].day, r["n"]) for r in db.table("days").to_pylist())
    assert found == [(1, 1), (1, 2), (2, 1), (3, 1)], "a late row makes a frame of its own"
    cursor = db.graph.cursors["days", "visits"]
    assert cursor.cut.late == 1
