"""Which rows of a table match a set of punctuations, without a loop over rows.

Members are taken together by *kind*: the columns in which they have a constant, and those in which they have a range. The
constants of a kind are one table, sorted by the hash of its rows; the rows asked about are looked up in it by their hash,
and what is found is compared value by value, then with the ranges. A list is as many constants. What is made of a set
once stays with it (`Punctuations.prepared`), for sets live longer than increments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.patterns import (
    Constant,
    OneOf,
    Pattern,
    Punctuation,
    Punctuations,
    Range,
    matches,
)
from headwater.errors import BadPattern
from headwater.state.hashing import hash_keys
from headwater.state.keys import Bools, Ints, all_parts, bisected, canonical, equal, expand, parts

LISTED = 1000
"""Combinations of the lists of one member that are written out; of more, the lists are asked one after another."""
FEW = 8
"""Members of a kind that rows are compared with one after another: to hash and to sort the rows takes longer."""


def matching(
    punctuations: Punctuations, table: pa.Table, names: Mapping[str, str] | None = None
) -> Bools:
    """Whether each row matches the set; `names` says which column of the table a column of the set is, if not its own."""
    out = np.zeros(table.num_rows, np.bool_)
    if not punctuations or not table.num_rows:
        return out
    asked = sorted({n for p in punctuations for n in p.shape})
    columns = {n: _whole(table.column((names or {}).get(n, n))) for n in asked}
    types = tuple((n, c.type) for n, c in columns.items())
    prepared = punctuations.prepared.get(types)
    if prepared is None:
        prepared = punctuations.prepared[types] = list(_prepared(punctuations, dict(types)))
    for test in prepared:
        out |= test.matching(columns, table.num_rows)
    return out


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, as keys are compared."""
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks)
    return canonical(found)


# --- members taken together -------------------------------------------------------------------------------


def _prepared(
    punctuations: Punctuations, types: dict[str, pa.DataType]
) -> Iterator[_Kind | _Lists]:
    """The tests that a set of punctuations is."""
    kinds: dict[tuple[tuple[str, ...], tuple[str, ...]], _Members] = {}
    for p in punctuations:
        columns = dict(p.columns)
        void = [n for n in columns if pa.types.is_null(types[n])]
        if not all(matches(columns[n], None) for n in void):
            continue
        columns = {n: q for n, q in columns.items() if n not in void}
        lists = {n: q for n, q in columns.items() if isinstance(q, OneOf)}
        if len(lists) > 1 and np.prod([float(len(q.values)) for q in lists.values()]) > LISTED:
            yield _Lists([_kind_of(Punctuation(((n, q),)), types) for n, q in columns.items()])
            continue
        wide = tuple(n for n, q in columns.items() if isinstance(q, Range))
        fixed = tuple(n for n in columns if n not in wide)
        kinds.setdefault((fixed, wide), _Members(fixed, wide)).add(columns)
    yield from (members.kind(types) for members in kinds.values())


def _kind_of(p: Punctuation, types: dict[str, pa.DataType]) -> _Kind:
    columns = dict(p.columns)
    wide = tuple(n for n, q in columns.items() if isinstance(q, Range))
    members = _Members(tuple(n for n in columns if n not in wide), wide)
    members.add(columns)
    return members.kind(types)


class _Members:
    """Members of one kind, gathered column by column."""

    def __init__(self, fixed: tuple[str, ...], wide: tuple[str, ...]):
        self.values: dict[str, list[Any]] = {n: [] for n in fixed}
        self.ranges: dict[str, list[Range]] = {n: [] for n in wide}

    def add(self, columns: Mapping[str, Pattern]) -> None:
        each = [_values(columns[n]) for n in self.values]
        rows = list(zip(*product(*each), strict=True)) if len(each) > 1 else each
        for found, values in zip(self.values.values(), rows, strict=True):
            found += values
        for n, ranges in self.ranges.items():
            r = columns[n]
            assert isinstance(r, Range)
            ranges += [r] * (len(rows[0]) if rows else 1)

    def kind(self, types: dict[str, pa.DataType]) -> _Kind:
        fixed = {n: _array(n, values, types[n]) for n, values in self.values.items()}
        size = max(map(len, (*self.values.values(), *self.ranges.values())), default=1)
        hashes = hash_keys(list(fixed.values()), size)
        if fixed:
            order = np.argsort(hashes)
        elif (
            len(self.ranges) == 1
        ):  # what is over one column has no value in common, and is in order
            (lows,) = ([r.low for r in ranges] for ranges in self.ranges.values())
            (name,) = self.ranges
            held = parts(_array(name, lows, types[name]))[0]
            order = np.asarray(pc.array_sort_indices(held, null_placement="at_start"))
        else:
            order = np.arange(size)
        at = pa.array(order)
        ranges = {n: _Ranges.of(n, found, types[n], at) for n, found in self.ranges.items()}
        return _Kind({n: a.take(at) for n, a in fixed.items()}, hashes[order], ranges)


def _values(p: Pattern) -> tuple[Any, ...]:
    assert isinstance(p, (Constant, OneOf))
    return (p.value,) if isinstance(p, Constant) else p.values


def _array(name: str, values: list[Any], t: pa.DataType) -> pa.Array:
    """Values of a column, as keys are compared."""
    try:
        return canonical(pa.array(values, t))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise BadPattern(
            f"`{name}`: a punctuation has values that are no {t}: {e}",
            hint="bring the punctuation into the types of the columns first",
        ) from e


