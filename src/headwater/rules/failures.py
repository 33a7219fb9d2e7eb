"""Divisions that may fail, as a count that is maintained: the answer is an error when it is not zero.

While several inputs change, a delta pairs rows that are never there together: a new row with an old total of zero.
What such pairs give cancels in the end, but a division by zero among them would be raised at once. So

    a / b   becomes   case b = 0 then NULL else a / b,   and [b = 0] is counted beside

wherever rows are joined. The count is linear like everything else, what is transient cancels in it as well, and a
row that divides by zero for good leaves it above zero.
"""

from __future__ import annotations

from headwater.calculus.check import type_of
from headwater.calculus.terms import Call, Const, Num, Pred, Record, Sng, Term, children, rebuild
from headwater.calculus.types import BOOLEAN, INT, is_key
from headwater.rules.monoid import Monomial

DIVIDING = ("/", "%", "div")
TRUE = Const(True, BOOLEAN)


def may_fail(m: Monomial) -> bool:
    """Whether a monomial divides by something that may be zero, over rows that are joined."""
    return len(m.atoms) > 1 and any(fails(t) is not None for t in (*m.factors, m.output))


def lenient(m: Monomial) -> Monomial:
    """The monomial with NULL where a division fails."""
    return Monomial(m.atoms, tuple(map(_lenient, m.factors)), _lenient(m.output))


def failing(m: Monomial) -> list[Monomial]:
    """How many rows divide by zero: those that pass the filters before the one that fails, or all of them."""
    out = []
    passed: list[Term] = []
    for f in sorted(m.factors, key=lambda f: fails(f) is not None):
        test = fails(f)
        if test is not None:
            out.append(_counted(m, [*passed, Pred(test)]))
        passed.append(_lenient(f))
    test = fails(m.output)
    if test is not None:
        out.append(_counted(m, [*passed, Pred(test)]))
    return out


def _counted(m: Monomial, factors: list[Term]) -> Monomial:
    conditions = tuple(f for f in factors if isinstance(f, Pred))
    return Monomial(m.atoms, conditions, Sng(Record(()), Record((("r0", Num(1, INT)),))))


def fails(term: Term) -> Term | None:
    """The condition under which evaluating a term divides by zero; None if it never does."""
    match term:
        case Call("case", args):
            return _fails_case(list(args))
        case Call(name, (a, b)) if name in DIVIDING:
            zero = _is_zero(b)
            if zero is not None and not isinstance(a, Const):  # NULL divided by anything is NULL
                zero = Call("and", (Call("is_not_null", (a,)), zero))
            return _any([fails(a), fails(b), zero])
        case _:
            return _any([fails(c) for c in children(term)])


def _fails_case(args: list[Term]) -> Term | None:
    """A branch fails only where those before it are not taken."""
    if len(args) == 1:
        return fails(args[0])
    condition, value, *rest = args
    false = Const(False, BOOLEAN)
    inner, later = fails(value), _fails_case(rest) if rest else None
    if inner is None and later is None:
        return fails(condition)
    chosen = Call("case", (condition, inner or false, later or false))
    return _any([fails(condition), chosen])


def _is_zero(divisor: Term) -> Term | None:
    match divisor:
        case Const(value) if value is None or value != 0:
            return None
        case Call("nullif", (_, Const(value))) if value == 0:
            return None
        case Call("cast", (inner,), _) if _is_zero(inner) is None:
            return None
    t = type_of(divisor)
    assert is_key(t)
    zero = 0.0 if getattr(t, "name", "") in ("float", "double") else 0
    return Call("=", (divisor, Const(zero, t)))


def _any(tests: list[Term | None]) -> Term | None:
    found = tuple(dict.fromkeys(t for t in tests if t is not None))
    if len(found) < 2:
        return found[0] if found else None
    return Call("or", found)


def _lenient(term: Term) -> Term:
    term = rebuild(term, tuple(_lenient(c) for c in children(term)))
    match term:
        case Call(name, (_, b)) if name in DIVIDING:
            zero = _is_zero(b)
            if zero is not None:
                return Call("case", (zero, Const(None, type_of(term)), term))
    return term
