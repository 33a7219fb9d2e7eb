"""Loops to measure: graphs that change, bills of materials, points around centres; their queries, tables, changes and peers.

Graphs are R-MAT graphs with the parameters of the paper that figures 3 and 4 are from, and so are points and pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import headwater as hw
from benchmarks import loops_peers as peers
from benchmarks.loops_peers import Array, Peer, Tables
from benchmarks.views import Change, decimals, pairs

Peers = Callable[[SparkSession | None], list[Peer]]
"""Who recomputes; without a session, those who need none."""


@dataclass(frozen=True)
class Case:
    """A view over tables of a size, changes of so many rows, who recomputes it, and what is asked."""

    name: str
    title: str
    sources: dict[str, str]
    query: Any
    load: Callable[[int, np.random.Generator], Tables]
    change: Callable[[Tables, int, int, np.random.Generator], Change]
    size: int
    rows: int
    peers: Peers
    asked: dict[str, float]
    """How many times faster than each peer."""
    keys: tuple[str, ...]
    near: float = 0.0
    compared: tuple[str, ...] = ()
    """The peers whose answers ours must be near to; all, if none is named."""
    options: dict[str, Any] = field(default_factory=dict)
    settled: float | None = None
    """How many times as long as the second of nine increments the ninth may take."""
    against_load: float | None = None
    a_round: float | None = None
    """Seconds that a visited round may take."""
    grown: float | None = None
    """How many times as long as at a tenth of the size it may take."""
    only_full: bool = False


# --- graphs ------------------------------------------------------------------------------------------------------

CHANCES = (0.30, 0.25, 0.25, 0.20)
ROOT = 0


def rmat(nodes: int, edges: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Edges of an R-MAT graph: of the four quarters of the matrix one is chosen, again and again."""
    levels = max(1, (nodes - 1).bit_length())
    src, dst = np.empty(0, np.int64), np.empty(0, np.int64)
    while len(src) < edges:
        count = 2 * (edges - len(src)) + 16
        a, b = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for _ in range(levels):
            quarter = rng.choice(4, count, p=CHANCES)
            a, b = 2 * a + quarter // 2, 2 * b + quarter % 2
        inside = (a < nodes) & (b < nodes)
        src, dst = np.concatenate((src, a[inside])), np.concatenate((dst, b[inside]))
    return src[:edges], dst[:edges]


def load_edges(nodes: int, rng: np.random.Generator) -> Tables:
    src, dst = rmat(nodes, 10 * nodes, rng)
    return {"edges": pa.table({"src": src, "dst": dst, "cost": rng.integers(1, 101, len(src))})}


def load_graph(nodes: int, rng: np.random.Generator) -> Tables:
    return {"nodes": pa.table({"node": np.arange(nodes)}), **load_edges(nodes, rng)}


