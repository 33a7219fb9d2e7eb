"""A rebuild starts loops in diffuse mode anew: what they and all that reads them change by is told, as where a view is replaced."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from edits import bag
from headwater import flow
from headwater.api import feeds
from sink_stories import lines_in
from sink_stories import rows_of as sinks_rows

NEAR = """WITH MUTUALLY RECURSIVE x (node BIGINT, v DOUBLE) AS (
  SELECT n.node, 0.5D + 0.03D*coalesce(sum(x.v), 0.0D) FROM nodes n LEFT JOIN edges e ON e.dst = n.node
  LEFT JOIN x ON x.node = e.src GROUP BY n.node) SELECT node, v FROM x"""
ABOVE = {
    "above": "SELECT count(*) AS n, sum(v) AS s FROM v",
    "higher": "SELECT n, s FROM above WHERE s > 0",
    "some": "SELECT node, v FROM v WHERE node > 0",
    "best": "SELECT node, v FROM v ORDER BY v DESC LIMIT 1",
    "ranked": "SELECT node, v, row_number() OVER (ORDER BY v, node) AS place FROM v",
    "values": "SELECT DISTINCT v FROM v",
    "beside": "SELECT e.src AS src, x.v AS v FROM edges e JOIN v x ON x.node = e.dst",
}
NESTED = """SELECT e.src AS src, collect_list(struct(x.v AS v)) AS vs FROM edges e JOIN v x ON x.node = e.dst
            GROUP BY e.src"""
EXACT = {
    "degrees": "SELECT src, count(*) AS n FROM edges GROUP BY src",
    "exact": NEAR,
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.source("nodes", "node BIGINT")
        made.source("edges", "src BIGINT, dst BIGINT")
        made.source("asked", "node BIGINT")
        made.view("v", NEAR, mode="diffuse", cut=1e-2, rounds=300)
        yield made


def moved(db: hw.Database) -> None:
    """Changes after which X* is not what it would be from its start."""
    db.apply({"nodes": [(0,), (1,)], "edges": [(0, 1), (1, 1)]})
    db.apply({"edges": [(1, 0)]})
    db.apply({"edges": hw.Delta(deletes=[(1, 1)])})


def values(db: hw.Database, version: int | None = None) -> dict[int, float]:
    return {r["node"]: r["v"] for r in db.table("v", version).to_pylist()}


def rows_of(table: pa.Table) -> Counter[str]:
    """Rows counted, whatever they are of."""
    out: Counter[str] = Counter()
    for r in table.to_pylist():
        w = r.pop("_w")
        r.pop("_version", None)
        out[json.dumps(r)] += w
    return Counter({r: w for r, w in out.items() if w})


def whole(db: hw.Database, name: str, version: int) -> Counter[str]:
    """All rows of a view in the form of its changes; none before it was defined."""
    if version < db.catalog.views[name].created:
        return Counter()
    return rows_of(db.whole_table(name, version))


def check_told(db: hw.Database, name: str, since: int, until: int) -> Counter[str]:
    """What is told of a view from one version to another is the difference of what it has."""
    told = rows_of(db.changes_table(name, since, until))
    after = whole(db, name, until)
    after.subtract(whole(db, name, since))
    assert told == Counter({r: w for r, w in after.items() if w}), (name, since, until)
    return told


# --- feeds --------------------------------------------------------------------------------------------------------------


def test_a_rebuild_tells_what_it_moves(db: hw.Database) -> None:
    """Found: both feeds were empty, and the rows others."""
    db.view("above", ABOVE["above"])
    moved(db)
    before, n = values(db), db.version
    db.rebuild()
    after = values(db)
    assert db.version == n + 1 and before != after
    assert max(abs(before[k] - after[k]) for k in after) < 1e-2
    told = bag(db.changes_table("v", n))
    assert told == Counter(
        {(repr(k), repr(x)): w for d, w in ((before, -1), (after, 1)) for k, x in d.items()}
    )
    assert len(check_told(db, "above", n, n + 1)) == 2
    kinds = Counter(db.cdc_table("v", n).column("_change_type").to_pylist())
    assert kinds == Counter(insert=2, delete=2)


def test_views_above_are_told_at_any_height(db: hw.Database) -> None:
    for name, query in {**ABOVE, "nested": NESTED}.items():
        db.view(name, query)
    moved(db)
    n = db.version
    db.rebuild()
    for name in db.views:
        assert check_told(db, name, n, n + 1), name
    assert set(db.changes_table("nested", n).column("_path").to_pylist()) == {"vs"}, (
        "the rows around what moved stay"
    )


def test_several_versions_with_rebuilds_among_them(db: hw.Database) -> None:
    for name, query in {**ABOVE, "nested": NESTED, **EXACT}.items():
        db.view(name, query)
    first = db.version
    moved(db)
    db.rebuild()
    db.apply({"nodes": [(2,)], "edges": [(2, 0), (0, 2)]})
    db.apply({"edges": hw.Delta(deletes=[(2, 0)])})
    db.rebuild()
    db.rebuild()
    db.apply({"edges": [(1, 2)]})
    last = db.version
    for name in db.views:
        assert check_told(db, name, 0, last) == whole(db, name, last)
        for since in range(first, last):
            check_told(db, name, since, since + 1)
            check_told(db, name, since, last)
        assert not db.changes_table(name, last - 2, last - 1).num_rows, "it starts from the same"


def test_views_that_no_such_loop_reaches_are_not_read(
    db: hw.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, query in EXACT.items():
        db.view(name, query)

    @db.stage("degrees", out="src BIGINT, n BIGINT", name="seen")
    def seen(row: Any) -> Any:
        return row.src, row.n

    moved(db)
    db.run()
    n = db.version
    with monkeypatch.context() as patch:
        patch.setattr(feeds.Held, "rows", None)
        db.rebuild()
        for name in EXACT:
            assert not db.changes_table(name, n).num_rows
    assert not db.graph.cursors["seen", "degrees"].at


def test_after_reopening(db: hw.Database) -> None:
    for name, query in {"above": ABOVE["above"], "nested": NESTED}.items():
        db.view(name, query)
    moved(db)
    n, told = db.version, {}
    db.rebuild()
    for name in db.views:
        told[name] = check_told(db, name, n, n + 1)
    db.close()
    with hw.open(db.path) as again:
        for name in again.views:
            assert check_told(again, name, n, n + 1) == told[name] != Counter()
            assert check_told(again, name, 0, n + 1) == whole(again, name, n + 1)
        again.apply({"edges": [(1, 1)]})
        check_told(again, "above", n, again.version)


def test_the_view_has_another_name_since(db: hw.Database) -> None:
    db.view("above", ABOVE["above"])
    moved(db)
    n = db.version
    db.rebuild()
    db.rename("v", "w")
    db.apply({"edges": [(1, 1)]})
    for name in ("w", "above"):
        assert check_told(db, name, n, n + 1)
        check_told(db, name, n, db.version)


def test_one_that_was_exact_before_is_told_too(db: hw.Database) -> None:
    db.view("exact", NEAR)
    moved(db)
    n = db.version
    db.view("exact", NEAR, mode="diffuse", cut=1e-2, rounds=300, replace=True)
    db.rebuild()
    db.view("exact", NEAR, replace=True)
    for since in range(n, db.version):
        check_told(db, "exact", since, db.version)


def test_an_upgrade_tells_it(db: hw.Database) -> None:
    db.view("above", ABOVE["above"])
    moved(db)
    n = db.version
    db.upgrade()
    assert check_told(db, "v", n, n + 1) and check_told(db, "above", n, n + 1)


# --- who reads it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v", "above", "nested"])
def test_a_sink_has_the_rows_afterwards(db: hw.Database, name: str, tmp_path: Path) -> None:
    db.view("above", ABOVE["above"])
    db.view("nested", NESTED)
    db.sink("out", name, format="jsonl", path=str(tmp_path / "out"))
    moved(db)
    db.sync()
    db.rebuild()
    db.sync()
    assert lines_in(tmp_path / "out") == sinks_rows(db, name)


def test_a_function_is_given_the_difference(db: hw.Database) -> None:
    rows: Counter[tuple[str, ...]] = Counter()
    calls: list[int] = []

    def follow(changes: pa.Table, version: int) -> None:
        rows.update(bag(changes))
        calls.append(version)

    sink = db.sink("out", "v", foreach=follow)
    moved(db)
    sink.sync()
    db.rebuild()
    sink.sync()
    db.apply({"edges": [(1, 1)]})
    db.rebuild()
    sink.sync()
    assert Counter({r: w for r, w in rows.items() if w}) == bag(db.table("v"))
    assert len(calls) == 3


def test_copies_follow(db: hw.Database, tmp_path: Path) -> None:
    db.view("nested", NESTED)
    flat, deep = hw.ParquetCopy(tmp_path / "flat"), hw.ParquetCopy(tmp_path / "deep")
    moved(db)
    for _ in range(2):
        flat.sync(db["v"])
        deep.sync(db["nested"])
        assert rows_of(flat.rows()) == rows_of(db.table("v"))
        assert rows_of(deep.rows()) == rows_of(db.table("nested"))
        db.rebuild()
    assert len(flat._names()) == 2, "by what changed"


def test_stages_are_sent_the_difference(db: hw.Database) -> None:
    db.view("above", ABOVE["above"])
    db.view("nested", NESTED)

    @db.stage("v", out="node BIGINT, v DOUBLE", name="rows")
    def rows(row: Any) -> Any:
        return row.node, row.v

    @db.stage("above", out="n BIGINT, s DOUBLE", name="sums")
    def sums(row: Any) -> Any:
        return row.n, row.s

    @db.stage("nested", out="src BIGINT, vs STRING", name="inner")
    def inner(row: Any) -> Any:
        return row.src, str([x["v"] for x in row.vs])

    seen: list[tuple[int, float, int]] = []

    @db.stage(flow.reads("v", by="node", changes=True), out="node BIGINT", name="taken")
    def taken(key: Any, found: Any) -> Any:
        seen.extend((r.node, r.v, r._w) for r in found)
        return []

    moved(db)
    db.run()
    before = values(db)
    seen.clear()
    db.rebuild()
    after, rebuilt = values(db), db.version
    assert db.settled_version() < rebuilt, "they have something to read"
    db.run()
    both = ((before, -1), (after, 1))
    assert sorted(seen) == sorted((k, x, w) for d, w in both for k, x in d.items())
    assert bag(db.table("rows")) == bag(db.table("v"))
    assert bag(db.table("sums")) == bag(db.table("above"))
    expected = [(r["src"], str([x["v"] for x in r["vs"]])) for r in db.table("nested").to_pylist()]
    found = [(r["src"], r["vs"]) for r in db.table("inner").to_pylist()]
    assert sorted(found) == sorted(expected)
    assert db.settled_version() == db.version


def test_what_stages_look_up_follows(db: hw.Database) -> None:
    """An index of a view has its rows by key, and none that it had before."""

    @db.stage(
        "asked",
        by="node",
        lookups={"x": flow.lookup("v", on="node")},
        out="node BIGINT, vs STRING",
        name="answered",
    )
    def answered(key: Any, asked: Any, x: Any) -> Any:
        return key, str([r.v for r in x])

    moved(db)
    db.run()
    db.rebuild()
    db.apply({"asked": [(0,), (1,)]})
    db.run()
    found = {r["node"]: r["vs"] for r in db.table("answered").to_pylist()}
    assert found == {n: str([v]) for n, v in values(db).items()}
