"""Copies of views outside: files and documents that follow a view, and are the view, whatever happens in between."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import headwater as hw
from comprehensions import canonical
from faulty_files import MemoryFiles, Stopped
from headwater.copies import LABELS, updated
from headwater.engine.nested.documents import Key
from headwater.engine.view_rows import repeated
from headwater.errors import DamagedState, QueryError, StateError


@hw.query
def customers_of(C, O, L):  # noqa: E741
    """Three levels, with a sum beside each inner bag, so that a change inside changes the rows around it."""
    return [
        {
            "id": c.id,
            "name": c.name,
            "count": len([o for o in O if o.customer == c.id]),
            "orders": [
                {
                    "order": o.order,
                    "day": o.day,
                    "total": sum(l.price for l in L if l.order == o.order),  # noqa: E741
                    "lines": [
                        {"part": l.part, "price": l.price}
                        for l in L  # noqa: E741
                        if l.order == o.order
                    ],
                }
                for o in O
                if o.customer == c.id
            ],
        }
        for c in C
    ]


@hw.query
def offers_of(C, L):
    """A bag that many rows share, by a column that is no key."""
    return [
        {"id": c.id, "name": c.name, "offers": [l.price for l in L if l.part == c.name]}  # noqa: E741
        for c in C
    ]


@hw.query
def busy(N):
    """Rows of a nested source, with one of its arrays filtered and one as it is."""
    return [
        {
            "id": n.id,
            "tags": n.tags,
            "orders": [
                {"order": o.order, "lines": o.lines, "many": [x.part for x in o.lines if x.n > 1]}
                for o in n.orders
            ],
        }
        for n in N
    ]


NESTED = """id BIGINT, name STRING, tags ARRAY<STRING>,
    orders ARRAY<STRUCT<order: BIGINT, day: DATE, lines: ARRAY<STRUCT<part: STRING, n: BIGINT>>>>"""
VIEWS: dict[str, Any] = {
    "customers_of": customers_of,
    "offers_of": offers_of,
    "busy": busy,
    "whole": "SELECT * FROM N",
    "flat": "SELECT customer, count(*) AS n, max(day) AS last FROM O GROUP BY customer",
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.source("C", "id BIGINT, name STRING")
        made.source("O", "order BIGINT, customer BIGINT, day DATE")
        made.source("L", "order BIGINT, part STRING, price DECIMAL(12,2)")
        made.source("N", NESTED, key=["id", "orders.order"])
        yield made


class Shop:
    """Random changes of the sources, at every level; inner rows come before their owners, and repeat."""

    def __init__(self, db: hw.Database, seed: int, sources: str = "COL"):
        self.db, self.random, self.sources = db, random.Random(seed), sources
        self.rows: dict[str, list[tuple[Any, ...]]] = {"C": [], "O": [], "L": []}
        self.nested: dict[int, dict[str, Any]] = {}

    def day(self) -> date:
        return date(2024, 1, 1) + timedelta(days=self.random.randint(0, 5))

    def row(self, source: str) -> tuple[Any, ...] | None:
        r = self.random
        if source == "C":
            free = set(range(6)) - {c[0] for c in self.rows["C"]}
            name = r.choice(["ax", "pin", None])
            return (r.choice(sorted(free)), name) if free else None
        if source == "O":
            return (r.randint(1, 6), r.choice([0, 1, 2, 3, 4, None]), self.day())
        return (r.randint(1, 6), r.choice(["ax", "pin", "o'clock"]), Decimal(r.randint(1, 4)) / 4)

    def change(self) -> None:
        """One version."""
        changes: dict[str, Any] = {}
        count = min(len(self.sources), self.random.randint(1, 2))
        for source in self.random.sample(self.sources, count):
            if source == "N":
                changes |= self.nested_change()
                continue
            rows = self.rows[source]
            gone = self.random.sample(rows, min(len(rows), self.random.randint(0, 2)))
            for g in gone:
                rows.remove(g)
            came = []
            for _ in range(self.random.randint(0, 3)):
                new = self.row(source)
                if new is not None:
                    rows.append(new)
                    came.append(new)
            changes[source] = hw.Delta(inserts=came, deletes=gone)
        self.db.apply(changes)

    def lines(self) -> list[dict[str, Any]] | None:
        r = self.random
        some = [{"part": r.choice("ab"), "n": r.randint(1, 2)} for _ in range(r.randint(0, 2))]
        return r.choice([some, some, [], None])

    def nested_change(self) -> dict[str, Any]:
        """A row of the nested source that comes or goes, or a change inside of one that is there."""
        r = self.random
        key = r.randint(1, 4)
        row = self.nested.get(key)
        if row is None:
            orders = [{"order": i, "day": self.day(), "lines": self.lines()} for i in range(3)]
            orders = r.choice([orders[: r.randint(0, 3)], orders, None])
            tags = r.choice([["x", "x", None], [], None])
            new = {"id": key, "name": r.choice("uv"), "tags": tags, "orders": orders}
            self.nested[key] = new
            return {"N": [new]}
        kind = r.choice(["row", "orders", "lines"])
        if kind == "orders" and row["orders"]:
            old = r.choice(row["orders"])
            changed = {**old, "day": old["day"] + timedelta(days=1)}
            row["orders"] = [changed if o is old else o for o in row["orders"]]
            return {"N.orders": hw.Delta([{"id": key, **changed}], [{"id": key, **old}])}
        if kind == "lines" and row["orders"]:
            o = r.choice(row["orders"])
            if o["lines"] is not None:
                line = {"part": r.choice("abc"), "n": r.randint(1, 2)}
                gone = o["lines"][:1]
                o["lines"] = [*o["lines"][1:], line]
                at = {"id": key, "order": o["order"]}
                return {"N.orders.lines": hw.Delta([at | line], [at | g for g in gone])}
        del self.nested[key]
        return {"N": hw.Delta(deletes=[row])}


class Store:
    """Documents in a dictionary, each with the version that it was written at; it may stop working at a call."""

    def __init__(self) -> None:
        self.documents: dict[Key, tuple[int, Any]] = {}
        self.at: int | None = None
        self.calls: list[tuple[str, Any]] = []
        self.left: int | None = None

    def version(self) -> int | None:
        return self.at

    def newer(self, what: str, key: Key, version: int) -> bool:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError("the store is away")
        self.calls.append((what, key))
        return key not in self.documents or self.documents[key][0] < version

    def put(self, key: Key, document: Any, version: int) -> None:
        if self.newer("put", key, version):
            self.documents[key] = (version, document)

    def delete(self, key: Key, version: int) -> None:
        if self.newer("delete", key, version):
            self.documents.pop(key, None)

    def done(self, version: int, whole: bool) -> None:
        self.at = version
        if whole:
            self.documents = {k: d for k, d in self.documents.items() if d[0] >= version}

    def rows(self) -> list[Any]:
        return [_plain(d) for _, d in self.documents.values()]


class Deep(Store):
    """One that can be changed inside."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[hw.DeepChange] = []

    def update(self, key: Key, changes: Sequence[hw.DeepChange], version: int) -> None:
        if self.newer("update", key, version):
            self.changes += changes
            self.documents[key] = (version, updated(self.documents[key][1], changes))


