"""What a database decides and shows about its views: strategies, sharing, rebuilding, refusals, pictures. No Spark."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.api import feeds
from headwater.errors import NotIncremental, StateError
from headwater.plan.analysis import maps_of
from headwater.plan.equal_maps import digest

REVENUE = """SELECT c.nation, sum(l.price) AS total FROM customer c
             JOIN orders o ON c.cust = o.cust JOIN lines l ON l.id = o.id GROUP BY c.nation"""


@pytest.fixture
def db(tmp_path: Path) -> Any:
    made = hw.open(tmp_path / "db")
    declare(made)
    yield made
    made.close()


def declare(db: hw.Database) -> None:
    db.source("customer", "cust BIGINT, nation STRING")
    db.source("orders", "id BIGINT, cust BIGINT")
    db.source("lines", "id BIGINT, price DECIMAL(10,2)")


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
    views = db.program.views
    several = {
        n: [m for m in maps_of(db.program, views[n]) if len(m.reads) == 2] for n in ("a", "b")
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
    before = set(db.program.maps)
    db.view(
        "b",
        "SELECT k.nation AS n, avg(x.price) AS m FROM lines x, orders y, customer k "
        "WHERE y.id = x.id AND y.cust = k.cust GROUP BY k.nation HAVING count(*) > 1",
    )
    assert set(db.program.maps) == before
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


def otherwise(*parts: str) -> str:
    """Names of maps as a version of the compiler may give them that prints terms in another way."""
    return digest("another version", *parts)


def test_a_database_goes_on_with_its_program_under_another_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maps have the names that they were given; what is new has other names, and a rebuild gives them to all."""
    with hw.open(tmp_path / "db") as db:
        db.source("r", "a BIGINT")
        db.view("v", "SELECT a, count(*) AS n FROM r GROUP BY a")
        db.apply({"r": [(1,), (1,)]})
        before = set(db.program.maps)
    monkeypatch.setattr("headwater.plan.maps.digest", otherwise)
    monkeypatch.setattr("headwater.plan.compiler.digest", otherwise)
    with hw.open(tmp_path / "db") as db:
        assert rows(db, "v") == [(1, 2)]
        db.apply({"r": hw.Delta(inserts=[(2,)], deletes=[(1,)])})
        assert rows(db, "v") == [(1, 1), (2, 1)]
        db.view("w", "SELECT a, count(*) AS n FROM r GROUP BY a HAVING count(*) > 0")
        assert before < db.program.maps.keys()
        db.apply({"r": [(2,)]})
        assert rows(db, "v") == rows(db, "w") == [(1, 1), (2, 2)]
        version = db.version
        db.rebuild()
        assert not before & (
            db.program.maps.keys() - {m.name for m in db.catalog.sources["r"].all_maps}
        )
        db.apply({"r": [(3,)]})
        assert rows(db, "v") == rows(db, "w") == [(1, 1), (2, 2), (3, 1)]
        assert db.table("v", version).num_rows == 2


def test_a_database_opens_and_goes_on_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hw.open(tmp_path / "db") as db:
        declare(db)
        db.view("a", REVENUE)
        db.view("n", "SELECT count(DISTINCT cust) AS n, max(id) AS m FROM orders")
        db.view("over", "SELECT count(*) AS c FROM a WHERE total > 1")
        fill(db)
        before = {n: rows(db, n) for n in db.views}

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("something is planned")

    monkeypatch.setattr("headwater.plan.compiler.Compiler.__init__", never)
    monkeypatch.setattr("headwater.plan.statements.Materializer.__init__", never)
    with hw.open(tmp_path / "db") as db:
        assert {n: rows(db, n) for n in db.views} == before
        db.apply({"lines": hw.Delta(deletes=[(12, Decimal("4.25"))]), "orders": [(99, 1)]})
        assert rows(db, "n") == [(4, 99)]
        assert db.changes_table("n", db.version - 1).num_rows == 2
        db.drop("over")
        assert db.views == ["a", "n"]


