"""Applying: a change of sources is staged once, carried through all maps, and committed.

Readers see the version before or the version after. A small change is carried through in this process, a large one on
Spark; the statements and kernels are the same.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.api.bring_in import replaced_by_key, staged_change
from headwater.api.catalog import SEEN, as_stored
from headwater.api.feeding import with_points
from headwater.api.handles import Commit
from headwater.api.ids import Id, applied, as_note, checked_id, noted
from headwater.api.streaming import Streaming, counted
from headwater.calculus.patterns import Punctuation, Range
from headwater.dataflow.graph import Graph
from headwater.engine.change import Change
from headwater.engine.policy import Execution, asked_execution
from headwater.engine.spark.session import Counts
from headwater.engine.undisturbed import undisturbed
from headwater.engine.working import Working
from headwater.errors import BadChange, BadPattern, UnknownName
from headwater.language.closes import closed, punctuated
from headwater.plan.analysis import loops_of, rounds_of
from headwater.state.store import StoreWriter

APPLY = "apply"
"""What a version is noted as that applied a change."""


@dataclass(frozen=True)
class Beside:
    """What a commit has to say beside the change that it applies: who gave it, and how far that has come."""

    facts: Callable[[int], Mapping[str, Any]] = lambda version: {}
    graph: Callable[[int, Graph], Graph] = lambda rows, graph: graph
    """The graph after it, by how many rows were given and the graph before."""
    note: Mapping[str, Any] = field(default_factory=dict)
    aside: Callable[[int], Mapping[str, Change]] = lambda version: {}
    """What a version adds to relations that nobody else changes: records that were set aside."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Records that did not fit, by source."""
    read: str = "driver"
    """Where the rows were read: in this process, or by tasks of Spark."""


@dataclass(frozen=True)
class Done:
    """What is to be told of a commit: deletions that were ignored, late rows and stale events, by source; final rows, answers that were withheld, and keys that are due, by view."""

    ignored: dict[str, int]
    late: dict[str, int]
    final: dict[str, int]
    withheld: dict[str, int]
    due: dict[str, int]
    stale: dict[str, int]


