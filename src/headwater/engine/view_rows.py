"""Reading views: all rows at a version, and the rows that a version changed.

A view is read from the map that holds its rows, or answered from its stratum's maps; both a piece at a time. What a
version changed is in the runs that it added: new values of touched groups, whose old values are looked up one version
before, or entries that came and went. An increment that is asked for it gives the same before it is a version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headwater.calculus.patterns import Punctuations
from headwater.calculus.types import KeyType
from headwater.engine.here.answers import components, current, different, nothing, rows, signed
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.here.statements import Scalars
from headwater.engine.ledgers import outside, scan_ledger
from headwater.engine.nested.rows import Added, Moved, deep_changes, scan_nested
from headwater.engine.probing import entries_at
from headwater.engine.rings import shown
from headwater.engine.working import Working
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import WEIGHT, Answered, Map, Nested, Program, Stored, Stratum, View
from headwater.state.arrangement import WHOLE, Arrangement, Share
from headwater.state.run import LEAST, MOST, RunRef, column


def row_schema(view: View) -> pa.Schema:
    """The columns of a view, and weights."""
    return pa.schema([*((n, arrow_type(t)) for n, t in view.type.fields), (WEIGHT, pa.int64())])


def scan(
    program: Program,
    view: View,
    working: Working,
    scalars: Scalars,
    low: int = LEAST,
    high: int = MOST,
    share: Share = WHOLE,
) -> Iterator[pa.Table]:
    """All rows of a view with their weights: those in a range of hashes, and of these a share; its ledger with them."""
    hidden = working.hidden.get(view.name)
    match view.rows:
        case Nested():
            yield from scan_nested(view, working, low, high, share)
        case Stored(map=m):
            for table in working.now(m.name).scan(low, high, share=share):
                yield view_rows(view, m, outside(hidden, table))
        case Answered(name):
            for table in scan_components(program.strata[name], working, low, high, hidden):
                yield rows(program.strata[name], table, scalars)
    yield from scan_ledger(view, working, low, high, share)


def scan_components(
    stratum: Stratum,
    working: Working,
    low: int = LEAST,
    high: int = MOST,
    hidden: Punctuations | None = None,
) -> Iterator[pa.Table]:
    """What all groups are answered from, with weight 1; but for those that are hidden."""
    m = stratum.answers or stratum.group
    names = dict(zip(stratum.group.columns, m.columns, strict=False))
    empty = hidden != Punctuations.EVERYTHING
    for table in working.now(m.name).scan(low, high):
        empty = False
        table = outside(hidden, table, names)
        if stratum.ranked is not None:
            keys = table.select(["_h", *stratum.group.columns])
            yield signed(stratum, [(current(working.now, stratum, keys), 1)])
        else:
            yield signed(stratum, [(_components(stratum, table), 1)])
    if stratum.always and empty and low <= 0 < high:
        yield signed(stratum, [(nothing(stratum), 1)])


def _components(stratum: Stratum, table: pa.Table) -> pa.Table:
    if stratum.answers is not None:
        names = [n for n, _ in stratum.components]
        return table.select(stratum.answers.columns).rename_columns(names)
    group = stratum.group
    return pa.table({n: column(table, n) for n in group.columns} | shown(stratum, table))


def view_rows(view: View, m: Map, table: pa.Table) -> pa.Table:
    """Entries of the map that holds a view's rows."""
    schema = row_schema(view)
    arrays = [column(table, n).cast(schema.field(i).type) for i, n in enumerate(m.columns)]
    return pa.table([*arrays, column(table, "r0")], schema=schema)


def key_of(view: View) -> list[tuple[str, KeyType]]:
    """The columns by which rows that are stored are looked up."""
    (m,) = view.maps
    names = dict(zip(m.columns, view.type.fields, strict=True))
    return [names[c] for c in m.lookup]


def looked_up(view: View, working: Working, key: Sequence[pa.Array]) -> pa.Table:
    """Rows that are stored, at a key, with their weights."""
    (m,) = view.maps
    found = entries_at(working.now(m.name), pa.table(list(key), list(m.lookup)))
    return view_rows(view, m, outside(working.hidden.get(view.name), found))


def answered_at(
    stratum: Stratum, working: Working, key: Sequence[pa.Array], scalars: Scalars
) -> pa.Table:
    """The row of an answer at the key of its group, with its weight, at the cost of that group."""
    group = stratum.group
    types = working.spec(group.name).schema
    cells = [a.cast(types.field(n).type) for n, a in zip(group.columns, key, strict=True)]
    if stratum.answers is not None:
        told = stratum.answers
        found = entries_at(working.now(told.name), pa.table(cells, list(told.lookup)))
        sides = [(_components(stratum, found), column(found, "r0"))]
        return rows(stratum, signed(stratum, sides), scalars)
    keys = different(group, [pa.table(cells, group.columns)])
    return rows(stratum, signed(stratum, [(current(working.now, stratum, keys), 1)]), scalars)