@dataclass(frozen=True)
class _Ranges:
    """Ranges of one column, one for each member; a missing end is NULL."""

    low: pa.Array
    high: pa.Array
    low_closed: pa.Array
    high_closed: pa.Array

    @classmethod
    def of(cls, name: str, ranges: list[Range], t: pa.DataType, at: pa.Array) -> _Ranges:
        ends = [parts(_array(name, [e(r) for r in ranges], t))[0] for e in (_low, _high)]
        closed = [
            pa.array([r.low_closed for r in ranges]),
            pa.array([r.high_closed for r in ranges]),
        ]
        return cls(*(a.take(at) for a in (*ends, *closed)))

    def within(self, values: pa.Array, members: Ints | int) -> Bools:
        """Whether values are in the ranges of the members beside them, or of the one that is named; NULL never is."""
        low, high, low_closed, high_closed = (
            a[members] if isinstance(members, int) else a.take(pa.array(members))
            for a in (self.low, self.high, self.low_closed, self.high_closed)
        )
        after = _holds(pc.greater, pc.greater_equal, values, low, low_closed)
        before = _holds(pc.less, pc.less_equal, values, high, high_closed)
        inside = pc.and_(after, before)
        return np.asarray(pc.fill_null(pc.and_(inside, values.is_valid()), False))


def _low(r: Range) -> Any:
    return r.low


def _high(r: Range) -> Any:
    return r.high


def _holds(strict: Any, weak: Any, values: pa.Array, end: Any, closed: Any) -> Any:
    """Whether values are on the right side of an end; on every side of one that is missing."""
    if isinstance(end, pa.Scalar):
        if not end.is_valid:
            return values.is_valid()
        return (weak if closed.as_py() else strict)(values, end)
    found = pc.if_else(closed, weak(values, end), strict(values, end))
    return pc.or_kleene(end.is_null(), found)


def _is(values: pa.Array, constant: pa.Scalar) -> Bools:
    """Whether values are a constant; NULL is NULL."""
    if constant.is_valid:
        return np.asarray(pc.fill_null(pc.equal(values, constant), False))
    if not values.null_count:
        return np.zeros(len(values), np.bool_)
    return np.asarray(values.is_null())


@dataclass(frozen=True)
class _Kind:
    """Members with constants and ranges in the same columns; in the order of the hash of their constants."""

    fixed: dict[str, pa.Array]
    hashes: Ints
    ranges: dict[str, _Ranges]

    def matching(self, columns: Mapping[str, pa.Array], n: int) -> Bools:
        """Whether each of n rows matches a member."""
        if not self.fixed and not self.ranges:
            return np.ones(n, np.bool_)
        values = {name: parts(columns[name])[0] for name in self.ranges}
        out = np.zeros(n, np.bool_)
        if not self.fixed and (len(self.ranges) > 1 or len(self.hashes) == 1):
            for i in range(len(self.hashes)):
                out |= np.logical_and.reduce(
                    [r.within(values[m], i) for m, r in self.ranges.items()]
                )
            return out
        rows, members = self._found(columns) if self.fixed else self._before(values, n)
        here = pa.array(rows)
        for name, ranges in self.ranges.items():
            inside = ranges.within(values[name].take(here), members)
            rows, members = rows[inside], members[inside]
            here = pa.array(rows)
        out[rows] = True
        return out

    def _found(self, columns: Mapping[str, pa.Array]) -> tuple[Ints, Ints]:
        """Rows and members with the same constants."""
        asked = [columns[name] for name in self.fixed]
        if len(self.hashes) <= FEW:
            return self._compared(asked)
        hashes = hash_keys(asked, len(asked[0]))
        order = np.argsort(
            hashes
        )  # neighbours are looked up together, which is several times faster
        first = np.searchsorted(self.hashes, hashes[order])
        hit = self.hashes[np.minimum(first, len(self.hashes) - 1)] == hashes[order]
        rows, first = order[hit], first[hit]
        counts = np.searchsorted(self.hashes, hashes[rows], "right") - first
        members = expand(first, counts)
        rows = np.repeat(rows, counts)
        here, there = pa.array(rows), pa.array(members)
        same = equal(
            all_parts([a.take(here) for a in asked]),
            all_parts([a.take(there) for a in self.fixed.values()]),
        )
        return rows[same], members[same]

    def _compared(self, asked: list[pa.Array]) -> tuple[Ints, Ints]:
        """The same of few members, one after another."""
        here, there = all_parts(asked), all_parts([*self.fixed.values()])
        found = [
            np.flatnonzero(
                np.logical_and.reduce([_is(a, b[i]) for a, b in zip(here, there, strict=True)])
            )
            for i in range(len(self.hashes))
        ]
        members = np.repeat(np.arange(len(found)), [len(rows) for rows in found])
        return np.concatenate(found), members

    def _before(self, values: Mapping[str, pa.Array], n: int) -> tuple[Ints, Ints]:
        """Rows, and the last range that begins before each: no other can have it."""
        (asked,), (ranges,) = values.values(), self.ranges.values()
        start, end = np.zeros(n, np.int64), np.full(n, len(self.hashes), np.int64)
        last = bisected(
            lambda at: [ranges.low.take(pa.array(at))], [asked], start, end, behind=True
        )
        rows = np.flatnonzero(last > 0)
        return rows, last[rows] - 1


@dataclass(frozen=True)
class _Lists:
    """One member with long lists in several columns: each column by itself."""

    columns: list[_Kind]

    def matching(self, columns: Mapping[str, pa.Array], n: int) -> Bools:
        """Whether each of n rows matches in every column."""
        out = np.ones(n, np.bool_)
        for kind in self.columns:
            out &= kind.matching(columns, n)
        return out
