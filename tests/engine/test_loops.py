"""Loops kept up to date: closures, paths, components, ranks and others through random stories, against networkx and numpy.

The stories (see `loop_stories`) are the same for every loop of `loops`; the first tests say what each loop means, before any
engine. Then, one behaviour each: loops among views, rounds, time, and loops that do not end.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import headwater as hw
import loop_answers as answers
from comprehensions import Row as Fields
from headwater.calculus.check import type_of
from headwater.calculus.data import from_python, to_python
from headwater.calculus.interpret import interpret
from headwater.engine import endless
from headwater.engine import loops as rounds
from headwater.errors import NoFixpoint
from loop_stories import How, Run, bag, told
from loops import BY_NAME, CLOSURE, DISTANCES, LOOPS, REACHED, Loop, differs

EACH = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
STORIES = 60
SLOW = 400
HOWS = (
    How(),
    How(several="in sequence"),
    How(several="at once"),
    How(late=True),
    How(reopens=True),
)


def columns(ddl: str) -> list[str]:
    return [c.split()[0] for c in ddl.split(", ")]


# --- what loops mean ---------------------------------------------------------------------------------------------


@EACH
def test_the_answer_is_what_the_term_means(loop: Loop) -> None:
    schemas = hw.schemas("; ".join(f"{n}({ddl})" for n, ddl in loop.sources.items()))
    if isinstance(loop.query, hw.Query):
        term = loop.query.read(schemas)
    else:
        term = hw.read_sql(loop.query, schemas)
    for seed in range(2 if loop.every == 1 else 1):
        for _, there in list(told(loop, seed).states())[::6]:
            inputs = {n: from_python(schemas[n], rows) for n, rows in there.items()}
            found = to_python(type_of(term), interpret(term, inputs))
            rows = [r if isinstance(r, tuple) else tuple(r.values()) for r in found]
            assert not differs(rows, loop.expected(there), loop.near)


@pytest.mark.parametrize(
    "loop", [x for x in LOOPS if isinstance(x.query, hw.Query)], ids=lambda x: x.name
)
def test_the_answer_is_what_the_function_gives(loop: Loop) -> None:
    for _, there in list(told(loop, 1).states())[::4]:
        given = {
            n: [Fields(zip(columns(loop.sources[n]), r, strict=True)) for r in rows]
            for n, rows in there.items()
        }
        found = loop.query(*(given[n] for n in loop.query.inputs))
        rows = [r if isinstance(r, tuple) else tuple(r.values()) for r in found]
        assert not differs(rows, loop.expected(there), loop.near)


def test_ranks_that_settle_are_those_of_networkx() -> None:
    """Where every node has a link, the fixpoint is the stationary distribution, as often as there are nodes."""
    links = [(i, j) for i in range(6) for j in ((i + 1) % 6, (i * i + 2) % 6, i // 2)]
    found = answers.ranks({"nodes": [(i,) for i in range(6)], "links": links}, rounds=400)
    steps = nx.google_matrix(nx.MultiDiGraph(links), alpha=0.85, nodelist=range(6))
    wanted = 6 * np.linalg.matrix_power(np.asarray(steps), 400)[0]
    assert [rank for _, rank in found] == pytest.approx(list(wanted), abs=1e-9)


# --- stories -----------------------------------------------------------------------------------------------------


ORDER = [(loop, turn) for turn in range(SLOW) for loop in LOOPS if turn % loop.every == 0]
"""The stories: the first one of each loop, then the second of each."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handful of rows is as many as do not wait for the end, and are added up before they are told; runs are put together at once."""
    monkeypatch.setattr(rounds, "AGAIN", 0)
    monkeypatch.setattr(rounds, "TOLD", 2)
    monkeypatch.setattr(rounds, "WAITING", 4)


def play(n: int, path: Path) -> None:
    """The story of a number, played in each way in turn."""
    loop, turn = ORDER[n]
    Run(told(loop, turn), HOWS[n % len(HOWS)], path).play()


@pytest.mark.parametrize("n", range(0, STORIES, 2))
def test_a_story(n: int, tmp_path: Path) -> None:
    play(n, tmp_path)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("n", range(1, STORIES, 2))
def test_a_story_of_many_rows(n: int, tmp_path: Path) -> None:
    play(n, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(STORIES, SLOW, 10))
