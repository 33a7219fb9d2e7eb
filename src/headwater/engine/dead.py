"""What is dead in a map, as the store asks for it: a set of punctuations over its key columns, and zones of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
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
from headwater.plan.bounds import Front
from headwater.state.keys import Bools, all_parts, equal
from headwater.state.purging import Dead
from headwater.state.run import MapSpec, column
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


class Fronted(Promised):
    """The same for a bag that is read from its ends: what stands behind enough entries that last is dominated."""

    def __init__(
        self, promise: Punctuations, spec: MapSpec, fronts: Sequence[Front], lasting: Punctuations
    ):
        super().__init__(promise)
        self.spec, self.fronts, self.lasting = spec, fronts, lasting

    def dominated(self, entries: pa.Table) -> Bools:
        counts = np.maximum(np.asarray(column(entries, self.spec.count)), 0)
        lasts = matching(self.lasting, entries)
        counts[~lasts] = 0
        keys = all_parts([column(entries, n) for n in self.spec.lookup])
        starts = np.ones(len(counts), np.bool_)
        if keys:
            starts[1:] = ~equal([k[1:] for k in keys], [k[:-1] for k in keys])
        else:
            starts[1:] = False
        group = np.cumsum(starts) - 1
        so_far = np.cumsum(counts)
        first = np.flatnonzero(starts)
        before = so_far - counts - (so_far - counts)[first][group]
        total = np.add.reduceat(counts, first)[group]
        out = np.ones(len(counts), np.bool_)
        for front in self.fronts:
            ahead = total - before - counts if front.last else before
            out &= ahead >= front.rows
            if front.over:
                out &= lasts
        return out


def _range(zone: Zone) -> Range | None:
    """The values of a zone."""
    low, high = zone.least, zone.greatest
    return None if low is None or high is None else Range(value(low), value(high), True, True)


def value(scalar: pa.Scalar) -> Any:
    """A value as the calculus has it; OverflowError for a time that Python has not."""
    try:
        found = scalar.as_py()
    except ValueError as e:
        raise OverflowError(str(e)) from e
    if isinstance(found, datetime) and found.tzinfo is not None:
        return found.replace(tzinfo=None)
    return found


def _within(zone: Zone, p: Pattern) -> bool:
    try:
        values = _range(zone)
    except OverflowError:
        return False
    nulls = not zone.nulls or subsumes(p, Constant(None))
    return nulls and (values is None or subsumes(p, values))


def _apart(zone: Zone, p: Pattern) -> bool:
    try:
        values = _range(zone)
    except OverflowError:
        return False
    nulls = not zone.nulls or combine(p, Constant(None)) == NOTHING
    return nulls and (values is None or combine(p, values) == NOTHING)
