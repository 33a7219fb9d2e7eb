"""Feeds: rows a second from each kind into a view, and the time from a commit of the source to ours.

Each source has the same rows, and the view is the same: rows and a sum by one of a thousand groups. Rows a second are those of a backlog
that `run` takes in; the copy is what a table has when it is declared. For latency a process that runs always is given one row
at a time, and the time is from before the source's commit until the version is there. Beside it stands Structured Streaming over
files of the same rows, with `foreachBatch` that merges sums into a Delta table: its sources for Kafka and Delta are packages of their own. Servers are those of the tests, on this machine.
"""

from __future__ import annotations

import json
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.oracles.kafka_broker import kafka
from tests.oracles.postgres_server import postgres
from tests.oracles.spark_session import session

import headwater as hw
from benchmarks.report import Report, number

SIZES = {"small": 2_000, "ordinary": 100_000, "full": 1_000_000}
GROUPS = 1_000
LATENCIES = 20
SCHEMA = "id BIGINT, g BIGINT, x BIGINT"
QUERY = "SELECT g, count(*) AS n, sum(x) AS total FROM s GROUP BY g"


def table(start: int, count: int) -> pa.Table:
    """Rows that are all different."""
    ids = list(range(start, start + count))
    return pa.table({"id": ids, "g": [i % GROUPS for i in ids], "x": [i % 97 for i in ids]})


class Fed:
    """A source of a kind: what it is declared as, how its backlog comes, and how one row does."""

    name = ""
    key: str | None = None

    def __init__(self, home: Path, rows: int):
        self.home, self.rows = home, rows

    def options(self) -> dict[str, Any]:
        raise NotImplementedError

    def backlog(self) -> None:
        raise NotImplementedError

    def one(self, i: int) -> None:
        raise NotImplementedError


class PostgresCopy(Fed):
    """A table that is there when the source is declared."""

    name, key = "postgres, the copy", "id"

    def __init__(self, home: Path, rows: int):
        super().__init__(home, rows)
        self.connection = postgres().connect()
        do = self.connection.execute
        slots = "SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'headwater_s'"
        do(f"SELECT pg_drop_replication_slot(slot_name) FROM ({slots}) found")
        do("DROP PUBLICATION IF EXISTS headwater_s")
        do("DROP TABLE IF EXISTS s")
        do("CREATE TABLE s (id bigint PRIMARY KEY, g bigint, x bigint)")

    def options(self) -> dict[str, Any]:
        return {"format": "postgres", "options": postgres().options}

    def _insert(self, start: int, count: int) -> None:
        made = f"INSERT INTO s SELECT i, i % {GROUPS}, i % 97 FROM generate_series({start}, {start + count - 1}) i"
        self.connection.execute(made)

    def backlog(self) -> None:
        self._insert(0, self.rows)

    def one(self, i: int) -> None:
        self._insert(self.rows + i, 1)


class PostgresChanges(PostgresCopy):
    """Transactions of a hundred rows, told by the slot."""

    name = "postgres, the slot"

    def backlog(self) -> None:
        for start in range(0, self.rows, 100):
            self._insert(start, min(100, self.rows - start))


class KafkaRows(Fed):
    """Rows as JSON in four partitions."""

    name, topic = "kafka, json", "bench-json"

    def __init__(self, home: Path, rows: int):
        super().__init__(home, rows)
        kafka().topic(self.topic, 4)

    def options(self) -> dict[str, Any]:
        return {"format": "kafka", "options": {"servers": kafka().address, "topic": self.topic}}

    def value(self, row: dict[str, Any]) -> Any:
        return row

    def _send(self, rows: list[dict[str, Any]]) -> None:
        sent = [(None, json.dumps(self.value(r)).encode(), r["id"] % 4) for r in rows]
        kafka().send(self.topic, sent)

    def backlog(self) -> None:
        self._send(table(0, self.rows).to_pylist())

    def one(self, i: int) -> None:
        self._send(table(self.rows + i, 1).to_pylist())


class KafkaChanges(KafkaRows):
    """Debezium's envelopes."""

    name, key, topic = "kafka, debezium", "id", "bench-debezium"

    def options(self) -> dict[str, Any]:
        given = {"servers": kafka().address, "topic": self.topic, "records": "debezium"}
        return {"format": "kafka", "options": given}

    def value(self, row: dict[str, Any]) -> Any:
        return {"before": None, "after": row, "op": "c", "source": {"lsn": row["id"] + 1}}


