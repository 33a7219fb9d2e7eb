"""The commit log: one JSON record a version, created only if absent.

A record says what changed: runs added and removed, maps created and dropped, facts set. Every so many
versions a record also holds all of it, a checkpoint, so that reading a version means reading a checkpoint
and the few records after it. Each record ends with a checksum of itself; one that is missing or unreadable
is an error that names the last whole version, and is never skipped.
"""

from __future__ import annotations

import base64
import contextlib
import json
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from headwater.errors import DamagedState, VersionGone
from headwater.state.files import FileSystem
from headwater.state.run import MapSpec, Order, RunRef

FOLDER, FLOORS = "log", "floor"
CHECKPOINT = 16
"""Every so many versions a record holds everything."""


@dataclass(frozen=True)
class Version:
    """A version: its maps with their runs, and the facts that were set."""

    number: int = 0
    time: float = 0.0
    note: dict[str, Any] = field(default_factory=dict)
    maps: dict[str, tuple[MapSpec, tuple[RunRef, ...]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def files(self) -> set[str]:
        """The data files that the version needs."""
        return {run.file for _, runs in self.maps.values() for run in runs}


@dataclass
class Change:
    """What a commit does to a version."""

    created: dict[str, MapSpec] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    added: dict[str, list[RunRef]] = field(default_factory=dict)
    removed: dict[str, list[RunRef]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def applied(self, old: Version, number: int, time: float, note: dict[str, Any]) -> Version:
        """The next version."""
        maps = {n: m for n, m in old.maps.items() if n not in self.dropped}
        maps |= {n: (spec, ()) for n, spec in self.created.items()}
        for name, gone in self.removed.items():
            spec, runs = maps[name]
            places = {(r.file, r.offset) for r in gone}
            maps[name] = spec, tuple(r for r in runs if (r.file, r.offset) not in places)
        for name, new in self.added.items():
            spec, runs = maps[name]
            maps[name] = spec, (*runs, *new)
        facts = {k: v for k, v in {**old.facts, **self.facts}.items() if v is not None}
        return replace(old, number=number, time=time, note=note, maps=maps, facts=facts)


class Log:
    """The records of a store."""

    def __init__(self, files: FileSystem):
        self.files = files
        self._known: dict[int, Version] = {}

    def numbers(self) -> list[int]:
        """The versions that were committed and are not let go, oldest first; a missing record is no gap."""
        floor = self.floor()  # first, for it may be raised and records deleted meanwhile
        last = max(self.records(), default=0)
        if last < floor:
            raise DamagedState(path_of(floor), "the record is missing", 0)
        return list(range(max(floor, 1), last + 1))

    def records(self) -> list[int]:
        """The versions that have a record; older ones may be kept to read newer ones from."""
        names = [e.name for e in self.files.list(FOLDER)]
        return sorted(int(n.removesuffix(".json")) for n in names if n.endswith(".json"))

    def floor(self) -> int:
        """The oldest version whose files are promised to be there."""
        return max((int(e.name) for e in self.files.list(FLOORS)), default=0)

    def raise_floor(self, number: int) -> None:
        """Lets go of all versions before one; must come before any of their files is deleted."""
        before = self.floor()
        if number > before:
            self.files.put_if_absent(f"{FLOORS}/{number:020d}", b"")
            for entry in self.files.list(FLOORS):
                if int(entry.name) < number:
                    self.files.delete(f"{FLOORS}/{entry.name}")

    def head(self) -> int:
        """The newest version; 0 before the first commit."""
        return max(self.numbers(), default=0)

    def read(self, number: int) -> Version:
        """A version, from the checkpoint before it and the records since."""
        if number == 0:
            return Version()
        known = self._known  # another thread may put a newer one in its place
        if number in known:
            return known[number]
        try:
            return self._read(number)
        except DamagedState as e:
            if number < self.floor():  # let go, and collected, while it was read
                raise VersionGone(
                    f"version {number} is not there any more", hint=f"the oldest is {self.floor()}"
                ) from e
            raise DamagedState(e.path, e.damage, self._whole(number)) from None

    def _whole(self, number: int) -> int:
        """The newest version before one whose records are whole."""
        for n in reversed([n for n in self.numbers() if n < number]):
            with contextlib.suppress(DamagedState):
                return self._read(n).number
        return 0

    def _read(self, number: int) -> Version:
        readable, known = self.numbers(), set(self.records())
        if number not in readable:
            kept = f"{readable[0]} to {readable[-1]}" if readable else "none"
            raise VersionGone(
                f"version {number} is not there", hint=f"versions that are there: {kept}"
            )
        start, at_hand = number, self._known  # a compaction in the background reads versions too
        while start - 1 in known and start not in at_hand and not self._is_checkpoint(start):
            start -= 1
        version = at_hand.get(start) or self._first(start)
        for n in range(start + 1, number + 1):
            version = self._next(version, n)
        self._known = {number: version}  # the newest is what is read again and again
        return version

    def _is_checkpoint(self, number: int) -> bool:
        return number % CHECKPOINT == 1 or "checkpoint" in self._record(number)

    def _first(self, number: int) -> Version:
        record = self._record(number)
        if "checkpoint" not in record:  # collection leaves a checkpoint in front of all records
            raise DamagedState(path_of(number - 1), "the record is missing")
        return _version(number, record)

    def _next(self, before: Version, number: int) -> Version:
        record = self._record(number)
        if "checkpoint" in record:
            return _version(number, record)
        return _change(record["change"]).applied(before, number, record["time"], record["note"])

    def _record(self, number: int) -> dict[str, Any]:
        path = path_of(number)
        try:
            data = self.files.read(path)
        except FileNotFoundError:
            raise DamagedState(path, "the record is missing") from None
        body, _, check = data.rpartition(b"\n")
        if check != _check(body):
            raise DamagedState(path, "its checksum is wrong")
        record: dict[str, Any] = json.loads(body)
        if record["version"] != number:
            raise DamagedState(path, f"it is the record of version {record['version']}")
        return record

    def append(self, old: Version, change: Change, note: dict[str, Any]) -> Version | None:
        """Commits the next version; None if another writer committed it first."""
        new = change.applied(old, old.number + 1, self.files.now(), note)
        record: dict[str, Any] = {"version": new.number, "time": new.time, "note": note}
        if new.number % CHECKPOINT == 1:
            record["checkpoint"] = {
                "maps": {
                    n: [_spec_json(s), [asdict(r) for r in rs]] for n, (s, rs) in new.maps.items()
                },
                "facts": new.facts,
            }
        record["change"] = _change_json(change)
        body = json.dumps(record, separators=(",", ":")).encode()
        if not self.files.put_if_absent(path_of(new.number), body + b"\n" + _check(body)):
            return None
        self._known = {new.number: new}
        return new


def path_of(number: int) -> str:
    """The path of a version's record."""
    return f"{FOLDER}/{number:020d}.json"


def _check(body: bytes) -> bytes:
    return f"{zlib.crc32(body):08x}".encode()


def _version(number: int, record: dict[str, Any]) -> Version:
    maps = {
        n: (_spec_of(n, spec), tuple(RunRef(**r) for r in runs))
        for n, (spec, runs) in record["checkpoint"]["maps"].items()
    }
    return Version(number, record["time"], record["note"], maps, record["checkpoint"]["facts"])


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "created": {n: _spec_json(s) for n, s in change.created.items()},
        "dropped": sorted(change.dropped),
        "added": {n: [asdict(r) for r in rs] for n, rs in change.added.items()},
        "removed": {n: [asdict(r) for r in rs] for n, rs in change.removed.items()},
        "facts": change.facts,
    }


def _change(data: dict[str, Any]) -> Change:
    return Change(
        {n: _spec_of(n, s) for n, s in data["created"].items()},
        set(data["dropped"]),
        {n: [RunRef(**r) for r in rs] for n, rs in data["added"].items()},
        {n: [RunRef(**r) for r in rs] for n, rs in data["removed"].items()},
        data["facts"],
    )


def _spec_json(spec: MapSpec) -> dict[str, Any]:
    """A spec as JSON; Arrow's own encoding of the column types is kept as text."""
    schema = pa.schema([*spec.key, *spec.ring])
    return {
        "columns": base64.b64encode(schema.serialize().to_pybytes()).decode(),
        "keys": len(spec.key),
        "lookup": list(spec.lookup),
        "kind": spec.kind,
        "order": [asdict(o) for o in spec.order],
    }


def _spec_of(name: str, data: dict[str, Any]) -> MapSpec:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data["columns"])))
    columns = [(f.name, f.type) for f in schema]
    return MapSpec(
        name,
        tuple(columns[: data["keys"]]),
        tuple(columns[data["keys"] :]),
        tuple(data["lookup"]),
        data["kind"],
        tuple(Order(**o) for o in data["order"]),
    )
