"""What a database gives out: its sources and views to read, and what an increment did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

from pyspark.sql import DataFrame, Row

from headwater.api.ids import Id

if TYPE_CHECKING:
    from headwater.api.finals import Finals
    from headwater.calculus.patterns import Punctuations
    from headwater.show.drawing import Explanation


@dataclass(frozen=True)
class Commit:
    """What `apply` did: the version it made, the rows it was given, and what it cost.

    `ignored` are, by source, deletions of what is not there (`strict=False`) and inserts of keys that are (`on_conflict="ignore"`).
    `jobs`, `exchanges` and `hops` are Spark's jobs, shuffles and Python hops; `where` is `driver` or `spark`. With an
    `id` that was applied before nothing is done, and `repeated` says so.
    """

    version: int
    rows: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    bytes: int = 0
    jobs: int = 0
    exchanges: int = 0
    hops: int = 0
    where: str = "driver"
    id: Id | None = None
    repeated: bool = False
    read: str = "driver"
    """Where the rows were read: `driver`, or `spark` where a feed had tasks read them."""
    rejected: dict[str, int] = field(default_factory=dict)
    """Records of feeds that did not fit, by source: they were skipped, or set aside."""
    late: dict[str, int] = field(default_factory=dict)
    """Rows that matched what was closed, by source: they were set aside, or dropped."""
    closed: dict[str, int] = field(default_factory=dict)
    """Rows that became final, by view."""
    rounds: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Of views with loops the rounds at which something was looked at, each with how many rows came or went there."""
    stale: dict[str, int] = field(default_factory=dict)
    """Events that were older than what is known of their key, by source: they were dropped (`sequence_by=`)."""
    withheld: dict[str, int] = field(default_factory=dict)
    """Answers of views in diffuse mode that were near enough to what was told last, and not told."""
    due: dict[str, int] = field(default_factory=dict)
    """Keys of views in diffuse mode that had yet to move when `rounds` were over: they go on in the next increment. Where that
    is so after every commit, the loop may have no fixpoint."""
    warnings: tuple[str, ...] = ()
    """What went wrong once the change was committed, and does it no harm."""
    database: Any = field(default=None, repr=False, compare=False)

    @property
    def changed(self) -> dict[str, int]:
        """How many rows of each view came or went; computed when asked for."""
        found: dict[str, int] = self.database.changed_rows(self.version)
        return found


class Source:
    """A declared source."""

    def __init__(self, database: Finals, name: str):
        self.database, self.name = database, name

    def snapshot(self, version: int | None = None, *, settled: bool = False) -> DataFrame:
        """The rows that it has, now or at a version; or at the last version at which no stage had anything to read."""
        return self.database.frame(
            self.name, self.database.settled_version() if settled else version
        )

    def changes(
        self, since: int = 0, until: int | None = None, format: str = "weights"
    ) -> DataFrame:
        """The rows that came and went after a version: with `_w` and `_version`, or in the form `cdc`."""
        return self.database.changes_frame(self.name, since, until, format)

    def lookup(self, *key: Any, version: int | None = None) -> Row | None:
        """The row at a key, with its inner rows, at the cost of that row; None if there is none.

        Rows of a source without a key, and of a flow that is kept, are looked up by all of their columns.
        """
        found = self.database.lookup(self.name, key, version)
        return None if found is None else as_row(found)

    def closed(self) -> Punctuations:
        """What of it is over: no row that matches will come or go."""
        return self.database.closed_source(self.name)

    def late(self, version: int | None = None) -> DataFrame:
        """The rows that were set aside because they were late, with `_w`, the `_version` that brought them and what they break."""
        return self.database.late_frame(self.name, version)

    def __repr__(self) -> str:
        return f"Source({self.name}: {self.database.catalog.sources[self.name].ddl})"


class ViewHandle:
    """A declared view."""

    def __init__(self, database: Finals, name: str):
        self.database, self.name = database, name

    @overload
    def snapshot(
        self,
        version: int | None = None,
        *,
        shredded: Literal[False] = False,
        settled: bool = False,
    ) -> DataFrame: ...

    @overload
    def snapshot(
        self, version: int | None = None, *, shredded: Literal[True], settled: bool = False
    ) -> dict[str, DataFrame]: ...

    def snapshot(
        self, version: int | None = None, *, shredded: bool = False, settled: bool = False
    ) -> DataFrame | dict[str, DataFrame]:
        """The answer, now or at a version; rows repeat as the query's answer would.

        `shredded` gives the flat parts of a nested view by path: `""` has the top rows, `"orders"` the rows of that
        inner bag with the label of the bag that they are in; in a row a label stands for each inner bag.
        `settled` gives the last version at which no stage had anything to read.
        """
        version = self.database.settled_version() if settled else version
        if shredded:
            return self.database.parts_frames(self.name, version)
        return self.database.frame(self.name, version)

    def lookup(self, *key: Any, version: int | None = None) -> Row | None:
        """The row of a view at its key, with its inner bags, at the cost of that row; None if there is none.

        The key of a nested view is its `key=`, or its first column that is no array; that of a flat one are the columns of
        its groups, in their order, where all of them are shown.
        """
        found = self.database.lookup(self.name, key, version)
        return None if found is None else as_row(found)

    def changes(
        self, since: int = 0, until: int | None = None, format: str = "weights"
    ) -> DataFrame:
        """The rows that changed after a version: with `_w` and `_version`, or in the form `cdc`."""
        return self.database.changes_frame(self.name, since, until, format)

    def final(self, since: int = 0, until: int | None = None) -> DataFrame:
        """The rows that nothing will take back, with the `_version` that told them, each once: those told after a version."""
        return self.database.final_frame(self.name, since, until)

    def closed(self) -> Punctuations:
        """What of the view is over: no row that matches will come or go."""
        return self.database.closed_view(self.name)

    def explain(self) -> Explanation:
        """How the view is kept: its strata, maps, statements and what was decided."""
        return self.database.explain(self.name)

    def verify(self) -> dict[str, str]:
        """Recomputes the view from the retained inputs and compares."""
        return self.database.verify(self.name)

    def __repr__(self) -> str:
        return f"View({self.name}: {self.database.catalog.views[self.name].ddl})"


def as_row(value: Any) -> Any:
    """Dicts to any depth as Spark's rows."""
    if isinstance(value, dict):
        return Row(*value)(*(as_row(v) for v in value.values()))
    return [as_row(v) for v in value] if isinstance(value, list) else value
