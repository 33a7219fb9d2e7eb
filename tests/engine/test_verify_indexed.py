"""What `verify` evaluates with indexes is what the interpreter says: over random terms, joins with NULL and NaN, and loops."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from hypothesis import given

import headwater as hw
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.notation.parse import parse
from headwater.calculus.types import BIGINT, DOUBLE, MapType, bag, record
from headwater.engine.verify import indexed
from headwater.engine.verify.indexed import evaluated
from loop_queries import GRAPH, LOOPS, loop_data
from strategies import FULL, Pick, database, drawn, query

R = bag(record(a=BIGINT, x=DOUBLE, n=BIGINT))
S = bag(record(a=BIGINT, x=DOUBLE))
TYPES: dict[str, MapType] = {"r": R, "s": S}
ROWS = [
    *((a, x, n) for a in (1, 2, None) for x in (0.5, -0.0, math.nan, None) for n in (0, 3)),
    (1, 0.5, 0),
]


def given_term(pick: Pick) -> Any:
    made = query(pick, FULL)
    return made.term, database(made.inputs, pick)


@pytest.mark.property
@given(drawn(given_term))
def test_random_terms(case: Any) -> None:
    term, inputs = case
    assert evaluated(term, inputs) == interpret(term, inputs)


@pytest.mark.parametrize(
    "text",
    [
        "for x in r collect for y in s collect [y.a = x.a] · {{n: x.n, x: y.x}}",
        "for x in r collect for y in s collect [x.a <=> y.a] · [y.x <=> x.x] · {{n: x.n, a: y.a}}",
        "for x in r collect for y in s collect [y.x = x.x] · [y.a = 1] · {{n: x.n} ↦ 2}",
        "for x in r collect [x.a = 2] · (for y in s collect [y.a = x.n] · {{n: y.a}})",
        "for x in r collect for y in s collect [y.a = y.a] · [(y.a + 1) = x.a] · {{n: x.n}}",
        "for x in r collect (for y in s collect [y.a = x.a] · unbox(x.n)) · {{n: x.n}}",
        "each k ↦ v in (for x in r collect {{a: x.a} ↦ unbox(x.n)}) collect [k.a = 1] · {{n: box(v)}}",
        "for x in r collect for y in (for z in s collect [z.a = x.a] · {z}) collect [y.x = x.x] · {{n: x.n}}",
        # What fails where it is evaluated stands before the equality.
        "for x in r collect for y in s collect [(x.n / y.a) > 0.0] · [y.a = x.a] · {{n: x.n}}",
    ],
)
def test_rows_that_meet(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed, "KEPT", 2)
    term = parse(text, TYPES)
    inputs = {"r": from_python(R, ROWS), "s": from_python(S, [(a, x) for a, x, _ in ROWS])}
    assert evaluated(term, inputs) == interpret(term, inputs)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda q: q.__name__)
def test_loops(loop: hw.Query) -> None:
    for seed in range(3):
        data = loop_data(seed)
        inputs = {n: from_python(GRAPH[n], data[n]) for n in loop.inputs}
        term = loop.read(GRAPH)
        assert evaluated(term, inputs) == interpret(term, inputs)


def test_ranks_of_some_hundred_nodes_can_be_verified(tmp_path: Any) -> None:
    """Going through all pairs this took a minute for half of them; it is the shape that counts here, and not the second."""
    ranks = LOOPS[0]
    with hw.open(tmp_path) as db:
        db.source("nodes", "node BIGINT, label BIGINT")
        db.source("links", "src BIGINT, dst BIGINT, cost BIGINT")
        db.view("ranks", ranks)
        started, many = time.process_time(), 400
        db.apply(
            {
                "nodes": [(i, 0) for i in range(many)],
                "links": [(i, (i * i + j) % many, 1) for i in range(many) for j in (1, 7)],
            }
        )
        db.verify("ranks")
        assert time.process_time() - started < 30
