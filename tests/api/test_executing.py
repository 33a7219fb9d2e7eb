"""Statements and scripts carried out: what they give, that they change nothing when they are run again, and what is left where one is refused."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import headwater as hw
from headwater.api.executing import read_script
from headwater.api.rehearsing import rehearsed
from headwater.errors import (
    BadChange,
    HeadwaterError,
    InUse,
    NameTaken,
    ParseError,
    QueryError,
    UnknownName,
)

SCRIPT = """-- a shop; with notes
CREATE SOURCE orders (id BIGINT, customer STRING, price DECIMAL(10,2), PRIMARY KEY (id))
  USING csv LOCATION 'inbox' OPTIONS (header = true);
CREATE SOURCE IF NOT EXISTS notes (n INT, t STRING);
INSERT INTO notes VALUES (1, 'a;b'), (2, NULL), (2, NULL);
INSERT INTO notes VALUES (7, 'twice'); INSERT INTO notes VALUES (7, 'twice');
CREATE OR REPLACE MATERIALIZED VIEW totals AS
  SELECT upper(customer) AS c, sum(price) AS t -- ; no end
  FROM orders GROUP BY 1;
UPDATE notes SET t = concat(t, '!'), n = n + 1 WHERE n < 2;
DELETE FROM notes WHERE t IS NULL /* both of them */;
SELECT n, t FROM notes ORDER BY n DESC
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


def rows(db: hw.Database, name: str) -> Counter[tuple[Any, ...]]:
    table = db.table(name)
    names = [n for n in table.column_names if n != "_w"]
    out: Counter[tuple[Any, ...]] = Counter()
    for r in table.to_pylist():
        out[tuple(r[n] for n in names)] += r["_w"]
    return out


def test_a_file_run_again_changes_nothing(db: hw.Database, tmp_path: Path) -> None:
    file = tmp_path / "app.sql"
    file.write_text(SCRIPT)
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "a.csv").write_text("id,customer,price\n1,ada,2.50\n")
    results = list(db.executed(read_script(file)))
    assert [r.statement.piece.line for r in results] == [2, 4, 5, 6, 6, 7, 10, 11, 12]
    assert results[-1].value.to_pylist() == [{"n": 7, "t": "twice"}] * 2 + [{"n": 2, "t": "a;b!"}]
    db.run()
    assert rows(db, "totals") == {("ADA", Decimal("2.50")): 1}
    version, found = db.version, rows(db, "notes")
    assert found == {(2, "a;b!"): 1, (7, "twice"): 2}
    list(db.executed(read_script(file)))
    assert db.version == version and rows(db, "notes") == found
    with hw.open(tmp_path / "db") as again:
        again.execute("DELETE FROM notes")  # as text it is done as often as it is said
        list(again.executed(read_script(file)))
        assert rows(again, "notes") == {}


def test_what_statements_give(db: hw.Database) -> None:
    assert db.execute("CREATE SOURCE s (k BIGINT, x DOUBLE)").name == "s"
    assert db.execute("INSERT INTO s VALUES (1, 2), (1, 2)").rows == {"s": 2}
    assert (
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS t FROM s GROUP BY k").name
        == "v"
    )
    assert db.execute("CREATE MATERIALIZED VIEW IF NOT EXISTS V AS SELECT 1 AS one").name == "v"
    assert "VIEW v" in db.execute("EXPLAIN v") and "CAN be kept" in db.execute(
        "EXPLAIN SELECT k FROM s"
    )
    version = db.version
    assert db.execute("UPDATE s SET x = x + 0 WHERE k = 1").version == version
    assert db.execute("DELETE FROM s WHERE k = 7").version == version
    assert db.execute(
        "INSERT INTO s (k) SELECT k + 1 FROM v; UPDATE s SET x = k WHERE x IS NULL"
    ).rows == {"s": 2}
    assert rows(db, "s") == {(1, 2.0): 2, (2, 2.0): 1}
    assert db.execute("DROP VIEW v; DROP VIEW IF EXISTS v; DROP SOURCE s") is None
    assert len(db) == 0


