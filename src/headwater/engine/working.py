"""The maps of a database while an increment is being made: those before it, and what it has added so far.

`before` is the version that the increment starts from; `now` includes what it wrote. New entries stay in memory
until `written` puts them into one file, so that a small increment makes one file whatever the number of its maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from headwater.calculus.patterns import Punctuations
from headwater.calculus.types import RecordType
from headwater.engine.rings import spec_of
from headwater.errors import StateError
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import WEIGHT, Lookup, Map
from headwater.state.arrangement import Arrangement, Touched
from headwater.state.entries import any_ring, consolidate
from headwater.state.files import FileSystem
from headwater.state.run import (
    LEAST,
    MOST,
    NO_ZONES,
    Generation,
    MapSpec,
    Run,
    RunRef,
    Runs,
    Segment,
    hashes,
)
from headwater.state.store import DATA
from headwater.state.writing import Writer
from headwater.state.zones import Zoned

T = TypeVar("T")
GATHERED = 50_000
"""Entries of newest runs, in all, that are put together for who looks a map up again and again."""
AGAIN = 3
"""Rounds of a loop after which that is done with the maps that it looks up and that do not move."""
MOST_RUNS = 4
"""Runs in memory, each no larger than those after it, that a map may have before they are put together."""


class Overlay(Runs):
    """Runs on disk, and some that are in memory only."""

    def __init__(self, below: Runs):
        super().__init__(below.files, below.folder)
        self.below = below
        self.memory: dict[str, Run] = {}
        self.kept = 0
        """How many runs were kept here, which is what they are called by."""

    def open(self, ref: RunRef) -> Run:
        run = self.memory.get(ref.file)
        return self._told(self.below.open, ref) if run is None else run

    def look(self, ref: RunRef) -> None:
        if ref.file not in self.memory:
            self._told(self.below.look, ref)

    def _told(self, act: Callable[[RunRef], T], ref: RunRef) -> T:
        try:
            return act(ref)
        except OSError as e:
            raise StateError(
                f"{self.folder}/{ref.file} could not be read: {e.strerror or e}",
                hint="nothing was changed; mend the disk, and try again",
            ) from e

    def keep(self, entries: pa.Table, generation: Generation) -> RunRef:
        """A run of sorted entries that has no file."""
        entries = entries.combine_chunks()
        (batch,) = entries.to_batches()
        h = hashes(entries)
        self.kept += 1
        name = f"memory-{self.kept}"
        low, high = int(h[0]), int(h[-1])
        ref = RunRef(name, 0, 0, len(h), low, high, 0, 0, *generation)
        self.memory[name] = Run(ref, [Segment(np.asarray(h), batch)])
        return ref


class Working:
    """The maps during an increment."""

    def __init__(
        self,
        maps: Mapping[str, Map],
        refs: Mapping[str, Sequence[RunRef]],
        runs: Runs,
        generation: Generation = (0, 0),
        added: Mapping[str, Sequence[RunRef]] | None = None,
        rows: Mapping[str, RecordType] | None = None,
        specs: dict[str, MapSpec] | None = None,
        zoned: Zoned = NO_ZONES,
    ):
        """`specs` are those that are known already: a map's name says all that its spec does.

        New runs say zones of the columns that `zoned` names.
        """
        self.maps, self.refs, self.runs = maps, refs, Overlay(runs)
        self.generation, self.zoned = generation, zoned
        self.rows = rows or {}
        self.on_spark = False
        self.threads = 1
        """How many threads merge large changes: more than one where nobody else is at work for the same increment."""
        self.stored: dict[str, list[RunRef]] = {}
        self.added: dict[str, list[RunRef]] = {n: list(r) for n, r in (added or {}).items()}
        self.entries: dict[str, list[pa.Table]] = {}
        self.changes: dict[str, Arrangement] = {}
        self.gathered: dict[str, Arrangement] = {}
        """Maps as they are now, whose newest runs are put together for look-ups here."""
        self.reads_new = False
        self.merged: dict[str, list[Touched]] = {}
        """What merges here said about the keys of maps: their values before and after, merge by merge."""
        self.steady = False
        """Whether all maps before the increment are of the same rows: none of them is new, or another's that was taken over."""
        self.hidden: Mapping[str, Punctuations] = {}
        """What of the maps of views and sources is not shown: it is in their ledgers, or is kept no more."""
        self.never: Mapping[str, Punctuations] = {}
        """What of them was never shown, so that its changes are not told either."""
        self.fresh: set[str] = set()
        """Answers inside of loops that are new, so that there was none before, even where there are no rows."""
        self._specs = {} if specs is None else specs

    def spec(self, name: str) -> MapSpec:
        """The spec of a map."""
        if name not in self._specs:
            self._specs[name] = spec_of(self.maps[name])
        return self._specs[name]

    def know(self, spec: MapSpec) -> None:
        """A map that is none of the program's."""
        self._specs[spec.name] = spec

    def before(self, name: str) -> Arrangement:
        """A map before the increment."""
        return Arrangement(self.spec(name), self.refs.get(name, ()), self.runs)

    def as_before(self) -> Working:
        """All maps as they were before the increment."""
        made = Working(self.maps, self.refs, self.runs.below, rows=self.rows, specs=self._specs)
        made.hidden = self.hidden
        return made

    def now(self, name: str) -> Arrangement:
        """A map with what the increment has added so far."""
        return Arrangement(
            self.spec(name), [*self.refs.get(name, ()), *self.added.get(name, ())], self.runs
        )

    def as_now(self, name: str) -> Arrangement:
        """A map as it is now, whatever becomes of its runs in memory."""
        at = self.now(name)
        runs = Overlay(self.runs.below)
        runs.memory = {
            r.file: self.runs.memory[r.file] for r in at.refs if r.file in self.runs.memory
        }
        return Arrangement(at.spec, at.refs, runs)

    def new(self, name: str) -> Arrangement:
        """What the increment has added to a map."""
        return Arrangement(self.spec(name), self.added.get(name, ()), self.runs)

    def find(self, lookup: Lookup) -> Arrangement:
        """What a statement looks up: a map, a change that is arranged for it, or both as one."""
        name = lookup.into
        if lookup.version == "change":
            return self.changes[name]
        old = (self.gathered.get(name) or self.now(name)) if self.reads_new else self.before(name)
        if lookup.version == "old":
            return old
        return Arrangement(old.spec, [*old.refs, *self.changes[name].refs], self.runs)

    def gather(self, names: Iterable[str]) -> None:
        """Puts the newest runs of maps together, for statements that look these up many times from now on.

        What is added to a map later is a run of its own again, beside all that it has.
        """
        for name in names:
            at = self.now(name)
            count = int(np.searchsorted(np.cumsum([r.rows for r in at.refs]), GATHERED, "right"))
            if count > 1:
                entries = at.together(at.refs[:count], LEAST, MOST)
                newest = self.runs.keep(entries, at.refs[0].generation)
                self.gathered[name] = Arrangement(at.spec, [newest, *at.refs[count:]], self.runs)

    def arrange(self, target: Map, table: pa.Table) -> None:
        """A change as something to look up."""
        spec = spec_of(target)
        entries, _ = Arrangement(spec, (), self.runs).merge(table, blind=True)
        self.arrange_entries(target.name, spec, entries)

    def arrange_nothing(self, target: Map) -> None:
        """The change of what did not change, unless it is arranged already."""
        if target.name not in self.changes:
            self.changes[target.name] = Arrangement(spec_of(target), [], self.runs)

    def arrange_entries(self, name: str, spec: MapSpec, entries: pa.Table) -> None:
        """Sorted entries as something to look up."""
        refs = [self.runs.keep(entries, (0, 0))] if entries.num_rows else []
        self.changes[name] = Arrangement(spec, refs, self.runs)

    def add(self, name: str, entries: pa.Table) -> None:
        """New entries of a map, sorted.

        An increment that adds to a map many times, as a loop does, would look through as many runs: a run is put together
        with those before it that are no larger, where these are some, so that they grow geometrically.
        """
        if not entries.num_rows:
            return
        self.gathered.pop(name, None)
        entries = entries.combine_chunks()  # once, for those who look up and for the file
        refs, tables = self.added.setdefault(name, []), self.entries.setdefault(name, [])
        count, rows = 0, entries.num_rows
        for ref, table in zip(reversed(refs), reversed(tables), strict=False):
            if ref.file not in self.runs.memory or table.num_rows > rows:
                break
            count, rows = count + 1, rows + table.num_rows
        if count >= MOST_RUNS:
            for ref in refs[-count:]:
                del self.runs.memory[ref.file]
            entries = _together(self.spec(name), [*tables[-count:], entries])
            del refs[-count:], tables[-count:]
            if not entries.num_rows:
                return
        refs.append(self.runs.keep(entries, self.generation))
        tables.append(entries)

    def add_stored(self, refs: Mapping[str, Sequence[RunRef]]) -> None:
        """New runs that tasks have written."""
        for name, more in refs.items():
            self.gathered.pop(name, None)
            self.added.setdefault(name, []).extend(more)
            self.stored.setdefault(name, []).extend(more)

    def stored_changes(self, files: FileSystem) -> dict[str, tuple[MapSpec, list[RunRef]]]:
        """The changes that are arranged for this increment, in files that tasks can read; no commit names them."""
        for name, a in self.changes.items():
            if any(r.file in self.runs.memory for r in a.refs):
                writer = Writer(files, "change", DATA)
                writer.add(a.spec, [a.collected(a.refs, LEAST, MOST)], (0, 0))
                refs = [ref for _, ref in writer.close()]
                self.changes[name] = Arrangement(a.spec, refs, self.runs)
        return {n: (a.spec, list(a.refs)) for n, a in self.changes.items()}

    def go_on(self) -> None:
        """What was added so far is what comes before, for whoever carries something through next in the same commit."""
        self.refs = {
            **self.refs,
            **{n: [*self.refs.get(n, ()), *added] for n, added in self.added.items()},
        }
        self.added, self.changes, self.merged, self.gathered = {}, {}, {}, {}

    def store_memory(self, files: FileSystem) -> None:
        """Writes what is in memory, so that tasks can read it too."""
        writer = Writer(files, "run", DATA, self.zoned)
        in_memory = self.entries
        self.entries = {}
        earlier: dict[str, int] = {}
        for name, tables in in_memory.items():
            # Those of a part of the commit that `go_on` has ended come before what is added now.
            before = [r for r in self.refs.get(name, ()) if r.file in self.runs.memory]
            now = [r for r in self.added.get(name, ()) if r.file in self.runs.memory]
            for table, r in zip(tables, [*before, *now], strict=True):
                writer.add(self.spec(name), [table], r.generation)
            earlier[name] = len(before)
        made: dict[str, list[RunRef]] = {}
        for name, ref in writer.close():
            made.setdefault(name, []).append(ref)
        for name, refs in made.items():
            count = earlier[name]
            old = [r for r in self.refs.get(name, ()) if r.file not in self.runs.memory]
            new = [r for r in self.added.get(name, ()) if r.file not in self.runs.memory]
            if count:
                self.refs = {**self.refs, name: [*old, *refs[:count]]}
            self.added[name] = [*new, *refs[count:]]
            self.stored.setdefault(name, []).extend(refs)

    def row_schema(self, relation: str) -> pa.Schema:
        """The columns of a relation's change."""
        fields = [(n, arrow_type(t)) for n, t in self.rows[relation].fields]
        return pa.schema([*fields, (WEIGHT, pa.int64())])

    def next_round(self) -> None:
        """What is added from here on is newer than what was added before."""
        version, number = self.generation
        self.generation = version, number + 1

    def written(
        self, files: FileSystem, cut: Callable[[str, pa.Table], list[pa.Table]] | None = None
    ) -> dict[str, list[RunRef]]:
        """Everything that was added: the runs of tasks, and the rest in one durable file, one run a map.

        `cut` says of a map's new entries which runs they are, where that is more than one.
        """
        self.next_round()
        generation = self.generation
        writer = Writer(files, "run", DATA, self.zoned)
        for name, tables in self.entries.items():
            spec = self.spec(name)
            merged = tables[0] if len(tables) == 1 else _together(spec, tables)
            for entries in [merged] if cut is None else cut(name, merged):
                writer.add(spec, [entries], generation)
        out = {n: list(refs) for n, refs in self.stored.items()}
        mine = writer.close()
        self.runs.below.trust(ref for _, ref in mine)
        self.runs.below.know(writer.small)
        for name, ref in mine:
            out.setdefault(name, []).append(ref)
        return out


def _together(spec: MapSpec, tables: Iterable[pa.Table]) -> pa.Table:
    """What several rounds added, newest last, as one run."""
    merged = consolidate(spec, pa.concat_tables(reversed(list(tables))))
    if spec.kind == "change":
        merged = merged.filter(pa.array(any_ring(spec, merged)))
    return merged
