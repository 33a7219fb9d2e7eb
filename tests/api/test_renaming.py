"""Names that change: a database in which something was renamed is one in which it was called so from the start."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from dying_files import Dying
from faulty_files import Stopped
from headwater.errors import HeadwaterError, InUse, NameTaken, QueryError, UnknownName

VIEWS = {
    "totals": "SELECT g, sum(v) AS v, count(DISTINCT v) AS n FROM {s} GROUP BY g",
    "joined": "SELECT {s}.id, {s}.v, t.name FROM {s} JOIN t ON {s}.g = t.g",
    "twice": "SELECT n, count(*) AS m, max(v) AS v FROM {totals} GROUP BY n",
    "pairs": "SELECT a.id, b.id AS other FROM {s} a JOIN {s} b ON a.v = b.g WHERE a.id IN (SELECT id FROM {s} WHERE v > 1)",
    "first": "SELECT id, v FROM (SELECT id, v, row_number() OVER (PARTITION BY g ORDER BY v, id) AS r FROM {s}) WHERE r < 3",
    "reach": "WITH RECURSIVE r(a, b) AS (SELECT g, v FROM {s} UNION SELECT r.a, x.v FROM r JOIN {s} x ON r.b = x.g) SELECT a, b FROM r",
    "named": "WITH {totals} AS (SELECT g, max(v) AS v FROM {s} GROUP BY g) SELECT v, count(*) AS n FROM {totals} GROUP BY v",
    "none": "SELECT g FROM t WHERE NOT EXISTS (SELECT 1 FROM {s} x WHERE x.g = t.g)",
}


def views(s: str, totals: str) -> dict[str, str]:
    made = {n: q.format(s=s, totals=totals) for n, q in VIEWS.items()}
    return {(totals if n == "totals" else n): q for n, q in made.items()}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


def rows(db: hw.Database, name: str, version: int | None = None) -> list[Any]:
    found = db.table(name, version).to_pylist()
    return sorted((tuple(r.values())[:-1] for r in found for _ in range(r["_w"])), key=repr)


def told(db: hw.Database, name: str, since: int) -> list[Any]:
    """What changed of a view, added up."""
    out: dict[Any, int] = {}
    for r in db.changes_table(name, since).to_pylist():
        row = tuple(x for n, x in r.items() if n not in ("_w", "_version"))
        out[row] = out.get(row, 0) + r["_w"]
    return sorted(((r, w) for r, w in out.items() if w), key=repr)


@pytest.mark.parametrize(("new", "other"), [("a", "sums"), ("z", "b_totals")])
def test_a_source_and_a_view_that_got_other_names(tmp_path: Path, new: str, other: str) -> None:
    """Views of all kinds go on as those of a database that was defined with the new names; also opened again, and rebuilt."""
    rng = random.Random(7)
    there: dict[int, tuple[Any, ...]] = {}

    def change() -> hw.Delta:
        gone = [there.pop(k) for k in rng.sample(sorted(there), len(there) // 3)]
        came = {k: (k, rng.randrange(4), rng.randrange(4)) for k in rng.sample(range(40), 9)}
        came = {k: r for k, r in came.items() if k not in there}
        there.update(came)
        return hw.Delta(inserts=list(came.values()), deletes=gone)

    a, b = hw.open(tmp_path / "a"), hw.open(tmp_path / "b")
    for db, s, totals in ((a, "m", "totals"), (b, new, other)):
        db.source(s, "id BIGINT, g BIGINT, v BIGINT", key="id")
        db.source("t", "g BIGINT, name STRING")
        db.apply({"t": [(0, "zero"), (1, "one"), (9, "nine")]})
        for n, text in views(s, totals).items():
            db.view(n, text)
    for _ in range(3):
        d = change()
        a.apply({"m": d})
        b.apply({new: d})
    at, before = a.version, {n: rows(a, n) for n in ("m", *views("m", "totals"))}
    a.rename("m", new)
    a.rename("TOTALS", other)
    assert a.version == at + 2 and [*a.catalog.views] == [*b.catalog.views]
    for n, view in b.catalog.views.items():
        assert (a.catalog.views[n].row, a.catalog.readers(n)) == (view.row, b.catalog.readers(n))
    assert a.catalog.sources[new].held_in == b.catalog.sources[new].held_in
    a.close()
    a = hw.open(tmp_path / "a")
    names = [new, *views(new, other)]
    for i in range(4):
        d = change()
        for db in (a, b):
            db.apply({new: d})
        if i == 2:
            a.rebuild()
        assert {n: rows(a, n) for n in names} == {n: rows(b, n) for n in names}
    was = dict(zip(names, before.values(), strict=True))
    assert {n: rows(a, n, at) for n in names} == was
    assert rows(a, "m", at) == was[new]  # it is called so there
    for n in names:
        assert told(a, n, at) == told(b, n, b.version - 4), n
    for n, text in views(new, other).items():
        version = a.version
        a.view(n, a.catalog.views[n].text)
        a.view(n, text, replace=True)
        assert a.version <= version + 1
    a.close(), b.close()


def test_the_old_name_may_be_taken_by_another(db: hw.Database) -> None:
    """Nothing that was kept for the first is found for the second, though both are the same but for their rows."""
    query = "SELECT g, sum(v) AS v, max(v) AS m FROM s GROUP BY g"
    db.source("s", "g BIGINT, v BIGINT")
    db.view("t", query)
    db.apply({"s": [(1, 1), (1, 2)]})
    at = db.version
    db.rename("s", "old")
    db.rename("t", "was")
    db.source("s", "g BIGINT, v BIGINT")
    db.view("t", query)
    assert rows(db, "t") == [] and rows(db, "was") == [(1, 3, 2)]
    db.apply({"s": [(1, 5)], "old": [(2, 7)]})
    assert rows(db, "t") == [(1, 5, 5)] and rows(db, "was") == [(1, 3, 2), (2, 7, 7)]
    # What `t` has now, and had not at a version at which another was called so.
    assert told(db, "t", at) == [((1, 3, 2), -1), ((1, 5, 5), 1)]
    assert told(db, "was", at) == [((2, 7, 7), 1)]
    assert rows(db, "was", at) == rows(db, "t", at) == [(1, 3, 2)]
    db.rename("s", "x")
    db.rename("old", "s")
    db.apply({"s": [(3, 1)]})
    assert rows(db, "was")[-1] == (3, 1, 1) and rows(db, "t") == [(1, 5, 5)]
    assert db.catalog.views["t"].text == "SELECT g, sum(v) AS v, max(v) AS m FROM x GROUP BY g"


def test_nested_rows_and_functions(db: hw.Database) -> None:
    """The relations of arrays follow; of a query that is a function the stored term does, and the function by the new name is the same view."""
    db.source("c", "id BIGINT, o ARRAY<STRUCT<k BIGINT, q BIGINT>>", key="id")

    @hw.query
    def inner(c: Any) -> Any:
        return [{"id": x.id, "some": [{"q": y.q} for y in x.o if y.q > 1]} for x in c]

    @hw.query
    def named(customers: Any) -> Any:
        return [{"id": x.id, "some": [{"q": y.q} for y in x.o if y.q > 1]} for x in customers]

    db.view("v", inner)
    db.apply({"c": [(1, [(1, 1), (2, 2)])]})
    db.rename("c", "customers")
    db.apply({"customers": [(2, [(1, 3)])]})
    found = {r["id"]: r["some"] for r in db.table("v").to_pylist()}
    assert found == {1: [{"q": 2}], 2: [{"q": 3}]}
    version = db.version
    db.view("v", named)
    assert db.version == version
    assert db.lookup("v", [1]) == {"id": 1, "some": [{"q": 2}]}
    assert db.lookup("customers", [2]) == {"id": 2, "o": [{"k": 1, "q": 3}]}


def test_what_is_over_stays_over(tmp_path: Path) -> None:
    """Ledgers, late rows, watermarks, and deletions that are remembered, before and after it is opened again."""
    with hw.open(tmp_path / "db") as db:
        db.source("s", "h INT, v INT", closes="h", late="aside")
        db.source("k", "id INT, n INT, at INT", key="id", sequence_by="at")
        db.view("t", "SELECT h, count(*) AS n FROM s GROUP BY h")
        db.apply({"s": [(1, 1), (2, 1)]}, punctuate={"s": hw.closed(h=1)})
        db.apply({"s": [(1, 9)], "k": [(1, 1, 5), (2, 1, 5)]})
        db.apply({"k": hw.Delta(deletes=[{"id": 1, "at": 7}])})
        at = db.version
        db.rename("s", "calls")
        db.rename("t", "hours")
        db.rename("k", "events")
    with hw.open(tmp_path / "db") as db:
        assert db.final_table("hours").num_rows == 1 and db.late_table("calls").num_rows == 1
        db.apply({"calls": [(1, 9), (2, 2)]}, punctuate={"calls": hw.closed(h=2)})
        assert db.apply({"events": [(1, 2, 6)]}).stale
        assert rows(db, "events") == [(2, 1, 5)] and rows(db, "hours") == [(1, 1), (2, 2)]
        final = db.final_table("hours").select(["h", "n", "_version"]).to_pylist()
        assert [(r["h"], r["n"], r["_version"] > at) for r in final] == [
            (1, 1, False),
            (2, 2, True),
        ]
        assert db.late_table("calls").num_rows == 2 and db.late_table("calls", at).num_rows == 1


def test_feeds_and_sinks_go_on(tmp_path: Path) -> None:
    """Files are taken once, records that do not fit follow their source, and a target is the view's by its new name."""
    inbox, out = tmp_path / "inbox", tmp_path / "out"
    inbox.mkdir()
    (inbox / "a.csv").write_text("1,1\n2,x\n")

    def opened(db: hw.Database, name: str) -> None:
        db.source(
            name, "g INT, v INT", path=inbox, format="csv", options={"header": False}, bad="aside"
        )

    with hw.open(tmp_path / "db") as db:
        opened(db, "s")
        db.view("t", "SELECT g, sum(v) AS v FROM s GROUP BY g")
        db.sink("o", "t", format="jsonl", path=str(out))
        db.run()
        db.rename("s", "files")
        db.rename("t", "sums")
        db.rename("o", "lines")
        (inbox / "b.csv").write_text("1,2\n")
        db.run()
        assert rows(db, "sums") == [(1, 3)] and len(rows(db, "files_rejected")) == 1
        assert db.sink_status("lines").behind == 0 and db.sinks == ["lines"]
    with hw.open(tmp_path / "db") as db:
        opened(db, "files")
        db.sink("lines", "sums", format="jsonl", path=str(out))
        (inbox / "c.csv").write_text("4,4\n")
        db.run()
        assert rows(db, "files") == [(1, 1), (1, 2), (4, 4)]
        said = "".join(p.read_text() for p in sorted(out.rglob("*.jsonl")))
        assert said.count('"g": 4') + said.count('"g":4') == 1
        db.rename("files", "s")
        assert "s_rejected" in db.catalog.sources and "files_rejected" not in db.catalog.sources


