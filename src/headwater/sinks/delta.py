"""A Delta table that is a view: what changed is one commit of the table, which names the version that the table is at then.

    the rows of the table = the rows of the view at the version of its application `headwater`

Delta keeps for each application the last version that it committed, which is made for writers that may try again; which
database and history it was is in the same commit's metadata. Where the rows of a view have a key, changes are merged by it. Where
they have none, new rows are appended, and a change with rows that go writes the whole table anew: it costs what the table has.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from headwater.engine.here.equal_rows import consolidated
from headwater.errors import SinkAway, SinkError
from headwater.interop.arrow_types import with_small_offsets
from headwater.plan.program import WEIGHT
from headwater.sinks.by_key import put_and_gone, repeated
from headwater.sinks.sink import Place, Rows, Target

APPLICATION = "headwater"
GONE = "headwater_gone"
_BACK = 100
"""How many commits of the table are looked through for the one that was the last of the sink."""


def make(target: Target) -> DeltaSink:
    """The sink that keeps a Delta table."""
    return DeltaSink(target)


class DeltaSink:
    """A Delta table that is a view."""

    by_version = False

    def __init__(self, target: Target):
        assert target.path is not None
        self.target, self.path = target, target.path
        self.schema = pa.schema([(f.name, with_small_offsets(f.type)) for f in target.schema])

    def close(self) -> None:
        """Nothing is held open."""

    def _table(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.path)
        except TableNotFoundError:
            return None

    def place(self) -> Place | None:
        """The version that the table has of the view."""
        with self._telling():
            table = self._table()
            version = None if table is None else table.transaction_version(APPLICATION)
            if table is None or version is None:
                return None
            for commit in table.history(_BACK):
                if APPLICATION in commit:
                    place = Place.of_data(json.loads(commit[APPLICATION]))
                    if place.version == version:
                        return place
        return Place("", self.target.view, version, None)  # its commit was cleaned up

    def _properties(self, place: Place) -> CommitProperties:
        return CommitProperties(
            custom_metadata={APPLICATION: json.dumps(place.as_data())},
            app_transactions=[Transaction(APPLICATION, place.version)],
        )

    def write(self, changes: pa.Table, place: Place) -> None:
        """Merges or appends what changed, in one commit."""
        with self._telling():
            table = self._table()
            if table is None:
                raise SinkAway(
                    f"the Delta table of `{self.target.sink}` at {self.path} is gone",
                    hint="the whole view is written with the next version",
                )
            if table.transaction_version(APPLICATION) == place.version:
                return  # it was written before, and the answer was lost
            self._check(table)
            key, about = self.target.key, self._properties(place)
            if key and changes.num_rows:
                self._merge(table, changes, key, about)
                return
            come = changes.filter(pc.greater(changes.column(WEIGHT), 0))
            if come.num_rows == changes.num_rows:
                rows = repeated(come).select(self.schema.names).cast(self.schema)
                write_deltalake(table, rows, mode="append", commit_properties=about)
                return
            there = table.to_pyarrow_table().select(self.schema.names).cast(self.target.schema)
            ones = pa.repeat(pa.scalar(1, pa.int64()), there.num_rows)
            both = pa.concat_tables(
                [there.append_column(WEIGHT, ones), changes.select([*self.schema.names, WEIGHT])]
            )
            rows = repeated(consolidated(both)).select(self.schema.names).cast(self.schema)
            write_deltalake(table, rows, mode="overwrite", commit_properties=about)

    def _merge(
        self, table: DeltaTable, changes: pa.Table, key: tuple[str, ...], about: CommitProperties
    ) -> None:
        put, gone = put_and_gone(changes, key)
        names = self.schema.names
        flags = pa.array([False] * put.num_rows + [True] * gone.num_rows)
        given = pa.concat_tables([put.select(names), gone.select(names)]).cast(self.schema)
        given = given.append_column(GONE, flags)
        null = any(given.column(k).null_count for k in key)
        # NULL is a key like others; to compare so costs more, and is done where there is one.
        equal = "(t.{0} = s.{0} OR (t.{0} IS NULL AND s.{0} IS NULL))" if null else "t.{0} = s.{0}"
        same = " AND ".join(equal.format(_quoted(k)) for k in key)
        cells: dict[str, str] = {_quoted(n): f"s.{_quoted(n)}" for n in names}
        (
            table.merge(given, same, source_alias="s", target_alias="t", commit_properties=about)
            .when_matched_delete(f"s.{GONE}")
            .when_matched_update(cells)
            .when_not_matched_insert(cells, predicate=f"NOT s.{GONE}")
            .execute()
        )

    def replace(self, rows: Rows, place: Place) -> None:
        """Writes the whole view in one commit."""
        with self._telling():
            table = self._table()
            if table is not None:
                if table.transaction_version(APPLICATION) is None:
                    self._check(table)
                    if table.count():
                        raise SinkError(
                            f"the Delta table at {self.path} has rows that no sink wrote",
                            hint=f"empty it, or give `{self.target.sink}` another path",
                        )

            def pieces() -> Iterator[pa.RecordBatch]:
                for piece in rows.tables():
                    made = repeated(piece).select(self.schema.names).cast(self.schema)
                    yield from made.to_batches()

            feed = self.target.options.get("change_feed") == "true"
            write_deltalake(
                self.path,
                pa.RecordBatchReader.from_batches(self.schema, pieces()),
                mode="overwrite",
                schema_mode="overwrite" if table is not None else None,
                configuration={"delta.enableChangeDataFeed": "true"}
                if feed and table is None
                else None,
                commit_properties=self._properties(place),
            )

    def _check(self, table: DeltaTable) -> None:
        """Raises where the table has other columns than the view."""
        found = pa.schema(table.schema().to_arrow())
        there = {f.name: _plain(f.type) for f in found}
        wanted = {f.name: _plain(f.type) for f in self.schema}
        other = sorted(n for n in {*there, *wanted} if there.get(n) != wanted.get(n))
        if other:
            n = other[0]
            raise SinkError(
                f"the column `{n}` of the Delta table at {self.path} is {there.get(n, 'not there')}, and of `{self.target.view}` {wanted.get(n, 'not there')}",
                hint="give the sink a table of its own",
            )

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError, pa.ArrowException) as e:
            said = str(e).splitlines()[0] if str(e) else type(e).__name__
            raise SinkAway(
                f"the Delta table of `{self.target.sink}` at {self.path} cannot be written: {said}",
                hint="it is tried again; look at its rights, and who else writes it",
            ) from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain(t: Any) -> pa.DataType:
    """A type as the table has it, whatever the form of its texts in memory."""
    t = with_small_offsets(t)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(t, t)
