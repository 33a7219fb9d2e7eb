"""What a batch of changes comes to: by key the row that is there in the end, or that none is; without a key, weights.

A batch is a sequence of inserts, updates and deletes as a server tells them. Of a source with a key only the last one of
each key matters, so it becomes rows to put and keys to take away; a key that came and went within the batch is neither. Of a
source without a key every change is told with its whole row, and rows with weights are the same whatever their order was.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

import pyarrow as pa

from headwater.calculus.types import RecordType
from headwater.interop.arrow_types import arrow_type
from headwater.io.events import CHANGE_TYPE, Delta

Row = TypeVar("Row")


class Net(Generic[Row]):
    """Changes added up; `whole` says that everything that was there before them is gone."""

    def __init__(self, keyed: bool):
        self.keyed = keyed
        self.whole = False
        self.events = 0
        self._rows: dict[Hashable, Row | None] = {}
        self._fresh: set[Hashable] = set()  # keys that were not there before the batch
        self._weighted: list[tuple[Row, int]] = []

    def insert(self, key: Hashable, row: Row) -> None:
        """A row that was not there."""
        self.events += 1
        if self.keyed:
            if key not in self._rows:
                self._fresh.add(key)
            self._rows[key] = row
        else:
            self._weighted.append((row, 1))

    def put(self, key: Hashable, row: Row) -> None:
        """A row of a key that may have been there."""
        self.events += 1
        self._rows[key] = row

    def delete(self, key: Hashable, row: Row | None = None) -> None:
        """A row that goes; without a key it has to be known whole."""
        self.events += 1
        if not self.keyed:
            assert row is not None
            self._weighted.append((row, -1))
        elif key in self._fresh:
            del self._rows[key]
            self._fresh.discard(key)
        else:
            self._rows[key] = None

    def truncate(self) -> None:
        """Everything goes, what was told before included."""
        self.events += 1
        self.whole = True
        self._rows.clear()
        self._fresh.clear()
        self._weighted.clear()

    def puts(self) -> list[Row]:
        """The rows that are there in the end, one of each key."""
        return [r for r in self._rows.values() if r is not None]

    def gone(self) -> list[Any]:
        """The keys that are not there in the end and may have been before."""
        return [] if self.whole else [k for k, r in self._rows.items() if r is None]

    def weighted(self) -> list[tuple[Row, int]]:
        """Rows with their weights, of a source without a key."""
        return self._weighted


def by_key(row: RecordType, key: tuple[str, ...], puts: pa.Table, gone: pa.Table) -> Any:
    """Rows to put and keys to take away, as `apply` takes them."""
    if not gone.num_rows:
        return Delta(upserts=puts)
    if len(key) < len(row.fields):
        return Delta(upserts=puts, deletes=gone)
    kinds = ["upsert"] * puts.num_rows + ["delete_key"] * gone.num_rows
    schema = pa.schema([(n, arrow_type(t)) for n, t in row.fields])
    rows = pa.concat_tables([puts.cast(schema), gone.select(schema.names).cast(schema)])
    return rows.append_column(CHANGE_TYPE, pa.array(kinds))
