"""The handle under attack: whatever interrupts it, fails below it, shares it or forks it, it goes on or says what to do.

The law, after every attack: the operation is done, or it raised what was thrown at it, or an error of ours with what to
do below it. The same handle then does the operation again, and the sources have exactly the changes that were
acknowledged, each once; every view is what its query gives in plain Python over what the sources have.

Interrupts come from a timer, at any moment, and at single lines of the modules that commit; the disk fails at every
call in turn; threads and forked children draw what they do.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import headwater as hw
from headwater.catalog import Catalog
from headwater.errors import (
    HeadwaterError,
    UnknownName,
)
from headwater.state import lease

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
        self.number = itertools.count()
        self.keep = 60
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
        self.id = f"c{next(self.number)}"
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
    moments: int = 30
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


def first_apply(play: Play) -> None:
    written_by_another(play)
    play.next_change()


def keep(play: Play) -> None:
    assert play.db.keep(versions=play.keep).versions == play.keep


def another_keep(play: Play) -> None:
    play.keep = 60 + (play.db.keep().versions + 1) % 2


def close(play: Play) -> None:
    play.db.close()
    assert lease.holder(play.db.files) is None


OPERATIONS = {
    "apply": Operation(Play.apply, Play.next_change, moments=60),
    "first apply": Operation(Play.apply, first_apply, moments=20),
    "view": Operation(lambda p: p.define("late"), undo=drop, moments=40),
    "drop": Operation(drop, lambda p: p.define("late"), moments=40),
    "source": Operation(lambda p: p.db.source("u", "a BIGINT"), undo=lambda p: p.db.drop("u")),
    "rebuild": Operation(lambda p: p.db.rebuild()),
    "keep": Operation(keep, another_keep),
    "refresh": Operation(lambda p: p.db.refresh(), written_by_another, moments=20),
    "close": Operation(close, lambda p: p.goes_on(False)),
}


def told(e: HeadwaterError) -> bool:
    """Whether an error says what to do."""
    return len(str(e).splitlines()) > 1


def attacked(play: Play, operation: Operation, attack: Callable[..., None], opened: bool) -> None:
    """An operation under attack; then again, in peace and by the same handle, which goes on."""
    operation.ready(play)
    attack(lambda: operation.act(play))
    play.assert_consistent()
    operation.act(play)
    play.goes_on(opened)
    operation.undo(play)


# --- interrupts -----------------------------------------------------------------------------------------------------


class Rings(Exception):
    """What a handler of signals raises that is not Ctrl-C."""


class Alarm:
    """A timer that interrupts whatever the main thread does when it rings."""

    def __init__(self) -> None:
        self.raises: type[BaseException] | None = None
        self.rang = 0

    def ring(self, number: int, frame: FrameType | None) -> None:
        raises, self.raises = self.raises, None
        if raises is not None:
            self.rang += 1
            raise raises

    def during(self, act: Callable[[], Any], moment: float, raises: type[BaseException]) -> None:
        """Interrupts at a moment; what comes out of it is the interrupt itself, or says what to do."""
        self.raises = raises
        try:
            signal.setitimer(signal.ITIMER_REAL, max(moment, 1e-6))
            act()
            self.raises = None
        except raises:
            pass
        except Exception as e:  # an ordinary exception is put into the words of who catches it
            assert raises is Rings and is_from(e, Rings), e
        finally:
            self.raises = None
            signal.setitimer(signal.ITIMER_REAL, 0)


def is_from(e: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether an exception came of one of some kind."""
    return e is not None and (isinstance(e, kind) or is_from(e.__context__, kind))


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
        attacked(play, operation, lambda act: alarm.during(act, moment, raises), i % 8 == 0)
    assert alarm.rang > moments / 4, "the moments are too late"


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_any_moment(tmp_path: Path, alarm: Alarm, name: str) -> None:
    interrupted(Play(tmp_path / "db"), OPERATIONS[name], alarm)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_many_moments(tmp_path: Path, alarm: Alarm, name: str) -> None:
    for seed in range(1, 4):
        interrupted(Play(tmp_path / f"db{seed}", seed), OPERATIONS[name], alarm, 2)


