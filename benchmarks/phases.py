"""Where the time of an increment goes: staging, checks, statements, merges, answers, writing, committing.

Functions of the engine are wrapped by a clock while something is measured. What none of them took is `rest`, so a
function that is not there, or is new, moves time and loses none.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headwater.api import applying
from headwater.engine import increment
from headwater.engine.spark.rounds import Cluster
from headwater.engine.working import Working
from headwater.state.store import StoreWriter

WATCHED: dict[str, list[tuple[Any, str]]] = {
    "staging": [(applying, "staged_change")],
    "checks": [(applying, "checked_change")],
    "statements": [(increment, "run"), (Cluster, "round")],
    "merges": [(increment, "merge")],
    "answers": [
        (increment, "components"),
        (increment, "keep_answers"),
        (increment, "rows"),
        (Cluster, "components"),
    ],
    "writing": [(Working, "written")],
    "committing": [(StoreWriter, "commit")],
}
REST = "rest"
PHASES = (*WATCHED, REST)


class Clock:
    """Seconds of each phase, how many statements ran, and the rows that they made."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(WATCHED, 0.0)
        self.statements = self.rows = 0
        self.inside = False

    def watched(self, phase: str, f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def call(*given: Any, **named: Any) -> Any:
            if self.inside:  # a phase that calls another is one
                return f(*given, **named)
            self.inside = True
            started = time.perf_counter()
            try:
                made = f(*given, **named)
            finally:
                self.seconds[phase] += time.perf_counter() - started
                self.inside = False
            if phase == "statements":
                self.statements += 1
                self.rows += getattr(made, "num_rows", 0)
            return made

        return call

    def phases(self, total: float) -> dict[str, float]:
        """Seconds of all phases of something that took so long."""
        return {**self.seconds, REST: total - sum(self.seconds.values())}


@contextmanager
def watching() -> Iterator[Clock]:
    """A clock on the phases of what runs meanwhile."""
    clock = Clock()
    before = [
        (owner, name, getattr(owner, name))
        for listed in WATCHED.values()
        for owner, name in listed
        if hasattr(owner, name)
    ]
    for phase, listed in WATCHED.items():
        for owner, name in listed:
            if hasattr(owner, name):
                setattr(owner, name, clock.watched(phase, getattr(owner, name)))
    try:
        yield clock
    finally:
        for owner, name, f in before:
            setattr(owner, name, f)
