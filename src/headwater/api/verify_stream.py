"""The check of a stream: the reference run over the rows that it took, and compared with what it told.

The rows that it took are those that are there without those that wait, so that they must all be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.api.stream_defs import StreamDef
from headwater.dataflow.rows import values_of
from headwater.engine.change import schema_of
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.ledgers import scan_ledger
from headwater.errors import NotRetained, StateError, StreamError
from headwater.folds import keeping
from headwater.folds.batch import Rows, row_type, table_of
from headwater.folds.codec import of_texts
from headwater.folds.fold import Beside, Fold, events_of
from headwater.folds.looking import told_anew
from headwater.folds.pending import all_waiting
from headwater.plan.program import WEIGHT
from headwater.state.run import column
from headwater.streams.differ import differ
from headwater.streams.schema import Event

if TYPE_CHECKING:
    from headwater.api.stream_defining import Streams


def verify_stream(db: Streams, made: StreamDef, fold: Fold) -> None:
    """`StateError` where what a stream told is not what the reference tells."""
    if made.by_arrival:
        raise StreamError(
            f"the stream `{made.name}` takes rows as they come, and nobody knows in which order they came",
            hint="a stream with an order column can be verified",
        )
    snapshot = db.store.at(db.version)
    taken = {}
    for h in fold.inputs:
        schema = schema_of(row_type(fold.headers[h]))
        there = [t.cast(schema) for t in _rows(db, h)]
        waits = all_waiting(snapshot.arrangement(fold.pending(h).name), row_type(fold.headers[h]))
        place = schema.get_field_index(WEIGHT)
        gone = waits.set_column(place, WEIGHT, pc.negate(column(waits, WEIGHT)))
        taken[h] = consolidated(pa.concat_tables([schema.empty_table(), *there, gone]))
    one = pa.table({"_h": pa.array([0], pa.int64())})
    found = snapshot.arrangement(fold.layout.root.name).lookup(one)
    texts = values_of(column(found, keeping.TEXT))
    beside = Beside(*of_texts(texts)[0][1]) if texts else Beside()
    should = _as_told(told_anew(fold, taken, beside), fold)
    tables = {}
    for h, header in fold.outputs.items():
        at = snapshot.arrangement(keeping.told_spec(made.name, header).name)
        tables[h] = keeping.read_told(at, header, 0, snapshot.number)
    told = events_of(tables, fold.outputs)
    found = differ(fold.transformer.output, fold.outputs, told, should)
    if found is not None:
        raise StateError(
            f"what the stream `{made.name}` has told (left) is not what its rows tell (right): {found}",
            hint="does a function keep something outside of its state, or ask the time or for chance? If not, this is an error in Headwater",
        )


def _as_told(events: Sequence[Event], fold: Fold) -> list[Event]:
    """Events with the values that are kept of them: of a FLOAT fewer digits, of a time without a zone the instant."""
    places: dict[str, list[int]] = {}
    for i, e in enumerate(events):
        places.setdefault(e[0], []).append(i)
    out = list(events)
    none = np.zeros(0, np.int64)
    for h, mine in places.items():
        header = fold.outputs[h]
        table = table_of(header, [events[i][1] for i in mine], fold.zone)
        for i, row in zip(mine, Rows(header, none, none, table=table).rows, strict=True):
            out[i] = Event(h, row)
    return out


def _rows(db: Streams, name: str) -> list[pa.Table]:
    """The rows of a header that are there."""
    if name in db.program.views:
        snapshot, at = db._at(None)
        return list(scan_ledger(db.program.views[name], db._reading(snapshot, at)))
    if db.catalog.sources[name].retain is not True:
        raise NotRetained(
            f"rows of `{name}` that the stream has taken are kept no more",
            hint="declare the source with retain=True",
        )
    return [db.table(name)]
