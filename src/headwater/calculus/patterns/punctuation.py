"""Punctuations: a pattern for each column of a row, and what rows match it.

A column that is not named may have any value, so the punctuation without columns matches every row: the end of the
stream. Punctuations are closed under "and": `combine` gives the rows that match both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from headwater.calculus.patterns.pattern import (
    ANYTHING,
    NOTHING,
    Pattern,
    combine,
    matches,
    minus,
    normal,
    pattern,
    size,
    subsumes,
)
from headwater.calculus.types import Base, KeyType, field_name
from headwater.errors import BadPattern

Row = Mapping[str, Any]
R = TypeVar("R", bound=Row)
NO_TYPES: Mapping[str, Base] = {}


class Matcher(Protocol):
    """What rows match: a punctuation, or a set of them."""

    def matches(self, row: Row) -> bool: ...


@dataclass(frozen=True)
class Punctuation:
    """A pattern for each of some columns, in the order of their names; all others may be anything."""

    columns: tuple[tuple[str, Pattern], ...] = ()

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Punctuation:
        """From what a user writes for the columns: patterns, values, several values."""
        read = ((name, pattern(columns[name])) for name in sorted(columns))
        return cls(tuple((n, p) for n, p in read if p != ANYTHING))

    @property
    def shape(self) -> tuple[str, ...]:
        """The columns that are not anything."""
        return tuple(n for n, _ in self.columns)

    @property
    def size(self) -> int:
        """How many values are written down."""
        return sum(size(p) for _, p in self.columns)

    @property
    def is_empty(self) -> bool:
        """Whether no row matches, because a column has nothing."""
        return any(p == NOTHING for _, p in self.columns)

    def at(self, name: str) -> Pattern:
        """The pattern of a column."""
        return dict(self.columns).get(name, ANYTHING)

    def matches(self, row: Row) -> bool:
        """Whether each column of the row matches its pattern."""
        return all(matches(p, row[n]) for n, p in self.columns)

    def combine(
        self, other: Punctuation, types: Mapping[str, Base] = NO_TYPES
    ) -> Punctuation | None:
        """Rows that match both, exactly; None where there are none."""
        mine, theirs = dict(self.columns), dict(other.columns)
        both = {
            n: combine(mine.get(n, ANYTHING), theirs.get(n, ANYTHING), types.get(n))
            for n in sorted(mine.keys() | theirs.keys())
        }
        if NOTHING in both.values():
            return None
        return Punctuation(tuple(both.items()))

    def subsumes(self, other: Punctuation, types: Mapping[str, Base] = NO_TYPES) -> bool:
        """Whether every row that matches the other matches this one."""
        theirs = dict(other.columns)
        if other.is_empty:
            return True
        return all(subsumes(p, theirs.get(n, ANYTHING), types.get(n)) for n, p in self.columns)

    def normal(self, types: Mapping[str, KeyType], zone: str = "UTC") -> Punctuation:
        """Each pattern checked against the type of its column, and in the one form that it has there."""
        for name in self.shape:
            if name not in types:
                raise BadPattern(
                    f"there is no column `{name}`", hint=f"the columns are {', '.join(types)}"
                )
        read = ((n, normal(p, types[n], zone, n)) for n, p in self.columns)
        return Punctuation(tuple((n, p) for n, p in read if p != ANYTHING))

    def rename(self, names: Mapping[str, str]) -> Punctuation | None:
        """The same of columns with other names; None where one of them has no new name."""
        if not all(n in names for n in self.shape):
            return None
        out: dict[str, Pattern] = {}
        for n, p in self.columns:  # two columns that become one have to match both patterns
            out[names[n]] = combine(out.get(names[n], ANYTHING), p)
        return _named(out)

    def without(
        self, other: Punctuation, types: Mapping[str, Base] = NO_TYPES
    ) -> list[Punctuation]:
        """The rows that match this one and not the other, as punctuations that have none in common."""
        if self.combine(other, types) is None:
            return [self]
        out, held = [], dict(self.columns)
        for n, p in other.columns:
            here = held.get(n, ANYTHING)
            out += [_named({**held, n: piece}) for piece in minus(here, p, types.get(n))]
            held[n] = combine(here, p, types.get(n))
        return out

    def __str__(self) -> str:
        return "⟨" + ", ".join(f"{field_name(n)}: {p}" for n, p in self.columns) + "⟩"


def _named(columns: Mapping[str, Pattern]) -> Punctuation:
    return Punctuation(tuple(sorted(columns.items(), key=lambda c: c[0])))


# --- rows and punctuations in lists -----------------------------------------------------------------------


def matching_rows(rows: Iterable[R], what: Matcher) -> list[R]:
    """The rows that match a punctuation or a set."""
    return [row for row in rows if what.matches(row)]


def other_rows(rows: Iterable[R], what: Matcher) -> list[R]:
    """The rows that do not match a punctuation or a set."""
    return [row for row in rows if not what.matches(row)]


def unmatched(punctuations: Iterable[Punctuation], rows: Iterable[Row]) -> list[Punctuation]:
    """The punctuations that none of the rows matches."""
    held = list(rows)
    return [p for p in punctuations if not any(p.matches(row) for row in held)]
