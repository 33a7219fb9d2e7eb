"""Calls in comprehensions: aggregates, casts, constants, methods of strings, registered functions.

A function is told by what its name stands for where the query is defined, not by the name: a `sum`
that hides Python's is not Python's. `any` and `all` are conditions, read in `expressions.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from headwater.calculus.check import type_of
from headwater.calculus.terms import Answer, Box, Call, Sum, Term, Unbox
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    DYADIC,
    FLOAT,
    STRING,
    VOID,
    Base,
    Type,
    is_numeric,
)
from headwater.errors import NotIncremental, TypeMismatch
from headwater.language.build import exactly
from headwater.language.comprehension.operators import (
    EMPTY,
    as_bag,
    common,
    constant,
    kind,
    numeric,
    product,
)
from headwater.language.comprehension.reading import MISSING, Expressions, Scope
from headwater.language.functions import Function

METHODS = {"upper": 0, "lower": 0, "strip": 0, "startswith": 1, "endswith": 1, "replace": 2}
"""Methods of strings, and how many arguments they are read with."""

REGISTER = "register a pure function of scalars with @function(returns=...)"
ADVICE = {
    "sorted": "a collection has no order; whoever reads the view can sort it",
    "reversed": "a collection has no order",
    "enumerate": "a collection has no order",
    "zip": "join two collections with two `for` and an `if`",
    "map": "write [f(x) for x in xs]",
    "filter": "write [x for x in xs if ...]",
    "round": "Python rounds halves to even and Spark does not; register a rounding with @function",
    "tuple": "write list(...) for a collection, (a, b) for a record",
    "dict": 'write {"name": value, ...}',
    "bool": "write the condition: x != 0, len(x) > 0, x is not None",
}


def read_call(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    """A call, by what the callee stands for."""
    callee = r.outside(e.func, scope)
    for known, read in CALLS:
        if known is callee:
            return read(r, e, scope)
    if isinstance(callee, Function):
        return _function(r, callee, e, scope)
    if callee is MISSING and isinstance(e.func, ast.Attribute):
        return _method(r, e, e.func, scope)
    shown = ast.unparse(e.func)
    hint = ADVICE.get(shown, REGISTER)
    if hasattr(callee, "inputs"):
        hint = "make that query a view, and take its result as an input"
    raise NotIncremental("UNKNOWN_FUNCTION", f"`{shown}` is not a function of queries", hint=hint)


def arguments(
    e: ast.Call, least: int, most: int | None, named: tuple[str, ...] = ()
) -> list[ast.expr]:
    """The positional arguments of a call, as many as the language has."""
    shown = ast.unparse(e.func)
    strange = [k.arg or "**" for k in e.keywords if k.arg not in named]
    if strange:
        raise NotIncremental("UNSUPPORTED_SYNTAX", f"`{shown}` is not read with `{strange[0]}=`")
    if len(e.args) < least or (most is not None and len(e.args) > most):
        upto = f"{least} to {most}" if most else f"at least {least}"
        wanted = str(least) if least == most else upto
        what = f"`{shown}` is read with {wanted} arguments, and here are {len(e.args)}"
        raise NotIncremental("UNSUPPORTED_SYNTAX", what)
    return e.args


def integer(e: ast.expr) -> int | None:
    """An integer constant, signed or not."""
    match e:
        case ast.Constant(value) if type(value) is int:
            return value
        case ast.UnaryOp(ast.USub(), operand):
            inner = integer(operand)
            return None if inner is None else -inner
        case _:
            return None


def _scalar(r: Expressions, e: ast.expr, scope: Scope) -> Term:
    term = r.key(e, scope)
    if not isinstance(t := type_of(term), Base):
        with r.source.at(e):
            raise TypeMismatch(f"a scalar is wanted here, and this is {kind(t)}")
    return term


# --- functions and methods -----------------------------------------------------------------------


def _function(r: Expressions, callee: Function, e: ast.Call, scope: Scope) -> Term:
    given = arguments(e, 0, None)
    if not callee.accepts(len(given)):
        raise TypeMismatch(f"`{callee.__name__}` does not take {len(given)} arguments")
    return Call(callee.__name__, tuple(_scalar(r, a, scope) for a in given), callee.returns)


def _method(r: Expressions, e: ast.Call, func: ast.Attribute, scope: Scope) -> Term:
    owner = r.term(func.value, scope)
    count = METHODS.get(func.attr)
    if type_of(owner) != STRING or count is None:
        what = f"{kind(type_of(owner))} has no method `{func.attr}` in queries"
        hint = f"methods of strings: {', '.join(METHODS)}; otherwise {REGISTER}"
        raise NotIncremental("UNKNOWN_FUNCTION", what, hint=hint)
    given = arguments(e, count, count)
    if func.attr == "replace" and not (isinstance(given[0], ast.Constant) and given[0].value):
        what = "`replace` takes a string constant that is not empty"
        raise NotIncremental("UNSUPPORTED_SYNTAX", what, hint=REGISTER)
    name = "py_strip" if func.attr == "strip" else func.attr
    return Call(name, (owner, *(_scalar(r, a, scope) for a in given)))


# --- aggregates ----------------------------------------------------------------------------------


def _sum(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    """sum(xs): 0 of nothing; of floats as `math.fsum`, the sum rounded once."""
    over, *start = arguments(e, 1, 2)

    def number(x: ast.expr, inner: Scope) -> Term:
        term = r.key(x, inner)
        if type_of(term) == BOOLEAN:  # True counts one
            return product(*r.factors(x, inner))
        if not is_numeric(type_of(term)):
            with r.source.at(x):
                raise TypeMismatch(f"`sum` adds numbers, not {kind(type_of(term))}")
        if isinstance(term, Answer) and term.function == "_sum":  # a sum of sums is rounded once
            return term.term
        return Unbox(exactly(term) if type_of(term) in (FLOAT, DOUBLE) else term)

    added = r.collect(over, scope, number)
    total = Answer("_sum", (), added) if type_of(added) == DYADIC else Box(added)
    return numeric("+", "+", total, _scalar(r, start[0], scope)) if start else total


def _len(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    (over,) = arguments(e, 1, 1)
    term = r.term(over, scope)
    return Call("length", (term,)) if type_of(term) == STRING else Box(Sum(as_bag(term)))


def _min(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    return _extreme(r, e, scope, "min", "least")


def _max(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    return _extreme(r, e, scope, "max", "greatest")


def _extreme(r: Expressions, e: ast.Call, scope: Scope, answer: str, function: str) -> Term:
    """Of one collection, an error if it is empty and has no default; or of several scalars."""
    default = [k.value for k in e.keywords if k.arg == "default"]
    over = arguments(e, 1, None, ("default",))
    if len(over) == 1 and isinstance(over[0], (ast.Tuple, ast.List)) and len(over[0].elts) > 1:
        over, default = over[0].elts, []
    if len(over) > 1:
        if default:
            raise TypeMismatch(f"`{answer}` takes a default with one collection only")
        terms = tuple(_scalar(r, a, scope) for a in over)
        common(*map(type_of, terms))
        return Call(function, terms)
    rows = r.bag(over[0], scope)
    if not isinstance(t := type_of(rows).key, Base):
        hint = f"find the {answer} first, then the rows that have it"
        raise TypeMismatch(f"`{answer}` takes scalars, not {kind(t)}", hint=hint)
    found = Answer(answer, (), rows)
    if not default:
        return Call("py_present", (found,))
    other = _scalar(r, default[0], scope)
    common(t, type_of(other))
    return found if type_of(other) == VOID else Call("coalesce", (found, other))


# --- conversions ---------------------------------------------------------------------------------


def _set(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    given = arguments(e, 0, 1)
    return r.unique(r.bag(given[0], scope), given[0]) if given else EMPTY


def _list(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    given = arguments(e, 0, 1)
    return r.bag(given[0], scope) if given else EMPTY


def _abs(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    (given,) = arguments(e, 1, 1)
    return numeric("abs", "abs", r.key(given, scope))


def _int(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    """A number without its places, or text that is digits; other text is an error where it is evaluated."""
    return _number(r, e, scope, BIGINT, "numbers and text", STRING)


def _float(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    return _number(r, e, scope, DOUBLE, "numbers")


def _number(r: Expressions, e: ast.Call, scope: Scope, t: Base, of: str, *more: Type) -> Term:
    (given,) = arguments(e, 1, 1)
    term = _scalar(r, given, scope)
    if not is_numeric(type_of(term)) and type_of(term) not in more:
        raise TypeMismatch(f"`{ast.unparse(e.func)}` converts {of}, not {kind(type_of(term))}")
    return term if type_of(term) == t else Call("cast", (term,), t)


def _decimal(_r: Expressions, e: ast.Call, _scope: Scope) -> Term:
    return _literal(e, Decimal)


def _day(_r: Expressions, e: ast.Call, _scope: Scope) -> Term:
    return _literal(e, date)


def _literal(e: ast.Call, make: Callable[..., Any]) -> Term:
    """Decimal("1.50"), date(2024, 1, 2): called when the query is read, so of constants only."""
    values = [a.value if isinstance(a, ast.Constant) else integer(a) for a in arguments(e, 1, 3)]
    exact = all(type(v) is int or (make is Decimal and isinstance(v, str)) for v in values)
    try:
        if exact:
            return constant(make(*values))
    except (TypeError, ValueError, InvalidOperation) as error:
        raise TypeMismatch(f"`{ast.unparse(e)}` has no value") from error
    hint = 'write Decimal("1.50") and date(2024, 1, 2)'
    raise NotIncremental("UNSUPPORTED_SYNTAX", f"`{ast.unparse(e)}` is not a constant", hint=hint)


CALLS: tuple[tuple[object, Callable[[Expressions, ast.Call, Scope], Term]], ...] = (
    (sum, _sum),
    (len, _len),
    (min, _min),
    (max, _max),
    (set, _set),
    (list, _list),
    (abs, _abs),
    (int, _int),
    (float, _float),
    (Decimal, _decimal),
    (date, _day),
)
