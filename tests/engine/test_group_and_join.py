"""The groupBy and join-groupBy experiments: pairs of random integers, nine increments, with deletions; exact after each.

The data sizes are those of the published experiments (a million pairs, and a hundred thousand a side, increments of ten
thousand) in the slow run, and a tenth of them otherwise. DuckDB recomputes.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.verify.compare import differences

VALUES = 10_000
GROUP = "SELECT x, avg(y) AS mean FROM s GROUP BY x"
JOIN = "SELECT s.x, avg(t.z) AS mean FROM s JOIN t ON s.y = t.y GROUP BY s.x"
SOURCES = {"s": "x BIGINT, y BIGINT", "t": "y BIGINT, z BIGINT"}


def pairs(name: str, n: int, rng: np.random.Generator) -> pa.Table:
    names = ["x", "y"] if name == "s" else ["y", "z"]
    return pa.table({c: rng.integers(0, VALUES + 1, n) for c in names})


@pytest.mark.parametrize(
    ("query", "rows", "increment"),
    [
        pytest.param(GROUP, 100_000, 1_000, id="group"),
        pytest.param(JOIN, 10_000, 1_000, id="join"),
        pytest.param(GROUP, 1_000_000, 10_000, id="group-full", marks=pytest.mark.slow),
        pytest.param(JOIN, 100_000, 10_000, id="join-full", marks=pytest.mark.slow),
    ],
)
def test_experiment(tmp_path: Path, query: str, rows: int, increment: int) -> None:
    rng = np.random.default_rng(13)
    names = ["s"] if query == GROUP else ["s", "t"]
    duck = duckdb.connect()
    tables = {n: pairs(n, rows, rng) for n in names}
    with hw.open(tmp_path / "db") as db:
        for n in names:
            db.source(n, SOURCES[n])
        db.view("answer", query)
        db.apply(tables)
        for _ in range(9):
            change = {}
            for n in names:
                new = pairs(n, increment, rng)
                gone = rng.permutation(tables[n].num_rows)
                kept, lost = gone[increment // 2 :], gone[: increment // 2]
                change[n] = hw.Delta(inserts=new, deletes=tables[n].take(pa.array(lost)))
                tables[n] = pa.concat_tables([tables[n].take(pa.array(kept)), new])
            commit = db.apply(change)
            assert commit.jobs == 0
            for n in names:
                duck.register(n, tables[n])
            found = db.table("answer")
            assert set(found.column("_w").to_pylist()) == {1}
            expected = duck.sql(query).to_arrow_table()
            assert differences(found.drop_columns(["_w"]), expected, rounded=True) == ""
