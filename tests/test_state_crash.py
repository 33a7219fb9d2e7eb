"""The store under faults: whatever stops, fails or is damaged, a version is there whole or not at all.

The contents of the test's two maps are a function of the fact `cursor`, so a store is right when its maps are
the model at its cursor: nothing lost, nothing doubled, nothing between. Work is stopped at every step in every
way, and what may be found after that is read, checked, and worked on.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater.state
from headwater.errors import DamagedState, LeaseLost, StateError, VersionGone, WriterBusy
from headwater.state import lease
from headwater.state.faults import FAILURES, STOPS, MemoryFiles, Stopped
from headwater.state.files import FileSystem, LocalFiles
from headwater.state.log import Log, path_of
from headwater.state.run import MapSpec, Runs, Writer
from headwater.state.store import DATA, Snapshot, Store, StoreWriter

ROWS = MapSpec("rows", (("g", pa.int64()), ("x", pa.string())), (("n", pa.int64()),), ("g",))
SUMS = MapSpec(
    "sums", (("g", pa.int64()),), (("n", pa.int64()), ("s", pa.int64())), ("g",), kind="value"
)
Contents = tuple[dict[tuple[int, str], int], dict[int, tuple[int, int]]]


# --- increments and their model ---------------------------------------------------------------------------


def changes(k: int) -> list[tuple[int, str, int, int]]:
    """Increment k: (g, x, n, s); eight rows come, and four that came two increments before go."""
    new = [((k * 7 + i * 3) % 20, f"x{k}", 1, k + i) for i in range(8)]
    return new + [(g, x, -n, -s) for g, x, n, s in changes(k - 2)[:4]] if k > 2 else new


def is_purge(k: int) -> bool:
    return k % 10 == 9


@cache
def model(k: int) -> Contents:
    """The maps after increment k."""
    if k == 0:
        return {}, {}
    rows, sums = (dict(m) for m in model(k - 1))
    if is_purge(k):
        return {q: n for q, n in rows.items() if q[0] % 3}, {g: v for g, v in sums.items() if g % 3}
    for g, x, n, s in changes(k):
        rows[g, x] = rows.get((g, x), 0) + n
        old = sums.get(g, (0, 0))
        sums[g] = old[0] + n, old[1] + s
    return {q: n for q, n in rows.items() if n}, {g: v for g, v in sums.items() if v[0]}


def rows_of(k: int) -> pa.Table:
    g, x, n, _ = (list(c) for c in zip(*changes(k), strict=True))
    return pa.table({"_h": [hashed(i) for i in g], "g": g, "x": x, "n": n})


def sums_of(k: int) -> pa.Table:
    """One row a key, as a merge with a value map wants it."""
    sums: dict[int, tuple[int, int]] = {}
    for g, _, n, s in changes(k):
        sums[g] = sums.get(g, (0, 0))[0] + n, sums.get(g, (0, 0))[1] + s
    n, s = (list(c) for c in zip(*sums.values(), strict=True))
    return pa.table({"_h": [hashed(g) for g in sums], "g": list(sums), "n": n, "s": s})


def hashed(g: int) -> int:
    return (g % 10) * 0x1234_5678_9ABC - (1 << 50)  # two groups share each hash


def increment(writer: StoreWriter, k: int) -> None:
    """Applies increment k, unless the cursor says that it was."""
    commit = writer.begin()
    if commit.base.facts.get("cursor", 0) >= k:
        return
    if k == 1:
        commit.create(ROWS)
        commit.create(SUMS)
    if is_purge(k):
        for name in ("rows", "sums"):
            commit.purge(name, lambda t: np.asarray(t.column("g")) % 3 == 0)
    else:
        commit.merge("rows", rows_of(k), blind=k % 2 == 0)
        commit.merge("sums", sums_of(k))
    commit.set("cursor", k)
    writer.commit(commit, {"increment": k})


def contents(snapshot: Snapshot) -> Contents:
    if not snapshot.version.maps:
        return {}, {}
    rows = [r for t in snapshot.arrangement("rows").scan() for r in t.to_pylist()]
    sums = [r for t in snapshot.arrangement("sums").scan() for r in t.to_pylist()]
    out = {(r["g"], r["x"]): r["n"] for r in rows}, {r["g"]: (r["n"], r["s"]) for r in sums}
    assert (len(out[0]), len(out[1])) == (len(rows), len(sums)), "a key is there twice"
    return out


def assert_right(store: Store, number: int | None = None) -> int:
    """A version is the model at its cursor, which is given."""
    snapshot = store.at(number)
    cursor: int = snapshot.facts.get("cursor", 0)
    assert contents(snapshot) == model(cursor)
    return cursor


@cache
def base(cursor: int, released: bool = True) -> MemoryFiles:
    """A store after some increments; copy it."""
    files = MemoryFiles()
    writer = Store(files).writer(time_to_live=0)
    for k in range(1, cursor + 1):
        increment(writer, k)
    if released:
        writer.close()
    files.clock += 7200
    return next(files.copy().crashed())


# --- every step of the work, in every way to stop ---------------------------------------------------------


def committing(k: int, *before: str) -> Callable[[FileSystem], None]:
    def work(files: FileSystem) -> None:
        with Store(files).writer(time_to_live=0) as writer:
            if "compact" in before:
                writer.compact(whole=True)
            increment(writer, k)

    return work


def collecting(files: FileSystem) -> None:
    Store(files, keep_versions=3, grace_minutes=1).collect()


def collected(files: MemoryFiles) -> MemoryFiles:
    collecting(files)
    return next(files.crashed())


def everything(files: FileSystem) -> None:
    store = Store(files, keep_versions=2, grace_minutes=1)
    with store.writer(time_to_live=0) as writer:
        writer.compact()
        increment(writer, 19)
        increment(writer, 20)
        store.collect()


WORK: dict[str, tuple[Callable[[], MemoryFiles], Callable[[FileSystem], None]]] = {
    "first commit": (lambda: base(0), committing(1)),
    "commit": (lambda: base(6), committing(7)),
    "commit with a checkpoint": (lambda: base(16), committing(17)),
    "commit after a takeover": (lambda: base(6, released=False), committing(7)),
    "compaction": (lambda: base(6), committing(7, "compact")),
    "purge": (lambda: base(8), committing(9)),
    "collection": (lambda: base(20), collecting),
    "all of these": (lambda: collected(base(18).copy()), everything),
}


@pytest.fixture(params=WORK)
def work(request: pytest.FixtureRequest) -> tuple[MemoryFiles, Callable[[FileSystem], None]]:
    made, act = WORK[request.param]
    return made(), act


def ends(files: MemoryFiles, act: Callable[[FileSystem], None]) -> tuple[int, int, int, int]:
    """How many steps the work has, its last cursor, and the versions before and after."""
    done, before = files.copy(), Store(files.copy()).head()
    act(done)
    steps, store = len(done.trace), Store(done)
    cursor = assert_right(store)
    for found in done.crashed():  # what was committed is durable
        assert assert_right(Store(found)) == cursor
    return steps, cursor, before, store.head()


def assert_goes_on(files: MemoryFiles, cursor: int, before: int, after: int) -> None:
    """What is found is whole, at a version between those ends; the work can be done again, and lasts."""
    store = Store(files)
    assert before <= store.head() <= after
    for number in store.log.numbers()[-3:]:
        assert_right(store, number)
    assert not store.check().problems
    with store.writer(time_to_live=0) as writer:
        for k in range(store.at().facts.get("cursor", 0) + 1, cursor + 2):
            increment(writer, k)
    for found in files.crashed():
        assert assert_right(Store(found)) == cursor + 1
    assert not Store(found).check().problems


class Names:
    """Fresh names that are the same in each run of the same work, so that like outcomes look alike."""

    def __init__(self) -> None:
        self.hex, self._run, self._count = "", "", 0

    def run(self, name: str) -> None:
        self._run, self._count = name, 0

    def uuid4(self) -> Names:
        self._count += 1
        self.hex = f"{self._run}{self._count:04d}"
        return self


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    made = Names()
    for module in ("files", "faults", "lease"):
        monkeypatch.setattr(f"headwater.state.{module}.uuid", made)
    return made


def likeness(files: MemoryFiles) -> Hashable:
    """What makes a difference to a process that finds these files."""
    shown = {p: f for p, f in files._live.items() if "/." not in p}
    unsynced = [(p, f is None) for p, f in files._unsynced if "/." not in p]
    return frozenset((p, f.content, f.written) for p, f in shown.items()), tuple(unsynced)


def test_a_process_may_die_at_any_step(work: Any, names: Names) -> None:
    files, act = work
    names.run("count")
    steps, cursor, before, after = ends(files, act)
    heads, seen = set(), set()
    for step, kind in itertools.product(range(1, steps + 1), STOPS):
        broken = files.copy()
        broken.faults = {step: kind}
        names.run("work")
        with pytest.raises(Stopped):
            act(broken)
        names.run("next")
        for found in broken.crashed():
            if (like := likeness(found)) not in seen:
                seen.add(like)
                heads.add(Store(found).head())
                assert_goes_on(found, cursor, before, after)
    assert heads == set(range(before, after + 1)), "both ends are found"
