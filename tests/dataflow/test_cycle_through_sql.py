"""One graph through all of it: source → view → stage → view → stage → flow → view, and round again until nothing changes.

`start` has the edges of a graph, each once; `found` has the paths that the cycle found. A stage counts how many of the
two say that a path is there; SQL makes paths an edge longer; a stage writes these to the flow that `found` reads.

    edges → start → paths → longer → sent → more → found → paths
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import flow

Edge = tuple[int, int]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as db:
        yield db


def define(db: hw.Database) -> list[Any]:
    """The graph; gives its stages."""
    db.source("edges", "a INT, b INT")
    more = db.flow("more", "a INT, b INT")
    db.view("start", "SELECT DISTINCT a, b FROM edges")
    db.view("found", "SELECT DISTINCT a, b FROM more")

    @db.stage(
        flow.reads("start", by=("a", "b"), changes=True),
        flow.reads("found", by=("a", "b"), changes=True),
        runnable=flow.any_input(),
        state="n INT",
        out="a INT, b INT",
    )
    def paths(key: Any, start: Any, found: Any, state: Any) -> Any:
        before = state.n or 0
        now = before + sum(r._w for r in [*start, *found])
        state.n = now
        if not now:
            state.clear()
        return (*key, bool(now) - bool(before)) if bool(now) != bool(before) else None

    db.view("longer", "SELECT DISTINCT p.a, e.b FROM paths p JOIN start e ON p.b = e.a")

    @db.stage("longer", out=more)
    def sent(path: Any) -> Any:
        return path

    return [paths, sent]


def closure(edges: list[Edge]) -> set[Edge]:
    """Paths, by going on until nothing is new."""
    out = set(edges)
    while new := {(a, d) for a, b in out for c, d in edges if b == c} - out:
        out |= new
    return out


def rows(db: hw.Database, name: str) -> Counter[Edge]:
    return Counter({(r["a"], r["b"]): r["_w"] for r in db.table(name).to_pylist()})


def same(db: hw.Database, edges: list[Edge]) -> None:
    paths = closure(edges)
    longer = {(a, d) for a, b in paths for c, d in edges if b == c}
    assert rows(db, "paths") == Counter(paths)
    assert rows(db, "longer") == rows(db, "more") == rows(db, "found") == Counter(longer)


def test_a_closure_comes_to_rest(db: hw.Database) -> None:
    define(db)
    chance, edges = random.Random(1), list[Edge]()
    for _ in range(6):
        new = [(chance.randrange(8), chance.randrange(8)) for _ in range(2)]
        edges += new
        db.apply({"edges": new})
        run = db.run()
        assert not run.waiting and len(run.epochs) < 60
        same(db, edges)
    assert any(a == b for a, b in closure(edges)), "a graph with cycles of its own"


def test_edges_taken_back_go_round_too(db: hw.Database) -> None:
    """Without cycles in the edges counting is exact, so that what is deleted goes everywhere."""
    define(db)
    chance, edges = random.Random(2), list[Edge]()
    for _ in range(10):
        gone = [edges.pop(chance.randrange(len(edges))) for _ in range(min(len(edges), 1))]
        new = [(a := chance.randrange(7), chance.randrange(a + 1, 8)) for _ in range(3)]
        edges += new
        db.apply({"edges": hw.Delta(inserts=new, deletes=gone)})
        db.run()
        same(db, edges)
    db.apply({"edges": hw.Delta(deletes=edges)})
    db.run()
    same(db, [])


def test_one_epoch_at_a_time_and_reopened_in_between(tmp_path: Path) -> None:
    edges = [(n, n + 1) for n in range(6)]
    with hw.open(tmp_path / "db") as db:
        define(db)
        db.apply({"edges": edges})
    while True:
        with hw.open(tmp_path / "db") as db:
            define(db)
            if not db.run(epochs=1).epochs:
                break
            longer, paths, direct = rows(db, "longer"), rows(db, "paths"), rows(db, "start")
            joined = {(a, d) for a, b in paths for c, d in direct if b == c}
            assert longer == Counter(joined), "a view is the answer over its inputs as they are"
    with hw.open(tmp_path / "db") as db:
        same(db, edges)


def test_a_row_counts_down_round_a_cycle_of_views_and_is_taken_back(db: hw.Database) -> None:
    """Row-wise stages and bags are linear: rows, twice there, taken back half-way, leave what the others give."""
    db.source("given", "name STRING, n INT")
    lower = db.flow("lower", "name STRING, n INT")
    db.view("every", "SELECT name, n FROM given UNION ALL SELECT name, n FROM lower")

    @db.stage("every", out="name STRING, n INT")
    def halved(row: Any) -> Any:
        return row.name, row.n // 2

    db.view("left", "SELECT name, n FROM halved WHERE n > 0")

    @db.stage("left", out=lower)
    def sent(row: Any) -> Any:
        return row

    db.view("sums", "SELECT name, count(*) AS n, sum(n) AS total FROM every GROUP BY name")

    def check(given: Counter[tuple[str, int]]) -> None:
        expected = Counter[tuple[str, int]]()
        for (name, n), times in given.items():
            while n:
                expected[name, n] += times
                n //= 2
        found = {(r["name"], r["n"]): r["_w"] for r in db.table("every").to_pylist()}
        assert found == +expected
        names = {name for name, _ in +expected}
        sums = {(r["name"], r["n"], r["total"]) for r in db.table("sums").to_pylist()}
        assert sums == {
            (
                name,
                sum(w for (m, _), w in expected.items() if m == name),
                sum(w * n for (m, n), w in expected.items() if m == name),
            )
            for name in names
        }

    db.apply({"given": [("a", 100), ("a", 100), ("b", 77)]})
    db.run(epochs=5)
    db.apply({"given": hw.Delta(inserts=[("c", 9)], deletes=[("a", 100)])})
    db.run()
    check(Counter({("a", 100): 1, ("b", 77): 1, ("c", 9): 1}))
    db.apply({"given": hw.Delta(deletes=[("a", 100), ("b", 77)])})
    db.run()
    check(Counter({("c", 9): 1}))


def test_the_stages_in_a_trial_say_what_they_say_in_the_database(db: hw.Database) -> None:
    """A trial has no views: it is given the changes of `start` and `found`, cut as they came."""
    stages = define(db)
    given: dict[str, list[list[Any]]] = {"start": [], "found": []}
    at = db.version
    for change in ([(1, 2), (2, 3)], [(3, 4)], hw.Delta(deletes=[(2, 3)])):
        db.apply({"edges": change})
        db.run()
        for name, increments in given.items():
            steps = db.changes_table(name, at).to_pylist()
            increments.append([(r["a"], r["b"], r["_w"]) for r in steps])
        at = db.version
    trial = flow.trial(stages[:1], given, {n: "a INT, b INT" for n in given})
    assert Counter(map(tuple, trial.rows("paths"))) == rows(db, "paths") == {(1, 2): 1, (3, 4): 1}
