"""The kinds of sinks, by the word after `format=`: what makes one, and the options that it takes.

A row of `KINDS` is all that the rest of Headwater knows of a kind, as with those of feeds, whose options are of the same form.
A module may have a function `check(target)` beside the one that makes a sink; it raises where options do not go together or
the columns are none that it can write, and is called when a sink is declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import QueryError
from headwater.feeds.kinds import BOOLEAN, NUMBER, Option, checked, module_of
from headwater.feeds.kinds import KINDS as FEEDS
from headwater.sinks.sink import Sink, Target

COMMON = {"gap": Option(("whole", "stop"))}
"""Options of every kind: what is done where the version that a target has is not kept any more, the whole view again or an error."""


@dataclass(frozen=True)
class Kind:
    """A kind of sink; `make` is `module:function`, which takes a `Target` and gives a `Sink`."""

    make: str
    options: Mapping[str, Option] = field(default_factory=dict)
    path: bool = False
    """Whether it has a path, which it needs then."""
    extra: str = ""
    """The extra of Headwater's package that has the libraries it imports."""
    needs: tuple[str, ...] = ()
    """Those libraries, by the names that they are imported by."""
    key: bool = False
    """Whether the rows of its view must have a key."""
    nested: bool = False
    """Whether it takes views with nested rows; what changed of them are whole rows."""

    def made(self, target: Target) -> Sink:
        """A sink of the kind, for a target that fits."""
        module = module_of(self.make, self.needs, self.extra, "sinks")
        check = getattr(module, "check", None)
        if check is not None:
            check(target)
        found: Sink = getattr(module, self.make.partition(":")[2])(target)
        return found

    def shown(self, options: Mapping[str, str]) -> dict[str, str]:
        """Options without secrets, as the log has them."""
        known = {**self.options, **COMMON}
        return {n: v for n, v in options.items() if not known[n].secret}


_POSTGRES = ("host", "port", "database", "user", "password", "sslmode", "sslrootcert", "schema")
_KAFKA = ("servers", "security", "mechanism", "username", "password", "ca", "topic")
KINDS: dict[str, Kind] = {
    "postgres": Kind(
        "headwater.sinks.postgres:make",
        {n: FEEDS["postgres"].options[n] for n in (*_POSTGRES, "table")},
        extra="postgres",
        needs=("psycopg",),
    ),
    "delta": Kind(
        "headwater.sinks.delta:make",
        {"change_feed": Option(BOOLEAN)},
        path=True,
        extra="delta",
        needs=("deltalake",),
    ),
    "kafka": Kind(
        "headwater.sinks.kafka:make",
        {
            **{n: FEEDS["kafka"].options[n] for n in _KAFKA},
            "records": Option(("upsert", "debezium")),
        },
        extra="kafka",
        needs=("confluent_kafka",),
    ),
    "parquet": Kind(
        "headwater.sinks.parquet:make",
        {"slice_rows": Option(NUMBER), "keep": Option(NUMBER)},
        path=True,
    ),
    "jsonl": Kind("headwater.sinks.jsonl:make", path=True, nested=True),
}
FOREACH = Kind("", nested=True)
"""A function of this process: `foreach=`, and no format."""


def checked_options(sink: str, format: str, kind: Kind, given: Any) -> dict[str, str]:
    """The options of a sink as text; QueryError names what means nothing, and never shows a secret."""
    called = f"{format} sinks"
    return checked("sink", sink, {**kind.options, **COMMON}, called, {} if given is None else given)


def kind_of(sink: str, format: Any) -> Kind:
    """The kind that a format names; QueryError for one that is unknown."""
    if not isinstance(format, str) or format not in KINDS:
        told = "has no format" if format is None else f"has the format {format!r}"
        raise QueryError(f"the sink `{sink}` {told}", hint=f"one of {', '.join(KINDS)}")
    return KINDS[format]
