"""Streams to look at: what a stream has told, what waits for what, and what its steps have kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.api.verify_stream import verify_stream
from headwater.api.versions import check_since
from headwater.errors import QueryError, StreamMissing
from headwater.folds import keeping
from headwater.folds.batch import row_type
from headwater.folds.fold import Fold, events_of
from headwater.folds.looking import Waiting, kept_for, waits_for
from headwater.folds.pending import all_waiting
from headwater.state.snapshot import Snapshot
from headwater.streams.schema import Schema, headers_of, parse
from headwater.streams.stream import Stream
from headwater.streams.stream import parse as parsed

if TYPE_CHECKING:
    from headwater.api.stream_defining import Streams


class StreamHandle:
    """A stream of a database, `db["taxis"]`: what it has told, what waits and for what, and what its steps have kept.

    All of it can be read at earlier versions that are kept. What it tells is also a relation under each output's name,
    which views read, and `db.table` and `db["rates"]` show.
    """

    def __init__(self, database: Any, name: str):
        self.database: Streams = database
        self.name = name

    @property
    def definition(self) -> Any:
        """How it was defined."""
        return self.database.stream_defs[self.name]

    @property
    def schema(self) -> Schema:
        """The order that it reads its headers in."""
        return parse(self.definition.schema)

    @property
    def outputs(self) -> list[str]:
        """What it tells: relations that views and streams read."""
        return list(self.definition.outputs)

    def _fold(self) -> Fold:
        return self.database.fold_to_look_at(self.definition)

    def _bound(self) -> Fold:
        found = self.database.fold_of(self.definition)
        if found is None:
            raise StreamMissing(
                f"the stream `{self.name}` has functions that this process does not know",
                hint="define it again with db.stream, by the same name",
            )
        return found

    def _at(self, version: int | None) -> Snapshot:
        """All maps at a version, the newest unless one is given."""
        db = self.database
        return db._snapshot(db.version if version is None else version)

    def output_table(
        self, header: str | None = None, since: int = 0, until: int | None = None
    ) -> pa.Table:
        """What was told of an output after version `since`, up to `until`, as an Arrow table; no Spark is asked.

        Rows are in the order of the stream: by `_version`, in which each was told, and `_place`, which is where it stands
        among all outputs of that version. A stream with one output needs no name.
        """
        fold = self._fold()
        if header is None:
            if len(fold.outputs) != 1:
                raise QueryError(
                    f"the stream `{self.name}` has several outputs",
                    hint=f"read one: {', '.join(fold.outputs)}",
                )
            header = next(iter(fold.outputs))
        if header not in fold.outputs:
            raise QueryError(
                f"`{header}` is no output of the stream `{self.name}`",
                hint=f"outputs: {', '.join(fold.outputs)}",
            )
        made = fold.outputs[header]
        snapshot = self._at(until)
        check_since(since, snapshot.number)
        at = snapshot.arrangement(keeping.told_spec(self.name, made).name)
        return keeping.read_told(at, made, since, snapshot.number)

    def output(
        self, header: str | None = None, since: int = 0, until: int | None = None
    ) -> DataFrame:
        """What `output_table` gives, as a DataFrame."""
        return self.database._frame(self.output_table(header, since, until))

    def value(self, version: int | None = None) -> Stream:
        """All that it has told, as a value of its output's schema: equal if two differ only in orders that do not matter."""
        fold = self._fold()
        tables = {h: self.output_table(h, 0, version) for h in fold.outputs}
        return parsed(fold.transformer.output, fold.outputs, events_of(tables, fold.outputs))

    def pending_table(self, header: str, version: int | None = None) -> pa.Table:
        """The rows of a header that wait, with `_w`, as an Arrow table; no Spark is asked."""
        fold = self._fold()
        if header not in fold.inputs:
            raise QueryError(
                f"`{header}` is no header of the stream `{self.name}`",
                hint=f"headers: {', '.join(fold.inputs)}",
            )
        snapshot = self._at(version)
        at = snapshot.arrangement(fold.pending(header).name)
        return all_waiting(at, row_type(fold.headers[header]))

    def pending(self, version: int | None = None) -> list[Waiting]:
        """What waits: of each header how many rows, the first of them, and the headers that are not closed far enough for it.

        `print(*db["taxis"].pending(), sep="\\n")` says for example: 2 rows of `gps` wait, the first at 11:30: `gps` is
        closed up to 11:00.
        """
        fold, db = self._fold(), self.database
        over = db.over if version is None else db._over_at(*db._at(version))
        closed = {h: db._closed_at(h, over) for h in fold.inputs}
        found = {h: self.pending_table(h, version) for h in fold.inputs}
        waits = waits_for(fold, found, closed)
        unbound = db.fold_of(self.definition) is None
        return [replace(w, unbound=True) for w in waits] if unbound else waits

    def state(self, *key: Any, version: int | None = None) -> Any:
        """What its steps have kept for a key, or, without one, what they keep below no key; None if nothing.

        Of several places where the stream is cut by key, a list with what each has kept.
        """
        snapshot = self._at(version)
        return kept_for(self._fold(), key, lambda spec: snapshot.arrangement(spec.name))

    def verify(self) -> None:
        """Runs the reference over the rows that were taken, and compares what it tells with what was told.

        `StateError` says where they first differ: a function that keeps something outside of its state, or asks the time,
        tells something else for the same rows. All rows of its sources must be kept (`retain=True`).
        """
        verify_stream(self.database, self.definition, self._bound())

    def explain(self) -> Any:
        """Its schema, what runs where, what is kept, and which steps were moved."""
        return self.database.explain(self.name)

    def __repr__(self) -> str:
        return (
            f"Stream({self.name}: {', '.join(headers_of(self.schema))} → {', '.join(self.outputs)})"
        )
