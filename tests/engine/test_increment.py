"""An increment gives the changes of the views that are wanted, here and on Spark, as they are read back later."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.api import carrying
from headwater.engine.increment import Increment
from increment_changes import applied
from spark_session import session

VIEWS = {
    "stored": "SELECT o.id, l.price FROM orders o JOIN lines l ON o.id = l.order_id",
    "grouped": "SELECT who, sum(price) AS total, avg(price) AS mean FROM orders JOIN lines ON id = order_id GROUP BY who",
    "whole": "SELECT count(*) AS n, max(price) AS most FROM lines",
    "distinct_ones": "SELECT who, count(DISTINCT day) AS days FROM orders GROUP BY who",
    "having": "SELECT order_id, min(price) AS least FROM lines GROUP BY order_id HAVING count(*) > 1",
    "over_a_view": "SELECT days, count(*) AS n FROM distinct_ones GROUP BY days",
    "first_ones": "SELECT id, who FROM orders ORDER BY day DESC, id LIMIT 3",
    "windows": "SELECT id, row_number() OVER (PARTITION BY who ORDER BY day, id) AS place FROM orders",
    "without": "SELECT id FROM orders WHERE NOT EXISTS (SELECT 1 FROM lines WHERE order_id = id)",
    "outer_join": "SELECT id, price FROM orders LEFT JOIN lines ON id = order_id",
}


@hw.query
def nested(orders, lines):  # type: ignore[no-untyped-def]
    return [
        {"id": o.id, "lines": [{"price": x.price} for x in lines if x.order_id == o.id]}
        for o in orders
    ]


def declared(db: hw.Database) -> None:
    db.source("orders", "id BIGINT, who STRING, day INT")
    db.source("lines", "order_id BIGINT, price BIGINT")
    for name, query in VIEWS.items():
        db.view(name, query)
    db.view("nested", nested)


def story(seed: int, steps: int) -> Iterator[dict[str, hw.Delta]]:
    """Changes of both sources; rows come, and go again."""
    draw = random.Random(seed)
    there: dict[str, list[tuple[object, ...]]] = {"orders": [], "lines": []}
    for _ in range(steps):
        new: dict[str, list[tuple[object, ...]]] = {
            "orders": [(draw.randrange(9), draw.choice("abc"), draw.randrange(4)) for _ in "123"],
            "lines": [(draw.randrange(9), draw.randrange(5)) for _ in "1234"],
        }
        step: dict[str, hw.Delta] = {}
        for name in there:
            if draw.randrange(4):
                gone = draw.sample(there[name], len(there[name]) // 3)
                for row in gone:
                    there[name].remove(row)
                there[name] += new[name]
                step[name] = hw.Delta(new[name], gone)
        yield step


@pytest.mark.parametrize("several", ["at once", "in sequence"])
def test_all_views_here(tmp_path: Path, several: str) -> None:
    with hw.open(tmp_path / "db") as db:
        db.policy.execution, db.policy.several = "driver", several  # type: ignore[assignment]
        declared(db)
        for change in story(1, 8):
            applied(db, change)


@pytest.mark.spark
def test_all_views_on_spark(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db", spark=session()) as db:
        db.policy.execution = "spark"
        declared(db)
        for change in story(2, 2):
            assert applied(db, change).where == "spark"


def test_only_what_is_wanted_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Increment] = []

    def wanting(*given: Any) -> Increment:
        made.append(Increment(*given[:5], frozenset({"grouped"})))
        return made[-1]

    with hw.open(tmp_path / "db") as db:
        db.source("orders", "id BIGINT, who STRING, day INT")
        db.source("lines", "order_id BIGINT, price BIGINT")
        db.view("grouped", VIEWS["grouped"])
        db.view("whole", VIEWS["whole"])
        monkeypatch.setattr(carrying, "Increment", wanting)
        db.apply({"orders": [(1, "a", 1)], "lines": [(1, 5)]})
        (increment,) = made
        found = increment.changes_of(db.program.views["grouped"])
        assert found.to_pylist() == [{"who": "a", "total": 5, "mean": 5.0, "_w": 1}]
        assert len(increment.answers) == 1
        with pytest.raises(AssertionError, match="whole"):
            increment.changes_of(db.program.views["whole"])
