"""Reading a database: views and sources at a version, the changes between versions, and the check against recomputing.

Nothing here writes. A version is read through the catalog that it has, so that a view can be read as it was before it
was dropped, and a reader goes on undisturbed while a writer commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.api import feeds
from headwater.api.catalog import DATABASE, Catalog, SourceDef, ViewDef, rounds_sums, text_of
from headwater.api.feeds import Held, Seen, Step, steps
from headwater.calculus.check import type_of
from headwater.calculus.terms import Box, Each, Node, Num, Record, Sng, Term, Var, relations
from headwater.calculus.types import INT, MapType, RecordType
from headwater.engine import view_rows
from headwater.engine.nested import rows as nested_rows
from headwater.engine.nested.documents import (
    DocumentChanges,
    Key,
    all_documents,
    changed_documents,
    documents_at,
    touched_documents,
)
from headwater.engine.rings import spec_of
from headwater.engine.sample import Sampled
from headwater.engine.spark.rounds import Cluster
from headwater.engine.spark.session import Session, local_frame, telling
from headwater.engine.verify.compare import differences, not_among
from headwater.engine.verify.exactly import register
from headwater.engine.verify.recompute import by_interpreter, by_spark
from headwater.engine.working import Working
from headwater.errors import (
    DamagedState,
    EngineError,
    NotIncremental,
    NotInterpretable,
    NotRetained,
    QueryError,
    StateError,
    UnknownName,
    VersionGone,
)
from headwater.interop.arrow_types import arrow_type
from headwater.io.values import one_value
from headwater.language.comprehension import Query
from headwater.language.sql import read_sql
from headwater.language.sql.limiting import takes_some, unlimited
from headwater.language.sql.opaque import Ask
from headwater.language.sql.places import placed
from headwater.language.sql.rounding import PREFIX, without_rounding
from headwater.language.sql.texts import check_query
from headwater.plan.compiler import Compiler
from headwater.plan.maps import key_fields
from headwater.plan.program import WEIGHT, Part, View
from headwater.show.drawing import Explanation
from headwater.show.explain import explain_can, explain_view
from headwater.state.log import Version, path_of
from headwater.state.store import Snapshot, Store

ASKED = "(the query)"
"""What a query is called that is only asked about."""
READ_HERE = 1_000_000
"""Views of so many entries are read in this process."""


@dataclass(frozen=True)
class Defined:
    """What a handle knows of its database: a version, its sources and views, and their program; one is nothing without the others."""

    version: int
    catalog: Catalog
    compiler: Compiler
    stale: bool


class Readable:
    """The part of a database that reads."""

    path: Path
    store: Store
    session: Session
    ask: Ask
    _defined: Defined
    _past: tuple[Catalog, Compiler] | None = None
    """The other program that was read last: versions in a row mostly have the same."""

    @property
    def version(self) -> int:
        """The version that the handle is at."""
        return self._defined.version

    @property
    def catalog(self) -> Catalog:
        """The sources and views of that version."""
        return self._defined.catalog

    @property
    def compiler(self) -> Compiler:
        """The program of its views."""
        return self._defined.compiler

    @property
    def stale(self) -> bool:
        """Whether it has other maps than its views are kept in now."""
        return self._defined.stale

    def _unknown(self, name: str) -> UnknownName:
        known = ", ".join([*self.catalog.sources, *self.catalog.views]) or "none"
        return UnknownName(f"there is no source or view `{name}`", hint=f"there are: {known}")

    def _at(self, version: int | None) -> tuple[Snapshot, Defined]:
        """A version to read, with its own catalog and program; all of it from one look at what the handle knows."""
        known = self._defined
        snapshot = self._snapshot(known.version if version is None else version)
        if snapshot.number == known.version:
            found = known
        else:
            catalog = Catalog.read(snapshot.facts, snapshot.number)
            past = self._past
            if catalog == known.catalog:
                past = catalog, known.compiler
            elif past is None or past[0] != catalog:
                self._past = past = catalog, compiled(snapshot.version, catalog)
            found = Defined(snapshot.number, *past, not has_maps(snapshot.version, past[1]))
        if found.stale:
            raise stale_maps()
        return snapshot, found

    def _snapshot(self, number: int) -> Snapshot:
        if isinstance(number, bool) or not isinstance(number, int):
            raise QueryError(f"{number!r} is no version", hint="a version is a whole number")
        try:
            return self.store.at(number)
        except OSError as e:
            raise StateError(
                f"the state in {self.path} could not be read: {e.strerror or e}",
                hint="nothing was changed; mend the disk, and try again",
            ) from e

    def _reading(self, snapshot: Snapshot, at: Defined) -> Working:
        refs = {n: refs for n, (_, refs) in snapshot.version.maps.items()}
        return Working(at.compiler.program.maps, refs, snapshot.runs)

    def _sampled(self) -> Sampled:
        """What is known of the rows of sources now."""
        known = self._defined
        working = self._reading(self._snapshot(known.version), known)
        return Sampled(known.compiler.program.maps.values(), working)

    def _view_at(self, at: Defined, name: str, version: int) -> View:
        found = at.compiler.program.views.get(at.catalog.named(name))
        if found is None:
            raise UnknownName(
                f"there is no view `{name}` at version {version}",
                hint=f"views: {', '.join(at.compiler.program.views) or 'none'}",
            )
        return found

    def table(self, name: str, version: int | None = None) -> pa.Table:
        """All rows of a view or source with `_w`, read in this process."""
        snapshot, at = self._at(version)
        working = self._reading(snapshot, at)
        view = self._as_view(at, name, snapshot.number)
        tables = list(view_rows.scan(at.compiler.program, view, working, self.session.evaluate))
        return pa.concat_tables([view_rows.row_schema(view).empty_table(), *tables])

    def _as_view(self, at: Defined, name: str, version: int) -> View:
        """A view, or a source seen as one."""
        source = at.catalog.sources.get(at.catalog.named(name))
        if source is None:
            if self.catalog.named(name) in self.catalog.sources:
                raise UnknownName(
                    f"there is no source `{name}` at version {version}",
                    hint="it was declared later: read a newer version",
                )
            return self._view_at(at, name, version)
        if not source.retain:
            raise NotRetained(
                f"`{name}` keeps no copy of its rows", hint="declare it without retain=False"
            )
        return source_view(source)

    def parts(self, name: str, version: int | None = None) -> dict[str, pa.Table]:
        """The flat parts of a nested view with `_w`, by path, read in this process; a label is text."""
        snapshot, at = self._at(version)
        view = self._nested_at(at, name, snapshot.number)
        return nested_rows.parts_told(view, self._reading(snapshot, at))

    def parts_frames(self, name: str, version: int | None = None) -> dict[str, DataFrame]:
        """The same as DataFrames; rows repeat."""
        return {p: self._frame(view_rows.repeated(t)) for p, t in self.parts(name, version).items()}

    def _nested_at(self, at: Defined, name: str, version: int) -> View:
        view = self._as_view(at, name, version)
        if not view.parts:
            raise QueryError(f"the rows of `{name}` are flat", hint="read it with snapshot()")
        return view

    def lookup(
        self, name: str, key: Sequence[Any], version: int | None = None
    ) -> dict[str, Any] | None:
        """The row of a nested view or source at a key, with its inner bags; None if there is none."""
        snapshot, at = self._at(version)
        view = self._nested_at(at, name, snapshot.number)
        columns = nested_rows.key_of(view)
        if any("#" in n for n, _ in columns):  # a label
            raise QueryError(
                f"the first column of `{name}` is an array", hint="define the view with key=[...]"
            )
        if len(key) != len(columns):
            raise QueryError(
                f"`{name}` is looked up by {', '.join(n for n, _ in columns)}, and {len(key)} values are given",
                hint="define the view with key=[...] to look rows up by other columns",
            )
        try:
            zone = self.session.zone
            arrays = [one_value(v, t, zone) for v, (_, t) in zip(key, columns, strict=True)]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise QueryError(
                f"{key!r} is no key of `{name}`",
                hint=f"a key is {', '.join(f'{n} {t}' for n, t in columns)}",
            ) from e
        found = nested_rows.looked_up(view, self._reading(snapshot, at), arrays)
        rows: list[dict[str, Any]] = found.drop_columns([WEIGHT]).to_pylist()
        if len(rows) > 1:
            raise QueryError(
                f"{len(rows)} different rows of `{name}` have the key {key!r}",
                hint="define the view with key=[...], columns that tell its rows apart",
            )
        return rows[0] if rows else None

    def frame(self, name: str, version: int | None = None) -> DataFrame:
        """All rows of a view or source as a DataFrame."""
        snapshot, at = self._at(version)
        view = self._as_view(at, name, snapshot.number)
        working = self._reading(snapshot, at)
        maps = view.maps or [at.compiler.program.strata[view.stratum or ""].group]
        if sum(r.rows for m in maps for r in working.refs.get(m.name, ())) <= READ_HERE:
            return self._frame(view_rows.repeated(self.table(name, snapshot.number)))
        return Cluster(working, self.session, self.path).frame(at.compiler.program, view)

    def _frame(self, table: pa.Table) -> DataFrame:
        session = self.session.user if self.session.same_zone else self.session.spark
        with telling("making a DataFrame"):
            return local_frame(session, table)

    def changes_table(self, name: str, since: int, until: int | None = None) -> pa.Table:
        """The rows that each version after one changed, with `_w` and `_version`, read in this process."""
        known = self._defined
        last = known.version if until is None else until
        if since > last or since < 0:
            raise StateError(f"there is no version {since}", hint=f"the newest is {last}")
        scalars = self.session.evaluate
        tables = feeds.told(name, since, self._steps(name, since, last), scalars)
        if not tables:
            view = self._view_at(known, name, known.version)
            if view.parts:
                return nested_rows.told_schema(view).empty_table()
            schema = view_rows.row_schema(view)
            return schema.append(pa.field("_version", pa.int64())).empty_table()
        return pa.concat_tables(tables)

    def changed_rows(self, version: int) -> dict[str, int]:
        """How many rows of each view a version changed; only views that it added something to are looked at."""
        after, at = self._at(version)
        now = self._reading(after, at)
        program, what = at.compiler.program, after.version.note.get("what", "")
        new = {
            n
            for n, (_, refs) in after.version.maps.items()
            if any(r.version == version for r in refs)
        }
        before: Working | None = None
        counts = dict.fromkeys(self.catalog.views, 0)
        for name, view in program.views.items():
            made = at.catalog.views[name].created
            read_from = view.maps or program.strata[view.stratum or ""].maps
            if made < version and (what == feeds.REBUILD or not new & {m.name for m in read_from}):
                continue
            if made < version and before is None:
                before = self._reading(*self._at(version - 1))
            step = Step(version, program, view, before if made < version else None, now)
            (rows,) = feeds.told(name, version - 1, iter([step]), self.session.evaluate)
            counts[name] = rows.num_rows
        return {n: counts[n] for n in self.catalog.views}

    def _steps(self, name: str, since: int, last: int) -> Iterator[Step]:
        """The versions after one that have a view and may have changed it."""

        def see(version: int) -> Seen:
            snapshot, at = self._at(version)
            what, mine = snapshot.version.note.get("what", ""), at.catalog.named(name)
            view = at.compiler.program.views.get(mine)
            if view is None:
                return Seen(version, what, 0, None)
            held = Held(at.compiler.program, view, self._reading(snapshot, at))
            return Seen(version, what, at.catalog.views[mine].created, held)

        return steps(name, see, since, last)

    def changes_frame(
        self,
        name: str,
        since: int,
        until: int | None,
        format: str,
    ) -> DataFrame:
        """What `changes` gives, as a DataFrame."""
        if format == "weights":
            return self._frame(self.changes_table(name, since, until))
        if format != "cdc":
            raise QueryError(f"`{format}` is no form of changes", hint="weights or cdc")
        return self._frame(self.cdc_table(name, since, until))

    def cdc_table(self, name: str, since: int, until: int | None = None) -> pa.Table:
        """The same as `changes_table` in the form `cdc`: with updates where the rows of the view have a key."""
        table = self.changes_table(name, since, until)
        numbers = set(table.column("_version").to_pylist())
        times = {n: datetime.fromtimestamp(self.store.log.read(n).time, UTC) for n in numbers}
        at = self._at(max(numbers))[1] if numbers else self._defined
        view = self._view_at(at, name, at.version)
        keys = {n: s.parts[0].key for n, s in at.catalog.sources.items() if not s.nested}
        declared = at.catalog.views[view.name].key
        key = feeds.row_key(at.compiler.program, view, declared, keys)
        return feeds.as_cdc(table, times, key)

    @property
    def identity(self) -> str:
        """What tells this database from others; it stays the same in a copy that was put back."""
        return str(self.store.at(self.version).facts.get(DATABASE, ""))

    def mark_of(self, version: int) -> str | None:
        """What tells a version from one of the same number in another history; None if it is not there."""
        try:
            return self.store.at(version).version.mark
        except VersionGone:
            return None

    # --- copies --------------------------------------------------------------------------------------------------------

    def whole_table(self, name: str, version: int | None = None) -> pa.Table:
        """All rows of a view in the form of its changes, as though they had come with the version."""
        snapshot, at = self._at(version)
        view = self._view_at(at, name, snapshot.number)
        if view.parts:
            step = Step(
                snapshot.number, at.compiler.program, view, None, self._reading(snapshot, at)
            )
            return nested_rows.told(view, [m.rows for m in step.moved], step.version)
        table = self.table(name, snapshot.number)
        numbers = pa.repeat(pa.scalar(snapshot.number, pa.int64()), table.num_rows)
        return table.append_column("_version", numbers)

    def documents(
        self,
        name: str,
        keys: Sequence[Key] | None = None,
        version: int | None = None,
        labels: bool = False,
    ) -> Iterator[tuple[Key, Any]]:
        """The rows of a nested view by key, all or those at some keys; `labels` names their inner bags in `_labels`."""
        snapshot, at = self._at(version)
        view = self._nested_at(at, name, snapshot.number)
        working = self._reading(snapshot, at)
        if keys is None:
            yield from all_documents(view, working, labels)
            return
        columns = nested_rows.key_of(view)
        arrays = [pa.array([k[i] for k in keys], arrow_type(t)) for i, (_, t) in enumerate(columns)]
        at = pa.table(arrays, [n for n, _ in columns])
        yield from documents_at(view, working, at, labels)

    def touched(self, name: str, since: int, until: int) -> list[Key]:
        """The keys of a nested view whose rows changed after a version, of those too that are gone."""
        found: dict[Key, None] = {}
        for step in self._steps(name, since, until):
            found |= dict.fromkeys(touched_documents(step.view, step.now, step.moved))
        return list(found)

    def document_changes(
        self, name: str, since: int, until: int
    ) -> Iterator[tuple[int, DocumentChanges]]:
        """What each version after one changed of a nested view, document by document."""
        for step in self._steps(name, since, until):
            yield (
                step.version,
                changed_documents(step.view, step.before, step.now, step.moved, step.version),
            )

    # --- checking ------------------------------------------------------------------------------------------------------

    def verify(self, name: str | None = None, version: int | None = None) -> dict[str, str]:
        """Recomputes a view (or all) from the retained inputs and compares; `StateError` where they differ.

        Sums of doubles are compared with sums that are rounded once, as ours are. What is given back is said of views for
        which Spark's own answer is another one, because it rounds on the way, or has no room for a moment.
        """
        name = None if name is None else self.catalog.named(name)
        if name in self.catalog.sources:
            raise UnknownName(
                f"`{name}` is a source, and only views can be recomputed",
                hint=f"views: {', '.join(self.catalog.views) or 'none'}",
            )
        self.session.refuse_other("verifying it")
        remarks: dict[str, str] = {}
        for n in [name] if name is not None else self.catalog.views:
            found = view_rows.repeated(self.table(n, version))
            spark = self._compared(n, version, found, exactly=False)
            if not spark:
                continue
            problem = self._compared(n, version, found, exactly=True)
            if problem:
                raise StateError(
                    f"the view `{n}` differs from its query at version {version or self.version}: {problem}",
                    hint="this should never happen: keep the directory and report it",
                )
            remarks[n] = f"but for rounding on the way it is Spark's answer: {spark}"
        return remarks

    def _compared(self, name: str, version: int | None, found: pa.Table, exactly: bool) -> str:
        """How an answer differs from Spark's, by its own sums or by exact ones, in words."""
        snapshot, at = self._at(version)
        view, working = at.catalog.views[at.catalog.named(name)], self._reading(snapshot, at)
        row = view.type.key
        assert isinstance(row, RecordType)
        rounded = exactly and rounds_sums(at.compiler.program.views[view.name].term)
        exactly = exactly and not rounded
        try:
            expected = self._answer(working, at.compiler, at.catalog, view, exactly)
        except EngineError:
            if not exactly:
                raise
            exactly, rounded = False, True  # Spark does not take the sums in other words
            expected = self._answer(working, at.compiler, at.catalog, view)
        problem = differences(found, expected, row, rounded)
        under = at.catalog.views_under(view)
        if not problem or not any(v.language == "sql" and takes_some(v.text) for v in under):
            return problem
        # A LIMIT leaves it open which rows there are.
        text = unlimited(view.text)
        if text is not None and not any(takes_some(v.text) for v in under if v is not view):
            if found.num_rows != expected.num_rows:
                return problem
            rest = replace(view, text=text)
            whole = self._answer(working, at.compiler, at.catalog, rest, exactly)
            return not_among(found, whole, row, rounded)
        try:
            return differences(found, self._by_definition(working, at, view), row, rounded)
        except NotInterpretable:
            return problem

    def _by_definition(self, working: Working, at: Defined, view: ViewDef) -> pa.Table:
        term = at.compiler.program.views[view.name].term
        types = {r.name: r.type for r in relations(term) if isinstance(r.type, MapType)}
        tables = {n: view_rows.repeated(self._rows(working, at.catalog, n)) for n in types}
        return by_interpreter(term, tables, types)

    def recomputed(self, name: str, version: int | None = None) -> pa.Table:
        """The answer of a view's query over the retained inputs, computed anew."""
        snapshot, at = self._at(version)
        view = at.catalog.views.get(at.catalog.named(name))
        if view is None:
            raise self._unknown(name)
        return self._answer(self._reading(snapshot, at), at.compiler, at.catalog, view)

    def _answer(
        self,
        working: Working,
        compiler: Compiler,
        catalog: Catalog,
        view: ViewDef,
        exactly: bool = False,
    ) -> pa.Table:
        term = compiler.program.views[view.name].term
        types = {r.name: r.type for r in relations(term) if isinstance(r.type, MapType)}
        for name in types:
            if not catalog.sources[name].retain:
                raise NotRetained(
                    f"`{name}` keeps no copy of its rows, so `{view.name}` cannot be recomputed",
                    hint="declare it without retain=False",
                )
        read_by = catalog.views_under(view)
        if any(v.language != "sql" for v in read_by):
            tables = {n: view_rows.repeated(self._rows(working, catalog, n)) for n in types}
            return by_interpreter(term, tables, types)
        schemas = catalog.schemas()
        for v in read_by:  # what is stored goes to Spark by the same rules as what is defined
            check_query(v.text)
            read_sql(v.text, {n: t for n, t in schemas.items() if n != v.name}, self.ask)
        texts, columns = {v.name: v.text for v in read_by}, None
        if exactly:
            for v in read_by:
                known = {n: t for n, t in schemas.items() if n != v.name}
                texts[v.name], aggregates = without_rounding(v.text, known, self.ask)
                register(self.session.spark, PREFIX, aggregates)
            columns = {v.name: [n for n, _ in key_fields(v.type)] for v in read_by}
        names = {r.name for v in texts for r in relations(compiler.program.views[v].term)}
        frames = {n: self._rows_frame(working, catalog, n) for n in names}
        return by_spark(self.session, texts, frames, view.name, columns)

    def _rows(self, working: Working, catalog: Catalog, name: str) -> pa.Table:
        view = source_view(catalog.sources[name])
        tables = list(view_rows.scan(self.compiler.program, view, working, self.session.evaluate))
        return pa.concat_tables([view_rows.row_schema(view).empty_table(), *tables])

    def _rows_frame(self, working: Working, catalog: Catalog, name: str) -> Callable[[], DataFrame]:
        view = source_view(catalog.sources[name])
        if sum(r.rows for m in view.maps for r in working.now(m.name).refs) <= READ_HERE:
            return lambda: self.session.frame(
                view_rows.repeated(self._rows(working, catalog, name))
            )
        cluster = Cluster(working, self.session, self.path)
        return lambda: cluster.frame(self.compiler.program, view, ours=True)

    def explain(self, name: str) -> Explanation:
        """How a view is kept: its strata, maps, statements, and why."""
        known = self._defined
        view = self._view_at(known, name, known.version)
        made = known.catalog.views[view.name]
        return explain_view(known.compiler, view, made.strategy, made.why)

    def can(self, query: str | Query | Term) -> str:
        """What would be kept for a query, and what a change would cost; nothing is defined. Or why it cannot be."""
        known = self._defined
        schemas = known.catalog.schemas()
        text, language, term = read_query(query, schemas, self.ask)
        try:
            compiler, kept, why = known.compiler.choose(ASKED, term, data=self._sampled())
        except NotIncremental as e:
            raise placed(e, text, schemas) if language == "sql" else e from None
        return explain_can(known.compiler, compiler, ASKED, kept, why)


