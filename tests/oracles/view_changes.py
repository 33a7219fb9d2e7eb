"""A view over random upserts, for sinks to follow: of every kind of key that a view has."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headwater as hw

QUERIES = {
    "by key": "SELECT a, count(*) AS n, sum(x) AS total FROM t GROUP BY a",
    "by a key that is never NULL": "SELECT coalesce(a, '-') AS a, count(*) AS n, sum(x) AS total FROM t GROUP BY coalesce(a, '-')",
    "rows": "SELECT a, x FROM t WHERE x > 2",
    "one row": "SELECT count(*) AS n, max(a) AS most FROM t",
    "all are key": "SELECT DISTINCT a, x FROM t",
}


def changed(root: Path, case: str, declare: Any, steps: int = 12) -> Iterator[Any]:
    """A database whose view `v` changes; it is given after each time that its sink ran. Once it is closed and opened again."""
    rng = random.Random(case)
    db = hw.open(root)
    db.source("t", "id int, a string, x int", key="id")
    db.view("v", QUERIES[case])
    declare(db)
    for n in range(steps):
        ids = rng.sample(range(30), 8)
        a = [rng.choice(["x", "y", "", None, 'q"\n,']) for _ in ids]
        rows = [(i, s, rng.choice([1, 2, 3, 4, None])) for i, s in zip(ids, a, strict=True)]
        there = {r["id"] for r in db.table("t").to_pylist()}
        gone = [i for i in range(30) if i in there and i not in ids and rng.random() < 0.2]
        db.apply({"t": hw.Delta(upserts=rows, deletes=gone)})
        if n % 3:
            db.run()
            yield db
        if n == 7:
            db.close()
            db = hw.open(root)
            declare(db)
    db.close()


def view_of(db: Any, view: str) -> Counter[Any]:
    """The rows of a view, counted."""
    out: Counter[Any] = Counter()
    for r in db.table(view).to_pylist():
        w = r.pop("_w")
        out[tuple(r.values())] += w
    return out
