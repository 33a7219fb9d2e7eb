"""Comprehensions: a term means what the function does, and what is outside the language is refused.

Features and refusals are tables of expressions. `written` makes a query of each, which then runs both
as Python, on lists, and as a term, in the reference interpreter.
"""

from __future__ import annotations

import datetime  # noqa: F401 (queries from text read the module's names)
import decimal  # noqa: F401
import itertools
import linecache
import random  # noqa: F401
import time  # noqa: F401
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw  # noqa: F401
from comprehensions import (
    ADDED,
    BEFORE,
    BENCHMARK,
    MOVIES,
    Q1,
    RELATED_AFTER,
    RELATED_BEFORE,
    TPCH,
    Row,
    agree,
    benchmark_data,
    benchmark_types,
    canonical,
    evaluate,
    related,
    rows,
)
from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import Call, Let, subterms
from headwater.calculus.types import BIGINT, STRING, bag
from headwater.errors import NotIncremental, QueryError, ScalarError, TypeMismatch, UnknownName
from headwater.language.comprehension import Query, query
from headwater.language.functions import Function, function
from headwater.language.schema import schemas

# --- the seed's queries ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "movies, expected", [(BEFORE, RELATED_BEFORE), (BEFORE + ADDED, RELATED_AFTER)]
)
def test_movies_of_the_seed(movies: list[Row], expected: list[Any]) -> None:
    assert canonical(evaluate(related, MOVIES, {"M": movies})) == canonical(expected)
    agree(related, MOVIES, {"M": movies})


@pytest.mark.parametrize("q", BENCHMARK, ids=lambda q: q.__name__)
def test_benchmark_of_the_seed(q: Query) -> None:
    types = benchmark_types()
    for seed in range(12):
        agree(q, types, benchmark_data(seed))


def test_benchmark_data_reaches_every_query() -> None:
    data = [benchmark_data(seed) for seed in range(12)]
    for q in BENCHMARK:
        assert any(q(*(d[n] for n in q.inputs)) for d in data), q.__name__
    assert any(parts for d in data for _, orders in d["Q1"] for _, parts in orders)


# --- queries from text, and data for them -------------------------------------------------------------

LIMIT, NAMES, NOTHING = 2, ["a", "b"], None
_count = itertools.count()


@function(returns="STRING")
def initial(s: str | None) -> str | None:
    """The first letter."""
    return s[:1] if s else None


@function(returns="DECIMAL(10,2)")
def doubled(x: Any, times: int = 2) -> Decimal:
    return Decimal(x or 0) * times


def plain(x: Any) -> Any:
    """A function that is not registered."""
    return x


def written(body: str, inputs: str = "R, S") -> Query:
    """A query from the text of its body, or of the expression it returns."""
    lines = body if "return" in body else f"return {body}"
    text = f"@query\ndef q({inputs}):\n" + "".join(f"    {x}\n" for x in lines.splitlines())
    name = f"<query {next(_count)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    outside = dict(globals())
    exec(compile(text, name, "exec"), outside)
    made: Query = outside["q"]
    return made


TYPES = schemas(
    """
    R(k BIGINT, v BIGINT, small INT, w DOUBLE, p DECIMAL(10,2), s STRING, b BOOLEAN, d DATE,
      n BIGINT, orders ARRAY<STRUCT<id: BIGINT, tags: ARRAY<STRING>>>,
      pair STRUCT<_1: BIGINT, _2: STRING>);
    S(k BIGINT, name STRING, b BOOLEAN)
    """
)


def order(number: int, *tags: str) -> Row:
    return Row(id=number, tags=list(tags))


DATA = {
    "R": rows(
        "k v small w p s b d n orders pair",
        (
            1,
            3,
            7,
            0.5,
            "1.50",
            "ab",
            True,
            date(2024, 1, 31),
            None,
            [order(1, "x", "y"), order(2)],
            (1, "x"),
        ),
        (
            1,
            3,
            7,
            0.5,
            "1.50",
            "ab",
            True,
            date(2024, 1, 31),
            None,
            [order(1, "x", "y"), order(2)],
            (1, "x"),
        ),
        (2, -4, -2, 2.25, "-0.25", " a ", False, date(2023, 12, 1), 2, [], (2, "y")),
        (3, 5, 0, -1.0, "20.00", "Bab", None, date(2024, 2, 29), 5, [order(3, "x", "x")], (1, "x")),
        (2, 0, 2**31 - 1, 0.0, "0.00", "\ta", True, date(2024, 2, 1), None, [order(1)], (5, "")),
    ),
    "S": rows("k name b", (1, "a", True), (2, "b", None), (2, "b", False), (7, "c", True)),
}
for row in DATA["R"]:
    row["p"] = Decimal(row["p"])
EMPTY_DATA: dict[str, list[Row]] = {"R": [], "S": []}

