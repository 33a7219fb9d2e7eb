"""A stage that reads what it writes is not passed over for that: the database runs stages in the order that a trial does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headwater as hw
from headwater import flow


def test_a_stage_that_reads_itself_takes_its_turns(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.policy.fuse = False
        db.source("t", "n INT")
        again = db.flow("again", "n INT")
        back = db.flow("back", "n INT")

        @db.stage(
            flow.reads("t", by="n"), flow.reads(again, by="n"), runnable=flow.any_input(), out=again
        )
        def own(n: Any, t: Any, again: Any) -> Any:
            return (n - 1,) if n else None

        @db.stage(
            flow.reads("t", by="n"),
            flow.reads(back, by="n"),
            runnable=flow.any_input(),
            out={"there": "n INT"},
        )
        def forth(n: Any, t: Any, back: Any) -> Any:
            return (n - 1,) if n else None

        @db.stage("there", out=back)
        def returned(row: Any) -> Any:
            return row

        db.apply({"t": [(5,)]})
        ran = db.run().epochs
        stages = [own, forth, returned]
        trial = flow.trial(stages, {"t": [[(5,)]]}, {"t": "n INT"}, flows=[again, back])
        assert ran == trial.ran
        assert sorted(ran) == ["forth"] * 6 + ["own"] * 6 + ["returned"] * 6
        assert ran[:6].count("own") == 2, "in turn with the others"
