"""Local times and instants of a time zone, for whole columns.

Between two transitions a zone's offset is constant, so that a column is searched in the list of transitions:

    local(i)    = i + offset(i)
    instant(l)  = l - the offset before the transition, where l is skipped or there twice, as Java resolves it

Rules are those of Python's `zoneinfo`, and are taken for the years in which they agree with Java's; other instants
are Spark's. In UTC all instants are exact.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from headwater.engine.here.scalars.base import Array, ArrowCannot, ints, made, require

UTC_NAMES = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT")
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2037, 12, 1, tzinfo=UTC)
"""From when to when the rules of zones are taken from Python."""
SECOND = 1_000_000
LEAST, MOST = -62_135_596_800 * SECOND, 253_402_300_800 * SECOND
"""The years 1 to 9999."""


class Zone(NamedTuple):
    """The transitions of a zone: their instants, and the offsets before the first and after each; in microseconds."""

    at: Array
    offsets: Array

    @property
    def first(self) -> int:
        return int(FIRST.timestamp()) * SECOND

    @property
    def last(self) -> int:
        return int(LAST.timestamp()) * SECOND

    def offset(self, instants: Array) -> Array:
        """The offset at each instant."""
        found: Array = self.offsets[np.searchsorted(self.at, instants, side="right")]
        return found

    def instants(self, local: Array) -> Array:
        """The instant of each local time: the earlier of two, and as far after a gap as it was in it."""
        before, after = self.offsets[:-1], self.offsets[1:]
        ends = self.at + np.maximum(before, after)
        found: Array = local - self.offsets[np.searchsorted(ends, local, side="right")]
        return found

    def starts(self, midnights: Array) -> Array:
        """The first instant of each day, which begins after a gap if there is one at midnight."""
        before, after = self.offsets[:-1], self.offsets[1:]
        ends = self.at + np.maximum(before, after)
        i = np.searchsorted(ends, midnights, side="right")
        out = midnights - self.offsets[i]
        if len(self.at):
            j = np.minimum(i, len(self.at) - 1)
            skipped = (i < len(self.at)) & (midnights >= self.at[j] + before[j])
            skipped &= after[j] > before[j]
            out = np.where(skipped, self.at[j], out)
        return out


@cache
def zone(name: str) -> Zone | None:
    """The transitions of a zone by its name; None for UTC."""
    if name in UTC_NAMES:
        return None
    try:
        rules = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise ArrowCannot(f"no rules for the time zone {name}") from e
    if "/" not in name:
        raise ArrowCannot(f"the time zone {name} is Spark's to read")

    def offset(t: datetime) -> int:
        found = t.astimezone(rules).utcoffset()
        assert found is not None
        return int(found.total_seconds()) * SECOND

    at: list[int] = []
    offsets = [offset(FIRST)]
    day, t = timedelta(days=1), FIRST
    while t < LAST:
        if offset(t + day) != offsets[-1]:
            low, high = int(t.timestamp()), int((t + day).timestamp())
            while high - low > 1:
                middle = (low + high) // 2
                same = offset(datetime.fromtimestamp(middle, UTC)) == offsets[-1]
                low, high = (middle, high) if same else (low, middle)
            at.append(high * SECOND)
            offsets.append(offset(t + day))
        t += day
    return Zone(np.array(at, np.int64), np.array(offsets, np.int64))


def _inside(values: Array, like: pa.Array, rules: Zone | None, room: int = 0) -> None:
    low, high = (LEAST, MOST) if rules is None else (rules.first + room, rules.last - room)
    require((values >= low) & (values < high), like, "a time outside of the years that are exact")


DAY = 86_400 * SECOND


def local(t: pa.DataType, a: pa.Array, name: str) -> pa.Array:
    """Instants as the local times of a zone."""
    rules, values = zone(name), ints(a)
    _inside(values, a, rules)
    return made(values if rules is None else values + rules.offset(values), a, t)


def instant(t: pa.DataType, a: pa.Array, name: str) -> pa.Array:
    """Local times of a zone as instants."""
    rules, values = zone(name), ints(a)
    _inside(values, a, rules, DAY)
    return made(values if rules is None else rules.instants(values), a, t)


def day_start(t: pa.DataType, a: pa.Array, name: str) -> pa.Array:
    """Dates as the first instants of their days in a zone."""
    rules, values = zone(name), ints(a) * DAY
    _inside(values, a, rules, DAY)
    return made(values if rules is None else rules.starts(values), a, t)
