"""Directories as nodes: new files are taken once, in order, with the rows that they have; what is wrong is named."""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from dying_files import Dying
from faulty_files import Stopped
from headwater.errors import NameTaken, QueryError, StageFailed, StageMissing
from headwater.state.files import LocalFiles

COLUMNS = "id BIGINT, name STRING"


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def db(tmp_path: Path) -> hw.Database:
    return hw.open(tmp_path / "db")


def put(folder: Path, name: str, text: str, time: int = 1) -> Path:
    """A file with a text, whose last change was so many seconds after the beginning."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    os.utime(path, (time, time))
    return path


def rows(db: hw.Database, name: str = "orders") -> list[tuple[Any, ...]]:
    found = db.table(name).to_pylist()
    return sorted(tuple(r.values()) for r in found)


def csv_source(db: hw.Database, folder: Path, **options: Any) -> None:
    db.source("orders", COLUMNS, path=folder, format="csv", options=options)


def test_new_files_are_taken_once(db: hw.Database, inbox: Path) -> None:
    csv_source(db, inbox)
    db.view("names", "SELECT name, count(*) AS n FROM orders GROUP BY name")
    put(inbox, "a.csv", "id,name\n1,x\n2,y\n")
    put(inbox, "b.csv", "name,id\nx,3\n")
    assert db.run().epochs == ["orders"]
    assert rows(db) == [(1, "x", 1), (2, "y", 1), (3, "x", 1)]
    assert rows(db, "names") == [("x", 2, 1), ("y", 1, 1)]
    version = db.version
    assert db.run().epochs == [] and db.version == version
    put(inbox, "c.csv", "id,name\n4,z\n")
    assert db.new_files("orders") == ["c.csv"]
    db.run()
    assert (4, "z", 1) in rows(db) and db.new_files("orders") == []


def test_a_file_that_is_older_than_those_that_were_taken(db: hw.Database, inbox: Path) -> None:
    csv_source(db, inbox)
    put(inbox, "b.csv", "id,name\n1,x\n", time=100)
    db.run()
    put(inbox, "a.csv", "id,name\n2,y\n", time=50)
    db.run()
    assert rows(db) == [(1, "x", 1), (2, "y", 1)]


def test_what_was_taken_is_known_to_another_process(tmp_path: Path, inbox: Path) -> None:
    with hw.open(tmp_path / "db") as first:
        csv_source(first, inbox)
        put(inbox, "a.csv", "id,name\n1,x\n")
        first.run()
    with hw.open(tmp_path / "db") as again:
        csv_source(again, inbox)
        assert again.run().epochs == [] and rows(again) == [(1, "x", 1)]


def test_files_come_in_the_order_of_time_then_name_a_few_at_a_time(
    db: hw.Database, inbox: Path
) -> None:
    csv_source(db, inbox, max_files=2)
    seen = []

    @db.stage("orders", by=(), state="n BIGINT", out="n BIGINT")
    def counted(_: Any, orders: Any, state: Any) -> Any:
        seen.append(sorted(o.id for o in orders))
        return None

    for number, (name, time) in enumerate([("b", 5), ("a", 9), ("d", 5), ("c", 1), ("e", 9)]):
        put(inbox, f"{name}.csv", f"id,name\n{number},{name}\n", time)
    ran = db.run().epochs
    assert seen == [[0, 3], [1, 2], [4]]  # c b, d a, e
    assert ran == ["orders", "counted"] * 3


def test_bytes_of_a_step(db: hw.Database, inbox: Path) -> None:
    csv_source(db, inbox, max_bytes=30)
    for name in "abc":
        put(inbox, f"{name}.csv", "id,name\n1,x\n")
    assert len(db.run().epochs) == 2


def test_files_that_are_being_written_wait(db: hw.Database, inbox: Path) -> None:
    csv_source(db, inbox)
    for name in ("_a.csv", ".b.csv", "c.csv.tmp"):
        put(inbox, name, "id,name\n1,x\n")
    put(inbox, "empty.csv", "")
    (inbox / "folder").mkdir()
    assert db.run().epochs == []
    (inbox / "_a.csv").rename(inbox / "a.csv")
    db.run()
    assert rows(db) == [(1, "x", 1)]


def test_a_limit_of_epochs_leaves_the_rest(db: hw.Database, inbox: Path) -> None:
    csv_source(db, inbox, max_files=1)
    for n in range(3):
        put(inbox, f"{n}.csv", f"id,name\n{n},x\n")
    db.run(epochs=1)
    assert rows(db) == [(0, "x", 1)]
    assert db.run(workers=3).epochs == ["orders"] * 2


def test_a_file_that_changes_between_two_runs_before_it_was_taken(
    db: hw.Database, inbox: Path
) -> None:
    """What a run has seen and not taken is looked at again by the next one."""
    csv_source(db, inbox, max_files=1)
    for n in range(3):
        put(inbox, f"{n}.csv", f"id,name\n{n},x\n", n + 1)
    db.run(epochs=1)
    put(inbox, "1.csv", "id,name\n11,longer\n", 2)
    put(inbox, "2.csv", "id,name\n12,longer\n", 3)
    db.run()
    assert rows(db) == [(0, "x", 1), (11, "longer", 1), (12, "longer", 1)]


def test_run_looks_again(db: hw.Database, inbox: Path) -> None:
    csv_source(db, inbox)

    @db.stage("orders", out="id BIGINT")
    def passed(order: Any) -> Any:
        if order.id < 3:
            put(inbox, f"{order.id}.csv", f"id,name\n{order.id + 1},x\n")
        else:
            db.stop()
        return (order.id,)

    put(inbox, "first.csv", "id,name\n1,x\n")
    done = db.run(every=0.01, seconds=30)
    assert done.stopped == "it was stopped"
    assert rows(db, "passed") == [(1, 1), (2, 1), (3, 1)]


def test_rows_may_be_applied_too(db: hw.Database, inbox: Path) -> None:
    csv_source(db, inbox)
    put(inbox, "a.csv", "id,name\n1,x\n")
    db.apply({"orders": [(7, "by hand")]})
    db.run()
    assert rows(db) == [(1, "x", 1), (7, "by hand", 1)]


TYPES = "i INT, d DECIMAL(8,2), f DOUBLE, b BOOLEAN, s STRING, day DATE, at TIMESTAMP, ntz TIMESTAMP_NTZ"
VALUES = (
    *(-3, Decimal("1.50"), 0.25, True, "é, x", date(2026, 1, 2)),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    datetime(2026, 1, 2, 3, 4, 5, 500000),
    1,
)
NULLS = (*[None] * 8, 1)


def test_csv_has_the_types_of_the_source(db: hw.Database, inbox: Path) -> None:
    db.source("t", TYPES, path=inbox, format="csv")
    head = "i,d,f,b,s,day,at,ntz\n"
    put(
        inbox,
        "a.csv",
        head
        + '-3,1.50,0.25,true,"é, x",2026-01-02,2026-01-02T03:04:05Z,2026-01-02 03:04:05.5\n,,,,,,,\n',
    )
    db.run()
    assert {tuple(r.values()) for r in db.table("t").to_pylist()} == {VALUES, NULLS}


def test_json_has_the_types_of_the_source(db: hw.Database, inbox: Path) -> None:
    db.source("t", f"{TYPES}, tags ARRAY<STRING>", path=inbox, format="json")
    one = {
        **{"i": -3, "d": 1.5, "f": 0.25, "b": True, "s": "é, x", "day": "2026-01-02"},
        **{"at": "2026-01-02T03:04:05Z", "ntz": "2026-01-02 03:04:05.5", "tags": ["p", "q"]},
    }
    put(inbox, "a.json", json.dumps(one) + "\n" + '{"i": 4}\n')
    db.run()
    found = {r["i"]: r for r in db.table("t").to_pylist()}
    assert tuple(found[-3].values()) == (*VALUES[:-1], ["p", "q"], 1)
    assert set(found[4].values()) == {4, None, 1}


def test_parquet_has_the_types_of_the_source(db: hw.Database, inbox: Path) -> None:
    db.source("orders", COLUMNS, path=inbox, format="parquet")
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["x", None]})
    pq.write_table(table, inbox / "a.parquet")
    db.run()
    assert [tuple(r.values()) for r in db.table("orders").to_pylist()] == [
        *((1, "x", 1), (2, None, 1))
    ]


def test_csv_with_options_and_weights(db: hw.Database, inbox: Path) -> None:
    csv_source(db, inbox, header=False, delimiter=";", null_value="-")
    put(inbox, "a.csv", '1;-\n2;"-"\n3;"a;\nb"\n4;""\n')
    db.run()
    found = {r["id"]: r["name"] for r in db.table("orders").to_pylist()}
    assert found == {1: None, 2: "-", 3: "a;\nb", 4: ""}
    db.source("moves", COLUMNS, path=inbox.parent / "moves", format="csv")
    (inbox.parent / "moves").mkdir()
    put(inbox.parent / "moves", "a.csv", "id,name,_w\n1,x,3\n", 1)
    put(inbox.parent / "moves", "b.csv", "id,name,_w\n1,x,-1\n", 2)
    db.run()
    assert rows(db, "moves") == [(1, "x", 2)]


# --- what is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"path": "x"}, "no format"),
        ({"path": "x", "format": "xls"}, "'xls'"),
        ({"format": "csv"}, "no path"),
        ({"options": {"header": "true"}}, "no path"),
        ({"path": "x", "format": "csv", "options": {"sep": ";"}}, "`sep`"),
        ({"path": "x", "format": "json", "options": {"header": "true"}}, "`header`"),
        ({"path": "x", "format": "csv", "options": {"header": "maybe"}}, "'maybe'"),
        ({"path": "x", "format": "csv", "options": {"delimiter": "::"}}, "'::'"),
        ({"path": "x", "format": "csv", "options": {"max_files": 0}}, "`max_files`"),
        ({"path": "s3://bucket/x", "format": "csv"}, "s3:"),
    ],
)
def test_what_means_nothing_is_refused(db: hw.Database, said: Any, named: str) -> None:
    with pytest.raises(QueryError, match=named):
        db.source("orders", COLUMNS, **said)
    assert db.sources == []


def test_columns_that_files_do_not_hold(db: hw.Database) -> None:
    with pytest.raises(QueryError, match="`tags`"):
        db.source("s", "id INT, tags ARRAY<STRING>", path="x", format="csv")
    with pytest.raises(QueryError, match="BINARY"):
        db.source("s", "id INT, raw BINARY", path="x", format="json")


def test_a_directory_may_be_another_and_columns_may_not(db: hw.Database, inbox: Path) -> None:
    csv_source(db, inbox)
    put(inbox, "a.csv", "id,name\n1,x\n")
    db.run()
    (inbox.parent / "more").mkdir()
    csv_source(db, inbox.parent / "more", delimiter=";")
    put(inbox.parent / "more", "b.csv", "id;name\n2;y\n")
    db.run()
    assert rows(db) == [(1, "x", 1), (2, "y", 1)]
    with pytest.raises(NameTaken):
        db.source("orders", "id INT", path=inbox, format="csv")
    db.source("orders", COLUMNS)
    put(inbox.parent / "more", "c.csv", "id;name\n3;y\n")
    assert db.run().epochs == []


def held(db: hw.Database, *named: str) -> None:
    with pytest.raises(StageFailed) as caught:
        db.run()
    told = str(caught.value)
    assert "the directory of `orders` is held" in told
    assert [n for n in named if n not in told] == []


def test_a_file_that_cannot_be_read_holds_its_directory_and_nothing_else(
    db: hw.Database, inbox: Path
) -> None:
    csv_source(db, inbox)
    db.source("other", "id BIGINT")

    @db.stage("other", out="id BIGINT")
    def passed(row: Any) -> Any:
        return row

    db.apply({"other": [(5,)]})
    put(inbox, "a.csv", "id,name\n1,x\n", 1)
    put(inbox, "b.csv", "id,name\n1,x,9\n", 2)
    put(inbox, "c.csv", "id,name\n3,z\n", 3)
    held(db, "`b.csv`, line 2 does not fit", "Expected 2 columns", str(inbox))
    assert rows(db) == [(1, "x", 1)] and rows(db, "passed") == [(5, 1)]
    put(inbox, "b.csv", "id,name\n2,y\n", 2)
    db.run()
    assert rows(db) == [(1, "x", 1), (2, "y", 1), (3, "z", 1)]


def test_rows_that_do_not_fit_are_told_with_their_file(db: hw.Database, inbox: Path) -> None:
    db.source("orders", f"{COLUMNS}, PRIMARY KEY (id)", path=inbox, format="csv")
    for n in range(7):
        put(inbox, f"{n}.csv", f"id,name\n{n},x\n")
    put(inbox, "4.csv", "id,name\n2,x\n")
    held(db, "`4.csv` does not fit")
    assert len(rows(db)) == 4
    put(inbox, "4.csv", "id,name\nfour,x\n")
    held(db, "`4.csv`, line 2 does not fit", "four")
    (inbox / "4.csv").unlink()
    db.run()
    assert [r[0] for r in rows(db)] == [0, 1, 2, 3, 5, 6]


@pytest.mark.parametrize(
    ("text", "named"), [("id,name\n1\n", "shrank from 12 to 10"), ("id,name\n12,x\n", "grew")]
)
def test_a_file_that_changes_after_it_was_taken(
    db: hw.Database, inbox: Path, text: str, named: str
) -> None:
    csv_source(db, inbox)
    put(inbox, "a.csv", "id,name\n1,x\n")
    db.run()
    took = db.version
    put(inbox, "a.csv", text)
    put(inbox, "b.csv", "id,name\n2,y\n")
    held(db, "`a.csv`", named, f"version {took}")
    assert rows(db) == [(1, "x", 1)]
    (inbox / "a.csv").unlink()
    db.run()
    assert rows(db) == [(1, "x", 1), (2, "y", 1)]


def test_a_directory_that_is_not_there(db: hw.Database, inbox: Path) -> None:
    csv_source(db, inbox / "later")
    held(db, "later", "No such file")
    (inbox / "later").mkdir()
    db.run()


def test_a_directory_that_only_the_log_names_is_not_opened(
    tmp_path: Path, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database may be somebody else's; whose files are read is said in this process."""
    with hw.open(tmp_path / "db") as made:
        csv_source(made, inbox)
        made.source("other", "id BIGINT")
    put(inbox, "a.csv", "id,name\n1,x\n")
    with hw.open(tmp_path / "db") as db, monkeypatch.context() as watched:
        opened = lambda path, *_: pytest.fail(f"{path} was opened")  # noqa: E731
        watched.setattr("headwater.feeds.directory.looked", opened)

        @db.stage("other", out="id BIGINT")
        def passed(row: Any) -> Any:
            return row

        db.apply({"other": [(1,)]})
        with pytest.raises(StageMissing, match=r"`orders` .* not named"):
            db.run()
        assert rows(db, "passed") == [(1, 1)]
        with pytest.raises(StageMissing):
            db.new_files("orders")
        assert db.nodes()[0].waiting is None
    with hw.open(tmp_path / "db") as db:
        csv_source(db, inbox)
        db.run(epochs=1)
        assert rows(db) == [(1, "x", 1)]


