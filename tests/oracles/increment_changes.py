"""What an increment gives of its views, beside what is read back from the version that it became.

`applied` applies a change of which all views are wanted: for each, the rows that the increment gives are those that
`changes_table` reads.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pyarrow as pa

import headwater as hw
from headwater.api import carrying
from headwater.engine.increment import Increment
from headwater.engine.nested import rows as nested_rows
from headwater.plan.program import View


def applied(db: hw.Database, changes: Any) -> hw.Commit:
    """The commit of a change; what the increment gives of every view is what the version has changed."""
    made: list[Increment] = []

    def wanting(
        program: Any, working: Any, session: Any, root: Any, small: int, *_: Any
    ) -> Increment:
        every = frozenset(program.views)
        made.append(Increment(program, working, session, root, small, every))
        return made[-1]

    with patch.object(carrying, "Increment", wanting):
        commit = db.apply(changes)
    for increment in made:
        for name, view in increment.program.views.items():
            found = given_by(increment, view, commit.version)
            read = db.changes_table(name, commit.version - 1, commit.version)
            assert found.schema == read.schema, name
            assert _rows(found) == _rows(read), f"{name} at version {commit.version}"
    return commit


def given_by(increment: Increment, view: View, version: int) -> pa.Table:
    """The changes of a view that an increment gives, as those of a version are told."""
    if view.parts:
        return nested_rows.told(view, [m.rows for m in increment.parts_of(view)], version)
    table = increment.changes_of(view)
    assert all(table.column("_w").to_pylist()), f"{view.name} has rows of weight 0"
    return table.append_column("_version", pa.repeat(pa.scalar(version, pa.int64()), len(table)))


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))
