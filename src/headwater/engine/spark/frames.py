"""Views as DataFrames that read the state when they are evaluated, each task a range of hashes.

Rows of an answer are told by Spark from what they are answered from; those of a ledger are there as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headwater.engine.here import answers
from headwater.engine.here.answers import answer_steps, signed
from headwater.engine.here.statements import in_arrow
from headwater.engine.ledgers import ledger_map, scan_ledger
from headwater.engine.rings import spec_of
from headwater.engine.slices import ranges
from headwater.engine.spark.rounds import (
    Cluster,
    batches_of,
    given,
    numbers_of,
    slim_stratum,
    slim_view,
)
from headwater.engine.spark.session import in_sql, plain
from headwater.engine.view_rows import repeated, row_schema, scan, scan_components
from headwater.interop.spark_text import column_name
from headwater.plan.program import Answered, Map, Program, Stratum, View
from headwater.state.arrangement import WHOLE, Share
from headwater.state.run import LEAST, MOST


class Frames:
    """The views of a version as DataFrames."""

    def __init__(self, cluster: Cluster):
        self.cluster, self.session, self.working = cluster, cluster.session, cluster.working

    def frame(self, program: Program, view: View, ours: bool = False) -> DataFrame:
        """All rows of a view as a DataFrame that reads the state when it is evaluated."""
        mine = ours or not self.session.same_zone
        spark = self.session.spark if mine else self.session.user
        task = self.cluster.task()
        if not isinstance(view.rows, Answered):
            known_view = slim_view(view)
            shares = self._ranges(view.maps[0])
            shape = plain(row_schema(view).empty_table()).schema
            schema = shape.remove(len(shape) - 1)

            def scanning(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                working = task.working()
                for low, high, share in given(batches, shares):
                    for table in scan(Program(), known_view, working, in_arrow, low, high, share):
                        yield from batches_of(repeated(table), schema)

            return numbers_of(spark, shares).mapInArrow(scanning, from_arrow_schema(schema))
        live = self._live(spark, view, program.strata[view.rows.stratum])
        name = ledger_map(view).name
        return live if name not in self.working.refs else live.union(self._ledger(spark, view))

    def _live(self, spark: SparkSession, view: View, stratum: Stratum) -> DataFrame:
        """The rows that are answered from groups, but for those that are in the ledger."""
        task, known, hidden = (
            self.cluster.task(),
            slim_stratum(stratum),
            self.working.hidden.get(view.name),
        )
        schema = plain(signed(stratum, [])).schema
        read = stratum.ranked.map if stratum.ranked else stratum.answers or stratum.group
        groups = sorted({(low, high) for low, high, _ in self._ranges(read)})  # a group is whole

        def answering(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            working = task.working()
            for low, high in given(batches, groups):
                for table in scan_components(known, working, low, high, hidden):
                    yield from batches_of(table, schema)

        numbers = numbers_of(spark, groups)
        if self.session.is_other:
            return self._answered_in_arrow(numbers, view, stratum, groups)
        found = in_sql(
            numbers.mapInArrow(answering, from_arrow_schema(schema)), answer_steps(stratum)
        )
        cells = [f"{column_name('row.' + n)} AS {column_name(n)}" for n, _ in stratum.row]
        if stratum.weight is None:
            return found.selectExpr(*cells)
        repeat = "explode(sequence(1, CAST(`row` AS INT))) AS _times"
        return found.where("`row` > 0").selectExpr(*cells, repeat).drop("_times")

    def _ledger(self, spark: SparkSession, view: View) -> DataFrame:
        """The final rows of a view."""
        made = ledger_map(view)
        self.working.know(spec_of(made))
        task, shares = self.cluster.task(), self._ranges(made)
        shape = plain(row_schema(view).empty_table()).schema
        schema = shape.remove(len(shape) - 1)

        def scanning(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            working = task.working()
            for low, high, share in given(batches, shares):
                for table in scan_ledger(view, working, low, high, share):
                    yield from batches_of(repeated(table), schema)

        return numbers_of(spark, shares).mapInArrow(scanning, from_arrow_schema(schema))

    def _answered_in_arrow(
        self,
        numbers: DataFrame,
        view: View,
        stratum: Stratum,
        groups: Sequence[tuple[int, int]],
    ) -> DataFrame:
        """The rows of a view without any expression of Spark, which is another than the database was made with."""
        if not self.cluster.quick(answer_steps(stratum)):
            self.session.refuse_other(f"answering `{view.name}`")
        task, known, hidden = (
            self.cluster.task(),
            slim_stratum(stratum),
            self.working.hidden.get(view.name),
        )
        shape = plain(row_schema(view).empty_table()).schema
        schema = shape.remove(len(shape) - 1)

        def answering(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            working = task.working()
            for low, high in given(batches, groups):
                for table in scan_components(known, working, low, high, hidden):
                    yield from batches_of(repeated(answers.rows(known, table, in_arrow)), schema)

        return numbers.mapInArrow(answering, from_arrow_schema(schema))

    def _ranges(self, m: Map) -> list[tuple[int, int, Share]]:
        """A map in ranges for all cores, of about as many entries each."""
        at = self.working.now(m.name)
        rows = sum(r.rows for r in at.refs)
        found = ranges(at, max(1, -(-rows // (4 * self.session.cores))))
        return found or [(LEAST, MOST, WHOLE)]
