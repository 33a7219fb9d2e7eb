"""Runs: immutable sorted tables of entries, each an Arrow IPC file inside a data file.

A run has the columns `_h` (the hash of the look-up key, given by the caller), the key columns, and the
ring columns, sorted by `_h`, then by the look-up key, then by the order columns if the map has any, then
by the rest of the key. It is a sequence of record batches, *segments*, each contiguous, so that a look-up
is a binary search over memory that is mapped and never loaded. A data file may hold the runs of several
maps, one after another; a `RunRef` says where, with what is checked when it is opened.

A run belongs to a *generation*, the version that it came with and the round within it: in a value map and in a
latest map the newest generation that has a key says its entry, and what a version changed is in the runs of that
version. A run says in its own bytes which map and generation it is of, so that a record that says otherwise is
found out.
"""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.errors import DamagedState
from headwater.state import zones
from headwater.state.columns import Column, all_taken, worked
from headwater.state.columns import column as column
from headwater.state.files import NO_FILE, FileSystem
from headwater.state.keys import INTEGER, Ints, absent_in, canonical, parts, stored
from headwater.state.search import Across, Hashes
from headwater.state.zones import Noted, Zoned

MAGIC = b"ARROW1"
LEAST, MOST = -(1 << 63), 1 << 63
"""The hash space is [LEAST, MOST)."""
Generation = tuple[int, int]
"""How new a run is: the version that it came with, and the round within that version."""
KINDS = ("change", "value", "latest")
"""How the runs of a map are put together: added up, or the newest one, merged or written blindly."""
ROUNDS = 1 << 31
"""A version has fewer rounds than this."""
CHECKED = 32 << 20
"""Runs up to this number of bytes are compared with their checksum when they are first opened; larger ones when all of them is read."""
RECENT = 64
"""How many files that the newest version does not name stay open for whoever reads them next."""
ABOUT = b"headwater"
"""The key in the metadata of a run's schema under which it says which map and version it is of."""
NO_ZONES: Zoned = {}


