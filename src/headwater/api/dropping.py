"""A program without one of its views: what the others need stays as it is, and the rest goes.

What a view needs is what it is answered from, what keeps that up to date, and so on; equal maps are one. So taking a view
away is to keep what the others reach, and the program is the one that compiling the others would give. Where that cannot
be seen from the maps (counts of divisions by zero belong to no view, and maps of inputs that never change are filled by
look-ups of their own) nothing is given, and the others are compiled again.
"""

from __future__ import annotations

import re

from headwater.plan.analysis import maps_of, strata_of
from headwater.plan.compiler import Compiler
from headwater.plan.program import Program


def without(compiler: Compiler, name: str, kept: set[str]) -> Compiler | None:
    """The program without a view that no other reads, with the maps `kept`; None where it has to be compiled again."""
    program = compiler.program
    if program.checks or compiler.relations.static:
        return None
    views = {n: v for n, v in program.views.items() if n != name}
    maps, strata = set(kept), set()
    for view in views.values():
        maps |= {m.name for m in maps_of(compiler, view)}
        strata |= set(strata_of(compiler, view))
    named = re.compile(rf"\b{re.escape(name)}\b")
    if any(named.search(program.maps[m].note) for m in maps - kept):
        return None  # another view has the same rows, and its maps are named by the one that goes
    made = compiler.fork()
    p = made.program
    made.program = Program(
        {n: m for n, m in p.maps.items() if n in maps},
        {n: s for n, s in p.strata.items() if n in strata},
        views,
    )
    for gone in p.strata.keys() - strata:
        made.relations.levels.pop(gone, None)
        made.relations.rows.pop(gone, None)
    made.maps = compiler.maps.only(made.program, made.relations, maps)
    return made
