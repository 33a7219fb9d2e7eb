"""Stages that are defined anew: refused, kept with their state, grown, or replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import StageChanged, StageError


def opened(path: Path) -> Any:
    db = hw.open(path)
    db.source("clicks", "user STRING, n INT")
    return db


def rows(db: Any, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in db.table(name).to_pylist())


def counted(user: Any, clicks: Any, state: Any) -> Any:
    state.n = (state.n or 0) + len(clicks)
    return user, state.n


WORDS: dict[str, Any] = {"by": "user", "out": "user STRING, n BIGINT", "name": "counted"}


def test_columns_of_records_are_added_and_widened(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    db.stage("clicks", state="n INT", **WORDS)(counted)
    db.apply({"clicks": [("ann", 1), ("bob", 2)]})
    db.run()

    def more(user: Any, clicks: Any, state: Any) -> Any:
        state.last, state.n = max(c.n for c in clicks), (state.n or 0) + len(clicks)
        return user, state.n

    with pytest.raises(StageChanged, match="another state, function"):
        db.stage("clicks", state="last INT, n BIGINT", **WORDS)(more)
    db.stage("clicks", state="last INT, n BIGINT", changed="keep", **WORDS)(more)
    assert db["counted"].state("ann").n == 1 and db["counted"].state("ann").last is None
    db.apply({"clicks": [("ann", 7)]})
    db.run()
    assert tuple(db["counted"].state("ann")) == (7, 2)
    assert rows(db, "counted") == [("ann", 1, 1), ("ann", 2, 1), ("bob", 1, 1)]
    with pytest.raises(StageChanged, match="other columns"):
        db.stage("clicks", state="last INT, n INT", changed="keep", **WORDS)(more)


def test_a_replay_sends_the_difference(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    db.stage("clicks", state="n BIGINT", **WORDS)(counted)
    db.view("total", "SELECT sum(n) AS n FROM counted")
    db.apply({"clicks": [("ann", 1), ("bob", 2)]})
    db.run()

    def twice(user: Any, clicks: Any, state: Any) -> Any:
        state.n = (state.n or 0) + 2 * len(clicks)
        return user, state.n

    db.apply({"clicks": [("ann", 3)]})
    db.stage("clicks", state="n BIGINT", changed="replay", **WORDS)(twice)
    since = db.version
    db.run()
    assert rows(db, "counted") == [("ann", 4, 1), ("bob", 2, 1)]
    assert rows(db, "total") == [(6, 1)]
    told = db.changes_table("counted", since).to_pylist()
    assert sorted((r["user"], r["n"], r["_w"]) for r in told) == [
        ("ann", 1, -1),
        ("ann", 4, 1),
        ("bob", 1, -1),
        ("bob", 2, 1),
    ]
    db.apply({"clicks": [("bob", 1)]})
    db.run()
    assert rows(db, "counted") == [("ann", 4, 1), ("bob", 2, 1), ("bob", 4, 1)]


def test_a_replay_of_nothing_takes_everything_back(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    db.stage("clicks", state="n BIGINT", **{**WORDS, "out": "user STRING, n BIGINT"})(counted)
    db.apply({"clicks": [("ann", 1)]})
    db.run()
    db.apply({"clicks": hw.Delta(deletes=[("ann", 1)])})

    def other(user: Any, clicks: Any, state: Any) -> Any:
        return None

    db.stage("clicks", state="n BIGINT", changed="replay", **WORDS)(other)
    db.run()
    assert rows(db, "counted") == []


def test_a_replay_needs_rows_that_are_kept(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    db.stage("clicks", state="n BIGINT", retain=False, **WORDS)(counted)
    with pytest.raises(StageError, match="`counted` are not kept"):
        db.stage("clicks", state="n BIGINT", retain=False, changed="replay", **WORDS)(
            lambda user, clicks, state: None
        )
