"""The difference of two queries: added to the one it is the other, and rows that pass both filters are not in it."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import Term
from headwater.calculus.types import BIGINT, RecordType, bag
from headwater.language.sql import read_sql
from headwater.plan.equal_maps import canonical, sorted_monomial
from headwater.rules.difference import difference
from headwater.rules.monomial import Signed, monomial, sum_of, summands
from headwater.rules.normalize import normalize

ROW = RecordType((("a", BIGINT), ("b", BIGINT)))
ROWS = [{"a": a, "b": b} for a, b in itertools.product((None, 1, 2, 3), (None, 1))]
FILTERS = (
    "TRUE",
    "r.a > 1",
    "r.a > 2",
    "r.a >= 1",
    "r.a < 2",
    "r.a <= 2",
    "r.a < 2 AND r.b > 0",
    "r.a > r.b",
    "r.a > 1 OR r.b IS NULL",
    "r.b IN (1, 2) AND r.a > 1",
    "NOT (r.a > 1)",
    "r.a = 2",
)
JOIN = "SELECT r.a, r.b, s.b AS c FROM r JOIN s ON r.a = s.a WHERE {}"


def terms(text: str) -> Signed:
    found = summands(normalize(read_sql(text, {"r": bag(ROW), "s": bag(ROW)})))
    return [(sign, monomial(canonical(sorted_monomial(m)))) for sign, m in found]


def value(term: Term) -> Counter[Any]:
    data = {n: from_python(bag(ROW), [*ROWS, *ROWS[:3]]) for n in ("r", "s")}
    return Counter({k: w for k, w in interpret(term, data).items() if w})


@pytest.mark.parametrize("query", ["SELECT r.a, r.b FROM r WHERE {}", JOIN])
def test_now_is_what_was_and_the_difference(query: str) -> None:
    t = type_of(read_sql(query.format("TRUE"), {"r": bag(ROW), "s": bag(ROW)}))
    for old, new in itertools.product(FILTERS, FILTERS):
        was, now = terms(query.format(old)), terms(query.format(new))
        d = difference(now, was)
        added = [(sign, m) for sign, m, _ in d.terms]
        assert d.filtered, (old, new)
        assert interpreted([*was, *added], t) == interpreted(now, t), (old, new)
        for sign, m, _ in d.terms:  # nothing that is in both comes and goes
            part, other = interpreted([(1, m)], t), interpreted(was if sign > 0 else now, t)
            assert not part & other, (old, new)
    assert not difference(now, now).terms


def interpreted(found: Signed, t: Any) -> Counter[Any]:
    return value(sum_of(found, t))


def test_what_is_implied_is_not_computed() -> None:
    query = "SELECT r.a, r.b FROM r WHERE r.a < {}"
    for old, new in ((1, 2), (2, 1)):
        ((sign, _, _),) = difference(terms(query.format(new)), terms(query.format(old))).terms
        assert sign == (1 if new > old else -1)


def test_another_join_is_no_filter() -> None:
    """Rows that are joined otherwise are not found by a filter: both joins are in the difference."""
    d = difference(terms(JOIN.format("r.b = s.b")), terms(JOIN.format("r.b = 1")))
    assert not d.filtered and len(d.terms) == 2


def test_a_branch_more() -> None:
    one, two = JOIN.format("r.a > 1"), JOIN.format("r.b > 1")
    d = difference(terms(f"{one} UNION ALL {two}"), terms(one))
    assert [(sign, m) for sign, m, _ in d.terms] == terms(two)
