"""What changed of a view, by its key: rows to put, and rows that go and do not come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.plan.program import WEIGHT


def put_and_gone(changes: pa.Table, key: tuple[str, ...]) -> tuple[pa.Table, pa.Table]:
    """The rows that come, and of those that go the ones whose key does not come."""
    come = changes.filter(pc.greater(changes.column(WEIGHT), 0))
    go = changes.filter(pc.less(changes.column(WEIGHT), 0))
    if not key:
        return come, go.slice(0, 0) if come.num_rows else go
    coming = {tuple(k.values()) for k in come.select(list(key)).to_pylist()}
    stay = [tuple(k.values()) not in coming for k in go.select(list(key)).to_pylist()]
    return come, go.filter(pa.array(stay, pa.bool_()))


def repeated(rows: pa.Table) -> pa.Table:
    """Rows without weights, each as often as its weight says."""
    weights: Any = np.asarray(rows.column(WEIGHT))
    plain = rows.drop_columns([WEIGHT])
    if (weights == 1).all():
        return plain
    return plain.take(pa.array(np.repeat(np.arange(rows.num_rows), np.maximum(weights, 0))))
