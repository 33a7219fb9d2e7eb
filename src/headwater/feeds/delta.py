"""A Delta table as a feed: its rows at a version, then what each later version changed.

    what the source is at a version = what the table is at one of its own

Where the table keeps its change feed (`delta.enableChangeDataFeed`) that is read. Where it does not, what a version changed are
the rows of the files that it added less those of the files that it removed, which is exact for bags of rows and costs what
the files have; a version that only rewrites files changes nothing. The cursor has the table's id and version, so a table that
was made anew or is gone is lost, as is a version whose files or log were cleaned up. The first copy is one batch, however large, of
which only a part is in memory (`copying`); each later version is whole in one batch.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pa_dataset
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError

from headwater.errors import BadChange, FeedAway, FeedLost, QueryError
from headwater.feeds.copying import Copying
from headwater.feeds.feed import Batch, Cursor, Declared, Limit
from headwater.interop.arrow_types import arrow_type
from headwater.io.events import CHANGE_TYPE
from headwater.io.rows import SIGNS
from headwater.plan.program import WEIGHT

ENABLED = "delta.enableChangeDataFeed"
BATCH = 65_536
"""Rows that are read at a time."""


def check(declared: Declared) -> None:
    """Raises where the table lacks columns of the source; one that is not there now is told by the first batch."""
    feed = DeltaFeed(declared)
    with contextlib.suppress(FeedAway):
        feed.names(feed.table())


class DeltaFeed:
    """Gives the rows of a table, and what its versions changed."""

    replays = True

    def __init__(self, declared: Declared):
        assert declared.path is not None
        self.declared, self.name, self.path = declared, declared.name, declared.path

    def close(self) -> None:
        """Nothing is held open."""

    def committed(self, cursor: Cursor) -> None:
        """Nobody keeps anything for a reader of a table."""

    def table(self, version: int | None = None, taken: bool = False) -> DeltaTable:
        """The table at a version; one that is not there is lost, where something was taken of it."""
        try:
            return DeltaTable(self.path, version=version)
        except TableNotFoundError:
            if version is not None:
                raise self._lost(f"version {version} is not kept any more") from None
            if taken:
                raise self._lost(f"there is no Delta table at {self.path} any more") from None
            raise FeedAway(
                f"there is no Delta table at {self.path}, which `{self.name}` follows",
                hint="make it, or declare the source again with another path",
            ) from None
        except DeltaProtocolError as e:
            raise FeedAway(
                f"the Delta table of `{self.name}` is of a kind that is not read: {e}",
                hint="turn the feature off in the table",
            ) from None
        except (DeltaError, OSError) as e:
            if version is not None and (isinstance(e, DeltaError) or _is_gone(e)):
                raise self._lost(f"version {version} is not kept any more") from None
            raise FeedAway(
                f"the Delta table of `{self.name}` at {self.path} cannot be read: {_said(e)}",
                hint="it is tried again",
            ) from None

    def names(self, table: DeltaTable) -> dict[str, str]:
        """What the source's columns are called in the table."""
        there = pa.schema(table.schema().to_arrow()).names
        folded = {n.lower(): n for n in there}
        out = {}
        for name, _ in self.declared.row.fields:
            if name.lower() not in folded:
                raise QueryError(
                    f"the Delta table of `{self.name}` has no column `{name}`",
                    hint=f"columns of the table: {', '.join(there)}",
                )
            out[name] = folded[name.lower()]
        new = [n for n in there if n not in out.values()]
        if new and self.declared.options.get("new_columns") == "stop":
            raise BadChange(
                f"the Delta table of `{self.name}` has a column `{new[0]}`, which the source has not",
                hint="declare the source again with it, or with the option new_columns=ignore",
            )
        return out

    def read(self, after: Cursor, limit: Limit) -> Batch | None:
        """The rows at the newest version, or what the versions behind the cursor changed."""
        table = self.table(taken=after is not None)
        newest, id_ = table.version(), str(table.metadata().id)
        if after is None:
            names = self.names(table)
            with self._telling(newest):
                return Batch(self._copy(table, names), {"table": id_, "version": newest})
        if after["table"] != id_ or after["version"] > newest:
            raise self._lost("it was made anew, or put back to a version before")
        if after["version"] == newest:
            return None
        names = self.names(table)
        parts: list[pa.Table] = []
        version, until = after["version"], time.monotonic() + limit.seconds
        while version < newest:
            version += 1
            parts.append(self._changed(table, version, names))
            if sum(p.num_rows for p in parts) >= limit.rows or time.monotonic() > until:
                break
        return Batch(pa.concat_tables(parts), {"table": id_, "version": version})

    def _copy(self, table: DeltaTable, names: dict[str, str]) -> Any:
        """All rows of the table, read file by file."""
        there = table.to_pyarrow_dataset()
        copying = Copying(self.declared.home)
        copying.add(self._typed(there.schema.empty_table(), names, None))
        wanted = {"columns": list(names.values()), "batch_size": BATCH, "batch_readahead": 2}
        for file in there.get_fragments():
            for batch in file.scanner(schema=there.schema, **wanted).to_batches():
                copying.add(self._typed(pa.Table.from_batches([batch]), names, None))
        return copying.rows()

    def _changed(self, newest: DeltaTable, version: int, names: dict[str, str]) -> pa.Table:
        """What a version changed, as rows with weights."""
        at = self.table(version)
        before = self.table(version - 1)
        kept = all((t.metadata().configuration or {}).get(ENABLED) == "true" for t in (at, before))
        with self._telling(version):
            if kept:
                try:
                    return self._fed(newest, version, names)
                except (DeltaError, pa.ArrowException, OSError) as e:
                    # Its files were cleaned up; or the library does not find those of parts whose names have spaces.
                    if not _is_gone(e):
                        raise
            return self._by_files(before, at, names)

    def _fed(self, newest: DeltaTable, version: int, names: dict[str, str]) -> pa.Table:
        """What the change feed has of a version."""
        rows = pa.table(newest.load_cdf(version, version))
        kinds = rows.column(CHANGE_TYPE).cast(pa.string()).to_pylist()
        return self._typed(rows, names, np.array([SIGNS[k] for k in kinds], np.int64))

    def _by_files(self, before: DeltaTable, at: DeltaTable, names: dict[str, str]) -> pa.Table:
        """The rows of files that came, less those of files that went."""
        files = [
            set(pa.table(t.get_add_actions()).column("path").to_pylist()) for t in (before, at)
        ]
        parts = []
        for table, wanted, sign in (
            (before, files[0] - files[1], -1),
            (at, files[1] - files[0], 1),
        ):
            if wanted:
                rows = _of_files(table, wanted, names)
                parts.append(self._typed(rows, names, np.full(rows.num_rows, sign, np.int64)))
        if parts:
            return pa.concat_tables(parts)
        empty = at.to_pyarrow_dataset().schema.empty_table()
        return self._typed(empty, names, np.zeros(0, np.int64))

    def _typed(
        self, rows: pa.Table, names: dict[str, str], weights: np.ndarray[Any, Any] | None
    ) -> pa.Table:
        """Columns in the types of the source, with weights; a column that a version did not have yet is NULL."""
        out: dict[str, Any] = {}
        for n, t in self.declared.row.fields:
            if names[n] not in rows.column_names:
                out[n] = pa.nulls(rows.num_rows, arrow_type(t))
                continue
            given = rows.column(names[n])
            plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
            out[n] = given.cast(plain.get(given.type, given.type))
        if weights is not None:
            out[WEIGHT] = pa.array(weights, pa.int64())
        return pa.table(out)

    @contextlib.contextmanager
    def _telling(self, version: int) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, DeltaError, pa.ArrowException, OSError) as e:
            said = _said(e)
            if "deletion" in said.lower() or isinstance(e, DeltaProtocolError):
                raise FeedAway(
                    f"version {version} of the Delta table of `{self.name}` is not read: {said}",
                    hint=f"set {ENABLED} = true in the table, or turn its deletion vectors off",
                ) from None
            if _is_gone(e):
                raise self._lost(f"version {version} was cleaned up ({said})") from None
            raise FeedAway(
                f"version {version} of the Delta table of `{self.name}` cannot be read: {said}",
                hint="mend it, and it is tried again",
            ) from None

    def _lost(self, what: str) -> FeedLost:
        return FeedLost(
            f"what changed of the Delta table of `{self.name}` is not known: {what}",
            hint="drop the source and declare it again; keep more of the table's past (delta.logRetentionDuration, vacuum)",
        )


def _of_files(table: DeltaTable, wanted: set[str], names: dict[str, str]) -> pa.Table:
    """The rows of some of a table's files."""
    all_ = table.to_pyarrow_dataset()
    # A path in the log is written as in a URL, and one in the dataset is not.
    ends = {_plain(p) for p in wanted}
    found = [f for f in all_.get_fragments() if _plain(f.path) in ends]
    assert len(found) == len(wanted), "every file of the log is one of the table"
    some = pa_dataset.FileSystemDataset(found, all_.schema, all_.format, all_.filesystem)
    return some.to_table([c for c in names.values() if c in all_.schema.names])


def _said(e: Exception) -> str:
    """The first line of an error."""
    return (str(e).splitlines() or [type(e).__name__])[0]


def _is_gone(e: Exception) -> bool:
    """Whether an error says that a file is not there, or that there is no change feed; its library tells it in words alone."""
    said = str(e).lower()
    words = "not found", "no such file", "change data feed", "change data not"
    return isinstance(e, FileNotFoundError) or any(w in said for w in words)


def _plain(path: str) -> str:
    """A file's path as both the log and a dataset have it."""
    return unquote(unquote(path)).lstrip("/")
