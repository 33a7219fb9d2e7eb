"""Copies of a view outside of the database, brought up to date by what changed.

`ParquetCopy` keeps the changes themselves as files, which add up to the view. `DocumentCopy` makes them in a document
store, through an object of the user's that writes there. Both know the version that they have, and go on from it as sinks
do (`sinks/sync`); where the database does not keep that version any more they take the whole view again.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from headwater.api.following import Follows
from headwater.api.handles import Source, ViewHandle
from headwater.api.versions import Readable
from headwater.calculus.types import field_names
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.nested.documents import LABELS, DeepChange, Key
from headwater.engine.nested.rows import LABEL, PATH, TOP, VALUE, VERSION
from headwater.errors import DamagedState, DefinedAnew, QueryError, StateError
from headwater.plan.program import WEIGHT
from headwater.sinks.sink import Place, Rows
from headwater.sinks.sync import decided, sync
from headwater.state.directory import local_path
from headwater.state.files import FileSystem, LocalFiles, is_temporary
from headwater.state.keys import expand
from headwater.state.run import column

BASE = "_base"
"""The column of a copy's files that says what they add to."""
OWN = (BASE, PATH, LABEL, LABELS)
"""Names of columns and fields that copies have of their own."""
ABOUT = b"headwater"
"""Where a file says what it is of."""
_FILE = re.compile(r"(\d{12})-(\d{12})\.parquet", re.ASCII)
"""The names of a copy's files: base and version. Others are somebody else's."""


class _Copied(Follows):
    """A view as copies follow it: what changed of nested rows is told part by part."""

    def newest(self) -> int:
        return self.db.version

    def changes(self, since: int, until: int) -> pa.Table:
        return self.db.changes_table(self.name, since, until)

    def rows(self, version: int) -> Rows:
        def frame() -> DataFrame:
            return self.db.frame(self.name, version)

        return Rows(lambda: iter([self.db.whole_table(self.name, version)]), frame)


def _followed(view: ViewHandle | Source) -> _Copied:
    """A view to be copied."""
    if not isinstance(view, ViewHandle):
        raise QueryError(
            f"`{view.name}` is a source, and copies are of views",
            hint=f"define a view: SELECT * FROM {view.name}",
        )
    kept = view.database.program.views[view.name]
    odd = [n for n in field_names(kept.type) if n in OWN or (kept.parts and "." in n)]
    if odd:
        raise QueryError(
            f"the column `{odd[0]}` of `{view.name}` has a name that copies read otherwise",
            hint="give it another one",
        )
    return _Copied(view.database, view.name)


# --- parquet --------------------------------------------------------------------------------------------------------


