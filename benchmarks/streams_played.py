"""A stream that is played, increment by increment: seconds, bytes of maps, and what closing and purging took of the time.

Closing and purging are the late check, what a commit closes, telling the store what is dead, counting dead entries, and
rewriting runs for no reason but them. The first three hold an increment up; the others are in the background, and are
counted by the processor's time of their thread.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import headwater as hw
from benchmarks.report import ROOT, timed
from benchmarks.streams_cases import Case, Ints, Tables, answer, same, shown
from headwater.engine.late import ASIDE
from headwater.engine.ledgers import LEDGER
from headwater.state import compaction
from headwater.state.purging import Purging

HERE = ("_in_time", "_close", "_tell_dead")
"""What of closing an increment waits for."""


@dataclass
class Clocks:
    """Seconds of parts of an increment, and of what goes on behind it."""

    seconds: dict[str, float] = field(default_factory=dict)
    tagged: set[tuple[str, Any]] = field(default_factory=set)

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def watched(
        self, name: str, f: Callable[..., Any], clock: Callable[[], float]
    ) -> Callable[..., Any]:
        @functools.wraps(f)
        def call(*given: Any, **named: Any) -> Any:
            started = clock()
            try:
                return f(*given, **named)
            finally:
                self.add(name, clock() - started)

        return call

    def due(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Notes which runs are rewritten for their dead entries alone."""

        def call(arrangement: Any, busy: Any = frozenset(), dead: Any = ()) -> Any:
            chosen = f(arrangement, busy, dead or compaction.NOTHING_DEAD)
            if dead and set(chosen) != set(compaction._by_size(arrangement, busy)):
                self.tagged.update((arrangement.spec.name, r) for r in chosen)
            return chosen

        return call

    def compact(self, f: Callable[..., Any]) -> Callable[..., Any]:
        def call(arrangement: Any, refs: Any, writer: Any, dead: Any = None, *more: Any) -> Any:
            started = time.thread_time()
            f(arrangement, refs, writer, dead, *more)
            took = time.thread_time() - started
            purging = refs and (arrangement.spec.name, refs[0]) in self.tagged
            self.add("rewriting for dead entries" if purging else "other compaction", took)

        return call

    @property
    def closing(self) -> float:
        """Seconds of closing and purging, here and in the background."""
        return sum(s for n, s in self.seconds.items() if n != "other compaction")


@contextmanager
def clocks() -> Iterator[Clocks]:
    """Clocks on what runs meanwhile."""
    made = Clocks()
    places: list[tuple[Any, str, Any]] = [(hw.Database, n, getattr(hw.Database, n)) for n in HERE]
    places += [(Purging, "counts", Purging.counts)]
    places += [(compaction, n, getattr(compaction, n)) for n in ("due", "compact")]
    for owner, name, f in places:
        if owner is hw.Database:
            setattr(owner, name, made.watched(name.strip("_"), f, time.perf_counter))
        elif owner is Purging:
            setattr(owner, name, made.watched("counting dead entries", f, time.thread_time))
        else:
            setattr(owner, name, getattr(made, name)(f))
    try:
        yield made
    finally:
        for owner, name, f in places:
            if owner is hw.Database:
                delattr(owner, name)  # it is a method of a part of the database
            else:
                setattr(owner, name, f)


@dataclass
class Played:
    """What a story measured, by increment."""

    seconds: list[float]
    bytes: list[int]
    clocks: Clocks
    final: int
    grown: dict[str, tuple[int, int]]
    """Bytes of each map at the two times that are compared."""


@contextmanager
def place() -> Iterator[Path]:
    """A directory on a disk, for a while."""
    (ROOT / "build").mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=ROOT / "build", prefix="streams-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def bytes_of(db: hw.Database) -> dict[str, int]:
    """Bytes of the maps that views need; sources keep no rows here."""
    maps = db.store.at().version.maps
    return {
        n: sum(r.size for r in refs)
        for n, (_, refs) in maps.items()
        if not n.startswith((LEDGER, ASIDE))
    }


def play(
    case: Case,
    given: list[Tables],
    wanted: Ints,
    closing: bool,
    early: int,
    step: Callable[[], None] = lambda: None,
) -> Played:
    """Applies the increments, and compares the answer; `early` is the increment that the last is compared with."""
    seconds, size, noted = list[float](), list[int](), dict[str, int]()
    with place() as home, clocks() as watched, case.open(home / "db", closing) as db:
        for i, change in enumerate(given):
            took, commit = timed(functools.partial(db.apply, change))
            if commit.late:
                raise AssertionError(f"{case.name}: rows were late: {commit.late}")
            seconds.append(took)
            now = bytes_of(db)
            size.append(sum(now.values()))
            noted = now if i == early else noted
            step()
        same(case.name, shown(db.table("v")), wanted)
        final = db.final_table("v").num_rows if closing and db.over.told else 0
        grown = {n: (noted.get(n, 0), b) for n, b in bytes_of(db).items()}
    return Played(seconds, size, watched, final, grown)


def both(
    case: Case,
    windows: int,
    rows: int,
    size: int,
    early: int,
    step: Callable[[], None] = lambda: None,
) -> tuple[Played, Played]:
    """A story with closing, and its twin that is never closed; both answer as DuckDB does."""
    given = list(case.increments(windows, rows, size))
    wanted = answer(case, given)
    return (
        play(case, given, wanted, True, early, step),
        play(case, given, wanted, False, early, step),
    )
