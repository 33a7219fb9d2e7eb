"""Loops that tests share: for each a query, the sources that it reads, rows to draw, and its answer found elsewhere.

Most are written twice, as people write them in SQL and in Python. The answers are in `loop_answers`; the stories that
are played on them in `loop_stories`.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import headwater as hw
import loop_answers as answers
from loop_answers import MOVES, PROPAGATED, RATE, ROUNDS, STEPS, WALKS, Row, Tables
from loop_queries import ranks

Draw = Callable[[random.Random], Row]


@dataclass(frozen=True)
class Loop:
    """A query with a loop, and its answer.

    `near` is how far doubles may be off, `unique` how many leading columns of a source say which row it is, `size` about
    how many rows a source has, `kept` are sources that are never without rows, and of many stories one in `every` is of
    this loop.
    """

    name: str
    sources: Mapping[str, str]
    draws: Mapping[str, Draw]
    query: Any
    expected: Callable[[Tables], Iterable[Row]]
    near: float = 0.0
    unique: Mapping[str, int] = field(default_factory=dict)
    size: int = 9
    kept: tuple[str, ...] = ()
    every: int = 1


def differs(found: Iterable[Row], expected: Iterable[Row], near: float) -> str:
    """How two bags of rows differ; empty if they do not, but for doubles that are near each other."""
    left, right = _parted(found), _parted(expected)
    for key in sorted(left.keys() | right.keys(), key=repr):
        a, b = left.get(key, []), right.get(key, [])
        if len(a) != len(b) or not all(
            math.isclose(x, y, rel_tol=near, abs_tol=near)
            for one, other in zip(a, b, strict=True)
            for x, y in zip(one, other, strict=True)
        ):
            return f"at {key}: found {a[:5]} ({len(a)}), and not {b[:5]} ({len(b)})"
    return ""


def _parted(rows: Iterable[Row]) -> dict[Row, list[tuple[float, ...]]]:
    """Rows by what is exact of them: the doubles of those that are equal there, in order."""
    out: dict[Row, list[tuple[float, ...]]] = defaultdict(list)
    for row in rows:
        exact = tuple("double" if isinstance(v, float) else v for v in row)
        out[exact].append(tuple(v for v in row if isinstance(v, float)))
    return {key: sorted(values) for key, values in out.items()}


# --- rows --------------------------------------------------------------------------------------------------------

NODES = 7


def _node(chance: random.Random) -> int | None:
    return None if chance.randrange(14) == 0 else chance.randrange(NODES)


def _pair(chance: random.Random) -> Row:
    return _node(chance), _node(chance)


def _whole_pair(chance: random.Random) -> Row:
    return chance.randrange(NODES), chance.randrange(NODES)


def _one(chance: random.Random) -> Row:
    return (_node(chance),)


def _whole(chance: random.Random) -> Row:
    return (chance.randrange(NODES),)


def _priced(chance: random.Random) -> Row:
    cost = None if chance.randrange(9) == 0 else chance.choice((0, 1, 1, 2, 3, 5, 9, 20))
    return (*_pair(chance), cost)


def _use(chance: random.Random) -> Row:
    """Parts have greater numbers than what they are used in, so nothing is a part of itself."""
    assembly = chance.randrange(NODES - 1)
    part = None if chance.randrange(12) == 0 else chance.randrange(assembly + 1, NODES)
    return assembly, part, None if chance.randrange(12) == 0 else chance.randrange(4)


def _whole_use(chance: random.Random) -> Row:
    assembly = chance.randrange(NODES - 1)
    return assembly, chance.randrange(assembly + 1, NODES), chance.randrange(-2, 4)


def _own(chance: random.Random) -> Row:
    """A part with what it costs by itself; the same one may be there twice."""
    return _node(chance), None if chance.randrange(9) == 0 else chance.randrange(-3, 20)


def _whole_own(chance: random.Random) -> Row:
    return chance.randrange(NODES), chance.randrange(-3, 20)


def _price(chance: random.Random) -> Row:
    price = None if chance.randrange(9) == 0 else Decimal(chance.randrange(1000)) / 100
    return _node(chance), price


def _point(chance: random.Random) -> Row:
    return chance.randrange(-9, 10) / 2, chance.randrange(-9, 10) / 2


def _start(chance: random.Random) -> Row:
    return chance.randrange(4), *_point(chance)


def _cell(chance: random.Random) -> Row:
    return chance.randrange(20), chance.randrange(15), chance.randrange(100) / 100


def _left(chance: random.Random) -> Row:
    return chance.randrange(20), chance.randrange(2), chance.randrange(100) / 100


def _right(chance: random.Random) -> Row:
    return chance.randrange(2), chance.randrange(15), chance.randrange(100) / 100


# --- in SQL ------------------------------------------------------------------------------------------------------

CLOSURE = """
WITH RECURSIVE path (src, dst) AS (
  SELECT src, dst FROM edges UNION
  SELECT p.src, e.dst FROM path p JOIN edges e ON e.src = p.dst)
