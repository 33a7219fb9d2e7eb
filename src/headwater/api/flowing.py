"""Stages and flows of a database: defined, bound to their functions, read, and dropped.

A stage's definition is data in the log and its function is bound by name in each process: `db.stage` again with the same
definition binds it, and with another one is refused, or taken, as `changed` says. Every output is known to queries like a
source, and is kept to be looked at unless only stages read it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headwater.api.catalog import SEEN, Catalog, SourceDef, facts_of
from headwater.api.dropping import without_source
from headwater.api.feeding import put
from headwater.api.stages import FlowHandle
from headwater.api.widening import Widening
from headwater.dataflow import maps
from headwater.dataflow.define import Readable, Stage
from headwater.dataflow.framing import Cut
from headwater.dataflow.graph import FlowFact, Graph, Known
from headwater.dataflow.nested import in_one_order
from headwater.dataflow.queues import Cursor
from headwater.engine.rings import spec_of
from headwater.errors import InUse, NameTaken, NotRetained, Purged, StageError
from headwater.language.declared import ddl_of, declared
from headwater.plan.program import Program
from headwater.state.store import Commit as StoreCommit

FLOW = "flow"
"""What writes a flow that was declared, until a stage does."""


class Flowing(Widening):
    """The part of a database that has stages and flows."""

    def flow(self, name: str, schema: str, *, retain: bool | None = None) -> FlowHandle:
        """Declares a flow before the stage that writes it: every cycle has one. It sends nothing where there is nothing."""
        name = self.catalog.named(name)
        known = self.graph.flows.get(name)
        row = declared(schema).row
        if known is not None and known.declared and self.catalog.sources[name].row == row:
            return FlowHandle(self, name)
        with self._locked():
            self._writing()
            self._check_name(name)
            graph = self.graph
            made = self._flow_source(name, ddl_of(row), FLOW, retain is not False)
            catalog, program = self._with_sources([made])
            after = graph.with_flow(FlowFact(name, "", True, retain))
            with self._commit(f"flow {name}", (catalog, program)) as commit:
                self._create_sources(commit, [made])
                self._set_graph(commit, after, graph)
            self._became(after)
        return FlowHandle(self, name)

    # --- defining --------------------------------------------------------------------------------------------------

    def _readables(self) -> dict[str, Readable]:
        """Everything that a stage may read, by name: sources, arrays of sources that have an owner, flows and views."""
        out = {n: Readable(s.row, False, bool(s.retain)) for n, s in self.catalog.sources.items()}
        for s in self.catalog.sources.values():
            if s.nested:
                inner = {n: r for n, r in s.relations.items() if n != s.name}
                out |= {n: Readable(r, False, False) for n, r in inner.items()}
        return out | {n: Readable(v.type, True) for n, v in self.program.views.items()}

    def _refuse_path(self, stage: str, name: str) -> None:
        """Raises for the path of an array in a view: it has no rows that could be addressed by themselves."""
        head = self.catalog.named(name.partition(".")[0])
        if "." in name and head in self.program.views:
            raise StageError(
                f"the stage `{stage}` reads `{name}`, an array of the view `{head}`",
                hint=f'read "{head}", whose rows come whole, or define a view that opens the array',
            )

    def _define_stage(
        self, stage: Stage, marks: Mapping[str, str], again: Known | None = None
    ) -> None:
        """Defines a stage; `again` is what it was, where it begins anew in its place."""
        graph = self.graph
        if again is None:
            self._check_outputs(stage, graph)
        self._check_rows_are_there(stage)
        new = [
            self._flow_source(n, ddl_of(row), stage.name, stage.retain is not False)
            for n, row in stage.outputs.items()
            if n not in self.catalog.sources
        ]
        if stage.on_error == "set aside" and again is None:
            new.append(self._flow_source(f"{stage.name}_failed", ASIDE, stage.name, True))
        catalog, program = self._with_sources(new)
        after = _with_stage(graph, stage, marks, again)
        with self._commit(f"stage {stage.name}", (catalog, program)) as commit:
            self._create_sources(commit, new)
            for m in commit.base.maps if again is not None else ():
                if maps.is_of_stage(m, stage.name):
                    commit.drop(m)
            for spec in maps.specs_of(stage):
                commit.create(spec)
            after = self._first_increments(commit, stage, after, again is not None)
            self._set_graph(commit, after, graph)
        self._became(after)

    def _first_increments(
        self, commit: StoreCommit, stage: Stage, graph: Graph, always: bool
    ) -> Graph:
        """The queues and indexes of a new stage, with the rows that are there; `always` sends an increment without rows, too.

        A source's queue names the runs of its map. Rows that are in no map of their own are written once.
        """
        working = self._working(commit, self.program)
        feeds = {i.name: self.feed_of(i.name) for i in stage.inputs}
        for i in stage.inputs:
            feed = feeds[i.name]
            commit.create(maps.queue_spec(stage.name, i.name, feed.spec))
            if i.start == "all" and not feed.shared:
                table = self._rows_now(i.name)
                if table is not None:
                    put(working, feed.spec, feed.columns, table)
        self._create_indexes(commit, working, stage, self.graph)
        made = self._written(working)
        self._add_made(commit, made)
        for i in stage.inputs:
            feed = feeds[i.name]
            refs = made.get(feed.spec.name, [])
            if feed.shared and i.start == "all":
                refs = list(commit.base.maps[feed.spec.name][1])
            cursor = Cursor(cut=Cut(small=i.framing.small if i.framing else None))
            if refs:
                commit.add(f"q:{stage.name}.{i.name}", refs)
            if refs or always:  # a replay takes back what it has sent, though there is nothing now
                cursor = cursor.sent(commit.version)
            graph = graph.with_cursor(stage.name, i.name, cursor)
        return graph

    def _check_outputs(self, stage: Stage, graph: Graph) -> None:
        for n in stage.outputs:
            flow = graph.flows.get(n)
            if flow is not None and flow.declared and not flow.writer:
                if self.catalog.sources[n].row != stage.outputs[n]:
                    raise StageError(
                        f"the stage `{stage.name}` writes `{n}` with other columns than were declared",
                        hint=f"columns of `{n}`: {self.catalog.sources[n].ddl}",
                    )
                continue
            if flow is not None:
                raise NameTaken(
                    f"the stage `{flow.writer or n}` writes `{n}` already",
                    hint="a flow has one writer: give the output another name",
                )
            self._check_name(n)
        taken = {*self.catalog.sources, *self.catalog.views}
        if (
            stage.name not in stage.outputs and stage.name in taken
        ) or stage.name in self.stream_defs:
            raise NameTaken(
                f"there is a source, view or stream `{stage.name}` already",
                hint="give the stage another name",
            )

    def _check_rows_are_there(self, stage: Stage) -> None:
        """A stage that begins with all rows must find them, as a view must."""
        facts = self.store.at(self.version).facts
        for i in stage.inputs:
            source = self.catalog.sources.get(i.name)
            gone = source is not None and not source.retain and f"{SEEN}{i.name}" in facts
            if gone and i.start == "all":
                raise NotRetained(
                    f"the stage `{stage.name}` reads `{i.name}`, which keeps no copy of its rows, and has had some already",
                    hint=f'flow.reads("{i.name}", start="new") begins with those that come',
                )
            if source is None or source.retain != "open" or i.name not in self.over.closed:
                continue
            if i.start == "all":
                raise Purged(
                    f"the stage `{stage.name}` reads `{i.name}`, of which some is over and kept no more",
                    hint=f'flow.reads("{i.name}", start="new") begins with those that come',
                )

    def _rows_now(self, name: str) -> pa.Table | None:
        """All rows of something that has rows to look at."""
        source = self.catalog.sources.get(name)
        if source is not None and not source.retain:
            return None
        return self._whole_rows(name, None)

    def _whole_rows(self, name: str, version: int | None) -> pa.Table:
        """All rows with `_w`; those that are nested with their inner bags in one order."""
        table = self.table(name, version)
        view = self.program.views.get(name)
        nested = view is not None and bool(view.parts)
        if view is None:
            nested = self.catalog.sources[name].nested
        return in_one_order(self._readables()[name].row, table) if nested else table

    def _create_indexes(
        self, commit: StoreCommit, working: Any, stage: Stage, graph: Graph
    ) -> None:
        """The indexes that a stage's look-ups need and nobody has needed yet, filled from what is there."""
        there = graph.looked_up
        made: set[str] = set()
        for look in stage.lookups.values():
            if look.on is None:
                continue
            on = tuple(b for _, b in look.on)
            if on in there.get(look.what, ()):
                continue
            row = self._readables()[look.what].row
            spec = maps.index_spec(look.what, row, on)
            if spec.name in made:
                continue
            made.add(spec.name)
            commit.create(spec)
            put(working, spec, [n for n, _ in spec.key], self._whole_rows(look.what, None))

    def _flow_source(self, name: str, ddl: str, written: str, retain: bool) -> SourceDef:
        made = SourceDef(name, ddl, retain=retain, written=written)
        return replace(made, held_in=tuple(m.name for m in made.all_maps))

    def _with_sources(self, new: list[SourceDef]) -> tuple[Catalog, Program]:
        catalog = Catalog({**self.catalog.sources, **{s.name: s for s in new}}, self.catalog.views)
        program = self.program
        for s in new:
            program = catalog.with_source(program, s)
        return catalog, program

    def _create_sources(self, commit: StoreCommit, new: list[SourceDef]) -> None:
        for s in new:
            commit.set(*facts_of(s))
            if s.retain:
                for m in s.all_maps:
                    commit.create(spec_of(m))

    def _decide_flows(self, running: Collection[str]) -> bool:
        """Flows that are about to get their first increment: whether they are kept is decided now; whether any was.

        One that a view reads, or that no stage reads, is kept; one that only stages read is not. They are those of the
        stages that run, and of all behind them, which may be run together with them.
        """
        graph = self.graph
        writers = graph.behind(running)
        new = [f for f in graph.flows.values() if f.retained is None and f.writer in writers]
        for flow in new:
            kept = bool(self.catalog.readers(flow.name)) or not graph.readers(flow.name)
            kept = kept or flow.name in {w for s in graph.stages.values() for w, _ in s.looks_up}
            after = graph.with_flow(replace(flow, retained=kept))
            source = self.catalog.sources[flow.name]
            if kept or not source.retain:
                with self._commit(f"flow {flow.name}", minor=True) as commit:
                    self._set_graph(commit, after, graph)
            else:
                self._let_go(source, after, graph)
            self._became(after)
            graph = after
        return bool(new)

    def _let_go(self, source: SourceDef, after: Graph, graph: Graph) -> None:
        """A flow whose rows are not kept; its queues name runs of their own from now on."""
        old = {m.name for m in source.all_maps}
        program = without_source(self.program, set(source.relations), old)
        made = replace(source, retain=False, held_in=())
        made = replace(made, held_in=tuple(m.name for m in made.all_maps))
        catalog = Catalog({**self.catalog.sources, source.name: made}, self.catalog.views)
        program = catalog.with_source(program, made)
        spec = maps.flow_spec(source.name, source.row)
        with self._commit(f"flow {source.name}", (catalog, program), minor=True) as commit:
            commit.set(*facts_of(made))
            for m in old:
                commit.drop(m)
            for stage in graph.readers(source.name):
                commit.drop(f"q:{stage}.{source.name}")
                commit.create(maps.queue_spec(stage, source.name, spec))
            self._set_graph(commit, after, graph)

    # --- dropping --------------------------------------------------------------------------------------------------

    def drop(self, name: str) -> None:
        """Takes away a view, a source, a flow or a stage that nothing reads, with what only it needs."""
        with self._locked():
            self._writing()
            graph = self.graph
            if name in graph.stages:
                self._drop_stage(name)
                return
            name = self.catalog.named(name)
            readers = [
                *graph.readers(name),
                *(s.name for s in graph.stages.values() if name in [w for w, _ in s.looks_up]),
            ]
            if readers:
                raise InUse(
                    f"`{name}` is read by the stage `{readers[0]}`",
                    hint=f"drop `{readers[0]}` first",
                )
            flow = graph.flows.get(name)
            if flow is not None and flow.writer:
                raise InUse(
                    f"`{name}` is written by the stage `{flow.writer}`",
                    hint=f"drop `{flow.writer}` first",
                )
            super().drop(name)
            if flow is not None:
                after = replace(graph, flows={n: f for n, f in graph.flows.items() if n != name})
                with self._commit(f"flow {name}") as commit:
                    self._set_graph(commit, after, graph)
                self._became(after)

    def _drop_stage(self, name: str) -> None:
        """Takes away a stage with its state, its queues, and the outputs that only it could write."""
        graph = self.graph
        own = [n for n, f in graph.flows.items() if f.writer == name]
        for output in own:
            others = [r for r in graph.readers(output) if r != name]
            readers = [*others, *self.catalog.readers(output)]
            if readers:
                raise InUse(
                    f"`{output}`, which `{name}` writes, is read by `{readers[0]}`",
                    hint=f"drop `{readers[0]}` first",
                )
        gone = [n for n in own if not graph.flows[n].declared or n == f"{name}_failed"]
        after = _without_stage(graph, name, own, gone)
        catalog, program = self._without_flows(gone)
        needed = {maps.index_name(w, on) for w, ons in after.looked_up.items() for on in ons}
        with self._commit(f"drop {name}", (catalog, program)) as commit:
            for key in (k for o in gone for k in (f"source:{o}", f"{SEEN}{o}")):
                if key in commit.base.facts:
                    commit.set(key, None)
            for m in commit.base.maps:
                kept = m in program.maps or m in needed
                if not kept and (not maps.is_of_graph(m) or _only_of(m, name)):
                    commit.drop(m)
            self._set_graph(commit, after, graph)
        self._bound.pop(name, None)
        self._became(after)

    def _without_flows(self, gone: Collection[str]) -> tuple[Catalog, Program]:
        """The catalog and the program without some flows."""
        catalog, program = self.catalog, self.program
        for output in gone:
            source = catalog.sources[output]
            held = {m.name for m in source.all_maps}
            program = without_source(program, set(source.relations), held)
        sources = {n: s for n, s in catalog.sources.items() if n not in gone}
        return Catalog(sources, catalog.views), program


