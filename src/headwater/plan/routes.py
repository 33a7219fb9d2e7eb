"""What an increment asks of a program, told once: which maps a relation changes, and what is answered from which map.

An increment touches few of many maps. What it needs to know of the rest is known of the program, so that the work of a version
is that of the maps that it touches: `routes` is computed when a program is first carried through, and kept with it. A program
that something was added to is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.plan.program import Loop, Map, Program, Stratum


@dataclass(frozen=True)
class Routes:
    """Where the changes of relations go in a program."""

    levels: tuple[int, ...]
    """The levels of its maps, lowest first."""
    readers: Mapping[str, tuple[Map, ...]]
    """By relation, the maps that read it."""
    looked_up: frozenset[str]
    """The maps that statements of single changes look up."""
    answered: frozenset[str]
    """The strata whose answers are needed in an increment: others are computed when they are read."""
    strata: Mapping[str, tuple[Stratum, ...]]
    """By map, the strata that are answered from it."""
    inside: Mapping[str, Loop]
    """The loops that strata are answered in."""
    loops: Mapping[int, tuple[Loop, ...]]
    """By level, the loops that are carried through at it."""

    def changed_by(self, relations: Iterable[str]) -> list[Map]:
        """The maps that any of some relations changes."""
        found = {m.name: m for r in relations for m in self.readers.get(r, ())}
        return list(found.values())


def routes(program: Program) -> Routes:
    """Those of a program, which are computed again if it is no longer what it was."""
    p = program
    token = len(p.maps), len(p.strata), len(p.kept), len(p.loops)
    known = program.told.get("routes")
    if known is None or known[0] != token:
        known = program.told["routes"] = (token, _routes(program))
    found: Routes = known[1]
    return found


def _routes(program: Program) -> Routes:
    readers: dict[str, list[Map]] = {}
    for m in program.maps.values():
        for r in m.reads:
            readers.setdefault(r, []).append(m)
    strata: dict[str, list[Stratum]] = {}
    for s in program.strata.values():
        for name in {m.name for m in (s.group, *s.bags)}:
            strata.setdefault(name, []).append(s)
    loops: dict[int, list[Loop]] = {}
    for loop in program.loops.values():
        loops.setdefault(loop.level, []).append(loop)
    return Routes(
        tuple(sorted({m.level for m in program.maps.values()})),
        {n: tuple(ms) for n, ms in readers.items()},
        frozenset(program.looked_up()),
        frozenset(
            s.name for s in program.strata.values() if s.name in readers or s.answers is not None
        ),
        {n: tuple(ss) for n, ss in strata.items()},
        {n: loop for loop in program.loops.values() for n in loop.relations},
        {level: tuple(found) for level, found in loops.items()},
    )
