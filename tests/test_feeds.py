"""What versions changed of a view: the rows that are told add up to the difference of what it has."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import QueryError


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.source("s", "k BIGINT, x BIGINT")
        yield made


def bag(table: Any) -> Counter[tuple[Any, ...]]:
    """Rows with weights as a bag."""
    out: Counter[tuple[Any, ...]] = Counter()
    for r in table.to_pylist():
        weight = r.pop("_w")
        r.pop("_version", None)
        out[tuple(r.values())] += weight
    return Counter({r: w for r, w in out.items() if w})


# --- views that are defined anew -------------------------------------------------------------------------------------

SUMS = "SELECT k, sum(x) AS v FROM s GROUP BY k"
MOST = "SELECT k, max(x) AS v FROM s GROUP BY k"


def test_a_view_defined_anew_tells_nothing_twice(db: hw.Database) -> None:
    """The same query again: nothing changed but what the source did in between."""
    db.view("q", SUMS)
    first = db.apply({"s": [(1, 2), (2, 3)]}).version
    db.drop("q")
    db.view("q", SUMS)
    assert db.changes_table("q", since=first).num_rows == 0
    assert db.cdc_table("q", since=first).num_rows == 0
    db.drop("q")
    db.apply({"s": [(1, 5), (7, 7)]})
    db.view("q", SUMS)
    assert bag(db.changes_table("q", since=first)) == {(1, 2): -1, (1, 7): 1, (7, 7): 1}
    assert bag(db.changes_table("q", since=0)) == bag(db.table("q"))


def test_the_rows_of_another_query_are_taken_back(db: hw.Database) -> None:
    db.view("q", SUMS)
    first = db.apply({"s": [(1, 2), (1, 3), (2, 3)]}).version
    db.drop("q")
    db.view("q", MOST)
    told = db.changes_table("q", since=first).to_pylist()
    assert {(r["k"], r["v"]): r["_w"] for r in told} == {(1, 5): -1, (1, 3): 1}
    assert {r["_version"] for r in told} == {db.version}
    kinds = db.cdc_table("q", since=first).to_pylist()
    assert len(kinds) == 2 and {r["k"] for r in kinds} == {1}


def test_other_columns_and_nested_rows_are_refused(db: hw.Database) -> None:
    db.view("q", SUMS)
    first = db.apply({"s": [(1, 2)]}).version
    db.drop("q")
    db.view("q", "SELECT k, count(*) AS n FROM s GROUP BY k")
    with pytest.raises(QueryError, match="defined anew"):
        db.changes_table("q", since=first)
    assert db.changes_table("q", since=db.version - 1).num_rows == 1
    nested = "SELECT k, collect_list(struct(x)) AS xs FROM s GROUP BY k"
    db.view("n", nested)
    first = db.version
    db.drop("n")
    db.view("n", nested)
    with pytest.raises(QueryError, match="nested rows"):
        db.changes_table("n", since=first)
    assert db.changes_table("n", since=first + 1).num_rows > 0


@pytest.mark.parametrize("seed", range(6))
def test_what_is_told_adds_up_whatever_happens(db: hw.Database, seed: int) -> None:
    """Between any two versions that have the view, the rows told are the difference; dropped, rebuilt or defined anew."""
    draw = random.Random(seed)
    queries = [SUMS, MOST, "SELECT k, x AS v FROM s", "SELECT DISTINCT k, x % 2 AS v FROM s"]
    there: list[tuple[int, int]] = []
    answers: dict[int, Counter[tuple[Any, ...]]] = {}
    for _ in range(16):
        act = draw.randint(0, 5)
        if "q" not in db.views:
            if act < 3:
                db.view("q", draw.choice(queries))
        elif act == 0:
            db.drop("q")
        elif act == 1:
            db.rebuild()
        if act > 2:
            gone = draw.sample(there, min(len(there), draw.randint(0, 2)))
            for g in gone:
                there.remove(g)
            came = [(draw.randint(0, 2), draw.randint(0, 3)) for _ in range(draw.randint(0, 3))]
            there += came
            db.apply({"s": hw.Delta(inserts=came, deletes=gone)})
        answers[db.version] = bag(db.table("q")) if "q" in db.views else Counter()
    for since, before in answers.items():
        for until, after in answers.items():
            if since < until and "view:q" in db.store.at(until).facts:
                told = bag(db.changes_table("q", since, until))
                wanted = Counter(after)
                wanted.subtract(before)
                assert told == {r: w for r, w in wanted.items() if w}, (since, until)
