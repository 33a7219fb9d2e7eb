"""The kinds of feeds, by the word after `format=`: what makes one, and the options that it takes.

A row of `KINDS` is all that the rest of Headwater knows of a kind. Its module is imported when a source of the kind is
declared, so that a library which only it needs may be missing until then. An option that no row names is refused, and the
value of one that is secret is kept in this process alone: it is in no log, no message and no `status`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import QueryError
from headwater.feeds.feed import POLICIES, Declared, Feed

TEXT, NUMBER, SECONDS, BOOLEAN, CHARACTER = "text", "number", "seconds", "boolean", "character"
"""What an option may be; or a tuple of the texts that it is one of."""
SAID = {
    TEXT: "text",
    NUMBER: "a number above 0",
    SECONDS: "seconds above 0",
    BOOLEAN: "true or false",
    CHARACTER: "one character",
}


@dataclass(frozen=True)
class Option:
    """An option of a kind: what its value is, whether it must be given, whether it is a secret."""

    of: str | tuple[str, ...] = TEXT
    needed: bool = False
    secret: bool = False

    def takes(self, value: str) -> bool:
        """Whether a value, as text, is one of the option."""
        if isinstance(self.of, tuple):
            return value in self.of
        match self.of:
            case "number":
                return value.isdecimal() and int(value) > 0
            case "seconds":
                try:
                    return 0 < float(value) < math.inf
                except ValueError:
                    return False
            case "boolean":
                return value in ("true", "false")
            case "character":
                return len(value) == 1 and value not in '"\r\n'
        return bool(value) or not self.needed

    @property
    def said(self) -> str:
        """What a value is, in words."""
        return f"one of {', '.join(self.of)}" if isinstance(self.of, tuple) else SAID[self.of]


AMOUNTS = {"max_rows": Option(NUMBER), "max_bytes": Option(NUMBER), "max_seconds": Option(SECONDS)}
"""Options of kinds that are read by amounts: what a batch is at the most."""


@dataclass(frozen=True)
class Kind:
    """A kind of feed.

    `make` is `module:function`, which takes a `Declared` and gives a `Feed`; nothing is opened before its first `read`. A
    module may have a function `check(declared)` too, which raises `QueryError` where options do not go together or the
    columns are others than it gives; it is called when the source is declared.
    """

    make: str
    options: Mapping[str, Option] = field(default_factory=dict)
    path: bool = False
    """Whether it has a path, which it needs then."""
    extra: str = ""
    """The extra of Headwater's package that has the libraries it imports."""
    needs: tuple[str, ...] = ()
    """Those libraries, by the names that they are imported by."""
    amounts: tuple[str, ...] = (*AMOUNTS,)
    """Which of `AMOUNTS` it keeps to."""

    @property
    def known(self) -> dict[str, Option]:
        """All options that it takes."""
        return {**self.options, **{n: AMOUNTS[n] for n in self.amounts}}

    @property
    def module(self) -> Any:
        """The module that makes feeds of the kind; QueryError names what is not installed."""
        return module_of(self.make, self.needs, self.extra, "feeds")

    def made(self, declared: Declared) -> Feed:
        """A feed of the kind."""
        found: Feed = getattr(self.module, self.make.partition(":")[2])(declared)
        return found

    def check(self, declared: Declared) -> None:
        """Raises where what is declared means nothing to the kind."""
        check = getattr(self.module, "check", None)
        if check is not None:
            check(declared)

    def shown(self, options: Mapping[str, str]) -> dict[str, str]:
        """Options without secrets, as the log has them."""
        known = ((n, v, self.known.get(n)) for n, v in options.items())
        return {n: v for n, v, o in known if o is None or not o.secret}