class Lines:
    """Interrupts at a line: the n-th that the modules which read, commit and define run in this thread."""

    FILES = tuple(
        str(Path(hw.__file__).parent / name)
        for name in (
            *("database.py", "writing.py", "reading.py", "ids.py", "staging.py"),
            *(f"state/{n}.py" for n in ("store", "log", "lease", "collection", "files", "run")),
        )
    )

    def __init__(self) -> None:
        self.count, self.at = 0, 0

    def during(self, act: Callable[[], Any], at: int) -> None:
        """Interrupts there; what comes out of it is the interrupt itself."""
        self.count, self.at = 0, at
        before = sys.gettrace()
        try:
            sys.settrace(self.called)
            act()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)

    def called(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self.at_line if frame.f_code.co_filename in self.FILES else None

    def at_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self.at:
                raise KeyboardInterrupt(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return self.at_line


def interrupted_at_lines(play: Play, operation: Operation, some: int | None) -> None:
    """At some lines or at all of them; how many there are differs from time to time."""
    lines = Lines()
    operation.ready(play)
    lines.during(lambda: operation.act(play), 0)
    operation.undo(play)
    at = range(1, lines.count + 1)
    for i, n in enumerate(at if some is None else play.draw.sample(at, some)):
        attacked(play, operation, lambda act: lines.during(act, n), i % 8 == 0)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_some_lines(tmp_path: Path, name: str) -> None:
    interrupted_at_lines(Play(tmp_path / "db"), OPERATIONS[name], 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_every_line(tmp_path: Path, name: str) -> None:
    interrupted_at_lines(Play(tmp_path / "db"), OPERATIONS[name], None)


# --- a disk that fails ----------------------------------------------------------------------------------------------

CALLS = ("write", "put_if_absent", "read", "map", "list", "names", "size", "delete", "now")
CHANGING = ("write", "put_if_absent", "delete")


class Disk:
    """The calls that a handle makes of its file system in this thread, the n-th of which fails."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path):
        self.root, self.at, self.count, self.made = root, -1, 0, ""
        self.code, self.after, self.lasts = errno.EIO, False, False
        for name in CALLS:
            patch.setattr(LocalFiles, name, self.failing(name, getattr(LocalFiles, name)))

    def failing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(files: LocalFiles, *args: Any) -> Any:
            mine = files.root == self.root and threading.current_thread() is threading.main_thread()
            if not mine or (self.after and name not in CHANGING):
                return real(files, *args)
            number, self.count = self.count, self.count + 1
            if number != self.at and not (self.lasts and 0 <= self.at < number):
                return real(files, *args)
            self.made = f"{name} {args[0] if args else ''}"
            if self.after:
                real(files, *args)
            raise OSError(self.code, os.strerror(self.code))

        return call

    def during(self, act: Callable[[], Any], at: int) -> StateError | None:
        """Fails there, and says what came of it: nothing, or an error of ours."""
        self.at, self.count = at, 0
        try:
            act()
        except StateError as e:
            assert told(e), e
            return e
        finally:
            self.at = -1
        return None


def facts(play: Play) -> dict[str, Any]:
    """What the newest version says of itself: what is defined, and which changes were applied."""
    return dict(hw.open(play.path).store.at().facts)


def read_all(play: Play) -> None:
    db = hw.open(play.path)
    assert_consistent(db)
    db.changes_table("c", db.version - 1)


FAILING = {**OPERATIONS, "open and read": Operation(read_all)}


def fails(play: Play, operation: Operation, disk: Disk) -> Iterator[str]:
    """An operation with each of its calls failing in turn; what failed and what came of it."""
    for n in itertools.count():
        play.calls = n

        def attack(act: Callable[[], Any], n: int = n) -> None:
            before = facts(play)
            disk.made = ""
            e = disk.during(act, n)
            play.said = disk.made, e
            if e is not None and "does not say whether" not in str(e):
                assert facts(play) == before, f"{disk.made} failed, and there is a version: {e}"

        attacked(play, operation, attack, n % 8 == 0)
        if not play.said[0]:
            return
        yield f"{play.said[0]}: {play.said[1]}"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", FAILING)
def test_a_call_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: bool
) -> None:
    play = Play(tmp_path / "db")
    disk = Disk(monkeypatch, play.db.path)
    disk.after = after
    for said in fails(play, FAILING[name], disk):
        print(said)
        disk.code = errno.EIO if disk.code == errno.EMFILE else errno.EMFILE
