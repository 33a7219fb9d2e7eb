"""Changes by key: rows that are to be there, and keys that are to be gone, in the order in which they are given.

    an upsert      whatever row has its key is replaced by it
    a key alone    whatever row has it goes

They come as `Delta(upserts=, deletes=)`, where deletions may have the columns of the key alone, or as rows whose
`_change_type` is `upsert` or `delete_key`; beside such rows a `delete` is one of its key, too. Here they get the form
of rows with a weight: 1 is a row to be there, -1 a key to be gone. What they mean is in `io/upserts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.calculus.types import RecordType
from headwater.engine.change import Change, schema_of
from headwater.errors import BadChange
from headwater.plan.program import WEIGHT
from headwater.state.run import column

CHANGE_TYPE = "_change_type"
UPSERT, DELETE_KEY = "upsert", "delete_key"
ORDERED = (UPSERT, DELETE_KEY, "delete")
"""What is taken by key, where a table has one of the first two."""
BESIDE = (WEIGHT, CHANGE_TYPE, "_commit_version", "_commit_timestamp", "_version")
"""Columns that a change may have beside those of its source."""


@dataclass(frozen=True)
class Delta:
    """Rows to add and rows to take away; each a DataFrame, an Arrow table, a pandas frame, or a list of rows.

    `upserts` are for sources with a key: each row takes the place of the one that has its key, if there is one. Of several
    with one key the last counts. `deletes` may then be keys alone, as rows of the key's columns, or as plain values where
    that is one column. Where rows are added and taken away as well, these come first, then the deletions of keys, then the upserts.
    """

    inserts: Any = None
    deletes: Any = None
    upserts: Any = None


NOTHING = Change()


@dataclass(frozen=True)
class Staged:
    """What was given for a source: rows with weights, and by key, in order."""

    rows: Change = NOTHING
    by_key: Change = NOTHING

    def __add__(self, other: Staged) -> Staged:
        return Staged(self.rows.with_rows(other.rows), self.by_key.with_rows(other.by_key))

    @property
    def count(self) -> int:
        """How many rows were given."""
        return self.rows.rows + self.by_key.rows


def check_keyed(name: str, key: Sequence[str]) -> None:
    """Raises where rows are to be upserted into a source that has no key."""
    if not key:
        raise BadChange(
            f"`{name}` has no key, by which rows could be upserted",
            hint="declare it with key=..., or give the old rows as deletes and the new ones as inserts",
        )


def key_row(row: RecordType, key: Sequence[str]) -> RecordType:
    """The columns of a key as a row."""
    types = dict(row.fields)
    return RecordType(tuple((n, types[n]) for n in key))


def only_keys(row: RecordType, key: Sequence[str], data: Any) -> tuple[Any, bool]:
    """Rows to delete, and whether they are keys alone; plain values are rows of the one column of a key."""
    fewer = 0 < len(key) < len(row.fields)
    if isinstance(data, (DataFrame, pd.DataFrame)):
        return data, fewer and _are(data.columns, key)
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return data, fewer and _are(data.schema.names, key)
    if not isinstance(data, Iterable) or isinstance(data, (str, bytes, Mapping)):
        return data, False
    rows = list(data)
    if not rows or not key:
        return rows, False
    if len(key) == 1 and not any(isinstance(r, (tuple, list, Mapping)) for r in rows):
        return [(r,) for r in rows], fewer
    if all(isinstance(r, Mapping) for r in rows):
        return rows, fewer and all(_are(r, key) for r in rows)
    return rows, fewer and all(isinstance(r, (tuple, list)) and len(r) == len(key) for r in rows)


def _are(names: Iterable[Any], key: Sequence[str]) -> bool:
    """Whether columns are those of a key, and some that may be beside them."""
    return {str(n).lower() for n in names} - {*BESIDE} == {k.lower() for k in key}


def with_gaps(row: RecordType, rows: Sequence[Mapping[Any, Any]]) -> Sequence[Mapping[Any, Any]]:
    """Rows in which a deletion by key has all columns, as it may leave out all but its key."""
    kinds = {r.get(CHANGE_TYPE) for r in rows}
    if not kinds & {UPSERT, DELETE_KEY}:
        return rows
    out = []
    for r in rows:
        if r.get(CHANGE_TYPE) in (DELETE_KEY, "delete"):
            known = {str(n).lower() for n in r}
            r = {**{n: None for n, _ in row.fields if n.lower() not in known}, **r}
        out.append(r)
    return out


def divided(
    name: str, key: Sequence[str], table: pa.Table
) -> tuple[pa.Table, pa.Table, np.ndarray[Any, Any]] | None:
    """A table whose rows say what they are: those with weights, those by key, and the weights that say which is which.

    None if there are none by key.
    """
    given = next((n for n in table.column_names if n.lower() == CHANGE_TYPE), None)
    if given is None:
        return None
    kinds = np.array(table.column(given).to_pylist(), object)
    if not np.isin(kinds, [UPSERT, DELETE_KEY]).any():
        return None
    check_keyed(name, key)
    mine = np.isin(kinds, ORDERED)
    weights = np.where(kinds[mine] == UPSERT, 1, -1)
    return table.filter(pa.array(~mine)), table.filter(pa.array(mine)).drop_columns(given), weights


def ordered(name: str, rows: pa.Table, weights: np.ndarray[Any, Any]) -> pa.Table:
    """Rows of a source by key: with the weights that say what becomes of each."""
    if rows.num_rows and (np.abs(np.asarray(column(rows, WEIGHT))) != 1).any():
        raise BadChange(
            f"rows of `{name}` that are given by key have a `{WEIGHT}`",
            hint="a key is there once: leave it out",
        )
    at = rows.schema.get_field_index(WEIGHT)
    return rows.set_column(at, WEIGHT, pa.array(weights, pa.int64()))


def filled(row: RecordType, keys: pa.Table) -> pa.Table:
    """Keys alone as rows of their source, to be gone; the other columns are NULL."""
    schema = schema_of(row)
    n = keys.num_rows
    arrays = [
        column(keys, f.name) if f.name in keys.column_names else pa.nulls(n, f.type) for f in schema
    ]
    return pa.table(arrays, schema=schema)
