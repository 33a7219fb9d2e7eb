"""The calls of an epoch: what they see beside rows, what they gave, and in which types; shared by all kinds of stages.

Nothing here commits, schedules or reads queues, so that an epoch is computed the same way in this process and in a task
that has a share of the groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from operator import itemgetter
from types import GeneratorType, NoneType
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    SMALLINT,
    STRING,
    TINYINT,
    KeyType,
    RecordType,
)
from headwater.dataflow.calling import Epoch, Failed, given_by
from headwater.dataflow.define import Stage, arrow_schema
from headwater.errors import HeadwaterError, StageError
from headwater.io.values import converted
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import Arrangement
from headwater.state.run import LEAST, MOST, MapSpec, RunRef, column

FRAME = "_frame"
"""The column of a framed input's rows that numbers the frames that were read."""


@dataclass(frozen=True)
class Context:
    """What an epoch sees beside its rows: the maps, its number, the clock before it, keys of frames, look-ups."""

    arrangement: Callable[[MapSpec], Arrangement]
    number: int
    clock: Any = None
    swept: Any = None
    """The clock when state that had expired was last taken away."""
    frames: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    look_up: Callable[[str, list[pa.Array], int], list[list[Any]]] | None = None
    """The rows of a look-up for each of some keys, which are given by column."""
    zone: str = "UTC"
    passes: frozenset[str] = frozenset()
    """Outputs that go straight to a stage that takes row by row."""
    low: int = LEAST
    high: int = MOST
    """The hashes of the groups that are called beside those of the rows."""


