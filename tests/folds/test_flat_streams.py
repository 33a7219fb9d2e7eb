"""What a stream keeps stays flat: rows that wait, states and rows of frames at frame 100 as at frame 20."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
import test_killed_streams as taxis


def kept(db: Any) -> dict[str, int]:
    """The entries of what waits, of states, and of rows of frames."""
    out = dict.fromkeys("psb", 0)
    for name, (_, refs) in db.store.at(db.version).version.maps.items():
        if name[1:2] == ":" and name[0] in out:
            out[name[0]] += sum(r.rows for r in refs)
    return out


@pytest.mark.parametrize("frames", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_what_waits_and_what_is_kept_stay_flat(tmp_path: Path, frames: int) -> None:
    found = {}
    with hw.open(tmp_path / "db", keep_versions=3) as db:
        taxis.define(db)
        for i in range(2 * frames):  # each is half an hour
            changes, points = taxis.increment(i, 5)
            db.apply(changes, punctuate=points)
            if i >= 20:
                found[i] = kept(db)
        told = db["s"].output_table("rates").num_rows
    assert told > frames - 2
    first, last = (
        [found[i] for i in some] for some in (range(20, 35), range(2 * frames - 15, 2 * frames))
    )
    for kind in "psb":
        assert max(f[kind] for f in last) <= 1.2 * max(f[kind] for f in first), kind
