"""A large relation narrowed to the rows that pass the filters of statements, before it is decided where these are carried.

    s(r) = s(σ r)        σ: the filters of a statement before it looks anything up

A map is filled from a relation that is read whole, and where a filter was widened by a little, few of its rows pass. The relation is
read a stretch at a time, in all threads, and only rows that pass come together: where they are few they are carried in this
process, however many were read. Where many pass, or a filter needs Spark, the relation stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np
import pyarrow as pa

from headwater.engine.change import Change
from headwater.engine.here import threads
from headwater.engine.here.scalars.base import ArrowCannot
from headwater.engine.here.statements import one_in_arrow, start
from headwater.engine.slices import of_range, ranges
from headwater.engine.working import Working
from headwater.plan.program import Bind, Filter, Statement

SHARE = 0.25
"""The part of a relation that passes at most: where more does, reading it twice costs more than it saves."""
AT = "_at"
"""The column that says which row of a stretch a row is."""


def narrowed(
    change: Change, statements: Sequence[Statement], working: Working, most: int, zone: str
) -> Change:
    """The rows of a change that pass the first filters of some statement, if they are few, and not more than `most`."""
    most = min(most, round(SHARE * change.rows))
    if not (change.ranges and most and all(map(_asks, statements))):
        return change
    if change.rows < 2 * threads.LEAST_ROWS:  # the statements themselves are as fast
        return change
    stretches = [
        (name, *part)
        for name, low, high in change.ranges
        for part in ranges(working.before(name), threads.AT_ONCE, low, high)
    ]

    def passing(stretch: tuple[str, int, int, tuple[int, int]]) -> list[pa.Table]:
        return [_passing(t, statements, zone) for t in of_range(working, *stretch)]

    found, rows, cores = [*change.tables], sum(t.num_rows for t in change.tables), threads.cores()
    try:
        for i in range(0, len(stretches), cores):
            for tables in threads.each(passing, stretches[i : i + cores]):
                found += tables
                rows += sum(t.num_rows for t in tables)
            # Hashes say nothing of the rows, so that the first stretches are like all others.
            if rows * len(stretches) > most * min(i + cores, len(stretches)):
                return change
    except ArrowCannot:
        return change
    return Change(tuple(t for t in found if t.num_rows), change.files, (), rows)


def _first(statement: Statement) -> list[Bind | Filter]:
    """The binds and filters of a statement before it looks anything up."""
    found = takewhile(lambda s: isinstance(s, Bind | Filter), statement.steps)
    return [s for s in found if isinstance(s, Bind | Filter)]


def _asks(statement: Statement) -> bool:
    """Whether a statement filters rows at once, and without Spark."""
    first = _first(statement)
    scalars = [s.scalar if isinstance(s, Bind) else s.condition for s in first]
    return any(isinstance(s, Filter) for s in first) and all(s.tree is not None for s in scalars)


def _passing(table: pa.Table, statements: Sequence[Statement], zone: str) -> pa.Table:
    """The rows that pass the first filters of some statement."""
    passes = np.zeros(table.num_rows, np.bool_)
    at = pa.array(np.arange(table.num_rows, dtype=np.int64))
    for statement in statements:
        rows = start(statement, table).append_column(AT, at)
        for s in _first(statement):
            rows = one_in_arrow(s, rows, zone)
        passes[rows.column(AT).to_numpy()] = True
    return table.filter(pa.array(passes))
