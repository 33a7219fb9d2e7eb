"""Answers of one row that change together: their product changes by what it was and what it is, whatever their number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import headwater as hw
from headwater.engine.here import statements as statements
from headwater.plan.compiler import Compiler
from spark_session import session

MANY = 12
WHOLE = "(SELECT sum(b) FROM t WHERE a > {0})"
MAYBE = "(SELECT max(b) FROM t WHERE a = {0})"
QUERIES = {
    "outputs": "SELECT x, {w0} AS c0, {w1} AS c1, {w2} AS c2, {m1} AS c3 FROM r",
    "one of them twice": "SELECT x, {w0} AS c0, {w0} + 1 AS c1, {w1} AS c2 FROM r",
    "filters": "SELECT x FROM r WHERE x > {w0} - {w1} AND y < coalesce({w2}, 5)",
    "tied by an equality": "SELECT x, {w0} AS c0 FROM r WHERE x = {w1} OR y = {w2}",
    "tied and not tied": "SELECT x, {w0} AS c0, {w2} AS c2 FROM r WHERE x = {w1}",
    "grouped again": "SELECT x, sum(y * {w0} - coalesce({w1}, 0)) AS s, count({m2}) AS n FROM r GROUP BY x",
    "a branch each": "SELECT x, {w0} AS c FROM r UNION ALL SELECT y, {w1} FROM r UNION ALL SELECT {m1}, {w0} FROM r",
    "there or not": "SELECT x, {w0} AS c FROM r WHERE EXISTS (SELECT 1 FROM t WHERE a = 1) AND NOT EXISTS (SELECT 1 FROM t WHERE b = 3)",
    "no rows beside": "SELECT {w0} AS c0, {w1} AS c1, {m1} AS c2, {m2} AS c3",
    "by rows of two tables": "SELECT r.x, t.b, {w0} AS c0, {w1} AS c1 FROM r JOIN t ON r.x = t.a",
    "answers of answers": "SELECT q.s, {w0} AS c0 FROM (SELECT x, sum({w1}) AS s, max({w2}) AS m FROM r GROUP BY x) q",
}
NAMED = {
    **{f"w{i}": WHOLE.format(i) for i in range(3)},
    **{f"m{i}": MAYBE.format(i) for i in range(3)},
}


def opened(path: Path, query: str, **given: Any) -> hw.Database:
    db = hw.open(path / "db", **given)
    db.source("t", "a BIGINT, b BIGINT")
    db.source("r", "x BIGINT, y BIGINT")
    db.view("v", query)
    return db


def story(db: hw.Database, query: str, steps: int, seed: int) -> None:
    """Random changes of both tables, and after each what DuckDB says."""
    draw, there = random.Random(seed), {"t": [(1, 1)], "r": [(0, 2)]}
    db.apply({"t": [(1, 1)], "r": [(0, 2)]})
    other = duckdb.connect()
    other.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    other.execute("CREATE TABLE r (x BIGINT, y BIGINT)")
    for _ in range(steps):
        changes = {}
        for name in draw.choice([["t"], ["t"], ["t", "r"], ["r"]]):
            kept = there[name]
            gone = draw.sample(kept, draw.randint(0, len(kept)))
            cell = (None, 0, 1, 2, 3)
            new = [(draw.choice(cell), draw.choice(cell)) for _ in range(draw.randint(0, 3))]
            for row in gone:
                kept.remove(row)
            kept.extend(new)
            changes[name] = hw.Delta(inserts=new, deletes=gone)
        db.apply(changes)
        for name, kept in there.items():
            other.execute(f"DELETE FROM {name}")
            if kept:
                other.executemany(f"INSERT INTO {name} VALUES (?, ?)", kept)
        expected = sorted(map(repr, other.execute(query).fetchall()))
        assert sorted(map(repr, rows(db))) == expected, there


def rows(db: hw.Database) -> list[tuple[Any, ...]]:
    out = []
    for row in db.table("v").to_pylist():
        weight = row.pop("_w")
        out += [tuple(int(c) if isinstance(c, float) else c for c in row.values())] * weight
    return out


@pytest.mark.parametrize("several", ["auto", "at once"])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_they_are_what_their_query_gives(tmp_path: Path, query: str, several: str) -> None:
    query = query.format(**NAMED)
    with opened(tmp_path, query) as db:
        db.policy.execution, db.policy.several = "driver", several
        story(db, query, 16, seed=len(query))


@pytest.mark.spark
def test_on_spark_as_here(tmp_path: Path) -> None:
    query = QUERIES["tied and not tied"].format(**NAMED)
    with opened(tmp_path, query, spark=session()) as db:
        db.policy.execution = "spark"
        story(db, query, 3, seed=1)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many rows every look-up of a statement gives."""
    found: list[int] = []
    look_up = statements.look_up

    def watched(*args: Any, **named: Any) -> Any:
        table = look_up(*args, **named)
        found.append(table.num_rows)
        return table

    monkeypatch.setattr(statements, "look_up", watched)
    yield found


