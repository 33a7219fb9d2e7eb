"""Equal rows once, with their weights added."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.here.statements import hashed
from headwater.plan.program import WEIGHT
from headwater.state.entries import total
from headwater.state.keys import all_parts, canonical, equal
from headwater.state.run import MapSpec, column, prepared


def consolidated(table: pa.Table) -> pa.Table:
    """Equal rows once, their weights added; rows of weight 0 are gone."""
    names = [n for n in table.column_names if n != WEIGHT]
    if table.num_rows <= 2:
        return _of_two(table) if table.num_rows else table
    places = tuple((f"k{i}", table.schema.field(n).type) for i, n in enumerate(names))
    spec = MapSpec("rows", places, ((WEIGHT, pa.int64()),), tuple(n for n, _ in places))
    renamed = table.select([*names, WEIGHT]).rename_columns([*(n for n, _ in places), WEIGHT])
    renamed = renamed.add_column(0, "_h", hashed(renamed, spec.lookup))
    added = total(spec, prepared(spec, renamed))
    added = added.filter(pc.not_equal(added.column(WEIGHT), 0))
    return added.select([*(n for n, _ in places), WEIGHT]).rename_columns([*names, WEIGHT])


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
