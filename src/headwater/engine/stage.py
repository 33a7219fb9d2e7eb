"""Changes as users give them, staged once as tables with a weight.

A Spark DataFrame is evaluated in one job, in the session it came from: it may not be deterministic, or read a
directory that grows, and an increment must see one answer of it. Its partitions come back as Arrow, through the
driver while they are small and as files when they are not. Tables, pandas frames and rows are checked here. What
does not fit the source is told with its column and its row, and nothing has happened.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.calculus.types import (
    BIGINT,
    DATE,
    INTEGER,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Boxed,
    KeyType,
    ListType,
    MapType,
    RecordType,
)
from headwater.compiler.program import WEIGHT
from headwater.engine.session import Counts, quoted, telling
from headwater.engine.types import arrow_type, spark_type
from headwater.errors import BadChange, StateError
from headwater.state.directory import STAGING

CHANGE_TYPE = "_change_type"
SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
INLINE = 1 << 20
"""A partition of so many bytes comes back through the driver."""
FOLDER = STAGING
WEIGHTS = "a weight says how often the row is inserted, or deleted where it is negative"


@dataclass(frozen=True)
class Delta:
    """Rows to add and rows to take away; each a DataFrame, an Arrow table, a pandas frame, or a list of rows."""

    inserts: Any = None
    deletes: Any = None


@dataclass(frozen=True)
class Change:
    """Rows of a relation with `_w`: tables in memory, staged files, and ranges of a map that holds them."""

    tables: tuple[pa.Table, ...] = ()
    files: tuple[str, ...] = ()
    ranges: tuple[tuple[str, int, int], ...] = ()
    rows: int = 0

    @staticmethod
    def of(table: pa.Table) -> Change:
        """A table as a change."""
        return Change((table,), rows=table.num_rows)

    def with_rows(self, other: Change) -> Change:
        """Both changes as one."""
        return Change(
            (*self.tables, *other.tables),
            (*self.files, *other.files),
            (*self.ranges, *other.ranges),
            self.rows + other.rows,
        )


def read_file(path: Path) -> pa.Table:
    """A staged file, mapped."""
    with pa.memory_map(str(path)) as f:
        return pa.ipc.open_file(f).read_all()


def write_file(root: Path, table: pa.Table) -> str:
    """A table as a staged file; gives its name."""
    name = f"{FOLDER}/{uuid.uuid4().hex}.arrow"
    try:
        (root / FOLDER).mkdir(parents=True, exist_ok=True)
        if (root / FOLDER).is_symlink():
            raise OSError(errno.ELOOP, "it is a link, and none is followed")
        with pa.OSFile(str(root / name), "wb") as f, pa.ipc.new_file(f, table.schema) as out:
            out.write_table(table)
    except OSError as e:
        raise StateError(
            f"a change could not be staged in {root / FOLDER}: {e.strerror or e}",
            hint="nothing was committed; make room or mend the disk, and apply the same change again",
        ) from e
    return name


def schema_of(row: RecordType) -> pa.Schema:
    """The columns of a staged change."""
    return pa.schema([*((n, arrow_type(t)) for n, t in row.fields), (WEIGHT, pa.int64())])


def stage(
    name: str, row: RecordType, given: Any, root: Path, counts: Counts, zone: str = "UTC"
) -> Change:
    """A change of a source, evaluated once; times of day without a zone are of the one given."""
    parts = [(given.inserts, 1), (given.deletes, -1)] if isinstance(given, Delta) else [(given, 1)]
    tables: list[pa.Table] = []
    files: list[str] = []
    rows = 0
    for data, sign in parts:
        if data is None:
            continue
        if isinstance(data, DataFrame):
            staged = _frame(name, row, data, sign, root, counts)
        else:
            table = checked(name, row, _table(name, row, data, zone), sign)
            staged = Change.of(table)
        tables += staged.tables
        files += staged.files
        rows += staged.rows
    if not tables and not files:
        tables = [schema_of(row).empty_table()]
    return Change(tuple(tables), tuple(files), rows=rows)


# --- tables in this process ------------------------------------------------------------------------------------


def _table(name: str, row: RecordType, data: Any, zone: str) -> pa.Table:
    match data:
        case pa.Table():
            return data
        case pa.RecordBatch():
            return pa.Table.from_batches([data])
        case pd.DataFrame():
            _columns_fit(name, row, [str(c) for c in data.columns])
            return _converted(name, row, {str(c): data[c] for c in data.columns}, zone)
        case str() | bytes() | Mapping():
            raise BadChange(
                f"the change of `{name}` is of type {type(data).__name__}",
                hint="give a DataFrame, an Arrow table, a pandas frame, or a list of rows",
            )
        case Iterable():
            return _from_rows(name, row, list(data), zone)
    raise BadChange(
        f"the change of `{name}` is of type {type(data).__name__}",
        hint="give a DataFrame, an Arrow table, a pandas frame, or a list of rows",
    )


def _from_rows(name: str, row: RecordType, rows: Sequence[Any], zone: str) -> pa.Table:
    fields = [n for n, _ in row.fields]
    if not rows:
        return schema_of(row).empty_table()
    if all(isinstance(r, Mapping) for r in rows):
        return _from_dicts(name, row, rows, zone)
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
    return _converted(name, row, {n: [r[i] for r in rows] for i, n in enumerate(names)}, zone)


def _from_dicts(
    name: str, row: RecordType, rows: Sequence[Mapping[Any, Any]], zone: str
) -> pa.Table:
    fields = [n for n, _ in row.fields]
    if not all(n in r for r in rows for n in fields):  # names in another case, or missing
        right = {n.lower(): n for n in fields}
        rows = [{right.get(str(k).lower(), k): v for k, v in r.items()} for r in rows]
    for i, r in enumerate(rows):
        missing = [n for n in fields if n not in r]
        if missing:
            raise BadChange(
                f"row {i + 1} of the change of `{name}` has no `{missing[0]}`",
                hint=f"columns of `{name}`: {', '.join(fields)}; a missing value is None",
            )
    names = list(dict.fromkeys(k for r in rows for k in r))
    _columns_fit(name, row, [str(n) for n in names])
    return _converted(name, row, {str(n): [r.get(n) for r in rows] for n in names}, zone)


INTEGERS = (TINYINT, SMALLINT, INTEGER, BIGINT)
NESTED = (Boxed, ListType, RecordType)
NOT_FITTING = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _converted(name: str, row: RecordType, columns: Mapping[str, Any], zone: str) -> pa.Table:
    """Columns of Python values in the types of the source; the first that does not fit is named."""
    types: dict[str, Any] = {n.lower(): t for n, t in row.fields}
    out = {}
    for n, values in columns.items():
        t = BIGINT if n == WEIGHT else types.get(n.lower())
        if t is None:
            out[n] = pa.array([None if v is None else str(v) for v in values], pa.string())
            continue
        try:
            if t == TIMESTAMP and zone != "UTC":
                values = _zoned(name, n, values, zone)
            elif isinstance(t, NESTED):
                values = [_inside(v, t, zone) for v in values]
            out[n] = _array(values, arrow_type(t))
        except NOT_FITTING:
            out[n] = _one_by_one(name, n, values, t, zone)
    return pa.table(out)


def one_value(value: Any, t: KeyType, zone: str) -> pa.Array:
    """One value in a type, as it would be staged; raises what is in `NOT_FITTING`."""
    return _array([_inside(value, t, zone)], arrow_type(t))


def _inside(value: Any, t: KeyType, zone: str) -> Any:
    """A value with what is inside of it checked as columns are: names without case, no number for another kind."""
    if value is None or (isinstance(value, float) and value != value):
        return value
    match t:
        case Boxed(MapType(element, _)) | ListType(element):
            if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
                raise TypeError
            return [_inside(v, element, zone) for v in value]
        case RecordType(fields):
            row = value.asDict() if hasattr(value, "asDict") else value
            if isinstance(row, Mapping):
                low = {str(k).lower(): v for k, v in row.items()}
                if set(low) != {n.lower() for n, _ in fields}:
                    raise TypeError
                row = [low[n.lower()] for n, _ in fields]
            if not isinstance(row, (tuple, list)):
                raise TypeError
            pairs = zip(fields, row, strict=True)
            return {n: _inside(v, f, zone) for (n, f), v in pairs}
    whole = (int, float) if t in (DATE, TIMESTAMP, TIMESTAMP_NTZ) else float
    if t in (DATE, TIMESTAMP, TIMESTAMP_NTZ, *INTEGERS) and isinstance(value, whole):
        raise TypeError
    naive = isinstance(value, datetime) and value is not pd.NaT and value.tzinfo is None
    if t == TIMESTAMP and zone != "UTC" and naive:
        try:
            return value.replace(tzinfo=ZoneInfo(zone))
        except (KeyError, OSError) as e:
            raise ValueError from e  # a zone that has no name in Python: the value does not fit
    return value


def _zoned(name: str, column: str, values: Any, zone: str) -> list[Any]:
    """Times with a zone; those without one are taken as Spark would, in the zone of the session."""
    times = [v.to_pydatetime() if isinstance(v, pd.Timestamp) else v for v in values]
    naive = [isinstance(v, datetime) and v is not pd.NaT and v.tzinfo is None for v in times]
    if not any(naive):
        return times
    try:
        here = ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as e:
        raise BadChange(
            f"row {naive.index(True) + 1} of the change of `{name}` has a time without a zone in `{column}`",
            hint=f"give it with one: the time zone of this database, {zone}, has no name that Python knows",
        ) from e
    return [v.replace(tzinfo=here) if n else v for v, n in zip(times, naive, strict=True)]


def _array(values: Any, t: pa.DataType) -> pa.Array:
    """Values as an array; unlike Arrow it takes no fraction for a whole number, and no number for a time."""
    if isinstance(values, pd.Series) and values.dtype != object:
        given = pa.array(values, from_pandas=True)
        if pa.types.is_floating(given.type) and pa.types.is_integer(t):
            return given.cast(t)  # pandas keeps whole numbers with gaps so; a fraction is an error
        if not fits(given.type, t):
            raise TypeError
        return pa.array(values, t, from_pandas=True)
    values = list(values)
    if pa.types.is_integer(t) and any(isinstance(v, float) and v == v for v in values):
        raise TypeError
    if pa.types.is_temporal(t) and any(isinstance(v, (int, float)) and v == v for v in values):
        raise TypeError
    return pa.array(values, t, from_pandas=pa.types.is_integer(t) or pa.types.is_temporal(t))


def _one_by_one(name: str, column: str, values: Any, t: Any, zone: str) -> pa.Array:
    """The column again, value by value, to name the one that does not fit."""
    arrays = []
    for i, v in enumerate(values):
        try:
            arrays.append(one_value(v, t, zone))
        except NOT_FITTING as e:
            raise BadChange(
                f"row {i + 1} of the change of `{name}`: {v!r} is no {spark_type(t)} for the column `{column}`",
                hint=WEIGHTS if column == WEIGHT else "give a value of that type, or None",
            ) from e
    return pa.concat_arrays(arrays)


def checked(name: str, row: RecordType, table: pa.Table, sign: int) -> pa.Table:
    """A table with the source's columns in their order and types, and signed weights."""
    given = {n.lower(): n for n in table.column_names}
    _columns_fit(name, row, list(table.column_names))
    arrays = []
    for n, t in row.fields:
        values = table.column(given[n.lower()])
        wanted = arrow_type(t)
        if values.type != wanted:
            values = _cast(name, n, values, t, wanted)
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
                hint=f"it is one of {', '.join(SIGNS)}",
            )
        weights = weights * np.array([SIGNS[k] for k in kinds], np.int64)
    return pa.table([*arrays, pa.array(weights * sign)], schema=schema_of(row))


