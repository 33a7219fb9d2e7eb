"""What a stream keeps stays flat: rows that wait, states and rows of frames at frame 100 as at frame 20."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
import test_killed_streams as taxis


def kept(db: Any) -> tuple[dict[str, int], int]:
    """What waits, states, and rows of frames: how many are there, and all entries with those that others cancel."""
    out, entries = dict.fromkeys("psb", 0), 0
    snapshot = db.store.at(db.version)
    for name, (_, refs) in snapshot.version.maps.items():
        if name[1:2] == ":" and name[0] in out:
            out[name[0]] += sum(t.num_rows for t in snapshot.arrangement(name).scan())
            entries += sum(r.rows for r in refs)
    return out, entries


@pytest.mark.parametrize("frames", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_what_waits_and_what_is_kept_stay_flat(tmp_path: Path, frames: int) -> None:
    early, late = range(20, 30), range(2 * frames - 10, 2 * frames)
    found = {}
    with hw.open(tmp_path / "db", keep_versions=3) as db:
        taxis.define(db)
        for i in range(2 * frames):  # each is half an hour
            changes, points = taxis.increment(i, 4)
            db.apply(changes, punctuate=points)
            if i in early or i in late:
                found[i] = kept(db)
        assert db["s"].output_table("rates").num_rows > frames - 2
    for kind in "psb":
        most = max(found[i][0][kind] for i in early)
        assert 0 < max(found[i][0][kind] for i in late) <= 1.2 * most, kind
    live = max(sum(there.values()) for there, _ in found.values())
    assert max(entries for _, entries in found.values()) <= 8 * live
