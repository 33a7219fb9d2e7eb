"""Streams of a database: defined, bound to their steps, and dropped.

`db.stream` types the steps on the schema over what its headers are, makes a source of every output, and lets all rows that
are there wait. The definition is data in the log; again with the same one it binds the functions, and with another one it
is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headwater.api.catalog import SEEN, SourceDef
from headwater.api.declaring import RESERVED
from headwater.api.flowing import Flowing
from headwater.api.stream_defs import (
    ARRIVAL,
    STREAM,
    StreamDef,
    check_closes,
    closes_of,
    relations_of,
)
from headwater.api.streaming import WAITS
from headwater.api.streams import StreamHandle
from headwater.calculus.types import Base, RecordType
from headwater.engine.change import schema_of
from headwater.engine.ledgers import scan_ledger
from headwater.engine.working import Working
from headwater.errors import (
    HeadwaterError,
    InUse,
    NameTaken,
    NotRetained,
    Purged,
    StreamChanged,
    StreamError,
)
from headwater.folds.described import (
    described,
    functions_in,
    without_marks,
)
from headwater.folds.fold import Fold
from headwater.folds.keeping import PLACE, is_of_stream
from headwater.folds.scale import can_order
from headwater.language.closes import schemes_of
from headwater.language.declared import ddl_of
from headwater.streams.schema import (
    Bag,
    Header,
    Par,
    PartitionBy,
    Schema,
    Sync,
    headers_of,
    parse,
    text,
)
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
        changed: str = "refuse",
    ) -> StreamHandle:
        """Defines a stream: rows of its headers in the order that the schema asks for, through the steps.

        `db.stream("taxis", "hour[taxi{seq gps} | bag rides]", steps, order="ts", marks={"hour": "1 hour"})`

        Headers are sources, views (of which the final rows are taken), outputs of streams, and clocks: `marks` has an
        interval for each of these. `order` is the column that rows are ordered by, one for all headers or one for each,
        of one type. A row is taken when nothing can come before it that it depends on, so headers need `closes`, or are
        closed by hand; until then it waits (`pending`), and may be deleted. `order="arrival"` takes rows as they come.
        `ties="error"` refuses two rows with the same order value whose order matters; else the row itself decides.

        Each output is a relation under its header's name (one that passes: under the stream's name), append-only, told
        in the commit that makes it certain. Views and streams read it; `closes` names the column of an output that
        follows the order, `{"rates": "hour"}`, by which it is closed as the stream goes on.

        The definition is kept. Again with the same one, a process binds the functions of a stream: until then its rows
        wait. Another one is refused (`StreamChanged`); with `changed="keep"` other functions go on from the states that
        are kept, and what was told stays. `optimise=False` runs the steps as they were written.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise StreamError(f"{name!r} is no name of a stream", hint="use letters, digits and _")
        with _of_stream(name):
            made = self._described(
                name, schema, steps, order, marks or {}, ties, closes or {}, optimise
            )
            if changed not in ("refuse", "keep"):
                raise StreamError(f"`changed` is {changed!r}", hint="'refuse' or 'keep'")
            known = self.stream_defs.get(name)
            fold = self._bound_fold(made, steps)
            outputs = {n: ddl_of(_row(h)) for n, h in fold.outputs.items()}
            passing = (*made.inputs, *made.marks)
            made = replace(
                made,
                outputs=outputs,
                relations=relations_of(name, passing, outputs),
                closes=closes_of(made.closes, fold.outputs),
            )
        if known is not None:
            return self._defined_again(known, replace(made, place=known.place), fold, changed)
        with self._locked():
            self._writing()
            known = self.stream_defs.get(name)
            if known is not None:  # another process was quicker
                return self._defined_again(known, replace(made, place=known.place), fold, changed)
            self._define_stream(made, fold)
            self._folds[name] = fold
            try:
                self.apply({})
            except HeadwaterError:
                self._drop_stream(name)  # rows that are there cannot be run: it is not defined
                raise
        return StreamHandle(self, name)

    def _defined_again(
        self, known: StreamDef, made: StreamDef, fold: Fold, changed: str
    ) -> StreamHandle:
        """Binds a stream that is there to its functions, and takes the rows that waited for them."""
        if _functions_changed(known, made) and changed == "keep":
            with self._locked():
                self._writing()
                with self._commit(f"stream {made.name}", (self.catalog, self.program)) as commit:
                    commit.set(*made.fact)
        else:
            _check_same(known, made)
        self._folds[made.name] = fold
        if f"{WAITS}{made.name}" in self.store.at(self.version).facts:
            self.apply({})
        return StreamHandle(self, made.name)

    def _check_name(self, name: str) -> None:
        super()._check_name(name)
        if name.lower() in {n.lower() for n in self.stream_defs}:
            raise NameTaken(
                f"there is a stream `{name}` already", hint="drop it first, or take another name"
            )

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
        if not isinstance(made, Bag | Sync | PartitionBy | Par):
            raise StreamError(
                f"its schema is of type {type(made).__name__}",
                hint="give one of headwater.st, or its notation: 'hour[taxi{seq gps} | bag rides]'",
            )
        if not isinstance(steps, Step):
            raise StreamError(
                f"its steps are of type {type(steps).__name__}",
                hint="give a step of headwater.st, or several: st.filter('price > 0') >> st.highest('price')",
            )
        if ties not in ("row", "error"):
            raise StreamError(f"`ties` is {ties!r}", hint="'row' or 'error'")
        for word, given, such in (
            ("marks", marks, "{'hour': '1 hour'}"),
            ("closes", closes, "{'rates': 'hour'}"),
        ):
            if not isinstance(given, Mapping):
                raise StreamError(
                    f"`{word}` is of type {type(given).__name__}",
                    hint=f"for example: {word}={such}",
                )
        names = headers_of(made)
        for clock in marks:
            if self.catalog.named(clock) in {**self.catalog.sources, **self.program.views}:
                raise StreamError(
                    f"the clock `{clock}` has the name of a source or a view",
                    hint="give the clock another name; marks of a source need no interval",
                )
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
                f"an interval of its clocks is no text and no number: {dict(marks)!r}",
                hint="write it as text: '1 hour'",
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
        if not isinstance(order, str | Mapping):
            raise StreamError(
                f"`order` is of type {type(order).__name__}",
                hint="name a column, one for each header, {'gps': 'ts'}, or 'arrival'",
            )
        unknown = (
            [h for h in order if h not in (*inputs, *marks)]
            if order and not isinstance(order, str)
            else []
        )
        if unknown:
            raise StreamError(
                f"`order` has `{unknown[0]}`, which is no header of it",
                hint=f"headers: {', '.join((*inputs, *marks))}",
            )
        if order == ARRIVAL:
            if marks:
                raise StreamError(
                    f"it takes rows as they come, and has the clock `{next(iter(marks))}`",
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
                    hint="order by a time, a date, a whole number or a double",
                )
        if len(set(types.values())) > 1:
            told = ", ".join(f"`{out[h]}` of `{h}` is {t}" for h, t in types.items())
            raise StreamError(
                f"its order columns have different types: {told}",
                hint="give them one type, in a view if need be",
            )
        first = next(iter(out.values()), "")
        for clock in marks:
            out[clock] = first if isinstance(order, str) else order.get(clock, first)
        return out

    # --- defining and dropping ----------------------------------------------------------------------------------------

    def _define_stream(self, made: StreamDef, fold: Fold) -> None:
        """Adds a stream with its outputs; rows that are there wait."""
        name = made.name
        taken = {
            n.lower()
            for n in (
                *self.catalog.sources,
                *self.catalog.views,
                *self.graph.stages,
                *self.stream_defs,
            )
        }
        twice = [n.lower() for n in made.relations.values()]
        for n in (name, *made.relations.values()):
            if twice.count(n.lower()) > 1:
                raise NameTaken(
                    f"two outputs of the stream `{name}` are called `{n}`, whatever the case of letters",
                    hint="give one of them another name",
                )
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
        taken = [n for n, _ in source.row.fields if n.lower() in (*RESERVED, PLACE)]
        if taken:
            raise StreamError(
                f"the column name `{taken[0]}` of `{header}` has a meaning already",
                hint="take another, with map if it comes from a source",
            )
        column = made.closes.get(header)
        if column is not None:
            schemes = schemes_of(column, source.row, name)
            if made.order:
                by = dict(self._header(made.inputs[0]).fields)[made.order[made.inputs[0]]]
                check_closes(made, header, column, dict(source.row.fields).get(column), by)
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
                if is_of_stream(m, [name]) or (m in outputs and m not in program.maps):
                    commit.drop(m)
        self._folds.pop(name, None)


