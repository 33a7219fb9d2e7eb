"""The directory of a database: what may be one, and whose files are touched.

What is not ours is never opened, changed or deleted; what is ours and not as it was written is an error of ours that
names the file. How much of the past is kept, which ids were applied and which database it is are facts of the
directory, and hold for whoever opens it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import headwater as hw
from comprehensions import canonical
from faulty_files import Stopped
from headwater.api import writing
from headwater.command.cli import main
from headwater.engine.change import write_file
from headwater.engine.view_rows import repeated
from headwater.errors import (
    BadChange,
    DamagedState,
    HeadwaterError,
    SettingsDiffer,
    StateError,
    UnknownName,
    VersionGone,
)
from headwater.state.directory import FORMAT, MARKER
from headwater.state.files import LocalFiles
from headwater.state.log import path_of
from headwater.state.run import RunRef

Shown = pytest.CaptureFixture[str]
HEX = "0123456789abcdef" * 2
RUN = f"data/run-{HEX}.arrow"
ARCHIVE = Path(__file__).parents[1] / "data" / "847a28b.tar.gz"
VIEWS = {
    "total": "SELECT k, count(*) AS c, sum(n) AS t FROM s GROUP BY k",
    "most": "SELECT k, max(n) AS m, min(v) AS l FROM s GROUP BY k",
    "kinds": "SELECT DISTINCT v FROM s",
    "named": "SELECT s.k, name, n FROM s JOIN names ON s.k = names.k",
}


def made(path: Path | str, **options: Any) -> hw.Database:
    """A database with the rows of one increment."""
    db = hw.open(path, **options)
    db.source("s", "k BIGINT, v STRING, n INT")
    db.source("names", "k BIGINT, name STRING")
    for name, query in VIEWS.items():
        db.view(name, query)
    db.apply({"s": rows(0), "names": [(k, f"name {k}") for k in range(4)]})
    return db


def rows(i: int) -> list[tuple[int, str, int]]:
    """What increment i inserts."""
    return [(k, "abc"[(i + k) % 3], 10 * i + k) for k in range(4)]


def step(db: hw.Database, i: int, **more: Any) -> hw.Commit:
    """Increment i: rows that come, and some of the one before that go."""
    return db.apply({"s": hw.Delta(inserts=rows(i), deletes=rows(i - 1)[:2])}, **more)


def bag(table: pa.Table) -> Any:
    return canonical(repeated(table).to_pylist())


def answers(db: hw.Database, version: int | None = None) -> dict[str, Any]:
    """All that can be read."""
    out = {}
    for name in (*db.sources, *db.views):
        with contextlib.suppress(UnknownName):  # it was not there yet
            out[name] = bag(db.table(name, version))
    return out


def tree(path: Path) -> dict[str, Any]:
    """Everything below a directory: what files have, where links lead, and when each was written."""
    out: dict[str, Any] = {}
    for at in sorted(path.rglob("*")):
        about = at.lstat()
        held = (
            os.readlink(at) if at.is_symlink() else at.read_bytes() if at.is_file() else "a folder"
        )
        out[str(at.relative_to(path))] = held, about.st_mtime_ns, about.st_mode
    return out


def put(path: Path, content: bytes = b"somebody's") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def told(call: Callable[[], Any]) -> str:
    """What an error of ours says; nothing where there is none."""
    try:
        call()
    except HeadwaterError as e:
        return str(e)
    return ""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed database of some versions, to be copied."""
    path = tmp_path_factory.mktemp("small") / "db"
    with made(path) as db:
        for i in range(1, 4):
            step(db, i)
    return path


@pytest.fixture
def copied(small: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small, tmp_path / "db"))


# --- what may be a database ------------------------------------------------------------------------------------

FOREIGN: dict[str, list[str]] = {
    "staging": ["staging/x.csv"],
    "data": ["data/old.arrow"],
    "data beside a run": ["data/old.arrow", RUN],
    "log": ["log/app.log"],
    "floor": ["floor/plan.dwg"],
    "lease": ["lease/contract.pdf"],
    "a readme": ["README"],
    "hidden": [".env"],
    "folders": ["data/2024/x.arrow", "log/2024/x.json"],
    "a folder": ["src/x.py"],
    "all of it": ["staging/x.csv", "data/old.arrow", "log/app.log", "README"],
}