@dataclass(frozen=True)
class Order:
    """A column that entries of a group are kept in order by."""

    column: str
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True)
class MapSpec:
    """What a map is made of.

    `lookup` are the key columns that `_h` is the hash of; `key` are all key columns; `ring` the columns
    that add up, of which the first counts rows: an entry is gone when it is zero. A *change* map is the
    sum of its runs; in a *value* map the newest run that has a key says its value. So it does in a *latest* map,
    whose entries are written without a look at the old ones: its count is 1, or 0 for a key that is gone, and its
    other ring columns are of any type, nullable, and never added up.

    A *pinned* map is a queue: its runs are never rewritten, and leave it one by one. They may be those of the map
    that `of` names, which are then in both maps.
    """

    name: str
    key: tuple[tuple[str, pa.DataType], ...]
    ring: tuple[tuple[str, pa.DataType], ...]
    lookup: tuple[str, ...]
    kind: str = "change"
    order: tuple[Order, ...] = ()
    pinned: bool = False
    of: str = ""

    def __post_init__(self) -> None:
        names = [n for n, _ in (*self.key, *self.ring)]
        assert self.kind in KINDS, self.kind
        assert type(self.pinned) is bool and type(self.of) is str, (self.pinned, self.of)
        assert self.pinned or not self.of, "only the runs of a pinned map may be those of another"
        assert len(set(names)) == len(names) and "_h" not in names, names
        assert set(self.lookup) <= {n for n, _ in self.key}, self.lookup
        assert self.ring and pa.types.is_integer(self.ring[0][1]), (
            "the first ring column counts rows"
        )

    @cached_property
    def keys(self) -> list[str]:
        """The key columns in the order that entries are sorted by."""
        first = [*self.lookup, *(o.column for o in self.order)]
        return [*dict.fromkeys(first), *(n for n, _ in self.key if n not in first)]

    @cached_property
    def rings(self) -> list[str]:
        return [n for n, _ in self.ring]

    @property
    def count(self) -> str:
        """The ring column that counts rows."""
        return self.ring[0][0]

    @property
    def newest(self) -> bool:
        """Whether the newest run that has a key says its entry, and its runs are not added up."""
        return self.kind != "change"

    @property
    def written_as(self) -> str:
        """The map that its runs say they are of."""
        return self.of or self.name

    @cached_property
    def unique(self) -> bool:
        """Whether a look-up key has one entry at most."""
        return set(self.lookup) == {n for n, _ in self.key}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a run, as they are stored."""
        types = {**dict(self.key), **dict(self.ring)}
        columns = [(n, stored(types[n])) for n in (*self.keys, *self.rings)]
        return pa.schema([("_h", pa.int64()), *columns])

    @cached_property
    def shape(self) -> str:
        """What maps have in common whose entries have the same columns, in the same order."""
        columns = " ".join(f"{n}:{t}" for n, t in self.types.items())
        return f"{columns} by {self.lookup} in {self.order}"

    @cached_property
    def whole(self) -> bool:
        """Whether all columns are whole numbers, which have one form."""
        return all(f.type == INTEGER for f in self.schema)

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """The same by name."""
        return {f.name: f.type for f in self.schema}

    def described(self) -> dict[str, Any]:
        """The spec as plain data, for the log and its fingerprint."""
        return {
            "key": [[n, str(t)] for n, t in self.key],
            "ring": [[n, str(t)] for n, t in self.ring],
            "lookup": list(self.lookup),
            "kind": self.kind,
            "order": [asdict(o) for o in self.order],
            **self.queue(),
        }

    def queue(self) -> dict[str, Any]:
        """What is only said of a pinned map."""
        return {"pinned": True, **({"of": self.of} if self.of else {})} if self.pinned else {}


_DATA_FILE = re.compile(r"[a-z]+-[0-9a-f]{32}\.arrow")


def is_data_file(name: str) -> bool:
    """Whether a name is of the shape that `Writer` gives: no other file is opened or deleted."""
    return _DATA_FILE.fullmatch(name) is not None


@dataclass(frozen=True)
class RunRef:
    """Where a run is and what it must look like: file, bytes, rows, range of hashes, checksum, generation.

    `spent` are the entries that only cancel older ones: deletions of a change map, gone keys of another. `zone` is what
    is known of the values of some key columns (`state/zones`); where a run is does not depend on it.
    """

    file: str
    offset: int
    size: int
    rows: int
    low: int
    high: int
    spent: int
    checksum: int
    version: int
    round: int = 0
    zone: tuple[Noted, ...] = field(default=(), compare=False)
    of: str = ""
    """The map that it says it is of, where another has taken it over."""

    def __hash__(self) -> int:
        """By its place alone, which is its own: references are looked up for every run that is opened."""
        return hash((self.file, self.offset))

    @property
    def generation(self) -> Generation:
        """How new it is."""
        return self.version, self.round

    def data(self) -> dict[str, Any]:
        """The reference as plain data; one without zones, that is of its own map, is as it was before there were others."""
        data = dict(vars(self))
        for name in ("zone", "of"):
            if not data[name]:
                del data[name]
        return data

    @staticmethod
    def of_data(data: dict[str, Any]) -> RunRef:
        """The reference that plain data say."""
        return RunRef(**{**data, "zone": zones.of_data(data["zone"])} if "zone" in data else data)


@dataclass(frozen=True)
class Segment:
    """A contiguous part of an opened run."""

    h: Ints
    batch: pa.RecordBatch

    def within(self, low: int, high: int) -> tuple[int, int]:
        """The rows whose hash is in [low, high)."""
        return self._before(low), self._before(high)

    def _before(self, end: int) -> int:
        if end >= MOST:
            return len(self.h)
        return int(np.searchsorted(self.h, np.int64(max(end, LEAST)), "left"))


class Run:
    """An opened run; its rows are numbered through all segments. `of` is the map that it says it is of."""

    def __init__(self, ref: RunRef, segments: list[Segment], of: str | None = None):
        self.ref, self.segments, self.of = ref, segments, of

    @cached_property
    def hashes(self) -> Hashes:
        """The hashes, to search in."""
        return Hashes([s.h for s in self.segments])

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of a run of one segment, to work on."""
        return [worked(c) for c in self.segments[0].batch.columns]

    @cached_property
    def numbers(self) -> dict[str, Across]:
        """The columns of plain numbers of a run of several segments, each as one."""
        out = {}
        for i, name in enumerate(self.segments[0].batch.schema.names):
            parts = [worked(s.batch.column(i)) for s in self.segments]
            if all(type(p) is np.ndarray for p in parts):
                out[name] = Across(parts)
        return out

    def entries(self, rows: Ints, h: Ints) -> list[Column]:
        """Some rows, in the order asked for, as columns to work on; `h` are their hashes, which who looks for rows knows."""
        if len(self.segments) == 1:
            return [h, *all_taken(self.columns[1:], rows)]
        part, numbers = self.hashes.part_of(rows), self.numbers
        _, *names = self.segments[0].batch.schema.names
        others = [n for n in names if n not in numbers]
        table = self.take(rows, others) if others else pa.table({})
        taken = (
            numbers[n].at(rows, part) if n in numbers else worked(column(table, n)) for n in names
        )
        return [h, *taken]

    def take(self, rows: Ints, names: list[str] | None = None) -> pa.Table:
        """Some rows, in the order asked for."""
        if len(self.segments) == 1:
            return self._taken(0, rows, names)
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
            return self.take(rows[order], names).take(pa.array(back))
        cuts = np.searchsorted(rows, self.hashes.starts)
        pieces = [
            self._taken(i, rows[a:b] - self.hashes.starts[i], names)
            for i, (a, b) in enumerate(pairwise(cuts))
            if b > a
        ]
        if not pieces:
            return self._taken(0, rows, names)
        return pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces)

    def _taken(self, segment: int, rows: Ints, names: list[str] | None) -> pa.Table:
        """Some rows of a segment, counted from its beginning."""
        batch = self.segments[segment].batch
        some = batch if names is None else batch.select(names)
        return pa.Table.from_batches([some.take(pa.array(rows))])

    def tables(self, low: int = LEAST, high: int = MOST) -> Iterator[pa.Table]:
        """The entries whose hash is in [low, high), a segment at a time, not copied."""
        for segment in self.segments:
            a, b = segment.within(low, high)
            if b > a:
                yield pa.Table.from_batches([segment.batch.slice(a, b - a)])


