"""What versions changed of a view: one step after another, as a table of rows with weights, or as a change feed.

The rows that are told from one version to another add up to what the view has at the one and had not at the other,
whatever happened in between: also when it was dropped and defined anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from headwater.compiler.program import WEIGHT, Program, View
from headwater.engine import nested, read
from headwater.engine.answers import consolidated
from headwater.engine.rows import Scalars
from headwater.engine.working import Working
from headwater.errors import QueryError, StateError
from headwater.state.run import column

REBUILD = "rebuild"
"""What a version is noted as that computed all views again."""


@dataclass(frozen=True)
class Held:
    """A view as one version has it."""

    program: Program
    view: View
    working: Working

    def rows(self, scalars: Scalars, sign: int = 1) -> pa.Table:
        """All rows of a flat view, with their weights times a sign."""
        found = read.scan(self.program, self.view, self.working, scalars)
        table = pa.concat_tables([read.row_schema(self.view).empty_table(), *found])
        weights = pa.array(sign * np.asarray(column(table, WEIGHT)), pa.int64())
        return table.set_column(table.num_columns - 1, WEIGHT, weights)


@dataclass(frozen=True)
class Seen:
    """A version as the feed of one view sees it: the view, if it has it, and the version that defined that."""

    number: int
    what: str
    created: int
    held: Held | None


@dataclass(frozen=True)
class Step:
    """A version of a view to read the changes of; `before` is None where the view was new.

    `replaced` is what was called so until it was dropped, where that was in the versions that are asked for.
    """

    version: int
    program: Program
    view: View
    before: Working | None
    now: Working
    replaced: Held | None = None

    @cached_property
    def moved(self) -> list[nested.Moved]:
        """What changed of the parts of a nested view."""
        return read.changed_parts(self.view, self.before, self.now, self.version)


def steps(name: str, see: Callable[[int], Seen], since: int, last: int) -> Iterator[Step]:
    """The versions after one that have a view and may have changed it."""
    earlier: Seen | None = None
    with contextlib.suppress(StateError):  # it may be gone, and not be needed
        earlier = see(since)
    dropped: Held | None = None
    for version in range(since + 1, last + 1):
        at = see(version)
        if at.held is None:
            if at.what.lower() == f"drop {name}".lower():
                dropped = (earlier or see(version - 1)).held
            earlier = at
            continue
        previous, earlier = earlier, at
        if at.created == version:
            yield _step(at, None, dropped)
            dropped = None
        elif at.what != REBUILD:  # which writes maps anew, with what they had
            before = (previous or see(version - 1)).held
            assert before is not None
            yield _step(at, before.working, None)


def _step(at: Seen, before: Working | None, replaced: Held | None) -> Step:
    assert at.held is not None
    return Step(at.number, at.held.program, at.held.view, before, at.held.working, replaced)


def told(name: str, since: int, found: Iterator[Step], scalars: Scalars) -> list[pa.Table]:
    """The rows that each step changed, with `_w` and `_version`."""
    tables: list[pa.Table] = []
    for step in found:
        if step.view.parts:
            if step.replaced is not None:
                raise defined_anew(name, since, "nested rows")
            tables.append(nested.told(step.view, [m.rows for m in step.moved], step.version))
            continue
        rows = read.changed(step.program, step.view, step.before, step.now, step.version, scalars)
        if step.replaced is not None:
            rows = _instead(name, since, rows, step.replaced, scalars)
        numbers = pa.repeat(pa.scalar(step.version, pa.int64()), rows.num_rows)
        tables.append(rows.append_column("_version", numbers))
    if any(t.schema != tables[-1].schema for t in tables):
        raise defined_anew(name, since, "other columns")
    return tables


def _instead(name: str, since: int, rows: pa.Table, replaced: Held, scalars: Scalars) -> pa.Table:
    """The rows of a view that is new, and those of the one that had its name taken back."""
    if replaced.view.parts or read.row_schema(replaced.view) != rows.schema:
        raise defined_anew(name, since, "other columns")
    return consolidated(pa.concat_tables([rows, replaced.rows(scalars, -1)]))


def defined_anew(name: str, since: int, what: str) -> QueryError:
    """What is said where the difference of two views of one name cannot be told."""
    return QueryError(
        f"`{name}` was defined anew with {what} since version {since}",
        hint="ask for the changes since then, or until then",
    )
