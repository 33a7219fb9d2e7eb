"""Sinks follow their view: whatever happens in between, what they have is the view at the version that they say."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import (
    InUse,
    NameTaken,
    QueryError,
    SinkError,
    SinkMissing,
    StateError,
    UnknownName,
)
from headwater.feeds.kinds import Option
from headwater.sinks import kinds
from sink_stories import Killed, Orders, bag, declared, lines_in, rows_of, watched


@pytest.mark.parametrize("view", ["totals", "items"])
@pytest.mark.parametrize("after", [False, True])
def test_a_sync_that_is_killed_at_any_step_goes_on(view: str, after: bool, tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db, watched() as steps:
        out = tmp_path / "out"
        db.sink("out", view, format="jsonl", path=str(out))
        story, kill, ended = Orders(db, 7), 0, False
        while not ended:
            for _ in range(3):
                story.change()
            kill, steps.taken = kill + 1, 0
            steps.kill, steps.after = kill, after
            try:
                db.sync("out")
                ended = True  # it has no more steps than that
            except Killed:
                steps.kill = 0
                assert db["out"].sync().moved or after
            assert lines_in(out) == rows_of(db, view)
        assert kill > 6


def test_a_run_brings_sinks_on_and_the_log_knows(tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db:
        db.sink("out", "totals", format="jsonl", path=str(tmp_path / "out"))
        assert (db["out"].status.version, db["out"].status.behind) == (None, 3)
        Orders(db, 1).change()
        newest = db.version
        assert db.run().synced == {"out": newest}
        assert db.run().synced == {}
        assert db.version == newest + 1, "one version, which says how far sinks have come"
        assert db["out"].status.behind == 0
    with hw.open(tmp_path / "db") as db:
        status = db["out"].status
        assert (status.version, status.behind, status.here) == (newest, 0, False)
        with pytest.raises(SinkMissing, match="declare it again"):
            db.sync("out")
        db.apply({"orders": [(9, "ax", 1.0)]})
        assert db["out"].status.behind == 1
        ran = db.run()
        assert ran.synced == {}, "a path in a log may be somebody else's"
        assert ran.held == {"out": "it is not declared in this process"}
        db.sink("out", "totals", format="jsonl", path=str(tmp_path / "out"))
        assert db.run().synced == {"out": newest + 2}
        assert lines_in(tmp_path / "out") == rows_of(db, "totals")


def test_a_version_that_is_gone(tmp_path: Path) -> None:
    """Versions are not kept for sinks: the whole view follows, or nothing where that was asked for."""
    with declared(tmp_path / "db", keep_versions=2) as db:
        story = Orders(db, 3)
        for name, gap in (("whole", "whole"), ("stop", "stop")):
            path = str(tmp_path / name)
            db.sink(name, "totals", format="jsonl", path=path, options={"gap": gap})
        story.change()
        assert db.sync("stop").whole == "it is new"
        db.sync("whole")
        for _ in range(12):
            story.change()
        db.keep(versions=1)
        assert db.sync("whole").whole.startswith("version")
        assert lines_in(tmp_path / "whole") == rows_of(db, "totals")
        with pytest.raises(StateError, match=r"cannot go on.*\n.*gap = whole"):
            db.sync("stop")


def test_a_restored_backup_is_another_history(tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db:
        db.apply({"orders": [(5, "ax", 1.0)]})
    shutil.copytree(tmp_path / "db", tmp_path / "backup")
    sink: dict[str, Any] = {"format": "jsonl", "path": str(tmp_path / "out")}
    with hw.open(tmp_path / "db") as db:
        db.sink("out", "totals", **sink)
        for price in (2.0, 3.0, 4.0):
            db.apply({"orders": [(5, "ax", price)]})
            db.sync("out")
    with hw.open(tmp_path / "backup") as db:
        db.sink("out", "totals", **sink)
        db.apply({"orders": [(5, "pin", 2.0)]})
        assert "history" in db.sync("out").whole
        assert lines_in(tmp_path / "out") == rows_of(db, "totals")


def test_a_view_that_is_replaced_or_defined_anew(tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db:
        out = tmp_path / "out"
        Orders(db, 5).change(9)
        db.sink("out", "items", format="jsonl", path=str(out))
        db.sync()
        db.view("items", "SELECT item, price FROM orders WHERE id > 3", replace=True)
        assert not db.sync().whole
        assert lines_in(out) == rows_of(db, "items")
        db.view("items", "SELECT id, item FROM orders", replace=True)
        assert "other columns" in db.sync().whole
        assert lines_in(out) == rows_of(db, "items")


def test_nested_rows_are_written_whole(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("c", "id BIGINT, lines ARRAY<STRUCT<part: STRING, n: BIGINT>>", key="id")
        db.view("v", "SELECT * FROM c")
        db.sink("out", "v", format="jsonl", path=str(tmp_path / "out"))
        db.apply({"c": [(1, [("ax", 1)]), (2, [])]})
        db.sync()
        db.apply({"c": hw.Delta(inserts=[(3, None)], deletes=[(2, [])])})
        db.sync()
        assert lines_in(tmp_path / "out") == rows_of(db, "v")
        assert len(list((tmp_path / "out").glob("*.jsonl"))) == 2


# --- functions ------------------------------------------------------------------------------------------------------


class Kept:
    """A function that keeps the version together with what it does."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.at: int | None = None
        self.calls = 0

    def version(self) -> int | None:
        return self.at

    def __call__(self, changes: pa.Table, version: int) -> None:
        self.calls += 1
        self.rows += changes.to_pylist()
        self.at = version

    def replace(self, rows: pa.Table, version: int) -> None:
        self.rows, self.at = rows.to_pylist(), version


