"""Changes as users give them, staged once as tables with a weight.

A Spark DataFrame is evaluated in one job, in the session it came from: it may not be deterministic, or read a
directory that grows, and an increment must see one answer of it. Its partitions come back as Arrow, through the
driver while they are small and as files when they are not. Tables, pandas frames and rows are checked here. What
does not fit the source is told with its column and its row, and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.calculus.types import KeyType, RecordType
from headwater.engine.change import Change, read_file, schema_of, write_file
from headwater.engine.policy import INLINE
from headwater.engine.spark.progress import showing
from headwater.engine.spark.session import Counts, telling
from headwater.errors import BadChange
from headwater.interop.arrow_types import arrow_type
from headwater.interop.spark_text import column_name, spark_type
from headwater.io.events import (
    AFTER,
    BEFORE,
    BESIDE,
    BY_WEIGHT,
    CHANGE_TYPE,
    DELETE,
    DELETE_KEY,
    GONE,
    INSERT,
    PUT,
    SKIPPED,
    UPSERT,
    ByKey,
    Delta,
    Staged,
    filled,
    key_row,
    only_keys,
    ordered,
    with_gaps,
)
from headwater.io.limits import Limit, check_limits
from headwater.io.values import NOT_FITTING, WEIGHTS, converted, in_type, no_zone
from headwater.plan.program import WEIGHT

SIGNS = {INSERT: 1, AFTER: 1, DELETE: -1, BEFORE: -1}
WEIGHED = ByKey()


@dataclass(frozen=True)
class Parts:
    """Tables that tasks of Spark have read, in order, and whether each is so large that it came as a file."""

    tables: tuple[tuple[pa.Table, bool], ...]


def stage(
    name: str,
    row: RecordType,
    given: Any,
    root: Path,
    counts: Counts,
    zone: str = "UTC",
    cast: bool = False,
    limits: Sequence[Limit] = (),
    by: ByKey = WEIGHED,
) -> Staged:
    """A change of a source, evaluated once; times of day without a zone are of the one given.

    With `cast` text and fractions are read as what the columns are. `by` says how the source takes rows by key.
    """
    given = given if isinstance(given, Delta) else Delta(given)
    out = Staged()
    for data, how in ((given.inserts, INSERT), (given.deletes, DELETE), (given.upserts, UPSERT)):
        if data is None:
            continue
        shape = by.given(row)
        if how == UPSERT:
            by.check(name)
        elif how == DELETE:
            data, alone = only_keys(shape, by.columns, data)
            if alone:
                how, shape = DELETE_KEY, key_row(shape, by.columns)
        if isinstance(data, Parts):
            parts = iter(data.tables)
        elif isinstance(data, DataFrame):
            parts = _frame(name, shape, data, root, counts, cast)
        else:
            parts = iter([(_table(name, shape, data, zone, cast), False)])
        for table, in_file in parts:
            told, by_key = _sorted_out(name, row, by, table, how, zone, cast, limits)
            out += Staged(_held(told, root, in_file), _held(by_key, root, in_file))
    if not out.rows.tables and not out.rows.files:
        out += Staged(Change.of(schema_of(row).empty_table()))
    return out


def _sorted_out(
    name: str,
    row: RecordType,
    by: ByKey,
    table: pa.Table,
    how: str,
    zone: str,
    cast: bool,
    limits: Sequence[Limit],
) -> tuple[pa.Table | None, pa.Table | None]:
    """A table that was given as rows with weights, and as rows by key."""
    shape = by.given(row)
    if how == DELETE_KEY:
        keys = checked(name, key_row(shape, by.columns), table, 1, zone, cast)
        return None, filled(shape, ordered(name, keys, np.full(table.num_rows, GONE)))
    if how == UPSERT:
        codes = np.full(table.num_rows, PUT)
        table = _plain(name, table)
    else:
        found = by.codes(name, table, how)
        if found is None:
            told = checked(name, row, table, -1 if how == DELETE else 1, zone, cast)
            check_limits(name, limits, told)
            return told, None
        codes = found
    told = table.filter(pa.array(codes == BY_WEIGHT))
    told = checked(name, shape, told, -1 if how == DELETE else 1, zone, cast)
    check_limits(name, limits, told)
    mine = (codes != BY_WEIGHT) & (codes != SKIPPED)
    rows = table.filter(pa.array(mine))
    rows = rows.drop_columns([n for n in rows.column_names if n.lower() == CHANGE_TYPE])
    by_key = ordered(name, checked(name, shape, rows, 1, zone, cast), codes[mine])
    check_limits(name, limits, by_key.filter(pa.array(codes[mine] != GONE)))
    return told, by_key


def _held(table: pa.Table | None, root: Path, in_file: bool) -> Change:
    """A table as a change, in memory or in a file."""
    if table is None or not table.num_rows:
        return Change()
    if in_file:
        return Change(files=(write_file(root, table),), rows=table.num_rows)
    return Change.of(table)


def _plain(name: str, table: pa.Table) -> pa.Table:
    if CHANGE_TYPE in [n.lower() for n in table.column_names]:
        raise BadChange(
            f"the upserts of `{name}` have a column `{CHANGE_TYPE}`",
            hint="give the table itself as the change, and its rows are what they say; or leave the column out",
        )
    return table


# --- tables in this process ------------------------------------------------------------------------------------


def _table(name: str, row: RecordType, data: Any, zone: str, cast: bool) -> pa.Table:
    match data:
        case pa.Table():
            return data
        case pa.RecordBatch():
            return pa.Table.from_batches([data])
        case pd.DataFrame():
            return from_frame(name, row, data, zone, cast)
        case str() | bytes() | Mapping():
            raise BadChange(
                f"the change of `{name}` is of type {type(data).__name__}",
                hint="give a DataFrame, an Arrow table, a pandas frame, or a list of rows",
            )
        case Iterable():
            return _from_rows(name, row, list(data), zone, cast)
    raise BadChange(
        f"the change of `{name}` is of type {type(data).__name__}",
        hint="give a DataFrame, an Arrow table, a pandas frame, or a list of rows",
    )


def from_frame(
    name: str, row: RecordType, data: pd.DataFrame, zone: str, cast: bool = False
) -> pa.Table:
    """A pandas frame as a table: whole numbers beside NULLs, which pandas has as doubles, are whole numbers again."""
    _columns_fit(name, row, [str(c) for c in data.columns])
    return converted(name, row, {str(c): data[c] for c in data.columns}, zone, cast)


def _from_rows(name: str, row: RecordType, rows: Sequence[Any], zone: str, cast: bool) -> pa.Table:
    fields = [n for n, _ in row.fields]
    if not rows:
        return schema_of(row).empty_table()
    if all(isinstance(r, Mapping) for r in rows):
        return _from_dicts(name, row, rows, zone, cast)
    for i, r in enumerate(rows):
        if not isinstance(r, (tuple, list)):
            raise BadChange(
                f"row {i + 1} of the change of `{name}` is of type {type(r).__name__}",
                hint="give all rows as tuples, or all as dicts",
            )
        if len(r) not in (len(fields), len(fields) + 1):
            raise BadChange(
                f"row {i + 1} of the change of `{name}` has {len(r)} values, not {len(fields)}",
                hint=f"columns of `{name}`: {', '.join(fields)}; a weight may follow",
            )
    if len({len(r) for r in rows}) > 1:
        raise BadChange(
            f"some rows of the change of `{name}` have a weight and some have none",
            hint=f"columns of `{name}`: {', '.join(fields)}; a weight may follow in all rows",
        )
    names = fields if len(rows[0]) == len(fields) else [*fields, WEIGHT]
    columns = {n: [r[i] for r in rows] for i, n in enumerate(names)}
    return converted(name, row, columns, zone, cast)


def _from_dicts(
    name: str, row: RecordType, rows: Sequence[Mapping[Any, Any]], zone: str, cast: bool
) -> pa.Table:
    fields = [n for n, _ in row.fields]
    if not all(n in r for r in rows for n in fields):  # names in another case, or missing
        right = {n.lower(): n for n in fields}
        rows = [{right.get(str(k).lower(), k): v for k, v in r.items()} for r in rows]
        rows = with_gaps(row, rows)
    for i, r in enumerate(rows):
        missing = [n for n in fields if n not in r]
        if missing:
            raise BadChange(
                f"row {i + 1} of the change of `{name}` has no `{missing[0]}`",
                hint=f"columns of `{name}`: {', '.join(fields)}; a missing value is None",
            )
    names = list(dict.fromkeys(k for r in rows for k in r))
    _columns_fit(name, row, [str(n) for n in names])
    return converted(name, row, {str(n): [r.get(n) for r in rows] for n in names}, zone, cast)


def checked(
    name: str,
    row: RecordType,
    table: pa.Table,
    sign: int,
    zone: str = "UTC",
    cast: bool = False,
) -> pa.Table:
    """A table with the source's columns in their order and types, and signed weights."""
    given = {n.lower(): n for n in table.column_names}
    _columns_fit(name, row, list(table.column_names))
    arrays = []
    for n, t in row.fields:
        values = table.column(given[n.lower()])
        if values.type != arrow_type(t):
            values = _cast(name, n, values, t, zone, cast)
        arrays.append(values)
    weights = np.ones(table.num_rows, np.int64)
    if WEIGHT in given:
        raw = table.column(given[WEIGHT])
        if not pa.types.is_integer(raw.type) or raw.null_count:
            raise BadChange(
                f"`{WEIGHT}` of the change of `{name}` is not a whole number in every row",
                hint=WEIGHTS,
            )
        weights = np.asarray(raw.cast(pa.int64()))
    if CHANGE_TYPE in given:
        kinds = table.column(given[CHANGE_TYPE]).to_pylist()
        unknown = next((k for k in kinds if k not in SIGNS), None)
        if unknown is not None or None in kinds:
            raise BadChange(
                f"`{CHANGE_TYPE}` of the change of `{name}` has {unknown!r}",
                hint=f"it is one of {', '.join((*SIGNS, UPSERT, DELETE_KEY))}",
            )
        weights = weights * np.array([SIGNS[k] for k in kinds], np.int64)
    return pa.table([*arrays, pa.array(weights * sign)], schema=schema_of(row))


