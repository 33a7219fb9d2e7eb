"""A guard guards: what may fail is evaluated only where `case`, `and`, `or`, `any` or a filter lets it be.

Spark is never started here: what it would be asked for are the errors of single rows, and `Asked` stands for those.
Drawn guards are in `test_guards_fuzz`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.engine.spark import session
from headwater.errors import EngineError
from spark_session import session as spark_session
from test_guards_fuzz import Asked, refuse

JOIN = "FROM x JOIN y ON x.k = y.k"
X = [(1, 10), (2, 5), (3, 1)]
Y = [(1, 0), (2, 2)]


@pytest.fixture(autouse=True)
def no_java(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("spark") is None:
        monkeypatch.setattr(session, "local_session", refuse)
        monkeypatch.setattr(session, "current_session", lambda: None)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.policy.execution = "driver"
        made.source("x", "k BIGINT, v BIGINT")
        made.source("y", "k BIGINT, v BIGINT")
        yield made


def rows(db: hw.Database) -> list[tuple[Any, ...]]:
    out = []
    for row in db.table("q").to_pylist():
        out += [tuple(row.values())[:-1]] * row["_w"]
    return sorted(out, key=repr)


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


# --- casts ------------------------------------------------------------------------------------------------------

A = [(1, "n", "5", 1), (2, "t", "x", 5), (3, "n", "7", 7), (4, "t", "y", None), (5, "n", None, 2)]
B = [(1, "4", 5), (2, "9", 7), (3, None, 7), (9, "q", 9)]
"""Text of the kind `n` is a number; (4, ..) and (9, ..) meet nothing."""


@pytest.fixture
def text(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.policy.execution = "driver"
        made.source("a", "k BIGINT, kind STRING, s STRING, n INT")
        made.source("b", "k BIGINT, s STRING, n INT")
        yield made


def kept(db: hw.Database) -> list[tuple[Any, ...]]:
    """The rows of a view that was given all rows, lost some of them, and has them again."""
    db.apply({"a": A})
    db.apply({"b": B})
    found = rows(db)
    db.apply({"a": hw.Delta(deletes=A[:3]), "b": hw.Delta(deletes=B[1:])})
    db.apply({"a": A[:3], "b": B[1:]})
    assert rows(db) == found
    return found


AS_SPARK = [
    # over one relation
    "SELECT k, CASE WHEN kind = 'n' THEN CAST(s AS INT) END AS c FROM a",
    "SELECT k, if(kind = 'n', CAST(s AS INT), 0) AS c FROM a WHERE kind <> 'n' OR CAST(s AS INT) > 3",
    "SELECT k, coalesce(n, CAST(s AS INT)) AS c FROM a WHERE kind = 'n' AND CAST(s AS INT) > 3",
    "SELECT k, nullif(kind, 't') IS NOT NULL AND CAST(s AS INT) > 2 AS c FROM a",
    "SELECT kind, sum(CAST(s AS INT)) AS c FROM a WHERE kind = 'n' GROUP BY kind",
    "SELECT k, CASE WHEN n <> 0 THEN 10 div n ELSE 0 END AS c FROM a WHERE n = 0 OR 10 % n < 5",
    # over joins
    "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE a.kind <> 'n' OR CAST(a.s AS INT) > b.n - 3",
    "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE a.kind = 'n' AND CAST(a.s AS INT) > b.n - 3",
    "SELECT a.k, b.n FROM a JOIN b ON a.kind = 'n' AND CAST(a.s AS INT) = b.n",
    "SELECT a.k, CASE WHEN a.kind = 'n' THEN CAST(a.s AS INT) ELSE b.n END AS c FROM a JOIN b ON a.k = b.k",
    "SELECT sum(CASE WHEN a.kind = 'n' THEN CAST(a.s AS INT) END) AS c FROM a JOIN b ON a.k = b.k",
    # the condition of an outer join is asked of the pairs that its equalities leave
    "SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND (a.kind <> 'n' OR CAST(a.s AS INT) > 3)",
    "SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND a.kind = 'n' AND CAST(a.s AS INT) > b.n - 3",
    "SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND b.n < 9 AND CAST(b.s AS INT) > 3",
    "SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND a.k <> 2 AND 10 / (a.n - 5) > b.n - 9",
    "SELECT a.k, b.n FROM a FULL JOIN b ON a.k = b.k AND a.kind = 'n' AND CAST(a.s AS INT) > b.n - 3",
    # subqueries
    "SELECT k FROM a WHERE kind = 'n' AND CAST(s AS INT) IN (SELECT n FROM b)",
    "SELECT k FROM a WHERE kind <> 'n' OR CAST(s AS INT) > (SELECT max(n) FROM b WHERE b.k = a.k)",
    "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND a.kind = 'n' AND b.n <= CAST(a.s AS INT))",
    "SELECT k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND a.kind = 'n' AND b.n <= CAST(a.s AS INT))",
]
FORGIVING = [
    # Spark evaluates the key of a join, and filters of one side, for all rows; here for those that can meet
    ("SELECT a.k, b.n FROM a LEFT JOIN b ON a.kind = 'n' AND CAST(a.s AS INT) = b.n", 6),
    ("SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND CAST(b.s AS INT) > 3", 5),
    ("SELECT k FROM a WHERE kind <> 'n' OR CAST(s AS INT) IN (SELECT n FROM b)", 4),
    ("SELECT k FROM a WHERE CAST(s AS INT) > 3 AND kind = 'n'", 2),
]


@pytest.mark.parametrize("query", AS_SPARK)
def test_casts_in_sql(text: hw.Database, query: str) -> None:
    text.view("q", query)
    assert kept(text)


@pytest.mark.spark
def test_casts_in_sql_are_those_of_spark(tmp_path: Path) -> None:
    spark = spark_session()
    for name, given, schema in (
        ("a", A, "k BIGINT, kind STRING, s STRING, n INT"),
        ("b", B, "k BIGINT, s STRING, n INT"),
    ):
        # From files: Spark computes on rows that it has at hand while it plans.
        spark.createDataFrame(given, schema).write.parquet(str(tmp_path / name))
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    for i, query in enumerate(AS_SPARK):
        with hw.open(tmp_path / f"db{i}") as db:
            db.policy.execution = "driver"
            db.source("a", "k BIGINT, kind STRING, s STRING, n INT")
            db.source("b", "k BIGINT, s STRING, n INT")
            db.view("q", query)
            db.apply({"a": A, "b": B})
            found = sorted(map(repr, rows(db)))
        assert found == sorted(repr(tuple(r)) for r in spark.sql(query).collect()), query


@pytest.mark.parametrize(("query", "count"), FORGIVING)
def test_rows_that_do_not_meet_do_not_fail(text: hw.Database, query: str, count: int) -> None:
    text.view("q", query)
    assert len(kept(text)) == count


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND CAST(a.s AS INT) > 3",
        "SELECT a.k, b.n FROM a LEFT JOIN b ON a.s = b.n",
        "SELECT a.k, nullif(a.kind, 't') = 'n' AND CAST(a.s AS INT) > 2 AS c FROM a JOIN b ON a.k = b.k",
        "SELECT a.k, a.kind = 't' AND CAST(a.s AS INT) > 2 AS c FROM a JOIN b ON a.k = b.k",
        "SELECT k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND CAST(a.s AS INT) > 3)",
        "SELECT k, (SELECT max(CAST(a.s AS INT)) FROM b WHERE b.k = a.k) AS c FROM a",
    ],
)
def test_a_cast_without_a_guard_is_an_error(text: hw.Database, query: str) -> None:
    text.view("q", query)
    text.apply({"a": A})
    with pytest.raises(EngineError, match="casts a value"):
        text.apply({"b": B})
    good = [b for b in B if b[0] != 2] if "a.s = b.n" not in query else []
    text.apply({"b": good})  # what the view had before is as it was


def guarded_if(a: Any, b: Any) -> Any:
    return [{"k": x.k, "c": int(x.s) if x.kind == "n" else 0} for x in a if x.k < 5]


def guarded_and(a: Any, b: Any) -> Any:
    return [{"k": x.k} for x in a for y in b if x.k == y.k and x.kind == "n" and int(x.s) > 5]


def guarded_or(a: Any, b: Any) -> Any:
    return [{"k": x.k} for x in a if x.k < 5 if x.kind != "n" or int(x.s) in [y.n for y in b]]


def guarded_any(a: Any, b: Any) -> Any:
    return [{"k": x.k} for x in a if x.kind == "n" and any(int(x.s) == y.n for y in b)]


def guarded_in_any(a: Any, b: Any) -> Any:
    return [{"k": x.k} for x in a if any(y.n < 9 and int(y.s) > 3 for y in b if y.k != 3)]


def guarded_all(a: Any, b: Any) -> Any:
    return [
        {"k": x.k} for x in a if all(x.kind != "n" or int(x.s) > y.n - 1 for y in b if y.k == x.k)
    ]


def guarded_whole(a: Any, b: Any) -> Any:
    return [
        {"k": x.k, "c": 9 // x.k if x.k != 0 else 0, "d": x.k > 0 and -7 % x.k == 1}
        for x in a
        if x.k == 0 or 9 // x.k > 1
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (guarded_if, [(1, 5), (2, 0), (3, 7), (4, 0)]),
        (guarded_and, [(3,)]),
        (guarded_or, [(1,), (2,), (3,), (4,)]),
        (guarded_any, [(1,), (3,)]),
        (guarded_in_any, [(1,), (2,), (3,), (4,), (5,)]),
        (guarded_all, [(1,), (2,), (3,), (4,), (5,)]),
        (guarded_whole, [(1, 9, False), (2, 4, True), (3, 3, False), (4, 2, True)]),
    ],
)
def test_casts_in_comprehensions(
    text: hw.Database, query: Callable[..., Any], expected: list[tuple[Any, ...]]
) -> None:
    text.view("q", hw.query(query))
    assert kept(text) == expected


def test_a_single_row_that_fails_is_left_to_spark(text: hw.Database) -> None:
    text.view("q", "SELECT k FROM a WHERE kind = 't' AND CAST(s AS INT) > 3")
    text.apply({"a": [A[0]]})
    with pytest.raises(Asked):
        text.apply({"a": A[1:]})


# --- found by drawing --------------------------------------------------------------------------------------------


def test_what_is_added_up_for_no_row_does_not_fail(db: hw.Database) -> None:
    """The aggregate of a scalar subquery was computed for keys that no row outside has."""
    query = "SELECT x.k, (SELECT max(1 div y.v) FROM y WHERE x.k = y.k) AS c FROM x"
    db.view("q", query)
    db.apply({"y": Y})
    db.apply({"x": [(2, 5), (3, 1)]})
    assert rows(db) == [(2, 0), (3, None)]
    with pytest.raises(EngineError, match="divides by zero"):
        db.apply({"x": [(1, 1)]})


def test_a_division_by_zero_of_constants_is_read(db: hw.Database) -> None:
    """max(∅), which was left of it, was no expression."""
    query = "SELECT x.k, (SELECT max(y.v % 0) FROM y WHERE x.k = y.k AND x.v > 3) AS c FROM x"
    db.view("q", query)
    db.apply({"x": [(3, 1)], "y": Y})
    assert rows(db) == [(3, None)]
    with pytest.raises(EngineError, match="divides by zero"):
        db.apply({"x": X})
