"""A row that is there is counted: what asks for no such rows is nothing, in every database; and nothing else is said to be so."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.notation.parse import parse
from headwater.calculus.types import BIGINT, DOUBLE, RecordType, bag
from headwater.errors import HeadwaterError
from headwater.rules.monomial import monomial
from headwater.rules.present import impossible

ROW = RecordType((("a", BIGINT), ("b", BIGINT), ("f", DOUBLE)))
INPUTS = {"r": bag(ROW), "s": bag(ROW)}
CELLS = [(None, 1, 1.0), (1, None, 1.0), (1, 1, None), (2, 1, 2.0)]
NOTHING = (
    "for x in r collect [box(for y in r collect 1) = 0]",
    "for x in r collect [box(for y in r collect [y.a <=> x.a]) = 0]",
    "for x in r collect for z in s collect [z.a <=> x.a] · [box(for y in r collect [y.a <=> z.a]) = 0]",
    "for x in r collect for z in s collect [z.a = x.a] · [box(for y in r collect [y.a = z.a]) = 0]",
    "for x in r collect for z in s collect [z.a <=> x.a] · [z.b = x.a] · [box(for y in r collect [y.a = z.a]) = 0]",
    "for x in r collect for z in s collect [z.a <=> x.a] · [x.b > 0] · [is_not_null(z.b) and (box(for y in r collect [y.b > 0] · [z.a <=> y.a]) = 0)]",
)
SOMETHING = (
    "for x in r collect [box(for y in s collect [y.a <=> x.a]) = 0]",
    "for x in r collect [box(for y in r collect [y.a = x.a]) = 0]",
    "for x in r collect for z in s collect [z.a <=> x.a] · [box(for y in r collect [y.a = z.a]) = 0]",
    "for x in r collect for z in s collect [z.b <=> x.b] · [box(for y in r collect [y.a <=> z.a]) = 0]",
    "for x in r collect for z in s collect [z.a <=> x.a] · [box(for y in r collect [y.a <=> z.a] · [y.b > 0]) = 0]",
    "for x in r collect for z in s collect [z.a <=> x.a] · [box(for y in r collect [y.a <=> z.a]) = 1]",
)


def databases() -> list[dict[str, Any]]:
    """Small databases with NULLs and rows that are there twice."""
    rows = [dict(zip("abf", c, strict=True)) for c in CELLS]
    some = [rows[:n] for n in range(5)] + [rows[2:], [rows[0], rows[0], rows[3]], rows[1:3]]
    return [
        {"r": from_python(bag(ROW), one), "s": from_python(bag(ROW), other)}
        for one, other in itertools.product(some, some)
    ]


@pytest.mark.parametrize("text", NOTHING)
def test_no_row_is_counted_zero_times(text: str) -> None:
    term = parse(text, INPUTS)
    assert impossible(monomial(term))
    assert all(not interpret(term, data) for data in databases())


@pytest.mark.parametrize("text", SOMETHING)
def test_what_may_be_is_not_refused(text: str) -> None:
    term = parse(text, INPUTS)
    assert not impossible(monomial(term))
    assert any(interpret(term, data) for data in databases())


LARGE = (1 << 53) + 1


def test_equalities_of_two_types_make_no_chain() -> None:
    """2⁵³ and 2⁵³ + 1 are both equal to one double, and not to each other."""
    text = (
        "for x in r collect for z in s collect [x.a = z.f] · [z.f = z.b]"
        " · [box(for y in r collect [y.a = z.b]) = 0]"
    )
    term = parse(text, INPUTS)
    assert not impossible(monomial(term))
    data = {
        "r": from_python(bag(ROW), [{"a": LARGE - 1, "b": 0, "f": 0.0}]),
        "s": from_python(bag(ROW), [{"a": 0, "b": LARGE, "f": float(1 << 53)}]),
    }
    assert interpret(term, data)


@hw.query
def ranks(nodes: Any, links: Any) -> Any:
    """Divided by the number of links that leave a node, one of which is gone along."""
    out = [{"node": n.node, "n": len([k for k in links if k.src == n.node])} for n in nodes]
    return hw.repeat(
        [{"node": n.node, "rank": 1.0} for n in nodes],
        lambda rank: [{"node": n.node, "rank": sum(
            r.rank / o["n"] for k in links if k.dst == n.node
            for o in out if o["node"] == k.src for r in rank if r.node == k.src)} for n in nodes],
        times=1,
    )  # fmt: skip


@hw.query
def back(nodes: Any, links: Any) -> Any:
    """Divided by the number of links that leave its other end, of which there may be none."""
    out = [{"node": n.node, "n": len([k for k in links if k.src == n.node])} for n in nodes]
    return hw.repeat(
        [{"node": n.node, "rank": 1.0} for n in nodes],
        lambda rank: [{"node": n.node, "rank": sum(
            r.rank / o["n"] for k in links if k.src == n.node
            for o in out if o["node"] == k.dst for r in rank if r.node == k.src)} for n in nodes],
        times=1,
    )  # fmt: skip


def test_a_count_that_cannot_be_zero_is_not_watched(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("nodes", "node BIGINT")
        db.source("links", "src BIGINT, dst BIGINT")
        db.view("ranks", ranks)
        assert not db.program.checks and len(db.program.maps) <= 12
        db.view("back", back)
        assert db.program.checks
        db.apply({"nodes": [{"node": n} for n in (1, 2)]})
        with pytest.raises(HeadwaterError, match="divides by zero"):
            db.apply({"links": [{"src": 1, "dst": 2}]})
        db.apply({"links": [{"src": 1, "dst": 2}, {"src": 2, "dst": 1}, {"src": 2, "dst": 2}]})
        found = {(r["node"], r["rank"]) for r in db.table("ranks").to_pylist()}
        assert found == {(1, 0.5), (2, 1.5)}
