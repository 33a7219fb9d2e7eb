"""Scalars that may fail, as counts that are maintained: the answer is an error when one of them is not zero.

While several inputs change, a delta pairs rows that are never there together: a new row with an old total of zero.
What such pairs give cancels in the end, but a failure among them would be raised at once. So

    a / b           becomes   a / nullif(b, 0),   and [b = 0] is counted beside
    py_present(a)   becomes   a,                  and [a is null] is counted beside
    cast(a, t)      becomes   try_cast(a, t),     and [a is not null, and that is] is counted beside

wherever rows are joined. The count is linear like everything else, what is transient cancels in it as well, and a
row that fails for good leaves it above zero. A guard guards: what stands behind `case`, `and`, `or` or `coalesce`
fails only where it is evaluated, and filters that cannot fail come first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Add,
    Answer,
    Box,
    Call,
    Const,
    Each,
    For,
    Let,
    Not,
    Num,
    Pred,
    Rel,
    Repeat,
    Term,
    Times,
    children,
    rebuild,
    subterms,
)
from headwater.calculus.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    INTEGRAL,
    STRING,
    Base,
    Type,
    is_key,
    is_numeric,
)
from headwater.rules.monomial import Monomial, summands
from headwater.rules.normalize import normalize
from headwater.rules.present import impossible

DIVIDING = ("/", "%", "div", "py_floordiv", "py_mod")
ONE, FALSE = Num(1, INT), Const(False, BOOLEAN)
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
    return any(map(is_risky, _evaluated(term)))


def hides(term: Term) -> bool:
    """Whether something may fail inside of the subqueries of a term, which are rows that are joined as well."""
    return any(raises(q) for t in _evaluated(term) for q in _subqueries(t))


def lenient(m: Monomial) -> Monomial:
    """The monomial with NULL where something fails."""
    return Monomial(m.atoms, tuple(map(forgiving, m.factors)), forgiving(m.output))


def failing(m: Monomial, kind: str) -> list[Monomial]:
    """How many rows fail in a way: those that pass the filters before the one that fails, or all of them."""
    out = []
    passed: tuple[Term, ...] = ()
    for f in (*sorted(m.factors, key=raises), m.output):
        for n in _inside(f, kind):
            found = Monomial((*m.atoms, *n.atoms), (*passed, *n.factors), ONE)
            if not impossible(found):
                out.append(found)
        if isinstance(f, Pred | Not):
            passed = (*passed, forgiving(f))
    return out


def _inside(factor: Term, kind: str) -> list[Monomial]:
    """How often a factor fails for one row; of ¬q the rows that are looked for."""
    if isinstance(factor, Not):
        return faults(factor.term, kind)
    test = fails(factor, kind)
    return [] if test is None else [Monomial((), (Pred(test),), ONE)]


def faults(query: Term, kind: str) -> list[Monomial]:
    """How many rows of a query fail."""
    return [f for _, m in summands(normalize(query)) for f in failing(m, kind)]


def _subqueries(term: Term) -> list[Term]:
    """The queries whose rows a factor or scalar looks for or adds up."""
    match term:
        case Not(q):
            return [q]
        case Let(_, q, _) | Box(q) | Answer(_, _, q) if is_key(type_of(term)):
            rows = any(isinstance(t, For | Rel) for t in subterms(q))
            return [q] if rows and not is_key(type_of(q)) else []
    return []


def _evaluated(term: Term) -> Iterator[Term]:
    """A term and its parts; not groups and their answers, nor loops, which fail by themselves."""
    yield term
    if not _is_answer(term):
        for c in children(term):
            yield from _evaluated(c)


def _is_answer(term: Term) -> bool:
    return isinstance(term, Each | Repeat) or (isinstance(term, Let) and not is_key(type_of(term)))


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
                zero = Call("and", (Call("is_not_null", (forgiving(a),)), zero))
            return _any([fails(a, kind), fails(b, kind), zero])
        case Call("py_present", (a, *_)) if kind == EMPTY:
            return _any([fails(a, kind), Call("is_null", (forgiving(a),))])
        case Call("cast", (a,), t) if kind == CASTS and _may_not_fit(a, t):
            given, made = forgiving(a), forgiving(term)
            lost = Call("and", (Call("is_not_null", (given,)), Call("is_null", (made,))))
            return _any([fails(a, kind), lost])
        case Times(factors):
            ordered = sorted(factors, key=lambda f: (not isinstance(f, Pred), raises(f)))
            return _fails_until(ordered, _ends_product, kind)
        case Let(v, q, body) if _subqueries(term):
            inner = fails(body, kind)
            shown = None if inner is None else Let(v, forgiving(q), inner)
            return _any([_some(faults(q, kind)), shown])
        case Not(q) | Box(q) | Answer(_, _, q) if _subqueries(term):
            return _some(faults(q, kind))
        case _ if _is_answer(term):
            return None
        case _:
            return _any([fails(c, kind) for c in children(term)])


def _some(counts: list[Monomial]) -> Term | None:
    """Whether one of some counts is above zero."""
    if not counts:
        return None
    terms = tuple(m.build(ONE) for m in counts)
    whole = terms[0] if len(terms) == 1 else Add(terms)
    return Call(">", (Box(whole), Const(0, BIGINT)))


def _ends_product(factor: Term) -> Term:
    return Call("not", (factor.condition,)) if isinstance(factor, Pred) else FALSE


def _fails_case(args: list[Term], kind: str) -> Term | None:
    """A branch fails only where those before it are not taken."""
    if len(args) == 1:
        return fails(args[0], kind)
    condition, value, *rest = args
    inner, later = fails(value, kind), _fails_case(rest, kind) if rest else None
    if inner is None and later is None:
        return fails(condition, kind)
    chosen = Call("case", (forgiving(condition), inner or FALSE, later or FALSE))
    return _any([fails(condition, kind), chosen])


def _fails_until(args: list[Term], ends: Callable[[Term], Term], kind: str) -> Term | None:
    """An operand fails only where none before it ends the evaluation."""
    first, *rest = args
    later = _fails_until(rest, ends, kind) if rest else None
    if later is None:
        return fails(first, kind)
    end = ends(forgiving(first))
    return _any([fails(first, kind), later if end == FALSE else Call("case", (end, FALSE, later))])


def _is_zero(divisor: Term) -> Term | None:
    match divisor:
        case Const(value) if value is None or value != 0:
            return None
        case Call("nullif", (_, Const(value))) if value == 0:
            return None
        case Call("cast", (inner,), _) if _is_zero(inner) is None:
            return None
    return Call("=", (forgiving(divisor), _zero(divisor)))


def _zero(divisor: Term) -> Const:
    t = type_of(divisor)
    assert is_key(t)
    return Const(0.0 if t in (FLOAT, DOUBLE) else 0, t)


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


def is_risky(term: Term) -> bool:
    """Whether a term is a call that may fail by itself."""
    match term:
        case Call(name, (_, b)) if name in DIVIDING:
            return _is_zero(b) is not None
        case Call("cast", (a,), t):
            return _may_not_fit(a, t)
        case _:
            return isinstance(term, Call) and term.function == "py_present"


def forgiving(term: Term) -> Term:
    """The term with NULL where something fails; groups and their answers stay, and loops."""
    if _is_answer(term):
        return term
    term = rebuild(term, tuple(forgiving(c) for c in children(term)))
    match term:
        case Call(name, (a, b)) if name in DIVIDING and _is_zero(b) is not None:
            return Call(name, (a, Call("nullif", (b, _zero(b)))), term.returns)
        case Call("py_present", (a, *_)):
            return a
        case Call("cast", (a,), t) if _may_not_fit(a, t):
            return Call("try_cast", (a,), t)
    return term
