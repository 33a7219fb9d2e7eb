"""Loops in comprehensions: `hw.repeat(start, step, times= | until= | limit=)` as a term.

    hw.repeat(a, lambda x: b)                  repeat x := a then b
    hw.repeat((a, b), lambda x, y: (c, d))     repeat loop := ⟨x: a, y: b⟩ then ⟨x: c, y: d⟩

The step is a lambda, or a function that the query defines before it; what its rows are is in `loop_types.py`, and what it does
when a query runs on lists in `on_lists.py`. Ends of loops are constants, known where the query is read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Each,
    Field,
    For,
    Let,
    Record,
    Repeat,
    Term,
    Var,
    Within,
    binders,
    children,
    variables,
)
from headwater.calculus.types import (
    KeyType,
    ProductType,
    RecordType,
    bag,
    is_numeric,
)
from headwater.errors import NotIncremental, TypeMismatch
from headwater.language.comprehension.loop_types import (
    DECIMALS,
    check_flat,
    coming_out,
    fitted,
    going_in,
    round_row,
)
from headwater.language.comprehension.on_lists import (
    LIMIT,
    SEVERAL,
    STEP,
    WITHIN,
    end_of,
    limit_of,
    times_of,
    until_of,
    within,
)
from headwater.language.comprehension.operators import (
    EMPTY,
    as_bag,
    component,
    is_collection,
    is_tuple,
    kind,
)
from headwater.language.comprehension.reading import (
    MISSING,
    Expressions,
    Scope,
    arguments,
    function_of,
    parameters,
)
from headwater.language.comprehension.statements import let_around, read_function
from headwater.rules.rounds import with_round

_WIDENED = 40
"""How often a start may get a wider type; decimals have 38 digits."""


def read_repeat(r: Expressions, e: ast.Call, scope: Scope) -> Term:
    """hw.repeat(start, step): one loop over one collection, or over several at once."""
    first, step = arguments(e, 2, 2, ("times", "until", "limit"))
    times, measure, limit = _end(r, e, scope)
    starts, several = _starts(r, first, scope)
    if several and measure is not None:
        raise NotIncremental("LOOP_END", SEVERAL, hint="say how many rounds there are: times=")
    loop = _Step(r, step, scope, len(starts) if several else None)
    rows, var, stepped = loop.going_round([type_of(s).key for s in starts])
    begin = _put_together([going_in(s, t) for s, t in zip(starts, rows, strict=True)], loop.names)
    after = _put_together([going_in(s, t) for s, t in zip(stepped, rows, strict=True)], loop.names)
    if measure is not None:
        _measured(measure, rows[0])
    whole = Repeat(var, begin, after, times, measure, limit)
    _no_loop_inside(r, whole, step)
    r.loops[whole] = e
    if loop.names is None:
        return coming_out(whole, rows[0])
    if all(isinstance(t, RecordType) for t in rows):
        return whole
    parts = zip(loop.names, rows, strict=True)
    return Record(tuple((n, coming_out(Field(whole, n), t)) for n, t in parts))


def read_within(_r: Expressions, _e: ast.Call, _scope: Scope) -> Term:
    """hw.within anywhere but behind `until=`."""
    raise NotIncremental(
        "LOOP_END", "`hw.within` says how a loop ends, and nothing else", hint=WITHIN
    )


# --- the end -------------------------------------------------------------------------------------


def _end(r: Expressions, e: ast.Call, scope: Scope) -> tuple[int | None, Within | None, int]:
    """times, until and limit, each a constant where the query is read."""
    named = {k.arg: k.value for k in e.keywords}
    times, until, limit = None, None, LIMIT
    if (given := named.get("times")) is not None:
        with r.source.at(given):
            times = times_of(_constant(r, given, scope))
    if (given := named.get("until")) is not None:
        with r.source.at(given):
            until = until_of(_measure(r, given, scope))
    if (given := named.get("limit")) is not None:
        with r.source.at(given):
            limit = limit_of(_constant(r, given, scope))
            if times is not None:
                what = "`limit` says nothing where `times` does"
                raise NotIncremental("LOOP_END", what, hint="leave `limit` out")
    end_of(times, until, limit)
    return times, until, limit


def _constant(r: Expressions, e: ast.expr, scope: Scope) -> Any:
    """A constant as it is written, or as a name stands for it outside of the query; else MISSING."""
    match e:
        case ast.Constant(value):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return -value
        case ast.Tuple(elts) | ast.List(elts):
            parts = tuple(_constant(r, x, scope) for x in elts)
            return MISSING if any(p is MISSING for p in parts) else parts
        case _:
            return r.outside(e, scope)


def _measure(r: Expressions, e: ast.expr, scope: Scope) -> Any:
    """hw.within of constants; or what a name stands for."""
    if not (isinstance(e, ast.Call) and r.outside(e.func, scope) is within):
        return _constant(r, e, scope)
    given = [_constant(r, a, scope) for a in arguments(e, 2, 2, ("by",))]
    by = [_constant(r, k.value, scope) for k in e.keywords]
    if not by or any(x is MISSING for x in (*given, *by)) or not isinstance(by[0], (str, tuple)):
        what = "`within` takes constants: how much, the column, and by= the columns of its key"
        raise NotIncremental("LOOP_END", what, hint=WITHIN)
    return within(given[0], given[1], by=by[0])


def _measured(measure: Within, row: KeyType) -> None:
    """The columns of a measure are columns of the loop, and what moves is a number."""
    fields = dict(row.fields) if isinstance(row, RecordType) else {}
    for name in (measure.column, *measure.by):
        if name not in fields:
            what = f"`within` names the column `{name}`, which the loop has not"
            raise NotIncremental("LOOP_END", what, hint=f"its columns: {', '.join(fields)}")
    if not is_numeric(t := fields[measure.column]):
        what = f"`within` measures numbers, and `{measure.column}` is {kind(t)}"
        raise NotIncremental("LOOP_END", what, hint=WITHIN)


# --- the start -----------------------------------------------------------------------------------


def _starts(r: Expressions, e: ast.expr, scope: Scope) -> tuple[list[Term], bool]:
    """The collections that a loop begins with, and whether they came as a tuple."""
    with r.source.at(e):
        found, several = _collections(r, e, scope)
        for one in found:
            if one == EMPTY:
                hint = "an empty list that has one: [x for x in xs if False]"
                raise TypeMismatch("an empty list has no type here", hint=hint)
            check_flat(type_of(one).key, "the start")
            with_round(round_row(type_of(one).key))  # raises where its column is there
        return found, several


def _collections(r: Expressions, e: ast.expr, scope: Scope) -> tuple[list[Term], bool]:
    """One collection, or those of a tuple."""
    if isinstance(e, ast.Tuple):
        return [_collection(r, x, scope) for x in e.elts], True
    if isinstance(e, ast.GeneratorExp):
        return [r.bag(e, scope)], False
    term = r.term(e, scope)
    match type_of(term):
        case ProductType(fields):  # a loop over several, which begins another
            return [component(term, n) for n, _ in fields], True
        case RecordType(fields) as t if is_tuple(t) and all(is_collection(f) for _, f in fields):
            return [as_bag(component(term, n)) for n, _ in fields], True
        case _:
            return [as_bag(term)], False


def _collection(r: Expressions, e: ast.expr, scope: Scope) -> Term:
    with r.source.at(e):
        return as_bag(r.term(e, scope))


# --- the step ------------------------------------------------------------------------------------


class _Step:
    """The step of a loop: its parameters, and what it makes of collections of given types."""

    def __init__(self, r: Expressions, step: ast.expr, scope: Scope, count: int | None):
        self.reader, self.outer, self.count = r, scope, count
        with r.source.at(step):
            function = function_of(step, scope)
            if function is None:
                what = "the step of a loop is a lambda, or a function that the query defines"
                raise NotIncremental("LOOP_STEP", what, hint=STEP)
            self.node, self.scope = function
            names = parameters(self.node)
            wanted = count or 1
            if names is None or len(names) != wanted:
                has = (
                    "parameters that are not plain"
                    if names is None
                    else _counted(len(names), "parameter")
                )
                what = f"the step has {has}, and the loop has {_counted(wanted, 'collection')}"
                raise NotIncremental("LOOP_STEP", what, hint=STEP)
        self.parameters = names
        self.names = None if count is None else names
        """What the collections of a product are called."""
        self.place: ast.AST = self.node.body if isinstance(self.node, ast.Lambda) else step

    def going_round(self, rows: list[KeyType]) -> tuple[list[KeyType], Var, list[Term]]:
        """The types of rows that a step gives as it is given them, from those of the start on; and the step in them."""
        for _ in range(_WIDENED):
            var, stepped = self.read(rows)
            with self.reader.source.at(self.place):
                pairs = zip(rows, (type_of(s).key for s in stepped), strict=True)
                fitting = [fitted(a, b) for a, b in pairs]
            if fitting == rows:
                return rows, var, stepped
            rows = fitting
        with self.reader.source.at(self.place):
            what = "the rows of a step are wider than those that it is given, each time"
            raise NotIncremental("RECURSION_TYPES", what, hint=DECIMALS)

    def read(self, rows: list[KeyType]) -> tuple[Var, list[Term]]:
        """The variable of the loop, and the collections after a step."""
        types = [bag(round_row(t)) for t in rows]
        if self.names is None:
            var = self.outer.variable(self.parameters[0], types[0])
            parts: list[Term] = [var]
        else:
            named = tuple(zip(self.names, types, strict=True))
            var = self.outer.variable("loop", ProductType(named))
            parts = [Field(var, n) for n in self.names]
        seen = [coming_out(p, t) for p, t in zip(parts, rows, strict=True)]
        inner = self.scope.bind(var, dict(zip(self.parameters, seen, strict=True)))
        with self.reader.source.at(self.place):
            lets, found = read_function(self.node, self.reader, inner, self._stepped)
            for one in found:
                check_flat(type_of(one).key, "the step")
            return var, [let_around(lets, one) for one in found]

    def _stepped(self, e: ast.expr, scope: Scope) -> list[Term]:
        found, several = _collections(self.reader, e, scope)
        if several != (self.count is not None) or (several and len(found) != self.count):
            given = (
                f"a tuple of {_counted(len(found), 'collection')}" if several else "one collection"
            )
            wanted = "one" if self.count is None else f"a tuple of {self.count}"
            what = f"the step gives {given}, and the loop has {wanted}"
            raise NotIncremental("LOOP_STEP", what, hint=STEP)
        return found


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _put_together(collections: list[Term], names: list[str] | None) -> Term:
    """One collection as it is, several as a ring product."""
    return collections[0] if names is None else Record(tuple(zip(names, collections, strict=True)))


# --- loops in loops ------------------------------------------------------------------------------


def _no_loop_inside(r: Expressions, loop: Repeat, step: ast.expr) -> None:
    """A loop inside of a step reads nothing that the step computes of its rows."""
    for inner in _reading_loops(loop.step, frozenset((loop.var,))):
        with r.source.at(r.loops.get(inner, step)):
            raise NotIncremental(
                "LOOP_IN_LOOP",
                "a loop inside of a loop reads what the outer one computes",
                hint="make one loop of both, over a tuple of collections; or compute the inner one before the outer",
            )


def _reading_loops(term: Term, computed: frozenset[Var]) -> list[Repeat]:
    """The loops in a term that read variables which stand for something computed in the loop around them."""
    if isinstance(term, Var) or not variables(term) & computed:
        return []
    if isinstance(term, Repeat):
        return [term]
    *outer, last = children(term)
    found = [x for c in outer for x in _reading_loops(c, computed)]
    bound = binders(term)
    if isinstance(term, (For, Let, Each)) and variables(outer[0]) & computed:
        inside = computed | set(bound)
    else:
        inside = computed - set(bound)
    return found + _reading_loops(last, inside)


# --- loops beside rows ---------------------------------------------------------------------------


def no_loop_of_rows(r: Expressions, term: Term) -> None:
    """A loop reads no row that stands around it: it would be another one for every row."""
    for loop in _loops_of_rows(term, frozenset(), set()) if r.loops else ():
        if (written := r.loops.get(loop)) is not None:
            with r.source.at(written):
                raise NotIncremental(
                    "CORRELATED",
                    "a loop reads columns of the rows that stand around it",
                    hint="keep these columns in the rows of the loop, and join with them after it",
                )


def _loops_of_rows(
    term: Term, rows: frozenset[Var], seen: set[tuple[Term, frozenset[Var]]]
) -> Iterator[Repeat]:
    """The loops in a term that read rows around them, or what is computed of these."""
    if (term, rows) in seen or not (parts := children(term)):
        return
    seen.add((term, rows))
    if isinstance(term, Repeat) and variables(term) & rows:
        yield term
    bound = frozenset(binders(term))
    computed = isinstance(term, Let) and variables(term.bound) & rows
    inside = rows | bound if computed or isinstance(term, (For, Each)) else rows - bound
    for part in parts[:-1]:
        yield from _loops_of_rows(part, rows, seen)
    yield from _loops_of_rows(parts[-1], inside, seen)
