"""Reading a database: views and sources at a version, the changes between versions, and the check against recomputing.

Nothing here writes. A version is read through the catalog that it has, so that a view can be read as it was before it
was dropped, and a reader goes on undisturbed while a writer commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.api import feeds
from headwater.api.catalog import (
    DATABASE,
    SETTLED,
    Catalog,
    as_stored,
    program_of,
    well_defined,
)
from headwater.api.feeds import Held, Seen, Step, steps
from headwater.api.nearness import Mode, check_loops
from headwater.api.over import Over, bounds_of, closing_by, hidden_at, is_bounded
from headwater.api.verify import Verifier, source_view
from headwater.api.visited import from_note
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
from headwater.engine.policy import Policy
from headwater.engine.rings import spec_of
from headwater.engine.sample import Sampled
from headwater.engine.spark.frames import Frames
from headwater.engine.spark.rounds import Cluster
from headwater.engine.spark.session import Session, local_frame, telling
from headwater.engine.working import Working
from headwater.errors import (
    DamagedState,
    NotIncremental,
    NotRetained,
    QueryError,
    StateError,
    UnknownName,
    VersionGone,
)
from headwater.interop.arrow_types import arrow_type
from headwater.io.values import one_value
from headwater.language.queries import read_query
from headwater.language.sql.opaque import Ask
from headwater.language.sql.places import placed
from headwater.plan.analysis import read_from
from headwater.plan.program import WEIGHT, Program, Stored, Stratum, View
from headwater.show.drawing import Explanation
from headwater.show.explain import explain_can, explain_view
from headwater.state.log import Version, path_of
from headwater.state.store import Snapshot, Store

ASKED = "(the query)"
"""What a query is called that is only asked about."""


@dataclass(frozen=True)
class Defined:
    """What a handle knows of its database: a version, with the catalog and the program of that version."""

    version: int
    catalog: Catalog
    program: Program
    stale: bool


class Readable:
    """The part of a database that reads."""

    path: Path
    store: Store
    session: Session
    policy: Policy
    ask: Ask
    _defined: Defined
    _past: tuple[Catalog, Program] | None = None
    """The other program that was read last: versions in a row mostly have the same."""
    _rounds: dict[str, list[tuple[int, int]]]
    """Of each loop the rounds that the last commit of this process visited, and how many rows moved at each."""

    @property
    def version(self) -> int:
        """The version that the handle is at."""
        return self._defined.version

    @property
    def catalog(self) -> Catalog:
        """The sources and views of that version."""
        return self._defined.catalog

    @property
    def program(self) -> Program:
        """The program of its views."""
        return self._defined.program

    @property
    def stale(self) -> bool:
        """Whether its maps are not those that its program reads, so that only `rebuild` may write."""
        return self._defined.stale

    def _unknown(self, name: str) -> UnknownName:
        known = ", ".join([*self.catalog.sources, *self.catalog.views]) or "none"
        return UnknownName(f"there is no source or view `{name}`", hint=f"there are: {known}")

    def _at(self, version: int | None) -> tuple[Snapshot, Defined]:
        """A version to read, with its own catalog and program; the handle is looked at once, as another thread may change it."""
        known = self._defined
        snapshot = self._snapshot(known.version if version is None else version)
        if snapshot.number == known.version:
            found = known
        else:
            catalog = Catalog.read(snapshot.facts, snapshot.number)
            past, has = (
                self._past,
                snapshot.version,
            )  # a rebuild may name maps anew for the same views
            if catalog == known.catalog and has_maps(has, known.program):
                past = catalog, known.program
            elif past is None or past[0] != catalog or not has_maps(has, past[1]):
                self._past = past = catalog, program_at(snapshot.version, catalog)
            found = Defined(snapshot.number, *past, not has_maps(snapshot.version, past[1]))
        if found.stale:
            raise stale_maps()
        return snapshot, found

    def settled_version(self) -> int:
        """The newest version at which no stage had anything to read: its views owe nothing to input that is still on its way."""
        version = self.version
        facts = self.store.at(version).facts
        has_stages = any(key.startswith("stage:") for key in facts)
        return int(facts.get(SETTLED, 0)) if has_stages else version

    def _snapshot(self, number: int) -> Snapshot:
        _check_number(number)
        try:
            return self.store.at(number)
        except OSError as e:
            raise StateError(
                f"the state in {self.path} could not be read: {e.strerror or e}",
                hint="nothing was changed; mend the disk, and try again",
            ) from e

    def _reading(self, snapshot: Snapshot, at: Defined) -> Working:
        refs = {n: refs for n, (_, refs) in snapshot.version.maps.items()}
        made = Working(at.program.maps, refs, snapshot.runs)
        over = self._over_at(snapshot, at)
        made.hidden, made.never = hidden_at(over, at.catalog), over.begins
        return made

    def _over_at(self, snapshot: Snapshot, at: Defined) -> Over:
        """What is over at a version."""
        return well_defined(snapshot.number, lambda: Over.read(snapshot.facts, at.catalog))

    def _sampled(self) -> Sampled:
        """What is known of the rows of sources now."""
        known = self._defined
        working = self._reading(self._snapshot(known.version), known)
        return Sampled(known.program.maps.values(), working)

    def _then(self, at: Defined, name: str) -> str:
        """What is called so now, by the name that it had at a version; what is not there now by the name that is given."""
        return at.catalog.named(self.catalog.named_at(name, at.version))

    def _view_at(self, at: Defined, name: str, version: int) -> View:
        found = at.program.views.get(self._then(at, name))
        if found is None:
            raise UnknownName(
                f"there is no view `{name}` at version {version}",
                hint=f"views: {', '.join(at.program.views) or 'none'}",
            )
        return found

    def table(self, name: str, version: int | None = None) -> pa.Table:
        """All rows of a view or source with `_w`, read in this process."""
        snapshot, at = self._at(version)
        working = self._reading(snapshot, at)
        with as_stored(snapshot.number):
            view = self._as_view(at, name, snapshot.number)
            tables = list(view_rows.scan(at.program, view, working, self.session.evaluate))
            return pa.concat_tables([view_rows.row_schema(view).empty_table(), *tables])

    def _as_view(self, at: Defined, name: str, version: int) -> View:
        """A view, or a source seen as one."""
        source = at.catalog.sources.get(self._then(at, name))
        if source is None:
            if self.catalog.named(name) in self.catalog.sources:
                raise UnknownName(
                    f"there is no source `{name}` at version {version}",
                    hint="it was declared later: read a newer version",
                )
            return self._view_at(at, name, version)
        if not source.retain:
            hint = "declare it without retain=False"
            if source.written:
                hint = "what only stages read is gone when they have read it: give their stage retain=True"
            raise NotRetained(f"`{name}` keeps no copy of its rows", hint=hint)
        return source_view(source)

    def parts(self, name: str, version: int | None = None) -> dict[str, pa.Table]:
        """The flat parts of a nested view with `_w`, by path, read in this process; a label is text."""
        snapshot, at = self._at(version)
        with as_stored(snapshot.number):
            view = self._nested_at(at, name, snapshot.number)
            return nested_rows.parts_told(view, self._reading(snapshot, at))

    def parts_frames(self, name: str, version: int | None = None) -> dict[str, DataFrame]:
        """The same as DataFrames; rows repeat."""
        return {p: self._frame(view_rows.repeated(t)) for p, t in self.parts(name, version).items()}

    def _nested_at(self, at: Defined, name: str, version: int) -> View:
        view = self._as_view(at, name, version)
        if not view.parts:
            raise QueryError(
                f"the rows of `{name}` are flat, and in no groups that they could be looked up by",
                hint="define it with key=[...], columns that tell its rows apart, or read it with snapshot()",
            )
        return view

    def _held_flat(self, at: Defined, name: str, version: int) -> View | None:
        """What is flat and looked up by a key: a source or flow, seen as a view of its rows, or a view with a key; None for what is neither."""
        then = self._then(at, name)
        source, known = at.catalog.sources.get(then), at.catalog.views.get(then)
        if source is not None:
            return None if source.nested else self._as_view(at, name, version)
        view = None if known is None or not known.key else self._as_view(at, name, version)
        if known is None or view is None or not isinstance(view.rows, Stored):
            return None
        by = [n.lower() for n, _ in view_rows.key_of(view)]
        if by != [
            n.lower() for n in known.key
        ]:  # it was defined before rows were kept by their key
            return None
        if known.name in self._reading(*self._at(version)).hidden:
            raise _read_whole(name)
        return view

    def _answering(self, at: Defined, name: str, version: int) -> Stratum | None:
        """The answer that a flat view with groups is read from, if its groups tell its rows apart; None for what else there is."""
        known = at.catalog.views.get(self._then(at, name))
        if known is None:
            return None
        view = self._as_view(at, name, version)
        if view.stratum is None:
            return None
        stratum = at.program.strata[view.stratum]
        told, size = stratum.answers, len(stratum.group.columns)
        plain = told is None or tuple(told.lookup) == tuple(told.columns[:size])
        plain = plain and not stratum.rounds and not view.parts
        final = known.name in self._reading(*self._at(version)).hidden
        if not plain or final or not stratum.shown_key:
            raise _read_whole(name)
        return stratum

    def lookup(
        self, name: str, key: Sequence[Any], version: int | None = None
    ) -> dict[str, Any] | None:
        """The row of a source, flow or nested view at a key, with its inner bags; None if there is none.

        Flat rows of sources and flows are looked up by the key that was declared, else by all of their columns; those of a
        view by its groups, or by the columns that it was defined with as its key.
        """
        snapshot, at = self._at(version)
        stratum = self._answering(at, name, snapshot.number)
        flat = self._held_flat(at, name, snapshot.number)
        if stratum is not None:
            view = self._as_view(at, name, snapshot.number)
            types = dict(view.type.fields)
            columns = [(n, types[n]) for n in stratum.shown_key or ()]
        else:
            view = flat or self._nested_at(at, name, snapshot.number)
            columns = view_rows.key_of(view) if flat else nested_rows.key_of(view)
        if not flat and stratum is None and not nested_rows.has_plain_key(view):
            raise QueryError(
                f"the first column of `{name}` is an array", hint="define the view with key=[...]"
            )
        if len(key) != len(columns):
            what = "source" if flat else "view"
            raise QueryError(
                f"`{name}` is looked up by {', '.join(n for n, _ in columns)}, and {len(key)} values are given",
                hint=f"define the {what} with key=[...] to look rows up by other columns",
            )
        try:
            zone = self.session.zone
            arrays = [one_value(v, t, zone) for v, (_, t) in zip(key, columns, strict=True)]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise QueryError(
                f"{key!r} is no key of `{name}`",
                hint=f"a key is {', '.join(f'{n} {t}' for n, t in columns)}",
            ) from e
        with as_stored(snapshot.number):
            working = self._reading(snapshot, at)
            if stratum is not None:
                found = view_rows.answered_at(stratum, working, arrays, self.session.evaluate)
            else:
                found_in = view_rows.looked_up if flat else nested_rows.looked_up
                found = found_in(view, working, arrays)
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
        maps = view.maps or read_from(at.program, view)[:1]
        if self.policy.reads_here(r.rows for m in maps for r in working.refs.get(m.name, ())):
            return self._frame(view_rows.repeated(self.table(name, snapshot.number)))
        with as_stored(snapshot.number):
            return Frames(Cluster(working, self.session, self.path)).frame(at.program, view)

    def _frame(self, table: pa.Table) -> DataFrame:
        session = self.session.user if self.session.same_zone else self.session.spark
        with telling("making a DataFrame"):
            return local_frame(session, table)

    def changes_table(self, name: str, since: int, until: int | None = None) -> pa.Table:
        """The rows that each version after one changed, with `_w` and `_version`, read in this process."""
        known = self._defined
        last = known.version if until is None else until
        check_since(since, last)
        scalars = self.session.evaluate
        with as_stored(last):
            tables = feeds.told(name, since, self._steps(name, since, last), scalars)
        if not tables:
            view = self._as_view(known, name, known.version)
            if view.parts:
                return nested_rows.told_schema(view).empty_table()
            schema = view_rows.row_schema(view)
            return schema.append(pa.field("_version", pa.int64())).empty_table()
        return pa.concat_tables(tables)

    def changed_rows(self, version: int) -> dict[str, int]:
        """How many rows of each view a version changed; only views that it added something to are looked at."""
        after, at = self._at(version)
        now = self._reading(after, at)
        program, what = at.program, after.version.note.get("what", "")
        new = {
            n
            for n, (_, refs) in after.version.maps.items()
            if any(r.version == version for r in refs)
        }
        was: tuple[Defined, Working] | None = None
        counts = dict.fromkeys(self.catalog.views, 0)
        for name, view in program.views.items():
            made, maps = at.catalog.views[name], read_from(program, view)
            anew = made.replaced == version
            same = feeds.plans_only(what) or not new & {m.name for m in maps}
            if made.created < version and same and not anew:
                continue
            step = Step(version, program, view, None, now)
            if made.created < version:
                if was is None:
                    earlier, known = self._at(version - 1)
                    was = known, self._reading(earlier, known)
                old = Held(was[0].program, was[0].program.views[name], was[1])
                step = replace(step, replaced=old) if anew else replace(step, before=was[1])
            with as_stored(version):
                counts[name] = feeds.count(name, step, self.session.evaluate)
        return {n: counts[n] for n in self.catalog.views}

    def _steps(self, name: str, since: int, last: int) -> Iterator[Step]:
        """The versions after one that have a view and may have changed it."""

        def see(version: int) -> Seen:
            snapshot, at = self._at(version)
            note, mine = snapshot.version.note, self._then(at, name)
            what, minor = note.get("what", ""), bool(note.get("minor"))
            if mine not in at.program.views and mine not in at.catalog.sources:
                return Seen(version, what, 0, None, minor=minor)
            view = self._as_view(at, name, version)
            held = Held(at.program, view, self._reading(snapshot, at))
            known = at.catalog.views.get(mine)
            created, replaced = (known.created, known.replaced) if known else (0, 0)
            return Seen(version, what, created, held, replaced, minor)

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
        return feeds.as_cdc(table, times, self._row_key(name, at))

    def row_key(self, name: str) -> list[str] | None:
        """The columns that tell the rows of a flat view or source apart; None if that is not known."""
        return self._row_key(name, self._defined)

    def _row_key(self, name: str, at: Defined) -> list[str] | None:
        source = at.catalog.sources.get(self._then(at, name))
        if source is not None:
            return list(source.key) or None
        view = self._view_at(at, name, at.version)
        keys = {n: s.parts[0].key for n, s in at.catalog.sources.items() if not s.nested}
        declared = at.catalog.views[view.name].key
        with as_stored(at.version):
            return feeds.row_key(at.program, view, at.catalog.whole(view.name), declared, keys)

    @property
    def identity(self) -> str:
        """The id of this database, which is drawn once; a backup that is restored has the same."""
        return str(self.store.at(self.version).facts.get(DATABASE, ""))

    def mark_of(self, version: int) -> str | None:
        """The id of a version. After a backup was restored, another version may have the same number. None if it is gone."""
        try:
            return self.store.at(version).version.mark
        except VersionGone:
            return None

    # --- copies --------------------------------------------------------------------------------------------------------

    def whole_table(self, name: str, version: int | None = None) -> pa.Table:
        """All rows of a view in the form of changes, as if the version had inserted them."""
        snapshot, at = self._at(version)
        view = self._view_at(at, name, snapshot.number)
        if view.parts:
            step = Step(snapshot.number, at.program, view, None, self._reading(snapshot, at))
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
        for step in self._steps_of_documents(name, since, until):
            found |= dict.fromkeys(touched_documents(step.view, step.now, step.moved))
        return list(found)

    def document_changes(
        self, name: str, since: int, until: int
    ) -> Iterator[tuple[int, DocumentChanges]]:
        """What each version after one changed of a nested view, document by document."""
        for step in self._steps_of_documents(name, since, until):
            yield (
                step.version,
                changed_documents(step.view, step.before, step.now, step.moved, step.version),
            )

    def _steps_of_documents(self, name: str, since: int, until: int) -> Iterator[Step]:
        for step in self._steps(name, since, until):
            if step.replaced is not None:
                raise feeds.defined_anew(name, since, "nested rows")
            yield step

    # --- checking ------------------------------------------------------------------------------------------------------

    def verify(self, name: str | None = None, version: int | None = None) -> dict[str, str]:
        """Recomputes a view (or all) from the retained inputs and compares; `StateError` where they differ.

        Sums of doubles are compared with sums that are rounded once, as ours are. What is given back is said of views for
        which Spark's own answer is another one, because it rounds on the way, or has no room for a moment.
        """
        return Verifier(self).verify(name, version)

    def recomputed(self, name: str, version: int | None = None) -> pa.Table:
        """The answer of a view's query over the retained inputs, computed anew."""
        return Verifier(self).recomputed(name, version)

    def explain(self, name: str) -> Explanation:
        """How a view is kept: its strata, maps, statements, and why."""
        known = self._defined
        view = self._view_at(known, name, known.version)
        made = known.catalog.views[view.name]
        with as_stored(known.version):
            bounds = None
            if is_bounded(known.program, known.catalog, view.name):
                bounds = bounds_of(known.program, known.catalog, view.name, self.session.zone)
            rounds = from_note(self.store.at(known.version).version.note)
            return explain_view(known.program, view, made.strategy, made.why, bounds, rounds)

    def _can(self, query: Any, closes: Mapping[str, Any] | None, mode: Mode) -> str:
        """What would be kept for a query in a mode, and what a change would cost; nothing is defined. Or why it cannot be."""
        known = self._defined
        catalog = known.catalog if closes is None else closing_by(known.catalog, closes)
        schemas = known.catalog.schemas()
        text, language, term = read_query(query, schemas, self.ask)
        check_loops("the query", term, mode)
        try:
            compiler = known.catalog.compiler(known.program, mode.diffusion)
            program, kept, why = compiler.choose(ASKED, term, data=self._sampled())
        except NotIncremental as e:
            raise placed(e, text, schemas) if language == "sql" else e from None
        bounds = None
        if closes is not None or is_bounded(program, catalog, ASKED):
            bounds = bounds_of(program, catalog, ASKED, self.session.zone)
        return explain_can(known.program, program, ASKED, kept, why, bounds)


