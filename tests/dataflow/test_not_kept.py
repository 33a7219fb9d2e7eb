"""A flow that only stages read is not kept: who asks for its rows is told how to keep them, and views see them as they pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import flow


def test_a_flow_that_only_stages_read_says_how_to_keep_it(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("t", "n INT")

        @db.stage("t", out="n INT")
        def first(row: Any) -> Any:
            return row

        @db.stage("first", out="n INT")
        def second(row: Any) -> Any:
            return row

        db.apply({"t": [(1,)]})
        db.run()
        assert db.table("second").num_rows == 1
        with pytest.raises(hw.errors.NotRetained, match="`first` keeps no copy") as told:
            db.table("first")
        assert "retain=True" in told.value.hint


@pytest.mark.parametrize("retain", [False, None], ids=["not to be kept", "decided before"])
def test_a_view_sees_what_passes_a_flow_that_is_not_kept(
    tmp_path: Path, retain: bool | None
) -> None:
    """Such a flow is no place to fuse two stages at: the view over it once stayed empty."""
    with hw.open(tmp_path / "db") as db:
        db.source("t", "n INT")

        @db.stage("t", out="n INT", retain=retain)
        def first(row: Any) -> Any:
            return row

        @db.stage("first", out="n INT")
        def second(row: Any) -> Any:
            return row

        if retain is None:
            db.run()  # nothing is there yet, and only a stage reads `first`
        db.view("total", "SELECT sum(n) AS n FROM first")
        for n in (1, 2):
            db.apply({"t": [(n,)]})
            db.run()
        assert db.table("total").to_pylist() == [{"n": 3, "_w": 1}]
        assert db.table("second").num_rows == 2


def test_a_late_stage_is_not_given_half_of_a_flow(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("t", "n INT", retain=False)

        @db.stage("t", out="n INT")
        def early(row: Any) -> Any:
            return row

        db.apply({"t": [(1,)]})
        db.run()

        def late(row: Any) -> Any:
            return row

        with pytest.raises(hw.errors.NotRetained, match="`late` reads `t`") as told:
            db.stage("t", out="n INT")(late)
        assert 'start="new"' in told.value.hint
        db.stage(flow.reads("t", start="new"), out="n INT")(late)
        db.apply({"t": [(2,)]})
        db.run()
        assert db.table("late").to_pylist() == [{"n": 2, "_w": 1}]
        assert db.table("early").num_rows == 2
