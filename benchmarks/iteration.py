"""Iteration: loops that are kept up to date, and queries that can be edited."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import edits, loops
from benchmarks.report import Report

PIECES: dict[str, Callable[[Report], None]] = {"loops": loops.run, "edits": edits.run}
"""What is measured, one after another."""


def run(report: Report) -> None:
    """Measures all pieces."""
    for name, piece in PIECES.items():
        report.say(f"## {name}")
        piece(report)
