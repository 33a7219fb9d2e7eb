"""Bad input and faults: each is told in our words, changes nothing, and leaves a database that goes on.

`refused` holds the database to that: the error is one of ours, whose sentence is given, with Spark's own below it as
the cause only; the version and all answers are as before.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import headwater as hw
from headwater.calculus.scalars import SCALARS
from headwater.errors import (
    BadChange,
    DeletesMissingRows,
    EngineError,
    HeadwaterError,
    InUse,
    LeaseLost,
    NameTaken,
    NotIncremental,
    ParseError,
    QueryError,
    StateError,
    TypeMismatch,
    UnknownName,
    VersionGone,
    WriterBusy,
)
from headwater.language.functions import DEFINED
from headwater.state.files import LocalFiles
from spark_session import session

pytestmark = pytest.mark.spark

Answers = dict[str, list[tuple[Any, ...]]]
ROWS = [(1, "a", 2), (1, "b", 5), (2, "a", 7)]
JAVA = re.compile(r"\bat org\.apache|py4j|Traceback|JVM|\.scala")


def made(path: Path, **options: Any) -> hw.Database:
    db = hw.open(path, spark=session())
    db.source("s", "k BIGINT, v STRING, n INT", **options)
    db.view("g", "SELECT k, count(*) AS c, max(n) AS m FROM s GROUP BY k")
    db.view("h", "SELECT c, sum(m) AS t FROM g GROUP BY c")
    db.apply({"s": ROWS})
    return db


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hw.Database]:
    """A database for whatever must leave no trace in it."""
    with made(tmp_path_factory.mktemp("shared") / "db") as db:
        yield db
        db.verify()


def answers(db: hw.Database) -> Answers:
    """All that can be read, as the store has it now."""
    names = [n for n in (*db.sources, *db.views)]
    tables = {n: db.table(n) for n in names}
    return {
        n: sorted((tuple(r.values()) for r in t.to_pylist()), key=repr) for n, t in tables.items()
    }


@contextlib.contextmanager
def refused(db: hw.Database, kind: type[HeadwaterError], *sentence: str) -> Iterator[None]:
    before = db.version, db.store.head(), answers(db), db.sources, db.views
    with pytest.raises(kind) as caught:
        yield
    told = str(caught.value)
    for words in sentence:
        assert words in told, f"{words!r} is not said in:\n{told}"
    assert len(told.splitlines()) > 1, f"what to do is not said:\n{told}"
    assert not JAVA.search(told), f"the inside shows:\n{told}"
    assert (db.version, db.store.head(), answers(db), db.sources, db.views) == before
    assert not list((db.path / "staging").glob("*")), "something stayed staged"


# --- queries and declarations -------------------------------------------------------------------------------------

QUERIES: list[tuple[str, type[HeadwaterError], str]] = [
    ("SELEC k FROM s", ParseError, "cannot read the query"),
    ("SELECT", ParseError, "names no columns"),
    ("SELECT k, FROM s", ParseError, "a comma with nothing after it (line 1, column 9)"),
    ("SELECT k FROM s WHERE k IN (1, 2,)", ParseError, "a comma with nothing after it"),
    ("SELECT k FROM s WHERE v = 'a", ParseError, "a quotation is not closed"),
    ("DELETE FROM s", ParseError, "a view is defined by a SELECT"),
    ("SELECT k FROM nope", UnknownName, "unknown table `nope`"),
    ("SELECT prise FROM s", UnknownName, "columns of `s`: k, v, n"),
    ("SELECT shout(v) AS x FROM s", QueryError, "shout"),
    ("SELECT k + v AS x FROM s", EngineError, "The value 'a' of the type"),
    ("SELECT k + true AS x FROM s", TypeMismatch, "`k + TRUE` cannot be computed"),
    ("SELECT k, k FROM s", QueryError, "two output columns are called `k`"),
    ("SELECT rand() AS x FROM s", NotIncremental, "[NON_DETERMINISTIC]"),
    (
        "SELECT x FROM (SELECT k AS _w, count(*) AS x FROM s GROUP BY k)",
        NotIncremental,
        "the column name `_w` has a meaning already",
    ),
    ("SELECT k FROM w", UnknownName, "unknown table `w`"),
    ("SELECT CAST(v AS INT) AS x FROM s", EngineError, "The value 'a' of the type"),
]


@pytest.mark.parametrize(("query", "kind", "sentence"), QUERIES, ids=[q for q, _, _ in QUERIES])
def test_a_bad_query_is_refused(
    shared: hw.Database, query: str, kind: type[HeadwaterError], sentence: str
) -> None:
    with refused(shared, kind, sentence):
        shared.view("w", query)


DECLARATIONS: dict[str, tuple[Callable[[hw.Database], Any], type[HeadwaterError], str]] = {
    "type": (lambda db: db.source("t", "k BIGNT"), ParseError, "near `BIGNT`"),
    "no type": (lambda db: db.source("t", "k, v INT"), ParseError, "`k` is no column with a type"),
    "no columns": (lambda db: db.source("t", ""), QueryError, "`t` has no columns"),
    "no schema": (lambda db: db.source("t", 5), QueryError, "the schema is of type int"),
    "twice": (lambda db: db.source("t", "k INT, K INT"), ParseError, "names k twice"),
    "reserved": (lambda db: db.source("t", "_w INT"), QueryError, "`_w` has a meaning already"),
    "key": (lambda db: db.source("t", "k INT", key="z"), UnknownName, "the key `z` is no column"),
    "other": (lambda db: db.source("s", "k INT"), NameTaken, "there is a source or view `s`"),
    "taken": (lambda db: db.view("S", "SELECT k FROM s"), NameTaken, "there is a source or view"),
    "name": (lambda db: db.view("a b", "SELECT k FROM s"), QueryError, "`a b` is no name"),
    "no query": (lambda db: db.view("w", 5), QueryError, "the query is of type int"),
    "strategy": (
        lambda db: db.view("w", "SELECT k FROM s", strategy="quick"),
        QueryError,
        "`quick` is no strategy",
    ),
    "in use": (lambda db: db.drop("g"), InUse, "`g` is read by the view `h`"),
    "drop": (lambda db: db.drop("nope"), UnknownName, "there is no source or view `nope`"),
    "item": (lambda db: db["nope"], UnknownName, "there is no source or view `nope`"),
    "verify": (lambda db: db.verify("s"), UnknownName, "`s` is a source"),
    "version": (lambda db: db["g"].snapshot(version=99), VersionGone, "version 99 is not there"),
    "since": (lambda db: db["g"].changes(since=99), StateError, "there is no version 99"),
    "since text": (lambda db: db.changes_table("g", "x"), QueryError, "'x' is no version"),
    "format": (lambda db: db["g"].changes(format="xml"), QueryError, "`xml` is no form of changes"),
}


@pytest.mark.parametrize("what", DECLARATIONS)
def test_a_bad_declaration_is_refused(shared: hw.Database, what: str) -> None:
    act, kind, sentence = DECLARATIONS[what]
    with refused(shared, kind, sentence):
        act(shared)


def test_a_file_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="is a file\ngive a directory"):
        hw.open(tmp_path / "file", spark=session())


# --- changes that do not fit ------------------------------------------------------------------------------------------


def sql(query: str) -> Any:
    return session().sql(query)


GOOD: dict[str, Callable[[], Any]] = {
    "tuples": lambda: [(3, "c", 1)],
    "dicts": lambda: [{"K": 3, "v": "c", "n": 1}],
    "pandas": lambda: pd.DataFrame({"k": [3.0], "v": ["c"], "n": [1]}),
    "arrow": lambda: pa.table({"n": [1], "v": ["c"], "k": [3]}),
    "frame": lambda: sql("SELECT 3L AS k, 'c' AS v, 1 AS n"),
}
CHANGES: list[tuple[str, Callable[[], Any], str]] = [
    ("tuple missing", lambda: [(1, "a", 2), (1, "a")], "row 2 of the change of `s` has 2 values"),
    ("tuple extra", lambda: [(1, "a", 2, 1, 1)], "has 5 values, not 3"),
    ("tuple type", lambda: [(1, "a", 2), ("x", "a", 2)], "row 2 of the change of `s`: 'x' is no bigint"),
    ("tuple fraction", lambda: [(1.5, "a", 2)], "1.5 is no bigint for the column `k`"),
    ("tuple large", lambda: [(1, "a", 1 << 40)], "is no int for the column `n`"),
    ("tuple larger", lambda: [(1 << 70, "a", 1)], "is no bigint for the column `k`"),
    ("tuple weight", lambda: [(1, "a", 2, "x")], "'x' is no bigint for the column `_w`"),
    ("tuple weights", lambda: [(1, "a", 2, 1), (1, "a", 2)], "some have none"),
    ("tuple and dict", lambda: [(1, "a", 2), {"k": 1}], "row 2 of the change of `s` is of type dict"),
    ("number", lambda: [1, 2], "row 1 of the change of `s` is of type int"),
    ("dict missing", lambda: [{"k": 1, "v": "a"}], "row 1 of the change of `s` has no `n`"),
    ("dict extra", lambda: [{"k": 1, "v": "a", "n": 1, "z": 1}, {"k": 1, "v": "a", "n": 1, "z": "x"}], "a column `z`"),
    ("dict type", lambda: [{"k": 1, "v": 5, "n": 1}], "5 is no string for the column `v`"),
    ("dict weight", lambda: [{"k": 1, "v": "a", "n": 1, "_w": None}], "`_w` of the change of `s` is not a whole"),
    ("dict change type", lambda: [{"k": 1, "v": "a", "n": 1, "_change_type": "merge"}], "has 'merge'"),
    ("pandas missing", lambda: pd.DataFrame({"k": [1], "v": ["a"]}), "has no `n`"),
    ("pandas extra", lambda: pd.DataFrame({"k": [1], "v": ["a"], "n": [1], "z": [1]}), "a column `z`"),
    ("pandas type", lambda: pd.DataFrame({"k": ["x"], "v": ["a"], "n": [1]}), "'x' is no bigint"),
    ("pandas fraction", lambda: pd.DataFrame({"k": [1.5], "v": ["a"], "n": [1]}), "1.5 is no bigint"),
    ("pandas bool", lambda: pd.DataFrame({"k": [True], "v": ["a"], "n": [1]}), "True is no bigint"),
    ("pandas twice", lambda: pd.DataFrame([[1, "a", 1, 2]], columns=["k", "v", "n", "N"]), "two columns `n`"),
    ("pandas weight", lambda: pd.DataFrame({"k": [1, 2], "v": ["a", "b"], "n": [1, 2], "_w": [1, None]}), "`_w`"),
    ("pandas no names", lambda: pd.DataFrame([[1, "a", 1]]), "has no `k`"),
    ("arrow missing", lambda: pa.table({"k": [1], "v": ["a"]}), "has no `n`"),
    ("arrow extra", lambda: pa.table({"k": [1], "v": ["a"], "n": [1], "z": [1]}), "a column `z`"),
    ("arrow type", lambda: pa.table({"k": ["x"], "v": ["a"], "n": [1]}), "`k` of the change of `s` is string"),
    ("arrow large", lambda: pa.table({"k": [1], "v": ["a"], "n": [1 << 40]}), "does not fit into int"),
    ("arrow twice", lambda: pa.table([[1], ["a"], [1], [1]], names=["k", "v", "n", "n"]), "two columns `n`"),
    ("arrow weight", lambda: pa.table({"k": [1], "v": ["a"], "n": [1], "_w": pa.array([None], pa.int64())}), "`_w`"),
    ("arrow real weight", lambda: pa.table({"k": [1], "v": ["a"], "n": [1], "_w": [1.0]}), "`_w`"),
    ("arrow change type", lambda: pa.table({"k": [1], "v": ["a"], "n": [1], "_change_type": ["up"]}), "has 'up'"),
    ("frame missing", lambda: sql("SELECT 1L AS k, 'a' AS v"), "has no `n`"),
    ("frame extra", lambda: sql("SELECT 1L AS k, 'a' AS v, 1 AS n, 1 AS z"), "a column `z`"),
    ("frame type", lambda: sql("SELECT 'x' AS k, 'a' AS v, 1 AS n"), "`k` of the change of `s` is string"),
    ("frame large", lambda: sql("SELECT 1L AS k, 'a' AS v, 1L AS n"), "is bigint, and should be int"),
    ("frame twice", lambda: sql("SELECT 1L AS k, 'a' AS v, 1 AS n, 1 AS n"), "two columns `n`"),
    ("frame weight", lambda: sql("SELECT 1L AS k, 'a' AS v, 1 AS n, CAST(NULL AS INT) AS _w"), "`_w`"),
    ("frame change type", lambda: sql("SELECT 1L AS k, 'a' AS v, 1 AS n, 'up' AS _change_type"), "has 'up'"),
    ("text", lambda: "k,v,n", "the change of `s` is of type str"),
    ("dict", lambda: {"k": 1}, "the change of `s` is of type dict"),
    ("one number", lambda: 3, "the change of `s` is of type int"),
    ("delta of text", lambda: hw.Delta(deletes="x"), "the change of `s` is of type str"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "sentence"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_a_change_that_does_not_fit_is_refused(
    shared: hw.Database, given: Callable[[], Any], sentence: str
) -> None:
    with refused(shared, BadChange, sentence):
        shared.apply({"s": given()})


@pytest.mark.parametrize("form", GOOD)
def test_the_corrected_change_is_applied(shared: hw.Database, form: str) -> None:
    shared.apply({"s": GOOD[form]()})
    assert (3, 1, 1, 1) in answers(shared)["g"]
    shared.apply({"s": hw.Delta(deletes=GOOD[form]())})
    assert answers(shared)["s"] == sorted((*r, 1) for r in ROWS)


def test_decimals_and_times_are_not_guessed(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db", spark=session()) as db:
        db.source("p", "d DECIMAL(5,2), t TIMESTAMP, u DATE")
        for row, sentence in [
            (("1.5", None, None), "is no decimal(5,2)"),
            ((1.5, None, None), "is no decimal(5,2)"),
            ((None, 5, None), "5 is no timestamp"),
            ((None, None, 5), "5 is no date"),
        ]:
            with refused(db, BadChange, sentence):
                db.apply({"p": [row]})
        for query in ("1.234", "CAST(1 AS DECIMAL(6,3))"):
            with refused(db, BadChange, "`d` of the change of `p` is decimal"):
                db.apply(
                    {
                        "p": sql(
                            f"SELECT {query} AS d, current_timestamp() AS t, DATE'2024-01-01' AS u"
                        )
                    }
                )


def test_unknown_sources_and_changes_that_are_no_dict(shared: hw.Database) -> None:
    with refused(shared, UnknownName, "`nope` is unknown", "sources: s"):
        shared.apply({"nope": [(1,)]})
    with refused(shared, UnknownName, "`g` is a view; changes are applied to sources"):
        shared.apply({"g": [(1, 1, 1)]})
    with refused(shared, BadChange, "the changes are of type list"):
        shared.apply(ROWS)  # type: ignore[arg-type]
    with refused(shared, UnknownName, "`nope` is unknown"):  # what was staged before it goes again
        shared.apply(
            {
                "s": sql("SELECT id AS k, repeat('x', 3000) AS v, 1 AS n FROM range(1000)"),
                "nope": [],
            }
        )


@pytest.mark.parametrize("execution", ["driver", "spark"])
def test_deletes_of_rows_that_are_not_there(tmp_path: Path, execution: str) -> None:
    with made(tmp_path / "strict") as db:
        db.policy.execution = execution
        with refused(
            db, DeletesMissingRows, "1 row to delete from `s` is not there: (k=9, v='a', n=2)"
        ):
            db.apply({"s": hw.Delta(deletes=[(1, "a", 2), (9, "a", 2)])})
        with refused(
            db, DeletesMissingRows, "2 rows to delete from `s` are not there, such as (k=1"
        ):
            db.apply({"s": [(1, "a", 2, -3)]})
        db.apply({"s": hw.Delta(inserts=[(9, "a", 2)], deletes=[(1, "a", 2), (9, "a", 2)])})
        db.verify()
    with made(tmp_path / "not strict", strict=False) as db:
        db.policy.execution = execution
        commit = db.apply(
            {"s": [(1, "a", 2, -3), (9, "a", 2, -1), (1, "b", 5, -1), (4, "d", 4, 2)]}
        )
        assert commit.ignored == {"s": 3}
        assert answers(db)["s"] == [(2, "a", 7, 1), (4, "d", 4, 2)]
        db.verify()


# --- a second writer -----------------------------------------------------------------------------------------------


def test_a_second_handle_takes_over_from_the_first(tmp_path: Path) -> None:
    first = made(tmp_path / "db")
    second = hw.open(tmp_path / "db", spark=session())
    second.apply({"s": ROWS})
    with refused(first, LeaseLost, "another writer has taken over this database"):
        first.apply({"s": ROWS})
    second.apply({"s": hw.Delta(deletes=ROWS)})
    second.close()
    first.close()
    first.apply({"s": [(7, "z", 1)]})
    first.source("t", "k INT")
    first.view("late", "SELECT k FROM t")
    first.close()
    with pytest.raises(NameTaken):  # declared by the other since this one was opened
        second.view("late", "SELECT v FROM s")
    with pytest.raises(NameTaken):
        second.source("t", "k STRING", retain=False)
    second.apply({"s": [(7, "z", 1)]})
    assert (7, 2, 1, 1) in answers(second)["g"]
    second.verify()
    second.close()


def test_a_writer_in_another_process_is_named(tmp_path: Path) -> None:
    made(tmp_path / "db").close()
    program = f"""