def _columns_fit(name: str, row: RecordType, found: list[str]) -> None:
    fields = [n for n, _ in row.fields]
    low = [n.lower() for n in found]
    missing = [n for n in fields if n.lower() not in low]
    allowed = {n.lower() for n in fields} | {*BESIDE}
    extra = [n for n in found if n.lower() not in allowed]
    if missing or extra:
        what = (
            f"has no `{missing[0]}`" if missing else f"has a column `{extra[0]}` that it should not"
        )
        raise BadChange(
            f"the change of `{name}` {what}",
            hint=f"columns of `{name}`: {', '.join(fields)}; of the change: {', '.join(found)}",
        )
    twice = [n for n in low if low.count(n) > 1]
    if twice:
        raise BadChange(
            f"the change of `{name}` has two columns `{twice[0]}`",
            hint="upper and lower case are the same in names; leave one out",
        )


def _cast(name: str, n: str, values: Any, t: KeyType, zone: str, cast: bool) -> Any:
    """A column of an Arrow table in the type of the source."""
    try:
        made = in_type(values, t, zone, cast)
    except KeyError as e:
        raise no_zone(f"the change of `{name}`", n, zone) from e
    except NOT_FITTING as e:
        if cast:  # to say which value it is
            return converted(name, RecordType(((n, t),)), {n: values.to_pylist()}, zone, cast)[n]
        raise BadChange(
            f"the column `{n}` of the change of `{name}` does not fit into {spark_type(t)}: {e}",
            hint="a value is too large or has too many digits",
        ) from e
    if made is None:
        raise BadChange(
            f"the column `{n}` of the change of `{name}` is {values.type}, and should be {spark_type(t)}",
            hint="cast it first, or apply(..., cast=True) where it is text or has fractions",
        )
    return made


