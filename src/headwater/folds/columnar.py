"""Steps in columns: those of the library whose conditions are SQL, over whole tables instead of row by row.

    filter, map     the condition or the expressions over all rows at once
    window          rows as they are
    highest         of each frame the greatest value, and the rows that have it; of an open frame only those are kept
    aggregate       a query asked of all frames that end, over their rows as tables; also one lifted to a bag below marks
    mark            the predicates over all rows, then the automaton over each key's rows in order

Each means what its transformer means; other steps, and these with functions of Python, run by `kernel.py`. They stand in
the steps of a stream, below no key, so that they have one instance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.folds.asked import INSTANCE, instances_of
from headwater.folds.batch import Batch, Rows, Told, joined, table_of
from headwater.folds.instances import GOES_ON, Instances, Node, Ran
from headwater.folds.kernel import Chain, node_of
from headwater.folds.sql import Scalar, Sql
from headwater.folds.states import KeptTables, held, with_held
from headwater.state.keys import Bools, Ints
from headwater.state.run import column
from headwater.streams.pipeline import Query
from headwater.streams.queries import Filter, Lift, Map, Rewrite, Window
from headwater.streams.queries_in_time import Mark
from headwater.streams.queries_of_frames import Aggregate, Highest
from headwater.streams.regex import Automaton, Scan, automaton, bits_of
from headwater.streams.schema import Bag, Header, Headers, PartitionBy, Schema, Sync, headers_of
from headwater.streams.shapes import RelationalStep
from headwater.streams.steps import Context, Step


def nodes_of(query: Query) -> Node:
    """The node of a stream's steps: those that can in columns, the others by their transformers."""
    made: Node | None = None
    schema, headers = query.input, query.headers
    for step in query.steps.steps:
        told, told_headers = step.typed(schema, headers, query.context)
        node = _in_columns(step, schema, headers, told, told_headers, query.context)
        if node is None:
            node = node_of(step.transformer(schema, headers, query.context))
        made = node if made is None else Chain(made, node, headers)
        schema, headers = told, told_headers
    assert made is not None
    return made


def _in_columns(
    step: Step, schema: Schema, headers: Headers, told: Schema, gives: Headers, context: Context
) -> Node | None:
    """The step in columns; None where it has functions of Python, or stands where rows have keys of their own."""
    sql = context.evaluator
    if not isinstance(sql, Sql):
        return None
    match step:
        case Window():
            return RowWise({})
        case Filter(condition=str()):
            names = step._names(schema)
            return RowWise({h: Filtered(sql, step.condition, headers[h]) for h in names})  # type: ignore[arg-type]
        case Map(of=of) if all(isinstance(r.how, tuple) for _, r in of):
            return RowWise(
                {h: Mapped(sql, r, headers[h], r.header(headers[h], context)) for h, r in of}
            )
        case Highest(keep="answer") if isinstance(schema, Sync):
            name = step.of or headers_of(schema.sub)[0]
            return HighestOf(schema.headers, headers[name], step.column, sql.session.zone)
        case Aggregate(query=str(), keep="answer", gives=str()) if isinstance(schema, Sync):
            below = {h: headers[h] for h in headers_of(schema.sub)}
            if len(schema.headers) == 1 and below:
                made = gives[str(step.gives)]
                return FrameQuery(sql, step.query, schema.headers, headers, below, made)
        case Lift(step=RelationalStep(query=str(), gives=str()) as inner):
            if (
                isinstance(schema, Sync)
                and schema.sub == step.place(schema)
                and schema.sub != Bag()
            ):
                below = {h: headers[h] for h in headers_of(schema.sub)}
                made, text = gives[str(inner.gives)], inner.query
                return FrameQuery(sql, text, schema.headers, headers, below, made, lifted=True)
        case Mark():
            return _marking(step, schema, headers, gives, sql, ())
        case Lift(step=Mark() as inner):
            at = step.place(schema)
            if isinstance(schema, PartitionBy) and schema.sub == at:
                return _marking(inner, at, headers, gives, sql, schema.keys)
    return None


