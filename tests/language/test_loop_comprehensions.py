"""Loops in comprehensions: a term means what the function does on lists, and what is no loop is refused."""

from __future__ import annotations

import itertools
import linecache
import random  # noqa: F401 (queries from text read the names of this module)
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from comprehensions import Row, agree, canonical, evaluate, rows
from headwater.calculus.check import type_of
from headwater.calculus.notation.parse import parse
from headwater.calculus.notation.text import show
from headwater.calculus.scalars import order
from headwater.calculus.terms import (
    Record,
    Repeat,
    Within,
    subterms,
)
from headwater.calculus.types import BIGINT, DOUBLE, MapType, ProductType, bag, record
from headwater.errors import NoFixpoint, NotIncremental, QueryError, TypeMismatch
from headwater.language.comprehension import Query, query
from headwater.language.comprehension.on_lists import LoopRow
from headwater.language.queries import read_query
from headwater.language.schema import schemas
from loop_queries import (
    GRAPH,
    LOOPS,
    alike,
    bill,
    closure,
    components,
    costs,
    distances,
    least_labels,
    loop_data,
    paths,
    ranks,
    reachable,
    reached,
    settled_ranks,
    shortest,
    square_closure,
)

SEEDS = range(12)


@pytest.mark.parametrize("q", LOOPS, ids=lambda q: q.__name__)
def test_a_loop_means_what_its_function_does(q: Query) -> None:
    some = 0
    for seed in SEEDS:
        data = loop_data(seed)
        found, wanted = evaluate(q, GRAPH, data), q(*(data[n] for n in q.inputs))
        assert alike(found, wanted), f"seed {seed}: {found}\nis not\n{wanted}"
        some += bool(found)
    assert some > 5


def test_lists_go_round_as_they_would_without_us() -> None:
    """`hw.repeat` on lists against searches and recursion that are written out."""
    for seed in SEEDS:
        data = loop_data(seed)
        links, nodes, uses, prices = (data[n] for n in ("links", "nodes", "uses", "prices"))
        assert set(closure(links)) == set(square_closure(links)) == paths(links)
        assert {r["node"] for r in reachable(links)} == reached(links, 0)
        assert {r.node: r.d for r in shortest(links)} == distances(links)
        assert {r.node: r.label for r in components(nodes, links)} == least_labels(nodes, links)
        assert {r["assembly"]: r["cost"] for r in bill(uses, prices)} == costs(uses, prices)


def test_data_has_cycles_self_loops_duplicates_and_nulls() -> None:
    links = [[(k.src, k.dst) for k in loop_data(seed)["links"]] for seed in SEEDS]
    assert any(a == b for some in links for a, b in some) and any(not some for some in links)
    assert any((b, a) in some for some in links for a, b in some if a != b)
    assert any(None in k for some in links for k in some)
    assert any(len(set(some)) < len(some) for some in links)
    assert any(k.cost is None for seed in SEEDS for k in loop_data(seed)["links"])


# --- what a loop is as a term --------------------------------------------------------------------

TYPES = schemas(
    """
    R(k BIGINT, v BIGINT, small INT, w DOUBLE, p DECIMAL(10,2), s STRING, tags ARRAY<STRING>);
    S(k BIGINT, n BIGINT)
    """
)
DATA = {
    "R": rows(
        "k v small w p s tags",
        (1, 3, 7, 0.5, "1.50", "ab", ["x"]),
        (1, 3, 7, 0.5, "1.50", "ab", ["x"]),
        (2, -4, -2, 2.25, "-0.25", "b", []),
        (3, None, None, -1.0, "2.00", None, ["x", "y"]),
    ),
    "S": rows("k n", (1, 2), (2, 3), (3, 1), (2, 3), (7, None)),
}
for row in DATA["R"]:
    row["p"] = Decimal(row["p"])
ROUNDS, NEAR, HALF = 3, hw.within(0.25, "w", by=("k",)), 0.5
_count = itertools.count()


def written(body: str) -> Query:
    """A query from the text of its body, or of the expression it returns."""
    lines = body if "return" in body else f"return {body}"
    text = "@query\ndef q(R, S):\n" + "".join(f"    {x}\n" for x in lines.splitlines())
    name = f"<loop {next(_count)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    outside = dict(globals())
    exec(compile(text, name, "exec"), outside)
    made: Query = outside["q"]
    return made