def copied(row: Any) -> Any:
    yield row.v, row.n


def test_names_that_cannot_be(db: hw.Database) -> None:
    """Each is refused by name, and nothing changes."""
    db.source("s", "id BIGINT, v BIGINT")
    db.source("free", "id BIGINT")
    db.view("t", "SELECT v, count(*) AS n FROM s GROUP BY v")
    db.stage("t", out="v BIGINT, n BIGINT")(copied)
    db.source("k", "id BIGINT", format="kafka", options={"servers": "127.0.0.1:1"})
    version = db.version
    for old, new, kind, words in [
        ("nobody", "x", UnknownName, "nobody"),
        ("s", "free", NameTaken, "free"),
        ("s", "T", NameTaken, "T"),
        ("s", "no name", QueryError, "no name"),
        ("s", "Δs", QueryError, "Δs"),
        ("t", "x", InUse, "the stage `copied`"),
        ("copied", "x", QueryError, "a stage"),
        ("k", "x", InUse, "topic"),
        ("s", 3, QueryError, "3"),
    ]:
        with pytest.raises(kind, match=words):
            db.rename(old, new)  # type: ignore[arg-type]
    assert db.version == version
    db.rename("s", "s")
    assert db.version == version
    db.rename("s", "S")
    assert db.sources[0] == "S" and "FROM S" in db.catalog.views["t"].text


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_rename_is_there_or_not(tmp_path: Path, where: str) -> None:
    """A process that dies at any write leaves one name or the other, with all rows under it."""
    for write in range(1, 9):
        path = tmp_path / f"{where}{write}"
        with hw.open(path) as db:
            db.source("s", "g BIGINT, v BIGINT")
            db.view("t", "SELECT g, sum(v) AS v FROM s GROUP BY g")
            db.apply({"s": [(1, 1), (1, 2)]})
        with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Stopped, HeadwaterError):
            dying = Dying(write, where).over(patched)
            with hw.open(path) as db:
                db.rename("s", "renamed")
        with hw.open(path) as db:
            name = db.sources[0]
            assert name in ("s", "renamed") and rows(db, name) == [(1, 1), (1, 2)]
            assert f"FROM {name} " in db.catalog.views["t"].text
            db.apply({name: [(1, 4)]})
            assert rows(db, "t") == [(1, 7)]
        if not dying.dead:
            break
    assert write > 2 and not dying.dead