@dataclass
class Made:
    """What an epoch gives: rows of outputs with `_w`, new entries by map, punctuations, and the clock."""

    outputs: dict[str, pa.Table]
    entries: dict[str, list[tuple[MapSpec, pa.Table]]]
    points: dict[str, Any]
    clock: Any = None
    swept: Any = None
    aside: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Rows of calls that failed, where they are set aside: the input, the key, the row, the error."""

    foreign: list[tuple[MapSpec, pa.Table]] = field(default_factory=list)
    """Records that were written for groups of other parts: they are put in place last, once they are seen together."""
    stored: dict[str, list[RunRef]] = field(default_factory=dict)
    """Runs that tasks have written, by map."""
    files: list[str] = field(default_factory=list)
    """Staged files that the rows of outputs are in; gone once they are committed."""
    plain: dict[str, tuple[list[Any], list[int]]] = field(default_factory=dict)
    """Values and weights of outputs that go straight to another stage, where no value needs to be converted."""

    def settle(self, stage: Stage, zone: str) -> None:
        """Plain rows as tables, after all."""
        for o, (values, weights) in self.plain.items():
            row = stage.outputs[o]
            names = [n for n, _ in row.fields]
            columns = {n: list(map(itemgetter(i), values)) for i, n in enumerate(names)}
            table = converted(o, row, columns, zone, False)
            self.outputs[o] = table.append_column(WEIGHT, pa.array(weights, pa.int64()))
        self.plain = {}

    def add(self, spec: MapSpec, table: pa.Table) -> None:
        if table.num_rows:
            self.entries.setdefault(spec.name, []).append((spec, table))


class Call(ABC):
    """What all kinds share: calls, and what they gave."""

    def __init__(self, stage: Stage, context: Context):
        self.stage, self.context = stage, context
        self.made = Made({}, {}, {}, context.clock, context.swept)
        self.values: dict[str, list[tuple[Any, ...]]] = {o: [] for o in stage.outputs}
        self.weights: dict[str, list[int]] = {o: [] for o in stage.outputs}
        self.of: dict[str, Any] = {o: [] for o in stage.outputs}
        """Of which call each row is: a list, or a range where each call gave one."""
        self.width = -1 if stage.single is None else len(stage.outputs[stage.single].fields)
        self.widths = {o: len(row.fields) for o, row in stage.outputs.items()}
        self.single = stage.key is not None and len(stage.key.fields) == 1

    @abstractmethod
    def run(self, tables: Mapping[str, pa.Table]) -> Made:
        """The epoch, over the rows of each input."""

    def shown(self, key: tuple[Any, ...]) -> Any:
        """A key as functions get it."""
        return key[0] if self.single else key

    def gave(self, call: int, result: Any, times: int = 1) -> None:
        """Notes what a call gave."""
        if result is None:
            return
        one = self.stage.single
        if one is not None and isinstance(result, tuple) and len(result) == self.width:
            self.values[one].append(result)  # what most functions give: one row
            self.weights[one].append(times)
            self.of[one].append(call)
            return
        if type(result) is not list and type(result) is not GeneratorType:
            self._noted(call, result, times)
            return
        values, weights, of, widths = self.values, self.weights, self.of, self.widths
        output = one or ""
        for item in result:
            row = item
            if one is None:  # pairs of an output and a row
                plain = type(item) is tuple and len(item) == 2 and type(item[0]) is str
                output, row = item if plain else ("", None)
            if isinstance(row, tuple) and len(row) == widths.get(output, -1):
                values[output].append(row)  # a row that is whole, as most are
                weights[output].append(times)
                of[output].append(call)
            else:
                self._noted(call, [item], times)

    def _noted(self, call: int, result: Any, times: int) -> None:
        """Notes what was given in any of the ways that there are."""
        for output, values, weight in given_by(self.stage, result, self.made.points):
            self.values[output].append(values)
            self.weights[output].append(weight * times)
            self.of[output].append(call)

    def called(
        self,
        call: int,
        make: Callable[[], Any],
        times: int,
        key: Any,
        rows: Callable[[], list[Any]],
    ) -> bool:
        """Makes a call and notes what it gave; one that fails is raised, or its rows are set aside."""
        aside = self.stage.on_error == "set aside"
        had = {o: len(v) for o, v in self.values.items()} if aside else {}
        points = dict(self.made.points) if aside else {}
        try:
            self.gave(call, make(), times)
            return True
        except Exception as e:  # what a user wrote may raise anything
            given = rows()
            if not aside:
                raise Failed(e, key, next((r for _, r in given), None)) from e
            for o, n in had.items():
                del self.values[o][n:], self.weights[o][n:], self.of[o][n:]
            self.made.points = points
            self._aside(key, given, Failed(e))
            return False

    def _aside(self, key: Any, rows: list[Any], why: Failed) -> None:
        self.made.aside += [(i, repr(key), repr(r), why.told) for i, r in rows]

    def finish(
        self,
        act: Callable[[], None],
        calls: int,
        fits: Callable[[int], None],
        given: Callable[[int], tuple[Any, list[Any]]],
    ) -> None:
        """Ends an epoch by `act`. Where that fails, and calls are set aside, those that gave what does not fit are.

        `fits` raises for such a call; `given` says the key and the rows of one that is set aside.
        """
        if self.stage.on_error != "set aside":
            act()
            return
        made = self.made
        before = {n: list(pieces) for n, pieces in made.entries.items()}, list(made.foreign)
        try:
            act()
            return
        except Failed:
            made.entries, made.foreign = before
            made.outputs, made.plain = {}, {}
            bad = self._unfit(calls, fits)
            if not bad:
                raise
        for call, why in bad.items():
            self._aside(*given(call), why)
        for o, of in self.of.items():
            kept = [i for i, call in enumerate(of) if call not in bad]
            self.values[o] = [self.values[o][i] for i in kept]
            self.weights[o] = [self.weights[o][i] for i in kept]
            self.of[o] = [of[i] for i in kept]
        act()

    def _unfit(self, calls: int, fits: Callable[[int], None]) -> dict[int, Failed]:
        """The calls that gave what does not fit, each looked at by itself."""
        out: dict[int, Failed] = {}
        for o, row in self.stage.outputs.items():
            for values, call in zip(self.values[o], self.of[o], strict=True):
                try:
                    self.converted(o, row, [values], lambda i: Failed(ValueError()))
                except Failed as e:
                    out.setdefault(call, e)
        for call in range(calls):
            try:
                fits(call)
            except Failed as e:
                out.setdefault(call, e)
        return out

    def converted(
        self,
        name: str,
        row: RecordType,
        values: Sequence[tuple[Any, ...]],
        where: Callable[[int], Failed],
    ) -> list[pa.Array]:
        """Values in the types of their columns; `where` says of which call the one is that does not fit."""
        names = [n for n, _ in row.fields]
        columns = {n: list(map(itemgetter(i), values)) for i, n in enumerate(names)}
        try:
            table = converted(name, row, columns, self.context.zone, False)
        except HeadwaterError as e:
            raise self._first_unfit(name, row, values, where, e) from e
        return [column(table, n) for n in names]

    def _first_unfit(
        self,
        name: str,
        row: RecordType,
        values: Sequence[tuple[Any, ...]],
        where: Any,
        e: HeadwaterError,
    ) -> Failed:
        names = [n for n, _ in row.fields]
        for i, v in enumerate(values):
            try:
                converted(
                    name,
                    row,
                    {n: [x] for n, x in zip(names, v, strict=True)},
                    self.context.zone,
                    False,
                )
            except HeadwaterError as found:
                failed: Failed = where(i)
                what = found.what.partition(": ")[2] or found.what
                hint = found.hint.partition("; apply(")[0]  # a stage has no such word
                failed.why = StageError(f"`{self.stage.name}` gave for `{name}`: {what}", hint=hint)
                return failed
        return Failed(e)

    def tables(self, where: Callable[[int], Failed], passes: bool = True) -> None:
        """What all calls gave, as tables; where `passes` says so, plain rows go to the stage behind without one."""
        for o, row in self.stage.outputs.items():
            if passes and o in self.context.passes and are_plain(row, self.values[o]):
                self.made.plain[o] = self.values[o], self.weights[o]
            else:
                self.made.outputs[o] = self._table(o, row, where)

    def _table(self, output: str, row: RecordType, where: Callable[[int], Failed]) -> pa.Table:
        of = self.of[output]
        arrays = self.converted(output, row, self.values[output], lambda i: where(of[i]))
        weights = pa.array(self.weights[output], pa.int64())
        schema = arrow_schema(row).append(pa.field(WEIGHT, pa.int64()))
        return pa.table([*arrays, weights], schema=schema)

    def epoch(self, key: Any) -> Epoch:
        return Epoch(self.stage.name, self.context.number, key)


_WHOLE: dict[KeyType, int] = {TINYINT: 7, SMALLINT: 15, INTEGER: 31, BIGINT: 63}
"""Types of whole numbers, and how many bits they have beside the sign."""
_PLAIN: dict[KeyType, type] = {
    **dict.fromkeys(_WHOLE, int),
    STRING: str,
    BOOLEAN: bool,
    DATE: date,
    DOUBLE: float,
}
"""Types whose values are what Python's are, if those are of this very type."""


