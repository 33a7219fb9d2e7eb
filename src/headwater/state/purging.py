"""Purging: what nobody will read again leaves a map with the runs that are rewritten, or with a run that has nothing else.

What is *dead* the store is told, as a predicate of key columns (`Dead`). The law that whoever says so answers for:

    a key that is dead is dead in every run of its map and for ever; what a look-up finds of it is dropped, and none reads past it.

So it does not matter which of its entries are still there. Of a change map some may be gone and others not, and their sum is
wrong, also where it was zero; of a value map or a latest map the newest may be gone, and an older one shows: nobody sees
either. The first or last entries of a group, or a range of them, may be read only where they end before what is dead, and
scans of what is shown leave it out. Entries that only stand in the shade of others, *dominated* ones, are found where all
runs of a map are rewritten at once.

A run whose zones say that all of it is dead is dropped unread; a map is rewritten when a quarter of it is dead, and that is
not little. How much of a run is dead is said by its zones or counted, and then it is not counted again for a while that
doubles, so that looking costs little beside what is written. What is rewritten was counted: nothing is rewritten in vain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import DamagedState
from headwater.state import zones
from headwater.state.arrangement import Arrangement
from headwater.state.keys import Bools
from headwater.state.run import NO_ZONES, RunRef
from headwater.state.zones import Zoned, Zones

FEW = 1024
"""Dead entries of a map for which it is not rewritten: they cost less than that, and go with ordinary compaction."""
EVERY = 4
"""At which of the times that compactions are looked for a map is asked for what is dead; maps take turns."""
PATIENCE = 4
"""After how many of its turns with more that is dead a run is counted again, at most."""
LOOKED_AT = 1 << 20
"""Entries of a run that may be counted for each turn: a larger run is counted more seldom."""


class Dead(ABC):
    """What is dead in a map: made anew when more is, never changed. The law is above.

    `columns` are the key columns whose zones help to tell; new runs of the map say them.
    """

    columns: tuple[str, ...] = ()

    @abstractmethod
    def gone(self, entries: pa.Table) -> Bools:
        """Which entries are dead; the table has the key columns, as they are stored."""

    def all(self, zones: Zones) -> bool:
        """Whether all that may lie in such zones is dead. False if that is not known."""
        return False

    def none(self, zones: Zones) -> bool:
        """Whether nothing that may lie in such zones is dead. False if that is not known."""
        return False

    def dominated(self, entries: pa.Table) -> Bools | None:
        """Which of the living entries nobody reads because of others beside them; None where it is never asked.

        The table has all entries of some groups (look-up keys), in order, each group whole, as they were at a version
        that may not be the newest: whatever has come since, they are dominated still.
        """
        return None

    @property
    def dominates(self) -> bool:
        """Whether entries can be dominated."""
        return type(self).dominated is not Dead.dominated


@dataclass(frozen=True)
class _Looked:
    """How many entries of a run were dead when it was looked at last, and for how many turns that is taken."""

    dead: Dead
    count: int
    wait: int = 1
    left: int = 1


class Purging:
    """What a writer knows of the dead entries of its maps. Threads share it as they share the rest of the writer."""

    def __init__(self) -> None:
        self.dead: Mapping[str, Dead] = {}
        self.zoned: Zoned = NO_ZONES
        self.spared: dict[str, object] = {}
        """Maps whose predicates were taken back, and a token of the last time."""
        self._looked: dict[str, tuple[object, dict[RunRef, _Looked]]] = {}
        """What was found of runs when they were looked at, with the token of that time."""
        self._turns: dict[str, int] = {}

    def tell(self, dead: Mapping[str, Dead]) -> None:
        """What is dead from now on, by map, which must be so at a version that is committed."""
        self.zoned = {n: d.columns for n, d in dead.items() if d.columns}
        self.dead = dead

    def spare(self, names: Iterable[str]) -> None:
        """Takes back what was told of maps. What was rewritten without it, and is not committed, never will be."""
        gone = set(names)
        self.tell({n: d for n, d in self.dead.items() if n not in gone})
        for name in gone:  # after that: who still sees the predicate has the token of before
            self.spared[name] = object()

    def now(self, name: str) -> tuple[Dead | None, object]:
        """What is dead in a map, and the token of this time."""
        spared = self.spared.get(name)  # first, see above
        return self.dead.get(name), spared

    def counts(
        self, arrangement: Arrangement, dead: Dead | None, spared: object, at_once: bool = False
    ) -> dict[RunRef, int]:
        """How many entries of each run are dead, as far as is known, or nothing: it is not the map's turn.

        `at_once`: for sure, out of turn, and in the smallest map.
        """
        name = arrangement.spec.name
        if dead is None or not (at_once or self._has_turn(arrangement)):
            return {}
        since, before = self._looked.get(name, (None, {}))
        if since is not spared:
            before = {}
        looked = {}
        for ref in arrangement.refs:
            seen = before.get(ref)
            if seen is not None and not at_once and seen.dead is not dead and seen.left > 1:
                seen = _Looked(dead, seen.count, seen.wait, seen.left - 1)
            elif seen is None or at_once or seen.dead is not dead:
                seen = self._look(arrangement, ref, dead, seen)
            looked[ref] = seen
        self._looked[name] = spared, looked
        return {ref: seen.count for ref, seen in looked.items()}

    def _has_turn(self, arrangement: Arrangement) -> bool:
        name = arrangement.spec.name
        turn = self._turns[name] = self._turns.get(name, len(self._turns) - 1) + 1
        return turn % EVERY == 0 and sum(r.rows for r in arrangement.refs) >= FEW

    def _look(
        self, arrangement: Arrangement, ref: RunRef, dead: Dead, seen: _Looked | None
    ) -> _Looked:
        known, wait = zones_of(arrangement, ref), 2 * seen.wait if seen is not None else 1
        if known and dead.all(known):
            return _Looked(dead, ref.rows)
        if known and dead.none(known):
            return _Looked(dead, 0)
        count = 0
        for table in arrangement.open(ref).tables():
            count += int(np.count_nonzero(dead.gone(table.select(arrangement.spec.keys))))
        wait = min(wait, max(PATIENCE, ref.rows // LOOKED_AT))
        return _Looked(dead, count, wait, wait)


def zones_of(arrangement: Arrangement, ref: RunRef) -> Zones:
    """What a run of a map says of its columns."""
    if not all(name in arrangement.spec.keys for name, *_ in ref.zone):
        raise _damaged(arrangement, ref, "is of a column that is no key")
    return zones.known(ref.zone, arrangement.spec.schema)


def check_zones(arrangement: Arrangement, ref: RunRef) -> None:
    """Reads a run and compares it with its zones."""
    names = list(zones_of(arrangement, ref))
    found = [zones.noted(s.batch, names) for s in arrangement.open(ref).segments]
    if zones.together(found) != ref.zone:
        raise _damaged(arrangement, ref, "is not that of its entries")


def _damaged(arrangement: Arrangement, ref: RunRef, what: str) -> DamagedState:
    path = f"{arrangement.runs.folder}/{ref.file}"
    return DamagedState(path, f"the zone of the run at byte {ref.offset} {what}")