FEATURES = {
    # comprehensions
    "identity": "R",
    "list": "[x for x in R]",
    "generator": "(x.k for x in R if x.v > 0)",
    "set comprehension": "{x.k for x in R}",
    "set of tuples": "{(x.k, x.s) for x in R}",
    "set of rows": "{x for x in S}",
    "set of None": "{x.n for x in R}",
    "set call": "set(x.k for x in R)",
    "set literal": "[k for k in {1, 2, 2}]",
    "list call": "list({x.k for x in R})",
    "two loops": "[(x.v, y.name) for x in R for y in S if x.k == y.k]",
    "conditions between loops": "[(x.v, y.name) for x in R if x.v > 0 if x.k < 3 for y in S if y.k != x.k]",
    "loop over a comprehension": "[y for y in [x.v for x in R] if y > 0]",
    "loop over a generator": "[y for x in S for y in (z.v for z in R if z.k == x.k)]",
    "loop over a set": "[(y, x.k) for x in S for y in {z.v for z in R if z.k == x.k}]",
    "loop over a literal": "[(x.k, i) for x in R for i in (1, 2, x.v)]",
    "names used again": "[(x, [x for x in S if x.k > 1]) for x in [x.k for x in R]]",
    "names bound again": "[x for x in R for x in x.orders]",
    "input hidden by a variable": "[R.k for R in R]",
    # rows
    "dict": '[{"key": x.k, "value": x.v} for x in R]',
    "tuple": "[(x.k, x.v, x.s) for x in R]",
    "tuple of one": "[(x.k,) for x in R]",
    "nested records": '[{"a": {"b": x.k}, "c": (x.v, {"d": x.s})} for x in R]',
    "nested list": '[{"k": x.k, "of": [y.v for y in R if y.k == x.k]} for x in S]',
    "nested set": '[{"k": x.k, "of": {y.v for y in R if y.k == x.k}} for x in S]',
    "nested twice": "[(x.k, [(y.name, [z.v for z in R if z.k == y.k]) for y in S]) for x in R]",
    "list of lists": "[[y.v for y in R if y.k == x.k] for x in S]",
    "an inner collection kept": "[(x.k, x.orders) for x in R]",
    "rows as a literal": '[{"a": 1, "b": None}, {"b": 2, "a": 2.5}]',
    "rows of inner literals": "[(1, [1, 2]), (2, []), (3, [2.5])]",
    "constant record": '[{"total": sum(x.v for x in R), "rows": len(R)}]',
    # access
    "item by name": '[x["k"] for x in R if x["s"] == "ab"]',
    "position of a tuple": "[(x.pair[0], x.pair[1], x.pair[-1]) for x in R]",
    "field of a fresh record": '[{"a": x.k, "b": x.v}["b"] for x in R]',
    "fields of a record in a row": '[y["a"].k for y in [{"a": x} for x in R]]',
    "unpacking": "[b + a for a, b in [(x.v, x.k) for x in R]]",
    "unpacking in brackets": "[(a, c) for (a, (b, c)) in [(x.v, (x.k, x.s)) for x in R]]",
    "unpacking as a list": "[a for [a, b] in [x.pair for x in R]]",
    "ignored names": "[a for a, _ in [(x.v, x.k) for x in R] for _, b in [x.pair for x in R]]",
    "inner collections": "[o.id for x in R for o in x.orders]",
    "inner collections twice": "[(x.k, o.id, t) for x in R for o in x.orders for t in o.tags]",
    # arithmetic
    "integers": "[(x.v + 1, x.v - x.k, x.v * x.k, -x.v) for x in R]",
    "division": "[x.v / x.k for x in R]",
    "floor division": "[(x.v // 3, x.v // -3, x.w // 0.5, x.small // 2) for x in R]",
    "remainder": "[(x.v % 3, x.v % -3, x.w % 0.5) for x in R]",
    "doubles": "[x.w * 2 + x.v for x in R]",
    "decimals": "[(x.p + 1, x.p * x.v, x.p - x.p, -x.p) for x in R]",
    "small integers do not overflow": "[(x.small + x.small, x.small * x.small) for x in R]",
    "squares": "[(x.v ** 2, (x.w - x.v) ** 2, x.small ** 2, x.p ** 2) for x in R]",
    "abs": "[(abs(x.v), abs(x.p), abs(x.small)) for x in R]",
    "int and float": "[(int(x.w), float(x.v), float(x.p)) for x in R]",
    "negative constants": "[x for x in R if x.v > -5 and x.w >= -1.5]",
    "strings": '[x.s + "-" + x.pair[1] for x in R]',
    # conditions
    "comparisons": "[(x.v < 3, x.v <= 3, x.v > 3, x.v >= 3, x.v == 3, x.v != 3) for x in R]",
    "comparing strings and dates": '[x.k for x in R if x.s < "b" and x.d >= date(2024, 1, 31)]',
    "comparing decimals": '[x.k for x in R if x.p > Decimal("1.5") or x.p == 20]',
    "chained": "[x.k for x in R if -1 < x.v <= 5 != x.k]",
    "equality of None": "[(x.n == y.n, x.n != y.n) for x in R for y in R]",
    "comparing with None": "[(x.n == None, x.n != None, None == x.n) for x in R]",
    "is None": "[(x.n is None, x.n is not None) for x in R]",
    "guarded by is not None": "[x.k for x in R if x.n is not None and x.n > 2]",
    "guarded division": "[x.k for x in R if x.v != 0 and 12 // x.v > 2]",
    "and or": "[x.k for x in R if x.v > 0 and x.k < 2 or x.s == 'Bab']",
    "not": "[x.k for x in R if not x.v > 0 and not (x.k == 2 and x.v < 0)]",
    "not not": "[x.k for x in R if not not x.b]",
    "boolean column": "[x.k for x in R if x.b]",
    "not of a missing boolean": "[x.k for x in R if not x.b]",
    "not of a missing boolean as a value": "[(not x.b, not (x.b and x.k == 3)) for x in R]",
    "and of missing booleans": "[x.b and y.b for x in R for y in S]",
    "or of missing booleans": "[x.b or y.b for x in R for y in S]",
    "and or of three": "[(x.b and y.b and x.k > 1, x.b or y.b or x.k > 1) for x in R for y in S]",
    "equality of tuples": "[x.k for x in R for y in R if (x.k, x.s) == (y.k, y.s)]",
    "equality of a tuple and a field": '[x.pair == (1, "x") for x in R]',
    "inequality of tuples": "[x.k for x in R for y in R if x.pair != y.pair]",
    "equality of rows": "[x.k for x in S for y in S if x == y]",
    "equality of numbers": "[x.v for x in R if x.v == x.w or x.v == 3.0 or x.p == x.v]",
    "conditional": "[(x.v if x.v > 0 else -x.v, 'pos' if x.v > 0 else 'neg') for x in R]",
    "conditional with None": "[(x.n if x.n is not None else 0, x.k if x.b else None) for x in R]",
    "conditional of two numbers": "[1 if x.b else 2.5 for x in R]",
    "conditional guards": "[12 // x.v if x.v != 0 else None for x in R]",
    "conditional of records": '[({"a": 1, "b": x.v} if x.b else {"a": 2.5, "b": None}) for x in R]',
    "conditional of a record or None": "[(x.pair if x.b else None) for x in R]",
    "conditional of collections": "[(x.k, [y.k for y in S] if x.b else []) for x in R]",
    "conditional of rows with collections": "[((1, x.orders) if x.b else (2, [])) for x in R]",
    "conditional at the top": "R if len(S) > 3 else []",
    # membership
    "in a tuple": "[x.k in (1, 3) for x in R]",
    "in one or none": "[(x.k in [1], x.k in {1, 2}, x.k in ()) for x in R]",
    "not in a tuple": "[x.k for x in R if x.v not in (3, x.k, 0)]",
    "None in a tuple": "[(x.n in (2, None), x.n in (2, 3)) for x in R]",
    "in a comprehension": "[x.v for x in R if x.k in [y.k for y in S if y.name != 'b']]",
    "in a generator": "[x.v for x in R if x.k in (y.k for y in S)]",
    "in a set": "[x.v for x in R if x.k in {y.k for y in S}]",
    "not in a comprehension": "[x.v for x in R if x.k not in [y.k for y in S]]",
    "not (in)": "[x.v for x in R if not x.k in [y.k for y in S]]",
    "in as a value": "[(x.k in [y.k for y in S], x.n in [y.n for y in R]) for x in R]",
    "in or": "[x.v for x in R if x.k in [y.k for y in S] or x.v == 5]",
    "in an inner collection": '[x.k for x in R for o in x.orders if "x" in o.tags]',
    "tuples in a comprehension": "[x.s for x in R if (x.k, x.v) in [(y.k, 3) for y in S]]",
    "in a string": '[("a" in x.s, "b" not in x.s) for x in R]',
    "chain with in": "[x.k for x in R if 0 < x.k in [y.k for y in S]]",
    # aggregates
    "sum": "[sum(x.v for x in R)]",
    "sum of each": "[(y.k, sum(x.v for x in R if x.k == y.k)) for y in S]",
    "sum of decimals": "[sum(x.p for x in R), sum(x.p * x.v for x in R)]",
    "sum of doubles": "[sum(x.w for x in R)]",
    "sum of a list": "[sum([x.v for x in R])]",
    "sum of a set": "[sum({x.v for x in R})]",
    "sum of booleans": "[sum(x.v > 0 for x in R)]",
    "sum of conditions with any": "[sum(any(y.k == x.k for y in S) for x in R)]",
    "sum with a start": '[sum((x.p for x in R), Decimal("0.5"))]',
    "sum of an inner collection": "[(x.k, sum(o.id for o in x.orders)) for x in R]",
    "len": "[len(R), len([x for x in R if x.v > 0]), len({x.k for x in R})]",
    "len of an inner collection": "[(len(x.orders), [len(o.tags) for o in x.orders]) for x in R]",
    "len of a string": "[len(x.s) for x in R]",
    "min max": "[(min(x.v for x in R), max([x.s for x in R]), min({x.d for x in R}))]",
    "min max with a default": "[(min((y.v for y in R if y.k == x.k), default=0), "
    "max((y.v for y in R if y.k == x.k), default=-1)) for x in S]",
    "min with None as a default": "[min((y.v for y in R if y.k == x.k), default=None) for x in S]",
    "min max of scalars": "[(min(x.v, x.k), max(x.v, x.k, 2), min([x.v, 1.5]), max((1, x.k))) for x in R]",
    "min by a key": "[(min(S, key=lambda x: (x.name, x.k)).k, min(S, key=lambda x: x.k).name) for x in R]",
    "max by a key": "[max([{'k': x.k, 'w': x.w} for x in R], key=lambda x: x['w'])['k'], max([x.k for x in R], key=lambda k: (k - 3) ** 2)]",
    "min by a key of each": "[(y.k, min(((x.k, x.v) for x in R), key=lambda p: ((p[0] - y.k) ** 2, p[1]))[1]) for y in S]",
    "min by a key that is a tuple": "[(min(((x.k, x.s) for x in R), key=lambda p: (p[1], p[0])),) for y in S]",
    "min by a key with a default": "[min(((x.k, x.v) for x in R if x.k == y.k), "
    "key=lambda p: p[1], default=(0, None)) for y in S]",
    "min by a key, a column of None": "[min(((x.w, x.n) for x in R if x.k == y.k), "
    "key=lambda p: p[0], default=(None, None))[1] for y in S]",
    "mode": "[hw.mode(x.k for x in R), hw.mode([1, 2, 2, 1]), hw.mode(x.n for x in R)]",
    "mode of each": "[(y.k, hw.mode((x.s for x in R if x.k == y.k), default='')) for y in S]",
    "average": "[(k, sum(x.w for x in R if x.k == k) / len([x for x in R if x.k == k])) for k in {x.k for x in R}]",
    "any": "[x.name for x in S if any(y.k == x.k and y.v > 0 for y in R)]",
    "all": "[x.name for x in S if all(y.v > 0 for y in R if y.k == x.k)]",
    "not any": "[x.name for x in S if not any(y.k == x.k for y in R)]",
    "not all": "[x.name for x in S if not all(y.v > 0 for y in R if y.k == x.k)]",
    "any and all as values": "[(any(y.k == x.k for y in R), all(y.k == x.k for y in R), "
    "not any(y.k > x.k for y in R), not all(y.k == x.k for y in R)) for x in S]",
    "all of missing booleans": "[x.k for x in S if all(y.b for y in R if y.k == x.k)]",
    "any of missing booleans": "[x.k for x in S if any(y.b for y in R if y.k == x.k)]",
    "any of all": "[x.k for x in R if any(all(y.name == t for t in o.tags) for y in S for o in x.orders)]",
    "all of any": "[x.k for x in R if all(any(t == y.pair[1] for y in R) for o in x.orders for t in o.tags)]",
    "all of not any": "[x.k for x in R if all(not any(t == 'y' for t in o.tags) for o in x.orders)]",
    "any of a list": "[x.k for x in R if any([x.b, x.v > 4]) or all([x.v > 0, x.k > 1])]",
    "any or": "[x.k for x in S if x.b or any(y.k == x.k for y in R)]",
    "group by": '[{"k": k, "total": sum(x.v for x in R if x.k == k)} for k in {x.k for x in R}]',
    "group by two": "[(a, b, len([x for x in R if (x.k, x.s) == (a, b)])) for a, b in {(x.k, x.s) for x in R}]",
    "having": "[k for k in {x.k for x in R} if sum(x.v for x in R if x.k == k) > 0]",
    # collections
    "adding lists": "[x.k for x in R] + [y.k for y in S] + [0]",
    "adding lists of other types": "[(x.k, None) for x in R] + [(x.w, x.s) for x in R]",
    "adding inner collections": "[(x.k, x.orders + [o for y in R for o in y.orders]) for x in R]",
    "adding nothing": "[] + [x.k for x in R]",
    "adding sets as lists": "set(list({x.k for x in R}) + list({y.k for y in S}))",
    # strings, dates, constants, functions
    "methods of strings": "[(x.s.upper(), x.s.lower(), x.s.strip(), x.s.replace('a', 'oo')) for x in R]",
    "tests of strings": "[(x.s.startswith('a'), x.s.endswith(y.name)) for x in R for y in S]",
    "a method of a constant": "['ab'.upper() for x in R]",
    "parts of dates": "[(x.d.year, x.d.month, x.d.day) for x in R]",
    "constants": "[(1, 1.5, 'a', True, None, Decimal('1.50'), date(2024, 1, 2), x.k) for x in R]",
    "other constants": "[(Decimal(3), decimal.Decimal('1E+2'), Decimal('-0.001'), datetime.date(1999, 12, 31))]",
    "constants of the module": "[x.k for x in R if x.k == LIMIT or x.n == NOTHING]",
    "functions": "[(initial(x.s), doubled(x.n), doubled(x.v, 3)) for x in R]",
    "function in a condition": "[x.k for x in R if initial(x.s) == 'a' and doubled(sum(y.v for y in R)) > 3]",
    # statements
    "assignment": "pos = [x for x in R if x.v > 0]\nreturn [(x.k, len(pos)) for x in pos]",
    "assignment of scalars": "n = len(R)\nm: int = n + 1\nreturn [(x.k, n, m) for x in S]",
    "assignment again": "R = [x for x in R if x.v > 0]\nR = [x for x in R if x.k > 1]\nreturn [x.v for x in R]",
    "assignment of a set": "keys = {x.k for x in R}\nreturn [k for k in keys if k not in {y.k for y in S}]",
    "docstring": "'''Rows.'''\nreturn [x for x in R]",
}


