"""`execution=` of `hw.open`: where changes are carried through the views; the answers are the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from corpus_edits import entries
from headwater.engine import policy
from headwater.engine.change import FOLDER
from headwater.errors import EngineError, HeadwaterError

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


def by_key(db: hw.Database, rng: random.Random) -> list[Any]:
    """Events by key, flat, nested and with sequences, beside rows with weights; what each commit says of them."""
    db.source("s", "id BIGINT, v STRING", key="id", strict=False)
    db.source("q", "id BIGINT, v BIGINT, ts BIGINT", key="id", sequence_by="ts")
    db.source("c", "id BIGINT, o ARRAY<STRUCT<k: BIGINT, v: BIGINT>>", key=["id", "o.k"])
    db.view("n", "SELECT v, count(*) AS n, min(id) AS least FROM s GROUP BY v")
    out: list[Any] = []
    for turn in range(3):
        ups = [(rng.randrange(30), f"v{rng.randrange(4)}") for _ in range(40)]
        events = pa.table(
            {
                "id": [rng.randrange(9) for _ in range(30)],
                "v": [rng.randrange(4) for _ in range(30)],
                "ts": [turn * 10 + rng.randrange(25) for _ in range(30)],
                "_change_type": [rng.choice(["upsert", "delete_key"]) for _ in range(30)],
            }
        )
        nested = [
            {"id": i, "o": [{"k": k, "v": turn} for k in range(i % 3)]} for i in range(turn, 6)
        ]
        told = db.apply(
            {
                "s": hw.Delta(
                    inserts=[(100 + turn, "w")], upserts=ups, deletes=[(5 * turn,), (77,)]
                ),
                "q": events,
                "c": hw.Delta(upserts=nested),
            }
        )
        out.append((told.rows, told.ignored, told.stale))
    for change in (
        {"c": hw.Delta(deletes=[{"id": 99}])},
        {"s": hw.Delta(upserts=[(None, "x")])},
    ):
        with pytest.raises(HeadwaterError) as caught:
            db.apply(change)
        out.append(str(caught.value))
    return out + [told_of(db, n) for n in ("s", "q", "c", "n")]


def told_of(db: hw.Database, name: str) -> list[str]:
    return sorted(map(str, db.changes_table(name, 0).to_pylist()))


@pytest.mark.spark
def test_changes_by_key_in_tasks_are_those_of_this_process(tmp_path: Path) -> None:
    """The same rows, what is stale and ignored, and the same refusals."""
    made = []
    for execution in ("here", "spark"):
        with hw.open(tmp_path / execution, execution=execution) as db:  # type: ignore[arg-type]
            made.append(by_key(db, random.Random(3)))
            assert not list((db.path / FOLDER).glob("*"))
    assert made[0] == made[1]


@pytest.mark.spark
def test_statements_in_tasks_are_those_of_this_process(tmp_path: Path) -> None:
    """INSERT, UPDATE and DELETE find rows, with their weights, by tasks, and queries are answered there."""
    made: list[Any] = []
    for execution in ("here", "spark"):
        with hw.open(tmp_path / execution, execution=execution) as db:  # type: ignore[arg-type]
            db.source("r", "k BIGINT, v DECIMAL(8,2), w STRING")
            db.source("g", "k BIGINT, name STRING")
            db.view("by_key", VIEWS["by_key"])
            db.apply({"r": [(i % 5, i // 2, "a") for i in range(20)] * 2, "g": [(1, "x")]})
            done = [
                db.execute(text)
                for text in (
                    "UPDATE r SET v = v * 2, w = NULL WHERE k IN (SELECT k FROM g) OR v > 8",
                    "DELETE FROM r WHERE k = 2",
                    "INSERT INTO r (k, v) SELECT k + 10, count(*) FROM r GROUP BY k",
                    "INSERT INTO g SELECT k, w FROM r WHERE k = 3",
                    "DELETE FROM r WHERE k = 77",
                )
            ]
            where = {c.where for c in done[:-1]}
            assert where == {"spark" if execution == "spark" else "driver"}
            assert done[-1].version == done[-2].version  # nothing was there to delete
            asked = db.answer("SELECT k, sum(v) AS s FROM r GROUP BY k ORDER BY s DESC, k")
            made.append((asked.to_pylist(), *(told_of(db, n) for n in ("r", "g", "by_key"))))
            db.verify()
    assert made[0] == made[1]


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


def test_changes_go_where_they_are_sooner() -> None:
    """Two cores of Spark are slower than two of this process, sixteen are not; for few rows nobody is asked."""

    def here(rows: int, cores: int | None) -> bool:
        return policy.carried_here(rows, 6, 4_000_000, 2, lambda: cores)

    assert here(1_500_000, 2) and here(1_500_000, None)
    assert not here(1_500_000, 16)
    assert not here(4_000_001, 2)  # more than is held here

    def refused() -> int:
        raise AssertionError("Spark was asked for its cores")

    assert policy.carried_here(100_000, 6, 4_000_000, 2, refused)