# --- Spark DataFrames --------------------------------------------------------------------------------------------


def _frame(
    name: str,
    row: RecordType,
    data: DataFrame,
    root: Path,
    counts: Counts,
    cast: bool,
) -> Iterator[tuple[pa.Table, bool]]:
    """A DataFrame, evaluated in one job of its own session: tables, in order, and whether each is so large that it came as a file."""
    with telling(f"reading the change of `{name}`"):
        _columns_fit(name, row, data.columns)
        given = {f.name.lower(): f for f in data.schema.fields}
        for n, t in row.fields:
            found = given[n.lower()].dataType.simpleString()
            if not (_castable(found, spark_type(t)) or (cast and _readable(found))):
                raise BadChange(
                    f"the column `{n}` of the change of `{name}` is {found}, and should be {spark_type(t)}",
                    hint="cast it first",
                )
        cells = [
            f"CAST({column_name(given[n.lower()].name)} AS {spark_type(t)}) AS {column_name(n)}"
            for n, t in row.fields
        ]
        extra = [column_name(given[n].name) for n in (WEIGHT, CHANGE_TYPE) if n in given]
        parts = data.selectExpr(*cells, *extra).mapInArrow(
            _stager(str(root)), "file string, content binary, rows bigint"
        )
        counts.jobs += 1
        counts.hops += 1
        with showing(data.sparkSession, f"reading the change of `{name}`"):
            found_parts = parts.toArrow().to_pylist()
    for part in found_parts:
        if part["file"] is None:
            with pa.ipc.open_stream(part["content"]) as reader:
                yield reader.read_all(), False
        else:
            yield read_file(root / part["file"]), True
            (root / part["file"]).unlink(missing_ok=True)


