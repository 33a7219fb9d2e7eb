"""What a database says that it did: lines that Spark's own class reads, and metrics that add up to what was applied."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

import headwater as hw
from sink_stories import declared

SAMPLE = re.compile(r'headwater_([a-z_]+)(?:\{[a-z]+="((?:[^"\\\n]|\\.)*)"\})? ([0-9.e+-]+)')


def samples(text: str) -> dict[tuple[str, str], float]:
    """The metrics of a text, which has nothing else but what says their types."""
    out = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            found = SAMPLE.fullmatch(line)
            assert found, line
            assert (found[1], found[2]) not in out
            out[found[1], found[2] or ""] = float(found[3])
    types = re.findall(r"^# TYPE headwater_([a-z_]+) (?:gauge|counter)$", text, re.M)
    assert sorted(types) == sorted({n for n, _ in out})
    return out


def test_a_line_for_each_commit_that_spark_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with declared(tmp_path / "db") as db:
        db.apply({"orders": [(1, "ax", 1.0)]})
        assert not caplog.records, "nobody asked"
        with caplog.at_level(logging.INFO, "headwater.progress"):
            commit = db.apply({"orders": [(2, "ax", 1.0), (3, "pin", 2.0)]})
        (line,) = [r.getMessage() for r in caplog.records if r.name == "headwater.progress"]
        told = StreamingQueryProgress.fromJson(json.loads(line))
        assert (told.batchId, told.numInputRows, told.name) == (commit.version, 2, "db")
        assert [(s.description, s.numInputRows) for s in told.sources] == [("orders", 2)]
        assert told.id.hex == db.identity and told.processedRowsPerSecond > 0


def test_a_run_tells_who_asked_it(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    with hw.open(tmp_path / "db") as db:
        db.source("t", "x BIGINT", feed=[(1,), (2,), (3,)])
        db.run(progress=told.append)
        db.apply({"t": [(4,)]})
        assert sum(t["numInputRows"] for t in told) == 3
        db.source("u", "x BIGINT", feed=[(1,)])
        db.run(progress=lambda _: 1 // 0)  # the commit is there already
        assert db.table("u").num_rows == 1


def test_metrics_are_what_was_done(tmp_path: Path) -> None:
    with declared(tmp_path / "db") as db:
        db.sink("out", "items", format="jsonl", path=str(tmp_path / "out"))
        db.sink("bad", "items", foreach=lambda t, v: 1 // 0)
        db.apply({"orders": [(1, "ax", 1.0), (5, "pin", 2.0)]})
        before = samples(db.metrics())
        assert before["sink_behind_versions", "out"] > 0
        with pytest.raises(hw.HeadwaterError):
            db.run()
        db.apply({"orders": [(5, "ax", 1.0)]})
        found = samples(db.metrics())
        assert found["commits_total", ""] == 2 and found["input_rows_total", "orders"] == 3
        assert found["version", ""] == db.version and found["commit_seconds_total", ""] > 0
        assert found["sink_behind_versions", "out"] == 1 and found["sink_rows_total", "out"] == 1
        assert (found["sink_held", "bad"], found["sink_held", "out"]) == (1, 0)
        assert found["state_entries", "sources"] == 3 and found["state_bytes", "sources"] > 0
        assert {n.name: n.waiting for n in db.nodes()}["out"] == 1
