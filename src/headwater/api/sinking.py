"""Sinks of a database: declared by name, brought to the newest version by `run` or `sync`, and seen in how far behind they are.

The log has what a sink is (without secrets) and the last version that it is known to have had; what it has is said by its
target alone. As with directories, a sink runs only where this process has declared it: a path, a server or a function in a log
may be somebody else's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from headwater.api.catalog import well_defined
from headwater.api.epochs import Epochs
from headwater.api.following import Follows
from headwater.errors import HeadwaterError, InUse, NameTaken, QueryError, SinkAway, SinkMissing
from headwater.sinks.foreach import Foreach
from headwater.sinks.kinds import FOREACH, Kind, checked_options, kind_of
from headwater.sinks.sink import Place, Sink, Target
from headwater.sinks.sync import Synced, decided, sync
from headwater.state.directory import local_path

SINK, SUNK = "sink:", "sunk:"
"""How the facts are called that say what a sink is, and what it is known to have."""


@dataclass(frozen=True)
class SinkDef:
    """A declared sink, as the log has it."""

    name: str
    of: str
    format: str
    path: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    """Those that were given, but for secrets."""


@dataclass(frozen=True)
class SinkStatus:
    """How far a sink has come: the version that it is known to have, and how many versions that may matter are newer."""

    name: str
    of: str
    format: str
    version: int | None
    behind: int
    """Versions after it, minor ones not counted; all of them where it has none."""
    here: bool
    """Whether this process has declared it, so that it can run."""
    syncs: int = 0
    rows: int = 0
    seconds: float = 0.0
    held: str = ""
    """Why it could not be brought on, the last time."""


@dataclass
class _Here:
    """A sink as this process has it: everything that it was declared with, its target once it is open, and what it did."""

    made: SinkDef
    kind: Kind
    options: dict[str, str]
    function: Callable[[pa.Table, int], Any] | None
    sink: Sink | None = None
    schema: pa.Schema | None = None
    known: Place | None = None
    syncs: int = 0
    rows: int = 0
    seconds: float = 0.0
    last: float = 0.0
    """How long the last sync took."""
    ended: float = float("-inf")
    """When it ended."""


class SinkHandle:
    """A declared sink."""

    def __init__(self, database: Sinking, name: str):
        self.database, self.name = database, name

    @property
    def status(self) -> SinkStatus:
        """How far it has come."""
        return self.database.sink_status(self.name)

    @property
    def version(self) -> int | None:
        """The version that it is known to have."""
        return self.status.version

    def sync(self) -> Synced:
        """Brings it to the newest version of its view, and says what that took."""
        return self.database.sync(self.name)

    def __repr__(self) -> str:
        made = self.database.sink_defs[self.name]
        return f"Sink({self.name}: {made.of} as {made.format})"


class Sinking(Epochs):
    """The part of a database that has sinks."""

    _sinks: dict[str, _Here]
    _sinks_known: tuple[int, dict[str, SinkDef]] | None = None
    _sinks_held: dict[str, HeadwaterError]
    """Why sinks could not be brought on, the last time."""
    _sinks_lock: threading.RLock

    @property
    def sink_defs(self) -> dict[str, SinkDef]:
        """The sinks of the version that the handle is at."""
        version, known = self._known_at, self._sinks_known
        if known is None or known[0] != version:
            facts = self._facts_now
            known = version, well_defined(version, lambda: _read(facts))
            self._sinks_known = known
        return known[1]

    @property
    def sinks(self) -> list[str]:
        """The names of the sinks."""
        return list(self.sink_defs)

    def sink(
        self,
        name: str,
        of: str,
        *,
        format: str | None = None,
        path: str | None = None,
        options: Mapping[str, Any] | None = None,
        foreach: Callable[[pa.Table, int], Any] | None = None,
    ) -> SinkHandle:
        """Declares where the rows of a view or source go, of a format, or to a function; `run` and `sync` bring them there.

        Declared again with the same it is the same; it may get another path and other options, and what is there says what it
        has. The option `gap` says what is done where the database does not keep the version any more that the target has:
        `whole` writes the whole view again, `stop` refuses. Passwords are not kept in the database.
        """
        kind, format = self._kind(name, format, foreach)
        checked = checked_options(name, format, kind, options)
        if (path is None) == kind.path:
            raise QueryError(
                f"the sink `{name}` {'has a path' if path else 'has no path'}",
                hint=f"{format} sinks {'need one' if kind.path else 'have none'}",
            )
        full = None if path is None else str(local_path(path))
        with self._locked():
            self._writing()
            view = self._followed(name, of, format, kind)
            definition = SinkDef(name, view.name, format, full, kind.shown(checked))
            known = self.sink_defs.get(name)
            if known is None:
                self._check_name(name)
            elif (known.of, known.format) != (view.name, format):
                raise NameTaken(
                    f"there is a sink `{name}` of `{known.of}` as {known.format} already",
                    hint="drop it first, or take another name",
                )
            here = _Here(definition, kind, checked, foreach)
            self._look_at(here, view)
            if known != definition:
                with self._commit(f"sink {name}", minor=True) as commit:
                    commit.set(f"{SINK}{name}", asdict(definition))
            before = self._sinks.get(name)
            if before is not None and before.sink is not None:
                before.sink.close()
            self._sinks[name] = here
        return SinkHandle(self, name)

    def _kind(self, name: str, format: Any, foreach: Any) -> tuple[Kind, str]:
        if foreach is None:
            return kind_of(name, format), str(format)
        if format is not None:
            raise QueryError(
                f"the sink `{name}` has a format and a function", hint="give format= or foreach="
            )
        if not callable(foreach):
            raise QueryError(
                f"foreach of the sink `{name}` is {foreach!r}",
                hint="give a function of (changes, version)",
            )
        return FOREACH, "foreach"

    def _followed(self, name: str, of: str, format: str, kind: Kind) -> Follows:
        """The view of a sink, which must have what its kind needs."""
        if self.catalog.named(of) not in (*self.catalog.sources, *self.catalog.views):
            raise self._unknown(of)
        view = Follows(self, of)
        if view.view.parts and not kind.nested:
            raise QueryError(
                f"the rows of `{of}` are nested, and {format} sinks take flat ones",
                hint=f"define a view of its parts for the sink `{name}`",
            )
        if kind.key and view.key is None:
            raise QueryError(
                f"nothing says which rows of `{of}` are one, and {format} sinks write by key",
                hint=f"declare `{of}` with key=[...], columns that tell its rows apart",
            )
        return view

    def _look_at(self, here: _Here, view: Follows) -> None:
        """Looks at the target for the first time: it may be somebody else's, or out of reach for good."""
        name = here.made.name
        sink = self._sink_of(here, view)
        try:
            there = sink.place()
            decided(there, view, view.newest(), f"the target of the sink `{name}`")
            here.known = there
        except SinkAway:
            pass  # it may come back, and `run` tries again

    def _sink_of(self, here: _Here, view: Follows) -> Sink:
        """The sink of a definition; made anew where the view has other columns by now."""
        if here.sink is not None and here.schema == view.schema:
            return here.sink
        if here.sink is not None:
            here.sink.close()
        name, here.schema = here.made.name, view.schema
        if here.function is not None:
            here.sink = Foreach(
                name,
                here.function,
                lambda: self._recalled(name),
                lambda place: self._remember({name: place}),
                view.name,
            )
        else:
            key = view.key
            target = Target(name, view.name, view.schema, key, here.made.path, here.options)
            here.sink = here.kind.made(target)
        return here.sink

    # --- bringing them on -------------------------------------------------------------------------------------------

    def sync(self, name: str | None = None) -> Synced:
        """Brings a sink to the newest version of its view; without a name all of them, and gives what the last one took."""
        if name is None:
            done = Synced(self.version, moved=False)
            for each in self.sinks:
                done = self.sync(each)
            return done
        if name not in self.sink_defs:
            raise QueryError(
                f"there is no sink `{name}`", hint=f"sinks: {', '.join(self.sinks) or 'none'}"
            )
        done = self._brought_on(name)
        self._remember_sinks()
        return done

    def _brought_on(self, name: str) -> Synced:
        here = self._sinks.get(name)
        if here is None or here.made != self.sink_defs.get(name):
            raise SinkMissing(
                f"the sink `{name}` is not declared in this process",
                hint="declare it again with db.sink, by the same name",
            )
        with self._sinks_lock:
            started = time.monotonic()
            view = self._followed(name, here.made.of, here.made.format, here.kind)
            sink = self._sink_of(here, view)
            gap = here.options.get("gap", "whole")
            try:
                done = sync(sink, view, f"the target of the sink `{name}`", gap)
            finally:
                here.ended = time.monotonic()
                here.last = here.ended - started
            here.known = Place(view.database, view.name, done.version, view.mark_of(done.version))
            if done.moved:
                here.syncs, here.rows = here.syncs + 1, here.rows + done.rows
                here.seconds = round(here.seconds + here.last, 6)
        self._sinks_held.pop(name, None)
        return done

    def _sinks_turn(self, idle: bool) -> dict[str, int]:
        """The turn of sinks in a run: of all where nothing else can run; else of those that waited for as long as they take.

        Gives the versions of those that moved. One that fails is noted, and tried again when nothing else can run.
        """
        moved: dict[str, int] = {}
        if idle:
            self._sinks_held.clear()
        for name, made in self.sink_defs.items():
            here = self._sinks.get(name)
            if here is None or here.made != made or name in self._sinks_held:
                continue
            if not idle and time.monotonic() - here.ended < here.last:
                continue
            try:
                done = self._brought_on(name)
            except HeadwaterError as e:
                self._sinks_held[name] = e
                continue
            if done.moved:
                moved[name] = done.version
        if idle:
            self._remember_sinks()
        return moved

    def _sinks_waiting(self) -> dict[str, str]:
        """The sinks that are behind and were not brought on, and why."""
        out = {name: e.what for name, e in self._sinks_held.items()}
        for name in self.sink_defs:
            status = self.sink_status(name)
            if not status.here and status.behind:
                out[name] = "it is not declared in this process"
        return out

    # --- what is known of them --------------------------------------------------------------------------------------

    def _recalled(self, name: str) -> Place | None:
        """What the log says that a sink has."""
        fact = self.store.at(self.version).facts.get(f"{SUNK}{name}")
        return None if fact is None else well_defined(self.version, lambda: Place.of_data(fact))

    def _remember_sinks(self) -> None:
        """Writes down what sinks have, if this process writes and that has moved."""
        known = {n: h.known for n, h in self._sinks.items() if n in self.sink_defs}
        moved = {n: p for n, p in known.items() if p is not None and p != self._recalled(n)}
        if moved and self._writer is not None:
            self._remember(moved)

    def _remember(self, places: Mapping[str, Place]) -> None:
        with self._locked():
            self._writing()
            with self._commit("sinks", minor=True) as commit:
                for name, place in places.items():
                    commit.set(f"{SUNK}{name}", place.as_data())

    def sink_status(self, name: str) -> SinkStatus:
        """How far a sink has come, as far as this process and the log know; its target is not asked."""
        made = self.sink_defs[name]
        here = self._sinks.get(name)
        recalled = self._recalled(name)
        place = recalled if here is None or here.known is None else here.known
        newest = Follows(self, made.of).newest()
        since = 0 if place is None else min(place.version, newest)
        log, behind = self.store.log, newest - since
        if behind and (since == 0 or since >= log.floor()):
            behind -= log.minors(newest) - (log.minors(since) if since else 0)
        held = self._sinks_held.get(name)
        status = SinkStatus(
            *(name, made.of, made.format, None if place is None else place.version, behind),
            here=here is not None and here.made == made,
            held="" if held is None else held.what,
        )
        if here is None:
            return status
        return replace(status, syncs=here.syncs, rows=here.rows, seconds=here.seconds)

    # --- names and ends ---------------------------------------------------------------------------------------------

    def _check_name(self, name: str) -> None:
        super()._check_name(name)
        if name.lower() in {n.lower() for n in self.sink_defs}:
            raise NameTaken(
                f"there is a sink `{name}` already", hint="drop it first, or take another name"
            )

    def drop(self, name: str) -> None:
        """Takes away a sink, whose target stays as it is, or a view, source, flow, stage or stream that nothing reads."""
        with self._locked():
            self._writing()
            if name in self.sink_defs:
                with self._commit(f"drop {name}", minor=True) as commit:
                    commit.set(f"{SINK}{name}", None)
                    if f"{SUNK}{name}" in commit.base.facts:
                        commit.set(f"{SUNK}{name}", None)
                gone = self._sinks.pop(name, None)
                if gone is not None and gone.sink is not None:
                    gone.sink.close()
                return
            for made in self.sink_defs.values():
                if made.of == self.catalog.named(name):
                    raise InUse(
                        f"`{name}` is read by the sink `{made.name}`",
                        hint=f"drop `{made.name}` first",
                    )
            super().drop(name)

    def close(self) -> None:
        """Lets another writer in, and lets go of the targets of sinks. Reading goes on to work."""
        for here in self._sinks.values():
            if here.sink is not None:
                here.sink.close()
                here.sink = None
        super().close()


def _read(facts: Mapping[str, Any]) -> dict[str, SinkDef]:
    """The sinks that facts say."""
    found = {k: v for k, v in facts.items() if k.startswith(SINK)}
    out = {}
    for key, fact in sorted(found.items()):
        made = SinkDef(**fact)
        if key != f"{SINK}{made.name}" or not all(
            isinstance(t, str) for t in (made.of, made.format)
        ):
            raise ValueError(f"{key} is no sink")
        out[made.name] = made
    return out
