"""Views with loops over edges, changes of these, and what must hold of them: their meaning, what is told, their maps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.api.verify import Verifier
from headwater.calculus.types import has_box
from headwater.engine.verify.compare import in_order
from headwater.engine.view_rows import repeated

REACHED = """WITH RECURSIVE r AS (SELECT src, dst FROM edges UNION SELECT r.src, e.dst FROM r JOIN edges e ON e.src = r.dst)
    SELECT * FROM r"""
SHORTEST = """WITH MUTUALLY RECURSIVE d (node BIGINT, far BIGINT) AS (SELECT node, min(far) FROM (SELECT 1L AS node, 0L AS far
    UNION ALL SELECT e.dst, d.far + e.n FROM d JOIN edges e ON e.src = d.node) GROUP BY node) SELECT * FROM d"""
WALKS = """WITH RECURSIVE w (src, dst, n) MAX RECURSION LEVEL 30 AS (SELECT src, dst, n FROM steps UNION ALL
    SELECT w.src, s.dst, w.n * s.n FROM w JOIN steps s ON s.src = w.dst) SELECT src, sum(n) AS n FROM w GROUP BY src"""
STEPS = "SELECT src, dst, n FROM edges WHERE src < dst"


@hw.query
def labels(edges):
    nodes = [{"node": n} for n in {e.src for e in edges}]
    return hw.repeat(
        [{"node": n.node, "label": n.node} for n in nodes],
        lambda old: [
            {
                "node": n.node,
                "label": min(
                    [o.label for o in old if o.node == n.node]
                    + [o.label for e in edges if e.dst == n.node for o in old if o.node == e.src]
                ),
            }
            for n in nodes
        ],
        times=4,
    )


@hw.query
def settled(edges):
    """Halves of what comes in, until nothing moves by more than a hundredth."""
    nodes = [{"node": n} for n in {e.src for e in edges}]
    return hw.repeat(
        [{"node": n.node, "rank": 1.0} for n in nodes],
        lambda old: [
            {
                "node": n.node,
                "rank": 0.25
                + 0.125
                * sum(o.rank for e in edges if e.dst == n.node for o in old if o.node == e.src),
            }
            for n in nodes
        ],
        until=hw.within(0.01, "rank", by="node"),
    )


VIEWS: dict[str, Any] = {
    "reached": REACHED,
    "shortest": SHORTEST,
    "steps": STEPS,
    "walks": WALKS,
    "labels": labels,
    "settled": settled,
    "counted": "SELECT r.src, count(*) AS n, max(s.far) AS far FROM reached r JOIN shortest s ON s.node = r.dst GROUP BY r.src",
}
CHAIN = [(1, 2, 1), (2, 3, 1), (3, 4, 1)]
EDGES = "src BIGINT, dst BIGINT, n BIGINT"
Row = tuple[Any, ...]


def opened(path: Path, views: dict[str, Any] | None = None, **declared: Any) -> hw.Database:
    db = hw.open(path)
    db.source("edges", EDGES, **declared)
    for name, query in (VIEWS if views is None else views).items():
        db.view(name, query)
    return db


def rows(db: hw.Database, name: str, version: int | None = None) -> Counter[Row]:
    return bag(db, name, repeated(db.table(name, version)))


def meant(db: hw.Database, name: str, version: int | None = None) -> Counter[Row]:
    """What the query of a view says over the rows that are there, by the definition of the calculus."""
    snapshot, at = db._at(version)
    working = db._reading(snapshot, at)
    found = Verifier(db)._interpreted(working, at.catalog, at.catalog.whole(name))
    return bag(db, name, found)


def bag(db: hw.Database, name: str, table: Any) -> Counter[Row]:
    view = db.program.views.get(name)
    table = in_order(table, view.type) if view and has_box(view.type) else table
    return Counter(tuple(repr(v) for v in r.values()) for r in table.to_pylist())


def entries(db: hw.Database) -> dict[str, Counter[Row]]:
    """All entries of all maps; those of a loop may be negative, as what a round takes back."""
    snapshot, at = db._at(None)
    working, out = db._reading(snapshot, at), dict[str, Counter[Row]]()
    for name in at.program.maps:
        found = [r for t in working.now(name).scan() for r in t.drop_columns(["_h"]).to_pylist()]
        out[name] = Counter(tuple(repr(v) for v in r.values()) for r in found)
    return out


def is_as_new(db: hw.Database, path: Path, queries: dict[str, Any]) -> None:
    """The maps are those of a database that was given the rows that are there, and then the views."""
    with opened(path, {}) as fresh:
        fresh.apply({"edges": [tuple(r.values()) for r in repeated(db.table("edges")).to_pylist()]})
        for name in db.catalog.views:
            fresh.view(name, queries[name])
        assert entries(fresh) == entries(db)


def told(db: hw.Database, name: str, since: int) -> Counter[Row]:
    out: Counter[Row] = Counter()
    for r in db.changes_table(name, since).to_pylist():
        out[tuple(repr(v) for n, v in r.items() if n not in ("_w", "_version"))] += r["_w"]
    return Counter({r: n for r, n in out.items() if n})


def is_right(db: hw.Database, *names: str) -> None:
    for name in names or db.catalog.views:
        assert rows(db, name) == meant(db, name), name


def changes(seed: int, count: int) -> Iterator[hw.Delta]:
    """Edges that come and go, among few nodes."""
    chance, there = random.Random(seed), list[Row]()
    for _ in range(count):
        new = [(chance.randint(1, 5), chance.randint(1, 5), chance.randint(0, 2)) for _ in range(3)]
        gone = chance.sample(there, min(len(there), chance.randint(0, 3)))
        for row in gone:
            there.remove(row)
        there += new
        yield hw.Delta(inserts=new, deletes=gone)
