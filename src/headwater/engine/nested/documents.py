"""Nested rows as documents, and what a version changed of each one.

Deep changes speak of inner bags by label, and a bag may be in many documents. For a store that keeps documents whole,
they are told document by document: those that are new, those that are gone, and for each one that stays the changes
inside of it, in an order in which they can be made one by one:

    1. rows that went, the outer first: a row goes with all that it holds
    2. rows whose own cells changed and whose inner bags stay
    3. rows that came, the innermost first: a row comes with all that it holds, as it is now

So what changed in a bag meets the places that had the bag before, and no place that comes with it. Places are found
by their labels: beside its inner bags a document and each inner row has `_labels`, the name of the bag at each column.
Where a bag is an element of another there is no row to name it in: a document that changes there is told whole.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.shapes import Bags, Cell, Row, Shape, Variant, inner_bags
from headwater.calculus.types import KeyType, RecordType
from headwater.engine.here.equal_rows import consolidated, different_rows
from headwater.engine.nested.rows import (
    Moved,
    contents,
    key_of,
    label_text,
    named,
    told_value,
)
from headwater.engine.probing import entries_at
from headwater.engine.working import Working
from headwater.errors import QueryError
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import WEIGHT, Part, View
from headwater.state.arrangement import INDEX
from headwater.state.hashing import places
from headwater.state.run import column

LABELS = "_labels"
"""The field of a document that names its inner bags."""
GUESSES = 8
"""How many ways are tried to read the key of a row from the label of its bag; after that all rows are searched."""
Key: TypeAlias = tuple[Any, ...]
"""The key of a document: a value for each of its columns."""


@dataclass(frozen=True)
class DeepChange:
    """One change inside of a document: in its inner bags `label` at `path` a row came or went `weight` times.

    With `old`, `weight` rows that were `old` have other cells now, and the inner bags that they had. A row that came is
    whole; one that went, and `old`, has its own cells and labels. The path "" is the document itself: other cells.
    """

    version: int
    path: str
    label: str | None
    row: Any
    weight: int
    old: Any = None


@dataclass
class DocumentChanges:
    """What a version changed of documents, by key: those to be written whole, those that are gone, and changes inside."""

    put: dict[Key, Any] = field(default_factory=dict)
    deleted: list[Key] = field(default_factory=list)
    updated: dict[Key, list[DeepChange]] = field(default_factory=dict)


# --- documents ----------------------------------------------------------------------------------------------------


def documents_at(
    view: View, working: Working, keys: pa.Table, labelled: bool
) -> Iterator[tuple[Key, Any]]:
    """The documents of a view at keys, those that are there."""
    top = view.parts[0]
    found = contents(top, working.now(top.map.name), keys)
    yield from _documents_of(view, working, found, labelled)


def all_documents(view: View, working: Working, labelled: bool) -> Iterator[tuple[Key, Any]]:
    """The documents of a view."""
    top = view.parts[0]
    seen: set[Key] = set()
    # Rows are scanned in the order of their hash, which is that of their key: equal keys may be in two pieces.
    for entries in working.now(top.map.name).scan(rows=10_000):
        for key, document in _documents_of(view, working, named(top, entries), labelled):
            if key in seen:
                raise _not_one(view, key)
            seen.add(key)
            yield key, document


def _documents_of(
    view: View, working: Working, rows: pa.Table, labelled: bool
) -> Iterator[tuple[Key, Any]]:
    keys = _single(view, rows)
    top = view.parts[0]
    made = _values(top.shape, top.element, rows, view.parts, working, labelled)
    yield from zip(keys, made, strict=True)


def _single(view: View, rows: pa.Table) -> dict[Key, int]:
    """The places of top rows by key; an error if there are several at one."""
    out: dict[Key, int] = {}
    weights = column(rows, WEIGHT).to_pylist()
    for i, key in enumerate(keys_in(view, rows)):
        if weights[i] != 1 or key in out:
            raise _not_one(view, key)
        out[key] = i
    return out


def keys_in(view: View, rows: pa.Table) -> list[Key]:
    """The keys of top rows."""
    return _tuples(rows.select([n for n, _ in key_of(view)]))


def _tuples(table: pa.Table) -> list[Key]:
    """Rows as tuples; NaN is always the same object, so that keys which have it are equal."""
    columns = ([math.nan if v != v else v for v in c.to_pylist()] for c in table.columns)
    return list(zip(*columns, strict=True))


def _not_one(view: View, key: Key) -> QueryError:
    return QueryError(
        f"several rows of `{view.name}` have the key {key!r}, and a document has one",
        hint="define the view with key=[...], columns that tell its rows apart",
    )


def _values(
    shape: Shape,
    t: KeyType,
    rows: pa.Table,
    parts: Sequence[Part],
    working: Working | None,
    labelled: bool = True,
) -> list[Any]:
    """A value for each flat row, with its inner bags; without maps to read them from, only what is its own."""
    match shape:
        case Cell(name):
            cells: list[Any] = column(rows, name).cast(arrow_type(t)).to_pylist()
            return cells
        case Row(fields):
            types = dict(t.fields) if isinstance(t, RecordType) else {}
            shown = [(n, s) for n, s in fields if working or not isinstance(s, Bags)]
            columns = [_values(s, types[n], rows, parts, working, labelled) for n, s in shown]
            names = [n for n, _ in shown]
            bags = [(n, s) for n, s in fields if isinstance(s, Bags)]
            if bags and labelled:
                names.append(LABELS)
                inner = [told_value(s, types[n], rows, parts).to_pylist() for n, s in bags]
                columns.append(_dicts([n for n, _ in bags], inner, rows.num_rows))
            return _dicts(names, columns, rows.num_rows)
        case Bags():
            if working is None:
                raise QueryError("an element that is a bag has no change of its own")
            return _bags(shape, rows, parts, working, labelled)


def _dicts(names: Sequence[str], columns: Sequence[list[Any]], count: int) -> list[Any]:
    return [{n: c[i] for n, c in zip(names, columns, strict=True)} for i in range(count)]


def _bags(
    bags: Bags, rows: pa.Table, parts: Sequence[Part], working: Working, labelled: bool
) -> list[Any]:
    """The inner bag of each flat row; None where it is NULL."""
    out: list[Any] = [[] for _ in range(rows.num_rows)]
    if bags.tag is not None:
        for i in np.flatnonzero(np.asarray(column(rows, bags.tag).is_null())):
            out[i] = None
    for number, v in enumerate(bags.variants):
        part = parts[v.part]
        mine = _of_variant(bags, number, rows)
        found = contents(part, working.now(part.map.name), rows.take(mine).select(list(v.label)))
        often = np.repeat(np.arange(found.num_rows), np.asarray(column(found, WEIGHT)))
        found = found.take(pa.array(often))
        at = np.asarray(mine)[np.asarray(column(found, INDEX))]
        values = _values(part.shape, part.element, found, parts, working, labelled)
        for i, value in zip(at, values, strict=True):
            out[i].append(value)
    return out


def _of_variant(bags: Bags, number: int, rows: pa.Table) -> pa.Array:
    """The places of the rows whose bag is of a variant."""
    if bags.tag is None:
        return pa.array(np.arange(rows.num_rows))
    mine = pc.fill_null(pc.equal(column(rows, bags.tag), number), False)
    return pa.array(np.flatnonzero(np.asarray(mine)))


# --- what changed ---------------------------------------------------------------------------------------------------


def touched_documents(view: View, after: Working, moved: Sequence[Moved]) -> list[Key]:
    """The keys of the documents that a version changed, of those too that are gone."""
    found = dict.fromkeys(keys_in(view, moved[0].stayed))
    for number, m in enumerate(moved):
        if number and m.stayed.num_rows:
            labels = different_rows(m.stayed.select(list(view.parts[number].label)))
            found |= dict.fromkeys(keys_in(view, owner_keys(view, after, number, labels)))
    return list(found)


def changed_documents(
    view: View, before: Working | None, after: Working, moved: Sequence[Moved], version: int
) -> DocumentChanges:
    """What a version changed of each document."""
    out = DocumentChanges()
    changes: dict[Key, list[tuple[tuple[int, int], DeepChange]]] = defaultdict(list)
    _top(view, before, after, moved[0].stayed, version, out, changes)
    settled = {*out.put, *out.deleted}
    nameless, whole = _nameless(view.parts), [_no_keys(view)]
    for number, m in enumerate(moved):
        if number == 0 or not m.stayed.num_rows:
            continue
        part, rows = view.parts[number], consolidated(m.stayed)
        if not rows.num_rows:
            continue
        labels = different_rows(rows.select(list(part.label)))
        owners = owner_keys(view, after, number, labels)
        if number in nameless:
            whole.append(owners)
            continue
        names = label_text(part, labels).to_pylist()
        having: dict[str, list[Key]] = defaultdict(list)
        for i, key in zip(column(owners, INDEX).to_pylist(), keys_in(view, owners), strict=True):
            if key not in settled:
                having[names[i]].append(key)
        depth = _depth(view.parts, number)
        for phase, change in _inside(view, number, rows, after, version):
            order = (phase, -depth if phase == COMES else depth)
            for key in having[change.label or ""]:
                changes[key].append((order, change))
    keys = different_rows(pa.concat_tables(whole).select([n for n, _ in key_of(view)]))
    again = dict(documents_at(view, after, keys, True)) if keys.num_rows else {}
    out.put.update({k: d for k, d in again.items() if k not in settled})
    for key, found in changes.items():
        if key not in again:
            out.updated[key] = [c for _, c in sorted(found, key=lambda x: x[0])]
    return out


def _nameless(parts: Sequence[Part]) -> set[int]:
    """The parts of bags whose elements are bags, and of what is inside of those.

    Such an element is a list and has no `_labels`, so that nothing in it can be addressed: its document is told whole.
    """
    out: set[int] = set()
    for number, part in enumerate(parts):
        if isinstance(part.shape, Bags) or (part.owner is not None and part.owner in out):
            out.add(number)
    return out


GOES, DIFFERS, COMES = range(3)
"""The steps in which the changes inside of a document are made."""


def _top(
    view: View,
    before: Working | None,
    after: Working,
    rows: pa.Table,
    version: int,
    out: DocumentChanges,
    changes: dict[Key, list[tuple[tuple[int, int], DeepChange]]],
) -> None:
    """Sorts the documents whose top row changed: new ones, gone ones, and those with other cells and the same bags."""
    if not rows.num_rows:
        return
    top = view.parts[0]
    keys = different_rows(rows.select([n for n, _ in key_of(view)]))
    now = contents(top, after.now(top.map.name), keys)
    there = _single(view, now)
    out.deleted += [k for k in _tuples(keys) if k not in there]
    same: list[int] = []
    if before is not None:
        was = contents(top, before.now(top.map.name), keys)
        columns = [c for _, b in inner_bags(top.shape) for c in b.columns]
        old, new = (_tuples(t.select(columns)) for t in (was, now))
        cells, fresh = (_values(top.shape, top.element, t, view.parts, None) for t in (was, now))
        for k, i in _single(view, was).items():
            j = there.get(k)
            if j is not None and old[i] == new[j]:
                same.append(j)
                change = DeepChange(version, "", None, fresh[j], 1, cells[i])
                changes[k].append(((DIFFERS, 0), change))
    rest = np.setdiff1d(np.arange(now.num_rows), same)
    out.put.update(_documents_of(view, after, now.take(pa.array(rest)), True))


def _inside(
    view: View, number: int, rows: pa.Table, after: Working, version: int
) -> Iterator[tuple[int, DeepChange]]:
    """The changes of a part's rows, each with its step."""
    part = view.parts[number]
    labels = label_text(part, rows).to_pylist()
    weights = column(rows, WEIGHT).to_pylist()
    own = _values(part.shape, part.element, rows, view.parts, None)
    pairs = _pairs(part, rows, view.parts, labels, weights)
    for i, j, n in pairs:
        yield DIFFERS, DeepChange(version, part.path, labels[i], own[j], n, own[i])
        weights[i] += n
        weights[j] -= n
    came = [i for i, w in enumerate(weights) if w > 0]
    whole = _values(
        part.shape, part.element, rows.take(pa.array(came, pa.int64())), view.parts, after
    )
    for i, value in zip(came, whole, strict=True):
        yield COMES, DeepChange(version, part.path, labels[i], value, weights[i])
    for i, w in enumerate(weights):
        if w < 0:
            yield GOES, DeepChange(version, part.path, labels[i], own[i], w)


