"""Which stage runs next: of those that can, the one that ran least, and of these the one that has waited longest.

A pure function of counters and of what can run. Two repairs to the plain rule:

    a node that becomes runnable counts from the count of the node chosen last, at least; else a new stage would run as
    often as all others did before it;
    a node whose outputs are unread by all of their readers is passed over, but only while another can run; else a window
    that needs two increments of its input would wait for ever.

So who stays runnable, and is not passed over, runs within 2n runs of n nodes, and something runs while anything can.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any


def rings(after: Mapping[str, Collection[str]]) -> dict[str, frozenset[str]]:
    """For each node those that it is on a cycle with: whom it reaches, and who reach it; itself at least."""

    def reached(name: str) -> set[str]:
        out, new = set[str](), {name}
        while new:
            new = {m for n in new for m in after[n]} - out
            out |= new
        return out

    far = {n: reached(n) for n in after}
    return {n: frozenset({n, *(m for m in far[n] if n in far[m])}) for n in after}


@dataclass(frozen=True)
class Schedule:
    """The counters: how often nodes ran, since when those that can run could, the count that was chosen last, and the time."""

    runs: Mapping[str, int] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
    clock: int = 0
    time: int = 0

    def seen(self, runnable: Collection[str]) -> Schedule:
        """The counters with those that can run now, and without those that cannot."""
        runs, since = dict(self.runs), {}
        for name in runnable:
            if name in self.since:
                since[name] = self.since[name]
            else:
                since[name] = self.time
                runs[name] = max(runs.get(name, 0), self.clock)
        return replace(self, runs=runs, since=since)

    def next(self, full: Collection[str] = ()) -> str | None:
        """The node to run, of those that were seen to be able to; those of `full` only where there are no others."""
        free = [n for n in self.since if n not in full] or list(self.since)
        if not free:
            return None
        return min(free, key=lambda n: (self.runs.get(n, 0), self.since[n], n))

    def ran(self, name: str) -> Schedule:
        """The counters after a node ran: it may be able to run again, but waits from now on."""
        count = self.runs.get(name, 0)
        since = {n: t for n, t in self.since.items() if n != name}
        clock = max(self.clock, count)
        runs = {**self.runs, name: count + 1}
        return replace(self, runs=runs, since=since, clock=clock, time=self.time + 1)

    def without(self, name: str) -> Schedule:
        """The counters without a node that cannot run now, whatever waits for it."""
        return replace(self, since={n: t for n, t in self.since.items() if n != name})

    def as_data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "runs": dict(self.runs),
            "since": dict(self.since),
            "clock": self.clock,
            "time": self.time,
        }

    @staticmethod
    def of(data: Mapping[str, Any] | None) -> Schedule:
        """From plain data."""
        made = Schedule() if data is None else Schedule(**data)
        counts = [*made.runs.values(), *made.since.values(), made.clock, made.time]
        if any(type(n) is not int for n in counts):
            raise TypeError(f"the counters {counts} are no numbers")
        return made