def loop_of(q: Query) -> Repeat:
    """The one loop of a query."""
    (found,) = [t for t in subterms(q.read(TYPES)) if isinstance(t, Repeat)]
    return found


HALVES = '[{"k": x.k, "w": x.w / 2} for x in xs]'
FEATURES = {
    "times": 'hw.repeat([{"k": x.k} for x in R], lambda xs: [{"k": x.k + 1} for x in xs], times=4)',
    "no times": 'hw.repeat([{"k": x.k} for x in R], lambda xs: [{"k": x.k + 1} for x in xs], times=0)',
    "a constant outside": "hw.repeat([x.k for x in R], lambda xs: [x + 1 for x in xs], times=ROUNDS)",
    "None is nothing": "hw.repeat([x.k for x in R], lambda xs: [x for x in xs if x > 1], times=None, until=None)",
    "a limit that is not reached": "hw.repeat([x.k for x in R], lambda xs: [x for x in xs if x > 1], limit=2)",
    "until": f'hw.repeat([{{"k": x.k, "w": x.w}} for x in R], lambda xs: {HALVES}, '
    'until=hw.within(0.1, "w", by="k"))',
    "until a constant outside": f'hw.repeat([{{"k": x.k, "w": x.w}} for x in R], lambda xs: {HALVES}, until=NEAR)',
    "until of constants outside": f'hw.repeat([{{"k": x.k, "w": x.w}} for x in R], lambda xs: {HALVES}, '
    'until=hw.within(HALF, "w", by=["k"]), limit=9)',
    "until, tuples": "hw.repeat([(x.k, x.w) for x in R], lambda xs: [(a, b / 2) for a, b in xs], "
    'until=hw.within(0.1, "_2", by="_1"))',
    "scalars": "hw.repeat([1], lambda xs: set(xs + [y.n for y in S if y.k in xs]))",
    "a set": "hw.repeat({1}, lambda xs: {y.n for y in S if y.k in xs} if len(xs) > 0 else xs, times=3)",
    "a generator": "hw.repeat((x.k for x in R), lambda xs: (x for x in xs if x != 2))",
    "rows that are input": "hw.repeat(S, lambda xs: [x for x in xs if x.k > 1])",
    "duplicates count": "hw.repeat([x.k for x in R], lambda xs: xs + xs, times=3)",
    "duplicates that go": "hw.repeat([x.k for x in R], lambda xs: set(xs))",
    "columns in another order": 'hw.repeat([{"a": x.k, "b": x.w} for x in R], '
    'lambda xs: [{"b": x.b * 2, "a": x.a} for x in xs], times=2)',
    "records in records": 'hw.repeat([{"a": {"b": x.k}, "c": (x.k, x.s)} for x in R], '
    'lambda xs: [{"a": {"b": x.a.b + 1}, "c": x.c} for x in xs], times=2)',
    "fields that are named like methods": 'hw.repeat([{"get": x.k, "keys": 1} for x in R], '
    'lambda xs: [{"get": x.get + 1, "keys": x.keys} for x in xs], times=2)',
    "None at the start": 'hw.repeat([{"k": x.k, "via": None} for x in R], '
    'lambda xs: [{"k": x.k, "via": "step"} for x in xs])',
    "None after a step": 'hw.repeat([{"k": x.k, "via": x.s} for x in R], '
    'lambda xs: [{"k": x.k, "via": None} for x in xs])',
    "small whole numbers get wider": "hw.repeat([x.small for x in R if x.small is not None], "
    "lambda xs: [x + 2147483647 for x in xs], times=2)",
    "whole numbers into doubles": "hw.repeat([x.w for x in R], lambda xs: [x.k for x in R], times=1)",
    "decimals of more digits": "hw.repeat([x.p for x in R], lambda xs: [x + x for x in xs], times=3)",
    "nothing after a step": "hw.repeat([x.k for x in R], lambda xs: [])",
    "a pair": 'a, b = hw.repeat(([x.k for x in R], [{"n": y.n} for y in S]), '
    "lambda a, b: ([x + 1 for x in a], [y for y in b if y.n in a]), times=2)\n"
    "return [(x, y.n) for x in a for y in b]",
    "a pair by position": "p = hw.repeat(([x.k for x in R], [y.n for y in S]), lambda a, b: (b, a), times=3)\n"
    "return [(x, y) for x in p[0] for y in p[-1]]",
    "a pair until nothing changes": "hw.repeat(([1], [2]), lambda a, b: (set(a + [y.n for y in S if y.k in b]), "
    "set(b + [y.n for y in S if y.k in a])))[1]",
    "a pair that was named": "both = ([x.k for x in R], [y.n for y in S])\n"
    "return hw.repeat(both, lambda a, b: (b, a), times=1)[0]",
    "a tuple of one": "hw.repeat(([x.k for x in R],), lambda a: ([x + 1 for x in a],), times=2)[0]",
    "a loop after a loop": "a = hw.repeat([x.k for x in R], lambda xs: [x + 1 for x in xs], times=2)\n"
    "return hw.repeat([x for x in a], lambda xs: [x * 2 for x in xs if x in a], times=1)",
    "a loop of a loop's pair": "p = hw.repeat(([1], [2]), lambda a, b: (b, a), times=1)\n"
    "return hw.repeat(p, lambda a, b: (b, a + b), times=2)[1]",
    "a loop inside that reads nothing of it": "hw.repeat([x.k for x in R], "
    "lambda xs: [x for x in xs if x in hw.repeat([1], lambda ys: [y + 1 for y in ys], times=2)])",
    "an inner function": "def step(xs):\n    '''Later ones.'''\n    more = [y.n for y in S if y.k in xs]\n"
    "    return set([1] + more)\nreturn hw.repeat([1], step)",
    "an inner function with a pair": "def step(a, b):\n    c = [x + 1 for x in a]\n    return c, b + c\n"
    "a, b = hw.repeat(([x.k for x in R], [0]), step, times=2)\nreturn [(x, y) for x in a for y in b]",
    "a lambda with a name": "step = lambda xs: [x + 1 for x in xs]\nreturn hw.repeat([1], step, times=2)",
    "names of a function are read late": "n = 1\ndef step(xs):\n    return [x + n for x in xs]\nn = 5\n"
    "return hw.repeat([1], step, times=2)",
    "variables around a call are not seen": "n = 1\nstep = lambda xs: [x + n for x in xs]\n"
    "return [(n, sum(hw.repeat([1], step, times=2))) for n in [10, 20]]",
    "variables around a lambda are": "[(n, sum(hw.repeat([1], lambda xs: [x + n for x in xs], times=2))) "
    "for n in [10, 20]]",
    "a function hides a name, and a name a function": "step = 3\ndef step(xs):\n    return [x + 1 for x in xs]\n"
    "a = hw.repeat([1], step, times=1)\nstep = 7\nreturn [x + step for x in a]",
    "a function of a function": "less = lambda xs: [x - 1 for x in xs]\n"
    "def step(xs):\n    return [x + y for x in xs for y in hw.repeat([9], less, times=3)]\n"
    "return hw.repeat([1], step, times=2)",
    "a key that is a function": "def far(x):\n    d = x.k - 2\n    return (d * d, x.n)\n"
    "return [min([y for y in S if y.n is not None], key=far).k]",
    "an aggregate of a loop": "[len(hw.repeat([x.k for x in R], lambda xs: [x for x in xs if x > 1]))]",
    "a column named after its variable": 'hw.repeat([{"xs": x.k} for x in R], lambda xs: [{"xs": x.xs} for x in xs])',
}


