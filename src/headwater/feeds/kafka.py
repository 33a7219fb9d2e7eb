"""A topic of Kafka as a feed: rows as JSON, upserts with tombstones, or what Debezium tells of a table.

    json       a record's value is a row, which is added
    upsert     a record's value takes the place of the row with its key; one without a value takes that row away
    debezium   `feeds/debezium`: rows that came, changed and went; with a key as upserts, without one by whole rows

The cursor has the next offset of every partition and the topic's id, and nobody else's memory is asked: a group (option
`group`) is only told how far the source is. Records of transactions that were not committed are not seen. A topic that was made
anew, or whose next records were deleted, is lost. Partitions that are added are read from their first record.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from headwater.errors import FeedAway, FeedLost, QueryError
from headwater.feeds.debezium import Event, Malformed, read_event
from headwater.feeds.feed import Batch, Cursor, Declared, Limit
from headwater.feeds.fitting import Bad, fitted, reader, told
from headwater.feeds.kafka_server import configuration
from headwater.feeds.net import Net, by_key
from headwater.feeds.new_columns import ADD, check_record
from headwater.plan.program import WEIGHT

AT_ONCE = 5_000
"""How many records the library gives at a time."""
LOOK_AGAIN = 30.0
"""Seconds after which partitions are counted again."""
GONE = (
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)
LOG = logging.getLogger("headwater.kafka")


def check(declared: Declared) -> None:
    """Raises where records of the kind cannot be rows of the source."""
    records = declared.options.get("records", "json")
    if records == "upsert" and not declared.key:
        raise QueryError(
            f"the records of `{declared.name}` are upserts, and it has no key",
            hint="give the source a key, or records=json",
        )
    if records == "debezium" and declared.options.get("new_columns") == ADD:
        raise QueryError(
            f"the columns of `{declared.name}` are told by Debezium in types of its own, and not added by themselves",
            hint="leave new_columns=add out, and declare the source again with a new column",
        )


class KafkaFeed:
    """Gives the records of a topic as rows."""

    replays = True

    def __init__(self, declared: Declared):
        o = declared.options
        self.declared, self.name, self.key = declared, declared.name, tuple(declared.key or ())
        self.topic = o.get("topic", declared.name)
        self.records = o.get("records", "json")
        self.group = o.get("group")
        self.configuration = {
            **configuration(o),
            "group.id": self.group or f"headwater-{declared.name}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": False,
            "fetch.wait.max.ms": 20,
            "topic.metadata.refresh.interval.ms": 5_000,
        }
        self.load = reader(declared.row)
        self.consumer: Consumer | None = None
        self.at: dict[int, int] = {}
        self.ended: set[int] = set()
        self.id: str | None = None
        self.looked = 0.0

    # --- the topic -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leaves the broker."""
        if self.consumer is not None:
            self.consumer.close()
        self.consumer, self.at, self.ended = None, {}, set()

    def committed(self, cursor: Cursor) -> None:
        """Tells the group how far the source is, where one is named."""
        if self.group is None or self.consumer is None:
            return
        offsets = [TopicPartition(self.topic, int(p), o) for p, o in cursor["offsets"].items()]
        with self._telling():
            self.consumer.commit(offsets=offsets, asynchronous=True)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Says what is wrong with a broker; after an error the next read connects again."""
        try:
            yield
        except KafkaException as e:
            self.close()
            raise self._told(e.args[0]) from None
        except (FeedAway, FeedLost):
            self.close()
            raise

    def _told(self, e: KafkaError) -> FeedAway | FeedLost:
        if e.code() in GONE:
            return FeedLost(
                f"the next records of the topic `{self.topic}` are gone: {e.str()}",
                hint=f"they were deleted before `{self.name}` read them: drop the source and declare it again",
            )
        hint = "it is tried again; look at `servers`, and whether the broker runs"
        if e.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
            hint = "declare the source again with the right `username` and `password`"
        return FeedAway(
            f"the Kafka of `{self.name}` at {self.declared.options['servers']} does not answer: {e.str()}",
            hint=hint,
        )

    def _open(self, after: Cursor, patience: float) -> Consumer:
        """A consumer that stands behind the cursor."""
        if self.consumer is None:
            self.consumer = Consumer(self.configuration, logger=LOG)
            self.looked = 0.0
        wanted = {} if after is None else {int(p): int(o) for p, o in after["offsets"].items()}
        now = time.monotonic()
        if now - self.looked > LOOK_AGAIN:
            partitions = self._look(after, max(patience, 5.0))
            self.looked = now
        else:
            partitions = set(self.at)
        for p in partitions - wanted.keys():
            late = after is None and self.declared.options.get("start") == "latest"
            wanted[p] = self._edge(p, OFFSET_END if late else OFFSET_BEGINNING)
        if wanted != self.at:
            self.consumer.assign([TopicPartition(self.topic, p, o) for p, o in wanted.items()])
            self.at, self.ended = wanted, set()
        return self.consumer

    def _look(self, after: Cursor, patience: float) -> set[int]:
        """The partitions that there are; raises where the topic is not the one of the cursor."""
        assert self.consumer is not None
        found = self.consumer.list_topics(self.topic, timeout=patience).topics[self.topic]
        if found.error is not None:
            if found.error.code() not in GONE:
                raise KafkaException(found.error)
            there = f"there is no topic `{self.topic}` at {self.declared.options['servers']}"
            if after is None:
                raise FeedAway(there, hint="make it, or give the option `topic`")
            raise FeedLost(there + " any more", hint="drop the source and declare it again")
        self.id = self._topic_id(patience)
        if after is not None and (after.get("topic"), after.get("id") or self.id) != (
            self.topic,
            self.id or after.get("id"),
        ):
            raise FeedLost(
                f"the topic `{self.topic}` is not the one that `{self.name}` was read from: that was `{after.get('topic')}`, made before",
                hint="drop the source and declare it again",
            )
        return set(found.partitions)

    def _topic_id(self, patience: float) -> str | None:
        """The id of the topic, which one of the same name that is made later does not have; None from an old broker."""
        kept = ("bootstrap.servers", "security.protocol", "sasl.", "ssl.")
        admin = AdminClient(
            {k: v for k, v in self.configuration.items() if k.startswith(kept)}, logger=LOG
        )
        try:
            asked = admin.describe_topics(TopicCollection([self.topic]), request_timeout=patience)
            return str(asked[self.topic].result(patience).topic_id)
        except (KafkaException, AttributeError):
            return None

    def _edge(self, partition: int, which: int) -> int:
        """The first or the next offset of a partition."""
        assert self.consumer is not None
        low, high = self.consumer.get_watermark_offsets(
            TopicPartition(self.topic, partition), timeout=10
        )
        return int(low if which == OFFSET_BEGINNING else high)

    # --- batches -------------------------------------------------------------------------------------------------

    def read(self, after: Cursor, limit: Limit) -> Batch | None:
        """The records behind the cursor, as many as come until all partitions are at their end."""
        with self._telling():
            found = self._records(self._open(after, limit.seconds), limit)
        if not found:
            if after is None and self.declared.options.get("start") == "latest":
                return self._batch([], self._cursor(after, {}))  # where it began is remembered
            return None
        return self._batch(found, after)

    def _cursor(self, after: Cursor, positions: dict[str, Any]) -> dict[str, Any]:
        cursor: dict[str, Any] = {"topic": self.topic, "id": self.id}
        cursor["offsets"] = {str(p): o for p, o in sorted(self.at.items())}
        if after is not None and after.get("id") and self.id is None:
            cursor["id"] = after["id"]
        if positions:
            cursor["positions"] = positions
        return cursor

    def _records(self, consumer: Consumer, limit: Limit) -> list[Any]:
        """What the broker has: until a limit is reached, or nothing is left."""
        out: list[Any] = []
        size, end = 0, time.monotonic() + limit.seconds
        while len(out) < limit.rows and size < limit.bytes:
            left = end - time.monotonic()
            if left <= 0:
                break
            some = consumer.consume(min(AT_ONCE, limit.rows - len(out)), min(left, 0.05))
            for m in some:
                error, partition, offset = m.error(), m.partition() or 0, m.offset() or 0
                if error is None:
                    out.append(m)
                    size += len(m.value() or b"")
                    self.at[partition] = offset + 1
                    self.ended.discard(partition)
                elif error.code() == KafkaError._PARTITION_EOF:
                    self.ended.add(partition)
                    # Marks of transactions take offsets, too.
                    self.at[partition] = max(self.at[partition], offset)
                elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise KafkaException(error)
                elif error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                    if not out:
                        raise KafkaException(error)
            if self.ended >= self.at.keys():
                break
        return out

    def _batch(self, found: list[Any], after: Cursor) -> Batch:
        """The records as rows, and the cursor behind them."""
        bad: list[Bad] = []
        positions: dict[str, Any] = dict((after or {}).get("positions") or {})
        if self.records == "json":
            values, places = [], []
            for m in found:
                value = self._json(m, m.value(), bad)
                if value is not None:
                    values.append(value)
                    places.append(self._where(m))
            rows, _ = fitted(self.declared, values, places, bad)
            return Batch(rows, self._cursor(after, positions), rejected=told(self.declared, bad))
        net = Net[tuple[dict[str, Any], str]](bool(self.key))
        for m in found:
            if self.records == "upsert":
                self._upsert(m, net, bad)
            else:
                self._event(m, net, positions, bad)
        return self._netted(net, self._cursor(after, positions), bad)

    def _netted(
        self, net: Net[tuple[dict[str, Any], str]], cursor: Cursor, bad: list[Bad]
    ) -> Batch:
        if not self.key:
            weighted = net.weighted()
            rows, kept = fitted(
                self.declared, [r for (r, _), _ in weighted], [p for (_, p), _ in weighted], bad
            )
            weights = pa.array([weighted[i][1] for i in kept], pa.int64())
            given: Any = rows.append_column(WEIGHT, weights)
        else:
            puts = net.puts()
            rows, _ = fitted(self.declared, [r for r, _ in puts], [p for _, p in puts], bad)
            gone = [dict(zip(self.key, k, strict=True)) for k in net.gone()]
            deletes, _ = fitted(self.declared, gone, ["a deletion"] * len(gone), bad, self.key)
            given = rows if net.whole else by_key(self.declared.row, self.key, rows, deletes)
        return Batch(given, cursor, rejected=told(self.declared, bad), whole=net.whole)

    def _where(self, m: Any) -> str:
        return f"{self.topic}, partition {m.partition()}, offset {m.offset()}"

    def _json(self, m: Any, data: bytes | None, bad: list[Bad]) -> dict[str, Any] | None:
        """A row as a JSON object."""
        try:
            found = self.load(data or b"")
        except ValueError as e:
            bad.append(Bad(_shown(data), self._where(m), f"it is no JSON: {e}"))
            return None
        if not isinstance(found, dict):
            bad.append(Bad(_shown(data), self._where(m), "it is no JSON object"))
            return None
        return self._known(m, found, data, bad)

    def _known(
        self, m: Any, found: dict[str, Any], data: bytes | None, bad: list[Bad]
    ) -> dict[str, Any] | None:
        """A row with the source's columns; others are passed over, do not fit, or are to be added, as the source was declared."""
        if self.declared.options.get("new_columns") == ADD:
            plain = json.loads(data or b"null")  # in which fractions are numbers
            check_record(self.name, self.declared.row, plain if isinstance(plain, dict) else found)
        if self.declared.options.get("new_columns") == "stop":
            new = found.keys() - {n for n, _ in self.declared.row.fields}
            if new:
                why = f"it has `{min(new)}`, which `{self.name}` has not"
                bad.append(Bad(_shown(data), self._where(m), why))
                return None
        return found

    def _upsert(self, m: Any, net: Net[Any], bad: list[Bad]) -> None:
        """A row by its key, which is in its value, or in the record's key."""
        row: dict[str, Any] | None = {}
        if m.value() is not None:
            row = self._json(m, m.value(), bad)
            if row is None:
                return
        assert row is not None
        if m.value() is None or not all(k in row for k in self.key):
            try:
                key = self.load(m.key() or b"null")
            except ValueError:
                key = (m.key() or b"").decode("utf-8", "replace")  # a plain text is its own value
            if not isinstance(key, dict):
                key = {self.key[0]: key} if len(self.key) == 1 and key is not None else {}
            if not all(k in key for k in self.key):
                why = f"neither its value nor its key has {', '.join(self.key)}"
                bad.append(Bad(_shown(m.key()), self._where(m), why))
                return
            row = {**row, **{k: key[k] for k in self.key}}
        at = tuple(row[k] for k in self.key)
        if m.value() is None:
            net.delete(at)
        else:
            net.put(at, (row, self._where(m)))

    def _event(self, m: Any, net: Net[Any], positions: dict[str, Any], bad: list[Bad]) -> None:
        """What Debezium tells of a row."""
        if m.value() is None:  # the tombstone behind a deletion
            return
        try:
            event = read_event(
                json.loads(m.value(), parse_float=str),
                self.declared.row,
                self.declared.options.get("time_unit"),
            )
        except (Malformed, ValueError) as e:
            bad.append(Bad(_shown(m.value()), self._where(m), str(e)))
            return
        if event is None or not self._is_new(event, str(m.partition()), positions):
            return
        where, before, after = self._where(m), event.before, event.after
        for side in (before, after):
            if side is not None and self._known(m, side, m.value(), bad) is None:
                return
        if event.op == "t":
            net.truncate()
        elif not self.key:
            if event.op in ("u", "d") and not self._is_whole(before):
                why = "it does not tell the whole row before, which a source without a key needs"
                bad.append(Bad(_shown(m.value()), where, why))
                return
            if before is not None and event.op in ("u", "d"):
                net.delete(None, (before, where))
            if after is not None and event.op != "d":
                net.insert(None, (after, where))
        else:
            self._by_key(m, event, net, bad)

    def _by_key(self, m: Any, event: Event, net: Net[Any], bad: list[Bad]) -> None:
        told_ = event.before if event.op == "d" else event.after
        at = None if told_ is None else tuple(told_.get(k) for k in self.key)
        if at is None or None in at:
            why = f"it does not tell {', '.join(self.key)}"
            bad.append(Bad(_shown(m.value()), self._where(m), why))
        elif event.op == "d":
            net.delete(at)
        else:
            if event.before is not None and all(k in event.before for k in self.key):
                was = tuple(event.before[k] for k in self.key)
                if was != at and None not in was:
                    net.delete(was)
            net.put(at, (event.after, self._where(m)))

    def _is_whole(self, row: dict[str, Any] | None) -> bool:
        return row is not None and all(n in row for n, _ in self.declared.row.fields)

    def _is_new(self, event: Event, partition: str, positions: dict[str, Any]) -> bool:
        """Whether a record was not told before, by its place in the log of its source."""
        if event.position is None:
            return True
        last = positions.get(partition)
        now = list(event.position)
        if event.op != "r" and last is not None and len(last) == len(now):
            # A change of a key is two records at one place; with a key both may come again.
            if now < last or (now == last and not self.key):
                return False
        positions[partition] = now
        return True


def _shown(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")
