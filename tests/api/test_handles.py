"""The handle under attack: whatever interrupts it, fails below it, shares it or forks it, it goes on or says what to do.

The law, after every attack: the operation is done, or it raised what was thrown at it, or an error of ours with what to
do below it. The same handle then does the operation again, and the sources have exactly the changes that were
acknowledged, each once; every view is what its query gives in plain Python over what the sources have.

Interrupts come from a timer, at any moment, and at single lines of the modules that commit; the disk fails at every
call in turn; threads and forked children draw what they do.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import random
import signal
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from attacks import CALLS, UNCLEAR, Alarm, Disk, Lines, Rings, came_of, forked, told
from headwater.api.catalog import Catalog
from headwater.api.handles import Commit
from headwater.engine import view_rows
from headwater.errors import (
    HeadwaterError,
    LeaseLost,
    NameTaken,
    StateError,
    UnknownName,
    VersionGone,
    WriterBusy,
)
from headwater.state import lease
from headwater.state.files import LocalFiles
from headwater.state.log import path_of
from headwater.state.store import Store, StoreWriter

Bag = Counter[tuple[Any, ...]]
Rows = Iterable[tuple[Any, ...]]

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"  # an interrupt inside of a destructor is lost
)


# --- sources, views, and what these must have -----------------------------------------------------------------------

SOURCES = {"s": "k BIGINT, v STRING, n BIGINT", "t": "k BIGINT, m BIGINT"}


def counted(s: Rows, t: Rows) -> Rows:
    for k in {k for k, _, _ in s}:
        ns = [n for key, _, n in s if key == k]
        yield k, len(ns), sum(ns)


def joined(s: Rows, t: Rows) -> Rows:
    return ((v, m) for k, v, _ in s for key, m in t if key == k)


def ends(s: Rows, t: Rows) -> Rows:
    for v in {v for _, v, _ in s}:
        ns = [n for _, w, n in s if w == v]
        yield v, min(ns), max(ns)


def sizes(s: Rows, t: Rows) -> Rows:
    return Counter(c for _, c, _ in counted(s, t)).items()


def summed(s: Rows, t: Rows) -> Rows:
    return ((k, sum(m for key, m in t if key == k)) for k in {k for k, _ in t})


VIEWS: dict[str, tuple[str, Callable[[Rows, Rows], Rows]]] = {
    "c": ("SELECT k, count(*) AS c, sum(n) AS t FROM s GROUP BY k", counted),
    "j": ("SELECT s.v, t.m FROM s JOIN t ON s.k = t.k", joined),
    "late": ("SELECT v, min(n) AS a, max(n) AS b FROM s GROUP BY v", ends),
    "later": ("SELECT k, sum(m) AS m FROM t GROUP BY k", summed),
    "above": ("SELECT c, count(*) AS q FROM c GROUP BY c", sizes),
}
FIRST = ("c", "j")
"""The views that a database begins with."""


def bag(db: hw.Database, name: str, version: int | None = None) -> Bag:
    """The rows of a source or view, each with how often it is there."""
    out: Bag = Counter()
    for row in db.table(name, version).to_pylist():
        out[tuple(row.values())[:-1]] += row["_w"]
    return Counter({r: n for r, n in out.items() if n})


def assert_consistent(db: hw.Database, version: int | None = None) -> dict[str, Bag]:
    """Every view is what its query gives over the sources, at the version that the handle is at; these are given."""
    at = db.version if version is None else version
    catalog = Catalog.read(db.store.at(at).facts, at)
    sources = {n: bag(db, n, at) for n in SOURCES}
    s, t = (list(sources[n].elements()) for n in SOURCES)
    for name in catalog.views:
        assert bag(db, name, at) == Counter(VIEWS[name][1](s, t)), f"{name} at version {at}"
    return sources


class Play:
    """A database with one handle, and what its sources must have."""

    def __init__(self, path: Path, seed: int = 0, views: Iterable[str] = FIRST, **options: Any):
        self.path, self.draw = path, random.Random(seed)
        self.db = hw.open(path, **options)
        self.must: dict[str, Bag] = {n: Counter() for n in SOURCES}
        self.keep = 60  # versions
        for name, ddl in SOURCES.items():
            self.db.source(name, ddl)
        for name in views:
            self.define(name)
        self.next_change()
        self.apply()

    def define(self, name: str, db: hw.Database | None = None) -> None:
        (db or self.db).view(name, VIEWS[name][0])

    def next_change(self) -> None:
        """Draws the change that is applied next, and its id."""
        d = self.draw
        self.id = uuid.uuid4().hex
        new = {
            "s": [(d.randrange(4), d.choice("ab"), d.randrange(20)) for _ in range(2)],
            "t": [(d.randrange(4), d.randrange(9))] if d.random() < 0.5 else [],
        }
        old = {n: [d.choice(sorted(b))] for n, b in self.must.items() if b.total() > 6}
        self.change = {n: (rows, old.get(n, [])) for n, rows in new.items()}

    def apply(self, db: hw.Database | None = None) -> Any:
        """Applies that change; once it was acknowledged it must be there."""
        given = {n: hw.Delta(inserts=i, deletes=d) for n, (i, d) in self.change.items()}
        commit = (db or self.db).apply(given, id=self.id)
        self.must, self.change = self.with_change(), dict.fromkeys(SOURCES, ([], []))
        return commit

    def with_change(self) -> dict[str, Bag]:
        """What the sources have if the change that is under way is there."""
        return {n: self.must[n] + Counter(i) - Counter(d) for n, (i, d) in self.change.items()}

    def assert_consistent(self) -> None:
        """Views follow their sources where the handle is; the newest version has what was acknowledged.

        The change that is under way may be there or not.
        """
        sources, head = assert_consistent(self.db), self.db.store.head()
        if head != self.db.version:
            sources = assert_consistent(self.db, head)
        assert sources in (self.must, self.with_change())

    def assert_right(self, db: hw.Database | None = None) -> None:
        """The sources have what was acknowledged and nothing else; and every view follows."""
        assert assert_consistent(db or self.db) == self.must

    @property
    def writer(self) -> StoreWriter:
        """What the handle commits by."""
        assert self.db._writer is not None
        return self.db._writer

    def goes_on(self, opened: bool = True) -> None:
        """Another change, by the same handle: each view follows, in the eyes of who opens the database too."""
        self.next_change()
        self.apply()
        self.assert_right()
        if opened:
            self.assert_right(hw.open(self.path))


# --- the operations that are attacked -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """What is attacked, what is done before it, and what undoes it; `act` may be done again after an attack."""

    act: Callable[[Play], Any]
    ready: Callable[[Play], Any] = lambda play: None
    undo: Callable[[Play], Any] = lambda play: None
    done: Callable[[Play], bool] = lambda play: True
    """Whether it was done, as far as can be seen."""
    defines: bool = False
    """Whether it is of importance to the next change."""
    moments: int = 24
    """At so many moments it is interrupted."""


def drop(play: Play) -> None:
    with contextlib.suppress(UnknownName):  # it was dropped, and that was not said
        play.db.drop("late")


def written_by_another(play: Play) -> None:
    """The handle is behind, and has no lease."""
    play.db.close()
    with hw.open(play.path) as other:
        play.next_change()
        play.apply(other)
        if play.draw.random() < 0.3:
            (other.drop if "late" in other.views else lambda n: play.define(n, other))("late")


def without_lease(play: Play) -> None:
    play.db.close()
    play.db.keep(versions=play.db.keep().versions)  # takes the lease, and clears up after others
    play.db.close()
    play.next_change()


def behind(play: Play) -> None:
    written_by_another(play)
    play.next_change()


def another_keep(play: Play) -> None:
    play.keep = 60 + (play.db.keep().versions + 1) % 2


OPERATIONS = {
    "apply": Operation(Play.apply, Play.next_change, moments=56),
    "first apply": Operation(Play.apply, without_lease),
    "apply from behind": Operation(Play.apply, behind, moments=8),
    "view": Operation(
        lambda p: p.define("late"), undo=drop, done=lambda p: "late" in p.db.views, defines=True
    ),
    "drop": Operation(
        drop, lambda p: p.define("late"), done=lambda p: "late" not in p.db.views, defines=True
    ),
    "source": Operation(
        lambda p: p.db.source("u", "a BIGINT"),
        undo=lambda p: p.db.drop("u"),
        done=lambda p: "u" in p.db.sources,
        moments=16,
    ),
    "rebuild": Operation(lambda p: p.db.rebuild(), defines=True, moments=12),
    "keep": Operation(
        lambda p: p.db.keep(versions=p.keep),
        another_keep,
        done=lambda p: p.db.keep().versions == p.keep,
    ),
    "refresh": Operation(
        lambda p: p.db.refresh(),
        written_by_another,
        done=lambda p: p.db.version == p.db.store.head(),
        moments=10,
    ),
    "close": Operation(
        lambda p: p.db.close(),
        lambda p: p.goes_on(opened=False),
        done=lambda p: lease.holder(p.db.files) is None,
    ),
}


def attacked(play: Play, operation: Operation, attack: Callable[..., None], number: int) -> None:
    """An operation under attack; then again, in peace and by the same handle, which goes on."""
    operation.ready(play)
    attack(lambda: operation.act(play))
    play.assert_consistent()
    operation.act(play)
    assert operation.done(play)
    if operation.defines or number % 2:
        play.goes_on(number % 8 == 1)
    else:
        play.assert_right()
    operation.undo(play)


# --- interrupts -----------------------------------------------------------------------------------------------------


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    made = Alarm()
    before = signal.signal(signal.SIGALRM, made.ring)
    yield made
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def duration(play: Play, operation: Operation) -> float:
    """How long an operation takes, the shorter of two times."""
    times = []
    for _ in range(2):
        operation.ready(play)
        started = time.perf_counter()
        operation.act(play)
        times.append(time.perf_counter() - started)
        operation.undo(play)
    return min(times)


def interrupted(play: Play, operation: Operation, alarm: Alarm, more: int = 1) -> None:
    moments = operation.moments * more
    takes = duration(play, operation)
    for i in range(moments):
        moment = play.draw.uniform(0, 1.1) * takes
        raises = play.draw.choice((KeyboardInterrupt, KeyboardInterrupt, Rings))
        attacked(play, operation, partial(alarm.during, moment=moment, raises=raises), i)
    assert alarm.rang > moments / 4, "the moments are too late"


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_any_moment(tmp_path: Path, alarm: Alarm, name: str) -> None:
    interrupted(Play(tmp_path / "db", views=["c"]), OPERATIONS[name], alarm)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_many_moments(tmp_path: Path, alarm: Alarm, name: str) -> None:
    for seed in range(1, 6):
        interrupted(Play(tmp_path / f"db{seed}", seed), OPERATIONS[name], alarm, 2)


def interrupted_at_lines(play: Play, operation: Operation, some: int | None) -> None:
    """At some lines, or at all of them; how many there are differs a little from time to time."""
    lines = Lines()
    operation.ready(play)
    lines.during(lambda: operation.act(play))
    operation.undo(play)
    at = lines.ends()
    for i, n in enumerate(at if some is None else play.draw.sample(at, some)):
        attacked(play, operation, partial(lines.during, at=n), i)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_some_lines(tmp_path: Path, name: str) -> None:
    interrupted_at_lines(Play(tmp_path / "db", views=["c"]), OPERATIONS[name], 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_every_line(tmp_path: Path, name: str) -> None:
    interrupted_at_lines(Play(tmp_path / "db"), OPERATIONS[name], None)


# --- a disk that fails ----------------------------------------------------------------------------------------------


def facts(play: Play) -> dict[str, Any]:
    """What the newest version says of itself: what is defined, and which changes were applied."""
    return dict(Store(LocalFiles(play.db.path)).at().facts)


def read_all(play: Play) -> None:
    db = hw.open(play.path)
    for name in ("s", "t", "c"):
        db.table(name)
    db.changes_table("c", db.version - 1)


FAILING = {**OPERATIONS, "open and read": Operation(read_all)}
QUICK = [n for n in FAILING if n != "apply from behind"]


def failing(play: Play, operation: Operation, disk: Disk) -> Iterator[tuple[str, Any]]:
    """An operation with each of its calls failing in turn; which call it was, and what came of it."""
    came: list[Any] = []

    def attack(act: Callable[[], Any], at: int) -> None:
        before, e = facts(play), disk.during(act, at)
        came.append(e)
        if isinstance(e, StateError) and UNCLEAR not in str(e):
            assert facts(play) == before, f"{disk.failed} failed, and yet: {e}"

    for n in itertools.count():
        attacked(play, operation, partial(attack, at=n), n)
        if not disk.failed:
            return
        yield disk.failed, came[-1]


def fails_in_turn(
    tmp_path: Path, patch: pytest.MonkeyPatch, name: str, how: str, codes: list[int]
) -> None:
    play = Play(tmp_path / "db", views=["c"])
    disk = Disk(patch, play.db.path)
    disk.after, disk.lasts = "after" in how, "then on" in how
    records = []
    for number, (call, came) in enumerate(failing(play, FAILING[name], disk)):
        disk.code = codes[number % len(codes)]
        if disk.after and call.startswith("put_if_absent log/"):
            records.append(came)
    writes = name not in ("refresh", "close", "open and read")
    assert len(records) == (disk.after and writes)
    for came in records:  # it was committed, and nothing is raised unless that cannot be known
        if disk.lasts:
            assert UNCLEAR in str(came)
        else:
            assert not isinstance(came, HeadwaterError)
        if isinstance(came, Commit):
            assert "was committed, but may not survive a power cut" in came.warnings[0]


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("name", QUICK)
def test_a_call_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    fails_in_turn(tmp_path, monkeypatch, name, how, [errno.EMFILE, errno.EIO])


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("how", ["before", "after", "from then on", "after and from then on"])
@pytest.mark.parametrize("name", FAILING)
def test_a_call_that_fails_in_any_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str, code: int
) -> None:
    fails_in_turn(tmp_path, monkeypatch, name, how, [code])


def test_a_disk_that_fails_under_what_goes_on_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.state.store.COLLECT", 1)
    play = Play(tmp_path / "db", keep_versions=2)
    fault: list[int] = []

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(files: LocalFiles, *args: Any) -> Any:
            if fault and threading.current_thread() is not threading.main_thread():
                raise OSError(fault[0], os.strerror(fault[0]))
            return real(files, *args)

        return call

    for name in CALLS:
        monkeypatch.setattr(LocalFiles, name, failing(getattr(LocalFiles, name)))
    told: list[str] = []
    for i in range(24):
        fault[:] = [(errno.EMFILE, errno.EIO)[i % 2]] if i < 16 else []
        play.next_change()
        told += play.apply().warnings
        play.writer.wait()
        play.assert_right()
    assert told and all("old files could not be tidied up: " in w for w in told)
    assert len(told) <= 18
    assert len(list((play.path / "data").iterdir())) < 20  # they are, once the disk is mended
    play.db.close()


# --- threads that share a handle ------------------------------------------------------------------------------------

NOW_AND_THEN = ("late", "later")
"""Views that threads define and drop."""


class Hand:
    """What one of several threads does with a handle, and the rows that it has acknowledged."""

    def __init__(self, db: hw.Database, number: int):
        self.db, self.number, self.draw = db, number, random.Random(number)
        self.rows: dict[str, Bag] = {n: Counter() for n in SOURCES}
        self.seen = 0
        self.error: BaseException | None = None

    def run(self, draws: int) -> None:
        does = [self.apply, self.apply, self.view, self.drop, self.source]
        does += [self.table, self.several, self.changes, self.refresh]
        try:
            for _ in range(draws):
                with contextlib.suppress(VersionGone):
                    self.draw.choice(does)()
        except BaseException as e:
            self.error = e

    def apply(self) -> None:
        d = self.draw
        new = {
            "s": [(d.randrange(4), f"v{self.number}", d.randrange(9))],
            "t": [(d.randrange(4), self.number)],
        }
        old = {n: [d.choice(sorted(b))] for n, b in self.rows.items() if b.total() > 4}
        commit = self.db.apply({n: hw.Delta(new[n], old.get(n, [])) for n in new})
        assert not commit.repeated and commit.version > self.seen
        self.seen = commit.version
        for n in new:
            self.rows[n] = self.rows[n] + Counter(new[n]) - Counter(old.get(n, []))

    def view(self) -> None:
        name = self.draw.choice(NOW_AND_THEN)
        assert self.db.view(name, VIEWS[name][0]).name == name

    def drop(self) -> None:
        with contextlib.suppress(UnknownName):  # another one did, or nobody has defined it
            self.db.drop(self.draw.choice(NOW_AND_THEN))

    def source(self) -> None:
        self.db.source(f"u{self.draw.randrange(3)}", "a BIGINT")

    def table(self) -> None:
        with contextlib.suppress(UnknownName):
            bag(self.db, self.draw.choice(NOW_AND_THEN))
        bag(self.db, self.draw.choice(FIRST))

    def several(self) -> None:
        """All views at one version, which others leave behind meanwhile."""
        assert_consistent(self.db, self.db.version)

    def changes(self) -> None:
        """What changed between two versions is their difference."""
        last = self.db.version
        since, found = last - self.draw.randrange(1, 3), Bag()
        for row in self.db.changes_table("c", since, last).to_pylist():
            found[tuple(row.values())[:-2]] += row["_w"]
        found.update(bag(self.db, "c", since))
        assert {r: n for r, n in found.items() if n} == bag(self.db, "c", last)

    def refresh(self) -> None:
        at = self.db.refresh()
        assert at >= self.seen
        self.seen = at


@pytest.fixture
def busy() -> Iterator[None]:
    """Threads take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def shared(path: Path, kept: int, draws: int, opened: bool = False) -> None:
    """Four threads on one handle."""
    play = Play(path, keep_versions=kept)
    if opened:  # one that has no lease yet
        play.db.close()
        play.db = hw.open(path)
    hands = [Hand(play.db, i) for i in range(4)]
    threads = [threading.Thread(target=h.run, args=(draws,)) for h in hands]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for h in hands:
        if h.error is not None:
            raise h.error
        play.must = {n: play.must[n] + h.rows[n] for n in SOURCES}
    play.assert_right()
    play.goes_on()
    play.db.close()


