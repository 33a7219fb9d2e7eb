"""The store: versions of many maps in one directory, one writer, any number of readers.

    store = Store(LocalFiles(path))
    with store.writer() as writer:
        change = writer.begin()
        change.create(spec)
        touched = change.merge("m", table)
        writer.commit(change)
    store.at().arrangement("m").lookup(keys)

A commit is one record of the log, so readers see a version whole or not at all. Compactions are computed
beside it and ride in the next commit. Old versions can be read for as long as they are retained; `collect`
deletes the files that no retained version names and that no task can still be writing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import pyarrow as pa

from headwater.errors import DamagedState, LeaseLost, StateError
from headwater.state import compaction, lease
from headwater.state.arrangement import Arrangement, Touched
from headwater.state.compaction import Keep
from headwater.state.files import FileSystem
from headwater.state.log import CHECKPOINT, Change, Log, Version, path_of
from headwater.state.run import MapSpec, Run, RunRef, Runs, Writer

DATA = "data"


@dataclass(frozen=True)
class Snapshot:
    """One version, to read from."""

    version: Version
    runs: Runs

    @property
    def number(self) -> int:
        return self.version.number

    @property
    def facts(self) -> dict[str, Any]:
        return self.version.facts

    def arrangement(self, name: str) -> Arrangement:
        """A map as it is at this version."""
        if name not in self.version.maps:
            known = ", ".join(sorted(self.version.maps)) or "none"
            raise StateError(
                f"there is no map `{name}` at version {self.number}", hint=f"maps: {known}"
            )
        spec, refs = self.version.maps[name]
        return Arrangement(spec, refs, self.runs)


@dataclass
class Report:
    """What `check` found: how much was read, and everything that is damaged."""

    versions: int = 0
    files: int = 0
    bytes: int = 0
    whole: int = 0
    problems: list[DamagedState] = field(default_factory=list)


class StoredRuns(Runs):
    """The runs of a store: damage is told with the last version that has none."""

    def open(self, ref: RunRef) -> Run:
        with self._telling(ref):
            return super().open(ref)

    def verify(self, ref: RunRef) -> None:
        with self._telling(ref):
            super().verify(ref)

    @contextlib.contextmanager
    def _telling(self, damaged: RunRef) -> Iterator[None]:
        try:
            yield
        except DamagedState as e:
            whole = self._whole(damaged) if e.whole is None else e.whole
            raise DamagedState(e.path, e.damage, whole) from e

    def _whole(self, damaged: RunRef) -> int:
        """The newest version without a run, and whose files can be opened."""
        log, runs = Log(self.files), Runs(self.files, self.folder)
        for number in reversed(log.numbers()):
            with contextlib.suppress(DamagedState):
                refs = [ref for _, refs in log.read(number).maps.values() for ref in refs]
                if damaged not in refs and all(runs.open(ref) for ref in refs):
                    return number
        return 0


class Store:
    """A directory of maps; `keep_versions` and `keep_minutes` say how much of the past stays readable."""

    def __init__(
        self,
        files: FileSystem,
        keep_versions: int = 8,
        keep_minutes: float = 0.0,
        grace_minutes: float = 60.0,
    ):
        self.files, self.log, self.runs = files, Log(files), StoredRuns(files, DATA)
        self.keep_versions, self.keep_minutes = max(1, keep_versions), keep_minutes
        self.grace_minutes = grace_minutes

    def head(self) -> int:
        """The newest version; 0 before the first commit."""
        return self.log.head()

    def at(self, number: int | None = None) -> Snapshot:
        """A version, the newest unless one is named."""
        return Snapshot(self.log.read(self.head() if number is None else number), self.runs)

    def writer(self, time_to_live: float = 60.0) -> StoreWriter:
        """The right to commit; `WriterBusy` while another has it."""
        held = lease.acquire(self.files, time_to_live)
        try:
            while held.taken_over:
                held.check()
                fence = {"fence": held.holder.epoch}
                if self.log.append(self.log.read(self.head()), Change(), fence) is not None:
                    break
                # The writer before had passed its own check and came first; once, for now it fails.
        except BaseException:
            held.withdraw()  # without a fence the writer before could still commit
            raise
        return StoreWriter(self, held)

    # --- retention ------------------------------------------------------------------------------------

    def retained(self) -> list[int]:
        """The versions that can still be read, oldest first."""
        head, now = self.head(), self.files.now()
        kept = []
        for number in reversed(self.log.numbers()):
            recent = number > head - self.keep_versions
            if not recent and now - self.log.read(number).time > self.keep_minutes * 60:
                break
            kept.append(number)
        return kept[::-1]

    def collect(self) -> list[str]:
        """Deletes what no retained version names and is older than the grace period; what it deleted."""
        kept = self.retained()
        if not kept:
            return []
        needed = set().union(*(self.log.read(n).files() for n in kept))
        self.log.raise_floor(kept[0])
        horizon = self.files.now() - self.grace_minutes * 60
        gone = [
            e.name for e in self.files.list(DATA) if e.name not in needed and e.written < horizon
        ]
        base = max(
            (n for n in self.log.records() if n <= kept[0] and n % CHECKPOINT == 1), default=0
        )
        records = [n for n in self.log.records() if n < base]
        for number in records:  # oldest first, so that what is left is always a whole tail
            self.files.delete(path_of(number))
        self.runs.forget(set(gone))
        for name in gone:
            self.files.delete(f"{DATA}/{name}")
        return [*(path_of(n) for n in records), *(f"{DATA}/{n}" for n in gone)]

    # --- integrity --------------------------------------------------------------------------------------

    def check(self) -> Report:
        """Reads everything that is retained, all bytes of it, and names what is damaged."""
        report = Report()
        seen: dict[tuple[str, int], DamagedState | None] = {}
        broken: dict[str, DamagedState] = {}
        names: set[str] = set()
        log, runs = (
            Log(self.files),
            Runs(self.files, DATA),
        )  # nothing that was read before is trusted
        for number in log.numbers():
            try:
                version = log.read(number)
            except DamagedState as e:
                broken.setdefault(
                    e.path, e
                )  # one record that is broken breaks all until a checkpoint
                continue
            report.versions += 1
            whole = True
            for _, refs in version.maps.values():
                for ref in refs:
                    place = ref.file, ref.offset
                    if place not in seen:
                        seen[place] = _damage(runs, ref)
                        report.bytes += ref.size
                    names.add(ref.file)
                    whole = whole and seen[place] is None
            if whole:
                report.whole = number
        report.files = len(names)
        for damage in (*broken.values(), *seen.values()):
            if damage is not None:
                report.problems.append(DamagedState(damage.path, damage.damage, report.whole))
        return report


def _damage(runs: Runs, ref: RunRef) -> DamagedState | None:
    try:
        runs.verify(ref)
    except DamagedState as e:
        return e
    return None


class Commit:
    """Changes that become the next version together, or not at all."""

    def __init__(self, store: Store, base: Version):
        self.store, self.base, self.change = store, base, Change()
        self.begun = store.files.now()

    def create(self, spec: MapSpec) -> None:
        """A new, empty map."""
        if spec.name in self.base.maps and spec.name not in self.change.dropped:
            raise StateError(f"there is a map `{spec.name}` already")
        self.change.created[spec.name] = spec

    def drop(self, name: str) -> None:
        """The map is gone from the next version on."""
        self.change.dropped.add(name)

    def set(self, key: str, value: Any) -> None:
        """A fact of the version: a source's cursor, a fingerprint, a program; None forgets it."""
        self.change.facts[key] = value

    def arrangement(self, name: str) -> Arrangement:
        """The map at the version that the commit starts from; empty if the commit creates it."""
        if name in self.change.created:
            return Arrangement(self.change.created[name], (), self.store.runs)
        if name in self.change.dropped:
            raise StateError(f"the map `{name}` is dropped by this commit")
        return Snapshot(self.base, self.store.runs).arrangement(name)

    def add(self, name: str, refs: list[RunRef]) -> None:
        """Runs that tasks have written; they exist once this is committed."""
        self.change.added.setdefault(name, []).extend(refs)

    def replace(self, name: str, old: list[RunRef], new: list[RunRef]) -> None:
        """Runs in place of others that say the same."""
        self.change.removed.setdefault(name, []).extend(old)
        self.add(name, new)

    def generation(self) -> int:
        """The age of what this commit writes."""
        return self.base.number + 1

    def merge(self, name: str, changes: pa.Table, blind: bool = False) -> Touched | None:
        """Merges a table in this process, and adds its run."""
        if name in self.change.removed or (not blind and name in self.change.added):
            raise StateError(
                f"the map `{name}` is merged twice, or after a purge, in one commit",
                hint="put the changes together: each merge looks up the values before the commit",
            )
        arrangement = self.arrangement(name)
        entries, touched = arrangement.merge(changes, blind)
        writer = Writer(self.store.files, "run", DATA)
        writer.add(arrangement.spec, [entries], self.generation())
        self.add(name, [ref for _, ref in writer.close()])
        return touched

    def purge(self, name: str, gone: Keep) -> None:
        """Rewrites a map without the entries that a predicate of their keys names."""
        if name in self.change.added:
            raise StateError(
                f"the map `{name}` is purged after a merge in one commit",
                hint="purge in a commit of its own: it reads the map before the commit",
            )
        arrangement = self.arrangement(name)
        writer = Writer(self.store.files, "purge", DATA)
        compaction.purge(arrangement, gone, writer)
        self.replace(name, list(arrangement.refs), [ref for _, ref in writer.close()])


