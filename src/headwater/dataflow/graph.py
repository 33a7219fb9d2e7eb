"""The graph as a database has it: stages, flows, where every reader stands, and what is known of stages between epochs.

All of it is plain data in the facts of a version:

    stage:name       what the stage is, and what tells its functions from others
    flow:name        a flow: who writes it, and whether it sends nothing when there is nothing to send
    cursor:s.i       where the stage `s` stands in its input `i`
    node:name        epochs, clock, small state, and why a stage is held
    schedule         the counters of the scheduler

Functions are bound to stages by name, in each process anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import NoneType
from typing import Any, TypeVar

from headwater.dataflow.queues import Cursor
from headwater.dataflow.rows import as_data, of_data
from headwater.dataflow.schedule import Schedule

KEPT_AS_DATA = ("small", "clock", "swept")
"""What of a node is any value."""
STAGE, FLOW, CURSOR, NODE, SCHEDULE = "stage:", "flow:", "cursor:", "node:", "schedule"


@dataclass(frozen=True)
class Known:
    """A stage as the log has it."""

    name: str
    place: int
    described: Mapping[str, Any]
    marks: Mapping[str, str] = field(default_factory=dict)
    """Of each of its functions what tells it from others."""
    retain: bool | None = None

    @property
    def inputs(self) -> list[str]:
        return [i["name"] for i in self.described["inputs"]]

    @property
    def outputs(self) -> list[str]:
        return list(self.described["outputs"])

    @property
    def looks_up(self) -> list[tuple[str, tuple[str, ...] | None]]:
        """What it looks up, and by which columns of that."""
        out = []
        for what, on in self.described["lookups"].values():
            out.append((what, None if on is None else tuple(b for _, b in on)))
        return out


@dataclass(frozen=True)
class FlowFact:
    """A flow: the stage that writes it, or "" until there is one; whether it was declared; whether it is kept to be looked at."""

    name: str
    writer: str = ""
    declared: bool = False
    retained: bool | None = None
    """None until its first increment decides."""


@dataclass(frozen=True)
class NodeFact:
    """What is known of a stage between its epochs."""

    epochs: int = 0
    small: Any = None
    clock: Any = None
    swept: Any = None
    """The clock when state that had expired was last taken away."""
    rows: int = 0
    """Rows that it has read so far."""
    seconds: float = 0.0
    paused: bool = False
    replays: bool = False
    """Whether its next epoch takes back everything that it has sent."""
    rejected: int = 0
    """Records of a feed that did not fit, so far."""
    on_spark: int = 0
    """Batches of a feed that tasks of Spark have read."""


@dataclass(frozen=True)
class Graph:
    """Stages, flows, cursors and counters of a version."""

    stages: Mapping[str, Known] = field(default_factory=dict)
    flows: Mapping[str, FlowFact] = field(default_factory=dict)
    cursors: Mapping[tuple[str, str], Cursor] = field(default_factory=dict)
    nodes: Mapping[str, NodeFact] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)

    @staticmethod
    def read(facts: Mapping[str, Any]) -> Graph:
        """The graph in the facts of a version."""
        stages, flows, cursors, nodes = {}, {}, {}, {}
        for key, value in facts.items():
            if key.startswith(STAGE):
                stages[key.removeprefix(STAGE)] = _typed(Known, value)
            elif key.startswith(FLOW):
                flows[key.removeprefix(FLOW)] = _typed(FlowFact, value)
            elif key.startswith(CURSOR):
                stage, name = key.removeprefix(CURSOR).split(".", 1)
                cursors[stage, name] = Cursor.of(value)
            elif key.startswith(NODE):
                node = dict(value)
                for part in KEPT_AS_DATA:
                    node[part] = of_data(node[part])
                nodes[key.removeprefix(NODE)] = _typed(NodeFact, node)
        ordered = dict(sorted(stages.items(), key=lambda s: s[1].place))
        made = Graph(ordered, flows, cursors, nodes, Schedule.of(facts.get(SCHEDULE)))
        made.check()
        return made

    def check(self) -> None:
        """Raises unless a graph names only what it has, as one that was not changed by anybody does."""
        named: list[tuple[str, Known | FlowFact]] = [*self.stages.items(), *self.flows.items()]
        for name, made in named:
            if made.name != name:
                raise ValueError(f"`{name}` is called `{made.name}`")
        if not self.nodes.keys() >= self.stages.keys():  # directories are nodes, too
            raise ValueError("there is a stage of whose epochs nothing is known")
        if self.cursors.keys() != {(s.name, i) for s in self.stages.values() for i in s.inputs}:
            raise ValueError("there are places in other inputs than stages have")
        for stage in self.stages.values():
            texts = [*stage.inputs, *stage.outputs, *stage.described["outputs"].values()]
            for what, on in stage.looks_up:
                texts += [what, *(on or ())]
            if not all(isinstance(t, str) for t in texts):
                raise TypeError(f"what the stage `{stage.name}` reads and writes are no names")
            for output in stage.outputs:
                if output not in self.flows or self.flows[output].writer != stage.name:
                    raise ValueError(f"`{output}` is no flow of the stage `{stage.name}`")
        for flow in self.flows.values():
            if flow.writer and flow.writer not in self.stages:
                raise ValueError(f"`{flow.name}` is written by `{flow.writer}`, which is no stage")

    def facts_since(self, before: Graph) -> Iterator[tuple[str, Any]]:
        """The facts that differ from those of another graph; None where one is gone."""
        for name, known in self.stages.items():
            if before.stages.get(name) != known:
                yield STAGE + name, {**vars(known), "described": dict(known.described)}
        for name, flow in self.flows.items():
            if before.flows.get(name) != flow:
                yield FLOW + name, dict(vars(flow))
        for (s, i), cursor in self.cursors.items():
            if before.cursors.get((s, i)) != cursor:
                yield f"{CURSOR}{s}.{i}", cursor.as_data()
        for name, node in self.nodes.items():
            if before.nodes.get(name) != node:
                data = dict(vars(node))
                for part in KEPT_AS_DATA:
                    data[part] = as_data(data[part])
                yield NODE + name, data
        if self.schedule != before.schedule:
            yield SCHEDULE, self.schedule.as_data()
        yield from ((STAGE + n, None) for n in before.stages if n not in self.stages)
        yield from ((FLOW + n, None) for n in before.flows if n not in self.flows)
        yield from ((NODE + n, None) for n in before.nodes if n not in self.nodes)
        for s, i in before.cursors:
            if (s, i) not in self.cursors:
                yield f"{CURSOR}{s}.{i}", None

    def readers(self, name: str) -> list[str]:
        """The stages that read something."""
        return [s.name for s in self.stages.values() if name in s.inputs]

    def behind(self, stages: Collection[str]) -> set[str]:
        """Some stages, and all that their outputs reach through flows."""
        out, todo = set[str](), [s for s in stages if s in self.stages]
        while todo:
            name = todo.pop()
            if name not in out:
                out.add(name)
                todo += [r for o in self.stages[name].outputs for r in self.readers(o)]
        return out

    @property
    def inputs(self) -> set[str]:
        """Everything that stages read."""
        return {i for s in self.stages.values() for i in s.inputs}

    @property
    def settled(self) -> bool:
        """Whether nothing waits anywhere."""
        return not any(c.at for c in self.cursors.values())

    @property
    def looked_up(self) -> dict[str, set[tuple[str, ...]]]:
        """Everything that stages look up, and the columns by which."""
        out: dict[str, set[tuple[str, ...]]] = {}
        for s in self.stages.values():
            for what, on in s.looks_up:
                if on is not None:
                    out.setdefault(what, set()).add(on)
        return out

    def with_node(self, name: str, **given: Any) -> Graph:
        """With other facts of a stage."""
        node = replace(self.nodes.get(name, NodeFact()), **given)
        return replace(self, nodes={**self.nodes, name: node})

    def with_cursor(self, stage: str, name: str, cursor: Cursor) -> Graph:
        """With another cursor."""
        return replace(self, cursors={**self.cursors, (stage, name): cursor})

    def with_flow(self, flow: FlowFact) -> Graph:
        """With a flow, new or changed."""
        return replace(self, flows={**self.flows, flow.name: flow})


_KINDS: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "bool | None": (bool, NoneType),
    "Mapping[str, Any]": dict,
    "Mapping[str, str]": dict,
    "Any": object,
}
"""What the fields of facts may be, by their annotations."""
F = TypeVar("F", Known, FlowFact, NodeFact)


def _typed(of: type[F], value: Any) -> F:
    """A fact as a record whose fields are of their types."""
    made = of(**value)
    for f in fields(made):
        cell, kind = getattr(made, f.name), str(f.type)
        if not isinstance(cell, _KINDS[kind]) or (kind == "int" and isinstance(cell, bool)):
            raise TypeError(f"`{f.name}` is {cell!r}")
    return made
