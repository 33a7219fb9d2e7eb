"""Sets of punctuations: all rows that match one of the members.

A set is kept compact (`compact`), never changes, and may be forgotten in parts: a punctuation that is left out promises
less, which is always safe. Where the types of columns are known, more can be said of discrete ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from headwater.calculus.patterns.compact import Index, compact
from headwater.calculus.patterns.data import pattern_data, pattern_from, type_from
from headwater.calculus.patterns.pattern import (
    ANYTHING,
    Constant,
    Range,
    combine,
    cuts,
    normal,
    plain,
    stretch,
)
from headwater.calculus.patterns.punctuation import NO_TYPES, Punctuation, Row
from headwater.calculus.ring import number
from headwater.calculus.types import Base

MEETING = 256
"""Members that are looked at together to see whether they cover a punctuation that none of them covers alone."""


EVERY_ROW = (Punctuation(),)
"""The members of the set that every row matches."""


class Punctuations:
    """A set of punctuations, compact; two are equal if they have the same members.

    Over one column equal sets are those with the same meaning; over several the same rows can be told in two ways.
    """

    NONE: ClassVar[Punctuations]
    EVERYTHING: ClassVar[Punctuations]

    def __init__(self, members: Iterable[Punctuation] = (), types: Mapping[str, Base] = NO_TYPES):
        self.types = dict(types)
        self.members = compact((_normal(p, self.types) for p in members), self.types)
        self.prepared: dict[Any, Any] = {}
        """What others made of the set to find rows faster; no part of its value."""

    # --- as a collection ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Punctuation]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __bool__(self) -> bool:
        return bool(self.members)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Punctuations):
            return NotImplemented
        return len(self) == len(other) and self._as_set == other._as_set

    def __hash__(self) -> int:
        return hash(self._as_set)

    def __reduce__(self) -> Any:
        return _restored, (self.members, self.types)

    @cached_property
    def _as_set(self) -> frozenset[Punctuation]:
        return frozenset(self.members)

    @cached_property
    def index(self) -> Index:
        """Members by their constants."""
        return Index(self.members)

    @property
    def size(self) -> int:
        """How many values are written down."""
        return sum(p.size for p in self.members)

    @property
    def shapes(self) -> dict[tuple[str, ...], list[Punctuation]]:
        """Members by the columns that they have."""
        out: dict[tuple[str, ...], list[Punctuation]] = {}
        for p in self.members:
            out.setdefault(p.shape, []).append(p)
        return out

    # --- meaning ------------------------------------------------------------------------------------------

    def matches(self, row: Row) -> bool:
        """Whether the row matches a member."""
        here = Punctuation(tuple((n, Constant(number(v))) for n, v in row.items()))
        return any(p.matches(row) for p in self.index.near(here))

    def __or__(self, other: Punctuations) -> Punctuations:
        """Rows that match one set or the other."""
        types = {**other.types, **self.types}
        for one, two in ((self, other), (other, self)):
            if (not two.members or one.members == two.members) and one.types == types:
                return one
        members = [*_retyped(self, types), *_retyped(other, types)]
        return _made(compact(members, types), types)

    def add(self, *punctuations: Punctuation) -> Punctuations:
        """The set with more members."""
        new = [p for p in (_normal(p, self.types) for p in punctuations)]
        if all(any(q.subsumes(p, self.types) for q in self.index.near(p)) for p in new):
            return self
        return _made(compact([*self.members, *new], self.types), self.types)

    def __and__(self, other: Punctuations) -> Punctuations:
        """Rows that match both sets: every member of one combined with every member of the other."""
        types = {**other.types, **self.types}
        for one, two in ((self, other), (other, self)):
            if (two.members == EVERY_ROW or one.members == two.members) and one.types == types:
                return one
        mine, theirs = _shapes(_retyped(self, types)), _shapes(_retyped(other, types))
        found: list[Punctuation] = []
        for a, left in mine.items():
            for b, right in theirs.items():
                if a == b and len(a) == 1:
                    found += _along(a[0], left, right, types.get(a[0]))
                else:
                    both = (p.combine(q, types) for p in left for q in right)
                    found += [p for p in both if p is not None]
        return _made(compact(found, types), types)

    def subsumes(self, what: Punctuation | Punctuations) -> bool:
        """Whether every row that matches what is given matches this set; it may say no where many members are needed."""
        if isinstance(what, Punctuations):
            return all(self.subsumes(p) for p in what)
        what = _normal(what, self.types)
        if what.is_empty or any(p.subsumes(what, self.types) for p in self.index.near(what)):
            return True
        meeting = [p for p in self.members if p.combine(what, self.types) is not None]
        rest = [what]
        for p in meeting if len(meeting) <= MEETING else ():
            rest = [x for part in rest for x in part.without(p, self.types)]
            if not rest or len(rest) > MEETING:
                break
        return not rest

    def rename(self, names: Mapping[str, str]) -> Punctuations:
        """The same of columns with other names; members that have a column without one are left out."""
        found = (p.rename(names) for p in self.members)
        types = {names[n]: t for n, t in self.types.items() if n in names}
        return _made(compact((p for p in found if p is not None), types), types)

    # --- as data and text ---------------------------------------------------------------------------------

    def to_data(self) -> dict[str, Any]:
        """Plain JSON."""
        members = [[[n, pattern_data(q)] for n, q in p.columns] for p in self.members]
        return {"members": members, "types": {n: str(t) for n, t in sorted(self.types.items())}}

    @classmethod
    def from_data(
        cls, data: Mapping[str, Any], types: Mapping[str, Base] | None = None
    ) -> Punctuations:
        """What `to_data` gave; with other types for the columns, if they are given."""
        members = [
            Punctuation(tuple((n, pattern_from(q)) for n, q in columns))
            for columns in data["members"]
        ]
        known = {n: type_from(t) for n, t in data["types"].items()}
        return _made(tuple(members), known) if types is None else cls(members, types)

    def __str__(self) -> str:
        return " ∪ ".join(map(str, self.members)) or "{}"

    def __repr__(self) -> str:
        return f"Punctuations({self})"


def _made(members: tuple[Punctuation, ...], types: Mapping[str, Base]) -> Punctuations:
    """A set from members that are compact already."""
    out = Punctuations((), types)
    out.members = members
    return out


def _restored(members: tuple[Punctuation, ...], types: Mapping[str, Base]) -> Punctuations:
    return _made(members, types)


def _normal(p: Punctuation, types: Mapping[str, Base]) -> Punctuation:
    """Each column in its one form: of its type, or of any where that is not known."""
    columns = [(n, normal(q, types[n], column=n) if n in types else plain(q)) for n, q in p.columns]
    if all(new[1] is old[1] for new, old in zip(columns, p.columns, strict=True)):
        return p
    return Punctuation(tuple((n, q) for n, q in columns if q != ANYTHING))


def _retyped(known: Punctuations, types: Mapping[str, Base]) -> list[Punctuation]:
    """The members of a set where more is known of their types."""
    new = {n for n, t in types.items() if known.types.get(n) != t}
    return [_normal(p, types) if new.intersection(p.shape) else p for p in known.members]


def _shapes(members: Iterable[Punctuation]) -> dict[tuple[str, ...], list[Punctuation]]:
    out: dict[tuple[str, ...], list[Punctuation]] = {}
    for p in members:
        out.setdefault(p.shape, []).append(p)
    return out


def _along(
    column: str, left: list[Punctuation], right: list[Punctuation], t: Base | None
) -> Iterator[Punctuation]:
    """What two sets over one column have in common, in one walk along its values."""
    sides = [[p.at(column) for p in side] for side in (left, right)]
    lists = [[q for q in side if not isinstance(q, Range)] for side in sides]
    ranges = [[q for q in side if isinstance(q, Range)] for side in sides]
    for a, b in ((lists[0], sides[1]), (ranges[0], lists[1])):
        yield from (Punctuation(((column, combine(p, q, t)),)) for p in a for q in b)
    mine, theirs = (sorted(cuts(r, t) for r in found) for found in ranges)
    i = j = 0
    while i < len(mine) and j < len(theirs):
        (low, high), (low2, high2) = mine[i], theirs[j]
        if max(low, low2) < min(high, high2):
            yield Punctuation(((column, stretch(max(low, low2), min(high, high2), t)),))
        i, j = (i + 1, j) if high <= high2 else (i, j + 1)


NONE = Punctuations.NONE = Punctuations()
EVERYTHING = Punctuations.EVERYTHING = Punctuations([Punctuation()])
