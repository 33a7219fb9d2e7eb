"""Aggregates of what moves in a loop, in SQL over `edges (src, dst)`: different values, ends, counts, the first rows of groups."""

from __future__ import annotations

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
