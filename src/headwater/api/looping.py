"""How long `run` goes on: once, as long as there is something, every so many seconds, or always; and what ends it.

A loop that waits looks again after a pause. Where it is to go on always the pause is short while something comes and as long
as looking takes otherwise, so that a quiet directory of many files costs little. SIGTERM and SIGINT end a loop after the
commit that it is in: what was read and not committed is read again by the next one. A second SIGINT ends it at once.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import QueryError

SHORTEST, LONGEST = 0.02, 1.0
"""Seconds between two looks of a loop that goes on always."""
LOOKS = 3.0
"""How many times as long as it looks such a loop pauses."""
BETWEEN = 0.25
"""Seconds after which feeds that had nothing are asked again, though others have much."""
MODES = ("once", "available", "every", "always")


@dataclass
class Loop:
    """How a run goes on: `every` is the pause of a loop that waits, None of one that ends when nothing can run."""

    once: bool = False
    every: float | None = None
    always: bool = False
    looked: float = field(default_factory=time.monotonic)

    @property
    def waits(self) -> bool:
        """Whether it waits for more when nothing can run."""
        return self.every is not None or self.always

    def pause(self, looking: float, left: float | None) -> float:
        """How long it waits after a look that took so long and found nothing."""
        if self.every is not None:
            pause = self.every
        else:
            pause = min(max(SHORTEST, LOOKS * looking), LONGEST)
        return pause if left is None else max(0.0, min(pause, left))

    def is_due(self) -> bool:
        """Whether feeds that had nothing are asked again, though something runs all the time."""
        if not self.waits or time.monotonic() - self.looked < BETWEEN:
            return False
        self.looked = time.monotonic()
        return True


def loop_of(once: bool, available: bool, every: float | None, always: bool) -> Loop:
    """The loop that the arguments of `run` say; QueryError where they say two."""
    flags = (once, available, always)
    if not all(isinstance(f, bool) for f in flags):
        raise QueryError("once, available and always are True or False", hint="run(always=True)")
    said = [
        m
        for m, given in zip(MODES, (once, available, every is not None, always), strict=True)
        if given
    ]
    if len(said) > 1:
        raise QueryError(f"run({said[0]}=, {said[1]}=) says two things", hint="give one of them")
    return Loop(once, every, always)


@contextlib.contextmanager
def ended_by_signals(stop: Callable[[], None], waits: bool) -> Iterator[list[str]]:
    """Has SIGTERM and SIGINT stop a loop that waits, in the main thread; gives the signals that came."""
    came: list[str] = []
    if not waits or threading.current_thread() is not threading.main_thread():
        yield came
        return

    def stopped(number: int, _: Any) -> None:
        if came and number == signal.SIGINT:
            raise KeyboardInterrupt
        came.append(signal.Signals(number).name)
        stop()

    before = {s: signal.signal(s, stopped) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
