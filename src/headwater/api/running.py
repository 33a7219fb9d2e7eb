"""Running: epochs of stages, chosen by the scheduler, each committed whole with everything that follows from it.

An epoch is prepared at a version, by reading queues and calling functions, and then committed: state, queues, counters,
the increments of its outputs, and what these change in views, in one record. So a process that is killed at any
instruction leaves the version before or after, and a function that fails leaves nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.api.catalog import SEEN
from headwater.api.directories import Directories, FilesRead, not_named
from headwater.api.feeding import Told
from headwater.api.held import failure
from headwater.calculus.types import RecordType
from headwater.dataflow import epoch, tasks
from headwater.dataflow.call import Context, Made, empty_outputs
from headwater.dataflow.calling import Failed
from headwater.dataflow.define import Stage
from headwater.dataflow.fuse import follower, takes_plain
from headwater.dataflow.graph import Graph
from headwater.dataflow.lookups import LookUps
from headwater.dataflow.queues import Inbox
from headwater.dataflow.runnable import Waiting, decided
from headwater.dataflow.words import Punctuation, Run
from headwater.engine.change import Change, read_file
from headwater.engine.here.answers import consolidated
from headwater.engine.working import Working
from headwater.errors import (
    BadChange,
    CycleLimit,
    EngineError,
    QueryError,
    StageMissing,
    Stuck,
)
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import Arrangement
from headwater.state.run import MapSpec
from headwater.state.snapshot import Snapshot


@dataclass
class Progress:
    """What `run` did: which stages ran, in order, how long it took, and what waits for what."""

    epochs: list[str] = field(default_factory=list)
    seconds: float = 0.0
    waiting: dict[str, dict[str, int]] = field(default_factory=dict)
    """By stage and input, how many complete frames wait; only stages that have any, or are held."""
    held: dict[str, str] = field(default_factory=dict)
    stopped: str = "nothing can run"

    def __str__(self) -> str:
        waits = [f"{s} waits with {dict(w)}" for s, w in self.waiting.items()]
        told = [f"{len(self.epochs)} epochs in {self.seconds:.2f} s; {self.stopped}", *waits]
        return "\n".join([*told, *(f"{s} is held: {why}" for s, why in self.held.items())])


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


class Running(Directories):
    """The part of a database that runs stages."""

    _failures: dict[str, Failed]
    """Why stages are held, until the next run."""
    _seen_ready: list[str]

    def run(
        self,
        *,
        epochs: int | None = None,
        seconds: float | None = None,
        every: float | None = None,
        rounds: int = 1000,
        workers: int = 1,
        bottlenecks: bool = True,
    ) -> Progress:
        """Runs stages until nothing can run, or for so many epochs or seconds, or until `stop`.

        With `every` it looks for input again after so many seconds, for ever unless `seconds` says otherwise. A cycle may
        run for `rounds` epochs without input from outside. With `workers` functions of different stages are called at the
        same time. Without `bottlenecks` stages run though what they wrote before is unread. Raises `StageFailed` at its
        end if a stage failed; the others went on.
        """
        _check_amounts(epochs=epochs, seconds=seconds, every=every, rounds=rounds, workers=workers)
        started = time.monotonic()
        self._stopping = threading.Event()
        self._failures = {}
        self._look_again()
        out = Progress()
        turns = _Turns(rounds)
        while True:
            left = None if seconds is None else seconds - (time.monotonic() - started)
            if self._stopping.is_set():
                out.stopped = "it was stopped"
                break
            if (epochs is not None and len(out.epochs) >= epochs) or (
                left is not None and left <= 0
            ):
                out.stopped = "it was asked for no more"
                break
            most = workers if epochs is None else min(workers, epochs - len(out.epochs))
            ran = self._turn(most, bottlenecks, turns)
            out.epochs += ran
            if ran:
                continue
            if every is None:
                break
            self._failures.clear()
            self._look_again()
            self._stopping.wait(every if left is None else min(every, left))
            self.refresh()
        out.seconds = time.monotonic() - started
        self._finish(out)
        return out

    def stop(self) -> None:
        """Ends a `run` of another thread, after the epoch that it is in."""
        event = getattr(self, "_stopping", None)
        if event is not None:
            event.set()

    def _pause(self, name: str, paused: bool) -> None:
        with self._locked():
            self._writing()
            before = self.graph
            after = before.with_node(name, paused=paused)
            with self._commit(f"stage {name}", minor=True) as commit:
                self._set_graph(commit, after, before)
            self._became(after)

    def _turn(self, most: int, bottlenecks: bool, turns: _Turns) -> list[str]:
        """Runs the stage whose turn it is, or several at the same time; who ran."""
        with self._locked():
            self._writing()
            self._decide_flows()
            snapshot, graph = self.store.at(self.version), self.graph
            chosen = self._chosen(snapshot, graph, most, bottlenecks)
            if not chosen:
                return []
            if len(chosen) == 1 or most == 1:
                name, run, inboxes = chosen[0]
                return self._one(
                    name, lambda: self._prepared(name, run, inboxes, snapshot, graph), turns
                )
        with ThreadPoolExecutor(most) as pool:
            jobs = [
                (n, pool.submit(self._prepared, n, r, i, snapshot, graph)) for n, r, i in chosen
            ]
            ran: list[str] = []
            for name, job in jobs:
                with self._locked():
                    self._writing()
                    ran += self._one(name, job.result, turns)
        return ran

    def _one(
        self, name: str, prepare: Callable[[], Prepared | FilesRead], turns: _Turns
    ) -> list[str]:
        """An epoch of a stage, committed; one that fails is noted, and its stage held until the next run."""
        turns.ran(self, name)
        try:
            prepared = prepare()
            self._committed(prepared)
        except Failed as e:
            self._failures[name] = e
        except (
            BadChange,
            EngineError,
            QueryError,
        ) as e:  # of what it gave, in a view or in a flow that is kept
            self._failures[name] = Failed(e)
        return [name]

    # --- choosing --------------------------------------------------------------------------------------------------

    def _inboxes(self, stage: Stage, snapshot: Snapshot, graph: Graph) -> dict[str, Inbox]:
        """What waits on the inputs of a stage at a version."""
        out = {}
        for i in stage.inputs:
            queue = snapshot.arrangement(f"q:{stage.name}.{i.name}")
            columns = self._queue_columns(i.name, queue.spec)
            out[i.name] = Inbox(i, graph.cursors[stage.name, i.name], queue, columns)
        return out

    def _queue_columns(self, name: str, spec: MapSpec) -> tuple[str, ...]:
        source = self.catalog.sources.get(name)
        if source is not None and not spec.of.startswith("f:"):
            return tuple(source.maps[name].columns)
        return tuple(n for n, _ in spec.key)

    def _chosen(
        self, snapshot: Snapshot, graph: Graph, most: int, bottlenecks: bool
    ) -> list[tuple[str, Run, dict[str, Inbox]]]:
        """The stages that run next, with what they read."""
        ready: dict[str, tuple[Run, dict[str, Inbox]]] = {}
        waits: dict[str, Mapping[str, Waiting]] = {}
        for name in graph.stages:
            stage = self._bound.get(name)
            if stage is None or graph.nodes[name].paused:
                continue
            inboxes = self._inboxes(stage, snapshot, graph)
            try:
                waits[name] = {n: b.waiting() for n, b in inboxes.items()}
                if name in self._failures:
                    continue
                run = decided(stage.runnable, waits[name], graph.nodes[name].small)
            except Exception as e:  # what a user wrote may raise anything
                self._failures[name] = Failed(e)
                continue
            if run is not None:
                ready[name] = run, inboxes
        for name in self._directories_ready(graph, self._failures):
            ready[name] = Run(), {}
        schedule = graph.schedule.seen(list(ready))
        full = [n for n in ready if bottlenecks and self._full(n, graph, waits)]
        out: list[tuple[str, Run, dict[str, Inbox]]] = []
        while len(out) < most and (turn := schedule.next(full)) is not None:
            out.append((turn, *ready[turn]))
            schedule = schedule.without(turn)
        self._seen_ready = list(ready)
        return out

    def _full(self, name: str, graph: Graph, waits: Mapping[str, Mapping[str, Waiting]]) -> bool:
        """Whether every reader of every output of a stage has a complete frame that it has not read."""
        unread = [
            bool(len(waits[r][o])) if r in waits else bool(graph.cursors[r, o].at)
            for o in self._sends(name, graph)
            for r in graph.readers(o)
        ]
        return bool(unread) and all(unread)

    def _sends(self, name: str, graph: Graph) -> Iterator[str]:
        """The flows that an epoch of a stage would write, with the stages that are run together with it."""
        for o in graph.stages[name].outputs if name in graph.stages else [name]:
            bound = self._bound.get(name)
            after = None if bound is None else self._follower(bound, o, graph)
            if after is None:
                yield o
            else:
                yield from self._sends(after.name, graph)

    # --- an epoch --------------------------------------------------------------------------------------------------

    def _prepared(
        self, name: str, run: Run, inboxes: dict[str, Inbox], snapshot: Snapshot, graph: Graph
    ) -> Prepared | FilesRead:
        """Reads and calls; nothing is written."""
        if name not in graph.stages:
            return self._read_files(name)
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
        if not self.policy.fuse:
            return None
        return follower(stage, output, graph, self._bound, self._failures)

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
            stage, self._looked_up(stage), arrangement, lambda n: self.table(n, snapshot.number)
        )
        zone = self.session.zone
        return Context(arrangement, node.epochs, node.clock, frames, look_up, zone, passes)

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
        made = Made(empty_outputs(stage), {}, found.points, context.clock, found.aside)
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

    def _committed(self, p: Prepared | FilesRead) -> None:
        """An epoch with everything that follows from it, as the next version."""
        if isinstance(p, FilesRead):
            return self._take_files(p, self._seen_ready)
        before, name, passed = self.graph, p.stage.name, p.passed
        outputs = {
            o: consolidated(t) for x in p.all for o, t in x.made.outputs.items() if o not in passed
        }
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
            told = self._tell(working, before, staged, increment) if staged else Told()
            for x in p.all:
                points = {o: k for o, k in x.made.points.items() if o not in passed}
                told.points.update({o: Punctuation(k) for o, k in points.items()})
                self._keep(working, x.made)
            told.empty = {o for o in outputs if not before.flows[o].declared}
            made = self._written(working)
            self._add_made(commit, made)
            graph = self._read_by(commit, p, graph)
            graph = self._send(commit, graph, told, made)
            for o in {*staged, *passed}:
                if not self.catalog.sources[o].retain and f"{SEEN}{o}" not in commit.base.facts:
                    commit.set(f"{SEEN}{o}", True)
            self._set_graph(commit, graph, before)
        self._became(graph)
        for x in p.all:
            for f in x.made.files:
                (self.path / f).unlink(missing_ok=True)
        assert self._writer is not None
        self._writer.tidy()

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

    # --- the end of a run ------------------------------------------------------------------------------------------

    def _finish(self, out: Progress) -> None:
        """What waits, and errors of what failed or is missing."""
        graph = self.graph
        for name in graph.stages:
            counts = {i: len(graph.cursors[name, i].at) for i in graph.stages[name].inputs}
            if any(counts.values()):
                out.waiting[name] = counts
        for name, failed in self._failures.items():
            out.held[name] = failed.told
        for name, failed in self._failures.items():
            raise failure(name, graph, failed, self.catalog.sources)
        if out.stopped != "nothing can run":
            return
        missing = [n for n in out.waiting if n not in self._bound and not graph.nodes[n].paused]
        for made in self.directories().values():
            if not self._is_watched(made):
                raise not_named(made)
        if missing:
            raise StageMissing(
                f"the stage `{missing[0]}` has input to read, and no function in this process",
                hint="define it again with db.stage, by the same name",
            )
        for name, counts in out.waiting.items():
            for i, n in counts.items():
                flow = graph.flows.get(i)
                if not n and flow is not None and not flow.writer:
                    raise Stuck(
                        f"the stage `{name}` waits for `{i}`, which no stage writes",
                        hint=f"define a stage with `{i}` among its outputs",
                    )


def _clock(stage: Stage, run: Run, inboxes: Mapping[str, Inbox], clock: Any) -> Any:
    """The clock of an epoch: the greatest time of all rows that it reads, and of those before."""
    seen = [clock]
    for i in stage.inputs:
        if stage.clock in i.columns and run.reads.get(i.name, 0):
            table, _ = inboxes[i.name].table(run.reads[i.name])
            seen.append(pc.max(table.column(stage.clock)).as_py())
    return max((v for v in seen if v is not None), default=None)


def _counted(graph: Graph, p: Prepared) -> Graph:
    """The counters of a stage after an epoch; one that was run together with another has removed what it never queued."""
    node, name = graph.nodes[p.stage.name], p.stage.name
    graph = graph.with_node(
        name,
        epochs=node.epochs + 1,
        small=p.run.small,
        clock=p.made.clock,
        rows=node.rows + p.rows,
        seconds=round(node.seconds + p.seconds, 6),
    )
    if not p.inboxes:
        (given,) = p.stage.inputs
        cursor = graph.cursors[name, given.name]
        first = cursor.first + 1
        graph = graph.with_cursor(name, given.name, replace(cursor, first=first, done=first))
    return graph


class _Turns:
    """How often stages ran since input came from outside."""

    def __init__(self, rounds: int):
        self.rounds, self.counts, self.outside = rounds, dict[str, int](), -1

    def ran(self, db: Running, name: str) -> None:
        """Counts; `CycleLimit` where a stage of a cycle runs for too long."""
        if name not in db.graph.stages:  # a directory: that is input from outside
            self.counts.clear()
            return
        count = self.counts[name] = self.counts.get(name, 0) + 1
        if count <= self.rounds:
            return
        graph = db.graph
        if count > self.rounds + sum(len(c.at) for c in graph.cursors.values()):
            path = cycle(name, db)
            if path:
                sizes = ", ".join(
                    f"{s}.{i}: {len(c.at)}" for (s, i), c in graph.cursors.items() if s in path
                )
                raise CycleLimit(
                    f"the cycle {' → '.join([*path, path[0]])} ran {self.rounds} epochs without input from outside",
                    hint=f"give run(rounds=...) if it takes more; increments that wait: {sizes}",
                )


def cycle(start: str, db: Running) -> list[str]:
    """The stages from one back to itself, through flows and views; empty if it is on no cycle."""
    graph, catalog = db.graph, db.catalog

    def after(stage: str) -> Iterator[str]:
        seen, todo = set[str](), list(graph.stages[stage].outputs)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                yield from graph.readers(name)
                todo += catalog.readers(name)

    paths = [[start]]
    seen = {start}
    while paths:
        path = paths.pop(0)
        for name in after(path[-1]):
            if name == start:
                return path
            if name not in seen:
                seen.add(name)
                paths.append([*path, name])
    return []


def _aside(rows: list[tuple[str, str, str, str]]) -> pa.Table:
    """Rows that were set aside, as a change."""
    names = ["input", "key", "row", "error"]
    arrays = [pa.array([r[i] for r in rows], pa.large_string()) for i in range(4)]
    ones = pa.array([1] * len(rows), pa.int64())
    return consolidated(pa.table([*arrays, ones], [*names, WEIGHT]))


def _check_amounts(**given: Any) -> None:
    for name, value in given.items():
        least = 0 if name in ("epochs", "seconds") else 1 if name in ("rounds", "workers") else 0
        whole = name in ("epochs", "rounds", "workers")
        kinds = int if whole else (int, float)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, kinds) or value < least
        ):
            raise QueryError(f"run({name}={value!r}) means nothing", hint="give a number")
