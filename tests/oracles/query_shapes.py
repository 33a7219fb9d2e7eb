"""Queries of a shape and a size: a star of n dimensions, n outer joins, a table joined with itself n times.

Each is given as its sources (name to DDL) and its views in order; all columns are small integers or short texts, so
that a story of random rows makes their joins meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

PAIR = "a BIGINT, b BIGINT"


class Shape(NamedTuple):
    """The sources and views of a query of some size."""

    sources: dict[str, str]
    views: list[str]


def _dimensions(n: int) -> dict[str, str]:
    fact = ", ".join(f"d{i} BIGINT" for i in range(n))
    return {"f": f"{fact}, v BIGINT", **{f"dim{i}": "id BIGINT, w BIGINT" for i in range(n)}}


def _list(text: str, n: int, start: int = 0) -> str:
    return ", ".join(text.format(i) for i in range(start, n))


def _joins(text: str, n: int, start: int = 0) -> str:
    return " ".join(text.format(i, before=i - 1) for i in range(start, n))


def star(n: int) -> Shape:
    by = _list("dim{0}.w", n)
    joins = _joins("JOIN dim{0} ON f.d{0} = dim{0}.id", n)
    query = f"SELECT {_list('dim{0}.w AS w{0}', n)}, sum(f.v) AS s FROM f {joins} GROUP BY {by}"
    return Shape(_dimensions(n), [query])


def left_joins(n: int) -> Shape:
    joins = _joins("LEFT JOIN dim{0} ON f.d{0} = dim{0}.id", n)
    return Shape(_dimensions(n), [f"SELECT f.v, {_list('dim{0}.w AS w{0}', n)} FROM f {joins}"])


def chain(n: int) -> Shape:
    joins = _joins("JOIN t{0} ON t{before}.b = t{0}.a", n, 1)
    sources = {f"t{i}": PAIR for i in range(n)}
    return Shape(sources, [f"SELECT t0.a, t{n - 1}.b FROM t0 {joins}"])


def with_itself(n: int) -> Shape:
    joins = _joins("JOIN t x{0} ON x{before}.b = x{0}.a", n, 1)
    return Shape({"t": PAIR}, [f"SELECT x0.a, x{n - 1}.b FROM t x0 {joins}"])


def full_joins(n: int) -> Shape:
    joins = _joins("FULL JOIN t x{0} USING (a)", n, 1)
    return Shape({"t": PAIR}, [f"SELECT a, {_list('x{0}.b AS b{0}', n)} FROM t x0 {joins}"])


def literal_rows(n: int) -> Shape:
    rows = f"(VALUES {_list('({0})', n)}) AS l(x)"
    joins = "FULL JOIN t1 ON q.a = t1.a FULL JOIN t2 ON q.a = t2.a"
    query = f"SELECT q.a, q.x, t1.b AS b1, t2.b AS b2 FROM (SELECT * FROM t0 CROSS JOIN {rows}) q {joins}"
    return Shape({f"t{i}": PAIR for i in range(3)}, [query])


def alternatives(n: int) -> Shape:
    """Five joined tables with n OR-ed sets of conditions over them."""
    one = "(t0.b = t1.a AND t1.b = t2.a AND t2.b > {0} AND t3.a = t2.a AND t3.b = t4.a AND t4.b = {0})"
    tests = " OR ".join(one.format(i) for i in range(n))
    sources = {f"t{i}": PAIR for i in range(5)}
    return Shape(sources, [f"SELECT sum(t0.a) AS s FROM t0, t1, t2, t3, t4 WHERE {tests}"])


def views_over_views(n: int) -> Shape:
    views = [
        f"SELECT d.b AS a, sum(x.b) AS b FROM {f'v{i - 1}' if i else 't'} x JOIN d ON x.a = d.a GROUP BY d.b"
        for i in range(n)
    ]
    return Shape({"t": PAIR, "d": PAIR}, views)


def views_beside(n: int) -> Shape:
    views = [
        f"SELECT d.b, sum(t.b + {i}) AS s FROM t JOIN d ON t.a = d.a WHERE t.b > {i} GROUP BY d.b"
        for i in range(n)
    ]
    return Shape({"t": PAIR, "d": PAIR}, views)


def outer_and_range(n: int) -> Shape:
    """A chain of n tables, of which one is joined by a range and the last two by LEFT JOIN."""
    ons = ["t{0}.b BETWEEN t{1}.a AND t{1}.b" if i == 1 else "t{0}.b = t{1}.a" for i in range(n)]
    joins = [
        f"{'LEFT JOIN' if i >= max(2, n - 2) else 'JOIN'} t{i} ON {ons[i].format(i - 1, i)}"
        for i in range(1, n)
    ]
    sources = {f"t{i}": PAIR for i in range(n)}
    return Shape(sources, [f"SELECT t0.a, t{n - 1}.b FROM t0 {' '.join(joins)}"])


def cte_used_often(n: int) -> Shape:
    cte = "WITH w AS (SELECT t0.a, t1.b AS j, t2.b FROM t0 JOIN t1 ON t0.b = t1.a JOIN t2 ON t1.b = t2.a)"
    joins = _joins("JOIN w w{0} ON w{before}.j = w{0}.a", n, 1)
    query = f"{cte} SELECT w0.a, {_list('w{0}.b AS b{0}', n)} FROM w w0 {joins}"
    return Shape({f"t{i}": PAIR for i in range(3)}, [query])


def scalar_subqueries(n: int) -> Shape:
    outputs = _list("(SELECT avg(b) FROM t WHERE a > {0}) AS c{0}", n)
    return Shape({"t": PAIR, "r": "x BIGINT"}, [f"SELECT {outputs} FROM r WHERE x = 1"])


def union_all(n: int) -> Shape:
    branches = " UNION ALL ".join(f"SELECT a, b + {i} AS b FROM t{i % 5}" for i in range(n))
    query = f"SELECT a, sum(b) AS s FROM ({branches}) GROUP BY a"
    return Shape({f"t{i}": PAIR for i in range(5)}, [query])


def columns(n: int) -> Shape:
    query = f"SELECT {_list('c{0} + 1 AS x{0}', n)}, b FROM t JOIN d ON t.c0 = d.a"
    return Shape({"t": _list("c{0} BIGINT", n), "d": PAIR}, [query])


def in_list(n: int) -> Shape:
    query = f"SELECT a, sum(b) AS s FROM t WHERE b IN ({_list('{0}', n)}) GROUP BY a"
    return Shape({"t": PAIR}, [query])


def case_branches(n: int) -> Shape:
    branches = " ".join(f"WHEN b = {i} THEN {i * 7}" for i in range(n))
    return Shape({"t": PAIR}, [f"SELECT a, CASE {branches} ELSE 0 END AS c FROM t"])


SHAPES: dict[str, Callable[[int], Shape]] = {
    "a star of n dimensions, grouped": star,
    "n left joins": left_joins,
    "a chain of n tables": chain,
    "a table joined with itself n times": with_itself,
    "FULL JOIN USING of n uses of one table": full_joins,
    "n literal rows, crossed, under two full joins": literal_rows,
    "five tables, n OR-ed sets of conditions": alternatives,
    "n views, each over the one before": views_over_views,
    "n views beside each other": views_beside,
    "n tables, two by LEFT JOIN, one by a range": outer_and_range,
    "a CTE of three tables, used n times": cte_used_often,
    "n scalar subqueries": scalar_subqueries,
    "UNION ALL of n branches": union_all,
    "n columns": columns,
    "an IN list of n values": in_list,
    "CASE of n branches": case_branches,
}
