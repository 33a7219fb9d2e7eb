"""TPC-H as views of one database: half of the data, then six increments that insert and delete, exact after each.

Every answer is compared with Spark's, which recomputes: exactly, doubles to nine digits, types too. And with DuckDB's,
whose averages and quotients of decimals are doubles: those to six digits. A few queries at a tiny scale run in
`make test`, all 22 in `make test-all`. A view that is refused fails its own test and no other's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

import headwater as hw
from headwater.engine.verify.compare import differences
from headwater.errors import HeadwaterError
from spark_session import session
from tpch.data import QUERIES, Tables, declare, generated, half_way, query

pytestmark = pytest.mark.spark
QUICK = ("q01", "q09", "q10", "q13", "q16", "q22")
CLOSE = 1e-6
"""How near DuckDB's doubles are to Spark's decimals, which have six digits after the point."""

Answers = dict[str, list[pa.Table]]
"""The answers of a query, version by version."""


@dataclass
class Run:
    """What Headwater, Spark and DuckDB answered, and which views were refused."""

    scale: float
    names: Sequence[str]
    ours: Answers = field(default_factory=dict)
    spark: Answers = field(default_factory=dict)
    duck: Answers = field(default_factory=dict)
    refused: dict[str, HeadwaterError] = field(default_factory=dict)
    failed: Exception | None = None


def run(scale: float, names: Sequence[str], folder: Path) -> Run:
    """All versions of all queries. Where an increment fails, the others still go on answering."""
    made = Run(scale, names)
    stream = half_way(generated(scale, folder))
    with hw.open(folder / "db", spark=session()) as db:
        declare(db, stream.full)
        for name in names:
            try:
                db.view(name, query(name, scale))
            except HeadwaterError as e:
                made.refused[name] = e
        turns = (
            {n: hw.Delta(inserts=i, deletes=d) for n, (i, d) in change.items()}
            for change in stream.changes()
        )
        load: Iterable[Mapping[str, Any]] = [stream.load]
        for version, change in enumerate(chain(load, turns)):
            if made.failed is None:
                try:
                    db.apply(change)
                    for name in db.views:
                        made.ours.setdefault(name, []).append(repeated(db.table(name)))
                except HeadwaterError as e:
                    made.failed = e
            tables = stream.tables
            for name, answer in by_duckdb(made, tables):
                made.duck.setdefault(name, []).append(answer)
            with in_files(tables, folder / f"version-{version}") as spark:
                for name in names:
                    answer = spark.sql(query(name, scale)).toArrow()
                    made.spark.setdefault(name, []).append(answer)
    return made


def repeated(table: pa.Table) -> pa.Table:
    """The rows of a view, each as often as it is there."""
    weights = np.asarray(table.column("_w"))
    assert (weights > 0).all(), table.filter(pa.array(weights <= 0)).to_pylist()
    rows = table.drop_columns(["_w"])
    return rows.take(pa.array(np.repeat(np.arange(len(weights)), weights)))


def by_duckdb(made: Run, tables: Tables) -> Iterator[tuple[str, pa.Table]]:
    with duckdb.connect() as con:
        for name, table in tables.items():
            con.register(name, table)
        for name in made.names:
            (text,) = sqlglot.transpile(query(name, made.scale), read="spark", write="duckdb")
            yield name, con.sql(text).to_arrow_table()


@contextmanager
def in_files(tables: Tables, folder: Path) -> Iterator[Any]:
    """A session of its own with the tables as temporary views: other tests have names like these."""
    spark = session().newSession()
    folder.mkdir()
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    yield spark
    for name in tables:
        spark.catalog.dropTempView(name)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(0.002, QUICK, tmp_path_factory.mktemp("quick"))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(0.01, QUERIES, tmp_path_factory.mktemp("full"))


def exact(made: Run, name: str) -> None:
    """A view has Spark's answer and Spark's types at every version."""
    if name in made.refused:
        raise made.refused[name]
    for version, (found, expected) in enumerate(zip(made.ours.get(name, []), made.spark[name])):  # noqa: B905
        assert differences(found, expected, rounded=True) == "", f"at increment {version}"
        assert types(found) == types(expected)
    if made.failed is not None:
        raise made.failed


def types(table: pa.Table) -> list[pa.DataType]:
    """The types of the columns; how far apart the ends of a string may be is Arrow's own business."""
    large = {pa.large_string(): pa.string()}
    return [large.get(t, t) for t in table.schema.types]


def near(found: pa.Table, expected: pa.Table) -> str:
    """What is wrong with an answer beside DuckDB's, in words; empty if nothing is."""
    doubles = [f.name for f in expected.schema if pa.types.is_floating(f.type)]
    rest = [n for n in expected.column_names if n not in doubles]
    asked = pa.schema(
        [
            (n, pa.float64() if n in doubles else found.schema.field(n).type)
            for n in found.column_names
        ]
    )
    order = [(n, "ascending") for n in [*rest, *doubles]]
    left, right = found.cast(asked).sort_by(order), expected.cast(asked).sort_by(order)
    if left.select(rest) != right.select(rest):
        return differences(left, right, rounded=True)
    for name in doubles:
        a, b = (t.column(name).to_numpy() for t in (left, right))
        if not np.allclose(a, b, rtol=CLOSE, atol=CLOSE, equal_nan=True):
            return f"the column {name} is {a}, and should be {b}"
    return ""


@pytest.mark.parametrize("name", QUICK)
def test_quick(quick: Run, name: str) -> None:
    exact(quick, name)


@pytest.mark.parametrize("name", QUICK)
def test_quick_duckdb(quick: Run, name: str) -> None:
    for a, b in zip(quick.spark[name], quick.duck[name], strict=True):
        assert near(a, b) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_all(full: Run, name: str) -> None:
    exact(full, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_all_duckdb(full: Run, name: str) -> None:
    for a, b in zip(full.spark[name], full.duck[name], strict=True):
        assert near(a, b) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_answers_say_something(full: Run, name: str) -> None:
    """A query that selects nothing, or the same at every version, would test nothing."""
    answers = full.spark[name]
    assert max(a.num_rows for a in answers) > 0
    assert any(c.null_count < len(c) for c in answers[-1].columns)
    assert any(differences(a, b) for a, b in pairwise(answers))
