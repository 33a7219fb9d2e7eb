"""docs/from_scratch.md is a program: its code blocks run in order, and what they build is what recomputing gives.

Changes are drawn at random, insertions and deletions mixed. Reports are compared with plain loops over lists; joins of
several shapes with a product of all rows, which reads no index and knows no delta.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

PAGE = Path(__file__).parent.parent / "docs" / "from_scratch.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

Bag = dict[tuple[Any, ...], int]


def run_page() -> dict[str, Any]:
    """All names that the page defines; blocks keep their line numbers, so that a failure is found there."""
    names: dict[str, Any] = {"__name__": "from_scratch"}
    text = PAGE.read_text("utf-8")
    for block in BLOCK.finditer(text):
        above = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(above + block[1], str(PAGE), "exec", dont_inherit=True), names)
    return names


hw = run_page()
Rel, Group, Weight, number = hw["Rel"], hw["Group"], hw["Weight"], hw["number"]
Map, Database = hw["Map"], hw["Database"]


# --- stories ------------------------------------------------------------------------------------------------------


def rows_of(*columns: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    return st.lists(st.tuples(*columns), max_size=5)


small = st.integers(0, 3)
steps = st.lists(
    st.tuples(
        rows_of(small, st.sampled_from("abc")), rows_of(small, st.integers(1, 9)), st.randoms()
    ),
    min_size=1,
    max_size=6,
)


def change(there: Counter[Any], new: list[Any], chance: Any) -> Bag:
    """Some rows that are there go, and new ones come."""
    gone = [r for r in there.elements() if chance.random() < 0.4]
    out = Counter(new)
    out.subtract(gone)
    for row, n in out.items():
        there[row] += n
    return dict(out)


def reported(orders: Counter[Any], lines: Counter[Any]) -> Bag:
    """The report of the page's last section, by loops."""
    prices: dict[str, list[int]] = {}
    for (order, customer), (of, price) in itertools.product(orders.elements(), lines.elements()):
        if order == of:
            prices.setdefault(customer, []).append(price)
    return {(c, len(p), sum(p) / len(p), max(p)): 1 for c, p in prices.items() if len(p) >= 2}


def report_database() -> Any:
    """The page's last database, without rows."""
    db, joined = Database(), hw["joined"]
    told = hw["db"].answers["report"].row
    totals = Group("customer", joined * number("price"))
    prices = Group("customer price", joined)
    db.answer("report", "customer", told, Group("customer", joined), totals, prices)
    db.view("report", Group("customer n mean most", hw["report"]))
    db.view("highest", Group("most", hw["report"]))
    return db


@pytest.mark.property
@given(steps)
def test_two_strata_are_what_recomputing_gives(story: list[Any]) -> None:
    db, orders, lines = report_database(), Counter[Any](), Counter[Any]()
    for new_orders, new_lines, chance in story:
        changes = {
            "orders": change(orders, new_orders, chance),
            "lines": change(lines, new_lines, chance),
        }
        hw["apply"](db, changes)
        expected = reported(orders, lines)
        assert db["report"] == expected
        assert db["highest"] == Counter((row[3],) for row in expected)


# --- joins of every shape -----------------------------------------------------------------------------------------


def less(a: int, b: int) -> bool:
    return a < b


R, S, T = (lambda c: Rel("R", c)), (lambda c: Rel("S", c)), (lambda c: Rel("T", c))
SHAPES = {
    "one relation": Group("b", R("a b") * number("a")),
    "chain": Group("a", R("a b") * S("b c") * T("c d") * number("d")),
    "star": Group("b", R("a b") * S("a c") * T("a d") * number("c") * number("d")),
    "triangle": Group("a", R("a b") * S("b c") * T("c a")),
    "no common column": Group("a c", R("a b") * S("c d") * number("b")),
    "a filter over two blocks": Group("a", R("a b") * S("a c") * T("a d") * Weight(less, "c d")),
    "with itself": Group("a c", R("a b") * R("b c")),
    "squared": Group("", R("a b") * R("a b")),
    "three times itself": Group("a d", R("a b") * R("b c") * R("c d")),
    "union": Group("a", R("a b") * S("b c") + T("a b") * R("b c") * number("c")),
    "a join with a union": Group("a", (R("a b") + S("a b")) * (T("b c") + R("b c"))),
}


