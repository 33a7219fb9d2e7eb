"""The store under faults: whatever stops, fails or is damaged, a version is there whole or not at all.

The contents of the test's two maps are a function of the fact `cursor`, so a store is right when its maps are
the model at its cursor: nothing lost, nothing doubled, nothing between. Some stores have two more, a latest map and a
queue of the last two runs of another map, and then two versions of three are minor. Work is stopped at every step in every
way, and what may be found after that is read, checked, and worked on.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater.state
from faulty_files import FAILURES, STOPS, MemoryFiles, Stopped
from headwater.errors import DamagedState, LeaseLost, StateError, VersionGone, WriterBusy
from headwater.state import compaction
from headwater.state.collection import Keep
from headwater.state.files import FileSystem, LocalFiles
from headwater.state.log import Log, path_of
from headwater.state.run import MapSpec, Runs
from headwater.state.store import DATA, Snapshot, Store, StoreWriter
from headwater.state.writing import Writer

ROWS = MapSpec("rows", (("g", pa.int64()), ("x", pa.string())), (("n", pa.int64()),), ("g",))
SUMS = MapSpec(
    "sums", (("g", pa.int64()),), (("n", pa.int64()), ("s", pa.int64())), ("g",), kind="value"
)
CELLS = MapSpec(
    "cells",
    (("g", pa.int64()),),
    (("n", pa.int64()), ("t", pa.string()), ("l", pa.list_(pa.int64()))),
    ("g",),
    kind="latest",
)
QUEUE = MapSpec("queue", ROWS.key, ROWS.ring, ROWS.lookup, pinned=True, of="rows")
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


def cells(k: int) -> dict[int, tuple[str | None, list[int]] | None]:
    """What increment k says of cells; None of those that are gone."""
    gone = {g: None for g, *_ in changes(k - 2)[:4]} if k > 2 else {}
    return {**gone, **{g: (x if g % 5 else None, [k, s]) for g, x, n, s in changes(k) if n > 0}}


@cache
def flow_model(k: int) -> tuple[dict[int, tuple[str | None, list[int]]], dict[Any, int]]:
    """The latest map and the queue after increment k."""
    done = [i for i in range(1, k + 1) if not is_purge(i)]
    held: dict[int, tuple[str | None, list[int]]] = {}
    for i in done:
        for g, cell in cells(i).items():
            held.pop(g, None)
            if cell is not None:
                held[g] = cell
    waiting: dict[Any, int] = {}
    for g, x, n, _ in (c for i in done[-2:] for c in changes(i)):
        waiting[g, x] = waiting.get((g, x), 0) + n
    return held, {q: n for q, n in waiting.items() if n}


def cells_of(k: int) -> pa.Table:
    said = cells(k)
    return pa.table(
        {
            "_h": [hashed(g) for g in said],
            "g": list(said),
            "n": [int(c is not None) for c in said.values()],
            "t": pa.array([c and c[0] for c in said.values()], pa.string()),
            "l": pa.array([c and c[1] for c in said.values()], pa.list_(pa.int64())),
        }
    )


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


def increment(writer: StoreWriter, k: int, flow: bool = False) -> None:
    """Applies increment k, unless the cursor says that it was; `flow`: to a latest map and a queue also."""
    commit = writer.begin()
    if commit.base.facts.get("cursor", 0) >= k:
        return
    if k == 1:
        commit.create(ROWS)
        commit.create(SUMS)
        for spec in (CELLS, QUEUE) if flow else ():
            commit.create(spec)
    flow = flow or "cells" in commit.base.maps
    if is_purge(k):
        for name in ("rows", "sums"):
            commit.purge(name, lambda t: np.asarray(t.column("g")) % 3 == 0)
    else:
        commit.merge("rows", rows_of(k), blind=k % 2 == 0)
        commit.merge("sums", sums_of(k))
        if flow:
            commit.put("cells", cells_of(k))
            commit.remove("queue", commit.base.maps["queue"][1][:-1] if k > 1 else [])
            commit.add("queue", commit.change.added["rows"])
    commit.set("cursor", k)
    writer.commit(commit, {"increment": k, **({"minor": True} if flow and k % 3 else {})})


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
    if "cells" in snapshot.version.maps:
        held = [r for t in snapshot.arrangement("cells").scan() for r in t.to_pylist()]
        rows = [r for t in snapshot.arrangement("queue").scan() for r in t.to_pylist()]
        found = {r["g"]: (r["t"], r["l"]) for r in held}, {(r["g"], r["x"]): r["n"] for r in rows}
        assert found == flow_model(cursor)
        assert (len(held), len(rows)) == (len(found[0]), len(found[1])), "a key is there twice"
    return cursor


@cache
def base(cursor: int, released: bool = True, flow: bool = False) -> MemoryFiles:
    """A store after some increments; copy it."""
    files = MemoryFiles()
    writer = Store(files).writer(time_to_live=0)
    for k in range(1, cursor + 1):
        increment(writer, k, flow)
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
    with Store(files, Keep(versions=3)).writer(time_to_live=0) as writer:
        writer.collect()


def collected(files: MemoryFiles) -> MemoryFiles:
    collecting(files)
    return next(files.crashed())


def everything(files: FileSystem) -> None:
    with Store(files, Keep(versions=2)).writer(time_to_live=0) as writer:
        writer.compact()
        increment(writer, 19)
        increment(writer, 20)
        writer.collect()


WORK: dict[str, tuple[Callable[[], MemoryFiles], Callable[[FileSystem], None]]] = {
    "first commit": (lambda: base(0), committing(1)),
    "commit": (lambda: base(6), committing(7)),
    "commit with a checkpoint": (lambda: base(16), committing(17)),
    "commit after a takeover": (lambda: base(6, released=False), committing(7)),
    "compaction": (lambda: base(6), committing(7, "compact")),
    "purge": (lambda: base(8), committing(9)),
    "collection": (lambda: base(20), collecting),
    "commit with a queue": (lambda: base(6, flow=True), committing(7, "compact")),
    "collection of minor versions": (lambda: base(20, flow=True), collecting),
    "all of these": (lambda: collected(base(18).copy()), everything),
}


@pytest.fixture(
    params=[pytest.param(w, marks=pytest.mark.slow) if w == "all of these" else w for w in WORK]
)
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


def assert_whole(files: MemoryFiles, before: int, after: int) -> None:
    """What is found is at a version between those ends, and nothing is wrong with it."""
    store = Store(files)
    assert before <= store.head() <= after
    for number in {*store.log.numbers()[:1], store.head()}:
        assert_right(store, number)
    assert not store.check().problems
    numbers = store.log.numbers()
    if numbers[:1] > [1]:  # as many are kept as are wished, and the minor ones do not count
        notes = [store.at(n).version.note for n in numbers]
        assert sum("minor" not in note for note in notes) >= 2 + (
            "cells" in store.at().version.maps
        )


def assert_goes_on(files: MemoryFiles, cursor: int) -> None:
    """The work can be done again, and more; the result lasts."""
    store = Store(files)
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
        self.hex = hashlib.md5(f"{self._run}{self._count}".encode()).hexdigest()
        return self


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    made = Names()
    for module in ("headwater.state.files", "headwater.state.lease", "headwater.state.log"):
        monkeypatch.setattr(f"{module}.uuid", made)
    monkeypatch.setattr("faulty_files.uuid", made)
    return made


def likeness(files: MemoryFiles, cut: bool = False) -> Hashable:
    """What makes a difference to a process that finds these files; `cut`: not how much of a file is there."""
    shown = {p: f.content for p, f in files._live.items() if "/." not in p}
    if cut:
        shown = {
            p: c if not re.search("/(run|compact|purge)-", p) or c.endswith(b"ARROW1") else b""
            for p, c in shown.items()
        }
    return frozenset(shown.items()), tuple(
        (p, f is None) for p, f in files._unsynced if "/." not in p
    )


def test_a_process_may_die_at_any_step(work: Any, names: Names) -> None:
    files, act = work
    names.run("count")
    steps, cursor, before, after = ends(files, act)
    heads, seen, gone_on = set(), set(), set()
    act_collects = act in (collecting, everything)  # what it left there says nothing
    for step, kind in itertools.product(range(1, steps + 1), STOPS):
        broken = files.copy()
        broken.faults = {step: kind}
        names.run("work")
        with pytest.raises(Stopped):
            act(broken)
        names.run("next")
        for i, found in enumerate(broken.crashed()):
            if (like := likeness(found)) not in seen:
                seen.add(like)
                heads.add(Store(found).head())
                assert_whole(found, before, after)
            like = likeness(found, cut=True)
            if like not in gone_on and (i <= 1 or not act_collects):
                gone_on.add(like)
                assert_goes_on(found, cursor)
    assert heads == set(range(before, after + 1)), "both ends are found"


# --- errors, after which the process goes on --------------------------------------------------------------


def decided(files: MemoryFiles, step: int) -> int:
    """How many versions were linked before a step; then only making the name durable failed."""
    return sum(s.startswith("link log/") for s in files.trace[: step - 1])


@pytest.mark.parametrize("kind", FAILURES)
def test_any_step_may_fail(kind: Any, work: Any, names: Names) -> None:
    files, act = work
    names.run("count")
    steps, cursor, before, after = ends(files, act)
    seen = set()
    for step in range(1, steps + 1):
        broken = files.copy()
        broken.faults = {step: kind}
        names.run("work")
        try:
            act(broken)
            end = after  # what failed was of no consequence
        except OSError as e:
            assert f"step {step}, {broken.trace[step - 1]}" in str(e), (
                "the first error is the one told"
            )
            end = before + decided(broken, step)
        found = broken.copy()
        if (like := likeness(found, cut=True)) not in seen:
            seen.add(like)
            names.run("next")
            assert_whole(found, end, end)
            assert_goes_on(found, cursor)


@pytest.mark.parametrize("kind", FAILURES)
def test_the_same_writer_goes_on_after_an_error(kind: Any) -> None:
    counted = base(6).copy()
    writer = Store(counted).writer(time_to_live=0)
    first = len(counted.trace)
    writer.compact(whole=True)
    increment(writer, 7)
    failed = 0
    for step in range(first + 1, len(counted.trace) + 1):
        files = base(6).copy()
        files.faults = {step: kind}
        store = Store(files)
        with store.writer(time_to_live=0) as writer:
            try:
                writer.compact(whole=True)
                increment(writer, 7)
            except OSError:
                failed += 1
                assert store.head() == 6 + decided(files, step)
            increment(writer, 7)
            increment(writer, 8)
        for found in files.crashed():
            assert assert_right(Store(found)) == 8
        assert not store.check().problems
    assert failed > 10


def test_a_commit_that_failed_can_be_made_again() -> None:
    files = base(6).copy()
    with Store(files).writer(time_to_live=0) as writer:
        commit = writer.begin()
        commit.merge("rows", rows_of(7))
        commit.merge("sums", sums_of(7))
        commit.set("cursor", 7)
        files.faults = {len(files.trace) + 6: "full"}  # the record, after the lease was looked at
        with pytest.raises(OSError, match=r"write log/\.0*7"):
            writer.commit(commit)
        writer.commit(commit)
        with pytest.raises(LeaseLost, match="version 7"):
            writer.commit(commit)
    assert assert_right(Store(files)) == 7


# --- zombies ----------------------------------------------------------------------------------------------


class Aging(LocalFiles):
    """A directory whose clock the test moves."""

    clock = 0.0

    def now(self) -> float:
        return super().now() + self.clock


@pytest.fixture(params=["memory", "local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return MemoryFiles() if request.param == "memory" else Aging(tmp_path / "a" / "state")


def test_a_zombie_changes_nothing(place: Any) -> None:
    """A task that ran twice, was given up, or outlived its driver writes late; and again, and again."""
    store = Store(place, Keep(versions=1, grace=60))

    def task(k: int) -> Writer:
        out = Writer(place, "run", DATA)
        for spec, t in ((ROWS, rows_of(k)), (SUMS, sums_of(k))):
            entries, _ = writer.begin().arrangement(spec.name).merge(t)
            out.add(spec, [entries], writer.begin().generation())
        return out

    def late(*tasks: Writer) -> None:
        for zombie in tasks:
            path, there = f"{DATA}/{zombie.name}", zombie.name in data()
            content = place.read(path) if there else None
            with pytest.raises(FileExistsError) if there else contextlib.nullcontext():
                zombie.close()
            assert content is None or place.read(path) == content
        assert_right(store)
        assert not store.check().problems

    def data() -> set[str]:
        return {e.name for e in place.list(DATA)}

    with store.writer() as writer:
        for k in range(1, 5):
            increment(writer, k)
        chosen, speculated, orphaned = task(5), task(5), task(5)
        speculated.close()
        commit = writer.begin()
        for name, ref in chosen.close():
            commit.add(name, [ref])
        late(speculated)
        commit.set("cursor", 5)
        writer.commit(commit)
        late(chosen, speculated, orphaned)  # after the commit

        writer.compact(whole=True)
        increment(writer, 6)
        late(chosen, speculated, orphaned)  # after compaction: the chosen one is not named any more

        assert writer.collect() == [], "not before the grace period has passed"
        assert {chosen.name, speculated.name, orphaned.name} <= data()
        place.clock += 3601
        increment(writer, 7)
        gone = writer.collect()
        assert f"{DATA}/{chosen.name}" in gone
        # What no version ever named is left to the next writer: this one may still want to name it.
        assert data() == store.at().version.files | {speculated.name, orphaned.name}
        late(chosen, speculated, orphaned)  # the chosen one is written anew, and is garbage again
    store = Store(place, Keep(versions=1))
    with store.writer() as writer:
        gone = writer.collect()
        assert {f"{DATA}/{t.name}" for t in (chosen, speculated, orphaned)} <= set(gone)
        assert data() == store.at().version.files
        increment(writer, 8)
    assert assert_right(Store(place)) == 8


def test_what_waits_for_its_commit_is_there_when_it_is_made(place: Any) -> None:
    """However long it waits, and whatever is collected meanwhile; what is gone all the same is not named."""
    store = Store(place, Keep(versions=1))
    with store.writer() as writer:
        for k in range(1, 4):
            increment(writer, k)
        writer.compact(whole=True)
        commit = writer.begin()
        commit.merge("rows", rows_of(4))
        commit.merge("sums", sums_of(4))
        commit.set("cursor", 4)
        place.clock += 36_000
        before = {e.name for e in place.list(DATA)}
        assert writer.collect() == []
        assert {e.name for e in place.list(DATA)} == before
        writer.commit(commit)
        commit = writer.begin()
        commit.merge("rows", rows_of(5))
        place.delete(f"{DATA}/{commit.change.added['rows'][0].file}")
        with pytest.raises(StateError, match="a file of this commit, is not there"):
            writer.commit(commit)
        increment(writer, 5)
    assert not store.check().problems
    assert assert_right(Store(place)) == 5


@pytest.mark.parametrize("apart", [-7200.0, 7200.0])
def test_nothing_that_is_needed_goes_where_clocks_differ(tmp_path: Path, apart: float) -> None:
    """The disk's clock is hours before or behind this machine's, and changes from one writer to the next."""

    class Server(LocalFiles):
        """Files as a server stamps them."""

        def write(self, path: str, chunks: Any) -> int:
            size = super().write(path, chunks)
            self._stamp(path)
            return size

        def put_if_absent(self, path: str, data: bytes) -> bool:
            done = super().put_if_absent(path, data)
            self._stamp(path)
            return done

        def now(self) -> float:
            return super().now() + apart

        def _stamp(self, path: str) -> None:
            t = time.time() + apart
            os.utime(self.root / path, (t, t))

    for files, cursor in (
        (Server(tmp_path), 20),
        (LocalFiles(tmp_path), 40),
        (Server(tmp_path), 60),
    ):
        store = Store(files, Keep(versions=3, minutes=1))
        with store.writer() as writer:
            for k in range(store.at().facts.get("cursor", 0) + 1, cursor + 1):
                writer.compact()
                commit = writer.begin()
                writer.collect()
                writer.commit(commit)
                increment(writer, k)
        assert assert_right(store) == cursor
        assert not store.check().problems


# --- leases -----------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_while_readers_go_on(place: Any) -> None:
    store = Store(place)
    with store.writer() as writer:
        increment(writer, 1)
        away(place)
        with pytest.raises(WriterBusy, match="is writing to this database"):
            Store(place).writer()
        assert assert_right(Store(place)) == 1
        increment(writer, 2)
        assert assert_right(Store(place)) == 2
    with Store(place).writer() as writer:  # released: at once, and without a fence
        assert store.head() == 2
        increment(writer, 3)


def away(files: FileSystem) -> None:
    """The newest lease as though another machine had taken it."""
    name = max(n for n in files.names("lease") if n.endswith(".json"))
    record = json.loads(files.read(f"lease/{name}"))
    files.delete(f"lease/{name}")
    files.put_if_absent(f"lease/{name}", json.dumps({**record, "host": "elsewhere"}).encode())


def test_a_second_handle_in_the_same_process_takes_over(place: Any) -> None:
    """As a cell of a notebook that is run again; the first handle is told, and loses nothing in silence."""
    first = Store(place).writer()
    increment(first, 1)
    with Store(place).writer() as second:
        increment(second, 2)
        with pytest.raises(LeaseLost, match="another writer has taken over"):
            increment(first, 3)
        increment(second, 3)
    assert assert_right(Store(place)) == 3


def test_a_closed_writer_cannot_commit(place: Any) -> None:
    writer = Store(place).writer()
    writer.close()
    with pytest.raises(LeaseLost, match="closed"):
        writer.commit(writer.begin())


def test_a_dead_process_is_taken_over_at_once(tmp_path: Path) -> None:
    code = """
