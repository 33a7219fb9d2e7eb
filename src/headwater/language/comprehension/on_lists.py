"""Loops and modes on plain lists: what `hw.repeat`, `hw.within` and `hw.mode` do when a query runs as Python.

A query that is called runs, so that it is its own oracle. `repeat` is what its name says:

    X₀ = init,  Xᵢ = step(Xᵢ₋₁)

Collections are compared as bags: order does not matter, how often a row is there does. Rows that are dicts come to the
step as rows with their fields as attributes too, so that `r.rank` and `r["rank"]` are both what they are in a query.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headwater.calculus.scalars import order
from headwater.calculus.terms import Within
from headwater.errors import NoFixpoint, NotIncremental

MOST_TIMES, LIMIT, MOST_ROUNDS = 1_000, 10_000, 1_000_000

Collections = tuple[list[Any], ...]

_NONE: Any = object()


def repeat(
    init: Any,
    step: Callable[..., Any],
    /,
    *,
    times: int | None = None,
    until: Within | None = None,
    limit: int = LIMIT,
) -> Any:
    """The collection `init`, and again and again what `step` makes of it, until nothing changes.

    In a query it is a loop that is kept up to date; on lists it runs:

    >>> import headwater as hw
    >>> edges = [(1, 2), (2, 3), (3, 1), (4, 4)]
    >>> sorted(hw.repeat([1], lambda seen: set([1] + [b for a, b in edges if a in seen])))
    [1, 2, 3]

    With `times` there are so many rounds, 0 to 1,000; with `until=hw.within(0.01, "rank", by="node")` they end when no value
    moves by more. Otherwise a loop that still changes after `limit` rounds is an error (`NoFixpoint`).

    A tuple of collections goes round together; the step has a parameter for each, and gives a tuple:

    >>> odd, even = hw.repeat(([], [0]), lambda o, e: ([n + 1 for n in e], [n + 1 for n in o]), times=3)
    >>> odd, even
    ([3], [])
    """
    if not callable(step):
        raise NotIncremental("LOOP_STEP", f"the step is {step!r}, and no function", hint=STEP)
    end_of(times, until, limit)
    several = isinstance(init, tuple)
    if several and until is not None:
        raise NotIncremental("LOOP_END", SEVERAL, hint="say how many rounds there are: times=")
    now = _collections(init, several)
    earlier = before = now
    for _ in range(limit if times is None else times):
        earlier, before, now = before, now, _collections(step(*now), several, len(now))
        if until is None and _bags(before) == _bags(now):
            break
        if until is not None and _settled(until, before[0], now[0]):
            break
    else:
        if times is None:
            raise _endless(limit, earlier, before, now)
    return now if several else now[0]


def within(epsilon: float, column: str, *, by: str | Iterable[str]) -> Within:
    """An end of rounds for `hw.repeat(..., until=)`: no value of `column` moves by more than `epsilon`, at no key `by`.

    `by` is a column, or several, that tell the rows of a round apart; a key that comes or goes is a change, too.

    >>> import headwater as hw
    >>> halves = hw.repeat([{"k": 1, "x": 8.0}], lambda xs: [{"k": x.k, "x": x.x / 2} for x in xs],
    ...     until=hw.within(1.5, "x", by="k"))
    >>> [h.x for h in halves]
    [1.0]
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    number = isinstance(epsilon, (int, float)) and not isinstance(epsilon, bool)
    if not (number and math.isfinite(epsilon) and epsilon >= 0):
        what = f"`within` is given {epsilon!r}, and takes a number that is not negative"
        raise NotIncremental("LOOP_END", what, hint=WITHIN)
    if not isinstance(column, str) or not keys or not all(isinstance(k, str) for k in keys):
        raise NotIncremental("LOOP_END", "`within` takes the names of columns", hint=WITHIN)
    if column in keys:
        what = f"the column `{column}` cannot both move and tell rows apart"
        raise NotIncremental("LOOP_END", what, hint=WITHIN)
    return Within(float(epsilon), column, keys)


def mode(values: Iterable[Any], *, default: Any = _NONE) -> Any:
    """The most frequent value that is not None, of several the least; of none an error, or the default.

    >>> import headwater as hw
    >>> hw.mode([3, 1, 2, 1, 3]), hw.mode([], default=0)
    (1, 0)
    """
    counts: Counter[Any] = Counter(_told(v) for v in values if v is not None)
    if counts:
        most = max(counts.values())
        return min((v for v, n in counts.items() if n == most), key=order)
    if default is _NONE:
        raise ValueError("mode() of an empty collection")
    return default


# --- how a loop ends -----------------------------------------------------------------------------

STEP = "write hw.repeat(start, lambda rows: [... for x in rows]), or define the step with def before it"
SEVERAL = "`until` measures one collection, and this loop has several"
WITHIN = 'write until=hw.within(0.01, "rank", by="node")'


