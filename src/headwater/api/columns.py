"""Sources that get more columns, or wider ones, in one commit: what they had stays readable as it was, and views go on.

The rows are kept in new maps, those of inner rows and of late rows among them, filled from the old ones: NULL in new columns, and the same values in wider types. A view goes
on with the program that it has, for statements take columns by their names: what it reads of the source are the columns that
there were when it was defined. A map that held the rows before, and that views look up, stays as a map of some columns. Where
a view reads columns that get wider, it is planned again (`api/widening`).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from headwater.api.catalog import Catalog, SourceDef, facts_of
from headwater.api.dropping import without
from headwater.api.feeds import COLUMNS
from headwater.api.sequences import Sequencing
from headwater.calculus.check import type_of
from headwater.calculus.notation.parse import parse
from headwater.calculus.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TINYINT,
    Base,
    KeyType,
    RecordType,
)
from headwater.engine.here.statements import changes_of, fields_of
from headwater.engine.late import CLOSED, VERSION, aside_map
from headwater.engine.rings import spec_of
from headwater.engine.working import Working
from headwater.errors import InUse, QueryError
from headwater.feeds.feed import FILES
from headwater.interop.spark_text import spark_type
from headwater.plan import stored
from headwater.plan.equal_maps import digest
from headwater.plan.program import Map, Program
from headwater.plan.statements import Materializer
from headwater.state.arrangement import Arrangement
from headwater.state.run import column

WIDER = (TINYINT, SMALLINT, INTEGER, BIGINT), (FLOAT, DOUBLE)
"""Types in an order in which each holds what those before it do."""


def has_wider(known: SourceDef, made: SourceDef) -> bool:
    """Whether a source is declared again with all columns that it has, some of them wider, and maybe more."""
    before, now = dict(known.row.fields), dict(made.row.fields)
    return (
        before != now
        and before.keys() <= now.keys()
        and all(t == now[n] or _wider(t, now[n]) for n, t in before.items())
    )


def _wider(narrow: KeyType, wide: KeyType) -> bool:
    """Whether a type holds all that another one does, as a number of the same kind."""
    for chain in WIDER:
        if narrow in chain and wide in chain:
            return chain.index(narrow) < chain.index(wide)
    match narrow, wide:
        case Base("decimal", p, s), Base("decimal", q, t):
            return t >= s and q - t >= p - s
    return False


class Columns(Sequencing):
    """The part of a database that gives sources other columns."""

    def _widen(self, made: SourceDef, known: SourceDef) -> None:
        """Gives a source the columns that it is declared with now; the right to write is held."""
        name = made.name
        self._check_widened(made, known)
        made = held_apart(made, known, self.version + 1)
        catalog = Catalog({**self.catalog.sources, name: made}, self.catalog.views)
        program = self._widened(catalog, made, known)
        with self._commit(f"{COLUMNS}{name}", (catalog, program)) as commit:
            for key, value in stored.facts_of(program).items():
                commit.set(key, value)
            commit.set(*facts_of(made))
            old = self._reading(self._snapshot(self.version), self._defined)
            working = self._working(commit, program)
            pairs = _pairs(known, made) if made.retain else []
            for m in made.all_maps if made.retain else ():
                if m.name not in known.held_in:
                    commit.create(spec_of(m))
            for was, _ in pairs:
                if was.name not in program.maps:
                    commit.drop(was.name)
            late = aside_map(name, known.row), aside_map(name, made.row)
            if late[0].name in commit.base.maps:
                commit.drop(late[0].name)
                commit.create(spec_of(late[1]))
                pairs.append((_in_names(late[0], known.row), _in_names(late[1], made.row)))
            working.refs = {n: r for n, r in working.refs.items() if n != late[0].name}
            with self._telling("writing"):
                for was, now in pairs:
                    old.know(spec_of(was))
                    working.know(spec_of(now))
                    copy_rows(working, was, now, old.before(was.name))
            self._add(commit, working)

    def _check_widened(self, made: SourceDef, known: SourceDef) -> None:
        """Raises where something reads or keeps rows of the source that could not go on."""
        name, before = made.name, dict(known.row.fields)
        stages = self.graph.stages.values()
        for kind, reading in (
            ("stage", [s for s, read in self.graph.cursors if read == name]),
            ("stage", [s.name for s in stages if name in [what for what, _ in s.looks_up]]),
            ("stream", [d.name for d in self.stream_defs.values() if name in d.inputs]),
        ):
            if reading:
                raise InUse(
                    f"`{name}` cannot get other columns, for the {kind} `{reading[0]}` reads its rows as they are",
                    hint=f"drop `{reading[0]}` first, and define it again behind; or declare a source of another name",
                )
        if f"{name}{FILES}" in self.catalog.sources:
            raise InUse(
                f"`{name}` cannot get other columns, for the rows of each of its files are kept as they were",
                hint="declare a source of another name, without changed=replace",
            )
        new = [n for n, _ in made.row.fields if n not in before]
        never = [m.path[0] for m in made.limits if m.never_null and m.path[0] in new]
        if never and (not made.retain or self.table(name).num_rows):
            raise QueryError(
                f"the new column `{never[0]}` of `{name}` is NOT NULL, and rows are there that do not have it",
                hint="declare it without NOT NULL: it is NULL in the rows that are there",
            )
        readers = self.catalog.readers(name)
        wider = [n for n, t in made.row.fields if n in before and before[n] != t]
        remembered = {made.by.sequence, *made.by.key} if made.sequence_by else set()
        why = [(n, "deletions are remembered by it") for n in wider if n in remembered]
        if wider and (known.nested or made.nested):
            why.append((wider[0], "it has arrays with owners"))
        if wider and known.closes:
            why.append((wider[0], "parts of it are closed"))
        if wider and readers and not made.retain:
            why.append(
                (
                    wider[0],
                    f"the view `{readers[0]}` cannot be computed again from rows that are not kept",
                )
            )
        if why:
            raise InUse(
                f"`{why[0][0]}` of `{name}` cannot become {spark_type(dict(made.row.fields)[why[0][0]])}, for {why[0][1]}",
                hint="keep its type, or declare a source of another name",
            )
        if wider and readers:
            return  # which are planned again
        schemas = Catalog({**self.catalog.sources, name: made}, self.catalog.views).schemas()
        for view in readers:
            known_view = self.catalog.views[view]
            if type_of(parse(known_view.term, schemas)) != type_of(self.catalog.term(view)):
                raise InUse(
                    f"`{name}` cannot get columns, for the view `{view}` gives its rows as they are",
                    hint=f"name the columns in `{view}`, or drop it first",
                )

    def _widened(self, catalog: Catalog, made: SourceDef, known: SourceDef) -> Program:
        """The program in which a source has other columns."""
        program = self.program.copy()
        new = made.relations.keys() - known.relations.keys()
        program.relations.rows |= made.relations
        program.relations.levels |= dict.fromkeys(new, 0)
        program.relations.static |= new if made.static else set()
        for old in known.all_maps if known.retain else ():
            if old.name in made.held_in:
                continue
            # It holds some columns from now on, and is no more where rows of the source are read.
            program.maps[old.name] = replace(program.maps[old.name], fields=())
        maps = Materializer(program)
        for m, term in made.held if made.retain else ():
            if m.name not in known.held_in:
                maps.hold(m, term)
        kept = {m.name for s in catalog.sources.values() if s.retain for m in s.all_maps}
        return without(program, [], kept)


def held_apart(made: SourceDef, known: SourceDef, version: int) -> SourceDef:
    """A source whose rows are in maps of other names than before, where these have other columns: with other types a name is the same."""
    there = {m.name: (m.key, m.fields) for m in known.all_maps}
    names = []
    for m in replace(made, held_in=()).all_maps:
        apart = m.name in there and there[m.name] != (m.key, m.fields)
        names.append(f"m{digest(m.name, made.ddl)}" if apart else m.name)
    return replace(made, held_in=tuple(names), added=version)


def _pairs(known: SourceDef, made: SourceDef) -> list[tuple[Map, Map]]:
    """The maps of a source whose entries are to be copied, each with the one that holds them now; columns have their names."""
    pairs = [(m, made.maps[n]) for n, m in known.maps.items()]
    named = [
        {
            p.name: replace(s.keys[p.name], fields=(*p.key, *p.marks.values()))
            for p in s.parts
            if p.name in s.keys
        }
        for s in (known, made)
    ]
    pairs += [(m, named[1][n]) for n, m in named[0].items()]
    return [(a, b) for a, b in pairs if a.name != b.name]


def _in_names(late: Map, row: RecordType) -> Map:
    """The map of late rows with the names of their columns."""
    return replace(late, fields=(VERSION, CLOSED, *(n for n, _ in row.fields)))


def copy_rows(working: Working, old: Map, new: Map, rows_of: Arrangement) -> None:
    """The rows of one map, by the names of their columns, as entries of another one."""
    spec = working.spec(new.name)
    place = dict(zip(fields_of(old), old.columns, strict=True))
    for table in rows_of.scan():
        arrays = []
        for name, c in zip(fields_of(new), new.columns, strict=True):
            t = spec.schema.field(c).type
            held = (
                column(table, place[name]).cast(t) if name in place else pa.nulls(table.num_rows, t)
            )
            arrays.append(held)
        rows = pa.table([*arrays, column(table, "r0")], [*new.columns, "r0"])
        made = Arrangement(spec, (), working.runs)
        working.add(new.name, made.merge(changes_of(new, rows), blind=True)[0])