def test_an_error_in_the_third_statement(db: hw.Database, tmp_path: Path) -> None:
    file = tmp_path / "app.sql"
    file.write_text(
        "CREATE SOURCE a (x INT);\nCREATE SOURCE b (x INT);\nCREATE MATERIALIZED VIEW v AS SELECT\n  y FROM a;\nSHOW VIEWS"
    )
    with pytest.raises(UnknownName) as told:
        db.execute(file)
    assert str(told.value) == (
        f"{file}: unknown column `y` in `a` (line 4, column 3)\n    y FROM a;\n    ^\ncolumns of `a`: x\n"
        "the 2 statements before it are carried out, the 1 behind it is not"
    )
    assert db.sources == ["a", "b"] and db.version == 2
    file.write_text("CREATE SOURCE c (x INT);\n\nCREATE SOURCE d (x INT) WITH 3;\n")
    with pytest.raises(
        ParseError, match=r"app.sql: `WITH` means nothing here \(line 3, column 25\)"
    ):
        db.execute(file)
    assert db.version == 2
    file.write_text("CREATE SOURCE c (x INT);\nCREATE SOURCE a (z STRING)")
    with pytest.raises((NameTaken, QueryError), match=r"app.sql, line 2: "):
        db.execute(file)


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("INSERT INTO s VALUES (1)", BadChange, "has 1 values, and 2 columns"),
        ("INSERT INTO s (k, K) VALUES (1, 2)", BadChange, "named twice"),
        ("INSERT INTO s SELECT 1 AS a", BadChange, "has 1 values"),
        ("INSERT INTO s VALUES ('x', 1)", BadChange, "`s`"),
        ("UPDATE s SET z = 1", UnknownName, "unknown column `z`"),
        (
            "UPDATE s SET k = q WHERE k = 1",
            UnknownName,
            r"unknown column `q` in `s` \(line 1, column 18\)",
        ),
        ("DELETE FROM v", UnknownName, "`v` is a view"),
        ("DELETE FROM nothing", UnknownName, "`nothing` is no source"),
        ("DROP VIEW s", UnknownName, "there is no view `s`"),
        ("CREATE SOURCE t (a INT) USING papyrus LOCATION 'x'", QueryError, "papyrus"),
        (
            "CREATE SOURCE t (a INT) USING csv LOCATION 'x' OPTIONS (colour = 'red')",
            QueryError,
            "colour",
        ),
        ("SELECT k FROM nowhere", UnknownName, "nowhere"),
    ],
)
def test_bad_input(db: hw.Database, text: str, error: type[Exception], told: str) -> None:
    db.execute(
        "CREATE SOURCE s (k BIGINT, x BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k FROM s"
    )
    db.execute("INSERT INTO s VALUES (1, 1)")
    version = db.version
    with pytest.raises(error, match=told):
        db.execute(text)
    assert db.version == version


def test_random_statements_beside_duckdb(db: hw.Database) -> None:
    """INSERT, UPDATE and DELETE do to a source what DuckDB does to a table, rows that repeat among them."""
    draw, duck = random.Random(5), duckdb.connect()
    db.execute(
        "CREATE SOURCE s (k BIGINT, x BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k"
    )
    duck.execute("CREATE TABLE s (k BIGINT, x BIGINT)")
    for _ in range(60):
        a, b, c = (draw.randrange(4) for _ in range(3))
        where = draw.choice(
            [
                f"k = {a}",
                f"x > {b} AND k <> {c}",
                f"k IN (SELECT x FROM s WHERE k = {a})",
                "x IS NULL",
                f"k + x = {a + b}",
            ]
        )
        text = draw.choice(
            [
                f"INSERT INTO s VALUES ({a}, {b}), ({a}, {b}), ({c}, NULL)",
                f"INSERT INTO s (x) SELECT k + {a} FROM s WHERE x = {b}",
                f"UPDATE s SET x = x + {a} WHERE {where}",
                f"UPDATE s SET k = x, x = k WHERE {where}",
                f"DELETE FROM s WHERE {where}",
            ]
        )
        db.execute(text)
        duck.execute(text)
        assert rows(db, "s") == Counter(duck.execute("SELECT k, x FROM s").fetchall()), text
        if sum(rows(db, "s").values()) > 200:
            db.execute("DELETE FROM s WHERE x > 1")
            duck.execute("DELETE FROM s WHERE x > 1")
    expected = duck.execute("SELECT k, count(*) FROM s GROUP BY k").fetchall()
    assert rows(db, "v") == Counter(expected)


