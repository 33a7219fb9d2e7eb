"""Frames: input cut where a key changes, whatever the increments that it came in.

    frames cut from increments one after another = frames cut from all of them in order, but for late rows

An increment is sorted by the framing's columns and cut where the key changes. A frame grows, from increment to increment,
until a greater key or a punctuation closes it. A row whose key is below that of the open frame, or of one that was closed,
is late: it makes a frame of its own, which is complete and counted. A row whose key is None is in no frame.

The frames of an input have places that grow: (key, 1), and for a late one that of what was open when it came, (key, 0), or of
what was closed last, (key, 2). They depend on the increments alone, so that who reads frames of several inputs by their places
reads the same whenever it is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from headwater.dataflow.rows import sort_key
from headwater.dataflow.words import Framing, Punctuation
from headwater.errors import StageError

Stretch = tuple[int, int, int]
"""Rows of an increment: its number, the first of its rows in the framing's order, and the first that is not."""


Place = tuple[Any, int]
"""Where a frame stands among those of its input: a key, and before (0), at (1) or behind (2) the frame of that key."""


@dataclass(frozen=True)
class Frame:
    """Rows with a key: where they are, not what they are."""

    key: Any
    rows: tuple[Stretch, ...]
    late: Place | None = None
    """The place of a frame that is late."""

    @property
    def place(self) -> Place:
        return (self.key, 1) if self.late is None else self.late


@dataclass(frozen=True)
class Cut:
    """What an input was cut into: complete frames, oldest first, the one that still grows, and the small state."""

    frames: tuple[Frame, ...] = ()
    open: Frame | None = None
    small: Any = None
    closed: Any = None
    """The greatest key of which frames are complete."""
    late: int = 0


def in_order(framing: Framing, rows: Sequence[Any]) -> list[Any]:
    """The rows of an increment as they are cut: by the framing's columns, and equal ones by everything."""
    names = framing.order
    return sorted(rows, key=lambda r: (sort_key([getattr(r, n) for n in names]), sort_key(r)))


def cut(
    framing: Framing,
    before: Cut,
    number: int,
    rows: Sequence[Any],
    punctuation: Punctuation | None = None,
) -> Cut:
    """The frames after one more increment, of which the rows are given in order."""
    small, keys = before.small, []
    for row in rows:
        given = framing.key(row, small)
        if not isinstance(given, tuple) or len(given) != 2:
            raise StageError(
                f"`{framing.told}` gave {given!r} for the row {tuple(row)!r}",
                hint="a framing gives (key, small)",
            )
        key, small = given
        keys.append(key)
    out = replace(before, small=small)
    try:
        place = 0
        for key, some in groupby(keys):
            length = len(list(some))
            if key is not None:
                out = _added(out, Frame(key, ((number, place, place + length),)))
            place += length
        if punctuation is not None:
            out = _closed(out, punctuation.key)
    except TypeError as e:
        raise StageError(
            f"the keys of `{framing.told}` do not compare: {e}",
            hint="give keys of one type, and None for no row",
        ) from e
    return out


def _added(at: Cut, more: Frame) -> Cut:
    """A stretch of rows of one key more."""
    late = at.closed is not None and more.key <= at.closed
    if at.open is None:
        if late:
            return _late(at, more, (at.closed, 2))
        return replace(at, open=more)
    if more.key == at.open.key:
        return replace(at, open=Frame(more.key, (*at.open.rows, *more.rows)))
    if late or more.key < at.open.key:
        return _late(at, more, (at.open.key, 0))
    return replace(at, frames=(*at.frames, at.open), open=more, closed=at.open.key)


def _late(at: Cut, more: Frame, place: Place) -> Cut:
    """A frame of its own for rows that are late."""
    return replace(at, frames=(*at.frames, replace(more, late=place)), late=at.late + 1)


def _closed(at: Cut, key: Any) -> Cut:
    """All frames up to a key are complete."""
    closed = key if at.closed is None or key > at.closed else at.closed
    if at.open is not None and at.open.key <= key:
        return replace(at, frames=(*at.frames, at.open), open=None, closed=closed)
    return replace(at, closed=closed)
