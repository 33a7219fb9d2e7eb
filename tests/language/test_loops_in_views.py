"""Views of loops: what the database keeps of a query is what its function gives on lists, change after change.

The steps of loops are views, too, with the rows of the round before as just another input; so are the nearest row and the
most frequent value, which they are made of.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import headwater as hw
from comprehensions import Row, canonical
from headwater.calculus.check import type_of
from headwater.calculus.data import from_python, to_python
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import (
    Field,
    Let,
    Record,
    Rel,
    Repeat,
    Term,
    children,
    rebuild,
    replaced,
    substitute,
    subterms,
)
from headwater.calculus.types import DOUBLE, MapType, ProductType
from headwater.errors import NoFixpoint, NotIncremental
from headwater.language.comprehension import Query, query
from loop_queries import GRAPH, LOOPS, alike, bill, loop_data


def declare(db: hw.Database, types: dict[str, Any]) -> None:
    for name, t in types.items():
        db.source(name, ", ".join(f"{n} {c}" for n, c in t.key.fields))


def answer(db: hw.Database, name: str) -> list[dict[str, Any]]:
    """The rows of a view, each as often as it is there."""
    rows = db.table(name).to_pylist()
    return [{k: v for k, v in r.items() if k != "_w"} for r in rows for _ in range(r["_w"])]


def change(types: dict[str, Any], rows: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """A change from rows to others, in the order of the columns."""

    def cells(name: str, some: list[Any]) -> list[tuple[Any, ...]]:
        return [tuple(r[n] for n, _ in types[name].key.fields) for r in some]

    return {n: hw.Delta(inserts=cells(n, rows[n]), deletes=cells(n, before[n])) for n in rows}


# --- loops ---------------------------------------------------------------------------------------


KEPT = pytest.mark.parametrize("q", LOOPS, ids=lambda q: q.__name__)


def followed(q: Query, path: Any, seeds: tuple[int, ...]) -> None:
    """A view of a query is what the query gives on lists, after each change from one input to the next."""
    types = {n: GRAPH[n] for n in q.inputs}
    before: dict[str, Any] = {n: [] for n in types}
    with hw.open(path / "db") as db:
        declare(db, types)
        db.view("v", q)
        for seed in seeds:
            now = {n: loop_data(seed)[n] for n in types}
            db.apply(change(types, now, before))
            assert alike(answer(db, "v"), q(*(now[n] for n in q.inputs))), f"seed {seed}"
            before = now


@KEPT
def test_views_of_loops_follow_their_data(q: Query, tmp_path: Any) -> None:
    followed(q, tmp_path, (3, 7))


@pytest.mark.slow
@KEPT
def test_views_of_loops_follow_their_data_for_long(q: Query, tmp_path: Any) -> None:
    followed(q, tmp_path, (*range(11, -1, -1), 5))


@query
def replaced_at_once(nodes, links):
    """A step that reads nothing of the round before."""
    return hw.repeat([n.node for n in nodes], lambda now: [k.src for k in links], times=2)


def test_a_step_that_reads_nothing_of_its_loop(tmp_path: Any) -> None:
    types = {n: GRAPH[n] for n in ("nodes", "links")}
    with hw.open(tmp_path / "db") as db:
        declare(db, types)
        db.view("v", replaced_at_once)
        db.apply({"nodes": [(1, 0), (2, 0)], "links": [(3, 1, 1), (3, 2, 1)]})
        assert [*map(list, map(dict.values, answer(db, "v")))] == [[3], [3]]


def test_parts_of_parts_without_end_are_an_error_of_the_change(tmp_path: Any) -> None:
    types = {n: GRAPH[n] for n in ("uses", "prices")}
    with hw.open(tmp_path / "db") as db:
        declare(db, types)
        db.view("v", bill)
        db.apply({"uses": [(1, 2, 3)], "prices": [(2, 10), (1, 1)]})
        with pytest.raises(NoFixpoint):
            db.apply({"uses": [(2, 1, 1)]})
        assert answer(db, "v") == [{"assembly": 1, "cost": 30}]


@query
def from_each(nodes, links):
    """A loop for every node, which reads the variable around it."""
    return [
        {
            "node": n.node,
            "n": len(hw.repeat([n.node], lambda s: set(s + [k.dst for k in links if k.src in s]))),
        }
        for n in nodes
    ]


def test_a_loop_for_each_row_is_refused_by_name(tmp_path: Any) -> None:
    types = {n: GRAPH[n] for n in ("nodes", "links")}
    with hw.open(tmp_path / "db") as db:
        declare(db, types)
        with pytest.raises(NotIncremental, match="CORRELATED") as caught:
            db.view("v", from_each)
        assert caught.value.hint


# --- steps of loops ------------------------------------------------------------------------------


def without_lets(term: Term) -> Term:
    """A term with what its lets bind in their places."""
    if isinstance(term, Let):
        return substitute(without_lets(term.body), {term.var: without_lets(term.bound)})
    return rebuild(term, tuple(map(without_lets, children(term))))


def steps_as_views(q: Query) -> tuple[list[Term], dict[str, MapType]]:
    """The steps of a query's loop as queries over one more input for each collection that goes round."""
    loop = next(t for t in subterms(without_lets(q.read(GRAPH))) if isinstance(t, Repeat))
    t = type_of(loop)
    if not isinstance(t, ProductType):
        return [substitute(loop.step, {loop.var: Rel("before", t)})], {"before": t}
    assert isinstance(loop.step, Record)
    inputs = {f"before_{n}": m for n, m in t.fields}
    parts: dict[Term, Term] = {Field(loop.var, n): Rel(f"before_{n}", m) for n, m in t.fields}  # type: ignore[arg-type]
    return [replaced(step, parts) for _, step in loop.step.fields], inputs  # type: ignore[return-value]


