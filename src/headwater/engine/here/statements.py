"""Statements over Arrow tables: the rows of a change through binds, filters and look-ups to (key, ring).

A pure function of tables and arrangements. Scalars are evaluated by whoever is given as `scalars`: Arrow in a
task, Arrow or Spark in the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.types import DyadicType, RingType
from headwater.engine import policy
from headwater.engine.here import arrow
from headwater.engine.probing import probe
from headwater.engine.rings import ODD, is_shared, product, products, ring_columns, spec_of
from headwater.engine.rings import shared as kept_once
from headwater.plan.program import WEIGHT, AddUp, Bind, Expand, Filter, Lookup, Map, Statement, Step
from headwater.state.adding import sums, zeros
from headwater.state.arrangement import INDEX, WHOLE, Arrangement, Share, stretch
from headwater.state.columns import arrow as arrow_column
from headwater.state.columns import taken, worked
from headwater.state.entries import any_ring
from headwater.state.hashing import hash_keys
from headwater.state.keys import canonical, grouped
from headwater.state.run import MapSpec, cast, column, hashes, sort_columns

Scalars = Callable[[Sequence[Bind | Filter], pa.Table], pa.Table]
"""Who evaluates binds and filters: a table in, the table with new columns and fewer rows out."""


class Maps(Protocol):
    """Maps to look up in, such as those of `engine.working`."""

    def find(self, lookup: Lookup) -> Arrangement:
        """The arrangement that a look-up reads."""


def in_arrow(steps: Sequence[Bind | Filter], table: pa.Table) -> pa.Table:
    """Binds and filters that Arrow can evaluate."""
    for s in steps:
        table = one_in_arrow(s, table)
    return table


def one_in_arrow(s: Bind | Filter, table: pa.Table, zone: str = "UTC") -> pa.Table:
    """A bind or a filter that Arrow can evaluate, in a time zone."""
    scalar = s.scalar if isinstance(s, Bind) else s.condition
    known = arrow.is_column(scalar.tree)
    values = column(table, known) if known else arrow.evaluate(scalar.tree, table, zone)
    return table.append_column(s.name, values) if isinstance(s, Bind) else kept(table, values)


FEW = 16
"""Rows that are not added up on the way: sorting them takes longer than looking them up."""
SAMPLE, SEVERAL = 200, 2
"""Of about so many rows it is counted how many entries they find; from so many a row on rows are added up before."""
Sum = tuple[str, RingType, tuple[str, ...]]
"""A ring value: its name, its ring, and the columns that it is the product of."""
Hop = Lookup | Expand | AddUp
"""Steps that change how many rows there are by other means than a condition."""


def segments(steps: Iterable[Step]) -> list[list[Bind | Filter] | Hop]:
    """Steps with the binds and filters between two hops together."""
    out: list[list[Bind | Filter] | Hop] = []
    for s in steps:
        if isinstance(s, Hop):
            out.append(s)
        elif out and isinstance(out[-1], list):
            out[-1].append(s)
        else:
            out.append([s])
    return out


def fields_of(m: Map) -> tuple[str, ...]:
    """The names of the columns of the relation whose rows a map holds."""
    assert m.fields, m.name
    return m.fields


def start(statement: Statement, change: pa.Table) -> pa.Table:
    """The columns of a change that a statement reads, under its names."""
    named = {c: change.column(n) for n, c in statement.columns}
    return pa.table({**named, WEIGHT: change.column(WEIGHT)})


def run(
    statement: Statement,
    change: pa.Table,
    maps: Maps,
    scalars: Scalars = in_arrow,
    share: Share = WHOLE,
    most: int | None = None,
) -> pa.Table:
    """The change of the statement's map: its key columns and ring columns, neither sorted nor added up."""
    rows = step(statement.steps, start(statement, change), maps, scalars, share, most)
    return emit(statement, rows)


