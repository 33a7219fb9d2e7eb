"""Changes cut into pieces that tasks read by themselves: staged files, and ranges of maps.

A task gets the number of its piece as a row, and reads the piece from the directory; nothing but numbers goes
through the driver and the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.compiler.program import WEIGHT
from headwater.engine.rows import fields_of
from headwater.engine.stage import Change, read_file, write_file
from headwater.engine.working import Working
from headwater.state.run import column


@dataclass(frozen=True)
class Piece:
    """A staged file, some rows of it, or the entries of a map in a range of hashes."""

    file: str = ""
    first: int = 0
    count: int = 0
    map: str = ""
    low: int = 0
    high: int = 0

    def read(self, root: Path, working: Working) -> Iterator[pa.Table]:
        """The rows with their weights."""
        if self.file:
            yield read_file(root / self.file).slice(self.first, self.count)
        else:
            yield from _range(working, self.map, self.low, self.high)


def _range(working: Working, name: str, low: int, high: int) -> Iterator[pa.Table]:
    """Entries of the map that holds a relation's rows, under the relation's names."""
    m = working.maps[name]
    for table in working.before(name).scan(low, high):
        arrays = [column(table, n) for n in m.columns]
        yield pa.table([*arrays, column(table, "r0")], [*fields_of(m), WEIGHT])


def whole(change: Change, root: Path, working: Working) -> pa.Table:
    """A change as one table."""
    if len(change.tables) == 1 and not change.files and not change.ranges:
        return change.tables[0]
    tables = [*change.tables, *(read_file(root / f) for f in change.files)]
    for name, low, high in change.ranges:
        tables.append(_nothing(working, name))  # rows that came and went may have left none
        tables.extend(_range(working, name, low, high))
    return pa.concat_tables(tables)


def _nothing(working: Working, name: str) -> pa.Table:
    """No rows of the relation whose rows a map holds."""
    m = working.maps[name]
    types = [working.spec(name).schema.field(n).type for n in (*m.columns, "r0")]
    names = [*fields_of(m), WEIGHT]
    return pa.schema(list(zip(names, types, strict=True))).empty_table()


def pieces_of(change: Change, root: Path, parts: int, made: list[str]) -> list[Piece]:
    """A change in about so many pieces; files that had to be written are added to `made`."""
    files = [(f, read_file(root / f).num_rows) for f in change.files]
    for table in change.tables:
        if table.num_rows:
            name = write_file(root, table)
            made.append(name)
            files.append((name, table.num_rows))
    share = max(50_000, -(-change.rows // parts))
    out = [Piece(f, start, min(share, n - start)) for f, n in files for start in range(0, n, share)]
    for name, low, high in change.ranges:
        cuts = np.linspace(low, high - 1, parts + 1)
        ends = [int(c) for c in cuts[1:-1]]
        bounds = [low, *ends, high]
        out.extend(Piece(map=name, low=a, high=b) for a, b in pairwise(bounds) if a < b)
    return out
