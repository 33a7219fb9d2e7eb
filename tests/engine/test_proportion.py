"""What a change to one row reads of a large group: its ends, or the rows around the change, and not the group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.here import from_bags as ordered
from headwater.errors import NotIncremental

ROWS = 20_000
"""Rows of the one group."""
NEAR = {
    "lag and lead": "SELECT g, x, lag(x) OVER w AS p, lead(x, 2) OVER w AS n FROM t WINDOW w AS (PARTITION BY g ORDER BY x)",
    "a moving average": "SELECT g, x, avg(y) OVER (PARTITION BY g ORDER BY x ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS a FROM t",
    "the first rows of a group": "SELECT g, x FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY x DESC) <= 3",
    "a numbered subquery": "SELECT * FROM (SELECT g, x, row_number() OVER (PARTITION BY g ORDER BY x) AS n FROM t) q WHERE n < 5",
    "the first rows of all": "SELECT g, x FROM t ORDER BY x DESC LIMIT 5 OFFSET 2",
    "the greatest and what stands beside it": "SELECT g, max(x) AS m, max_by(y, x) AS y FROM t GROUP BY g",
}
ON = {
    "row numbers": "SELECT g, x, row_number() OVER (PARTITION BY g ORDER BY x) AS n FROM t",
    "running sums": "SELECT g, x, sum(y) OVER (PARTITION BY g ORDER BY x) AS s, count(*) OVER (PARTITION BY g ORDER BY x) AS n FROM t",
    "running sums of doubles": "SELECT g, x, sum(y / 7D) OVER w AS s, avg(y / 7D) OVER w AS m, stddev(y) OVER w AS d FROM t WINDOW w AS (PARTITION BY g ORDER BY x)",
}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many entries of bags in order are taken, look-up by look-up."""
    found: list[int] = []

    def watched(f: Any) -> Any:
        def inner(*args: Any, **named: Any) -> Any:
            table = f(*args, **named)
            found.append(table.num_rows)
            return table

        return inner

    for name in ("first_k", "last_k", "from_position"):
        monkeypatch.setattr(ordered, name, watched(getattr(ordered, name)))
    yield found


def opened(path: Path, query: str) -> hw.Database:
    db = hw.open(path / "db")
    db.source("t", "g BIGINT, x BIGINT, y BIGINT")
    db.view("v", query)
    numbers = list(range(0, 2 * ROWS, 2))
    ys = [n % 7 for n in numbers]
    db.apply({"t": pa.table({"g": [1] * ROWS, "x": numbers, "y": ys})})
    return db


@pytest.mark.parametrize("query", NEAR.values(), ids=NEAR)
def test_a_change_inside_a_large_group_reads_what_is_near(
    tmp_path: Path, query: str, seen: list[int]
) -> None:
    db = opened(tmp_path, query)
    for change in ([(1, ROWS + 1, 3)], hw.Delta(deletes=[(1, 2 * ROWS - 2, (2 * ROWS - 2) % 7)])):
        seen.clear()
        db.apply({"t": change})
        assert db.changes_table("v", db.version - 1).num_rows < 40
        assert sum(seen) < 200, seen


@pytest.mark.parametrize("query", ON.values(), ids=ON)
def test_what_goes_on_from_a_change_reads_from_there(
    tmp_path: Path, query: str, seen: list[int]
) -> None:
    db = opened(tmp_path, query)
    seen.clear()
    db.apply({"t": [(1, 2 * ROWS - 21, 3)]})  # ten rows are behind it
    changed = db.changes_table("v", db.version - 1)
    assert changed.num_rows == 21, changed.to_pylist()
    assert sum(seen) < 200, seen


def test_the_cost_is_said_beforehand(tmp_path: Path) -> None:
    db = opened(tmp_path, NEAR["lag and lead"])
    assert "cost class change" in db.can(NEAR["a moving average"])
    assert "reads 6 rows around a change" in db.can(NEAR["a moving average"])
    assert "reads the first 3 rows of a group" in db.can(NEAR["the first rows of a group"])
    assert "reads a group from a change on" in db.can(ON["running sums"])
    median = "SELECT g, median(x) AS m, sum(y) OVER (PARTITION BY g) AS s FROM t GROUP BY g, y"
    assert "cost class group" in db.can(median)
    assert "cost class scan" in db.can("SELECT a.x FROM t a JOIN t b ON a.x < b.y")
    with pytest.raises(NotIncremental):
        db.can("SELECT rand() AS r FROM t")
    assert db.views == ["v"]
