"""The choice between strategies: by the data where there is some, by the structure of the plan where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.sample import LEAST, SAMPLE

QUERY = (
    "SELECT a.g, sum(a.v * c.z) AS s FROM a JOIN b ON a.k = b.k JOIN c ON b.h = c.h GROUP BY a.g"
)
SUMMED = QUERY.replace("a.v * c.z", "c.z")
"""What is added up is of one table, so that maps of the other two hold sums and not rows."""
ROWS = 3 * LEAST


def opened(path: Path, rows: int, values: int) -> hw.Database:
    """Three tables of so many rows, whose keys have so many values."""
    draw = np.random.default_rng(1)
    db = hw.open(path)
    db.policy.execution = "driver"  # many to many, a few rows make a million
    db.source("a", "k BIGINT, g BIGINT, v BIGINT")
    db.source("b", "k BIGINT, h BIGINT")
    db.source("c", "h BIGINT, z BIGINT")
    if rows:
        column = lambda n: draw.integers(0, n, rows)  # noqa: E731
        db.apply(
            {
                "a": pa.table({"k": column(values), "g": column(5), "v": column(9)}),
                "b": pa.table({"k": column(values), "h": column(values)}),
                "c": pa.table({"h": column(values), "z": column(1000)}),
            }
        )
    return db


@pytest.mark.parametrize(
    ("rows", "values", "kept"),
    [(0, 1, "first-order"), (ROWS, ROWS, "first-order"), (ROWS, ROWS // 30, "recursive")],
    ids=["no data", "keys", "many to many"],
)
def test_joins_that_follow_keys_keep_the_inputs_alone(
    tmp_path: Path, rows: int, values: int, kept: str
) -> None:
    with opened(tmp_path / "db", rows, values) as db:
        db.view("v", QUERY)
        assert db.catalog.views["v"].kept == kept
        said = str(db.explain("v"))
        assert "recursive" in said and "first-order" in said


def test_a_rebuild_chooses_by_what_is_there_by_then(tmp_path: Path) -> None:
    with opened(tmp_path / "db", 0, 1) as db:
        db.view("v", SUMMED)
        assert db.catalog.views["v"].kept == "first-order"
        many = np.arange(ROWS)
        few = many % 100
        db.apply(
            {
                "a": pa.table({"k": few, "g": few % 5, "v": many}),
                "b": pa.table({"k": few, "h": many % 99}),
                "c": pa.table({"h": few, "z": many}),
            }
        )
        before = db.table("v").sort_by("g")
        db.rebuild()
        assert db.catalog.views["v"].kept == "recursive"
        assert db.table("v").sort_by("g") == before


def test_a_sample_tells_keys_from_attributes(tmp_path: Path) -> None:
    rows = 3 * SAMPLE
    with hw.open(tmp_path / "db") as db:
        db.source("t", "id BIGINT, kind BIGINT")
        db.apply({"t": pa.table({"id": np.arange(rows), "kind": np.arange(rows) % 40})})
        sampled = db._sampled()
        assert sampled.rows("t") == rows
        ids, kinds = sampled.different("t", ["id"]), sampled.different("t", ["kind"])
        assert ids is not None and kinds is not None
        assert ids > rows / 2 and 40 <= kinds < 60
        assert sampled.different("t", []) == 1
        assert sampled.rows("no such relation") is None