@pytest.mark.parametrize("names", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_directory_of_somebody_else_is_refused_and_stays_as_it_is(
    tmp_path: Path, names: list[str], capsys: Shown
) -> None:
    project = tmp_path / "project"
    for name in names:
        os.utime(put(project / name), (1_000_000_000, 1_000_000_000))
    before = tree(project)
    with pytest.raises(StateError, match="is not empty and is no database") as caught:
        hw.open(project)
    folders = [f"{n.split('/')[0]}/{n.split('/')[1]}" for n in names if n.count("/") > 1]
    assert any(n.split("/")[0] in str(caught.value) for n in (*names, *folders))
    for command in (["status"], ["check"], ["show"], ["explain"]):
        more = ["v"] if command[0] in ("show", "explain") else []
        assert main([*command, str(project), *more]) == 1
    assert capsys.readouterr().err
    assert tree(project) == before


def test_a_log_of_somebody_else_that_is_called_like_ours_is_damaged_and_stays(
    tmp_path: Path,
) -> None:
    put(tmp_path / path_of(1), b'{"level": "info"}')
    put(tmp_path / "data" / "mine.arrow")
    before = tree(tmp_path)
    with pytest.raises(DamagedState, match=path_of(1)):
        hw.open(tmp_path)
    assert tree(tmp_path) == before


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    put(tmp_path / "x")
    with pytest.raises(StateError, match="is a file"):
        hw.open(tmp_path / "x")
    with pytest.raises(StateError, match="x"):
        hw.open(tmp_path / "x" / "y")


def test_opening_writes_nothing_and_an_empty_directory_may_become_a_database(
    tmp_path: Path,
) -> None:
    hw.open(tmp_path / "new").close()
    assert not (tmp_path / "new").exists()
    empty = tmp_path / "empty"
    (empty / "lost+found").mkdir(parents=True)
    with made(empty) as db:
        assert db.table("total").num_rows == 4
    assert (empty / "lost+found").is_dir()


USERS = [
    "data/mine.csv",
    "staging/mine.csv",
    "log/notes.txt",
    "floor/x",
    "lease/y",
    "notes.txt",
    "data/.hidden",
    "log/.hidden.json",
    "staging/.x",
    ".gitignore",
]


def test_files_that_a_user_puts_into_a_database_are_never_deleted_and_are_named(
    tmp_path: Path, capsys: Shown
) -> None:
    path = tmp_path / "db"
    with made(path, keep_versions=5) as db:
        for name in USERS:
            os.utime(put(path / name), (1_000_000_000, 1_000_000_000))
        put(path / "mine" / "deep" / "x.csv")
        before = {n: t for n, t in tree(path).items() if n in USERS or n.startswith("mine")}
        for i in range(1, 31):
            assert not step(db, i).warnings
    with hw.open(path) as db:
        for i in range(31, 61):
            assert not step(db, i).warnings
    with hw.open(path) as db:
        found = db.check()
        assert not found.problems
        assert set(found.strays) == set(USERS)
        assert db.version == 61 + 2 + len(VIEWS)
        assert len(os.listdir(path / "log")) < 40, "old records are collected"
    for command in ("status", "check"):
        assert main([command, str(path)]) == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in USERS)
    assert {n: t for n, t in tree(path).items() if n in before} == before


def test_what_was_left_of_a_write_is_collected_and_hidden_files_of_users_are_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "db"
    made(path, keep_versions=3).close()
    left = [f"log/.{9:020d}.json.{HEX}", f"floor/.{9:020d}.{HEX}", f"data/.run-{HEX}.arrow.{HEX}"]
    users = ["log/.swp", f"data/.mine.{HEX[:31]}", f"floor/mine.{HEX}", "data/.nfs0001"]
    for name in (*left, *users):
        put(path / name)
    with hw.open(path) as db:
        for i in range(1, 11):
            step(db, i)
    with hw.open(path) as db:
        for i in range(11, 21):
            step(db, i)
    there = tree(path)
    assert not [n for n in left if n in there]
    assert all(n in there for n in users)


# --- links -----------------------------------------------------------------------------------------------------


