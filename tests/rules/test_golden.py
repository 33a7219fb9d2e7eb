"""Golden files of the rewrite rules: `golden/<rule>.case`, data that is checked twice.

The form of a file is that of `golden_files`: blocks of a comment, a term and what the rule makes of it at the root,
which is the term itself where the rule does not apply. The text of `after` is compared, and then the meaning: both terms
have one type, and one value on random databases. What only Spark knows has no value to compare. A term is read as a ring
value, or else as a key. `--golden` writes the lines `after` anew.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater.plan
import headwater.rules
from golden_files import Block, Golden, Rule, anything
from headwater.calculus import ring
from headwater.calculus.check import type_of
from headwater.calculus.interpret import interpret
from headwater.calculus.notation.text import show
from headwater.calculus.ring import LabelValue, Value
from headwater.calculus.terms import Dict, Term, relations, subterms, variables
from headwater.calculus.types import LABEL, FunType, Type
from headwater.errors import HeadwaterError, NotInterpretable, ParseError

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(FOLDER.glob("*.case"))
DATABASES = 20


def sets() -> dict[str, tuple[Rule, ...]]:
    """Every rule set of the package: a tuple with an upper case name, of functions from a term to a term or None."""
    found: dict[str, tuple[Rule, ...]] = {}
    for package in (headwater.rules, headwater.plan):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, given in vars(importlib.import_module(module.name)).items():
                if (
                    name.isupper()
                    and isinstance(given, tuple)
                    and given
                    and all(map(is_rule, given))
                ):
                    found[name] = given
    return found


def is_rule(given: Any) -> bool:
    """Whether something is a function that answers a new term or None."""
    if not inspect.isfunction(given):
        return False
    return inspect.signature(given).return_annotation == "Term | None"


def rules() -> dict[str, Rule]:
    """Every rule of every set, by its name."""
    return {rule.__name__: rule for found in sets().values() for rule in found}


RULES = rules()


# --- the meaning of a block ------------------------------------------------------------------------


def meaning(term: Term, database: dict[str, Value], scope: dict[str, Value]) -> Any:
    """The value of a term, or the kind of error that it is."""
    try:
        return interpret(term, database, scope)
    except HeadwaterError as e:
        return type(e)


def agree(t: Type, a: Any, b: Any, arguments: Callable[[Type], Value]) -> bool:
    """Whether two values are equal; functions are, as far as can be seen, if they are at some arguments."""
    if not isinstance(t, FunType) or isinstance(a, type) or isinstance(b, type):
        return bool(a == b)
    tried = [arguments(t.argument) for _ in range(10)]
    return all(agree(t.result, a(x), b(x), arguments) for x in tried)


def differs(before: Term, after: Term, seed: int, natural: bool = False) -> str | None:
    """How two terms differ on the random database with this number, in which counts may have to be natural."""
    pick = random.Random(seed).randrange
    leaves = sorted(relations(before) | relations(after), key=lambda r: r.name)
    database = {r.name: anything(r.type, pick) for r in leaves}
    if natural:
        database = {n: ring.collect((k, abs(c)) for k, c in v.items()) for n, v in database.items()}
    free = sorted(variables(before) | variables(after), key=lambda v: v.name)
    scope = {v.name: anything(v.type, pick) for v in free}
    dicts = [t for term in (before, after) for t in subterms(term) if isinstance(t, Dict)]

    def argument(t: Type) -> Value:
        if t == LABEL and dicts:
            d = dicts[pick(len(dicts))]
            return LabelValue(d.index, tuple(anything(p.type, pick) for p in d.params))
        return anything(t, pick)

    a, b = meaning(before, database, scope), meaning(after, database, scope)
    if a is NotInterpretable or agree(type_of(before), a, b, argument):
        return None
    return f"{a}\nbecame\n{b}\non {database} {scope or ''}"


def faults(rule: Rule, block: Block) -> Iterator[str]:
    """What is wrong with a block: the text, the type, the meaning."""
    new = rule(block.before)
    result = block.before if new is None else new
    if new is not None and new == block.before:
        yield "the rule fires and changes nothing, so rewriting would not end"
    if show(result) != block.after:
        yield f"after   {block.after}\nis now  {show(result)}"
    if type_of(result) != type_of(block.before):
        yield f"the type {type_of(block.before)} became {type_of(result)}"
    else:
        found = (differs(block.before, result, seed, block.natural) for seed in range(DATABASES))
        yield from [f"the meaning changed: {d}" for d in found if d][:1]


# --- the tests -------------------------------------------------------------------------------------


def test_the_rule_sets_are_found() -> None:
    assert {"SIMPLIFY", "NORMALIZE", "OPENED", "LOOKED_UP", "FUSE"} <= sets().keys()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_golden(path: Path, pytestconfig: pytest.Config) -> None:
    assert path.stem in RULES, f"no rule set has a rule named {path.stem}"
    rule, text = RULES[path.stem], path.read_text(encoding="utf-8")
    if pytestconfig.getoption("--golden"):
        text = Golden(text).rewritten(rule)
        path.write_text(text, encoding="utf-8")
    golden = Golden(text)
    wrong = [f"{path.name}:{b.line}: {fault}" for b in golden.blocks for fault in faults(rule, b)]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_a_case_where_it_fires_and_one_where_it_does_not(name: str) -> None:
    path = FOLDER / f"{name}.case"
    assert path.exists(), f"write {path.relative_to(FOLDER.parent.parent)}"
    fires = {
        RULES[name](b.before) is not None for b in Golden(path.read_text(encoding="utf-8")).blocks
    }
    assert fires == {True, False}


# --- the harness itself ----------------------------------------------------------------------------

SAMPLE = """inputs  r(a BIGINT, b BIGINT)
scope   x: {a: bigint}; f: (bigint => Int)

