"""How far Spark has come, as a line on the terminal, for work that takes longer than some seconds.

Nothing is shown where no terminal reads it: in tests, in notebooks, in pipes. The line is taken away when the work is done.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

from pyspark.sql import SparkSession

PATIENCE = 3.0
"""Seconds before anything is shown."""
EVERY = 0.5
"""Seconds between two looks."""


@contextlib.contextmanager
def showing(spark: SparkSession, what: str) -> Iterator[None]:
    """Shows on the terminal how many tasks of Spark are done, while the block runs."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, what, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(1.0)


def _watch(spark: SparkSession, what: str, over: threading.Event) -> None:
    shown = False
    wait = PATIENCE
    while not over.wait(wait):
        wait = EVERY
        with contextlib.suppress(Exception):  # a session that ends has no state to tell
            line = _line(spark, what)
            if line:
                print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
                shown = True
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _line(spark: SparkSession, what: str) -> str:
    """The stages that run, each with its tasks that are done."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(i) for i in tracker.getActiveStageIds()]
    parts = [f"{s.numCompletedTasks} of {s.numTasks} tasks" for s in stages if s is not None]
    return f"{what}: {', '.join(parts)}" if parts else ""
