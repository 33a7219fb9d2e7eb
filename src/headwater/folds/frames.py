"""Frames: what marks cut a stream into, for all instances at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.folds.batch import Batch
from headwater.folds.instances import GOES_ON, Instances
from headwater.state.keys import Ints
from headwater.streams.schema import Event


@dataclass(frozen=True)
class Sorted:
    """Marks of all instances, by instance and place."""

    place: Ints
    of: Ints
    events: list[Event]


def sorted_marks(given: Batch) -> Sorted:
    rows = list(given.values())
    if not rows:
        none = np.zeros(0, np.int64)
        return Sorted(none, none, [])
    place, of = np.concatenate([r.place for r in rows]), np.concatenate([r.of for r in rows])
    events = [e for r in rows for e in r.events]
    order = np.lexsort((place, of))
    if (np.diff(order) == 1).all():
        return Sorted(place, of, events)
    return Sorted(place[order], of[order], [events[i] for i in order.tolist()])


class Frames:
    """The frames of instances: frame f of instance i is what stands behind its first f marks."""

    def __init__(self, marks: Sorted, counts: Ints, at: Instances, below: Batch):
        self.at, self.counts, self.below = at, counts, below
        sizes = counts + 1
        self.base = (
            np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64) if len(at) else counts
        )
        self.total = int(sizes.sum())
        self.owner = np.repeat(np.arange(len(at), dtype=np.int64), sizes)
        self.number = np.arange(self.total, dtype=np.int64) - self.base[self.owner]
        self.end = np.full(self.total, GOES_ON, np.int64)
        inside = self.number < counts[self.owner]
        self.end[inside] = marks.place
        self.end[~inside] = at.end[self.owner[~inside]]
        places = [marks.place, *(r.place for r in below.values())]
        span = max((int(p.max(initial=0)) for p in places), default=0) + 2
        at_marks = marks.of * span + marks.place
        before = np.concatenate(([0], np.cumsum(counts)))
        self.frame: dict[str, Ints] = {}
        """The frame of each row below."""
        for h, r in below.items():
            seen = np.searchsorted(at_marks, r.of * span + r.place, "left")
            self.frame[h] = self.base[r.of] + (seen - before[r.of])

    def all(self, x: Sequence[Any], below: Sequence[Any]) -> tuple[Batch, Instances, Ints]:
        """All frames."""
        states: list[Any] = [None] * self.total
        for i, s in enumerate(below):
            states[int(self.base[i])] = s
        batch = {h: r.with_instances(self.frame[h]) for h, r in self.below.items()}
        return batch, Instances(x, states, self.end), self.owner

    def numbered(
        self, f: int, mine: Sequence[int], x: Sequence[Any], below: Sequence[Any]
    ) -> tuple[Batch, Instances, Ints]:
        """The frames with one number of some instances."""
        wanted = np.array([int(self.base[i]) + f for i in mine], np.int64)
        new = np.full(self.total, -1, np.int64)
        new[wanted] = np.arange(len(wanted))
        batch = {}
        for h, r in self.below.items():
            of = new[self.frame[h]]
            batch[h] = r.take(np.flatnonzero(of >= 0), of[of >= 0])
        return batch, Instances(x, below, self.end[wanted]), np.array(mine, np.int64)
