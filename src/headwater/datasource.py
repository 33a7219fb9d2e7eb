"""A database as a data source of Spark: views and sources at a version, and what changes of them as a stream.

    spark.dataSource.register(HeadwaterSource)                                       # or hw.register(spark)
    spark.read.format("headwater").option("view", "revenue").option("version", 12).load("shop.db")
    spark.readStream.format("headwater").option("view", "revenue").option("changes", True).load("shop.db")

A table is read by as many tasks as it has slices, ranges of the hash of its keys, each from the files of one version, which is
the newest when the plan is made unless `version` names another. With `changes` the rows are those that came and went after the version
`since`, with `_w` and `_version`, a task a version; a stream has nothing else, and its offsets are versions. Where `since` is left out it
begins with all rows of the newest version. Tasks evaluate without Spark, by Arrow; a view whose answer needs an expression that only
Spark knows is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headwater.api.catalog import as_stored
from headwater.api.database import Database
from headwater.api.following import Follows
from headwater.api.versions import check_since
from headwater.engine import view_rows
from headwater.engine.spark.rounds import batches_of
from headwater.engine.spark.session import plain
from headwater.errors import QueryError
from headwater.plan.analysis import read_from
from headwater.plan.program import WEIGHT, Bind, Filter
from headwater.sinks.sync import VERSION
from headwater.state.run import LEAST, MOST

NAME = "headwater"
SLICE_ROWS, MOST_SLICES = 100_000, 256
OPTIONS = ("path", "database", "view", "version", "changes", "since", "partitions")


def register(spark: SparkSession) -> None:
    """Makes `format("headwater")` known to a session of Spark."""
    spark.dataSource.register(HeadwaterSource)


@dataclass(frozen=True)
class Asked:
    """What the options of a reader say."""

    path: str
    view: str
    version: int | None
    since: int
    partitions: int | None
    changes: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Asked:
        """The options, checked; `load` gives the path of the database, or, beside the option `database`, the view."""
        given = {k.lower(): v for k, v in options.items()}
        for name in given:
            if name not in OPTIONS:
                raise QueryError(
                    f"the option `{name}` means nothing to {NAME}",
                    hint=f"options: {', '.join(OPTIONS)}",
                )
        if "database" in given:
            path, view = given["database"], given.get("view", given.get("path"))
        else:
            path, view = given.get("path", ""), given.get("view")
        if not path or not view:
            raise QueryError(
                f"nothing says which {'view' if path else 'database'} is to be read",
                hint='option("view", ...).load(path), or option("database", path).load(view)',
            )
        numbers: dict[str, int | None] = {}
        for name in ("version", "since", "partitions"):
            text = given.get(name)
            if text is not None and not text.isdecimal():
                raise QueryError(f"the option `{name}` is {text!r}", hint="give a whole number")
            numbers[name] = None if text is None else int(text)
        told = given.get("changes", "false").lower()
        if told not in ("true", "false") or (told == "false" and "since" in given):
            raise QueryError(
                f"the option `changes` is {told!r}",
                hint="true gives what changed, after the version `since`; else all rows are given",
            )
        since, changes = numbers["since"] or 0, told == "true"
        return cls(path, view, numbers["version"], since, numbers["partitions"], changes)

    def opened(self) -> Database:
        """The database, to be read without Spark."""
        db = Database(self.path, None, None, None, None)
        types = db.session._in_spark

        def refused(steps: Sequence[Bind | Filter], table: pa.Table) -> pa.Table:
            if table.num_rows == 0:
                return types(steps, table)
            raise QueryError(
                f"the answer of `{self.view}` has an expression that only Spark evaluates",
                hint="read it with db[view].snapshot() in the process that has the database",
            )

        db.session._in_spark = refused  # type: ignore[method-assign]
        return db


class HeadwaterSource(DataSource):
    """A view or source of a database."""

    @classmethod
    def name(cls) -> str:
        """The word after `format`."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the view; of a stream, those of its changes."""
        asked = Asked.of(self.options)
        return from_arrow_schema(_schema(asked.opened(), asked))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the rows of a version, or what changed."""
        return Reader(Asked.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads what changes."""
        asked = Asked.of(self.options)
        if not asked.changes or asked.version is not None:
            raise QueryError(
                f"a stream of `{asked.view}` is of its changes, and goes on",
                hint='option("changes", True), and no version',
            )
        return Changes(asked)


