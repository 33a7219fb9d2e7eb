"""States as text: plain values with a tag where JSON has no such thing. Nothing is pickled, so no code is in a state.

None, true, 1, "a", 1.5            as they are            {"t": [..]}    a tuple           {"d": [[k, v], ..]}  a dict
{"r": [name, columns, values]}     a row with names       {"e": [h, r]}  an event          {"s": [..]}          a set
{"date": ..}, {"datetime": ..}, {"decimal": ..}, {"bytes": ..}, {"float": ..}              other values
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from headwater.errors import StreamError
from headwater.streams.schema import Event, row_class

_written = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
"""What writes JSON, made once."""


def as_text(state: Any) -> str:
    """A state as text."""
    return _written(_data(state))


def of_texts(texts: Sequence[str]) -> list[Any]:
    """States from their texts, read at once."""
    return [_value(d) for d in json.loads(f"[{','.join(texts)}]")]


def _data(v: Any) -> Any:
    kind = type(v)
    if v is None or kind is bool or kind is int or kind is str:
        return v
    if kind is float:
        return v if math.isfinite(v) else {"float": v.hex()}
    if kind is tuple:
        return {"t": [_data(x) for x in v]}
    if kind is list:
        return [_data(x) for x in v]
    if kind is dict:
        return {"d": [[_data(k), _data(x)] for k, x in v.items()]}
    if kind is Event:
        return {"e": [v[0], _data(v[1])]}
    if isinstance(v, tuple) and hasattr(kind, "_fields"):
        return {"r": [kind.__name__, list(kind._fields), [_data(x) for x in v]]}
    if isinstance(v, frozenset | set):
        return {"s": [_data(x) for x in sorted(v, key=repr)]}
    if isinstance(v, datetime | date):
        return {"datetime" if isinstance(v, datetime) else "date": v.isoformat()}
    if isinstance(v, Decimal):
        return {"decimal": str(v)}
    if isinstance(v, bytes):
        return {"bytes": v.hex()}
    if isinstance(v, np.generic):
        return _data(v.item())
    raise StreamError(
        f"a state has {v!r}, of type {kind.__name__}, which is no plain value",
        hint="numbers, text, dates, tuples, lists and dicts of such can be kept",
    )


_TAGS: dict[str, Any] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "decimal": Decimal,
    "bytes": bytes.fromhex,
    "float": float.fromhex,
}


def _value(d: Any) -> Any:
    if isinstance(d, list):
        return [_value(x) for x in d]
    if not isinstance(d, dict):
        return d
    ((tag, held),) = d.items()
    match tag:
        case "t":
            return tuple(_value(x) for x in held)
        case "d":
            return {_value(k): _value(x) for k, x in held}
        case "e":
            return Event(held[0], _value(held[1]))
        case "r":
            name, columns, values = held
            return row_class(name, tuple(columns))(*(_value(x) for x in values))
        case "s":
            return frozenset(_value(x) for x in held)
    return _TAGS[tag](held)
