"""Loops as comprehensions, and data for them: graphs with cycles, self loops, duplicates and NULLs, points, parts.

Each query runs as Python on lists, so that it is its own oracle; some have a second one that is written without loops
of Headwater (`reached`, `distances`, ...), so that `hw.repeat` on lists is held against something, too.
"""

from __future__ import annotations

import random
from typing import Any

import headwater as hw
from comprehensions import Row, rows
from headwater.language.comprehension import Query, query
from headwater.language.schema import schemas

GRAPH = schemas(
    """
    nodes(node BIGINT, label BIGINT);
    links(src BIGINT, dst BIGINT, cost BIGINT);
    points(id BIGINT, x DOUBLE, y DOUBLE);
    seeds(k BIGINT, x DOUBLE, y DOUBLE);
    ratings(i BIGINT, j BIGINT, r DOUBLE);
    ws(i BIGINT, f BIGINT, v DOUBLE);
    hs(f BIGINT, j BIGINT, v DOUBLE);
    uses(assembly BIGINT, part BIGINT, qty BIGINT);
    prices(part BIGINT, price BIGINT)
    """
)


@query
def ranks(nodes, links):
    """PageRank, ten rounds."""
    out = [{"node": n.node, "n": len([k for k in links if k.src == n.node])} for n in nodes]
    return hw.repeat(
        [{"node": n.node, "rank": 1.0} for n in nodes],
        lambda rank: [
            {
                "node": n.node,
                "rank": 0.15
                + 0.85
                * sum(
                    r.rank / o["n"]
                    for k in links
                    if k.dst == n.node
                    for o in out
                    if o["node"] == k.src
                    for r in rank
                    if r.node == k.src
                ),
            }
            for n in nodes
        ],
        times=10,
    )


@query
def settled_ranks(nodes, links):
    """PageRank, until no rank moves by more than a hundredth."""
    ids = {n.node for n in nodes}
    ways = {(k.src, k.dst) for k in links if k.src in ids and k.dst in ids}
    return hw.repeat(
        [{"node": n, "rank": 1.0} for n in ids],
        lambda rank: [
            {
                "node": n,
                "rank": 0.5
                + 0.5
                * sum(
                    r.rank / len([b for a, b in ways if a == r.node])
                    for a, b in ways
                    if b == n
                    for r in rank
                    if r.node == a
                ),
            }
            for n in ids
        ],
        until=hw.within(0.01, "rank", by="node"),
    )


@query
def closure(links):
    """Which node is reached from which, rows as tuples."""
    edges = {(k.src, k.dst) for k in links}
    return hw.repeat(
        edges,
        lambda paths: set(list(edges) + [(a, d) for a, b in paths for c, d in edges if b == c]),
    )


@query
def square_closure(links):
    """The same, by paths of paths."""
    return hw.repeat(
        {(k.src, k.dst) for k in links},
        lambda paths: set(paths + [(a, d) for a, b in paths for c, d in paths if b == c]),
    )


@query
def reachable(links):
    """The nodes that are reached from node 0: a loop over scalars."""

    def step(seen):
        """A step further."""
        new = [k.dst for k in links if k.src in seen]
        return set([0] + new)  # noqa: RUF005

    return [{"node": n} for n in hw.repeat([0], step)]


@query
def shortest(links):
    """The cost of the cheapest way from node 0 to each that is reached."""
    start = [{"node": 0, "d": 0}]

    def step(dist):
        ways = start + [
            {"node": k.dst, "d": x.d + k.cost}
            for x in dist
            for k in links
            if k.src == x.node and k.cost is not None
        ]
        return [
            {"node": n, "d": min(w["d"] for w in ways if w["node"] == n)}
            for n in {w["node"] for w in ways}
        ]

    return hw.repeat(start, step)


@query
def components(nodes, links):
    """The least node that is connected with each."""
    ids = {n.node for n in nodes if n.node is not None}
    both = [(k.src, k.dst) for k in links] + [(k.dst, k.src) for k in links]
    return hw.repeat(
        [{"node": n, "label": n} for n in ids],
        lambda own: [
            {
                "node": c.node,
                "label": min(
                    [c.label]
                    + [x.label for a, b in both if a == c.node for x in own if x.node == b]
                ),
            }
            for c in own
        ],
    )


