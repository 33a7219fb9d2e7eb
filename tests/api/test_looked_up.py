"""Looking up rows of sources and flows that are flat: by the key that was declared, else by the whole row."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import NotRetained, QueryError, UnknownName


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with hw.open(tmp_path / "db") as made:
        made.source("users", "id BIGINT, name STRING, score DOUBLE", key="id")
        made.source("pairs", "name STRING, at DATE, n INT", key=["at", "name"])
        made.source("clicks", "user BIGINT, page STRING")
        made.source("passing", "x INT", retain=False)
        yield made


def test_rows_of_a_source_are_looked_up_by_its_key(db: Any) -> None:
    db.apply({"users": [(1, "a", 0.5), (2, "b", None)], "pairs": [("x", date(2024, 1, 2), 3)]})
    before = db.version
    db.apply({"users": hw.Delta(inserts=[(1, "c", 1.5)], deletes=[(1, "a", 0.5)])})
    assert db["users"].lookup(1).asDict() == {"id": 1, "name": "c", "score": 1.5}
    assert db["users"].lookup(1, version=before).name == "a"
    assert db["users"].lookup(2).score is None
    assert db["users"].lookup(3) is None
    assert db["pairs"].lookup(date(2024, 1, 2), "x").n == 3
    assert db["pairs"].lookup(date(2024, 1, 2), "y") is None


def test_rows_without_a_key_are_looked_up_by_all_of_their_columns(db: Any) -> None:
    @db.stage("clicks", out="page STRING, user BIGINT")
    def pages(click: Any) -> Any:
        return click.page, click.user

    db.apply({"clicks": [(1, "p"), (1, "p"), (2, "q")]})
    db.run()
    assert db["clicks"].lookup(1, "p").page == "p"
    assert db["pages"].lookup("q", 2).user == 2
    assert db["pages"].lookup("q", 1) is None
    db.apply({"clicks": hw.Delta(deletes=[(2, "q")])})
    db.run()
    assert db["pages"].lookup("q", 2) is None


@pytest.mark.parametrize(
    ("name", "key", "said"),
    [
        ("users", (1, 2), "looked up by id, and 2 values"),
        ("users", ("x",), "is no key of `users`"),
        ("clicks", (1,), "looked up by user, page, and 1 values"),
    ],
)
def test_what_is_no_key_is_said(db: Any, name: str, key: tuple[Any, ...], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        db[name].lookup(*key)


def test_rows_that_are_not_kept_cannot_be_looked_up(db: Any) -> None:
    with pytest.raises(NotRetained):
        db["passing"].lookup(1)
    db.view("grouped", "SELECT user FROM clicks WHERE user > 1")
    with pytest.raises(QueryError, match="are flat"):
        db["grouped"].lookup(1)


LOOKED_UP = {
    "totals": ("SELECT g, h, sum(v) AS v, avg(v) AS m FROM s GROUP BY g, h", ("g", "h")),
    "some": ("SELECT max(v) AS most, h FROM s GROUP BY h HAVING count(*) > 2", ("h",)),
    "above": (
        "SELECT n, count(*) AS often FROM (SELECT g, count(*) AS n FROM s GROUP BY g) GROUP BY n",
        ("n",),
    ),
    "joined": (
        "SELECT s.g, count(DISTINCT t.v) AS n FROM s JOIN s t ON s.h = t.h GROUP BY s.g",
        ("g",),
    ),
}


def test_rows_of_groups_are_looked_up(tmp_path: Path) -> None:
    """Every row of a view with groups, at every version, by its groups; what is not there is None."""
    rng = random.Random(4)
    with hw.open(tmp_path / "db") as db:
        db.source("s", "g INT, h STRING, v BIGINT")
        for n, (text, _) in LOOKED_UP.items():
            db.view(n, text)
        for _ in range(4):
            rows = [
                (rng.randrange(4), rng.choice(["a", "b", None]), rng.randrange(5)) for _ in range(6)
            ]
            at = db.apply({"s": rows}).version
            for n, (_, key) in LOOKED_UP.items():
                for row in db.table(n).drop_columns(["_w"]).to_pylist():
                    found = db[n].lookup(*(row[k] for k in key))
                    assert found is not None and found.asDict() == row, n
                assert db[n].lookup(*([77] if key != ("h",) else ["nobody"]), *key[1:]) is None
        before = db["totals"].lookup(*rows[0][:2], version=at)
        db.apply({"s": hw.Delta(deletes=rows)})
        assert db["totals"].lookup(*rows[0][:2], version=at) == before
        db.view("hidden", "SELECT count(*) AS n FROM s GROUP BY g")
        db.view("flat", "SELECT g FROM s WHERE v > 1")
        for name in ("hidden", "flat"):
            with pytest.raises(QueryError, match=f"`{name}`"):
                db[name].lookup(1)
        with pytest.raises(QueryError, match="g, h"):
            db["totals"].lookup(1)


KEYED = {
    "flat": ("SELECT id, v + 1 AS w FROM s WHERE v > 0", "id", ("id",)),
    "joined": ("SELECT s.v, s.id, t.name FROM s JOIN t ON s.g = t.g", ["ID"], ("id",)),
    "pairs": (
        "SELECT a.id, b.id AS other, a.v FROM s a JOIN s b ON a.g = b.g",
        ["other", "id"],
        ("other", "id"),
    ),
    "first": (
        "SELECT id, g, v FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY v, id) AS r FROM s) WHERE r = 1",
        "g",
        ("g",),
    ),
    "most": ("SELECT g, max(id) AS id FROM s GROUP BY g", "id", ("id",)),
    "groups": ("SELECT g, sum(v) AS v FROM s GROUP BY g", "g", ("g",)),
}


def test_rows_of_flat_views_are_looked_up_by_their_key(tmp_path: Path) -> None:
    """Every row at every version, as the whole view has it, also when it is opened again, replaced and renamed."""
    rng = random.Random(6)
    there: dict[int, tuple[Any, ...]] = {}
    with hw.open(tmp_path / "db") as db:
        db.source("s", "id INT, g INT, v BIGINT", key="id")
        db.source("t", "g INT, name STRING", key="g")
        db.apply({"t": [(0, "a"), (1, "b")]})
        for n, (text, key, _) in KEYED.items():
            db.view(n, text, key=key)
    with hw.open(tmp_path / "db") as db:
        for i in range(5):
            new = {k: (k, rng.randrange(3), rng.randrange(3)) for k in rng.sample(range(12), 5)}
            gone = [k for k in there if k not in new][:2]
            there = {k: r for k, r in {**there, **new}.items() if k not in gone}
            db.apply({"s": hw.Delta(upserts=list(new.values()), deletes=gone)})
            if i == 3:
                db.rebuild()
                db.rename("flat", "renamed")
                db.view(
                    "joined",
                    "SELECT s.v, s.id, t.name FROM s JOIN t ON s.g = t.g WHERE s.v > 0",
                    key="id",
                    replace=True,
                )
            for n, (_, _, key) in KEYED.items():
                n = "renamed" if n == "flat" and i >= 3 else n
                rows = db.table(n).drop_columns(["_w"]).to_pylist()
                for row in rows:
                    assert db.lookup(n, [row[k] for k in key]) == row, (n, row)
                assert db.lookup(n, [77] * len(key)) is None
        assert there and rows
        with pytest.raises(UnknownName, match="`x`"):
            db.view("wrong", "SELECT id FROM s", key="x")
        db.view("several", "SELECT g, id FROM s", key="g")
        group = max((r[1] for r in there.values()), key=[r[1] for r in there.values()].count)
        with pytest.raises(QueryError, match="different rows of `several`"):
            db.lookup("several", [group])
