"""Maps whose newest runs are put together for look-ups say what they said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.calculus.types import BIGINT, INT
from headwater.engine import working as module
from headwater.engine.working import Working
from headwater.plan.program import Lookup, Map
from headwater.state.files import LocalFiles
from headwater.state.hashing import hash_keys
from headwater.state.run import RunRef, Runs

KEY = (("k", BIGINT), ("i", BIGINT))
LOOKED_UP = Lookup("m", ("k",), (False,), (), ())


def changed(working: Working, rng: np.random.Generator, rows: int) -> None:
    """Adds to the map, and takes some of it away."""
    k, i = rng.integers(0, 6, rows), rng.integers(0, 4, rows)
    made = pa.table({"k": k, "i": i, "n": rng.choice([-1, 1], rows)})
    made = made.add_column(0, "_h", pa.array(hash_keys([pa.array(k)], rows)))
    blind = working.maps["m"].kind == "change"
    working.add("m", working.now("m").merge(made, blind=blind)[0])


def found(working: Working) -> list[tuple[int, ...]]:
    """All entries of all keys, by look-up."""
    keys = pa.array(range(6))
    table = pa.table({"_h": hash_keys([keys], 6), "k": keys})
    got = working.find(LOOKED_UP).lookup(table)
    return sorted(zip(*(got.column(n).to_pylist() for n in ("k", "i", "n")), strict=True))


@pytest.mark.parametrize("most", [1, 60, 10**6])
@pytest.mark.parametrize("kind", ["change", "value"])
def test_gathered_runs_are_looked_up_as_they_were(
    kind: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATHERED", most)
    rng, maps = (
        np.random.default_rng(3),
        {"m": Map("m", "", KEY, (("n", INT),), ("k",), ("k", "i"), kind=kind)},
    )
    runs, refs = Runs(LocalFiles(tmp_path)), list[RunRef]()
    for version in range(1, 7):
        working = Working(maps, {"m": refs}, runs, (version, 0))
        changed(working, rng, 200 if version == 1 else 20)
        refs += working.written(LocalFiles(tmp_path))["m"]
    working = Working(maps, {"m": refs}, runs, (7, 0))
    working.reads_new = True
    changed(working, rng, 20)
    before = found(working)
    working.gather(["m"])
    gathered = working.find(LOOKED_UP)
    assert len(gathered.refs) in {1: [7], 60: [2, 3, 4, 5], 10**6: [1]}[most]
    assert found(working) == before
    changed(working, rng, 20)
    assert found(working) == sorted(
        (k, i, n)
        for t in working.now("m").scan()
        for k, i, n in zip(*(t.column(c).to_pylist() for c in ("k", "i", "n")), strict=True)
    )
    assert found(working) != before
