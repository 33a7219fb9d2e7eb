"""How long `run` goes on, and what ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.api.looping import Loop, loop_of
from headwater.api.running import MOST_NAMED, Progress
from headwater.errors import QueryError
from headwater.feeds.feed import Batch, Limit


class Endless:
    """Always has a row more."""

    def read(self, after: Any, limit: Limit) -> Batch | None:
        return Batch([((after or 0) + 1,)], (after or 0) + 1)


def ids(db: hw.Database) -> list[int]:
    return sorted(r["id"] for r in db.table("t").to_pylist() for _ in range(r["_w"]))


def test_once_takes_one_batch_of_every_feed(tmp_path: Path) -> None:
    db = hw.open(tmp_path / "db")
    db.source("t", "id BIGINT", feed=Endless())
    db.source("u", "id BIGINT", feed=[(1,), (2,), (3,)], options={"max_rows": 2})
    done = db.run(once=True)
    assert sorted(done.epochs) == ["t", "u"] and done.rows == {"t": 1, "u": 2}
    assert db.run(available=True, epochs=5).count == 5


@pytest.mark.parametrize("given", [{"once": True, "every": 1}, {"available": True, "always": True}])
def test_two_modes_are_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="says two things"):
        hw.open(tmp_path / "db").run(**given)


def test_an_endless_feed_does_not_starve_one_that_had_nothing(tmp_path: Path) -> None:
    db, late = hw.open(tmp_path / "db"), list[Any]()
    db.source("t", "id BIGINT", feed=Endless())
    db.source("u", "id BIGINT", feed=late)
    threading.Timer(0.3, lambda: late.append((7,))).start()
    done = db.run(always=True, seconds=2.0)
    assert done.rows["u"] == 1 and done.rows["t"] > 2


def test_pauses() -> None:
    assert Loop(every=2.0).pause(0.1, None) == 2.0 and Loop(every=2.0).pause(0.1, 0.5) == 0.5
    quiet = Loop(always=True)
    assert quiet.pause(0.0, None) < 0.05 and quiet.pause(0.1, None) == pytest.approx(0.3)
    assert quiet.pause(9.0, None) == 1.0
    assert not loop_of(False, True, None, False).waits


def test_what_ran_is_bounded() -> None:
    done = Progress()
    for _ in range(3):
        done.ran(["a"] * MOST_NAMED)
    assert done.count == 3 * MOST_NAMED and len(done.epochs) <= 2 * MOST_NAMED


PROGRAM = """
import sys, headwater as hw
from headwater.feeds.feed import Batch
class Endless:
    def read(self, after, limit):
        n = (after or 0) + 1
        print(n, flush=True)
        return Batch([(n,)], n)
db = hw.open(sys.argv[1])
db.source("t", "id BIGINT", feed=Endless())
print("end:", db.run(always=True).stopped, flush=True)
db.close()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_commit(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == 5:
                break
        os.kill(process.pid, number)
        rest = process.stdout.read()
        assert process.wait(60) == 0
    assert f"end: {number.name} ended it" in rest
    with hw.open(tmp_path / "db") as db:
        assert ids(db) == list(range(1, len(ids(db)) + 1)) and len(ids(db)) >= 4
    time.sleep(0)
