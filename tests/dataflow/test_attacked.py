"""Stages under attack: whatever interrupts a run, fails below it, runs beside it or takes over, it goes on and loses nothing.

The law, after every attack: each stage has run some number of epochs, and its state, its output and its cursors are those
that so many epochs make in plain Python; the view follows. Then the same handle runs again, in peace, and everything that
was applied has gone through every stage, once.
"""

from __future__ import annotations

import errno
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from attacks import UNCLEAR, Alarm, Disk, Lines, Rings, came_of, forked, told
from graphs import Graph, drawn
from headwater import flow
from headwater.dataflow.graph import Graph as Facts
from headwater.errors import HeadwaterError, LeaseLost, StageFailed, StateError
from test_against_meaning import LOOSE, opened, relation, state_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"  # an interrupt inside of a destructor is lost
)

Bag = Counter[tuple[Any, ...]]
Rows = list[tuple[int, int]]


# --- a graph, and what it must have ----------------------------------------------------------------------------------


@flow.stage(
    "s", by="k", state="n BIGINT, t BIGINT", out="k BIGINT, n BIGINT, t BIGINT", name="totals"
)
def totals(k, rows, state):
    """So far: how many rows of a key, and their sum."""
    state.n = (state.n or 0) + len(rows)
    state.t = (state.t or 0) + sum(r.n for r in rows)
    return k, state.n, state.t


@flow.stage("totals", out="k BIGINT, t BIGINT")
def doubled(row):
    return row.k, 2 * row.t


@flow.stage(
    flow.reads("totals", by="k"),
    flow.reads("s", by="k"),
    state=flow.bag("n BIGINT"),
    out="k BIGINT, a BIGINT, b BIGINT",
)
def joined(k, totals, rows, state):
    state.add((r.n,) for r in rows)
    return k, len(state), sum(r.t for r in totals)


STAGES = (totals, doubled, joined)
BEST = "SELECT k, max(t) AS t, count(*) AS c FROM doubled GROUP BY k"


class Play:
    """A database with one handle, and the increments that were acknowledged."""

    def __init__(self, path: Path, seed: int = 0, **policy: Any):
        self.path, self.draw = path, random.Random(seed)
        self.increments: list[Rows] = []
        self.db = self.opened()
        self.give()
        self.db.run()
        self.assert_right()

    def opened(self) -> hw.Database:
        db = hw.open(self.path, keep_versions=1000)
        db.source("s", "k BIGINT, n BIGINT")
        for f in STAGES:
            db.stage(f)
        db.view("best", BEST)
        return db

    def give(self, db: hw.Database | None = None) -> None:
        d = self.draw
        rows = [(d.randrange(4), d.randrange(20)) for _ in range(d.randrange(1, 4))]
        (db or self.db).apply({"s": rows})
        self.increments.append(rows)

    def answers(self, epochs: int) -> dict[str, Bag]:
        """What stages gave with their first epochs, by stage; `state` is that of `totals`."""
        out: dict[str, Bag] = {"doubled": Counter(), "joined": Counter()}
        n, t = Counter[int](), Counter[int]()
        for rows in self.increments[:epochs]:
            n.update(k for k, _ in rows)
            t.update({k: sum(x for j, x in rows if j == k) for k, _ in rows})
            for k in {k for k, _ in rows}:
                out["doubled"][k, 2 * t[k]] += 1
                out["joined"][k, n[k], t[k]] += 1
        out["state"] = Counter({(k, n[k], t[k]): 1 for k in n})
        return out

    def assert_whole(self, db: hw.Database | None = None) -> None:
        """Whatever stages have done is done whole."""
        db = db or self.db
        graph = Facts.read(db.store.at(db.version).facts)
        epochs = {n: node.epochs for n, node in graph.nodes.items()}
        for name in ("doubled", "joined"):
            assert rows_of(db, name) == self.answers(epochs[name])[name], name
        found = [
            (k, r.n, r.t) for k in range(4) if (r := db["totals"].state(k, version=db.version))
        ]
        assert Counter(found) == self.answers(epochs["totals"])["state"]
        best: dict[int, list[int]] = {}
        for (k, t), n in rows_of(db, "doubled").items():
            best.setdefault(k, []).extend([t] * n)
        assert rows_of(db, "best") == Counter((k, max(ts), len(ts)) for k, ts in best.items())
        for (stage, name), cursor in graph.cursors.items():
            sent = len(self.increments) if name == "s" else epochs[name]
            assert (cursor.first, cursor.next) == (epochs[stage], sent), (stage, name)

    def assert_right(self, db: hw.Database | None = None) -> None:
        """Everything that was applied has gone through."""
        db = db or self.db
        self.assert_whole(db)
        assert {db[f.__name__].epochs for f in STAGES} == {len(self.increments)}

    def goes_on(self) -> None:
        """The same handle ends what was begun, and goes on; others see that."""
        self.db.run()
        self.assert_right()
        self.give()
        self.db.run()
        self.assert_right()
        self.assert_right(self.reader())

    def reader(self) -> hw.Database:
        db = hw.open(self.path)
        for f in STAGES:
            db.stage(f)
        return db


