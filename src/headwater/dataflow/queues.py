"""Queues: the increments of an input that were not removed, as runs of a pinned map, and where its reader stands.

An increment is what a version added to a flow; its runs are those of the queue that are newer than the increment before it
and not newer than itself. So all rows that were there when a stage was defined are one increment, whatever versions wrote
them, and nothing is copied. A `Cursor` is plain data, a fact of the version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.dataflow.call import FRAME
from headwater.dataflow.define import Input, arrow_schema
from headwater.dataflow.framing import Cut, Frame, cut, in_order
from headwater.dataflow.rows import as_data, of_data, row_class, rows_of
from headwater.dataflow.runnable import Waiting, waiting
from headwater.dataflow.words import Punctuation
from headwater.engine.here.equal_rows import consolidated
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import Arrangement
from headwater.state.run import LEAST, MOST, RunRef, column


@dataclass(frozen=True)
class Cursor:
    """Where a reader stands: the number of the first increment that it has not removed, and the versions of these.

    `points` are punctuations by increment; of a framed input, `done` is the first increment that is not cut yet.
    """

    first: int = 0
    at: tuple[int, ...] = ()
    points: Mapping[int, Any] = field(default_factory=dict)
    done: int = 0
    cut: Cut = field(default_factory=Cut)

    @property
    def next(self) -> int:
        """The number that the next increment gets."""
        return self.first + len(self.at)

    def sent(self, version: int, point: Punctuation | None = None) -> Cursor:
        """With one increment more."""
        points = self.points if point is None else {**self.points, self.next: point.key}
        return replace(self, at=(*self.at, version), points=points)

    def removed(self, i: Input, count: int) -> Cursor:
        """Without so many increments, or frames, and what only they needed."""
        if i.framing is None:
            first, left = self.first + count, self.cut
        else:
            left = replace(self.cut, frames=self.cut.frames[count:])
            open_ = (left.open,) if left.open is not None else ()
            needed = [n for f in (*left.frames, *open_) for n, _, _ in f.rows]
            first = min([*needed, self.done])
        points = {n: k for n, k in self.points.items() if n >= first}
        at = self.at[first - self.first :]
        return Cursor(first, at, points, max(self.done, first), left)

    def gone(self, refs: Sequence[RunRef], left: Cursor) -> list[RunRef]:
        """The runs that are needed no more once the cursor is another one."""
        count = left.first - self.first
        if not count:
            return []
        last = self.at[count - 1]
        return [r for r in refs if r.version <= last]

    def as_data(self) -> dict[str, Any]:
        """As plain data."""
        out: dict[str, Any] = {"first": self.first, "at": list(self.at)}
        if self.points:
            out["points"] = {str(n): as_data(k) for n, k in self.points.items()}
        if self.done or self.cut != Cut():
            out["done"], out["cut"] = self.done, _cut_data(self.cut)
        return out

    @staticmethod
    def of(data: Mapping[str, Any]) -> Cursor:
        """From plain data."""
        points = {int(n): of_data(k) for n, k in data.get("points", {}).items()}
        found = _cut_of(data["cut"]) if "cut" in data else Cut()
        out = Cursor(data["first"], tuple(data["at"]), points, data.get("done", 0), found)
        out.check()
        return out

    def check(self) -> None:
        """Raises unless increments are numbers that grow, and frames are made of those that are there."""
        frames = [*self.cut.frames, *([self.cut.open] if self.cut.open is not None else [])]
        stretches = [stretch for f in frames for stretch in f.rows]
        numbers = [
            self.first,
            self.done,
            self.cut.late,
            *self.at,
            *(x for s in stretches for x in s),
        ]
        if any(type(n) is not int or n < 0 for n in numbers):
            raise TypeError(f"the increments {numbers} are no numbers")
        if any(b <= a for a, b in pairwise(self.at)):
            raise ValueError(f"the increments of the versions {self.at} do not follow each other")
        if any(not (self.first <= n < self.next and a <= b) for n, a, b in stretches):
            raise ValueError("a frame has rows of an increment that is not there")


def _cut_data(c: Cut) -> dict[str, Any]:
    def frame(f: Frame) -> list[Any]:
        late = [] if f.late is None else [as_data(f.late)]
        return [as_data(f.key), [list(r) for r in f.rows], *late]

    return {
        "frames": [frame(f) for f in c.frames],
        "open": None if c.open is None else frame(c.open),
        "small": as_data(c.small),
        "closed": as_data(c.closed),
        "late": c.late,
    }


def _cut_of(data: Mapping[str, Any]) -> Cut:
    def frame(d: Any) -> Frame:
        key, rows, *late = d
        place = of_data(late[0]) if late else None
        return Frame(of_data(key), tuple((n, a, b) for n, a, b in rows), place)

    return Cut(
        tuple(map(frame, data["frames"])),
        None if data["open"] is None else frame(data["open"]),
        of_data(data["small"]),
        of_data(data["closed"]),
        data["late"],
    )


class Inbox:
    """What waits on an input, to look at and to read; `columns` are those of the queue's map that hold the row."""

    def __init__(self, i: Input, cursor: Cursor, queue: Arrangement, columns: Sequence[str]):
        self.input, self.cursor, self.queue, self.columns = i, cursor, queue, list(columns)

    def waiting(self) -> Waiting:
        """What waits; a framed input is cut as far as it came."""
        i, c = self.input, self.cursor
        if i.framing is None:
            return Waiting((None,) * len(c.at), take=i.take)
        while c.done < c.next:
            point = Punctuation(c.points[c.done]) if c.done in c.points else None
            rows = in_order(i.framing, self._rows(c.done))
            c = replace(c, cut=cut(i.framing, c.cut, c.done, rows, point), done=c.done + 1)
        self.cursor = c
        return waiting(c.cut, i.take)

    def table(self, count: int) -> tuple[pa.Table, list[Any] | None]:
        """The rows of so many frames with `_w`, equal ones added up; of a framed input with the frames' keys."""
        i, c = self.input, self.cursor
        if i.framing is None:
            return self._added(c.first, c.first + count), None
        keys: list[Any] = []
        rows: list[tuple[Any, ...]] = []
        weights: list[int] = []
        numbers: list[int] = []
        for frame in c.cut.frames[:count]:
            if not keys or keys[-1] != frame.key:
                keys.append(frame.key)
            for number, a, b in frame.rows:
                mine = in_order(i.framing, self._rows(number))[a:b]
                rows += [tuple(r) for r in mine]
                weights += [r._w for r in mine]
                numbers += [len(keys) - 1] * len(mine)
        schema = arrow_schema(i.row)
        arrays = [pa.array([r[j] for r in rows], f.type) for j, f in enumerate(schema)]
        table = pa.table(
            [*arrays, pa.array(numbers, pa.int64()), pa.array(weights, pa.int64())],
            [*schema.names, FRAME, WEIGHT],
        )
        return consolidated(table), keys

    def rows_waiting(self, count: int) -> int:
        """About how many rows the first increments, or frames, have."""
        if self.input.framing is not None:
            frames = self.cursor.cut.frames[:count]
            return sum(b - a for f in frames for _, a, b in f.rows)
        return sum(r.rows for r in self.refs(count))

    def refs(self, count: int) -> list[RunRef]:
        """The runs of the first increments."""
        return self._refs(self.cursor.first, self.cursor.first + count)

    def _refs(self, first: int, last: int) -> list[RunRef]:
        """The runs of the increments from one to another."""
        c = self.cursor
        low = c.at[first - c.first - 1] if first > c.first else -1
        high = c.at[last - c.first - 1] if last > c.first else -1
        return [r for r in self.queue.refs if low < r.version <= high]

    def _added(self, first: int, last: int) -> pa.Table:
        refs = self._refs(first, last)
        found = self.queue.collected(refs, LEAST, MOST)
        schema = arrow_schema(self.input.row)
        count = self.queue.spec.count
        kept = np.asarray(column(found, count)) != 0
        if not kept.all():
            found = found.filter(pa.array(kept))
        arrays = [column(found, n).cast(f.type) for n, f in zip(self.columns, schema, strict=True)]
        return pa.table([*arrays, column(found, count)], [*schema.names, WEIGHT])

    def _rows(self, number: int) -> list[Any]:
        """The rows of an increment, as those that a framing sees, with their weights beside them."""
        table = self._added(number, number + 1)
        made = row_class(self.input.columns)
        out = []
        for values, n in zip(
            rows_of(table, self.input.columns),
            np.asarray(column(table, WEIGHT)).tolist(),
            strict=True,
        ):
            row = made(values)
            row._w = n  # type: ignore[attr-defined]
            out.append(row)
        return out