@pytest.mark.parametrize("name", FEATURES)
def test_feature_means_what_python_means(name: str) -> None:
    q = written(FEATURES[name])
    agree(q, TYPES, DATA)
    agree(q, TYPES, {"R": [], "S": DATA["S"]})
    agree(q, TYPES, {"R": DATA["R"], "S": []} if "key=far" not in FEATURES[name] else DATA)


def test_one_collection_is_a_bag_of_records() -> None:
    loop = loop_of(written("hw.repeat([x.k for x in R], lambda xs: [x + 1 for x in xs], times=3)"))
    assert loop.var.type == type_of(loop) == bag(record(value=BIGINT))
    assert (loop.var.name, loop.times, loop.within, loop.limit) == ("xs", 3, None, 10_000)
    q = written('hw.repeat([{"a": x.w} for x in R], lambda R: [{"a": x.a} for x in R], limit=7)')
    assert str(q.read(TYPES)) == (
        "repeat[limit 7] R1 := for x in R collect {{a: x.w}} then for x in R1 collect {{a: x.a}}"
    )


def test_several_collections_are_a_product_by_the_names_of_parameters() -> None:
    q = written("hw.repeat(([x.k for x in R], S), lambda left, right: (left, right), times=1)[1]")
    loop = loop_of(q)
    assert isinstance(t := type_of(loop), ProductType) and t == loop.var.type
    assert [n for n, _ in t.fields] == ["left", "right"] and isinstance(
        dict(t.fields)["left"], MapType
    )
    assert isinstance(loop.start, Record) and isinstance(loop.step, Record)
    assert str(q.read(TYPES)).endswith(".right")


