"""Columns of records that their source does not have, where it is declared with new_columns=add: which they are, and of which types.

A feed that meets one says so in place of a batch (`NewColumns`), and reads the same again once the source has it. Text without types
(CSV, XML) gives STRING; JSON gives BOOLEAN, BIGINT, DOUBLE or STRING; Parquet what it has. A column of nothing but NULL has no type yet,
and is passed over; one that is nested is to be declared by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from headwater.calculus.types import RecordType
from headwater.errors import BadChange
from headwater.interop.arrow_types import arrow_type
from headwater.interop.scalar_types import SCALAR_TYPES
from headwater.interop.spark_text import column_name
from headwater.io.events import BESIDE

ADD = "add"
_WIDER = {
    pa.uint8(): "SMALLINT",
    pa.uint16(): "INT",
    pa.uint32(): "BIGINT",
    pa.uint64(): "DECIMAL(20,0)",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "BINARY",
    pa.float16(): "FLOAT",
    pa.date64(): "DATE",
}


class NewColumns(BadChange):
    """Records have columns that their source does not have, and that it is to get: `columns` says them as DDL."""

    def __init__(self, source: str, columns: str):
        super().__init__(
            f"records of `{source}` have new columns: {columns}",
            hint=f"the source gets them: declare it with {columns}",
        )
        self.columns = columns


def known(source: str, row: RecordType, table: pa.Table, typed: bool) -> pa.Table:
    """A table with the columns of its source, NULL where it lacks one; `NewColumns` where it has others that have a type."""
    mine = {n.lower() for n, _ in row.fields}
    there = {n.lower() for n in table.column_names}
    new = [f for f in table.schema if f.name.lower() not in mine | {*BESIDE}]
    said = [(f.name, _ddl(source, f, typed)) for f in new]
    _raise(source, said)
    table = table.drop_columns([f.name for f in new])
    for n, t in row.fields:
        if n.lower() not in there:
            table = table.append_column(n, pa.nulls(table.num_rows, arrow_type(t)))
    return table


def check_record(source: str, row: RecordType, record: Mapping[str, Any]) -> None:
    """Raises where an object of JSON has keys that its source does not have, and that have a type."""
    mine = {n.lower() for n, _ in row.fields}
    new = {n: v for n, v in record.items() if n.lower() not in mine}
    try:
        table = pa.Table.from_pylist([new]) if new else pa.table({})
    except pa.ArrowException as e:
        raise BadChange(f"`{min(new)}` is new, and of no type: {e}", hint="mend it") from e
    _raise(source, [(f.name, _ddl(source, f, False)) for f in table.schema])


def _raise(source: str, said: Iterable[tuple[str, str]]) -> None:
    ddl = ", ".join(f"{column_name(n)} {t}" for n, t in said if t)
    if ddl:
        raise NewColumns(source, ddl)


def _ddl(source: str, field: pa.Field, typed: bool) -> str:
    """The type of a new column; none where it has nothing but NULL."""
    t = field.type
    if pa.types.is_null(t):
        return ""
    if pa.types.is_decimal(t) and t.precision <= 38:
        return f"DECIMAL({t.precision},{t.scale})"
    if pa.types.is_timestamp(t):
        return ("TIMESTAMP" if t.tz else "TIMESTAMP_NTZ") if typed else "STRING"
    found = _WIDER.get(t) or next((s.ddl[0] for s in SCALAR_TYPES if s.arrow == t and s.ddl), "")
    if not found:
        raise BadChange(
            f"the new column `{field.name}` of `{source}` is {t}, which is not added by itself",
            hint="declare the source again with it",
        )
    return found