from headwater.state.store import Store
from headwater.state.files import LocalFiles
writer = Store(LocalFiles({str(tmp_path / "db")!r})).writer()
print("writing", flush=True)
input()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "writing\n"
        db = hw.open(tmp_path / "db", spark=session())
        with refused(db, WriterBusy, f"process {child.pid} on ", "no life for 60 s is taken over"):
            db.apply({"s": ROWS})
    finally:
        child.kill()
        child.wait()
    db.apply({"s": ROWS})  # taken over at once: the process is gone
    db.verify()
    db.close()


def test_a_writer_that_was_killed_and_had_the_number_of_this_process(tmp_path: Path) -> None:
    db = made(tmp_path / "db")
    db.close()
    record = {"owner": "another", "host": socket.gethostname(), "pid": os.getpid()}
    db.files.put_if_absent(f"lease/{9:020d}.json", json.dumps(record).encode())
    db.apply({"s": ROWS})
    db.close()


# --- a full disk ---------------------------------------------------------------------------------------------------


class FullDisk:
    """Writes of a database's files, the n-th of which fails, before or after its effect."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path):
        self.at: int | None = None
        self.calls, self.after = 0, False
        for name in ("write", "put_if_absent"):
            patch.setattr(LocalFiles, name, self.failing(getattr(LocalFiles, name), str(root)))

    def failing(self, real: Callable[..., Any], root: str) -> Callable[..., Any]:
        def call(files: LocalFiles, path: str, data: Any) -> Any:
            if str(files.root) != root or "beat" in path or "compact" in path:
                return real(files, path, data)
            self.calls += 1
            fails = self.calls - 1 == self.at
            if fails and not self.after:
                raise OSError(errno.ENOSPC, "No space left on device", path)
            result = real(files, path, data)
            if fails:
                raise OSError(errno.EIO, "Input/output error", path)
            return result

        return call

    def arm(self, at: int, after: bool = False) -> None:
        self.at, self.calls, self.after = at, 0, after


@pytest.mark.parametrize("execution", ["driver", "spark"])
def test_a_full_disk_at_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, execution: str
) -> None:
    db = made(tmp_path / "db")
    db.policy.execution = execution
    disk = FullDisk(monkeypatch, db.path)
    increments = itertools.count(10)

    def everything() -> None:
        k = next(increments)
        db.apply({"s": [(k, "x", k)]}, id=f"i{k}")

    def writes(act: Callable[[], Any]) -> int:
        failed = 0
        for at in itertools.count():
            db.close()  # so that the lease is taken again
            disk.arm(at)
            before = db.version, answers(db)
            try:
                act()
            except StateError as e:
                failed += 1
                assert "could not be written: No space left on device" in str(e)
                assert "nothing was committed; make room" in str(e)
                assert isinstance(e.__cause__, OSError)
                assert (db.version, answers(db)) == before
                assert db.store.head() == db.version
            else:
                break
        disk.at = None
        return failed

    assert writes(everything) >= (3 if execution == "driver" else 2)  # lease, data, record
    assert writes(lambda: db.source("t", "a INT")) >= 2
    query = "SELECT v, min(n) AS m FROM s GROUP BY v"
    assert writes(lambda: db.view("w", query)) >= (3 if execution == "driver" else 2)
    everything()
    db.verify()
    assert writes(lambda: db.drop("w")) >= 2
    db.close()


def test_a_record_that_was_written_but_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = made(tmp_path / "db")
    disk = FullDisk(monkeypatch, db.path)
    disk.arm(1, after=True)  # the data, then the record
    version = db.version
    commit = db.apply({"s": [(8, "x", 8)]}, id="once")
    assert "was committed, but may not survive a power cut: Input" in commit.warnings[0]
    assert db.version == commit.version == version + 1
    disk.at = None
    assert db.apply({"s": [(8, "x", 8)]}, id="once").repeated
    assert (8, 1, 8, 1) in answers(db)["g"]
    db.verify()
    db.close()


def test_a_full_disk_under_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = made(tmp_path / "db")
    db.policy.execution = "spark"

    class Full(LocalFiles):
        def write(self, path: str, chunks: Iterable[Any]) -> int:
            raise OSError(28, "No space left on device", path)

    with monkeypatch.context() as patch:
        patch.setattr(
            "headwater.engine.spark.rounds.LocalFiles", Full
        )  # closures carry it to tasks
        with refused(
            db, EngineError, "carrying a change through the views", "No space left on device"
        ):
            db.apply({"s": [(8, "x", 8)]})
    db.apply({"s": [(8, "x", 8)]})
    db.verify()
    db.close()


def test_a_disk_that_fills_up_while_old_files_are_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = made(tmp_path / "db")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("headwater.state.collection.Collector.collect", full)
    warned = []
    for _ in range(20):
        commit = db.apply({"s": [(8, "x", 8)]})
        assert commit.version == db.version == db.store.head()
        assert db._writer is not None
        db._writer.wait()
        warned += commit.warnings
    assert "old files could not be tidied up: No space left on device" in warned
    db.close()


def test_a_missing_file_is_named_on_spark_too(tmp_path: Path) -> None:
    db = made(tmp_path / "db")
    for file in (db.path / "data").iterdir():
        file.rename(tmp_path / file.name)
    lost = hw.open(tmp_path / "db", spark=session())
    db.close()
    lost.policy.execution = "spark"
    with pytest.raises(EngineError, match=r"data/run-\w+.* is damaged: ") as caught:
        lost.apply({"s": [(1, "x", 8)]})
    assert not JAVA.search(str(caught.value))
    for file in tmp_path.glob("run-*"):
        file.rename(db.path / "data" / file.name)
    lost.apply({"s": [(1, "x", 8)]})
    lost.verify()
    lost.close()


# --- Python functions and frames that fail ------------------------------------------------------------------------


@pytest.fixture
def functions() -> Iterator[None]:
    """Functions that are defined in a test are forgotten after it."""
    before = set(DEFINED)
    yield
    for name in set(DEFINED) - before:
        forget(name)


def forget(name: str) -> None:
    """As in a process where a function was not defined."""
    del DEFINED[name], SCALARS[name]


@pytest.mark.parametrize("execution", ["driver", "spark"])
def test_a_function_that_raises_or_dies(tmp_path: Path, functions: None, execution: str) -> None:
    fuse = str(tmp_path / "fuse")

    @hw.function(returns="INT")
    def fragile(n):  # type: ignore[no-untyped-def]
        if n == 13:
            raise ValueError("thirteen is no good\nand never was")
        if n == 14:
            import os
            import signal

            try:
                os.close(os.open(fuse, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return n
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    @hw.query
    def good(s):  # type: ignore[no-untyped-def]
        return ((x.k, fragile(x.n)) for x in s)

    db = made(tmp_path / "db")
    db.policy.execution = execution
    db.view("f", good)
    with refused(db, EngineError, "ValueError: thirteen is no good\nand never was"):
        db.apply({"s": [(5, "x", 13)]})
    with refused(db, EngineError, "a Python process of Spark ended"):
        db.apply({"s": [(5, "x", 14)]})
    db.apply({"s": [(5, "x", 14)]})
    db.verify()
    db.close()


def test_a_function_that_is_not_registered_after_reopening(tmp_path: Path, functions: None) -> None:
    def define(constant: int) -> Any:
        names: dict[str, Any] = {}
        exec(compile(f"def twice(n):\n    return n * {constant}\n", "<twice>", "exec"), names)
        return hw.function(returns="INT")(names["twice"])

    twice = define(2)

    @hw.query
    def doubled(s):  # type: ignore[no-untyped-def]
        return ((x.k, twice(x.n)) for x in s)

    with made(tmp_path / "db") as db:
        db.view("f", doubled)
        before = answers(db)
    forget("twice")
    db = hw.open(tmp_path / "db", spark=session())
    assert answers(db) == before
    with refused(
        db, StateError, "the view `f` calls the function `twice`, which is not registered"
    ):
        db.apply({"s": [(5, "x", 1)]})
    define(3)
    with refused(db, StateError, "`twice` is not the one that the view `f` was defined with"):
        db.apply({"s": [(5, "x", 1)]})
    define(2)
    db.apply({"s": [(5, "x", 1)]})
    db.verify()
    db.close()


def test_a_frame_that_fails_while_it_is_evaluated(shared: hw.Database) -> None:
    from pyspark.sql import functions as F

    with refused(shared, EngineError, "reading the change of `s`", "boom"):
        shared.apply({"s": sql("SELECT 1L AS k, 'a' AS v, CAST(raise_error('boom') AS INT) AS n")})

    def broken(x: int) -> str:
        raise KeyError("what the user wrote")

    frame = session().range(3).select(
        F.col("id").alias("k"), F.udf(broken)("id").alias("v"), F.lit(1).alias("n")
    )  # fmt: skip
    with refused(
        shared, EngineError, "reading the change of `s`", "KeyError: 'what the user wrote'"
    ):
        shared.apply({"s": frame})

    def rows() -> Iterator[tuple[Any, ...]]:
        yield ROWS[0]
        raise RuntimeError("the user's own")

    before = shared.version, answers(shared)
    with pytest.raises(RuntimeError, match="the user's own"):
        shared.apply({"s": rows()})
    assert (shared.version, answers(shared)) == before


# --- frames that give another answer each time ----------------------------------------------------------------------


@pytest.mark.parametrize("execution", ["driver", "spark"])
def test_a_frame_is_evaluated_once(tmp_path: Path, execution: str) -> None:
    spark, grows = session(), tmp_path / "grows"
    spark.range(50).selectExpr("id AS k", "'f' AS v", "1 AS n").write.parquet(str(grows))

    def frames() -> Iterator[Any]:
        yield (
            spark.range(40)
            .selectExpr("id", "CAST(10 * rand() AS INT) AS n")
            .repartition(2)
            .selectExpr("monotonically_increasing_id() % 5 + n AS k", "uuid() AS v", "n")
        )
        growing = spark.read.parquet(str(grows))
        more = spark.range(60).selectExpr("id AS k", "'g' AS v", "2 AS n")
        more.write.mode("append").parquet(str(grows))
        yield growing

    with made(tmp_path / "db") as db:
        db.policy.execution = execution
        db.view("twice", "SELECT a.k, count(*) AS c FROM s a JOIN s b ON a.v = b.v GROUP BY a.k")
        for frame in frames():
            before = sum(r[-1] for r in answers(db)["s"])
            commit = db.apply({"s": frame})
            after = sum(r[-1] for r in answers(db)["s"])
            assert after - before == commit.rows["s"] and commit.where == execution
            assert sum(r[1] * r[-1] for r in answers(db)["g"]) == after
        db.verify()


# --- a session that is gone ------------------------------------------------------------------------------------------

STOPPED = """
import sys, os, signal
import headwater as hw
from headwater.errors import HeadwaterError
from pyspark.sql import SparkSession

