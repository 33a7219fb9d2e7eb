"""Stages in the forms of Arrow tables and pandas frames: one call for all groups, which the column `_g` numbers.

    def counted(groups, links, state):                     # form="arrow", by="url", state="n BIGINT"
        ...
        return flow.result(rows, state=new)                # new has `_g` and the columns of the state

Row by row, the function gets a table of different rows with their weights `_w`, and gives one that has `_w` too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from headwater.calculus.types import RecordType
from headwater.dataflow import maps
from headwater.dataflow.call import Call, Made
from headwater.dataflow.calling import Failed
from headwater.dataflow.define import Input, Part, arrow_schema
from headwater.dataflow.grouped import Grouped
from headwater.dataflow.groups import Groups, Keyed
from headwater.dataflow.maps import COUNT, entries, keyed
from headwater.dataflow.whole import Whole
from headwater.errors import HeadwaterError, StageError
from headwater.io.rows import checked, from_frame
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import INDEX
from headwater.state.run import column

GROUP = "_g"
"""The column that numbers groups."""


@dataclass(frozen=True)
class Result:
    """What a function in the form of tables gives: rows of its outputs, and new records of groups."""

    rows: Any
    state: Any = None
    cleared: Any = None
    """The numbers of groups whose record is gone."""


def result(rows: Any = None, *, state: Any = None, cleared: Any = None) -> Result:
    """Rows (a table, or a dict of tables by output), records to set (a table with `_g`), and groups to clear."""
    return Result(rows, state, cleared)


class _Bulk(Call):
    """Tables in and out."""

    def shape(self, table: pa.Table) -> Any:
        return table.to_pandas() if self.stage.form == "pandas" else table

    def table(self, given: Any, name: str, row: RecordType) -> pa.Table:
        """What a function gave, as a table; numbers of groups stay beside the columns of the row."""
        if isinstance(given, pd.DataFrame):
            rest = given[[c for c in given.columns if c != GROUP]]
            table = from_frame(name, row, rest, self.context.zone)
            numbered = GROUP in given.columns
            return table.append_column(GROUP, pa.array(given[GROUP])) if numbered else table
        if isinstance(given, pa.RecordBatch):
            return pa.Table.from_batches([given])
        if not isinstance(given, pa.Table):
            raise StageError(
                f"`{self.stage.name}` gave {type(given).__name__} for `{name}`",
                hint=f"give a table, for its form is {self.stage.form}",
            )
        return given

    def put(self, given: Any, weighted: bool) -> None:
        """The rows of outputs, checked."""
        s = self.stage
        rows = given if isinstance(given, Mapping) else {s.single: given}
        for o, row in s.outputs.items():
            mine = rows.get(o)
            if mine is None:
                continue
            table = self.table(mine, o, row)
            if weighted and WEIGHT not in table.column_names:
                raise StageError(
                    f"`{s.name}` gave a table without `{WEIGHT}` for `{o}`",
                    hint="a stage row by row passes weights on, for rows that are deleted",
                )
            if GROUP in table.column_names:
                table = table.drop_columns([GROUP])
            self.made.outputs[o] = checked(o, row, table, 1, self.context.zone)
        unknown = next((o for o in rows if o not in s.outputs), None)
        if unknown is not None:
            raise StageError(
                f"`{s.name}` gave rows for {unknown!r}", hint=f"outputs: {', '.join(s.outputs)}"
            )

    def empty(self) -> None:
        for o, row in self.stage.outputs.items():
            schema = arrow_schema(row).append(pa.field(WEIGHT, pa.int64()))
            self.made.outputs[o] = schema.empty_table()


class BulkRowWise(_Bulk):
    """Row by row, all rows in one call."""

    def run(self, tables: Mapping[str, pa.Table]) -> Made:
        (given,) = self.stage.inputs
        self.empty()
        table = tables[given.name]
        if table.num_rows:
            named = {"epoch": self.epoch(None)} if "epoch" in self.stage.takes else {}
            try:
                self.put(self.stage.f(self.shape(table), **named), weighted=True)
            except Exception as e:  # what a user wrote may raise anything
                raise Failed(e, None, table.slice(0, 1).to_pylist()[0]) from e
        return self.made


class _BulkGroups(_Bulk, Keyed):
    """Groups in one call."""

    def numbered(self, groups: Groups) -> Any:
        names = [n for n, _ in self.stage.key.fields] if self.stage.key else []
        numbers = pa.array(np.arange(groups.count))
        return self.shape(pa.table([numbers, *groups.arrays], [GROUP, *names]))

    def rows_in(self, groups: Groups, i: Input) -> Any:
        """The rows of an input with the numbers of their groups."""
        table = groups.tables[i.name]
        counts = np.diff(np.array(groups.bounds[i.name]))
        which = np.repeat(np.arange(groups.count), counts)
        weights = np.asarray(column(table, WEIGHT))
        if not i.changes:
            if (weights < 0).any():
                what = f"a row of `{i.name}` is deleted, and the stage takes no deletions"
                raise Failed(StageError(what, hint="read it with changes=True"))
            if (weights != 1).any():
                often = pa.array(np.repeat(np.arange(len(weights)), weights))
                table, which = table.take(often), np.repeat(which, weights)
            table = table.drop_columns([WEIGHT])
        return self.shape(table.add_column(0, GROUP, pa.array(which)))


class BulkGrouped(_BulkGroups, Grouped):
    """Groups with one record of state each."""

    def run(self, tables: Mapping[str, pa.Table]) -> Made:
        s = self.stage
        self.empty()
        groups = self.groups(tables, self._all_groups() if s.groups == "all" else [])
        if not groups.count:
            return self.made
        args = [self.numbered(groups), *(self.rows_in(groups, i) for i in s.inputs)]
        named: dict[str, Any] = {"epoch": self.epoch(None)} if "epoch" in s.takes else {}
        if s.state:
            named["state"] = self._states(groups, s.state[0])
        try:
            given = s.f(*args, **named)
            if not isinstance(given, Result):
                given = Result(given)
            if given.rows is not None:
                self.put(given.rows, weighted=False)
            if s.state:
                self._new_states(groups, s.state[0], given)
            elif given.state is not None:
                raise StageError(
                    f"`{s.name}` gave state, and has none", hint="define it with state="
                )
        except Failed:
            raise
        except Exception as e:  # what a user wrote may raise anything
            raise Failed(e, self.shown(groups.keys[0])) from e
        return self.made

    def _states(self, groups: Groups, p: Part) -> Any:
        """The records of groups that have one."""
        spec = maps.state_spec(self.stage, p)
        found = self.context.arrangement(spec).lookup(keyed(spec, groups.arrays, groups.count))
        arrays = [column(found, f"v{j}").cast(f.type) for j, f in enumerate(arrow_schema(p.row))]
        names = [n for n, _ in p.row.fields]
        return self.shape(pa.table([column(found, INDEX), *arrays], [GROUP, *names]))

    def _new_states(self, groups: Groups, p: Part, given: Result) -> None:
        spec, names = maps.state_spec(self.stage, p), [n for n, _ in p.row.fields]
        schema = arrow_schema(p.row)
        parts: list[tuple[Any, list[pa.Array], int]] = []
        if given.state is not None:
            there = getattr(given.state, "columns", ())
            if not isinstance(given.state, pd.DataFrame):
                there = self.table(given.state, "state", p.row).column_names
            lacking = next((n for n in (GROUP, *names) if n not in there), None)
            if lacking is not None:
                raise StageError(
                    f"the state that `{self.stage.name}` gave has no `{lacking}`",
                    hint=f"give {', '.join((GROUP, *names))}",
                )
            table = self.table(given.state, "state", p.row)
            fitted = checked("state", p.row, table.select(names), 1, self.context.zone)
            which = np.asarray(column(table, GROUP).cast(pa.int64()))
            parts.append((which, [column(fitted, n) for n in names], 1))
        if given.cleared is not None:
            which = np.asarray(given.cleared, np.int64)
            parts.append((which, [pa.nulls(len(which), f.type) for f in schema], 0))
        for which, values, there in parts:
            if len(which) and (which.min() < 0 or which.max() >= groups.count):
                raise StageError(
                    f"`{self.stage.name}` gave state for a group that there is not",
                    hint=f"`{GROUP}` numbers groups",
                )
            taken = pa.array(which)
            columns: dict[str, Any] = {f"g{j}": a.take(taken) for j, a in enumerate(groups.arrays)}
            columns |= {f"v{j}": a for j, a in enumerate(values)}
            columns[COUNT] = pa.array(np.full(len(which), there, np.int64))
            self.made.add(spec, entries(spec, columns, len(which)))


class BulkWhole(_BulkGroups, Whole):
    """All rows of the groups that are touched, in one call; rows that are given name their group by `_g`."""

    def run(self, tables: Mapping[str, pa.Table]) -> Made:
        s = self.stage
        groups = self.groups(tables)
        self.empty()
        of: dict[str, Any] = {o: np.zeros(0, np.int64) for o in s.outputs}
        if groups.count:
            args = [self.shape(self._every(groups, i)) for i in s.inputs]
            named: dict[str, Any] = {"epoch": self.epoch(None)} if "epoch" in s.takes else {}
            try:
                given = s.f(self.numbered(groups), *args, **named)
                rows = given.rows if isinstance(given, Result) else given
                rows = rows if isinstance(rows, Mapping) else {s.single: rows}
                for o, mine in rows.items():
                    if o not in s.outputs:
                        continue  # `put` says so
                    table = self.table(mine, o, s.outputs[o])
                    if GROUP not in table.column_names:
                        raise StageError(
                            f"`{s.name}` gave rows of `{o}` without `{GROUP}`",
                            hint="a stage that is whole says which group a row is of",
                        )
                    of[o] = np.asarray(column(table, GROUP).cast(pa.int64()))
                self.put(rows, weighted=False)
            except HeadwaterError as e:
                raise Failed(e, self.shown(groups.keys[0])) from e
            except Failed:
                raise
            except Exception as e:  # what a user wrote may raise anything
                raise Failed(e, self.shown(groups.keys[0])) from e
        for o, row in s.outputs.items():
            self.of[o] = of[o].tolist()
            self._instead(groups, o, row)
        return self.made

    def _every(self, groups: Groups, i: Input) -> pa.Table:
        """All rows of the groups, repeated, with the numbers of their groups."""
        self._all_rows(groups, i)
        rows, starts = groups.rows[i.name], groups.starts[i.name]
        which = np.repeat(np.arange(groups.count), np.diff(np.array(starts)))
        fields = arrow_schema(i.row)
        arrays = [pa.array([r[j] for r in rows], f.type) for j, f in enumerate(fields)]
        return pa.table([pa.array(which), *arrays], [GROUP, *fields.names])
