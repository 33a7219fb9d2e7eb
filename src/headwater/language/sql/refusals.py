"""Expressions that are refused, each with the name of the reason and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.scalars import SCALARS
from headwater.errors import HeadwaterError, UnknownName
from headwater.language.sql.functions import refused_function

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

_NODES: tuple[tuple[tuple[type[exp.Expr], ...], str], ...] = (
    ((exp.Rand, exp.Randn), "rand"),
    ((exp.Uuid,), "uuid"),
    ((exp.CurrentTimestamp, exp.Localtimestamp), "current_timestamp"),
    ((exp.CurrentDate,), "current_date"),
    ((exp.CurrentTime,), "current_time"),
    ((exp.CurrentUser, exp.SessionUser), "current_user"),
    ((exp.CurrentDatabase, exp.CurrentSchema, exp.CurrentCatalog), "current_schema"),
    ((exp.CurrentTimezone,), "current_timezone"),
)
"""Nodes of sqlglot whose names are not those of the functions."""


def refusal(reader: Reader, e: exp.Expr) -> HeadwaterError:
    """Why an expression is not in the language: it is unknown, or it cannot be maintained."""
    shown = f"`{e.sql(dialect='spark')}`"
    name = (e.name if isinstance(e, exp.Anonymous) else e.key).lower()
    for kinds, function in _NODES:
        name = function if isinstance(e, kinds) else name
    refused = refused_function(name, True, not list(e.iter_expressions()))
    if refused is not None and isinstance(e, (exp.Func, exp.Anonymous)):
        reason, what, hint = refused
        return reader.refuse(reason, f"{shown} {what}", e, hint)
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
