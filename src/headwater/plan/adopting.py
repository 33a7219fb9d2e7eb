"""Maps that follow others: a new map takes over what one that goes has, and is filled with the difference of both terms alone.

    m′ = m + D,  D = m′ - m

where both are sums over relations that an edit leaves as they are, D is between two filters or has fewer summands than m′, and
every summand of D can be computed from a relation that is read whole, and from maps that are kept. Else m′ is filled as a new map.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.terms import Rel, Var
from headwater.calculus.types import REAL
from headwater.errors import NotIncremental
from headwater.plan.equal_maps import canonical, sorted_monomial
from headwater.plan.maps import FIRST_ORDER, ring_columns, term_of
from headwater.plan.program import Map, Program, Statement
from headwater.plan.statements import Materializer, NoSuchMap
from headwater.rules.changes import Changed
from headwater.rules.difference import Difference, difference
from headwater.rules.monomial import Monomial, Signed, monomial, summands
from headwater.rules.normalize import normalize


@dataclass(frozen=True)
class Adopted:
    """A new map that takes over the entries of one that goes, and the statements that fill the difference."""

    map: Map
    of: Map
    filling: tuple[Statement, ...]


class Adopting:
    """The maps of a program that may follow those of the one before; maps in `again` are filled, whatever they had."""

    def __init__(self, before: Program, after: Program, again: Collection[str]):
        self.before, self.after, self.again = before, after, again
        self.places = {n: i for i, n in enumerate(after.kept)}
        self.inside = {*before.inside(), *after.inside()}
        self.old = {n for n in after.maps if n in before.maps and n not in again}

    @with_room
    def found(self) -> dict[str, Adopted]:
        """New maps by name with what they follow, each of them followed once."""
        gone = [
            m for n, m in self.before.maps.items() if n not in self.after.maps and self._plain(m)
        ]
        out: dict[str, Adopted] = {}
        for name in self.after.kept:
            m = self.after.maps[name]
            if name in self.before.maps or not self._plain(m):
                continue
            for other in [x for x in gone if _alike(x, m)]:
                made = self._adopted(m, other)
                if made is not None:
                    out[name] = made
                    gone.remove(other)
                    break
        return out

    def _plain(self, m: Map) -> bool:
        """Whether a map is the sum of its term over relations that stay as they are, and nothing else is added to it."""
        of = self.before if m.name in self.before.kept else self.after
        if m.name not in of.kept or m.fields:
            return False
        strata = [*self.before.strata.values(), *self.after.strata.values()]
        distinct = {x.name for s in strata if s.distinct for x in (s.group, *s.bags)}
        same = all(
            r not in of.strata or (r in self.before.strata and r in self.after.strata)
            for r in m.reads
        )
        whole = ring_columns(type_of(term_of(of, m))) == m.ring
        exact = all(t != REAL for _, t in m.ring)
        # What touches a loop is carried through its rounds: it is filled as a whole.
        moves = m.name in self.inside
        return same and whole and exact and m.name not in distinct and not moves

    def _adopted(self, m: Map, other: Map) -> Adopted | None:
        now, was = _terms(self.after, m), _terms(self.before, other)
        if any(r not in self.after.relations.rows for r in other.reads):
            return None
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


def _ways(term: Monomial, by: Collection[Var], strategy: str) -> Iterator[tuple[Var, str]]:
    """Which atom may be read whole, those that filters differ by first, and which maps are looked up for the others."""
    rows = [v for v, source in term.atoms if isinstance(source, Rel)]
    for v in sorted(rows, key=lambda v: v not in by):
        for one in dict.fromkeys((strategy, FIRST_ORDER)):
            yield v, one


def _alike(a: Map, b: Map) -> bool:
    """Whether the entries of two maps have the same columns, in the same order."""
    return (a.key, a.ring, a.lookup, a.kind, a.order) == (b.key, b.ring, b.lookup, b.kind, b.order)


def _terms(program: Program, m: Map) -> Signed:
    """What a map holds as monomials in one form."""
    found = summands(normalize(term_of(program, m)))
    return [(sign, monomial(canonical(sorted_monomial(x)))) for sign, x in found]
