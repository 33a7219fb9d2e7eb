"""Which steps WITH RECURSIVE takes: the laws that are claimed of them hold, and each that is refused breaks one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import RingMap, add
from headwater.calculus.terms import Term, Var
from headwater.language.schema import schemas
from headwater.language.sql.reader import Reader
from headwater.language.sql.recursive_shape import linear, monotone, references

SCHEMAS = schemas("e(src BIGINT, dst BIGINT)")
ROW = schemas("x(n BIGINT)")["x"]
LOOP = Var("x", ROW)

LINEAR = (
    "SELECT n FROM x",
    "SELECT n + 1 AS n FROM x WHERE n < 3",
    "SELECT dst FROM x JOIN e ON src = n",
    "SELECT dst FROM e, x WHERE src = n",
    "SELECT dst FROM e CROSS JOIN x",
    "SELECT dst FROM x LEFT JOIN e ON src = n",
    "SELECT dst FROM e RIGHT JOIN x ON src = n",
    "SELECT n FROM x LEFT SEMI JOIN e ON src = n",
    "SELECT n FROM x LEFT ANTI JOIN e ON src = n",
    "SELECT n FROM x WHERE n IN (SELECT src FROM e)",
    "SELECT n FROM x WHERE n NOT IN (SELECT src FROM e)",
    "SELECT n + (SELECT count(*) FROM e) AS n FROM x",
    "SELECT q.c FROM x JOIN (SELECT src, count(*) AS c FROM e GROUP BY src) q ON q.src = n",
    "SELECT n FROM x UNION ALL SELECT n + 1 FROM x",
    "SELECT m FROM (SELECT n AS m FROM x WHERE n > 0) q",
    "WITH u AS (SELECT n FROM x) SELECT n FROM u UNION ALL SELECT n FROM u",
    "SELECT q.dst FROM x, LATERAL (SELECT dst FROM e WHERE src = x.n) q",
    "SELECT q.n FROM e, LATERAL (SELECT n FROM x WHERE n = e.src) q",
)
MONOTONE = (
    "SELECT a.n FROM x a JOIN x b ON a.n = b.n + 1",
    "SELECT dst FROM e",
    "SELECT dst FROM e UNION ALL SELECT n FROM x",
    "SELECT DISTINCT n FROM x",
    "SELECT n FROM x UNION SELECT dst FROM e",
    "SELECT dst FROM e WHERE src IN (SELECT n FROM x)",
    "SELECT dst FROM e WHERE EXISTS (SELECT 1 FROM x WHERE n = src)",
    "SELECT dst FROM e LEFT SEMI JOIN x ON src = n",
    "SELECT a.n FROM x a LEFT SEMI JOIN x b ON a.n < b.n",
)
"""Steps that are monotone and not linear."""
NEITHER = (
    "SELECT max(n) AS n FROM x",
    "SELECT count(*) AS n FROM x",
    "SELECT n % 1 AS n FROM x GROUP BY n % 1 HAVING count(*) = 1",
    "SELECT row_number() OVER (ORDER BY n) - sum(n) OVER () AS n FROM x",
    "SELECT n FROM x ORDER BY n LIMIT 1",
    "SELECT dst FROM e LEFT ANTI JOIN x ON src = n",
    "SELECT n FROM e LEFT JOIN x ON src = n",
    "SELECT n FROM e FULL JOIN x ON src = n",
    "SELECT dst FROM e WHERE src NOT IN (SELECT n FROM x)",
    "SELECT dst FROM e WHERE NOT EXISTS (SELECT 1 FROM x WHERE n = src)",
    "SELECT (SELECT max(n) FROM x) AS n FROM e",
    "SELECT dst FROM e EXCEPT SELECT n FROM x",
    "SELECT a.n FROM x a LEFT ANTI JOIN x b ON a.n < b.n",
)


def term_of(text: str) -> Term:
    """The term of a step that reads the loop's variable under the name x."""
    reader = Reader(text, SCHEMAS)
    reader.ctes["x"] = LOOP
    return reader.query(reader.parse(), None)


