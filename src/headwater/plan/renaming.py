"""A program in which relations and views have other names: what it keeps stays as it is, under names that say so.

    renamed(compile(q)) = compile(renamed(q)),  up to the order of atoms

Maps and answers are named by digests of their terms, and a map of a name holds its term, whoever made it. So what reads a relation
gets the name that its term has now, all the way up: else a relation that takes the old name one day would be answered from what
is not its own. A name that does not follow from a term is drawn from the one that it was. Entries are what they were:
whoever commits the program lets each map take over the runs of the one that it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.notation.parse import parse
from headwater.calculus.notation.text import show
from headwater.calculus.terms import Rel, Term, relations, substitute
from headwater.calculus.types import bag
from headwater.errors import HeadwaterError
from headwater.plan.equal_maps import digest
from headwater.plan.loops import collection
from headwater.plan.maps import ring_columns
from headwater.plan.nested.opening import as_lists
from headwater.plan.program import (
    Answered,
    Kept,
    Lookup,
    Loop,
    Map,
    Product,
    Program,
    Relations,
    Settled,
    Statement,
    Stratum,
    Until,
    View,
)

NAMES = {
    Lookup: ("into",),
    Statement: ("drives",),
    Product: ("factors",),
    Stratum: ("name", "checks"),
    Settled: ("stratum", "asks"),
    Until: ("far",),
    Loop: ("name", "collections", "strata", "maps"),
    Answered: ("stratum",),
    View: ("checks",),
}
"""The fields of records that are names of relations, maps and answers."""
STEMS = ("", "first:", "2:", "first:2:", "loop:", "first:loop:", "2:loop:", "first:2:loop:")
"""What stands before the term of an answer in what it is named by (`Compiler.named`)."""


def in_term(term: Term, names: Mapping[str, str]) -> Term:
    """A term that reads relations by other names."""
    found: dict[Term, Term] = {
        r: Rel(names[r.name], r.type) for r in relations(term) if r.name in names
    }
    return substitute(term, found) if found else term


@with_room
def renamed(
    program: Program, names: Mapping[str, str], views: Mapping[str, str]
) -> tuple[Program, dict[str, str]]:
    """The program with relations and views under other names; and what all is called that has another name now."""
    return _Renaming(program, names, views).made()


class _Renaming:
    """One renaming of one program."""

    def __init__(self, program: Program, names: Mapping[str, str], views: Mapping[str, str]):
        self.program, self.views = program, views
        self.given = ", ".join(f"{a} {b}" for a, b in {**names, **views}.items())
        self.names = dict(names)
        self.owners = {c: loop for loop in program.loops.values() for c in loop.collections}
        self.maps: dict[Map, Map] = {}
        rows = program.relations.rows
        self.types = [{n: bag(as_lists(t)) for n, t in rows.items()}]
        self.types.append({n: bag(t) for n, t in rows.items()})
        recomputed = [v for v in program.views.values() if v.strategy == "recompute"]
        self.recomputed = {m.name: v.name for v in recomputed for m in v.maps}
        self.affected = self._affected()
        for n in sorted(self.affected):
            self._name(n)

    # --- whose names are others ---------------------------------------------------------------------------------------

    def _affected(self) -> set[str]:
        """The answers, loops and maps that read what is renamed, directly or not, and rows of views that are recomputed."""
        p, found, size = self.program, {*self.names, *self.views, *self.recomputed}, 0
        while len(found) > size:
            size = len(found)
            found |= {n for n, m in p.maps.items() if not found.isdisjoint(m.reads)}
            for s in p.strata.values():
                if any(m.name in found for m in s.maps):
                    found |= {s.name, *([s.answers.name] if s.answers else [])}
            for loop in p.loops.values():
                if loop.name in found or not found.isdisjoint((*loop.maps, *loop.relations)):
                    found |= {loop.name, *loop.collections}
                    found |= _of_diffuse(loop)
        return found - self.names.keys() - self.views.keys()

    def _name(self, name: str) -> str:
        """What something is called now."""
        if name in self.names or name not in self.affected:
            return self.names.get(name, name)
        p = self.program
        if name in self.owners:
            loop = self.owners[name]
            made = collection(self._name(loop.name), loop.collections.index(name))
        elif name in p.loops:
            made = self._by_text(name, "x", p.loops[name].text, ("", "first:"))
        elif name in p.strata:
            made = self._by_text(name, "r", p.strata[name].text, STEMS)
        elif name in p.maps:
            made = self._of_map(p.maps[name])
        else:
            made = self._drawn(name)
        self.names[name] = made
        return made

    def _drawn(self, name: str) -> str:
        return f"{name[:1]}{digest('renamed', self.given, name)}"

    def _by_text(self, name: str, kind: str, text: str, stems: tuple[str, ...]) -> str:
        """The name of what is named by its term, if that tells its name until now."""
        for stem in stems:
            if name == kind + digest(stem + text):
                now = self._text(text)
                return self._drawn(name) if now is None else kind + digest(stem + now)
        return self._drawn(name)

    def _of_map(self, m: Map) -> str:
        """The name of a map: by its term and how it is searched, or by the answer that it belongs to."""
        for s in self.program.strata.values():
            if s.answers is m and m.name == f"a{digest(s.name)}":
                return f"a{digest(self._name(s.name))}"
        now = self._text(m.text, bool(m.fields))
        if m.name in self.recomputed:
            of = self.recomputed[m.name]
            return f"v{digest(self.views.get(of, of), now or m.text)}"
        if now is None:
            return self._drawn(m.name)
        term = self._read(m.text, bool(m.fields))
        assert term is not None
        extra = m.ring[len(ring_columns(type_of(term))) :]
        described = ",".join(m.lookup), ",".join(m.route), m.kind, str(m.order)
        for stem in ("m", "base"):
            for more in (str(tuple(extra)), str(list(extra))):
                was = stem + digest(m.text, *described, more)
                for level in ("", str(m.level)):  # which a map has that is merged later than others
                    if m.name == was + level:
                        return stem + digest(now, *described, more) + level
        return self._drawn(m.name)

    # --- texts --------------------------------------------------------------------------------------------------------

    def _read(self, text: str, whole: bool = False) -> Term | None:
        """The term of a text, if it is one that prints as this text."""
        for types in reversed(self.types) if whole else self.types:
            try:
                term = parse(text, types)
            except HeadwaterError:
                continue
            if show(term) == text:
                return term
        return None

    def _text(self, text: str, whole: bool = False) -> str | None:
        """The text of a term with the names that there are now; None where it is none, or would not be read as the same."""
        term = self._read(text, whole)
        if term is None:
            return None
        for r in relations(term):
            self._name(r.name)
        return show(in_term(term, self.names))

    # --- records ------------------------------------------------------------------------------------------------------

    def made(self) -> tuple[Program, dict[str, str]]:
        p, at = self.program, self.names
        rel = p.relations
        out = Program(relations=Relations())
        out.relations.rows = {at.get(n, n): r for n, r in rel.rows.items()}
        out.relations.levels = {at.get(n, n): x for n, x in rel.levels.items()}
        out.relations.static = {at.get(n, n) for n in rel.static}
        out.maps = {at.get(n, n): self._map(m) for n, m in p.maps.items()}
        out.checks = {at.get(n, n): self._map(m) for n, m in p.checks.items()}
        out.kept = {at.get(n, n): self._kept(k) for n, k in p.kept.items()}
        out.strata = {at.get(n, n): self._record(s) for n, s in p.strata.items()}
        out.loops = {at.get(n, n): self._record(x) for n, x in p.loops.items()}
        out.views = {self.views.get(n, n): self._view(v) for n, v in p.views.items()}
        assert len(out.maps) == len(p.maps) and len(out.strata) == len(p.strata)
        return out, at

    def _view(self, view: View) -> View:
        made: View = self._record(view)
        told = {**self.names, **self.views}
        passes = tuple((told.get(what, what), by) for what, by in view.passes)
        return replace(made, name=self.views.get(view.name, view.name), passes=passes)

    def _kept(self, kept: Kept) -> Kept:
        made: Kept = self._record(replace(kept, changes={}))
        changes = {
            self.names.get(r, r): tuple(self._record(s) for s in found)
            for r, found in kept.changes.items()
        }
        return replace(made, changes=changes)

    def _map(self, m: Map) -> Map:
        """A map with its names and its text; the same for the same."""
        if m in self.maps:
            return self.maps[m]
        made, reads = self._told(m), tuple(self.names.get(r, r) for r in m.reads)
        if reads != m.reads or m.name in self.names:
            name, text = self.names.get(m.name, m.name), self._text(m.text, bool(m.fields))
            made = replace(made, name=name, text=text or m.text, reads=reads)
        if m.name in self.program.maps:  # others an increment arranges for itself
            self.maps[m] = made
        return made

    def _told(self, m: Map) -> Map:
        """A map whose note names what there is by the names of now."""
        head, of, rest = m.note.partition(" of ")
        name, comma, more = rest.partition(",")
        now = self.names.get(name, self.views.get(name, name))
        return m if now == name else replace(m, note=f"{head}{of}{now}{comma}{more}")

    def _record(self, value: Any) -> Any:
        """A record with the names that there are now; the same one where it names nothing of that."""
        if isinstance(value, Map):
            return self._map(value)
        if isinstance(value, tuple):
            made = tuple(self._record(v) for v in value)
            return made if any(a is not b for a, b in zip(made, value, strict=True)) else value
        if not is_dataclass(value) or type(value).__module__ != Map.__module__:
            return value
        named, new = NAMES.get(type(value), ()), {}
        for f in fields(value):
            cell = getattr(value, f.name)
            now = cell
            if f.name in named and isinstance(cell, tuple):
                now = tuple(self.names.get(n, n) for n in cell)
            elif f.name in named:
                now = self.names.get(cell, cell)
            elif f.name == "text":
                now = self._text(cell) or cell
            else:
                now = self._record(cell)
            if now is not cell:
                new[f.name] = now
        return replace(value, **new) if new else value  # type: ignore[type-var]


def _of_diffuse(loop: Loop) -> set[str]:
    """The maps and relations of a loop in diffuse mode that are its own."""
    if (kept := loop.diffuse) is None:
        return set()
    own = [*kept.told, *kept.steps, *kept.due, *kept.begins, *(x.groups for x in kept.settled)]
    own += [kept.aliases] if kept.aliases else []
    return {*(m.name for m in own), *(x.asks for x in kept.settled)}
