"""Stages over nested rows: whole rows of a view or source, old and new, and inner rows of a source by path."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import flow
from headwater.errors import StageError

SOURCE = "id BIGINT, name STRING, orders ARRAY<STRUCT<number: BIGINT, item: STRING>>"
VIEW = """SELECT name, collect_list(struct(item, number)) AS items FROM people LEFT JOIN orders ON id = person
          GROUP BY name"""


def seen_by(db: Any, name: str) -> Counter[Any]:
    return Counter({tuple(r.values())[:-1]: r["_w"] for r in db.table(name).to_pylist()})


def told(row: Any) -> Any:
    """A row by itself, with its inner rows as text."""
    inner = sorted(str(sorted(i.items(), key=str)) for i in row[-1] or ())
    return str(row[0]), "; ".join(inner)


def rows_now(db: Any, name: str) -> Counter[Any]:
    out: Counter[Any] = Counter()
    for r in db.table(name).to_pylist():
        n = r.pop("_w")
        out[told(tuple(r.values()))] += n
    return out


@pytest.mark.parametrize("late", [False, True])
def test_whole_rows_of_a_nested_source_and_its_inner_rows(tmp_path: Path, late: bool) -> None:
    db = hw.open(tmp_path / "db")
    db.source("customers", SOURCE, key=["id", "orders.number"])

    def whole(row: Any) -> Any:
        return told(row)

    def inner(order: Any) -> Any:
        return order.id, order.number, order.item

    def define() -> None:
        db.stage("customers", out="name STRING, inner STRING")(whole)
        db.stage("customers.orders", out="id BIGINT, number BIGINT, item STRING")(inner)

    if not late:
        define()
    db.apply(
        {"customers": [(1, "Ann", [(10, "lamp"), (11, "pen")]), (2, "Bob", []), (3, "Cy", None)]}
    )
    if late:
        define()
    db.run()

    def compare() -> None:
        assert seen_by(db, "whole") == rows_now(db, "customers")
        expected = {
            (r["id"], o["number"], o["item"])
            for r in db.table("customers").to_pylist()
            for o in r["orders"] or ()
        }
        assert set(seen_by(db, "inner")) == expected

    compare()
    steps: list[Any] = [
        {"customers.orders": hw.Delta(inserts=[{"id": 2, "number": 20, "item": "cup"}])},
        {"customers.orders": hw.Delta(deletes=[{"id": 1, "number": 10, "item": "lamp"}])},
        {"customers": hw.Delta(deletes=[(1, "Ann", [(11, "pen")])])},
        {"customers": [(1, "Anna", [(12, "ink")])]},
    ]
    for step in steps:
        db.apply(step)
        db.run()
        compare()


def test_whole_rows_of_a_nested_view(tmp_path: Path) -> None:
    db = hw.open(tmp_path / "db")
    db.source("people", "id BIGINT, name STRING")
    db.source("orders", "person BIGINT, number BIGINT, item STRING")
    db.view("baskets", VIEW)

    def whole(row: Any) -> Any:
        return told(row)

    def changes(name: Any, rows: Any, state: Any) -> Any:
        state.n = (state.n or 0) + len(rows)
        return name, state.n

    db.stage("baskets", out="name STRING, inner STRING")(whole)
    read = flow.reads("baskets", by="name", changes=True)
    db.stage(read, state="n BIGINT", out="name STRING, n BIGINT")(changes)
    db.apply({"people": [(1, "Ann"), (2, "Bob")], "orders": [(1, 10, "lamp"), (1, 11, "pen")]})
    db.run()
    assert seen_by(db, "whole") == rows_now(db, "baskets")
    db.apply({"orders": hw.Delta(inserts=[(1, 12, "ink")], deletes=[(1, 10, "lamp")])})
    db.run()
    assert seen_by(db, "whole") == rows_now(db, "baskets")
    assert db["changes"].state("Ann").n == 3  # the first row, then the old one and the new one
    assert db["changes"].state("Bob").n == 1
    with pytest.raises(StageError, match="an array of the view `baskets`"):
        db.stage("baskets.items", out="name STRING, inner STRING", name="no")(whole)