class Applying(Streaming):
    """The part of a database that takes changes in."""

    def apply(
        self,
        changes: Mapping[str, Any],
        *,
        id: Id | None = None,
        cast: bool = False,
        punctuate: Mapping[str, Any] | None = None,
        execution: Execution | None = None,
    ) -> Commit:
        """Applies changes to sources, all at once, and gives the commit; with an `id`, only the first time.

        An id is text, kept for as long as the version that it made can be read; or `(application, number)`, of which
        the last number of each application is kept, and whatever is not above it was applied. Once the change is
        committed nothing is raised: what went wrong after that is in the `warnings` of the commit.
        With `cast`, text and fractions are read as the types of their columns, as Spark's CAST does in ANSI mode.
        `punctuate={"visits": hw.closed(day=hw.upto(day))}` says what of a source is over once the change is applied: no
        row that matches will come or go any more (`source(..., closes=)`). `flow.upto(day)` in its place says that frames
        up to a key are complete, to stages that frame the source. Late rows are counted in `Commit.late`, and rows of
        views that became final in `Commit.closed`. `execution` is that of `hw.open`, for this change alone; `Commit.where`
        says where it ran.
        """
        started, mark = time.perf_counter(), checked_id(id)
        with self._locked():
            writer = self._writing()
            done = None if mark is None else applied(writer.head().facts, mark)
            if done is not None:
                return Commit(done["version"], done["rows"], id=mark, repeated=True, database=self)
            if not isinstance(changes, Mapping):
                raise BadChange(
                    f"the changes are of type {type(changes).__name__}",
                    hint="give a dict with a change for each source: {'orders': rows}",
                )
            points = self._points({} if punctuate is None else punctuate)
            with self._executing(execution):
                return self._brought_in(
                    writer, changes.items(), mark, cast, points, Beside(), started
                )

    @contextlib.contextmanager
    def _executing(self, asked: Execution | None) -> Iterator[None]:
        """Carries changes through where one call asks for it; the lock is held."""
        if asked is None:
            yield
            return
        usual, carries = self.policy, self.session.carries
        self.policy = replace(usual, execution=asked_execution(asked))
        self.session.carries = asked != "here"
        try:
            yield
        finally:
            self.policy, self.session.carries = usual, carries

    def punctuate(self, source: str, /, **columns: Any) -> Commit:
        """Says what of a source is over, without rows: `db.punctuate("bids", ts=hw.below(t))`; without columns all of it is."""
        return self.apply({}, punctuate={source: closed(**columns)})

    def _brought_in(
        self,
        writer: StoreWriter,
        changes: Iterable[tuple[str, Any]],
        id: Id | None,
        cast: bool,
        points: Mapping[str, Any],
        beside: Beside,
        started: float,
    ) -> Commit:
        """Stages changes of sources, carries them through and commits them; the right to write is held."""
        self.session.counts = counts = Counts()
        staged: dict[str, Change] = {}
        by_key: dict[str, Change] = {}
        rows: dict[str, int] = {}
        try:
            for n, given in changes:
                self._check_not_read(n)
                made = staged_change(self.catalog, self.session, self.path, n, given, cast)
                rows[made.name] = rows.get(made.name, 0) + made.rows
                for relation, change in made.changes.items():
                    staged[relation] = staged.get(relation, Change()).with_rows(change)
                if made.by_key.rows:
                    by_key[made.name] = by_key.get(made.name, Change()).with_rows(made.by_key)
            staged.update(beside.aside(self.version + 1))
            with undisturbed(sum(c.rows for c in (*staged.values(), *by_key.values()))):
                working, done, size = self._applied(
                    writer, staged, by_key, rows, id, points, beside
                )
        finally:
            for s in (*staged.values(), *by_key.values()):
                for f in s.files:
                    with contextlib.suppress(OSError):  # the next writer takes it away
                        (self.path / f).unlink(missing_ok=True)
        writer.tidy()
        return Commit(
            self.version,
            rows,
            {n: i for n, i in done.ignored.items() if i},
            time.perf_counter() - started,
            size,
            counts.jobs,
            counts.exchanges,
            counts.hops,
            "spark" if working.on_spark else "driver",
            id,
            read=beside.read,
            rejected=dict(beside.rejected),
            late=done.late,
            closed=done.final,
            rounds=rounds_of(self.program, self._rounds),
            withheld=done.withheld,
            due=done.due,
            stale={n: i for n, i in done.stale.items() if i},
            warnings=writer.warnings(),
            database=self,
        )

    def _check_not_read(self, name: Any) -> None:
        """Raises where a static source changes that a stream has taken as a whole."""
        source = self.catalog.sources.get(self.catalog.named(name)) if self.stream_defs else None
        if source is None or not source.static:
            return
        for stream in self.stream_defs.values():
            if source.name in stream.inputs:
                raise BadChange(
                    f"`{name}` is static, and the stream `{stream.name}` reads it",
                    hint="declare it without static=True, or fill it before the first stream",
                )

    def _by_view(self, counts: Mapping[str, int]) -> dict[str, int]:
        """What was counted of loops, by the views that read them."""
        if not counts:
            return {}
        found = {
            n: sum(counts.get(x.name, 0) for x in loops_of(self.program, v))
            for n, v in self.program.views.items()
        }
        return {n: count for n, count in found.items() if count}

    def _points(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The punctuations that are given, by source."""
        out: dict[str, Any] = {}
        if not isinstance(given, Mapping):
            raise BadPattern(
                f"the punctuations are of type {type(given).__name__}",
                hint="give a dict by source: punctuate={'visits': hw.closed(day=day)}",
            )
        for name, point in given.items():
            source = self.catalog.sources.get(self.catalog.named(name))
            if source is None or source.written:
                raise UnknownName(
                    f"`{name}`, which is punctuated, is no source",
                    hint=f"sources: {', '.join(n for n, s in self.catalog.sources.items() if not s.written)}",
                )
            framed = any(read == source.name for _, read in self.graph.cursors)
            if isinstance(point, Punctuation) or not framed:  # no stage has frames to complete
                out[source.name] = punctuated(
                    source.name, point, source.schemes, source.row, self.session.zone, source.static
                )
            elif isinstance(point, Range) and point.low is None and point.high_closed:
                out[source.name] = point.high  # frames up to a key
            else:
                out[source.name] = getattr(point, "key", point)
        return out

    def _applied(
        self,
        writer: StoreWriter,
        staged: dict[str, Change],
        by_key: Mapping[str, Change],
        rows: dict[str, int],
        id: Id | None,
        points: Mapping[str, Any],
        beside: Beside,
    ) -> tuple[Working, Done, int]:
        """Carries staged changes through and commits. Gives the maps, what is to be told of the commit, and the bytes written."""
        with self._telling("writing"):
            gone = self._ids.forgotten(writer.floor())
        note = {**beside.note, **({} if id is None else {"id": as_note(id)})}
        closing = {n: p for n, p in points.items() if isinstance(p, Punctuation)}
        framed = {n: p for n, p in points.items() if n not in closing}
        with self._commit(APPLY, **note) as commit:
            working, before = self._working(commit, self.program), self.graph
            changed = replaced_by_key(
                *(self.catalog, self.path, staged, by_key, working, self.over),
                *(self.session, self.policy.most_carried),
            )
            staged.update(changed.staged)  # whoever gave the dict takes its files away
            carried, late = self._in_time(working, changed.staged, commit.version)
            ignored, increment = self._carry(
                working, carried, self._wanted(before), known=changed.known
            )
            vain = changed.ignored
            ignored = {n: ignored.get(n, 0) + vain.get(n, 0) for n in (*ignored, *vain)}
            with as_stored(self.version):
                told = with_points(self._tell(working, before, carried, increment), framed)
            over, final = self._close(commit, working, carried, closing)
            over, final, told = self._fold(commit, working, carried, over, final, told)
            made = self._written(working)
            size = self._add_made(commit, made)
            graph = beside.graph(sum(rows.values()), self._send(commit, before, told, made))
            self._set_graph(commit, graph, before)
            for n, s in staged.items():
                if not self.catalog.owning(n).retain and s.rows:
                    commit.set(f"{SEEN}{n}", True)
            for key in gone:
                commit.set(key, None)
            for key, value in beside.facts(commit.version).items():
                commit.set(key, value)
            if id is not None:
                commit.set(*noted(id, commit.version, rows))
        self._became(graph)
        self._is_over(over)
        new = None if not isinstance(id, str) else (self.version, noted(id, 0, {})[0])
        self._ids.committed(gone, new)
        withheld, due = self._by_view(increment.withheld), self._by_view(increment.due)
        return working, Done(ignored, late, counted(final), withheld, due, changed.stale), size
