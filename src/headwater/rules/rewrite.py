"""The one rewriting driver: bottom up, to a fixpoint, memoised, with fuel.

A rule is a function from a term to a term, or to None where it does not apply; a rule set is a tuple
in reading order. Every step keeps the type, which is asserted, and is recorded as (rule, before,
after), so that a trace of a rewriting costs nothing more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headwater.calculus.check import type_of
from headwater.calculus.terms import Term, children, rebuild
from headwater.errors import RewriteDiverges

Rule = Callable[[Term], Term | None]


class Step(NamedTuple):
    """One application of a rule."""

    rule: str
    before: Term
    after: Term


def rewrite(
    term: Term, rules: Sequence[Rule], fuel: int = 20_000, trace: list[Step] | None = None
) -> Term:
    """The term with the rules applied wherever they can be; the same object if none applies."""
    steps: list[Step] = [] if trace is None else trace
    known: dict[Term, Term] = {}

    def visit(t: Term) -> Term:
        if t in known:
            out = known[t]
            return t if out == t else out  # an equal term stays the object that it is
        new: Term | None = t
        while new is not None:
            out = rebuild(new, tuple(visit(c) for c in children(new)))
            new = step(out)
        known[t] = known[out] = out
        return t if out == t else out

    def step(before: Term) -> Term | None:
        for rule in rules:
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