def _plain(value: Any) -> Any:
    """A document without the names of its bags."""
    if isinstance(value, dict):
        return {n: _plain(v) for n, v in value.items() if n != LABELS}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def bag(table: pa.Table) -> Any:
    return canonical(repeated(table).to_pylist())


def same(copy: hw.ParquetCopy, db: hw.Database, name: str) -> None:
    """The copy is the view, as rows and as parts, with the same types."""
    assert copy.version == db.version
    rows, expected = copy.rows(), db.table(name)
    assert bag(rows) == bag(expected)
    assert rows.schema == expected.schema
    if name != "flat":
        parts, wanted = copy.parts(), db.parts(name)
        assert parts.keys() == wanted.keys()
        for path, table in wanted.items():
            assert bag(parts[path]) == bag(table)
            assert parts[path].schema == table.schema


@pytest.mark.parametrize(
    ("sources", "names", "seed"),
    [("COL", ["customers_of", "offers_of", "flat"], 1), ("N", ["busy", "whole"], 2)],
    ids=["flat sources", "a nested source"],
)
def test_copies_are_the_view_after_random_changes(
    db: hw.Database, tmp_path: Path, sources: str, names: list[str], seed: int
) -> None:
    shop = Shop(db, seed, sources)
    for name in names:
        db.view(name, VIEWS[name])
    files = {name: hw.ParquetCopy(tmp_path / name, files=3) for name in names}
    keys = {name: "customer" if name == "flat" else None for name in names}
    stores = {name: (Store(), Deep()) for name in names}
    for _ in range(6):
        for _ in range(shop.random.randint(1, 3)):
            shop.change()
        for name in names:
            assert files[name].sync(db[name]) == db.version
            same(files[name], db, name)
            for store in stores[name]:
                made = hw.DocumentCopy(store, key=keys[name])
                assert made.sync(db[name]) == db.version == made.version
                assert canonical(store.rows()) == bag(db.table(name))
    kinds = {what for _, deep in stores.values() for what, _ in deep.calls}
    assert kinds == {"put", "delete", "update"}


