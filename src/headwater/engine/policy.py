"""Where and how work runs: here or on Spark, at once or in sequence, in how many tasks. All numbers are here, with why.

Small work is done in this process: a job of Spark costs a tenth of a second before any row is looked at. What is small is
told from rows that are known beforehand (of a change, of a map), and once more on the way: a look-up that finds more than
is small gives up, and the round is done on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

PER_PART = 4_000_000
"""Rows that a merging task takes at most, about."""
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
"""A partition of a DataFrame of so many bytes comes back through the driver."""
NO_LIMIT = 1 << 62


@dataclass
class Policy:
    """What a database decides by; `execution` and `several` are for tests and comparisons, and `auto` for everyone else."""

    execution: Literal["auto", "driver", "spark"] = "auto"
    several: Literal["auto", "at once", "in sequence"] = "auto"
    small: int = 1_000_000
    """Changes of so many rows, and groups of so many entries, are carried through in this process."""
    large: int = 5_000_000
    """Changes of more rows are taken one after another on Spark too: terms of two changes cost most."""
    fuse: bool = True
    """Whether stages that follow each other directly are run in one epoch."""
    read_here: int = 1_000_000
    """Views and sources of so many entries are read in this process."""

    @property
    def most_here(self) -> int:
        """How many rows are carried through in this process."""
        return {"driver": NO_LIMIT, "spark": 0}.get(self.execution, self.small)

    def at_once(self, rows: int) -> bool:
        """Whether changes of several sources are taken at once, if the maps that are kept are enough.

        Here a round costs little and terms of two changes cost most; on Spark a round is a job.
        """
        if self.several != "auto":
            return self.several == "at once"
        return self.most_here < rows <= self.large

    def reads_here(self, entries: Iterable[int]) -> bool:
        """Whether maps of so many entries are read in this process."""
        return sum(entries) <= self.read_here
