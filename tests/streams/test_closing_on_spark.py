"""What is closed, told and set aside is the same when increments are carried through on Spark, and views are read there."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw

pytestmark = pytest.mark.spark

VIEWS = {
    "counts": "SELECT t, count(*) AS n, max(b) AS top FROM r GROUP BY t",
    "rows": "SELECT a, b, t FROM r WHERE b > 1",
    "silent": "SELECT a, t FROM r EXCEPT SELECT a, t FROM q",
}
STEPS = [
    ({"r": [(1, 2, 1), (2, 5, 1), (1, 1, 2)], "q": [(1, 1)]}, {"q": hw.closed(t=hw.upto(1))}),
    ({"r": [(3, 3, 2), (4, 9, 3)], "q": [(9, 3)]}, {"r": hw.closed(t=hw.upto(1))}),
    ({"r": [(7, 7, 1), (5, 5, 3)]}, {"r": hw.closed(t=hw.upto(2)), "q": hw.closed(t=hw.upto(3))}),
]


def played(path: Path, execution: str) -> tuple[list[object], list[object]]:
    db = hw.open(str(path))
    db.policy.execution = execution  # type: ignore[assignment]
    db.source("r", "a INT, b INT, t INT", closes="t", late="aside")
    db.source("q", "a INT, t INT", closes="t", append_only=True)
    said: list[object] = []
    with db:
        for name, query in VIEWS.items():
            db.view(name, query)
        for change, points in STEPS:
            commit = db.apply(change, punctuate=points)
            said.append((commit.closed, commit.late))
            for name in VIEWS:
                said.append(sorted(map(str, db.table(name).to_pylist())))
                said.append(sorted(map(str, db.final_table(name).to_pylist())))
        db.policy.read_here = 0
        read = [sorted(map(tuple, db[name].snapshot().collect())) for name in VIEWS]
        said.append(sorted(map(tuple, db["r"].late().collect())))
        assert db.verify() == {}
    return said, read


def test_spark_closes_as_this_process_does(tmp_path: Path) -> None:
    here, read_here = played(tmp_path / "here", "driver")
    there, read_there = played(tmp_path / "there", "spark")
    assert there == here
    assert read_there == read_here
    assert read_here[0] == [(1, 2, 5), (2, 2, 3), (3, 2, 9)]