@pytest.mark.parametrize(
    "q",
    LOOPS,
    ids=lambda q: q.__name__,
)
def test_the_step_of_a_loop_is_a_view_that_follows_its_data(q: Query, tmp_path: Any) -> None:
    """What a loop asks of the plan, with the loop's rows as just another input."""
    steps, round_about = steps_as_views(q)
    types = {**{n: GRAPH[n] for n in q.inputs}, **round_about}
    data = [loop_data(seed) for seed in (4, 7)]
    for i, one in enumerate(data):  # any rows of the type may be what there was the round before
        for name, t in round_about.items():
            r = random.Random(i)
            columns = t.key.fields  # type: ignore[union-attr]
            one[name] = [
                Row(
                    {n: r.randint(1, 3) / 2 if c == DOUBLE else r.randint(0, 3) for n, c in columns}
                )
                for _ in range(6)
            ]
    with hw.open(tmp_path / "db") as db:
        for name, t in types.items():
            db.source(name, ", ".join(f"{n} {c}" for n, c in t.key.fields))  # type: ignore[union-attr]
        for i, step in enumerate(steps):
            db.view(f"v{i}", step)
        before: dict[str, Any] = {n: [] for n in types}
        for one in data:
            now = {n: one[n] for n in types}
            db.apply(change(types, now, before))
            before = now
            values = {n: from_python(t, now[n]) for n, t in types.items()}
            for i, step in enumerate(steps):
                found = [
                    {k: v for k, v in r.items() if k != "_w"}
                    for r in db.table(f"v{i}").to_pylist()
                    for _ in range(r["_w"])
                ]
                assert alike(found, to_python(type_of(step), interpret(step, values)))


@query
def nearest(points, seeds):
    """The nearest seed of each point, which is the step of k-means."""
    return [
        {"id": p.id, "k": min(seeds, key=lambda s: ((s.x - p.x) ** 2 + (s.y - p.y) ** 2, s.k)).k}
        for p in points
    ]


@query
def cheapest(nodes, links):
    """The cheapest link from each node, a node that is not there for none."""
    return [
        (n.node, min((k for k in links if k.src == n.node and k.cost is not None),
                     key=lambda k: (k.cost, -1 if k.dst is None else k.dst),
                     default={"src": -1, "dst": -1, "cost": None})["dst"])
        for n in nodes
    ]  # fmt: skip


@query
def usual(nodes, links):
    """The most frequent target of each node."""
    return [
        {"node": n.node, "to": hw.mode((k.dst for k in links if k.src == n.node), default=n.label)}
        for n in nodes
    ]


@pytest.mark.parametrize("q", [nearest, cheapest, usual], ids=lambda q: q.__name__)
def test_views_of_extremes_follow_their_data(q: Query, tmp_path: Any) -> None:
    with hw.open(tmp_path / "db") as db:
        for name in q.inputs:
            db.source(name, ", ".join(f"{n} {t}" for n, t in GRAPH[name].key.fields))  # type: ignore[union-attr]
        db.view("v", q)
        before = {name: [] for name in q.inputs}
        for seed in (1, 8, 7, 0):
            data = loop_data(seed)
            db.apply({
                n: hw.Delta(inserts=[tuple(r.values()) for r in data[n]], deletes=before[n]) for n in q.inputs
            })  # fmt: skip
            before = {n: [tuple(r.values()) for r in data[n]] for n in q.inputs}
            found = [
                tuple(r.values())[:-1] for r in db.table("v").to_pylist() for _ in range(r["_w"])
            ]
            wanted = [
                tuple(r.values()) if isinstance(r, dict) else r
                for r in q(*(data[n] for n in q.inputs))
            ]
            assert canonical(found) == canonical(wanted), f"seed {seed}"


def test_the_nearest_of_none_is_an_error_of_the_change(tmp_path: Any) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("points", "id BIGINT, x DOUBLE, y DOUBLE")
        db.source("seeds", "k BIGINT, x DOUBLE, y DOUBLE")
        db.view("v", nearest)
        with pytest.raises(hw.HeadwaterError, match="empty collection"):
            db.apply({"points": [(1, 0.0, 0.0)]})
        db.apply({"points": [(1, 0.0, 0.0)], "seeds": [(7, 1.0, 1.0)]})
        assert db.table("v").to_pylist() == [{"id": 1, "k": 7, "_w": 1}]
