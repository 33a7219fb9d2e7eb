"""What is read from bags in order: an end of a group, or all of it.

`from_bag` gives one value a group: the least or greatest element without reading the group, or a function of all of
its elements. `ranked` gives rows: the first of each group, or all of them with what window functions say.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.compiler.program import FromBag, Ranked
from headwater.state.arrangement import INDEX, Arrangement
from headwater.state.keys import Ints
from headwater.state.ordered import first_k, last_k
from headwater.state.run import column

ALL = 1 << 40
"""More rows than a group has."""
ENDS = {"min": (first_k, 0), "max": (last_k, 0), "min_by": (first_k, 1), "max_by": (last_k, 1)}
"""Functions that are said by one end of the bag, and which column of the element they give."""


def from_bag(at: Arrangement, b: FromBag, keys: pa.Table) -> pa.Array:
    """The value of a function of each group's bag."""
    if b.function in ENDS:
        nearest, item = ENDS[b.function]
        found = nearest(at, keys, 1)
        index = np.asarray(column(found, INDEX))
        places = np.full(keys.num_rows, -1, np.int64)
        places[index[::-1]] = np.arange(len(index), dtype=np.int64)[::-1]
        return column(found, b.items[item]).take(pa.array(places, mask=places < 0))
    raise NotImplementedError(b.function)


def ranked(
    at: Arrangement, r: Ranked, keys: pa.Table
) -> tuple[Ints, dict[str, pa.Array], pa.Array]:
    """The rows of groups: which group, their columns, and how often each is there."""
    most = ALL if r.limit is None else r.limit + r.offset
    found = first_k(at, keys, most)
    group = np.asarray(column(found, INDEX))
    counts = np.maximum(np.asarray(column(found, at.spec.count)), 0)
    if r.windows:
        raise NotImplementedError
    if r.limit is not None or r.offset:
        # The position of an entry's first row in its group, and what of it lies between offset and limit.
        ends = np.cumsum(counts)
        starts = ends - counts
        first = np.searchsorted(group, group, "left")
        position = starts - starts[first] if len(starts) else starts
        stop = position + counts if r.limit is None else np.minimum(position + counts, most)
        counts = np.maximum(stop - np.maximum(position, r.offset), 0)
    kept = np.flatnonzero(counts)
    found = found.take(pa.array(kept))
    return group[kept], {n: column(found, c) for c, n in r.row}, pa.array(counts[kept])
