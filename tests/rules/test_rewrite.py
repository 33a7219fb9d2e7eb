"""The rewriting driver: which rules are tried on a node, and that a term that no rule applies to is looked at once."""

from __future__ import annotations

import ast
import inspect

import pytest

from headwater.calculus.terms import Add, Neg, Num, Term, Times
from headwater.calculus.types import INT
from headwater.errors import RewriteDiverges
from headwater.plan.nested.opening import OPENED
from headwater.rules.rewrite import Rule, Step, heads, rewrite, rules_for
from headwater.rules.simplify import add_flatten, neg_neg

ONE, TWO = Num(1, INT), Num(2, INT)


def test_rules_are_tried_on_the_nodes_that_their_argument_is() -> None:
    rules = (add_flatten, neg_neg)
    assert rules_for(rules, Add) == (add_flatten,)
    assert rules_for(rules, Neg) == (neg_neg,)
    assert rules_for(rules, Num) == ()


@pytest.mark.parametrize("rule", OPENED, ids=lambda r: r.__name__)
def test_the_argument_of_a_rule_is_what_it_matches(rule: Rule) -> None:
    """A rule whose cases are of one kind of node and whose argument is of another would never fire."""
    (function,) = ast.parse(inspect.getsource(rule)).body
    assert isinstance(function, ast.FunctionDef)
    cases = [s for s in function.body if isinstance(s, ast.Match)][:1]
    patterns = [c.pattern for m in cases for c in m.cases if ast.unparse(m.subject) == "term"]
    names = {ast.unparse(p.cls) for p in patterns if isinstance(p, ast.MatchClass)}
    assert names <= {h.__name__ for h in heads(rule)}


def test_a_rule_of_any_term_is_tried_on_all() -> None:
    seen: list[Term] = []

    def look(term: Term) -> Term | None:
        seen.append(term)
        return None

    term = Add((Neg(ONE), TWO))
    assert rewrite(term, (look,)) is term
    assert seen == [ONE, Neg(ONE), TWO, term]
    rewrite(Times((term, TWO)), (look,))
    assert seen[4:] == [Times((term, TWO))], "what is inside is known to stay as it is"


def test_what_stays_by_one_set_is_rewritten_by_another() -> None:
    term = Neg(Neg(ONE))
    assert rewrite(term, (add_flatten,)) is term
    assert rewrite(term, (add_flatten, neg_neg)) == ONE
    assert rewrite(term, (add_flatten,)) is term


def test_a_step_is_traced_each_time() -> None:
    term = Neg(Neg(TWO))
    for _ in range(2):
        trace: list[Step] = []
        assert rewrite(term, (neg_neg,), trace=trace) == TWO
        assert [s.rule for s in trace] == ["neg_neg"]


def test_a_set_that_never_ends_is_named() -> None:
    def swapped(term: Add) -> Term | None:
        return Add(term.terms[::-1])

    with pytest.raises(RewriteDiverges, match="swapped"):
        rewrite(Add((ONE, TWO)), (swapped,), fuel=50)