def _marking(
    step: Mark, schema: Schema, headers: Headers, gives: Headers, sql: Sql, keys: tuple[str, ...]
) -> Node | None:
    pattern = automaton(step.regex)
    texts = all(isinstance(p.condition, str | None) for p in pattern.predicates)
    if not isinstance(schema, Sync) or schema.sub != Bag() or not texts:
        return None
    marks = {h: headers[h] for h in schema.headers}
    return Marked(pattern, marks, gives[step.name], step.keep, sql, keys)


class Columnar(Node):
    """A step in columns."""

    keyed: tuple[tuple[str, ...], Header] | None = None
    """The keys by which it has a state, and a header that has them."""
    bag: Mapping[str, Header] = {}
    """The headers whose rows it keeps until a frame ends."""


# --- rows in their place ----------------------------------------------------------------------------------


class Filtered:
    """The rows for which a condition is true."""

    def __init__(self, sql: Sql, text: str, header: Header):
        self.condition: Scalar = sql.condition(text, header)  # type: ignore[assignment]
        self.zone = sql.session.zone

    def __call__(self, rows: Rows) -> Rows:
        mask = pc.fill_null(self.condition.many(rows.table(self.zone)), False)
        kept = np.flatnonzero(np.asarray(mask))
        return rows if len(kept) == len(rows) else rows.take(kept, rows.of[kept])


class Mapped:
    """Each row as one of other columns."""

    def __init__(self, sql: Sql, rewrite: Rewrite, header: Header, made: Header):
        assert isinstance(rewrite.how, tuple)
        self.cells = [(n, Scalar(sql, text, header)) for n, text in rewrite.how]
        self.made, self.zone = made, sql.session.zone

    def __call__(self, rows: Rows) -> Rows:
        table = rows.table(self.zone)
        new = pa.table({n: cell.many(table) for n, cell in self.cells})
        return Rows(self.made, rows.place, rows.of, table=new)


class RowWise(Columnar):
    """Rows of some headers changed in their place; the others pass."""

    def __init__(self, makes: Mapping[str, Any]):
        self.makes = makes

    def run(self, given: Batch, at: Instances, told: Told) -> Ran:
        for h, rows in given.items():
            make = self.makes.get(h)
            told.add_rows(rows if make is None or not len(rows) else make(rows))
        return Ran([None] * len(at), [None] * len(at))


# --- frames -----------------------------------------------------------------------------------------------


class HighestOf(Columnar):
    """The rows of each frame with the highest value of a column."""

    def __init__(self, marks: Sequence[str], header: Header, name: str, zone: str):
        self.marks, self.header, self.name, self.zone = tuple(marks), header, name, zone

    def run(self, given: Batch, at: Instances, told: Told) -> Ran:
        places = [given[h].place for h in self.marks if h in given]
        marks = np.sort(np.concatenate(places)) if places else np.zeros(0, np.int64)
        (state,) = at.state
        tables, frames = [], []
        if state:
            tables.append(table_of(self.header, state, self.zone))
            frames.append(np.zeros(len(state), np.int64))
        if self.header.name in given and len(given[self.header.name]):
            rows = given[self.header.name]
            tables.append(rows.table(self.zone))
            frames.append(np.searchsorted(marks, rows.place, "left"))
        kept: list[Any] = []
        if tables:
            table = pa.concat_tables([t.select(list(self.header.columns)) for t in tables])
            frame = np.concatenate(frames)
            best = np.flatnonzero(self._highest(column(table, self.name), frame, len(marks) + 1))
            table, frame = table.take(pa.array(best)), frame[best]
            by = [(n, "ascending", "at_start") for n in ("_frame", *self.header.columns)]
            order = pc.sort_indices(table.append_column("_frame", pa.array(frame)), by)
            table, frame = table.take(order), frame[np.asarray(order)]
            closed = int(np.searchsorted(frame, len(marks), "left"))
            zeros = np.zeros(closed, np.int64)
            told.add_rows(
                Rows(self.header, marks[frame[:closed]], zeros, table=table.slice(0, closed))
            )
            rest = table.slice(closed)
            nothing = np.zeros(rest.num_rows, np.int64)
            kept = list(Rows(self.header, nothing, nothing, table=rest).rows)
        goes_on = at.end[0] == GOES_ON
        return Ran([None], [kept if goes_on else None])

    def _highest(self, values: pa.Array, frame: Ints, count: int) -> Bools:
        """Which rows have the greatest value of their frame: NULL never has, and NaN is greater than numbers."""
        there = np.asarray(values.is_valid())
        if pa.types.is_floating(values.type):
            numbers = np.asarray(values.fill_null(-np.inf), np.float64)
        else:
            ranks = pc.rank(values, "ascending", tiebreaker="dense")
            numbers = np.asarray(ranks).astype(np.int64)
        most = np.full(count, -np.inf if numbers.dtype.kind == "f" else 0, numbers.dtype)
        with np.errstate(invalid="ignore"):
            np.maximum.at(most, frame[there], numbers[there])  # NaN wins against all
        mine = most[frame]
        same = (numbers == mine) | ((numbers != numbers) & (mine != mine))
        found: Bools = same & there
        return found


