"""Following: what changed of a view, printed as versions are committed, by this process or any other.

Whether there is a version more is one look for one file, the record of the next version, so that a look costs next to nothing and
rows are seen within a few hundredths of a second. Nothing is written, and the writer knows nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from headwater.api.database import Database
from headwater.state.log import path_of

EVERY = 0.02
"""Seconds between two looks."""


def versions(db: Database, since: int, seconds: float | None = None) -> Iterator[tuple[int, int]]:
    """Pairs of versions, each up to the newest one, as they come; for so many seconds, or for ever."""
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        newest = db.refresh()
        if newest > since:
            yield since, newest
            since = newest
            continue
        beyond = db.path / path_of(newest + 1)
        while not beyond.exists():
            if until is not None and time.monotonic() >= until:
                return
            time.sleep(EVERY)


def followed(
    db: Database, view: str, since: int, cdc: bool, seconds: float | None = None
) -> Iterator[pa.Table]:
    """What changed of a view after a version, one table for every look that found something."""
    for before, newest in versions(db, since, seconds):
        if cdc:
            table = db.cdc_table(view, before, newest)
        else:
            table = db.changes_table(view, before, newest)
        if table.num_rows:
            yield table
