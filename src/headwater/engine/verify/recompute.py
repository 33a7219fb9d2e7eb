"""A view's query computed anew over its inputs: the baseline, and the check of what is kept.

SQL runs as its author wrote it, on Spark, over temporary views of our own session; recursion that Spark does not have runs
round by round (`spark_rounds.py`). A comprehension is evaluated by the reference interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.calculus.check import type_of
from headwater.calculus.data import from_python, to_python
from headwater.calculus.deep import with_room
from headwater.calculus.terms import Term
from headwater.calculus.types import MapType, RecordType
from headwater.engine.spark.session import Session, telling
from headwater.engine.verify.indexed import evaluated
from headwater.engine.verify.spark_rounds import Steps, by_rounds, names_of, query
from headwater.interop.arrow_types import arrow_type


def by_spark(
    session: Session,
    queries: Mapping[str, str | Steps],
    inputs: Mapping[str, Callable[[], DataFrame]],
    name: str,
    columns: Mapping[str, list[str]] | None = None,
) -> pa.Table:
    """The answer of a SQL view; `queries` are its own text and those of the views that it reads, in order, or their steps.

    Where the texts are in other words, `columns` has the names that the columns of the views have all the same.
    """
    spark = session.spark
    made = dict[str, DataFrame]()
    with telling(f"recomputing `{name}`"):
        try:
            for source, rows in inputs.items():
                _register(made, source, rows())
            for view, text in queries.items():
                if isinstance(text, str):
                    frame = query(spark, text)
                else:
                    own = names_of(text)
                    hidden = {n: f for n, f in made.items() if n.lower() in map(str.lower, own)}
                    made |= dict.fromkeys(own, spark.range(0))  # names to drop, whatever happens
                    frame = by_rounds(spark, text)
                    for n, f in hidden.items():
                        _register(made, n, f)
                frame = frame if columns is None else frame.toDF(*columns[view])
                _register(made, view, frame)
            session.counts.jobs += 1
            return spark.table(name).toArrow()
        finally:
            for view in made:
                spark.catalog.dropTempView(view)


def _register(made: dict[str, DataFrame], name: str, frame: DataFrame) -> None:
    made[name] = frame
    frame.createOrReplaceTempView(name)


@with_room
def by_interpreter(
    term: Term, inputs: Mapping[str, pa.Table], types: Mapping[str, MapType]
) -> pa.Table:
    """The answer of any view, by the definition of the calculus; rows that meet by an equality are found by an index."""
    values = {n: from_python(types[n], t.to_pylist()) for n, t in inputs.items()}
    answer = to_python(_bag_type(term), evaluated(term, values))
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
