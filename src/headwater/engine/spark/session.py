"""The Spark session of a database: made from the user's, with settings of its own.

`newSession` shares the context and drops runtime settings, so the ones that answers depend on are copied, and
those that make small work quick are set here; the user's session is never changed. What answers depend on is kept
with the database: another session is set to it, or refused where it cannot be.

Without a session that is given or active, a local one is started when something is first asked of it: views are read,
and small changes carried through, without one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headwater.engine.here import arrow
from headwater.engine.here.statements import one_in_arrow
from headwater.errors import EngineError, SettingsDiffer
from headwater.interop.arrow_types import arrow_type, with_small_offsets
from headwater.interop.spark_text import column_name
from headwater.plan.program import Bind, Filter

TIME_ZONE, ANSI, CASE = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
)
READ_AS_WE_DO = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
}
"""Text means the same to Spark and to us, and names no file."""
LOCAL_ZONE = "UTC"
"""The time zone of a session that is started here."""
ROW = "_row"


@dataclass
class Counts:
    """What an increment cost on Spark."""

    jobs: int = 0
    exchanges: int = 0
    hops: int = 0


class Session:
    """Spark for one database: the user's session, and our own beside it."""

    def __init__(
        self, user: SparkSession | None, partitions: int | None = None, carries: bool = True
    ):
        """Without `carries` no row of a change goes to Spark, not even for an expression."""
        self.carries = carries
        self._given = _classic(user) if user is not None else current_session()
        self._partitions = partitions
        self._kept: dict[str, str] | None = None
        self.counts = Counts()
        if self._given is not None:
            self._refuse(self._given)

    @cached_property
    def user(self) -> SparkSession:
        """The user's session, the active one, or a local one that is started when it is first needed."""
        if self._given is None:
            self._given = local_session()
            self._refuse(self._given)
            if self._kept is not None:
                self.adopt(self._kept)
        with telling("telling its settings"):
            match_python(self._given)
        return self._given

    @cached_property
    def spark(self) -> SparkSession:
        """Our own session beside the user's."""
        with telling("making a session"):
            self._refuse(self.user)
            made = self.user.newSession()
        for name, value in {
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": str(self.partitions),
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
            "spark.sql.execution.pythonUDF.arrow.enabled": "true",
            ANSI: "true",
            CASE: "false",
            "spark.sql.cteRecursionRowLimit": "-1",  # what recursion gives is compared as a whole
            **READ_AS_WE_DO,
            TIME_ZONE: self._kept["time_zone"] if self._kept else self._setting(TIME_ZONE),
        }.items():
            made.conf.set(name, value)
        return made

    @property
    def cores(self) -> int:
        """How many tasks Spark runs at once."""
        with telling("telling how many cores it has"):
            return max(1, int(self.user.sparkContext.defaultParallelism))

    def known_cores(self) -> int | None:
        """The same, if there is a session already: asking for it starts none."""
        return None if self._given is None else self.cores

    @property
    def partitions(self) -> int:
        """How many tasks merge."""
        return self._partitions or self.cores

    @property
    def zone(self) -> str:
        """The time zone that the database was made with."""
        return (self._kept or self.settings())["time_zone"]

    @property
    def same_zone(self) -> bool:
        """Whether the user's session has the time zone that the database was made with."""
        return self._kept is None or self._kept["time_zone"] == self._setting(TIME_ZONE)

    def _setting(self, name: str) -> str:
        with telling("telling its settings"):
            return str(self.user.conf.get(name))

    def _refuse(self, user: SparkSession) -> None:
        if str(user.conf.get(ANSI)).lower() != "true":
            raise SettingsDiffer(
                "the Spark session is not in ANSI mode, and answers would differ from its own",
                hint=f"set {ANSI} to true",
            )
        if str(user.conf.get(CASE)).lower() == "true":
            raise SettingsDiffer(
                "the Spark session tells upper from lower case in names, and Headwater does not",
                hint=f"set {CASE} to false",
            )

    @property
    def _version(self) -> str:
        """Spark's version: of the session that is there, or of the local one that would be started."""
        return str(self._given.version if self._given is not None else pyspark.__version__)

    def settings(self) -> dict[str, str]:
        """What answers depend on: as it was taken over, else as it is in the user's session or will be in the local one."""
        if self._kept is not None:
            return self._kept
        return {
            "time_zone": LOCAL_ZONE if self._given is None else self._setting(TIME_ZONE),
            "ansi": "true",
            "spark": _minor(self._version),
        }

    def adopt(self, kept: dict[str, str]) -> dict[str, str]:
        """Takes over what a database was created with, and gives what was taken over before."""
        before, self._kept = self._kept or kept, kept
        if "spark" in self.__dict__:
            self.spark.conf.set(TIME_ZONE, kept["time_zone"])
        return before

    def settings_now(self) -> dict[str, str]:
        """What was taken over, but with the Spark that is there."""
        return {**self.settings(), "spark": _minor(self._version)}

    @property
    def is_other(self) -> bool:
        """Whether this is another version of Spark than the database was made with."""
        return self._kept is not None and self._kept["spark"] != _minor(self._version)

    def refuse_other(self, doing: str) -> None:
        """`SettingsDiffer` if this is another version of Spark: its expressions may give other answers."""
        if self.is_other:
            assert self._kept is not None
            raise SettingsDiffer(
                f"the database was made with Spark {self._kept['spark']}, this is {self._version}, and {doing} needs the same",
                hint="what is stored can be read; open it with that version, or call upgrade() to compute all views with this one",
            )

    # --- scalars over tables in this process ---------------------------------------------------------------------

    def evaluate(self, steps: Sequence[Bind | Filter], table: pa.Table) -> pa.Table:
        """Binds and filters over a local table: in Arrow as far as it means the same, then in Spark."""
        for i, s in enumerate(steps):
            scalar = s.scalar if isinstance(s, Bind) else s.condition
            try:
                if scalar.tree is None:
                    raise arrow.ArrowCannot
                table = one_in_arrow(s, table, self.zone)
            except arrow.ArrowCannot:
                return self._in_spark(steps[i:], table)
        return table

    def _in_spark(self, steps: Sequence[Bind | Filter], table: pa.Table) -> pa.Table:
        binds = [s for s in steps if isinstance(s, Bind)]
        if table.num_rows == 0:
            for s in binds:
                table = table.append_column(s.name, pa.array([], arrow_type(s.scalar.type)))
            return table
        self.refuse_other("evaluating an expression that only Spark has")
        if not self.carries:
            first = next(s for s in steps)
            scalar = first.scalar if isinstance(first, Bind) else first.condition
            raise EngineError(
                f"only Spark can evaluate `{scalar.sql}`, and execution='here' keeps rows in this process",
                hint="give execution='auto', or write the expression with other functions\nthe database is as it was before",
            )
        read = {n for s in steps for n in (s.scalar if isinstance(s, Bind) else s.condition).reads}
        given = [n for n in table.column_names if n in read]
        numbered = table.select(given).append_column(ROW, pa.array(np.arange(table.num_rows)))
        with telling("evaluating the expressions of a query"):
            frame = self.frame(numbered)
            frame = in_sql(frame, steps)
            found = frame.select(ROW, *(column_name(s.name) for s in binds)).toArrow()
            self.counts.jobs += 1
        table = table.take(found.column(ROW))
        for s in binds:
            values = found.column(s.name).cast(arrow_type(s.scalar.type))
            table = table.append_column(s.name, values)
        return table

    def frame(self, table: pa.Table) -> DataFrame:
        """A local table as a DataFrame of our session."""
        return local_frame(self.spark, table)

    def register(self, name: str, function: Callable[..., Any], returns: str) -> None:
        """Makes a Python function known to our session."""
        with telling(f"registering the function `{name}`"):
            self.spark.udf.register(name, function, returns)