@query
def communities(nodes, links):
    """Label propagation: five times the most frequent label of the neighbours, of several the least."""
    labels = hw.repeat(
        [{"node": n.node, "label": n.label} for n in nodes],
        lambda now: [
            {
                "node": c.node,
                "label": hw.mode(
                    (x.label for k in links if k.dst == c.node for x in now if x.node == k.src),
                    default=c.label,
                ),
            }
            for c in now
        ],
        times=5,
    )
    return [
        {"label": k, "n": len([x for x in labels if x.label == k])}
        for k in {x.label for x in labels}
    ]


@query
def centres(points, seeds):
    """k-means, four rounds; a centre that has no points is gone."""

    def step(centre):
        own = [
            {
                "k": min(centre, key=lambda c: ((c.x - p.x) ** 2 + (c.y - p.y) ** 2, c.k)).k,
                "x": p.x,
                "y": p.y,
            }
            for p in points
        ]
        return [
            {
                "k": k,
                "x": sum(o["x"] for o in own if o["k"] == k) / len([o for o in own if o["k"] == k]),
                "y": sum(o["y"] for o in own if o["k"] == k) / len([o for o in own if o["k"] == k]),
            }
            for k in {o["k"] for o in own}
        ]

    return hw.repeat([{"k": s.k, "x": s.x, "y": s.y} for s in seeds], step, times=4)


@query
def factors(ratings, ws, hs):
    """A matrix as a product of two, by steps along the gradient: a loop over a pair of bags."""
    w, h = hw.repeat(
        (
            [{"i": a.i, "f": a.f, "v": a.v} for a in ws],
            [{"f": b.f, "j": b.j, "v": b.v} for b in hs],
        ),
        lambda w, h: (
            [
                {
                    "i": a.i,
                    "f": a.f,
                    "v": a.v
                    + 0.125
                    * sum(
                        b.v
                        * (
                            t.r
                            - sum(
                                c.v * d.v
                                for c in w
                                if c.i == a.i
                                for d in h
                                if d.j == t.j and d.f == c.f
                            )
                        )
                        for t in ratings
                        if t.i == a.i
                        for b in h
                        if b.f == a.f and b.j == t.j
                    ),
                }
                for a in w
            ],
            [
                {
                    "f": b.f,
                    "j": b.j,
                    "v": b.v
                    + 0.125
                    * sum(
                        a.v
                        * (
                            t.r
                            - sum(
                                c.v * d.v
                                for c in w
                                if c.i == t.i
                                for d in h
                                if d.j == b.j and d.f == c.f
                            )
                        )
                        for t in ratings
                        if t.j == b.j
                        for a in w
                        if a.f == b.f and a.i == t.i
                    ),
                }
                for b in h
            ],
        ),
        times=3,
    )
    return [
        {
            "i": a.i,
            "j": b.j,
            "v": sum(c.v * d.v for c in w if c.i == a.i for d in h if d.j == b.j and d.f == c.f),
        }
        for a in w
        if a.f == 0
        for b in h
        if b.f == 0
    ]


@query
def bill(uses, prices):
    """What each assembly costs: its parts, the parts of its parts, and so on, with their numbers."""
    first = [{"assembly": u.assembly, "part": u.part, "qty": u.qty} for u in uses]
    all_parts = hw.repeat(
        first,
        lambda b: (
            first
            + [
                {"assembly": x.assembly, "part": u.part, "qty": x.qty * u.qty}
                for x in b
                for u in uses
                if u.assembly == x.part
            ]
        ),
        limit=50,
    )
    return [
        {
            "assembly": a,
            "cost": sum(
                x.qty * p.price
                for x in all_parts
                if x.assembly == a
                for p in prices
                if p.part == x.part
            ),
        }
        for a in {x.assembly for x in all_parts}
    ]


LOOPS: list[Query] = [
    ranks,
    settled_ranks,
    closure,
    square_closure,
    reachable,
    shortest,
    components,
    communities,
    centres,
    factors,
    bill,
]


