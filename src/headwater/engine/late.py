"""Late rows: rows of a change that match what was closed before it.

A row is late if it matches what was closed at the version before, whatever the order inside of an increment. Nobody counts
late rows in: they are refused with all of their change, set aside, or dropped, and always counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.calculus.patterns import Punctuation, Punctuations, matches
from headwater.calculus.types import BIGINT, INT, STRING, RecordType
from headwater.engine.here.statements import changes_of
from headwater.engine.membership import matching
from headwater.engine.rings import spec_of
from headwater.engine.working import Working
from headwater.plan.program import WEIGHT, Map
from headwater.state.arrangement import Arrangement
from headwater.state.run import column

ASIDE = "aside:"
"""How the names of the maps of late rows begin."""
CLOSED = "_closed"
VERSION = "_version"


@dataclass(frozen=True)
class Divided:
    """A change as what is in time and what is late."""

    in_time: pa.Table
    late: pa.Table

    @property
    def count(self) -> int:
        """How many late rows there are; deletions count as well."""
        return int(np.abs(np.asarray(column(self.late, WEIGHT))).sum())


def divided(table: pa.Table, closed: Punctuations) -> Divided:
    """The rows of a change that match what is closed, and the others."""
    mask = matching(closed, table)
    if not mask.any():
        return Divided(table, table.slice(0, 0))
    return Divided(table.filter(pa.array(~mask)), table.filter(pa.array(mask)))


def broken(closed: Punctuations, row: dict[str, Any]) -> Punctuation:
    """The punctuation that a late row breaks."""
    return next(p for p in closed if all(matches(q, row[n]) for n, q in p.columns))


def values_of(table: pa.Table, row: RecordType, place: int) -> dict[str, Any]:
    """A row as values of the calculus: instants are times of UTC without a zone."""
    found = table.slice(place, 1).select([n for n, _ in row.fields]).to_pylist()[0]
    return {
        n: v.replace(tzinfo=None) if getattr(v, "tzinfo", None) else v for n, v in found.items()
    }


def aside_map(source: str, row: RecordType) -> Map:
    """The map of late rows of a source: the version that brought them, what they break, and the row."""
    cells = tuple((f"k{i}", t) for i, (_, t) in enumerate(row.fields))
    return Map(
        f"{ASIDE}{source}",
        f"the late rows of {source}",
        ((VERSION, BIGINT), (CLOSED, STRING), *cells),
        (("r0", INT),),
        (VERSION,),
        (VERSION,),
        note=f"the late rows of {source}",
    )


def set_aside(
    working: Working,
    source: str,
    row: RecordType,
    late: pa.Table,
    closed: Punctuations,
    version: int,
) -> None:
    """Adds late rows to those that were set aside, among what the increment writes."""
    made = aside_map(source, row)
    working.know(spec_of(made))
    said = [str(broken(closed, values_of(late, row, i))) for i in range(late.num_rows)]
    arrays = {
        VERSION: pa.repeat(pa.scalar(version, pa.int64()), late.num_rows),
        CLOSED: pa.array(said, pa.string()),
        **{f"k{i}": column(late, n) for i, (n, _) in enumerate(row.fields)},
        "r0": column(late, WEIGHT),
    }
    entries = changes_of(made, pa.table(arrays))
    merged, _ = Arrangement(working.spec(made.name), (), working.runs).merge(entries, blind=True)
    working.add(made.name, merged)