class FrameQuery(Columnar):
    """What a query says of each frame: in the place of its mark, or, lifted, in the place of its rows, and the mark passes."""

    def __init__(
        self,
        sql: Sql,
        text: Any,
        marks: Sequence[str],
        headers: Headers,
        below: Headers,
        made: Header,
        lifted: bool = False,
    ):
        self.sql, self.marks, self.made, self.lifted = sql, tuple(marks), made, lifted
        self.bag = dict(below)
        tables = dict(below)
        if not lifted:
            tables["mark"] = Header("mark", headers[marks[0]].fields)
        self.text, self.tables = text, tables
        sql.asked(text, tables)

    def run(self, given: Batch, at: Instances, told: Told) -> Ran:
        zone, (state,), end = self.sql.session.zone, at.state, int(at.end[0])
        passing = [given[h] for h in self.marks if h in given and len(given[h])]
        places = np.concatenate([np.zeros(0, np.int64), *(r.place for r in passing)])
        marks = np.sort(places)
        asked = len(marks) + (self.lifted and end != GOES_ON)
        tables: dict[str, pa.Table] = {}
        kept: dict[str, list[pa.Table]] = {}
        for h, header in self.bag.items():
            if asked and state is not None:
                was = state.all(h)
                frames = pa.repeat(pa.scalar(0, pa.int64()), was.num_rows)
                tables[h] = was.append_column(INSTANCE, frames)
            if h not in given or not len(given[h]):
                continue
            rows = given[h].table(zone).select(list(header.columns))
            frame = np.searchsorted(marks, given[h].place, "left")
            rows = rows.append_column(INSTANCE, pa.array(frame))
            ends = pa.array(frame < asked)
            here = rows.filter(ends)
            tables[h] = pa.concat_tables([tables[h], here]) if h in tables else here
            kept[h] = [rows.filter(pc.invert(ends)).drop_columns([INSTANCE])]
        if asked:
            if not self.lifted:
                mark = passing[0].table(zone)
                order = np.searchsorted(marks, passing[0].place)
                tables["mark"] = mark.append_column(INSTANCE, pa.array(order))
            self._tell(asked, tables, marks, end, told)
        for r in passing if self.lifted else ():
            told.add_rows(r)
        if end != GOES_ON:
            return Ran([None], [None])
        goes_on = state is not None and not asked
        return Ran([None], [state.with_rows(kept) if goes_on else KeptTables(None, kept)])

    def _tell(
        self, asked: int, tables: Mapping[str, pa.Table], marks: Ints, end: int, told: Told
    ) -> None:
        """Asks the frames that end; the rows of an answer stand in the order of their values."""
        found = self.sql.of_frames(self.text, self.tables, asked, tables)
        names = [INSTANCE, *self.made.columns]
        found = found.rename_columns(names)
        order = pc.sort_indices(found, [(n, "ascending", "at_start") for n in names])
        found = found.take(order)
        frame = instances_of(found)
        ends = np.append(marks, end)
        cells = found.drop_columns([INSTANCE])
        zeros = np.zeros(len(frame), np.int64)
        told.add_rows(Rows(self.made, ends[frame], zeros, table=cells))


