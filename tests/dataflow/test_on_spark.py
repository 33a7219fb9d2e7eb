"""Epochs on Spark beside the meaning: the same state and flows, in any number of parts, which changes between epochs.

A graph's story is told as in `test_against_meaning`, with every epoch on Spark; now and then the database is opened anew
with another number of parts. Errors in tasks say what they say in this process, and a worker that dies harms nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

import graphs
import headwater as hw
from graphs import KINDS, Graph, bags, drawn, meaning_of, run_meaning
from headwater import flow
from headwater.errors import StageFailed
from spark_session import session
from test_against_meaning import compare
from test_against_meaning import opened as with_stages

cloudpickle.register_pickle_by_value(graphs)  # which workers cannot import

pytestmark = pytest.mark.spark

PARTS = (1, 2, 7)


def opened(path: Path, graph: Graph, parts: int) -> Any:
    """A database with the stages of a graph, whose epochs have so many parts."""
    return with_stages(path, graph, False, spark=session(), partitions=parts)


def told(graph: Graph, path: Path, most: int | None = None) -> int:
    """A story in both, compared after every step; how many epochs ran."""
    m, count = meaning_of(graph), 0
    db = opened(path, graph, PARTS[graph.seed % 3])
    for n, (what, given) in enumerate(graph.story[:most]):
        if what == "give":
            m.give(bags(graph, given))
            db.policy.execution = "driver"  # sources are not what is tested
            db.apply(given)
            db.policy.execution = "spark"
            continue
        ran, held = m.run(given), ""
        count += len(ran)
        try:
            assert db.run(epochs=given).epochs == ran, (graph.seed, n)
        except StageFailed as e:
            held = str(e)
        assert bool(held) == any(x.held for x in m.nodes.values()), (graph.seed, n, held)
        compare(db, m, f"seed {graph.seed}, step {n}")
        db.close()
        db = opened(path, graph, PARTS[(graph.seed + n) % 3])
        db.policy.execution = "spark"
    db.close()
    return count


FEW = {
    "groups": ["record", "records", "bag"],
    "everything": ["at", "clock", "whole", "cycle"],
}


@pytest.mark.parametrize("kinds", FEW)
def test_epochs_on_spark_are_the_meaning(tmp_path: Path, kinds: str) -> None:
    for seed in range(200):
        graph = drawn(seed, FEW[kinds], 2)
        epochs = sum(len(after["ran"]) for after in run_meaning(graph))
        if epochs == 4 and len(graph.stages) > 1:
            break
    assert told(graph, tmp_path / "db") == 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5000, 5040))
def test_epochs_on_spark_are_the_meaning_more(tmp_path: Path, seed: int) -> None:
    told(drawn(seed, [*KINDS, "fails"], 4), tmp_path / "db")


# --- single stages -----------------------------------------------------------------------------------------------------


@pytest.fixture
def db(tmp_path: Path) -> Any:
    made = hw.open(tmp_path / "db", spark=session(), partitions=3)
    made.source("s", "k INT, n INT")
    yield made
    made.close()


def give(db: Any, rows: list[tuple[int, int]]) -> None:
    """Rows of the source; stages that read them run on Spark."""
    db.policy.execution = "driver"
    db.apply({"s": rows})
    db.policy.execution = "spark"


def bag(db: Any, name: str) -> Counter[tuple[Any, ...]]:
    return Counter({tuple(r.values())[:-1]: r["_w"] for r in db.table(name).to_pylist()})


def test_groups_of_different_parts_that_write_one_entry_differently(db: Any) -> None:
    @db.stage("s", by="k", state="n INT", out="k INT")
    def writes(k, rows, state):
        state.at(99).n = rows[0].n
        return (k,)

    give(db, [(k, 5) for k in range(20)])  # the same: no conflict
    db.run()
    assert db["writes"].state(99).n == 5
    version = db.version
    give(db, [(k, k) for k in range(20)])
    with pytest.raises(StageFailed) as caught:
        db.run()
    said = str(caught.value)
    assert "the stage `writes` failed" in said and "and differently" in said
    assert "epoch 1, reading `s` from increment 1" in said
    assert db["writes"].state(99).n == 5 and db.version == version + 1
    assert db["writes"].waiting == {"s": 1}
    db.policy.execution = "driver"
    with pytest.raises(StageFailed, match="and differently"):
        db.run()  # here as there


def test_an_error_in_a_task_names_stage_group_and_row(db: Any) -> None:
    @db.stage("s", by="k", state="n INT", out="k INT")
    def fails(k, rows, state):
        if k == 13:
            raise ValueError("thirteen")
        state.n = k
        return (k,)

    @db.stage("s", out="k INT")
    def other(row):
        return (row.k,)

    give(db, [(k, 1) for k in range(20)])
    with pytest.raises(StageFailed) as caught:
        db.run()
    said = str(caught.value)
    for words in (
        "the stage `fails` failed: ValueError: thirteen",
        "epoch 0, reading `s` from increment 0",
        "group 13",
        "first row",
        "k=13, n=1",
    ):
        assert words in said, said
    assert "Traceback" not in said and "org.apache" not in said
    assert db["fails"].state(1) is None and db["fails"].waiting == {"s": 1}
    assert bag(db, "other") == Counter([(k,) for k in range(20)])  # the rest went on
    assert not list((db.path / "staging").glob("*"))


def test_a_row_that_does_not_fit_is_named(db: Any) -> None:
    @db.stage("s", out="k INT, t TIMESTAMP")
    def unfit(row):
        return row.k, "noon" if row.k == 3 else None

    give(db, [(1, 1), (3, 1)])
    with pytest.raises(StageFailed) as caught:
        db.run()
    said = str(caught.value)
    assert "the stage `unfit` failed" in said and "noon" in said and "k=3" in said


def test_a_route_that_fails_in_a_task(db: Any) -> None:
    @db.stage(flow.reads("s", by=flow.route(lambda r: 1 // (r.k - 3), "g INT")), out="k INT")
    def routed(k, rows):
        return (k,)

    give(db, [(1, 1), (3, 1)])
    with pytest.raises(StageFailed) as caught:
        db.run()
    assert "ZeroDivisionError" in str(caught.value) and "k=3" in str(caught.value)


def test_keys_of_a_route_that_do_not_fit_in_a_task(db: Any) -> None:
    @db.stage(flow.reads("s", by=flow.route(lambda r: "x", "g INT")), out="k INT")
    def routed(k, rows):
        return (k,)

    give(db, [(1, 1)])
    with pytest.raises(StageFailed, match="the stage `routed` failed") as caught:
        db.run()
    assert "k=1" in str(caught.value), caught.value


def test_rows_are_set_aside_in_tasks_too(db: Any) -> None:
    @db.stage("s", by="k", state="n INT", out="k INT", on_error="set aside")
    def some(k, rows, state):
        state.n = k
        if k == 2:
            raise ValueError("two")
        return (k,)

    give(db, [(1, 1), (2, 7), (3, 1)])
    db.run()
    assert bag(db, "some") == Counter([(1,), (3,)])
    ((given, key, row, error),) = bag(db, "some_failed")
    assert (given, key, error) == ("s", "2", "ValueError: two") and "n=7" in row
    assert db["some"].state(2) is None and db["some"].state(3).n == 3


def test_a_worker_that_dies(db: Any, tmp_path: Path) -> None:
    mark = str(tmp_path / "dies")
    Path(mark).touch()
    here = os.getpid()

    @db.stage("s", by="k", state="n INT", out="k INT")
    def dies(k, rows, state):
        if os.path.exists(mark) and os.getpid() != here:
            os._exit(9)
        state.n = (state.n or 0) + 1
        return (k,)

    give(db, [(1, 1), (2, 1)])
    with pytest.raises(StageFailed) as caught:
        db.run()
    said = str(caught.value)
    assert "the stage `dies` failed" in said and "Spark failed while running the stage" in said
    assert "a Python process of Spark ended" in said
    assert db["dies"].epochs == 0 and db["dies"].waiting == {"s": 1}
    assert db["dies"].state(1) is None
    assert not list((db.path / "staging").glob("*"))
    os.unlink(mark)
    db.run()
    assert db["dies"].state(1).n == 1 and bag(db, "dies") == Counter([(1,), (2,)])


def test_workers_with_epochs_on_spark(db: Any) -> None:
    for n in range(3):

        def f(k: Any, rows: Any, state: Any) -> Any:
            state.n = (state.n or 0) + len(rows)
            return k, state.n

        db.stage("s", by="k", state="n INT", out="k INT, n INT", name=f"f{n}")(f)
    give(db, [(1, 1), (2, 1)])
    db.run(workers=3)
    assert [db[f"f{n}"].state(1).n for n in range(3)] == [1, 1, 1]
