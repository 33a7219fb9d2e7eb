"""The one rewriting driver: bottom up, to a fixpoint, memoised, with fuel.

A rule is a function from a term to a term, or to None where it does not apply; the type of its argument says which
nodes it is tried on, `Term` if all. A rule set is a tuple in reading order. Every step keeps the type, which is asserted, and is recorded as (rule, before,
after), so that a trace of a rewriting costs nothing more.

That no rule of a set applies to a term is a fact of the term: it is noted at the node, as its type is, and such a term
is not looked at again. So a rule reads nothing but its term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

from headwater.calculus.check import type_of
from headwater.calculus.terms import Term, children, rebuild
from headwater.errors import RewriteDiverges

Rule = Callable[[Any], Term | None]


class Step(NamedTuple):
    """One application of a rule."""

    rule: str
    before: Term
    after: Term


@cache
def rules_for(rules: tuple[Rule, ...], kind: type) -> tuple[Rule, ...]:
    """The rules of a set that are tried on a kind of node."""
    return tuple(r for r in rules if issubclass(kind, heads(r)))


@cache
def heads(rule: Rule) -> tuple[type, ...]:
    """The kinds of nodes that a rule is about: the type of its argument."""
    hint = next(iter(get_type_hints(rule).values()))
    return get_args(hint) or (hint,)


def rewrite(
    term: Term, rules: Sequence[Rule], fuel: int = 20_000, trace: list[Step] | None = None
) -> Term:
    """The term with the rules applied wherever they can be; the same object if none applies."""
    steps: list[Step] = [] if trace is None else trace
    known: dict[Term, Term] = {}
    rules = tuple(rules)
    tried: dict[type, tuple[Rule, ...]] = {}

    def visit(t: Term) -> Term:
        if rules in getattr(t, "_normal_by", ()):
            return t
        if t in known:
            out = known[t]
            return t if out == t else out  # an equal term stays the object that it is
        new: Term | None = t
        while new is not None:
            out = rebuild(new, tuple([visit(c) for c in children(new)]))
            new = step(out)
        out = t if out == t else out
        known[t] = known[out] = out
        normal_by = getattr(out, "_normal_by", ())
        if rules not in normal_by:
            object.__setattr__(out, "_normal_by", (*normal_by, rules))
        return out

    def step(before: Term) -> Term | None:
        kind: type = type(before)
        if kind not in tried:
            tried[kind] = rules_for(rules, kind)
        for rule in tried[kind]:
            after = rule(before)
            if after is not None:
                assert type_of(after) == type_of(before), (
                    f"{rule.__name__} changed a type: {before}"
                )
                steps.append(Step(rule.__name__, before, after))
                if len(steps) > fuel:
                    firing = Counter(s.rule for s in steps[-100:]).most_common(3)
                    names = ", ".join(name for name, _ in firing)
                    raise RewriteDiverges(f"no fixpoint after {fuel} steps; still firing: {names}")
                return after
        return None

    return visit(term)
