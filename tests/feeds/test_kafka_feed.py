"""Feeds of a real Kafka broker, compared with plain dicts."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from debezium_stories import SCHEMA, events
from headwater.errors import BadChange, FeedAway, FeedLost, HeadwaterError, QueryError
from headwater.feeds.feed import Declared, Limit
from headwater.feeds.kafka import KafkaFeed, check
from headwater.language.schema import columns
from kafka_broker import kafka
from taken import Taken


def feed_of(
    topic: str, schema: str = "id int, s string", key: tuple[str, ...] = (), /, **options: Any
) -> KafkaFeed:
    given = {"servers": kafka().address, **{k: str(v) for k, v in options.items()}}
    bad = given.pop("bad", "stop")
    return KafkaFeed(Declared(topic, columns(schema), key, options=given, bad=bad))


def dumped(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value).encode()


def test_rows_as_json_are_added_once_in_batches_of_any_size() -> None:
    kafka().topic("rows", 3)
    sent = [{"id": i, "s": f"x{i % 7}", "more": 1} for i in range(300)]
    kafka().send("rows", [(None, dumped(r), i % 3) for i, r in enumerate(sent)])
    feed, taken = feed_of("rows"), Taken()
    for n in (1, 10, 100):
        taken.pull(feed, Limit(rows=n), batches=2)
        feed.close()  # another process goes on at the cursor
    taken.pull(feed)
    assert taken.rows == {(r["id"], r["s"]): 1 for r in sent}
    assert taken.cursor["offsets"] == {"0": 100, "1": 100, "2": 100}
    kafka().send("rows", [(None, dumped({"id": 1000, "s": None}), 1)])
    taken.pull(feed)
    assert taken.rows[(1000, None)] == 1


def test_upserts_and_tombstones() -> None:
    kafka().topic("upserts", 2)
    rng, there = random.Random(1), dict[int, str]()
    feed, taken = feed_of("upserts", "id int, s string", ("id",), records="upsert"), Taken(("id",))
    for _ in range(8):
        sent = []
        for _ in range(50):
            i = rng.randrange(30)
            if rng.random() < 0.3:
                there.pop(i, None)
                value = None
            else:
                there[i] = f"v{rng.randrange(100)}"
                value = {"s": there[i]} if i % 2 else {"id": i, "s": there[i]}
            key = {"id": i} if i % 3 else i
            sent.append((dumped(key), dumped(value), i % 2))
        kafka().send("upserts", sent)
        taken.pull(feed)
        assert taken.rows == {(i,): (i, s) for i, s in there.items()}


def seen(table: dict[int, tuple[Any, ...]]) -> dict[Any, Any]:
    """A table of the stories as a source has it."""
    start = datetime(1970, 1, 1)
    return {
        (i,): (i, name, Decimal(price), start + timedelta(microseconds=at))
        for i, (_, name, price, at) in table.items()
    }


@pytest.mark.parametrize("key", [("id",), ()])
def test_debezium_with_records_that_come_again(key: tuple[str, ...]) -> None:
    kafka().topic("changes", 4)
    sent, table = events(3000, 4, random.Random(2), ids=100)
    kafka().send("changes", sent)
    taken = Taken(key)
    for n in range(10):
        feed = feed_of("changes", SCHEMA, key, records="debezium", time_unit="micros")
        taken.pull(feed, Limit(rows=400), batches=1 if n < 9 else 100)
        feed.close()
    wanted = seen(table)
    assert taken.rows == (wanted if key else {r: 1 for r in wanted.values()})
    assert len(sent) > 3000, "some records come again"


def test_debezium_with_schemas() -> None:
    kafka().topic("schemas")
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "d", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "t", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {"field": "ms", "type": "int64", "name": "io.debezium.time.Timestamp"},
        {
            "field": "n",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
    ]
    row = {"id": 1, "d": 19000, "t": 1_600_000_000_123_456, "ms": 1_600_000_000_123, "n": "AN3V"}
    schema = {"fields": [{"field": "after", "type": "struct", "fields": fields}]}
    source = {"file": "bin.1", "pos": 7}
    payload = {"before": None, "after": row, "op": "r", "source": source}
    kafka().send("schemas", [(b"1", dumped({"schema": schema, "payload": payload}), 0)])
    declared = "id int, d date, t timestamp_ntz, ms timestamp, n decimal(8, 2)"
    taken = Taken(("id",))
    taken.pull(feed_of("schemas", declared, ("id",), records="debezium"))
    ((found),) = taken.rows.values()
    assert found[1:3] == (datetime(2022, 1, 8).date(), datetime(2020, 9, 13, 12, 26, 40, 123456))
    assert found[3].timestamp() == 1_600_000_000.123 and found[4] == Decimal("567.89")


def test_bad_records_stop_or_are_set_aside_with_their_place() -> None:
    kafka().topic("bad")
    good, broken = dumped({"id": 1, "s": "a"}), b"{not json"
    sent = [good, broken, dumped({"id": "x", "s": "b"}), dumped([1]), good]
    kafka().send("bad", [(None, v, 0) for v in sent])
    with pytest.raises(BadChange, match=r"bad, partition 0, offset 1.*no JSON"):
        feed_of("bad").read(None, Limit())
    batch = feed_of("bad", bad="aside").read(None, Limit())
    assert batch is not None and batch.rejected is not None
    assert batch.rows.num_rows == 2
    places = sorted(p.rpartition(" ")[2] for p in batch.rejected["place"].to_pylist())
    assert places == ["1", "2", "3"]
    new = feed_of("bad", "id int", bad="aside", new_columns="stop").read(None, Limit())
    assert new is not None and new.rejected is not None and new.rejected.num_rows == 5


def test_a_group_is_told_and_is_not_asked() -> None:
    from confluent_kafka import (  # the library is skipped where it is missing
        Consumer,
        TopicPartition,
    )

    kafka().topic("told")
    kafka().send("told", [(None, dumped({"id": i}), 0) for i in range(5)])
    feed, taken = feed_of("told", "id int", group="readers"), Taken()
    taken.pull(feed)
    feed.close()
    consumer = Consumer({"bootstrap.servers": kafka().address, "group.id": "readers"})
    assert consumer.committed([TopicPartition("told", 0)], timeout=10)[0].offset == 5
    consumer.close()
    again = Taken()
    again.pull(feed_of("told", "id int", group="readers"))
    assert again.rows == taken.rows


def test_what_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(kind: type[HeadwaterError], said: str, after: Any = None, **options: Any) -> None:
        with pytest.raises(kind, match=said) as e:
            feed_of("wrong", "id int", **options).read(after, Limit(seconds=0.5))
        assert e.value.hint

    kafka().topic("wrong")
    kafka().send("wrong", [(None, dumped({"id": i}), 0) for i in range(5)])
    feed, taken = feed_of("wrong", "id int"), Taken()
    taken.pull(feed)
    told(FeedAway, "does not answer", servers="127.0.0.1:1")
    told(FeedAway, "there is no topic `nowhere`", topic="nowhere")
    told(FeedLost, "the next records .* are gone", {**taken.cursor, "offsets": {"0": 99}})
    told(FeedLost, "is not the one", {**taken.cursor, "topic": "other"})
    kafka().topic("wrong")
    kafka().send("wrong", [(None, dumped({"id": i}), 0) for i in range(9)])
    told(FeedLost, "is not the one", taken.cursor)
    with pytest.raises(QueryError, match="upserts, and it has no key"):
        check(feed_of("wrong", "id int", records="upsert").declared)