class DataFile:
    """A data file, mapped once, and the runs in it that were opened; those that were compared with their checksum."""

    def __init__(self, content: pa.Buffer):
        self.content = content
        self.runs: dict[RunRef, Run] = {}
        self.sound: set[RunRef] = set()


class Runs:
    """Opened data files, shared by all arrangements that read them; files never change.

    The files that `hold` names stay open, for they are what is read again and again; of others the last few do. A
    file that is let go is unmapped when nobody reads a run of it any more.
    """

    def __init__(self, files: FileSystem, folder: str = "data"):
        self.files, self.folder = files, folder
        self._held: dict[str, DataFile] = {}
        self._recent: dict[str, DataFile] = {}
        self._names: Set[str] = frozenset()

    def open(self, ref: RunRef) -> Run:
        """A run, compared with what its reference says when it is first opened."""
        file = self._file(ref.file)
        if ref.size <= CHECKED and ref not in file.sound:
            self._compare(file, ref)
        return self._known(file, ref)

    def look(self, ref: RunRef) -> None:
        """A run is passed over for the hashes that its reference says: whether it has those, without reading the rest."""
        self._known(self._file(ref.file), ref)

    def _known(self, file: DataFile, ref: RunRef) -> Run:
        run = file.runs.get(ref)
        if run is None:
            run = file.runs[ref] = self._opened(file, ref)
        return run

    def hold(self, names: Set[str]) -> None:
        """Keeps the files of these names open from now on, and lets go of others that it kept."""
        self._names = names
        for name in list(self._held):  # others may open files meanwhile
            if name not in names:
                self._held.pop(name, None)

    def trust(self, refs: Iterable[RunRef]) -> None:
        """These runs were written by this process just now: their bytes need no look."""
        for ref in refs:
            self._file(ref.file).sound.add(ref)

    def know(self, small: Iterable[tuple[RunRef, pa.RecordBatch, str]]) -> None:
        """Small runs that this process wrote just now, with their entries and map: these need not be read back."""
        for ref, batch, of in small:
            segment = Segment(batch.column(0).to_numpy(zero_copy_only=True), batch)
            self._file(ref.file).runs[ref] = Run(ref, [segment], of)

    def _file(self, name: str) -> DataFile:
        found = self._held.get(name) or self._recent.get(name)
        if found is None:
            path = f"{self.folder}/{name}"
            try:
                found = DataFile(self.files.map(path))
            except FileNotFoundError:
                raise DamagedState(path, "the file is missing") from None
            except OSError as e:
                if e.errno in NO_FILE:
                    raise DamagedState(path, str(e.strerror)) from e
                raise
        if name in self._names:
            self._held[name] = found
        else:
            # Without a lock, which an interrupt between its block and its end would leave locked: a dict's own operations
            # are whole, and whether one file more or less stays open does not matter.
            self._recent[name] = found
            while len(self._recent) > RECENT:
                with contextlib.suppress(RuntimeError, StopIteration):  # another thread was first
                    self._recent.pop(next(iter(self._recent)), None)
        return found

    def _content(self, file: DataFile, ref: RunRef) -> pa.Buffer:
        """The bytes of a run, which must all be there."""
        if file.content.size < ref.offset + ref.size:
            there, wanted = file.content.size, ref.offset + ref.size
            raise self._damaged(ref, f"{there} bytes are there, and {wanted} should be")
        return file.content.slice(ref.offset, ref.size)

    def _opened(self, file: DataFile, ref: RunRef) -> Run:
        content = self._content(file, ref)
        if content[:6] != MAGIC or content[-6:] != MAGIC:
            raise self._damaged(ref, "it does not begin and end as an Arrow file does")
        try:
            reader = pa.ipc.open_file(pa.BufferReader(content))
            batches = [
                reader.get_batch(i).replace_schema_metadata(None)
                for i in range(reader.num_record_batches)
            ]
            for batch in batches:
                batch.validate()  # lengths and offsets that were changed must not be followed
            segments = [Segment(b.column(0).to_numpy(zero_copy_only=True), b) for b in batches]
            about = json.loads((reader.schema.metadata or {}).get(ABOUT, b"{}"))
            of, generation = about.get("map"), about.get("generation", [*ref.generation])
        except Exception as e:  # of bytes that it did not write Arrow may say anything
            raise self._damaged(ref, f"Arrow cannot read it: {e}") from e
        if sum(b.num_rows for b in batches) != ref.rows or not ref.rows:
            raise self._damaged(ref, f"it has other than {ref.rows} rows")
        if (int(segments[0].h[0]), int(segments[-1].h[-1])) != (ref.low, ref.high):
            raise self._damaged(ref, f"its hashes are not from {ref.low} to {ref.high}")
        if tuple(generation) != ref.generation:
            raise self._damaged(
                ref, f"it is of version {generation[0]}, and should be of {ref.version}"
            )
        return Run(ref, segments, of)

    def verify(self, ref: RunRef) -> None:
        """Reads all bytes of a run and compares their checksum, though that may have been done before."""
        self._compare(self._file(ref.file), ref)
        self.open(ref)

    def _compare(self, file: DataFile, ref: RunRef) -> None:
        if checksum(self._content(file, ref)) != ref.checksum:
            raise self._damaged(ref, "its checksum is wrong")
        file.sound.add(ref)

    def _damaged(self, ref: RunRef, what: str) -> DamagedState:
        return DamagedState(f"{self.folder}/{ref.file}", what)

    def forget(self, names: Set[str]) -> None:
        """Closes files that are about to be deleted."""
        for name in names:
            self._held.pop(name, None)
            self._recent.pop(name, None)