SCRIPT = """
CREATE SOURCE orders (id BIGINT, v BIGINT);
INSERT INTO orders VALUES (1, 2), (2, 3);
CREATE MATERIALIZED VIEW totals AS SELECT orders.v, count(*) AS n FROM orders GROUP BY orders.v;
ALTER SOURCE orders RENAME TO sales;
ALTER MATERIALIZED VIEW totals RENAME TO sums;
CREATE MATERIALIZED VIEW later AS SELECT n, count(*) AS m FROM sums GROUP BY n;
"""


def test_scripts_rename(tmp_path: Path, db: hw.Database) -> None:
    """Run again a script changes nothing, and what is none of its kind is refused by name."""
    script = tmp_path / "app.sql"
    script.write_text(SCRIPT)
    db.execute(script)
    version = db.version
    assert db.sources == ["sales"] and db.views == ["sums", "later"]
    assert rows(db, "later") == [(1, 2)]
    assert "FROM sales AS orders" in db.catalog.views["sums"].text
    db.execute(script)
    assert (db.version, db.sources, rows(db, "later")) == (version, ["sales"], [(1, 2)])
    for text, words in [
        ("ALTER SOURCE sums RENAME TO x", "is a view"),
        ("ALTER VIEW nobody RENAME TO x", "nobody"),
        ("ALTER SOURCE sales RENAME TO sums", "already"),
    ]:
        with pytest.raises(HeadwaterError, match=words):
            db.execute(text)


@pytest.mark.spark
def test_renamed_and_wider_views_are_verified(db: hw.Database) -> None:
    """Spark computes them from their texts; one that is recomputed goes on, too, and a sum of doubles is what it was."""
    db.source("s", "id INT, g INT, v INT, f FLOAT")
    db.view(
        "t",
        "SELECT s.g, sum(v) AS v, sum(f) AS f, upper(max(CAST(v AS STRING))) AS m FROM s GROUP BY s.g",
    )
    db.view("again", "SELECT g, v FROM t WHERE v > 1", strategy="recompute")
    db.apply({"s": [(1, 1, 1, 0.5), (2, 1, 2, 0.25), (3, 2, 1, None)]})
    db.rename("s", "rows_of")
    db.rename("t", "sums")
    db.rename("again", "anew")
    db.apply({"rows_of": [(4, 2, 7, 1.5)]})
    db.source("rows_of", "id BIGINT, g INT, v BIGINT, f DOUBLE")
    db.apply({"rows_of": [(5, 2, 1 << 40, 0.125)]})
    db.verify()
    assert rows(db, "anew") == [(1, 3), (2, (1 << 40) + 8)]
    assert [r["v"] for r in db["sums"].snapshot().collect()] == [3, (1 << 40) + 8]
