"""Dropping with all that reads it; and queries that are the same but for spaces and comments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from dying_files import Dying
from faulty_files import Stopped
from headwater.errors import HeadwaterError, InUse, NameTaken, UnknownName


def copied(row: Any) -> Any:
    yield row.n, row.m


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.source("s", "id BIGINT, v BIGINT")
        made.source("t", "id BIGINT")
        made.view("a", "SELECT v, count(*) AS n FROM s GROUP BY v")
        made.view("b", "SELECT n, count(*) AS m FROM a GROUP BY n")
        made.view("c", "SELECT b.m FROM b JOIN t ON b.n = t.id")
        made.view("alone", "SELECT id FROM t")
        yield made


def test_a_source_goes_with_what_reads_it(db: hw.Database, tmp_path: Path) -> None:
    """Views over views, a sink and a stage; the rest goes on, and names can be taken again."""
    db.sink("out", "b", format="jsonl", path=tmp_path / "out")
    with pytest.raises(InUse):
        db.drop("s")
    assert db.read_by("S") == ["out", "c", "b", "a", "s"]
    before = db.version
    db.drop("s", cascade=True)
    assert db.version == before + 1
    assert [*db.catalog.sources] == ["t"] and [*db.catalog.views] == ["alone"] and not db.sink_defs
    db.apply({"t": [(1,)]})
    assert db.table("alone").num_rows == 1
    db.source("s", "x INT")
    with pytest.raises(UnknownName):
        db.drop("nobody", cascade=True)
    assert [*db.catalog.views] == ["alone"]


def test_stages_go_with_what_they_read(db: hw.Database) -> None:
    """A stage, and the view that reads what it writes."""
    db.stage("b", out="n BIGINT, m BIGINT")(copied)
    db.view("behind", "SELECT m FROM copied")
    assert db.read_by("b") == ["c", "behind", "copied", "b"]
    before = db.version
    db.drop("a", cascade=True)
    assert [*db.catalog.views] == ["alone"] and not db.graph.stages and db.version == before + 1


@pytest.mark.parametrize("where", ["before", "after"])
def test_all_are_there_or_none(tmp_path: Path, where: str) -> None:
    """A process that dies at any write of a drop leaves everything as it was, or nothing of it."""
    for write in range(1, 9):
        path = tmp_path / f"{where}{write}"
        with hw.open(path / "db") as db:
            db.source("s", "id BIGINT, v BIGINT", path=path, format="csv", bad="aside")
            db.view("a", "SELECT v, count(*) AS n FROM s GROUP BY v")
            db.stage("a", out="n BIGINT, m BIGINT")(numbered)
            db.view("b", "SELECT n FROM numbered")
            db.sink("out", "b", format="jsonl", path=str(path / "out"))
            db.apply({"s": [(1, 1), (2, 1)]})
            db.run()
        with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Stopped, HeadwaterError):
            dying = Dying(write, where).over(patched)
            with hw.open(path / "db") as db:
                db.drop("s", cascade=True)
        with hw.open(path / "db") as db:
            assert sorted(db) in ([], ["a", "b", "numbered", "out", "s", "s_rejected"])
            if "s" in db:
                assert db.table("b").to_pylist() == [{"n": 1, "_w": 1}]
                db.drop("s", cascade=True)
            assert not db.store.at(db.version).version.maps
            db.source("s", "x INT")
        if not dying.dead:
            break
    assert write > 2 and not dying.dead


def numbered(row: Any) -> Any:
    yield row.v, row.n


def test_changes_over_what_was_dropped_with_others(db: hw.Database) -> None:
    """A view that went with its source and was defined anew: what is told adds up; and a refusal in the middle leaves all there."""
    db.apply({"s": [(1, 1)]})
    at = db.version
    db.drop("s", cascade=True)
    db.source("s", "id BIGINT, v BIGINT")
    db.view("a", "SELECT v, count(*) AS n FROM s GROUP BY v")
    db.apply({"s": [(1, 2)]})
    told: dict[Any, int] = {}
    for r in db.changes_table("a", at).to_pylist():
        told[r["v"], r["n"]] = told.get((r["v"], r["n"]), 0) + r["_w"]
    assert told == {(1, 1): -1, (2, 1): 1}
    version = db.version
    with pytest.raises(InUse):
        db.drop("s")
    assert db.version == version and [*db.catalog.views] == ["alone", "a"]


def test_the_same_query_in_other_spaces_is_the_same_view(db: hw.Database) -> None:
    before = db.version
    db.view("a", "SELECT v, -- the value\n  count( * ) AS n\nFROM s /* all */ GROUP BY v")
    db.view("a", "SELECT  v,count(*) AS n FROM s GROUP BY v ", replace=True)
    assert db.version == before
    for other in (
        "SELECT v, count(*) AS m FROM s GROUP BY v",
        "SELECT v, count(*) AS n FROM s GROUP BY v 'x",
    ):
        with pytest.raises(hw.HeadwaterError):
            db.view("a", other)
    with pytest.raises(NameTaken):
        db.view("a", "SELECT v, count(*) AS `n ` FROM s GROUP BY v")
    assert db.version == before