SELECT src, dst FROM path
"""
SQUARE = """
WITH MUTUALLY RECURSIVE path (src BIGINT, dst BIGINT) AS (
  SELECT src, dst FROM edges UNION
  SELECT p.src, q.dst FROM path p JOIN path q ON q.src = p.dst)
SELECT src, dst FROM path
"""
REACHED = """
WITH RECURSIVE reached (node) AS (
  SELECT node FROM roots UNION
  SELECT e.dst FROM reached r JOIN edges e ON e.src = r.node)
SELECT node FROM reached
"""
DISTANCES = """
WITH MUTUALLY RECURSIVE dist (node BIGINT, d BIGINT) AS (
  SELECT node, min(d) AS d FROM (
    SELECT node, 0L AS d FROM roots UNION ALL
    SELECT e.dst, x.d + e.cost FROM dist x JOIN edges e ON e.src = x.node) GROUP BY node)
SELECT node, d FROM dist
"""
COMPONENTS = """
WITH MUTUALLY RECURSIVE component (node BIGINT, label BIGINT) AS (
  SELECT node, min(label) AS label FROM (
    SELECT node, node AS label FROM nodes UNION ALL
    SELECT e.dst, c.label FROM component c JOIN edges e ON e.src = c.node UNION ALL
    SELECT e.src, c.label FROM component c JOIN edges e ON e.dst = c.node) GROUP BY node)
SELECT node, label FROM component
"""
STRONG = """
WITH MUTUALLY RECURSIVE
  odd (a BIGINT, b BIGINT) AS (
    SELECT src, dst FROM edges UNION
    SELECT v.a, e.dst FROM even v JOIN edges e ON e.src = v.b),
  even (a BIGINT, b BIGINT) AS (
    SELECT DISTINCT o.a, e.dst FROM odd o JOIN edges e ON e.src = o.b),
  path (a BIGINT, b BIGINT) AS (SELECT a, b FROM odd UNION SELECT a, b FROM even)
SELECT p.a, p.b FROM path p JOIN path q ON q.a = p.b AND q.b = p.a
"""
BILL = """
WITH RECURSIVE bill (assembly, part, qty) MAX RECURSION LEVEL 30 AS (
  SELECT assembly, part, qty FROM uses UNION ALL
  SELECT b.assembly, u.part, b.qty * u.qty FROM bill b JOIN uses u ON u.assembly = b.part)
SELECT b.assembly, sum(b.qty * p.price) AS cost FROM bill b JOIN prices p ON p.part = b.part
GROUP BY b.assembly
"""
WALKED = f"""
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT {WALKS}) walk (src BIGINT, dst BIGINT) AS (
  SELECT src, dst FROM edges UNION ALL
  SELECT w.src, e.dst FROM walk w JOIN edges e ON e.src = w.dst)
SELECT src, dst FROM walk
"""
RANKS = f"""
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT {ROUNDS}) ranks (node BIGINT, rank DOUBLE) AS (
  SELECT node, 0.15D + 0.85D * coalesce(sum(share), 0.0D) AS rank FROM (
    SELECT node, CAST(NULL AS DOUBLE) AS share FROM nodes UNION ALL
    SELECT l.dst, r.rank / o.n FROM ranks r JOIN links l ON l.src = r.node
      JOIN (SELECT src, count(*) AS n FROM links GROUP BY src) o ON o.src = r.node) GROUP BY node)
SELECT node, rank FROM ranks
"""
ROLLED_UP = """
WITH MUTUALLY RECURSIVE costs (part BIGINT, cost BIGINT) AS (
  SELECT p.part, p.own + coalesce((SELECT sum(u.qty * c.cost) FROM uses u JOIN costs c ON c.part = u.part
                                   WHERE u.assembly = p.part), 0) AS cost FROM parts p)
