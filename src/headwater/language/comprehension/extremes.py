"""What is least, greatest or most frequent in a collection: `min`, `max`, both with `key=`, and `hw.mode`.

With a key they give a row, and its fields are told one by one:

    min(rows, key=f).a   =   min_by of {by: {f(x), x}, value: x.a} for x in rows

Of rows with equal keys it is the least one, with `max` the greatest, in the order of their columns. Python takes the one
that it meets first; who needs that to be the same writes the order into the key: `key=lambda c: (f(c), c.k)`. Rows whose
key is None are left out, and so are values that are None. Of nothing there is none: an error, or `default=`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Answer,
    Box,
    Call,
    Const,
    For,
    Pred,
    Record,
    Sng,
    Term,
    Var,
)
from headwater.calculus.types import VOID, Base, KeyType, RecordType, has_box
from headwater.errors import NotIncremental, TypeMismatch
from headwater.language.comprehension.operators import (
    NONE_OF_THEM,
    ONE,
    common,
    component,
    kind,
    product,
)
from headwater.language.comprehension.reading import (
    Expressions,
    Scope,
    arguments,
    function_of,
    parameters,
    scalar,
)
from headwater.language.comprehension.statements import let_around, read_function

KEY = "write key=lambda x: ..., of one row"


def read_min(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    """min(xs), min(a, b, ...), min(xs, key=...)."""
    return _extreme(r, e, scope, "min", "least")


def read_max(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    """max(xs), max(a, b, ...), max(xs, key=...)."""
    return _extreme(r, e, scope, "max", "greatest")


def read_mode(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    """hw.mode(xs): the most frequent value; of several the least."""
    (over,) = arguments(e, 1, 1, ("default",))
    default = _named(e, "default")
    rows = r.bag(over, scope)
    if not isinstance(t := type_of(rows).key, Base):
        raise TypeMismatch(f"`mode` counts scalars, not {kind(t)}", hint="take one column of them")
    value = scope.variable("value", t)
    there = For(value, rows, product(_known(value), Sng(value, ONE)))
    return _or_default(r, Answer("mode", (False,), there), default, scope)


def _extreme(r: Expressions, e: ast.Call, scope: Scope, answer: str, function: str) -> Term:
    """Of one collection, an error if it is empty and has no default; or of several scalars."""
    default, key = _named(e, "default"), _named(e, "key")
    over = arguments(e, 1, None, ("default", "key"))
    if key is not None:
        if len(over) > 1:
            raise TypeMismatch(f"`{answer}` takes a key with one collection only")
        return _by_key(r, f"{answer}_by", over[0], key, default, scope)
    if len(over) == 1 and isinstance(over[0], (ast.Tuple, ast.List)) and len(over[0].elts) > 1:
        over, default = over[0].elts, None
    if len(over) > 1:
        if default is not None:
            raise TypeMismatch(f"`{answer}` takes a default with one collection only")
        terms = tuple(scalar(r, a, scope) for a in over)
        common(*map(type_of, terms))
        return Call(function, terms)
    rows = r.bag(over[0], scope)
    if not isinstance(t := type_of(rows).key, Base):
        hint = f"say by what: {answer}(rows, key=lambda x: ...)"
        raise TypeMismatch(f"`{answer}` takes scalars, not {kind(t)}", hint=hint)
    return _or_default(r, Answer(answer, (), rows), default, scope)


def _named(e: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in e.keywords if k.arg == name), None)


def _or_default(r: Expressions, found: Term, default: ast.expr | None, scope: Scope) -> Term:
    """An answer that is NULL of nothing: an error there, or the default."""
    if default is None:
        return Call("py_present", (found,))
    other = scalar(r, default, scope)
    common(type_of(found), type_of(other))
    return found if type_of(other) == VOID else Call("coalesce", (found, other))


def _known(term: Term) -> Term:
    return Pred(Call("is_not_null", (term,)))


# --- rows by a key -------------------------------------------------------------------------------


def _by_key(
    r: Expressions,
    answer: str,
    over: ast.expr,
    key: ast.expr,
    default: ast.expr | None,
    scope: Scope,
) -> Term:
    """The row with the least or greatest key, as a record of its cells."""
    rows = r.bag(over, scope)
    row = type_of(rows).key
    if has_box(row):
        hint = "take the columns that are needed: [(x.a, x.b) for x in xs]"
        raise TypeMismatch(
            f"rows with collections have no order, and `{answer[:3]}` asks for one", hint=hint
        )
    var, by = _key(r, key, row, scope)
    place = Record((("key", by), ("row", _cells(var, row))))
    condition = _known(by) if isinstance(type_of(by), Base) else None

    def collected(body: Term) -> Term:
        return For(var, rows, body if condition is None else product(condition, body))

    some = Call(">", (Box(collected(ONE)), NONE_OF_THEM))
    other = None if default is None else r.key(default, scope)
    if other is not None:
        common(row, type_of(other))

    def told(value: Term, otherwise: Term | None) -> Term:
        element = Record((("by", place), ("value", value)))
        found = Answer(answer, (), collected(Sng(element, ONE)))
        if otherwise is None:  # a cell may be NULL, so that rows are asked for by their number
            return Call("case", (some, found, Call("py_present", (Const(None, type_of(value)),))))
        return found if type_of(otherwise) == VOID else Call("case", (some, found, otherwise))

    return _each_cell(told, var, row, other)


def _key(r: Expressions, e: ast.expr, row: KeyType, scope: Scope) -> tuple[Var, Term]:
    """The variable of a key's function, and what it computes."""
    with r.source.at(e):
        function = function_of(e, scope)
        if function is None:
            what = "a key is a lambda here, or a function that the query defines"
            raise NotIncremental("UNSUPPORTED_SYNTAX", what, hint=KEY)
        node, inner = function
        names = parameters(node)
        if names is None or len(names) != 1:
            raise NotIncremental("UNSUPPORTED_SYNTAX", "a key is computed of one row", hint=KEY)
        var = inner.variable(names[0], row)
        lets, by = read_function(node, r, inner.bind(var, {names[0]: var}), r.key)
        if has_box(type_of(by)) or type_of(by) == VOID:
            raise TypeMismatch(
                f"{kind(type_of(by))} is not ordered",
                hint="a key is a scalar, or a tuple of scalars",
            )
        return var, let_around(lets, by)


def _cells(term: Term, t: KeyType) -> Term:
    """A row written out as a record of its scalars."""
    if not isinstance(t, RecordType):
        return term
    return Record(tuple((n, _cells(component(term, n), f)) for n, f in t.fields))


def _each_cell(
    told: Callable[[Term, Term | None], Term], term: Term, t: KeyType, otherwise: Term | None
) -> Term:
    """What is told of each scalar of a row; `otherwise` is the row in its place."""
    if not isinstance(t, RecordType):
        return told(term, otherwise)

    def beside(name: str) -> Term | None:
        if otherwise is None or type_of(otherwise) == VOID:
            return otherwise
        return component(otherwise, name)

    cells = ((n, _each_cell(told, component(term, n), f, beside(n))) for n, f in t.fields)
    return Record(tuple(cells))
