"""How far Spark has come, as a line on the terminal, for work that takes longer than some seconds.

The line is rewritten in place, and taken away when the work is done. Nothing is shown where no terminal reads it (in tests, in
notebooks, in pipes), nor where Spark itself shows such a line: two would write over each other.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

from pyspark.sql import SparkSession

PATIENCE = 3.0
"""Seconds before anything is shown."""
EVERY = 0.5
"""Seconds between two looks."""
OWN = "spark.ui.showConsoleProgress"
"""The setting by which Spark shows a line itself."""


@contextlib.contextmanager
def showing(spark: SparkSession, what: str) -> Iterator[None]:
    """Shows on the terminal how many tasks of Spark are done, while the block runs."""
    if sys.stderr is None or not sys.stderr.isatty() or _shown_by_spark(spark):
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, what, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(2 * EVERY)  # an answer that Spark owes must not hold up what is done


def _shown_by_spark(spark: SparkSession) -> bool:
    return str(spark.sparkContext.getConf().get(OWN, "false")).lower() == "true"


def _watch(spark: SparkSession, what: str, over: threading.Event) -> None:
    shown, wait, started = False, PATIENCE, time.monotonic()
    while not over.wait(wait):
        wait = EVERY
        with contextlib.suppress(Exception):  # a session that ends has no state to tell
            tasks = _tasks(spark)
            if tasks and not over.is_set():
                seconds = time.monotonic() - started
                print(f"\r\x1b[K{what}: {tasks}, {seconds:.0f} s", end="", file=sys.stderr, flush=True)  # fmt: skip
                shown = True
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _tasks(spark: SparkSession) -> str:
    """The stages that run, each with its tasks that are done."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(i) for i in tracker.getActiveStageIds()]
    return ", ".join(
        f"{s.numCompletedTasks} of {s.numTasks} tasks" for s in stages if s is not None
    )
