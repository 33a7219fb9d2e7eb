"""Every pass of `plan.passes` under its law, over the SQL corpus: interpret(pass(q)) = interpret(q).

A pass may give names to answers; they are inputs then, with the values that the answers have. What is no function from
a term to a term has a law of its own: flat parts put together are the nested query, changes of products their delta.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import pytest

from headwater.calculus import ring
from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.shapes import Bags, Cell, Row, Shape
from headwater.calculus.terms import (
    Add,
    Apply,
    Let,
    Record,
    Rel,
    Term,
    Var,
    change_name,
    children,
    rebuild,
    substitute,
)
from headwater.calculus.types import MapType, RecordType, has_box
from headwater.errors import HeadwaterError, NotIncremental, NotShreddable, ScalarError
from headwater.language.sql import read_sql
from headwater.plan import passes, unions
from headwater.plan.equal_maps import sorted_monomial
from headwater.plan.nested.form import is_plain
from headwater.plan.nested.parts import FlatPart, parts_of
from headwater.plan.nested.sources import rows_of, source_parts
from headwater.plan.passes import Pass
from headwater.plan.subqueries.asked import AskedRows, AskedScalar
from headwater.plan.subqueries.cut import Subqueries
from headwater.rules.changes import Changed, changes_of
from headwater.rules.monomial import Monomial, sum_of, summands
from sql.corpus import Query, difference, plain, read
from sql.tables import EVEN, ROWS, SCHEMAS

OLD = {name: from_python(SCHEMAS[name], rows) for name, rows in EVEN.items()}
NEW = {name: from_python(SCHEMAS[name], rows) for name, rows in ROWS.items()}


class Names:
    """The setting of a pass: answers that were given names, each over those before it, and no counts."""

    def __init__(self) -> None:
        self.answers: dict[str, Term] = {}
        self.inputs: dict[Rel, Term] = {}
        self.subqueries = Subqueries(self.named)
        self.keeps_sums = True

    def named(self, answer: Term) -> Term:
        t = type_of(answer)
        assert isinstance(t, MapType)
        found = Rel(f"answer {len(self.answers)}", t)
        self.answers[found.name] = answer
        return found

    def count(self, way: str, failures: Sequence[Monomial]) -> None:
        """What fails is the interpreter's error here."""

    def database(self, given: dict[str, Any]) -> dict[str, Any]:
        """A database with the answers in it."""
        out = dict(given)
        for name, answer in self.answers.items():
            out[name] = interpret(answer, out)
        return out


def before(one: Pass, term: Term, names: Names) -> Term:
    """The term that a pass is given: that of the query after the passes before it, which open only what is nested."""
    plain = is_plain(term, {})
    for earlier in passes.PASSES[: passes.PASSES.index(one)]:
        if not (plain and earlier in passes.OF_VIEW):
            term = earlier(term, names)
    return term


def restored(term: Term, names: Names) -> Term:
    """The term with subqueries in the places of the functions of outer columns that stand for them after a cut."""
    term = rebuild(term, tuple(restored(c, names) for c in children(term)))
    known = names.subqueries.known
    match term:
        case Apply(AskedRows(name), argument):
            return substitute(restored(known[name].term, names), {known[name].param: argument})
        case AskedScalar(_, args):
            s = known[term.subquery]
            assert s.value is not None
            columns = Record(tuple((f"_{i + 1}", a) for i, a in enumerate(args)))
            shown = s.shown[term.place]
            return substitute(Let(s.value, restored(s.term, names), shown), {s.param: columns})
    return term


def sort_products(term: Term, names: passes.Setting) -> Term:
    """a · b = b · a: products in the one order that equal maps have, which `summed` puts them in."""
    found = summands(passes.join_subqueries(term, names))
    return sum_of([(s, Monomial((), (), sorted_monomial(m))) for s, m in found], type_of(term))


ONE_BY_ONE = tuple(dict.fromkeys(passes.PASSES))
"""Every pass once."""


def test_every_pass_is_listed_and_says_its_law() -> None:
    """A function of a term and a setting in `plan.passes` is a pass, and all of them are in the tuple."""
    found = [
        f
        for f in vars(passes).values()
        if inspect.isfunction(f)
        and f.__module__ == passes.__name__
        and list(inspect.signature(f).parameters) == ["term", "setting"]
    ]
    assert set(found) == set(passes.PASSES)
    assert all("=" in (f.__doc__ or "") for f in found)


def same(found: Any, wanted: Any) -> bool:
    """Equal, doubles up to rounding."""
    return found == wanted or difference(plain(found), plain(wanted)) == ([], [])


