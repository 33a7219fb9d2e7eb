"""Maps that follow others: a new map takes over what one that goes has, and is given the difference of both alone.

    m′ = m + D,  D = m′ - m                          another query over the same relations: D is filled
    m′(r′) = m(r) + Δm′(r, Δr),  Δr = r′ - r         the same query over an answer that differs: Δr is carried

In the first case D is between two filters or has fewer summands than m′, and every summand of D can be computed from a relation
that is read whole, and from maps that are kept. In the second the answer r′ is told from a group that is kept or taken over,
and Δr is the difference of both answers, or what D changes in them. Else m′ is filled as a new map.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.terms import Rel, Term, Var, relations, substitute
from headwater.calculus.types import REAL
from headwater.errors import NotIncremental
from headwater.plan.equal_maps import canonical, sorted_monomial
from headwater.plan.maps import FIRST_ORDER, ring_columns, term_of
from headwater.plan.program import Map, Program, Statement, Stratum
from headwater.plan.statements import Materializer, NoSuchMap
from headwater.rules.changes import Changed
from headwater.rules.difference import Difference, difference
from headwater.rules.monomial import Monomial, Signed, monomial, summands
from headwater.rules.normalize import normalize


@dataclass(frozen=True)
class Adopted:
    """A new map that takes over the entries of one that goes, and the statements that fill the difference.

    `carried` are the new answers that it reads: what they differ by is carried to it.
    """

    map: Map
    of: Map
    filling: tuple[Statement, ...] = ()
    carried: tuple[str, ...] = ()


@dataclass(frozen=True)
class Followed:
    """An answer that goes, and whether the new one says the same of every group."""

    of: Stratum
    same: bool


@dataclass(frozen=True)
class Adoption:
    """What a program takes over from the one before: maps by name, and answers by that of the new stratum."""

    maps: Mapping[str, Adopted] = field(default_factory=dict)
    strata: Mapping[str, Followed] = field(default_factory=dict)


class Adopting:
    """The maps of a program that may follow those of the one before; maps in `again` are filled, whatever they had."""

    def __init__(self, before: Program, after: Program, again: Collection[str]):
        self.before, self.after, self.again = before, after, again
        self.places = {n: i for i, n in enumerate(after.kept)}
        self.old = {n for n in after.maps if n in before.maps and n not in again}
        self.new_strata = {n for n in after.strata if n not in before.strata}
        strata = [*before.strata.values(), *after.strata.values()]
        self.distinct = {x.name for s in strata if s.distinct for x in (s.group, *s.bags)}
        # The maps of a loop are filled round by round, and what they read must be whole by then.
        loops = [*before.loops.values(), *after.loops.values()]
        self.rounds = {n for loop in loops for n in (*loop.relations, *loop.maps)}
        self.rounds |= {m.name for s in strata if s.name in self.rounds for m in s.maps}
        self.gone = [
            m for n, m in before.maps.items() if n not in after.maps and self._plain(before, m)
        ]
        # A bag of different values is filled with its group, so who looks it up would have to wait for that, too.
        apart = [
            (s.group, d.map) for n in self.new_strata for s in [after.strata[n]] for d in s.distinct
        ]
        late = any(self._new(group) and not self._new(bag) for group, bag in apart)
        self.carries = not again and not late and after.loops.keys() <= before.loops.keys()
        self.maps: dict[str, Adopted] = {}
        self.strata: dict[str, Followed | None] = {}

    @with_room
    def found(self) -> Adoption:
        """New maps by name with what they follow, each of them followed once; and the answers that differences are carried of."""
        for name in self.after.kept:
            m = self.after.maps[name]
            if name in self.before.maps or not self._plain(self.after, m):
                continue
            for other in [x for x in self.gone if _alike(x, m)]:
                made = self._carried(m, other) if self._new(m) else self._adopted(m, other)
                if made is not None:
                    self._take(made)
                    break
        for name in self.after.strata:
            if name in self.new_strata and name not in self.rounds:
                self._followed(name)
        carried = {r for a in self.maps.values() for r in a.carried}
        return Adoption(self.maps, {n: f for n, f in self.strata.items() if f and n in carried})

    def _take(self, made: Adopted) -> None:
        self.maps[made.map.name] = made
        self.gone = [m for m in self.gone if m is not made.of]

    def _plain(self, of: Program, m: Map) -> bool:
        """Whether a map is the sum of its term, and nothing else is added to it."""
        if m.name not in of.kept or m.fields or m.name in self.distinct | self.rounds:
            return False
        whole = ring_columns(type_of(term_of(of, m))) == m.ring
        return whole and all(t != REAL for _, t in m.ring)

    def _new(self, m: Map) -> list[str]:
        """The new answers that a map reads, and collections of loops that are new."""
        return [r for r in m.reads if r not in self.before.relations.rows]

    # --- another query over the same relations -------------------------------------------------------------------------

    def _adopted(self, m: Map, other: Map) -> Adopted | None:
        if any(r not in self.after.relations.rows for r in other.reads):
            return None
        now, was = _terms(term_of(self.after, m)), _terms(term_of(self.before, other))
        d = difference(now, was)
        if not d.filtered and len(d.terms) >= len(now):
            return None
        filling = self._filling(m, d)
        return None if filling is None else Adopted(m, other, filling)

    def _filling(self, m: Map, d: Difference) -> tuple[Statement, ...] | None:
        """Statements that add a difference to a map, from maps that are there by then; None if those are not enough."""
        maps = Materializer(self.after.copy())
        maps.frozen = True
        place, out = self.places[m.name], list[Statement]()
        for sign, term, by in d.terms:
            for whole, strategy in _ways(term, by, m.strategy):
                try:
                    made = maps._statement(m, sign, Changed(term, frozenset({whole})), strategy)
                except (NoSuchMap, NotIncremental):
                    continue
                if all(n in self.old or self.places.get(n, place) < place for n in made.reads):
                    out.append(made)
                    break
            else:
                return None
        return tuple(out)

    # --- the same query over an answer that differs --------------------------------------------------------------------

    def _carried(self, m: Map, other: Map) -> Adopted | None:
        """A map that is another one over answers that its own follow, and is told what they differ by."""
        new, changes = self._new(m), self.after.kept[m.name].changes
        if not self.carries:
            return None
        followed = {n: self._followed(n) for n in new}
        names = {n: f.of.name for n, f in followed.items() if f is not None and n in changes}
        if len(names) < len(new):
            return None
        every = [s for n in new for s in changes[n]]
        looked_up = {x for s in every for t in (s, *s.changes) for x in t.reads}
        if not all(map(self._as_before, looked_up)):
            return None
        term = term_of(self.after, m)
        renamed: dict[Term, Term] = {
            r: Rel(names[r.name], r.type) for r in relations(term) if r.name in names
        }
        d = difference(_terms(substitute(term, renamed)), _terms(term_of(self.before, other)))
        return None if d.terms else Adopted(m, other, (), tuple(new))

    def _as_before(self, name: str) -> bool:
        """Whether a map is over the answers as they were, when it is looked up for what they differ by."""
        if name in self.old or (name in self.maps and self.maps[name].carried):
            return True
        return not self._new(self.after.maps[name])

    def _followed(self, name: str) -> Followed | None:
        """The answer that goes which a new one follows: both have the same columns, and a group that is kept or taken over."""
        if name not in self.strata:
            s, found = self.after.strata[name], list[tuple[Stratum, bool, bool]]()
            for x in self.before.strata.values():
                gone = x.name not in self.after.strata and x.name not in self.rounds
                if gone and x.group == self._was(s.group):
                    as_it = _with_maps_of(x, s, self._was)
                    alike = as_it is not None and _with_answer_of(x, as_it) == x
                    found.append((x, alike, as_it == x))
            found.sort(key=lambda f: (f[0].type != s.type, not f[2], not f[1]))
            self.strata[name] = self._takes_over(s, *found[0]) if found else None
        return self.strata[name]

    def _takes_over(self, s: Stratum, x: Stratum, alike: bool, same: bool) -> Followed | None:
        """A new answer follows another one: what was answered last is that of the other, where it is told from the same."""
        if s.answers is not None:
            taken = any(a.of == x.answers for a in self.maps.values())
            # Of sums that only had to be above 0 the other has not kept more.
            told = set(x.only_there) <= set(s.only_there)
            if alike and told and x.answers is not None and not taken:
                self.maps[s.answers.name] = Adopted(s.answers, x.answers)
            else:
                same = False
        return Followed(x, same) if s.type == x.type else None

    def _was(self, m: Map) -> Map | None:
        """The map that one is, or follows, in the program before."""
        if m.name in self.old:
            return self.before.maps[m.name]
        return self.maps[m.name].of if m.name in self.maps else None


def _with_maps_of(x: Stratum, s: Stratum, was: Callable[[Map], Map | None]) -> Stratum | None:
    """A stratum by the name of another, over the maps that its own were before; None if some were none."""
    own = {m: was(m) for m in (s.group, *s.bags)}
    maps = {m: w for m, w in own.items() if w is not None}
    if len(maps) < len(own):
        return None
    return replace(
        s,
        name=x.name,
        text=x.text,
        group=maps[s.group],
        distinct=tuple(replace(d, map=maps[d.map]) for d in s.distinct),
        from_bags=tuple(replace(b, map=maps[b.map]) for b in s.from_bags),
        ranked=replace(s.ranked, map=maps[s.ranked.map]) if s.ranked else None,
        answers=x.answers,
        level=x.level,
        checks=x.checks,
    )


def _with_answer_of(x: Stratum, s: Stratum) -> Stratum:
    """A stratum with the rows of another, over its own components."""
    return replace(s, type=x.type, where=x.where, row=x.row, weight=x.weight)


def _ways(term: Monomial, by: Collection[Var], strategy: str) -> Iterator[tuple[Var, str]]:
    """Which atom may be read whole, those that filters differ by first, and which maps are looked up for the others."""
    rows = [v for v, source in term.atoms if isinstance(source, Rel)]
    for v in sorted(rows, key=lambda v: v not in by):
        for one in dict.fromkeys((strategy, FIRST_ORDER)):
            yield v, one


def _alike(a: Map, b: Map) -> bool:
    """Whether the entries of two maps have the same columns, in the same order."""
    return (a.key, a.ring, a.lookup, a.kind, a.order) == (b.key, b.ring, b.lookup, b.kind, b.order)


def _terms(term: Term) -> Signed:
    """What a map holds as monomials in one form."""
    found = summands(normalize(term))
    return [(sign, monomial(canonical(sorted_monomial(x)))) for sign, x in found]