def are_plain(row: RecordType, values: Sequence[tuple[Any, ...]]) -> bool:
    """Whether values are those that their columns would have: NULL, or of the very type and in the form that it has."""
    if not values:
        return True
    for place, (_, t) in enumerate(row.fields):
        kind = _PLAIN.get(t)
        if kind is None:
            return False
        # Turning rows into columns at once is slower by far.
        held = list(map(itemgetter(place), values))
        kinds = set(map(type, held))
        if kinds != {kind}:
            if not kinds <= {kind, NoneType}:
                return False
            held = [v for v in held if v is not None]
        if held and not (_fit(held, t) if t in _WHOLE else t != DOUBLE or _one_form(held)):
            return False
    return True


def _fit(held: list[int], t: KeyType) -> bool:
    """Whether whole numbers have room in a type."""
    bits = _WHOLE[t]
    return -(1 << bits) <= min(held) and max(held) < 1 << bits


def _one_form(held: list[float]) -> bool:
    """Whether no double is one that a row has in one form: NaN, and the zero below zero."""
    found = np.array(held)
    return not (np.isnan(found).any() or np.signbit(found[found == 0]).any())


def nothing_named(row: int) -> dict[str, Any]:
    return {}


def framed(rows: list[Any], table: pa.Table, frames: Sequence[Any] | None) -> None:
    """Rows of a framed input know the key of their frame."""
    if frames is None:
        return
    for row, i in zip(rows, np.asarray(column(table, FRAME)).tolist(), strict=True):
        row._frame = frames[i]


def empty_outputs(stage: Stage) -> dict[str, pa.Table]:
    """No rows of any output."""
    out = {}
    for o, row in stage.outputs.items():
        out[o] = arrow_schema(row).append(pa.field(WEIGHT, pa.int64())).empty_table()
    return out
