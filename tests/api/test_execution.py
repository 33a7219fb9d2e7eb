"""`execution=` of `hw.open`: where changes are carried through the views; the answers are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from corpus_edits import entries
from headwater.errors import EngineError

VIEWS = {
    "by_key": "SELECT k, sum(v) AS s, count(*) AS n FROM r GROUP BY k",
    "joined": "SELECT g.name, max(v) AS m, count(DISTINCT v) AS d FROM r JOIN g ON r.k = g.k GROUP BY g.name",
    "without": "SELECT k, v FROM r WHERE NOT EXISTS (SELECT 1 FROM g WHERE g.k = r.k)",
}


def played(path: Path, execution: Any) -> tuple[dict[str, list[Any]], list[Any], set[str]]:
    """The entries of all maps, what views tell, and where it was carried through."""
    with hw.open(path, execution=execution) as db:
        db.source("r", "k BIGINT, v BIGINT")
        db.source("g", "k BIGINT, name STRING")
        for name, query in VIEWS.items():
            db.view(name, query)
        commits = [
            db.apply({"r": [(i % 5, i) for i in range(20)], "g": [(1, "a"), (2, "a"), (3, "b")]}),
            db.apply({"r": hw.Delta(inserts=[(3, 100)], deletes=[(1, 1), (2, 17)])}),
            db.apply({"g": hw.Delta(inserts=[(4, "b")], deletes=[(1, "a")])}),
        ]
        told = [
            sorted(map(str, db.changes_table(name, 0).to_pylist()))
            for name in VIEWS
        ]  # fmt: skip
        for name in VIEWS:
            db.verify(name)
        return (
            {n: sorted(map(str, e)) for n, e in entries(db).items()},
            told,
            {c.where for c in commits},
        )


@pytest.mark.spark
def test_increments_on_spark_give_the_same_answers(tmp_path: Path) -> None:
    here, spark = played(tmp_path / "here", "here"), played(tmp_path / "spark", "spark")
    assert spark[:2] == here[:2]
    assert (here[2], spark[2]) == ({"driver"}, {"spark"})


def test_another_execution_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="'driver' is no way to carry changes through views"):
        hw.open(tmp_path, execution="driver")  # type: ignore[arg-type]


@pytest.mark.spark
def test_what_only_spark_evaluates_is_refused_here(tmp_path: Path) -> None:
    with hw.open(tmp_path, execution="here") as db:
        db.source("r", "k BIGINT, v STRING")
        db.view("hashed", "SELECT k, soundex(v) AS s FROM r")
        with pytest.raises(EngineError, match=r"only Spark can evaluate `.*soundex"):
            db.apply({"r": [(1, "a")]})
    with hw.open(tmp_path) as db:
        db.apply({"r": [(1, "tymczak")]})
        assert db.table("hashed").to_pylist()[0]["s"] == "T522"


@pytest.mark.spark
def test_one_change_is_carried_where_it_asks_for(tmp_path: Path) -> None:
    with hw.open(tmp_path) as db:
        db.source("r", "k BIGINT, v BIGINT")
        db.view("by_key", VIEWS["by_key"])
        where = [
            db.apply({"r": [(n, n)]}, execution=asked).where
            for n, asked in enumerate((None, "spark", "here", "auto"))
        ]
        assert where == ["driver", "spark", "driver", "driver"]
        with pytest.raises(EngineError, match="'there' is no way"):
            db.apply({"r": [(1, 1)]}, execution="there")  # type: ignore[arg-type]
        assert sorted(r["k"] for r in db.table("by_key").to_pylist()) == [0, 1, 2, 3]
        db.verify()
