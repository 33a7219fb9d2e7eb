"""What loops answer, from plain lists of rows by networkx, numpy or plain Python, and by nothing of ours.

NULL is where loops written in SQL and in Python differ, and both are told by where an edge ends: in SQL a NULL meets
nothing, so edges that leave it start at one node and edges that enter it end at another; in Python None is a node like
the others.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import networkx as nx
import numpy as np

Row = tuple[Any, ...]
Tables = Mapping[str, Sequence[Row]]
"""The rows of each source, repeated by how often they are there."""

# --- graphs ------------------------------------------------------------------------------------------------------

SOURCE, SINK, NONE = "source", "sink", "none"
"""Nodes that stand for NULL: where edges leave it, where they enter it, and in Python, where it is one."""


def ends(src: Any, dst: Any, null_meets: bool) -> tuple[Any, Any]:
    """The nodes of an edge."""
    a = (NONE if null_meets else SOURCE) if src is None else src
    b = (NONE if null_meets else SINK) if dst is None else dst
    return a, b


def cell(node: Any) -> Any:
    """A node as a value of a row."""
    return None if isinstance(node, str) else node


def graph(edges: Iterable[Row], null_meets: bool = False) -> Any:
    made = nx.DiGraph()
    made.add_edges_from(ends(src, dst, null_meets) for src, dst, *_ in edges)
    return made


def closed(t: Tables) -> set[Row]:
    """Pairs with a path of at least one edge between them."""
    pairs = nx.transitive_closure(graph(t["edges"]), reflexive=False).edges
    return {(cell(a), cell(b)) for a, b in pairs}


def closed_in_python(t: Tables) -> set[Row]:
    pairs = nx.transitive_closure(graph(t["edges"], null_meets=True), reflexive=False).edges
    return {(cell(a), cell(b)) for a, b in pairs}


def reached(t: Tables) -> set[Row]:
    """Roots, and the nodes behind them."""
    made = graph(t["edges"])
    roots = {ends(None, node, False)[1] for (node,) in t["roots"]}
    made.add_nodes_from(roots)
    found = roots.union(*(nx.descendants(made, r) for r in roots))
    return {(cell(n),) for n in found}


def distances(t: Tables) -> set[Row]:
    """Every reached node, with the least cost of a path of known costs; NULL if there is none."""
    priced = nx.DiGraph()
    for src, dst, cost in t["edges"]:
        if cost is not None:
            a, b = ends(src, dst, False)
            if not priced.has_edge(a, b) or priced[a][b]["weight"] > cost:
                priced.add_edge(a, b, weight=cost)
    roots = {ends(None, node, False)[1] for (node,) in t["roots"]}
    priced.add_nodes_from(roots)
    known = nx.multi_source_dijkstra_path_length(priced, roots) if roots else {}
    made = graph(t["edges"])
    made.add_nodes_from(roots)
    found = roots.union(*(nx.descendants(made, r) for r in roots))
    return {(cell(n), known.get(n)) for n in found}


def distances_in_python(t: Tables) -> list[Row]:
    """For each row of nodes the least cost of a path of known costs, None without one."""
    priced = nx.MultiDiGraph()
    for src, dst, cost in t["edges"]:
        if cost is not None:
            priced.add_edge(*ends(src, dst, True), weight=cost)
    roots = {NONE if node is None else node for (node,) in t["roots"]}
    nodes = [NONE if node is None else node for (node,) in t["nodes"]]
    # A path leads through nodes that are there, for the others have no distance.
    priced.add_nodes_from(roots)
    there = priced.subgraph(set(nodes))
    roots &= set(nodes)
    known = nx.multi_source_dijkstra_path_length(there, roots) if roots else {}
    return [(cell(n), known.get(n)) for n in nodes]


def components(t: Tables) -> set[Row]:
    """Nodes by the least of their component that is among the nodes; at NULL the least of what ends there."""
    made = nx.Graph()
    nodes = {node for (node,) in t["nodes"]}
    made.add_nodes_from(nodes - {None})
    made.add_edges_from((a, b) for a, b in t["edges"] if a is not None and b is not None)
    made.add_nodes_from(n for e in t["edges"] for n in e if n is not None)
    out: dict[Any, Any] = {}
    for members in nx.connected_components(made):
        known = [n for n in members if n in nodes]
        out |= dict.fromkeys(members, min(known)) if known else {}
    at_null = [out[a] for a, b in _both_ways(t["edges"]) if b is None and a in out]
    if at_null or None in nodes:
        out[None] = min(at_null, default=None)
    return set(out.items())


def _both_ways(edges: Iterable[Row]) -> list[Row]:
    return [pair for a, b in edges for pair in ((a, b), (b, a))]


def components_in_python(t: Tables) -> list[Row]:
    """For each row of nodes the least of its component, over edges between nodes that are there."""
    made = nx.Graph()
    nodes = [node for (node,) in t["nodes"]]
    made.add_nodes_from(nodes)
    made.add_edges_from((a, b) for a, b in t["edges"] if a in made and b in made)
    least = {n: min(c) for c in nx.connected_components(made) for n in c}
    return [(n, least[n]) for n in nodes]


def strongly_connected(t: Tables) -> set[Row]:
    """Pairs with paths both ways; a node alone with itself if it has an edge to itself."""
    made = graph(t["edges"])
    out: set[Row] = set()
    for members in nx.strongly_connected_components(made):
        if len(members) > 1 or made.has_edge(*(2 * list(members))):
            out |= {(a, b) for a in members for b in members}
    return {(a, b) for a, b in out if not isinstance(a, str) and not isinstance(b, str)}


WALKS = 4


def walks(t: Tables) -> list[Row]:
    """Every walk of one to WALKS edges as a pair of its ends, by powers of the matrix of edges."""
    pairs = [ends(a, b, False) for a, b in t["edges"]]
    nodes = sorted({n for p in pairs for n in p}, key=repr)
    at = {n: i for i, n in enumerate(nodes)}
    matrix = np.zeros((len(nodes), len(nodes)), np.int64)
    for a, b in pairs:
        matrix[at[a], at[b]] += 1
    power, total = matrix.copy(), matrix.copy()
    for _ in range(WALKS - 1):
        power = power @ matrix
        total += power
    return [(cell(a), cell(b)) for a in nodes for b in nodes for _ in range(total[at[a], at[b]])]


def costs(t: Tables) -> set[Row]:
    """What the parts of an assembly cost, parts of parts too: every chain of uses, one by one."""
    uses: dict[Any, list[Row]] = defaultdict(list)
    for assembly, part, qty in t["uses"]:
        uses[assembly].append((part, qty))
    prices: dict[Any, list[Any]] = defaultdict(list)
    for part, price in t["prices"]:
        prices[part].append(price)

    def parts(assembly: Any, count: Any) -> Iterable[Row]:
        for part, qty in uses[assembly]:
            product = None if count is None or qty is None else count * qty
            yield part, product
            if part is not None:
                yield from parts(part, product)

    out = set()
    for assembly in list(uses):
        met = [(n, p) for part, n in parts(assembly, 1) if part is not None for p in prices[part]]
        known = [n * p for n, p in met if n is not None and p is not None]
        if met:
            out.add((assembly, sum(known, Decimal(0)) if known else None))
    return out


def rolled_up(t: Tables, times: int = 1) -> list[Row]:
    """What every part costs: by itself, and so many times what it is made of, part by part."""
    used: dict[Any, list[Row]] = defaultdict(list)
    for assembly, part, qty in t["uses"]:
        used[assembly].append((part, qty))

    def cost(part: Any, own: Any) -> Any:
        if own is None:
            return None
        inside = used[part] if part is not None else []
        return own + times * sum(qty * total(p) for p, qty in inside if qty is not None)

    def total(part: Any) -> Any:
        found = [cost(p, own) for p, own in t["parts"] if p == part and p is not None]
        return sum(c for c in found if c is not None)

    return [(part, cost(part, own)) for part, own in t["parts"]]


def rolled_up_in_python(t: Tables) -> list[Row]:
    return rolled_up(t, -2)


def walks_from(t: Tables) -> list[Row]:
    """How many walks of WALKS edges begin at each node; a node that is listed twice is one that they may go through in two ways."""
    listed = Counter(node for (node,) in t["nodes"])
    many = dict.fromkeys(listed, 1)
    for _ in range(WALKS):
        ahead = {n: listed[n] * many[n] for n in listed}
        many = {n: sum(ahead.get(b, 0) for a, b in t["edges"] if a == n) for n in listed}
    return [(node, many[node]) for (node,) in t["nodes"]]


PROPAGATED = 4


def propagated(t: Tables) -> list[Row]:
    """The label that most of a node's neighbours and it have, the least of several, so many times."""
    nodes = {node for (node,) in t["nodes"]}
    label = {n: n for n in nodes}
    around = Counter((a, b) for a, b in _both_ways(t["edges"]) if a in nodes and b in nodes)
    for _ in range(PROPAGATED):
        votes: dict[Any, Counter[Any]] = {n: Counter([label[n]]) for n in nodes}
        for (a, b), times in around.items():
            votes[a][label[b]] += times
        label = {n: min(v, key=lambda k, v=v: (-v[k], k)) for n, v in votes.items()}
    return list(label.items())


