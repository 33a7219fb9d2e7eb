"""The groups of an epoch: rows of all inputs by key, each group's in order, put together with Arrow and not row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.dataflow.call import Call, framed, nothing_named
from headwater.dataflow.calling import Failed, combined, keys_given
from headwater.dataflow.define import Input, arrow_schema
from headwater.dataflow.rows import Row, frozen, row_class, rows_of, sort_key, values_of, weights_of
from headwater.dataflow.words import ALL
from headwater.errors import StageError
from headwater.plan.program import WEIGHT
from headwater.state.hashing import hash_keys
from headwater.state.keys import Ints, all_parts, canonical, grouped, sort_order
from headwater.state.run import LEAST, MOST, column


@dataclass
class Groups:
    """The groups of an epoch: their keys, and of each input the rows in order with where those of each group begin."""

    keys: list[tuple[Any, ...]]
    arrays: list[pa.Array]
    rows: dict[str, list[Any]]
    tables: dict[str, pa.Table]
    starts: dict[str, list[int]]
    bounds: dict[str, list[int]] = field(default_factory=dict)
    """The same in the tables, in which equal rows are one."""

    @property
    def count(self) -> int:
        return len(self.keys)

    def of(self, name: str, group: int) -> list[Any]:
        """The rows of a group."""
        starts = self.starts[name]
        return self.rows[name][starts[group] : starts[group + 1]]


class Keyed(Call):
    """What both kinds with groups share: which there are, and their rows."""

    def groups(self, tables: Mapping[str, pa.Table], more: Sequence[list[pa.Array]] = ()) -> Groups:
        """Rows by group; `more` are keys of groups that are called without rows."""
        s = self.stage
        assert s.key is not None
        routed = {i.name: self._routed(i, tables[i.name]) for i in s.inputs}
        width = len(s.key.fields)
        types = [f.type for f in arrow_schema(s.key)]
        every = [*(routed[i.name][0] for i in s.inputs), *more]
        counts = [routed[i.name][1].num_rows for i in s.inputs]
        counts += [len(m[0]) if m else 1 for m in more]
        whole = [
            canonical(pa.concat_arrays([k[j].cast(types[j]) for k in every])) for j in range(width)
        ]
        which, first = self._mine(whole, *_numbered(whole, sum(counts)))
        arrays = [a.take(pa.array(first)) for a in whole]
        keys = list(zip(*map(values_of, arrays), strict=True)) if arrays else [()] * len(first)
        out = Groups(keys, arrays, {}, {}, {})
        at = 0
        for i, n in zip(s.inputs, counts, strict=False):
            mine = which[at : at + n]
            table, kept = routed[i.name][1], mine >= 0
            if not kept.all():
                table, mine = table.filter(pa.array(kept)), mine[kept]
            self._put(out, i, table, mine)
            at += n
        for i in s.inputs:
            to_all = routed[i.name][2]
            if to_all.num_rows:
                self._put_all(out, i, to_all)
            if i.combine is not None:
                self._combine(out, i, row_class((*i.columns, WEIGHT) if i.changes else i.columns))
        return out

    def _mine(self, whole: list[pa.Array], which: Ints, first: Ints) -> tuple[Ints, Ints]:
        """Of the groups, those that are computed here: a row may have been sent for one of its keys, and have others."""
        low, high = self.context.low, self.context.high
        if low <= LEAST and high >= MOST:
            return which, first
        h = hash_keys([a.take(pa.array(first)) for a in whole], len(first))
        mine = (h >= np.int64(low)) & (h <= np.int64(high - 1))
        numbers = np.where(mine, np.cumsum(mine) - 1, -1)
        return numbers[which], first[mine]

    def _routed(self, i: Input, table: pa.Table) -> tuple[list[pa.Array], pa.Table, pa.Table]:
        """Keys of rows, the rows, and those for all groups."""
        arrays, places, every = self.keys_of(i, table)
        if places is None:
            return arrays, table, table.slice(0, 0)
        return arrays, table.take(pa.array(places)), table.take(pa.array(every))

    def keys_of(self, i: Input, table: pa.Table) -> tuple[list[pa.Array], Ints | None, Ints]:
        """The keys of an input's rows, the rows that they are of (None: each has one), and the rows for all groups."""
        by, nothing = i.by, np.zeros(0, np.int64)
        assert by is not None and self.stage.key is not None
        types = arrow_schema(self.stage.key)
        if by.kind == "columns":
            pairs = zip(by.columns, types, strict=True)
            return [column(table, c).cast(f.type) for c, f in pairs], None, nothing
        if by.kind == "all":
            return [pa.array([], f.type) for f in types], nothing, np.arange(table.num_rows)
        assert by.f is not None
        rows = list(map(row_class(i.columns), rows_of(table, i.columns)))
        framed(rows, table, self.context.frames.get(i.name))
        places: list[int] = []
        keys: list[tuple[Any, ...]] = []
        every: list[int] = []
        for n, row in enumerate(rows):
            try:
                given = by.f(row)
                if given is ALL:
                    every.append(n)
                    continue
                found = keys_given(self.stage, row, given, len(types))
            except Exception as e:  # what a user wrote may raise anything
                raise Failed(e, None, row) from e
            if len(found) > 1:
                found = list({frozen(k): k for k in found}.values())
            keys.extend(found)
            places.extend([n] * len(found))
        where = lambda j: Failed(ValueError(), None, rows[places[j]])  # noqa: E731
        arrays = self.converted(f"the key of {self.stage.name}", self.stage.key, keys, where)
        return arrays, np.array(places, np.int64), np.array(every, np.int64)

    def _put(self, out: Groups, i: Input, table: pa.Table, which: Ints) -> None:
        """The rows of an input, by group, sorted in each by what the input says and then by everything."""
        names = [*i.order_by, *(c for c in i.columns if c not in i.order_by)]
        parts = all_parts([canonical(column(table, c)) for c in names])
        order = sort_order(which, parts)
        table = table.take(pa.array(order))
        which = which[order]
        out.tables[i.name] = table
        counts = np.bincount(which, minlength=out.count)
        out.bounds[i.name] = np.concatenate(([0], np.cumsum(counts))).tolist()
        if self.stage.form != "rows":
            return
        rows = self._made(i, table)
        if not i.changes and not self.stage.whole:
            weights = np.asarray(column(table, WEIGHT))
            if (weights < 0).any():
                bad = int(np.flatnonzero(weights < 0)[0])
                what = f"a row of `{i.name}` is deleted, and the stage takes no deletions"
                hint = "read it with changes=True, or make the stage whole"
                raise Failed(
                    StageError(what, hint=hint), self.shown(out.keys[which[bad]]), rows[bad]
                )
            if (weights != 1).any():
                rows = [r for r, n in zip(rows, weights.tolist(), strict=True) for _ in range(n)]
                counts = np.bincount(which, weights, minlength=out.count).astype(np.int64)
        out.rows[i.name] = rows
        out.starts[i.name] = np.concatenate(([0], np.cumsum(counts))).tolist()

    def _combine(self, out: Groups, i: Input, made: type[Row]) -> None:
        rows: list[Any] = []
        starts = [0]
        for g in range(out.count):
            try:
                rows.extend(self._sorted(i, combined(self.stage, i.name, out.of(i.name, g), made)))
            except Exception as e:  # what a user wrote may raise anything
                raise Failed(e, self.shown(out.keys[g])) from e
            starts.append(len(rows))
        out.rows[i.name], out.starts[i.name] = rows, starts

    def _sorted(self, i: Input, rows: list[Any]) -> list[Any]:
        return sorted(
            rows, key=lambda r: (sort_key([getattr(r, n) for n in i.order_by]), sort_key(r))
        )

    def _put_all(self, out: Groups, i: Input, table: pa.Table) -> None:
        """Rows that every group sees."""
        shared = self._made(i, table)
        if not i.changes:
            weights = weights_of(table)
            if any(n < 0 for n in weights):
                bad = next(r for r, n in zip(shared, weights, strict=True) if n < 0)
                what = f"a row of `{i.name}` is deleted, and the stage takes no deletions"
                raise Failed(StageError(what, hint="read it with changes=True"), None, bad)
            shared = [r for r, n in zip(shared, weights, strict=True) for _ in range(n)]
        rows: list[Any] = []
        starts = [0]
        for g in range(out.count):
            rows.extend(self._sorted(i, [*out.of(i.name, g), *shared]))
            starts.append(len(rows))
        out.rows[i.name], out.starts[i.name] = rows, starts

    def _made(self, i: Input, table: pa.Table) -> list[Any]:
        names = (*i.columns, WEIGHT) if i.changes else i.columns
        rows = list(map(row_class(names), rows_of(table, names)))
        framed(rows, table, self.context.frames.get(i.name))
        return rows

    def named(self, groups: Groups) -> Callable[[int], dict[str, Any]]:
        """What calls are given by name, but for state."""
        s, found = self.stage, dict[str, list[list[Any]]]()
        assert s.key is not None
        names = [n for n, _ in s.key.fields]
        for name, look in s.lookups.items():
            if name in s.takes:
                assert self.context.look_up is not None
                arrays = [groups.arrays[names.index(a)] for a, _ in look.on or ()]
                found[name] = self.context.look_up(name, arrays, groups.count)

        def named(g: int) -> dict[str, Any]:
            out: dict[str, Any] = {n: rows[g] for n, rows in found.items()}
            if "epoch" in s.takes:
                out["epoch"] = self.epoch(self.shown(groups.keys[g]))
            return out

        return named if found or "epoch" in s.takes else nothing_named

    def call(self, groups: Groups, g: int, args: list[list[Any]], named: dict[str, Any]) -> bool:
        """Calls the function for a group; whether it went well."""
        f, key = self.stage.f, self.shown(groups.keys[g])
        names = [i.name for i in self.stage.inputs]

        def rows() -> list[Any]:
            return [(n, r) for n, some in zip(names, args, strict=True) for r in some]

        return self.called(g, lambda: f(key, *args, **named), 1, key, rows)

    def rows_given(self, groups: Groups, g: int) -> tuple[Any, list[Any]]:
        """A group's key, and its rows with the inputs that they are of."""
        rows = [(i.name, r) for i in self.stage.inputs for r in groups.of(i.name, g)]
        return self.shown(groups.keys[g]), rows

    def where(self, groups: Groups) -> Callable[[int], Failed]:
        """Whom a call was for."""

        def found(g: int) -> Failed:
            rows = (r for i in self.stage.inputs for r in groups.of(i.name, g))
            return Failed(ValueError(), self.shown(groups.keys[g]), next(rows, None))

        return found


def _numbered(columns: list[pa.Array], rows: int) -> tuple[Ints, Ints]:
    """Which of the different keys each row has, and a row of each."""
    if not columns:
        return np.zeros(rows, np.int64), np.zeros(min(rows, 1), np.int64)
    h, parts = hash_keys(columns, rows), all_parts(columns)
    order, starts = grouped(h, parts)
    which = np.zeros(rows, np.int64)
    which[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, rows)))
    return which, order[starts]
