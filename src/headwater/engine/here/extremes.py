"""The least or greatest element of a group after a change, from what it was before and from the change alone.

    min(b ⊎ Δ) = least(min b, min Δ⁺)     unless Δ takes away from min b itself

A group's bag is searched only where the change takes the very element away that was the answer; whether another is left
that equals it, or which comes next, the bag alone knows. What the answer was is kept with the answers of the stratum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.plan.program import ENDS, FromBag
from headwater.state.arrangement import INDEX, Arrangement, are_same
from headwater.state.columns import Column, arrow, column, joined, parts_of, taken, worked
from headwater.state.keys import Bools, Ints, absent_in, compared
from headwater.state.run import cast


class Before(NamedTuple):
    """What groups were answered from last, where in it each group is, -1 if it was not there, and whether it had rows all the same."""

    components: pa.Table
    places: Ints
    unanswered: Bools

    def take(self, groups: Ints) -> Before:
        """That of some of the groups."""
        return Before(self.components, self.places[groups], self.unanswered[groups])


class Extremes(NamedTuple):
    """The extreme of each group, and the groups whose bags have to be searched for it."""

    values: pa.Array
    unknown: Ints

    def with_searched(self, found: pa.Array) -> pa.Array:
        """The extremes, with those that were searched for."""
        searched = worked(cast(found, self.values.type))
        return arrow(_instead(worked(self.values), self.unknown, searched))


def by_change(
    new: Arrangement, b: FromBag, found: pa.Table, before: Before, was_empty: bool
) -> Extremes | None:
    """The extremes of groups by what was added to their bag, and `found` there for them; None if that is not in one order.

    Of a group that had rows and was not answered before nothing is known, unless the whole map was empty: a view that was
    edited may have taken over a bag and have new answers.
    """
    last, item = ENDS[b.function]
    if item or len(new.refs) > 1 or any(o.descending for o in new.spec.order):
        return None
    places = before.places
    old = _found_at(column(before.components, b.column), places)
    unknown = np.zeros(len(places), np.bool_) if was_empty else before.unanswered.copy()
    if not new.refs:
        return Extremes(arrow(old), np.flatnonzero(unknown))
    # A run has the entries of a group together, in order.
    at, counts = (np.asarray(column(found, n)) for n in (INDEX, new.spec.count))
    elements = worked(cast(column(found, b.items[0]), arrow(old).type))
    came = np.flatnonzero(counts > 0)
    nearest = np.full(len(places), -1, np.int64)
    in_turn = (
        came if last else came[::-1]
    )  # of several that are written to one place the last one stays
    nearest[at[in_turn]] = in_turn
    groups = np.flatnonzero(nearest >= 0)
    added, was = taken(elements, nearest[groups]), taken(old, groups)
    sign = compared(parts_of([added]), parts_of([was]))
    sign[absent_in(arrow(was))] = 1 if last else -1
    further = np.flatnonzero(sign > 0 if last else sign < 0)
    values = _instead(old, groups[further], taken(added, further))
    went = np.flatnonzero(counts < 0)
    gone = are_same(parts_of([taken(elements, went)]), parts_of([old]), at[went])
    unknown[at[went[gone]]] = True
    return Extremes(arrow(values), np.flatnonzero(unknown))


def _instead(values: Column, at: Ints, others: Column) -> Column:
    """Values with others at some places; any of them may be NULL."""
    places = np.arange(len(values), dtype=np.int64)
    places[at] = len(values) + np.arange(len(at), dtype=np.int64)
    return taken(joined([values, others]), places)


def _found_at(values: pa.Array, places: Ints) -> Column:
    """The values at some places, NULL where that is -1."""
    nowhere = places < 0
    if nowhere.any():
        return worked(values.take(pa.array(places, mask=nowhere)))
    return taken(worked(values), places)