def test_more_stories(first: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if first % 20:
        request.getfixturevalue("few")
    for n in range(first, first + 10):
        play(n, tmp_path / str(n))


@pytest.mark.parametrize("bound", [2, 10**6])
def test_what_moves_at_many_rounds_is_told_once(
    bound: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks in a circle move at every round: where many rows are, the old and the new one of each is told, and no more."""
    seen: list[int] = []
    finish = rounds.Rounds._finish

    def finished(self: rounds.Rounds) -> None:
        finish(self)
        changes = self.increment.changes
        seen.append(sum(changes[n].rows for n in self.loop.collections if n in changes))

    monkeypatch.setattr(rounds, "TOLD", bound)
    monkeypatch.setattr(rounds.Rounds, "_finish", finished)
    nodes = range(20)
    circle = [(n, (n + 1) % 20) for n in nodes]
    with opened(tmp_path, "PageRank") as db:
        db.view("v", BY_NAME["PageRank"].query)
        db.apply({"nodes": [(n,) for n in nodes], "links": circle})
        before = bag(db.table("v"))
        (moved,) = db.apply({"links": [(0, 5), (7, 3)]}).rounds.values()
        after = bag(db.table("v"))
        differ = (before - after).total() + (after - before).total()
        assert differ < sum(n for _, n in moved)
        assert seen[-1] == (differ if bound == 2 else sum(n for _, n in moved))


# --- loops among views -------------------------------------------------------------------------------------------


def opened(path: Path, *names: str) -> hw.Database:
    """A database with the sources of some loops."""
    db = hw.open(path)
    db.policy.execution = "driver"
    for name in names:
        for source, ddl in BY_NAME[name].sources.items():
            if source not in db.sources:
                db.source(source, ddl)
    return db


def edges(*pairs: str) -> list[tuple[int, int]]:
    """Edges drawn as `1>2`."""
    return [(int(a), int(b)) for a, b in (p.split(">") for p in pairs)]


def test_a_view_over_a_loop(tmp_path: Path) -> None:
    loop = BY_NAME["closure"]
    with opened(tmp_path / "db", "closure") as db:
        db.view("paths", CLOSURE)
        db.view("fans", "SELECT src, count(*) AS n, max(dst) AS far FROM paths GROUP BY src")
        db.view("loners", "SELECT src FROM fans WHERE n = 1")
        for change, there in told(loop, 5).states():
            db.apply({n: [(*r, w) for r, w in rows] for n, rows in change.items()})
            ends: dict[object, list[object]] = {}
            for src, dst in loop.expected(there):
                ends.setdefault(src, []).append(dst)
            wanted = [
                (src, len(d), max((x for x in d if x is not None), default=None))
                for src, d in ends.items()
            ]
            assert bag(db.table("fans")) == Counter(wanted)
            assert bag(db.table("loners")) == Counter((src,) for src, n, _ in wanted if n == 1)


def test_a_loop_over_a_view(tmp_path: Path) -> None:
    """The loop reads edges that a view says are open; the view groups, so its rows come and go by answers."""
    with hw.open(tmp_path / "db") as db:
        db.policy.execution = "driver"
        db.source("roads", "src BIGINT, dst BIGINT, width BIGINT")
        db.source("roots", "node BIGINT")
        db.view("edges", "SELECT src, dst FROM roads GROUP BY src, dst HAVING sum(width) > 2")
        db.view("v", REACHED)
        loop, rows = BY_NAME["reachability"], Counter[tuple[int, int, int]]()
        db.apply({"roots": [(0,)]})
        for turn in range(12):
            change = [((turn * 5 + i) % 4, (turn * 3 + i * i) % 5, i % 3) for i in range(5)]
            gone = sorted(rows.elements())[:: 3 + turn % 2] if turn % 3 == 2 else []
            rows.update(change)
            rows.subtract(gone)
            db.apply({"roads": hw.Delta(inserts=change, deletes=gone)})
            width: Counter[tuple[int, int]] = Counter()
            for src, dst, w in rows.elements():
                width[src, dst] += w
            there = {"edges": [e for e, w in width.items() if w > 2], "roots": [(0,)]}
            assert bag(db.table("v")) == Counter(loop.expected(there)), f"turn {turn}"


def test_a_loop_over_a_loop(tmp_path: Path) -> None:
    """Pairs both ways of a closure that a loop made, closed once more: nodes of one component, strongly connected."""
    loop = BY_NAME["closure"]
    with opened(tmp_path / "db", "closure") as db:
        db.view("paths", CLOSURE)
        db.view(
            "mutual",
            "SELECT p.src, p.dst FROM paths p JOIN paths q ON q.src = p.dst AND q.dst = p.src",
        )
        over = CLOSURE.replace("edges", "mutual")
        db.view("v", over)
        for change, there in told(loop, 7).states():
            db.apply({n: [(*r, w) for r, w in rows] for n, rows in change.items()})
            assert bag(db.table("v")) == Counter(BY_NAME["strongly connected"].expected(there))


def test_two_loops_in_one_query(tmp_path: Path) -> None:
    query = """
    WITH MUTUALLY RECURSIVE path (src BIGINT, dst BIGINT) AS (
        SELECT src, dst FROM edges UNION
        SELECT p.src, e.dst FROM path p JOIN edges e ON e.src = p.dst)
    SELECT r.node, p.dst FROM (
        WITH RECURSIVE reached (node) AS (
            SELECT node FROM roots UNION
            SELECT e.dst FROM reached r JOIN edges e ON e.src = r.node)
        SELECT node FROM reached) r JOIN path p ON p.src = r.node
    """
    with opened(tmp_path / "db", "reachability") as db:
        db.view("v", query)
        for change, there in told(BY_NAME["reachability"], 3).states():
            db.apply({n: [(*r, w) for r, w in rows] for n, rows in change.items()})
            nodes = {n for (n,) in BY_NAME["reachability"].expected(there)}
            pairs = BY_NAME["closure"].expected(there)
            wanted = Counter((a, b) for a, b in pairs if a in nodes and a is not None)
            assert bag(db.table("v")) == wanted


@hw.query
def hops(edges):
    return hw.repeat(
        [(e.src, e.dst) for e in edges],
        lambda walk: [(src, e.dst) for src, via in walk for e in edges if e.src == via],
        times=0,
    )


@hw.query
def one_hop(edges):
    return hw.repeat(
        [(e.src, e.dst) for e in edges],
        lambda walk: [(src, e.dst) for src, via in walk for e in edges if e.src == via],
        times=1,
    )


@hw.query
def many_hops(edges):
    return hw.repeat(
        [(e.src, e.dst) for e in edges],
        lambda walk: [(src, e.dst) for src, via in walk for e in edges if e.src == via],
        times=6,
    )


@pytest.mark.parametrize("query, times", [(hops, 0), (one_hop, 1), (many_hops, 6)])
def test_so_many_rounds(query: hw.Query, times: int, tmp_path: Path) -> None:
    """Walks of just so many edges and one: the matrix of edges to a power."""
    with opened(tmp_path / "db", "walks in Python") as db:
        db.view("v", query)
        for change, there in told(BY_NAME["walks in Python"], times).states():
            db.apply({"edges": [(*r, w) for r, w in change["edges"]]})
            matrix = np.zeros((7, 7), np.int64)
            for a, b in there["edges"]:
                matrix[a, b] += 1
            power = np.linalg.matrix_power(matrix, times + 1)
            wanted = {(a, b): int(n) for (a, b), n in np.ndenumerate(power) if n}
            assert bag(db.table("v")) == wanted


# --- time --------------------------------------------------------------------------------------------------------


def test_a_view_that_is_dropped_and_defined_again(tmp_path: Path) -> None:
    loop = BY_NAME["shortest paths"]
    with opened(tmp_path / "db", loop.name) as db:
        for i, (change, there) in enumerate(told(loop, 2).states()):
            db.apply({n: [(*r, w) for r, w in rows] for n, rows in change.items()})
            if i % 3 == 0:
                if "v" in db.views:
                    db.drop("v")
                db.view("v", DISTANCES)
            assert bag(db.table("v")) == Counter(loop.expected(there)), i


def test_a_loop_is_verified(tmp_path: Path) -> None:
    """Against the function itself, for a comprehension, so that no Spark is needed."""
    loop = BY_NAME["PageRank"]
    with opened(tmp_path / "db", loop.name) as db:
        db.view("v", loop.query)
        for change, _ in told(loop, 1, 3).states():
            db.apply({n: [(*r, w) for r, w in rows] for n, rows in change.items()})
        db.verify("v")


# --- rounds ------------------------------------------------------------------------------------------------------


def test_a_change_that_touches_nothing_reachable_visits_no_round(tmp_path: Path) -> None:
    with opened(tmp_path / "db", "shortest paths") as db:
        db.view("v", DISTANCES)
        first = db.apply({"roots": [(1,)], "edges": [(1, 2, 5), (2, 3, 5), (8, 9, 1)]})
        assert [n for n, _ in first.rounds["v"]] == [1, 2, 3]
        away = db.apply({"edges": hw.Delta(inserts=[(9, 8, 1), (7, 8, 2)], deletes=[(8, 9, 1)])})
        assert not away.rounds.get("v")
        assert bag(db.table("v")) == {(1, 0): 1, (2, 5): 1, (3, 10): 1}


def test_only_rounds_at_which_something_moves_are_visited(tmp_path: Path) -> None:
    """At the end of a chain of 40 nodes one more edge is one round of 40, and a cut there, too."""
    chain = [(i, i + 1, 1) for i in range(40)]
    with opened(tmp_path / "db", "shortest paths") as db:
        db.view("v", DISTANCES)
        db.apply({"roots": [(0,)], "edges": chain})
        longer = db.apply({"edges": [(40, 41, 1)]})
        assert longer.rounds["v"] == [(42, 1)]
        cut = db.apply({"edges": hw.Delta(deletes=[(39, 40, 1)])})
        assert longer.rounds["v"] != cut.rounds["v"] and len(cut.rounds["v"]) == 2
        assert len(bag(db.table("v"))) == 40


# --- loops that do not end ---------------------------------------------------------------------------------------


def test_a_loop_without_end_leaves_the_version_before(tmp_path: Path) -> None:
    """A cycle of negative cost has no shortest path; the change is refused, and what is not a cycle goes on."""
    with opened(tmp_path / "db", "shortest paths") as db:
        db.view(
            "v", DISTANCES.replace("RECURSIVE dist", "RECURSIVE (ERROR AT RECURSION LIMIT 50) dist")
        )
        db.apply({"roots": [(1,)], "edges": [(1, 2, 5), (2, 3, -1)]})
        before, version = bag(db.table("v")), db.version
        with pytest.raises(NoFixpoint, match="50 rounds"):
            db.apply({"edges": [(3, 2, -1)]})
        assert db.version == version and bag(db.table("v")) == before
        assert bag(db.table("edges")) == {(1, 2, 5): 1, (2, 3, -1): 1}
        db.apply({"edges": [(3, 2, 1), (3, 4, 1)]})
        assert bag(db.table("v")) == {(1, 0): 1, (2, 5): 1, (3, 4): 1, (4, 5): 1}


def test_a_loop_without_end_is_not_defined(tmp_path: Path) -> None:
    with opened(tmp_path / "db", "shortest paths") as db:
        db.apply({"roots": [(1,)], "edges": [(1, 2, 5), (2, 1, -7)]})
        version = db.version
        with pytest.raises(NoFixpoint):
            db.view(
                "v",
                DISTANCES.replace("RECURSIVE dist", "RECURSIVE (ERROR AT RECURSION LIMIT 50) dist"),
            )
        assert db.version == version and "v" not in db.views
        db.apply({"edges": hw.Delta(deletes=[(2, 1, -7)])})
        db.view("v", DISTANCES)
        assert bag(db.table("v")) == {(1, 0): 1, (2, 5): 1}


@hw.query
def swapped(edges):
    return hw.repeat(
        [(e.src, e.dst) for e in edges],
        lambda x: [(b, a) for a, b in x],
        limit=100,
    )


def test_a_loop_that_alternates(tmp_path: Path) -> None:
    with opened(tmp_path / "db", "closure") as db:
        db.view("v", swapped)
        db.apply({"edges": edges("1>1")})
        assert bag(db.table("v")) == {(1, 1): 1}
        with pytest.raises(NoFixpoint, match="alternat"):
            db.apply({"edges": edges("1>2")})
        db.apply({"edges": edges("1>2", "2>1")})
        assert bag(db.table("v")) == {(1, 1): 1, (1, 2): 1, (2, 1): 1}


@hw.query
def turning(edges):
    return hw.repeat([(e.src, e.dst) for e in edges], lambda x: [((a + 1) % b, b) for a, b in x])


@pytest.mark.parametrize("period", [3, 4, 7, 60])
def test_rounds_of_any_period_are_told_soon(period: int, tmp_path: Path) -> None:
    """Of 10,000 rounds as many are gone as the period has, and some more to watch and to be sure."""
    with opened(tmp_path / "db", "closure") as db:
        db.view("v", turning)
        with pytest.raises(NoFixpoint, match=rf" {period} rounds before") as told:
            db.apply({"edges": [(0, period), (0, 1)]})
        (at,) = re.findall(r"at round (\d+)", str(told.value))
        assert int(at) <= 2 * endless.PATIENCE + period + 1
        assert bag(db.table("v")) == {} == bag(db.table("edges"))


def test_a_period_that_comes_with_a_later_change(tmp_path: Path) -> None:
    """Two queries that ask for what the other has not: every four rounds they are as they were."""
    query = """
        WITH MUTUALLY RECURSIVE
          a (n BIGINT) AS (SELECT src FROM edges WHERE src NOT IN (SELECT n FROM b WHERE n > 9)),
          b (n BIGINT) AS (SELECT n FROM a)
        SELECT * FROM b
    """
    with opened(tmp_path / "db", "closure") as db:
        db.view("v", query)
        db.apply({"edges": [(i, i) for i in range(9)]})
        before = bag(db.table("v"))
        with pytest.raises(NoFixpoint, match=" 4 rounds before"):
            db.apply({"edges": [(10, 10)]})
        assert bag(db.table("v")) == before and len(before) == 9


def test_rounds_that_look_alike_for_long_may_end(tmp_path: Path) -> None:
    """What a change adds comes and goes for 90 rounds beside what moves on, and then it ends."""
    with opened(tmp_path / "db", "closure") as db:
        db.view("v", counted_down)
        db.apply({"edges": [(90, 0)]})
        commit = db.apply({"edges": [(200, 1)]})
        assert len(commit.rounds["v"]) > 2 * endless.PATIENCE
        assert bag(db.table("v")) == {(0, 0): 1, (200, 1): 1}


@hw.query
def counted_down(edges):
    """A clock that goes to 0, and pairs that turn as long as it goes."""

    def step(x):
        clock = sum(a for a, b in x if b == 0)
        return [(a - 1 if a > 0 else 0, b) for a, b in x if b == 0] + [
            (a if clock == 0 else 401 - a, b) for a, b in x if b != 0
        ]

    return hw.repeat([(e.src, e.dst) for e in edges], step)


def test_a_loop_without_end_is_told_with_its_views(tmp_path: Path) -> None:
    """Which views block a change, and what to write in the language of theirs."""
    with opened(tmp_path / "db", "shortest paths") as db:
        db.view("other", CLOSURE)
        db.view(
            "v", DISTANCES.replace("RECURSIVE dist", "RECURSIVE (ERROR AT RECURSION LIMIT 30) dist")
        )
        with pytest.raises(NoFixpoint, match="a loop of the view `v` has not ended") as told:
            db.apply({"roots": [(1,)], "edges": [(1, 2, -1), (2, 1, -1)]})
        assert "(ERROR AT RECURSION LIMIT n)" in told.value.hint and "=" not in told.value.hint
        for i in range(4):
            db.view(f"above{i}", "SELECT count(*) AS n FROM v")
        with pytest.raises(NoFixpoint, match="of the views `v`, `above0`, `above1` and 2 more"):
            db.apply({"roots": [(1,)], "edges": [(1, 2, -1), (2, 1, -1)]})
    with opened(tmp_path / "python", "closure") as db:
        db.view("v", turning)
        with pytest.raises(NoFixpoint, match="rounds of a loop of the view `v` alternate") as told:
            db.apply({"edges": [(0, 3)]})
        assert "times=" in told.value.hint and "RECURSION" not in told.value.hint


def test_a_bill_of_parts_in_a_circle(tmp_path: Path) -> None:
    """Spark's limit of levels is reached, and said."""
    loop = BY_NAME["bill of materials"]
    with opened(tmp_path / "db", loop.name) as db:
        db.view("v", loop.query)
        db.apply({"uses": [(1, 2, 3)], "prices": [(2, 10)]})
        with pytest.raises(NoFixpoint):
            db.apply({"uses": [(2, 1, 1)]})
        assert bag(db.table("v")) == {(1, 30): 1}
