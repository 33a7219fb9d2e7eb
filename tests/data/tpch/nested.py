"""The nested queries Q1 to Q7 of seed 001 (appendix A.5) on tables of TPC-H.

Q1 to Q3 make nested rows from flat tables, Q4 and Q5 flat rows from nested ones, Q6 and Q7 nested rows from nested
ones. Each is a plain Python function, which is its own oracle: run on lists it gives the answer. Q4 to Q7 read `q1`,
`q2` and `q3`; whether those are views or nested sources they do not see, and `NESTED` declares the latter.

Run on whole tables the functions take the product of their tables. `piecewise` runs the same functions on one outer
row at a time and on the inner rows that have its keys, which is the same answer sooner; the tests compare the two.
"""

from __future__ import annotations

from collections import Counter, namedtuple
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from headwater import Delta, Query, query

Rows = list[Any]
Lists = dict[str, Rows]
"""Rows of Python by table or view."""

SCHEMAS = {
    "customer": "custkey BIGINT, name STRING, nationkey BIGINT",
    "orders": "orderkey BIGINT, custkey BIGINT, orderdate DATE",
    "lineitem": "orderkey BIGINT, partkey BIGINT, suppkey BIGINT, quantity DECIMAL(15,2)",
    "part": "partkey BIGINT, name STRING",
    "partsupp": "partkey BIGINT, suppkey BIGINT",
    "supplier": "suppkey BIGINT, name STRING, nationkey BIGINT",
    "nation": "nationkey BIGINT, name STRING",
}
PREFIXES = {"customer": "c", "orders": "o", "lineitem": "l", "part": "p", "partsupp": "ps"}
PREFIXES |= {"supplier": "s", "nation": "n"}
STATIC = ("nation",)


# --- flat to nested ----------------------------------------------------------------------------------------------


@query
def q1(customer: Rows, orders: Rows, lineitem: Rows, part: Rows) -> Rows:
    """Each customer with their orders, and each order with its parts and how many of them."""
    return [
        {
            "name": c.name,
            "orders": [
                {
                    "date": o.orderdate,
                    "parts": [
                        {"name": p.name, "quantity": line.quantity}
                        for line in lineitem
                        if line.orderkey == o.orderkey
                        for p in part
                        if p.partkey == line.partkey
                    ],
                }
                for o in orders
                if o.custkey == c.custkey
            ],
        }
        for c in customer
    ]


@query
def q2(supplier: Rows, lineitem: Rows, orders: Rows, customer: Rows) -> Rows:
    """Each supplier with the names of the customers that it sold to, once for each line."""
    return [
        {
            "name": s.name,
            "customers": [
                c.name
                for line in lineitem
                if line.suppkey == s.suppkey
                for o in orders
                if o.orderkey == line.orderkey
                for c in customer
                if c.custkey == o.custkey
            ],
        }
        for s in supplier
    ]


@query
def q3(
    part: Rows, partsupp: Rows, supplier: Rows, lineitem: Rows, orders: Rows, customer: Rows
) -> Rows:
    """Each part with its suppliers and its customers, and their nations."""
    return [
        {
            "name": p.name,
            "suppliers": [
                {"name": s.name, "nationkey": s.nationkey}
                for ps in partsupp
                if ps.partkey == p.partkey
                for s in supplier
                if s.suppkey == ps.suppkey
            ],
            "customers": [
                {"name": c.name, "nationkey": c.nationkey}
                for line in lineitem
                if line.partkey == p.partkey
                for o in orders
                if o.orderkey == line.orderkey
                for c in customer
                if c.custkey == o.custkey
            ],
        }
        for p in part
    ]


# --- nested to flat ----------------------------------------------------------------------------------------------


@query
def q4(q1: Rows) -> Rows:
    """How much of each part each customer bought in each month of the year."""
    bought = [
        {"key": (c["name"], p["name"], o["date"].month), "quantity": p["quantity"]}
        for c in q1
        for o in c["orders"]
        for p in o["parts"]
    ]
    return [
        {
            "customer": key[0],
            "part": key[1],
            "month": key[2],
            "quantity": sum(b["quantity"] for b in bought if b["key"] == key),
        }
        for key in {b["key"] for b in bought}
    ]


@query
def q5(q3: Rows) -> Rows:
    """How often each part was bought from a nation that has no supplier of it."""
    abroad = [
        p["name"]
        for p in q3
        for c in p["customers"]
        if all(c["nationkey"] != s["nationkey"] for s in p["suppliers"])
    ]
    return [{"part": p, "customers": len([a for a in abroad if a == p])} for p in set(abroad)]


# --- nested to nested --------------------------------------------------------------------------------------------


@query
def q6(customer: Rows, q2: Rows) -> Rows:
    """Each customer with the suppliers that sold to them: Q2 the other way round."""
    return [
        {
            "name": c.name,
            "suppliers": [s["name"] for s in q2 for name in s["customers"] if name == c.name],
        }
        for c in customer
    ]