FAILING = [
    "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b AND 10 / s.c > 1)",
    "SELECT a, (SELECT sum(10 / nullif(c, 0)) FROM s WHERE s.b = r.b AND cast(r.a AS INT) > 0) AS n FROM r",
    "SELECT r.a / s.c AS q FROM r JOIN s ON r.b = s.b WHERE s.c <> 0",
]
"""What may fail, and does not here, or fails with or without a pass."""
REACHED = "WITH RECURSIVE w (a, b) AS (SELECT a, b FROM r UNION SELECT w.a, s.c FROM w JOIN s ON s.b = w.b)"
LENGTHS = """
    WITH MUTUALLY RECURSIVE near (a BIGINT, n BIGINT) AS (
        SELECT a, min(n) AS n FROM (SELECT 1L AS a, 0L AS n UNION ALL SELECT e.b, x.n + 1 FROM near x JOIN e ON e.a = x.a)
        GROUP BY a), e (a BIGINT, b BIGINT) AS (SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM empty WHERE empty.a = r.a))
"""
LOOPS = [
    f"{REACHED} SELECT a, b FROM w",
    f"{REACHED} SELECT w.a, count(*) AS n FROM w JOIN r ON r.b = w.b GROUP BY w.a",
    f"{REACHED} SELECT a FROM r WHERE EXISTS (SELECT 1 FROM w WHERE w.b = r.b AND 10 / w.b > 1)",
    f"{REACHED} SELECT x.a FROM w x JOIN (SELECT b FROM w UNION ALL SELECT c FROM s) y ON x.b = y.b",
    f"{LENGTHS} SELECT near.a, n, (SELECT max(b) FROM e WHERE e.a = near.a) AS most FROM near",
    "WITH RECURSIVE w (a, n) MAX RECURSION LEVEL 4 AS (SELECT a, 1L FROM r UNION ALL"
    " SELECT s.c, w.n + 1 FROM w JOIN s ON s.b = w.a AND w.n < 3) SELECT n, array_agg(a) AS rows FROM w GROUP BY n",
    "WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) w (a BIGINT, n BIGINT) AS (SELECT r.a, 1 +"
    " coalesce((SELECT sum(w.n) FROM w JOIN s ON s.c = w.a WHERE s.b = r.b), 0) AS n FROM r) SELECT a, n FROM w",
    "WITH RECURSIVE w (a, b) AS (SELECT i.part, i.qty FROM nested LATERAL VIEW explode(items) t AS i UNION"
    " SELECT w.b, x.id FROM w JOIN nested x ON size(x.items) > w.b) SELECT a, b FROM w",
]
"""Loops, which are named like answers."""
CORPUS = [
    *read(),
    *(Query("failing", str(i), "", q, q) for i, q in enumerate(FAILING)),
    *(Query("loops", str(i), "", q, q) for i, q in enumerate(LOOPS)),
]
QUERIES = [
    pytest.param(
        q, id=q.id, marks=[] if i % 4 == 0 or q.file in ("failing", "loops") else [pytest.mark.slow]
    )
    for i, q in enumerate(CORPUS)
]
"""The corpus, of which a quarter is not slow."""


@pytest.mark.parametrize("one", [*ONE_BY_ONE, sort_products], ids=lambda p: p.__name__)
@pytest.mark.parametrize("query", QUERIES)
def test_a_pass_keeps_the_meaning(query: Query, one: Pass, monkeypatch: pytest.MonkeyPatch) -> None:
    """interpret(pass(q)) = interpret(q), of the query as it is, and as the passes before have left it."""
    monkeypatch.setattr(unions, "MOST", 1)
    term, names = read_sql(query.spark, SCHEMAS), Names()
    try:
        wanted = interpret(term, NEW)
    except ScalarError:
        pytest.skip("the query fails, which is counted by others")
    try:
        given = [term]
        if one in passes.PASSES:
            given.append(before(one, term, names))
        made = [one(t, names) for t in dict.fromkeys(given)]
    except NotIncremental:
        pytest.skip("the pass refuses it by name")
    for m in made:
        assert type_of(m) == type_of(term)
        assert same(interpret(restored(m, names), names.database(NEW)), wanted)


