"""What goes into sources: keys, constraints, values and the forms they come in. What does not fit is refused, and
nothing is taken otherwise than it was given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import BadChange, HeadwaterError, KeyConflict, QueryError
from spark_session import session


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


def rows(db: hw.Database, name: str) -> list[tuple[Any, ...]]:
    found = db.table(name).to_pylist()
    return sorted((tuple(r.values())[:-1] for r in found for _ in range(r["_w"])), key=repr)


def refused(db: hw.Database, change: Any, *words: str, kind: type[HeadwaterError]) -> None:
    """The change is refused with the words, and nothing happened."""
    before = db.version, {n: rows(db, n) for n in db.sources}
    with pytest.raises(kind) as caught:
        db.apply(change)
    for w in words:
        assert w in str(caught.value), f"{w!r} is not said in:\n{caught.value}"
    assert (db.version, {n: rows(db, n) for n in db.sources}) == before


# --- keys ----------------------------------------------------------------------------------------------------------


def test_a_key_is_there_once(db: hw.Database) -> None:
    """A second row with a key is refused, in the same change or a later one; the key and the rows are named."""
    db.source("s", "id BIGINT, item STRING", key="id")
    db.apply({"s": [(1, "a"), (2, "b")]})
    refused(db, {"s": [(1, "c")]}, "id=1", "item='a'", "item='c'", kind=KeyConflict)
    refused(db, {"s": [(3, "x"), (3, "y")]}, "id=3", "item='x'", "item='y'", kind=KeyConflict)
    refused(db, {"s": [(1, "a")]}, "2 rows with the key id=1", kind=KeyConflict)
    refused(db, {"s": [(4, "d", 2)]}, "(id=4, item='d') 2 times", kind=KeyConflict)
    assert issubclass(KeyConflict, BadChange)


def test_a_key_is_never_null(db: hw.Database) -> None:
    db.source("s", "a BIGINT, b STRING, c INT", key=["b", "a"])
    refused(db, {"s": [(1, None, 3)]}, "has no `b`", "(a=1, b=None, c=3)", kind=KeyConflict)
    refused(db, {"s": [(None, "x", 3)]}, "has no `a`", kind=KeyConflict)
    db.apply({"s": [(1, "x", None), (1, "y", None), (2, "x", None)]})
    refused(db, {"s": [(2, "x", 4)]}, "b='x', a=2", kind=KeyConflict)


def test_a_row_is_replaced_by_deleting_the_old_one(db: hw.Database) -> None:
    db.source("s", "id BIGINT, item STRING", key="ID")
    db.apply({"s": [(1, "a"), (2, "b")]})
    db.apply({"s": hw.Delta(inserts=[(1, "c")], deletes=[(1, "a")])})
    db.apply({"s": [(2, "b", -1), (2, "d", 1), (5, "e", 1)]})
    db.apply({"s": [(7, "x", 1), (7, "x", -1), (7, "y", 1)]})  # only what is left counts
    assert rows(db, "s") == [(1, "c"), (2, "d"), (5, "e"), (7, "y")]
    refused(
        db,
        {"s": hw.Delta(inserts=[(1, "d"), (2, "e")], deletes=[(1, "c")])},
        "id=2",
        kind=KeyConflict,
    )


def test_rows_from_before_keys_were_enforced_can_go(
    db: hw.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an older version let in is read, and taken away row by row."""
    db.source("s", "id BIGINT, item STRING", key="id")
    with monkeypatch.context() as older:
        older.setattr("headwater.staging.check_keys", lambda *_: None)
        db.apply({"s": [(1, "a"), (1, "b"), (1, "c"), (None, "d")]})
    db.apply({"s": hw.Delta(deletes=[(1, "a"), (None, "d")])})
    refused(db, {"s": [(1, "e")]}, "3 rows", kind=KeyConflict)
    db.apply({"s": [(2, "f")]})
    assert rows(db, "s") == [(1, "b"), (1, "c"), (2, "f")]


def test_keys_are_checked_where_deletions_may_be_missing(db: hw.Database) -> None:
    """A deletion that is ignored makes no room for a row."""
    db.source("s", "id BIGINT, item STRING", key="id", strict=False)
    db.apply({"s": [(1, "a")]})
    missing = hw.Delta(inserts=[(1, "b")], deletes=[(1, "nothing")])
    refused(db, {"s": missing}, "id=1", kind=KeyConflict)


def test_a_key_needs_the_rows(db: hw.Database) -> None:
    with pytest.raises(QueryError, match="keeps no copy of its rows"):
        db.source("s", "id BIGINT", key="id", retain=False)


def test_keys_cost_what_the_change_costs(db: hw.Database) -> None:
    """A change of one row looks up one key, whatever the source has."""
    db.source("s", "id BIGINT, item STRING", key="id")
    db.apply({"s": pa.table({"id": range(300_000), "item": ["x"] * 300_000})})
    from headwater.state.arrangement import Arrangement  # to be watched

    looked: list[int] = []
    inner = Arrangement.lookup

    def watched(self: Any, keys: pa.Table, *more: Any, **named: Any) -> pa.Table:
        looked.append(keys.num_rows)
        return inner(self, keys, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Arrangement, "lookup", watched)
        db.apply({"s": [(300_000, "y")]})
    assert looked == [1]


@pytest.mark.spark
def test_keys_of_a_change_that_spark_carries(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db", spark=session()) as db:
        db.source("s", "id BIGINT, item STRING", key="id")
        db.view("n", "SELECT item, count(*) AS n FROM s GROUP BY item")
        db.execution = "spark"
        spark = session()
        db.apply({"s": spark.sql("SELECT id, 'x' AS item FROM range(1000)")})
        twice = spark.sql("SELECT id % 999 + 2000 AS id, 'y' AS item FROM range(1000)")
        refused(db, {"s": twice}, "with the key id=2000", kind=KeyConflict)
        late = spark.sql("SELECT id + 999 AS id, 'y' AS item FROM range(1000)")
        refused(db, {"s": late}, "with the key id=999", kind=KeyConflict)
        assert rows(db, "n") == [("x", 1000)]