NODES = st.one_of(st.integers(0, 3), st.none())
ROWS = st.lists(st.tuples(NODES), max_size=4)
EDGES = st.lists(st.tuples(NODES, NODES), max_size=5)


def value(step: Term, rows: Any, edges: Any) -> RingMap:
    e = from_python(SCHEMAS["e"], edges)
    found: RingMap = interpret(step, {"e": e}, {"x": from_python(ROW, rows)})
    return found


def is_linear_at(step: Term, a: Any, b: Any, edges: Any) -> bool:
    """s(a + b) = s(a) + s(b)."""
    return value(step, [*a, *b], edges) == add(value(step, a, edges), value(step, b, edges))


def is_monotone_at(step: Term, a: Any, b: Any, edges: Any) -> bool:
    """The rows of s(a) are among those of s(a ∪ b)."""
    more = set(a) | set(b)
    return set(dict(value(step, set(a), edges).items())) <= set(
        dict(value(step, more, edges).items())
    )


@pytest.mark.parametrize("text", LINEAR)
def test_linear_steps(text: str) -> None:
    step = term_of(text)
    assert linear(step, LOOP) and monotone(step, LOOP)

    @settings(max_examples=15)
    @given(ROWS, ROWS, EDGES)
    def hold(a: Any, b: Any, edges: Any) -> None:
        assert is_linear_at(step, a, b, edges) and is_monotone_at(step, a, b, edges)

    hold()


SMALL = [
    (a, b, edges)
    for a, b in product([[], [(1,)], [(2,)], [(1,), (2,)]], repeat=2)
    for edges in ([(1, 2)], [(1, 2), (2, 1)], [(1, 1), (1, 1), (3, 3)])
]


@pytest.mark.parametrize("text", MONOTONE)
def test_monotone_steps(text: str) -> None:
    step = term_of(text)
    assert monotone(step, LOOP) and not linear(step, LOOP)
    assert not all(is_linear_at(step, *x) for x in SMALL), "it is linear and could be taken"

    @settings(max_examples=15)
    @given(ROWS, ROWS, EDGES)
    def hold(a: Any, b: Any, edges: Any) -> None:
        assert is_monotone_at(step, a, b, edges)

    hold()


@pytest.mark.parametrize("text", NEITHER)
def test_steps_that_break_the_law(text: str) -> None:
    step = term_of(text)
    assert not linear(step, LOOP) and not monotone(step, LOOP)
    assert not all(is_linear_at(step, *x) for x in SMALL)
    assert not all(is_monotone_at(step, *x) for x in SMALL), "it is monotone and could be taken"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT n FROM x JOIN X AS y ON x.n = y.n", 2),
        ("SELECT n FROM a.x", 0),
        ("SELECT n FROM e AS x", 0),
        ("SELECT (SELECT max(n) FROM x) AS n FROM e WHERE EXISTS (SELECT 1 FROM x)", 2),
        ("WITH x AS (SELECT n FROM x) SELECT n FROM x", 1),
        ("WITH y AS (SELECT n FROM x), x AS (SELECT n FROM x) SELECT n FROM x", 2),
        ("WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n FROM x) SELECT n FROM x", 0),
        ("WITH RECURSIVE y AS (SELECT n FROM x), x AS (SELECT n FROM y) SELECT n FROM x", 1),
        ("WITH MUTUALLY RECURSIVE y (n INT) AS (SELECT n FROM x), x (n INT) AS (SELECT n FROM y) SELECT n FROM x", 0),
        ("SELECT q.n FROM (WITH x AS (SELECT 1 AS n) SELECT n FROM x) q JOIN x ON x.n = q.n", 1),
    ],
)  # fmt: skip
def test_names_that_are_read(text: str, found: int) -> None:
    """A name is that of the loop where no WITH between them gives it another meaning."""
    tree = Reader(text, {}).parse()
    tables = references(tree, frozenset({"x"}))
    assert len(tables) == found and all(isinstance(t, exp.Table) for t in tables)
