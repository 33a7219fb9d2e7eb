"""Expressions that are refused, each with the name of the reason and what to write instead; unknown columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.scalars import SCALARS
from headwater.errors import HeadwaterError, UnknownName
from headwater.language.schema import sql_name
from headwater.language.sql.functions import refused_function
from headwater.language.sql.scope import Scope

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
    "window_start",
    "window_starts",
    "add_micros",
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


def unknown_table(reader: Reader, node: exp.Table, name: str) -> HeadwaterError:
    """A name that no table has; of a WITH clause around it, one that its own query reads, or one before it."""
    around = node.find_ancestor(exp.With)
    while around is not None:
        if any(c.alias.lower() == name.lower() for c in around.expressions):
            what = f"`{name}` is not known here: a query of WITH reads those before it"
            hint = "write WITH RECURSIVE for one that reads itself, and WITH MUTUALLY RECURSIVE for several that read each other"
            return reader.error(UnknownName, what, node.this, hint=hint)
        around = around.find_ancestor(exp.With)
    tables = ", ".join(sorted({*reader.schemas, *reader.ctes})) or "none"
    return reader.error(UnknownName, f"unknown table `{name}`", node.this, hint=f"tables: {tables}")


def unknown_column(reader: Reader, scope: Scope, e: exp.Column) -> UnknownName:
    """Says which part of the name is unknown, and what exists there."""
    head, *rest = e.parts
    source = scope.source(head.name)
    if source is not None and rest and (column := source.column(rest[0].name)) is not None:
        kind, field = sql_name(type_of(column)), rest[1] if len(rest) > 1 else rest[0]
        what = f"`{rest[0].name}` is {kind} and has no field `{field.name}`"
        return reader.error(UnknownName, what, field)
    if source is not None and rest:
        known = f"columns of `{source.alias}`: {', '.join(source.columns())}"
        what = f"unknown column `{rest[0].name}` in `{source.alias}`"
        return reader.error(UnknownName, what, rest[0], hint=known)
    column = scope.resolve([head.name])
    if column is not None:
        what = f"`{head.name}` is {sql_name(type_of(column))} and has no field `{rest[0].name}`"
        return reader.error(UnknownName, what, rest[0])
    sources = scope.rows.sources
    if rest:
        known = ", ".join(s.alias for s in sources) or "none"
        what = f"unknown table `{head.name}`"
        return reader.error(UnknownName, what, head, hint=f"tables in scope: {known}")
    what = f"unknown column `{head.name}`"
    if len(sources) == 1 and sources[0].alias and scope.parent is None:
        known = f"columns of `{sources[0].alias}`: {', '.join(sources[0].columns())}"
        what += f" in `{sources[0].alias}`"
    else:
        known = f"columns in scope: {', '.join(scope.names()) or 'none'}"
    return reader.error(UnknownName, what, head, hint=known)
