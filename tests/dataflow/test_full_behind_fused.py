"""A stage whose output waits unread is passed over, also where that output is of a stage that runs in the same epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import flow


@pytest.mark.parametrize("fuse", [True, False])
def test_stages_run_together_stand_still_where_what_they_wrote_is_unread(
    tmp_path: Path, fuse: bool
) -> None:
    with hw.open(tmp_path / "db") as db:
        db.policy.fuse = fuse
        db.source("t", "n INT")
        db.source("first", "n INT")

        @db.stage("t", out="n INT")
        def a(row: Any) -> Any:
            return row

        @db.stage("a", by="n", out="n INT")
        def b(n: Any, rows: Any) -> Any:
            return (n,)

        @db.stage(
            flow.reads("first", by="n"),
            flow.reads("b", by="n"),
            runnable=flow.prefer("first", to="b", times=4, most=20),
            out="n INT",
        )
        def both(n: Any, first: Any, b: Any) -> Any:
            return (n,)

        for n in range(12):
            db.apply({"t": [(n,)], "first": [(n,)]})
        unread = 0
        while (run := db.run(epochs=1)).epochs:
            unread = max(unread, run.waiting.get("both", {}).get("b", 0))
        assert unread == 1
        assert db.table("both").num_rows == 12
