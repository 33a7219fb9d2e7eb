"""The commit log: a JSON record for each version, created only if absent.

A record says what changed: runs added and removed, maps created and dropped, facts set. Every 16th
version a record also holds all of it, a checkpoint, so that reading a version means reading a checkpoint
and the few records after it. Each record ends with a checksum of itself; one that is missing or unreadable
is an error that names the last whole version, and is never skipped.

A record may come from somebody else's disk. It names maps, runs and facts and nothing that is executed; names of
files are of the shape that a writer gives, and what is not as it should be is an error that names the record. It
also holds a *seal*, a digest of everything that its version has, so that a part of the log that was exchanged for
another is found out though its checksum is right.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from headwater.errors import DamagedState, VersionGone
from headwater.state.files import NO_FILE, FileSystem, is_temporary
from headwater.state.run import LEAST, MOST, ROUNDS, MapSpec, Order, RunRef, is_data_file

FOLDER, FLOORS = "log", "floor"
CHECKPOINT = 16
"""After how many versions a record holds everything."""
_RECORD, _FLOOR = re.compile(r"\d{20}\.json"), re.compile(r"\d{20}")
_MISSING = 10_000
"""If more records are missing before the last one, its number is taken for no number of a version."""
_LATEST = 1 << 37
"""A time, in seconds, that no record is written at."""
_OLD_STEPS = 1000
"""In the first format a run's generation was its version times this, plus the round."""
T = TypeVar("T")


