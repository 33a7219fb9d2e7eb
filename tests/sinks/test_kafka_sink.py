"""Sinks that write topics of a real broker; what a reader has that takes all committed records is the view."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import QueryError, SinkAway
from headwater.feeds.feed import Declared
from headwater.language.schema import columns
from kafka_broker import kafka
from taken import Taken
from view_changes import changed, view_of

CASES = {
    "upserts": ("by key", "upsert", "a string, n bigint, total bigint", ("a",)),
    "events by key": (
        "by a key that is never NULL",
        "debezium",
        "a string, n bigint, total bigint",
        ("a",),
    ),
    "events": ("rows", "debezium", "a string, x int", ()),
}


@pytest.mark.parametrize("case", CASES)
def test_who_reads_the_topic_has_the_view(case: str, tmp_path: Path) -> None:
    from headwater.feeds.kafka import KafkaFeed  # its library may be missing

    view, records, schema, key = CASES[case]
    topic = case.replace(" ", "-")
    kafka().topic(topic, 3)
    options = {"servers": kafka().address, "topic": topic, "records": records}
    read = Declared(topic, columns(schema), key, options={**options, "records": records})
    feed = KafkaFeed(read)

    taken = Taken(key)

    def declare(db: Any) -> None:
        db.sink("kept", "v", format="kafka", options=options)

    for db in changed(tmp_path / "db", view, declare, steps=9):
        taken.pull(feed)
        found = Counter(taken.rows.values()) if key else Counter(taken.rows)
        assert found == view_of(db, "v")
    feed.close()


def test_the_whole_view_again_has_tombstones(tmp_path: Path) -> None:
    from headwater.feeds.kafka import KafkaFeed  # its library may be missing

    kafka().topic("again", 2)
    options = {"servers": kafka().address, "topic": "again"}
    db = hw.open(tmp_path / "db")
    db.source("t", "a string")
    db.view("v", "SELECT a, count(*) AS n FROM t GROUP BY a")
    db.sink("again", "v", format="kafka", options=options)
    db.apply({"t": [("x",), ("y",)]})
    db.run()
    db.apply({"t": hw.Delta(deletes=[("x",)], inserts=[("z",)])})
    db.view("v", "SELECT a, 1 + count(*) AS n FROM t GROUP BY a", replace=True)
    db.run()
    taken = Taken(("a",))
    declared = Declared(
        "again", columns("a string, n bigint"), ("a",), options={**options, "records": "upsert"}
    )
    taken.pull(KafkaFeed(declared))
    assert set(taken.rows.values()) == {("y", 2), ("z", 2)}
    db.close()


def test_what_is_wrong_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.sinks.kafka._PATIENCE", 1.0)
    db = hw.open(tmp_path / "db")
    db.source("t", "a string")
    db.view("v", "SELECT * FROM t")
    with pytest.raises(QueryError, match="have no key"):
        db.sink("rows", "v", format="kafka", options={"servers": kafka().address})
    options = {"servers": "127.0.0.1:1", "records": "debezium"}
    db.sink("far", "v", format="kafka", options=options)
    with pytest.raises(SinkAway, match="does not take records"):
        db.sync("far")
    db.close()
