"""What a statement of a script can be. All of it is here, as data: what is to be done, and none of how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from headwater.script.words import Piece


@dataclass(frozen=True)
class CreateSource:
    """CREATE SOURCE [IF NOT EXISTS] name (columns) [USING kind] [LOCATION path] [OPTIONS (...)] and what it promises."""

    name: str
    columns: str
    if_absent: bool = False
    kind: str | None = None
    location: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `db.source`, by name: closes, append_only, sequence_by, on_conflict, bad."""


@dataclass(frozen=True)
class CreateView:
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [COMMENT 'text'] AS query."""

    name: str
    query: str
    replace: bool = False
    if_absent: bool = False
    comment: str | None = None
    """What is said of it, if something is; what was said before stays where nothing is."""


@dataclass(frozen=True)
class CreateSink:
    """CREATE SINK [IF NOT EXISTS] name FROM view USING kind [LOCATION path] [OPTIONS (...)]."""

    name: str
    of: str
    kind: str
    if_absent: bool = False
    location: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Insert:
    """INSERT INTO source [(columns)] VALUES ... | query."""

    source: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...] | None
    """The rows, where all of them are plain values; else the query gives them."""
    query: str


@dataclass(frozen=True)
class Update:
    """UPDATE source SET column = expression, ... [WHERE condition]."""

    source: str
    values: Mapping[str, str]
    condition: str


@dataclass(frozen=True)
class Delete:
    """DELETE FROM source [WHERE condition]."""

    source: str
    condition: str


@dataclass(frozen=True)
class Drop:
    """DROP SOURCE | VIEW | SINK [IF EXISTS] name [CASCADE]."""

    what: Literal["source", "view", "sink"]
    name: str
    if_there: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AddColumns:
    """ALTER SOURCE name ADD COLUMN[S] column type, ..."""

    source: str
    columns: str


@dataclass(frozen=True)
class Rename:
    """ALTER SOURCE | VIEW | SINK name RENAME TO name."""

    what: Literal["source", "view", "sink"]
    name: str
    to: str


@dataclass(frozen=True)
class Explain:
    """EXPLAIN name | query."""

    name: str | None
    query: str | None


@dataclass(frozen=True)
class Show:
    """SHOW SOURCES | VIEWS | SINKS."""

    what: Literal["sources", "views", "sinks"]


@dataclass(frozen=True)
class Ask:
    """SELECT ..., or another query."""

    query: str


What: TypeAlias = (
    CreateSource
    | CreateView
    | CreateSink
    | Insert
    | Update
    | Delete
    | Drop
    | AddColumns
    | Rename
    | Explain
    | Show
    | Ask
)


@dataclass(frozen=True)
class Statement:
    """A statement, and where it stands."""

    what: What
    piece: Piece