def started():
    return (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
            .config("spark.log.level", "OFF").getOrCreate())

def tried(what, act):
    try:
        act()
    except HeadwaterError as e:
        print(f"{what}: {type(e).__name__}: {e.what} | {e.hint}".replace(chr(10), " "))
    except Exception as e:
        print(f"{what}: NOT OURS {type(e).__name__}: {str(e)[:200]}".replace(chr(10), " "))
    else:
        print(f"{what}: done")

for how in ("stop", "kill"):
    spark = started()
    db = hw.open(sys.argv[1], spark=spark)
    db.source("s", "k BIGINT, v STRING, n INT")
    db.view("g", "SELECT k, count(*) AS c, max(n) AS m FROM s GROUP BY k")
    db.apply({"s": [(1, "a", 2)]})
    frame = spark.sql("SELECT 1L AS k, 'a' AS v, 1 AS n")
    version = db.version
    if how == "stop":
        spark.stop()
    else:
        java = spark.sparkContext._gateway.proc
        os.kill(java.pid, signal.SIGKILL)
        java.wait()
    tried("frame", lambda: db.apply({"s": frame}))
    db.policy.execution = "spark"
    tried("spark", lambda: db.apply({"s": [(2, "a", 2)]}))
    tried("verify", lambda: db.verify())
    tried("recompute", lambda: db.view("w", "SELECT k FROM s", strategy="recompute"))
    assert db.version == db.store.head() == version
    db.policy.execution = "driver"
    tried("driver", lambda: db.apply({"s": [(1, "a", 2)]}))
    print(db.table("g").to_pylist())
    db.close()
sys.stdout.flush()
os._exit(0)
"""


def test_a_session_that_is_gone(tmp_path: Path) -> None:
    program = [sys.executable, "-c", STOPPED, str(tmp_path / "db")]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        program, capture_output=True, text=True, timeout=150, cwd=tmp_path, env=env
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 12, done.stdout + done.stderr[-3000:]
    for i in (0, 1, 2, 3, 6, 7, 8, 9):
        assert ": EngineError: Spark failed while " in lines[i], lines[i]
        assert ": the session was stopped, or its Java process ended" in lines[i], lines[i]
        assert "start a session and open the database again" in lines[i], lines[i]
    # What needs no Spark goes on.
    assert lines[4:6] == ["driver: done", "[{'k': 1, 'c': 2, 'm': 2, '_w': 1}]"]
    assert lines[10:12] == ["driver: done", "[{'k': 1, 'c': 4, 'm': 2, '_w': 1}]"]
    with hw.open(tmp_path / "db", spark=session()) as db:
        db.apply({"s": [(1, "a", 2)]})
        db.verify()
