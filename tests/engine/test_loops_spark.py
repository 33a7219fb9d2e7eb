"""Loops on Spark: the same stories with every round on Spark, and with rounds of both kinds in one increment."""

from __future__ import annotations

from dataclasses import replace
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
FEW_ROWS = 5
"""Rows that a source of the smallest stories begins with, about."""


@FEW
def test_every_round_on_spark(loop: Loop, tmp_path: Path) -> None:
    Run(told(loop, 11, SHORT), How(execution="spark"), tmp_path, session()).play()


@FEW
def test_rounds_of_both_kinds(loop: Loop, tmp_path: Path) -> None:
    """Of a few rows a round is small, so rounds of one increment are run here and there."""
    Run(told(loop, 12, SHORT), How(execution="auto", small=3), tmp_path, session()).play()


BOTH = pytest.mark.parametrize(
    "how", [How(execution="spark"), How(execution="auto", small=3)], ids=["spark", "both"]
)


@pytest.mark.slow
@EACH
@BOTH
def test_every_loop(loop: Loop, how: How, tmp_path: Path) -> None:
    """Few rows, so that there are few rounds, each of which is a job; the state is compared entry for entry as ever."""
    few = replace(loop, size=min(loop.size, FEW_ROWS))
    Run(told(few, 13, SHORT), how, tmp_path, session()).play()