class ParquetCopy:
    """A copy of a view as Parquet files in a directory, which Spark or DuckDB can read while it is followed.

    A file has rows in the form of `changes`: of a flat view its columns; of a nested one `_path`, `_label`, and a column
    for each path (`row` for the top rows) that has the row, in which a label stands for each inner bag. Then `_w`, how
    often it came or went, `_version`, and `_base`. The rows of the view are those whose weights add up to more than 0:

        SELECT "row".*, sum(_w) AS n FROM 'copy/*.parquet'
        WHERE _path = '' AND _base = (SELECT max(_base) FROM 'copy/*.parquet') GROUP BY ALL HAVING n > 0

    and the rows of its inner bags the same with `_path = 'orders'`, by `_label` and `orders`. Files are named by base
    and version, and appear whole or not at all. After `files` files all are added up into one, which is a new base;
    files of the base before stay until the next sync, for those who are reading them. One process may sync at a time.
    """

    by_version = True

    def __init__(self, directory: str | Path, files: int = 50):
        self.path = local_path(directory)
        self.most = max(1, files)
        self.files: FileSystem = LocalFiles(self.path.parent)

    @property
    def version(self) -> int | None:
        """The version of the view that it has; None before the first sync."""
        names = self._names()
        return names[-1][1] if names else None

    def sync(self, view: ViewHandle | Source) -> int:
        """Brings the copy to the newest version, which it gives; where it is at that already nothing is done.

        A copy knows the database and the version that it has. If the database was put back from a backup and has gone
        on otherwise, the copy starts anew, and says so in the log of the module `logging`.
        """
        done = sync(self, _followed(view), self.path.name)
        self._tidy()
        self._compact()
        return done.version

    # --- as a sink --------------------------------------------------------------------------------------------------

    def place(self) -> Place | None:
        """What the newest file says."""
        names = self._names()
        if not names:
            return None
        about = self._about(names[-1])
        mark = about.get("mark")  # those written before copies knew have none
        return Place(about.get("database") or "", about["view"], names[-1][1], mark)

    def write(self, changes: pa.Table, place: Place) -> None:
        """A file more."""
        base, since = self._names()[-1]
        self._write(changes, place, base, since)

    def replace(self, rows: Rows, place: Place) -> None:
        """A file that is a new base."""
        names = self._names()
        base = max(place.version, names[-1][0] + 1) if names else place.version
        self._write(rows.table(), place, base, None)

    def close(self) -> None:
        """Nothing is held."""

    def parts(self) -> dict[str, pa.Table]:
        """The flat parts with `_w`, by path, as the database's `parts`; of a flat view all rows, at the path ""."""
        return {path: rows for path, (rows, _) in _parts(self._table()).items()}

    def rows(self) -> pa.Table:
        """The rows with `_w`, nested ones put together, as the database's `table`."""
        return _Together(_parts(self._table())).table()

    # --- files ------------------------------------------------------------------------------------------------------

    def _names(self) -> list[tuple[int, int]]:
        """Base and version of each file of the newest base, in order."""
        found = self._all()
        return [n for n in found if n[0] == found[-1][0]]

    def _all(self) -> list[tuple[int, int]]:
        named = (_FILE.fullmatch(n) for n in self.files.names(self.path.name))
        return sorted((int(m[1]), int(m[2])) for m in named if m)

    def _file(self, base: int, version: int) -> str:
        return f"{self.path.name}/{base:012d}-{version:012d}.parquet"

    def _write(self, rows: pa.Table, place: Place, base: int, since: int | None) -> None:
        """Makes a file appear with all of its rows; without `since` they are the whole view."""
        about = json.dumps({**place.as_data(), "since": since})
        rows = rows.append_column(BASE, pa.repeat(pa.scalar(base, pa.int64()), rows.num_rows))
        sink = pa.BufferOutputStream()
        pq.write_table(rows.replace_schema_metadata({ABOUT: about}), sink)
        self.files.put_if_absent(self._file(base, place.version), sink.getvalue().to_pybytes())

    def _read(self, name: tuple[int, int]) -> pa.Table:
        return pq.read_table(pa.BufferReader(self.files.map(self._file(*name))))

    def _about(self, name: tuple[int, int]) -> dict[str, Any]:
        schema = pq.read_schema(pa.BufferReader(self.files.map(self._file(*name))))
        about: dict[str, Any] = json.loads((schema.metadata or {})[ABOUT])
        return about

    def _table(self) -> pa.Table:
        """All files of the newest base; each must go on where the one before ends."""
        names = self._names()
        if not names:
            raise StateError(f"{self.path.name} has no files yet", hint="call sync first")
        tables, last = [], None
        for name in names:
            table = self._read(name)
            since = json.loads((table.schema.metadata or {})[ABOUT])["since"]
            if since != last:
                raise DamagedState(
                    self._file(*name), f"it goes on from version {since}, and {last} is before it"
                )
            tables.append(table.replace_schema_metadata(None))
            last = name[1]
        return pa.concat_tables(tables)

    def _compact(self) -> None:
        """Adds all files up into one, where they are many."""
        names, place = self._names(), self.place()
        if len(names) <= self.most or place is None:
            return
        added = consolidated(self._table().drop_columns([VERSION, BASE]))
        numbers = pa.repeat(pa.scalar(place.version, pa.int64()), added.num_rows)
        base = max(place.version, names[-1][0] + 1)
        self._write(added.append_column(VERSION, numbers), place, base, None)

    def _tidy(self) -> None:
        """Removes older bases, and what an interrupted sync left."""
        for left in self.files.names(self.path.name):
            if is_temporary(left) and _FILE.fullmatch(left[1:-33]):
                self.files.delete(f"{self.path.name}/{left}")
        found = self._all()
        for name in found:
            if name[0] < found[-1][0]:
                self.files.delete(self._file(*name))


