"""Sources that get columns, and wider ones: the database is one that had them from the start, with NULL in the rows before."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from dying_files import Dying
from faulty_files import Stopped
from headwater.errors import DefinedAnew, HeadwaterError, InUse, NameTaken, QueryError

VIEWS = {
    "totals": "SELECT g, sum(v) AS v, count(*) AS n FROM s GROUP BY g",
    "joined": "SELECT s.id, s.v, t.name FROM s JOIN t ON s.g = t.g",
    "all_of_it": "SELECT {all} FROM s",
    "highest": "SELECT id, v FROM (SELECT id, v, row_number() OVER (PARTITION BY g ORDER BY v, id) AS r FROM s) WHERE r < 3",
    "twice": "SELECT n, count(*) AS m FROM totals GROUP BY n",
    "different": "SELECT count(*) AS n FROM (SELECT DISTINCT {all} FROM s)",
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


def rows(db: hw.Database, name: str, version: int | None = None) -> list[Any]:
    found = db.table(name, version).to_pylist()
    return sorted((tuple(r.values())[:-1] for r in found for _ in range(r["_w"])), key=repr)


@pytest.mark.parametrize("keyed", [True, False])
def test_a_source_that_got_columns_is_one_that_had_them(tmp_path: Path, keyed: bool) -> None:
    """Rows come and go before and after, over a database that is opened again; views of all kinds go on, and new ones read the columns."""
    rng = random.Random(3)
    said: dict[str, Any] = {"key": "id"} if keyed else {}
    old, new = "id BIGINT, g BIGINT, v BIGINT", "id BIGINT, w STRING, g BIGINT, v BIGINT, x DOUBLE"
    there: dict[int, tuple[Any, ...]] = {}

    def change(wide: bool) -> hw.Delta:
        gone = {k: there.pop(k) for k in rng.sample(sorted(there), len(there) // 4)}
        came = {
            k: (
                k,
                rng.choice("ab") if wide else None,
                rng.randrange(3),
                rng.randrange(4),
                0.5 if wide else None,
            )
            for k in rng.sample(range(60), 12)
            if k not in there
        }
        there.update(came)
        return hw.Delta(inserts=list(came.values()), deletes=list(gone.values()))

    def narrow(d: hw.Delta) -> hw.Delta:
        cut = [[(r[0], r[2], r[3]) for r in part] for part in (d.inserts, d.deletes)]
        return hw.Delta(inserts=cut[0], deletes=cut[1])

    with hw.open(tmp_path / "a") as a, hw.open(tmp_path / "b") as b:
        for db, ddl in ((a, old), (b, new)):
            db.source("s", ddl, **said)
            db.source("t", "g BIGINT, name STRING")
            db.apply({"t": [(0, "zero"), (1, "one")]})
        for n, text in VIEWS.items():
            a.view(n, text.replace("{all}", "*"))
            b.view(n, text.replace("{all}", "id, g, v"))
        for _ in range(4):
            d = change(False)
            a.apply({"s": narrow(d)})
            b.apply({"s": d})
        before = {n: rows(a, n) for n in (*VIEWS, "s")}
        at = a.version
        a.source("s", new, **said)
        assert {n: rows(a, n) for n in VIEWS} == {n: before[n] for n in VIEWS}
        assert a.source("s", new, **said) and a.version == at + 1  # again it is no change
        later = "SELECT w, count(x) AS n, max(v) AS v FROM s GROUP BY w"
        for db in (a, b):
            db.view("later", later)
    with hw.open(tmp_path / "a") as a, hw.open(tmp_path / "b") as b:
        for i in range(8):
            d = change(True)
            a.apply({"s": d})
            b.apply({"s": d})
            if i == 4:
                a.rebuild()
            for n in (*VIEWS, "s", "later"):
                assert rows(a, n) == rows(b, n), n
        assert {n: rows(a, n, at) for n in (*VIEWS, "s")} == before
        assert a.changes_table("s", at + 1).num_rows == b.changes_table("s", b.version - 8).num_rows
        assert a.changes_table("totals", at).num_rows > 0
        with pytest.raises(DefinedAnew, match="other columns"):
            a.changes_table("s", at - 1)


def test_numbers_become_wider(db: hw.Database) -> None:
    """Where no view reads the source; its key may be among them, and rows are found as before."""
    db.source("s", "id INT, v FLOAT, d DECIMAL(4,2)", key="id")
    db.apply({"s": [(1, 0.5, Decimal("1.25"))]})
    db.source("s", "id BIGINT, v DOUBLE, d DECIMAL(12,3), more STRING", key="id")
    db.apply({"s": hw.Delta(upserts=[(1 << 40, 1.5, None, "a")], deletes=[1])})
    assert rows(db, "s") == [(1 << 40, 1.5, None, "a")]
    assert db["s"].lookup(1 << 40) is not None
    db.source("s", "id BIGINT, v DOUBLE, d DECIMAL(12,3), more STRING, last INT", key="id")
    assert rows(db, "s") == [(1 << 40, 1.5, None, "a", None)]


@pytest.mark.parametrize(
    ("ddl", "said", "kind", "words"),
    [
        ("id BIGINT, v INT, x STRING NOT NULL", {}, QueryError, "`x`"),
        ("id BIGINT", {}, NameTaken, "already"),
        ("id BIGINT, v STRING", {}, NameTaken, "already"),
        ("id BIGINT, v SMALLINT, x INT", {}, NameTaken, "already"),
        ("id BIGINT, v DATE", {}, NameTaken, "already"),
        ("id BIGINT, v INT, x INT", {"static": True}, NameTaken, "already"),
        ("id BIGINT, v INT, _w INT", {}, QueryError, "_w"),
    ],
)
def test_columns_that_a_source_cannot_get(
    db: hw.Database, ddl: str, said: dict[str, Any], kind: type[HeadwaterError], words: str
) -> None:
    db.source("s", "id BIGINT, v INT", key="id")
    db.view("t", "SELECT v, count(*) AS n FROM s GROUP BY v")
    db.apply({"s": [(1, 1)]})
    before = db.version
    with pytest.raises(kind, match=words):
        db.source("s", ddl, key="id", **said)
    assert (db.version, rows(db, "s")) == (before, [(1, 1)])


WIDER_VIEWS = {
    "totals": "SELECT g, sum(v) AS v, avg(d) AS d, count(*) AS n, max(f) AS f FROM s GROUP BY g",
    "joined": "SELECT s.id, s.v, s.d, t.name FROM s JOIN t ON s.v = t.g",
    "same": "SELECT * FROM s",
    "highest": "SELECT id, v FROM (SELECT id, v, row_number() OVER (PARTITION BY g ORDER BY v, id) AS r FROM s) WHERE r < 3",
    "twice": "SELECT v, count(*) AS m, sum(d) AS d FROM totals GROUP BY v",
    "different": "SELECT count(DISTINCT v) AS n, min(v) AS v FROM s",
    "other": "SELECT g, count(*) AS n FROM s WHERE v > 1 GROUP BY g",
    "keys": "SELECT name FROM t WHERE g NOT IN (SELECT v FROM s WHERE v IS NOT NULL)",
    "reach": "WITH RECURSIVE r(a, b) AS (SELECT v, id FROM s UNION SELECT r.a, s.id FROM r JOIN s ON r.b = s.v) SELECT a, b FROM r",
}


@pytest.mark.parametrize("more", ["", ", x STRING"])
def test_wider_types_where_views_read(tmp_path: Path, more: str) -> None:
    """The database is one that was declared with the wider types: the same rows in the same types, before and after more of them."""
    rng = random.Random(5)
    old = "id INT, g INT, v INT, d DECIMAL(6,2), f FLOAT"
    new = f"id BIGINT, g INT, v BIGINT, d DECIMAL(12,3), f DOUBLE{more}"
    there: dict[int, tuple[Any, ...]] = {}

    def change(large: int) -> hw.Delta:
        gone = [there.pop(k) for k in rng.sample(sorted(there), len(there) // 4)]
        for k in rng.sample(range(60), 12):
            if k not in there:
                v = rng.choice([None, 0, 1, 2, 3]) if rng.random() < 0.8 else large
                d = Decimal(rng.randrange(999)) / 100
                there[k] = (k, rng.randrange(3), v, d, rng.randrange(9) / 8)
                came.append(there[k])
        return hw.Delta(inserts=list(came), deletes=gone)

    came: list[Any] = []
    a, b = hw.open(tmp_path / "a"), hw.open(tmp_path / "b")
    for db, ddl in ((a, old), (b, new)):
        db.source("s", ddl, key="id")
        db.source("t", "g INT, name STRING")
        db.apply({"t": [(0, "zero"), (1, "one"), (9, "nine")]})
        for n, text in WIDER_VIEWS.items():
            columns = "id, g, v, d, f" if db is b else "*"  # which are those that there were
            db.view(n, text.replace("*", columns) if n == "same" else text)
    for _ in range(3):
        came.clear()
        d = change(7)
        for db in (a, b):
            db.apply({"s": d if db is a or not more else _with_more(d)})
    names = ("s", *WIDER_VIEWS)
    at, before = a.version, {n: rows(a, n) for n in names}
    a.source("s", new, key="id")
    assert a.version == at + 1
    a.source("s", new, key="id")
    assert a.version == at + 1
    for n in names:
        assert (rows(a, n), a.table(n).schema) == (rows(b, n), b.table(n).schema), n
    assert {n: rows(a, n, at) for n in names} == before
    a.close()
    a = hw.open(tmp_path / "a")
    for i in range(3):
        came.clear()
        d = change(1 << 40)
        for db in (a, b):
            db.apply({"s": _with_more(d) if more else d})
        for n in names:
            assert rows(a, n) == rows(b, n), (i, n)
    assert told(a, "other", at) == told(b, "other", b.version - 3)
    a.close()
    b.close()


def _with_more(d: hw.Delta) -> hw.Delta:
    return hw.Delta(
        inserts=[(*r, None) for r in d.inserts], deletes=[(*r, None) for r in d.deletes]
    )


def told(db: hw.Database, name: str, since: int) -> dict[Any, int]:
    out: dict[Any, int] = {}
    for r in db.changes_table(name, since).to_pylist():
        row = tuple(x for n, x in r.items() if n not in ("_w", "_version"))
        out[row] = out.get(row, 0) + r["_w"]
    return {r: w for r, w in out.items() if w}


@pytest.mark.parametrize("where", ["before", "after"])
def test_wider_types_are_there_or_not(tmp_path: Path, where: str) -> None:
    """A process that dies at any write leaves the source and its view as they were, or both over the wider type."""
    for write in range(1, 12):
        path = tmp_path / f"{where}{write}"
        with hw.open(path) as db:
            db.source("s", "g INT, v INT")
            db.view("t", "SELECT v, count(*) AS n FROM s GROUP BY v")
            db.apply({"s": [(1, 1), (1, 2)]})
        with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Stopped, HeadwaterError):
            dying = Dying(write, where).over(patched)
            with hw.open(path) as db:
                db.source("s", "g INT, v BIGINT")
        with hw.open(path) as db:
            wide = "bigint" in db.catalog.sources["s"].ddl.lower()
            assert ("bigint" in db.catalog.views["t"].ddl.split(",")[0].lower()) == wide
            assert rows(db, "s") == [(1, 1), (1, 2)] and rows(db, "t") == [(1, 1), (2, 1)]
            db.source("s", "g INT, v BIGINT")
            db.apply({"s": [(1, 1 << 40)]})
            assert len(rows(db, "t")) == 3
        if not dying.dead:
            break
    assert write > 3 and not dying.dead


def test_wider_types_that_readers_cannot_follow(db: hw.Database) -> None:
    """Each is refused with who reads it, and nothing is changed."""
    db.source("s", "id INT, v INT, at INT", key="id", sequence_by="at")
    db.source("u", "id INT, v INT", retain=False)
    db.source("w", "id INT, v INT")
    db.view("t", "SELECT v, count(*) AS n FROM u GROUP BY v")
    db.view("y", "SELECT v FROM w")
    db.stage("y", out="v INT")(copied)
    for name, ddl, said, words in [
        ("s", "id BIGINT, v INT, at INT", {"key": "id", "sequence_by": "at"}, "remembered"),
        ("s", "id INT, v INT, at BIGINT", {"key": "id", "sequence_by": "at"}, "remembered"),
        ("u", "id INT, v BIGINT", {"retain": False}, "the view `t`"),
        ("w", "id INT, v BIGINT", {}, "the stage `copied`"),
    ]:
        version = db.version
        with pytest.raises(HeadwaterError, match=words):
            db.source(name, ddl, **said)
        assert db.version == version


def copied(row: Any) -> Any:
    yield (row.v,)


def test_nested_sources_get_columns(tmp_path: Path) -> None:
    """A plain column, and an array, which is NULL in the rows that are there; inner rows and views of both kinds go on."""
    old = "id BIGINT, o ARRAY<STRUCT<k BIGINT, q BIGINT, n ARRAY<STRUCT<x BIGINT>>>>"
    new = "id BIGINT, w STRING, o ARRAY<STRUCT<k BIGINT, q BIGINT, n ARRAY<STRUCT<x BIGINT>>>>, p ARRAY<STRUCT<y BIGINT>>"
    key = ["id", "o.k"]

    @hw.query
    def some(c: Any) -> Any:
        return [{"id": x.id, "some": [{"q": y.q} for y in x.o if y.q > 1]} for x in c]

    flat = "SELECT y.q, count(*) AS n FROM c LATERAL VIEW explode(o) AS y GROUP BY y.q"
    first = [(1, [(1, 1, [(5,)]), (2, 2, [])]), (2, None)]
    later = [(3, "a", [(1, 2, [(6,)])], [(7,)]), (4, None, [], None)]
    a, b = hw.open(tmp_path / "a"), hw.open(tmp_path / "b")
    for db, ddl in ((a, old), (b, new)):
        db.source("c", ddl, key=key)
        db.view("some", some)
        db.view("flat", flat)
    a.apply({"c": first})
    b.apply({"c": [(i, None, o, None) for i, o in first]})
    at, before = a.version, nested(a, "c")
    a.source("c", new, key=key)
    assert a.version == at + 1
    a.close()
    a = hw.open(tmp_path / "a")
    for db in (a, b):
        db.apply({"c": later})
        db.apply({"c": hw.Delta(upserts=[(1, "b", [(1, 9, None)], [(8,)])], deletes=[2])})
        db.apply({"c.o": [(4, 3, 7, [(1,)])]})
        db.view("more", "SELECT id, w, y.y FROM c LATERAL VIEW explode(p) AS y")
    for n in ("c", "some", "flat", "more"):
        assert nested(a, n) == nested(b, n), n
    assert nested(a, "c", at) == before
    a.rebuild()
    for n in ("c", "some", "flat", "more"):
        assert nested(a, n) == nested(b, n), n
    a.close()
    b.close()


def nested(db: hw.Database, name: str, version: int | None = None) -> list[str]:
    def plain(v: Any) -> Any:
        if isinstance(v, list):
            return sorted((plain(x) for x in v), key=repr)
        return {k: plain(x) for k, x in v.items()} if isinstance(v, dict) else v

    return sorted(repr(plain(r)) for r in db.table(name, version).to_pylist())


@pytest.mark.parametrize("retain", [True, "open"])
def test_sources_that_are_closed_get_columns(tmp_path: Path, retain: Any) -> None:
    """What is final stays so, late rows that were set aside have NULL in the new column, and hours go on to close."""
    old, new = "h INT, v INT", "x STRING, h INT, v INT"
    said: dict[str, Any] = {"closes": "h", "late": "aside", "retain": retain}
    a, b = hw.open(tmp_path / "a"), hw.open(tmp_path / "b")
    for db, ddl in ((a, old), (b, new)):
        db.source("s", ddl, **said)
        db.view("t", "SELECT h, count(*) AS n, max(v) AS v FROM s GROUP BY h")
        for rows_of, h in ([(1, 1), (2, 5)], 1), ([(1, 7), (2, 6)], None):
            given = [(None, *r) for r in rows_of] if db is b else rows_of
            points = {"punctuate": {"s": hw.closed(h=h)}} if h else {}
            db.apply({"s": given}, **points)
    a.source("s", new, **said)
    a.close()
    a = hw.open(tmp_path / "a")
    for db in (a, b):
        db.apply({"s": [("a", 1, 9), ("b", 2, 8), ("c", 3, 1)]}, punctuate={"s": hw.closed(h=2)})
        db.compact()
        db.apply({"s": [("d", 3, 2), ("e", 2, 1)]})
    assert rows(a, "t") == rows(b, "t") == [(1, 1, 1), (2, 3, 8), (3, 2, 2)]
    late = [db.late_table("s").drop_columns(["_version"]).to_pylist() for db in (a, b)]
    assert late[0] == late[1] and [r["x"] for r in late[0]] == [None, "a", "e"]
    assert rows(a, "s") == rows(b, "s")
    final = [db.final_table("t").drop_columns(["_version"]).to_pylist() for db in (a, b)]
    assert final[0] == final[1] and len(final[0]) == 2
    a.close()
    b.close()


def test_sources_that_go_on_as_they_are(db: hw.Database) -> None:
    """Those that stages and streams read, whose rows a view gives as they are, or whose columns that are closed get wider."""
    db.source("c", "v BIGINT")
    db.source("d", "day INT", closes="day")
    db.source("e", "v INT")
    db.source("f", "id BIGINT, v INT, o ARRAY<BIGINT>", key="id")
    db.stage("c", out="v BIGINT")(copied)

    @hw.query
    def same(e: Any) -> Any:
        return [x for x in e]

    db.view("same", same)
    for name, ddl, said, words in [
        ("c", "v BIGINT, x INT", {}, "the stage `copied`"),
        ("d", "day BIGINT", {"closes": "day"}, "are closed"),
        ("e", "v INT, x INT", {}, "the view `same`"),
        ("f", "id BIGINT, v BIGINT, o ARRAY<BIGINT>", {"key": "id"}, "arrays"),
    ]:
        version = db.version
        with pytest.raises(InUse, match=words):
            db.source(name, ddl, **said)
        assert db.version == version


def test_a_source_without_a_copy_gets_columns(db: hw.Database) -> None:
    db.source("s", "g BIGINT, v BIGINT", retain=False)
    db.view("t", "SELECT g, sum(v) AS v FROM s GROUP BY g")
    db.apply({"s": [(1, 1)]})
    db.source("s", "g BIGINT, v BIGINT, x STRING", retain=False)
    db.apply({"s": pa.table({"g": [1], "v": [2], "x": ["a"]})})
    assert rows(db, "t") == [(1, 3)]


@pytest.mark.spark
def test_a_view_of_then_is_verified(db: hw.Database) -> None:
    """A `*` is the columns that there were, whatever Spark would make of it now."""
    db.source("s", "id BIGINT, v BIGINT")
    db.view("star", "SELECT * FROM s")
    db.view("n", "SELECT v, count(*) AS n FROM s GROUP BY v")
    db.apply({"s": [(1, 1), (1, 1), (2, 1)]})
    db.source("s", "id BIGINT, v BIGINT, x STRING")
    db.apply({"s": [(1, 1, "a"), (1, 1, "b")]})
    db.verify()
    assert rows(db, "star") == [(1, 1)] * 4 + [(2, 1)]
