"""Expressions that are refused, each with the name of the reason and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.scalars import SCALARS
from headwater.errors import HeadwaterError, UnknownName
from headwater.language.sql.functions import NON_DETERMINISTIC, TIME_OF_DAY

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader

INTERNAL = {
    "and",
    "or",
    "not",
    "case",
    "cast",
    "try_cast",
    "is_null",
    "is_not_null",
    "negate",
    "div",
}
"""Functions of the calculus that SQL writes in another way."""


def refusal(reader: Reader, e: exp.Expr) -> HeadwaterError:
    """Why an expression is not in the language: it is unknown, or it cannot be maintained."""
    shown = f"`{e.sql(dialect='spark')}`"
    name = (e.name if isinstance(e, exp.Anonymous) else e.key).lower()
    if name in NON_DETERMINISTIC or isinstance(e, (exp.Rand, exp.Uuid)):
        return reader.refuse(
            "NON_DETERMINISTIC",
            f"{shown} gives another value at each evaluation",
            e,
            "compute it once, in the source",
        )
    if name in TIME_OF_DAY or isinstance(e, (exp.CurrentTimestamp, exp.CurrentDate)):
        return reader.refuse(
            "TIME_OF_DAY",
            f"{shown} changes without any input changing",
            e,
            "keep the time in a source of one row, and join with it",
        )
    if isinstance(e, exp.Window):
        return reader.refuse(
            "WINDOW_FUNCTION",
            f"the window function {e.this.sql(dialect='spark')} is not maintained yet",
            e,
            "aggregate per group and join",
        )
    if isinstance(e, (exp.Bracket, exp.Posexplode)) or name in ("element_at", "array_position"):
        return reader.no_positions(e)
    if isinstance(e, (exp.Func, exp.Anonymous)):
        known = sorted(n for n in SCALARS if n.isidentifier() and n not in INTERNAL)
        return reader.error(
            UnknownName,
            f"the function `{reader.word(e) or name}` is not known",
            e,
            hint=f"known functions: {', '.join(n for n in known if not n.startswith('py_'))}",
        )
    return reader.refuse("UNSUPPORTED_EXPRESSION", f"{shown} is not in the language", e, "")