def checksum(content: pa.Buffer | bytes) -> int:
    """CRC-32 of the bytes."""
    return zlib.crc32(content)


def prepared(spec: MapSpec, table: pa.Table) -> pa.Table:
    """A table of entries with the stored columns, in canonical form; what a latest map holds is kept as it is."""
    if spec.whole and table.schema.equals(spec.schema):
        return table
    held = set(spec.rings) if spec.kind == "latest" else set()
    arrays = []
    for name, wanted in spec.types.items():
        made = canonical(column(table, name), compared=name not in held)
        arrays.append(cast(made, wanted))
    return pa.Table.from_arrays(arrays, schema=spec.schema)


def cast(values: pa.Array, t: pa.DataType) -> pa.Array:
    """A column in a type; itself, and not a copy, if it is in it."""
    return values if values.type == t else values.cast(t)


def hashes(table: pa.Table) -> Ints:
    """The `_h` column as integers."""
    return np.asarray(column(table, "_h"))


def sort_columns(
    spec: MapSpec, table: pa.Table, names: Sequence[str] | None = None
) -> tuple[list[pa.Array], set[int]]:
    """What entries with the same hash are sorted by, and which of it goes down; or the part of it that is in some key columns."""
    directions = {o.column: o for o in spec.order}
    columns: list[pa.Array] = []
    down: set[int] = set()
    for name in spec.keys if names is None else names:
        array = column(table, name)
        order = directions.get(name)
        if order is None:
            columns.extend(parts(array))
            continue
        # Where NULLs go does not depend on the direction, so they have a column of their own.
        absent = absent_in(array)
        columns.append(pa.array((absent == order.nulls_last).astype(np.int8)))
        for part in parts(array):
            if order.descending:
                down.add(len(columns))
            columns.append(part)
    return columns, down
