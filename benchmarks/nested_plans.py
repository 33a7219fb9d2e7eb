"""The nested queries as others compute them: Spark's and DuckDB's own nested plans, and nested answers compared.

Both engines nest with a group-by that collects structs, and unnest with a generator. The text of a query reads the
views before it as common tables, or as tables if it is given nested ones. Left joins keep the rows whose bags are
empty. Answers are compared as bags to any depth: DuckDB sorts every list, from the inside out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
from tests.data.tpch.nested import views_of


@dataclass(frozen=True)
class Dialect:
    """How an engine writes what the queries need."""

    bag: Callable[..., str]
    """A bag of structs from the rows of a group."""
    values: Callable[[str], str]
    """A bag of values from the rows of a group."""
    empty: str
    each: Callable[[str, str], str]
    """A table beside each element of one of its arrays."""
    any: Callable[[str, str, str], str]
    """Whether an element of an array meets a condition."""


SPARK = Dialect(
    bag=lambda **f: f"collect_list(struct({', '.join(f'{e} AS {n}' for n, e in f.items())}))",
    values="collect_list({})".format,
    empty="array()",
    each=lambda array, name: f"LATERAL VIEW explode({array}) AS {name}",
    any="exists({}, {} -> {})".format,
)
DUCK = Dialect(
    bag=lambda **f: f"list({{{', '.join(f'{n}: {e}' for n, e in f.items())}}})",
    values="list({})".format,
    empty="[]",
    each=lambda array, name: f", unnest({array}) AS _{name}({name})",
    any="len(list_filter({}, lambda {}: {})) > 0".format,
)


def plan(name: str, d: Dialect) -> str:
    """A query over tables and the views before it."""
    parts = d.bag(name="p.name", quantity="l.quantity")
    orders = d.bag(date="o.orderdate", parts=f"coalesce(i.parts, {d.empty})")
    suppliers = d.bag(name="s.name", nationkey="s.nationkey")
    customers = d.bag(name="c.name", nationkey="c.nationkey")
    national = d.any("p.suppliers", "s", "s.nationkey = c.nationkey")
    supplied = d.any("p.suppliers", "s", "s.nationkey = n.nationkey")
    bought = d.any("p.customers", "c", "c.nationkey = n.nationkey")
    sold = "JOIN orders o ON o.orderkey = l.orderkey JOIN customer c ON c.custkey = o.custkey"
    texts = {
        "q1": f"""
            SELECT c.name, coalesce(i.orders, {d.empty}) AS orders
            FROM customer c LEFT JOIN (
                SELECT o.custkey, {orders} AS orders
                FROM orders o LEFT JOIN (
                    SELECT l.orderkey, {parts} AS parts
                    FROM lineitem l JOIN part p ON p.partkey = l.partkey
                    GROUP BY l.orderkey) i ON i.orderkey = o.orderkey
                GROUP BY o.custkey) i ON i.custkey = c.custkey""",
        "q2": f"""
            SELECT s.name, coalesce(i.customers, {d.empty}) AS customers
            FROM supplier s LEFT JOIN (
                SELECT l.suppkey, {d.values("c.name")} AS customers
                FROM lineitem l {sold}
                GROUP BY l.suppkey) i ON i.suppkey = s.suppkey""",
        "q3": f"""
            SELECT p.name, coalesce(i.suppliers, {d.empty}) AS suppliers,
                   coalesce(j.customers, {d.empty}) AS customers
            FROM part p LEFT JOIN (
                SELECT ps.partkey, {suppliers} AS suppliers
                FROM partsupp ps JOIN supplier s ON s.suppkey = ps.suppkey
                GROUP BY ps.partkey) i ON i.partkey = p.partkey
            LEFT JOIN (
                SELECT l.partkey, {customers} AS customers
                FROM lineitem l {sold}
                GROUP BY l.partkey) j ON j.partkey = p.partkey""",
        "q4": f"""
            SELECT c.name AS customer, p.name AS part, month(o.date) AS month,
                   sum(p.quantity) AS quantity
            FROM q1 c {d.each("c.orders", "o")} {d.each("o.parts", "p")}
            GROUP BY c.name, p.name, month(o.date)""",
        "q5": f"""
            SELECT p.name AS part, count(*) AS customers
            FROM q3 p {d.each("p.customers", "c")}
            WHERE NOT ({national})
            GROUP BY p.name""",
        "q6": f"""
            SELECT c.name, coalesce(i.suppliers, {d.empty}) AS suppliers
            FROM customer c LEFT JOIN (
                SELECT n AS name, {d.values("s.name")} AS suppliers
                FROM q2 s {d.each("s.customers", "n")}
                GROUP BY n) i ON i.name = c.name""",
        "q7": f"""
            SELECT n.name, coalesce(i.parts, {d.empty}) AS parts
            FROM nation n LEFT JOIN (
                SELECT n.nationkey, {d.values("p.name")} AS parts
                FROM nation n CROSS JOIN q3 p
                WHERE {supplied} AND NOT ({bought})
                GROUP BY n.nationkey) i ON i.nationkey = n.nationkey""",
    }
    return texts[name]


def from_tables(name: str, d: Dialect) -> str:
    """A query with the views that it reads, over tables."""
    *before, last = views_of(name)
    common = ", ".join(f"{view} AS ({plan(view, d)})" for view in before)
    return f"WITH {common} {plan(last, d)}" if common else plan(last, d)


# --- nested tables -----------------------------------------------------------------------------------------------

KEYED = {
    "q1": """
        SELECT c.custkey, c.name, coalesce(i.orders, []) AS orders FROM customer c LEFT JOIN (
            SELECT o.custkey, list({orderkey: o.orderkey, date: o.date, parts: o.parts}) AS orders
            FROM orders_with_parts o GROUP BY o.custkey) i ON i.custkey = c.custkey""",
    "q2": """
        SELECT s.suppkey, s.name, coalesce(i.customers, []) AS customers FROM supplier s LEFT JOIN (
            SELECT suppkey, list(name) AS customers FROM buyers GROUP BY suppkey) i
            ON i.suppkey = s.suppkey""",
    "q3": """
        SELECT p.partkey, p.name, coalesce(j.suppliers, []) AS suppliers,
               coalesce(i.customers, []) AS customers
        FROM part p LEFT JOIN (
            SELECT partkey, list({name: name, nationkey: nationkey}) AS customers
            FROM buyers GROUP BY partkey) i ON i.partkey = p.partkey
        LEFT JOIN (
            SELECT ps.partkey, list({name: s.name, nationkey: s.nationkey}) AS suppliers
            FROM partsupp ps JOIN supplier s ON s.suppkey = ps.suppkey
            GROUP BY ps.partkey) j ON j.partkey = p.partkey""",
}
"""What Q1 to Q3 make, with the keys of their rows."""
DEEP = {
    "q1": ("q1.orders", "SELECT custkey, orderkey, date, parts FROM orders_with_parts"),
    "q2": ("q2.customers", "SELECT suppkey, name AS value FROM buyers"),
    "q3": ("q3.customers", "SELECT partkey, name, nationkey FROM buyers"),
}
"""What some orders with their lines are in the nested sources: a path, and its inner rows with the keys around them."""
HELPERS = """
    CREATE VIEW orders_with_parts AS
        SELECT o.custkey, o.orderkey, o.orderdate AS date, coalesce(i.parts, []) AS parts
        FROM orders o LEFT JOIN (
            SELECT l.orderkey, list({name: p.name, quantity: l.quantity}) AS parts
            FROM lineitem l JOIN part p ON p.partkey = l.partkey
            GROUP BY l.orderkey) i ON i.orderkey = o.orderkey;
    CREATE VIEW buyers AS
        SELECT l.partkey, l.suppkey, c.name, c.nationkey
        FROM lineitem l JOIN orders o ON o.orderkey = l.orderkey
                        JOIN customer c ON c.custkey = o.custkey;
