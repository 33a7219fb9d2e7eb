"""Stages row by row: linear in weights, so that what is deleted in front of them is deleted behind them.

    f(a + b) = f(a) + f(b),    f(n · row) = n · f(row)

With `remember` what a row gave is kept, and that very thing is taken back: for chance, costly calls, look-ups that change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.dataflow import maps
from headwater.dataflow.call import Call, Made, framed, nothing_named
from headwater.dataflow.calling import Failed
from headwater.dataflow.maps import COUNT, entries, keyed
from headwater.dataflow.rows import row_class, rows_of, values_of, weights_of
from headwater.errors import StageError
from headwater.state.arrangement import INDEX
from headwater.state.run import column


class RowWise(Call):
    """f is linear: what it gives for a row counts as often as the row."""

    def run(self, tables: Mapping[str, pa.Table]) -> Made:
        (given,) = self.stage.inputs
        table = tables[given.name]
        rows = list(map(row_class(given.columns), rows_of(table, given.columns)))
        framed(rows, table, self.context.frames.get(given.name))
        if self.stage.remember:
            self._remembered(table, rows)
            self.tables(lambda i: Failed(ValueError(), None, rows[i]))
            return self.made
        self._all(rows, weights_of(table), self._named(table, rows, list(range(len(rows)))))
        self._end(len(rows), rows.__getitem__)
        return self.made

    def _end(self, count: int, row: Callable[[int], Any]) -> None:
        """What all rows gave, as tables; `row` gives the row of a call."""
        name = self.stage.inputs[0].name
        self.finish(
            lambda: self.tables(lambda i: Failed(ValueError(), None, row(i))),
            count,
            lambda i: None,
            lambda i: (None, [(name, row(i))]),
        )

    def run_plain(self, values: list[Any], weights: list[int]) -> Made:
        """The same for rows that another stage gave just now; equal ones need not be added up, for f is linear."""
        made = row_class(self.stage.inputs[0].columns)
        if self.stage.on_error == "set aside":
            self._all(list(map(made, values)), weights, nothing_named)
        else:  # a row is there for as long as its call
            self._each(map(made, values), weights, lambda i: made(values[i]))
        self._end(len(values), lambda i: made(values[i]))
        return self.made

    def _all(
        self, rows: list[Any], weights: list[int], named: Callable[[int], dict[str, Any]]
    ) -> None:
        """Calls the function for each row."""
        if named is nothing_named and self.stage.on_error != "set aside":
            self._each(rows, weights, rows.__getitem__)
            return
        for i, (row, n) in enumerate(zip(rows, weights, strict=True)):
            self.call(i, row, n, named)

    def _each(self, rows: Iterable[Any], weights: list[int], row: Callable[[int], Any]) -> None:
        """Calls the function for each row, with nothing beside it; what it gives stays as it is where that can be."""
        results, done = list[Any](), None
        try:
            results.extend(map(self.stage.f, rows))  # those before one that fails stay
            if self._one_each(results, weights):
                return
            for done, result in enumerate(results):
                self.gave(done, result, weights[done])
        except Exception as e:  # what a user wrote may raise anything
            raise Failed(e, None, row(len(results) if done is None else done)) from e

    def _one_each(self, results: list[Any], weights: list[int]) -> bool:
        """Whether each row gave one row, as those of a plain map do; they are noted all at once then."""
        one = self.stage.single
        kinds = set(map(type, results))
        if one is None or not all(issubclass(k, tuple) for k in kinds):
            return False
        if set(map(len, results)) - {self.width}:
            return False
        self.values[one], self.weights[one], self.of[one] = results, weights, range(len(results))
        return True

    def _named(
        self, table: pa.Table, rows: list[Any], these: list[int]
    ) -> Callable[[int], dict[str, Any]]:
        """What calls are given by name: look-ups of some rows, all at once."""
        s, found = self.stage, dict[str, list[list[Any]]]()
        for name, look in s.lookups.items():
            if name in s.takes:
                assert self.context.look_up is not None
                some = table.take(pa.array(these, pa.int64()))
                arrays = [column(some, a) for a, _ in look.on or ()]
                found[name] = self.context.look_up(name, arrays, len(these))
        places = {r: i for i, r in enumerate(these)}

        def named(row: int) -> dict[str, Any]:
            out: dict[str, Any] = {n: some[places[row]] for n, some in found.items()}
            if "epoch" in s.takes:
                out["epoch"] = self.epoch(rows[row])
            return out

        return named if found or "epoch" in s.takes else nothing_named

    def call(self, i: int, row: Any, n: int, named: Callable[[int], dict[str, Any]]) -> None:
        f, name = self.stage.f, self.stage.inputs[0].name
        self.called(i, lambda: f(row, **named(i)), n, None, lambda: [(name, row)])

    def _remembered(self, table: pa.Table, rows: list[Any]) -> None:
        """Rows that are there already gave what is kept of them; others are called, and kept."""
        s, spec = self.stage, maps.remembered_spec(self.stage)
        arrays = [column(table, n) for n in s.inputs[0].columns]
        found = self.context.arrangement(spec).lookup(keyed(spec, arrays, len(rows)))
        index = np.asarray(column(found, INDEX)).tolist()
        had = dict(zip(index, values_of(found.column("n")), strict=True))
        kept = [
            dict(zip(index, found.column(f"v{o}").to_pylist(), strict=True))
            for o in range(len(s.outputs))
        ]
        weights = weights_of(table)
        named = self._named(table, rows, [i for i in range(len(rows)) if i not in had])
        counts: list[int] = []
        gave: list[list[Any]] = [[] for _ in s.outputs]
        for i, (row, n) in enumerate(zip(rows, weights, strict=True)):
            left = had.get(i, 0) + n
            if left < 0:
                raise Failed(StageError(f"{row!r} is taken back, and was not given"), None, row)
            if i in had:
                for o, output in enumerate(s.outputs):
                    for item in kept[o][i] or ():
                        *values, w = item.values()
                        self.values[output].append(tuple(values))
                        self.weights[output].append(w * n)
                        self.of[output].append(i)
                    gave[o].append(kept[o][i])
            else:
                starts = {o: len(v) for o, v in self.values.items()}
                self.call(i, row, 1, named)
                for o, output in enumerate(s.outputs):
                    at = starts[output]
                    mine = list(
                        zip(self.values[output][at:], self.weights[output][at:], strict=True)
                    )
                    gave[o].append(
                        [{**{f"c{j}": x for j, x in enumerate(v)}, "w": w} for v, w in mine]
                    )
                    self.weights[output][at:] = [w * n for _, w in mine]
            counts.append(left)
        there = pa.array([int(c > 0) for c in counts], pa.int64())
        columns: dict[str, Any] = {f"k{j}": a for j, a in enumerate(arrays)}
        columns[COUNT], columns["n"] = there, pa.array(counts, pa.int64())
        for o, output in enumerate(s.outputs):
            columns[f"v{o}"] = self._given(
                output, [g if c else None for g, c in zip(gave[o], counts, strict=True)], rows
            )
        self.made.add(spec, entries(spec, columns, len(rows)))

    def _given(self, output: str, gave: list[Any], rows: list[Any]) -> pa.Array:
        """What rows gave for an output, as values that are kept."""
        row = self.stage.outputs[output]
        flat = [
            tuple(item[f"c{j}"] for j in range(len(row.fields))) for g in gave for item in g or ()
        ]
        of = [i for i, g in enumerate(gave) for _ in g or ()]
        arrays = self.converted(
            output, row, flat, lambda i: Failed(ValueError(), None, rows[of[i]])
        )
        weights = pa.array([item["w"] for g in gave for item in g or ()], pa.int64())
        fields = [pa.field(f"c{j}", a.type) for j, a in enumerate(arrays)]
        values = pa.StructArray.from_arrays(
            [*arrays, weights], fields=[*fields, pa.field("w", pa.int64())]
        )
        offsets = np.concatenate(([0], np.cumsum([len(g or ()) for g in gave]))).astype(np.int64)
        mask = pa.array([g is None for g in gave], pa.bool_())
        return pa.LargeListArray.from_arrays(pa.array(offsets), values, mask=mask).cast(
            maps.given_type(row)
        )
