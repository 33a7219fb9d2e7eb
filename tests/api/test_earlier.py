"""Databases that earlier versions have written: they open, show what they showed at every version, and go on.

`32406bf.tar.gz` is of the version before programs were stored: flat, nested and static sources; sums of doubles, scalar
subqueries, running windows, outer and anti joins, divisions that are counted, views over views, before and after data.
`expected.json` has the rows of five versions. Its writer is the story in its log; `test_directory` has an older one.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.plan import stored

ARCHIVE = Path(__file__).parents[1] / "data" / "32406bf.tar.gz"
NEWEST = 30


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def plain(value: Any) -> Any:
    """A value as the archive has it: bags sorted, and what JSON has no words for as text."""
    match value:
        case dict():
            return {k: plain(v) for k, v in sorted(value.items())}
        case list():
            return sorted(map(plain, value), key=lambda v: json.dumps(v, sort_keys=True))
        case int() | float() | str() | None:
            return value
        case _:
            return str(value)


def shown(table: pa.Table) -> list[str]:
    return sorted(json.dumps(plain(r), sort_keys=True) for r in table.to_pylist())


def everything(db: hw.Database) -> dict[str, list[str]]:
    return {n: shown(db.table(n)) for n in (*db.sources, *db.views)}


def assert_as_it_was(db: hw.Database, folder: Path) -> None:
    for version, tables in json.loads((folder / "expected.json").read_text("utf-8")).items():
        for name, rows in tables.items():
            assert shown(db.table(name, int(version))) == rows, (version, name)


def test_it_shows_what_it_showed_and_goes_on(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hw.open(earlier / "db") as db:
        db.policy.execution = "driver"
        assert db.version == NEWEST
        assert not stored.is_stored(db.store.at().version.facts)
        assert_as_it_was(db, earlier)
        gone = [{n: v for n, v in r.items() if n != "_w"} for r in db.table("s").to_pylist()[:3]]
        new = [{**r, "k": (r["k"] + 1) % 4, "x": 1e300} for r in gone]
        db.apply({"s": hw.Delta(inserts=new, deletes=gone), "t": [(1, 4)]})
        db.apply({"p.kids": [{"id": 4, "age": 50, "pets": ["z"]}]})
        newest = everything(db)
        kept = dict(db.program.maps)
    # The first commit has stored the program that was compiled: from then on nothing is.
    monkeypatch.setattr("headwater.plan.statements.Materializer.__init__", None)
    with hw.open(earlier / "db") as db:
        db.policy.execution = "driver"
        assert stored.is_stored(db.store.at().version.facts)
        assert everything(db) == newest and db.program.maps == kept
        db.apply({"s": hw.Delta(deletes=new)})
        db.apply({"s": hw.Delta(inserts=new)})
        assert everything(db) == newest
    monkeypatch.undo()
    with hw.open(earlier / "db") as db:
        db.policy.execution = "driver"
        assert_as_it_was(db, earlier)
        db.view("late", "SELECT v, count(*) AS n FROM s GROUP BY v")
        db.rebuild()
        found = everything(db)
        assert {n: found[n] for n in newest} == newest
        assert not db.check().problems
