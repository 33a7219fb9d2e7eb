"""A bill of materials: what everything costs with the parts of its parts, as uses and prices change.

WITH RECURSIVE is that of Spark 4.1 and of the standard. The view follows insertions and deletions at any depth, and only what
a change reaches is computed. Run it with `python examples/parts.py`.
"""

from __future__ import annotations

import tempfile
from decimal import Decimal

import headwater as hw

COST = """
WITH RECURSIVE bill (assembly, part, qty) MAX RECURSION LEVEL 30 AS (
  SELECT assembly, part, qty FROM uses UNION ALL
  SELECT b.assembly, u.part, b.qty * u.qty FROM bill b JOIN uses u ON u.assembly = b.part)
SELECT b.assembly, sum(b.qty * p.price) AS cost
FROM bill b JOIN prices p ON p.part = b.part GROUP BY b.assembly
"""
USES = [
    ("bike", "wheel", 2),
    ("bike", "frame", 1),
    ("wheel", "spoke", 32),
    ("wheel", "rim", 1),
    ("trailer", "wheel", 2),
]


def main(folder: str) -> None:
    """One view; then a price, a part that is replaced, and a part that would be in itself."""
    with hw.open(folder) as db:
        db.source("uses", "assembly STRING, part STRING, qty BIGINT")
        db.source("prices", "part STRING, price DECIMAL(10,2)", key="part")
        db.view("cost", COST)
        prices = {"spoke": "0.40", "rim": "31.00", "frame": "240.00"}
        db.apply({"uses": USES, "prices": [(p, Decimal(c)) for p, c in prices.items()]})
        tell(db, "at first")
        cheaper = hw.Delta(
            inserts=[("spoke", Decimal("0.25"))], deletes=[("spoke", Decimal("0.40"))]
        )
        db.apply({"prices": cheaper})
        tell(db, "cheaper spokes")
        fewer = hw.Delta(inserts=[("wheel", "spoke", 28)], deletes=[("wheel", "spoke", 32)])
        db.apply({"uses": fewer})
        tell(db, "28 spokes a wheel")
        try:
            db.apply({"uses": [("rim", "bike", 1)]})
        except hw.HeadwaterError as e:
            print(f"a bike in its own rim: {type(e).__name__}, and nothing is changed")
        tell(db, "as before")


def tell(db: hw.Database, when: str) -> None:
    rows = sorted((r["assembly"], str(r["cost"])) for r in db.table("cost").to_pylist())
    print(f"{when}: " + ", ".join(f"{name} {cost}" for name, cost in rows))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
