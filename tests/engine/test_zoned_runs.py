"""Runs of an increment say zones of the columns that its commit names, written here or in tasks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headwater.calculus.types import BIGINT, INT
from headwater.engine.spark.exchange import received, results
from headwater.engine.spark.rounds import Task
from headwater.engine.working import Working
from headwater.plan.program import Map
from headwater.state.files import LocalFiles
from headwater.state.run import NO_ZONES, RunRef, Runs
from headwater.state.zones import Zoned

MAP = Map("m", "", (("k", BIGINT), ("t", BIGINT)), (("n", INT),), ("k",), ("k",))


def written(working: Working, root: Path, times: list[int]) -> list[RunRef]:
    keys = list(range(len(times)))
    changes = pa.table({"_h": keys, "k": keys, "t": times, "n": [1] * len(times)})
    entries, _ = working.now("m").merge(changes, blind=True)
    working.add("m", entries)
    return working.written(LocalFiles(root))["m"]


def test_an_increment_writes_the_zones_that_it_is_told(tmp_path: Path) -> None:
    runs = Runs(LocalFiles(tmp_path))
    told: list[Zoned] = [NO_ZONES, {"m": ("t",)}, {"other": ("t",)}]
    found = [
        written(Working({"m": MAP}, {}, runs, (1, 0), zoned=zoned), tmp_path, [5, 3])
        for zoned in told
    ]
    assert [ref.zone for (ref,) in found] == [(), (("t", 3, 5, False),), ()]


def test_a_task_writes_them_too_and_tells_the_driver(tmp_path: Path) -> None:
    task = Task(str(tmp_path), {"m": MAP}, {}, {}, {}, False, (1, 0), {}, {"m": ("t", "k")})
    refs = written(task.working(), tmp_path, [4, 9])
    told, _ = received(pa.Table.from_batches(results({}, {"m": refs}, tmp_path, "", 0)), tmp_path)
    assert told["m"][0].zone == (("t", 4, 9, False), ("k", 0, 1, False))
    assert told["m"] == refs


def test_what_is_in_memory_is_written_with_them(tmp_path: Path) -> None:
    working = Working({"m": MAP}, {}, Runs(LocalFiles(tmp_path)), (1, 0), zoned={"m": ("t",)})
    changes = pa.table({"_h": [1], "k": [1], "t": [7], "n": [1]})
    working.add("m", working.now("m").merge(changes, blind=True)[0])
    working.store_memory(LocalFiles(tmp_path))
    assert [r.zone for r in working.stored["m"]] == [(("t", 7, 7, False),)]
