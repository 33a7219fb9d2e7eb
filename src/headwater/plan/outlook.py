"""Outlook: what a program will forget and finish in time, by what is declared of its sources, before any row is there.

`Bounds` over `Schemes` says it of each map: its entries leave when some sources are closed by some columns; or it is *fixed*,
for it has one entry or never changes; or it *ends*, for its filters let nothing more through in time; or it grows for ever, and
some reader blocks. Of a bag that is read from an end only the first entries of each group stay (*front*). A source that keeps
all its rows has maps that are *kept*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from headwater.calculus.types import Base
from headwater.plan.bounds import Bounds, Reader, Readers
from headwater.plan.closing import Closing
from headwater.plan.program import Map, Stratum, View
from headwater.plan.promises import Column, Promise, Promises, Scheme, Schemes, least
from headwater.plan.through import Keys, Through, through

ONE_BY_ONE = ("string", "binary", "boolean")
"""Types whose values are closed one by one; others are taken to be closed in their order."""

State = Literal["bounded", "fixed", "ends", "front", "kept", "unbounded"]
Needs = tuple[tuple[str, tuple[str, ...]], ...]
"""Sources with the columns by which they must be closed; none if nothing must be."""


@dataclass(frozen=True)
class Declared:
    """What is declared of a source: its columns, how it is closed, what it keeps."""

    types: Mapping[str, Base]
    closes: tuple[tuple[str, ...], ...] = ()
    append_only: bool = False
    static: bool = False
    retain: bool | str = True
    maps: frozenset[str] = frozenset()
    """The maps that hold its rows."""
    whole: bool = False
    """Whether all its rows must be kept, whatever is closed."""
    said: str = ""
    """What of this is shown of it."""
    key: tuple[str, ...] = ()
    """The columns that are unique among all rows that ever came."""

    def schemes(self, name: str) -> frozenset[Scheme]:
        """Its schemes, whose columns say where they come from."""
        return least(
            frozenset(
                Column(c, self.types[c].name not in ONE_BY_ONE, f"{name}.{c}") for c in columns
            )
            for columns in self.closes
        )


Sources = Mapping[str, Declared]


def promised(closing: Closing, sources: Sources) -> Promises[frozenset[Scheme]]:
    """The promises that a program will have in time."""
    algebra, known = Schemes(), dict[str, Promise[frozenset[Scheme]]]()
    for name, d in sources.items():
        found = algebra.everything if d.static else d.schemes(name)
        known[name] = Promise(found, algebra.everything if d.append_only else found, found)
    keys = {n: d.key for n, d in sources.items() if d.key and d.retain is True}
    return Promises(closing, algebra, known.get, None, closing.remember(keys, through_entries))


def through_entries(closing: Closing, keys: Keys) -> dict[str, Through]:
    """The maps some of whose keys may be closed through entries."""
    inside = closing.program.inside()
    maps = [m for n, m in closing.program.maps.items() if n not in inside]
    found = {m.name: through(closing, m, keys) for m in maps} if keys else {}
    return {n: t for n, t in found.items() if t is not None}


def closed_through(closing: Closing, sources: Sources) -> dict[str, Through]:
    """The maps whose keys will be closed through entries, by what is declared of sources."""
    promises, maps = promised(closing, sources), closing.program.maps
    return {n: t for n, t in promises.through.items() if promises.closed_through(maps[n])}


@dataclass
class Outlook:
    """What maps and views of a program come to, by what is declared of its sources."""

    closing: Closing
    sources: Sources
    readers: Readers
    promises: Promises[frozenset[Scheme]] = field(init=False)
    bounds: Bounds[frozenset[Scheme]] = field(init=False)
    _states: dict[str, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.promises = promised(self.closing, self.sources)
        held = {m: n for n, d in self.sources.items() if d.retain for m in d.maps}
        open_only = frozenset(n for n, d in self.sources.items() if d.retain == "open")
        self.bounds = Bounds(self.promises, held, open_only, self.readers)

    def state(self, m: Map) -> State:
        """What becomes of the entries of a map."""
        if m.name not in self._states:
            self._states[m.name] = self._state(m)
        return self._states[m.name]

    def _state(self, m: Map) -> State:
        if not m.columns or self._never_changes(m):
            return "fixed"
        if self._dead(m):
            return "bounded"
        source = self.bounds.held.get(m.name)
        if source is not None and source not in self.bounds.open_only:
            return "kept"
        if self.ends(m) is not None:
            return "ends"
        return "front" if self.bounds.behind(m) else "unbounded"

    def _dead(self, m: Map) -> frozenset[Scheme]:
        """What is dead of a map, or taken off it."""
        dead, counted = self.bounds.dead(m), self.bounds.counts_open(m)
        if counted is None:
            return dead
        return self.promises.algebra.join(dead, self.promises.left_behind(counted))

    def _never_changes(self, m: Map) -> bool:
        if m.name in self.closing.program.kept:
            return frozenset() in self.promises.closed(m)
        groups = [s for s in self.readers.strata.get(m.name, ()) if s.answers == m]
        return any(self._never_changes(s.group) for s in groups)

    def ends(self, m: Map) -> Needs | None:
        """When nothing more comes into a map; None if that is never sure."""
        groups = [s.group for s in self.readers.strata.get(m.name, ()) if s.answers == m]
        closed = self.promises.closed(groups[0] if groups else m)
        return needs(s for s in closed if all(not c.name for c in s))

    def grows(self, m: Map) -> bool:
        """Whether a map of views grows for ever; how many rows a source keeps is said of the source."""
        return self.state(m) in ("unbounded", "front")

    def leaves(self, m: Map, but_source: bool = False) -> Needs | None:
        """When the entries of a map leave; None if they do not. Without the source that keeps them, if that is asked."""
        if not but_source:
            return needs(self._dead(m))
        others = [r.dead for r in self.bounds.readers(m) if not isinstance(r.what, str)]
        algebra = self.promises.algebra
        dead: frozenset[Scheme] = reduce(algebra.meet, others, algebra.everything)
        return needs(dead)

    def final(self, view: View) -> Needs | None:
        """When the rows of a view are final; None if they are not before everything is over."""
        return needs(self.promises.final(view))

    def blocked(self, m: Map) -> list[Reader[frozenset[Scheme]]]:
        """The readers of a map that need its entries for ever."""
        return [r for r in self.bounds.readers(m) if not r.dead]

    def open_groups(self, s: Stratum) -> list[Map]:
        """The maps of a stratum that keep its groups from being closed."""
        keys = s.group.columns
        return [
            m
            for m in (s.group, *s.bags)
            if not self.promises.algebra.only(self.promises.closed(m), keys)
        ]


def needs(schemes: Iterable[Scheme]) -> Needs | None:
    """The least that must be closed, by source, of schemes each of which is enough."""
    found = [tuple(sorted({c.of for c in s})) for s in schemes]
    if not found:
        return None
    out: dict[str, list[str]] = {}
    for of in min(found, key=lambda f: (len(f), f)):
        source, _, column = of.rpartition(".")
        out.setdefault(source, []).append(column)
    return tuple((s, tuple(c)) for s, c in out.items())