def test_rows_of_a_nested_source(db: hw.Database) -> None:
    db.execute(
        "CREATE SOURCE c (id BIGINT, name STRING, orders ARRAY<STRUCT<o: BIGINT>>, PRIMARY KEY (id))"
    )
    db.apply({"c": [(1, "a", [{"o": 1}, {"o": 2}]), (2, "b", [])]})
    db.execute("UPDATE c SET name = upper(name) WHERE id = 1")
    assert db["c"].database.lookup("c", (1,))["name"] == "A"
    db.execute("DELETE FROM c WHERE id = 1")
    assert db.table("c").column("id").to_pylist() == [2]


def test_answers_come_in_the_order_that_is_asked_for(db: hw.Database) -> None:
    db.execute("CREATE SOURCE s (k BIGINT, x DOUBLE)")
    nan = float("nan")
    db.apply({"s": [(1, 2.0), (2, None), (3, nan), (4, -1.0), (None, 2.0)]})

    def asked(text: str) -> list[Any]:
        return db.answer(text).column("k").to_pylist()

    assert asked("SELECT k FROM s ORDER BY k DESC") == [4, 3, 2, 1, None]
    assert asked("SELECT k, x FROM s ORDER BY x, k DESC") == [2, 4, 1, None, 3]
    assert asked("SELECT k, x FROM s ORDER BY 2 DESC, 1") == [3, None, 1, 4, 2]
    assert asked("SELECT k, x FROM s ORDER BY x NULLS LAST, k") == [4, None, 1, 3, 2]
    assert asked("SELECT k FROM s WHERE k < 3 UNION ALL SELECT 9 ORDER BY k") == [1, 2, 9]


def test_a_rehearsal_says_what_would_be_and_changes_nothing(
    db: hw.Database, tmp_path: Path
) -> None:
    file = tmp_path / "app.sql"
    file.write_text(SCRIPT)
    list(db.executed(read_script(file)))
    db.apply({"orders": [(1, "a", Decimal("1"))]})
    version = db.version
    file.write_text(
        SCRIPT.replace("sum(price)", "max(price)").replace("(2, NULL)", "(3, NULL)")
        + "; CREATE SOURCE more (k INT); CREATE MATERIALIZED VIEW m AS SELECT n, k FROM notes JOIN more ON n = k; DROP VIEW m"
    )
    with hw.open(tmp_path / "stage") as stage:
        planned = list(rehearsed(read_script(file), db, stage))
    said = [(p.what, p.becomes) for p in planned]
    assert said == [
        ("source orders", "is there"),
        ("source notes", "is there"),
        ("INSERT of notes", "would change its rows"),
        ("INSERT of notes", "was done by an earlier run"),
        ("INSERT of notes", "was done by an earlier run"),
        ("view totals", "would get another query"),
        ("UPDATE of notes", "was done by an earlier run"),
        ("DELETE of notes", "was done by an earlier run"),
        ("ask", "changes nothing"),
        ("source more", "would be made"),
        ("view m", "would be made"),
        ("DROP VIEW m", "would be done"),
    ]
    replaced, made = planned[5].more, planned[10].more
    assert replaced[0].startswith("cost class change:") and "filled" in replaced[1]
    assert any("from all of `orders` (1 entries)" in line for line in replaced)
    assert made[0].startswith("cost class change:") and any(
        "filled from notes, " in x for x in made
    )
    assert db.version == version
    file.write_text("CREATE SOURCE z (k INT);\nCREATE MATERIALIZED VIEW w AS SELECT q FROM z")
    with (
        hw.open(tmp_path / "other") as stage,
        pytest.raises(UnknownName, match="unknown column `q`"),
    ):
        list(rehearsed(read_script(file), db, stage))


