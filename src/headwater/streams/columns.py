"""Columns of rows that functions give: declared as text, checked when they come, and put in an order of their own.

`fields("taxi BIGINT, x DOUBLE")` reads what a step declares. What a function of the user gives is checked against it row
by row: how many columns, and of which types, so that what is kept is plain data of known types. Functions over a bag are
given its rows in the order of their values, so that they are functions of the bag whatever they do with a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from headwater.calculus.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Base,
    decimal,
    field_name,
)
from headwater.errors import HeadwaterError, ParseError, StepFailed
from headwater.streams.schema import Event, Header, Headers

Row: TypeAlias = tuple[Any, ...]
Fields: TypeAlias = tuple[tuple[str, Base], ...]
"""Names and types of columns."""

TYPES = {
    **{"boolean": BOOLEAN, "string": STRING, "binary": BINARY, "float": FLOAT, "real": FLOAT},
    **{"byte": TINYINT, "tinyint": TINYINT, "short": SMALLINT, "smallint": SMALLINT},
    **{"int": INTEGER, "integer": INTEGER, "long": BIGINT, "bigint": BIGINT, "double": DOUBLE},
    **{"date": DATE, "timestamp": TIMESTAMP, "timestamp_ntz": TIMESTAMP_NTZ},
}
COLUMN = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>\w+))\s*:?\s+(?P<type>\w+)\s*(?:\((?P<size>[\d\s,]*)\))?\s*"
)


def fields(declared: str | Fields | Header) -> Fields:
    """Columns as they are declared: "taxi BIGINT, x DOUBLE".

    >>> [f"{name} {kind}" for name, kind in fields("id BIGINT, price DECIMAL(10, 2)")]
    ['id bigint', 'price decimal(10,2)']
    """
    if isinstance(declared, Header):
        return declared.fields
    if not isinstance(declared, str):
        return tuple(declared)
    found: list[tuple[str, Base]] = []
    for text in re.split(r",(?![^(]*\))", declared):
        column = COLUMN.fullmatch(text)
        kind = column and _type(column["type"].lower(), column["size"])
        if not column or not kind:
            raise ParseError(
                f"`{text.strip()}` is no column with a type, in `{declared}`",
                hint=f"for example: taxi BIGINT, x DOUBLE; types: {', '.join(TYPES)}, decimal(p, s)",
            )
        name = (column["quoted"] or column["name"]).replace("``", "`")
        if name in dict(found):
            raise ParseError(f"column `{name}` is declared twice, in `{declared}`")
        found.append((name, kind))
    return tuple(found)


def _type(name: str, size: str | None) -> Base | None:
    if name in ("decimal", "numeric", "dec"):
        precision, scale = (*map(int, (size or "10").split(",")), 0)[:2]
        return decimal(precision, scale)
    return TYPES.get(name) if size is None else None


# --- values -----------------------------------------------------------------------------------------------

CLASSES: dict[str, tuple[type, ...]] = {
    **{"boolean": (bool,), "string": (str,), "binary": (bytes,)},
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), (int,)),
    **dict.fromkeys(("float", "double"), (float, int)),
    **{"decimal": (Decimal, int), "date": (date,)},
    **dict.fromkeys(("timestamp", "timestamp_ntz"), (datetime,)),
}


BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
"""How large whole numbers are."""


def fits(value: Any, kind: Base) -> bool:
    """Whether a value is of a type; None is of each."""
    if value is None:
        return True
    classes = CLASSES.get(kind.name)
    if classes is None:
        return True  # a type that only passes through, such as an interval
    if isinstance(value, bool):
        return kind.name == "boolean"
    if isinstance(value, int) and kind.name in BITS:
        return -(1 << BITS[kind.name]) <= value < 1 << BITS[kind.name]
    if kind.name == "decimal":
        return isinstance(value, Decimal | int) and _has_room(kind, Decimal(value))
    if kind.name == "timestamp_ntz" and getattr(value, "tzinfo", None) is not None:
        return False
    return isinstance(value, classes) and not (kind.name == "date" and isinstance(value, datetime))


def _has_room(kind: Base, value: Decimal) -> bool:
    """Whether a decimal type has all digits of a value."""
    if not value.is_finite():
        return False
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    fraction = max(0, -exponent - (len(text) - len(text.rstrip("0"))))
    return not text or (
        fraction <= kind.scale and len(text) + exponent <= kind.precision - kind.scale
    )


def checked(given: Any, columns: Fields, where: str) -> Row:
    """A row that a function gave, in the types that were declared; whole numbers become doubles where those are."""
    if not isinstance(given, tuple | list) or len(given) != len(columns):
        raise StepFailed(
            f"{where} gives {given!r}, which is no row of {len(columns)} column{'s' * (len(columns) != 1)}",
            hint=f"its columns: {listed(columns)}",
        )
    for value, (name, kind) in zip(given, columns, strict=True):
        if not fits(value, kind):
            raise StepFailed(
                f"{where} gives {value!r} for `{name}`, which is no {kind}",
                hint=f"its columns: {listed(columns)}",
            )
    return tuple(
        float(value) if type(value) is int and kind.name in ("float", "double") else value
        for value, (_, kind) in zip(given, columns, strict=True)
    )


def listed(columns: Fields) -> str:
    """Columns as they are declared."""
    return ", ".join(f"{field_name(name)} {kind}" for name, kind in columns)


def rows_given(given: Any, header: Header, where: str) -> list[Event]:
    """What a function gave, as events of a header: None is no row, a tuple one, a list many."""
    if given is None:
        return []
    many = given if isinstance(given, list) else [given]
    return [Event(header.name, header.row(*checked(row, header.fields, where))) for row in many]


def named(header: Header, row: Row) -> Row:
    """A row with its columns as attributes."""
    return row if hasattr(row, "_fields") else header.row(*row)


def called(function: Callable[..., Any]) -> str:
    """The name of a function, for messages."""
    return f"`{getattr(function, '__qualname__', function)}`"


def safely(function: Callable[..., Any], where: str) -> Callable[..., Any]:
    """A function of the user whose errors say which step it belongs to, and what it was given."""

    def call(*given: Any) -> Any:
        try:
            return function(*given)
        except HeadwaterError:
            raise  # `emit` has said what is wrong
        except Exception as error:
            shown = ", ".join(repr(g) for g in given if not callable(g))
            raise StepFailed(
                f"{where}: {called(function)} fails with {type(error).__name__}: {error}",
                hint=f"it was given {shown if len(shown) < 300 else shown[:300] + '...'}",
            ) from error

    return call


# --- an order for bags ------------------------------------------------------------------------------------


def sort_key(row: Iterable[Any]) -> tuple[Any, ...]:
    """What rows of one header are sorted by: NULL first, NaN last."""
    return tuple((0, 0) if x is None else (2, 0) if x != x else (1, x) for x in row)


def in_order(events: Iterable[Event]) -> list[Event]:
    """The rows of a bag in the order of their headers and values."""
    return sorted(events, key=lambda e: (e[0], sort_key(e[1])))


def by_header(events: Iterable[Event], headers: Headers) -> dict[str, list[Row]]:
    """The rows of each header, with columns as attributes, in the order of their values."""
    found: dict[str, list[Row]] = {name: [] for name in headers}
    for name, row in in_order(events):
        found[name].append(named(headers[name], row))
    return found


def bag_given(events: Sequence[Event], headers: Headers) -> Any:
    """A bag as functions are given it: a list of rows, or a dict of such lists where there are several headers."""
    found = by_header(events, headers)
    return found if len(found) != 1 else next(iter(found.values()))
