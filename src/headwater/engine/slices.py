"""Changes cut into pieces that tasks read by themselves: staged files, and ranges of maps.

A task gets the number of its piece as a row, and reads the piece from the directory; nothing but numbers goes
through the driver and the JVM. Ranges of maps are cut by the number of their entries, and those of a single hash are
divided by their whole keys. Where there are fewer pieces than cores, as of a change with few rows that may match
many entries, several tasks get the same piece and *share* what they find for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.engine import policy
from headwater.engine.change import Change, read_file, write_file
from headwater.engine.here.statements import fields_of
from headwater.engine.working import Working
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import WHOLE, Arrangement, Share
from headwater.state.keys import Ints
from headwater.state.run import LEAST, MOST, column


@dataclass(frozen=True)
class Piece:
    """A staged file, some rows of it, or the entries of a map in a range of hashes.

    `divided` says which of the entries, `share` which of what is found for the rows.
    """

    file: str = ""
    first: int = 0
    count: int = 0
    map: str = ""
    low: int = 0
    high: int = 0
    divided: Share = WHOLE
    share: Share = WHOLE

    def read(self, root: Path, working: Working) -> Iterator[pa.Table]:
        """The rows with their weights."""
        if self.file:
            yield read_file(root / self.file).slice(self.first, self.count)
        else:
            yield from of_range(working, self.map, self.low, self.high, self.divided)


def of_range(
    working: Working, name: str, low: int, high: int, divided: Share = WHOLE
) -> Iterator[pa.Table]:
    """Entries of the map that holds a relation's rows, under the relation's names."""
    m = working.maps[name]
    for table in working.before(name).scan(low, high, share=divided):
        arrays = [column(table, n) for n in m.columns]
        yield pa.table([*arrays, column(table, "r0")], [*fields_of(m), WEIGHT])


def whole(change: Change, root: Path, working: Working) -> pa.Table:
    """A change as one table."""
    if len(change.tables) == 1 and not change.files and not change.ranges:
        return change.tables[0]
    tables = [*change.tables, *(read_file(root / f) for f in change.files)]
    for name, low, high in change.ranges:
        tables.append(_nothing(working, name))  # rows that came and went may have left none
        tables.extend(of_range(working, name, low, high))
    return pa.concat_tables(tables)


def _nothing(working: Working, name: str) -> pa.Table:
    """No rows of the relation whose rows a map holds."""
    m = working.maps[name]
    types = [working.spec(name).schema.field(n).type for n in (*m.columns, "r0")]
    names = [*fields_of(m), WEIGHT]
    return pa.schema(list(zip(names, types, strict=True))).empty_table()


def pieces_of(
    change: Change, root: Path, parts: int, made: list[str], working: Working, finds: bool = False
) -> list[Piece]:
    """A change in about `parts` pieces, or more where it is large; files that had to be written are added to `made`.

    With `finds` its rows look something up: then there is work for all tasks, however few the rows are.
    """
    share = min(policy.PER_PIECE, max(policy.LEAST_ROWS, -(-change.rows // parts)))
    out = [
        Piece(f, start, min(share, n - start))
        for f, n in _files(change, root, made)
        for start in range(0, n, share)
    ]
    for name, low, high in change.ranges:
        for a, b, divided in ranges(working.before(name), share, low, high):
            out.append(Piece(map=name, low=a, high=b, divided=divided))
    times = -(-parts // len(out)) if out and finds else 1
    return [replace(p, share=(i, times)) for p in out for i in range(times)]


def weighed(table: pa.Table, weights: Ints, root: Path, parts: int, made: list[str]) -> list[Piece]:
    """A table in at most `parts` pieces, in which the weights of the rows add up to about the same."""
    if table.num_rows == 0:
        return []
    ((file, rows),) = _files(Change.of(table), root, made)
    upto = np.cumsum(weights)
    ends = np.searchsorted(upto, np.linspace(0, int(upto[-1]), parts + 1)[1:-1], "left")
    cuts = np.unique(np.concatenate(([0], ends + 1, [rows]))).clip(0, rows)
    return [Piece(file, int(a), int(b - a)) for a, b in pairwise(cuts) if b > a]


def _files(change: Change, root: Path, made: list[str]) -> list[tuple[str, int]]:
    """The files of a change and their rows; its tables are written first."""
    files = [(f, read_file(root / f).num_rows) for f in change.files]
    for table in change.tables:
        if table.num_rows:
            name = write_file(root, table)
            made.append(name)
            files.append((name, table.num_rows))
    return files


def ranges(
    at: Arrangement, rows: int, low: int = LEAST, high: int = MOST
) -> list[tuple[int, int, Share]]:
    """A map in ranges of about `rows` entries; a range that cannot be cut is divided by whole keys."""
    out: list[tuple[int, int, Share]] = []
    for a, b in at.pieces(low, high, rows):
        times = max(1, round(at.size(a, b) / rows))
        out.extend((a, b, (i, times)) for i in range(times))
    return out
