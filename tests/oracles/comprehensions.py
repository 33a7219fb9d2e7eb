"""Queries that several tests share: the movies of seed 001, its benchmark Q1 to Q7, and data.

`agree` is the law of comprehensions: the term of a query, interpreted, is what the function gives when
it runs as Python on lists; lists, sets and generators are compared as bags to any depth.

Q1 yields (part name, quantity) and Q3 yields (name, nation key), which is what Q4, Q5 and Q7 read.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from headwater.calculus.check import check, type_of
from headwater.calculus.data import from_python, to_python
from headwater.calculus.interpret import interpret
from headwater.calculus.types import MapType
from headwater.language.comprehension import Query, query
from headwater.language.schema import schemas


class Row(dict[str, Any]):
    """A row with its fields as items and as attributes, so that queries may be written either way."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def rows(names: str, *values: tuple[Any, ...]) -> list[Row]:
    """Rows from a line of names and tuples of values."""
    return [Row(zip(names.split(), v, strict=True)) for v in values]


def canonical(value: Any) -> Any:
    """A value that is equal for equal bags: rows to multiplicities, at any depth."""
    if isinstance(value, dict):
        return frozenset((k, canonical(v)) for k, v in value.items())
    if isinstance(value, tuple):
        return ("tuple", *map(canonical, value))
    if isinstance(value, bool):
        return ("bool", value)
    if hasattr(value, "__iter__") and not isinstance(value, str):
        return ("bag", frozenset(Counter(map(canonical, value)).items()))
    return value


def evaluate(q: Query, types: Mapping[str, MapType], data: Mapping[str, Any]) -> Any:
    """What the term of a query says, as Python data."""
    term = q.read(types)
    check(term, types)
    values = {n: from_python(types[n], data[n]) for n in q.inputs}
    return to_python(type_of(term), interpret(term, values))


def agree(q: Query, types: Mapping[str, MapType], data: Mapping[str, Any]) -> None:
    """The term means what the function does."""
    found, wanted = evaluate(q, types, data), q(*(data[n] for n in q.inputs))
    wanted = wanted if isinstance(wanted, (list, set)) else list(wanted)
    assert canonical(found) == canonical(wanted), f"{found}\nis not\n{wanted}"


# --- the movies of section 3.1 ---------------------------------------------------------------------

MOVIES = schemas("M(name STRING, gen STRING, dir STRING)")


@query
def related(M):
    """For every movie, the others of the same genre or director."""
    return [
        (
            m.name,
            [m2.name for m2 in M if m.name != m2.name and (m.gen == m2.gen or m.dir == m2.dir)],
        )
        for m in M
    ]


BEFORE = rows(
    "name gen dir",
    ("Drive", "Drama", "Refn"),
    ("Skyfall", "Action", "Mendes"),
    ("Rush", "Action", "Howard"),
)
ADDED = rows("name gen dir", ("Jarhead", "Drama", "Mendes"))
RELATED_BEFORE = [("Drive", []), ("Skyfall", ["Rush"]), ("Rush", ["Skyfall"])]
RELATED_AFTER = [
    ("Drive", ["Jarhead"]),
    ("Skyfall", ["Rush", "Jarhead"]),
    ("Rush", ["Skyfall"]),
    ("Jarhead", ["Drive", "Skyfall"]),
]

# --- the benchmark of appendix A.5 -----------------------------------------------------------------

TPCH = schemas(
    """
    Customer(custkey BIGINT, name STRING, nationkey BIGINT);
    Orders(orderkey BIGINT, custkey BIGINT, orderdate DATE);
    Lineitem(orderkey BIGINT, partkey BIGINT, suppkey BIGINT, quantity DECIMAL(12,2));
    Part(partkey BIGINT, name STRING);
    Supplier(suppkey BIGINT, name STRING, nationkey BIGINT);
    PartSupp(partkey BIGINT, suppkey BIGINT);
    Nation(nationkey BIGINT, name STRING)
    """
)


@query
def Q1(Customer, Orders, Lineitem, Part):
    """For each customer the orders, and for each order its parts with their quantities."""
    return [
        (
            c.name,
            [
                (
                    o.orderdate,
                    [
                        (p.name, l.quantity)
                        for l in Lineitem  # noqa: E741
                        for p in Part
                        if l.orderkey == o.orderkey and l.partkey == p.partkey
                    ],
                )
                for o in Orders
                if o.custkey == c.custkey
            ],
        )
        for c in Customer
    ]