@pytest.mark.parametrize("name", FEATURES)
def test_feature_means_what_python_means(name: str) -> None:
    q = written(FEATURES[name])
    agree(q, TYPES, DATA)
    try:
        q(**EMPTY_DATA)
    except (ValueError, ZeroDivisionError):
        return
    agree(q, TYPES, EMPTY_DATA)


def test_features_tell_data_apart() -> None:
    """Most features have rows to say something about."""
    assert all(list(written(body)(**DATA)) for body in FEATURES.values())


def test_empty_extreme_is_an_error_as_in_python() -> None:
    q = written("[min(x.v for x in R)]")
    with pytest.raises(ValueError):
        q([], [])
    with pytest.raises(ScalarError, match="empty collection"):
        evaluate(q, TYPES, EMPTY_DATA)


# --- the decorated object ------------------------------------------------------------------------------


def test_a_query_is_the_function_it_decorates() -> None:
    assert Q1.__name__ == "Q1" and "each customer" in (Q1.__doc__ or "")
    assert Q1.inputs == ("Customer", "Orders", "Lineitem", "Part")
    assert Q1.__wrapped__([], [], [], []) == Q1([], [], [], []) == []
    assert "@query\ndef Q1" in (Q1.source or "") and repr(related) == "<query related(M)>"


