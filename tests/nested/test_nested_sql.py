"""Nested views in SQL: arrays that are built, joined, taken apart and grouped again; and what compares them.

Beside every query stands what it means, as a function on lists; `beside_lists` compares after each change. `keyed` has its
arrays as rows of their own, `plain` has the same columns with arrays as whole cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from beside_lists import Beside, opened
from headwater.errors import NotIncremental, TypeMismatch

NESTED = "k BIGINT, tags ARRAY<STRING>, os ARRAY<STRUCT<o: BIGINT, ls: ARRAY<STRUCT<p: STRING, q: BIGINT>>>>"


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Beside]:
    for made in opened(tmp_path):
        made.source("c", "k BIGINT, name STRING")
        made.source("o", "k BIGINT, o BIGINT, item STRING, n BIGINT")
        made.source("l", "o BIGINT, p STRING, q BIGINT")
        made.source("keyed", NESTED, key="k")
        made.source("plain", NESTED)
        yield made


def grouped(rows: Any, key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    out: dict[Any, list[Any]] = {}
    for r in rows:
        out.setdefault(key(r), []).append(r)
    return out


# --- data -----------------------------------------------------------------------------------------------------------


def order(k: int, o: int, item: str | None, n: int) -> dict[str, Any]:
    return {"k": k, "o": o, "item": item, "n": n}


def nested(k: int, tags: Any, os: Any) -> dict[str, Any]:
    made = None if os is None else [{"o": o, "ls": _lines(ls)} for o, ls in os]
    return {"k": k, "tags": tags, "os": made}


def _lines(ls: Any) -> Any:
    return None if ls is None else [{"p": p, "q": q} for p, q in ls]


def story(b: Beside) -> None:
    """Owners before and after their rows, groups that come and go, equal bags, NULL and empty arrays, duplicates."""
    ann, bob, eve = ({"k": k, "name": n} for k, n in ((1, "ann"), (2, "bob"), (2, "eve")))
    b.apply(
        {
            "c": [ann, bob],
            "o": [order(1, 10, "pen", 1), order(1, 10, "pen", 1), order(1, 11, "cup", 3)],
            "l": [{"o": 10, "p": "x", "q": 1}, {"o": 12, "p": "y", "q": 2}],
            "keyed": [
                nested(1, ["a", "b", "a"], [(10, [("x", 1)]), (11, []), (12, None)]),
                nested(2, None, None),
                nested(3, [], []),
                nested(4, ["b"], [(10, [("x", 1), ("x", 1)])]),
            ],
            "plain": [nested(1, ["b", "a"], [(10, [("x", 1)])]), nested(2, None, None)],
        }
    )
    b.apply(
        {
            "o": hw.Delta(
                [order(2, 12, "pen", 2), order(3, 10, None, 2)], [order(1, 11, "cup", 3)]
            ),
            "c": [eve, {"k": 3, "name": "ann"}],
            "keyed.tags": hw.Delta([{"k": 3, "value": "a"}], [{"k": 1, "value": "a"}]),
            "plain": [nested(1, ["b", "a"], [(10, [("x", 1)])]), nested(3, [], [])],
        }
    )
    b.apply(
        {
            "o": hw.Delta(
                [order(2, 12, "cup", 2)], [order(1, 10, "pen", 1), order(1, 10, "pen", 1)]
            ),
            "l": hw.Delta([{"o": 12, "p": "z", "q": 2}], [{"o": 10, "p": "x", "q": 1}]),
            "c": hw.Delta(deletes=[bob]),
            "keyed.os": hw.Delta(
                [{"k": 4, "o": 13, "ls": _lines([("w", 4)])}], [{"k": 1, "o": 11, "ls": []}]
            ),
            "plain": hw.Delta(deletes=[nested(1, ["b", "a"], [(10, [("x", 1)])])]),
        }
    )
    b.apply({"c": hw.Delta([bob], [eve]), "o": [order(1, 11, "hat", 0)]})


# --- queries, each with what it means -------------------------------------------------------------------------------

QUERIES: dict[str, tuple[str, Any]] = {}


def means(sql: str) -> Callable[[Any], Any]:
    def decorate(f: Any) -> Any:
        QUERIES[f.__name__] = sql, f
        return f

    return decorate


@means("SELECT k, count(*) AS c, array_agg(struct(o, item)) AS os FROM o GROUP BY k")
def groups(o):
    return [
        {"k": k, "c": len(rs), "os": [{"o": r.o, "item": r.item} for r in rs]}
        for k, rs in grouped(o, lambda r: r.k).items()
    ]


@means("SELECT k, collect_list(item) AS items, collect_set(n) AS ns FROM o GROUP BY k")
def nulls_are_left_out(o):
    return [
        {"k": k, "items": [r.item for r in rs if r.item is not None], "ns": {r.n for r in rs}}
        for k, rs in grouped(o, lambda r: r.k).items()
    ]


@means("SELECT k, collect_list(item) FILTER (WHERE n > 1) AS items FROM o GROUP BY k")
def filtered(o):
    return [
        {"k": k, "items": [r.item for r in rs if r.n > 1 and r.item is not None]}
        for k, rs in grouped(o, lambda r: r.k).items()
    ]


@means("SELECT k, collect_list(o) AS os FROM o GROUP BY k HAVING count(*) > 1 AND sum(n) > 1")
def having(o):
    return [
        {"k": k, "os": [r.o for r in rs]}
        for k, rs in grouped(o, lambda r: r.k).items()
        if len(rs) > 1 and sum(r.n for r in rs) > 1
    ]


@means("SELECT collect_list(item) AS items, count(*) AS n FROM o")
def one_group(o):
    return [{"items": [r.item for r in o if r.item is not None], "n": len(o)}]


@means("SELECT k, o, collect_list(n) AS ns FROM o GROUP BY ROLLUP(k, o)")
def rolled_up(o):
    sets = [lambda r: (r.k, r.o), lambda r: (r.k, None), lambda r: (None, None)]
    return [
        {"k": k, "o": oo, "ns": [r.n for r in rs]}
        for s in sets
        for (k, oo), rs in grouped(o, s).items()
    ]


@means(
    "SELECT name, (SELECT collect_list(struct(o.item, o.n)) FROM o WHERE o.k = c.k AND o.n > 0) AS os FROM c"
)
def correlated(c, o):
    return [
        {"name": r.name, "os": [{"item": s.item, "n": s.n} for s in o if s.k == r.k and s.n > 0]}
        for r in c
    ]


@means("SELECT name, (SELECT collect_list(o.o) FROM o WHERE o.k < c.k OR o.n = c.k) AS os FROM c")
def correlated_otherwise(c, o):
    return [{"name": r.name, "os": [s.o for s in o if s.k < r.k or s.n == r.k]} for r in c]


@means(
    """
    SELECT name, (
      SELECT collect_list(struct(item, s)) FROM (SELECT k, item, sum(n) AS s FROM o GROUP BY k, item) g
      WHERE g.k = c.k
    ) AS items FROM c
    """
)
def groups_inside(c, o):
    return [
        {
            "name": r.name,
            "items": [
                {"item": i, "s": sum(s.n for s in rs)}
                for i, rs in grouped([s for s in o if s.k == r.k], lambda s: s.item).items()
            ],
        }
        for r in c
    ]


@means(
    """
    SELECT name, (
      SELECT collect_list(struct(o.item, (SELECT collect_list(struct(p, q)) FROM l WHERE l.o = o.o) AS ls))
      FROM o WHERE o.k = c.k
    ) AS os FROM c
    """
)
def three_levels(c, o, l):  # noqa: E741
    return [
        {
            "name": r.name,
            "os": [
                {"item": s.item, "ls": [{"p": t.p, "q": t.q} for t in l if t.o == s.o]}
                for s in o
                if s.k == r.k
            ],
        }
        for r in c
    ]


@means(
    """
    SELECT k, collect_list(struct(o, items)) AS os
    FROM (SELECT k, o, collect_list(struct(item, n)) AS items FROM o GROUP BY k, o) GROUP BY k
    """
)
def groups_of_groups(o):
    return [
        {
            "k": k,
            "os": [
                {"o": i, "items": [{"item": s.item, "n": s.n} for s in ss]}
                for i, ss in grouped(rs, lambda r: r.o).items()
            ],
        }
        for k, rs in grouped(o, lambda r: r.k).items()
    ]


@means(
    """
    SELECT c.name, g.items, coalesce(g.items, array()) AS some
    FROM c LEFT JOIN (SELECT k, collect_list(o) AS items FROM o GROUP BY k) g ON g.k = c.k
    """
)
def outer_joined(c, o):
    def items(k: int) -> Any:
        return [s.o for s in o if s.k == k]

    return [
        {"name": r.name, "items": items(r.k) or None, "some": items(r.k)} for r in c
    ]  # a group that is there has rows


@means("SELECT k, CASE WHEN k > 1 THEN collect_list(o) END AS os FROM o GROUP BY k")
def null_or_array(o):
    return [
        {"k": k, "os": [r.o for r in rs] if k > 1 else None}
        for k, rs in grouped(o, lambda r: r.k).items()
    ]


@means(
    """
    SELECT k, collect_list(item) AS bag FROM o GROUP BY k
    UNION ALL SELECT k, NULL FROM c
    UNION ALL SELECT o, collect_list(p) FROM l GROUP BY o
    """
)
def union_of_kinds(o, c, l):  # noqa: E741
    return [
        *(
            {"k": k, "bag": [r.item for r in rs if r.item is not None]}
            for k, rs in grouped(o, lambda r: r.k).items()
        ),
        *({"k": r.k, "bag": None} for r in c),
        *({"k": k, "bag": [r.p for r in rs]} for k, rs in grouped(l, lambda r: r.o).items()),
    ]


@means("SELECT named_struct('k', k, 'os', collect_list(o)) AS s, k FROM o GROUP BY k")
def struct_with_array(o):
    return [
        {"s": {"k": k, "os": [r.o for r in rs]}, "k": k}
        for k, rs in grouped(o, lambda r: r.k).items()
    ]


# Arrays of sources: the same queries over rows of their own and over whole cells.


def of_arrays(name: str, sql: str, f: Callable[[Any], Any]) -> None:
    for source in ("keyed", "plain"):
        code: dict[str, Any] = {"f": f}
        exec(f"def g({source}): return f({source})", code)
        QUERIES[f"{name}_{source}"] = sql.format(t=source), code["g"]


def some(array: Any) -> list[Any]:
    return array or []


of_arrays("through", "SELECT k, tags, os FROM {t}", lambda t: t)
of_arrays(
    "exploded",
    "SELECT k, e FROM {t} LATERAL VIEW explode(tags) AS e",
    lambda t: [{"k": r.k, "e": e} for r in t for e in some(r.tags)],
)
of_arrays(
    "exploded_outer",
    "SELECT k, e FROM {t} LATERAL VIEW OUTER explode(tags) AS e",
    lambda t: [{"k": r.k, "e": e} for r in t for e in some(r.tags) or [None]],
)
of_arrays(
    "exploded_twice",
    "SELECT k, x.o, y.p, y.q FROM {t} LATERAL VIEW explode(os) AS x LATERAL VIEW explode(x.ls) AS y",
    lambda t: [
        {"k": r.k, "o": x.o, "p": y.p, "q": y.q} for r in t for x in some(r.os) for y in some(x.ls)
    ],
)
of_arrays(
    "exploded_and_grouped",
    "SELECT e, collect_list(k) AS ks, count(*) AS n FROM {t} LATERAL VIEW explode(tags) AS e GROUP BY e",
    lambda t: [
        {"e": e, "ks": ks, "n": len(ks)}
        for e, ks in (
            (e, [r.k for r, x in rs])
            for e, rs in grouped([(r, x) for r in t for x in some(r.tags)], lambda p: p[1]).items()
        )
    ],
)
of_arrays(
    "or_empty",
    "SELECT k, coalesce(tags, array()) AS tags, coalesce(os, array()) AS os FROM {t}",
    lambda t: [{"k": r.k, "tags": some(r.tags), "os": some(r.os)} for r in t],
)
of_arrays(
    "is_null",
    "SELECT k FROM {t} WHERE tags IS NULL",
    lambda t: [{"k": r.k} for r in t if r.tags is None],
)
of_arrays(
    "chosen",
    "SELECT k, CASE WHEN k > 1 THEN os END AS os FROM {t}",
    lambda t: [{"k": r.k, "os": r.os if r.k > 1 else None} for r in t],
)
of_arrays(
    "collected",
    "SELECT k % 2 AS odd, collect_list(struct(k, tags)) AS ts FROM {t} GROUP BY k % 2",
    lambda t: [
        {"odd": odd, "ts": [{"k": r.k, "tags": r.tags} for r in rs]}
        for odd, rs in grouped(t, lambda r: r.k % 2).items()
    ],
)
of_arrays(
    "twice",
    "SELECT k, os FROM {t} UNION ALL SELECT k + 10, NULL FROM {t} UNION ALL SELECT k + 20, os FROM {t}",
    lambda t: [
        *t_rows(t, 0),
        *({"k": r.k + 10, "os": None} for r in t),
        *t_rows(t, 20),
    ],
)


def t_rows(t: Any, more: int) -> list[Any]:
    return [{"k": r.k + more, "os": r.os} for r in t]


@means("SELECT c.name, x.tags, x.os FROM c LEFT JOIN keyed x ON x.k = c.k + 1")
def outer_joined_keyed(c, keyed):
    return [
        {"name": r.name, "tags": x.tags if x else None, "os": x.os if x else None}
        for r in c
        for x in [s for s in keyed if s.k == r.k + 1] or [None]
    ]


@means("SELECT k, tags, os FROM keyed UNION ALL SELECT k, tags, os FROM plain")
def union_of_rows_and_whole_arrays(keyed, plain):
    return [*keyed, *plain]


@means("SELECT count(DISTINCT tags) AS n FROM keyed")
def distinct_counted_keyed(keyed):
    found = [frozenset(Counter(r.tags).items()) for r in keyed if r.tags is not None]
    return [{"n": len(set(found))}]


@means("SELECT tags, count(*) AS n FROM plain GROUP BY tags")
def grouped_by_whole_arrays(plain):
    found = grouped(plain, lambda r: None if r.tags is None else tuple(r.tags))
    return [{"tags": None if t is None else list(t), "n": len(rs)} for t, rs in found.items()]


@means("SELECT DISTINCT tags, os FROM plain")
def distinct_whole_arrays(plain):
    return [{"tags": rs[0].tags, "os": rs[0].os} for rs in grouped(plain, repr).values()]


@means("SELECT tags FROM plain WHERE k = 1 UNION SELECT tags FROM plain WHERE k > 1")
def union_of_whole_arrays(plain):
    found = grouped(plain, lambda r: repr(r.tags))
    return [{"tags": rs[0].tags} for rs in found.values()]


@means("SELECT x.k, y.k AS other FROM plain x JOIN plain y ON x.tags = y.tags")
def whole_arrays_equal(plain):
    return [
        {"k": x.k, "other": y.k}
        for x in plain
        for y in plain
        if x.tags is not None and x.tags == y.tags
    ]


BY_SPARK = {"or_empty_plain", "chosen_plain", "twice_plain", "union_of_rows_and_whole_arrays"}
"""Queries with expressions over whole arrays that only Spark evaluates."""


def _marks(place: int, name: str) -> list[Any]:
    """Every other query is played in `make test`."""
    marks = [pytest.mark.spark] if name in BY_SPARK else []
    return [*marks, pytest.mark.slow] if place % 2 or name in BY_SPARK else marks


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=_marks(i, n)) for i, n in enumerate(QUERIES)]
)
def test_a_query_through_changes(name: str, b: Beside) -> None:
    sql, meaning = QUERIES[name]
    b.view("v", sql, meaning)
    story(b)
    b.view("first_order", sql, meaning, strategy="first-order")
    b.view("recursive", sql, meaning, strategy="recursive")
    b.reopened()


def test_an_owner_is_not_joined_where_its_key_is_all_that_is_read(b: Beside) -> None:
    def lines(keyed: Any) -> Any:
        found = [(r.k, x.o) for r in keyed for x in some(r.os) for _ in some(x.ls)]
        return [{"k": k, "n": len(rs)} for k, rs in grouped(found, lambda p: p[0]).items()]

    b.view("all", "SELECT k, o.o, o.ls FROM keyed LATERAL VIEW explode(os) AS o", _all)
    b.view(
        "lines",
        """SELECT k, count(*) AS n FROM keyed LATERAL VIEW explode(os) AS o
           LATERAL VIEW explode(o.ls) AS l GROUP BY k""",
        lines,
    )
    story(b)
    maps = b.db.program.maps.values()
    assert sum("keyed" in m.reads for m in maps) == 1, "only the source itself"
    b.reopened()


def _all(keyed: Any) -> Any:
    return [{"k": r.k, "o": x.o, "ls": x.ls} for r in keyed for x in some(r.os)]


# --- views over nested views ----------------------------------------------------------------------------------------


def test_views_over_nested_views_three_deep(b: Beside) -> None:
    b.view("orders", "SELECT k, o, collect_list(item) AS items FROM o GROUP BY k, o", _orders)
    b.view(
        "people",
        "SELECT c.name, collect_list(struct(x.o, x.items)) AS os FROM c JOIN orders x ON x.k = c.k GROUP BY c.name",
        _people,
    )
    b.view("names", "SELECT collect_list(struct(name, os)) AS everyone FROM people", _names)
    b.view(
        "flat",
        """SELECT name, y.o, z AS item FROM names LATERAL VIEW explode(everyone) AS x
           LATERAL VIEW explode(x.os) AS y LATERAL VIEW explode(y.items) AS z""".replace(
            "name,", "x.name,"
        ),
        lambda names: [
            {"name": x.name, "o": y.o, "item": z}
            for r in names
            for x in r.everyone
            for y in x.os
            for z in y.items
        ],
    )
    story(b)
    assert [p.path for p in b.db.program.views["names"].parts] == [
        "",
        "everyone",
        "everyone.os",
        "everyone.os.items",
    ]
    assert not b.db.program.views["flat"].parts
    b.reopened()


def _orders(o: Any) -> Any:
    return [
        {"k": k, "o": i, "items": [r.item for r in rs if r.item is not None]}
        for (k, i), rs in grouped(o, lambda r: (r.k, r.o)).items()
    ]


def _people(c: Any, orders: Any) -> Any:
    pairs = [(r, x) for r in c for x in orders if x.k == r.k]
    return [
        {"name": n, "os": [{"o": x.o, "items": x.items} for _, x in rs]}
        for n, rs in grouped(pairs, lambda p: p[0].name).items()
    ]


def _names(people: Any) -> Any:
    return [{"everyone": people}]


def test_a_view_over_a_nested_view_changes_where_that_changed(b: Beside) -> None:
    b.view("orders", "SELECT k, collect_list(item) AS items FROM o GROUP BY k", _items)
    b.view("again", "SELECT k, items FROM orders WHERE k > 0", _again)
    b.view(
        "joined", "SELECT c.name, x.items FROM c JOIN orders x ON x.k = c.k", _joined
    )  # the same bags
    b.apply(
        {
            "c": [{"k": 1, "name": "ann"}, {"k": 1, "name": "bob"}],
            "o": [order(1, 1, "pen", 1), order(2, 2, "cup", 1)],
        }
    )
    b.apply({"o": [order(1, 3, "hat", 1)]})
    for name in ("orders", "again", "joined"):  # two rows of `joined` have one bag
        assert [(p, dict(row), w) for p, _, row, w in b.changes(name)] == [
            ("items", {"value": "hat"}, 1)
        ]


def _items(o: Any) -> Any:
    return [{"k": k, "items": [r.item for r in rs]} for k, rs in grouped(o, lambda r: r.k).items()]


def _again(orders: Any) -> Any:
    return [{"k": r.k, "items": r.items} for r in orders]


def _joined(c: Any, orders: Any) -> Any:
    return [{"name": r.name, "items": x.items} for r in c for x in orders if x.k == r.k]


# --- what compares arrays -------------------------------------------------------------------------------------------

KEPT_APART = "(the arrays of `keyed` are kept as rows of their own)"
COMPARES = "[NESTED] GROUP BY, DISTINCT or UNION compares the contents of inner bags"
BY_KEYS = "group by keys of the rows, not by arrays"
ORDER = "in its order, and it is kept as rows without one"
POSITION = "keep the position as a field of the elements, or declare the source without a key"
REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "DISTINCT": ("SELECT DISTINCT k, tags FROM keyed", (COMPARES, KEPT_APART, BY_KEYS)),
    "GROUP BY": ("SELECT tags, count(*) AS n FROM keyed GROUP BY tags", (COMPARES, BY_KEYS)),
    "UNION": ("SELECT tags FROM keyed UNION SELECT tags FROM keyed", (COMPARES, BY_KEYS)),
    "EXCEPT": ("SELECT tags FROM keyed EXCEPT SELECT tags FROM plain", (COMPARES, BY_KEYS)),
    "INTERSECT": ("SELECT tags FROM keyed INTERSECT SELECT tags FROM plain", (COMPARES, BY_KEYS)),
    "collect_set": ("SELECT k, collect_set(tags) AS s FROM keyed GROUP BY k", (COMPARES, BY_KEYS)),
    "=": (
        "SELECT a.k FROM keyed a JOIN keyed b ON a.tags = b.tags",
        ("[ARRAY_ORDER] `=` reads the array `keyed.tags`", ORDER, POSITION),
    ),
    "<=>": (
        "SELECT a.k FROM keyed a JOIN keyed b ON a.os <=> b.os",
        ("[ARRAY_ORDER] `<=>` reads the array `keyed.os`", ORDER, POSITION),
    ),
    "posexplode": (
        "SELECT k, p, e FROM keyed LATERAL VIEW posexplode(tags) AS p, e",
        ("[ARRAY_ORDER]", "the array `keyed.tags`", ORDER, POSITION),
    ),
    "scalar subquery": (
        "SELECT c.k, (SELECT x.tags FROM plain x WHERE x.k = c.k) AS tags FROM c",
        ("[SUBQUERY] the subquery", "write a join"),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_compares_arrays_that_are_rows_is_refused(what: str, b: Beside) -> None:
    sql, said = REFUSED[what]
    before = b.db.version
    with pytest.raises(NotIncremental) as caught:
        b.db.view("v", sql)
    for words in said:
        assert words in str(caught.value), str(caught.value)
    assert b.db.version == before
    assert b.db.views == []


@pytest.mark.parametrize("source", ["keyed", "plain"])
@pytest.mark.parametrize("function", ["min", "max"])
def test_arrays_have_no_least_and_greatest(source: str, function: str, b: Beside) -> None:
    with pytest.raises(TypeMismatch, match=rf"`{function.upper()}\(tags\)` compares") as caught:
        b.db.view("v", f"SELECT {function}(tags) AS m FROM {source}")
    assert "arrays are bags here, without an order" in str(caught.value)
