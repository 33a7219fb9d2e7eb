"""The retail corpus: every query is a view that is maintained through the story, and is right after each change.

A case a query. Those of `make test` are every thirty-second query, in a few databases; `make test-all` plays the others, a
database a family. A query that is refused without the corpus saying so fails, as does one that is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from retail.corpus import Query, read
from retail.play import Spark, Verdict, play
from retail.tables import SCHEMA, STATES, STORY
from spark_session import session

QUERIES = read()
EVERY, TOGETHER = 32, 34
"""Every so many queries are played in `make test`, so many at once."""
SHORT = QUERIES[::EVERY]
GROUPS = {
    **{f"short {i}": SHORT[i : i + TOGETHER] for i in range(0, len(SHORT), TOGETHER)},
    **{
        f: [q for q in QUERIES if q.family == f and q not in SHORT]
        for f in dict.fromkeys(q.family for q in QUERIES)
    },
}
GROUP_OF = {q.id: name for name, queries in GROUPS.items() for q in queries}
EMPTY = {"limits:limit_zero", "subqueries:not_in"}
"""Queries that have no rows, whatever there is."""

WANTED = {
    *(
        "left join",
        "right join",
        "full join",
        "semi join",
        "anti join",
        "cross join",
        "using",
        "natural join",
    ),
    *(
        "exists",
        "not exists",
        "in",
        "not in",
        "scalar subquery",
        "correlated scalar subquery",
        "non-equi correlation",
    ),
    *(
        "cte",
        "lateral join",
        "lateral view",
        "union",
        "union all",
        "intersect",
        "intersect all",
        "except",
        "except all",
    ),
    *(
        "grouping sets",
        "cube",
        "rollup",
        "grouping",
        "grouping_id",
        "order by",
        "limit",
        "offset",
        "qualify",
    ),
    *(
        "count distinct",
        "filter",
        "stddev",
        "stddev_pop",
        "variance",
        "var_pop",
        "percentile",
        "median",
    ),
    *(
        "collect_list",
        "collect_set",
        "max_by",
        "min_by",
        "bool_and",
        "bool_or",
        "regr_slope",
        "corr",
        "covar_pop",
    ),
    *(
        "row_number",
        "rank",
        "dense_rank",
        "percent_rank",
        "cume_dist",
        "ntile",
        "lag",
        "lead",
        "first_value",
    ),
    *(
        "last_value",
        "nth_value",
        "running sum",
        "rows frame",
        "range frame",
        "interval frame",
        "pivot",
        "unpivot",
    ),
    *(
        "transform",
        "filter function",
        "exists function",
        "aggregate function",
        "null keys",
        "odd doubles",
    ),
    *(
        "star join",
        "percent of total",
        "cohorts",
        "funnel",
        "gaps and islands",
        "moving average",
        "top n per group",
    ),
    *(
        "last value per key",
        "exclusion list",
        "pareto",
        "retention",
        "sessionization",
        "histogram",
        "deduplication",
    ),
    *("market basket", "inventory balance", "abc analysis", "churn", "rfm"),
}


def test_the_corpus_has_every_clause() -> None:
    assert len(QUERIES) >= 300
    assert {c for q in QUERIES for c in q.clauses} >= WANTED


def test_the_story_ends_with_nothing() -> None:
    assert all(STATES[0][t] for t in SCHEMA)
    assert not any(STATES[-1].values())
    for before, change, after in zip(STATES, STORY[1:], STATES[1:], strict=False):
        assert len(change) > 3
        assert before != after
    repeated = [t for t, rows in STATES[0].items() if max(Counter(rows).values()) > 1]
    assert len(repeated) >= 3


@pytest.fixture(scope="module")
def spark() -> Spark:
    return Spark(session())


@pytest.fixture(scope="module")
def verdict(spark: Spark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The verdict on a query; its group is played when the first of it is asked for."""
    played: dict[str, dict[str, Verdict]] = {}

    def verdict_on(query: Query) -> Verdict:
        group = GROUP_OF[query.id]
        if group not in played:
            path = Path(tmp_path_factory.mktemp("retail")) / "db"
            played[group] = play(GROUPS[group], path, spark)
        return played[group][query.id]

    yield verdict_on


def _param(query: Query) -> Any:
    marks = () if query in SHORT else (pytest.mark.slow,)
    return pytest.param(query, id=query.id, marks=marks)


@pytest.mark.spark
@pytest.mark.parametrize("query", [_param(q) for g in GROUPS.values() for q in g])
def test_the_view_is_right(query: Query, verdict: Callable[[Query], Verdict]) -> None:
    found = verdict(query)
    wanted = f"refused for {query.refused}" if query.refused else "right"
    said = f"{query.id} is to be {wanted} and is {found.outcome} {found.reason}\n{found.message}"
    assert found.fits(query), f"{said}\n{query.text}"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("family", sorted({q.family for q in QUERIES} - {"refused"}))
def test_spark_answers(family: str, spark: Spark) -> None:
    """Every query is Spark's SQL, fails after no change, and has rows after some."""
    for q in QUERIES:
        if q.family == family and not q.refused:
            rows = [len(spark.answer(q, at).rows) for at in range(len(STORY))]
            assert any(rows) or q.id in EMPTY, f"{q.id} has no rows\n{q.text}"