def _parts(table: pa.Table) -> dict[str, tuple[pa.Table, bool]]:
    """Changes added up, by path, and whether they are rows or single values."""
    if PATH not in table.column_names:
        return {"": (consolidated(table.drop_columns([VERSION, BASE])), True)}
    out = {}
    for name in table.column_names:
        if name in (PATH, LABEL, WEIGHT, VERSION, BASE):
            continue
        path = "" if name == TOP else name
        mine = table.filter(pc.equal(table.column(PATH), path)).combine_chunks()
        rows = column(mine, name)
        struct = pa.types.is_struct(rows.type)
        cells = dict(zip(rows.type.names, rows.flatten(), strict=True)) if struct else {VALUE: rows}
        label = {LABEL: column(mine, LABEL)} if path else {}
        made = pa.table({**label, **cells, WEIGHT: column(mine, WEIGHT)})
        out[path] = (consolidated(made), struct)
    return out


class _Together:
    """Nested rows from flat parts in which labels are text."""

    def __init__(self, parts: dict[str, tuple[pa.Table, bool]]):
        self.parts = parts
        self.bags: dict[str, tuple[pa.Array, pa.Array, np.ndarray[Any, Any]]] = {}

    def table(self) -> pa.Table:
        top, _ = self.parts[""]
        arrays = [
            c if n == WEIGHT else self.value(column(top, n), n)
            for n, c in zip(top.column_names, top.columns, strict=True)
        ]
        return pa.table(arrays, top.column_names)

    def value(self, cells: pa.Array, path: str) -> pa.Array:
        """Cells at a path, with inner bags in the place of labels."""
        if path in self.parts:
            return self.lists(cells, path)
        if pa.types.is_struct(cells.type) and any(p.startswith(f"{path}.") for p in self.parts):
            return self.row(cells.type.names, cells.flatten(), path)
        return cells

    def row(self, names: Sequence[str], cells: Iterable[pa.Array], path: str) -> pa.Array:
        arrays = [self.value(c, f"{path}.{n}") for n, c in zip(names, cells, strict=True)]
        return pa.StructArray.from_arrays(arrays, list(names))

    def lists(self, labels: pa.Array, path: str) -> pa.Array:
        """The bag of each label as a list; NULL where the label is."""
        known, values, starts = self.contents(path)
        place = pc.index_in(labels, known)
        there = np.asarray(place.is_valid())
        at = np.asarray(pc.fill_null(place, 0))
        sizes = np.zeros(len(labels), np.int64)
        sizes[there] = (starts[1:] - starts[:-1])[at[there]]
        taken = values.take(pa.array(expand(starts[at], sizes)))
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, taken, mask=labels.is_null())

    def contents(self, path: str) -> tuple[pa.Array, pa.Array, np.ndarray[Any, Any]]:
        """The different labels of a part, its elements in their order, and where those of each one start."""
        if path not in self.bags:
            part, struct = self.parts[path]
            codes = column(part, LABEL).dictionary_encode()
            which = np.asarray(codes.indices)
            order = np.argsort(which, kind="stable")
            often = np.asarray(column(part, WEIGHT))[order]
            rows = part.take(pa.array(np.repeat(order, often))).drop_columns([LABEL, WEIGHT])
            sizes = np.bincount(which, np.asarray(column(part, WEIGHT)), len(codes.dictionary))
            starts = np.concatenate([[0], np.cumsum(sizes.astype(np.int64))])
            names, cells = rows.column_names, [column(rows, n) for n in rows.column_names]
            values = (
                self.row(names, cells, path) if struct else self.value(cells[0], f"{path}.value")
            )
            self.bags[path] = (codes.dictionary, values, starts)
        return self.bags[path]