def brute(term: Any, world: dict[str, Bag]) -> Bag:
    """The meaning of a group: all ways to choose a row of each relation, and of those the ones that agree."""
    out: Counter[Any] = Counter()
    for factors in hw["monomials"](term.term):
        relations = [f for f in factors if isinstance(f, Rel)]
        for chosen in itertools.product(*(world[r.name].items() for r in relations)):
            named: dict[str, Any] = {}
            weight = 1
            for r, (row, n) in zip(relations, chosen, strict=True):
                weight *= n
                for c, v in zip(r.columns.split(), row, strict=True):
                    weight *= named.setdefault(c, v) == v
            for f in factors:
                if isinstance(f, Weight):
                    weight *= f.function(*(named[c] for c in f.columns.split()))
            out[tuple(named[c] for c in term.by.split())] += weight
    return {row: n for row, n in out.items() if n}


bags = st.dictionaries(st.tuples(small, small), st.sampled_from([-2, -1, 1, 2]), max_size=3)
worlds = st.fixed_dictionaries({}, optional={"R": bags, "S": bags, "T": bags})


@pytest.mark.property
@pytest.mark.parametrize("shape", SHAPES)
@given(st.lists(worlds, min_size=1, max_size=3))
def test_a_join_is_what_all_choices_of_rows_give(shape: str, story: list[dict[str, Bag]]) -> None:
    """Whatever its shape, with negative weights, too; and so is every map that was made for it."""
    db = Database()
    db.view("v", SHAPES[shape])
    world: dict[str, Any] = {n: Map() for n in "RST"}
    for changes in story:
        hw["apply"](db, changes)
        for name, rows in changes.items():
            world[name].merge(rows)
        plain = {n: m.rows for n, m in world.items()}
        assert db["v"] == brute(SHAPES[shape], plain) == hw["evaluate"](SHAPES[shape], world)
        for term, name in db.program.names.items():
            assert db.program.maps[name].rows == brute(term, plain), term


@pytest.mark.parametrize("shape", SHAPES)
def test_every_index_has_the_same_rows(shape: str) -> None:
    db = Database()
    db.view("v", SHAPES[shape])
    for i in range(6):
        hw["apply"](db, {n: {(i % 3, (i + k) % 2): 1, (1, i): -1} for k, n in enumerate("RST")})
    for m in db.program.maps.values():
        for index in m.indexes.values():
            assert {row: n for group in index.values() for row, n in group.items()} == m.rows


# --- what an increment costs --------------------------------------------------------------------------------------


def test_an_increment_reads_what_it_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many entries are found for one line among ten thousand orders as among ten."""
    found: list[int] = []
    find: Callable[..., Bag] = Map.find

    def counted(self: Any, places: Any, values: Any) -> Bag:
        out = find(self, places, values)
        found.append(len(out))
        return out

    monkeypatch.setattr(Map, "find", counted)
    costs = []
    for size in (10, 10_000):
        db = report_database()
        orders = {(i, f"c{i}"): 1 for i in range(size)}
        lines = {(i, p): 1 for i in range(size) for p in (1, 2)}
        hw["apply"](db, {"orders": orders, "lines": lines})
        hw["apply"](db, {"lines": {(5, 9): 1}})  # makes the indexes that are asked for
        found.clear()
        hw["apply"](db, {"lines": {(5, 9): -1, (6, 4): 1}})
        costs.append(sum(found))
    assert costs[0] == costs[1] < 50


def test_lines_of_a_late_order_are_summed_already() -> None:
    """The page's claim on recursive maps: an order that comes after a thousand lines finds one entry."""
    db = Database()
    db.view("revenue", hw["revenue"])
    hw["apply"](db, {"lines": {(1, p): 1 for p in range(1_000)}})
    (late,) = (s for target, s in db.program.statements["orders"] if target == db.views["revenue"])
    (block,) = (t.name for t in (late.term.left, late.term.right) if not t.name.startswith("Δ"))
    assert len(db.program.maps[block].rows) == 1
