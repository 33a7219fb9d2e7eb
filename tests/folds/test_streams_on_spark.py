"""Keys on Spark tell what keys here tell: random stories in which every run over keys is a job, of one, two and seven parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

import headwater as hw
import headwater.st as st
import stream_pipelines
from headwater.api import streaming
from headwater.errors import StepFailed
from headwater.folds import tasks
from stream_stories import TIMELINES
from test_stream_stories import play

pytestmark = pytest.mark.spark
at = TIMELINES["times"].at
cloudpickle.register_pickle_by_value(stream_pipelines)  # which workers cannot import


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Runs over keys go to Spark whatever their size; their rows."""
    ran: list[int] = []

    class Always(tasks.Spread):
        def takes(self, node: Any, rows: int) -> bool:
            if not rows or self.layout.number(node) is None or not tasks.can_be_sent(node):
                return False
            ran.append(rows)
            return True

    monkeypatch.setattr(streaming, "Spread", Always)
    return ran


@pytest.mark.parametrize(
    ("name", "seed", "parts"),
    [
        ("fold by key", 0, 2),
        ("fold by key", 1, 7),
        ("by key alone", 2, 1),
        ("marks of a source", 1, 2),
    ],
)
def test_stories(tmp_path: Path, jobs: list[int], name: str, seed: int, parts: int) -> None:
    play(tmp_path, name, seed, steps=4, partitions=parts)
    assert jobs


def test_a_function_that_fails_in_a_task(tmp_path: Path, jobs: list[int]) -> None:
    def failing(state: Any, row: Any, emit: Any) -> Any:
        if row.x == 3:
            raise ValueError("three")
        return ((state.n or 0) + 1,)

    db = hw.open(tmp_path / "db")
    db.source("a", "k BIGINT, ts TIMESTAMP, x BIGINT", closes="ts")
    db.stream("s", "k{seq a}", st.partitioned(st.fold(failing, state="n BIGINT")), order="ts")
    over = {"a": hw.closed(ts=hw.below(at(60)))}
    version = db.version
    with pytest.raises(StepFailed, match="three"):
        db.apply({"a": [(1, at(1), 1), (1, at(2), 3)]}, punctuate=over)
    assert db.version == version
    db.apply({"a": [(1, at(1), 1), (1, at(2), 2)]}, punctuate=over)
    assert db["s"].state(1) == ((2,), None)
    assert jobs == [2, 2]
    db.close()
