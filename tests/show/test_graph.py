"""A graph as text and picture: what is said of stages, which cycles are found, and what is a Kahn network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import flow
from headwater.show.graph import Shown, StageShown, cycles, outside_kahn, reached


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


def stage(name: str, reads: list[str], writes: list[str], **more: Any) -> StageShown:
    described = {
        "inputs": [{"name": n, "take": more.get("take", 1)} for n in reads],
        "outputs": dict.fromkeys(writes, ""),
        "lookups": {},
        "runnable": more.pop("runnable", "all_inputs()"),
        **more,
    }
    return StageShown(name, described, described["runnable"] != "any_input()")


def graph(*stages: StageShown, views: dict[str, list[str]] | None = None) -> Shown:
    flows = {o: None for s in stages for o in s.outputs}
    return Shown(1, {"in": ""}, views or {}, {s.name: s for s in stages}, flows)


def test_cycles_are_what_is_reached_from_itself() -> None:
    assert reached([("a", "b"), ("b", "a"), ("b", "c")])["a"] == {"a", "b", "c"}
    one = stage("one", ["in", "back"], ["x"])
    two, other = stage("two", ["x"], ["back"]), stage("other", ["x"], ["y"])
    (found,) = cycles(graph(one, two, other))
    assert sorted(found) == ["back", "stage:one", "stage:two", "x"]
    assert cycles(graph(stage("one", ["in"], ["x"]), two)) == []


def test_a_cycle_through_a_view() -> None:
    g = graph(stage("one", ["v"], ["x"]), views={"v": ["in", "x"]})
    (found,) = cycles(g)
    assert sorted(found) == ["stage:one", "v", "x"]


def test_what_depends_on_no_schedule() -> None:
    """A stage does if it waits for given frames, and so does everything before it."""
    first = stage("first", ["in"], ["a"])
    merges = stage("merges", ["in", "a"], ["b"], runnable="any_input()")
    behind, apart = stage("behind", ["b"], ["c"]), stage("apart", ["a"], ["d"])
    looks = stage("looks", ["in"], ["e"], lookups={"who": ["a", None]})
    of_two = stage("of_two", ["v"], ["f"])
    of_one = stage("of_one", ["w"], ["g"])
    takes = stage("takes", ["a"], ["h"], take="all")
    views = {"v": ["u"], "u": ["in", "a"], "w": ["a"]}
    why = outside_kahn(
        graph(first, merges, behind, apart, looks, of_two, of_one, takes, views=views)
    )
    assert why == {
        "merges": "runs by any_input()",
        "behind": "is behind merges",
        "looks": "looks up a as it is then",
        "takes": "reads all that waits, which depends on who ran before",
        "of_two": "reads v, whose inputs come one after another",
    }


def defined(db: hw.Database) -> None:
    db.source("numbers", "x INT")
    db.source("users", "id INT, name STRING")
    back = db.flow("back", "x INT")

    @db.stage(
        flow.reads("numbers", by=flow.route(lambda r: r.x // 10, "ten INT")),
        flow.reads(back, by=flow.route(lambda r: r.x // 10, "ten INT"), take="all"),
        state={"seen": flow.bag("x INT", order_by="x"), "n": "n BIGINT"},
        runnable=flow.any_input(),
        out={"sums": "ten INT, n BIGINT", "odd": "x INT"},
    )
    def added(ten: int, numbers: Any, back: Any, state: Any) -> Any:
        state.n.n = (state.n.n or 0) + len(numbers)
        yield "sums", (ten, state.n.n)

    @db.stage("odd", out=back)
    def returned(row: Any) -> Any:
        return row

    @db.stage("numbers", out="x INT")
    def doubled(row: Any) -> Any:
        return (row.x * 2,)

    @db.stage(
        "doubled",
        lookups={"who": flow.lookup("users", on={"x": "id"})},
        remember=True,
        out="x INT, name STRING",
    )
    def named(row: Any, who: Any) -> Any:
        return row.x, who[0].name if who else None

    @db.stage("numbers", by="x", whole=True, order_by="x", out="x INT, n BIGINT")
    def times(x: int, numbers: Any) -> Any:
        return x, len(numbers)

    @db.stage("doubled", by=(), out="n BIGINT")
    def counted(_: Any, doubled: Any) -> Any:
        return (len(doubled),)

    db.view("best", "SELECT max(n) AS n FROM sums")


def test_the_graph_of_a_database(db: hw.Database) -> None:
    defined(db)
    db.apply({"numbers": [(1,), (12,)]})
    told = db.explain_graph()
    assert "GRAPH   2 sources, 1 view, 6 stages, 7 flows" in told
    assert "VIEW best   of sums" in told
    assert "CYCLE " in told and "added" in told.partition("CYCLE ")[2].partition("\n")[0]
    assert "STAGE added   with state; 0 epochs" in told
    assert "  reads   numbers by a function; 1 increment waits" in told
    assert "  reads   back by a function all that waits; nothing waits" in told
    assert "runs    by any_input(); waits for back" in told
    assert "KAHN NETWORK   doubled, times, counted" in told
    assert "  added: runs by any_input()" in told and "  returned: is behind added" in told
    db.run()
    again = db.explain_graph()
    assert re.search(r"STAGE added   with state; 1 epoch, 2 rows", again)
    assert "writes  sums → best; kept" in again
    assert again.svg.count("<rect") == 2 + 1 + 6 + 7
    assert "⟳ added" in again.svg and "⟳ doubled" not in again.svg


def test_stages_that_run_together_and_those_that_do_not(db: hw.Database) -> None:
    db.source("numbers", "x INT")

    @db.stage("numbers", out="x INT")
    def first(row: Any) -> Any:
        return row

    @db.stage("first", out="x INT")
    def second(row: Any) -> Any:
        return row

    db.apply({"numbers": [(1,)]})
    db.run()
    assert "in the epochs of first" in db["second"].explain()
    assert "in the epochs" not in db["first"].explain()
    db["second"].pause()
    assert "runs    by all_inputs(); paused" in db["second"].explain()


def test_one_stage(db: hw.Database) -> None:
    defined(db)
    added = db["added"].explain()
    assert added.startswith("STAGE added   with state; groups by (ten int)\n")
    assert "keeps   seen: a bag of (x int), in the order of x" in added
    assert "keeps   n: a record of (n bigint)" in added
    assert "the schedule: it runs by any_input()" in added
    assert "deletions of its inputs   refused, of numbers, back" in added
    assert "as the function is written" in added
    named = db["named"].explain()
    assert "STAGE named   row by row\n" in named
    assert "looks up who: users, where id = x" in named
    assert "what the row gave is kept, and taken back" in named
    times = db["times"].explain()
    assert "STAGE times   whole; groups by (x int)" in times
    assert "old answers go" in times and "cut          does not matter" in times
    counted = db["counted"].explain()
    assert "reads   doubled as one group" in counted
    assert "matters: the answer is about an increment" in counted
    assert "<svg" in counted.svg


def test_a_held_stage_and_a_directory(db: hw.Database, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    db.source("numbers", "x INT", path=tmp_path / "in", format="csv")

    @db.stage("numbers", out="x INT")
    def broken(row: Any) -> Any:
        raise ValueError("no")

    (tmp_path / "in" / "a.csv").write_text("x\n1\n")
    with pytest.raises(hw.errors.StageFailed):
        db.run()
    told = db.explain_graph()
    assert f"SOURCE numbers   csv files of {tmp_path / 'in'}, 1 taken" in told
    assert "held: ValueError: no" in told
    nodes = {n.name: n for n in db.nodes()}
    assert (nodes["numbers"].kind, nodes["numbers"].epochs, nodes["numbers"].rows) == (
        *("directory", 1, 1),
    )
    assert nodes["broken"].waiting == 1 and nodes["numbers"].waiting == 0
