"""Maps that are cheaper to fill anew than to maintain: the difference of what they should hold and what they hold.

    Δm = m(new) - m(old)        the entries, and the changes that are told, are those of the statements of the change

A change that takes most rows away, or replaces them, has more rows than it leaves. Where each goes through several statements, as
in a join of a source with itself, a map is filled from what is left, by
the statements that a new view is filled by, and its old entries are taken away from that; what both have cancels. It is one
commit either way. Only maps that no statement looks up, over sources whose rows are all kept, are chosen: all that they are
filled from is new by then, and nobody reads them in between. Sums of doubles that were rounded on the way are left alone, and so
is everything where sources are closed part by part, for a map may say more there than what is left of its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine import policy
from headwater.engine.here import threads
from headwater.engine.here.statements import changes_of, fields_of
from headwater.engine.slices import whole
from headwater.plan.program import WEIGHT, Lookup, Map, Statement
from headwater.state import exact
from headwater.state.entries import any_ring, total
from headwater.state.run import column, prepared

if TYPE_CHECKING:
    from headwater.engine.increment import Increment


def chosen(increment: Increment) -> frozenset[str]:
    """The maps that are cheaper to fill anew, by the rows that are known."""
    changes = increment.changes
    rows = sum(c.rows for c in changes.values())
    if not increment.may_refill or rows < policy.LEAST_REFILLED:
        return frozenset()
    program, sources = increment.program, _sources(increment)
    if not set(changes) <= set(sources):  # only then all that is known is told by the changes
        return frozenset()
    left = {n: _left(increment, n, m) for n, m in sources.items()}
    held = {n: _held(increment, n, m) for n, m in sources.items()}
    apart = {n for loop in program.loops.values() for n in loop.maps}
    # What bags pass on to a group is in no statement that fills it.
    apart |= {s.group.name for s in program.strata.values() if s.passed_on}
    found = set()
    for m in program.maps.values():
        kept = program.kept.get(m.name)
        if (
            kept is None
            or m.name in increment.looked_up
            or m.name in apart
            or m in sources.values()
            or not {*m.reads}.intersection(changes)
            or not {*m.reads} <= set(sources)
            or not kept.filling
            or any(t == pa.float64() for _, t in increment.working.spec(m.name).ring)
        ):
            continue
        statements = program.statements(m, set(changes))
        maintained = sum(changes[s.drives].rows * _steps(s) for s in statements)
        # Whichever relation is read, all rows of the others are found for it; and to tell those that are left, all that
        # there were are read, and what takes them away.
        filled = sum(sum(left[n] for n in m.reads) * _steps(s) for s in kept.filling)
        filled += policy.READING * sum(held[n] for n in m.reads) * len(kept.filling)
        entries = sum(r.rows for r in increment.working.refs.get(m.name, ()))
        if filled + entries < maintained and filled + entries <= policy.HELD:
            found.add(m.name)
    return frozenset(found)


def _sources(increment: Increment) -> dict[str, Map]:
    """The sources whose rows are kept, and the maps that have them."""
    return {
        m.reads[0]: m
        for m in increment.program.maps.values()
        if m.fields and len(m.reads) == 1 and m.reads[0] not in increment.program.strata
    }


def _held(increment: Increment, name: str, m: Map) -> int:
    """The entries that have to be read for the rows of a source after the change."""
    rows = sum(r.rows for r in increment.working.refs.get(m.name, ()))
    return rows + (increment.changes[name].rows if name in increment.changes else 0)


def _left(increment: Increment, name: str, m: Map) -> int:
    """The rows of a source after the change, about."""
    rows = sum(r.rows - 2 * r.spent for r in increment.working.refs.get(m.name, ()))
    if name in increment.changes:
        table = whole(increment.changes[name], increment.root, increment.working)
        rows += int(pc.sum(table.column(WEIGHT)).as_py() or 0)
    return max(rows, 0)


def _steps(s: Statement) -> int:
    """What a row of a statement costs, in rows: those that it looks up cost as much again."""
    return 1 + sum(isinstance(x, Lookup) for x in s.steps)


def difference(increment: Increment, m: Map) -> pa.Table:
    """What a map should hold without what it holds: its key and ring columns, sorted, none that is zero."""
    working, spec, sources = increment.working, increment.working.spec(m.name), _sources(increment)
    parts = []
    before, working.reads_new = working.reads_new, True
    try:
        for s in increment.program.kept[m.name].filling:
            kept = sources[s.drives]
            for table in working.now(kept.name).scan():
                arrays = [column(table, n) for n in (*kept.columns, "r0")]
                rows = pa.table(arrays, [*fields_of(kept), WEIGHT])
                scalars, cores = increment.session.evaluate, threads.cores()
                made = threads.emitted(s, rows, working, scalars, None, cores)
                parts.append(prepared(spec, changes_of(m, made)))
    finally:
        working.reads_new = before
    for table in working.before(m.name).scan():
        for name in spec.rings:
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, _negative(column(table, name)))
        parts.append(table.select(spec.schema.names))
    if not parts:
        return spec.schema.empty_table().drop_columns(["_h"])
    summed = total(spec, prepared(spec, pa.concat_tables(parts)))
    return summed.filter(pa.array(any_ring(spec, summed))).drop_columns(["_h"])


def _negative(values: pa.Array) -> pa.Array:
    if values.type == exact.STORED:
        return exact.stored(exact.scaled(exact.limbs(values), np.full(len(values), -1)))
    return pc.negate(values)
