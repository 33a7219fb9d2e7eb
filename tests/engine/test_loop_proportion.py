"""What a change costs in a loop: the rows that statements process follow the entries that move, not the graph.

The entries that move are found by going through all rounds over both versions of the graph, in plain Python: an entry is
a node that gets a distance at a round, or loses one.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.here import threads

DISTANCES = """
WITH MUTUALLY RECURSIVE dist (node BIGINT, d BIGINT) AS (
  SELECT node, min(d) AS d FROM (
    SELECT 0L AS node, 0L AS d UNION ALL SELECT e.dst, x.d + e.cost FROM dist x JOIN edges e ON e.src = x.node)
  GROUP BY node)
SELECT * FROM dist"""
Edge = tuple[int, int, int]


def moves(edges: list[Edge]) -> Counter[tuple[int, int, int]]:
    """By (node, distance, round): 1 where a node gets it, -1 where it has another from then on."""
    out: dict[int, list[tuple[int, int]]] = {}
    for src, dst, cost in edges:
        out.setdefault(src, []).append((dst, cost))
    entries: Counter[tuple[int, int, int]] = Counter()
    best, changed, at = {0: 0}, {0}, 1
    entries[0, 0, 1] += 1
    while changed:
        at += 1
        found: dict[int, int] = {}
        for node in changed:
            for dst, cost in out.get(node, ()):
                d = best[node] + cost
                if d < found.get(dst, best.get(dst, d + 1)):
                    found[dst] = d
        for node, d in found.items():
            if node in best:
                entries[node, best[node], at] -= 1
            entries[node, d, at] += 1
            best[node] = d
        changed = set(found)
    return entries


class Processed:
    """How many rows statements took and gave."""

    def __init__(self, patched: pytest.MonkeyPatch):
        self.rows, run = 0, threads.run

        def counted(statement: Any, change: pa.Table, *rest: Any, **more: Any) -> pa.Table:
            made = run(statement, change, *rest, **more)
            self.rows += max(change.num_rows, made.num_rows)
            return made

        patched.setattr(threads, "run", counted)


def story(path: Path, patched: pytest.MonkeyPatch, nodes: int, count: int) -> None:
    chance = random.Random(nodes)

    def drawn(n: int) -> list[Edge]:
        # The smaller a number is, the more edges it has.
        pick = [int(nodes * chance.random() ** 2) for _ in range(2 * n)]
        return [(a, b, chance.randint(1, 100)) for a, b in zip(pick[::2], pick[1::2], strict=True)]

    edges = drawn(count)
    with hw.open(path / "db") as db:
        db.source("edges", "src BIGINT NOT NULL, dst BIGINT NOT NULL, cost BIGINT NOT NULL")
        db.apply({"edges": edges})
        db.view("dist", DISTANCES)
        before = moves(edges)
        for _ in range(3):
            gone = chance.sample(range(len(edges)), 50)
            come = drawn(100)
            deleted = [edges[i] for i in gone]
            edges = [e for i, e in enumerate(edges) if i not in set(gone)] + come
            processed = Processed(patched)
            db.apply({"edges": hw.Delta(come, deleted)})
            patched.undo()
            after = moves(edges)
            moved = {k: w for k in {*before, *after} if (w := after[k] - before[k])}
            leaving = Counter(src for src, _, _ in edges)
            allowed = (
                len(moved) + sum(leaving[node] for node, _, _ in moved) + len(come) + len(gone)
            )
            assert processed.rows <= 4 * allowed, (processed.rows, allowed)
            before = after


def test_work_follows_what_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story(tmp_path, monkeypatch, 3_000, 30_000)


@pytest.mark.slow
def test_work_follows_what_moves_in_a_large_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story(tmp_path, monkeypatch, 100_000, 1_000_000)


def test_what_is_out_of_reach_visits_no_round(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("edges", "src BIGINT NOT NULL, dst BIGINT NOT NULL, cost BIGINT NOT NULL")
        db.view("dist", DISTANCES)
        db.apply({"edges": [(0, 1, 1), (1, 2, 1), (7, 8, 1)]})
        assert not db.apply({"edges": [(8, 9, 1), (9, 7, 1)]}).rounds.get("dist")
        assert not db.apply({"edges": hw.Delta(deletes=[(7, 8, 1)])}).rounds.get("dist")
        assert db.apply({"edges": [(2, 7, 1)]}).rounds["dist"]
