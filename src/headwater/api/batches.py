"""Batches of a Structured Streaming query as changes of a source, each applied once.

Spark repeats a batch that it does not know to be done, under the same number. The last number of each query is a fact,
`from:source:query`, set in the commit that has the batch's rows; so a batch that comes again does nothing. With the number
is the id that the query's checkpoint gives it: a query with a new checkpoint counts from 0 again, and rows that it reads
again would be taken for others that are known, or be there twice. That is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from headwater.api.applying import Beside
from headwater.api.handles import Commit
from headwater.api.redefining import Redefining
from headwater.errors import BadChange, UnknownName
from headwater.feeds.feed import FROM

QUERY_ID = "sql.streaming.queryId"
"""What Spark calls the id of the query whose batch a thread works on."""


class Batches(Redefining):
    """The part of a database that takes the batches of streams."""

    def feed(self, source: str, query: str) -> Callable[[DataFrame, int], Commit]:
        """What `foreachBatch` takes: `stream.writeStream.foreachBatch(db.feed("orders", "shop")).start()`.

        Every batch of the query is applied to the source once, whatever is repeated; `query` is a name that stays the
        same as long as the query has its checkpoint.
        """
        known = self.catalog.sources.get(self.catalog.named(source))
        if known is None or known.written:
            told = "is a flow, which stages write" if known is not None else "is no source"
            there = ", ".join(n for n, s in self.catalog.sources.items() if not s.written)
            raise UnknownName(f"`{source}` {told}", hint=f"sources: {there or 'none'}")
        if not isinstance(query, str) or not query:
            raise BadChange(f"{query!r} is no name of a query", hint='db.feed("orders", "shop")')
        name = known.name

        def feed(frame: DataFrame, batch_id: int) -> Commit:
            return self._fed(name, query, frame, batch_id)

        return feed

    def _fed(self, source: str, query: str, frame: DataFrame, batch: int) -> Commit:
        started = time.perf_counter()
        if type(batch) is not int or batch < 0:
            raise BadChange(f"{batch!r} is no number of a batch", hint="foreachBatch gives it")
        checkpoint = _query_id(frame)
        with self._locked():
            writer = self._writing()
            key = f"{FROM}{source}:{query}"
            last = writer.head().facts.get(key)
            if last is not None:
                _check_checkpoint(source, query, last, batch, checkpoint)
                if batch <= last["batch"]:
                    return Commit(last["version"], repeated=True, database=self)

            def facts(version: int) -> Mapping[str, Any]:
                return {key: {"batch": batch, "version": version, "checkpoint": checkpoint}}

            beside = Beside(facts, note={"query": query, "batch": batch})
            return self._brought_in(writer, [(source, frame)], None, False, {}, beside, started)


def _query_id(frame: DataFrame) -> str:
    """The id of the query that a batch is of, which its checkpoint keeps; empty where Spark does not say."""
    try:
        found = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except (
        Exception
    ):  # a session over a connection, or a frame of something else, has no such thing
        return ""
    return str(found or "")


def _check_checkpoint(
    source: str, query: str, last: Mapping[str, Any], batch: int, checkpoint: str
) -> None:
    """Raises where a query counts its batches from 0 again."""
    both = checkpoint and last["checkpoint"]
    new = checkpoint != last["checkpoint"] if both else batch == 0 < last["batch"]
    if new:
        raise BadChange(
            f"the query `{query}` gives `{source}` batch {batch} of a new checkpoint, and batches up to {last['batch']} of another were taken",
            hint="start it with the checkpoint that it had; or, where it reads only rows that are not there, "
            f'give it another name: db.feed("{source}", "{query}_2")',
        )