def test_terms_carry_the_names_of_the_query() -> None:
    q = written("[(x.k, [x.name for x in S if x.k in [x.k for x in R]]) for x in R]")
    assert str(q.read(TYPES)) == (
        "for x in R collect {{_1: x.k, _2: box(for x1 in S collect "
        "(¬(¬(for x2 in R collect [x1.k <=> x2.k]))) · {x1.name})}}"
    )


def test_conjunctions_become_factors_and_assignments_lets() -> None:
    q = written("a = [x for x in R if x.k > 1 and (x.k, x.v) == (2, 0)]\nreturn [x.v for x in a]")
    term = q.read(TYPES)
    assert isinstance(term, Let) and term.var.name == "a"
    assert str(term.bound) == "for x in R collect [x.k > 1] · [x.k <=> 2] · [x.v <=> 0] · {x}"


def test_quantifiers_as_scalars_compare_a_count() -> None:
    term = written("[(any(y.b for y in S), len(S)) for x in R]").read(TYPES)
    assert str(term) == (
        "for x in R collect {{_1: box(for y in S collect [y.b]) > 0, _2: box(sum(S))}}"
    )


def test_indented_definitions_and_closures_are_read() -> None:
    least = 2

    @query
    def q(R):
        """With a line in the text that is not indented:
        nothing is dedented."""
        return [
            x.s
            + """
"""
            for x in R
            if x.k >= least
        ]

    agree(q, TYPES, DATA)


def test_the_meaning_is_taken_from_what_names_stand_for() -> None:
    def shadowed(sum: Any) -> Query:
        @query
        def q(R):
            return [sum(x.k for x in R)]

        return q

    with pytest.raises(NotIncremental, match="UNKNOWN_FUNCTION"):
        shadowed(plain).read(TYPES)
    with pytest.raises(NotIncremental, match="UNKNOWN_FUNCTION"):
        written("[len(x) for len in R for x in R]").read(TYPES)


