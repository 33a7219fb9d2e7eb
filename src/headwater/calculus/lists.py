"""Constant lists, as text: `'[1, 2, null]':list(bigint)`.

The long list of an IN is one constant, so that nothing walks its elements one by one. Its text is JSON: integers, texts and
truth values as they are, all else as the text of the value, which the type of the elements tells how to read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from headwater.calculus.types import Base, KeyType, ListType, Type

_READ: dict[str, Callable[[str], Any]] = {
    "float": float,
    "double": float,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
    "binary": bytes.fromhex,
}


def can_list(t: KeyType) -> bool:
    """Whether there are constant lists of a type."""
    return isinstance(t, Base) and t.name != "void"


def show_list(values: tuple[Any, ...]) -> str:
    """The text of a list."""
    return json.dumps([_shown(v) for v in values], ensure_ascii=False)


def read_list(text: str, t: Type) -> tuple[Any, ...]:
    """The list that a text stands for."""
    values = json.loads(text)
    read = None
    match t:
        case ListType(Base(name)):
            read = _READ.get(name)
    if read is not None:
        values = [None if v is None else read(v) for v in values]
    return tuple(math.nan if v != v else v for v in values)  # the one NaN, so that equal lists are


def _shown(value: Any) -> Any:
    match value:
        case float():
            return repr(value)
        case Decimal():
            return f"{value:f}"
        case date():  # and times
            return value.isoformat()
        case bytes():
            return value.hex()
        case _:
            return value
