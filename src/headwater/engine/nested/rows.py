"""Nested rows put together from flat parts, and what of them a version changed.

An inner bag is looked up by its label, for many rows at once, and its elements' bags in the same way; so a row costs
what it holds. A version changed an inner bag where it added to its part and some row has the bag. A bag that a row has
only now is new as a whole; one that no row has any more is gone as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.shapes import Bags, Cell, Row, Shape, inner_bags
from headwater.calculus.types import KeyType, RecordType
from headwater.engine.here.equal_rows import consolidated, different_rows
from headwater.engine.probing import entries_at
from headwater.engine.working import Working
from headwater.errors import QueryError
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import WEIGHT, Part, View
from headwater.state.arrangement import INDEX, WHOLE, Arrangement, Share
from headwater.state.hashing import places
from headwater.state.run import LEAST, MOST, column

TOP = "row"
"""The column of deep changes that has top rows."""
PATH, LABEL, VERSION, VALUE = "_path", "_label", "_version", "value"


# --- rows ---------------------------------------------------------------------------------------------------------


def scan_nested(
    view: View,
    working: Working,
    low: int = LEAST,
    high: int = MOST,
    share: Share = WHOLE,
    rows: int = 100_000,
) -> Iterator[pa.Table]:
    """All rows of a nested view with their weights, those of a range of hashes; of its entries, a share."""
    top = view.parts[0]
    for table in working.now(top.map.name).scan(low, high, rows, share):
        yield nested_rows(view, working, table)


def key_of(view: View) -> list[tuple[str, KeyType]]:
    """The columns that rows of a nested view are looked up by."""
    top = view.parts[0]
    names = dict(zip(top.map.columns, top.columns, strict=True))
    return [names[c] for c in top.map.lookup]


def has_plain_key(view: View) -> bool:
    """Whether that are columns of the view, and not the label of an array."""
    plain = {s.column for _, s in _top_fields(view.parts[0].shape) if isinstance(s, Cell)}
    return all(n in plain for n, _ in key_of(view))


def looked_up(view: View, working: Working, key: Sequence[pa.Array]) -> pa.Table:
    """The rows of a nested view at a key, with their weights."""
    top = view.parts[0]
    at = pa.table(list(key), list(top.map.lookup))
    return nested_rows(view, working, entries_at(working.now(top.map.name), at))


def nested_rows(view: View, working: Working, entries: pa.Table) -> pa.Table:
    """Entries of the top part as nested rows."""
    top = view.parts[0]
    table = named(top, entries)
    fields = _top_fields(top.shape)
    types = dict(view.type.fields)
    arrays = [_values(s, types[n], table, view.parts, working) for n, s in fields]
    names = [n for n, _ in fields]
    return pa.table([*arrays, column(table, WEIGHT)], [*names, WEIGHT])


def _top_fields(shape: Shape) -> tuple[tuple[str, Shape], ...]:
    return shape.fields if isinstance(shape, Row) else (("value", shape),)


def named(part: Part, entries: pa.Table) -> pa.Table:
    """Entries of a part's map under the names of its columns, with weights."""
    arrays = [column(entries, n) for n in part.map.columns]
    return pa.table([*arrays, column(entries, "r0")], [*(n for n, _ in part.columns), WEIGHT])


def _values(
    shape: Shape, t: KeyType, table: pa.Table, parts: Sequence[Part], working: Working
) -> pa.Array:
    """One value for each flat row."""
    match shape:
        case Cell(name):
            return column(table, name).cast(arrow_type(t))
        case Row(fields):
            types = dict(t.fields) if isinstance(t, RecordType) else {}
            arrays = [_values(s, types[n], table, parts, working) for n, s in fields]
            return pa.StructArray.from_arrays(arrays, [n for n, _ in fields])
        case Bags():
            return _bags(shape, t, table, parts, working)