def uses(path: Path) -> Iterator[Callable[[], Any]]:
    """Everything that is done with a database, one after another."""
    yield lambda: hw.open(path)
    for name in ("total", "s"):
        yield lambda name=name: hw.open(path).table(name)  # type: ignore[misc]
        yield lambda name=name: hw.open(path).table(name, 5)  # type: ignore[misc]
    yield lambda: hw.open(path).changes_table("named", 3)
    yield lambda: hw.open(path).check()
    yield lambda: hw.open(path).on_disk()
    yield lambda: hw.open(path).keep()

    def applied() -> None:
        with hw.open(path) as db:
            for i in range(4, 7):
                step(db, i)

    yield applied
    yield lambda: hw.open(path).keep(versions=2)
    yield applied


@pytest.mark.parametrize("folder", ["staging", "data", "log", "lease", "floor"])
@pytest.mark.parametrize("dangling", [False, True], ids=["to a folder", "to nothing"])
def test_a_folder_that_is_a_link_is_not_followed(
    copied: Path, tmp_path: Path, folder: str, dangling: bool, capsys: Shown
) -> None:
    outside = tmp_path / "outside"
    inside = copied / folder
    if inside.exists():
        shutil.move(inside, outside)
    put(outside / f"{HEX}.arrow")
    put(outside / f"run-{HEX}.arrow")
    put(outside / f"{99:020d}.json", b"")
    if dangling:
        shutil.rmtree(outside)
    inside.symlink_to(outside)
    before = tree(tmp_path) if dangling else tree(outside)
    errors = [told(use) for use in uses(copied)]
    assert any(f"{folder} is a link" in e for e in errors)
    for command in ("status", "check"):
        main([command, str(copied)])
    capsys.readouterr()
    assert outside.exists() is not dangling
    if not dangling:
        assert tree(outside) == before


def test_a_change_is_not_staged_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "staging").symlink_to(tmp_path / "outside")
    with pytest.raises(StateError, match="is a link"):
        write_file(tmp_path / "db", pa.table({"x": [1]}))
    assert not tree(tmp_path / "outside")


@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_a_data_file_that_is_none_is_damaged_and_not_opened(
    copied: Path, tmp_path: Path, what: str, capsys: Shown
) -> None:
    (tmp_path / "outside").mkdir()
    newest = hw.open(copied).store.at().version
    for name in sorted(newest.files):
        path = copied / "data" / name
        shutil.move(path, tmp_path / "outside" / name)
        if what == "link":
            path.symlink_to(tmp_path / "outside" / name)
        elif what == "folder":
            path.mkdir()
        else:
            os.mkfifo(path)
    before = tree(tmp_path / "outside")
    with pytest.raises(DamagedState, match=r"data/\w+-\w+\.arrow"):
        hw.open(copied).table("total")
    with pytest.raises(DamagedState, match=r"data/\w+-\w+\.arrow"):
        step(hw.open(copied), 4)
    assert {p.path for p in hw.open(copied).check().problems} == {f"data/{n}" for n in newest.files}
    assert main(["check", str(copied)]) == 1
    assert main(["status", str(copied)]) == 1
    capsys.readouterr()
    assert tree(tmp_path / "outside") == before


