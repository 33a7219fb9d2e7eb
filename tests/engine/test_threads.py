"""A large change in threads: the same maps, entry for entry, and the same changes as one thread makes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from corpus_edits import entries
from headwater.engine.here import threads
from headwater.state.hashing import hash_keys

VIEWS = {
    "by_key": "SELECT k, sum(v) AS s, count(*) AS n FROM r GROUP BY k",
    "joined": """SELECT grp, sum(v) AS s, count(*) AS n, max(v) AS m, count(DISTINCT v) AS d
                 FROM r JOIN g ON r.k = g.k GROUP BY grp""",
    "means": "SELECT name, avg(x) AS m, sum(x) AS s FROM r GROUP BY name",
    "all_of_it": "SELECT count(*) AS n, sum(v) AS s, min(x) AS x FROM r WHERE v % 3 = 0",
    "rows": "SELECT k, name FROM r WHERE v > 900",
}


def rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    names = pa.array([None, "a", "b", "cc", "", "ddd"]).take(pa.array(rng.integers(0, 6, n)))
    return pa.table(
        {
            "k": rng.integers(0, 400, n),
            "v": rng.integers(0, 1000, n),
            "x": rng.integers(-50, 50, n) / 8 + 0.1,
            "name": names,
        }
    )


def carried(path: Path) -> dict[str, list[Any]]:
    """What is in all maps, and what the views tell, after a load and a change with deletions."""
    with hw.open(path) as db:
        db.policy.execution = "driver"
        db.source("r", "k BIGINT, v BIGINT, x DOUBLE, name STRING")
        db.source("g", "k BIGINT, grp BIGINT")
        for name, query in VIEWS.items():
            db.view(name, query)
        db.apply({"g": pa.table({"k": np.arange(300), "grp": np.arange(300) % 7})})
        first = rows(3000, 1)
        db.apply({"r": first})
        db.apply({"r": hw.Delta(inserts=rows(2000, 2), deletes=first.slice(500, 1500))})
        out = entries(db)
        for name in VIEWS:
            changes = db.changes_table(name, 0)
            out[f"changes of {name}"] = changes.sort_by(
                [(n, "ascending") for n in changes.column_names]
            ).to_pylist()
        return out


def test_threads_make_what_one_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "cores", lambda: 1)
    alone = carried(tmp_path / "alone")
    monkeypatch.setattr(threads, "cores", lambda: 5)
    monkeypatch.setattr(threads, "LEAST_ROWS", 100)
    monkeypatch.setattr(threads, "AT_ONCE", 150)
    used = []
    each = threads.each
    monkeypatch.setattr(threads, "each", lambda f, xs: used.append(len(xs)) or each(f, xs))  # type: ignore[func-returns-value]
    assert carried(tmp_path / "threads") == alone
    assert max(used) > 5


@pytest.mark.parametrize("count", [1, 2, 7])
def test_ranges_are_the_rows_by_hash(count: int) -> None:
    """Together they are all rows, each range behind the one before; rows of a range stay in their order."""
    table = rows(1000, 3).append_column("at", pa.array(np.arange(1000)))
    table = pa.concat_tables([table.slice(0, 130), table.slice(130)])
    ranges = threads.by_range(table, ["k", "name"], count)
    whole = pa.concat_tables(ranges)
    h, at = (np.asarray(whole.column(n)) for n in ("_h", "at"))
    assert whole.drop_columns(["_h"]).take(pa.array(np.argsort(at))).equals(table.combine_chunks())
    edges = [(np.asarray(t.column("_h")).min(), np.asarray(t.column("_h")).max()) for t in ranges]
    assert all(a[1] < b[0] for a, b in pairwise(edges))
    assert all((np.diff(np.asarray(t.column("at"))) > 0).all() for t in ranges)
    assert np.array_equal(h, hash_keys([whole.column("k"), whole.column("name")], 1000))
    assert len(ranges) == count
    assert [t.num_rows for t in threads.by_range(table.slice(0, 0), ["k"], count)] == [0]


@pytest.mark.parametrize(
    "cuts", [[], [500], [1, 2, 3], [130, 400, 700, 990], [*range(10, 1000, 10)]]
)
@pytest.mark.parametrize("count", [1, 4, 9])
def test_stretches_are_the_rows_each_in_one_piece(cuts: list[int], count: int) -> None:
    table = rows(1000, 4)
    pieces = [table.slice(a, b - a) for a, b in pairwise([0, *cuts, 1000])]
    found = threads.stretches(pa.concat_tables(pieces), count)
    assert pa.concat_tables(found).equals(table)
    assert all(column.num_chunks == 1 for t in found for column in t.columns)
    assert len(found) <= 2 * count
    assert max(t.num_rows for t in found) <= 2 * -(-1000 // count)
    assert threads.stretches(table.slice(0, 0), count) == []
