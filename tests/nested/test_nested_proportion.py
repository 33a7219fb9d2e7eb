"""A change to one inner bag of a view with a hundred thousand rows writes, looks up and tells rows of that bag, and no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.here import statements as engine_rows
from headwater.engine.working import Working

OWNERS, LARGE = 100_000, 3_000
"""Rows of the view; inner rows of the bag that changes, of which the others have one each."""


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How many entries a commit writes, by map."""
    found: Counter[str] = Counter()
    before = Working.written

    def counted(self: Working, *args: Any, **named: Any) -> Any:
        made = before(self, *args, **named)
        found.update({n: sum(r.rows for r in refs) for n, refs in made.items()})
        return made

    monkeypatch.setattr(Working, "written", counted)
    yield found


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many rows each look-up finds."""
    seen: list[int] = []
    before: Callable[..., pa.Table] = engine_rows.look_up

    def counted(*args: Any, **named: Any) -> pa.Table:
        table = before(*args, **named)
        seen.append(table.num_rows)
        return table

    monkeypatch.setattr(engine_rows, "look_up", counted)
    yield seen


@hw.query
def people(owners, items):
    return [
        {"name": o.name, "items": [{"item": i.item, "n": i.n} for i in items if i.k == o.k]}
        for o in owners
    ]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    """The same rows as two flat sources with a nested view, and as a nested source that a view passes on."""
    keys = [*range(OWNERS), *([7] * (LARGE - 1))]
    names = [f"n{k}" for k in range(OWNERS)]
    items = pa.table({"k": keys, "item": ["pen"] * len(keys), "n": list(range(len(keys)))})
    one = [[{"item": "pen", "n": k}] for k in range(OWNERS)]
    one[7] += [{"item": "cup", "n": i} for i in range(LARGE - 1)]
    element = pa.struct([("item", pa.string()), ("n", pa.int64())])
    nested = pa.table(
        {"k": list(range(OWNERS)), "name": names, "items": pa.array(one, pa.list_(element))}
    )
    with hw.open(tmp_path / "db") as made:
        made.source("owners", "k BIGINT, name STRING")
        made.source("items", "k BIGINT, item STRING, n BIGINT")
        made.source(
            "nested", "k BIGINT, name STRING, items ARRAY<STRUCT<item: STRING, n: BIGINT>>", key="k"
        )
        made.view("flat_to_nested", people)
        made.view("passed_on", "SELECT name, items FROM nested")
        made.apply({"owners": pa.table({"k": list(range(OWNERS)), "name": names}), "items": items})
        made.apply({"nested": nested})
        yield made


def test_one_inner_row_of_a_hundred_thousand_bags(
    db: hw.Database, written: Counter[str], found: list[int]
) -> None:
    cases = [
        ("flat_to_nested", "items", [{"k": 7, "item": "hat", "n": -1}], []),
        ("flat_to_nested", "items", [], [{"k": 7, "item": "hat", "n": -1}]),
        ("flat_to_nested", "items", [], [{"k": 500, "item": "pen", "n": 500}]),
        ("passed_on", "nested.items", [{"k": 7, "item": "hat", "n": -1}], []),
        ("passed_on", "nested.items", [], [{"k": 7, "item": "hat", "n": -1}]),
        ("passed_on", "nested.items", [], [{"k": 500, "item": "pen", "n": 500}]),
    ]
    for view, source, came, gone in cases:
        written.clear()
        found.clear()
        db.apply({source: hw.Delta(came, gone)})
        told = db.changes_table(view, db.version - 1).to_pylist()
        (inner,) = [r for r in told if r["_path"] == "items"]
        assert told == [inner]
        (row,) = came or gone
        assert {n: inner["items"][n] for n in ("item", "n")} == {n: row[n] for n in ("item", "n")}
        assert inner["_w"] == (1 if came else -1)
        assert written and set(written.values()) == {1}, (view, written)
        assert sum(found) <= 2, (view, found)
    assert db.table("flat_to_nested").num_rows == OWNERS