def test_a_record_or_lease_that_is_a_link_is_not_read(copied: Path, tmp_path: Path) -> None:
    """A file that is no file of ours is not there: so a record is missing, and a lease says nothing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    head = hw.open(copied).version
    for path in (copied / path_of(head - 1), *(copied / "lease").glob("*.json")):
        shutil.move(path, outside / path.name)
        path.symlink_to(outside / path.name)
    before = tree(outside)
    for use in uses(copied):
        told(use)
    with pytest.raises(DamagedState, match=path_of(head - 1)):
        hw.open(copied)
    assert tree(outside) == before


def test_the_directory_itself_may_be_a_link(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small, tmp_path / "there")
    (tmp_path / "here").symlink_to(tmp_path / "there")
    with hw.open(tmp_path / "here") as db:
        assert step(db, 4).version == hw.open(tmp_path / "there").version
        assert not db.check().problems


# --- the marker ------------------------------------------------------------------------------------------------


def test_the_marker_is_made_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    made_, now = LocalFiles._made, LocalFiles.now

    def noted(files: LocalFiles, path: str) -> Path:
        written.append(path)
        return made_(files, path)

    def told_time(files: LocalFiles) -> float:
        written.append("now")
        return now(files)

    monkeypatch.setattr(LocalFiles, "_made", noted)
    monkeypatch.setattr(LocalFiles, "now", told_time)
    with hw.open(tmp_path / "db") as db:
        assert written == []
        db.source("s", "k BIGINT")
    assert written[0] == MARKER
    assert {w.split("/")[0] for w in written[1:]} >= {"lease", "now", "log"}
    about = json.loads((tmp_path / "db" / MARKER).read_bytes())
    assert about["format"] == FORMAT
    assert about["made_by"] == f"headwater {hw.__version__}"


def test_what_a_writer_leaves_that_died_before_its_first_commit_is_no_obstacle(
    tmp_path: Path,
) -> None:
    made_ = LocalFiles._made
    for stop in (MARKER, "lease/", "data/", "log/"):
        path = tmp_path / stop.strip("/")

        def failing(files: LocalFiles, at: str, stop: str = stop) -> Path:
            if at.startswith(stop):
                raise Stopped
            return made_(files, at)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(LocalFiles, "_made", failing)
            with pytest.raises(Stopped):
                made(path)
        with made(path) as db:
            assert db.table("total").num_rows == 4
            assert not db.check().problems


def test_a_newer_format_is_refused_by_name_and_nothing_is_written(
    copied: Path, capsys: Shown
) -> None:
    put(copied / MARKER, json.dumps({"format": 7, "made_by": "headwater 9.1"}).encode())
    before = tree(copied)
    with pytest.raises(StateError, match=r"has format 7, made by headwater 9\.1") as caught:
        hw.open(copied)
    assert not isinstance(caught.value, DamagedState)
    assert "newer version of Headwater" in str(caught.value)
    for command in ("status", "check"):
        assert main([command, str(copied)]) == 1
        assert "format 7" in capsys.readouterr().err
    assert tree(copied) == before


MARKERS = [
    b"",
    b"{}",
    b"[]",
    b'"x"',
    b"\xff\xfe\x00",
    b"{",
    b'{"format": null}',
    b'{"format": "two"}',
    b'{"format": Infinity}',
    b'{"format": NaN}',
    b'{"format": [1]}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("content", MARKERS, ids=[repr(m[:20]) for m in MARKERS])
def test_a_marker_that_cannot_be_read_is_damaged(copied: Path, content: bytes) -> None:
    put(copied / MARKER, content)
    before = tree(copied)
    with pytest.raises(DamagedState, match=MARKER):
        hw.open(copied)
    assert tree(copied) == before


def test_a_database_without_a_marker_gets_one_when_it_is_written_to(copied: Path) -> None:
    (copied / MARKER).unlink()
    expected = answers(hw.open(copied))
    assert not (copied / MARKER).exists()
    with hw.open(copied) as db:
        assert answers(db) == expected
        step(db, 4)
    assert json.loads((copied / MARKER).read_bytes())["format"] == FORMAT


# --- paths -----------------------------------------------------------------------------------------------------

ELSEWHERE = [
    "s3://b/x",
    "abfss://c@a.example.com/x",
    "hdfs:/x",
    "HDFS://n/x",
    "dbfs:/x",
    "gs://[x",
    Path("s3://b/x"),
    "file:" + "//server/x",
    "",
    "file:",
    "a\0b",
    5,
    None,
    b"x",
]


@pytest.mark.parametrize("given", ELSEWHERE, ids=repr)
@pytest.mark.parametrize("what", [hw.open, hw.ParquetCopy], ids=["database", "copy"])
def test_what_is_not_on_a_local_disk_is_refused_and_no_directory_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, what: Callable[[Any], Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StateError) as caught:
        what(given)
    assert len(str(caught.value).splitlines()) > 1, "what to do is not said"
    assert not tree(tmp_path)


@pytest.mark.parametrize("way", ["file://{}", "file:{}", "FILE://localhost{}", "{}", "path", "~"])
def test_ways_to_say_a_local_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    at = tmp_path / "a b#c?d"
    named = str(at).replace(" ", "%20") if "file" in way.lower() else str(at)
    given: Any = {"path": Path("a b#c?d"), "~": "~/a b#c?d"}.get(way, way.format(named))
    with made(given) as db:
        assert db.path == at
        expected = bag(db.table("total"))
        suffixed = given / "copy" if isinstance(given, Path) else f"{given}.copy"
        copy = hw.ParquetCopy(suffixed)
        copy.sync(db["total"])
        assert bag(copy.rows()) == expected
    assert bag(hw.open(at).table("total")) == expected
    assert {p.name for p in tmp_path.iterdir()} <= {at.name, f"{at.name}.copy"}


def test_a_home_directory_of_nobody_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="has no meaning here"):
        hw.open("~nobody-of-that-name/x")


# --- files of ours that are not as they were written -------------------------------------------------------------

BAD = {"empty": b"", "zeros": bytes(100), "text": b"\xff\xfe not ours\n", "json": b"{}"}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_an_unreadable_record_is_named(copied: Path, content: bytes, capsys: Shown) -> None:
    head = hw.open(copied).version
    for number in (1, 3, head):
        path = copied / path_of(number)
        good = path.read_bytes()
        path.write_bytes(content)
        with pytest.raises(DamagedState, match=path_of(number)):
            hw.open(copied)
        assert main(["check", str(copied)]) == 1
        assert path_of(number) in capsys.readouterr().out
        path.write_bytes(good)
    assert not hw.open(copied).check().problems


@pytest.mark.parametrize("number", [50, 10**12, 10**20 - 1])
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "a copy"])
def test_a_record_with_a_number_that_is_none_is_named(
    copied: Path, number: int, empty: bool, capsys: Shown
) -> None:
    put(copied / path_of(number), b"" if empty else (copied / path_of(3)).read_bytes())
    with pytest.raises(DamagedState, match=path_of(number)):
        hw.open(copied)
    for command in ("status", "check"):
        assert main([command, str(copied)]) == 1
    assert path_of(number) in capsys.readouterr().err


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("epoch", [1, 99, 10**20 - 1])
def test_an_unreadable_lease_lets_nobody_write_and_is_named(
    copied: Path, content: bytes, epoch: int
) -> None:
    put(copied / f"lease/{epoch:020d}.json", content)
    db = hw.open(copied)
    expected = answers(db)
    for _ in range(2):
        if told(lambda: step(db, 4)):
            with pytest.raises(DamagedState, match=f"lease/{epoch:020d}.json"):
                step(db, 4)
    assert answers(db) == expected or db.version == hw.open(copied).version
    assert not hw.open(copied).check().problems


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_what_is_in_the_floor_does_not_matter(copied: Path, content: bytes) -> None:
    expected = answers(hw.open(copied))
    put(copied / f"floor/{3:020d}", content)
    db = hw.open(copied)
    assert answers(db) == expected
    with pytest.raises(VersionGone, match="3 to"):
        db.table("s", 2)
    step(db, 4)
    db.close()
    assert not hw.open(copied).check().problems


@pytest.mark.parametrize("number", [99, 10**20 - 1])
def test_a_floor_above_all_records_is_damage(copied: Path, number: int) -> None:
    put(copied / f"floor/{number:020d}", b"")
    with pytest.raises(DamagedState, match=path_of(number)):
        hw.open(copied)


def test_a_flipped_byte_in_a_data_file_is_damage_wherever_it_is_needed(
    tmp_path: Path, capsys: Shown
) -> None:
    good = tmp_path / "good"
    with made(good) as db:
        for i in range(1, 7):
            step(db, i)
    db = hw.open(good)
    versions = db.store.log.numbers()
    expected = {v: answers(db, v) for v in versions}
    runs: dict[str, set[RunRef]] = {}
    for version in versions:
        for _, refs in db.store.at(version).version.maps.values():
            for ref in refs:
                runs.setdefault(ref.file, set()).add(ref)
    assert len(runs) > 6
    shutil.copytree(good, tmp_path / "after")
    with hw.open(tmp_path / "after") as after:
        step(after, 7)
        wanted = answers(after)
    for file, refs in runs.items():
        bad = tmp_path / file
        shutil.copytree(good, bad)
        content = bytearray((bad / "data" / file).read_bytes())
        for ref in refs:
            content[ref.offset + ref.size // 2] ^= 0x04
        (bad / "data" / file).write_bytes(content)
        raised = 0
        db = hw.open(bad)
        for version in versions:
            for name, rows_ in expected[version].items():
                try:
                    assert bag(db.table(name, version)) == rows_
                except DamagedState as e:
                    assert f"data/{file}" in str(e)
                    raised += 1
        try:
            with hw.open(bad) as db:
                step(db, 7)
                assert answers(db) == wanted
        except DamagedState as e:
            assert f"data/{file}" in str(e)
            raised += 1
        assert raised, f"nothing needs data/{file}"
        assert [p.path for p in hw.open(bad).check().problems] == [f"data/{file}"]
        assert main(["check", str(bad)]) == 1
        assert f"data/{file} is damaged" in capsys.readouterr().out
        shutil.rmtree(bad)


# --- a database of the first format ------------------------------------------------------------------------------


def as_text(table: pa.Table) -> list[str]:
    """Rows as JSON with sorted keys, and inner lists sorted."""
    return sorted(_json(r) for r in table.to_pylist())


def _json(value: Any) -> str:
    return json.dumps(_sorted(value), sort_keys=True, default=str)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _sorted(v) for k, v in value.items()}
    return sorted(map(_sorted, value), key=_json) if isinstance(value, list) else value


def test_a_database_of_the_first_format_is_read_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((tmp_path / "expected.json").read_bytes())
    assert len(expected) == 9
    path = tmp_path / "db"
    made_with = hw.open(path).session.settings()["spark"]
    monkeypatch.setattr(pyspark, "__version__", f"{made_with}.0")  # writing asks for the same

    def assert_as_it_was(db: hw.Database) -> None:
        for version, tables in expected.items():
            for name, rows_ in tables.items():
                assert as_text(db.table(name, int(version))) == rows_, (name, version)

    with hw.open(path) as db:
        assert_as_it_was(db)
        assert not (path / MARKER).exists(), "reading writes nothing"
        orders = db.table("orders").to_pylist()
        gone = [{k: v for k, v in r.items() if k != "_w"} for r in orders[:5]]
        new = [{**r, "id": r["id"] + 1000, "state": "new"} for r in gone]
        db.apply({"orders": hw.Delta(inserts=new, deletes=gone)}, id="after")
        assert (path / MARKER).exists()
        lines = [{"order_id": r["id"], "part": "z", "price": 1, "qty": 2} for r in new]
        db.apply({"lines": lines})
        inner = {"id": 0, "number": 9, "pages": ["home"]}
        db.apply({"customers.visits": [inner]})
        db.view("by_state", "SELECT state, count(*) AS n FROM orders GROUP BY state")
        db.apply({"lines": hw.Delta(deletes=lines[:2])})
        newest = {n: as_text(db.table(n)) for n in (*db.sources, *db.views)}
        assert db.version == 24
    with hw.open(path) as db:
        assert_as_it_was(db)
        assert {n: as_text(db.table(n)) for n in (*db.sources, *db.views)} == newest
        states = {r["state"]: r["n"] for r in db.table("by_state").to_pylist()}
        assert sum(states.values()) == db.table("orders").num_rows == 96
        assert db.apply({}, id="after").repeated
        told_ = db.changes_table("orders" if "orders" in db.views else "states", 18)
        assert set(told_.column("_version").to_pylist()) <= set(range(19, 25))
        assert not db.check().problems
        assert not db.check().strays
        assert {p for v in db.catalog.views for p in bag_of_pages(db, v)} >= {"home"}
    # From its sources alone every view comes out the same.
    with hw.open(path) as db:
        db.rebuild()
        assert {n: as_text(db.table(n)) for n in (*db.sources, *db.views)} == newest


def bag_of_pages(db: hw.Database, view: str) -> list[str]:
    return [p for r in db.table(view).to_pylist() for p in r.get("pages", [])]


# --- retention -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_read", [False, True], ids=["not read yet", "read before"])
def test_a_reader_that_is_behind_is_told_that_its_version_is_gone(
    tmp_path: Path, has_read: bool
) -> None:
    with made(tmp_path / "db", keep_versions=3) as writer:
        reader = hw.open(tmp_path / "db")
        seen = reader.version
        expected = answers(reader if has_read else writer)
        for i in range(1, 31):
            step(writer, i)
        writer._writer.collect()  # type: ignore[union-attr]
        for name in (*reader.sources, *reader.views):
            for read in (
                lambda name=name: reader.table(name),
                lambda name=name: reader.table(name, seen),
                lambda name=name: reader.changes_table(name, seen - 1),
                lambda name=name: reader.changes_table(name, 0),
                lambda name=name: hw.open(tmp_path / "db").table(name, seen),
            ):
                try:
                    found = read()
                except VersionGone as e:
                    assert "is not there" in str(e)
                    continue
                except HeadwaterError as e:
                    assert name in reader.sources and "no view" in str(e)
                    continue
                if "_version" not in found.column_names:
                    assert bag(found) == expected[name]
        with pytest.raises(VersionGone):
            hw.open(tmp_path / "db").table("s", seen)
        with pytest.raises(VersionGone):
            hw.open(tmp_path / "db").changes_table("total", seen)
        assert reader.version == seen
        assert reader.refresh() == writer.version
        assert answers(reader) == answers(writer)
        reader.changes_table("total", reader.version - 2)


def test_how_much_is_kept_belongs_to_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "db"
    expected = {}
    with made(path, keep_versions=1000, keep_minutes=1) as db:
        for i in range(1, 13):
            step(db, i)
            expected[db.version] = answers(db)
    monkeypatch.setattr(writing, "KEEP_VERSIONS", 3)  # what a database gets that was told nothing
    with hw.open(path) as db:
        assert (db.keep().versions, db.keep().minutes) == (1000, 1)
        for i in range(13, 31):
            step(db, i)
            expected[db.version] = answers(db)
        db._writer.collect()  # type: ignore[union-attr]
    with hw.open(path, keep_versions=1000) as db:
        assert db.store.log.numbers() == list(range(1, db.version + 1))
        assert {v: answers(db, v) for v in expected} == expected
        assert db.changes_table("total", 0).num_rows > 100


def test_another_number_of_versions_is_refused_and_keep_changes_it(
    tmp_path: Path, capsys: Shown
) -> None:
    path = tmp_path / "db"
    made(path, keep_versions=50).close()
    for given in ({"keep_versions": 5}, {"keep_minutes": 2}, {"keep_versions": 51}):
        with pytest.raises(SettingsDiffer, match=r"keep\((versions|minutes)="):
            hw.open(path, **given)  # type: ignore[arg-type]
    for bad in (0, -1, 1.5, True, "5", float("nan")):
        with pytest.raises(StateError, match="is no number of versions to keep"):
            hw.open(path, keep_versions=bad)  # type: ignore[arg-type]
    with hw.open(path) as db:
        assert db.keep().versions == 50
        for i in range(1, 20):
            step(db, i)
        assert db.keep(versions=5).versions == 5
        assert db.keep(versions=5, grace_minutes=0).versions == 5
        for i in range(20, 40):
            step(db, i)
        db._writer.collect()  # type: ignore[union-attr]
        assert len(db.store.log.numbers()) == 5
        assert not db.check().problems
    assert hw.open(path).keep().versions == 5
    assert hw.open(path, keep_versions=5).keep().versions == 5
    assert main(["status", str(path)]) == 0
    assert "keeps 5 versions" in capsys.readouterr().out


# --- copies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("otherwise", [0, 1, 4, 9], ids=lambda n: f"{n} versions")
@pytest.mark.parametrize("keep", [100, 3], ids=lambda n: f"keeping {n}")
def test_a_copy_of_a_history_that_was_undone_starts_anew_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, otherwise: int, keep: int
) -> None:
    path, backup = tmp_path / "db", tmp_path / "backup"
    copies = {n: hw.ParquetCopy(tmp_path / n, files=2) for n in ("total", "named")}

    def synced(db: hw.Database) -> None:
        for name, copy in copies.items():
            assert copy.sync(db[name]) == db.version == copy.version
            assert bag(copy.rows()) == bag(db.table(name))

    with made(path, keep_versions=keep) as db:
        step(db, 1)
        synced(db)
    shutil.copytree(path, backup)
    with hw.open(path) as db:
        for i in range(2, 6):
            step(db, i)
            synced(db)
    shutil.rmtree(path)
    shutil.copytree(backup, path)
    caplog.clear()
    with hw.open(path) as db:
        for i in range(otherwise):
            db.apply({"s": [(7, "z", i)]})
        with caplog.at_level(logging.WARNING, "headwater"):
            synced(db)
        warned = [r for r in caplog.records if r.name == "headwater"]
        kept = otherwise < 9 or keep > 3  # of a version that is not kept nobody can tell
        assert len(warned) == len(copies) or not kept
        assert all("it starts anew" in r.getMessage() for r in warned)
        caplog.clear()
        for i in range(2, 5):
            step(db, i)
            synced(db)
        synced(hw.open(path))
        assert not caplog.records


def test_a_copy_of_another_database_is_an_error_and_stays(tmp_path: Path) -> None:
    copy = hw.ParquetCopy(tmp_path / "copy")
    with made(tmp_path / "one") as one, made(tmp_path / "two") as two:
        copy.sync(one["total"])
        before = tree(tmp_path / "copy")
        for i in range(1, 3):
            with pytest.raises(StateError, match="another database"):
                copy.sync(two["total"])
            step(two, i)
        with pytest.raises(HeadwaterError, match="is a copy of `total`, and not of `most`"):
            copy.sync(one["most"])
        assert tree(tmp_path / "copy") == before
        step(one, 1)
        copy.sync(one["total"])
        assert bag(copy.rows()) == bag(one.table("total"))


def test_files_beside_those_of_a_copy_are_left_alone(tmp_path: Path) -> None:
    names = ["2024-01.parquet", "notes.txt", f".x.{HEX}", "1-2.parquet", "9-9.parquet.bak"]
    with made(tmp_path / "db") as db:
        copy = hw.ParquetCopy(tmp_path / "copy", files=1)
        for name in names:
            put(tmp_path / "copy" / name)
        before = {n: t for n, t in tree(tmp_path / "copy").items() if n in names}
        for i in range(1, 6):
            step(db, i)
            copy.sync(db["total"])
            assert bag(copy.rows()) == bag(db.table("total"))
        assert {n: t for n, t in tree(tmp_path / "copy").items() if n in names} == before


# --- ids -------------------------------------------------------------------------------------------------------


def test_ids_are_kept_with_their_versions_and_numbers_once_for_each_application(
    tmp_path: Path,
) -> None:
    path = tmp_path / "db"
    with hw.open(path, keep_versions=10) as db:
        db.source("s", "k BIGINT")
        most = 0
        for i in range(200):
            text = db.apply({"s": [(i,)]}, id=f"text {i}")
            numbered = db.apply({"s": [(i,)]}, id=(f"app {i % 3}", i))
            assert not text.repeated and not numbered.repeated
            most = max(most, len(db.store.at().facts))
            for repeated_, first in (
                (db.apply({"s": [(i,)]}, id=f"text {i}"), text),
                (db.apply({"s": [(i,)]}, id=(f"app {i % 3}", i)), numbered),
            ):
                assert repeated_.repeated and repeated_.version == first.version
                assert repeated_.rows == first.rows == {"s": 1}
            if i >= 3:
                assert db.apply({"s": [(i,)]}, id=(f"app {i % 3}", i - 3)).repeated, "a lower one"
                assert db.apply({"s": [(i,)]}, id=f"text {i - 3}").repeated
            if i % 50 == 49:
                db.close()
                db = hw.open(path)
        assert db.version == 401
        assert most < 60, f"{most} facts"
        kept = {f for f in db.store.at().facts if f.startswith("application:")}
        assert kept == {"application:app 0", "application:app 1", "application:app 2"}
        assert db.table("s").num_rows == 200
        assert not db.apply({"s": [(7,)]}, id="text 7").repeated, (
            "it was forgotten with its version"
        )
        db.close()


@pytest.mark.parametrize(
    "id",
    [5, b"x", ("a",), ("a", 1, 2), ("a", -1), ("a", 1.0), ("a", True), (1, 2), ("a", "1"), {}],
    ids=repr,
)
def test_a_bad_id_is_refused(small: Path, id: Any) -> None:
    db = hw.open(small)
    before = tree(small)
    with pytest.raises(BadChange, match="is no id of a change"):
        db.apply({"s": [(1, "a", 1)]}, id=id)
    assert tree(small) == before


FUNCTION = """
import headwater as hw

def outer(n):
    @hw.function(returns="STRING")
    def odd(x):
        if x in {"apple", "pear", "fig", "plum", "kiwi", "lime"}:
            return "fruit"
        inner = lambda y: y in {"one", "two", "three", ("four", "five")} or [z for z in y if z in {"q", "r", "s"}]
        def deeper(w):
            return {v: {u for u in v if u in ("a", frozenset())} for v in w if v not in {"x", "y", "z"}}
        return str(inner(x)) + str(sorted(c for c in deeper([x]) if c in {"t", "u", "v"}))
    return odd

print(outer(1).fingerprint)
"""


def test_a_function_with_inner_code_has_the_same_fingerprint_in_every_process() -> None:
    found = set()
    for seed in ("1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", FUNCTION],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout.strip())
    assert len(found) == 1 and len(found.pop()) == 16
