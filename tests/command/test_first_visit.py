"""The first visit, timed: a new environment, the wheel, and the commands of the README's first screen, word for word, without Java."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwater.command.starting import SCRIPT

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
MOST = 60.0
"""Seconds from `init` to the change that is seen and the second run, on a machine that does other things, too."""
COMMANDS = (
    "headwater init shop",
    "headwater run shop/app.sql --always",
    "headwater changes shop/warehouse revenue --follow",
)


def test_the_readme_shows_the_script_that_init_makes() -> None:
    first = README.partition("## ")[0]
    bare = "\n".join(x for x in SCRIPT.splitlines() if not x.startswith("--")).strip()
    assert bare in first
    assert all(c in first for c in COMMANDS)


@pytest.mark.slow
def test_the_first_visit(tmp_path: Path) -> None:
    made = tmp_path / "env"
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "venv", str(made)], check=True)
    pip = [str(made / "bin" / "python"), "-m", "pip"]
    built = subprocess.run(
        [*pip, "wheel", *quiet, "--no-deps", "-w", str(tmp_path / "dist"), str(ROOT)]
    )
    if built.returncode:
        pytest.skip("the wheel's build tool cannot be had here")
    (wheel,) = (tmp_path / "dist").glob("headwater-*.whl")
    assert re.search(r"pip install dist/headwater-[\d.]+-py3-none-any.whl", README)
    limits = ["-c", str(ROOT / "constraints.txt")]
    if subprocess.run([*pip, "install", *quiet, *limits, str(wheel)]).returncode:
        pytest.skip("the dependencies cannot be had here")

    env = {"PATH": str(made / "bin"), "HOME": str(tmp_path)}  # no Java
    started = time.monotonic()
    init, run, follow = (c.split() for c in COMMANDS)

    def command(words: list[str], **more: object) -> subprocess.Popen[str]:
        path = str(made / "bin" / words[0])
        return subprocess.Popen([path, *words[1:]], cwd=tmp_path, env=env, text=True, **more)  # type: ignore[call-overload,no-any-return]

    assert command(init, stdout=subprocess.DEVNULL).wait() == 0
    keeps = command(run, stdout=subprocess.DEVNULL)
    try:
        shop = tmp_path / "shop"
        _wait(lambda: _version(shop) >= 3)
        # The version is said, so that nothing is missed that comes while it starts.
        follows = command([*follow, "--since", "3"], stdout=subprocess.PIPE)
        try:
            dropped = re.search(r"\$ printf '(.*)' > (shop/inbox/orders-2.csv)", README)
            assert dropped is not None
            (tmp_path / dropped[2]).write_text(dropped[1].replace("\\n", "\n"))
            assert follows.stdout is not None
            seen = [follows.stdout.readline().split() for _ in range(3)]
            assert seen[1:] == [["-", "4", "BOB", "1", "4.50"], ["+", "4", "BOB", "2", "5.50"]]
        finally:
            follows.kill()
    finally:
        keeps.terminate()
    assert keeps.wait(20) == 0
    again = command([*run[:-1]], stdout=subprocess.PIPE)
    assert "0 epochs" in again.communicate()[0] and again.returncode == 0
    took = time.monotonic() - started
    assert _version(shop) == 4 and took < MOST, f"{took:.1f} s"


def _version(shop: Path) -> int:
    log = shop / "warehouse" / "log"
    numbers = (
        [int(f.split(".")[0]) for f in os.listdir(log) if f[:1].isdigit()] if log.is_dir() else []
    )
    return max(numbers, default=0)


def _wait(holds: object) -> None:
    for _ in range(600):
        if holds():  # type: ignore[operator]
            return
        time.sleep(0.05)
    raise AssertionError("it took more than half a minute")
