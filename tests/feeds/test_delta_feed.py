"""Feeds of real Delta tables, compared with the table itself after every pull."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from delta_stories import SCHEMA, Table
from headwater.errors import BadChange, FeedAway, FeedLost, QueryError
from headwater.feeds.feed import Declared, Limit
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
    with pytest.raises(FeedAway, match="there is no Delta table"):
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
