"""Looking up rows of sources and flows that are flat: by the key that was declared, else by the whole row."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import NotRetained, QueryError


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
    db.view("grouped", "SELECT user, count(*) AS n FROM clicks GROUP BY user")
    with pytest.raises(QueryError, match="are flat"):
        db["grouped"].lookup(1)
