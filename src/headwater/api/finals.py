"""Reading what is over: final rows of views, late rows of sources, and what of each is closed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headwater.api.over import Over, bounds_of, closed_of, of_rows, promises_of, schemes_of
from headwater.api.versions import Defined, Readable, check_since
from headwater.calculus.patterns import Punctuations
from headwater.engine import view_rows
from headwater.engine.change import schema_of
from headwater.engine.late import CLOSED, aside_map
from headwater.engine.ledgers import VERSION, scan_ledger
from headwater.engine.rings import spec_of
from headwater.errors import QueryError, UnknownName
from headwater.plan.closing import Closing
from headwater.plan.program import Nested, View
from headwater.state.run import column


class Finals(Readable):
    """The part of a database that reads what is over."""

    def final_table(self, name: str, since: int = 0, until: int | None = None) -> pa.Table:
        """The final rows of a view that were told after a version, with `_w` and `_version`, read in this process."""
        snapshot, at = self._at(until)
        view = self._view_at(at, name, snapshot.number)
        check_since(since, snapshot.number)
        if isinstance(view.rows, Nested):
            raise QueryError(
                f"the rows of `{view.name}` are nested, and no row of it is told to be final",
                hint="define flat views of its parts",
            )
        tables = list(scan_ledger(view, self._reading(snapshot, at), versions=True))
        if not tables and not self._can_be_final(at, view):
            raise QueryError(
                f"no row of `{view.name}` is final before all that it reads is over",
                hint=self._would_do(at, view),
            )
        schema = schema_of(view.type).append(pa.field(VERSION, pa.int64()))
        table = pa.concat_tables([schema.empty_table(), *tables])
        return table.filter(pc.greater(column(table, VERSION), since)).sort_by(VERSION)

    def final_frame(self, name: str, since: int = 0, until: int | None = None) -> DataFrame:
        """What `final` gives, as a DataFrame; rows repeat."""
        return self._frame(view_rows.repeated(self.final_table(name, since, until)))

    def _can_be_final(self, at: Defined, view: View) -> bool:
        """Whether rows of a view are all final, or become so in time by the schemes of the sources."""
        closing = Closing(at.program, self.session.zone)
        over = Over.read(self._snapshot(at.version).facts, at.catalog)
        all_over = promises_of(closing, at.catalog, over.closed, over.found).final(view)
        return all_over == Punctuations.EVERYTHING or bool(
            schemes_of(closing, at.catalog).final(view)
        )

    def _would_do(self, at: Defined, view: View) -> str:
        """What declared of its sources would make rows of a view final, as BOUNDS says it."""
        bounds = bounds_of(at.program, at.catalog, view.name, self.session.zone)
        if not bounds.would_be_final:
            ends = ", ".join(f"db.punctuate({n!r})" for n, _ in bounds.sources)
            return f"no column would do: only the end of what it reads, {ends}"
        said = " and ".join(map(str, bounds.would_be_final[0]))
        return f"would do: {said}, where the source is declared"

    def closed_view(self, name: str, version: int | None = None) -> Punctuations:
        """What of a view is over, in terms of its columns."""
        snapshot, at = self._at(version)
        view = self._view_at(at, name, snapshot.number)
        over = self._over_at(snapshot, at)
        closing = Closing(at.program, self.session.zone)
        promises = promises_of(closing, at.catalog, over.closed, over.found)
        return of_rows(promises, view)

    def closed_source(self, name: str, version: int | None = None) -> Punctuations:
        """What of a source is over, NULL in its closing columns included."""
        snapshot, at = self._at(version)
        source = at.catalog.sources.get(self._then(at, name))
        if source is None:
            raise _no_source(name, at, snapshot.number)
        return closed_of(source, self._over_at(snapshot, at).closed)

    def late_table(self, name: str, version: int | None = None) -> pa.Table:
        """The late rows of a source that were set aside, with `_w`, `_version` and `_closed`, read in this process."""
        snapshot, at = self._at(version)
        source = at.catalog.sources.get(self._then(at, name))
        if source is None:
            raise _no_source(name, at, snapshot.number)
        made = aside_map(source.name, source.row)
        schema = schema_of(source.row)
        extra = [pa.field(VERSION, pa.int64()), pa.field(CLOSED, pa.string())]
        whole = pa.schema([*schema, *extra])
        tables = [whole.empty_table()]
        if made.name in snapshot.version.maps:
            working = self._reading(snapshot, at)
            working.know(spec_of(made))
            for t in working.now(made.name).scan():
                cells = [column(t, f"k{i}").cast(f.type) for i, f in enumerate(list(schema)[:-1])]
                more = [column(t, n) for n in ("r0", VERSION, CLOSED)]
                tables.append(pa.table([*cells, *more], schema=whole))
        return pa.concat_tables(tables).sort_by(VERSION)

    def late_frame(self, name: str, version: int | None = None) -> DataFrame:
        """What `late` gives, as a DataFrame."""
        return self._frame(self.late_table(name, version))


def _no_source(name: str, at: Defined, version: int) -> UnknownName:
    return UnknownName(
        f"there is no source `{name}` at version {version}",
        hint=f"sources: {', '.join(at.catalog.sources) or 'none'}",
    )
