"""Maps that are filled anew: the same entries, answers and changes as those that are maintained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from corpus_edits import entries
from headwater.engine import policy, refill

VIEWS = {
    "by_key": "SELECT k, sum(v) AS s, count(*) AS n, avg(x) AS x FROM r GROUP BY k",
    "joined": """SELECT grp, sum(v) AS s, count(*) AS n, max(v) AS m, count(DISTINCT v) AS d
                 FROM r JOIN g ON r.k = g.k GROUP BY grp""",
    "above": "SELECT n, count(*) AS groups FROM by_key GROUP BY n",
    "all_of_it": "SELECT count(*) AS n, sum(v) AS s FROM r WHERE v % 3 = 0",
    "rows": "SELECT r.k, v, grp FROM r JOIN g ON r.k = g.k WHERE v > 50",
    "without": "SELECT k, v FROM r WHERE NOT EXISTS (SELECT 1 FROM g WHERE g.k = r.k)",
}
Played = tuple[dict[str, list[Any]], list[list[str]], list[int]]


def rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    values = {"k": rng.integers(0, 40, n), "v": rng.integers(0, 100, n)}
    return pa.table({**values, "x": rng.integers(-50, 50, n) / 7})


def played(path: Path, several: Any, monkeypatch: pytest.MonkeyPatch) -> Played:
    """What all maps hold and all views tell, and how many maps each change filled anew."""
    counts: list[int] = []
    chosen = refill.chosen

    def counted(increment: Any) -> frozenset[str]:
        found = chosen(increment)
        counts.append(len(found))
        return found

    with monkeypatch.context() as patch, hw.open(path, execution="here") as db:
        patch.setattr(refill, "chosen", counted)
        db.policy.several = several
        db.source("r", "k BIGINT, v BIGINT, x DOUBLE")
        db.source("g", "k BIGINT, grp BIGINT")
        for name, query in VIEWS.items():
            db.view(name, query)
        groups = pa.table({"k": np.arange(30), "grp": np.arange(30) % 4})
        first, second = rows(600, 1), rows(500, 2)
        db.apply({"g": groups, "r": first})
        db.apply({"r": hw.Delta(deletes=first.slice(0, 590))})  # most rows go
        db.apply({"r": second})
        db.apply({"r": hw.Delta(deletes=second, inserts=rows(400, 3))})  # all are replaced
        db.apply(
            {"r": hw.Delta(deletes=rows(400, 3).slice(20)), "g": hw.Delta(deletes=groups.slice(3))}
        )
        told = [sorted(map(str, db.changes_table(n, 0).to_pylist())) for n in VIEWS]
        return {n: sorted(map(str, e)) for n, e in entries(db).items()}, told, counts


@pytest.mark.parametrize("several", ["in sequence", "at once"])
def test_maps_filled_anew_are_those_maintained(
    tmp_path: Path, several: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = played(tmp_path / "kept", several, monkeypatch)
    assert not any(kept[2])
    monkeypatch.setattr(policy, "LEAST_REFILLED", 1)
    monkeypatch.setattr(policy, "READING", 0)
    anew = played(tmp_path / "anew", several, monkeypatch)
    assert anew[:2] == kept[:2]
    _, taken, more, replaced, both = anew[2]
    assert more == 0 and min(taken, replaced, both) > 0


def test_nothing_is_filled_anew_where_sources_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are over leave the source, and stay in the sums."""
    monkeypatch.setattr(policy, "LEAST_REFILLED", 1)
    monkeypatch.setattr(policy, "READING", 0)
    with hw.open(tmp_path, execution="here") as db:
        db.source("r", "day BIGINT, v BIGINT", closes="day")
        db.view("total", "SELECT day, sum(v) AS s FROM r GROUP BY day")
        db.apply({"r": [(d, d) for d in range(20)]})
        db.punctuate("r", day=hw.below(10))
        db.apply({"r": hw.Delta(deletes=[(d, d) for d in range(11, 20)])})
        assert sorted(r["day"] for r in db.table("total").to_pylist()) == list(range(11))
