"""A view as a plain table of Parquet files, which anybody reads: its rows, as often as they are there, and nothing else.

    path/current -> v000000000012-5f0c1d2e/        the newest version, a link
    path/v000000000012-5f0c1d2e/part-<start>-000000000012.parquet, _headwater.json

A version is a directory, made under a hidden name. `current` is put on it by one rename, which is the moment that the table has
the new rows and the new place, and before which it has the old ones. Who resolves the link first and reads that directory reads one
version; `keep` older ones (1 unless the option says otherwise) stay for who does so.

Rows are cut into files by ranges of the hash of their key, or of all columns where there is none. A version writes the files anew in
whose ranges something changed, and has the others in common with the one before (hard links), so that a change costs as many files
as it touches. A file with more than `slice_rows` rows is cut in two. A large view is written by Spark's tasks, file by file.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import IntegerType, StructField, StructType

from headwater.engine.here.equal_rows import consolidated
from headwater.engine.here.statements import hashed
from headwater.engine.view_rows import repeated
from headwater.errors import SinkError
from headwater.plan.program import WEIGHT
from headwater.sinks import local
from headwater.sinks.local import POINTER, Folder
from headwater.sinks.sink import Place, Rows, Target
from headwater.state.run import LEAST, MOST

CURRENT = "current"
SLICE_ROWS = 100_000
_OWN = re.compile(r"v\d{12}-[0-9a-f]{8}|current", re.ASCII)
_SLICE = "_slice"


def make(target: Target) -> PlainTable:
    """The sink that keeps a plain table in a directory."""
    return PlainTable(target)


class PlainTable:
    """A directory of Parquet files for each of the newest versions, and a link to the newest."""

    by_version = False

    def __init__(self, target: Target):
        assert target.path is not None
        self.sink, self.schema = target.sink, target.schema
        self.by = list(target.key or target.schema.names)
        self.folder = Folder(target.sink, target.path, _OWN)
        self.path = self.folder.path
        self.most = int(target.options.get("slice_rows", SLICE_ROWS))
        self.kept = int(target.options.get("keep", 1))

    # --- as a sink --------------------------------------------------------------------------------------------------

    def place(self) -> Place | None:
        """What the directory that the link leads to says."""
        self.folder.check_own()
        self._tidy()
        about = self._about()
        return None if about is None else Place.of_data(about)

    def write(self, changes: pa.Table, place: Place) -> None:
        """A version that has files in common with the one before."""
        about = self._about()
        assert about is not None, "who writes changes has asked for the place"
        if about["by"] != self.by:  # the files are cut by other columns
            self._replace(self._with(self._pieces(about), changes), place)
            return
        starts = np.array(about["starts"], np.int64)
        which = self._slices(changes, starts)
        before = self.path / CURRENT
        made, slices = self._begun(), dict[int, str]()
        for at, start in enumerate(about["starts"]):
            name = about["files"][at]
            mine = changes.filter(pa.array(which == at))
            if not mine.num_rows:
                with self.folder.telling("written"):
                    local.link(before / name, made / name)
                slices[start] = name
                continue
            rows = self._sum(self._read(before / name), mine)
            end = about["starts"][at + 1] if at + 1 < len(starts) else MOST
            slices |= self._cut(rows, start, end, made, place.version)
        self._done(made, slices, place)

    def replace(self, rows: Rows, place: Place) -> None:
        """A version of which all files are new."""
        if rows.large:
            self._by_spark(rows, place)
        else:
            self._replace(rows.table(), place)

    def close(self) -> None:
        """Nothing is held."""

    # --- rows -------------------------------------------------------------------------------------------------------

    def _replace(self, rows: pa.Table, place: Place) -> None:
        made = self._begun()
        self._done(made, self._cut(rows, LEAST, MOST, made, place.version), place)

    def _slices(self, rows: pa.Table, starts: Any) -> Any:
        """In which of the ranges of hashes each row is."""
        return np.searchsorted(starts, np.asarray(hashed(rows, self.by)), "right") - 1

    def _cut(
        self, rows: pa.Table, low: int, high: int, folder: Path, version: int
    ) -> dict[int, str]:
        """Writes the rows from a hash up to another, in more files than one where they are many; the files by their first hashes."""
        if rows.num_rows <= self.most or high - low < 2:
            name = f"part-{low - LEAST:016x}-{version:012d}.parquet"
            sink = pa.BufferOutputStream()
            pq.write_table(repeated(rows), sink)
            with self.folder.telling("written"):
                local.write(folder / name, [sink.getvalue()])
            return {low: name}
        middle = low + (high - low) // 2
        upper = np.asarray(hashed(rows, self.by)) >= middle
        lower = self._cut(rows.filter(pa.array(~upper)), low, middle, folder, version)
        return lower | self._cut(rows.filter(pa.array(upper)), middle, high, folder, version)

    def _sum(self, rows: pa.Table, changes: pa.Table) -> pa.Table:
        """Rows after a change, with their weights."""
        ones = rows.append_column(WEIGHT, pa.array(np.ones(rows.num_rows, np.int64)))
        made = consolidated(pa.concat_tables([ones, changes.cast(ones.schema)]))
        if made.num_rows and np.asarray(made.column(WEIGHT)).min() < 0:
            raise SinkError(
                f"the table {self.path} of the sink `{self.sink}` has not the rows that were written to it",
                hint="take the directory away, and the whole view is written again",
            )
        return made

    def _with(self, pieces: Iterator[pa.Table], changes: pa.Table) -> pa.Table:
        return self._sum(pa.concat_tables(list(pieces)), changes)

    def _pieces(self, about: dict[str, Any]) -> Iterator[pa.Table]:
        for name in about["files"]:
            yield self._read(self.path / CURRENT / name)

    def _read(self, path: Path) -> pa.Table:
        with self.folder.telling("read"):
            found = pq.ParquetFile(path).read()
        if found.column_names != self.schema.names:
            raise SinkError(
                f"{path.name} of the sink `{self.sink}` has other columns: {', '.join(found.column_names)}",
                hint="take the directory away, and the whole view is written again",
            )
        return found.cast(self.schema)

    def _by_spark(self, rows: Rows, place: Place) -> None:
        """The same for many rows: a task writes the files of its ranges."""
        frame = rows.frame()
        count = frame.count()
        parts = 1 << max(0, (count // self.most).bit_length())
        width = (MOST - LEAST) // parts
        starts, by, schema = [LEAST + i * width for i in range(parts)], self.by, self.schema
        bounds = np.array(starts, np.int64)

        def sliced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                table = pa.Table.from_batches([batch])
                which = np.searchsorted(bounds, np.asarray(hashed(table.cast(schema), by)), "right")
                numbered = table.append_column(_SLICE, pa.array(which - 1, pa.int32()))
                yield from numbered.to_batches()

        told = StructType([*frame.schema.fields, StructField(_SLICE, IntegerType())])
        made = self._begun()
        staged = made / "_staged"
        cut = frame.mapInArrow(sliced, told).repartition(parts, _SLICE)
        cut.write.partitionBy(_SLICE).parquet(str(staged))
        slices = {}
        for at, start in enumerate(starts):
            found = sorted((staged / f"{_SLICE}={at}").glob("*.parquet"))
            name = f"part-{start - LEAST:016x}-{place.version:012d}.parquet"
            with self.folder.telling("written"):
                if len(found) == 1:
                    local.move(found[0], made / name)
                    slices[start] = name
                else:
                    tables = [pq.ParquetFile(f).read().cast(schema) for f in found]
                    whole = pa.concat_tables([schema.empty_table(), *tables])
                    weights = pa.array(np.ones(whole.num_rows, np.int64))
                    one = whole.append_column(WEIGHT, weights)
                    end = starts[at + 1] if at + 1 < parts else MOST
                    slices |= self._cut(one, start, end, made, place.version)
        with self.folder.telling("written"):
            local.remove_folder(staged)
        self._done(made, slices, place)

    # --- versions ---------------------------------------------------------------------------------------------------

    def _about(self) -> dict[str, Any] | None:
        """What the newest version says of itself."""
        try:
            with self.folder.telling("read"):
                if not (self.path / CURRENT).is_dir():
                    return None
                about: dict[str, Any] = json.loads((self.path / CURRENT / POINTER).read_text())
            Place.of_data(about)
            return about
        except (ValueError, SinkError) as e:
            raise SinkError(
                f"{self.path / CURRENT} does not say what the sink `{self.sink}` has",
                hint="take the directory away, and the whole view is written again",
            ) from e

    def _begun(self) -> Path:
        """A hidden directory for a new version."""
        made = self.path / f".v.{uuid.uuid4().hex}"
        with self.folder.telling("written"):
            made.mkdir(parents=True)
        return made

    def _done(self, made: Path, slices: dict[int, str], place: Place) -> None:
        """Gives a version its name, and puts the link on it; from then on it is there."""
        starts = sorted(slices)
        files = [slices[s] for s in starts]
        about = {**place.as_data(), "by": self.by, "starts": starts, "files": files}
        name = f"v{place.version:012d}-{uuid.uuid4().hex[:8]}"
        hidden = self.path / f".{CURRENT}.{uuid.uuid4().hex}"
        with self.folder.telling("written"):
            local.write(made / POINTER, [json.dumps(about).encode()])
            local.move(made, self.path / name)
            local.symlink(name, hidden)
            local.move(hidden, self.path / CURRENT)
        self._tidy()

    def _tidy(self) -> None:
        """Removes versions that are older than those that stay, and what a killed process left."""
        with self.folder.telling("written"):
            link = self.path / CURRENT
            now = link.readlink().name if link.is_symlink() else ""
            names = [n for n in self.folder.names() if _OWN.fullmatch(n) and n != CURRENT]
            before = sorted(n for n in names if n < now)
            stay = {now, *before[max(0, len(before) - self.kept) :]}
            for name in names:
                if name not in stay:
                    local.remove_folder(self.path / name)
