"""Answer functions: functions of a whole ring value that are not linear in it.

Each is one row of `ANSWERS`: the type of the result from the type of the argument, and the function.
They see a bag as SQL does: a row is there when its multiplicity is positive. NULL is a value like any
other to them, the least one; a query whose min ignores NULLs leaves them out of the bag. What a grouped answer
does is said with `each` and scalars; only what needs the whole bag at once is listed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.calculus.dyadic import POWERS
from headwater.calculus.dyadic import shown as shown_of
from headwater.calculus.ring import RingMap
from headwater.calculus.scalars import order
from headwater.calculus.types import (
    DOUBLE,
    DYADIC,
    INT,
    STRING,
    Base,
    MapType,
    ProductType,
    RecordType,
    Type,
    bag,
    is_numeric,
)
from headwater.calculus.windows import evaluate as windows_of
from headwater.errors import ScalarError


@dataclass(frozen=True)
class AnswerFunction:
    """An answer: its type rule and its meaning, both given the parameters."""

    name: str
    types: Callable[[Type, tuple[Any, ...]], Type | None]
    apply: Callable[..., Any]
    expects: str


def _element(t: Type, _: tuple[Any, ...]) -> Type | None:
    return t.key if isinstance(t, MapType) and t.value == INT and isinstance(t.key, Base) else None


def _any_element(t: Type, _: tuple[Any, ...]) -> Type | None:
    return t.key if isinstance(t, MapType) and t.value == INT else None


def _ordered(t: Type, params: tuple[Any, ...]) -> Type | None:
    match t:
        case MapType(RecordType((("order", RecordType(columns)), ("row", row))), value):
            return bag(row) if value == INT and len(columns) == len(params[2]) else None
        case _:
            return None


def _numbers(t: Type, params: tuple[Any, ...]) -> Type | None:
    fits = isinstance(t, MapType) and t.value == INT and is_numeric(t.key)
    return DOUBLE if fits and 0 <= params[0] <= 1 else None


def _value_beside(t: Type, _: tuple[Any, ...]) -> Type | None:
    match t:
        case MapType(RecordType((("by", _), ("value", value))), count):
            return value if count == INT else None
        case _:
            return None


def _texts(t: Type, params: tuple[Any, ...]) -> Type | None:
    match t:
        case MapType(RecordType((("order", RecordType(columns)), ("row", row))), value):
            fits = value == INT and row == STRING and len(columns) == len(params[1])
            return STRING if fits else None
        case _:
            return None


def _sums(name: str) -> Callable[[Type, tuple[Any, ...]], Type | None]:
    """Of an answer that sums are shown by: one sum, or a count and sums."""
    wanted = [DYADIC if any(p) else INT for p in POWERS[name]]

    def types(t: Type, scales: tuple[Any, ...]) -> Type | None:
        given = [f for _, f in t.fields] if isinstance(t, ProductType) else [t]
        return DOUBLE if given == wanted and len(scales) in (0, len(POWERS[name][0])) else None

    return types


def _told(name: str) -> Callable[[tuple[Any, ...], Any], float | None]:
    def apply(scales: tuple[Any, ...], sums: Any) -> float | None:
        return shown_of(name, scales, sums if isinstance(sums, tuple) else (sums,))

    return apply


def _windowed(t: Type, params: tuple[Any, ...]) -> Type | None:
    directions, windows, names, _ = params
    match t:
        case MapType(RecordType((("order", RecordType(columns)), ("row", RecordType(row)))), value):
            fits = value == INT and len(columns) == len(directions)
            if not fits or tuple(n for n, _ in row) != names:
                return None
            values = RecordType(tuple((f"w{i}", w.returns) for i, w in enumerate(windows)))
            return bag(RecordType((("row", RecordType(row)), ("w", values))))
        case _:
            return None


def present(rows: RingMap) -> list[Any]:
    """The distinct rows that are there."""
    return [k for k, n in rows.items() if n > 0]


def smallest(_: tuple[Any, ...], rows: RingMap) -> Any:
    """The least row; NULL of an empty bag."""
    return min(present(rows), key=order, default=None)


def largest(_: tuple[Any, ...], rows: RingMap) -> Any:
    """The greatest row; NULL of an empty bag."""
    return max(present(rows), key=order, default=None)


def single(_: tuple[Any, ...], rows: RingMap) -> Any:
    """The only row of a bag; NULL if it is empty, an error if there are more."""
    there = present(rows)
    if len(there) > 1 or sum(rows[k] for k in there) > 1:
        raise ScalarError(
            "a scalar subquery gave more than one row", hint="aggregate it, for example with max()"
        )
    return there[0] if there else None


def _in_order(rows: RingMap, directions: tuple[tuple[bool, bool], ...]) -> list[Any]:
    """The rows {order, row} that are there, in the order given per order column by (descending, nulls last);
    ties are broken by the row itself, so that the order is one.
    """
    ranked = sorted(present(rows), key=lambda k: order(k[1]))
    for i in reversed(range(len(directions))):
        descending, nulls_last = directions[i]

        def column(k: Any, i: int = i) -> Any:
            return None if k[0] is None else k[0][i]

        def absent(k: Any, column: Any = column, last: bool = nulls_last) -> bool:
            return (column(k) is None) == last

        ranked.sort(key=lambda k, column=column: order(column(k)), reverse=descending)  # type: ignore[misc]
        ranked.sort(key=absent)
    return ranked


def first(params: tuple[Any, ...], rows: RingMap) -> RingMap:
    """The rows from `offset` on, at most `limit` of them, in the order of `_in_order`."""
    limit, offset, directions = params
    out: dict[Any, int] = {}
    position = 0
    for key in _in_order(rows, directions):
        end = position + rows[key]
        stop = end if limit is None else min(end, offset + limit)
        taken = stop - max(position, offset)
        if taken > 0:
            out[key[1]] = out.get(key[1], 0) + taken
        position = end
    return RingMap(out)


def _sorted_values(rows: RingMap, descending: bool) -> list[float]:
    """The numbers of a bag as doubles, each as often as it is there, in order."""
    ranked = sorted(present(rows), key=order, reverse=descending)
    return [float(k) for k in ranked for _ in range(rows[k])]


def percentile(params: tuple[Any, ...], rows: RingMap) -> float | None:
    """The number at the place (n - 1) p, counted from 0; between two places it is as near to both as the place is."""
    p: float = params[0]
    values = _sorted_values(rows, params[1])
    if not values:
        return None
    place = (len(values) - 1) * p
    low, high = math.floor(place), math.ceil(place)
    if values[low] == values[high] or low == high:
        return values[low]
    return (high - place) * values[low] + (place - low) * values[high]


def percentile_disc(params: tuple[Any, ...], rows: RingMap) -> float | None:
    """The first number such that a share p of all numbers has come when it has."""
    p: float = params[0]
    values = _sorted_values(rows, params[1])
    return values[max(math.ceil(len(values) * p), 1) - 1] if values else None


def mode(params: tuple[Any, ...], rows: RingMap) -> Any:
    """The row that is there most often; of several the least, or, descending, the greatest."""
    ranked = sorted(present(rows), key=order, reverse=params[0])
    return max(ranked, key=lambda k: rows[k], default=None)  # the first of several


def max_by(_: tuple[Any, ...], rows: RingMap) -> Any:
    """The value beside the greatest `by`; of several the greatest."""
    found = max(present(rows), key=order, default=None)
    return None if found is None else found[1]


def min_by(_: tuple[Any, ...], rows: RingMap) -> Any:
    """The value beside the least `by`; of several the least."""
    found = min(present(rows), key=order, default=None)
    return None if found is None else found[1]


def window(params: tuple[Any, ...], rows: RingMap) -> RingMap:
    """Rows beside what window functions say of them: all of them, or with a limit n the first n in order."""
    directions, windows, names, limit = params
    partition = [(k[0], dict(zip(names, k[1], strict=True)), n) for k, n in rows.items()]
    out: dict[Any, int] = {}
    for row, values in windows_of(partition, directions, windows)[:limit]:
        key = (tuple(row.values()), values)
        out[key] = out.get(key, 0) + 1
    return RingMap(out)


def listagg(params: tuple[Any, ...], rows: RingMap) -> str | None:
    """The texts in order, with a separator between them."""
    separator, directions = params
    texts = [k[1] for k in _in_order(rows, directions) for _ in range(rows[k])]
    return separator.join(texts) if texts else None


ANSWERS = {
    "min": AnswerFunction("min", _element, smallest, "a bag of scalars"),
    "max": AnswerFunction("max", _element, largest, "a bag of scalars"),
    "single": AnswerFunction("single", _any_element, single, "a bag of rows"),
    "first": AnswerFunction("first", _ordered, first, "a bag of {order: {...}, row: ...}"),
    "window": AnswerFunction("window", _windowed, window, "a bag of {order: {...}, row: {...}}"),
    "percentile": AnswerFunction("percentile", _numbers, percentile, "a bag of numbers"),
    "percentile_disc": AnswerFunction(
        "percentile_disc", _numbers, percentile_disc, "a bag of numbers"
    ),
    "mode": AnswerFunction("mode", _element, mode, "a bag of scalars"),
    "max_by": AnswerFunction("max_by", _value_beside, max_by, "a bag of {by: ..., value: ...}"),
    "min_by": AnswerFunction("min_by", _value_beside, min_by, "a bag of {by: ..., value: ...}"),
    "listagg": AnswerFunction("listagg", _texts, listagg, "a bag of {order: {...}, row: string}"),
    **{n: AnswerFunction(n, _sums(n), _told(n), "a count and exact sums") for n in POWERS},
}
