"""A fold: one run of a stream, from the rows that came to what they tell.

    candidates = rows that waited ∪ rows that came, as far as anything is closed
    ready      = those of them that nothing can come before (`ready.py`)
    waiting    = waiting ∪ came - ready
    told       = kernel(ready rows in order, states)

What is ready is a prefix of the stream that is meant, so what is told is only added to, and does not depend on how input is
cut into increments, nor on the order in which it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.patterns import ANYTHING, Constant, Punctuations
from headwater.calculus.types import Base
from headwater.engine.change import schema_of
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.membership import matching
from headwater.engine.undisturbed import uncollected
from headwater.engine.view_rows import repeated
from headwater.engine.working import Working
from headwater.errors import StreamError, Ties
from headwater.folds import keeping
from headwater.folds.batch import Rows, Told, row_type
from headwater.folds.clock import Strikes
from headwater.folds.ended import without_ended
from headwater.folds.instances import GOES_ON, Instances, Node
from headwater.folds.pending import add, all_waiting, check_placed, pending_spec, waiting
from headwater.folds.ready import Ordered, codes_of, ready
from headwater.folds.scale import MOST, Numbers, Scale
from headwater.plan.program import WEIGHT
from headwater.state.keys import Bools, Ints
from headwater.state.run import MapSpec, column
from headwater.streams.order import depends
from headwater.streams.schema import Event, Header, Headers, Schema, headers_of
from headwater.streams.transformer import Transformer


@dataclass(frozen=True)
class Beside:
    """What a stream knows beside the state of its steps: numbers of its order."""

    first: Any = None
    """The first row that clocks cut; None as long as one may come in a frame before."""
    last: Any = None
    """The last row that was processed of those that clocks cut."""
    struck: Mapping[str, Any] = field(default_factory=dict)
    """The last strike of each clock."""
    low: Any = None
    """No row that waits is before it."""
    ended: bool = False
    """Whether everything is over, and the closed meaning was told."""

    @property
    def data(self) -> tuple[Any, ...]:
        return self.first, self.last, dict(self.struck), self.low, self.ended


@dataclass
class Gave:
    """What a run gave: rows of each output in the order of the stream, with places, and up to where the stream is run."""

    tables: dict[str, pa.Table]
    places: dict[str, Ints]
    rows: int
    """Rows that were processed."""
    bound: Any
    """What is told from now on belongs to rows and frames from this number on."""
    ended: bool


class Fold:
    """A stream bound to what its steps do."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        headers: Headers,
        transformer: Transformer,
        node: Node,
        order: Mapping[str, str],
        type: Base,
        clocks: Mapping[str, Strikes],
        ties: str,
        zone: str,
        reasons: tuple[str, ...] = (),
        steps: Sequence[tuple[str, str]] = (),
    ):
        """`order` is the order column of each header, of one type; with none, rows are taken as they come."""
        self.name, self.schema, self.headers = name, schema, headers
        self.transformer, self.zone, self.ties = transformer, zone, ties
        self.order, self.clocks, self.reasons = order, clocks, reasons
        self.steps = steps
        """The steps as text, each with the schema that it tells."""
        self.node = node
        self.layout = keeping.Layout(name, self.node, zone)
        self.scale = Scale(type)
        self.inputs = [h for h in headers_of(schema) if h not in clocks]
        self.ordered = Ordered(schema, order, frozenset(clocks))
        self._bound: Any = None
        self.outputs: dict[str, Header] = {
            h: transformer.headers_out[h] for h in headers_of(transformer.output)
        }

    @property
    def by_arrival(self) -> bool:
        """Whether rows are taken as they come."""
        return not self.order

    def pending(self, header: str) -> MapSpec:
        """The map of the rows of a header that wait."""
        row = row_type(self.headers[header])
        return pending_spec(self.name, header, row, self.order.get(header))

    @property
    def specs(self) -> list[MapSpec]:
        """All maps of the stream."""
        waits = [self.pending(h) for h in self.inputs]
        told = [keeping.told_spec(self.name, h) for h in self.outputs.values()]
        return [*self.layout.specs, *waits, *told]

    # --- a run -----------------------------------------------------------------------------------------------

    def run(
        self,
        working: Working,
        came: Mapping[str, pa.Table],
        closed: Mapping[str, Punctuations],
        lasting: frozenset[str],
        version: int,
        spread: Any = None,
        before: Mapping[str, Punctuations] | None = None,
    ) -> Gave | None:
        """Takes rows in and runs what is ready; None if nothing is.

        `lasting` are headers whose rows are never deleted; `spread` runs keys with many rows elsewhere; `before` is
        what was closed at the last run, None where the stream was not bound since: then rows may wait that nobody saw.
        """
        state, data = keeping.load(self.layout, self.node, working)
        beside = Beside() if data is None else Beside(*data)
        if before is None:
            beside = replace(beside, low=None)
        if beside.ended and not any(t.num_rows for t in came.values()):
            return None
        over = all(_all_over(closed.get(h)) for h in self.inputs)
        struck: dict[str, Numbers] = {}
        if self.by_arrival:
            taken = self._arrived(working, came)
            after = replace(beside, ended=over)
        else:
            taken, struck, after = self._taken(working, came, closed, lasting, beside, over)
        something = [*(t.num_rows for t in taken.values()), *map(len, struck.values())]
        if not any(something) and not over:
            state, ended = without_ended(self.node, state, closed, before or {})
            if (
                ended
                or after != beside
                or (data is None and any(t.num_rows for t in came.values()))
            ):
                keeping.save(self.layout, self.node, state, after.data, working)
            if self._bound is None:
                return None
            return Gave({}, {}, 0, self._bound, False)  # nothing is told, and more is closed
        batch, count = self.batch(taken, struck)
        end = count if over else GOES_ON
        told = Told()
        at = Instances([None], [state], np.array([end], np.int64))
        for node in self.layout.spreading:
            node.spread = spread
        with uncollected():
            ran = self.node.run(batch, at, told)
        state, _ = without_ended(self.node, ran.states[0], closed, before or {})
        keeping.save(self.layout, self.node, state, after.data, working)
        gave = self._gave(told, sum(t.num_rows for t in taken.values()), after, over)
        for h, table in gave.tables.items():
            header = self.outputs[h]
            spec = keeping.told_spec(self.name, header)
            keeping.write_told(working, spec, header, table, gave.places[h], version)
        return gave

    def _arrived(self, working: Working, came: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The rows that came, and those that waited until the stream was bound, which wait no more."""
        out = {}
        for h in self.inputs:
            spec, row = self.pending(h), row_type(self.headers[h])
            working.know(spec)
            waited = all_waiting(working.now(spec.name), row)
            add(working, spec, waited, -1)
            new = [t for n, t in came.items() if n == h and t.num_rows]
            for t in new:
                _check_inserted(self.name, h, t)
            out[h] = _present([waited, *new], self.headers[h])
        return out

    def _taken(
        self,
        working: Working,
        came: Mapping[str, pa.Table],
        closed: Mapping[str, Punctuations],
        lasting: frozenset[str],
        beside: Beside,
        over: bool,
    ) -> tuple[dict[str, pa.Table], dict[str, Numbers], Beside]:
        """The rows that are ready, which wait no more, and the strikes of clocks; the others wait."""
        reach = MOST if over else max(self._reaches(closed).values(), default=None)
        rows: dict[str, pa.Table] = {}
        grown: dict[str, pa.Table] = {}
        """The rows that waited, of headers of which none is deleted: what came stands behind them, and nothing is added up."""
        upto = {h: MOST if h in lasting and self._is_free(h) else reach for h in self.inputs}
        for h in self.inputs:
            new = came.get(h)
            check_placed(self.name, h, new, self.order[h], self.scale)
            there = [self._waited(working, h, beside.low, upto[h])] if upto[h] is not None else []
            if new is not None and new.num_rows and upto[h] is not None:
                numbers = self.scale.numbers(column(new, self.order[h]))
                there.append(new.filter(pa.array(numbers <= upto[h])))
            if there and all(map(_only_inserted, [*there, *([] if new is None else [new])])):
                grown[h] = there[0]
                rows[h] = _behind_each_other(there, self.headers[h])
            else:
                rows[h] = _present(there, self.headers[h])
        common = self._common(closed, self.inputs)
        first = self._first(rows, closed, lasting, beside)
        strikes = self._strikes(rows, closed, first, beside, over)
        for h, numbers in strikes.items():
            rows[h] = pa.table({self.order[h]: self.scale.values(numbers)})
        unsettled = self.clocks and first is None
        held = frozenset(h for h in self.inputs if unsettled and self._struck(h))
        masks = ready(self.ordered, rows, closed, lasting, self.scale, held)
        taken: dict[str, pa.Table] = {}
        left: list[Any] = []
        for h in self.inputs:
            mask = masks[h]
            taken[h] = rows[h].filter(pa.array(mask))
            if h in grown:
                self._cut(working, h, grown[h], came.get(h), mask, upto[h])
            else:
                self._let_wait(working, h, came.get(h), taken[h])
            left += self._least({h: rows[h].filter(pa.array(~mask))})
            left += self._beyond(came.get(h), h, upto[h])
        struck = {h: numbers[masks[h]] for h, numbers in strikes.items()}
        done = {**beside.struck, **{h: n[-1].item() for h, n in struck.items() if len(n)}}
        last = max(self._known(beside.last, self._greatest(self._framed(taken))), default=None)
        low = self._low(beside, left, reach)
        self._bound = self._told_up_to(done, common, low)
        return taken, struck, Beside(first, last, done, low, over)

    def _low(self, beside: Beside, left: Sequence[Any], reach: Any) -> Any:
        """Before which no row waits: the first that was seen and was not ready, or what was not looked at."""
        if reach is None:  # nothing was looked at but what came
            return None if beside.low is None else min([beside.low, *left])
        return min([*left, reach])

    def _told_up_to(self, struck: Mapping[str, Any], common: Any, low: Any) -> Any:
        """Before which nothing is told any more: the last strikes; and of headers that no clock cuts, what is taken."""
        bounds: list[Any] = [struck.get(h) for h in self.clocks]
        if not all(self._struck(h, of_all=True) for h in self.inputs):
            bounds += [common, low]
        return None if None in bounds else min(bounds, default=None)

    def _is_free(self, header: str) -> bool:
        """Whether rows of a header wait for none but clocks."""
        return all(depends(self.schema, header, h) is None for h in self.inputs)

    def _struck(self, header: str, of_all: bool = False) -> bool:
        """Whether some clock, or each one, cuts the rows of a header into frames."""
        cut = [depends(self.schema, header, clock) is not None for clock in self.clocks]
        return all(cut) and bool(cut) if of_all else any(cut)

    def _known(self, one: Any, more: Sequence[Any]) -> list[Any]:
        return [*([] if one is None else [one]), *more]

    def _reaches(self, closed: Mapping[str, Punctuations]) -> dict[str, Any]:
        """Up to where anything of each header is closed; headers of which nothing is are left out."""
        out = {}
        for h in self.inputs:
            found = []
            for p in closed.get(h, Punctuations.NONE):
                if any(q == Constant(None) for _, q in p.columns):
                    continue  # of a source there are no such rows; of a view they wait for the others
                at = p.at(self.order[h])
                bound = (MOST, True) if at == ANYTHING else self.scale.bound(at)
                if bound is not None:
                    found.append(self.scale.limit(bound[0]))
            if found:
                out[h] = max(found)
        return out

    def _common(self, closed: Mapping[str, Punctuations], headers: Sequence[str]) -> Any:
        """Up to where headers are closed, for all keys; None if some are not."""
        by_order = {}
        for h in headers:
            whole = [p for p in closed.get(h, Punctuations.NONE) if set(p.shape) <= {self.order[h]}]
            by_order[h] = Punctuations(whole)
        found = self._reaches(by_order)
        return min(found.values()) if found and len(found) == len(headers) else None

    def _framed(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The rows that clocks cut into frames; of clocks that cut nothing, all."""
        cut = [h for h in self.inputs if self._struck(h)] or self.inputs
        return {h: tables[h] for h in cut}

    def _first(
        self,
        rows: Mapping[str, pa.Table],
        closed: Mapping[str, Punctuations],
        lasting: frozenset[str],
        beside: Beside,
    ) -> Any:
        """The first row that stays, behind which clocks strike, once nothing can come in a frame before its own."""
        cut = self._framed(rows)
        common = self._common(closed, list(cut))
        if beside.first is not None or not self.clocks or common is None:
            return beside.first
        stay = {
            h: t if h in lasting else t.filter(pa.array(matching(closed[h], t)))
            for h, t in cut.items()
        }
        first = min(self._least(stay), default=None)
        if first is None or common > first:
            return first
        earlier = any(clock.next(common) <= first for clock in self.clocks.values())
        return None if earlier else first

    def _waited(self, working: Working, header: str, low: Any, reach: Any) -> pa.Table:
        spec = self.pending(header)
        working.know(spec)
        high = None if reach == MOST else reach
        row = row_type(self.headers[header])
        return waiting(working.now(spec.name), row, low, high, self.scale)

    def _let_wait(
        self, working: Working, header: str, new: pa.Table | None, taken: pa.Table
    ) -> None:
        """What came waits, but for what was taken; what was taken waits no more."""
        parts = [] if new is None or not new.num_rows else [new]
        if taken.num_rows:
            parts.append(_negated(taken))
        if parts:
            names = parts[0].column_names
            change = consolidated(pa.concat_tables([p.select(names) for p in parts]))
            add(working, self.pending(header), change)

    def _cut(
        self,
        working: Working,
        header: str,
        waited: pa.Table,
        new: pa.Table | None,
        taken: Bools,
        upto: Any,
    ) -> None:
        """What waited and is taken waits no more; what came and is not taken waits."""
        gone = waited.filter(pa.array(taken[: waited.num_rows]))
        parts = [_negated(gone)] if gone.num_rows else []
        if new is not None and new.num_rows:
            waits = self.scale.numbers(column(new, self.order[header])) > upto
            waits[~waits] = ~taken[waited.num_rows :]
            parts.append(new.filter(pa.array(waits)))
        add(working, self.pending(header), _behind_each_other(parts, self.headers[header]))

    def _least(self, rows: Mapping[str, pa.Table]) -> list[Any]:
        return [
            self.scale.numbers(column(t, self.order[h])).min().item()
            for h, t in rows.items()
            if t.num_rows
        ]

    def _greatest(self, rows: Mapping[str, pa.Table]) -> list[Any]:
        return [
            self.scale.numbers(column(t, self.order[h])).max().item()
            for h, t in rows.items()
            if t.num_rows
        ]

    def _beyond(self, new: pa.Table | None, header: str, reach: Any) -> list[Any]:
        """The first of the rows that came and were not looked at."""
        if new is None or not new.num_rows:
            return []
        numbers = self.scale.numbers(column(new, self.order[header]))
        rest = numbers if reach is None else numbers[numbers > reach]
        return [rest.min().item()] if len(rest) else []

    def _strikes(
        self,
        rows: Mapping[str, pa.Table],
        closed: Mapping[str, Punctuations],
        first: Any,
        beside: Beside,
        over: bool,
    ) -> dict[str, Numbers]:
        """The times at which clocks may strike: behind the first row, as far as what they cut is closed or rows are there.

        Rows behind a strike that is not ready wait for it, so that strikes up to the last row are among them. When
        everything is over, the last frame is that of the last row.
        """
        if first is None:
            return {h: np.zeros(0, np.int64) for h in self.clocks}
        out: dict[str, Numbers] = {}
        for h, clock in self.clocks.items():
            after = beside.struck.get(h, first)
            if over:
                last = self._known(beside.last, self._greatest(self._framed(rows)))
                upto = clock.next(max(last, default=first))
            else:
                cut = [g for g in self.inputs if depends(self.schema, h, g) is not None]
                common = self._common(closed, cut)
                if common is None or common >= MOST:
                    common = self._common(closed, self.inputs)
                there = self._greatest({g: rows[g] for g in cut})
                upto = max(self._known(common, there), default=after)
            out[h] = clock.strikes(after, upto)
        return out

    # --- order ------------------------------------------------------------------------------------------------

    def batch(
        self, taken: Mapping[str, pa.Table], struck: Mapping[str, Numbers]
    ) -> tuple[dict[str, Rows], int]:
        """Rows and strikes with their places in the stream, and how many there are."""
        ranks = self.ordered.ranks() if not self.by_arrival else {}
        tables, numbers, headers = [], [], []
        for h, t in taken.items():
            if not t.num_rows:
                continue
            table = repeated(t)
            if self.by_arrival:
                by = [(n, "ascending", "at_start") for n in table.column_names]
                table = table.take(pc.sort_indices(table, by))
                numbers.append(np.zeros(table.num_rows, np.int64))
            else:
                table = self._in_order(h, table)
                numbers.append(self.scale.numbers(column(table, self.order[h])))
            tables.append(table)
            headers.append(h)
        for h, n in struck.items():
            if len(n):
                tables.append(pa.table({self.order[h]: self.scale.values(n)}))
                numbers.append(n)
                headers.append(h)
        if not headers:
            return {}, 0
        rank = np.concatenate(
            [
                np.full(len(n), ranks.get(h, i))
                for i, (h, n) in enumerate(zip(headers, numbers, strict=True))
            ]
        )
        at = np.concatenate(numbers)
        order = np.lexsort((rank, at)) if len(headers) > 1 else np.arange(len(at))
        place = np.empty(len(at), np.int64)
        place[order] = np.arange(len(at))
        out, start = {}, 0
        for h, t, n in zip(headers, tables, numbers, strict=True):
            mine = place[start : start + len(n)]
            zeros = np.zeros(len(n), np.int64)
            out[h] = Rows(self.headers[h], mine, zeros, table=t)
            start += len(n)
        return out, len(at)

    def _in_order(self, header: str, table: pa.Table) -> pa.Table:
        """Rows of a header by their order; those that are equal in it and depend on each other by the row itself."""
        keys = depends(self.schema, header, header)
        numbers = self.scale.numbers(column(table, self.order[header]))
        order = np.argsort(numbers, kind="stable")
        n = numbers[order]
        at_once = _with_neighbours(n[1:] == n[:-1])
        if keys is not None and at_once.any():
            order[at_once] = self._untied(header, table, keys, order[at_once])
        return table if (np.diff(order) == 1).all() else table.take(pa.array(order))

    def _untied(self, header: str, table: pa.Table, keys: Sequence[str], rows: Ints) -> Ints:
        """Rows that are equal in their order with others: by it, by key, and those of one key by the row itself."""
        numbers = self.scale.numbers(column(table, self.order[header]))[rows]
        codes = codes_of(table.take(pa.array(rows)), keys)
        order = np.lexsort((codes, numbers))
        rows, n, c = rows[order], numbers[order], codes[order]
        same = _with_neighbours((n[1:] == n[:-1]) & (c[1:] == c[:-1]))
        if same.any():
            tied = rows[same]
            if self.ties == "error":
                raise self._tied(header, table, tied)
            part = table.take(pa.array(tied))
            part = part.append_column("_n", pa.array(n[same])).append_column(
                "_c", pa.array(c[same])
            )
            by = ["_n", "_c", *table.column_names]
            placed = pc.sort_indices(part, [(k, "ascending", "at_start") for k in by])
            rows[same] = tied[np.asarray(placed)]
        return rows

    def _tied(self, header: str, table: pa.Table, tied: Ints) -> Ties:
        a, b = table.take(pa.array(tied[:2])).to_pylist()
        return Ties(
            f"two rows of `{header}` have the same `{self.order[header]}`, and their order matters to `{self.name}`: {a} and {b}",
            hint="nothing was applied; with ties='row' they are taken by their columns, one after the other",
        )

    # --- what is told -----------------------------------------------------------------------------------------

    def _gave(self, told: Told, rows: int, after: Beside, over: bool) -> Gave:
        """What was told, as tables in the order of the stream."""
        batch, _ = told.in_order(self.outputs)
        tables = {name: r.table(self.zone) for name, r in batch.items()}
        made = {name: r.place for name, r in batch.items()}
        return Gave(tables, made, rows, self._bound, over)


def _all_over(closed: Punctuations | None) -> bool:
    return closed is not None and closed == Punctuations.EVERYTHING


def _present(parts: Sequence[pa.Table], header: Header) -> pa.Table:
    """Rows that are there, from those that waited and those that came."""
    table = _behind_each_other(parts, header)
    if sum(p.num_rows > 0 for p in parts) > 1:
        table = consolidated(table)
    positive = np.asarray(column(table, WEIGHT)) > 0
    return table if positive.all() else table.filter(pa.array(positive))


def _behind_each_other(parts: Sequence[pa.Table], header: Header) -> pa.Table:
    """Rows of several tables with weights, as they are."""
    schema = schema_of(row_type(header))
    cast = [p.select(schema.names).cast(schema) for p in parts if p.num_rows]
    return pa.concat_tables([schema.empty_table(), *cast])


def _with_neighbours(equal: Bools) -> Bools:
    """Which of some values in order are equal to one beside them, from whether each is equal to the next."""
    out = np.zeros(len(equal) + 1, np.bool_)
    out[1:] |= equal
    out[:-1] |= equal
    return out


def _only_inserted(rows: pa.Table) -> bool:
    return bool((np.asarray(column(rows, WEIGHT)) > 0).all())


def _negated(rows: pa.Table) -> pa.Table:
    """The same rows with the opposite weights."""
    place = rows.schema.get_field_index(WEIGHT)
    return rows.set_column(place, WEIGHT, pc.negate(column(rows, WEIGHT)))


def _check_inserted(stream: str, header: str, table: pa.Table) -> None:
    """Raises where a row is deleted that a stream has taken as it came."""
    gone = pc.less(column(table, WEIGHT), 0)
    if pc.any(gone).as_py():
        row = table.filter(gone).slice(0, 1).drop_columns([WEIGHT]).to_pylist()[0]
        raise StreamError(
            f"a row of `{header}` is deleted, which the stream `{stream}` has taken as it came: {row}",
            hint="nothing was applied; a stream by arrival keeps what it told: give it an order column, or delete nothing",
        )


def events_of(tables: Mapping[str, pa.Table], headers: Headers) -> list[Event]:
    """Rows of tables with `_place`, as events in order."""
    found = []
    for name, table in tables.items():
        places = np.asarray(column(table, keeping.PLACE)).tolist()
        versions = np.asarray(column(table, keeping.VERSION)).tolist()
        rows = Rows(headers[name], np.zeros(0, np.int64), np.zeros(0, np.int64), table=table).rows
        found += list(zip(versions, places, [name] * len(places), rows, strict=True))
    found.sort(key=lambda f: f[:2])
    return [Event(name, row) for _, _, name, row in found]