def in_sql(frame: DataFrame, steps: Sequence[Bind | Filter]) -> DataFrame:
    """Binds and filters as Spark SQL; binds that do not read each other are one projection."""
    pending: dict[str, str] = {}
    for s in [*steps, None]:
        reads = () if s is None else s.scalar.reads if isinstance(s, Bind) else s.condition.reads
        ends = not isinstance(s, Bind) or s.name in pending or not pending.keys().isdisjoint(reads)
        if ends and pending:
            frame = frame.selectExpr("*", *(f"{e} AS {column_name(n)}" for n, e in pending.items()))
            pending = {}
        if isinstance(s, Filter):
            frame = frame.where(s.condition.sql)
        elif s is not None:
            pending[s.name] = s.scalar.sql
    return frame


def plain(table: pa.Table) -> pa.Table:
    """A table with the types that Spark reads, in one piece: after two empty ones Spark reads no more."""
    schema = pa.schema([(f.name, with_small_offsets(f.type)) for f in table.schema])
    if table.num_rows == 0:  # of a column without any piece Spark does not know the type
        return pa.table([pa.array([], f.type) for f in schema], schema=schema)
    return (table if schema == table.schema else table.cast(schema)).combine_chunks()


def local_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """A local table as a DataFrame of a session; the active session stays what it was."""
    before = SparkSession.getActiveSession()
    given = plain(table)
    try:
        if any(pa.types.is_timestamp(f.type) and f.type.tz is None for f in given.schema):
            # By itself Spark takes a time without a zone for an instant.
            schema = from_arrow_schema(given.schema, prefer_timestamp_ntz=True)
            return session.createDataFrame(given, schema)
        return session.createDataFrame(given)
    finally:  # `createDataFrame` makes its session the active one, and nothing public takes that back
        if before is not None and before is not session:
            SparkSession._activeSession = before
            java = SparkSession._get_j_spark_session_class(before._jvm)
            java.setActiveSession(before._jsparkSession)


LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Where PySpark writes the errors of queries, each as JSON with its whole trace."""


_quiet: dict[int, int] = {}
"""The threads that ask Spark for us just now, and how deep."""


def _is_of_others(_: logging.LogRecord) -> bool:
    return threading.get_ident() not in _quiet


# Once and for all: whoever adds a filter takes the lock of `logging`, and an interrupt at that moment would leave it locked.
for _name in LOGS:
    PySparkLogger.getLogger(_name).addFilter(_is_of_others)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """What this thread asks of Spark is not logged: its errors are raised, or are answers."""
    thread = threading.get_ident()
    depth = _quiet.get(thread, 0)
    try:
        _quiet[thread] = depth + 1
        yield
    finally:
        if depth:
            _quiet[thread] = depth
        else:
            _quiet.pop(thread, None)


@contextlib.contextmanager
def telling(what: str) -> Iterator[None]:
    """Spark's errors with our sentence on top, and without PySpark's own report of them."""
    try:
        with _unlogged():
            yield
    except (PySparkException, Py4JError, ConnectionError, AttributeError) as e:
        if not _is_of_spark(e):
            raise
        if not _alive():  # a session that was stopped answers with any of these
            raise EngineError(
                f"Spark failed while {what}: the session was stopped, or its Java process ended",
                hint="start a session and open the database again; it is as it was before",
            ) from e
        if isinstance(e, AttributeError):
            raise
        raise EngineError(
            f"Spark failed while {what}",
            hint=f"{cause_of(str(e))}\nthe database is as it was before",
        ) from e


def _is_of_spark(e: BaseException) -> bool:
    """Whether an error comes out of PySpark: Python's own errors may be those of anybody."""
    modules = (
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(e.__traceback__)
    )
    found = any(m.partition(".")[0] in ("pyspark", "py4j") for m in modules)
    return found or isinstance(e, (PySparkException, Py4JError))


def _alive() -> bool:
    """Whether there is a Spark context that works."""
    try:
        context = SparkContext._active_spark_context
        return context is not None and not context._jsc.sc().isStopped()
    except Exception:
        return False