def read_query(query: str | Query | Term, schemas: Any, ask: Ask) -> tuple[str, str, Term]:
    """A query as its text, its language and its term."""
    if isinstance(query, str):
        return query, "sql", read_sql(query, schemas, ask)
    if not isinstance(query, (Query, Node)):
        raise QueryError(
            f"the query is of type {type(query).__name__}",
            hint="give SQL, a function with @headwater.query, or a term",
        )
    term = rows_with_values(query.read(schemas) if isinstance(query, Query) else query)
    return text_of(term), "term", term


def rows_with_values(term: Term) -> Term:
    """A map from keys to bags (value nesting) as rows of a key and its bag: the keys whose bags are not empty."""
    t = type_of(term)
    if not (isinstance(t, MapType) and isinstance(t.value, MapType)):
        return term
    k, v = Var("k", t.key), Var("v", t.value)
    return Each(k, v, term, Sng(Record((("key", k), ("values", Box(v)))), Num(1, INT)))


def has_maps(version: Version, compiler: Compiler) -> bool:
    """Whether a version has the maps that its views are kept in now."""
    return compiler.program.maps.keys() <= version.maps.keys()


def compiled(version: Version, catalog: Catalog) -> Compiler:
    """The program of a version's views; `DamagedState` where the maps of the version are not what it reads."""
    compiler = catalog.compiled(version.number)
    for name, m in compiler.program.maps.items():
        if name in version.maps and version.maps[name][0] != spec_of(m):
            raise DamagedState(
                path_of(version.number), f"the map `{name}` has other columns than its views need"
            )
    return compiler


def stale_maps() -> StateError:
    """What is said where it has not."""
    return StateError(
        "this version of Headwater keeps other maps for the views of this database",
        hint="call rebuild() to compute them from the sources",
    )


def source_view(source: SourceDef) -> View:
    """A source seen as a view of its rows."""
    m = source.maps[source.name]
    if not source.nested:
        return View(source.name, m.term, source.row, "source", None, m)
    parts = tuple(
        Part(p.path, source.maps[p.name], p.row.fields, p.owner, p.shape, p.element, p.above)
        for p in source.parts
    )
    return View(source.name, m.term, source.row, "source", None, None, parts)