import os, sys
from headwater.state.files import LocalFiles
from headwater.state.store import Store
Store(LocalFiles(sys.argv[1])).writer()
print(os.getpid(), flush=True)
os._exit(9)
"""
    died = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True
    )
    store = Store(LocalFiles(tmp_path))
    with store.writer() as writer:
        assert died.stdout.strip() and writer.lease.taken_over
        assert store.at().version.note == {"fence": 2}
        increment(writer, 1)
    assert assert_right(store) == 1


def test_a_writer_that_shows_no_life_is_taken_over_after_a_while(monkeypatch: Any) -> None:
    files = base(3).copy()
    first = Store(files).writer(time_to_live=0)  # no thread that beats
    away(files)
    files.clock += 50
    with pytest.raises(WriterBusy):
        Store(files).writer()
    first.lease.beat()
    files.clock += 50
    with pytest.raises(WriterBusy):
        Store(files).writer()
    first.lease.beat()
    files.clock += 61
    with Store(files).writer() as second:
        assert second.lease.taken_over and Store(files).head() == 4
        for lost in (lambda: increment(first, 4), lambda: first.commit(first.begin())):
            with pytest.raises(LeaseLost, match="another writer has taken over"):
                lost()
        increment(second, 4)
    assert assert_right(Store(files)) == 4


def test_a_writer_that_lives_beats(tmp_path: Path) -> None:
    with Store(LocalFiles(tmp_path)).writer(time_to_live=0.3):
        away(LocalFiles(tmp_path))
        time.sleep(0.9)
        with pytest.raises(WriterBusy):
            Store(LocalFiles(tmp_path)).writer(time_to_live=0.3)


def test_a_writer_that_was_paused_after_its_check_cannot_commit(monkeypatch: Any) -> None:
    files = base(3).copy()
    first = Store(files).writer(time_to_live=0)
    check = first.lease.check

    def paused() -> None:
        check()
        Store(files).writer(time_to_live=0)

    monkeypatch.setattr(first.lease, "check", paused)
    with pytest.raises(LeaseLost, match="version 4 was committed by another writer"):
        increment(first, 4)
    assert Store(files).at().version.note == {"fence": 3}
    assert assert_right(Store(files)) == 3


def test_a_writer_may_be_paused_at_any_step_and_taken_over() -> None:
    """Another writer comes, fences and commits within each step of a commit: one of the two makes it."""
    counted = base(6).copy()
    writer = Store(counted).writer(time_to_live=0)
    first_step = len(counted.trace) + 1
    increment(writer, 7)
    lost = []
    for step in range(first_step, len(counted.trace) + 1):
        files = base(6).copy()
        files.faults = {step: "slow"}
        first, others = Store(files).writer(time_to_live=0), []

        def takeover(files: MemoryFiles = files, others: list[StoreWriter] = others) -> None:
            others.append(Store(files).writer(time_to_live=0))
            increment(others[0], 7)
            increment(others[0], 8)

        files.slow = takeover
        try:
            increment(first, 7)
        except LeaseLost:
            lost.append(step)
        with pytest.raises(LeaseLost):
            first.commit(first.begin())
        increment(others[0], 9)
        store = Store(files)
        assert assert_right(store) == 9
        made = [store.at(n).facts["cursor"] for n in store.log.numbers()]
        assert made in ([1, 2, 3, 4, 5, 6, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6, 7, 7, 8, 9])
        assert not store.check().problems
    assert 0 < len(lost) < len(counted.trace) - first_step


def test_a_takeover_may_be_overtaken_by_a_last_commit() -> None:
    """The writer before commits within each step of the takeover: the takeover succeeds all the same."""
    counted = base(6, released=False).copy()
    Store(counted).writer(time_to_live=0)
    came_last = 0
    for step in range(1, len(counted.trace) + 1):
        files = base(6).copy()
        first = Store(files).writer(time_to_live=0)
        commit = first.begin()
        commit.merge("rows", rows_of(7))
        commit.merge("sums", sums_of(7))
        commit.set("cursor", 7)
        first.lease.check = lambda: None  # type: ignore[method-assign]  # it has passed its check
        files.faults = {len(files.trace) + step: "slow"}
        files.slow = lambda first=first, commit=commit: first.commit(commit)  # type: ignore[misc]
        try:
            second = Store(files).writer(time_to_live=0)
        except LeaseLost:  # the slow step was after the fence
            came_last += 1
            continue
        notes = [Store(files).at(n).version.note for n in range(7, Store(files).head() + 1)]
        assert {"fence": second.lease.holder.epoch} in notes
        increment(second, 7)
        increment(second, 8)
        assert assert_right(Store(files)) == 8
        assert not Store(files).check().problems
    assert came_last < 10


@pytest.mark.parametrize("kind", FAILURES)
def test_a_takeover_that_cannot_fence_leaves_the_lease_as_it_was(kind: Any) -> None:
    """Else the next writer would find a lease that was released, set no fence, and race with the first."""
    counted = base(6, released=False).copy()
    Store(counted).writer(time_to_live=0)
    for step in range(1, len(counted.trace) + 1):
        files = base(6, released=False).copy()
        files.faults = {step: kind}
        with contextlib.suppress(OSError):
            Store(files).writer(time_to_live=0).close()
            continue
        with Store(files).writer(time_to_live=0) as writer:
            assert writer.lease.taken_over
            assert "fence" in Store(files).at().version.note
            increment(writer, 7)
        assert assert_right(Store(files)) == 7


# --- integrity --------------------------------------------------------------------------------------------


def damages(content: bytes, other: bytes) -> Iterator[tuple[str, bytes | None]]:
    middle = len(content) // 2
    flipped = bytes([content[middle] ^ 0x10])
    yield "truncated", content[:middle]
    yield "cut by one", content[:-1]
    yield "flipped", content[:middle] + flipped + content[middle + 1 :]
    yield "deleted", None
    yield "another", other


def paths(files: MemoryFiles, folder: str) -> list[str]:
    return [f"{folder}/{e.name}" for e in files.list(folder)]


def test_damage_of_a_data_file_is_named() -> None:
    good = base(10)
    versions = {n: Store(good.copy()).at(n).version for n in range(1, 11)}
    data = paths(good, DATA)
    for path, other in zip(data, data[1:] + data[:1], strict=True):
        name = path.removeprefix(f"{DATA}/")
        whole = max((n for n, v in versions.items() if name not in v.files), default=0)
        for kind, content in damages(good.read(path), good.read(other)):
            files = good.copy()
            files.replace(path, content)
            report = Store(files).check()
            assert [(p.path, p.whole) for p in report.problems] == [(path, whole)], kind
            assert report.whole == whole and f"last whole version is {whole}" in str(
                report.problems[0]
            )
            named = [n for n, v in versions.items() if name in v.files]
            for n in {whole, named[0], named[-1]}:
                if n not in named:
                    assert_right(Store(files), n)
                elif kind not in ("flipped", "another"):  # the checksum tells, when all is read
                    with pytest.raises(DamagedState, match=re.escape(path)) as damage:
                        assert_right(Store(files), n)
                    assert damage.value.whole == whole
            if 10 in named:
                with Store(files).writer(time_to_live=0) as writer:
                    with pytest.raises(DamagedState, match=re.escape(path)):
                        writer.compact(whole=True)
                    assert Store(files).head() == 10


def test_damage_of_a_record_is_named() -> None:
    good = base(20)
    records = paths(good, "log")
    for number, (path, other) in enumerate(zip(records, records[1:] + records[:1], strict=True), 1):
        for kind, content in damages(good.read(path), good.read(other)):
            if number == 20 and kind == "deleted":
                continue  # see below
            files = good.copy()
            files.replace(path, content)
            broken = range(number, 17 if number < 17 else 21)  # up to the next checkpoint
            whole = 20 if number < 17 else number - 1
            report = Store(files).check()
            assert [(p.path, p.whole) for p in report.problems] == [(path, whole)], kind
            assert (report.versions, report.whole) == (20 - len(broken), whole)
            for n in {broken[0], broken[-1]}:
                with pytest.raises(DamagedState, match=path) as damage:
                    Store(files).at(n)
                assert damage.value.whole == number - 1
            for n in {number - 1, whole}:
                assert_right(Store(files), n)
            if 20 in broken:
                for act in (Store(files).at, Store(files).writer):
                    with pytest.raises(DamagedState, match=path):
                        act()


def test_a_store_without_its_newest_record_is_at_the_version_before() -> None:
    """Nothing else tells of the newest record, so that it is missing cannot be seen; all is whole."""
    files = base(20).copy()
    files.replace(path_of(20), None)
    assert assert_right(Store(files)) == 19
    assert not Store(files).check().problems


def test_a_store_that_lost_all_records_is_not_taken_for_a_new_one() -> None:
    files = base(20).copy()
    collecting(files)
    for path in paths(files, "log"):
        files.replace(path, None)
    for act in (Store(files).head, Store(files).check, Store(files).at, Store(files).writer):
        with pytest.raises(DamagedState, match=path_of(18)):
            act()


def test_any_byte_of_a_record_is_checked() -> None:
    good = base(3)
    content = good.read(path_of(2))
    for i in range(len(content)):
        files = good.copy()
        files.replace(path_of(2), content[:i] + bytes([content[i] ^ 0x01]) + content[i + 1 :])
        with pytest.raises(DamagedState, match=path_of(2)):
            Log(files).read(3)


def test_any_byte_of_a_run_is_checked() -> None:
    files = base(3).copy()
    for _, refs in Store(files).at().version.maps.values():
        path, ref = f"{DATA}/{refs[0].file}", refs[0]
        content = files.read(path)
        for i in range(len(content)):
            files.replace(path, content[:i] + bytes([content[i] ^ 0x81]) + content[i + 1 :])
            with pytest.raises(DamagedState, match=re.escape(path)):
                Runs(files, DATA).verify(ref)
        files.replace(path, content)


def test_check_trusts_nothing_that_was_read_before() -> None:
    for folder, kind in itertools.product(("log", DATA), ("flipped", "deleted", "cut by one")):
        files = base(1).copy()
        store = Store(files)
        assert_right(store)
        path = paths(files, folder)[0]
        files.replace(path, dict(damages(files.read(path), b""))[kind])
        if (folder, kind) != ("log", "deleted"):
            assert [p.path for p in store.check().problems] == [path]


def test_damage_found_in_the_background_is_told_by_the_next_commit() -> None:
    files = base(8).copy()
    store = Store(files)
    with store.writer(time_to_live=0) as writer:
        name = next(iter(sorted(store.at().version.files)))
        path = f"{DATA}/{name}"
        files.replace(path, dict(damages(files.read(path), b""))["flipped"])
        writer.tidy()
        writer.wait()
        with pytest.raises(DamagedState, match=re.escape(path)):
            writer.commit(writer.begin())
        assert store.head() == 8


# --- the past ---------------------------------------------------------------------------------------------


def test_old_versions_are_kept_for_as_many_versions_as_wished() -> None:
    files = base(20).copy()
    store = Store(files, Keep(versions=3))
    with store.writer(time_to_live=0) as writer:
        gone = writer.collect()
    assert [p for p in gone if p.startswith("log/")] == [path_of(n) for n in range(1, 17)]
    assert store.kept() == [18, 19, 20]
    assert [assert_right(Store(files), n) for n in (18, 19, 20)] == [18, 19, 20]
    for n in (1, 16, 17, 21):
        with pytest.raises(VersionGone, match=f"version {n} is not there") as absent:
            Store(files).at(n)
        assert "18 to 20" in str(absent.value)
    assert not Store(files).check().problems


def test_old_versions_are_kept_for_as_many_minutes_as_wished() -> None:
    files = MemoryFiles()
    store = Store(files, Keep(versions=1, minutes=10))
    with store.writer(time_to_live=0) as writer:
        for k in range(1, 31):
            increment(writer, k)
            files.clock += 60
            if k % 7 == 0:
                writer.compact()
                writer.collect()
                kept = store.kept()
                assert kept == list(range(max(1, k - 10), k + 1))
                assert [assert_right(Store(files), n) for n in kept] == kept
                assert not store.check().problems
    with pytest.raises(VersionGone, match="versions that are there: 18 to 30"):
        Store(files).at(17)


def test_minor_versions_are_not_counted() -> None:
    """Of 30 versions every third counts; those that are newer than the oldest that is kept stay with it."""
    files = MemoryFiles()
    store = Store(files, Keep(versions=4))
    writer = store.writer(time_to_live=0)
    for k in range(1, 31):
        increment(writer, k, flow=True)
        if k % 4 == 0:
            writer.compact(whole=k % 8 == 0)
            writer.collect()
            first = max(1, 3 * (k // 3 - 3))
            assert store.kept() == Store(files, store.keep).kept() == list(range(first, k + 1))
            assert [assert_right(Store(files), n) for n in store.kept()] == store.kept()
            with pytest.raises(VersionGone):
                Store(files).at(first - 1 or 99)
        if k % 10 == 0:  # another writer knows as much
            writer.close()
            writer = store.writer(time_to_live=0)
    writer.close()
    assert not store.check().problems


def test_few_records_say_which_versions_are_minor() -> None:
    """However many there are, a collection reads a few, and none again."""
    files = MemoryFiles()
    store = Store(files, Keep(versions=2))
    with store.writer(time_to_live=0) as writer:
        for k in range(1, 321):
            writer.commit(writer.begin(), {"minor": True} if k % 160 else {})
    store = Store(files, Keep(versions=2))
    with store.writer(time_to_live=0) as writer:
        reads: list[int] = []
        for _ in range(3):
            before = len(files.trace)
            writer.commit(writer.begin(), {"minor": True})
            writer.collect()
            reads.append(sum(s.startswith("read log/") for s in files.trace[before:]))
        assert store.kept()[0] == 160
    assert 0 < reads[0] <= 12 and max(reads[1:]) <= 8, reads


def test_a_record_that_is_damaged_lets_nothing_go() -> None:
    """Whether it is minor is not known, so one more is kept; without minor versions nobody asks."""
    for flow, kept in ((True, [11, 12]), (False, [18])):
        files = base(20, flow=flow).copy()
        for number in (11, 13):
            files.replace(path_of(number), b"")
        store = Store(files, Keep(versions=3))
        with store.writer(time_to_live=0) as writer:
            writer.collect()
        assert store.kept()[0] in kept
        assert assert_right(Store(files), 20) == 20


def test_a_history_without_minor_versions_says_nothing_of_them() -> None:
    """Records are what they were before there were any, byte for byte; a count that is wrong is damage."""
    files = base(18).copy()
    for number in range(1, 19):
        record = json.loads(files.read(path_of(number)).rpartition(b"\n")[0])
        assert set(record) <= {"version", "time", "note", "mark", "seal", "checkpoint", "change"}
    files = base(18, flow=True).copy()
    for number, wrong in itertools.product((10, 17), (0, 1, -1, "2", True, None, 10**9)):
        broken = files.copy()
        record = json.loads(broken.read(path_of(number)).rpartition(b"\n")[0])
        assert record["minors"] == number - number // 3
        body = json.dumps({**record, "minors": wrong}, separators=(",", ":")).encode()
        broken.replace(path_of(number), body + b"\n" + f"{zlib.crc32(body):08x}".encode())
        with pytest.raises(DamagedState, match=path_of(number)):
            Store(broken).at(number)


# --- queues -----------------------------------------------------------------------------------------------


def queued(files: FileSystem) -> tuple[Store, StoreWriter]:
    """A store with a queue, in which rows come."""
    store = Store(files, Keep(versions=1))
    writer = store.writer(time_to_live=0)
    commit = writer.begin()
    commit.create(ROWS)
    for name in ("one", "two"):
        commit.create(MapSpec(name, ROWS.key, ROWS.ring, ROWS.lookup, pinned=True, of="rows"))
    writer.commit(commit)
    for k in (1, 2):
        commit = writer.begin()
        commit.merge("rows", rows_of(k), blind=True)
        for name in ("one", "two"):
            commit.add(name, commit.change.added["rows"])
        writer.commit(commit)
    return store, writer


def test_a_file_stays_while_any_map_names_a_run_of_it(place: Any) -> None:
    store, writer = queued(place)

    def runs(name: str) -> tuple[Any, ...]:
        return store.at().version.maps[name][1]

    def data() -> set[str]:
        return {e.name for e in place.list(DATA)}

    first, second = runs("rows")
    assert runs("one") == runs("two") == (first, second)
    assert store.check().bytes == first.size + second.size, "what several maps have is read once"
    writer.compact(whole=True)
    writer.commit(writer.begin())
    (compacted,) = runs("rows")
    assert runs("one") == runs("two") == (first, second), "a queue is never rewritten"
    assert writer.collect() == []

    commit = writer.begin()
    commit.remove("one", [first, second])
    writer.commit(commit)
    commit = writer.begin()
    commit.remove("two", [first])
    writer.commit(commit)
    old = store.at().version
    assert f"{DATA}/{first.file}" in writer.collect()
    assert data() == {second.file, compacted.file} == old.files

    commit = writer.begin()
    commit.drop("two")
    writer.commit(commit)
    store.keep = Keep(versions=2)
    assert f"{DATA}/{second.file}" not in writer.collect(), "a kept version names it"
    assert store.at(old.number).arrangement("two").refs == [second]
    store.keep = Keep(versions=1)
    assert f"{DATA}/{second.file}" in writer.collect()
    assert data() == {compacted.file}
    writer.close()
    assert not Store(place).check().problems


def test_what_a_queue_may_have(place: Any) -> None:
    """Runs of this commit and of the version before; and never one twice."""
    store, writer = queued(place)
    refs = store.at().version.maps["rows"][1]
    commit = writer.begin()
    with pytest.raises(StateError, match="`rows` are removed, and it is not pinned"):
        commit.remove("rows", refs)
    with pytest.raises(StateError, match="`one` is purged, and it is pinned"):
        commit.purge("one", lambda t: np.ones(t.num_rows, bool))
    with pytest.raises(StateError, match="`one` would have a run twice"):
        commit.add("one", refs[:1])
    with pytest.raises(StateError, match="a run of version 2 is added to version 4"):
        commit.add("rows", refs[:1])
    commit.remove("one", refs)
    commit.merge("one", rows_of(3), blind=True)
    with pytest.raises(StateError, match="does not have a run"):
        commit.remove("one", commit.change.added["one"])
    writer.compact(whole=True)
    writer.commit(commit)
    rows = [r for t in store.at().arrangement("one").scan() for r in t.to_pylist()]
    assert {(r["g"], r["x"]): r["n"] for r in rows} == {(g, x): n for g, x, n, _ in changes(3)}

    commit = writer.begin()
    commit.add("one", refs)  # another queue has them still, though the map itself does not
    commit.remove("two", refs)
    writer.commit(commit)
    commit = writer.begin()
    commit.remove("one", refs)
    writer.commit(commit)
    commit = writer.begin()
    with pytest.raises(StateError, match="a run of version 2 is added to version 7"):
        commit.add("one", refs)  # nobody has them now, so that their file may go
    writer.close()
    assert not store.check().problems


def test_a_queue_of_another_map_is_found_out(place: Any) -> None:
    """A run says which map it is of, whichever map names it first."""
    for name, ring in (("one", ROWS.ring), ("zero", (("m", pa.int64()),))):
        store, writer = queued(MemoryFiles())
        (run, _) = store.at().version.maps["one"][1]
        commit = writer.begin()
        other = "rows" if name == "zero" else "other"
        commit.create(MapSpec(f"{name}s", ROWS.key, ring, ROWS.lookup, pinned=True, of=other))
        commit.change.added[f"{name}s"] = [run]
        writer.commit(commit)
        writer.close()
        (problem,) = store.check().problems
        assert problem.path == f"{DATA}/{run.file}" and problem.whole == commit.base.number
        with pytest.raises(DamagedState, match=re.escape(run.file)):
            list(store.at().arrangement(f"{name}s").scan())


def test_what_records_say_of_maps() -> None:
    """Nothing is said of queues where there are none, and an unknown kind is damage."""
    files = base(1, flow=True).copy()
    content = files.read(path_of(1)).rpartition(b"\n")[0]
    created = json.loads(content)["change"]["created"]
    plain = {"columns", "keys", "lookup", "kind", "order"}
    assert set(created["rows"]) == set(created["cells"]) == plain
    assert set(created["queue"]) == {*plain, "pinned", "of"}
    assert Store(files).at().version.maps["queue"][0] == QUEUE
    assert set(ROWS.described()) == {"key", "ring", "lookup", "kind", "order"}
    for old, new in (
        (b'"kind":"latest"', b'"kind":"oldest"'),
        (b'"pinned":true', b'"pinned":1'),
        (b'"pinned":true', b'"pinned":false'),
        (b'"of":"rows"', b'"of":["rows"]'),
        (b'"of":"rows"', b'"of":"sums"'),
        (b'"pinned":true,"of":"rows"', b'"kind":"change"'),
    ):
        assert old in content
        body = content.replace(old, new)
        broken = files.copy()
        broken.replace(path_of(1), body + b"\n" + f"{zlib.crc32(body):08x}".encode())
        with pytest.raises(DamagedState, match=path_of(1)):
            Store(broken).at()


# --- interrupts -------------------------------------------------------------------------------------------


def test_an_interrupt_leaves_nothing_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it compacts, or waits for a collection: the same writer goes on, and does both again."""
    files = base(11).copy()
    store = Store(files, Keep(versions=1))
    with store.writer(time_to_live=0) as writer:

        def interrupted(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        for owner, name, act in (
            (compaction, "compact", lambda: writer.compact(whole=True)),
            (Writer, "close", lambda: writer.compact(whole=True)),
            (threading.Thread, "join", writer.collect),
        ):
            with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
                patched.setattr(owner, name, interrupted)
                act()
            increment(writer, store.at().facts["cursor"] + 1)
        writer.compact(whole=True)
        writer.commit(writer.begin())
        assert all(len(refs) == 1 for _, refs in store.at().version.maps.values())
        writer.collect()
        assert {e.name for e in files.list(DATA)} == store.at().version.files
    assert not store.check().problems


# --- nothing executable -----------------------------------------------------------------------------------


def test_no_code_of_the_state_layer_runs_what_it_reads() -> None:
    assert headwater.state.__file__ is not None
    for source in Path(headwater.state.__file__).parent.glob("*.py"):
        found = re.findall(
            r"\b(?:pickle|marshal|shelve|dill|cloudpickle|eval|exec|compile|__import__|importlib)\b",
            re.sub(r"re\.compile", "", source.read_text()),
        )
        assert not found, source.name


def test_extension_types_in_files_are_not_resolved_to_code(tmp_path: Path) -> None:
    """Arrow once unpickled what a type's metadata held; neither a run nor a record does so."""
    mark = tmp_path / "ran"
    payload = f"cposix\nsystem\n(S'touch {mark}'\ntR.".encode()
    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": payload,
    }
    evil = pa.schema([pa.field("_h", pa.int64()), pa.field("g", pa.int64(), metadata=metadata)])
    files = base(1).copy()
    (run,) = Store(files).at().version.maps["sums"][1]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, evil) as out:
        out.write_table(pa.table({"_h": [0] * run.rows, "g": [0] * run.rows}, schema=evil))
    content = sink.getvalue().to_pybytes()
    files.write(f"{DATA}/evil", [content])
    bad = type(run)("evil", 0, len(content), run.rows, 0, 0, 0, zlib.crc32(content), 1)
    assert Runs(files, DATA).open(bad).segments[0].batch.schema.field("g").type == pa.int64()

    record = json.loads(files.read(path_of(1)).rpartition(b"\n")[0])
    for specs in (record["checkpoint"]["maps"]["sums"][0], record["change"]["created"]["sums"]):
        fields = [evil.field("g"), pa.field("n", pa.int64()), pa.field("s", pa.int64())]
        specs["columns"] = base64.b64encode(pa.schema(fields).serialize().to_pybytes()).decode()
    body = json.dumps(record).encode()
    files.replace(path_of(1), body + b"\n" + f"{zlib.crc32(body):08x}".encode())
    record = Store(files).at().version
    assert record.maps["sums"][0].key == SUMS.key
    assert_right(Store(files))
    assert not mark.exists()


