"""Streams of a database as its log has them: schema, order, clocks, steps as data, and the outputs.

A definition is a fact of the version, `stream:name`. Its steps are bound to functions in each process (`folds/described`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headwater.calculus.types import BIGINT, DOUBLE, FLOAT, INTEGER, SMALLINT, TINYINT, Base
from headwater.errors import StreamError
from headwater.streams.schema import Header

STREAM = "stream:"
"""How the facts of streams are called."""
ARRIVAL = "arrival"
"""The order of a stream that takes rows as they come."""

_WHOLE = (TINYINT, SMALLINT, INTEGER, BIGINT)
"""Whole numbers, the narrow ones first."""


@dataclass(frozen=True)
class StreamDef:
    """A stream that was defined."""

    name: str
    schema: str
    """In the notation of schemas."""
    steps: str
    """As the text of their data."""
    order: dict[str, str]
    """The order column of each header; none for a stream by arrival."""
    marks: dict[str, Any] = field(default_factory=dict)
    """The intervals of the headers that are clocks."""
    ties: str = "row"
    closes: dict[str, str] = field(default_factory=dict)
    """The columns of outputs that follow the order, by which they are closed."""
    inputs: tuple[str, ...] = ()
    outputs: dict[str, str] = field(default_factory=dict)
    """The columns of each output, as DDL."""
    relations: dict[str, str] = field(default_factory=dict)
    """The relation that has the rows of each output."""
    place: int = 0
    optimise: bool = True

    @property
    def by_arrival(self) -> bool:
        """Whether rows are taken as they come."""
        return not self.order

    @property
    def data(self) -> Any:
        """The steps as data."""
        return json.loads(self.steps)

    @property
    def fact(self) -> tuple[str, dict[str, Any]]:
        """The fact that stores it."""
        return f"{STREAM}{self.name}", asdict(self)


def relations_of(name: str, inputs: tuple[str, ...], outputs: Mapping[str, str]) -> dict[str, str]:
    """The relations of outputs: called as their headers are; a header that passes is called after the stream."""
    out = {}
    for h in outputs:
        alone = name if len(outputs) == 1 else f"{name}_{h}"
        out[h] = alone if h in inputs else h
    return out


def closes_of(given: Mapping[str, str], outputs: Mapping[str, Header]) -> dict[str, str]:
    """The columns by which outputs are closed, as they are declared."""
    out = {}
    for h, name in given.items():
        if not isinstance(name, str):
            raise StreamError(
                f"`closes` has {name!r} for `{h}`", hint="name one column: {'rates': 'hour'}"
            )
        known = {n.lower(): n for n in outputs[h].columns} if h in outputs else {}
        out[h] = known.get(name.lower(), name)
    return out


def _holds(t: Base, order: Base) -> bool:
    """Whether a column has room for the values of an order column."""
    if t in _WHOLE and order in _WHOLE:
        return _WHOLE.index(t) >= _WHOLE.index(order)
    return t == order or (t, order) == (DOUBLE, FLOAT)


def check_closes(made: StreamDef, header: str, name: str, t: Any, order: Base) -> None:
    """Raises where an output is to be closed by a column that cannot follow the order; one that is not there is found elsewhere."""
    if t is not None and not _holds(t, order):
        raise StreamError(
            f"`{name}` of `{header}`, by which it is to be closed, is {t}, and `{made.name}` is ordered by {order}",
            hint=f"tell a column of type {order} that follows the order, or leave `{header}` out of closes",
        )


def read_streams(facts: Mapping[str, Any]) -> dict[str, StreamDef]:
    """The streams of a version, in the order in which they were defined."""
    found = []
    for key, value in facts.items():
        if key.startswith(STREAM):
            made = StreamDef(**{**value, "inputs": tuple(value["inputs"])})
            if key != f"{STREAM}{made.name}":
                raise ValueError(f"`{key}` is called `{made.name}`")
            found.append(made)
    return {d.name: d for d in sorted(found, key=lambda d: d.place)}
