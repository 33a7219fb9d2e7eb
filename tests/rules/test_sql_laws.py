"""Every query of the SQL corpus under the laws: normal form, delta in normal form, split, lineage, shredding."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.calculus import ring
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import change_name
from headwater.language.sql import read_sql
from headwater.plan.nested.shred import Labeller, evaluate, nest, shred, shred_value
from headwater.rules.delta import delta
from headwater.rules.normalize import normalize
from headwater.theory.split import split, trace_lineage
from sql.corpus import Query, difference, plain, read
from sql.tables import EVEN, ROWS, SCHEMAS

OLD = {name: from_python(SCHEMAS[name], rows) for name, rows in EVEN.items()}
NEW = {name: from_python(SCHEMAS[name], rows) for name, rows in ROWS.items()}
CHANGES = {change_name(n): ring.add(NEW[n], ring.neg(OLD[n])) for n in NEW}
LABELS = Labeller()
SHREDDED = {
    k: v for n, rows in NEW.items() for k, v in shred_value(n, rows, SCHEMAS[n], LABELS).items()
}


def same(found: Any, wanted: Any) -> bool:
    """Equal, doubles up to rounding."""
    return found == wanted or difference(plain(found), plain(wanted)) == ([], [])


@pytest.mark.parametrize("query", read(), ids=lambda q: q.id)
def test_laws(query: Query) -> None:
    term = read_sql(query.spark, SCHEMAS)
    normal, answer = normalize(term), interpret(term, NEW)
    assert same(interpret(normal, NEW), answer)

    change = interpret(normalize(delta(normal, SCHEMAS)), {**OLD, **CHANGES})
    assert same(ring.add(interpret(normal, OLD), change), answer)

    for whole in (split(normal), trace_lineage(split(normal))):
        states = {s.var.name: interpret(s.term, NEW) for s in whole.states}
        assert same(interpret(whole.answer, {}, states), answer)

    shredded = shred(normal)
    flat, context = evaluate(shredded, SHREDDED)
    assert same(nest(flat, context, shredded.type), answer)
