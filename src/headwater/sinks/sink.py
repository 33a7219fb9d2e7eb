"""The protocol of sinks: a reader of one view with a cursor, and the cursor is kept where the rows are.

A sink writes what changed of a view, together with the `Place` that the target is at then: database, view, version, and the
mark of that version, all or nothing. So a process that is killed anywhere leaves a target that is at the version before or
at the version after, and says which; whoever goes on asks the target, and no row is lost or there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Place:
    """What a target has: a version of a view of a database.

    `mark` is the id of the version: after a backup was restored another version may have the same number. None where that
    is not known.
    """

    database: str
    view: str
    version: int
    mark: str | None

    def as_data(self) -> dict[str, Any]:
        """The place as plain JSON data."""
        return {
            "database": self.database,
            "view": self.view,
            "version": self.version,
            "mark": self.mark,
        }

    @classmethod
    def of_data(cls, data: Any) -> Place:
        """The place that data says; ValueError where it says none."""
        try:
            database, view = data["database"], data["view"]
            version, mark = data["version"], data["mark"]
        except (KeyError, TypeError) as e:
            raise ValueError(f"{data!r} is no place") from e
        texts = isinstance(database, str) and isinstance(view, str)
        if not texts or type(version) is not int or not isinstance(mark, str | None):
            raise ValueError(f"{data!r} is no place")
        return cls(database, view, version, mark)


@dataclass(frozen=True)
class Target:
    """What a sink is made for: the view that it follows, and where it is told to write."""

    sink: str
    view: str
    schema: pa.Schema
    """The columns of the view's rows, without `_w`."""
    key: tuple[str, ...] | None
    """The columns that tell its rows apart, none where it has one row at most; None where that is not known."""
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Those of its kind that were given, checked, as text, as scripts give nothing else; secrets too."""


class Rows:
    """All rows of a view at a version, read when they are asked for."""

    def __init__(
        self,
        pieces: Callable[[], Iterator[pa.Table]],
        frame: Callable[[], DataFrame],
        large: bool = False,
    ):
        self._pieces, self._frame = pieces, frame
        self.large, self.count = large, 0
        """Whether they are better read by Spark than in this process, and how many were read here."""

    def tables(self) -> Iterator[pa.Table]:
        """The rows with `_w`, in pieces that are read one after another; one of them at least, which may be empty."""
        for piece in self._pieces():
            self.count += piece.num_rows
            yield piece

    def table(self) -> pa.Table:
        """The rows with `_w`, in one table."""
        return pa.concat_tables(list(self.tables()))

    def frame(self) -> DataFrame:
        """The rows as a DataFrame; they repeat."""
        return self._frame()


class Sink(Protocol):
    """Takes what changed of a view.

    - `place` asks the target what it has now; None where it has nothing of this sink yet. Whoever is asked first after
      another process was killed tidies up what that one left.
    - `write` is given what changed between the place that the target has and a new one, with `_w`: equal rows once, their
      weights added up; with `by_version` the rows of each version, with `_version` too, in the order of versions. The
      table may be empty. Rows and place are there together or not at all.
    - `replace` is given the whole view, where the target has no past that can be continued.
    - Whatever is called again after it failed, or after another process was killed in it, does it once.
    - `close` lets everything go. A sink may be closed at any time and made again.
    - What is wrong is raised as `SinkError` (other columns, no rights, somebody else's target) or `SinkAway` (it is not
      there now, and is tried again), each with a hint.
    """

    by_version: bool
    """Whether changes come version by version."""

    def place(self) -> Place | None:
        """What the target has now."""

    def write(self, changes: pa.Table, place: Place) -> None:
        """Brings the target from its place to a new one."""

    def replace(self, rows: Rows, place: Place) -> None:
        """Makes the target the whole view."""

    def close(self) -> None:
        """Lets go of files and connections."""


class Followed(Protocol):
    """A view as `sync` reads it."""

    database: str
    """The id of its database."""
    name: str
    created: int
    """The version that defined it."""
    nested: bool
    """Whether its rows have inner rows; then what changed are whole rows, each key as it was and as it is."""

    def name_at(self, version: int) -> str:
        """What it was called at a version."""

    def newest(self) -> int:
        """The newest version that may have changed it."""

    def mark_of(self, version: int) -> str | None:
        """The id of a version; None if it is gone."""

    def changes(self, since: int, until: int) -> pa.Table:
        """What changed after a version, with `_w` and `_version`; StateError or DefinedAnew where that is not known."""

    def rows(self, version: int) -> Rows:
        """All rows at a version."""
