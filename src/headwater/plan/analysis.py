"""What a program says of its views: the maps and strata that each needs, and what a changed row costs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from headwater.plan.program import ENDS, Lookup, Loop, Map, Program, Statement, Stratum, View

COSTS = {
    "change": "in proportion to the change: look-ups by key, and ends or stretches of groups in order",
    "group": "the groups that a change touches are read again",
    "rounds": "a change is carried through the rounds of a loop, as far as it moves something there",
    "scan": "a change may read all of a map",
    "all": "everything is computed anew",
}
"""What a changed row makes one look at, the dearest last."""


def cost_class(program: Program, name: str) -> str:
    """The dearest thing that a changed row does to a view, one of `COSTS`."""
    view = program.views[name]
    if view.strategy == "recompute":
        return "all"
    found = {"change"}
    for _, statement in changes_of(program, maps_of(program, view)):
        for step in statement.steps:
            if isinstance(step, Lookup) and step.version != "change" and not step.keys:
                # A map without a key has one entry: to read it is no scan.
                found.add("scan" if program.maps[step.into].key else "change")
    found |= {_stratum_class(program.strata[n]) for n in strata_of(program, view)}
    found |= {"rounds"} if loops_of(program, view) else set()
    return max(found, key=list(COSTS).index)


def _stratum_class(stratum: Stratum) -> str:
    """What answering a touched group reads: its own entry and ends of ordered bags, or whole bags."""
    whole = any(b.function not in ENDS for b in stratum.from_bags)
    ranked = stratum.ranked
    if whole or (ranked is not None and ranked.limit is None and not ranked.reads_part):
        return "group"
    return "change"


def changes_of(program: Program, maps: Iterable[Map]) -> Iterator[tuple[str, Statement]]:
    """The statements of single changes of some maps, each with the relation that changes."""
    for m in maps:
        if m.name in program.kept:
            for relation, statements in program.kept[m.name].changes.items():
                yield from ((relation, s) for s in statements)


def maps_of(program: Program, view: View, every: bool = False) -> list[Map]:
    """All maps that single changes of a view need, those it is answered from first; with `every`, all that it needs."""
    roots = view.maps
    for name in strata_of(program, view):
        roots += program.strata[name].maps
    for loop in loops_of(program, view):
        roots += kept_for(program, loop) if loop.diffuse else []
        roots += [loop.until.count] if loop.until else []
    found: dict[str, Map] = {}
    while roots:
        m = roots.pop(0)
        if m.name not in found:
            found[m.name] = m
            if every and m.name in program.kept:
                roots += [program.maps[n] for n in sorted(program.kept[m.name].reads)]
            else:
                reads = [sorted(s.reads) for _, s in changes_of(program, [m])]
                roots += [program.maps[n] for names in reads for n in names]
    return list(found.values())


def loops_of(program: Program, view: View) -> list[Loop]:
    """The loops that a view is answered through, lowest first."""
    names = _reached(program, view).keys()
    found = [x for x in program.loops.values() if not names.isdisjoint(x.relations)]
    return sorted(found, key=lambda x: x.level)


def rounds_of(
    program: Program, visited: Mapping[str, Sequence[tuple[int, int]]]
) -> dict[str, list[tuple[int, int]]]:
    """The rounds that loops were visited at, and the rows that moved, by view; those of several loops of a view together."""
    out: dict[str, list[tuple[int, int]]] = {}
    for name, view in program.views.items() if visited else ():
        moved = Counter[int]()
        for loop in loops_of(program, view):
            for at, rows in visited.get(loop.name, ()):
                moved[at] += rows
        if moved:
            out[name] = sorted(moved.items())
    return out


def read_from(program: Program, view: View) -> list[Map]:
    """The maps that the rows of a view are read from, the one with its rows or groups first."""
    return view.maps if view.stratum is None else program.strata[view.stratum].maps


def strata_of(program: Program, view: View) -> list[str]:
    """The strata that a view is answered from, lowest first."""
    names = [n for n in _reached(program, view) if n in program.strata]
    return sorted(names, key=lambda n: program.strata[n].level)


def _reached(program: Program, view: View) -> dict[str, None]:
    """The relations that a view is computed from."""
    inside = {n: x for x in program.loops.values() for n in x.relations}
    names = [view.stratum] if view.stratum else []
    names += [r for m in view.maps for r in m.reads]
    found: dict[str, None] = {}
    while names:
        name = names.pop()
        if name in found:
            continue
        found[name] = None
        if name in program.strata:
            names += [r for m in program.strata[name].maps for r in m.reads]
        loop = inside.get(name)
        if loop is not None:  # all that moves in it goes round together
            names += loop.relations
            names += [r for m in kept_for(program, loop) for r in m.reads] if loop.diffuse else []
    return found


def kept_for(program: Program, loop: Loop) -> list[Map]:
    """The maps that a loop in diffuse mode needs, beside those of its strata."""
    of = loop.diffuse
    assert of is not None
    asked = [s for settled in of.settled for s in settled.probes]
    looked_up = sorted({n for s in asked for n in s.reads})
    held = [*of.told, *of.steps, *of.due, *of.begins, *([of.aliases] if of.aliases else [])]
    groups = [s.groups for s in of.settled]
    return [*held, *groups, *(program.maps[n] for n in (*loop.maps, *looked_up))]
