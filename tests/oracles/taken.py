"""What a source has that takes a feed's batches, as a plain dict: the oracle of feeds without a database."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from headwater.feeds.feed import Batch, Feed, Limit
from headwater.io.events import CHANGE_TYPE


class Taken:
    """Rows by key, or counted where there is none, and the cursor behind them."""

    def __init__(self, key: tuple[str, ...] = ()):
        self.key = key
        self.rows: dict[Any, Any] = {}
        self.cursor: Any = None
        self.batches = 0
        self.rejected = 0

    def take(self, batch: Batch) -> None:
        """Takes a batch in, as `apply` would."""
        self.batches += 1
        self.cursor = batch.cursor
        self.rejected += 0 if batch.rejected is None else batch.rejected.num_rows
        if batch.whole:
            self.rows = {}
        if isinstance(batch.rows, pa.Table) and CHANGE_TYPE in batch.rows.column_names and self.key:
            for r in batch.rows.to_pylist():
                kind, at = r.pop(CHANGE_TYPE), tuple(r[k] for k in self.key)
                if kind == "upsert":
                    self.rows[at] = tuple(r.values())
                else:
                    self.rows.pop(at, None)
            return
        if isinstance(batch.rows, pa.Table):
            self._weighted(batch.rows)
            return
        for r in _rows(batch.rows.deletes):
            self.rows.pop(tuple(r[k] for k in self.key), None)
        put = set()
        for r in _rows(batch.rows.upserts):
            at = tuple(r[k] for k in self.key)
            assert at not in put, "a batch has a key once"
            put.add(at)
            self.rows[at] = tuple(r.values())

    def _weighted(self, rows: pa.Table) -> None:
        if self.key:
            for r in _rows(rows):
                self.rows[tuple(r[k] for k in self.key)] = tuple(r.values())
            return
        counts = Counter(self.rows)
        for r in _rows(rows):
            counts[tuple(v for n, v in r.items() if n != "_w")] += r.get("_w", 1)
        assert all(n >= 0 for n in counts.values()), "a row goes that was not there"
        self.rows = {r: n for r, n in counts.items() if n}

    def pull(self, feed: Feed, limit: Limit | None = None, batches: int = 10_000) -> int:
        """Takes what there is now; how many batches that were."""
        for n in range(batches):
            found = feed.read(self.cursor, limit or Limit())
            if found is None:
                return n
            self.take(found)
            feed.committed(self.cursor)
        return batches


def _rows(table: pa.Table | None) -> list[dict[str, Any]]:
    return [] if table is None else table.to_pylist()
