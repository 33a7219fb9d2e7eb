"""Errors of ours: what is given wrongly is told by one, and each can be sent to another process."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import errors
from headwater.errors import (
    BadChange,
    DamagedState,
    HeadwaterError,
    IllTyped,
    NotIncremental,
    QueryError,
    SettingsDiffer,
    Span,
)

KINDS = [
    k
    for _, k in inspect.getmembers(errors, inspect.isclass)
    if issubclass(k, HeadwaterError) and k.__module__ == errors.__name__
]
MADE: dict[type, Any] = {
    IllTyped: lambda: IllTyped("x + y", "a number", "text"),
    NotIncremental: lambda: NotIncremental("CHANCE", "rand()", text="a\nb", span=Span(2, 1)),
    DamagedState: lambda: DamagedState("log/1", "it is empty", 7),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_an_error_is_the_same_after_pickling(kind: type[HeadwaterError], protocol: int) -> None:
    plain = lambda: kind("what", text="select x", span=Span(1, 8, 1), hint="do")  # noqa: E731
    error: HeadwaterError = MADE.get(kind, plain)()
    error.add_note("a note")
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is kind
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


def test_what_is_caught_has_a_name_at_the_top() -> None:
    assert hw.HeadwaterError is HeadwaterError
    assert all(issubclass(k, hw.HeadwaterError) for k in KINDS)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        with pytest.raises(QueryError, match="the name of a source is of type int"):
            db.source(5, "id BIGINT")  # type: ignore[arg-type]
        with pytest.raises(QueryError, match="the name of a view is of type int"):
            db.view(5, "SELECT 1 AS x")  # type: ignore[arg-type]
        with pytest.raises(QueryError, match="the schema is of type int"):
            db.source("s", 5)  # type: ignore[arg-type]
        with pytest.raises(BadChange, match="given for 5"):
            db.apply({5: []})  # type: ignore[dict-item]
        with pytest.raises(QueryError, match="no source or view `5`"):
            db[5]  # type: ignore[index]


def test_what_is_no_session_of_spark(tmp_path: Path) -> None:
    with pytest.raises(SettingsDiffer, match="of type str"):
        hw.open(tmp_path / "db", spark="local[2]")  # type: ignore[arg-type]
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(SettingsDiffer, match="Spark Connect"):
        hw.open(tmp_path / "db", spark=remote)
