"""A flow that only stages read is not kept, and who asks for its rows is told how to keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw


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
