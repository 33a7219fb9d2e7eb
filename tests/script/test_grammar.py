"""What statements say, and what is told of those that say nothing, with the place."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headwater.errors import ParseError
from headwater.script.grammar import statements
from headwater.script.statements import (
    AddColumns,
    Ask,
    CreateSink,
    CreateSource,
    CreateView,
    Delete,
    Drop,
    Explain,
    Insert,
    Rename,
    Show,
    Update,
    What,
)
from headwater.script.words import Script


def read(text: str) -> What:
    (found,) = statements(Script(text))
    return found.what


def test_a_source_with_all_its_clauses() -> None:
    text = """create source if not exists `Orders` (id BIGINT, tags ARRAY<STRUCT<a: INT>>, PRIMARY KEY (id)) -- (
        USING Csv LOCATION 'in;box' OPTIONS (header = true, 'null.value' "", max_files 5, kafka.topic='t', low -1)
        CLOSES (day, zone) SEQUENCE BY seq ON CONFLICT ignore BAD RECORDS ASIDE APPEND ONLY"""
    options = {"header": True, "null.value": "", "max_files": 5, "kafka.topic": "t", "low": -1}
    more = {
        "closes": ("day", "zone"),
        "sequence_by": "seq",
        "on_conflict": "ignore",
        "bad": "aside",
        "append_only": True,
    }
    columns = "id BIGINT, tags ARRAY<STRUCT<a: INT>>, PRIMARY KEY (id)"
    assert read(text) == CreateSource("Orders", columns, True, "csv", "in;box", options, more)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 -- x", CreateView("v", "SELECT 1")),
        (
            "CREATE OR REPLACE MATERIALIZED VIEW v COMMENT 'c' AS WITH a AS (SELECT 1) SELECT * FROM a",
            CreateView("v", "WITH a AS (SELECT 1) SELECT * FROM a", replace=True, comment="c"),
        ),
        (
            "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS TABLE t",
            CreateView("v", "TABLE t", if_absent=True),
        ),
        (
            "CREATE SINK s FROM v USING jsonl LOCATION 'x' OPTIONS (a 1)",
            CreateSink("s", "v", "jsonl", False, "x", {"a": 1}),
        ),
        (
            "INSERT INTO s (b, a) VALUES (1, 'x;'), (-2.50, NULL)",
            Insert(
                "s",
                ("b", "a"),
                ((1, "x;"), (Decimal("-2.50"), None)),
                "VALUES (1, 'x;'), (-2.50, NULL)",
            ),
        ),
        ("INSERT INTO s VALUES (1 + 1)", Insert("s", (), None, "VALUES (1 + 1)")),
        ("INSERT INTO s VALUES (1L)", Insert("s", (), None, "VALUES (1L)")),
        ("INSERT INTO s (SELECT 1)", Insert("s", (), None, "(SELECT 1)")),
        (
            "UPDATE s SET a = f(1, 2), b = CASE WHEN a = 1 THEN 2 END WHERE a IN (1, 2)",
            Update("s", {"a": "f(1, 2)", "b": "CASE WHEN a = 1 THEN 2 END"}, "a IN (1, 2)"),
        ),
        ("DELETE FROM s", Delete("s", "")),
        ("DROP SOURCE IF EXISTS s CASCADE", Drop("source", "s", True, True)),
        ("DROP MATERIALIZED VIEW v", Drop("view", "v")),
        ("ALTER SOURCE s ADD COLUMN d DATE", AddColumns("s", "d DATE")),
        ("ALTER SOURCE s ADD COLUMNS (d DATE, e INT)", AddColumns("s", "d DATE, e INT")),
        ("ALTER VIEW v RENAME TO w", Rename("view", "v", "w")),
        ("EXPLAIN v", Explain("v", None)),
        ("EXPLAIN SELECT 1", Explain(None, "SELECT 1")),
        ("SHOW VIEWS", Show("views")),
        ("(SELECT 1)", Ask("(SELECT 1)")),
        ("FROM t SELECT a", Ask("FROM t SELECT a")),
    ],
)
def test_statements(text: str, what: What) -> None:
    assert read(text) == what


@pytest.mark.parametrize(
    ("text", "told", "marked"),
    [
        ("GRANT ALL", "is no statement of Headwater", "GRANT"),
        ("CREATE VIEW v AS SELECT 1", "is no statement of Headwater", "VIEW"),
        ("CREATE OR REPLACE SOURCE s (a INT)", "is no statement of Headwater", "SOURCE"),
        ("CREATE SOURCE s a INT", "the columns are missing", "a"),
        ("CREATE SOURCE s (a INT", "is not closed", "("),
        (
            "CREATE SOURCE s (a INT) PARTITIONED BY (a)",
            "`PARTITIONED` means nothing here",
            "PARTITIONED",
        ),
        ("CREATE SOURCE s (a INT) USING csv USING csv", "USING is said twice", "USING"),
        ("CREATE SOURCE s (a INT) USING csv OPTIONS (a)", "`a` has no value", ")"),
        ("CREATE SOURCE s (a INT) OPTIONS (a = b)", "no text, number", "b"),
        ("CREATE SOURCE db.s (a INT)", "several parts", "."),
        ("CREATE SOURCE s (a INT) LOCATION x", "is no text", "x"),
        ("CREATE SOURCE s (a INT) BAD RECORDS keep", "`keep` is no BAD RECORDS", "keep"),
        ("CREATE MATERIALIZED VIEW v SELECT 1", "AS is missing", "SELECT"),
        ("CREATE MATERIALIZED VIEW v AS", "the query is missing", "S"),
        ("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1", "both said", "IF"),
        ("INSERT INTO s", "VALUES or a query is missing", "s"),
        ("UPDATE s SET a = WHERE b", "the expression is missing", "WHERE"),
        ("DROP TABLE s", "`TABLE` is no kind of thing that can be dropped", "TABLE"),
        ("ALTER VIEW v ADD COLUMN a INT", "not said how it is altered", "ADD"),
        ("SHOW TABLES", "`TABLES` is no kind", "TABLES"),
        ("DELETE FROM s LIMIT 1", "`LIMIT` means nothing here", "LIMIT"),
    ],
)
def test_errors_are_told_with_their_place(text: str, told: str, marked: str) -> None:
    script = f"SELECT 1;\n  {text};\nSELECT 2"
    with pytest.raises(ParseError, match=told.replace("(", r"\(")) as e:
        statements(Script(script))
    span = e.value.span
    assert span is not None and span.line == 2
    line = script.splitlines()[1]
    assert line[span.column - 1 : span.column - 1 + span.length] == marked
