"""Sinks that keep tables of a real PostgreSQL server, compared with the view, or with the query run there."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import HeadwaterError
from postgres_server import postgres
from view_changes import QUERIES, changed, view_of


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


@pytest.mark.parametrize("case", QUERIES)
def test_a_table_is_the_view_through_random_changes(case: str, tmp_path: Path) -> None:
    c = server("kept")

    def declare(db: Any) -> None:
        db.sink("kept", "v", format="postgres", options=postgres().options)

    for db in changed(tmp_path / "db", case, declare):
        assert rows_of(c, "kept") == view_of(db, "v")


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
