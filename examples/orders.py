"""Views over orders and their lines: declared once, kept fresh by every change.

Run it with `python examples/orders.py`.
"""

from __future__ import annotations

import tempfile
from datetime import date
from decimal import Decimal

import headwater as hw


def main(folder: str) -> None:
    """Declares two sources and a view, applies three changes, and reads the answers."""
    with hw.open(folder) as db:  # a directory; a local Spark session unless spark= is given
        db.source("orders", "orderkey BIGINT, custkey BIGINT, day DATE")
        db.source("lines", "orderkey BIGINT, part BIGINT, price DECIMAL(12,2)")
        db.view(
            "revenue",
            """SELECT o.custkey, sum(l.price) AS total, avg(l.price) AS mean, count(*) AS n
               FROM orders o JOIN lines l ON o.orderkey = l.orderkey GROUP BY o.custkey""",
        )

        # Rows are tuples or dicts, a pandas frame, an Arrow table or a Spark DataFrame; all are insertions.
        db.apply(
            {
                "orders": [(1, 100, date(2026, 3, 1)), (2, 200, date(2026, 3, 1))],
                "lines": [(1, 7, Decimal("10.00")), (1, 8, Decimal("30.00"))],
            }
        )
        # A line may come before or after its order, and what came in may go again.
        db.apply({"lines": [(2, 7, Decimal("10.00"))]})
        commit = db.apply(
            {
                "orders": [{"orderkey": 3, "custkey": 200, "day": date(2026, 3, 2)}],
                "lines": hw.Delta(
                    inserts=[(3, 9, Decimal("25.50"))], deletes=[(1, 8, Decimal("30.00"))]
                ),
            },
            id="2 March",  # applied once, however often it is sent
        )
        print(f"version {commit.version} took {commit.seconds:.3f} s and changed {commit.changed}")

        db["revenue"].snapshot().orderBy("custkey").show()  # a DataFrame: the answer now,
        db["revenue"].snapshot(version=commit.version - 1).orderBy("custkey").show()  # or before
        db["revenue"].changes(since=commit.version - 1).orderBy("custkey", "_w").show()
        db.verify("revenue")  # recompute from the retained inputs and compare
        print("the view is what its query gives")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
