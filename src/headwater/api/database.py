"""A database: declared sources and views in a directory, changes applied to them, answers read from them.

`Database` is made in layers, each of which knows those before it: reading (`versions`), committing (`writing`),
applying changes (`applying`), declaring sources and views (`declaring`), carrying out statements (`executing`), and here
what is in it, by name.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headwater.api.asking import Asking
from headwater.api.defining import Defining
from headwater.api.handles import Source, ViewHandle
from headwater.api.observing import Totals
from headwater.api.sinking import SinkHandle
from headwater.api.stages import FlowHandle, StageHandle
from headwater.api.streams import StreamHandle
from headwater.api.taking import Looks
from headwater.api.writing import asked_to_keep
from headwater.engine.policy import Execution, Policy, asked_execution
from headwater.engine.spark.session import Session


def open_database(
    path: str | Path,
    spark: SparkSession | None = None,
    partitions: int | None = None,
    keep_versions: int | None = None,
    keep_minutes: float | None = None,
    execution: Execution = "auto",
) -> Database:
    """Creates a database in a directory, or opens the one that is there.

    `spark` is the session to use, else the active one or a local one; `partitions` how many tasks merge;
    `keep_versions` (100 unless given) and `keep_minutes` how much of the past of a new database stays readable:
    it is a fact of the database from then on, which `Database.keep` changes. `execution` says where changes are carried
    through the views: by this process or by Spark, whatever is faster for their size (`auto`); by Spark alone (`spark`); or by this
    process alone (`here`), where an expression that only Spark evaluates is refused. All give the same answers.
    """
    return Database(path, spark, partitions, keep_versions, keep_minutes, execution)


class Database(Defining):
    """Sources and views in a directory; made by `headwater.open`.

    Threads may share a handle: reads go on beside each other, and writes wait for one another. A process that was
    forked opens the database again.
    """

    def __init__(
        self,
        path: str | Path,
        spark: SparkSession | None,
        partitions: int | None,
        keep_versions: int | None,
        keep_minutes: float | None,
        execution: Execution = "auto",
    ):
        self.policy = Policy(execution=asked_execution(execution))
        session = Session(spark, partitions, carries=execution != "here")
        self.ask = Asking(session)
        self._bound, self._failures, self._seen_ready = {}, {}, []
        self._folds = {}
        self._totals = Totals()
        self._sinks, self._sinks_held, self._sinks_lock = {}, {}, threading.RLock()
        self._opened, self._batches = {}, Looks()
        self._regions, self._promises_known = {}, []
        asked = {"versions": keep_versions, "minutes": keep_minutes}
        super().__init__(path, session, asked_to_keep(asked))

    @property
    def spark(self) -> SparkSession:
        """The session that DataFrames of this database belong to."""
        return self.session.user

    @property
    def sources(self) -> list[str]:
        """The names of the sources."""
        return [n for n, s in self.catalog.sources.items() if not s.written]

    @property
    def views(self) -> list[str]:
        """The names of the views."""
        return list(self.catalog.views)

    @property
    def stages(self) -> list[str]:
        """The names of the stages."""
        return list(self.graph.stages)

    @property
    def streams(self) -> list[str]:
        """The names of the streams."""
        return list(self.stream_defs)

    @property
    def flows(self) -> list[str]:
        """The names of the flows that stages write."""
        return list(self.graph.flows)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.catalog.named(name) in [*self]

    def __iter__(self) -> Iterator[str]:
        """The names of sources, flows, views, stages, streams and sinks."""
        names = [
            *(*self.catalog.sources, *self.catalog.views),
            *(*self.graph.stages, *self.stream_defs, *self.sink_defs),
        ]
        return iter(dict.fromkeys(names))

    def __len__(self) -> int:
        return sum(1 for _ in self)  # list() would ask for the length

    def __bool__(self) -> bool:
        return True  # a database without sources is one too

    def __getitem__(self, name: str) -> Any:
        """The handle of a view, a source, a stage, a flow, a stream or a sink."""
        name = self.catalog.named(name)
        if name in self.stream_defs:
            return StreamHandle(self, name)
        if name in self.graph.stages:
            return StageHandle(self, name)
        if name in self.graph.flows:
            return FlowHandle(self, name)
        if name in self.sink_defs:
            return SinkHandle(self, name)
        if name in self.catalog.views:
            return ViewHandle(self, name)
        if name in self.catalog.sources:
            return Source(self, name)
        raise self._unknown(name)