def test_every_pass_changes_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law of a pass that never fires says nothing."""
    monkeypatch.setattr(unions, "MOST", 1)
    left = set(ONE_BY_ONE) - {passes.retype_sources}  # which only sources with arrays need
    for query in CORPUS:
        term, names = read_sql(query.spark, SCHEMAS), Names()
        plain = is_plain(term, {})
        try:
            for one in passes.PASSES[len(passes.OF_VIEW) if plain else 0 :]:
                made = one(term, names)
                left -= {one} if made != term else set()
                term = made
        except NotIncremental:
            continue
        if not left:
            return
    assert not left, [p.__name__ for p in left]


def nested_rows(parts: Sequence[FlatPart], database: dict[str, Any]) -> Any:
    """What flat parts stand for: the rows of the first, with the rows of others in the places of their labels."""
    values = [interpret(p.term, database) for p in parts]
    names = [[n for n, _ in type_of(p.term).key.fields] for p in parts]

    def rows(number: int, label: tuple[Any, ...]) -> Any:
        """The rows of a part that have a label, put together."""
        part, found = parts[number], []
        for row, count in values[number].items():
            columns = dict(zip(names[number], row, strict=True))
            if tuple(columns[c] for c in part.label) == label:
                found.append((put(part.shape, columns), count))
        return ring.collect(found)

    def put(shape: Shape, columns: dict[str, Any]) -> Any:
        match shape:
            case Cell(column):
                return columns[column]
            case Row(fields):
                return tuple(put(f, columns) for _, f in fields)
            case Bags(variants, tag):
                number = 0 if tag is None else columns[tag]
                if number is None:
                    return None
                chosen = variants[number]
                return rows(chosen.part, tuple(columns[c] for c in chosen.label))

    return rows(0, ())


NESTED = [p for p in QUERIES if has_box(type_of(read_sql(p.values[0].spark, SCHEMAS)))]  # type: ignore[union-attr]


@pytest.mark.parametrize("query", NESTED)
def test_flat_parts_put_together_are_the_query(query: Query) -> None:
    term = read_sql(query.spark, SCHEMAS)
    try:
        parts = parts_of(passes.open_bags(term, Names()))
    except NotShreddable:
        pytest.skip("labels cannot follow it")
    assert not any(has_box(type_of(p.term)) for p in parts)
    assert same(nested_rows(parts, NEW), interpret(term, NEW))


NESTED_ROWS = [
    (1, [(10, 2), (10, 2), (11, None)], ["a", "b"]),
    (2, None, ["a"]),
    (3, [], None),
]


@pytest.mark.parametrize("query", [p for p in QUERIES if " nested" in p.values[0].spark])  # type: ignore[union-attr]
def test_sources_as_queries_over_flat_relations_keep_the_meaning(query: Query) -> None:
    """R = for x in R′ collect {row(x)}, and so is every query over it."""
    t = SCHEMAS["nested"]
    assert isinstance(t.key, RecordType)
    found = source_parts("nested", t.key, ["id"])
    flat = {
        "nested": [(i, *(None if a is None else 0 for a in arrays)) for i, *arrays in NESTED_ROWS],
        "nested.items": [(i, *x) for i, items, _ in NESTED_ROWS for x in items or ()],
        "nested.tags": [(i, x) for i, _, tags in NESTED_ROWS for x in tags or ()],
    }
    data = {p.name: ring.collect((r, 1) for r in flat[p.name]) for p in found}
    names = Names()
    names.inputs[Rel("nested", t)] = rows_of(found)
    term = read_sql(query.spark, SCHEMAS)
    whole = {**NEW, "nested": interpret(rows_of(found), data)}
    assert len(whole["nested"]) == len(NESTED_ROWS)
    made = passes.retype_sources(term, names)
    assert same(interpret(made, {**NEW, **data}), interpret(term, whole))
    assert same(interpret(passes.open_bags(made, names), {**NEW, **data}), interpret(term, whole))


@pytest.mark.parametrize("one_by_one", [False, True], ids=["all at once", "one by one"])
@pytest.mark.parametrize("query", QUERIES)
def test_changes_of_products_are_their_delta(query: Query, one_by_one: bool) -> None:
    """m[new] - m[old] = the sum of `changes_of`, with the new version read as R + ΔR."""
    names = Names()
    try:
        term = passes.forgive_subqueries(read_sql(query.spark, SCHEMAS), names)
        found = names.subqueries.monomials(term)
    except NotIncremental:
        pytest.skip("the pass refuses it by name")
    old, new = names.database(OLD), names.database(NEW)
    changes = {change_name(n): ring.add(new[n], ring.neg(old[n])) for n in new}
    for _, m in found:
        if any(not isinstance(s, Rel) for _, s in m.atoms):
            continue  # an array of a row
        whole = m.build(m.output)
        try:
            wanted = ring.add(interpret(whole, new), ring.neg(interpret(whole, old)))
        except HeadwaterError:
            continue  # a join of all pairs may divide by zero where the query does not
        change = ring.zero(type_of(whole))
        for changed in changes_of(m, new, one_by_one):
            change = ring.add(change, interpret(_new_read(changed), {**old, **changes}))
        assert same(change, wanted)


def _new_read(changed: Changed) -> Term:
    def version(v: Var, source: Term) -> Term:
        if not isinstance(source, Rel):
            return source
        change = Rel(change_name(source.name), source.type)
        if v in changed.change:
            return change
        return Add((source, change)) if v in changed.new else source

    m = changed.monomial
    atoms = tuple((v, version(v, s)) for v, s in m.atoms)
    return Monomial(atoms, m.factors, m.output).build(m.output)
