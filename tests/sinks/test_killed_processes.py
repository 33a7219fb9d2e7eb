"""Processes that follow a real server and keep a table there, killed at any moment: nothing is lost, doubled or torn."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from debezium_stories import SCHEMA as EVENTS
from debezium_stories import events
from fed_process import Follower
from kafka_broker import kafka
from postgres_server import postgres
from postgres_stories import COLUMNS, SCHEMA, one, rows_of

QUERY = "SELECT s, count(*) AS n, sum(b) AS total, max(d) AS last FROM {} WHERE id >= 0 GROUP BY s"
IDENTITIES = {
    "default identity": ("DEFAULT", "PRIMARY KEY", "id"),
    "full identity": ("FULL", "PRIMARY KEY", "id"),
    "full identity without a key": ("FULL", "", ""),
}


def table(name: str, key: str, identity: str) -> Any:
    c = postgres().connect()
    gone = (
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
    )
    c.execute(gone, (f"headwater_{name}",))
    c.execute(f"DROP PUBLICATION IF EXISTS headwater_{name}")
    c.execute(f"DROP TABLE IF EXISTS {name}, {name}_kept, headwater_places")
    c.execute(f"CREATE TABLE {name} ({COLUMNS.format(key)})")
    c.execute(f"ALTER TABLE {name} REPLICA IDENTITY {identity}")
    return c


def marked(c: Any, name: str, n: int, rng: random.Random) -> None:
    """A transaction that also counts in two rows: a version that has one of them without the other is torn."""
    c.execute("BEGIN")
    for i in (-1, -2):
        c.execute(f"DELETE FROM {name} WHERE id = {i}")
        c.execute(f"INSERT INTO {name} (id, b) VALUES ({i}, {n})")
        for _ in range(2):
            one(c, name, rng, inside=True)
    c.execute("COMMIT")


def torn(db: Any, name: str) -> list[int]:
    """The versions in which the two counted rows differ, of those that are kept."""
    out = []
    for version in range(2, db.version + 1):
        try:
            rows = db.table(name, version).to_pylist()
        except Exception:
            continue
        counted = [r["b"] for r in rows if r["id"] < 0]
        if counted and (len(counted) != 2 or counted[0] != counted[1]):
            out.append(version)
    return out


def postgres_story(root: Path, name: str, case: str, count: int, kills: int, restarts: int) -> None:
    identity, primary, key = IDENTITIES[case]
    c, rng = table(name, primary, identity), random.Random(case)
    for n in range(10):
        marked(c, name, n, rng)
    fed = {"format": "postgres", "options": postgres().options}
    what = {
        "sources": {name: (SCHEMA, key, fed)},
        "views": {"v": QUERY.format(name)},
        "sinks": {f"{name}_kept": ("v", fed)},
    }
    follower = Follower(root / "db", what, rng)
    follower.start()
    kill_at = set(rng.sample(range(count), kills))
    restart_at = set(rng.sample(range(count), restarts))
    for n in range(count):
        marked(c, name, 100 + n, rng)
        if n in kill_at:
            time.sleep(rng.random() * 0.2)
            follower.kill()
            follower.start()
        if n in restart_at:
            postgres().restart(rng.choice([signal.SIGINT, signal.SIGQUIT]))
            c = postgres().connect()
    db = follower.finish()
    found: Counter[Any] = Counter()
    for r in db.table(name).to_pylist():
        w = r.pop("_w")
        found[tuple(r.values())] += w
    assert found == rows_of(c, name), "the source is the table"
    names = "s, n, total, last"
    kept = Counter(c.execute(f"SELECT {names} FROM {name}_kept").fetchall())
    wanted = Counter(c.execute(QUERY.format(name)).fetchall())
    assert kept == wanted, "the sink's table is the query run in PostgreSQL"
    assert torn(db, name) == []
    assert follower.kills == kills + 1
    db.close()


def test_postgres_and_a_process_that_is_killed(tmp_path: Path) -> None:
    postgres_story(tmp_path, "few", "default identity", 12, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("case", IDENTITIES)
def test_postgres_through_a_thousand_transactions(case: str, tmp_path: Path) -> None:
    postgres_story(tmp_path, "many", case, 1000, 20, 2)


def kafka_story(root: Path, topic: str, count: int, kills: int, ids: int) -> None:
    rng = random.Random(count)
    kafka().topic(topic, 4)
    sent, there = events(count, 4, rng, ids)
    options = {
        "servers": kafka().address,
        "topic": topic,
        "records": "debezium",
        "time_unit": "micros",
        "max_rows": max(50, count // 40),
    }
    what = {
        "sources": {"s": (EVENTS, "id", {"format": "kafka", "options": options})},
        "views": {"v": "SELECT name, count(*) AS n, sum(price) AS total FROM s GROUP BY name"},
        "sinks": {},
    }
    follower = Follower(root / "db", what, rng)
    follower.start()
    step = len(sent) // (kills + 1) + 1
    for n in range(0, len(sent), step):
        kafka().send(topic, sent[n : n + step])
        if follower.kills < kills:
            time.sleep(rng.random() * 0.3)
            follower.kill()
            follower.start()
    db = follower.finish()
    rows = {r["id"]: (r["name"], str(r["price"])) for r in db.table("s").to_pylist()}
    assert rows == {i: (name, price) for i, (_, name, price, _) in there.items()}
    assert sum(r["n"] for r in db.table("v").to_pylist()) == len(there)
    assert follower.kills == kills + 1
    db.close()


def test_kafka_and_a_process_that_is_killed(tmp_path: Path) -> None:
    kafka_story(tmp_path, "few", 2_000, 1, 100)


@pytest.mark.slow
def test_kafka_through_a_hundred_thousand_events(tmp_path: Path) -> None:
    kafka_story(tmp_path, "many", 100_000, 10, 5_000)
