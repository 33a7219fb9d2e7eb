"""The command `headwater`: what it prints, what it refuses, and that reading needs neither Spark nor the lease."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import headwater as hw
from headwater.command.cli import main
from headwater.show.terminal import Paint, cell, changes_shown, grid, rows_shown, seconds, size
from spark_session import session

Shown = pytest.CaptureFixture[str]
spark = pytest.mark.spark
LONG = "a name that is much longer than what a cell of a table has room for"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small database whose writer is alive."""
    path = tmp_path_factory.mktemp("cli") / "shop"
    with hw.open(path, session()) as db:
        db.source("items", "name STRING, kind STRING")
        db.source("sales", "item STRING, price DECIMAL(8,2)")
        db.view(
            "by_kind",
            "SELECT kind, count(*) AS n, sum(price) AS total FROM sales JOIN items ON item = name GROUP BY kind",
        )
        db.view("names", "SELECT name FROM items")
        db.apply({"items": [("pen", "office"), ("tea", None), (LONG, "other")]})
        db.apply({"sales": [("pen", Decimal("1.50")), ("pen", Decimal("-20.25"))]})
        db.apply({"sales": hw.Delta([("tea", Decimal(3))], [("pen", Decimal("1.50"))])})
        db.apply({"items": [("tea", None), ("tea", None)]})
        yield path


@spark
def test_show_prints_rows_in_order_with_numbers_to_the_right(folder: Path, capsys: Shown) -> None:
    assert main(["show", str(folder), "by_kind"]) == 0
    assert capsys.readouterr().out == "kind    n   total\noffice  1  -20.25\n∅       3    9.00\n"


