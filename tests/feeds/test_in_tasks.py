"""Files that tasks of Spark read: the same rows and the same rejected records as here, and the one that is wrong is found."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.errors import StageFailed
from spark_session import session

COLUMNS = "i INT, d DECIMAL(8,2), f DOUBLE, b BOOLEAN, s STRING, day DATE, at TIMESTAMP"
CELLS: list[list[str]] = [
    [" 7 ", "-3", "x", "", "2147483648", "+5"],
    ["1.5", "1.005", "", "1e2", "99999999", "-0.00"],
    ["0.25", "NaN", "1e300", "", "one", "-0.0"],
    ["true", "f", "", "maybe", "1"],
    ['"é, ""x"""', "", "a b", '""'],
    ["2026-01-02", "", "2026-13-01", "2026-1-2"],
    ["2026-01-02T03:04:05Z", "2026-01-02 03:04:05.5", "", "noon", "2026-01-02"],
]


def told(db: hw.Database, name: str) -> list[str]:
    return sorted(
        str({k: v for k, v in r.items() if k != "version"}) for r in db.table(name).to_pylist()
    )


@pytest.mark.spark
@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_what_tasks_read_is_what_is_read_here(tmp_path: Path, format: str) -> None:
    spark, rng, inbox = session(), random.Random(7), tmp_path / "in"
    inbox.mkdir()
    for n in range(4):
        rows = [[rng.choice(c) for c in CELLS] for _ in range(60)]
        if format == "csv":
            text = "i,d,f,b,s,day,at\n" + "\n".join(map(",".join, rows)) + "\n"
            (inbox / f"{n}").write_text(text, encoding="utf-8")
        elif format == "json":
            lines = ['{"i": %s, "s": "%s", "day": "%s"}' % (r[0] or 1, n, r[5]) for r in rows]  # noqa: UP031
            (inbox / f"{n}").write_text("\n".join(lines), encoding="utf-8")
        else:
            pq.write_table(pa.table({"i": range(60), "s": ["x", None] * 30}), inbox / f"{n}")
    columns = COLUMNS if format != "parquet" else "i INT, s STRING NOT NULL"
    found: list[Any] = []
    for size in (1, 1 << 30):
        with hw.open(tmp_path / f"db{size}", spark) as db:
            options = {"spark_bytes": size}
            db.source("t", columns, path=inbox, format=format, options=options, bad="aside")
            done = db.run()
            assert done.on_spark == ({"t": 1} if size == 1 else {})
            found.append((told(db, "t"), told(db, "t_rejected")))
    assert found[0] == found[1] and found[0][0] and found[0][1]


@pytest.mark.spark
def test_a_file_that_is_wrong_is_found_and_those_before_it_are_taken(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    for n, name in enumerate(["a", "b", "b"]):
        (inbox / f"{n}.csv").write_text(f"id,name\n{n % 2},{name}\n")
    with hw.open(tmp_path / "db", session()) as db:
        options = {"spark_bytes": 1}
        db.source(
            "t", "id BIGINT, name STRING", key="id", path=inbox, format="csv", options=options
        )
        with pytest.raises(StageFailed, match=r"`2.csv` does not fit"):
            db.run()
        assert sorted(r["id"] for r in db.table("t").to_pylist()) == [0, 1]
        (inbox / "2.csv").write_text("id,name\n2,c\n")
        assert db.run().rows == {"t": 1}
        (inbox / "3.csv").write_text("id,name\nx,c\n")
        with pytest.raises(StageFailed, match=r"`3.csv`, line 2 does not fit"):
            db.run()