# --- the file systems -------------------------------------------------------------------------------------


def use(files: FileSystem) -> list[Any]:
    """All operations of a file system and what they answer."""

    def tried(act: Callable[[], Any]) -> Any:
        try:
            return act()
        except OSError as e:
            return type(e).__name__

    return [
        files.list("data"),
        files.write("data/b", [b"one", pa.py_buffer(b"two"), memoryview(b"three")]),
        files.write("data/a", []),
        tried(lambda: files.write("data/b", [b"other"])),
        files.put_if_absent("log/1", b"record"),
        files.put_if_absent("log/1", b"other"),
        files.read("data/b"),
        files.map("data/b").to_pybytes(),
        files.map("data/a").to_pybytes(),
        files.read("log/1"),
        tried(lambda: files.read("data/c")),
        tried(lambda: files.map("data/c")),
        [(e.name, e.size, abs(files.now() - e.written) < 60) for e in files.list("data")],
        files.delete("data/b"),
        files.delete("data/b"),
        [e.name for e in files.list("data")],
        [e.name for e in files.list("log")],
    ]


def test_the_file_systems_answer_alike(tmp_path: Path) -> None:
    assert use(MemoryFiles()) == use(LocalFiles(tmp_path / "x" / "y"))


def test_the_steps_in_memory_are_those_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: Names
) -> None:
    """What is tested by faults in memory is what `LocalFiles` does: the same steps in the same order."""
    steps: list[str] = []

    def told(owner: Any, attribute: str, tell: Callable[..., str | None]) -> None:
        real = getattr(owner, attribute)

        def call(*args: Any, **options: Any) -> Any:
            if (step := tell(*args)) is not None:
                steps.append(step)
            return real(*args, **options)

        monkeypatch.setattr(owner, attribute, call)

    def name(path: str | Path) -> str:
        found = Path(path)
        inside = "" if found == tmp_path else found.relative_to(tmp_path).as_posix()
        return f"{inside}/" if found.is_dir() else inside

    told(os, "fsync", lambda fd: f"sync {name(os.readlink(f'/proc/self/fd/{fd}'))}")
    told(os, "link", lambda _, to: f"link {name(to)}")
    told(Path, "unlink", lambda path: f"remove {name(path)}")
    told(Path, "mkdir", lambda path: None if path.exists() else f"mkdir {name(path)}")
    told(Path, "open", lambda path, mode="r", *_: f"create {name(path)}" if "x" in mode else None)
    names.run("same")
    use(LocalFiles(tmp_path))
    files = MemoryFiles()
    names.run("same")
    use(files)
    looks = ("write", "read", "map", "list", "look")
    assert steps == [s for s in files.trace if s.split()[0] not in looks]


