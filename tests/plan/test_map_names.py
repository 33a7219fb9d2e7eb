"""The names of maps, which databases on disk have: whatever changes in the plan, these stay.

`map_names.txt` has some queries of the corpus, and what each is kept as. `--golden` writes it anew, which
says that databases of before find their maps no more; so it is for new queries alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.calculus.terms import Rel, Term
from headwater.calculus.types import MapType, RecordType, bag, has_box
from headwater.errors import NotIncremental
from headwater.language.sql import read_sql
from headwater.plan.compiler import Compiler
from headwater.plan.nested.opening import as_lists
from headwater.plan.nested.ownership import Owned
from headwater.plan.nested.sources import owned_by, rows_of, source_parts
from headwater.plan.program import Program, Relations
from sql.corpus import Query, read
from sql.tables import SCHEMAS

GOLDEN = Path(__file__).parent / "map_names.txt"
EVERY = 13
"""One of so many queries of the corpus, and all that build or read arrays."""


def chosen() -> list[Query]:
    return [q for i, q in enumerate(read()) if i % EVERY == 0 or q.file in ("nested", "lateral")]


def compiler(keyed: bool) -> Compiler:
    """A compiler over the tables of the corpus, of which the nested one may have a key."""
    rows: dict[str, RecordType] = {}
    inputs: dict[Rel, Term] = {}
    owned: Owned = {}
    for name, t in SCHEMAS.items():
        assert isinstance(t, MapType) and isinstance(t.key, RecordType)
        if keyed and name == "nested":
            parts = source_parts(name, t.key, ["id"])
            rows |= {p.name: p.row for p in parts}
            inputs[Rel(name, t)] = rows_of(parts)
            owned = owned_by(parts)
        else:
            rows[name] = t.key
    for name, row in rows.items():
        if has_box(row) and not keyed:
            inputs[Rel(name, bag(row))] = Rel(name, bag(as_lists(row)))
    levels = dict.fromkeys(rows, 0)
    return Compiler(Program(relations=Relations(rows, levels)), inputs, owned)


def names(query: Query) -> Iterator[str]:
    """What a query is kept as: by each strategy, and with the arrays of its source as rows of their own."""
    term = read_sql(query.spark, SCHEMAS)
    ways = [("recursive", False), ("first-order", False)]
    if "nested" in query.spark:
        ways.append(("recursive", True))
    for strategy, keyed in ways:
        made = compiler(keyed)
        try:
            made.view("v", term, strategy)
            kept = " ".join(sorted([*made.program.maps, *made.program.strata]))
        except NotIncremental as e:
            kept = f"refused: {e.reason}"
        yield f"{query.id} {strategy}{' keyed' if keyed else ''}: {kept}"


def test_the_names_of_maps_stay(pytestconfig: pytest.Config) -> None:
    found = [line for query in chosen() for line in names(query)]
    if pytestconfig.getoption("--golden"):
        GOLDEN.write_text("\n".join(found) + "\n", encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8").splitlines()
