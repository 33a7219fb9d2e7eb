"""A report as people write them: an outer join, a scalar subquery, a window, and the first of each group.

All of it is kept; only the rows that a change matters for are looked at. `can` says beforehand what a query would
cost. Run it with `python examples/report.py`.
"""

from __future__ import annotations

import tempfile

import headwater as hw

REPORT = """
SELECT r.region, s.shop, coalesce(sum(s.amount), 0) AS total,
       coalesce(sum(s.amount), 0) * 100 / (SELECT sum(amount) FROM sales) AS percent,
       rank() OVER (PARTITION BY r.region ORDER BY sum(s.amount) DESC) AS place
FROM regions r LEFT JOIN sales s ON s.shop = r.shop
GROUP BY r.region, s.shop
"""
BEST = """
SELECT shop, item, amount FROM sales
QUALIFY row_number() OVER (PARTITION BY shop ORDER BY amount DESC, item) <= 2
"""


def main(folder: str) -> None:
    """Two views, some sales, and what a return of one of them changes."""
    with hw.open(folder) as db:
        db.source("regions", "shop STRING, region STRING")
        db.source("sales", "shop STRING, item STRING, amount BIGINT")
        print(db.can(BEST))
        db.view("report", REPORT)
        db.view("best", BEST)
        db.apply(
            {
                "regions": [("ann", "north"), ("bob", "north"), ("cid", "south")],
                "sales": [
                    ("ann", "tea", 30),
                    ("ann", "rum", 50),
                    ("ann", "ale", 10),
                    ("bob", "tea", 60),
                ],
            }
        )
        sold = db.apply({"sales": hw.Delta(deletes=[("ann", "rum", 50)])})
        for name in ("report", "best"):
            for row in db.changes_table(name, sold.version - 1).to_pylist():
                print(name, {n: v for n, v in row.items() if n != "_version"})
        db.verify()
        print("both are what Spark gives")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
