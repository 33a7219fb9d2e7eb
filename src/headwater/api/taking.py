"""Feeds as nodes of the graph: `run` takes the next batch of a source's feed, like an `apply` of its rows.

The cursor behind a batch is a fact of the version that has its rows (`feeds/feed`), so a process that is killed leaves the
version before, and the batch is read again, or the version after. A feed that is away is tried again with growing pauses, one
whose rows are wrong or lost is held, and the rest of the graph goes on.

Which feeds there are in this process is in `opening`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.api.applying import Beside
from headwater.api.batches import Batches
from headwater.api.catalog import SourceDef, well_defined
from headwater.api.file_rows import file_change, replaced_rows
from headwater.api.handles import Commit
from headwater.dataflow.calling import Failed
from headwater.dataflow.graph import Graph, NodeFact
from headwater.engine.change import Change, schema_of
from headwater.errors import BadChange, FeedAway, HeadwaterError, QueryError, StageMissing
from headwater.feeds.feed import FILES, FROM, REJECTED, Batch, Cursor
from headwater.feeds.kinds import KINDS, checked_options
from headwater.feeds.listing import Mark, taken_of
from headwater.feeds.new_columns import NewColumns
from headwater.io.events import Delta
from headwater.plan.program import WEIGHT

QUICK = 0.1
"""Seconds that a feed may take where something else can run meanwhile."""


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
    once: bool = False
    """Whether a feed whose batch was taken is asked no more."""


class Taking(Batches):
    """The part of a database that takes batches of feeds."""

    _batches: Looks

    def fed(self) -> dict[str, SourceDef]:
        """The sources that have feeds."""
        return {n: s for n, s in self.catalog.sources.items() if s.format is not None}

    def _cursor(self, source: str) -> Cursor:
        """The cursor that the version has for a source; None where it was of another kind of feed."""
        facts, opened = self.store.at(self.version).facts, self._opened[source]
        if getattr(opened.opened(), "by_name", False):
            if opened.taken is None or opened.taken[0] != self.version:
                found = well_defined(self.version, lambda: taken_of(source, facts))
                opened.taken = self.version, found
            return opened.taken[1]
        fact = facts.get(f"{FROM}{source}")
        return fact["cursor"] if fact and fact["of"] == opened.kind else None

    def _look_again(self, rested: bool = False, once: bool = False) -> None:
        """What feeds have from now on is seen; with `rested` also of those that are left alone for a while.

        With `once` each is asked for one batch until the next look.
        """
        self._batches.empty.clear()
        if rested:
            self._batches.once = once
            self._batches.batches.clear()  # what was read and not taken may be another by now
        for opened in self._opened.values():
            look_again = getattr(opened.feed, "look_again", None)
            if look_again is not None:
                look_again()
        for opened in self._opened.values() if rested else ():
            opened.pauses, opened.until = 0, 0.0

    def _is_resting(self, name: str) -> bool:
        opened = self._opened.get(name)
        return opened is not None and opened.until > time.monotonic()

    def _rests(self, name: str) -> None:
        """A feed whose batch could not be applied is left alone for a while."""
        if name in self._opened:
            self._opened[name].failed()

    def _feeds_ready(self, graph: Graph, failures: dict[str, Failed], busy: bool) -> list[str]:
        """The sources whose feeds have a batch; one that cannot be read is put among the failures.

        Where something else can run, nobody is waited for.
        """
        out = list[str]()
        for name, made in self.fed().items():
            if name in failures or graph.nodes.get(name, NodeFact()).paused:
                continue
            if not self._is_opened(made):
                continue
            if name not in self._batches.batches and name not in self._batches.empty:
                try:
                    self._read_batch(name, busy or bool(out))
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

    def _read_batch(self, name: str, busy: bool) -> None:
        started = time.perf_counter()
        made = self.catalog.sources[name]
        if made.is_directory and self._opened[name].declared.options != made.options:
            # Another process, or an older version, has said how its files are read.
            checked_options(name, KINDS[made.format or ""], made.format or "", made.options)
            self._open_feed(made, made.options, None)
        opened, after = self._opened[name], self._cursor(name)
        limit = opened.declared.limit
        if busy:
            limit = replace(limit, seconds=min(limit.seconds, QUICK))
        try:
            batch = opened.opened().read(after, limit)
        except NewColumns as e:
            batch = Batch(None, after, columns=e.columns)
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
        """Applies a batch, and sets its cursor, in one commit; the right to write is held.

        Of one in pieces that does not fit the first half is tried, until the piece that is wrong is alone.
        """
        self._writing()
        self._batches.batches.pop(p.source, None)
        if self._cursor(p.source) != p.after:  # a run of another thread was there before
            return None
        if p.batch.columns:
            return self._gets_columns(p)
        opened, pieces = self._opened[p.source], list(p.batch.pieces or [p.batch])
        all_pieces = len(pieces)
        while True:
            try:
                done = self._taken(p, pieces, p.seconds * len(pieces) / all_pieces, ready)
                break
            except BadChange as e:
                if pieces[0].read == "spark" and pieces[0].name:
                    feed: Any = opened.opened()  # it is read again here, file by file
                    feed.read_here(pieces[0].cursor)
                    return None
                if len(pieces) == 1:
                    told = f"`{pieces[0].name}` does not fit: {e.what}"
                    raise Failed(BadChange(told, hint=e.hint) if pieces[0].name else e) from e
                del pieces[len(pieces) // 2 :]
        opened.pauses = 0
        if opened.taken is not None:
            # There may be many thousands of names: they are not gathered anew for those that came.
            facts = self.store.at(self.version).facts
            names = [n for x in pieces for n in x.cursor]
            new = {n: Mark(*facts[f"{FROM}{p.source}/{n}"]) for n in names}
            kept = {n: m for n, m in p.after.items() if f"{FROM}{p.source}/{n}" in facts}
            opened.taken = self.version, {**kept, **new}
        if self._batches.once or getattr(opened.opened(), "endless", False):
            self._batches.empty.add(p.source)
        with contextlib.suppress(FeedAway):  # it is told with the next batch
            if hasattr(opened.opened(), "committed"):
                opened.opened().committed(pieces[-1].cursor)
        return done

    def _gets_columns(self, p: BatchRead) -> Commit:
        """Gives a source the columns that its records have, before they are read again; the version behind has these."""
        try:
            self._with_columns(self.catalog.sources[p.source], p.batch.columns)
        except HeadwaterError as e:
            raise Failed(e) from e
        opened = self._opened[p.source]
        self._open_feed(self.catalog.sources[p.source], opened.declared.options, opened.given)
        return Commit(self.version, {p.source: 0}, database=self)

    def _taken(
        self, p: BatchRead, pieces: list[Batch], seconds: float, ready: Collection[str]
    ) -> Commit:
        """The commit of some pieces of a batch."""
        made, opened = self.catalog.sources[p.source], self._opened[p.source]
        found = [x.rejected for x in pieces if x.rejected is not None and len(x.rejected)]
        rejected = pa.concat_tables(found) if found else None
        count = 0 if rejected is None else len(rejected)
        changes, kept = self._changes(made, pieces)
        places = {x.read for x in pieces}
        beside = Beside(
            partial(self._cursor_facts, p, pieces),
            partial(_ran, p.source, seconds, count, "spark" in places, ready),
            {"source": p.source, "feed": opened.kind, **_told_of(pieces)},
            aside=lambda version: {**kept, **self._set_aside(made, rejected, version)},
            rejected={p.source: count} if count else {},
            read="spark" if "spark" in places else "driver",
        )
        over = pieces[-1].punctuate
        points = {} if over is None else self._points({p.source: over})
        cast, started = pieces[0].cast, time.perf_counter()
        return self._brought_in(self._writing(), changes, None, cast, points, beside, started)

    def _cursor_facts(self, p: BatchRead, pieces: list[Batch], version: int) -> dict[str, Any]:
        """The facts that say how far a feed was taken; without names that nobody can take again."""
        opened = self._opened[p.source]
        feed: Any = opened.opened()
        if not getattr(feed, "by_name", False):
            return {f"{FROM}{p.source}": {"cursor": pieces[-1].cursor, "of": opened.kind}}
        assert self._writer is not None
        gone = feed.forgotten(p.after, self._writer.floor())
        new = {n: [*mark, version] for x in pieces for n, mark in x.cursor.items()}
        return {f"{FROM}{p.source}/{n}": m for n, m in {**dict.fromkeys(gone), **new}.items()}

    def _changes(
        self, made: SourceDef, pieces: list[Batch]
    ) -> tuple[list[tuple[str, Any]], dict[str, Change]]:
        """The changes that pieces are; and of the relation that has the rows of each file, where they replace others."""
        changes, kept = [], dict[str, Change]()
        for x in pieces:
            if x.rows is None:
                continue
            if not x.replaces:
                rows = self._in_place_of_all(made.name, x.rows) if x.whole else x.rows
                changes.append((made.name, rows))
                continue
            aside = self.catalog.sources[f"{made.name}{FILES}"]
            before = replaced_rows(made, self.lookup(aside.name, (x.name,), None))
            changes.append((made.name, Delta(x.rows, before)))
            for relation, change in file_change(aside, x, before, self).items():
                kept[relation] = kept.get(relation, Change()).with_rows(change)
        return changes, kept

    def _in_place_of_all(self, source: str, rows: pa.Table) -> pa.Table:
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


def _told_of(pieces: list[Batch]) -> dict[str, Any]:
    """What the note of a version says of the files that it took."""
    return {"files": len(pieces)} if pieces[0].name else {}


def _ran(
    name: str,
    seconds: float,
    rejected: int,
    on_spark: bool,
    ready: Collection[str],
    rows: int,
    graph: Graph,
) -> Graph:
    """The graph after a batch of a feed."""
    node = graph.nodes.get(name, NodeFact())
    graph = graph.with_node(
        name,
        epochs=node.epochs + 1,
        rows=node.rows + rows,
        rejected=node.rejected + rejected,
        on_spark=node.on_spark + on_spark,
        seconds=round(node.seconds + seconds, 6),
    )
    return replace(graph, schedule=graph.schedule.seen({*ready, name}).ran(name))
