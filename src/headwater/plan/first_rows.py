"""Rows numbered and then filtered by their number: only the first rows of each partition are needed.

    for p in (each k ↦ v in m collect for x in window[](v) collect {r}) collect [p.n ≤ c] · s
  = for p in (each k ↦ v in m collect for x in window[c](v) collect {r}) collect [p.n ≤ c] · s

where p.n is row_number() and no other window looks at rows behind its own. So the first rows of a partition are kept
at a cost that does not depend on how many there are.
"""

from __future__ import annotations

from headwater.calculus.terms import (
    Answer,
    Call,
    Const,
    Each,
    Field,
    For,
    Pred,
    Record,
    Sng,
    Term,
    Var,
    children,
)
from headwater.calculus.windows import looks_back
from headwater.rules.monomial import Monomial, monomial
from headwater.rules.normalize import for_for, for_times, pred_and, times_for
from headwater.rules.rewrite import rewrite
from headwater.rules.simplify import field_of_record, for_singleton, times_flatten, times_one

FUSE = (for_for, for_singleton, for_times, times_for, times_flatten, times_one, field_of_record)


def numbers_windows(term: Term) -> bool:
    """Whether a comprehension reads the rows of windows somewhere; a fact of the term, noted at its nodes."""
    known: bool | None = getattr(term, "_windows", None)
    if known is None:
        known = isinstance(term, Answer) and term.function == "window"
        known = known or any([numbers_windows(c) for c in children(term)])
        object.__setattr__(term, "_windows", known)
    return known


def limited(term: For) -> Term:
    """The comprehension with a limit on the windows that it reads only the first rows of."""
    fused = rewrite(term, (*FUSE, pred_and))
    if not isinstance(fused, For):
        return fused
    m = monomial(fused)
    atoms = []
    for var, source in m.atoms:
        limit = _limit(var, source, list(m.factors))
        atoms.append((var, source if limit is None else _cut(source, limit)))
    return Monomial(tuple(atoms), m.factors, m.output).build(m.output)


def _limit(var: Var, source: Term, factors: list[Term]) -> int | None:
    """The greatest row number that filters let pass, if there is one."""
    match source:
        case Each(_, _, _, For(x, Answer("window", (_, windows, _, None)), Sng(Record(cells)))):
            pass
        case _:
            return None
    if not looks_back(windows):
        return None
    numbers = {
        Field(var, name)
        for name, cell in cells
        for i, w in enumerate(windows)
        if w.function == "row_number" and cell == Field(Field(x, "w"), f"w{i}")
    }
    found = [n for f in factors if isinstance(f, Pred) for n in _bounds(f.condition, numbers)]
    return max(0, min(found)) if found else None


def _bounds(condition: Term, numbers: set[Field]) -> list[int]:
    match condition:
        case Call("<=" | "=" | "<", (n, Const(int(c)))) if n in numbers:
            return [c - 1 if condition.function == "<" else c]
        case Call(">=" | "=" | ">", (Const(int(c)), n)) if n in numbers:
            return [c - 1 if condition.function == ">" else c]
    return []


def _cut(source: Term, limit: int) -> Term:
    match source:
        case Each(k, v, m, For(x, Answer(name, (directions, windows, names, _), bag), body)):
            answer = Answer(name, (directions, windows, names, limit), bag)
            return Each(k, v, m, For(x, answer, body))
    raise AssertionError(source)
