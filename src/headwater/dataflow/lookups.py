"""Look-ups of stages: rows of a source, view or flow for many keys at once, from its index or all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.calculus.types import RecordType
from headwater.dataflow import maps
from headwater.dataflow.define import Stage
from headwater.dataflow.maps import keyed
from headwater.dataflow.rows import row_class, rows_of, sort_key
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import INDEX, Arrangement
from headwater.state.run import MapSpec, column


@dataclass(frozen=True)
class LookUps:
    """The look-ups of a stage at a version; `rows` are the columns of what is looked up."""

    stage: Stage
    rows: Mapping[str, RecordType]
    arrangement: Callable[[MapSpec], Arrangement]
    table: Callable[[str], pa.Table] | None = None
    """All rows of something with `_w`, for look-ups without `on`."""

    def __call__(self, name: str, arrays: list[pa.Array], count: int) -> list[list[Any]]:
        """The rows of a look-up for each of some keys, given by column; sorted, as often as they are there."""
        look = self.stage.lookups[name]
        row = self.rows[look.what]
        names = [n for n, _ in row.fields]
        made = row_class(tuple(names))
        if look.on is None:
            assert self.table is not None
            table = self.table(look.what)
            weights = column(table, WEIGHT).to_pylist()
            values = zip(rows_of(table, names), weights, strict=True)
            every = sorted((made(r) for r, n in values for _ in range(n)), key=sort_key)
            return [every] * count
        spec = index_of(row, look.what, [b for _, b in look.on])
        found = self.arrangement(spec).lookup(keyed(spec, arrays, count))
        out: list[list[Any]] = [[] for _ in range(count)]
        absent = [a.is_null().to_pylist() for a in arrays]
        at, counts = column(found, INDEX).to_pylist(), column(found, spec.count).to_pylist()
        for i, r, n in zip(at, rows_of(found, [n for n, _ in spec.key]), counts, strict=True):
            if not any(a[i] for a in absent):  # NULL equals nothing
                out[i].extend([made(r)] * n)
        return [sorted(rows, key=sort_key) for rows in out]


def index_of(row: RecordType, what: str, on: list[str]) -> MapSpec:
    """The index that a look-up reads."""
    return maps.index_spec(what, row, on)