@query
def q7(nation: Rows, q3: Rows) -> Rows:
    """Each nation with the parts that it exports: supplied from it, and not bought in it."""
    return [
        {
            "name": n.name,
            "parts": [
                p["name"]
                for p in q3
                if any(s["nationkey"] == n.nationkey for s in p["suppliers"])
                and all(c["nationkey"] != n.nationkey for c in p["customers"])
            ],
        }
        for n in nation
    ]


QUERIES: dict[str, Query] = {q.__name__: q for q in (q1, q2, q3, q4, q5, q6, q7)}
FROM_NESTED = ("q4", "q5", "q6", "q7")
"""The queries that read nested rows."""


def views_of(name: str) -> list[str]:
    """The views that a query reads, which are declared first, and itself."""
    return [v for n in QUERIES[name].inputs if n in QUERIES for v in views_of(n)] + [name]


def tables_of(name: str) -> list[str]:
    """The tables that a query reads by itself or through views."""
    found = (n for v in views_of(name) for n in QUERIES[v].inputs if n in SCHEMAS)
    return list(dict.fromkeys(found))


# --- tables ------------------------------------------------------------------------------------------------------


COLUMNS = {
    name: [f"{PREFIXES[name]}_{column.split()[0]}" for column in ddl.split(", ")]
    for name, ddl in SCHEMAS.items()
}
"""What the columns are called in TPC-H."""


def projected(name: str, table: pa.Table) -> pa.Table:
    """The columns of a table of TPC-H that the queries read, under their names here."""
    names = COLUMNS[name]
    return table.select(names).rename_columns([n.partition("_")[2] for n in names])


