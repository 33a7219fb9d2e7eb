"""What changed of a view as records of a topic, each version in one transaction of Kafka.

    upsert     a record of each key that changed: its row, or no value where it went (the view needs a key)
    debezium   Debezium's envelope: `op` c, u, d with the rows before and after; t where the whole view follows, as r. All are in
               partition 0, as what follows a t must come behind it

The place that the topic is at is a record of the topic `headwater-places`, in the same transaction, so a process that is killed
leaves both or neither. A reader has to ask for committed records only (`isolation.level=read_committed`); then it sees
each change once, and of a version all or nothing. For upserts the last record of a key counts. Where the whole view is written
again, upserts have tombstones for the keys that the topic has and the view has not, for which the topic is read.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headwater.errors import QueryError, SinkAway, SinkError
from headwater.feeds.kafka_server import configuration
from headwater.plan.program import WEIGHT
from headwater.sinks.by_key import put_and_gone
from headwater.sinks.jsonl import plain
from headwater.sinks.sink import Place, Rows, Target

PLACES = "headwater-places"
_PATIENCE = 20.0
LOG = logging.getLogger("headwater.kafka")


def check(target: Target) -> None:
    """Raises where records of the kind cannot tell the view."""
    if target.options.get("records", "upsert") == "upsert" and not target.key:
        raise QueryError(
            f"the records of `{target.sink}` are upserts, and the rows of `{target.view}` have no key",
            hint="give the option records=debezium",
        )


def make(target: Target) -> KafkaSink:
    """The sink that writes a topic."""
    return KafkaSink(target)


class KafkaSink:
    """A topic that tells what changed of a view."""

    by_version = False

    def __init__(self, target: Target):
        self.target = target
        self.topic = target.options.get("topic", target.sink)
        self.records = target.options.get("records", "upsert")
        self.configuration = configuration(target.options)
        self.names, self.key = list(target.schema.names), target.key
        self.producer: Producer | None = None

    def close(self) -> None:
        """Leaves the broker; a transaction that is open ends as if it had not begun."""
        self.producer = None

    # --- topics --------------------------------------------------------------------------------------------------

    def place(self) -> Place | None:
        """The last place that was written for the topic."""
        found = None
        with self._telling():
            self._topics()
            # Whoever was killed in a transaction is shut out first, and its records are none.
            self._writer()
            for key, value in self._records(PLACES):
                if key == self.topic.encode() and value is not None:
                    found = Place.of_data(json.loads(value))
        return found

    def _topics(self) -> None:
        """Makes the topics that are missing."""
        admin = AdminClient(self.configuration, logger=LOG)
        there = admin.list_topics(timeout=_PATIENCE).topics
        compact = {"cleanup.policy": "compact"}
        missing = [NewTopic(PLACES, 1, config=compact)] if PLACES not in there else []
        if self.topic not in there:
            config = compact if self.records == "upsert" else {}
            missing.append(NewTopic(self.topic, 1, config=config))
        if missing:
            for done in admin.create_topics(missing).values():
                with contextlib.suppress(KafkaException):  # somebody else made it
                    done.result(_PATIENCE)
            until = time.monotonic() + _PATIENCE
            while {t.topic for t in missing} - admin.list_topics(timeout=_PATIENCE).topics.keys():
                if time.monotonic() > until:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                time.sleep(0.05)

    def _records(self, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
        """All committed records of a topic."""
        consumer = Consumer(
            {
                **self.configuration,
                "group.id": "headwater",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            },
            logger=LOG,
        )
        try:
            found = consumer.list_topics(topic, timeout=_PATIENCE).topics[topic]
            consumer.assign([TopicPartition(topic, p, 0) for p in found.partitions])
            left, until = set(found.partitions), time.monotonic() + _PATIENCE
            while left:
                some = consumer.consume(5_000, 0.1)
                for m in some:
                    error = m.error()
                    if error is None:
                        yield m.key(), m.value()
                    elif error.code() == KafkaError._PARTITION_EOF:
                        left.discard(m.partition() or 0)
                    else:
                        raise KafkaException(error)
                until = time.monotonic() + _PATIENCE if some else until
                if time.monotonic() > until:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        finally:
            consumer.close()

    def _writer(self) -> Producer:
        """A producer of transactions; who had the same name before is shut out."""
        if self.producer is None:
            made = Producer(
                {
                    **self.configuration,
                    "transactional.id": f"headwater-{self.topic}",
                    "linger.ms": 5,
                    "transaction.timeout.ms": 60_000,
                },
                logger=LOG,
            )
            made.init_transactions(_PATIENCE)
            self.producer = made
        return self.producer

    # --- records -------------------------------------------------------------------------------------------------

    def write(self, changes: pa.Table, place: Place) -> None:
        """The records of what changed, and the place, in one transaction."""
        with self._telling():
            self._transaction(self._changed(changes, place), place)

    def replace(self, rows: Rows, place: Place) -> None:
        """The records of the whole view, and the place, in one transaction."""
        with self._telling():
            self._transaction(self._whole(rows, place), place)

    def _transaction(
        self, records: Iterator[tuple[bytes, bytes | None, int]], place: Place
    ) -> None:
        writer = self._writer()
        writer.begin_transaction()
        try:
            for key, value, partition in records:
                self._send(writer, self.topic, key, value, partition)
            data = json.dumps(place.as_data()).encode()
            self._send(writer, PLACES, self.topic.encode(), data, 0)
            writer.commit_transaction(_PATIENCE)
        except BaseException:
            # Whatever went wrong: the next writer of this name ends what is open.
            self.producer = None
            raise

    def _send(
        self, writer: Producer, topic: str, key: bytes, value: bytes | None, partition: int
    ) -> None:
        while True:
            try:
                writer.produce(topic, value, key, partition)
                writer.poll(0)
                return
            except BufferError:
                writer.poll(0.1)

    def _changed(
        self, changes: pa.Table, place: Place
    ) -> Iterator[tuple[bytes, bytes | None, int]]:
        if self.key is None:
            n = 0
            for row, w in _weighted(changes, self.names):
                for _ in range(abs(w)):
                    op = "c" if w > 0 else "d"
                    yield _bytes(row), self._event(op, row, row, place, n), 0
                    n += 1
            return
        put, gone = put_and_gone(changes, self.key)
        before = {self._key(r): r for r, w in _weighted(changes, self.names) if w < 0}
        rows = [(r, "d") for r, _ in _weighted(gone, self.names)]
        rows += [(r, "u" if self._key(r) in before else "c") for r, _ in _weighted(put, self.names)]
        for n, (row, op) in enumerate(rows):
            key = self._key(row)
            if self.records == "upsert":
                yield key, None if op == "d" else _bytes(row), -1
            else:
                yield key, self._event(op, before.get(key), row, place, n), 0

    def _whole(self, rows: Rows, place: Place) -> Iterator[tuple[bytes, bytes | None, int]]:
        there: set[bytes] = set()
        n = 0
        if self.records == "upsert":
            for key, value in self._records(self.topic):
                if key is not None:
                    (there.discard if value is None else there.add)(key)
        else:
            yield b"{}", self._event("t", None, None, place, n), 0
        for piece in rows.tables():
            for row, w in _weighted(piece, self.names):
                for _ in range(w):
                    key = self._key(row) if self.key is not None else _bytes(row)
                    there.discard(key)
                    if self.records == "upsert":
                        yield key, _bytes(row), -1
                    else:
                        yield key, self._event("r", None, row, place, n), 0
                    n += 1
        for key in sorted(there):
            yield key, None, -1

    def _key(self, row: dict[str, Any]) -> bytes:
        return _bytes({k: row[k] for k in self.key or ()})

    def _event(
        self,
        op: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        place: Place,
        number: int,
    ) -> bytes:
        """An envelope; `sequence` rises from record to record."""
        source = {
            "connector": "headwater",
            "db": place.database,
            "table": place.view,
            "version": place.version,
            "sequence": json.dumps([str(place.version), str(number)]),
        }
        told = {
            "before": before if op in ("u", "d") else None,
            "after": after if op in ("c", "r", "u") else None,
            "op": op,
            "source": source,
        }
        return _bytes(told)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as e:
            self.producer = None
            error = e.args[0]
            kind = SinkError if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else SinkAway
            raise kind(
                f"the Kafka of `{self.target.sink}` at {self.target.options['servers']} does not take records: {error.str()}",
                hint="look at `servers`, `username` and `password`, and whether the broker runs and no other process writes this sink",
            ) from None


def _weighted(rows: pa.Table, names: list[str]) -> Iterator[tuple[dict[str, Any], int]]:
    """Rows in the form of JSON, with their weights."""
    for batch in rows.to_batches(10_000):
        weights = batch.column(WEIGHT).to_pylist()
        for row, w in zip(batch.select(names).to_pylist(), weights, strict=True):
            yield plain(row), w


def _bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
