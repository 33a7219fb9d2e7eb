"""Sources that keep open rows only: what they show, and views that come when rows are gone already."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import Purged


@pytest.fixture
def db(tmp_path: Path) -> hw.Database:
    db = hw.open(str(tmp_path / "db"))
    db.source("r", "a INT, b INT, t INT", closes="t", retain="open")
    db.view("counts", "SELECT t, count(*) AS n FROM r GROUP BY t")
    db.apply({"r": [(1, 2, 3), (1, 5, 4), (2, 2, 4), (3, 3, 9)]})
    db.apply({"r": [(1, 2, 5)]}, punctuate={"r": hw.closed(t=hw.upto(4))})
    return db


def rows(table: object) -> list[tuple[object, ...]]:
    return sorted(tuple(r.values())[:-1] for r in table.to_pylist())  # type: ignore[attr-defined]


def test_open_rows_are_shown_and_answers_stay(db: hw.Database) -> None:
    assert rows(db.table("r")) == [(1, 2, 5), (3, 3, 9)]
    assert rows(db.table("counts")) == [(3, 1), (4, 2), (5, 1), (9, 1)]


def test_a_later_view_begins_where_rows_are_whole(db: hw.Database) -> None:
    """Of windows of two, [4, 5] has lost a row: it is never shown, nor told in changes, nor final."""
    made = db.view("wide", "SELECT t div 2 AS w, sum(b) AS s FROM r GROUP BY t div 2")
    assert rows(db.table("wide")) == [(4, 3)]
    db.apply({"r": [(1, 2, 5), (1, 7, 6)]})
    assert rows(db.table("wide")) == [(3, 7), (4, 3)]
    db.punctuate("r", t=hw.upto(7))
    assert rows(db.table("wide")) == [(3, 7), (4, 3)]
    assert [r[:2] for r in rows(db.final_table("wide"))] == [(3, 7)]
    told = {(c["w"], c["s"]) for c in db.changes_table("wide", 0).to_pylist()}
    assert told == {(4, 3), (3, 7)}
    assert made.name == "wide"


def test_a_later_view_of_rows_begins_too(db: hw.Database) -> None:
    db.view("some", "SELECT a, t FROM r WHERE b > 1")
    assert rows(db.table("some")) == [(1, 5), (3, 9)]


def test_a_total_has_nowhere_to_begin(db: hw.Database) -> None:
    version = db.version
    with pytest.raises(Purged, match="kept no more"):
        db.view("total", "SELECT count(*) AS n FROM r")
    with pytest.raises(Purged, match="cannot be computed anew"):
        db.rebuild()
    assert db.version == version
