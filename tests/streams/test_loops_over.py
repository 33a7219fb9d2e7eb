"""Loops over sources that are closed part by part: nothing of them is final or forgotten that could still move."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from closings import looped_story
from headwater.errors import Purged
from looped_views import CHAIN, REACHED, VIEWS, WALKS, is_right, opened, rows
from test_bounds import play, purge


@pytest.mark.parametrize("seed", range(8))
def test_purged_is_not_purged(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, looped_story, in_part=seed % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 180))
def test_long_stories_of_what_is_over(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, looped_story, in_part=seed % 3 == 0, steps=10)


def test_a_loop_is_over_when_all_that_it_reads_is(tmp_path: Path) -> None:
    with opened(tmp_path / "db", closes="n") as db:
        db.apply({"edges": CHAIN})
        assert "a loop over edges is over when all of that is" in db.explain("reached")
        assert "by (src, dst, round)" in db.explain("reached")
        some = db.apply({}, punctuate={"edges": hw.closed(n=hw.upto(1))})
        assert some.closed.keys() <= {"steps"}, "a row with n = 2 may still give any path"
        over = db.apply({}, punctuate={"edges": hw.closed()})
        assert {**some.closed, **over.closed} == {n: db.table(n).num_rows for n in VIEWS}
        assert purge(db) > 10
        is_right(db)
        db.view("later", REACHED + " WHERE src > 1")
        is_right(db)
        db.rebuild()
        is_right(db)


def test_loops_over_what_is_kept_open_only(tmp_path: Path) -> None:
    """What is over of a source stays in the loop, and no view comes later that would need it."""
    with opened(tmp_path / "db", {"reached": REACHED}, closes="n", retain="open") as db:
        db.apply({"edges": CHAIN}, punctuate={"edges": hw.closed(n=hw.upto(2))})
        purge(db)
        assert db.table("edges").num_rows == 0
        db.apply({"edges": [(4, 5, 3)]})
        assert sum(rows(db, "reached").values()) == 10
        for query in (f"SELECT count(*) AS n FROM ({REACHED})", WALKS.replace("steps", "edges")):
            with pytest.raises(Purged):
                db.view("later", query)
