"""Writing to a database: one lock, one lease, and commits that only the program of their own version makes.

What a handle knows of its database (version, catalog, program) is one value, `Defined`, put in place whole. Whoever
writes takes the lock, then the lease, then compares: if the newest version is not the one that the handle knows, it is
read and compiled first. So a handle that was interrupted, or that another process has overtaken, goes on from what is
there and never from what it remembers. The handle learns of its own commit last; if it does not get that far it is
merely behind, and the next write finds out.

After the record of a version is there nothing is raised for it: what goes wrong then is in the `Commit` and in the log
of the module `logging`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headwater.api.catalog import (
    DATABASE,
    KEEP,
    SETTINGS,
    Catalog,
    read_facts,
    set_program,
    well_defined,
)
from headwater.api.finals import Finals
from headwater.api.ids import TextIds
from headwater.api.over import Over, hidden_at
from headwater.api.versions import Defined, has_maps, program_at, stale_maps
from headwater.api.visited import as_note
from headwater.engine.spark.session import Session, telling
from headwater.engine.working import Working
from headwater.errors import (
    EngineError,
    HeadwaterError,
    LeaseLost,
    SettingsDiffer,
    StateError,
)
from headwater.plan.program import Program
from headwater.state import directory
from headwater.state.collection import Keep
from headwater.state.integrity import Disk, Report
from headwater.state.log import Unclear, Version
from headwater.state.run import MapSpec, RunRef
from headwater.state.store import Commit as StoreCommit
from headwater.state.store import Store, StoreWriter
from headwater.version import VERSION

KEEP_VERSIONS = 100
"""Versions that stay readable unless the user says otherwise."""


class Writable(Finals):
    """The part of a database that commits."""

    _over_known: tuple[int, Over] | None = None
    _group: StoreCommit | None = None
    """The commit of several steps that become one version, while they are made."""
    _steps_made: int = 0

    def __init__(self, path: str | Path, session: Session, keep: dict[str, Any]):
        self.path = directory.local_path(path)
        self.files = directory.check(self.path)
        self.store = Store(self.files, Keep(KEEP_VERSIONS))
        self.session = session
        self._asked, self._rounds = keep, {}
        self._lock = threading.RLock()
        self._lock_of = self._process = os.getpid()
        self._writer: StoreWriter | None = None
        self._specs: dict[str, MapSpec] = {}
        """The specs of the maps of what is defined, once they were asked for."""
        self._closing: StoreWriter | None = None
        self._doubt = False
        """Whether something was interrupted, so that what is known is to be read again."""
        with self._telling("reading"):
            self._load(self.store.at().version)

    # --- what the handle knows ---------------------------------------------------------------------------------

    def _load(self, version: Version) -> None:
        """Takes a version with its catalog and program, all at once."""
        catalog, settings = read_facts(version)
        program = program_at(version, catalog)
        stale = not has_maps(version, program)
        if settings is not None:
            self.session.adopt(settings)
        facts = version.facts
        kept = well_defined(version.number, lambda: _kept_as(facts.get(KEEP)))
        ids = well_defined(version.number, lambda: TextIds(facts))
        self._keep_as(kept)
        self._specs = {}
        self.store.runs.hold(version.files)
        self._defined, self._ids, self._doubt = (
            Defined(version.number, catalog, program, stale),
            ids,
            False,
        )

    def _keep_as(self, kept: Keep | None) -> None:
        """Takes how much of the past the database keeps. Who opens one that says so already must ask for the same."""
        if kept is None:
            self.store.keep = replace(self.store.keep, **self._asked)
            return
        other = {n: v for n, v in self._asked.items() if getattr(kept, n) != v}
        for name, value in other.items():
            raise SettingsDiffer(
                f"the database keeps {getattr(kept, name):g} {name}, and {value:g} are asked for",
                hint=f"leave keep_{name} out, and call keep({name}={value:g}) to change it",
            )
        self.store.keep, self._asked = kept, {}

    def refresh(self) -> int:
        """Moves the handle to the newest version, and gives its number. A handle that only reads moves by this alone."""
        with self._locked(), self._telling("reading"):
            if self._writer is None or self._process != os.getpid() or self._doubt:
                version = self.store.at().version
                if version.number != self.version or self._doubt:
                    self._load(version)
        return self.version

    def compact(self) -> None:
        """Puts the runs of every map together as one, and deletes the files that no version needs any more."""
        with self._locked():
            writer = self._writing()
            writer.wait()
            if (
                writer.rewrote
            ):  # runs that are rewritten already are nobody else's before that is committed
                with self._commit("compact", minor=True):
                    pass
            writer.compact(whole=True)
            with self._commit("compact", minor=True):
                pass  # what was put together rides in it
            writer.collect()

    def check(self) -> Report:
        """Reads every byte of every kept version, and names what is damaged and which files are not the database's."""
        with self._telling("reading"):
            return self.store.check()

    def on_disk(self) -> Disk:
        """How many bytes the directory has, and what they are for."""
        with self._telling("reading"):
            return self.store.disk()

    @property
    def over(self) -> Over:
        """What is over at the version that the handle is at."""
        version, known = self.version, self._over_known
        if known is None or known[0] != version:
            facts, catalog = self.store.at(version).facts, self.catalog
            known = version, well_defined(version, lambda: Over.read(facts, catalog))
            self._over_known = known
        return known[1]

    # --- the right to write -----------------------------------------------------------------------------------------

    def _writing(self, stale: bool = False, other_spark: bool = False) -> StoreWriter:
        """The right to write, with what is known brought to the newest version; the lock is held.

        Only `rebuild` may write while the maps are stale, and only `upgrade` with another version of Spark.
        """
        self._same_process()
        with self._telling("writing"):
            if self._writer is None:
                directory.mark(self.files, f"headwater {VERSION}")
                self._writer = self.store.writer()
                with contextlib.suppress(OSError):  # what a writer that was killed had staged
                    for name in self.files.names(directory.STAGING):
                        if directory.is_staged(name):
                            self.files.delete(f"{directory.STAGING}/{name}")
            newest = self._writer.head()
            if newest.number != self.version or self._doubt:
                self._load(newest)
        if self.stale and not stale:
            raise stale_maps()
        if not other_spark:
            self.session.refuse_other("writing to it")
        return self._writer

    def _same_process(self) -> None:
        """Raises in a forked child of the process that holds the lease."""
        if self._process == os.getpid():
            return
        if self._writer is not None:
            raise LeaseLost(
                f"this handle belongs to process {self._process}, which writes, and this is {os.getpid()}",
                hint="open the database again in this process, once the other has closed it",
            )
        self._process = os.getpid()

    def _locked(self) -> Any:
        """The lock of all writing threads. A forked child makes its own, as its copy may be locked for ever."""
        if self._lock_of != os.getpid():
            self._lock, self._lock_of = threading.RLock(), os.getpid()
        return self._lock

    def close(self) -> None:
        """Lets another writer in. Reading goes on to work."""
        if self._process != os.getpid():
            self._writer = None
            return
        with self._lock:
            # One whose closing was interrupted is closed the next time.
            self._closing, self._writer = self._writer or self._closing, None
            if self._closing is not None:
                with self._telling("closing"):
                    self._closing.close()
                self._closing = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        with contextlib.suppress(StateError) if kind is not None else contextlib.nullcontext():
            self.close()

    # --- committing ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _commit(
        self,
        note: str,
        becomes: tuple[Catalog, Program] | None = None,
        **more: Any,
    ) -> Iterator[StoreCommit]:
        """A commit on top of the version that the handle knows; afterwards it knows the new one.

        `becomes` is the catalog and program of the new version, where they are others.
        """
        planned, writer, self._rounds = self._defined, self._writer, {}
        assert writer is not None, "who commits has called _writing"
        if self._group is not None:
            catalog, program = becomes or (planned.catalog, planned.program)
            set_program(self._group, program, planned.program)
            yield self._group
            self._defined, self._specs = replace(planned, catalog=catalog, program=program), {}
            self._steps_made += 1
            return
        with self._telling("writing"):
            commit = writer.begin()
        if commit.base.number != planned.version:
            raise StateError(
                f"the newest version is {commit.base.number}, and this change was made for {planned.version}",
                hint="nothing was committed; do the same again",
            )
        catalog, program = becomes or (planned.catalog, planned.program)
        self._set_first_facts(commit)
        if not planned.stale or becomes is not None:
            set_program(commit, program, planned.program)
        try:
            yield commit
            with self._telling("writing"):
                made = writer.commit(commit, {"what": note, **more, **as_note(self._rounds)})
        except HeadwaterError as e:
            # A lease that is lost, or a base that is not the newest: what is known may be behind.
            self._doubt = self._doubt or isinstance(e, StateError)
            raise
        except BaseException:
            self._doubt = True
            raise
        self._asked = {}
        if becomes is not None:
            self._specs = {}
        stale = planned.stale and becomes is None
        self._defined = Defined(made.number, catalog, program, stale)

    @contextlib.contextmanager
    def _as_one(self, note: str) -> Iterator[None]:
        """Around several commits that become one version, or none where one of them is refused; `_writing` was called.

        In between the handle knows what the steps have made so far. They are such that add no entries.
        """
        before, writer = self._defined, self._writer
        assert writer is not None and self._group is None
        with self._telling("writing"):
            self._group = writer.begin()
        try:
            yield
            after, group = self._defined, self._group
            self._defined, self._group = before, None
            with self._commit(note, (after.catalog, after.program)) as commit:
                group.change.facts = {**commit.change.facts, **group.change.facts}
                commit.change = group.change
        finally:
            if self._group is not None:
                self._defined, self._group = before, None
            self._steps_made += 1
            self._specs = {}

    @property
    def _known_at(self) -> int:
        """What is known of a version is known under its number; while several steps become one, under a number of the step."""
        return self.version if self._group is None else -1 - self._steps_made

    @property
    def _facts_now(self) -> Mapping[str, Any]:
        """The facts of the version that the handle is at, with what steps have made that become one with the next."""
        if self._group is None:
            return self.store.at(self.version).facts
        both = {**self._group.base.facts, **self._group.change.facts}
        return {k: v for k, v in both.items() if v is not None}

    def _set_first_facts(self, commit: StoreCommit) -> None:
        """Sets the facts that every database has from its first commit on."""
        known = commit.base.facts
        if SETTINGS not in known:
            settings = self.session.settings()
            commit.set(SETTINGS, settings)
            self.session.adopt(settings)
        if KEEP not in known:
            commit.set(KEEP, asdict(self.store.keep))
        if DATABASE not in known:
            commit.set(DATABASE, uuid.uuid4().hex)

    def _working(self, commit: StoreCommit, program: Program) -> Working:
        refs = {n: refs for n, (_, refs) in commit.base.maps.items()}
        rows = program.relations.rows
        generation = commit.generation()
        specs, zoned = self._specs, commit.zoned
        made = Working(
            program.maps, refs, commit.runs, generation, rows=rows, specs=specs, zoned=zoned
        )
        made.hidden = hidden_at(self.over, self.catalog)
        return made

    def _add(self, commit: StoreCommit, working: Working) -> int:
        """Writes all new entries and adds their runs to a commit. Gives the bytes written."""
        made = self._written(working)
        for name, refs in made.items():
            commit.add(name, refs)
        return sum(r.size for refs in made.values() for r in refs)

    def _written(self, working: Working) -> dict[str, list[RunRef]]:
        """Writes all new entries; gives the runs by map."""
        with self._telling("writing"):
            return working.written(self.files)

    def keep(
        self,
        versions: int | None = None,
        minutes: float | None = None,
        grace_minutes: float | None = None,
    ) -> Keep:
        """How much of the past stays readable from now on; without arguments, how much it is.

        The last `versions`, and those of the last `minutes`; files that no version needs any more stay for
        `grace_minutes` longer, for readers that are about to open them.
        """
        given = asked_to_keep({"versions": versions, "minutes": minutes, "grace": grace_minutes})
        with self._locked():
            if given:
                self._writing(stale=True, other_spark=True)
            made = replace(self.store.keep, **given)
            if made != self.store.keep:
                with self._commit("keep") as commit:
                    commit.set(KEEP, asdict(made))
                self.store.keep, self._asked = made, {}
            return self.store.keep

    @contextlib.contextmanager
    def _telling(self, doing: str) -> Iterator[None]:
        """Turns errors of Spark, of the disk and of numbers into errors of Headwater that say what happened to the data."""
        try:
            with telling("applying a change"):
                yield
        except HeadwaterError:
            raise
        except OverflowError as e:
            # Recomputing need not meet this one: sums are also kept of rows that a join may drop, of the change alone,
            # and of whole numbers for avg.
            raise EngineError(
                f"{e}; what is kept of sums has to fit, and so has what a change adds to them",
                hint="add up in a wider type, for example sum(cast(x AS DECIMAL(38, 0))) or avg(cast(x AS DOUBLE))"
                "\nthe database is as it was before",
            ) from e
        except Unclear as e:
            raise StateError(
                f"the disk failed, and does not say whether version {e} was committed",
                hint="look at the version when it is back: with an `id` the change can be applied again without harm",
            ) from e
        except OSError as e:
            if doing == "reading":
                raise StateError(
                    f"the state in {self.path} could not be read: {e.strerror or e}",
                    hint="nothing was changed; mend the disk, and try again",
                ) from e
            if doing == "closing":
                raise StateError(
                    f"the right to write to {self.path} could not be given up: {e.strerror or e}",
                    hint="what was committed stays so; close it again, or end the process",
                ) from e
            raise StateError(
                f"the state in {self.path} could not be written: {e.strerror or e}",
                hint="nothing was committed; make room or mend the disk, and do the same again",
            ) from e


def _kept_as(fact: dict[str, Any] | None) -> Keep | None:
    return None if fact is None else Keep(**asked_to_keep(fact))


def asked_to_keep(asked: dict[str, Any]) -> dict[str, Any]:
    """The amounts that a user gave to `keep`, checked; those that were left out are not in it."""
    given = {n: v for n, v in asked.items() if v is not None}
    for name, value in given.items():
        if not _is_amount(value, name == "versions"):
            raise StateError(
                f"{value!r} is no number of {name} to keep",
                hint="versions are a whole number above 0, minutes a number that is not negative",
            )
    return given


def _is_amount(value: Any, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        return False
    return bool(value >= (1 if whole else 0) and value == value and value != float("inf"))
