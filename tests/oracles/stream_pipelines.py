"""Pipelines for stories of streams: every word of `headwater.st`, over sources a and b with keys k and l, and marks m."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import headwater.st as st
from headwater.calculus.types import BIGINT, Base
from headwater.streams.schema import Header


def sources(order: Base) -> dict[str, Header]:
    """The sources of stories, ordered by a column of a type."""
    return {
        "a": Header.of("a", k=BIGINT, l=BIGINT, ts=order, x=BIGINT),
        "b": Header.of("b", k=BIGINT, ts=order, x=BIGINT),
        "m": Header.of("m", ts=order, x=BIGINT),
    }


def grown(state: Any, row: Any, emit: Any) -> Any:
    """Adds up, and tells every third row."""
    n = (state.n or 0) + 1
    if n % 3 == 0:
        emit("third", row.k, row.x)
    return n, (state.total or 0) * 2 + row.x


def surge(state: Any, row: Any, header: str) -> Any:
    """The state of a key depends on the order of its rows."""
    return (state.n or 0) * 2 + row.x, header


def spread(row: Any) -> Any:
    """A row as often as it says."""
    return [(row.k, n) for n in range(row.x % 3)]


def most(rows: Any) -> Any:
    """The greatest of a key."""
    return rows[0].k, max(r.n for r in rows)


FOLD = st.fold(
    grown,
    state="n BIGINT, total BIGINT",
    result="total",
    gives={"third": "k BIGINT, x BIGINT"},
)
HOUR = ("hour",)


@dataclass(frozen=True)
class Pipeline:
    """Steps over a schema, of which some headers are clocks."""

    schema: str
    steps: Any
    clocks: tuple[str, ...] = ()
    times_only: bool = False
    """Whether it can be ordered by times only: it has an interval of its own."""
    means: tuple[str, Any] | None = None
    """The schema and steps that it means, where a step becomes a part of the schema."""
    options: Mapping[str, Any] = field(default_factory=dict)


PIPELINES: dict[str, Pipeline] = {
    "filter": Pipeline("hour[k{seq a} | bag b]", st.filter("x > 2", "a"), HOUR),
    "fold by key": Pipeline(
        "hour[k{seq a} | bag b]",
        st.hierarchical(
            st.parallel(
                st.partitioned(FOLD, agg="SELECT sum(total) AS total FROM results"),
                st.relational("SELECT count(*) AS n, max(x) AS most FROM b"),
                fin="SELECT total, n, most FROM lefts, rights",
            ),
            update="SELECT mark.ts AS hour, total, n, most FROM mark, result",
            gives="sums",
        ),
        HOUR,
        options={"closes": {"sums": "hour"}},
    ),
    "marks of a source": Pipeline(
        "m[k{seq a}]",
        st.hierarchical(
            st.partitioned(FOLD, agg="SELECT k, total FROM results"),
            update="SELECT mark.ts AS ts, k, total FROM mark, result",
            gives="sums",
        ),
    ),
    "highest": Pipeline("hour[bag a]", st.highest("x"), HOUR),
    "a query of bags": Pipeline(
        "hour[bag a, b]",
        st.lift(
            "bag a, b",
            st.relational(
                "SELECT a.k AS k, count(*) AS n FROM a, b WHERE a.k = b.k GROUP BY a.k",
                gives="pairs",
            ),
        ),
        HOUR,
    ),
    "by key alone": Pipeline("k{seq a}", st.partitioned(FOLD)),
    "pattern": Pipeline(
        "k{seq a}", st.lift("seq a", st.mark(st.when("x > 3") + st.when("x < 3"), "fell"))
    ),
    "pattern beside rows": Pipeline(
        "k{seq a}",
        st.lift("seq a", st.mark(st.when("x > 3") + (~st.when("x > 3")).many(), "fell", keep=True)),
    ),
    "every and highest": Pipeline(
        "seq a",
        st.every("1 hour", "tick") >> st.window("tick") >> st.highest("x"),
        times_only=True,
        means=("seq a, tick", st.window("tick") >> st.highest("x")),
    ),
    "marks and marks": Pipeline("m[hour[bag a]]", st.filter("x <> 1", "a"), HOUR),
    "a clock beside rows": Pipeline("hour[bag a] | seq b", st.filter("x <> 1", "a"), HOUR),
    "frames side by side": Pipeline("hour[bag a | bag b]", st.filter("x > 0", "a"), HOUR),
    "map": Pipeline(
        "k{seq a}", st.map(a="k, x * 2 AS twice, ts") >> st.filter("twice > 4"), options={}
    ),
    "map in Python": Pipeline("m[bag a]", st.map({"a": "c"}, a=(spread, "k BIGINT, n BIGINT"))),
    "keys in keys": Pipeline("k{l{seq a}}", st.filter("x < 4")),
    "keys in keys in frames": Pipeline(
        "hour[k{l{seq a}}]",
        st.hierarchical(
            st.partitioned(
                st.partitioned(
                    st.fold(lambda s, r, emit: ((s.n or 0) + r.x,), state="n BIGINT", result="n"),
                    agg="SELECT max(n) AS n FROM results",
                ),
                agg="SELECT sum(n) AS n FROM results",
            ),
            update="SELECT mark.ts AS ts, n FROM mark, result",
            gives="sums",
        ),
        HOUR,
    ),
    "key and sequence side by side": Pipeline("k{seq a | seq b} | seq m", st.filter("x > 1")),
    "aggregate": Pipeline(
        "m[bag a]", st.aggregate("SELECT coalesce(sum(x), 0)::BIGINT AS total FROM a", keep="all")
    ),
    "local maxima": Pipeline(
        "hour[bag a]",
        st.aggregate("SELECT coalesce(sum(x), 0)::BIGINT AS total FROM a")
        >> st.local_maxima("total"),
        HOUR,
    ),
    "peaks": Pipeline("hour[k{seq a}]", st.peaks("x"), HOUR),
    "carry": Pipeline(
        "hour[k{seq b}]",
        st.carry("k", surge, state="n BIGINT, header STRING", gives="status"),
        HOUR,
    ),
    "join": Pipeline(
        "hour[bag b]", st.join(st.when(header="hour").times(3), "k", gives="earlier"), HOUR
    ),
    "union": Pipeline(
        "m[bag b]", st.union(st.when("x > 2") + st.when("x <= 2"), keep="all", gives="both")
    ),
    "map_reduce": Pipeline(
        "hour[bag a]",
        st.lift(
            "bag a",
            st.map_reduce((spread, "k BIGINT, n BIGINT"), "k", most, "mosts", "k BIGINT, n BIGINT"),
        ),
        HOUR,
    ),
    "window": Pipeline("seq m, b", st.window("m") >> st.lift("seq b", st.filter("x > 1"))),
    "frames": Pipeline(
        "m[bag a]", st.frames("SELECT k, x FROM a WHERE x > 1", gives="big", where="x > 2")
    ),
    "a sequence of two": Pipeline("seq a, b", st.filter("x <> 3")),
}
