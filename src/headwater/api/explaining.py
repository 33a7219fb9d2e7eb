"""What a graph is and how far it came, as plain data for those who show it: `explain`, `explain_graph`, and `status`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pyarrow.compute as pc

from headwater.api.catalog import as_stored
from headwater.api.over import said_of
from headwater.api.running import Running
from headwater.api.streams import StreamHandle
from headwater.calculus.patterns import Punctuations
from headwater.dataflow.fuse import follower
from headwater.dataflow.graph import NodeFact
from headwater.dataflow.maps import is_of_graph
from headwater.dataflow.runnable import is_kahn
from headwater.engine.late import ASIDE
from headwater.engine.ledgers import LEDGER
from headwater.errors import BadChange, FeedAway, StageMissing
from headwater.feeds.listing import taken_of
from headwater.folds.keeping import is_of_stream
from headwater.folds.looking import bounds, what_runs
from headwater.io.sequences import SEQUENCES
from headwater.show.drawing import Explanation
from headwater.show.graph import Shown, StageShown, explain_graph, explain_stage
from headwater.show.streams import StreamShown, explain_stream
from headwater.streams.schema import draw


@dataclass(frozen=True)
class NodeStatus:
    """A node of the graph, a stage or a directory: what it did, what waits for it, and what it keeps."""

    name: str
    kind: str
    epochs: int
    rows: int
    seconds: float
    waiting: int | None
    """Increments that a stage has not removed, or new files of a directory; None where they are not looked at."""
    entries: int = 0
    bytes: int = 0
    paused: bool = False
    rejected: int = 0
    """Records of a feed that did not fit."""
    on_spark: int = 0
    """Batches of a feed that tasks of Spark have read; the others were read here."""
    once: bool = True
    """Whether every row of a feed comes once; a socket's come at least once."""

    @property
    def about(self) -> str:
        """What is to be said beside its kind."""
        told = ["" if self.once else "at least once"]
        told.append(f"{self.rejected:,} rejected" if self.rejected else "")
        told.append(f"{self.on_spark:,} read by Spark" if self.on_spark else "")
        return ", ".join([self.kind, *(t for t in told if t), *(["paused"] if self.paused else [])])


@dataclass(frozen=True)
class ClosedStatus:
    """A source that is closed part by part: what is declared of its end, what of it is over, and how many rows came late."""

    name: str
    declared: str
    closed: Punctuations
    late: int | None
    """Late rows that were set aside; None where they are refused or dropped."""


@dataclass(frozen=True)
class Size:
    """How much some maps hold."""

    maps: int = 0
    entries: int = 0
    bytes: int = 0


