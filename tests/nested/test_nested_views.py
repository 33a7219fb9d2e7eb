"""Nested views, one behaviour each: what a change does to inner bags, how they are read, and what is refused.

Everything is compared with plain Python after every change, by `beside_lists`. Nothing here needs Spark but what is marked so.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from beside_lists import Beside, opened
from comprehensions import ADDED, BEFORE, RELATED_AFTER, RELATED_BEFORE
from headwater.errors import (
    QueryError,
)


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Beside]:
    yield from opened(tmp_path)


# --- the movies of section 3.1, step by step ----------------------------------------------------------------------


@hw.query
def related(M):
    """For every movie, the others of the same genre or director."""
    return [
        {
            "name": m.name,
            "related": [
                m2.name for m2 in M if m.name != m2.name and (m.gen == m2.gen or m.dir == m2.dir)
            ],
        }
        for m in M
    ]


def movies(b: Beside) -> None:
    b.source("M", "name STRING, gen STRING, dir STRING")
    b.view("related", related)
    b.apply({"M": [dict(m) for m in BEFORE]})


def by_name(b: Beside) -> dict[str, list[str]]:
    return {r["name"]: sorted(r["related"]) for r in b.db.table("related").to_pylist()}


def test_the_movies_before_and_after_jarhead(b: Beside) -> None:
    movies(b)
    assert by_name(b) == {n: sorted(r) for n, r in RELATED_BEFORE}
    assert by_name(b) == {"Drive": [], "Skyfall": ["Rush"], "Rush": ["Skyfall"]}
    b.apply({"M": [dict(m) for m in ADDED]})
    assert by_name(b) == {n: sorted(r) for n, r in RELATED_AFTER}
    assert by_name(b) == {
        "Drive": ["Jarhead"],
        "Skyfall": ["Jarhead", "Rush"],
        "Rush": ["Skyfall"],
        "Jarhead": ["Drive", "Skyfall"],
    }


def test_jarhead_is_a_deep_change_and_no_more(b: Beside) -> None:
    movies(b)
    b.apply({"M": [dict(m) for m in ADDED]})
    label = {
        r["name"]: r["related"] for r in b.db.parts("related")[""].to_pylist()
    }  # the label of each movie's bag
    assert len(set(label.values())) == 4
    table = b.db.changes_table("related", b.db.version - 1)
    assert table.column_names == ["_path", "_label", "row", "related", "_w", "_version"]
    found = {
        (r["_path"], r["_label"], (r["row"] or {}).get("name"), r["related"], r["_w"])
        for r in table.to_pylist()
    }
    assert found == {
        ("", None, "Jarhead", None, 1),
        ("related", label["Drive"], None, "Jarhead", 1),
        ("related", label["Skyfall"], None, "Jarhead", 1),
        ("related", label["Jarhead"], None, "Drive", 1),
        ("related", label["Jarhead"], None, "Skyfall", 1),
    }
    assert table.num_rows == 5


def test_jarhead_goes_and_takes_what_came_with_it(b: Beside) -> None:
    movies(b)
    added = [dict(m) for m in ADDED]
    b.apply({"M": added})
    came = b.changes("related")
    b.apply({"M": hw.Delta(deletes=added)})
    assert b.changes("related") == {(p, label, row, -w) for p, label, row, w in came}
    assert by_name(b) == {n: sorted(r) for n, r in RELATED_BEFORE}


def test_the_parts_of_the_movies(b: Beside) -> None:
    movies(b)
    parts = b.db.parts("related")
    assert set(parts) == {"", "related"}
    assert parts[""].column_names == ["name", "related", "_w"]
    assert parts["related"].column_names == ["_label", "value", "_w"]
    owner = {r["related"]: r["name"] for r in parts[""].to_pylist()}
    inner = [(owner[r["_label"]], r["value"], r["_w"]) for r in parts["related"].to_pylist()]
    assert sorted(inner) == [("Rush", "Skyfall", 1), ("Skyfall", "Rush", 1)]  # Drive's is empty


# --- key nesting and value nesting, example 15 of section 5.2.1 ---------------------------------------------------

KEY_NESTING = """
    SELECT k1, (SELECT collect_list(y.k2) FROM X y WHERE y.k1 = x.k1 AND y.k2 > 2) AS bag FROM X x