"""


def connected(tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """DuckDB with tables in memory, on all cores."""
    con = duckdb.connect()
    con.execute(f"SET threads TO {os.cpu_count()}")
    for name, table in tables.items():
        con.register("given", table)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        con.unregister("given")
    return con


def nested_table(name: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of a nested source."""
    with connected(tables) as con:
        con.execute(HELPERS)
        made: pa.Table = con.sql(KEYED[name]).to_arrow_table()
        return made


def inner_rows(name: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """What the given orders and lines are inside of a nested source; the other tables are those around them."""
    with connected(tables) as con:
        con.execute(HELPERS)
        made: pa.Table = con.sql(DEEP[name][1]).to_arrow_table()
        return made


# --- comparing ---------------------------------------------------------------------------------------------------


def unlike(found: Path, expected: Path) -> str:
    """How a nested answer in a Parquet file differs from another, in words; empty if it does not."""
    with duckdb.connect() as con:
        for name, at in (("found", found), ("expected", expected)):
            columns = con.sql(f"SELECT * FROM read_parquet('{at}') LIMIT 0").to_arrow_table().schema
            # Sums of decimals are wider in some engines, so all of them are compared as the widest.
            sorted_ = ", ".join(f"{in_order(f.name, f.type)} AS {f.name}" for f in columns)
            con.execute(f"CREATE TABLE {name} AS SELECT {sorted_} FROM read_parquet('{at}')")
        left, right = con.table("found"), con.table("expected")
        if left.columns != right.columns:
            return f"its columns are {left.columns}, and should be {right.columns}"
        for word, a, b in (("has", "found", "expected"), ("lacks", "expected", "found")):
            rest = con.sql(f"SELECT * FROM {a} EXCEPT ALL SELECT * FROM {b}").limit(2).fetchall()
            if rest:
                shown = ", ".join(str(row)[:300] for row in rest)
                return f"it {word} {shown}"
    return ""


def in_order(e: str, t: pa.DataType, depth: int = 0) -> str:
    """An expression of DuckDB whose lists are sorted, from the inside out."""
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        x = f"x{depth}"
        inner = in_order(x, t.value_type, depth + 1)
        each = e if inner == x else f"list_transform({e}, lambda {x}: {inner})"
        return f"list_sort({each})"
    if pa.types.is_struct(t):
        fields = (t.field(i) for i in range(t.num_fields))
        inside = (f"{f.name}: {in_order(f'{e}.{f.name}', f.type, depth)}" for f in fields)
        return f"{{{', '.join(inside)}}}"
    return f"CAST({e} AS DECIMAL(38,2))" if pa.types.is_decimal(t) else e