def test_rows_repeat_and_share_bags(db: hw.Database, tmp_path: Path) -> None:
    db.view("v", offers_of)
    copy = hw.ParquetCopy(tmp_path / "v")
    for change in (
        {"C": [(1, "ax"), (1, "ax"), (2, "ax"), (3, None)]},
        {"L": [(1, "ax", 1), (1, "ax", 1), (2, "pin", 2)]},
        {"C": [(4, "pin")]},  # its inner rows were there before
        {"C": hw.Delta(deletes=[(1, "ax")])},
        {"L": hw.Delta(deletes=[(1, "ax", 1)])},
        {"C": hw.Delta(deletes=[(1, "ax"), (2, "ax")])},
    ):
        db.apply(change)
        copy.sync(db["v"])
        same(copy, db, "v")
    assert copy.rows().num_rows == 2


# --- bags of bags -------------------------------------------------------------------------------------------------------


@hw.query
def bags_of_bags(N):
    """Elements that are bags, beside rows with bags of their own, and inside of them."""
    return [
        {
            "id": n.id,
            "name": n.name,
            "lines": [o.lines for o in n.orders],
            "orders": [
                {
                    "order": o.order,
                    "parts": [[x.part for x in o.lines if x.n == k.n] for k in o.lines],
                }
                for o in n.orders
            ],
            "tags": n.tags,
        }
        for n in N
    ]


COLLECTED = (
    "SELECT id % 2 AS half, collect_list(orders) AS all, count(*) AS n FROM N GROUP BY id % 2"
)


@pytest.mark.parametrize("seed", range(4))
def test_documents_with_bags_of_bags_are_whole_documents(db: hw.Database, seed: int) -> None:
    """A store that updates inside has the documents that one has to which all are given whole."""
    shop = Shop(db, seed, "N")
    db.view("bags", bags_of_bags)
    db.view("collected", COLLECTED)
    stores = {"bags": Deep(), "collected": Deep()}
    row = {"id": 99, "name": "x", "tags": ["a"], "orders": []}
    last = [{"N": [row]}, {"N.tags": [{"id": 99, "value": "b"}]}]  # beside them nothing is whole
    for change in [*[shop.change] * 12, *(partial(db.apply, c) for c in last)]:
        change()
        for name, store in stores.items():
            made = hw.DocumentCopy(store)
            assert made.sync(db[name]) == db.version == made.version
            assert canonical(store.rows()) == bag(db.table(name))
    assert stores["bags"].calls[-1] == ("update", (99,))


# --- files -------------------------------------------------------------------------------------------------------------