# --- numbers -----------------------------------------------------------------------------------------------------

ROUNDS = 10


def ranks(t: Tables, rounds: int = ROUNDS) -> list[Row]:
    """Ranks after so many rounds from 1, by a matrix; rank that flows to nodes that are not there is lost."""
    nodes = [node for (node,) in t["nodes"]]
    at = {n: i for i, n in enumerate(nodes)}
    degree = Counter(src for src, _ in t["links"])
    matrix = np.zeros((len(nodes), len(nodes)))
    for src, dst in t["links"]:
        if src in at and dst in at:
            matrix[at[dst], at[src]] += 1 / degree[src]
    rank = np.ones(len(nodes))
    for _ in range(rounds):
        rank = 0.15 + 0.85 * (matrix @ rank)
    return [(n, float(rank[at[n]])) for n in nodes]


def ranks_in_sql(t: Tables) -> list[Row]:
    """Ranks from nothing: a node is there if it is listed, or linked by one that was there a round before."""
    links = [ends(a, b, False) for a, b in t["links"]]
    listed = {ends(None, node, False)[1] for (node,) in t["nodes"]}
    nodes = sorted(listed | {n for link in links for n in link}, key=repr)
    at = {n: i for i, n in enumerate(nodes)}
    degree = Counter(a for a, _ in links)
    matrix = np.zeros((len(nodes), len(nodes)))
    for a, b in links:
        matrix[at[b], at[a]] += 1 / degree[a]
    own = np.array([n in listed for n in nodes], bool)
    there, rank = np.zeros(len(nodes), bool), np.zeros(len(nodes))
    for _ in range(ROUNDS):
        there = own | (matrix @ there > 0)
        rank = np.where(there, 0.15 + 0.85 * (matrix @ rank), 0.0)
    return [(cell(n), float(rank[at[n]])) for n in nodes if there[at[n]]]


