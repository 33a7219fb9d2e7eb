"""Whole numbers beside doubles: exact in comprehensions, as in Python, and as doubles in SQL, as in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headwater as hw
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.language.schema import schemas

WHOLE = [
    0,
    1,
    -1,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**62 + 1,
    2**63 - 1,
    -(2**63),
    -(2**63) + 1,
    None,
]
DOUBLES = [
    0.0,
    0.5,
    -0.5,
    1.0,
    float(2**53),
    -float(2**53),
    float(2**62),
    float(2**63),
    -float(2**63),
    1e300,
    -1e300,
]
DOUBLES += [float("inf"), float("-inf")]


@hw.query
def compared(w, d):  # type: ignore[no-untyped-def]
    return [
        {
            "a": a.a,
            "b": b.b,
            "eq": a.a == b.b,
            "ne": b.b != a.a,
            "lt": a.a < b.b,
            "le": a.a <= b.b,
            "gt": a.a > b.b,
            "ge": b.b <= a.a,
            "tl": b.b < a.a,
        }
        for a in w
        for b in d
        if a.a is not None
    ]


@hw.query
def joined(w, d):  # type: ignore[no-untyped-def]
    return [{"a": a.a, "b": b.b} for a in w for b in d if a.a == b.b]


@hw.query
def constants(w):  # type: ignore[no-untyped-def]
    return [
        {
            "a": a.a,
            "half": a.a > 0.5,
            "big": a.a <= 9007199254740992.0,
            "all": a.a < 1e300,
            "none": a.a >= 1e300,
            "two": a.a == 9007199254740992.0,
            "no": a.a == 0.5,
        }
        for a in w
        if a.a is not None
    ]


@hw.query
def beside(d):  # type: ignore[no-untyped-def]
    return [{"b": b.b, "below": b.b < 9007199254740993, "is": b.b == 9007199254740993} for b in d]


def python() -> dict[str, list[dict[str, Any]]]:
    class Row:
        def __init__(self, **values: Any):
            self.__dict__ |= values

    w, d = [Row(a=a) for a in WHOLE], [Row(b=b) for b in DOUBLES]
    return {
        "compared": compared.__wrapped__(w, d),
        "joined": joined.__wrapped__(w, d),
        "constants": constants.__wrapped__(w),
        "beside": beside.__wrapped__(d),
    }


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def test_comprehensions_compare_as_python_does(tmp_path: Path) -> None:
    expected = python()
    known = schemas("w(a BIGINT); d(b DOUBLE)")
    data = {
        "w": from_python(known["w"], [(a,) for a in WHOLE]),
        "d": from_python(known["d"], [(b,) for b in DOUBLES]),
    }
    with hw.open(tmp_path / "db") as db:
        db.source("w", "a BIGINT")
        db.source("d", "b DOUBLE")
        for q in (compared, joined, constants, beside):
            db.view(q.__name__, q)
            names = list(expected[q.__name__][0])
            told = interpret(q.read(known), data)
            assert in_order([dict(zip(names, r, strict=True)) for r in told]) == in_order(
                expected[q.__name__]
            )
        db.apply({"w": [(a,) for a in WHOLE]})
        db.apply({"d": [(b,) for b in DOUBLES]})
        for name, rows in expected.items():
            found = db.table(name).drop_columns(["_w"]).to_pylist()
            assert in_order(found) == in_order(rows), name
        assert db.session.counts.jobs == 0


def test_sql_compares_as_spark_does(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("w", "a BIGINT")
        db.view("q", "SELECT a FROM w WHERE a = 9007199254740992D")
        db.apply({"w": [(a,) for a in WHOLE]})
        assert sorted(db.table("q").column("a").to_pylist()) == [2**53, 2**53 + 1]
