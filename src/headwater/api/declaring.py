"""Declaring: sources, views, and what to keep for them; each declaration is one commit.

A declaration that is there already, word for word, is no change and takes no lease. A view is planned on a copy of the
program, and its maps are filled from what is there, before anybody sees it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pyspark.sql.types import StructType

from headwater.api.catalog import (
    SEEN,
    Catalog,
    SourceDef,
    ViewDef,
    check_texts,
    facts_of,
    functions_of,
)
from headwater.api.closing import check_closes
from headwater.api.columns import Columns, has_wider
from headwater.api.dropping import without, without_maps, without_source
from headwater.api.handles import Source, ViewHandle
from headwater.api.nearness import ROUNDS, Mode, check_loops, mode_of
from headwater.api.opening import declared_feed
from headwater.api.over import forget_found
from headwater.api.sequences import check_by_key
from headwater.calculus.check import type_of
from headwater.calculus.terms import Term, relations
from headwater.calculus.types import RecordType, field_names
from headwater.dataflow.maps import is_of_graph
from headwater.engine.fill import Backfill
from headwater.engine.late import ASIDE
from headwater.engine.ledgers import LEDGER
from headwater.engine.rings import spec_of
from headwater.engine.working import Working
from headwater.errors import InUse, NameTaken, NotIncremental, QueryError
from headwater.feeds.feed import FILES, FROM, NAME, REJECTED, REJECTED_DDL
from headwater.feeds.kinds import KINDS, check_policy
from headwater.feeds.new_columns import ADD
from headwater.interop.spark_text import column_name, spark_type
from headwater.io.limits import check_limits
from headwater.io.sequences import SEQUENCES
from headwater.language.closes import more_members, schemes_of
from headwater.language.comprehension import Query
from headwater.language.declared import Declared, ddl_of, ddl_of_struct, declared
from headwater.language.queries import read_query, text_of
from headwater.language.schema import EXAMPLE
from headwater.language.sql import same_words
from headwater.language.sql.places import placed
from headwater.plan.adopting import Adoption
from headwater.plan.compiler import STRATEGIES
from headwater.plan.maps import key_fields
from headwater.plan.nested.sources import source_parts
from headwater.plan.program import WEIGHT, Program, keeps_answer
from headwater.plan.statements import RULES
from headwater.state.directory import local_path
from headwater.state.store import Commit as StoreCommit

RESERVED = (WEIGHT, "_version", "_h", "_i", "_change_type", "_commit_version", "_commit_timestamp")


class Declaring(Columns):
    """The part of a database that declares: sources and views are added, and dropped."""

    def source(
        self,
        name: str,
        schema: str | StructType,
        *,
        key: str | list[str] | tuple[str, ...] | None = None,
        path: str | Path | None = None,
        format: str | None = None,
        options: Mapping[str, Any] | None = None,
        feed: Any = None,
        bad: Literal["stop", "skip", "aside"] = "stop",
        static: bool = False,
        retain: bool | Literal["open"] = True,
        strict: bool = True,
        append_only: bool = False,
        closes: Any = (),
        late: Literal["refuse", "aside", "drop"] | None = None,
        sequence_by: str | None = None,
        on_conflict: Literal["error", "replace", "ignore"] | None = None,
    ) -> Source:
        """Declares an input with its columns, as DDL or as a StructType; again with the same ones it is no change.

        NOT NULL, VARCHAR(n) and a key, which may be said as PRIMARY KEY, are enforced. Declared again with other ones
        of the first two, what is there is checked, and they hold from then on. Declared again with more columns, these are
        NULL in the rows that are there, and views go on with the columns that there were. Numbers may become wider ones of
        their kind (INT to BIGINT, FLOAT to DOUBLE, DECIMAL(10,2) to DECIMAL(12,2)): views that read them are planned again in the
        same commit, and have the columns that they would have been defined with.

        With a `path` the files of that directory are its rows: `run` takes new ones, each once. `format` is parquet, csv
        or json; `options` are `max_files` and `max_bytes` for what is taken at a time, and of csv `header`, `delimiter`
        and `null_value`. Files whose names begin with `.` or `_`, or end in `.tmp`, are still being written.

        `format` may be another kind of feed, with options of its own; or `feed` is an object of this process that gives rows: an
        iterable, or one with the protocol of `headwater.feeds.feed`. What was taken of a feed is committed with its rows.
        `bad` says what becomes of records that do not fit: the feed stops, they are skipped and counted, or they go to the
        relation `<name>_rejected`. Options that are secrets are not written down, and a feed is opened only in a process that
        has declared it.

        `closes` says by which columns parts of it will be over: a column, a tuple of columns, a `watermark`, or a list of
        these. Maps then forget what no row to come can reach, and `final` tells rows of views that nothing takes back. A
        row that comes after all is refused with its change, set aside (`late="aside"`, as with a watermark unless it is
        said) or dropped. `append_only` promises that nothing is deleted. `retain="open"` keeps the rows that are not
        over, among which a key is enforced then; `False` keeps none.

        With a `key` rows may be upserted (`hw.Delta`), and `on_conflict` says what becomes of an insert whose key is there: it is
        an error, it replaces the row, or it is ignored and counted. `sequence_by` names a column that orders the events of a
        key, or says one with its type that comes with changes alone (`"lsn BIGINT"`): what is older than what is there, or than
        the deletion of what was, is dropped and counted in `Commit.stale`. An insert then replaces unless it is said, and
        deletions give their sequence with their key; it is remembered until `forget`, or until what is closed of the
        sequence, or of a column of the key, says that nothing older comes in.
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
        keys, before = keys or said.key, self.catalog.sources.get(name)
        if before is not None and (options or {}).get("new_columns") == ADD:
            said = _with_added(said, before)
        row = said.row
        if before is not None and _same_names(before.key, keys):
            keys = before.key
        format, place, secret, told = declared_feed(name, format, path, options or {}, feed)
        check_policy(name, bad, format)
        made = SourceDef(name, said.ddl, keys, static, retain, strict, place, format, told)
        made = replace(made, bad=bad)
        if format in KINDS:
            KINDS[format].check(self._as_declared(made, secret))
        schemes = schemes_of(closes, row, name) if closes != () else ()
        described = tuple(json.dumps(s.described()) for s in schemes)
        made = replace(
            made, append_only=append_only, closes=described, late="" if late is None else late
        )
        made = replace(made, sequence_by=sequence_by or "", on_conflict=on_conflict or "")
        check_closes(made)
        check_by_key(made)
        if before is not None and before.path is not None and path is not None:
            before = replace(before, path=str(local_path(before.path)))
        same = before is not None and before.row == made.row
        named = before.held_in if same and before else tuple(m.name for m in made.all_maps)
        if before is not None:
            made = replace(made, added=before.added, called=before.called)
        made = replace(made, held_in=named)
        source = self._declared(made, before)
        if bad == "aside":
            self._declare_beside(made, REJECTED, declared(REJECTED_DDL).ddl)
        if told.get("changed") == "replace":
            rows = f"{NAME} STRING, rows ARRAY<STRUCT<{_fields(made)}>>"
            self._declare_beside(made, FILES, declared(rows).ddl, (NAME,))
        self._open_feed(made, secret, feed)
        return source

    def _declare_beside(
        self, made: SourceDef, suffix: str, ddl: str, key: tuple[str, ...] = ()
    ) -> None:
        """A relation that the feed of a source writes: records that were set aside, or the rows of each file."""
        aside = SourceDef(f"{made.name}{suffix}", ddl, key, written=made.name)
        aside = replace(aside, held_in=tuple(m.name for m in aside.all_maps))
        before = self.catalog.sources.get(aside.name)
        aside = aside if before is None else replace(aside, called=before.called)
        self._declared(aside, before)

    def _declared(self, made: SourceDef, before: SourceDef | None) -> Source:
        """A source that was declared, committed unless it is there."""
        name, row = made.name, made.row
        if before == made:
            return Source(self, name)
        self._check_columns(name, row, made.key, made.strict, bool(made.retain))
        with self._locked():
            self._writing()
            known = self.catalog.sources.get(name)
            if known == made:
                return Source(self, name)  # another writer has declared it since
            if known is not None and _only_limits(known, made):
                self._limit(made, known)
                return Source(self, name)
            if (
                known is not None
                and has_wider(known, made)
                and _only_limits(replace(known, ddl=made.ddl, held_in=made.held_in), made)
            ):
                self._widen(made, known)
                return Source(self, name)
            self._check_name(name)
            catalog = Catalog({**self.catalog.sources, name: made}, self.catalog.views)
            program = catalog.with_source(self.program, made)
            with self._commit(f"source {name}", (catalog, program)) as commit:
                commit.set(*facts_of(made))
                if made.retain:
                    for m in made.all_maps:
                        commit.create(spec_of(m))
                if made.sequences is not None:
                    commit.create(spec_of(made.sequences))
        return Source(self, name)

    def _with_columns(self, known: SourceDef, ddl: str) -> Source:
        """A source with columns more, NULL in the rows that are there; the right to write is held."""
        made = replace(known, ddl=declared(f"{known.ddl}, {ddl}").ddl, held_in=())
        made = replace(made, held_in=tuple(m.name for m in made.all_maps))
        return self._declared(made, known)

    def _limit(self, made: SourceDef, known: SourceDef) -> None:
        """Other limits for a source whose columns stay, which what is there must keep, or another directory for it."""
        if made.retain and made.limits != known.limits:
            check_limits(made.name, made.limits, self.table(made.name), there=True)
        catalog = Catalog({**self.catalog.sources, made.name: made}, self.catalog.views)
        with self._commit(f"source {made.name}", (catalog, self.program)) as commit:
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
        mode: str = "exact",
        cut: float | None = None,
        near: float | None = None,
        rounds: int = ROUNDS,
    ) -> ViewHandle:
        """Declares a view and computes it from what is there; again with the same query it is no change.

        `key` names the columns that its rows are looked up by; of a nested view the first column unless it is given. With
        mode="diffuse" its loops are kept near their fixpoint (`Replacing.view` says how).
        """
        kept = mode_of(mode, cut, near, rounds)
        _check_text(name, "name of a view")
        name = self.catalog.named(name)
        if strategy not in STRATEGIES:
            raise QueryError(f"`{strategy}` is no strategy", hint=f"one of {', '.join(STRATEGIES)}")
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        # Before the query is read, for which Spark may be asked, and before the lease is taken.
        if self._is_defined(name, query, strategy, keys, kept):
            return ViewHandle(self, name)
        before = self.catalog
        text, language, term = read_query(query, before.schemas(), self.ask)
        if self._is_defined(name, text, strategy, keys, kept):
            return ViewHandle(self, name)
        with self._locked():
            self._writing()
            if self.catalog != before:  # another writer or thread has defined something since
                if self._is_defined(name, text, strategy, keys, kept):
                    return ViewHandle(self, name)
                text, language, term = read_query(query, self.catalog.schemas(), self.ask)
            self._check_name(name)
            self._define(name, text, language, term, strategy, keys, kept)
        return ViewHandle(self, name)

    def _is_defined(
        self, name: str, query: Any, strategy: str, key: tuple[str, ...], mode: Mode
    ) -> bool:
        known = self.catalog.views.get(name)
        if known is None or not _same_names(known.key, key):
            return False
        near = known.mode, known.cut, known.near, known.rounds
        if (known.strategy, *near) != (strategy, *mode.fields.values()):
            return False
        if known.language == "sql" and isinstance(query, str):
            return same_words(known.text, query)
        return bool(known.text == query)

    def _define(
        self,
        name: str,
        text: str,
        language: str,
        term: Term,
        strategy: str,
        keys: tuple[str, ...],
        mode: Mode,
    ) -> None:
        """Plans a view, fills its maps from what is there, and commits both; the right to write is held."""
        known, schemas = self._defined, self.catalog.schemas()
        place = 1 + max((v.place for v in known.catalog.views.values()), default=0)
        made = self._checked(name, text, language, term, strategy, keys, mode)
        made = replace(made, place=place, created=known.version + 1)
        self._register(made)
        compiler = known.catalog.compiler(known.program, made.diffusion)
        try:
            if strategy == "auto":
                program, kept, why = compiler.choose(name, term, keys, self._sampled())
            else:
                program = compiler.asked_for(name, term, strategy, keys)
                kept, why = strategy, "as was asked for"
        except NotIncremental as e:
            raise placed(e, text, schemas) if language == "sql" else e from None
        view, before = program.views[name], known.program
        lacking = self._lacking(program, name)
        before = without_maps(before, lacking)
        made = replace(made, kept=kept, why=why, stored=keeps_answer(view), rules=RULES)
        catalog = Catalog(known.catalog.sources, {**known.catalog.views, name: made})
        with self._commit(f"view {name}", (catalog, program)) as commit:
            commit.set(*facts_of(made))
            if lacking:  # what is filled again must stay until somebody has read it
                self._spare(lacking)
            for n in lacking:
                commit.drop(n)
            for n, m in program.maps.items():
                if n not in before.maps:
                    commit.create(spec_of(m))
            working = self._working(commit, program)
            working.refs = {n: r for n, r in working.refs.items() if n not in lacking}
            with self._telling("writing"):
                if strategy == "recompute":
                    self._recompute(working, view, catalog, made)
                else:
                    self._fill(commit, working, program, before)
                self._tell_first(commit, working, [view], (catalog, program))
            self._add(commit, working)

    def _checked(
        self,
        name: str,
        text: str,
        language: str,
        term: Term,
        strategy: str,
        keys: tuple[str, ...],
        mode: Mode,
    ) -> ViewDef:
        """A view as it is declared, without a place; refused if it cannot be kept as is asked for."""
        check_loops(name, term, mode)
        if strategy == "recompute" and mode.mode == "diffuse":
            raise QueryError(
                f"`{name}` is recomputed, so that its loops are not kept near",
                hint="leave the strategy out, or mode='diffuse'",
            )
        row = RecordType(tuple(key_fields(type_of(term))))
        _check_reserved(row)
        kept_open = [s for s in self.catalog.sources.values() if s.retain == "open"]
        read = {r.name for r in relations(term)}
        if strategy == "recompute" and any(s.name in read for s in kept_open):
            raise QueryError(
                f"`{name}` is recomputed from rows of `{kept_open[0].name}`, which keeps open rows only",
                hint="declare the source with retain=True, or leave the strategy out",
            )
        if strategy == "recompute" and language != "sql":
            raise QueryError("only SQL can be recomputed", hint="leave the strategy out")
        check_texts(term)
        return ViewDef(
            name,
            text,
            language,
            text_of(term),
            ddl_of(row),
            strategy,
            0,
            0,
            functions_of(term),
            row=str(row),
            key=keys,
            **mode.fields,
        )

    def _fill(
        self,
        commit: StoreCommit,
        working: Working,
        program: Program,
        before: Program,
        adopts: Adoption | None = None,
        old: Working | None = None,
    ) -> None:
        """Computes the maps of a program that the one before does not have, from what is there.

        `adopts` says what it takes over, and `old` has the maps of the one before.
        """
        # Sources that have had rows and keep none.
        gone = [k.removeprefix(SEEN) for k in commit.base.facts if k.startswith(SEEN)]
        small = self.policy.most_carried
        filling = Backfill(program, working, self.session, self.path, small, gone, adopts, old)
        filling.run(before)
        self._visited(filling.increment)

    def drop(self, name: str) -> None:
        """Takes away a view, or a source that no view reads, with the maps that only it needs."""
        with self._locked():
            self._writing()
            name = self.catalog.named(name)
            if name not in self.catalog.sources and name not in self.catalog.views:
                raise self._unknown(name)
            for suffix in (REJECTED, FILES):
                aside = self.catalog.sources.get(f"{name}{suffix}")
                if aside is not None and aside.written == name:
                    self.drop(aside.name)
            self._close_feed(name)
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
            if name in self.catalog.views:
                program = without(self.program, [name], sources)
            else:
                source = self.catalog.sources[name]
                maps = {m.name for m in source.all_maps}
                program = without_source(self.program, set(source.relations), maps)
            kept = program.maps
            with self._commit(f"drop {name}", (rest, program)) as commit:
                kinds = "source", "view", "node", "closed", "marks", "told", "begins"
                mine = {f"{FROM}{name}", *(f"{kind}:{name}" for kind in kinds)}
                for fact in commit.base.facts:
                    if fact in mine or fact.startswith((f"{FROM}{name}/", f"{FROM}{name}:")):
                        commit.set(fact, None)
                forget_found(commit, program)
                own = f"{LEDGER}{name}", f"{ASIDE}{name}", f"{SEQUENCES}{name}"
                for m in commit.base.maps:
                    if m in own or (m not in kept and not is_of_graph(m)):
                        commit.drop(m)