def step(
    steps: Iterable[Step],
    table: pa.Table,
    maps: Maps,
    scalars: Scalars,
    share: Share = WHOLE,
    most: int | None = None,
) -> pa.Table:
    """The rows after some steps; a share of them, if all who share are given the same rows.

    They are divided where they are enough: in the look-up that finds them, so that one row with many entries can be
    shared; where nothing is looked up, at once. `TooMany` if a look-up finds more than `most`.

    What one look-up finds in parts that cancel, every later one would find that many times over, so only the last
    is left to whoever sums: k look-ups of entries that changed make one row, and not three to the power of k.
    """
    groups = segments(steps)
    if not any(isinstance(s, Lookup | Expand) for s in groups):
        table, share = shared(table, share), WHOLE
    last = max((i for i, s in enumerate(groups) if isinstance(s, Lookup)), default=0)
    for i, s in enumerate(groups):
        if isinstance(s, Lookup):
            into = maps.find(s)
            table, keys = probes(s, table, into)
            mine = WHOLE
            if share != WHOLE and into.count(hashes(keys)).sum() >= policy.ENOUGH:
                mine, share = share, WHOLE
            ends = i == len(groups) - 1
            table = look_up(s, table, keys, into, mine, most, in_parts=i == last, ends=ends)
        else:
            if isinstance(s, AddUp):
                table = _before(s, table, groups[i + 1], maps)
            else:
                table = expanded(s, table) if isinstance(s, Expand) else scalars(s, table)
            if isinstance(s, Expand) and table.num_rows >= policy.ENOUGH:
                table, share = shared(table, share), WHOLE
    return shared(table, share)


def shared(table: pa.Table, share: Share) -> pa.Table:
    """A share of some rows."""
    return table if share == WHOLE else table[stretch(table.num_rows, share)]


def expanded(s: Expand, table: pa.Table) -> pa.Table:
    """Every row once for each element of its array; a row whose array is empty or NULL is gone."""
    arrays = column(table, s.array)
    elements = arrays.flatten()
    lengths = np.asarray(pc.fill_null(pc.list_value_length(arrays), 0)).astype(np.int64)
    table = table.take(pa.array(np.repeat(np.arange(len(lengths)), lengths)))
    for field, given in s.brings:
        values = elements if not field else pc.struct_field(elements, field)
        table = table.append_column(given, values)
    return table


def _before(s: AddUp, table: pa.Table, after: list[Bind | Filter] | Hop, maps: Maps) -> pa.Table:
    """Rows added up before a look-up, where by some of them they find several entries each.

    A number that does not fit may be of rows that find nothing, which recomputing would not look at: they are left out then.
    """
    assert isinstance(after, Lookup)
    into = maps.find(after)
    try:
        return added_up(s, table, table.num_rows > FEW and _finds_several(after, table, into))
    except OverflowError:
        found, keys = probes(after, table, into)
        there = into.count(hashes(keys)) > 0
        return added_up(s, found.filter(pa.array(there)), False)


