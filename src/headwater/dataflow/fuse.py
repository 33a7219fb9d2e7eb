"""Fusing: a stage that follows another directly is run in the same epoch, and the flow between them is never written.

    A, then B over what A gave, in one version   =   A, then B, in two

It is done where one of the two takes row by row, the flow between them is not kept, no view and nobody else reads it, nothing
waits in it, and the one behind reads nothing else and waits for nothing else. Which stages these are can be seen from the graph, so
that it is decided epoch by epoch: a stage that fails, or is paused, is then simply not fused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headwater.dataflow.define import Stage
from headwater.dataflow.graph import Graph


def follower(
    stage: Stage, output: str, graph: Graph, bound: Mapping[str, Stage], held: Collection[str]
) -> Stage | None:
    """The stage that is run together with one, on an output of it; None where there is none."""
    flow, readers = graph.flows[output], graph.readers(output)
    if flow.retained is not False or flow.declared or len(readers) != 1:
        return None
    (name,) = readers
    after = bound.get(name)
    node = graph.nodes[name]
    if after is None or name in held or name == stage.name or node.paused or node.replays:
        return None
    if len(after.inputs) > 1 or not (stage.row_wise or after.row_wise):
        return None
    (given,) = after.inputs
    plain = given.framing is None and given.take in (1, "all")
    waits = after.runnable.told != "all_inputs()" or graph.cursors[name, output].at
    if not plain or waits or after.lookups:
        return None
    return after


def takes_plain(after: Stage) -> bool:
    """Whether rows may go to a stage as they were given, without a table between."""
    return (
        after.row_wise
        and after.form == "rows"
        and not after.remember
        and "epoch" not in after.takes
    )
