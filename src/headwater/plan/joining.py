"""What a statement has yet to take of its monomial, and which block of it is looked up next.

A statement starts from the rows of one change. What it has not taken yet is a `Rest`: filters and arrays that read what
is not there, factors of the ring values, and blocks of other atoms. Whatever is ready is taken first; then a block is
looked up, which brings new columns, and so on until no block is left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.terms import Pred, Rel, Term, Unbox, Var, variables
from headwater.calculus.types import DYADIC, INT
from headwater.plan.failures import raises
from headwater.plan.flow import Flow, Link, connected, links_of, subterms_over
from headwater.plan.maps import FIRST_ORDER, output_of
from headwater.plan.program import Version
from headwater.rules.changes import Changed
from headwater.rules.equalities import equality, starred


@dataclass(frozen=True)
class Joining:
    """A block that is looked up in a version of it.

    `within` are the filters over it alone, and `links` tie it to what is known. Of its columns `needed` are read later.
    Of each ring value it holds the factors in `absorbed`.
    """

    atoms: tuple[tuple[Var, Term], ...]
    version: Version
    within: list[Term]
    links: list[Link]
    needed: list[Term]
    absorbed: list[list[Term]]


class Rest:
    """What of one term of a change is not in its statement yet."""

    def __init__(self, of: Changed, strategy: str, strata: Collection[str], directly: bool):
        """`directly`: everything is tied to what changes, where it is equal to a column of that, and not by way of others."""
        m = of.monomial
        self.sources = dict(m.atoms)
        self.arrays = [(v, s) for v, s in m.atoms if isinstance(s, Unbox)]
        self.driver, *others = [v for v, _ in m.atoms if v in of.change]
        filters = [f.condition for f in m.factors if isinstance(f, Pred)]
        self.directly = directly and strategy == FIRST_ORDER  # else what is left is kept as a join
        if self.directly:
            filters = starred(filters, self.driver)
        if len(m.atoms) == 1:
            # What cannot fail comes first: it may guard the others. Of joins nothing fails.
            filters.sort(key=raises)
        self.filters = list(dict.fromkeys(filters))
        scale = [f for f in m.factors if not isinstance(f, Pred)]
        self.key, values = output_of(m.output)
        self.rings = [[*scale, *v] for v in values]
        drives = self.sources[self.driver]
        assert isinstance(drives, Rel)
        self.drives = drives.name
        self.waiting: list[tuple[list[Var], Version]] = [([v], "change") for v in others]
        self.waiting += _blocks(of, filters, strategy)
        self.joined = [self.driver]
        """What is in the statement, in the order in which it came."""
        self.tied = _rows_tied(filters)
        self.answers = {v for v, s in m.atoms if isinstance(s, Rel) and s.name in strata}

    def take_ready(self, flow: Flow) -> None:
        """Takes filters and arrays whose columns are there; the elements of an array bring more."""
        while True:
            for f in [f for f in self.filters if flow.reads(f)]:
                flow.filter(f)
                self.filters.remove(f)
            ready = next(((v, s) for v, s in self.arrays if flow.reads(s)), None)
            if ready is None:
                return
            self.arrays.remove(ready)
            flow.expand(*ready)
            self.joined.append(ready[0])

    def next_block(self, known: set[Var]) -> Joining:
        """Takes the block to look up next, with the filters and factors that go with it."""
        block, version = max(self.waiting, key=lambda b: self._rank(b, known))
        self.waiting.remove((block, version))
        self.joined.extend(block)
        inside = set(block)
        links = links_of(self.filters, inside, known)
        within = [f for f in self.filters if variables(f) <= inside]
        self.filters = [f for f in self.filters if f not in within and f not in links]
        absorbed = [_absorbed(ring, inside) for ring in self.rings]
        self.rings = [
            [f for f in ring if f not in a] for ring, a in zip(self.rings, absorbed, strict=True)
        ]
        factors = [f for ring in self.rings for f in ring]
        reading = [*self.filters, *self.key, *factors, *(s for _, s in self.arrays)]
        needed = list(dict.fromkeys(p for t in reading for p in subterms_over(t, inside)))
        atoms = tuple((v, self.sources[v]) for v in block)
        return Joining(atoms, version, within, list(links.values()), needed, absorbed)

    def _rank(
        self, block: tuple[list[Var], Version], known: set[Var]
    ) -> tuple[bool, bool, bool, int, int, bool, bool]:
        """How soon a block is looked up: first what equalities tie to what is known, changes before the rest.

        Of several, by the column that most rows are joined by, which is likely a key and no mere attribute; then the one
        that is tied to what was looked up last, so that a chain of keys is followed to its end. What may find several rows
        for one is looked up last: it is for all that follows that there are more of them; and of such blocks that last whose
        columns no number reads, as rows that differ in nothing else are added up before it.
        """
        mine = set(block[0])
        tied = [f for f in self.filters if variables(f) & mine]
        whole = not mine & self.answers or all(variables(f) - mine <= known for f in tied)
        links = links_of(self.filters, mine, known).values()
        last = [max(self.joined.index(v) for v in variables(k.outer)) for k in links]
        joins = [self.tied.get(k.inner, 0) for k in links]
        read = [*self.key, *(f for ring in self.rings for f in ring)]
        one = bool(mine & self.answers) or not any(variables(t) & mine for t in read)
        one &= self.directly
        counted = any(variables(f) & mine for ring in self.rings for f in ring) and self.directly
        changes, most = block[1] == "change", max(joins, default=0)
        return bool(links), changes, whole, most, max(last, default=0), one, counted


def _blocks(of: Changed, filters: Sequence[Term], strategy: str) -> list[tuple[list[Var], Version]]:
    """What does not change, in the blocks that are looked up; where only inputs are kept, atom by atom."""
    rest = [v for v, s in of.monomial.atoms if v not in of.change and not isinstance(s, Unbox)]
    if strategy == FIRST_ORDER:
        return [([v], "new" if v in of.new else "old") for v in rest]
    old = [v for v in rest if v not in of.new]
    new: list[tuple[list[Var], Version]] = [([v], "new") for v in rest if v in of.new]
    return [*new, *((block, "old") for block in connected(old, filters))]


def _absorbed(ring: Sequence[Term], block: set[Var]) -> list[Term]:
    """The factors that a block's map can hold: those over it alone, unless numbers of others meet them."""
    mine = [f for f in ring if (v := variables(f)) and v <= block]
    others = [f for f in ring if f not in mine and isinstance(f, Unbox)]
    if any(type_of(f) == DYADIC for f in mine):  # whole numbers multiply it, and nothing else does
        others = [f for f in others if type_of(f) != INT]
    if others and any(isinstance(f, Unbox) for f in mine):
        return []
    return mine


def _rows_tied(filters: Sequence[Term]) -> dict[Term, int]:
    """Of each column that is compared: how many rows are joined by it and by those that are equal to it."""
    groups: list[set[Term]] = []
    for found in filter(None, map(equality, filters)):
        met = [g for g in groups if g.intersection(found.sides)]
        groups = [g for g in groups if g not in met] + [set(found.sides).union(*met)]
    sizes = [(g, len({v for t in g for v in variables(t)})) for g in groups]
    return {t: n for g, n in sizes for t in g}