@dataclass(frozen=True)
class Compacted:
    """Runs of a map and the one that says the same."""

    name: str
    old: tuple[RunRef, ...]
    new: tuple[RunRef, ...]
    begun: float


class StoreWriter:
    """The one that commits. Compactions that are done ride in its next commit."""

    def __init__(self, store: Store, held: lease.Lease):
        self.store, self.lease = store, held
        self._done: list[Compacted] = []
        self._guard = threading.Lock()
        self._busy: dict[str, frozenset[RunRef]] = {}
        self._workers: list[threading.Thread] = []
        self._damage: DamagedState | None = None

    def begin(self) -> Commit:
        """A commit on top of the newest version."""
        return Commit(self.store, self.store.log.read(self.store.head()))

    def commit(self, commit: Commit, note: dict[str, Any] | None = None) -> Version:
        """Makes the next version; `LeaseLost` if another writer came first, and nothing has happened."""
        self._tell()
        self._ride(commit)
        if not self._there(
            commit.begun, [r for refs in commit.change.added.values() for r in refs]
        ):
            raise StateError(
                "files of this commit were collected before it was made",
                hint=f"begin again; commits may take {self.store.grace_minutes:g} minutes (`grace_minutes`)",
            )
        self.lease.check()
        made = self.store.log.append(commit.base, commit.change, note or {})
        if made is None:
            raise LeaseLost(
                f"version {commit.base.number + 1} was committed by another writer",
                hint="begin again from the newest version",
            )
        return made

    def _ride(self, commit: Commit) -> None:
        """Adds the compactions whose runs are all still there."""
        with self._guard:
            done, self._done = self._done, []
        for c in done:
            _, refs = commit.base.maps.get(c.name, (None, ()))
            self._free(c.name, c.old)
            untouched = c.name not in commit.change.dropped and not set(c.old) & set(
                commit.change.removed.get(c.name, ())
            )
            if untouched and set(c.old) <= set(refs) and self._there(c.begun, c.new):
                commit.replace(c.name, list(c.old), list(c.new))

    def _there(self, begun: float, refs: Sequence[RunRef]) -> bool:
        """Whether files that no version names yet are there; none that is young was collected."""
        if self.store.files.now() - begun <= self.store.grace_minutes * 30:
            return True
        names = {e.name for e in self.store.files.list(DATA)}
        return all(r.file in names for r in refs)

    def _tell(self) -> None:
        """Raises what a compaction in the background found damaged."""
        damage, self._damage = self._damage, None
        if damage is not None:
            raise damage

    def compact(self, whole: bool = False) -> None:
        """Computes the compactions that are due (or all), to ride in the next commit."""
        snapshot, begun = self.store.at(), self.store.files.now()
        for name in snapshot.version.maps:
            arrangement = snapshot.arrangement(name)
            with self._guard:
                busy = self._busy.get(name, frozenset())
                refs = list(arrangement.refs) if whole else compaction.due(arrangement, busy)
                if len(refs) < 2 or busy & set(refs):
                    continue
                self._busy[name] = busy | set(refs)
            try:
                writer = Writer(self.store.files, "compact", DATA)
                compaction.compact(arrangement, refs, writer)
                new = tuple(ref for _, ref in writer.close())
                with self._guard:
                    self._done.append(Compacted(name, tuple(refs), new, begun))
            except BaseException:
                self._free(name, refs)
                raise

    def _free(self, name: str, refs: Sequence[RunRef]) -> None:
        """These runs are not being rewritten any more."""
        with self._guard:
            self._busy[name] = self._busy.get(name, frozenset()) - set(refs)

    def compact_in_background(self) -> None:
        """Starts a compaction in a thread; the next commit tells of damage.

        Two may be under way at once: while large runs are rewritten, small new ones go on becoming one.
        """

        def work() -> None:
            try:
                self.compact()
            except DamagedState as e:
                self._damage = e
            except OSError:  # a disk that is full may have room again the next time
                pass

        self._workers = [w for w in self._workers if w.is_alive()]
        if len(self._workers) < 2:
            self._workers.append(threading.Thread(target=work, daemon=True))
            self._workers[-1].start()

    def wait(self) -> None:
        """Until the compactions in the background are done."""
        for worker in self._workers:
            worker.join()

    def close(self) -> None:
        """Releases the lease."""
        self.wait()
        self.lease.release()
        self._tell()

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        # After a fault the disk may refuse the release too; the error that came first is the one to see.
        with (
            contextlib.suppress(OSError, DamagedState)
            if kind is not None
            else contextlib.nullcontext()
        ):
            self.close()


def fingerprint(data: Any) -> str:
    """A short hash of plain data, to compare schemas and programs by."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]