MOVES = 4


def centres(t: Tables) -> list[Row]:
    """Centres after so many moves to the means of their points; one without points stays."""
    now = {k: (x, y) for k, x, y in t["starts"]}
    for _ in range(MOVES):
        own: dict[Any, list[Row]] = defaultdict(list)
        for x, y in t["points"]:
            near = [((cx - x) * (cx - x) + (cy - y) * (cy - y), k) for k, (cx, cy) in now.items()]
            if near:
                own[min(near)[1]].append((x, y))
        for k, points in own.items():
            xs, ys = zip(*points, strict=True)
            now[k] = (math.fsum(xs) / len(xs), math.fsum(ys) / len(ys))
    return [(k, x, y) for k, (x, y) in now.items()]


STEPS, RATE = 3, 0.05


def approximated(t: Tables) -> list[Row]:
    """The known cells as products of two factors, after so many steps of both down the gradient, at once."""
    w, h, known, v = (np.zeros(s) for s in ((20, 2), (2, 15), (20, 15), (20, 15)))
    for i, f, x in t["left"]:
        w[i, f] = x
    for f, j, x in t["right"]:
        h[f, j] = x
    for i, j, x in t["cells"]:
        known[i, j] += 1
        v[i, j] += x
    # An entry of a factor that is not there stays away: it is 0 and does not move.
    has_w, has_h = np.zeros((20, 2), bool), np.zeros((2, 15), bool)
    has_w[tuple(np.array([r[:2] for r in t["left"]], int).reshape(-1, 2).T)] = True
    has_h[tuple(np.array([r[:2] for r in t["right"]], int).reshape(-1, 2).T)] = True
    for _ in range(STEPS):
        error = v - known * (w @ h)
        w, h = (
            np.where(has_w, w + RATE * (error @ h.T), 0.0),
            np.where(has_h, h + RATE * (w.T @ error), 0.0),
        )
    product = w @ h
    return [(i, j, float(product[i, j])) for i, j, _ in t["cells"]]
