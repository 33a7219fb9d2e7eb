"""Feeding: what a commit changed of sources, views and flows goes to the queues of the stages that read them.

A retained source's increment is the very run that the commit wrote for it, so that a feed costs no byte; changes of views
and of flows that are not kept are written once, whatever the number of their readers. All of it is in the same commit as
the change itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from headwater.api.catalog import SETTLED, well_defined
from headwater.api.verify import source_view
from headwater.api.writing import Writable
from headwater.calculus.types import RecordType
from headwater.dataflow import maps
from headwater.dataflow.define import Stage
from headwater.dataflow.graph import Graph
from headwater.dataflow.nested import rows_changed, source_rows_changed
from headwater.dataflow.words import Punctuation
from headwater.engine.change import Change
from headwater.engine.increment import Increment
from headwater.engine.rings import spec_of
from headwater.engine.slices import whole
from headwater.engine.working import Working
from headwater.errors import FlowFull
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import Arrangement
from headwater.state.hashing import hash_keys
from headwater.state.run import MapSpec, RunRef, column
from headwater.state.store import Commit as StoreCommit


@dataclass(frozen=True)
class Feed:
    """Where the rows of something that stages read are: a map, and its columns that are those of the row."""

    spec: MapSpec
    columns: tuple[str, ...]
    row: RecordType
    shared: bool
    """Whether the map is that of a source, whose runs queues may name."""


@dataclass
class Told:
    """What a commit has to tell: of each relation the map whose new runs are its increment."""

    runs: dict[str, str] = field(default_factory=dict)
    points: dict[str, Punctuation] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)
    """Flows that send an increment though there are no rows."""


class Feeding(Writable):
    """The part of a database that tells stages what changed."""

    limit: int = 1000
    """Increments of a queue that wait to be read, at most."""
    _graph_known: tuple[int, Graph] | None = None
    _bound: dict[str, Stage]

    @property
    def graph(self) -> Graph:
        """The stages and flows of the version that the handle is at."""
        version, known = self._known_at, self._graph_known
        if known is None or known[0] != version:
            facts = self._facts_now
            known = version, well_defined(version, lambda: Graph.read(facts))
            self._graph_known = known
        return known[1]

    def _became(self, graph: Graph) -> None:
        """The graph that a commit made is that of the version that the handle is at now."""
        self._graph_known = self._known_at, graph

    def feed_of(self, name: str) -> Feed:
        """Where the rows of a source, of an array of it, of a view or of a flow are for those who read its changes."""
        if name in self.program.views:
            row = self.program.views[name].type
        else:
            source = self.catalog.owning(name)
            whole_rows = source.nested and name == source.name
            row = source.row if whole_rows else source.relations[name]
            if source.retain and not whole_rows:
                m = source.maps[name]
                return Feed(spec_of(m), tuple(m.columns), row, True)
        spec = maps.flow_spec(name, row)
        return Feed(spec, tuple(n for n, _ in spec.key), row, False)

    def _wanted(self, graph: Graph) -> frozenset[str]:
        """The views whose changes somebody reads."""
        views = self.program.views
        return frozenset(n for n in {*graph.inputs, *graph.looked_up} if n in views)

    def _tell(
        self,
        working: Working,
        graph: Graph,
        staged: Mapping[str, Change],
        increment: Increment | None,
    ) -> Told:
        """Puts what stages read and look up of a change among what the commit writes."""
        told = Told()
        inputs, indexed = graph.inputs, graph.looked_up
        if not inputs and not indexed:
            return told
        for name, change in staged.items():
            if name not in inputs and name not in indexed:
                continue
            if not change.rows or self._is_nested(name):
                continue
            feed = self.feed_of(name)
            if name in indexed or not feed.shared:
                table = whole(change, self.path, working)
                self._index(working, name, feed.row, table, indexed)
                if name in inputs and not feed.shared:
                    put(working, feed.spec, feed.columns, table)
            if name in inputs:
                told.runs[name] = feed.spec.name
        for name in sorted(self._wanted(graph)):
            assert increment is not None
            view = self.program.views[name]
            table = rows_changed(view, working) if view.parts else increment.changes_of(view)
            self._tell_rows(told, working, name, table, inputs, indexed)
        for name in {self.catalog.owning(n).name for n, c in staged.items() if c.rows}:
            if self._is_nested(name) and (name in inputs or name in indexed):
                table = self._source_rows(name, staged, working)
                self._tell_rows(told, working, name, table, inputs, indexed)
        return told

    def _source_rows(self, name: str, staged: Mapping[str, Change], working: Working) -> pa.Table:
        """The whole rows of a nested source that changed, by themselves or inside."""
        source = self.catalog.sources[name]
        parts = [p for p in source.parts if p.name in staged]
        changes = [whole(staged[p.name], self.path, working) for p in parts]
        labels = [p.label for p in parts]
        key = source.parts[0].key
        return source_rows_changed(source_view(source), key, labels, changes, working)

    def _is_nested(self, name: str) -> bool:
        """Whether something is a source whose rows are kept apart from their arrays."""
        source = self.catalog.sources.get(name)
        return source is not None and source.nested

    def _tell_rows(
        self,
        told: Told,
        working: Working,
        name: str,
        table: pa.Table,
        inputs: Collection[str],
        indexed: Mapping[str, Collection[tuple[str, ...]]],
    ) -> None:
        """Rows that changed and are in no run of their own."""
        if not table.num_rows:
            return
        feed = self.feed_of(name)
        self._index(working, name, feed.row, table, indexed)
        if name in inputs:
            put(working, feed.spec, feed.columns, table)
            told.runs[name] = feed.spec.name

    def _index(
        self,
        working: Working,
        name: str,
        row: RecordType,
        table: pa.Table,
        indexed: Mapping[str, Collection[tuple[str, ...]]],
    ) -> None:
        """The change of something that is looked up, in its indexes."""
        for on in indexed.get(name, ()):
            spec = maps.index_spec(name, row, on)
            put(working, spec, [n for n, _ in spec.key], table)

    def _send(
        self,
        commit: StoreCommit,
        graph: Graph,
        told: Told,
        made: Mapping[str, list[RunRef]],
    ) -> Graph:
        """The queues of all readers with what a commit has to tell."""
        for name in {**told.runs, **told.points, **dict.fromkeys(sorted(told.empty))}:
            refs = made.get(told.runs.get(name, ""), [])
            if not refs and name not in told.points and name not in told.empty:
                continue
            for stage in graph.readers(name):
                if refs:
                    commit.add(f"q:{stage}.{name}", refs)
                cursor = graph.cursors[stage, name].sent(commit.version, told.points.get(name))
                if len(cursor.at) > self.limit:
                    raise FlowFull(
                        f"`{name}` has {self.limit} increments that the stage `{stage}` has not read",
                        hint="run the stage; where it waits or is held, db.run() says for what; or raise db.limit",
                    )
                graph = graph.with_cursor(stage, name, cursor)
        return graph

    def _add_made(self, commit: StoreCommit, made: Mapping[str, list[RunRef]]) -> int:
        """Adds what was written to the maps that it is of; runs of flows are named by queues alone."""
        for name, refs in made.items():
            if not name.startswith("f:"):
                commit.add(name, refs)
        return sum(r.size for refs in made.values() for r in refs)

    def _set_graph(self, commit: StoreCommit, graph: Graph, before: Graph) -> None:
        if graph is not before:
            for key, value in graph.facts_since(before):
                commit.set(key, value)
        if graph.stages and graph.settled:
            commit.set(SETTLED, commit.version)


def put(working: Working, spec: MapSpec, columns: Any, table: pa.Table) -> None:
    """Rows with `_w` as new entries of a map."""
    if not table.num_rows:
        return
    working.know(spec)
    names = [n for n in table.column_names if n != WEIGHT]
    arrays = dict(zip(columns, (column(table, n) for n in names), strict=True))
    h = hash_keys([arrays[n] for n in spec.lookup], table.num_rows)
    changes = pa.table({"_h": pa.array(h), **arrays, spec.count: column(table, WEIGHT)})
    entries, _ = Arrangement(spec, (), working.runs).merge(changes, blind=True)
    working.add(spec.name, entries)


def with_points(told: Told, points: Mapping[str, Any]) -> Told:
    """With punctuations."""
    return replace(told, points={n: Punctuation(k) for n, k in points.items()})
