"""An edit: a catalog in which some views have other queries, planned so that all the rest stays as it is.

The query is a function F of the inputs, and an edit is its change, F′ - F. Maps are named by digests of their terms, so what
both have in common is found by name: views that are edited, and those that read them, are taken out of the program and
planned again over what is left, and a map of the same name has the same entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.api.catalog import Catalog, ViewDef
from headwater.api.dropping import without
from headwater.api.nearness import EXACT, Mode
from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.notation.parse import parse
from headwater.calculus.terms import Field, Node, Term, Var, relations, subterms
from headwater.calculus.types import MapType, RecordType
from headwater.errors import HeadwaterError, NotIncremental, QueryError
from headwater.language.comprehension import Query
from headwater.language.queries import text_of
from headwater.language.sql import tables_named
from headwater.language.sql.places import placed
from headwater.plan.analysis import maps_of, strata_of
from headwater.plan.choose import Data
from headwater.plan.maps import key_fields
from headwater.plan.program import Program, keeps_answer
from headwater.plan.statements import RULES

Read = Callable[[Any, dict[str, MapType]], tuple[str, str, Term]]
"""Reads a query over what there is: its text, its language and its term."""
Check = Callable[[str, str, str, Term, str, tuple[str, ...], Mode], ViewDef]
"""A view as it is declared by name, text, language, term, strategy, key and mode."""


@dataclass(frozen=True)
class Given:
    """A query that a view is given, in place of the one that it has."""

    query: str | Query | Term
    strategy: str = "auto"
    key: tuple[str, ...] = ()
    mode: Mode = EXACT


@dataclass(frozen=True)
class Edit:
    """What a database becomes by an edit: `moved` are the views that are kept otherwise than before, readers after what they read."""

    catalog: Catalog
    program: Program
    moved: tuple[str, ...]
    planned: tuple[str, ...]
    """The views that were planned again, whatever came out."""


class Editing:
    """One edit of a catalog and its program, which are as the version before has them."""

    def __init__(
        self,
        catalog: Catalog,
        program: Program,
        given: Mapping[str, Given],
        again: Mapping[str, Given] | None = None,
    ):
        self.catalog, self.program, self.given = catalog, program, given
        self.again = again or {}
        """Views that are given the query that they have: where they read what is edited, their columns may be others."""
        self.sources, self.roots = catalog.sources, list(given)
        """The sources as they will be, and what is edited: all that reads it is planned again."""

    def edited(self, read: Read, check: Check, data: Data, version: int) -> Edit:
        """The catalog and the program with the views replaced in their places; `version` is the one that does it."""
        planned = self.order()
        views = {n: v for n, v in self.catalog.views.items() if n not in planned}
        out = Catalog(self.sources, views)
        program = self.without([n for n in planned if n in self.program.views])
        for name in planned:
            known = self.catalog.views.get(name)
            if known is None:
                term, made = _read_as(self.given[name], name, out, read, check)
                made = replace(made, created=version)
            else:
                term, made = self._read_over(out, known, read, check)
            read_by = names_read(term, made)
            below = [v.place for n, v in views.items() if n.lower() in read_by]
            place = known.place if known else 0
            if place <= max(below, default=0):
                others = (*views.values(), *self.catalog.views.values())
                place = 1 + max((v.place for v in others), default=0)
            program, made = self._planned(out, program, replace(made, place=place), term, data)
            views[name] = made
        program = shared(program, self.program)
        moved = tuple(n for n in planned if not is_kept_as(self.program, program, n))
        for n in moved:
            replaced = version if views[n].created != version else 0
            views[n] = replace(views[n], replaced=replaced)
        out.views = dict(sorted(views.items(), key=lambda v: v[1].place))
        return Edit(out, program, moved, tuple(planned))

    def without(self, views: Sequence[str]) -> Program:
        """The program without the views that are planned again."""
        sources = {m.name for s in self.sources.values() if s.retain for m in s.all_maps}
        return without(self.program, views, sources)

    # --- what is planned again, and in which order -------------------------------------------------------------------

    def order(self) -> list[str]:
        """The views that are given and all that read them, each after what it reads; a circle is refused."""
        affected, todo = dict.fromkeys(self.given), list(self.roots)
        while todo:
            for reader in self.catalog.readers(todo.pop()):
                if reader not in affected:
                    affected[reader] = None
                    todo.append(reader)
        low = {n.lower(): n for n in affected}
        reads = {n: {low[r] for r in self._names(n) if r in low} for n in affected}
        places = {n: v.place for n, v in self.catalog.views.items()}
        out: list[str] = []
        waiting = sorted(affected, key=lambda n: places.get(n, len(places) + 1))
        while waiting:
            ready = next((n for n in waiting if reads[n] <= {*out}), None)
            if ready is None:
                raise _circle(reads, waiting)
            waiting.remove(ready)
            out.append(ready)
        return out

    def _names(self, name: str) -> set[str]:
        """What a view names in its query, in lower case."""
        match self.given.get(name):
            case None:
                known = self.catalog.views[name]
                return names_read(self.catalog.term(name), known)
            case Given(query=str() as text):
                return tables_named(text)
            case Given(query=Query() as query):
                return {n.lower() for n in query.inputs}
            case Given(query=Node() as term):
                return {r.name.lower() for r in relations(term)}
        return set()  # which is no query, and refused as such

    # --- what is read -------------------------------------------------------------------------------------------------

    def _read_over(
        self, out: Catalog, known: ViewDef, read: Read, check: Check
    ) -> tuple[Term, ViewDef]:
        """A view that is there, over what there will be: by the query that it is given, or by its own."""
        asked = self.given.get(known.name)
        if asked is None and self._reads_others(out, known):
            asked = self.again.get(known.name)
        if asked is None:
            return self._read_again(out, known, read)
        term, made = _read_as(asked, known.name, out, read, check)
        made = replace(made, created=known.created, called=known.called, comment=known.comment)
        return term, replace(made, kept=known.kept, why=known.why)

    def _reads_others(self, out: Catalog, known: ViewDef) -> list[str]:
        """The views that a view reads and that have other columns than before."""
        named, was = names_read(self.catalog.term(known.name), known), self.catalog.views
        return [n for n, v in out.views.items() if n.lower() in named and v.type != was[n].type]

    def _read_again(self, out: Catalog, known: ViewDef, read: Read) -> tuple[Term, ViewDef]:
        """A view that reads one that is replaced: its own columns stay, and those that it names must be there."""
        term, was = self.catalog.term(known.name), self.catalog.views
        others = self._reads_others(out, known)
        if not others:
            return term, known
        for n in others:
            column = _lost(term, was[n].type, out.views[n].type)
            if column:
                what = f"column `{column}`, which is gone or of another type"
                raise self._loses(known.name, n, what)
        try:
            if known.language == "sql":
                _, _, term = read(known.text, out.schemas())
            else:
                term = parse(known.term, out.schemas())
            row = RecordType(tuple(key_fields(type_of(term))))
        except HeadwaterError as e:
            raise self._loses(known.name, others[0], f"columns as they were: {e.what}") from e
        if row != known.type.key:
            what = "columns as they were, for all of them are its own"
            raise self._loses(known.name, others[0], what)
        return term, replace(known, term=text_of(term))

    def _loses(self, reader: str, name: str, what: str) -> QueryError:
        return QueryError(
            f"[REPLACE_COLUMNS] `{reader}` reads `{name}`, and needs its {what}",
            hint=self._together(reader),
        )

    def _together(self, reader: str) -> str:
        """The hint to give a reader another query in the same call."""
        if not self.given:
            return f"drop `{reader}` first, and define it again behind"
        others = [*self.given, *self.again]
        if len(others) > 1:
            return f"replace all at once: db.replace_views({{..., {reader!r}: ...}})"
        return f"replace both at once: db.replace_views({{{others[0]!r}: ..., {reader!r}: ...}})"

    # --- plans --------------------------------------------------------------------------------------------------------

    @with_room
    def _planned(
        self, out: Catalog, program: Program, made: ViewDef, term: Term, data: Data
    ) -> tuple[Program, ViewDef]:
        """A program with a view added: one that only reads another is kept by the strategy that it has."""
        name, anew = made.name, self._is_anew(made)
        compiler = out.compiler(program, made.diffusion)
        try:
            if made.strategy != "auto":
                program = compiler.asked_for(name, term, made.strategy, made.key)
                kept, why = made.strategy, "as was asked for"
            elif anew:
                program, kept, why = compiler.choose(name, term, made.key, data)
            else:
                kept, why = made.kept, made.why
                try:
                    program = compiler.asked_for(name, term, kept, made.key)
                except NotIncremental as e:
                    if e.reason != "TOO_LARGE":
                        raise
                    program, kept, why = compiler.choose(name, term, made.key, data)
        except HeadwaterError as e:
            said = e
            if isinstance(e, NotIncremental) and made.language == "sql":
                said = placed(e, made.text, out.schemas())
            if anew:
                raise said from e.__cause__
            raise self._not_kept(made, term, said) from e
        stored = keeps_answer(program.views[name])
        return program, replace(made, kept=kept, why=why, stored=stored, rules=RULES)

    def _is_anew(self, made: ViewDef) -> bool:
        """Whether a view has another query than before, or another term that is read from the same one."""
        if made.name in self.given:
            return True
        return made.name in self.again and made.term != self.catalog.views[made.name].term

    def _not_kept(self, made: ViewDef, term: Term, why: HeadwaterError) -> QueryError:
        """The refusal of a view that reads what is edited, with what it is refused for."""
        names = names_read(term, made)
        edited = next((n for n in self.order() if n.lower() in names), self.roots[0])
        return QueryError(
            f"the view `{made.name}` reads `{edited}`, and cannot be kept over what that becomes: {why.what}",
            hint=why.hint or self._together(made.name),
        )


def _read_as(
    asked: Given, name: str, out: Catalog, read: Read, check: Check
) -> tuple[Term, ViewDef]:
    """A view as it is declared by a query that it is given."""
    text, language, term = read(asked.query, out.schemas())
    return term, check(name, text, language, term, asked.strategy, asked.key, asked.mode)


def names_read(term: Term, made: ViewDef) -> set[str]:
    """What a view reads by its term, and by its text, as `verify` recomputes from that; in lower case."""
    named = tables_named(made.text) if made.language == "sql" else set()
    return named | {r.name.lower() for r in relations(term)}


def is_kept_as(before: Program, after: Program, name: str) -> bool:
    """Whether a view is answered from the same maps in both programs, and so has the same rows."""
    was, now = before.views.get(name), after.views[name]
    if was is None or (was.type, was.rows, was.strategy) != (now.type, now.rows, now.strategy):
        return False
    return strata_of(before, was) == strata_of(after, now) and (
        {m.name for m in maps_of(before, was, every=True)}
        == {m.name for m in maps_of(after, now, every=True)}
    )


def shared(program: Program, known: Program) -> Program:
    """The program with what a known one has, too, as that has it."""
    made = program.copy()
    made.maps = {n: _same(m, known.maps.get(n)) for n, m in made.maps.items()}
    made.kept = {n: _same(k, known.kept.get(n)) for n, k in made.kept.items()}
    made.strata = {n: _same(s, known.strata.get(n)) for n, s in made.strata.items()}
    made.views = {n: _same(v, known.views.get(n)) for n, v in made.views.items()}
    made.checks = {n: made.maps[n] for n in made.checks}
    return made


def _same(made: Any, known: Any) -> Any:
    return known if known == made else made


# --- messages ---------------------------------------------------------------------------------------------------------


def _lost(term: Term, before: MapType, after: MapType) -> str:
    """A column that a query names of a relation, and that is gone or has another type."""
    assert isinstance(before.key, RecordType) and isinstance(after.key, RecordType)
    now = dict(after.key.fields)
    lost = {n for n, t in before.key.fields if now.get(n) != t}
    for t in subterms(term):
        match t:
            case Field(Var(_, row), name) if row == before.key and name in lost:
                return name
    return ""


def _circle(reads: Mapping[str, set[str]], waiting: Sequence[str]) -> QueryError:
    path = [waiting[0]]
    while path[-1] not in path[:-1]:
        path.append(next(r for r in sorted(reads[path[-1]]) if r in waiting))
    path = path[path.index(path[-1]) :]
    what = f"`{path[0]}` would read itself"
    if len(path) > 2:
        what += ", through " + " and ".join(f"`{n}`" for n in path[1:-1])
    return QueryError(what, hint="a view reads sources, and views that do not read it")
