"""Compaction: fewer runs, so that a look-up reads a logarithmic number of them.

Runs of one merge share a generation. The newest generations are rewritten into one when there are enough of
them that an older one is not much larger than all that came after it: sizes then grow geometrically with
age, and each row is rewritten a logarithmic number of times. A map whose runs are full of entries that only
cancel others is rewritten whole, so that a group whose first entries were deleted stays cheap to read from
the front; so is one that is full of dead entries (`state/purging`). Compaction reads committed runs and writes a new file: readers never notice, and nothing happens
until the result rides in a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby

import numpy as np
import pyarrow as pa

from headwater.state.arrangement import Arrangement
from headwater.state.entries import any_ring, there
from headwater.state.keys import Bools
from headwater.state.purging import FEW, Dead, zones_of
from headwater.state.run import LEAST, MOST, RunRef
from headwater.state.writing import Writer

FAN = 4
"""How many generations of like size there are before they become one."""
SMALL, FAN_OF_SMALL = 4096, 10
"""Entries of generations that are small, and how many of these there are before they become one.

To look one more of them up takes some 20 microseconds, and to rewrite them some milliseconds, whatever they hold: with hundreds
of maps that is most of what a small change costs.
"""
GROWTH = 2
"""How much larger than all newer ones together a generation must be to be left alone."""
SPENT = 0.25
"""The share of cancelling entries, or of dead ones, at which a map is rewritten whole."""
NOTHING_DEAD: Mapping[RunRef, int] = {}

Predicate = Callable[[pa.Table], Bools]


def generations(refs: list[RunRef]) -> list[list[RunRef]]:
    """Runs by generation, newest first."""
    ordered = sorted(refs, key=lambda r: (-r.version, -r.round))
    return [list(g) for _, g in groupby(ordered, key=lambda r: r.generation)]


def due(
    arrangement: Arrangement,
    busy: frozenset[RunRef] = frozenset(),
    dead: Mapping[RunRef, int] = NOTHING_DEAD,
) -> list[RunRef]:
    """The runs that should become one now, or none at all; none most of the time. `dead`: how many entries of them are.

    While some are being rewritten only newer ones are looked at, so that small runs do not pile up. Runs that have nothing
    but dead entries go in any case.
    """
    if not dead:
        return _by_size(arrangement, busy)
    free = [r for r in arrangement.refs if r not in busy]
    whole = {r for r in free if dead.get(r, 0) >= r.rows}
    gone = sum(dead.get(r, 0) for r in free if r not in whole)
    if not busy and gone >= max(FEW, SPENT * sum(r.rows for r in free if r not in whole)):
        return free
    chosen = _by_size(arrangement, busy)
    return [*chosen, *whole.difference(chosen)]


def _by_size(arrangement: Arrangement, busy: frozenset[RunRef]) -> list[RunRef]:
    """The newest runs, if they are as many and as large as should become one."""
    newest = max((r.generation for r in busy), default=(-1, 0))
    gens = generations([r for r in arrangement.refs if r.generation > newest])
    sizes = [sum(r.rows for r in g) for g in gens]
    spent = sum(r.spent for g in gens for r in g)
    if not busy and len(gens) > 1 and spent > SPENT * sum(sizes):
        return [r for g in gens for r in g]
    count, total = 0, 0
    while count < len(gens) and (count == 0 or sizes[count] <= GROWTH * total):
        total += sizes[count]
        count += 1
    enough = FAN if total > SMALL else FAN_OF_SMALL
    return [r for g in gens[:count] for r in g] if count >= enough else []


def compact(
    arrangement: Arrangement,
    refs: list[RunRef],
    writer: Writer,
    dead: Dead | None = None,
    low: int = LEAST,
    high: int = MOST,
) -> None:
    """Adds one run that says what some runs, newest ones first and none left out between, say together.

    Their bytes are checked against their checksums. Entries that say nothing are dropped: zeros of a change
    map always, gone keys of another when no older run is left that could have them. So are dead ones, and, where
    nothing else is left of the map, dominated ones. Runs that are dead by their zones are not read, and may be any.
    """
    spec = arrangement.spec
    left = [r for r in arrangement.refs if dead is None or not _unread(arrangement, r, dead)]
    generation = max(r.generation for r in refs)
    refs = [r for r in refs if r in left]
    if not refs:
        return
    for ref in refs:
        arrangement.runs.verify(ref)
    newest = max(r.generation for r in refs)
    oldest = not any(r.generation < newest for r in left if r not in refs)
    whole = len(refs) == len(left)
    part = Arrangement(spec, refs, arrangement.runs)

    def entries() -> Iterator[pa.Table]:
        for a, b in part.pieces(low, high):
            table = part.together(refs, a, b)
            kept = np.ones(table.num_rows, np.bool_)
            if oldest:
                kept &= there(spec, table)
            elif spec.kind == "change":
                kept &= any_ring(spec, table)
            if dead is not None:
                kept &= ~dead.gone(table.select(spec.keys))
            table = table if kept.all() else table.filter(pa.array(kept))
            shade = dead.dominated(table) if dead is not None and whole and table.num_rows else None
            yield table if shade is None or not shade.any() else table.filter(pa.array(~shade))

    writer.add(spec, entries(), generation)


def _unread(arrangement: Arrangement, ref: RunRef, dead: Dead) -> bool:
    """Whether all of a run is dead by its zones."""
    known = zones_of(arrangement, ref)
    return bool(known) and dead.all(known)


def purge(arrangement: Arrangement, gone: Predicate, writer: Writer) -> None:
    """Adds the whole map rewritten without the entries that a predicate of their keys names."""
    refs = list(arrangement.refs)
    if refs:
        compact(arrangement, refs, writer, _Named(gone))


class _Named(Dead):
    """Entries that a predicate names."""

    def __init__(self, gone: Predicate):
        self._gone = gone

    def gone(self, entries: pa.Table) -> Bools:
        return self._gone(entries)