def test_a_column_is_added_once(db: hw.Database, tmp_path: Path) -> None:
    file = tmp_path / "app.sql"
    file.write_text(
        "CREATE SOURCE s (k BIGINT NOT NULL, PRIMARY KEY (k)); INSERT INTO s VALUES (1);\n"
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s;\n"
        "ALTER SOURCE s ADD COLUMNS (x STRING, y DECIMAL(4,1)); INSERT INTO s VALUES (2, 'b', 1.5);"
    )
    for _ in range(2):
        list(db.executed(read_script(file)))
        assert rows(db, "s") == {(1, None, None): 1, (2, "b", Decimal("1.5")): 1}
        assert rows(db, "v") == {(2,): 1}
    version = db.version
    with pytest.raises(ParseError, match="twice"):
        db.execute("ALTER SOURCE s ADD COLUMN x BIGINT")
    assert db.version == version


def test_a_source_with_a_sequence(db: hw.Database) -> None:
    db.execute(
        "CREATE SOURCE s (k BIGINT, x STRING, n BIGINT, PRIMARY KEY (k)) SEQUENCE BY n ON CONFLICT REPLACE"
    )
    db.apply({"s": hw.Delta(upserts=[(1, "a", 5)])})
    db.apply({"s": hw.Delta(upserts=[(1, "late", 4), (2, "b", 1)])})
    assert rows(db, "s") == {(1, "a", 5): 1, (2, "b", 1): 1}


def test_a_sink_is_made_shown_and_dropped(db: hw.Database, tmp_path: Path) -> None:
    file = tmp_path / "app.sql"
    file.write_text(
        "CREATE SOURCE s (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k FROM s WHERE k > 1;\n"
        "CREATE SINK out FROM v USING jsonl LOCATION 'out';\nINSERT INTO s VALUES (1), (2)"
    )
    for _ in range(2):
        list(db.executed(read_script(file)))
        db.run()
    assert [
        json.loads(x)["k"]
        for f in (tmp_path / "out").rglob("*.jsonl")
        for x in f.read_text().splitlines()
    ] == [2]
    shown = next(db.executed(read_script("SHOW SINKS"))).value.to_pylist()
    assert [(s["sink"], s["of"], s["kind"]) for s in shown] == [("out", "v", "jsonl")]
    with pytest.raises(QueryError, match="papyrus"):
        db.execute("CREATE SINK other FROM v USING papyrus LOCATION 'x'")
    db.execute("DROP SINK out; DROP SINK IF EXISTS out")
    assert db.sinks == []
    list(db.executed(read_script(file)))
    with pytest.raises(InUse, match="is read by"):
        db.execute("DROP SOURCE s")
    db.execute("DROP SOURCE s CASCADE")
    assert not db.sources and not db.views and not db.sinks


def test_comments_are_kept_and_shown(tmp_path: Path) -> None:
    """Also by another process, over another query, another name, and where the next statement says none; said again it is no change."""
    with hw.open(tmp_path / "db") as db:
        db.execute("CREATE SOURCE s (g INT, v INT)")
        db.execute(
            "CREATE MATERIALIZED VIEW t COMMENT 'sums, by group' AS SELECT g, sum(v) AS v FROM s GROUP BY g"
        )
        db.apply({"s": [(1, 2)]})
        version = db.version
        db.execute(
            "CREATE MATERIALIZED VIEW t COMMENT 'sums, by group' AS SELECT g, sum(v) AS v FROM s GROUP BY g"
        )
        assert db.version == version
    with hw.open(tmp_path / "db") as db:
        db.execute(
            "CREATE OR REPLACE MATERIALIZED VIEW t AS SELECT g, max(v) AS v FROM s GROUP BY g"
        )
        db.rename("t", "u")
        assert db._shown("views").column("comment").to_pylist() == ["sums, by group"]
        db.execute(
            "CREATE OR REPLACE MATERIALIZED VIEW u COMMENT 'the most' AS SELECT g, max(v) AS v FROM s GROUP BY g"
        )
        assert db.catalog.views["u"].comment == "the most"
        assert db.table("u").to_pylist() == [{"g": 1, "v": 2, "_w": 1}]
        assert not db.changes_table("u", db.version - 1).num_rows

        @hw.materialized_view(comment="all of it")
        def whole(s: Any) -> Any:
            return [{"g": x.g} for x in s]

        db.define([whole])
        assert db.catalog.views["whole"].comment == "all of it"
        for name, text, words in [("nobody", "x", "nobody"), ("u", 3, "the comment of `u`")]:
            with pytest.raises(HeadwaterError, match=words):
                db.comment(name, text)  # type: ignore[arg-type]
