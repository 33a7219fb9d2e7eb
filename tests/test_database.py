"""What a database decides and shows about its views: strategies, sharing, rebuilding, refusals, pictures. No Spark."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.catalog import part_map
from headwater.errors import NotIncremental, StateError
from headwater.explain import maps_of

REVENUE = """SELECT c.nation, sum(l.price) AS total FROM customer c
             JOIN orders o ON c.cust = o.cust JOIN lines l ON l.id = o.id GROUP BY c.nation"""


@pytest.fixture
def db(tmp_path: Path) -> Any:
    made = hw.open(tmp_path / "db")
    made.source("customer", "cust BIGINT, nation STRING")
    made.source("orders", "id BIGINT, cust BIGINT")
    made.source("lines", "id BIGINT, price DECIMAL(10,2)")
    yield made
    made.close()


def fill(db: hw.Database) -> None:
    db.apply(
        {
            "customer": [(1, "x"), (2, "y"), (3, "x")],
            "orders": [(10, 1), (11, 2), (12, 3), (13, 9)],
            "lines": [
                (10, Decimal("1.50")),
                (10, Decimal("2.00")),
                (12, Decimal("4.25")),
                (13, None),
            ],
        }
    )


def rows(db: hw.Database, name: str) -> list[tuple[Any, ...]]:
    return sorted(
        tuple(r.values())[:-1] for r in db.table(name).to_pylist() for _ in range(r["_w"])
    )


def test_recursive_keeps_joins_and_first_order_only_inputs(db: hw.Database) -> None:
    """A map of orders joined with customers exists in the one strategy, and in the other none of two inputs but the view's own."""
    db.view("a", REVENUE, strategy="recursive")
    db.view("b", REVENUE, strategy="first-order")
    views = db.compiler.program.views
    several = {
        n: [m for m in maps_of(db.compiler, views[n]) if len(m.reads) == 2] for n in ("a", "b")
    }
    assert {m.reads for m in several["a"]} == {("customer", "orders"), ("lines", "orders")}
    assert several["b"] == []
    fill(db)
    assert rows(db, "a") == rows(db, "b") == [("x", Decimal("7.75"))]


def test_auto_takes_what_is_less_work_and_says_so(db: hw.Database) -> None:
    db.view("a", REVENUE)
    text = str(db.explain("a"))
    assert "rows made by one changed row of each input: recursive" in text.splitlines()[1]
    assert "first-order" in text.splitlines()[1]
    assert "cost class change" in text.splitlines()[2]


def test_equal_maps_are_one(db: hw.Database) -> None:
    """A second view over the same join, written otherwise, adds only what it answers from."""
    db.view("a", REVENUE)
    before = set(db.compiler.program.maps)
    db.view(
        "b",
        "SELECT k.nation AS n, avg(x.price) AS m FROM lines x, orders y, customer k "
        "WHERE y.id = x.id AND y.cust = k.cust GROUP BY k.nation HAVING count(*) > 1",
    )
    assert set(db.compiler.program.maps) == before
    fill(db)
    assert rows(db, "b") == [("x", Decimal("2.583333"))]


def test_rebuild_gives_the_same_answers(db: hw.Database) -> None:
    db.view("a", REVENUE, strategy="first-order")
    db.view("n", "SELECT count(DISTINCT cust) AS n, max(id) AS m FROM orders")
    fill(db)
    before = {n: rows(db, n) for n in db.views}
    db.rebuild()
    assert {n: rows(db, n) for n in db.views} == before
    db.apply({"lines": hw.Delta(deletes=[(12, Decimal("4.25"))]), "orders": [(99, 1)]})
    assert rows(db, "a") == [("x", Decimal("3.50"))]
    assert rows(db, "n") == [(4, 99)]


def test_maps_that_this_version_does_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database whose maps are others is neither read nor written until it is rebuilt."""
    with hw.open(tmp_path / "db") as db:
        db.source("r", "a BIGINT")
        db.view("v", "SELECT a, count(*) AS n FROM r GROUP BY a")
        db.apply({"r": [(1,), (1,)]})
    import headwater.compiler.materialize as m  # to be changed, as a newer version would

    monkeypatch.setattr(m, "digest", lambda *parts: "new" + str(len("".join(parts))))
    monkeypatch.setattr("headwater.catalog.part_map", old_part_map(part_map))
    with hw.open(tmp_path / "db") as db:
        for use in (lambda: db.table("v"), lambda: db.apply({"r": [(2,)]})):
            with pytest.raises(StateError, match=r"rebuild\(\)"):
                use()
        db.rebuild()
        assert rows(db, "v") == [(1, 2)]


def old_part_map(inner: Any) -> Any:
    """The rows of sources stay where they are."""

    def found(*given: Any) -> Any:
        import headwater.compiler.materialize as m  # as above
        from headwater.compiler.alpha import digest  # the real one

        changed, m.digest = m.digest, digest
        try:
            return inner(*given)
        finally:
            m.digest = changed

    return found


@pytest.mark.parametrize(
    ("query", "reason", "underlined"),
    [
        ("SELECT count_if(DISTINCT price > 1) AS s FROM lines", "AGGREGATE", "COUNT_IF(DISTINCT"),
        ("SELECT id, rand() AS r FROM orders", "NON_DETERMINISTIC", "rand"),
        ("SELECT first(id) AS f FROM orders", "NON_DETERMINISTIC", "first"),
        ("SELECT id FROM orders WHERE now() > now()", "TIME_OF_DAY", "now"),
    ],
)
def test_refusals_have_a_reason_and_a_place(
    db: hw.Database, query: str, reason: str, underlined: str
) -> None:
    version = db.version
    with pytest.raises(NotIncremental) as error:
        db.view("v", query)
    assert error.value.reason == reason
    assert underlined in str(error.value)
    assert ("^" in str(error.value)) == bool(underlined)
    assert db.version == version and db.views == []
    db.view("v", "SELECT id FROM orders")  # nothing of the other is left


def test_explain_draws(db: hw.Database) -> None:
    db.view("a", REVENUE)
    shown = db["a"].explain()
    html = shown._repr_html_()
    assert html.startswith("<svg") and "customer" in html and str(shown).splitlines()[0] in html
