"""Running graphs: what can be looked at, what is settled, what is verified, what is set aside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import flow
from headwater.errors import (
    FlowFull,
    InUse,
    NotRetained,
    StageError,
    StageFailed,
    StageMissing,
    StateError,
)


def opened(path: Path) -> Any:
    db = hw.open(path)
    db.source("clicks", "user STRING, n INT")
    return db


def rows(db: Any, name: str, version: int | None = None) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in db.table(name, version).to_pylist())


def doubled(click: Any) -> Any:
    return click.user, 2 * click.n


def counted(user: Any, clicks: Any, state: Any) -> Any:
    state.n = (state.n or 0) + len(clicks)
    return user, state.n


def with_both(db: Any) -> Any:
    db.stage("clicks", out="user STRING, n INT")(doubled)
    db.stage("doubled", by="user", state="n BIGINT", out="user STRING, n BIGINT")(counted)
    db.view("best", "SELECT user, max(n) AS n FROM counted GROUP BY user")
    return db


def test_a_version_is_settled_when_nothing_waits(tmp_path: Path) -> None:
    db = with_both(opened(tmp_path / "db"))
    db.apply({"clicks": [("ann", 1)]})
    db.run()
    settled = db.version
    assert db.settled_version() == settled
    db.apply({"clicks": [("ann", 2)]})
    assert (db.settled_version(), db.version) == (settled, settled + 1)
    db.run(epochs=1)
    assert rows(db, "best", db.settled_version()) in ([("ann", 1, 1)], [("ann", 2, 1)])
    db.run()
    assert db.settled_version() == db.version
    assert rows(db, "best") == [("ann", 2, 1)]


def test_flows_that_only_stages_read_are_not_kept(tmp_path: Path) -> None:
    db = with_both(opened(tmp_path / "db"))
    db.run()
    assert db["doubled"].database.graph.flows["doubled"].retained is None  # nothing came yet
    db.apply({"clicks": [("ann", 1)]})
    db.run()
    assert db.graph.flows["doubled"].retained is False
    with pytest.raises(NotRetained, match="doubled"):
        db.table("doubled")
    assert db["counted"].state("ann").n == 1
    assert db["counted"].waiting == {"doubled": 0}


def test_stages_row_by_row_and_whole_are_verified(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")

    def summed(user: Any, clicks: Any) -> Any:
        return user, sum(c.n for c in clicks)

    db.stage("clicks", out="user STRING, n INT", retain=True)(doubled)
    db.stage("doubled", by="user", whole=True, out="user STRING, n INT")(summed)
    db.apply({"clicks": [("ann", 1), ("ann", 2), ("bob", 3)]})
    db.apply({"clicks": hw.Delta(deletes=[("ann", 1)])})
    with pytest.raises(StageError, match="not read"):
        db["doubled"].verify()
    db.stage("clicks", by="user", state="n BIGINT", out="user STRING, n BIGINT")(counted)
    db.run()
    db["doubled"].verify()
    db["summed"].verify()
    assert rows(db, "summed") == [("ann", 4, 1), ("bob", 6, 1)]
    with pytest.raises(StageError, match="how its input was cut"):
        db["counted"].verify()


def test_a_function_that_has_chance_in_it_does_not_verify(tmp_path: Path) -> None:
    db, luck = opened(tmp_path / "db"), iter(range(100))

    def odd(click: Any) -> Any:
        return click.user, next(luck)

    db.stage("clicks", out="user STRING, n INT")(odd)
    db.apply({"clicks": [("ann", 1)]})
    db.run()
    with pytest.raises(StateError, match="says otherwise"):
        db["odd"].verify()


def test_rows_of_calls_that_fail_are_set_aside(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")

    def careful(user: Any, clicks: Any, state: Any) -> Any:
        state.n = (state.n or 0) + 1
        yield user, state.n
        if any(c.n < 0 for c in clicks):
            raise ValueError("a negative number")

    words: dict[str, Any] = {"by": "user", "state": "n BIGINT", "out": "user STRING, n BIGINT"}
    db.stage("clicks", on_error="set aside", **words)(careful)
    db.apply({"clicks": [("ann", 1), ("bob", -1)]})
    db.apply({"clicks": [("ann", 2), ("bob", 3)]})
    db.run()
    assert rows(db, "careful") == [("ann", 1, 1), ("ann", 2, 1), ("bob", 1, 1)]
    ((given, key, row, error, n),) = rows(db, "careful_failed")
    assert (given, key, error, n) == ("clicks", "'bob'", "ValueError: a negative number", 1)
    assert "n=-1" in row


def test_a_queue_that_nobody_reads_is_full_some_day(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    db.limit = 3
    db.stage("clicks", by="user", state="n BIGINT", out="user STRING, n BIGINT")(counted)
    for n in range(3):
        db.apply({"clicks": [("ann", n)]})
    with pytest.raises(FlowFull, match="`clicks` has 3 increments that the stage `counted`"):
        db.apply({"clicks": [("ann", 9)]})
    db.run()
    db.apply({"clicks": [("ann", 9)]})
    assert rows(db, "clicks")[-1] == ("ann", 9, 1)


def test_a_stage_waits_while_it_is_paused(tmp_path: Path) -> None:
    db = with_both(opened(tmp_path / "db"))
    db["counted"].pause()
    db.apply({"clicks": [("ann", 1)]})
    db.run()
    assert db["counted"].waiting == {"doubled": 1}
    db["counted"].resume()
    db.run()
    assert rows(db, "counted") == [("ann", 1, 1)]


def test_a_stage_without_a_function_is_missed(tmp_path: Path) -> None:
    db = with_both(opened(tmp_path / "db"))
    db.apply({"clicks": [("ann", 1)]})
    db.close()
    again = hw.open(tmp_path / "db")
    with pytest.raises(StageMissing, match="`doubled` has input to read"):
        again.run()
    with_both(again).run()
    assert rows(again, "counted") == [("ann", 1, 1)]


def test_what_a_stage_reads_stays_until_the_stage_is_dropped(tmp_path: Path) -> None:
    db = with_both(opened(tmp_path / "db"))
    for name, reader in (("clicks", "doubled"), ("doubled", "counted"), ("counted", "best")):
        with pytest.raises(InUse, match=f"`{reader}`"):
            db.drop(name)
    for name in ("best", "counted", "doubled", "clicks"):
        db.drop(name)
    assert list(db) == [] and list(db.store.at().version.maps) == []
    assert not [
        f for f in db.store.at().facts if f.startswith(("stage:", "cursor:", "node:", "flow:"))
    ]


def test_rebuild_leaves_stages_alone(tmp_path: Path) -> None:
    db = with_both(opened(tmp_path / "db"))
    db.apply({"clicks": [("ann", 1)]})
    db.run()
    db.rebuild()
    db.apply({"clicks": [("ann", 2)]})
    db.run()
    assert rows(db, "best") == [("ann", 2, 1)]


def test_frames_are_closed_by_a_punctuation(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")

    def daily(_: Any, clicks: Any) -> Any:
        return clicks[0]._frame, len(clicks)

    framed = flow.reads(
        "clicks", by=(), framing=flow.frames(lambda r, small: (r.n // 10, small), "n")
    )
    db.stage(framed, out="frame INT, n BIGINT")(daily)
    db.apply({"clicks": [("ann", 1), ("bob", 5), ("ann", 11)]})
    db.run()
    assert rows(db, "daily") == [(0, 2, 1)]
    db.apply({"clicks": [("ann", 12)]}, punctuate={"clicks": hw.upto(1)})
    db.run()
    assert rows(db, "daily") == [(0, 2, 1), (1, 2, 1)]
    json.dumps(db.store.at().facts)  # plain data


def test_a_process_that_dies_in_the_same_epoch_is_held(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    db.stage("clicks", by="user", state="n BIGINT", out="user STRING, n BIGINT")(counted)
    db.apply({"clicks": [("ann", 1)]})
    for _ in range(3):
        db._begun(
            "counted", db.graph.nodes["counted"].epochs
        )  # as a process does that is killed then
    with pytest.raises(
        StageFailed, match="`counted` failed: the process died 3 times in this epoch"
    ):
        db.run()
    assert rows(db, "counted") == []
    db["counted"].resume()
    db.run()
    assert rows(db, "counted") == [("ann", 1, 1)]
