"""Feeds of real Delta tables, compared with the table itself after every pull."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from delta_stories import SCHEMA, Table
from headwater.engine.change import FOLDER
from headwater.errors import BadChange, FeedAway, FeedLost, QueryError, StageFailed
from headwater.feeds.feed import Declared, Limit
from headwater.io.rows import Parts
from headwater.language.schema import columns
from taken import Taken

pytest.importorskip("deltalake")

from deltalake import DeltaTable, write_deltalake

from headwater.feeds.delta import DeltaFeed, check


def feed_of(path: Path, schema: str = SCHEMA, **options: str) -> DeltaFeed:
    return DeltaFeed(Declared("t", columns(schema), (), str(path), options))


@pytest.mark.parametrize("parts", [False, True], ids=["one part", "in parts"])
@pytest.mark.parametrize("fed", [True, False], ids=["change feed", "by files"])
def test_a_table_through_random_versions(tmp_path: Path, fed: bool, parts: bool) -> None:
    table = Table(tmp_path / "t", random.Random(f"{fed} {parts}"), fed, parts)
    feed, taken = feed_of(tmp_path / "t"), Taken()
    for n in range(25):
        taken.pull(feed, Limit(rows=random.Random(n).choice([1, 1000])))
        assert Counter(taken.rows) == table.counted(), f"version {taken.cursor}"
        for _ in range(1 + n % 2):
            table.change(column=n == 12)
    assert taken.cursor["version"] >= 30


def write(path: Path, ids: list[int], **options: Any) -> None:
    write_deltalake(str(path), pa.table({"id": pa.array(ids, pa.int32())}), **options)


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t"
    check(feed_of(path, "id int").declared)  # a table that is not there yet
    with pytest.raises(FeedAway, match="there is no Delta table at"):
        feed_of(path, "id int").read(None, Limit())
    write(path, [1])
    with pytest.raises(QueryError, match="no column `s`"):
        check(feed_of(path, "id int, s string").declared)
    feed, taken = feed_of(path, "id int"), Taken()
    taken.pull(feed)
    wider = pa.table({"id": pa.array([2], pa.int32()), "more": ["x"]})
    write_deltalake(str(path), wider, mode="append", schema_mode="merge")
    with pytest.raises(BadChange, match="a column `more`, which the source has not"):
        feed_of(path, "id int", new_columns="stop").read(taken.cursor, Limit())
    taken.pull(feed)
    DeltaTable(str(path)).delete("id = 1")
    DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(FeedLost, match="version 2 was cleaned up"):
        feed.read(taken.cursor, Limit())
    shutil.rmtree(path)
    with pytest.raises(FeedLost, match=r"there is no Delta table at .* any more"):
        feed.read(taken.cursor, Limit())
    write(path, [1])
    with pytest.raises(FeedLost, match="it was made anew"):
        feed.read(taken.cursor, Limit())


def test_a_log_that_was_cleaned_up_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, [1])
    feed, taken = feed_of(path, "id int"), Taken()
    taken.pull(feed)
    for n in range(3):
        write(path, [n], mode="append")
    DeltaTable(str(path)).create_checkpoint()
    for n in range(3):
        (path / "_delta_log" / f"{n:020d}.json").unlink()
    with pytest.raises(FeedLost, match="not kept any more"):
        feed.read(taken.cursor, Limit())


def test_a_change_feed_that_was_cleaned_up_is_read_from_files_and_a_damaged_one_is_told(
    tmp_path: Path,
) -> None:
    """Only what is not there is looked for elsewhere."""
    path = tmp_path / "t"
    write(path, [1, 2, 3], configuration={"delta.enableChangeDataFeed": "true"})
    feed, taken = feed_of(path, "id int"), Taken()
    taken.pull(feed)
    DeltaTable(str(path)).delete("id = 1")
    shutil.rmtree(path / "_change_data")
    taken.pull(feed)
    assert sorted(taken.rows) == [(2,), (3,)]
    DeltaTable(str(path)).delete("id = 2")
    (damaged,) = (path / "_change_data").glob("*.parquet")
    damaged.write_bytes(b"PAR1 this is none PAR1")
    with pytest.raises(FeedAway, match=r"version 2 of the Delta table of `t` cannot be read: .*"):
        feed.read(taken.cursor, Limit())
    shutil.rmtree(path / "_change_data")
    taken.pull(feed)
    assert sorted(taken.rows) == [(3,)]


def test_a_table_that_is_gone_holds_its_source_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, [1, 2])
    with hw.open(tmp_path / "db") as db:
        db.source("t", "id INT", format="delta", path=str(path))
        db.source("u", "id INT", feed=[(7,)])
        db.run()
        path.rename(tmp_path / "gone")
        with pytest.raises(
            StageFailed, match=r"`t` is held: .*there is no Delta table at .* any more"
        ):
            db.run()
        (tmp_path / "gone").rename(path)
        write(path, [3], mode="append")
        db.run()
        assert sorted(r["id"] for r in db.table("t").to_pylist()) == [1, 2, 3]


def test_a_large_copy_is_one_version_and_put_down_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that dies before its commit is made again, with no row lost or doubled and nothing left of the first."""
    monkeypatch.setattr("headwater.feeds.copying.PART", 4000)
    monkeypatch.setattr("headwater.feeds.delta.BATCH", 300)
    path = tmp_path / "t"
    for n in range(4):
        write(path, [*range(n * 1000, n * 1000 + 1000)], mode="append")
    declared = Declared("t", columns("id int"), (), str(path), home=str(tmp_path / "beside"))
    read = DeltaFeed(declared).read(None, Limit())
    assert read is not None and isinstance(read.rows, Parts) and len(read.rows.tables) > 3
    for key in ((), ("id",)):
        home = tmp_path / f"db{len(key)}"
        with hw.open(home) as db:
            db.source("t", "id INT", key=list(key) or None, format="delta", path=str(path))
            with monkeypatch.context() as m, pytest.raises(RuntimeError, match="dies here"):
                m.setattr("headwater.api.applying.replaced_by_key", dies)
                db.run()
            assert db.table("t").num_rows == 0 and not list((home / FOLDER).glob("*"))
        with hw.open(home) as db:
            db.source("t", "id INT", key=list(key) or None, format="delta", path=str(path))
            before = db.version
            db.run()
            assert db.version == before + 1
            assert sorted(r["id"] for r in db.table("t").to_pylist()) == [*range(4000)]
            assert not list((home / FOLDER).glob("*"))


def dies(*_: Any) -> Any:
    raise RuntimeError("the process dies here")