class Delta(Fed):
    """A Delta table with a change feed, of which each version has a tenth of the rows."""

    name = "delta"

    def __init__(self, home: Path, rows: int):
        super().__init__(home, rows)
        on = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(home / "t"), table(0, 0).cast(table(0, 1).schema), configuration=on)

    def options(self) -> dict[str, Any]:
        return {"format": "delta", "path": str(self.home / "t")}

    def backlog(self) -> None:
        for start in range(0, self.rows, max(1, self.rows // 10)):
            write_deltalake(str(self.home / "t"), table(start, self.rows // 10), mode="append")

    def one(self, i: int) -> None:
        write_deltalake(str(self.home / "t"), table(self.rows + i, 1), mode="append")


class Files(Fed):
    """Parquet files in a directory."""

    name = "parquet files"

    def __init__(self, home: Path, rows: int):
        super().__init__(home, rows)
        (home / "in").mkdir()

    def options(self) -> dict[str, Any]:
        return {"format": "parquet", "path": str(self.home / "in")}

    def _write(self, name: str, rows: pa.Table) -> None:
        pq.write_table(rows, self.home / f".{name}")
        (self.home / f".{name}").rename(self.home / "in" / name)

    def backlog(self) -> None:
        for n, start in enumerate(range(0, self.rows, max(1, self.rows // 10))):
            self._write(f"{n:06d}.parquet", table(start, self.rows // 10))

    def one(self, i: int) -> None:
        self._write(f"x{i:06d}.parquet", table(self.rows + i, 1))


KINDS: tuple[type[Fed], ...] = (
    PostgresCopy,
    PostgresChanges,
    KafkaRows,
    KafkaChanges,
    Delta,
    Files,
)


def run(report: Report) -> None:
    """Measures each kind whose server can be had, and Spark beside it."""
    rows = SIZES[report.scale]
    lines = []
    for kind in KINDS:
        try:
            rate, latency = _measured(report, kind, rows)
        except pytest.skip.Exception as e:
            report.say(f"{kind.name}: {e}")
            continue
        lines.append(
            [
                kind.name,
                number(rate),
                number(1000 * statistics.median(latency)),
                number(1000 * max(latency)),
            ]
        )
    beside = _beside(report, rows)
    report.say(
        f"## {rows:,} rows into a view by {GROUPS:,} groups, and {LATENCIES} rows one by one"
    )
    header = ["feed", "rows a second", "median ms to our commit", "most ms"]
    report.table(header, [*lines, *beside])
    report.say(__doc__.split("\n\n", 1)[1].strip() if __doc__ else "")


def _measured(report: Report, kind: type[Fed], rows: int) -> tuple[float, list[float]]:
    home = Path(mkdtemp())
    try:
        fed = kind(home, rows)
        copied = kind is PostgresCopy
        if copied:
            fed.backlog()
        db = hw.open(home / "db")
        db.source("s", SCHEMA, key=fed.key, **fed.options())
        db.view("v", QUERY)
        if not copied:
            db.run(available=True)
            fed.backlog()
        started = time.perf_counter()
        db.run(available=True)
        seconds = time.perf_counter() - started
        _check(db.table("v").to_pylist(), rows)
        report.sample("rows a second", rows / seconds, "1/s", feed=kind.name)
        latency = list(_latencies(db, fed))
        for s in latency:
            report.sample("latency", s, "s", feed=kind.name)
        _check(db.table("v").to_pylist(), rows + LATENCIES)
        db.close()
        return rows / seconds, latency
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _check(found: list[dict[str, Any]], rows: int) -> None:
    """Compares the view with the rows that it is of."""
    if sum(r["n"] for r in found) != rows:
        raise AssertionError(f"the view has {sum(r['n'] for r in found)} rows of {rows}")
    if sum(r["total"] for r in found) != sum(i % 97 for i in range(rows)):
        raise AssertionError("the sums are others")


def _latencies(db: Any, fed: Fed) -> Iterator[float]:
    """Seconds from a source's commit to ours, while a thread runs always."""
    thread = threading.Thread(target=lambda: db.run(always=True, seconds=120))
    thread.start()
    time.sleep(0.3)
    for i in range(LATENCIES):
        before, started = db.version, time.perf_counter()
        fed.one(i)
        while db.version == before:
            time.sleep(0.0005)
            if time.perf_counter() - started > 30:
                raise AssertionError("the row does not come")
        yield time.perf_counter() - started
        time.sleep(0.02)
    db.stop()
    thread.join()


# --- Spark -----------------------------------------------------------------------------------------------------


def _beside(report: Report, rows: int) -> list[list[str]]:
    """Structured Streaming over files, with `foreachBatch` that merges into a Delta table."""
    home = Path(mkdtemp())
    fed = Files(home, rows)
    out = str(home / "out")
    write_deltalake(out, pa.table({"g": [0], "n": [0], "total": [0]}).slice(0, 0))

    def merge(batch: Any, _: int) -> None:
        sums = batch.groupBy("g").agg({"x": "sum", "id": "count"}).toArrow()
        given = pa.table({"g": sums["g"], "n": sums["count(id)"], "total": sums["sum(x)"]})
        (
            DeltaTable(out)
            .merge(given, "t.g = s.g", source_alias="s", target_alias="t")
            .when_matched_update({"n": "t.n + s.n", "total": "t.total + s.total"})
            .when_not_matched_insert_all()
            .execute()
        )

    fed.backlog()
    stream = session().readStream.schema(SCHEMA).parquet(str(home / "in"))
    started = time.perf_counter()
    query = (
        stream.writeStream.foreachBatch(merge)
        .option("checkpointLocation", str(home / "checkpoint"))
        .start()
    )
    query.processAllAvailable()
    seconds = time.perf_counter() - started

    def found() -> list[dict[str, Any]]:
        rows_: list[dict[str, Any]] = DeltaTable(out).to_pyarrow_table().to_pylist()
        return rows_

    _check(found(), rows)
    report.sample("rows a second", rows / seconds, "1/s", feed="Structured Streaming, files")
    latency = []
    for i in range(LATENCIES):
        before, started = DeltaTable(out).version(), time.perf_counter()
        fed.one(i)
        while DeltaTable(out).version() == before:
            time.sleep(0.005)
        latency.append(time.perf_counter() - started)
        report.sample("latency", latency[-1], "s", feed="Structured Streaming, files")
    query.processAllAvailable()
    _check(found(), rows + LATENCIES)
    query.stop()
    shutil.rmtree(home, ignore_errors=True)
    name = "Structured Streaming over parquet files, foreachBatch and MERGE"
    return [
        [
            name,
            number(rows / seconds),
            number(1000 * statistics.median(latency)),
            number(1000 * max(latency)),
        ]
    ]
