"""The rows of each file of a directory, kept so that a file which changes takes those of before back.

They are a relation beside the source, `<source>_files`, with a row a file that has its rows as an array: looking one up
costs what the file has, whatever else is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.api.catalog import SourceDef
from headwater.engine.change import Change, schema_of
from headwater.errors import BadChange
from headwater.feeds.feed import NAME, Batch
from headwater.interop.arrow_types import arrow_type
from headwater.io.events import Delta
from headwater.io.owners import apart
from headwater.io.rows import stage
from headwater.plan.program import WEIGHT
from headwater.state.run import column

if TYPE_CHECKING:
    from headwater.api.taking import Taking


def replaced_rows(made: SourceDef, found: Any) -> pa.Table:
    """The rows that a file had, as it was looked up."""
    schema = schema_of(made.row)
    rows = [] if found is None else found["rows"]
    schema = schema.remove(schema.get_field_index(WEIGHT))
    return pa.Table.from_pylist(rows or [], schema=schema)


def file_change(aside: SourceDef, x: Batch, before: pa.Table, db: Taking) -> dict[str, Change]:
    """What the rows of a file change in the relation that has them."""
    rows = _repeated(x)
    deletes = _one(aside, x.name, before) if db.lookup(aside.name, (x.name,), None) else None
    given = Delta(_one(aside, x.name, rows), deletes)
    row = aside.parts[0].given if aside.nested else aside.row
    staged = stage(aside.name, row, given, db.path, db.session.counts, db.session.zone)
    return apart(aside.parts, 0, staged.rows, db.path)


def _repeated(x: Batch) -> pa.Table:
    """The rows of a file, each as often as its weight says."""
    if WEIGHT not in x.rows.column_names:
        raise BadChange(
            "it says what its rows do, and replaces those of before",
            hint="leave _change_type out: a file that is replaced takes its own rows back",
        )
    weights = column(x.rows, WEIGHT)
    if len(weights) and pc.min(weights).as_py() < 0:
        raise BadChange(
            "it takes rows back, and replaces those of before",
            hint="leave negative weights out: a file that is replaced takes its own rows back",
        )
    places = np.repeat(np.arange(len(weights)), np.asarray(weights))
    return x.rows.drop_columns([WEIGHT]).take(pa.array(places))


def _one(aside: SourceDef, name: str, rows: pa.Table) -> pa.Table:
    """A file and its rows, as one row."""
    types = dict(aside.row.fields)
    wanted = arrow_type(types["rows"])
    fields = [column(rows, n) for n in rows.column_names]
    structs = pa.StructArray.from_arrays(fields, rows.column_names)
    cells = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), structs)
    return pa.table({NAME: [name], "rows": cells.cast(wanted)})
