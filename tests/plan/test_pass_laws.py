"""Every pass of the compiler under its law, over the SQL corpus: interpret(pass(q)) = interpret(q).

A pass may give names to answers; they are inputs then, with the values that the answers have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.calculus import ring
from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import Add, Rel, Term, Var, change_name
from headwater.calculus.types import MapType
from headwater.errors import HeadwaterError, NotIncremental
from headwater.language.sql import read_sql
from headwater.plan import unions
from headwater.plan.disjunctions import joins
from headwater.plan.equal_maps import canonical, sorted_monomial
from headwater.plan.subqueries.cut import Subqueries
from headwater.plan.unions import unions_named
from headwater.rules.changes import Changed, changes_of
from headwater.rules.monomial import Monomial, Signed, sum_of
from sql.corpus import Query, difference, plain, read
from sql.tables import EVEN, ROWS, SCHEMAS

OLD = {name: from_python(SCHEMAS[name], rows) for name, rows in EVEN.items()}
NEW = {name: from_python(SCHEMAS[name], rows) for name, rows in ROWS.items()}


class Names:
    """Answers that were given names, each over those before it."""

    def __init__(self) -> None:
        self.answers: dict[str, Term] = {}

    def name(self, answer: Term) -> Term:
        t = type_of(answer)
        assert isinstance(t, MapType)
        found = Rel(f"answer {len(self.answers)}", t)
        self.answers[found.name] = answer
        return found

    def inputs(self, database: dict[str, Any]) -> dict[str, Any]:
        """A database with the answers in it."""
        out = dict(database)
        for name, answer in self.answers.items():
            out[name] = interpret(answer, out)
        return out

    def monomials(self, term: Term) -> Signed:
        return Subqueries(self.name).monomials(term)


def renamed(term: Term, names: Names) -> Term:
    return canonical(term)


def with_named_unions(term: Term, names: Names) -> Term:
    return unions_named(term, names.name)


def with_joined_subqueries(term: Term, names: Names) -> Term:
    return sum_of(names.monomials(term), type_of(term))


def with_split_disjunctions(term: Term, names: Names) -> Term:
    return sum_of(joins(names.monomials(term)), type_of(term))


def with_sorted_products(term: Term, names: Names) -> Term:
    found = [(s, Monomial((), (), sorted_monomial(m))) for s, m in names.monomials(term)]
    return sum_of(found, type_of(term))


Pass = Callable[[Term, Names], Term]
PASSES: list[Pass] = [
    renamed,
    with_named_unions,
    with_joined_subqueries,
    with_split_disjunctions,
    with_sorted_products,
]


def same(found: Any, wanted: Any) -> bool:
    """Equal, doubles up to rounding."""
    return found == wanted or difference(plain(found), plain(wanted)) == ([], [])


QUERIES = [
    pytest.param(q, id=q.id, marks=[] if i % 4 == 0 else [pytest.mark.slow])
    for i, q in enumerate(read())
]
"""The corpus, of which a quarter is not slow."""


@pytest.mark.parametrize("one", PASSES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("query", QUERIES)
def test_a_pass_keeps_the_meaning(query: Query, one: Pass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unions, "MOST", 1)
    term, names = read_sql(query.spark, SCHEMAS), Names()
    try:
        made = one(term, names)
    except NotIncremental:
        pytest.skip("the pass refuses it by name")
    assert type_of(made) == type_of(term)
    assert same(interpret(made, names.inputs(NEW)), interpret(term, NEW))


@pytest.mark.parametrize("one_by_one", [False, True], ids=["all at once", "one by one"])
@pytest.mark.parametrize("query", QUERIES)
def test_changes_of_products_are_their_delta(query: Query, one_by_one: bool) -> None:
    """m[new] - m[old] = the sum of `changes_of`, with the new version read as R + ΔR."""
    names = Names()
    try:
        found = names.monomials(read_sql(query.spark, SCHEMAS))
    except NotIncremental:
        pytest.skip("the pass refuses it by name")
    old, new = names.inputs(OLD), names.inputs(NEW)
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