# --- documents ------------------------------------------------------------------------------------------------------


class DocumentStore(Protocol):
    """Where documents are written: a class of the user's, with these methods.

    After an interruption calls come again from the version that the store says it has. So a document should keep the
    version that it was written at, and calls that are not newer than that should do nothing. A key is a tuple.
    """

    def version(self) -> int | None:
        """The last version that was done; None if there was none."""

    def put(self, key: Key, document: Any, version: int) -> None:
        """Writes a document whole, a new one or in the place of another."""

    def delete(self, key: Key, version: int) -> None:
        """Removes a document."""

    def done(self, version: int, whole: bool) -> None:
        """All documents are at a version. If all were put, `whole`, then those that were not are gone: remove them."""


@runtime_checkable
class DeepStore(DocumentStore, Protocol):
    """A store that can change documents inside; its documents have `_labels`, which name their inner bags.

    In MongoDB a row that came is a `$push` to `orders` where `_labels.orders` is the label of the change; one level
    deeper to `orders.$[o].lines` with the array filter `{"o._labels.lines": label}`.
    """

    def update(self, key: Key, changes: Sequence[DeepChange], version: int) -> None:
        """Makes changes inside of a document, one by one and all or none; see `headwater.copies.updated`."""


class DocumentCopy:
    """A copy of a view in a document store, a document for each row, by the key of the view.

    `sync` tells the store which documents are new, which are gone, and which changed. To a store with a method `update`
    it gives the changes inside of a document, version by version: inner rows by path and label, as they came and went.
    To one without it gives each changed document whole, once, as it is at the newest version.

    `key` names the columns that tell the rows of a flat view apart; a nested view has its own.
    """

    def __init__(self, store: DocumentStore, key: str | Sequence[str] | None = None):
        self.store = store
        self.key = (key,) if isinstance(key, str) else tuple(key or ())

    @property
    def version(self) -> int | None:
        """The version of the view that the store has."""
        return self.store.version()

    def sync(self, view: ViewHandle | Source) -> int:
        """Brings the store to the newest version, which it gives."""
        copied = _followed(view)
        db, name, newest, since = copied.db, copied.name, copied.newest(), self.store.version()
        there = None if since is None else Place("", name, since, None)
        needed = decided(there, copied, newest, "the document store")
        if needed is None:
            return newest
        follow = self._nested if db.program.views[name].parts else self._flat
        try:
            follow(db, name, needed.since, newest)
        except (StateError, DefinedAnew):  # there is nothing to compare with what the store has
            if needed.since is None:
                raise
            follow(db, name, None, newest)
        return newest

    def _nested(self, db: Readable, name: str, since: int | None, newest: int) -> None:
        deep = self.store if isinstance(self.store, DeepStore) else None
        if self.key:
            raise QueryError(
                f"the view `{name}` has a key of its own", hint=f"give key= to db.view({name!r})"
            )
        if since is None:
            self._put(db.documents(name, None, newest, deep is not None), newest)
            self.store.done(newest, True)
            return
        if deep is not None:
            since = self._inside(deep, db, name, since, newest)
        if since < newest:
            keys = db.touched(name, since, newest)
            there = dict(db.documents(name, keys, newest, deep is not None))
            for key in keys:
                if key not in there:
                    self.store.delete(key, newest)
            self._put(there.items(), newest)
            self.store.done(newest, False)

    def _inside(self, deep: DeepStore, db: Readable, name: str, since: int, newest: int) -> int:
        """Makes the changes inside of documents, version by version; the version that this comes to."""
        with contextlib.suppress(QueryError):  # rows have one key for a while, or still do
            for version, changes in db.document_changes(name, since, newest):
                for key in changes.deleted:
                    deep.delete(key, version)
                for key, found in changes.updated.items():
                    deep.update(key, found, version)
                self._put(changes.put.items(), version)
                deep.done(version, False)
                since = version
            if since < newest:
                deep.done(newest, False)
            return newest
        return since

    def _flat(self, db: Readable, name: str, since: int | None, newest: int) -> None:
        if not self.key:
            raise QueryError(
                f"the rows of `{name}` are flat, and nothing says which are one document",
                hint="give DocumentCopy a key=, columns that tell them apart",
            )
        whole = since is None
        table = db.table(name, newest) if since is None else db.changes_table(name, since, newest)
        if since is not None:
            table = consolidated(table.drop_columns([VERSION]))
        missing = [k for k in self.key if k not in table.column_names]
        if missing:
            raise QueryError(
                f"the view `{name}` has no column `{missing[0]}`",
                hint=f"columns: {', '.join(n for n in table.column_names if n != WEIGHT)}",
            )
        put: dict[Key, Any] = {}
        gone: dict[Key, None] = {}
        for row in table.to_pylist():
            weight = row.pop(WEIGHT)
            key = tuple(row[k] for k in self.key)
            if weight < 0:
                gone[key] = None
            elif weight > 1 or key in put:
                raise QueryError(
                    f"several rows of `{name}` have the key {key!r}, and a document has one",
                    hint="give DocumentCopy a key= that tells them apart",
                )
            else:
                put[key] = row
        for key in gone:
            if key not in put:
                self.store.delete(key, newest)
        self._put(put.items(), newest)
        self.store.done(newest, whole)

    def _put(self, found: Iterable[tuple[Key, Any]], version: int) -> None:
        for key, document in found:
            self.store.put(key, document, version)