def _only_of(name: str, stage: str) -> bool:
    """Whether a map of the graph goes with a stage: its own, and indexes, which go unless another needs them."""
    return maps.is_of_stage(name, stage) or name.startswith("l:")


def _with_stage(graph: Graph, stage: Stage, marks: Mapping[str, str], again: Known | None) -> Graph:
    """The graph with a stage, new or in place of what it was, its flows and its counters; its cursors come later."""
    place = 1 + max((s.place for s in graph.stages.values()), default=0)
    if again is not None:
        place = again.place
    known = Known(stage.name, place, stage.described(), dict(marks), stage.retain)
    cursors = {k: c for k, c in graph.cursors.items() if k[0] != stage.name}
    out = replace(graph, stages={**graph.stages, stage.name: known}, cursors=cursors)
    if again is None:
        for n in stage.outputs:
            before = graph.flows.get(n)
            retained = stage.retain if before is None else before.retained
            out = out.with_flow(FlowFact(n, stage.name, before is not None, retained))
        if stage.on_error == "set aside":
            out = out.with_flow(FlowFact(f"{stage.name}_failed", stage.name, True, True))
    small = stage.runnable.small
    return out.with_node(stage.name, small=small, clock=None, swept=None, replays=again is not None)


def _without_stage(graph: Graph, name: str, own: Collection[str], gone: Collection[str]) -> Graph:
    """The graph without a stage; of its flows some are gone, and the others have no writer."""
    flows = {n: f for n, f in graph.flows.items() if n not in gone}
    flows |= {n: replace(flows[n], writer="") for n in own if n in flows}
    return Graph(
        {n: s for n, s in graph.stages.items() if n != name},
        flows,
        {k: c for k, c in graph.cursors.items() if k[0] != name},
        {n: x for n, x in graph.nodes.items() if n != name},
        graph.schedule.without(name),
    )


ASIDE = "input STRING, key STRING, row STRING, error STRING"
"""The columns of rows that were set aside."""