@pytest.mark.parametrize("q", LOOPS, ids=lambda q: q.__name__)
def test_loops_are_read_again_from_their_text(q: Query) -> None:
    term = q.read(GRAPH)
    assert parse(show(term), GRAPH) == term


def test_within_is_part_of_the_term() -> None:
    assert loop_of(written(FEATURES["until"])).within == Within(0.1, "w", ("k",))
    assert loop_of(written(FEATURES["until a constant outside"])).within == NEAR


def test_the_start_is_made_wider_only_where_python_sees_no_difference() -> None:
    assert type_of(loop_of(written(FEATURES["small whole numbers get wider"]))) == bag(
        record(value=BIGINT)
    )
    assert type_of(loop_of(written(FEATURES["whole numbers into doubles"]))) == bag(
        record(value=DOUBLE)
    )


# --- loops on lists ------------------------------------------------------------------------------


def test_rows_of_a_loop_have_their_fields_both_ways() -> None:
    (row,) = hw.repeat([{"a": 1, "items": {"b": 2}}], lambda xs: xs)
    assert row == {"a": 1, "items": {"b": 2}} and isinstance(row, LoopRow)
    assert row.a == row["a"] == 1 and row.items.b == 2 and len({row, LoopRow(row)}) == 1
    with pytest.raises(AttributeError):
        _ = row.c
    rows_of_their_own = [(1, 2), Row(a=1)]
    assert hw.repeat(rows_of_their_own, lambda xs: xs) == rows_of_their_own


def test_collections_are_compared_as_bags() -> None:
    turned = hw.repeat([1, 2, 2], lambda xs: xs[::-1])
    assert sorted(turned) == [1, 2, 2]
    assert hw.repeat([1, 2], lambda xs: [*xs, 2][:4]) == [1, 2, 2, 2]
    assert len(hw.repeat([{"x": float("nan")}], lambda xs: [{"x": float("nan")}])) == 1


def test_values_that_stay_what_they_are_do_not_move() -> None:
    """NaN beside NaN is as near as can be, and so is what stays beside one value that moves."""
    nan, inf, end = float("nan"), float("inf"), hw.within(0.01, "x", by="k")

    def halved(xs):
        return [{"k": r.k, "x": None if r.x is None else r.x * 0.5} for r in xs]

    def turned(xs):
        return [{"k": 1, "x": nan if r.x == 1.0 else 1.0} for r in xs]

    for values in ([nan], [nan, 2.0], [inf, 2.0], [inf, -inf], [nan, None, 4.0]):
        rows = [{"k": 1, "x": x} for x in values]
        found = hw.repeat(rows, halved, until=end, limit=60)
        assert len(found) == len(values) and all(r.x is None or abs(r.x) != 2.0 for r in found)
    with pytest.raises(NoFixpoint):
        hw.repeat([{"k": 1, "x": 1.0}], turned, until=end, limit=60)


@pytest.mark.parametrize(
    "call, said",
    [
        ("hw.repeat([0], lambda xs: [x + 1 for x in xs], limit=20)", "after 20 rounds: 2 rows"),
        ("hw.repeat([0], lambda xs: [1 - x for x in xs], limit=7)", "two rounds alternate"),
        ("hw.repeat(([0], [1]), lambda a, b: (b, a), limit=8)[0]", "two rounds alternate"),
        (
            'hw.repeat([{"k": 1, "x": 0.0}], lambda xs: [{"k": x.k, "x": x.x + 1} for x in xs], '
            'until=hw.within(0.5, "x", by="k"), limit=30)',
            "after 30 rounds",
        ),
    ],
)
def test_a_loop_that_does_not_end(call: str, said: str) -> None:
    with pytest.raises(NoFixpoint, match="times=") as caught:
        eval(call)
    assert said in str(caught.value)
    with pytest.raises(NoFixpoint):
        evaluate(written(call), TYPES, DATA)


