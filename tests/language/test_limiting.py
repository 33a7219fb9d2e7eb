"""LIMIT and OFFSET without an order: `verify` asks for what every answer has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import StateError
from headwater.language.sql.limiting import takes_some, unlimited
from spark_session import session

UNLIMITED = {
    "SELECT k FROM s LIMIT 3": "SELECT k FROM s ",
    "SELECT k FROM s LIMIT 3 OFFSET 2;": "SELECT k FROM s ",
    "SELECT k FROM s OFFSET 2": "SELECT k FROM s ",
    "SELECT k FROM s UNION ALL SELECT 1 LIMIT 3": "SELECT k FROM s UNION ALL SELECT 1 ",
    "SELECT k FROM (SELECT k FROM s ORDER BY k) LIMIT 3": "SELECT k FROM (SELECT k FROM s ORDER BY k) ",
    "SELECT k FROM s ORDER BY k LIMIT 3": None,
    "SELECT k FROM (SELECT k FROM s LIMIT 3)": None,
    "SELECT k FROM s": None,
    "SELECT 'LIMIT 3' AS x FROM s -- LIMIT 3": None,
}


@pytest.mark.parametrize("query", UNLIMITED)
def test_a_query_without_its_limit(query: str) -> None:
    assert unlimited(query) == UNLIMITED[query]
    assert takes_some(query) == ("LIMIT 3" in query.partition("'")[0] or "OFFSET" in query)


@pytest.mark.spark
def test_verify_of_a_limit_without_an_order(tmp_path: Path) -> None:
    """The right number of rows, each of them one of the query's, not more often than it is there."""
    with hw.open(tmp_path / "db", spark=session()) as db:
        db.source("s", "k BIGINT, x DOUBLE")
        db.view("few", "SELECT k, x FROM s LIMIT 3")
        db.view("later", "SELECT k, x FROM s LIMIT 2 OFFSET 1")
        db.view("rest", "SELECT k FROM s OFFSET 2")
        db.view("inside", "SELECT sum(k) AS t FROM (SELECT k FROM s LIMIT 2)")
        db.view("over", "SELECT count(*) AS n FROM FEW WHERE k > 1")
        db.verify()
        db.apply({"s": [(7, 1.5), (3, 0.5), (9, 2.5), (1, 0.1), (5, 0.25), (3, 0.5)]})
        db.verify()
        db.apply({"s": hw.Delta(deletes=[(7, 1.5), (1, 0.1)])})
        db.verify()
        db.verify("FEW")
        schema = db.table("few").schema
        for wrong in (
            [(3, 0.5, 2), (99, 1.0, 1)],  # a row that is not there
            [(5, 0.25, 3)],  # one more often than it is there
            [(3, 0.5, 2)],  # too few
        ):
            rows = [dict(zip(("k", "x", "_w"), r, strict=True)) for r in wrong]
            made = pa.Table.from_pylist(rows, schema)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(db, "table", lambda *_, t=made: t)
                with pytest.raises(StateError, match="differs from its query"):
                    db.verify("few")


def test_a_limit_of_rounds_takes_no_rows() -> None:
    head = "WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) t (a INT) AS (SELECT a FROM t)"
    assert not takes_some(f"{head} SELECT a FROM t")
    assert takes_some(f"{head} SELECT a FROM t LIMIT 3")
