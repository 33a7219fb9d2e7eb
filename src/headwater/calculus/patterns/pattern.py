"""Patterns: which values of a column are meant. Five kinds, closed under intersection.

    *            any value, and NULL
    5            a constant; `null` is one
    [5, 8)       a range, each end in it, outside of it, or missing: (*, 4]; NULL is in no range
    {1, 6}       a list of constants
    {}           nothing

A pattern without a type is taken for one over a dense order, in which 4 and 5 have values between them: whatever is
said of it holds in every type. Where the type is given, more may be said of a discrete one.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias, assert_never

from headwater.calculus.patterns.values import (
    FIRST,
    LAST,
    Cut,
    after,
    at,
    before,
    count_between,
    ends_of,
    in_order,
    is_discrete,
    previous,
    value_of,
    values_between,
)
from headwater.calculus.ring import number
from headwater.calculus.scalars import order
from headwater.calculus.types import Base, KeyType
from headwater.errors import BadPattern


class _Built:
    """A pattern that is built anew where it is copied, so that its NaN stays the one that equals itself."""

    def __reduce__(self) -> Any:
        return type(self), tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Anything:
    """*: any value, and NULL."""

    def __str__(self) -> str:
        return "*"


@dataclass(frozen=True)
class Nothing:
    """{}: no value."""

    def __str__(self) -> str:
        return "{}"


@dataclass(frozen=True)
class Constant(_Built):
    """One value; None is NULL."""

    value: Any

    def __post_init__(self) -> None:
        if isinstance(self.value, float):
            object.__setattr__(self, "value", number(self.value))

    def __str__(self) -> str:
        return show_value(self.value)


@dataclass(frozen=True)
class Range(_Built):
    """The values between two ends; an end that is None is missing, and NULL is in no range."""

    low: Any
    high: Any
    low_closed: bool
    high_closed: bool

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            end = getattr(self, name)
            if end is None:
                object.__setattr__(self, f"{name}_closed", False)
            elif isinstance(end, float):
                object.__setattr__(self, name, number(end))

    def __str__(self) -> str:
        low, high = ("*" if v is None else show_value(v) for v in (self.low, self.high))
        return f"{'[' if self.low_closed else '('}{low}, {high}{']' if self.high_closed else ')'}"


@dataclass(frozen=True)
class OneOf(_Built):
    """A list of two or more values, in order and without repeats; `one_of` makes it."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if self.values and self.values[-1] != self.values[-1]:
            object.__setattr__(self, "values", (*self.values[:-1], math.nan))

    def __hash__(self) -> int:
        return hash((len(self.values), self.values[:1], self.values[-1:]))  # lists may be long

    @cached_property
    def as_set(self) -> frozenset[Any]:
        """The values, to look one up."""
        return frozenset(self.values)

    def __str__(self) -> str:
        return "{" + ", ".join(map(show_value, self.values)) + "}"


Pattern: TypeAlias = Anything | Constant | Range | OneOf | Nothing

ANYTHING, NOTHING = Anything(), Nothing()


# --- as users write them ----------------------------------------------------------------------------------


def constant(v: Any) -> Pattern:
    """The value alone."""
    return Constant(v)


def below(v: Any) -> Pattern:
    """Values before v."""
    return _range(None, v, False, False)


def upto(v: Any) -> Pattern:
    """Values before v, and v."""
    return _range(None, v, False, True)


def above(v: Any) -> Pattern:
    """Values after v."""
    return _range(v, None, False, False)


def since(v: Any) -> Pattern:
    """Values after v, and v."""
    return _range(v, None, True, False)


def between(a: Any, b: Any) -> Pattern:
    """Values from a to b, both included."""
    if b is None:
        raise _no_end()
    return _range(a, b, True, True)


def _range(low: Any, high: Any, low_closed: bool, high_closed: bool) -> Pattern:
    if (low is None and low_closed) or (low is None and high is None):
        raise _no_end()
    return Range(low, high, low_closed, high_closed)


def _no_end() -> BadPattern:
    return BadPattern(
        "NULL is no end of a range: it is before no value and after none",
        hint="write None for the column itself where NULL is meant",
    )


def one_of(values: Iterable[Any]) -> Pattern:
    """Any of some values; of one it is the constant, and of none it is nothing."""
    found = in_order(values)
    if len(found) < 2:
        return Constant(found[0]) if found else NOTHING
    return OneOf(tuple(found))