@dataclass(frozen=True)
class Version:
    """A version: its maps with their runs, and the facts that were set; `seal` is the sum of what it has."""

    number: int = 0
    time: float = 0.0
    note: dict[str, Any] = field(default_factory=dict)
    maps: dict[str, tuple[MapSpec, tuple[RunRef, ...]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    seal: int = 0
    mark: str = ""
    """What tells the version from one of the same number in another history."""
    minors: int = 0
    """How many of the versions up to this one are minor, by their notes."""

    @cached_property
    def files(self) -> frozenset[str]:
        """The data files that the version needs."""
        return frozenset(run.file for _, runs in self.maps.values() for run in runs)


@dataclass
class Change:
    """What a commit does to a version."""

    created: dict[str, MapSpec] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    added: dict[str, list[RunRef]] = field(default_factory=dict)
    removed: dict[str, list[RunRef]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def applied(
        self, old: Version, number: int, time: float, note: dict[str, Any], mark: str
    ) -> Version:
        """The next version; its seal is the one before with what came and what went."""
        maps, seal = dict(old.maps), old.seal
        for name in self.dropped:
            if name in maps:
                seal ^= _seal_of(name, *maps.pop(name))
        for name, spec in self.created.items():
            maps[name] = spec, ()
            seal ^= _seal_of(name, spec, ())
        for name, gone in self.removed.items():
            spec, runs = maps[name]
            if not set(gone) <= set(runs):
                raise ValueError(f"runs are taken from the map `{name}` that it does not have")
            places = {(r.file, r.offset) for r in gone}
            kept = tuple(r for r in runs if (r.file, r.offset) not in places)
            seal ^= _seal_of(name, None, [r for r in runs if (r.file, r.offset) in places])
            maps[name] = spec, kept
        for name, new in self.added.items():
            spec, runs = maps[name]
            self._check_taken_over(name, spec, new, old)
            maps[name] = spec, _different(name, (*runs, *new))
            seal ^= _seal_of(name, None, new)
        facts = dict(old.facts)
        for key, value in self.facts.items():
            if key in facts:
                seal ^= _digest("fact", key, facts.pop(key))
            if value is not None:
                facts[key] = value
                seal ^= _digest("fact", key, value)
        minors = old.minors + bool(note.get("minor"))
        return Version(number, time, note, maps, facts, seal, mark, minors)

    def _check_taken_over(
        self, name: str, spec: MapSpec, new: Sequence[RunRef], old: Version
    ) -> None:
        """A run that says it is of another map was had by one that goes as this one comes; by a pinned one, also by one that it follows."""
        for r in [r for r in new if r.of]:
            if spec.pinned:
                had = any(r in rs for s, rs in old.maps.values() if s.written_as == spec.written_as)
            else:
                gone = [old.maps[n] for n in self.dropped if n in old.maps]
                was = {r, replace(r, of="")}
                had = name in self.created and any(
                    r.of == (x.of or s.written_as) for s, rs in gone for x in rs if x in was
                )
            if not had:
                raise ValueError(
                    f"the map `{name}` has a run of `{r.of}` that it has not taken over"
                )


def _different(name: str, runs: tuple[RunRef, ...]) -> tuple[RunRef, ...]:
    if len({(r.file, r.offset) for r in runs}) < len(runs):
        raise ValueError(f"the map `{name}` has a run twice")
    return runs


def _seal_of(name: str, spec: MapSpec | None, runs: Any) -> int:
    """The part of a seal that a map is, or some of its runs."""
    seal = 0 if spec is None else _digest("map", name, spec.described())
    for r in runs:
        seal ^= _hashed(f"run {name} {' '.join(map(str, r.data().values()))}")
    return seal


def _digest(*parts: Any) -> int:
    return _hashed(json.dumps(parts, sort_keys=True))


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def seal_of(version: Version) -> int:
    """The seal of a version, from everything that it has."""
    seal = 0
    for name, (spec, runs) in version.maps.items():
        seal ^= _seal_of(name, spec, runs)
    for key, value in version.facts.items():
        seal ^= _digest("fact", key, value)
    return seal


def seal_text(version: Version) -> str:
    """The seal as a record has it: of what the version has, and of what is said of the version itself."""
    about: tuple[Any, ...] = version.number, version.time, version.note, version.mark
    if version.minors:  # so that the seals of histories without any are as they always were
        about += (version.minors,)
    return f"{version.seal ^ _digest('version', *about):016x}"


class Log:
    """The records of a store."""

    def __init__(self, files: FileSystem):
        self.files = files
        self._known: dict[int, Version] = {}
        self._minors: dict[int, int] = {}

    def numbers(self) -> list[int]:
        """The versions that were committed and are not let go, oldest first; a missing record is no gap."""
        floor = self.floor()  # first, for it may be raised and records deleted meanwhile
        known = [n for n in self.records() if n >= floor]
        last, first = max(known, default=0), max(floor, 1)
        if last < floor:
            raise DamagedState(path_of(floor), "the record is missing", 0)
        if last - first + 1 - len(known) > _MISSING:  # as when one has got a number that is none
            raise DamagedState(path_of(last), "too many records before it are missing")
        return list(range(first, last + 1))

    def records(self) -> list[int]:
        """The versions that have a record; older ones may be kept to read newer ones from."""
        names = self.files.names(FOLDER)
        return sorted(int(n.removesuffix(".json")) for n in names if _RECORD.fullmatch(n))

    def floor(self) -> int:
        """The oldest version whose files are promised to be there."""
        return max(self._floors(), default=0)

    def _floors(self) -> list[int]:
        return [int(n) for n in self.files.names(FLOORS) if _FLOOR.fullmatch(n)]

    def strays(self) -> list[str]:
        """Files beside the records that are none of ours."""
        return [
            f"{folder}/{name}"
            for folder, shape in ((FOLDER, _RECORD), (FLOORS, _FLOOR))
            for name in self.files.names(folder)
            if not shape.fullmatch(name) and not is_temporary(name)
        ]

    def times(self) -> dict[int, float]:
        """When each record was written, by the clock of the disk."""
        return {
            int(e.name.removesuffix(".json")): e.written
            for e in self.files.list(FOLDER)
            if _RECORD.fullmatch(e.name)
        }

    def minors(self, number: int) -> int:
        """How many of the versions up to one are minor; its record is read once, and no other."""
        known, minors = self._known, self._minors
        if number in known:
            minors[number] = known[number].minors
        elif number not in minors:
            minors[number] = self._record(number)["minors"]
        return minors[number]

    def raise_floor(self, number: int) -> None:
        """Lets go of all versions before one; must come before any of their files is deleted."""
        before = self.floor()
        if number > before:
            self.files.put_if_absent(f"{FLOORS}/{number:020d}", b"")
            for old in self._floors():
                if old < number:
                    self.files.delete(f"{FLOORS}/{old:020d}")
        self._minors = {n: k for n, k in list(self._minors.items()) if n >= number - 1}

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

    def history(self, first: int, last: int) -> Iterator[Version | DamagedState]:
        """The versions from one to another, each from the one before; damage in the place of those that it hides."""
        version: Version | None = None
        for n in range(first, last + 1):
            try:
                if version is None:
                    version = self._read(n) if n == first else self._first(n)
                else:
                    version = self._next(version, n)
                yield version
            except DamagedState as e:
                version = None
                yield e

    def _is_checkpoint(self, number: int) -> bool:
        return number % CHECKPOINT == 1 or "checkpoint" in self._record(number)

    def _first(self, number: int) -> Version:
        record = self._record(number)
        if "checkpoint" not in record:  # collection leaves a checkpoint in front of all records
            raise DamagedState(path_of(number - 1), "the record is missing")
        return _sealed(number, record, lambda: _version(number, record))

    def _next(self, before: Version, number: int) -> Version:
        record = self._record(number)

        def found() -> Version:
            change = _change(record["change"])
            made = change.applied(before, number, record["time"], record["note"], record["mark"])
            if "checkpoint" in record:
                whole = _version(number, record)
                if whole.seal != made.seal:
                    raise ValueError(
                        "it has other things than the version before and its change say"
                    )
                return whole
            if made.minors != record["minors"]:
                raise ValueError(f"it says that {record['minors']} versions are minor")
            return made

        return _sealed(number, record, found)

    def _record(self, number: int) -> dict[str, Any]:
        path = path_of(number)
        try:
            data = self.files.read(path)
        except FileNotFoundError:
            raise DamagedState(path, "the record is missing") from None
        except OSError as e:
            if e.errno in NO_FILE:
                raise DamagedState(path, str(e.strerror)) from e
            raise
        body, _, check = data.rpartition(b"\n")
        if check != _check(body):
            raise DamagedState(path, "its checksum is wrong" if data else "it is empty")
        record = _well_formed(path, lambda: json.loads(body))
        if not isinstance(record, dict) or record.get("version") != number:
            raise DamagedState(path, f"it is not the record of version {number}")
        time, note = record.get("time"), record.get("note")
        dated = isinstance(time, (int, float)) and 0 <= time < _LATEST
        if not isinstance(note, dict) or not dated:
            raise DamagedState(path, "it does not say when it was written, and what for")
        if ("mark" in record) != isinstance(record.get("seal"), str):
            raise DamagedState(path, "it has a mark and no seal, or a seal and no mark")
        minors = record.get("minors", 0)
        if type(minors) is not int or not 0 <= minors <= number:
            raise DamagedState(path, "it does not say how many versions are minor")
        # Records of the first format have no mark of their own: their bytes tell them apart.
        return {"mark": f"{zlib.crc32(body):08x}", "seal": None, "minors": 0, **record}

    def append(self, old: Version, change: Change, note: dict[str, Any]) -> Appended | None:
        """Commits the next version; None if another writer committed it first.

        An error that leaves open whether the record is there is no answer: it is looked up. `OSError` where it is
        not there, `Unclear` where that cannot be seen either.
        """
        mark = uuid.uuid4().hex
        new = change.applied(old, old.number + 1, self.files.now(), note, mark)
        record: dict[str, Any] = {"version": new.number, "time": new.time, "note": note}
        record |= {"mark": mark, "seal": seal_text(new)}
        if new.minors:
            record["minors"] = new.minors
        if new.number % CHECKPOINT == 1:
            record["checkpoint"] = {
                "maps": {
                    n: [_spec_json(s), [r.data() for r in rs]] for n, (s, rs) in new.maps.items()
                },
                "facts": new.facts,
            }
        record["change"] = _change_json(change)
        body = json.dumps(record, separators=(",", ":")).encode()
        doubt: OSError | None = None
        try:
            if not self.files.put_if_absent(path_of(new.number), body + b"\n" + _check(body)):
                if not self._has(new):
                    return None
        except OSError as e:
            doubt = e
            if not self._has(new, e):
                raise
        self._known, self._minors[new.number] = {new.number: new}, new.minors
        return Appended(new, doubt)

    def _has(self, version: Version, doubt: OSError | None = None) -> bool:
        """Whether the record of a version is the one that was written for it."""
        for _ in range(3):
            try:
                return bool(self._record(version.number)["mark"] == version.mark)
            except DamagedState:
                return False
            except OSError as e:
                doubt = doubt or e
        raise Unclear(version.number) from doubt


def path_of(number: int) -> str:
    """The path of a version's record."""
    return f"{FOLDER}/{number:020d}.json"


def _check(body: bytes) -> bytes:
    return f"{zlib.crc32(body):08x}".encode()


@dataclass(frozen=True)
class Appended:
    """A version that was committed; `doubt` is what the disk said when it was asked to confirm it."""

    version: Version
    doubt: OSError | None


class Unclear(Exception):
    """The disk failed, and does not say whether a version was committed."""


def _well_formed(path: str, read: Callable[[], T]) -> T:
    """What a record says; `DamagedState` where it is not what a writer writes."""
    try:
        return read()
    except DamagedState:
        raise
    except Exception as e:  # a record that somebody changed may be wrong in any way
        told = f"{type(e).__name__}: {e}".splitlines()[0][:200]
        raise DamagedState(path, f"it is not a record as Headwater writes it ({told})") from e


def _sealed(number: int, record: dict[str, Any], read: Callable[[], Version]) -> Version:
    """A version that has what its seal says."""
    version = _well_formed(path_of(number), read)
    if record["seal"] is not None and record["seal"] != seal_text(version):
        raise DamagedState(path_of(number), "its seal is not that of what it says")
    return version


def _version(number: int, record: dict[str, Any]) -> Version:
    maps = {
        n: (_spec_of(n, spec), _different(n, tuple(map(_ref, runs))))
        for n, (spec, runs) in record["checkpoint"]["maps"].items()
    }
    facts = dict(record["checkpoint"]["facts"])
    _check_owners(maps)
    about = record["time"], record["note"], maps, facts, 0, record["mark"]
    found = Version(number, *about, record.get("minors", 0))
    return replace(found, seal=seal_of(found))


def _check_owners(maps: Mapping[str, tuple[MapSpec, tuple[RunRef, ...]]]) -> None:
    """A run that a map has taken over is in no other map, but in those that are pinned."""
    own = [(n, r) for n, (spec, runs) in maps.items() if not spec.pinned for r in runs]
    taken = {(r.file, r.offset): n for n, r in own if r.of}
    for name, r in own if taken else ():
        if taken.get((r.file, r.offset), name) != name:
            raise ValueError(f"the maps `{taken[r.file, r.offset]}` and `{name}` have one run")


def _ref(data: dict[str, Any]) -> RunRef:
    """A run's reference, in this format or the first."""
    given = dict(data)
    if "generation" in given:
        given["version"], given["round"] = divmod(given.pop("generation"), _OLD_STEPS)
    ref = RunRef.of_data(given)
    numbers = [v for n, v in vars(ref).items() if n not in ("file", "zone", "of")]
    if not is_data_file(ref.file):
        raise ValueError(f"{ref.file!r} is no name of a data file")
    if type(ref.of) is not str:
        raise ValueError(f"the run in {ref.file} is of {ref.of!r}, which is no map")
    if not all(type(v) is int for v in numbers) or not 0 <= ref.round < ROUNDS:
        raise ValueError(f"the run in {ref.file} is not given by whole numbers")
    if min(ref.offset, ref.size, ref.rows, ref.version) < 0:
        raise ValueError(f"the run in {ref.file} has a number below zero")
    if not LEAST <= ref.low <= ref.high < MOST:
        raise ValueError(f"the run in {ref.file} has no range of hashes")
    return ref


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "created": {n: _spec_json(s) for n, s in change.created.items()},
        "dropped": sorted(change.dropped),
        "added": {n: [r.data() for r in rs] for n, rs in change.added.items()},
        "removed": {n: [r.data() for r in rs] for n, rs in change.removed.items()},
        "facts": change.facts,
    }


def _change(data: dict[str, Any]) -> Change:
    return Change(
        {n: _spec_of(n, s) for n, s in data["created"].items()},
        set(data["dropped"]),
        {n: list(map(_ref, rs)) for n, rs in data["added"].items()},
        {n: list(map(_ref, rs)) for n, rs in data["removed"].items()},
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
        **spec.queue(),
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
        data.get("pinned", False),
        data.get("of", ""),
    )