def increments(tmp_path: Path, made: str, seen: list[int]) -> list[int]:
    """The rows of all look-ups for each of a few changes of one row."""
    out = []
    with opened(tmp_path, made) as db:
        db.policy.execution = "driver"
        db.apply({"r": [(1, 1), (2, 2)], "t": [(i, i) for i in range(50)]})
        for i in range(6):
            seen.clear()
            db.apply({"t": [(45, i)]})
            out.append(len(seen) + sum(seen))
    return out


def test_many_scalar_subqueries_look_up_the_rest_once(tmp_path: Path, seen: list[int]) -> None:
    """A product of k changed answers is one change: nothing grows with k, nor with the changes that came before."""
    cells = ", ".join(f"(SELECT avg(b) FROM t WHERE a > {i}) AS c{i}" for i in range(MANY))
    found = increments(tmp_path, f"SELECT x, {cells} FROM r WHERE x = 1", seen)
    assert max(found) <= 10, found


def test_equal_scalar_subqueries_are_one(tmp_path: Path) -> None:
    """The same subquery thirty times, with an outer row or without, is kept and asked for once."""
    alone = ", ".join(f"(SELECT avg(b) FROM t WHERE a > 0) AS c{i}" for i in range(30))
    tied = ", ".join(f"(SELECT max(b) FROM t WHERE t.a = r.x) AS d{i}" for i in range(30))
    with opened(tmp_path, f"SELECT x, {alone}, {tied} FROM r") as db:
        assert len(db.program.strata) == 2
        db.apply({"r": [(1, 1), (2, 2)], "t": [(1, 4), (1, 7), (3, 5)]})
        db.apply({"t": [(2, 8)]})
        found = {r["x"]: r for r in db.table("v").to_pylist()}
        assert [{v for n, v in found[x].items() if n[0] == "c"} for x in (1, 2)] == [{6.0}, {6.0}]
        assert [{v for n, v in found[x].items() if n[0] == "d"} for x in (1, 2)] == [{7}, {8}]


def test_averages_of_subqueries_need_no_count_of_failures(tmp_path: Path) -> None:
    """An average never divides by zero; a division that somebody wrote may."""
    average = "SELECT x, (SELECT avg(b) FROM t WHERE a > 1) AS m FROM r"
    with opened(tmp_path / "a", average) as db:
        assert not db.program.checks
        db.apply({"r": [(1, 1)], "t": [(1, 1)]})
        assert [r["m"] for r in db.table("v").to_pylist()] == [None]
    with opened(tmp_path / "b", average.replace("avg(b)", "sum(b) / count(a)")) as db:
        assert db.program.checks


def test_equal_subqueries_of_earlier_rules_keep_their_maps(tmp_path: Path) -> None:
    query = "SELECT (SELECT avg(b) FROM t) AS c, (SELECT avg(b) FROM t) + 1 AS d FROM r"
    with opened(tmp_path, query) as db:
        term, catalog = db.catalog.whole("v"), db.catalog

    def compiler() -> Compiler:
        return catalog.compiler(catalog.of_sources())

    old, new = compiler(), compiler()
    old.view("q", term, "recursive", rules=1)
    new.view("q", term, "recursive")
    assert old.program.checks and not new.program.checks
    both = compiler()
    both.view("q", term, "recursive", rules=1)
    both.view("p", term, "recursive")
    assert {*old.program.maps, *new.program.maps} <= {*both.program.maps}


def test_tied_subqueries_do_not_multiply(tmp_path: Path, seen: list[int]) -> None:
    """One after another, each look-up finds what is there now and not what came and went."""
    tests = " AND ".join(f"x <> (SELECT max(b) FROM t WHERE a > {i})" for i in range(6))
    query = f"SELECT x FROM r WHERE x = (SELECT count(*) FROM t) AND {tests}"
    found = increments(tmp_path, query, seen)
    assert max(found) <= 60, found


def test_rebuild_compiles_each_view_as_often_whatever_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    view = Compiler.view

    def watched(self: Compiler, name: str, *args: Any, **named: Any) -> Any:
        compiled.append(name)
        return view(self, name, *args, **named)

    with hw.open(tmp_path / "db") as db:
        db.source("t", "a BIGINT, b BIGINT")
        db.apply({"t": [(i, i) for i in range(10)]})
        for i in range(8):
            db.view(f"v{i}", f"SELECT a, sum(b) AS s FROM t WHERE b > {i} GROUP BY a")
        monkeypatch.setattr(Compiler, "view", watched)
        db.rebuild()
        assert len(compiled) <= 4 * 8, compiled
        assert db.table("v7").num_rows == 2