def pattern(x: Any) -> Pattern:
    """What a user writes for a column: a pattern, several values, or one."""
    if isinstance(x, (Anything, Constant, Range, OneOf, Nothing)):
        return x
    if isinstance(x, (set, frozenset, list, tuple)):
        return one_of(x)
    return Constant(x)


# --- what they mean ---------------------------------------------------------------------------------------


def matches(p: Pattern, value: Any) -> bool:
    """Whether a value, or NULL, is meant by the pattern."""
    match p:
        case Anything():
            return True
        case Nothing():
            return False
        case Constant(v):
            return order(v) == order(number(value))
        case OneOf():
            return number(value) in p.as_set
        case Range():
            if value is None:
                return False
            low, high = cuts(p)
            return low <= before(number(value)) < high
        case _:
            assert_never(p)


def combine(p: Pattern, q: Pattern, t: Base | None = None) -> Pattern:
    """Intersection: matches(combine(p, q), v) if and only if matches(p, v) and matches(q, v)."""
    match p, q:
        case (Anything(), other) | (other, Anything()):
            return other
        case (Nothing(), _) | (_, Nothing()):
            return NOTHING
        case (Constant(v), other):
            return p if matches(other, v) else NOTHING
        case (_, Constant(v)):
            return q if matches(p, v) else NOTHING
        case (OneOf(), OneOf()):
            few, many = sorted((p, q), key=lambda x: len(x.values))
            return listed([v for v in few.values if v in many.as_set], t)
        case (OneOf() as several, Range() as r) | (Range() as r, OneOf() as several):
            low, high = cuts(r, t)
            values = several.values
            first = bisect_left(values, low, values[0] is None, key=before)
            return listed(list(values[first : bisect_left(values, high, first, key=before)]), t)
        case (Range(), Range()):
            (low, high), (low2, high2) = cuts(p, t), cuts(q, t)
            return stretch(max(low, low2), min(high, high2), t)
    raise AssertionError("unreachable")


def subsumes(p: Pattern, q: Pattern, t: Base | None = None) -> bool:
    """q ⊆ p: every value that q means is one that p means."""
    match p, q:
        case (Anything(), _) | (_, Nothing()):
            return True
        case (Nothing(), _) | (_, Anything()):
            return False
        case (_, Constant(v)):
            return matches(p, v)
        case (OneOf(), OneOf()):
            return q.as_set <= p.as_set
        case (_, OneOf(values)):
            return all(matches(p, v) for v in values)
        case (Range(), Range()):
            (low, high), (low2, high2) = cuts(p, t), cuts(q, t)
            return low2 >= high2 or (low <= low2 and high2 <= high)
        case (Constant() | OneOf(), Range()):
            return _subsumes_stretch(p, q, t)
    raise AssertionError("unreachable")


def _subsumes_stretch(p: Constant | OneOf, q: Range, t: Base | None) -> bool:
    """Whether constants cover a range: those of a discrete type may."""
    found = stretch(*cuts(q, t), t)
    if not isinstance(found, Range) or not is_discrete(t):
        return not isinstance(found, Range) and subsumes(p, found)
    if found.low is None or found.high is None:
        return False
    known = p.as_set if isinstance(p, OneOf) else frozenset((p.value,))
    if count_between(found.low, found.high) > len(known):
        return False
    return all(v in known for v in values_between(found.low, found.high))


def minus(p: Pattern, q: Pattern, t: Base | None = None) -> tuple[Pattern, ...]:
    """The values of p that q does not mean, as patterns that have none in common."""
    (nulls, left), (gone, right) = pieces(p, t), pieces(q, t)
    out: list[Pattern] = [Constant(None)] if nulls and not gone else []
    place = 0
    for (
        low,
        high,
    ) in left:  # both are in order: what ends before one stretch ends before all that follow
        while place < len(right) and right[place][1] <= low:
            place += 1
        here = place
        while here < len(right) and right[here][0] < high and low < high:
            low2, high2 = right[here]
            out.append(stretch(low, min(low2, high), t))
            low, here = max(low, high2), here + 1
        out.append(stretch(low, high, t))
    values = in_order([x.value for x in out if isinstance(x, Constant)])
    out = [listed(values, t), *(x for x in out if isinstance(x, Range))]
    return tuple(x for x in out if x != NOTHING)