def filled(db: hw.Database) -> None:
    db.view("v", customers_of)
    db.apply(
        {
            "C": [(1, "Ada"), (2, "Bob")],
            "O": [(7, 1, date(2024, 1, 1)), (8, 2, date(2024, 1, 2))],
            "L": [(7, "ax", 1), (7, "pin", 2), (8, "pin", 3)],
        }
    )


def test_a_repeated_sync_writes_nothing_and_a_change_one_file(
    db: hw.Database, tmp_path: Path
) -> None:
    filled(db)
    copy = hw.ParquetCopy(tmp_path / "v")
    assert copy.version is None
    with pytest.raises(StateError, match="sync first"):
        copy.rows()
    copy.sync(db["v"])
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "v").iterdir()}
    copy.sync(db["v"])
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "v").iterdir()} == before
    db.apply({"L": [(8, "ax", 5)]})
    copy.sync(db["v"])
    (added,) = {p.name for p in (tmp_path / "v").iterdir()} - before.keys()
    assert added.endswith(f"-{db.version:012d}.parquet")
    rows = duckdb.sql(f"SELECT _path FROM '{tmp_path}/v/{added}'").fetchall()
    assert sorted(rows) == [("orders",), ("orders",), ("orders.lines",)]


def test_duckdb_reads_the_files(db: hw.Database, tmp_path: Path) -> None:
    filled(db)
    copy = hw.ParquetCopy(tmp_path / "v", files=2)
    shop = Shop(db, 5)
    for _ in range(4):
        copy.sync(db["v"])
        shop.change()
    copy.sync(db["v"])
    files = f"'{tmp_path}/v/*.parquet'"
    newest = f"_base = (SELECT max(_base) FROM {files})"
    found = duckdb.sql(
        f"""SELECT "row".id, "row".name, "row".count, sum(_w)::BIGINT AS _w FROM {files}
        WHERE _path = '' AND {newest} GROUP BY ALL HAVING _w > 0"""
    ).to_arrow_table()
    assert bag(found) == bag(db.table("v").drop_columns(["orders"]))
    found = duckdb.sql(
        f"""SELECT sum("orders.lines".price * w) FROM (
            SELECT _label, "orders.lines", sum(_w) AS w FROM {files}
            WHERE _path = 'orders.lines' AND {newest} GROUP BY ALL HAVING w > 0)"""
    ).fetchall()
    lines = db.parts("v")["orders.lines"].to_pylist()
    assert found == [(sum(r["price"] * r["_w"] for r in lines),)]


