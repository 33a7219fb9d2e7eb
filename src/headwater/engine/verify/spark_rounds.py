"""A recursive query computed anew on Spark round by round, where Spark does not take it as a whole.

    X₀ = ∅,  Xᵢ = text(Xᵢ₋₁)      until Xᵢ = Xᵢ₋₁ as bags, or for so many rounds

Every name of the recursive clause is a temporary view, and the text of a name is run over those of the round before. Each
round is checkpointed, so that the plan of a round does not grow with their number. What gives the texts is
`language/sql/recursive_steps.py`; this module asks for nothing but their form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headwater.calculus.types import KeyType
from headwater.errors import NoFixpoint
from headwater.interop.spark_text import column_name, spark_type


class Binding(Protocol):
    """A name of a recursive clause, its columns, and the query of one round of it."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> tuple[tuple[str, KeyType], ...]: ...
    @property
    def text(self) -> str: ...


class Together(Protocol):
    """Bindings that are computed from each other: once, or all at once round after round."""

    @property
    def bindings(self) -> Sequence[Binding]: ...
    @property
    def looped(self) -> bool: ...
    @property
    def times(self) -> int | None: ...
    @property
    def limit(self) -> int: ...


class Steps(Protocol):
    """A recursive query taken apart: what is computed first, in this order, and the query that then reads it."""

    @property
    def parts(self) -> Sequence[Together]: ...
    @property
    def main(self) -> str: ...


def by_rounds(spark: SparkSession, steps: Steps) -> DataFrame:
    """The answer of a recursive query. The temporary views of its names stay, and may hide others."""
    for part in steps.parts:
        for name, frame in _computed(spark, part).items():
            frame.createOrReplaceTempView(name)
    return query(spark, steps.main)


def query(spark: SparkSession, text: str) -> DataFrame:
    """A text as a query. In brackets it can be nothing else: Spark runs a command as soon as it reads it."""
    return spark.sql(f"SELECT * FROM (\n{text.strip().rstrip(';')}\n)")


def _computed(spark: SparkSession, part: Together) -> dict[str, DataFrame]:
    if not part.looped:
        return {b.name: _round(spark, b) for b in part.bindings}
    frames = {b.name: _empty(spark, b) for b in part.bindings}
    for at in range(1, (part.limit if part.times is None else part.times) + 1):
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        made = {b.name: _round(spark, b).localCheckpoint() for b in part.bindings}
        same = all(_equal(frames[n], made[n]) for n in made)
        frames = made
        if same:
            return frames
        if part.times is None and at == part.limit:
            raise NoFixpoint(
                f"computed anew, the loop over {', '.join(made)} still changes at round {at:,}",
                hint="a view over it cannot be there",
            )
    return frames


def _round(spark: SparkSession, b: Binding) -> DataFrame:
    """What a text gives, in the columns of its name."""
    found = query(spark, b.text).toDF(*(n for n, _ in b.columns))
    cells = [sf.col(column_name(n)).cast(spark_type(t)).alias(n) for n, t in b.columns]
    return found.select(*cells)


def _empty(spark: SparkSession, b: Binding) -> DataFrame:
    ddl = ", ".join(f"{column_name(n)} {spark_type(t)}" for n, t in b.columns)
    return spark.createDataFrame([], ddl)


def _equal(one: DataFrame, two: DataFrame) -> bool:
    """Whether two tables are the same bag."""
    return one.exceptAll(two).isEmpty() and two.exceptAll(one).isEmpty()


def names_of(steps: Steps) -> list[str]:
    """The names of a recursive clause."""
    return [b.name for part in steps.parts for b in part.bindings]