def _bags(
    bags: Bags, t: KeyType, table: pa.Table, parts: Sequence[Part], working: Working
) -> pa.Array:
    """The inner bag of each flat row as an array; NULL where the bag is."""
    wanted = arrow_type(t)
    elements, owners = [], []
    for number, v in enumerate(bags.variants):
        part = parts[v.part]
        mine = np.arange(table.num_rows)
        if bags.tag is not None:
            mine = np.flatnonzero(np.asarray(pc.fill_null(column(table, bags.tag), -1)) == number)
        labels = table.select(list(v.label)).take(pa.array(mine))
        found = contents(part, working.now(part.map.name), labels)
        at = mine[np.asarray(column(found, INDEX))]
        counts = np.asarray(column(found, WEIGHT))
        if (counts != 1).any():
            often = pa.array(np.repeat(np.arange(len(counts)), counts))
            found, at = found.take(often), np.repeat(at, counts)
        elements.append(_values(part.shape, part.element, found, parts, working))
        owners.append(at)
    if not elements:
        return pa.nulls(table.num_rows, wanted)
    values = pa.concat_arrays([e.cast(wanted.value_type) for e in elements])
    place = np.concatenate(owners)
    order = np.argsort(place, kind="stable")
    if len(elements) > 1 or (np.diff(place) < 0).any():
        values = values.take(pa.array(order))
    sizes = np.bincount(place, minlength=table.num_rows)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
    mask = None if bags.tag is None else column(table, bags.tag).is_null()
    return pa.LargeListArray.from_arrays(offsets, values, mask=mask)


def contents(part: Part, arrangement: Arrangement, labels: pa.Table) -> pa.Table:
    """The rows of inner bags with their weights, and which label each is of."""
    found = entries_at(arrangement, labels)
    return named(part, found).append_column(INDEX, column(found, INDEX))


# --- changes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Added:
    """What a version added to a part: entries of its map, and of the map of its owners."""

    rows: pa.Table
    owners: pa.Table | None


@dataclass(frozen=True)
class Moved:
    """What changed of a part: rows of bags that some row had and has, and all rows of bags that are new or gone."""

    stayed: pa.Table
    came: pa.Table
    gone: pa.Table

    @property
    def rows(self) -> pa.Table:
        """All of it, added up."""
        return consolidated(pa.concat_tables([self.stayed, self.came, self.gone]))


def deep_changes(
    view: View, before: Working | None, after: Working, added: Sequence[Added]
) -> list[Moved]:
    """What changed of a nested view: of each part the rows with weights, the label's columns first."""
    top = consolidated(named(view.parts[0], added[0].rows))
    out = [Moved(top, top.slice(0, 0), top.slice(0, 0))]
    moved: dict[int, list[pa.Table]] = {}
    for number, part in enumerate(view.parts):
        if number == 0:
            continue
        changed = named(part, added[number].rows)
        labels = _labels_of(part, [changed, *moved.get(number, ())], added[number].owners)
        was = _live(view.parts, number, before, labels)
        now = _live(view.parts, number, after, labels)
        came = _whole(part, after, labels.filter(pa.array(now & ~was)), 1)
        gone = _whole(part, before, labels.filter(pa.array(was & ~now)), -1)
        stayed = _of_labels(part, changed, labels.filter(pa.array(was & now)))
        for child, rows in _labels_in(part.shape, pa.concat_tables([came, gone])):
            moved.setdefault(child, []).append(rows.rename_columns(list(view.parts[child].label)))
        out.append(Moved(stayed, came, gone))
    return out


def _labels_of(part: Part, tables: Sequence[pa.Table], owners: pa.Table | None) -> pa.Table:
    """The different labels among rows and owners of a part."""
    names = list(part.label)
    types = dict(part.columns)
    schema = pa.schema([(n, arrow_type(types[n])) for n in names])
    found = [t.select(names) for t in tables]
    if owners is not None:
        found.append(owners.select(list(part.map.lookup)).rename_columns(names))
    table = pa.concat_tables([schema.empty_table(), *(t.cast(schema) for t in found)])
    return different_rows(table)