def test_a_limit_is_the_last_round_that_is_tried() -> None:
    """Three rounds, and a fourth that changes nothing."""
    call = "hw.repeat([3], lambda xs: [x - 1 if x > 0 else 0 for x in xs], limit={})"
    assert eval(call.format(4)) == [0] == evaluate(written(call.format(4)), TYPES, DATA)
    with pytest.raises(NoFixpoint):
        eval(call.format(3))
    with pytest.raises(NoFixpoint):
        evaluate(written(call.format(3)), TYPES, DATA)


def test_modes() -> None:
    assert hw.mode("banana") == "a" and hw.mode([2, 1]) == 1 and hw.mode([None, None, 3]) == 3
    assert hw.mode([None], default="none") == "none" and hw.mode([], default=None) is None
    for nothing in ([], [None]):
        with pytest.raises(ValueError, match="empty"):
            hw.mode(nothing)


# --- random loops --------------------------------------------------------------------------------

cells = st.one_of(st.none(), st.integers(0, 4))
pairs = st.lists(st.tuples(cells, cells), max_size=7)


@settings(max_examples=20, deadline=None)
@given(pairs, st.integers(0, 5))
def test_random_graphs(links: list[tuple[Any, Any]], seed: int) -> None:
    data = loop_data(seed)
    data["links"] = rows("src dst cost", *((a, b, (a or 0) + 1) for a, b in links))
    for q in (closure, square_closure, reachable, shortest, components):
        agree(q, GRAPH, data)
    for q in (ranks, settled_ranks):
        assert alike(evaluate(q, GRAPH, data), q(*(data[n] for n in q.inputs)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(cells, cells), max_size=8), st.lists(cells, max_size=8))
def test_random_extremes(pairs: list[tuple[Any, Any]], values: list[Any]) -> None:
    """The row of the least key is the least such row, which Python says of rows in order."""
    data = {"S": rows("k n", *pairs), "R": []}
    there = sorted((r for r in data["S"] if r.n is not None), key=lambda r: (r.k is not None, r.k))
    q = written(
        "[min(S, key=lambda s: s.n, default=None), max(S, key=lambda s: s.n, default=None)]"
    )
    least, greatest = evaluate(q, TYPES, data) or [None, None]
    none = {"k": None, "n": None}
    wanted = (
        min(there, key=lambda r: r.n, default=none),
        max(there[::-1], key=lambda r: r.n, default=none),
    )
    assert canonical([least, greatest]) == canonical(list(wanted))
    q = written("[min(S, key=lambda s: 0, default=None), max(S, key=lambda s: 0, default=None)]")
    both = sorted(data["S"], key=lambda r: order((r.k, r.n))) or [none]
    assert canonical(evaluate(q, TYPES, data)) == canonical([both[0], both[-1]])
    data = {"S": rows("k n", *((0, v) for v in values)), "R": []}
    agree(written("[(hw.mode((s.n for s in S), default=-1),)]"), TYPES, data)


# --- refusals ------------------------------------------------------------------------------------


def plain(xs: Any) -> Any:
    """A function outside of every query."""
    return xs


ONES = "hw.repeat([x.k for x in R], lambda xs: xs, "
ROWS = 'hw.repeat([{"k": x.k, "w": x.w} for x in R], '