def more_edges(tables: Tables, rows: int, _: int, rng: np.random.Generator) -> Change:
    """So many edges that come, and half as many that go."""
    edges = tables["edges"]
    nodes = max(edges.num_rows // 10, 2)
    src, dst = rmat(nodes, rows, rng)
    new = pa.table({"src": src, "dst": dst, "cost": rng.integers(1, 101, rows)})
    gone = np.sort(rng.choice(edges.num_rows, rows // 2, replace=False))
    return {"edges": (new, edges.take(pa.array(gone)))}


def load_links(nodes: int, rng: np.random.Generator) -> Tables:
    src, dst = rmat(nodes, 10 * nodes, rng)
    return {
        "nodes": pa.table({"node": np.arange(nodes)}),
        "links": pa.table({"src": src, "dst": dst}),
    }


def more_nodes(tables: Tables, rows: int, _: int, rng: np.random.Generator) -> Change:
    """A hundred nodes, and so many links between all."""
    nodes, links = tables["nodes"], tables["links"]
    size = nodes.num_rows
    new = pa.table({"node": np.arange(size, size + 100)})
    src, dst = (rng.integers(0, size + 100, rows) for _ in range(2))
    return {
        "nodes": (new, nodes.slice(0, 0)),
        "links": (pa.table({"src": src, "dst": dst}), links.slice(0, 0)),
    }


def more_links(tables: Tables, rows: int, _: int, rng: np.random.Generator) -> Change:
    """So many links that come, and a third as many that go."""
    links = tables["links"]
    src, dst = rmat(tables["nodes"].num_rows, rows, rng)
    gone = np.sort(rng.choice(links.num_rows, rows // 3, replace=False))
    return {"links": (pa.table({"src": src, "dst": dst}), links.take(pa.array(gone)))}


def load_chain(nodes: int, _: np.random.Generator) -> Tables:
    at = np.arange(nodes - 1)
    return {"edges": pa.table({"src": at, "dst": at + 1, "cost": np.ones_like(at)})}


def cut_and_mended(tables: Tables, _: int, turn: int, __: np.random.Generator) -> Change:
    """The edge in the middle goes, and comes again."""
    edges = tables["edges"]
    middle = (edges.num_rows + turn % 2) // 2
    one = pa.table({"src": [middle], "dst": [middle + 1], "cost": [1]})
    none = one.slice(0, 0)
    return {"edges": (one, none) if turn % 2 else (none, one)}


def least(value: str, further: str, start: str) -> tuple[str, str]:
    """A loop of least values by node, and its step over `x` for Spark."""
    step = f"SELECT node, min({value}) AS {value} FROM ({start} UNION ALL {{}}) GROUP BY node"
    view = (
        f"WITH MUTUALLY RECURSIVE near (node BIGINT, {value} BIGINT) AS ("
        f"{step.format(further.format('near'))}) SELECT node, {value} FROM near"
    )
    return view, step.format(further.format("x"))


ORIGIN = f"SELECT {ROOT}L AS node, 0L AS d"
PATHS, PATHS_STEP = least(
    "d", "SELECT e.dst, x.d + e.cost FROM {} x JOIN edges e ON e.src = x.node", ORIGIN
)
BREADTH, BREADTH_STEP = least(
    "d", "SELECT e.dst, x.d + 1 FROM {} x JOIN edges e ON e.src = x.node", ORIGIN
)
COMPONENTS, COMPONENTS_STEP = least(
    "label",
    "SELECT e.dst, x.label FROM {0} x JOIN edges e ON e.src = x.node UNION ALL "
    "SELECT e.src, x.label FROM {0} x JOIN edges e ON e.dst = x.node",
    "SELECT node, node AS label FROM nodes",
)


def dijkstra(graph: Any) -> dict[int, int]:
    found: dict[int, int] = nx.single_source_dijkstra_path_length(graph, ROOT)
    return found


def breadth(graph: Any) -> dict[int, int]:
    return dict(nx.single_source_shortest_path_length(graph, ROOT))


def labelled(graph: Any) -> dict[int, int]:
    return {
        n: least for c in nx.weakly_connected_components(graph) for least in [min(c)] for n in c
    }


# --- ranks -------------------------------------------------------------------------------------------------------


@hw.query
def ranks_10(nodes: Any, links: Any) -> Any:
    """PageRank, ten rounds."""
    out = [{"node": n.node, "n": len([k for k in links if k.src == n.node])} for n in nodes]
    return hw.repeat(
        [{"node": n.node, "rank": 1.0} for n in nodes],
        lambda rank: [{"node": n.node, "rank": 0.15 + 0.85 * sum(
            r.rank / o["n"] for k in links if k.dst == n.node
            for o in out if o["node"] == k.src for r in rank if r.node == k.src)} for n in nodes],
        times=10,
    )  # fmt: skip


@hw.query
def ranks_100(nodes: Any, links: Any) -> Any:
    """PageRank, a hundred rounds."""
    out = [{"node": n.node, "n": len([k for k in links if k.src == n.node])} for n in nodes]
    return hw.repeat(
        [{"node": n.node, "rank": 1.0} for n in nodes],
        lambda rank: [{"node": n.node, "rank": 0.15 + 0.85 * sum(
            r.rank / o["n"] for k in links if k.dst == n.node
            for o in out if o["node"] == k.src for r in rank if r.node == k.src)} for n in nodes],
        times=100,
    )  # fmt: skip


RANK_START = "SELECT node, 1.0D AS rank FROM nodes"
RANK_STEP = """
SELECT n.node, 0.15D + 0.85D * coalesce(s.share, 0.0D) AS rank FROM nodes n LEFT JOIN (
  SELECT l.dst, sum(x.rank / o.n) AS share FROM x JOIN links l ON l.src = x.node
  JOIN (SELECT src, count(*) AS n FROM links GROUP BY src) o ON o.src = x.node GROUP BY l.dst) s
ON s.dst = n.node
"""


# --- points ------------------------------------------------------------------------------------------------------

CENTRES = [(0, 2.5, 2.5), (1, 2.5, 7.5), (2, 7.5, 2.5), (3, 7.5, 7.5)]


def points(n: int, rng: np.random.Generator) -> pa.Table:
    """Points of four squares: both coordinates in [2, 4] or [6, 8]."""
    xy = rng.uniform(2, 4, (n, 2)) + 4 * rng.integers(0, 2, (n, 2))
    return pa.table({"x": xy[:, 0], "y": xy[:, 1]})


def load_points(n: int, rng: np.random.Generator) -> Tables:
    k, x, y = zip(*CENTRES, strict=True)
    return {"points": points(n, rng), "starts": pa.table({"k": k, "x": x, "y": y})}


def more_points(tables: Tables, rows: int, _: int, rng: np.random.Generator) -> Change:
    return {"points": (points(rows, rng), tables["points"].slice(0, 0))}


@hw.query
def centres_10(points: Any, starts: Any) -> Any:
    """k-means, ten rounds."""

    def moved(centre: Any) -> Any:
        near = [
            {
                "k": min(centre, key=lambda c: (c.x - p.x) ** 2 + (c.y - p.y) ** 2).k,
                "x": p.x,
                "y": p.y,
            }
            for p in points
        ]
        return [{"k": k,
                 "x": sum(p["x"] for p in near if p["k"] == k) / len([1 for p in near if p["k"] == k]),
                 "y": sum(p["y"] for p in near if p["k"] == k) / len([1 for p in near if p["k"] == k])}
                for k in {p["k"] for p in near}]  # fmt: skip

    return hw.repeat([{"k": s.k, "x": s.x, "y": s.y} for s in starts], moved, times=10)


POINT_STEP = """
SELECT k, avg(px) AS x, avg(py) AS y FROM (
  SELECT p.x AS px, p.y AS py, array_min(transform(c.all, c -> struct(
    (c.x - p.x) * (c.x - p.x) + (c.y - p.y) * (c.y - p.y) AS far, c.k AS k))).k AS k
  FROM points p CROSS JOIN (SELECT collect_list(struct(k, x, y)) AS all FROM x) c) GROUP BY k
"""


# --- bills of materials ------------------------------------------------------------------------------------------

DEPTH, BRANCHES = 6, 5


def load_uses(n: int, rng: np.random.Generator) -> Tables:
    """Trees of depth 6 with five parts in every assembly, so many uses in all, and a price for every part."""
    a_tree = sum(BRANCHES**d for d in range(1, DEPTH + 1))
    inside = (a_tree + 1 - BRANCHES**DEPTH, a_tree + 1)  # assemblies, and all nodes, of a tree
    trees = max(1, round(n / a_tree))
    first = np.arange(trees)[:, None] * inside[1]
    assembly = np.repeat(np.arange(inside[0]), BRANCHES)
    uses = pa.table(
        {
            "assembly": (first + assembly).ravel(),
            "part": (first + np.arange(1, inside[1])).ravel(),
            "qty": rng.integers(1, 4, trees * a_tree),
        }
    )
    parts = np.arange(trees * inside[1])
    return {
        "uses": uses,
        "prices": pa.table(
            {"part": parts, "price": decimals(rng.integers(1, 9999, len(parts)), 8)}
        ),
    }


def more_uses(tables: Tables, rows: int, _: int, rng: np.random.Generator) -> Change:
    """So many uses with another quantity, and so many parts with another price."""
    uses, prices = tables["uses"], tables["prices"]
    which = uses.take(pa.array(np.sort(rng.choice(uses.num_rows, rows, replace=False))))
    other = which.set_column(2, "qty", pa.array(rng.integers(4, 9, rows)))
    priced = prices.take(pa.array(np.sort(rng.choice(prices.num_rows, rows, replace=False))))
    new = priced.set_column(1, "price", decimals(rng.integers(1, 9999, rows), 8))
    return {"uses": (other, which), "prices": (new, priced)}


BILL = """
WITH RECURSIVE bill (assembly, part, qty) {} AS (
  SELECT assembly, part, qty FROM uses UNION ALL
  SELECT b.assembly, u.part, b.qty * u.qty FROM bill b JOIN uses u ON u.assembly = b.part)
SELECT b.assembly, sum(b.qty * p.price) AS cost FROM bill b JOIN prices p ON p.part = b.part
GROUP BY b.assembly
"""
LEVELS = "MAX RECURSION LEVEL 30"


# --- pairs, as in figure 3 ---------------------------------------------------------------------------------------

MEANS = "SELECT k, avg(v) AS mean FROM r GROUP BY k"
JOINED = "SELECT r.k, avg(s.v) AS mean FROM r JOIN s ON r.v = s.k GROUP BY r.k"


def load_pairs(n: int, rng: np.random.Generator) -> Tables:
    return {"r": pairs(n, 10_001, 10_001, rng)}


def load_two(n: int, rng: np.random.Generator) -> Tables:
    return {name: pairs(n, 10_001, 10_001, rng) for name in ("r", "s")}


def more_pairs(tables: Tables, rows: int, _: int, rng: np.random.Generator) -> Change:
    return {n: (pairs(rows, 10_001, 10_001, rng), t.slice(0, 0)) for n, t in tables.items()}


# --- the list ----------------------------------------------------------------------------------------------------

EDGES = {"edges": "src BIGINT, dst BIGINT, cost BIGINT"}
NODES = {"nodes": "node BIGINT"}
LINKS = {"links": "src BIGINT, dst BIGINT"}
PAIRS = "k BIGINT, v BIGINT"
POINTS = {"points": "x DOUBLE, y DOUBLE", "starts": "k BIGINT, x DOUBLE, y DOUBLE"}
USES = {
    "uses": "assembly BIGINT, part BIGINT, qty BIGINT",
    "prices": "part BIGINT, price DECIMAL(8,2)",
}
FIXPOINT = 150
"""Rounds after which ranks are what they stay, to 1e-10."""


def beside(
    spark: SparkSession | None, make: Callable[[SparkSession], Peer], *others: Peer
) -> list[Peer]:
    """Spark, where there is a session, and the others."""
    return [*([make(spark)] if spark is not None else []), *others]


def of_query(query: str, duck: str | None = None) -> Peers:
    return lambda spark: beside(
        spark, lambda s: peers.SparkQuery(s, query), peers.DuckQuery(duck or query)
    )


def of_graph(start: str, step: str, *others: Callable[[], Peer]) -> Peers:
    return lambda spark: beside(
        spark, lambda s: peers.SparkRounds(s, start, step), *(make() for make in others)
    )


def of_ranks(rounds: int) -> Peers:
    return lambda spark: beside(
        spark,
        lambda s: peers.SparkRounds(s, RANK_START, RANK_STEP, 10),
        peers.Numpy(peers.ranks(rounds)),
    )


def of_points(spark: SparkSession | None) -> list[Peer]:
    start = "SELECT k, x, y FROM starts"
    return beside(
        spark,
        lambda s: peers.SparkRounds(s, start, POINT_STEP, 10),
        peers.Numpy(peers.centres(10)),
    )


paths_peers = of_graph(
    ORIGIN,
    PATHS_STEP,
    partial(peers.Networkx, dijkstra, ("node", "d")),
    partial(peers.Numpy, peers.paths(ROOT, unit=False)),
)

CASES = [
    Case(
        "groups",
        "group by",
        {"r": PAIRS},
        MEANS,
        load_pairs,
        more_pairs,
        1_000_000,
        10_000,
        of_query(MEANS),
        {"Spark": 10, "DuckDB": 1},
        ("k",),
        near=1e-9,
        settled=1.3,
    ),
    Case(
        "joins",
        "join and group by",
        {"r": PAIRS, "s": PAIRS},
        JOINED,
        load_two,
        more_pairs,
        100_000,
        10_000,
        of_query(JOINED),
        {"Spark": 10, "DuckDB": 1},
        ("k",),
        near=1e-9,
        settled=1.3,
    ),
    Case(
        "kmeans",
        "k-means, diffuse",
        POINTS,
        centres_10,
        load_points,
        more_points,
        1_000_000,
        10_000,
        of_points,
        {"Spark": 10},
        ("k",),
        near=0.05,
        options={"mode": "diffuse", "cut": 1e-3, "rounds": 10},
        settled=1.3,
    ),
    Case(
        "ranks",
        "PageRank, diffuse",
        NODES | LINKS,
        ranks_10,
        load_links,
        more_nodes,
        5_000,
        100,
        of_ranks(FIXPOINT),
        {"Spark": 10},
        ("node",),
        near=0.1,  # at one node; their mean is asked for more
        compared=("numpy",),  # which goes on to the fixpoint
        # As in the paper ranks go on for ten rounds; what has yet to move then is due in the next increment.
        options={"mode": "diffuse", "cut": 1e-3, "rounds": 10},
        settled=1.3,
    ),
    Case(
        "ranks-large",
        "PageRank, diffuse, large",
        NODES | LINKS,
        ranks_10,
        load_links,
        more_links,
        100_000,
        300,
        of_ranks(FIXPOINT),
        {"Spark": 20},
        ("node",),
        near=0.1,  # at one node; their mean is asked for more
        compared=("numpy",),  # which goes on to the fixpoint
        options={"mode": "diffuse", "cut": 1e-3},
        only_full=True,
    ),
    Case(
        "ranks-exact",
        "PageRank, exact",
        NODES | LINKS,
        ranks_10,
        load_links,
        more_nodes,
        5_000,
        100,
        of_ranks(10),
        {"Spark": 5},
        ("node",),
        near=1e-9,
        against_load=1.2,
    ),
    Case(
        "ranks-exact-large",
        "PageRank, exact, large",
        NODES | LINKS,
        ranks_10,
        load_links,
        more_links,
        100_000,
        300,
        of_ranks(10),
        {"Spark": 1},
        ("node",),
        near=1e-9,
        only_full=True,
    ),
    Case(
        "kmeans-exact",
        "k-means, exact",
        POINTS,
        centres_10,
        load_points,
        more_points,
        20_000,
        200,
        of_points,
        {},
        ("k",),
        near=1e-9,
    ),
    Case(
        "paths",
        "shortest paths",
        EDGES,
        PATHS,
        load_edges,
        more_edges,
        100_000,
        100,
        paths_peers,
        {"Spark": 100, "networkx": 5, "numpy": 1},
        ("node",),
        grown=1.5,
    ),
    Case(
        "components",
        "components",
        NODES | EDGES,
        COMPONENTS,
        load_graph,
        more_edges,
        100_000,
        100,
        of_graph(
            "SELECT node, node AS label FROM nodes",
            COMPONENTS_STEP,
            partial(peers.Networkx, labelled, ("node", "label")),
            partial(peers.Numpy, peers.components),
        ),
        {"Spark": 50, "networkx": 3},
        ("node",),
    ),
    Case(
        "breadth",
        "breadth first",
        EDGES,
        BREADTH,
        load_edges,
        more_edges,
        100_000,
        100,
        of_graph(
            ORIGIN,
            BREADTH_STEP,
            partial(peers.Networkx, breadth, ("node", "d")),
            partial(peers.Numpy, peers.paths(ROOT, unit=True)),
        ),
        {"Spark": 50, "networkx": 3},
        ("node",),
    ),
    Case(
        "bill",
        "bill of materials",
        USES,
        BILL.format(LEVELS),
        load_uses,
        more_uses,
        200_000,
        100,
        of_query(BILL.format(LEVELS), BILL.format("")),
        {"Spark": 50, "DuckDB": 3},
        ("assembly",),
    ),
    Case(
        "chain",
        "a chain, cut and mended",
        EDGES,
        PATHS,
        load_chain,
        cut_and_mended,
        300,
        1,
        paths_peers,
        {"Spark": 20},
        ("node",),
        a_round=0.004,
    ),
]