def _finds_several(after: Lookup, table: pa.Table, into: Arrangement) -> bool:
    """Whether rows find several entries each, by a sample of them."""
    some, keys = probes(after, table[:: max(table.num_rows // SAMPLE, 1)], into)
    return bool(into.count(hashes(keys)).sum() >= SEVERAL * some.num_rows)


def added_up(s: AddUp, table: pa.Table, summing: bool) -> pa.Table:
    """Rows that are alike as one, with their sums, and where all of these are zero none; or, without summing, each by itself."""
    keys = {f"k{i}": column(table, n) for i, n in enumerate(s.by)}
    if summing:
        rings = tuple(c for name, t, _ in s.sums for c in ring_columns(name, t))
        spec = MapSpec("rows", tuple((n, c.type) for n, c in keys.items()), rings, tuple(keys))
        made = summed(spec, keys, table, s.sums)
        made = made.filter(pa.array(any_ring(spec, made)))
    else:
        arrays = dict(keys)
        for name, t, factors in s.sums:
            arrays |= product(t, name, table, factors)
        made = pa.table(arrays)
    made = made.rename_columns([*s.by, *made.column_names[len(keys) :]])
    return made.append_column(WEIGHT, pa.array(np.ones(made.num_rows, np.int64)))


def summed(
    spec: MapSpec, keys: Mapping[str, pa.Array], table: pa.Table, sums_of: Iterable[Sum]
) -> pa.Table:
    """Rows that have the same key as one, with sums of products of columns of a table; exact ones are made once, when they are known."""
    cells = {n: cast(canonical(keys[n]), t) for n, t in spec.key}
    h = hash_keys([cells[n] for n in spec.lookup], table.num_rows)
    by, down = sort_columns(spec, pa.table(cells))
    order, starts = grouped(h, by, down)
    firsts = pa.array(order[starts])
    arrays = {n: c.take(firsts) for n, c in cells.items()}
    for name, t, factors in sums_of:
        if isinstance(t, DyadicType):
            exactly, plain = products(name, table, factors)
            arrays[name] = exactly.sums(order, starts)
        else:
            plain = product(t, name, table, factors)
        for n, c in plain.items():
            arrays[n] = arrow_column(sums(taken(worked(c), order), starts))
    return pa.table(arrays)


def kept(table: pa.Table, condition: pa.Array) -> pa.Table:
    """The rows for which a condition is true."""
    return table if condition.true_count == len(condition) else table.filter(condition)


def probes(s: Lookup, table: pa.Table, into: Arrangement) -> tuple[pa.Table, pa.Table]:
    """The rows that can match something, and their keys; a NULL matches nothing unless NULLs are equal."""
    for name, matches_null in zip(s.keys, s.matches_null, strict=True):
        keys = column(table, name)
        if not matches_null and keys.null_count:
            table = table.filter(keys.is_valid())
    return table, probe(into, table, s.keys)


def look_up(
    s: Lookup,
    table: pa.Table,
    keys: pa.Table,
    into: Arrangement,
    share: Share = WHOLE,
    most: int | None = None,
    in_parts: bool = True,
    ends: bool = False,
) -> pa.Table:
    """Every row with each entry at its key, which may come in parts.

    A share of the entries always does; and an entry of a change is there even if it counts no rows. Where the statement
    `ends` with it, exact sums that find several entries are shared by the rows.
    """
    linear = in_parts or s.version == "change" or share != WHOLE
    found = into.lookup(keys, linear=linear, share=share, most=most)
    at = np.asarray(column(found, INDEX))
    if len(at) != table.num_rows or (at != np.arange(len(at))).any():
        several = ends and len(at) > 2 * table.num_rows
        names = [n for n in table.column_names if f"{n}.nan" in table.column_names]
        totals = {n: column(table, n) for n in names if several}
        table = table.drop_columns(list(totals)).take(pa.array(at))
        for name, values in totals.items():
            table = table.append_column(name, kept_once(values, at))
    for name, given in s.brings:
        table = table.append_column(given, column(found, name))
    for name, given in s.weights:
        table = table.append_column(given, column(found, name))
        for odd in ODD:
            if f"{name}.{odd}" in found.column_names:
                table = table.append_column(f"{given}.{odd}", column(found, f"{name}.{odd}"))
    return table


def emit(statement: Statement, table: pa.Table) -> pa.Table:
    """The rows as changes of the target: key columns, and ring columns as products."""
    target = statement.target
    spec = spec_of(target)
    arrays = {
        name: cast(column(table, given), spec.types[name])
        for (name, _), given in zip(target.key, statement.key, strict=True)
    }
    if statement.sign < 0:
        negated = pc.negate(column(table, WEIGHT))
        table = table.set_column(table.schema.get_field_index(WEIGHT), WEIGHT, negated)
    rings = list(zip(target.ring, statement.ring, strict=False))
    if any(is_shared(table, f) for factors in statement.ring for f in factors):
        # Each of them was found by several rows, whose sums are fewer.
        sums_of = [(name, t, factors) for (name, t), factors in rings]
        made = summed(spec, arrays, table, sums_of)
        arrays = {n: column(made, n) for n in made.column_names}
    else:
        for (name, t), factors in rings:
            arrays |= product(t, name, table, factors)
    if not arrays:
        return table.select([])
    rows = len(next(iter(arrays.values())))
    for name, t in target.ring[len(statement.ring) :]:
        for n, stored in ring_columns(name, t):
            arrays[n] = zeros(stored, rows)
    return pa.table(arrays)


def hashed(table: pa.Table, names: Iterable[str]) -> pa.Array:
    """The hash of some columns."""
    return pa.array(hash_keys([column(table, n) for n in names], table.num_rows))


def changes_of(target: Map, table: pa.Table) -> pa.Table:
    """Emitted rows with the hash of their look-up key, as a merge takes them."""
    return table.add_column(0, "_h", hashed(table, target.lookup))
