"""What is dead in a map, as the store asks for it: a set of punctuations over its key columns, and zones of its runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa

from headwater.calculus.patterns import (
    NOTHING,
    Constant,
    Pattern,
    Punctuations,
    Range,
    combine,
    subsumes,
)
from headwater.engine.membership import matching
from headwater.state.keys import Bools
from headwater.state.purging import Dead
from headwater.state.zones import Zone, Zones


class Promised(Dead):
    """Entries that match promises (`plan/bounds`): nobody will read them again."""

    def __init__(self, promise: Punctuations):
        self.promise = promise
        self.columns = tuple(sorted({n for p in promise for n in p.shape}))

    def gone(self, entries: pa.Table) -> Bools:
        return matching(self.promise, entries)

    def all(self, zones: Zones) -> bool:
        """Some punctuation has all that may lie there."""
        return any(
            all(n in zones and _within(zones[n], p) for n, p in q.columns) for q in self.promise
        )

    def none(self, zones: Zones) -> bool:
        """Each punctuation has a column in which nothing that may lie there matches."""
        return all(
            any(n in zones and _apart(zones[n], p) for n, p in q.columns) for q in self.promise
        )


def _range(zone: Zone) -> Range | None:
    """The values of a zone."""
    low, high = zone.least, zone.greatest
    return None if low is None or high is None else Range(_value(low), _value(high), True, True)


def _value(scalar: pa.Scalar) -> Any:
    found = scalar.as_py()
    if isinstance(found, datetime) and found.tzinfo is not None:
        return found.replace(tzinfo=None)
    return found


def _within(zone: Zone, p: Pattern) -> bool:
    values = _range(zone)
    nulls = not zone.nulls or subsumes(p, Constant(None))
    return nulls and (values is None or subsumes(p, values))


def _apart(zone: Zone, p: Pattern) -> bool:
    values = _range(zone)
    nulls = not zone.nulls or combine(p, Constant(None)) == NOTHING
    return nulls and (values is None or combine(p, values) == NOTHING)
