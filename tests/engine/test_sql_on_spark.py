"""What SQL is maintained, with every increment on Spark: the same tables as in this process, and as Spark recomputes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from spark_session import session
from sql.corpus import difference

VIEWS = {
    "left_join": "SELECT t.g, t.x, u.z FROM t LEFT JOIN u ON t.x = u.z",
    "full_join": "SELECT t.g, count(DISTINCT u.z) AS n, count(*) AS c FROM t FULL JOIN u ON t.x = u.z GROUP BY t.g",
    "not_exists": "SELECT g, x FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.z > t.x)",
    "not_in": "SELECT g, x FROM t WHERE x NOT IN (SELECT z FROM u)",
    "scalar": "SELECT g, x, (SELECT max(z) FROM u WHERE u.g = t.g) AS m FROM t",
    "share": "SELECT g, count(*) / (SELECT count(*) FROM t) AS share FROM t GROUP BY g",
    "first_rows": "SELECT g, x FROM t ORDER BY x DESC, g, y, s LIMIT 4 OFFSET 1",
    "first_of_groups": "SELECT g, x, y, s FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY x, y, s) <= 2",
    "around": "SELECT g, x, y, s, lag(x) OVER (PARTITION BY g ORDER BY x, y, s) AS p FROM t",
    "running": "SELECT g, x, y, s, sum(y) OVER (PARTITION BY g ORDER BY x, y, s) AS r FROM t",
    "bags": "SELECT g, median(x) AS m, max_by(y, y) AS b FROM t GROUP BY g",
    "rollup": "SELECT g, s, sum(y) AS y, grouping_id() AS i FROM t GROUP BY ROLLUP (g, s)",
    "exploded": "SELECT g, w FROM t LATERAL VIEW explode(split(s, ' ')) e AS w",
}
STEPS = 3


def story() -> Iterator[dict[str, Any]]:
    """Rows that come and go in both tables; in the end all are gone."""
    pick = random.Random(5)
    keys, values, texts = (1, 2, 3, None), (0, 1, 2, 3, 4, 5, None), ("a b", "b", "c d e", None)
    there: dict[str, list[tuple[Any, ...]]] = {"t": [], "u": []}
    for _ in range(STEPS):
        new: dict[str, list[tuple[Any, ...]]] = {
            "t": [
                (
                    pick.choice(keys),
                    pick.choice(values),
                    Decimal(pick.randrange(900)) / 100,
                    pick.choice(texts),
                )
                for _ in range(12)
            ],
            "u": [(pick.choice(keys), pick.choice(values)) for _ in range(5)],
        }
        gone = {n: pick.sample(rows, len(rows) // 2) for n, rows in there.items()}
        yield {n: hw.Delta(inserts=new[n], deletes=gone[n]) for n in there}
        for n, rows in there.items():
            for row in gone[n]:
                rows.remove(row)
            rows += new[n]
    yield {n: hw.Delta(deletes=rows) for n, rows in there.items()}


@pytest.mark.spark
def test_every_increment_on_spark(tmp_path: Path) -> None:
    spark, other = (hw.open(tmp_path / n, spark=session()) for n in ("spark", "driver"))
    spark.policy.execution, other.policy.execution = "spark", "driver"
    names = list(VIEWS)
    for db in (spark, other):
        db.source("t", "g BIGINT, x BIGINT, y DECIMAL(8,2), s STRING")
        db.source("u", "g BIGINT, z BIGINT")
        for name in names[::2]:
            db.view(name, VIEWS[name])
    for at, change in enumerate(story()):
        for db in (spark, other):
            db.apply(change)
            if at == 0:  # the others are filled from what is there
                for name in names[1::2]:
                    db.view(name, VIEWS[name])
        for name in names:
            found, expected = (
                [tuple(r.values()) for r in db.table(name).to_pylist()] for db in (spark, other)
            )
            assert difference(found, expected) == ([], []), (at, name)
        if at == STEPS - 1:
            spark.verify()
    assert spark.session.counts.jobs > 0
