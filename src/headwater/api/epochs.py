"""Epochs of a database: prepared at a version, and committed whole with everything that follows from them.

Preparing reads queues and calls functions; nothing is written. The commit has state, queues, counters, the increments of the
outputs, and what these change in views, in one record: a process that is killed at any instruction leaves the version before
or after, and a function that fails leaves nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.api.catalog import SEEN, as_stored
from headwater.api.directories import Directories
from headwater.api.feeding import Told
from headwater.api.handles import Commit
from headwater.api.taking import BatchRead
from headwater.api.verify_stage import verify_stage
from headwater.calculus.types import RecordType
from headwater.dataflow import epoch, tasks
from headwater.dataflow.call import Context, Made, empty_outputs
from headwater.dataflow.calling import Failed
from headwater.dataflow.define import Stage
from headwater.dataflow.fuse import follower, takes_plain
from headwater.dataflow.graph import Graph
from headwater.dataflow.lookups import LookUps
from headwater.dataflow.queues import Inbox
from headwater.dataflow.words import Punctuation, Run
from headwater.engine.change import Change, read_file
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.working import Working
from headwater.errors import StageError
from headwater.plan.program import WEIGHT
from headwater.state import directory
from headwater.state.arrangement import Arrangement
from headwater.state.run import MapSpec
from headwater.state.snapshot import Snapshot

DEATHS = 3
"""How often a process may die in an epoch until its stage is held."""


@dataclass
class Prepared:
    """An epoch that was computed and is not committed."""

    stage: Stage
    run: Run
    made: Made
    inboxes: dict[str, Inbox]
    rows: int
    seconds: float
    then: list[Prepared] = field(default_factory=list)
    """Epochs of stages that are run together with it, each after the one whose output it reads."""

    @property
    def all(self) -> list[Prepared]:
        """It and those that are run together with it."""
        return [self, *(x for p in self.then for x in p.all)]

    @property
    def passed(self) -> set[str]:
        """The flows between stages that are run together."""
        return {i.name for p in self.all[1:] for i in p.stage.inputs}


class Epochs(Directories):
    """The part of a database that computes and commits epochs."""

    _failures: dict[str, Failed]
    """Why stages are held, until the next run."""
    _seen_ready: list[str]
    """The stages that could run when the last one was chosen."""

    def _took(self, source: str, commit: Commit) -> None:
        """A batch of a feed was taken."""

    # --- deaths ----------------------------------------------------------------------------------------------------

    def _begun(self, name: str, number: int) -> None:
        """Leaves a mark while functions are called: one that is there when an epoch begins is of a process that died."""
        times = self._deaths(name, number) + 1
        if times > DEATHS:
            why = StageError(
                f"the process died {DEATHS} times in this epoch",
                hint=f"see what its function does to the process; db[{name!r}].resume() lets it run again",
            )
            raise Failed(why)
        path = self._mark(name)
        with contextlib.suppress(OSError):  # a disk that is full is told of by the commit
            path.parent.mkdir(exist_ok=True)
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
            with os.fdopen(opened, "w") as f:
                json.dump([number, times], f)

    def _deaths(self, name: str, number: int) -> int:
        """How often a process has died in an epoch of a stage."""
        try:
            with os.fdopen(os.open(self._mark(name), os.O_RDONLY | os.O_NOFOLLOW)) as f:
                of, times = json.load(f)
        except (OSError, ValueError, TypeError):
            return 0
        return int(times) if of == number else 0

    def _ended(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._mark(name).unlink(missing_ok=True)

    def _mark(self, name: str) -> Path:
        return self.path / directory.STAGING / f"epoch-{name}.json"

    def verify_stage(self, name: str) -> None:
        """Computes the outputs of a stage anew from its inputs, and compares; `StateError` where they differ."""
        verify_stage(self, name)

    def _inboxes(self, stage: Stage, snapshot: Snapshot, graph: Graph) -> dict[str, Inbox]:
        """What waits on the inputs of a stage at a version."""
        out = {}
        for i in stage.inputs:
            queue = snapshot.arrangement(f"q:{stage.name}.{i.name}")
            columns = self._queue_columns(i.name, queue.spec)
            out[i.name] = Inbox(i, graph.cursors[stage.name, i.name], queue, columns)
        return out

    def _queue_columns(self, name: str, spec: MapSpec) -> tuple[str, ...]:
        """The columns of a queue's map that hold the row."""
        if spec.of.startswith("f:"):
            return tuple(n for n, _ in spec.key)
        return tuple(self.catalog.owning(name).maps[name].columns)

    def _prepared(
        self, name: str, run: Run, inboxes: dict[str, Inbox], snapshot: Snapshot, graph: Graph
    ) -> Prepared | BatchRead:
        """Reads and calls; nothing is written."""
        if name in self._batches.batches:
            return self._batches.batches[name]
        self._begun(name, graph.nodes[name].epochs)
        try:
            return self._computed(name, run, inboxes, snapshot, graph)
        finally:  # also where it fails: only a process that dies leaves the mark
            self._ended(name)

    def _computed(
        self, name: str, run: Run, inboxes: dict[str, Inbox], snapshot: Snapshot, graph: Graph
    ) -> Prepared:
        """The epoch of a stage, and of those that are run together with it, here or on Spark."""
        started = time.perf_counter()
        stage, tables, frames = self._bound[name], dict[str, pa.Table](), dict[str, Any]()
        if self._is_large(stage, run, inboxes):
            rows = sum(b.rows_waiting(run.reads.get(n, 0)) for n, b in inboxes.items())
            made = self._on_spark(
                stage, run, inboxes, self._context(stage, snapshot, graph, {}), snapshot
            )
            return Prepared(stage, run, made, inboxes, rows, time.perf_counter() - started)
        for n, box in inboxes.items():
            tables[n], keys = box.table(run.reads.get(n, 0))
            if keys is not None:
                frames[n] = keys
        rows = sum(t.num_rows for t in tables.values())
        context = self._context(stage, snapshot, graph, frames)
        made = epoch.run(stage, tables, context)
        out = Prepared(stage, run, made, inboxes, rows, time.perf_counter() - started)
        self._fuse(out, snapshot, graph)
        return out

    def _follower(self, stage: Stage, output: str, graph: Graph) -> Stage | None:
        """The stage that is run together with one; a view over the flow between them must see what is written."""
        after = None
        if self.policy.fuse:
            after = follower(stage, output, graph, self._bound, self._failures)
        seen = after and any(output in m.reads for m in self.program.maps.values())
        return None if seen else after

    def _fuse(self, p: Prepared, snapshot: Snapshot, graph: Graph) -> None:
        """Runs the stages that follow one directly; one that fails is left to run, and to be held, by itself."""
        for output in p.stage.outputs:
            after = self._follower(p.stage, output, graph)
            if after is None:
                continue
            started = time.perf_counter()
            context = self._context(after, snapshot, graph, {})
            try:
                if output in p.made.plain:
                    values, weights = p.made.plain[output]
                    made, rows = epoch.run_plain(after, values, weights, context), len(values)
                else:
                    given = consolidated(p.made.outputs[output])
                    made, rows = epoch.run(after, {output: given}, context), given.num_rows
            except Failed:
                p.made.settle(p.stage, self.session.zone)
                continue
            small = graph.nodes[after.name].small
            run, spent = Run({output: 1}, {output: 1}, small), time.perf_counter() - started
            fused = Prepared(after, run, made, {}, rows, spent)
            p.then.append(fused)
            self._fuse(fused, snapshot, graph)

    def _context(
        self, stage: Stage, snapshot: Snapshot, graph: Graph, frames: Mapping[str, Any]
    ) -> Context:
        node = graph.nodes[stage.name]
        behind = {o: self._follower(stage, o, graph) for o in stage.outputs}
        passes = frozenset(o for o, s in behind.items() if s is not None and takes_plain(s))

        def arrangement(spec: MapSpec) -> Arrangement:
            return snapshot.arrangement(spec.name)

        look_up = LookUps(
            stage,
            self._looked_up(stage),
            arrangement,
            lambda n: self._whole_rows(n, snapshot.number),
        )
        zone = self.session.zone
        return Context(
            arrangement, node.epochs, node.clock, node.swept, frames, look_up, zone, passes
        )

    def _looked_up(self, stage: Stage) -> dict[str, RecordType]:
        """The columns of what a stage looks up."""
        if not stage.lookups:
            return {}
        known = self._readables()
        return {k.what: known[k.what].row for k in stage.lookups.values()}

    def _on_spark(
        self,
        stage: Stage,
        run: Run,
        inboxes: dict[str, Inbox],
        context: Context,
        snapshot: Snapshot,
    ) -> Made:
        """An epoch of many rows."""
        context = replace(context, clock=_clock(stage, run, inboxes, context.clock))
        found = tasks.run(
            self.session,
            self.path,
            stage,
            inboxes,
            run.reads,
            context,
            snapshot,
            self._looked_up(stage),
            snapshot.number + 1,
        )
        swept = _swept(stage, context)
        made = Made(empty_outputs(stage), {}, found.points, context.clock, swept, found.aside)
        made.stored = found.runs
        for name, tables in found.foreign.items():
            made.entries[name] = [(snapshot.version.maps[name][0], t) for t in tables]
        for o, files in found.files.items():
            tables = [read_file(self.path / f) for f in files]
            made.outputs[o] = pa.concat_tables([made.outputs[o], *tables])
            made.files += files
        return made

    def _is_large(self, stage: Stage, run: Run, inboxes: Mapping[str, Inbox]) -> bool:
        """Whether an epoch is for Spark."""
        if any(k.on is None for k in stage.lookups.values()):
            return False  # all rows of what is looked up are here
        rows = sum(b.rows_waiting(run.reads.get(n, 0)) for n, b in inboxes.items())
        return rows > self.policy.most_here

    def _committed(self, p: Prepared | BatchRead) -> None:
        """An epoch with everything that follows from it, as the next version."""
        if isinstance(p, BatchRead):
            done = self._take_batch(p, self._seen_ready)
            if done is not None:
                self._took(p.source, done)
            return
        before, name, passed = self.graph, p.stage.name, p.passed
        outputs = {
            o: consolidated(t) for x in p.all for o, t in x.made.outputs.items() if o not in passed
        }
        if before.nodes[name].replays:
            outputs |= {o: self._instead(o, t) for o, t in outputs.items()}
        for x in p.all:
            if x.made.aside:
                outputs[f"{x.stage.name}_failed"] = _aside(x.made.aside)
        staged = {o: Change.of(t) for o, t in outputs.items() if t.num_rows}
        moved = {r for m in self.program.maps.values() for r in m.reads}.intersection(staged)
        graph = before
        for x in p.all:
            graph = _counted(graph, x)
        schedule = before.schedule.seen({*self._seen_ready, name})
        graph = replace(graph, schedule=schedule.ran(name))
        with self._commit(f"stage {name}", minor=not moved) as commit:
            working = self._working(commit, self.program)
            increment = None
            if moved:
                _, increment = self._carry(working, staged, self._wanted(before))
            with as_stored(self.version):
                told = self._tell(working, before, staged, increment) if staged else Told()
            for x in p.all:
                points = {o: k for o, k in x.made.points.items() if o not in passed}
                told.points.update({o: Punctuation(k) for o, k in points.items()})
                self._keep(working, x.made)
            told.empty = {o for o in outputs if not before.flows[o].declared}
            over, _ = self._close(commit, working, staged, {})
            made = self._written(working)
            self._add_made(commit, made)
            graph = self._read_by(commit, p, graph)
            graph = self._send(commit, graph, told, made)
            for o in {*staged, *passed}:
                if not self.catalog.sources[o].retain and f"{SEEN}{o}" not in commit.base.facts:
                    commit.set(f"{SEEN}{o}", True)
            self._set_graph(commit, graph, before)
        self._became(graph)
        self._is_over(over)
        for x in p.all:
            for f in x.made.files:
                (self.path / f).unlink(missing_ok=True)
        assert self._writer is not None
        self._writer.tidy()

    def _instead(self, output: str, table: pa.Table) -> pa.Table:
        """Rows of an output in place of all that it has."""
        there = self.table(output)
        weights = pc.negate(there.column(WEIGHT))
        gone = there.set_column(there.schema.get_field_index(WEIGHT), WEIGHT, weights)
        return consolidated(
            pa.concat_tables([table, gone.select(table.column_names).cast(table.schema)])
        )

    def _keep(self, working: Working, made: Made) -> None:
        """New entries of a stage's own maps, and runs of them that tasks have written."""
        working.add_stored(made.stored)
        for pieces in made.entries.values():
            spec = pieces[0][0]
            working.know(spec)
            table = pa.concat_tables([t for _, t in pieces])
            at = Arrangement(spec, (), working.runs)
            new = at.put(table) if spec.kind == "latest" else at.merge(table, blind=True)[0]
            working.add(spec.name, new)

    def _read_by(self, commit: Any, p: Prepared, graph: Graph) -> Graph:
        """The queues of a stage without what its epoch has removed."""
        removes = p.run.removes or {}
        for i in p.stage.inputs:
            now, box = graph.cursors[p.stage.name, i.name], p.inboxes[i.name]
            seen = replace(now, cut=box.cursor.cut, done=box.cursor.done)
            left = seen.removed(i, removes.get(i.name, 0))
            queue = f"q:{p.stage.name}.{i.name}"
            gone = seen.gone(commit.base.maps[queue][1], left)
            if gone:
                commit.remove(queue, gone)
            graph = graph.with_cursor(p.stage.name, i.name, left)
        return graph


