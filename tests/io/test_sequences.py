"""Events with a sequence, in any order: a source is what it would be if they had come in order.

Stale events are dropped and counted, deletions among what is known, in small changes, over a database that is opened
again and whose process dies in between. `on_conflict` says what inserts of keys do that are there.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from dying_files import Dying
from faulty_files import Stopped
from headwater.errors import BadChange, HeadwaterError, KeyConflict, QueryError, UnknownName


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


def rows(db: hw.Database, name: str) -> list[Any]:
    found = db.table(name).to_pylist()
    return sorted((tuple(r.values())[:-1] for r in found for _ in range(r["_w"])), key=repr)


class Model:
    """A plain dict of rows by key, and one of the sequence that is known of each key."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int]] = {}
        self.known: dict[int, int] = {}

    def apply(self, events: list[tuple[int, int | None, int]]) -> int:
        """Takes events (key, value or None, sequence) of one change; gives how many are stale."""
        late = [e for e in events if e[2] < self.known.get(e[0], e[2])]
        for k, v, s in sorted((e for e in events if e not in late), key=lambda e: e[2]):
            self.known[k] = s
            if v is None:
                self.rows.pop(k, None)
            else:
                self.rows[k] = (v, s)
        return len(late)


DDL = {"ts": "id BIGINT, v BIGINT, ts BIGINT", "ts BIGINT": "id BIGINT, v BIGINT"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("sequence", DDL)
def test_ten_thousand_late_events_beside_a_dict(tmp_path: Path, sequence: str) -> None:
    """Upserts, inserts, deletions and late ones; opened again in between, and dead in the middle of changes that are then given again."""
    rng, model, done, stale, deaths = random.Random(sequence), Model(), 0, 0, 0
    inside = sequence == "ts"
    for turn in range(4):
        with hw.open(tmp_path / "db") as db:
            db.source("s", DDL[sequence], key="id", sequence_by=sequence)
            db.view("t", "SELECT v, count(*) AS n FROM s GROUP BY v")
            for number in range(10):
                events = []
                for _ in range(rng.choice([1, 30, 900])):
                    k, now = rng.randrange(200), done + rng.randrange(-3000, 400)
                    v = None if rng.random() < 0.3 else rng.randrange(5)
                    events.append((k, v, now))
                kinds = [
                    "delete_key" if v is None else rng.choice(["upsert", "insert"])
                    for _, v, _ in events
                ]
                columns = dict(zip(("id", "v", "ts"), zip(*events, strict=True), strict=True))
                given = pa.table(
                    {
                        **{n: pa.array(c, pa.int64()) for n, c in columns.items()},
                        "_change_type": kinds,
                    }
                )
                id = ("story", turn * 100 + number + 1)
                late = model.apply(events)
                commit = db.apply({"s": given}, id=id)
                assert commit.stale.get("s", 0) == late
                done, stale = done + len(events), stale + late
            for k, write in (
                (1000, 1),
                (1001, 2),
                (1002, 3),
            ):  # the process dies at one of its writes
                model.apply([(k, turn, turn), (k - 990, None, done)])
                ups, gone = [(k, turn, turn)], [(k - 990, done)]
                with (
                    contextlib.suppress(Stopped, HeadwaterError),
                    pytest.MonkeyPatch.context() as patched,
                ):
                    Dying(write, rng.choice(["before", "after"])).over(patched)
                    db.apply(
                        {"s": hw.Delta(upserts=ups, deletes=gone)}, id=("dies", turn * 10 + write)
                    )
                deaths += 1
                with contextlib.suppress(HeadwaterError):
                    db.close()
                db = hw.open(tmp_path / "db")
                db.apply({"s": hw.Delta(upserts=ups, deletes=gone)}, id=("dies", turn * 10 + write))
            wanted = [(k, *(r if inside else r[:1])) for k, r in model.rows.items()]
            assert rows(db, "s") == sorted(wanted, key=repr)
            counts = {
                v: [r[0] for r in model.rows.values()].count(v) for v, _ in model.rows.values()
            }
            assert rows(db, "t") == sorted(counts.items(), key=repr)
            db.close()
    assert done > 10_000 and stale > 1000 and deaths == 12


@pytest.mark.parametrize("sequence", DDL)
def test_what_is_older_than_a_deletion_is_dropped(db: hw.Database, sequence: str) -> None:
    """A deletion may come before its row, is remembered, and can be forgotten; live rows are not."""
    db.source("s", DDL[sequence], key="id", sequence_by=sequence)
    db.apply({"s": hw.Delta(deletes=[(1, 10), (2, 20)], upserts=[(3, 0, 5)])})
    made = db.apply({"s": [(1, 7, 9), (2, 7, 19), (3, 1, 4)]})
    assert (made.stale, len(rows(db, "s")), made.ignored) == ({"s": 3}, 1, {})
    assert db.forget("s", 15) == 1
    made = db.apply({"s": [(1, 7, 9), (2, 7, 19), (3, 1, 4)]})
    assert (made.stale, [r[0] for r in rows(db, "s")]) == ({"s": 2}, [1, 3])
    db.apply({"s": [(2, 8, 20)]})  # not older
    assert [r[:2] for r in rows(db, "s")] == [(1, 7), (2, 8), (3, 0)]
    assert db.forget("s", 100) == 0


def test_sequences_of_other_types(db: hw.Database) -> None:
    """Dates and text are in order, too; rows that are nested go with what is inside."""
    db.source("d", "id BIGINT, day DATE, o ARRAY<BIGINT>", key="id", sequence_by="DAY")
    db.apply({"d": [(1, date(2026, 3, 2), [1, 2]), (1, date(2026, 3, 1), [9])]})
    made = db.apply({"d": [(1, date(2026, 3, 1), [3])]})
    assert (made.stale, rows(db, "d")) == ({"d": 1}, [(1, date(2026, 3, 2), [1, 2])])
    db.source("t", "id BIGINT", key="id", sequence_by="mark STRING")
    db.apply({"t": hw.Delta(upserts=[(1, "b")], deletes=[(2, "b")])})
    made = db.apply(
        {
            "t": [
                {"id": 1, "mark": "c", "_change_type": "delete"},
                {"id": 2, "mark": "a", "_change_type": "insert"},
            ]
        }
    )
    assert (made.stale, rows(db, "t")) == ({"t": 1}, [])
    with pytest.raises(BadChange, match=r"d\.o"):
        db.apply({"d.o": [(1, 5)]})


def test_images_of_a_change_feed_have_a_sequence(db: hw.Database) -> None:
    """What a row was before says nothing; what it is now counts by its sequence."""
    db.source("s", "id BIGINT, ts BIGINT", key="id", sequence_by="ts")
    kinds = ["insert", "update_preimage", "update_postimage", "delete"]
    feed = pa.table({"id": [1, 1, 1, 2], "ts": [1, 1, 2, 3], "_change_type": kinds})
    db.apply({"s": feed})
    assert db.apply({"s": feed}).stale == {"s": 1}
    assert rows(db, "s") == [(1, 2)]
    db.apply({"s": pa.table({"id": [1, 1], "ts": [2, 4], "_w": [-1, 1]})})
    assert rows(db, "s") == [(1, 4)]


def test_inserts_of_keys_that_are_there(db: hw.Database) -> None:
    """They are refused, replace, or are ignored and counted; what is said can be said otherwise."""
    db.source("s", "id BIGINT, v INT", key="id", on_conflict="ignore")
    db.apply({"s": [(1, 1), (1, 2)]})
    made = db.apply({"s": hw.Delta(inserts=[(1, 3), (2, 3)], deletes=[])})
    assert (made.ignored, rows(db, "s")) == ({"s": 1}, [(1, 1), (2, 3)])
    db.apply({"s": hw.Delta(inserts=[(1, 4)], deletes=[(1, 1)])})  # the deletion comes first
    assert rows(db, "s") == [(1, 4), (2, 3)]
    db.source("s", "id BIGINT, v INT", key="id", on_conflict="replace")
    db.apply({"s": [(1, 5), (3, 5), (3, 6)]})
    assert rows(db, "s") == [(1, 5), (2, 3), (3, 6)]
    db.source("s", "id BIGINT, v INT", key="id", on_conflict="error")
    with pytest.raises(KeyConflict):
        db.apply({"s": [(1, 6)]})
    db.source("t", "id BIGINT, v INT", key="id", sequence_by="v", on_conflict="error")
    db.apply({"t": [(1, 1)]})
    with pytest.raises(KeyConflict, match="id=1"):
        db.apply({"t": [(1, 2)]})
    assert db.apply({"t": [(1, 0)]}).stale == {"t": 1}


def test_events_of_rows_that_are_over(db: hw.Database) -> None:
    """Where late rows are left out, a key whose old or new row is over stays as it is."""
    db.source("s", "id BIGINT, day INT", key="id", closes="day", late="drop")
    db.apply({"s": [(1, 1), (2, 2)]}, punctuate={"s": hw.closed(day=1)})
    made = db.apply({"s": hw.Delta(upserts=[(1, 3), (2, 1), (3, 3)])})
    assert (made.late, rows(db, "s")) == ({"s": 2}, [(1, 1), (2, 2), (3, 3)])
    assert db.apply({"s": hw.Delta(deletes=[1, 2])}).late == {"s": 1}
    assert rows(db, "s") == [(1, 1), (3, 3)]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"sequence_by": "ts"}, "no key"),
        ({"on_conflict": "ignore"}, "no key"),
        ({"key": "id", "on_conflict": "merge"}, "'merge'"),
        ({"key": "id", "sequence_by": "lsn"}, "lsn BIGINT"),
        ({"key": "id", "sequence_by": "ts INT"}, "without a type"),
        ({"key": "id", "sequence_by": "d"}, "double"),
        ({"key": "id", "sequence_by": "a BIGINT, b BIGINT"}, "none of its columns"),
        ({"key": "id", "sequence_by": 7}, "7"),
    ],
)
def test_what_cannot_be_declared(db: hw.Database, said: dict[str, Any], words: str) -> None:
    with pytest.raises(QueryError, match=words):
        db.source("s", "id BIGINT, ts BIGINT, d DOUBLE", **said)
    assert db.version == 0


def test_bad_sequences(db: hw.Database) -> None:
    """A sequence that is missing, NULL or of another type is refused, and nothing happens."""
    db.source("s", "id BIGINT, ts BIGINT", key="id", sequence_by="ts")
    db.source("t", "id BIGINT", key="id", sequence_by="lsn BIGINT")
    before = db.version
    for change, words in [
        ({"s": [(1, None)]}, "`ts`"),
        ({"s": [(1, "x")]}, "'x'"),
        ({"s": hw.Delta(deletes=[1])}, "row 1"),
        ({"t": [(1,)]}, "row 1"),
        ({"t": [{"id": 1}]}, "`lsn`"),
        ({"t": pa.table({"id": [1], "lsn": ["x"]})}, "`lsn`"),
        ({"t": hw.Delta(deletes=pa.table({"id": [1]}))}, "`lsn`"),
    ]:
        with pytest.raises(BadChange, match=words):
            db.apply(change)
    with pytest.raises(QueryError, match="'x'"):
        db.forget("s", "x")
    with pytest.raises(UnknownName):
        db.forget("nobody", 1)
    assert db.version == before
