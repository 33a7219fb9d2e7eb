"""Maps of the same columns: what is added to them is hashed, sorted and added up together.

An increment that many views read has a few rows for each of many maps, and of a few rows the calls cost more than the work. Most
of these maps differ in their names alone, so that one call does for all of them what it would for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from headwater.engine.here.statements import hashed
from headwater.engine.working import Working
from headwater.state.entries import total, totals
from headwater.state.run import prepared

FEW = 4096
"""Rows of a map that are put together with those of others; with more the work counts."""


def summed(working: Working, changes: Mapping[str, pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """The emitted rows of maps, of each with hashes, sorted and added up, as `Arrangement.merge_summed` takes them."""
    alike: dict[str, list[str]] = {}
    for name, table in changes.items():
        shape = working.spec(name).shape
        others = alike.get(shape)
        if table.num_rows > FEW or (others and changes[others[0]].schema != table.schema):
            alike[name] = [name]
        else:
            alike.setdefault(shape, []).append(name)
    for names in alike.values():
        spec, tables = working.spec(names[0]), [changes[n] for n in names]
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
        table = prepared(spec, table.add_column(0, "_h", hashed(table, spec.lookup)))
        if len(names) == 1:
            yield names[0], total(spec, table)
        else:
            yield from zip(names, totals(spec, table, [t.num_rows for t in tables]), strict=True)
