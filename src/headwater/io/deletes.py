"""Whether the rows that a change takes away are there: no multiplicity that anyone sees is ever negative.

Rows that a change both adds and takes away count with what is left of them. Only rows that are taken away are looked
up, so an insertion costs nothing here. Of many rows a thread takes a range of hashes, in which equal rows are together.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.change import Change
from headwater.engine.here import threads
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.here.statements import fields_of, hashed
from headwater.engine.working import Working
from headwater.errors import DeletesMissingRows
from headwater.plan.program import WEIGHT, Map
from headwater.state.arrangement import INDEX
from headwater.state.keys import Ints
from headwater.state.run import column


def checked_deletes(
    name: str, kept: Map, change: Change, rows: pa.Table, working: Working, strict: bool
) -> tuple[Change, int]:
    """The change if its deletions are there; else, where that is allowed, without the others, and how many those are."""
    least = pc.min(rows.column(WEIGHT)).as_py()  # piece by piece: of a load nothing is put together
    if least is None or least >= 0:
        return change, 0
    count = threads.times(rows.num_rows, threads.cores())
    parts = [rows]
    if count > 1:
        parts = [t.drop_columns(["_h"]) for t in threads.by_range(rows, fields_of(kept), count)]
    found = threads.each(lambda t: _net(kept, t, working), parts)
    net, have = pa.concat_tables([t for t, _ in found]), np.concatenate([n for _, n in found])
    weights = np.asarray(column(net, WEIGHT))
    short = weights[weights < 0] + have
    missing = int(-short[short < 0].sum())
    if not missing:
        return Change.of(net), 0
    if strict:
        gone = net.filter(pa.array(weights < 0)).select(list(fields_of(kept)))
        raise _missing(name, gone.slice(int(np.flatnonzero(short < 0)[0]), 1), missing)
    weights = weights.copy()
    weights[weights < 0] = np.maximum(weights[weights < 0], -have)
    clipped = net.set_column(net.schema.get_field_index(WEIGHT), WEIGHT, pa.array(weights))
    return Change.of(clipped.filter(pa.array(weights != 0))), missing


def _net(kept: Map, rows: pa.Table, working: Working) -> tuple[pa.Table, Ints]:
    """Equal rows once, with what is left of them, and how often each that goes is there."""
    net = consolidated(rows)
    gone = net.filter(pc.less(net.column(WEIGHT), 0)).select(list(fields_of(kept)))
    return net, _counts(kept, gone, working)


def _counts(kept: Map, rows: pa.Table, working: Working) -> Ints:
    """How often each row is in the map that holds a source's rows."""
    keys = rows.rename_columns(kept.columns)
    keys = keys.add_column(0, "_h", hashed(keys, kept.lookup))
    found = working.before(kept.name).lookup(keys, whole_key=True)
    have = np.zeros(rows.num_rows, np.int64)
    have[np.asarray(column(found, INDEX))] = np.asarray(column(found, "r0"))
    return have


def _missing(name: str, example: pa.Table, count: int) -> DeletesMissingRows:
    (row,) = example.to_pylist()
    shown = ", ".join(f"{k}={v!r}" for k, v in row.items())
    rows = "1 row to delete from" if count == 1 else f"{count} rows to delete from"
    there = "is not there:" if count == 1 else "are not there, such as"
    return DeletesMissingRows(
        f"{rows} `{name}` {there} ({shown})",
        hint="delete rows as they were inserted, or declare the source with strict=False",
    )