# --- registered functions ---------------------------------------------------------------------------------


def test_a_function_stays_callable_and_has_a_type() -> None:
    assert isinstance(initial, Function) and initial("abc") == "a" and initial.__doc__
    term = written("[initial(x.s) for x in R]").read(TYPES)
    assert type_of(term) == bag(STRING)
    (call,) = [t for t in subterms(term) if isinstance(t, Call)]
    assert call.function == "initial" and call.returns == STRING
    assert interpret(term, {"R": from_python(TYPES["R"], DATA["R"])})["a"] == 2


def test_a_function_may_be_defined_again_but_not_hide_a_scalar() -> None:
    def scored(x: int) -> int:
        return x + 1

    assert function(returns="BIGINT")(scored)(1) == 2
    assert function(returns=BIGINT)(scored).returns == BIGINT
    for f in (str.upper, min, lambda x: x):
        with pytest.raises(QueryError):
            function(returns="STRING")(f)
    with pytest.raises(QueryError, match="scalar"):
        function(returns="ARRAY<BIGINT>")(scored)


# --- refusals ---------------------------------------------------------------------------------------------

Refusal = tuple[str, str, str, str]
N, U, T = "NotIncremental", "UnknownName", "TypeMismatch"

# the query, the error with its reason, the underlined text, a part of the message or the hint
REFUSED: list[Refusal] = [
    # results
    (
        "sum(x.v for x in R)",
        "NOT_A_COLLECTION",
        "sum(x.v for x in R)",
        '[{"total": sum(x.v for x in R)}]',
    ),
    ('{"a": len(R)}', "NOT_A_COLLECTION", '{"a": len(R)}', '[{"a": len(R)}]'),
    ("(len(R), 1)", "NOT_A_COLLECTION", "(len(R), 1)", "[(len(R), 1)]"),
    ("[]", T, "[]", "no type"),
    ("[(x.k, []) for x in R]", T, "[]", "if False"),
    ("[len([]) for x in R]", T, "[]", "no type"),
    # names
    ("[x.kk for x in R]", U, "x.kk", "fields of `x`: k, v, small"),
    ('[x["kk"] for x in R]', U, 'x["kk"]', "unknown field `kk`"),
    ("[y.k for x in R]", U, "y", "in sight: R, S, x"),
    ("[x.k for x in Q]", U, "Q", "unknown name `Q`"),
    ("[x.pair[2] for x in R]", U, "x.pair[2]", "tuple of 2"),
    ("[x.k for x in NAMES]", "UNSUPPORTED_SYNTAX", "NAMES", "constants: int"),
    # types
    ("[x.k + x.s for x in R]", T, "x.k + x.s", "numbers, not bigint and string"),
    ("[x.k - None for x in R]", T, "x.k - None", "not bigint and None"),
    ("[x.d - x.d for x in R]", T, "x.d - x.d", "not date and date"),
    ("[x.b + 1 for x in R]", T, "x.b + 1", "not boolean and bigint"),
    ("[-x.s for x in R]", T, "-x.s", "not string"),
    ("[x.p * x.w for x in R]", T, "x.p * x.w", 'Decimal("0.5")'),
    ("[x.k for x in R if x.p > 0.5]", T, "x.p > 0.5", "Decimal and float do not mix"),
    ("[x.k for x in R if x.s == 1]", T, "x.s == 1", "no common type"),
    ("[x.k for x in R if x.s < 1]", T, "x.s < 1", "no common type"),
    ("[x.k for x in R if x.n < None]", T, "x.n < None", "not None"),
    ("[x.k for x in R if x.pair < x.pair]", T, "x.pair < x.pair", "not a tuple"),
    ("[x.k if x.b else x.s for x in R]", T, "x.k if x.b else x.s", "no common type"),
    ("[x.k if x.b else x.orders for x in R]", T, "x.k if x.b else x.orders", "not a collection"),
    ('[{"a": 1}, {"b": 1}]', T, '[{"a": 1}, {"b": 1}]', "{a: bigint} and {b: bigint}"),
    ("[x.k for x in R] + [x.s for x in R]", T, "[x.k for x in R] + [x.s for x in R]", "no common"),
    ("[o for x in R for o in x.k]", T, "x.k", "bigint is not a collection"),
    ("[c for x in R for c in x.s]", T, "x.s", "string is not a collection"),
    ("[a for a, b in R]", T, "a, b", "row.name"),
    ("[a for a, b, c in [x.pair for x in R]]", T, "a, b, c", "3 names for a tuple of 2"),
    ("[R.k for x in S]", T, "R.k", "[x.k for x in R]"),
    ("[x.k.year for x in R]", T, "x.k.year", "no field `year`"),
    ("[sum(x.s for x in R)]", T, "x.s", "adds numbers"),
    ("[sum(x.orders for x in R)]", T, "x.orders", "adds numbers, not a collection"),
    ("[min(x.pair for x in R)]", T, "min(x.pair for x in R)", "key=lambda"),
    ("[min(x.k, x.s) for x in R]", T, "min(x.k, x.s)", "no common type"),
    ("[max((x.k for x in R), default='a')]", T, "max((x.k for x in R), default='a')", "no common"),
    ("[max(1, 2, key=lambda x: x)]", T, "max(1, 2, key=lambda x: x)", "one collection"),
    ("[min(R, key=lambda x: x.k).k]", T, "min(R, key=lambda x: x.k)", "rows with collections"),
    ("[min(S, key=lambda x: R).k]", T, "lambda x: R", "a collection is not ordered"),
    ("[hw.mode(x.pair for x in R)]", T, "hw.mode(x.pair for x in R)", "one column"),
    (
        "[hw.mode((x.k for x in R), default='a')]",
        T,
        "hw.mode((x.k for x in R), default='a')",
        "no common",
    ),
    ("[max(1, 2, default=3)]", T, "max(1, 2, default=3)", "one collection"),
    ("[len(x.k) for x in R]", T, "len(x.k)", "not a collection"),
    ("[len(x.pair) for x in R]", T, "len(x.pair)", "a tuple is not"),
    ("[float(x.s) for x in R]", T, "float(x.s)", "converts numbers"),
    ("[x.s.startswith(x.k) for x in R]", T, "x.s.startswith(x.k)", "string, bigint"),
    ("[initial(x.s, 1) for x in R]", T, "initial(x.s, 1)", "does not take 2"),
    ("[initial(x.orders) for x in R]", T, "x.orders", "a scalar is wanted"),
    ("[date(2024, 13, 1) for x in R]", T, "date(2024, 13, 1)", "has no value"),
    ('[Decimal("one") for x in R]', T, 'Decimal("one")', "has no value"),
    ("{x.k for x in R} + {x.k for x in S}", T, "{x.k for x in R} + {x.k for x in S}", "list(a)"),
    # conditions
    ("[x.k for x in R if x.k]", "NOT_A_BOOLEAN", "x.k", "`x.k != 0`"),
    ("[x.k for x in R if not x.s]", "NOT_A_BOOLEAN", "x.s", '`x.s != ""`'),
    ("[x.k for x in R if x.orders]", "NOT_A_BOOLEAN", "x.orders", "`len(x.orders) > 0`"),
    ("[x.k for x in R if x.b and x.d]", "NOT_A_BOOLEAN", "x.d", "`x.d is not None`"),
    ("[x.n or 0 for x in R]", "NOT_A_BOOLEAN", "x.n", "`a if c else b`"),
    ("[1 if x.k else 2 for x in R]", "NOT_A_BOOLEAN", "x.k", "is bigint"),
    ("[x.k for x in R if any(y.k for y in S)]", "NOT_A_BOOLEAN", "y.k", "is bigint"),
    ("[x.k for x in R if all(x.orders)]", "NOT_A_BOOLEAN", "x.orders", "is a record"),
    (
        "[x.k for x in R if x.orders == x.orders]",
        "COLLECTION_EQUALITY",
        "x.orders == x.orders",
        "len(x)",
    ),
    ("[x.k for x in R if x.orders != []]", "COLLECTION_EQUALITY", "x.orders != []", "len(x)"),
    ("[x.k for x in R for y in R if x == y]", "COLLECTION_EQUALITY", "x == y", "identifies"),
    ("[x.k for x in R if x.k is x.v]", "UNSUPPORTED_SYNTAX", "x.k is x.v", "`==`"),
    # functions
    ("[plain(x.k) for x in R]", "UNKNOWN_FUNCTION", "plain(x.k)", "@function"),
    ("[nowhere(x.k) for x in R]", "UNKNOWN_FUNCTION", "nowhere(x.k)", "`nowhere` is not"),
    ("sorted(x.k for x in R)", "UNKNOWN_FUNCTION", "sorted(x.k for x in R)", "no order"),
    ("[round(x.w) for x in R]", "UNKNOWN_FUNCTION", "round(x.w)", "halves"),
    ("related(R)", "UNKNOWN_FUNCTION", "related(R)", "view"),
    ("[x.s.title() for x in R]", "UNKNOWN_FUNCTION", "x.s.title()", "upper, lower"),
    ("[x.get('k') for x in R]", "UNKNOWN_FUNCTION", "x.get('k')", "a record has no method"),
    (
        "[datetime.datetime(2024, 1, 1) for x in R]",
        "UNKNOWN_FUNCTION",
        "datetime.datetime(2024, 1, 1)",
        "",
    ),
    ("[x.s.strip('a') for x in R]", "UNSUPPORTED_SYNTAX", "x.s.strip('a')", "0 arguments"),
    (
        "[x.s.replace('', 'a') for x in R]",
        "UNSUPPORTED_SYNTAX",
        "x.s.replace('', 'a')",
        "not empty",
    ),
    (
        "[x.s.replace(x.s, 'a') for x in R]",
        "UNSUPPORTED_SYNTAX",
        "x.s.replace(x.s, 'a')",
        "constant",
    ),
    (
        "[min((x.k for x in R), key=abs)]",
        "UNSUPPORTED_SYNTAX",
        "abs",
        "key=lambda x",
    ),
    ("[min(S, key=lambda x, y: x.k).k]", "UNSUPPORTED_SYNTAX", "lambda x, y: x.k", "of one row"),
    ("[random.random() for x in R]", "NON_DETERMINISTIC", "random.random()", "column"),
    ("[random.choice([1, 2]) for x in R]", "NON_DETERMINISTIC", "random.choice([1, 2])", "column"),
    ("[time.time() for x in R]", "NON_DETERMINISTIC", "time.time()", "column"),
    ("[initial(s=x.s) for x in R]", "UNSUPPORTED_SYNTAX", "initial(s=x.s)", "`s=`"),
    ("[initial(*x.pair) for x in R]", "UNSUPPORTED_SYNTAX", "*x.pair", "write out"),
    ("[Decimal(x.k) for x in R]", "UNSUPPORTED_SYNTAX", "Decimal(x.k)", "not a constant"),
    ("[Decimal(0.1) for x in R]", "UNSUPPORTED_SYNTAX", "Decimal(0.1)", 'Decimal("1.50")'),
    # syntax
    ("[f'{x.s}' for x in R]", "UNSUPPORTED_SYNTAX", "f'{x.s}'", "a + b"),
    ("[(lambda: 1) for x in R]", "UNSUPPORTED_SYNTAX", "lambda: 1", "outside the language"),
    ("[(y := x.k) for x in R]", "UNSUPPORTED_SYNTAX", "y := x.k", "outside the language"),
    ("[x.k ** 3 for x in R]", "UNSUPPORTED_SYNTAX", "x.k ** 3", "x * x * x"),
    ("[2 ** x.k for x in R]", "UNSUPPORTED_SYNTAX", "2 ** x.k", "the square is read"),
    (
        "{x.k for x in R} | {x.k for x in S}",
        "UNSUPPORTED_SYNTAX",
        "{x.k for x in R} | {x.k for x in S}",
        "",
    ),
    (
        "{x.k: x.v for x in R}",
        "UNSUPPORTED_SYNTAX",
        "{x.k: x.v for x in R}",
        "outside the language",
    ),
    ("[{x.s: 1} for x in R]", "UNSUPPORTED_SYNTAX", "{x.s: 1}", '{"name": value, ...}'),
    ('[{**x, "a": 1} for x in R]', "UNSUPPORTED_SYNTAX", '{**x, "a": 1}', "distinct string"),
    ('[{"a": 1, "a": 2} for x in R]', "UNSUPPORTED_SYNTAX", '{"a": 1, "a": 2}', "distinct string"),
    ("[{} for x in R]", "UNSUPPORTED_SYNTAX", "{}", "record"),
    ("[() for x in R]", "UNSUPPORTED_SYNTAX", "()", "outside the language"),
    ("[*R, 1]", "UNSUPPORTED_SYNTAX", "*R", "add lists with +"),
    ("[x.s[0] for x in R]", "UNSUPPORTED_SYNTAX", "x.s[0]", "string is not read by position"),
    ("[R[0].k for x in S]", "UNSUPPORTED_SYNTAX", "R[0]", "a collection is not"),
    ("[x.s[:2] for x in R]", "UNSUPPORTED_SYNTAX", "x.s[:2]", "by position"),
    (
        "[x.k + 9223372036854775808 for x in R]",
        "UNSUPPORTED_SYNTAX",
        "9223372036854775808",
        "64 bits",
    ),
    ("[b'a' for x in R]", "UNSUPPORTED_SYNTAX", "b'a'", "cannot be a constant"),
    ("[(x.k, (y.v for y in R)) for x in R]", "UNSUPPORTED_SYNTAX", "(y.v for y in R)", "[... for"),
    (
        "[len((y for y in R))]",
        "UNSUPPORTED_SYNTAX",
        "(y for y in R)",
        "used up once",
    ),
    (
        "g = (x for x in R)\nreturn [len(list(g)), len(list(g))]",
        "UNSUPPORTED_SYNTAX",
        "(x for x in R)",
        "list",
    ),
    (
        "[x.k for x in S for y in (z for z in R if z.k == x.k) for x in S]",
        "UNSUPPORTED_SYNTAX",
        "[x.k for x in S for y in (z for z in R if z.k == x.k) for x in S]",
        "`x` is bound again",
    ),
    ("[x.k for x in R for x.k in R]", "MUTATION", "x.k", "for a, b in"),
    ("[a for a, *b in [x.pair for x in R]]", "MUTATION", "*b", "for a, b in"),
    ("{x.orders for x in R}", "UNHASHABLE", "{x.orders for x in R}", "tuple of scalars"),
    (
        '{ {"a": x.k} for x in R}',
        "UNHASHABLE",
        '{ {"a": x.k} for x in R}',
        "tuple",
    ),
    # statements
    ("for x in R:\n    pass\nreturn R", "MUTATION", "for x in R:", "[... for x in xs if ...]"),
    ("if R:\n    return S\nreturn R", "MUTATION", "if R:", "`a if c else b`"),
    ("R.append(1)\nreturn R", "MUTATION", "R.append(1)", "changes nothing"),
    ("R += S\nreturn R", "MUTATION", "R += S", "name = expression"),
    ("a, b = 1, 2\nreturn R", "MUTATION", "a, b = 1, 2", "one new name"),
    ("R[0] = 1\nreturn R", "MUTATION", "R[0] = 1", "one new name"),
    ("import os\nreturn R", "UNSUPPORTED_SYNTAX", "import os", "`import os`"),
    ("return R\nreturn S", "MUTATION", "return S", "follows the return"),
    ("return", "UNSUPPORTED_SYNTAX", "return", "is not read"),
]