# the query, the reason, the underlined text, a part of the message or the hint
REFUSED = [
    # how a loop ends
    (ONES + "times=-1)", "LOOP_END", "-1", "from 0 to 1,000"),
    (ONES + "times=1001)", "LOOP_END", "1001", "from 0 to 1,000"),
    (ONES + "times=True)", "LOOP_END", "True", "from 0 to 1,000"),
    (ONES + "times=2.0)", "LOOP_END", "2.0", "from 0 to 1,000"),
    (ONES + "times=len(R))", "LOOP_END", "len(R)", "from 0 to 1,000"),
    (ONES + "times=random)", "LOOP_END", "random", "from 0 to 1,000"),
    ("n = 3\nreturn " + ONES + "times=n)", "LOOP_END", "n", "until nothing changes"),
    (ONES + "until=0.1)", "LOOP_END", "0.1", "hw.within(0.01"),
    (ONES + "until=lambda a, b: a == b)", "LOOP_END", "lambda a, b: a == b", "hw.within"),
    (ROWS + 'lambda xs: xs, until=hw.within(-1, "w", by="k"))', "LOOP_END", 'hw.within(-1, "w", by="k")', "negative"),
    (ROWS + 'lambda xs: xs, until=hw.within("w", 1, by="k"))', "LOOP_END", 'hw.within("w", 1, by="k")', "takes a number"),
    (ROWS + 'lambda xs: xs, until=hw.within(1, "w"))', "LOOP_END", 'hw.within(1, "w")', "by="),
    (ROWS + 'lambda xs: xs, until=hw.within(1, "w", by="w"))', "LOOP_END", 'hw.within(1, "w", by="w")', "both"),
    (ROWS + 'lambda xs: xs, until=hw.within(1, "w", by=()))', "LOOP_END", 'hw.within(1, "w", by=())', "columns"),
    (ROWS + 'lambda xs: xs, until=hw.within(len(R), "w", by="k"))', "LOOP_END", 'hw.within(len(R), "w", by="k")', "constants"),
    (ROWS + 'lambda xs: xs, until=hw.within(1, "z", by="k"))', "LOOP_END", None, "its columns: k, w"),
    ('hw.repeat([{"k": x.k, "s": x.s} for x in R], lambda xs: xs, until=hw.within(1, "s", by="k"))', "LOOP_END", None, "`s` is string"),
    ('hw.repeat((R, S), lambda a, b: (a, b), until=hw.within(1, "k", by="n"))', "RECURSION_NESTED", "(R, S)", "tags"),
    ('hw.repeat((S, S), lambda a, b: (a, b), until=hw.within(1, "k", by="n"))', "LOOP_END", None, "several"),
    (ROWS + 'lambda xs: xs, times=2, until=hw.within(1, "w", by="k"))', "LOOP_END", None, "not both"),
    (ONES + "times=2, limit=10_000)", "LOOP_END", "10_000", "leave `limit` out"),
    (ONES + "limit=0)", "LOOP_END", "0", "from 1 to"),
    (ONES + "limit=None)", "LOOP_END", "None", "from 1 to"),
    (ONES + "limit=len(R))", "LOOP_END", "len(R)", "constant"),
    ('[hw.within(1, "a", by="b")]', "LOOP_END", 'hw.within(1, "a", by="b")', "nothing else"),
    # the step
    ("hw.repeat(S, plain)", "LOOP_STEP", "plain", "def before it"),
    ("hw.repeat(S, S)", "LOOP_STEP", "S", "a lambda"),
    ("hw.repeat(S, lambda: S)", "LOOP_STEP", "lambda: S", "0 parameters, and the loop has 1 collection"),
    ("hw.repeat(S, lambda a, b: a)", "LOOP_STEP", "lambda a, b: a", "2 parameters"),
    ("hw.repeat(S, lambda *a: S)", "LOOP_STEP", "lambda *a: S", "not plain"),
    ("hw.repeat((S, S), lambda a: (a, a))", "LOOP_STEP", "lambda a: (a, a)", "1 parameter, and the loop has 2"),
    ("hw.repeat((S, S), lambda a, b: a)", "LOOP_STEP", "a", "one collection, and the loop has a tuple of 2"),
    ("hw.repeat((S, S), lambda a, b: (a, b, a))", "LOOP_STEP", "(a, b, a)", "a tuple of 3 collections"),
    ("hw.repeat(S, lambda a: (a, a))", "LOOP_STEP", "(a, a)", "the loop has one"),
    ("def f(xs):\n    return hw.repeat(xs, f)\nreturn hw.repeat(S, f)", "LOOP_STEP", "f", "a lambda"),
    ("def f(xs):\n    return xs\nreturn [f for x in R]", "UNSUPPORTED_SYNTAX", "f", "is a function"),
    ("def f(xs):\n    return xs\nreturn f(R)", "UNKNOWN_FUNCTION", "f(R)", "not a function of queries"),
    ("@plain\ndef f(xs):\n    return xs\nreturn hw.repeat(S, f)", "UNSUPPORTED_SYNTAX", None, "is not read"),
    ("hw.repeat(S, lambda xs: [plain(x) for x in xs])", "UNKNOWN_FUNCTION", "plain(x)", "@function"),
    ('hw.repeat(S, lambda xs: [{"k": x.k, "n": random.randint(0, 1)} for x in xs])', "NON_DETERMINISTIC", "random.randint(0, 1)", "column"),
    ("hw.repeat(S, lambda xs: xs, 3)", "UNSUPPORTED_SYNTAX", None, "2 arguments"),
    ("hw.repeat(S, lambda xs: xs, rounds=3)", "UNSUPPORTED_SYNTAX", None, "`rounds=`"),
    # types that go round
    ("hw.repeat([x.k for x in R], lambda xs: [x / 2 for x in xs])", "RECURSION_TYPES", "[x / 2 for x in xs]", "float(x)"),
    ('hw.repeat([{"k": x.k, "r": 1} for x in R], lambda xs: [{"k": x.k, "r": 1.5} for x in xs])', "RECURSION_TYPES", None, "the column `r` is bigint at the start, and double after a step"),
    ('hw.repeat([{"a": {"b": 1}} for x in R], lambda xs: [{"a": {"b": "1"}} for x in xs])', "RECURSION_TYPES", None, "`a.b` is bigint"),
    ('hw.repeat(S, lambda xs: [{"k": x.k} for x in xs])', "RECURSION_TYPES", None, "the columns of the step are k, and of the start k, n"),
    ("hw.repeat(S, lambda xs: [(x.k, x.n) for x in xs])", "RECURSION_TYPES", None, "are _1, _2"),
    ("hw.repeat(S, lambda xs: [x.k for x in xs])", "RECURSION_TYPES", None, "a row is a record at the start, and bigint"),
    ("hw.repeat([x.p for x in R], lambda xs: [x * x for x in xs])", "RECURSION_TYPES", None, "keeps its places"),
    ("hw.repeat([x.w for x in R], lambda xs: [x.p for x in R])", "RECURSION_TYPES", None, "double at the start, and decimal"),
    ("hw.repeat([x.k for x in R], lambda xs: [x.p for x in R])", "RECURSION_TYPES", None, "decimal(10,2) after a step"),
    ("hw.repeat(R, lambda xs: xs)", "RECURSION_NESTED", "R", "the column `tags` of the start is a collection"),
    ("hw.repeat([x.tags for x in R], lambda xs: xs)", "RECURSION_NESTED", None, "a row of the start"),
    ('hw.repeat([{"a": {"b": x.tags}} for x in R], lambda xs: xs)', "RECURSION_NESTED", None, "`a.b`"),
    ('hw.repeat(S, lambda xs: [{"k": x.k, "n": [1]} for x in xs])', "RECURSION_NESTED", None, "`n` of the step"),
    # loops in loops
    ("hw.repeat(S, lambda xs: hw.repeat(xs, lambda ys: ys))", "LOOP_IN_LOOP", "hw.repeat(xs, lambda ys: ys)", "one loop of both"),
    ("hw.repeat(S, lambda xs: hw.repeat(S, lambda ys: [y for y in ys if y in xs]))", "LOOP_IN_LOOP", None, "before the outer"),
    ("hw.repeat(S, lambda xs: [x for x in xs if len(hw.repeat([x.k], lambda ys: ys)) > 0])", "LOOP_IN_LOOP", "hw.repeat([x.k], lambda ys: ys)", ""),
    ("def f(xs):\n    a = [x.k for x in xs]\n    b = hw.repeat([1], lambda ys: [y for y in ys if y in a])\n    return [x for x in xs if x.k in b]\nreturn hw.repeat(S, f)", "LOOP_IN_LOOP", "hw.repeat([1], lambda ys: [y for y in ys if y in a])", ""),
    # what a loop is used as
    ("hw.repeat((S, S), lambda a, b: (a, b))", "NOT_A_COLLECTION", "hw.repeat((S, S), lambda a, b: (a, b))", "name them"),
    ("a, b, c = hw.repeat((S, S), lambda a, b: (a, b))\nreturn a", None, None, "3 names for a loop over 2"),
    ("a, *b = hw.repeat((S, S), lambda a, b: (a, b))\nreturn a", "MUTATION", None, "binds one new name"),
    ("[x for x in hw.repeat((S, S), lambda a, b: (a, b))]", None, None, "a tuple of collections is not a collection"),
    ("[(1, hw.repeat((S, S), lambda a, b: (a, b)))]", None, None, "name the collections"),
    ("hw.repeat([], lambda xs: xs)", None, "[]", "if False"),
    ("hw.repeat(([], S), lambda a, b: (a, b))[1]", None, None, "if False"),
    ("hw.repeat(3, lambda xs: xs)", None, "3", "not a collection"),
    ("hw.repeat((S, 3), lambda a, b: (a, b))[0]", None, "3", "not a collection"),
]  # fmt: skip


