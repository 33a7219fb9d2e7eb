"""Rows that wait are looked at again when more is closed, whatever came in between."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
import headwater.st as st
from headwater.errors import NotRetained


def test_a_row_that_waits_is_not_passed_by_one_that_comes_later(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("a", "n BIGINT", append_only=True, closes="n")
        db.stream("s", st.Seq("a"), st.filter("n > 0"), order="n")
        db.apply({"a": [(50,)]})
        db.apply({"a": [(90,)]}, punctuate={"a": hw.closed(n=hw.below(10))})  # 50 is not looked at
        db.punctuate("a", n=hw.below(60))
        assert db["s"].output_table().column("n").to_pylist() == [50]
        db.punctuate("a")
        assert db["s"].output_table().column("n").to_pylist() == [50, 90]
        assert db["s"].pending() == []


def test_a_source_may_keep_no_rows_if_none_came_before_the_stream(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("a", "n BIGINT", append_only=True, closes="n", retain=False)
        db.stream("s", st.Seq("a"), st.filter("n > 0"), order="n")
        db.apply({"a": [(2,), (1,)]}, punctuate={"a": hw.closed(n=hw.below(2))})
        db.punctuate("a")
        assert db["s"].output_table().column("n").to_pylist() == [1, 2]
        with pytest.raises(NotRetained, match="has had some already"):
            db.stream("late", st.Seq("a"), st.filter("n > 1"), order="n")