def test_options_that_an_older_version_took(
    db: hw.Database, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        said = "csv", str(inbox), dict[str, str](), {"sep": ";"}
        older.setattr("headwater.api.declaring.declared_feed", lambda *_: said)
        csv_source(db, inbox)
    held(db, "`sep`", "means nothing")


def test_what_is_gone_is_forgotten_with_its_version(tmp_path: Path, inbox: Path) -> None:
    db = hw.open(tmp_path / "db", keep_versions=2)
    csv_source(db, inbox)

    def known() -> list[str]:
        facts = db.store.at(db.version).facts
        return sorted(k for k in facts if k.startswith("from:"))

    for n in range(40):
        put(inbox, f"{n}.csv", f"id,name\n{n},x\n")
        db.run()
        if n != 1:
            (inbox / f"{n}.csv").unlink()
    assert "from:orders/0.csv" not in known()
    assert {"from:orders/1.csv", "from:orders/39.csv"} <= {*known()}
    db.drop("orders")
    assert known() == []


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_process_that_dies_leaves_the_version_before_or_after(
    tmp_path: Path, inbox: Path, where: str
) -> None:
    """Whatever write it dies at, the rows and the mark are both there or both not, and a file is taken once."""
    put(inbox, "a.csv", "id,name\n1,x\n")
    outcomes = set()
    for write in range(1, 50):
        path, dying = tmp_path / f"db{write}", Dying(write, where)
        with hw.open(path) as made:
            csv_source(made, inbox)
        with pytest.MonkeyPatch.context() as patched:
            for name in ("write", "put_if_absent", "delete"):
                patched.setattr(LocalFiles, name, dying(getattr(LocalFiles, name)))
            db = hw.open(path)
            csv_source(db, inbox)
            with contextlib.suppress(Stopped):
                db.run()
        if not dying.dead:
            break
        db.close()
        with hw.open(path) as again:
            csv_source(again, inbox)
            taken = again.new_files("orders") == []
            assert rows(again) == ([(1, "x", 1)] if taken else [])
            outcomes.add(taken)
            again.run()
            assert rows(again) == [(1, "x", 1)]
    assert not dying.dead and {False, where == "after"} <= outcomes