@pytest.mark.parametrize("kept", [100, 2])
def test_threads_that_share_a_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: None, kept: int
) -> None:
    monkeypatch.setattr("headwater.state.store.COLLECT", 1)
    shared(tmp_path / "db", kept, 10, opened=kept == 2)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [100, 5, 1])
def test_threads_that_share_a_handle_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: None, kept: int
) -> None:
    monkeypatch.setattr("headwater.state.store.COLLECT", 1)
    for i in range(8):
        shared(tmp_path / f"db{i}", kept, 60, opened=i % 2 == 1)


def meanwhile(patch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """As though another thread did something just before the next one takes the lock."""
    real, left = hw.Database._locked, [act]

    def locked(db: hw.Database) -> Any:
        if left:
            left.pop()()
        return real(db)

    patch.setattr(hw.Database, "_locked", locked)


def test_a_view_that_another_thread_defines_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path / "db")
    meanwhile(monkeypatch, lambda: play.define("late"))
    play.define("late")
    play.goes_on()
    meanwhile(monkeypatch, lambda: play.db.view("later", "SELECT k FROM t"))
    with pytest.raises(NameTaken):
        play.define("later")


def test_a_view_is_dropped_while_one_above_it_is_defined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path / "db")
    meanwhile(monkeypatch, lambda: play.db.drop("c"))
    with pytest.raises(UnknownName) as caught:
        play.define("above")
    assert told(caught.value)
    play.goes_on()
    play.define("c")
    play.define("above")
    play.goes_on()


