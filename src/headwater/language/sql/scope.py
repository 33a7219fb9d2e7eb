"""Names in scope: which row a column of a query belongs to.

A `Source` is one name in a FROM clause with the key term of its row. A `Scope` holds the sources of one
SELECT and knows the scope around it, so that a correlated column is found further out. `Rows` is a
FROM clause read so far: atoms to iterate over, factors that filter, and the sources they give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headwater.calculus.check import type_of
from headwater.calculus.terms import Call, Field, For, Record, Term, Times, Var
from headwater.calculus.types import RecordType
from headwater.errors import AmbiguousColumn


@dataclass(frozen=True)
class Source:
    """A table, view or subquery under its alias."""

    alias: str
    row: Term

    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        t = type_of(self.row)
        assert isinstance(t, RecordType)
        return tuple(n for n, _ in t.fields)

    def column(self, name: str) -> Term | None:
        """A column by name; names ignore case, as Spark's do."""
        for known in self.columns():
            if known.lower() == name.lower():
                return field_of(self.row, known)
        return None


@dataclass(frozen=True)
class Merged:
    """A column that USING or NATURAL made one: in a full join the first of the two that is not NULL."""

    name: str
    aliases: tuple[str, ...]


@dataclass
class TimeWindow:
    """The column that a call of `window` or `session_window` gives the rows of a SELECT: a start and an end."""

    name: str
    known: tuple[Any, ...]
    """What tells the call from others."""
    start: Term
    end: Term
    session: tuple[Term, int] | None = None
    """Of sessions the time and the gap: their end is told by the group, and stands for itself in the rows."""
    grouped: bool = False
    """Whether GROUP BY has the whole pair, and not only a field of it."""

    def pair(self) -> Record:
        """The pair, as the struct that Spark shows."""
        return Record((("start", self.start), ("end", self.end)))


@dataclass
class Rows:
    """A FROM clause: for each of the atoms, where the factors hold."""

    atoms: list[tuple[Var, Term]] = field(default_factory=list)
    factors: list[Term] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    merged: list[Merged] = field(default_factory=list)
    window: TimeWindow | None = None
    between: Callable[[Callable[[Term], Term], Term], Term] | None = None
    """What is told of all rows together before a body reads them, given how they are collected: their sessions."""

    def collect(self, body: Term) -> Term:
        """The comprehension with this body."""
        return self._each(body) if self.between is None else self.between(self._each, body)

    def _each(self, body: Term) -> Term:
        out = Times((*self.factors, body)) if self.factors else body
        for var, source in reversed(self.atoms):
            out = For(var, source, out)
        return out


def field_of(row: Term, name: str) -> Term:
    """row.name, taken from a record where the row is written out."""
    return dict(row.fields)[name] if isinstance(row, Record) else Field(row, name)


class Scope:
    """The sources that the expressions of one SELECT may name, and the scope around it."""

    def __init__(self, rows: Rows, parent: Scope | None = None):
        self.rows, self.parent = rows, parent

    def resolve(self, parts: list[str]) -> Term | None:
        """The term of a column `a`, `t.a` or `t.a.b`, here or further out; None if there is none."""
        found = self.local(parts)
        return found if found is not None or self.parent is None else self.parent.resolve(parts)

    def local(self, parts: list[str]) -> Term | None:
        """The term of a column of this SELECT's own sources."""
        head, *rest = parts
        for source in self.rows.sources:
            if source.alias.lower() == head.lower() and rest:
                column = source.column(rest[0])
                if column is not None:
                    return nested(column, rest[1:])
        for merged in self.rows.merged:
            if merged.name.lower() == head.lower():
                return nested(self._merged(merged), rest)
        found = [(s, c) for s in self.rows.sources if (c := s.column(head)) is not None]
        if len(found) > 1:
            raise AmbiguousColumn(
                f"the column `{head}` is in several tables",
                hint="write one of: " + ", ".join(f"{s.alias}.{head}" for s, _ in found),
            )
        if not found and (w := self.rows.window) is not None and w.name == head.lower():
            return nested(w.pair(), rest)
        return nested(found[0][1], rest) if found else None

    def _merged(self, merged: Merged) -> Term:
        by_alias = {s.alias: s for s in self.rows.sources}
        parts = [by_alias[a].column(merged.name) for a in merged.aliases]
        present = tuple(p for p in parts if p is not None)
        return present[0] if len(present) == 1 else Call("coalesce", present)

    def star(self) -> Iterator[tuple[str, Term]]:
        """All columns in the order that `*` gives them: merged ones first."""
        hidden = {m.name.lower() for m in self.rows.merged}
        for m in self.rows.merged:
            yield m.name, self._merged(m)
        for source in self.rows.sources:
            for name in source.columns():
                if name.lower() not in hidden:
                    yield name, field_of(source.row, name)

    def source(self, alias: str) -> Source | None:
        """A source of this SELECT by alias."""
        return next((s for s in self.rows.sources if s.alias.lower() == alias.lower()), None)

    def names(self) -> Iterator[str]:
        """Every column that could have been meant, for messages."""
        for source in self.rows.sources:
            for name in source.columns():
                yield f"{source.alias}.{name}" if source.alias else name
        if self.parent is not None:
            yield from self.parent.names()


def nested(column: Term, path: list[str]) -> Term | None:
    """A field inside a struct column."""
    for name in path:
        t = type_of(column)
        known = {n.lower(): n for n, _ in t.fields} if isinstance(t, RecordType) else {}
        if name.lower() not in known:
            return None
        column = field_of(column, known[name.lower()])
    return column
