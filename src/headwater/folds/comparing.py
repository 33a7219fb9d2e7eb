"""Two pipelines compared, whatever they are: their outputs as one schema orders them, and where they first differ.

A side is events, a stream of a database, or tables by header: Spark DataFrames, pandas frames, Arrow tables, lists of rows.
Tables have no order between them, and a DataFrame has none at all; where the schema asks for one, it is that of a column
(`order`, ties broken by the row itself), or the order in which a stream told its rows (`_version`, `_place`). So what is
compared is what the schema says that matters, and nothing else: rows of a bag may come in any order, those of a sequence not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.calculus.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Base,
    decimal,
)
from headwater.engine.view_rows import repeated
from headwater.errors import QueryError, SchemaMismatch
from headwater.folds.fold import events_of
from headwater.folds.keeping import PLACE, VERSION
from headwater.folds.ready import Ordered
from headwater.plan.program import WEIGHT
from headwater.streams.columns import fields, sort_key
from headwater.streams.differ import Difference
from headwater.streams.differ import differ as first_difference
from headwater.streams.order import dependence
from headwater.streams.schema import Event, Header, Headers, Schema, check, headers_of, parse
from headwater.streams.stream import Stream, flatten

Row = tuple[Any, ...]
OWN = (WEIGHT, PLACE, VERSION)
"""Columns that tables of a database have beside their rows."""
NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"})


def differ(
    schema: Schema | str,
    left: Any,
    right: Any,
    *,
    order: str | Mapping[str, str] | None = None,
    headers: Mapping[str, str | Header] | None = None,
) -> Difference | None:
    """Where two streams first differ, or None: they are the same stream of the schema.

    Each side is a table by header, `{"rates": frame}`, or one table where there is one header; a stream of a database,
    `db["taxis"]`; a `Stream`, or events in order. Tables are Spark DataFrames (brought to the driver), pandas frames,
    Arrow tables and lists of rows. `order` is the column that rows are ordered by, one for all headers or one for each:
    it is needed where the schema orders rows and the tables do not say how. `headers` declares columns,
    `{"rates": "hour TIMESTAMP, rate DOUBLE"}`, where both sides are lists.
    """
    made = parse(schema) if isinstance(schema, str) else schema
    sides = (_side("left", made, left), _side("right", made, right))
    known = {h: _header(h, sides, (headers or {}).get(h)) for h in headers_of(made)}
    check(made, known)
    ordered = [_in_order(side, made, known, order) for side in sides]
    return first_difference(made, known, *ordered)


# --- what is given -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Side:
    """One of two streams as it was given: events in order, or tables by header."""

    name: str
    events: Sequence[Event] | None
    tables: Mapping[str, Any]
    unordered: bool = False
    """Whether the tables have no order of their own: DataFrames, and relations of a database, which have weights."""


def _side(name: str, schema: Schema, given: Any) -> _Side:
    names = headers_of(schema)
    if isinstance(given, Stream):
        return _Side(name, flatten(given), {})
    if hasattr(given, "output_table"):  # a stream of a database
        mine = [h for h in names if h in given.outputs]
        return _Side(name, None, {h: _table(given.output_table(h)) for h in mine})
    if isinstance(given, Mapping):
        unknown = [h for h in given if h not in names]
        if unknown:
            raise QueryError(
                f"the {name} side has `{unknown[0]}`, which is no header of `{schema}`",
                hint=f"headers: {', '.join(names)}",
            )
        tables = {h: _table(t) for h, t in given.items()}
        return _Side(name, None, tables, any(map(_unordered, given.values())))
    if isinstance(given, DataFrame | pd.DataFrame | pa.Table | pa.RecordBatch):
        if len(names) != 1:
            raise QueryError(
                f"the {name} side is one table, and `{schema}` has {len(names)} headers",
                hint=f"give a table for each: {{{', '.join(f'{h!r}: ...' for h in names)}}}",
            )
        return _Side(name, None, {names[0]: _table(given)}, _unordered(given))
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return _of_rows(name, names, list(given))
    raise QueryError(
        f"the {name} side is of type {type(given).__name__}",
        hint="give a DataFrame, a pandas frame, an Arrow table, rows, events, or a stream of a database",
    )


def _of_rows(name: str, names: tuple[str, ...], given: list[Any]) -> _Side:
    """A list of events, or of rows of the only header."""
    if all(
        isinstance(e, tuple) and len(e) == 2 and e[0] in names and isinstance(e[1], tuple)
        for e in given
    ):
        return _Side(name, [Event(*e) for e in given], {names[0]: []} if len(names) == 1 else {})
    if len(names) != 1:
        raise QueryError(
            f"the {name} side is a list of rows, and there are {len(names)} headers",
            hint=f"give events, ('{names[0]}', row), or a table for each header",
        )
    return _Side(name, None, {names[0]: given})


def _unordered(given: Any) -> bool:
    return isinstance(given, DataFrame) or (
        isinstance(given, pa.Table) and WEIGHT in given.column_names
    )


def _table(given: Any) -> Any:
    """A table as Arrow has it; a list stays one."""
    match given:
        case DataFrame():
            found = given.toArrow()
        case pd.DataFrame():
            found = pa.Table.from_pandas(given, preserve_index=False)
        case pa.RecordBatch():
            found = pa.Table.from_batches([given])
        case pa.Table():
            found = given
        case _:
            return list(given)
    return repeated(found) if WEIGHT in found.column_names else found


# --- columns -------------------------------------------------------------------------------------------------------


def _header(name: str, sides: Sequence[_Side], declared: str | Header | None) -> Header:
    """The columns of a header: as declared, or those of the tables, which must be the same on both sides."""
    tables = [(s.name, t) for s in sides if isinstance(t := s.tables.get(name), pa.Table)]
    if declared is not None:
        made = Header(name, fields(declared))
    elif tables:
        side, table = tables[0]
        made = Header(name, _columns(name, side, table))
    else:
        raise QueryError(
            f"the columns of `{name}` are not known: it is given as rows",
            hint=f"declare them: headers={{'{name}': 'ts TIMESTAMP, price BIGINT'}}",
        )
    for side, table in tables:
        found = dict(_columns(name, side, table))
        for column, kind in made.fields:
            if column not in found:
                raise SchemaMismatch(
                    f"the {side} table of `{name}` has no column `{column}`",
                    hint=f"columns of it: {', '.join(found)}",
                )
            if not _comparable(kind, found[column]):
                raise SchemaMismatch(
                    f"`{column}` of `{name}` is {kind}, and {found[column]} on the {side}: no value of one is equal to one of the other",
                    hint=f"give `{column}` one type on both sides",
                )
        more = [c for c in found if c not in made.columns]
        if more:
            raise SchemaMismatch(
                f"the {side} table of `{name}` has a column `{more[0]}`, which the other side has not",
                hint="select the columns that are to be compared",
            )
    return made


def _columns(name: str, side: str, table: pa.Table) -> tuple[tuple[str, Base], ...]:
    found = []
    for field in table.schema:
        if field.name in OWN:
            continue
        kind = _type(field.type)
        if kind is None:
            raise QueryError(
                f"`{field.name}` of the {side} table of `{name}` is {field.type}, which is not compared",
                hint="leave it out, or make single values of it",
            )
        found.append((field.name, kind))
    return tuple(found)


def _type(arrow: pa.DataType) -> Base | None:
    """The type of an Arrow column; numbers are those that hold them all."""
    is_ = pa.types
    if is_.is_boolean(arrow):
        return BOOLEAN
    if is_.is_integer(arrow):
        return BIGINT
    if is_.is_floating(arrow) or is_.is_null(arrow):
        return DOUBLE
    if is_.is_decimal(arrow):
        return decimal(arrow.precision, arrow.scale)
    if is_.is_string(arrow) or is_.is_large_string(arrow):
        return STRING
    if is_.is_binary(arrow) or is_.is_large_binary(arrow):
        return BINARY
    if is_.is_date(arrow):
        return DATE
    if is_.is_timestamp(arrow):
        return TIMESTAMP if arrow.tz else TIMESTAMP_NTZ
    return None


def _comparable(one: Base, other: Base) -> bool:
    return one == other or {one.name, other.name} <= NUMBERS


# --- rows in order -------------------------------------------------------------------------------------------------


def _in_order(
    side: _Side, schema: Schema, headers: Headers, order: str | Mapping[str, str] | None
) -> list[Event]:
    """The events of a side in an order that the schema may ask for."""
    if side.events is not None:
        return [
            Event(h, _made(headers[h], r)) if h in headers else Event(h, r) for h, r in side.events
        ]
    tables = dict(side.tables)
    told = [h for h, t in tables.items() if isinstance(t, pa.Table) and PLACE in t.column_names]
    if order is None and told and len(told) == len(tables):
        return events_of(tables, headers)
    events = {h: _rows(headers[h], t, side.name) for h, t in tables.items()}
    asked = dependence(schema)
    if order is not None:
        return _sorted(side, schema, headers, events, order)
    if any(h != g for h, g in asked) or (asked and side.unordered):
        h, g = min(asked, key=lambda pair: (pair[0] == pair[1], pair))
        why = f"the order of `{h}` and `{g}`" if h != g else f"the order of the rows of `{h}`"
        raise QueryError(
            f"the {side.name} side does not say {why}, on which `{schema}` depends",
            hint="name the column that orders them: order='ts', or order={'rates': 'hour', 'outliers': 'ts'}",
        )
    return [Event(h, row) for h, rows in events.items() for row in rows]


def _rows(header: Header, table: Any, side: str) -> list[Row]:
    if not isinstance(table, pa.Table):
        return [_made(header, row) for row in table]
    columns = [table.column(n).to_pylist() for n in header.columns]
    return [header.row(*cells) for cells in zip(*columns, strict=True)]


def _made(header: Header, row: Any) -> Row:
    """A row that was given as a tuple or a dict, with its columns as attributes; a time without a zone is UTC."""
    cells = [row[c] for c in header.columns] if isinstance(row, Mapping) else list(row)
    if len(cells) != len(header.columns):
        raise QueryError(
            f"a row of `{header.name}` has {len(cells)} values, not {len(header.columns)}: {row!r}",
            hint=f"columns of `{header.name}`: {', '.join(header.columns)}",
        )
    for i, (_, kind) in enumerate(header.fields):
        if kind == TIMESTAMP and isinstance(cells[i], datetime) and cells[i].tzinfo is None:
            cells[i] = cells[i].replace(tzinfo=UTC)
    return header.row(*cells)


def _sorted(
    side: _Side,
    schema: Schema,
    headers: Headers,
    events: Mapping[str, list[Row]],
    order: str | Mapping[str, str],
) -> list[Event]:
    """Rows by a column of each header: a mark at T stands before the rows at T, and the row itself breaks ties."""
    ranks = Ordered(schema, {}).ranks()
    keyed = []
    for h, rows in events.items():
        column = order if isinstance(order, str) else order.get(h)
        if column is None or column not in headers[h].columns:
            raise QueryError(
                f"`{h}` has no order column" + ("" if column is None else f" `{column}`"),
                hint=f"columns of `{h}`: {', '.join(headers[h].columns)}; order={{'{h}': 'column'}}",
            )
        at = headers[h].columns.index(column)
        for row in rows:
            if row[at] is None:
                raise QueryError(
                    f"a row of `{h}` on the {side.name} has NULL in `{column}`, by which it is ordered: {tuple(row)!r}",
                    hint="leave such rows out, or compare them as a bag of their own",
                )
            keyed.append((row[at], ranks[h], sort_key(row), h, row))
    keyed.sort(key=lambda item: item[:3])
    return [Event(h, row) for _, _, _, h, row in keyed]
