"""An iterable of this process as a feed: its items are rows, or tables of rows; the cursor is how many of them were taken.

A list may grow, and what is new is taken. Another iterable is gone through once; one that gives None has nothing now, and
is asked again. Items that were not committed are held, so that they are there again. In another process the iterable begins
anew, and as many items as were taken are passed over: it has to give the same ones in the same order, which only who
made it can promise.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from headwater.errors import BadChange, FeedLost
from headwater.feeds.feed import Batch, Cursor, Limit

_ROWS = (tuple, list, Mapping)


class IterableFeed:
    """Gives the items of an iterable; `held` are those behind the cursor that were read and not committed."""

    replays = True

    def __init__(self, items: Iterable[Any], source: str):
        self.items, self.source = items, source
        self.iterator: Iterator[Any] | None = None
        self.start = 0
        self.held: list[Any] = []

    def read(self, after: Cursor, limit: Limit) -> Batch | None:
        place = self._place(after)
        until = time.monotonic() + limit.seconds
        found = self._items(place, until, limit)
        if not found:
            return None
        if not isinstance(found[0], _ROWS):
            return Batch(found[0], place + 1)
        return Batch(found, place + len(found))

    def committed(self, cursor: Cursor) -> None:
        """What was taken is held no more."""
        self._forget(int(cursor))

    def close(self) -> None:
        """Nothing is held open; what was read and not committed stays, as an iterator cannot be asked for it again."""

    def _place(self, after: Cursor) -> int:
        if after is None:
            return 0
        if type(after) is not int or after < 0:
            raise FeedLost(
                f"the cursor of `{self.source}` is {after!r}, which is no number of items",
                hint="it was fed by something else: drop the source, or give it that feed again",
            )
        return after

    def _items(self, place: int, until: float, limit: Limit) -> list[Any]:
        """The items behind a place: rows, as many as a batch takes, or one table."""
        out: list[Any] = []
        for n in range(limit.rows):
            item = self._item(place + n)
            if item is None:
                break
            _check(self.source, place + n, item)
            if not isinstance(item, _ROWS):
                return out or [item]
            out.append(item)
            if time.monotonic() > until:
                break
        return out

    def _item(self, place: int) -> Any:
        """The item at a place, or None where there is none now."""
        if isinstance(self.items, Sequence) and not isinstance(self.items, str | bytes):
            return self.items[place] if place < len(self.items) else None
        if place < self.start:
            self._again(place)
        if self.iterator is None:
            self.iterator = iter(self.items)
        while self.start + len(self.held) <= place:
            item = next(self.iterator, None)
            if item is None:
                return None
            self.held.append(item)
            if not self.start + len(self.held) > place:
                self._forget(self.start + len(self.held))  # it was committed, by a process before
        return self.held[place - self.start]

    def _forget(self, place: int) -> None:
        if place > self.start:
            del self.held[: place - self.start]
            self.start = max(self.start, place)

    def _again(self, place: int) -> None:
        """Begins anew, where the iterable can."""
        if isinstance(self.items, Iterator):
            raise FeedLost(
                f"the iterator of `{self.source}` is at item {self.start + 1}, and item {place + 1} is asked for",
                hint="give a list, or an iterable that can be gone through again",
            )
        self.iterator, self.start, self.held = None, 0, []


def _check(source: str, place: int, item: Any) -> None:
    if isinstance(item, (*_ROWS, pa.Table, pa.RecordBatch, pd.DataFrame)):
        return
    if type(item).__module__.split(".")[0] in ("pyspark", "headwater"):  # a DataFrame, or a Delta
        return
    raise BadChange(
        f"item {place + 1} of the feed of `{source}` is of type {type(item).__name__}",
        hint="give rows as tuples or dicts, tables of Arrow or pandas, DataFrames, or hw.Delta",
    )
