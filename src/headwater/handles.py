"""What a database gives out: its sources and views to read, and what an increment did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from headwater.database import Database


@dataclass(frozen=True)
class Commit:
    """What `apply` did: the version it made, the rows it was given, and what it cost.

    `jobs`, `exchanges` and `hops` are Spark's jobs, shuffles and Python hops; `where` is `driver` or `spark`. With an
    `id` that was applied before nothing is done, and `repeated` says so.
    """

    version: int
    rows: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    bytes: int = 0
    jobs: int = 0
    exchanges: int = 0
    hops: int = 0
    where: str = "driver"
    id: str | None = None
    repeated: bool = False
    database: Any = field(default=None, repr=False, compare=False)

    @property
    def changed(self) -> dict[str, int]:
        """How many rows of each view came or went; computed when asked for."""
        db = self.database
        return {v: db.changes_table(v, self.version - 1, self.version).num_rows for v in db.views}


class Source:
    """A declared source."""

    def __init__(self, database: Database, name: str):
        self.database, self.name = database, name

    def snapshot(self, version: int | None = None) -> DataFrame:
        """The rows that it has, now or at a version."""
        return self.database.frame(self.name, version)

    def __repr__(self) -> str:
        return f"Source({self.name}: {self.database.catalog.sources[self.name].ddl})"


class ViewHandle:
    """A declared view."""

    def __init__(self, database: Database, name: str):
        self.database, self.name = database, name

    def snapshot(self, version: int | None = None) -> DataFrame:
        """The answer, now or at a version; rows repeat as the query's answer would."""
        return self.database.frame(self.name, version)

    def changes(
        self, since: int = 0, until: int | None = None, format: str = "weights"
    ) -> DataFrame:
        """The rows that changed after a version: with `_w` and `_version`, or in the form `cdc`."""
        return self.database.changes_frame(self.name, since, until, format)

    def explain(self) -> str:
        """How the view is kept: its strata, maps, statements and what was decided."""
        return self.database.explain(self.name)

    def verify(self) -> None:
        """Recomputes the view from the retained inputs and compares."""
        self.database.verify(self.name)

    def __repr__(self) -> str:
        return f"View({self.name}: {self.database.catalog.views[self.name].ddl})"


def as_cdc(frame: DataFrame, columns: list[str], commits: DataFrame) -> DataFrame:
    """Weighted changes in the form that Spark and Delta users know."""
    w = F.col("_w")
    kind = F.when(w > 0, F.lit("insert")).otherwise(F.lit("delete"))
    repeated = frame.withColumn("_n", F.explode(F.sequence(F.lit(1), F.abs(w).cast("int"))))
    named = repeated.withColumn("_change_type", kind).withColumnRenamed(
        "_version", "_commit_version"
    )
    return named.join(commits, "_commit_version").select(
        *(F.col(f"`{c}`") for c in columns), "_change_type", "_commit_version", "_commit_timestamp"
    )
