"""Customers with their orders inside, and a view whose inner bags are changed in place.

A change is addressed to an inner bag by its owner's key; inner rows come out, and nothing else.
"""

from __future__ import annotations

import tempfile
from typing import Any

import headwater as hw
from headwater.errors import MissingOwner

CUSTOMERS = """id BIGINT, name STRING, orders ARRAY<STRUCT<
    number: BIGINT, day: STRING, items: ARRAY<STRUCT<item: STRING, pieces: BIGINT>>>>"""
PEOPLE = [
    {
        "id": 1,
        "name": "Ann",
        "orders": [{"number": 10, "day": "Mon", "items": [{"item": "lamp", "pieces": 1}]}],
    },
]


@hw.query
def spending(customers: Any, prices: Any) -> Any:
    """Every customer with the items that they ordered, and what each costs."""
    return [
        {
            "name": c.name,
            "items": [
                {"day": o.day, "item": i.item, "cost": i.pieces * p.price}
                for o in c.orders for i in o.items for p in prices if p.item == i.item
            ],
        }
        for c in customers
    ]  # fmt: skip


def main(folder: str) -> None:
    """A customer, two more lamps in her order, another price, and an order for nobody."""
    with hw.open(folder) as db:
        db.source("customers", CUSTOMERS, key=["id", "orders.number"])
        db.source("prices", "item STRING, price BIGINT")
        db.view("spending", spending)
        db.apply({"customers": PEOPLE, "prices": [("cup", 4), ("lamp", 120)]})
        more = [{"id": 1, "number": 10, "item": "lamp", "pieces": 2}]
        cheaper = hw.Delta(inserts=[("lamp", 80)], deletes=[("lamp", 120)])
        for change in ({"customers.orders.items": more}, {"prices": cheaper}):
            for r in db.changes_table("spending", db.apply(change).version - 1).to_pylist():
                print(f"{r['_w']:+d} in {r['_label']}: {r[r['_path']]}")
        print(db["spending"].lookup("Ann"))
        try:
            db.apply({"customers.orders": [{"id": 3, "number": 11, "day": "Tue", "items": []}]})
        except MissingOwner as e:
            print(e)


if __name__ == "__main__":
    main(tempfile.mkdtemp())
