"""Files of rows, read in this process: Parquet, CSV and JSON with an object a line, in the columns of a source.

Parquet has types, and is taken as an Arrow table is. Text is read by the types of the source, as `apply(cast=True)` reads
it, so that a number or time in a file is what Spark's CAST makes of it, and what is none is an error with its row. In CSV
a field without quotes that is empty, or is `null_value`, is NULL.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from headwater.calculus.types import (
    BINARY,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Boxed,
    KeyType,
    ListType,
    MapType,
    RecordType,
)
from headwater.errors import BadChange, QueryError
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import WEIGHT

FORMATS = ("parquet", "csv", "json")
MOST_FILES, MOST_BYTES = 100, 256 << 20
"""What is read at a time unless the options say otherwise."""
_AMOUNTS = ("max_files", "max_bytes")
_OF_CSV = ("header", "delimiter", "null_value")
_NESTED = (Boxed, ListType, RecordType)


def checked_options(source: str, format: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """The options of a directory as text; QueryError names what means nothing."""
    if format not in FORMATS:
        told = "has a path and no format" if format is None else f"has the format {format!r}"
        raise QueryError(f"the source `{source}` {told}", hint=f"one of {', '.join(FORMATS)}")
    known = (*_AMOUNTS, *(_OF_CSV if format == "csv" else ()))
    out: dict[str, str] = {}
    for name, value in options.items():
        if name not in known:
            raise QueryError(
                f"the option `{name}` of `{source}` means nothing for {format} files",
                hint=f"options: {', '.join(known)}",
            )
        out[name] = str(value).lower() if isinstance(value, bool) else str(value)
        _check_option(source, name, out[name])
    return out


def _check_option(source: str, name: str, value: str) -> None:
    wanted = {
        "header": (value in ("true", "false"), "true or false"),
        "delimiter": (len(value) == 1 and value not in '"\r\n', "one character"),
        "null_value": (True, "text"),
    }
    right, hint = wanted.get(name, (value.isdecimal() and int(value) > 0, "a number above 0"))
    if not right:
        raise QueryError(f"the option `{name}` of `{source}` is {value!r}", hint=f"give {hint}")


def check_held(source: str, row: RecordType, format: str) -> None:
    """Raises where files of a format cannot hold rows of a source."""
    for n, t in row.fields:
        nested = format == "csv" and isinstance(t, _NESTED)
        if nested or (format != "parquet" and t == BINARY):
            told = "an array or struct" if nested else "BINARY"
            raise QueryError(
                f"`{n}` of `{source}` is {told}, which {format} files do not hold",
                hint="take parquet, or json for arrays",
            )


def limits(options: Mapping[str, str]) -> tuple[int, int]:
    """How many files and bytes are read at a time."""
    return int(options.get("max_files", MOST_FILES)), int(options.get("max_bytes", MOST_BYTES))


def read_file(path: Path, row: RecordType, format: str, options: Mapping[str, str]) -> pa.Table:
    """The rows of a file, to be applied with `cast` where it is text; BadChange says what is wrong with it."""
    try:
        return _READERS[format](path, row, options)
    except (pa.ArrowException, OSError, UnicodeError, csv.Error) as e:
        told = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        first = (told.splitlines() or [type(e).__name__])[0]
        raise BadChange(
            f"`{path.name}` cannot be read as {format}: {first}",
            hint="mend the file, or take it away",
        ) from e


def _parquet(path: Path, row: RecordType, options: Mapping[str, str]) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return file.read()


def _csv(path: Path, row: RecordType, options: Mapping[str, str]) -> pa.Table:
    """Every column as text; names come from the first line, or, without a header, from the source in its order."""
    delimiter, header = options.get("delimiter", ","), options.get("header", "true") == "true"
    names = [n for n, _ in row.fields]
    if header:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            names = next(csv.reader(lines, delimiter=delimiter), [])
    types = {n: pa.int64() if n == WEIGHT else pa.large_string() for n in names}
    nulls = list(dict.fromkeys(["", options.get("null_value", "")]))
    return pa_csv.read_csv(
        path,
        pa_csv.ReadOptions(column_names=names, skip_rows=0, skip_rows_after_names=int(header)),
        pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        pa_csv.ConvertOptions(
            column_types=types,
            null_values=nulls,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _json(path: Path, row: RecordType, options: Mapping[str, str]) -> pa.Table:
    """An object a line; keys that are missing are NULL, and times are text until they are cast."""
    schema = pa.schema([(n, _json_type(t)) for n, t in row.fields])
    table = pa_json.read_json(path, parse_options=pa_json.ParseOptions(explicit_schema=schema))
    for n, t in row.fields:
        if isinstance(t, _NESTED):
            at = table.column_names.index(n)
            table = table.set_column(at, n, table.column(n).cast(arrow_type(t)))
    return table


def _json_type(t: KeyType) -> pa.DataType:
    match t:
        case RecordType(fields):
            return pa.struct([(n, _json_type(f)) for n, f in fields])
        case Boxed(MapType(key, _)) | ListType(key):
            return pa.list_(_json_type(key))
    return pa.string() if t in (DATE, TIMESTAMP, TIMESTAMP_NTZ) else arrow_type(t)


_READERS: dict[str, Callable[[Path, RecordType, Mapping[str, str]], pa.Table]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
}