def pieces(p: Pattern, t: Base | None) -> tuple[bool, list[tuple[Cut, Cut]]]:
    """Whether NULL is meant, and the stretches of values, in order."""
    match p:
        case Anything():
            return True, [(FIRST, LAST)]
        case Nothing():
            return False, []
        case Range():
            return False, [cuts(p, t)]
        case Constant(v):
            return v is None, [] if v is None else [(before(v), after(v, t))]
        case OneOf(values):
            there = [v for v in values if v is not None]
            return len(there) < len(values), [(before(v), after(v, t)) for v in there]
        case _:
            assert_never(p)


def cuts(r: Range, t: Base | None = None) -> tuple[Cut, Cut]:
    """The two places that a range is between."""
    low = FIRST if r.low is None else before(r.low) if r.low_closed else after(r.low, t)
    high = LAST if r.high is None else after(r.high, t) if r.high_closed else before(r.high)
    return low, high


def stretch(low: Cut, high: Cut, t: Base | None = None) -> Pattern:
    """The values between two places, in the one form that they have in their type."""
    least, greatest = ends_of(t)
    if least is not None:
        low = FIRST if low <= before(least) else low
        if high == after(least, t) and low == FIRST:
            return Constant(least)
        if high <= before(least):
            return NOTHING
    if greatest is not None:
        high = LAST if high >= after(greatest, t) else high
        if low == before(greatest) and high == LAST:
            return Constant(greatest)
        if low >= after(greatest, t):
            return NOTHING
    if low >= high:
        return NOTHING
    first = None if low == FIRST else at(low)
    last = None if high == LAST else at(high)
    low_closed, high_closed = low != FIRST and low[-1] == 0, high != LAST and high[-1] == 1
    if last not in (None, date.min) and not high_closed and is_discrete(t):
        last, high_closed = previous(last), True
    if low_closed and high_closed and order(first) == order(last):
        return Constant(first)
    return Range(first, last, low_closed, high_closed)


def listed(values: list[Any], t: Base | None) -> Pattern:
    """Values in order, without repeats: in a discrete type those without a gap are a range."""
    if is_discrete(t) and len(values) > 1:
        first, nulls = values[0], values[0] is None
        if nulls and len(values) == 3 and isinstance(values[1], bool):
            return ANYTHING
        if not nulls and count_between(first, values[-1]) == len(values):
            return stretch(before(first), after(values[-1], t), t)
    if len(values) < 2:
        return Constant(values[0]) if values else NOTHING
    return OneOf(tuple(values))


def plain(p: Pattern) -> Pattern:
    """The pattern in the one form that its meaning has whatever the type is."""
    match p:
        case Range():
            return stretch(*cuts(p))
        case OneOf(values):
            return one_of(values)
        case _:
            return p


def normal(p: Pattern, t: KeyType, zone: str = "UTC", column: str = "") -> Pattern:
    """The pattern checked against a type, and in the one form that its meaning has there.

    Ends of a discrete type are closed, a range of one value is the constant, one of none is nothing, and an end that
    every value is within is missing. Times without a zone are of `zone`, and in UTC afterwards.
    """
    if not isinstance(t, Base):
        value_of(0, t, zone, column)
    assert isinstance(t, Base)
    match p:
        case Constant(v):
            made = value_of(v, t, zone, column)
            return p if made is v else Constant(made)
        case Anything() | Nothing():
            return p
        case OneOf(values):
            return listed(in_order([value_of(v, t, zone, column) for v in values]), t)
        case Range():
            low, high = (value_of(v, t, zone, column) for v in (p.low, p.high))
            if low is not None and high is not None and order(high) < order(low):
                raise BadPattern(
                    f"{f'`{column}`: ' if column else ''}the ends of {p} are turned round",
                    hint="the lower end comes first",
                )
            return stretch(*cuts(Range(low, high, p.low_closed, p.high_closed), t), t)
        case _:
            assert_never(p)


def size(p: Pattern) -> int:
    """How many values are written down for a pattern: constants, and ends of ranges."""
    match p:
        case Constant():
            return 1
        case OneOf(values):
            return len(values)
        case Range():
            return (p.low is not None) + (p.high is not None)
        case _:
            return 0


# --- text -------------------------------------------------------------------------------------------------

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"})


def show_value(value: Any) -> str:
    """The text of a value, which is read with the type of its column."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else f"'{value!r}'"
        case Decimal():
            return f"{value:f}"
        case date():  # and times
            return f"'{value.isoformat()}'"
        case bytes():
            return f"'{value.hex()}'"
        case _:
            return f"'{str(value).translate(_ESCAPES)}'"
