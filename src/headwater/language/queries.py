"""A query as it is given, SQL text or a comprehension or a term, and what is read of it."""

from __future__ import annotations

from typing import Any

from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.notation.text import show
from headwater.calculus.terms import Box, Each, Node, Num, Record, Sng, Term, Var
from headwater.calculus.types import INT, MapType
from headwater.errors import QueryError
from headwater.language.comprehension import Query
from headwater.language.sql import read_sql
from headwater.language.sql.opaque import Ask


def read_query(query: str | Query | Term, schemas: Any, ask: Ask) -> tuple[str, str, Term]:
    """A query as its text, its language and its term."""
    if isinstance(query, str):
        return query, "sql", read_sql(query, schemas, ask)
    if not isinstance(query, (Query, Node)):
        raise QueryError(
            f"the query is of type {type(query).__name__}",
            hint="give SQL, a function with @headwater.query, or a term",
        )
    read = query.read(schemas, kept=True) if isinstance(query, Query) else query
    term = rows_with_values(read)
    return text_of(term), "term", term


def rows_with_values(term: Term) -> Term:
    """A map from keys to bags (value nesting) as rows of a key and its bag: the keys whose bags are not empty."""
    t = type_of(term)
    if not (isinstance(t, MapType) and isinstance(t.value, MapType)):
        return term
    k, v = Var("k", t.key), Var("v", t.value)
    return Each(k, v, term, Sng(Record((("key", k), ("values", Box(v)))), Num(1, INT)))


@with_room
def text_of(term: Term) -> str:
    """A term as it is kept."""
    return show(term)
