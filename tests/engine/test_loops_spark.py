"""Loops on Spark: the same stories with every round on Spark, and with rounds of both kinds in one increment."""

from __future__ import annotations

from pathlib import Path

import pytest

from loop_stories import How, Run, told
from loops import BY_NAME, LOOPS, Loop
from spark_session import session

pytestmark = pytest.mark.spark
EACH = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
SOME = [BY_NAME[n] for n in ("closure", "shortest paths", "bill of materials", "PageRank in SQL")]
FEW = pytest.mark.parametrize("loop", SOME, ids=lambda loop: loop.name)
SHORT = 2
"""Changes of a story on Spark in `make test`: a round there is a job."""


@FEW
def test_every_round_on_spark(loop: Loop, tmp_path: Path) -> None:
    Run(told(loop, 11, SHORT), How(execution="spark"), tmp_path, session()).play()


@FEW
def test_rounds_of_both_kinds(loop: Loop, tmp_path: Path) -> None:
    """Of a few rows a round is small, so rounds of one increment are run here and there."""
    Run(told(loop, 12, SHORT), How(execution="auto", small=3), tmp_path, session()).play()


@pytest.mark.slow
@EACH
@pytest.mark.parametrize(
    "how", [How(execution="spark"), How(execution="auto", small=4)], ids=["spark", "both"]
)
def test_longer_stories(loop: Loop, how: How, tmp_path: Path) -> None:
    Run(told(loop, 13), how, tmp_path, session()).play()
