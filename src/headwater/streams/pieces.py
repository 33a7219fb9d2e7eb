"""Pieces of a computation: steps that have a value at the end of what they read, and what is made of values.

A value is a small table where its columns are known, from SQL or declared; so SQL can read it. What functions of Python
give without columns is passed on as it is, to functions of Python. Functions of the library may answer for many frames
and keys at once (`Many`), so that an engine asks one query where there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from headwater.errors import SchemaMismatch, StepFailed
from headwater.streams.columns import Fields, Row, fields, rows_given, sort_key
from headwater.streams.schema import Event, Header, Headers, Schema
from headwater.streams.steps import Context, Step

Query: TypeAlias = str | Callable[..., Any]
"""SQL over named tables, or a function."""
Declared: TypeAlias = tuple[tuple[str, Fields], ...]
"""Headers that a function tells: their names and columns."""


def declared(gives: Mapping[str, str | Fields] | None) -> Declared:
    """Headers as they are declared, `{"outliers": "taxi BIGINT, x DOUBLE"}`."""
    return tuple((name, fields(columns)) for name, columns in (gives or {}).items())


class Piece(Step):
    """A step that has a value at the end of what it reads."""

    def value(self, schema: Schema, headers: Headers, context: Context) -> Fields | None:
        """The columns of its value, which is then a table; None where they are not known."""
        return None


def value_of(step: Step, schema: Schema, headers: Headers, context: Context) -> Fields | None:
    """The columns of the value of any step."""
    return step.value(schema, headers, context) if isinstance(step, Piece) else None


def table(step: Step, name: str, columns: Fields | None) -> Header:
    """A value as a table that SQL reads."""
    if columns is None:
        raise SchemaMismatch(
            f"{step} does not fit: the columns of `{name}` are not known, so SQL cannot read it",
            hint="give what makes it as SQL, or declare its columns",
        )
    return Header(name, columns)


def asked(
    context: Context, text: str, tables: Mapping[str, tuple[Header, Sequence[Row]]]
) -> list[Row]:
    """The rows of a query, in the order of their values."""
    return sorted(map(tuple, context.evaluator.relation(text, tables)), key=sort_key)


def asked_of_all(
    context: Context, text: str, many: Sequence[Mapping[str, tuple[Header, Sequence[Row]]]]
) -> list[list[Row]]:
    """The rows of a query over many sets of tables, at once where the evaluator can."""
    relations = getattr(context.evaluator, "relations", None)
    if relations is None or len(many) < 2:
        return [asked(context, text, tables) for tables in many]
    return [sorted(map(tuple, rows), key=sort_key) for rows in relations(text, many)]


class Many:
    """A function of the kernel that answers for many frames and keys at once: f(*given) = many([given])[0]."""

    def __init__(self, many: Callable[[Sequence[tuple[Any, ...]]], Sequence[Any]]):
        self._many = many

    def __call__(self, *given: Any) -> Any:
        return self._many([given])[0]

    def many(self, given: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
        """The answers for many."""
        return self._many(given)


def as_rows(value: Any) -> list[Row]:
    """A value that is a table; one row may be given as such."""
    if value is None:
        return []
    return [value] if isinstance(value, tuple) else list(value)


def emitter(gives: Headers, where: str) -> tuple[Callable[..., None], list[Event]]:
    """What a function tells rows with, `emit("header", *values)`, and the list that it tells them to."""
    told: list[Event] = []

    def emit(name: str, *values: Any) -> None:
        if name not in gives:
            raise StepFailed(
                f"{where} tells a row of `{name}`, which it does not declare",
                hint=f"it declares: {', '.join(gives) or 'none; gives={...} does'}",
            )
        told.extend(rows_given(values, gives[name], where))

    emit.__qualname__ = "emit"  # as messages of Python call it
    return emit, told
