"""Aggregates of what moves in a loop, held against the interpreter after every change."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import bag
from headwater.engine import increment
from headwater.language.queries import read_query

QUERIES = {
    "different values": """
        WITH MUTUALLY RECURSIVE r (node BIGINT, n BIGINT, s BIGINT) AS (
          SELECT e.dst AS node, count(DISTINCT x.n) AS n, sum(DISTINCT x.s) AS s
          FROM edges e JOIN (SELECT node, n, s FROM r UNION ALL SELECT 0L, 0L, 1L) x ON x.node = e.src
          WHERE e.src < e.dst GROUP BY e.dst)
        SELECT * FROM r""",
    "both ends": """
        WITH MUTUALLY RECURSIVE r (node BIGINT, low BIGINT, high BIGINT) AS (
          SELECT e.dst AS node, min(x.low + e.src) AS low, max(x.high - e.src) AS high
          FROM edges e JOIN (SELECT node, low, high FROM r UNION ALL SELECT 0L, 0L, CAST(NULL AS BIGINT)) x ON x.node = e.src
          WHERE e.src < e.dst GROUP BY e.dst)
        SELECT * FROM r""",
    "the end of what may be NULL": """
        WITH MUTUALLY RECURSIVE r (node BIGINT, low BIGINT) AS (
          SELECT e.dst AS node, min(nullif(x.low, 2L) + e.src) AS low
          FROM edges e JOIN (SELECT node, low FROM r UNION ALL SELECT 0L, 1L) x ON x.node = e.src
          WHERE e.src < e.dst GROUP BY e.dst)
        SELECT * FROM r""",
    "a count beside an end": """
        WITH MUTUALLY RECURSIVE r (node BIGINT, low BIGINT, n BIGINT) AS (
          SELECT e.dst AS node, min(x.low + 1) AS low, count(*) AS n
          FROM edges e JOIN (SELECT node, low FROM r UNION ALL SELECT 0L, 1L) x ON x.node = e.src
          WHERE e.src < e.dst GROUP BY e.dst)
        SELECT * FROM r""",
    "without groups": """
        WITH MUTUALLY RECURSIVE r (n BIGINT) AS (
          SELECT least(count(*), 1L + (SELECT coalesce(max(n), 0L) FROM r)) AS n FROM edges)
        SELECT * FROM r""",
    "the first rows": """
        WITH MUTUALLY RECURSIVE r (node BIGINT) AS (
          SELECT node FROM (SELECT dst AS node, row_number() OVER (PARTITION BY src ORDER BY dst) AS k FROM
            (SELECT e.src, e.dst FROM edges e JOIN (SELECT node FROM r UNION SELECT 0L) x ON x.node = e.src)) WHERE k <= 2
          UNION SELECT node FROM r)
        SELECT * FROM r""",
}


def rows(db: hw.Database) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row in db.table("v").to_pylist():
        weight = row.pop("_w", 1)
        found[tuple(row.values())] += weight
    return found


def play(path: Path, query: str, seed: int) -> None:
    chance, have = random.Random(seed), Counter[tuple[int, int]]()
    with hw.open(path / "db") as db:
        db.source("edges", "src BIGINT, dst BIGINT")
        term = read_query(query, db.catalog.schemas(), db.ask)[2]
        late = 2 if seed % 3 == 0 else 0
        for i in range(8):
            if i == late:
                db.view("v", query)
            come = [(chance.randrange(6), chance.randrange(6)) for _ in range(chance.randrange(6))]
            pool = list(have.elements())
            chance.shuffle(pool)
            gone = pool[: chance.randrange(3)] if i < 7 else pool
            db.apply({"edges": hw.Delta(come, gone)})
            have.update(come)
            have.subtract(gone)
            have = +have
            if i >= late:
                want = interpret(term, {"edges": bag(have.elements())})
                assert rows(db) == Counter(dict(want)), f"change {i}"


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_aggregates_in_a_loop(tmp_path: Path, query: str, seed: int) -> None:
    play(tmp_path, query, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 30))
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_many_aggregates_in_a_loop(tmp_path: Path, query: str, seed: int) -> None:
    play(tmp_path, query, seed)


def test_keys_that_are_touched_twice_are_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that share a heavy key all say that they touched it, in one table."""
    merge = increment.merge

    def told_twice(*given: Any, **more: Any) -> dict[str, pa.Table]:
        touched = merge(*given, **more)
        return {n: pa.concat_tables([t, t]) for n, t in touched.items()}

    monkeypatch.setattr(increment, "merge", told_twice)
    for i, query in enumerate(QUERIES.values()):
        play(tmp_path / str(i), query, 1)
