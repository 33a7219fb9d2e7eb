"""Nested queries, a feature each, kept up to date through insertions and deletions at every level.

Each query is a comprehension, so it is also its own check: after every change the view is what the function gives when it
runs on lists, by either strategy, defined before the data or after. Inputs are flat, keyed and nested, or nested with no
key, where arrays are whole cells.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from beside_lists import Beside

# --- inputs -------------------------------------------------------------------------------------------------------

SOURCES: dict[str, tuple[str, Any]] = {
    "dept": ("d BIGINT, city STRING", None),
    "emp": ("e BIGINT, d BIGINT, name STRING, pay BIGINT", None),
    "task": ("e BIGINT, hours BIGINT, what STRING", None),
    "shop": (
        "s BIGINT, city STRING, tags ARRAY<STRING>, "
        "orders ARRAY<STRUCT<o: BIGINT, day: BIGINT, lines: ARRAY<STRUCT<item: STRING, qty: BIGINT>>>>",
        ["s", "orders.o"],
    ),
    "book": (
        "b BIGINT, city STRING, words ARRAY<STRING>, "
        "pages ARRAY<STRUCT<n: BIGINT, notes: ARRAY<STRUCT<item: STRING, qty: BIGINT>>>>",
        None,
    ),
}
CITIES = ["Rome", "Oslo", "Bern"]


class Data:
    """Draws rows and changes of the inputs; keys are few, so that rows meet."""

    def __init__(self, seed: str):
        self.random = random.Random(seed)

    def n(self, most: int) -> int:
        return self.random.randrange(most)

    def city(self) -> str:
        return self.random.choice(CITIES)

    def pairs(self) -> list[Any]:
        return [{"item": f"i{self.n(3)}", "qty": self.n(4)} for _ in range(self.n(3))]

    def row(self, source: str) -> Any:
        match source:
            case "dept":
                return {"d": self.n(4), "city": self.city()}
            case "emp":
                return {
                    "e": self.n(6),
                    "d": self.n(4),
                    "name": f"n{self.n(4)}",
                    "pay": 10 * self.n(4),
                }
            case "task":
                return {"e": self.n(6), "hours": self.n(4), "what": f"w{self.n(3)}"}
            case "shop":
                return {
                    "s": self.n(5),
                    "city": self.city(),
                    "tags": self.tags(),
                    "orders": self.orders(),
                }
            case _:
                pages = [{"n": self.n(3), "notes": self.pairs()} for _ in range(self.n(3))]
                return {"b": self.n(4), "city": self.city(), "words": self.tags(), "pages": pages}

    def tags(self) -> Any:
        return None if not self.n(5) else [f"t{self.n(4)}" for _ in range(self.n(3))]

    def orders(self) -> Any:
        if not self.n(6):
            return None
        keys = self.random.sample(range(4), self.n(3))
        return [{"o": o, "day": self.n(3), "lines": self.pairs()} for o in keys]

    def change(self, source: str, rows: list[Any]) -> hw.Delta:
        """A few rows to come and go; keys of keyed rows stay different."""
        gone = self.random.sample(rows, min(len(rows), self.n(3)))
        come = [self.row(source) for _ in range(self.n(4))]
        if source == "shop":
            taken = {r["s"] for r in rows} - {r["s"] for r in gone}
            fresh: dict[int, Any] = {}
            for r in come:
                if r["s"] not in taken:
                    fresh.setdefault(r["s"], r)
            come = list(fresh.values())
        return hw.Delta(come, gone)

    def deep(self, shops: list[Any]) -> dict[str, hw.Delta]:
        """A change deep in one shop."""
        out: dict[str, hw.Delta] = {}
        having = [s for s in shops if s["orders"] is not None]
        if not having:
            return out
        shop = self.random.choice(having)
        known = {o["o"] for o in shop["orders"]}
        new = self.n(4)
        if new not in known:
            row = {"s": shop["s"], "o": new, "day": self.n(3), "lines": self.pairs()}
            out["shop.orders"] = hw.Delta([row])
        if shop["orders"]:
            order = self.random.choice(shop["orders"])
            at = {"s": shop["s"], "o": order["o"]}
            gone = [{**at, **r} for r in order["lines"][:1]]
            come = [{**at, **r} for r in self.pairs()]
            out["shop.orders.lines"] = hw.Delta(come, gone)
        return out


def story(b: Beside, data: Data, steps: int) -> None:
    """Changes of all inputs that the database has, some of them deep."""
    for step in range(steps):
        changes = {n: data.change(n, b.data[n]) for n in b.data if data.n(4)}
        if step % 2 and "shop" in b.data:
            changes = data.deep(b.data["shop"])
            if changes.get("shop.orders"):
                b.apply({"shop.orders": changes.pop("shop.orders")})
        b.apply(changes)


# --- features -------------------------------------------------------------------------------------------------------

FEATURES: dict[str, Any] = {}


def feature(f: Callable[..., Any]) -> Callable[..., Any]:
    FEATURES[f.__name__] = hw.query(f)
    return f


@feature
def equal_keys(dept, emp):
    return [{"city": d.city, "staff": [e.name for e in emp if e.d == d.d]} for d in dept]


@feature
def two_keys(dept, emp):
    return [
        {"d": d.d, "staff": [{"n": e.name} for e in emp if e.d == d.d and e.name == d.city]}
        for d in dept
    ]


@feature
def less_than(dept, emp):
    return [{"d": d.d, "staff": [e.name for e in emp if e.d < d.d]} for d in dept]


@feature
def either(dept, emp):
    return [{"d": d.d, "staff": [e.name for e in emp if e.d == d.d or e.e == d.d]} for d in dept]


@feature
def unequal(dept, emp):
    return [
        {"d": d.d, "staff": [{"n": e.name, "p": e.pay} for e in emp if e.d != d.d]} for d in dept
    ]


@feature
def equal_and_less(dept, emp):
    return [{"d": d.d, "staff": [e.name for e in emp if e.d == d.d and e.e > d.d]} for d in dept]


@feature
def computed_key(dept, emp):
    return [{"d": d.d, "staff": [e.name for e in emp if e.d + 1 == d.d * 2]} for d in dept]


@feature
def uncorrelated(dept, emp):
    return [{"d": d.d, "all": [e.name for e in emp]} for d in dept]


@feature
def uncorrelated_filtered(dept, emp):
    return [{"d": d.d, "all": [e.name for e in emp if e.pay > 10]} for d in dept if d.d > 0]


@feature
def outer_in_rows(dept, emp):
    return [
        {
            "d": d.d,
            "staff": [{"c": d.city, "n": e.name, "x": e.pay + d.d} for e in emp if e.d == d.d],
        }
        for d in dept
    ]


@feature
def outer_condition(dept, emp):
    return [
        {"d": d.d, "staff": [e.name for e in emp if e.d == d.d and d.city == "Rome"]} for d in dept
    ]


@feature
def three_deep(dept, emp, task):
    return [
        {
            "city": d.city,
            "staff": [
                {"n": e.name, "tasks": [{"w": t.what, "h": t.hours} for t in task if t.e == e.e]}
                for e in emp
                if e.d == d.d
            ],
        }
        for d in dept
    ]


@feature
def inner_reads_two_levels(dept, emp, task):
    return [
        {
            "d": d.d,
            "staff": [
                {"n": e.name, "tasks": [t.what for t in task if t.e == e.e and t.hours == d.d]}
                for e in emp
                if e.d == d.d
            ],
        }
        for d in dept
    ]


@feature
def inner_less_than_both(dept, emp, task):
    return [
        {
            "d": d.d,
            "staff": [
                {"n": e.name, "tasks": [t.what for t in task if t.e <= e.e and t.hours < d.d]}
                for e in emp
                if e.d == d.d
            ],
        }
        for d in dept
    ]


@feature
def inner_reads_outermost_only(dept, emp, task):
    return [
        {
            "d": d.d,
            "staff": [
                {"n": e.name, "tasks": [t.what for t in task if t.hours == d.d]}
                for e in emp
                if e.pay > 0
            ],
        }
        for d in dept
    ]


@feature
def inner_join(dept, emp, task):
    return [
        {
            "d": d.d,
            "work": [(e.name, t.what) for e in emp for t in task if e.d == d.d and t.e == e.e],
        }
        for d in dept
    ]


@feature
def two_bags(dept, emp, task):
    return [
        {
            "d": d.d,
            "staff": [e.name for e in emp if e.d == d.d],
            "hours": [t.hours for t in task if t.e == d.d],
        }
        for d in dept
    ]


@feature
def same_bag_twice(dept, emp):
    return [
        {
            "a": [e.name for e in emp if e.d == d.d],
            "d": d.d,
            "b": [e.name for e in emp if e.d == d.d],
        }
        for d in dept
    ]


@feature
def only_a_bag(dept, emp):
    return [{"staff": [e.name for e in emp if e.d == d.d]} for d in dept]


@feature
def bare_lists(dept, emp):
    return [[e.name for e in emp if e.d == d.d] for d in dept]


@feature
def lists_of_lists(dept, emp, task):
    return [
        {"d": d.d, "staff": [[t.what for t in task if t.e == e.e] for e in emp if e.d == d.d]}
        for d in dept
    ]


@feature
def record_with_a_bag(dept, emp):
    return [
        {"d": d.d, "info": {"city": d.city, "staff": [e.name for e in emp if e.d == d.d]}}
        for d in dept
    ]


@feature
def record_in_inner_rows(dept, emp, task):
    return [
        {
            "d": d.d,
            "staff": [
                {
                    "who": {"n": e.name, "p": e.pay},
                    "did": {"tasks": [t.what for t in task if t.e == e.e], "e": e.e},
                }
                for e in emp
                if e.d == d.d
            ],
        }
        for d in dept
    ]


@feature
def whole_rows_inside(dept, emp):
    return [{"dept": d, "staff": [e for e in emp if e.d == d.d]} for d in dept]


@feature
def inner_set(dept, emp):
    return [{"d": d.d, "names": {e.name for e in emp if e.d == d.d}} for d in dept]


@feature
def inner_set_less_than(dept, emp):
    return [{"d": d.d, "names": {e.name for e in emp if e.d < d.d}} for d in dept]


@feature
def inner_groups(dept, emp):
    return [
        {
            "d": d.d,
            "by": [
                {"name": n, "pay": sum(e.pay for e in emp if e.d == d.d and e.name == n)}
                for n in {e.name for e in emp if e.d == d.d}
            ],
        }
        for d in dept
    ]


@feature
def groups_of_groups(emp):
    return [
        {
            "d": k,
            "names": [
                {"n": n, "pays": [e.pay for e in emp if e.d == k and e.name == n]}
                for n in {e.name for e in emp if e.d == k}
            ],
        }
        for k in {e.d for e in emp}
    ]


@feature
def inner_sum(dept, emp, task):
    return [
        {
            "d": d.d,
            "staff": [
                {"n": e.name, "h": sum(t.hours for t in task if t.e == e.e)}
                for e in emp
                if e.d == d.d
            ],
        }
        for d in dept
    ]


@feature
def inner_len(dept, emp, task):
    return [
        {
            "d": d.d,
            "staff": [
                {"n": e.name, "k": len([t for t in task if t.e == e.e])} for e in emp if e.d == d.d
            ],
        }
        for d in dept
    ]


@feature
def inner_min(dept, emp, task):
    return [
        {
            "d": d.d,
            "staff": [
                {"n": e.name, "m": min((t.hours for t in task if t.e == e.e), default=-1)}
                for e in emp
                if e.d == d.d
            ],
        }
        for d in dept
    ]


@feature
def top_aggregates_beside_a_bag(dept, emp):
    return [
        {
            "d": d.d,
            "n": len([e for e in emp if e.d == d.d]),
            "pay": sum(e.pay for e in emp if e.d == d.d),
            "staff": [e.name for e in emp if e.d == d.d],
        }
        for d in dept
    ]


@feature
def aggregate_across_levels(dept, emp, task):
    return [
        {
            "d": d.d,
            "hours": sum(t.hours for e in emp for t in task if e.d == d.d and t.e == e.e),
            "staff": [e.name for e in emp if e.d == d.d],
        }
        for d in dept
    ]


@feature
def any_inside(dept, emp, task):
    return [
        {
            "d": d.d,
            "busy": [
                e.name for e in emp if e.d == d.d and any(t.hours > 2 for t in task if t.e == e.e)
            ],
        }
        for d in dept
    ]


@feature
def all_inside(dept, emp, task):
    return [
        {
            "d": d.d,
            "calm": [
                e.name for e in emp if e.d == d.d and all(t.hours < 2 for t in task if t.e == e.e)
            ],
        }
        for d in dept
    ]


@feature
def any_of_top(dept, emp):
    return [
        {"d": d.d, "staff": [e.name for e in emp if e.d == d.d]}
        for d in dept
        if any(e.pay > 10 for e in emp if e.d == d.d)
    ]


@feature
def all_of_top(dept, emp):
    return [
        {"d": d.d, "staff": [e.name for e in emp if e.d == d.d]}
        for d in dept
        if all(e.pay > 0 for e in emp if e.d == d.d)
    ]


@feature
def chosen_bag(dept, emp, task):
    return [
        {
            "d": d.d,
            "bag": [e.name for e in emp if e.d == d.d]
            if d.city == "Rome"
            else [t.what for t in task if t.e == d.d],
        }
        for d in dept
    ]


@feature
def empty_or_bag(dept, emp):
    return [
        {"d": d.d, "bag": [e.name for e in emp if e.d == d.d] if d.city == "Rome" else []}
        for d in dept
    ]


@feature
def union_of_nested(dept, emp, task):
    return [{"k": d.d, "bag": [e.name for e in emp if e.d == d.d]} for d in dept] + [
        {"k": e.e, "bag": [t.what for t in task if t.e == e.e]} for e in emp
    ]


@feature
def union_inside(dept, emp, task):
    return [
        {
            "d": d.d,
            "bag": [e.name for e in emp if e.d == d.d] + [t.what for t in task if t.e == d.d],
        }
        for d in dept
    ]


@feature
def distinct_owners(emp, task):
    return [{"n": n, "es": [e.e for e in emp if e.name == n]} for n in {e.name for e in emp}]


@feature
def self_nesting(emp):
    return [{"e": a.e, "peers": [b.name for b in emp if a.d == b.d and a.e != b.e]} for a in emp]


# --- keyed nested input ---------------------------------------------------------------------------------------------


@feature
def source_through(shop):
    return [{"s": s.s, "tags": s.tags, "orders": s.orders} for s in shop]


@feature
def source_whole(shop):
    return [s for s in shop]


@feature
def source_flat(shop):
    return [
        {"s": s.s, "day": o.day, "item": x.item, "qty": x.qty}
        for s in shop
        if s.orders is not None
        for o in s.orders
        for x in o.lines
    ]


@feature
def source_inverted(shop):
    return [
        {
            "item": i,
            "at": [
                {"s": s.s, "q": x.qty}
                for s in shop
                if s.orders is not None
                for o in s.orders
                for x in o.lines
                if x.item == i
            ],
        }
        for i in {x.item for s in shop if s.orders is not None for o in s.orders for x in o.lines}
    ]


@feature
def source_filtered_inside(shop):
    return [
        {
            "s": s.s,
            "orders": [
                {"o": o.o, "big": [x.item for x in o.lines if x.qty > 1]}
                for o in s.orders
                if o.day > 0
            ],
        }
        for s in shop
        if s.orders is not None
    ]


@feature
def source_joined(shop, dept):
    return [
        {"d": d.d, "shops": [{"s": s.s, "orders": s.orders} for s in shop if s.city == d.city]}
        for d in dept
    ]


@feature
def source_sums(shop):
    return [
        {
            "s": s.s,
            "n": sum(x.qty for o in s.orders for x in o.lines),
            "orders": [
                {"o": o.o, "n": sum(x.qty for x in o.lines), "k": len(o.lines)} for o in s.orders
            ],
        }
        for s in shop
        if s.orders is not None
    ]


@feature
def source_any(shop):
    return [
        {"s": s.s, "good": [o.o for o in s.orders if all(x.qty > 0 for x in o.lines)]}
        for s in shop
        if s.orders is not None and any(o.day > 0 for o in s.orders)
    ]


@feature
def source_items_of_other_rows(shop):
    return [
        {
            "s": s.s,
            "same": [t.s for t in shop if t.city == s.city and t.s != s.s],
            "tags": [g for g in s.tags],
        }
        for s in shop
        if s.tags is not None
    ]


@feature
def source_sets(shop):
    return [
        {"s": s.s, "items": {x.item for o in s.orders for x in o.lines}}
        for s in shop
        if s.orders is not None
    ]


# --- nested input without a key: arrays are whole -------------------------------------------------------------------


@feature
def whole_through(book):
    return [{"b": b.b, "words": b.words, "pages": b.pages} for b in book]


@feature
def whole_flat(book):
    return [{"b": b.b, "n": p.n, "item": x.item} for b in book for p in b.pages for x in p.notes]


@feature
def whole_rebuilt(book):
    return [
        {
            "b": b.b,
            "pages": [{"n": p.n, "big": [x.item for x in p.notes if x.qty > 1]} for p in b.pages],
        }
        for b in book
    ]


@feature
def whole_inside(dept, book):
    return [
        {"d": d.d, "books": [{"b": b.b, "pages": b.pages} for b in book if b.city == d.city]}
        for d in dept
    ]


@feature
def whole_sums(book):
    return [
        {"b": b.b, "n": sum(x.qty for p in b.pages for x in p.notes), "k": len(b.pages)}
        for b in book
    ]


@feature
def whole_any(book):
    return [
        {"b": b.b, "city": b.city}
        for b in book
        if b.words is not None and any(w == "t1" for w in b.words) and all(p.n > 0 for p in b.pages)
    ]


@feature
def whole_len_beside_a_bag(book):
    return [
        {"b": b.b, "k": len(b.pages), "ns": [{"n": p.n, "k": len(p.notes)} for p in b.pages]}
        for b in book
    ]


@feature
def whole_set(book):
    return [{"b": b.b, "items": {x.item for p in b.pages for x in p.notes}} for b in book]


@feature
def whole_inverted(book):
    return [
        {"n": n, "books": [b.b for b in book for p in b.pages if p.n == n]}
        for n in {p.n for b in book for p in b.pages}
    ]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Beside]]:
    """Makes databases with the inputs that a query reads."""
    opened: list[Beside] = []

    def make(query: Any, name: str = "db") -> Beside:
        b = Beside(tmp_path / name)
        opened.append(b)
        for n in query.inputs:
            ddl, key = SOURCES[n]
            b.source(n, ddl, key=key)
        return b

    yield make
    for b in opened:
        b.db.close()


OTHER = {"recursive": "first-order", "first-order": "recursive"}


# Every third here; all of them with `make test-all`.
SHARE = [
    n if i % 3 == 0 else pytest.param(n, marks=pytest.mark.slow) for i, n in enumerate(FEATURES)
]


@pytest.mark.parametrize("name", SHARE)
def test_a_feature_through_changes(name: str, made: Callable[..., Beside]) -> None:
    query = FEATURES[name]
    b, data = made(query), Data(name)
    b.view("v", query)
    b.view("other", query, strategy=OTHER[b.db.catalog.views["v"].kept])
    story(b, data, 4)
    b.view("late", query)
    story(b, data, 2)
    b.check_past("v")
    b.reopened()
