"""How even the tasks of Spark are: the longest against the median, stage by stage, in seconds and in rows.

Spark keeps what its tasks took whether or not its user interface is on; `stages` reads it there. On a machine whose
cores are shared, times say more of the neighbours than of the work, so `rows_by_part` tells the same in rows: each
task that merges writes one file.

    with stages(spark) as seen:
        db.apply(change)
    print(max(s.ratio for s in seen))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

import headwater as hw

MOST_TASKS = 1_000_000


@dataclass(frozen=True)
class Stage:
    """A stage that ran: the seconds of its tasks, without waiting for a core, and the bytes that they read."""

    number: int
    seconds: tuple[float, ...]
    shuffled: tuple[int, ...]

    @property
    def longest(self) -> float:
        return max(self.seconds)

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def ratio(self) -> float:
        """The longest task against the median one."""
        return self.longest / max(self.median, 1e-3)

    @property
    def merges(self) -> bool:
        """Whether it is behind an exchange."""
        return any(self.shuffled)


@contextmanager
def stages(spark: SparkSession) -> Iterator[list[Stage]]:
    """The stages that run meanwhile, in order; filled at the end."""
    context = spark.sparkContext._jsc.sc()  # the one of all sessions
    before = set(_numbers(spark, context))
    seen: list[Stage] = []
    yield seen
    for number in sorted(set(_numbers(spark, context)) - before):
        tasks = _tasks(context, number)
        if tasks:
            seconds = tuple(t.executorRunTime() / 1000 for t in tasks)
            shuffled = tuple(
                t.shuffleReadMetrics().localBytesRead() + t.shuffleReadMetrics().remoteBytesRead()
                for t in tasks
            )
            seen.append(Stage(number, seconds, shuffled))


def _numbers(spark: SparkSession, context: Any) -> list[int]:
    """All stages that there were."""
    context.listenerBus().waitUntilEmpty()
    gateway: Any = spark.sparkContext._gateway
    store = context.statusStore()
    none = gateway.new_array(gateway.jvm.double, 0)
    any_status = getattr(store, "stageList$default$5")()
    found = store.stageList(None, False, False, none, any_status)
    return [found.apply(i).stageId() for i in range(found.length())]


def _tasks(context: Any, stage: int) -> list[Any]:
    """What is known of the tasks of a stage that were run to the end."""
    store = context.statusStore()
    attempt = store.lastStageAttempt(stage).attemptId()
    found = store.taskList(stage, attempt, MOST_TASKS)
    tasks = [found.apply(i) for i in range(found.length())]
    return [t.taskMetrics().get() for t in tasks if t.taskMetrics().isDefined()]


def rows_by_part(db: hw.Database, name: str | None = None) -> list[int]:
    """The entries that each merging task of the last increment wrote, to one map or to all; ascending."""
    written: Counter[str] = Counter()
    for m, (_, refs) in db.store.at().version.maps.items():
        for ref in refs:
            if ref.version == db.version and name in (None, m):
                written[ref.file] += ref.rows
    return sorted(written.values())
