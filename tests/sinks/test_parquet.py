"""A plain table is its view at the version that it says: cut into files, killed at any step, read by others meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.errors import QueryError, SinkError
from sink_stories import Killed, Orders, bag, declared, rows_of, watched
from spark_session import session


def rows_in(folder: Path) -> Counter[str]:
    """The rows that anybody reads there."""
    return bag(
        [r for f in (folder / "current").glob("*.parquet") for r in pq.read_table(f).to_pylist()]
    )


@pytest.mark.parametrize("view", ["totals", "items"])
@pytest.mark.parametrize("after", [False, True])
def test_a_sync_that_is_killed_at_any_step_goes_on(view: str, after: bool, tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db, watched() as steps:
        out = tmp_path / "out"
        db.sink("out", view, format="parquet", path=str(out), options={"slice_rows": 3})
        story, kill, ended = Orders(db, 5), 0, False
        story.change(20)
        db.sync("out")
        while not ended:
            story.change(4)
            before = rows_in(out)
            kill, steps.taken = kill + 1, 0
            steps.kill, steps.after = kill, after
            try:
                db.sync("out")
                ended = True
            except Killed:
                steps.kill = 0
                assert rows_in(out) in (before, rows_of(db, view)), "the one version or the other"
                db.sync("out")
            assert rows_in(out) == rows_of(db, view)
            assert len([*out.glob("v*")]) <= 2 and not [*out.glob(".*")]
        assert kill > 5


def test_files_are_cut_and_only_those_that_changed_are_written(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("t", "id BIGINT, x STRING", key="id")
        db.view("v", "SELECT id, x FROM t")
        out = tmp_path / "out"
        db.sink("out", "v", format="parquet", path=str(out), options={"slice_rows": 100})
        db.apply({"t": [(i, f"{i}") for i in range(2000)]})
        db.sync()
        first = {f.name: f.stat().st_ino for f in (out / "current").glob("*.parquet")}
        assert 20 <= len(first) <= 64
        db.apply({"t": hw.Delta(inserts=[(7, "other")], deletes=[(7, "7")])})
        db.sync()
        now = {f.name: f.stat().st_ino for f in (out / "current").glob("*.parquet")}
        assert len(first.items() & now.items()) == len(first) - 1, "one file has the key"
        read = duckdb.sql(f"SELECT count(*), max(x) FROM '{out}/current/*.parquet'").fetchall()
        assert read == [(2000, "other")]
        db.view("v", "SELECT x FROM t WHERE id < 10", replace=True)
        db.sync()
        assert rows_in(out) == rows_of(db, "v")


def test_who_resolved_the_link_reads_one_version(tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db:
        out, story = tmp_path / "out", Orders(db, 3)
        story.change(9)
        db.sink("out", "items", format="parquet", path=str(out), options={"keep": 2})
        db.sync()
        then, was = (out / "current").resolve(), rows_in(out)
        for _ in range(2):
            story.change(9)
            db.sync()
        assert bag([r for f in then.glob("*.parquet") for r in pq.read_table(f).to_pylist()]) == was
        story.change(9)
        db.sync()
        assert not then.exists()


def test_a_table_of_others_is_refused(tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db:
        out = tmp_path / "out"
        Orders(db, 3).change(9)
        db.sink("out", "items", format="parquet", path=str(out))
        db.sync()
        with pytest.raises(QueryError, match="a copy of `items`"):
            db.sink("t", "totals", format="parquet", path=str(out))
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "a.parquet").write_bytes(b"")
        with pytest.raises(SinkError, match="files of others"):
            db.sink("t", "totals", format="parquet", path=str(tmp_path / "mine"))
        (changed,) = (out / "current").glob("*.parquet")
        table = pq.read_table(changed)
        changed.unlink()
        pq.write_table(table.slice(0, 0), changed)
        db.apply(
            {"orders": hw.Delta(deletes=[db.table("orders").drop_columns(["_w"]).to_pylist()[-1]])}
        )
        with pytest.raises(SinkError, match="not the rows that were written"):
            db.sync()
        changed.unlink()
        pq.write_table(table.rename_columns(["item", "prise"]), changed)
        with pytest.raises(SinkError, match="other columns: item, prise"):
            db.sync()
        about = json.loads((out / "current" / "_headwater.json").read_text())
        assert about["version"] < db.version


@pytest.mark.spark
def test_a_large_view_is_written_by_tasks(tmp_path: Path) -> None:
    spark = session()
    with hw.open(tmp_path / "db", spark) as db:
        db.source("t", "id BIGINT, x STRING, at TIMESTAMP, d DECIMAL(10,2)")
        db.view("v", "SELECT * FROM t")
        out = tmp_path / "out"
        db.sink("out", "v", format="parquet", path=str(out), options={"slice_rows": 100})
        day = "2024-03-0{} 01:02:03.000004"
        rows = [
            (i % 150, None if i % 7 == 0 else f"{i % 3}", day.format(i % 5 + 1), "1.5")
            for i in range(600)
        ]
        db.apply({"t": rows}, cast=True)
        db.policy.read_here = 0
        db.sync()
        assert len([*(out / "current").glob("*.parquet")]) >= 8
        new = [(1, "new", day.format(9), "2")]
        db.apply({"t": hw.Delta(inserts=new, deletes=rows[5:9])}, cast=True)
        db.sync()
        read = spark.read.parquet(f"{out}/current")
        assert Counter(read.collect()) == Counter(db["v"].snapshot().collect())
        assert not [*out.glob(".*")]
