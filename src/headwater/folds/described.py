"""Steps as data: what the log has of a stream's steps, and the steps again where they have no functions of Python.

A step is its class and its fields; a function is its name and its mark, a hash of what it does. Two definitions are the
same if their data is. Steps without functions are made again from their data, so that such a stream runs in any process;
one with functions is bound when it is defined again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from headwater.calculus.notation.parse import parse_type
from headwater.calculus.types import Base
from headwater.dataflow.marks import mark
from headwater.errors import StreamMissing
from headwater.streams import queries, regex, schema, steps, words

_WORDS = words
"""Steps are found as classes under `Step`, so that all of their modules must be read."""


def _classes() -> dict[str, type]:
    """The classes that steps are made of, by name."""
    found: dict[str, type] = {}
    todo: list[type] = [steps.Step]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if is_dataclass(cls):
            found[cls.__name__] = cls
    for module in (regex, queries, schema):
        for name, value in vars(module).items():
            if isinstance(value, type) and is_dataclass(value):
                found[name] = value
    return found


def described(value: Any) -> Any:
    """A step, or a part of one, as plain data."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Base):
        return {"type": str(value)}
    if is_dataclass(value) and not isinstance(value, type):
        cells = {f.name: described(getattr(value, f.name)) for f in fields(value) if f.init}
        return {"is": type(value).__name__, **cells}
    if isinstance(value, tuple | list):
        return {"t": [described(v) for v in value]}
    if isinstance(value, dict):
        return {"d": [[described(k), described(v)] for k, v in value.items()]}
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return {"function": name, "mark": mark(value)}
    raise TypeError(f"{value!r} is no part of a step")


def unknown(name: str) -> Callable[..., Any]:
    """What stands for a function that is not there, so that its step can be looked at."""

    def missing(*_: Any) -> Any:
        raise StreamMissing(
            f"the function `{name}` is not known in this process",
            hint="define its stream again with db.stream, by the same name",
        )

    missing.__qualname__ = name
    return missing


def _refused(name: str) -> Callable[..., Any]:
    raise LookupError(name)


def restored(data: Any, function: Callable[[str], Any] = _refused) -> Any:
    """A step from its data; `function` gives what stands for one of Python, else that is a LookupError."""
    if isinstance(data, list) or not isinstance(data, dict):
        return data
    if "type" in data and len(data) == 1:
        return parse_type(data["type"])
    if "t" in data and len(data) == 1:
        return tuple(restored(v, function) for v in data["t"])
    if "d" in data and len(data) == 1:
        return {restored(k, function): restored(v, function) for k, v in data["d"]}
    if "function" in data:
        return function(data["function"])
    cls: Callable[..., Any] = _classes()[data["is"]]
    return cls(**{n: restored(v, function) for n, v in data.items() if n != "is"})


def without_marks(data: Any) -> Any:
    """The data of a step, whatever its functions do."""
    if isinstance(data, dict):
        skip = {"mark"} if "function" in data else set()
        return {k: without_marks(v) for k, v in data.items() if k not in skip}
    return [without_marks(v) for v in data] if isinstance(data, list) else data


def functions_in(data: Any) -> Iterator[tuple[str, str]]:
    """The functions of a step's data: names and marks."""
    if isinstance(data, dict):
        if "function" in data:
            yield data["function"], data["mark"]
        for v in data.values():
            yield from functions_in(v)
    elif isinstance(data, list):
        for v in data:
            yield from functions_in(v)