# --- patterns ---------------------------------------------------------------------------------------------


class Marked(Columnar):
    """Rows that end a stretch which a pattern matches, as marks; in order for each key."""

    def __init__(
        self,
        pattern: Automaton,
        marks: Headers,
        made: Header,
        keep: bool,
        sql: Sql,
        keys: tuple[str, ...],
    ):
        self.scan, self.marks, self.made, self.keep = Scan(pattern), marks, made, keep
        self.zone, self.keys = sql.session.zone, keys
        if keys:
            self.keyed = keys, next(iter(marks.values()))
        self.tests: dict[str, list[Scalar | bool]] = {
            h: [
                False
                if p.header not in (None, h)
                else True
                if p.condition is None
                else sql.condition(str(p.condition), header)  # type: ignore[misc]
                for p in pattern.predicates
            ]
            for h, header in marks.items()
        }

    def run(self, given: Batch, at: Instances, told: Told) -> Ran:
        mine = [given[h] for h in self.marks if h in given and len(given[h])]
        (state,) = at.state
        if not mine:
            return Ran([None], [state])
        bits = np.concatenate([self._bits(r) for r in mine])
        place = np.concatenate([r.place for r in mine])
        codes, keys = self._codes(mine)
        order = np.lexsort((place, codes))
        counts = np.bincount(codes, minlength=len(keys))
        cuts = np.concatenate(([0], np.cumsum(counts))).tolist()
        states = self._states(state, keys)
        matched, after = self.scan.run_groups(bits[order].tolist(), cuts, states)
        found = np.zeros(len(bits), np.bool_)
        found[order] = matched
        self._tell(mine, found, told)
        goes_on = at.end[0] == GOES_ON
        return Ran([None], [self._kept(state, keys, after) if goes_on else None])

    def _states(self, state: Any, keys: Sequence[Any]) -> list[int]:
        if not self.keys:
            return [Automaton.START if state is None else state]
        if state is None:
            return [Automaton.START] * len(keys)
        return [Automaton.START if s is None else s for s in held(state, keys)]

    def _kept(self, state: Any, keys: Sequence[Any], after: Sequence[int]) -> Any:
        if not self.keys:
            return after[0]
        return with_held(state, dict(zip(keys, after, strict=True)))

    def _codes(self, mine: Sequence[Rows]) -> tuple[Ints, list[Any]]:
        """Which key each row has."""
        if not self.keys:
            return np.zeros(sum(map(len, mine)), np.int64), [()]
        numbers: dict[Any, int] = {}
        out = []
        for r in mine:
            codes, keys = r.keys(self.keys)
            new = np.array([numbers.setdefault(k, len(numbers)) for k in keys], np.int64)
            out.append(new[codes])
        return np.concatenate(out), list(numbers)

    def _bits(self, rows: Rows) -> Any:
        """Which predicates hold of each row."""
        tests = self.tests[rows.header.name]
        columns = []
        for test in tests:
            if isinstance(test, bool):
                holds = np.full(len(rows), test)
            else:
                holds = np.asarray(pc.fill_null(test.many(rows.table(self.zone)), False))
            columns.append(holds)
        return bits_of(columns)

    def _tell(self, mine: Sequence[Rows], found: Bools, told: Told) -> None:
        start, marked = 0, []
        for r in mine:
            hit = found[start : start + len(r)]
            start += len(r)
            passed = np.arange(len(r)) if self.keep else np.flatnonzero(~hit)
            told.add_rows(r if len(passed) == len(r) else r.take(passed, r.of[passed]))
            at = np.flatnonzero(hit)
            if len(at):
                table = r.table(self.zone).select(list(self.made.columns)).take(pa.array(at))
                marked.append(Rows(self.made, r.place[at], r.of[at], table=table))
        if marked:
            told.add_rows(joined(marked))