# a ring value
before  r + r
after   r

# a key, without its line `after`
before  {b: x.a}.b
"""


def test_a_golden_file_is_read() -> None:
    golden = Golden(SAMPLE)
    assert [(b.line, show(b.before), b.after) for b in golden.blocks] == [
        (5, "r + r", "r"),
        (9, "{b: x.a}.b", None),
    ]
    with pytest.raises(ParseError, match="unknown name `y`"):
        golden.read("r + y")
    with pytest.raises(ParseError, match="line 1"):
        Golden("befor r")


def test_a_golden_file_is_rewritten() -> None:
    rewritten = Golden(SAMPLE).rewritten(lambda t: None)
    assert rewritten == SAMPLE.replace("after   r\n", "after   r + r\n") + "after   {b: x.a}.b\n"
    assert Golden(rewritten).rewritten(lambda t: None) == rewritten


def test_a_wrong_rule_is_found() -> None:
    golden = Golden(SAMPLE)

    def found(before: str, after: str, text: str | None = None) -> list[str]:
        result = golden.read(after)
        block = Block(1, golden.read(before), after if text is None else text)
        return list(faults(lambda t: result, block))

    assert found("r + r", "2 · r") == []
    assert found("r + r", "2 · r", "r · 2") == ["after   r · 2\nis now  2 · r"]
    assert "the meaning changed" in found("r + r", "r")[0]
    assert "the type" in found("r + r", "1")[0]
    assert "would not end" in found("r", "r")[0]
    assert found("{{a: x.a}.a}", "{x.a}") == []
    assert found("fn y: bigint => f @ y", "f") == []
    assert "the meaning changed" in found("fn y: bigint => f @ y", "-f")[0]
    assert found("dict ℓ1(y: bigint) ↦ [y = y]", "dict ℓ1(y: bigint) ↦ [is_not_null(y)]") == []
    assert "the meaning changed" in found("{1 / x.a}", "{1 / 1}")[0]
