"""Dropping with all that reads it; and queries that are the same but for spaces and comments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import InUse, NameTaken, UnknownName


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
    db.drop("s", cascade=True)
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
    db.drop("a", cascade=True)
    assert [*db.catalog.views] == ["alone"] and not db.graph.stages


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
