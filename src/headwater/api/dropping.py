"""A program without some of its views: what the others need stays as it is, and the rest goes.

What a view needs is what it is answered from, what keeps and checks that, and so on; equal maps are one. So taking a view
away is to keep what the others reach.
"""

from __future__ import annotations

from collections.abc import Collection

from headwater.calculus.types import RecordType
from headwater.plan.analysis import maps_of, strata_of
from headwater.plan.program import Program, Stored, Stratum, View


def without(program: Program, names: Collection[str], kept: set[str]) -> Program:
    """The program without views that no others read. The maps in `kept`, which are those of sources, stay."""
    made = program.copy()
    for name in names:
        del made.views[name]
    maps, strata = set(kept), set[str]()
    for view in made.views.values():
        strata |= set(strata_of(program, view))
        maps |= {m.name for m in maps_of(program, view, every=True)}
    answered: list[View | Stratum] = [*made.views.values(), *(program.strata[n] for n in strata)]
    for check in {c for item in answered for c in item.checks}:
        # A count of failures is kept as though it were a view of its own.
        counted = View(check, RecordType(()), "", Stored(program.checks[check]))
        strata |= set(strata_of(program, counted))
        maps |= {m.name for m in maps_of(program, counted, every=True)}
    made.maps = {n: m for n, m in made.maps.items() if n in maps}
    made.kept = {n: k for n, k in made.kept.items() if n in maps}
    made.checks = {n: m for n, m in made.checks.items() if n in maps}
    for gone in made.strata.keys() - strata:
        made.relations.levels.pop(gone, None)
        made.relations.rows.pop(gone, None)
    made.strata = {n: s for n, s in made.strata.items() if n in strata}
    stays = {
        n
        for n, x in made.loops.items()
        if (
            maps.issuperset(m.name for m in x.diffuse.told)
            if x.diffuse
            else strata.issuperset(x.collections)
        )
    }
    for loop in (x for n, x in made.loops.items() if n not in stays and x.diffuse):
        asks = [s.asks for s in loop.diffuse.settled]  # type: ignore[union-attr]
        for gone in (*loop.collections, *asks):
            made.relations.levels.pop(gone, None)
            made.relations.rows.pop(gone, None)
    made.loops = {n: loop for n, loop in made.loops.items() if n in stays}
    return made


def without_source(program: Program, relations: set[str], maps: set[str]) -> Program:
    """The program without a source that no view reads: its relations, and the maps that hold its rows."""
    made = program.copy()
    for relation in relations:
        made.relations.rows.pop(relation, None)
        made.relations.levels.pop(relation, None)
        made.relations.static.discard(relation)
    made.maps = {n: m for n, m in made.maps.items() if n not in maps}
    made.kept = {n: k for n, k in made.kept.items() if n not in maps}
    return made


def without_maps(program: Program, maps: set[str]) -> Program:
    """The program as though some of its maps were not there yet, nor what is answered from them."""
    if not maps:
        return program
    made = program.copy()
    made.maps = {n: m for n, m in made.maps.items() if n not in maps}
    made.kept = {n: k for n, k in made.kept.items() if n not in maps}
    made.strata = {n: s for n, s in made.strata.items() if not any(m.name in maps for m in s.maps)}
    made.loops = {n: loop for n, loop in made.loops.items() if maps.isdisjoint(loop.maps)}
    return made
