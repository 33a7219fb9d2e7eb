"""A view or source as sinks and copies follow it: its newest version, what changed, and all of its rows.

What changed of a view with nested rows are whole rows: those at the keys that were touched, as they were and as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.api.catalog import as_stored
from headwater.api.versions import Readable
from headwater.engine import view_rows
from headwater.engine.nested import rows as nested_rows
from headwater.interop.arrow_types import arrow_type
from headwater.plan.analysis import read_from
from headwater.plan.program import WEIGHT, View
from headwater.sinks.sink import Rows
from headwater.sinks.sync import VERSION
from headwater.state.run import column


class Follows:
    """A view or source of a database, followed."""

    def __init__(self, db: Readable, name: str):
        self.db, self.name = db, db.catalog.named(name)
        self.database = db.identity
        made = db.catalog.views.get(self.name)
        self.created = 0 if made is None else made.created
        self.nested = bool(self.view.parts)

    def name_at(self, version: int) -> str:
        """What it was called at a version."""
        return self.db.catalog.named_at(self.name, version)

    @property
    def view(self) -> View:
        """The view as it is kept now; a source is seen as one."""
        db = self.db
        return db._as_view(db._defined, self.name, db.version)

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows, without `_w`."""
        whole = view_rows.row_schema(self.view)
        return whole.remove(whole.get_field_index(WEIGHT))

    @property
    def key(self) -> tuple[str, ...] | None:
        """The columns that tell its rows apart; None where that is not known."""
        view = self.view
        if view.parts:
            plain = nested_rows.has_plain_key(view)
            return tuple(n for n, _ in nested_rows.key_of(view)) if plain else None
        found = self.db.row_key(self.name)
        return None if found is None else tuple(found)

    def newest(self) -> int:
        """The newest version that is not minor: those that are changed no source and no view."""
        log, version = self.db.store.log, self.db.version
        if self.db.store.at(version).version.note.get("minor"):
            floor = log.floor()
            while version > max(1, floor) and log.minors(version) != log.minors(version - 1):
                version -= 1
        return version

    def mark_of(self, version: int) -> str | None:
        """The id of a version; None if it is gone."""
        return self.db.mark_of(version)

    def changes(self, since: int, until: int) -> pa.Table:
        """What changed after a version, with `_w` and `_version`."""
        view = self.view
        if not view.parts:
            return self.db.changes_table(self.name, since, until)
        db = self.db
        keys = db.touched(self.name, since, until)
        columns = nested_rows.key_of(view)
        arrays = [pa.array([k[i] for k in keys], arrow_type(t)) for i, (_, t) in enumerate(columns)]
        found = []
        for version, sign in ((since, -1), (until, 1)):
            snapshot, at = db._at(version)
            held = db._as_view(at, self.name, version)
            with as_stored(version):
                rows = nested_rows.looked_up(held, db._reading(snapshot, at), arrays)
            weights = pa.array(sign * np.asarray(column(rows, WEIGHT)), pa.int64())
            found.append(rows.set_column(rows.num_columns - 1, WEIGHT, weights))
        both = pa.concat_tables(found)
        return both.append_column(VERSION, pa.repeat(pa.scalar(until, pa.int64()), both.num_rows))

    def rows(self, version: int) -> Rows:
        """All rows at a version."""
        db = self.db
        snapshot, at = db._at(version)
        view = db._as_view(at, self.name, version)
        working = db._reading(snapshot, at)
        maps = view.maps or read_from(at.program, view)[:1]
        here = db.policy.reads_here(r.rows for m in maps for r in working.refs.get(m.name, ()))

        def pieces() -> Iterator[pa.Table]:
            with as_stored(version):
                yield view_rows.row_schema(view).empty_table()
                yield from view_rows.scan(at.program, view, working, db.session.evaluate)

        def frame() -> DataFrame:
            return db.frame(self.name, version)

        return Rows(pieces, frame, not here)
