"""Sums over the different values of a bag, which it passes on to its group: count(DISTINCT x) and the like."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.types import DyadicType, RealType
from headwater.engine.rings import encode, exactly, ring_columns
from headwater.plan.program import Distinct, Map
from headwater.state.adding import zeros
from headwater.state.arrangement import Touched
from headwater.state.run import column


def passed_on(d: Distinct, group: Map, moved: Touched) -> pa.Table:
    """The change of a group's sum over different values, from values that came or went."""
    old, new = (np.asarray(column(t, "r0")) > 0 for t in (moved.old, moved.new))
    way = pa.array(new.astype(np.int64) - old.astype(np.int64))
    item = d.map.key[len(group.key)][0]
    arrays = {n: column(moved.keys, n) for n in group.columns}
    for name, t in group.ring:
        none = {n: zeros(a, len(way)) for n, a in ring_columns(name, t)}
        if name == d.column and d.counts:
            none[name] = way
        elif name == d.column:
            values = column(moved.keys, item)
            if isinstance(t, DyadicType):
                none = exactly(name, [values] * d.power, way)
            elif isinstance(t, RealType):
                none = {
                    n: pc.multiply(c, way.cast(c.type)) for n, c in encode(name, values).items()
                }
            else:
                a = dict(ring_columns(name, t))[name]
                negative = pc.if_else(pc.less(way, 0), pc.negate(values.cast(a)), values.cast(a))
                none[name] = pc.if_else(pc.equal(way, 0), pa.scalar(0, a), negative)
        arrays |= none
    table = pa.table(arrays)
    return table.filter(pc.not_equal(way, 0))
