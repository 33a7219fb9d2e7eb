"""Running: stages and directories, chosen by the scheduler one after another, until nothing can run.

The choice is a function of counters and queues (`dataflow/schedule`); what a chosen one does is in `epochs` and `directories`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from headwater.api.catalog import Catalog, as_stored
from headwater.api.directories import not_named
from headwater.api.epochs import Prepared
from headwater.api.handles import Commit
from headwater.api.held import failure
from headwater.api.looping import Loop, ended_by_signals, loop_of
from headwater.api.sinking import Sinking
from headwater.api.taking import BatchRead, not_opened
from headwater.dataflow.calling import Failed
from headwater.dataflow.graph import Graph
from headwater.dataflow.queues import Inbox
from headwater.dataflow.runnable import Waiting, decided
from headwater.dataflow.words import Run
from headwater.errors import (
    BadChange,
    BadPattern,
    CycleLimit,
    DeletesMissingRows,
    EngineError,
    FeedAway,
    FlowFull,
    HeadwaterError,
    LateRows,
    QueryError,
    StageError,
    StageMissing,
    Stuck,
)
from headwater.state.snapshot import Snapshot

MOST_NAMED = 10_000
"""How many epochs of a run are named."""


@dataclass
class Progress:
    """What `run` did: which stages and feeds ran, in order, how long it took, and what waits for what."""

    epochs: list[str] = field(default_factory=list)
    """Who ran; of a run that goes on and on the last `MOST_NAMED` of them, and `count` has how many there were."""
    count: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    """Rows that were taken from feeds, by source."""
    rejected: dict[str, int] = field(default_factory=dict)
    """Records of feeds that did not fit, by source."""
    on_spark: dict[str, int] = field(default_factory=dict)
    """Batches that tasks of Spark have read, by source; the others were read here."""
    away: dict[str, str] = field(default_factory=dict)
    """Feeds that were away when it ended, and why: the next run tries them again."""
    seconds: float = 0.0
    waiting: dict[str, dict[str, int]] = field(default_factory=dict)
    """By stage and input, how many complete frames wait; only stages that have any, or are held."""
    held: dict[str, str] = field(default_factory=dict)
    synced: dict[str, int] = field(default_factory=dict)
    """The sinks that were brought on, and to which versions."""
    stopped: str = "nothing can run"

    def __str__(self) -> str:
        waits = [f"{s} waits with {dict(w)}" for s, w in self.waiting.items()]
        told = [f"{self.count} epochs in {self.seconds:.2f} s; {self.stopped}", *waits]
        told += [
            f"{s}: {n:,} rows" + (f", {r:,} rejected" if (r := self.rejected.get(s)) else "")
            for s, n in self.rows.items()
        ]
        told += [f"{s} is away: {why}" for s, why in self.away.items()]
        return "\n".join([*told, *(f"{s} is held: {why}" for s, why in self.held.items())])

    def ran(self, names: list[str]) -> None:
        """Notes who ran."""
        self.count += len(names)
        self.epochs += names
        if len(self.epochs) > 2 * MOST_NAMED:  # a run may go on for months
            del self.epochs[:-MOST_NAMED]

    def took(self, source: str, commit: Commit) -> None:
        """Notes a batch that was taken from a feed."""
        self.rows[source] = self.rows.get(source, 0) + sum(commit.rows.values())
        for n, count in commit.rejected.items():
            self.rejected[n] = self.rejected.get(n, 0) + count
        if commit.read == "spark":
            self.on_spark[source] = self.on_spark.get(source, 0) + 1


class Running(Sinking):
    """The part of a database that runs stages."""

    _progress: Progress
    _listener: Callable[[dict[str, Any]], Any] | None

    def run(
        self,
        *,
        once: bool = False,
        available: bool = False,
        every: float | None = None,
        always: bool = False,
        epochs: int | None = None,
        seconds: float | None = None,
        rounds: int = 1000,
        workers: int = 1,
        bottlenecks: bool = True,
        progress: Callable[[dict[str, Any]], Any] | None = None,
    ) -> Progress:
        """Takes what feeds have and runs stages until nothing can run, or for so many epochs or seconds, or until `stop`.

        With `once` every feed is asked for one batch; `available`, which is meant where nothing is said, goes on while there is
        anything; with `every` it looks for input again after so many seconds, and with `always` as soon as looking is cheap, for
        ever unless `seconds` says otherwise. SIGTERM or SIGINT ends such a loop after the commit that it is in. A feed
        that is away is tried again with growing pauses while the rest goes on.
        Stages that run together are an epoch each, and end together. A cycle may run for `rounds` epochs without input from outside. With
        `workers` functions of different stages are called at the same time. Without `bottlenecks` stages run though what they
        wrote before is unread. `progress` is called after each commit, with a dict under the names of Spark's
        StreamingQueryProgress; the logger `headwater.progress` has the same as JSON, at INFO. Raises `StageFailed` at its end if a stage failed; the others went on.
        """
        _check_amounts(epochs=epochs, seconds=seconds, every=every, rounds=rounds, workers=workers)
        loop = loop_of(once, available, every, always)
        started = time.monotonic()
        self._stopping = threading.Event()
        self._failures = {}
        self._look_again(rested=True, once=once)
        self._progress = out = Progress()
        turns = _Turns(rounds)
        self._listener = progress
        try:
            with ended_by_signals(self.stop, loop.waits) as signals:
                self._go(loop, out, turns, started, epochs, seconds, workers, bottlenecks)
        finally:
            self._listener = None
        if signals:
            out.stopped = f"{signals[0]} ended it"
        out.seconds = time.monotonic() - started
        self._finish(out)
        return out

    def _go(
        self,
        loop: Loop,
        out: Progress,
        turns: _Turns,
        started: float,
        epochs: int | None,
        seconds: float | None,
        workers: int,
        bottlenecks: bool,
    ) -> None:
        """Turn after turn, until nothing can run or it is asked for no more."""
        while True:
            left = None if seconds is None else seconds - (time.monotonic() - started)
            if self._stopping.is_set():
                out.stopped = "it was stopped"
                break
            if (epochs is not None and out.count >= epochs) or (left is not None and left <= 0):
                out.stopped = "it was asked for no more"
                break
            most = workers if epochs is None else min(workers, epochs - out.count)
            with as_stored(self.version, "graph"):
                looking = time.monotonic()
                ran = self._turn(most, bottlenecks, turns)
                looking = time.monotonic() - looking
            out.ran(ran)
            out.synced |= self._sinks_turn(idle=not ran)
            if ran:
                if loop.is_due():
                    self._look_again()
                continue
            if not loop.waits:
                break
            self._failures = {n: f for n, f in self._failures.items() if self._is_resting(n)}
            self._look_again()
            self._stopping.wait(loop.pause(looking, left))
            self.refresh()
        if out.stopped == "it was asked for no more":
            out.synced |= self._sinks_turn(idle=True)

    def _took(self, source: str, commit: Commit) -> None:
        """A batch was taken; a run of this handle counts it."""
        self._progress.took(source, commit)

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
            self._ended(name)
            with self._commit(f"stage {name}", minor=True) as commit:
                self._set_graph(commit, after, before)
            self._became(after)

    def _turn(self, most: int, bottlenecks: bool, turns: _Turns) -> list[str]:
        """Runs the stage whose turn it is, or several at the same time; who ran."""
        with self._locked():
            self._writing()
            snapshot, graph, catalog = self.store.at(self.version), self.graph, self.catalog
            chosen = self._chosen(snapshot, graph, most, bottlenecks)
            if not chosen:
                self._check_right()
                return []
            if self._decide_flows([name for name, *_ in chosen]):
                return self._turn(most, bottlenecks, turns)
            if len(chosen) == 1 or any(self._for_spark(*c) for c in chosen):
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
                    if self._is_as_before(name, graph, catalog):
                        ran += self._one(name, job.result, turns)
        return ran or self._turn(1, bottlenecks, turns)  # what was prepared in vain is done again

    def _is_as_before(self, name: str, before: Graph, catalog: Catalog) -> bool:
        """Whether an epoch that was prepared may be committed: nobody ran or defined anything meanwhile that it depends on.

        Another run of the same handle may have read the same increments; a new reader would miss what passes between
        stages that are run together.
        """
        now = self.graph
        if now is before:
            return True
        if now.stages != before.stages or now.flows != before.flows or self.catalog is not catalog:
            return False
        return all(
            now.nodes.get(n) == before.nodes.get(n) for n in [name, *self._behind(name, before)]
        )

    def _behind(self, name: str, graph: Graph) -> Iterator[str]:
        """The stages that are run together with one."""
        stage = self._bound.get(name)
        if stage is None:
            return
        for o in stage.outputs:
            after = self._follower(stage, o, graph)
            if after is not None:
                yield after.name
                yield from self._behind(after.name, graph)

    def _check_right(self) -> None:
        """Raises where another handle has taken over: what it has committed is not seen here, so that nothing can run."""
        assert self._writer is not None
        with self._telling("reading"):
            self._writer.lease.check()

    def _one(
        self, name: str, prepare: Callable[[], Prepared | BatchRead], turns: _Turns
    ) -> list[str]:
        """An epoch of a stage, and of those that run together with it, committed; who ran.

        One that fails is noted, and its stage held until the next run.
        """
        turns.ran(self, name)
        try:
            prepared = prepare()
            self._committed(prepared)
            if isinstance(prepared, Prepared):
                return [p.stage.name for p in prepared.all]
        except Failed as e:
            self._failures[name] = e
            self._rests(name)
        except (
            BadChange,
            BadPattern,
            EngineError,
            FlowFull,
            LateRows,
            QueryError,
        ) as e:  # of what it gave, in a view, in a flow that is kept, or in a queue
            self._failures[name] = Failed(_taken_back(e))
            self._rests(name)
        return [name]

    def _for_spark(self, name: str, run: Run, inboxes: dict[str, Inbox]) -> bool:
        """Whether an epoch is computed on Spark, where runs are written for the version that comes next."""
        return name in self._bound and self._is_large(self._bound[name], run, inboxes)

    # --- choosing --------------------------------------------------------------------------------------------------

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
        for name in self._feeds_ready(graph, self._failures, bool(ready)):
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
        """Whether every other reader of every output of a stage has a complete frame that it has not read."""
        cut = {r: w for r, w in waits.items() if r not in self._failures}
        unread = [
            bool(cut[r][o] if r in cut else graph.cursors[r, o].at)
            for o in self._sends(name, graph)
            for r in graph.readers(o)
            if r != name
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

    # --- the end of a run ------------------------------------------------------------------------------------------

    def _finish(self, out: Progress) -> None:
        """What waits, and errors of what failed or is missing."""
        graph = self.graph
        for name in graph.stages:
            counts = {i: len(graph.cursors[name, i].at) for i in graph.stages[name].inputs}
            if any(counts.values()):
                out.waiting[name] = counts
        ended = out.stopped != "nothing can run"
        for name, failed in list(self._failures.items()):
            if isinstance(failed.why, FeedAway):
                out.away[name] = failed.told
                if ended:  # it was tried again and again, and will be
                    del self._failures[name]
            else:
                out.held[name] = failed.told
        out.held |= self._sinks_waiting()
        # What failed comes first: a flow is full because of it, if not because something waits.
        by_cause = sorted(self._failures.items(), key=lambda f: isinstance(f[1].why, FlowFull))
        for name, failed in by_cause:
            raise failure(name, graph, failed, self.catalog.sources)
        for held in self._sinks_held.values():
            raise held
        if out.stopped != "nothing can run":
            return
        missing = [n for n in out.waiting if n not in self._bound and not graph.nodes[n].paused]
        for made in self.fed().values():
            if not self._is_opened(made):
                raise not_named(made) if made.is_directory else not_opened(made)
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


def _taken_back(e: HeadwaterError) -> HeadwaterError:
    """What is said of an epoch that takes back a row which a flow that is kept does not have."""
    if not isinstance(e, DeletesMissingRows):
        return e
    return StageError(
        e.what, hint="a stage takes back only what it gave: its weights add up to less than nothing"
    )


class _Turns:
    """How often stages ran since input came from outside."""

    def __init__(self, rounds: int):
        self.rounds, self.counts = rounds, dict[str, int]()
        self.firsts: dict[str, tuple[list[int], int]] = {}

    def ran(self, db: Running, name: str) -> None:
        """Counts; `CycleLimit` where a stage of a cycle runs for too long."""
        if name not in db.graph.stages:  # a directory: that is input from outside
            self.counts.clear()
            return
        count = self.counts[name] = self.counts.get(name, 0) + 1
        graph = db.graph
        firsts = [graph.cursors[name, i].first for i in graph.stages[name].inputs]
        before, since = self.firsts.get(name, ([], 0))
        if firsts != before:
            self.firsts[name] = firsts, count
        elif count - since > self.rounds:
            raise CycleLimit(
                f"the stage `{name}` ran {self.rounds} epochs and removed nothing of its inputs",
                hint="its runnable should remove what was read, or give None while there is nothing new",
            )
        if count <= self.rounds:
            return
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


def _check_amounts(**given: Any) -> None:
    for name, value in given.items():
        least = 0 if name in ("epochs", "seconds") else 1 if name in ("rounds", "workers") else 0
        whole = name in ("epochs", "rounds", "workers")
        kinds = int if whole else (int, float)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, kinds) or value < least
        ):
            raise QueryError(f"run({name}={value!r}) means nothing", hint="give a number")
