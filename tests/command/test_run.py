"""`headwater run` with a program, and what `status` and `explain` say of its graph; none of it starts Spark."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from headwater.command.cli import main

Shown = pytest.CaptureFixture[str]
APP = """
import beside

def define(db):
    db.source("orders", "id BIGINT, name STRING", path=beside.INBOX, format="csv")

    @db.stage("orders", by="name", state="n BIGINT", out="name STRING, n BIGINT")
    def counted(name, orders, state):
        state.n = (state.n or 0) + len(orders)
        return name, state.n

    db.view("best", "SELECT name, max(n) AS n FROM counted GROUP BY name")
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.path", ["", *sys.path])
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "a.csv").write_text("id,name\n1,x\n2,y\n3,x\n")
    (tmp_path / "beside.py").write_text(f"INBOX = {str(inbox)!r}\n")
    (tmp_path / "app.py").write_text(APP)
    return tmp_path / "app.py"


def test_run_status_and_explain(app: Path, capsys: Shown) -> None:
    folder = str(app.parent / "db")
    assert main(["run", folder, "--with", str(app)]) == 0
    assert re.match(r"2 epochs in \d+\.\d\d s; nothing can run\n", capsys.readouterr().out)
    assert main(["show", folder, "best"]) == 0
    assert capsys.readouterr().out == "name  n\nx     2\ny     1\n"
    (app.parent / "in" / "b.csv").write_text("id,name\n4,z\n")
    assert main(["status", folder]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^orders +directory +1 +3 +\d\.\d\d s +\? +0 +-$", shown, re.M)
    assert re.search(r"^counted +with state +1 +3 +\d\.\d\d s +0 +2 +\d\.\d kB$", shown, re.M)
    assert re.search(r"^counted +counted +best +- +yes +2$", shown, re.M)
    assert re.search(r"^s:counted\. .* the state of a stage$", shown, re.M)
    assert main(["explain", folder, "--graph"]) == 0
    assert "KAHN NETWORK   counted" in capsys.readouterr().out
    assert main(["explain", folder, "counted"]) == 0
    assert "STAGE counted   with state" in capsys.readouterr().out
    assert main(["explain", folder, "counted", "--graph"]) == 1
    assert "name one of them" in capsys.readouterr().err


def test_limits_of_a_run(app: Path, capsys: Shown) -> None:
    folder = str(app.parent / "db")
    assert main(["run", folder, "--with", str(app), "--epochs", "1"]) == 0
    out = capsys.readouterr().out
    assert "1 epochs" in out and "no more" in out and "counted waits with {'orders': 1}" in out
    assert main(["run", folder, "--with", str(app), "--seconds", "0.1", "--every", "0.02"]) == 0
    assert "1 epochs" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["run", folder, "--with", str(app), "--seconds", "-1"])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("x = 1", "no function `define`"),
        ("def define(db:", "line 1"),
        ("import nowhere_at_all", "line 1: ModuleNotFoundError"),
        ("def define(db):\n    db.source(1 / 0)", "line 2: ZeroDivisionError"),
        ("def define(db):\n    db.view('v', 'SELECT x FROM nothing')", "`nothing`"),
    ],
)
def test_programs_that_are_wrong(app: Path, capsys: Shown, text: str, named: str) -> None:
    app.write_text(text)
    assert main(["run", str(app.parent / "db"), "--with", str(app)]) == 1
    assert named in capsys.readouterr().err


def test_a_program_that_is_not_there(tmp_path: Path, capsys: Shown) -> None:
    assert main(["run", str(tmp_path / "db"), "--with", str(tmp_path / "app.py")]) == 1
    assert "there is no program" in capsys.readouterr().err
    assert not (tmp_path / "db").exists()


def test_a_stage_that_fails_and_a_directory_that_is_held(app: Path, capsys: Shown) -> None:
    folder = str(app.parent / "db")
    (app.parent / "in" / "b.csv").write_text("id\n1\n")
    assert main(["run", folder, "--with", str(app)]) == 1
    assert "the directory of `orders` is held: `b.csv`" in capsys.readouterr().err
    assert main(["show", folder, "best"]) == 0
    assert capsys.readouterr().out == "name  n\nx     2\ny     1\n"