@pytest.mark.parametrize("body, reason, underlined, said", REFUSED, ids=lambda x: str(x)[:60])
def test_refused_with_its_place(body: str, reason: Any, underlined: Any, said: str) -> None:
    q = written(body)
    with pytest.raises(QueryError) as caught:
        q.read(TYPES)
    e = caught.value
    assert type(e) is (TypeMismatch if reason is None else NotIncremental), e
    assert reason is None or e.reason == reason, e  # type: ignore[attr-defined]
    assert e.span is not None and e.text == q.source
    line = e.text.splitlines()[e.span.line - 1]
    assert underlined is None or line[e.span.column - 1 :][: e.span.length] == underlined
    assert said in str(e)


@pytest.mark.parametrize(
    "call, reason",
    [
        ("hw.repeat([1], 3)", "LOOP_STEP"),
        ("hw.repeat([1], lambda xs: (xs, xs))", "LOOP_STEP"),
        ("hw.repeat(([1], [2]), lambda a, b: [3])", "LOOP_STEP"),
        ("hw.repeat(([1], [2]), lambda a, b: (a,))", "LOOP_STEP"),
        ("hw.repeat([1], plain, times=1001)", "LOOP_END"),
        ("hw.repeat([1], plain, times=True)", "LOOP_END"),
        ("hw.repeat([1], plain, until=0.1)", "LOOP_END"),
        ("hw.repeat([1], plain, limit=0)", "LOOP_END"),
        ("hw.repeat([1], plain, limit=5, times=5)", "LOOP_END"),
        ("hw.repeat([1], plain, until=NEAR, times=5)", "LOOP_END"),
        ("hw.repeat(([1], [2]), lambda a, b: (a, b), until=NEAR)", "LOOP_END"),
        ("hw.within(float('nan'), 'a', by='b')", "LOOP_END"),
        ("hw.within(1, 'a', by=[])", "LOOP_END"),
    ],
)
def test_lists_are_refused_the_same(call: str, reason: str) -> None:
    with pytest.raises(NotIncremental) as caught:
        eval(call)
    assert caught.value.reason == reason and caught.value.hint


