"""Rows of a loop that are told from each other by fractions alone, as centres without a key: which one is another that has moved.

While a row stays within ε of itself from round to round it is the same row, and groups by its fractions stay together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.here.statements import changes_of
from headwater.engine.working import Working
from headwater.errors import EngineError
from headwater.plan.diffuse import given_columns, is_value
from headwater.plan.program import WEIGHT, Diffuse, Map, Stratum
from headwater.state.run import column

MOST_NEAR = 10_000
"""Keys of which those that are near may be one."""


class Near:
    """Fractions that are taken for others: those of a row that is told within ε of one that was told before.

    Who is given a row of the loop, such as a point its centre, goes on under the fractions that it had when it was new, so that
    groups by them stay together while it moves. An alias is given once and stays: what came under it goes under it.
    """

    def __init__(self, of: Diffuse, working: Working):
        assert of.aliases is not None and of.how.near is not None
        self.map, self.working, self.epsilon = of.aliases, working, of.how.near
        self.aliases: dict[float, float] = {}
        for t in working.now(self.map.name).scan():
            pairs = zip(column(t, "k0").to_pylist(), column(t, "k1").to_pylist(), strict=True)
            self.aliases.update(pairs)

    def told(self, told: Map, change: pa.Table) -> None:
        """Gives the fractions of rows that are told the aliases of the nearest row that was told before, if one is near."""
        there = pa.concat_tables(
            [change.slice(0, 0), *(self._rows(told, t) for t in self.working.now(told.name).scan())]
        )
        if there.num_rows + change.num_rows > MOST_NEAR:
            raise EngineError(
                f"a loop in diffuse mode tells more than {MOST_NEAR:,} rows, of which those that are near are one",
                hint="leave near= out, and give rows a key that is no fraction\nthe database is as it was before",
            )
        types = dict(told.key)
        named = list(zip(told.fields, told.columns, strict=True))
        values = [n for n, k in named if is_value(types[k])]
        exact = [n for n, k in named if not is_value(types[k])]
        came = change.filter(pc.greater(change.column(WEIGHT), 0))
        old, new = (np.array([_floats(column(t, n)) for n in values]) for t in (there, came))
        places: dict[str, list[int]] = {}
        for i, key in enumerate(there.select(exact).to_pylist()):
            places.setdefault(str(key), []).append(i)
        found: dict[float, float] = {}
        for i, key in enumerate(came.select(exact).to_pylist()):
            row, others = new[:, i], old[:, places.get(str(key), [])]
            away = np.abs(others - row[:, None]).max(axis=0)
            at = int(np.argmin(away)) if len(away) else 0
            taken = others[:, at] if len(away) and away[at] <= self.epsilon else row
            for v, w in zip(row.tolist(), taken.tolist(), strict=True):
                if v not in self.aliases and v == v:
                    found[v] = self.aliases[v] = self.aliases.get(w, w)
        self._keep(found)

    def _keep(self, found: dict[float, float]) -> None:
        if found:
            ones = pa.array(np.ones(len(found), np.int64))
            table = pa.table({"k0": list(found), "k1": list(found.values()), "r0": ones})
            entries, _ = self.working.now(self.map.name).merge(
                changes_of(self.map, table), blind=True
            )
            self.working.add(self.map.name, entries)

    def _rows(self, told: Map, table: pa.Table) -> pa.Table:
        return table.select([*told.columns, "r0"]).rename_columns([*told.fields, WEIGHT])

    def taken(self, s: Stratum, table: pa.Table) -> pa.Table:
        """The rows of an answer, with the fractions that it is given as what they are taken for."""
        for n in given_columns(s):
            place = table.schema.get_field_index(n)
            table = table.set_column(place, n, self._taken(column(table, n)))
        return table

    def _taken(self, cells: pa.Array) -> pa.Array:
        if pa.types.is_struct(cells.type):
            parts = [self._taken(cells.field(i)) for i in range(cells.type.num_fields)]
            return pa.StructArray.from_arrays(parts, fields=list(cells.type), mask=cells.is_null())
        if not pa.types.is_floating(cells.type):
            return cells
        different, at = np.unique(_floats(cells), return_inverse=True)
        found = np.array([self.aliases.get(float(v), float(v)) for v in different])
        return pa.array(found[at], mask=np.asarray(cells.is_null())).cast(cells.type)


def _floats(values: pa.Array) -> Any:
    return np.asarray(pc.fill_null(pc.cast(values, pa.float64()), np.nan))
