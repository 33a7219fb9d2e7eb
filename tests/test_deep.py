"""Queries that are nested deeper than Python's stack are refused by name, and never end in an error of Python."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import NotIncremental


def summing(path: Path, summands: int) -> hw.Query:
    """A comprehension with so many summands, from a file as a query must be."""
    file = path / f"of_{summands}.py"
    file.write_text(
        f"def q(x):\n    return [{{'s': {' + '.join(['a.v'] * summands)}}} for a in x]\n"
    )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return hw.query(module.q)


@pytest.mark.parametrize("summands", [200, 400, 2000])
def test_a_comprehension_that_is_too_deep_is_refused(tmp_path: Path, summands: int) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("x", "v BIGINT")
        with pytest.raises(NotIncremental, match="TOO_DEEP"):
            db.view("q", summing(tmp_path, summands))
        db.view("q", summing(tmp_path, 50))  # and the database goes on
        db.apply({"x": [(2,)]})
        assert db.table("q").to_pylist() == [{"s": 100, "_w": 1}]


def test_many_branches_are_kept_or_refused(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("x", "v BIGINT")
        try:
            db.view("many", " UNION ALL ".join(["SELECT v FROM x"] * 400))
        except NotIncremental as e:
            assert e.reason == "TOO_DEEP"
        db.view("q", " UNION ALL ".join(["SELECT v FROM x"] * 60))
        db.apply({"x": [(2,)]})
        assert db.table("q").to_pylist() == [{"v": 2, "_w": 60}]
