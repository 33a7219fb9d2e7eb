"""Random versions of a Delta table: appended, updated, deleted, merged, overwritten, made compact, with a column that comes later."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

SCHEMA = "id int, s string, n decimal(12, 2), at timestamp, part string"
_TYPES = [
    ("id", pa.int32()),
    ("s", pa.string()),
    ("n", pa.decimal128(12, 2)),
    ("at", pa.timestamp("us", tz="UTC")),
    ("part", pa.string()),
]


class Table:
    """A table on disk, changed by its own library."""

    def __init__(self, path: Path, rng: random.Random, feed: bool, parts: bool):
        from deltalake import write_deltalake  # it may be missing

        self.path, self.rng, self.more = str(path), rng, False
        settings = {"delta.enableChangeDataFeed": "true"} if feed else None
        by = ["part"] if parts else None
        write_deltalake(self.path, self.rows(20), configuration=settings, partition_by=by)

    def rows(self, count: int) -> pa.Table:
        r = self.rng
        made: list[Any] = [
            [r.randrange(30) for _ in range(count)],
            [r.choice(["a", "b", None, "ü"]) for _ in range(count)],
            [Decimal(r.randrange(1000)) / 100 for _ in range(count)],
            [datetime.fromtimestamp(r.randrange(10**9)) for _ in range(count)],
            [r.choice(["x", "y z", None]) for _ in range(count)],
        ]
        table = pa.table(
            [pa.array(v, t) for v, (_, t) in zip(made, _TYPES, strict=True)],
            schema=pa.schema(_TYPES),
        )
        if self.more:
            table = table.append_column(
                "more", pa.array([r.randrange(9) for _ in range(count)], pa.int64())
            )
        return table

    def change(self, column: bool = False) -> None:
        """The next version."""
        from deltalake import DeltaTable, write_deltalake  # it may be missing

        r, table = self.rng, DeltaTable(self.path)
        kind = r.random()
        if column and not self.more:
            self.more = True
            write_deltalake(self.path, self.rows(3), mode="append", schema_mode="merge")
        elif kind < 0.35:
            write_deltalake(self.path, self.rows(r.randint(1, 15)), mode="append")
        elif kind < 0.55:
            table.update(
                predicate=f"id % 5 = {r.randrange(5)}",
                updates={"s": f"'u{r.randrange(9)}'", "n": "n + 1"},
            )
        elif kind < 0.7:
            table.delete(f"id % 7 = {r.randrange(7)}")
        elif kind < 0.9:
            ids = r.sample(range(40), 8)
            given = self.rows(8).set_column(0, "id", pa.array(ids, pa.int32()))
            table.merge(
                given, "t.id = s.id", source_alias="s", target_alias="t"
            ).when_matched_delete(
                f"s.id % 3 = {r.randrange(3)}"
            ).when_matched_update_all().when_not_matched_insert_all().execute()
        elif kind < 0.95:
            table.optimize.compact()
        else:
            write_deltalake(self.path, self.rows(12), mode="overwrite")

    def counted(self) -> Counter[Any]:
        """The rows now, without the later column."""
        from deltalake import DeltaTable  # it may be missing

        rows = DeltaTable(self.path).to_pyarrow_table(columns=[n for n, _ in _TYPES])
        return Counter(tuple(r.values()) for r in rows.to_pylist())
