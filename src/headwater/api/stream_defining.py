"""Streams of a database: defined, bound to their steps, and dropped.

`db.stream` types the steps on the schema over what its headers are, makes a source of every output, and lets all rows that
are there wait. The definition is data in the log; again with the same one it binds the functions, and with another one it
is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headwater.api.catalog import SEEN, SourceDef
from headwater.api.flowing import Flowing
from headwater.api.stream_defs import ARRIVAL, STREAM, StreamDef, relations_of
from headwater.api.streaming import WAITS
from headwater.api.streams import StreamHandle
from headwater.calculus.types import BIGINT, Base, RecordType
from headwater.engine.change import schema_of
from headwater.engine.ledgers import scan_ledger
from headwater.engine.working import Working
from headwater.errors import InUse, NameTaken, NotRetained, Purged, StreamChanged, StreamError
from headwater.folds.clock import clock_of
from headwater.folds.columnar import nodes_of
from headwater.folds.described import described, functions_in, restored
from headwater.folds.fold import Fold
from headwater.folds.scale import can_order
from headwater.folds.sql import Sql
from headwater.language.closes import schemes_of
from headwater.language.declared import ddl_of
from headwater.streams.pipeline import Query, Steps, on, parts
from headwater.streams.queries_in_time import Every
from headwater.streams.schema import Header, Schema, Sync, check, headers_of, parse, text
from headwater.streams.steps import Step


class Streams(Flowing):
    """The part of a database that has streams."""

    def stream(
        self,
        name: str,
        schema: Schema | str,
        steps: Step,
        *,
        order: str | Mapping[str, str],
        marks: Mapping[str, Any] | None = None,
        ties: str = "row",
        closes: Mapping[str, str] | None = None,
        optimise: bool = True,
    ) -> StreamHandle:
        """Defines a stream: rows of its headers in the order that the schema asks for, through the steps.

        Headers are sources, views (of which the final rows are taken), outputs of streams, and clocks: `marks` has an
        interval for each of these, `{"hour": "1 hour"}`. `order` is the column that rows are ordered by, one for all
        headers or one for each; rows are taken when nothing can come before them, so that headers need `closes`.
        `order="arrival"` takes rows as they come. `ties="error"` refuses two rows with the same order whose order
        matters; else the row itself decides. Every output is a relation that views and streams read; `closes` names the
        column of an output that follows the order, `{"rates": "hour"}`, by which it is closed as the stream goes on.
        """
        made = self._described(
            name, schema, steps, order, marks or {}, ties, closes or {}, optimise
        )
        known = self.stream_defs.get(name)
        fold = self._bound_fold(made, steps)
        outputs = {n: ddl_of(_row(h)) for n, h in fold.outputs.items()}
        passing = (*made.inputs, *made.marks)
        made = replace(made, outputs=outputs, relations=relations_of(name, passing, outputs))
        if known is not None:
            _check_same(known, replace(made, place=known.place))
            self._folds[name] = fold
            if f"{WAITS}{name}" in self.store.at(self.version).facts:
                self.apply({})
            return StreamHandle(self, name)
        with self._locked():
            self._writing()
            if name in self.stream_defs:
                return self.stream(
                    name,
                    schema,
                    steps,
                    order=order,
                    marks=marks,
                    ties=ties,
                    closes=closes,
                    optimise=optimise,
                )
            self._define_stream(made, fold)
            self._folds[name] = fold
            self.apply({})
        return StreamHandle(self, name)

    # --- what a definition says ------------------------------------------------------------------------------------

    def _described(
        self,
        name: str,
        schema: Schema | str,
        steps: Step,
        order: str | Mapping[str, str],
        marks: Mapping[str, Any],
        ties: str,
        closes: Mapping[str, str],
        optimise: bool,
    ) -> StreamDef:
        """A definition as data, checked as far as it says something of headers."""
        made: Any = parse(schema) if isinstance(schema, str) else schema
        if not isinstance(steps, Step):
            raise StreamError(
                f"the steps of `{name}` are of type {type(steps).__name__}",
                hint="give a step of headwater.st, or several: st.filter('price > 0') >> st.highest('price')",
            )
        if ties not in ("row", "error"):
            raise StreamError(f"ties={ties!r}", hint="'row' or 'error'")
        names = headers_of(made)
        for clock in marks:
            if clock not in names:
                raise StreamError(
                    f"the clock `{clock}` is no header of `{text(made)}`",
                    hint=f"headers: {', '.join(names)}",
                )
        inputs = tuple(h for h in names if h not in marks)
        for h in inputs:
            self._header(h)
        columns = self._order(name, inputs, order, marks)
        try:
            intervals = {h: json.loads(json.dumps(v)) for h, v in marks.items()}
        except TypeError as e:
            raise StreamError(
                f"an interval of `{name}` is {marks!r}", hint="write it as text: '1 hour'"
            ) from e
        return StreamDef(
            name,
            text(made),
            json.dumps(described(steps)),
            columns,
            intervals,
            ties,
            dict(closes),
            inputs,
            optimise=optimise,
        )

    def _order(
        self,
        name: str,
        inputs: tuple[str, ...],
        order: str | Mapping[str, str],
        marks: Mapping[str, Any],
    ) -> dict[str, str]:
        """The order column of each header, which all have one type."""
        if order == ARRIVAL:
            if marks:
                raise StreamError(
                    f"`{name}` takes rows as they come, and has the clock `{next(iter(marks))}`",
                    hint="a clock needs an order column: order='ts'",
                )
            return {}
        out: dict[str, str] = {}
        types: dict[str, Base] = {}
        for h in inputs:
            asked = order if isinstance(order, str) else order.get(h)
            fields = {n.lower(): (n, t) for n, t in self._header(h).fields}
            found = None if asked is None else fields.get(asked.lower())
            if found is None:
                raise StreamError(
                    f"`{h}` has no order column" + ("" if asked is None else f" `{asked}`"),
                    hint=f"columns of `{h}`: {', '.join(n for n, _ in fields.values())}; order={{'{h}': 'column'}}, or 'arrival'",
                )
            out[h], types[h] = found
            if not can_order(types[h]):
                raise StreamError(
                    f"`{found[0]}` of `{h}` is {types[h]}, by which no stream is ordered",
                    hint="order by a time, a date or a number",
                )
        if len(set(types.values())) > 1:
            told = ", ".join(f"`{out[h]}` of `{h}` is {t}" for h, t in types.items())
            raise StreamError(
                f"the order columns of `{name}` have different types: {told}",
                hint="give them one type, in a view if need be",
            )
        first = next(iter(out.values()), "")
        for clock in marks:
            out[clock] = first if isinstance(order, str) else order.get(clock, first)
        return out

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

    # --- binding ----------------------------------------------------------------------------------------------------

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

    # --- defining and dropping ----------------------------------------------------------------------------------------

    def _define_stream(self, made: StreamDef, fold: Fold) -> None:
        """Adds a stream with its outputs; rows that are there wait."""
        name = made.name
        if not name.isidentifier():
            raise StreamError(f"`{name}` is no name", hint="use letters, digits and _")
        taken = {
            n.lower()
            for n in (
                *self.catalog.sources,
                *self.catalog.views,
                *self.graph.stages,
                *self.stream_defs,
            )
        }
        for n in (name, *made.relations.values()):
            if n.lower() in taken:
                raise NameTaken(
                    f"there is a source, view, stage or stream `{n}` already",
                    hint="drop it first, or take another name",
                )
        for n in made.relations.values():
            self._check_name(n)
        new = [self._output_source(made, n) for n in made.outputs]
        catalog, program = self._with_sources(new)
        place = 1 + max((d.place for d in self.stream_defs.values()), default=0)
        made = replace(made, place=place)
        with self._commit(f"stream {name}", (catalog, program)) as commit:
            self._create_sources(commit, new)
            for spec in fold.specs:
                commit.create(spec)
            commit.set(*made.fact)
            commit.set(f"{WAITS}{name}", True)
            working = self._working(commit, self.program)
            there = {h: t for h in made.inputs if (t := self._there(h, working)).num_rows}
            self._let_wait(working, made, there)
            self._add(commit, working)

    def _output_source(self, made: StreamDef, header: str) -> SourceDef:
        name = made.relations[header]
        source = SourceDef(name, made.outputs[header], written=made.name, append_only=True)
        column = made.closes.get(header)
        if column is not None:
            schemes = schemes_of(column, source.row, name)
            source = replace(source, closes=tuple(json.dumps(s.described()) for s in schemes))
        unknown = [n for n in made.closes if n not in made.outputs]
        if unknown:
            raise StreamError(
                f"`closes` has `{unknown[0]}`, which is no output of `{made.name}`",
                hint=f"outputs: {', '.join(made.outputs)}",
            )
        return replace(source, held_in=tuple(m.name for m in source.all_maps))

    def _there(self, name: str, working: Working) -> pa.Table:
        """The rows of a header that are there when a stream is defined."""
        if name in self.program.views:
            view = self.program.views[name]
            return pa.concat_tables(
                [schema_of(view.type).empty_table(), *scan_ledger(view, working)]
            )
        source = self.catalog.sources[name]
        facts = self.store.at(self.version).facts
        if not source.retain and f"{SEEN}{name}" in facts:
            raise NotRetained(
                f"`{name}` keeps no copy of its rows, and has had some already",
                hint="define the stream before data arrives, or declare the source without retain=False",
            )
        if source.retain == "open" and name in self.over.closed:
            raise Purged(
                f"rows of `{name}` that the stream would need are over, and are kept no more",
                hint="define the stream before rows are closed, or declare the source with retain=True",
            )
        if not source.retain:
            return schema_of(source.row).empty_table()
        return self.table(name)

    def drop(self, name: str) -> None:
        """Takes away a view, a source, a flow, a stage or a stream that nothing reads, with what only it needs."""
        with self._locked():
            self._writing()
            if name in self.stream_defs:
                self._drop_stream(name)
                return
            readers = [
                d.name for d in self.stream_defs.values() if self.catalog.named(name) in d.inputs
            ]
            if readers:
                raise InUse(
                    f"`{name}` is read by the stream `{readers[0]}`",
                    hint=f"drop `{readers[0]}` first",
                )
            writer = self._outputs().get(name)
            if writer is not None:
                raise InUse(
                    f"`{name}` is told by the stream `{writer}`", hint=f"drop `{writer}` first"
                )
            super().drop(name)

    def _drop_stream(self, name: str) -> None:
        made = self.stream_defs[name]
        for output in made.relations.values():
            readers = [
                *self.graph.readers(output),
                *self.catalog.readers(output),
                *(d.name for d in self.stream_defs.values() if output in d.inputs),
            ]
            if readers:
                raise InUse(
                    f"`{output}`, which `{name}` tells, is read by `{readers[0]}`",
                    hint=f"drop `{readers[0]}` first",
                )
        catalog, program = self._without_flows(list(made.relations.values()))
        with self._commit(f"drop {name}", (catalog, program)) as commit:
            gone = [f"{STREAM}{name}", f"{WAITS}{name}"]
            gone += [
                f"{kind}{o}"
                for o in made.relations.values()
                for kind in ("source:", SEEN, "closed:")
            ]
            for key in gone:
                if key in commit.base.facts:
                    commit.set(key, None)
            outputs = {
                m.name for o in made.relations.values() for m in self.catalog.sources[o].all_maps
            }
            for m in commit.base.maps:
                letter, _, rest = m.partition(":")
                own = letter in ("p", "s", "b", "t") and rest.partition(".")[0] == name
                if own or (m in outputs and m not in program.maps):
                    commit.drop(m)
        self._folds.pop(name, None)


def _steps(query: Query) -> list[tuple[str, str]]:
    """The steps of a query as text, each with the schema that it tells."""
    out, schema, headers = [], query.input, query.headers
    for step in query.steps.steps:
        schema, headers = step.typed(schema, headers, query.context)
        out.append((str(step), text(schema)))
    return out


def _row(header: Header) -> RecordType:
    return RecordType(tuple(header.fields))


def _check_same(known: StreamDef, made: StreamDef) -> None:
    """Raises where a stream is defined otherwise than it was."""
    if known == made:
        return
    said = {
        "schema": "its schema",
        "order": "its order",
        "marks": "its clocks",
        "ties": "what becomes of ties",
        "closes": "what closes its outputs",
        "outputs": "its outputs",
        "optimise": "whether its steps are moved",
        "inputs": "its headers",
    }
    for field, what in said.items():
        if getattr(known, field) != getattr(made, field):
            raise StreamChanged(
                f"the stream `{known.name}` was defined otherwise: {what} was {getattr(known, field)!r}, and is {getattr(made, field)!r}",
                hint="drop it and define it again, or take another name",
            )
    before, now = dict(functions_in(known.data)), dict(functions_in(made.data))
    changed = [n for n in now if n in before and before[n] != now[n]]
    raise StreamChanged(
        f"the function `{changed[0]}` is not the one that the stream `{known.name}` was defined with"
        if changed
        else f"the stream `{known.name}` was defined with other steps",
        hint="what it told would be told otherwise: define it as it was, or drop it and define it again",
    )
