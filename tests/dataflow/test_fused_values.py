"""Stages that run together pass values on as they were given; a function sees the same as if they had been written between."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.calculus.types import RecordType
from headwater.dataflow.call import are_plain
from headwater.errors import StageFailed
from headwater.language.schema import columns

GIVEN: dict[str, list[Any]] = {
    "TINYINT": [0, -128, 127, None, 128, True, 1.0],
    "INT": [7, None, 2**31 - 1, 2**31],
    "BIGINT": [-(2**63), 2**63 - 1, None, 2**63],
    "STRING": ["", "a", None, "ü"],
    "BOOLEAN": [True, None, False, 1],
    "DATE": [date(2020, 2, 29), None, datetime(2020, 2, 29), "2020-02-29"],
    "DOUBLE": [1.5, None, 0.0, -0.0, float("nan"), float("inf"), 3, 1e308],
    "FLOAT": [0.1, None],
    "DECIMAL(6,2)": [Decimal("1.5"), None],
}


def seen_behind(path: Path, type: str, values: list[Any], fuse: bool) -> Any:
    """What a function behind another one sees, as text; or what is said of the one before."""
    seen: list[str] = []
    with hw.open(path) as db:
        db.policy.fuse = fuse
        db.source("s", "i INT", retain=False)

        @db.stage("s", out=f"i INT, x {type}", retain=False)
        def first(row: Any) -> Any:
            return row.i, values[row.i]

        @db.stage("first", out="i INT")
        def second(row: Any) -> Any:
            seen.append(f"{row.i} {row.x!r}")
            return (row.i,)

        db.apply({"s": [(i,) for i in range(len(values))]})
        try:
            db.run()
        except StageFailed as e:
            return e.what
    return sorted(seen)


CASES = [(t, v) for t, values in GIVEN.items() for v in ([values[0], x] for x in values[1:])]


@pytest.mark.parametrize(("type", "values"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_a_function_sees_the_same_whether_stages_run_together_or_apart(
    tmp_path: Path, type: str, values: list[Any]
) -> None:
    apart = seen_behind(tmp_path / "apart", type, values, fuse=False)
    assert seen_behind(tmp_path / "together", type, values, fuse=True) == apart


@pytest.mark.parametrize("fuse", [True, False])
def test_every_stage_that_ran_is_counted(tmp_path: Path, fuse: bool) -> None:
    with hw.open(tmp_path / "db") as db:
        db.policy.fuse = fuse
        db.source("s0", "x INT")
        for n in (1, 2, 3):
            db.stage(f"s{n - 1}", out="x INT", name=f"s{n}")(lambda row: row)
        db.apply({"s0": [(1,)]})
        run = db.run(epochs=2)
        assert run.epochs == ["s1", "s2", "s3"][: 3 if fuse else 2]
        run = db.run()
        assert run.epochs == ([] if fuse else ["s3"])
        assert [db[f"s{n}"].epochs for n in (1, 2, 3)] == [1, 1, 1]


def test_values_that_are_as_their_columns_have_them_are_passed_on() -> None:
    row = columns("a BIGINT, b STRING, c DOUBLE, d DATE, e BOOLEAN")
    plain = (1, "x", 0.5, date(2020, 1, 1), True)
    assert isinstance(row, RecordType)
    assert are_plain(row, [plain, (None,) * 5, plain])
    for place, other in enumerate([2**63, b"x", -0.0, datetime(2020, 1, 1), 1]):
        changed = (*plain[:place], other, *plain[place + 1 :])
        assert not are_plain(row, [plain, changed]), other


@pytest.mark.parametrize("fuse", [True, False])
def test_groups_that_end_behind_a_stage_over_whole_groups(tmp_path: Path, fuse: bool) -> None:
    """A stage over whole groups takes back what it gave, so that its rows never pass on without a table."""
    with hw.open(tmp_path / "db") as db:
        db.policy.fuse = fuse
        db.source("s", "k INT")

        @db.stage("s", by="k", whole=True, out="k INT, n BIGINT", retain=False)
        def sizes(key: Any, s: Any) -> Any:
            return key, len(s)

        @db.stage("sizes", out="k INT, n BIGINT")
        def behind(row: Any) -> Any:
            return row.k, row.n

        db.apply({"s": [(1,), (1,), (2,)]})
        db.run()
        db.apply({"s": hw.Delta(deletes=[(1,), (1,)])})
        db.run()
        assert db.table("behind").to_pylist() == [{"k": 2, "n": 1, "_w": 1}]