def _pairs(
    part: Part, rows: pa.Table, parts: Sequence[Part], labels: list[str], weights: list[int]
) -> list[tuple[int, int, int]]:
    """Rows that went and came in one bag with the same inner bags: which, and how often."""
    bags = [b for _, b in inner_bags(part.shape)]
    if not bags:
        return []
    inner = zip(*(told_value(b, part.element, rows, parts).to_pylist() for b in bags), strict=True)
    went: dict[tuple[str, Key], list[list[int]]] = defaultdict(list)
    came: dict[tuple[str, Key], list[list[int]]] = defaultdict(list)
    for i, at in enumerate(zip(labels, inner, strict=True)):
        (went if weights[i] < 0 else came)[at].append([i, abs(weights[i])])
    out = []
    for at, gone in went.items():
        fresh = came.get(at, [])
        while gone and fresh:
            n = min(gone[-1][1], fresh[-1][1])
            out.append((gone[-1][0], fresh[-1][0], n))
            for side in (gone, fresh):
                side[-1][1] -= n
                if not side[-1][1]:
                    side.pop()
    return out


def _depth(parts: Sequence[Part], number: int) -> int:
    owner = parts[number].owner
    return 0 if owner is None else 1 + _depth(parts, owner)


# --- whose it is ----------------------------------------------------------------------------------------------------