def _row(header: Header) -> RecordType:
    return RecordType(tuple(header.fields))


def _check_same(known: StreamDef, made: StreamDef) -> None:
    """Raises where a stream is defined otherwise than it was."""
    if known == made:
        return
    for field in ("schema", "order", "marks", "ties", "closes", "outputs", "optimise", "inputs"):
        if getattr(known, field) != getattr(made, field):
            raise StreamChanged(
                f"the stream `{known.name}` was defined otherwise, with {field}={getattr(known, field)!r} and not {getattr(made, field)!r}",
                hint="drop it and define it again, or take another name",
            )
    before, now = dict(functions_in(known.data)), dict(functions_in(made.data))
    changed = [n for n in now if n in before and before[n] != now[n]]
    if changed:
        raise StreamChanged(
            f"the function `{changed[0]}` is not the one that the stream `{known.name}` was defined with",
            hint="changed='keep' goes on with it from the states that are kept; or drop the stream and define it again, and all is told anew",
        )
    raise StreamChanged(
        f"the stream `{known.name}` was defined with other steps",
        hint="define it as it was, or drop it and define it again; what it told would be told otherwise",
    )


def _functions_changed(known: StreamDef, made: StreamDef) -> bool:
    """Whether two definitions differ in nothing but what their functions do."""
    return (
        known != made
        and replace(known, steps="") == replace(made, steps="")
        and without_marks(known.data) == without_marks(made.data)
    )


@contextmanager
def _of_stream(name: str) -> Iterator[None]:
    """An error of a definition says of which stream."""
    try:
        yield
    except HeadwaterError as e:
        if f"`{name}`" not in e.what:
            e.what = f"the stream `{name}`: {e.what}"
            e.args = (e.what,)
        raise
