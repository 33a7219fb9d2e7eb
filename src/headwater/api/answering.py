"""Answering: a query asked once, over what is there now, and nothing of it is kept.

It is planned like a view, beside the program that is there, so that it reads the maps of sources and views; the maps that it needs besides are
filled in memory and forgotten. So it means what a view of it would mean, and small ones need no Spark. What is large, or not in the
language of views, is asked of Spark, over the same rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from sqlglot import exp

from headwater.api.catalog import SEEN, as_stored, check_functions, functions_of
from headwater.api.feeds import Held
from headwater.api.observing import Observing
from headwater.api.verify import source_view
from headwater.api.versions import ASKED, Defined
from headwater.engine.fill import Backfill
from headwater.engine.spark.frames import Frames
from headwater.engine.spark.rounds import Cluster
from headwater.engine.spark.session import telling
from headwater.engine.verify.spark_rounds import query as spark_query
from headwater.engine.view_rows import repeated
from headwater.engine.working import Working
from headwater.errors import NotIncremental
from headwater.language.functions import DEFINED
from headwater.language.sql import read_sql
from headwater.language.sql.places import placed
from headwater.language.sql.reader import Reader, tables_named
from headwater.language.sql.texts import check_query
from headwater.plan.analysis import read_from


class Answering(Observing):
    """The part of a database that answers queries that nobody keeps."""

    def answer(self, query: str, version: int | None = None) -> pa.Table:
        """The rows of a SELECT over sources and views, now or at a version, in the order that it asks for."""
        _, at = self._at(version)
        order = _order(query)
        if order is None or not self._is_small(query, at):
            return self._by_spark(query, version)
        try:
            table = repeated(self._weighted(query, version))
        except NotIncremental:  # what no view could be: chance, the time of day
            return self._by_spark(query, version)
        found = [_place(o, table.column_names) for o in order]
        if any(p is None for p in found):
            return self._by_spark(query, version)
        keys = [
            (p, bool(o.args.get("desc")))
            for p, o in zip(found, order, strict=True)
            if p is not None
        ]
        return _sorted(table, keys, order)

    def sql(self, query: str, version: int | None = None) -> DataFrame:
        """Any query of Spark over sources and views, now or at a version, as a DataFrame that is evaluated when it is read.

        It sees one version, whatever is committed meanwhile. Names that are no source or view are left to Spark.
        """
        _, at = self._at(version)
        names = {at.catalog.named(n) for n in tables_named(query)}
        made: list[str] = []
        with self._locked(), telling("reading a query"):
            try:
                for name in names & {*at.catalog.sources, *at.catalog.views}:
                    frame = self._ours_by_size(name, at.version)
                    frame.createOrReplaceTempView(name)
                    made.append(name)
                return spark_query(self.session.spark, query)
            finally:
                for name in made:
                    self.session.spark.catalog.dropTempView(name)

    def _ours_by_size(self, name: str, version: int) -> DataFrame:
        """The rows of a source or view as a DataFrame of our own session; many of them are read by its tasks."""
        snapshot, at = self._at(version)
        view = self._as_view(at, name, version)
        working = self._reading(snapshot, at)
        maps = view.maps or read_from(at.program, view)[:1]
        if self.policy.answers_here(r.rows for m in maps for r in working.refs.get(m.name, ())):
            return self.session.frame(repeated(self.table(name, version)))
        with as_stored(version):
            return Frames(Cluster(working, self.session, self.path)).frame(at.program, view, True)

    def _weighted(self, query: str, version: int | None = None) -> pa.Table:
        """The rows of a query with `_w`, in no order, computed in this process as far as it can be."""
        snapshot, at = self._at(version)
        schemas = at.catalog.schemas()
        term = read_sql(query, schemas, self.ask)
        for name in functions_of(term):
            self.session.register(name, DEFINED[name].__wrapped__, str(DEFINED[name].returns))
        for made in at.catalog.views.values():
            check_functions(made)
        try:
            compiler = at.catalog.compiler(at.program)
            program, _, _ = compiler.choose(ASKED, term, data=self._sampled())
        except NotIncremental as e:
            raise placed(e, query, schemas) from None
        refs = {n: refs for n, (_, refs) in snapshot.version.maps.items()}
        rows = program.relations.rows
        working = Working(program.maps, refs, snapshot.runs, rows=rows)
        working.hidden = self._reading(snapshot, at).hidden
        gone = [k.removeprefix(SEEN) for k in snapshot.facts if k.startswith(SEEN)]
        with as_stored(snapshot.number), self._telling("reading"):
            small = max(self.policy.most_here, self.policy.read_here)
            Backfill(program, working, self.session, self.path, small, gone).run(at.program)
            return Held(program, program.views[ASKED], working).rows(self.session.evaluate)

    def _is_small(self, query: str, at: Defined) -> bool:
        """Whether what a query reads is read in this process."""
        runs = self.store.at(at.version).version.maps
        entries: list[int] = []
        for name in tables_named(query):
            known = at.catalog.named(name)
            if known in at.catalog.sources:
                source = at.catalog.sources[known]
                maps = [*source_view(source).maps] if source.retain else []
            elif known in at.program.views:
                maps = [*read_from(at.program, at.program.views[known])]
            else:
                continue
            entries += [r.rows for m in maps for r in runs[m.name][1] if m.name in runs]
        return self.policy.answers_here(entries)

    def _by_spark(self, query: str, version: int | None) -> pa.Table:
        """The answer by Spark, over sources and views as they are at a version; only the answer comes to this process."""
        with telling("answering a query"):
            self.session.counts.jobs += 1
            return self._in_spark(query, version).toArrow()

    def _in_spark(self, query: str, version: int | None) -> DataFrame:
        """The answer as a DataFrame of our session: tasks read what is large."""
        _, at = self._at(version)
        names = {at.catalog.named(n) for n in tables_named(query)}
        for n in names - {*at.catalog.sources, *at.catalog.views}:
            raise self._unknown(n)
        check_query(query)
        return self.sql(query, at.version)


def _order(query: str) -> list[exp.Ordered] | None:
    """What a query asks its rows to be in the order of; none is an empty list, and None one that only Spark knows."""
    try:
        tree = Reader(query, {}).parse()
    except NotIncremental:
        return None
    order = tree.args.get("order")
    return [] if order is None else list(order.expressions)


def _place(key: exp.Ordered, names: list[str]) -> int | None:
    """Which column of the answer a key of the order is: by its name, or by its number."""
    e = key.this
    if isinstance(e, exp.Literal) and not e.is_string and e.name.isdigit():
        return int(e.name) - 1 if 0 < int(e.name) <= len(names) else None
    if isinstance(e, exp.Column) and not e.table:
        low = [n.lower() for n in names]
        return low.index(e.name.lower()) if low.count(e.name.lower()) == 1 else None
    return None


def _sorted(table: pa.Table, keys: list[tuple[int, bool]], order: list[exp.Ordered]) -> pa.Table:
    """The rows in an order as Spark has it: NULL is the least, and NaN the greatest number.

    The keys are taken from the last to the first, each by a sort that keeps the order of equals.
    """
    places = np.arange(table.num_rows)
    for (place, down), said in reversed(list(zip(keys, order, strict=True))):
        column = table.column(place).combine_chunks()
        first = said.args.get("nulls_first")
        passes = [(column, down)]
        if pa.types.is_floating(column.type):
            passes.append((pc.fill_null(pc.is_nan(column), False), down))
        passes.append((pc.is_null(column), (not down) if first is None else bool(first)))
        for values, falling in passes:
            how = "descending" if falling else "ascending"
            moved = pc.array_sort_indices(values.take(pa.array(places)), order=how)
            places = places[np.asarray(moved)]
    return table.take(pa.array(places))
