"""Sets of punctuations made small: the same rows, in fewer words.

Two punctuations that differ in one column only are one, with the union of what that column has: ranges that touch are
one range, constants are one list, and constants of a discrete type without a gap are a range. What another punctuation
covers is gone. A set has a *size*, the number of values that are written down for it; no step makes it larger, and a
set over one column has one form only. Work is about linear: punctuations are found by the constants that they have.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import accumulate
from operator import itemgetter, sub
from typing import Any

from headwater.calculus.patterns.pattern import (
    ANYTHING,
    NOTHING,
    Anything,
    Constant,
    Nothing,
    OneOf,
    Pattern,
    Range,
    cuts,
    listed,
    size,
    stretch,
)
from headwater.calculus.patterns.punctuation import Punctuation
from headwater.calculus.patterns.values import (
    DAY,
    Cut,
    after,
    before,
    count_between,
    in_order,
    is_discrete,
    values_between,
)
from headwater.calculus.types import Base

Stretches = list[tuple[Cut, Cut]]
Box = tuple[Pattern, ...]


def compact(members: Iterable[Punctuation], types: Mapping[str, Base]) -> tuple[Punctuation, ...]:
    """The same set in fewer words; members must be in normal form."""
    shapes: dict[tuple[str, ...], dict[Box, None]] = {}
    for p in members:
        shape, box = tuple(zip(*p.columns, strict=True)) or ((), ())
        if NOTHING not in box:
            shapes.setdefault(shape, {})[box] = None
    out: list[Punctuation] = []
    while shapes:
        shape = max(shapes, key=lambda s: (len(s), s))
        if not shape:
            return (Punctuation(),)
        for box in _merged(list(shapes.pop(shape)), [types.get(n) for n in shape]):
            if ANYTHING in box:  # all values of a column, and NULL: the shape has a column less
                left = [(n, q) for n, q in zip(shape, box, strict=True) if q != ANYTHING]
                fewer = shapes.setdefault(tuple(n for n, _ in left), {})
                fewer[tuple(q for _, q in left)] = None
            else:
                out.append(Punctuation(tuple(zip(shape, box, strict=True))))
    known = Index(out)
    if known.is_flat:
        return tuple(out)
    return tuple(
        p for p in out if not any(q is not p and q.subsumes(p, types) for q in known.near(p))
    )


def _merged(boxes: list[Box], types: list[Base | None]) -> list[Box]:
    """Boxes of one shape with those made one that differ in one column, until that saves nothing."""
    cost = None
    while cost is None or _cost(boxes) < cost:
        cost = _cost(boxes)
        for i, t in enumerate(types):
            boxes = _merged_along(boxes, i, t)
        if len(types) == 1:
            break
    return boxes


def _cost(boxes: list[Box]) -> tuple[int, int]:
    return sum(size(p) for box in boxes for p in box), len(boxes)


def _merged_along(boxes: list[Box], i: int, t: Base | None) -> list[Box]:
    groups: dict[Box, list[Pattern]] = {}
    for box in boxes:
        groups.setdefault(box[:i] + box[i + 1 :], []).append(box[i])
    out: list[Box] = []
    for rest, found in groups.items():
        if len(found) > 1 or isinstance(found[0], OneOf):
            found = united(found, t, sum(map(size, rest)))
        out += [(*rest[:i], p, *rest[i:]) for p in found]
    return out


def united(patterns: Iterable[Pattern], t: Base | None = None, beside: int = 0) -> list[Pattern]:
    """The patterns of least size that mean what these mean together; each also costs what is `beside` it.

    They have no value in common, and depend on nothing but the meaning: ranges, and at most one list.
    """
    values: list[Any] = []
    found: Stretches = []
    for p in patterns:
        match p:
            case Constant(v):
                values.append(v)
            case OneOf(several):
                values += several
            case Range():
                found.append(cuts(p, t))
            case Anything():
                return [ANYTHING]
            case Nothing():
                pass
    values = in_order(values)
    nulls = values[:1] == [None]
    points = values[1:] if nulls else values
    if is_discrete(t):
        points, runs = _runs(points, t)
        found += runs
    points, found = _joined(points, _touching(found), t)
    ranges = [stretch(low, high, t) for low, high in found]
    if nulls and any(r == Range(None, None, False, False) for r in ranges):
        return [ANYTHING]
    wide: list[Pattern] = [r for r in ranges if isinstance(r, Range)]
    more = [r.value for r in ranges if isinstance(r, Constant)]
    if is_discrete(t):
        wide, short = _written_out(wide, beside, bool(points or more or nulls))
        more += short
    if more:
        points = sorted(points + more) if is_discrete(t) else in_order(points + more)
    if not points and not nulls:
        return wide
    return [*wide, listed([None, *points] if nulls else points, t)]


def _runs(points: list[Any], t: Base | None) -> tuple[list[Any], Stretches]:
    """Values of a discrete type: those that stand alone, and stretches without a gap."""
    one: Any = DAY if points and isinstance(points[0], date) else 1
    steps = map(sub, points[1:], points)
    near = [i for i, step in enumerate(steps) if step == one]  # whose next value is there too
    alone: list[Any] = []
    runs: Stretches = []
    start = at = 0
    while at < len(near):
        first = last = near[at]
        while at < len(near) and near[at] == last:
            last += 1
            at += 1
        alone += points[start:first]
        runs.append((before(points[first]), after(points[last], t)))
        start = last + 1
    return alone + points[start:], runs


def _touching(found: Stretches) -> Stretches:
    """Stretches in order, with those that touch or overlap made one."""
    out: Stretches = []
    for low, high in sorted(x for x in found if x[0] < x[1]):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


def _joined(points: list[Any], found: Stretches, t: Base | None) -> tuple[list[Any], Stretches]:
    """Points that lie in a stretch or at its end go into it; points are in order, and so are stretches."""
    if not found or not points:
        return points, found
    left: list[Any] = []
    grown: Stretches = []
    start = 0
    for low, high in found:
        i = bisect_left(points, low, start, key=before)
        j = bisect_left(points, high, i, key=before)
        if i > start and after(points[i - 1], t) == low:
            i -= 1
            low = before(points[i])
        if j < len(points) and before(points[j]) == high:
            high = after(points[j], t)
            j += 1
        left += points[start:i]
        grown.append((low, high))
        start = j
    return left + points[start:], _touching(grown)


def _written_out(wide: list[Pattern], beside: int, a_list: bool) -> tuple[list[Pattern], list[Any]]:
    """Short ranges of a discrete type as values of the one list, where that is shorter: never in a column by itself."""
    ranges: list[Pattern] = []
    short: list[Range] = []
    for r in wide:
        assert isinstance(r, Range)
        bounded = r.low is not None and r.high is not None
        fits = bounded and count_between(r.low, r.high) < 2 + beside
        (short if fits else ranges).append(r)
    values = [v for r in short for v in values_between(r.low, r.high)]
    if not a_list and len(values) + beside >= len(short) * (2 + beside):
        return wide, []
    return ranges, values


# --- finding members --------------------------------------------------------------------------------------


class Index:
    """Members by their constants, so that those that could cover a row or punctuation are found at once."""

    def __init__(self, members: Iterable[Punctuation]):
        self.kinds: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[tuple[Any, ...], _Near]] = {}
        for p in members:
            fixed = tuple(n for n, q in p.columns if isinstance(q, Constant))
            wide = tuple(n for n, q in p.columns if not isinstance(q, Constant))
            known = self.kinds.setdefault((fixed, wide), {})
            key = tuple(q.value for _, q in p.columns if isinstance(q, Constant))
            known.setdefault(key, _Near(wide)).add(p)

    @property
    def is_flat(self) -> bool:
        """Whether all members are constants of the same columns, so that none covers another."""
        return len(self.kinds) <= 1 and not any(wide for _, wide in self.kinds)

    def near(self, what: Punctuation) -> Iterator[Punctuation]:
        """Members that may cover a punctuation; all that do are among them."""
        patterns = dict(what.columns)
        for (fixed, wide), known in self.kinds.items():
            here = [patterns.get(n, ANYTHING) for n in fixed]
            if all(isinstance(q, Constant) for q in here):
                found = known.get(tuple(q.value for q in here if isinstance(q, Constant)))
                if found is not None:
                    yield from found.near(patterns.get(wide[0], ANYTHING) if wide else ANYTHING)


class _Near:
    """Members with the same constants, in the order in which the first of their other columns begins.

    What covers a stretch begins before it and ends after it; the greatest end so far says how far back one has to look.
    """

    def __init__(self, wide: tuple[str, ...]):
        self.column = wide[0] if wide else None
        self.always: list[Punctuation] = []
        self.placed: list[tuple[Cut, Cut, Punctuation]] = []
        self.ends: list[Cut] = []

    def add(self, p: Punctuation) -> None:
        span = None if self.column is None else _span(p.at(self.column))
        if span is None:
            self.always.append(p)
        else:
            self.placed.append((*span, p))
            self.ends = []

    def near(self, q: Pattern) -> Iterator[Punctuation]:
        yield from self.always
        span = _span(q)
        if not self.placed or span is None:
            return
        if not self.ends:
            self.placed.sort(key=itemgetter(0))
            self.ends = list(accumulate((x[1] for x in self.placed), max))
        i = bisect_right(self.placed, span[0], key=itemgetter(0))
        while i and self.ends[i - 1] >= span[1]:
            i -= 1
            if self.placed[i][1] >= span[1]:
                yield self.placed[i][2]


def _span(q: Pattern) -> tuple[Cut, Cut] | None:
    """From the first to the last value of a pattern; None where NULL is meant too."""
    match q:
        case Range():
            return cuts(q)
        case Constant(v) if v is not None:
            return before(v), after(v)
        case OneOf(values) if values[0] is not None:
            return before(values[0]), after(values[-1])
        case _:
            return None
