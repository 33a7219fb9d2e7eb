"""Binding: what a stream of the log does in this process: its steps on its schema, over what its headers are.

Steps without functions of Python are made from their data; with functions a stream is bound when it is defined again, and
until then `fold_of` is None.
"""

from __future__ import annotations

from typing import Any

from headwater.api.carrying import Carrying
from headwater.api.catalog import well_defined
from headwater.api.stream_defs import StreamDef, read_streams
from headwater.calculus.types import BIGINT, Base
from headwater.errors import StreamError
from headwater.folds.clock import clock_of
from headwater.folds.columnar import nodes_of
from headwater.folds.described import restored, unknown
from headwater.folds.fold import Fold
from headwater.folds.sql import Sql
from headwater.streams.pipeline import Query, Steps, on, parts
from headwater.streams.queries_in_time import Every
from headwater.streams.schema import Header, Sync, check, parse, text
from headwater.streams.steps import Step


class Binding(Carrying):
    """The part of a database that knows what its streams do."""

    _folds: dict[str, Fold]
    """The streams that are bound to what their steps do in this process."""
    _streams_known: tuple[int, dict[str, StreamDef]] | None = None

    @property
    def stream_defs(self) -> dict[str, StreamDef]:
        """The streams of the version that the handle is at, in the order in which they were defined."""
        version, known = self._known_at, self._streams_known
        if known is None or known[0] != version:
            facts = self._facts_now
            known = version, well_defined(version, lambda: read_streams(facts))
            self._streams_known = known
        return known[1]

    def _header(self, name: str) -> Header:
        """What a header is: a source, a view or an output."""
        known = self.catalog.named(name)
        if known in self.program.views:
            row = self.program.views[known].type
        elif known in self.catalog.sources:
            source = self.catalog.sources[known]
            if source.written and name not in self._outputs():
                raise StreamError(
                    f"`{name}` is a flow, whose rows are never over",
                    hint="a header is a source, a view or an output of a stream",
                )
            row = source.row
        else:
            raise StreamError(
                f"there is no header `{name}`",
                hint=f"a header is one of {', '.join([*self.catalog.sources, *self.catalog.views]) or 'none'}, or a clock: marks={{'{name}': '1 hour'}}",
            )
        nested = [n for n, t in row.fields if not isinstance(t, Base)]
        if nested:
            raise StreamError(
                f"`{nested[0]}` of `{name}` is no single value",
                hint="define a view that opens it, and read that",
            )
        return Header(known, tuple((n, t) for n, t in row.fields if isinstance(t, Base)))

    def _outputs(self) -> dict[str, str]:
        """The outputs of streams, with the streams."""
        return {r: d.name for d in self.stream_defs.values() for r in d.relations.values()}

    def query_of(self, made: StreamDef, steps: Step) -> tuple[Query, dict[str, Any]]:
        """The steps of a stream on its schema, and the intervals of its clocks.

        A clock that comes first among the steps, `every`, is one of the schema: so it strikes when all rows before are
        there, and waits for no row behind.
        """
        schema, marks, given = parse(made.schema), dict(made.marks), parts(steps)
        first = given[0]
        if isinstance(first, Every) and isinstance(schema, Sync) and len(given) > 1 and made.order:
            columns = {made.order[h] for h in schema.headers}
            if len(columns) == 1 and first.column in (None, *columns):
                schema = Sync(*schema.headers, first.name, schema.sub)
                marks[first.name], steps = first.interval, Steps(given[1:])
        headers = {h: self._header(h) for h in made.inputs}
        types = [t for h in made.inputs for n, t in headers[h].fields if n == made.order.get(h)]
        order = dict(made.order)
        for clock in marks:
            order.setdefault(clock, next(iter(made.order.values())))
            headers[clock] = Header(clock, ((order[clock], types[0]),))
        check(schema, headers)
        sql = Sql(self.session, self.ask, self.files)
        return on(steps, schema, headers, sql, order or None, made.optimise), marks

    def _bound_fold(self, made: StreamDef, steps: Step) -> Fold:
        query, marks = self.query_of(made, steps)
        order: Any = query.context.order or {}
        types = [t for h in made.inputs for n, t in query.headers[h].fields if n == order.get(h)]
        return Fold(
            made.name,
            query.input,
            query.headers,
            query.transformer,
            nodes_of(query),
            order,
            types[0] if types else BIGINT,
            {h: clock_of(h, i, types[0]) for h, i in marks.items()},
            made.ties,
            self.session.zone,
            query.reasons,
            _steps(query),
        )

    def fold_of(self, stream: StreamDef) -> Fold | None:
        """What a stream does; None where it has functions that this process does not know."""
        known = self._folds.get(stream.name)
        if known is not None:
            return known
        try:
            steps = restored(stream.data)
        except LookupError:
            return None
        made = self._folds[stream.name] = self._bound_fold(stream, steps)
        return made

    def fold_to_look_at(self, stream: StreamDef) -> Fold:
        """What a stream is, to be looked at and not to be run: with stand-ins for functions that are not known here."""
        known = self.fold_of(stream)
        return known or self._bound_fold(stream, restored(stream.data, unknown))


def _steps(query: Query) -> list[tuple[str, str]]:
    """The steps of a query as text, each with the schema that it tells."""
    out, schema, headers = [], query.input, query.headers
    for step in query.steps.steps:
        schema, headers = step.typed(schema, headers, query.context)
        out.append((str(step), text(schema)))
    return out
