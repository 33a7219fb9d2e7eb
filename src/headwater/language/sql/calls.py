"""Functions whose arguments need more than an order: each as a call of the calculus, or left to Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.scalars import bounded
from headwater.calculus.terms import Box, Call, Const, Sum, Term, Unbox
from headwater.calculus.types import BINARY, DATE, INTEGER, STRING, Base
from headwater.language.sql import time_windows, units
from headwater.language.sql.coerce import case_of, cast_to
from headwater.language.sql.placing import place_of

if TYPE_CHECKING:
    from headwater.language.sql.expressions import Expressions


def _tsordsadd(x: Expressions, e: exp.TsOrDsAdd) -> Term:
    return Call("date_add", (_as_date(x.key(e.this)), x.key(e.expression)))


def _datediff(x: Expressions, e: exp.DateDiff) -> Term:
    return Call("datediff", (_as_date(x.key(e.this)), _as_date(x.key(e.expression))))


def _as_date(term: Term) -> Term:
    return cast_to(term, DATE) if type_of(term) == STRING else term


TRUNCATED = {"year", "yyyy", "yy", "quarter", "month", "mon", "mm", "week"}
"""What trunc(date, unit) knows; everything else is NULL, also what sqlglot makes one of these."""


def _trunc(x: Expressions, e: exp.DateTrunc) -> Term:
    """trunc with a unit that is written out, as it is written."""
    place = place_of(e)
    words = [t for t in x.reader.tokens if place and place[0] <= t.start < place[1]]
    if len(words) < 2 or words[-2].token_type.name != "STRING" or words[-3].text != ",":
        return x.unsupported(e)
    unit = words[-2].text
    if unit.lower() not in TRUNCATED:
        return Const(None, DATE)
    return Call("trunc", (x.key(e.this), Const(unit, STRING)))


def _substring(x: Expressions, e: exp.Substring) -> Term:
    length = e.args.get("length")
    end = x.key(length) if length is not None else Const((1 << 31) - 1, INTEGER)
    return Call("substring", (x.key(e.this), x.key(e.args["start"]), end))


def _trim(x: Expressions, e: exp.Trim) -> Term:
    side = e.args.get("position") or "BOTH"
    if e.expression is not None:  # the letters that are taken away
        return Call(f"trim_{side.lower()}", (x.key(e.this), x.key(e.expression)))
    return Call({"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim"), (x.key(e.this),))


def _concat(x: Expressions, e: exp.Concat) -> Term:
    return _joined(x, e, tuple(map(x.key, e.expressions)))


def _dpipe(x: Expressions, e: exp.DPipe) -> Term:
    return _joined(x, e, tuple(map(x.key, e.flatten())))


def _joined(x: Expressions, e: exp.Expr, parts: tuple[Term, ...]) -> Term:
    """Concatenated text; bytes stay bytes, which Spark sees to."""
    if any(type_of(p) == BINARY or not isinstance(type_of(p), Base) for p in parts):
        return x.unsupported(e)
    return Call("concat", tuple(cast_to(p, STRING) for p in parts))


def _round(x: Expressions, e: exp.Round) -> Term:
    value, digits = x.key(e.this), e.args.get("decimals")
    n = x.key(digits) if digits is not None else Const(0, INTEGER)
    t = type_of(value)
    if not isinstance(n, Const) or not isinstance(n.value, int):
        return x.unsupported(e)
    if isinstance(t, Base) and t.name == "decimal":
        places = min(t.scale, max(n.value, 0))
        return Call("round", (value, n), bounded(t.precision - t.scale + 1 + places, places))
    return Call("round", (value, n))


def _arraysize(x: Expressions, e: exp.ArraySize) -> Term:
    array = x.key(e.this)
    count = cast_to(Box(Sum(Unbox(array))), INTEGER)
    return case_of([Call("is_null", (array,))], [Const(None, INTEGER), count])


CALLS: dict[type[exp.Expr], Callable[[Expressions, Any], Term]] = {
    **units.CALLS,
    exp.TsOrDsAdd: _tsordsadd,
    exp.DateDiff: _datediff,
    exp.DateTrunc: _trunc,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.Concat: _concat,
    exp.DPipe: _dpipe,
    exp.Round: _round,
    exp.ArraySize: _arraysize,
}


def known(e: exp.Expr) -> Callable[[Expressions, Any], Term] | None:
    """How a node is read, if it is one of these."""
    if isinstance(e, exp.Anonymous):
        name = e.name.lower()
        return units.NAMED.get(name) or time_windows.NAMED.get(name)
    return CALLS.get(type(e))
