"""Subqueries inside expressions: scalar ones, EXISTS and IN, correlated or not.

As a condition of its own a subquery is a factor: EXISTS is ¬¬ of its count, IN is ¬¬ of the count of
equal rows, NOT IN is ¬ of the count of rows that are equal or might be. Inside an expression it is a
boolean that has the value it would have as a condition: Spark gives no NULL there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Answer,
    Box,
    Call,
    Const,
    Field,
    For,
    Not,
    Num,
    Pred,
    Sng,
    Sum,
    Term,
    Var,
)
from headwater.calculus.types import BIGINT, BOOLEAN, INT
from headwater.errors import QueryError, TypeMismatch
from headwater.language.schema import sql_name

if TYPE_CHECKING:
    from headwater.language.sql.expressions import Expressions


def has_query(e: exp.Expr) -> bool:
    """Whether EXISTS or IN is over a subquery, not a list."""
    return isinstance(e, exp.Exists) or bool(e.args.get("query"))


def factor(x: Expressions, e: exp.Expr, negated: bool) -> Term:
    """EXISTS or IN as a factor."""
    if isinstance(e, exp.Exists):
        matching = count(x, e)
    else:
        assert isinstance(e, exp.In)
        matching = matches(x, e, _not_false if negated else lambda c: c)
    return Not(matching) if negated else Not(Not(matching))


def _not_false(condition: Term) -> Term:
    """A comparison that is true or NULL."""
    return Call("coalesce", (condition, Const(True, BOOLEAN)))


def count(x: Expressions, e: exp.Exists) -> Term:
    """How many rows the subquery of EXISTS has."""
    return Sum(x.reader.subquery(e.this, x.scope_for_subquery()))


def scalar(x: Expressions, e: exp.Subquery) -> Term:
    """A scalar subquery: its only value, NULL if it has no row, an error if it has more."""
    bag = x.reader.subquery(e, x.scope_for_subquery())
    row, columns = _row(x, bag)
    if len(columns) != 1:
        raise x.reader.error(
            TypeMismatch,
            f"a scalar subquery gives one column, and this one gives {len(columns)}",
            e,
            hint="select a single expression",
        )
    return Answer("single", (), For(row, bag, Sng(columns[0], Num(1, INT))))


def is_in(x: Expressions, e: exp.In, negated: bool) -> Term:
    """x IN q as a value: with Spark it is what it would be as a condition, and never NULL."""
    if has_query(e):
        matching = matches(x, e, _not_false if negated else lambda c: c)
        return Call("=" if negated else ">", (Box(matching), Const(0, BIGINT)))
    if not e.expressions:
        raise x.reader.error(QueryError, "IN of an empty list", e, hint="write false")
    if not any(isinstance(p.unnest(), exp.Tuple) for p in (e.this, *e.expressions)):
        listed = x.among(e)
        return Call("not", (listed,)) if negated else listed
    tests = tuple(_equal(x, e, e.this, other) for other in e.expressions)
    listed = Call("or", tests) if len(tests) > 1 else tests[0]
    return Call("not", (listed,)) if negated else listed


def _equal(x: Expressions, e: exp.Expr, a: exp.Expr, b: exp.Expr) -> Term:
    """Whether a value is one of the list; tuples are structs, in which NULL is equal to NULL."""
    if isinstance(a.unnest(), exp.Tuple) or isinstance(b.unnest(), exp.Tuple):
        return _same(x, e, a.unnest(), b.unnest())
    return x.compare("=", e, x.key(a), x.key(b))


def _same(x: Expressions, e: exp.Expr, a: exp.Expr, b: exp.Expr) -> Term:
    """a <=> b, part by part where both are tuples: never NULL."""
    left, right = ([*t.expressions] if isinstance(t, exp.Tuple) else [t] for t in (a, b))
    if len(left) != len(right) or isinstance(a, exp.Tuple) != isinstance(b, exp.Tuple):
        what = f"IN compares {len(left)} columns with {len(right)}"
        raise x.reader.error(TypeMismatch, what, b, hint="give both sides the same number")
    if not isinstance(a, exp.Tuple):
        return _same_part(x, b, x.key(a), x.key(b))
    return Call(
        "and", tuple(_same(x, e, p.unnest(), q.unnest()) for p, q in zip(left, right, strict=True))
    )


def _same_part(x: Expressions, e: exp.Expr, a: Term, b: Term) -> Term:
    """a <=> b of two types that are the same: structs are compared without casts, those of NULL included."""
    if type_of(a) != type_of(b):
        what = f"IN compares {sql_name(type_of(a))} with {sql_name(type_of(b))} inside of tuples"
        hint = "cast one of them: Spark compares tuples of the same types only"
        raise x.reader.refuse("TUPLE_TYPES", what, e, hint)
    return Call("<=>", (a, b))


def matches(x: Expressions, e: exp.In, test: Callable[[Term], Term]) -> Term:
    """How many rows of the subquery pass a test of their equality with the left side."""
    bag = x.reader.subquery(e.args["query"], x.scope_for_subquery())
    row, columns = _row(x, bag)
    left = e.this
    while isinstance(left, exp.Paren):
        left = left.this
    values = left.expressions if isinstance(left, exp.Tuple) else [left]
    if len(values) != len(columns):
        raise x.reader.error(
            TypeMismatch,
            f"IN compares {len(values)} columns with {len(columns)}",
            e,
            hint="select as many columns as stand on the left",
        )
    tests = tuple(x.compare("=", e, x.key(v), c) for v, c in zip(values, columns, strict=True))
    condition = tests[0] if len(tests) == 1 else Call("and", tests)
    return For(row, bag, Pred(test(condition)))


def _row(x: Expressions, bag: Term) -> tuple[Var, list[Term]]:
    t = type_of(bag).key
    row = Var(x.reader.fresh("r"), t)
    return row, [Field(row, n) for n, _ in t.fields]
