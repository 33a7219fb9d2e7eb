"""Sums that are carried: the ring values of groups, to which entries are added as rounds go by.

A sum that is not rounded stays in limbs while it is added to: packing and unpacking it for every addition would be most
of the work. 64-bit numbers are numpy's, and all others Arrow's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.engine.rings import shown
from headwater.plan.program import Stratum
from headwater.state import exact
from headwater.state.adding import nothing, plus, replaced, sums, zeros
from headwater.state.columns import arrow, taken, worked
from headwater.state.exact import Limbs
from headwater.state.keys import Bools, Ints
from headwater.state.run import MapSpec, column


class Addend(NamedTuple):
    """Entries added up by the group that they are of: places of groups, ascending, and the ring columns of their sums."""

    places: Ints
    columns: dict[str, Any]

    @staticmethod
    def of(spec: MapSpec, entries: pa.Table, places: Ints) -> Addend:
        """Entries, of which each is of the group at its place; of none, if that is -1."""
        order = np.argsort(places, kind="stable")
        order = order[np.searchsorted(places[order], 0) :]
        places = places[order]
        starts = np.flatnonzero(np.append(places[:1] >= 0, places[1:] != places[:-1]))
        columns: dict[str, Any] = {}
        for n, t in spec.ring if len(places) else ():
            if t == exact.STORED:
                columns[n] = exact.added(exact.limbs(column(entries, n)).take(order), starts)
            else:
                columns[n] = sums(taken(worked(column(entries, n)), order), starts)
        return Addend(places[starts], columns)


class Carried:
    """The ring columns of some groups, a value for each. They are never changed: what is added makes new ones."""

    def __init__(self, columns: dict[str, Any]):
        self.columns = columns

    @staticmethod
    def zero(spec: MapSpec, groups: int) -> Carried:
        """Groups to which nothing was added yet."""
        return Carried(
            {
                n: exact.no_limbs(groups) if t == exact.STORED else worked(zeros(t, groups))
                for n, t in spec.ring
            }
        )

    def at(self, places: Ints) -> Carried:
        """The values at some places, and zero where that is -1."""
        none = np.flatnonzero(places < 0)
        out: dict[str, Any] = {}
        for n, c in self.columns.items():
            if isinstance(c, Limbs):
                out[n] = some = c.take(places)
                some.words[:, none] = 0
            else:
                some = taken(c, np.maximum(places, 0))
                out[n] = replaced(some, none, taken(nothing(some), none))
        return Carried(out)

    def plus(self, *added: Addend) -> Carried:
        """The values with entries added, each to the one at its place."""
        out = self.columns
        for a in added:
            if len(a.places):
                out = {n: _plus_at(c, a.places, a.columns[n]) for n, c in out.items()}
        return Carried(out)

    def have_rows(self, count: str) -> Bools:
        """Whether groups have rows."""
        return np.asarray(np.asarray(self.columns[count]) != 0)

    def shown(self, stratum: Stratum) -> pa.Table:
        """What a stratum is answered from, beside the keys of its groups."""
        exactly = {n: c for n, c in self.columns.items() if isinstance(c, Limbs)}
        plain = {n: arrow(c) for n, c in self.columns.items() if n not in exactly}
        return pa.table(shown(stratum, pa.table(plain), exactly))


def _plus_at(values: Any, places: Ints, added: Any) -> Any:
    """A column with others added at some places."""
    if isinstance(values, Limbs):
        return exact.plus_at(values, places, added)
    return replaced(values, places, plus(taken(values, places), added))
