"""Rows and their columns: a key as the list of its cells, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.calculus.check import type_of
from headwater.calculus.terms import Field, Record, Term, Var, substitute
from headwater.calculus.types import RecordType, Type
from headwater.rules.rewrite import rewrite
from headwater.rules.simplify import field_of_record


def cells(key: Term) -> list[Term]:
    """The columns of a key: the fields of a record, or the key itself."""
    if isinstance(key, Record):
        return [k for _, k in key.fields]
    t = type_of(key)
    return [Field(key, n) for n, _ in t.fields] if isinstance(t, RecordType) else [key]


def row_like(t: Type, columns: Sequence[Term]) -> Term:
    """A row of a type from its columns."""
    if isinstance(t, RecordType):
        return Record(tuple((n, c) for (n, _), c in zip(t.fields, columns, strict=True)))
    (only,) = columns
    return only


def spread(term: Term, own: Iterable[Var]) -> Term:
    """The term with records written out where a whole row is read."""
    rows = {x: row_like(x.type, cells(x)) for x in own if isinstance(x.type, RecordType)}
    return tidy(substitute(term, rows))


def tidy(term: Term) -> Term:
    """The term with the fields of records that are written out; nothing else moves."""
    return rewrite(term, (field_of_record,))