def owner_keys(view: View, working: Working, number: int, labels: pa.Table) -> pa.Table:
    """The keys of the top rows that have inner bags of a part, each once for a label, with the label's place."""
    part = view.parts[number]
    assert part.owner is not None and part.owners is not None
    found = entries_at(working.now(part.owners.name), labels)
    at = np.asarray(column(found, INDEX))
    if part.owner == 0:
        counts = np.zeros(labels.num_rows, np.int64)
        np.add.at(counts, at, np.asarray(column(found, "r0")))
        return _top_keys(view, working, number, labels, counts)
    above = list(view.parts[part.owner].label)
    width = len(part.label)
    outer = found.select(part.owners.columns[width : width + len(above)]).rename_columns(above)
    different = different_rows(outer)
    keys = owner_keys(view, working, part.owner, different)
    # Which of the labels each outer label belongs to: all pairs of the two look-ups.
    place = places([column(different, n) for n in above], [column(outer, n) for n in above])
    pairs = pa.table({"outer": place, "label": at})
    joined = pairs.join(
        keys.rename_columns(["outer", *keys.column_names[1:]]), "outer", join_type="inner"
    )
    names = keys.column_names[1:]
    return different_rows(joined.select(["label", *names]).rename_columns([INDEX, *names]))


def _top_keys(
    view: View, working: Working, number: int, labels: pa.Table, counts: np.ndarray[Any, Any]
) -> pa.Table:
    """The keys of the top rows that have each label; `counts` says how many such rows there are.

    Mostly the key can be read from the label, and is looked up. If fewer rows are found than `counts` says, other rows
    have the label, too, and are searched for among all top rows.
    """
    part, top = view.parts[number], view.parts[0]
    key = key_of(view)
    names = [n for n, _ in key]
    types = dict(part.columns)
    choices = [[n for n in part.label if types[n] == t] for _, t in key]
    left = np.flatnonzero(counts)
    out = [_no_keys(view)]
    for guess in itertools.islice(itertools.product(*choices), GUESSES):
        if not len(left):
            break
        asked = labels.take(pa.array(left))
        probe = pa.table([column(asked, n) for n in guess], names)
        rows = contents(top, working.now(top.map.name), probe)
        at = _label_places(view, number, asked, rows)
        mine = at == np.asarray(column(rows, INDEX))
        got = np.zeros(len(left), np.int64)
        np.add.at(got, at[mine], np.asarray(column(rows, WEIGHT))[mine])
        whole = got == counts[left]
        mine &= whole[at]
        out.append(_with_keys(rows.filter(pa.array(mine)), names, left[at[mine]]))
        left = left[~whole]
    if len(left):
        asked = labels.take(pa.array(left))
        for entries in working.now(top.map.name).scan():
            rows = named(top, entries)
            at = _label_places(view, number, asked, rows)
            out.append(_with_keys(rows.filter(pa.array(at >= 0)), names, left[at[at >= 0]]))
    return different_rows(pa.concat_tables(out))


def _label_places(
    view: View, number: int, labels: pa.Table, rows: pa.Table
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Which of some labels of a part each top row has; -1 if none."""
    bags, variant, v = _place_of(view.parts[0].shape, number)
    out = np.full(rows.num_rows, -1, np.int64)
    mine = _of_variant(bags, variant, rows)
    have = [column(rows, n).take(mine) for n in v.label]
    out[np.asarray(mine)] = places([column(labels, n) for n in labels.column_names], have)
    return out


def _place_of(shape: Shape, number: int) -> tuple[Bags, int, Variant]:
    for _, bags in inner_bags(shape):
        for i, v in enumerate(bags.variants):
            if v.part == number:
                return bags, i, v
    raise AssertionError(number)


def _no_keys(view: View) -> pa.Table:
    fields = [(INDEX, pa.int64()), *((n, arrow_type(t)) for n, t in key_of(view))]
    return pa.schema(fields).empty_table()


def _with_keys(rows: pa.Table, names: Sequence[str], at: np.ndarray[Any, Any]) -> pa.Table:
    return pa.table([pa.array(at, pa.int64()), *(column(rows, n) for n in names)], [INDEX, *names])
