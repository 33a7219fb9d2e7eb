"""Recursive queries: `interpret` of the loop against DuckDB's WITH RECURSIVE, plain Python, and its own rounds as queries.

Graphs are random and small, with cycles, self loops, repeated edges and NULLs. DuckDB gives a step the newest rows only, as
Spark does, so it agrees with the loop where the step is one that `recursive_shape.py` takes; WITH MUTUALLY RECURSIVE it does
not have, but it can compute the rounds that `recursive_steps.py` takes a query apart into.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import elements
from headwater.calculus.terms import Field, Repeat, Term, subterms, variables
from headwater.calculus.types import ProductType
from headwater.errors import NoFixpoint, NotIncremental
from headwater.language.schema import schemas, sql_name
from headwater.language.sql import read_sql
from headwater.language.sql.mutual_recursion import groups
from headwater.language.sql.recursive_steps import Steps, spark_takes, steps

SCHEMAS = schemas(
    "e(src BIGINT, dst BIGINT); w(src BIGINT, dst BIGINT, cost BIGINT); uses(assembly BIGINT, part BIGINT, qty BIGINT)"
)
NODES = st.one_of(st.integers(0, 5), st.none())
EDGES = st.lists(st.tuples(NODES, NODES), max_size=9)
GOING_UP = st.lists(
    st.tuples(NODES, NODES).filter(lambda e: None in e or e[0] < e[1]),  # type: ignore[operator]
    max_size=7,
)
Rows = Sequence[tuple[Any, ...]]
few = settings(max_examples=10)
some = settings(max_examples=25)


@cache
def term_of(text: str) -> Term:
    return read_sql(text, SCHEMAS)


def answer(text: str, **tables: Rows) -> Counter[tuple[Any, ...]]:
    """What the term of a query means."""
    values = {n: from_python(t, tables.get(n, [])) for n, t in SCHEMAS.items()}
    return Counter(elements(interpret(term_of(text), values)))


@cache
def connection() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute("SET threads = 1")
    return made


def database(tables: dict[str, Rows]) -> duckdb.DuckDBPyConnection:
    for name, t in SCHEMAS.items():
        _table(name, t.key.fields, tables.get(name, []))  # type: ignore[union-attr]
    return connection()


def _table(name: str, columns: Any, rows: Iterable[tuple[Any, ...]]) -> None:
    shown = ", ".join(f"{n} {sql_name(t)}" for n, t in columns)
    connection().execute(f"CREATE OR REPLACE TEMP TABLE {name} ({shown})")
    values = ", ".join(str(tuple("NULL" if x is None else x for x in row)) for row in rows)
    if values:
        values = values.replace("'NULL'", "NULL").replace(",)", ")")
        connection().execute(f"INSERT INTO {name} VALUES {values}")


def in_duckdb(text: str, **tables: Rows) -> Counter[tuple[Any, ...]]:
    return Counter(database(tables).execute(text).fetchall())


def round_by_round(text: str, **tables: Rows) -> Counter[tuple[Any, ...]]:
    """What DuckDB answers of the steps of a query."""
    taken = steps(text, SCHEMAS)
    assert taken is not None
    made = database(tables)
    for part in taken.parts:
        now = {b.name: Counter[Any]() for b in part.bindings}
        rounds = part.times or (part.limit if part.looped else 1)
        for i in range(rounds):
            for b in part.bindings if part.looped else ():
                _table(b.name, b.columns, now[b.name].elements())
            before = now
            now = {b.name: Counter(made.execute(b.text).fetchall()) for b in part.bindings}
            if now == before and part.times is None:
                break
            if part.looped and part.times is None and i + 1 == rounds:
                raise NoFixpoint("rounds")
        for b in part.bindings:
            _table(b.name, b.columns, now[b.name].elements())
    return Counter(made.execute(taken.main).fetchall())


# --- WITH RECURSIVE against DuckDB ----------------------------------------------------------------------------------

ALL = {
    "paths": "t AS (SELECT src, dst FROM e UNION ALL SELECT t.src, e.dst FROM t JOIN e ON t.dst = e.src) SELECT * FROM t",
    "depth": """t(src, dst, n) AS (SELECT src, dst, 1 FROM e
        UNION ALL SELECT t.src, e.dst, n + 1 FROM e JOIN t ON t.dst = e.src) SELECT n, count(*) AS c FROM t GROUP BY n""",
    "comma": "t AS (SELECT src, dst FROM e UNION ALL SELECT t.src, e.dst FROM t, e WHERE t.dst = e.src) SELECT * FROM t",
    "two steps": """t(n) AS (SELECT src FROM e UNION ALL
        (SELECT e.dst FROM t JOIN e ON e.src = n UNION ALL SELECT n + 2 FROM t WHERE n < 4)) SELECT * FROM t""",
    "several starts": """t(n) AS (SELECT src FROM e UNION ALL SELECT dst FROM e UNION ALL
        SELECT n + 2 FROM t WHERE n < 5) SELECT * FROM t""",
    "start that is distinct": """t(n) AS ((SELECT src FROM e UNION SELECT dst FROM e) UNION ALL
        SELECT n + 2 FROM t WHERE n < 5) SELECT * FROM t""",
    "left join": """t(n) AS (SELECT src FROM e UNION ALL
        SELECT coalesce(e.dst, n + 1) FROM t LEFT JOIN e ON e.src = n AND e.dst > n WHERE n < 4) SELECT * FROM t""",
    "semi join": """t(n) AS (SELECT src FROM e UNION ALL
        SELECT n + 1 FROM t WHERE EXISTS (SELECT 1 FROM e WHERE e.src = n)) SELECT * FROM t""",
    "not exists": """t(n) AS (SELECT src FROM e UNION ALL
        SELECT n + 1 FROM t WHERE n < 6 AND NOT EXISTS (SELECT 1 FROM e WHERE e.src = n)) SELECT * FROM t""",
    "total beside": """t(n) AS (SELECT src FROM e UNION ALL
        SELECT n + 1 + (SELECT count(*) FROM e) FROM t WHERE n < 5) SELECT * FROM t""",
    "from a subquery": """t(n) AS (SELECT src FROM e UNION ALL
        SELECT m + 1 FROM (SELECT n AS m FROM t WHERE n < 5) q) SELECT * FROM t""",
    "a query inside": """t(n) AS (SELECT src FROM e UNION ALL
        (WITH u AS (SELECT n AS m FROM t WHERE n < 5) SELECT m + 1 FROM u)) SELECT * FROM t""",
    "wider start": """t(n) AS (SELECT src FROM e UNION ALL SELECT CAST(n AS INT) + 1 FROM t WHERE n < 5)
        SELECT * FROM t""",
    "NULLs found": """t(n) AS (SELECT CAST(NULL AS BIGINT) UNION ALL
        SELECT coalesce(n, 0) + 1 FROM t WHERE coalesce(n, 0) < 3) SELECT * FROM t""",
    "a plain one beside": """f AS (SELECT src FROM e WHERE dst > 2), t(n) AS (SELECT src FROM f UNION ALL
        SELECT n + 2 FROM t JOIN f ON n = f.src) SELECT * FROM t""",
    "one after another": """t(n) AS (SELECT src FROM e UNION ALL SELECT n + 1 FROM t WHERE n < 3),
        u(m) AS (SELECT n FROM t UNION ALL SELECT m + 10 FROM u WHERE m < 15) SELECT * FROM u""",
    "a loop read in a step": """t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4),
        u(m) AS (SELECT src FROM e UNION ALL SELECT m + t.n FROM u JOIN t ON m = t.n) SELECT * FROM u""",
    "read twice outside": """t(n) AS (SELECT src FROM e UNION ALL SELECT n + 2 FROM t WHERE n < 5)
        SELECT a.n, b.n AS m FROM t a LEFT JOIN t b ON a.n = b.n + 1""",
    "hidden by another": """t(n) AS (SELECT src FROM e UNION ALL SELECT n + 2 FROM t WHERE n < 5)
        SELECT q.n FROM (WITH t AS (SELECT dst AS n FROM e) SELECT n FROM t) q""",
    "not read": "t(n) AS (SELECT src FROM e UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT dst FROM e",
    "named as an input": "e(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e WHERE n < 5) SELECT * FROM e",
}  # fmt: skip
"""UNION ALL over graphs without cycles; the words are the same in DuckDB."""

ONCE = {
    "closure": "t AS (SELECT src, dst FROM e UNION SELECT t.src, e.dst FROM t JOIN e ON t.dst = e.src) SELECT * FROM t",
    "reached": "t(n) AS (SELECT 1 AS n UNION SELECT e.dst FROM t JOIN e ON e.src = n) SELECT * FROM t",
    "semi join": "t(n) AS (SELECT min(src) FROM e UNION SELECT dst FROM e WHERE src IN (SELECT n FROM t)) SELECT * FROM t",
    "exists": """t(n) AS (SELECT min(src) FROM e UNION
        SELECT dst FROM e WHERE EXISTS (SELECT 1 FROM t WHERE n = src)) SELECT * FROM t""",
    "distinct inside": """t(n) AS (SELECT min(src) FROM e UNION
        SELECT DISTINCT dst FROM t JOIN e ON src = n) SELECT * FROM t""",
    "a start in the step": """t(n) AS (SELECT min(src) FROM e UNION
        (SELECT max(dst) FROM e UNION ALL SELECT dst FROM t JOIN e ON src = n)) SELECT * FROM t""",
    "both ways": """t(n) AS (SELECT min(src) FROM e UNION (SELECT dst FROM t JOIN e ON src = n UNION
        SELECT src FROM t JOIN e ON dst = n)) SELECT * FROM t""",
}  # fmt: skip
"""UNION over any graphs."""


@pytest.mark.parametrize("name", ALL)
def test_union_all_is_as_in_duckdb(name: str) -> None:
    text = f"WITH RECURSIVE {ALL[name]}"

    @few
    @given(GOING_UP)
    def agree(edges: Rows) -> None:
        assert answer(text, e=edges) == in_duckdb(text, e=edges)

    agree()


@pytest.mark.parametrize("name", ONCE)
def test_union_is_as_in_duckdb(name: str) -> None:
    text = f"WITH RECURSIVE {ONCE[name].replace('SELECT 1 AS n', 'SELECT CAST(1 AS BIGINT) AS n')}"

    @few
    @given(EDGES)
    def agree(edges: Rows) -> None:
        assert answer(text, e=edges) == in_duckdb(text, e=edges)

    agree()


def test_in_subqueries() -> None:
    loop = "WITH RECURSIVE t(n) AS (SELECT src FROM e UNION ALL SELECT n + 1 FROM t WHERE n < 4)"
    edges = [(1, 2), (1, 2), (2, 3), (7, 0)]
    for text in (
        f"SELECT q.n FROM ({loop} SELECT n FROM t) q WHERE q.n > 2",
        f"SELECT dst, ({loop} SELECT sum(n) FROM t) AS s FROM e",
        f"SELECT dst FROM e WHERE dst IN ({loop} SELECT n FROM t)",
        f"SELECT dst FROM e UNION ALL ({loop} SELECT n FROM t)",
    ):
        assert answer(text, e=edges) == in_duckdb(text, e=edges)


@few
@given(GOING_UP)
def test_queries_before_start_and_step(edges: Rows) -> None:
    """A WITH clause over both: the start reads of it what does not read the loop, the step all of it."""
    loop = """t(n) AS (WITH u AS (SELECT src AS m FROM e), v AS (SELECT n + 1 AS k FROM t), u2 AS (SELECT m FROM u WHERE m > 1)
        SELECT m FROM u UNION ALL SELECT k FROM v JOIN (SELECT max(m) AS top FROM u2) q ON k < top)"""
    text = f"WITH RECURSIVE {loop} SELECT n FROM t"
    assert answer(text, e=edges) == round_by_round(text, e=edges)
    with pytest.raises(NotIncremental, match="the first part"):
        read_sql(text.replace("SELECT m FROM u UNION", "SELECT k FROM v UNION"), SCHEMAS)


# --- how many rounds ------------------------------------------------------------------------------------------------

COUNTED = "WITH RECURSIVE t(n) {} AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {}) SELECT n FROM t"


@pytest.mark.parametrize(
    ("level", "rows", "ends"),
    [("", 100, True), ("", 101, False), ("MAX RECURSION LEVEL 5", 5, True), ("MAX RECURSION LEVEL 5", 6, False)],
)  # fmt: skip
def test_levels_are_counted_as_spark_counts(level: str, rows: int, ends: bool) -> None:
    """A level of n allows n levels with rows, the start among them."""
    text = COUNTED.format(level, rows)
    if ends:
        assert answer(text) == Counter((i,) for i in range(1, rows + 1))
    else:
        with pytest.raises(NoFixpoint):
            answer(text)


def test_level_zero_is_for_nothing() -> None:
    text = "WITH RECURSIVE t(n) MAX RECURSION LEVEL 0 AS (SELECT src FROM e UNION ALL SELECT n FROM t) SELECT n FROM t"
    assert answer(text) == Counter()
    with pytest.raises(NoFixpoint):
        answer(text, e=[(1, 2)])


def test_union_ends_where_union_all_does_not() -> None:
    text = "WITH RECURSIVE t(n) AS (SELECT src FROM e UNION ALL SELECT e.dst FROM t JOIN e ON n = src) SELECT n FROM t"
    ring = [(1, 2), (2, 1)]
    with pytest.raises(NoFixpoint):
        answer(text, e=ring)
    assert answer(text.replace("UNION ALL", "UNION"), e=ring) == Counter([(1,), (2,)])


def repeats(term: Term) -> list[Repeat]:
    return [t for t in subterms(term) if isinstance(t, Repeat)]


def test_limits_of_the_forms() -> None:
    def limits(text: str) -> list[tuple[int | None, int]]:
        return [(r.times, r.limit) for r in repeats(read_sql(text, SCHEMAS))]

    once = "WITH RECURSIVE t(n) {} AS (SELECT src FROM e UNION SELECT n + 1 FROM t) SELECT n FROM t"
    mutual = "WITH MUTUALLY RECURSIVE {} t (n BIGINT) AS (SELECT src FROM e UNION SELECT n FROM t) SELECT n FROM t"
    assert limits(COUNTED.format("", 3)) == [(None, 101)]
    assert limits(once.format("")) == [(None, 10_000)]
    assert limits(once.format("max recursion level 7")) == [(None, 8)]
    assert limits(mutual.format("")) == [(None, 10_000)]
    assert limits(mutual.format("(ERROR AT RECURSION LIMIT 30)")) == [(None, 30)]
    assert limits(mutual.format("(return at recursion limit 30)")) == [(30, 10_000)]


# --- WITH MUTUALLY RECURSIVE against plain Python -------------------------------------------------------------------

LINEAR = """WITH MUTUALLY RECURSIVE t (a BIGINT, b BIGINT) AS (
    SELECT src, dst FROM e UNION SELECT t.a, e.dst FROM t JOIN e ON t.b = e.src) SELECT * FROM t"""
SQUARE = """WITH MUTUALLY RECURSIVE t (a BIGINT, b BIGINT) AS (
    SELECT src, dst FROM e UNION SELECT x.a, y.b FROM t x JOIN t y ON x.b = y.a) SELECT * FROM t"""
SQUARE_PLAIN = """WITH RECURSIVE t (a, b) AS (
    SELECT src, dst FROM e UNION SELECT x.a, y.b FROM t x JOIN t y ON x.b = y.a) SELECT * FROM t"""
SHORTEST = """WITH MUTUALLY RECURSIVE dist (node BIGINT, d BIGINT) AS (
    SELECT node, min(d) AS d FROM (SELECT CAST(1 AS BIGINT) AS node, CAST(0 AS BIGINT) AS d UNION ALL
        SELECT w.dst, x.d + w.cost FROM dist x JOIN w ON w.src = x.node) q GROUP BY node) SELECT * FROM dist"""
STRONG = """WITH MUTUALLY RECURSIVE
    there (a BIGINT, b BIGINT) AS (SELECT src, dst FROM e UNION SELECT x.a, y.b FROM there x JOIN there y ON x.b = y.a),
    strong (a BIGINT, b BIGINT) AS (SELECT x.a, x.b FROM there x JOIN there y ON x.a = y.b AND x.b = y.a)
    SELECT * FROM strong"""
BOTH_WAYS = """WITH MUTUALLY RECURSIVE
    odd (n BIGINT) AS (SELECT e.dst FROM even JOIN e ON e.src = even.n UNION SELECT n FROM odd),
    even (n BIGINT) AS (SELECT CAST(1 AS BIGINT) AS n UNION SELECT e.dst FROM odd JOIN e ON e.src = odd.n)
    SELECT 'odd' AS s, n FROM odd UNION ALL SELECT 'even', n FROM even"""
PARTS = """WITH MUTUALLY RECURSIVE bom (assembly BIGINT, part BIGINT, qty BIGINT) AS (
    SELECT assembly, part, qty FROM uses UNION ALL
    SELECT b.assembly, u.part, b.qty * u.qty FROM bom b JOIN uses u ON u.assembly = b.part)
    SELECT assembly, part, CAST(sum(qty) AS BIGINT) AS qty FROM bom GROUP BY assembly, part"""
COMPONENTS = """WITH MUTUALLY RECURSIVE
    ways (a BIGINT, b BIGINT) AS (SELECT src, dst FROM e UNION SELECT dst, src FROM e),
    label (node BIGINT, least BIGINT) AS (SELECT node, min(l) FROM (
        SELECT a AS node, a AS l FROM ways UNION ALL SELECT ways.b, least FROM label JOIN ways ON ways.a = node) q
        WHERE node IS NOT NULL GROUP BY node)
    SELECT * FROM label"""


def closure(edges: Rows) -> set[tuple[Any, ...]]:
    """Rows of edges, and pairs that a path connects; NULL is no node to go through."""
    found = set(edges)
    while True:
        more = {(a, d) for a, b in found for c, d in edges if b == c and b is not None} - found
        if not more:
            return found
        found |= more


@some
@given(EDGES)
def test_closure(edges: Rows) -> None:
    expected = Counter(closure(edges))
    assert answer(LINEAR, e=edges) == expected
    assert answer(SQUARE, e=edges) == expected
    assert answer(SQUARE_PLAIN, e=edges) == expected


@some
@given(st.lists(st.tuples(NODES, NODES, st.one_of(st.integers(0, 9), st.none())), max_size=9))
def test_shortest_paths(edges: Rows) -> None:
    best: dict[int | None, int | None] = {1: 0}
    for _ in range(8):  # Bellman and Ford; a cost of NULL is one only where there is no other
        found: dict[Any, list[Any]] = {1: [0]}
        for a, b, c in edges:
            if a is not None and a in best:
                d = best[a]
                found.setdefault(b, []).append(None if d is None or c is None else d + c)
        best = {n: min((d for d in ds if d is not None), default=None) for n, ds in found.items()}
    assert answer(SHORTEST, w=edges) == Counter(best.items())


@some
@given(EDGES)
def test_strongly_connected_pairs(edges: Rows) -> None:
    there = closure(edges)
    both = [(a, b) for a, b in there if (b, a) in there and None not in (a, b)]
    assert answer(STRONG, e=edges) == Counter(both)


@some
@given(EDGES)
def test_two_that_read_each_other(edges: Rows) -> None:
    walks = {("even", 1)}
    while True:
        other = {"odd": "even", "even": "odd"}
        new = {(other[s], b) for s, n in walks for a, b in edges if a == n and n is not None}
        if new <= walks:
            break
        walks |= new
    assert answer(BOTH_WAYS, e=edges) == Counter(walks)


def _parts(uses: Rows) -> Counter[tuple[Any, ...]]:
    """All paths, one by one."""
    total: dict[tuple[Any, Any], int | None] = {}

    def go(top: Any, part: Any, qty: int | None) -> None:
        before = total.get((top, part))
        total[top, part] = before if qty is None else qty + (before or 0)
        for a, p, q in uses:
            if a == part and a is not None:
                go(top, p, None if qty is None or q is None else qty * q)

    for a, p, q in uses:
        go(a, p, q)
    return Counter((*k, v) for k, v in total.items())


@some
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(4, 6), st.integers(1, 3)), max_size=5),
       st.lists(st.tuples(st.integers(4, 6), st.one_of(st.integers(7, 8), st.none()), st.integers(1, 3)), max_size=5))  # fmt: skip
def test_bill_of_materials(tops: Rows, parts: Rows) -> None:
    uses = [*tops, *parts]
    assert answer(PARTS, uses=uses) == _parts(uses)
    plain = (
        PARTS.replace("MUTUALLY ", "").replace(" BIGINT,", ",").replace("qty BIGINT)", "qty)", 1)
    )
    assert "CAST(sum(qty) AS BIGINT)" in plain
    assert answer(plain, uses=uses) == _parts(uses)


@some
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=9))
def test_components(edges: Rows) -> None:
    label = {n: n for edge in edges for n in edge}
    for _ in label:
        for a, b in edges:
            label[a] = label[b] = min(label[a], label[b])
    assert answer(COMPONENTS, e=edges) == Counter(label.items())


@some
@given(EDGES, st.integers(1, 5))
def test_return_at_a_limit_is_so_many_rounds(edges: Rows, rounds: int) -> None:
    """Not monotone, and never at an end: what was not there is there in the next round."""
    text = f"""WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT {rounds})
        t (n BIGINT) AS (SELECT src FROM e WHERE src NOT IN (SELECT n FROM t WHERE n IS NOT NULL)) SELECT n FROM t"""
    assert answer(text, e=edges) == _alternating(edges, rounds)


def _alternating(edges: Rows, rounds: int) -> Counter[tuple[Any, ...]]:
    now: list[Any] = []
    for _ in range(rounds):
        there = [n for n in now if n is not None]
        now = [
            a for a, _ in edges if (a is None and not there) or (a is not None and a not in there)
        ]
    return Counter((a,) for a in now)


MUTUAL = (LINEAR, SQUARE, STRONG, BOTH_WAYS, COMPONENTS)


@pytest.mark.parametrize("text", MUTUAL, ids=["linear", "square", "strong", "both", "components"])
def test_rounds_are_queries(text: str) -> None:
    """The steps that a text is taken apart into, computed by DuckDB round by round, are the query."""

    @few
    @given(EDGES)
    def agree(edges: Rows) -> None:
        assert answer(text, e=edges) == round_by_round(text, e=edges)

    agree()


@pytest.mark.parametrize("name", ["paths", "two steps", "a plain one beside", "one after another"])
def test_rounds_of_union_all_are_queries(name: str) -> None:
    text = f"WITH RECURSIVE {ALL[name]}"
    edges = [(0, 1), (1, 2), (1, 2), (0, 3), (None, 1), (3, None)]
    assert answer(text, e=edges) == round_by_round(text, e=edges)


# --- what is in a loop ------------------------------------------------------------------------------------------------


def test_loops_have_what_needs_them() -> None:
    (one,) = repeats(read_sql(SQUARE, SCHEMAS))
    assert not isinstance(one.var.type, ProductType) and not variables(one)
    (strong,) = repeats(read_sql(STRONG, SCHEMAS))
    assert not isinstance(strong.var.type, ProductType), "`strong` is behind the loop"
    (both,) = repeats(term := read_sql(BOTH_WAYS, SCHEMAS))
    assert isinstance(both.var.type, ProductType)
    assert [n for n, _ in both.var.type.fields] == ["odd", "even"]
    assert {t.name for t in subterms(term) if isinstance(t, Field) and t.term == both} == {
        "odd",
        "even",
    }
    (label,) = repeats(read_sql(COMPONENTS, SCHEMAS))
    assert not isinstance(label.var.type, ProductType), "`ways` is before the loop"


def test_two_loops_are_one_where_rounds_are_counted() -> None:
    text = """WITH MUTUALLY RECURSIVE {}
        a (n BIGINT) AS (SELECT src FROM e UNION SELECT n + 1 FROM a WHERE n < 4),
        c (n BIGINT) AS (SELECT n FROM b UNION SELECT n + 10 FROM c WHERE n < 24),
        b (n BIGINT) AS (SELECT n * 2 FROM a), f (n BIGINT) AS (SELECT dst FROM e)
        SELECT n FROM c UNION ALL SELECT n FROM f"""
    apart, together = (
        repeats(read_sql(text.format(ends), SCHEMAS))
        for ends in ("", "(RETURN AT RECURSION LIMIT 3)")
    )
    assert len(apart) == 2 and len(together) == 1
    assert [n for n, _ in together[0].var.type.fields] == ["a", "c", "b"]
    edges = [(1, 5)]
    for ends in ("", "(RETURN AT RECURSION LIMIT 3)", "(RETURN AT RECURSION LIMIT 4)"):
        assert answer(text.format(ends), e=edges) == round_by_round(text.format(ends), e=edges)


@some
@given(st.dictionaries(st.integers(0, 5), st.sets(st.integers(0, 5)), max_size=6), st.booleans())
def test_groups_come_after_what_they_read(graph: dict[int, set[int]], together: bool) -> None:
    reads = {str(n): {str(m) for m in to if m in graph} for n, to in graph.items()}
    found = groups(reads, together)
    assert sorted(n for g in found for n in g) == sorted(reads)
    place = {n: i for i, g in enumerate(found) for n in g}
    assert all(place[m] <= place[n] for n, to in reads.items() for m in to)
    there = closure([(n, m) for n, to in reads.items() for m in to])
    looped = {n for n in reads if (n, n) in there}
    for n in reads:
        for m in reads:
            mutual = n == m or ((n, m) in there and (m, n) in there)
            assert place[n] == place[m] if mutual else together or place[n] != place[m]
            if together and {n, m} <= looped:
                assert place[n] == place[m]


# --- the text -----------------------------------------------------------------------------------------------------------


def test_steps_of_a_text() -> None:
    text = "WITH RECURSIVE f AS (SELECT src FROM e), t (n) MAX RECURSION LEVEL 9 AS (SELECT src FROM f UNION SELECT (n) FROM t)\nSELECT n FROM t"
    taken = steps(text, SCHEMAS)
    assert isinstance(taken, Steps) and taken.main == "\nSELECT n FROM t"
    plain, loop = taken.parts
    assert (plain.looped, plain.bindings[0].text) == (False, "SELECT src FROM e")
    assert (loop.looped, loop.times, loop.limit) == (True, None, 10)
    assert loop.bindings[0].text == "SELECT src FROM f UNION SELECT (n) FROM t"
    assert [(n, sql_name(t)) for n, t in loop.bindings[0].columns] == [("n", "bigint")]
    assert steps("SELECT src FROM e", SCHEMAS) is None
    assert steps("WITH f AS (SELECT src FROM e) SELECT src FROM f", SCHEMAS) is None


def test_what_spark_takes_itself() -> None:
    assert spark_takes("SELECT src FROM e")
    assert all(spark_takes(f"WITH RECURSIVE {text}") for text in ALL.values())
    assert not any(spark_takes(f"WITH RECURSIVE {text}") for text in ONCE.values())
    assert not any(spark_takes(text) for text in (*MUTUAL, f"SELECT * FROM ({LINEAR})"))


def test_names_that_are_no_words() -> None:
    """What begins a clause is a name where it stands as one."""
    edges = [(1, 2)]
    for name in ("mutually", "max", "level", "recursion"):
        text = f"WITH {name} AS (SELECT src FROM e) SELECT src FROM {name}"
        assert answer(text, e=edges) == Counter([(1,)])
    text = "WITH RECURSIVE max (n) AS (SELECT src FROM e UNION ALL SELECT n + 1 FROM max WHERE n < 3) SELECT n FROM max"
    assert answer(text, e=edges) == Counter([(1,), (2,), (3,)])


def test_a_loop_that_is_not_closed() -> None:
    outer = """SELECT src, (WITH RECURSIVE t(n) AS (SELECT dst FROM e UNION ALL SELECT n + o.src FROM t WHERE n < 3)
        SELECT max(n) FROM t) AS m FROM e o"""
    with pytest.raises(NotIncremental, match="reads a column of the query around it") as refused:
        read_sql(outer, SCHEMAS)
    assert refused.value.reason == "RECURSION_SHAPE"
