"""What a punctuation closes: rows of views that become final, and go to their ledgers (`ledgers.py`).

A row is *final* when nothing will take it back (`plan/promises`). Once it is in the ledger of its view the entry that it
is read from is *told*:

    shown(v) = ledger(v) ⊎ rows of entries outside of told(v)

    ledger(v) - ledger(v-1) = rows of entries in told(v) and not in told(v-1)
                            ⊎ changes in v of entries in told(v-1), where they last but have not ended

Keys of the first part are found in the runs whose columns match, so that a punctuation reads one column of what is open,
and nothing of runs whose zones say that nothing there is newly final; their groups are then looked up. Entries themselves
stay until a compaction leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from headwater.calculus.patterns import Punctuation, Punctuations
from headwater.engine.dead import Promised
from headwater.engine.here.answers import components, current, different, rows, signed
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.here.statements import Scalars
from headwater.engine.membership import matching
from headwater.engine.view_rows import row_schema, view_rows
from headwater.engine.working import Working
from headwater.plan.program import Answered, Map, Program, Stored, Stratum, View
from headwater.plan.promises import Promises
from headwater.state.arrangement import Arrangement
from headwater.state.purging import zones_of
from headwater.state.run import LEAST, MOST

ONE = pa.table({"_h": pa.array([0], pa.int64())})
"""The key of a map without key columns."""
APART = 64
"""Members that what is newly final may have; where it would have more, what is final is asked for, and what was."""


@dataclass(frozen=True)
class Region:
    """What is final of a view, before an increment and after it, and whether rows may still come to what was final before."""

    before: Punctuations
    after: Punctuations
    grows: bool
    never: Punctuations = Punctuations.NONE
    """What is never shown, and so never told."""

    @cached_property
    def fresh(self) -> Promised:
        """What is final now, and was not before as far as that can be told apart: rows of `after` that `before` has may match."""
        if len(self.before) > APART:
            return Promised(self.after)
        rest = list[Punctuation]()
        for p in self.after:
            left = [p]
            for q in self.before:
                left = [x for part in left for x in part.without(q, self.after.types)]
            rest += left
            if len(rest) > APART:
                return Promised(self.after)
        return Promised(Punctuations(rest, self.after.types))


def region(
    was: Promises[Punctuations],
    now: Promises[Punctuations],
    view: View,
    before: Punctuations,
    never: Punctuations = Punctuations.NONE,
) -> Region:
    """What becomes final of a view; what was final stays so, whatever the promises say now.

    Rows of an increment come before its punctuations: whether some may have come is told by the promises that there were.
    """
    return Region(before, now.final(view) | before, not was.over(view).subsumes(before), never)


def told_now(
    program: Program, view: View, working: Working, moved: Region, scalars: Scalars
) -> pa.Table:
    """The rows that an increment tells, with weights that are above 0."""
    tables = [row_schema(view).empty_table()]
    match view.rows:
        case Answered(name):
            tables.extend(_of_groups(program.strata[name], working, moved, scalars))
        case Stored(map=m):
            tables.extend(_of_entries(view, m, working, moved))
    return consolidated(pa.concat_tables(tables))


def _of_groups(s: Stratum, working: Working, moved: Region, scalars: Scalars) -> Iterator[pa.Table]:
    if moved.after != moved.before:
        found = list(newly(working.now(s.group.name), moved))
        keys = different(s.group, found) if found else None
        if s.always and moved.after == Punctuations.EVERYTHING:  # also if there never was a row
            keys = ONE
        if keys is not None and keys.num_rows:
            yield rows(s, signed(s, [(current(working.now, s, keys), 1)]), scalars)
    if moved.grows and moved.before:
        new = [t for m in (s.group, *s.bags) for t in within(working.new(m.name), moved)]
        if new:
            yield rows(s, components(working, s, different(s.group, new)), scalars)


def _of_entries(view: View, m: Map, working: Working, moved: Region) -> Iterator[pa.Table]:
    if moved.after != moved.before:
        found = list(newly(working.now(m.name), moved))
        if found:
            keys = different(m, found)
            yield view_rows(view, m, working.now(m.name).lookup(keys, whole_key=True))
    if moved.grows and moved.before:
        for table in within(working.new(m.name), moved):
            yield view_rows(view, m, table)


def newly(at: Arrangement, moved: Region) -> Iterator[pa.Table]:
    """The entries of runs that match what is final now and was not before; a key may be in several, or be gone."""
    fresh = moved.fresh
    for table in _stored(at, fresh):
        mask = fresh.gone(table)
        if not mask.any():
            continue
        found = table.filter(pa.array(mask))
        known = matching(moved.before, found) | matching(moved.never, found)
        if not known.all():
            yield found.filter(pa.array(~known)) if known.any() else found


def within(at: Arrangement, moved: Region) -> Iterator[pa.Table]:
    """The entries of runs that match what was final before."""
    for table in _stored(at):
        mask = matching(moved.before, table) & ~matching(moved.never, table)
        if mask.any():
            yield table.filter(pa.array(mask))


def _stored(at: Arrangement, wanted: Promised | None = None) -> Iterator[pa.Table]:
    """The entries of the runs of a map, but for those in which nothing that is wanted can be."""
    for ref in at.refs:
        if wanted is not None and ref.zone and wanted.none(zones_of(at, ref)):
            continue
        for table in at.open(ref).tables(LEAST, MOST):
            if table.num_rows:
                yield table
