"""Nearness: views whose loops are kept in diffuse mode, what is said of that, and how far they are from their fixpoint.

`Mode` is what `view` is told: exactly, or near by `cut`, `near` and `rounds`. `error_of` computes a loop anew from its start,
a thousand times nearer than it is kept and with every term, and compares:

    |X* - fixpoint|     for PageRank at most nodes · cut / (1 - damping) in all
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.api.catalog import Catalog, ViewDef
from headwater.calculus.terms import Repeat, Term, relations, subterms
from headwater.calculus.types import RecordType
from headwater.engine import view_rows
from headwater.engine.fill import Backfill
from headwater.engine.working import Working
from headwater.errors import NoFixpoint, NotRetained, QueryError
from headwater.plan.diffuse import is_value
from headwater.plan.program import Diffusion
from headwater.state.run import column

if TYPE_CHECKING:
    from headwater.api.versions import Defined, Readable

MODES = ("exact", "diffuse")
ROUNDS = 50
"""How often rows may move in one increment, unless it is said."""
NEARER = 1e-3
"""How much nearer to its fixpoint a loop is computed that one is compared with."""
NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class Mode:
    """How the loops of a view are kept, as it was asked for."""

    mode: str = "exact"
    cut: float | None = None
    near: float | None = None
    rounds: int = ROUNDS

    @property
    def fields(self) -> dict[str, Any]:
        """The same as fields of a definition."""
        return {"mode": self.mode, "cut": self.cut, "near": self.near, "rounds": self.rounds}

    @property
    def diffusion(self) -> Diffusion | None:
        """The same as the plan of a loop has it; None where it is kept exactly."""
        return None if self.cut is None else Diffusion(self.cut, self.near, self.rounds)


EXACT = Mode()


def mode_of(mode: Any, cut: Any = None, near: Any = None, rounds: Any = ROUNDS) -> Mode:
    """A mode as it is asked for; refused by name where it means nothing."""
    if mode not in MODES:
        raise QueryError(f"`mode` is {mode!r}", hint=f"one of {', '.join(MODES)}")
    if mode == "exact":
        said = [n for n, v in (("cut", cut), ("near", near)) if v is not None]
        said += ["rounds"] if rounds != ROUNDS else []
        if said:
            raise QueryError(
                f"`{said[0]}` is given, and the loops of the view are kept exactly",
                hint=f"say mode='diffuse', or leave {said[0]}= out",
            )
        return EXACT
    if cut is None:
        raise QueryError(
            "mode='diffuse' says nothing of how near is near enough",
            hint="say cut=, how far rows may be from what the loop gives: cut=1e-3",
        )
    if not _is_number(cut) or cut < 0:
        raise QueryError(f"`cut` is {cut!r}", hint="a number that is 0 or more, such as 1e-3")
    if near is not None and (not _is_number(near) or near <= 0):
        raise QueryError(f"`near` is {near!r}", hint="a number above 0, such as 0.01")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise QueryError(f"`rounds` is {rounds!r}", hint="a whole number above 0")
    return Mode(mode, float(cut), None if near is None else float(near), rounds)


def mode_as(view: ViewDef) -> Mode:
    """The mode that a view was declared with."""
    return Mode(view.mode, view.cut, view.near, view.rounds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_loops(name: str, term: Term, mode: Mode) -> None:
    """Raises where a view is to be kept near that has no loop."""
    if mode.mode == "diffuse" and not any(isinstance(t, Repeat) for t in subterms(term)):
        raise QueryError(
            f"`{name}` has no loop, so that nothing of it is kept near",
            hint="leave mode='diffuse' out",
        )


def kept_near(catalog: Catalog, view: ViewDef) -> list[str]:
    """The views in diffuse mode that a view is, or reads, however deep."""
    found, todo = dict[str, None](), [view.name]
    while todo:
        name = todo.pop()
        if name not in found and name in catalog.views:
            found[name] = None
            todo += [r.name for r in relations(catalog.term(name))]
    return [n for n in found if catalog.views[n].mode == "diffuse"]


@dataclass(frozen=True)
class Error:
    """How far a view in diffuse mode is from the fixpoint of its loops.

    `largest` is the largest difference of a value, and `relative` the largest in proportion to the value itself, among rows of
    the same key. `missing` and `extra` count the rows whose key is in the fixpoint alone, and in the view alone.
    """

    largest: float
    relative: float
    missing: int
    extra: int


def error_of(db: Readable, name: str) -> Error:
    """Compares a view in diffuse mode with its fixpoint, computed anew."""
    snapshot, at = db._at(None)
    view = at.catalog.views.get(at.catalog.named(name))
    if view is None:
        raise db._unknown(name)
    if not kept_near(at.catalog, view):
        raise QueryError(
            f"the loops of `{view.name}` are kept exactly",
            hint="verify() compares it with its query",
        )
    expected = _fixpoint(db, at, view, db._reading(snapshot, at))
    row = view.type.key
    assert isinstance(row, RecordType)
    return compared(view_rows.repeated(db.table(view.name)), expected, row)


def _fixpoint(db: Readable, at: Defined, view: ViewDef, reading: Working) -> pa.Table:
    """The rows of a view whose loops are computed from their start, with nothing left out."""
    catalog = at.catalog
    term = catalog.whole(view.name)
    for r in relations(term):
        if not catalog.sources[r.name].retain:
            raise NotRetained(
                f"`{r.name}` keeps no copy of its rows, so `{view.name}` cannot be recomputed",
                hint="declare it without retain=False",
            )
    limit = max(t.limit for t in subterms(term) if isinstance(t, Repeat))
    cuts = [v.cut for n in kept_near(catalog, view) if (v := catalog.views[n]).cut is not None]
    sources = catalog.of_sources()
    compiler = catalog.compiler(sources, Diffusion(min(cuts) * NEARER, None, limit))
    program = compiler.asked_for(view.name, term, view.kept, view.key)
    held = {n: r for n, r in reading.refs.items() if n in sources.maps}
    working = Working(program.maps, held, reading.runs.below, rows=program.relations.rows)
    Backfill(program, working, db.session, db.path, NO_LIMIT).run(sources)
    for loop in program.loops.values():
        due = loop.diffuse.due if loop.diffuse else ()
        if any(t.num_rows for m in due for t in working.now(m.name).scan()):
            raise NoFixpoint(
                f"a loop of `{view.name}` still moves after {limit:,} rounds from its start",
                hint="its rows are kept near what the step gives of them, but there is no fixpoint to compare with",
            )
    made = program.views[view.name]
    tables = list(view_rows.scan(program, made, working, db.session.evaluate))
    empty = view_rows.row_schema(made).empty_table()
    return view_rows.repeated(pa.concat_tables([empty, *tables]))


def compared(found: pa.Table, expected: pa.Table, row: RecordType) -> Error:
    """The differences of rows by key: columns that are no fractions; rows of one key are compared in order."""
    key = [n for n, t in row.fields if not is_value(t)]
    values = [n for n, t in row.fields if is_value(t)]
    ours, theirs = (_by_key(t, key, values) for t in (found, expected))
    largest = relative = 0.0
    missing = extra = 0
    for k in ours.keys() | theirs.keys():
        a, b = ours.get(k, []), theirs.get(k, [])
        extra, missing = extra + max(0, len(a) - len(b)), missing + max(0, len(b) - len(a))
        for x, y in zip(a, b, strict=False):
            for v, w in zip(x, y, strict=True):
                away = 0.0 if v == w or (v != v and w != w) else abs(v - w)
                away = math.inf if away != away else away
                largest = max(largest, away)
                relative = max(relative, away / abs(w) if w else (math.inf if away else 0.0))
    return Error(largest, relative, missing, extra)


def _by_key(
    table: pa.Table, key: list[str], values: list[str]
) -> dict[Any, list[tuple[float, ...]]]:
    """Rows as numbers, by key, in order."""
    out: dict[Any, list[tuple[float, ...]]] = {}
    keys = list(zip(*(column(table, n).to_pylist() for n in key), strict=True))
    numbers = [
        np.asarray(column(table, n).cast(pa.float64()).fill_null(math.nan)).tolist() for n in values
    ]
    rows = list(zip(*numbers, strict=True)) if numbers else [()] * table.num_rows
    for k, r in zip(keys or [()] * table.num_rows, rows, strict=True):
        out.setdefault(k, []).append(r)
    return {k: sorted(r) for k, r in out.items()}
