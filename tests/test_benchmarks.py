"""The benchmarks of streams in order and of edits run at their small scale: what they measure is right, whatever the time it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import (
    bulk,
    edits,
    loops,
    streams_compared,
    streams_fold_peers,
    streams_order,
    views_small,
)
from benchmarks.loops_cases import CASES
from benchmarks.report import Report

WITH_SPARK = ("nexmark", "rates", "folds")


def reported(pieces: tuple[str, ...], folder: Path) -> Report:
    report = Report("streams-order", "small")
    report.folder = folder
    streams_order.run(report, pieces)
    report.write()
    return report


@pytest.mark.parametrize("piece", ["marks", "keys", "frames"])
def test_pieces(piece: str, tmp_path: Path) -> None:
    report = reported((piece,), tmp_path)
    assert report.samples and report.targets
    assert (tmp_path / "streams-order.md").read_text().startswith("# Benchmark: streams-order")


def test_answers_without_spark() -> None:
    committed, beside = streams_fold_peers.nexmark(None, 3_000, 10, 2, 1)
    assert len(committed) == 2 and not beside
    assert len(streams_compared.seconds(3, 200, 2)) == 2


@pytest.mark.parametrize("piece", list(views_small.PIECES))
def test_small_changes(piece: str, tmp_path: Path) -> None:
    """Many views, extremes and growth, each beside an oracle."""
    report = Report("views", "small")
    report.folder = tmp_path
    views_small.run(report, tmp_path / "state", (piece,))
    report.write()
    assert report.samples and not report.targets  # times of a trial say nothing


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("piece", list(bulk.PIECES))
def test_large_changes(piece: str, tmp_path: Path) -> None:
    """A load and the curve, each beside an oracle."""
    report = Report("views", "small")
    report.folder = tmp_path
    bulk.run(report, (piece,))
    report.write()
    assert report.samples and not report.targets


def test_edits(tmp_path: Path) -> None:
    report = Report("iteration", "small")
    report.folder = tmp_path
    edits.run(report)
    report.write()
    assert len(report.targets) == 4
    assert all(t.met for t in report.targets if "rows written" in t.name)


@pytest.mark.slow
def test_memory_of_the_differ(tmp_path: Path) -> None:
    assert len(reported(("differ",), tmp_path).targets) == 2


@pytest.mark.slow
@pytest.mark.spark
def test_pieces_beside_spark(tmp_path: Path) -> None:
    assert len(reported(WITH_SPARK, tmp_path).targets) == 7


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name in ("breadth", "bill")], ids=lambda c: c.name
)
def test_loops_without_spark(case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops beside those who need no session: the answers are the same at every increment."""
    report = Report("iteration", "small")
    found = loops.measured(report, loops.sized(case, "small"), None, compare=True)
    assert len(found.seconds) == loops.COUNTED and found.others
    monkeypatch.setattr(loops, "TRIAL", tmp_path)
    report.folder = tmp_path
    told = (case, found, [found], None, 0.5)
    loops.keep(report, told)
    assert loops.kept(report, case) == told
    loops.tell(report, [told])
    assert report.samples and report.text


def test_definition_of_loops(tmp_path: Path) -> None:
    report = Report("iteration", "small")
    loops.definition(report)
    assert len(report.targets) == 4


@pytest.mark.slow
@pytest.mark.spark
def test_loops_beside_spark(tmp_path: Path) -> None:
    report = Report("iteration", "small")
    report.folder = tmp_path
    loops.run(report, ("groups", "ranks-exact", "bill"))
    report.write()
    assert (tmp_path / "iteration.md").read_text().startswith("# Benchmark: iteration")
