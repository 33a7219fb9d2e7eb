"""Writing runs: those of any number of maps one after another into one new data file, a segment at a time.

What is written counts from a commit on that names it; until then nobody knows of the file, whose name nothing else will ever have. A
run is written with its size, checksum and range of hashes, which its reference says, so that whoever opens it can compare.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.state import zones
from headwater.state.files import FileSystem, fresh_name
from headwater.state.run import (
    ABOUT,
    LEAST,
    MOST,
    NO_ZONES,
    ROUNDS,
    Generation,
    MapSpec,
    RunRef,
    column,
    hashes,
)
from headwater.state.zones import Noted, Zoned

SEGMENT = 4_000_000
"""Rows of a segment at most: what a compaction holds in memory at a time."""
GATHERED = 65_536
"""Rows of a run that is put together in memory before it is written."""
AT_HAND = 4096
"""Rows of a run that who has written it keeps at hand and does not read back: of many maps a few rows each."""


class Writer:
    """Writes runs of any number of maps into one new data file, a segment at a time; `zoned`: the columns they say zones of."""

    def __init__(self, files: FileSystem, stem: str, folder: str = "data", zoned: Zoned = NO_ZONES):
        self.files, self.folder, self.zoned = files, folder, zoned
        self.name = fresh_name(stem, ".arrow")
        self._runs: list[tuple[MapSpec, Iterator[pa.Table], Generation]] = []
        self._refs: list[tuple[str, RunRef]] = []
        self.small: list[tuple[RunRef, pa.RecordBatch, str]] = []
        """The small runs that were written, with their entries and what map they say they are of."""

    def add(self, spec: MapSpec, tables: Iterable[pa.Table], generation: Generation) -> None:
        """A run of tables that are sorted and follow each other; nothing if they have no entries."""
        assert 0 <= generation[1] < ROUNDS, generation
        entries = (t for t in tables if t.num_rows)
        first = next(entries, None)
        if first is not None:
            self._runs.append((spec, chain([first], entries), generation))

    def close(self) -> list[tuple[str, RunRef]]:
        """Makes the file durable, and gives its runs by map; only a commit makes them exist."""
        if self._runs:
            self.files.write(f"{self.folder}/{self.name}", self._chunks())
        return self._refs

    def _chunks(self) -> Iterator[bytes | pa.Buffer]:
        size = 0
        for spec, tables, generation in self._runs:
            padding = -size % 64  # Arrow wants its buffers aligned, so runs begin on such a place
            yield bytes(padding)
            size += padding
            sink = _Sink()
            rows, spent, low, high = 0, 0, MOST, LEAST
            zoned, zone = self.zoned.get(spec.name, ()), list[tuple[Noted, ...]]()
            about = json.dumps({"map": spec.written_as, "generation": generation})
            schema = spec.schema.with_metadata({ABOUT: about})
            # Arrow writes a run in some twenty pieces: those of a small one are gathered.
            some = list(islice(tables, 2))
            alone = len(some) == 1 and some[0].num_rows <= GATHERED
            small = pa.BufferOutputStream() if alone else None
            parts = some if alone else segments_of(chain(some, tables))
            with pa.ipc.new_file(small or pa.PythonFile(sink, "w"), schema) as out:
                for table in parts:
                    (batch,) = table.combine_chunks().to_batches()
                    out.write_batch(batch)
                    h = hashes(table)
                    low, high = min(low, int(h[0])), max(high, int(h[-1]))
                    rows += table.num_rows
                    spent += _spent(spec, table)
                    if zoned:
                        zone.append(zones.noted(batch, zoned))
                    yield from sink.taken()
            if small is not None:
                sink.write(small.getvalue())
            yield from sink.taken()
            at = self.name, size, sink.size, rows, low, high, spent, sink.checksum, *generation
            ref = RunRef(*at, zones.together(zone) if zone else ())
            self._refs.append((spec.name, ref))
            if small is not None and rows <= AT_HAND:
                self.small.append((ref, batch, spec.written_as))
            size += sink.size


class _Sink(io.RawIOBase):
    """Where Arrow writes: chunks to pass on, with their size and checksum so far."""

    def __init__(self) -> None:
        self.chunks: list[bytes | pa.Buffer] = []
        self.size = self.checksum = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        chunk = data if isinstance(data, pa.Buffer) else bytes(data)  # a buffer is never changed
        self.chunks.append(chunk)
        self.size += len(chunk)
        self.checksum = zlib.crc32(chunk, self.checksum)
        return len(chunk)

    def taken(self) -> list[bytes | pa.Buffer]:
        """The chunks since the last time."""
        chunks, self.chunks = self.chunks, []
        return chunks


def segments_of(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Tables put together, and cut, into contiguous segments."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= SEGMENT:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, SEGMENT).combine_chunks()
            waiting = [whole.slice(SEGMENT)] if count > SEGMENT else []
            count -= SEGMENT
    if count:
        yield pa.concat_tables(waiting).combine_chunks()


def _spent(spec: MapSpec, table: pa.Table) -> int:
    counts = np.asarray(column(table, spec.count))
    return int((counts < 0).sum() if spec.kind == "change" else (counts == 0).sum())
