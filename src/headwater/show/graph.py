"""The graph of a database as text and picture: sources, views, stages and flows, who waits for what, and what that means.

Everything here is rendered from plain data (`Shown`), which says what a stage is as the log does. Two facts are worth
more than the rest, and are computed here:

    a cycle is what is reached from itself; every one has a declared flow or a view in it, and comes to rest;
    stages that wait for given frames whatever else is there are a Kahn network, as far as all that is before them
    is one: their outcome depends on no schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.show.drawing import Explanation, svg


@dataclass(frozen=True)
class StageShown:
    """A stage: its definition as plain data, and how far it came."""

    name: str
    described: Mapping[str, Any]
    kahn: bool
    waiting: Mapping[str, int] = field(default_factory=dict)
    epochs: int = 0
    rows: int = 0
    seconds: float = 0.0
    paused: bool = False
    held: str = ""
    fused: str = ""
    """The stage before it that it is run together with; empty where it runs by itself."""

    @property
    def inputs(self) -> list[str]:
        return [i["name"] for i in self.described["inputs"]]

    @property
    def outputs(self) -> list[str]:
        return list(self.described["outputs"])

    @property
    def looks_up(self) -> list[str]:
        return [what for what, _ in self.described["lookups"].values()]

    @property
    def kind(self) -> str:
        """Which of the four kinds of stages it is."""
        d = self.described
        if d["key"] is None:
            return "row by row"
        return "whole" if d["whole"] else "with state" if d["state"] else "by increment"


@dataclass(frozen=True)
class Shown:
    """A graph to be shown; views by what they read, flows by whether they are kept."""

    version: int
    sources: Mapping[str, str]
    """What is said of each source."""
    views: Mapping[str, list[str]]
    stages: Mapping[str, StageShown]
    flows: Mapping[str, bool | None]
    streams: Mapping[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    """What each stream reads, and what it tells."""

    @property
    def edges(self) -> list[tuple[str, str]]:
        """From what is read to who reads it; a stage or stream is called `stage:name`, for its output may have its name."""
        out = [(i, f"stage:{s.name}") for s in self.stages.values() for i in s.inputs]
        out += [(f"stage:{s.name}", o) for s in self.stages.values() for o in s.outputs]
        for name, (reads, tells) in self.streams.items():
            out += [(r, f"stage:{name}") for r in reads] + [(f"stage:{name}", t) for t in tells]
        return out + [(r, v) for v, reads in self.views.items() for r in reads]


# --- what follows from the graph -------------------------------------------------------------------------------


def reached(edges: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """From each node all that are reached, itself only over a cycle."""
    after: dict[str, set[str]] = {}
    for a, b in edges:
        after.setdefault(a, set()).add(b)
        after.setdefault(b, set())
    out = {}
    for start in after:
        seen: set[str] = set()
        todo = list(after[start])
        while todo:
            node = todo.pop()
            if node not in seen:
                seen.add(node)
                todo += after[node]
        out[start] = seen
    return out


def cycles(graph: Shown) -> list[list[str]]:
    """The cycles, each as the names on it, in the order in which data goes; those that share a node are one."""
    edges = graph.edges
    to = reached(edges)
    found: list[list[str]] = []
    for node in to:
        if node in to[node] and not any(node in c for c in found):
            inside = {n for n in to[node] if node in to[n]}
            found.append(_in_order(node, [(a, b) for a, b in edges if {a, b} <= inside]))
    return found


def _in_order(start: str, edges: list[tuple[str, str]]) -> list[str]:
    out, todo = [], [start]
    while todo:
        node = todo.pop(0)
        if node not in out:
            out.append(node)
            todo += [b for a, b in edges if a == node]
    return out


def outside_kahn(graph: Shown) -> dict[str, str]:
    """The stages that are part of no Kahn network, and why; of those behind another, which."""
    why: dict[str, str] = {}
    for s in graph.stages.values():
        several = [i for i in s.inputs if len(_under(i, graph)) > 1]
        if not s.kahn:
            why[s.name] = f"runs by {s.described['runnable']}"
        elif any(i["take"] == "all" for i in s.described["inputs"]):
            why[s.name] = "reads all that waits, which depends on who ran before"
        elif s.looks_up:
            why[s.name] = f"looks up {', '.join(s.looks_up)} as it is then"
        elif several:
            why[s.name] = f"reads {several[0]}, whose inputs come one after another"
    to = reached(graph.edges)
    for name, s in graph.stages.items():
        before = [n for n in why if f"stage:{name}" in to.get(f"stage:{n}", ())]
        if s.name not in why and before:
            why[name] = f"is behind {before[0]}"
    return why


def _under(name: str, graph: Shown) -> set[str]:
    """The sources and flows that something is computed from by views alone."""
    reads = graph.views.get(name)
    return {name} if reads is None else {n for r in reads for n in _under(r, graph)}


# --- as text -----------------------------------------------------------------------------------------------------


def explain_graph(graph: Shown) -> Explanation:
    """The whole graph."""
    lines = [
        f"GRAPH   {_many(len(graph.sources), 'source')}, {_many(len(graph.views), 'view')}, "
        f"{_many(len(graph.stages), 'stage')}, {_many(len(graph.flows), 'flow')}, "
        + (f"{_many(len(graph.streams), 'stream')}, " if graph.streams else "")
        + f"at version {graph.version}"
    ]
    lines += [""] if graph.sources else []
    lines += [f"SOURCE {n}{'   ' if told else ''}{told}" for n, told in graph.sources.items()]
    lines += [""] if graph.views else []
    lines += [f"VIEW {n}   of {', '.join(reads)}" for n, reads in graph.views.items()]
    lines += [""] if graph.streams else []
    for name, (reads, tells) in graph.streams.items():
        lines.append(
            f"STREAM {name}   of {', '.join(reads)}; tells {', '.join(tells) or 'nothing'}"
        )
    for s in graph.stages.values():
        lines += ["", *_stage_lines(s, graph)]
    found = cycles(graph)
    lines += [""] if found else []
    lines += [f"CYCLE {' → '.join(map(_named, [*c, c[0]]))}" for c in found]
    if graph.stages:
        lines += ["", *_kahn_lines(graph)]
    return Explanation("\n".join(lines), draw_graph(graph, found))


def _many(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


def _named(node: str) -> str:
    return node.removeprefix("stage:")


def _stage_lines(s: StageShown, graph: Shown) -> list[str]:
    lines = [f"STAGE {s.name}   {s.kind}; {_so_far(s)}"]
    for i in s.described["inputs"]:
        lines.append(f"  reads   {_input_text(i)}; {_waits(s.waiting.get(i['name'], 0))}")
    lines += [f"  looks up {_looked(k, v)}" for k, v in s.described["lookups"].items()]
    for o in s.outputs:
        readers = [r.name for r in graph.stages.values() if o in r.inputs]
        readers += [v for v, reads in graph.views.items() if o in reads]
        to = f" → {', '.join(readers)}" if readers else ""
        lines.append(f"  writes  {o}{to}; {_kept(graph.flows.get(o))}")
    lines.append(f"  runs    by {s.described['runnable']}{_state_of(s)}")
    return lines


def _so_far(s: StageShown) -> str:
    return f"{_many(s.epochs, 'epoch')}, {_many(s.rows, 'row')}, {s.seconds:.2f} s"


def _waits(n: int) -> str:
    return f"{_many(n, 'increment')} {'waits' if n == 1 else 'wait'}" if n else "nothing waits"


def _kept(retained: bool | None) -> str:
    if retained is None:
        return "its first increment decides whether it is kept"
    return "kept" if retained else "not kept"


def _state_of(s: StageShown) -> str:
    """What a stage is doing: why it does not run, or with whom it does."""
    if s.held:
        return f"; held: {s.held}"
    if s.paused:
        return "; paused"
    if s.fused:
        return f"; in the epochs of {s.fused}"
    empty = [i for i in s.inputs if not s.waiting.get(i)]
    if empty and len(empty) < len(s.inputs):
        return f"; waits for {', '.join(empty)}"
    return ""


def _kahn_lines(graph: Shown) -> list[str]:
    why = outside_kahn(graph)
    inside = [n for n in graph.stages if n not in why]
    lines = []
    if inside:
        lines.append(f"KAHN NETWORK   {', '.join(inside)}: what comes out depends on no schedule")
    if why:
        lines.append("BY SCHEDULE   what comes out may depend on the order in which stages run:")
        lines += [f"  {n}: {reason}" for n, reason in why.items()]
    return lines


def explain_stage(s: StageShown, graph: Shown) -> Explanation:
    """One stage: what it reads, keeps and gives, when it runs, and what its answers depend on."""
    d = s.described
    key = f"; groups by ({_plain(d['key'])})" if d["key"] else ""
    form = "" if d["form"] == "rows" else f"; in the form {d['form']}"
    lines = [f"STAGE {s.name}   {s.kind}{key}{form}", f"  so far  {_so_far(s)}"]
    for i in d["inputs"]:
        lines.append(f"  reads   {_input_text(i)}; {_waits(s.waiting.get(i['name'], 0))}")
        lines.append(f"          ({_plain(i['row'])})")
    lines += [f"  looks up {_looked(k, v)}" for k, v in d["lookups"].items()]
    lines += [f"  keeps   {_part_text(p)}" for p in d["state"]]
    if d["groups"] == "all":
        lines.append("          every epoch calls all groups that have state")
    if d["clock"]:
        lines.append(f"  clock   the greatest {d['clock']} so far")
    for o, ddl in d["outputs"].items():
        lines.append(f"  writes  {o} ({_plain(ddl)}); {_kept(graph.flows.get(o))}")
    lines.append(f"  runs    by {d['runnable']}{_state_of(s)}")
    why = outside_kahn(graph).get(s.name)
    lines.append(
        f"          what comes out may depend on the schedule: it {why}"
        if why
        else "          a part of a Kahn network: what comes out depends on no schedule"
    )
    back, cut = _depends(s)
    lines += [f"  deletions of its inputs   {back}", f"  how input is cut          {cut}"]
    near = {s.name, *s.inputs, *s.outputs, *s.looks_up}
    part = Shown(
        graph.version,
        {n: t for n, t in graph.sources.items() if n in near},
        {n: [] for n in graph.views if n in near},
        {s.name: s},
        {n: k for n, k in graph.flows.items() if n in near},
    )
    return Explanation("\n".join(lines), draw_graph(part, cycles(part)))


def _depends(s: StageShown) -> tuple[str, str]:
    """What becomes of deletions, and whether the answer depends on how input is cut into increments."""
    d = s.described
    if d["key"] is None:
        if d["remember"]:
            return "what the row gave is kept, and taken back", "does not matter"
        but = ", but for look-ups that change" if d["lookups"] else ""
        return "pass through: what the row gives is taken back", f"does not matter{but}"
    if d["whole"]:
        return "the group's old answers go, and new ones come", "does not matter"
    seen = [i["name"] for i in d["inputs"] if i["changes"]]
    refused = [i["name"] for i in d["inputs"] if not i["changes"]]
    back = [f"seen by its function, of {', '.join(seen)}"] if seen else []
    back += [f"refused, of {', '.join(refused)}"] if refused else []
    cut = (
        "as the function is written; flow.trial tries other cuts"
        if d["state"]
        else "matters: the answer is about an increment"
    )
    return "; ".join(back), cut


def _input_text(i: Mapping[str, Any]) -> str:
    """An input as it is read."""
    said = [i["name"]]
    if i["by"] is not None:
        kind, columns = i["by"]
        named = f"by ({', '.join(columns)})" if columns else "as one group"
        said.append({"route": "by a function", "all": "to every group"}.get(kind, named))
    if i["order_by"]:
        said.append(f"in the order of {', '.join(i['order_by'])}")
    if i["framing"]:
        said.append(f"framed {i['framing']}")
    if i["take"] != 1:
        said.append("all that waits" if i["take"] == "all" else f"{i['take']} at a time")
    if i["changes"]:
        said.append("with its deletions")
    if i["combine"]:
        kind, columns = i["combine"]
        said.append(f"combined by {kind}({', '.join(columns)})")
    return " ".join(said)


def _looked(name: str, look: Any) -> str:
    what, on = look
    by = "all rows" if on is None else "where " + ", ".join(f"{b} = {a}" for a, b in on)
    return f"{name}: {what}, {by}"


def _part_text(p: Mapping[str, Any]) -> str:
    """A part of a stage's state."""
    what = {"bag": "a bag of", "record": "a record of"}.get(
        p["kind"], f"records by ({_plain(p['key'])}) of"
    )
    said = f"{p['name']}: " if p["name"] else ""
    said += f"{what} ({_plain(p['row'])})"
    said += f", in the order of {', '.join(p['order_by'])}" if p["order_by"] else ""
    said += f", only those that rows name by {', '.join(p['only'])}" if p["only"] else ""
    return said + (f", for {p['expires']:g} s" if p["expires"] else "")


