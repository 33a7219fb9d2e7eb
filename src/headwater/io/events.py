"""Changes by key: rows that are to be there, and keys that are to be gone, in the order in which they are given.

    an upsert      whatever row has its key is replaced by it
    a key alone    whatever row has it goes

They come as `Delta(upserts=, deletes=)`, where deletions may have the columns of the key alone, or as rows whose
`_change_type` is `upsert` or `delete_key`; beside such rows a `delete` is one of its key, too. Inserts are by key where
something is to become of those whose key is there, and everything is where events have a sequence. Here they get the
form of rows with a weight: 1 is a row to be there, -1 a key to be gone, 2 an insert. What they mean is in `io/upserts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headwater.calculus.types import KeyType, RecordType
from headwater.engine.change import Change, schema_of
from headwater.errors import BadChange
from headwater.plan.program import WEIGHT
from headwater.state.run import column

CHANGE_TYPE = "_change_type"
INSERT, DELETE, UPSERT, DELETE_KEY = "insert", "delete", "upsert", "delete_key"
BEFORE, AFTER = "update_preimage", "update_postimage"
PUT, GONE, NEW = 1, -1, 2
"""What stands for a weight where rows are by key: the row is to be there, its key is to be gone, the row is inserted."""
BY_WEIGHT, SKIPPED = 0, 3
ERROR, REPLACE, IGNORE = "error", "replace", "ignore"
CONFLICTS = (ERROR, REPLACE, IGNORE)
"""What an insert of a key that is there does."""
BESIDE = (WEIGHT, CHANGE_TYPE, "_commit_version", "_commit_timestamp", "_version")
"""Columns that a change may have beside those of its source."""
Codes = np.ndarray[Any, np.dtype[np.int64]]


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


@dataclass(frozen=True)
class ByKey:
    """How a source takes rows by key: its key, what an insert of a key that is there does, and what orders events."""

    key: tuple[str, ...] = ()
    conflict: str = ERROR
    sequence: str = ""
    """The column that says which of two events of a key is the newer one."""
    beside: KeyType | None = None
    """Its type, where it is no column of the source and comes with the change alone."""

    def given(self, row: RecordType) -> RecordType:
        """A row as it is given: with its sequence, where that is none of its columns."""
        if self.beside is None:
            return row
        return RecordType((*row.fields, (self.sequence, self.beside)))

    @property
    def columns(self) -> tuple[str, ...]:
        """What a deletion by key has to say: its key, and its sequence."""
        more = (self.sequence,) if self.sequence and self.sequence not in self.key else ()
        return (*self.key, *more)

    def check(self, name: str) -> None:
        """Raises where rows are to be upserted into a source that has no key."""
        if not self.key:
            raise BadChange(
                f"`{name}` has no key, by which rows could be upserted",
                hint="declare it with key=..., or give the old rows as deletes and the new ones as inserts",
            )

    def codes(self, name: str, table: pa.Table, how: str) -> Codes | None:
        """What each row of a table is that was given as inserts, or as deletes; None if all are by weight."""
        kinds = _kinds(table)
        all_of_it = bool(self.sequence)
        taken = all_of_it or self.conflict != ERROR
        if kinds is None:
            if not (all_of_it if how == DELETE else taken):
                return None
            comes = _signs(table) if how == INSERT else -_signs(table)
            gone = GONE if all_of_it else BY_WEIGHT
            return np.where(comes > 0, NEW, gone)
        by_key = bool(np.isin(kinds, [UPSERT, DELETE_KEY]).any())
        if by_key:
            self.check(name)
        if how == DELETE and (by_key or all_of_it):
            raise BadChange(
                f"the deletes of `{name}` have rows that say what they are in `{CHANGE_TYPE}`",
                hint="give the table itself as the change, and its rows are what they say",
            )
        if not by_key and not taken:
            return None
        codes = {
            UPSERT: PUT,
            DELETE_KEY: GONE,
            INSERT: NEW if taken else BY_WEIGHT,
            AFTER: PUT if taken else BY_WEIGHT,
            DELETE: GONE if by_key or all_of_it else BY_WEIGHT,
            BEFORE: SKIPPED if all_of_it else BY_WEIGHT,
        }
        return np.array([codes.get(k, BY_WEIGHT) for k in kinds], np.int64)


def _kinds(table: pa.Table) -> np.ndarray[Any, Any] | None:
    """What the rows of a table say that they are."""
    given = next((n for n in table.column_names if n.lower() == CHANGE_TYPE), None)
    return None if given is None else np.array(table.column(given).to_pylist(), object)


def _signs(table: pa.Table) -> Codes:
    """The signs of weights: 1 where there are none."""
    given = next((n for n in table.column_names if n.lower() == WEIGHT), None)
    if given is None or not pa.types.is_integer(table.schema.field(given).type):
        return np.ones(table.num_rows, np.int64)
    return np.sign(np.asarray(pc.fill_null(table.column(given), 1)).astype(np.int64))


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
        if r.get(CHANGE_TYPE) in (DELETE_KEY, DELETE):
            known = {str(n).lower() for n in r}
            r = {**{n: None for n, _ in row.fields if n.lower() not in known}, **r}
        out.append(r)
    return out


def ordered(name: str, rows: pa.Table, codes: Codes) -> pa.Table:
    """Rows of a source by key: with the weights that say what becomes of each."""
    if rows.num_rows and (np.abs(np.asarray(column(rows, WEIGHT))) != 1).any():
        raise BadChange(
            f"rows of `{name}` that are given by key have a `{WEIGHT}`",
            hint="a key is there once: leave it out",
        )
    at = rows.schema.get_field_index(WEIGHT)
    return rows.set_column(at, WEIGHT, pa.array(codes, pa.int64()))


def filled(row: RecordType, keys: pa.Table) -> pa.Table:
    """Keys alone as rows of their source, to be gone; the other columns are NULL."""
    schema = schema_of(row)
    n = keys.num_rows
    arrays = [
        column(keys, f.name) if f.name in keys.column_names else pa.nulls(n, f.type) for f in schema
    ]
    return pa.table(arrays, schema=schema)
