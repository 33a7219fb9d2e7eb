"""Views that random stories found wrong, made small: what each is after every step, by DuckDB.

A case is a query, tables, and changes; the view is there from the beginning, over no rows, and everything is deleted
in the end. It is played like a story of `view_stories`, so that its changes and its maps are compared as well.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from random_sql_words import Text
from view_stories import Apply, How, Run, Story, Table, View

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A view and what happens to the tables that it reads; rows carry their weight last."""

    name: str
    query: str
    changes: Sequence[Mapping[str, Rows]]
    duckdb: str = ""
    tables: Mapping[str, str] = field(default_factory=lambda: {"r": "a BIGINT, b STRING"})


ROWS = [
    {"r": [(1, "x", 1), (2, None, 1)]},
    {"r": [(3, "x", 2), (1, "x", -1)]},
    {"r": [(0, "y", 1)]},
]
PAIRS = {"r": "a BIGINT", "s": "a BIGINT"}


def toggled(steps: int) -> list[dict[str, Rows]]:
    """Rows of r and of s that come and go, so often that runs are rewritten."""
    pick, there = random.Random(1), set()
    changes: list[dict[str, Rows]] = []
    for _ in range(steps):
        rows = [(name, pick.randrange(5)) for name in PAIRS]
        changes.append({n: [(a, -1 if (n, a) in there else 1)] for n, a in rows})
        there.symmetric_difference_update(rows)
    return changes


CASES = (
    Case("constant_in_a_window", "SELECT a, max('x') OVER (ORDER BY a, b) AS m FROM r", ROWS),
    Case(
        "constant_as_the_default_of_lead",
        "SELECT a, lead(b, 1, 'none') OVER (ORDER BY a, b) AS m, 'none' AS n FROM r",
        ROWS,
        "SELECT a, lead(b, 1, 'none') OVER (ORDER BY a, b) AS m, 'none' AS n FROM r",
    ),
    Case(
        "changes_of_first_rows_whose_runs_were_rewritten",
        "SELECT r.a, s.a AS b FROM r CROSS JOIN s ORDER BY 1, 2 LIMIT 1",
        toggled(30),
        tables=PAIRS,
    ),
    Case(
        "first_groups_of_a_subquery_by_a_comparison",
        "SELECT a FROM s WHERE EXISTS (SELECT r.a FROM r WHERE r.a <= s.a GROUP BY r.a ORDER BY 1 LIMIT 2 OFFSET 1)",
        toggled(6),
        tables=PAIRS,
    ),
    Case(
        "different_rows_of_groups_of_a_subquery",
        "SELECT a FROM s WHERE EXISTS (SELECT DISTINCT r.a + 1 AS c FROM r WHERE r.a <= s.a GROUP BY r.a)",
        toggled(6),
        tables=PAIRS,
    ),
    Case(
        "different_values_of_an_outer_join",
        "SELECT s.a, count(DISTINCT r.a) AS n, sum(DISTINCT r.a) AS t FROM r RIGHT JOIN r s ON r.a <= s.a GROUP BY s.a",
        toggled(6),
        tables=PAIRS,
    ),
    Case(
        "a_column_that_orders_twice",
        "SELECT a, b, row_number() OVER (ORDER BY a DESC, a, b) AS n FROM r WHERE b IS NOT NULL",
        ROWS,
    ),
    Case(
        "how_many_are_collected_of_an_outer_join",
        "SELECT s.a, size(collect_list(r.a)) AS n FROM s LEFT JOIN r ON r.a <= s.a GROUP BY s.a",
        toggled(8),
        "SELECT s.a, count(r.a) AS n FROM s LEFT JOIN r ON r.a <= s.a GROUP BY s.a",
        PAIRS,
    ),
    Case(
        "how_many_are_collected_of_a_column_that_is_null",
        "SELECT a, size(collect_list(b)) AS n FROM (SELECT a, CAST(NULL AS STRING) AS b FROM r) GROUP BY a",
        ROWS,
        "SELECT a, 0 AS n FROM r GROUP BY a",
    ),
    Case("a_limit_of_an_order_twice", "SELECT a FROM r ORDER BY a DESC, a LIMIT 2", ROWS),
)


def table(columns: str) -> Table:
    """A table by its DDL."""
    names, types = zip(*(c.split() for c in columns.split(", ")), strict=True)
    return Table([(n, "") for n in names], types)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_view(case: Case, tmp_path: Path) -> None:
    rows: dict[str, dict[tuple[Any, ...], int]] = {n: {} for n in case.tables}
    steps: list[View | Apply] = [View("v", Text(case.query, case.duckdb or case.query), [])]
    for change in case.changes:
        given = {n: [(tuple(r), w) for *r, w in changed] for n, changed in change.items()}
        steps.append(Apply(given))
        for n, changed in given.items():
            for r, w in changed:
                rows[n][r] = rows[n].get(r, 0) + w
    steps.append(Apply({n: [(r, -w) for r, w in held.items() if w] for n, held in rows.items()}))
    story = Story({n: table(columns) for n, columns in case.tables.items()}, steps)
    run = Run(story, How(), tmp_path / "database", None)
    run.play()
    assert not run.refused
