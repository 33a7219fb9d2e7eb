"""Sinks that keep Delta tables, compared with the view."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from delta_stories import SCHEMA, Table
from headwater.errors import SinkError
from view_changes import QUERIES, changed, view_of

pytest.importorskip("deltalake")

from deltalake import DeltaTable, write_deltalake


def rows_of(path: Path, names: list[str]) -> Counter[Any]:
    rows = DeltaTable(str(path)).to_pyarrow_table(columns=names)
    return Counter(tuple(r.values()) for r in rows.to_pylist())


@pytest.mark.parametrize("case", QUERIES)
def test_a_table_is_the_view_through_random_changes(case: str, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def declare(db: Any) -> None:
        db.sink("kept", "v", format="delta", path=str(out))

    for db in changed(tmp_path / "db", case, declare):
        names = [n for n in db.table("v").column_names if n != "_w"]
        assert rows_of(out, names) == view_of(db, "v")
    before = DeltaTable(str(out)).version()
    db = hw.open(tmp_path / "db")
    declare(db)
    db.run()
    assert DeltaTable(str(out)).version() == before, "nothing is written twice"
    db.close()


def test_a_table_of_somebody_else_is_refused(tmp_path: Path) -> None:
    db = hw.open(tmp_path / "db")
    db.source("t", "a string")
    db.view("v", "SELECT a, count(*) AS n FROM t GROUP BY a")
    db.apply({"t": [("x",)]})
    for given, said in (
        ({"a": ["mine"], "n": [1]}, "rows that no sink wrote"),
        ({"a": ["mine"], "n": ["1"]}, "the column `n` of the Delta table .* is string"),
    ):
        path = tmp_path / said[:5]
        write_deltalake(str(path), pa.table(given))
        db.sink("kept", "v", format="delta", path=str(path))
        with pytest.raises(SinkError, match=said):
            db.sync("kept")
        assert DeltaTable(str(path)).version() == 0
        db.drop("kept")
    db.close()


def followed(root: Path, versions: int, fed: bool) -> None:
    """A Delta table through random versions: after every pull the source is the table, and the sink's table the view."""
    table = Table(root / "in", random.Random(versions), fed, parts=False)
    db = hw.open(root / "db")
    db.source("s", SCHEMA, format="delta", path=str(root / "in"))
    db.view("v", "SELECT part, s, count(*) AS c, sum(n) AS total FROM s GROUP BY part, s")
    db.sink("kept", "v", format="delta", path=str(root / "out"))
    for n in range(versions):
        db.run(available=True)
        assert view_of(db, "s") == table.counted(), n
        names = [c for c in db.table("v").column_names if c != "_w"]
        assert rows_of(root / "out", names) == view_of(db, "v"), n
        table.change(column=n == versions // 2)
    assert DeltaTable(str(root / "in")).version() >= versions * 3 // 4, "most changes are versions"
    db.close()


def test_from_a_table_to_a_table(tmp_path: Path) -> None:
    followed(tmp_path, 8, True)


@pytest.mark.slow
@pytest.mark.parametrize("fed", [True, False], ids=["change feed", "by files"])
def test_from_a_table_to_a_table_through_two_hundred_versions(tmp_path: Path, fed: bool) -> None:
    followed(tmp_path, 210, fed)
