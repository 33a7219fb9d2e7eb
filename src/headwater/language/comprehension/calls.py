"""Calls in comprehensions: aggregates, casts, constants, methods of strings, registered functions.

A function is told by what its name stands for where the query is defined, not by the name: a `sum`
that hides Python's is not Python's. `any` and `all` are conditions, read in `expressions.py`; what is
least, greatest or most frequent is in `extremes.py`, and loops are in `loops.py`.
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
    Base,
    Type,
    is_numeric,
)
from headwater.errors import NotIncremental, TypeMismatch
from headwater.language.build import exactly
from headwater.language.comprehension.extremes import read_max, read_min, read_mode
from headwater.language.comprehension.loops import read_repeat, read_within
from headwater.language.comprehension.on_lists import mode, repeat, within
from headwater.language.comprehension.operators import (
    EMPTY,
    as_bag,
    constant,
    kind,
    numeric,
    product,
)
from headwater.language.comprehension.reading import (
    MISSING,
    Expressions,
    Scope,
    arguments,
    integer,
    scalar,
)
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
    if _is_chance(callee):
        what = f"`{shown}` gives another value each time that it is called"
        hint = (
            "a row that is taken back must be the row that was given; put the value into a column"
        )
        raise NotIncremental("NON_DETERMINISTIC", what, hint=hint)
    hint = ADVICE.get(shown, REGISTER)
    if hasattr(callee, "inputs"):
        hint = "make that query a view, and take its result as an input"
    raise NotIncremental("UNKNOWN_FUNCTION", f"`{shown}` is not a function of queries", hint=hint)


def _is_chance(callee: Any) -> bool:
    """Whether a function asks for chance or the time."""
    owner = getattr(callee, "__self__", None)
    modules = {getattr(callee, "__module__", None), type(owner).__module__}
    return bool(modules & {"random", "secrets", "time", "uuid"})


# --- functions and methods -----------------------------------------------------------------------


def _function(r: Expressions, callee: Function, e: ast.Call, scope: Scope) -> Term:
    given = arguments(e, 0, None)
    if not callee.accepts(len(given)):
        raise TypeMismatch(f"`{callee.__name__}` does not take {len(given)} arguments")
    return Call(callee.__name__, tuple(scalar(r, a, scope) for a in given), callee.returns)


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
    return Call(name, (owner, *(scalar(r, a, scope) for a in given)))


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
    return numeric("+", "+", total, scalar(r, start[0], scope)) if start else total


def _len(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    (over,) = arguments(e, 1, 1)
    term = r.term(over, scope)
    return Call("length", (term,)) if type_of(term) == STRING else Box(Sum(as_bag(term)))


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
    term = scalar(r, given, scope)
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
    (min, read_min),
    (max, read_max),
    (mode, read_mode),
    (repeat, read_repeat),
    (within, read_within),
    (set, _set),
    (list, _list),
    (abs, _abs),
    (int, _int),
    (float, _float),
    (Decimal, _decimal),
    (date, _day),
)
