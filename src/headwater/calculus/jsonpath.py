"""get_json_object: the value at a path of JSON text, as text.

    {"a": {"b": [1, "x"]}}    $.a.b[1] is x, $.a.b is [1,"x"], $.c is NULL

JSON is read strictly here. What Spark reads all the same or gives up half way (other quotes, a broken end, a name that
is there twice, very large and very small numbers) is left to it.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from headwater.calculus.casts import double_text
from headwater.calculus.scalars import SCALARS, Scalar
from headwater.calculus.types import STRING, VOID

_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]{1,6})\]")
_PATH = re.compile(rf"\$(?:{_STEP.pattern})+")
LONGEST = 1_000_000
"""Jackson has limits of its own for longer text."""


class Number(str):
    """A number, by its text."""


@cache
def steps(path: str) -> tuple[str | int, ...] | None:
    """The names and places of a path; None where it has more than these."""
    if not _PATH.fullmatch(path):
        return None
    return tuple(int(place) if place else name for name, place in _STEP.findall(path))


def get_json_object(text: str, path: str) -> str | None:
    """The value at a path; NULL where there is none."""
    way = steps(path)
    if way is None or len(text) > LONGEST:
        raise ValueError("a path of JSON that only Spark reads")
    value = _read(text)
    if not isinstance(value, (dict, list)):
        raise ValueError("JSON that is no object and no array")
    for step in way:
        match value:
            case dict() if isinstance(step, str) and value.get(step) is not None:
                value = value[step]
            case list() if isinstance(step, int) and step < len(value):
                value = value[step]
            case _:
                return None
    if type(value) is str and _HALF.search(value):
        raise ValueError("half of a letter")
    return value if type(value) is str else _written(value)


def _read(text: str) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=_double,
            parse_int=_whole,
            parse_constant=_refuse,
        )
    except RecursionError as e:
        raise ValueError("JSON with many levels") from e


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a name that is there twice")
    return out


def _whole(text: str) -> Number:
    if text == "-0" or len(text) > 300:
        raise ValueError("a number with another text in Java")
    return Number(text)


def _double(text: str) -> Number:
    """A number with a point or an exponent, which Spark writes as a double."""
    value = float(text)
    if value and not 1e-6 <= abs(value) < 1e15:
        raise ValueError("a number with another text in Java")
    return Number(double_text(value))


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} may have another text in Java")


_HALF = re.compile("[\ud800-\udfff]")
_PLAIN = re.compile(r'[^\x00-\x1f\x7f"\\\ud800-\udfff]*')


def _written(value: Any) -> str:
    """A value as JSON without spaces."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case Number():
            return str(value)
        case str():
            if not _PLAIN.fullmatch(value):
                raise ValueError("signs that Java may write otherwise")
            return f'"{value}"'
        case list():
            return f"[{','.join(map(_written, value))}]"
        case _:
            return "{" + ",".join(f"{_written(k)}:{_written(v)}" for k, v in value.items()) + "}"


SCALARS["get_json_object"] = Scalar(
    "get_json_object",
    lambda types: STRING if all(t in (STRING, VOID) for t in types) else None,
    lambda _r, _t, text, path: get_json_object(text, path),
    True,
    (2, 2),
)