def test_changes_whose_beginning_is_let_go_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version before is gone when its rows are read: that is told, and not that a file is damaged."""
    monkeypatch.setattr("headwater.state.store.COLLECT", 1000)
    play = Play(tmp_path / "db", views=["c"], keep_versions=1)
    for _ in range(3):
        play.writer.wait()
        play.writer.compact(whole=True)  # the next version has other files than the one before
        play.goes_on(False)
    real = view_rows.changed

    def changed(*args: Any) -> Any:
        play.writer.collect()
        return real(*args)

    reader = hw.open(play.path)
    with monkeypatch.context() as patch:
        patch.setattr(view_rows, "changed", changed)
        with pytest.raises(VersionGone) as caught:
            reader.changes_table("c", reader.version - 1)
    assert told(caught.value)
    assert reader.refresh() == play.db.version


# --- forks ----------------------------------------------------------------------------------------------------------


WRITES = {n: o for n, o in OPERATIONS.items() if n in ("apply", "view", "drop", "source", "keep")}


def test_the_child_of_a_writer_is_told(tmp_path: Path) -> None:
    play = Play(tmp_path / "db")
    play.keep = 50
    play.next_change()

    def child() -> list[str]:
        play.assert_consistent()  # it may read
        return [came_of(lambda o=o: o.act(play)) for o in WRITES.values()]

    writer = play.db._writer
    assert forked(child) == ["LeaseLost"] * len(WRITES)
    play.goes_on()
    assert play.db._writer is writer  # nothing had to be taken over
    play.db.close()


@pytest.mark.parametrize("how", ["close", "with"])
def test_the_child_of_a_writer_closes_it(tmp_path: Path, how: str) -> None:
    play = Play(tmp_path / "db")
    play.next_change()

    def child() -> list[str]:
        if how == "close":
            play.db.close()
        else:
            with play.db:
                pass
        play.assert_consistent()
        return [came_of(play.apply), came_of(lambda: play.define("late"))]

    writer = play.db._writer
    assert forked(child) == ["WriterBusy", "WriterBusy"]
    held = lease.holder(play.db.files)
    assert held is not None and held.pid == os.getpid()
    play.goes_on()
    assert play.db._writer is writer
    play.db.close()


@pytest.mark.parametrize("closes", [True, False])
def test_the_child_of_a_reader_may_write(tmp_path: Path, closes: bool) -> None:
    play = Play(tmp_path / "db")
    play.db.close()
    play.db = hw.open(play.path)
    play.next_change()

    def child() -> Any:
        play.define("late")
        play.apply()
        play.assert_right()
        if closes:
            play.db.close()
        return play.must

    play.must, play.change = forked(child), dict.fromkeys(SOURCES, ([], []))
    assert "late" not in play.db.views  # a reader stays where it is
    assert_consistent(play.db)
    play.goes_on()
    assert "late" in play.db.views
    play.db.close()


def test_the_parent_of_a_writer_waits_for_its_end(tmp_path: Path) -> None:
    play = Play(tmp_path / "db")
    play.db.close()
    play.db = hw.open(play.path)
    (waits, begins), (ends, end) = os.pipe(), os.pipe()

    def child() -> str:
        play.define("late")
        os.write(begins, b"!")
        os.read(ends, 1)
        return "ended"

    def parent() -> None:
        os.read(waits, 1)
        with pytest.raises(WriterBusy) as caught:
            play.goes_on()
        assert told(caught.value)
        play.assert_consistent()
        os.write(end, b"!")

    assert forked(child, parent) == "ended"
    play.goes_on()
    assert "late" in play.db.views
    play.db.close()
    for handle in (waits, begins, ends, end):
        os.close(handle)


def drawn(play: Play, draws: int) -> list[str]:
    """Some operations, and what came of each; the change under way is applied again where that was refused."""
    out = []
    for name in play.draw.choices(["apply", "apply", "view", "drop", "source", "close"], k=draws):
        if name == "apply" and not any(i or d for i, d in play.change.values()):
            play.next_change()
        out.append(came_of(lambda o=OPERATIONS[name]: o.act(play)))
        play.assert_consistent()
    return out


def forks(path: Path, seed: int, draws: int) -> None:
    """A parent and its children, one at a time, with one handle."""
    play = Play(path, seed)
    for _ in range(draws):
        if play.draw.random() < 0.5:
            play.db.close()
        assert set(drawn(play, play.draw.randrange(3))) <= {"done"}
        leads = play.db._writer is not None
        given = forked(lambda: (drawn(play, 3), play.must, play.change, play.id))
        play.draw.random()  # another number than the child's
        assert not isinstance(given, str), given
        came, play.must, play.change, play.id = given
        assert not leads or set(came) <= {"done", "LeaseLost", "WriterBusy"}
        assert leads or set(came) <= {"done"}
        play.assert_consistent()
        play.apply()
    play.goes_on()
    play.db.close()


@pytest.mark.parametrize("seed", range(3))
def test_forks_in_any_order(tmp_path: Path, seed: int) -> None:
    forks(tmp_path / "db", seed, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
def test_forks_in_any_order_for_long(tmp_path: Path, seed: int) -> None:
    forks(tmp_path / "db", seed, 20)


# --- single attacks -------------------------------------------------------------------------------------------------


def after_record(
    patch: pytest.MonkeyPatch, play: Play, raises: BaseException, linked: bool = True
) -> list[str]:
    """The next record is linked, and then this is raised; or it is raised instead. Which record it was."""
    real, was = LocalFiles.put_if_absent, list[str]()

    def put_if_absent(files: LocalFiles, path: str, data: bytes) -> bool:
        if was or files is not play.db.files or not path.startswith("log/"):
            return real(files, path, data)
        was.append(path)
        if linked:
            assert real(files, path, data)
        raise raises

    patch.setattr(LocalFiles, "put_if_absent", put_if_absent)
    return was


def test_an_interrupt_right_after_the_record_of_a_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path / "db")
    after_record(monkeypatch, play, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        play.define("late")
    play.goes_on()
    assert "late" in play.db.views
    play.define("late")  # it is there


def test_an_interrupt_right_after_the_record_of_a_drop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path / "db")
    after_record(monkeypatch, play, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        play.db.drop("c")
    for _ in range(5):
        play.goes_on()
    assert play.db.views == ["j"]


def test_an_interrupt_right_after_the_record_of_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path / "db")
    play.next_change()
    after_record(monkeypatch, play, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        play.apply()
    play.assert_consistent()
    assert play.apply().repeated
    play.goes_on()


def test_a_record_of_a_view_that_the_disk_does_not_confirm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    play = Play(tmp_path / "db")
    after_record(monkeypatch, play, OSError(errno.EMFILE, "Too many open files"))
    with caplog.at_level(logging.WARNING, "headwater"):
        play.define("late")
    assert "was committed, but may not survive a power cut: Too many open files" in caplog.text
    play.goes_on()
    assert "late" in play.db.views


def test_one_call_that_fails_right_after_the_record_of_a_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is called next, by the handle or by what it does next."""
    play = Play(tmp_path / "db")
    disk = Disk(monkeypatch, play.db.path)
    real = LocalFiles.put_if_absent

    def put_if_absent(files: LocalFiles, path: str, data: bytes) -> bool:
        found = real(files, path, data)
        if path.startswith("log/"):
            disk.at = disk.count
        return found

    monkeypatch.setattr(LocalFiles, "put_if_absent", put_if_absent)
    play.define("late")
    monkeypatch.setattr(LocalFiles, "put_if_absent", real)
    play.next_change()
    with contextlib.suppress(StateError):
        play.apply()
    play.apply()
    play.goes_on()
    assert "late" in play.db.views


