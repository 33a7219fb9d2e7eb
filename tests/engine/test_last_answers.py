"""What was answered last is written down where it changed, and says as much of a group as its answer asks."""

from __future__ import annotations

from pathlib import Path

import headwater as hw

ENDS = "SELECT k, min(v) AS low, max(v) AS high FROM r GROUP BY k"
COUNTED = "SELECT k, min(v) AS low, max(v) AS high, count(*) AS n FROM r GROUP BY k"


def opened(path: Path, query: str) -> hw.Database:
    db = hw.open(path, execution="here")
    db.source("r", "k BIGINT, v BIGINT")
    db.view("w", query)
    db.apply({"r": [(k, v) for k in range(3) for v in (1, 5, 9)]})
    return db


def written(db: hw.Database, version: int) -> int:
    """The entries that a version wrote of what was answered last."""
    (s,) = (s for s in db.program.strata.values() if s.answers is not None)
    assert s.answers is not None
    return sum(
        r.rows for r in db.store.at().version.maps[s.answers.name][1] if r.version == version
    )


def shown(db: hw.Database) -> list[tuple[int, ...]]:
    table = db.table("w").drop_columns(["_w"])
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True))


def test_an_answer_that_stays_is_not_written(tmp_path: Path) -> None:
    with opened(tmp_path, ENDS) as db:
        assert written(db, db.apply({"r": [(0, 4), (1, 5), (2, 9)]}).version) == 0
        deleted = hw.Delta(deletes=[(0, 4), (1, 5)], inserts=[(2, 10)])
        assert written(db, db.apply({"r": deleted}).version) == 2, "one is gone, and one has come"
        assert db.changes_table("w", 3).num_rows == 2
        assert shown(db) == [(0, 1, 9), (1, 1, 9), (2, 1, 10)]
        db.apply({"r": hw.Delta(deletes=[(0, 1), (0, 5), (0, 9)])})
        assert shown(db) == [(1, 1, 9), (2, 1, 10)]
        db.apply({"r": [(0, 7)]})
        assert shown(db) == [(0, 7, 7), (1, 1, 9), (2, 1, 10)]


def test_a_count_that_is_shown_is_written(tmp_path: Path) -> None:
    with opened(tmp_path, COUNTED) as db:
        assert written(db, db.apply({"r": [(0, 4)]}).version) == 2
        assert shown(db) == [(0, 1, 9, 4), (1, 1, 9, 3), (2, 1, 9, 3)]


def test_a_view_that_shows_the_count_from_now_on(tmp_path: Path) -> None:
    """Answers that said only that there are rows are no answers of one that asks how many; the other way they are."""
    with opened(tmp_path, ENDS) as db:
        db.view("w", COUNTED, replace=True)
        assert shown(db) == [(0, 1, 9, 3), (1, 1, 9, 3), (2, 1, 9, 3)]
        db.apply({"r": [(0, 4)]})
        assert shown(db) == [(0, 1, 9, 4), (1, 1, 9, 3), (2, 1, 9, 3)]
        db.view("w", ENDS, replace=True)
        db.apply({"r": hw.Delta(deletes=[(0, 1)], inserts=[(1, 0)])})
        assert shown(db) == [(0, 4, 9), (1, 0, 9), (2, 1, 9)]
        db.apply({"r": hw.Delta(deletes=[(2, 1), (2, 5), (2, 9)])})
        assert shown(db) == [(0, 4, 9), (1, 0, 9)]