@query
def Q2(Supplier, Lineitem, Orders, Customer):
    """For each supplier the customers it sold to."""
    return [
        (
            s.name,
            [
                c.name
                for l in Lineitem  # noqa: E741
                if s.suppkey == l.suppkey
                for o in Orders
                if o.orderkey == l.orderkey
                for c in Customer
                if c.custkey == o.custkey
            ],
        )
        for s in Supplier
    ]


@query
def Q3(Part, PartSupp, Supplier, Lineitem, Orders, Customer):
    """For each part its suppliers and its customers, with their nations."""
    return [
        (
            p.name,
            [
                (s.name, s.nationkey)
                for ps in PartSupp
                if ps.partkey == p.partkey
                for s in Supplier
                if s.suppkey == ps.suppkey
            ],
            [
                (c.name, c.nationkey)
                for l in Lineitem  # noqa: E741
                if l.partkey == p.partkey
                for o in Orders
                if o.orderkey == l.orderkey
                for c in Customer
                if c.custkey == o.custkey
            ],
        )
        for p in Part
    ]


@query
def Q4(Q1):
    """The quantity per customer, part and month."""
    bought = [
        ((c_name, p_name, o_date.month), quantity)
        for c_name, orders in Q1
        for o_date, parts in orders
        for p_name, quantity in parts
    ]
    return [(key, sum(q for k, q in bought if k == key)) for key in {k for k, _ in bought}]


@query
def Q5(Q3):
    """For each part how many purchases came from a nation that has no supplier of it."""
    abroad = [
        p_name
        for p_name, suppliers, customers in Q3
        for _, c_nation in customers
        if all(c_nation != s_nation for _, s_nation in suppliers)
    ]
    return [(p, len([x for x in abroad if x == p])) for p in set(abroad)]


@query
def Q6(Customer, Q2):
    """For each customer the suppliers that sold to them."""
    return [
        (c.name, [s_name for s_name, customers in Q2 for name in customers if name == c.name])
        for c in Customer
    ]


@query
def Q7(Nation, Q3):
    """For each nation the parts that are supplied from it and not bought in it."""
    return [
        (
            n.name,
            [
                p_name
                for p_name, suppliers, customers in Q3
                if any(nation == n.nationkey for _, nation in suppliers)
                and all(nation != n.nationkey for _, nation in customers)
            ],
        )
        for n in Nation
    ]


BENCHMARK = (Q1, Q2, Q3, Q4, Q5, Q6, Q7)


def benchmark_types() -> dict[str, MapType]:
    """The types of the tables and of the results of Q1 to Q3, under their names."""
    return {**TPCH, **{q.__name__: type_of(q.read(TPCH)) for q in (Q1, Q2, Q3)}}


def benchmark_data(seed: int, size: int = 4) -> dict[str, list[Any]]:
    """A small random instance, and the results of Q1 to Q3 on it; names and some rows repeat."""
    r = random.Random(seed)

    def some(n: int) -> range:
        return range(r.randint(0, n))

    def key() -> int:
        return r.randint(1, size)

    def row(**fields: Any) -> Row:
        return Row(fields)

    day = date(2024, 1, 1)
    data: dict[str, list[Any]] = {
        "Customer": [
            row(custkey=i, name=f"customer{r.randint(1, 3)}", nationkey=r.randint(1, 3))
            for i in some(size)
        ],
        "Orders": [
            row(orderkey=key(), custkey=key(), orderdate=day + timedelta(days=r.randint(0, 80)))
            for _ in some(2 * size)
        ],
        "Lineitem": [
            row(orderkey=key(), partkey=key(), suppkey=key(), quantity=r.randint(1, 5))
            for _ in some(4 * size)
        ],
        "Part": [row(partkey=i, name=f"part{r.randint(1, 3)}") for i in some(size)],
        "Supplier": [
            row(suppkey=i, name=f"supplier{i}", nationkey=r.randint(1, 3)) for i in some(size)
        ],
        "PartSupp": [row(partkey=key(), suppkey=key()) for _ in some(2 * size)],
        "Nation": [row(nationkey=i, name=f"nation{i}") for i in range(1, 4)],
    }
    for q in (Q1, Q2, Q3):
        data[q.__name__] = q(*(data[n] for n in q.inputs))
    return data
