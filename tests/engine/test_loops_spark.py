"""Loops on Spark: the same stories with every round on Spark, and with rounds of both kinds in one increment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.engine import loops as rounds
from headwater.engine.increment import Increment
from headwater.engine.spark.rounds import Cluster
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