def _read_whole(name: str) -> QueryError:
    return QueryError(
        f"rows of `{name}` cannot be looked up by a key without reading them all",
        hint="rows of groups can, where all columns of GROUP BY are shown, and those of a view with key=[...]; read it with snapshot()",
    )


def has_maps(version: Version, program: Program) -> bool:
    """Whether a version has the maps that its views are kept in now."""
    return program.maps.keys() <= version.maps.keys()


def program_at(version: Version, catalog: Catalog) -> Program:
    """The program of a version's views; `DamagedState` where the maps of the version are not what it reads."""
    program = program_of(version, catalog)
    for name, m in program.maps.items():
        if name in version.maps and version.maps[name][0] != spec_of(m):
            raise DamagedState(
                path_of(version.number), f"the map `{name}` has other columns than its views need"
            )
    return program


def stale_maps() -> StateError:
    """The error of a database, written before programs were stored, whose views are kept in other maps now."""
    return StateError(
        "this version of Headwater keeps other maps for the views of this database",
        hint="call rebuild() to compute them from the sources",
    )


def _check_number(number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise QueryError(f"{number!r} is no version", hint="a version is a whole number")


def check_since(since: Any, last: Any) -> None:
    """Raises if something is asked for after what is no version, or after one that the last is before."""
    _check_number(since)
    _check_number(last)
    if not 0 <= since <= last:
        raise StateError(f"there is no version {since}", hint=f"the newest is {last}")
