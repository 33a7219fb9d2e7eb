"""A guard guards: what may fail is evaluated only where `case`, `and`, `or`, `any` or a filter lets it be."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import EngineError

JOIN = "FROM x JOIN y ON x.k = y.k"
X = [(1, 10), (2, 5), (3, 1)]
Y = [(1, 0), (2, 2)]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.execution = "driver"
        made.source("x", "k BIGINT, v BIGINT")
        made.source("y", "k BIGINT, v BIGINT")
        yield made


def rows(db: hw.Database) -> list[tuple[Any, ...]]:
    out = []
    for row in db.table("q").to_pylist():
        out += [tuple(row.values())[:-1]] * row["_w"]
    return sorted(out)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"SELECT x.k {JOIN} WHERE y.v = 0 OR x.v / y.v > 1", [(1,), (2,)]),
        (f"SELECT x.k {JOIN} WHERE y.v = 0 OR x.v % y.v > 5", [(1,)]),
        (f"SELECT x.k {JOIN} WHERE NOT (y.v <> 0 AND x.v % y.v = 1)", [(1,)]),
        (f"SELECT x.k, y.v = 0 OR x.v div y.v = 2 AS b {JOIN}", [(1, True), (2, True)]),
        (f"SELECT x.k, y.v <> 0 AND x.v div y.v = 2 AS b {JOIN}", [(1, False), (2, True)]),
        (
            f"SELECT x.k, CASE WHEN y.v <> 0 AND x.v % y.v = 1 THEN 1 ELSE 0 END AS b {JOIN}",
            [(1, 0), (2, 1)],
        ),
        (f"SELECT x.k, coalesce(x.v, x.v % y.v) AS b {JOIN}", [(1, 10), (2, 5)]),
        (f"SELECT sum(CASE WHEN y.v = 0 OR x.v % y.v = 1 THEN 1 ELSE 0 END) AS n {JOIN}", [(2,)]),
        (
            "SELECT x.k FROM x WHERE EXISTS (SELECT 1 FROM y WHERE y.v <> 0 AND x.v % y.v = 0)",
            [(1,)],
        ),
    ],
)
def test_in_sql(db: hw.Database, query: str, expected: list[tuple[Any, ...]]) -> None:
    db.view("q", query)
    db.apply({"x": X, "y": Y})
    assert rows(db) == expected
    db.apply({"y": hw.Delta(deletes=Y)})
    db.apply({"y": Y})
    assert rows(db) == expected


def asked_any(x: Any, y: Any) -> Any:
    return [
        {"k": a.k, "m": max(b.v for b in y if b.k == a.k)} for a in x if any(b.k == a.k for b in y)
    ]


def asked_len(x: Any, y: Any) -> Any:
    return [
        {"k": a.k, "m": min(b.v for b in y if b.k == a.k)}
        for a in x
        if len([b for b in y if b.k == a.k]) > 0
    ]


def asked_in(x: Any, y: Any) -> Any:
    return [
        {"k": a.k, "m": max(b.v for b in y if b.k == a.k) if a.k in [b.k for b in y] else 0}
        for a in x
    ]


def asked_or(x: Any, y: Any) -> Any:
    return [{"k": a.k} for a in x for b in y if a.k == b.k and (b.v == 0 or a.v / b.v > 1)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (asked_any, [(1, 0), (2, 2)]),
        (asked_len, [(1, 0), (2, 2)]),
        (asked_in, [(1, 0), (2, 2), (3, 0)]),
        (asked_or, [(1,), (2,)]),
    ],
)
def test_in_comprehensions(
    db: hw.Database, query: Callable[..., Any], expected: list[tuple[Any, ...]]
) -> None:
    db.view("q", hw.query(query))
    for _ in range(2):
        db.apply({"x": X, "y": Y})
        assert rows(db) == expected
        db.apply({"y": hw.Delta(deletes=Y), "x": hw.Delta(deletes=X)})
        assert rows(db) == []


def largest(x: Any, y: Any) -> Any:
    return [{"k": a.k, "m": max(b.v for b in y if b.k == a.k)} for a in x]


def test_without_a_guard_the_max_of_nothing_is_an_error(db: hw.Database) -> None:
    db.view("q", hw.query(largest))
    with pytest.raises(EngineError, match="empty collection"):
        db.apply({"x": X, "y": Y})
    assert rows(db) == []
    db.apply({"y": [*Y, (3, 7)], "x": X})
    assert rows(db) == [(1, 0), (2, 2), (3, 7)]
    with pytest.raises(EngineError, match="empty collection"):
        db.apply({"y": hw.Delta(deletes=[(3, 7)])})


@pytest.mark.parametrize("test", ["x.v % y.v = 1", "y.v = 2 OR x.v % y.v = 1"])
def test_without_a_guard_a_division_by_zero_is_an_error(db: hw.Database, test: str) -> None:
    db.view("q", f"SELECT x.k {JOIN} WHERE {test}")
    with pytest.raises(EngineError, match="divides by zero"):
        db.apply({"x": X, "y": Y})


# --- drawn ------------------------------------------------------------------------------------------------------

Drawn = tuple[str, Callable[[int, int], Any]]


def number(draw: random.Random, depth: int) -> Drawn:
    kind = draw.randrange(5 if depth else 3)
    if kind == 0:
        return "x.v", lambda x, y: x
    if kind == 1:
        return "y.v", lambda x, y: y
    if kind == 2:
        n = draw.randrange(4)
        return str(n), lambda x, y: n
    (a, f), (b, g) = number(draw, depth - 1), number(draw, depth - 1)
    if kind == 3:
        return f"({a} % {b})", lambda x, y: f(x, y) % g(x, y)
    t, p = truth(draw, depth - 1)
    return (
        f"(CASE WHEN {t} THEN {a} ELSE {b} END)",
        lambda x, y: f(x, y) if p(x, y) else g(x, y),
    )


def truth(draw: random.Random, depth: int) -> Drawn:
    if not depth or draw.random() < 0.3:
        (a, f), (b, g) = number(draw, depth), number(draw, depth)
        if draw.random() < 0.5:
            return f"{a} = {b}", lambda x, y: f(x, y) == g(x, y)
        return f"{a} <> {b}", lambda x, y: f(x, y) != g(x, y)
    (a, f), (b, g) = truth(draw, depth - 1), truth(draw, depth - 1)
    kind = draw.randrange(3)
    if kind == 0:
        return f"({a} OR {b})", lambda x, y: f(x, y) or g(x, y)
    if kind == 1:
        return f"({a} AND {b})", lambda x, y: f(x, y) and g(x, y)
    return f"(NOT {a})", lambda x, y: not f(x, y)


@pytest.mark.property
def test_drawn_guards_give_what_python_gives(tmp_path: Path) -> None:
    """Where Python, which stops as Spark does, raises nothing, a view raises nothing and has the same rows."""
    draw, compared = random.Random(13), 0
    for i in range(150):
        (where, passes), (out, gives) = truth(draw, 2), number(draw, 2)
        x = [(draw.randrange(2), draw.randrange(4)) for _ in range(3)]
        y = [(draw.randrange(2), draw.randrange(3)) for _ in range(3)]
        try:
            pairs = [(b, d) for a, b in x for c, d in y if a == c and passes(b, d)]
            expected = sorted((b, d, gives(b, d)) for b, d in pairs)
        except ZeroDivisionError:
            continue
        if "%" not in where + out:
            continue
        with hw.open(tmp_path / str(i)) as db:
            db.execution = "driver"
            db.source("x", "k BIGINT, v BIGINT")
            db.source("y", "k BIGINT, v BIGINT")
            query = f"SELECT x.v AS a, y.v AS b, CAST({out} AS BIGINT) AS c {JOIN} WHERE {where}"
            db.view("q", query)
            db.apply({"x": x})
            db.apply({"y": y})
            assert rows(db) == expected, (query, x, y)
            compared += 1
    assert compared > 30
