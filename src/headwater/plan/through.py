"""Keys that are closed through entries: what they would be reached through is out of use, and nothing takes its place.

A bid reaches the key of its auction through the auction's entry, and a filter says until when (`bid.ts <= expires`). The key
itself says no time. But of a source with a `key` each key is there once: if a row is there and lasts, no other row with its
key comes, so that what is looked up at this key is what is there now. So where each statement of a map M has a row of the
source S in it, by whose key columns M's own key is told,

    K is closed in M    if the entry of A at K is there, lasts, and is dead for every statement that looks A up on the way to K

where A is the map of rows of S that such statements look up; statements that S itself drives would need a row with a key that is
there. Which entries those are is found by reading A (`engine/found.py`), and told as constants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from headwater.plan.closing import Closing, entry
from headwater.plan.program import Bind, Filter, Lookup, Map, Statement

Keys = Mapping[str, Collection[str]]
"""The keys of sources that are enforced among all rows that ever came."""


@dataclass(frozen=True)
class Through:
    """How keys of a map are closed through entries of another one."""

    into: Map
    """The map of the source's rows that statements look up."""
    readers: tuple[tuple[Statement, int], ...]
    """These statements, with the place of the step."""
    columns: tuple[tuple[str, str], ...]
    """The columns of the source's key, as the map that is looked up has them, and as the map of the keys has them."""


def through(closing: Closing, m: Map, keys: Keys) -> Through | None:
    """Through which entries keys of a map are closed; None if there are none such."""
    return next((t for s in m.reads if s in keys for t in _of_source(closing, m, s, keys[s])), None)


def _of_source(closing: Closing, m: Map, source: str, key: Collection[str]) -> Iterator[Through]:
    kept = closing.program.kept.get(m.name)
    every = [s for found in kept.changes.values() for s in found] if kept else []
    others, told = list[Statement](), {k: set(m.columns) for k in key}
    for s in every:
        own = _driven(closing, s, key) if s.drives == source else {}
        if all(own.get(k) for k in key) and own:
            for k in key:
                told[k] &= own[k]
        else:
            others.append(s)
    for into in dict.fromkeys(x.into for s in others for x in s.steps if isinstance(x, Lookup)):
        a = closing.program.maps.get(into)
        held = None if a is None else rows_of(closing, a, source, key)
        if a is None or held is None:
            continue
        places = [_place(closing, s, into, held) for s in others]
        if any(p is None for p in places):
            continue
        found = {k: told[k].intersection(*(p[1][k] for p in places if p)) for k in key}
        if all(found.values()):
            columns = tuple((held[k], min(found[k], key=m.columns.index)) for k in key)
            readers = tuple((s, p[0]) for s, p in zip(others, places, strict=True) if p)
            yield Through(a, readers, columns)


def rows_of(closing: Closing, a: Map, source: str, key: Collection[str]) -> dict[str, str] | None:
    """The columns of a source's key in a map that has an entry, at most, for each of its rows; None if it is no such map."""
    kept = closing.program.kept.get(a.name)
    if kept is None or {*kept.changes} != {source} or len(kept.changes[source]) != 1:
        return None
    (s,) = kept.changes[source]
    if not all(isinstance(x, Bind | Filter) for x in s.steps):
        return None
    found = _driven(closing, s, key)
    if not all(found.values()):
        return None
    return {k: min(c, key=a.columns.index) for k, c in found.items()}


def _driven(closing: Closing, s: Statement, key: Collection[str]) -> dict[str, set[str]]:
    """The columns that a statement emits which are columns of its driver's key."""
    columns = dict(s.columns)
    return {k: _equal(closing, s, columns[k]) if k in columns else set() for k in key}


def _place(
    closing: Closing, s: Statement, into: str, held: Mapping[str, str]
) -> tuple[int, dict[str, set[str]]] | None:
    """Where a statement looks a map up, and which columns that it emits are those of the entry's key."""
    for place, step in enumerate(s.steps):
        if isinstance(step, Lookup) and step.into == into and step.version != "change":
            found = {k: _equal(closing, s, entry(place, c)) for k, c in held.items()}
            if all(found.values()):
                return place, found
    return None


def _equal(closing: Closing, s: Statement, node: str) -> set[str]:
    """The columns that a statement emits which are always equal to one of its columns."""
    graph = closing.graph(s)
    names = zip(s.target.columns, s.key, strict=True)
    return {c for c, n in names if graph.one(n) == graph.one(node)}