def repeated(table: pa.Table) -> pa.Table:
    """Every row as often as its weight says."""
    counts = np.asarray(column(table, WEIGHT))
    plain = table.drop_columns([WEIGHT])
    if (counts == 1).all():
        return plain
    return plain.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def changed(
    program: Program,
    view: View,
    before: Working | None,
    after: Working,
    version: int,
    scalars: Scalars,
) -> pa.Table:
    """The rows that a version changed, with their weights; `before` is None where the view was new."""

    never = after.never.get(view.name)

    def added(name: str, names: Mapping[str, str] | None = None) -> Iterator[pa.Table]:
        """What is new in a map; all of it for a new view, which may share the map with older ones."""
        new = after.now(name).scan() if before is None else _added(after, name, version)
        return new if never is None else (outside(never, t, names) for t in new)

    if isinstance(view.rows, Stored):
        return _stored_rows(view, view.rows.map, added(view.rows.map.name))
    assert isinstance(view.rows, Answered), view.name
    stratum = program.strata[view.rows.stratum]
    if stratum.answers is not None:
        names = dict(zip(stratum.group.columns, stratum.answers.columns, strict=False))
        found = [
            signed(stratum, [(_components(stratum, t), column(t, "r0"))])
            for t in added(stratum.answers.name, names)
        ]
        if before is None and stratum.always and not found:
            found = [signed(stratum, [(nothing(stratum), 1)])]
    else:
        if before is None:
            found = list(scan_components(stratum, after, hidden=never))
        else:
            both = Working(
                after.maps, before.refs, before.runs, added=_newer(after, stratum, version)
            )
            touched = (outside(never, k) for k in _touched(after, stratum, version))
            found = [components(both, stratum, k) for k in touched if k.num_rows]
    table = pa.concat_tables(found) if found else signed(stratum, [])
    return rows(stratum, table, scalars)


def changed_parts(view: View, before: Working | None, after: Working, version: int) -> list[Moved]:
    """The rows of each part of a nested view that a version changed, with their weights."""

    def added(name: str) -> Iterator[pa.Table]:
        return after.now(name).scan() if before is None else _added(after, name, version)

    return deep_changes(view, before, after, _added_to_parts(view, after, added))


def rows_added(view: View, working: Working) -> pa.Table:
    """The rows that an increment has changed of a view whose rows are stored, with their weights."""
    assert isinstance(view.rows, Stored), view.name
    m = view.rows.map
    return _stored_rows(view, m, _entries(working.new(m.name)))


def parts_added(view: View, working: Working) -> list[Moved]:
    """The rows of each part of a nested view that an increment has changed, with their weights."""
    added = _added_to_parts(view, working, lambda name: _entries(working.new(name)))
    return deep_changes(view, working.as_before(), working, added)


def _stored_rows(view: View, m: Map, added: Iterable[pa.Table]) -> pa.Table:
    """What was added to the map of a view's rows, as rows that are added up."""
    tables = [view_rows(view, m, t) for t in added]
    return consolidated(pa.concat_tables([row_schema(view).empty_table(), *tables]))


def _added_to_parts(
    view: View, working: Working, added: Callable[[str], Iterator[pa.Table]]
) -> list[Added]:
    """What was added to the maps of each part; `added` says it of a map."""

    def of(m: Map) -> pa.Table:
        return pa.concat_tables([working.spec(m.name).schema.empty_table(), *added(m.name)])

    return [Added(of(p.map), of(p.owners) if p.owners is not None else None) for p in view.parts]


def _touched(after: Working, stratum: Stratum, version: int) -> list[pa.Table]:
    """The groups that a version touched, by their value or, where that stayed the same, by their rows."""
    names = ["_h", *stratum.group.columns]
    keys = [t.select(names) for t in _added(after, stratum.group.name, version)]
    if stratum.ranked is None:
        return keys
    bag = stratum.ranked.map.name
    keys += [t.select(names) for t in _added(after, bag, version)]
    return [different(stratum.group, keys)] if keys else []


def _newer(after: Working, stratum: Stratum, version: int) -> dict[str, list[RunRef]]:
    """The runs that a version added to a stratum's maps; a rewritten run that came with it repeats older ones."""
    names = [m.name for m in stratum.maps]
    return {n: [r for r in after.refs.get(n, ()) if r.version == version] for n in names}


def _added(working: Working, name: str, version: int) -> Iterator[pa.Table]:
    """The entries that a version added to a map, zeros included."""
    at = working.now(name)
    return _entries(Arrangement(at.spec, [r for r in at.refs if r.version == version], at.runs))


def _entries(at: Arrangement) -> Iterator[pa.Table]:
    """What some runs say together, zeros included, a piece at a time."""
    for low, high in at.pieces():
        table = at.collected(at.refs, low, high)
        if table.num_rows:
            yield table