def updated(document: Any, changes: Sequence[DeepChange]) -> Any:
    """A document after the changes inside of it; what `update` of a store has to do."""
    out = copy.deepcopy(document)
    for c in changes:
        if c.path == "":
            _set(out, c.row)
            continue
        for bag in _places(out, c.path.split("."), c.label):
            if c.old is not None:
                for at in _like(bag, c.old, c.weight):
                    _set(bag[at], c.row)
            elif c.weight > 0:
                bag.extend(copy.deepcopy(c.row) for _ in range(c.weight))
            else:
                for at in reversed(_like(bag, c.row, -c.weight)):
                    del bag[at]
    return out


def _places(value: Any, path: Sequence[str], label: str | None) -> Iterator[list[Any]]:
    """The inner bags of a name in a document."""
    if isinstance(value, list):
        for inner in value:
            yield from _places(inner, path, label)
    elif isinstance(value, dict):
        if len(path) > 1:
            yield from _places(value[path[0]], path[1:], label)
        elif value.get(LABELS, {}).get(path[0]) == label and value[path[0]] is not None:
            yield value[path[0]]


def _like(bag: list[Any], row: Any, count: int) -> list[int]:
    """Where the first rows are that have the cells and labels of one."""
    return [i for i, x in enumerate(bag) if _has(x, row)][:count]


def _has(value: Any, cells: Any) -> bool:
    if isinstance(cells, dict) and isinstance(value, dict):
        return all(_has(value[n], c) for n, c in cells.items())
    if isinstance(cells, list) and isinstance(value, list):
        return len(cells) == len(value) and all(map(_has, value, cells))
    return bool(value == cells) or (value != value and cells != cells)  # NaN is like NaN


def _set(value: Any, cells: Any) -> None:
    """Cells in the place of others; what is not among them stays."""
    for n, c in cells.items():
        if isinstance(c, dict) and isinstance(value[n], dict):
            _set(value[n], c)
        else:
            value[n] = copy.deepcopy(c)
