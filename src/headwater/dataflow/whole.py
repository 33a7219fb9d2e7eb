"""Stages that are whole: all rows of a group are kept, and its answers are computed again when it is touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.calculus.types import RecordType
from headwater.dataflow import maps
from headwater.dataflow.call import Made
from headwater.dataflow.calling import Failed
from headwater.dataflow.define import Input
from headwater.dataflow.groups import Groups, Keyed
from headwater.dataflow.maps import COUNT, entries, keyed
from headwater.dataflow.rows import row_class, rows_of
from headwater.errors import StageError
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import INDEX
from headwater.state.keys import Ints, all_parts, canonical, grouped
from headwater.state.run import column


class Whole(Keyed):
    """All rows of the groups that are touched, again: old answers out, new ones in."""

    def run(self, tables: Mapping[str, pa.Table]) -> Made:
        s = self.stage
        groups = self.groups(tables)
        n = groups.count
        for i in s.inputs:
            self._all_rows(groups, i)
        named = self.named(groups)
        for g in range(n):
            args = [groups.of(i.name, g) for i in s.inputs]
            if any(args):
                self.call(groups, g, args, named(g))
        self.finish(
            lambda: self.tables(self.where(groups), passes=False),  # old answers join them
            n,
            lambda g: None,
            lambda g: self.rows_given(groups, g),
        )
        for o, row in s.outputs.items():
            self._instead(groups, o, row)
        return self.made

    def _all_rows(self, groups: Groups, i: Input) -> None:
        """The rows of an input that groups have with this change."""
        spec = maps.grouped_spec(self.stage, "b", i.name, i.row)
        table = groups.tables[i.name]
        starts = np.array(groups.bounds[i.name])
        which = np.repeat(np.arange(groups.count), np.diff(starts))
        columns = self._by_group(groups, which) | {
            f"k{j}": column(table, c) for j, c in enumerate(i.columns)
        }
        columns[COUNT] = column(table, WEIGHT)
        change = entries(spec, columns, len(which))
        self.made.add(spec, change)
        at = self.context.arrangement(spec)
        before = at.lookup(keyed(spec, groups.arrays, groups.count))
        index = np.concatenate([np.asarray(column(before, INDEX)), which])
        both = pa.concat_tables([before.drop_columns([INDEX, "_h"]), change.drop_columns(["_h"])])
        parts = all_parts([canonical(column(both, f"k{j}")) for j in range(len(i.columns))])
        order, firsts = grouped(index, parts)
        counts = (
            np.add.reduceat(np.asarray(column(both, COUNT))[order], firsts)
            if len(firsts)
            else np.zeros(0, np.int64)
        )
        taken = both.take(pa.array(order[firsts]))
        rows = list(
            map(row_class(i.columns), rows_of(taken, [f"k{j}" for j in range(len(i.columns))]))
        )
        mine = index[order][firsts].tolist()
        by: list[list[Any]] = [[] for _ in range(groups.count)]
        for row, g, n in zip(rows, mine, counts.tolist(), strict=True):
            if n < 0:
                what = f"{row!r} is taken back, and was not given"
                raise Failed(StageError(what), self.shown(groups.keys[g]), row)
            by[g].extend([row] * n)
        if i.order_by:
            by = [self._sorted(i, rows) for rows in by]
        groups.rows[i.name] = [r for rows in by for r in rows]
        groups.starts[i.name] = (
            np.concatenate(([0], np.cumsum([len(r) for r in by]))).astype(int).tolist()
        )

    def _by_group(self, groups: Groups, which: Ints) -> dict[str, pa.Array]:
        taken = pa.array(which)
        return {f"g{j}": a.take(taken) for j, a in enumerate(groups.arrays)}

    def _instead(self, groups: Groups, output: str, row: RecordType) -> None:
        """The answers of groups in place of those that they had."""
        spec = maps.grouped_spec(self.stage, "a", output, row)
        names = [f"k{j}" for j in range(len(row.fields))]
        new = self.made.outputs[output]
        which = np.array(self.of[output], np.int64)
        columns = self._by_group(groups, which)
        columns |= {n: column(new, c) for n, (c, _) in zip(names, row.fields, strict=True)}
        columns[COUNT] = column(new, WEIGHT)
        came = entries(spec, columns, len(which))
        before = self.context.arrangement(spec).lookup(keyed(spec, groups.arrays, groups.count))
        gone = before.drop_columns([INDEX]).select(came.column_names)
        turned = pa.array(-np.asarray(column(gone, COUNT)))
        gone = gone.set_column(gone.schema.get_field_index(COUNT), COUNT, turned)
        self.made.add(spec, pa.concat_tables([came, gone.cast(came.schema)]))
        arrays = [column(gone, n).cast(f.type) for n, f in zip(names, new.schema, strict=False)]
        taken_back = pa.table([*arrays, turned], schema=new.schema)
        self.made.outputs[output] = pa.concat_tables([new, taken_back])
