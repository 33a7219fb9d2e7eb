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


# --- updates ----------------------------------------------------------------------------------------------------------


def kinds(db: hw.Database, name: str, since: int) -> list[tuple[Any, ...]]:
    """The changes in the form cdc, in their order, with their kind."""
    out = []
    for r in db.cdc_table(name, since).to_pylist():
        kind, version = r.pop("_change_type"), r.pop("_commit_version")
        r.pop("_commit_timestamp")
        out.append((version - since, kind, *r.values()))
    return out


def test_groups_are_updated(db: hw.Database) -> None:
    """A group whose row went and came in one version: the old row, then the new one; the others as before."""
    db.view("q", "SELECT sum(x) AS v, k AS g FROM s GROUP BY k")
    first = db.apply({"s": [(1, 2), (2, 3)]}).version
    db.apply({"s": hw.Delta(inserts=[(1, 5), (7, 7)], deletes=[(2, 3)])})
    db.apply({"s": [(1, 1)]})
    found = kinds(db, "q", first)
    assert sorted(found[:4], key=repr) == [
        (1, "delete", 3, 2),
        (1, "insert", 7, 7),
        (1, "update_postimage", 7, 1),
        (1, "update_preimage", 2, 1),
    ]
    old = found.index((1, "update_preimage", 2, 1))
    assert found[old + 1] == (1, "update_postimage", 7, 1)
    assert found[4:] == [(2, "update_preimage", 7, 1), (2, "update_postimage", 8, 1)]


def test_a_total_is_updated(db: hw.Database) -> None:
    db.view("n", "SELECT count(*) AS n FROM s")
    first = db.version
    db.apply({"s": [(1, 2)]})
    assert kinds(db, "n", first) == [(1, "update_preimage", 0), (1, "update_postimage", 1)]


def test_rows_without_a_key_come_and_go(db: hw.Database) -> None:
    """No key is told where groups are not shown, rows of a group are several, or the view says none."""
    db.view("hidden", "SELECT x % 2 AS odd, sum(x) AS v FROM s GROUP BY k, x % 2")
    db.view("ranked", "SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x) AS n FROM s")
    db.view("plain", "SELECT k, x FROM s")
    first = db.apply({"s": [(1, 2)]}).version
    db.apply({"s": hw.Delta(inserts=[(1, 4)], deletes=[(1, 2)])})
    for name in db.views:
        assert {k for _, k, *_ in kinds(db, name, first)} == {"insert", "delete"}, name


def test_the_key_of_a_view_and_of_a_source(tmp_path: Path) -> None:
    with hw.open(tmp_path / "keyed") as db:
        db.source("t", "ID BIGINT, x BIGINT, s STRING", key="id")
        db.source("u", "id BIGINT, x BIGINT")
        db.view("carried", "SELECT x + 1 AS y, ID AS name FROM t WHERE x > 1")
        db.view("lost", "SELECT x, s FROM t")
        db.view("said", "SELECT id, x FROM u", key="id")
        db.apply({"t": [(1, 2, "a"), (2, 1, "b")], "u": [(1, 2), (1, 3)]})
        first = db.version
        change = hw.Delta(inserts=[(1, 3, "a"), (2, 2, "b")], deletes=[(1, 2, "a"), (2, 1, "b")])
        db.apply({"t": change, "u": hw.Delta(inserts=[(1, 5)], deletes=[(1, 2), (1, 3)])})
        assert sorted(kinds(db, "carried", first), key=repr) == [
            (1, "insert", 3, 2),  # it passes the condition now
            (1, "update_postimage", 4, 1),
            (1, "update_preimage", 3, 1),
        ]
        assert {k for _, k, *_ in kinds(db, "lost", first)} == {"insert", "delete"}
        assert Counter(k for _, k, *_ in kinds(db, "said", first)) == {
            "update_preimage": 1,
            "update_postimage": 1,
            "delete": 1,
        }


def test_what_a_feed_says_can_be_applied(db: hw.Database, tmp_path: Path) -> None:
    """A source that is given the feed of a view has the rows of the view."""
    db.view("q", SUMS)
    with hw.open(tmp_path / "other") as other:
        other.source("q", "k BIGINT, v BIGINT", key="k")
        draw, there = random.Random(3), list[tuple[int, int]]()
        for _ in range(8):
            since = db.version
            came = [(draw.randint(0, 3), draw.randint(1, 3)) for _ in range(draw.randint(0, 3))]
            gone = draw.sample(there, min(len(there), 2))
            there += came
            for g in gone:
                there.remove(g)
            db.apply({"s": hw.Delta(inserts=came, deletes=gone)})
            other.apply({"q": db.cdc_table("q", since)})
            assert bag(other.table("q")) == bag(db.table("q"))