def end_of(times: Any, until: Any, limit: Any) -> None:
    """Refuses ends of loops that are none."""
    times_of(times)
    until_of(until)
    limit_of(limit)
    if times is not None and until is not None:
        raise NotIncremental(
            "LOOP_END", "a loop has `times` or `until`, and not both", hint="leave one of them out"
        )
    if times is not None and limit != LIMIT:
        raise NotIncremental(
            "LOOP_END", "`limit` says nothing where `times` does", hint="leave `limit` out"
        )


def times_of(value: Any) -> int | None:
    """The number of rounds, or None."""
    if value is None or (type(value) is int and 0 <= value <= MOST_TIMES):
        return value
    raise NotIncremental(
        "LOOP_END",
        f"`times` is {_shown(value)}, and not a constant from 0 to {MOST_TIMES:,}",
        hint="write times=10; without it a loop goes on until nothing changes",
    )


def until_of(value: Any) -> Within | None:
    """The measure that ends the rounds, or None."""
    if value is None or isinstance(value, Within):
        return value
    what = f"`until` is {_shown(value)}, and not `hw.within` of constants"
    raise NotIncremental("LOOP_END", what, hint=WITHIN)


def limit_of(value: Any) -> int:
    """The number of rounds after which a loop is said not to end."""
    if type(value) is int and 0 < value <= MOST_ROUNDS:
        return value
    raise NotIncremental(
        "LOOP_END",
        f"`limit` is {_shown(value)}, and not a constant from 1 to {MOST_ROUNDS:,}",
        hint=f"leave it out: it is {LIMIT:,} then",
    )


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, (int, float, str)) else "something else"


def _endless(limit: int, earlier: Collections, before: Collections, now: Collections) -> NoFixpoint:
    old, new = (Counter(x for b in _bags(c) for x in b.elements()) for c in (before, now))
    moved = [*(new - old).elements(), *(old - new).elements()]
    what = f"the loop still changes after {limit:,} rounds: {len(moved):,} rows in the last one"
    if _bags(earlier) == _bags(now):
        what += "; two rounds alternate"
    hint = "end it: times= says how many rounds there are, until= how near is near enough"
    return NoFixpoint(what, hint=hint)


# --- rows and bags -------------------------------------------------------------------------------


class LoopRow(dict[str, Any]):
    """A row of a loop: its fields are items and attributes, those that are named like a method of dicts, too."""

    def __getattribute__(self, name: str) -> Any:
        if dict.__contains__(self, name):
            return _as_row(dict.__getitem__(self, name))
        return super().__getattribute__(name)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(_told(self))


def _as_row(value: Any) -> Any:
    return LoopRow(value) if type(value) is dict else value


def _collections(value: Any, several: bool, count: int | None = None) -> Collections:
    """What goes round: one collection, or a tuple of them."""
    if several != isinstance(value, tuple) or (several and count not in (None, len(value))):
        given = f"{len(value)} collections" if isinstance(value, tuple) else "one collection"
        wanted = f"{count} collections in a tuple" if several else "one"
        raise NotIncremental(
            "LOOP_STEP", f"the step gives {given}, and the loop has {wanted}", hint=STEP
        )
    return tuple([_as_row(row) for row in c] for c in (value if several else (value,)))


def _bags(collections: Collections) -> list[Counter[Any]]:
    return [Counter(map(_told, rows)) for rows in collections]


def _told(value: Any) -> Any:
    """A value that is equal to another one where a query takes them for equal."""
    if isinstance(value, dict):
        return frozenset((name, _told(v)) for name, v in dict.items(value))
    if isinstance(value, tuple):
        return tuple(map(_told, value))
    if isinstance(value, (list, set, frozenset)):
        return frozenset(Counter(map(_told, value)).items())
    return math.nan if isinstance(value, float) and value != value else value


def _settled(end: Within, before: list[Any], now: list[Any]) -> bool:
    """Whether every key has as many rows and values as before, and their sum moved by no more than epsilon."""

    def values(rows: list[Any]) -> dict[Any, list[Any]]:
        out: dict[Any, list[Any]] = {}
        for r in rows:
            mine = out.setdefault(tuple(_told(_cell(r, b)) for b in end.by), [])
            mine.append(_cell(r, end.column))
        return out

    old, new = values(before), values(now)
    return old.keys() == new.keys() and all(_near(old[k], new[k], end.epsilon) for k in old)


def _near(before: list[Any], now: list[Any], epsilon: float) -> bool:
    """Whether one key has as many rows and values as before, and what is not the same moved by no more than epsilon."""
    old, new = (Counter(_told(v) for v in values if v is not None) for values in (before, now))
    if len(before) != len(now) or old.total() != new.total():
        return False
    come, gone = new - old, old - new
    return bool(abs(sum(come.elements()) - sum(gone.elements())) <= epsilon)


def _cell(row: Any, column: str) -> Any:
    if isinstance(row, Mapping):
        return row[column]
    if isinstance(row, tuple) and re.fullmatch(r"_[1-9]\d*", column) and not hasattr(row, column):
        return row[int(column[1:]) - 1]
    return getattr(row, column)
