"""Snapshots: one version of a store, to read from.

A version can be read for as long as it is kept, whatever is committed, compacted and collected meanwhile: its files
stay, and never change. A reader that comes too late is told that the version is gone, and one that finds damage which
version is the last without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.errors import DamagedState, StateError, VersionGone
from headwater.state.arrangement import Arrangement
from headwater.state.log import Log, Version
from headwater.state.run import Run, RunRef, Runs

DATA = "data"
"""The folder of the data files of a store."""


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


class VersionRuns(Runs):
    """The runs of a version: damage is told with the last version that has none, or that the version is gone."""

    def __init__(self, below: Runs, log: Log, number: int):
        super().__init__(below.files, below.folder)
        self.below, self.log, self.number = below, log, number

    def open(self, ref: RunRef) -> Run:
        try:
            return self.below.open(ref)
        except DamagedState as e:
            raise self._told(e, ref) from e

    def look(self, ref: RunRef) -> None:
        try:
            self.below.look(ref)
        except DamagedState as e:
            raise self._told(e, ref) from e

    def verify(self, ref: RunRef) -> None:
        try:
            self.below.verify(ref)
        except DamagedState as e:
            raise self._told(e, ref) from e

    def trust(self, refs: Iterable[RunRef]) -> None:
        self.below.trust(refs)

    def know(self, small: Iterable[tuple[RunRef, pa.RecordBatch, str]]) -> None:
        self.below.know(small)

    def _told(self, damage: DamagedState, ref: RunRef) -> StateError:
        floor = self.log.floor()
        if self.number < floor:
            return VersionGone(
                f"version {self.number} is not there any more", hint=f"the oldest is {floor}"
            )
        if damage.whole is not None:
            return damage
        return DamagedState(damage.path, damage.damage, self._whole(ref))

    def _whole(self, damaged: RunRef) -> int:
        """The newest version without a run, and whose files can be opened."""
        log, runs = Log(self.files), Runs(self.files, self.folder)
        for number in reversed(log.numbers()):
            with contextlib.suppress(DamagedState):
                refs = [ref for _, refs in log.read(number).maps.values() for ref in refs]
                if damaged not in refs and all(runs.open(ref) for ref in refs):
                    return number
        return 0