def rows_of(db: hw.Database, name: str) -> Bag:
    return Counter({tuple(r.values())[:-1]: r["_w"] for r in db.table(name).to_pylist()})


# --- a disk that fails -----------------------------------------------------------------------------------------------


def fails_at_every_call(
    path: Path, patch: pytest.MonkeyPatch, fuse: bool, how: str, code: int, step: int = 1
) -> None:
    """Each call that a run makes, or one of `step`, fails in turn, before its effect or after it; then the disk is mended."""
    play = Play(path)
    play.db.policy.fuse = fuse
    disk = Disk(patch, play.db.path)
    disk.after, disk.lasts, disk.code = "after" in how, "then on" in how, code
    for n in range(0, 10_000, step):
        play.give()
        play.give()
        before = play.db.store.head()
        came = disk.during(play.db.run, n)
        play.db.refresh()
        play.assert_whole()
        if isinstance(came, StateError):
            assert "the state in" in str(came) or UNCLEAR in str(came)
            assert "appl" not in came.hint.replace("applied", ""), came.hint
        elif disk.failed:
            assert play.db.store.head() > before
        play.db.run()
        play.assert_right()
        if not disk.failed:
            break
    assert n > 10
    play.goes_on()
    assert not play.db.check().problems
    play.db.close()


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_disk_that_fails_at_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    step = 3 if how == "before" else 1  # more of them only read
    fails_at_every_call(tmp_path / "db", monkeypatch, step == 3, how, errno.ENOSPC, step)


@pytest.mark.slow
@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("how", ["before", "after", "from then on", "after and from then on"])
def test_a_disk_that_fails_in_any_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fuse: bool, code: int, how: str
) -> None:
    fails_at_every_call(tmp_path / "db", monkeypatch, fuse, how, code)


# --- interrupts ------------------------------------------------------------------------------------------------------


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    made = Alarm()
    before = signal.signal(signal.SIGALRM, made.ring)
    yield made
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def interrupted(path: Path, alarm: Alarm, moments: int, workers: int, seed: int) -> None:
    play = Play(path, seed)
    play.give()
    started = time.perf_counter()
    play.db.run(workers=workers)
    takes = time.perf_counter() - started
    for i in range(moments):
        play.give()
        play.db.policy.fuse = i % 2 == 0
        raises = play.draw.choice((KeyboardInterrupt, KeyboardInterrupt, Rings))
        alarm.during(
            lambda: play.db.run(workers=workers), play.draw.uniform(0, 1.1) * takes, raises
        )
        play.db.refresh()
        play.assert_whole()
        play.db.run()
        play.assert_right()
    assert alarm.rang > moments / 4, "the moments are too late"
    play.goes_on()
    assert not play.db.check().problems
    play.db.close()


@pytest.mark.parametrize("workers", [1, 3])
def test_an_interrupt_at_any_moment(tmp_path: Path, alarm: Alarm, workers: int) -> None:
    interrupted(tmp_path / "db", alarm, 16, workers, workers)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_an_interrupt_at_many_moments(
    tmp_path: Path, alarm: Alarm, workers: int, seed: int
) -> None:
    interrupted(tmp_path / "db", alarm, 200, workers, seed)


def interrupted_at_lines(path: Path, some: int | None) -> None:
    """At some lines of those that choose and commit, or at all."""
    play, lines = Play(path), Lines()
    play.give()
    lines.during(play.db.run)
    play.db.run()
    at = lines.ends()
    for n in at if some is None else play.draw.sample(at, some):
        play.give()
        lines.during(play.db.run, n)
        play.db.refresh()
        play.assert_whole()
        play.db.run()
        play.assert_right()
    play.goes_on()
    play.db.close()


def test_an_interrupt_at_some_lines(tmp_path: Path) -> None:
    interrupted_at_lines(tmp_path / "db", 16)


@pytest.mark.slow
def test_an_interrupt_at_every_line(tmp_path: Path) -> None:
    interrupted_at_lines(tmp_path / "db", None)


