"""Sinks that keep tables of a real PostgreSQL server, compared with the view, or with the query run there."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import HeadwaterError
from postgres_server import postgres

QUERIES = {
    "by key": "SELECT a, count(*) AS n, sum(x) AS total FROM t GROUP BY a",
    "rows": "SELECT a, x FROM t WHERE x > 2",
    "one row": "SELECT count(*) AS n, max(a) AS most FROM t",
    "all are key": "SELECT DISTINCT a, x FROM t",
}


def server(*tables: str) -> Any:
    c = postgres().connect()
    c.execute("DROP TABLE IF EXISTS headwater_places")
    for t in tables:
        c.execute(f"DROP TABLE IF EXISTS {t}")
    return c


def rows_of(c: Any, table: str) -> Counter[Any]:
    names = [
        r[0]
        for r in c.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position",
            (table,),
        ).fetchall()
    ]
    shown = ", ".join(n for n in names if n != "headwater_row")
    return Counter(c.execute(f"SELECT {shown} FROM {table}").fetchall())


def view_of(db: Any, view: str) -> Counter[Any]:
    out: Counter[Any] = Counter()
    for r in db.table(view).to_pylist():
        w = r.pop("_w")
        out[tuple(r.values())] += w
    return out


@pytest.mark.parametrize("case", QUERIES)
def test_a_table_is_the_view_through_random_changes(case: str, tmp_path: Path) -> None:
    c, rng = server("kept"), random.Random(case)
    db = hw.open(tmp_path / "db")
    db.source("t", "id int, a string, x int", key="id")
    db.view("v", QUERIES[case])
    db.sink("kept", "v", format="postgres", options=postgres().options)
    for n in range(12):
        ids = rng.sample(range(30), 8)
        a = [rng.choice(["x", "y", "", None, 'q"\n,']) for _ in ids]
        rows = [(i, s, rng.choice([1, 2, 3, 4, None])) for i, s in zip(ids, a, strict=True)]
        there = {r["id"] for r in db.table("t").to_pylist()}
        gone = [i for i in range(30) if i in there and i not in ids and rng.random() < 0.2]
        db.apply({"t": hw.Delta(upserts=rows, deletes=gone)})
        if n % 3:
            db.run()
            assert rows_of(c, "kept") == view_of(db, "v"), n
        if n == 7:
            db.close()
            db = hw.open(tmp_path / "db")
            db.sink("kept", "v", format="postgres", options=postgres().options)
    db.close()


def test_values_of_every_type_and_a_place_in_the_same_transaction(tmp_path: Path) -> None:
    c = server("typed")
    schema = (
        "a tinyint, b smallint, c int, d bigint, e float, f double, g decimal(20, 4), h string, i binary,"
        " j boolean, k date, l timestamp, m timestamp_ntz"
    )
    db = hw.open(tmp_path / "db")
    db.source("s", schema)
    db.view("v", "SELECT * FROM s")
    at = datetime(2020, 1, 2, 3, 4, 5, 678901)
    row = (
        1,
        -2,
        3,
        2**40,
        0.5,
        1e100 / 3,
        Decimal("1.2345"),
        'ü,"\n',
        b"\x00\xff",
        True,
        date(1999, 1, 1),
        at.replace(tzinfo=UTC),
        at,
    )
    db.apply({"s": [row, row, (None,) * 13]})
    db.sink("typed", "v", format="postgres", options=postgres().options)
    db.run()
    assert rows_of(c, "typed") == Counter({row: 2, (None,) * 13: 1})
    done = db.apply({"s": hw.Delta(deletes=[row, (None,) * 13])})
    db.run()
    assert rows_of(c, "typed") == Counter({row: 1})
    version = c.execute(
        "SELECT version FROM headwater_places WHERE table_name = 'typed'"
    ).fetchone()
    assert version == (done.version,)
    before = c.execute("SELECT xmin::text FROM typed").fetchall()
    db.run()
    assert c.execute("SELECT xmin::text FROM typed").fetchall() == before, (
        "nothing is written twice"
    )
    db.close()


WRONG = {
    "CREATE TABLE wrong (a text, n bigint, other int)": "has a column `other`",
    "CREATE TABLE wrong (a text)": "has no column `n`",
    "CREATE TABLE wrong (a int, n bigint)": "the column `a` of the table public.wrong is int4",
    "CREATE TABLE wrong (a text, n bigint)": "no unique index on a",
    "CREATE TABLE wrong (a text UNIQUE, n bigint); INSERT INTO wrong VALUES ('mine', 1)": "rows that no sink wrote",
}


@pytest.mark.parametrize("made", WRONG)
def test_a_table_of_somebody_else_is_refused(made: str, tmp_path: Path) -> None:
    c = server("wrong")
    for statement in made.split("; "):
        c.execute(statement)
    before = rows_of(c, "wrong")
    db = hw.open(tmp_path / "db")
    db.source("t", "a string")
    db.view("v", "SELECT a, count(*) AS n FROM t GROUP BY a")
    db.apply({"t": [("x",)]})
    db.sink("wrong", "v", format="postgres", options=postgres().options)
    with pytest.raises(HeadwaterError, match=WRONG[made]) as e:
        db.sync("wrong")
    assert e.value.hint
    assert rows_of(c, "wrong") == before
    db.close()
