"""Runs the parts: `python -m benchmarks [part] [--scale small|ordinary|full]`; `nested` is `nested-batch` too,
and `streams` is `streams-order`.

A part is a function from a report and a scale; it measures, checks what it measured, and writes
`benchmarks/results/PART.json`, a table in `PART.md` and plots in `PART-*.png`. A missed target is reported,
and is no error; a wrong answer is one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import (
    bulk,
    compile,
    dataflow,
    io,
    iteration,
    loops,
    nested,
    nested_batch,
    sql,
    state,
    streams,
    streams_order,
    views,
    views_small,
)
from benchmarks.report import ROOT, SCALES, TRIAL, Report


def all_views(report: Report, pieces: tuple[str, ...] = ()) -> None:
    """Views, small changes of them, loads and large ones; or some pieces alone."""
    large = tuple(p for p in pieces if p in bulk.PIECES)
    small = tuple(p for p in pieces if p not in large)
    if small or not pieces:
        views.run(report, small)
    if large or not pieces:
        bulk.run(report, large)


PARTS: dict[str, Callable[[Report], None]] = {
    "compile": compile.run,
    "state": state.run,
    "views": all_views,
    "sql": sql.run,
    "nested": nested.run,
    "nested-batch": nested_batch.run,
    "dataflow": dataflow.run,
    "streams": streams.run,
    "streams-order": streams_order.run,
    "iteration": iteration.run,
    "io": io.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", choices=[*PARTS], help="one part; all without it")
    parser.add_argument("--scale", choices=SCALES, default="ordinary")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*streams_order.PIECES, *loops.PIECES, *views_small.PIECES, *bulk.PIECES],
        help=f"some pieces of streams-order or views, or some loops, alone, written to {TRIAL.relative_to(ROOT)}",
    )
    parser.add_argument(
        "--together",
        action="store_true",
        help="the page of iteration, from what its loops measured before with --only",
    )
    given = parser.parse_args()
    if given.together:
        report = Report("iteration", given.scale)
        loops.together(report)
        report.write()
        print(report.summary())
        return
    if given.only:
        chosen = {
            "iteration": loops.PIECES,
            "views": [*views_small.PIECES, *bulk.PIECES],
            "streams-order": streams_order.PIECES,
        }
        part = next(n for n, pieces in chosen.items() if set(given.only) <= {*pieces})
        report = Report(part, given.scale)
        report.folder = TRIAL
        runs = {"iteration": loops.run, "views": all_views, "streams-order": streams_order.run}
        runs[part](report, tuple(given.only))
        report.write()
        print(report.summary())
        return
    for part in [p for p in PARTS if p.startswith(given.part or "")]:
        report = Report(part, given.scale)
        PARTS[part](report)
        report.write()
        print(report.summary())


if __name__ == "__main__":
    main()