def _clock(stage: Stage, run: Run, inboxes: Mapping[str, Inbox], clock: Any) -> Any:
    """The clock of an epoch: the greatest time of all rows that it reads, and of those before."""
    seen = [clock]
    for i in stage.inputs:
        if stage.clock in i.columns and run.reads.get(i.name, 0):
            table, _ = inboxes[i.name].table(run.reads[i.name])
            seen.append(pc.max(table.column(stage.clock)).as_py())
    return max((v for v in seen if v is not None), default=None)


def _swept(stage: Stage, context: Context) -> Any:
    """When an epoch that tasks have computed took away what had expired, as each of them did."""
    for p in stage.state:
        if p.expires is not None and context.clock is not None:
            if context.swept is None or context.clock - context.swept >= p.expires:
                return context.clock
    return context.swept


def _counted(graph: Graph, p: Prepared) -> Graph:
    """The counters of a stage after an epoch; one that was run together with another has removed what it never queued."""
    node, name = graph.nodes[p.stage.name], p.stage.name
    graph = graph.with_node(
        name,
        epochs=node.epochs + 1,
        small=p.run.small,
        clock=p.made.clock,
        swept=p.made.swept,
        replays=False,
        rows=node.rows + p.rows,
        seconds=round(node.seconds + p.seconds, 6),
    )
    if not p.inboxes:
        (given,) = p.stage.inputs
        cursor = graph.cursors[name, given.name]
        first = cursor.first + 1
        graph = graph.with_cursor(name, given.name, replace(cursor, first=first, done=first))
    return graph


def _aside(rows: list[tuple[str, str, str, str]]) -> pa.Table:
    """Rows that were set aside, as a change."""
    names = ["input", "key", "row", "error"]
    arrays = [pa.array([r[i] for r in rows], pa.large_string()) for i in range(4)]
    ones = pa.array([1] * len(rows), pa.int64())
    return consolidated(pa.table([*arrays, ones], [*names, WEIGHT]))
