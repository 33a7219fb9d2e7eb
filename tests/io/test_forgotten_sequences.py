"""Deletions are remembered until nothing older can come: by what is closed of the sequence, or of the key."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.io.sequences import SEQUENCES


def remembered(db: hw.Database) -> int:
    """How many entries the map of sequences has on disk."""
    return sum(r.rows for r in db.store.at(db.version).version.maps[f"{SEQUENCES}s"][1])


def compacted(db: hw.Database, wanted: int) -> bool:
    """Whether so many are there once runs were rewritten, which happens beside, or in a while."""
    for _ in range(50):
        db.compact()
        if remembered(db) == wanted:
            return True
        time.sleep(0.02)
    return False


def rows(db: hw.Database) -> dict[int, tuple[int, int]]:
    return {r["id"]: (r["v"], r["at"]) for r in db.table("s").to_pylist()}


@pytest.mark.parametrize("compacts", [True, False])
def test_a_dict_with_events_up_to_a_sequence_over(tmp_path: Path, compacts: bool) -> None:
    """Random events beside a dict: what is older than what is over never comes in, whether its deletion was forgotten on disk or not."""
    rng, there, gone, over = random.Random(8), dict[int, tuple[int, int]](), dict[int, int](), -99
    path = tmp_path / "db"
    db = hw.open(path)
    db.source("s", "id INT, v INT, at INT", key="id", sequence_by="at", closes="at", late="drop")
    db.view("t", "SELECT count(*) AS n, sum(v) AS v FROM s")
    most = 0
    for i in range(1, 25):
        now = 10 * i
        for _ in range(3):
            key, at, v = rng.randrange(400), now - rng.randrange(25), rng.randrange(9)
            known = max(there.get(key, (0, -99))[1], gone.get(key, -99))
            if key in there and there[key][1] <= over:
                continue  # it is over with what it has
            if rng.random() < 0.5 and key in there:
                db.apply({"s": hw.Delta(deletes=[{"id": key, "at": at}])})
                if at >= known and at > over:
                    del there[key]
                    gone[key] = at
            else:
                db.apply({"s": hw.Delta(upserts=[(key, v, at)])})
                if at >= known and at > over:
                    there[key] = v, at
                    gone.pop(key, None)
        live = [k for k, (_, at) in there.items() if at > over]
        db.apply({"s": hw.Delta(deletes=[{"id": k, "at": now} for k in live])})
        gone |= dict.fromkeys(live, now)
        there = {k: r for k, r in there.items() if k not in live}
        over = now - 12
        db.punctuate("s", at=hw.upto(over))
        most = max(most, len(gone))
        if compacts and i % 4 == 0:
            left = [k for k, at in gone.items() if at > over]
            assert compacted(db, len(left)) and len(left) < most
        if i % 8 == 0:
            db.close()
            db = hw.open(path)
        assert rows(db) == there, i
    # Of a key whose deletion is forgotten, what is older is late, and what is newer comes in.
    key = min(gone, key=lambda k: gone[k])
    db.apply({"s": hw.Delta(upserts=[(key, 1, over - 1)])})
    assert key not in rows(db)
    db.apply({"s": hw.Delta(upserts=[(key, 1, over + 1)])})
    assert rows(db)[key] == (1, over + 1)
    db.close()


def test_keys_that_are_over(tmp_path: Path) -> None:
    """A column of the key is closed: deletions of its keys are forgotten, of others not; nor by one value of the sequence."""
    with hw.open(tmp_path / "db") as db:
        said: dict[str, Any] = {"key": ["day", "id"], "sequence_by": "at", "late": "aside"}
        db.source("s", "day INT, id INT, at INT", closes=["day", "at"], **said)
        events = [(d, i, 5) for d in (1, 2) for i in range(3)]
        db.apply({"s": events})
        db.apply({"s": hw.Delta(deletes=[{"day": d, "id": i, "at": 7} for d, i, _ in events])})
        db.punctuate("s", at=7)
        assert compacted(db, 6)
        db.punctuate("s", day=1)
        assert compacted(db, 3)
        assert db.apply({"s": hw.Delta(upserts=[(2, 0, 6)])}).stale
        db.apply({"s": hw.Delta(upserts=[(1, 0, 9)])})
        assert not db.table("s").num_rows
        db.apply({"s": hw.Delta(upserts=[(2, 0, 9)])})
        assert db.table("s").num_rows == 1
