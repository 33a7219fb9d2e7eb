"""The store: versions of many maps in one directory, one writer, any number of readers.

    store = Store(LocalFiles(path))
    with store.writer() as writer:
        change = writer.begin()
        change.create(spec)
        touched = change.merge("m", table)
        writer.commit(change)
    store.at().arrangement("m").lookup(keys)

A commit is one record of the log, so readers see a version whole or not at all. Compactions are computed
beside it and ride in the next commit. Several maps may have one run: a queue (a pinned map) has those of the map
that it follows, until they are removed. Old versions can be read for as long as they are kept; `collect` deletes
the files that no kept version names (`state/collection`). What happens after the record is there cannot fail the
commit: it is in the warnings that come with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import pyarrow as pa

from headwater.errors import DamagedState, LeaseLost, StateError
from headwater.state import compaction, integrity, lease
from headwater.state.arrangement import Arrangement, Touched
from headwater.state.collection import Collector, Keep
from headwater.state.compaction import Predicate
from headwater.state.files import FileSystem
from headwater.state.integrity import Disk, Report
from headwater.state.log import Change, Log, Unclear, Version
from headwater.state.purging import Dead, Purging
from headwater.state.run import NO_ZONES, Generation, MapSpec, RunRef, Runs
from headwater.state.snapshot import DATA as DATA
from headwater.state.snapshot import Snapshot as Snapshot
from headwater.state.snapshot import VersionRuns
from headwater.state.writing import Writer
from headwater.state.zones import Zoned

LOG = logging.getLogger("headwater")
KEEP = Keep()
TOGETHER = 8 << 20
"""Compactions up to this number of bytes are written into one file."""
COLLECT = 8
"""After how many commits old files are looked for."""


class Store:
    """A directory of maps; `keep` says how much of the past stays readable."""

    def __init__(self, files: FileSystem, keep: Keep = KEEP):
        self.files, self.log, self.runs = files, Log(files), Runs(files, DATA)
        self.keep = keep

    def head(self) -> int:
        """The newest version; 0 before the first commit."""
        return self.log.head()

    def at(self, number: int | None = None) -> Snapshot:
        """A version, the newest unless one is named."""
        return self.snapshot(self.log.read(self.head() if number is None else number))

    def snapshot(self, version: Version) -> Snapshot:
        """A version to read from."""
        return Snapshot(version, VersionRuns(self.runs, self.log, version.number))

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
            return StoreWriter(self, held)
        except Unclear:  # a fence that may be there may stay: nothing is done without the lease
            held.withdraw()
            raise OSError("the disk does not say whether the lease was taken") from None
        except BaseException:
            held.withdraw()  # without a fence the writer before could still commit
            raise

    def kept(self) -> list[int]:
        """The versions that can be read, and will be after the next collection, oldest first."""
        return list(range(self.keep.first(self.log) or 1, self.head() + 1))

    def check(self) -> Report:
        """Reads everything that is kept, all bytes of it, and names what is damaged and what is not ours."""
        return integrity.check(self.files, DATA)

    def disk(self) -> Disk:
        """What is on disk now, and what for."""
        return integrity.disk(self.files, DATA, self.kept())


class Commit:
    """Changes that become the next version together, or not at all."""

    def __init__(self, store: Store, base: Version, zoned: Zoned = NO_ZONES):
        """New runs say zones of the columns that `zoned` names."""
        self.store, self.base, self.change, self.zoned = store, base, Change(), zoned
        self.runs = VersionRuns(store.runs, store.log, base.number)

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
            return Arrangement(self.change.created[name], (), self.runs)
        if name in self.change.dropped:
            raise StateError(f"the map `{name}` is dropped by this commit")
        return Snapshot(self.base, self.runs).arrangement(name)

    def add(self, name: str, refs: Sequence[RunRef]) -> None:
        """Runs that tasks have written; they exist once this is committed.

        To a pinned map also runs that the version before has, in this map or in one that its runs are of.
        """
        other = [r for r in refs if r.version != self.version]
        spec = self._pinned(name)
        if spec is not None:
            # A file that has ended may be deleted at any time, also by a writer that does not know yet that it is none.
            alike = [rs for s, rs in self.base.maps.values() if s.written_as == spec.written_as]
            other = [r for r in other if not any(r in rs for rs in alike)]
            has = {*self.arrangement(name).refs, *self.change.added.get(name, ())}
            has -= {*self.change.removed.get(name, ())}
            if len(set(refs)) < len(refs) or not has.isdisjoint(refs):
                raise StateError(f"the map `{name}` would have a run twice")
        if other:
            raise StateError(
                f"a run of version {other[0].version} is added to version {self.version}",
                hint="begin again: what was written belongs to another commit",
            )
        self.change.added.setdefault(name, []).extend(refs)

    def adopt(self, name: str, other: str) -> list[RunRef]:
        """A new map takes over the runs of one that goes with this commit; their entries have the same columns."""
        spec, (theirs, refs) = self.change.created[name], self.base.maps[other]
        alike = replace(theirs, name=name) == spec and not spec.pinned
        if not alike or other not in self.change.dropped or name in self.change.added:
            raise StateError(f"the map `{name}` cannot take over the runs of `{other}`")
        made = [replace(r, of=r.of or theirs.written_as) for r in refs]
        if made:
            self.change.added[name] = list(made)
        return made

    def remove(self, name: str, refs: Sequence[RunRef]) -> None:
        """Runs of a pinned map that nobody needs any more; other maps that have them keep them."""
        if self._pinned(name) is None:
            raise StateError(
                f"runs of the map `{name}` are removed, and it is not pinned",
                hint="what a map has is the sum of its runs: purge it, or drop it",
            )
        there = self.arrangement(name).refs
        if len(set(refs)) < len(refs) or not all(r in there for r in refs):
            raise StateError(f"the map `{name}` does not have a run that is removed")
        self.change.removed.setdefault(name, []).extend(refs)

    def _pinned(self, name: str) -> MapSpec | None:
        """The spec of a map, if it is pinned."""
        spec = self.change.created.get(name)
        if spec is None and name not in self.change.dropped and name in self.base.maps:
            spec, _ = self.base.maps[name]
        return spec if spec is not None and spec.pinned else None

    def replace(self, name: str, old: Sequence[RunRef], new: Sequence[RunRef]) -> None:
        """Runs in place of others that say the same, as new as the newest of them."""
        newest = max((r.generation for r in old), default=None)
        assert all(r.generation == newest for r in new), name
        self.change.removed.setdefault(name, []).extend(old)
        self.change.added.setdefault(name, []).extend(new)

    @property
    def version(self) -> int:
        """The number of the version that this makes."""
        return self.base.number + 1

    def generation(self) -> Generation:
        """The age of what this commit writes first."""
        return self.version, 0

    def merge(self, name: str, changes: pa.Table, blind: bool = False) -> Touched | None:
        """Merges a table in this process, and adds its run."""
        queued = blind and self._pinned(name) is not None  # its runs come and go one by one
        if not queued and (
            name in self.change.removed or (not blind and name in self.change.added)
        ):
            raise StateError(
                f"the map `{name}` is merged twice, or after a purge, in one commit",
                hint="put the changes together: each merge looks up the values before the commit",
            )
        arrangement = self.arrangement(name)
        entries, touched = arrangement.merge(changes, blind)
        self._write(arrangement.spec, entries)
        return touched

    def put(self, name: str, entries: pa.Table) -> None:
        """Puts a table into a latest map in this process, and adds its run."""
        if name in self.change.removed or name in self.change.added:
            raise StateError(
                f"entries are put into the map `{name}` twice, or after a purge, in one commit",
                hint="put them together: of one key the last one counts",
            )
        arrangement = self.arrangement(name)
        self._write(arrangement.spec, arrangement.put(entries))

    def _write(self, spec: MapSpec, entries: pa.Table) -> None:
        writer = Writer(self.store.files, "run", DATA, self.zoned)
        writer.add(spec, [entries], self.generation())
        self.add(spec.name, [ref for _, ref in writer.close()])

    def purge(self, name: str, gone: Predicate) -> None:
        """Rewrites a map without the entries that a predicate of their keys names."""
        if self._pinned(name) is not None:
            raise StateError(
                f"the map `{name}` is purged, and it is pinned",
                hint="its runs are never rewritten: remove those that are not needed",
            )
        if name in self.change.added:
            raise StateError(
                f"the map `{name}` is purged after a merge in one commit",
                hint="purge in a commit of its own: it reads the map before the commit",
            )
        arrangement = self.arrangement(name)
        writer = Writer(self.store.files, "purge", DATA, self.zoned)
        compaction.purge(arrangement, gone, writer)
        self.replace(name, arrangement.refs, [ref for _, ref in writer.close()])


@dataclass(frozen=True, eq=False)
class Compacted:
    """Runs of a map and the one that says the same, but for what is dead; `spared` is the token from before."""

    name: str
    old: tuple[RunRef, ...]
    new: tuple[RunRef, ...]
    spared: object = None


@dataclass(frozen=True, eq=False)
class Due:
    """Runs of a map that are to become one, what is dead in it, and the token of when it was spared."""

    arrangement: Arrangement
    refs: list[RunRef]
    dead: Dead | None
    spared: object


class StoreWriter:
    """The one that commits. Compactions that are done ride in its next commit.

    What threads share are dicts and sets, whose own operations are whole, in an order that is right wherever another
    thread looks: no lock, for an interrupt between a block and its end would leave it locked. The one lock there is
    is only ever taken in threads behind, which no interrupt reaches.
    """

    def __init__(self, store: Store, held: lease.Lease):
        self.store, self.lease = store, held
        self._head: Version | None = store.log.read(store.head())
        self._collector = Collector(store.files, store.log, DATA, self._head)
        self._take_note(self._head)
        self._collecting = threading.Lock()
        self._since_collected = 0
        self._done: dict[Compacted, None] = {}
        self._busy: dict[tuple[str, RunRef], object] = {}
        """The runs of maps that are being rewritten, or were, and wait to be replaced; and for whom."""
        self._files: set[str] = set()
        """The files that compactions write just now."""
        self._workers: list[threading.Thread] = []
        self._damage: DamagedState | None = None
        self._warnings: list[str] = []
        self._purging = Purging()

    @property
    def dead(self) -> Mapping[str, Dead]:
        """What is dead, by map, at a version that is committed; it grows, and `spare` takes it back."""
        return self._purging.dead

    @dead.setter
    def dead(self, dead: Mapping[str, Dead]) -> None:
        self._purging.tell(dead)

    def spare(self, *names: str) -> None:
        """Nothing of these maps is dead any more: what is still there stays, also where it was just rewritten without."""
        self._purging.spare(names)

    def head(self) -> Version:
        """The newest version. Only this writer makes another, so it is read when that is in doubt and no more."""
        if self._head is None:
            self._head = self.store.log.read(self.store.head())
            self._take_note(self._head)
        return self._head

    def _take_note(self, version: Version) -> None:
        """Files that the newest version names stay open, and those that it names no more may go some day."""
        self._newest = version
        self._collector.committed(version)
        self.store.runs.hold(version.files)

    def floor(self) -> int:
        """The oldest version that can be read."""
        return self.store.log.floor()

    def begin(self) -> Commit:
        """A commit on top of the newest version."""
        return Commit(self.store, self.head(), self._purging.zoned)

    def commit(self, commit: Commit, note: dict[str, Any] | None = None) -> Version:
        """Makes the next version; `LeaseLost` if another writer came first, and nothing has happened.

        One whose note says `minor` is not counted among the versions that are kept (`Keep`).
        What goes wrong once it is made is in `warnings`, for it is made.
        """
        self._tell()
        rode = self._ride(commit)
        self._check_there(commit)
        self.lease.check()
        self._head = None
        try:
            made = self.store.log.append(commit.base, commit.change, note or {})
        except BaseException:
            self._unride(commit, rode)
            raise
        if made is None:
            raise LeaseLost(
                f"version {commit.version} was committed by another writer",
                hint="begin again from the newest version",
            )
        self._head = made.version
        if made.doubt is not None:
            self._warn(
                f"version {commit.version} was committed, but may not survive a power cut: "
                f"{made.doubt.strerror or made.doubt}"
            )
        self._take_note(made.version)
        self._forget(rode)
        return made.version

    def warnings(self) -> tuple[str, ...]:
        """What went wrong since this was last asked, without harm to what was committed."""
        told, self._warnings = self._warnings, []
        return tuple(told)

    def _warn(self, text: str) -> None:
        LOG.warning(text)
        self._warnings.append(text)

    def _check_there(self, commit: Commit) -> None:
        """Raises unless the files that a commit names are there, as long as they should be."""
        ends: dict[str, int] = {}
        for refs in commit.change.added.values():
            for r in refs:
                ends[r.file] = max(ends.get(r.file, 0), r.offset + r.size)
        for file, end in ends.items():
            size = self.store.files.size(f"{DATA}/{file}")
            if size is None or size < end:
                raise StateError(
                    f"{DATA}/{file}, a file of this commit, is not there as it was written",
                    hint="nothing was committed: begin again",
                )

    def _ride(self, commit: Commit) -> list[Compacted]:
        """Adds the compactions whose runs are all still there; those that can never ride are forgotten."""
        rode = []
        for c in list(self._done):
            _, refs = commit.base.maps.get(c.name, (None, ()))
            if not set(c.old) <= set(refs) or c.spared is not self._purging.spared.get(c.name):
                self._forget([c])
            elif c.name not in commit.change.dropped | commit.change.removed.keys():
                commit.replace(c.name, c.old, c.new)
                rode.append(c)
        return rode

    def _unride(self, commit: Commit, rode: Iterable[Compacted]) -> None:
        """A commit that was not made is as it was, to be made again."""
        for c in rode:
            for change, refs in ((commit.change.removed, c.old), (commit.change.added, c.new)):
                left = [r for r in change[c.name] if r not in refs]
                change[c.name] = left
                if not left:
                    del change[c.name]

    def _forget(self, done: Iterable[Compacted]) -> None:
        """Compactions that rode, or never can."""
        for c in done:
            self._done.pop(c, None)
            self._release(c.name, c.old)

    def _tell(self) -> None:
        """Raises what a compaction in the background found damaged."""
        damage, self._damage = self._damage, None
        if damage is not None:
            raise damage

    # --- compaction ---------------------------------------------------------------------------------------

    def compact(self, whole: bool = False) -> None:
        """Computes the compactions that are due (or all), to ride in the next commit.

        Small ones share a file: a database has many maps, and their runs grow old together.
        """
        version = self._newest  # of a thread: only who commits says what the newest is
        runs = VersionRuns(self.store.runs, self.store.log, version.number)
        due: list[Due] = []
        size, me = 0, object()
        try:
            for name, (spec, refs) in version.maps.items():
                dead, spared = self._purging.now(name)
                if spec.pinned or len(refs) < (2 if dead is None else 1):
                    continue
                arrangement = Arrangement(spec, refs, runs)
                busy = frozenset(r for r in refs if (name, r) in self._busy)
                counts = self._purging.counts(arrangement, dead, spared, at_once=whole)
                chosen = list(refs) if whole else compaction.due(arrangement, busy, counts)
                if len(chosen) == 1 and not counts.get(chosen[0], 0):
                    chosen = chosen if dead is not None and dead.dominates else []
                if not chosen or not self._claim(name, chosen, me):
                    continue
                due.append(Due(arrangement, chosen, dead, spared))
                size += sum(r.size for r in chosen)
                if size > TOGETHER:
                    self._compacted(due)
                    due, size, me = [], 0, object()
            self._compacted(due)
        except BaseException:
            for busy_run, who in list(self._busy.items()):
                if who is me:
                    self._busy.pop(busy_run, None)
            raise

    def _claim(self, name: str, refs: Sequence[RunRef], me: object) -> bool:
        """Whether some runs are to be rewritten by one caller from now on: all of them, or else none."""
        mine = list[RunRef]()
        for ref in refs:
            if self._busy.setdefault((name, ref), me) is not me:
                self._release(name, mine)
                return False
            mine.append(ref)
        return True

    def _release(self, name: str, refs: Iterable[RunRef]) -> None:
        for ref in refs:
            self._busy.pop((name, ref), None)

    def _compacted(self, due: Sequence[Due]) -> None:
        """Writes some compactions into one file."""
        if not due:
            return
        writer = Writer(self.store.files, "compact", DATA, self._purging.zoned)
        self._files.add(writer.name)
        try:
            for d in due:
                compaction.compact(d.arrangement, d.refs, writer, d.dead)
            new: dict[str, RunRef] = dict(writer.close())
            self.store.runs.trust(new.values())
            self.store.runs.know(writer.small)
            for d in due:
                name = d.arrangement.spec.name
                made = (new[name],) if name in new else ()
                self._done[Compacted(name, tuple(d.refs), made, d.spared)] = None
        finally:
            self._files.discard(writer.name)

    # --- what goes on behind commits -------------------------------------------------------------------------

    def collect(self) -> list[str]:
        """Deletes what no kept version names, and says what it was."""
        gone, failed = list[str](), list[BaseException]()

        def act() -> None:
            try:
                with self._collecting:
                    while not self._collector.look_back():
                        pass
                    gone.extend(self._collected())
            except BaseException as e:
                failed.append(e)

        worker = threading.Thread(target=act, daemon=True)
        worker.start()
        self._workers = [*self._workers, worker]  # which is waited for, though an interrupt comes
        worker.join()
        if failed:
            raise failed[0]
        return gone

    def _collected(self) -> list[str]:
        gone = self._collector.collect(self.store.keep, self._needed)
        self._since_collected = 0
        names = {p.removeprefix(f"{DATA}/") for p in gone if p.startswith(f"{DATA}/")}
        self.store.runs.forget(names)
        damage, self._collector.damage = self._collector.damage, None
        if damage is not None:
            self._warn(f"{damage.what}; what only the versions that it hides name is kept")
        return gone

    def _needed(self) -> set[str]:
        """Files that no version names yet: those of compactions, done or under way."""
        writing = set(self._files)  # first: what leaves these is done before it does
        return writing | {r.file for c in list(self._done) for r in c.new}

    def tidy(self) -> None:
        """Starts what is due after a commit, in a thread: compactions, and now and then a collection.

        Two may be under way at once: while large runs are rewritten, small new ones go on becoming one. Nothing is
        raised: the next commit tells of damage, and `warnings` of the rest.
        """
        self._since_collected += 1
        self._workers = [w for w in self._workers if w.is_alive()]
        if len(self._workers) >= 2:
            return
        worker = threading.Thread(target=self._work, daemon=True)
        try:
            worker.start()
        except RuntimeError as e:  # no more threads are to be had; the next commit tries again
            self._warn(f"old files could not be tidied up: {e}")
            return
        self._workers.append(worker)

    def _work(self) -> None:
        try:
            self.compact()
            if self._collecting.acquire(blocking=False):
                try:
                    if self._collector.look_back() and self._since_collected >= COLLECT:
                        self._collected()
                finally:
                    self._collecting.release()
        except DamagedState as e:
            self._damage = e
        except OSError as e:  # a disk that is full may have room again the next time
            self._warn(f"old files could not be tidied up: {e.strerror or e}")
        except Exception as e:
            self._warn(f"old files could not be tidied up: {type(e).__name__}: {e}")

    @property
    def rewrote(self) -> bool:
        """Whether compactions are done that wait for a commit to ride in."""
        return bool(self._done)

    def wait(self) -> None:
        """Until what goes on in the background is done."""
        for worker in self._workers:
            worker.join()

    def close(self) -> None:
        """Releases the lease; in a process that was forked from the writer's there is none to release."""
        if self.lease.holder.pid == os.getpid():
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