"""
VALUE_NESTING = "SELECT k1, collect_list(k2) AS bag FROM X WHERE k2 > 2 GROUP BY k1"
EXAMPLE_15 = {("a", 1): 4, ("b", 2): 3, ("b", 3): 2, ("b", 4): 1}


@hw.query
def key_nesting(X):
    return [{"k1": x.k1, "bag": [y.k2 for y in X if y.k1 == x.k1 and y.k2 > 2]} for x in X]


@hw.query
def value_nesting(X):
    return [
        {"k1": k, "bag": [y.k2 for y in X if y.k1 == k and y.k2 > 2]}
        for k in {x.k1 for x in X if x.k2 > 2}
    ]


def test_key_nesting_keeps_multiplicities_and_empty_bags(b: Beside) -> None:
    b.source("X", "k1 STRING, k2 BIGINT")
    for name, query, means in (
        ("keys", key_nesting, None),
        ("sql_keys", KEY_NESTING, key_nesting),
        ("vals", value_nesting, None),
        ("sql_vals", VALUE_NESTING, value_nesting),
    ):
        b.view(name, query, means)
    b.apply({"X": [{"k1": k, "k2": n} for (k, n), w in EXAMPLE_15.items() for _ in range(w)]})

    def weighted(name: str) -> list[Any]:
        found = b.db.table(name).to_pylist()
        return sorted((r["k1"], sorted(r["bag"]), r["_w"]) for r in found)

    for name in ("keys", "sql_keys"):
        assert weighted(name) == [("a", [], 4), ("b", [3, 3, 4], 6)]
    for name in ("vals", "sql_vals"):
        assert weighted(name) == [("b", [3, 3, 4], 1)]
    # the only 4 goes: of value nesting a row in the bag, of key nesting one of six top rows too
    b.apply({"X": hw.Delta(deletes=[{"k1": "b", "k2": 4}])})
    assert weighted("keys") == [("a", [], 4), ("b", [3, 3], 5)]
    assert {(p, w) for p, _, _, w in b.changes("vals")} == {("bag", -1)}
    assert {(p, w) for p, _, _, w in b.changes("keys")} == {("", -1), ("bag", -1)}
    # all that satisfy the condition go: the group of value nesting goes, the key of key nesting stays
    b.apply({"X": hw.Delta(deletes=[{"k1": "b", "k2": 3}] * 2)})
    assert weighted("keys") == [("a", [], 4), ("b", [], 3)]
    assert weighted("sql_vals") == []


# --- labels and owners --------------------------------------------------------------------------------------------


@hw.query
def customers(customer, orders):
    return [
        {"name": c.name, "orders": [{"item": o.item} for o in orders if o.custkey == c.custkey]}
        for c in customer
    ]


ORDERS = """
    SELECT name, (SELECT collect_list(struct(o.item)) FROM orders o WHERE o.custkey = c.custkey) AS orders
    FROM customer c
