"""A join and a group by, written by hand as stages, beside the views that say the same in SQL.

With `changes=True` a row has its weight, `_w`, which is negative where it goes again: so deletions pass through code of
one's own. Run it with `python examples/by_hand.py`.
"""

from __future__ import annotations

import tempfile
from typing import Any

import headwater as hw
from headwater import flow

SOURCES = {"orders": "id INT, customer STRING", "lines": "order_id INT, price INT"}
VIEWS = {
    "joined_sql": "SELECT o.customer, l.price FROM orders o JOIN lines l ON o.id = l.order_id",
    "totals_sql": "SELECT customer, count(*) AS n, sum(price) AS total FROM joined_sql GROUP BY customer",
}


@flow.stage(
    flow.reads("orders", by="id", changes=True),
    flow.reads("lines", by="order_id", changes=True),
    runnable=flow.any_input(),
    state={"orders": flow.bag("customer STRING"), "lines": flow.bag("price INT")},
    out="customer STRING, price INT",
    retain=True,  # to be looked at, too; else what only stages read is gone when they have read it
)
def joined(key, orders, lines, state):
    for o in orders:  # Δo ⋈ l
        yield from ((o.customer, line.price, o._w * line._w) for line in state.lines)
    state.orders.add(orders)
    for line in lines:  # (o + Δo) ⋈ Δl
        yield from ((o.customer, line.price, o._w * line._w) for o in state.orders)
    state.lines.add(lines)


@flow.stage(
    flow.reads("joined", by="customer", changes=True),
    state="n BIGINT, total BIGINT",
    out="customer STRING, n BIGINT, total BIGINT",
)
def totals(customer, joined, state):
    if state.n:
        yield customer, state.n, state.total, -1  # the old answer goes
    state.n = (state.n or 0) + sum(j._w for j in joined)
    state.total = (state.total or 0) + sum(j._w * j.price for j in joined)
    if state.n:
        yield customer, state.n, state.total
    else:
        state.clear()


STAGES = [joined, totals]


def define(db: hw.Database) -> None:
    """Two sources, the stages, and the views."""
    for name, columns in SOURCES.items():
        db.source(name, columns)
    for stage in STAGES:
        db.stage(stage)
    for name, query in VIEWS.items():
        db.view(name, query)


def rows(db: hw.Database, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in db.table(name).to_pylist())


def main(folder: str) -> None:
    """Four increments; the last takes an order and a line back."""
    with hw.open(folder) as db:
        define(db)
        for change in (
            {"orders": [(1, "ann"), (2, "bob")]},
            {"lines": [(1, 10), (1, 30), (2, 5)]},
            {"orders": [(3, "ann")], "lines": [(3, 7), (4, 9)]},
            {
                "orders": hw.Delta(deletes=[(2, "bob")]),
                "lines": hw.Delta(inserts=[(3, 8)], deletes=[(1, 30)]),
            },
        ):
            db.apply(change)
            db.run()
            assert rows(db, "joined") == rows(db, "joined_sql")
            assert rows(db, "totals") == rows(db, "totals_sql")
            print(
                "by hand and in SQL:",
                *(f"{c} {n}: {total}" for c, n, total, _ in rows(db, "totals")),
            )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