@spark
def test_show_at_a_version_with_a_limit_and_of_a_source(folder: Path, capsys: Shown) -> None:
    assert main(["show", str(folder), "by_kind", "--version", "6"]) == 0
    assert capsys.readouterr().out == "kind    n   total\noffice  2  -18.75\n"
    assert main(["show", str(folder), "names", "--limit", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown == "name\na name that is much longer than what a …\npen\n… and 3 more\n"
    assert main(["show", str(folder), "names", "--limit", "0"]) == 0
    assert capsys.readouterr().out.count("tea") == 3
    assert main(["show", str(folder), "sales"]) == 0
    assert capsys.readouterr().out == "item   price\npen   -20.25\ntea     3.00\n"


@spark
def test_changes_put_old_rows_before_new_ones_of_a_group(folder: Path, capsys: Shown) -> None:
    assert main(["changes", str(folder), "by_kind", "--since", "5"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "   version  kind    n   total",
        "+        6  office  2  -18.75",
        "-        7  office  2  -18.75",
        "+        7  office  1  -20.25",
        "+        7  ∅       1    3.00",
        "-        8  ∅       1    3.00",
        "+        8  ∅       3    9.00",
    ]
    assert main(["changes", str(folder), "names", "--since", "7"]) == 0
    assert capsys.readouterr().out.splitlines() == ["    version  name", "+2        8  tea"]


@spark
def test_changes_in_the_form_cdc(folder: Path, capsys: Shown) -> None:
    assert main(["changes", str(folder), "by_kind", "--since", "5", "--format", "cdc"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("kind", "n", "total", "_change_type", "_commit_version", "_commit_timestamp")
    ]
    assert [line.split()[3:5] for line in lines[1:2]] == [["insert", "6"]]
    assert len(lines) == 7


@spark
def test_status_names_everything(folder: Path, capsys: Shown) -> None:
    assert main(["status", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert f"{folder}: version 8, " in shown
    assert "versions 1 to 8 can be read\n" in shown
    assert f"process {os.getpid()} on " in shown
    assert re.search(r"^items +5  name string, kind string$", shown, re.M)
    assert re.search(r"^by_kind +2 +3  kind string, n bigint, total decimal\(18,2\)$", shown, re.M)
    assert re.search(r"^m\w+ +\d+ +\d+ +\d\.\d kB  by_kind +a group's value$", shown, re.M)
    assert "the rows of sales" in shown


@spark
def test_explain_and_verify(folder: Path, capsys: Shown) -> None:
    assert main(["explain", str(folder), "by_kind"]) == 0
    assert "VIEW by_kind" in capsys.readouterr().out
    assert main(["verify", str(folder), "names"]) == 0
    assert capsys.readouterr().out == "+ names is what its query gives at version 8\n"
    assert main(["verify", str(folder)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


@spark
def test_explain_says_what_could_be_kept(folder: Path, capsys: Shown) -> None:
    asked = "SELECT kind, count(*) AS n FROM items GROUP BY kind ORDER BY n DESC, kind LIMIT 2"
    assert main(["explain", str(folder), "--can", asked]) == 0
    shown = capsys.readouterr().out
    assert "CAN be kept" in shown and "cost class change" in shown
    assert "reads the first 2 rows of a group" in shown
    assert main(["explain", str(folder), "--can", "SELECT rand() AS r FROM items"]) == 1
    assert "[NON_DETERMINISTIC]" in capsys.readouterr().err


@spark
def test_what_is_wrong_is_one_sentence_on_stderr(folder: Path, capsys: Shown) -> None:
    wrong = [
        (["show", str(folder), "nothing"], "there is no view `nothing` at version 8"),
        (["show", str(folder), "names", "--version", "99"], "99"),
        (["changes", str(folder), "names", "--since", "99"], "there is no version 99"),
        (["changes", str(folder), "items"], "`items` is a source"),
        (["changes", str(folder), "nothing"], "there is no view `nothing`"),
        (["explain", str(folder), "nothing"], "there is no view `nothing`"),
        (["explain", str(folder)], "takes a view or stage, a query with --can"),
        (["verify", str(folder), "nothing"], "`nothing`"),
        (["status", str(folder / "elsewhere")], "there is no database in"),
        (["status", __file__], "is a file"),
        (["demo", "--dir", str(folder)], "is not empty"),
    ]
    for arguments, text in wrong:
        assert main(arguments) == 1, arguments
        out, err = capsys.readouterr()
        assert out == "" and text in err and "Traceback" not in err, arguments
    assert not (folder / "elsewhere").exists()


def test_arguments_that_mean_nothing_end_with_2(capsys: Shown) -> None:
    for arguments in ([], ["shew"], ["show", "x"], ["show", "x", "y", "--limit", "-1"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
    assert "usage: headwater" in capsys.readouterr().err


def without_java(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, where Spark finds no Java."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "JAVA_HOME": "nowhere"},
        capture_output=True,
        text=True,
    )


@spark
def test_reading_starts_no_java(folder: Path) -> None:
    for command in ("show", "changes", "explain"):
        done = without_java("-m", "headwater", command, str(folder), "by_kind")
        assert (done.returncode, done.stderr) == (0, "")
        assert "kind" in done.stdout


def test_a_database_is_made_and_changed_without_java(tmp_path: Path) -> None:
    program = f"""
import headwater as hw
with hw.open({str(tmp_path / "db")!r}) as db:
    db.source("r", "a BIGINT, b BIGINT")
    db.view("v", "SELECT a, avg(b) AS mean FROM r GROUP BY a")
    db.apply({{"r": [(1, 2), (1, 4)]}})
    print(db.table("v").to_pylist())
"""
    done = without_java("-c", program)
    assert (done.stdout, done.stderr) == ("[{'a': 1, 'mean': 3.0, '_w': 1}]\n", "")
    asked = without_java("-m", "headwater", "verify", str(tmp_path / "db"))
    assert asked.returncode == 1
    assert "needs Java 17 or newer" in asked.stderr and "Traceback" not in asked.stderr


@spark
def test_the_demo_tells_its_story(tmp_path: Path, capsys: Shown) -> None:
    session()
    small = ["--orders", "100", "--daily", "20", "--days", "3", "--sale", "60"]
    assert main(["demo", "--dir", str(tmp_path / "demo"), *small]) == 0
    shown = capsys.readouterr().out
    assert re.search(
        r"February   100 orders with \d+ lines, read by Spark from Parquet files, loaded in .* \(on Spark, \d+ Spark jobs\)",
        shown,
    )
    sale = shown.split("Wednesday 4 March   the sale: 60 orders")[1]
    assert re.search(r"kept fresh in .* \(on Spark, \d+ Spark jobs?\)", sale)
    assert shown.count("(in this process, 0 Spark jobs)") == 2
    assert "Tuesday 3 March   20 orders with" in shown and ", 5 lines returned" in shown
    assert shown.count("the same answer") == 3
    assert "both views are what their queries give" in shown
    command = shown.split("show ")[1].splitlines()[0].split()
    assert main(["show", *command]) == 0


# --- layout ---------------------------------------------------------------------------------------------------------


def test_cells_are_one_line_and_short() -> None:
    shown = {
        None: "∅",
        True: "true",
        "two\nlines": "two\\nlines",
        "x" * 50: "x" * 39 + "…",
        0.1: "0.1",
        1 / 3: "0.333333",
        float("nan"): "nan",
        Decimal("1.50"): "1.50",
    }
    assert {v: cell(v) for v in shown} == shown


def test_a_grid_without_rows_has_its_names() -> None:
    assert grid(["a", "long"], [], [True, True]) == "a  long"
    assert rows_shown(pa.table({"a": pa.array([], pa.int64())}), 3, Paint()) == "a"


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Paint.of(Terminal()).on and not Paint.of(io.StringIO()).on
    table = pa.table({"n": [1, -2], "_w": [-1, 1]})
    assert changes_shown(table, None, Paint(True), by=["n"]).splitlines()[1:] == [
        "\x1b[32m+  -2\x1b[0m",
        "\x1b[31m-   1\x1b[0m",
    ]
    negative = rows_shown(pa.table({"n": [-2]}), None, Paint(True))
    assert negative.endswith("-2")  # a number is no sign
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Paint.of(Terminal()).on


def test_sizes_and_times() -> None:
    assert [size(n) for n in (0, 999, 1500, 2_000_000)] == ["0 B", "999 B", "1.5 kB", "2.0 MB"]
    assert [seconds(t) for t in (0.0123, 2.5)] == ["12 ms", "2.50 s"]


def test_status_says_what_is_closed(tmp_path: Path, capsys: Shown) -> None:
    with hw.open(tmp_path) as db:
        db.source("r", "a INT, t INT", closes=hw.watermark("t", 5), append_only=True)
        db.view("by_time", "SELECT t, count(*) AS n FROM r GROUP BY t")
        for t in (1, 20, 2, 40):
            db.apply({"r": [(1, t)]})
    assert main(["status", str(tmp_path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    closed = next(x for x in lines if x[:3] == ["r", "append-only,", "closes"])
    assert " ".join(closed[3:]) == "t, 5 behind ⟨t: (*, 34]⟩ ∪ ⟨t: null⟩ 1"
    assert {tuple(x[:3]) for x in lines if x} >= {
        ("sources", "1", "3"),
        ("ledgers", "1", "2"),
        ("workspace", "1", "3"),
    }
    assert ["late", "rows", "1", "1"] in [x[:4] for x in lines]