# --- threads ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def busy() -> Iterator[None]:
    """Threads take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def beside(*acts: Callable[[], Any]) -> None:
    """Some things, each in a thread; what is raised in one is raised here."""
    errors: list[BaseException] = []

    def run(act: Callable[[], Any]) -> None:
        try:
            act()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(a,)) for a in acts]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


@pytest.mark.parametrize("workers", [1, 3])
def test_changes_are_applied_while_stages_run(tmp_path: Path, busy: None, workers: int) -> None:
    play, done = Play(tmp_path / "db"), threading.Event()

    def give() -> None:
        for _ in range(25):
            play.give()
        done.set()

    def run() -> None:
        while not done.is_set():
            play.db.run(workers=workers)

    beside(give, run)
    play.goes_on()
    play.db.close()


def test_two_runs_beside_each_other(tmp_path: Path, busy: None) -> None:
    play = Play(tmp_path / "db")
    for _ in range(12):
        play.give()
    beside(play.db.run, lambda: play.db.run(workers=2), play.db.run)
    play.goes_on()
    play.db.close()


def test_stop_from_another_thread(tmp_path: Path) -> None:
    play, ran = Play(tmp_path / "db"), []

    def stop() -> None:
        time.sleep(0.2)
        play.give()
        while play.db["joined"].epochs < len(play.increments):
            time.sleep(0.01)
        play.db.stop()

    beside(lambda: ran.append(play.db.run(every=0.01, seconds=60)), stop)
    assert ran[0].stopped == "it was stopped"
    assert ran[0].seconds < 30
    play.goes_on()
    play.db.close()


KAHN = [
    s
    for s in range(200, 400)
    if not drawn(s).words & {*LOOSE, "cycle", "join"} and len(drawn(s).stages) > 2
][:5]
"""Graphs whose outcome depends on no schedule."""


def outcome(db: Any, graph: Graph) -> dict[str, Any]:
    """What can be seen of a graph that has come to rest, whatever the order of its epochs was."""
    out: dict[str, Any] = {}
    for n in graph.retained:
        out[n] = relation(db, n)
    for name, stage in db._bound.items():
        out[f"state of {name}"] = state_of(db, stage)
        out[f"epochs of {name}"] = db.graph.nodes[name].epochs
    out |= {k: (c.first, len(c.at)) for k, c in db.graph.cursors.items()}
    return out


@pytest.mark.parametrize("seed", KAHN)
def test_workers_make_no_difference(tmp_path: Path, seed: int) -> None:
    found = []
    for n, how in enumerate([{"workers": 1}, {"workers": 3}, {"workers": 2, "bottlenecks": False}]):
        graph = drawn(seed)
        db = opened(tmp_path / str(n), graph, fuse=n == 2)
        for what, given in graph.story:
            if what == "give":
                db.apply(given)
            else:
                db.run(**how)
        found.append(outcome(db, graph))
        db.close()
    assert found[0] == found[1] == found[2]


def test_functions_of_different_stages_are_called_at_the_same_time(tmp_path: Path) -> None:
    db, both = hw.open(tmp_path / "db"), threading.Barrier(2, timeout=20)
    db.source("s", "k INT")

    @db.stage("s", out="k INT")
    def one(row):
        both.wait()
        return row

    @db.stage("s", out="k INT")
    def other(row):
        both.wait()
        return row

    db.apply({"s": [(1,)]})
    db.run(workers=2)
    assert rows_of(db, "one") == rows_of(db, "other") == Counter([(1,)])
    db.close()


def test_with_workers_one_that_fails_holds_no_other(tmp_path: Path) -> None:
    db, fails = hw.open(tmp_path / "db"), [True]
    db.source("s", "k INT")

    @db.stage("s", out="k INT")
    def bad(row):
        if fails:
            raise ValueError("not yet")
        return row

    @db.stage("s", out="k INT")
    def good(row):
        return row

    db.apply({"s": [(1,)]})
    with pytest.raises(StageFailed, match="`bad` failed: ValueError: not yet"):
        db.run(workers=3)
    assert rows_of(db, "good") == Counter([(1,)])
    fails.clear()
    db.run(workers=3)
    assert rows_of(db, "bad") == Counter([(1,)])
    db.close()


# --- other processes and handles -------------------------------------------------------------------------------------


def test_a_forked_child_is_told(tmp_path: Path) -> None:
    play = Play(tmp_path / "db")
    play.give()

    def child() -> list[str]:
        play.assert_whole()  # it may read
        return [came_of(play.db.run), came_of(lambda: play.db.run(workers=2))]

    assert forked(child) == ["LeaseLost", "LeaseLost"]
    play.goes_on()
    play.db.close()


def test_a_second_handle_takes_over_and_the_first_is_told(tmp_path: Path) -> None:
    play = Play(tmp_path / "db")
    other = play.opened()
    play.give(other)  # takes over
    play.give(other)
    for workers in (1, 2):
        with pytest.raises(LeaseLost) as caught:
            play.db.run(workers=workers)
        assert told(caught.value)
    assert other.run(epochs=2).epochs
    with pytest.raises(LeaseLost):
        play.db["totals"].pause()
    play.assert_whole(other)
    play.db.close()
    play.goes_on()  # takes over in turn
    assert came_of(other.run) == "LeaseLost"
    other.close()
    play.goes_on()
    play.db.close()


def test_a_run_whose_right_is_taken_in_the_middle(tmp_path: Path) -> None:
    """While a function is called another handle takes over: the epoch is not committed, nor anything after it."""
    play, took = Play(tmp_path / "db"), []
    play.give()

    def takes_over(*args: Any, **named: Any) -> Any:
        if not took:
            took.append(play.opened())
            play.give(took[0])
        return real(*args, **named)

    stage = play.db._bound["totals"]
    real = stage.f
    object.__setattr__(stage, "f", takes_over)
    with pytest.raises(HeadwaterError) as caught:
        play.db.run()
    assert isinstance(caught.value, LeaseLost), caught.value
    play.assert_whole(took[0])
    took[0].run()
    play.assert_right(took[0])
    took[0].close()
    play.db.close()
    play.goes_on()
    play.db.close()
