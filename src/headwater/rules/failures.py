"""Scalars that may fail, as counts that are maintained: the answer is an error when one of them is not zero.

While several inputs change, a delta pairs rows that are never there together: a new row with an old total of zero.
What such pairs give cancels in the end, but a failure among them would be raised at once. So

    a / b           becomes   case b = 0 then NULL else a / b,   and [b = 0] is counted beside
    py_present(a)   becomes   a,                                 and [a is null] is counted beside
    cast(a, t)      becomes   try_cast(a, t),                    and [a is not null, and that is] is counted beside

wherever rows are joined. The count is linear like everything else, what is transient cancels in it as well, and a
row that fails for good leaves it above zero. A guard guards: what stands behind `case`, `and`, `or` or `coalesce`
fails only where it is evaluated, and filters that cannot fail come first.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from headwater.calculus.check import type_of
from headwater.calculus.terms import Call, Const, Num, Pred, Record, Sng, Term, children, rebuild
from headwater.calculus.types import (
    BINARY,
    BOOLEAN,
    INT,
    INTEGRAL,
    STRING,
    Base,
    Type,
    is_key,
    is_numeric,
)
from headwater.rules.monoid import Monomial

DIVIDING = ("/", "%", "div", "py_floordiv", "py_mod")
FALSE = Const(False, BOOLEAN)
DIVIDES, EMPTY = "rows that divide by zero", "rows with the min or max of nothing"
CASTS = "rows with a value that has no form in the type it is cast to"
KINDS = (DIVIDES, EMPTY, CASTS)
"""What may go wrong; each is counted by itself, so that the error says what it was."""
DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def may_fail(m: Monomial) -> bool:
    """Whether a monomial evaluates something that may fail, over rows that are joined."""
    return len(m.atoms) > 1 and any(raises(t) for t in (*m.factors, m.output))


def raises(term: Term) -> bool:
    """Whether evaluating a term may fail."""
    return any(fails(term, kind) is not None for kind in KINDS)


def lenient(m: Monomial) -> Monomial:
    """The monomial with NULL where something fails."""
    return Monomial(m.atoms, tuple(map(_lenient, m.factors)), _lenient(m.output))


def failing(m: Monomial, kind: str) -> list[Monomial]:
    """How many rows fail in a way: those that pass the filters before the one that fails, or all of them."""
    out = []
    passed: list[Term] = []
    for f in sorted(m.factors, key=raises):
        test = fails(f, kind)
        if test is not None:
            out.append(_counted(m, [*passed, Pred(test)]))
        passed.append(_lenient(f))
    test = fails(m.output, kind)
    if test is not None:
        out.append(_counted(m, [*passed, Pred(test)]))
    return out


def _counted(m: Monomial, factors: list[Term]) -> Monomial:
    conditions = tuple(f for f in factors if isinstance(f, Pred))
    return Monomial(m.atoms, conditions, Sng(Record(()), Record((("r0", Num(1, INT)),))))


def fails(term: Term, kind: str = DIVIDES) -> Term | None:
    """The condition under which evaluating a term fails in a way; None if it never does."""
    match term:
        case Call("case", args):
            return _fails_case(list(args), kind)
        case Call("and", args):
            return _fails_until(list(args), lambda a: Call("not", (a,)), kind)
        case Call("or", args):
            return _fails_until(list(args), lambda a: a, kind)
        case Call("coalesce", args):
            return _fails_until(list(args), lambda a: Call("is_not_null", (a,)), kind)
        case Call(name, (a, b)) if name in DIVIDING and kind == DIVIDES:
            zero = _is_zero(b)
            if zero is not None and not isinstance(a, Const):  # NULL divided by anything is NULL
                zero = Call("and", (Call("is_not_null", (_lenient(a),)), zero))
            return _any([fails(a, kind), fails(b, kind), zero])
        case Call("py_present", (a, *_)) if kind == EMPTY:
            return _any([fails(a, kind), Call("is_null", (_lenient(a),))])
        case Call("cast", (a,), t) if kind == CASTS and _may_not_fit(a, t):
            given, made = _lenient(a), _lenient(term)
            lost = Call("and", (Call("is_not_null", (given,)), Call("is_null", (made,))))
            return _any([fails(a, kind), lost])
        case _:
            return _any([fails(c, kind) for c in children(term)])


def _fails_case(args: list[Term], kind: str) -> Term | None:
    """A branch fails only where those before it are not taken."""
    if len(args) == 1:
        return fails(args[0], kind)
    condition, value, *rest = args
    inner, later = fails(value, kind), _fails_case(rest, kind) if rest else None
    if inner is None and later is None:
        return fails(condition, kind)
    chosen = Call("case", (_lenient(condition), inner or FALSE, later or FALSE))
    return _any([fails(condition, kind), chosen])


def _fails_until(args: list[Term], ends: Callable[[Term], Term], kind: str) -> Term | None:
    """An operand fails only where none before it ends the evaluation."""
    first, *rest = args
    later = _fails_until(rest, ends, kind) if rest else None
    if later is None:
        return fails(first, kind)
    return _any([fails(first, kind), Call("case", (ends(_lenient(first)), FALSE, later))])


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
    return Call("=", (_lenient(divisor), Const(zero, t)))


def _may_not_fit(term: Term, target: Type | None) -> bool:
    """Whether a cast may fail: of text, and to a number with fewer digits before its point."""
    source = type_of(term)
    if not (isinstance(source, Base) and isinstance(target, Base)):
        return False
    if source == STRING:
        return target not in (STRING, BINARY)
    if not (is_numeric(source) and is_numeric(target)):
        return False
    rounded = source.scale > target.scale  # 99.9 has two digits, and three without its place
    return _digits(source) + rounded > _digits(target) - (target.name in INTEGRAL)


def _digits(t: Base) -> float:
    """How many digits a number may have before its point; of the last one an integer has not all."""
    return t.precision - t.scale if t.name == "decimal" else DIGITS.get(t.name, math.inf)


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
        case Call("py_present", (a, *_)):
            return a
        case Call("cast", (a,), t) if _may_not_fit(a, t):
            return Call("try_cast", (a,), t)
    return term
