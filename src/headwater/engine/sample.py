"""Sizes of relations and how many different values they have, told from a sample of their rows.

The rows of a source are in the order of a hash of them, so that those of the first stretch are drawn by chance. Of n rows
of which s were looked at, d different values with f of them seen once stand for √(n / s) · f + (d - f) values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.working import Working
from headwater.plan.program import Map

LEAST = 1_000
"""Rows of a relation from which on they say something of those that will come."""
SAMPLE = 20_000


class Sampled:
    """What is known of the rows of sources, as `compiler.choose` asks for it."""

    def __init__(self, maps: Iterable[Map], working: Working):
        self.maps = {m.reads[0]: m for m in maps if m.fields and len(m.reads) == 1}
        self.working = working
        self._samples: dict[str, pa.Table] = {}
        self._different: dict[tuple[str, tuple[str, ...]], float] = {}

    def rows(self, relation: str) -> int | None:
        """How many rows a source has; None if they are few or not kept."""
        m = self.maps.get(relation)
        rows = 0 if m is None else sum(r.rows for r in self.working.refs.get(m.name, ()))
        return rows if rows >= LEAST else None

    def different(self, relation: str, columns: Sequence[str]) -> float | None:
        """How many different values a source has in some columns; without columns there is one."""
        rows, key = self.rows(relation), (relation, tuple(columns))
        if rows is None or not columns:
            return None if rows is None else 1.0
        if key not in self._different:
            sample = self._sample(relation)
            if not set(columns) <= set(sample.column_names):
                return None
            counts = sample.group_by(list(columns)).aggregate([([], "count_all")])["count_all"]
            once = pc.sum(pc.equal(counts, 1)).as_py() or 0
            grown = sqrt(max(1.0, rows / max(1, sample.num_rows))) * once + (len(counts) - once)
            self._different[key] = max(1.0, min(float(rows), grown))
        return self._different[key]

    def _sample(self, relation: str) -> pa.Table:
        if relation not in self._samples:
            m = self.maps[relation]
            first = next(self.working.before(m.name).scan(rows=SAMPLE), None)
            plain = [(c, n) for c, n in zip(m.columns, m.fields, strict=True)]
            self._samples[relation] = (
                pa.table({n: first.column(c) for c, n in plain})
                if first is not None
                else pa.table({n: pa.array([], pa.int64()) for _, n in plain})
            )
        return self._samples[relation]