class Explaining(Running):
    """The part of a database that says what its graph is."""

    def explain(self, name: str) -> Explanation:
        """How a view is kept, or what a stage or stream is: what it reads and keeps, when it runs, what its answers depend on."""
        told_by = self._outputs().get(self.catalog.named(name))
        if name in self.stream_defs or told_by is not None:
            return explain_stream(self._stream_shown(told_by or name))
        stage = self.graph.stages.get(name)
        if stage is None:
            return super().explain(name)
        with as_stored(self.version, "graph"):
            graph = self.shown()
            return explain_stage(graph.stages[name], graph)

    def _stream_shown(self, name: str) -> StreamShown:
        """A stream of the version that the handle is at, as far as its functions are known here."""
        made = self.stream_defs[name]
        handle = StreamHandle(self, name)
        fold = handle._fold()
        headers = {h: f"closed {self._closed_at(h, self.over)}" for h in made.inputs}
        headers |= {h: f"a clock, every {i}" for h, i in made.marks.items()}
        outputs = {
            h: f"relation `{made.relations[h]}`"
            + (f", closed by `{made.closes[h]}`" if h in made.closes else "")
            for h in made.outputs
        }
        sizes = []
        for m, (_, refs) in sorted(self.store.at(self.version).version.maps.items()):
            if is_of_stream(m, [name]):
                sizes.append((m, sum(r.rows for r in refs), sum(r.size for r in refs)))
        columns = sorted(set(made.order.values()))
        order = ", ".join(f"`{c}`" for c in columns) if columns else "as rows come"
        if made.ties == "error":
            order += ", ties refused"
        return StreamShown(
            name,
            draw(handle.schema),
            fold.steps,
            order,
            headers,
            what_runs(fold),
            outputs,
            fold.reasons,
            [str(w) for w in handle.pending()],
            sizes,
            bounds(fold),
        )

    def explain_graph(self) -> Explanation:
        """The whole graph: sources, views, stages and flows, cycles, who waits for what, and what depends on no schedule."""
        with as_stored(self.version, "graph"):
            return explain_graph(self.shown())

    def shown(self) -> Shown:
        """The graph of the version that the handle is at."""
        graph, catalog = self.graph, self.catalog
        names = [*catalog.sources, *catalog.views]
        reads: dict[str, list[str]] = {v: [] for v in catalog.views}
        for name in names:
            for view in catalog.readers(name):
                reads[view].append(name)
        behind = self._fused()
        stages = {}
        for name, known in graph.stages.items():
            node, failed = graph.nodes[name], self._failures.get(name)
            stages[name] = StageShown(
                name,
                known.described,
                is_kahn(known.described["runnable"]),
                {i: len(graph.cursors[name, i].at) for i in known.inputs},
                node.epochs,
                node.rows,
                node.seconds,
                node.paused,
                "" if failed is None else failed.told,
                behind.get(name, ""),
            )
        sources = {n: self._told_of(n) for n, s in catalog.sources.items() if not s.written}
        flows = {n: f.retained for n, f in graph.flows.items()}
        streams = {n: ([*d.inputs], [*d.relations.values()]) for n, d in self.stream_defs.items()}
        return Shown(self.version, sources, reads, stages, flows, streams)

    def _fused(self) -> dict[str, str]:
        """The stages that run in the epochs of another one, as far as their functions are known here."""
        out = {}
        for name, stage in self._bound.items():
            for output in stage.outputs if name in self.graph.stages else ():
                after = follower(stage, output, self.graph, self._bound, self._failures)
                if after is not None and self.policy.fuse:
                    out[after.name] = name
        return out

    def _told_of(self, source: str) -> str:
        made = self.catalog.sources[source]
        if made.format is None:
            return ""
        failed = self._failures.get(source)
        held = "" if failed is None else f"; held: {failed.told}"
        if not made.is_directory:
            least = ", at least once" if made.format == "socket" else ""
            return f"fed by {made.format}{least}{held}"
        count = len(taken_of(source, self.store.at(self.version).facts))
        return f"{made.format} files of {made.path}, {count} taken{held}"

    def ends(self) -> list[ClosedStatus]:
        """The sources of which something is declared to be over in time, with what is."""
        out = []
        for name, source in self.catalog.sources.items():
            if source.schemes or source.append_only:
                late = None
                if source.schemes and source.lateness == "aside":
                    weights = self.late_table(name).column("_w")
                    late = pc.sum(pc.abs(weights)).as_py() or 0
                out.append(ClosedStatus(name, said_of(source), self.closed_source(name), late))
        return out

    def sizes(self) -> dict[str, Size]:
        """What maps hold, by what they are for: rows of sources, ledgers, late rows, streams, and the workspace: the rest."""
        held = {m.name for s in self.catalog.sources.values() for m in s.all_maps}
        kinds = ["sources", "ledgers", "late rows", *(["streams"] if self.stream_defs else [])]
        out = {kind: Size() for kind in (*kinds, "workspace")}
        for name, (_, refs) in self.store.at(self.version).version.maps.items():
            if name.startswith(LEDGER):
                kind = "ledgers"
            elif name.startswith(ASIDE):
                kind = "late rows"
            elif name.startswith(SEQUENCES):
                kind = "sources"
            elif is_of_stream(name, self.stream_defs):
                kind = "streams"
            elif is_of_graph(name):
                continue  # what stages keep is said of each stage
            else:
                kind = "sources" if name in held else "workspace"
            was = out[kind]
            entries, total = sum(r.rows for r in refs), sum(r.size for r in refs)
            out[kind] = Size(was.maps + 1, was.entries + entries, was.bytes + total)
        return out

    def nodes(self) -> list[NodeStatus]:
        """Stages, directories and sinks, with what they did and what they keep; a sink waits with the versions that it has not."""
        graph = self.graph
        sizes: dict[str, tuple[int, int]] = {}
        for name, (_, refs) in self.store.at(self.version).version.maps.items():
            if is_of_stream(name, self.stream_defs):
                continue
            if is_of_graph(name) and not name.startswith(("q:", "l:", LEDGER, ASIDE, SEQUENCES)):
                stage = name[2:].partition(".")[0]
                rows, total = sizes.get(stage, (0, 0))
                rows += sum(r.rows for r in refs)
                sizes[stage] = rows, total + sum(r.size for r in refs)
        out = []
        for name in self.directories():
            node = graph.nodes.get(name, NodeFact())
            new: int | None = None
            with contextlib.suppress(
                BadChange, FeedAway, StageMissing
            ):  # run says what is wrong with it
                new = len(self.new_files(name))
            out.append(
                NodeStatus(
                    *(name, "directory", node.epochs, node.rows, node.seconds, new),
                    paused=node.paused,
                    rejected=node.rejected,
                    on_spark=node.on_spark,
                )
            )
        for name, made in self.fed().items():
            if made.is_directory:
                continue
            node = graph.nodes.get(name, NodeFact())
            out.append(
                NodeStatus(
                    *(name, made.format or "", node.epochs, node.rows, node.seconds, None),
                    paused=node.paused,
                    rejected=node.rejected,
                    on_spark=node.on_spark,
                    once=made.format != "socket",
                )
            )
        for name, known in graph.stages.items():
            node = graph.nodes[name]
            waits = sum(len(graph.cursors[name, i].at) for i in known.inputs)
            shape = StageShown(name, known.described, False)
            out.append(
                NodeStatus(
                    *(name, shape.kind, node.epochs, node.rows, node.seconds, waits),
                    *sizes.get(name, (0, 0)),
                    paused=node.paused,
                )
            )
        for name in self.sinks:
            s = self.sink_status(name)
            did = s.syncs, s.rows, s.seconds, s.behind
            out.append(NodeStatus(name, f"{s.format} sink of {s.of}", *did))
        return out