def projected_all(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """All tables that the queries read."""
    return {n: projected(n, tables[n]) for n in SCHEMAS}


def deltas(change: Mapping[str, tuple[pa.Table, pa.Table]], names: Iterable[str]) -> dict[str, Any]:
    """An increment of a stream, as a database takes it: the tables with these names."""
    return {
        n: Delta(inserts=projected(n, change[n][0]), deletes=projected(n, change[n][1]))
        for n in names
        if n in change
    }


def lists(tables: Mapping[str, pa.Table]) -> Lists:
    """The rows of tables, with their columns as attributes."""
    out: Lists = {}
    for name, table in tables.items():
        row = namedtuple(name, table.column_names)  # type: ignore[misc]
        out[name] = [row(*cells) for cells in zip(*table.to_pydict().values(), strict=True)]
    return out


def plainly(name: str, given: Lists) -> Rows:
    """The answer of a query: the function itself, run on whole lists."""
    q = QUERIES[name]
    answer: Rows = q(*(given[n] if n in given else plainly(n, given) for n in q.inputs))
    return answer


# --- the same function, piece by piece ---------------------------------------------------------------------------

Index = Mapping[Any, Rows]


def by(rows: Rows, key: Callable[[Any], Any]) -> dict[Any, Rows]:
    """Rows by their key, in order."""
    out: dict[Any, Rows] = {}
    for row in rows:
        out.setdefault(key(row), []).append(row)
    return out


def at(index: Index, keys: Iterable[Any]) -> Rows:
    """The rows with any of some keys, each once."""
    return [row for key in dict.fromkeys(keys) for row in index.get(key, ())]


def _q1(given: Lists) -> Rows:
    orders = by(given["orders"], lambda o: o.custkey)
    lines = by(given["lineitem"], lambda x: x.orderkey)
    parts = by(given["part"], lambda p: p.partkey)
    out: Rows = []
    for c in given["customer"]:
        mine = at(orders, [c.custkey])
        their = at(lines, (o.orderkey for o in mine))
        out += q1([c], mine, their, at(parts, (x.partkey for x in their)))
    return out


def _buyers(given: Lists) -> Callable[[Rows], tuple[Rows, Rows]]:
    """From lines to their orders and to the customers of those."""
    orders = by(given["orders"], lambda o: o.orderkey)
    customers = by(given["customer"], lambda c: c.custkey)

    def found(lines: Rows) -> tuple[Rows, Rows]:
        of = at(orders, (x.orderkey for x in lines))
        return of, at(customers, (o.custkey for o in of))

    return found


def _q2(given: Lists) -> Rows:
    lines = by(given["lineitem"], lambda x: x.suppkey)
    buyers = _buyers(given)
    out: Rows = []
    for s in given["supplier"]:
        mine = at(lines, [s.suppkey])
        out += q2([s], mine, *buyers(mine))
    return out


def _q3(given: Lists) -> Rows:
    offers = by(given["partsupp"], lambda ps: ps.partkey)
    suppliers = by(given["supplier"], lambda s: s.suppkey)
    lines = by(given["lineitem"], lambda x: x.partkey)
    buyers = _buyers(given)
    out: Rows = []
    for p in given["part"]:
        offered, sold = at(offers, [p.partkey]), at(lines, [p.partkey])
        who = at(suppliers, (ps.suppkey for ps in offered))
        out += q3([p], offered, who, sold, *buyers(sold))
    return out


def _q6(given: Lists) -> Rows:
    """A customer and the suppliers that have them, with no other customers."""
    suppliers: dict[str, Rows] = {}
    for s in given["q2"]:
        for name, often in Counter(s["customers"]).items():
            suppliers.setdefault(name, []).append({**s, "customers": [name] * often})
    return [row for c in given["customer"] for row in q6([c], suppliers.get(c.name, []))]


def _by_name(q: Query, view: str, given: Lists) -> Rows:
    """A query that groups by the name of a row of a view: all rows of a name together."""
    named = by(given[view], lambda row: row["name"])
    return [row for rows in named.values() for row in q(rows)]


_PIECES: dict[str, Callable[[Lists], Rows]] = {
    "q1": _q1,
    "q2": _q2,
    "q3": _q3,
    "q4": partial(_by_name, q4, "q1"),
    "q5": partial(_by_name, q5, "q3"),
    "q6": _q6,
    "q7": partial(plainly, "q7"),
}


def piecewise(name: str, given: Lists) -> Rows:
    """The answer of a query: the function itself, run on one outer row at a time with the inner rows of its keys.

    The answers of views are added to what is given, so that each is made once.
    """
    for view in views_of(name):
        if view not in given:
            given[view] = _PIECES[view](given)
    return given[name]


# --- nested sources ----------------------------------------------------------------------------------------------

NESTED: dict[str, tuple[str, list[str]]] = {
    "q1": (
        """custkey BIGINT, name STRING, orders ARRAY<STRUCT<orderkey: BIGINT, date: DATE,
        parts: ARRAY<STRUCT<name: STRING, quantity: DECIMAL(15,2)>>>>""",
        ["custkey", "orders.orderkey"],
    ),
    "q2": ("suppkey BIGINT, name STRING, customers ARRAY<STRING>", ["suppkey"]),
    "q3": (
        """partkey BIGINT, name STRING, suppliers ARRAY<STRUCT<name: STRING, nationkey: BIGINT>>,
        customers ARRAY<STRUCT<name: STRING, nationkey: BIGINT>>""",
        ["partkey"],
    ),
}
"""What Q1 to Q3 make, as sources with the keys of their rows: columns and keys."""


def nested(name: str, given: Lists) -> Rows:
    """The rows of a nested source: what the query makes, with the keys, so that rows at every level have a name."""
    rows = piecewise(name, given)
    if name == "q1":
        orders = by(given["orders"], lambda o: o.custkey)
        return [
            {
                "custkey": c.custkey,
                "name": c.name,
                "orders": [
                    {"orderkey": o.orderkey, **order}
                    for o, order in zip(orders.get(c.custkey, ()), row["orders"], strict=True)
                ],
            }
            for c, row in zip(given["customer"], rows, strict=True)
        ]
    table, key = {"q2": ("supplier", "suppkey"), "q3": ("part", "partkey")}[name]
    return [{key: getattr(x, key), **row} for x, row in zip(given[table], rows, strict=True)]


def deep_change(name: str, before: Rows, after: Rows) -> dict[str, Delta]:
    """What turns the rows of a nested source into others, each change as deep as it can be.

    A row whose key came or went is given whole. Of one that stays only the inner rows are given that came or went,
    under the path of their bag and with the keys of their owners. Columns beside keys and bags never change here.
    """
    found = _Differences(NESTED[name][1])
    found.compare(name, {}, before, after)
    paths = dict.fromkeys((*found.inserts, *found.deletes))
    return {
        p: Delta(inserts=found.inserts.get(p, []), deletes=found.deletes.get(p, [])) for p in paths
    }


class _Differences:
    """Inner rows that came and went, by the path of their bag."""

    def __init__(self, keys: list[str]):
        self.keys = keys
        self.inserts: Lists = {}
        self.deletes: Lists = {}

    def compare(self, path: str, owner: dict[str, Any], before: Rows, after: Rows) -> None:
        """Compares one bag, inside rows that have these keys."""
        prefix = path.partition(".")[2]
        key = [k.rpartition(".")[2] for k in self.keys if k.rpartition(".")[0] == prefix]
        was, now = (by(side, partial(_identity, key)) for side in (before, after))
        for side, more, less in ((self.inserts, now, was), (self.deletes, was, now)):
            for same, rows in more.items():
                extra = len(rows) - len(less.get(same, ()))
                if extra > 0:
                    side.setdefault(path, []).extend([{**owner, **_columns(rows[0])}] * extra)
        for values in (now.keys() & was.keys()) if key else ():
            (old,), (new,) = was[values], now[values]
            inside = {**owner, **dict(zip(key, values, strict=True))}
            for name, bag in new.items():
                if isinstance(bag, list):
                    self.compare(f"{path}.{name}", inside, old[name], bag)


def _identity(key: list[str], element: Any) -> Any:
    """What an element is known by: its key, or without one its content, which has no bags here."""
    if key:
        return tuple(element[k] for k in key)
    return tuple(element.items()) if isinstance(element, dict) else element


def _columns(element: Any) -> dict[str, Any]:
    """An element of an array as columns."""
    return element if isinstance(element, dict) else {"value": element}
