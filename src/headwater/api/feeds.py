"""What versions changed of a view: one step after another, as a table of rows with weights, or as a change feed.

The rows that are told from one version to another add up to what the view has at the one and had not at the other,
whatever happened in between: also when it was dropped and defined anew. A version that computed all views again changed
none of those that are kept exactly; what reads a loop in diffuse mode has moved with it, and is told as if it were replaced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.calculus.terms import Field, For, Num, Pred, Record, Rel, Sng, Term, Times
from headwater.calculus.types import INT
from headwater.dataflow.nested import in_one_order
from headwater.engine import view_rows
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.here.statements import Scalars
from headwater.engine.nested import rows as nested_rows
from headwater.engine.working import Working
from headwater.errors import DefinedAnew, StateError
from headwater.plan.analysis import loops_of
from headwater.plan.program import WEIGHT, Program, View
from headwater.state.hashing import places
from headwater.state.run import column

REBUILD, REPLACE, VIEW, COLUMNS = "rebuild", "replace ", "view ", "columns of "
"""What versions are noted as that computed all views again, that replaced some, and that defined one."""
RENAME, DROP = "rename ", "drop "
"""What a version is noted as that gave something another name: "rename orders to sales"."""


def is_gone(name: str, what: str) -> bool:
    """Whether a version, by its note, has taken away what had a name, with others or alone, or given it another one."""
    low, said = name.lower(), what.lower()
    names = said[len(DROP) :].split(", ") if said.startswith(DROP) else []
    return low in names or said.startswith(f"{RENAME}{low} to ")


def plans_only(what: str) -> bool:
    """Whether a version, by its note, may write maps anew with what they had, and changes views that it plans at most."""
    return what == REBUILD or what.startswith((VIEW, REPLACE, COLUMNS, RENAME))


def is_near(program: Program, view: View) -> bool:
    """Whether a view is answered through a loop in diffuse mode, which has other rows when it is computed from its start."""
    return any(loop.diffuse for loop in loops_of(program, view))


@dataclass(frozen=True)
class Held:
    """A view as one version has it."""

    program: Program
    view: View
    working: Working

    def rows(self, scalars: Scalars, sign: int = 1) -> pa.Table:
        """All rows with their weights times a sign."""
        found = view_rows.scan(self.program, self.view, self.working, scalars)
        table = pa.concat_tables([view_rows.row_schema(self.view).empty_table(), *found])
        return _times(sign, table)

    def told(self, version: int, sign: int = 1) -> pa.Table:
        """All rows of a nested view, part by part as a version tells what changed, with their weights times a sign."""
        parts = view_rows.changed_parts(self.view, None, self.working, version)
        return _times(sign, nested_rows.told(self.view, [m.rows for m in parts], version))


@dataclass(frozen=True)
class Seen:
    """A version as the feed of one view sees it: the view, if the version has it, and the number of the version that defined it."""

    number: int
    what: str
    created: int
    held: Held | None
    replaced: int = 0
    """The number of the version that planned it anew, as its query or one that it reads was replaced."""
    minor: bool = False
    """Whether the version is of a stage, and changed no source and no view."""


@dataclass(frozen=True)
class Step:
    """One version whose changes of a view are read; `before` is None where the view was new.

    `replaced` is what was called so until it was dropped or replaced, where that was in the versions that are asked for.
    """

    version: int
    program: Program
    view: View
    before: Working | None
    now: Working
    replaced: Held | None = None
    again: bool = False
    """Whether it is the same query that replaces it, computed from its start."""

    @cached_property
    def moved(self) -> list[nested_rows.Moved]:
        """What changed of the parts of a nested view."""
        return view_rows.changed_parts(self.view, self.before, self.now, self.version)


def steps(name: str, see: Callable[[int], Seen], since: int, last: int) -> Iterator[Step]:
    """The versions after one that have a view and may have changed it."""
    earlier: Seen | None = None
    with contextlib.suppress(StateError):  # it may be gone, and not be needed
        earlier = see(since)
    dropped: Held | None = None
    for version in range(since + 1, last + 1):
        at = see(version)
        if at.held is None:
            if is_gone(name, at.what):
                dropped = (earlier or see(version - 1)).held
            earlier = at
            continue
        previous, earlier = earlier, at
        if at.minor:
            continue
        if at.created == version:
            yield _step(at, None, dropped)
            dropped = None
        elif at.replaced == version:
            yield _step(at, None, (previous or see(version - 1)).held)
        elif at.what == REBUILD and _is_near(previous, at):
            yield replace(_step(at, None, (previous or see(version - 1)).held), again=True)
        elif not plans_only(at.what):
            before = (previous or see(version - 1)).held
            yield _step(at, None if before is None else before.working, None)


def _is_near(*found: Seen | None) -> bool:
    """Whether a view is answered through a loop in diffuse mode in one of two versions."""
    held = [at.held for at in found if at is not None and at.held is not None]
    return any(is_near(h.program, h.view) for h in held)


def _step(at: Seen, before: Working | None, replaced: Held | None) -> Step:
    assert at.held is not None
    return Step(at.number, at.held.program, at.held.view, before, at.held.working, replaced)


def told(name: str, since: int, found: Iterator[Step], scalars: Scalars) -> list[pa.Table]:
    """The rows that each step changed, with `_w` and `_version`."""
    tables: list[pa.Table] = []
    for step in found:
        if step.view.parts:
            if step.replaced is not None and not step.again:
                raise defined_anew(name, since, "nested rows")
            rows = nested_rows.told(step.view, [m.rows for m in step.moved], step.version)
            if step.replaced is not None:
                rows = _parts_instead(name, since, rows, step.replaced.told(step.version, -1))
            tables.append(rows)
            continue
        rows = view_rows.changed(
            step.program, step.view, step.before, step.now, step.version, scalars
        )
        if step.replaced is not None:
            rows = _instead(name, since, rows, step.replaced, scalars)
        numbers = pa.repeat(pa.scalar(step.version, pa.int64()), rows.num_rows)
        tables.append(rows.append_column("_version", numbers))
    if any(t.schema != tables[-1].schema for t in tables):
        raise defined_anew(name, since, "other columns")
    return tables


def count(name: str, step: Step, scalars: Scalars) -> int:
    """How many rows a step changed; of a view that was replaced by one of other columns, those of both."""
    try:
        (rows,) = told(name, step.version - 1, iter([step]), scalars)
    except DefinedAnew:
        assert step.replaced is not None
        now = Held(step.program, step.view, step.now)
        return sum(h.rows(scalars).num_rows for h in (step.replaced, now))
    return int(rows.num_rows)


def _instead(name: str, since: int, rows: pa.Table, replaced: Held, scalars: Scalars) -> pa.Table:
    """The change from a view to another one of its name: the new rows, and the old rows taken back."""
    if replaced.view.parts or view_rows.row_schema(replaced.view) != rows.schema:
        raise defined_anew(name, since, "other columns")
    return consolidated(pa.concat_tables([rows, replaced.rows(scalars, -1)]))


def _parts_instead(name: str, since: int, rows: pa.Table, gone: pa.Table) -> pa.Table:
    """The same of nested rows, part by part; only of the same query, for labels of another one say other things."""
    if gone.schema != rows.schema:
        raise defined_anew(name, since, "other columns")
    both = consolidated(pa.concat_tables([rows, gone]))
    return both.select(rows.column_names).cast(rows.schema)


def difference(was: Held, now: Held, scalars: Scalars) -> pa.Table:
    """The rows of a view as it is now, with those that it had taken back; both have the same columns, and stages read them."""
    tables = [now.rows(scalars), was.rows(scalars, -1)]
    if now.view.parts:
        tables = [in_one_order(now.view.type, t) for t in tables]
    return consolidated(pa.concat_tables(tables))


def _times(sign: int, table: pa.Table) -> pa.Table:
    """Rows with their weights times a sign."""
    place = table.schema.get_field_index(WEIGHT)
    weights = pa.array(sign * np.asarray(column(table, WEIGHT)), pa.int64())
    return table.set_column(place, WEIGHT, weights)


def defined_anew(name: str, since: int, what: str) -> DefinedAnew:
    """The error where two views had one name, one after the other, and their rows cannot be subtracted."""
    return DefinedAnew(
        f"`{name}` was defined anew with {what} since version {since}",
        hint="ask for the changes since then, or until then",
    )


# --- keys and updates -----------------------------------------------------------------------------------------------


def row_key(
    program: Program,
    view: View,
    term: Term,
    declared: Sequence[str],
    sources: Mapping[str, Sequence[str]],
) -> list[str] | None:
    """The columns of a flat view that tell its rows apart, none where it has one row at most; None if that is not known.

    They are those that the view was declared with, the groups of an answer where all of them are shown, or the key of
    the source whose rows it selects.
    """
    if view.parts:
        return None
    names = {n.lower(): n for n, _ in view.type.fields}
    if declared:
        found = [names.get(k.lower()) for k in declared]
        return [n for n in found if n is not None] if None not in found else None
    if view.stratum is not None:
        return program.strata[view.stratum].shown_key
    return _carried(term, sources)


def _carried(term: Term, sources: Mapping[str, Sequence[str]]) -> list[str] | None:
    """The columns under which rows of one input carry its key."""
    if isinstance(term, Rel):
        key = sources.get(term.name)
        return list(key) if key else None
    if not isinstance(term, For):
        return None
    below = _carried(term.source, sources)
    factors = term.body.factors if isinstance(term.body, Times) else (term.body,)
    *conditions, last = factors
    plain = isinstance(last, Sng) and isinstance(last.key, Record)
    if below is None or not plain or not all(isinstance(f, Pred) for f in conditions):
        return None
    assert isinstance(last, Sng) and isinstance(last.key, Record)
    if last.value != Num(1, INT):
        return None
    cells = last.key.fields
    out = [next((n for n, c in cells if c == Field(term.var, k)), None) for k in below]
    return [n for n in out if n is not None] if None not in out else None


def as_cdc(table: pa.Table, times: Mapping[int, datetime], key: Sequence[str] | None) -> pa.Table:
    """Weighted changes in the form that Spark and Delta users know, with the times of their versions.

    A row that went and one that came in the same version with the same key are an update: its old row, then its new one.
    """
    weights = np.asarray(table.column(WEIGHT))
    often = np.repeat(np.arange(len(weights)), np.abs(weights))
    rows, came = table.take(pa.array(often)), weights[often] > 0
    kinds = np.where(came, "insert", "delete").astype(object)
    order = np.arange(len(often))
    if key is not None:
        order = _paired(rows.select(["_version", *key]), came, kinds)
    stamps = [times[v] for v in rows.column("_version").to_pylist()]
    columns = {n: rows.column(n) for n in table.column_names if n not in (WEIGHT, "_version")}
    columns["_change_type"] = pa.array(kinds, pa.string())
    columns["_commit_version"] = rows.column("_version")
    columns["_commit_timestamp"] = pa.array(stamps, pa.timestamp("us", "UTC"))
    return pa.table(columns).take(pa.array(order))


def _paired(keys: pa.Table, came: Any, kinds: Any) -> Any:
    """The kinds of changed rows, updates among them, and an order in which the two rows of an update are neighbours."""
    arrays = [column(keys, n) for n in keys.column_names]
    gone, new = np.flatnonzero(~came), np.flatnonzero(came)
    place = np.arange(len(came)) * 2
    if not len(gone) or not len(new):
        return np.argsort(place, kind="stable")
    labels = keys.take(pa.array(gone)).append_column(WEIGHT, pa.array(np.ones(len(gone), np.int64)))
    labels = consolidated(labels).select(keys.column_names)
    known = [column(labels, n) for n in keys.column_names]
    which = places(known, arrays)
    waiting: dict[int, list[int]] = {}
    for i in gone:
        waiting.setdefault(int(which[i]), []).append(int(i))
    for j in new:
        mine = waiting.get(int(which[j]))
        if which[j] >= 0 and mine:
            old = mine.pop(0)
            kinds[old], kinds[j] = "update_preimage", "update_postimage"
            place[j] = place[old] + 1
    return np.argsort(place, kind="stable")