def test_a_crash_at_any_step_leaves_the_version_before_or_after(
    db: hw.Database, tmp_path: Path
) -> None:
    filled(db)

    def copy_in(files: MemoryFiles) -> hw.ParquetCopy:
        copy = hw.ParquetCopy(tmp_path / "v", files=2)
        copy.files = files
        return copy

    base = MemoryFiles()
    shop = Shop(db, 1)
    for _ in range(2):
        copy_in(base).sync(db["v"])
        shop.change()
    old, new = db.version - 1, db.version
    expected = {n: bag(db.table("v", n)) for n in (old, new)}
    whole = base.copy()
    copy_in(whole).sync(db["v"])  # with a compaction
    assert len({f.name.partition("-")[0] for f in whole.list("v")}) == 2
    seen = set()
    for step in range(1, len(whole.trace) + 1):
        kind = ("before", "tear", "after")[step % 3]
        files = base.copy()
        files.faults = {step: kind}  # type: ignore[dict-item]
        with contextlib.suppress(Stopped):
            copy_in(files).sync(db["v"])
        killed, *powerless = files.crashed()
        for found in [killed, *powerless[:: max(1, len(powerless) // 3)]]:
            copy = copy_in(found)
            seen.add(copy.version)
            assert bag(copy.rows()) == expected[copy.version or 0]
        copy.sync(db["v"])
        assert (copy.version, bag(copy.rows())) == (new, expected[new])
    assert seen == {old, new}


def test_what_an_interrupted_sync_left_is_no_part_of_the_copy(
    db: hw.Database, tmp_path: Path
) -> None:
    filled(db)
    copy = hw.ParquetCopy(tmp_path / "v")
    copy.sync(db["v"])
    (file,) = (tmp_path / "v").iterdir()
    left = tmp_path / "v" / f".{db.version:012d}-{db.version + 1:012d}.parquet.{'0123' * 8}"
    left.write_bytes(file.read_bytes()[:100])
    same(copy, db, "v")
    db.apply({"L": [(8, "ax", 5)]})
    copy.sync(db["v"])
    same(copy, db, "v")
    assert not left.exists()


def test_a_file_that_is_missing_is_told(db: hw.Database, tmp_path: Path) -> None:
    filled(db)
    copy = hw.ParquetCopy(tmp_path / "v")
    for _ in range(3):
        copy.sync(db["v"])
        db.apply({"L": [(8, "ax", 5)]})
    sorted((tmp_path / "v").iterdir())[1].unlink()
    with pytest.raises(DamagedState, match="goes on from version"):
        copy.rows()


# --- when the version that a copy has cannot be compared with ----------------------------------------------------------


def forgotten(db: hw.Database) -> None:
    """The versions before are not there any more."""
    db.apply({"C": hw.Delta(deletes=[(2, "Bob")])})
    for i in range(3):
        db.apply({"L": [(7, "ax", i)]})
    db.keep(versions=2)
    db._writer.collect()


def again(db: hw.Database) -> None:
    """The view is another one of the same name."""
    db.drop("v")
    db.apply({"C": hw.Delta(deletes=[(2, "Bob")])})
    db.view("v", offers_of)


def emptied(db: hw.Database) -> None:
    """The versions before are gone, and so are all rows."""
    db.apply({"C": hw.Delta(deletes=[(1, "Ada"), (2, "Bob")])})
    forgotten_only(db)


def forgotten_only(db: hw.Database) -> None:
    db.apply({"L": [(7, "ax", 1)]})
    db.keep(versions=1)
    db._writer.collect()


def rebuilt(db: hw.Database) -> None:
    """All maps are written anew."""
    db.rebuild()
    db.apply({"L": [(7, "ax", 1)]})


@pytest.mark.parametrize("what", [forgotten, again, emptied, rebuilt])
def test_a_copy_starts_again(
    db: hw.Database, tmp_path: Path, what: Callable[[hw.Database], None]
) -> None:
    filled(db)
    copy, documents = hw.ParquetCopy(tmp_path / "v"), [Store(), Deep()]
    copy.sync(db["v"])
    for store in documents:
        hw.DocumentCopy(store).sync(db["v"])
    what(db)
    copy.sync(db["v"])
    same(copy, db, "v")
    bases = {p.name.partition("-")[0] for p in (tmp_path / "v").iterdir()}
    assert len(bases) == 1
    for store in documents:
        hw.DocumentCopy(store).sync(db["v"])
        assert canonical(store.rows()) == bag(db.table("v"))


def test_changes_are_nothing_where_a_view_was_rebuilt(db: hw.Database) -> None:
    filled(db)
    db.view("joined", "SELECT name, day FROM C JOIN O ON id = customer")
    since = db.version
    db.rebuild()
    assert db.changes_table("v", since).num_rows == 0
    assert db.changes_table("joined", since).num_rows == 0


def test_what_is_no_copy_of_a_view_is_refused(db: hw.Database, tmp_path: Path) -> None:
    filled(db)
    db.view("other", offers_of)
    db.view("flat", "SELECT id, name FROM C")
    copy = hw.ParquetCopy(tmp_path / "v")
    copy.sync(db["v"])
    with pytest.raises(QueryError, match="is a copy of `v`, and not of `other`"):
        copy.sync(db["other"])
    with pytest.raises(QueryError, match="copies are of views"):
        copy.sync(db["C"])
    with pytest.raises(QueryError, match="give DocumentCopy a key"):
        hw.DocumentCopy(Store()).sync(db["flat"])
    with pytest.raises(QueryError, match="has no column `nam`"):
        hw.DocumentCopy(Store(), key="nam").sync(db["flat"])
    with pytest.raises(QueryError, match="a key of its own"):
        hw.DocumentCopy(Store(), key="id").sync(db["v"])
    with hw.open(tmp_path / "new") as young:
        young.source("C", "id BIGINT, name STRING")
        young.view("v", "SELECT id FROM C")
        with pytest.raises(StateError, match="copy of another database"):
            copy.sync(young["v"])


# --- documents --------------------------------------------------------------------------------------------------------


def test_a_change_of_an_inner_row_touches_no_more(db: hw.Database) -> None:
    filled(db)
    store = Deep()
    copy = hw.DocumentCopy(store)
    copy.sync(db["v"])
    store.calls.clear()
    db.apply({"L": [(7, "cog", 4)]})
    copy.sync(db["v"])
    assert store.calls == [("update", (1,))]
    total, line = store.changes
    label = {"lines": "orders.lines(7)"}
    order = {"order": 7, "day": date(2024, 1, 1), "total": Decimal(3), LABELS: label}
    assert (total.path, total.label, total.old) == ("orders", "orders(1)", order)
    assert total.row == {**order, "total": Decimal(7)}
    assert line == hw.DeepChange(
        db.version, "orders.lines", "orders.lines(7)", {"part": "cog", "price": Decimal(4)}, 1
    )


def test_the_order_of_changes_inside_of_a_document(db: hw.Database) -> None:
    filled(db)
    store = Deep()
    copy = hw.DocumentCopy(store)
    db.apply({"O": [(9, 1, date(2024, 1, 3))], "L": [(9, "ax", 1), (9, "pin", 1)]})
    copy.sync(db["v"])
    day = date(2024, 1, 1)
    db.apply(
        {
            "O": hw.Delta([(10, 1, day)], [(7, 1, day)]),
            "L": hw.Delta([(9, "cog", 1), (10, "ax", 1)], [(9, "ax", 1), (7, "ax", 1)]),
        }
    )
    copy.sync(db["v"])
    steps = [(c.path, c.weight, c.old is not None) for c in store.changes]
    assert steps == [
        ("orders", -1, False),
        ("orders.lines", -1, False),
        ("orders.lines", 1, False),
        ("orders", 1, False),
    ]
    assert store.changes[-1].row["lines"] == [{"part": "ax", "price": Decimal(1)}]
    assert canonical(store.rows()) == bag(db.table("v"))


@pytest.mark.parametrize("kind", [Store, Deep])
def test_a_store_that_fails_goes_on_where_it_was(db: hw.Database, kind: type[Store]) -> None:
    db.view("v", customers_of)
    shop, store = Shop(db, 3), kind()
    for _ in range(8):
        shop.change()
        store.left = shop.random.randint(0, 3)
        with contextlib.suppress(OSError):
            hw.DocumentCopy(store).sync(db["v"])
    store.left = None
    hw.DocumentCopy(store).sync(db["v"])
    assert canonical(store.rows()) == bag(db.table("v"))


@pytest.mark.parametrize("kind", [Store, Deep])
def test_two_rows_with_one_key_are_no_document(db: hw.Database, kind: type[Store]) -> None:
    filled(db)
    store = kind()
    copy = hw.DocumentCopy(store)
    copy.sync(db["v"])
    db.apply({"C": [(1, "Eve")]})
    with pytest.raises(QueryError, match=r"several rows of `v` have the key \(1,\)"):
        copy.sync(db["v"])
    db.apply({"C": hw.Delta(deletes=[(1, "Ada")])})
    copy.sync(db["v"])  # as soon as they are apart
    assert canonical(store.rows()) == bag(db.table("v"))


def test_changes_of_bags_with_a_name_that_is_taken_are_refused(db: hw.Database) -> None:
    @hw.query
    def rows_named_row(C, O):  # noqa: E741
        return [{"id": c.id, "row": [o.order for o in O if o.customer == c.id]} for c in C]

    db.view("named", rows_named_row)
    with pytest.raises(QueryError, match="otherwise"):
        db.changes_table("named", 0)
