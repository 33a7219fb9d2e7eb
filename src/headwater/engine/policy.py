"""Where and how work runs: here or on Spark, at once or in sequence, in how many tasks. All numbers are here, with why.

Work is done in this process as long as that is faster, by what a row is estimated to cost, and fits into memory: a
job of Spark takes a second before any row is looked at, and a row goes there and back between two processes. How much work there is
is told from rows that are known beforehand (of a change, of a map), and once more on the way: a look-up that finds more
than is carried here gives up, and the round is done on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from headwater.errors import EngineError

PER_PIECE = 1_000_000
"""Rows of a change that a task takes through statements at a time, at most: what it makes of them is held."""
PER_PART = 4_000_000
"""Rows of all statements together that a merging task takes at most, about: it holds them."""
MOST_FOUND = 4_000_000
"""Entries that a look-up finds at once in a task."""
MANY_SHARES = 4096
"""Shares that a task's rows are cut into at most, when what is found for them is too much at once."""
LEAST_ROWS = 50_000
"""Rows of a change that make a slice: with fewer a task takes longer to start than to run."""
ENOUGH = 10_000
"""Rows that are worth sharing: with fewer the next step may find more, and all who share go on with all of them."""
HEAVY = 10_000
"""A key with fewer rows in what a task emits is light, however uneven that is: dividing it would cost more."""
INLINE = 1 << 20
"""Bytes of a partition of a DataFrame that come back through the driver, or of emitted rows through Spark's exchange; more go into files."""
NO_LIMIT = 1 << 62
HERE, SPARK = 1_700_000, 1_300_000
"""Rows that a core takes through a statement and merges in a second: in this process, and in tasks.

By `python -m benchmarks --only bulk`, side by side on two cores that others used too: 100 thousand to 1.5 million rows through six
statements into 5 million gave 1.1 to 2.5 million here, and 0.8 to 1.4 on Spark, which was slower at each of these sizes. Of one core
beside another the difference is small: it is Spark's start, and more cores than this process has, that decide.
"""
START = 0.65
"""Seconds of a round on Spark before any row is looked at, two stages with a Python hop each, by the smallest of these changes."""
HELD = 32_000_000
"""Rows of all statements together that are held in this process at a time, about: some hundred bytes each while they are merged."""
LEAST_REFILLED = 100_000
"""Rows of a change from which on it is asked whether a map is cheaper to fill anew."""
READING = 1
"""What it costs to read an entry of a source where a map is filled anew, in rows that are carried through a statement: about as much.

Nine tenths of 5 million rows went in 8 to 11 s of processor time where they were carried through, three runs on a busy machine, and in 12 and
16 s where three maps were filled from the rest.
"""
CALLED = 1_000_000
"""Rows that a function of the user's is called for in this process, one after another."""


def carried_here(
    rows: int, statements: int, most: int, threads: int, cores: Callable[[], int | None]
) -> bool:
    """Whether rows go through statements in this process, with so many threads, or on Spark with so many cores, if that is known.

    `most` is what the policy allows at all: nothing, everything, or some number. Spark is asked for its cores only where they
    decide: a small change needs no session, and none that still runs.
    """
    if most in (0, NO_LIMIT):
        return rows <= most
    work = rows * max(1, statements)
    if rows > most or work > HELD:
        return False
    here = work / (HERE * threads)
    if here <= START:
        return True
    known = cores()
    return known is None or here <= START + work / (SPARK * known)


Execution = Literal["auto", "here", "spark"]
"""Where a user wants changes to be carried through the views."""


def asked_execution(asked: Execution) -> Literal["auto", "driver", "spark"]:
    """What the policy calls the execution that a user asked for."""
    if asked not in get_args(Execution):
        raise EngineError(
            f"{asked!r} is no way to carry changes through views",
            hint="execution is 'auto', 'here' or 'spark'",
        )
    return "driver" if asked == "here" else asked


@dataclass
class Policy:
    """What a database decides by; `execution` and `several` are for tests and comparisons, and `auto` for everyone else."""

    execution: Literal["auto", "driver", "spark"] = "auto"
    several: Literal["auto", "at once", "in sequence"] = "auto"
    small: int = 5_000_000
    """Changes of more rows, and groups of more entries, are never carried through in this process."""
    large: int = 6_000_000
    """Changes of more rows are taken one after another on Spark too: terms of two changes cost most."""
    fuse: bool = True
    """Whether stages that follow each other directly are run in one epoch."""
    read_here: int = 1_000_000
    """Views and sources of so many entries are read in this process."""

    @property
    def most_here(self) -> int:
        """How many rows a function is called for in this process."""
        return {"driver": NO_LIMIT, "spark": 0}.get(self.execution, min(self.small, CALLED))

    @property
    def most_carried(self) -> int:
        """How many rows are carried through maps in this process, at most."""
        return {"driver": NO_LIMIT, "spark": 0}.get(self.execution, self.small)

    def at_once(self, rows: int) -> bool:
        """Whether changes of several sources are taken at once, if the maps that are kept are enough.

        Here a round costs little and terms of two changes cost most; on Spark a round is a job.
        """
        if self.several != "auto":
            return self.several == "at once"
        return self.most_carried < rows <= self.large

    def reads_here(self, entries: Iterable[int]) -> bool:
        """Whether maps of so many entries are read in this process."""
        return sum(entries) <= self.read_here

    def answers_here(self, entries: Iterable[int]) -> bool:
        """Whether a query over maps of so many entries is answered in this process."""
        return self.execution != "spark" and self.reads_here(entries)
