"""The golden file of failures: a query, the same with NULL where it fails, and the counts of its rows that fail.

Blocks are read as those of the rules are (see `golden_files`), and have more lines after `before`:

    before   for x in r collect {x.a / x.b}
    lenient  for x in r collect {x.a / nullif(x.b, 0)}
    fails    for x in r collect [is_not_null(x.a) and (x.b = 0)] · 1

The meaning is checked on random databases: `lenient` never fails; where all counts are zero it is the query; and the
query fails where one is not. `--golden` writes the lines anew.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from golden_files import Golden, anything
from headwater.calculus.interpret import interpret
from headwater.calculus.notation.text import show
from headwater.calculus.ring import RingMap, Value
from headwater.calculus.terms import Term, relations
from headwater.errors import ScalarError
from headwater.plan.failures import KINDS, failing, forgiving
from headwater.rules.monomial import summands
from headwater.rules.normalize import normalize

PATH = Path(__file__).parent / "failures.case"


def counts(term: Term) -> list[Term]:
    """How many rows of a query fail, in each way."""
    parts = [m for _, m in summands(normalize(term))]
    return [f.build(f.output) for way in KINDS for m in parts for f in failing(m, way)]


def shown(term: Term) -> list[str]:
    """The lines after a query."""
    return [
        f"lenient  {show(forgiving(term))}",
        *(f"fails    {show(c)}" for c in counts(term)),
    ]


def written(text: str) -> str:
    """The file with what is made of each query now."""
    kept = [x for x in text.splitlines() if not x.startswith(("lenient ", "fails "))]
    golden = Golden("\n".join(kept))
    for block in reversed(golden.blocks):
        kept[block.line : block.line] = shown(block.before)
    return "\n".join(kept) + "\n"


def test_text(pytestconfig: pytest.Config) -> None:
    text = PATH.read_text(encoding="utf-8")
    if pytestconfig.getoption("--golden"):
        PATH.write_text(written(text), encoding="utf-8")
    assert text == written(text), "run `make golden` and read the difference"


def queries(path: Path = PATH) -> list[Term]:
    kept = [x for x in path.read_text(encoding="utf-8").splitlines() if x.startswith(("i", "b"))]
    return [b.before for b in Golden("\n".join(kept)).blocks]


@pytest.mark.parametrize("term", queries(), ids=show)
def test_meaning(term: Term) -> None:
    failed = 0
    for seed in range(60):
        draw = random.Random(seed)
        leaves = sorted(relations(term), key=lambda r: r.name)
        drawn: dict[str, Value] = {r.name: anything(r.type, draw.randrange) for r in leaves}
        # Tables, not changes: of rows that are taken away as well the counts would cancel.
        database = {n: RingMap({row: abs(w) for row, w in t.items()}) for n, t in drawn.items()}
        lenient = interpret(forgiving(term), database)
        wrong = sum(interpret(c, database) for c in counts(term))
        failed += wrong > 0
        try:
            found = interpret(normalize(term), database)
        except ScalarError:
            # A filter may be evaluated before the one that guards it; what is shown never is.
            assert wrong or "] · [" in show(term)
        else:
            assert not wrong and found == lenient
    assert not failed or counts(term)