@pytest.mark.parametrize("body, error, underlined, said", REFUSED, ids=lambda x: str(x)[:40])
def test_refused_with_its_place(body: str, error: str, underlined: str, said: str) -> None:
    q = written(body)
    with pytest.raises(QueryError) as caught:
        q.read(TYPES)
    e = caught.value
    assert {U: UnknownName, T: TypeMismatch}.get(error, NotIncremental) is type(e), e
    assert getattr(e, "reason", error) == error
    assert e.span is not None and e.text == q.source
    line = e.text.splitlines()[e.span.line - 1]
    assert line[e.span.column - 1 :][: e.span.length] == underlined
    assert said in str(e)


def test_the_message_shows_the_place() -> None:
    q = written("[(x.k, 'ü', x.prise) for x in R]")
    with pytest.raises(UnknownName) as caught:
        q.read(schemas("R(k BIGINT, price BIGINT); S(k BIGINT)"))
    assert str(caught.value) == (
        "unknown field `prise` in `x` (line 3, column 24)\n"
        "      return [(x.k, 'ü', x.prise) for x in R]\n"
        "                         ^^^^^^^\n"
        "fields of `x`: k, price"
    )


def test_an_input_that_is_not_declared() -> None:
    with pytest.raises(UnknownName) as caught:
        Q1.read({n: t for n, t in TPCH.items() if n != "Orders"})
    assert caught.value.span is not None and caught.value.span.line == 2
    assert "unknown input `Orders`" in str(caught.value) and "Customer, Lineitem" in str(
        caught.value
    )


