"""Databases tell what the reference tells of the ready rows: after every increment, for random stories, pipelines and cuts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import headwater as hw
import headwater.st as st
from headwater.calculus.types import BIGINT, TIMESTAMP
from headwater.folds.sql import Sql
from headwater.streams.pipeline import on
from headwater.streams.schema import Event, Header, headers_of, parse
from stream_stories import Story, at, minute, ready_by_definition

SOURCES = {
    "a": Header.of("a", k=BIGINT, ts=TIMESTAMP, x=BIGINT),
    "b": Header.of("b", k=BIGINT, ts=TIMESTAMP, x=BIGINT),
    "m": Header.of("m", ts=TIMESTAMP, x=BIGINT),
}
DDL = {"a": "k BIGINT, ts TIMESTAMP, x BIGINT", "m": "ts TIMESTAMP, x BIGINT"}
DDL["b"] = DDL["a"]


def grown(state: Any, row: Any, emit: Any) -> Any:
    """Adds up, and tells every third row."""
    n = (state.n or 0) + 1
    if n % 3 == 0:
        emit("third", row.k, row.ts, row.x)
    return n, (state.total or 0) * 2 + row.x


FOLD = st.fold(
    grown,
    state="n BIGINT, total BIGINT",
    result="total",
    gives={"third": "k BIGINT, ts TIMESTAMP, x BIGINT"},
)
BY_HOUR = {"hour": "1 hour"}
STORIES: dict[str, tuple[str, Any, dict[str, str]]] = {
    "filter": ("hour[k{seq a} | bag b]", st.filter("x > 2", "a"), BY_HOUR),
    "fold by key": (
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
        BY_HOUR,
    ),
    "marks of a source": (
        "m[k{seq a}]",
        st.hierarchical(
            st.partitioned(FOLD, agg="SELECT k, total FROM results"),
            update="SELECT mark.ts AS ts, k, total FROM mark, result",
            gives="sums",
        ),
        {},
    ),
    "highest": ("hour[bag a]", st.highest("x"), BY_HOUR),
    "aggregate": (
        "hour[bag a, b]",
        st.lift(
            "bag a, b",
            st.relational(
                "SELECT a.k AS k, count(*) AS n FROM a, b WHERE a.k = b.k GROUP BY a.k",
                gives="pairs",
            ),
        ),
        BY_HOUR,
    ),
    "by key alone": ("k{seq a}", st.partitioned(FOLD), {}),
    "pattern": (
        "k{seq a}",
        st.lift("seq a", st.mark(st.when("x > 3") + st.when("x < 3"), "fell")),
        {},
    ),
    "every and highest": (
        "seq a",
        st.every("1 hour", "tick") >> st.window("tick") >> st.highest("x"),
        {},
    ),
    "marks and marks": ("m[hour[bag a]]", st.filter("x <> 1", "a"), BY_HOUR),
}
CLOCKS = {"every and highest": ("seq a, tick", st.window("tick") >> st.highest("x"))}
"""What pipelines mean whose first step is a clock."""


def meant(query: Any, story: Story, clocks: Any, over: bool) -> Any:
    """The stream that is to be told."""
    schema, events = query.input, story.events()
    events = [e for e in events if e.header in headers_of(schema)]
    used = {h: story.closed[h] for h in headers_of(schema) if h not in clocks}
    times = [minute(e.row.ts) for e in events]
    for clock in clocks:
        upto = min(c.upto for c in used.values())
        upto = max([upto, *times]) if not over else (max(times) // 60 + 1) * 60 if times else 0
        events += [
            Event(clock, query.headers[clock].row(at(60 * h)))
            for h in range(min(times) // 60 + 1 if times else 1, upto // 60 + 1)
            if times
        ]
    ready = ready_by_definition(schema, query.headers, list(clocks), events, used)
    return query.run(ready) if over else query.so_far(ready)


def play(path: Path, name: str, seed: int, steps: int = 8) -> None:
    text, pipeline, marks = STORIES[name]
    db = hw.open(path / "db")
    for source, ddl in DDL.items():
        closes = ["ts", ("k", "ts")] if "k" in SOURCES[source].columns else "ts"
        db.source(source, ddl, closes=closes)
    story, pick = Story(Random(seed), SOURCES, db), Random(seed)
    early = pick.random() < 0.7
    defined = dict(order="ts", marks=marks)
    if early:
        db.stream("s", text, pipeline, **defined)
    headers = {h: SOURCES[h] for h in headers_of(parse(text)) if h in SOURCES}
    headers |= {h: Header.of(h, ts=TIMESTAMP) for h in marks}
    sql = Sql(db.session, db.ask, db.files)
    if name in CLOCKS:  # a clock that comes first is one of the schema
        marks, meant_by = {"tick": "1 hour"}, CLOCKS[name]
        headers["tick"] = Header.of("tick", ts=TIMESTAMP)
        query = on(meant_by[1], parse(meant_by[0]), headers, sql, "ts")
    else:
        query = on(pipeline, parse(text), headers, sql, "ts")
    for number in range(steps):
        changes, points = story.step()
        db.apply(changes, punctuate=points)
        if not early and number == 2:
            db.stream("s", text, pipeline, **defined)
            early = True
        if pick.random() < 0.2:
            db.close()
            db = hw.open(path / "db")
            if early:
                db.stream("s", text, pipeline, **defined)
        if early:
            assert db["s"].value() == meant(query, story, marks, False), (name, seed, number)
    db.apply({}, punctuate=story.end())
    assert db["s"].value() == meant(query, story, marks, True), (name, seed)
    db.close()


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_told_is_what_is_meant(tmp_path: Path, name: str, seed: int) -> None:
    play(tmp_path, name, seed)
