"""A database: declared sources and views in a directory, changes applied to them, answers read from them.

`apply` stages a change once, carries it through all maps, and commits: readers see the version before or the version
after. A small change is carried through in this process, a large one on Spark; the statements and kernels are the same.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.api.asking import Asking
from headwater.api.bring_in import checked_change, staged_change
from headwater.api.catalog import (
    SEEN,
    SETTINGS,
    Catalog,
    SourceDef,
    ViewDef,
    check_functions,
    check_texts,
    facts_of,
    functions_of,
    text_of,
)
from headwater.api.dropping import without
from headwater.api.feeds import REBUILD
from headwater.api.handles import Commit, Source, ViewHandle
from headwater.api.ids import Id, applied, as_note, checked_id, noted
from headwater.api.versions import read_query
from headwater.api.writing import Writable, asked_to_keep
from headwater.calculus.check import type_of
from headwater.calculus.terms import Term
from headwater.calculus.types import RecordType, field_names
from headwater.engine import view_rows
from headwater.engine.change import Change
from headwater.engine.fill import Backfill
from headwater.engine.here.answers import consolidated, merge
from headwater.engine.increment import Increment
from headwater.engine.rings import spec_of
from headwater.engine.spark.session import Counts, Session
from headwater.engine.working import Working
from headwater.errors import (
    BadChange,
    InUse,
    NameTaken,
    NotIncremental,
    QueryError,
)
from headwater.io.limits import check_limits
from headwater.language.comprehension import Query
from headwater.language.declared import ddl_of, ddl_of_struct, declared
from headwater.language.functions import DEFINED
from headwater.language.schema import EXAMPLE
from headwater.language.sql.places import placed
from headwater.plan.compiler import STRATEGIES
from headwater.plan.maps import key_fields
from headwater.plan.nested.sources import source_parts
from headwater.plan.program import WEIGHT, View
from headwater.plan.statements import RULES
from headwater.state.run import column
from headwater.state.store import Commit as StoreCommit
from headwater.state.store import StoreWriter

SMALL = 1_000_000
"""Changes of so many rows are carried through in this process."""
AT_ONCE = 5_000_000
"""Larger changes of several sources are taken one after another on Spark too: terms of two changes cost most."""
APPLY = "apply"
"""What a version is noted as that applied a change."""
RESERVED = (WEIGHT, "_version", "_h", "_i", "_change_type", "_commit_version", "_commit_timestamp")


def open_database(
    path: str | Path,
    spark: SparkSession | None = None,
    partitions: int | None = None,
    keep_versions: int | None = None,
    keep_minutes: float | None = None,
) -> Database:
    """Creates a database in a directory, or opens the one that is there.

    `spark` is the session to use, else the active one or a local one; `partitions` how many tasks merge;
    `keep_versions` (100 unless given) and `keep_minutes` how much of the past of a new database stays readable:
    it is a fact of the database from then on, which `Database.keep` changes.
    """
    return Database(path, spark, partitions, keep_versions, keep_minutes)


class Database(Writable):
    """Sources and views in a directory; made by `headwater.open`.

    Threads may share a handle: reads go on beside each other, and writes wait for one another. A process that was
    forked opens the database again.
    """

    def __init__(
        self,
        path: str | Path,
        spark: SparkSession | None,
        partitions: int | None,
        keep_versions: int | None,
        keep_minutes: float | None,
    ):
        session = Session(spark, partitions)
        self.ask = Asking(session)
        self.execution = "auto"
        self.several = "auto"
        self.small = SMALL
        asked = {"versions": keep_versions, "minutes": keep_minutes}
        super().__init__(path, session, asked_to_keep(asked))

    @property
    def spark(self) -> SparkSession:
        """The session that DataFrames of this database belong to."""
        return self.session.user

    @property
    def sources(self) -> list[str]:
        """The names of the sources."""
        return list(self.catalog.sources)

    @property
    def views(self) -> list[str]:
        """The names of the views."""
        return list(self.catalog.views)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.catalog.named(name) in [*self]

    def __iter__(self) -> Iterator[str]:
        """The names of sources and views."""
        return iter([*self.catalog.sources, *self.catalog.views])

    def __len__(self) -> int:
        return len(self.catalog.sources) + len(self.catalog.views)

    def __bool__(self) -> bool:
        return True  # a database without sources is one too

    def __getitem__(self, name: str) -> ViewHandle | Source:
        name = self.catalog.named(name)
        if name in self.catalog.views:
            return ViewHandle(self, name)
        if name in self.catalog.sources:
            return Source(self, name)
        raise self._unknown(name)

    # --- declaring -------------------------------------------------------------------------------------------------

    def source(
        self,
        name: str,
        schema: str | StructType,
        *,
        key: str | list[str] | tuple[str, ...] | None = None,
        path: str | None = None,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        static: bool = False,
        retain: bool = True,
        strict: bool = True,
    ) -> Source:
        """Declares an input with its columns, as DDL or as a StructType; again with the same ones it is no change.

        NOT NULL, VARCHAR(n) and a key, which may be said as PRIMARY KEY, are enforced. Declared again with other ones
        of the first two, what is there is checked, and they hold from then on.
        """
        _check_text(name, "name of a source")
        name = self.catalog.named(name)
        said = declared(schema if isinstance(schema, str) else _ddl(schema))
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        if keys and said.key and not _same_names(keys, said.key):
            raise QueryError(
                f"the key of `{name}` is {', '.join(keys)}, and its schema says PRIMARY KEY ({', '.join(said.key)})",
                hint="say it once",
            )
        keys, row = keys or said.key, said.row
        before = self.catalog.sources.get(name)
        if before is not None and _same_names(before.key, keys):
            keys = before.key
        made = SourceDef(
            name, said.ddl, keys, static, retain, strict, path, format, dict(options or {})
        )
        if before == made:
            return Source(self, name)
        self._check_columns(name, row, keys, strict, retain)
        _refuse_files(path=path, format=format, options=options)
        with self._locked():
            self._writing()
            known = self.catalog.sources.get(name)
            if known == made:
                return Source(self, name)  # another writer has declared it since
            if known is not None and replace(known, ddl=made.ddl) == made and known.row == row:
                self._limit(made)
                return Source(self, name)
            self._check_name(name)
            catalog = Catalog({**self.catalog.sources, name: made}, self.catalog.views)
            with self._commit(f"source {name}", (catalog, catalog.compiled())) as commit:
                commit.set(*facts_of(made))
                if retain:
                    for m in made.all_maps:
                        commit.create(spec_of(m))
        return Source(self, name)

    def _limit(self, made: SourceDef) -> None:
        """Other limits for a source whose columns stay; what is there must keep them."""
        if made.retain:
            check_limits(made.name, made.limits, self.table(made.name), there=True)
        catalog = Catalog({**self.catalog.sources, made.name: made}, self.catalog.views)
        with self._commit(f"source {made.name}", (catalog, self.compiler)) as commit:
            commit.set(*facts_of(made))

    def _check_name(self, name: str) -> None:
        taken = {n.lower() for n in (*self.catalog.sources, *self.catalog.views)}
        if not name.isidentifier() or name.startswith("Δ"):
            raise QueryError(f"`{name}` is no name", hint="use letters, digits and _")
        if name.lower() in taken:
            raise NameTaken(
                f"there is a source or view `{name}` already",
                hint="drop it first, or take another name",
            )

    def _check_columns(
        self, name: str, row: RecordType, key: tuple[str, ...], strict: bool, retain: bool
    ) -> None:
        if not row.fields:
            raise QueryError(f"the source `{name}` has no columns", hint=EXAMPLE)
        _check_reserved(row)
        nested = len(source_parts(name, row, key)) > 1  # says what is wrong with the key
        if key and not nested and not retain:
            raise QueryError(
                f"`{name}` has a key and keeps no copy of its rows, so that nobody can tell whether a key is there once",
                hint="leave retain=False out, or the key",
            )
        if nested and not strict:
            raise QueryError(
                f"`{name}` has arrays with owners, and is not strict",
                hint="a deletion of a row that is not there could take inner rows of another: leave strict=False out",
            )

    def view(
        self,
        name: str,
        query: str | Query | Term,
        *,
        strategy: str = "auto",
        key: str | Sequence[str] | None = None,
    ) -> ViewHandle:
        """Declares a view and computes it from what is there; again with the same query it is no change.

        `key` names the columns that rows of a nested view are looked up by; its first column unless it is given.
        """
        _check_text(name, "name of a view")
        name = self.catalog.named(name)
        if strategy not in STRATEGIES:
            raise QueryError(f"`{strategy}` is no strategy", hint=f"one of {', '.join(STRATEGIES)}")
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        # Before the query is read, for which Spark may be asked, and before the lease is taken.
        if self._is_defined(name, query, strategy, keys):
            return ViewHandle(self, name)
        before = self.catalog
        text, language, term = read_query(query, before.schemas(), self.ask)
        if self._is_defined(name, text, strategy, keys):
            return ViewHandle(self, name)
        with self._locked():
            self._writing()
            if self.catalog != before:  # another writer or thread has defined something since
                if self._is_defined(name, text, strategy, keys):
                    return ViewHandle(self, name)
                text, language, term = read_query(query, self.catalog.schemas(), self.ask)
            self._check_name(name)
            self._define(name, text, language, term, strategy, keys)
        return ViewHandle(self, name)

    def _is_defined(self, name: str, query: Any, strategy: str, key: tuple[str, ...]) -> bool:
        known = self.catalog.views.get(name)
        if known is None or not _same_names(known.key, key):
            return False
        return (known.text, known.strategy) == (query, strategy)

    def _define(
        self, name: str, text: str, language: str, term: Term, strategy: str, keys: tuple[str, ...]
    ) -> None:
        """Plans a view, fills its maps from what is there, and commits both; the right to write is held."""
        known, schemas = self._defined, self.catalog.schemas()
        row = RecordType(tuple(key_fields(type_of(term))))
        _check_reserved(row)
        if strategy == "recompute" and language != "sql":
            raise QueryError("only SQL can be recomputed", hint="leave the strategy out")
        check_texts(term)
        made = ViewDef(
            name,
            text,
            language,
            text_of(term),
            ddl_of(row),
            strategy,
            1 + max((v.place for v in known.catalog.views.values()), default=0),
            known.version + 1,
            functions_of(term),
            row=str(row),
            key=keys,
        )
        self._register(made)
        try:
            if strategy == "auto":
                compiler, kept, why = known.compiler.choose(name, term, keys, self._sampled())
            else:
                compiler = known.compiler.asked_for(name, term, strategy, keys)
                kept, why = strategy, "as was asked for"
        except NotIncremental as e:
            raise placed(e, text, schemas) if language == "sql" else e from None
        view, before = compiler.program.views[name], known.compiler.program
        made = replace(made, kept=kept, why=why, stored=view.stored, rules=RULES)
        catalog = Catalog(known.catalog.sources, {**known.catalog.views, name: made})
        with self._commit(f"view {name}", (catalog, compiler)) as commit:
            commit.set(*facts_of(made))
            for n, m in compiler.program.maps.items():
                if n not in before.maps:
                    commit.create(spec_of(m))
            working = self._working(commit, compiler)
            with self._telling("writing"):
                if strategy == "recompute":
                    self._recompute(working, view, catalog, made)
                else:
                    fill = Backfill(
                        compiler,
                        working,
                        self.session,
                        self.path,
                        self._small(),
                        self._gone(commit),
                    )
                    fill.run(compiler.maps.created, set(before.strata))
            self._add(commit, working)

    def _gone(self, commit: StoreCommit) -> list[str]:
        """The sources that have had rows and keep none."""
        return [k.removeprefix(SEEN) for k in commit.base.facts if k.startswith(SEEN)]

    def drop(self, name: str) -> None:
        """Takes away a view, or a source that no view reads, with the maps that only it needs."""
        with self._locked():
            self._writing()
            name = self.catalog.named(name)
            if name not in self.catalog.sources and name not in self.catalog.views:
                raise self._unknown(name)
            readers = self.catalog.readers(name)
            if readers:
                raise InUse(
                    f"`{name}` is read by the view `{readers[0]}`",
                    hint=f"drop `{readers[0]}` first",
                )
            rest = Catalog(
                {n: s for n, s in self.catalog.sources.items() if n != name},
                {n: v for n, v in self.catalog.views.items() if n != name},
            )
            sources = {m.name for s in rest.sources.values() if s.retain for m in s.all_maps}
            compiler = None
            if name in self.catalog.views:
                compiler = without(self.compiler, name, sources)
            compiler = compiler or rest.compiled()
            kept = compiler.program.maps
            with self._commit(f"drop {name}", (rest, compiler)) as commit:
                for fact in (f"source:{name}", f"view:{name}"):
                    if fact in commit.base.facts:
                        commit.set(fact, None)
                for m in commit.base.maps:
                    if m not in kept:
                        commit.drop(m)

    def rebuild(self) -> None:
        """Chooses anew what to keep for all views, and computes it from the sources, in one commit."""
        with self._locked():
            self._writing(stale=True)
            self._rebuild(REBUILD)

    def upgrade(self) -> None:
        """Makes the Spark of this session the one that answers are given by: all views are computed again and verified."""
        with self._locked():
            self._writing(stale=True, other_spark=True)
            before = self.session.adopt(self.session.settings_now())
            try:
                self._rebuild(REBUILD)
            except BaseException:
                self.session.adopt(before)
                raise
        self.verify()

    def _rebuild(self, note: str) -> None:
        catalog = self.catalog.chosen_again(
            lambda q, known: read_query(q, known, self.ask)[2], self._sampled()
        )
        compiler = catalog.compiled()
        sources = {m.name for s in catalog.sources.values() for m in s.all_maps}
        with self._commit(note, (catalog, compiler)) as commit:
            if commit.base.facts.get(SETTINGS) != self.session.settings():
                commit.set(SETTINGS, self.session.settings())
            for made in catalog.views.values():
                commit.set(*facts_of(made))
            for name in commit.base.maps:
                if name not in sources:
                    commit.drop(name)
            for name, m in compiler.program.maps.items():
                if name not in sources:
                    commit.create(spec_of(m))
            working = self._working(commit, compiler)
            working.refs = {n: r for n, r in working.refs.items() if n in sources}
            with self._telling("writing"):
                fill = Backfill(
                    compiler, working, self.session, self.path, self._small(), self._gone(commit)
                )
                fill.run(compiler.maps.created, set())
                for name, view in compiler.program.views.items():
                    if view.strategy == "recompute":
                        self._recompute(working, view, catalog, catalog.views[name])
            self._add(commit, working)

    # --- changing --------------------------------------------------------------------------------------------------

    def apply(
        self, changes: Mapping[str, Any], *, id: Id | None = None, cast: bool = False
    ) -> Commit:
        """Applies changes to sources, all at once, and gives the commit; with an `id`, only the first time.

        An id is text, kept for as long as the version that it made can be read; or `(application, number)`, of which
        the last number of each application is kept, and whatever is not above it was applied. Once the change is
        committed nothing is raised: what went wrong after that is in the `warnings` of the commit.
        With `cast`, text and fractions are read as the types of their columns, as Spark's CAST does in ANSI mode.
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
            self.session.counts = counts = Counts()
            staged: dict[str, Change] = {}
            rows: dict[str, int] = {}
            try:
                for n, given in changes.items():
                    n, made, count = staged_change(
                        self.catalog, self.session, self.path, n, given, cast
                    )
                    rows[n] = rows.get(n, 0) + count
                    for relation, change in made.items():
                        staged[relation] = staged.get(relation, Change()).with_rows(change)
                working, ignored, size = self._applied(writer, staged, rows, mark)
            finally:
                for s in staged.values():
                    for f in s.files:
                        with contextlib.suppress(OSError):  # the next writer takes it away
                            (self.path / f).unlink(missing_ok=True)
            writer.tidy()
            return Commit(
                self.version,
                rows,
                {n: i for n, i in ignored.items() if i},
                time.perf_counter() - started,
                size,
                counts.jobs,
                counts.exchanges,
                counts.hops,
                "spark" if working.on_spark else "driver",
                mark,
                warnings=writer.warnings(),
                database=self,
            )

    def _applied(
        self, writer: StoreWriter, staged: dict[str, Change], rows: dict[str, int], id: Id | None
    ) -> tuple[Working, dict[str, int], int]:
        """Carries staged changes through and commits; the maps, how many deletions were ignored, how many bytes."""
        with self._telling("writing"):
            gone = self._ids.forgotten(writer.floor())
        note = {} if id is None else {"id": as_note(id)}
        with self._commit(APPLY, **note) as commit:
            working = self._working(commit, self.compiler)
            ignored = self._carry(working, dict(staged))
            size = self._add(commit, working)
            for n, s in staged.items():
                if not self.catalog.owning(n).retain and s.rows:
                    commit.set(f"{SEEN}{n}", True)
            for key in gone:
                commit.set(key, None)
            if id is not None:
                commit.set(*noted(id, commit.version, rows))
        new = None if not isinstance(id, str) else (self.version, noted(id, 0, {})[0])
        self._ids.committed(gone, new)
        return working, ignored, size

    def _small(self) -> int:
        """Changes of so many rows are carried through here and not on Spark."""
        return {"driver": 1 << 62, "spark": 0}.get(self.execution, self.small)

    def _carry(self, working: Working, staged: dict[str, Change]) -> dict[str, int]:
        """Carries staged changes through all maps; how many deletions were ignored."""
        for view in self.catalog.views.values():
            self._register(view)
        with self._telling("writing"):
            ignored = checked_change(self.catalog, self.path, staged, working)
            increment = Increment(self.compiler, working, self.session, self.path, self._small())
            # Here a round costs little and terms of two changes cost most; on Spark a round is a job.
            total = sum(c.rows for c in staged.values())
            at_once = self.several == "at once" or (
                self.several == "auto" and self._small() < total <= AT_ONCE
            )
            at_once = at_once and increment.possible_at_once(staged)
            increment.run(staged, in_sequence=not at_once)
            for name, kept in self.compiler.program.views.items():
                if kept.strategy == "recompute":
                    self._recompute(working, kept, self.catalog, self.catalog.views[name])
        return ignored

    def _register(self, view: ViewDef) -> None:
        check_functions(view)
        for name in view.functions:
            f = DEFINED[name]
            self.session.register(name, f.__wrapped__, str(f.returns))

    def _recompute(self, working: Working, view: View, catalog: Catalog, made: ViewDef) -> None:
        """A view with the strategy `recompute`: its whole answer again, minus what it was."""
        m = view.map
        assert m is not None
        compiler = catalog.compiled()
        new = self._answer(working, compiler, catalog, made)
        old = list(view_rows.scan(compiler.program, view, working, self.session.evaluate))
        schema = view_rows.row_schema(view)
        ones = pa.repeat(pa.scalar(1, pa.int64()), new.num_rows)
        sides = [new.append_column(WEIGHT, ones).cast(schema)]
        for t in old:
            weights = pa.array(-np.asarray(column(t, WEIGHT)))
            sides.append(t.set_column(len(schema) - 1, WEIGHT, weights))
        change = consolidated(pa.concat_tables(sides)).rename_columns([*m.columns, "r0"])
        merge(working, [], {m.name: [change]})


def _check_text(name: Any, what: str) -> None:
    if not isinstance(name, str):
        raise QueryError(
            f"the {what} is of type {type(name).__name__}", hint="give it as text: 'orders'"
        )


def _check_reserved(row: RecordType) -> None:
    """Names of columns and of fields at any depth that mean something here."""
    taken = [n for n in field_names(row) if n.lower() in RESERVED]
    if taken:
        raise QueryError(f"the column name `{taken[0]}` has a meaning already", hint="take another")


def _ddl(schema: StructType) -> str:
    if not isinstance(schema, StructType):
        raise QueryError(
            f"the schema is of type {type(schema).__name__}",
            hint="give it as DDL, such as 'id BIGINT, item STRING', or as a StructType",
        )
    return ddl_of_struct(schema)


def _same_names(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether columns are the same: upper and lower case are, as in SQL."""
    return [n.lower() for n in a] == [n.lower() for n in b]


def _refuse_files(**given: Any) -> None:
    """Where a source's rows come from is not watched; what is said of that is not taken for meant."""
    said = [n for n, v in given.items() if v]
    if said:
        raise QueryError(
            f"`{said[0]}=` of a source is not read: no directory is watched yet",
            hint="leave it out, read the files with spark.read, and apply the DataFrame",
        )
