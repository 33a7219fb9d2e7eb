"""Equal rows once, with their weights added."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from headwater.plan.program import WEIGHT
from headwater.state.entries import total
from headwater.state.hashing import hash_keys
from headwater.state.keys import all_parts, canonical, equal, stored
from headwater.state.run import MapSpec, cast, column


def consolidated(table: pa.Table) -> pa.Table:
    """Equal rows once, their weights added; rows of weight 0 are gone."""
    names = [n for n in table.column_names if n != WEIGHT]
    if table.num_rows <= 2:
        return _of_two(table) if table.num_rows else table
    cells = [column(table, n) for n in names]
    spec = _as_keys(tuple(c.type for c in cells))
    h = hash_keys(cells, table.num_rows)
    kept = [cast(canonical(c), t) for c, (_, t) in zip(cells, spec.key, strict=True)]
    arrays = [pa.array(h), *kept, cast(column(table, WEIGHT), pa.int64())]
    added = total(spec, pa.Table.from_arrays(arrays, schema=spec.schema))
    weights = np.asarray(column(added, WEIGHT))
    if not weights.all():
        added = added.filter(pa.array(weights != 0))
    return pa.Table.from_arrays(added.columns[1:], names=[*names, WEIGHT])


@lru_cache(maxsize=1024)
def _as_keys(types: tuple[pa.DataType, ...]) -> MapSpec:
    """Rows with columns of some types as entries of a map: all of a row is its key, in the form in which it is compared."""
    places = tuple((f"k{i}", stored(t)) for i, t in enumerate(types))
    return MapSpec("rows", places, ((WEIGHT, pa.int64()),), tuple(n for n, _ in places))


def different_rows(table: pa.Table) -> pa.Table:
    """Every row once."""
    ones = pa.array(np.ones(table.num_rows, np.int64))
    return consolidated(table.append_column(WEIGHT, ones)).select(table.column_names)


def _of_two(table: pa.Table) -> pa.Table:
    """The same for one row or two, as an answer without groups has them: there is nothing to sort."""
    names = [n for n in table.column_names if n != WEIGHT]
    cells = {n: canonical(column(table, n)) for n in names}
    weights = np.asarray(column(table, WEIGHT))
    if len(weights) == 2:
        parts = all_parts(list(cells.values()))
        if not len(parts) or equal([p[:1] for p in parts], [p[1:] for p in parts]).all():
            cells = {n: c[:1] for n, c in cells.items()}
            weights = weights.sum(keepdims=True)
    made = pa.table({**cells, WEIGHT: pa.array(weights)})
    return made if weights.all() else made.filter(pa.array(weights != 0))