def cause_of(text: str) -> str:
    """What went wrong, from the text of an error of Spark: the user's own message where there is one."""
    _, python, trace = text.rpartition("Traceback (most recent call last):\n")
    if python:
        message = dropwhile(lambda x: x.startswith(" "), trace.splitlines())
        return "\n".join(takewhile(lambda x: x and not x.startswith("\tat "), message))
    if "Python worker exited unexpectedly" in text:
        return (
            "a Python process of Spark ended: it was killed, perhaps for want of memory, or crashed"
        )
    lines = [x.strip().removeprefix("Caused by: ") for x in text.splitlines() if x.strip()]
    named = next((x for x in lines if x.startswith("[")), None)
    deepest = [x for x in text.splitlines() if x.startswith("Caused by: ")]
    return named or (deepest[-1].removeprefix("Caused by: ") if deepest else lines[0])


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _classic(user: Any) -> SparkSession:
    """The session that was given, if it is one in which tasks can be run."""
    if isinstance(user, SparkSession) and not _is_remote(user):
        return user
    if _is_remote(user):
        raise SettingsDiffer(
            "this is a session of Spark Connect, whose tasks cannot reach the database",
            hint="open it where the driver runs: SparkSession.builder.master('local[*]').getOrCreate()",
        )
    raise SettingsDiffer(
        f"spark= is of type {type(user).__name__}, and no Spark session",
        hint="give SparkSession.builder.master('local[2]').getOrCreate(), or leave it out",
    )


def _is_remote(user: Any) -> bool:
    return type(user).__module__.startswith("pyspark.sql.connect")


def current_session() -> SparkSession | None:
    """The active session of this thread, else the one that this process began with."""
    try:
        return _classic(SparkSession.active())
    except PySparkRuntimeError:
        return None


def match_python(spark: SparkSession) -> None:
    """On this machine tasks run the Python of this process, unless another was named for them.

    Without a name Spark takes the first `python3` that it finds, which may lack our modules.
    """
    context = spark.sparkContext
    named = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if not named and str(context.master).startswith("local"):
        context.pythonExec = sys.executable


def say_starting() -> None:
    """A line on the terminal, if there is one, before Java starts: that takes seconds."""
    if sys.stderr is not None and sys.stderr.isatty():
        print("Spark is starting, which takes some seconds", file=sys.stderr, flush=True)


def _check_java() -> None:
    """Raises where Spark could not start, with what to do; what is not asked of Spark works all the same."""
    home = os.environ.get("JAVA_HOME")
    if (shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")) is None:
        raise EngineError(
            "this is left to Spark, which needs Java 17 or newer, and there is no Java here",
            hint="install Java and put it on the PATH or name it in JAVA_HOME; the database is as it was before",
        )


def _heap() -> int:
    """Gigabytes for the Java process of a local session: a quarter of the machine's, from 1, which is Spark's default, to 4.

    There all tasks share one process, and a load and the join that verifies it do not always fit into 1.
    """
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # a machine that does not say
        return 1
    return max(1, min(4, there >> 32))


def local_session() -> SparkSession:
    """The session of this process, or a local one on all cores."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    current = current_session()
    if current is not None:  # `getOrCreate` would change its settings
        return current
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("headwater")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config(TIME_ZONE, LOCAL_ZONE)
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", f"{_heap()}g")
    )
    _check_java()
    say_starting()
    with telling("starting, for which it needs Java 17 or newer"):
        made: SparkSession = builder.getOrCreate()
    return made


def quiet_session(log: Path) -> SparkSession:
    """The same, where the messages of the Java process go to a file and not to the terminal."""
    if current_session() is not None:
        return local_session()
    _check_java()
    say_starting()
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("ab") as f:
        os.dup2(f.fileno(), 2)  # the Java process inherits it
    try:
        return local_session()
    except BaseException:
        os.write(terminal, log.read_bytes())
        raise
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
