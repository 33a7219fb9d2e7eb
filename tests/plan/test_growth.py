"""Plans of large queries: how many statements and maps they have, and that they are right.

Times are the business of `make bench PART=compile`; what makes them is the size of the plan, which is counted here.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

import headwater as hw
from headwater.errors import NotIncremental
from headwater.plan import compiler as strata
from headwater.plan.program import Program
from headwater.plan.subqueries import cut as subqueries
from query_shapes import SHAPES, Shape, star, union_all

SIZES = {
    "a star of n dimensions, grouped": (4, 8),
    "n left joins": (4, 8),
    "a chain of n tables": (6, 12),
    "a table joined with itself n times": (5, 10),
    "FULL JOIN USING of n uses of one table": (4, 8),
    "n literal rows, crossed, under two full joins": (8, 16),
    "five tables, n OR-ed sets of conditions": (2, 4),
    "n views, each over the one before": (4, 8),
    "n tables, two by LEFT JOIN, one by a range": (6, 12),
    "a CTE of three tables, used n times": (3, 6),
    "n scalar subqueries": (6, 12),
    "UNION ALL of n branches": (12, 24),
}
"""A size of each shape, and one twice as large."""


def defined(path: Path, shape: Shape) -> hw.Database:
    db = hw.open(path / "db")
    for name, ddl in shape.sources.items():
        db.source(name, ddl)
    for i, query in enumerate(shape.views):
        db.view(f"v{i}", query)
    return db


def statements(program: Program) -> int:
    return sum(len(found) for kept in program.kept.values() for found in kept.changes.values())


@pytest.mark.parametrize("shape", SIZES)
def test_plans_grow_with_the_query(tmp_path: Path, shape: str) -> None:
    """Twice the size has at most six times the statements; where they were exponential it had a hundred times as many."""
    small, large = (
        statements(defined(tmp_path / str(n), SHAPES[shape](n)).program) for n in SIZES[shape]
    )
    assert large <= 6 * small


def test_a_plan_that_cannot_win_is_given_up(tmp_path: Path) -> None:
    db = defined(tmp_path, star(12))
    assert db.catalog.views["v0"].kept == "first-order"
    assert "recursive more" in db.catalog.views["v0"].why
    assert len(db.program.maps) < 60


def test_more_products_than_the_limit_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subqueries, "MOST_PRODUCTS", 20)
    with pytest.raises(NotIncremental, match="TOO_LARGE"):
        defined(tmp_path, union_all(21))


def test_a_recursive_plan_that_was_asked_for_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strata, "MOST_ASKED_FOR", 50)
    db = hw.open(tmp_path / "db")
    sources, (query,) = star(5)
    for name, ddl in sources.items():
        db.source(name, ddl)
    with pytest.raises(NotIncremental, match=r"TOO_LARGE.*\n.*strategy"):
        db.view("v", query, strategy="recursive")
    db.view("v", query)


# --- right, too ---------------------------------------------------------------------------------------------------


RIGHT = {
    "n left joins": 4,
    "FULL JOIN USING of n uses of one table": 4,
    "a table joined with itself n times": 5,
    "a CTE of three tables, used n times": 2,
    "n literal rows, crossed, under two full joins": 9,
    "n tables, two by LEFT JOIN, one by a range": 5,
}
"""Sizes at which unions are relations, or changes are taken one by one."""


def cells(ddl: str, draw: random.Random) -> tuple[Any, ...]:
    return tuple(draw.choice((None, 0, 1, 1, 2)) for _ in ddl.split(","))


@pytest.mark.parametrize(
    "strategy",
    [pytest.param("auto", marks=pytest.mark.slow), "recursive", "first-order"],  # it is one of them
)
@pytest.mark.parametrize("name", RIGHT)
def test_large_queries_through_changes(tmp_path: Path, name: str, strategy: str) -> None:
    """Random rows come and go, in several tables at once, and the answer is DuckDB's after each change."""
    draw, shape = random.Random(7), SHAPES[name](RIGHT[name])
    db = hw.open(tmp_path / "db")
    peer = duckdb.connect()
    for name, ddl in shape.sources.items():
        db.source(name, ddl)
        peer.execute(f"CREATE TABLE {name} ({ddl})")
    (query,) = shape.views
    db.view("v", query, strategy=strategy)
    there: dict[str, list[tuple[Any, ...]]] = {name: [] for name in shape.sources}
    for _ in range(6):
        changed = draw.sample(sorted(there), draw.randint(1, min(3, len(there))))
        inserts = {n: [cells(shape.sources[n], draw) for _ in range(3)] for n in changed}
        deletes = {n: draw.sample(there[n], min(2, len(there[n]))) for n in changed}
        for n in changed:
            for row in deletes[n]:
                there[n].remove(row)
            there[n] += inserts[n]
            peer.execute(f"DELETE FROM {n}")
            marks = ", ".join("?" for _ in shape.sources[n].split(","))
            if there[n]:
                peer.executemany(f"INSERT INTO {n} VALUES ({marks})", there[n])
        db.apply({n: hw.Delta(inserts=inserts[n], deletes=deletes[n]) for n in changed})
        found: list[tuple[Any, ...]] = []
        for row in db.table("v").to_pylist():
            times = row.pop("_w")
            found += [tuple(row.values())] * times
        assert sorted(found, key=str) == sorted(peer.execute(query).fetchall(), key=str)
