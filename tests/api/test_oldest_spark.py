"""A database made with the oldest Spark that is allowed is read by this one, and upgraded.

The other Spark is in an environment of its own, which is made here and takes some minutes.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headwater as hw
from headwater.command.cli import main
from headwater.errors import SettingsDiffer
from oldest_story import rows

ROOT = Path(__file__).parents[2]


def environment(folder: Path) -> Path:
    """The Python of an environment with Headwater and the oldest Spark of `pyproject.toml`."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    (oldest,) = re.findall(r'"pyspark>=([\d.]+),', text)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    kept = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    limits = folder / "limits.txt"
    limits.write_text("\n".join(line for line in kept if not line.startswith("pyspark")))
    pip = [str(folder / "bin" / "pip"), "install", "-q", "-c", str(limits), "-e", str(ROOT)]
    if subprocess.run([*pip, f"pyspark=={oldest}.*"]).returncode:
        pytest.skip(f"an environment with Spark {oldest} could not be made: pip could not install")
    return folder / "bin" / "python"


@pytest.mark.slow
@pytest.mark.spark
def test_what_the_oldest_spark_made_is_read_and_upgraded(tmp_path: Path) -> None:
    """It shows what it showed; what Spark would write is refused by name until `headwater upgrade`; then it goes on, verified."""
    python = environment(tmp_path / "environment")
    story = str(Path(__file__).parents[1] / "oracles" / "oldest_story.py")
    folder = tmp_path / "db"
    told = subprocess.run([python, story, folder], capture_output=True, text=True)
    shutil.rmtree(tmp_path / "environment")
    assert told.returncode == 0, told.stderr
    expected = json.loads(told.stdout.splitlines()[-1])
    with hw.open(folder) as db:
        assert rows(db) == expected["rows"]
        assert db.spark.version != expected["spark"]
        with pytest.raises(SettingsDiffer, match=f"was made with Spark {expected['spark'][:3]}"):
            db.apply({"people": hw.Delta(upserts=[(9, "Zoe")])})
        assert rows(db) == expected["rows"]
    assert main(["upgrade", str(folder)]) == 0
    with hw.open(folder) as db:
        assert rows(db) == expected["rows"]
        db.apply(
            {"people": hw.Delta(upserts=[(9, "Zoe")]), "orders": [(99, 9, 5, None)]}, cast=True
        )
        assert {r["name"]: str(r["total"]) for r in db.table("totals").to_pylist()}["Zoe"] == "5.00"
        db.verify()