def test_a_function_is_called_at_least_once(tmp_path: Path) -> None:
    """One that is killed before its version is committed is called again with what changed since the same version."""
    calls: list[tuple[int, list[dict[str, Any]]]] = []
    with declared(tmp_path / "db") as db:
        made = db.sink("f", "items", foreach=lambda t, v: calls.append((v, t.to_pylist())))
        db.apply({"orders": [(5, "ax", 1.0)]})
        made.sync()
        db.apply({"orders": [(5, "pin", 1.0)]})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(db, "_remember", _killed)
            with pytest.raises(Killed):
                made.sync()
        made.sync()
        assert made.sync().moved is False
    (_, first), (_, second), (_, again) = calls
    assert [r["item"] for r in first] == ["ax"] and second == again
    assert second == [{"item": "pin", "price": 1.0, "_w": 1}]


def test_a_function_that_keeps_the_version_is_called_once(tmp_path: Path) -> None:
    f = Kept()
    with declared(tmp_path / "db", keep_versions=3) as db:
        made, story = db.sink("f", "items", foreach=f), Orders(db, 11)
        for killed in (True, False, True, True, False):
            story.change(8)
            with pytest.MonkeyPatch.context() as patch:
                if killed:
                    patch.setattr(db, "_remember", _killed)
                    with pytest.raises(Killed):
                        made.sync()
            made.sync()
            assert bag(f.rows) == rows_of(db, "items")
        for _ in range(9):
            story.change()
        db.keep(versions=1)
        made.sync()
        assert bag(f.rows) == rows_of(db, "items") and f.calls == 5


def _killed(*_: Any) -> None:
    raise Killed


def test_a_function_that_raises_is_held_and_the_rest_goes_on(tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db:
        db.sink("a", "items", foreach=lambda t, v: 1 // 0)
        db.sink("b", "items", format="jsonl", path=str(tmp_path / "b"))
        Orders(db, 2).change(9)
        with pytest.raises(SinkError, match="ZeroDivisionError"):
            db.run()
        assert "ZeroDivisionError" in db["a"].status.held
        assert lines_in(tmp_path / "b") == rows_of(db, "items")
        db.drop("a")
        db.run()


# --- what is refused ------------------------------------------------------------------------------------------------


def test_what_is_declared_wrongly_is_refused_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    with declared(tmp_path / "db") as db:
        for wrong, told in (
            ({"format": "jason", "path": path}, "'jason'"),
            ({"format": "jsonl"}, "has no path"),
            ({"format": "jsonl", "path": path, "options": {"gab": "stop"}}, "`gab`"),
            ({"format": "jsonl", "path": path, "options": {"gap": "sometimes"}}, "'sometimes'"),
            ({"foreach": 3}, "foreach"),
            ({"foreach": print, "path": path}, "has a path"),
            ({"foreach": print, "format": "jsonl"}, "a format and a function"),
        ):
            with pytest.raises(QueryError, match=told):
                db.sink("s", "items", **wrong)  # type: ignore[arg-type]
        with pytest.raises(UnknownName):
            db.sink("s", "nothing", format="jsonl", path=path)
        with pytest.raises(NameTaken):
            db.sink("orders", "items", format="jsonl", path=path)
        assert db.sinks == [] and not (tmp_path / "out").exists()
        db.sink("s", "items", format="jsonl", path=path)
        with pytest.raises(NameTaken, match="of `items`"):
            db.sink("s", "totals", format="jsonl", path=path)
        with pytest.raises(NameTaken):
            db.source("s", "id BIGINT")
        with pytest.raises(InUse, match="the sink `s`"):
            db.drop("items")
        db.drop("s")
        db.drop("items")


def test_targets_of_others_are_refused(tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db, declared(tmp_path / "other") as other:
        out = tmp_path / "out"
        Orders(db, 2).change()
        db.sink("s", "items", format="jsonl", path=str(out))
        db.sync("s")
        with pytest.raises(QueryError, match="a copy of `items`"):
            db.sink("t", "totals", format="jsonl", path=str(out))
        with pytest.raises(StateError, match="another database"):
            other.sink("s", "items", format="jsonl", path=str(out))
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "letter.txt").write_text("dear")
        with pytest.raises(SinkError, match=r"files of others: letter\.txt"):
            db.sink("t", "totals", format="jsonl", path=str(tmp_path / "mine"))
        with pytest.raises(SinkError, match="cannot be read: Not a directory"):
            db.sink("t", "totals", format="jsonl", path=str(tmp_path / "mine" / "letter.txt" / "x"))
        (out / "_headwater.json").write_text("{}")
        with pytest.raises(SinkError, match="does not say"):
            db.sync("s")
        assert db.sinks == ["s"]


def test_secrets_are_not_written_to_the_log(tmp_path: Path) -> None:
    kind = kinds.Kind(
        "headwater.sinks.jsonl:make",
        {"password": Option(needed=True, secret=True)},
        path=True,
    )
    with pytest.MonkeyPatch.context() as patch, declared(tmp_path / "db") as db:
        patch.setitem(kinds.KINDS, "safe", kind)
        path = str(tmp_path / "out")
        with pytest.raises(QueryError, match="no option `password`"):
            db.sink("s", "items", format="safe", path=path)
        with pytest.raises(QueryError) as wrong:
            db.sink("s", "items", format="safe", path=path, options={"password": ["tulip"]})
        assert "tulip" not in str(wrong.value)
        db.sink("s", "items", format="safe", path=path, options={"password": "tulip"})
        db.sync("s")
    texts = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    assert not any(b"tulip" in t for t in texts)
