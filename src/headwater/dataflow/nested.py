"""Changes of nested rows for stages: whole rows, the old one out and the new one in, whatever changed inside of them.

An inner bag has no order, and a stage sees a list: it is put in one order, so that a row that goes is equal to the one that came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.types import RecordType
from headwater.dataflow.define import arrow_schema
from headwater.dataflow.rows import frozen, sort_key, values_of
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.nested.documents import keys_in, touched_documents
from headwater.engine.nested.rows import key_of, looked_up
from headwater.engine.view_rows import parts_added
from headwater.engine.working import Working
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import WEIGHT, View
from headwater.state.run import column


def rows_changed(view: View, working: Working) -> pa.Table:
    """The whole rows of a nested view that an increment has changed: with `_w`, old ones and new ones."""
    moved = parts_added(view, working)
    touched = [*keys_in(view, moved[0].rows), *touched_documents(view, working, moved)]
    return _instead(view, working, touched)


def source_rows_changed(
    source: View,
    key: Sequence[str],
    labels: Sequence[Sequence[str]],
    changes: Sequence[pa.Table],
    working: Working,
) -> pa.Table:
    """The same of a nested source: of its rows, and of arrays in them, of which the label begins with the key of the row."""
    touched: list[Any] = []
    for names, table in zip(labels, changes, strict=True):
        columns = (names or key)[: len(key)]
        touched += zip(*(values_of(column(table, n)) for n in columns), strict=True)
    return _instead(source, working, touched)


def _instead(view: View, working: Working, touched: Sequence[Any]) -> pa.Table:
    """The rows at some keys as they are, and, taken back, as they were."""
    columns, different = key_of(view), dict.fromkeys(map(frozen, touched))
    keys = [pa.array([k[i] for k in different], arrow_type(t)) for i, (_, t) in enumerate(columns)]
    new = in_one_order(view.type, looked_up(view, working, keys))
    old = in_one_order(view.type, looked_up(view, working.as_before(), keys))
    weights = pc.negate(old.column(WEIGHT))
    gone = old.set_column(old.schema.get_field_index(WEIGHT), WEIGHT, weights)
    return consolidated(pa.concat_tables([new, gone]))


def in_one_order(row: RecordType, table: pa.Table) -> pa.Table:
    """Rows with the elements of their inner bags sorted, at all depths."""
    schema = arrow_schema(row)
    arrays = []
    for f in schema:
        values = column(table, f.name)
        if pa.types.is_nested(f.type):
            values = pa.array([_sorted(v) for v in values.to_pylist()], f.type)
        arrays.append(values.cast(f.type))
    return pa.table([*arrays, column(table, WEIGHT)], [*schema.names, WEIGHT])


def _sorted(value: Any) -> Any:
    if isinstance(value, list):
        inner = [_sorted(v) for v in value]
        return sorted(inner, key=lambda v: sort_key([v]))
    if isinstance(value, dict):
        return {n: _sorted(v) for n, v in value.items()}
    return value
