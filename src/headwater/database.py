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
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.asking import Asking
from headwater.calculus.check import type_of
from headwater.calculus.terms import Term
from headwater.calculus.types import RecordType, field_names
from headwater.catalog import (
    APPLIED,
    SEEN,
    SETTINGS,
    Catalog,
    SourceDef,
    ViewDef,
    check_functions,
    ddl_of,
    facts_of,
    functions_of,
    text_of,
)
from headwater.compiler.materialize import key_fields
from headwater.compiler.program import WEIGHT, View
from headwater.compiler.sources import source_parts
from headwater.compiler.strata import STRATEGIES, Compiler
from headwater.engine import read
from headwater.engine.answers import consolidated, merge
from headwater.engine.backfill import Backfill
from headwater.engine.increment import Increment
from headwater.engine.session import Counts, Session, telling
from headwater.engine.spec import spec_of
from headwater.engine.stage import FOLDER, Change
from headwater.engine.working import Working
from headwater.errors import (
    BadChange,
    EngineError,
    HeadwaterError,
    InUse,
    NameTaken,
    NotIncremental,
    QueryError,
    StateError,
)
from headwater.handles import Commit, Source, ViewHandle
from headwater.language.comprehension import Query
from headwater.language.functions import DEFINED
from headwater.language.schema import EXAMPLE, columns
from headwater.language.sql.places import placed
from headwater.reading import REBUILD, Readable, has_maps, read_query, stale_maps
from headwater.staging import checked_change, staged_change
from headwater.state.files import LocalFiles
from headwater.state.run import column
from headwater.state.store import Commit as StoreCommit
from headwater.state.store import Store, StoreWriter

SMALL = 1_000_000
"""Changes of so many rows are carried through in this process."""
AT_ONCE = 5_000_000
"""Larger changes of several sources are taken one after another on Spark too: terms of two changes cost most."""
RESERVED = (WEIGHT, "_version", "_h", "_i", "_change_type", "_commit_version", "_commit_timestamp")


def open_database(
    path: str | Path,
    spark: SparkSession | None = None,
    partitions: int | None = None,
    keep_versions: int = 100,
    keep_minutes: float = 0.0,
) -> Database:
    """Creates a database in a directory, or opens the one that is there.

    `spark` is the session to use, else the active one or a local one; `partitions` how many tasks merge;
    `keep_versions` and `keep_minutes` how much of the past stays readable.
    """
    return Database(Path(path), spark, partitions, keep_versions, keep_minutes)


