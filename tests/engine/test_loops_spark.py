"""Loops on Spark: the same stories with every round on Spark, and with rounds of both kinds in one increment."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import bag
from headwater.engine import loops as rounds
from headwater.engine.increment import Increment
from headwater.engine.spark.rounds import Cluster
from loop_aggregates import QUERIES
from loop_stories import How, Run, told
from loops import BY_NAME, LOOPS, Loop
from spark_session import session

pytestmark = pytest.mark.spark
SOME = ("closure", "shortest paths", "bill of materials", "PageRank in SQL")
MORE = (
    "closure, square",
    "shortest paths in Python",
    "bill of materials",
    "strongly connected",
    "walks in Python",
)
"""The loops that are played in `make test`: every round on Spark, and rounds of both kinds. All are with `make test-all`."""
SHORT = 2
"""Changes of a story on Spark: a round there is a job."""
FEW_ROWS = 5
"""Rows that a source of the smallest stories begins with, about."""


SEEDS = {"label propagation": 15}
"""Stories in which rounds of both kinds come up; that of seed 12 where none is named."""


@hw.query
def counted(starts):
    """Every row with how often it was moved: twice, by as many as there are."""
    return hw.repeat(
        [{"k": s.k, "n": 0} for s in starts],
        lambda rows: [{"k": r.k, "n": r.n + len([1 for other in rows])} for r in rows],
        times=2,
    )


def play(loop: Loop, seed: int, how: How, path: Path) -> None:
    """A story of few rows, so that there are few rounds, each of which is a job; its state is compared as ever."""
    few = replace(loop, size=min(loop.size, FEW_ROWS))
    Run(told(few, seed, SHORT), how, path, session()).play()


@pytest.mark.parametrize("name", SOME)
def test_every_round_on_spark(name: str, tmp_path: Path) -> None:
    play(BY_NAME[name], 11, How(execution="spark"), tmp_path)


def play_both(loop: Loop, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few rows a round is small, so that in some increment rounds are run here and on Spark."""
    ran: list[str] = []
    increments: list[set[str]] = []

    def noted(owner: Any, method: str, where: str) -> None:
        was = getattr(owner, method)
        monkeypatch.setattr(owner, method, lambda *given: (ran.append(where), was(*given))[1])

    def looped(*given: Any) -> None:
        ran.clear()
        run(*given)
        increments.append({*ran})

    run = rounds.run
    noted(Increment, "_merge", "here")
    noted(Cluster, "round", "spark")
    monkeypatch.setattr(rounds, "run", looped)
    play(loop, SEEDS.get(loop.name, 12), How(execution="auto", small=3), path)
    assert {"here", "spark"} in increments, increments


@pytest.mark.parametrize("name", MORE)
def test_rounds_of_both_kinds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_both(BY_NAME[name], tmp_path, monkeypatch)


def test_an_answer_without_groups_in_a_new_loop_on_spark(tmp_path: Path) -> None:
    """How many rows the loop has is an answer that is there from round 1 on, and was not before the loop was."""
    with hw.open(tmp_path / "db", spark=session(), execution="spark") as db:
        db.source("starts", "k BIGINT, x BIGINT")
        db.view("v", counted)
        db.apply({"starts": [(1, 10), (2, 20)]})
        assert sorted(tuple(r.values())[:2] for r in db.table("v").to_pylist()) == [(1, 4), (2, 4)]


@hw.query
def lowest(edges):
    """The least node that a node comes from, until no label moves by more than one."""
    return hw.repeat(
        [{"node": e.dst, "label": e.dst} for e in edges],
        lambda label: [
            {
                "node": n,
                "label": min(
                    x.label
                    for e in edges
                    if e.dst == n
                    for x in label
                    if x.node == e.src or x.node == n
                ),
            }
            for n in {e.dst for e in edges}
        ],
        until=hw.within(1.0, "label", by="node"),
    )


OTHERS = {"until": lowest, **QUERIES}
"""Loops that are in no story of `loops`: with an end that is measured, and with aggregates of what moves."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n != "until" else []) for n in OTHERS]
)
def test_other_loops_on_spark(name: str, tmp_path: Path) -> None:
    """What the interpreter says after every change, all deletions among them."""
    with hw.open(tmp_path / "db", spark=session(), execution="spark") as db:
        db.source("edges", "src BIGINT NOT NULL, dst BIGINT NOT NULL")
        db.view("v", OTHERS[name])
        term, have = db.catalog.term("v"), [(0, 1), (1, 2), (0, 2)]
        db.apply({"edges": have})
        for come, gone in (([(2, 3)], [(0, 2)]), ([], [(0, 1), (1, 2), (2, 3)])):
            db.apply({"edges": hw.Delta(come, gone)})
            have = [e for e in have if e not in gone] + come
            told = Counter[Any]()
            for row in db.table("v").to_pylist():
                weight = row.pop("_w")
                told[tuple(row.values())] += weight
            assert told == Counter(dict(interpret(term, {"edges": bag(have)})))


@hw.query
def centres(points, seeds):
    """k-means, ten rounds."""

    def moved(centre):
        near = [
            {
                "k": min(centre, key=lambda c: (c.x - p.x) ** 2 + (c.y - p.y) ** 2).k,
                "x": p.x,
                "y": p.y,
            }
            for p in points
        ]
        return [
            {
                "k": k,
                "x": sum(p["x"] for p in near if p["k"] == k)
                / len([1 for p in near if p["k"] == k]),
                "y": sum(p["y"] for p in near if p["k"] == k)
                / len([1 for p in near if p["k"] == k]),
            }
            for k in {p["k"] for p in near}
        ]

    return hw.repeat([{"k": s.k, "x": s.x, "y": s.y} for s in seeds], moved, times=10)


@pytest.mark.slow
def test_settled_groups_on_spark(tmp_path: Path) -> None:
    """k-means kept near: points are given their centres by rounds of which the statements are on Spark."""
    with hw.open(tmp_path / "db", spark=session(), execution="spark") as db:
        db.source("points", "x DOUBLE, y DOUBLE")
        db.source("seeds", "k BIGINT, x DOUBLE, y DOUBLE")
        db.view("v", centres, mode="diffuse", cut=1e-3, rounds=10)
        db.apply({"seeds": [(0, 2.0, 2.0), (1, 8.0, 8.0)], "points": [(1.0, 3.0), (9.0, 7.0)]})
        db.apply({"points": hw.Delta([(2.0, 1.0), (7.0, 9.0)], [(9.0, 7.0)])})
        told = {r["k"]: (r["x"], r["y"]) for r in db.table("v").to_pylist()}
        assert told == {0: pytest.approx((1.5, 2.0)), 1: pytest.approx((7.0, 9.0))}


EACH = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)


@pytest.mark.slow
@EACH
def test_every_round_of_every_loop_on_spark(loop: Loop, tmp_path: Path) -> None:
    play(loop, 13, How(execution="spark"), tmp_path)


@pytest.mark.slow
@EACH
def test_rounds_of_both_kinds_of_every_loop(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_both(loop, tmp_path, monkeypatch)