def test_an_older_handle_is_interrupted_while_it_reads_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path / "db")
    written_by_another(play)
    with hw.open(play.path) as other:
        play.define("later", other)

    def read(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("headwater.plan.stored.read", read)
        play.next_change()
        with pytest.raises(KeyboardInterrupt):
            play.apply()
        assert_consistent(play.db)  # where it was
    assert not play.apply().repeated
    play.goes_on()
    assert "later" in play.db.views


def no_more_threads(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_no_more_threads_are_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(tmp_path / "db")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more_threads)
        play.next_change()
        assert "can't start new thread" in play.apply().warnings[0]
        play.assert_right()
    play.next_change()
    assert play.apply().warnings == ()
    play.goes_on()


def test_no_thread_is_to_be_had_for_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path / "db")
    play.db.close()
    play.next_change()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more_threads)
        assert came_of(play.apply) in ("done", "StateError")
    play.apply()
    play.goes_on()
    play.db.close()
    assert lease.holder(play.db.files) is None


@pytest.mark.parametrize("name", ["apply", "view", "drop", "source", "first apply"])
def test_a_link_whose_reply_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The server links, its answer is lost, and the client that asks again finds the name taken: by itself."""
    play = Play(tmp_path / "db")
    OPERATIONS[name].ready(play)
    real, lost = os.link, list[Any]()

    def link(source: Any, target: Any, **more: Any) -> None:
        real(source, target, **more)
        lost.append(target)
        raise FileExistsError(errno.EEXIST, "File exists", str(target))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        OPERATIONS[name].act(play)
    assert lost and OPERATIONS[name].done(play)
    play.assert_right()
    play.goes_on()


@pytest.mark.parametrize("linked", [True, False])
def test_a_stale_handle_of_the_disk_after_another_took_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    """The other commits between the check of the lease and the record; the record is refused, or says nothing."""
    play, other = Play(tmp_path / "db"), hw.open(tmp_path / "db")
    real, was = LocalFiles.put_if_absent, list[str]()

    def put_if_absent(files: LocalFiles, path: str, data: bytes) -> bool:
        if was or files is not play.db.files or not path.startswith("log/"):
            return real(files, path, data)
        was.append(path)
        other.apply({"s": [(9, "other", 9)]})
        if linked:
            assert not real(files, path, data)
        raise OSError(errno.ESTALE, "Stale file handle")

    play.next_change()
    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "put_if_absent", put_if_absent)
        with pytest.raises(StateError) as caught:
            play.apply()
    said = str(caught.value)
    assert isinstance(caught.value, LeaseLost) or "nothing was committed" in said
    assert "was committed" not in said.replace("nothing was committed", "") and told(caught.value)
    play.must["s"][9, "other", 9] += 1
    play.assert_right(other)  # and the change is not there
    with pytest.raises(LeaseLost):
        play.apply()
    play.db.close()
    assert not play.apply().repeated
    play.goes_on()


def test_a_missing_old_record_disturbs_no_change(tmp_path: Path) -> None:
    play = Play(tmp_path / "db", views=["c"], keep_versions=30)
    for _ in range(40):
        play.next_change()
        play.apply()
    play.db.close()
    missing = 30  # the checkpoint before the newest version is that of 33
    (play.path / path_of(missing)).unlink()
    play.db = hw.open(play.path)
    said: list[str] = []
    for i in range(120):
        play.next_change()
        said += play.apply().warnings
        if i % 30 == 0:
            play.assert_right()
    play.writer.wait()
    assert all(path_of(missing) in w for w in said)
    assert play.db.store.log.floor() > missing
    play.db.close()  # what was hidden is found by the next writer, whose past is whole
    play.db = hw.open(play.path)
    play.goes_on()
    play.writer.collect()
    kept = {f for n in play.db.store.kept() for f in play.db.store.at(n).version.files}
    there = {f.name for f in (play.path / "data").iterdir()}
    assert kept <= there and len(there - kept) < 20
    assert not play.db.check().problems
    play.db.close()


def test_a_second_handle_takes_over_and_the_first_is_told(tmp_path: Path) -> None:
    play, other = Play(tmp_path / "db"), hw.open(tmp_path / "db")
    play.define("late", other)
    play.next_change()
    play.apply(other)
    for name in ("apply", "view", "source", "rebuild"):
        play.next_change()
        assert came_of(lambda o=OPERATIONS[name]: o.act(play)) == "LeaseLost"
        assert came_of(lambda: play.db.drop("c")) == "LeaseLost"
        play.assert_consistent()
    play.assert_right(other)
    play.db.close()
    play.goes_on()
    assert "late" in play.db.views
    with pytest.raises(LeaseLost):
        play.define("later", other)
    other.close()
    assert lease.holder(play.db.files) is not None  # that of the first
    play.goes_on()
    play.db.close()


def test_compacting_all_while_some_is_rewritten_already(tmp_path: Path) -> None:
    """Runs that the background has rewritten, and no commit names yet, are put together with the others all the same."""
    with hw.open(tmp_path) as db:
        db.source("r", "k BIGINT, v BIGINT")
        db.view("w", "SELECT k, sum(v) AS t FROM r GROUP BY k")
        db.apply({"r": [{"k": k, "v": 0} for k in range(1000)]})
        for i in range(9):
            db.apply({"r": [{"k": k, "v": i} for k in range(10)]})
            writer = db._writer
            assert writer is not None
            writer.wait()
            if writer.rewrote:
                break
        else:
            raise AssertionError("nothing was rewritten")
        db.compact()
        assert {len(refs) for _, refs in db.store.at().version.maps.values()} <= {0, 1}
        assert db.table("w").num_rows == 1000
