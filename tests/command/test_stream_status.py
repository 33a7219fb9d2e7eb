"""Streams in the command `headwater`: they can be looked at by a process that does not have their functions."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import headwater as hw
from headwater.command.cli import main

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
Shown = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, capsys: Shown) -> str:
    """What the example of the taxis leaves behind."""
    runpy.run_path(str(EXAMPLES / "taxi.py"))["main"](str(tmp_path / "db"))
    capsys.readouterr()
    return str(tmp_path / "db")


def test_status_says_what_streams_read_tell_and_wait_for(folder: str, capsys: Shown) -> None:
    assert main(["status", folder]) == 0
    shown = capsys.readouterr().out
    assert "taxis   hour[taxi{seq gps} | bag rides]  rates, outliers        1  gps" in shown
    for said in ("rows that wait", "the state of a stream", "what a stream has told", "\nstreams "):
        assert said in shown


def test_explain_of_a_stream_and_of_what_it_tells(folder: str, capsys: Shown) -> None:
    for name in ("taxis", "rates"):
        assert main(["explain", folder, name]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("STREAM taxis") and "fold(drive, state='x double" in shown
        assert "1 row of `gps` waits" in shown
    assert main(["explain", folder, "--graph"]) == 0
    assert "STREAM taxis   of gps, rides; tells rates, outliers" in capsys.readouterr().out


def test_rows_and_changes_of_what_it_tells(folder: str, capsys: Shown) -> None:
    assert main(["show", folder, "rates"]) == 0
    assert capsys.readouterr().out.count("2026-03-01") == 3
    for form in ("weights", "cdc"):
        assert main(["changes", folder, "rates", "--since", "8", "--format", form]) == 0
        shown = capsys.readouterr().out
        assert "11:00:00" in shown and "09:00:00" not in shown


def test_a_process_without_the_functions_lets_rows_wait(folder: str) -> None:
    with hw.open(folder) as db:
        before = db["taxis"].value()
        db.punctuate("gps")
        assert db["taxis"].value() == before
        (waits,) = db["taxis"].pending()
        assert waits.header == "gps" and waits.waits_for == {} and waits.unbound
        assert "until its functions are known here" in str(waits)
        with pytest.raises(hw.HeadwaterError, match="functions that this process does not know"):
            db["taxis"].verify()
