"""The least and the greatest element of groups, kept while rows come and go, are those of the rows that are there.

Few values, so that elements repeat; NULLs, which are no elements; groups that are new, empty, or have as many rows as before.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import headwater as hw
from headwater.engine.here import from_bags

Row = tuple[int, int | None]
QUERY = "SELECT k, min(v) AS low, max(v) AS high, count(v) AS n FROM r GROUP BY k"


def expected(held: Counter[Row]) -> list[tuple[int, int | None, int | None, int]]:
    out = []
    for k in sorted({k for k, _ in held.elements()}):
        values = [v for key, v in held.elements() if key == k and v is not None]
        out.append((k, min(values, default=None), max(values, default=None), len(values)))
    return out


def shown(db: hw.Database) -> list[tuple[int, int | None, int | None, int]]:
    table = db.table("w").drop_columns(["_w"])
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_ends_of_groups_while_rows_come_and_go(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an end goes, groups are read whole, or from their ends: in every second story all of them are too large for the one."""
    monkeypatch.setattr(from_bags, "FEW", (0, 32)[seed % 2])
    pick = random.Random(seed)
    held: Counter[Row] = Counter()

    def drawn() -> Row:
        return pick.randrange(12), pick.choice([None, *range(pick.choice([3, 40]))])

    with hw.open(tmp_path, execution="here") as db:
        db.source("r", "k BIGINT, v BIGINT")
        db.view("w", QUERY)
        for turn in range(14):
            new = [drawn() for _ in range(pick.choice([1, 8, 60]))]
            # In every third turn much goes, so that groups are emptied.
            share = 0.7 if turn % 3 == 2 else 0.2
            gone = [row for row in held.elements() if pick.random() < share]
            db.apply({"r": hw.Delta(inserts=new, deletes=gone)})
            held.update(new)
            held.subtract(gone)
            assert shown(db) == expected(held)
