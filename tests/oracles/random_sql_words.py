"""The words of random SQL: pieces of text in Spark's and DuckDB's dialects, and what gives which kind of value.

A kind is a type that the generator knows. A template names the kinds of its arguments; where the dialects
differ it has DuckDB's words too. Numbers are multiples of 0.25, so that sums are exact in any order and in
any type, and nothing divides but avg.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple


class Text(NamedTuple):
    """A piece of SQL in both dialects."""

    spark: str
    duckdb: str


def sql(template: str, *parts: Text | str, duckdb: str | None = None) -> Text:
    """A template with its parts put in, in both dialects."""
    pairs = [Text(p, p) if isinstance(p, str) else p for p in parts]
    other = template if duckdb is None else duckdb
    return Text(
        template.format(*(p.spark for p in pairs)), other.format(*(p.duckdb for p in pairs))
    )


def joined(separator: str, parts: Iterable[Text]) -> Text:
    spark, duckdb = zip(*parts, strict=True)
    return Text(separator.join(spark), separator.join(duckdb))


@dataclass(frozen=True)
class Column:
    """A value that expressions may read: a column, a group's key or an aggregate.

    `alias` is its table's, empty where no subquery can name it; `bare`: its name alone may mean it.
    """

    text: Text
    kind: str
    name: str = ""
    alias: str = ""
    bare: bool = False


@dataclass(frozen=True)
class Scope:
    """What an expression may read, what its subqueries may, and how deep those may nest."""

    columns: tuple[Column, ...]
    visible: tuple[Column, ...] = ()
    depth: int = 0


def constant(value: Any) -> str:
    """A value as SQL writes it; DuckDB alone has the tuples and lists."""
    match value:
        case None | bool():
            return "NULL" if value is None else str(value).upper()
        case str():
            return f"'{value}'"
        case date():
            return f"DATE '{value}'"
        case tuple():
            return f"({', '.join(map(constant, value))})"
        case list():
            return f"[{', '.join(map(constant, value))}]"
        case _:
            return str(value)


TYPES = {  # the kinds: their types in Spark and in DuckDB
    "int": ("BIGINT", "BIGINT"),
    "str": ("STRING", "VARCHAR"),
    "dec": ("DECIMAL(8,2)", "DECIMAL(8,2)"),
    "dbl": ("DOUBLE", "DOUBLE"),
    "date": ("DATE", "DATE"),
    "bool": ("BOOLEAN", "BOOLEAN"),
    "avg": ("DOUBLE", "DOUBLE"),
    "avgdec": ("DECIMAL(12,6)", "DOUBLE"),
    "ints": ("ARRAY<BIGINT>", "BIGINT[]"),
    "rows": ("ARRAY<STRUCT<p: BIGINT, q: STRING>>", "STRUCT(p BIGINT, q VARCHAR)[]"),
}
POOLS: dict[str, tuple[Any, ...]] = {
    "int": (1, 2, 1, 2, 3, 0, -1, None),
    "str": ("x", "y", "x", "Ab", "", None),
    "dec": (*map(Decimal, ("0.50", "1.25", "0.50", "0.00", "-1.00", "12.75")), None),
    "dbl": (0.5, 1.25, 0.5, 0.0, -1.0, 2.75, None),
    "date": (date(2024, 1, 31), date(2024, 2, 29), date(2024, 1, 31), date(2023, 12, 31), None),
    "bool": (True, False, True, False, None),
}
SCALARS, ARRAYS, NAMES = tuple(POOLS), ("ints", "rows"), "abcdefg"
WANTED = (*SCALARS, *SCALARS, *SCALARS, "avg", "avgdec", *ARRAYS)

# What gives a kind: Spark's template, the kinds of its arguments (K: the kind itself), DuckDB's template.
Template = tuple[str, str] | tuple[str, str, str]
ANY: tuple[Template, ...] = (
    ("coalesce({}, {})", "K K"),
    ("CASE WHEN {} THEN {} ELSE {} END", "bool K K"),
    ("CASE WHEN {} THEN {} END", "bool K"),
    ("CASE {} WHEN {} THEN {} WHEN {} THEN {} ELSE NULL END", "int int K int K"),
    ("nullif({}, {})", "K K"),
    # DuckDB 2.0 fails on greatest and least of one column twice ("Duplicate named argument").
    ("greatest({}, {})", "K K", "list_max([{}, {}])"),
    ("least({}, {}, {})", "K K K", "list_min([{}, {}, {}])"),
)
FUNCTIONS: dict[str, tuple[Template, ...]] = {
    "int": (
        ("({} + {})", "int int"),
        ("({} - {})", "int int"),
        ("({} * 2)", "int"),
        ("-({})", "int"),
        ("abs({})", "int"),
        ("length({})", "str"),
        ("year({})", "date"),
        ("day({})", "date"),
        ("datediff({}, {})", "date date", "({} - {})"),
        ("size({})", "rows", "len({})"),
        ("CAST({} AS INT)", "bool"),
    ),
    "str": (
        ("({} || {})", "str str"),
        ("upper({})", "str"),
        ("lower({})", "str"),
        ("substring({}, 1, 1)", "str"),
        ("CAST({} AS STRING)", "int", "CAST({} AS VARCHAR)"),
    ),
    "dec": (
        ("({} + {})", "dec dec"),
        ("({} - {})", "dec int"),
        ("({} * 2)", "dec"),
        ("coalesce({}, {})", "int dec"),
        ("CAST({} AS DECIMAL(8,2))", "int"),
    ),
    "dbl": (
        ("({} + {})", "dbl dbl"),
        ("({} - {})", "dbl dec"),
        ("({} * {})", "dbl dbl"),
        ("CASE WHEN {} THEN {} ELSE {} END", "bool dec dbl"),
        ("CAST({} AS DOUBLE)", "dec"),
    ),
    "date": (("date_add({}, 1)", "date", "({} + 1)"), ("last_day({})", "date")),
}
COMPARISONS: tuple[Template, ...] = (  # conditions over two or more values that can be compared
    *((f"({{}} {op} {{}})", "K K") for op in ("=", "<", "<>", ">=", ">", "<=")),
    ("({} <=> {})", "K K", "({} IS NOT DISTINCT FROM {})"),
    ("({} IN ({}, {}))", "K K K"),
    ("({} NOT IN ({}, {}))", "K K K"),
    ("({} BETWEEN {} AND {})", "K K K"),
)
AGGREGATES: dict[str, tuple[Template, ...]] = {
    "int": (
        ("count(*)", "", "count(*) FILTER (WHERE {where})"),
        ("sum({})", "int", "CAST(sum({}) FILTER (WHERE {where}) AS BIGINT)"),
        ("count({})", "S"),
        ("count(DISTINCT {})", "S"),
        ("sum(DISTINCT {})", "int", "CAST(sum(DISTINCT {}) FILTER (WHERE {where}) AS BIGINT)"),
        ("count_if({})", "bool", "count(*) FILTER (WHERE ({}) AND {where})"),
        (
            "count(DISTINCT {}, {})",
            "S S",
            "count(DISTINCT ({0}, {1})) FILTER (WHERE {0} IS NOT NULL AND {1} IS NOT NULL AND {where})",
        ),
    ),
    "dec": tuple(
        (s, "dec", f"CAST({s} FILTER (WHERE {{where}}) AS DECIMAL(18,2))")
        for s in ("sum({})", "sum(DISTINCT {})")
    ),
    "dbl": (("sum({})", "dbl"), ("sum(DISTINCT {})", "dbl")),
    "bool": (("bool_and({})", "bool"), ("bool_or({})", "bool")),
    "avg": (("avg({})", "int"), ("avg({})", "dbl"), ("avg(DISTINCT {})", "int")),
    "avgdec": (("avg({})", "dec"), ("avg(DISTINCT {})", "dec")),
    "ints": tuple(
        (
            f"{spark}(CAST({{}} AS BIGINT))",
            "int",
            f"coalesce(list({duckdb}CAST({{0}} AS BIGINT)) FILTER (WHERE {{0}} IS NOT NULL AND {{where}}), [])",
        )
        for spark, duckdb in (("collect_list", ""), ("collect_set", "DISTINCT "))
    ),
    "rows": (
        (
            "collect_list(struct(CAST({} AS BIGINT) AS p, {} AS q))",
            "int str",
            "coalesce(list(struct_pack(p := CAST({} AS BIGINT), q := {})) FILTER (WHERE {where}), [])",
        ),
    ),
}
EXTREMES: tuple[Template, ...] = (("min({})", "K"), ("max({})", "K"))
JOINS = ("JOIN", "LEFT JOIN", "CROSS JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")  # fmt: skip
