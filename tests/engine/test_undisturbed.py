"""Increments take memory of the C library's, which keeps it, and leave everything as they found it."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine import increment, undisturbed
from headwater.engine.undisturbed import reusing


def pool() -> str:
    return str(pa.default_memory_pool().backend_name)


def test_memory_is_taken_from_elsewhere_only_inside() -> None:
    before = pool()
    with reusing():
        assert pool() == "system"
        with reusing():  # another handle, in another thread
            assert pool() == "system"
        assert pool() == "system"
    assert pool() == before
    with pytest.raises(ValueError, match="inside"), reusing():
        raise ValueError("inside")
    assert pool() == before


def test_changes_and_fillings_reuse_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []
    settle = increment.Increment.settle

    def watched(self: increment.Increment, *given: int, **named: Any) -> None:
        seen.append((pool(), gc.isenabled()))
        settle(self, *given, **named)

    monkeypatch.setattr(increment.Increment, "settle", watched)
    before = pool()
    with hw.open(tmp_path / "db") as db:
        db.source("r", "k BIGINT")
        db.view("q", "SELECT k, count(*) AS n FROM r GROUP BY k")
        used = []
        for rows in (10, undisturbed.SOME, undisturbed.FEW + 1):
            seen.clear()
            db.apply({"r": pa.table({"k": np.arange(rows)})})
            used.append({*seen})
        seen.clear()
        db.view("p", "SELECT k % 10 AS k, sum(k) AS s FROM r GROUP BY k % 10")
        few, some, many = used
        assert (few, some) == ({(before, False)}, {("system", False)})
        assert many == {*seen} == {("system", True)}
    assert pool() == before


FAULTS = """
import resource, sys
import numpy as np
from headwater.engine.undisturbed import reusing

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        some = [np.ones(1 << 19) for _ in range(4)]  # of four megabytes each
        del some
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
with reusing():
    faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_memory_that_was_used_is_not_made_anew() -> None:
    """80 arrays of a thousand pages each. Who has told glibc something before is not overruled."""
    found = {}
    for told in ({}, {"MALLOC_MMAP_THRESHOLD_": "131072"}):
        env = {n: v for n, v in os.environ.items() if not n.startswith(("MALLOC_", "GLIBC_"))}
        env |= told | {"NUMPY_MADVISE_HUGEPAGE": "0"}
        done = subprocess.run(
            [sys.executable, "-c", FAULTS], env=env, capture_output=True, text=True
        )
        assert not done.returncode, done.stderr
        found[bool(told)] = int(done.stdout)
    assert found[False] < 4_000 < found[True]