@pytest.mark.parametrize("inputs", ["R, S=()", "*R", "R, *, S", "R, /", "**R"])
def test_parameters_are_inputs_by_name(inputs: str) -> None:
    with pytest.raises(NotIncremental, match="parameters"):
        written("R", inputs).read(TYPES)


def test_a_query_without_a_return() -> None:
    @query
    def q(R):
        "Nothing."

    with pytest.raises(NotIncremental, match="returns a collection"):
        q.read(TYPES)


def test_what_has_no_text_runs_but_is_not_read() -> None:
    made: dict[str, Any] = {}
    exec("def q(R):\n    return R", made)
    q = query(made["q"])
    assert q([1]) == [1]
    with pytest.raises(NotIncremental, match="NO_SOURCE"):
        q.read(TYPES)


def test_what_is_not_a_plain_function() -> None:
    with pytest.raises(NotIncremental, match="plain function"):
        query(lambda R: R).read(TYPES)
    with pytest.raises(NotIncremental, match="not a function"):
        query(len)
    with pytest.raises(NotIncremental, match="another decorator"):
        query(_wrapped(plain))


def _wrapped(f: Any) -> Any:
    def g(R: Any) -> Any:
        return f(R)

    g.__wrapped__ = f  # type: ignore[attr-defined]
    return g


