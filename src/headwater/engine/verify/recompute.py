"""A view's query computed anew over its inputs: the baseline, and the check of what is kept.

SQL runs as its author wrote it, on Spark, over temporary views of our own session. A comprehension is evaluated by the
reference interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.calculus.check import type_of
from headwater.calculus.data import from_python, to_python
from headwater.calculus.deep import with_room
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import Term
from headwater.calculus.types import MapType, RecordType
from headwater.engine.spark.session import Session, telling
from headwater.interop.arrow_types import arrow_type


def by_spark(
    session: Session,
    queries: Mapping[str, str],
    inputs: Mapping[str, Callable[[], DataFrame]],
    name: str,
    columns: Mapping[str, list[str]] | None = None,
) -> pa.Table:
    """The answer of a SQL view; `queries` are its own text and those of the views that it reads, in order.

    Where the texts are in other words, `columns` has the names that the columns of the views have all the same.
    """
    spark = session.spark
    made = [*inputs, *queries]
    with telling(f"recomputing `{name}`"):
        try:
            for source, rows in inputs.items():
                rows().createOrReplaceTempView(source)
            for view, text in queries.items():
                # In brackets it can be nothing but a query: Spark runs a command as soon as it reads it.
                query = text.strip().rstrip(";")
                frame = spark.sql(f"SELECT * FROM (\n{query}\n)")
                frame = frame if columns is None else frame.toDF(*columns[view])
                frame.createOrReplaceTempView(view)
            session.counts.jobs += 1
            return spark.table(name).toArrow()
        finally:
            for view in made:
                spark.catalog.dropTempView(view)


@with_room
def by_interpreter(
    term: Term, inputs: Mapping[str, pa.Table], types: Mapping[str, MapType]
) -> pa.Table:
    """The answer of any view, by the definition of the calculus."""
    values = {n: from_python(types[n], t.to_pylist()) for n, t in inputs.items()}
    answer = to_python(_bag_type(term), interpret(term, values))
    row = _bag_type(term).key
    fields = row.fields if isinstance(row, RecordType) else (("value", row),)
    names = [n for n, _ in fields]
    cells = [r if isinstance(r, (dict, tuple)) else (r,) for r in answer]
    cells = [r if isinstance(r, dict) else dict(zip(names, r, strict=True)) for r in cells]
    schema = pa.schema([(n, arrow_type(t)) for n, t in fields])
    return pa.Table.from_pylist(cells, schema=schema)


def _bag_type(term: Term) -> MapType:
    t = type_of(term)
    assert isinstance(t, MapType)
    return t
