"""A clock as a feed: one row that says what time it is, replaced every so many seconds.

    format="clock", options={"every": 60}       schema "now TIMESTAMP, today DATE", or one of the two

A view that joins it may filter by `today` or by the last hour: SQL's `current_date` would have to change an answer though no
row has come, and here one has. The row before is taken back in the commit that brings the new one; the cursor is the
time that it says. `today` is the day in the time zone of the database.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import pyarrow as pa

from headwater.calculus.types import DATE, TIMESTAMP, TIMESTAMP_NTZ
from headwater.errors import FeedLost, QueryError
from headwater.feeds.feed import Batch, Cursor, Declared, Limit
from headwater.interop.arrow_types import arrow_type
from headwater.io.events import Delta

EVERY = 1.0
KINDS = {"now": (TIMESTAMP, TIMESTAMP_NTZ), "today": (DATE,)}
"""The columns that a clock has, by name."""


class ClockFeed:
    """Gives the time."""

    replays: ClassVar[bool] = True
    endless: ClassVar[bool] = True

    def __init__(self, declared: Declared):
        self.declared = declared
        self.every = float(declared.options.get("every", EVERY))

    def read(self, after: Cursor, limit: Limit) -> Batch | None:
        now = self._now()
        if after is not None and not isinstance(after, int | float):
            raise FeedLost(
                f"the cursor of `{self.declared.name}` is {after!r}, which is no time",
                hint="drop the source and declare it again",
            )
        if after is not None and after <= now < after + self.every:
            return None
        now -= now % self.every if self.every >= 1 else 0
        if after == now:
            return None
        before = None if after is None else self._row(after)
        return Batch(Delta(self._row(now), before), now)

    def committed(self, cursor: Cursor) -> None:
        """Nobody is to be told."""

    def close(self) -> None:
        """Nothing is open."""

    def _now(self) -> float:
        return datetime.now(UTC).timestamp()

    def _row(self, at: float) -> pa.Table:
        zone = ZoneInfo(self.declared.zone)
        local = datetime.fromtimestamp(at, zone)
        cells: dict[Any, Any] = {
            TIMESTAMP: local.astimezone(UTC),
            TIMESTAMP_NTZ: local.replace(tzinfo=None),
            DATE: local.date(),
        }
        return pa.table(
            {n: pa.array([cells[t]], arrow_type(t)) for n, t in self.declared.row.fields}
        )


def check(declared: Declared) -> None:
    """Raises where the columns are others than a clock has."""
    for n, t in declared.row.fields:
        if t not in KINDS.get(n.lower(), ()):
            raise QueryError(
                f"`{n}` of `{declared.name}` is nothing that a clock gives",
                hint="declare now TIMESTAMP, today DATE, or one of the two",
            )