def test_a_tear_leaves_a_part_and_reordering_a_later_name() -> None:
    files = MemoryFiles()
    files.write("data/a", [b"whole"])
    files.faults = {len(files.trace) + 2: "tear"}
    with pytest.raises(Stopped):
        files.write("data/b", [b"0123456789"])
    found = {f.read("data/b") if "data/b" in paths(f, DATA) else None for f in files.crashed()}
    assert found == {b"01234", b"", b"\0" * 5, None}

    files = MemoryFiles()
    for name in ("a", "b", "c"):
        files.put_if_absent(f"log/{name}", b"")
    files.delete("log/a")
    files.delete("log/b")
    found = {"".join(e.name for e in f.list("log")) for f in files.crashed()}
    assert found == {"c", "ac", "bc", "abc"}


def test_a_record_is_torn_whole_or_not_at_all() -> None:
    counted = MemoryFiles()
    counted.put_if_absent("log/1", b"record")
    seen = set()
    for step, kind in itertools.product(range(1, len(counted.trace) + 1), STOPS):
        files = MemoryFiles()
        files.faults = {step: kind}
        with pytest.raises(Stopped):
            files.put_if_absent("log/1", b"record")
        for found in files.crashed():
            seen.add(tuple(found.read(p) for p in paths(found, "log")))
    assert seen == {(), (b"record",)}


