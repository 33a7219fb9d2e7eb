"""Streams as they are given: events in order, or tables by header.

A table has no order between its rows and those of other tables, so tables are taken where a schema asks for none, or are
`merged` by a column of each: a mark at T stands before the rows at T, and ties between rows are broken by the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headwater.errors import HeadwaterError
from headwater.streams.columns import sort_key
from headwater.streams.order import dependence
from headwater.streams.schema import Event, Header, Headers, Schema, headers_of


def events_of(schema: Schema, headers: Headers, given: Any) -> Iterator[Event]:
    """The events of a stream as it is given: events, pairs, or tables by header (Arrow, or lists of rows).

    Tables say nothing of the order between headers, so they are taken only for a schema that asks for none: a table for
    each of the headers, none of which depends on another.
    """
    if not isinstance(given, Mapping):
        return (e if isinstance(e, Event) else Event(*e) for e in given)
    from_tables = [name for name in given if name not in headers_of(schema)]
    if from_tables:
        raise HeadwaterError(
            f"header `{from_tables[0]}` is not in the schema",
            hint=f"headers of it: {', '.join(sorted(headers_of(schema)))}",
        )
    if any(h != g for h, g in dependence(schema)):
        raise HeadwaterError(
            "rows of several headers that depend on each other are given as tables, which have no order between them",
            hint="give events in order, or `merged(tables, headers, order)`",
        )
    return (
        Event(name, row) for name, table in given.items() for row in rows_of(table, headers[name])
    )


def merged(
    tables: Mapping[str, Any],
    headers: Headers,
    order: str | Mapping[str, str],
    marks: Iterable[str] = (),
) -> list[Event]:
    """Rows of several tables as one sequence, by a column of each; a mark at T stands before the rows at T.

    Ties between rows are broken by the row itself, so that the order of a table does not matter.
    """
    first = frozenset(marks)
    keyed = []
    for name, table in tables.items():
        column = order if isinstance(order, str) else order[name]
        at = headers[name].columns.index(column)
        for row in rows_of(table, headers[name]):
            keyed.append((row[at], name not in first, name, sort_key(row), row))
    keyed.sort(key=lambda item: item[:4])
    return [Event(name, row) for _, _, name, _, row in keyed]


def rows_of(table: Any, header: Header) -> Iterable[tuple[Any, ...]]:
    """The rows of a table as the header has them: an Arrow table by the names of its columns, or rows as they are."""
    if not hasattr(table, "column_names"):
        return (header.row(*row) for row in table)
    missing = [name for name in header.columns if name not in table.column_names]
    if missing:
        raise HeadwaterError(
            f"the table of `{header.name}` has no column `{missing[0]}`",
            hint=f"columns of it: {', '.join(table.column_names)}",
        )
    columns = [table.column(name).to_pylist() for name in header.columns]
    return (header.row(*values) for values in zip(*columns, strict=True))
