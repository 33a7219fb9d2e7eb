"""Random SQL under every law: DuckDB's answer, normal form, delta, state and answer, shredding.

A case is a few tables, a change to them and a query, from `random_sql`. A failure shows what to give to
DuckDB to see the expected answer, the same query for Spark and Headwater, and the rows that differ.
`make fuzz` runs many; an ordinary run draws few, for a case is large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, assume, event, given, settings

from headwater.calculus import ring
from headwater.calculus.check import check, type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import RingMap, Value
from headwater.calculus.terms import Term, change_name
from headwater.calculus.types import MapType
from headwater.errors import NotShreddable
from headwater.language.schema import schemas
from headwater.language.sql import read_sql
from headwater.plan.nested.shred import Labeller, evaluate, map_context, nest, shred, shred_value
from headwater.rules.delta import delta
from headwater.rules.normalize import normalize
from headwater.theory.split import split, trace_lineage
from random_sql_tables import Case, Rows, case
from sql.corpus import difference, plain
from strategies import drawn

pytestmark = pytest.mark.property

PROFILE = settings.default
assert PROFILE is not None
FEW = 60 if PROFILE is settings.get_profile("default") else PROFILE.max_examples
ordinary = settings(
    PROFILE,
    max_examples=FEW,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
fewer = settings(ordinary, max_examples=FEW // 3)
"""For the law that takes as long as all others together."""
REFUSALS = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
CONNECTION = duckdb.connect(":memory:", config={"threads": 1})


class Read:
    """A case with its query read, and its tables as values before and after the change."""

    def __init__(self, drawn_case: Case):
        self.case = drawn_case
        self.types: dict[str, MapType] = schemas(drawn_case.schema)
        self.term: Term = read_sql(drawn_case.query.spark, self.types)
        self.old, self.new = self._values(drawn_case.old), self._values(drawn_case.new)
        self.changes: dict[str, Value] = {
            change_name(n): ring.add(self.new[n], ring.neg(v)) for n, v in self.old.items()
        }
        self.before: RingMap = interpret(self.term, self.old)
        self.after: RingMap = interpret(self.term, self.new)

    def _values(self, rows: Mapping[str, Rows]) -> dict[str, Value]:
        return {n: from_python(t, rows[n]) for n, t in self.types.items()}

    def same(self, what: str, found: RingMap, expected: RingMap) -> None:
        """Two bags are equal; what is left may differ in the last digits of a double only."""
        rest = ring.add(found, ring.neg(expected))
        extra = RingMap({row: n for row, n in rest.items() if n > 0})
        missing = RingMap({row: -n for row, n in rest.items() if n < 0})
        self.no_difference(what, self.case.old, *difference(plain(extra), plain(missing)))

    def no_difference(
        self, what: str, rows: Mapping[str, Rows], missing: list[Any], extra: list[Any]
    ) -> None:
        if missing or extra:
            raise AssertionError("\n".join(script(self.case, what, rows, missing, extra)))


def script(
    failed: Case, what: str, rows: Mapping[str, Rows], missing: list[Any], extra: list[Any]
) -> Iterable[str]:
    """A failure as a script for DuckDB; what is not for DuckDB is a comment."""
    yield f"-- {what}\n-- schemas: {failed.schema}"
    yield from (f"{statement};" for statement in failed.statements(rows))
    yield f"{failed.query.duckdb};"
    yield f"-- Spark: {failed.query.spark}"
    if rows is failed.old:
        yield from (f"-- after: {s};" for s in failed.statements(failed.new) if rows != failed.new)
    yield from (f"-- missing {row}" for row in missing)
    yield from (f"-- extra   {row}" for row in extra)


def answered(asked: Case, rows: Mapping[str, Rows]) -> list[Any]:
    """DuckDB's answer; a case on which DuckDB breaks, and does not refuse the text, says nothing."""
    for statement in asked.statements(rows):
        CONNECTION.execute(statement)
    try:
        return list(plain(CONNECTION.execute(asked.query.duckdb).fetchall()))
    except REFUSALS as error:
        what = str(error).replace("\n", "\n-- ")
        raise AssertionError("\n".join(script(asked, what, rows, [], []))) from error
    except duckdb.Error:  # 2.0 has internal errors with greatest, coalesce and nested subqueries
        assume(False)


@ordinary
@given(drawn(case))
def test_answer(drawn_case: Case) -> None:
    """interpret(read_sql(q)) = DuckDB's answer, before and after the change, and so in normal form."""
    read = Read(drawn_case)
    event(f"{min(len(read.before), 3)} rows")
    sides = ((drawn_case.old, read.old, read.before), (drawn_case.new, read.new, read.after))
    for rows, values, found in sides:
        expected = answered(drawn_case, rows)
        read.no_difference("the answer", rows, *difference(plain(found), expected))
        assert all(n > 0 for n in found.values())
        normal = normalize(read.term)
        check(normal)
        assert type_of(normal) == type_of(read.term)
        read.same("normal form", interpret(normal, values), found)


@fewer
@given(drawn(case))
def test_delta(drawn_case: Case) -> None:
    """q[R + ΔR] = q[R] + delta(q)[R, ΔR], of the query and of its normal form."""
    read = Read(drawn_case)
    for term in (read.term, normalize(read.term)):
        d = delta(term, read.types)
        check(d)
        assert type_of(d) == type_of(term)
        change = interpret(d, {**read.old, **read.changes})
        read.same("delta", ring.add(read.before, change), read.after)
        change = interpret(normalize(d), {**read.old, **read.changes})
        read.same("normal form of the delta", ring.add(read.before, change), read.after)


@ordinary
@given(drawn(case))
def test_split(drawn_case: Case) -> None:
    """a(h) = q, with and without lineage, on the states of the data before and after."""
    read = Read(drawn_case)
    whole = split(normalize(read.term))
    for what, parts in (("split", whole), ("lineage", trace_lineage(whole))):
        for values, expected in ((read.old, read.before), (read.new, read.after)):
            states = {s.var.name: interpret(s.term, values) for s in parts.states}
            read.same(what, interpret(parts.answer, values, states), expected)


@ordinary
@given(drawn(case))
def test_shred(drawn_case: Case) -> None:
    """nest(shred q) = q, and the shredded parts are maintained by their own deltas."""
    read = Read(drawn_case)
    try:
        shredded = shred(normalize(read.term))
    except NotShreddable:
        assume(False)
    label = Labeller()
    old: dict[str, Value] = {}
    changes: dict[str, Value] = {}
    for name, t in read.types.items():
        old |= shred_value(name, read.old[name], t, label)
        moved = shred_value(name, read.changes[change_name(name)], t, label)
        changes |= {change_name(n): v for n, v in moved.items()}
    flat, context = evaluate(shredded, old)
    read.same("nest of shred", nest(flat, context, shredded.type), read.before)

    def maintained(term: Term) -> Value:
        change = interpret(delta(term, set(old)), {**old, **changes})
        return ring.add(interpret(term, old), change)

    flat, context = maintained(shredded.flat), map_context(shredded.context, maintained)
    read.same("deltas of shredded parts", nest(flat, context, shredded.type), read.after)
