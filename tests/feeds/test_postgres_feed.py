"""Feeds of a real PostgreSQL server, compared with the table itself after every pull."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.engine.change import FOLDER
from headwater.errors import BadChange, FeedAway, FeedLost, HeadwaterError, QueryError
from headwater.feeds.feed import Declared, Limit
from headwater.feeds.postgres import PostgresFeed, check
from headwater.io.rows import Parts
from headwater.language.schema import columns
from postgres_server import made, postgres
from postgres_stories import COLUMNS, SCHEMA, one, rows_of
from taken import Taken


def feed_of(
    name: str, schema: str = SCHEMA, key: tuple[str, ...] = ("id",), /, **options: Any
) -> PostgresFeed:
    given = {k: str(v) for k, v in {**postgres().options, **options}.items()}
    bad = given.pop("bad", "stop")
    return PostgresFeed(Declared(name, columns(schema), key, options=given, bad=bad))


def table(name: str, key: str = "PRIMARY KEY", identity: str = "DEFAULT") -> Any:
    """A connection to a server in which a table was made anew, and its slot is gone."""
    c = postgres().connect()
    c.execute(
        f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'headwater_{name}'"
    )
    c.execute(f"DROP PUBLICATION IF EXISTS headwater_{name}")
    c.execute(f"DROP TABLE IF EXISTS {name}")
    c.execute(f"CREATE TABLE {name} ({COLUMNS.format(key)})")
    c.execute(f"ALTER TABLE {name} REPLICA IDENTITY {identity}")
    return c


def same(c: Any, name: str, taken: Taken) -> None:
    found = Counter(taken.rows.values()) if taken.key else Counter(taken.rows)
    assert found == rows_of(c, name)


CASES = {
    "key, default identity": ("PRIMARY KEY", "DEFAULT", ("id",)),
    "key, full identity": ("PRIMARY KEY", "FULL", ("id",)),
    "no key, full identity": ("", "FULL", ()),
}


@pytest.mark.parametrize("case", CASES)
def test_a_table_through_random_transactions(case: str) -> None:
    primary, identity, key = CASES[case]
    c = table("story", primary, identity)
    rng = random.Random(case)
    for _ in range(10):
        one(c, "story", rng)
    feed, taken = feed_of("story", SCHEMA, key), Taken(key)
    for n in range(40):
        taken.pull(feed)
        same(c, "story", taken)
        for _ in range(rng.randint(1, 5)):
            one(c, "story", rng)
        if n % 10 == 9:
            feed.close()
            feed = feed_of("story", SCHEMA, key)
    assert taken.batches > 20


def test_every_version_is_behind_a_whole_transaction() -> None:
    """Batches of one row at the most still have whole transactions, in order: each sum of the table is 0 at its commit."""
    c = table("torn")
    feed, taken = feed_of("torn"), Taken(("id",))
    taken.pull(feed)
    for n in range(30):
        c.execute("BEGIN")
        for i in range(5):
            c.execute(
                f"INSERT INTO torn (id, b) VALUES ({n * 10 + i}, {n * i}), ({n * 10 + i + 5}, {-n * i})"
            )
        c.execute("COMMIT")
    steps = 0
    while (batch := feed.read(taken.cursor, Limit(rows=1))) is not None:
        taken.take(batch)
        steps += 1
        assert sum(r[1] for r in taken.rows.values()) == 0 and len(taken.rows) == 10 * steps
    assert steps == 30
    same(c, "torn", taken)


def test_transactions_around_the_copy_are_taken_once() -> None:
    """One that began before the copy and commits behind it is told by the slot; one that the copy saw is passed over."""
    c, other = table("around", "", "FULL"), postgres().connect()
    feed, taken = feed_of("around", SCHEMA, ()), Taken()
    feed.look()
    feed._prepared()  # the slot is older than the copy, as after a process that was killed between both
    c.execute("INSERT INTO around (id) VALUES (1), (1)")
    other.execute("BEGIN")
    other.execute("INSERT INTO around (id) VALUES (2)")
    first = feed.read(None, Limit())
    assert first is not None
    taken.take(first)
    assert sum(taken.rows.values()) == 2
    c.execute("INSERT INTO around (id) VALUES (3)")
    other.execute("COMMIT")
    taken.pull(feed)
    same(c, "around", taken)


def test_nothing_comes_twice_where_the_slot_did_not_move() -> None:
    c = table("twice", "", "FULL")
    feed, taken = feed_of("twice", SCHEMA, ()), Taken()
    for n in range(5):
        c.execute(f"INSERT INTO twice (id) VALUES ({n})")
        while (batch := feed.read(taken.cursor, Limit(rows=2))) is not None:
            taken.take(batch)  # and never `committed`
    same(c, "twice", taken)
    postgres().restart()
    c = postgres().connect()
    c.execute("DELETE FROM twice WHERE id = 3")
    with pytest.raises(FeedAway):
        feed.read(taken.cursor, Limit())  # its connection went with the server
    taken.pull(feed)
    same(c, "twice", taken)


def test_the_log_of_other_tables_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.feeds.postgres.IDLE", 1)
    c = table("quiet")
    feed, taken = feed_of("quiet"), Taken(("id",))
    taken.pull(feed, batches=3)
    c.execute("CREATE TABLE IF NOT EXISTS loud (a int)")
    c.execute("INSERT INTO loud SELECT generate_series(1, 1000)")
    before = taken.cursor
    taken.pull(feed, batches=1)
    assert taken.cursor != before
    held = c.execute(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'headwater_quiet'"
    ).fetchone()
    assert held == (taken.cursor["lsn"],)


def test_new_columns_are_passed_over_or_stop() -> None:
    c = table("wider")
    feed, taken = feed_of("wider"), Taken(("id",))
    strict, strictly = feed_of("wider", new_columns="stop"), Taken(("id",))
    taken.pull(feed)
    strictly.cursor = taken.cursor
    c.execute("ALTER TABLE wider ADD COLUMN more text DEFAULT 'x'")
    c.execute("INSERT INTO wider (id, more) VALUES (1, 'y')")
    with pytest.raises(BadChange, match="new column `more`"):
        strict.read(strictly.cursor, Limit())
    taken.pull(feed)
    assert list(taken.rows) == [(1,)]
    c.execute("ALTER TABLE wider DROP COLUMN u")
    c.execute("INSERT INTO wider (id) VALUES (2)")
    with pytest.raises(FeedLost, match="no column `u` any more"):
        taken.pull(feed)


def test_values_that_do_not_fit_are_set_aside() -> None:
    c = table("odd")
    c.execute("INSERT INTO odd (id, d) VALUES (1, 'infinity'), (2, '2020-01-01')")
    with pytest.raises(BadChange, match="`d` is 'infinity', which is no date"):
        feed_of("odd").read(None, Limit())
    feed = feed_of("odd", bad="aside")
    batch = feed.read(None, Limit())
    assert batch is not None and batch.rejected is not None
    assert batch.rows.upserts["id"].to_pylist() == [2]
    assert "'infinity'" in batch.rejected["why"][0].as_py()
    assert "the copy" in batch.rejected["place"][0].as_py()


def test_large_values_that_stay_are_asked_for() -> None:
    c = table("large")
    c.execute("ALTER TABLE large ALTER COLUMN s SET STORAGE EXTERNAL")
    feed, taken = feed_of("large"), Taken(("id",))
    taken.pull(feed)
    c.execute("INSERT INTO large (id, s) VALUES (1, repeat('x', 100000))")
    taken.pull(feed)
    c.execute("UPDATE large SET b = 1")
    with pytest.raises(BadChange, match="does not tell a large value"):
        feed.read(taken.cursor, Limit())
    c = table("large", identity="FULL")
    c.execute("ALTER TABLE large ALTER COLUMN s SET STORAGE EXTERNAL")
    feed, taken = feed_of("large"), Taken(("id",))
    taken.pull(feed)
    c.execute("INSERT INTO large (id, s) VALUES (1, repeat('x', 100000))")
    c.execute("UPDATE large SET b = 1")
    taken.pull(feed)
    same(c, "large", taken)


@pytest.mark.parametrize("key", [("id",), ()])
def test_a_cursor_column(key: tuple[str, ...]) -> None:
    c = table("rising")
    c.execute("ALTER TABLE rising ALTER COLUMN b SET NOT NULL")
    feed, taken = feed_of("rising", SCHEMA, key, cursor="b"), Taken(key)
    for n in range(6):
        c.execute(
            f"INSERT INTO rising (id, b) SELECT i, i / 5 FROM generate_series({n * 10}, {n * 10 + 9}) i"
        )
        taken.pull(feed, Limit(rows=4))
    if key:
        c.execute("UPDATE rising SET b = 1000, s = 'late' WHERE id = 3")
        taken.pull(feed)
        same(c, "rising", taken)
    assert len(taken.rows) == 60


REFUSED = [
    ("id int, b string", ("id",), {}, "the column `b` of public.refused is int8.*\n.*BIGINT"),
    ("id int, n decimal(5, 1)", ("id",), {}, r"is numeric.*\n.*DECIMAL\(12, 3\)"),
    ("id int, other int", ("id",), {}, "no column `other`.*\n.*columns of public.refused: id, b"),
    ("id int, span string", ("id",), {}, "is interval.*\n.*not read"),
    ("id int, mood string", ("id",), {}, "is an enum.*\n.*not read"),
    ("id int, b bigint", ("b",), {}, "do not tell the key of `refused`.*\n.*REPLICA IDENTITY FULL"),
    ("id int, b bigint", (), {}, "do not tell whole rows"),
    ("id int, b bigint", ("id",), {"cursor": "b"}, "may be NULL"),
    ("id int, b bigint", ("id",), {"cursor": "x"}, "no column `x`"),
    ("id int, b bigint", ("id",), {"table": "nowhere"}, "no table public.nowhere"),
]


@pytest.mark.parametrize(("schema", "key", "options", "said"), REFUSED)
def test_what_is_refused_when_it_is_declared(
    schema: str, key: tuple[str, ...], options: dict[str, str], said: str
) -> None:
    c = table("refused")
    c.execute("DROP TYPE IF EXISTS moods")
    c.execute("CREATE TYPE moods AS ENUM ('good')")
    c.execute("ALTER TABLE refused ADD COLUMN span interval, ADD COLUMN mood moods")
    made = feed_of("refused", schema, key, **options)
    with pytest.raises(QueryError, match=said):
        check(made.declared)
    c.execute("DROP TABLE refused")


def test_what_goes_wrong_later_is_told() -> None:
    c = table("later")
    feed, taken = feed_of("later"), Taken(("id",))
    taken.pull(feed)
    c.execute("INSERT INTO later (id) VALUES (1)")

    def told(kind: type[HeadwaterError], said: str, **options: Any) -> None:
        with pytest.raises(kind, match=said) as e:
            feed_of("later", **options).read(taken.cursor, Limit())
        assert e.value.hint and postgres().password not in str(e.value)

    told(FeedAway, "does not answer", port=1)
    told(FeedAway, "does not let in", password="wrong")
    told(FeedAway, "does not answer|refuses", database="nowhere")
    told(FeedLost, "the slot `other` of `later` is gone", slot="other")
    check(
        feed_of("later", port=1).declared
    )  # a server that is away is told when it is asked for rows
    c.execute("SELECT pg_drop_replication_slot('headwater_later')")
    told(FeedLost, "is gone")
    c.execute("SELECT pg_create_logical_replication_slot('headwater_later', 'pgoutput')")
    told(FeedLost, "is at .*, and `later` at")
    c.execute("SELECT pg_drop_replication_slot('headwater_later')")
    c.execute("SELECT pg_create_logical_replication_slot('headwater_later', 'test_decoding')")
    told(FeedLost, "has the plugin test_decoding")
    c.execute("DROP TABLE later")
    told(QueryError, "no table public.later")


def test_a_server_without_changes_is_told() -> None:
    server = made(wal_level="replica", max_wal_senders="0")
    c = server.connect()
    c.execute("CREATE TABLE plain (id int PRIMARY KEY)")
    options = {k: str(v) for k, v in server.options.items()}
    feed = PostgresFeed(Declared("plain", columns("id int"), ("id",), options=options))
    with pytest.raises(FeedAway, match="its wal_level is replica"):
        feed.read(None, Limit())
    server.stop()


def test_keys_that_move_within_a_batch_are_not_deleted_in_vain() -> None:
    """Found by a process that was killed: a key that came by an update and went in the same batch was never there."""
    c = table("moved")
    c.execute("INSERT INTO moved (id) VALUES (1), (2)")
    feed, taken = feed_of("moved"), Taken(("id",))
    taken.pull(feed)
    c.execute("UPDATE moved SET id = id + 10")
    c.execute("UPDATE moved SET id = id - 9")
    batch = feed.read(taken.cursor, Limit())
    assert batch is not None
    assert batch.rows.deletes.to_pylist() == [{"id": 1}]
    taken.take(batch)
    same(c, "moved", taken)


@pytest.mark.parametrize("key", [("id",), ()])
def test_a_large_copy_is_one_version_and_put_down_part_by_part(
    key: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changes beside the copy is told behind it; nothing of the copy stays in staging."""
    monkeypatch.setattr("headwater.feeds.copying.PART", 4000)
    monkeypatch.setattr("headwater.feeds.postgres.READ", 1000)
    c = table("large", "PRIMARY KEY", "FULL")
    c.execute("INSERT INTO large (id) SELECT * FROM generate_series(1, 3000)")
    read: list[Any] = []
    seen = PostgresFeed._copy
    monkeypatch.setattr(
        PostgresFeed, "_copy", lambda f, mine: read.append(seen(f, mine)) or read[0]
    )
    with hw.open(tmp_path) as db:
        given = {k: str(v) for k, v in postgres().options.items()}
        db.source("large", SCHEMA, key=list(key) or None, format="postgres", options=given)
        before = db.version
        db.run()
        copied = read[0].rows.upserts if key else read[0].rows
        assert isinstance(copied, Parts) and len(copied.tables) > 3
        assert db.version == before + 1
        c.execute("DELETE FROM large WHERE id % 3 = 0")
        c.execute("INSERT INTO large (id) VALUES (9000)")
        db.run()
        ids = sorted(r["id"] for r in db.table("large").to_pylist())
        assert ids == [i for i in range(1, 3001) if i % 3] + [9000]
        assert not list((tmp_path / FOLDER).glob("*"))
        db.drop("large")