def test_a_database_without_a_program_whose_maps_are_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was written before programs were stored is compiled, and must come out with its maps, or be rebuilt."""
    monkeypatch.setattr("headwater.api.writing.set_program", lambda *_: None)
    with hw.open(tmp_path / "db") as db:
        db.source("r", "a BIGINT")
        db.view("v", "SELECT a, count(*) AS n FROM r GROUP BY a")
        db.apply({"r": [(1,), (1,)]})
    with hw.open(tmp_path / "db") as db:
        assert rows(db, "v") == [(1, 2)]
    monkeypatch.setattr("headwater.plan.maps.digest", otherwise)
    with hw.open(tmp_path / "db") as db:
        for use in (lambda: db.table("v"), lambda: db.apply({"r": [(2,)]})):
            with pytest.raises(StateError, match=r"rebuild\(\)"):
                use()
        db.rebuild()
        assert rows(db, "v") == [(1, 2)]


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


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_database_has_names(db: hw.Database) -> None:
    db.view("Revenue", REVENUE)
    assert "customer" in db and "CUSTOMER" in db and "revenue" in db
    assert "nothing" not in db and 5 not in db
    assert list(db) == ["customer", "orders", "lines", "Revenue"] and len(db) == 4 and db


def test_names_have_no_case(db: hw.Database) -> None:
    """As in SQL, upper and lower case are the same in the names of sources and views, wherever one is given."""
    db.view("Revenue", REVENUE)
    fill(db)
    version = db.version
    commit = db.apply({"ORDERS": [(14, 1)], "orders": [(15, 1)], "Lines": [(14, Decimal(1))]})
    assert commit.rows == {"orders": 2, "lines": 1}
    assert db["REVENUE"].name == "Revenue" and db["Orders"].name == "orders"
    assert rows(db, "revenue") == rows(db, "Revenue") != []
    assert db.table("ORDERS").num_rows == 6
    assert db.changes_table("REVENUE", version) == db.changes_table("Revenue", version)
    assert str(db.explain("rEVENUE")) == str(db.explain("Revenue"))
    db.source("ORDERS", "id BIGINT, cust BIGINT")  # the same again
    db.view("REVENUE", REVENUE)
    assert db.views == ["Revenue"] and db.version == commit.version
    db.drop("REVENUE")
    db.view("REVENUE", REVENUE)  # by another name, and the same one
    assert db.changes_table("revenue", commit.version).num_rows == 0


def test_nested_names_have_no_case(tmp_path: Path) -> None:
    with hw.open(tmp_path / "nested") as db:
        db.source("People", "id BIGINT, Tags ARRAY<STRING>", key="id")
        db.apply({"PEOPLE": [(1, ["a"])]})
        commit = db.apply({"people.tags": [(1, "b")]})
        assert commit.rows == {"People.Tags": 1}
        assert db.lookup("people", [1]) == {"id": 1, "Tags": ["a", "b"]}
        assert db.parts("PEOPLE").keys() == {"", "Tags"}


# --- dropping ---------------------------------------------------------------------------------------------------------

DROPPED = {
    "a": REVENUE,
    "b": "SELECT nation, count(*) AS n FROM customer GROUP BY nation HAVING count(*) > 1",
    "c": "SELECT o.id, c.nation FROM orders o LEFT JOIN customer c ON o.cust = c.cust",
    "d": "SELECT DISTINCT nation FROM customer WHERE cust IN (SELECT cust FROM orders)",
    "e": "SELECT id, price, row_number() OVER (PARTITION BY id ORDER BY price) AS n FROM lines",
    "f": "SELECT cust, (SELECT max(id) FROM orders o WHERE o.cust = c.cust) AS last FROM customer c",
    "g": "SELECT id, collect_list(struct(price)) AS prices FROM lines GROUP BY id",
    "h": "SELECT id, price FROM lines ORDER BY price, id LIMIT 2",
    "i": "SELECT nation, total FROM a WHERE total > 1",
    "j": "SELECT o.cust, sum(l.id / o.cust) AS mean FROM orders o JOIN lines l ON o.id = l.id GROUP BY o.cust",
    "k": "SELECT id FROM orders EXCEPT SELECT id FROM lines",
    "l": "SELECT id, cust FROM orders",
    "m": "SELECT id, cust FROM orders",
}


def test_a_dropped_view_leaves_what_compiling_the_others_gives(db: hw.Database) -> None:
    """Whichever view is taken away, from first to last, the program is that of the others, and goes on."""
    for name, query in DROPPED.items():
        db.view(name, query)
    fill(db)
    order = ["c", "m", "i", "f", "a", "h", "e", "l", "g", "k", "d", "j"]
    for number, name in enumerate(order):
        db.drop(name)
        again = db.catalog.compiled()
        found, wanted = db.program, again
        for part in ("maps", "strata", "views", "checks"):
            assert getattr(found, part).keys() == getattr(wanted, part).keys(), (name, part)
        assert db.program.relations == again.relations
        assert db.store.at().version.maps.keys() == wanted.maps.keys()
        db.apply(
            {"lines": [(10 + number % 4, Decimal(number))], "orders": [(number, 1 + number % 3)]}
        )
    assert rows(db, "b") == [("x", 2)]
    told = {n: rows(db, n) for n in db.views}
    db.rebuild()
    assert {n: rows(db, n) for n in db.views} == told


def test_changed_looks_at_what_a_version_added(db: hw.Database) -> None:
    """The rows that a change brought to each view, and no view is read that it cannot have changed."""
    db.view("a", REVENUE)
    db.view("b", DROPPED["b"])
    db.view("e", DROPPED["e"])
    fill(db)
    commit = db.apply({"lines": [(10, Decimal(9))]})
    read: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        inner = feeds.told
        patch.setattr(feeds, "told", lambda n, *more: [read.append(n), inner(n, *more)][1])
        assert commit.changed == {"a": 2, "b": 0, "e": 1}
    assert read == ["a", "e"]
    wanted = {v: db.changes_table(v, commit.version - 1).num_rows for v in db.views}
    assert commit.changed == wanted
