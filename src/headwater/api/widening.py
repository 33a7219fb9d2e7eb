"""Sources whose columns get wider types while views read them: the views are planned again over the wider types, in one commit.

    widen(s); view(v)  =  view(v) over s as though it had been declared so

A view goes on with the columns that it has, of which some have the types that its query gives over the wider ones. What does not
hold such a column is kept as it is, and the rest is filled from the rows, which are copied first; until the commit, and by time
travel after it, the old answer is read. A view whose query does not read over the wider types is named, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headwater.api.catalog import Catalog, SourceDef, ViewDef
from headwater.api.columns import copy_rows, held_apart
from headwater.api.dropping import without
from headwater.api.editing import Editing, Read
from headwater.api.feeds import COLUMNS
from headwater.api.replacing import Replacing
from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.notation.parse import parse
from headwater.calculus.terms import Term
from headwater.calculus.types import RecordType, bag
from headwater.engine.working import Working
from headwater.errors import HeadwaterError, InUse
from headwater.language.declared import ddl_of
from headwater.language.queries import read_query, text_of
from headwater.plan.adopting import Adoption
from headwater.plan.maps import key_fields
from headwater.plan.program import Program
from headwater.plan.statements import Materializer
from headwater.state.store import Commit as StoreCommit


class Widening(Replacing):
    """The part of a database that plans views again whose source has wider columns."""

    def _widen(self, made: SourceDef, known: SourceDef) -> None:
        """Gives a source the columns that it is declared with now; the right to write is held."""
        before = dict(known.row.fields)
        wider = any(before.get(n, t) != t for n, t in made.row.fields)
        if not wider or not self.catalog.readers(made.name):
            super()._widen(made, known)
            return
        self._check_widened(made, known)
        made = held_apart(made, known, self.version + 1)
        at = self._defined
        editing = _Wider(at.catalog, at.program, made, known)

        def read(query: Any, schemas: Any) -> Any:
            return read_query(query, schemas, self.ask)

        edit = editing.edited(read, self._checked, self._sampled(), at.version + 1)
        old = self._reading(self._snapshot(at.version), at)
        (was,), (new,) = known.all_maps, made.all_maps

        def copied(commit: StoreCommit, working: Working) -> Program:
            """The rows in their new map, from which others are filled."""
            rows = self._working(commit, edit.program)
            rows.refs = {}
            copy_rows(rows, was, new, old.before(was.name))
            for name, refs in self._written(rows).items():
                commit.add(name, refs)
                working.refs = {**working.refs, name: refs}
            there = at.program.copy()
            there.maps.pop(was.name)
            there.maps[new.name] = new
            return there

        self._commit_edit(edit, f"{COLUMNS}{made.name}", Adoption(), copied)


class _Wider(Editing):
    """The edit of a catalog in which a source has wider columns."""

    def __init__(self, catalog: Catalog, program: Program, made: SourceDef, known: SourceDef):
        super().__init__(catalog, program, {})
        self.made, self.known = made, known
        self.sources, self.roots = {**catalog.sources, made.name: made}, [made.name]

    def without(self, views: Sequence[str]) -> Program:
        """The program without the views that read the source, and with its rows in another map."""
        others = [s for n, s in self.sources.items() if n != self.made.name and s.retain]
        program = without(self.program, views, {m.name for s in others for m in s.all_maps})
        program.relations.rows |= self.made.relations
        maps = Materializer(program)
        for m, term in self.made.held:
            maps.hold(m, term)
        return program

    @with_room
    def _read_again(self, out: Catalog, known: ViewDef, read: Read) -> tuple[Term, ViewDef]:
        """A view over the wider columns, with the columns that it has."""
        name, schemas = self.made.name, out.schemas()
        had, now = [n for n, _ in self.known.row.fields], dict(self.made.row.fields)
        as_it_was = bag(RecordType(tuple((n, now[n]) for n in had)))
        try:
            if known.language == "sql":  # where * is the columns that there were
                read_as = read(known.text, {**schemas, name: as_it_was})[2]
                term = parse(text_of(read_as), schemas)
            else:
                term = parse(known.term, schemas)
            row = RecordType(tuple(key_fields(type_of(term))))
        except HeadwaterError as e:
            raise self._refused(known, e.what) from e
        before = known.type.key
        assert isinstance(before, RecordType)
        if [n for n, _ in row.fields] != [n for n, _ in before.fields]:
            raise self._refused(known, "it gives its rows as they are")
        return term, replace(known, term=text_of(term), ddl=ddl_of(row), row=str(row))

    def _refused(self, view: ViewDef, why: str) -> InUse:
        return InUse(
            f"`{self.made.name}` cannot get wider columns, for the view `{view.name}` does not read over them: {why}",
            hint=f"drop `{view.name}` first, and define it again behind",
        )
