"""The Spark session of a database: made from the user's, with settings of its own.

`newSession` shares the context and drops runtime settings, so the ones that answers depend on are copied, and
those that make small work quick are set here; the user's session is never changed. What answers depend on is kept
with the database: another session is set to it, or refused where it cannot be.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.compiler.program import Bind, Filter
from headwater.engine import vector
from headwater.engine.rows import one_in_arrow
from headwater.engine.types import arrow_type
from headwater.errors import EngineError, SettingsDiffer

TIME_ZONE, ANSI, CASE = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
)
ROW = "_row"


@dataclass
class Counts:
    """What an increment cost on Spark."""

    jobs: int = 0
    exchanges: int = 0
    hops: int = 0


class Session:
    """Spark for one database: the user's session, and our own beside it."""

    def __init__(self, user: SparkSession | None, partitions: int | None = None):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        self.user = user or local_session()
        self._refuse()
        self.spark = self.user.newSession()
        self.cores = max(1, self.user.sparkContext.defaultParallelism)
        self.partitions = partitions or self.cores
        self.counts = Counts()
        self.same_zone = True
        for name, value in {
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": str(self.partitions),
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
            "spark.sql.execution.pythonUDF.arrow.enabled": "true",
            ANSI: "true",
            TIME_ZONE: self._setting(TIME_ZONE),
        }.items():
            self.spark.conf.set(name, value)

    def _setting(self, name: str) -> str:
        return str(self.user.conf.get(name))

    def _refuse(self) -> None:
        if self._setting(ANSI) != "true":
            raise SettingsDiffer(
                "the Spark session is not in ANSI mode, and answers would differ from its own",
                hint=f"set {ANSI} to true",
            )
        if self._setting(CASE) == "true":
            raise SettingsDiffer(
                "the Spark session tells upper from lower case in names, and Headwater does not",
                hint=f"set {CASE} to false",
            )

    def settings(self) -> dict[str, str]:
        """What answers depend on, as it is in the user's session."""
        return {
            "time_zone": self._setting(TIME_ZONE),
            "ansi": "true",
            "spark": ".".join(self.user.version.split(".")[:2]),
        }

    def adopt(self, kept: dict[str, str]) -> None:
        """Takes over what a database was created with; `SettingsDiffer` where that cannot be done."""
        if kept["spark"] != self.settings()["spark"]:
            raise SettingsDiffer(
                f"the database was made with Spark {kept['spark']}, and this is {self.user.version}",
                hint="open it with that version, or create a new one and apply the sources again",
            )
        self.spark.conf.set(TIME_ZONE, kept["time_zone"])
        self.same_zone = kept["time_zone"] == self._setting(TIME_ZONE)

    # --- scalars over tables in this process ---------------------------------------------------------------------

    def evaluate(self, steps: Sequence[Bind | Filter], table: pa.Table) -> pa.Table:
        """Binds and filters over a local table: in Arrow as far as it means the same, then in Spark."""
        for i, s in enumerate(steps):
            scalar = s.scalar if isinstance(s, Bind) else s.condition
            try:
                if scalar.tree is None:
                    raise vector.ArrowCannot
                table = one_in_arrow(s, table)
            except vector.ArrowCannot:
                return self._in_spark(steps[i:], table)
        return table

    def _in_spark(self, steps: Sequence[Bind | Filter], table: pa.Table) -> pa.Table:
        binds = [s for s in steps if isinstance(s, Bind)]
        if table.num_rows == 0:
            for s in binds:
                table = table.append_column(s.name, pa.array([], arrow_type(s.scalar.type)))
            return table
        read = {n for s in steps for n in (s.scalar if isinstance(s, Bind) else s.condition).reads}
        given = [n for n in table.column_names if n in read]
        numbered = table.select(given).append_column(ROW, pa.array(np.arange(table.num_rows)))
        with telling("evaluating the expressions of a query"):
            frame = self.frame(numbered)
            frame = in_sql(frame, steps)
            found = frame.select(ROW, *(quoted(s.name) for s in binds)).toArrow()
            self.counts.jobs += 1
        table = table.take(found.column(ROW))
        for s in binds:
            values = found.column(s.name).cast(arrow_type(s.scalar.type))
            table = table.append_column(s.name, values)
        return table

    def frame(self, table: pa.Table) -> DataFrame:
        """A local table as a DataFrame of our session."""
        return self.spark.createDataFrame(plain(table))

    def register(self, name: str, function: Callable[..., Any], returns: str) -> None:
        """Makes a Python function known to our session."""
        self.spark.udf.register(name, function, returns)


def in_sql(frame: DataFrame, steps: Sequence[Bind | Filter]) -> DataFrame:
    """Binds and filters as Spark SQL."""
    for s in steps:
        if isinstance(s, Filter):
            frame = frame.where(s.condition.sql)
        else:
            frame = frame.selectExpr("*", f"{s.scalar.sql} AS {quoted(s.name)}")
    return frame


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def plain(table: pa.Table) -> pa.Table:
    """A table with the types that Spark reads."""
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    schema = pa.schema([(f.name, small.get(f.type, f.type)) for f in table.schema])
    return table if schema == table.schema else table.cast(schema)


@contextlib.contextmanager
def telling(what: str) -> Iterator[None]:
    """Spark's errors with our sentence on top."""
    try:
        yield
    except PySparkException as e:
        lines = [x.strip() for x in str(e).splitlines() if x.strip()]
        cause = next((x for x in lines if x.startswith("[")), lines[0] if lines else "")
        raise EngineError(f"Spark failed while {what}", hint=cause) from e
    except Exception as e:
        if type(e).__module__.startswith("py4j") or isinstance(e, ConnectionError):
            raise EngineError(
                f"Spark failed while {what}: the session is gone or its Java process stopped",
                hint="start a session and open the database again; nothing was committed",
            ) from e
        raise


def local_session() -> SparkSession:
    """The active session, or a local one on all cores."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    made: SparkSession = (
        SparkSession.builder.master("local[*]")
        .appName("headwater")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    return made
