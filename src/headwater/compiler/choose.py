"""What to keep: the work of a change under each strategy, from the structure of the statements.

Before data is there sizes are not known, so a look-up by all columns of a map's key finds one entry, one by some of
them a few, and one by none of them everything. The work of a statement is the rows that it has at each step; a map
that other views keep already costs nothing more. The strategy with less work is taken, and `explain` says both.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.compiler.materialize import Materializer
from headwater.compiler.program import Lookup, Map, Statement

ONE, FEW, ALL = 1, 2, 10_000
"""Entries that a look-up is taken to find by all of the key, by a part of it (most joins follow a key), by none."""
STATEMENT = 12
"""What a statement costs besides its rows, in rows."""


def work(maps: Materializer, kept: Iterable[Map]) -> float:
    """The rows that one changed row of each input makes, look-ups and writes together."""
    return sum(
        _work(maps, s)
        for m in kept
        for relation in m.reads
        if relation not in maps.relations.static
        for s in maps.statements(m, {relation})
    )


def _work(maps: Materializer, s: Statement) -> float:
    rows, total = 1.0, float(STATEMENT)
    for step in s.steps:
        if isinstance(step, Lookup):
            total += rows
            rows *= ONE if step.change else _found(maps, maps.program.maps[step.into])
    return total + rows


def _found(maps: Materializer, m: Map) -> int:
    if not m.lookup:
        return ONE if all(_single(maps, r) for r in m.reads) else ALL
    return ONE if set(m.lookup) == set(m.columns) else FEW


def _single(maps: Materializer, relation: str) -> bool:
    """Whether a relation has one row at most: the answer of an aggregate without groups."""
    stratum = maps.program.strata.get(relation)
    return stratum is not None and not stratum.group.key and stratum.ranked is None
