"""Who recomputes a loop: Spark round by round, Spark's own recursion, DuckDB, networkx and numpy.

A peer is given the tables after a change, which is not timed: it caches them, or builds its graph. Then it is asked for
the answer, and that is. So everything that recomputing could keep warm between two changes is warm.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from benchmarks.duck import connected

Tables = dict[str, pa.Table]
Array = np.ndarray[Any, Any]


class Peer(Protocol):
    """Somebody who recomputes."""

    name: str

    def given(self, tables: Tables) -> None:
        """Takes the tables as they are now; not timed."""

    def answer(self) -> pa.Table:
        """The answer, computed anew; timed."""

    def close(self) -> None:
        """Lets go of what it kept."""


# --- Spark and DuckDB --------------------------------------------------------------------------------------------


class SparkTables:
    """Tables as cached temporary views."""

    name = "Spark"

    def __init__(self, spark: SparkSession):
        self.spark = spark
        self.spark.conf.set("spark.sql.cteRecursionRowLimit", "-1")

    def given(self, tables: Tables) -> None:
        self.close()
        for name, table in tables.items():
            frame = self.spark.createDataFrame(table).repartition(os.cpu_count() or 1)
            frame.createOrReplaceTempView(name)
            self.spark.catalog.cacheTable(name)
            self.spark.table(name).count()

    def close(self) -> None:
        self.spark.catalog.clearCache()


class SparkQuery(SparkTables):
    """One query of Spark over cached tables."""

    def __init__(self, spark: SparkSession, query: str):
        super().__init__(spark)
        self.query = query

    def answer(self) -> pa.Table:
        return self.spark.sql(self.query).toArrow()


class SparkRounds(SparkTables):
    """A loop as a program for Spark would have it: the step as a query over `x`, and a checkpoint a round.

    Without `times` it ends when a round gives the rows that the one before gave.
    """

    def __init__(self, spark: SparkSession, start: str, step: str, times: int | None = None):
        super().__init__(spark)
        self.start, self.step, self.times = start, step, times

    def answer(self) -> pa.Table:
        now = self.spark.sql(self.start).localCheckpoint()
        done = 0
        while done != self.times:
            now.createOrReplaceTempView("x")
            new = self.spark.sql(self.step).localCheckpoint()
            ended = self.times is None and new.exceptAll(now).isEmpty()
            now, done = new, done + 1
            if ended:
                break
        return now.toArrow()


class DuckQuery:
    """One query of DuckDB over tables in memory."""

    name = "DuckDB"

    def __init__(self, query: str):
        self.query, self.con = query, connected()

    def given(self, tables: Tables) -> None:
        self.close()
        self.con = connected()
        self.con.execute(f"SET threads TO {os.cpu_count()}")
        for name, table in tables.items():
            self.con.register("given", table)
            self.con.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            self.con.unregister("given")

    def answer(self) -> pa.Table:
        return self.con.sql(self.query).to_arrow_table()

    def close(self) -> None:
        self.con.close()


# --- networkx and numpy ------------------------------------------------------------------------------------------


class Networkx:
    """A function of a graph that was built before."""

    name = "networkx"

    def __init__(self, compute: Callable[[Any], dict[int, int]], columns: tuple[str, str]):
        self.compute, self.columns, self.graph = compute, columns, nx.DiGraph()

    def given(self, tables: Tables) -> None:
        edges = tables["edges"].group_by(["src", "dst"]).aggregate([("cost", "min")])
        self.graph = nx.DiGraph()
        if "nodes" in tables:
            self.graph.add_nodes_from(tables["nodes"].column("node").to_pylist())
        columns = (edges.column(n).to_pylist() for n in ("src", "dst", "cost_min"))
        self.graph.add_weighted_edges_from(zip(*columns, strict=True))

    def answer(self) -> pa.Table:
        found = self.compute(self.graph)
        values = (pa.array(v, pa.int64()) for v in (found.keys(), found.values()))
        return pa.table(list(values), list(self.columns))

    def close(self) -> None:
        self.graph = nx.DiGraph()


class Numpy:
    """A function of arrays, by table and column."""

    name = "numpy"

    def __init__(self, compute: Callable[[dict[str, dict[str, Array]]], pa.Table]):
        self.compute = compute
        self.arrays: dict[str, dict[str, Array]] = {}

    def given(self, tables: Tables) -> None:
        self.arrays = {
            n: {
                c: t.column(c).combine_chunks().to_numpy(zero_copy_only=False)
                for c in t.column_names
            }
            for n, t in tables.items()
        }

    def answer(self) -> pa.Table:
        return self.compute(self.arrays)

    def close(self) -> None:
        self.arrays = {}


def by_source(edges: dict[str, Array], nodes: int) -> tuple[Array, Array]:
    """Edges in the order of where they start, and where those of each node begin."""
    order = np.argsort(edges["src"], kind="stable")
    return order, np.concatenate(([0], np.cumsum(np.bincount(edges["src"], minlength=nodes))))


def paths(root: int, unit: bool) -> Callable[[dict[str, dict[str, Array]]], pa.Table]:
    """Least costs from a root, all edges of the nodes that became nearer at once; of breadth if every edge costs 1."""

    def compute(tables: dict[str, dict[str, Array]]) -> pa.Table:
        edges = tables["edges"]
        nodes = int(max(edges["src"].max(), edges["dst"].max(), root)) + 1
        order, begin = by_source(edges, nodes)
        dst = edges["dst"][order]
        cost = np.ones_like(dst) if unit else edges["cost"][order]
        dist = np.full(nodes, np.iinfo(np.int64).max)
        dist[root] = 0
        front = np.array([root])
        while len(front):
            first, many = begin[front], begin[front + 1] - begin[front]
            at = np.repeat(first - np.concatenate(([0], np.cumsum(many)[:-1])), many)
            at += np.arange(len(at))
            new = np.repeat(dist[front], many) + cost[at]
            nearer = new < dist[dst[at]]
            front = np.unique(dst[at][nearer])
            np.minimum.at(dist, dst[at][nearer], new[nearer])
        there = np.flatnonzero(dist < np.iinfo(np.int64).max)
        return pa.table({"node": there, "d": dist[there]})

    return compute


def components(tables: dict[str, dict[str, Array]]) -> pa.Table:
    """The least node of each component, by labels that go over every edge in both directions."""
    src, dst = tables["edges"]["src"], tables["edges"]["dst"]
    nodes = tables["nodes"]["node"]
    size = int(max(src.max(initial=0), dst.max(initial=0), nodes.max(initial=0))) + 1
    label: Array = np.arange(size)
    before: Array = label[:0]
    while not np.array_equal(label, before):
        before = label.copy()
        np.minimum.at(label, dst, before[src])
        np.minimum.at(label, src, before[dst])
    return pa.table({"node": nodes, "label": label[nodes]})


def ranks(rounds: int) -> Callable[[dict[str, dict[str, Array]]], pa.Table]:
    """Ranks after so many rounds from 1."""

    def compute(tables: dict[str, dict[str, Array]]) -> pa.Table:
        src, dst = tables["links"]["src"], tables["links"]["dst"]
        nodes = tables["nodes"]["node"]
        size = int(max(src.max(), dst.max(), nodes.max())) + 1
        share = 1 / np.bincount(src, minlength=size)[src]
        rank: Array = np.ones(size)
        for _ in range(rounds):
            rank = 0.15 + 0.85 * np.bincount(dst, weights=rank[src] * share, minlength=size)
        return pa.table({"node": nodes, "rank": rank[nodes]})

    return compute


def centres(rounds: int) -> Callable[[dict[str, dict[str, Array]]], pa.Table]:
    """Centres after so many moves to the means of their points."""

    def compute(tables: dict[str, dict[str, Array]]) -> pa.Table:
        x, y = tables["points"]["x"], tables["points"]["y"]
        k, cx, cy = (tables["starts"][c].copy() for c in ("k", "x", "y"))
        for _ in range(rounds):
            far = (x[:, None] - cx) ** 2 + (y[:, None] - cy) ** 2
            own = far.argmin(axis=1)
            count = np.bincount(own, minlength=len(k))
            some = count > 0
            cx[some] = (np.bincount(own, weights=x, minlength=len(k)) / np.maximum(count, 1))[some]
            cy[some] = (np.bincount(own, weights=y, minlength=len(k)) / np.maximum(count, 1))[some]
        return pa.table({"k": k, "x": cx, "y": cy})

    return compute


# --- comparing ---------------------------------------------------------------------------------------------------


def apart(found: pa.Table, answer: pa.Table, keys: tuple[str, ...], most: float) -> str:
    """How two answers differ by more than `most` in some column; empty if they do not."""
    if found.num_rows != answer.num_rows:
        return f"{found.num_rows} rows, and not {answer.num_rows}"
    order = [(k, "ascending") for k in keys]
    one, other = found.sort_by(order), answer.sort_by(order)
    for name in found.column_names:
        left, right = one.column(name), other.column(name)
        if name in keys:
            if not left.cast(right.type).equals(right):
                return f"other values of {name}"
            continue
        left, right = left.cast(pa.float64()), right.cast(pa.float64())
        if pc.is_null(left).combine_chunks() != pc.is_null(right).combine_chunks():
            return f"other NULLs in {name}"
        far = pc.max(pc.abs(pc.subtract(left, right))).as_py()
        if far is not None and far > most:
            return f"{name} is {far:g} apart"
    return ""
