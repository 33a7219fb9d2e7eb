"""Answer functions: functions of a whole ring value that are not linear in it.

Each is one row of `ANSWERS`: the type of the result from the type of the argument, and the function.
They see a bag as SQL does: a row is there when its multiplicity is positive. NULL is a value like any
other to them, the least one; a query whose min ignores NULLs leaves them out of the bag. What a grouped answer
does is said with `each` and scalars; only what needs the whole bag at once is listed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.calculus.ring import RingMap
from headwater.calculus.scalars import order
from headwater.calculus.types import INT, Base, MapType, RecordType, Type, bag
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


def _ordered(t: Type, params: tuple[Any, ...]) -> Type | None:
    match t:
        case MapType(RecordType((("order", RecordType(columns)), ("row", row))), value):
            return bag(row) if value == INT and len(columns) == len(params[2]) else None
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


def first(params: tuple[Any, ...], rows: RingMap) -> RingMap:
    """The rows from `offset` on, at most `limit` of them, in the order given per order column by
    (descending, nulls last); ties are broken by the row itself, so that the answer is one bag.
    """
    limit, offset, directions = params
    ranked = sorted(present(rows), key=lambda k: order(k[1]))
    for i in reversed(range(len(directions))):
        descending, nulls_last = directions[i]

        def column(k: Any, i: int = i) -> Any:
            return None if k[0] is None else k[0][i]

        def absent(k: Any, column: Any = column, last: bool = nulls_last) -> bool:
            return (column(k) is None) == last

        ranked.sort(key=lambda k, column=column: order(column(k)), reverse=descending)  # type: ignore[misc]
        ranked.sort(key=absent)
    out: dict[Any, int] = {}
    position = 0
    for key in ranked:
        end = position + rows[key]
        stop = end if limit is None else min(end, offset + limit)
        taken = stop - max(position, offset)
        if taken > 0:
            out[key[1]] = out.get(key[1], 0) + taken
        position = end
    return RingMap(out)


ANSWERS = {
    "min": AnswerFunction("min", _element, smallest, "a bag of scalars"),
    "max": AnswerFunction("max", _element, largest, "a bag of scalars"),
    "single": AnswerFunction("single", _element, single, "a bag of scalars"),
    "first": AnswerFunction("first", _ordered, first, "a bag of {order: {...}, row: ...}"),
}
