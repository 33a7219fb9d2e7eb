"""Rehearsing: what a script would do to a database, found out without touching it.

The statements are carried out in another database, of the same definitions and without rows, where filling costs nothing; what
that would read is said from what the real one holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.api.catalog import facts_of
from headwater.api.executing import Executing, read_all, script_id, told
from headwater.api.ids import applied
from headwater.calculus.terms import relations
from headwater.engine.rings import spec_of
from headwater.errors import HeadwaterError
from headwater.plan.analysis import COSTS, cost_class
from headwater.script.statements import (
    Ask,
    CreateSink,
    CreateSource,
    CreateView,
    Delete,
    Explain,
    Insert,
    Show,
    Statement,
    Update,
)
from headwater.script.words import Script


@dataclass(frozen=True)
class Planned:
    """What a statement would do: its line, what it is about, what would become of that, and more of it, line by line."""

    line: int
    what: str
    becomes: str
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"line {self.line}: {self.what} {self.becomes}", *(f"  {m}" for m in self.more)]
        return "\n".join(lines)


def rehearsed(script: Script, db: Executing, stage: Executing) -> Iterator[Planned]:
    """What each statement of a script would do to a database; `stage` is an empty one, which is changed in its place."""
    _set_the_stage(db, stage)
    times: dict[str, int] = {}
    read = read_all(script)
    for done, statement in enumerate(read):
        text = statement.piece.text
        times[text] = times.get(text, 0) + 1
        try:
            yield _planned(statement, db, stage, script, times[text])
        except HeadwaterError as e:
            raise told(e, statement, done, len(read), tried=True) from e.__cause__


def _set_the_stage(db: Executing, stage: Executing) -> None:
    """Gives an empty database the definitions of another one, without rows."""
    known = db._defined
    stage.ask = db.ask
    with stage._locked():
        stage._writing()
        with stage._commit("definitions", (known.catalog, known.program)) as commit:
            for source in known.catalog.sources.values():
                commit.set(*facts_of(source))
            for view in known.catalog.views.values():
                commit.set(*facts_of(view))
            for m in known.program.maps.values():
                commit.create(spec_of(m))


def _planned(
    statement: Statement, db: Executing, stage: Executing, script: Script, time: int
) -> Planned:
    line, what = statement.piece.line, statement.what
    before, catalog = stage.version, stage.catalog
    match what:
        case CreateSource(name=name):
            there = catalog.named(name) in catalog.sources
            stage.carry_out(statement, script)
            new = "would get other columns or another place" if there else "would be made"
            return Planned(line, f"source {name}", new if stage.version > before else "is there")
        case CreateView():
            return _view(what, line, db, stage, statement, script)
        case CreateSink(name=name, of=of):
            return Planned(line, f"sink {name}", f"would follow {of}")
        case Insert() | Update() | Delete():
            verb = type(what).__name__.upper()
            stage._modified(what.source)
            id = script_id(script, statement.piece.text, time)
            facts = db.store.at(db.version).facts
            if id is not None and applied(facts, id) is not None:
                return Planned(line, f"{verb} of {what.source}", "was done by an earlier run")
            return Planned(line, f"{verb} of {what.source}", "would change its rows")
        case Ask() | Explain() | Show():
            return Planned(line, type(what).__name__.lower(), "changes nothing")
        case _:
            stage.carry_out(statement, script)
            changed = stage.version > before
            said = " ".join(statement.piece.text.split())
            return Planned(line, said, "would be done" if changed else "changes nothing")


def _view(
    what: CreateView,
    line: int,
    db: Executing,
    stage: Executing,
    statement: Statement,
    script: Script,
) -> Planned:
    """A view that would be made, or get another query: what of its maps is kept, adopted and filled, and its cost class."""
    name = stage.catalog.named(what.name)
    there = name in stage.catalog.views
    before = stage.version
    edit: list[str] = []
    if there and what.replace:
        try:
            edit = _instead(db.can(what.query, instead_of=name))
        except HeadwaterError:  # it reads what the script makes
            edit = _instead(stage.can(what.query, instead_of=name))
    stage.carry_out(statement, script)
    if stage.version == before:
        return Planned(line, f"view {name}", "is there")
    cost = cost_class(stage.program, name)
    more = [f"cost class {cost}: {COSTS[cost]}", *edit]
    if not there:
        more += [f"filled from {n}, {rows:,} entries" for n, rows in _read(stage, db, name)]
    becomes = "would get another query" if there else "would be made"
    return Planned(line, f"view {name}", becomes, tuple(more))


def _instead(told: str) -> list[str]:
    """The lines of `can` that say what becomes of maps."""
    lines = told.splitlines()
    first = next((i for i, x in enumerate(lines) if x.startswith("INSTEAD")), len(lines))
    return [x.removeprefix("INSTEAD: ").strip() for x in lines[first:]]


def _read(stage: Executing, db: Executing, name: str) -> Iterator[tuple[str, int]]:
    """The sources that a new view is filled from, with the entries that they have."""
    runs = db.store.at(db.version).version.maps
    for n in sorted({r.name for r in relations(stage.catalog.whole(name))}):
        source = db.catalog.sources.get(n)
        maps = [] if source is None or not source.retain else [m.name for m in source.all_maps]
        yield n, sum(r.rows for m in maps if m in runs for r in runs[m][1])
