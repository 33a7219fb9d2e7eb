"""Whole numbers compared with doubles, as Python does it: by what they are, and not by the nearest double.

    2**53 + 1 == float(2**53)       is false, and SQL says it is true

A bigint lies below a double exactly where it lies below the next whole number from the double upwards, and whole numbers
beside a bigint can be told, unless the double is beyond all bigints. NaN is the greatest, as everywhere here.
"""

from __future__ import annotations

import math

from headwater.calculus.check import type_of
from headwater.calculus.terms import Call, Const, Term
from headwater.calculus.types import BIGINT, BOOLEAN, DOUBLE, FLOAT

_LEAST, _BEYOND = -(1 << 63), 1 << 63
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEXT = {"<": "ceil", "<=": "floor", ">": "floor", ">=": "ceil"}
"""The whole number beside a double that decides a comparison."""


def are_mixed(a: Term, b: Term) -> bool:
    """Whether one is a bigint and the other a double, and the bigint need not be a double."""
    for whole, double in ((a, b), (b, a)):
        if type_of(whole) == BIGINT and type_of(double) in (FLOAT, DOUBLE):
            known = whole.value if isinstance(whole, Const) else None
            return known is None or int(float(known)) != known
    return False


def mixed_order(op: str, a: Term, b: Term) -> Term:
    """a < b and its like."""
    if type_of(b) == BIGINT:
        op, a, b = _MIRRORED[op], b, a
    none = Call("<", (a, Const(_LEAST, BIGINT)))  # never, and NULL where the bigint is
    every = Call(">=", (a, Const(_LEAST, BIGINT)))
    above, below = (every, none) if op in ("<", "<=") else (none, every)
    if isinstance(b, Const) and b.value is not None:
        if b.value != b.value or b.value >= _BEYOND:
            return above
        if b.value < _LEAST:
            return below
        known = math.ceil(b.value) if _NEXT[op] == "ceil" else math.floor(b.value)
        return Call(op, (a, Const(known, BIGINT)))
    d = _double(b)
    tests = Call(">=", (d, _at(_BEYOND))), Call("<", (d, _at(_LEAST)))
    beside = Call(_NEXT[op], (_in_reach(d),))
    return Call("case", (tests[0], above, tests[1], below, Call(op, (a, beside))))


def mixed_equal(a: Term, b: Term) -> Term:
    """a == b; the nearest doubles are equal, too, which is what a join looks up."""
    if type_of(b) == BIGINT:
        a, b = b, a
    d = _double(b)
    if isinstance(b, Const) and b.value is not None:
        if not math.isfinite(b.value) or b.value != int(b.value):
            return Const(False, BOOLEAN)
        if not _LEAST <= b.value < _BEYOND:
            return Const(False, BOOLEAN)
        return Call("<=>", (a, Const(int(b.value), BIGINT)))
    # Where the nearest doubles are equal the double is whole, or both are NULL.
    return Call("and", (Call("<=>", (a, b)), Call("<=>", (a, Call("floor", (_in_reach(d),))))))


def _in_reach(d: Term) -> Term:
    """A double that has a bigint beside it, or NULL; parts of an expression may be evaluated where they are not needed."""
    fits = Call("and", (Call(">=", (d, _at(_LEAST))), Call("<", (d, _at(_BEYOND)))))
    return Call("case", (fits, d, Const(None, DOUBLE)))


def _double(term: Term) -> Term:
    return term if type_of(term) == DOUBLE else Call("cast", (term,), DOUBLE)


def _at(bound: int) -> Const:
    return Const(float(bound), DOUBLE)
