"""Unread increments of an input on plain lists: what they were cut into, what an epoch reads of them, what is left.

a queue is the increments that were not removed; a frame names rows of them by their places
what is read is added up, so that a row and its deletion in one epoch are nothing
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.dataflow.define import Input
from headwater.dataflow.framing import Cut, cut, in_order
from headwater.dataflow.rows import frozen, row_class
from headwater.dataflow.runnable import Waiting, waiting
from headwater.dataflow.words import Punctuation

Bag = dict[tuple[Any, ...], int]
"""Rows with weights, none of which is zero."""


def added(*bags: Mapping[tuple[Any, ...], int]) -> Bag:
    """The sum of bags."""
    out: Counter[tuple[Any, ...]] = Counter()
    for bag in bags:
        for row, n in bag.items():
            out[row] += n
    return {r: n for r, n in out.items() if n}


def minus(bag: Mapping[tuple[Any, ...], int]) -> Bag:
    """A bag with its weights turned round."""
    return {r: -n for r, n in bag.items()}


@dataclass
class Queue:
    """The increments of an input that were not removed, numbered, and what they were cut into."""

    first: int = 0
    increments: list[tuple[Bag, Punctuation | None]] = field(default_factory=list)
    done: int = 0
    """The number of the first increment that is not cut yet."""
    cut: Cut = field(default_factory=Cut)


def waits(i: Input, q: Queue) -> Waiting:
    """What waits on an input; increments that came since are cut."""
    if i.framing is None:
        return Waiting((None,) * len(q.increments), take=i.take)
    while q.done < q.first + len(q.increments):
        bag, punctuation = q.increments[q.done - q.first]
        rows = in_order(i.framing, [row_class(i.columns)(r) for r in bag])
        q.cut = cut(i.framing, q.cut, q.done, rows, punctuation)
        q.done += 1
    return waiting(q.cut, i.take)


def read(i: Input, q: Queue, count: int) -> list[tuple[Any, int]]:
    """The rows of so many frames, added up, with weights."""
    made = row_class((*i.columns, "_w") if i.changes else i.columns)
    if i.framing is None:
        total = added(*(bag for bag, _ in q.increments[:count]))
        return [(made((*r, n) if i.changes else r), n) for r, n in total.items()]
    framed: dict[Any, int] = {}
    for frame in q.cut.frames[:count]:
        for number, first, last in frame.rows:
            bag = q.increments[number - q.first][0]
            for r in in_order(i.framing, [row_class(i.columns)(r) for r in bag])[first:last]:
                at = tuple(r), frozen(frame.key)
                framed[at] = framed.get(at, 0) + bag[tuple(r)]
    out = []
    for (r, key), n in framed.items():
        if n:
            row = made((*r, n) if i.changes else r)
            row._frame = key  # type: ignore[attr-defined]
            out.append((row, n))
    return out


def removed(i: Input, q: Queue, count: int) -> Queue:
    """A queue without its first frames, and without the increments that no frame needs any more."""
    if i.framing is None:
        return replace(q, first=q.first + count, increments=q.increments[count:])
    left = q.cut.frames[count:]
    needed = [n for f in (*left, *([q.cut.open] if q.cut.open else ())) for n, _, _ in f.rows]
    first = min([*needed, q.done])
    return replace(
        q,
        first=first,
        increments=q.increments[first - q.first :],
        cut=replace(q.cut, frames=left),
    )
