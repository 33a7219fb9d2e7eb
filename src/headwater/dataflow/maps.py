"""The maps that a graph is kept in: queues, state, due times, what is remembered, and indexes for look-ups.

    q:stage.input    a queue: the increments that an input has not removed; its runs are those of `f:flow` or of a source's map
    s:stage.part     state: a latest map for records, a change map for a bag
    d:stage, w:stage when groups are due: by group, and in the order of time
    r:stage          what rows gave, of a stage that remembers
    b:stage.input    the rows of groups, and
    a:stage.output   their last answers, of a stage that is whole
    l:relation(on)   an index of a source, view or flow, for look-ups

A group's key is in the columns g0, g1, ..., the key of an entry in k0, k1, ..., values in v0, v1, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.calculus.types import KeyType, RecordType
from headwater.dataflow.define import Input, Part, Stage
from headwater.interop.arrow_types import arrow_type
from headwater.state.hashing import hash_keys
from headwater.state.keys import canonical
from headwater.state.run import MapSpec, Order

COUNT = "r0"
"""The column that counts rows, or says whether an entry is there."""
WRITTEN = "at"
"""The clock when an entry was written, of state that expires."""
Columns = tuple[tuple[str, pa.DataType], ...]


def is_of_graph(name: str) -> bool:
    """Whether a map belongs to the graph, and not to the views."""
    return ":" in name


def is_of_stage(name: str, stage: str) -> bool:
    """Whether a map is one that a stage alone has: its queues and its state, and no index."""
    letter, _, rest = name.partition(":")
    return bool(rest) and letter != "l" and rest.partition(".")[0] == stage


def numbered(stem: str, types: Iterable[KeyType]) -> Columns:
    """Columns named by their places."""
    return tuple((f"{stem}{i}", arrow_type(t)) for i, t in enumerate(types))


def types_of(row: RecordType | None) -> list[KeyType]:
    """The types of a row's columns."""
    return [] if row is None else [t for _, t in row.fields]


_COUNT: Columns = ((COUNT, pa.int64()),)


def flow_spec(name: str, row: RecordType) -> MapSpec:
    """The map that runs of a flow, or of a view's feed, say they are of; only queues name such runs."""
    key = numbered("k", types_of(row))
    return MapSpec(f"f:{name}", key, _COUNT, tuple(n for n, _ in key))


def queue_spec(stage: str, name: str, of: MapSpec) -> MapSpec:
    """The queue of an input, whose runs are those of another map."""
    return replace(of, name=f"q:{stage}.{name}", pinned=True, of=of.name)


def state_spec(stage: Stage, part: Part) -> MapSpec:
    """The map of a part of a stage's state."""
    group = numbered("g", types_of(stage.key))
    lookup = tuple(n for n, _ in group)
    name = f"s:{stage.name}.{part.kept.name}"
    if part.kept.kind == "bag":
        key = numbered("k", types_of(part.row))
        order = tuple(Order(f"k{part.kept.columns.index(c)}") for c in part.kept.order)
        return MapSpec(name, (*group, *key), _COUNT, lookup, "change", order)
    key = numbered("k", types_of(part.key))
    if part.kept.only:  # entries are looked up one by one, whatever else the group has
        lookup = tuple(n for n, _ in (*group, *key))
    values = numbered("v", types_of(part.row))
    at: Columns = ()
    if part.expires is not None:
        at = ((WRITTEN, clock_type(stage)),)
    return MapSpec(name, (*group, *key), (*_COUNT, *values, *at), lookup, "latest")


def group_of(spec: MapSpec) -> list[str]:
    """The columns of a state map that are the group's key."""
    return [n for n, _ in spec.key if n.startswith("g")]


def clock_type(stage: Stage) -> pa.DataType:
    """The type of a stage's clock."""
    found = [t for i in stage.inputs for n, t in i.row.fields if n == stage.clock]
    return arrow_type(found[0])


def due_specs(stage: Stage) -> tuple[MapSpec, MapSpec]:
    """When groups are due: by group, and in the order of time."""
    group = numbered("g", types_of(stage.key))
    lookup, t = tuple(n for n, _ in group), clock_type(stage)
    by_group = MapSpec(f"d:{stage.name}", group, (*_COUNT, ("due", t)), lookup, "latest")
    in_order = MapSpec(
        f"w:{stage.name}", (("due", t), *group), _COUNT, (), "change", (Order("due"),)
    )
    return by_group, in_order


def remembered_spec(stage: Stage) -> MapSpec:
    """What rows gave: by row, how often it is there, and for each output its rows with weights."""
    key = numbered("k", types_of(stage.inputs[0].row))
    gave = tuple((f"v{i}", given_type(row)) for i, row in enumerate(stage.outputs.values()))
    ring = (*_COUNT, ("n", pa.int64()), *gave)
    return MapSpec(f"r:{stage.name}", key, ring, tuple(n for n, _ in key), "latest")


def given_type(row: RecordType) -> pa.DataType:
    """Rows of an output with their weights, as a value."""
    fields = [(f"c{i}", arrow_type(t)) for i, t in enumerate(types_of(row))]
    return pa.large_list(pa.struct([*fields, ("w", pa.int64())]))


def grouped_spec(stage: Stage, letter: str, name: str, row: RecordType) -> MapSpec:
    """Rows by group, of a stage that is whole: those of an input, or its last answers."""
    group, key = numbered("g", types_of(stage.key)), numbered("k", types_of(row))
    lookup = tuple(n for n, _ in group)
    return MapSpec(f"{letter}:{stage.name}.{name}", (*group, *key), _COUNT, lookup)


def index_name(what: str, on: Sequence[str]) -> str:
    """The name of an index of a relation by some of its columns."""
    return f"l:{what}({','.join(on)})"


def index_spec(what: str, row: RecordType, on: Sequence[str]) -> MapSpec:
    """An index of a relation by some of its columns."""
    names = [n for n, _ in row.fields]
    key = numbered("k", types_of(row))
    by = tuple(f"k{names.index(c)}" for c in on)
    return MapSpec(index_name(what, on), key, _COUNT, by)


def specs_of(stage: Stage) -> list[MapSpec]:
    """All maps that a stage keeps, but for its queues and indexes."""
    out = [state_spec(stage, p) for p in stage.state]
    if stage.clock is not None:
        out += due_specs(stage)
    if stage.remember:
        out.append(remembered_spec(stage))
    if stage.whole:
        out += [grouped_spec(stage, "b", i.name, i.row) for i in stage.inputs]
        out += [grouped_spec(stage, "a", n, r) for n, r in stage.outputs.items()]
    return out


def only_columns(part: Part, i: Input) -> bool:
    """Whether rows of an input name entries of a part."""
    return bool(part.kept.only) and set(part.kept.only) <= set(i.columns)


def entries(spec: MapSpec, columns: dict[str, pa.Array], rows: int) -> pa.Table:
    """Columns of a map's entries with their hash."""
    h = hash_keys([canonical(columns[n]) for n in spec.lookup], rows)
    names = [n for n, _ in (*spec.key, *spec.ring)]
    return pa.table([pa.array(h), *(columns[n] for n in names)], ["_h", *names])


def keyed(spec: MapSpec, arrays: Sequence[pa.Array], rows: int) -> pa.Table:
    """Look-up keys with their hash."""
    h = hash_keys([canonical(a) for a in arrays], rows) if arrays else np.zeros(rows, np.int64)
    return pa.table([pa.array(h), *arrays], ["_h", *spec.lookup])