class Database(Readable):
    """Sources and views in a directory; made by `headwater.open`."""

    def __init__(
        self,
        path: Path,
        spark: SparkSession | None,
        partitions: int | None,
        keep_versions: int,
        keep_minutes: float,
    ):
        if path.exists() and not path.is_dir():
            raise StateError(f"{path} is a file", hint="give a directory")
        self.path = path.absolute()
        self.files = LocalFiles(self.path)
        self.store = Store(self.files, keep_versions, keep_minutes)
        self.session = Session(spark, partitions)
        self.ask = Asking(self.session)
        self.execution = "auto"
        self.several = "auto"
        self.small = SMALL
        self._writer: StoreWriter | None = None
        self._since_collected = 0
        self._load()

    # --- opening and closing -------------------------------------------------------------------------------------

    def _load(self, compiler: Compiler | None = None) -> None:
        """Takes the newest version, with the program of its views if that is known."""
        snapshot = self.store.at()
        self.version = snapshot.number
        self.catalog = Catalog.read(snapshot.facts)
        kept = snapshot.facts.get(SETTINGS)
        if kept is not None:
            self.session.adopt(kept)
        self.compiler = compiler or self.catalog.compiled()
        self.stale = not has_maps(snapshot, self.compiler)

    def _writing(self, stale: bool = False) -> StoreWriter:
        """The right to write; only `rebuild` may do so while the maps are stale."""
        if self.stale and not stale:
            raise stale_maps()
        if self._writer is None:
            with self._telling():
                self._writer = self.store.writer()
                try:
                    if self.store.head() != self.version:
                        self._load()
                except BaseException:
                    self.close()
                    raise
                with contextlib.suppress(OSError):  # what a writer that was killed had staged
                    for entry in self.files.list(FOLDER):
                        self.files.delete(f"{FOLDER}/{entry.name}")
        return self._writer

    def close(self) -> None:
        """Lets another writer in. Reading goes on to work."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError) if kind is not None else contextlib.nullcontext():
            self.close()

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

    def __getitem__(self, name: str) -> ViewHandle | Source:
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
        """Declares an input with its columns, as DDL or as a StructType; again with the same ones it is no change."""
        ddl = schema if isinstance(schema, str) else _ddl(schema)
        row = columns(ddl)
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        made = SourceDef(
            name, ddl_of(row), keys, static, retain, strict, path, format, dict(options or {})
        )
        self._check_columns(name, row, keys, strict)
        known = self.catalog.sources.get(name)
        if known == made:
            return Source(self, name)
        if self._writer is None:
            self._writing()  # another writer may have declared it since
            return self.source(
                name,
                schema,
                key=key,
                path=path,
                format=format,
                options=options,
                static=static,
                retain=retain,
                strict=strict,
            )
        self._check_name(name)
        with self._commit(f"source {name}") as commit:
            fact, value = facts_of(made)
            commit.set(fact, value)
            if retain:
                for m in made.all_maps:
                    commit.create(spec_of(m))
        return Source(self, name)

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
        self, name: str, row: RecordType, key: tuple[str, ...], strict: bool
    ) -> None:
        if not row.fields:
            raise QueryError(f"the source `{name}` has no columns", hint=EXAMPLE)
        _check_reserved(row)
        if len(source_parts(name, row, key)) > 1 and not strict:  # says what is wrong with the key
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
        if strategy not in STRATEGIES:
            raise QueryError(f"`{strategy}` is no strategy", hint=f"one of {', '.join(STRATEGIES)}")
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        schemas, known = self.catalog.schemas(), self.catalog.views.get(name)
        same = None if known is None else (known.text, known.strategy, known.key)
        if same == (query, strategy, keys):
            return ViewHandle(self, name)  # before it is read, for which Spark may be asked
        text, language, term = read_query(query, schemas, self.ask)
        if same == (text, strategy, keys):
            return ViewHandle(self, name)
        if self._writer is None:
            self._writing()  # another writer may have declared it since
            return self.view(name, query, strategy=strategy, key=key)
        self._check_name(name)
        row = RecordType(tuple(key_fields(type_of(term))))
        _check_reserved(row)
        if strategy == "recompute" and language != "sql":
            raise QueryError("only SQL can be recomputed", hint="leave the strategy out")
        made = ViewDef(
            name,
            text,
            language,
            text_of(term),
            ddl_of(row),
            strategy,
            1 + max((v.place for v in self.catalog.views.values()), default=0),
            self.version + 1,
            functions_of(term),
            row=str(row),
            key=keys,
        )
        self._register(made)
        try:
            if strategy == "auto":
                compiler, kept, why = self.compiler.choose(name, term, keys)
            else:
                compiler, kept, why = self.compiler.fork(), strategy, "as was asked for"
                compiler.view(name, term, kept, keys)
        except NotIncremental as e:
            raise placed(e, text, schemas) if language == "sql" else e from None
        made = replace(made, kept=kept, why=why)
        view = compiler.program.views[name]
        strata = set(self.compiler.program.strata)
        before = self.compiler.program.maps
        created = [m for n, m in compiler.program.maps.items() if n not in before]
        with self._commit(f"view {name}", compiler=compiler) as commit:
            fact, value = facts_of(made)
            commit.set(fact, value)
            for m in created:
                commit.create(spec_of(m))
            working = self._working(commit, compiler)
            with self._telling():
                if strategy == "recompute":
                    rest = Catalog(self.catalog.sources, {**self.catalog.views, name: made})
                    self._recompute(working, view, rest, made)
                else:
                    fill = Backfill(
                        compiler,
                        working,
                        self.session,
                        self.path,
                        self._small(),
                        self._gone(commit),
                    )
                    fill.run(compiler.maps.created, strata)
            self._add(commit, working)
        return ViewHandle(self, name)

    def _gone(self, commit: StoreCommit) -> list[str]:
        """The sources that have had rows and keep none."""
        return [k.removeprefix(SEEN) for k in commit.base.facts if k.startswith(SEEN)]

    def drop(self, name: str) -> None:
        """Takes away a view, or a source that no view reads, with the maps that only it needs."""
        self._writing()
        if name not in self.catalog.sources and name not in self.catalog.views:
            raise self._unknown(name)
        readers = self.catalog.readers(name)
        if readers:
            raise InUse(
                f"`{name}` is read by the view `{readers[0]}`", hint=f"drop `{readers[0]}` first"
            )
        rest = Catalog(
            {n: s for n, s in self.catalog.sources.items() if n != name},
            {n: v for n, v in self.catalog.views.items() if n != name},
        )
        kept = rest.compiled().program.maps
        with self._commit(f"drop {name}") as commit:
            for fact in (f"source:{name}", f"view:{name}"):
                if fact in commit.base.facts:
                    commit.set(fact, None)
            for m in commit.base.maps:
                if m not in kept:
                    commit.drop(m)

    def rebuild(self) -> None:
        """Chooses anew what to keep for all views, and computes it from the sources, in one commit."""
        self._writing(stale=True)
        catalog = self.catalog.chosen_again()
        compiler = catalog.compiled()
        sources = {m.name for s in catalog.sources.values() for m in s.all_maps}
        with self._commit(REBUILD) as commit:
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
            with self._telling():
                fill = Backfill(
                    compiler, working, self.session, self.path, self._small(), self._gone(commit)
                )
                fill.run(compiler.maps.created, set())
                for name, view in compiler.program.views.items():
                    if view.strategy == "recompute":
                        self._recompute(working, view, catalog, catalog.views[name])
            self._add(commit, working)

    # --- changing --------------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, Any], *, id: str | None = None) -> Commit:
        """Applies changes to sources, all at once, and gives the commit; with an `id`, only the first time."""
        started = time.perf_counter()
        self._writing()
        done = self.store.at().facts.get(f"{APPLIED}{id}") if id is not None else None
        if done is not None:
            return Commit(done["version"], done["rows"], id=id, repeated=True, database=self)
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
                made, rows[n] = staged_change(self.catalog, self.session, self.path, n, given)
                for relation, change in made.items():
                    staged[relation] = staged.get(relation, Change()).with_rows(change)
            with self._commit("apply", id) as commit:
                working = self._working(commit, self.compiler)
                ignored = self._carry(working, dict(staged))
                size = self._add(commit, working)
                for n, s in staged.items():
                    if not self.catalog.owning(n).retain and s.rows:
                        commit.set(f"{SEEN}{n}", True)
                if id is not None:
                    fact = {"version": commit.base.number + 1, "rows": rows}
                    commit.set(f"{APPLIED}{id}", fact)
        finally:
            for s in staged.values():
                for f in s.files:
                    (self.path / f).unlink(missing_ok=True)
        self._tidy()
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
            id,
            database=self,
        )

    def _small(self) -> int:
        """Changes of so many rows are carried through here and not on Spark."""
        return {"driver": 1 << 62, "spark": 0}.get(self.execution, self.small)

    def _carry(self, working: Working, staged: dict[str, Change]) -> dict[str, int]:
        """Carries staged changes through all maps; how many deletions were ignored."""
        for view in self.catalog.views.values():
            self._register(view)
        with self._telling():
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

    # --- committing --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _commit(
        self, note: str, id: str | None = None, compiler: Compiler | None = None
    ) -> Iterator[StoreCommit]:
        writer = self._writing(stale=True)
        with self._telling():
            commit = writer.begin()
        if SETTINGS not in commit.base.facts:
            commit.set(SETTINGS, self.session.settings())
            self.session.adopt(self.session.settings())
        yield commit
        try:
            writer.commit(commit, {"what": note, **({"id": id} if id is not None else {})})
        except OSError as e:
            with self._telling():
                made = self.store.head()
                if made == commit.base.number:
                    raise
            self._load()
            raise StateError(
                f"version {made} was committed, but may not survive a power cut: {e.strerror or e}",
                hint="mend the disk; with an `id` the change can be applied again without harm",
            ) from e
        if note.startswith("apply"):
            self.version = self.store.head()
        else:
            self._load(compiler)

    def _working(self, commit: StoreCommit, compiler: Compiler) -> Working:
        refs = {n: refs for n, (_, refs) in commit.base.maps.items()}
        first = commit.generation() * read.STEPS
        rows = compiler.relations.rows
        return Working(compiler.program.maps, refs, self.store.runs, first, rows=rows)

    def _add(self, commit: StoreCommit, working: Working) -> int:
        """Everything that was made, to be committed; how many bytes it has."""
        with self._telling():
            made = working.written(self.files)
        for name, refs in made.items():
            commit.add(name, refs)
        return sum(r.size for refs in made.values() for r in refs)

    def _tidy(self) -> None:
        """Compacts in the background, and lets old files go now and then."""
        writer = self._writing()
        writer.compact_in_background()
        self._since_collected += 1
        if self._since_collected >= 50:
            self._since_collected = 0
            with contextlib.suppress(OSError):  # the increment is committed; the next time may do
                self.store.collect()

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """What goes wrong inside, in our words; nothing is committed."""
        try:
            with telling("applying a change"):
                yield
        except HeadwaterError:
            raise
        except OverflowError as e:
            raise EngineError(
                f"{e}; recomputing the query would overflow too", hint="cast to a wider type"
            ) from e
        except OSError as e:
            raise StateError(
                f"the state in {self.path} could not be written: {e.strerror or e}",
                hint="nothing was committed; make room or mend the disk, and apply the same change again",
            ) from e

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
        old = list(read.scan(compiler.program, view, working, self.session.evaluate))
        schema = read.row_schema(view)
        ones = pa.repeat(pa.scalar(1, pa.int64()), new.num_rows)
        sides = [new.append_column(WEIGHT, ones).cast(schema)]
        for t in old:
            weights = pa.array(-np.asarray(column(t, WEIGHT)))
            sides.append(t.set_column(len(schema) - 1, WEIGHT, weights))
        change = consolidated(pa.concat_tables(sides)).rename_columns([*m.columns, "r0"])
        merge(working, [], {m.name: [change]})


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
    return ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in schema.fields)