# --- random data ------------------------------------------------------------------------------------------

small = st.integers(-3, 3)
tags = st.sampled_from(["", "x", "y", "xy"])
R_ROWS = st.builds(
    Row,
    k=st.integers(0, 3),
    v=small,
    small=small,
    w=small.map(lambda n: n / 2),
    p=small.map(lambda n: Decimal(n) / 4),
    s=tags,
    b=st.sampled_from([None, False, True]),
    d=st.dates(date(2023, 11, 1), date(2024, 3, 1)),
    n=st.none() | small,
    orders=st.lists(st.builds(Row, id=small, tags=st.lists(tags, max_size=2)), max_size=2),
    pair=st.tuples(small, tags),
)
S_ROWS = st.builds(Row, k=st.integers(0, 3), name=tags, b=st.sampled_from([None, False, True]))

RANDOM = {
    "join": "[(x.v, y.name) for x in R for y in S if x.k == y.k and x.s != y.name]",
    "nested": "[(x.k, [(y.v, [o.id for o in y.orders if o.id > x.k]) for y in R if y.k == x.k]) for x in S]",
    "flattened": "[(x.k, o.id, t) for x in R for o in x.orders if o.id != 0 for t in o.tags if t in x.s]",
    "distinct": "{(x.k, x.n, x.b) for x in R if x.s in (y.name for y in S)}",
    "grouped": "[(k, sum(x.v for x in R if x.k == k), len([x for x in R if x.k == k])) for k in {x.k for x in R}]",
    "grouped by None": "[(n, sum(x.p for x in R if x.n == n)) for n in {x.n for x in R}]",
    "extremes": "[(y.k, min((x.v for x in R if x.k == y.k), default=None), "
    "max((x.w for x in R if x.k == y.k), default=0.0)) for y in S]",
    "anti join": "[x.k for x in R if x.s not in [y.name for y in S] and not any(y.b for y in S if y.k == x.k)]",
    "universal": "[y.name for y in S if all(x.b or x.v > 0 for x in R if x.k == y.k)]",
    "logic of None": "[(x.b and y.b, x.b or y.b, not x.b, x.n == y.k, x.n != x.v) for x in R for y in S]",
    "tuples": "[(x.pair, len([z for z in R if z.pair == x.pair])) for x in R if x.pair in [z.pair for z in R if z.v > 0]]",
    "branches": "[(x.n if x.n is not None else x.v, x.orders if x.b else [], 0 if x.b else x.w) for x in R]",
    "added": "[(x.k, [x.v]) for x in R] + [(x.n, [o.id for o in x.orders] + [x.w]) for x in R]",
    "division": "[(x.v // y.k, x.v % y.k, x.v / y.k, x.w // y.k, x.p * x.v) for x in R for y in S if y.k != 0]",
    "strata": "totals = [(k, sum(x.v for x in R if x.k == k)) for k in {x.k for x in R}]\n"
    "top = max((t for _, t in totals), default=0)\n"
    "return [(k, t == top, top - t) for k, t in totals if t >= sum(t for _, t in totals) / 3]",
    "quantifiers": "[(x.k, any(o.id in [y.k for y in S] for o in x.orders), sum(len(o.tags) > 1 for o in x.orders)) "
    "for x in R if all(any(t == y.name for y in S) for o in x.orders for t in o.tags)]",
    "strings and dates": "[(x.s + y.name, x.s.upper(), x.d.month, x.d > date(2024, 1, 1)) for x in R for y in S if x.s.startswith(y.name)]",
}
WRITTEN = {name: written(body) for name, body in RANDOM.items()}


@pytest.mark.property
@pytest.mark.parametrize("name", RANDOM)
@settings(max_examples=30, deadline=None)
@given(left=st.lists(R_ROWS, max_size=5), right=st.lists(S_ROWS, max_size=4))
def test_random_data(name: str, left: list[Row], right: list[Row]) -> None:
    agree(WRITTEN[name], TYPES, {"R": left, "S": right})


ATOMS = [
    *("x.b", "y.b", "None if x.b else y.b", "True", "x.k == y.k", "x.n == x.v", "x.n is None"),
    *("x.v < y.k <= 2", "x.n in (2, None)", "x.k in [z.k for z in S if z.b]", "'a' in x.s"),
    *(
        "any(z.b for z in S if z.k == x.k)",
        "all(z.b for z in S if z.k != x.k)",
        "x.pair != (1, 'x')",
    ),
]
CONDITIONS = st.recursive(
    st.sampled_from(ATOMS).map(lambda a: f"({a})"),
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {} or {})".format, inner, inner, inner),
        st.builds("(not {})".format, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("(any({} for x in R) or {})".format, inner, inner),
        st.builds("all({} for y in S)".format, inner),
    ),
    max_leaves=6,
)


@pytest.mark.property
@settings(max_examples=80, deadline=None)
@given(condition=CONDITIONS)
def test_random_conditions(condition: str) -> None:
    """As a condition, as a value, negated, counted: None is false, and `and` gives what decides."""
    agree(written(f"[(x.k, y.k) for x in R for y in S if {condition}]"), TYPES, DATA)
    agree(written(f"[({condition}, not {condition}) for x in R for y in S]"), TYPES, DATA)
