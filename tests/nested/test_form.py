"""What the rows of a view are kept as, flat, nested or whole, and why: decided from the term, and written down."""

from __future__ import annotations

import pytest

from headwater.calculus.terms import Rel
from headwater.calculus.types import RecordType, bag, has_box
from headwater.errors import NotIncremental
from headwater.language.schema import schemas
from headwater.language.sql import read_sql
from headwater.plan.compiler import Compiler
from headwater.plan.nested.form import Form
from headwater.plan.nested.opening import as_lists
from headwater.plan.program import Program, Relations

SCHEMAS = schemas("plain(k BIGINT, tags ARRAY<STRING>); c(k BIGINT, name STRING)")
GROUPED = "(SELECT k, collect_list(name) AS t FROM c GROUP BY k)"
FORMS = [
    ("SELECT k, name FROM c", "flat", "no row has an array"),
    ("SELECT DISTINCT tags FROM plain", "flat", "no row has an array"),
    (f"SELECT g.k, n FROM {GROUPED} g LATERAL VIEW explode(g.t) AS n", "flat", "no row has"),
    ("SELECT k, collect_list(name) AS t FROM c GROUP BY k", "nested", "rows of their own: t"),
    (
        f"SELECT p.k FROM plain p JOIN {GROUPED} g ON p.tags = g.t",
        "whole",
        "compared with one that is built",
    ),
    (
        f"SELECT tags FROM plain UNION SELECT t FROM {GROUPED}",
        "whole",
        "UNION compares the contents",
    ),
]


def compiled(sql: str) -> Compiler:
    rows = {n: t.key for n, t in SCHEMAS.items() if isinstance(t.key, RecordType)}
    inputs = {Rel(n, bag(t)): Rel(n, bag(as_lists(t))) for n, t in rows.items() if has_box(t)}
    known = Program(relations=Relations(rows, dict.fromkeys(rows, 0)))
    made = Compiler(known, inputs)
    made.view("v", read_sql(sql, SCHEMAS), "recursive")
    return made


@pytest.mark.parametrize(("sql", "kind", "why"), FORMS)
def test_the_form_and_its_reason(sql: str, kind: str, why: str) -> None:
    made = compiled(sql)
    assert isinstance(made.form, Form)
    assert made.form.kind == kind
    assert why in made.form.why
    assert bool(made.form.parts) == (kind == "nested")


def test_an_array_that_a_scalar_subquery_gives_is_refused() -> None:
    with pytest.raises(NotIncremental, match="gives an array of another row"):
        compiled("SELECT k, (SELECT tags FROM plain p WHERE p.k = c.k) AS t FROM c")


def test_passes_are_written_down_in_their_order() -> None:
    made = compiled("SELECT name FROM c WHERE EXISTS (SELECT 1 FROM plain p WHERE p.k = c.k)")
    names = [p.name for p in made.passed if p.of == "v"]
    assert names == ["rename variables", "cut answers", "join subqueries"]