# --- places in what is refused -------------------------------------------------------------------


@query
def beside_rows(R):
    first = [r.k for r in R]
    return [(n, sum(hw.repeat([n], lambda xs: xs, times=2))) for n in first]


@query
def beside_none(R):
    first = [r.k for r in R]
    most = max(first)
    return [
        (n, k) for n in first for k in hw.repeat([most], lambda xs: [x for x in xs if x < most])
    ]


@query
def named_round(R):
    return hw.repeat([{"_round": r.k} for r in R], lambda xs: xs)


def test_a_loop_that_reads_a_row_around_it_is_refused_where_it_stands() -> None:
    with pytest.raises(NotIncremental, match="rows that stand around it") as refused:
        beside_rows.read(TYPES, kept=True)
    assert refused.value.reason == "CORRELATED"
    assert underlined(refused.value) == "hw.repeat([n], lambda xs: xs, times=2)"
    assert beside_rows.read(TYPES) and beside_none.read(TYPES, kept=True)
    with pytest.raises(NotIncremental) as refused:  # so is every query that a database is given
        read_query(beside_rows, TYPES, lambda text, columns: BIGINT)
    assert underlined(refused.value) == "hw.repeat([n], lambda xs: xs, times=2)"


def test_a_column_of_a_loop_with_the_name_of_its_rounds_is_refused_where_it_stands() -> None:
    with pytest.raises(NotIncremental, match="column of its rounds") as refused:
        named_round.read(TYPES)
    assert underlined(refused.value) == '[{"_round": r.k} for r in R]'


def underlined(error: NotIncremental) -> str:
    """What of its text an error underlines."""
    assert error.span is not None
    line = error.text.splitlines()[error.span.line - 1]
    return line[error.span.column - 1 :][: error.span.length]