def _with_added(said: Declared, before: SourceDef) -> Declared:
    """What is declared, with the columns that a feed has added since."""
    fields = said.row.fields
    added = len(before.row.fields) > len(fields) and before.row.fields[: len(fields)] == fields
    return declared(before.ddl) if added else said


def _check_text(name: Any, what: str) -> None:
    if not isinstance(name, str):
        raise QueryError(
            f"the {what} is of type {type(name).__name__}", hint="give it as text: 'orders'"
        )


def _check_reserved(row: RecordType) -> None:
    """Raises if a column, or a field at any depth, has a name that Headwater uses itself."""
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


def _fields(made: SourceDef) -> str:
    """The columns of a source as fields of a struct."""
    return ", ".join(f"{column_name(n)}: {spark_type(t)}" for n, t in made.row.fields)


def _same_names(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether two lists of columns are equal; upper and lower case are the same, as in SQL."""
    return [n.lower() for n in a] == [n.lower() for n in b]


def _only_limits(known: SourceDef, made: SourceDef) -> bool:
    """Whether a source is declared again with the same rows: other limits, or another directory to take them from."""
    same = replace(known, ddl=made.ddl, path=made.path, format=made.format, options=made.options)
    same = replace(same, bad=made.bad, on_conflict=made.on_conflict)
    pairs = list(zip(known.schemes, made.schemes, strict=False))
    if len(pairs) == len(known.schemes) and all(a == b or more_members(a, b) for a, b in pairs):
        same = replace(same, closes=made.closes, late=made.late)  # no promise is taken back
    return same == made and known.row == made.row
