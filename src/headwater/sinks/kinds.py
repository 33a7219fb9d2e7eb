"""The kinds of sinks by name, and their options: each has a type and mostly a default, and what is unknown is refused by name.

A kind's module has a function `make(target)` that gives its sink. It is imported when a sink of the kind is made, so that what
it needs of others has to be there only then.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from headwater.errors import QueryError
from headwater.sinks.sink import Sink, Target

Value: TypeAlias = str | int | float | bool


@dataclass(frozen=True)
class Option:
    """An option of a kind: what it is, its default, and whether it must be given."""

    type: type[str] | type[int] | type[float] | type[bool] = str
    default: Value | None = None
    among: tuple[str, ...] = ()
    needed: bool = False

    def read(self, value: Any) -> Value | None:
        """A value that was given, of the option's type; text is read, as scripts give nothing else. None if it means nothing."""
        if self.type is bool:
            known = {"true": True, "false": False}
            return value if isinstance(value, bool) else known.get(str(value).lower())
        if isinstance(value, bool):
            return None
        if self.type is str:
            return value if isinstance(value, str) and value in (self.among or (value,)) else None
        try:
            found = float(value)
        except (TypeError, ValueError):
            return None
        if not 0 <= found < float("inf") or (self.type is int and found != int(found)):
            return None
        return int(found) if self.type is int else found

    @property
    def told(self) -> str:
        """What may be given."""
        if self.among:
            return " or ".join(self.among)
        names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        return names[self.type]


@dataclass(frozen=True)
class Kind:
    """A kind of sink."""

    module: str
    options: Mapping[str, Option] = field(default_factory=dict)
    secret: frozenset[str] = frozenset()
    """Options that are not written to the log."""
    path: Literal["needed", "refused", "may be given"] = "needed"
    key: bool = False
    """Whether the rows of its view must have a key."""
    nested: bool = False
    """Whether it takes views with nested rows; what changed of them are whole rows."""
    needs: str = ""
    """A module of others that must be there."""
    extra: str = ""
    """The extra of Headwater that installs it."""


GAP = Option(default="whole", among=("whole", "stop"))
"""What is done where the version that a target has is not kept any more: the whole view again, or an error."""
KINDS: dict[str, Kind] = {
    "jsonl": Kind("headwater.sinks.jsonl", {"gap": GAP}, nested=True),
}
FOREACH = Kind("headwater.sinks.foreach", {"gap": GAP}, path="refused", nested=True)
"""A function of this process: `foreach=`, and no format."""


def kind_of(sink: str, format: Any) -> Kind:
    """The kind of a name."""
    if not isinstance(format, str) or format not in KINDS:
        raise QueryError(
            f"the sink `{sink}` has the format {format!r}", hint=f"one of {', '.join(KINDS)}"
        )
    return KINDS[format]


def checked_options(
    sink: str, format: str, kind: Kind, options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """All options of a kind, those that were left out with their defaults; QueryError names what means nothing."""
    given = dict(options or {})
    for name in given:
        if name not in kind.options:
            raise QueryError(
                f"the option `{name}` of `{sink}` means nothing for {format} sinks",
                hint=f"options: {', '.join(kind.options) or 'none'}",
            )
    out: dict[str, Any] = {}
    for name, option in kind.options.items():
        if name not in given:
            if option.needed:
                raise QueryError(
                    f"the sink `{sink}` has no option `{name}`", hint=f"give {option.told}"
                )
            out[name] = option.default
            continue
        out[name] = option.read(given[name])
        if out[name] is None:
            shown = "that" if name in kind.secret else repr(given[name])
            raise QueryError(
                f"the option `{name}` of `{sink}` cannot be {shown}", hint=f"give {option.told}"
            )
    return out


def check_there(sink: str, format: str, kind: Kind) -> None:
    """Raises where what a kind needs of others is not installed."""
    if kind.needs and importlib.util.find_spec(kind.needs) is None:
        raise QueryError(
            f"the sink `{sink}` needs `{kind.needs}` to write {format}, which is not installed",
            hint=f"pip install headwater[{kind.extra}]",
        )


def make_sink(kind: Kind, target: Target) -> Sink:
    """The sink of a kind for a target."""
    found: Sink = importlib.import_module(kind.module).make(target)
    return found