def loop_data(seed: int) -> dict[str, list[Row]]:
    """Small inputs of all loops: seed 0 is empty, but for what a loop could not begin without."""
    r = random.Random(seed)
    n = r.randint(1, 6) if seed else 0
    ids: list[Any] = [
        *range(n),
        *([None] if seed % 3 == 2 else []),
        *([0] if seed % 4 == 3 else []),
    ]

    def link() -> tuple[Any, ...]:
        return (
            r.choice(ids),
            r.choice(ids),
            r.choice([1, 2, 3, 5, 8, *([None] if seed % 2 else [])]),
        )

    links = [link() for _ in range(r.randint(0, 2 * n))]
    links += links[:1]  # a link that is there twice
    places = [(i / 2, j / 4) for i in range(-4, 5) for j in range(-4, 5)]
    points = [(i, *r.choice(places)) for i in range(r.randint(0, 8) if seed else 0)]
    size = (r.randint(1, 3), r.randint(1, 3)) if seed else (0, 0)
    cells = [(i, j) for i in range(size[0]) for j in range(size[1])]
    parts = [(a, b, r.randint(1, 3)) for a in range(n) for b in range(a + 1, n) if r.random() < 0.5]
    return {
        "nodes": rows("node label", *((i, r.randint(0, 2)) for i in ids)),
        "links": rows("src dst cost", *links),
        "points": rows("id x y", *points),
        "seeds": rows("k x y", *((k, *r.choice(places)) for k in range(r.randint(1, 3)))),
        "ratings": rows(
            "i j r", *((i, j, r.randint(-4, 4) / 2) for i, j in cells if r.random() < 0.8)
        ),
        "ws": rows(
            "i f v", *((i, f, r.randint(-4, 4) / 4) for i in range(size[0]) for f in range(2))
        ),
        "hs": rows(
            "f j v", *((f, j, r.randint(-4, 4) / 4) for f in range(2) for j in range(size[1]))
        ),
        "uses": rows("assembly part qty", *parts, *parts[:1]),
        "prices": rows("part price", *((i, r.randint(1, 9)) for i in ids)),
    }


# --- the same without loops of Headwater ---------------------------------------------------------


def reached(links: list[Row], start: Any) -> set[Any]:
    """What is reached from a node, the node itself, too, by going to and fro with a list of what is to do."""
    seen, todo = {start}, [start]
    while todo:
        node = todo.pop()
        new = {k.dst for k in links if k.src == node} - seen
        seen |= new
        todo += new
    return seen


def paths(links: list[Row]) -> set[tuple[Any, Any]]:
    """Pairs of nodes with a way of at least one link between them."""
    sources = {k.src for k in links}
    return {(a, z) for a in sources for k in links if k.src == a for z in reached(links, k.dst)}


def distances(links: list[Row]) -> dict[Any, int]:
    """Cheapest ways from node 0, by Bellman and Ford."""
    found: dict[Any, int] = {0: 0}
    usable = [k for k in links if k.cost is not None]
    for _ in range(len(usable) + 1):
        for k in usable:
            if k.src in found:
                way = found[k.src] + k.cost
                found[k.dst] = min(way, found.get(k.dst, way))
    return found


def least_labels(nodes: list[Row], links: list[Row]) -> dict[Any, Any]:
    """The least node of each component, by links in both directions between nodes that are there."""
    there = {n.node for n in nodes if n.node is not None}
    both = [k for k in links if k.src in there and k.dst in there]
    both += [Row(src=k.dst, dst=k.src) for k in both]
    return {n: min(reached(both, n)) for n in there}


def costs(uses: list[Row], prices: list[Row]) -> dict[Any, int]:
    """What each assembly costs, by recursion."""

    def cost(part: Any) -> int:
        own = sum(p.price for p in prices if p.part == part)
        return own + sum(u.qty * cost(u.part) for u in uses if u.assembly == part)

    return {
        a: sum(u.qty * cost(u.part) for u in uses if u.assembly == a)
        for a in {u.assembly for u in uses}
    }


def alike(found: Any, wanted: Any) -> bool:
    """Whether two lists of flat rows are equal as bags, doubles to nine digits."""
    one, other = (sorted(map(_apart, rows), key=repr) for rows in (found, wanted))
    return len(one) == len(other) and all(map(_near, one, other))


def _apart(row: Any) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    cells = list(dict.values(row)) if isinstance(row, dict) else list(row)
    floats = tuple(round(c, 12) for c in cells if isinstance(c, float))
    return tuple(c for c in cells if not isinstance(c, float)), floats


def _near(a: Any, b: Any) -> bool:
    return a[0] == b[0] and all(
        abs(x - y) <= 1e-9 * max(1, abs(x)) for x, y in zip(a[1], b[1], strict=True)
    )
