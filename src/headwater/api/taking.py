"""Feeds as nodes of the graph: `run` takes the next batch of a source's feed, like an `apply` of its rows.

The cursor behind a batch is a fact of the version that has its rows (`feeds/feed`), so a process that is killed leaves the
version before, and the batch is read again, or the version after. A feed that is away is tried again with growing pauses, one
whose rows are wrong or lost is held, and the rest of the graph goes on.

Which feeds there are in this process is in `opening`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.api.applying import Beside
from headwater.api.batches import Batches
from headwater.api.catalog import SourceDef
from headwater.api.handles import Commit
from headwater.dataflow.calling import Failed
from headwater.dataflow.graph import Graph, NodeFact
from headwater.engine.change import Change, schema_of
from headwater.errors import BadChange, FeedAway, QueryError, StageMissing
from headwater.feeds.feed import FROM, REJECTED, Batch, Cursor
from headwater.plan.program import WEIGHT


@dataclass(frozen=True)
class BatchRead:
    """A batch that was read and is not committed."""

    source: str
    after: Cursor
    batch: Batch
    seconds: float


@dataclass
class Looks:
    """What the looks of a run showed: batches that wait, and sources whose feeds have nothing new."""

    batches: dict[str, BatchRead] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)


class Taking(Batches):
    """The part of a database that takes batches of feeds."""

    _batches: Looks

    def fed(self) -> dict[str, SourceDef]:
        """The sources that have feeds which are no directories."""
        found = self.catalog.sources.items()
        return {n: s for n, s in found if s.format is not None and not s.is_directory}

    def _cursor(self, source: str) -> Cursor:
        """The cursor that the version has for a source; None where it was of another kind of feed."""
        fact = self.store.at(self.version).facts.get(f"{FROM}{source}")
        return fact["cursor"] if fact and fact["of"] == self._opened[source].kind else None

    def _look_again(self, rested: bool = False) -> None:
        """What feeds have from now on is seen; with `rested` also of those that are left alone for a while."""
        self._batches.empty.clear()
        for opened in self._opened.values() if rested else ():
            opened.pauses, opened.until = 0, 0.0

    def _is_resting(self, name: str) -> bool:
        opened = self._opened.get(name)
        return opened is not None and opened.until > time.monotonic()

    def _feeds_ready(self, graph: Graph, failures: dict[str, Failed]) -> list[str]:
        """The sources whose feeds have a batch; one that cannot be read is put among the failures."""
        out = []
        for name, made in self.fed().items():
            if name in failures or graph.nodes.get(name, NodeFact()).paused:
                continue
            if not self._is_opened(made):
                continue
            if name not in self._batches.batches and name not in self._batches.empty:
                try:
                    self._read_batch(name)
                except Exception as e:  # what a user wrote may raise anything
                    self._feed_failed(name, e, failures)
                    continue
            if name in self._batches.batches:
                out.append(name)
        return out

    def _feed_failed(self, name: str, e: Exception, failures: dict[str, Failed]) -> None:
        failures[name] = Failed(e)
        self._batches.batches.pop(name, None)
        opened = self._opened[name]
        opened.failed()
        if not isinstance(e, BadChange):  # a connection may be broken: it is made anew
            with contextlib.suppress(Exception):
                opened.close()

    def _read_batch(self, name: str) -> None:
        started = time.perf_counter()
        opened, after = self._opened[name], self._cursor(name)
        batch = opened.opened().read(after, opened.declared.limit)
        if batch is None:
            self._batches.empty.add(name)
            opened.pauses = 0
            return
        if not isinstance(batch, Batch):
            raise QueryError(
                f"the feed of `{name}` gives {type(batch).__name__}",
                hint="read gives a headwater.feeds.feed.Batch, or None",
            )
        self._batches.batches[name] = BatchRead(name, after, batch, time.perf_counter() - started)

    def _take_batch(self, p: BatchRead, ready: Collection[str]) -> Commit | None:
        """Applies a batch, and sets its cursor, in one commit; the right to write is held."""
        writer = self._writing()
        self._batches.batches.pop(p.source, None)
        if self._cursor(p.source) != p.after:  # a run of another thread was there before
            return None
        made, batch, opened = self.catalog.sources[p.source], p.batch, self._opened[p.source]
        rejected = batch.rejected if batch.rejected is not None and len(batch.rejected) else None

        def facts(version: int) -> Mapping[str, Any]:
            return {f"{FROM}{p.source}": {"cursor": batch.cursor, "of": opened.kind}}

        beside = Beside(
            facts,
            partial(_ran, p.source, p.seconds, 0 if rejected is None else len(rejected), ready),
            {"source": p.source, "feed": opened.kind},
            aside=partial(self._set_aside, made, rejected),
            rejected={} if rejected is None else {p.source: len(rejected)},
        )
        points = {} if batch.punctuate is None else self._points({p.source: batch.punctuate})
        rows = self._instead(p.source, batch.rows) if batch.whole else batch.rows
        given = [] if rows is None else [(p.source, rows)]
        try:
            done = self._brought_in(
                writer, given, None, batch.cast, points, beside, time.perf_counter()
            )
        except BadChange as e:
            raise Failed(e) from e
        opened.pauses = 0
        with contextlib.suppress(FeedAway):  # it is told with the next batch
            if hasattr(opened.opened(), "committed"):
                opened.opened().committed(batch.cursor)
        return done

    def _instead(self, source: str, rows: pa.Table) -> pa.Table:
        """The change from what a source has to rows that are all it is to have."""
        there = self.table(source)
        wanted = rows.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))
        weights = pc.negate(there.column(WEIGHT))
        gone = there.set_column(there.schema.get_field_index(WEIGHT), WEIGHT, weights)
        return pa.concat_tables([wanted, gone.select(wanted.column_names).cast(wanted.schema)])

    def _set_aside(
        self, made: SourceDef, rejected: pa.Table | None, version: int
    ) -> dict[str, Change]:
        """The change of the relation that has the records which were set aside."""
        if rejected is None or made.bad != "aside":
            return {}
        aside = self.catalog.sources[f"{made.name}{REJECTED}"]
        cells = [rejected.column(n).cast(pa.large_string()) for n in ("record", "place", "why")]
        numbers = [pa.array([version] * len(rejected), pa.int64()), pa.array([1] * len(rejected))]
        wanted = schema_of(aside.row)
        arrays = [c.cast(f.type) for c, f in zip([*cells, *numbers], wanted, strict=True)]
        return {aside.name: Change.of(pa.table(arrays, schema=wanted))}


def not_opened(made: SourceDef) -> StageMissing:
    """What is said of a feed that this process has not declared."""
    return StageMissing(
        f"the source `{made.name}` has a feed of kind {made.format} that this process has not declared",
        hint="declare it again with db.source(..., format= or feed=); one that is declared without has none any more",
    )


def _ran(
    name: str, seconds: float, rejected: int, ready: Collection[str], rows: int, graph: Graph
) -> Graph:
    """The graph after a batch of a feed."""
    node = graph.nodes.get(name, NodeFact())
    graph = graph.with_node(
        name,
        epochs=node.epochs + 1,
        rows=node.rows + rows,
        rejected=node.rejected + rejected,
        seconds=round(node.seconds + seconds, 6),
    )
    return replace(graph, schedule=graph.schedule.seen({*ready, name}).ran(name))
