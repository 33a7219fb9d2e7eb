"""A streaming DataFrame of Spark as a feed: whatever Structured Streaming reads, each of its batches taken once.

    db.source("clicks", "user STRING, at TIMESTAMP", feed=spark.readStream.format("kafka")...select(...))

Spark runs the query; its batches are handed over one by one, and it goes on to the next when the version with the rows of this
one is there. Which offsets a batch has is in a checkpoint in the database's own directory, and its number is the cursor. So a
batch that Spark repeats, as it does not know that it was done, is known by its number, and one that was not committed here
comes again with the same offsets. The rows are read by tasks of Spark, straight into staging, and never pass through here
unless they are few.
"""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

from headwater.errors import FeedAway, FeedLost
from headwater.feeds.feed import Batch, Cursor, Declared, Limit

CHECKPOINTS = "checkpoints"
"""The folder of checkpoints, in the directory of a database."""
START = 60.0
"""Seconds that Spark may take to start the query."""
LOOK = 0.02


class _Closed(Exception):
    """Ends the query of a feed that is closed."""


class StreamingFeed:
    """Takes the batches of a query that runs while it is open."""

    replays: ClassVar[bool] = True

    def __init__(self, frame: Any, declared: Declared):
        self.frame, self.declared = frame, declared
        self.place = Path(declared.home) / CHECKPOINTS / declared.name
        self.query: Any = None
        self.turn = threading.Condition()
        self.given: tuple[Any, int] | None = None
        self.done = -1
        self.closing = False

    def read(self, after: Cursor, limit: Limit) -> Batch | None:
        """The batch that Spark has ready, once it has one or says that it waits for data."""
        self._start(after)
        until = time.monotonic() + max(limit.seconds, START)
        idle = 0
        while time.monotonic() < until:
            with self.turn:
                if self.given is None:
                    self.turn.wait(LOOK)
                if self.given is not None:
                    frame, number = self.given
                    cursor = {"query": str(self.query.id), "batch": number}
                    return Batch(frame, cursor, read="spark")
            if not self.query.isActive:
                self._raise()
                return None
            idle = idle + 1 if self._waits() else 0
            if idle > 2:  # between two batches it waits for a moment, too
                return None
        return None

    def committed(self, cursor: Cursor) -> None:
        """Lets Spark go on to the next batch."""
        with self.turn:
            self.done = max(self.done, int(cursor["batch"]))
            if self.given is not None and self.given[1] <= self.done:
                self.given = None
            self.turn.notify_all()

    def close(self) -> None:
        """Ends the query; what was not committed comes again."""
        query, self.query = self.query, None
        with self.turn:
            self.closing, self.given = True, None
            self.turn.notify_all()
        if query is not None:
            query.stop()

    def _take(self, frame: Any, number: int) -> None:
        """What Spark calls with a batch: it returns when the batch was committed, here or by a process before."""
        with self.turn:
            if number <= self.done:
                return
            self.given = frame, number
            self.turn.notify_all()
            while number > self.done and not self.closing:
                self.turn.wait(1.0)
            if number > self.done:
                raise _Closed

    def _start(self, after: Cursor) -> None:
        if self.query is not None:
            return
        self.done = -1 if after is None else int(after["batch"])
        self.closing, self.given = False, None
        if after is None and any((self.place / "commits").glob("[0-9]*")):
            shutil.rmtree(self.place)  # of a source of this name that is no more
        if after is not None and not (self.place / "metadata").exists():
            raise FeedLost(
                f"the checkpoint of `{self.declared.name}` is not there: {self.place}",
                hint="put it back; or drop the source and declare it again, which reads everything again",
            )
        writer = self.frame.writeStream.foreachBatch(self._take)
        self.query = writer.option("checkpointLocation", str(self.place)).start()
        if after is not None and str(self.query.id) != after["query"]:
            self.close()
            raise FeedLost(
                f"the checkpoint of `{self.declared.name}` is of another query",
                hint="put back the one that it had; or drop the source and declare it again",
            )

    def _waits(self) -> bool:
        status = self.query.status
        return (
            not status["isDataAvailable"]
            and not status["isTriggerActive"]
            and str(status["message"]).startswith("Waiting for")
        )

    def _raise(self) -> None:
        """Says why the query ended, if it failed."""
        why, self.query = self.query.exception(), None
        if why is not None:
            first = (str(why).splitlines() or [type(why).__name__])[0]
            raise FeedAway(
                f"the query that feeds `{self.declared.name}` ended: {first}",
                hint="it is started again at the batch that it was at",
            )