def _stager(root: str) -> Any:
    def stage_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held, size = [], 0
        schema = pa.schema([("file", pa.string()), ("content", pa.binary()), ("rows", pa.int64())])

        def out(file: str | None, content: bytes | None, rows: int) -> pa.RecordBatch:
            return pa.RecordBatch.from_pylist(
                [{"file": file, "content": content, "rows": rows}], schema=schema
            )

        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size > 64 * INLINE:
                table = pa.Table.from_batches(held)
                yield out(write_file(Path(root), table), None, table.num_rows)
                held, size = [], 0
        if held:
            table = pa.Table.from_batches(held)
            if size > INLINE:
                yield out(write_file(Path(root), table), None, table.num_rows)
            else:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
                yield out(None, sink.getvalue().to_pybytes(), table.num_rows)

    return stage_partition


def _readable(given: str) -> bool:
    """Whether a column is of what `cast` reads as other types."""
    return given in ("string", "float", "double", *_RANK) or given.startswith("decimal")


_RANK = {"tinyint": 0, "smallint": 1, "int": 2, "bigint": 3}


def _castable(given: str, wanted: str) -> bool:
    """Whether Spark may cast a column without losing anything that it could hold."""
    if given == wanted or given == "void":
        return True
    if given in _RANK:
        return _RANK.get(wanted, -1) >= _RANK[given] or wanted.startswith(("decimal", "double"))
    if given.startswith(("char", "varchar")):
        return wanted == "string"
    if given.startswith("decimal"):  # too large a value is an error of Spark's, a digit lost is not
        return wanted.startswith("decimal") and _scale(given) <= _scale(wanted)
    return (given, wanted) in {("float", "double"), ("date", "timestamp")}


def _scale(decimal: str) -> int:
    return int(decimal.rstrip(")").rpartition(",")[2])
