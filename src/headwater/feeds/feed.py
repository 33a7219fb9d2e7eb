"""A feed: it gives the rows behind a cursor, batch by batch, and the cursor of a batch is committed with its rows.

    the version with a batch's rows is the version with the cursor behind them

So a process that is killed at any instruction leaves neither or both, and who goes on asks for what is behind the cursor
that the log has: nothing is lost, and nothing comes twice, as far as a feed gives the same rows behind the same cursor.
What a cursor is only its feed knows; to everybody else it is plain JSON data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

import pyarrow as pa

from headwater.calculus.types import RecordType

Cursor: TypeAlias = Any
"""Plain JSON data: dict, list, str, int. None is the beginning."""
FROM = "from:"
"""How the facts are called that say what was taken in from outside."""
POLICIES = ("stop", "skip", "aside")
"""What becomes of records that do not fit: the feed stops; they are counted; they go to `<source>_rejected`."""
REJECTED = "_rejected"
REJECTED_DDL = "record STRING, place STRING, why STRING, version BIGINT"
"""The relation of records that were set aside: behind the name of its source, and its columns."""
FILES, NAME = "_files", "file"
"""The relation of the rows of each file, where changed ones replace them, and its key."""
MOST_ROWS, MOST_BYTES, MOST_SECONDS = 1_000_000, 256 << 20, 1.0
"""What a batch is at the most unless options say otherwise."""


@dataclass(frozen=True)
class Limit:
    """What a batch may be at the most; one record more may be in it, and one that is larger comes alone."""

    rows: int = MOST_ROWS
    bytes: int = MOST_BYTES
    seconds: float = MOST_SECONDS


@dataclass(frozen=True)
class Batch:
    """Rows of a source, and the place behind them."""

    rows: Any
    """Whatever `apply` takes for the source: an Arrow table (with `_w` or `_change_type`), `hw.Delta`, rows, or a DataFrame of Spark."""
    cursor: Cursor
    """The place behind these rows."""
    cast: bool = False
    """Whether texts are read as the types of the columns, as `apply(cast=True)` does."""
    rejected: pa.Table | None = None
    """Records that do not fit: `record`, `place` and `why`, all texts. There are none where the policy is `stop`: that is raised."""
    punctuate: Any = None
    """What of the source is over behind it."""
    pieces: tuple[Batch, ...] = ()
    """What it is made of, in place of rows: each may be committed without those behind it, where one of them does not fit."""
    name: str = ""
    """What a piece is called: its file."""
    replaces: bool = False
    """Whether its rows replace those that came before under the same name."""
    read: str = "here"
    """Where it was read: here, or on Spark."""
    columns: str = ""
    """Columns, as DDL, that the source is to get before what is behind the same cursor is read again; there are no rows then."""
    whole: bool = False
    """Whether the rows, which are a table then, are all that the source has behind the batch: what was there before goes."""


class Feed(Protocol):
    """Gives the rows behind a cursor.

    - `read(after, limit)` gives the next batch behind `after`, or None where there is nothing new now. It waits no longer than
      `limit.seconds`.
    - The same `after` again gives the same rows again, first ones first; it may give more or fewer of them. `replays = False`
      says that it cannot (a socket), and then its rows come at least once.
    - Nothing outside is changed by `read`. `committed(cursor)` is called after the version with that cursor is durable: a slot
      is advanced, offsets are told. It may be called again, or never.
    - `close` lets everything go. A feed may be closed at any time, and is made anew, or read again, at any cursor.
    - All of these are called by one thread at a time.
    - What is wrong is raised, each with a hint: `BadChange` (the rows), `FeedAway` (a server or path is not there now: it is tried
      again), `FeedLost` (what is behind the cursor is gone: a slot was dropped, a change feed cleaned up, a topic is another).
      A cursor that is of something else (another topic) is lost, too; what it is of is in the cursor if that matters.

    What a feed may say of itself beside that: `by_name = True`, if its cursor is a set of names: `after` has all that were taken,
    as `listing.Mark`, and a batch's cursor those that it adds, with what is noted of each; each is a fact of its own.
    `endless = True`, if there is always more, so that it is asked once a look (a clock).
    """

    replays: ClassVar[bool] = True

    def read(self, after: Cursor, limit: Limit) -> Batch | None: ...

    def committed(self, cursor: Cursor) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Declared:
    """A source as its feed is made from: what was declared, with secrets, which nobody else has."""

    name: str
    row: RecordType
    key: tuple[str, ...] = ()
    path: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    """All options that were given, as text; those that were not are not among them."""
    bad: str = "stop"
    limits: tuple[Any, ...] = ()
    """NOT NULL and lengths of its columns (`language/declared.Limit`)."""
    zone: str = "UTC"
    spark: Any = None
    """A function that gives the session of Spark, which is started by that if there is none."""
    format: str = ""
    home: str = ""
    """A directory in which a feed may keep what it needs beside its cursor; a copy of the database may lack it."""

    def number(self, option: str, default: int) -> int:
        """An option that is a whole number."""
        return int(self.options.get(option, default))

    def true(self, option: str, default: bool) -> bool:
        """An option that is true or false."""
        return self.options.get(option, str(default).lower()) == "true"

    @property
    def limit(self) -> Limit:
        """What a batch may be at the most, by the options."""
        return Limit(
            self.number("max_rows", MOST_ROWS),
            self.number("max_bytes", MOST_BYTES),
            float(self.options.get("max_seconds", MOST_SECONDS)),
        )