def _plain(ddl: str) -> str:
    return ddl.replace("`", "")


# --- as a picture --------------------------------------------------------------------------------------------------


def draw_graph(graph: Shown, found: list[list[str]]) -> str:
    """The graph left to right; ⟳ is on a cycle, and what is looked up has dashed edges."""
    edges = graph.edges
    kinds = {
        **dict.fromkeys(graph.sources, "source"),
        **dict.fromkeys(graph.flows, "flow"),
        **dict.fromkeys(graph.views, "view"),
        **{f"stage:{n}": "stage" for n in (*graph.stages, *graph.streams)},
        **{t: "flow" for _, tells in graph.streams.values() for t in tells},
    }
    depth = _depths(kinds, edges)
    turning = {n for c in found for n in c}
    boxes = {
        n: (("⟳ " if n in turning else "") + _named(n), kind, depth[n]) for n, kind in kinds.items()
    }
    drawn = [(a, b, False) for a, b in edges]
    drawn += [(w, f"stage:{s.name}", True) for s in graph.stages.values() for w in s.looks_up]
    return svg(boxes, list(dict.fromkeys(drawn)))


def _depths(nodes: Iterable[str], edges: list[tuple[str, str]]) -> dict[str, int]:
    """How far each node is from those that read nothing; an edge that closes a cycle does not count."""
    after: dict[str, list[str]] = {n: [] for n in nodes}
    for a, b in edges:
        if a in after and b in after:
            after[a].append(b)
    first = [n for n in after if not any(n in to for to in after.values())]
    forward: list[tuple[str, str]] = []
    done: list[str] = []

    def walk(node: str, above: tuple[str, ...]) -> None:
        for b in after[node]:
            if b in (*above, node):
                continue
            forward.append((node, b))
            if b not in done:
                walk(b, (*above, node))
        done.append(node)

    for node in [*first, *after]:
        if node not in done:
            walk(node, ())
    out = dict.fromkeys(after, 0)
    for node in reversed(done):
        for a, b in forward:
            if a == node:
                out[b] = max(out[b], out[a] + 1)
    return out