# --- commits ----------------------------------------------------------------------------------------------


def test_a_map_that_is_dropped_and_made_anew_is_empty() -> None:
    files = base(3).copy()
    with Store(files).writer(time_to_live=0) as writer:
        commit = writer.begin()
        commit.drop("sums")
        with pytest.raises(StateError, match="dropped by this commit"):
            commit.merge("sums", sums_of(1))
        commit.create(SUMS)
        touched = commit.merge("sums", sums_of(1))
        assert touched is not None and set(touched.old.column("n").to_pylist()) == {0}
        writer.commit(commit)
        with pytest.raises(StateError, match="there is no map `other`"):
            writer.begin().merge("other", sums_of(1))
    assert contents(Store(files).at())[1] == model(1)[1]


def test_changes_of_one_key_add_up_in_a_value_map() -> None:
    files = base(1).copy()
    with Store(files).writer(time_to_live=0) as writer:
        commit = writer.begin()
        commit.merge("sums", pa.concat_tables([sums_of(2), sums_of(2)]))
        writer.commit(commit)
    once, twice = model(2)[1], contents(Store(files).at())[1]
    for g, _, n, s in changes(2):
        assert twice[g] == (once[g][0] + n, once[g][1] + s)


def test_a_map_is_merged_once_in_a_commit() -> None:
    """Both merges would start from the version before; the second is refused, and nothing is lost."""
    files = base(1).copy()
    with Store(files).writer(time_to_live=0) as writer:
        commit = writer.begin()
        commit.merge("sums", sums_of(2))
        with pytest.raises(StateError, match="merged twice"):
            commit.merge("sums", sums_of(2))
