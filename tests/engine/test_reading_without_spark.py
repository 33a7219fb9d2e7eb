"""Reading starts no Java: what only Spark answers is answered when it is committed, and its rows are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkContext

import headwater as hw
from headwater.calculus.terms import Call, Term, children, rebuild
from headwater.calculus.types import INTEGER, STRING, bag, record
from headwater.engine.spark import session as sessions
from headwater.engine.spark.session import Session
from headwater.errors import EngineError
from headwater.language.sql import read_sql
from headwater.plan.compiler import Compiler
from headwater.plan.program import Answered, Program, Relations, keeps_answer
from spark_session import session

ROW = record(k=STRING, n=INTEGER)
COUNTED = "SELECT k, upper(max(k)) AS h, count(*) AS c FROM t GROUP BY k"


def only_spark(term: Term) -> Term:
    """The term with `upper` as a function that only Spark knows, as older databases have it."""
    if isinstance(term, Call) and term.function == "upper":
        return Call("spark:upper({0})", term.args, STRING)
    return rebuild(term, tuple(only_spark(c) for c in children(term)))


def test_rows_that_only_spark_tells_are_kept() -> None:
    term = read_sql(COUNTED, {"t": bag(ROW)})

    def compiler() -> Compiler:
        return Compiler(Program(relations=Relations({"t": ROW}, {"t": 0})), {})

    assert isinstance(compiler().view("v", term, "recursive", (), None).rows, Answered)
    assert keeps_answer(compiler().view("v", only_spark(term), "recursive", (), None))
    before = compiler().view("v", only_spark(term), "recursive")
    assert isinstance(before.rows, Answered), "as databases of before have it"


def test_what_goes_to_spark_is_named(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("t", "k STRING, n INT")
        assert "only Spark" not in db.can(COUNTED)
        said = db.can("SELECT k, CAST(n * 0.1 AS FLOAT) AS p FROM t")
        assert "only Spark evaluates" in said and "AS float)" in said
        short = "CAST(sum(n) * 0.1 AS FLOAT)"  # Java's own way to round
        view = db.view("v", f"SELECT k, sum(n) AS s FROM t GROUP BY k HAVING {short} > 8")
        assert "only Spark evaluates" in str(view.explain())


@pytest.mark.spark
def test_reading_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"k": ["a", "b", "a"], "n": pa.array([1, 2, 3], pa.int32())})
    with hw.open(tmp_path / "db", session()) as db:
        db.source("t", "k STRING, n INT")
        db.view("v", "SELECT k, hex(count(*)) AS h, soundex(k) AS s FROM t GROUP BY k")
        db.apply({"t": rows})
        version = db.version
        db.apply({"t": rows.slice(0, 1)})
        expected = {("a", "3", "A000"), ("b", "1", "B000")}

        def refuse(*_: Any) -> Any:
            raise AssertionError("Spark was asked")

        monkeypatch.setattr(Session, "_in_spark", refuse)
        assert {tuple(r.values())[:3] for r in db.table("v").to_pylist()} == expected
        changed = db.changes_table("v", since=version).to_pylist()
        assert {(r["h"], r["_w"]) for r in changed} == {("2", -1), ("3", 1)}
    with hw.open(tmp_path / "db", session()) as db:
        assert {tuple(r.values())[:3] for r in db.table("v").to_pylist()} == expected


@pytest.mark.parametrize("error", [AttributeError("no such field"), ConnectionError("refused")])
def test_errors_of_others_are_not_said_to_be_those_of_spark(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A session that was stopped answers with errors of Python, and so may any code: where they come from is looked at."""
    monkeypatch.setattr(sessions, "_alive", lambda: False)
    with pytest.raises(type(error), match=str(error)), sessions.telling("doing something"):
        raise error
    stopped: Any = object()
    with pytest.raises(EngineError, match="the session was stopped"), sessions.telling("working"):
        SparkContext.getConf(stopped)