class Slice(InputPartition):
    """The rows of a version whose hashes are in a range."""

    def __init__(self, version: int, low: int, high: int):
        self.version, self.low, self.high = version, low, high


class Step(InputPartition):
    """What a version changed."""

    def __init__(self, version: int):
        self.version = version


class Reader(DataSourceReader):
    """The rows of a view at a version, or what changed up to it."""

    def __init__(self, asked: Asked):
        self.asked = asked

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks that read it."""
        db, asked = self.asked.opened(), self.asked
        version = db.version if asked.version is None else asked.version
        if asked.changes:
            return _between(db, asked, asked.since, version)
        return _slices(db, asked, version)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return _read(self.asked, partition)


class Changes(DataSourceStreamReader):
    """What changes of a view, by version."""

    def __init__(self, asked: Asked):
        self.asked = asked

    def initialOffset(self) -> dict[str, int]:
        """The version behind which the stream begins."""
        return {"version": self.asked.since}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
        """The newest version that may have changed the view."""
        newest = Follows(self.asked.opened(), self.asked.view).newest()
        return {"version": max(newest, start["version"] if start else 0)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The tasks that read a batch."""
        return _between(self.asked.opened(), self.asked, start["version"], end["version"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return _read(self.asked, partition)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing has to be told to the database."""

    def stop(self) -> None:
        """Nothing is held."""


def _schema(db: Database, asked: Asked) -> pa.Schema:
    snapshot, at = db._at(asked.version)
    view = db._as_view(at, asked.view, snapshot.number)
    if asked.changes and view.parts:
        raise QueryError(
            f"the rows of `{asked.view}` are nested, and streams are of flat ones",
            hint="read its changes with db[view].changes()",
        )
    whole = plain(view_rows.row_schema(view).empty_table()).schema
    if asked.changes:
        return whole.append(pa.field(VERSION, pa.int64()))
    return whole.remove(whole.get_field_index(WEIGHT))


def _between(db: Database, asked: Asked, since: int, last: int) -> list[InputPartition]:
    """A task for each version after one; where that is 0, all rows of the last."""
    if since == 0 and last > 0:
        return _slices(db, asked, last)
    check_since(since, last)
    if last > since:
        db._at(since)  # says that it is gone, before any task does
    return [Step(v) for v in range(since + 1, last + 1)]


def _read(asked: Asked, part: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a slice or step."""
    db = asked.opened()
    schema = _schema(db, asked)
    if isinstance(part, Step):
        table = db.changes_table(asked.view, part.version - 1, part.version)
        yield from batches_of(table, schema)
        return
    assert isinstance(part, Slice)
    for table in _scan(db, asked, part):
        if asked.changes:
            numbers = pa.repeat(pa.scalar(part.version, pa.int64()), table.num_rows)
            yield from batches_of(table.append_column(VERSION, numbers), schema)
        else:
            yield from batches_of(view_rows.repeated(table), schema)


def _slices(db: Database, asked: Asked, version: int) -> list[InputPartition]:
    """The ranges of hashes that a view is cut into, by how many entries it is read from."""
    snapshot, at = db._at(version)
    view = db._as_view(at, asked.view, snapshot.number)
    working = db._reading(snapshot, at)
    maps = view.maps or read_from(at.program, view)[:1]
    rows = sum(r.rows for m in maps for r in working.refs.get(m.name, ()))
    count = asked.partitions or min(MOST_SLICES, max(1, -(-rows // SLICE_ROWS)))
    ends = [LEAST + (MOST - LEAST) * i // count for i in range(count + 1)]
    return [Slice(version, low, high) for low, high in pairwise(ends)]


def _scan(db: Database, asked: Asked, cut: Slice) -> Iterator[pa.Table]:
    snapshot, at = db._at(cut.version)
    view = db._as_view(at, asked.view, cut.version)
    with as_stored(cut.version):
        evaluate = db.session.evaluate
        working = db._reading(snapshot, at)
        yield from view_rows.scan(at.program, view, working, evaluate, cut.low, cut.high)