def _live(
    parts: Sequence[Part], number: int, working: Working | None, labels: pa.Table
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which labels some row of the view has: a top row, or a row in a bag that itself is live."""
    live = np.zeros(labels.num_rows, np.bool_)
    part = parts[number]
    if working is None or part.owners is None or part.owner is None or not labels.num_rows:
        return live
    found = entries_at(working.now(part.owners.name), labels)
    above = parts[part.owner]
    if above.owner is not None:
        width = len(part.label)
        names = part.owners.columns[width : width + len(above.label)]
        owners = found.select(names).rename_columns(list(above.label))
        found = found.filter(pa.array(_live(parts, part.owner, working, owners)))
    live[np.asarray(column(found, INDEX))] = True
    return live


def _whole(part: Part, working: Working | None, labels: pa.Table, sign: int) -> pa.Table:
    """All rows of some bags, with signed weights."""
    if working is None or not labels.num_rows:
        types = [*((n, arrow_type(t)) for n, t in part.columns), (WEIGHT, pa.int64())]
        return pa.schema(types).empty_table()
    found = contents(part, working.now(part.map.name), labels).drop_columns([INDEX])
    weights = pa.array(sign * np.asarray(column(found, WEIGHT)))
    return found.drop_columns([WEIGHT]).append_column(WEIGHT, weights)


def _of_labels(part: Part, rows: pa.Table, labels: pa.Table) -> pa.Table:
    """The rows that have one of some labels."""
    if not rows.num_rows or not labels.num_rows:
        return rows.slice(0, 0)
    names = part.label
    found = places([column(labels, n) for n in names], [column(rows, n) for n in names])
    return rows.filter(pa.array(found >= 0))


def _labels_in(shape: Shape, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The labels that rows have, by the part that they are of."""
    for _, bags in inner_bags(shape):
        for i, v in enumerate(bags.variants):
            mine = rows
            if bags.tag is not None:
                mine = rows.filter(pc.equal(column(rows, bags.tag), i))
            yield v.part, mine.select(list(v.label))


# --- parts as they are told -------------------------------------------------------------------------------------


def told(view: View, changes: Sequence[pa.Table], version: int) -> pa.Table:
    """Deep changes as one table: path, label, the row of that path, weight and version."""
    schema = told_schema(view)
    tables = []
    for part, rows in zip(view.parts, changes, strict=True):
        if not rows.num_rows:
            continue
        n = rows.num_rows
        own = part.path or TOP
        arrays = []
        for f in schema:
            if f.name == PATH:
                arrays.append(pa.repeat(pa.scalar(part.path, f.type), n))
            elif f.name == LABEL:
                arrays.append(label_text(part, rows) if part.label else pa.nulls(n, f.type))
            elif f.name == own:
                arrays.append(told_value(part.shape, part.element, rows, view.parts).cast(f.type))
            elif f.name == WEIGHT:
                arrays.append(column(rows, WEIGHT))
            elif f.name == VERSION:
                arrays.append(pa.repeat(pa.scalar(version, f.type), n))
            else:
                arrays.append(pa.nulls(n, f.type))
        tables.append(pa.table(arrays, schema=schema))
    return pa.concat_tables([schema.empty_table(), *tables])


def parts_told(view: View, working: Working) -> dict[str, pa.Table]:
    """The rows of each part with weights, by path: the label as text, then the row with labels for its bags."""
    out: dict[str, pa.Table] = {}
    for number, part in enumerate(view.parts):
        t = _told_type(part.shape, part.element)
        fields = list(t) if isinstance(part.shape, Row) else [pa.field(VALUE, t)]
        own = [pa.field(LABEL, pa.large_string())] if part.label else []
        schema = pa.schema([*own, *fields, (WEIGHT, pa.int64())])
        tables = [schema.empty_table()]
        for entries in working.now(part.map.name).scan():
            rows = named(part, entries)
            if part.owners is not None:
                labels = rows.select(list(part.label))
                rows = rows.filter(pa.array(_live(view.parts, number, working, labels)))
            told = told_value(part.shape, part.element, rows, view.parts)
            cells = told.flatten() if isinstance(part.shape, Row) else [told]
            label = [label_text(part, rows)] if part.label else []
            tables.append(pa.table([*label, *cells, column(rows, WEIGHT)], schema=schema))
        more = pa.concat_tables(tables)
        out[part.path] = pa.concat_tables([out[part.path], more]) if part.path in out else more
    return out


def told_schema(view: View) -> pa.Schema:
    """The columns of deep changes."""
    rows: dict[str, pa.DataType] = {}
    for p in view.parts:
        if p.path in (PATH, LABEL, TOP, WEIGHT, VERSION):
            raise QueryError(
                f"the changes of `{view.name}` have no column for the inner bags `{p.path}`",
                hint=f"call the column otherwise, `{p.path}` has a meaning there",
            )
        rows.setdefault(p.path or TOP, _told_type(p.shape, p.element))
    return pa.schema(
        [
            (PATH, pa.large_string()),
            (LABEL, pa.large_string()),
            *rows.items(),
            (WEIGHT, pa.int64()),
            (VERSION, pa.int64()),
        ]
    )


def _told_type(shape: Shape, t: KeyType) -> pa.DataType:
    match shape:
        case Row(fields):
            types = dict(t.fields) if isinstance(t, RecordType) else {}
            return pa.struct([(n, _told_type(s, types[n])) for n, s in fields])
        case Bags():
            return pa.large_string()
        case _:
            return arrow_type(t)


def told_value(shape: Shape, t: KeyType, rows: pa.Table, parts: Sequence[Part]) -> pa.Array:
    """A row with the text of a label in the place of each inner bag."""
    match shape:
        case Cell(name):
            return column(rows, name).cast(arrow_type(t))
        case Row(fields):
            types = dict(t.fields) if isinstance(t, RecordType) else {}
            arrays = [told_value(s, types[n], rows, parts) for n, s in fields]
            return pa.StructArray.from_arrays(arrays, [n for n, _ in fields])
        case Bags(variants, tag):
            out = pa.nulls(rows.num_rows, pa.large_string())
            for i, v in enumerate(variants):
                part = parts[v.part]
                text = label_text(part, rows.select(list(v.label)).rename_columns(list(part.label)))
                mine = pa.repeat(pa.scalar(True), rows.num_rows)
                if tag is not None:
                    mine = pc.fill_null(pc.equal(column(rows, tag), i), False)
                out = pc.if_else(mine, text, out)
            return out


def label_text(part: Part, rows: pa.Table) -> pa.Array:
    """The name of a label: its path, the kind of bag where there are several, and its values."""
    values = []
    for n in part.label:
        cells = column(rows, n)
        text = _plain(cells)
        if pa.types.is_large_string(cells.type):
            escaped = pc.replace_substring(pc.replace_substring(cells, "\\", "\\\\"), "'", "\\'")
            text = _joined("", "'", escaped, "'")
        values.append(pc.fill_null(text, pa.scalar("NULL", pa.large_string())))
    kind = "" if part.kind is None else f"/{part.kind}"
    return _joined("", f"{part.path}{kind}(", _joined(", ", *values), ")")


def _joined(between: str, *pieces: pa.Array | str) -> pa.Array:
    texts = [pa.scalar(p, pa.large_string()) if isinstance(p, str) else p for p in pieces]
    return pc.binary_join_element_wise(*texts, pa.scalar(between, pa.large_string()))


def _plain(cells: pa.Array) -> pa.Array:
    t = cells.type
    if pa.types.is_nested(t) or pa.types.is_large_binary(t):
        return pa.array(
            [None if x is None else repr(x) for x in cells.to_pylist()], pa.large_string()
        )
    return cells.cast(pa.large_string())
