"""Rounds on Spark: one job for all statements of a round, whatever their maps and views.

    pieces of changes ─► statements in one Python hop ─► (part, map, place) ─► one exchange ─► merge and write

The first hop reads its pieces and looks up by itself, adds up what it emits, which sorts it, and leaves it in a file, for every map
and part of the hash space a stretch (`exchange.py`): the exchange moves names. The second merges its part of every map, which is
in order but for some seams, and writes one file; names of runs and touched groups come back. Scalars that only Spark can evaluate
cut a statement's first hop in two, with Spark SQL between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headwater.calculus.patterns import Punctuations
from headwater.engine import policy
from headwater.engine.change import Change
from headwater.engine.here.answers import components, keep_answers, merge
from headwater.engine.here.arrow import ArrowCannot, in_zone
from headwater.engine.here.scalars.zones import UTC_NAMES
from headwater.engine.here.statements import Hop, emit, in_arrow, run, segments, start, step
from headwater.engine.ledgers import LEDGER
from headwater.engine.slices import Piece, pieces_of, weighed
from headwater.engine.spark import exchange, skew
from headwater.engine.spark.exchange import EMITTED, RESULTS, left, results
from headwater.engine.spark.progress import showing
from headwater.engine.spark.session import Session, in_sql, plain, telling
from headwater.engine.spark.skew import Routing
from headwater.engine.working import Working
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import (
    Bind,
    Filter,
    Map,
    Nested,
    Statement,
    Step,
    Stored,
    Stratum,
    View,
)
from headwater.state.arrangement import WHOLE, Arrangement, Share, TooMany
from headwater.state.files import LocalFiles
from headwater.state.keys import Ints
from headwater.state.run import Generation, RunRef, Runs
from headwater.state.store import DATA
from headwater.state.zones import Zoned

T = TypeVar("T")


class Cluster:
    """Spark at work for one increment."""

    def __init__(self, working: Working, session: Session, root: Path):
        self.working, self.session, self.root = working, session, root
        self.without_arrow = False

    # --- a round -------------------------------------------------------------------------------------------------

    def round(
        self,
        statements: Sequence[Statement],
        changes: Mapping[str, Change],
        strata: Sequence[Stratum],
        answered: set[str],
    ) -> dict[str, pa.Table]:
        """Runs statements over changes and merges what they give; the touched groups of answered strata."""
        if not statements:
            return {}
        self.working.on_spark = True
        made: list[str] = []
        total = sum(changes[n].rows for n in {s.drives for s in statements})
        emitted = sum(changes[s.drives].rows for s in statements)
        parts = max(self.session.partitions, -(-emitted // policy.PER_PART))
        names = {s.target.name for s in statements}
        known = [slim_stratum(s) for s in strata if names & {m.name for m in s.maps}]
        marks = [exchange.new_mark(), exchange.new_mark()]
        free = skew.free(statements, known)
        routing = Routing(parts, free, policy.HEAVY, marks[0], policy.INLINE)
        self.working.next_round()
        try:
            with (
                telling("carrying a change through the views"),
                showing(self.session.spark, f"{total:,} rows through {len(names)} maps"),
            ):
                try:
                    frames = self._frames(statements, changes, routing, made)
                    return self._merged(frames, known, routing, answered)
                except Exception as e:
                    if self.without_arrow or ArrowCannot.__name__ not in str(e):
                        raise
                    # Spark has a value for it, or the error that it should be.
                    self.without_arrow = True
                    routing = replace(routing, mark=marks[1])
                    frames = self._frames(statements, changes, routing, made)
                    return self._merged(frames, known, routing, answered)
        finally:
            exchange.sweep(self.root, marks)
            for name in made:
                (self.root / name).unlink(missing_ok=True)

    def _frames(
        self,
        statements: Sequence[Statement],
        changes: Mapping[str, Change],
        routing: Routing,
        made: list[str],
    ) -> list[DataFrame]:
        """What all statements emit, as rows of the exchange; a DataFrame for each hop."""
        out = []
        for name in dict.fromkeys(s.drives for s in statements):
            mine = [slim(s) for s in statements if s.drives == name]
            finds = any(isinstance(step, Hop) for s in mine for step in s.steps)
            cores = self.session.cores
            pieces = pieces_of(changes[name], self.root, cores, made, self.working, finds)
            if not pieces:
                continue
            quick = [s for s in mine if self.quick(s.steps)]
            if quick:
                out.append(
                    self._numbers(pieces).mapInArrow(self._emitter(quick, pieces, routing), EMITTED)
                )
                self.session.counts.hops += 1
            for s in mine:
                if s not in quick:
                    out.append(self._slow(s, pieces, routing))
        return out

    def quick(self, steps: Iterable[Step]) -> bool:
        return all(self._in_arrow(s) for s in steps)

    def _in_arrow(self, s: Step) -> bool:
        """Whether tasks evaluate a step by themselves; they know no time zone but UTC."""
        if isinstance(s, Hop):
            return True
        tree = (s.scalar if isinstance(s, Bind) else s.condition).tree
        if tree is None or (in_zone(tree) and self.session.zone not in UTC_NAMES):
            return False
        return not self.without_arrow or tree[0] == "column"

    def _numbers(self, pieces: Sequence[Piece]) -> DataFrame:
        return numbers_of(self.session.spark, pieces)

    def task(self) -> Task:
        """What a task needs to read maps."""
        w = self.working
        return Task(
            str(self.root),
            {n: slim_map(m) for n, m in w.maps.items()},
            {n: tuple(r) for n, r in w.refs.items() if n in w.maps or n.startswith(LEDGER)},
            {n: tuple(self._on_disk(n)) for n in w.added},
            w.stored_changes(LocalFiles(self.root)),
            w.reads_new,
            w.generation,
            w.hidden,
            w.zoned,
            frozenset(w.fresh),
        )

    def _on_disk(self, name: str) -> list[RunRef]:
        """New runs that tasks can read; what is in memory is written first."""
        if name in self.working.entries:
            self.working.store_memory(LocalFiles(self.root))
        return self.working.added[name]

    def _emitter(
        self, statements: Sequence[Statement], pieces: Sequence[Piece], routing: Routing
    ) -> Any:
        task = self.task()

        def emitting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            working, root, files = task.working(), Path(task.root), exchange.names(routing.mark)
            for piece in given(batches, pieces):
                for table in piece.read(root, working):
                    for s in statements:
                        for rows in little_by_little(s, table, working, piece.share):
                            yield from left(s.target, rows, routing, root, files)

        return emitting

    def _slow(self, s: Statement, pieces: Sequence[Piece], routing: Routing) -> DataFrame:
        """A statement with scalars that only Spark can evaluate: hops with Spark SQL between."""
        task = self.task()
        done: list[Step] = []
        frame: DataFrame | None = None
        todo: list[Step] = []
        for segment in segments(s.steps):
            many: list[Step] = [segment] if isinstance(segment, Hop) else list(segment)
            while many and self._in_arrow(many[0]):
                todo.append(many.pop(0))
            if many:
                frame = self._hop(s, frame, task, pieces, done, todo)
                binds = [x for x in many if isinstance(x, (Bind, Filter))]
                frame = in_sql(frame, binds)
                done, todo = [*done, *todo, *many], []
        assert frame is not None
        rest, names = tuple(todo), frame.columns

        def finishing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            working, files = task.working(), exchange.names(routing.mark)
            for batch in batches:
                given = pa.Table.from_batches([batch]).rename_columns(names)
                found = emit(s, step(rest, given, working, in_arrow))
                yield from left(s.target, found, routing, Path(task.root), files)

        self.session.counts.hops += 1
        return _numbered(frame).mapInArrow(finishing, EMITTED)

    def _hop(
        self,
        s: Statement,
        frame: DataFrame | None,
        task: Task,
        pieces: Sequence[Piece],
        done: Sequence[Step],
        todo: Sequence[Step],
    ) -> DataFrame:
        """The frame after some steps in Arrow, with typed columns."""
        self.session.counts.hops += 1
        steps = tuple(todo)
        after = self._schema(s, [*done, *todo])
        if frame is None:

            def reading(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                working = task.working()
                for piece in given(batches, pieces):
                    for table in piece.read(Path(task.root), working):
                        rows = step(steps, start(s, table), working, in_arrow, piece.share)
                        yield from batches_of(rows, after)

            return self._numbers(pieces).mapInArrow(reading, from_arrow_schema(after))

        names = frame.columns

        def going_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            working = task.working()
            for batch in batches:
                given = pa.Table.from_batches([batch]).rename_columns(names)
                yield from batches_of(step(steps, given, working, in_arrow), after)

        return _numbered(frame).mapInArrow(going_on, from_arrow_schema(after))

    def _schema(self, s: Statement, steps: Sequence[Step]) -> pa.Schema:
        """The columns after some steps, found by taking no rows through them."""
        relation = self.working.row_schema(s.drives)
        table = step(steps, start(s, relation.empty_table()), self.working, _typed)
        return plain(table).schema

    def _merged(
        self,
        frames: Sequence[DataFrame],
        strata: Sequence[Stratum],
        routing: Routing,
        answered: set[str],
    ) -> dict[str, pa.Table]:
        """One exchange, and the merges; their runs are added, their touched groups given."""
        if not frames:
            return {}
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.union(frame)
        task = self.task()
        wanted = {s.name for s in strata if s.name in answered}
        sent = whole.repartitionById(routing.parts, "part").mapInArrow(
            _merger(task, strata, wanted, routing), RESULTS
        )
        counts = self.session.counts
        counts.jobs += 1
        counts.exchanges += 1
        counts.hops += 1
        refs, touched = exchange.received(sent.toArrow(), self.root)
        self.working.add_stored(refs)
        return {n: pa.concat_tables(tables) for n, tables in touched.items()}

    # --- answers of many groups ------------------------------------------------------------------------------------

    def components(self, stratum: Stratum, keys: pa.Table, weights: Ints) -> pa.Table:
        """What touched groups are answered from, before and after; kept where the stratum keeps it.

        The weights say how many entries are read for each group.
        """
        self.working.on_spark = True
        self.working.next_round()
        made: list[str] = []
        pieces = weighed(keys, weights, self.root, self.session.partitions, made)
        task, known = self.task(), slim_stratum(stratum)
        mark, inline = exchange.new_mark(), policy.INLINE

        def answering(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            root = Path(task.root)
            for piece in given(batches, pieces):
                working = task.working()
                for table in piece.read(root, working):
                    found = components(working, known, table)
                    if known.answers is not None:
                        keep_answers(working, (known, found))
                    refs = working.written(LocalFiles(task.root))
                    yield from results({known.name: found}, refs, root, mark, inline)

        try:
            what = "answering the groups of a view"
            with telling(what), showing(self.session.spark, f"{what}, {keys.num_rows:,} of them"):
                sent = self._numbers(pieces).mapInArrow(answering, RESULTS).toArrow()
            refs, tables = exchange.received(sent, self.root)
        finally:
            exchange.sweep(self.root, [mark])
            for name in made:
                (self.root / name).unlink(missing_ok=True)
        self.session.counts.jobs += 1
        self.session.counts.hops += 1
        self.working.add_stored(refs)
        return pa.concat_tables(tables[known.name])


# --- what runs in tasks --------------------------------------------------------------------------------------------


class Task:
    """The maps of an increment as a task is given them."""

    def __init__(
        self,
        root: str,
        maps: dict[str, Map],
        refs: dict[str, tuple[RunRef, ...]],
        added: dict[str, tuple[RunRef, ...]],
        changes: dict[str, Any],
        reads_new: bool,
        generation: Generation,
        hidden: Mapping[str, Punctuations],
        zoned: Zoned,
        fresh: frozenset[str] = frozenset(),
    ):
        self.root, self.maps, self.refs, self.added = root, maps, refs, added
        self.hidden, self.zoned, self.fresh = hidden, zoned, fresh
        self.changes, self.reads_new, self.generation = changes, reads_new, generation

    def working(self) -> Working:
        """The maps, to read and to add to."""
        runs = runs_of(self.root)
        runs.hold({r.file for refs in self.refs.values() for r in refs})
        made = Working(self.maps, self.refs, runs, self.generation, self.added, zoned=self.zoned)
        made.reads_new, made.hidden, made.fresh = self.reads_new, self.hidden, set(self.fresh)
        made.changes = {n: Arrangement(s, refs, made.runs) for n, (s, refs) in self.changes.items()}
        return made


@cache
def runs_of(root: str) -> Runs:
    """Opened files, kept from one task to the next in a Python worker."""
    return Runs(LocalFiles(root), DATA)


def _merger(
    task: Task, strata: Sequence[Stratum], wanted: set[str], routing: Routing
) -> Callable[..., Any]:
    def merging(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        emitted: dict[int, dict[str, list[pa.Table]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                mine = emitted.setdefault(row["part"], {})
                mine.setdefault(row["name"], []).append(exchange.taken(row, Path(task.root)))
        for part, changes in emitted.items():
            working = task.working()
            working.reads_new = True
            touched = merge(working, strata, changes, wanted)
            cut = partial(routing.runs, part)
            refs = working.written(LocalFiles(task.root), cut)
            yield from results(touched, refs, Path(task.root), routing.mark, routing.inline)

    return merging


def little_by_little(
    s: Statement, table: pa.Table, working: Working, share: Share
) -> Iterator[pa.Table]:
    """What a statement emits for some rows, in as many parts as it takes for none to be very large."""
    which, times = share
    try:
        # Rows that are found and that find as many again cannot be shared for ever.
        most = policy.MOST_FOUND if times < policy.MANY_SHARES else None
        yield run(s, table, working, share=share, most=most)
    except TooMany:
        if share == WHOLE and table.num_rows > 1:
            half = table.num_rows // 2
            for rows in (table.slice(0, half), table.slice(half)):
                yield from little_by_little(s, rows, working, share)
            return
        # All who share a piece must divide the same rows, so it is the share that is halved.
        for i in (2 * which, 2 * which + 1):
            yield from little_by_little(s, table, working, (i, 2 * times))


def _numbered(frame: DataFrame) -> DataFrame:
    """A frame with plain names: `mapInArrow` takes a point in a name for a field of a struct."""
    return frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))


def numbers_of(spark: SparkSession, things: Sequence[Any]) -> DataFrame:
    """A row and a task for each of some things: its number."""
    return spark.range(0, len(things), 1, len(things))


def given(batches: Iterator[pa.RecordBatch], things: Sequence[T]) -> Iterator[T]:
    """The things whose numbers a task was given."""
    for batch in batches:
        for i in batch.column(0).to_pylist():
            yield things[i]


def batches_of(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if table.num_rows:
        yield from plain(table.select(schema.names)).cast(schema).combine_chunks().to_batches()


def _typed(steps: Sequence[Bind | Filter], table: pa.Table) -> pa.Table:
    """Binds over no rows: only the types."""
    for s in steps:
        if isinstance(s, Bind):
            table = table.append_column(s.name, pa.array([], arrow_type(s.scalar.type)))
    return table


def slim_map(m: Map) -> Map:
    """A map without its term, which tasks do not read."""
    return replace(m, text="")


def slim_view(view: View) -> View:
    """A view without terms, for a task."""
    match view.rows:
        case Stored(map=m):
            return replace(view, rows=Stored(slim_map(m)))
        case Nested(parts):
            slim = tuple(replace(p, map=slim_map(p.map), owners=None) for p in parts)
            return replace(view, rows=Nested(slim))
        case _:
            return view


def slim_stratum(s: Stratum) -> Stratum:
    """A stratum without terms."""
    return replace(
        s,
        text="",
        group=slim_map(s.group),
        distinct=tuple(replace(d, map=slim_map(d.map)) for d in s.distinct),
        from_bags=tuple(replace(b, map=slim_map(b.map)) for b in s.from_bags),
        ranked=replace(s.ranked, map=slim_map(s.ranked.map)) if s.ranked is not None else None,
        answers=slim_map(s.answers) if s.answers is not None else None,
    )


def slim(s: Statement) -> Statement:
    """A statement without terms."""
    return replace(s, target=slim_map(s.target), changes=())