def _columns_fit(name: str, row: RecordType, found: list[str]) -> None:
    fields = [n for n, _ in row.fields]
    low = [n.lower() for n in found]
    missing = [n for n in fields if n.lower() not in low]
    allowed = {n.lower() for n in fields} | {
        WEIGHT,
        CHANGE_TYPE,
        "_commit_version",
        "_commit_timestamp",
        "_version",
    }
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


def _cast(name: str, n: str, values: Any, t: Any, wanted: pa.DataType) -> Any:
    if not fits(values.type, wanted):
        raise BadChange(
            f"the column `{n}` of the change of `{name}` is {values.type}, and should be {spark_type(t)}",
            hint="cast it first",
        )
    try:
        return values.cast(wanted)
    except pa.ArrowException as e:
        raise BadChange(
            f"the column `{n}` of the change of `{name}` does not fit into {spark_type(t)}: {e}",
            hint="a value is too large or has too many digits",
        ) from e


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column may be taken as another type: the same kind of thing, and no guessing."""
    kinds = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_date,
        lambda t: (
            pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)
        ),
        lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t),
    )
    if pa.types.is_null(given) or given == wanted:
        return True
    if pa.types.is_dictionary(given):
        return fits(given.value_type, wanted)
    if any(k(given) and k(wanted) for k in kinds):
        return True
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if pa.types.is_large_list(wanted):
        return any(k(given) for k in lists) and fits(given.value_type, wanted.value_type)
    if pa.types.is_struct(wanted) and pa.types.is_struct(given):
        names = {f.name for f in given}
        return all(f.name in names and fits(given.field(f.name).type, f.type) for f in wanted)
    if pa.types.is_decimal(wanted):
        return bool(pa.types.is_integer(given) or pa.types.is_decimal(given))
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(given)) and (given.tz is None) == (wanted.tz is None)
    return bool(pa.types.is_floating(wanted) and pa.types.is_integer(given))


# --- Spark DataFrames --------------------------------------------------------------------------------------------


def _frame(
    name: str, row: RecordType, data: DataFrame, sign: int, root: Path, counts: Counts
) -> Change:
    """A DataFrame, evaluated in one job of its own session."""
    with telling(f"reading the change of `{name}`"):
        _columns_fit(name, row, data.columns)
        given = {f.name.lower(): f for f in data.schema.fields}
        for n, t in row.fields:
            found = given[n.lower()].dataType.simpleString()
            if not _castable(found, spark_type(t)):
                raise BadChange(
                    f"the column `{n}` of the change of `{name}` is {found}, and should be {spark_type(t)}",
                    hint="cast it first",
                )
        cells = [
            f"CAST({quoted(given[n.lower()].name)} AS {spark_type(t)}) AS {quoted(n)}"
            for n, t in row.fields
        ]
        extra = [quoted(given[n].name) for n in (WEIGHT, CHANGE_TYPE) if n in given]
        parts = data.selectExpr(*cells, *extra).mapInArrow(
            _stager(str(root)), "file string, content binary, rows bigint"
        )
        counts.jobs += 1
        counts.hops += 1
        found_parts = parts.toArrow().to_pylist()
    tables, files, rows = [], [], 0
    for part in found_parts:
        rows += part["rows"]
        if part["file"] is None:
            with pa.ipc.open_stream(part["content"]) as reader:
                tables.append(checked(name, row, reader.read_all(), sign))
        else:
            table = checked(name, row, read_file(root / part["file"]), sign)
            files.append(write_file(root, table))
            (root / part["file"]).unlink(missing_ok=True)
    return Change(tuple(tables), tuple(files), rows=rows)


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
