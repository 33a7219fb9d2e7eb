"""The check of a view: its query computed anew over the retained inputs, by Spark or by the interpreter, and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.api.catalog import Catalog, SourceDef, ViewDef
from headwater.api.nearness import kept_near
from headwater.api.over import of_rows, still_whole
from headwater.api.rounding import rounds_sums
from headwater.calculus.patterns import Punctuations
from headwater.calculus.terms import Term, relations
from headwater.calculus.types import MapType, RecordType, bag
from headwater.engine import view_rows
from headwater.engine.membership import matching
from headwater.engine.spark.frames import Frames
from headwater.engine.spark.rounds import Cluster
from headwater.engine.verify.compare import differences, not_among
from headwater.engine.verify.exactly import register
from headwater.engine.verify.recompute import by_interpreter, by_spark
from headwater.engine.working import Working
from headwater.errors import EngineError, NotInterpretable, NotRetained, StateError, UnknownName
from headwater.language.queries import text_of
from headwater.language.schema import Schemas
from headwater.language.sql import read_sql
from headwater.language.sql.limiting import takes_some, unlimited
from headwater.language.sql.recursive_steps import Steps, spark_takes, steps
from headwater.language.sql.rounding import PREFIX, without_rounding
from headwater.language.sql.texts import check_query
from headwater.plan.closing import Closing
from headwater.plan.maps import key_fields
from headwater.plan.program import Nested, Part, Stored, View
from headwater.state.snapshot import Snapshot

if TYPE_CHECKING:
    from headwater.api.versions import Defined, Readable


class Verifier:
    """Computes the views of a database anew."""

    def __init__(self, db: Readable):
        self.db = db

    def verify(self, name: str | None = None, version: int | None = None) -> dict[str, str]:
        """Recomputes a view (or all) from the retained inputs and compares; `StateError` where they differ.

        Sums of doubles are compared with sums that are rounded once, as ours are. What is given back is said of views for
        which Spark's own answer is another one, because it rounds on the way, or has no room for a moment.
        """
        name = None if name is None else self.db.catalog.named(name)
        if name in self.db.catalog.sources:
            raise UnknownName(
                f"`{name}` is a source, and only views can be recomputed",
                hint=f"views: {', '.join(self.db.catalog.views) or 'none'}",
            )
        self.db.session.refuse_other("verifying it")
        remarks: dict[str, str] = {}
        for n in [name] if name is not None else self.db.catalog.views:
            found = view_rows.repeated(self.db.table(n, version))
            at = self.db._at(version)[1]
            near = kept_near(at.catalog, at.catalog.views[self.db._then(at, n)])
            if near:
                remarks[n] = f"loops of {', '.join(near)} are kept near: error() says how near"
                continue
            spark = self._compared(n, version, found, exactly=False)
            if not spark:
                told = self._taken_as_told(n, version)
                remarks |= {n: told} if told else {}
                continue
            problem = self._compared(n, version, found, exactly=True)
            if problem:
                raise StateError(
                    f"the view `{n}` differs from its query at version {version or self.db.version}: {problem}",
                    hint="this should never happen: keep the directory and report it",
                )
            remarks[n] = f"but for rounding on the way it is Spark's answer: {spark}"
        return remarks

    def _taken_as_told(self, name: str, version: int | None) -> str:
        """What is said of a view that was checked in part."""
        snapshot, at = self.db._at(version)
        whole = self._still_whole(snapshot, at, at.catalog.views[self.db._then(at, name)])
        if whole is None:
            return ""
        rows = view_rows.repeated(self.db.table(name, version))
        checked = int(matching(whole, rows).sum())
        return f"{checked} rows are right; {rows.num_rows - checked} rest on rows that are kept no more, and are taken as told"

    def _compared(self, name: str, version: int | None, found: pa.Table, exactly: bool) -> str:
        """How an answer differs from Spark's, by its own sums or by exact ones, in words."""
        snapshot, at = self.db._at(version)
        view, working = at.catalog.views[self.db._then(at, name)], self.db._reading(snapshot, at)
        row = view.type.key
        assert isinstance(row, RecordType)
        rounded = exactly and rounds_sums(at.catalog.whole(view.name))
        exactly = exactly and not rounded
        try:
            expected = self.answer(working, at.catalog, view, exactly)
        except EngineError:
            if not exactly:
                raise
            exactly, rounded = False, True  # Spark does not take the sums in other words
            expected = self.answer(working, at.catalog, view)
        whole_of = self._still_whole(snapshot, at, view)
        if (
            whole_of is not None
        ):  # what a row could have reached that is kept no more is taken as told
            found, expected = (t.filter(pa.array(matching(whole_of, t))) for t in (found, expected))
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
            whole = self.answer(working, at.catalog, rest, exactly)
            return not_among(found, whole, row, rounded)
        try:
            return differences(found, self._by_definition(working, at, view), row, rounded)
        except NotInterpretable:
            return problem

    def _still_whole(self, snapshot: Snapshot, at: Defined, view: ViewDef) -> Punctuations | None:
        """The rows of a view that can be computed from rows that are kept; None if all can."""
        names = [r.name for r in relations(at.catalog.whole(view.name))]
        closing, over = Closing(at.program, self.db.session.zone), self.db._over_at(snapshot, at)
        promises = still_whole(closing, at.catalog, over, names)
        return None if promises is None else of_rows(promises, at.program.views[view.name])

    def _by_definition(self, working: Working, at: Defined, view: ViewDef) -> pa.Table:
        return self._interpreted(working, at.catalog, at.catalog.whole(view.name))

    def _interpreted(self, working: Working, catalog: Catalog, term: Term) -> pa.Table:
        """The answer of a query by the definition of the calculus."""
        types = {r.name: r.type for r in relations(term) if isinstance(r.type, MapType)}
        tables = {n: view_rows.repeated(self._rows(working, catalog, n)) for n in types}
        return by_interpreter(term, tables, types)

    def recomputed(self, name: str, version: int | None = None) -> pa.Table:
        """The answer of a view's query over the retained inputs, computed anew."""
        snapshot, at = self.db._at(version)
        view = at.catalog.views.get(self.db._then(at, name))
        if view is None:
            raise self.db._unknown(name)
        return self.answer(self.db._reading(snapshot, at), at.catalog, view)

    def answer(
        self,
        working: Working,
        catalog: Catalog,
        view: ViewDef,
        exactly: bool = False,
    ) -> pa.Table:
        term = catalog.whole(view.name)
        types = {r.name: r.type for r in relations(term) if isinstance(r.type, MapType)}
        for name in types:
            if not catalog.sources[name].retain:
                raise NotRetained(
                    f"`{name}` keeps no copy of its rows, so `{view.name}` cannot be recomputed",
                    hint="declare it without retain=False",
                )
        read_by = catalog.views_under(view)
        if any(v.language != "sql" for v in read_by):
            return self._interpreted(working, catalog, term)
        schemas = catalog.schemas()
        for v in read_by:  # what is stored goes to Spark by the same rules as what is defined
            check_query(v.text)
            again = read_sql(v.text, {n: t for n, t in schemas.items() if n != v.name}, self.db.ask)
            defined = max(v.created, v.replaced)
            if any(catalog.sources[n].added > defined for n in types) and text_of(again) != v.term:
                return self._interpreted(working, catalog, term)  # its * are the columns of then
        texts, columns = dict[str, str | Steps](), None
        for v in read_by:
            known = {n: t for n, t in schemas.items() if n != v.name}
            made = v.text if spark_takes(v.text) else steps(v.text, known, self.db.ask)
            if made is None:  # recursion that Spark does not have stands inside of the query
                return self._interpreted(working, catalog, term)
            texts[v.name] = self._exactly(made, known) if exactly else made
        if exactly:
            columns = {v.name: [n for n, _ in key_fields(v.type)] for v in read_by}
        names = {r.name for v in texts for r in relations(catalog.whole(v))}
        frames = {n: self._rows_frame(working, catalog, n) for n in names}
        return by_spark(self.db.session, texts, frames, view.name, columns)

    def _exactly(self, query: str | Steps, known: Schemas) -> str | Steps:
        """A query, or the steps of one, with sums that are not rounded on the way."""
        if isinstance(query, Steps):
            made = {b.name: bag(RecordType(b.columns)) for p in query.parts for b in p.bindings}
            names = {n.lower() for n in made}
            inside = {**{n: t for n, t in known.items() if n.lower() not in names}, **made}
            return query.mapped(lambda text: str(self._exactly(text, inside)))
        text, aggregates = without_rounding(query, known, self.db.ask)
        register(self.db.session.spark, PREFIX, aggregates)
        return text

    def _rows(self, working: Working, catalog: Catalog, name: str) -> pa.Table:
        view = source_view(catalog.sources[name])
        tables = list(view_rows.scan(self.db.program, view, working, self.db.session.evaluate))
        return pa.concat_tables([view_rows.row_schema(view).empty_table(), *tables])

    def _rows_frame(self, working: Working, catalog: Catalog, name: str) -> Callable[[], DataFrame]:
        view = source_view(catalog.sources[name])
        if self.db.policy.reads_here(r.rows for m in view.maps for r in working.now(m.name).refs):
            return lambda: self.db.session.frame(
                view_rows.repeated(self._rows(working, catalog, name))
            )
        cluster = Cluster(working, self.db.session, self.db.path)
        return lambda: Frames(cluster).frame(self.db.program, view, ours=True)


def source_view(source: SourceDef) -> View:
    """A source seen as a view of its rows."""
    m = source.maps[source.name]
    if not source.nested:
        return View(source.name, source.row, "source", Stored(m))
    parts = tuple(
        Part(p.path, source.maps[p.name], p.row.fields, p.label, p.shape, p.element, p.owner)
        for p in source.parts
    )
    return View(source.name, source.row, "source", Nested(parts))