SELECT part, cost FROM costs
"""

FURTHER = WALKS - 1
"""Rounds of walks that begin with the edges and not with nothing."""

# --- in Python ---------------------------------------------------------------------------------------------------


@hw.query
def closure(edges):
    return hw.repeat(
        {(e.src, e.dst) for e in edges},
        lambda path: set(
            [(e.src, e.dst) for e in edges]
            + [(src, e.dst) for src, via in path for e in edges if e.src == via]
        ),
    )


@hw.query
def distances(nodes, edges, roots):
    return hw.repeat(
        [{"node": n.node, "d": 0} for n in nodes if any(r.node == n.node for r in roots)],
        lambda dist: [
            {
                "node": n.node,
                "d": min(
                    [0 for r in roots if r.node == n.node]
                    + [
                        x.d + e.cost
                        for e in edges
                        if e.dst == n.node and e.cost is not None
                        for x in dist
                        if x.node == e.src and x.d is not None
                    ],
                    default=None,
                ),
            }
            for n in nodes
        ],
    )


@hw.query
def components(nodes, edges):
    return hw.repeat(
        [{"node": n.node, "label": n.node} for n in nodes],
        lambda labels: [
            {
                "node": own.node,
                "label": min(
                    [own.label]
                    + [
                        c.label
                        for e in edges
                        if e.src == own.node
                        for c in labels
                        if c.node == e.dst
                    ]
                    + [
                        c.label
                        for e in edges
                        if e.dst == own.node
                        for c in labels
                        if c.node == e.src
                    ]
                ),
            }
            for own in labels
        ],
    )


@hw.query
def walks(edges):
    return hw.repeat(
        [(e.src, e.dst) for e in edges],
        lambda walk: (
            [(e.src, e.dst) for e in edges]
            + [(src, e.dst) for src, via in walk for e in edges if e.src == via]
        ),
        times=FURTHER,
    )


@hw.query
def rolled_up(parts, uses):
    return hw.repeat(
        [{"part": p.part, "cost": 0} for p in parts],
        lambda costs: [
            {
                "part": p.part,
                "cost": p.own
                - 2
                * sum(
                    c.cost * u.qty
                    for u in uses
                    if u.assembly == p.part
                    for c in costs
                    if c.part == u.part
                ),
            }
            for p in parts
        ],
    )


@hw.query
def walks_from(nodes, edges):
    return hw.repeat(
        [{"node": n.node, "many": 1} for n in nodes],
        lambda walks: [
            {
                "node": n.node,
                "many": sum(
                    w.many for e in edges if e.src == n.node for w in walks if w.node == e.dst
                ),
            }
            for n in nodes
        ],
        times=WALKS,
    )


@hw.query
def propagated(nodes, edges):
    return hw.repeat(
        [{"node": n.node, "label": n.node} for n in nodes],
        lambda labels: [
            {
                "node": own.node,
                "label": hw.mode(
                    [own.label]
                    + [
                        c.label
                        for e in edges
                        if e.src == own.node
                        for c in labels
                        if c.node == e.dst
                    ]
                    + [
                        c.label
                        for e in edges
                        if e.dst == own.node
                        for c in labels
                        if c.node == e.src
                    ]
                ),
            }
            for own in labels
        ],
        times=PROPAGATED,
    )


@hw.query
def centres(points, starts):
    def moved(centre):
        near = [
            {
                "k": min(
                    centre,
                    key=lambda c: ((c.x - p.x) * (c.x - p.x) + (c.y - p.y) * (c.y - p.y), c.k),
                ).k,
                "x": p.x,
                "y": p.y,
            }
            for p in points
        ]
        return [
            {
                "k": c.k,
                "x": sum(p["x"] for p in near if p["k"] == c.k)
                / len([p for p in near if p["k"] == c.k])
                if any(p["k"] == c.k for p in near)
                else c.x,
                "y": sum(p["y"] for p in near if p["k"] == c.k)
                / len([p for p in near if p["k"] == c.k])
                if any(p["k"] == c.k for p in near)
                else c.y,
            }
            for c in centre
        ]

    return hw.repeat([{"k": s.k, "x": s.x, "y": s.y} for s in starts], moved, times=MOVES)


@hw.query
def approximated(cells, left, right):
    def descended(w, h):
        error = [
            {
                "i": c.i,
                "j": c.j,
                "v": c.v
                - sum(a.v * b.v for a in w if a.i == c.i for b in h if b.f == a.f and b.j == c.j),
            }
            for c in cells
        ]
        return (
            [
                {
                    "i": a.i,
                    "f": a.f,
                    "v": a.v
                    + RATE
                    * sum(
                        e["v"] * b.v
                        for e in error
                        if e["i"] == a.i
                        for b in h
                        if b.f == a.f and b.j == e["j"]
                    ),
                }
                for a in w
            ],
            [
                {
                    "f": b.f,
                    "j": b.j,
                    "v": b.v
                    + RATE
                    * sum(
                        e["v"] * a.v
                        for e in error
                        if e["j"] == b.j
                        for a in w
                        if a.f == b.f and a.i == e["i"]
                    ),
                }
                for b in h
            ],
        )

    w, h = hw.repeat(
        (
            [{"i": a.i, "f": a.f, "v": a.v} for a in left],
            [{"f": b.f, "j": b.j, "v": b.v} for b in right],
        ),
        descended,
        times=STEPS,
    )
    return [
        {
            "i": c.i,
            "j": c.j,
            "v": 0.0
            + sum(a.v * b.v for a in w if a.i == c.i for b in h if b.f == a.f and b.j == c.j),
        }
        for c in cells
    ]


# --- the list ----------------------------------------------------------------------------------------------------

PAIRS = {"edges": "src BIGINT, dst BIGINT"}
PRICED = {"edges": "src BIGINT, dst BIGINT, cost BIGINT"}
ROOTS = {"roots": "node BIGINT"}
LISTED = {"nodes": "node BIGINT"}
OWNED = {
    "parts": "part BIGINT, own BIGINT",
    "uses": "assembly BIGINT, part BIGINT, qty BIGINT",
}

LOOPS = [
    Loop("closure", PAIRS, {"edges": _pair}, CLOSURE, answers.closed),
    Loop("closure, square", PAIRS, {"edges": _pair}, SQUARE, answers.closed),
    Loop("closure in Python", PAIRS, {"edges": _pair}, closure, answers.closed_in_python),
    Loop("reachability", PAIRS | ROOTS, {"edges": _pair, "roots": _one}, REACHED, answers.reached),
    Loop(
        "shortest paths",
        PRICED | ROOTS,
        {"edges": _priced, "roots": _one},
        DISTANCES,
        answers.distances,
        size=12,
    ),
    Loop(
        "shortest paths in Python",
        LISTED | PRICED | ROOTS,
        {"nodes": _one, "edges": _priced, "roots": _one},
        distances,
        answers.distances_in_python,
        every=2,
    ),
    Loop(
        "components",
        LISTED | PAIRS,
        {"nodes": _one, "edges": _pair},
        COMPONENTS,
        answers.components,
        size=6,
    ),
    Loop(
        "components in Python",
        LISTED | PAIRS,
        {"nodes": _whole, "edges": _whole_pair},
        components,
        answers.components_in_python,
        size=6,
        every=2,
    ),
    Loop(
        "strongly connected", PAIRS, {"edges": _pair}, STRONG, answers.strongly_connected, every=2
    ),
    Loop(
        "bill of materials",
        {
            "uses": "assembly BIGINT, part BIGINT, qty BIGINT",
            "prices": "part BIGINT, price DECIMAL(8,2)",
        },
        {"uses": _use, "prices": _price},
        BILL,
        answers.costs,
    ),
    Loop("walks", PAIRS, {"edges": _pair}, WALKED, answers.walks),
    Loop("walks in Python", PAIRS, {"edges": _whole_pair}, walks, answers.walks),
    Loop(
        "walks from nodes in Python",
        LISTED | PAIRS,
        {"nodes": _whole, "edges": _whole_pair},
        walks_from,
        answers.walks_from,
        every=2,
    ),
    Loop("rolled up", OWNED, {"parts": _own, "uses": _use}, ROLLED_UP, answers.rolled_up),
    Loop(
        "rolled up in Python",
        OWNED,
        {"parts": _whole_own, "uses": _whole_use},
        rolled_up,
        answers.rolled_up_in_python,
        every=2,
    ),
    Loop(
        "label propagation",
        LISTED | PAIRS,
        {"nodes": _whole, "edges": _whole_pair},
        propagated,
        answers.propagated,
        unique={"nodes": 1},
        every=3,
    ),
    Loop(
        "PageRank",
        LISTED | {"links": "src BIGINT, dst BIGINT"},
        {"nodes": _whole, "links": _whole_pair},
        ranks,
        answers.ranks,
        near=1e-9,
        unique={"nodes": 1},
        every=2,
    ),
    Loop(
        "PageRank in SQL",
        LISTED | {"links": "src BIGINT, dst BIGINT"},
        {"nodes": _one, "links": _pair},
        RANKS,
        answers.ranks_in_sql,
        near=1e-9,
    ),
    Loop(
        "k-means",
        {"points": "x DOUBLE, y DOUBLE", "starts": "k BIGINT, x DOUBLE, y DOUBLE"},
        {"points": _point, "starts": _start},
        centres,
        answers.centres,
        near=1e-9,
        unique={"starts": 1},
        kept=("starts",),  # the least of no centres is an error, as it is in Python
        every=5,
    ),
    Loop(
        "matrix factorization",
        {
            "cells": "i BIGINT, j BIGINT, v DOUBLE",
            "left": "i BIGINT, f BIGINT, v DOUBLE",
            "right": "f BIGINT, j BIGINT, v DOUBLE",
        },
        {"cells": _cell, "left": _left, "right": _right},
        approximated,
        answers.approximated,
        near=1e-9,
        unique={"left": 2, "right": 2},
        size=24,
        every=5,
    ),
]
BY_NAME = {loop.name: loop for loop in LOOPS}