"""


@pytest.fixture
def shop(b: Beside) -> Beside:
    b.source("customer", "custkey BIGINT, name STRING")
    b.source("orders", "custkey BIGINT, item STRING")
    b.view("v", customers)
    b.view("s", ORDERS, customers)
    return b


def customer(key: int, name: str = "ann") -> dict[str, Any]:
    return {"custkey": key, "name": name}


def order(key: int, item: str) -> dict[str, Any]:
    return {"custkey": key, "item": item}


def test_two_equal_customers_do_not_double_their_orders(shop: Beside) -> None:
    shop.apply({"customer": [customer(1)] * 2, "orders": [order(1, "pen"), order(1, "cup")]})
    (row,) = shop.db.table("v").to_pylist()
    assert (len(row["orders"]), row["_w"]) == (2, 2)
    inner = shop.db.parts("v")["orders"].to_pylist()
    assert sorted((r["item"], r["_w"]) for r in inner) == [("cup", 1), ("pen", 1)]
    shop.apply({"orders": [order(1, "pen")]})
    assert [(p, w) for p, _, _, w in shop.changes("v")] == [("orders", 1)]
    shop.apply({"customer": hw.Delta(deletes=[customer(1)])})  # one of two goes: its bag stays
    assert [(p, w) for p, _, _, w in shop.changes("v")] == [("", -1)]
    shop.apply({"customer": hw.Delta(deletes=[customer(1)])})
    assert sorted((p, w) for p, _, _, w in shop.changes("v")) == [
        ("", -1),
        ("orders", -2),
        ("orders", -1),
    ]


def test_two_owners_with_equal_bags_have_two_bags(shop: Beside) -> None:
    shop.apply(
        {
            "customer": [customer(1), customer(2, "bob")],
            "orders": [order(1, "pen"), order(2, "pen")],
        }
    )
    assert len({r["orders"] for r in shop.db.parts("v")[""].to_pylist()}) == 2
    shop.apply({"orders": hw.Delta([order(2, "cup")], [order(2, "pen")])})
    assert {
        r["name"]: [o["item"] for o in r["orders"]] for r in shop.db.table("v").to_pylist()
    } == {
        "ann": ["pen"],
        "bob": ["cup"],
    }
    assert len({label for _, label, _, _ in shop.changes("v")}) == 1


def test_equal_rows_with_different_bags_stay_apart(shop: Beside) -> None:
    """Two customers of one name: what is shown is equal, and what determines the bags is not."""
    shop.apply({"customer": [customer(1), customer(2)], "orders": [order(1, "pen")]})
    shop.apply({"customer": [customer(2)], "orders": [order(2, "pen")]})
    assert [r["_w"] for r in shop.db.table("v").to_pylist()] in ([1, 2], [2, 1])
    with pytest.raises(QueryError, match="2 different rows of `v` have the key") as caught:
        shop.db.lookup("v", ["ann"])
    assert "columns that tell its rows apart" in str(caught.value)


def test_an_owner_that_comes_after_its_rows_gets_its_whole_bag(shop: Beside) -> None:
    shop.apply({"orders": [order(1, "pen"), order(1, "pen"), order(1, "cup"), order(2, "hat")]})
    assert not shop.changes("v")
    assert not shop.db.parts("v")["orders"].num_rows  # nobody has these bags yet
    shop.apply({"customer": [customer(1)]})
    assert sorted((p, dict(row).get("item"), w) for p, _, row, w in shop.changes("v")) == [
        ("", None, 1),
        ("orders", "cup", 1),
        ("orders", "pen", 2),
    ]


def test_an_owner_and_its_rows_come_and_go_together(shop: Beside) -> None:
    both = {"customer": [customer(1)], "orders": [order(1, "pen")]}
    shop.apply(both)
    came = shop.changes("v")
    shop.apply({n: hw.Delta(deletes=rows) for n, rows in both.items()})
    assert shop.changes("v") == {(p, label, row, -w) for p, label, row, w in came}
    shop.apply(both)
    assert shop.changes("v") == came


def test_an_owner_that_goes_and_comes_back_has_what_is_there_now(shop: Beside) -> None:
    shop.apply({"customer": [customer(1)], "orders": [order(1, "pen")]})
    shop.apply({"customer": hw.Delta(deletes=[customer(1)])})
    assert sorted((p, w) for p, _, _, w in shop.changes("v")) == [("", -1), ("orders", -1)]
    shop.apply({"orders": hw.Delta([order(1, "cup"), order(1, "hat")], [order(1, "pen")])})
    assert not shop.changes("v")  # nobody has the bag
    shop.apply({"customer": [customer(1)]})
    assert sorted(dict(row).get("item", "") for _, _, row, _ in shop.changes("v")) == [
        "",
        "cup",
        "hat",
    ]


def test_an_owner_that_changes_name_keeps_its_bag(shop: Beside) -> None:
    shop.apply({"customer": [customer(1)], "orders": [order(1, "pen")]})
    shop.apply({"customer": hw.Delta([customer(1, "eve")], [customer(1)])})
    assert sorted((p, w) for p, _, _, w in shop.changes("v")) == [("", -1), ("", 1)]


def test_an_owner_that_is_deleted_and_inserted_at_once_is_no_change(shop: Beside) -> None:
    shop.apply({"customer": [customer(1)], "orders": [order(1, "pen")]})
    shop.apply({"customer": hw.Delta([customer(1)], [customer(1)])})
    assert not shop.changes("v")


def test_null_is_no_key_in_sql_and_one_in_python(shop: Beside) -> None:
    nobody = {"custkey": None, "name": "nobody"}
    shop.means["s"] = (
        (lambda customer: [{"name": c.name, "orders": []} for c in customer]),
        ("customer",),
    )
    shop.apply({"customer": [nobody], "orders": [{"custkey": None, "item": "pen"}]})
    assert [len(r["orders"]) for n in ("v", "s") for r in shop.db.table(n).to_pylist()] == [1, 0]
    assert not shop.db.parts("s")["orders"].num_rows
    shop.apply({"customer": hw.Delta(deletes=[nobody])})


def test_labels_are_told_apart_whatever_the_values_are(b: Beside) -> None:
    """Names with quotes and commas, the text NULL and NULL itself: every bag has a label of its own."""
    b.source("a", "x STRING, y STRING")
    b.source("b", "x STRING, y STRING, z BIGINT")

    @hw.query
    def pairs(a, b):
        return [
            {"x": r.x, "y": r.y, "zs": [s.z for s in b if s.x == r.x and s.y == r.y]} for r in a
        ]

    b.view("v", pairs)
    texts = ["", "'", "', '", "\\", "\\'", "NULL", "a", "é", "(", ")"]
    rows = [{"x": x, "y": y} for x in texts for y in texts]
    b.apply({"a": rows, "b": [{**r, "z": i} for i, r in enumerate(rows)]})
    top = b.db.parts("v")[""].to_pylist()
    assert len({r["zs"] for r in top}) == len(rows) == len(top)
    b.apply({"b": hw.Delta(deletes=[{**rows[7], "z": 7}])})
    assert len(b.changes("v")) == 1


@pytest.mark.parametrize(
    ("ddl", "values"),
    [
        ("DATE", ["2024-01-31", "2024-02-01"]),
        ("TIMESTAMP", ["2024-01-31 10:00:00.000001", "2024-01-31 10:00:00"]),
        ("DECIMAL(10,2)", ["1.10", "-1.10"]),
        ("DOUBLE", ["1.5", "-2.25"]),
        ("BOOLEAN", ["true", "false"]),
        ("BINARY", ["ab", "cd"]),
        ("STRUCT<p: BIGINT, q: STRING>", [(1, "a"), (2, None)]),
    ],
)
def test_labels_of_all_types(b: Beside, ddl: str, values: list[Any]) -> None:
    b.source("a", f"k {ddl}, n BIGINT")
    b.source("b", f"k {ddl}, z BIGINT")

    @hw.query
    def by_k(a, b):
        return [{"n": r.n, "zs": [s.z for s in b if s.k == r.k]} for r in a]

    b.view("v", by_k)
    keys = [_value(ddl, v) for v in values]
    b.apply(
        {
            "a": [{"k": k, "n": i} for i, k in enumerate(keys)],
            "b": [{"k": k, "z": 10 * i} for i, k in enumerate(keys)],
        }
    )
    assert len({r["zs"] for r in b.db.parts("v")[""].to_pylist()}) == len(values)
    b.apply({"b": [{"k": keys[1], "z": 7}]})
    assert [(p, w) for p, _, _, w in b.changes("v")] == [("zs", 1)]


def _value(ddl: str, text: Any) -> Any:
    match ddl:
        case "DATE":
            return date.fromisoformat(text)
        case "TIMESTAMP":
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        case "DOUBLE":
            return float(text)
        case "BOOLEAN":
            return text == "true"
        case "BINARY":
            return text.encode()
        case _ if ddl.startswith("DECIMAL"):
            return Decimal(text)
        case _:
            return {"p": text[0], "q": text[1]}