_FILES = {
    "max_files": Option(NUMBER),
    "spark_bytes": Option(NUMBER),
    "changed": Option(("stop", "replace")),
    "deletes": Option(),
    "new_columns": Option(("stop", "ignore", "add")),
}
_OF_FILES: dict[str, dict[str, Option]] = {
    "parquet": {},
    "csv": {"header": Option(BOOLEAN), "delimiter": Option(CHARACTER), "null_value": Option()},
    "json": {},
    "xml": {"row_tag": Option()},
    "text": {},
}
KINDS: dict[str, Kind] = {
    name: Kind(
        "headwater.feeds.directory:DirectoryFeed",
        {**_FILES, **options},
        path=True,
        amounts=("max_bytes",),
    )
    for name, options in _OF_FILES.items()
}
_NEW_COLUMNS = Option(("ignore", "stop"))
_POSTGRES = {
    "host": Option(),
    "port": Option(NUMBER),
    "database": Option(),
    "user": Option(),
    "password": Option(secret=True),
    "sslmode": Option(("disable", "allow", "prefer", "require", "verify-ca", "verify-full")),
    "sslrootcert": Option(),
    "schema": Option(),
    "table": Option(),
    "slot": Option(),
    "publication": Option(),
    "cursor": Option(),
    "new_columns": _NEW_COLUMNS,
}
_KAFKA = {
    "servers": Option(needed=True),
    "security": Option(("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")),
    "mechanism": Option(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    "username": Option(),
    "password": Option(secret=True),
    "ca": Option(),
    "topic": Option(),
    "records": Option(("json", "upsert", "debezium")),
    "start": Option(("earliest", "latest")),
    "group": Option(),
    "time_unit": Option(("millis", "micros", "nanos")),
    "new_columns": Option(("ignore", "stop", "add")),
}
KINDS |= {
    "delta": Kind(
        "headwater.feeds.delta:DeltaFeed",
        {"new_columns": _NEW_COLUMNS},
        path=True,
        extra="delta",
        needs=("deltalake",),
    ),
    "postgres": Kind(
        "headwater.feeds.postgres:PostgresFeed",
        _POSTGRES,
        extra="postgres",
        needs=("psycopg",),
    ),
    "kafka": Kind(
        "headwater.feeds.kafka:KafkaFeed",
        _KAFKA,
        extra="kafka",
        needs=("confluent_kafka",),
    ),
}
"""The kinds that a `format=` names."""
KINDS |= {
    "socket": Kind(
        "headwater.feeds.socket:SocketFeed",
        {
            "host": Option(needed=True),
            "port": Option(NUMBER, needed=True),
            "lines": Option(("json", "csv", "text")),
            "delimiter": Option(CHARACTER),
            "null_value": Option(),
            "new_columns": Option(("stop", "ignore")),
        },
    ),
    "clock": Kind("headwater.feeds.clock:ClockFeed", {"every": Option(SECONDS)}, amounts=()),
}
OBJECTS: dict[str, Kind] = {
    "iterable": Kind("", amounts=("max_rows", "max_seconds")),
    "feed": Kind(""),
    "streaming": Kind("", amounts=()),
}
"""The kinds that an object given as `feed=` is of."""


def module_of(make: str, needs: Iterable[str], extra: str, what: str) -> Any:
    """The module of `module:function`; QueryError names the library that it needs and that is not installed."""
    for name in needs:
        try:
            importlib.import_module(name)
        except ImportError as e:
            raise QueryError(
                f"{what} of this kind need the library `{name}`, which is not here",
                hint=f"pip install headwater[{extra}]",
            ) from e
    return importlib.import_module(make.partition(":")[0])


def checked_options(source: str, kind: Kind, called: str, given: Any) -> dict[str, str]:
    """The options of a feed as text; QueryError names what means nothing, and never shows a secret."""
    return checked("source", source, kind.known, called, given)


def checked(
    what: str, source: str, known: Mapping[str, Option], called: str, given: Any
) -> dict[str, str]:
    """The options of a source or sink as text."""
    if not isinstance(given, Mapping):
        raise QueryError(
            f"the options of `{source}` are of type {type(given).__name__}", hint="give a dict"
        )
    out: dict[str, str] = {}
    for name, value in given.items():
        option = known.get(name)
        if option is None:
            raise QueryError(
                f"the option `{name}` of `{source}` means nothing for {called}",
                hint=f"options: {', '.join(known)}",
            )
        if not isinstance(value, str | int | float):
            raise QueryError(
                f"the option `{name}` of `{source}` is of type {type(value).__name__}",
                hint=f"give {option.said}",
            )
        out[name] = str(value).lower() if isinstance(value, bool) else str(value)
        if not option.takes(out[name]):
            shown = "" if option.secret else f" {out[name]!r}"
            raise QueryError(
                f"the option `{name}` of `{source}` is{shown or ' not what it takes'}",
                hint=f"give {option.said}",
            )
    missing = [n for n, o in known.items() if o.needed and n not in out]
    if missing:
        raise QueryError(
            f"the {what} `{source}` has no option `{missing[0]}`, which {called} needs",
            hint=f"options={{'{missing[0]}': ...}}: {known[missing[0]].said}",
        )
    return out


def kind_of(source: str, format: Any) -> Kind:
    """The kind that a format names; QueryError for one that is unknown."""
    if not isinstance(format, str) or format not in KINDS:
        told = "has a path and no format" if format is None else f"has the format {format!r}"
        raise QueryError(f"the source `{source}` {told}", hint=f"one of {', '.join(KINDS)}")
    return KINDS[format]


def check_policy(source: str, bad: Any, format: str | None) -> None:
    """Raises for a policy that is none, or of a source that has no feed."""
    if bad in POLICIES[1:] and format is None:
        raise QueryError(
            f"`{source}` has bad={bad!r} and no feed", hint="say format= or feed=, or leave it out"
        )
    if bad not in POLICIES:
        raise QueryError(f"`bad` of `{source}` is {bad!r}", hint=f"one of {', '.join(POLICIES)}")
