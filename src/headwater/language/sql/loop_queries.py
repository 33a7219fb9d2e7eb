"""What a query has to be as one of a loop, whichever WITH clause it stands in: closed, flat, and of the loop's columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.scalars import common_type
from headwater.calculus.terms import Repeat, Term, Var, variables
from headwater.calculus.types import Base, RecordType
from headwater.errors import ParseError, QueryError
from headwater.language.schema import sql_name
from headwater.language.sql.recursive_grammar import level_of
from headwater.rules.rounds import ROUND

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader

LIMIT = 10_000
"""Rounds of a loop that says nothing of its end."""


def no_level(reader: Reader, cte: exp.CTE, what: str) -> None:
    """Raises where MAX RECURSION LEVEL would mean nothing."""
    if (level := level_of(cte)) is not None:
        span = reader.between(*level.place)
        raise ParseError(what, text=reader.text, span=span, hint="leave MAX RECURSION LEVEL out")


def no_round(reader: Reader, column: str, node: exp.Expr) -> None:
    """Raises where a column of a loop has the name of the column of its rounds."""
    if column == ROUND:
        what = f"a column of a loop is named `{ROUND}`, which is the column of its rounds"
        raise reader.refuse("RECURSION_TYPES", what, node, "give it another name")


@contextmanager
def open_loop(reader: Reader, loop: Var) -> Iterator[None]:
    """While the step of a loop is read: its variable stands for what there was the round before."""
    reader.loops.append(loop)
    try:
        yield
    finally:
        reader.loops.pop()


def closed(reader: Reader, loop: Repeat, name: str, node: exp.CTE) -> Repeat:
    """The loop, if it reads inputs alone: nothing of a loop around it, and no row of a query around it."""
    around = variables(loop)
    if around & set(reader.loops):
        raise loop_in_loop(reader, node)
    if around:
        what = f"the recursive query `{name}` reads a column of the query around it"
        hint = "let it have the column as one of its own, and join with it"
        raise reader.refuse("RECURSION_SHAPE", what, node.args["alias"], hint)
    return loop


def loop_in_loop(reader: Reader, cte: exp.CTE) -> QueryError:
    """The refusal of a loop inside of another one, whose rows it reads."""
    what = f"the recursive query `{cte.alias}` reads the rows of a recursive query around it"
    hint = "a loop inside of a loop is not maintained yet: make it one WITH MUTUALLY RECURSIVE"
    return reader.refuse("LOOP_IN_LOOP", what, cte.args["alias"], hint)


def typed(
    reader: Reader, name: str, term: Term, row: RecordType, node: exp.Expr, says: str
) -> Term:
    """A query's rows in the columns of the loop: a type that is narrower is widened, others are refused."""
    fields = type_of(term).key.fields
    if len(fields) != len(row.fields):
        what = (
            f"`{name}` has {len(row.fields)} columns by {says}, and this query gives {len(fields)}"
        )
        raise reader.refuse("RECURSION_TYPES", what, node, "give each round the same columns")
    for i, ((column, t), (_, u)) in enumerate(zip(row.fields, fields, strict=True)):
        if common_type(t, u) == t:
            continue
        at = column_of(node, i)
        if not isinstance(u, Base):
            raise nested(reader, name, column, sql_name(u), at)
        what = (
            f"the column `{column}` of `{name}` is {sql_name(t)} by {says}, and {sql_name(u)} here"
        )
        hint = (
            f"cast it here, CAST(... AS {sql_name(t).upper()}), or let {says} have the wider type"
        )
        raise reader.refuse("RECURSION_TYPES", what, at, hint)
    return reader.as_row(term, row)


def nested(reader: Reader, name: str, column: str, kind: str, node: exp.Expr) -> QueryError:
    """The refusal of arrays and structs as columns of a loop."""
    what = f"the column `{column}` of the recursive query `{name}` is {kind}"
    hint = "a loop has rows of plain values: explode the array, or name the fields of the struct"
    return reader.refuse("RECURSION_NESTED", what, node, hint)


def column_of(query: exp.Expr, place: int) -> exp.Expr:
    """The expression of a column, as far as the text has one; else the query."""
    first = query
    while isinstance(first, (exp.SetOperation, exp.Subquery, exp.Paren)):
        first = first.this
    items = first.expressions if isinstance(first, exp.Select) else []
    written = place < len(items) and not any(i.is_star for i in items[: place + 1])
    return items[place] if written else query
