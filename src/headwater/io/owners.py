"""Changes of nested sources: rows with arrays taken apart into the relations that they are kept in, and checked.

    every key is there at most once, and every inner row has an owner whose array is there

A row that comes or goes takes its inner rows with it; a deep change adds inner rows to an owner or takes them away.
Only the keys that a change touches are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.shapes import Bags, Row
from headwater.engine.change import Change, read_file, write_file
from headwater.engine.here.equal_rows import different_rows
from headwater.engine.probing import entries_at
from headwater.engine.working import Working
from headwater.errors import BadChange, KeyConflict, MissingOwner
from headwater.interop.arrow_types import arrow_type
from headwater.plan.nested.sources import SourcePart
from headwater.plan.program import WEIGHT, Map
from headwater.state.arrangement import INDEX
from headwater.state.hashing import places
from headwater.state.run import column

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


# --- taking apart -------------------------------------------------------------------------------------------------


def apart(
    parts: Sequence[SourcePart], number: int, change: Change, root: Path
) -> dict[str, Change]:
    """A change as it was given for a relation as changes of that relation and of the arrays inside."""
    out: dict[str, Change] = {}
    for table in change.tables:
        for name, rows in taken_apart(parts, number, table).items():
            out[name] = out.get(name, Change()).with_rows(Change.of(rows))
    for file in change.files:
        for name, rows in taken_apart(parts, number, read_file(root / file)).items():
            made = Change(files=(write_file(root, rows),), rows=rows.num_rows)
            out[name] = out.get(name, Change()).with_rows(made)
    return out


def taken_apart(parts: Sequence[SourcePart], number: int, table: pa.Table) -> dict[str, pa.Table]:
    """Rows as they were given for a relation, with `_w`: its flat rows, and those of the arrays inside."""
    out: dict[str, pa.Table] = {}
    _take(parts, number, table, out)
    return out


def _take(
    parts: Sequence[SourcePart], number: int, table: pa.Table, out: dict[str, pa.Table]
) -> None:
    part = parts[number]
    shapes = dict(part.shape.fields) if isinstance(part.shape, Row) else {}
    arrays = []
    for n, t in part.row.fields:
        values = column(table, n)
        shape = shapes.get(n)
        if n in part.key and values.null_count:
            raise KeyConflict(
                f"a row of `{part.name}` has no `{n}`, which is part of its key",
                hint="every row needs its key, for its inner rows belong to it",
            )
        if isinstance(shape, Bags):
            child = shape.variants[0].part
            _take(parts, child, _elements(parts[child], part, table, values), out)
            zeros = pa.array(np.zeros(table.num_rows, np.int64), mask=np.asarray(values.is_null()))
            arrays.append(zeros)
        else:
            arrays.append(values.cast(arrow_type(t)))
    names = [n for n, _ in part.row.fields]
    out[part.name] = pa.table([*arrays, column(table, WEIGHT)], [*names, WEIGHT])


def _elements(part: SourcePart, above: SourcePart, table: pa.Table, lists: pa.Array) -> pa.Table:
    """The elements of arrays with the key of their owner."""
    values = lists.flatten()
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    at = pa.array(np.repeat(np.arange(len(lengths)), lengths))
    owner = {n: column(table, k).take(at) for n, k in zip(part.label, above.key, strict=True)}
    if isinstance(part.shape, Row):
        if values.null_count:
            raise BadChange(
                f"an array of `{part.name}` has a NULL for a row",
                hint="leave it out, or give a row whose columns are NULL",
            )
        inside = dict(zip((f.name for f in values.type), values.flatten(), strict=True))
    else:
        inside = {n: values for n, _ in part.row.fields[len(part.label) :]}
    names = [n for n, _ in part.given.fields[len(part.label) :]]
    return pa.table(
        {**owner, **{n: inside[n] for n in names}, WEIGHT: column(table, WEIGHT).take(at)}
    )


# --- checking -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Owners:
    """A nested source while a change is checked: its relations, what changes, and the maps that have rows and keys."""

    parts: Sequence[SourcePart]
    changes: Mapping[str, pa.Table]
    maps: Mapping[str, Map]
    keys: Mapping[str, Map]
    working: Working

    def check(self) -> None:
        """Raises unless, after the change, keys are there once and every inner row has an owner."""
        gone = {
            number: self._keys_gone(part)
            for number, part in enumerate(self.parts)
            if part.key and part.name in self.changes
        }
        for part in self.parts:
            if part.owner is None:
                continue
            touched = []
            if part.name in self.changes:
                touched.append(self.changes[part.name].select(list(part.label)))
            if part.owner in gone:
                touched.append(gone[part.owner].rename_columns(list(part.label)))
            if sum(t.num_rows for t in touched):
                self._check_bags(part, self.parts[part.owner], pa.concat_tables(touched))

    def _keys_gone(self, part: SourcePart) -> pa.Table:
        """The keys that the change takes away; raises if one is there twice."""
        labels = different_rows(self.changes[part.name].select(list(part.key)))
        after = self._rows_after(part, labels)
        if len(after) and after.max() > 1:
            (row,) = labels.slice(int(after.argmax()), 1).to_pylist()
            raise KeyConflict(
                f"`{part.name}` would have {after.max()} rows with the key {_shown(row)}",
                hint="a key is there once: delete the old row in the same change, or change its inner rows",
            )
        return labels.filter(pa.array(after < 1))

    def _check_bags(self, part: SourcePart, above: SourcePart, touched: pa.Table) -> None:
        """Raises if inner rows are left that have no owner, or one whose array is NULL."""
        labels = different_rows(touched)
        named = labels.rename_columns(list(above.key))
        mark = above.marks[self.parts.index(part)]
        orphans = labels.filter(pa.array(self._rows_after(above, named, mark) < 1))
        left = self._rows_after(part, orphans)
        if not len(left) or left.max() < 1:
            return
        example = orphans.slice(int(left.argmax()), 1)
        (row,) = example.to_pylist()
        owner = example.rename_columns(list(above.key))
        if self._rows_after(above, owner)[0] > 0:
            raise MissingOwner(
                f"the array `{mark}` of the row of `{above.name}` with {_shown(row)} is NULL",
                hint="replace the row by one with an empty array first",
            )
        if self._rows_before(above, owner)[0] > 0:
            raise MissingOwner(
                f"the row of `{above.name}` with {_shown(row)} goes, and {left.max()} of its rows in"
                f" `{part.name}` would stay",
                hint="delete it with the inner rows that it has now",
            )
        raise MissingOwner(
            f"there is no row of `{above.name}` with {_shown(row)} for rows of `{part.name}`",
            hint="insert the owner first, or in the same change",
        )

    def _rows_after(self, part: SourcePart, labels: pa.Table, mark: str | None = None) -> Ints:
        """How many rows with each key, or of each owner, there are after the change; with a mark, having that array."""
        out = self._rows_before(part, labels, mark)
        change = self.changes.get(part.name)
        if change is not None and labels.num_rows:
            if mark is not None:
                change = change.filter(column(change, mark).is_valid())
            names = labels.column_names
            place = places([column(labels, n) for n in names], [column(change, n) for n in names])
            known = place >= 0
            np.add.at(out, place[known], np.asarray(column(change, WEIGHT))[known])
        return out

    def _rows_before(self, part: SourcePart, labels: pa.Table, mark: str | None = None) -> Ints:
        m, names = self.maps[part.name], [n for n, _ in part.row.fields]
        if set(labels.column_names) == set(part.key) and part.name in self.keys:
            m, names = self.keys[part.name], [*part.key, *part.marks.values()]
        found = entries_at(self.working.before(m.name), labels)
        if mark is not None:
            found = found.filter(column(found, m.columns[names.index(mark)]).is_valid())
        out = np.zeros(labels.num_rows, np.int64)
        np.add.at(out, np.asarray(column(found, INDEX)), np.asarray(column(found, "r0")))
        return out


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{n}={v!r}" for n, v in row.items())
