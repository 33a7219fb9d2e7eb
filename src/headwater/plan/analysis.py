"""What a program says of its views: the maps and strata that each needs, and what a changed row costs it."""

from __future__ import annotations

from headwater.plan.compiler import Compiler
from headwater.plan.program import ENDS, Lookup, Map, Stratum, View

COSTS = {
    "change": "in proportion to the change: look-ups by key, and ends or stretches of groups in order",
    "group": "the groups that a change touches are read again",
    "scan": "a change may read all of a map",
    "all": "everything is computed anew",
}
"""What a changed row makes one look at, the dearest last."""


def cost_class(compiler: Compiler, name: str) -> str:
    """The dearest thing that a changed row does to a view, one of `COSTS`."""
    program = compiler.program
    view = program.views[name]
    if view.strategy == "recompute":
        return "all"
    found = {"change"}
    maps = maps_of(compiler, view)
    for m in maps:
        for relation in m.reads:
            for statement in compiler.maps.statements(m, {relation}):
                for step in statement.steps:
                    if isinstance(step, Lookup) and step.version != "change" and not step.keys:
                        # A map without a key has one entry: to read it is no scan.
                        found.add("scan" if program.maps[step.into].key else "change")
    found |= {_stratum_class(program.strata[n]) for n in strata_of(compiler, view)}
    return max(found, key=list(COSTS).index)


def _stratum_class(stratum: Stratum) -> str:
    """What answering a touched group reads: its own entry and ends of ordered bags, or whole bags."""
    whole = any(b.function not in ENDS for b in stratum.from_bags)
    ranked = stratum.ranked
    if whole or (ranked is not None and ranked.limit is None and not ranked.reads_part):
        return "group"
    return "change"


def maps_of(compiler: Compiler, view: View) -> list[Map]:
    """All maps that a view needs, those it is answered from first."""
    program = compiler.program
    roots = view.maps
    for name in strata_of(compiler, view):
        roots += program.strata[name].maps
    found: dict[str, Map] = {}
    while roots:
        m = roots.pop(0)
        if m.name not in found:
            found[m.name] = m
            for relation in m.reads:
                for s in compiler.maps.statements(m, {relation}):
                    roots += [program.maps[n] for n in sorted(s.reads)]
    return list(found.values())


def strata_of(compiler: Compiler, view: View) -> list[str]:
    """The strata that a view is answered from, lowest first."""
    program = compiler.program
    names = [view.stratum] if view.stratum else []
    names += [r for m in view.maps for r in m.reads if r in program.strata]
    found: dict[str, None] = {}
    while names:
        name = names.pop()
        if name not in found:
            found[name] = None
            reads = {r for m in program.strata[name].maps for r in m.reads}
            names += [r for r in reads if r in program.strata]
    return sorted(found, key=lambda n: program.strata[n].level)
