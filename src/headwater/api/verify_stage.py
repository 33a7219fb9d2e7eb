"""The check of a stage: its outputs computed anew from the rows that its inputs have, and compared with what it sent.

Only stages whose outcome does not depend on how their input was cut can be checked so: those that take row by row, and those
that are whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.dataflow import epoch
from headwater.dataflow.call import Context
from headwater.dataflow.define import Stage
from headwater.dataflow.lookups import LookUps
from headwater.engine.here.equal_rows import consolidated
from headwater.errors import NotRetained, StageError, StageMissing, StateError
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import Arrangement
from headwater.state.run import MapSpec

if TYPE_CHECKING:
    from headwater.api.epochs import Epochs


def verify_stage(db: Epochs, name: str) -> None:
    """`StateError` where what a stage sent is not what its inputs give."""
    stage, graph = db._bound.get(name), db.graph
    if stage is None:
        raise StageMissing(
            f"the stage `{name}` has no function in this process",
            hint="define it again with db.stage, by the same name",
        )
    _check_can(db, stage)
    if any(graph.cursors[name, i.name].at for i in stage.inputs):
        raise StageError(f"the stage `{name}` has input that it has not read", hint="run it first")
    snapshot = db.store.at(db.version)

    def arrangement(spec: MapSpec) -> Arrangement:
        # What is looked up is as it is; what the stage itself has kept is not looked at.
        if spec.name.startswith("l:"):
            return snapshot.arrangement(spec.name)
        return Arrangement(spec, (), snapshot.runs)

    look_up = LookUps(stage, db._looked_up(stage), arrangement, lambda n: db.table(n))
    context = Context(arrangement, 0, look_up=look_up, zone=db.session.zone)
    made = epoch.run(stage, {i.name: db.table(i.name) for i in stage.inputs}, context)
    for output, table in made.outputs.items():
        sent = db.table(output).select(table.column_names).cast(table.schema)
        turned = pa.array([-n for n in sent.column(WEIGHT).to_pylist()], pa.int64())
        sent = sent.set_column(sent.schema.get_field_index(WEIGHT), WEIGHT, turned)
        left = consolidated(pa.concat_tables([table, sent]))
        if left.num_rows:
            row = left.slice(0, 1).to_pylist()[0]
            what = "has not" if row.pop(WEIGHT) > 0 else "has, and should not,"
            raise StateError(
                f"`{output}` {what} the row {row!r}, of which the stage `{name}` says otherwise",
                hint="is its function the same for the same row? With chance or time in it, remember=True keeps what it gave",
            )


def _check_can(db: Epochs, stage: Stage) -> None:
    if not (stage.row_wise or stage.whole) or stage.remember or stage.inputs[0].framing is not None:
        raise StageError(
            f"what the stage `{stage.name}` gives depends on how its input was cut",
            hint="stages row by row and whole stages can be verified; flow.trial tries others on plain lists",
        )
    for n in (*(i.name for i in stage.inputs), *stage.outputs):
        source = db.catalog.sources.get(n)
        if source is not None and not source.retain:
            raise NotRetained(
                f"the rows of `{n}` are not kept",
                hint="keep them: retain=True of the stage that writes it",
            )
