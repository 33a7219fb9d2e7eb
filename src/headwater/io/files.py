"""Files of rows, read in this process: Parquet, CSV, JSON with an object a line, XML and lines of text, in the columns of a source.

Parquet has types, and is taken as an Arrow table is. Text is read by the types of the source, as `apply(cast=True)` reads
it, so that a number or time in a file is what Spark's CAST makes of it, and what is none is an error with its row. In CSV
a field without quotes that is empty, or is `null_value`, is NULL.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from headwater.calculus.types import (
    BINARY,
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Boxed,
    KeyType,
    ListType,
    MapType,
    RecordType,
)
from headwater.errors import QueryError
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import WEIGHT

FORMATS = ("parquet", "csv", "json", "xml", "text")
KIND = "_change_type"
UNREADABLE = (pa.ArrowException, OSError, UnicodeError, csv.Error, ElementTree.ParseError)
"""What a file that is of another format raises."""
_NESTED = (Boxed, ListType, RecordType)


def check_held(source: str, row: RecordType, format: str) -> None:
    """Raises where files of a format cannot hold rows of a source."""
    if format == "text" and [t for _, t in row.fields] != [STRING]:
        raise QueryError(
            f"`{source}` has other columns than one of text, and text files have lines",
            hint="declare one column: line STRING",
        )
    for n, t in row.fields:
        nested = format in ("csv", "xml") and isinstance(t, _NESTED)
        if nested or (format != "parquet" and t == BINARY):
            told = "an array or struct" if nested else "BINARY"
            raise QueryError(
                f"`{n}` of `{source}` is {told}, which {format} files do not hold",
                hint="take parquet, or json for arrays",
            )


def parse(
    data: Path | bytes,
    row: RecordType,
    format: str,
    options: Mapping[str, str],
    names: Sequence[str] = (),
) -> pa.Table:
    """The rows of a file or of some bytes, to be applied with `cast` where they are text; raises what is in `UNREADABLE`.

    `names` are the columns of CSV whose header was read before.
    """
    return _READERS[format](data, row, options, names)


def _open(data: Path | bytes) -> Any:
    return data if isinstance(data, Path) else pa.BufferReader(data)


def _parquet(
    data: Path | bytes, row: RecordType, options: Mapping[str, str], names: Sequence[str]
) -> pa.Table:
    with pq.ParquetFile(_open(data)) as file:
        return file.read()


def _csv(
    data: Path | bytes, row: RecordType, options: Mapping[str, str], names: Sequence[str]
) -> pa.Table:
    """Every column as text; names come from the first line, or, without a header, from the source in its order."""
    skip = 0
    if not names:
        skip = int(options.get("header", "true") == "true")
        names = [n for n, _ in row.fields]
        if skip:
            with _text(data) as lines:
                names = next(csv.reader(lines, delimiter=options.get("delimiter", ",")), [])
    types = {n: pa.int64() if n == WEIGHT else pa.large_string() for n in names}
    nulls = list(dict.fromkeys(["", options.get("null_value", "")]))
    return pa_csv.read_csv(
        _open(data),
        pa_csv.ReadOptions(column_names=names, skip_rows=0, skip_rows_after_names=skip),
        pa_csv.ParseOptions(delimiter=options.get("delimiter", ","), newlines_in_values=True),
        pa_csv.ConvertOptions(
            column_types=types,
            null_values=nulls,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _text(data: Path | bytes) -> Any:
    if isinstance(data, Path):
        return data.open(encoding="utf-8-sig", newline="")
    return io.StringIO(data.decode("utf-8-sig"), newline="")


def _json(
    data: Path | bytes, row: RecordType, options: Mapping[str, str], names: Sequence[str]
) -> pa.Table:
    """An object a line; keys that are missing are NULL, and times are text until they are cast."""
    schema = pa.schema([(n, _json_type(t)) for n, t in row.fields])
    other = "infer"
    if options.get("new_columns") == "ignore":
        schema = schema.append(pa.field(WEIGHT, pa.int64())).append(pa.field(KIND, pa.string()))
        other = "ignore"
    table = pa_json.read_json(
        _open(data),
        parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=other),
    )
    for n in (WEIGHT, KIND) if other == "ignore" else ():
        if table.column(n).null_count == table.num_rows:
            table = table.drop_columns([n])
    for n, t in row.fields:
        if isinstance(t, _NESTED):
            at = table.column_names.index(n)
            table = table.set_column(at, n, table.column(n).cast(arrow_type(t)))
    return table


def _lines(
    data: Path | bytes, row: RecordType, options: Mapping[str, str], names: Sequence[str]
) -> pa.Table:
    """A line a row, in the only column; lines end with a newline, before which a carriage return is dropped."""
    raw = data.read_bytes() if isinstance(data, Path) else data
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    lines = raw.decode("utf-8").split("\n")
    if lines and not lines[-1]:
        del lines[-1]
    return pa.table({row.fields[0][0]: [x.removesuffix("\r") for x in lines]})


def _xml(
    data: Path | bytes, row: RecordType, options: Mapping[str, str], names: Sequence[str]
) -> pa.Table:
    """An element of the name `row_tag` a row: its attributes, and the text of what is inside of it, by the names of columns."""
    tag = options.get("row_tag", "row")
    fields = [n for n, _ in row.fields]
    rows: list[dict[str, str | None]] = []
    for _, element in ElementTree.iterparse(_open_plain(data)):
        if _local(element.tag) == tag:
            cells: dict[str, str | None] = {_local(k): v for k, v in element.attrib.items()}
            cells |= {_local(c.tag): c.text for c in element}
            rows.append(cells)
            element.clear()
    found = list(dict.fromkeys([*fields, *(k for r in rows for k in r)]))
    return pa.table({n: pa.array([r.get(n) for r in rows], pa.large_string()) for n in found})


def _open_plain(data: Path | bytes) -> Any:
    return str(data) if isinstance(data, Path) else io.BytesIO(data)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _json_type(t: KeyType) -> pa.DataType:
    match t:
        case RecordType(fields):
            return pa.struct([(n, _json_type(f)) for n, f in fields])
        case Boxed(MapType(key, _)) | ListType(key):
            return pa.list_(_json_type(key))
    return pa.string() if t in (DATE, TIMESTAMP, TIMESTAMP_NTZ) else arrow_type(t)


_READERS: dict[str, Callable[..., pa.Table]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
    "xml": _xml,
    "text": _lines,
}
