"""A database as a program makes it whose Spark is the oldest that is allowed: `python oldest_story.py DIR`, which prints what is to be shown.

Flat and nested sources, joins, windows, an expression that only Spark evaluates, upserts, a change on Spark, and deletions.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import headwater as hw

VIEWS = {
    "totals": "SELECT name, sum(price) AS total, count(*) AS n FROM orders JOIN people USING (person) GROUP BY name",
    "sounds": "SELECT soundex(name) AS sound, count(*) AS n FROM people GROUP BY soundex(name)",
    "latest": "SELECT person, id, price FROM orders QUALIFY row_number() OVER (PARTITION BY person ORDER BY id DESC) = 1",
    "days": "SELECT date_format(day, 'yyyy-MM') AS month, avg(price) AS mean FROM orders GROUP BY 1",
    "above": "SELECT name FROM totals WHERE total > (SELECT avg(total) FROM totals)",
    "bought": "SELECT name, collect_list(struct(id, price)) AS items FROM orders JOIN people USING (person) GROUP BY name",
}


def rows(db: Any) -> dict[str, list[str]]:
    """All rows of sources and views, as text."""
    return {n: sorted(map(_shown, db.table(n).to_pylist())) for n in (*db.sources, *db.views)}


def _shown(value: Any) -> str:
    match value:
        case dict():
            return str({k: _shown(v) for k, v in value.items()})
        case list():
            return str(sorted(map(_shown, value)))
    return str(value)


def made(db: Any) -> None:
    """The story."""
    db.source("people", "person BIGINT, name STRING", key="person")
    db.source("orders", "id BIGINT, person BIGINT, price DECIMAL(10,2), day DATE")
    db.source(
        "boxes", "id BIGINT, things ARRAY<STRUCT<k: BIGINT, v: DOUBLE>>", key=["id", "things.k"]
    )
    for name, query in VIEWS.items():
        db.view(name, query)
    db.apply({"people": [(i, n) for i, n in enumerate(("Ann", "Anne", "Bob", "Robert"))]})
    orders = [(i, i % 4, f"{i}.50", f"2026-0{1 + i % 3}-01") for i in range(40)]
    db.apply({"orders": orders}, cast=True, execution="spark")
    db.apply({"boxes": [{"id": 1, "things": [{"k": 1, "v": 0.1}, {"k": 2, "v": None}]}]})
    db.apply(
        {
            "people": hw.Delta(upserts=[(3, "Rupert")]),
            "orders": hw.Delta(deletes=db.answer("SELECT * FROM orders WHERE id < 5")),
        }
    )


if __name__ == "__main__":
    with hw.open(sys.argv[1]) as db:
        made(db)
        print(json.dumps({"spark": db.spark.version, "rows": rows(db)}))
