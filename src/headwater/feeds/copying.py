"""The first copy of a table: however large, one batch and one version, and of bounded size in memory.

A source is what its table was at one moment, so the copy is not cut into several versions. Its rows come part by part, and each part
that is full is put into the database's staging and mapped from there. The file's name goes at once, so that nothing is left of a
process that is killed: the copy is then read again from the beginning, as no version has its cursor.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headwater.engine.change import read_file, write_file
from headwater.io.rows import Parts

PART = 64 << 20
"""Bytes of rows that are held in memory."""


class Copying:
    """Rows as they come, as what `apply` takes: a table where they are few, else parts in files."""

    def __init__(self, home: str):
        self.root = Path(home) if home else None
        self._held: list[pa.Table] = []
        self._size = 0
        self._parts: list[tuple[pa.Table, bool]] = []

    def add(self, rows: pa.Table) -> None:
        """Some rows more; all have the same columns."""
        self._held.append(rows)
        self._size += rows.nbytes
        if self._size >= PART and self.root is not None:
            self._put_down(self.root)

    def _put_down(self, root: Path) -> None:
        name = write_file(root, pa.concat_tables(self._held).combine_chunks())
        self._parts.append((read_file(root / name), True))
        (root / name).unlink()
        self._held, self._size = [], 0

    def rows(self) -> pa.Table | Parts:
        """All of them."""
        if self._held and self._parts and self.root is not None:
            self._put_down(self.root)
        return Parts(tuple(self._parts)) if self._parts else pa.concat_tables(self._held)
