"""Pending rows: what came of a header and is not ready, in the order of its column.

They are a change map without a look-up key, so that a deletion cancels a row that waits, and each run is in order: the
stretch that became ready is read by bisection. Rows that are processed are taken out by their negative; what lies before
the first row that still waits is not read again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.types import RecordType
from headwater.engine.change import schema_of
from headwater.engine.working import Working
from headwater.errors import StreamError
from headwater.folds.scale import Scale
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import Arrangement
from headwater.state.entries import consolidate
from headwater.state.run import MapSpec, Order, column

COUNT = "r0"


def pending_spec(stream: str, header: str, row: RecordType, order: str | None) -> MapSpec:
    """The map of the rows of a header that wait; without an order column they wait to be taken as they come."""
    key = tuple((f"k{i}", arrow_type(t)) for i, (_, t) in enumerate(row.fields))
    names = [n for n, _ in row.fields]
    by = () if order is None else (Order(f"k{names.index(order)}"),)
    return MapSpec(f"p:{stream}.{header}", key, ((COUNT, pa.int64()),), (), "change", by)


def check_placed(stream: str, header: str, rows: pa.Table | None, order: str, scale: Scale) -> None:
    """Raises where a row has a value in the order column that stands nowhere: it would wait for ever."""
    if rows is None or not rows.num_rows:
        return
    astray = scale.without_place(column(rows, order))
    if not pc.any(astray).as_py():
        return
    row = rows.filter(astray).slice(0, 1).drop_columns([WEIGHT]).to_pylist()[0]
    value = "NULL" if row[order] is None else row[order]
    raise StreamError(
        f"a row of `{header}` has {value} in `{order}`, by which the stream `{stream}` is ordered: {row}",
        hint="nothing was applied; give it a value, or declare the column NOT NULL"
        if row[order] is None
        else "nothing was applied; it stands at no place in the order: give it another value",
    )


def all_waiting(arrangement: Arrangement, row: RecordType) -> pa.Table:
    """All rows that wait, with weights."""
    tables = [_rows(t, row) for t in arrangement.scan()]
    return pa.concat_tables([schema_of(row).empty_table(), *tables])


def waiting(
    arrangement: Arrangement, row: RecordType, low: Any, high: Any, scale: Scale
) -> pa.Table:
    """The rows with weights whose order is at least `low` and at most `high`, as numbers; None is no end."""
    spec = arrangement.spec
    at = spec.order[0].column
    tables = []
    for ref in sorted(arrangement.refs, key=lambda r: (-r.version, -r.round)):
        for segment in arrangement.open(ref).segments:
            batch = segment.batch
            numbers = scale.numbers(batch.column(at))
            first = 0 if low is None else int(np.searchsorted(numbers, low, "left"))
            last = len(numbers) if high is None else int(np.searchsorted(numbers, high, "right"))
            if first < last:
                tables.append(pa.Table.from_batches([batch.slice(first, last - first)]))
    if not tables:
        return schema_of(row).empty_table()
    found = tables[0]
    if len(tables) > 1:
        found = consolidate(spec, pa.concat_tables(tables))
    kept = np.asarray(column(found, COUNT)) != 0
    return _rows(found if kept.all() else found.filter(pa.array(kept)), row)


def _rows(entries: pa.Table, row: RecordType) -> pa.Table:
    """Entries as rows with weights."""
    schema = schema_of(row)
    arrays = [column(entries, f"k{i}").cast(f.type) for i, f in enumerate(list(schema)[:-1])]
    return pa.table([*arrays, column(entries, COUNT)], schema=schema)


def add(working: Working, spec: MapSpec, rows: pa.Table, sign: int = 1) -> None:
    """Rows with weights that wait from now on; or, with a negative sign, wait no more."""
    if not rows.num_rows:
        return
    working.know(spec)
    cells = [c for c in rows.column_names if c != WEIGHT]
    arrays = {f"k{i}": column(rows, n) for i, n in enumerate(cells)}
    weights = np.asarray(column(rows, WEIGHT)) * sign
    h = pa.array(np.zeros(rows.num_rows, np.int64))
    changes = pa.table({"_h": h, **arrays, COUNT: pa.array(weights)})
    entries, _ = Arrangement(spec, (), working.runs).merge(changes, blind=True)
    working.add(spec.name, entries)
