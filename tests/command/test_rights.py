"""What is said where a path may not be read or written, and where two runs want one database; the version before stays.

Root may read everything, so a process that is root is somebody else meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.command.cli import main

Shown = pytest.CaptureFixture[str]
NOBODY = 65534
APP = """
CREATE SOURCE orders (id BIGINT, price DECIMAL(10,2)) USING csv LOCATION 'inbox';
CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT sum(price) AS total FROM orders;
CREATE SINK IF NOT EXISTS out FROM total USING jsonl LOCATION 'out';
"""


@pytest.fixture
def shop() -> Iterator[Path]:
    """A directory that others may reach, in which a script has run once, so that everything is imported, too."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-rights-"))
    folder.chmod(0o755)
    (folder / "inbox").mkdir()
    (folder / "inbox" / "a.csv").write_text("id,price\n1,2.50\n")
    (folder / "app.sql").write_text(APP)
    try:
        assert main(["run", str(folder / "app.sql"), "--dir", str(folder / "db")]) == 0
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def as_somebody_else(folder: Path) -> Iterator[None]:
    """Without the rights of root, but with a directory of one's own."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("inbox", ["orders", "inbox"]),
        ("inbox/b.csv", ["orders", "b.csv"]),
        ("out", ["out"]),
        ("db", ["db"]),
    ],
)
def test_a_path_without_rights(shop: Path, path: str, said: list[str], capsys: Shown) -> None:
    """The source or sink and the path are named, with exit code 1, and it goes on where the rights are back."""
    (shop / "inbox" / "b.csv").write_text("id,price\n2,1.00\n")
    run = ["run", str(shop / "app.sql"), "--dir", str(shop / "db")]
    capsys.readouterr()
    mode = (shop / path).stat().st_mode
    with as_somebody_else(shop):
        (shop / path).chmod(0)
        try:
            assert main(run) == 1
        finally:
            (shop / path).chmod(mode)
    told = capsys.readouterr().err
    assert all(word in told for word in said) and "Traceback" not in told, told
    assert "ermission denied" in told or "may not" in told, told
    assert main(run) == 0
    with hw.open(shop / "db") as db:
        assert [str(r["total"]) for r in db.table("total").to_pylist()] == ["3.50"]


def test_a_second_run_is_refused_while_the_first_goes_on(shop: Path) -> None:
    """Of two processes one writes: the other says who does, and takes the file once that one is done."""
    run = [sys.executable, "-m", "headwater", "run", str(shop / "app.sql")]
    run += ["--dir", str(shop / "db")]
    with hw.open(shop / "db") as db:
        db.apply({"orders": [(3, 1)]})  # it holds the right to write
        (shop / "inbox" / "b.csv").write_text("id,price\n2,1.00\n")
        before = db.version
        second = subprocess.run(run, capture_output=True, text=True)
        assert second.returncode == 1 and "Traceback" not in second.stderr
        assert f"process {os.getpid()} on" in second.stderr
        assert "is writing to this database" in second.stderr
        assert db.refresh() == before
        db.apply({"orders": [(4, 1)]})
    assert main(run[3:]) == 0
    with hw.open(shop / "db") as db:
        assert [str(r["total"]) for r in db.table("total").to_pylist()] == ["5.50"]
