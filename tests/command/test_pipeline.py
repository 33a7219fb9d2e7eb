"""Pipelines of Spark and views as functions: what is taken of them, and what is refused by name; none of it starts Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import headwater as hw
from headwater.command.cli import main
from headwater.command.pipeline import read_yaml
from headwater.errors import ParseError, QueryError

Shown = pytest.CaptureFixture[str]
SPEC = """# a shop
name: "shop"
storage: store
libraries:
  - glob:
      include: parts/**
  - glob: {}
"""
SPEC = SPEC.replace("  - glob: {}\n", "")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "parts" / "deep").mkdir(parents=True)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,name,price\n1,ada,3\n2,bob,4\n")
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    # `high` reads `totals`, which a file behind it has
    (tmp_path / "parts" / "a.sql").write_text(
        "CREATE OR REFRESH MATERIALIZED VIEW high COMMENT 'some' AS SELECT name FROM totals WHERE t > 3;\n"
    )
    (tmp_path / "parts" / "deep" / "b.sql").write_text(
        "CREATE SOURCE orders (id BIGINT, name STRING, price BIGINT) USING csv LOCATION '../../in';\n"
        "CREATE TEMPORARY VIEW named AS SELECT upper(name) AS name, price FROM orders;\n"
        "CREATE MATERIALIZED VIEW totals AS SELECT name, sum(price) AS t FROM named GROUP BY name;\n"
    )
    return tmp_path


def test_a_pipeline_runs_and_changes_nothing_again(shop: Path, capsys: Shown) -> None:
    spec = str(shop / "spark-pipeline.yml")
    assert main(["run", spec]) == 0
    with hw.open(shop / "store" / "warehouse") as db:
        version = db.version
        assert db.table("high").to_pylist() == [{"name": "BOB", "_w": 1}]
        assert set(db.views) == {"named", "totals", "high"}
    assert main(["run", spec]) == 0
    with hw.open(shop / "store" / "warehouse") as db:
        assert db.version == version
    (shop / "parts" / "c.py").write_text(
        "import headwater as hw\n\n@hw.materialized_view\ndef low():\n    return 'SELECT name FROM orders WHERE price < 4'\n"
    )
    assert (
        main(["run", spec, "--dir", str(shop / "other")]) == 1
    )  # programs come in the order of files, sources before them
    (shop / "parts" / "c.py").rename(shop / "parts" / "deep" / "c.py")
    assert main(["run", spec]) == 0
    capsys.readouterr()
    assert main(["show", str(shop / "store" / "warehouse"), "low"]) == 0
    assert capsys.readouterr().out == "name\nada\n"


def test_a_streaming_table_follows_events_by_key(shop: Path) -> None:
    (shop / "parts" / "x.sql").write_text(
        "CREATE OR REFRESH STREAMING TABLE people;\n"
        "CREATE FLOW f AS AUTO CDC INTO people FROM STREAM(orders) KEYS (id)\n"
        "  APPLY AS DELETE WHEN name = 'gone' SEQUENCE BY price COLUMNS * EXCEPT (price) STORED AS SCD TYPE 1;\n"
    )
    (shop / "in" / "b.csv").write_text("id,name,price\n1,gone,5\n1,late,4\n2,bert,6\n2,late,5\n")
    spec = str(shop / "spark-pipeline.yml")
    assert main(["run", spec]) == 0
    with hw.open(shop / "store" / "warehouse") as db:
        assert db.table("people").to_pylist() == [{"id": 2, "name": "bert", "_w": 1}]
        version = db.version
    assert main(["run", spec]) == 0
    with hw.open(shop / "store" / "warehouse") as db:
        assert db.version == version


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "CREATE STREAMING TABLE t AS SELECT * FROM STREAM orders",
            "x.sql: line 1: CREATE STREAMING TABLE is not taken",
        ),
        (
            "SELECT 1 AS a;\nCREATE FLOW f AS INSERT INTO t BY NAME SELECT 1",
            "x.sql: line 2: CREATE FLOW is not taken",
        ),
        (
            "CREATE FLOW f AS AUTO CDC INTO t FROM orders KEYS (id) SEQUENCE BY id COLUMNS id IGNORE NULL UPDATES",
            "x.sql: line 1: CREATE FLOW is not taken",
        ),
        (
            "CREATE FLOW f AS AUTO CDC INTO t FROM orders KEYS (id) SEQUENCE BY id STORED AS SCD TYPE 2",
            "x.sql: the flow into `t` keeps a history (SCD type 2), which is not built",
        ),
        (
            "SELECT 1 AS a;\nCREATE STREAMING TABLE t",
            "x.sql: line 2: no flow of this file goes into the streaming table `t`",
        ),
        (
            "CREATE MATERIALIZED VIEW v PARTITIONED BY (a) AS SELECT 1",
            "x.sql: AS is missing (line 1, column 28)",
        ),
        (
            "CREATE MATERIALIZED VIEW Totals AS SELECT 1 AS one",
            "x.sql, line 1: the view `totals` is defined twice",
        ),
        (
            "\nCREATE MATERIALIZED VIEW v AS SELECT nothing FROM orders",
            "x.sql, line 2: unknown column `nothing`",
        ),
    ],
)
def test_what_is_not_taken_is_named(shop: Path, capsys: Shown, text: str, told: str) -> None:
    (shop / "parts" / "x.sql").write_text(text)
    assert main(["run", str(shop / "spark-pipeline.yml")]) == 1
    err = capsys.readouterr().err
    assert told in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("name: x\n", "`storage` is missing"),
        (SPEC + "colour: red\n", "`colour` is no field of a pipeline"),
        (SPEC + "database: sales\n", "`database` means nothing here"),
        (SPEC + "configuration:\n  spark.x: 1\n", "`configuration` means nothing here"),
        (SPEC.replace("parts/**", "nothing/**"), "no file is matched by nothing/**"),
        (SPEC.replace("storage: store", "storage: s3a://example.com/x"), "is no local directory"),
        (SPEC.replace("  - glob:", "  - &a glob:"), "line 5"),
    ],
)
def test_bad_specs(shop: Path, capsys: Shown, spec: str, told: str) -> None:
    (shop / "spark-pipeline.yml").write_text(spec)
    assert main(["run", str(shop / "spark-pipeline.yml")]) == 1
    assert told in capsys.readouterr().err


def test_the_part_of_yaml() -> None:
    text = "a: 1 # x\nb:\n- c: 'd # e'\n  f: g\n- h\nk:\n  l:\n    - m: n\n  other:\np: {}\n"
    assert read_yaml(text, "f") == {
        "a": "1",
        "b": [{"c": "d # e", "f": "g"}, "h"],
        "k": {"l": [{"m": "n"}], "other": None},
        "p": {},
    }
    with pytest.raises(ParseError, match="f, line 2"):
        read_yaml("a: 1\n b: 2\n", "f")


def test_views_as_functions(tmp_path: Path) -> None:
    @hw.materialized_view(schema="name STRING", comment="those above one")
    def high(totals):  # type: ignore[no-untyped-def]
        return [{"name": t.name} for t in totals if t.t > 1]

    @hw.materialized_view(name="totals", table_properties={"headwater.strategy": "first-order"})
    def summed() -> str:
        return "SELECT name, sum(x) AS t FROM s GROUP BY name"

    with hw.open(tmp_path / "db") as db:
        db.source("s", "name STRING, x BIGINT")
        db.apply({"s": [("a", 1), ("b", 2)]})
        commit = db.define([high, summed])
        assert db.table("high").to_pylist() == [{"name": "b", "_w": 1}]
        assert db.catalog.views["totals"].strategy == "first-order"
        version = db.version
        assert (
            commit.version == version
            and db.define([high, summed]).repeated
            and db.version == version
        )
        wrong = hw.materialized_view(name="high", schema="name BIGINT")(
            lambda: "SELECT name FROM totals"
        )
        with pytest.raises(QueryError, match="is to have the columns"):
            db.define([wrong])
        with pytest.raises(QueryError, match="gives a value of type int"):
            db.define([hw.materialized_view(name="n")(lambda: 3)])
        assert db.version == version


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"spark_conf": {"a": "b"}}, "`spark_conf`"),
        ({"partition_cols": ["a"]}, "`partition_cols`"),
        ({"cluster_by": ["a"]}, "`cluster_by`"),
        ({"format": "delta"}, "`format`"),
        ({"table_properties": {"x.y": "1"}}, "the property `x.y`"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(QueryError, match=told):
        hw.materialized_view(**given)(lambda: "SELECT 1 AS one")  # type: ignore[call-overload]
