"""Compaction: fewer runs, so that a look-up reads a logarithmic number of them.

Runs of one merge share a generation. The newest generations are rewritten into one when there are enough of
them that an older one is not much larger than all that came after it: sizes then grow geometrically with
age, and each row is rewritten a logarithmic number of times. A map whose runs are full of entries that only
cancel others is rewritten whole, so that a group whose first entries were deleted stays cheap to read from
the front. Compaction reads committed runs and writes a new file: readers never notice, and nothing happens
until the result rides in a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa

from headwater.state.arrangement import Arrangement, any_ring
from headwater.state.run import LEAST, MOST, RunRef, Writer, column

FAN = 4
"""How many generations of like size there are before they become one."""
GROWTH = 2
"""How much larger than all newer ones together a generation must be to be left alone."""
SPENT = 0.25
"""The share of cancelling entries at which a map is rewritten whole."""

Predicate = Callable[[pa.Table], np.ndarray[tuple[int], np.dtype[np.bool_]]]


def generations(refs: list[RunRef]) -> list[list[RunRef]]:
    """Runs by generation, newest first."""
    ordered = sorted(refs, key=lambda r: (-r.version, -r.round))
    return [list(g) for _, g in groupby(ordered, key=lambda r: r.generation)]


def due(arrangement: Arrangement, busy: frozenset[RunRef] = frozenset()) -> list[RunRef]:
    """The runs that should become one now; none most of the time.

    While some are being rewritten only newer ones are looked at, so that small runs do not pile up.
    """
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
    return [r for g in gens[:count] for r in g] if count >= FAN else []


def compact(
    arrangement: Arrangement,
    refs: list[RunRef],
    writer: Writer,
    keep: Predicate | None = None,
    low: int = LEAST,
    high: int = MOST,
) -> None:
    """Adds one run that says what some runs, newest ones first and none left out between, say together.

    Their bytes are checked against their checksums. Entries that say nothing are dropped: zeros of a change
    map always, gone keys of another when no older run is left that could have them.
    """
    spec = arrangement.spec
    for ref in refs:
        arrangement.runs.verify(ref)
    generation = max(r.generation for r in refs)
    oldest = not any(r.generation < min(x.generation for x in refs) for r in arrangement.refs)
    part = Arrangement(spec, refs, arrangement.runs)

    def entries() -> Iterator[pa.Table]:
        for a, b in part.pieces(low, high):
            table = part.collected(refs, a, b)
            kept = np.ones(table.num_rows, np.bool_)
            if oldest:
                kept &= np.asarray(column(table, spec.count)) != 0
            elif spec.kind == "change":
                kept &= any_ring(spec, table)
            if keep is not None:
                kept &= keep(table)
            yield table if kept.all() else table.filter(pa.array(kept))

    writer.add(spec, entries(), generation)


def purge(arrangement: Arrangement, gone: Predicate, writer: Writer) -> None:
    """Adds the whole map rewritten without the entries that a predicate of their keys names."""
    refs = list(arrangement.refs)
    if refs:
        compact(arrangement, refs, writer, lambda t: ~gone(t))
