"""Casts and constants: operands brought to one type, as Spark's ANSI mode does it."""

from __future__ import annotations

from decimal import Decimal

from headwater.calculus.check import type_of
from headwater.calculus.scalars import evaluate
from headwater.calculus.terms import Call, Const, Term
from headwater.calculus.types import INTEGRAL, VOID, Base, KeyType
from headwater.errors import ScalarError
from headwater.language.build import decimal_literal

_NUMBERS = {*INTEGRAL, "float", "double", "decimal"}
_MOMENTS = {"date", "timestamp", "timestamp_ntz"}


def can_cast(source: KeyType, target: KeyType) -> bool:
    """Whether Spark casts between two types in ANSI mode."""
    if source in (target, VOID):
        return True
    if not (isinstance(source, Base) and isinstance(target, Base)):
        return False
    a, b = source.name, target.name
    if "string" in (a, b):
        return "void" not in (a, b)
    numeric = {*_NUMBERS, "boolean"}
    return (a in numeric and b in numeric) or (a in _MOMENTS and b in _MOMENTS)


def case_of(conditions: list[Term], results: list[Term]) -> Term:
    """CASE WHEN c THEN r ... ELSE r END."""
    args: list[Term] = []
    for c, r in zip(conditions, results, strict=False):
        args += [c, r]
    return Call("case", (*args, results[-1]))


def cast_to(term: Term, target: KeyType) -> Term:
    """The term as a value of another type; a NULL literal just takes it."""
    t = type_of(term)
    if t == target:
        return term
    if t == VOID and isinstance(term, Const):
        return Const(None, target)
    if isinstance(term, Const) and term.value is not None and isinstance(target, Base):
        if isinstance(t, Base) and INTEGRAL.get(t.name, 99) <= INTEGRAL.get(target.name, 0):
            return Const(term.value, target)
    return Call("cast", (term,), target)


def folded(term: Term) -> Const | None:
    """A constant, or a cast of one that has a value, as a constant."""
    match term:
        case Const():
            return term
        case Call("cast", (Const(value, t),)):
            try:
                return Const(evaluate("cast", type_of(term), (t,), [value]), type_of(term))
            except ScalarError:
                return None
        case _:
            return None


def as_decimal_literal(term: Term) -> Term:
    """An integer constant beside a decimal counts with its own digits, not with its type's."""
    t = type_of(term)
    if (
        isinstance(term, Const)
        and isinstance(t, Base)
        and t.name in INTEGRAL
        and term.value is not None
    ):
        return decimal_literal(Decimal(term.value)) or term
    return term


def with_backslash(pattern: str, escape: str) -> str:
    """A LIKE pattern whose escape character is the backslash."""
    out, i = "", 0
    while i < len(pattern):
        escaped = pattern[i] == escape and i + 1 < len(pattern)
        i += escaped
        out += "\\" + pattern[i] if escaped or pattern[i] == "\\" else pattern[i]
        i += 1
    return out


def is_integral(t: KeyType) -> bool:
    """Whether a type is one of whole numbers."""
    return isinstance(t, Base) and t.name in INTEGRAL
