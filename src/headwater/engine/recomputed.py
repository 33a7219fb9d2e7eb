"""A view that is recomputed: its new answer in the place of the one before, as a change of the map that holds its rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.engine import view_rows
from headwater.engine.here.answers import merge
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.here.statements import Scalars
from headwater.engine.working import Working
from headwater.plan.program import WEIGHT, Program, Stored, View
from headwater.state.run import column


def put_instead(working: Working, view: View, answer: pa.Table, scalars: Scalars) -> None:
    """Merges the difference of an answer and of what the view has."""
    assert isinstance(view.rows, Stored), view.name
    m = view.rows.map
    schema = view_rows.row_schema(view)
    ones = pa.repeat(pa.scalar(1, pa.int64()), answer.num_rows)
    sides = [answer.append_column(WEIGHT, ones).cast(schema)]
    for t in view_rows.scan(Program(), view, working, scalars):
        weights = pa.array(-np.asarray(column(t, WEIGHT)))
        sides.append(t.set_column(len(schema) - 1, WEIGHT, weights))
    change = consolidated(pa.concat_tables(sides)).rename_columns([*m.columns, "r0"])
    merge(working, [], {m.name: [change]})
